"""Python 3.7: the help of each program, and one evaluation of each kind.

`tests/run` names that Python in DOCKERFILE_EVALUATOR_OLDEST.
"""

from __future__ import annotations

import os
import subprocess

import pytest
from cases import FALSE, LOOK, TRUE, run_command
from conftest import PIPES, PROJECT, statuses

OLDEST = os.environ.get("DOCKERFILE_EVALUATOR_OLDEST", "")
pytestmark = [
    pytest.mark.skipif(not OLDEST, reason="DOCKERFILE_EVALUATOR_OLDEST names no Python 3.7"),
    pytest.mark.long("starts another Python"),
]


def run(program, *words):
    """Run a program of the project with the oldest Python."""
    return subprocess.run([OLDEST, "-W", "error", str(PROJECT / program), *words], **PIPES)


@pytest.mark.parametrize(
    "program",
    [
        "DockerfileEvaluator.py",
        "artifacts/evaluate_all.py",
        "reports/leaderboard.py",
        "rubrics/review.py",
    ],
)
def test_program_prints_its_help(program):
    done = run(program, "--help")

    assert done.stdout.startswith(b"usage: ")
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("line", "expected"),
    [("RUN true", ["passed", "passed", "failed", "timeout"]), ("RUN exit 3", ["not_run"] * 4)],
)
def test_evaluation(fake, arguments, report, line, expected):
    tests = [TRUE, LOOK, FALSE, run_command("sleep 60", timeout=0.5)]

    done = run("DockerfileEvaluator.py", *arguments(["FROM x", line], *tests))

    assert done.returncode == 1, done.stderr
    assert list(statuses(report()).values()) == expected
    assert fake.left() == []
