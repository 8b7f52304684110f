"""How a verdict is made (section 3): the proof, the second run, and images that do not start."""

from __future__ import annotations

import json
import time
from typing import Mapping, NamedTuple

import pytest
from cases import LOOK, TRUE, run_command
from conftest import error_of, messages, outcome, statuses

import DockerfileEvaluator as de

# The verdict

# How far a container came, and docker's exit code: 1, or None at the limit of this phase
ENDED_EARLY = de.ContainerRun(phase="start", docker_code=1, test_code=None)
ENDED_IN_THE_TEST = ENDED_EARLY._replace(phase="test")
ENDED_OTHERWISE = de.ContainerRun(phase="exit", docker_code=1, test_code=0)
NOT_BEGUN = ENDED_EARLY._replace(docker_code=None)
NOT_ENDED = ENDED_IN_THE_TEST._replace(docker_code=None)
GOES_ON = ENDED_OTHERWISE._replace(docker_code=None)
NO_PROOF = de.NO_PROOF
# The engine's record
RUNNING = {"StartedAt": "2026-01-01T00:00:00Z", "Running": True, "ExitCode": 0}
EXITED_WITH_1 = {**RUNNING, "Running": False, "ExitCode": 1}
KILLED = {**EXITED_WITH_1, "ExitCode": 137}
NEVER_STARTED = {**EXITED_WITH_1, "StartedAt": "0001-01-01T00:00:00Z"}


# What happened in a container, the engine's record of it ({}: docker has removed it), the verdict
VERDICTS = {
    # Docker and the end marker agree: the check judges
    "it passed": (de.ContainerRun(), {}, "passed"),
    "it failed": (de.ContainerRun(docker_code=3, test_code=3), {}, "failed"),
    # The time limit of the test
    "it took too long": (NOT_ENDED, {}, "timeout"),
    "it took too long the second time": (NOT_ENDED, RUNNING, "timeout"),
    "it ran on after it printed an end": (GOES_ON, RUNNING, "timeout"),
    # Docker and the engine agree: the container ended by itself
    "it ended before the test": (ENDED_EARLY, EXITED_WITH_1, "failed"),
    "it ended during the test": (ENDED_IN_THE_TEST, EXITED_WITH_1, "failed"),
    "it ended with another code": (ENDED_OTHERWISE, EXITED_WITH_1, "failed"),
    # No record is no agreement
    "no record, it ended before the test": (ENDED_EARLY, {}, NO_PROOF),
    "no record, it ended during the test": (ENDED_IN_THE_TEST, {}, NO_PROOF),
    "no record, another exit code": (ENDED_OTHERWISE, {}, NO_PROOF),
    "no record, it runs on after its end marker": (GOES_ON, {}, NO_PROOF),
    # Docker and the engine disagree
    "docker ended, the container runs": (ENDED_IN_THE_TEST, RUNNING, NO_PROOF),
    "docker has another exit code": (ENDED_IN_THE_TEST, KILLED, NO_PROOF),
    "docker waits for a container that has ended": (GOES_ON, EXITED_WITH_1, NO_PROOF),
    # Nothing of the image has run
    "it was never started": (ENDED_EARLY, NEVER_STARTED, NO_PROOF),
    "it did not begin in time": (NOT_BEGUN, {}, NO_PROOF),
    "its shell hangs": (NOT_BEGUN, RUNNING, NO_PROOF),
}


def check(kind, **params):
    """Return a test of a rubric."""
    content = {"tests": [{"type": kind, "params": params}]}
    return de.read_rubric(json.dumps(content).encode(), "r.json").tests[0]


@pytest.mark.parametrize("what", VERDICTS)
def test_verdict_needs_a_proof(what):
    container, record, status = VERDICTS[what]
    test = check("command_exists", name="x")

    assert de.verdict(test, container._replace(state=record)).status == status


@pytest.mark.parametrize("is_out_of_memory", [True, False])
def test_message_says_that_a_container_ran_out_of_memory(is_out_of_memory):
    record = {**EXITED_WITH_1, "OOMKilled": is_out_of_memory}

    result = de.verdict(check("command_exists", name="x"), ENDED_EARLY._replace(state=record))

    assert ("out of memory" in result.message) == is_out_of_memory


def test_time_of_a_test_is_that_between_its_markers(fake, evaluate):
    fake.inject("run do=sleep seconds=2")

    begun = time.monotonic()
    (row,) = evaluate(["FROM x"], TRUE)["test_results"]
    taken = time.monotonic() - begun

    assert 0 <= row["execution_time"] < taken - 2


def test_environment_that_cannot_be_read_fails():
    container = de.ContainerRun(docker_code=1, test_code=1, found=(True, False))

    assert de.verdict(check("envvar_set", name="HOME"), container).status == "failed"


# What a container prints


# What a container prints, its output, and the exit code in its end marker (or how far it came)
PRINTED = {
    "the markers surround the output": ("f00d=B\na needlef00d=E 0\n", "a needle", 0),
    "text is before and after the markers": (
        "needlef00d=B\na needf00d=E 0\nneedle",
        "a need",
        0,
    ),
    "the output has the nonce in what is no marker": (
        "f00d=B\nf00d=E 1234\nf00d=B eedf00df00d=E 0\n",
        "f00d=E 1234\nf00d=B eedf00d",
        0,
    ),
    "an exit code of three digits": ("f00d=B\na needlef00d=E 123\n", "a needle", 123),
    "two end markers: the first": ("f00d=B\na needlef00d=E 0\nf00d=E 1\n", "a needle", 0),
    "no end marker": ("f00d=B\na needle", "a needle", "test"),
    "an end marker without the end of its line": (
        "f00d=B\na needlef00d=E 0",
        "a needlef00d=E 0",
        "test",
    ),
    "no begin marker": ("needlef00d=E 0\n", "", "start"),
    "the markers of another nonce": ("c0de=B\nneedlec0de=E 0\n", "", "start"),
}


def captured(text, *needles, size):
    """Return what is read from the output of a container whose nonce is f00d, in pieces."""
    capture = de.Capture("f00d", needles)
    for at in range(0, len(text), size):
        capture.feed(text[at : at + size].encode())
    capture.close()
    return capture


@pytest.mark.parametrize("what", PRINTED)
def test_only_what_is_between_the_markers_counts_however_reads_cut_it(what):
    text, output, end = PRINTED[what]
    for size in range(1, len(text) + 1):
        capture = captured(text, b"needle", b"eed", size=size)

        assert (capture.output, capture.exit_code or capture.phase) == (output, end or "exit")
        assert capture.found == ("needle" in output, "eed" in output)


def test_output_of_any_length_is_searched_and_8_kb_of_it_are_kept():
    much = "x" * 100_000
    text = f"f00d=B\nhead{much}middle{much}tail"

    capture = captured(text, b"head", b"xmiddle", b"tail", b"absent", size=65536)

    assert capture.found == (True, True, True, False)
    assert capture.output.startswith("headxxx")
    assert capture.output.endswith("xxxtail")
    assert 8192 < len(capture.output) < 8292


def test_every_container_has_its_own_name_and_nonce(fake, evaluate):
    evaluate(["FROM x"], TRUE, TRUE)

    (first, *_, first_nonce, _, _), (second, *_, second_nonce, _, _) = fake.calls("run")
    assert first != second
    assert first_nonce != second_nonce


# What is run twice

FULL = "echo 'write: No space left on device'; exit 1"


class Twice(NamedTuple):
    """What happens to a test after another has passed, and what becomes of both."""

    when: str
    outcome: str
    command: str = "cd /"
    faults: str = ""  # as for tests/docker-fault
    state: Mapping = {}  # what differs in the engine's record
    runs: int = 2  # of the second test


TWICE = [
    # The second run counts
    Twice("docker was killed", "passed", faults="run do=die nth=2"),
    Twice("docker failed", "passed", faults="run nth=2"),
    Twice(
        "docker was killed during the test",
        "passed",
        command="test -e once || { touch once; kill -9 $(cat ../docker_run) $PPID; }",
    ),
    Twice(
        "the command was killed",
        "passed",
        command="test -e once || { touch once; kill -9 $$; }",
    ),
    Twice(
        "the disk was full",
        "passed",
        command=f"test -e once || {{ touch once; {FULL}; }}",
    ),
    # Twice the same: the image is at fault
    Twice("the command is killed twice", "failed passed", command="kill -9 $$"),
    Twice("the disk is full twice", "failed passed", command=FULL),
    Twice("the command kills its container", "failed passed", command="kill -9 $PPID"),
    # The image has started before, the control experiment succeeds: the engine is at fault
    Twice("docker was killed twice", "engine", faults="run do=die since=2"),
    Twice("docker cannot start it twice", "engine", faults="run since=2"),
    Twice(
        "the container runs, docker has ended",
        "engine",
        command="kill -9 $PPID",
        state={"Running": True},
    ),
    Twice(
        "the container has another exit code than docker",
        "engine",
        command="kill -9 $PPID",
        state={"ExitCode": 3},
    ),
    # What is no accident
    Twice("it fails", "failed passed", command="exit 1", runs=1),
    Twice("it passes", "passed", command="echo no space left on device", runs=1),
    Twice("it takes too long", "passed timeout", command="sleep 600", runs=1),
]


@pytest.mark.parametrize("row", TWICE, ids=lambda row: row.when)
def test_second_run_counts_and_is_kept_for_the_engines_record(fake, evaluate, row):
    fake.inject(row.faults)
    fake.set(state=row.state)

    report = evaluate(["FROM x"], TRUE, run_command(row.command, timeout=4))

    assert outcome(report) == row.outcome, messages(report)
    is_removed = ["--rm" in words for words in fake.calls("run")]
    assert is_removed == [True, True, False][: 1 + row.runs]
    is_retried = row.runs == 2 and not report["error"]
    assert report["test_results"][1]["retried"] is is_retried


@pytest.mark.parametrize("command", ["sleep 600", "kill -9 $(cat ../docker_run) $PPID"])
def test_container_that_did_not_end_is_removed_before_the_next_test_begins(fake, evaluate, command):
    evaluate(["FROM x"], run_command(command, timeout=2), TRUE)

    order = [name for name in fake.names() if name in ("run", "container rm")]
    assert order[:3] == ["run", "container rm", "run"]


@pytest.mark.parametrize(
    ("command", "faults"), [(FULL, ""), ("cd /", "run stderr='docker: No space left on device'")]
)
def test_control_experiment_writes_much_after_a_full_disk(
    fake, evaluate, monkeypatch, command, faults
):
    def host_fault(_run, _options, *, is_full_disk):
        return de.EvaluationError("engine", f"is full: {is_full_disk}")

    monkeypatch.setattr(de, "host_fault", host_fault)
    fake.inject(faults)

    report = evaluate(["FROM x"], run_command(command))

    assert error_of(report) == ("engine", "is full: True")


def test_test_without_proof_has_no_score_if_the_control_experiment_fails(fake, evaluate):
    fake.inject("run code=125; 'control run' code=125")

    report = evaluate(["FROM x"], LOOK, LOOK, LOOK)  # in parallel

    assert outcome(report) == "engine"
    assert fake.count("control run") == 1


# Images that cannot be started


def test_image_that_cannot_be_started_fails_all_tests_with_the_reason(fake, evaluate):
    fake.inject("run code=125 stderr='docker: unable to find user app'")

    report = evaluate(["FROM x"], *[LOOK] * 6, TRUE)

    assert outcome(report) == "failed"
    assert all("unable to find user app" in message for message in messages(report))
    assert report["environment"]["image_starts"] is False
    assert fake.count("control run") == 1


def test_image_whose_first_test_timed_out_has_been_started(fake, evaluate):
    fake.inject("run since=2")

    report = evaluate(["FROM x"], run_command("sleep 600", timeout=1), TRUE)

    assert outcome(report) == "engine"


def test_image_that_does_not_start_in_time_fails_and_names_the_limit(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 0.1)
    fake.fault("run", "hang")

    report = evaluate(["FROM x"], TRUE, TRUE, start_timeout=0.5)

    assert outcome(report) == "failed"
    assert "--start-timeout" in report["warnings"][0]
    assert all("--start-timeout" in message for message in messages(report))


@pytest.mark.parametrize(("options", "expected"), [([], "engine"), (["--network=x"], "usage")])
def test_network_that_does_not_work_is_no_fault_of_the_image(
    fake, evaluate, monkeypatch, options, expected
):
    def run_container(_run, _test, options, keep):
        return de.ContainerRun() if "--network=none" in options.run_options else NOT_BEGUN

    monkeypatch.setattr(de, "run_container", run_container)

    report = evaluate(["FROM x"], TRUE, run_options=options)

    assert outcome(report) == expected, report["error"]


def test_test_that_hangs_with_a_network_is_no_refused_network(fake, evaluate, monkeypatch):
    def run_container(_run, _test, options, keep):
        hangs = NOT_BEGUN._replace(state=RUNNING)
        return hangs if options.run_options else de.ContainerRun()

    monkeypatch.setattr(de, "run_container", run_container)

    report = evaluate(["FROM x"], TRUE, run_options=["--network=x"])

    assert outcome(report) == "failed"


def test_engine_that_is_away_at_the_limit_of_a_test_is_no_timeout(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.2)
    late = run_command(f"echo True >{fake.folder}/lost; sleep 60", timeout=1)

    report = evaluate(["FROM x"], late)

    assert outcome(report) == "engine"


def test_image_that_is_gone_is_no_fault_of_the_image(fake, evaluate):
    fake.fault("run", code=125)
    fake.fault("image inspect", nth=3)  # after those of the build and the control experiment

    assert outcome(evaluate(["FROM x"], TRUE)) == "engine"


# An engine that is lost


def test_lost_engine_has_time_to_come_back(fake, evaluate):
    fake.fault("run", "lose the engine", nth=2)
    fake.fault("version", "find the engine", nth=5)

    assert outcome(evaluate(["FROM x"], TRUE, TRUE, TRUE)) == "passed"
    assert fake.count("version") > 5


def test_first_error_of_the_engine_ends_the_evaluation_without_a_score(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.2)
    fake.fault("run", "lose the engine", nth=2)

    report = evaluate(["FROM x"], TRUE, TRUE, TRUE)

    assert list(statuses(report).values()) == ["passed", "not_run", "not_run"]
    assert outcome(report) == "engine"


def test_checks_that_wait_for_their_turn_do_not_start_after_an_error_of_the_engine(fake, evaluate):
    fake.fault("run", "hang")
    fake.fault("control COPY")

    report = evaluate(["FROM x"], *[LOOK] * 12, start_timeout=0.5)

    assert outcome(report) == "engine"
    assert fake.count("run") <= de.PARALLEL_CHECKS + 1


# Time limits

ENDLESS = {
    "it sleeps": "echo begun; sleep 600",
    "it ignores signals": "trap '' TERM INT HUP; echo begun; while :; do sleep 1; done",
    "it prints without end": "yes begun",
}


@pytest.mark.parametrize("what", ENDLESS)
def test_timeout_ends_a_test_whatever_it_does(fake, evaluate, what):
    report = evaluate(["FROM x"], run_command(ENDLESS[what], timeout=0.5))

    (result,) = report["test_results"]
    assert result["status"] == "timeout"
    assert result["output"].startswith("begun\n")


def test_timeout_counts_from_the_begin_marker(fake, evaluate):
    fake.set(create_seconds=2)

    assert outcome(evaluate(["FROM x"], run_command("cd /", timeout=2))) == "passed"


def test_container_that_goes_on_after_its_test_times_out(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "EXIT_TIMEOUT", 0.5)
    fake.shell('"/bin/sh" "$@"', "sleep 600")

    assert outcome(evaluate(["FROM x"], LOOK)) == "timeout"


def test_what_is_in_the_pipe_at_the_limit_still_counts():
    docker = de.Docker("sh")
    with docker.start("-c", "echo late") as process:
        process.wait()

        at_the_limit = [docker.read(process, de.Deadline(0.0)) for _ in range(2)]

    assert at_the_limit == [b"late\n", b""]
