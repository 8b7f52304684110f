"""The check scripts, run for real in the shells that images have, on the host, through the fake docker."""

from __future__ import annotations

import os

import pytest
from cases import CASES, ENVIRONMENT, fill
from conftest import statuses

import DockerfileEvaluator as de


@pytest.fixture
def place(fake):
    """Fill the folder in which the scripts start."""
    fill(fake.root)
    os.mkfifo(fake.root / "pipe")
    fake.write("environment", ENVIRONMENT)
    return fake


def test_every_type_has_cases():
    assert set(CASES) == set(de.CHECKS)


@pytest.mark.parametrize("kind", sorted(CASES))
def test_each_case_gets_its_verdict_in_each_shell(kind, place, evaluate, shell):
    place.write("shell", shell)
    cases = CASES[kind]
    report = evaluate(["FROM x"], *((kind, params) for params, _, _ in cases))
    for row, (params, status, message) in zip(report["test_results"], cases):
        # What plays /bin/sh here has another name, and tells of a syntax error by that.
        words = "exit code 2" if params == {"command": "if"} else message
        assert (row["status"], words in row["message"]) == (status, True), (params, row)
    assert place.left() == []


def test_a_new_type_is_added_in_one_place(monkeypatch, place, evaluate):
    """A ninth type: a class, which names its type, and nothing else anywhere."""
    monkeypatch.setattr(de, "CHECKS", dict(de.CHECKS))

    class FileEmpty(de.Check, test_type="file_empty"):
        def __init__(self, params):
            self.path = params.text("path")

        def script(self):
            return de.Script('test -f "$1" && test ! -s "$1"', (self.path,))

        def judge(self, run):
            return de.Verdict(de.PASSED if run.status == 0 else de.FAILED, f"exit {run.status}")

    (place.root / "empty").write_text("")
    report = evaluate(["FROM x"], ("file_empty", {"path": "empty"}), ("file_empty", {"path": "file"}))
    assert statuses(report) == {"file_empty_1": "passed", "file_empty_2": "failed"}


def test_a_timeout_ends_the_container_and_nothing_else(place, evaluate):
    report = evaluate(
        ["FROM x"],
        {"type": "run_command", "params": {"command": "echo begun; sleep 60"}, "timeout": 0.5},
        {"type": "run_command", "params": {"command": "trap '' TERM INT; yes"}, "timeout": 0.5},
        ("run_command", {"command": "! ls ../containers | grep -e '-[12]$'"}),
    )
    assert [row["status"] for row in report["test_results"]] == ["timeout", "timeout", "passed"]
    slow = report["test_results"][0]
    assert slow["output"] == "begun\n"
    assert 0.5 <= slow["execution_time"] < 2.5
    assert place.left() == []
