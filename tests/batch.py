"""Trees of Dockerfiles for the tests of artifacts/evaluate_all.py, and what is written for them."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import evaluate_all as ea
from cases import run_command
from conftest import PROJECT, called

run = functools.partial(called, ea.main)  # returns the exit code, stdout and stderr


def tree(dockerfiles, *tests):
    """Write artifacts/MODEL/REPO.dockerfile and rubrics/REPO.json for texts by MODEL/REPO."""
    os.makedirs("rubrics", exist_ok=True)
    for place, text in dockerfiles.items():
        file = Path(f"artifacts/{place}.dockerfile")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {place}\n{text}")
        rubric = {"tests": tests or [run_command("true")]}
        Path(f"rubrics/{file.stem}.json").write_text(json.dumps(rubric))


def report(place):
    """Return a report."""
    return json.loads(Path(f"reports/{place}.json").read_text())


def kinds():
    """Return the kind of error in each report ("" if there is none)."""
    found = {}
    for file in Path("reports").rglob("*.json"):
        error = json.loads(file.read_text())["error"]
        found[f"{file.parent.name}/{file.stem}"] = error["kind"] if error else ""
    return found


def has(file, text):
    """Return whether a file exists and contains a text."""
    return os.path.exists(file) and text in Path(file).read_text()


def start(*words):
    """Start the command in a process of its own."""
    program = [sys.executable, str(PROJECT / "artifacts" / "evaluate_all.py"), *words]
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )


# Runs the command with the evaluator's stub, in a process of its own.
STUBBED = """
import sys
sys.path[:0] = sys.argv[1:3]
import evaluate_all
evaluate_all.PROGRAM = sys.argv[2] + "/stub_evaluator.py"
sys.exit(evaluate_all.main(sys.argv[3:]))
"""


def start_stubbed(*words):
    """Start the command in a process of its own, with the stub as the evaluator."""
    folders = [str(PROJECT / "artifacts"), str(PROJECT / "tests")]
    program = [sys.executable, "-c", STUBBED, *folders, *words]
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )
