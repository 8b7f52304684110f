"""Order, parallel runs, requires, skipped and unresolvable tests, --test."""

from __future__ import annotations

import json
import time

import pytest
from cases import FALSE, LOOK, TRUE, files_exist, run_command
from conftest import called, messages, statuses
from hypothesis import given, settings
from hypothesis import strategies as st

import DockerfileEvaluator as de


def noted(name, *requires, **more):
    """Return a command that writes its id to a log."""
    return run_command(f"echo {name} >>log", id=name, requires=list(requires), **more)


def look(name, *requires):
    return files_exist("/etc/passwd", id=name, requires=list(requires))


def order(fake):
    return (fake.root / "log").read_text().split()


# requires


def test_test_runs_after_what_it_requires_and_rows_keep_the_order_of_the_rubric(fake, evaluate):
    tests = [noted("d", "c"), noted("c", "b", "a", "b"), noted("b", "a"), noted("a")]
    assert list(statuses(evaluate(["FROM x"], *tests)).items()) == [
        (name, "passed") for name in "dcba"
    ]
    assert order(fake) == ["a", "b", "c", "d"]


def test_test_is_skipped_if_one_that_it_requires_did_not_pass(fake, evaluate):
    tests = [
        {**FALSE, "id": "a"},
        noted("b", "a"),
        noted("c", "b"),
        noted("d", "e", "a"),
        noted("e"),
    ]
    report = evaluate(["FROM x"], *tests)
    assert list(statuses(report).values()) == ["failed", "skipped", "skipped", "skipped", "passed"]
    assert messages(report)[1:4] == [f"requires '{name}', which did not pass" for name in "aba"]
    assert order(fake) == ["e"]


UNRESOLVABLE = [
    ({"a": ["nope"]}, {"a": "requires unknown test 'nope'"}),
    ({"a": ["fre"]}, {"a": "requires unknown test 'fre' (did you mean 'free'?)"}),
    ({"a": ["a"]}, {"a": "requires itself"}),
    ({"a": ["b"], "b": ["c"], "c": ["a"]}, {"a": "requires itself through 'b'", "b": "requires itself through 'c'", "c": "requires itself through 'a'"}),
    ({"a": ["b"], "b": ["a"], "c": ["a"]}, {"a": "requires itself through 'b'", "b": "requires itself through 'a'"}),
]  # fmt: skip


@pytest.mark.parametrize(("requires", "unresolvable"), UNRESOLVABLE)
def test_test_that_can_never_run_is_unresolvable(fake, evaluate, requires, unresolvable):
    tests = [noted(name, *names) for name, names in requires.items()]
    report = evaluate(["FROM x"], *tests, noted("free"))
    found = statuses(report)
    assert found.pop("free") == "passed"
    assert found == {
        name: "unresolvable" if name in unresolvable else "skipped" for name in requires
    }
    rows = {row["test_id"]: row["message"] for row in report["test_results"]}
    assert all(rows[name].startswith(text) for name, text in unresolvable.items())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 11), max_size=3), min_size=1, max_size=12))
def test_exactly_the_tests_on_a_cycle_are_unresolvable(tmp_path_factory, edges):
    names = {str(at): [str(to) for to in tos if to < len(edges)] for at, tos in enumerate(edges)}
    file = tmp_path_factory.getbasetemp() / "graph.json"
    file.write_text(
        json.dumps({"tests": [{**TRUE, "id": name, "requires": names[name]} for name in names]})
    )

    def reaches_itself(start):
        seen, waiting = set(), list(names[start])
        while waiting:
            name = waiting.pop()
            waiting += names[name] if name not in seen else []
            seen.add(name)
        return start in seen

    assert set(de.load_rubric(str(file)).unresolvable) == set(filter(reaches_itself, names))


def test_many_paths_to_a_test_take_no_time(tmp_path):
    """An algorithm that walks each path would not end."""
    requires = [[str(n) for n in (at - 1, at - 2, at // 2) if 0 <= n < at] for at in range(500)]
    tests = [{**TRUE, "id": str(at), "requires": names} for at, names in enumerate(requires)]
    (tmp_path / "r.json").write_text(json.dumps({"tests": tests}))
    assert len(de.load_rubric(str(tmp_path / "r.json")).tests) == 500


# Order and parallel runs


def test_checks_that_are_ready_run_before_the_next_command(fake, evaluate):
    fake.shell('echo "$@" | grep -q passwd && echo look >>log', 'exec /bin/sh "$@"')
    tests = [noted("first"), noted("second"), look("third", "first"), look("fourth")]
    evaluate(["FROM x"], *tests)
    assert order(fake) == ["look", "first", "look", "second"]


# Each waits until as many others have started, and notes how many run.
MEETS = """mkdir -p on met; touch on/$$ met/$$
until test $(ls met | wc -l) -ge {}; do sleep 0.05; done
ls on | wc -l >>log; sleep 0.2"""


@pytest.mark.parametrize(("jobs", "cpus", "parallel"), [(1, 8, 4), (3, 2, 2), (1, 1, 1)])
def test_checks_run_in_parallel_bounded_by_the_processors_of_the_engine(
    fake, evaluate, jobs, cpus, parallel
):
    fake.set(info={"NCPU": cpus})
    fake.shell(MEETS.format(parallel), '"/bin/sh" "$@"; code=$?', "rm on/$$; exit $code")
    assert set(statuses(evaluate(["FROM x"], *[LOOK] * parallel, jobs=jobs)).values()) == {"passed"}
    fake.shell(MEETS.format(1), '"/bin/sh" "$@"; code=$?', "rm on/$$; exit $code")
    evaluate(["FROM x"], *[LOOK] * 7, jobs=jobs)
    assert max(map(int, order(fake))) == parallel


@pytest.mark.parametrize("jobs", [1, 3])
def test_commands_run_one_at_a_time_unless_jobs_says_otherwise(fake, evaluate, jobs):
    meeting, alone = (run_command(f"{MEETS.format(count)}; rm on/$$") for count in (jobs, 1))
    assert set(statuses(evaluate(["FROM x"], *[meeting] * jobs, jobs=jobs)).values()) == {"passed"}
    evaluate(["FROM x"], *[alone] * 5, jobs=jobs)
    assert max(map(int, order(fake))) == jobs


# --test


def test_test_option_runs_a_test_and_those_that_it_requires(fake, dockerfile, rubric):
    path = rubric(noted("a"), noted("b", "a"), noted("c", "b"), noted("d"), noted("e", "nobody"))
    words = ["--dockerfile", dockerfile("FROM x"), "--repo", "example", "--rubric", path]
    code, out, _ = called(de.main, *words, "--test", "b", "--test", "d")
    assert code == 0
    assert order(fake) == ["a", "b", "d"]
    assert "3 of 3 tests passed" in out


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (["--test=unknown"], "no test 'unknown'"),
        (["--test=a", "--output=r.json"], "--test"),
        (["--test=a", "--junit=r.xml"], "--test"),
        (["--test=a", "--markdown=r.md"], "--test"),
        (["--test=a", "--output=r.json", "--resume"], "--test"),
    ],
)
def test_test_option_excludes_reports(fake, dockerfile, rubric, more, error):
    words = [
        "--dockerfile",
        dockerfile("FROM x"),
        "--repo",
        "example",
        "--rubric",
        rubric(noted("a")),
    ]
    code, _, err = called(de.main, *words, *more)
    assert code == 2
    assert error in err
    assert fake.names() == []


class Instant(de.TestRunner):
    """Runs no containers: each test passes immediately."""

    def _run_wave(self, wave, limit, *, retry=False):
        for test in wave:
            self._finish(test, de.Result(de.PASSED, "passed"))
        return []


def test_scheduling_of_2000_tests_takes_less_than_a_second(rubric):
    chain = [
        {**TRUE, "id": f"t{at}", "requires": [f"t{at - 1}"] if at % 4 else []} for at in range(2000)
    ]
    read = de.load_rubric(rubric(*chain))
    session = de.Session(de.Cli("docker", de.CancelToken()))
    runner = Instant(read, session, de.Options("x", "r"), de.Console(None))
    started = time.process_time()
    runner.run(1, 4)
    assert time.process_time() - started < 1
    assert len(runner.rows) == 2000


def test_failure_skips_a_chain_of_any_length(rubric):
    chain = [
        {**TRUE, "id": f"t{at}", "requires": [f"t{at - 1}"] if at else []} for at in range(1500)
    ]
    read = de.load_rubric(rubric(*chain))
    session = de.Session(de.Cli("docker", de.CancelToken()))
    runner = Instant(read, session, de.Options("x", "r"), de.Console(None))
    runner._run_wave = lambda wave, *_: runner._finish(wave[0], de.Result(de.FAILED, "why")) or []
    runner.run(1, 4)
    statuses = [row["status"] for row in runner.rows.values()]
    assert statuses == ["failed", *["skipped"] * 1499]
