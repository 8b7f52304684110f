"""The recipe for SetupBench, on a record of each kind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_readme import example

import DockerfileEvaluator as de

SHELL = 'probe | grep -q \'[1-9]\' && echo "Setup successful" || echo "Setup failed"'
COMMIT = {"repo_url": "https://example.org/a", "base_commit": "c0ffee"}
# A record: its test's type, and whether that is beside a service
RECORDS = {
    "deps-a-1": ({"task_type": "dependency_resolution", **COMMIT}, "run_command", False),
    "whisper-2": ({"task_type": "reposetup", **COMMIT}, "output_contains", False),
    "prometheus-3": ({"task_type": "reposetup", **COMMIT}, "output_contains", True),
    "dbsetup-redis-1": ({"task_type": "dbsetup"}, "output_contains", True),
    "dbsetup-sqlite-1": ({"task_type": "dbsetup"}, "output_contains", False),
    "bgsetup-autossh": ({"task_type": "bgsetup"}, "output_contains", True),
}


@pytest.fixture
def printed():
    """Run the recipe where nothing else is, and return what it prints."""
    Path("setupbench/fixtures/dbsetup-sqlite-1").mkdir(parents=True)
    Path("setupbench/fixtures/dbsetup-sqlite-1/init.sql").touch()
    records = [
        {"instance_id": name, "success_command": SHELL, **record}
        for name, (record, _, _) in RECORDS.items()
    ]
    Path("all.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    program = [sys.executable, "-c", example("python", "Setup successful"), "all.jsonl"]
    return subprocess.check_output(program).decode()


def test_tasks_become_rubrics(printed):
    assert sorted(os.listdir("rubrics")) == sorted(f"{name}.json" for name in RECORDS)
    for name, (_, kind, is_service) in RECORDS.items():
        path = Path("rubrics", f"{name}.json")
        (test,) = de.read_rubric(path.read_bytes(), str(path), is_strict=True).tests
        assert (test.type, bool(test.service)) == (kind, is_service)
        assert test.check.shown == ("sleep 30; " if is_service else "") + SHELL


def test_tasks_get_build_contexts(tmp_path, monkeypatch, printed):
    git = tmp_path / "git"
    git.write_text('#!/bin/sh\necho "$@" >>git.log\n')
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    subprocess.run(["sh", "-c", printed], check=True, stderr=subprocess.DEVNULL)

    assert [path.name for path in Path("checkouts/dbsetup-sqlite-1").iterdir()] == ["init.sql"]
    assert Path("checkouts/bgsetup-autossh").is_dir()
    asked = Path("git.log").read_text().splitlines()
    assert asked[:2] == [
        "clone -q https://example.org/a checkouts/deps-a-1",
        "-C checkouts/deps-a-1 checkout -q c0ffee",
    ]
    assert len(asked) == 2 * 3
