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
    shell = ["/bin/sh", "-s"]
    output = subprocess.check_output(shell, input=script, encoding="utf-8", timeout=300)
    parts = re.split(rf"{MARK} (\d+)\n", output)
    for text, code in zip(parts[::2], parts[1::2]):
        lines = text.splitlines() + [f"[{code}]"] * (code != "0")
        yield [f"  {line}" for line in lines]


def fits(line, expected):
    """Compare two lines, except for times; the expected one may be a pattern."""
    line, expected = (re.sub(r"\d+(\.\d+)? s\b", "0 s", text) for text in (line, expected))
    pattern, glob, _ = expected.partition(" (glob)")
    return fnmatch.fnmatchcase(line, pattern) if glob else line == expected


@pytest.fixture
def session(fake, tmp_path, monkeypatch):
    """Make an empty folder with links to the programs, and let it be the current one."""
    fake.set(info={"NCPU": 1})
    for program in PROGRAMS:
        link = tmp_path / "session" / program
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(PROJECT / program)
    programs = fake.program.parent
    (programs / "docker-fault").symlink_to(PROJECT / "tests" / "docker-fault")
    python = os.path.dirname(sys.executable)  # has python3
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs), python, os.environ["PATH"]]))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path / "session")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_session(file, session, request):
    if file.stem in ("help", "evaluate") and sys.version_info < (3, 10):
        pytest.skip("argparse had other headings, and XML another order of attributes")
    text = file.read_text()
    steps = STEP.findall(text)
    assert "".join(map("".join, steps)) == text, "a transcript ends with what a command prints"

    found = ""
    for (prose, command, output), lines in zip(steps, run([step[1] for step in steps])):
        found += prose + command
        for line in lines:
            found += next((old for old in output.splitlines() if fits(line, old)), line) + "\n"

    if request.config.getoption("--rewrite-transcripts"):
        file.write_text(found)
    texts = text.splitlines(), found.splitlines()
    difference = "\n".join(difflib.unified_diff(*texts, n=5, lineterm=""))
    if difference:
        pytest.fail(difference, pytrace=False)
