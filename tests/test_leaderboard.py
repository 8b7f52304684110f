"""reports/leaderboard.py: statistics, board, reading, text, CSV and page."""

from __future__ import annotations

import csv
import functools
import html
import io
import itertools
import json
import operator
import os
import random
import re
import subprocess
import sys
from datetime import datetime, timezone
from statistics import mean
from typing import NamedTuple

import pytest
from cases import run_command
from conftest import PIPES, PROJECT, called, load_program

import DockerfileEvaluator as de

PROGRAM = PROJECT / "reports" / "leaderboard.py"
lb = load_program(PROGRAM)
run = functools.partial(called, lb.main)  # returns the exit code, stdout and stderr


# Reports. An outcome is how many of ten tests passed, or the kind of the error that ended the
# evaluation. Each test has one point, so 7 is a score of 70 %.

RUBRIC = de.read_rubric(json.dumps({"tests": [run_command("x")] * 10}).encode(), "r")


def report(outcome, repo="app", suspect=None, **environment):
    """Return a report on ten tests, as the evaluator makes it."""
    options = de.Options("d", repo, "r", context=".")
    inputs = de.Inputs(b"", RUBRIC, *["0" * 64] * 3)
    evaluation = de.Evaluation(options, inputs, de.Docker("docker"), de.Console(None))
    if isinstance(outcome, str):
        evaluation.error = de.EvaluationError(outcome, "why", suspect)
        evaluation.build = de.Build(1, log="end of the log")
    else:
        for at, test in enumerate(RUBRIC.tests):
            status = de.PASSED if at < outcome else de.FAILED
            evaluation.tests.results[test.id] = de.Result(status, f"m{at}")
        evaluation.image = {"Id": "1d"}
    content = de.make_report(evaluation)
    content["environment"].update(environment)
    return content


def write(tmp_path, reports):
    """Write reports by their places below the folder `reports`; return the folder."""
    for place, content in reports.items():
        file = tmp_path / "reports" / f"{place}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(tmp_path / "reports")


def write_outcomes(tmp_path, models):
    """Write the outcomes of each model for the repositories r0, r1, …; None is no report."""
    reports = {
        f"{model}/r{at}": report(outcome, f"r{at}")
        for model, outcomes in models.items()
        for at, outcome in enumerate(outcomes)
        if outcome is not None
    }
    return write(tmp_path, reports)


def board(folder):
    return lb.Board(lb.read_reports([folder], has_samples=False)[0])


# Statistics. The numbers were computed with numpy and scipy, from the definitions.


class Interval(NamedTuple):
    values: list[float]
    ends: tuple[float, float] | None


INTERVALS = [
    Interval([0.1, 0.4, 0.5, 0.2, 0.9, 0.6, 0.3], (0.1798, 0.6774)),
    Interval([1, 1, 1, 1, 0.9, 0.2], (0.5132, 1)),
    Interval([0, 0, 0, 0, 0.1, 0.8], (0, 0.4868)),
    Interval([0.1, 0.4, 0.5, 0.2, 0.9], None),
    Interval([1] * 10, None),
]


@pytest.mark.parametrize("row", INTERVALS, ids=str)
def test_interval_of_a_mean(row):
    assert lb.mean_interval(row.values) == (row.ends and pytest.approx(row.ends, abs=1e-4))


def test_critical_difference_of_three_models():
    rows = [[0.9, 0.8, 0.7, 0.9, 1, 0.6], [0.5, 0.6, 0.2, 0.4, 0.9, 0.3]]
    rows.append([0.1, 0.3, 0.4, 0.2, 0.5, 0.0])

    assert lb.critical_difference(rows) == pytest.approx(0.22231, abs=1e-4)


@pytest.mark.parametrize(
    ("k", "solved", "all_are", "one_is"),
    [(1, 1, 1 / 4, 1 / 4), (2, 1, 0, 1 / 2), (2, 3, 1 / 2, 1), (3, 4, 1, 1), (2, 0, 0, 0)],
)
def test_probability_that_all_or_one_of_k_among_four_samples_is_solved(k, solved, all_are, one_is):
    assert (lb.all_of(k, solved, 4), lb.any_of(k, solved, 4)) == (all_are, one_is)


@pytest.mark.long("imports scipy")
@pytest.mark.parametrize("repos", [6, 12, 42, 500])
def test_interval_and_critical_difference_are_those_of_scipy(repos):
    stats = pytest.importorskip("scipy.stats")
    rows = [[random.Random(f"{model} {at}").random() for at in range(repos)] for model in "ab"]

    low, high = stats.ttest_rel(*rows).confidence_interval(0.95)

    interval = lb.mean_interval(list(map(operator.sub, *rows)), lowest=-1.0)
    assert interval == pytest.approx((low, high), rel=1e-3)
    assert lb.critical_difference(rows) == pytest.approx((high - low) / 2, rel=1e-3)


@pytest.mark.long("simulates boards")
@pytest.mark.parametrize(("models", "repos"), [(2, 6), (5, 12), (20, 20)])
def test_equal_models_are_rarely_behind(models, repos):
    alarms = 0
    for draw in map(random.Random, range(200)):
        rows = [[draw.random() for _ in range(repos)] for _ in range(models)]
        means = list(map(mean, rows))
        alarms += max(means) - min(means) > lb.critical_difference(rows)

    assert alarms <= 0.06 * 200


# Board

BEST, CLOSE, BEHIND = "best", "may be the best", "behind"
GOOD, BAD = [9, 8, 9, 8, 9, 8], [2, 1, 2, 1, 2, 1]


class Standings(NamedTuple):
    """Outcomes of models, and how they stand."""

    when: str
    outcomes: dict[str, list]
    standings: dict[str, str]


STANDINGS = [
    Standings(
        "one is far better",
        outcomes={"a": GOOD, "b": BAD},
        standings={"a": BEST, "b": BEHIND},
    ),
    Standings(
        "two are close",
        outcomes={"a": GOOD, "b": [8, 9, 8, 9, 8, 7], "c": BAD},
        standings={"a": CLOSE, "b": CLOSE, "c": BEHIND},
    ),
    Standings(
        "an incomplete one cannot catch up",
        outcomes={"a": GOOD, "b": BAD, "c": [1, 1, 1, 1, 1, "engine"]},
        standings={"a": BEST, "b": BEHIND, "c": "incomplete"},
    ),
    Standings(
        "an incomplete one is better whatever is missing",
        outcomes={"a": [2, 1, 2, 1, 2, 2], "b": BAD, "c": [10, 10, 10, 10, 10, "engine"]},
        standings={"c": "incomplete", "a": BEHIND, "b": BEHIND},
    ),
    Standings(
        "an incomplete one may be better",
        outcomes={"a": GOOD, "b": BAD, "c": [9, "engine", 9, 9, 9, 9]},
        standings={"a": CLOSE, "c": "incomplete", "b": BEHIND},
    ),
]


@pytest.mark.parametrize("row", STANDINGS, ids=lambda row: row.when)
def test_model_is_the_best_only_beyond_the_critical_difference(tmp_path, row):
    made = board(write_outcomes(tmp_path, row.outcomes))

    found = [(line.model, line.standing.partition(":")[0]) for line in made.rows]
    assert found == list(row.standings.items())


def test_headline_has_the_gap_and_rows_have_intervals_unless_something_is_missing(tmp_path):
    outcomes = {"a": [9, 8, 9, 8, 9, 7], "b": [8, 9, 8, 9, 8, 7], "c": [1, 1, 1, 1, 2, "engine"]}

    made = board(write_outcomes(tmp_path, outcomes))

    gap = (
        f"{100 * lb.critical_difference([list(row.scores.values()) for row in made.rows[:2]]):.1f}"
    )
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    assert made.headline == [
        f"models: 3, repositories: 6, reports: 18, the last of {today}",
        f"2 models may be the best: a gap of less than {gap} percentage points may be chance",
    ]
    assert [bool(row.interval) for row in made.rows] == [True, True, False]


def test_board_without_a_comparison_has_no_gap(tmp_path):
    made = board(write_outcomes(tmp_path, {"a": [10, 3], "b": [5, 5]}))

    assert (made.best, made.critical) == (0.65, 0)
    assert made.rows[0].tries == [(1, 1), (0, 1)]


EVERY_OUTCOME = [10, "build", "build_timeout", "engine", "registry", "interrupted", None, "usage"]


def test_failed_build_scores_zero_and_other_errors_nothing(tmp_path):
    """The bounds are the scores if all that is missing scored 0, and if it scored 1."""
    folder = write_outcomes(tmp_path, {"a": EVERY_OUTCOME[:-1], "b": [0] * 7})

    row = board(folder).rows[0]

    assert row.score == 1 / 3
    assert list(row.scores.values()) == [1, 0, 0]
    assert row.bounds == pytest.approx((1 / 7, 5 / 7))


def test_usage_error_has_no_score(tmp_path):
    out = run(write_outcomes(tmp_path, {"a": EVERY_OUTCOME}))[1]

    assert "- (usage error)" in out


def test_rubrics_that_differ_are_noted(tmp_path):
    reports = {f"{model}/app": report(5, rubric_sha256=model * 64) for model in "ab"}

    assert "conditions differ: " in run(write(tmp_path, reports))[2]


# Suspicious zeros


def test_suspicious_zeros_are_noted_marked_and_explained(tmp_path):
    reports = {"m/a": report("build", "a", "network"), "m/b": report("build", "b")}

    page, err = run(write(tmp_path, reports), "--html", "-")[1:]

    assert re.findall("suspicious.*network.*", err)
    assert len(re.findall('<td class="[^"]*suspect', page)) == 1
    assert len(re.findall("<pre>[^<]*network", page)) == 1


# Reading


NONSENSE = [
    "null",
    "[]",
    "{}",
    '"x"',
    "-1",
    "1e999",
    "NaN",
    "true",
    "9" * 400,
    "[" * 99_999,
    '{"a": [[{}]]}',
]


def test_file_that_is_no_report_is_left_out_without_a_traceback(tmp_path):
    """Each value of a report is replaced by nonsense; what cannot be read is named."""
    whole = report(5)
    text = json.dumps({**whole, "test_results": whole["test_results"][:1]})
    reports = {"good/app": text}
    for key in re.finditer('": ', text):
        _, end = json.JSONDecoder().raw_decode(text, key.end())
        for at, nonsense in enumerate(NONSENSE):
            broken = f"{text[: key.end()]}{nonsense}{text[end:]}"
            reports[f"{key.start()}-{at}/app"] = broken

    files = ["--html", tmp_path / "page", "--csv", tmp_path / "table"]
    code, out, err = run(write(tmp_path, reports), *files)

    assert code == 0
    assert "\ngood " in out
    assert err.count("left out: ") > 99


def test_pipe_is_no_report_and_blocks_nothing(tmp_path):
    folder = write(tmp_path, {"m/x": report(5)})
    os.mkfifo(f"{folder}/m/pipe.json")

    done = subprocess.run([sys.executable, str(PROGRAM), folder], timeout=10, **PIPES)

    assert b"left out: reports/m/pipe.json" in done.stderr
    assert done.returncode == 0


def test_circular_links_make_no_models(tmp_path):
    folder = write(tmp_path, {"m/x": report(5), "n/x": report(5)})
    os.symlink("..", f"{folder}/m/up")

    assert [row.model for row in board(folder).rows] == ["m", "n"]


def test_report_of_version_2_is_left_out_with_an_advice(tmp_path):
    old = report(5, evaluator_version="2.1.0")

    err = run(write(tmp_path, {"m/x": old, "n/x": report(5)}))[2]

    assert "left out: reports/m/x.json" in err
    assert "evaluate again" in err


# Output

EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></pre></details>"
    "&amp;${x}|`x`\x1b[2J\u202e"
)
# The last ones are full-width.
FORMULAS = ["=1+1", "@x", "+x", "-x", " =x", "|x", "a;=x", "a; @x", "%1+1", "\uff1dx", "\uff20x"]


def write_hostile(tmp_path):
    """Write reports that have hostile texts in all places; return the folder."""
    keys = "repo|test_id|message|category|output|log|builder|started_at"
    reports = {}
    for outcome, (at, text) in itertools.product((5, "build"), enumerate([EVIL, *FORMULAS])):
        escaped = json.dumps(text).replace("\\", r"\\")
        content = json.dumps(report(outcome))
        content = re.sub(f'"({keys})": ("[^"]*"|null)', rf'"\1": {escaped}', content)
        reports[f"{text.replace('/', '-')}{at}{outcome}/app"] = content
    return write(tmp_path, reports)


@pytest.fixture
def hostile(tmp_path):
    """Return what is on the screen, on the page and in the CSV file of hostile reports."""
    page, table = tmp_path / "page", tmp_path / "table"
    _, out, err = run(write_hostile(tmp_path), "--html", page, "--csv", table)
    return out + err, page.read_text(), table.read_text()


def test_control_characters_are_escaped(hostile):
    assert [re.findall("[\x1b\u202e]", text) for text in hostile] == [[], [], []]


def test_hostile_text_is_escaped_on_the_page_which_loads_nothing(hostile):
    page = hostile[1]

    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert f'"Content-Security-Policy" content="{policy}"' in page
    assert re.findall(r"(?i)<script|<link|<iframe|<img|<[^>]*\son\w+=|url\(", page) == []
    assert html.unescape(page).count("<script>alert(1)</script>") > 8


def test_hostile_text_is_no_formula_in_csv(hostile):
    cells = itertools.chain(*csv.reader(io.StringIO(hostile[2])))

    formula = re.compile("(^|;)\\s*[=+\\-@|%\uff1d\uff20]")
    assert [cell for cell in cells if formula.search(cell)] == []


FOUR = {
    "a": [9, 8, 9, 8, 9, 10, "engine", 8],
    "b": [10, 7, 8, 9, 8, 9, "build", None],
    "c": [1, 2, 1, 2, 1, 2, 1, 2],
    "d": [7, 8, 9, 8, 9, "build", 9, 10],
}


def test_page_has_the_words_of_the_text_and_the_end_of_the_log(tmp_path):
    folder = write_outcomes(tmp_path, FOUR)
    made = board(folder)

    page = html.unescape(run(folder, "--html", "-")[1])

    words = [*made.headline, *itertools.chain(*lb.board_table(made), *lb.repo_table(made))]
    assert [word for word in [*words, "  | end of the log"] if word not in page] == []


@pytest.mark.parametrize("text", ["ordinary ", '<"&">', "成功"])
def test_page_of_10000_reports_is_smaller_than_4_megabytes(text):
    names = [[f"{name}{at}" for at in range(count)] for name, count in (("m", 20), ("r", 500))]
    keys = itertools.product(names[0], [""], names[1])
    reports = {key: lb.Report(*key, "", score=0.5, details=text * 500) for key in keys}

    page = lb.as_page(lb.Board(reports), [])

    assert len(page.encode()) < 4_000_000
