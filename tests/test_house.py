"""Rules for the source: sections, processes, imports, and the folders of the project."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

from conftest import PROJECT

SOURCE = (PROJECT / "DockerfileEvaluator.py").read_text()
HEADING = r"# -{93}\n# (?=\w)"  # of a section
# What a section uses of a later one; each has its reason in the order in which one reads them.
FORWARD = {
    "CHECKS": "the types of tests are found by their name in a rubric",
    "Check": "a test of an unknown type has none",
    "host_fault": "the control experiment is the same for a test and for a build",
    "build_context": "the inputs of a build are read before it",
    "check_writable": "files are written after all that is in them",
    "Console": "what shows nothing",
}


def test_sections_use_only_earlier_ones():
    """Except for annotations, and for FORWARD."""
    starts = [SOURCE.count("\n", 0, found.start()) for found in re.finditer(HEADING, SOURCE)]
    home, used = {}, set()  # the section of each name; the names that each section uses
    for node in ast.parse(SOURCE).body:
        section = sum(line < node.lineno for line in starts)
        home[getattr(node, "name", "")] = section  # of a function or a class
        for child in ast.walk(node):
            child.annotation = child.returns = None  # walk() has its children already
        for name in (child for child in ast.walk(node) if isinstance(child, ast.Name)):
            if isinstance(name.ctx, ast.Load):
                used.add((name.id, section))
            elif not hasattr(node, "body"):
                home[name.id] = section

    assert len(starts) > 5
    assert {name for name, section in used if home.get(name, 0) > section} == set(FORWARD)


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
