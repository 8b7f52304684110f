"""Section 7 of the specification: names, clean-up, what others have left, interrupts."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from unittest import mock

import pytest
from cases import FALSE, TRUE, run_command
from conftest import outcome
from engine import wait_for

import DockerfileEvaluator as de

SLOW = run_command("touch running; sleep 600")
LATE = run_command("sleep 600", timeout=0.3)


@pytest.fixture
def left(fake, tmp_path):
    """Return a function that lists all containers, images and temporary folders that exist."""
    return lambda: fake.left() + os.listdir(str(tmp_path / "tmp"))


# Names


def test_everything_has_the_name_of_its_run_which_version_2_1_does_not_take_for_its_own(
    fake, evaluate
):
    for _ in range(2):
        evaluate(["FROM x"], TRUE)

    first, second = re.findall("--tag=dockerfile-evaluator:(.*?)'", str(fake.calls("build")))
    containers = re.findall("--name=dockerfile-evaluator-(.*?)-[^-]*'", str(fake.calls("run")))
    assert containers == [first, second]
    assert first != second
    assert re.fullmatch(rf"h[0-9a-f]+-{os.getpid()}-\w+", first)  # 2.1's had no h


# Nothing is left


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("ENV A=b", "'image rm' nth=1"),
        ("COPY missing /", ""),
        ("ENV A=b", "build do=hang nth=1"),
    ],
    ids=["the first removal fails", "the build fails twice", "the build takes too long"],
)
def test_nothing_is_left_and_nothing_is_pruned(fake, evaluate, left, line, faults):
    fake.inject(faults)

    report = evaluate(["FROM x", line], FALSE, LATE, build_timeout=2)

    assert report["warnings"] == []
    assert left() == []
    assert all("--volumes" in words for words in fake.calls("container rm"))
    assert "prune" not in str(fake.names())


def test_without_an_engine_the_evaluation_ends_at_once_and_removes_nothing(fake, evaluate):
    fake.fault("version", stderr="Cannot connect to the Docker daemon")

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "engine"
    assert fake.names() == ["version"]


# What cannot be removed


@pytest.fixture
def short_limits(monkeypatch):
    """Give the clean-up, and each docker command in it, two seconds."""
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 2.0)
    monkeypatch.setattr(de, "COMMAND_TIMEOUT", 2.0)


@pytest.mark.parametrize(
    "fault", ["'container rm'", "'container rm' do=hang", "'image rm' do='lose the engine'"]
)
def test_what_cannot_be_removed_is_a_warning_and_changes_no_verdict(
    fake, evaluate, short_limits, fault
):
    fake.inject(fault)

    report = evaluate(["FROM scratch"], TRUE, LATE)

    assert outcome(report) == "passed timeout"
    assert report["warnings"]


def test_clean_up_has_one_time_limit_for_everything(fake, evaluate, short_limits):
    make_many = "cd ../images; set -- *; for n in $(seq 20); do cp $1 $1-$n; done"
    fake.fault("image rm", "hang")

    started = time.monotonic()
    evaluate(["FROM x"], run_command(make_many))

    assert time.monotonic() - started < 20


# What others have left; that of a run that was killed is in test_engine.py, too


HOST = de.Workspace(de.Docker("docker")).name.split("-")[0]
GONE = f"{HOST}-4194305-0a1b2c"  # no process has so large an id
REMOVED = f"""
    dockerfile-evaluator-{GONE}-1 dockerfile-evaluator:{GONE} dockerfile-evaluator:{GONE}-1
"""
OF_LIVING_RUNS = f"""
    dockerfile-evaluator-{HOST}-{os.getpid()}-0a1b2c
    dockerfile-evaluator:{HOST}-{os.getppid()}-0a1b2c
    dockerfile-evaluator-h0123456789ab-4194305-0a1b2c
    dockerfile-evaluator:h0123456789ab-4194305-0a1b2c
"""
OF_OTHERS = f"""
    somebodys mydockerfile-evaluator-{GONE}-1 dockerfile-evaluators-{GONE}-1
    dockerfile-evaluator dockerfile-evaluator-{GONE}-1-1 dockerfile-evaluator:{GONE}-1-1
    dockerfile-evaluator:latest dockerfile-evaluator:kept-4194305-0a1b2c
"""


def test_leftovers_of_a_run_of_another_user_stay(fake, evaluate, monkeypatch):
    (fake.folder / "images" / f"dockerfile-evaluator:{GONE}").touch()
    monkeypatch.setattr(os, "kill", mock.Mock(side_effect=PermissionError))

    evaluate(["FROM x"], TRUE)

    assert fake.left() == [f"dockerfile-evaluator:{GONE}"]


def test_other_pid_namespace_is_another_host():
    with mock.patch.object(os, "stat", return_value=os.stat("/")):
        name = de.Workspace(de.Docker("docker")).name

    assert HOST not in name


def test_leftovers_of_living_runs_of_other_machines_and_of_others_stay(
    fake, evaluate, left, tmp_path
):
    spared = f"{OF_LIVING_RUNS} {OF_OTHERS}".split()
    for name in [*spared, *REMOVED.split()]:
        if ":" in name:
            (fake.folder / "images" / name).touch()
        else:
            (fake.folder / "containers" / name).write_text("{'Pid': 0}")
            (tmp_path / "tmp" / name).mkdir()

    evaluate(["FROM x"], TRUE)

    folders = [name for name in spared if ":" not in name]
    assert sorted(left()) == sorted(spared + folders)


def test_what_cannot_be_removed_is_tried_again_by_each_next_evaluation(
    fake, evaluate, short_limits
):
    fake.fault("image rm", "hang")
    evaluate(["FROM scratch"], TRUE)
    second = evaluate(["FROM scratch"], TRUE)
    fake.set(faults=[])
    third = evaluate(["FROM scratch"], TRUE)

    assert outcome(second) == "passed"
    assert len(second["warnings"]) == 2  # of the image of the first one, and of its own
    assert third["warnings"] == fake.left() == []


# Interrupts


@pytest.fixture
def start_until(fake, start, arguments):
    """Start an evaluation in a process of its own; wait for a call, or for its endless command."""

    def run(call="", lines=("FROM scratch",), test=SLOW, **more):
        process = start(*arguments(lines, test), **more)
        wait_for(lambda: fake.count(call) or (fake.root / "running").exists())
        return process

    return run


def interrupt(process, number=signal.SIGINT):
    """Send a signal; return the exit code. A removal that hangs would take 20 s."""
    process.send_signal(number)
    _, err = process.communicate(timeout=18)
    assert b"Traceback" not in err
    return process.returncode


@pytest.mark.parametrize(
    ("call", "number", "line"),
    [
        ("build", signal.SIGHUP, "FROM scratch"),
        ("control run", signal.SIGINT, "RUN exit 137"),
        ("run", signal.SIGTERM, "FROM scratch"),
        ("test", signal.SIGINT, "FROM scratch"),
    ],
    ids=["build", "control experiment", "docker run", "test"],
)
def test_signal_ends_what_runs_removes_everything_and_is_the_exit_code(
    fake, start_until, report, left, call, number, line
):
    """A test is ended by SIGKILL to docker: SIGTERM would be passed on to it.

    test_injection.py has signals at every other command.
    """
    fake.fault(call, "hang", nth=1)
    fake.fault("run", "ignore SIGTERM")
    process = start_until(call, ["FROM scratch", line], limits={"END_TIMEOUT": 600.0})

    assert interrupt(process, number) == 128 + number
    assert outcome(report()) == "interrupted"
    assert left() == []


def test_container_that_is_created_after_its_docker_was_ended_is_removed(fake, start_until):
    fake.set(create_seconds=1)
    process = start_until("run")
    wait_for((fake.folder / "creating").exists)

    interrupt(process)

    wait_for((fake.folder / "created").exists)
    assert fake.left() == []


def test_docker_has_a_session_of_its_own_and_is_killed_if_it_ignores_sigterm(fake, start_until):
    """A terminal's Ctrl-C does not reach it."""
    fake.inject("build do='ignore SIGTERM'; build do=hang")
    process = start_until("build", limits={"END_TIMEOUT": 0.3})
    docker = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    assert os.getsid(docker) == docker

    assert interrupt(process) == 130
    assert not os.path.exists(f"/proc/{docker}")


def test_signal_in_the_clean_up_keeps_the_score(fake, start_until, report):
    fake.fault("image rm", "sleep", seconds=1)
    process = start_until("image rm", test=TRUE)

    assert interrupt(process) == 0
    assert outcome(report()) == "passed"
    assert fake.left() == []


@pytest.mark.parametrize("do", ["fail", "hang"])
def test_second_signal_stops_waiting_but_what_can_be_removed_is_removed(
    fake, start_until, report, do
):
    fake.fault("image rm", do)
    process = start_until(limits={"RECOVERY_TIMEOUT": 600.0})
    process.send_signal(signal.SIGINT)
    wait_for(lambda: fake.count("image rm"))

    assert interrupt(process, signal.SIGTERM) == 130
    assert len(report()["warnings"]) == 1
    assert [":" in name for name in fake.left()] == [True]


def test_third_signal_ends_a_write_that_nobody_reads(fake, start, arguments, tmp_path):
    os.mkfifo(tmp_path / "report.json")
    process = start(*arguments(["FROM x"], TRUE))
    wait_for(lambda: fake.count("run") and not fake.left())

    wait_for(lambda: process.send_signal(signal.SIGINT) or process.poll())

    assert process.returncode == -signal.SIGINT
    assert fake.left() == []


def test_ignored_sighup_stays_ignored(fake, start_until, report):
    held = run_command("touch running; until test -e go; do sleep 0.05; done")
    process = start_until(test=held, before=("nohup",))
    process.send_signal(signal.SIGHUP)
    (fake.root / "go").touch()

    assert process.wait(60) == 0
    assert outcome(report()) == "passed"


def test_signal_while_inputs_are_read_ends_the_program(fake, start, tmp_path):
    pipe = str(tmp_path / "rubric.json")
    os.mkfifo(pipe)
    process = start("--dockerfile=/dev/null", "--repo=r", f"--rubric={pipe}")
    with open(pipe, "wb"):  # returns when the program has opened it, too
        assert interrupt(process) == 130
    assert fake.names() == []
