"""One evaluation of each kind on Python 3.7, and the tools. `tests/run` sets DOCKERFILE_EVALUATOR_OLDEST."""

from __future__ import annotations

import os
import subprocess

import pytest
from cases import FALSE, TRUE, run_command
from conftest import PROJECT, statuses

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
EVALUATIONS = {
    "passes": ("RUN true", [TRUE], 0, "passed"),
    "fails": ("RUN true", [TRUE, FALSE], 1, "failed"),
    "times out": ("RUN true", [run_command("sleep 60", timeout=0.5)], 1, "timeout"),
    "does not build": ("RUN FAIL", [TRUE], 1, "not_run"),
}


def oldest(*words: object) -> subprocess.CompletedProcess:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([OLDEST, *map(str, words)], text=True, **pipes)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_prints_its_help(program):
    done = oldest("-W", "error", PROJECT / program, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ") is True
    assert done.stderr == ""


@pytest.mark.parametrize("kind", EVALUATIONS)
def test_evaluation(fake, arguments, report, kind):
    line, tests, code, last = EVALUATIONS[kind]
    done = oldest(PROJECT / PROGRAMS[0], *arguments(["FROM x", line], *tests))
    assert (done.returncode, [*statuses(report()).values()][-1], fake.left()) == (code, last, []), (
        done
    )
