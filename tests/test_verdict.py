"""How a verdict is made (section 3): the proof, the second run, and images that do not start."""

from __future__ import annotations

import json
import re
from typing import Mapping, NamedTuple

import pytest
from cases import LOOK, TRUE, run_command
from conftest import messages, outcome, statuses

import DockerfileEvaluator as de

# The verdict

# A test of a variable, which was found
CHECK = de.read_rubric(
    b'{"tests": [{"type": "envvar_set", "params": {"name": "HOME"}}]}', "r.json"
).tests[0]
RAN = de.ContainerRun(
    phase="exit",
    docker_code=0,
    test_code=0,
    state={},
    printed=de.Printed((True, False)),
    log="",
    stderr="",
    seconds=0.0,
)
# How far a container came, and docker's exit code: 1, or None at the limit of this phase
ENDED_EARLY = RAN._replace(phase="start", docker_code=1, test_code=None)
ENDED_IN_THE_TEST = ENDED_EARLY._replace(phase="test")
ENDED_OTHERWISE = RAN._replace(docker_code=1)
NOT_BEGUN = ENDED_EARLY._replace(docker_code=None)
NOT_ENDED = ENDED_IN_THE_TEST._replace(docker_code=None)
GOES_ON = RAN._replace(docker_code=None)
NO_PROOF = de.NO_PROOF
# The engine's record
RUNNING = {"StartedAt": "2026-01-01T00:00:00Z", "Running": True, "ExitCode": 0}
EXITED_WITH_1 = {**RUNNING, "Running": False, "ExitCode": 1}
KILLED = {**EXITED_WITH_1, "ExitCode": 137}
NEVER_STARTED = {**EXITED_WITH_1, "StartedAt": "0001-01-01T00:00:00Z"}


# What happened in a container, the engine's record of it ({}: docker has removed it), the verdict
VERDICTS = {
    # Docker and the end marker agree: the check judges
    "it passed": (RAN, {}, "passed"),
    "it failed, after it was found": (RAN._replace(docker_code=3, test_code=3), {}, "failed"),
    # The time limit of the test
    "it took too long": (NOT_ENDED, {}, "timeout"),
    "it ran on after it printed an end": (GOES_ON, RUNNING, "timeout"),
    # Docker and the engine agree: the container ended by itself
    "it ended before the test": (ENDED_EARLY, EXITED_WITH_1, "failed"),
    "it ended during the test": (ENDED_IN_THE_TEST, EXITED_WITH_1, "failed"),
    "it ended with another code": (ENDED_OTHERWISE, EXITED_WITH_1, "failed"),
    # No record is no agreement
    "no record, it ended before the test": (ENDED_EARLY, {}, NO_PROOF),
    "no record, another exit code": (ENDED_OTHERWISE, {}, NO_PROOF),
    "no record, it runs on after its end marker": (GOES_ON, {}, NO_PROOF),
    # Docker and the engine disagree
    "docker ended, the container runs": (ENDED_IN_THE_TEST, RUNNING, NO_PROOF),
    "docker has another exit code": (ENDED_IN_THE_TEST, KILLED, NO_PROOF),
    "docker waits for a container that has ended": (GOES_ON, EXITED_WITH_1, NO_PROOF),
    # Nothing of the image has run
    "it was never started": (ENDED_EARLY, NEVER_STARTED, NO_PROOF),
    "it did not begin in time": (NOT_BEGUN, {}, de.NOT_STARTED),
    "its shell hangs": (NOT_BEGUN, RUNNING, de.TOO_SLOW),
}


@pytest.mark.parametrize("what", VERDICTS)
def test_verdict_needs_a_proof(what):
    container, record, status = VERDICTS[what]

    assert de.verdict(CHECK, container._replace(state=record)).status == status


def test_message_says_that_a_container_ran_out_of_memory():
    record = {**EXITED_WITH_1, "OOMKilled": True}

    result = de.verdict(CHECK, ENDED_EARLY._replace(state=record))

    assert "out of memory" in result.message


def test_time_limit_of_a_phase_counts_only_in_it(monkeypatch):
    clock = iter([0.0, 3.0, 10.0, 10.0, 11.0])  # begin, enter, enter again, look
    monkeypatch.setattr(de.time, "monotonic", lambda: next(clock))
    deadline = de.Deadline({"a": 5.0, "b": 9.0})

    deadline.enter("b")
    deadline.enter("a")

    assert deadline.left() == 2.0
    assert deadline.left() == 1.0


def test_time_and_time_limit_of_a_test_count_from_its_begin_marker(fake, evaluate):
    fake.fault("run", "sleep", seconds=100)

    report = evaluate(["FROM x"], run_command("cd /", timeout=2))

    assert outcome(report) == "passed"
    assert 0 <= report["test_results"][0]["execution_time"] < 2


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
    capture = de.Capture("f00d", CHECK.check._replace(needles=needles))
    for at in range(0, len(text), size):
        capture.feed(text[at : at + size].encode())
    capture.finish()
    return capture


@pytest.mark.parametrize("what", PRINTED)
def test_only_what_is_between_the_markers_counts_however_reads_cut_it(what):
    text, output, end = PRINTED[what]
    for size in range(1, len(text) + 1):
        capture = captured(text, b"needle", b"eed", size=size)

        assert (capture.printed.output, capture.exit_code or capture.phase) == (
            output,
            end or "exit",
        )
        assert capture.printed.found == ("needle" in output, "eed" in output)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_text_is_found_with_colour_codes_in_it_and_with_its_own(size):
    text = "f00d=B\n[\x1b[32mok\x1b[0m]: \x1b[01;31m\x1b[Kredis\x1b[mf00d=E 0\n"

    capture = captured(text, b"[ok]: redis", b"\x1b[32mok", b"[ok] redis", size=size)

    assert capture.printed.found == (True, True, False)


def test_output_of_any_length_is_searched_and_8_kb_of_it_are_kept():
    much = "x" * 100_000
    text = f"f00d=B\nhead{much}middle{much}tail"

    capture = captured(text, b"head", b"xmiddle", b"tail", b"absent", size=65536)

    assert capture.printed.found == (True, True, True, False)
    assert capture.printed.output.startswith("headxxx")
    assert capture.printed.output.endswith("xxxtail")
    assert 8192 < len(capture.printed.output) < 8292


def test_every_container_has_its_own_name_and_nonce(fake, evaluate):
    evaluate(["FROM x"], TRUE, TRUE)

    first, second = map(set, fake.calls("run"))
    assert len(first - second) == 2


# Whose fault it is that a test proves nothing twice

STARTS = {  # the result, is the image there, has another test begun: is it the image's fault?
    (125, True, False): True,
    (125, True, True): False,
    (125, False, False): False,
    (-9, True, False): False,
    (de.TOO_SLOW, True, True): True,
    (de.NOT_STARTED, True, True): False,
}


@pytest.mark.parametrize("case", STARTS, ids=str)
def test_image_is_at_fault_if_it_alone_cannot_be_started(case):
    end, has_image, has_begun = case
    status, code = (NO_PROOF, end) if isinstance(end, int) else (end, None)
    result = de.Result(status, "why", code)

    is_fault = de.is_fault_of_image(result, has_image=has_image, has_begun=has_begun)

    assert is_fault is STARTS[case]


# What is run twice

FULL = "echo 'write: No space left on device'; exit 1"


class Twice(NamedTuple):
    """What happens to the second of two tests, and what becomes of both."""

    when: str
    outcome: str
    first: str = "cd /"
    command: str = "cd /"
    faults: str = ""  # as for tests/docker-fault
    state: Mapping = {}  # what differs in the engine's record
    runs: int = 2  # of the second test


TWICE = [
    # The second run counts
    Twice("docker was killed", "passed", faults="run do=die nth=2"),
    Twice("docker failed", "passed", faults="run nth=2"),
    Twice(
        "the engine was away",
        "passed",
        faults="run do='lose the engine' nth=2; version do='find the engine' nth=5",
    ),
    Twice(
        "docker was killed during the test",
        "passed",
        faults="run do='die within' nth=2",
    ),
    Twice(
        "the command was killed",
        "passed",
        command="test -e once || { touch once; kill -9 $$; }",
    ),
    Twice(
        "a child of the command was killed",
        "passed",
        command="test -e once || { touch once; echo 'make: *** [x] Killed'; exit 2; }",
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
        "docker cannot start it after a test that took too long",
        "engine",
        first="sleep 600",
        faults="run since=2",
    ),
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
    # The control experiment fails
    Twice(
        "docker can start nothing",
        "engine",
        faults="run since=2 code=125; 'control run' code=125",
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
    commands = (row.first, row.command)

    report = evaluate(["FROM x"], *map(run_command, commands))

    assert outcome(report) == row.outcome, messages(report)
    is_removed = ["--rm" in words for words in fake.calls("run")]
    assert is_removed == [True, True, False][: 1 + row.runs]
    is_retried = row.runs == 2 and row.outcome != "engine"
    assert report["test_results"][1]["retried"] is is_retried


@pytest.mark.parametrize("do", ["hang after", "die within"])
def test_container_that_did_not_end_is_removed_before_the_next_test_begins(fake, evaluate, do):
    fake.fault("run", do, nth=1)

    evaluate(["FROM x"], TRUE, TRUE)

    order = [name for name in fake.names() if name in ("run", "container rm")]
    assert order[:3] == ["run", "container rm", "run"]


@pytest.mark.parametrize("error", ["connection refused", "why"])
def test_build_that_met_the_network_is_retried_after_a_pause(fake, evaluate, error):
    fake.fault("build", nth=1, stderr=error)

    summary = evaluate(["FROM x"], TRUE)["summary"]

    has_waited = summary["wall_time"] >= de.NETWORK_PAUSE
    assert has_waited is (error == "connection refused")


# Images that cannot be started


def test_image_that_cannot_be_started_fails_all_tests_with_the_reason(fake, evaluate):
    fake.inject("run code=125 stderr='docker: unable to find user app'")

    report = evaluate(["FROM x"], *[LOOK] * 6, TRUE)

    assert outcome(report) == "failed"
    assert all("unable to find user app" in message for message in messages(report))
    assert report["environment"]["image_starts"] is False
    assert fake.count("control run") == 1


def test_image_without_a_shell_fails_all_tests_with_that_reason(fake, evaluate):
    error = 'exec: \\"/bin/sh\\": stat /bin/sh: no such file or directory: unknown.'
    fake.inject(f"run code=127 stderr='docker: Error response from daemon: {error}'")

    report = evaluate(["FROM x"], run_command("make"), TRUE)

    assert outcome(report) == "failed"
    assert all(message.startswith("the image has no /bin/sh") for message in messages(report))
    codes = [row["exit_code"] for row in report["test_results"]]
    assert codes == [None, None], "those of docker are no exit codes of tests"


def test_image_that_does_not_start_in_time_fails_and_names_the_limit(fake, evaluate):
    fake.fault("run", "hang")

    report = evaluate(["FROM x"], TRUE, TRUE)

    assert outcome(report) == "failed"
    assert all("--start-timeout" in text for text in [*report["warnings"], *messages(report)])


@pytest.mark.parametrize(
    ("options", "state", "expected"),
    [
        ([], {}, "engine"),
        (["--network=x"], {}, "usage"),
        (["--network=x"], RUNNING, "failed"),  # it has its network, but its shell hangs
    ],
)
def test_network_that_docker_refuses_is_no_fault_of_the_image(
    fake, evaluate, monkeypatch, options, state, expected
):
    def run_container(_workspace, _test, options, keep):
        is_alone = "--network=none" in options.run_options
        return RAN if is_alone else NOT_BEGUN._replace(state=state)

    monkeypatch.setattr(de, "run_container", run_container)

    report = evaluate(["FROM x"], TRUE, run_options=options)

    assert outcome(report) == expected, report["error"]


def test_image_that_is_gone_is_no_fault_of_the_image(fake, evaluate):
    fake.inject("run code=125; 'image inspect' nth=3")  # after those of build and control

    assert outcome(evaluate(["FROM x"], TRUE)) == "engine"


# The engine


def test_engine_that_is_away_at_the_limit_of_a_test_ends_the_evaluation_without_a_score(
    fake, evaluate
):
    late = run_command("touch ../lost; sleep 60")

    report = evaluate(["FROM x"], TRUE, late, TRUE)

    assert outcome(report) == "engine"
    assert list(statuses(report).values()) == ["passed", "not_run", "not_run"]


def test_checks_that_wait_for_their_turn_do_not_start_after_an_error_of_the_engine(fake, evaluate):
    fake.inject("run do=hang; 'control COPY'")

    report = evaluate(["FROM x"], *[LOOK] * 12)

    assert outcome(report) == "engine"
    assert fake.count("run") <= de.PARALLEL_CHECKS + 1


def test_what_is_in_the_pipe_at_the_limit_still_counts():
    docker = de.Docker("sh")
    deadline = de.Deadline({"test": 0.0})
    with docker.start("-c", "echo late") as process:
        process.wait()

        at_the_limit = next(docker.stream(process, deadline))

    assert at_the_limit == b"late\n"


def test_output_without_end_ends_at_the_limit():
    docker = de.Docker("yes")
    deadline = de.Deadline({"": 0.1})
    with docker.start() as process:
        size = sum(map(len, docker.stream(process, deadline)))

    assert deadline.has_passed
    assert size > de.CHUNK


# Part of the points

COUNTED = {  # the output, what is counted
    "3 passed": 3,
    "1 passed\n\n2 passed\n": 3,
    "1 passed\r\x1b[32m12\x1b[0m passed\r\n": 12,
    "9" * 400 + " passed": 0,
    "٣ passed, ² passed": 0,
    "x" * 4088 + "3 passed": 3,
    "x" * 5000 + "3 passed": 0,
    "x" * 99999 + "\r3 passed": 3,
    "\0\udcff3 passed": 3,
}


@pytest.mark.parametrize("text", COUNTED, ids=lambda text: repr(text)[:20])
def test_matches_are_counted_line_by_line_however_reads_cut_them(text):
    data = text.encode(errors="surrogateescape")
    for size in (1, 7, 10**6) if len(data) < 10**4 else (1000, 10**6):
        tally = de.Tally(re.compile(r"([^\Wx]+) passed"))
        for at in range(0, len(data), size):
            tally.add(data[at : at + size])
        tally.add(b"\n")

        assert tally.count == COUNTED[text]


def test_match_without_a_group_counts_once():
    tally = de.Tally(re.compile(r"ok(\d+)?"))
    tally.add(b"ok ok2 ok\n")

    assert tally.count == 4


POINTS = {  # score, counted, of: the points of a test that failed
    (1, 41, 80): 0.5125,
    (3, 1, 10): 0.3,
    (1, 2, 3): 0.666666,
    (2, 0, 3): 0,
    (1, 10**9 - 1, 10**9): 0.999999,
    (10**6, 10**12 - 1, 10**12): 999999.999999,
}


@pytest.mark.parametrize("case", POINTS, ids=str)
def test_part_of_the_points_is_rounded_down_and_never_all(case):
    score, counted, of = case
    test = CHECK._replace(score=score, check=CHECK.check._replace(full_count=of))

    points = de.points_of(test, de.Result("failed", "", earned=counted))

    assert points == POINTS[case]


SUITES = {  # the command, more params: status and points
    ("echo 3 passed; exit 1", ""): ("failed", 0.6),
    ("echo 5 passed; exit 1", ""): ("passed", 1),
    ("echo 7 passed", ""): ("passed", 1),
    ("echo 5 passed; exit 1", '"exit_code": 0'): ("failed", 0),
    ("echo 3 passed; exit 137", ""): ("failed", 0),
    ("echo 5 passed; sleep 600", ""): ("timeout", 0),
    ("echo 5 passed; kill -9 $PPID", ""): ("failed", 0),
    ("echo 3 passed", '"contains": ["skipped"]'): ("failed", 0),
    ("echo 3 passed", '"contains": ["passed"]'): ("failed", 0.6),
}


@pytest.mark.parametrize("case", SUITES, ids=str)
def test_suite_earns_what_it_counts_if_it_came_to_its_end(fake, evaluate, case):
    params = {**json.loads(f"{{{case[1]}}}"), "count": r"(\d+) passed", "of": 5}
    test = run_command(case[0], id="suite")
    test["type"] = "output_contains" if "contains" in params else "run_command"
    test["params"].update(params)

    report = evaluate(["FROM x"], TRUE, test, {**TRUE, "requires": ["suite"]})

    _, row, other = report["test_results"]
    assert (row["status"], row["score"]) == SUITES[case]
    assert (row["counted"] is None) is (row["status"] == "timeout" or "PPID" in case[0])
    assert other["status"] == ("passed" if row["status"] == "passed" else "skipped")


# Services

SERVICE = {**TRUE, "service": 8080}
HTTP = {"type": "http_responds", "service": 8080, "params": {}}


@pytest.mark.parametrize("test", [SERVICE, {**TRUE, "service": True}, HTTP], ids=str)
@pytest.mark.parametrize("first", [[TRUE], []], ids=["another test began", "it is the first"])
def test_own_command_that_cannot_be_started_fails_only_its_tests(fake, evaluate, test, first):
    fake.set(own_command='exec: "nosuch": executable file not found in $PATH: unknown')

    report = evaluate(["FROM x"], *first, test, TRUE)

    assert [*statuses(report).values()] == ["passed"] * len(first) + ["failed", "passed"]
    assert "nosuch" in messages(report)[len(first)]
    assert report["warnings"] == fake.left() == []


FLAWS = {  # settings of the fake engine, and the message of a test beside a service
    "it ended": (
        {"service": {"Running": False, "ExitCode": 3}, "log": "no port is free\n"},
        "the image's own command ended with exit code 3: no port is free",
    ),
    "it does not listen": (
        {"listens": False},
        "nothing listens on port 8080 in time (see --start-timeout)",
    ),
}


@pytest.mark.parametrize("what", FLAWS)
def test_service_that_ends_or_does_not_listen_fails_with_the_reason(fake, evaluate, what):
    settings, message = FLAWS[what]
    fake.set(**settings)

    report = evaluate(["FROM x"], TRUE, SERVICE)

    row = report["test_results"][1]
    assert (row["status"], row["message"]) == ("failed", message)
    assert row["retried"] is (what == "it ended")
    assert settings.get("log", "") in row["output"]
    assert fake.left() == []


@pytest.mark.parametrize("option", ["network=host", "net=name=host", "network=container:x"])
def test_service_in_the_network_of_others_is_refused(fake, evaluate, option):
    report = evaluate(["FROM x"], SERVICE, run_options=[f"--{option}"])

    assert outcome(report) == "usage"
    assert "run" not in fake.names()


# HTTP

ANSWERS = {  # a response: its status and body
    b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nx\r\n\r\ny": (200, b"x\r\n\r\ny"),
    b"HTTP/1.0 404 Not Found\n\nx": (404, b"x"),
    b"HTTP/1.1 204\r\n\r\n": (204, b""),
    b"HTTP/1.1 200 OK": (200, b""),
    b"HTTP/1.1 2000 OK\r\n\r\nx": (0, b""),
    b"ICY 200 OK\r\n\r\nx": (0, b""),
    b"SSH-2.0\r\nHTTP/1.1 200 OK\r\n\r\nx": (0, b""),
    b"x": (0, b""),
    b"": (0, b""),
}
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-Encoding: Chunked\r\n\r\n"
CHUNKS = {
    b"3;x=y\r\nnee\r\n00A\r\ndle\r\n01234\r\n0\r\nTrailer: x\r\n\r\n": b"needle\r\n01234",
    b"9\r\ncut": b"cut",
    b"x\r\nabc": b"",
    b"1\r\na\r\nx": b"a",
    b"1\r\na\r\n" * 150_000: b"a" * 150_000,
}


def test_status_and_body_of_a_response():
    answers = {**ANSWERS, **{CHUNKED + body: (200, joined) for body, joined in CHUNKS.items()}}

    for data, (status, body) in answers.items():
        assert de.read_http(data)[::2] == (status, body), data[:60]


def test_request_is_repeated_until_the_response_fits_and_the_last_one_counts(fake, evaluate):
    fake.shell('nonce=$4; echo "$nonce=B"; n=$(cat n || echo 0); echo $((n + 1)) >n')
    shell = fake.folder / "shell"
    shell.write_text(shell.read_text() + 'echo "HTTP/1.0 $((500 + n)) x"; echo "$nonce=E 0"\n')
    tests = [{**HTTP, "params": {"status": 503}}, {**HTTP, "params": {"status": 599}, "timeout": 9}]

    report = evaluate(["FROM x"], *tests)

    first, second = report["test_results"]
    assert (first["status"], first["message"]) == ("passed", "HTTP/1.0 503 x")
    assert second["status"] == "failed"
    assert second["message"].endswith(", expected status 599")
    assert second["execution_time"] > first["execution_time"] > 0
    assert 3 + 3 < int((fake.root / "n").read_text()) <= 3 + 1 + 9


def test_image_without_an_http_client_fails_at_once_and_says_so(fake, evaluate):
    fake.shell(f'echo "$4=B"; echo "$4=E {de.NO_CLIENT}"; exit {de.NO_CLIENT}')

    report = evaluate(["FROM x"], HTTP)

    assert messages(report)[0].startswith("the image has none of bash, perl, python3, nc")
    assert fake.count("exec") == 2
