"""Section 7 of the specification: names, clean-up, what others have left, interrupts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from cases import FALSE, TRUE, run_command
from conftest import error_of, outcome, statuses
from engine import wait_for

import DockerfileEvaluator as de

CONFLICT = "Error response from daemon: conflict: it is in use"
SLOW = run_command("touch running; sleep 600")
LATE = run_command("sleep 600", timeout=0.3)


@pytest.fixture
def folders(tmp_path):
    """List the temporary folder."""
    return lambda: os.listdir(str(tmp_path / "tmp"))


def given(fake, call, option):
    """Return the value of an option in each call."""
    words = [word for words in fake.calls(call) for word in words]
    return [word[len(option) :] for word in words if word.startswith(option)]


# Names


def test_everything_has_the_name_of_its_run(fake, evaluate):
    evaluate(["FROM x"], TRUE, FALSE)
    evaluate(["FROM x"], TRUE)

    image, other = given(fake, "build", "--tag=")
    *containers, _ = given(fake, "run", "--name=")
    run = re.fullmatch(rf"dockerfile-evaluator:(\w+-{os.getpid()}-\w+)", image)[1]
    assert image != other
    for name in containers:
        assert re.fullmatch(f"dockerfile-evaluator-{run}-[0-9a-f]+", name)


def test_version_2_1_does_not_take_a_name_for_one_of_its_own(fake, evaluate):
    evaluate(["FROM x"], TRUE)

    for name in (*given(fake, "build", "--tag="), *given(fake, "run", "--name=")):
        assert not re.match("dockerfile-evaluator.[0-9a-f]{12}-[0-9]", name)


# Nothing is left


class End(NamedTuple):
    """How an evaluation ends."""

    how: str
    lines: tuple = ("FROM x",)
    tests: tuple = (TRUE,)
    more: tuple = ()  # options
    hangs: str = ""  # a call of docker


ENDS = [
    End("all tests pass"),
    End("tests fail and time out", tests=(FALSE, LATE)),
    End("a RUN fails", lines=("FROM x", "RUN exit 3")),
    End("the build fails twice", lines=("FROM x", "COPY missing /")),
    End("the build takes too long", hangs="build", more=(("build_timeout", 0.5),)),
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.how)
def test_nothing_is_left_and_nothing_is_pruned(fake, evaluate, folders, end):
    fake.fault(end.hangs, "hang")

    report = evaluate(end.lines, *end.tests, **dict(end.more))

    assert report["warnings"] == []
    assert fake.left() == []
    assert folders() == []
    assert not any("prune" in name for name in fake.names())


def test_anonymous_volumes_of_a_container_are_removed_too(fake, evaluate):
    evaluate(["FROM x"], LATE)

    assert [words[:-1] for words in fake.calls("container rm")] == [["--force", "--volumes"]]


def test_removal_is_tried_again(fake, evaluate):
    fake.fault("image rm", nth=1, stderr=CONFLICT)

    report = evaluate(["FROM x"], TRUE)

    assert report["warnings"] == []
    assert fake.left() == []


def test_without_an_engine_the_evaluation_ends_at_once_and_removes_nothing(fake, evaluate):
    fake.fault("version", stderr="Cannot connect to the Docker daemon")

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "engine"
    assert fake.names() == ["version"]


# What cannot be removed


@pytest.fixture
def short_limits(monkeypatch):
    """Give the clean-up, and each docker command in it, half a second."""
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.5)
    monkeypatch.setattr(de, "COMMAND_TIMEOUT", 0.5)
    monkeypatch.setattr(de.Docker.call, "__kwdefaults__", {"timeout": 0.5})


class Trouble(NamedTuple):
    """What happens to a removal, always."""

    call: str
    do: str = "fail"


TROUBLES = [
    Trouble("container rm"),
    Trouble("container rm", "hang"),
    Trouble("image rm"),
    Trouble("image rm", "hang"),
    Trouble("image rm", "lose the engine"),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=" ".join)
def test_what_cannot_be_removed_is_a_warning_and_changes_no_verdict(
    fake, evaluate, short_limits, trouble
):
    fake.fault(trouble.call, trouble.do, stderr=CONFLICT)

    report = evaluate(["FROM x"], TRUE, LATE)

    assert list(statuses(report).values()) == ["passed", "timeout"]
    assert report["error"] is None
    assert report["warnings"]


def test_clean_up_has_one_time_limit_for_everything(fake, evaluate, short_limits):
    make_many = "cd ../images; set -- *; for n in $(seq 20); do cp $1 $1-$n; done"
    fake.fault("image rm", "hang")

    started = time.monotonic()
    evaluate(["FROM x"], run_command(make_many))

    assert time.monotonic() - started < 5


# What others have left


@pytest.fixture
def start_slow(fake, start, arguments):
    """Start an evaluation in a process of its own, and wait until its endless command runs."""

    def run(**more):
        process = start(*arguments(["FROM x"], SLOW), **more)
        wait_for((fake.root / "running").exists)
        return process

    return run


def kill(process):
    process.kill()
    process.wait()


def test_leftovers_of_a_killed_run_are_removed_by_the_next_one(fake, start_slow, evaluate):
    kill(start_slow())
    assert len(fake.left()) == 2

    report = evaluate(["FROM x"], TRUE)

    assert report["warnings"] == []
    assert fake.left() == []


def test_temporary_folder_of_a_killed_run_is_removed_by_the_next_one(
    fake, start, arguments, evaluate, folders
):
    fake.fault("control COPY", "hang")
    process = start(*arguments(["FROM x", "RUN exit 3"], TRUE))
    wait_for(lambda: fake.count("control COPY"))
    kill(process)
    assert len(folders()) == 1

    evaluate(["FROM x"], TRUE)

    assert folders() == []


def test_leftovers_of_living_runs_of_other_machines_and_of_others_stay(
    fake, evaluate, folders, tmp_path
):
    gone = subprocess.Popen(["true"])
    gone.wait()
    host = de.Run(de.Docker("docker")).name.split("-")[0]
    run, name = f"{host}-{gone.pid}-0a1b2c", "dockerfile-evaluator"
    others = [f"{host}-{os.getppid()}-0a1b2c", f"{host}-{os.getpid()}-0a1b2c"]
    others += [f"h0123456789ab-{gone.pid}-0a1b2c", f"kept-{gone.pid}-0a1b2c", "latest"]
    state = repr({"Pid": 0, "Running": False, "ExitCode": 0, "StartedAt": "x"})
    spared = ["somebodys", name, f"my{name}-{run}-1", f"{name}s-{run}-1", f"{name}-{run}-1-1"]
    spared += [f"{name}:{run}-1-1", *(f"{name}{sign}{other}" for other in others for sign in "-:")]
    for left in [f"{name}-{run}-1", f"{name}:{run}", f"{name}:{run}-1", *spared]:
        (fake.folder / ("images" if ":" in left else "containers") / left).write_text(state)
        (tmp_path / "tmp" / left.replace(":", "-")).mkdir(exist_ok=True)

    evaluate(["FROM x"], TRUE)

    assert fake.left() == sorted(spared)
    assert set(folders()) == {left.replace(":", "-") for left in spared}


def test_leftover_that_cannot_be_removed_is_a_warning_within_a_time_limit(
    fake, start_slow, evaluate, short_limits
):
    kill(start_slow())
    image = next(name for name in fake.left() if ":" in name)
    fake.fault("image rm", "hang", given=image)

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    assert len(report["warnings"]) == 1
    assert fake.left() == [image]


def test_what_an_evaluation_of_this_process_could_not_remove_is_removed_by_the_next_one(
    fake, evaluate, short_limits
):
    fake.fault("image rm", stderr=CONFLICT)
    evaluate(["FROM x"], TRUE)
    assert len(fake.left()) == 1
    fake.set(faults=[])

    evaluate(["FROM x"], TRUE)

    assert fake.left() == []


def test_folder_that_another_evaluation_removes_at_this_moment_changes_nothing(
    fake, evaluate, monkeypatch
):
    monkeypatch.setattr("glob.glob", lambda _: ["/nowhere/dockerfile-evaluator-x"])

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    assert report["warnings"] == []


# Interrupts


def interrupt(process, number=signal.SIGINT):
    """Send a signal; return the exit code."""
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert b"Traceback" not in err
    return process.returncode


class Interrupt(NamedTuple):
    """What runs when a signal is sent: a call of docker that hangs, or a command in a container."""

    call: str
    lines: tuple = ("FROM x",)
    number: int = signal.SIGINT


COMMAND = "command"
INTERRUPTS = [
    Interrupt("version"),
    Interrupt("ps"),
    Interrupt("build"),
    Interrupt("from", lines=("FROM nosuch",)),
    Interrupt("control COPY", lines=("FROM x", "COPY missing /")),
    Interrupt("run"),
    Interrupt(COMMAND),
    Interrupt(COMMAND, number=signal.SIGTERM),
    Interrupt(COMMAND, number=signal.SIGHUP),
]


@pytest.mark.parametrize("row", INTERRUPTS, ids=lambda row: f"{row.call}-{row.number}")
def test_signal_ends_what_runs_removes_everything_and_is_the_exit_code(
    fake, start, arguments, report, folders, row
):
    fake.set(pull={"nosuch": "manifest unknown"})
    fake.fault(row.call, "hang", nth=1)
    process = start(*arguments(row.lines, SLOW, TRUE))
    wait_for(lambda: fake.count(row.call) or (fake.root / "running").exists())

    code = interrupt(process, row.number)

    assert code == 128 + row.number
    assert error_of(report()) == ("interrupted", "the evaluation was interrupted")
    assert list(statuses(report()).values()) == ["not_run", "not_run"]
    assert fake.left() == []
    assert folders() == []


def test_container_that_is_created_after_its_docker_was_ended_is_removed(fake, start, arguments):
    fake.set(create_seconds=1)
    process = start(*arguments(["FROM x"], TRUE))
    wait_for((fake.folder / "creating").exists)

    interrupt(process)

    wait_for((fake.folder / "created").exists)
    assert fake.left() == []


def test_test_is_ended_by_sigkill_to_docker_at_once(fake, start_slow):
    """It would pass SIGTERM on to the test, and wait."""
    fake.fault("run", "ignore SIGTERM")
    process = start_slow(limits={"END_TIMEOUT": 600.0})

    code = interrupt(process)

    assert code == 130
    assert fake.left() == []


def children(process):
    """Return the ids of the processes that a process has started."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def test_docker_that_ignores_sigterm_is_killed(fake, start, arguments):
    fake.fault("build", "ignore SIGTERM")
    fake.fault("build", "hang")
    process = start(*arguments(["FROM x"], TRUE), limits={"END_TIMEOUT": 0.3})
    wait_for(lambda: fake.count("build"))
    (build,) = children(process)

    code = interrupt(process)

    assert code == 130
    assert not os.path.exists(f"/proc/{build}")


def test_signal_in_the_clean_up_keeps_the_score(fake, start, arguments, report):
    fake.fault("image rm", "sleep", seconds=1)
    process = start(*arguments(["FROM x"], TRUE))
    wait_for(lambda: fake.count("image rm"))

    code = interrupt(process)

    assert code == 0
    assert outcome(report()) == "passed"
    assert fake.left() == []


def test_second_signal_stops_waiting_but_what_can_be_removed_is_removed(fake, start_slow, report):
    fake.fault("image rm", stderr=CONFLICT)
    process = start_slow(limits={"RECOVERY_TIMEOUT": 600.0})
    process.send_signal(signal.SIGINT)
    wait_for(lambda: fake.count("image rm"))

    code = interrupt(process, signal.SIGTERM)

    assert code == 130
    assert len(report()["warnings"]) == 1
    assert [":" in name for name in fake.left()] == [True]


def test_second_signal_does_not_wait_for_a_removal_that_hangs(fake, start_slow):
    fake.fault("image rm", "hang")
    process = start_slow()
    process.send_signal(signal.SIGINT)
    wait_for(lambda: fake.count("image rm"))

    started = time.monotonic()
    interrupt(process)

    assert time.monotonic() - started < 10


def test_two_signals_at_once_leave_nothing(fake, start_slow):
    process = start_slow()
    process.send_signal(signal.SIGINT)

    code = interrupt(process)

    assert code == 130
    assert fake.left() == []


def test_ignored_sighup_stays_ignored(fake, start, arguments, report):
    held = run_command("touch running; until test -e go; do sleep 0.05; done")
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    process = start(*arguments(["FROM x"], held), preexec_fn=ignore)
    wait_for((fake.root / "running").exists)
    process.send_signal(signal.SIGHUP)
    (fake.root / "go").touch()

    assert process.wait(60) == 0
    assert outcome(report()) == "passed"


def test_ctrl_c_of_a_terminal_does_not_reach_docker(fake, start_slow, report):
    """It goes to the whole process group; docker runs in a session of its own."""
    process = start_slow(start_new_session=True)
    started = children(process)
    groups = [os.getpgid(child) for child in started]

    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)

    assert started
    assert groups == started
    assert outcome(report()) == "interrupted"


def test_signal_while_inputs_are_read_ends_the_program(fake, start, tmp_path):
    pipe = str(tmp_path / "rubric.json")
    os.mkfifo(pipe)
    process = start("--dockerfile=/dev/null", "--repo=r", f"--rubric={pipe}")
    with open(pipe, "wb"):  # returns when the program has opened it, too
        code = interrupt(process)

    assert code == 130
    assert fake.names() == []
