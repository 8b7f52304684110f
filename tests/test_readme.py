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
COMMANDS = re.findall(r"^    ((?:tests|python3|for)[ /].+)$", README, re.MULTILINE)
(QUICK_START, TESTS, OWN, KEEP, ONE_TEST, CHECK, TREE, LOOP, BOARD) = COMMANDS
EVALUATE = QUICK_START.replace("tests/with-engine ", "", 1)  # here an engine answers


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


def test_every_option_is_documented_once():
    text = subprocess.run(
        [sys.executable, str(PROJECT / "DockerfileEvaluator.py"), "--help"],
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    options = set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE))
    table = README[README.index("## Options") : README.index("Exit codes:")]
    documented = [
        flag
        for row in table.splitlines()
        for flag in re.findall(r"`(--[a-z-]+)[ `]", row.split(" | ")[0])
    ]
    documented.append("--version")  # beside --check
    assert sorted(documented) == sorted(options)


PAGES = {
    "artifacts/evaluate_all.py": "artifacts/README.md",
    "rubrics/review.py": "rubrics/README.md",
    "reports/leaderboard.py": "reports/README.md",
}


@pytest.mark.parametrize("program", PAGES)
def test_page_of_a_tool_has_its_options(program):
    """All of them, and in the tables no others."""
    words = [sys.executable, str(PROJECT / program), "--help"]
    text = subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout
    options = set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE))
    page = (PROJECT / PAGES[program]).read_text()
    rows = re.findall(r"^\| (`--[^|]*)\|", page, re.MULTILINE)
    assert options - set(re.findall(r"--[a-z-]+", page)) == set()
    assert set(re.findall(r"--[a-z-]+", " ".join(rows))) - options == set()


@pytest.mark.parametrize("program", ["DockerfileEvaluator.py", *PAGES])
def test_help_has_an_example_and_the_exit_codes(program):
    words = [sys.executable, str(PROJECT / program), "--help"]
    text = subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout
    assert f"\nExample: {Path(program).name} " in text
    assert "\nExit codes: 0" in text


def test_rubric_of_the_readme_is_valid(checkout):
    (checkout / "rubrics" / "shown.json").write_text(
        re.findall(r"```json\n(.*?)```", README, re.DOTALL)[0]
    )
    done = run(f"{shlex.quote(sys.executable)} DockerfileEvaluator.py --check --repo shown")
    assert done.returncode == 0
    assert done.stdout == "rubrics/shown.json: 2 tests, valid\n"


def test_commands_of_the_quick_start_are_programs():
    assert (PROJECT / QUICK_START.split()[0]).exists()
    assert (PROJECT / TESTS.split()[0]).exists()


def test_rubric_of_the_example_is_valid(checkout):
    assert run(CHECK).stdout == "rubrics/example.json: 10 tests, valid\n"


def test_own_dockerfile_is_scored(fake, checkout):
    """With the folders of a user."""
    for folder in ("answers", "checkouts/express"):
        (checkout / folder).mkdir(parents=True)
    shutil.copy("artifacts/example.dockerfile", "answers/gpt-5.dockerfile")
    shutil.copy("rubrics/example.json", "rubrics/express.json")
    run(OWN)
    assert json.loads(Path("reports/gpt-5/express.json").read_text())["repo"] == "express"


def test_image_is_kept_to_work_on_one_test(fake, checkout):
    out = run(KEEP).stdout
    assert "image kept: dockerfile-evaluator:" in out
    assert "  docker run --rm " in out
    assert "a shell in it: docker run --rm -it --entrypoint /bin/sh " in out
    assert "compiles" in run(ONE_TEST).stdout


def test_python_example_prints_the_score(fake, checkout):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    program = [sys.executable, "-c", code]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.endswith(" of 23\n")


@pytest.mark.no_podman  # which prints other steps
@pytest.mark.usefixtures("engine", "legacy", "checkout")
def test_session_on_the_first_screen_is_what_is_printed():
    ((command, shown),) = re.findall(r"```console\n\$ (python3 .*)\n((?s:.*?))```", README)
    times = r"\([^()]*\d\.\d s\)"
    printed = re.sub(times, "(time)", run(command).stdout)
    # Checks run in parallel, so they can end in another order.
    assert sorted(printed.splitlines()) == sorted(re.sub(times, "(time)", shown).splitlines())


@pytest.mark.long
def test_shell_loop_can_be_started_again(fake, checkout):
    run(LOOP)
    count = len(list((checkout / "artifacts").glob("example*.dockerfile")))
    assert len(list((checkout / "reports").glob("*.json"))) == fake.count("build") == count
    assert run(LOOP).stdout.count("resumed: ") == count
    assert fake.count("build") == count


def test_ci_step_writes_junit_and_summary(fake, checkout, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(checkout / "summary.md"))
    (step,) = re.findall(r"- run: (python3 .*)", README)
    run(step)
    assert (checkout / "reports" / "example.xml").read_text().startswith("<?xml")
    assert "| status | test |" in (checkout / "summary.md").read_text()


@pytest.mark.usefixtures("layers_of_the_example", "checkout")
def test_quick_start_scores_the_example_in_full():
    before = census()
    done = run(EVALUATE)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == [
        "10 of 10 tests passed, score 23 of 23 (100.0%)",
        "report: reports/example.json",
    ]
    report = json.loads(Path("reports/example.json").read_text())
    assert set(statuses(report).values()) == {"passed"}
    assert report["warnings"] == []
    assert census() == before
    done = run(f"{shlex.quote(sys.executable)} example_usage.py")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].split() == ["score", "23", "of", "23"]


@pytest.mark.usefixtures("networked_engine", "legacy")
def test_tree_and_board(checkout):
    done = run(TREE)
    assert done.returncode == 0, done.stdout
    reports = {
        file.parent.name + "/" + file.stem: json.loads(file.read_text())
        for file in checkout.glob("reports/tree/*/*.json")
    }
    totals = {name: report["summary"]["total_score"] for name, report in reports.items()}
    assert totals == {
        "atlas/ledger": 9,
        "atlas/slug": 9,
        "atlas/stock": 9,
        "birch/ledger": 0,
        "birch/slug": 5,
        "birch/stock": 3,
    }
    board = run(BOARD)
    assert board.returncode == 0
    assert "100.0%" in board.stdout
    assert "29.6%" in board.stdout
    assert (checkout / "reports" / "board.html").stat().st_size
