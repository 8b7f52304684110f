"""Clean-up: names, leftovers of killed runs, locks and expiry, interrupts, containers that are being created."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

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
RUN = f"00000000000a-{PAST}"


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
        fake, *(f"dockerfile-evaluator{name}" for name in (f"-{run}-1", f":{run}", f":{run}-0"))
    )


def lock_files(tmp_path):
    return sorted(file.name for file in (tmp_path / "tmp").glob("*.lock"))


def is_running(fake):
    """Return whether a command has started in its container."""
    return (fake.root / "running").exists()


# Names and removal


def test_names_have_run_and_expiry(fake, evaluate):
    tests = [run_command("true", timeout=7), run_command("true", timeout=11)]
    evaluate(["FROM x"], *tests, build_timeout=100, start_timeout=13)
    ((*_, tag, _, _, _),) = fake.calls("build")
    run = re.fullmatch("dockerfile-evaluator:([0-9a-f]{12}-([0-9]+))", tag)
    names = [call[call.index("--name") + 1] for call in fake.calls("run")]
    assert all(re.fullmatch(f"dockerfile-evaluator-{run[1]}-[0-9]+", name) for name in names)
    assert int(run[2]) == NOW + 2 * 100 + 2 * (7 + 13) + 2 * (11 + 13) + 3600
    evaluate(["FROM x"], TRUE)
    assert len({call[-4].partition("-17")[0] for call in fake.calls("build")}) == 2


@pytest.mark.parametrize("lines", [["FROM x"], ["FROM x", "RUN FAIL"]])
def test_no_container_image_or_volume_is_left_after_success_failure_and_timeout(
    fake, evaluate, tmp_path, lines
):
    report = evaluate(lines, TRUE, run_command("false"), run_command("sleep 600", timeout=0.3))
    assert report["warnings"] == []
    assert fake.left() == []
    assert lock_files(tmp_path) == []
    removals = fake.calls("container rm")
    assert all(call[:-1] == ["--force", "--volumes"] for call in removals)  # anonymous volumes too
    assert len(removals) == (1 if lines == ["FROM x"] else 0)
    assert [name for name in fake.names() if "prune" in name] == []  # the build cache stays


def test_kept_image_has_a_tag_of_its_own(fake, evaluate):
    kept = evaluate(["FROM x"], TRUE, keep_image=True)["environment"]["kept_image"]
    assert re.fullmatch("dockerfile-evaluator:example-[0-9a-f]{12}-kept", kept)
    evaluate(["FROM x"], TRUE)
    assert fake.left() == [kept]  # it is no leftover


def test_image_that_cannot_be_kept_is_a_warning(fake, evaluate):
    fake.fault("image tag", stderr="Error response from daemon: no space left on device")
    report = evaluate(["FROM x"], TRUE, keep_image=True)
    assert outcome(report) == "passed"
    assert report["environment"]["kept_image"] is None
    assert len(report["warnings"]) == 1


# Leftovers of killed runs


def test_next_run_removes_the_leftovers_of_a_killed_one(fake, start, arguments, evaluate, tmp_path):
    process = start(*arguments(["FROM x"], SLOW))
    wait_for(lambda: is_running(fake))
    process.kill()
    process.wait()
    assert len(fake.left()) == 2
    assert len(lock_files(tmp_path)) == 1
    assert outcome(evaluate(["FROM x"], TRUE)) == "passed"
    assert fake.left() == []
    assert lock_files(tmp_path) == []


def test_image_that_is_made_after_its_run_was_killed_is_removed(
    fake, start, arguments, evaluate, tmp_path
):
    """Until `docker build` ends, it holds the lock of the run."""
    for do in ("print", "wait"):  # printed output: a build that prints more ends with the evaluator
        fake.fault("build", do=do, nth=[1])
    process = start(*arguments(["FROM x"], TRUE))
    wait_for(lambda: fake.count("build"))
    process.kill()
    process.wait()
    assert outcome(evaluate(["FROM x"], TRUE)) == "passed"
    (fake.folder / "continue").touch()
    wait_for(fake.left)
    assert outcome(evaluate(["FROM x"], TRUE)) == "passed"
    assert fake.left() == []
    assert lock_files(tmp_path) == []


def test_lock_file_that_another_run_removes_is_made_again(fake, evaluate, monkeypatch, tmp_path):
    """Between its creation and its lock."""
    paths, flock = [], fcntl.flock

    def remove(file, operation):
        paths.append(file.name)
        if len(paths) == 1:
            os.unlink(file.name)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", remove)
    monkeypatch.setattr(de, "check_cli_options", lambda *_: paths.extend(lock_files(tmp_path)))
    evaluate(["FROM x"], TRUE)
    assert [os.path.basename(path) for path in paths] == 3 * [os.path.basename(paths[0])]


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


def test_next_run_spares_a_living_one(fake, start, arguments, evaluate, tmp_path):
    """Even after the expiry of the living one."""
    process = start(*arguments(["FROM x"], SLOW))
    wait_for(lambda: is_running(fake))
    left = fake.left()
    fake.set(info={"SystemTime": "2036-01-01T00:00:00Z"})
    evaluate(["FROM x"], TRUE)
    assert fake.left() == left
    assert len(lock_files(tmp_path)) == 1
    assert interrupt(process)[0] == 130
    assert fake.left() == []
    assert lock_files(tmp_path) == []


# When the run expires, its lock file, is it dead?
RUNS = [(PAST, "no", True), (FUTURE, "no", False), (FUTURE, "free", True), (PAST, "held", False)]


@pytest.mark.parametrize(("expires", "lock", "is_dead"), RUNS)
def test_run_is_dead_by_its_lock_or_its_expiry(fake, evaluate, tmp_path, expires, lock, is_dead):
    made = leave_run(fake, f"00000000000b-{expires}")
    file = tmp_path / "tmp" / f"dockerfile-evaluator-00000000000b-{expires}.lock"
    if lock != "no":
        file.write_text("")
    with open(str(file if lock == "held" else os.devnull)) as held:
        fcntl.flock(held, fcntl.LOCK_EX if lock == "held" else fcntl.LOCK_UN)
        report = evaluate(["FROM x"], TRUE)
    assert outcome(report) == "passed"
    assert report["warnings"] == []
    assert fake.left() == ([] if is_dead else made)
    assert file.exists() == (lock == "held")


@pytest.mark.parametrize(("engine_id", "left"), [("fake", 0), ("another", 1)])
def test_free_lock_file_of_a_run_that_left_nothing_here_is_removed(
    fake, evaluate, tmp_path, engine_id, left
):
    (tmp_path / "tmp" / f"dockerfile-evaluator-{RUN}.lock").write_text(engine_id)
    evaluate(["FROM x"], TRUE)
    assert len(lock_files(tmp_path)) == left


FOREIGN = [
    *("somebodys", "dockerfile-evaluator", "dockerfile-evaluator-1", "dockerfile-evaluator:latest"),
    *(f"dockerfile-evaluator-{RUN}{end}" for end in ("-x", "-1x", "-1-1", "-", "--1", "-kept")),
    *(f"{start}-{RUN}-1" for start in ("my-dockerfile-evaluator", "mydockerfile-evaluator", "dockerfile-evaluators")),
    *(f"dockerfile-evaluator-{run}-1" for run in ("00000000000A-5", "0000000000a-5", "0000000000000a-5", "00000000000a", "00000000000a-1e9", "00000000000a-1000000000000")),
    *(f"dockerfile-evaluator:{tag}" for tag in ("mine", "00000000000a", f"{RUN}-kept", f"{RUN}-x", f"x-{RUN}", f"{RUN}-1-2")),
]  # fmt: skip


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
    held = next(name for name in leave_run(fake, RUN) if (":" in name) == (kind == "image"))
    fake.fault(f"{kind} rm", given=held, stderr=CONFLICT)
    report = evaluate(["FROM x"], TRUE)
    (warning,) = report["warnings"]
    assert outcome(report) == "passed"
    assert held in warning
    assert CONFLICT in warning


# Clean-up of this run

REMOVED = [
    {"nth": 1, "stderr": CONFLICT},
    {"stderr": "Error response from daemon: removal of container x is already in progress"},
    {"stderr": "Error: No such image: x"},
]


@pytest.mark.parametrize("fault", REMOVED)
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
    monkeypatch.setattr(de.Session.remove, "__defaults__", (0.5,))
    fake.fault(f"{kind} rm", do, stderr=CONFLICT)
    report = evaluate(["FROM x"], TRUE, run_command("sleep 600", timeout=0.3))
    assert list(statuses(report).values()) == ["passed", "timeout"]
    assert report["error"] is None
    (left,) = [name for name in fake.left() if (":" in name) == (kind == "image")]
    assert left[len("dockerfile-evaluator:") :][:23] in " ".join(report["warnings"])


def test_clean_up_has_one_time_limit_for_everything(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CLEANUP_TIMEOUT", 1.0)
    fake.fault("container rm", "hang")
    command = "cd ../containers; set -- *; for n in 1 2 3 4 5 6 7 8 9; do cp $1 ${1%-*}-9$n; done"
    started = time.monotonic()
    assert evaluate(["FROM x"], run_command(command))["error"] is None
    assert time.monotonic() - started < de.COMMAND_TIMEOUT


def test_engine_that_is_lost_before_clean_up_leaves_a_warning_with_the_run(
    fake, evaluate, monkeypatch
):
    monkeypatch.setattr(de, "CLEANUP_TIMEOUT", 0.3)
    fake.fault("image rm", "lose the engine")
    report = evaluate(["FROM x"], TRUE)
    (image,) = fake.left()
    assert outcome(report) == "passed"
    assert image.partition(":")[2] in "".join(report["warnings"])


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
    for call in fake.calls("run"):
        assert call[call.index("--name") + 1] in " ".join(report["warnings"])


# Interrupts


def interrupt(process, number=signal.SIGINT):
    """Send a signal; return the exit code and what was printed."""
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert b"Traceback" not in err
    return process.returncode, out.decode()


def starts(name):
    return lambda fake: fake.count(name)


def ends(name):
    return lambda fake: any(
        call == name and not os.path.exists(f"/proc/{pid}") for call, _, pid in fake._calls()
    )


# A fault, and when the signal is sent
INTERRUPTS = {
    "in the build": ({"on": "build", "do": "hang"}, starts("build")),
    "before the build is repeated": ({"on": "build", "stderr": "no layer"}, ends("build")),
    "while a container is created": ({"on": "run", "do": "sleep", "seconds": 0.5}, starts("run")),
    "in a test": ({"on": "nothing"}, is_running),
}
SIGNALS = [
    ("in a test", signal.SIGTERM),
    ("in a test", signal.SIGHUP),
    *((when, signal.SIGINT) for when in INTERRUPTS),
]


@pytest.mark.parametrize(("when", "number"), SIGNALS)
def test_ctrl_c_sigterm_and_sighup_clean_up_and_set_the_exit_code(
    fake, start, arguments, report, tmp_path, when, number
):
    fault, is_time = INTERRUPTS[when]
    fake.set(create_seconds=0.5)
    fake.fault("build", "print", stdout="Step 1/1 : FROM x\n")
    fake.fault(**fault)
    process = start(*arguments(["FROM x"], SLOW, TRUE), limits={"RETRY_DELAY": 600.0})
    wait_for(lambda: is_time(fake))
    code, out = interrupt(process, number)
    assert code == 128 + number
    assert "no score" in out
    assert fake.left() == []
    assert lock_files(tmp_path) == []
    assert error_of(report()) == ("interrupted", "the evaluation was interrupted")
    assert list(statuses(report()).values()) == ["not_run"] * 2
    assert fake.count("build") == 1
    assert "Step 1/1 : FROM x" in report()["build"]["log"] or when == "in the build"


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


def test_second_signal_ends_the_clean_up_and_names_what_is_left(fake, start, arguments, report):
    fake.fault("image rm", "hang")
    process = start(*arguments(["FROM x"], SLOW))
    wait_for(lambda: is_running(fake))
    process.send_signal(signal.SIGINT)
    wait_for(lambda: fake.count("image rm"))
    begun = time.monotonic()
    code, out = interrupt(process)
    (left,) = fake.left()
    run = left.partition(":")[2]
    assert code == 130
    assert run in "".join(report()["warnings"])
    assert run in out
    assert time.monotonic() - begun < de.COMMAND_TIMEOUT


def test_ctrl_c_of_a_terminal_does_not_reach_docker(fake, start, arguments, report):
    """It goes to the whole process group; docker runs in a session of its own."""
    process = start(*arguments(["FROM x"], SLOW), start_new_session=True)
    wait_for(lambda: is_running(fake))
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    assert [os.getpgid(child) for child in children] == children != []
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert outcome(report()) == "interrupted"
    assert fake.left() == []


def test_evaluate_cleans_up_after_ctrl_c_and_raises_keyboard_interrupt(
    fake, dockerfile, rubric, tmp_path
):
    """It prints nothing and installs no signal handlers."""
    output, tests = (
        str(tmp_path / "o.json"),
        rubric(run_command("kill -INT $(cat pid); sleep 600"), TRUE),
    )
    program = f"""
import os, signal, sys
sys.path.insert(0, {str(PROJECT)!r})
import DockerfileEvaluator as de
handlers = lambda: [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
before = handlers()
open({str(fake.root / "pid")!r}, "w").write(str(os.getpid()))
try:
    de.evaluate({dockerfile("FROM x")!r}, "r", {tests!r}, {output!r})
except KeyboardInterrupt:
    sys.exit(5 if handlers() == before else 6)
"""
    done = subprocess.run([sys.executable, "-c", program], **PIPES, timeout=60)
    assert done.returncode == 5
    assert done.stdout == b""
    assert done.stderr == b""
    assert fake.left() == []
