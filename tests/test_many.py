"""The README's loops, cut out of it and run as they stand."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import PROJECT

README = (PROJECT / "README.md").read_text()
FLAT, TREE = re.findall(
    r"```sh\n(.*?)```", README.split("\n## Many Dockerfiles")[1].split("\n## ")[0], re.DOTALL
)
KIND = re.compile('^    "kind": "(engine|interrupted)"', re.MULTILINE)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a copy of what the loops use, with Dockerfiles for the fake docker."""
    folder = tmp_path / "project"
    for name in ("rubrics", "artifacts", "checkouts/app", "checkouts/lib", "checkouts/tool", "reports"):
        (folder / name).mkdir(parents=True)
    shutil.copy(str(PROJECT / "DockerfileEvaluator.py"), str(folder))
    test = {"type": "run_command", "params": {"command": "sleep 0.2"}}
    for repo in ("app", "lib", "tool"):
        (folder / f"rubrics/{repo}.json").write_text(json.dumps({"repo": repo, "tests": [test, test]}))
    monkeypatch.chdir(folder)
    return folder


def tree(project):
    """Write a dozen Dockerfiles of four models; return the places of their reports."""
    places = [f"model {m}/{repo}" for m in range(4) for repo in ("app", "lib", "tool")]
    for place in places:
        file = project / "artifacts" / f"{place}.dockerfile"
        file.parent.mkdir(exist_ok=True)
        file.write_text("FROM x\n" if place != "model 3/tool" else "FROM x\nRUN FAIL\n")
    return [project / "reports" / f"{place}.json" for place in places]


def passed(report):
    return json.loads(report.read_text())["summary"]["passed_tests"]


def test_the_loop_over_a_folder_skips_what_was_evaluated(fake, project):
    for name in ("app", "lib", "lib_flawed"):
        (project / f"artifacts/{name}.dockerfile").write_text("FROM x\n")
    (project / "reports/lib.json").write_text("mine")
    done = subprocess.run(["sh", "-c", FLAT], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert passed(project / "reports/app.json") == passed(project / "reports/lib_flawed.json") == 2
    assert (project / "reports/lib.json").read_text() == "mine"


def test_the_loop_over_a_tree_is_killed_in_the_middle_and_resumes(fake, project):
    reports = tree(project)
    loop = subprocess.Popen(
        ["sh", "-c", TREE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while sum(report.exists() for report in reports) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(loop.pid, signal.SIGINT)
    loop.communicate(timeout=60)  # to the end of the last evaluation, which holds the pipe
    whole = {
        report: report.read_text()
        for report in reports
        if report.exists() and not KIND.search(report.read_text())
    }
    assert 3 <= len(whole) < len(reports)
    subprocess.run(["sh", "-c", TREE], capture_output=True, timeout=120)
    assert [passed(report) for report in reports] == [2] * 11 + [0]
    assert {report: report.read_text() for report in whole} == whole
    assert fake.left() == []
