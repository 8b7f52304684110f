"""reports/leaderboard.py: statistics, board, reading, text, Markdown, CSV and page."""

from __future__ import annotations

import csv
import functools
import html
import io
import itertools
import json
import math
import operator
import os
import random
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cases import TRUE
from conftest import PROJECT, called, load_program

lb = load_program(PROJECT / "reports" / "leaderboard.py")
TEMPLATE = (PROJECT / "reports" / "page.html").read_text()
README = (PROJECT / "reports" / "README.md").read_text()

run = functools.partial(called, lb.main)  # returns the exit code, stdout and stderr


# Reports. An outcome is how many of ten tests passed, or the kind of the error that ended the
# evaluation. Each test has one point, so 7 is a score of 70 %.


def report(outcome, repo="app", **environment):
    """Return a report on ten tests."""
    kind = outcome if isinstance(outcome, str) else None
    passed = 0 if kind else outcome
    return {
        "repo": repo,
        "dockerfile": "d",
        "rubric": "r",
        "summary": {
            "total_tests": 10,
            "passed_tests": passed,
            "failed_tests": 10 - passed,
            "total_score": passed,
            "max_score": 10,
            "success_rate": passed / 10,
            "total_execution_time": 0.1,
        },
        "test_results": [
            {
                "test_id": f"t{number}",
                "test_type": "run_command",
                "message": f"m{number}",
                "status": "not_run" if kind else "passed" if number < passed else "failed",
                "passed": number < passed,
                "score": int(number < passed),
                "max_score": 1,
                "execution_time": 0.1,
            }
            for number in range(10)
        ],
        "build": {"execution_time": 1.0, "log": ""},
        "error": {"kind": kind, "message": "why"} if kind else None,
        "environment": {
            "evaluator_version": "2.0.0",
            "started_at": "2026-11-22T00",
            **environment,
        },
    }


def write(tmp_path, reports):
    """Write reports by their places below the folder `reports`; return the folder."""
    for place, content in reports.items():
        file = tmp_path / "reports" / f"{place}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(tmp_path / "reports")


def scores(tmp_path, models):
    """Write the outcomes of each model for the repositories r0, r1, …; None is no report."""
    reports = {}
    for model, outcomes in models.items():
        for number, outcome in enumerate(outcomes):
            if outcome is not None:
                reports[f"{model}/r{number}"] = report(outcome, f"r{number}")
    return write(tmp_path, reports)


def board(folder, *, samples=False, missing_zero=False):
    reports, left_out = lb.read_reports([folder], samples=samples)
    return lb.make_board(reports, left_out, missing_zero=missing_zero)


def row_of(made, model):
    """Return the row of a model."""
    return {row.model: row for row in made.rows}[model]


# Statistics


@pytest.mark.long("imports scipy")
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 10, 20, 30, 101, 500])
def test_t_quantile_is_that_of_scipy(count):
    stats = pytest.importorskip("scipy.stats")

    assert lb.t_quantile(count - 1) == pytest.approx(stats.t.ppf(0.975, count - 1), rel=1e-9)


@pytest.mark.long("imports scipy")
@pytest.mark.parametrize("count", [5, 6, 10, 20, 30, 101, 500])
def test_t_interval_is_that_of_scipy(count):
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(count)
    values = [draw.uniform(0.2, 0.8) for _ in range(count)]
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.95)

    low, high = lb.t_interval(values)

    assert low == pytest.approx(max(theirs.low, 0), rel=1e-9)
    assert high == pytest.approx(min(theirs.high, 1), rel=1e-9)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_few_scores_have_no_interval(count):
    draw = random.Random(count)

    assert lb.t_interval([draw.uniform(0.2, 0.8) for _ in range(count)]) is None


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 10, 20, 30, 101, 500])
def test_scores_that_are_equal_but_for_a_rounding_error_have_no_interval(count):
    assert lb.t_interval([0.1 * 3] + [0.3] * count) is None


def random_rows(models, repos):
    draw = random.Random(models)
    return [[draw.random() for _ in range(repos)] for _ in range(models)]


SIZES = [
    pytest.param(2, 6, id="2 models, 6 repositories"),
    pytest.param(8, 12, id="8 models, 12 repositories"),
    pytest.param(20, 20, id="20 models, 20 repositories"),
]


@pytest.mark.long("imports numpy")
@pytest.mark.parametrize(("models", "repos"), SIZES)
def test_critical_difference_is_that_of_numpy(models, repos):
    numpy = pytest.importorskip("numpy")
    generator = numpy.random.default_rng(5)
    rows = random_rows(models, repos)
    residuals = numpy.array(rows) - numpy.mean(rows, axis=1, keepdims=True)
    residuals *= math.sqrt(models * repos / ((models - 1) * (repos - 1)))
    means = numpy.stack([generator.permuted(residuals, axis=0).mean(axis=1) for _ in range(4000)])
    theirs = numpy.quantile(numpy.ptp(means, axis=1), 0.95)

    assert lb.critical_difference(rows) == pytest.approx(theirs, rel=0.05)


@pytest.mark.parametrize(("models", "repos"), SIZES)
def test_critical_difference_does_not_depend_on_the_order_of_models(models, repos):
    rows = random_rows(models, repos)

    assert lb.critical_difference(rows[::-1]) == lb.critical_difference(rows)


def share_of_choices(samples, solved, k, accepts):
    """Return the share of all choices of k samples, of which the first are solved, that counts."""
    choices = list(itertools.combinations(range(samples), k))
    return sum(accepts(sample < solved for sample in choice) for choice in choices) / len(choices)


def solved_and_k(samples):
    return itertools.product(range(samples + 1), range(1, samples + 1))


@pytest.mark.parametrize("samples", [1, 2, 3, 6])
def test_pass_all_counts_choices_that_are_all_solved(samples):
    computed = {pair: lb.pass_all(samples, *pair) for pair in solved_and_k(samples)}
    counted = {pair: share_of_choices(samples, *pair, all) for pair in solved_and_k(samples)}

    assert computed == pytest.approx(counted)


@pytest.mark.parametrize("samples", [1, 2, 3, 6])
def test_pass_at_k_counts_choices_with_a_solved_one(samples):
    computed = {pair: lb.pass_at_least_one(samples, *pair) for pair in solved_and_k(samples)}
    counted = {pair: share_of_choices(samples, *pair, any) for pair in solved_and_k(samples)}

    assert computed == pytest.approx(counted)


@pytest.mark.long("simulates boards")
def test_equal_models_are_rarely_behind():
    """On 12 boards of 20 models that are alike; of 200 such boards, 3 % have one that is behind."""
    alarms = 0
    for draw in map(random.Random, range(12)):
        means = [0.7 + draw.gauss(0, 0.6) for _ in range(20)]
        rows = [[min(max(mean + draw.gauss(0, 0.8), 0), 1) for mean in means] for _ in range(20)]
        totals = [math.fsum(row) / 20 for row in rows]
        alarms += max(totals) - min(totals) > lb.critical_difference(rows)

    assert alarms <= 1


# Board


class Standing(NamedTuple):
    """Outcomes of models, how they stand, and the beginning of what the headline says."""

    when: str
    scores: dict[str, list]
    standings: dict[str, str]
    headline: str
    possibly_the_best: str | None = None


STANDINGS = [
    Standing(
        "a is far better",
        scores={"a": [9, 8, 9, 8, 9, 8], "b": [2, 1, 2, 1, 2, 1]},
        standings={"a": "leads", "b": "behind"},
        headline="a leads, b is next (difference 70.0 points, critical difference ",
    ),
    Standing(
        "two of three are close",
        scores={"a": [9, 8, 9, 8, 9, 8], "b": [8, 9, 8, 9, 8, 7], "c": [1, 2, 1, 2, 1, 2]},
        standings={"a": "not distinguishable", "b": "not distinguishable", "c": "behind"},
        headline="a and b cannot be distinguished (difference 3.3 points",
    ),
    Standing(
        "all three are close",
        scores={"a": [9, 8, 9, 8, 9, 8], "b": [8, 9, 8, 9, 8, 7], "c": [9, 8, 8, 9, 8, 8]},
        standings=dict.fromkeys("abc", "not distinguishable"),
        headline="a, c and b cannot be distinguished (difference 3.3 points",
    ),
    Standing(
        "an incomplete model cannot catch up",
        scores={"a": [9, 8, 9, 8, 9, 8], "b": [2, 1, 2, 1, 2, 1], "c": [1, 1, 1, 1, 1, "engine"]},
        standings={"a": "leads", "b": "behind", "c": "incomplete"},
        headline="a leads, b is next (difference 70.0 points",
    ),
    Standing(
        "an incomplete model is better",
        scores={"a": [9, 8, 9, 8, 9, 8], "b": [2, 1, 2, 1, 2, 1], "c": [9, 9, 9, 9, 9, "engine"]},
        standings={"a": "not distinguishable", "b": "behind", "c": "incomplete"},
        headline="a is the best complete model, b is next (difference 70.0 points",
        possibly_the_best="c",
    ),
    Standing(
        "an incomplete model has no score for a repository in the middle",
        scores={"a": [9, 8, 9, 8, 9, 8], "b": [2, 1, 2, 1, 2, 1], "c": [9, "engine", 9, 9, 9, 9]},
        standings={"a": "not distinguishable", "b": "behind", "c": "incomplete"},
        headline="a is the best complete model, b is next",
        possibly_the_best="c",
    ),
    Standing(
        "all scores are equal",
        scores={"a": [5] * 6, "b": [5] * 6},
        standings=dict.fromkeys("ab", "not distinguishable"),
        headline="a and b cannot be distinguished (difference 0.0 points, critical difference ",
    ),
    Standing(
        "there are five repositories",
        scores={"a": [9, 9, 9, 9, 9], "b": [1, 2, 3, 4, 5]},
        standings=dict.fromkeys("ab", "not tested"),
        headline="not compared: 5 repositories, 6 are needed\n",
    ),
    Standing(
        "there is one repository",
        scores={"a": [9], "b": [1]},
        standings=dict.fromkeys("ab", "not tested"),
        headline="not compared: 1 repository, 6 are needed\n",
    ),
    Standing(
        "there is one model",
        scores={"a": [9, 8, 9, 8, 9, 8]},
        standings={"a": "not tested"},
        headline="not compared: 1 complete model, 2 are needed\n",
    ),
    Standing(
        "there is no score",
        scores={"a": ["engine"] * 6},
        standings={"a": "incomplete"},
        headline="not compared: 0 complete models, 2 are needed\n",
    ),
]


@pytest.mark.parametrize("row", STANDINGS, ids=lambda row: row.when)
def test_model_leads_only_beyond_the_critical_difference(tmp_path, row):
    made = board(scores(tmp_path, row.scores))

    assert {line.model: made.standing(line) for line in made.rows} == row.standings


@pytest.mark.parametrize("row", STANDINGS, ids=lambda row: row.when)
def test_headline_says_who_leads(tmp_path, row):
    out = run(scores(tmp_path, row.scores))[1]

    assert f"\n{row.headline}" in out


@pytest.mark.parametrize("row", STANDINGS, ids=lambda row: row.when)
def test_headline_says_who_is_possibly_the_best(tmp_path, row):
    out = run(scores(tmp_path, row.scores))[1]

    named = re.findall("^incomplete, and possibly the best: (.*)$", out, re.MULTILINE)
    assert named == ([row.possibly_the_best] if row.possibly_the_best else [])


def test_headline_has_the_day_that_is_known(tmp_path):
    known = report(5, "r0", started_at="2026-11-25T10")
    unknown = report(5, "r1", started_at="")

    out = run(write(tmp_path, {"a/0": known, "a/1": unknown}))[1]

    assert out.startswith("models: 1, repositories: 2, reports: 2, 2026-11-25\n")


def test_headline_has_the_first_and_the_last_day(tmp_path):
    first = report(5, "r0", started_at="2026-11-25T10")
    last = report(5, "r1", started_at="2026-11-26")

    out = run(write(tmp_path, {"a/0": first, "a/1": last}))[1]

    assert out.startswith("models: 1, repositories: 2, reports: 2, 2026-11-25 to 2026-11-26\n")


EVERY_OUTCOME = {
    "a": [10, "build", "build_timeout", "engine", "registry", "usage", "interrupted", None],
    "complete": [2] * 8,
}


def test_engine_error_has_no_score_and_failed_build_scores_zero(tmp_path):
    row = row_of(board(scores(tmp_path, EVERY_OUTCOME)), "a")

    assert row.evaluated == 3
    assert row.score == 1 / 3
    assert row.built == 1
    assert row.solved == 1


def test_bounds_are_the_scores_if_all_that_is_missing_scored_0_and_1(tmp_path):
    folder = scores(tmp_path, EVERY_OUTCOME)

    assert row_of(board(folder), "a").bounds == (1 / 8, 6 / 8)
    reasons = "1 engine error, 1 interrupted, 1 no report, 1 regis"
    assert f"12.5% to 75.0% ({reasons}" in run(folder)[1]


def test_bounds_of_a_complete_model_are_its_score(tmp_path):
    row = row_of(board(scores(tmp_path, EVERY_OUTCOME)), "complete")

    assert row.missing == {}
    assert row.score == 0.2
    assert row.bounds == pytest.approx((0.2, 0.2))


def test_cell_says_what_failed_or_is_missing(tmp_path):
    row = row_of(board(scores(tmp_path, EVERY_OUTCOME)), "a")

    assert [lb.cell(row, f"r{number}") for number in range(8)] == [
        "100.0%",
        "0.0% (build failed)",
        "0.0% (build timed out)",
        "- (engine error)",
        "- (registry error)",
        "- (usage error)",
        "- (interrupted)",
        "- (no report)",
    ]


ONE_IS_MISSING = {"a": [10, "build", None], "b": [5, 5, 5]}


def test_repository_without_a_report_has_no_score(tmp_path):
    folder = scores(tmp_path, ONE_IS_MISSING)

    row = row_of(board(folder), "a")

    assert row.score == 1 / 2
    assert row.missing == {"no report": 1}
    assert "0.0% (no report)" not in run(folder)[1]


def test_missing_zero_scores_a_repository_without_a_report_zero(tmp_path):
    folder = scores(tmp_path, ONE_IS_MISSING)

    row = row_of(board(folder, missing_zero=True), "a")

    assert row.score == 1 / 3
    assert row.missing == {}
    assert "0.0% (no report)" in run(folder, "--missing-zero")[1]


# Samples


SAMPLES = {
    "high": {"app": [10, 10, 4], "lib": [6, "build", 3]},
    "low": {"app": [5, 10], "lib": [10, "engine"]},
}


@pytest.fixture
def sampled(tmp_path):
    """Write the outcomes of two models' samples; return the folder.

    Build times in seconds and image sizes in MB are the square of the sample's number: the median
    of 0, 1 and 4 is 1.0, their mean is 1.7.
    """
    reports = {}
    for model, repos in SAMPLES.items():
        for repo, outcomes in repos.items():
            for sample, outcome in enumerate(outcomes):
                content = report(outcome, repo, image_size=10**6 * sample**2)
                content["build"]["execution_time"] = float(sample**2)
                reports[f"{model}/{sample}/{repo}"] = content
    return write(tmp_path, reports)


def test_samples_are_averaged_before_repositories(sampled):
    high = row_of(board(sampled, samples=True), "high")

    assert high.scores == pytest.approx({"app": 0.8, "lib": 0.3})
    assert high.score == pytest.approx(0.55)


def test_repository_is_solved_if_one_of_its_samples_is(sampled):
    assert row_of(board(sampled, samples=True), "high").solved == 1


def test_builds_of_all_samples_are_counted(sampled):
    high = row_of(board(sampled, samples=True), "high")

    assert high.built == 5
    assert high.evaluated == 6


def test_k_is_the_fewest_samples_of_a_model(sampled):
    assert board(sampled, samples=True).k == 2


def test_pass_at_k_and_pass_all_are_averaged_over_repositories(sampled):
    """app has two solved of three: 1 - C(1, 2) / C(3, 2) = 1 and C(2, 2) / C(3, 2) = 1/3; lib 0."""
    high = row_of(board(sampled, samples=True), "high")

    assert high.pass_at_k == pytest.approx(1 / 2)
    assert high.pass_all == pytest.approx(1 / 6)


def test_model_with_fewer_scores_than_k_has_no_pass_at_k(sampled):
    low = row_of(board(sampled, samples=True), "low")  # its lib has one score

    assert low.pass_at_k is None
    assert low.pass_all is None


@pytest.mark.parametrize("words", ["pass@2  pass^2", "30.0% (1 of 3 build failed)"])
def test_samples_are_printed(sampled, words):
    assert words in run(sampled, "--samples")[1]


@pytest.mark.parametrize("median", ["1.0 s", "1.0 MB"])
def test_build_time_and_image_size_are_medians(sampled, median):
    assert median in run(sampled, "--samples")[1]


def test_report_that_is_no_sample_is_left_out(sampled, tmp_path):
    write(tmp_path, {"x": "{}"})

    err = run(sampled, "--samples")[2]

    assert "reports/x.json: not in a folder MODEL/SAMPLE" in err


# Reference, pass rates of tests, comparison of two models


THREE = {"sol": [8, 0, "engine"], "m": [4, 2, 4], "n": [9, "build", 4]}


def test_reference_excludes_tests_that_it_does_not_pass(tmp_path):
    code, out, err = run(scores(tmp_path, THREE), "--reference", "sol")

    assert code == 0
    about_r0, about_r1, about_r2 = err.splitlines()
    assert about_r0 == "r0: excluded 't8', 't9', which sol does not pass"
    assert about_r1.startswith("r1: excluded 't0', 't1', ")
    assert about_r2 == "r2: sol has no score, nothing is excluded"
    assert re.search(r"model +r0 +r2\nn +100\.0% +40\.0%\nm +50\.0% +40\.0%\n", out)


@pytest.mark.parametrize("words", [["--reference", "x"], ["--compare", "n", "x"]], ids=" ".join)
def test_unknown_model_is_a_usage_error(tmp_path, words):
    assert run(scores(tmp_path, THREE), *words)[0] == 2


def test_items_has_the_pass_rate_of_each_test(tmp_path):
    out = run(scores(tmp_path, THREE), "--items")[1]

    items = [line.split() for line in out.splitlines()]
    assert items[2] == ["t0", "3", "of", "3", "100.0%", "all"]
    assert items[6] == ["t4", "2", "of", "3", "66.6%"]
    assert items[11] == ["t9", "0", "of", "3", "0.0%", "none"]


def test_compare_lists_differences_and_tests_that_only_one_passes(tmp_path):
    lines = run(scores(tmp_path, THREE), "--compare", "n", "m")[1].splitlines()

    assert lines[0] == "n minus m: +10.0 points, 95% interval -, 3 repositories, 1 better, 1 worse"
    assert lines[2:4] == ["r0: n 90.0%, m 40.0%", "  only n passes t4; m: failed, m4"]
    assert "r1: n 0.0% (build failed), m 20.0%" in lines


def test_compare_has_the_interval_of_the_difference(tmp_path):
    folder = scores(tmp_path, {"a": [9, 8, 9, 8, 9], "b": [5, 5, 5, 5, 5]})

    out = run(folder, "--compare", "a", "b")[1]

    assert "+36.0 points, 95% interval +29.2 to +42.8, 5 repositories, 5 better, 0 worse" in out


# Conditions


class Condition(NamedTuple):
    """Two values of a field of the environment, and what a row with the other one is marked by."""

    when: str
    field: str
    usual: Any
    other: Any
    mark: str = ""


CONDITIONS = [
    Condition(
        "another storage driver",
        field="storage_driver",
        usual="overlay2",
        other="overlayfs",
        mark="storage driver overlayfs",
    ),
    Condition(
        "another major version of docker",
        field="docker_server",
        usual="20.10.24",
        other="28.5.2",
        mark="docker server 28",
    ),
    Condition(
        "another minor version of docker",
        field="docker_server",
        usual="20.10.24",
        other="20.10.5",
    ),
    Condition(
        "another memory of the engine",
        field="engine_memory",
        usual=2**33,
        other=2**34 + 99,
        mark="engine memory 16 GiB",
    ),
    Condition(
        "an option of the containers",
        field="run_options",
        usual=[],
        other=["--memory=2g"],
        mark='run options ["--memory=2g"]',
    ),
    Condition(
        "another rubric",
        field="rubric_sha256",
        usual="aa",
        other="bb",
        mark="rubric",
    ),
    Condition(
        "an unknown builder",
        field="builder",
        usual="buildkit",
        other=None,
    ),
]


@pytest.mark.parametrize("row", CONDITIONS, ids=lambda row: row.when)
def test_row_with_other_conditions_is_marked(tmp_path, row):
    values = {"a": row.usual, "b": row.usual, "c": row.other}
    reports = {f"{model}/app": report(5, **{row.field: value}) for model, value in values.items()}
    folder = write(tmp_path, reports)

    made = board(folder)

    assert made.marks == ({"c": [row.mark]} if row.mark else {})
    notes = [note.partition(":")[0] for note in made.notes]
    assert notes == (["conditions differ"] if row.mark else [])
    assert row.mark in run(folder)[1]


@pytest.mark.parametrize("row", CONDITIONS, ids=lambda row: row.when)
def test_both_rows_are_marked_if_each_has_half_of_the_scores(tmp_path, row):
    reports = {
        "a/app": report(5, **{row.field: row.usual}),
        "b/app": report(5, **{row.field: row.other}),
        "without a score/app": report("engine"),
    }

    made = board(write(tmp_path, reports))

    assert sorted(made.marks) == (["a", "b"] if row.mark else [])


# Reading


def changed(*path, value):
    """Return a valid report in which a field has another value."""
    content = report(1)
    *parents, key = path
    functools.reduce(operator.getitem, parents, content)[key] = value
    return json.dumps(content)


def without(*path):
    """Return a valid report in which a field is missing."""
    content = report(1)
    *parents, key = path
    del functools.reduce(operator.getitem, parents, content)[key]
    return json.dumps(content)


class Broken(NamedTuple):
    """The content of a file that is no valid report, and the reason that is printed."""

    when: str
    content: str
    reason: str


BROKEN = [
    Broken(
        "it is empty",
        content="",
        reason="not JSON, or incomplete: Expecting value: line 1 column 1",
    ),
    Broken(
        "it ends early",
        content='{"repo": "x", "summ',
        reason="not JSON, or incomplete: Unterminated string",
    ),
    Broken(
        "it is nested too deeply",
        content="[" * 99_999,
        reason="maximum recursion depth exceeded",
    ),
    Broken(
        "it is a list",
        content="[]",
        reason="not a report: environment.evaluator_version is missing",
    ),
    Broken(
        "it is of another version",
        content=changed("environment", "evaluator_version", value="1.2.0"),
        reason="written by version 1.2.0, expected 2.x",
    ),
    Broken(
        "its error is unknown",
        content=changed("error", value={"kind": "sabotage", "message": ""}),
        reason="unknown error.kind 'sabotage'",
    ),
    Broken(
        "a passed test has too many points",
        content=changed("test_results", 0, "score", value=5),
        reason="contradictory: test t0 passed, score 5",
    ),
    Broken(
        "a failed test has points",
        content=changed("test_results", 1, "score", value=1),
        reason="contradictory: test t1 failed, score 1",
    ),
    Broken(
        "a score is no number",
        content=changed("test_results", 1, "score", value=math.nan),
        reason="not a report: score is NaN",
    ),
    Broken(
        "a score is true",
        content=changed("test_results", 0, "max_score", value=True),
        reason="not a report: max_score is true",
    ),
    Broken(
        "two tests have one id",
        content=changed("test_results", 0, "test_id", value="t1"),
        reason="contradictory: a test_id is given twice",
    ),
    Broken(
        "a test has no result",
        content=changed("test_results", 1, "status", value="error"),
        reason="contradictory: tests without a result, but no error",
    ),
    Broken(
        "a number is huge",
        content=changed("summary", "max_score", value=10**400),
        reason="not a report: summary.max_score is 1000",
    ),
    Broken(
        "its sum is wrong",
        content=changed("summary", "total_score", value=2),
        reason="contradictory: max_score is 0, or the scores are not those of",
    ),
    Broken(
        "it has no tests",
        content=changed("test_results", value=[]),
        reason="contradictory: max_score is 0",
    ),
    *(
        Broken(f"{key} is missing", content=without(key), reason=f"not a report: {key} is missing")
        for key in ("repo", "dockerfile", "rubric", "test_results", "error")
    ),
    Broken(
        "its version is missing",
        content=without("environment", "evaluator_version"),
        reason="not a report: environment.evaluator_version is missing",
    ),
    *(
        Broken(
            f"{key} of the summary is missing",
            content=without("summary", key),
            reason=f"not a report: summary.{key} is missing",
        )
        for key in report(1)["summary"]
    ),
    *(
        Broken(
            f"{key} of a test is missing",
            content=without("test_results", 0, key),
            reason=f"not a report: {key} is missing",
        )
        for key in report(1)["test_results"][0]
    ),
]


@pytest.mark.parametrize("row", BROKEN, ids=lambda row: row.when)
def test_broken_report_is_named(tmp_path, row):
    folder = write(tmp_path, {"bad/x": row.content})

    code, out, err = run(folder)

    assert code == 1
    assert out == ""
    first, last = err.splitlines()
    assert first.startswith(f"left out: reports/bad/x.json: {row.reason}")
    assert last == "no valid report"


@pytest.mark.parametrize("row", BROKEN, ids=lambda row: row.when)
def test_broken_report_is_left_out(tmp_path, row):
    folder = write(tmp_path, {"bad/x": row.content, "good/x": report(5)})
    line = f"left out: reports/bad/x.json: {row.reason}"

    code, out, err = run(folder, "--html", tmp_path / "x.html")

    assert code == 0
    assert "models: 1, repositories: 1, reports: 1" in out
    assert err.startswith(line), f"stderr is {err!r}"
    assert html.unescape((tmp_path / "x.html").read_text()).count(line) == 1


def test_folders_name_models(tmp_path):
    folder = write(tmp_path, {"gpt/prompt 1/x": report(5), "x": report(6), ".hidden/x": ""})

    reports, left_out = lb.read_reports([folder])

    assert [made.model for made in reports] == ["gpt/prompt 1", "reports"]
    assert left_out == []


def test_name_before_a_folder_begins_the_names_of_its_models(tmp_path):
    folder = write(tmp_path, {"gpt/prompt 1/x": report(5), "x": report(6)})

    reports, _ = lb.read_reports([f"old={folder}", f"new={folder}/gpt/prompt 1"])

    assert [made.model for made in reports] == ["new/prompt 1", "old/gpt/prompt 1", "old/reports"]


def test_what_is_no_report_is_named(tmp_path):
    folder = write(tmp_path, {"gpt/x": report(5), "x": report(6), "y": report(7)})
    os.mkfifo(f"{folder}/pipe.json")
    Path(folder, "gpt", "\udcff\n\x1b.json").write_bytes(b" " * 20_000_001)

    reports, left_out = lb.read_reports([folder])

    assert [made.place for made in reports] == ["reports/gpt/x.json", "reports/x.json"]
    assert left_out == [
        "reports/gpt/\\udcff\\n\\x1b.json: not a regular file of at most 20 MB",
        "reports/pipe.json: not a regular file of at most 20 MB",
        "reports/y.json: duplicate: reports/x.json counts for app",
    ]


def test_folder_that_does_not_exist_is_a_usage_error(tmp_path):
    assert run(tmp_path / "nowhere")[0] == 2


def test_at_most_20_files_that_are_left_out_are_named(tmp_path):
    folder = write(tmp_path, {"good/x": report(5), **{f"bad/{at}": "{" for at in range(33)}})

    err = run(folder)[2].splitlines()

    assert err[19].startswith("left out: reports/bad/")
    assert err[20:] == ["left out: 13 more files"]


def test_link_to_a_folder_above_makes_no_models(tmp_path):
    folder = write(tmp_path, {"m/x": report(5), "n/x": report(5)})
    os.symlink("..", f"{folder}/m/up")
    os.symlink("../n", f"{folder}/m/side")
    os.symlink("m", f"{folder}/again")

    reports, left_out = lb.read_reports([folder])

    assert [made.model for made in reports] == ["m", "n"]
    assert left_out == []


@pytest.mark.parametrize(
    "depth",
    [
        pytest.param(400, id="400 levels"),
        pytest.param(984, id="984 levels, near the limit of Python 3.7"),
        pytest.param(20_000, id="20,000 levels, which cannot be read"),
    ],
)
def test_deeply_nested_parameters_are_harmless(tmp_path, depth):
    """What cannot be read is left out; what can be read, but not written, is not written."""
    nested = f'{{"a": {"[" * depth}{"]" * depth}}}'
    content = json.dumps(report(5)).replace(
        '"message": "m7"', f'"message": "m7", "params": {nested}'
    )
    folder = write(tmp_path, {"bad/x": content, "good/x": report(6)})

    code, out, _ = run(folder, "--html", tmp_path / "page")

    assert code == 0
    assert "\ngood " in out


# Output


class Written(NamedTuple):
    """All that is written about a board."""

    screen: str  # stdout and stderr
    page: str
    markdown: str
    csv: str


def write_all(folder, tmp_path):
    files = {name: tmp_path / name for name in ("html", "markdown", "csv")}
    code, out, err = run(folder, *(f"--{name}={file}" for name, file in files.items()))
    assert code == 0, err
    with open(str(files["csv"]), newline="") as file:
        lines = file.read()
    return Written(
        screen=out + err,
        page=files["html"].read_text(),
        markdown=files["markdown"].read_text(),
        csv=lines,
    )


EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></pre></details>"
    "&amp;${x}|`x`\x1b[2J\u202e"
)
FORMULAS = [
    "=1+1",
    "@x",
    "+x",
    "-x",
    " =x",
    "|x",
    "a;=x",
    "a; @x",
    "%1+1",
    # full-width
    "\uff1dx",
    "\uff0bx",
    "\uff0dx",
    "\uff20x",
]


def hostile_report(outcome, text):
    """Return a report that has a text in all places where a text can be."""
    content = report(outcome, f"{text}{outcome}", builder=text, run_options=[text], started_at=text)
    content["build"]["log"] = text
    content["test_results"][9].update(
        test_id=text,
        test_type=text,
        message=text,
        params={text: text},
        output=text,
    )
    if content["error"]:
        content["error"]["message"] = text
    return content


@pytest.fixture
def hostile(tmp_path):
    """Return what is written about reports with hostile texts."""
    reports = {
        f"{text.replace('/', '-')}/{outcome}{number}": hostile_report(outcome, text)
        for number, text in enumerate([EVIL, *FORMULAS])
        for outcome in (5, "build")
    }
    return write_all(write(tmp_path, reports), tmp_path)


@pytest.mark.parametrize("place", ["screen", "page", "markdown"])
def test_control_characters_are_escaped(hostile, place):
    assert re.findall("[\x1b\u202e]", getattr(hostile, place)) == []


def test_template_of_the_page_has_no_script_and_loads_nothing():
    active = r"(?i)<script|<link|<iframe|\son\w+=|url\(|https?:"

    assert re.findall(active, TEMPLATE) == []


def test_browser_may_load_nothing_for_the_page(hostile):
    (policy,) = re.findall(r'"Content-Security-Policy" content="([^"]*)"', hostile.page)

    assert policy.split("; ") == ["default-src 'none'", "style-src 'unsafe-inline'"]


def test_hostile_text_is_escaped_on_the_page(hostile):
    own = set(re.findall(r"<(\w+)", TEMPLATE))
    of_tables = {"p", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre"}

    assert set(re.findall(r"<(\w+)", hostile.page)) == own | of_tables
    assert html.unescape(hostile.page).count("<script>alert(1)</script>") > 8


def test_hostile_text_is_escaped_in_markdown(hostile):
    assert not re.search(r"(?<!\\)[<`]", hostile.markdown)


def test_hostile_text_makes_no_column_in_markdown(hostile):
    lines = [line for line in hostile.markdown.splitlines() if line.startswith("| ")]

    repositories = 2 * len([EVIL, *FORMULAS])
    assert {line.count(" | ") for line in lines} == {7, repositories}  # 7 of the board


def test_hostile_text_is_no_formula_in_csv(hostile):
    cells = [value for line in csv.reader(io.StringIO(hostile.csv, newline="")) for value in line]

    formula = re.compile(r"(^|;)\s*[=+\-@|\uff1d\uff0b\uff0d\uff20]")
    assert [value for value in cells if formula.search(value)] == []
    assert "'=1+1" in cells


def test_csv_has_a_line_for_each_test_of_each_report(tmp_path):
    written = write_all(scores(tmp_path, {"a": [9, "engine"], "b": ["build"]}), tmp_path)

    names = ("model", "repo", "outcome", "test", "score")
    lines = [
        ",".join(line[name] for name in names)
        for line in csv.DictReader(io.StringIO(written.csv, newline=""))
    ]
    assert len(lines) == 30
    assert lines[8:10] == ["a,r0,scored,t8,1", "a,r0,scored,t9,0"]
    assert lines[10] == "a,r1,engine error,t0,"
    assert lines[20] == "b,r0,build failed,t0,0"


@pytest.mark.parametrize(
    ("option", "start"),
    [
        pytest.param("--html", "<!doctype html>", id="page"),
        pytest.param("--markdown", "models\\: 1", id="Markdown"),
        pytest.param("--csv", "model,", id="CSV"),
    ],
)
def test_file_on_stdout_moves_the_tables_to_stderr(tmp_path, capfd, option, start):
    code = lb.main([scores(tmp_path, {"a": [9, 8]}), option, "-"])

    out, err = capfd.readouterr()
    assert code == 0
    assert out.startswith(start), f"stdout begins with {out[:80]!r}"
    assert err.startswith("models: 1"), f"stderr begins with {err[:80]!r}"


def test_file_that_cannot_be_written_does_not_prevent_the_others(tmp_path):
    words = ["--html", tmp_path, "--markdown", tmp_path / "markdown"]

    code, out, _ = run(scores(tmp_path, {"a": [9, 8]}), *words)

    assert code == 1
    assert out.startswith("models: 1")
    assert (tmp_path / "markdown").read_text().startswith("models\\: 1")


FOUR = {
    "a": [9, 8, 9, 8, 9, 10, "engine", 8],
    "b": [10, 7, 8, 9, 8, 9, "build", None],
    "c": [1, 2, 1, 2, 1, 2, 1, 2],
    "d": [7, 8, 9, 8, 9, "build", 9, 10],
}


def test_text_markdown_and_page_have_the_same_words(tmp_path):
    folder = scores(tmp_path, FOUR)
    made = board(folder)
    tables = [*lb.board_table(made), *lb.repo_table(made, made.repos)]
    words = [*lb.headline(made), *itertools.chain.from_iterable(tables)]

    written = write_all(folder, tmp_path)

    texts_of_the_page = html.unescape(re.sub("<[^>]*>", "\n", written.page)).splitlines()
    assert [text for text in words if text not in written.screen] == []
    assert [text for text in words if text not in written.markdown.replace("\\", "")] == []
    assert [text for text in words if text not in texts_of_the_page] == []


def test_scores_of_the_page_have_bars_with_the_numbers_of_the_board(tmp_path):
    folder = scores(tmp_path, FOUR)
    made = board(folder)

    page = write_all(folder, tmp_path).page

    bars = []
    for row in made.rows:
        low, high = row.interval
        style = f"--score:{row.score:.2%};--low:{low:.2%};--high:{high:.2%};"
        if row.missing:
            lower, upper = row.bounds
            style += f"--lower:{lower:.2%};--upper:{upper:.2%};"
        bars.append((style, lb.share(row.score)))
    assert re.findall('style="(--score:[^"]*)">(?:</?span[^>]*>)*([^<]*)', page) == bars
    assert f"--near: {made.best - made.critical:.2%}; --best: {made.best:.2%};" in page


def test_details_of_the_page_have_a_limit(tmp_path, monkeypatch):
    made = board(scores(tmp_path, FOUR))
    whole_page = lb.as_page(made)
    cells = 4 * 8

    monkeypatch.setattr(lb, "MAX_CELLS", cells * (lb.CELL_MARKUP + 20))

    assert len(lb.as_page(made)) < len(whole_page) - cells * 50


README_REPOS = ["axios", "bat", "flask", "gin", "jq", "serde"]
README_SCORES = {
    "atlas": [9, 8, 10, 9, 7, 10],
    "birch": [8, 7, 9, 6, 10, 8],
    "cedar": [2, "build", 1, 3, 2, 4],
    "dune": [1, "engine", 4, 1, None, 2],
}


def test_readme_shows_what_is_printed(tmp_path, monkeypatch):
    reports = {
        f"{model}/{repo}": report(
            outcome,
            repo,
            storage_driver="overlayfs" if model == "dune" else "overlay2",
            image_size=240_000_000,
        )
        for model, outcomes in README_SCORES.items()
        for repo, outcome in zip(README_REPOS, outcomes)
        if outcome is not None
    }
    write(tmp_path, reports)
    monkeypatch.chdir(tmp_path)
    ((words, shown),) = re.findall(r"\$ python3 reports/leaderboard.py (.*)\n((?s:.*?))```", README)

    code, out, err = run(*words.split())

    assert code == 0
    assert err + out == shown


def test_readme_names_every_option():
    options = set(re.findall("--[a-z-]{3,}", run("--help")[1])) - {"--help"}

    assert options - set(re.findall("--[a-z-]+", README)) == set()


def test_leaderboard_ends_with_130_after_ctrl_c(monkeypatch):
    def interrupt(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(lb, "run", interrupt)

    assert lb.main(["x"]) == 130


def test_page_has_the_build_log_of_a_failed_build(fake, evaluate, tmp_path):
    report = evaluate(["FROM x", "RUN FAIL"], TRUE)
    report["build"]["log"] = "the reason in the log"
    file, page = tmp_path / "reports" / "model" / "example.json", tmp_path / "page"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(report))

    code = lb.main([str(tmp_path / "reports"), "--html", str(page)])

    assert code == 0
    assert "end of the build log:\nthe reason in the log" in page.read_text()
