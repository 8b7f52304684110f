"""An engine that dies, freezes or restarts at the worst moment: a private one, which these tests may harm."""

from __future__ import annotations

import signal
import subprocess
import threading
import time

import pytest
from cases import TRUE, run_command
from conftest import statuses
from engine import census, docker, wait_for

import DockerfileEvaluator as de

BEFORE, AFTER, LAST = ({**TRUE, "id": name} for name in ("before", "after", "last"))
SLOW = run_command("sleep 600", id="slow", timeout=300)


@pytest.fixture(scope="module")
def private(private_engine):
    return private_engine()


@pytest.fixture(autouse=True)
def on_the_private_engine(engine, private, monkeypatch):
    """Point docker there, wait less for it, and see that nothing is left once it is well again."""
    monkeypatch.setenv("DOCKER_HOST", private.host)
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    for name, seconds in {
        "CALL_LIMIT": 3.0,
        "START_LIMIT": 6.0,
        "END_LIMIT": 4.0,
        "RETURN_LIMIT": 2.0,
    }.items():
        monkeypatch.setattr(de, name, seconds)
    before = census()
    yield
    settle(before)


def settle(before) -> None:
    """Take away what the engine's own death left, which the next run of another process would sweep."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and docker("ps", "--all", "--quiet"):
        words = ["docker", "rm", "--force", "--volumes", *docker("ps", "--all", "--quiet").split()]
        subprocess.run(words, capture_output=True)
    now = census()
    for image in sorted(set(now["tags"]) - set(before["tags"]) - {"<none>:<none>"}):
        assert image.startswith("dockerfile-evaluator:")
        docker("image", "rm", image)
    for image in set(census()["images"]) - set(before["images"]):
        subprocess.run(["docker", "image", "rm", image], capture_output=True)
    assert census() == before


def runs(command) -> bool:
    """Whether a container runs a command."""
    containers = docker("ps", "--quiet").split()
    return any(command in docker("top", container) for container in containers)


class Trigger(de.Events):
    """Calls `harm` once, at the moment that a test has chosen."""

    def __init__(self, moment, harm) -> None:
        self.moment, self.harm = moment, harm

    def strike(self, moment):
        if moment == self.moment:
            self.moment = None
            self.harm()

    def phase(self, text):
        self.strike(text)

    def build_line(self, line, is_step):
        if self.moment == "in the build" and "Running in" in line:
            wait_for(lambda: runs("sleep 600"))
            self.strike("in the build")

    def started(self, test):
        if test.id == "slow":
            threading.Thread(target=self.strike_a_test).start()

    def strike_a_test(self):
        if self.moment == "in a test":
            wait_for(lambda: runs("sleep 600"))
            self.strike("in a test")


@pytest.fixture
def evaluate_with_harm(dockerfile, rubric):
    def run(moment, harm, lines=("FROM busybox:stable",), tests=(BEFORE, SLOW, AFTER, LAST), **more):
        path = dockerfile(*lines)
        started = time.monotonic()
        report = de.Evaluation(path, "r", rubric(*tests), events=Trigger(moment, harm), **more).run()
        return report, time.monotonic() - started

    return run


def restarted(private):
    private.kill()
    private.start()


def test_killed_before_the_build(private, evaluate_with_harm):
    report, _ = evaluate_with_harm("building", private.kill)
    private.start()
    assert report["error"]["kind"] == "engine"
    assert set(statuses(report).values()) == {"not_run"}


def test_killed_during_the_build(private, evaluate_with_harm):
    report, _ = evaluate_with_harm(
        "in the build", private.kill, lines=["FROM busybox:stable", "RUN sleep 600"]
    )
    private.start()
    assert report["error"]["kind"] == "engine"
    assert set(statuses(report).values()) == {"not_run"}


def test_killed_during_a_test(private, evaluate_with_harm):
    report, _ = evaluate_with_harm("in a test", private.kill)
    private.start()
    assert statuses(report) == {"before": "passed", "slow": "error", "after": "error", "last": "not_run"}
    assert report["error"]["kind"] == "engine"
    assert "left on the engine: " in report["error"]["message"]


def test_stopped_in_good_order_during_a_test(private, evaluate_with_harm):
    """docker then says 137, as if the test's own process had been killed."""

    def stop_and_start():
        private.stop()
        private.start()

    report, _ = evaluate_with_harm("in a test", stop_and_start)
    assert (statuses(report)["before"], statuses(report)["slow"]) == ("passed", "error")
    assert "failed" not in statuses(report).values()
    assert report["error"]["kind"] == "engine"


def test_killed_before_clean_up(private, evaluate_with_harm):
    report, _ = evaluate_with_harm("cleaning up", private.kill, tests=(BEFORE,))
    private.start()
    assert statuses(report) == {"before": "passed"}
    assert report["error"]["kind"] == "engine"
    assert "left on the engine: image dockerfile-evaluator:" in report["error"]["message"]


def test_restarted_before_clean_up(private, evaluate_with_harm):
    report, _ = evaluate_with_harm("cleaning up", lambda: restarted(private), tests=(BEFORE,))
    assert (statuses(report), report["error"]) == ({"before": "passed"}, None)


@pytest.mark.parametrize("moment", ["in the build", "in a test", "cleaning up"])
def test_frozen(private, evaluate_with_harm, moment):
    """A frozen engine says nothing to anybody; limits end every wait."""
    lines = ["FROM busybox:stable", *(["RUN sleep 600"] if moment == "in the build" else [])]
    tests = (BEFORE,) if moment == "cleaning up" else (BEFORE, {**SLOW, "timeout": 4}, AFTER, LAST)
    harm = lambda: private.signal(signal.SIGSTOP)  # noqa: E731
    try:
        report, seconds = evaluate_with_harm(moment, harm, lines, tests, build_timeout=5.0)
    finally:
        private.signal(signal.SIGCONT)
    assert report["error"]["kind"] in ("engine", "build_timeout")
    assert "failed" not in statuses(report).values()
    assert seconds < 90
