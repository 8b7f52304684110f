"""How a verdict is made (section 3): the proof, the second run, and images that do not start."""

from __future__ import annotations

import json
import select
import tracemalloc
from typing import Mapping, NamedTuple

import pytest
from cases import LOOK, TRUE, run_command
from conftest import error_of, messages, outcome, statuses

import DockerfileEvaluator as de

# The verdict

NO_PROOF = de.NO_PROOF
# How far a container came, and docker's exit code: 1, or None at the limit of this phase
ENDED_EARLY = de.ContainerRun(phase="start", docker_code=1, test_code=None)
ENDED_IN_THE_TEST = ENDED_EARLY._replace(phase="test")
ENDED_OTHERWISE = ENDED_EARLY._replace(phase="exit", test_code=0)
NOT_BEGUN = ENDED_EARLY._replace(docker_code=None)
NOT_ENDED = ENDED_IN_THE_TEST._replace(docker_code=None)
GOES_ON = ENDED_OTHERWISE._replace(docker_code=None)
# The engine's record
STARTED = {"StartedAt": "2026-01-01T00:00:00Z"}
RUNNING = {**STARTED, "Running": True, "ExitCode": 0}
EXITED_WITH_1 = {**STARTED, "Running": False, "ExitCode": 1}
OUT_OF_MEMORY = {**EXITED_WITH_1, "OOMKilled": True}
NEVER_STARTED = {**EXITED_WITH_1, "StartedAt": "0001-01-01T00:00:00Z"}


class Row(NamedTuple):
    """What happened in a container, and the verdict that follows."""

    when: str
    container: de.ContainerRun
    status: str
    record: Mapping[str, object] = {}  # none: docker has removed the container
    message: str = ""  # a part of it


VERDICTS = [
    # Docker and the end marker agree: the check judges
    Row("it passed", de.ContainerRun(), status="passed"),
    Row("it failed", de.ContainerRun(docker_code=3, test_code=3), status="failed"),
    Row(
        "it was killed by its memory limit",
        de.ContainerRun(docker_code=1, test_code=1),
        record=OUT_OF_MEMORY,
        status="failed",
        message="ran out of memory",
    ),
    # The time limit of the test
    Row("it took too long", NOT_ENDED, status="timeout", message="timed out after 30 s"),
    Row("it took too long the second time", NOT_ENDED, record=RUNNING, status="timeout"),
    Row("it ran on after it printed an end", GOES_ON, record=RUNNING, status="timeout"),
    # Docker and the engine agree: the container ended by itself
    Row("it ended before the test", ENDED_EARLY, record=EXITED_WITH_1, status="failed"),
    Row(
        "it ended and told why",
        ENDED_EARLY._replace(preface="a\nno libc\n"),
        record=EXITED_WITH_1,
        status="failed",
        message="no libc",
    ),
    Row("it ended during the test", ENDED_IN_THE_TEST, record=EXITED_WITH_1, status="failed"),
    Row("it ended with another code", ENDED_OTHERWISE, record=EXITED_WITH_1, status="failed"),
    Row(
        "it ran out of memory during the test",
        ENDED_IN_THE_TEST,
        record=OUT_OF_MEMORY,
        status="failed",
        message="ran out of memory",
    ),
    # No record is no agreement
    Row("no record, it ended before the test", ENDED_EARLY, status=NO_PROOF),
    Row("no record, it ended during the test", ENDED_IN_THE_TEST, status=NO_PROOF),
    Row("no record, another exit code", ENDED_OTHERWISE, status=NO_PROOF),
    Row("no record, it runs on after its end marker", GOES_ON, status=NO_PROOF),
    # Docker and the engine disagree
    Row("docker ended, the container runs", ENDED_IN_THE_TEST, record=RUNNING, status=NO_PROOF),
    Row(
        "docker has another exit code",
        ENDED_IN_THE_TEST._replace(docker_code=125),
        record=EXITED_WITH_1,
        status=NO_PROOF,
    ),
    Row(
        "docker was killed",
        ENDED_IN_THE_TEST._replace(docker_code=-9),
        record={**STARTED, "Running": False, "ExitCode": 137},
        status=NO_PROOF,
    ),
    Row(
        "docker waits for a container that has ended",
        GOES_ON,
        record=EXITED_WITH_1,
        status=NO_PROOF,
    ),
    # Nothing of the image has run
    Row(
        "it was never started",
        ENDED_EARLY._replace(stderr="docker: Error response from daemon: no user x.\n"),
        record=NEVER_STARTED,
        status=NO_PROOF,
        message="docker run: no user x.",
    ),
    Row("it did not begin in time", NOT_BEGUN, status=NO_PROOF, message="--start-timeout"),
    Row("its shell hangs", NOT_BEGUN, record=RUNNING, status=NO_PROOF, message="--start-timeout"),
]


def read(test):
    """Return the test of a rubric."""
    return de.read_rubric(json.dumps({"tests": [test]}).encode(), "r.json").tests[0]


@pytest.mark.parametrize("row", VERDICTS, ids=lambda row: row.when)
def test_verdict_needs_a_proof(row):
    result = de.verdict(read(TRUE), row.container._replace(state=row.record))

    assert result.status == row.status
    assert row.message in result.message


def test_environment_that_cannot_be_read_fails():
    test = read({"type": "envvar_set", "params": {"name": "HOME"}})
    container = de.ContainerRun(docker_code=1, test_code=1, found=(True, False))

    assert de.verdict(test, container).status == "failed"


# What a container prints

NONCE = "0123456789abcdef"
BEGIN, END = f"{NONCE}=B\n", f"{NONCE}=E 0\n"


class Printed(NamedTuple):
    """What a container prints, and what is read from it."""

    when: str
    text: str
    phase: str = "exit"
    exit_code: int | None = 0
    output: str = "a needle"
    found: tuple[bool, ...] = (True, True)  # "needle" and "eed"


NOT_FOUND = (False, False)
PRINTED = [
    Printed("the markers surround the output", f"{BEGIN}a needle{END}"),
    Printed("text is before and after the markers", f"early{BEGIN}a needle{END}late"),
    Printed(
        "the text is outside the markers",
        f"needle{BEGIN}{END}needle",
        output="",
        found=NOT_FOUND,
    ),
    Printed(
        "the output has the nonce in what is no marker",
        f"{BEGIN}{NONCE}=E 1234\n{NONCE}=B eed{NONCE}{END}",
        output=f"{NONCE}=E 1234\n{NONCE}=B eed{NONCE}",
        found=(False, True),
    ),
    Printed("an exit code of three digits", f"{BEGIN}a needle{NONCE}=E 123\n", exit_code=123),
    Printed("two end markers: the first", f"{BEGIN}a needle{END}{NONCE}=E 1\n"),
    Printed("no end marker", f"{BEGIN}a needle", phase="test", exit_code=None),
    Printed(
        "an end marker without the end of its line",
        f"{BEGIN}a needle{NONCE}=E 0",
        phase="test",
        exit_code=None,
        output=f"a needle{NONCE}=E 0",
    ),
    Printed(
        "no begin marker",
        f"needle{END}",
        phase="start",
        exit_code=None,
        output="",
        found=NOT_FOUND,
    ),
    Printed(
        "the markers of another nonce",
        "deadbeef=B\nneedledeadbeef=E 0\n",
        phase="start",
        exit_code=None,
        output="",
        found=NOT_FOUND,
    ),
]


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.when)
def test_only_what_is_between_the_markers_counts_however_reads_cut_it(row):
    for size in range(1, len(row.text) + 1):
        capture = de.Capture(NONCE, (b"needle", b"eed"))

        for at in range(0, len(row.text), size):
            capture.feed(row.text[at : at + size].encode())
        capture.close()

        read = Printed(
            row.when,
            row.text,
            phase=capture.phase,
            exit_code=capture.exit_code,
            output=capture.output,
            found=capture.found,
        )
        assert read == row, f"read by {size} bytes"


def test_output_of_any_length_is_searched_and_8_kb_of_it_are_kept():
    capture = de.Capture(NONCE, (b"head", b"x" * 99 + b"middle", b"tail", b"absent"))
    middle = b"x" * 65536

    tracemalloc.start()
    for data in (BEGIN.encode(), b"head", *[middle] * 400, b"middle", *[middle] * 4, b"tail"):
        capture.feed(data)
    capture.close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert capture.found == (True, True, True, False)
    assert capture.output.startswith("headxxx")
    assert capture.output.endswith("xxxtail")
    assert 8192 < len(capture.output) < 8292
    assert peak < 1_000_000


def test_every_container_has_its_own_name_and_nonce(fake, evaluate):
    evaluate(["FROM x"], TRUE, TRUE)

    runs = fake.calls("run")
    assert len({words[0] for words in runs}) == 2
    assert len({words[words.index("-c") + 3] for words in runs}) == 2


# What is run twice

NO_SPACE = "docker: Error response from daemon: no space left on device."
NO_END_MARKER = '"/bin/sh" "$@" | sed "/=E /d"'
FULL = "echo 'write: No space left on device'; exit 1"
FILLS = run_command(FULL)


def once(what):
    """Return a command that does something the first time."""
    return f"test -e once || {{ touch once; {what}; }}"


class Twice(NamedTuple):
    """What happens to a test after another has passed, and what follows."""

    when: str
    outcome: str
    command: str = "cd /"
    fault: dict | None = None  # of its runs
    shell: str = ""  # the image's; "" works
    state: Mapping[str, object] = {}  # what differs in the engine's record
    retried: bool = True


ONCE = {"nth": 2}
TWICE = {"since": 2}
TWICE_RUN = [
    # The second run counts
    Twice("docker was killed", fault={"do": "die", **ONCE}, outcome="passed"),
    Twice("docker failed and printed nothing", fault=ONCE, outcome="passed"),
    Twice(
        "docker was killed during the test",
        command=once("kill -9 $(cat ../docker_run) $PPID"),
        outcome="passed",
    ),
    Twice("the command was killed", command=once("kill -9 $$"), outcome="passed"),
    Twice("the disk was full", command=once(FULL), outcome="passed"),
    Twice("the disk was full for docker", fault={"stderr": NO_SPACE, **ONCE}, outcome="passed"),
    # Twice the same: the image is at fault
    Twice("the command is killed twice", command="kill -9 $$", outcome="failed"),
    Twice("the disk is full twice", command=FULL, outcome="failed"),
    Twice("the command kills its container", command="kill -9 $PPID", outcome="failed"),
    Twice("there is no end marker", shell=NO_END_MARKER, outcome="failed"),
    # The image has started before, the control experiment succeeds: the engine is at fault
    Twice("docker was killed twice", fault={"do": "die", **TWICE}, outcome="engine"),
    Twice("docker cannot start it twice", fault={"stderr": "x", **TWICE}, outcome="engine"),
    Twice(
        "the container runs, docker has ended",
        shell=NO_END_MARKER,
        state={"Running": True},
        outcome="engine",
    ),
    Twice(
        "the container has another exit code than docker",
        shell=NO_END_MARKER,
        state={"ExitCode": 3},
        outcome="engine",
    ),
    # What is no accident
    Twice("it fails", command="exit 1", outcome="failed", retried=False),
    Twice("it passes", command="echo no space left on device", outcome="passed", retried=False),
    Twice("it takes too long", command="sleep 600", outcome="timeout", retried=False),
]


@pytest.mark.parametrize("row", TWICE_RUN, ids=lambda row: row.when)
def test_second_run_counts_and_is_kept_for_the_engines_record(fake, evaluate, row):
    first = run_command("touch begun")
    if row.fault:
        fake.fault("run", **row.fault)
    if row.shell:
        fake.shell(f'test -e begun || exec /bin/sh "$@"; {row.shell}; exit 0')
    fake.set(state=row.state)

    report = evaluate(["FROM x"], first, run_command(row.command, timeout=4))

    result = report["test_results"][1]
    runs = fake.calls("run")[1:]
    assert (report["error"] or {}).get("kind", result["status"]) == row.outcome, messages(report)
    assert ["--rm" in words for words in runs] == ([True, False] if row.retried else [True])
    assert result["retried"] == (row.retried and row.outcome != "engine")
    assert fake.left() == []


@pytest.mark.parametrize("command", ["sleep 600", once("kill -9 $(cat ../docker_run) $PPID")])
def test_container_that_did_not_end_is_removed_before_the_next_test_begins(fake, evaluate, command):
    evaluate(["FROM x"], run_command(command, timeout=2), TRUE)

    order = [name for name in fake.names() if name in ("run", "container rm")]
    assert order[:3] == ["run", "container rm", "run"]


class FullDisk(NamedTuple):
    """A disk that is full twice, and whether the control experiment has to write much."""

    when: str
    command: str = "cd /"
    docker_error: str = ""
    is_full: bool = True


FULL_DISKS = [
    FullDisk("for the test", command=FULL),
    pytest.param(
        FullDisk("for docker", docker_error=NO_SPACE),
    ),
    FullDisk("another error", docker_error="another error", is_full=False),
]


@pytest.mark.parametrize("row", FULL_DISKS, ids=lambda row: row.when)
def test_control_experiment_writes_much_after_a_full_disk(fake, evaluate, monkeypatch, row):
    written = []
    monkeypatch.setattr(de, "host_fault", lambda *_, is_full_disk: written.append(is_full_disk))
    if row.docker_error:
        fake.fault("run", stderr=row.docker_error)

    evaluate(["FROM x"], run_command(row.command))

    assert written == [row.is_full]


@pytest.mark.parametrize("test", [TRUE, LOOK, FILLS], ids=["command", "check", "full"])
def test_test_without_proof_has_no_score_if_the_control_experiment_fails(fake, evaluate, test):
    fake.fault("control run", code=125, stderr="docker: cannot fork")
    if test != FILLS:
        fake.fault("run", code=125)

    report = evaluate(["FROM x"], *[test] * 3)

    assert outcome(report) == "engine"
    assert "cannot fork" in error_of(report)[1]
    assert fake.count("control run") == 1


# Images that cannot be started

NO_USER = "docker: Error response from daemon: unable to find user app: no matching entries."


@pytest.mark.parametrize("test", [TRUE, LOOK], ids=["commands", "checks"])
def test_image_that_cannot_be_started_fails_all_tests(fake, evaluate, test):
    fake.fault("run", code=125, stderr=NO_USER)

    report = evaluate(["FROM x"], *[test] * 6)

    problem = (
        "the image cannot be started: docker run: unable to find user app: no matching entries."
    )
    assert outcome(report) == "failed"
    assert messages(report) == [problem] * 6
    assert report["environment"]["image_starts"] is False
    assert fake.count("control run") == 1


@pytest.mark.parametrize("shell", [None, "sleep 600"], ids=["docker hangs", "its shell hangs"])
def test_image_that_does_not_start_in_time_fails_and_names_the_limit(
    fake, evaluate, monkeypatch, shell
):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 0.1)
    if shell:
        fake.shell(shell)
    else:
        fake.fault("run", "hang")

    report = evaluate(["FROM x"], TRUE, TRUE, start_timeout=0.5)

    assert outcome(report) == "failed"
    assert len(report["warnings"]) == 1
    assert all("--start-timeout" in text for text in messages(report) + report["warnings"])
    assert fake.left() == []


def test_image_that_is_gone_is_no_fault_of_the_image(fake, evaluate):
    fake.fault("run", code=125)
    fake.fault("image inspect", nth=3)  # after those of the build and the control experiment

    assert outcome(evaluate(["FROM x"], TRUE)) == "engine"


# An engine that is lost


def test_lost_engine_has_time_to_come_back(fake, evaluate):
    fake.fault("run", "lose the engine", nth=2)
    fake.fault("version", "find the engine", nth=5)

    report = evaluate(["FROM x"], *[TRUE] * 4)

    assert list(statuses(report).values()) == ["passed"] * 4
    assert fake.count("version") > 5


def test_first_error_of_the_engine_ends_the_evaluation_without_a_score(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.2)
    fake.fault("run", "lose the engine", nth=2)

    report = evaluate(["FROM x"], *[TRUE] * 4)

    assert list(statuses(report).values()) == ["passed", "not_run", "not_run", "not_run"]
    assert outcome(report) == "engine"
    assert report["summary"]["total_score"] is None


# Time limits

ENDLESS = {
    "it sleeps": "echo begun; sleep 600",
    "it ignores signals": "trap '' TERM INT HUP; echo begun; while :; do sleep 1; done",
    "it prints without end": "yes begun",
}


@pytest.mark.parametrize("command", ENDLESS.values(), ids=ENDLESS)
def test_timeout_ends_a_test_whatever_it_does(fake, evaluate, command):
    report = evaluate(["FROM x"], run_command(command, timeout=0.5))

    (result,) = report["test_results"]
    assert result["status"] == "timeout"
    assert result["output"].startswith("begun\n")
    assert result["execution_time"] >= 0.5
    assert fake.left() == []


def test_timeout_counts_from_the_begin_marker(fake, evaluate):
    fake.set(create_seconds=2)

    assert outcome(evaluate(["FROM x"], run_command("cd /", timeout=2))) == "passed"


def test_container_that_goes_on_after_its_test_times_out(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "EXIT_TIMEOUT", 0.5)
    fake.shell('"/bin/sh" "$@"', "sleep 600")

    report = evaluate(["FROM x"], LOOK)

    assert outcome(report) == "timeout"
    assert fake.left() == []


def test_what_is_in_the_pipe_at_the_limit_still_counts():
    docker = de.Docker("sh")
    with docker.start("-c", "echo late") as process:
        process.wait()

        at_the_limit = [docker.read(process, de.Deadline(0.0)) for _ in range(2)]

    assert at_the_limit == [b"late\n", b""]


def test_pipe_that_is_never_empty_does_not_outlast_the_limit():
    docker = de.Docker("yes")
    with docker.start() as process:
        select.select([process.stdout], [], [])  # until there is something

        assert docker.read(process, de.Deadline(-2 * de.DRAIN_TIMEOUT)) is None
