"""Rules for the source: sections, names, processes, and what the README lists."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys

from conftest import PROJECT

import DockerfileEvaluator as de

SOURCE = (PROJECT / "DockerfileEvaluator.py").read_text()
TREE = ast.parse(SOURCE)
SECTIONS = [
    "Types and helpers",
    "Rubric",
    "Checks",
    "Docker CLI",
    "Session",
    "Build log",
    "Containers and verdicts",
    "Report",
    "Overlay: an answer of several files",
    "Inputs, and whether a report is for them",
    "Building the image, and who is at fault if that fails",
    "Evaluation",
    "Command line",
]


def test_sections_use_only_earlier_ones():
    """Except for annotations, the registry of test types, and the console that shows nothing."""
    starts = [SOURCE.index(f"# {'-' * 93}\n# {title}\n") for title in SECTIONS]
    assert starts == sorted(starts)
    lines = [SOURCE.count("\n", 0, start) + 1 for start in starts]
    home = {}
    for node in TREE.body:
        for target in getattr(node, "targets", [getattr(node, "target", node)]):
            name = getattr(target, "name", getattr(target, "id", ""))
            home[name] = sum(line <= node.lineno for line in lines)
    for node in (node for node in TREE.body if hasattr(node, "name")):
        parts = [
            getattr(child, name, None)
            for child in ast.walk(node)
            for name in ("annotation", "returns")
        ]
        excepted = {id(child) for part in parts if part for child in ast.walk(part)}
        names = [
            child
            for child in ast.walk(node)
            if isinstance(child, ast.Name) and id(child) not in excepted
        ]
        later = {child.id for child in names if home.get(child.id, 0) > home[node.name]}
        assert later <= {"CHECKS", "Console"}, node.name


def test_processes_are_started_in_one_place():
    starts = re.findall(r"subprocess\.(?!DEVNULL|PIPE|TimeoutExpired|CompletedProcess)\w+", SOURCE)
    assert starts == ["subprocess.Popen"]
    assert not re.search(r"os\.(system|popen|exec|spawn|fork|posix_spawn)", SOURCE)


def test_only_the_command_line_prints():
    """Except for the report of `--output -`."""
    assert re.findall(r"\bprint\(|sys\.stderr", SOURCE[: SOURCE.index("# Command line\n")]) == []


PUBLIC = (
    "CACHE_NAMESPACE CancelToken Cli ERROR_KINDS EngineFailed ErrorKind EvaluationError "
    "Inputs Options Rubric Test accept_any_text add_run_options checked drop_output "
    "escape_markdown evaluate files_below fill handle_signals is_report_for "
    "is_scored keep_score last_line load_rubric main matches parse_object parse_rubric "
    "percent printable quoted_list read_file read_inputs read_report walk write_file"
)
SIGNATURE = (
    "(dockerfile, repo, rubric=None, output=None, *, context=None, build_timeout=3600.0, jobs=1, "
    "build_options=(), run_options=(), start_timeout=120.0, overlay=None, docker='docker', "
    "offline=False, junit=None, markdown=None, keep_image=False, resume=False, verbose=False)"
)


def test_public_names_and_the_signature_of_evaluate():
    assert sorted(de.__all__) == PUBLIC.split()
    assert [name for name in de.__all__ if not getattr(de, name).__doc__] == []
    signature = inspect.signature(de.evaluate)
    bare = [value.replace(annotation=value.empty) for value in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURE


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
    done = subprocess.run(words, cwd=str(PROJECT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout.strip() == b"[]"


def test_top_level_is_as_agreed():
    words = ["git", "-c", "safe.directory=*", "ls-files"]
    listed = subprocess.run(
        words, cwd=str(PROJECT), stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    names = {line.split("/")[0] for line in listed.splitlines() if not line.startswith(".")}
    files = ["DockerfileEvaluator.py", "example_usage.py", "README.md", "pyproject.toml"]
    assert names == {*files, "rubrics", "artifacts", "reports", "tests"}


def test_readme_names_every_test_type():
    text = (PROJECT / "README.md").read_text()
    assert set(de.CHECKS) <= set(re.findall(r"`([a-z_]+)`", text))
