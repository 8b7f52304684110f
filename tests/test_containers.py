"""Containers of tests: proof of completion, time limits, the retry, and why a container fails."""

from __future__ import annotations

import json
import os
import re
import resource
import time
import tracemalloc
from concurrent import futures
from typing import NamedTuple

import pytest
from cases import LOOK, TRUE, output_contains, run_command
from conftest import messages, outcome, statuses
from engine import wait_for

import DockerfileEvaluator as de

DAEMON = "docker: Error response from daemon:"
NAME_IN_USE = f'{DAEMON} Conflict. The container name "/x" is already in use.'
NO_SPACE = f"{DAEMON} no space left on device."
NO_USER = f"{DAEMON} unable to find user app: no matching entries."
NO_FOLDER = f"WARNING: no swap\n{DAEMON} mkdir /a: not a directory\nSee 'docker run --help'."
NOT_STARTED = "the container could not be started: "
LOST = "the connection to the engine was lost"
OUT_OF_MEMORY = "the container ran out of memory"
NEVER = "0001-01-01T00:00:00Z"  # StartedAt of a container that was never started

# Proof of completion

NOT_BEGUN = "the container ended before the test began (exit code 0)"
NOT_ENDED = "the container ended before the test did (exit code 0)"
FORGED = "the command printed a forged result"

BEGIN, END = r"$nonce=B\n", r"$nonce=E 0\n"  # the markers, as the shell prints them


class Printed(NamedTuple):
    """What a shell prints in and around the markers, and the result of a search for "body"."""

    when: str
    text: str  # for `printf`; the shell knows the nonce
    exit_code: int = 0  # of the shell
    status: str = "passed"
    message: str = "output contains 'body'"
    output: str | None = "body"  # None: nothing
    retried: bool = False


PRINTED = [
    Printed("the markers surround the output", f"{BEGIN}body{END}"),
    Printed(
        "text is printed before and after the markers",
        rf"early{BEGIN}body\n{END}late",
        output="body\n",
    ),
    Printed(
        "the output has the nonce in what is no marker",
        rf"{BEGIN}$nonce=E 1234\n$nonce=B $nonce=E\nbody{END}",
        output="$nonce=E 1234\n$nonce=B $nonce=E\nbody",
    ),
    Printed("the output is not UTF-8", rf"{BEGIN}a\000body\377{END}", output="a\0body\ufffd"),
    Printed(
        "the text is outside the markers",
        f"body{BEGIN}{END}body",
        status="failed",
        message="output contains none of 'body'",
        output=None,
    ),
    Printed(
        "the end marker has another exit code than 0",
        rf"{BEGIN}$nonce=E 3\n",
        exit_code=3,
        status="failed",
        message="exit code 3: no output",
        output=None,
    ),
    Printed(
        "the shell has another exit code than the end marker",
        f"{BEGIN}body{END}",
        exit_code=1,
        status="failed",
        message="ended with exit code 0, its container with 1",
        retried=True,
    ),
    Printed(
        "there is no end marker", f"{BEGIN}body", status="failed", message=NOT_ENDED, retried=True
    ),
    Printed(
        "the end marker has no line feed",
        f"{BEGIN}body$nonce=E 0",
        status="failed",
        message=NOT_ENDED,
        output="body$nonce=E 0",
        retried=True,
    ),
    Printed(
        "there is no begin marker",
        f"body{END}",
        status="failed",
        message=NOT_BEGUN,
        output=None,
        retried=True,
    ),
    Printed(
        "there is no marker", "body", status="failed", message=NOT_BEGUN, output=None, retried=True
    ),
    Printed(
        "the markers have another nonce",
        r"deadbeef=B\nbodydeadbeef=E 0\n",
        status="failed",
        message=NOT_BEGUN,
        output=None,
        retried=True,
    ),
    Printed(
        "there are two begin markers",
        f"{BEGIN}{BEGIN}body{END}",
        status="failed",
        message=FORGED,
        retried=True,
    ),
    Printed(
        "there are two end markers",
        f"{BEGIN}body{END}{END}",
        status="failed",
        message=FORGED,
        retried=True,
    ),
    Printed(
        "there are two end markers, and the shell has the exit code of the second",
        rf"{BEGIN}body{END}$nonce=E 1\n",
        exit_code=1,
        status="failed",
        message=FORGED,
        retried=True,
    ),
]


def without_nonce(text):
    """Write the name of the nonce in place of it."""
    return text and re.sub("[0-9a-f]{32}", "$nonce", text)


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("chunk", [1, 64 * 1024], ids=["read by bytes", "read at once"])
@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.when)
def test_result_counts_only_with_one_begin_and_one_end_marker(
    fake, evaluate, monkeypatch, row, chunk
):
    """However the output is cut into reads."""
    monkeypatch.setattr(de, "CHUNK", chunk)
    fake.shell("nonce=$4", f'printf "{row.text}"', f"exit {row.exit_code}")

    report = evaluate(["FROM x"], output_contains("not run by this shell", "body"))

    (result,) = report["test_results"]
    assert result["status"] == row.status, result["message"]
    assert row.message in result["message"]
    assert without_nonce(result["output"]) == row.output
    assert result["retried"] == row.retried


@pytest.mark.parametrize("chunk", [1, 4, 5, 300])
@pytest.mark.parametrize(("text", "status"), [("needle", "passed"), ("needles", "failed")])
def test_string_is_found_however_reads_cut_it(fake, evaluate, monkeypatch, chunk, text, status):
    monkeypatch.setattr(de, "CHUNK", chunk)
    filler = "x" * 130  # more than what may be the beginning of a marker

    report = evaluate(["FROM x"], output_contains(f"printf {filler}needle{filler}", text))

    assert outcome(report) == status


def test_output_of_any_length_is_searched_in_constant_memory(fake, evaluate):
    test = output_contains("head -c 30000000 /dev/zero; echo at the very end", "the very end")

    tracemalloc.start()
    report = evaluate(["FROM x"], test)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert outcome(report) == "passed"
    assert peak < 5_000_000


@pytest.mark.parametrize("size", range(1, 40))
def test_marker_and_strings_may_be_cut_between_two_reads(size):
    """With an exit code of three digits, and strings of different length."""
    nonce = "0123456789abcdef"
    text = f"{nonce}=B\nfirst needle, ab\n{nonce}=E 123\n".encode()
    test = output_contains("x", "first needle", "ab", "absent")
    rubric = de.parse_rubric(json.dumps({"tests": [test]}).encode(), "r.json")
    output = de.MarkedOutput(rubric.tests[0].check, nonce)

    for at in range(0, len(text), size):
        output.feed("stdout", text[at : at + size], 1.0)
    output.close(2.0)

    assert output.begins == 1
    assert output.statuses == [123]
    assert output.found() == (True, True, False)


# The retry

NO_END_MARKER = ('"/bin/sh" "$@" | sed "/=E /d"', "exit 0")
DOES_NOTHING = ("exit 0",)
KILLS_DOCKER_ONCE = "test -e once || { touch once; kill -9 $(cat ../docker_run); sleep 600; }"


class Unproven(NamedTuple):
    """What happens to a test, and what follows after its second run."""

    when: str
    status: str
    message: str  # a part of it
    test: dict = LOOK
    fault: dict | None = None  # of `docker run`; None: it works
    shell: tuple[str, ...] = ()  # the image's; without lines it works
    state: dict | None = None  # what differs in the container's State


UNPROVEN = [
    # The second run proves the result
    Unproven("docker was killed", fault={"do": "die", "nth": 1}, status="passed", message="found"),
    Unproven(
        "docker was killed during the test",
        test=run_command(KILLS_DOCKER_ONCE),
        status="passed",
        message="exit code 0",
    ),
    Unproven(
        "docker failed and printed nothing", fault={"nth": 1}, status="passed", message="found"
    ),
    Unproven(
        "the name of the container was in use",
        fault={"nth": 1, "code": 125, "stderr": NAME_IN_USE},
        status="passed",
        message="found",
    ),
    # Both prove nothing: the engine is at fault
    Unproven("docker was killed twice", fault={"do": "die"}, status="error", message=LOST),
    Unproven(
        "docker ended, but the container runs",
        shell=DOES_NOTHING,
        state={"Running": True},
        status="error",
        message=LOST,
    ),
    Unproven(
        "the container has another exit code than docker",
        shell=DOES_NOTHING,
        state={"ExitCode": 3},
        status="error",
        message=LOST,
    ),
    Unproven(
        "the container has another exit code than docker, and the test began",
        shell=NO_END_MARKER,
        state={"ExitCode": 3},
        status="error",
        message=LOST,
    ),
    Unproven(
        "the test began, but the container was never started",
        shell=NO_END_MARKER,
        state={"StartedAt": NEVER},
        status="error",
        message=LOST,
    ),
    Unproven(
        "there is no space for the container",
        fault={"code": 125, "stderr": NO_SPACE},
        status="error",
        message=f"{NOT_STARTED}no space left on device.",
    ),
    # Both prove nothing: the image is at fault
    Unproven("the shell does nothing", shell=DOES_NOTHING, status="failed", message=NOT_BEGUN),
    Unproven(
        "the container ran out of memory before the test began",
        shell=("exit 137",),
        state={"OOMKilled": True},
        status="failed",
        message=OUT_OF_MEMORY,
    ),
    Unproven("there is no end marker", shell=NO_END_MARKER, status="failed", message=NOT_ENDED),
    Unproven(
        "the container ran out of memory during the test",
        shell=NO_END_MARKER,
        state={"OOMKilled": True},
        status="failed",
        message=OUT_OF_MEMORY,
    ),
    Unproven(
        "the command kills its container",
        test=run_command("kill -9 $PPID"),
        status="failed",
        message="the container ended before the test did",
    ),
    Unproven(
        "the shell lacks a library",
        shell=("echo 'sh: cannot load libc.so.6' >&2", "exit 127"),
        status="failed",
        message="sh: cannot load libc.so.6",
    ),
    Unproven(
        "the shell prints why it does not work",
        shell=("echo no license", "exit 1"),
        status="failed",
        message="no license",
    ),
    Unproven(
        "the engine has written down why the container was never started",
        shell=DOES_NOTHING,
        state={"StartedAt": NEVER, "Error": "mkdir /x: not a directory"},
        status="failed",
        message=f"{NOT_STARTED}mkdir /x: not a directory",
    ),
    Unproven(
        "docker prints among other lines why there is no container",
        fault={"code": 127, "stderr": NO_FOLDER},
        status="failed",
        message=f"{NOT_STARTED}mkdir /a: not a directory",
    ),
]


@pytest.mark.parametrize("row", UNPROVEN, ids=lambda row: row.when)
def test_run_without_proof_is_repeated_once_and_the_second_counts(fake, evaluate, row):
    """If that is inconclusive too, the state of the container decides."""
    if row.fault:
        fake.fault("run", **row.fault)
    if row.shell:
        fake.shell(*row.shell)
    fake.set(state=row.state or {})

    report = evaluate(["FROM x"], row.test)

    (result,) = report["test_results"]
    first, second = fake.calls("run")
    assert result["status"] == row.status, result["message"]
    assert row.message in result["message"]
    assert result["retried"] is True
    assert outcome(report) == ("engine" if row.status == "error" else row.status)
    assert fake.left() == []
    assert "--rm" in first
    assert "--rm" not in second, "docker must not remove a container whose state may be needed"
    assert container_name(first) != container_name(second)


def container_name(words):
    """Return the name of the container in the arguments of `docker run`."""
    return words[words.index("--name") + 1]


def test_retries_run_alone_after_the_tests_beside_them(fake, evaluate):
    fake.fault("run", given="--rm", code=125, stderr=NAME_IN_USE)
    command = run_command("echo begin >>log; sleep 0.1; echo end >>log")

    report = evaluate(["FROM x"], *[command] * 3, jobs=3)

    assert outcome(report) == "passed"
    assert (fake.root / "log").read_text().split() == ["begin", "end"] * 3
    assert ["--rm" in call for call in fake.calls("run")] == [True] * 3 + [False] * 3


class Late(NamedTuple):
    """A command that takes too long, beside TRUE."""

    when: str
    status: str
    retried: bool
    command: str = "sleep 600"
    jobs: int = 2


LATE = [
    Late(
        "it is in time when it runs alone",
        command="if mkdir once; then sleep 600; fi",
        status="passed",
        retried=True,
    ),
    Late("it is late when it runs alone too", status="timeout", retried=True),
    Late("it ran alone", jobs=1, status="timeout", retried=False),
]


@pytest.mark.parametrize("row", LATE, ids=lambda row: row.when)
def test_timeout_beside_other_tests_is_repeated_alone(fake, evaluate, row):
    report = evaluate(["FROM x"], run_command(row.command, timeout=2), TRUE, jobs=row.jobs)

    late = report["test_results"][0]
    assert late["status"] == row.status
    assert late["retried"] is row.retried


class Cut(NamedTuple):
    """Which calls of docker lose their connection after the end marker: their exit code is 125."""

    when: str
    calls: str  # a pattern of the shell, for all arguments
    outcome: str


CUT = [
    Cut("only calls that let docker remove the container", calls='"run --rm "*', outcome="passed"),
    Cut("all calls", calls='"run "*', outcome="engine"),
]


@pytest.mark.parametrize("row", CUT, ids=lambda row: row.when)
def test_exit_code_of_docker_must_be_that_of_the_container(fake, evaluate, tmp_path, row):
    program = tmp_path / "other-docker"
    cut = f'case "$*" in {row.calls}) {fake.program} "$@"; exit 125 ;; esac'
    program.write_text(f'#!/bin/sh\n{cut}\nexec {fake.program} "$@"\n')
    program.chmod(0o755)

    report = evaluate(["FROM x"], TRUE, docker=str(program))

    assert outcome(report) == row.outcome


# Images that cannot be started


def test_image_that_cannot_be_started_fails_all_tests_immediately(fake, evaluate):
    fake.fault("run", code=125, stderr=NO_USER)

    report = evaluate(["FROM x"], *[TRUE] * 6)

    assert outcome(report) == "failed"
    assert messages(report) == [f"{NOT_STARTED}unable to find user app: no matching entries."] * 6
    assert fake.count("run") == 2
    assert fake.count("smoke run") == 1
    assert report["environment"]["image_starts"] is False


def test_image_that_has_started_before_can_be_started(fake, evaluate):
    fake.fault("run", nth=(2, 3), code=125, stderr=NO_USER)

    report = evaluate(["FROM x"], *[TRUE] * 3)

    assert list(statuses(report).values()) == ["passed", "error", "passed"]
    assert report["error"]["kind"] == "engine"
    assert report["environment"]["image_starts"] is True


# Time limits

ENDLESS = {
    "it sleeps": "echo begun; sleep 600",
    "it ignores signals": "trap '' TERM INT HUP; echo begun; while :; do sleep 1; done",
    "it prints without end": "yes begun",
}


@pytest.mark.parametrize("command", ENDLESS.values(), ids=ENDLESS)
def test_timeout_kills_container(fake, evaluate, command):
    report = evaluate(["FROM x"], run_command(command, timeout=0.5))

    (result,) = report["test_results"]
    assert result["status"] == "timeout"
    assert result["message"] == "timed out after 0.5 s"
    assert result["output"].startswith("begun\n")
    assert result["execution_time"] >= 0.5
    assert fake.count("container rm") == 1
    assert fake.left() == []


def test_timeout_counts_from_the_begin_marker(fake, evaluate):
    fake.set(create_seconds=3)

    report = evaluate(["FROM x"], run_command("sleep 1", timeout=3))

    assert outcome(report) == "passed"


def test_output_in_the_pipe_is_read_before_the_timeout_counts(fake, evaluate, monkeypatch):
    """The command ends in time, but a busy machine reads its output late, in several reads."""
    monkeypatch.setattr(de, "OUTPUT_GRACE", 60.0)
    monkeypatch.setattr(de, "CHUNK", 40)  # below the length of a marker
    read = os.read
    events = []

    def read_late(*arguments):
        if events == ["the test has begun"]:
            wait_for((fake.root / "done").exists)
            time.sleep(1)
            events.append("the time is over")
        data = read(*arguments)
        if b"=B" in data:
            events.append("the test has begun")
            (fake.root / "go").touch()
        return data

    monkeypatch.setattr(os, "read", read_late)
    command = "until test -e go; do sleep 0.02; done; seq 100; echo end; touch done"

    report = evaluate(["FROM x"], output_contains(command, "end", timeout=0.9))

    assert outcome(report) == "passed"
    assert events == ["the test has begun", "the time is over"]


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

    assert messages(report) == [f"{NOT_STARTED}the test did not begin in time"] * 2
    assert report["error"] is None
    assert report["summary"]["total_execution_time"] == 0, "nothing ran"


def test_shell_that_hangs_before_the_begin_marker_fails(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 0.1)

    class OverOnceAContainerExists(float):
        """A time limit: less than the time that has passed as soon as there is a container."""

        def __lt__(self, _seconds):
            return bool(os.listdir(str(fake.folder / "containers")))

    fake.shell("sleep 600")

    report = evaluate(["FROM x"], LOOK, start_timeout=OverOnceAContainerExists(1))

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


def test_lost_engine_has_time_to_come_back(fake, evaluate):
    fake.fault("run", "lose the engine", nth=2)
    fake.fault("version", "find the engine", nth=5)

    report = evaluate(["FROM x"], *[TRUE] * 5)

    assert list(statuses(report).values()) == ["passed"] * 5
    assert outcome(report) == "passed"


def test_engine_that_does_not_come_back_ends_the_evaluation(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.2)
    monkeypatch.setattr(de, "CLEANUP_TIMEOUT", 0.2)
    fake.fault("run", "lose the engine", nth=2)

    report = evaluate(["FROM x"], *[TRUE] * 5)

    assert list(statuses(report).values()) == ["passed", "error", "error", "not_run", "not_run"]
    assert outcome(report) == "engine"


class Killed(NamedTuple):
    """Which calls of `docker run` are killed, and the statuses of four tests."""

    when: str
    calls: tuple[int, ...]
    statuses: list[str]


KILLED = [
    Killed(
        "two errors in a row", calls=(1, 2, 3, 4), statuses=["error", "error", "not_run", "not_run"]
    ),
    Killed(
        "a test passes between errors",
        calls=(1, 2, 4, 5),
        statuses=["error", "passed", "error", "passed"],
    ),
]


@pytest.mark.parametrize("row", KILLED, ids=lambda row: row.when)
def test_two_consecutive_errors_end_the_evaluation(fake, evaluate, row):
    fake.fault("run", "die", nth=row.calls)

    report = evaluate(["FROM x"], *[TRUE] * 4)

    assert list(statuses(report).values()) == row.statuses
    assert report["error"]["kind"] == "engine"
    assert LOST in report["error"]["message"]


def test_evaluations_in_several_threads_are_independent(fake, dockerfile, rubric):
    files = (dockerfile("FROM x"), "r", rubric(TRUE, LOOK, run_command("false")))

    with futures.ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(lambda _: de.evaluate(*files), range(3)))

    found = [list(statuses(report).values()) for report in reports]
    assert found == [["passed", "passed", "failed"]] * 3
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


def test_test_without_space_on_the_disk_is_run_once_more(fake, evaluate):
    """Another evaluation may have filled the disk."""
    (row,) = evaluate(["FROM x"], run_command(FULL_ONCE))["test_results"]

    assert row["status"] == "passed", row["message"]
    assert row["retried"] is True


def test_second_run_counts_if_there_is_no_space_again(fake, evaluate):
    command = "echo 'write: No space left on device'; exit 1"
    (row,) = evaluate(["FROM x"], run_command(command))["test_results"]
    assert row["status"] == "failed"
    assert fake.count("run") == 2
