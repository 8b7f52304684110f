"""Rules for the source: imports, and the folders of the project."""

import subprocess
import sys

from conftest import PROJECT


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

    agreed = "DockerfileEvaluator.py README.md artifacts example_usage.py pyproject.toml reports"
    assert [name for name in names if name[0] != "."] == [*agreed.split(), "rubrics", "tests"]
