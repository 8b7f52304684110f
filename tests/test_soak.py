"""Short runs of tests/soak: interrupts at random moments leave nothing and change no verdict."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import PROJECT


def soak(*words: str) -> None:
    argv = [sys.executable, str(PROJECT / "tests" / "soak"), "--at-once=3", *words]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout.decode()


@pytest.mark.long("six evaluations with interrupts")
def test_random_interrupts_leave_nothing(bridge, clean_engine):
    soak("--runs=6")


@pytest.mark.private
@pytest.mark.long("six evaluations with interrupts")
def test_random_interrupts_and_restarts_of_engine_leave_nothing(engine):
    soak("--runs=6", "--restart-every=3")
