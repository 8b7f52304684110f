"""How a verdict is made (section 3): the proof, the second run, and images that do not start."""

import json
import os
import re
from types import SimpleNamespace

import pytest
from cases import LOOK, TRUE, judged, output_contains, read_tests, run_command, table
from conftest import messages, outcome, statuses

import DockerfileEvaluator as de

# The verdict

# A test of a variable, which was found
(CHECK,) = read_tests({"type": "envvar_set", "params": {"name": "HOME"}})
# How far a container came, docker's exit code (null at the limit of this phase), that in the end
# marker, and the engine's record -> the status, or what happened if that proves none
VERDICTS = """
# Docker and the end marker agree: the check judges
["exit", 0, 0] -> passed
["exit", 3, 3] -> failed
# The time limit of the test; or it ran on after it printed an end
["test", null, null] -> timeout
["exit", null, 0] -> timeout
    state: {"StartedAt": "2026", "Running": true, "ExitCode": 0}
# Docker and the engine agree: the container ended by itself
["start", 1, null] -> failed
    state: {"StartedAt": "2026", "Running": false, "ExitCode": 1}
["test", 1, null] -> failed
    state: {"StartedAt": "2026", "Running": false, "ExitCode": 1}
["exit", 1, 0] -> failed
    state: {"StartedAt": "2026", "Running": false, "ExitCode": 1}
# No record is no agreement
["start", 1, null] -> docker run: exit code 1
["exit", 1, 0] -> docker run: exit code 1
["exit", null, 0] -> docker run: it did not end in time
# Docker and the engine disagree
["test", 1, null] -> docker run: exit code 1
    state: {"StartedAt": "2026", "Running": true, "ExitCode": 0}
["test", 1, null] -> docker run: exit code 1
    state: {"StartedAt": "2026", "Running": false, "ExitCode": 137}
["exit", null, 0] -> docker run: it did not end in time
    state: {"StartedAt": "2026", "Running": false, "ExitCode": 1}
# Nothing of the image has run
["start", 1, null] -> docker run: exit code 1
    state: {"StartedAt": "0001-01-01T00:00:00Z", "Running": false, "ExitCode": 1}
["start", null, null] -> the container did not start in time
["start", null, null] -> the container started, but the test did not begin in time
    state: {"StartedAt": "2026", "Running": true, "ExitCode": 0}
"""


@table(VERDICTS, state={})
def test_verdict_needs_a_proof(row):
    run = de.ContainerRun(*json.loads(row.when), output=b"HOME=/x\0", state=row.state)

    assert de.verdict(CHECK, run)[0].startswith(row.then)


def test_time_and_time_limit_of_a_test_count_from_its_begin_marker(fake, score):
    fake.inject("run do=sleep seconds=100")

    report = score(run_command("cd /", timeout=2), run_command("sleep 600", timeout=2))

    first, second = report["test_results"]
    assert outcome(report) == "passed timeout"
    assert first["execution_time"] < 2 <= second["execution_time"] < 9


# What a container with the nonce f00d prints; how far it came, its exit code and its output
PRINTED = r"""
f00d=B\na needlef00d=E 0\n -> exit 0 'a needle'
needlef00d=B\na needf00d=E 0\nneedle -> exit 0 'a need'
# The nonce in what is no marker
f00d=B\nf00d=E 1234\nf00d=B eedf00df00d=E 0\n -> exit 0 'f00d=E 1234\nf00d=B eedf00d'
f00d=B\na needlef00d=E 123\n -> exit 123 'a needle'
f00d=B\na needlef00d=E 0\nf00d=E 1\n -> exit 0 'a needle'
f00d=B\na needle -> test None 'a needle'
f00d=B\na needlef00d=E 0 -> test None 'a needlef00d=E 0'
needlef00d=E 0\n -> start None ''
# Another nonce
c0de=B\nneedlec0de=E 0\n -> start None ''
"""


@table(PRINTED)
def test_only_what_is_between_the_markers_counts_however_reads_cut_it(monkeypatch, row):
    monkeypatch.setattr(de, "token_hex", lambda _: "f00d")
    text = row.when.replace(r"\n", "\n").encode()
    for size in range(1, len(text) + 1):
        capture = de.Capture()
        for at in range(0, len(text), size):
            capture.feed(text[at : at + size])
        capture.finish()

        assert f"{capture.phase} {capture.exit_code} {capture.output.text()!r}" == row.then


# What is looked for in a line with colour codes
NEEDLES = {"[ok]: redis": "passed", "\x1b[32mok": "passed", "[ok] redis": "failed"}


def test_text_is_found_with_colour_codes_in_it_and_with_its_own():
    output = b"[\x1b[32mok\x1b[0m]: \x1b[01;31m\x1b[Kredis\x1b[m"

    assert {text: judged(output_contains("x", text), output).status for text in NEEDLES} == NEEDLES


def test_first_and_last_half_of_8_mib_are_searched_and_8_kb_are_in_the_report(fake, score):
    flood = "head -c 5000000 /dev/zero | tr '\\0' x"
    command = f"echo head; {flood}; echo middle; {flood}; echo tail"

    report = score(*(output_contains(command, word) for word in ("head", "tail", "middle")))

    assert list(statuses(report).values()) == ["passed", "passed", "failed"]
    expected = "(?s)head\nx.{8100,8200}xtail\n.{,50}8 MiB.{,50}"
    assert re.fullmatch(expected, report["test_results"][0]["output"])
    assert "only its first and last 4 MiB were searched" in messages(report)[2]


# What is run twice, and who is at fault if that proves nothing


# What goes wrong; what is run then (`keep`: without --rm), and the outcome
FLOWS = r"""
# The second run counts
docker was killed -> run, run, rm, keep, rm: passed
    faults: run do=die nth=2
docker failed -> run, run, rm, keep, rm: passed
    faults: run nth=2
the engine was away -> run, run, rm, keep, rm: passed
    faults: run do=away count=3 nth=2
docker was killed during the test -> run, run, rm, keep, rm: passed
    faults: run do='die within' nth=2
the command was killed -> run, run, keep, rm: passed
    second: test -e once || { touch once; kill -9 $$; }
a child of the command was killed -> run, run, keep, rm: passed
    second: test -e once || { touch once; echo 'make: *** [x] Killed'; exit 2; }
the disk was full -> run, run, keep, rm: passed
    second: test -e once || { touch once; echo 'No space left on device'; exit 1; }
# Twice the same: the image is at fault
the command is killed twice -> run, run, keep, rm: failed passed
    second: kill -9 $$
the disk is full twice -> run, run, keep, rm, control, rm: failed passed
    second: echo 'No space left on device'; exit 1
the command kills its container -> run, run, rm, keep, rm: failed passed
    second: kill -9 $PPID
docker cannot start it, and no test began -> run, rm, keep, rm, control, rm, keep, rm: failed
    faults: run
    first: none
its shell never begins a test -> run, run, rm, keep, rm, control, rm, rm: failed passed
    faults: run do=hang since=2; 'container inspect' code=0 stdout='{"Running": true}'
# The image has started before, the control experiment succeeds: the engine is at fault
docker is killed twice -> run, run, rm, keep, rm, control, rm: engine
    faults: run do=die since=2
docker is killed twice, and no test began -> run, rm, keep, rm, control, rm: engine
    faults: run do=die
    first: none
docker cannot start it twice -> run, run, rm, keep, rm, control, rm: engine
    faults: run since=2
docker hangs twice -> run, run, rm, keep, rm, control, rm, rm: engine
    faults: run do=hang since=2
docker cannot start it after a timeout -> run, rm, run, rm, keep, rm, control, rm: engine
    first: sleep 600
    faults: run since=2
the container runs, docker has ended -> run, run, rm, keep, rm, control, rm: engine
    second: kill -9 $PPID
    state: {"Running": true}
the container has another exit code than docker -> run, run, rm, keep, rm, control, rm: engine
    second: kill -9 $PPID
    state: {"ExitCode": 3}
the engine does not tell -> run, run, rm, keep, rm, control, rm: engine
    second: kill -9 $PPID
    faults: 'container inspect' do=hang
the image is gone -> run, rm, keep, rm, control, rm: engine
    faults: run; 'image inspect' nth=3
    first: none
# The control experiment fails
docker can start nothing -> run, run, rm, keep, rm, control, rm: engine
    faults: run since=2 code=125; 'control run' code=125
# The container starts without a network
docker has no network -> run, rm, keep, rm, control, rm, keep, rm: engine
    faults: run without=--network=none
    first: none
the engine hangs on its containers -> run, rm, keep, rm, control, rm, keep, rm, rm, rm, rm: failed
    faults: run do=hang; 'container inspect' do=hang; 'container rm' do=hang
    first: none
docker refuses the network of an option -> run, rm, keep, rm, control, rm, keep, rm: usage
    faults: run without=--network=none
    first: none
    options: {"run_options": ["--network=x"]}
it has the network of an option, but its shell hangs -> run, rm, keep, rm, control, rm, rm: failed
    faults: run do=hang; 'container inspect' code=0 stdout='{"Running": true}'
    first: none
    options: {"run_options": ["--network=x"]}
# What is no accident
it fails -> run, run: failed passed
    second: exit 1
it passes -> run, run: passed
    second: echo no space left on device
it takes too long -> run, run, rm: passed timeout
    second: sleep 600
the engine is away for a moment at the limit of a test -> run, run, rm, keep, rm: passed timeout
    second: sleep 600
    faults: version do=hang nth=3
the engine is away at the limit of a test -> run, run, rm: engine
    second: sleep 600
    faults: version since=3
"""


def asked(fake):
    """Yield what was run in order."""
    for name, words in fake.log():
        if name == "run":
            yield "run" if "--rm" in words else "keep"
        elif name in ("container rm", "control run"):
            yield name.replace("container ", "").replace(" run", "")


@table(FLOWS, first="cd /", second="cd /", faults="", state={}, options={})
def test_second_run_counts_and_experiments_find_who_is_at_fault(fake, score, row):
    """What did not end by itself is removed before anything else runs.

    After a `docker run` that hung, the engine creates its container later: the last rm.
    """
    fake.inject(row.faults)
    fake.set(state=row.state)
    commands = [row.first, row.second][row.first == "none" :]

    report = score(*map(run_command, commands), **row.options)

    assert f"{', '.join(asked(fake))}: {outcome(report)}" == row.then, messages(report)
    is_retried = "keep" in row.then and not report["error"]
    assert report["test_results"][-1]["retried"] is is_retried


def test_build_that_met_the_network_is_retried_after_a_pause(fake, score):
    fake.inject("build nth=1 stderr='connection refused'")

    assert score(TRUE)["summary"]["wall_time"] >= de.NETWORK_PAUSE


# Images that cannot be started

# What goes wrong, and what each message and warning says
CANNOT_START = r"""
run code=125 stderr='docker: unable to find user app' -> unable to find user app
run code=127 stderr='docker: exec: "/bin/sh": no such file or directory' -> the image has no /bin/sh
run do=hang -> --start-timeout
"""


@table(CANNOT_START)
def test_image_that_cannot_be_started_fails_all_tests_with_the_reason(fake, score, row):
    fake.inject(row.when)

    report = score(LOOK, TRUE)

    assert outcome(report) == "failed"
    assert all(row.then in text for text in [*messages(report), *report["warnings"]])
    assert bool(report["warnings"]) is row.when.endswith("hang")
    assert report["environment"]["image_starts"] is False


# The engine


def test_checks_that_wait_for_their_turn_do_not_start_after_an_error_of_the_engine(fake, score):
    fake.inject("run do=hang since=2; 'control COPY'")

    report = score(*[LOOK] * 300)

    assert outcome(report) == "engine"
    assert fake.count("run") < 300


def test_what_is_in_the_pipe_at_the_limit_still_counts():
    docker = de.Docker("sh")
    deadline = de.Deadline({"test": 0.0})
    with docker.start("-c", "echo late") as process:
        process.wait()

        assert next(docker.stream(process, deadline)) == b"late\n"


def test_what_an_image_prints_before_dockers_error_is_none():
    run = de.ContainerRun(stderr="dd: no space left on device\ndocker: Error response: x\n")

    assert run.error == "Error response: x"


def test_last_words_of_a_command_are_read():
    """It prints them, and ends, after the program has waited for its output."""
    reading, writing = os.pipe()

    def poll():
        os.write(writing, b"the end")
        os.close(writing)
        return 0

    with open(reading, "rb") as stdout:
        process = SimpleNamespace(stdout=stdout, stderr=None, poll=poll, wait=lambda _: 0)

        assert list(de.Docker("docker").stream(process, de.Deadline({"": 60.0}))) == [b"the end"]


# Part of the points

COUNTED = {  # the output, what is counted
    "3 passed": 3,
    "1 passed\n\n2 passed\n": 3,
    "1 passed\r\x1b[32m12\x1b[0m passed\r\n": 12,
    "\x1b[?25h\x1b]8;;a://b\x1b\\3\x1b]8;;\x07 \x1b(Bpassed": 3,
    "9" * 400 + " passed": 0,
    "٣ passed, ² passed": 0,
    "x" * 992 + "3 passed": 3,
    "x" * 993 + "3 passed": 0,
    "\x1b[m" * 992 + "3 passed": 3,
    "x" * 99999 + "\r3 passed": 3,
    "x" * 69990 + "\r3 passed\r": 3,
    "\0\udcff3 passed": 3,
}


def test_matches_are_counted_line_by_line_as_a_terminal_shows_them():
    pattern = re.compile(r"([^\Wx]+) passed")

    def count(text):
        return de.count_matches(pattern, de.Printed(text.encode(errors="surrogateescape")))

    assert {text: count(text) for text in COUNTED} == COUNTED


# Score, counted, of: the points of a test that failed
POINTS = """
[1, 41, 80] -> 0.5125
[3, 1, 10] -> 0.3
[1, 2, 3] -> 0.666666
[2.01, 1, 3] -> 0.67
[2, 0, 3] -> 0
[1, 999999999, 1000000000] -> 0.999999
[1000000, 999999999999, 1000000000000] -> 999999.999999
"""


@table(POINTS)
def test_part_of_the_points_is_rounded_down_and_never_all(row):
    score, counted, of = json.loads(row.when)
    test = CHECK._replace(score=score, check=CHECK.check._replace(full_count=of))

    assert de.points_of(test, de.Result("failed", "", earned=counted)) == float(row.then)


# The command; the status and points of its test, what is counted, and what requires it
SUITES = r"""
echo 3 passed; exit 1 -> failed 0.6 3 skipped
echo 5 passed; exit 1 -> passed 1 5 passed
echo 7 passed -> passed 1 7 passed
echo 5 passed; false -> failed 0 0 skipped
    params: {"exit_code": 0}
echo 3 passed; exit 137 -> failed 0 0 skipped
echo 5 passed; sleep 600 -> timeout 0 None skipped
echo 5 passed; kill -9 $PPID -> failed 0 None skipped
echo ok ok2 ok; exit 1 -> failed 0.8 4 skipped
    params: {"count": "ok(\\d+)?"}
echo ok ok2 ok; exit 1 -> failed 0.6 3 skipped
    params: {"count": "ok|\\b"}
echo 3 passed; true -> failed 0 0 skipped
    params: {"contains": ["skipped"]}
echo 3 passed; cd / -> failed 0.6 3 skipped
    params: {"contains": ["passed"]}
"""


@table(SUITES, params={})
def test_suite_earns_what_it_counts_if_it_came_to_its_end(fake, score, row):
    params = {"command": row.when, "count": r"(\d+) passed", "of": 5, **row.params}
    kind = "output_contains" if "contains" in params else "run_command"
    test = {"type": kind, "id": "suite", "params": params}

    report = score(TRUE, test, {**TRUE, "requires": ["suite"]})

    _, suite, other = report["test_results"]
    assert f"{suite['status']} {suite['score']:g} {suite['counted']} {other['status']}" == row.then


def test_output_that_takes_too_long_to_count_is_a_failure(fake, score, monkeypatch):
    monkeypatch.setattr(de, "JUDGING_TIMEOUT", -1.0)  # seconds
    params = {"command": "echo 5 passed", "count": r"(\d+) passed", "of": 5}

    counted, other = score(("run_command", params), TRUE)["test_results"]

    assert (counted["score"], other["score"]) == (0, 1)
    assert "to count" in counted["message"]


# Services

# What is wrong with an image's own command, and the message of a test beside it
SERVICES = r"""
it cannot be started -> docker run: exec: "no": not found
    faults: run given=--detach without=--entrypoint=/bin/sh stderr='docker: exec: "no": not found'
it cannot be started, no port -> docker run: exec: "no": not found
    test: {"type": "run_command", "service": true, "params": {"command": "true"}}
    faults: run given=--detach without=--entrypoint=/bin/sh stderr='docker: exec: "no": not found'
it cannot be started, HTTP -> docker run: exec: "no": not found
    test: {"type": "http_responds", "service": 8080, "params": {}}
    faults: run given=--detach without=--entrypoint=/bin/sh stderr='docker: exec: "no": not found'
it has removed the shell -> docker exec: no such file
    faults: exec nth=2 code=126 stdout='no such file'; exec nth=4 code=126 stdout='no such file'
a command ends its own shell -> the test ended without proof (exit code
    test: {"type": "run_command", "service": 8080, "params": {"command": "kill -9 $PPID"}}
it ended -> the image's own command ended with exit code 3: no port is free
    faults: exec stderr='it is not running'; logs do=print stdout='no port is free'
    state: {"Running": false, "ExitCode": 3}
it ended well -> ended with exit code 0 (it must stay in the foreground; its standard input
    faults: exec stderr='it is not running'; logs do=print stdout=bye
    state: {"Running": false, "ExitCode": 0}
"""


@table(SERVICES, faults="", state={}, test={**TRUE, "service": 8080})
@pytest.mark.parametrize("first", [[TRUE], []], ids=["another test began", "it is the first"])
def test_own_command_fails_only_its_tests(fake, score, row, first):
    fake.set(state=row.state)
    fake.inject(row.faults)

    report = score(*first, row.test, TRUE)

    *_, test, other = report["test_results"]
    assert (test["status"], other["status"], test["retried"]) == ("failed", "passed", True)
    assert row.then in test["message"]
    assert ("[its own command]" in test["output"]) is ("logs" in row.faults)
    assert report["warnings"] == fake.left() == []


@pytest.mark.parametrize("option", ["network=host", "net=name=host", "network=container:x"])
def test_service_in_the_network_of_others_is_refused(fake, score, option):
    assert outcome(score({**TRUE, "service": True}, run_options=[f"--{option}"])) == "usage"
    assert "run" not in fake.names()
