"""Trees of Dockerfiles for the tests of artifacts/evaluate_all.py: a plugin of pytest.

Test modules name it in `pytest_plugins`, and import its helpers (PYTEST_DONT_REWRITE).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cases import TRUE, run_command
from conftest import PROJECT, Fake, load_program

PROGRAM = str(PROJECT / "artifacts" / "evaluate_all.py")
ea = load_program(PROGRAM)
inventory = sys.modules["inventory"]  # which it imports

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
    lines = log.read_text().splitlines() if log.exists() else []
    return sum(line.startswith("building ") for line in lines)  # buildx has lines of its own that say so


def builds(fake):
    """Return the Dockerfiles in the order in which they were built, as MODEL/REPO."""
    files = [call[call.index("--file") + 1] for call in fake.calls("build")]
    return [file.partition("/artifacts/")[2][: -len(".dockerfile")] for file in files]


# Plays the evaluator. What a Dockerfile says comes to pass, with ONCE only where there is no report yet, with
# ON ENGINE only there: FAIL is a failed build, LATE a test that timed out, BREAKS an engine fault, and so on.
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
if "resume" in words and old and not (old["error"] and old["error"]["kind"] not in ("build", "build_timeout")):
    if {**old["environment"], "pid": os.getpid()} == environment:
        sys.exit(print("resumed: "))
print("building x")
bad = not ("ONCE" in text and old) and text.partition(" ON ")[2] in ("", words.get("engine"))
kinds = {"FAIL": "build", "BREAKS": "engine", "NO REGISTRY": "registry", "REFUSED": "usage"}
kind = next((kind for word, kind in kinds.items() if word in text and bad), "")
why = "docker refuses the build context: why" if "CONTEXT" in text else "why"
test = {"test_id": "t", "status": "passed", "message": ""}
if "LATE" in text and bad:
    test["status"] = "timeout"
if "CANNOT START" in text and bad:
    test.update(status="failed", message="the image cannot be started: no such user")
summary = {"passed_tests": 0, "total_tests": 1, "total_score": 0, "max_score": 1, "total_execution_time": 0}
report = {"error": {"kind": kind, "message": why} if kind else None, "summary": summary, "test_results": [test]}
report.update({"build": {"execution_time": 0, "log": ""}, "environment": environment})
json.dump(report, open(words["output"], "w"))
"""


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """Let a stand-in of the evaluator do the work, without any engine."""
    stub = tmp_path / "evaluator.py"
    stub.write_text(EVALUATOR)
    monkeypatch.setattr(ea, "EVALUATOR", str(stub))
    monkeypatch.setattr(ea.Engine, "check", lambda *_: None)
    monkeypatch.setattr(ea, "means", lambda *_: [])
    yield
    for file in filter(Path.is_file, tmp_path.rglob("*.json")):  # none of these is a whole report
        file.unlink()


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


def real_tree(tree, count, *tests, base="busybox:stable"):
    return tree({f"m/app{at}": f"FROM {base}\nENV N={at}\n" for at in range(count)}, *tests)


def some_are_done(reports):
    def enough():
        done = sum(kind(report) == "whole" for report in reports if report.exists())
        logged = sum(evaluations(report) for report in reports)
        return done >= 2 and len(reports) > logged > done

    return enough
