"""The commands, options and examples of README.md, run as printed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROJECT, statuses
from engine import census

README = (PROJECT / "README.md").read_text()
COMMANDS = re.findall(r"^    ((?:python3|for) .+)$", README, re.MULTILINE)
EVALUATE, TREE, BOARD, LOOP = COMMANDS


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Change to a copy of the project in which reports may be written."""
    folder = tmp_path / "checkout"
    for name in ("artifacts", "rubrics"):
        shutil.copytree(str(PROJECT / name), str(folder / name))
    written = shutil.ignore_patterns("*.json", "*.log", "board.html", "tree")
    shutil.copytree(str(PROJECT / "reports"), str(folder / "reports"), ignore=written)
    for name in ("DockerfileEvaluator.py", "example_usage.py"):
        shutil.copy(str(PROJECT / name), str(folder))
    monkeypatch.chdir(folder)
    return folder


def run(command: str) -> subprocess.CompletedProcess:
    return subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True)


def test_linked_files_exist():
    for file in PROJECT.glob("**/README.md"):
        if ".venv" not in file.parts:
            targets = re.findall(r"\]\(([^)#:]+)\)", file.read_text())
            assert [target for target in targets if not (file.parent / target).exists()] == []
