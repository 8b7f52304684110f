"""artifacts/evaluate_all.py: on real engines."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import time

import pytest
from cases import TRUE, run_command
from conftest import PROJECT
from engine import ask, census, wait_for
from trees import ea, evaluations, kind, real_tree, some_are_done, start

import DockerfileEvaluator as de

pytest_plugins = ["trees"]


@pytest.mark.long("three starts on six Dockerfiles")
def test_on_an_engine_a_kill_loses_nothing_and_leaves_nothing(buildkit, project, tree):
    """BuildKit leaves no image of a build that is stopped; the legacy builder leaves its cached layers."""
    before = census()
    reports = real_tree(tree, 6, run_command("sleep 2"))
    with start("--parallel", "2") as first:
        wait_for(some_are_done(reports), 120)
        os.kill(first.pid, signal.SIGKILL)
    begun = sum(map(evaluations, reports))  # one more may begin without the first
    with start("--parallel", "2") as second:
        wait_for(lambda: sum(map(evaluations, reports)) >= begun + 2, 120)
        os.kill(second.pid, signal.SIGINT)
        assert second.wait(120) == 130
    # those of the first start end by themselves, maybe after the second
    wait_for(lambda: all(kind(report) != "none" for report in reports if evaluations(report)), 120)
    assert {name: census()[name] for name in ("containers", "tags", "volumes")} == {
        name: before[name] for name in ("containers", "tags", "volumes")
    }
    # what was interrupted may have been so before its build began
    needed = [1 if kind(report) == "whole" else evaluations(report) + 1 for report in reports]
    with start("--parallel", "2") as third:
        assert third.wait(240) == 0
    assert [kind(report) for report in reports] == ["whole"] * 6
    assert [evaluations(report) for report in reports] == needed
    assert census()["containers"] == before["containers"]
    assert census()["tags"] == before["tags"]


# The evaluator, but for the time that it gives a lost engine to come back.
HASTY = f"""
import sys
sys.path.insert(0, {str(PROJECT)!r})
import DockerfileEvaluator as de
de.RETURN_LIMIT = de.CLEAN_UP_LIMIT = 4.0
sys.exit(de.main())
"""


@pytest.mark.long("a tree, with an engine that must be given up")
def test_two_engines_one_of_which_is_killed_in_the_middle(private_engine, project, tree, run, monkeypatch):
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    (project / "hasty.py").write_text(HASTY)
    monkeypatch.setattr(ea, "EVALUATOR", str(project / "hasty.py"))
    monkeypatch.setattr(de, "RETURN_LIMIT", 4.0)
    monkeypatch.setattr(ea, "REST", 60.0)
    engines = [private_engine(), private_engine()]
    reports = real_tree(tree, 6, run_command("sleep 2"))

    def kill():
        wait_for(some_are_done(reports), 120)
        wait_for(lambda: ask(engines[1].host, "/containers/json"), 120)
        engines[1].kill()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill)
        code, said, errors = run("--parallel", "2", *(f"--engine={engine.host}" for engine in engines))
        killed.result()
    engines[1].start()
    assert (code, [kind(report) for report in reports]) == (0, ["whole"] * 6), said
    assert f"; {engines[1].host} rests 60 s\n" in errors


def test_an_engine_that_starts_late(private_engine, project, tree):
    private = private_engine()
    private.stop()
    (report,) = real_tree(tree, 1, TRUE)
    with start("--engine", private.host, "--wait", "120") as process:
        time.sleep(1)  # it may find the engine or not: the test is that it waits
        assert process.poll() is None
        private.start()
        assert process.wait(240) == 0
    assert kind(report) == "whole"


@pytest.mark.long("commands that wait for each other")
def test_verdicts_do_not_depend_on_how_many_run(engine, legacy, project, tree, run):
    """A command takes most of its limit alone, and beside others it has to wait for them."""
    (project / "shared").mkdir()
    waits = run_command("flock /shared/lock sleep 4", timeout=7)
    reports = real_tree(tree, 3, waits, base="debian:bookworm-slim")
    words = [f"--run-option=--volume={project}/shared:/shared", "--fresh"]
    for parallel, repeated in ((1, [0]), (8, [1, 2])):
        code, out, _ = run("--parallel", str(parallel), *words)
        assert code == 0
        assert out.count(", repeated\n") in repeated
        assert [json.loads(report.read_text())["summary"]["passed_tests"] for report in reports] == [1] * 3
