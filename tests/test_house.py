"""Rules for the source: sections, processes, imports, and the folders of the project."""

from __future__ import annotations

import re
import subprocess
import sys

from conftest import PROJECT

SOURCE = (PROJECT / "DockerfileEvaluator.py").read_text()
# What a section uses of a later one; each has its reason in the order in which one reads them.


def test_processes_are_started_in_one_place():
    starts = re.findall(r"subprocess\.(?!DEVNULL|PIPE|STDOUT|TimeoutExpired)\w+\(", SOURCE)

    assert starts == ["subprocess.Popen("]
    assert not re.search(r"os\.(system|popen|exec|spawn|fork|posix_spawn)", SOURCE)


def test_only_the_command_line_prints():
    """Except for the report of `--output -`."""
    before = SOURCE[: SOURCE.index("# Command line\n")]

    assert re.findall(r"\bprint\(|sys\.stderr|input\(", before) == []
    assert before.count("sys.stdout") == 3  # written, flushed, silenced


def test_import_prints_nothing_and_loads_only_the_standard_library():
    script = """
import sys
before = set(sys.modules)
import DockerfileEvaluator
modules = [sys.modules[name] for name in set(sys.modules) - before]
files = [str(getattr(module, "__file__", "")) for module in modules]
print([file for file in files if "-packages" in file])  # also Debian's dist-packages
"""
    words = [sys.executable, "-W", "error", "-c", script]

    output = subprocess.check_output(words, cwd=str(PROJECT), stderr=subprocess.STDOUT)

    assert output.strip() == b"[]"


def test_top_level_is_as_agreed():
    words = ["git", "-c", "safe.directory=*", "ls-tree", "--name-only", "HEAD"]

    names = subprocess.check_output(words, cwd=str(PROJECT)).decode().split()

    files = {"DockerfileEvaluator.py", "example_usage.py", "README.md", "pyproject.toml"}
    folders = {"rubrics", "artifacts", "reports", "tests"}
    assert {name for name in names if name[0] != "."} == files | folders
