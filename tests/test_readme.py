"""README.md and the pages of the folders: commands, examples, options and links are right."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROJECT, schema, statuses
from engine import census

import DockerfileEvaluator as de

PAGES = {  # by the program whose options they have
    "DockerfileEvaluator.py": "README.md",
    "artifacts/evaluate_all.py": "artifacts/README.md",
    "rubrics/review.py": "rubrics/README.md",
    "reports/leaderboard.py": "reports/README.md",
}
README, _, RUBRICS, _ = ((PROJECT / page).read_text() for page in PAGES.values())
COMMANDS = re.findall(r"^    ((?:tests|python3|for)[ /].+)$", README, re.MULTILINE)
(QUICK_START, TESTS, OWN, KEEP, ONE_TEST, CHECK, TREE, LOOP, BOARD) = COMMANDS
((SESSION, SHOWN),) = re.findall(r"```console\n\$ (python3 .*)\n((?s:.*?))```", README)
RUBRIC, _ = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
(TEST_WITH_DRAW,) = re.findall(r"```json\n(.*?)```", RUBRICS, re.DOTALL)
((LINT, LINTED),) = re.findall(r"^    (python3 .*)\n\n```\n([^`]*)```", RUBRICS, re.MULTILINE)
(PYTHON,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
(CI_STEP,) = re.findall(r"- run: (python3 .*)", README)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Change to a copy of the project, in which reports may be written."""
    folder = tmp_path / "checkout"
    for name in ("artifacts", "rubrics"):
        shutil.copytree(str(PROJECT / name), str(folder / name))
    (folder / "reports").mkdir()
    for name in ("DockerfileEvaluator.py", "reports/leaderboard.py", "reports/page.html"):
        shutil.copy(str(PROJECT / name), str(folder / name))
    monkeypatch.chdir(folder)
    return folder


def run(command: str) -> subprocess.CompletedProcess:
    return subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True)


def flags(pattern: str, text: str) -> list[str]:
    """Return all options in what a pattern finds."""
    return re.findall("--[a-z-]+", " ".join(re.findall(pattern, text, re.MULTILINE)))


# Links and tables


@pytest.mark.parametrize("page", [*PAGES.values(), "tests/README.md"])
def test_linked_files_exist(page):
    file = PROJECT / page

    targets = re.findall(r"\]\(([^)#:]+)[)#]", file.read_text())

    assert [target for target in targets if not (file.parent / target).exists()] == []


@pytest.mark.parametrize("program", ["DockerfileEvaluator.py", "reports/leaderboard.py"])
def test_page_has_each_option_of_the_help_once_and_no_other(program):
    page = (PROJECT / PAGES[program]).read_text()

    done = subprocess.run(
        [sys.executable, str(PROJECT / program), "--help"], stdout=subprocess.PIPE, text=True
    )

    assert sorted(flags(r"^\| (`--[^|]*)\|", page)) == sorted(flags("^  --[a-z-]+", done.stdout))


def test_table_has_each_kind_of_error():
    kinds = schema("report").schema["properties"]["error"]["properties"]["kind"]["enum"]

    assert re.findall(r"^\| `(\w+)` \| (?:0|none) \|", README, re.MULTILINE) == kinds


@pytest.mark.parametrize("text", [RUBRIC, f'{{"tests": [{TEST_WITH_DRAW}]}}'], ids=["test", "draw"])
def test_rubric_is_valid(text):
    assert de.read_rubric(text.encode(), "README.md").unresolvable == {}


# Commands without an engine


def test_programs_of_the_quick_start_exist():
    assert [shutil.which(str(PROJECT / line.split()[0])) for line in (QUICK_START, TESTS)]


@pytest.mark.usefixtures("checkout")
def test_rubric_is_checked():
    assert run(CHECK).stdout == "rubrics/example.json: 10 tests, valid\n"


@pytest.mark.usefixtures("checkout")
def test_lint_of_the_examples_is_what_is_printed():
    assert run(LINT).stdout == LINTED


def test_own_dockerfile_is_scored(fake, checkout):
    """With the folders of a user."""
    for folder in ("answers", "checkouts/express"):
        (checkout / folder).mkdir(parents=True)
    shutil.copy("artifacts/example.dockerfile", "answers/gpt-5.dockerfile")
    shutil.copy("rubrics/example.json", "rubrics/express.json")

    run(OWN)

    assert json.loads(Path("reports/gpt-5/express.json").read_text())["repo"] == "express"


def test_image_is_kept_to_work_on_one_test(fake, checkout):
    kept = run(KEEP).stdout
    one = run(ONE_TEST).stdout

    (tag,) = [name for name in fake.left() if ":kept-" in name]
    assert f"docker run --rm -it --entrypoint /bin/sh {tag}\n" in kept
    assert f"docker run --rm --entrypoint /bin/sh {tag} -c " in kept
    assert re.search(r"^\w+ +compiles ", one, re.MULTILINE)


@pytest.mark.long("starts the evaluator ten times")
def test_loop_can_be_started_again(fake, checkout):
    count = len(list(checkout.glob("artifacts/example*.dockerfile")))

    run(LOOP)
    builds = fake.count("build")
    run(LOOP)

    assert len(list(checkout.glob("reports/*.json"))) == builds == count
    assert fake.count("build") == count


def test_ci_step_writes_junit(fake, checkout):
    run(CI_STEP)

    assert (checkout / "reports" / "example.xml").read_text().startswith("<testsuite ")


@pytest.mark.usefixtures("fake", "checkout")
def test_python_example_prints_the_score():
    done = subprocess.run([sys.executable, "-c", PYTHON], capture_output=True, text=True)

    assert done.stderr == ""
    assert re.fullmatch(r"\d+ of 23\n", done.stdout)


# Commands on an engine


@pytest.mark.no_podman  # which prints other steps
@pytest.mark.usefixtures("engine", "legacy", "checkout")
def test_first_session_is_what_is_printed():
    printed = run(SESSION).stdout

    seconds = r"\d+\.\d s\)"
    assert re.sub(seconds, "", printed).splitlines() == re.sub(seconds, "", SHOWN).splitlines()


@pytest.mark.usefixtures("layers_of_the_example", "checkout")
def test_quick_start_scores_the_example_in_full():
    before = census()

    done = run(QUICK_START.replace("tests/with-engine ", "", 1))  # here an engine answers

    report = json.loads(Path("reports/example.json").read_text())
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "10 of 10 tests passed, score 23 of 23 (100.0%)"
    assert set(statuses(report).values()) == {"passed"}
    assert report["warnings"] == []
    assert census() == before


@pytest.mark.usefixtures("networked_engine", "legacy")
def test_tree_and_board(checkout):
    evaluated = run(TREE)
    board = run(BOARD)

    reports = {
        str(file.relative_to(checkout / "reports" / "tree")): json.loads(file.read_text())
        for file in checkout.glob("reports/tree/*/*.json")
    }
    assert evaluated.returncode == 0, evaluated.stdout
    assert {place: report["summary"]["total_score"] for place, report in reports.items()} == {
        "atlas/ledger.json": 9,
        "atlas/slug.json": 9,
        "atlas/stock.json": 9,
        "birch/ledger.json": 0,
        "birch/slug.json": 5,
        "birch/stock.json": 3,
    }
    assert re.findall(r"^(\w+) +([\d.]+%) +-", board.stdout, re.MULTILINE) == [
        ("atlas", "100.0%"),
        ("birch", "29.6%"),
    ]
    assert (checkout / "reports" / "board.html").stat().st_size
