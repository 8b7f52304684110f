"""The leaderboard's numbers: by hand, by scipy, and by a second computation on a hundred random boards."""

from __future__ import annotations

import collections
import csv
import glob
import itertools
import json
import math
import random
import time

import pytest
from boards import Folder, board, chance, chosen, leaderboard


@pytest.fixture
def every_written_report_is_as_its_schema_says():
    """What is written here is what the leaderboard reads of a report, and no more."""


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


# By hand


def test_a_mean_leaves_out_what_is_none():
    assert chance.mean([]) is None
    assert chance.mean([None]) is None
    assert chance.mean([0.5, None, 0.25, 0]) == 0.25
    assert chance.mean([0.1] * 10) == 0.1  # a plain sum is 0.9999999999999999


def test_there_is_no_interval_under_five_values_nor_without_spread():
    assert chance.interval([0, 1, 0, 1]) is None
    assert chance.interval([1.0] * 10) is None
    assert chance.interval([0.1 * 3, 0.3, 0.3, 0.3, 0.3]) is None  # apart in the last bits
    assert chance.interval([0, 1, 0, 1, 0]) is not None


def test_an_interval_is_cut_at_what_a_score_and_a_difference_can_be():
    assert chance.interval([0, 1, 1, 1, 1])[1] == 1
    assert chance.interval([0, 1, 0, 0, 0])[0] == 0
    assert chance.interval([-1, 1, -1, -1, -1], least=-1)[0] == -1


@pytest.mark.parametrize("samples", [1, 2, 3, 5, 6])
def test_pass_at_k_and_pass_all_are_shares_of_choices(samples):
    for solved in range(samples + 1):
        for k in range(1, samples + 1):
            choices = list(itertools.combinations(range(samples), k))
            one = sum(any(at < solved for at in choice) for choice in choices) / len(choices)
            every = sum(all(at < solved for at in choice) for choice in choices) / len(choices)
            assert chance.pass_at_k(samples, solved, k) == pytest.approx(one)
            assert chance.pass_all(samples, solved, k) == pytest.approx(every)


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_k_asks_for_no_more_samples_than_there_are(k):
    for of in (chance.pass_at_k, chance.pass_all):
        with pytest.raises(ValueError, match="expected 1 to 3"):
            of(3, 1, k)


@pytest.mark.parametrize("seed", range(8))
def test_the_chance_of_ranks_is_the_share_of_all_choices(seed):
    draw = random.Random(seed)
    values = [draw.randrange(6) / 5 for _ in range(9)]  # with ties
    passes = [draw.random() < 0.5 for _ in values]
    ranks = [sum(v > other for other in values) + sum(v >= other for other in values) for v in values]
    ours = sum(rank for rank, passed in zip(ranks, passes) if passed)
    sums = [sum(choice) for choice in itertools.combinations(ranks, sum(passes))]
    assert chance.as_low(passes, values) == pytest.approx(sum(found <= ours for found in sums) / len(sums))


def test_the_critical_difference_of_two_models_is_that_of_all_exchanges():
    draw = random.Random(7)
    rows = [[draw.random() for _ in range(7)] for _ in range(2)]
    fit = math.sqrt(2 * 7 / (1 * 6))
    gaps = [(a - sum(rows[0]) / 7 - b + sum(rows[1]) / 7) * fit for a, b in zip(*rows)]
    ranges = sorted(
        abs(math.fsum(s * g for s, g in zip(signs, gaps))) / 7
        for signs in itertools.product((1, -1), repeat=7)
    )
    assert ranges[116] <= chance.critical_difference(rows) + 1e-12 <= ranges[126] + 1e-9  # of 128: 91 to 98 %


def test_the_critical_difference_knows_no_names_and_no_order():
    draw = random.Random(3)
    rows = [[draw.random() for _ in range(8)] for _ in range(5)]
    turned = [row[::-1] for row in rows[::-1]]
    assert chance.critical_difference(turned) == pytest.approx(chance.critical_difference(rows), abs=1e-12)


# By scipy

BY_SCIPY = pytest.mark.long("scipy's import takes seconds")


@pytest.fixture
def stats():
    return pytest.importorskip("scipy.stats", reason="scipy needs a newer Python")


@BY_SCIPY
def test_the_quantile_of_student_is_scipys_to_six_digits_and_more(stats):
    for df in range(1, 501):
        assert chance.t_quantile(df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-9)


@BY_SCIPY
@pytest.mark.parametrize("seed", range(20))
def test_an_interval_is_scipys(stats, seed):
    draw = random.Random(seed)
    values = [draw.uniform(0.2, 0.8) for _ in range(5 + seed)]
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    cut = (max(theirs.low, 0), min(theirs.high, 1))
    assert chance.interval(values) == pytest.approx(cut, rel=1e-9)


@BY_SCIPY
@pytest.mark.parametrize("count", [12, 30, 43, 90, 200])
def test_the_chance_of_ranks_is_scipys(stats, count):
    draw = random.Random(count)
    values = [draw.random() for _ in range(count)]
    passes = [draw.random() < 0.7 - 0.4 * value for value in values]
    sides = [[v for v, passed in zip(values, passes) if passed is side] for side in (True, False)]
    theirs = stats.mannwhitneyu(*sides, alternative="less", method="exact").pvalue
    assert chance.as_low(passes, values) == pytest.approx(theirs, abs=1e-9 if count < 44 else 2e-3)


def by_numpy(rows, numpy):
    """Return the critical difference by numpy's own exchanges."""
    table = numpy.array(rows)
    models, repos = table.shape
    residuals = table - table.mean(axis=1, keepdims=True)
    residuals *= math.sqrt(models * repos / ((models - 1) * (repos - 1)))
    draw = numpy.random.default_rng(5)
    means = numpy.stack([draw.permuted(residuals, axis=0).mean(axis=1) for _ in range(2000)])
    return numpy.quantile(means.max(axis=1) - means.min(axis=1), 0.95)


# On a hundred random boards, from the files, by another way


def second(root):
    """Return for each model and repository its samples: their score or None, whether all passed, built, the rows."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for file in glob.glob(f"{glob.escape(root)}/**/*.json", recursive=True):
        with open(file) as lines:
            made = json.load(lines)
        rows, kind = made["test_results"], made["error"] and made["error"]["kind"]
        points, most = (sum(test[name] for test in rows) for name in ("score", "max_score"))
        score = {None: points / most, "build": 0.0}.get(kind)
        found[file[len(root) + 1 :].split("/")[0]][made["repo"]].append(
            (score, points == most, not kind, rows)
        )
    return found


def numbers(cells, columns, wanted, k, numpy, stats):
    """Return the columns of one model's line, worked out anew."""
    scored = {repo: [s for s in cell if s[0] is not None] for repo, cell in cells.items()}
    scored = {repo: cell for repo, cell in scored.items() if cell}
    means = {repo: numpy.mean([s[0] for s in cell]) for repo, cell in scored.items()}
    values, everything = list(means.values()), [s for cell in scored.values() for s in cell]
    total = sum(s[0] for s in everything)
    line = {
        "score": numpy.mean(values) if values else "",
        "bound_low": total / wanted,
        "bound_high": (total + wanted - len(everything)) / wanted,
        "evaluated": len(everything),
        "reports": wanted,
        "built": sum(s[2] for s in everything),
        "solved": sum(any(s[1] for s in cell) for cell in scored.values()),
        "repositories": len(values),
    }
    ends = ("", "")
    if len(values) >= 5 and numpy.ptp(values) > 1e-9:
        ends = stats.t.interval(0.95, len(values) - 1, numpy.mean(values), stats.sem(values))
        ends = (max(ends[0], 0), min(ends[1], 1))
    line["interval_low"], line["interval_high"] = ends
    for name, some in ((f"pass@{k}", any), (f"pass^{k}", all)):
        choices = [list(itertools.combinations([s[1] for s in cell], k)) for cell in scored.values()]
        chances = [numpy.mean([some(choice) for choice in found]) for found in choices if found]
        line[name] = numpy.mean(chances) if choices and all(choices) else ""
    for category in "xy":
        shares = []
        for cell in scored.values():
            ours = [[row for row in s[3] if row["category"] == category] for s in cell]
            points = [[sum(row[name] for row in rows) for name in ("score", "max_score")] for rows in ours]
            shares.append(numpy.mean([ours / most for ours, most in points]))
        line[f"category: {category}"] = numpy.mean(shares) if shares else ""
    line.update({f"repo: {repo}": means.get(repo, "") for repo in columns})
    return line


@BY_SCIPY
@pytest.mark.parametrize("seed", range(100))
def test_a_second_computation_finds_the_same_numbers(stats, folder, seed):
    numpy = pytest.importorskip("numpy")
    draw = random.Random(seed)
    samples, models, repos = draw.choice([0, 0, 3]), draw.randrange(1, 6), draw.randrange(2, 9)
    root = chosen(folder, seed, models, repos, samples, gaps=draw.choice([0, 0, 0.05, 0.3]))
    made = board(root, samples=bool(samples))
    found = second(root)
    columns = sorted({repo for cells in found.values() for repo in cells})
    lines = {line["model"]: line for line in csv.DictReader(leaderboard.csv_of_models(made).splitlines())}
    assert (made.repos, sorted(lines)) == (columns, sorted(found))
    most = [max(sum(s[0] is not None for s in cell) for cell in cells.values()) for cells in found.values()]
    k = min((count for count in most if count), default=1)
    whole = {}
    for model, cells in found.items():
        folders = {file.rpartition("/")[0] for file in glob.glob(f"{root}/{model}/**/*.json", recursive=True)}
        expected = numbers(cells, columns, len(folders) * len(columns), k, numpy, stats)
        line = {name: lines[model][name] for name in expected}
        known = {name: float(value) if value else "" for name, value in line.items()}
        assert known == pytest.approx(expected, abs=2e-6), model
        if expected["evaluated"] == expected["reports"]:
            whole[model] = [expected[f"repo: {repo}"] for repo in columns]
    if len(whole) < 2 or len(columns) < 6:
        assert made.critical is None
        return
    assert made.critical == pytest.approx(by_numpy(list(whole.values()), numpy), rel=0.12)
    best = max(map(numpy.mean, whole.values()))
    for model, line in lines.items():
        gap = best - numpy.mean(whole.get(model, [0]))
        standing = "clearly behind" if gap > made.critical else "may be equal"
        assert line["standing"] in (
            [standing, "first"][: 1 + (gap < 1e-9)] if model in whole else ["incomplete"]
        )


# What the board says of chance


def scored(rows):
    """Return the board of scores by model, in hundredths of points."""
    reports = []
    for at, scores in enumerate(rows):
        for repo, score in enumerate(scores):
            test = leaderboard.Test("t", "", "", "failed", score, 1, "", "")
            whose = (f"m{at:02}", "", f"r{repo:02}", f"{at}/{repo}", "", "2026-11-22", {})
            reports.append(
                leaderboard._scored(leaderboard.Report(*whose, "scored", None, None, "", "", [test]))
            )
    return leaderboard.Board(reports)


def alike(draw, models, repos):
    """Return scores of equal models: a fifth of the builds fail, three tenths pass in full."""
    hard = [draw.gauss(0, 0.6) for _ in range(repos)]
    return [[min(max(0.7 + at + draw.gauss(0, 0.8), 0), 1) for at in hard] for _ in range(models)]


@pytest.mark.long("twelve boards")
def test_of_twelve_boards_of_twenty_equal_models_at_most_one_says_that_any_is_behind():
    alarms = 0
    for seed in range(12):
        made = scored(alike(random.Random(seed), 20, 20))
        alarms += any(made.standing(row) == "clearly behind" for row in made.rows)
    assert alarms <= 1


@pytest.mark.parametrize("seed", range(5))
def test_a_model_forty_points_better_than_four_others_is_clearly_so(seed):
    rows = [[0.6 * score for score in row] for row in alike(random.Random(seed), 5, 20)]
    rows[0] = [score + 0.4 for score in rows[0]]
    made = scored(rows)
    assert [made.standing(row) for row in made.rows] == ["first"] + ["clearly behind"] * 4
    assert made.rows[0].model == "m00"


def test_ties_and_last_bits_make_nobody_clearly_behind():
    assert [chance.sign(gap) for gap in (0.1 + 0.2 - 0.3, 1e-6, -1e-6)] == [0, 1, -1]
    made = scored([[0.1 + 0.2] * 6, [0.3] * 6])
    assert made.critical == pytest.approx(0, abs=1e-12)
    assert sorted(made.standing(row) for row in made.rows) == ["first", "may be equal"]


def test_twenty_models_on_a_hundred_repositories_take_seconds():
    rows = alike(random.Random(1), 20, 100)
    started = time.process_time()
    chance.critical_difference(rows)
    assert time.process_time() - started < 5
