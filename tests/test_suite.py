"""The suite itself: the same result however it is started."""

from __future__ import annotations

import re
import runpy
import signal
import subprocess
import sys

import pytest
from conftest import PROJECT

SIGNALS = (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
IGNORE_THEM = "trap '' CHLD HUP INT QUIT TERM"  # as nohup, a background job or a service manager do


def test_what_a_test_starts_hears_every_signal():
    status = subprocess.run(["cat", "/proc/self/status"], stdout=subprocess.PIPE).stdout.decode()
    (ignored,) = re.findall(r"SigIgn:\t(\w+)", status)
    assert [number for number in SIGNALS if int(ignored, 16) >> number - 1 & 1] == []


def test_every_line_that_a_mutation_breaks_is_there():
    rows = runpy.run_path(str(PROJECT / "tests" / "mutations"))["MUTATIONS"]
    assert len(rows) >= 30
    texts = {row.file: (PROJECT / row.file).read_text() for row in rows}
    assert [row.breaks for row in rows if texts[row.file].count(row.old) != 1] == []


@pytest.mark.long("starts pytest")
def test_signals_that_are_ignored_where_the_suite_starts_change_nothing():
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0"]
    words += ["tests/test_suite.py", "-k", "hears_every_signal"]
    done = subprocess.run(
        ["sh", "-c", f'{IGNORE_THEM}; exec "$@"', "sh", *words],
        cwd=str(PROJECT),
        stdout=subprocess.PIPE,
        timeout=120,
    )
    assert b"1 passed" in done.stdout, done.stdout.decode()
