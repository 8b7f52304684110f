"""Clean-up: names, leftovers of killed runs, locks and expiry, interrupts, late containers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, NamedTuple

import pytest
from cases import TRUE, run_command
from conftest import PIPES, PROJECT, called, error_of, outcome, statuses
from engine import wait_for

import DockerfileEvaluator as de

NOW = 1_767_225_600  # the fake engine's clock
PAST, FUTURE = NOW - 5, NOW + 5
CONFLICT = (
    "Error response from daemon: conflict: unable to remove it - container 1d2e3f is using it"
)
SLOW = run_command("touch running; sleep 600")
RUN = f"00000000000a-{PAST}"  # a killed run that has expired


def leave(fake, *names):
    """Make containers, and images where a name has a tag."""
    for name in names:
        state = {"Pid": 0, "Running": False, "ExitCode": 0, "StartedAt": "x"}
        folder, content = ("images", "True") if ":" in name else ("containers", repr(state))
        (fake.folder / folder / name).write_text(content)
    return sorted(names)


def leave_run(fake, run):
    """Make what a killed run may leave."""
    return leave(
        fake,
        f"dockerfile-evaluator-{run}-1",
        f"dockerfile-evaluator:{run}",
        f"dockerfile-evaluator:{run}-0",
    )


def left_of_kind(fake, kind):
    """Return the names of all images or containers that exist."""
    return [name for name in fake.left() if (":" in name) == (kind == "image")]


def lock_files(tmp_path):
    return sorted(file.name for file in (tmp_path / "tmp").glob("*.lock"))


def run_in(name):
    """Return the run in the name of an image or a container."""
    return re.search("[0-9a-f]{12}-[0-9]{10}", name)[0]


def is_running(fake):
    """Return whether a command has started in its container."""
    return (fake.root / "running").exists()


@pytest.fixture
def start_slow(fake, start, arguments):
    """Start an evaluation in a process of its own, and wait until its endless command runs."""

    def run(*more_tests, **options):
        process = start(*arguments(["FROM x"], SLOW, *more_tests), **options)
        wait_for(lambda: is_running(fake))
        return process

    return run


def kill(process):
    process.kill()
    process.wait()


# Names and removal


def value_of(option, words):
    return words[words.index(option) + 1]


def test_names_have_run_and_expiry(fake, evaluate):
    tests = [run_command("true", timeout=7), run_command("true", timeout=11)]

    evaluate(["FROM x"], *tests, build_timeout=100, start_timeout=13)

    (build,) = fake.calls("build")
    image = re.fullmatch("dockerfile-evaluator:([0-9a-f]{12}-([0-9]+))", value_of("--tag", build))
    run, expiry = image.groups()
    assert int(expiry) == NOW + 2 * 100 + 2 * (7 + 13) + 2 * (11 + 13) + 3600
    names = [value_of("--name", call) for call in fake.calls("run")]
    assert len(names) == 2
    assert [re.sub("[0-9]+$", "N", name) for name in names] == [f"dockerfile-evaluator-{run}-N"] * 2


def test_each_run_has_names_of_its_own(fake, evaluate):
    evaluate(["FROM x"], TRUE)
    evaluate(["FROM x"], TRUE)

    first, second = [run_in(value_of("--tag", call)) for call in fake.calls("build")]
    assert first.partition("-")[0] != second.partition("-")[0]


@pytest.mark.parametrize(
    ("lines", "removals"),
    [(["FROM x"], 1), (["FROM x", "RUN FAIL"], 0)],
    ids=["a test that timed out", "a failed build"],
)
def test_no_container_image_or_volume_is_left_after_success_failure_and_timeout(
    fake, evaluate, tmp_path, lines, removals
):
    timeout = run_command("sleep 600", timeout=0.3)

    report = evaluate(lines, TRUE, run_command("false"), timeout)

    assert report["warnings"] == []
    assert fake.left() == []
    assert lock_files(tmp_path) == []
    options = [call[:-1] for call in fake.calls("container rm")]
    assert options == [["--force", "--volumes"]] * removals, "anonymous volumes are removed too"


def test_build_cache_stays(fake, evaluate):
    evaluate(["FROM x"], TRUE)
    evaluate(["FROM x", "RUN FAIL"], TRUE)

    assert [name for name in fake.names() if "prune" in name] == []


def test_kept_image_has_a_tag_of_its_own(fake, evaluate):
    kept = evaluate(["FROM x"], TRUE, keep_image=True)["environment"]["kept_image"]

    assert re.fullmatch("dockerfile-evaluator:example-[0-9a-f]{12}-kept", kept)
    evaluate(["FROM x"], TRUE)
    assert fake.left() == [kept], "it is no leftover"


def test_image_that_cannot_be_kept_is_a_warning(fake, evaluate):
    fake.fault("image tag", stderr="Error response from daemon: no space left on device")

    report = evaluate(["FROM x"], TRUE, keep_image=True)

    assert outcome(report) == "passed"
    assert report["environment"]["kept_image"] is None
    assert len(report["warnings"]) == 1


# Leftovers of killed runs


def test_next_run_removes_the_leftovers_of_a_killed_one(fake, start_slow, evaluate, tmp_path):
    kill(start_slow())
    assert len(fake.left()) == 2
    assert len(lock_files(tmp_path)) == 1

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    assert fake.left() == []
    assert lock_files(tmp_path) == []


def test_image_that_is_made_after_its_run_was_killed_is_removed(
    fake, start, arguments, evaluate, tmp_path
):
    """Until `docker build` ends, it holds the lock of the run."""
    fake.fault("build", "print", nth=1)  # a build that prints more ends with its reader
    fake.fault("build", "wait", nth=1)
    process = start(*arguments(["FROM x"], TRUE))
    wait_for(lambda: fake.count("build"))
    kill(process)

    assert outcome(evaluate(["FROM x"], TRUE)) == "passed"
    (fake.folder / "continue").touch()
    wait_for(fake.left)
    assert outcome(evaluate(["FROM x"], TRUE)) == "passed"

    assert fake.left() == []
    assert lock_files(tmp_path) == []


def test_lock_file_that_another_run_removes_is_made_again(fake, evaluate, monkeypatch, tmp_path):
    """Between its creation and its lock."""
    flock = fcntl.flock
    locked, present = [], []

    def remove_the_first_time(file, operation):
        locked.append(os.path.basename(file.name))
        if len(locked) == 1:
            os.unlink(file.name)
        flock(file, operation)

    def look_during_the_evaluation(*_):
        present.extend(lock_files(tmp_path))

    monkeypatch.setattr(fcntl, "flock", remove_the_first_time)
    monkeypatch.setattr(de, "check_cli_options", look_during_the_evaluation)

    evaluate(["FROM x"], TRUE)

    (name,) = present
    assert locked == [name, name]


@pytest.mark.parametrize("call", ["ps", "image ls"])
def test_leftovers_that_cannot_be_listed_cost_no_score(fake, evaluate, tmp_path, call):
    fake.fault(call, stderr="Error response from daemon: shutting down")

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    (warning,) = report["warnings"]
    assert warning.startswith("leftovers of killed runs were not looked for: ")
    assert "shutting down" in warning
    assert fake.left() == []
    assert lock_files(tmp_path) == []


def test_next_run_spares_a_living_one(fake, start_slow, evaluate, tmp_path):
    """Even after the expiry of the living one."""
    process = start_slow()
    left = fake.left()
    fake.set(info={"SystemTime": "2036-01-01T00:00:00Z"})

    evaluate(["FROM x"], TRUE)

    assert fake.left() == left
    assert len(lock_files(tmp_path)) == 1
    assert interrupt(process)[0] == 130
    assert fake.left() == []
    assert lock_files(tmp_path) == []


class Earlier(NamedTuple):
    """An earlier run that has left something, and whether it is dead."""

    when: str
    expires: int
    is_dead: bool
    lock_file: str = ""  # "free" or "held" by its process; "": it has none here


EARLIER = [
    Earlier("expired, of another machine", PAST, is_dead=True),
    Earlier("not expired, of another machine", FUTURE, is_dead=False),
    Earlier("not expired, killed here", FUTURE, lock_file="free", is_dead=True),
    Earlier("expired, living here", PAST, lock_file="held", is_dead=False),
]


@pytest.mark.parametrize("row", EARLIER, ids=lambda row: row.when)
def test_run_is_dead_by_its_lock_or_its_expiry(fake, evaluate, tmp_path, row):
    made = leave_run(fake, f"00000000000b-{row.expires}")
    file = tmp_path / "tmp" / f"dockerfile-evaluator-00000000000b-{row.expires}.lock"
    if row.lock_file:
        file.write_text("")

    with contextlib.ExitStack() as stack:
        if row.lock_file == "held":
            fcntl.flock(stack.enter_context(open(str(file))), fcntl.LOCK_EX)
        report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    assert report["warnings"] == []
    assert fake.left() == ([] if row.is_dead else made)
    assert file.exists() == (row.lock_file == "held")


@pytest.mark.parametrize(("engine_id", "stays"), [("fake", False), ("another", True)])
def test_free_lock_file_of_a_run_that_left_nothing_here_is_removed(
    fake, evaluate, tmp_path, engine_id, stays
):
    file = tmp_path / "tmp" / f"dockerfile-evaluator-{RUN}.lock"
    file.write_text(engine_id)

    evaluate(["FROM x"], TRUE)

    assert lock_files(tmp_path) == ([file.name] if stays else [])


FOREIGN = [
    # Other names
    "somebodys",
    "dockerfile-evaluator",
    "dockerfile-evaluator-1",
    "dockerfile-evaluator:latest",
    "dockerfile-evaluator:mine",
    f"my-dockerfile-evaluator-{RUN}-1",
    f"mydockerfile-evaluator-{RUN}-1",
    f"dockerfile-evaluators-{RUN}-1",
    # Containers with another number, or none
    f"dockerfile-evaluator-{RUN}-",
    f"dockerfile-evaluator-{RUN}-x",
    f"dockerfile-evaluator-{RUN}-1x",
    f"dockerfile-evaluator-{RUN}-1-1",
    f"dockerfile-evaluator-{RUN}--1",
    f"dockerfile-evaluator-{RUN}-kept",
    # Containers of what is no run: its name or its expiry is too long, too short or misspelt
    "dockerfile-evaluator-00000000000A-5-1",
    "dockerfile-evaluator-0000000000a-5-1",
    "dockerfile-evaluator-0000000000000a-5-1",
    "dockerfile-evaluator-00000000000a-1",
    "dockerfile-evaluator-00000000000a-1e9-1",
    "dockerfile-evaluator-00000000000a-1000000000000-1",
    # Images
    "dockerfile-evaluator:00000000000a",
    f"dockerfile-evaluator:{RUN}-kept",
    f"dockerfile-evaluator:{RUN}-x",
    f"dockerfile-evaluator:x-{RUN}",
    f"dockerfile-evaluator:{RUN}-1-2",
]


def test_nothing_without_the_exact_form_of_a_name_is_removed(fake, evaluate):
    leave_run(fake, RUN)  # shows that the others are looked at
    leave(fake, *FOREIGN)

    evaluate(["FROM x"], TRUE)

    assert fake.left() == sorted(FOREIGN)


def test_podman_puts_localhost_before_the_repository(fake, evaluate):
    fake.fault("image ls", "print", nth=(1, 2), stdout=f"localhost/dockerfile-evaluator:{RUN}\n")

    evaluate(["FROM x"], TRUE)

    assert [f"dockerfile-evaluator:{RUN}"] in fake.calls("image rm")


@pytest.mark.parametrize("kind", ["container", "image"])
def test_leftover_that_cannot_be_removed_is_a_warning(fake, evaluate, kind):
    leave_run(fake, RUN)
    held = left_of_kind(fake, kind)[0]
    fake.fault(f"{kind} rm", given=held, stderr=CONFLICT)

    report = evaluate(["FROM x"], TRUE)

    (warning,) = report["warnings"]
    assert outcome(report) == "passed"
    assert held in warning
    assert CONFLICT in warning


# Clean-up of this run

REFUSALS = {
    "only the first time": {"nth": 1, "stderr": CONFLICT},
    "another removes it now": {
        "stderr": "Error response from daemon: removal of container x is already in progress"
    },
    "another has removed it": {"stderr": "Error: No such image: x"},
}


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
def test_removal_is_repeated_and_may_be_done_by_others(fake, evaluate, fault):
    fake.fault("image rm", **fault)

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    assert report["warnings"] == []


@pytest.mark.parametrize("do", ["fail", "hang"])
@pytest.mark.parametrize("kind", ["container", "image"])
def test_what_cannot_be_removed_is_a_warning_and_changes_no_verdict(
    fake, evaluate, monkeypatch, kind, do
):
    monkeypatch.setattr(de, "CLEANUP_TIMEOUT", 0.5)
    monkeypatch.setattr(de, "COMMAND_TIMEOUT", 0.5)
    fake.fault(f"{kind} rm", do, stderr=CONFLICT)

    report = evaluate(["FROM x"], TRUE, run_command("sleep 600", timeout=0.3))

    assert list(statuses(report).values()) == ["passed", "timeout"]
    assert report["error"] is None
    (left,) = left_of_kind(fake, kind)
    assert run_in(left) in " ".join(report["warnings"])


# Run in the container: its folder is beside that of the fake's containers.
MAKE_NINE_CONTAINERS = """cd ../containers; set -- *
for number in 1 2 3 4 5 6 7 8 9; do cp $1 ${1%-*}-9$number; done"""


def test_clean_up_has_one_time_limit_for_everything(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CLEANUP_TIMEOUT", 1.0)
    fake.fault("container rm", "hang")

    started = time.monotonic()
    report = evaluate(["FROM x"], run_command(MAKE_NINE_CONTAINERS))
    taken = time.monotonic() - started

    assert report["error"] is None
    assert taken < de.COMMAND_TIMEOUT


def test_engine_that_is_lost_before_clean_up_leaves_a_warning_with_the_run(
    fake, evaluate, monkeypatch
):
    monkeypatch.setattr(de, "CLEANUP_TIMEOUT", 0.3)
    fake.fault("image rm", "lose the engine")

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    (image,) = fake.left()
    assert run_in(image) in "".join(report["warnings"])


# Containers that are being created


def test_container_that_is_created_late_is_removed(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 30.0)
    fake.set(create_seconds=1)

    report = evaluate(["FROM x"], TRUE, start_timeout=0.3)

    assert outcome(report) == "failed"
    assert report["warnings"] == []
    assert fake.left() == []


def test_container_that_may_still_be_created_is_named(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 0.2)
    fake.fault("run", "hang")

    report = evaluate(["FROM x"], TRUE, start_timeout=0.3)

    names = [value_of("--name", call) for call in fake.calls("run")]
    warnings = " ".join(report["warnings"])
    assert len(names) == 2
    assert [name for name in names if name not in warnings] == []


# Interrupts


def interrupt(process, number=signal.SIGINT):
    """Send a signal; return the exit code and what was printed."""
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert b"Traceback" not in err
    return process.returncode, out.decode()


def children(process):
    """Return the ids of the processes that a process has started."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def build_runs(fake, process):
    return fake.count("build")


def build_has_ended(fake, process):
    return fake.count("build") and not children(process)


def container_is_being_created(fake, process):
    return fake.count("run")


def command_runs(fake, process):
    return is_running(fake)


class Interrupt(NamedTuple):
    """When a signal is sent."""

    when: str
    is_time: Callable
    fault: dict | None = None
    number: int = signal.SIGINT
    has_log: bool = True  # the build had printed something


BUILD_HANGS = {"on": "build", "do": "hang"}
BUILD_FAILS = {"on": "build", "stderr": "no layer"}
INTERRUPTS = [
    Interrupt("SIGINT in the build", build_runs, fault=BUILD_HANGS, has_log=False),
    Interrupt("SIGINT before the build is repeated", build_has_ended, fault=BUILD_FAILS),
    Interrupt(
        "SIGINT while a container is created",
        container_is_being_created,
        fault={"on": "run", "do": "sleep", "seconds": 0.5},
    ),
    Interrupt("SIGINT in a test", command_runs),
    Interrupt("SIGTERM in a test", command_runs, number=signal.SIGTERM),
    Interrupt("SIGHUP in a test", command_runs, number=signal.SIGHUP),
]


@pytest.mark.parametrize("row", INTERRUPTS, ids=lambda row: row.when)
def test_ctrl_c_sigterm_and_sighup_clean_up_and_set_the_exit_code(
    fake, start, arguments, report, tmp_path, row
):
    fake.set(create_seconds=0.5)
    fake.fault("build", "print", stdout="Step 1/1 : FROM x\n")
    if row.fault:
        fake.fault(**row.fault)
    process = start(*arguments(["FROM x"], SLOW, TRUE), limits={"RETRY_DELAY": 600.0})
    wait_for(lambda: row.is_time(fake, process))

    code, out = interrupt(process, row.number)

    assert code == 128 + row.number
    assert "no score" in out
    assert fake.left() == []
    assert lock_files(tmp_path) == []
    assert error_of(report()) == ("interrupted", "the evaluation was interrupted")
    assert list(statuses(report()).values()) == ["not_run", "not_run"]
    assert fake.count("build") == 1
    assert not row.has_log or "Step 1/1 : FROM x" in report()["build"]["log"]


def test_signal_in_clean_up_after_all_tests_keeps_the_score(fake, start, arguments, report):
    fake.fault("image rm", "sleep", seconds=1)
    process = start(*arguments(["FROM x"], TRUE))
    wait_for(lambda: fake.count("image rm"))

    code, out = interrupt(process)

    assert code == 0
    assert outcome(report()) == "passed"
    assert "score 1 of 1 (100.0%)" in out
    assert fake.left() == []


def test_signal_after_the_last_test_keeps_the_score(fake, arguments, report, monkeypatch):
    finished = de.Console.finished

    def finished_and_interrupted(*arguments):
        finished(*arguments)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(de.Console, "finished", finished_and_interrupted)

    code, _, _ = called(de.main, *arguments(["FROM x"], TRUE))

    assert code == 0
    assert outcome(report()) == "passed"


def test_second_signal_ends_the_clean_up_and_names_what_is_left(fake, start_slow, report):
    fake.fault("image rm", "hang")
    process = start_slow()
    process.send_signal(signal.SIGINT)
    wait_for(lambda: fake.count("image rm"))

    started = time.monotonic()
    code, out = interrupt(process)
    taken = time.monotonic() - started

    (image,) = fake.left()
    assert code == 130
    assert run_in(image) in "".join(report()["warnings"])
    assert run_in(image) in out
    assert taken < de.COMMAND_TIMEOUT


def test_ctrl_c_of_a_terminal_does_not_reach_docker(fake, start_slow, report):
    """It goes to the whole process group; docker runs in a session of its own."""
    process = start_slow(start_new_session=True)
    started = children(process)
    groups = [os.getpgid(child) for child in started]

    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)

    assert started
    assert groups == started
    assert process.returncode == 130
    assert outcome(report()) == "interrupted"
    assert fake.left() == []


CALLS_EVALUATE = """
import os, signal, sys
project, dockerfile, rubric, output, pid_file = sys.argv[1:]
sys.path.insert(0, project)
import DockerfileEvaluator as de

def handlers():
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

before = handlers()
with open(pid_file, "w") as file:
    file.write(str(os.getpid()))
try:
    de.evaluate(dockerfile, "r", rubric, output)
except KeyboardInterrupt:
    sys.exit("changed handlers" if handlers() != before else 5)
"""


def test_evaluate_cleans_up_after_ctrl_c_and_raises_keyboard_interrupt(
    fake, dockerfile, rubric, tmp_path
):
    """It prints nothing and installs no signal handlers."""
    tests = rubric(run_command("kill -INT $(cat pid); sleep 600"), TRUE)
    words = [str(PROJECT), dockerfile("FROM x"), tests, str(tmp_path / "o.json")]

    done = subprocess.run(
        [sys.executable, "-c", CALLS_EVALUATE, *words, str(fake.root / "pid")], **PIPES, timeout=60
    )

    assert done.stderr == b""
    assert done.stdout == b""
    assert done.returncode == 5
    assert fake.left() == []


def test_docker_that_ignores_sigterm_is_killed(monkeypatch):
    monkeypatch.setattr(de, "KILL_TIMEOUT", 0.5)
    words = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]

    with de.Process(words, os.environ) as process:
        assert next(process.read())[1] == b"ready\n"

    assert process.wait(5) == -signal.SIGKILL


def test_interrupt_while_the_engine_is_waited_for(fake):
    fake.fault("version", stderr="Cannot connect to the Docker daemon")
    cancel = de.CancelToken()
    cancel.cancel()
    started = time.monotonic()

    with pytest.raises(de.EvaluationError) as caught:
        de.Cli("docker", cancel).connect(60)

    assert caught.value.kind == "interrupted"
    assert time.monotonic() - started < 30
