"""The order of the tests (section 3), and what `requires` means for it (section 2)."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from cases import FALSE, LOOK, TRUE, files_exist, run_command
from conftest import called, messages, statuses

import DockerfileEvaluator as de


def noted(name, *requires):
    """Return a command that writes its id to a log."""
    return run_command(f"echo {name} >>log", id=name, requires=list(requires))


def look(name, *requires):
    """Return a check, which is no command."""
    return files_exist("/etc/passwd", id=name, requires=list(requires))


def log(fake):
    """Return the words in the log."""
    return (fake.root / "log").read_text().split()


# requires


def test_test_runs_after_what_it_requires_and_rows_keep_the_order_of_the_rubric(fake, evaluate):
    tests = [noted("d", "c"), noted("c", "b", "a", "b"), noted("b", "a"), noted("a")]

    report = evaluate(["FROM x"], *tests)

    assert log(fake) == ["a", "b", "c", "d"]
    assert list(statuses(report)) == ["d", "c", "b", "a"]


FALSE_FIRST = {**FALSE, "id": "first"}


def test_test_is_skipped_if_one_that_it_requires_did_not_pass(fake, evaluate):
    failing = {**FALSE, "id": "failing"}
    first, second = noted("first", "failing"), noted("second", "first")
    third, free = noted("third", "free", "failing"), noted("free")

    report = evaluate(["FROM x"], failing, first, second, third, free)

    assert list(statuses(report).values()) == ["failed", "skipped", "skipped", "skipped", "passed"]
    assert log(fake) == ["free"]
    for message, name in zip(messages(report)[1:], ("failing", "first", "failing")):
        assert f"'{name}'" in message


def test_test_is_skipped_wherever_it_stands_in_the_rubric(fake, evaluate):
    report = evaluate(["FROM x"], noted("last", "middle"), noted("middle", "first"), FALSE_FIRST)

    assert list(statuses(report).values()) == ["skipped", "skipped", "failed"]
    assert not (fake.root / "log").exists()


class Graph(NamedTuple):
    """What tests require, and those that can never run; all others require one of these."""

    when: str
    requires: dict[str, list[str]]
    unresolvable: list[str]


GRAPHS = [
    Graph("a required test does not exist", requires={"a": ["nope"]}, unresolvable=["a"]),
    Graph("a test requires itself", requires={"a": ["a"]}, unresolvable=["a"]),
    Graph(
        "three tests require each other",
        requires={"a": ["b"], "b": ["c"], "c": ["a"]},
        unresolvable=["a", "b", "c"],
    ),
    Graph(
        "a test requires one on a circle, and is on none",
        requires={"c": ["a"], "a": ["b"], "b": ["a"]},
        unresolvable=["a", "b"],
    ),
    Graph(
        "a test requires one that requires an unknown test",
        requires={"b": ["a"], "a": ["nope"]},
        unresolvable=["a"],
    ),
]


@pytest.mark.parametrize("row", GRAPHS, ids=lambda row: row.when)
def test_test_that_can_never_run_is_unresolvable_and_a_warning(fake, evaluate, row):
    tests = [noted(name, *names) for name, names in row.requires.items()]

    report = evaluate(["FROM x"], *tests, noted("free"))

    assert statuses(report) == {
        **dict.fromkeys(row.requires, "skipped"),
        **dict.fromkeys(row.unresolvable, "unresolvable"),
        "free": "passed",
    }
    named = [name for name in row.requires if any(f"'{name}' can" in w for w in report["warnings"])]
    assert sorted(named) == row.unresolvable
    assert report["summary"]["failed_tests"] == len(row.requires)


def test_test_option_runs_a_test_and_those_that_it_requires(fake, dockerfile, rubric):
    path = rubric(noted("a"), noted("b", "a"), noted("c", "b"), noted("d"), noted("e", "nobody"))
    words = ["--dockerfile", dockerfile("FROM x"), "--repo", "example", "--rubric", path]

    code, _, _ = called(de.main, *words, "--test", "b", "--test", "d")

    assert code == 0
    assert log(fake) == ["a", "b", "d"]


# Order and parallel runs


def test_checks_that_are_ready_run_before_the_next_command(fake, evaluate):
    fake.shell('echo "$@" | grep -q passwd && echo look >>log', 'exec /bin/sh "$@"')

    evaluate(["FROM x"], noted("first"), noted("second"), look("third", "first"), look("fourth"))

    assert log(fake) == ["look", "first", "look", "second"]


class Processors(NamedTuple):
    """How many checks run in parallel on an engine with a number of processors."""

    processors: int
    parallel: int


PROCESSORS = [Processors(8, parallel=4), Processors(2, parallel=2), Processors(1, parallel=1)]


@pytest.mark.parametrize("row", PROCESSORS, ids=str)
def test_up_to_four_checks_run_in_parallel_as_the_engine_has_processors(fake, evaluate, row):
    fake.set(info={"NCPU": row.processors})
    wait = f"until test $(ls met | wc -l) -ge {row.parallel}; do sleep 0.05; done"
    count = "ls on | wc -l >>log; sleep 0.2"
    run = '"/bin/sh" "$@"; code=$?; rm on/$$; exit $code'
    fake.shell("mkdir -p on met; touch on/$$ met/$$", wait, count, run)

    report = evaluate(["FROM x"], *[LOOK] * 7)

    assert set(statuses(report).values()) == {"passed"}, "too few run in parallel"
    assert max(map(int, log(fake))) == row.parallel


def test_commands_run_one_at_a_time_and_alone(fake, evaluate):
    """The folder exists while a command runs: nothing else may find it."""
    fake.shell(
        'case "$*" in *passwd*) test ! -e running || exit 1; esac',
        'exec /bin/sh "$@"',
    )
    command = run_command("mkdir running && sleep 0.1 && rmdir running")

    report = evaluate(["FROM x"], {**command, "id": "a"}, command, look("b", "a"), command, LOOK)

    assert set(statuses(report).values()) == {"passed"}


def test_results_are_shown_in_the_order_of_the_rubric(fake, arguments):
    """The first check waits for the end of the second."""
    wait = "until test -e second; do sleep 0.02; done"
    fake.shell(
        f'case "$*" in *first*) {wait};; esac',
        'case "$*" in *second*) touch second; esac',
        'exec "/bin/sh" "$@"',
    )
    tests = [
        files_exist("first", id="1st"),
        {**TRUE, "id": "command"},
        files_exist("second", id="2nd"),
    ]

    _, out, _ = called(de.main, *arguments(["FROM x"], *tests))

    shown = [line.split()[1] for line in out.splitlines() if line.startswith(("passed", "failed"))]
    assert shown == ["1st", "2nd", "command"]
