"""The recipe for SetupBench, on a record of each kind."""

import json
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
    with open("all.jsonl", "w") as file:
        for name, (record, _, _) in RECORDS.items():
            print(json.dumps({"instance_id": name, "success_command": SHELL, **record}), file=file)
    program = [sys.executable, "-c", example("python", "Setup successful"), "all.jsonl"]
    return subprocess.check_output(program).decode()


@pytest.mark.usefixtures("printed")
def test_tasks_become_rubrics():
    assert {path.stem for path in Path("rubrics").iterdir()} == set(RECORDS)
    for name, (_, kind, is_service) in RECORDS.items():
        (test,) = de.read_rubric(Path(f"rubrics/{name}.json").read_bytes(), "r").tests
        assert (test.type, bool(test.service)) == (kind, is_service)
        assert test.check.shown == "sleep 30; " * is_service + SHELL


def test_tasks_get_build_contexts(printed):
    git = 'git() { echo "$@" >>git.log; }'

    subprocess.run(["sh", "-c", f"{git}\n{printed}"], check=True, stderr=subprocess.DEVNULL)

    assert Path("checkouts/dbsetup-sqlite-1/init.sql").exists()
    assert Path("checkouts/bgsetup-autossh").is_dir()
    asked = Path("git.log").read_text().splitlines()
    assert asked[:2] == [
        "clone -q https://example.org/a checkouts/deps-a-1",
        "-C checkouts/deps-a-1 checkout -q c0ffee",
    ]
    assert len(asked) == 2 * 3
