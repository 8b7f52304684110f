"""artifacts/evaluate_all.py: what it finds, and what it leaves out."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil

import pytest
from cases import TRUE
from trees import builds, ea, kind, write

pytest_plugins = ["trees"]


def place_of(layout, file):
    match = ea.layout_pattern(layout).fullmatch(file)
    return match and (match.groupdict().get("model"), match["repo"])


@pytest.mark.parametrize(
    ("layout", "file", "place"),
    [
        ("{model}/{repo}.dockerfile", "gpt-5/express.dockerfile", ("gpt-5", "express")),
        ("{model}/{repo}.dockerfile", "gpt-5/prompt 1/express.dockerfile", ("gpt-5/prompt 1", "express")),
        ("{model}/{repo}.dockerfile", "express.dockerfile", None),
        ("{model}/{repo}.dockerfile", "a/express.Dockerfile", None),
        ("{model}/{repo}.dockerfile", "a/xdockerfile", None),
        ("{repo}.dockerfile", "express.dockerfile", (None, "express")),
        ("{model}/{repo}/envgym/envgym.dockerfile", "a/b/r/envgym/envgym.dockerfile", ("a/b", "r")),
        ("{model}/{repo}/envgym/envgym.dockerfile", "a/r/envgym/other.dockerfile", None),
        ("{model}/*/{repo}/Docker*", "a/2026-11-22/r/Dockerfile", ("a", "r")),
        ("{model}/*/{repo}/Docker*", "a/r/Dockerfile", None),
        ("run-*/{repo}/{model}/Dockerfile", "run-7/r/a/b/Dockerfile", ("a/b", "r")),
        ("./{model}/{repo}-*.txt", "a/r-1.txt", ("a", "r")),
    ],
)
def test_a_layout_names_model_and_repository(layout, file, place):
    assert place_of(layout, file) == place


@pytest.mark.parametrize(
    "layout",
    [
        "{model}.dockerfile",
        "{repo}/{repo}",
        "{model}/{model}/{repo}",
        "{commit}/{repo}",
        "/a/{repo}",
        "../{repo}",
    ],
)
def test_a_layout_that_is_none_is_wrong_usage(run, project, layout):
    code, _, errors = run("--layout", layout)
    assert code == 2
    assert "error: --layout: expected" in errors


def test_links_are_followed_but_not_in_circles_and_hidden_names_are_passed_over(fake, project, tree, run):
    tree({"a/app": "FROM x\n", ".git/b/app": "FROM x\n"})
    os.symlink("..", project / "artifacts/a/up")
    os.symlink("itself", project / "artifacts/itself")
    write(project / "elsewhere/app.dockerfile", "FROM x\n")
    os.symlink("../elsewhere", project / "artifacts/linked")
    code, out, _ = run("--parallel", "1")
    assert code == 0
    assert re.findall(r"\] (\S+):", out) == ["a/app", "linked/app"]


@pytest.mark.parametrize(("ask", "place"), [("scandir", "artifacts/a"), ("stat", "artifacts/a/.")])
def test_a_folder_that_cannot_be_read_is_named(fake, project, tree, run, monkeypatch, ask, place):
    """Neither listed nor, as with mode 644, entered; root may do both, so here the answers are played."""
    reports = tree({"a/app": "FROM x\n", "b/app": "FROM x\n"})
    answer = getattr(os, ask)

    def refuse(path, *words, **more):
        if str(path) == place:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return answer(path, *words, **more)

    monkeypatch.setattr(os, ask, refuse)
    code, _, errors = run()
    assert (code, errors, kind(reports[1])) == (
        1,
        "error: left out: Permission denied: 'artifacts/a'\n",
        "whole",
    )


def test_a_hidden_folder_of_the_layout_is_looked_into(fake, project, tree, run):
    tree({"a/app": "FROM x\n"})
    write(project / "artifacts/b/app/.devcontainer/Dockerfile", "FROM x\n")
    code, _, _ = run("--layout", "{model}/{repo}/.devcontainer/Dockerfile")
    assert (code, kind(project / "reports/b/app.json")) == (0, "whole")


def test_what_cannot_be_evaluated_is_named_before_anything_is_built(fake, project, tree, run):
    tree({f"{place}": "FROM x\n" for place in ("1/app", "2/app", "1/bad", "2/bad", "1/none", "1/bare")})
    write(project / "rubrics/bad.json", '{"tests": [{"type": "run_comand", "params": {}}, {}]}')
    (project / "rubrics/none.json").unlink()
    for repo in ("app", "bad", "none"):
        (project / "checkouts" / repo).mkdir(parents=True)
    os.symlink("nowhere", project / "artifacts/1/app2.dockerfile")
    (project / "checkouts/app2").mkdir()
    write(project / "rubrics/app2.json", json.dumps({"tests": [TRUE]}))
    write(project / "artifacts/run/3/app.dockerfile", "FROM x\n")
    write(project / "artifacts/other/3/app.dockerfile", "FROM x\n")
    code, out, errors = run("--layout", "*/{repo}.dockerfile")
    assert (code, builds(fake)) == (1, [])
    assert (
        "reports/app.json would be the report on each of them: 'artifacts/1/app.dockerfile', 'artifacts/2/"
        in errors
    )
    code, out, errors = run()
    assert code == 1
    assert "left out: rubrics/bad.json: " in errors
    assert "did you mean 'run_command'?" in errors
    assert "'artifacts/1/bad.dockerfile', 'artifacts/2/bad.dockerfile'" in errors
    assert "left out: rubrics/none.json: " in errors
    assert (
        "left out: checkouts/bare: no such folder for the build context: 'artifacts/1/bare.dockerfile'"
        in errors
    )
    assert "left out: not a regular file that can be read: 'artifacts/1/app2.dockerfile'" in errors
    assert sorted(builds(fake)) == ["1/app", "2/app", "other/3/app", "run/3/app"]
    assert "evaluated 4, resumed 0, repeated 0, builds failed 0, left out 5, without a result 0\n" in out


@pytest.mark.parametrize("words", [(), ("--artifacts", "nowhere"), ("--layout", "{repo}.docker")])
def test_nothing_to_evaluate_is_said_at_once(fake, project, run, words):
    (project / "artifacts").mkdir()
    code, _, errors = run(*words)
    assert (code, fake.calls()) == (1, [])
    assert re.search(
        "^error: (nothing to evaluate: no Dockerfile matches 'artifacts/|nowhere: No such file)", errors
    )


@pytest.mark.parametrize("layouts", [["{model}/{repo}.dockerfile", "{model}/{repo}/Dockerfile"]])
def test_layouts_may_be_several_and_the_first_that_fits_counts(quick, project, tree, run, layouts):
    tree({"a/app": "FROM x\n"})
    write(project / "artifacts/a/app/Dockerfile", "FROM y\n")  # the same report
    write(project / "artifacts/b/app/Dockerfile", "FROM x\n")
    words = [word for layout in [*layouts, "*/{model}/{repo}"] for word in ("--layout", layout)]
    code, out, errors = run(*words)
    assert (code, re.findall(r"\] (\S+):", out)) == (1, ["b/app"])
    assert "reports/a/app.json would be the report on each of them: 'artifacts/a/app.dockerfile', '" in errors


def test_repository_by_repository_so_that_what_is_interrupted_has_compared_something(
    quick, project, tree, run
):
    tree({f"{model}/{repo}": "FROM x\n" for model in ("a", "b/1", "c") for repo in ("lib", "app")})
    _, out, _ = run("--parallel", "1")
    assert re.findall(r"\] (\S+):", out) == ["a/app", "b/1/app", "c/app", "a/lib", "b/1/lib", "c/lib"]


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (["--model", "a"], ["a/app", "a/lib"]),
        (["--model=a", "--model=b/*"], ["a/app", "b/1/app", "a/lib", "b/1/lib"]),
        (["--repo", "l?b"], ["a/lib", "b/1/lib"]),
        (["--model", "b*", "--repo", "[!l]*"], ["b/1/app"]),
    ],
)
def test_models_and_repositories_are_chosen_by_patterns_also_for_a_fresh_start(
    quick, project, tree, run, words, places
):
    tree({f"{model}/{repo}": "FROM x\n" for model in ("a", "b/1") for repo in ("lib", "app")})
    _, out, _ = run(*words, "--parallel", "1")
    assert re.findall(r"\] (\S+):", out) == places
    _, out, _ = run("--fresh", *words, "--parallel", "1")
    assert f"evaluated {len(places)}, resumed 0," in out
    assert f"resumed {len(places)}," in run()[1]


def test_what_is_not_chosen_needs_no_rubric(quick, project, tree, run):
    tree({"a/app": "FROM x\n", "a/lib": "FROM x\n"})
    (project / "rubrics/lib.json").unlink()
    code, _, errors = run("--repo", "app")
    assert (code, errors) == (0, "")


def test_one_report_is_of_one_dockerfile_also_over_links(quick, project, tree, run):
    reports = tree({"a/app": "FROM x\n", "b/app": "FROM x\n", "c/app": "FROM x\n"})
    (project / "reports/b").mkdir(parents=True)
    os.symlink("b", project / "reports/a")
    code, out, errors = run()
    assert (code, re.findall(r"\] (\S+):", out)) == (1, ["c/app"])
    for one in "ab":
        report = f"reports/{one}/app.json would be the report on each of them"
        assert f"error: left out: {report}: 'artifacts/{one}/app.dockerfile'\n" in errors
    assert [kind(report) for report in reports] == ["none", "none", "whole"]


@pytest.mark.parametrize("folder", ["app.json", "app.log", "app.first"])
def test_a_report_path_that_is_a_folder_of_others_is_named_before_anything_is_built(
    quick, project, tree, run, folder
):
    reports = tree({"a/app": "FROM x\n", f"a/{folder}/lib": "FROM x\n"})
    code, _, errors = run()
    assert (code, reports[0].is_file(), kind(reports[1])) == (1, False, "whole")
    assert "left out: reports/a/app.json would be a folder of reports, too: 'artifacts/a/app.dock" in errors
    shutil.rmtree(str(project / "reports"))  # whose folders are no reports to conftest.py either


def test_the_file_of_the_bases_is_no_report(quick, project, run):
    write(project / "artifacts/bases.dockerfile", "FROM x\n")
    write(project / "rubrics/bases.json", json.dumps({"tests": [TRUE]}))
    code, _, errors = run("--layout", "{repo}.dockerfile")
    assert code == 1
    assert "left out: reports/bases.json would overwrite what is to be read" in errors


def test_reports_that_no_dockerfile_is_behind_are_named(quick, project, tree, run):
    tree({"a/app": "FROM x\n", "b/app": "FROM x\n"})
    run()
    os.rename(project / "artifacts/b", project / "elsewhere")
    write(project / "reports/notes.json", "{}")
    _, out, _ = run("--repo", "app")
    named = "no Dockerfile is behind these, which leaderboard.py counts: 'reports/b/app.json'\n"
    assert out.endswith(named)


# --list


def test_a_list_says_what_would_be_done_and_does_nothing(quick, project, tree, run):
    tree({"a/app": "FROM debian:12\n", "a/lib": "FROM debian:12\n", "b 1/app": "FROM busybox\nRUN FAIL\n"})
    assert run("--repo", "app", "--docker", "no-such-docker")[0] == 0
    write(project / "artifacts/c/none.dockerfile", "FROM x\n")
    before = sorted(project.rglob("*"))
    code, out, errors = run("--list", "--docker", "no-such-docker")
    assert code == 1
    assert out.splitlines() == [
        "a: 2 Dockerfiles, 1 of them resumed",
        "b 1: 1 Dockerfile, 1 of them resumed",
        "base debian:12, 2 Dockerfiles",
        "base busybox:latest, 1 Dockerfile",
    ]
    assert "error: left out: rubrics/none.json: " in errors
    assert sorted(project.rglob("*")) == before
    assert (
        "a: 2 Dockerfiles, 0 of them resumed\n" in run("--list", "--fresh", "--docker", "no-such-docker")[1]
    )


def test_a_list_knows_that_a_file_has_changed(quick, project, tree, run):
    tree({"a/app": "FROM x\n"})
    run()
    write(project / "artifacts/a/app.dockerfile", "FROM y\n")
    assert "a: 1 Dockerfile, 0 of them resumed\n" in run("--list", "--docker", "no-such-docker")[1]
