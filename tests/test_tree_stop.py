"""artifacts/evaluate_all.py: kills, signals, two starts, and the screen."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
from types import SimpleNamespace

import pytest
from cases import run_command
from engine import wait_for
from trees import BRIEF, FAILS, builds, ea, evaluations, inventory, kind, some_are_done, start

pytest_plugins = ["trees"]


def slow_tree(tree):
    return tree({f"m{at // 3}/app{at}": "FROM x\n" for at in range(5)}, run_command("sleep 1"))


@pytest.mark.long("programs and their ends")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_lets_those_under_way_clean_up_and_a_second_start_goes_on(fake, project, tree, number, code):
    reports = slow_tree(tree)
    with start("--parallel", "2") as first:
        wait_for(some_are_done(reports))
        os.kill(first.pid, number)
        said = first.communicate(timeout=60)[0].decode()
    assert first.returncode == code
    assert "interrupted; waiting for 2 to clean up (interrupt again to skip that)\n" in said
    assert fake.left() == []
    kinds = [kind(report) for report in reports]
    assert set(kinds) <= {"whole", "interrupted", "none"}
    assert "none" in kinds
    counts = [evaluations(report) for report in reports]
    with start("--parallel", "2") as second:
        said = second.communicate(timeout=120)[0].decode()
    assert (second.returncode, {kind(report) for report in reports}) == (0, {"whole"})
    assert f"resumed {kinds.count('whole')}," in said
    again = [after - before for before, after in zip(counts, map(evaluations, reports))]
    assert again == [0 if before == "whole" else 1 for before in kinds]
    assert fake.left() == []


@pytest.mark.long("programs and their ends")
def test_a_second_signal_leaves_clean_up_too(fake, project, tree):
    reports = tree({"m/app": "FROM x\n", "m/lib": "FROM x\n"}, run_command("sleep 60"))
    fake.fault(
        "container rm", "hang", **{"from": 4}
    )  # after that of the control, and of a look at each image
    with start("--parallel", "2") as first:
        wait_for(lambda: len(fake.calls("run")) == 2)
        os.kill(first.pid, signal.SIGINT)
        while b"interrupted; " not in first.stdout.readline():
            pass
        wait_for(lambda: len(fake.calls("container", "rm")) == 5)
        os.kill(first.pid, signal.SIGINT)
        said = first.communicate(timeout=55)[0].decode()  # less than clean-up takes
    assert first.returncode == 130
    assert "interrupted; leaving\n" in said
    assert {kind(report) for report in reports} == {"interrupted"}


@pytest.mark.long("programs and their ends")
def test_after_a_kill_those_under_way_end_alone_and_nothing_is_evaluated_twice(fake, project, tree):
    reports = tree({f"a/app{at}": "FROM x\n" for at in range(3)}, run_command("sleep 8"))
    with start("--parallel", "2") as first:
        wait_for(lambda: len(fake.calls("run")) == 2)
        os.kill(first.pid, signal.SIGKILL)
        with start("--parallel", "2") as second:
            said = second.communicate(timeout=120)[0].decode()
    assert (second.returncode, {kind(report) for report in reports}) == (0, {"whole"})
    assert "waiting: another start is evaluating it\n" in said
    assert [evaluations(report) for report in reports] == [1] * len(reports)
    assert fake.left() == []


@pytest.mark.long("programs and their ends")
def test_two_starts_share_a_tree(fake, project, tree):
    reports = tree({f"a/app{at}": "FROM x\n" if at else FAILS for at in range(6)}, BRIEF)
    with start("--parallel", "2") as first, start("--parallel", "2") as second:
        assert (first.wait(120), second.wait(120)) == (0, 0)
    assert [evaluations(report) for report in reports] == [2] + [1] * 5


@pytest.mark.long("programs and their ends")
def test_an_evaluator_that_is_killed_leaves_no_report_and_is_named(fake, project, tree):
    reports = tree({"a/app": "FROM x\nSLEEP\n"})
    with start() as first:
        wait_for(lambda: builds(fake))
        evaluator = wait_for(lambda: children(first.pid))[0]
        os.kill(evaluator, signal.SIGKILL)
        said = first.communicate(timeout=60)[0].decode()
    assert first.returncode == 1
    assert "a/app: no report: exit code -9: " in said
    assert "without a result 1\n" in said
    assert kind(reports[0]) == "none"


def children(pid):
    words = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE).stdout.split()
    return [int(word) for word in words]


# The screen


@pytest.fixture
def session(monkeypatch):
    """Return what a bar is drawn of: 80 of 200 are done, in 25 s each, eight in parallel."""
    monkeypatch.setattr(ea.time, "monotonic", lambda: 10_000.0)
    places = {"gpt-5/express": 9_995.0, "o3/flask": 9_000.0, "a-model-with-a-long-name/repository": 10_000.0}
    running = [SimpleNamespace(task=SimpleNamespace(place=it), began=at) for it, at in places.items()]
    tasks = list(range(200))
    bars = {"tasks": tasks, "finished": tasks[:80], "ended": 8, "spent": 200.0, "parallel": 8}
    return SimpleNamespace(**bars, running=running, todo=tasks[83:], repeats=[], engines=[], pulling={})


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (
            140,
            "[############..................] 80/200, 7 min left: gpt-5/express 5 s, o3/flask 17 min, a-model-with-a-long-name/repository 0 s",
        ),
        (80, "[########............] 80/200, 7 min left: gpt-5/express 5 s, o3/flask 17 min,…"),
        (40, "[####......] 80/200, 7 min left: gpt-5…"),
        (10, "[##....]…"),
    ],
)
def test_the_bar_fits_the_terminal_and_says_who_runs_for_how_long(session, columns, line):
    found = ea.bar(session, columns)
    assert found == line
    assert len(found) < columns


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"running": []}, "7 min left"),
        ({"running": [], "repeats": range(144)}, "1 h 7 min left"),  # one at a time
        ({"running": [], "todo": [], "repeats": [1]}, "25 s left"),
        ({"running": [], "ended": 1, "spent": 3600.0}, "14 h 38 min left"),  # from the first result
    ],
)
def test_the_time_left_is_told_from_the_first_result(session, more, words):
    session.__dict__.update(more)
    assert ea.bar(session, 80) == f"[########............] 80/200, {words}"


def test_before_the_first_result_no_time_is_told(session):
    session.__dict__.update(ended=0, spent=0.0, running=[])
    assert ea.bar(session, 80) == "[########............] 80/200"


def test_the_bar_says_what_is_pulled_and_which_engine_rests_until_when(session, monkeypatch):
    monkeypatch.setattr(ea.time, "time", lambda: 86_400.0)
    monkeypatch.setattr(ea.time, "localtime", ea.time.gmtime)
    session.__dict__.update(running=[], finished=[], ended=0, pulling={inventory.Base("debian:12"): 9_988.0})
    engine = {"is_checked": False, "is_given_up": False, "rests_until": 0.0}
    session.engines = [
        SimpleNamespace(name="one", **engine),
        SimpleNamespace(name="two", **{**engine, "rests_until": 10_060.0}),
        SimpleNamespace(name="three", **{**engine, "rests_until": 10_060.0, "is_given_up": True}),
        SimpleNamespace(name="four", **{**engine, "is_checked": True}),
    ]
    line = "0/200: checking four, pulling debian:12 12 s, two rests until 00:01:00"
    assert ea.bar(session, 120).endswith(line)


def test_an_interrupt_ends_the_check_of_an_engine_that_hangs(fake, project, tree):
    tree({"a/app": "FROM x\n"})
    fake.fault("control build", "hang")
    with start() as process:
        wait_for(lambda: any(call[0] == "build" for call in fake.calls()))
        os.kill(process.pid, signal.SIGINT)
        said = process.communicate(timeout=30)[0].decode()  # the control would take 60 s
    assert (process.returncode, "interrupted; waiting for 1 to clean up" in said) == (130, True)


def test_a_terminal_shows_a_bar_below_the_lines(fake, project, tree, monkeypatch):
    tree({"a/app": "FROM x\n"}, run_command("sleep 1"))
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with start("--parallel", "1", stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):
            while process.poll() is None or select.select([ours], [], [], 0)[0]:
                said += os.read(ours, 1000) if select.select([ours], [], [], 1)[0] else b""
    os.close(ours)
    assert process.returncode == 0
    assert b"\r\x1b[K[....................] 0/1: a/app " in said
    lines = re.sub(rb"[^\n]*\r\x1b\[K", b"", said.replace(b"\r\n", b"\n")).decode().splitlines()
    assert re.sub(r"\d+ s", "N s", lines[1]) == "[1/1] a/app: 1 of 1 tests, 100 % (build N s, tests N s)"


def test_a_screen_that_is_closed_or_full_ends_nothing(fake, project, tree):
    reports = tree({"a/app": "FROM x\n", "b/app": "FROM x\n"})
    with open("/dev/full", "w") as full, start(stdout=full, stderr=full) as process:
        assert process.wait(60) == 0
    assert [kind(report) for report in reports] == ["whole"] * 2


def test_where_nothing_is_under_way_an_interrupt_waits_for_nothing(fake, project, capsys):
    session = ea.Session(ea._options([]), [], ea.Screen())
    with session.turn:
        session._interrupted(signal.SIGINT)
    assert capsys.readouterr().out == "interrupted\n"
