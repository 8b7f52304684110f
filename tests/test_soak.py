"""A short soak: evaluations at once, interrupted at random, and nothing left (tests/soak is the long one)."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import PROJECT


@pytest.mark.usefixtures("clean_engine")
def test_nothing_is_left_after_random_interruptions():
    words = [sys.executable, str(PROJECT / "tests" / "soak"), "--runs", "12", "--at-once", "4"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
    assert done.returncode == 0, done.stdout.decode()
    assert b"runs: 12, " in done.stdout
