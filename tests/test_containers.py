"""Containers of tests: proof of completion, time limits, the retry, and why a container fails."""

from __future__ import annotations

import os
import resource
import time
import tracemalloc
from concurrent import futures

import pytest
from cases import LOOK, TRUE, output_contains, run_command
from conftest import messages, outcome, statuses
from engine import wait_for

import DockerfileEvaluator as de

NAME_IN_USE = (
    'docker: Error response from daemon: Conflict. The container name "/x" is already in use.'
)
NO_SPACE = {"code": 125, "stderr": "docker: Error response from daemon: no space left on device."}
NO_USER = {
    "code": 125,
    "stderr": "docker: Error response from daemon: unable to find user app: no matching entries.",
}
LOST = "the connection to the engine was lost"
NEVER = "0001-01-01T00:00:00Z"

# Proof of completion

NOT_BEGUN = "the container ended before the test began (exit code 0)"
NOT_ENDED = "the container ended before the test did (exit code 0)"
FORGED = "the command printed a forged result"

# What the image's shell prints (N is the nonce), its exit code, status, part of the message, output
MARKERS = [
    ("N=B\\nbodyN=E 0\\n", 0, "passed", "output contains 'body'", "body"),
    ("earlyN=B\\nbody\\nN=E 0\\nlate", 0, "passed", "output contains 'body'", "body\n"),
    ("N=B\\nN=E 1234\\nN=B N=E\\nbodyN=E 0\\n", 0, "passed", "output contains 'body'", None),
    ("N=B\\na\\000body\\377N=E 0\\n", 0, "passed", "output contains 'body'", "a\0body\ufffd"),
    ("bodyN=B\\nN=E 0\\nbody", 0, "failed", "output contains none of 'body'", None),
    ("N=B\\nN=E 3\\n", 3, "failed", "exit code 3: no output", None),
    ("N=B\\nbodyN=E 0\\n", 1, "failed", "ended with exit code 0, its container with 1", "body"),
    ("N=B\\nbody", 0, "failed", NOT_ENDED, "body"),
    ("N=B\\nbodyN=E 0", 0, "failed", NOT_ENDED, None),
    ("bodyN=E 0\\n", 0, "failed", NOT_BEGUN, None),
    ("body", 0, "failed", NOT_BEGUN, None),
    ("deadbeef=B\\nbodydeadbeef=E 0\\n", 0, "failed", NOT_BEGUN, None),
    ("N=B\\nN=B\\nbodyN=E 0\\n", 0, "failed", FORGED, None),
    ("N=B\\nbodyN=E 0\\nN=E 0\\n", 0, "failed", FORGED, "body"),
    ("N=B\\nbodyN=E 0\\nN=E 1\\n", 1, "failed", FORGED, "body"),
]


@pytest.mark.parametrize("chunk", [1, 64 * 1024])
def test_result_counts_only_with_one_begin_and_one_end_marker(fake, evaluate, monkeypatch, chunk):
    """However the output is cut into reads. The command is what the shell prints, its `shell` the exit code."""
    monkeypatch.setattr(de, "CHUNK", chunk)
    fake.shell('printf "$(printf %s "$5" | sed "s/N/$4/g")"', "exit $6")
    tests = []
    for text, code, *_ in MARKERS:
        params = {"command": text, "shell": str(code), "contains": ["body"]}
        tests.append({"type": "output_contains", "params": params})
    report = evaluate(["FROM x"], *tests, jobs=4)
    for row, (text, code, status, message, output) in zip(report["test_results"], MARKERS):
        assert (row["status"], message in row["message"]) == (status, True), (text, code, row)
        assert row["output"] == output or output is None, (text, row)
        assert row["retried"] == ("container" in message or message == FORGED), (text, row)


@pytest.mark.parametrize("chunk", [1, 4, 5, 300])
def test_string_is_found_however_reads_cut_it(fake, evaluate, monkeypatch, chunk):
    monkeypatch.setattr(de, "CHUNK", chunk)
    filler = "x" * 130  # more than what may be the beginning of a marker
    tests = [
        output_contains(f"printf {filler}needle{filler}", text) for text in ("needle", "needles")
    ]
    assert list(statuses(evaluate(["FROM x"], *tests)).values()) == ["passed", "failed"]


def test_output_of_any_length_is_searched_in_constant_memory(fake, evaluate):
    test = output_contains("head -c 30000000 /dev/zero; echo at the very end", "the very end")
    tracemalloc.start()
    report = evaluate(["FROM x"], test)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outcome(report) == "passed"
    assert peak < 5_000_000


# The retry

CUT_END = {"shell": ['"/bin/sh" "$@" | sed "/=E /d"', "exit 0"]}
KILLS_DOCKER = run_command(
    "test -e once || { touch once; kill -9 $(cat ../docker_run); sleep 600; }"
)
NO_FOLDER = "docker: Error response from daemon: mkdir /a: not a directory"
# What differs (a fault of `docker run`, the image's shell, the container's State, the test), the status, part of the message
RETRIED = {
    "docker was killed": ({"fault": {"do": "die", "nth": 1}}, "passed", "found"),
    "docker was killed in the test": ({"test": KILLS_DOCKER}, "passed", "exit code 0"),
    "docker printed nothing": ({"fault": {"nth": 1}}, "passed", "found"),
    "name in use": ({"fault": {"nth": 1, "code": 125, "stderr": NAME_IN_USE}}, "passed", "found"),
    "docker was killed twice": ({"fault": {"do": "die"}}, "error", LOST),
    "still running": ({"shell": ["exit 0"], "state": {"Running": True}}, "error", LOST),
    "another exit code": ({"shell": ["exit 0"], "state": {"ExitCode": 3}}, "error", LOST),
    "another exit code after the begin": ({**CUT_END, "state": {"ExitCode": 3}}, "error", LOST),
    "begun but never started": ({**CUT_END, "state": {"StartedAt": NEVER}}, "error", LOST),
    "shell does nothing": ({"shell": ["exit 0"]}, "failed", NOT_BEGUN),
    "out of memory": ({"shell": ["exit 137"], "state": {"OOMKilled": True}}, "failed", "ran out of memory"),
    "no end marker": (CUT_END, "failed", NOT_ENDED),
    "no end marker, out of memory": ({**CUT_END, "state": {"OOMKilled": True}}, "failed", "ran out of memory"),
    "command kills its container": ({"test": run_command("kill -9 $PPID")}, "failed", "the container ended before the test did"),
    "loader": ({"shell": ["echo 'sh: cannot load libc.so.6' >&2", "exit 127"]}, "failed", "sh: cannot load libc.so.6"),
    "text before the begin marker": ({"shell": ["echo no license", "exit 1"]}, "failed", "no license"),
    "never started": ({"shell": ["exit 0"], "state": {"StartedAt": NEVER, "Error": "mkdir /x: not a directory"}}, "failed", "the container could not be started: mkdir /x: not a directory"),
    "never started, full disk": ({"fault": NO_SPACE}, "error", "the container could not be started: no space left on device."),
    "no container": ({"fault": {"code": 127, "stderr": f"WARNING: no swap\n{NO_FOLDER}\nSee 'docker run --help'."}}, "failed", "the container could not be started: mkdir /a: not a directory"),
}  # fmt: skip


@pytest.mark.parametrize("name", RETRIED)
def test_run_without_proof_is_repeated_once_and_the_second_counts(fake, evaluate, name):
    """If that is inconclusive too, the state of the container decides."""
    change, status, message = RETRIED[name]
    if "fault" in change:
        fake.fault("run", **change["fault"])
    if "shell" in change:
        fake.shell(*change["shell"])
    fake.set(state=change.get("state", {}))
    report = evaluate(["FROM x"], change.get("test", LOOK))
    (row,) = report["test_results"]
    assert (row["status"], message in row["message"], row["retried"]) == (status, True, True), row[
        "message"
    ]
    assert outcome(report) == ("engine" if status == "error" else status)
    assert fake.left() == []
    first, second = fake.calls("run")
    assert "--rm" in first
    assert "--rm" not in second
    assert first[first.index("--name") + 1] != second[second.index("--name") + 1]


def test_retries_run_alone_after_the_tests_beside_them(fake, evaluate):
    fake.fault("run", given="--rm", code=125, stderr=NAME_IN_USE)
    command = run_command("echo begin >>log; sleep 0.1; echo end >>log")
    assert outcome(evaluate(["FROM x"], *[command] * 3, jobs=3)) == "passed"
    assert (fake.root / "log").read_text().split() == ["begin", "end"] * 3
    assert ["--rm" in call for call in fake.calls("run")] == [True] * 3 + [False] * 3


LATE = [
    (2, "if mkdir once; then sleep 600; fi", "passed"),
    (2, "sleep 600", "timeout"),
    (1, "sleep 600", "timeout"),
]


@pytest.mark.parametrize(("jobs", "command", "status"), LATE)
def test_timeout_beside_other_tests_is_repeated_alone(fake, evaluate, jobs, command, status):
    row = evaluate(["FROM x"], run_command(command, timeout=2), TRUE, jobs=jobs)["test_results"][0]
    assert row["status"] == status
    assert row["retried"] == (jobs == 2)


# Beside the fake docker: the connection is lost after the end marker; with --rm the container cannot be removed
WRAPPERS = {"passed": 'case "$*" in "run --rm "*)', "engine": 'case "$1" in run)'}


@pytest.mark.parametrize("expected", WRAPPERS)
def test_exit_code_of_docker_must_be_that_of_the_container(fake, evaluate, tmp_path, expected):
    program = tmp_path / "other-docker"
    exits = f'{WRAPPERS[expected]} {fake.program} "$@"; exit 125;; esac'
    program.write_text(f'#!/bin/sh\n{exits}\nexec {fake.program} "$@"\n')
    program.chmod(0o755)
    assert outcome(evaluate(["FROM x"], TRUE, docker=str(program))) == expected


# Images that cannot be started


def test_image_that_cannot_be_started_fails_all_tests_immediately(fake, evaluate):
    fake.fault("run", **NO_USER)
    report = evaluate(["FROM x"], *[TRUE] * 6)
    message = "the container could not be started: unable to find user app: no matching entries."
    assert outcome(report) == "failed"
    assert messages(report) == [message] * 6
    assert fake.count("run") == 2
    assert fake.count("smoke run") == 1
    assert report["environment"]["image_starts"] is False


def test_image_that_has_started_before_can_be_started(fake, evaluate):
    fake.set(faults=[{"on": "run", "do": "fail", "nth": (2, 3), **NO_USER}])
    report = evaluate(["FROM x"], *[TRUE] * 3)
    assert list(statuses(report).values()) == ["passed", "error", "passed"]
    assert report["error"]["kind"] == "engine"
    assert report["environment"]["image_starts"] is True


# Time limits


def test_timeout_kills_container(fake, evaluate):
    commands = [
        "echo begun; sleep 600",
        "trap '' TERM INT HUP; echo begun; while :; do sleep 1; done",
        "yes begun",
    ]
    report = evaluate(["FROM x"], *(run_command(command, timeout=0.5) for command in commands))
    for row in report["test_results"]:
        assert row["status"] == "timeout"
        assert row["message"] == "timed out after 0.5 s"
        assert row["output"][:6] == "begun\n"
        assert row["execution_time"] >= 0.5
    assert len(fake.calls("container rm")) == 3
    assert fake.left() == []


def test_timeout_counts_from_the_begin_marker(fake, evaluate):
    fake.set(create_seconds=3)
    assert outcome(evaluate(["FROM x"], run_command("sleep 1", timeout=3))) == "passed"


def test_output_in_the_pipe_is_read_before_the_timeout_counts(fake, evaluate, monkeypatch):
    """The command ends in time, but a busy machine reads its output late, in several reads."""
    monkeypatch.setattr(de, "OUTPUT_GRACE", 60.0)
    monkeypatch.setattr(de, "CHUNK", 40)  # below the length of a marker
    read, seen = de.os.read, []

    def read_late(*arguments):
        if seen == ["begin"]:
            wait_for((fake.root / "done").exists)
            seen.append(time.sleep(1))
        data = read(*arguments)
        if b"=B" in data:
            seen.append("begin")
            (fake.root / "go").touch()
        return data

    monkeypatch.setattr(de.os, "read", read_late)
    command = "until test -e go; do sleep 0.02; done; seq 100; echo end; touch done"
    report = evaluate(["FROM x"], output_contains(command, "end", timeout=0.9))
    assert outcome(report) == "passed"
    assert len(seen) == 2


@pytest.mark.parametrize(("start_timeout", "status"), [(0.2, "failed"), (60, "passed")])
def test_slow_start_needs_a_longer_start_timeout(
    fake, evaluate, monkeypatch, start_timeout, status
):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 30.0)
    fake.set(create_seconds=1)
    report = evaluate(["FROM x"], TRUE, start_timeout=start_timeout)
    assert outcome(report) == status
    assert fake.left() == []
    assert report["environment"]["start_timeout"] == start_timeout


def test_container_that_does_not_start_in_time_fails(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 0.1)
    fake.fault("run", "hang")
    report = evaluate(["FROM x"], TRUE, TRUE, start_timeout=0.3)
    message = "the container could not be started: the test did not begin in time"
    assert messages(report) == [message] * 2
    assert report["error"] is None
    assert report["summary"]["total_execution_time"] == 0  # nothing ran


def test_shell_that_hangs_before_the_begin_marker_fails(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 0.1)

    class Limit(float):
        """A time limit that is over as soon as a container exists."""

        def __lt__(self, _seconds):
            return bool(os.listdir(str(fake.folder / "containers")))

    fake.shell("sleep 600")
    report = evaluate(["FROM x"], LOOK, start_timeout=Limit(1))
    assert outcome(report) == "failed"
    assert messages(report) == ["the test did not begin in time"]
    assert fake.left() == []


def test_shell_that_hangs_after_the_end_marker_fails(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "EXIT_TIMEOUT", 0.5)
    fake.shell('"/bin/sh" "$@"', "sleep 600")
    report = evaluate(["FROM x"], LOOK)
    assert outcome(report) == "failed"
    assert messages(report) == ["the test ended, but its container did not"]
    assert fake.left() == []


# Engine errors


@pytest.mark.parametrize("is_back", [True, False])
def test_lost_engine_has_time_to_come_back(fake, evaluate, monkeypatch, is_back):
    fake.fault("run", "lose the engine", nth=2)
    if is_back:
        fake.fault("version", "find the engine", nth=5)
    else:
        monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.2)
        monkeypatch.setattr(de, "CLEANUP_TIMEOUT", 0.2)
    report = evaluate(["FROM x"], *[TRUE] * 5)
    expected = ["passed"] * 5 if is_back else ["passed", "error", "error", "not_run", "not_run"]
    assert list(statuses(report).values()) == expected
    assert outcome(report) == ("passed" if is_back else "engine")


KILLED = [
    ((1, 2, 3, 4), ["error", "error", "not_run", "not_run"]),
    ((1, 2, 4, 5), ["error", "passed"] * 2),
]


@pytest.mark.parametrize(("nth", "expected"), KILLED)
def test_two_consecutive_errors_end_the_evaluation(fake, evaluate, nth, expected):
    fake.fault("run", "die", nth=nth)
    report = evaluate(["FROM x"], *[TRUE] * 4)
    assert list(statuses(report).values()) == expected
    assert report["error"]["kind"] == "engine"
    assert LOST in report["error"]["message"]


def test_evaluations_in_several_threads_are_independent(fake, dockerfile, rubric):
    files = (dockerfile("FROM x"), "r", rubric(TRUE, LOOK, run_command("false")))
    with futures.ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(lambda _: de.evaluate(*files), range(3)))
    assert [list(statuses(report).values()) for report in reports] == [
        ["passed", "passed", "failed"]
    ] * 3
    assert fake.left() == []


# What docker and the container tell beside the result


def test_command_killed_by_its_memory_limit_says_so(fake, evaluate):
    fake.set(events="oom\noom\n")
    (message,) = messages(evaluate(["FROM x"], run_command("echo Killed; exit 137")))
    assert message == "exit code 137: Killed; the container ran out of memory"


def test_command_that_is_killed_otherwise_does_not_say_so(fake, evaluate):
    (message,) = messages(evaluate(["FROM x"], run_command("exit 137")))
    assert message == "exit code 137: no output (killed)"


def test_events_are_asked_for_only_after_a_kill(fake, evaluate):
    evaluate(["FROM x"], TRUE, run_command("exit 1"))
    assert fake.count("events") == 0


def test_limit_of_open_files_is_in_the_report(fake, evaluate):
    report = evaluate(["FROM x"], LOOK)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # the fake's containers run here
    assert report["environment"]["open_files"] == soft


def test_limit_of_open_files_is_unknown_without_a_container(fake, evaluate):
    report = evaluate(["FROM x", "RUN FAIL"], LOOK)
    assert report["environment"]["open_files"] is None


FULL_ONCE = "test -e once || { touch once; echo 'write: No space left on device'; exit 1; }"


def test_test_without_space_on_the_disk_is_run_once_more_alone(fake, evaluate):
    """Another evaluation may have filled the disk."""
    (row,) = evaluate(["FROM x"], run_command(FULL_ONCE))["test_results"]
    assert row["status"] == "passed"
    assert row["retried"] is True


def test_second_run_counts_if_there_is_no_space_again(fake, evaluate):
    command = "echo 'write: No space left on device'; exit 1"
    (row,) = evaluate(["FROM x"], run_command(command))["test_results"]
    assert row["status"] == "failed"
    assert fake.count("run") == 2
