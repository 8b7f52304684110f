"""What the programs print, as sessions at a terminal: the files in tests/transcripts/.

A line that begins with "$ " is a command, "> " continues it, and the lines below are what it
prints on stdout and stderr; "[1]" is its exit code, unless that is 0. What is not indented is
prose. The commands of a file run in one shell, in an empty folder with links to the programs,
against the fake docker on an engine with one processor. `docker-fault` (tests/docker-fault) lets
docker commands fail.

A line that ends in " (glob)" is a pattern; times such as "(0.1 s)" are not compared. To write the
files anew:

    .venv/newest/bin/python -m pytest tests/test_transcripts.py --rewrite-transcripts
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import PROJECT

FILES = sorted((PROJECT / "tests" / "transcripts").glob("*.txt"))
PROGRAMS = (
    "DockerfileEvaluator.py",
    "artifacts/evaluate_all.py",
    "rubrics/review.py",
    "reports/leaderboard.py",
    "reports/page.html",
)
MARK = "=== end of command"


STEP = re.compile(
    r"(?P<prose>(?:(?!  ).*\n)*)(?P<command>  \$ .*\n(?:  > .*\n)*)(?P<output>(?:  (?!\$ ).*\n)*)"
)


def run(commands):
    """Run all commands in one shell; return for each the lines that it prints, and its code."""
    script = "exec 2>&1\n"
    for command in commands:
        script += re.sub("(?m)^  [$>] ", "", command) + f'echo "{MARK} $?"\n'
    pipes = {"stdout": subprocess.PIPE, "encoding": "utf-8"}
    done = subprocess.run(["/bin/sh", "-s"], input=script, timeout=300, **pipes)
    parts = re.split(rf"{MARK} (\d+)\n", done.stdout)
    for output, code in zip(parts[::2], parts[1::2]):
        lines = output.splitlines() + ([f"[{code}]"] if code != "0" else [])
        yield [f"  {line}" for line in lines]


def without_times(line):
    return re.sub(r"\d+(\.\d+)? s\b", "0 s", line)


def fits(line, expected):
    """Compare two lines; the expected one may be a pattern."""
    if expected.endswith(" (glob)"):
        pattern = without_times(expected[: -len(" (glob)")])
        return fnmatch.fnmatchcase(without_times(line), pattern)
    return without_times(expected) == without_times(line)


@pytest.fixture
def session(fake, tmp_path, monkeypatch):
    """Make an empty folder with links to the programs, and let it be the current one."""
    fake.set(info={"NCPU": 1})
    folder, programs = tmp_path / "session", tmp_path / "session-programs"
    for program in PROGRAMS:
        link = folder / program
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(PROJECT / program)
    programs.mkdir()
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    (programs / "docker-fault").symlink_to(PROJECT / "tests" / "docker-fault")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_session(file, session, request):
    if file.stem in ("help", "evaluate") and sys.version_info < (3, 10):
        pytest.skip("argparse had other headings, and XML another order of attributes")
    text = file.read_text()
    steps = STEP.findall(text)
    assert "".join(map("".join, steps)) == text, "a transcript ends with what a command prints"

    found = ""
    for (prose, command, output), lines in zip(steps, run([step[1] for step in steps])):
        expected = output.splitlines()
        as_expected = [next((old for old in expected if fits(line, old)), line) for line in lines]
        found += prose + command + "".join(f"{line}\n" for line in as_expected)

    if request.config.getoption("--rewrite-transcripts"):
        file.write_text(found)
    difference = difflib.unified_diff(text.splitlines(), found.splitlines(), n=5, lineterm="")
    lines = "\n".join(difference)
    if lines:
        pytest.fail(lines, pytrace=False)
