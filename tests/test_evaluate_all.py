"""artifacts/evaluate_all.py: what it does with a tree, by the fake docker."""

from __future__ import annotations

import json
import os
import re

import pytest
from cases import TRUE, run_command
from conftest import PROJECT
from trees import CAUSE, FAILS, builds, ea, inventory, kind, write

import DockerfileEvaluator as de

pytest_plugins = ["trees"]
pytestmark = pytest.mark.long("evaluates whole trees by the program itself")


def test_a_tree_is_evaluated_and_what_has_a_report_is_resumed(fake, project, tree, run):
    reports = tree(
        {"gpt-5/app": "FROM x\n", "o3/p 1/app": "FROM x\n", "o3/p 1/lib": FAILS},
        TRUE,
        run_command("false", score=3),
    )
    (project / "checkouts/app").mkdir(parents=True)
    (project / "checkouts/lib").mkdir(parents=True)
    code, out, errors = run("--parallel", "1", "--no-repeat")
    assert (code, errors) == (0, "")
    words = re.sub(r"\d+ s", "N s", out).replace("last words of the build", CAUSE)
    assert words.splitlines() == [
        "3 Dockerfiles of 2 models, 1 in parallel",
        "[1/3] gpt-5/app: 1 of 2 tests, 25 % (build N s, tests N s)",
        "[2/3] o3/p 1/app: 1 of 2 tests, 25 % (build N s, tests N s)",
        "[3/3] o3/p 1/lib: build failed: " + CAUSE + " (N s)",
        "evaluated 3, resumed 0, repeated 0, builds failed 1, left out 0, without a result 0",
        "failed builds by cause:",
        "  1 of 1: " + CAUSE,
        "mean score by model:",
        "  gpt-5    25.0%  (1 report)",
        "  o3/p 1   12.5%  (2 reports)",
    ]
    report = json.loads(reports[1].read_text())
    assert (report["repo"], report["rubric"], report["environment"]["context"]) == (
        "app",
        "rubrics/app.json",
        "checkouts/app",
    )
    log = reports[1].with_suffix(".log").read_text()
    assert "1 of 2 tests passed" in log
    before = [report.read_text() for report in reports]
    built = len(builds(fake))
    code, out, _ = run("--parallel", "8")
    again = out.splitlines()
    assert (
        "[3/3] o3/p 1/lib: build failed: The command /bin/sh -c false returned a non-zero code: 7"
        not in again
    )
    assert (
        "evaluated 1, resumed 2, repeated 1, builds failed 1" in out
    )  # by default the failed build is repeated
    assert code == 0
    assert [report.read_text() == text for report, text in zip(reports, before)] == [True, True, False]
    assert reports[1].with_suffix(".log").read_text() == log
    assert len(builds(fake)) == built + 1
    assert fake.left() == []


@pytest.mark.long("waits for a registry")
def test_the_means_are_of_these_dockerfiles_and_say_what_they_lack(fake, project, tree, run):
    reports = tree({"m/app": "FROM x\n", "m/lib": "FROM x\n", "other/app": "FROM x\n"})
    run()
    os.rename(project / "artifacts/other", project / "elsewhere")
    reports[1].unlink()
    fake.write("pull", {"stderr": "dial tcp: no such host"})
    away = {"stdout": "Step 1/1 : FROM x\n", "stderr": "dial tcp: no such host"}
    fake.fault("build", "fail", given=str(project / "artifacts/m/lib.dockerfile"), **away)
    code, out, _ = run("--parallel", "1")
    assert code == 1
    assert out.partition("mean score by model:\n")[2] == (
        "  m  100.0%  (1 of 2 reports)\n"
        "no Dockerfile is behind these, which leaderboard.py counts: 'reports/other/app.json'\n"
    )


def test_fresh_starts_over(fake, project, tree, run):
    tree({"a/app": FAILS})
    assert run()[0] == 0
    assert len(builds(fake)) == 2
    code, out, _ = run("--fresh")
    assert (code, len(builds(fake))) == (0, 4)
    assert "evaluated 1, resumed 0, repeated 1," in out


def test_no_report_is_written_over_what_is_read(fake, project, run):
    write(project / "app.dockerfile", "FROM x\n")
    write(project / "app.json", json.dumps({"tests": [TRUE]}))
    words = ["--artifacts=.", "--rubrics=.", "--reports=.", "--layout={repo}.dockerfile", "--fresh"]
    code, _, errors = run(*words)
    assert (code, fake.calls(), (project / "app.json").exists()) == (1, [], True)
    assert "app.json would overwrite what is to be read" in errors


def test_the_context_is_the_dockerfiles_own_folder_without_checkouts(fake, project, tree, run):
    (report,) = tree({"a/app": "FROM x\n"})
    run()
    assert json.loads(report.read_text())["environment"]["context"] == "artifacts/a"
    code, _, errors = run("--checkouts", "there")
    assert code == 1
    assert "there/app: no such folder for the build context" in errors


@pytest.mark.long("nine trees")
@pytest.mark.parametrize(
    "awkward",
    [
        "\udcff\udcfe bytes",
        "\x1b[31m",
        'with "quotes"',
        "it's",
        "back\\slash",
        "$(touch pwned) `x` *",
        "-dash",
        "new\nline",
        "é€",
    ],
)
def test_any_name_is_taken(fake, project, tree, run, awkward):
    (report,) = tree({f"{awkward}/{awkward}": "FROM x\n"})
    code, out, _ = run()
    assert (code, kind(report)) == (0, "whole")
    name = ea.shown(awkward)
    assert f"[1/1] {name}/{name}: 1 of 1 tests, 100 %" in out
    assert out.endswith(f"mean score by model:\n  {name}  100.0%  (1 report)\n")
    assert not list(project.rglob("pwned"))


def test_options_of_the_evaluator_are_handed_on(fake, project, tree, run):
    (report,) = tree({"a/app": "FROM x\n"})
    code, _, _ = run("--run-option=--memory=2g", "--build-timeout", "77", "--jobs", "3", "--verbose")
    environment = json.loads(report.read_text())["environment"]
    assert code == 0
    assert (environment["run_options"], environment["build_timeout"], environment["jobs"]) == (
        ["--memory=2g"],
        77,
        3,
    )
    assert "  | $ cd /" in report.with_suffix(".log").read_text()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--build-cache", "much"], "--build-cache: expected a size such as 20GB"),
        (["--build-opt=x"], "--build-opt cannot be given for many Dockerfiles, or not in short"),
        (["--output", "x"], "--output cannot be given for many Dockerfiles"),
        (["--out=x"], "--out cannot be given for many Dockerfiles"),
        (["--resume"], "--resume cannot"),
        (["--eng=x"], "--eng cannot"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["artifacts"], "unrecognized arguments: artifacts"),
        (["--jobs", "many"], "argument --jobs: invalid int value: 'many'"),
        (["--parallel", "0"], "--parallel: expected a whole number of at least 1"),
        (["--wait", "nan"], "--wait: expected a number of seconds"),
        (["--fresh", "--jobs=0"], "jobs 0: expected a whole number of at least 1"),
        (["--build-option=--tag=x"], "'--tag=x': --tag is refused, since the evaluation depends on it"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_done(fake, project, tree, run, words, why):
    tree({"a/app": "FROM x\n"})
    code, _, errors = run(*words)
    assert (code, fake.calls()) == (2, [])
    assert f"evaluate_all: error: {why}" in errors


@pytest.mark.long("waits between builds")
def test_a_context_that_docker_refuses_stops_nobody_else(fake, project, tree, run):
    reports = tree({"a/app": "FROM x\n", "a/odd": "FROM x\n", "b/app": "FROM x\n"})
    for repo in ("app", "odd"):
        (project / "checkouts" / repo).mkdir(parents=True)
    for on in ("build", "control build"):
        fake.fault(on, "fail", given=str(project / "checkouts/odd"), stderr="error checking context")
    code, out, errors = run("--parallel", "1")
    assert (code, errors) == (1, "")
    assert [kind(report) for report in reports] == ["whole", "usage", "whole"]
    assert "] a/odd: usage error: docker refuses the build context: error checking context\n" in out


def test_the_summary_of_a_step_in_github_actions_is_one_for_all(quick, project, tree, run, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary"))
    tree({"a/app": "FROM x\n", "a/```": "FAIL"})
    _, out, _ = run()
    counts = out[out.index("evaluated 2, ") :]
    assert (project / "summary").read_text() == f"### Dockerfiles\n\n```\n{counts}```\n"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/nowhere/at/all")
    code, _, errors = run()
    assert (code, errors) == (
        0,
        "error: /nowhere/at/all: the summary cannot be written: No such file or directory\n",
    )


def test_the_evaluator_writes_no_summary_of_its_own(fake, project, tree, run, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary"))
    tree({"a/app": "FROM x\n"})
    run()
    assert (project / "summary").read_text().count("###") == 1


def test_the_log_holds_all_that_is_said_so_that_a_long_evaluation_can_be_followed(fake, project, tree, run):
    (report,) = tree({"a/app": "FROM x\n"}, run_command("echo out"))
    run()
    log = report.with_suffix(".log").read_text()
    assert "  | Step 1/1 : FROM scratch\n" in log
    assert "  | $ echo out\n  | out\n" in log


def test_reports_are_written_as_junit_too_also_of_what_is_resumed(fake, project, tree, run):
    tree({"a/1/app": "FROM x\n", "b/app": "FROM x\n"})
    run("--model", "b")
    code, out, _ = run("--junit", "junit")
    assert (code, "evaluated 1, resumed 1," in out) == (0, True)
    for place in ("a/1/app", "b/app"):
        assert (project / "junit" / f"{place}.xml").read_text().startswith("<?xml")


@pytest.mark.parametrize("size", ["20GB", "1.5gib"])
def test_the_build_cache_is_bounded_at_the_start_and_after_each_evaluation(fake, project, tree, run, size):
    tree({"a/app": "FROM x\n", "a/bat": "FROM x\n"})
    program = project / "docker"
    write(program, f'#!/bin/sh\n[ "$1" = builder ] || exec {fake.program} "$@"\necho "$@" >>prunes\n')
    program.chmod(0o755)
    code, _, errors = run("--build-cache", size, "--docker", str(program), "--parallel", "1")
    assert (code, errors) == (0, "")
    assert (project / "prunes").read_text() == f"builder prune --force --keep-storage {size}\n" * 3


def test_an_engine_whose_build_cache_cannot_be_bounded_is_left_out(fake, project, tree, run):
    tree({"a/app": "FROM x\n"})
    program = project / "docker"
    write(program, f'#!/bin/sh\n[ "$1" = builder ] || exec {fake.program} "$@"\necho unknown >&2; exit 1\n')
    program.chmod(0o755)
    code, _, errors = run("--build-cache", "1GB", "--docker", str(program))
    assert (code, builds(fake)) == (1, [])
    assert "error: the docker engine: docker builder prune: unknown\n" in errors


def test_the_processors_of_the_engines_are_the_default(fake, project, tree, run, monkeypatch):
    tree({"a/app": "FROM x\n"})
    assert " 3 in parallel\n" in run()[1]  # as the stand-in's `docker info` says
    assert " 6 in parallel on 2 engines\n" in run("--engine", "one", "--engine", "two", "--engine", "one")[1]
    assert (
        " 8 in parallel on 3 engines\n" in run("--engine", "one", "--engine", "two", "--engine", "three")[1]
    )
    assert " 20 in parallel\n" in run("--parallel", "20")[1]


def test_what_cannot_be_written_is_named_and_the_rest_goes_on(fake, project, tree, run):
    reports = tree({"a/app": "FROM x\n", "b/app": "FROM x\n"})
    write(project / "reports/a", "a file where a folder should be")
    code, out, _ = run()
    assert (code, kind(reports[1])) == (1, "whole")
    assert "a/app: reports/a: File exists" in out or "a/app: reports/a/app.log: Not a directory" in out


@pytest.mark.parametrize(
    ("message", "log", "cause"),
    [
        (
            "step 3 of 6 (RUN apt-get install x): exit code 100: E: Unable to locate package x",
            "",
            "E: Unable to locate package x",
        ),
        ("step 1 of 1 (RUN (a); (b)): exit code 1: why", "", "why"),
        ("step 2 of 2 (COPY a b): COPY failed: no such file", "", "COPY failed: no such file"),
        ("the build took over 5 s and was stopped", "", "the build took over 5 s and was stopped"),
        (
            "step 1 of 1 (RUN x): exit code 100: E: Unable to locate package y",
            "Err:1 http://deb.debian.org bookworm InRelease\n  Temporary failure resolving 'deb.debian.org'\n",
            "Temporary failure resolving deb.debian.org",
        ),
        ("failed to parse .dockerfile.845990f403134abbcf0a: why", "", "failed to parse .dockerfile.…: why"),
        ("x", "fatal: Could not resolve host: github.com\n", "Could not resolve host: github.com"),
        ("x", "503 Service Unavailable\nNo space left on device\n", "No space left on device"),
    ],
)
def test_a_cause_is_told_in_words_that_builds_share(message, log, cause):
    assert inventory.cause_of(message, log) == cause


# The README


def test_the_readme_names_every_option_and_a_tree_of_ones_own_needs_none(quick, project, tree, run):
    readme = (PROJECT / "artifacts" / "README.md").read_text()
    flags = {flag for action in ea._parser()._actions for flag in action.option_strings if flag[:2] == "--"}
    assert flags - {"--help"} <= set(re.findall(r"--[a-z-]+", readme))
    (own,) = re.findall(r"^    (artifacts/.*)\n    (artifacts/.*)\n", readme, re.MULTILINE)
    for path in " ".join(own).split():
        write(
            project / path, json.dumps({"tests": [TRUE]}) if path.endswith(".json") else "FROM x\n"
        ) if path[-1] != "/" else (project / path).mkdir(parents=True)
    code, out, errors = run("--parallel", "1")
    assert (code, errors, re.findall(r"\] (\S+):", out)) == (0, "", ["gpt-5/express", "o3/express"])


def test_what_dask_has_evaluated_is_resumed_and_its_failed_builds_are_repeated(fake, project, tree, run):
    reports = tree({"a/app": "FROM x\n", "a/lib": FAILS})
    for report in reports:
        (project / "checkouts" / report.stem).mkdir(parents=True)
        file = f"artifacts/a/{report.stem}.dockerfile"
        found = de.evaluate(file, report.stem, context=f"checkouts/{report.stem}", wait=600)
        write(report, json.dumps(found, indent=2))
    code, out, _ = run()
    assert (code, "evaluated 1, resumed 1, repeated 1, builds failed 1," in out) == (0, True)
