"""Floods, bombs and hangs: our memory, the report's size and the other tests stay as they are."""

from __future__ import annotations

import json

import engine
import pytest
from cases import LOOK, TRUE, run_command


@pytest.fixture
def measured(dockerfile, rubric, tmp_path):
    """Evaluate in a process of its own; return exit code, report and resident memory in MiB."""

    def run(lines, *tests, more=()):
        output = tmp_path / "report.json"
        words = ["--dockerfile", dockerfile(*lines), "--rubric", rubric(*tests), "--output", str(output)]
        code, memory, _ = engine.measured(*words, "--repo", "r", *more)
        assert output.stat().st_size < 1_000_000
        return code, json.loads(output.read_text()), memory

    return run


def test_floods_and_bombs_in_tests(clean_engine, measured):
    commands = {
        "endless": ("yes", 1, "timeout"),
        "one line": ("head -c 50000000 /dev/zero | tr '\\0' x", 120, "passed"),
        "forks": ("bomb() { bomb | bomb & }; bomb; sleep 60", 1, None),
        "memory": ("head -c 2000000000 /dev/zero | tail", 60, "failed"),
        "deaf": ("trap '' INT TERM HUP; while :; do :; done", 1, "timeout"),
        "after": ("echo fine", 30, "passed"),
    }
    tests = [
        run_command(command, id=name, timeout=timeout) for name, (command, timeout, _) in commands.items()
    ]
    code, report, memory = measured(
        ["FROM busybox:stable"], *tests, more=["--run-option=--memory=256m", "--verbose"]
    )
    found = {row["test_id"]: row["status"] for row in report["test_results"]}
    assert found.pop("forks") in ("timeout", "failed")
    assert found == {name: status for name, (_, _, status) in commands.items() if status}
    assert (code, report["error"]) == (1, None)
    assert memory < 60


def test_memory_stays_flat_with_eight_floods_in_parallel(clean_engine, measured):
    flood = run_command("head -c 10000000 /dev/zero | tr '\\0' x", timeout=120)
    code, _, memory = measured(["FROM busybox:stable"], *[flood] * 8, more=["--jobs=8"])
    assert code == 0
    assert memory < 60


@pytest.mark.long("all of it goes through docker")
def test_a_build_log_of_40_mb(clean_engine, measured, builder):
    """Kept in part and, with --verbose, printed; of the builders only the legacy one sends it all."""
    lines = ["FROM busybox:stable", "RUN yes some words that a build says | head -c 40000000"]
    code, report, memory = measured(lines, TRUE, more=["--verbose"])
    assert code == 0
    assert memory < 60
    assert len(report["build"]["log"]) < 20_000


def test_an_endless_build_log_and_an_endless_line(buildkit, clean_engine, measured):
    for flood in ("yes", "cat /dev/zero"):
        code, report, memory = measured(
            ["FROM busybox:stable", f"RUN {flood}"], TRUE, more=["--build-timeout=1"]
        )
        assert (code, report["error"]["kind"]) == (1, "build_timeout")
        assert memory < 100


RUN_AT_ONCE = """#!/bin/sh
# The fake docker, but for a `run` that keeps no books: of 500 tests these would take half a minute.
[ "$1" = run ] || exec "$0.py" "$@"
until case $1 in dockerfile-evaluator:*) ;; *) false ;; esac; do shift; done
shift
exec /bin/sh "$@"
"""


@pytest.mark.long("five hundred tests")
def test_five_hundred_tests_in_flat_memory(fake, measured):
    fake.is_forked = False
    fake.program.rename(f"{fake.program}.py")
    fake.program.write_text(RUN_AT_ONCE)
    fake.program.chmod(0o755)
    code, report, memory = measured(["FROM x"], *[LOOK] * 500)
    assert (code, report["summary"]["passed_tests"]) == (0, 500)
    assert memory < 60
