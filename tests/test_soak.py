"""A short soak: evaluations at once, interrupted at random, and nothing left (tests/soak is the long one)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import PROJECT

# podman keeps the layers of a broken build as its cache, and can be told not to.
MORE = ["--build-option=--layers=false"] if os.environ.get("DOCKERFILE_EVALUATOR_ANY_BUILDER") else []


@pytest.mark.long("six evaluations that are interrupted at random")
@pytest.mark.usefixtures("bridge", "clean_engine")
def test_nothing_is_left_after_random_interruptions():
    words = [sys.executable, str(PROJECT / "tests" / "soak"), "--runs", "6", "--at-once", "4", *MORE]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
    assert done.returncode == 0, done.stdout.decode()
    assert b"runs: 6, " in done.stdout
