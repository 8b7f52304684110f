"""The Dask program of artifacts/README.md, cut out of it and run as it stands, and what it relies on."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import PROJECT
from engine import census, wait_for

import DockerfileEvaluator as de

README = (PROJECT / "artifacts" / "README.md").read_text()
(DASK,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
REPOS = ("app", "lib", "tool")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a copy of what the program uses."""
    folder = tmp_path / "project"
    for name in ("rubrics", "artifacts", *(f"checkouts/{repo}" for repo in REPOS), "reports"):
        (folder / name).mkdir(parents=True)
    shutil.copy(str(PROJECT / "DockerfileEvaluator.py"), str(folder))
    test = {"type": "run_command", "params": {"command": "sleep 0.2"}}
    for repo in REPOS:
        (folder / f"rubrics/{repo}.json").write_text(json.dumps({"repo": repo, "tests": [test]}))
    monkeypatch.chdir(folder)
    return folder


def tree(project, base="x", broken="FAIL"):
    """Write Dockerfiles of three models, the last one broken; return the places of their reports."""
    places = [f"model {m}/{repo}" for m in range(3) for repo in REPOS]
    for place in places:
        file = project / "artifacts" / f"{place}.dockerfile"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"FROM {base}\n" if place != "model 2/tool" else f"FROM {base}\nRUN {broken}\n")
    return [project / "reports" / f"{place}.json" for place in places]


def passed(report):
    return json.loads(report.read_text())["summary"]["passed_tests"]


def wait_for_two(reports, process):
    wait_for(lambda: process.poll() or sum(report.exists() for report in reports) >= 2, 120)
    assert process.poll() is None


@pytest.fixture(scope="module")
def two_engines(private_engine):
    return private_engine(), private_engine()


@pytest.fixture
def engines(two_engines, monkeypatch):
    """Return two engines, and see that nothing is left on them but what the legacy builder keeps."""
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    before = [on(engine, named) for engine in two_engines]
    yield two_engines
    assert [on(engine, named) for engine in two_engines] == before


def named():
    """List all that is on the engine, but for images without a name: a killed build's layers are its cache."""
    found = census()
    return found["containers"], found["volumes"], [tag for tag in found["tags"] if "<none>" not in tag]


def on(engine, work, *words, **more):
    """Do something with DOCKER_HOST set to an engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", engine.host)
        return work(*words, **more)


# A cluster of two workers, each with an engine of its own, until its standard input ends.
CLUSTER = """
import os, sys
from dask.distributed import Client, LocalCluster, WorkerPlugin

class OwnEngine(WorkerPlugin):
    def __init__(self, hosts):
        self.hosts = hosts

    def setup(self, worker):
        os.environ["DOCKER_HOST"] = self.hosts[int(worker.name)]

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.register_plugin(OwnEngine(sys.argv[1:]))
        print(cluster.scheduler_address, *client.run(os.getpid).values(), flush=True)
        sys.stdin.read()
"""


@pytest.mark.long("a cluster, and two engines")
def test_the_dask_program_gets_every_report_though_a_worker_is_lost(engines, project):
    pytest.importorskip("distributed", reason="Dask needs a newer Python")
    reports = tree(project, "busybox:stable", "false")
    assert len([line for line in DASK.splitlines() if line]) < 20
    (project / "cluster.py").write_text(CLUSTER)
    hosts = [engine.host for engine in engines]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "cluster.py", *hosts], **pipes) as cluster:
        address, *workers = cluster.stdout.readline().decode().split()
        (project / "program.py").write_text(DASK.replace("tcp://HOST:8786", address))
        program = subprocess.Popen([sys.executable, "program.py"])
        wait_for_two(reports, program)
        os.kill(int(workers[0]), signal.SIGKILL)
        assert program.wait(300) == 0
        cluster.stdin.close()
    assert [passed(report) for report in reports] == [1] * 8 + [0]
    for engine in engines:  # what the lost worker left there, the next run removes
        on(engine, de.evaluate, "artifacts/model 0/app.dockerfile", "app")


def test_evaluate_goes_by_name_and_its_report_is_plain_data(fake, project):
    tree(project)
    assert pickle.loads(pickle.dumps(de.evaluate)) is de.evaluate
    report = de.evaluate("artifacts/model 0/app.dockerfile", "app")
    assert json.loads(json.dumps(report)) == report
