"""What the programs print, as sessions at a terminal: the files in tests/transcripts/.

A line that begins with "$ " is a command, "> " continues it, and the lines below are what it
prints on stdout and stderr; "[1]" is its exit code, unless that is 0. What is not indented is
prose. Each command runs in a shell of its own, with the fake engine, which has one processor, in an
empty folder with links to the programs; the home folder has a clone. `docker-fault` lets docker
commands fail: see Engine.inject(); without words none fails any longer. Where no shell is needed,
the program is called in this process: that is four times as fast.

A line that ends in " (glob)" is a pattern; times such as "(0.1 s)" and ", 0:00:01 left" are not
compared. To write the files anew:

    .venv/newest/bin/python -m pytest tests/test_transcripts.py --rewrite-transcripts
"""

import difflib
import fnmatch
import os
import re
import shlex
import subprocess
import sys
from unittest import mock

import pytest
from conftest import PROJECT, called, load_program

LONG = [pytest.mark.long("dozens of commands in shells")]
FILES = [
    pytest.param(file, id=file.stem, marks=LONG * (file.stem in ("board", "many", "pages-many")))
    for file in sorted((PROJECT / "tests" / "transcripts").glob("*.txt"))
]
PROGRAMS = """
DockerfileEvaluator.py
artifacts/evaluate_all.py
artifacts/import_answers.py
rubrics/review.py
reports/junit.py
reports/leaderboard.py
"""
MAIN = {program: load_program(PROJECT / program).main for program in PROGRAMS.split()}
LINKS = (*MAIN, "reports/page.html")


STEP = re.compile(
    r"(?P<prose>(?:(?!  ).*\n)*)(?P<command>  \$ .*\n(?:  > .*\n)*)(?P<output>(?:  (?!\$ ).*\n)*)"
)
TIME = r"\d+(\.\d+)? s\b|, \d:\d\d:\d\d left$"
NEEDS_SHELL = re.compile(r"[|<>;&$*`\n]")


def run(command, fake):
    """Return the lines that a command prints, and its exit code unless that is 0."""
    command = re.sub("(?m)^  [$>] ", "", command).strip()
    if command.startswith("docker-fault"):
        faults = command.partition(" ")[2]
        fake.inject(faults) if faults else fake.set(faults=[], pull={})
        return []
    program, *words = shlex.split(command)
    if program == "python3" and words[0] in MAIN and not NEEDS_SHELL.search(command):
        with mock.patch.object(sys, "argv", words):
            code, text, _ = called(MAIN[words[0]], *words[1:], is_one_screen=True)
    else:
        shell = ["/bin/sh", "-c", f"exec 2>&1\n{command}"]
        ended = subprocess.run(shell, stdout=subprocess.PIPE, encoding="utf-8", timeout=300)
        code, text = ended.returncode, ended.stdout
    return [f"  {line}" for line in text.splitlines() + [f"[{code}]"] * (code != 0)]


def fits(line, expected):
    """Compare two lines, except for times; the expected one may be a pattern."""
    line, expected = (re.sub(TIME, "", text) for text in (line, expected))
    pattern, glob, _ = expected.partition(" (glob)")
    return fnmatch.fnmatchcase(line, pattern) if glob else line == expected


@pytest.fixture
def session(fake, tmp_path, monkeypatch):
    """Make an empty folder with links to the programs, and let it be the current one."""
    fake.set(info={"NCPU": 1})
    for file in LINKS:
        link = tmp_path / "session" / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(PROJECT / file)
    (tmp_path / "home" / "DockerfileEvaluator").symlink_to(PROJECT)
    python = os.path.dirname(sys.executable)  # has python3
    monkeypatch.setenv("PATH", f"{python}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path / "session")


@pytest.mark.parametrize("file", FILES)
def test_session(file, session, fake, request):
    if file.stem == "help" and sys.version_info < (3, 10):
        pytest.skip("argparse had other headings")
    text = file.read_text()
    steps = STEP.findall(text)
    assert "".join(map("".join, steps)) == text, "a transcript ends with what a command prints"

    found = ""
    for prose, command, output in steps:
        found += prose + command
        for line in run(command, fake):
            found += next((old for old in output.splitlines() if fits(line, old)), line) + "\n"

    if request.config.getoption("--rewrite-transcripts"):
        file.write_text(found)
    if found != text:
        texts = text.splitlines(True), found.splitlines(True)
        pytest.fail("".join(difflib.unified_diff(*texts, n=5)), pytrace=False)
