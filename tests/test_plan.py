"""Order, overlap and skipping, with a stand-in for the engine that only notes what runs when."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import DockerfileEvaluator as de


class Check(de.Check):
    def __init__(self, name, looks_only):
        self.name, self.looks_only = name, looks_only

    def script(self):
        return de.Script("", (self.name,), looks_only=self.looks_only)

    def judge(self, run):
        return de.Verdict(de.PASSED if run.status == 0 else de.FAILED, f"exit {run.status}")


def make(name, *requires, looks=False, timeout=1.0):
    return de.Test(name, "fake", Check(name, looks), timeout, 1, requires, None)


class Engine:
    """Runs scripts by noting them; `runs` says how each ends, in turn.

    `remove` ends a container, and `slow` names the one check that takes longer than the others.
    """

    def __init__(self, remove=None, slow=None, **runs):
        self.slow = slow
        self.runs = {name: list(endings) for name, endings in runs.items()}
        self.remove = remove or (lambda name: None)
        self.lock = threading.Lock()
        self.order, self.now, self.together = [], set(), []
        self.containers = 0
        self.most_containers = 0

    def run(self, script, timeout, answered):
        name = script.arguments[0]
        with self.lock:
            self.order.append(name)
            self.now.add(name)
            self.together.append(frozenset(self.now))
            self.containers += 1
            self.most_containers = max(self.most_containers, self.containers)
        time.sleep(0.2 if name == self.slow else 0.01)
        with self.lock:
            self.now.discard(name)
            ending = self.runs[name].pop(0) if self.runs.get(name) else FINE
        if ending.ending == de.FINISHED:
            answered()
            self.remove(name)
        with self.lock:
            self.containers -= 1
        return ending


FINE, BAD = de.Run(de.FINISHED, status=0), de.Run(de.FINISHED, status=1)
LATE, BROKEN = de.Run(de.TIMEOUT, "late"), de.Run(de.ERROR, "engine")


def run(tests, engine, jobs=1, stop=None):
    runner = de.Runner(de.plan(tests), engine.run, stop or de.Stop(), jobs, de.Observer())
    results = runner.run()
    assert set(results) == {test.id for test in tests}
    return {test.id: results[test.id].status for test in tests}


def test_a_test_runs_after_what_it_requires_and_only_if_that_passed():
    engine = Engine(b=[BAD])
    tests = [make("d", "c"), make("c", "b"), make("b", "a"), make("a"), make("e", "a")]
    assert run(tests, engine) == {"d": "skipped", "c": "skipped", "b": "failed", "a": "passed", "e": "passed"}
    assert engine.order == ["a", "b", "e"]


@pytest.mark.parametrize(
    ("requires", "messages"),
    [
        ({"a": ["nope"]}, {"a": "requires unknown test 'nope'"}),
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
    assert de.plan(tests).unresolvable == messages
    found = run(tests, Engine())
    assert found.pop("free") == "passed"
    assert found == {name: "unresolvable" if name in messages else "skipped" for name in requires}


@given(st.lists(st.lists(st.integers(0, 11), max_size=3), min_size=1, max_size=12))
def test_every_test_is_planned_once_and_after_its_requirements(edges):
    tests = [make(str(at), *(str(to) for to in tos if to < len(edges))) for at, tos in enumerate(edges)]
    order = [test.id for test in de.plan(tests).order]
    assert sorted(order) == sorted(test.id for test in tests)
    circular = set(de.plan(tests).unresolvable)
    for test in tests:
        for name in test.requires:
            if test.id not in circular and name not in circular and order.index(name) > order.index(test.id):
                assert reaches_a_circle(name, tests, circular)


def reaches_a_circle(name, tests, circular):
    by_id, seen, waiting = {test.id: test for test in tests}, set(), [name]
    while waiting:
        test = by_id[waiting.pop()]
        if test.id in circular:
            return True
        if test.id not in seen:
            seen.add(test.id)
            waiting.extend(test.requires)
    return False


def test_thousands_of_tests_in_chains_and_diamonds_are_planned_at_once():
    tests = [make(str(i), *(str(n) for n in (i - 1, i - 2, i // 2) if 0 <= n < i)) for i in range(5000)]
    started = time.process_time()
    assert len(de.plan(tests).order) == 5000
    assert time.process_time() - started < 10


def test_what_only_looks_overlaps_and_comes_before_commands(monkeypatch):
    monkeypatch.setattr(de, "LOOKS_AT_ONCE", 3)
    looks = [make(f"look{i}", looks=True) for i in range(9)]
    engine = Engine(slow="look8")
    run([make("command1"), *looks, make("command2")], engine, jobs=2)
    assert max(len(together) for together in engine.together) == 3
    assert set(engine.order[-2:]) == {"command1", "command2"}
    for together in engine.together:
        assert not ({"command1", "command2"} & together and any(name.startswith("look") for name in together))


@pytest.mark.parametrize("looks", [True, False], ids=["looks", "commands"])
def test_the_next_check_starts_while_docker_removes_the_container_of_the_last(monkeypatch, looks):
    monkeypatch.setattr(de, "LOOKS_AT_ONCE", 1)

    def remove(name):
        """Take until the next check has begun, which would be for ever if that waited for this."""
        deadline = time.monotonic() + 10
        while name == "a" and "b" not in engine.order:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    engine = Engine(remove)
    assert run([make(name, looks=looks) for name in "abc"], engine) == dict.fromkeys("abc", "passed")
    assert max(map(len, engine.together)) == 1


@pytest.mark.parametrize(("looks_at_once", "jobs"), [(1, 1), (3, 1), (1, 3)])
@pytest.mark.parametrize("looks", [True, False], ids=["looks", "commands"])
def test_containers_do_not_pile_up_where_docker_removes_slowly(monkeypatch, looks, looks_at_once, jobs):
    monkeypatch.setattr(de, "LOOKS_AT_ONCE", looks_at_once)
    engine = Engine(lambda name: time.sleep(0.1))
    run([make(name, looks=looks) for name in "abcdefgh"], engine, jobs=jobs)
    assert engine.most_containers == (looks_at_once if looks else jobs) + 1


@pytest.mark.parametrize("first_looks", [True, False], ids=["a look", "a command"])
def test_no_command_overtakes_a_look_whose_requirement_is_about_to_be_known(first_looks):
    tests = [make("first", looks=first_looks), make("command"), make("look", "first", looks=True)]
    engine = Engine(lambda name: time.sleep(0.1))
    run(tests, engine)
    assert engine.order == ["first", "look", "command"]


def test_commands_run_one_at_a_time_unless_asked():
    tests = [make(f"c{i}") for i in range(6)]
    serial, parallel = Engine(), Engine()
    run(tests, serial)
    run(tests, parallel, jobs=3)
    assert max(map(len, serial.together)) == 1
    assert max(map(len, parallel.together)) == 3


def test_a_timeout_on_a_busy_machine_is_tried_again_alone():
    engine = Engine(late=[LATE, FINE], stuck=[LATE, LATE])
    tests = [make("late"), make("stuck"), make("after", "late"), make("other")]
    assert run(tests, engine, jobs=4) == {
        "late": "passed",
        "stuck": "timeout",
        "after": "passed",
        "other": "passed",
    }
    again = [together for together, name in zip(engine.together, engine.order) if name == "late"][1]
    assert again == {"late"}


def test_a_timeout_of_a_command_that_was_alone_stands():
    engine = Engine(late=[LATE, FINE])
    assert run([make("late")], engine) == {"late": "timeout"}


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

    def run_and_stop(script, timeout, answered):
        if script.arguments[0] == "b":
            stop.ask()
        return original(script, timeout, answered)

    engine.run = run_and_stop
    found = run([make("a"), make("b"), make("c", "b"), make("d")], engine, stop=stop)
    assert list(found.values()) == ["passed", "not_run", "not_run", "not_run"]


def test_a_bug_in_a_check_is_not_hidden():
    class Bug(Check):
        def judge(self, run):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run([make("a")._replace(check=Bug("a", False))], Engine())
