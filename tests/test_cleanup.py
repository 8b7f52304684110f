"""Section 7 of the specification: names, clean-up, what others have left, interrupts."""

import os
import re
import signal
import threading
from pathlib import Path
from unittest import mock

import pytest
from cases import TRUE, run_command, table
from conftest import called, outcome

import DockerfileEvaluator as de


@pytest.fixture
def left(fake, tmp_path):
    """Return a function that lists all containers, images and temporary folders that exist."""
    return lambda: fake.left() + os.listdir(str(tmp_path / "tmp"))


# Names


def test_everything_has_the_name_of_its_run_and_a_container_its_own_name_and_nonce(fake, score):
    """Version 2.1 takes other names for its own: without the h."""
    for _ in range(2):
        score(TRUE, TRUE)

    owned = rf"=dockerfile-evaluator[:-](h[0-9a-f]+-{os.getpid()}-\w+)"
    runs = fake.calls("run")
    first, second, *containers = re.findall(owned, str(fake.calls("build") + runs))
    assert containers == [first, first, second, second]
    assert first != second
    assert len(set(runs[0]) - set(runs[1])) == 2, "the names and nonces of two tests"


# What cannot be removed. That nothing is left: test_injection.py after each fault, test_engine.py
# for volumes.


def test_clean_up_has_one_time_limit_for_everything(fake, score):
    fake.inject("'image rm' do=hang")

    report = score(run_command("cd ../images; set -- *; for n in $(seq 20); do cp $1 $1-$n; done"))

    assert outcome(report) == "passed"
    assert str(report["warnings"]).count("dockerfile-evaluator:") > 20
    assert report["summary"]["wall_time"] < de.RECOVERY_TIMEOUT + 2 * de.COMMAND_TIMEOUT


def test_image_that_is_left_is_a_warning_even_if_another_one_was_gone(fake, score):
    """Docker names both errors."""
    fake.inject(r"'image rm' stderr='Error: No such image: x:1\nError: conflict: it is in use\n'")

    assert len(score(TRUE)["warnings"]) == len(fake.left()) == 1


# What others have left; that of a run that was killed is in test_engine.py, too


HOST = de.Workspace(de.Docker("docker")).name.split("-")[0]
GONE = f"{HOST}-4194305-0a1b2c"  # no process has so large an id
REMOVED = """
    dockerfile-evaluator-GONE-1 dockerfile-evaluator:GONE dockerfile-evaluator:GONE-1
"""
OF_LIVING_RUNS_AND_OTHERS = """
    dockerfile-evaluator-ALIVE dockerfile-evaluator:ALIVE
    dockerfile-evaluator-h0123456789ab-4194305-0a1b2c
    dockerfile-evaluator:h0123456789ab-4194305-0a1b2c
    somebodys mydockerfile-evaluator-GONE-1 dockerfile-evaluators-GONE-1
    dockerfile-evaluator dockerfile-evaluator-GONE-1-1 dockerfile-evaluator:GONE-1-1
    dockerfile-evaluator:latest dockerfile-evaluator:kept-4194305-0a1b2c
"""


def test_leftovers_of_another_user_stay(fake, score, left, monkeypatch, tmp_path):
    """An image belongs to who runs its process, a folder to its owner."""

    def kill(process, _number):
        raise PermissionError if process == 77 else ProcessLookupError

    (fake.images / f"dockerfile-evaluator:{HOST}-77-0a1b2c").touch()
    (tmp_path / "tmp" / f"dockerfile-evaluator-{GONE}").mkdir()
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    before = left()

    assert score(TRUE)["warnings"] == []

    assert left() == before


def test_other_pid_namespace_is_another_host():
    with mock.patch.object(os, "stat", return_value=os.stat("/")):
        name = de.Workspace(de.Docker("docker")).name

    assert HOST not in name


def test_leftovers_of_living_runs_of_other_machines_and_of_others_stay(fake, score, left, tmp_path):
    alive = f"{HOST}-{os.getpid()}-0a1b2c"
    removed, others = (
        text.replace("GONE", GONE).replace("ALIVE", alive).split()
        for text in (REMOVED, OF_LIVING_RUNS_AND_OTHERS)
    )
    for name in removed + others:
        if ":" in name:
            (fake.images / name).touch()
        else:
            fake.write_state(name)
            (tmp_path / "tmp" / f"{name}x").mkdir()
    before = left()

    score(TRUE)

    assert {*before} - {*left()} == {*removed, f"{removed[0]}x"}
    assert fake.count("ps") == 2, "All goes at once."


def test_leftover_that_cannot_be_removed_costs_one_short_try(fake, score):
    """Docker hangs on a container whose /etc/passwd is a pipe."""
    stuck = f"dockerfile-evaluator-{HOST}-4194306-0a1b2c-1"
    fake.write_state(stuck)
    fake.inject(f"'container rm' do=hang given={stuck}")

    first, second = (score(TRUE) for _ in range(2))

    (warning,) = first["warnings"] + second["warnings"]
    assert stuck in warning
    assert fake.count("container rm") == 1
    assert first["summary"]["wall_time"] < 10


def test_image_of_a_container_that_cannot_be_removed_keeps_its_name(fake, score):
    """Otherwise nothing could find it later: see Workspace.remove_images()."""
    score(run_command("sleep 600"))

    assert "--force" not in str(fake.calls("image rm"))


# Interrupts. test_injection.py has signals at each command.


@pytest.fixture
def main(arguments):
    """Return a function that evaluates on the command line, and returns the exit code."""

    return lambda test=TRUE: called(de.main, *arguments(["FROM scratch"], test))[0]


ENDS = """
build do=interrupt number=15 -> 143 build 1
run do=interrupt number=1 -> 129 run 9
"""


@table(ENDS)
def test_signal_ends_what_runs_and_is_the_exit_code(fake, main, row):
    """A test is ended by SIGKILL to docker: SIGHUP would be passed on to it."""
    fake.inject(row.when)

    assert f"{main()} {' '.join(fake.killed)}" == row.then


@pytest.mark.parametrize("do", ["fail", "hang"])
def test_second_signal_stops_waiting_but_what_can_be_removed_is_removed(fake, main, report, do):
    fake.inject("run do=interrupt number=2; 'image rm' do='interrupt and go on' number=15 nth=1")
    fake.inject(f"'image rm' do={do}")

    assert main() == 130
    assert len(report()["warnings"]) == 1
    assert report()["summary"]["wall_time"] < 2 * de.END_TIMEOUT
    assert [":" in name for name in fake.left()] == [True]


def test_interrupt_ends_the_counting_of_a_long_output(fake, main, report):
    """Otherwise that takes a minute: the pattern is quadratic on lines of digits."""
    params = {"command": "yes $(printf %0999d 0) | head -n 9000", "count": r"(\d+) passed", "of": 1}
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()

    assert main(test=("run_command", params)) == 130
    assert outcome({**report(), "error": None}) == "not_run"


def test_ignored_sighup_stays_ignored(fake, main):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = main(test=run_command(f"kill -HUP {os.getpid()}"))
    finally:
        signal.signal(signal.SIGHUP, before)

    assert code == 0


def test_third_signal_ends_the_program_even_if_a_write_blocks():
    def interrupt_twice(_):
        de.handle_signals(lambda *_: None)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
        return signal.getsignal(signal.SIGHUP)

    assert called(interrupt_twice)[0] == signal.SIG_DFL


# Interrupts of real processes


def program(text):
    """Write a shell script that plays docker; return its path."""
    file = Path("docker").resolve()
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def test_docker_has_a_session_of_its_own_and_is_killed_if_it_ignores_sigterm(monkeypatch):
    """A terminal's Ctrl-C does not reach it."""
    monkeypatch.setattr(de, "END_TIMEOUT", 0.3)
    docker = de.Docker(program("trap '' HUP; echo deaf; while :; do sleep 9; done"))

    with docker.start() as process:
        next(docker.stream(process, de.Deadline({"": 60.0})))
        session = os.getsid(process.pid)

    assert session == process.pid
    assert process.returncode == -signal.SIGKILL


def test_child_of_docker_that_holds_its_output_is_not_waited_for():
    docker = de.Docker(program("until test -e over; do sleep 0.1; done & echo done"))

    answer = docker.call("version")

    open("over", "w").close()
    assert answer.stdout == "done\n"


def test_log_of_a_service_ends_with_what_it_printed_last():
    docker = de.Docker(program("yes | head -n 99999 >&2; echo the end"))

    assert de.service_log(docker, "x").endswith("y\nthe end\n")


def test_ignored_sigchld_changes_nothing(arguments):
    """Otherwise each exit code would be 0."""
    words = arguments(["FROM x"], TRUE, more=["--docker", program("exit 3")])
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        _, _, err = called(de.main, *words)
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert "exit code 3" in err


def test_signal_while_inputs_are_read_ends_the_program(start, tmp_path):
    pipe = str(tmp_path / "rubric.json")
    os.mkfifo(pipe)
    process = start("--dockerfile=/dev/null", "--repo=r", f"--rubric={pipe}")
    with open(pipe, "wb"):  # returns when the program has opened it, too
        process.send_signal(signal.SIGINT)
    # Python handles a signal that came just before a read after it: the pipe is closed now.
    _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert b"Traceback" not in err
