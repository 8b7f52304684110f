"""What happens once to an engine, or to docker, passes; what happens twice is told as an engine fault.

Connections are cut, docker programs killed, engines restarted and frozen, each while a command of a build
or of a test runs: that is seen in /proc, so that nothing depends on how fast a machine is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid

import pytest
from cases import TRUE
from conftest import PROJECT, outcome, statuses
from engine import Proxy, census, docker, docker_programs, processes

import DockerfileEvaluator as de

FIRST, AFTER = {**TRUE, "id": "true"}, {**TRUE, "id": "after"}
LIMITS = {"CALL_LIMIT": 4.0, "START_LIMIT": 10.0, "END_LIMIT": 6.0, "RETURN_LIMIT": 40.0, "CREATE_LIMIT": 1.0}


@pytest.fixture(scope="module")
def harmed_engine(private_engine):
    """An engine with a network that is frozen, restarted and cut off."""
    return private_engine(network=True)


@pytest.fixture
def harmed(harmed_engine, monkeypatch):
    """Point docker at the engine that is to be harmed, and wait less for it."""
    monkeypatch.setenv("DOCKER_HOST", harmed_engine.host)
    for name, seconds in LIMITS.items():
        monkeypatch.setattr(de, name, seconds)
    yield harmed_engine
    for container in census()["containers"]:
        subprocess.run(["docker", "rm", "--force", "--volumes", container], capture_output=True)


@pytest.fixture
def proxy(harmed, monkeypatch, tmp_path):
    """Stand between docker and the engine."""
    proxy = Proxy(tmp_path, harmed, tcp=True)
    monkeypatch.setenv("DOCKER_HOST", proxy.host)
    yield proxy
    proxy.close()
    monkeypatch.setenv("DOCKER_HOST", harmed.host)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(de, "BUILD_PAUSE", 0.1)


class Sleep:
    """A `sleep` in a container that no other process can be taken for, and what is done when it runs."""

    def __init__(self, seconds: int) -> None:
        self.word = f"{seconds}.{uuid.uuid4().int % 10**12:012}"
        self.command = f"sleep {self.word}"
        self.struck = 0

    def running(self) -> list[int]:
        return processes("sleep", self.word)

    def test(self, timeout: float = 300) -> dict:
        return {"id": "slow", "type": "run_command", "params": {"command": self.command}, "timeout": timeout}

    @contextlib.contextmanager
    def harmed(self, harm, times=1):
        """Do harm each time that it is seen to run, up to so many times; it is gone afterwards."""
        over = threading.Event()
        failures = []

        def watch():
            seen: set[int] = set()
            while not over.wait(0.2) and self.struck < times:
                new = set(self.running()) - seen
                if new:
                    seen |= new
                    self.struck += 1
                    time.sleep(0.5)  # docker has seen it, too
                    try:
                        harm()
                    except Exception as error:  # noqa: BLE001 - raised again below
                        failures.append(error)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            for pid in self.running():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert not failures, failures
        assert self.struck, "the moment of the harm never came"


@pytest.mark.parametrize(("times", "status"), [(1, "passed"), (2, "error")])
def test_the_connection_is_cut_during_a_test(proxy, legacy, evaluate, times, status):
    sleep = Sleep(3)
    with sleep.harmed(proxy.cut, times=times):
        report = evaluate(["FROM busybox:stable"], FIRST, sleep.test(), AFTER)
    assert statuses(report) == {"true": "passed", "slow": status, "after": "passed"}
    assert outcome(report) == ("engine" if status == "error" else "passed")


@pytest.mark.parametrize(("times", "expected"), [(1, "passed"), (100, "engine")])
def test_the_connection_is_cut_in_the_build(proxy, builder, evaluate, times, expected):
    sleep = Sleep(3)
    with sleep.harmed(proxy.cut, times=times):
        report = evaluate(["FROM busybox:stable", f"RUN {sleep.command}"], FIRST)
    assert outcome(report) == expected


def kill_docker(command):
    for pid in docker_programs(command):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("times", "status"), [(1, "passed"), (2, "error")])
def test_the_docker_program_is_killed_during_a_test(harmed, legacy, evaluate, times, status):
    sleep = Sleep(3)
    with sleep.harmed(lambda: kill_docker("run"), times=times):
        report = evaluate(["FROM busybox:stable"], FIRST, sleep.test(), AFTER)
    assert statuses(report) == {"true": "passed", "slow": status, "after": "passed"}
    assert outcome(report) == ("engine" if status == "error" else "passed")


@pytest.mark.parametrize(("times", "expected"), [(1, "passed"), (100, "engine")])
def test_the_docker_program_is_killed_in_the_build(harmed, builder, evaluate, times, expected):
    sleep = Sleep(3)
    with sleep.harmed(lambda: kill_docker("build"), times=times):
        report = evaluate(["FROM busybox:stable", f"RUN {sleep.command}"], FIRST, build_timeout=60)
    assert outcome(report) == expected


@pytest.fixture
def waiting(harmed, monkeypatch, tmp_path):
    """A socket that lets connections wait while the engine restarts."""
    for name, seconds in {"CALL_LIMIT": 40.0, "RETURN_LIMIT": 40.0}.items():
        monkeypatch.setattr(de, name, seconds)
    proxy = Proxy(tmp_path, harmed)
    monkeypatch.setenv("DOCKER_HOST", proxy.host)

    def restart(how, sleep):
        proxy.hold()
        try:
            getattr(harmed, how)()
            for pid in sleep.running():  # or the new engine waits for it
                os.kill(pid, signal.SIGKILL)
            harmed.start()
        finally:
            proxy.release()

    yield restart
    proxy.close()
    monkeypatch.setenv("DOCKER_HOST", harmed.host)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_the_engine_restarts_during_a_build(waiting, builder, evaluate, how):
    sleep = Sleep(3)
    with sleep.harmed(lambda: waiting(how, sleep)):
        # docker asks it to end before it kills it
        run = f"RUN trap 'exit 143' TERM; {sleep.command} & wait"
        report = evaluate(["FROM busybox:stable", run], FIRST, build_timeout=120)
    assert outcome(report) == "passed"


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_the_engine_restarts_during_a_test(waiting, legacy, evaluate, how):
    sleep = Sleep(3)
    with sleep.harmed(lambda: waiting(how, sleep)):
        report = evaluate(["FROM busybox:stable"], FIRST, sleep.test())
    assert (outcome(report), statuses(report)["slow"]) == ("passed", "passed")


@pytest.fixture
def frozen_for(harmed):
    def freeze(seconds):
        harmed.signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            harmed.signal(signal.SIGCONT)

    return freeze


@pytest.mark.parametrize("seconds", [5, 9])
def test_the_engine_is_frozen_past_the_limit_of_a_test(frozen_for, legacy, evaluate, seconds):
    """The command ends after 2 of 4 seconds: nothing is to blame but the engine."""
    sleep = Sleep(2)
    with sleep.harmed(lambda: frozen_for(seconds)):
        report = evaluate(["FROM busybox:stable"], FIRST, sleep.test(timeout=4))
    assert outcome(report) == "passed"


def test_the_engine_is_frozen_past_the_limit_of_the_build(frozen_for, builder, evaluate):
    sleep = Sleep(2)
    with sleep.harmed(lambda: frozen_for(11)):
        report = evaluate(["FROM busybox:stable", f"RUN {sleep.command}"], FIRST, build_timeout=10)
    assert outcome(report) == "passed"


# What a dead run left


def test_somebodys_container_of_the_image_of_a_dead_run(harmed, legacy, dockerfile, rubric, monkeypatch):
    """It is left alone, after one try, and the next run is none the worse."""
    monkeypatch.setattr(de, "REMOVE_LIMIT", 90.0, raising=False)
    sleep = Sleep(600)
    path, questions = dockerfile("FROM busybox:stable", f"LABEL of={uuid.uuid4()}"), rubric(sleep.test())
    words = [sys.executable, str(PROJECT / "DockerfileEvaluator.py"), "--dockerfile", path]
    dead = subprocess.Popen([*words, "--repo", "r", "--rubric", questions], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not sleep.running():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    dead.kill()
    dead.wait()
    image = docker("ps", "--format", "{{.Image}}").strip()
    assert image.startswith("dockerfile-evaluator:")
    docker("create", "--name", "somebodys", image, "true")
    try:
        started = time.monotonic()
        report = de.evaluate(path, "r", rubric(FIRST))
        seconds = time.monotonic() - started
        left = docker("ps", "--all", "--format", "{{.Names}}").split()
    finally:
        docker("rm", "somebodys")
        docker("image", "rm", image)
    assert (outcome(report), left) == ("passed", ["somebodys"])
    assert [warning for warning in report["warnings"] if image in warning], report["warnings"]
    assert seconds < 60
    assert "dockerfile-evaluator" not in docker("images", "--format", "{{.Repository}}")
