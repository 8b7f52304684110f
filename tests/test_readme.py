"""README.md and the pages of the folders: each command, example and link is right.

The commands of a page are unpacked into names: one that no test runs would be an error here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from batch import tree
from conftest import PROJECT, schema
from engine import census

import DockerfileEvaluator as de

FOLDERS = ("", "artifacts", "rubrics", "reports", "tests")
README, ARTIFACTS, RUBRICS, REPORTS, TESTS = (
    (PROJECT / folder / "README.md").read_text() for folder in FOLDERS
)
SESSION = r"```console\n\$ (python3 .*)\n((?s:.*?))```"  # a command, and what it prints


def commands(page):
    """Return the indented lines that are commands."""
    pattern = r"^    ((?:[A-Z_]+=\S+ )?(?:python3|tests/|dask|while|\.venv/).*)$"
    return re.findall(pattern, page, re.MULTILINE)


(QUICK_START, ALL_TESTS, OWN, KEEP, ONE_TEST, TREE, BOARD) = commands(README)
((FIRST, FIRST_SHOWN), (REVIEW, REVIEW_SHOWN)) = re.findall(SESSION, README)
(CHECK,) = re.findall(r"`(python3 [^`]* --check [^`]*)`", README)
(RUBRIC, TEST_WITH_DRAW) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
# Those of Dask are run by test_dask.py.
(LIST, ALL, OVERLAY, *SHARDS, SCHEDULER, WORKER, DASK, PRUNE, CI_STEP) = commands(ARTIFACTS)
(LINT, MEASURE) = commands(RUBRICS)
(LINTED,) = re.findall(r"```\n(.*?)```", RUBRICS, re.DOTALL)
((RANKING, RANKED),) = re.findall(SESSION, REPORTS)
(PYTHON,) = re.findall(r"```python\n(.*?)```", TESTS, re.DOTALL)


def run(command):
    return subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Change to a copy of the project, in which reports may be written."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    files = "DockerfileEvaluator.py artifacts rubrics reports/leaderboard.py reports/page.html"
    run(f"cd {PROJECT} && cp -r --parents {files} {folder}")
    monkeypatch.chdir(folder)


@pytest.fixture
def benchmark(fake, checkout):
    """Add two answers of one model, each as a file and as a folder."""
    for repo in ("express", "flask"):
        tree({f"gpt-5/{repo}": "FROM x"})
        run(f"cd artifacts/gpt-5; mkdir {repo}; cp {repo}.dockerfile {repo}/Dockerfile")


def written():
    """Return the paths of all reports."""
    return sorted(map(str, Path("reports").rglob("*.json")))


def anchors(text):
    """Return what a link can name in a page."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


# Links, tables and examples


@pytest.mark.parametrize("folder", FOLDERS)
def test_links_lead_to_something(folder):
    page = PROJECT / folder / "README.md"

    for target, anchor in re.findall(r"\]\((?!http)([^)#]+)#?([^)]*)\)", page.read_text()):
        assert (page.parent / target).exists()
        assert not anchor or anchor in anchors((page.parent / target).read_text())


def test_named_programs_exist():
    for program in re.findall(r"\btests/[\w-]+\b(?![./])", README + TESTS):  # ALL_TESTS, too
        assert shutil.which(str(PROJECT / program))


def test_table_has_each_kind_of_error():
    kinds = schema("report").schema["properties"]["error"]["properties"]["kind"]["enum"]

    assert re.findall(r"^\| `(\w+)` \| (?:0|none) \|", README, re.MULTILINE) == kinds


@pytest.mark.parametrize("text", [RUBRIC, f'{{"tests": [{TEST_WITH_DRAW}]}}'], ids=["test", "draw"])
def test_rubric_is_valid(text):
    assert de.read_rubric(text.encode(), "README.md").unresolvable == {}


def test_example_of_a_test_passes(fake, evaluate):
    names = {}
    exec(PYTHON, names)

    names["test_second_build_counts"](fake, evaluate)


# Commands without an engine


@pytest.mark.usefixtures("checkout")
def test_rubric_is_checked():
    assert run(CHECK).stdout == "rubrics/example.json: 10 tests, valid\n"


@pytest.mark.usefixtures("checkout")
def test_lint_of_the_examples_is_what_is_printed():
    assert run(LINT).stdout == LINTED


@pytest.mark.long("evaluates the solutions of three rubrics three times")
@pytest.mark.usefixtures("fake", "checkout")
def test_whole_benchmark_is_measured():
    assert run(MEASURE).stdout.count("only the solution earns") == 3


@pytest.mark.usefixtures("fake", "checkout")
def test_own_dockerfile_is_scored():
    """With the folders of a user."""
    run("mkdir -p answers checkouts/express")
    run("cp artifacts/example.dockerfile answers/gpt-5.dockerfile")
    run("cp rubrics/example.json rubrics/express.json")

    run(OWN)

    assert written() == ["reports/gpt-5/express.json"]


@pytest.mark.usefixtures("fake", "checkout")
def test_image_is_kept_to_work_on_one_test():
    assert "image kept: " in run(KEEP).stdout
    assert re.search(r"^\w+ +compiles ", run(ONE_TEST).stdout, re.MULTILINE)


@pytest.mark.usefixtures("fake", "checkout")
def test_ci_step_writes_junit():
    run(CI_STEP)

    assert Path("reports/example.xml").read_text().startswith("<testsuite ")


@pytest.mark.usefixtures("benchmark")
def test_benchmark_is_listed():
    assert "gpt-5: 2 Dockerfiles, 0 already scored\n" in run(LIST).stdout


@pytest.mark.usefixtures("benchmark")
@pytest.mark.parametrize("commands", [[ALL], [OVERLAY], SHARDS], ids=["all", "overlay", "shards"])
def test_benchmark_is_evaluated(commands):
    for command in commands:
        run(command)

    assert written() == ["reports/gpt-5/express.json", "reports/gpt-5/flask.json"]


def test_board_begins_with_what_is_printed():
    """The reports are those of the picture, which cannot be made anew without a PATH."""
    printed = run(f"PATH= {sys.executable} {PROJECT / 'tests' / 'picture'} 2>&1").stdout

    assert RANKING == "python3 reports/leaderboard.py reports/"
    date = r"\d{4}-\d\d-\d\d"
    assert re.sub(date, "", printed).startswith(re.sub(date, "", RANKED))


@pytest.mark.parametrize("command", commands(TESTS))
def test_commands_of_pytest_select_something(command):
    files = re.findall(r"tests/test_\w+\.py", command) or PROJECT.glob("tests/test_*.py")
    sources = "".join((PROJECT / file).read_text() for file in files)

    for keywords in re.findall(r'-k "?([\w ]+)', command):
        assert re.search(rf"def test_\w*({keywords.replace(' or ', '|')})", sources)


# Commands on an engine


@pytest.mark.no_buildx  # which has other steps
@pytest.mark.no_podman
@pytest.mark.usefixtures("engine", "buildkit", "checkout")
def test_first_session_is_what_is_printed():
    printed = run(FIRST).stdout

    varies = r"#\d+ |\d+\.\d s\)"
    assert re.sub(varies, "", printed).splitlines() == re.sub(varies, "", FIRST_SHOWN).splitlines()


@pytest.mark.no_podman
@pytest.mark.usefixtures("engine")
def test_build_cache_is_pruned():
    assert run(PRUNE.replace("while sleep 600", "for once in 1")).returncode == 0


@pytest.mark.usefixtures("layers_of_the_example", "checkout")
def test_quick_start_scores_the_example_in_full():
    before = census()

    done = run(QUICK_START.replace("tests/with-engine ", "", 1))  # here an engine answers

    assert done.stdout.splitlines()[-1] == "10 of 10 tests passed, score 23 of 23 (100.0%)"
    assert "warning: " not in done.stdout
    assert written() == ["reports/example.json"]
    assert census() == before


@pytest.mark.usefixtures("networked_engine", "legacy", "checkout")
def test_review_is_what_is_printed():
    assert run(REVIEW).stdout == REVIEW_SHOWN


@pytest.mark.release
@pytest.mark.usefixtures("networked_engine", "legacy", "checkout")
def test_tree_and_board():
    evaluated = run(TREE)
    board = run(BOARD).stdout

    assert evaluated.returncode == 0, evaluated.stdout
    assert re.findall(r"^(\w+) +([\d.]+%) +-", board, re.MULTILINE) == [
        ("atlas", "100.0%"),
        ("birch", "29.6%"),
    ]
    assert os.path.getsize("reports/board.html")
