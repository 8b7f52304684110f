"""A short run of tests/soak."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import PROJECT


@pytest.mark.private
@pytest.mark.long("six evaluations with interrupts")
def test_random_interrupts_and_restarts_of_the_engine_leave_nothing(engine):
    words = ["--at-once=3", "--runs=6", "--restart-every=3"]
    argv = [sys.executable, str(PROJECT / "tests" / "soak"), *words]

    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    assert done.returncode == 0, done.stdout.decode()
