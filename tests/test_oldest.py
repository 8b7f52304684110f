"""Python 3.7: the help of each program, and one evaluation of each kind.

`tests/run` names that Python in DOCKERFILE_EVALUATOR_OLDEST.
"""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

import pytest
from cases import FALSE, LOOK, TRUE, run_command
from conftest import PIPES, PROJECT, statuses

OLDEST = os.environ.get("DOCKERFILE_EVALUATOR_OLDEST", "")
pytestmark = [
    pytest.mark.skipif(not OLDEST, reason="DOCKERFILE_EVALUATOR_OLDEST names no Python 3.7"),
    pytest.mark.long("starts another Python"),
]
PROGRAMS = [
    "DockerfileEvaluator.py",
    "artifacts/evaluate_all.py",
    "reports/leaderboard.py",
    "rubrics/review.py",
]


def run(program, *words):
    """Run a program of the project with the oldest Python."""
    return subprocess.run([OLDEST, "-W", "error", str(PROJECT / program), *words], **PIPES)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_prints_its_help(program):
    done = run(program, "--help")

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"usage: ")


class Evaluation(NamedTuple):
    """The last line of a Dockerfile, and the statuses of the tests."""

    line: str
    statuses: list


EVALUATIONS = [
    Evaluation("RUN true", ["passed", "passed", "failed", "timeout"]),
    Evaluation("RUN exit 3", ["not_run"] * 4),
]


@pytest.mark.parametrize("row", EVALUATIONS, ids=lambda row: row.line)
def test_evaluation(fake, arguments, report, row):
    tests = [TRUE, LOOK, FALSE, run_command("sleep 60", timeout=0.5)]

    done = run("DockerfileEvaluator.py", *arguments(["FROM x", row.line], *tests))

    assert done.returncode == 1, done.stderr
    assert list(statuses(report()).values()) == row.statuses
    assert fake.left() == []
