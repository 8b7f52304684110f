"""An engine that dies, freezes or restarts at the worst moment: a private one, which these tests may harm."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time

import pytest
from cases import TRUE, run_command
from conftest import statuses
from engine import ask, census, docker, wait_for

import DockerfileEvaluator as de

BEFORE, AFTER, LAST = ({**TRUE, "id": name} for name in ("before", "after", "last"))
SLOW = run_command("sleep 4", id="slow", timeout=300)


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
        "CREATE_LIMIT": 1.0,
        "CLEAN_UP_LIMIT": 4.0,
        "BUILD_PAUSE": 0.1,
    }.items():
        monkeypatch.setattr(de, name, seconds)
    before = census()
    yield
    settle(before)


def settle(before) -> None:
    """Take away what the engine's own death left, which the next run of another process would sweep."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and census()["containers"]:
        words = ["docker", "rm", "--force", "--volumes", *census()["containers"]]
        subprocess.run(words, capture_output=True)
    now = census()
    for image in sorted(set(now["tags"]) - set(before["tags"])):
        assert image.startswith("dockerfile-evaluator:")
        docker("image", "rm", image)
    for image in set(census()["images"]) - set(before["images"]):
        subprocess.run(["docker", "image", "rm", image], capture_output=True)
    assert census() == before


def runs(command) -> bool:
    """Whether a container runs a command."""
    host = os.environ["DOCKER_HOST"]
    answers = [ask(host, f"/containers/{one}/top") for one in census()["containers"]]
    return any(command in " ".join(row) for answer in answers for row in answer.get("Processes") or ())


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
            wait_for(lambda: runs("sleep 4"))
            self.strike("in the build")

    def started(self, test):
        if test.id == "slow":
            threading.Thread(target=self.strike_a_test).start()

    def strike_a_test(self):
        if self.moment == "in a test":
            wait_for(lambda: runs("sleep 4"))
            self.strike("in a test")


@pytest.fixture
def evaluate_with_harm(dockerfile, rubric):
    def run(moment, harm, lines=("FROM busybox:stable",), tests=(BEFORE, SLOW, AFTER, LAST), **more):
        path = dockerfile(*lines)
        started = time.monotonic()
        options = de.Options(path, "r", rubric(*tests), **more)
        report = de.Evaluation(options, events=Trigger(moment, harm)).run()
        return report, time.monotonic() - started

    return run


def restarted(private):
    private.kill()
    private.start()


def test_killed_for_good_before_the_build(private, evaluate_with_harm):
    report, _ = evaluate_with_harm("building", private.kill)
    private.start()
    assert report["error"]["kind"] == "engine"
    assert set(statuses(report).values()) == {"not_run"}


def test_killed_for_good_during_the_build(private, evaluate_with_harm):
    report, _ = evaluate_with_harm("in the build", private.kill, lines=["FROM busybox:stable", "RUN sleep 4"])
    private.start()
    assert report["error"]["kind"] == "engine"
    assert set(statuses(report).values()) == {"not_run"}


def test_killed_for_good_during_a_test(private, evaluate_with_harm):
    report, _ = evaluate_with_harm("in a test", private.kill)
    private.start()
    assert statuses(report) == {"before": "passed", "slow": "error", "after": "error", "last": "not_run"}
    assert report["error"]["kind"] == "engine"
    assert re.search("^leftover: image dockerfile-evaluator:[0-9a-f]{12}-", report["warnings"][-1])


def stopped_in_good_order(private):
    """docker then says 137, as if the test's own process had been killed."""
    private.stop()
    private.start()


@pytest.mark.parametrize("harm", [restarted, stopped_in_good_order])
def test_restarted_during_a_test(private, evaluate_with_harm, harm, monkeypatch):
    """The test is run once more, when the engine is back, and nothing of the evaluation is lost."""
    monkeypatch.setattr(de, "RETURN_LIMIT", 60.0)
    report, _ = evaluate_with_harm("in a test", lambda: harm(private))
    assert (set(statuses(report).values()), report["error"]) == ({"passed"}, None)
    assert [row["retried"] for row in report["test_results"]] == [False, True, False, False]
    assert census()["containers"] == []


@pytest.mark.parametrize("harm", [restarted, stopped_in_good_order])
def test_restarted_during_the_build(private, evaluate_with_harm, harm, monkeypatch):
    monkeypatch.setattr(de, "RETURN_LIMIT", 60.0)
    lines = ["FROM busybox:stable", "RUN trap 'exit 143' TERM; sleep 4 & wait"]
    report, _ = evaluate_with_harm("in the build", lambda: harm(private), lines=lines, tests=(BEFORE,))
    assert (statuses(report), report["error"]) == ({"before": "passed"}, None)


def test_killed_for_good_before_clean_up(private, evaluate_with_harm):
    """What stays is a warning; the verdicts are right, and stand."""
    report, _ = evaluate_with_harm("cleaning up", private.kill, tests=(BEFORE,))
    private.start()
    assert (statuses(report), report["error"]) == ({"before": "passed"}, None)
    assert report["warnings"][-1].startswith("leftover: image dockerfile-evaluator:")


def test_restarted_before_clean_up(private, evaluate_with_harm, monkeypatch):
    monkeypatch.setattr(de, "CLEAN_UP_LIMIT", 60.0)
    report, _ = evaluate_with_harm("cleaning up", lambda: restarted(private), tests=(BEFORE,))
    assert (statuses(report), report["error"], report["warnings"]) == ({"before": "passed"}, None, [])


@pytest.mark.long("a frozen engine is waited for")
@pytest.mark.parametrize("moment", ["in the build", "in a test", "cleaning up"])
def test_an_engine_that_freezes_fails_no_test_and_every_wait_ends(private, evaluate_with_harm, moment):
    """A frozen engine says nothing to anybody; limits end every wait."""
    lines = ["FROM busybox:stable", *(["RUN sleep 4"] if moment == "in the build" else [])]
    tests = (BEFORE,) if moment == "cleaning up" else (BEFORE, {**SLOW, "timeout": 3}, AFTER, LAST)
    harm = lambda: private.signal(signal.SIGSTOP)  # noqa: E731
    try:
        report, seconds = evaluate_with_harm(moment, harm, lines, tests, build_timeout=5.0)
    finally:
        private.signal(signal.SIGCONT)
    kinds = {"cleaning up": None}
    assert (report["error"] and report["error"]["kind"]) == kinds.get(moment, "engine")
    assert "failed" not in statuses(report).values()
    assert seconds < 300  # and not for ever
