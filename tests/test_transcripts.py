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
from typing import NamedTuple

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
INDENT = "  "
MARK = "=== end of command"


class Step(NamedTuple):
    """A command, and what it prints."""

    prose: list[str]  # the lines before it
    command: list[str]
    output: list[str]


def read(text: str) -> list[Step]:
    """Return the steps of a transcript; the last one has no command."""
    steps = [Step([], [], [])]
    for line in text.splitlines():
        if line.startswith(f"{INDENT}$ "):
            if steps[-1].command:
                steps.append(Step([], [], []))
            steps[-1].command.append(line[len(INDENT) + 2 :])
        elif line.startswith(f"{INDENT}> "):
            steps[-1].command.append(line[len(INDENT) + 2 :])
        elif line.startswith(INDENT):
            steps[-1].output.append(line[len(INDENT) :])
        else:
            if steps[-1].command:
                steps.append(Step([], [], []))
            steps[-1].prose.append(line)
    return steps


def as_text(steps: list[Step]) -> str:
    """Return a transcript."""
    lines = []
    for step in steps:
        lines += step.prose
        for at, line in enumerate(step.command):
            lines.append(f"{INDENT}{'> ' if at else '$ '}{line}")
        lines += [f"{INDENT}{line}" for line in step.output]
    return "\n".join(lines) + "\n"


def run(steps: list[Step]) -> list[Step]:
    """Run all commands in one shell; return the steps with what they print now."""
    script = ["exec 2>&1"]
    for step in steps:
        script += [*step.command, f'echo "{MARK} $?"']
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input="\n".join(script) + "\n",
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=300,
    )
    parts = re.split(rf"{MARK} (\d+)\n", done.stdout)
    found = []
    for step, output, code in zip(steps, parts[::2], parts[1::2]):
        lines = output.splitlines()
        if code != "0":
            lines.append(f"[{code}]")
        found.append(step._replace(output=lines))
    return found


def without_times(line: str) -> str:
    return re.sub(r"\d+(\.\d+)? s\b", "0 s", line)


def is_same(expected: str, found: str) -> bool:
    """Compare two lines; the expected one may be a pattern."""
    if expected.endswith(" (glob)"):
        return fnmatch.fnmatchcase(found, expected[: -len(" (glob)")])
    return without_times(expected) == without_times(found)


def merged(expected: list[Step], found: list[Step]) -> list[Step]:
    """Return what was found, but the expected lines where these fit."""
    steps = []
    for old, new in zip(expected, found):
        matcher = difflib.SequenceMatcher(None, old.output, new.output, autojunk=False)
        output = list(new.output)
        if len(old.output) == len(new.output):
            pairs = zip(old.output, new.output)
            output = [line if is_same(line, other) else other for line, other in pairs]
        else:
            for block in matcher.get_matching_blocks():
                output[block.b : block.b + block.size] = old.output[block.a : block.a + block.size]
        steps.append(new._replace(output=output))
    return steps


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_session(file, fake, tmp_path, monkeypatch, request):
    if file.stem == "help" and sys.version_info < (3, 10):
        pytest.skip("argparse had other headings before Python 3.10")
    fake.set(info={"NCPU": 1})
    folder = tmp_path / "session"
    for program in PROGRAMS:
        link = folder / program
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(PROJECT / program)
    programs = tmp_path / "session-programs"
    programs.mkdir()
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    (programs / "docker-fault").symlink_to(PROJECT / "tests" / "docker-fault")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(folder)
    expected = read(file.read_text())

    found = merged(expected, run(expected))

    if request.config.getoption("--rewrite-transcripts"):
        file.write_text(as_text(found))
    difference = difflib.unified_diff(
        as_text(expected).splitlines(),
        as_text(found).splitlines(),
        "expected",
        "found",
        n=5,
        lineterm="",
    )
    lines = list(difference)
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)
