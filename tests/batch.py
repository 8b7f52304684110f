"""Trees of Dockerfiles for the tests of artifacts/evaluate_all.py, and what is written for them."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import evaluate_all as ea
from cases import run_command
from conftest import PIPES, called


def run(line="", *words):
    """Call the command with the words of a line and others; return exit code, stdout, stderr."""
    return called(ea.main, *shlex.split(line), *words)


def tree(dockerfiles, *tests):
    """Write artifacts/MODEL/REPO.dockerfile and rubrics/REPO.json for texts by MODEL/REPO.

    The texts can be one string, such as "m/a, m/b: text".
    """
    if isinstance(dockerfiles, str):
        items = (each.partition(":") for each in dockerfiles.split(", "))
        dockerfiles = {place: text for place, _, text in items}
    os.makedirs("rubrics", exist_ok=True)
    for place, text in dockerfiles.items():
        file = Path(f"artifacts/{place}.dockerfile")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {place}\n{text}\n")
        rubric = {"tests": tests or [run_command("true")] * 2}
        Path(f"rubrics/{file.stem}.json").write_text(json.dumps(rubric))


def scores():
    """Return the part of the tests that pass in each report by MODEL/REPO, or its error's kind."""
    found = {}
    for file in filter(Path.is_file, Path("reports").rglob("*.json")):
        content = json.loads(file.read_text())
        rate = content["summary"]["success_rate"]
        place = str(file.relative_to("reports").with_suffix(""))
        found[place] = content["error"]["kind"] if rate is None else rate
    return found


PROGRAM = [sys.executable, ea.__file__]


def start(*words):
    """Start the command in a process of its own."""
    return subprocess.Popen([*PROGRAM, *words], encoding="utf-8", **PIPES)


def finished(process, seconds=300):
    """Wait for a process; return its exit code, stdout and stderr."""
    with process:
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
    return process.returncode, out, err
