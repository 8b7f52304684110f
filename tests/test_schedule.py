"""Order, parallel runs, requires, skipped and unresolvable tests, --test."""

from __future__ import annotations

import json
import time
from concurrent import futures
from typing import NamedTuple

import pytest
from cases import FALSE, LOOK, TRUE, files_exist, run_command
from conftest import called, messages, statuses
from hypothesis import given, settings
from hypothesis import strategies as st

import DockerfileEvaluator as de


def noted(name, *requires):
    """Return a command that writes its id to a log."""
    return run_command(f"echo {name} >>log", id=name, requires=list(requires))


def look(name, *requires):
    """Return a check, which is no command."""
    return files_exist("/etc/passwd", id=name, requires=list(requires))


def log(fake):
    """Return the words that commands have written to the log."""
    return (fake.root / "log").read_text().split()


# requires


def test_test_runs_after_what_it_requires_and_rows_keep_the_order_of_the_rubric(fake, evaluate):
    tests = [noted("d", "c"), noted("c", "b", "a", "b"), noted("b", "a"), noted("a")]

    report = evaluate(["FROM x"], *tests)

    assert log(fake) == ["a", "b", "c", "d"]
    assert list(statuses(report)) == ["d", "c", "b", "a"]
    assert set(statuses(report).values()) == {"passed"}


def test_test_is_skipped_if_one_that_it_requires_did_not_pass(fake, evaluate):
    failing = {**FALSE, "id": "failing"}
    first, second = noted("first", "failing"), noted("second", "first")
    third, free = noted("third", "free", "failing"), noted("free")

    report = evaluate(["FROM x"], failing, first, second, third, free)

    assert list(statuses(report).values()) == ["failed", "skipped", "skipped", "skipped", "passed"]
    assert messages(report)[1:4] == [
        "requires 'failing', which did not pass",
        "requires 'first', which did not pass",
        "requires 'failing', which did not pass",
    ]
    assert log(fake) == ["free"]


class Graph(NamedTuple):
    """What each test requires, and the reasons of those that can never run."""

    when: str
    requires: dict[str, list[str]]
    reasons: dict[str, str]
    skipped: tuple[str, ...] = ()


GRAPHS = [
    Graph(
        "a required test does not exist",
        requires={"a": ["nope"]},
        reasons={"a": "requires unknown test 'nope' (known: a, free)"},
    ),
    Graph(
        "a required test is written wrongly",
        requires={"a": ["fre"]},
        reasons={"a": "requires unknown test 'fre' (did you mean 'free'?)"},
    ),
    Graph("a test requires itself", requires={"a": ["a"]}, reasons={"a": "requires itself"}),
    Graph(
        "three tests require each other",
        requires={"a": ["b"], "b": ["c"], "c": ["a"]},
        reasons={
            "a": "requires itself through 'b'",
            "b": "requires itself through 'c'",
            "c": "requires itself through 'a'",
        },
    ),
    Graph(
        "a test requires one on a cycle, and is on none",
        requires={"a": ["b"], "b": ["a"], "c": ["a"]},
        reasons={"a": "requires itself through 'b'", "b": "requires itself through 'a'"},
        skipped=("c",),
    ),
]


@pytest.mark.parametrize("row", GRAPHS, ids=lambda row: row.when)
def test_test_that_can_never_run_is_unresolvable(fake, evaluate, row):
    tests = [noted(name, *names) for name, names in row.requires.items()]

    report = evaluate(["FROM x"], *tests, noted("free"))

    expected = {
        **dict.fromkeys(row.reasons, "unresolvable"),
        **dict.fromkeys(row.skipped, "skipped"),
        "free": "passed",
    }
    found = {result["test_id"]: result["message"] for result in report["test_results"]}
    assert statuses(report) == expected
    assert {name: found[name] for name in row.reasons} == row.reasons


def write_graph(file, requires):
    """Write a rubric whose tests require what the dict says."""
    tests = [{**TRUE, "id": name, "requires": names} for name, names in requires.items()]
    file.write_text(json.dumps({"tests": tests}))
    return str(file)


def reaches_itself(start, requires):
    """Return whether a test is on a cycle."""
    seen = set()
    waiting = list(requires[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += requires[name]
    return start in seen


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 11), max_size=3), min_size=1, max_size=12))
def test_exactly_the_tests_on_a_cycle_are_unresolvable(tmp_path_factory, edges):
    requires = {
        str(at): [str(target) for target in targets if target < len(edges)]
        for at, targets in enumerate(edges)
    }

    read = de.load_rubric(write_graph(tmp_path_factory.getbasetemp() / "graph.json", requires))

    assert set(read.unresolvable) == {name for name in requires if reaches_itself(name, requires)}


@pytest.mark.timeout(60)  # seconds: an algorithm that walks each path would not end
def test_rubric_with_many_paths_to_a_test_is_read(tmp_path):
    requires = {
        str(at): [str(target) for target in (at - 1, at - 2, at // 2) if 0 <= target < at]
        for at in range(500)
    }

    read = de.load_rubric(write_graph(tmp_path / "graph.json", requires))

    assert len(read.tests) == 500


# Order and parallel runs


def test_checks_that_are_ready_run_before_the_next_command(fake, evaluate):
    fake.shell('echo "$@" | grep -q passwd && echo look >>log', 'exec /bin/sh "$@"')

    evaluate(["FROM x"], noted("first"), noted("second"), look("third", "first"), look("fourth"))

    assert log(fake) == ["look", "first", "look", "second"]


def meet(count):
    """Return a script that waits until it has run in `count` processes, and logs how many run."""
    return f"""mkdir -p on met; touch on/$$ met/$$
until test $(ls met | wc -l) -ge {count}; do sleep 0.05; done
ls on | wc -l >>log; sleep 0.2"""


class Processors(NamedTuple):
    """How many checks run in parallel with --jobs, on an engine with a number of processors."""

    when: str
    jobs: int
    processors: int
    parallel: int


PROCESSORS = [
    Processors("there are many", jobs=1, processors=8, parallel=4),
    Processors("there are fewer than --jobs", jobs=3, processors=2, parallel=2),
    Processors("there is one", jobs=1, processors=1, parallel=1),
]


@pytest.mark.parametrize("row", PROCESSORS, ids=lambda row: row.when)
def test_checks_run_in_parallel_bounded_by_the_processors_of_the_engine(fake, evaluate, row):
    fake.set(info={"NCPU": row.processors})
    fake.shell(meet(row.parallel), '"/bin/sh" "$@"; code=$?', "rm on/$$; exit $code")

    report = evaluate(["FROM x"], *[LOOK] * 7, jobs=row.jobs)

    assert set(statuses(report).values()) == {"passed"}, "too few run in parallel"
    assert max(map(int, log(fake))) == row.parallel


@pytest.mark.parametrize("jobs", [1, 3])
def test_commands_run_one_at_a_time_unless_jobs_says_otherwise(fake, evaluate, jobs):
    command = run_command(f"{meet(jobs)}; rm on/$$")

    report = evaluate(["FROM x"], *[command] * 5, jobs=jobs)

    assert set(statuses(report).values()) == {"passed"}, "too few run in parallel"
    assert max(map(int, log(fake))) == jobs


# --test


def test_test_option_runs_a_test_and_those_that_it_requires(fake, dockerfile, rubric):
    path = rubric(noted("a"), noted("b", "a"), noted("c", "b"), noted("d"), noted("e", "nobody"))
    words = ["--dockerfile", dockerfile("FROM x"), "--repo", "example", "--rubric", path]

    code, out, _ = called(de.main, *words, "--test", "b", "--test", "d")

    assert code == 0
    assert log(fake) == ["a", "b", "d"]
    assert "3 of 3 tests passed" in out


def error_of_options(dockerfile, rubric, *options):
    """Return what is printed about options that make no sense."""
    files = ["--dockerfile", dockerfile("FROM x"), "--rubric", rubric(noted("a"))]
    code, _, err = called(de.main, *files, "--repo", "example", *options)
    assert code == 2
    return err


def test_test_option_with_an_unknown_test_is_an_error(fake, dockerfile, rubric):
    assert "no test 'unknown'" in error_of_options(dockerfile, rubric, "--test=unknown")
    assert fake.names() == []


@pytest.mark.parametrize(
    "option", ["--output=r.json", "--junit=r.xml", "--markdown=r.md", "--output=r.json --resume"]
)
def test_test_option_excludes_reports(fake, dockerfile, rubric, option):
    assert "--test" in error_of_options(dockerfile, rubric, "--test=a", *option.split())
    assert fake.names() == []


# Many tests


class Immediately(futures.Executor):
    """Runs each call at once, without threads."""

    def __init__(self, limit):
        super().__init__()

    def submit(self, function, *arguments, **more):
        future = futures.Future()
        future.set_result(function(*arguments, **more))
        return future


@pytest.fixture
def runner_of(rubric, monkeypatch):
    """Return a runner of tests without containers; the first has the exit code, all others 0."""

    def make(tests, exit_code=0):
        codes = iter([exit_code])

        def run_container(*_, **__):
            code = next(codes, 0)
            return de.Run(statuses=(code,), exit_code=code)

        monkeypatch.setattr(futures, "ThreadPoolExecutor", Immediately)
        monkeypatch.setattr(de, "run_container", run_container)
        session = de.Session(de.Cli("docker", de.CancelToken()))
        read = de.load_rubric(rubric(*tests))
        return de.TestRunner(read, session, de.Options("x", "r"), de.Console(None))

    return make


def test_scheduling_of_2000_tests_takes_less_than_a_second(runner_of):
    runner = runner_of(
        {**TRUE, "id": f"t{at}", "requires": [f"t{at - 1}"] if at % 4 else []} for at in range(2000)
    )

    started = time.process_time()
    runner.run(jobs=1, parallel_checks=4)
    taken = time.process_time() - started

    assert taken < 1
    assert len(runner.rows) == 2000


def test_failure_skips_a_chain_of_any_length(runner_of):
    chain = (
        {**TRUE, "id": f"t{at}", "requires": [f"t{at - 1}"] if at else []} for at in range(1500)
    )
    runner = runner_of(chain, exit_code=1)

    runner.run(jobs=1, parallel_checks=4)

    assert [row["status"] for row in runner.rows.values()] == ["failed", *["skipped"] * 1499]
