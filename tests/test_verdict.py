"""How a verdict is made (section 3): the proof, the second run, and images that do not start."""

from __future__ import annotations

import json
from typing import Mapping, NamedTuple

import pytest
from cases import LOOK, TRUE, run_command
from conftest import messages, outcome, statuses

import DockerfileEvaluator as de


def when(row):
    """Return the name of a row."""
    return row.when


# The verdict

# How far a container came, and docker's exit code: 1, or None at the limit of this phase
ENDED_EARLY = de.ContainerRun(phase="start", docker_code=1, test_code=None)
ENDED_IN_THE_TEST = ENDED_EARLY._replace(phase="test")
ENDED_OTHERWISE = de.ContainerRun(phase="exit", docker_code=1, test_code=0)
NOT_BEGUN = ENDED_EARLY._replace(docker_code=None)
NOT_ENDED = ENDED_IN_THE_TEST._replace(docker_code=None)
GOES_ON = ENDED_OTHERWISE._replace(docker_code=None)
# The engine's record
RUNNING = {"StartedAt": "2026-01-01T00:00:00Z", "Running": True, "ExitCode": 0}
EXITED_WITH_1 = {**RUNNING, "Running": False, "ExitCode": 1}
KILLED = {**EXITED_WITH_1, "ExitCode": 137}
NEVER_STARTED = {**EXITED_WITH_1, "StartedAt": "0001-01-01T00:00:00Z"}


class Row(NamedTuple):
    """What happened in a container, and the verdict that follows."""

    when: str
    container: de.ContainerRun
    status: str = de.NO_PROOF
    record: Mapping = {}  # none: docker has removed the container


VERDICTS = [
    # Docker and the end marker agree: the check judges
    Row("it passed", de.ContainerRun(), "passed"),
    Row("it failed", de.ContainerRun(docker_code=3, test_code=3), "failed"),
    # The time limit of the test
    Row("it took too long", NOT_ENDED, "timeout"),
    Row("it took too long the second time", NOT_ENDED, "timeout", RUNNING),
    Row("it ran on after it printed an end", GOES_ON, "timeout", RUNNING),
    # Docker and the engine agree: the container ended by itself
    Row("it ended before the test", ENDED_EARLY, "failed", EXITED_WITH_1),
    Row("it ended during the test", ENDED_IN_THE_TEST, "failed", EXITED_WITH_1),
    Row("it ended with another code", ENDED_OTHERWISE, "failed", EXITED_WITH_1),
    # No record is no agreement
    Row("no record, it ended before the test", ENDED_EARLY),
    Row("no record, it ended during the test", ENDED_IN_THE_TEST),
    Row("no record, another exit code", ENDED_OTHERWISE),
    Row("no record, it runs on after its end marker", GOES_ON),
    # Docker and the engine disagree
    Row("docker ended, the container runs", ENDED_IN_THE_TEST, record=RUNNING),
    Row(
        "docker has another exit code",
        ENDED_IN_THE_TEST._replace(docker_code=125),
        record=EXITED_WITH_1,
    ),
    Row("docker was killed", ENDED_IN_THE_TEST._replace(docker_code=-9), record=KILLED),
    Row("docker waits for a container that has ended", GOES_ON, record=EXITED_WITH_1),
    # Nothing of the image has run
    Row("it was never started", ENDED_EARLY, record=NEVER_STARTED),
    Row("it did not begin in time", NOT_BEGUN),
    Row("its shell hangs", NOT_BEGUN, record=RUNNING),
]


def read(test):
    """Return the test of a rubric."""
    return de.read_rubric(json.dumps({"tests": [test]}).encode(), "r.json").tests[0]


@pytest.mark.parametrize("row", VERDICTS, ids=when)
def test_verdict_needs_a_proof(row):
    assert de.verdict(read(TRUE), row.container._replace(state=row.record)).status == row.status


def test_environment_that_cannot_be_read_fails():
    test = read({"type": "envvar_set", "params": {"name": "HOME"}})
    container = de.ContainerRun(docker_code=1, test_code=1, found=(True, False))

    assert de.verdict(test, container).status == "failed"


# What a container prints


class Printed(NamedTuple):
    """What a container prints, and what is read from it."""

    when: str
    text: str
    output: str = "a needle"
    end: int | str = 0  # the exit code in the end marker, or how far the container came


PRINTED = [
    Printed("the markers surround the output", "f00d=B\na needlef00d=E 0\n"),
    Printed("text is before and after the markers", "earlyf00d=B\na needlef00d=E 0\nlate"),
    Printed("the text is outside the markers", "needlef00d=B\nf00d=E 0\nneedle", output=""),
    Printed(
        "the output has the nonce in what is no marker",
        "f00d=B\nf00d=E 1234\nf00d=B eedf00df00d=E 0\n",
        output="f00d=E 1234\nf00d=B eedf00d",
    ),
    Printed("an exit code of three digits", "f00d=B\na needlef00d=E 123\n", end=123),
    Printed("two end markers: the first", "f00d=B\na needlef00d=E 0\nf00d=E 1\n"),
    Printed("no end marker", "f00d=B\na needle", end="test"),
    Printed(
        "an end marker without the end of its line",
        "f00d=B\na needlef00d=E 0",
        output="a needlef00d=E 0",
        end="test",
    ),
    Printed("no begin marker", "needlef00d=E 0\n", output="", end="start"),
    Printed("the markers of another nonce", "c0de=B\nneedlec0de=E 0\n", output="", end="start"),
]


def captured(text, *needles, size):
    """Return what is read from the output of a container whose nonce is f00d, in pieces."""
    capture = de.Capture("f00d", needles)
    for at in range(0, len(text), size):
        capture.feed(text[at : at + size].encode())
    capture.close()
    return capture


@pytest.mark.parametrize("row", PRINTED, ids=when)
def test_only_what_is_between_the_markers_counts_however_reads_cut_it(row):
    for size in range(1, len(row.text) + 1):
        capture = captured(row.text, b"needle", b"eed", size=size)

        end = capture.exit_code if capture.phase == "exit" else capture.phase
        assert (capture.output, end) == (row.output, row.end)
        assert capture.found == ("needle" in row.output, "eed" in row.output)


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

    first, second = fake.calls("run")
    nonce = first.index("-c") + 3
    assert first[0] != second[0]
    assert first[nonce] != second[nonce]


# What is run twice

NO_SPACE = "docker: Error response from daemon: no space left on device."
FULL = "echo 'write: No space left on device'; exit 1"


class Twice(NamedTuple):
    """What happens to a test after another has passed, and what follows."""

    when: str
    outcome: str
    command: str = "cd /"
    docker: str = ""  # what its docker does: "die" or "fail"
    times: int = 2  # how often
    state: Mapping = {}  # what differs in the engine's record
    retried: bool = True


TWICE = [
    # The second run counts
    Twice("docker was killed", docker="die", times=1, outcome="passed"),
    Twice("docker failed", docker="fail", times=1, outcome="passed"),
    Twice(
        "docker was killed during the test",
        command="test -e once || { touch once; kill -9 $(cat ../docker_run) $PPID; }",
        outcome="passed",
    ),
    Twice(
        "the command was killed",
        command="test -e once || { touch once; kill -9 $$; }",
        outcome="passed",
    ),
    Twice(
        "the disk was full",
        command=f"test -e once || {{ touch once; {FULL}; }}",
        outcome="passed",
    ),
    # Twice the same: the image is at fault
    Twice("the command is killed twice", command="kill -9 $$", outcome="failed"),
    Twice("the disk is full twice", command=FULL, outcome="failed"),
    Twice("the command kills its container", command="kill -9 $PPID", outcome="failed"),
    # The image has started before, the control experiment succeeds: the engine is at fault
    Twice("docker was killed twice", docker="die", outcome="engine"),
    Twice("docker cannot start it twice", docker="fail", outcome="engine"),
    Twice(
        "the container runs, docker has ended",
        command="kill -9 $PPID",
        state={"Running": True},
        outcome="engine",
    ),
    Twice(
        "the container has another exit code than docker",
        command="kill -9 $PPID",
        state={"ExitCode": 3},
        outcome="engine",
    ),
    # What is no accident
    Twice("it fails", command="exit 1", outcome="failed", retried=False),
    Twice("it passes", command="echo no space left on device", outcome="passed", retried=False),
    Twice("it takes too long", command="sleep 600", outcome="timeout", retried=False),
]


@pytest.mark.parametrize("row", TWICE, ids=when)
def test_second_run_counts_and_is_kept_for_the_engines_record(fake, evaluate, row):
    if row.docker:
        fake.fault("run", row.docker, nth=(2, 3)[: row.times])
    fake.set(state=row.state)

    report = evaluate(["FROM x"], TRUE, run_command(row.command, timeout=4))

    result = report["test_results"][1]
    assert row.outcome == (report["error"] or {}).get("kind", result["status"]), messages(report)
    kept = ["--rm" not in words for words in fake.calls("run")]
    assert kept == ([False, False, True] if row.retried else [False, False])
    assert result["retried"] is (row.retried and not report["error"])


@pytest.mark.parametrize("command", ["sleep 600", "kill -9 $(cat ../docker_run) $PPID"])
def test_container_that_did_not_end_is_removed_before_the_next_test_begins(fake, evaluate, command):
    evaluate(["FROM x"], run_command(command, timeout=2), TRUE)

    order = [name for name in fake.names() if name in ("run", "container rm")]
    assert order[:3] == ["run", "container rm", "run"]


@pytest.mark.parametrize(
    ("command", "error", "is_full"),
    [(FULL, "", True), ("cd /", NO_SPACE, True), ("cd /", "another error", False)],
)
def test_control_experiment_decides_and_writes_much_after_a_full_disk(
    fake, evaluate, monkeypatch, command, error, is_full
):
    written = []

    def find_fault(*_, is_full_disk):
        written.append(is_full_disk)
        return de.EvaluationError("engine", "why")

    monkeypatch.setattr(de, "host_fault", find_fault)
    if error:
        fake.fault("run", stderr=error)

    report = evaluate(["FROM x"], run_command(command))

    assert outcome(report) == "engine"
    assert written == [is_full]


@pytest.mark.parametrize("test", [TRUE, LOOK], ids=["command", "check"])
def test_test_without_proof_has_no_score_if_the_control_experiment_fails(fake, evaluate, test):
    fake.fault("run", code=125)
    fake.fault("control run", code=125)

    report = evaluate(["FROM x"], *[test] * 3)

    assert outcome(report) == "engine"
    assert fake.count("control run") == 1


# Images that cannot be started


@pytest.mark.parametrize("test", [TRUE, LOOK], ids=["command", "check"])
def test_image_that_cannot_be_started_fails_all_tests_with_the_reason(fake, evaluate, test):
    fake.fault("run", code=125, stderr="docker: unable to find user app")

    report = evaluate(["FROM x"], *[test] * 6)

    assert outcome(report) == "failed"
    assert all("unable to find user app" in message for message in messages(report))
    assert report["environment"]["image_starts"] is False
    assert fake.count("control run") == 1


def test_image_that_does_not_start_in_time_fails_and_names_the_limit(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 0.1)
    fake.fault("run", "hang")

    report = evaluate(["FROM x"], TRUE, TRUE, start_timeout=0.5)

    assert outcome(report) == "failed"
    (warning,) = report["warnings"]
    assert all("--start-timeout" in text for text in (warning, *messages(report)))


def test_test_that_hangs_with_a_network_is_no_refused_network(fake, evaluate, monkeypatch):
    def run_container(_run, _test, options, *, keep):
        if options.run_options:
            return NOT_BEGUN._replace(state=RUNNING if keep else {})
        return de.ContainerRun()

    monkeypatch.setattr(de, "run_container", run_container)

    report = evaluate(["FROM x"], TRUE, run_options=["--network=x"])

    assert outcome(report) == "failed"


def test_engine_that_is_away_at_the_limit_of_a_test_is_no_timeout(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.2)
    fake.fault("run", "lose the engine", nth=99)
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
    assert report["summary"]["total_score"] is None


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
