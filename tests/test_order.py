"""The order of the tests (section 3), and what `requires` means for it (section 2)."""

import pytest
from cases import FALSE, LOOK, TRUE, read_tests, run_command, table
from conftest import messages, outcome, statuses

import DockerfileEvaluator as de


def noted(name, *requires):
    """Return a command that writes its id to a log."""
    return run_command(f"echo {name} >>log", id=name, requires=list(requires))


def log(fake):
    """Return the words in the log."""
    return (fake.root / "log").read_text().split()


# requires


def test_test_runs_after_what_it_requires_or_is_skipped_and_rows_keep_the_order(fake, evaluate):
    tests = [noted("e", "free", "bad"), noted("d", "e"), noted("c", "b", "a", "b"), noted("b", "a")]

    report = evaluate(["FROM x"], *tests, noted("a"), noted("free"), {**FALSE, "id": "bad"})

    assert log(fake) == ["a", "b", "c", "free"]
    assert " ".join(statuses(report)) == "e d c b a free bad"
    assert messages(report)[:2] == [
        "requires 'bad', which did not pass",
        "requires 'e', which did not pass",
    ]


# What the tests a, b and c require, and what becomes of them
GRAPHS = """
a required test does not exist -> unresolvable passed passed
    requires: {"a": ["nope"]}
a test requires itself -> unresolvable passed passed
    requires: {"a": ["a"]}
three tests require each other -> unresolvable unresolvable unresolvable
    requires: {"a": ["b"], "b": ["c"], "c": ["a"]}
a test requires one on a cycle -> unresolvable unresolvable skipped
    requires: {"a": ["b"], "b": ["a"], "c": ["a"]}
a test requires one that can never run -> unresolvable skipped passed
    requires: {"a": ["no"], "b": ["a"]}
all require one that comes later and can never run -> skipped skipped unresolvable
    requires: {"a": ["b"], "b": ["c"], "c": ["no"]}
"""


@table(GRAPHS, requires={})
def test_test_that_can_never_run_is_unresolvable_and_a_warning(fake, evaluate, row):
    report = evaluate(["FROM x"], *(noted(name, *row.requires.get(name, ())) for name in "abc"))

    assert " ".join(statuses(report).values()) == row.then
    assert len(report["warnings"]) == row.then.count("unresolvable")


# Order and groups

# The tests of a rubric with what each requires (capitals run commands), and the groups that run
GROUPS = """
a b c d e f -> a, b c d e f
A B -> A, B
A b c D e -> A, b c, D, e
a:c b c d -> b, c, a d
a:B B c -> B, a c
a b:a c:a -> a, b c
a b c:b d:c e -> a, b, c, d e
# Those that can never run are the last ones
a:z b c -> b, c a
a:b b:a c -> c, a, b
"""


@table(GROUPS)
def test_tests_run_in_the_order_of_the_rubric_and_neighbours_without_commands_together(row):
    tests = []
    for word in row.when.split():
        name, *requires = word.split(":")
        tests.append({**(TRUE if name.isupper() else LOOK), "id": name, "requires": requires})

    groups = (" ".join(test.id for test in group) for group in de.in_groups(read_tests(*tests)))

    assert ", ".join(groups) == row.then


@pytest.mark.parametrize("processors", [8, 2, 1])
def test_up_to_four_checks_run_in_parallel_as_the_engine_has_processors(fake, evaluate, processors):
    parallel = min(processors, 4)
    fake.set(info={"NCPU": processors})
    fake.shell(
        # The first test runs alone.
        'mkdir first 2>/dev/null && exec /bin/sh "$@"',
        "mkdir -p on met; touch on/$$ met/$$",
        f"for n in $(seq 99); do test $(ls met | wc -l) -lt {parallel} && sleep 0.05; done",
        "ls on | wc -l >>log; sleep 0.1",
        '"/bin/sh" "$@"; code=$?; rm on/$$; exit $code',
    )

    report = evaluate(["FROM x"], *[LOOK] * (parallel + 2))

    assert outcome(report) == "passed", "too few run in parallel"
    assert max(map(int, log(fake))) == parallel
