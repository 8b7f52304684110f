"""What the README says of many Dockerfiles and many machines, cut out of it and run as it stands."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import PROJECT
from engine import census, wait_for

import DockerfileEvaluator as de

README = (PROJECT / "README.md").read_text().split("\n## Many Dockerfiles")[1].split("\n## ")[0]
FLAT, TREE, ENGINES = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
(DASK,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
KIND = re.compile('^    "kind": "(engine|interrupted)"', re.MULTILINE)
REPOS = ("app", "lib", "tool")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a copy of what the loops use."""
    folder = tmp_path / "project"
    for name in ("rubrics", "artifacts", *(f"checkouts/{repo}" for repo in REPOS), "reports"):
        (folder / name).mkdir(parents=True)
    shutil.copy(str(PROJECT / "DockerfileEvaluator.py"), str(folder))
    test = {"type": "run_command", "params": {"command": "sleep 0.2"}}
    for repo in REPOS:
        (folder / f"rubrics/{repo}.json").write_text(json.dumps({"repo": repo, "tests": [test, test]}))
    monkeypatch.chdir(folder)
    return folder


def tree(project, base="x", broken="FAIL"):
    """Write a dozen Dockerfiles of four models, the last one broken; return the places of their reports."""
    places = [f"model {m}/{repo}" for m in range(4) for repo in REPOS]
    for place in places:
        file = project / "artifacts" / f"{place}.dockerfile"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"FROM {base}\n" if place != "model 3/tool" else f"FROM {base}\nRUN {broken}\n")
    return [project / "reports" / f"{place}.json" for place in places]


def passed(report):
    return json.loads(report.read_text())["summary"]["passed_tests"]


def wait_for_three(reports, process):
    wait_for(lambda: process.poll() or sum(report.exists() for report in reports) >= 3, 120)
    assert process.poll() is None


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
    wait_for_three(reports, loop)
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


@pytest.mark.parametrize("awkward", ['with "quotes"', "it's", "back\\tslash", "$(touch pwned) `x` *"])
def test_the_loop_over_a_tree_takes_any_name(fake, project, awkward):
    file = project / "artifacts" / awkward / "prompt 1" / "app.dockerfile"
    file.parent.mkdir(parents=True)
    file.write_text("FROM x\n")
    done = subprocess.run(["sh", "-c", TREE], capture_output=True, timeout=60)
    report = project / "reports" / awkward / "prompt 1" / "app.json"
    assert (passed(report), done.stderr) == (2, b"")
    assert done.stdout.decode() == f"{awkward}/prompt 1/app: 2 of 2 tests passed, score 2 of 2 (100%)\n"
    assert not list(project.rglob("pwned"))


def test_an_engine_at_fault_rests_and_its_work_is_done_at_the_next_start(fake, project):
    reports = tree(project)
    loop = TREE.replace("sleep 60", "echo rested")
    fake.fault("version", "fail", nth=2, stderr="error during connect")
    first = subprocess.run(["sh", "-c", loop], capture_output=True, timeout=120).stdout.decode()
    assert first.count("rested") == 1
    assert sorted(map(passed, reports)) == [0, 0, *[2] * 10]
    second = subprocess.run(["sh", "-c", loop], capture_output=True, timeout=120).stdout.decode()
    assert len(second.splitlines()) == 1
    assert [passed(report) for report in reports] == [2] * 11 + [0]


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


def builds(engine, since):
    """Return how many images an engine has built since a time, by its own log of events."""
    words = ["docker", "--host", engine.host, "events", f"--since={since}", f"--until={int(time.time()) + 2}"]
    words += ["--filter=type=image", "--filter=event=tag", "--format={{.Actor.Attributes.name}}"]
    names = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    return sum(name.startswith("dockerfile-evaluator:") for name in names)


@pytest.mark.parametrize("variable", ["DOCKER_HOST", "DOCKER_CONTEXT"])
def test_the_loop_over_two_engines(engines, project, monkeypatch, variable):
    reports = tree(project, "busybox:stable", "false")
    names = [engine.host for engine in engines]
    if variable == "DOCKER_CONTEXT":
        monkeypatch.delenv("DOCKER_HOST", raising=False)
        names = ["lab1", "lab2"]
        for name, engine in zip(names, engines):
            words = ["docker", "context", "create", name, "--docker", f"host={engine.host}"]
            subprocess.run(words, check=True, capture_output=True)
    started = time.time()
    loop = re.sub('ENGINES=".*"', f'ENGINES="{" ".join(names)}"', ENGINES).replace("DOCKER_HOST", variable)
    only_define = TREE.split("\nfind ")[0]
    done = subprocess.run(["sh", "-c", f"{only_define}\n{loop}"], capture_output=True, timeout=300)
    assert [passed(report) for report in reports] == [2] * 11 + [0]
    assert done.stderr == b""
    lines = sorted(done.stdout.decode().splitlines())
    assert lines[0] == "model 0/app: 2 of 2 tests passed, score 2 of 2 (100%)"
    assert len(lines) == 12
    shares = [builds(engine, started) for engine in engines]
    assert sum(shares) == 11
    assert min(shares) >= 2


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
        wait_for_three(reports, program)
        os.kill(int(workers[0]), signal.SIGKILL)
        assert program.wait(300) == 0
        cluster.stdin.close()
    assert [passed(report) for report in reports] == [2] * 11 + [0]
    for engine in engines:  # what the lost worker left there, the next run removes
        on(engine, de.evaluate, "artifacts/model 0/app.dockerfile", "app")


def test_evaluate_goes_by_name_and_its_report_is_plain_data(fake, project):
    tree(project)
    assert pickle.loads(pickle.dumps(de.evaluate)) is de.evaluate
    report = de.evaluate("artifacts/model 0/app.dockerfile", "app")
    assert json.loads(json.dumps(report)) == report
