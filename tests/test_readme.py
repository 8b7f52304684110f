"""What the README shows, cut out of it and run as it stands."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from conftest import PROJECT
from engine import census

README = (PROJECT / "README.md").read_text()
COMMANDS = re.findall(r"^    ((?:python3|tests/).+)$", README, re.MULTILINE)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Return a copy of the project in which reports may be written."""
    folder = tmp_path / "checkout"
    for name in ("artifacts", "rubrics"):
        shutil.copytree(str(PROJECT / name), str(folder / name))
    written = shutil.ignore_patterns("*.json", "*.log", "*.first", "board.html")
    shutil.copytree(str(PROJECT / "reports"), str(folder / "reports"), ignore=written)
    for name in ("DockerfileEvaluator.py", ".gitignore"):
        shutil.copy(str(PROJECT / name), str(folder))
    monkeypatch.chdir(folder)
    return folder


def test_the_first_page_is_short():
    assert len(README.splitlines()) <= 220


def test_every_file_that_it_links_to_is_there():
    targets = [target for target in re.findall(r"\]\(([^)#]+)", README) if "://" not in target]
    assert targets
    assert [target for target in targets if not (PROJECT / target).exists()] == []


def test_the_rubric_that_it_shows_is_understood(checkout):
    (block,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    (checkout / "rubrics" / "shown.json").write_text(block)
    words = [sys.executable, "DockerfileEvaluator.py", "--check", "--repo", "shown"]
    done = subprocess.run(words, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, b"rubrics/shown.json: 2 tests, 3 points")


@pytest.mark.long("eight evaluations, one after another")
def test_the_loop_for_a_shell_can_be_started_again(fake, checkout):
    (loop,) = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    first = subprocess.run(["sh", "-c", loop], stdout=subprocess.PIPE)
    dockerfiles = sorted(file.name for file in (checkout / "artifacts").glob("*.dockerfile"))
    assert sorted(file.stem for file in (checkout / "reports").glob("*.json")) == dockerfiles
    assert first.stdout.count(b"building ") == len(dockerfiles)
    assert len(fake.calls("build")) == len(dockerfiles)
    second = subprocess.run(["sh", "-c", loop], stdout=subprocess.PIPE)
    assert second.stdout.count(b"nothing is run") == len(dockerfiles)
    assert len(fake.calls("build")) == len(dockerfiles)


def test_the_job_for_github_actions_writes_both_reports(fake, checkout):
    (command,) = re.findall(r"- run: (python3 .*)", README)
    subprocess.run(["sh", "-c", command], stdout=subprocess.DEVNULL)
    assert json.loads((checkout / "reports" / "example.json").read_text())["repo"] == "example"
    assert (checkout / "reports" / "example.xml").read_text().startswith("<?xml")


def test_its_commands_name_flags_that_exist():
    for command in COMMANDS:
        program = command.split()[1] if command.startswith("python3 ") else command.split()[0]
        assert (PROJECT / program).exists()
        if program.endswith(".py"):
            helps = subprocess.run(
                [sys.executable, program, "--help"], cwd=str(PROJECT), stdout=subprocess.PIPE
            )
            for flag in re.findall(r"--[a-z-]+", command):
                assert flag.encode() in helps.stdout, (command, flag)


TREE, BOARD = (next(it for it in COMMANDS if name in it) for name in ("evaluate_all.py", "leaderboard.py"))


def scores(text):
    """Return the score of each model: what stands first in a line, where it stands first."""
    return dict(reversed(re.findall(r"^ *(atlas|birch) +([\d.]+%)", text, re.MULTILINE)))


def test_the_tree_is_found_by_its_command_alone(checkout):
    """No usual layout takes it for somebody's own Dockerfiles."""
    done = subprocess.run([*shlex.split(TREE), "--list"], stdout=subprocess.PIPE)
    assert done.stdout.startswith(b"atlas: 3 Dockerfiles, 0 of them resumed\nbirch: 3 Dockerfiles, 0 of")
    for layout in ("{model}/{repo}.dockerfile", "{model}/{repo}/Dockerfile", "{repo}/{model}/Dockerfile"):
        words = [sys.executable, "artifacts/evaluate_all.py", "--list", "--layout", layout]
        assert b"no Dockerfile matches" in subprocess.run(words, stderr=subprocess.PIPE).stderr


def test_from_nothing_to_a_board_by_its_commands_as_they_stand(networked_engine, engine, legacy, checkout):
    before = census()
    git = ["git", "-c", "user.name=x", "-c", "user.email=x", "-c", "commit.gpgsign=false"]
    subprocess.run("git init -q . && git add -A", shell=True, check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    done = subprocess.run(["sh", "-c", TREE], stdout=subprocess.PIPE)
    said = done.stdout.decode()
    assert done.returncode == 0, said
    assert "evaluated 6, resumed 0, repeated 1, builds failed 1, left out 0, without a result 0\n" in README
    assert "evaluated 6, resumed 0, repeated 1, builds failed 1, left out 0, without a result 0\n" in said
    assert "birch/ledger: build failed: E: Unable to locate package json-query (" in said
    board = subprocess.run(["sh", "-c", BOARD], stdout=subprocess.PIPE, check=True).stdout.decode()
    shown = scores(README)
    assert sorted(shown) == ["atlas", "birch"]
    assert scores(README[README.index("## Compare models") :]) == scores(said) == scores(board) == shown
    assert subprocess.run(["git", "status", "--short"], stdout=subprocess.PIPE).stdout == b""
    after = census()
    assert [after[name] for name in ("containers", "tags")] == [
        before[name] for name in ("containers", "tags")
    ]
