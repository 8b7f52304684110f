"""One evaluation of each kind on Python 3.7, and the help of each program.

`tests/run` names that Python in DOCKERFILE_EVALUATOR_OLDEST.
"""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

import pytest
from cases import FALSE, TRUE, run_command
from conftest import PROJECT, statuses

OLDEST = os.environ.get("DOCKERFILE_EVALUATOR_OLDEST", "")
pytestmark = [
    pytest.mark.skipif(not OLDEST, reason="DOCKERFILE_EVALUATOR_OLDEST names no Python 3.7"),
    pytest.mark.long("starts another Python"),
]

EVALUATOR = PROJECT / "DockerfileEvaluator.py"
PROGRAMS = [
    "DockerfileEvaluator.py",
    "artifacts/evaluate_all.py",
    "reports/leaderboard.py",
    "rubrics/review.py",
]


class Evaluation(NamedTuple):
    """What is evaluated, and how the evaluator ends."""

    when: str
    tests: list[dict]
    statuses: list[str]  # of the tests
    last_instruction: str = "RUN true"
    exit_code: int = 1


EVALUATIONS = [
    Evaluation("each test passes", tests=[TRUE], statuses=["passed"], exit_code=0),
    Evaluation("a test fails", tests=[TRUE, FALSE], statuses=["passed", "failed"]),
    Evaluation(
        "a test times out",
        tests=[TRUE, run_command("sleep 60", timeout=0.5)],
        statuses=["passed", "timeout"],
    ),
    Evaluation(
        "the image does not build",
        last_instruction="RUN FAIL",
        tests=[TRUE],
        statuses=["not_run"],
    ),
]


def run_with_oldest_python(*words: object) -> subprocess.CompletedProcess:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([OLDEST, *map(str, words)], text=True, **pipes)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_prints_its_help(program):
    done = run_with_oldest_python("-W", "error", PROJECT / program, "--help")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
    assert done.stderr == ""


@pytest.mark.parametrize("row", EVALUATIONS, ids=lambda row: row.when)
def test_evaluation(fake, arguments, report, row):
    words = arguments(["FROM x", row.last_instruction], *row.tests)

    done = run_with_oldest_python(EVALUATOR, *words)

    assert done.returncode == row.exit_code, done.stderr
    assert list(statuses(report()).values()) == row.statuses
    assert fake.left() == [], "a container or an image is left"
