"""What the README shows, cut out of it and run as it stands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest
from conftest import PROJECT

README = (PROJECT / "README.md").read_text()
COMMANDS = re.findall(r"^    ((?:python3|tests/).+)$", README, re.MULTILINE)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Return a copy of the project in which reports may be written."""
    folder = tmp_path / "checkout"
    for name in ("artifacts", "rubrics"):
        shutil.copytree(str(PROJECT / name), str(folder / name))
    (folder / "reports").mkdir()
    shutil.copy(str(PROJECT / "DockerfileEvaluator.py"), str(folder))
    monkeypatch.chdir(folder)
    return folder


def test_the_first_page_is_short():
    assert len(README.splitlines()) <= 200


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
