"""The verdict of a test as a function of what docker shows, without docker."""

from __future__ import annotations

import pytest
from cases import TRUE

import DockerfileEvaluator as de

STARTED = de.ContainerState(was_started=True, exit_code=1)
ENDS_1 = {"exit_code": 1, "statuses": ()}
LOST = "the connection to the engine was lost, or docker was killed"

# What differs from a complete run with the exit code 0, the status, the message
VERDICTS = [
    ({}, "passed", "exit code 0"),
    ({"statuses": (3,), "exit_code": 3}, "failed", "exit code 3: no output"),
    ({"statuses": (3,), "exit_code": 3, "output": "E: x"}, "failed", "exit code 3: E: x"),
    ({"expired": "check", "statuses": (), "exit_code": None}, "timeout", "timed out after 30 s (container killed)"),
    # The first run: once more
    ({"begins": 0, **ENDS_1}, "inconclusive", "no begin marker (exit code 1)"),
    ({"begins": 2}, "inconclusive", "more than one begin marker (exit code 0)"),
    (ENDS_1, "inconclusive", "no end marker (exit code 1)"),
    ({"statuses": (0, 0)}, "inconclusive", "more than one end marker (exit code 0)"),
    ({"exit_code": 125}, "inconclusive", "end marker 0, docker's exit code 125"),
    ({"expired": "start", "begins": 0, "statuses": (), "exit_code": None}, "inconclusive", "start timed out"),
    ({"expired": "exit", "exit_code": None}, "inconclusive", "exit timed out"),
    # The second run, the image is at fault
    ({**ENDS_1, "state": STARTED}, "failed", "no end marker (exit code 1)"),
    ({**ENDS_1, "state": STARTED._replace(is_out_of_memory=True)}, "failed", "no end marker (exit code 1); the container ran out of memory"),
    ({**ENDS_1, "begins": 0, "preface": "a\nno libc\n", "state": STARTED}, "failed", "no begin marker (exit code 1): no libc"),
    ({"expired": "exit", "exit_code": None, "state": STARTED._replace(is_running=True)}, "failed", "exit timed out"),
    # The second run, the engine is at fault
    ({**ENDS_1, "state": STARTED._replace(is_running=True)}, "error", LOST),
    ({**ENDS_1, "state": STARTED._replace(exit_code=3)}, "error", LOST),
    ({**ENDS_1, "state": de.ContainerState()}, "error", LOST),
    ({"begins": 0, "statuses": (), "exit_code": -9, "state": de.ContainerState()}, "error", LOST),
    # The second run, the smoke test decides
    ({"begins": 0, "statuses": (), "exit_code": 125, "preface": "docker: Error response from daemon: no space.", "state": de.ContainerState()}, "not_started", "no space."),
    ({"begins": 0, **ENDS_1, "state": de.ContainerState(error="mkdir /x: no")}, "not_started", "mkdir /x: no"),
]  # fmt: skip


@pytest.mark.parametrize(("differs", "status", "message"), VERDICTS)
def test_verdict(rubric, differs, status, message):
    (test,) = de.load_rubric(rubric(TRUE)).tests
    result = de.verdict(test, de.Run()._replace(**differs))
    assert (result.status, result.message) == (status, message)
