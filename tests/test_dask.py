"""artifacts/evaluate_all.py on a real Dask cluster on this machine, with the fake engine."""

import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from batch import ea, finished, run, scores, start, tree
from cases import run_command
from engine import wait_for
from fake_engine import Engine
from test_readme import command

pytestmark = pytest.mark.long("starts Dask clusters")


@pytest.fixture
def cluster(fake, tmp_path, request):
    """Start a scheduler; return its address, its process, and a function that starts a worker.

    A worker needs none of our programs: it finds others, which fail.
    """
    pytest.importorskip("distributed")
    for name in ("DockerfileEvaluator.py", "evaluate_all.py"):
        (tmp_path / name).write_text("raise SystemExit(1)")

    def start_dask(name, line, ready, engine=fake):
        log = tmp_path / name
        process = subprocess.Popen(
            [sys.executable, "-m", *line.split(), "--no-dashboard"],
            cwd=str(tmp_path / "tmp"),
            stderr=log.open("wb"),
            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{engine.site}"},
        )
        request.addfinalizer(process.wait)
        request.addfinalizer(process.kill)
        return process, wait_for(lambda: re.search(ready, log.read_text()))[1]

    def worker(name, engine=fake):
        line = command("dask worker").replace("tcp://HOST:8786", address)
        words = f"{line} --no-nanny --nthreads 1 --name {name}"
        return start_dask(name, words, "Registered to: +(.*)", engine)[0]

    line = f"{command('dask scheduler')} --host 127.0.0.1 --port 0"
    scheduler, address = start_dask("scheduler", line, r"Scheduler at: +(\S+)\n")
    return SimpleNamespace(address=address, scheduler=scheduler, worker=worker)


def write_tree(count, model="m"):
    places = [f"{model}/{number}" for number in range(count)]
    tree(dict.fromkeys(places, "FROM x"), run_command("sleep 0.5"))
    return dict.fromkeys(places, 1)  # the scores that they get


def test_lost_worker_and_one_without_an_engine_cost_no_score(cluster, tmp_path):
    """One is killed, another has come meanwhile; the third never has an engine."""
    dead = Engine(tmp_path / "dead-engine")
    dead.fault("version", stderr="Cannot connect to the Docker daemon")
    cluster.worker("dead", dead)
    killed = cluster.worker("killed")
    expected = write_tree(20)
    _, _, *words = command("--dask").replace("tcp://HOST:8786", cluster.address).split()
    process = start(*words, "--no-repeat")
    wait_for(scores)

    killed.kill()
    cluster.worker("late")
    code, out, _ = finished(process)

    assert scores() == expected, out
    assert dead.count("version") > 1
    assert code == 0


def test_cluster_without_a_worker_or_scheduler_is_an_error(cluster, monkeypatch):
    monkeypatch.setattr(ea, "WORKER_TIMEOUT", 2)
    tree({"m/a": "FROM x"}, run_command(f"kill -9 {cluster.scheduler.pid}"))

    without_worker = run("--dask", cluster.address)
    cluster.worker("one")
    without_scheduler = run("--dask", cluster.address)

    for code, out, err in (without_worker, without_scheduler):
        assert err.startswith(f"error: --dask {cluster.address}: ")
        assert out.endswith("0 of 1 Dockerfiles have a score\n")
        assert code == 1


def test_interrupt_cleans_up_on_the_workers_and_disturbs_no_other_coordinator(cluster, fake):
    """The first one is interrupted after the second one has sent its programs."""
    for name in ("one", "two"):
        cluster.worker(name)
    tree({"a/long": "FROM x"}, run_command("sleep 600", timeout=600))
    first = start("--dask", cluster.address, "--model", "a")
    wait_for(lambda: fake.count("run"))
    expected = write_tree(3, "b")
    second = start("--dask", cluster.address, "--model", "b")
    wait_for(scores)

    first.send_signal(signal.SIGINT)

    assert finished(first)[0] == 130
    assert finished(second)[0] == 0
    assert scores() == expected
    assert fake.left() == []


def test_control_experiment_is_made_on_the_worker_where_the_errors_come_from(
    cluster, fake, tmp_path
):
    """The engine here works: that of the worker does not build."""
    broken = Engine(tmp_path / "broken-engine")
    for call in ("build", "control COPY"):
        broken.fault(call, stderr="failed to solve: the disk of the engine is broken")
    cluster.worker("broken", broken)
    write_tree(9)

    code, out, _ = run("--dask", cluster.address, "--no-repeat")

    assert "stopped: the control experiment fails, too: worker broken: docker cannot build" in out
    assert fake.count("build") == 0
    assert code == 1


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    write_tree(1)

    assert "ModuleNotFoundError" in run("--dask", "tcp://x")[2]
