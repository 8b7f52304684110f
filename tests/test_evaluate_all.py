"""artifacts/evaluate_all.py: many Dockerfiles, by the fake docker, and in the end by real engines."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from cases import TRUE, run_command
from conftest import PROJECT, Fake, load_program
from engine import census, wait_for

PROGRAM = str(PROJECT / "artifacts" / "evaluate_all.py")
ea = load_program(PROGRAM)

BRIEF = run_command("sleep 0.1")
FAILS = "FROM x\nRUN FAIL\n"
CAUSE = "The command /bin/sh -c false returned a non-zero code: 7"  # or what it printed, whichever came last


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return the folder of a project, which is the current one."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(ea, "REST", 0.3)
    return folder


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def tree(project):
    """Write Dockerfiles, {"MODEL/REPO": text}, and for each repository a rubric."""

    def make(dockerfiles, *tests):
        for place, text in dockerfiles.items():
            write(project / "artifacts" / f"{place}.dockerfile", text)
            rubric = {"tests": list(tests or [TRUE])}
            write(project / "rubrics" / f"{place.rpartition('/')[2]}.json", json.dumps(rubric))
        return [project / "reports" / f"{place}.json" for place in dockerfiles]

    return make


@pytest.fixture
def run(capfd):
    """Run the tool in this process; return its exit code, what it printed and what it complained of."""

    def main(*words):
        try:
            code = ea.main(words)
        except SystemExit as error:
            code = error.code
        return (code, *capfd.readouterr())

    return main


def start(*words, **more):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True, **more}
    return subprocess.Popen([sys.executable, PROGRAM, *words], **pipes)


def kind(report):
    if not report.exists():
        return "none"
    error = json.loads(report.read_text())["error"]
    return error["kind"] if error else "whole"


def evaluations(report):
    """Return how many evaluations were begun, by the log."""
    log = report.with_suffix(".log")
    return log.read_text().count("building ") if log.exists() else 0


def builds(fake):
    """Return the Dockerfiles in the order in which they were built, as MODEL/REPO."""
    files = [call[call.index("--file") + 1] for call in fake.calls("build")]
    return [file.partition("/artifacts/")[2][: -len(".dockerfile")] for file in files]


# What is found


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


@pytest.mark.parametrize(("ask", "place"), [("listdir", "artifacts/a"), ("stat", "artifacts/a/.")])
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
    assert "evaluated 4, resumed 0, repeated 0, builds failed 0, engine faults 0, left out 5\n" in out


@pytest.mark.parametrize("words", [(), ("--artifacts", "nowhere"), ("--layout", "{repo}.docker")])
def test_nothing_to_evaluate_is_said_at_once(fake, project, run, words):
    (project / "artifacts").mkdir()
    code, _, errors = run(*words)
    assert (code, fake.calls()) == (1, [])
    assert re.search(
        "^error: (nothing to evaluate: no Dockerfile matches artifacts/|nowhere: No such file)", errors
    )


# What is done


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
        "evaluated 3, resumed 0, repeated 0, builds failed 1, engine faults 0, left out 0",
        "failed builds by cause:",
        "  1 of 1: " + CAUSE,
        "mean score by model:",
        "  gpt-5   25.0%",
        "  o3/p 1  12.5%",
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


def test_the_means_are_of_these_dockerfiles_and_say_what_they_lack(fake, project, tree, run):
    reports = tree({"m/app": "FROM x\n", "m/lib": "FROM x\n", "other/app": "FROM x\n"})
    run()
    os.rename(project / "artifacts/other", project / "elsewhere")
    reports[1].unlink()
    fake.fault(
        "build", "fail", given=str(project / "artifacts/m/lib.dockerfile"), stderr="error during connect"
    )
    code, out, _ = run("--parallel", "1")
    assert code == 1
    assert out.partition("mean score by model:\n")[2] == "  m  100.0% (1 of 2 reports)\n"


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


@pytest.mark.parametrize(
    "awkward", ['with "quotes"', "it's", "back\\slash", "$(touch pwned) `x` *", "-dash", "new\nline", "é€"]
)
def test_any_name_is_taken(fake, project, tree, run, awkward):
    (report,) = tree({f"{awkward}/{awkward}": "FROM x\n"})
    code, out, _ = run()
    assert (code, kind(report)) == (0, "whole")
    name = awkward.replace("\n", "\\n")
    assert f"[1/1] {name}/{name}: 1 of 1 tests, 100 %" in out
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


def test_a_usage_error_stops_all(fake, project, tree, run):
    tree({f"a/app{at}": "FROM x\n" for at in range(5)})
    fake.fault("run", "fail", code=125, stderr="docker: unknown flag: --frob", given="--frob")
    fake.fault("control run", "fail", code=125, stderr="docker: unknown flag: --frob", given="--frob")
    code, out, errors = run("--run-option=--frob", "--parallel", "1")
    assert (code, len(builds(fake)), out.count("usage error: ")) == (1, 1, 1)
    assert "error: stopped, since it would be the same for all: docker refuses the run options" in errors


def test_a_context_that_docker_refuses_stops_nobody_else(fake, project, tree, run):
    reports = tree({"a/app": "FROM x\n", "a/odd": "FROM x\n", "b/app": "FROM x\n"})
    for repo in ("app", "odd"):
        (project / "checkouts" / repo).mkdir(parents=True)
    for on in ("build", "control build"):
        fake.fault(on, "fail", given=str(project / "checkouts/odd"), stderr="error checking context")
    code, out, errors = run("--parallel", "1")
    assert (code, errors) == (1, "")
    assert [kind(report) for report in reports] == ["whole", "usage", "whole"]
    assert "] a/odd: usage: docker refuses the build context: error checking context\n" in out


def test_the_summary_of_github_is_not_filled_with_hundreds_of_tables(fake, project, tree, run, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary"))
    tree({"a/app": "FROM x\n"})
    assert run()[0] == 0
    assert not (project / "summary").exists()


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
    assert ea.cause_of(message, log) == cause


# The README


def test_the_readme_names_every_option_and_its_command_runs(fake, project, tree, run):
    readme = (PROJECT / "artifacts" / "README.md").read_text()
    flags = {flag for action in ea._parser()._actions for flag in action.option_strings if flag[:2] == "--"}
    assert flags - {"--help"} <= set(re.findall(r"--[a-z-]+", readme))
    tree({"gpt-5/app": "FROM x\n"})
    write(project / "artifacts/o3/app/Dockerfile", "FROM x\n")
    (command,) = re.findall(r"^\$ python3 artifacts/evaluate_all.py (.*)", readme, re.MULTILINE)
    code, out, _ = run(*shlex.split(command))
    assert code == 0
    assert "[1/1] o3/app: 1 of 1 tests, 100 % (" in out


# What is repeated

# Plays the evaluator: "FAIL" in a Dockerfile is a failed build, "LATE" a test that timed out; with "ONCE" only
# the first time. "BREAKS" is an engine fault.
EVALUATOR = """
import hashlib, json, os, sys
words = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
if "output" not in words:  # only the options are asked about
    sys.exit(1)
text = open(words["dockerfile"]).read()
environment = {"dockerfile_sha256": hashlib.sha256(text.encode()).hexdigest(), "context": ".", "build_options": []}
environment["rubric_sha256"] = hashlib.sha256(open(words["rubric"], "rb").read()).hexdigest()
environment.update({"run_options": [words.get("run-option", "")], "pid": os.getpid()})
old = json.load(open(words["output"])) if os.path.exists(words["output"]) else None
if "resume" in words and old and not (old["error"] and old["error"]["kind"] in ("engine", "interrupted")):
    if {**old["environment"], "pid": os.getpid()} == environment:
        sys.exit(print("resumed: "))
print("building x")
bad = "ONCE" not in text or not old
error = {"kind": "build", "message": "why"} if "FAIL" in text and bad else None
error = {"kind": "engine", "message": "why"} if "BREAKS" in text else error
status = "timeout" if "LATE" in text and bad else "passed"
summary = {"passed_tests": 0, "total_tests": 1, "total_score": 0, "max_score": 1, "total_execution_time": 0}
report = {"error": error, "summary": summary, "build": {"execution_time": 0, "log": ""}, "environment": environment}
json.dump({**report, "tests": [], "test_results": [{"status": status}]}, open(words["output"], "w"))
"""


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """Let a stand-in of the evaluator do the work, without any engine."""
    stub = tmp_path / "evaluator.py"
    stub.write_text(EVALUATOR)
    monkeypatch.setattr(ea, "EVALUATOR", str(stub))
    monkeypatch.setattr(ea, "check_engine", lambda *_: "")
    monkeypatch.setattr(ea, "mean_by_model", lambda *_: {})
    yield
    for file in tmp_path.rglob("*.json"):  # none of these is a whole report
        file.unlink()


@pytest.mark.parametrize("text", ["FAIL", "LATE"])
def test_a_doubtful_evaluation_is_repeated_once_alone_at_the_end(
    quick, project, tree, run, monkeypatch, text
):
    reports = tree({"a/app": text, "b/app": text})
    tree({f"{model}/zoo": "FROM x\n" for model in "abc"})
    starts = []
    popen = ea.Session._popen

    def watched(session, job):
        starts.append((job.task.place, len(session.running)))
        return popen(session, job)

    monkeypatch.setattr(ea.Session, "_popen", watched)
    code, out, _ = run("--parallel", "3")
    assert code == 0
    assert sorted(place for place, _ in starts[:5]) == ["a/app", "a/zoo", "b/app", "b/zoo", "c/zoo"]
    assert sorted(starts[5:]) == [("a/app", 0), ("b/app", 0)]
    assert out.count(", to be repeated at the end\n") == out.count(", repeated\n") == 2
    assert [evaluations(report) for report in reports] == [2, 2]
    code, out, _ = run()
    assert "evaluated 0, resumed 5, repeated 0" in out
    assert code == 0


def test_the_repetition_counts(quick, project, tree, run):
    (report,) = tree({"a/app": "FAIL ONCE"})
    code, out, _ = run()
    assert (code, kind(report)) == (0, "whole")
    assert kind(report.with_suffix(".first")) == "build"
    assert "evaluated 1, resumed 0, repeated 1, builds failed 0" in out


def test_without_repetition_nothing_is_evaluated_twice(quick, project, tree, run):
    (report,) = tree({"a/app": "FAIL"})
    assert run("--no-repeat")[0] == 0
    assert evaluations(report) == 1


def interrupted(report):
    data = json.loads(report.read_text())
    data["error"] = {"kind": "interrupted", "message": "the evaluation was interrupted"}
    report.write_text(json.dumps(data))


def without_report(report):
    report.unlink()


def with_the_first_report(report):
    report.write_bytes(report.with_suffix(".first").read_bytes())


@pytest.mark.parametrize("harm", [interrupted, without_report, with_the_first_report])
def test_an_interrupted_repetition_is_made_up_for_at_the_next_start_alone(quick, project, tree, run, harm):
    (report,) = tree({"a/app": "FAIL"})
    run()
    harm(report)
    code, out, _ = run()
    assert code == 0
    assert "evaluated 1, resumed 0, repeated 1," in out
    assert evaluations(report) == 3
    assert "evaluated 0, resumed 1, repeated 0," in run()[1]


@pytest.mark.parametrize(
    "changed", ["artifacts/a/app.dockerfile", "rubrics/app.json", "--run-option=--memory=2g"]
)
def test_what_was_repeated_with_other_files_or_options_is_repeated_again(quick, project, tree, run, changed):
    (report,) = tree({"a/app": "FAIL"})
    run()
    words = [changed] if changed.startswith("--") else []
    if not words:
        with open(changed, "a") as file:
            file.write("\n")
    code, out, _ = run(*words)
    assert code == 0
    assert "evaluated 1, resumed 0, repeated 1," in out
    assert evaluations(report) == 4
    assert "evaluated 0, resumed 1, repeated 0," in run(*words)[1]


def test_a_repetition_of_earlier_files_excuses_none(quick, project, tree, run):
    (report,) = tree({"a/app": "FAIL"})
    run()
    tree({"a/app": "x"})
    run()
    assert (kind(report), evaluations(report)) == ("whole", 3)
    tree({"a/app": "FAIL"})
    run()
    assert evaluations(report) == 5


def test_an_interrupted_repetition_is_no_excuse_for_other_options(quick, project, tree, run):
    (report,) = tree({"a/app": "FAIL"})
    run()
    interrupted(report)
    run("--run-option=--memory=2g")
    assert evaluations(report) == 4


def test_a_dockerfile_that_is_held_back_drops_no_repetition(quick, project, tree, run):
    reports = tree({"a/app0": "FAIL ONCE", "a/app1": "BREAKS"})
    code, out, _ = run("--parallel", "1")
    assert (code, [evaluations(report) for report in reports]) == (1, [2, 2])
    assert "evaluated 1, resumed 0, repeated 1, builds failed 0, engine faults 1," in out


def test_a_repetition_on_an_engine_that_fails_is_no_result(quick, project, tree, run, monkeypatch):
    (report,) = tree({"a/app": "FAIL ONCE"})
    monkeypatch.setattr(ea, "RESTS", 1)
    note = ea.Task.note_repetition

    def then_break(task):
        note(task)
        with open(task.dockerfile, "a") as file:
            file.write("BREAKS")

    monkeypatch.setattr(ea.Task, "note_repetition", then_break)
    code, out, _ = run()
    assert (code, kind(report)) == (1, "engine")
    assert "builds failed 0, engine faults 1, left out 0\n" in out


@pytest.mark.parametrize("words", [[], ["--fresh"]])
def test_files_in_the_way_are_named(quick, project, tree, run, words):
    reports = tree({"a/app": "x", "b/app": "x"})
    write(project / "reports" / "a", "a file")
    code, out, _ = run(*words)
    assert (code, evaluations(reports[1])) == (1, 1)
    assert "a/app: " in out


def test_a_log_that_somebody_removes_ends_nothing(quick, project, tree, run):
    reports = tree({"a/app": "x", "b/app": "x"})
    popen = ea.Session._popen

    def without_a_log(session, job):
        os.unlink(job.task.log)
        return popen(session, job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ea.Session, "_popen", without_a_log)
        code, out, _ = run()
    assert (code, [kind(report) for report in reports]) == (0, ["whole", "whole"])
    assert "evaluated 2," in out


# Engines at fault


@pytest.fixture
def second(fake, tmp_path, monkeypatch):
    """Return a second stand-in, which is the engine `two`."""
    other = Fake(tmp_path / "fake2", fake.program)
    program = tmp_path / "programs" / "docker2"
    choose = f'[ "$DOCKER_CONTEXT" = two ] && export FAKE_DOCKER={other.folder}'
    program.write_text(f'#!/bin/sh\n{choose}\nexec {fake.program} "$@"\n')
    program.chmod(0o755)
    other.words = ["--docker", str(program), "--engine", "one", "--engine", "two"]
    return other


def test_evaluations_are_shared_out_among_engines(fake, second, project, tree, run):
    tree({f"a/app{at}": "FROM x\n" for at in range(6)}, BRIEF)
    code, _out, _ = run(*second.words, "--parallel", "2")
    assert (code, sorted(builds(fake) + builds(second))) == (0, [f"a/app{at}" for at in range(6)])
    assert min(len(builds(fake)), len(builds(second))) >= 2


def test_a_broken_engine_is_known_before_anything_is_built(fake, project, tree, run):
    tree({"a/app": "FROM x\n"})
    fake.fault("control run", "fail", code=125, stderr="docker: no bridge")
    code, out, errors = run()
    assert (code, builds(fake), out) == (1, [], "")
    assert "error: the docker engine: it cannot start a container of a minimal image: docker: no b" in errors
    assert errors.endswith("error: no engine works; nothing was evaluated\n")


def test_an_engine_that_is_not_there_yet_is_waited_for(fake, project, tree, run):
    (report,) = tree({"a/app": "FROM x\n"})
    fake.fault("version", "fail", nth=1, stderr="Cannot connect to the Docker daemon")
    assert run()[0] == 1
    fake.fault("version", "fail", nth=2, stderr="Cannot connect to the Docker daemon")
    code, _out, errors = run("--wait", "60")
    assert (code, kind(report), errors) == (0, "whole", "")


def test_the_work_of_an_engine_that_is_lost_goes_to_another(fake, second, project, tree, run):
    reports = tree({f"a/app{at}": "FROM x\n" for at in range(6)}, BRIEF)
    second.fault("build", "lose", nth=2)
    code, out, _ = run(*second.words, "--parallel", "2")
    assert (code, {kind(report) for report in reports}) == (0, {"whole"})
    assert "; two rests 0 s" in out
    assert "evaluated 6, resumed 0, repeated 0, builds failed 0, engine faults 0" in out


def test_an_engine_comes_back_after_its_rest_and_its_faults_count_for_nobody(fake, project, tree, run):
    reports = tree({f"a/app{at}": "FROM x\n" for at in range(3)})
    fake.fault("build", "lose", nth=2)

    def restart():
        wait_for((fake.folder / "lost.json").exists)
        wait_for(lambda: len(fake.calls("version")) >= seen() + 4)
        (fake.folder / "lost.json").unlink()

    def seen():
        return next(at for at, call in enumerate(fake.calls("version")) if at) + 2

    thread = threading.Thread(target=restart)
    thread.start()
    code, _out, errors = run("--parallel", "1")
    thread.join()
    assert (code, [kind(report) for report in reports]) == (0, ["whole"] * 3)
    assert "error: the docker engine: " in errors
    assert "; the docker engine rests 0 s" in errors


def test_a_dockerfile_that_breaks_engines_is_held_back_for_the_next_start(fake, project, tree, run):
    reports = tree({f"a/app{at}": "FROM x\n" for at in range(4)})
    file = str(project / "artifacts/a/app1.dockerfile")
    fake.fault("build", "die", given=file)
    code, out, _ = run("--parallel", "1")
    assert code == 1
    assert [kind(report) for report in reports] == ["whole", "engine", "whole", "whole"]
    assert evaluations(reports[1]) == 2
    assert "\n  a/app1: held back for the next start: engine fault: the docker program was killed" in out
    assert "evaluated 3, resumed 0, repeated 0, builds failed 0, engine faults 1" in out
    fake.write("faults", [])
    code, out, _ = run()
    assert (code, kind(reports[1])) == (0, "whole")


def test_an_engine_that_stays_away_is_given_up(fake, project, tree, run, monkeypatch):
    monkeypatch.setattr(ea, "RESTS", 3)
    reports = tree({f"a/app{at}": "FROM x\n" for at in range(3)})
    fake.fault("build", "lose", nth=2)
    code, out, errors = run("--parallel", "1")
    assert code == 1
    assert [kind(report) for report in reports] == ["whole", "engine", "none"]
    assert "; the docker engine is given up\n" in errors
    assert "engine faults 1, left out 0, other without a report 1\n" in out


def test_closed_streams_end_nothing(fake, project, tree):
    (report,) = tree({"a/app": "FROM x\n"})
    shell = 'exec "$@" >&- 2>&- <&-'
    done = subprocess.run(["sh", "-c", shell, "sh", sys.executable, PROGRAM])
    assert (done.returncode, kind(report)) == (0, "whole")


# Killed in the middle


def slow_tree(tree, count=8):
    return tree({f"m{at // 4}/app{at}": "FROM x\n" for at in range(count)}, run_command("sleep 1.5"))


def some_are_done(reports):
    def enough():
        done = sum(kind(report) == "whole" for report in reports if report.exists())
        logged = sum(evaluations(report) for report in reports)
        return done >= 2 and len(reports) > logged > done

    return enough


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_lets_those_under_way_clean_up_and_a_second_start_goes_on(fake, project, tree, number, code):
    reports = slow_tree(tree)
    with start("--parallel", "3") as first:
        wait_for(some_are_done(reports))
        os.kill(first.pid, number)
        said = first.communicate(timeout=60)[0].decode()
    assert first.returncode == code
    assert "interrupted; waiting for 3 to clean up (interrupt again to skip that)\n" in said
    assert fake.left() == []
    kinds = [kind(report) for report in reports]
    assert set(kinds) <= {"whole", "interrupted", "none"}
    assert "none" in kinds
    counts = [evaluations(report) for report in reports]
    with start("--parallel", "3") as second:
        said = second.communicate(timeout=120)[0].decode()
    assert (second.returncode, {kind(report) for report in reports}) == (0, {"whole"})
    assert f"resumed {kinds.count('whole')}," in said
    again = [after - before for before, after in zip(counts, map(evaluations, reports))]
    assert again == [0 if before == "whole" else 1 for before in kinds]
    assert fake.left() == []


def test_a_second_signal_leaves_clean_up_too(fake, project, tree):
    reports = slow_tree(tree)
    fake.fault("container rm", "hang", **{"from": 2})  # after that of the control
    with start("--parallel", "2") as first:
        wait_for(lambda: fake.calls("run"))
        os.kill(first.pid, signal.SIGINT)
        while b"interrupted; " not in first.stdout.readline():
            pass
        wait_for(lambda: len(fake.calls("container", "rm")) > 1)
        os.kill(first.pid, signal.SIGINT)
        said = first.communicate(timeout=25)[0].decode()  # less than the evaluator waits for a call
    assert first.returncode == 130
    assert "interrupted; leaving\n" in said
    assert {kind(report) for report in reports} <= {"interrupted", "none"}


def test_after_a_kill_those_under_way_end_alone_and_nothing_is_evaluated_twice(fake, project, tree):
    reports = tree({f"a/app{at}": "FROM x\n" for at in range(3)}, run_command("sleep 8"))
    with start("--parallel", "2") as first:
        wait_for(lambda: len(fake.calls("run")) == 2)
        os.kill(first.pid, signal.SIGKILL)
        with start("--parallel", "2") as second:
            said = second.communicate(timeout=120)[0].decode()
    assert (second.returncode, {kind(report) for report in reports}) == (0, {"whole"})
    assert "waiting: another start is evaluating it\n" in said
    assert [evaluations(report) for report in reports] == [1] * len(reports)
    assert fake.left() == []


def test_two_starts_share_a_tree(fake, project, tree):
    reports = tree({f"a/app{at}": "FROM x\n" if at else FAILS for at in range(6)}, BRIEF)
    with start("--parallel", "2") as first, start("--parallel", "2") as second:
        assert (first.wait(120), second.wait(120)) == (0, 0)
    assert [evaluations(report) for report in reports] == [2] + [1] * 5


def test_an_evaluator_that_is_killed_leaves_no_report_and_is_named(fake, project, tree):
    reports = tree({"a/app": "FROM x\nSLEEP\n"})
    with start() as first:
        wait_for(lambda: builds(fake))
        evaluator = wait_for(lambda: children(first.pid))[0]
        os.kill(evaluator, signal.SIGKILL)
        said = first.communicate(timeout=60)[0].decode()
    assert first.returncode == 1
    assert "a/app: no report: exit code -9: building artifacts/a/app.dockerfile\n" in said
    assert "other without a report 1\n" in said
    assert kind(reports[0]) == "none"


def children(pid):
    words = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE).stdout.split()
    return [int(word) for word in words]


# The screen


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (
            120,
            "[############..................] 80/200, 1 h 15 min left: gpt-5/express, o3/flask, a-model-with-a-long-name/repository",
        ),
        (80, "[########............] 80/200, 1 h 15 min left: gpt-5/express, o3/flask, a-mod…"),
        (40, "[####......] 80/200, 1 h 15 min left: …"),
        (10, "[##....]…"),
    ],
)
def test_the_bar_fits_the_terminal(columns, line):
    tasks = list(range(200))
    places = ["gpt-5/express", "o3/flask", "a-model-with-a-long-name/repository"]
    running = [SimpleNamespace(task=SimpleNamespace(place=place)) for place in places]
    done = set(tasks[:80])
    began = time.monotonic() - 3000 + 10
    session = SimpleNamespace(tasks=tasks, finished=done, ended=80, running=running, parallel=8, began=began)
    session.todo, session.repeats = tasks[83:], []
    found = ea.bar(session, columns)
    assert found == line
    assert len(found) < columns


def test_repetitions_are_reckoned_one_at_a_time():
    session = SimpleNamespace(tasks=range(8), finished=[], ended=8, todo=[], running=[], repeats=range(8))
    session.parallel, session.began = 8, time.monotonic() - 480 + 1
    assert ea.bar(session, 80) == "[....................] 0/8, 1 h 4 min left"


def test_an_interrupt_ends_the_check_of_an_engine_that_hangs(fake, project, tree):
    tree({"a/app": "FROM x\n"})
    fake.fault("control build", "hang")
    with start() as process:
        wait_for(lambda: any(call[0] == "build" for call in fake.calls()))
        os.kill(process.pid, signal.SIGINT)
        said = process.communicate(timeout=30)[0].decode()  # the control would take 60 s
    assert (process.returncode, "interrupted; waiting for 1 to clean up" in said) == (130, True)


def test_a_terminal_shows_a_bar_below_the_lines(fake, project, tree, monkeypatch):
    tree({"a/app": "FROM x\n"}, run_command("sleep 1"))
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with start("--parallel", "1", stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):
            while process.poll() is None or select.select([ours], [], [], 0)[0]:
                said += os.read(ours, 1000) if select.select([ours], [], [], 1)[0] else b""
    os.close(ours)
    assert process.returncode == 0
    assert b"\r\x1b[K[....................] 0/1: a/app" in said
    lines = re.sub(rb"[^\n]*\r\x1b\[K", b"", said.replace(b"\r\n", b"\n")).decode().splitlines()
    assert re.sub(r"\d+ s", "N s", lines[1]) == "[1/1] a/app: 1 of 1 tests, 100 % (build N s, tests N s)"


def test_a_screen_that_is_closed_or_full_ends_nothing(fake, project, tree):
    reports = tree({"a/app": "FROM x\n", "b/app": "FROM x\n"})
    with open("/dev/full", "w") as full, start(stdout=full, stderr=full) as process:
        assert process.wait(60) == 0
    assert [kind(report) for report in reports] == ["whole"] * 2


# On real engines


def real_tree(tree, count, *tests, base="busybox:stable"):
    return tree({f"m/app{at}": f"FROM {base}\nENV N={at}\n" for at in range(count)}, *tests)


def test_on_an_engine_a_kill_loses_nothing_and_leaves_nothing(buildkit, project, tree):
    """BuildKit leaves no image of a build that is stopped; the legacy builder leaves its cached layers."""
    before = census()
    reports = real_tree(tree, 8, run_command("sleep 2"))
    with start("--parallel", "2") as first:
        wait_for(some_are_done(reports), 120)
        os.kill(first.pid, signal.SIGKILL)
    with start("--parallel", "2") as second:
        wait_for(lambda: sum(map(evaluations, reports)) >= 5, 120)
        os.kill(second.pid, signal.SIGINT)
        assert second.wait(120) == 130
    # those of the first start end by themselves, maybe after the second
    wait_for(lambda: all(kind(report) != "none" for report in reports if evaluations(report)), 120)
    assert {name: census()[name] for name in ("containers", "tags", "volumes")} == {
        name: before[name] for name in ("containers", "tags", "volumes")
    }
    # what was interrupted may have been so before its build began
    needed = [1 if kind(report) == "whole" else evaluations(report) + 1 for report in reports]
    with start("--parallel", "2") as third:
        assert third.wait(240) == 0
    assert [kind(report) for report in reports] == ["whole"] * 8
    assert [evaluations(report) for report in reports] == needed
    assert census()["containers"] == before["containers"]
    assert census()["tags"] == before["tags"]


def test_two_engines_one_of_which_is_killed_in_the_middle(private_engine, project, tree, monkeypatch):
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    engines = [private_engine(), private_engine()]
    reports = real_tree(tree, 10, run_command("sleep 1"))
    words = [word for engine in engines for word in ("--engine", engine.host)]
    with start("--parallel", "2", *words) as process:
        wait_for(some_are_done(reports), 120)
        engines[1].kill()
        said = process.communicate(timeout=300)[0].decode()
    engines[1].start()
    assert (process.returncode, [kind(report) for report in reports]) == (0, ["whole"] * 10), said
    assert f"; {engines[1].host} rests 60 s\n" in said


def test_an_engine_that_starts_late(private_engine, project, tree):
    private = private_engine()
    private.stop()
    (report,) = real_tree(tree, 1, TRUE)
    with start("--engine", private.host, "--wait", "120") as process:
        time.sleep(1)  # it may find the engine or not: the test is that it waits
        assert process.poll() is None
        private.start()
        assert process.wait(240) == 0
    assert kind(report) == "whole"


def test_verdicts_do_not_depend_on_how_many_run(engine, legacy, project, tree, run):
    """A command takes most of its limit alone, and beside others it has to wait for them."""
    (project / "shared").mkdir()
    waits = run_command("flock /shared/lock sleep 6", timeout=11)
    reports = real_tree(tree, 3, waits, base="debian:bookworm-slim")
    words = [f"--run-option=--volume={project}/shared:/shared", "--fresh"]
    for parallel, repeated in ((1, [0]), (8, [1, 2])):
        code, out, _ = run("--parallel", str(parallel), *words)
        assert code == 0
        assert out.count(", repeated\n") in repeated
        assert [json.loads(report.read_text())["summary"]["passed_tests"] for report in reports] == [1] * 3
