"""Rules of the house, so that the design stays what it says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest
from conftest import PROJECT

import DockerfileEvaluator as de

SOURCE = (PROJECT / "DockerfileEvaluator.py").read_text()
README = (PROJECT / "README.md").read_text()
RUBRICS = (PROJECT / "rubrics" / "README.md").read_text()
TREE = ast.parse(SOURCE)
TOP_LEVEL = {
    "DockerfileEvaluator.py",
    "rubrics",
    "artifacts",
    "reports",
    "example_usage.py",
    "tests",
    "README.md",
    "pyproject.toml",
}


def rooms():
    """Map each name that the module defines at its top level to its room."""
    starts = [(match.start(), int(match[1])) for match in re.finditer(r"^# Room (\d):", SOURCE, re.MULTILINE)]
    lines = [SOURCE.count("\n", 0, start) + 1 for start, _ in starts]
    names = {}
    for node in TREE.body:
        room = sum(1 for line in lines if line <= node.lineno)
        targets = getattr(node, "targets", [getattr(node, "target", node)])
        for name in [getattr(target, "name", getattr(target, "id", None)) for target in targets]:
            if name and room:
                names[name] = room
    return names


def test_rooms_use_only_those_above_them():
    home = rooms()
    for node in TREE.body:
        own = [room for name, room in home.items() if name == getattr(node, "name", None)]
        annotations = {
            id(n)
            for a in ast.walk(node)
            for n in ast.walk(getattr(a, "annotation", None) or getattr(a, "returns", None) or ast.Pass())
        }
        for used in ast.walk(node):
            if own and isinstance(used, ast.Name) and id(used) not in annotations and used.id in home:
                assert home[used.id] <= own[0], (
                    f"{node.name} (room {own[0]}) uses {used.id} (room {home[used.id]})"
                )


def test_there_are_seven_rooms_and_the_docstring_names_them():
    titles = re.findall(r"^# Room (\d): (.+)$", SOURCE, re.MULTILINE)
    assert [number for number, _ in titles] == list("1234567")
    for number, title in titles:
        assert re.search(rf"^    {number}  {title} ", de.__doc__, re.MULTILINE)


def test_processes_are_started_in_one_place():
    doors = [
        line
        for line in SOURCE.splitlines()
        if re.search(r"subprocess\.(?!DEVNULL|PIPE|TimeoutExpired|CompletedProcess)", line)
    ]
    assert len(doors) == 1
    assert not re.search(r"os\.(system|popen|exec|spawn|fork|posix_spawn)", SOURCE)


def test_only_the_command_line_prints():
    before = SOURCE[: SOURCE.index("# Room 7")]
    assert "print(" not in before
    assert "sys.std" not in before


def check_that_functions_are_short():
    functions = [node for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef)]
    lengths = {node.name: node.end_lineno - node.lineno + 1 for node in functions}
    assert max(lengths.values()) <= 60, max(lengths, key=lengths.get)


if sys.version_info >= (3, 8):  # before, ast does not know where a function ends
    test_functions_are_short = check_that_functions_are_short


def test_the_parts_are_few():
    """A helper used once costs its reader a jump; a lock, a proof."""
    functions = [node.name for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef)]
    helpers = [name for name in functions if re.match("_[^_]", name)]
    used_once = [name for name in helpers if len(re.findall(rf"\b{name}\b", SOURCE)) == 2]
    assert len(used_once) <= 30, used_once
    assert sum(isinstance(node, ast.ClassDef) for node in ast.walk(TREE)) <= 41
    assert len(re.findall(r"threading\.(?:R?Lock|\w*Semaphore|Condition|Event)\(", SOURCE)) <= 3


def test_the_evaluator_and_its_docker_room_stay_within_their_bounds():
    lines = SOURCE.splitlines()
    starts = {int(line[7]): at for at, line in enumerate(lines) if re.match(r"# Room \d: ", line)}
    assert len(lines) <= 3540
    assert starts[5] - starts[4] <= 1400


def test_public_names_have_docstrings():
    for name in de.__all__:
        assert getattr(de, name).__doc__


def test_importing_prints_nothing_and_loads_only_the_standard_library():
    script = (
        "import sys; before = set(sys.modules); import DockerfileEvaluator;"
        "files = [str(getattr(sys.modules[name], '__file__', '')) for name in set(sys.modules) - before];"
        "print([file for file in files if '-packages' in file])"  # site-packages, and Debian's dist-packages
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=str(PROJECT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.stdout.strip() == b"[]"


def test_the_top_level_holds_what_was_agreed():
    listed = subprocess.run(["git", "ls-files"], cwd=str(PROJECT), stdout=subprocess.PIPE)
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = {line.split("/")[0] for line in listed.stdout.decode().splitlines()}
    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL


def test_the_readmes_table_of_types_is_the_registry():
    table = re.findall(
        r"^\| `([a-z_]+)` \| ", RUBRICS.split("\n## Write it")[1].split("\n## ")[0], re.MULTILINE
    )
    assert sorted(table) == sorted(de.CHECKS)


def test_the_readme_names_every_flag():
    flags = {
        flag for action in de._parser()._actions for flag in action.option_strings if flag.startswith("--")
    }
    assert flags - {"--help"} <= set(re.findall(r"--[a-z-]+", README))


def test_a_file_of_tests_is_short():
    files = [*PROJECT.glob("tests/*.py"), *PROJECT.glob("tests/quoted/*.txt")]
    lengths = {file.name: len(file.read_text().splitlines()) for file in files}
    assert max(lengths.values()) <= 600, max(lengths, key=lengths.get)
