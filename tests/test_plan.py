"""Order, overlap and skipping, with a stand-in for the engine that only notes what runs when."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import DockerfileEvaluator as de


class Check:
    draw = None

    def __init__(self, name, looks_only):
        self.name, self.looks_only = name, looks_only

    def script(self):
        return de.Script("", (self.name,))

    def judge(self, run):
        return de.Verdict(de.PASSED if run.status == 0 else de.FAILED, f"exit {run.status}")


def make(name, *requires, looks=False, timeout=1.0):
    return de.Test(name, "fake", Check(name, looks), timeout, 1, tuple(dict.fromkeys(requires)), None)


class Engine:
    """Runs scripts by noting them; `runs` says how each ends, in turn; `slow` takes longer than the others.

    The first ones wait until `meet` of them have run together, so that a busy machine hides no overlap.
    """

    def __init__(self, slow=None, meet=1, **runs):
        self.slow, self.meet, self.met = slow, meet, threading.Event()
        self.runs = {name: list(endings) for name, endings in runs.items()}
        self.lock = threading.Lock()
        self.order, self.now, self.together, self.networks = [], set(), [], {}
        self.retries = []

    def run(self, script, timeout, *, network, retry):
        name = script.arguments[0]
        with self.lock:
            self.order.append(name)
            self.now.add(name)
            self.together.append(frozenset(self.now))
            self.networks[name] = network
            self.retries += [name] * retry
            if len(self.now) >= self.meet:
                self.met.set()
        self.met.wait(30)
        time.sleep(0.2 if name == self.slow else 0.01)
        with self.lock:
            self.now.discard(name)
            return self.runs[name].pop(0) if self.runs.get(name) else FINE


FINE, BAD = de.Run(de.FINISHED, status=0), de.Run(de.FINISHED, status=1)
LATE, BROKEN = de.Run(de.TIMEOUT, "late"), de.Run(de.ERROR, "engine")
DOUBT = de.Run(de.IN_DOUBT, "no proof")


def run(tests, engine, jobs=1, stop=None):
    rows = rows_of(tests, engine, jobs, stop)
    assert set(rows) == {test.id for test in tests}
    return {test.id: rows[test.id]["status"] for test in tests}


def rows_of(tests, engine, jobs=1, stop=None):
    rubric = de.Rubric("", "", "", tuple(tests), de.unresolvable(tests))
    return de.Runner(rubric, engine.run, stop or de.Stop(), jobs, de.Events()).run()


def test_a_test_runs_after_what_it_requires_and_only_if_that_passed():
    engine = Engine(b=[BAD])
    tests = [make("d", "c"), make("c", "b"), make("b", "a"), make("a"), make("e", "a")]
    assert run(tests, engine) == {"d": "skipped", "c": "skipped", "b": "failed", "a": "passed", "e": "passed"}
    assert engine.order == ["a", "b", "e"]


@pytest.mark.parametrize(
    ("requires", "messages"),
    [
        ({"a": ["nope"]}, {"a": "requires unknown test 'nope'"}),
        ({"a": ["fre"]}, {"a": "requires unknown test 'fre' (did you mean 'free'?)"}),
        ({"a": ["a"]}, {"a": "requires itself"}),
        (
            {"a": ["b"], "b": ["c"], "c": ["a"]},
            {
                "a": "requires itself in a circle: a -> b -> c -> a",
                "b": "requires itself in a circle: b -> c -> a -> b",
                "c": "requires itself in a circle: c -> a -> b -> c",
            },
        ),
        (
            {"a": ["b"], "b": ["a"], "c": ["a"]},
            {
                "a": "requires itself in a circle: a -> b -> a",
                "b": "requires itself in a circle: b -> a -> b",
            },
        ),
    ],
)
def test_unresolvable_tests_are_named(requires, messages):
    tests = [make(name, *names) for name, names in requires.items()] + [make("free")]
    assert de.unresolvable(tests) == messages
    found = run(tests, Engine())
    assert found.pop("free") == "passed"
    assert found == {name: "unresolvable" if name in messages else "skipped" for name in requires}


@given(st.lists(st.lists(st.integers(0, 11), max_size=3), min_size=1, max_size=12))
def test_exactly_the_tests_in_a_circle_are_unresolvable(edges):
    tests = [make(str(at), *(str(to) for to in tos if to < len(edges))) for at, tos in enumerate(edges)]
    assert set(de.unresolvable(tests)) == {test.id for test in tests if reaches_itself(test, tests)}


def reaches_itself(test, tests):
    by_id, seen, waiting = {test.id: test for test in tests}, set(), list(test.requires)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(by_id[name].requires)
    return test.id in seen


@pytest.mark.parametrize("shape", ["chains and diamonds", "one circle"])
def test_thousands_of_tests_are_planned_at_once(shape):
    def needs(i):
        return (
            [(i + 1) % 5000] if shape == "one circle" else [n for n in (i - 1, i - 2, i // 2) if 0 <= n < i]
        )

    tests = [make(str(i), *map(str, needs(i))) for i in range(5000)]
    started = time.process_time()
    assert len(de.unresolvable(tests)) == (5000 if shape == "one circle" else 0)
    assert time.process_time() - started < 10


def test_what_only_looks_overlaps_and_comes_before_commands(monkeypatch):
    monkeypatch.setattr(de, "LOOKS_IN_PARALLEL", 3)
    looks = [make(f"look{i}", looks=True) for i in range(9)]
    engine = Engine(slow="look8", meet=3)
    run([make("command1"), *looks, make("command2")], engine, jobs=2)
    assert max(len(together) for together in engine.together) == 3
    assert set(engine.order[-2:]) == {"command1", "command2"}
    for together in engine.together:
        assert not ({"command1", "command2"} & together and any(name.startswith("look") for name in together))


@pytest.mark.parametrize("first_looks", [True, False], ids=["a look", "a command"])
def test_no_command_overtakes_a_look_whose_requirement_is_about_to_be_known(first_looks):
    tests = [make("first", looks=first_looks), make("command"), make("look", "first", looks=True)]
    engine = Engine()
    run(tests, engine)
    assert engine.order == ["first", "look", "command"]


def test_only_what_looks_has_no_network():
    engine = Engine()
    run([make("look", looks=True), make("command")], engine)
    assert engine.networks == {"look": False, "command": True}


def test_commands_run_one_at_a_time_unless_asked():
    tests = [make(f"c{i}") for i in range(6)]
    serial, parallel = Engine(), Engine(meet=3)
    run(tests, serial)
    run(tests, parallel, jobs=3)
    assert max(map(len, serial.together)) == 1
    assert max(map(len, parallel.together)) == 3


ENDINGS = {  # how a test ends, and once more: its status, and whether it is tried once more
    "late": ([LATE, FINE], "passed", True),
    "stuck": ([LATE, LATE], "timeout", True),
    "doubtful": ([DOUBT, FINE], "passed", True),
    "bad": ([DOUBT, BAD], "failed", True),
    "late the second time": ([DOUBT, LATE], "timeout", True),
    "broken": ([DOUBT, BROKEN], "error", True),
    "fine": ([FINE], "passed", False),
    "wrong": ([BAD], "failed", False),
    "refused": ([BROKEN], "error", False),
}


@pytest.mark.parametrize("looks", [True, False], ids=["looks", "commands"])
def test_what_is_late_beside_others_or_in_doubt_is_run_once_more_alone_after_its_wave(looks):
    engine = Engine(**{name: runs for name, (runs, _, _) in ENDINGS.items()})
    rows = rows_of([make(name, looks=looks) for name in ENDINGS], engine, jobs=4)
    assert {name: (row["status"], row["retried"]) for name, row in rows.items()} == {
        name: (status, retried) for name, (_, status, retried) in ENDINGS.items()
    }
    again = [name for name, (_, _, retried) in ENDINGS.items() if retried]
    assert sorted(engine.retries) == sorted(again)
    assert sorted(engine.order[: len(ENDINGS)]) == sorted(ENDINGS)  # the whole wave comes first
    assert engine.order[len(ENDINGS) :] == engine.retries
    assert engine.together[len(ENDINGS) :] == [frozenset([name]) for name in engine.retries]


def test_what_a_retry_unlocks_comes_after_it():
    engine = Engine(late=[LATE, FINE])
    tests = [make("late"), make("after", "late"), make("other")]
    assert set(run(tests, engine, jobs=2).values()) == {"passed"}
    assert engine.order[-2:] == ["late", "after"]


def test_what_requires_a_retried_test_is_not_itself_retried():
    rows = rows_of([make("a"), make("b", "a")], Engine(a=[DOUBT, BAD]))
    assert [(row["status"], row["retried"]) for row in rows.values()] == [
        ("failed", True),
        ("skipped", False),
    ]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_timeout_of_a_command_that_was_alone_stands(jobs):
    engine = Engine(late=[LATE, FINE])
    assert run([make("late")], engine, jobs) == {"late": "timeout"}
    engine = Engine(late=[LATE, FINE])
    assert run([make("late"), make("other")], engine) == {"late": "timeout", "other": "passed"}


def test_after_two_engine_faults_in_a_row_nothing_is_run_once_more():
    engine = Engine(**{name: [DOUBT, BROKEN] for name in "abc"})
    found = run([make(name) for name in "abc"], engine, jobs=3)
    assert sorted(found.values()) == ["error", "error", "not_run"]
    assert len(engine.order) == 5


def test_two_engine_faults_in_a_row_end_the_evaluation():
    engine = Engine(b=[BROKEN], d=[BROKEN], e=[BROKEN])
    tests = [make(name) for name in "abcdef"] + [make("g", "f")]
    found = run(tests, engine)
    assert list(found.values()) == ["passed", "error", "passed", "error", "error", "not_run", "not_run"]


def test_a_stop_leaves_the_rest_not_run():
    stop = de.Stop()
    engine = Engine()
    engine.runs["b"] = [de.Run(de.NOT_RUN, "interrupted")]
    original = engine.run

    def run_and_stop(script, timeout, **options):
        if script.arguments[0] == "b":
            stop.ask()
        return original(script, timeout, **options)

    engine.run = run_and_stop
    found = run([make("a"), make("b"), make("c", "b"), make("d")], engine, stop=stop)
    assert list(found.values()) == ["passed", "not_run", "not_run", "not_run"]


def test_a_bug_in_a_check_is_not_hidden():
    class Bug(Check):
        def judge(self, run):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run([make("a")._replace(check=Bug("a", False))], Engine())
