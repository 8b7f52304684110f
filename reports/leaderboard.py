#!/usr/bin/env python3
"""Compare models by the reports on their Dockerfiles: which is better, by how much, and how sure is that.

    python3 reports/leaderboard.py reports/ [--samples] [--html FILE] [--csv FILE] [--markdown FILE]
    python3 reports/leaderboard.py reports/ --compare MODEL MODEL
    python3 reports/leaderboard.py reports/ --items

The folder of a report names its model. A build that failed scores 0; an engine fault, a usage error and an
interrupt are no scores. Reports that cannot be read, of another version or given twice are named and left
out; the exit code is 1 only where none is left. README.md beside this file explains the numbers.

    paths -> read_reports -> Report -> Board of Row and Item -> tables -> text, Markdown; CSV; page
"""

from __future__ import annotations

import argparse
import array
import collections
import csv
import functools
import io
import json
import math
import os
import random
import re
import shutil
import string
import sys
from html import escape
from typing import Any, Callable, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

VERSION = "1."  # of the evaluator whose reports are read here
SCORED, BUILD_FAILED, ENGINE_FAULT = "scored", "build failed", "engine fault"
OUTCOMES = {"build": BUILD_FAILED, "build_timeout": BUILD_FAILED, "engine": ENGINE_FAULT}
OUTCOMES.update({"usage": "usage error", "interrupted": "interrupted"})
MARKS = {"passed": "✓", "failed": "✗", "timeout": "t", "skipped": "s", "unresolvable": "u", "error": "e"}
MARKS["not_run"] = "·"  # a test's status on the page
DRAWS, SEED = 10_000, 95  # of the bootstrap, so that the same reports always print the same numbers
FEWEST, NOTHING = 5, 1e-9  # repositories for an interval; a difference that is none, but for the last bits
MAX_BYTES = 20_000_000  # of a report; the evaluator keeps them under a million
NAME, MESSAGE, OUTPUT, PARAMS = 1000, 300, 600, 120  # characters; a longer name is refused, the rest is cut
DETAILS, OUTPUTS = 1500, 400  # on one page: failures that are told, and with their output
TESTS, DOUBTS, NOTES = 4000, 40, 10  # on one page: tests in tables, tests to look at, notes above the board
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.html")
ITEM = ["", "models", "passed", "with rest", "note"]
DIFFERENCE = ["points", "95% interval", "better", "worse", "equal", "the difference"]
Interval = Tuple[float, float]
Table = List[List[str]]


class Test(NamedTuple):
    """One test of a report."""

    test_id: str
    asks: str  # its type and params
    category: str
    status: str
    score: float
    max_score: float
    message: str
    output: str


class Report(NamedTuple):
    """One evaluation: of which model and repository, how it ended, and what was scored."""

    model: str
    sample: str
    repo: str
    file: str
    started: str
    rubric: str  # its SHA-256
    outcome: str
    score: float | None  # the share of points, 0 for a build that failed, None where it is no score
    points: float
    max_points: float
    passed: int  # tests
    is_solved: bool  # all of them
    message: str
    log: str
    tests: Sequence[Test]


# -------- Statistics --------------------------------------------------------------------------


def mean(values: Iterable[float | None]) -> float | None:
    """Return the arithmetic mean of what is not None, None where nothing is left."""
    found = [value for value in values if value is not None]
    return math.fsum(found) / len(found) if found else None


def interval(values: Iterable[float]) -> Interval | None:
    """Return the 95 % interval of a mean by the percentile bootstrap, None under five values.

    Seeded, and by `random()` alone: its numbers are the same in every version of Python.
    """
    values = sorted(values)
    count = len(values)
    if count < FEWEST:
        return None
    means = sorted(math.fsum(map(values.__getitem__, draw)) / count for draw in _draws(count))
    return means[DRAWS // 40], means[-1 - DRAWS // 40]


@functools.lru_cache(maxsize=4)
def _draws(count: int) -> Sequence[array.array[int]]:
    # Half of them are mirror images, so that the interval of A - B is that of B - A with the signs changed.
    draw = random.Random(SEED).random  # noqa: S311, no secret
    half = [array.array("L", [int(draw() * count) for _ in range(count)]) for _ in range(DRAWS // 2)]
    return [*half, *(array.array("L", [count - 1 - at for at in draws]) for draws in half)]


class Difference(NamedTuple):
    """How much better the first of two is, over the repositories that both have."""

    mean: float
    interval: Interval | None
    better: int
    worse: int
    equal: int

    @property
    def judgment(self) -> str:
        """Whether the choice of repositories may explain the difference."""
        low, high = self.interval or (None, None)
        if low is None or high is None:
            return f"is unknown under {FEWEST} repositories"
        return "is clear" if round(low, 3) > 0 or round(high, 3) < 0 else "may be chance"  # as printed

    def words(self) -> list[str]:
        """Return the columns of a table, to the titles DIFFERENCE."""
        counts = [str(count) for count in (self.better, self.worse, self.equal)]
        return [points(self.mean), span(self.interval, points), *counts, self.judgment]


def paired_difference(first: Mapping[str, float], second: Mapping[str, float]) -> Difference | None:
    """Return the difference first - second of scores by repository; None without one in common."""
    found = [score - second[repo] for repo, score in first.items() if repo in second]
    if not found:
        return None
    better, worse = sum(value > NOTHING for value in found), sum(value < -NOTHING for value in found)
    middle = math.fsum(found) / len(found)
    return Difference(middle, interval(found), better, worse, len(found) - better - worse)


def pass_at_k(samples: int, solved: int, k: int) -> float:
    """Return the chance that one of k samples is solved: 1 - C(samples - solved, k) / C(samples, k)."""
    if not 1 <= k <= samples:
        raise ValueError(f"k is {k}; expected 1 to {samples}, the number of samples")
    none = 1.0
    for at in range(k):
        none *= max(samples - solved - at, 0) / (samples - at)
    return 1 - none


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None under three pairs, or where one side does not vary."""
    ours, theirs = ([value - math.fsum(side) / len(side) for value in side] for side in (first, second))
    spread = math.sqrt(math.fsum(a * a for a in ours) * math.fsum(b * b for b in theirs))
    if len(ours) < 3 or spread < NOTHING:  # noqa: PLR2004, two points always lie on a line
        return None
    return math.fsum(a * b for a, b in zip(ours, theirs)) / spread


# -------- Reading: reports are other people's files -------------------------------------------


def read_reports(paths: Iterable[str], *, samples: bool = False) -> tuple[list[Report], list[str]]:
    """Return the reports in files and folders, and why others were left out."""
    reports: dict[tuple[str, str, str], Report] = {}
    owners: dict[str, str] = {}
    left_out: list[str] = []
    for path, owner in _files(paths, left_out, samples=samples):
        real, place = os.path.realpath(path), "/".join(filter(None, owner))
        first = owners.get(real)
        if first == place:  # a folder given twice
            continue
        try:
            if first:
                raise ValueError(f"the same file as one of {first}")
            owners[real] = place
            report = _read(path, *owner)
            other = reports.setdefault((report.model, report.repo, report.sample), report)
            if other is not report:
                raise ValueError(f"a second report on {report.repo} in {place}; {other.file} is taken")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            left_out.append(f"{path}: {_reason(error)}")
    return [reports[key] for key in sorted(reports)], [*map(_line, left_out)]


def _files(paths: Iterable[str], left_out: list[str], *, samples: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield each file with its model and sample; names that begin with a dot are passed over."""
    for path in paths:
        is_folder = os.path.isdir(path)
        root = os.path.abspath(path if is_folder else os.path.dirname(path))
        files = _walk(path, left_out) if is_folder else [path]
        places = [os.path.relpath(os.path.abspath(file), root).split(os.sep)[:-1] for file in files]
        deepest = max(map(len, places), default=0)
        for file, names in zip(files, places):
            if samples and len(names) < 2 <= deepest:  # noqa: PLR2004, a model and a sample
                left_out.append(f"{file}: in no folder of a sample, as others are")
                continue
            above = ["", *root.split(os.sep)]
            sample = (names or above).pop() if samples else ""
            yield file, ["/".join(names) or above[-1], sample]


def _walk(path: str, left_out: list[str]) -> list[str]:
    """Return the reports in a folder, those last that links lead to; no link is followed in a circle."""
    unread: list[OSError] = []
    found = []
    for folder, folders, names in os.walk(path, onerror=unread.append, followlinks=True):
        here = os.path.join(os.path.realpath(folder), "")
        inner = {name: os.path.join(os.path.realpath(os.path.join(folder, name)), "") for name in folders}
        folders[:] = [n for n in folders if not (n.startswith(".") or here.startswith(inner[n]))]
        found += [os.path.join(folder, n) for n in names if n.endswith(".json") and not n.startswith(".")]
    left_out += [f"{error.filename}: {error.strerror}" for error in unread]
    return sorted(found, key=lambda file: (os.path.realpath(file) != os.path.abspath(file), file))


def _read(path: str, model: str, sample: str) -> Report:
    """Read one report; raise ValueError, KeyError, TypeError or AttributeError where it is none of ours."""
    if not os.path.isfile(path):
        raise ValueError("no regular file")
    if os.path.getsize(path) > MAX_BYTES:
        raise ValueError(f"over {MAX_BYTES // 1_000_000} MB, larger than any report")
    with open(path, encoding="utf-8-sig") as file:
        report = json.load(file)
    environment, summary, error = report["environment"], report["summary"], report["error"]
    version = str(environment["evaluator_version"])
    if not version.startswith(VERSION):
        raise ValueError(f"written by version {version[:40]}; expected {VERSION}x")
    tests = [_test(test) for test in report["test_results"]]
    outcome = SCORED if error is None else OUTCOMES[error["kind"]]
    if outcome == SCORED and any(test.status in ("error", "not_run") for test in tests):
        outcome = ENGINE_FAULT
    points, max_points = (math.fsum(getattr(test, name) for test in tests) for name in ("score", "max_score"))
    passed, total = sum(test.status == "passed" for test in tests), len(tests)
    if len({test.test_id for test in tests}) < total:
        raise ValueError("a test is there twice")
    by_tests = {"max_score": max_points, "total_tests": total, "total_score": points, "passed_tests": passed}
    for key, found in by_tests.items():
        if not math.isclose(_number(summary, key), found, rel_tol=1e-6):
            raise ValueError(f"{key} is {summary[key]}, but {found:g} by its tests")
    if not max_points or (points and outcome == BUILD_FAILED):
        raise ValueError("points without a build" if points else "a rubric without points gives no score")
    score = points / max_points if outcome in (SCORED, BUILD_FAILED) else None
    log = _tail(report["build"]["log"]) if outcome == BUILD_FAILED else ""
    message = _line(error["message"], MESSAGE) if error else ""
    started, rubric = _line(environment["started_at"], PARAMS), str(environment["rubric_sha256"])
    is_solved = outcome == SCORED and passed == total
    repo = _line(report["repo"], NAME, cut=False)
    whose = (_line(model), _line(sample), repo, _line(path), started, rubric)
    return Report(*whose, outcome, score, points, max_points, passed, is_solved, message, log, tests)


def _test(test: Mapping[str, Any]) -> Test:
    test_id, category = _line(test["test_id"], NAME, cut=False), _line(test.get("category") or "", PARAMS)
    params = json.dumps(test["params"], ensure_ascii=False) if test.get("params") else ""
    asks = _line(f"{_line(test['test_type'])} {params}".rstrip(), PARAMS)
    status, max_score = test["status"], _number(test, "max_score")
    if status not in MARKS:
        raise ValueError(f"a test's status is {str(status)[:40]}")
    passed = status == "passed"
    score = _number(test, "score", max_score if passed else 0)
    message, output = ("", "") if passed else (_line(test["message"], MESSAGE), _tail(test["output"] or ""))
    return Test(test_id, asks, category, status, score, max_score, message, output)


def _number(values: Mapping[str, Any], key: str, most: float = 1e100) -> float:
    value = values[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ValueError(f"{key} is {str(value)[:40]}; expected a number from 0 to {most:g}")
    return float(value)


def _line(value: Any, most: int = sys.maxsize, *, cut: bool = True) -> str:
    """Return text without control characters, since it may come from containers nobody trusts."""
    if not isinstance(value, str):
        raise TypeError("expected text")
    if len(value) > most and not cut:  # of two names one could be made
        raise ValueError(f"a name of {len(value)} characters; expected at most {most}")
    line = value if len(value) <= most else value[: most - 1] + "…"
    unseen = {} if line.isprintable() else {ord(c): "\ufffd" for c in set(line) if not c.isprintable()}
    return line.translate(unseen) if unseen else line


def _tail(value: str) -> str:
    tail = value.rstrip()[-OUTPUT:].expandtabs(4)
    return tail if tail.replace("\n", "").isprintable() else "\n".join(map(_line, tail.splitlines()))


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at line {error.lineno}, column {error.colno}; half written?"
    if isinstance(error, KeyError):
        return f"no report of this evaluator: {str(error)[:60]} is missing or unknown"
    if isinstance(error, (TypeError, AttributeError, RecursionError)):
        return "no report of this evaluator"
    return getattr(error, "strerror", None) or str(error)


# -------- The board ---------------------------------------------------------------------------


class Row(NamedTuple):
    """One model over all repositories of the board."""

    model: str
    scores: Mapping[str, float]  # by repository, of those that have one: the mean over samples
    score: float | None  # the mean over repositories
    interval: Interval | None
    bounds: Interval  # of the score, with what is missing as 0, and as 1
    categories: Mapping[str, float | None]  # the share of their points
    missing: Mapping[str, int]  # reports without a score, by the reason
    reports: int  # that there should be: each sample of this model in each repository of the board
    solved: int  # repositories in which a sample passes all tests
    pass_at_k: float | None
    built: int
    evaluated: int  # reports that have a score, 0 for a failed build included


class Item(NamedTuple):
    """How the models did in one test of a repository."""

    test: Test
    models: int  # whose image was built and tested
    share: float  # of these that pass
    correlation: float | None  # of passing with the rest of the points
    note: str

    def words(self) -> list[str]:
        """Return the columns of a table, to the titles ITEM after the first."""
        rest = "-" if self.correlation is None else f"{round(self.correlation, 2) + 0.0:+.2f}"
        return [str(self.models), percent(self.share, 0), rest, self.note]


def scores_by_model(reports: Iterable[Report]) -> dict[str, float | None]:
    """Return the score of each model, the best first; None where it has none."""
    return {row.model: row.score for row in Board(reports).rows}


def _scores(reports: Iterable[Report]) -> list[float]:
    return [report.score for report in reports if report.score is not None]


def _category_share(report: Report, category: str) -> float | None:
    tests = [test for test in report.tests if test.category == category and report.score is not None]
    most = math.fsum(test.max_score for test in tests)
    return math.fsum(test.score for test in tests) / most if most else None


class Board:
    """Rows of models, the best first, and columns of repositories, by name."""

    def __init__(self, reports: Iterable[Report], left_out: Sequence[str] = ()) -> None:
        """Sort the reports into rows and columns; note what no reader of the numbers should miss."""
        self.reports = list(reports)
        # By model and repository: a report for each sample.
        self.cells: dict[tuple[str, str], list[Report]] = collections.defaultdict(list)
        samples: dict[str, set[str]] = collections.defaultdict(set)
        for report in self.reports:
            self.cells[report.model, report.repo].append(report)
            samples[report.model].add(report.sample)
        self.repos = sorted({report.repo for report in self.reports})
        self.categories = sorted({t.category for r in self.reports for t in r.tests} - {""})
        self.has_samples = any(report.sample for report in self.reports)
        # k of pass@k: the samples that every row has, so that none has more tries than another.
        most = [max(len(_scores(self.cells[m, repo])) for repo in self.repos) for m in samples]
        self.k = min([count for count in most if count], default=1)
        rows = [self._row(model, len(names)) for model, names in samples.items()]
        # An incomplete row stands where its lower bound puts it, lest one good report lead the board.
        self.rows = sorted(rows, key=lambda row: (row.score is None, -row.bounds[0], row.model))
        rubrics = {repo: {r.rubric for r in self.reports if r.repo == repo} for repo in self.repos}
        words = "different rubrics, so its scores do not compare"
        found = [f"{repo}: scored by {len(r)} {words}" for repo, r in rubrics.items() if len(r) > 1]
        self.notes = [*(f"left out: {line}" for line in left_out), *(f"caution: {line}" for line in found)]
        # How much better each row is than the first, by its model.
        first = self.rows[0].scores
        self.behind = {row.model: paired_difference(row.scores, first) for row in self.rows[1:]}

    def _row(self, model: str, samples: int) -> Row:
        cells = {repo: self.cells[model, repo] for repo in self.repos}
        scored = {repo: _scores(cell) for repo, cell in cells.items() if _scores(cell)}
        scores = {repo: math.fsum(found) / len(found) for repo, found in scored.items()}
        solved = {repo: sum(report.is_solved for report in cells[repo]) for repo in scored}
        # None where a repository has fewer: it would be the mean of those that were luckier with the engine.
        few = any(len(found) < self.k for found in scored.values())
        tries = [] if few else [pass_at_k(len(s), solved[r], self.k) for r, s in scored.items()]
        outcomes = collections.Counter(report.outcome for cell in cells.values() for report in cell)
        reports, evaluated = samples * len(cells), sum(map(len, scored.values()))
        missing = {why: n for why, n in outcomes.items() if why not in (SCORED, BUILD_FAILED)}
        if reports > sum(outcomes.values()):
            missing["no report"] = reports - sum(outcomes.values())
        low = math.fsum(score for found in scored.values() for score in found) / reports
        middle = (mean(scores.values()), interval(scores.values()), (low, low + 1 - evaluated / reports))
        shares = {
            name: mean(mean(_category_share(report, name) for report in cell) for cell in cells.values())
            for name in self.categories
        }
        full, built = sum(count > 0 for count in solved.values()), outcomes[SCORED]
        return Row(model, scores, *middle, shares, missing, reports, full, mean(tries), built, evaluated)

    def items(self, repo: str) -> list[Item]:
        """Return the tests of a repository, and what they tell of the models whose image was built."""
        # By test and model: whether a sample passes, and its share of the other points.
        runs: dict[str, dict[str, list[tuple[float, float]]]] = {}
        tests: dict[str, Test] = {}
        for report in (r for row in self.rows for r in self.cells[row.model, repo] if r.outcome == SCORED):
            for test in report.tests:
                others = report.max_points - test.max_score
                rest = (report.points - test.score) / others if others > NOTHING else 0.0
                by_model = runs.setdefault(tests.setdefault(test.test_id, test).test_id, {})
                by_model.setdefault(report.model, []).append((test.status == "passed", rest))
        items = []
        for test_id, by_model in runs.items():
            pairs = [[math.fsum(side) / len(run) for side in zip(*run)] for run in by_model.values()]
            passes, rests = zip(*pairs)
            share, with_rest = math.fsum(passes) / len(passes), correlation(passes, rests)
            note = "passed by the weaker" if with_rest is not None and with_rest < -NOTHING else ""
            if len(passes) > 1 and share in (0, 1):
                note = "passed by all" if share else "passed by none"
            items.append(Item(tests[test_id], len(passes), share, with_rest, note))
        return items


# -------- Words, the same in text, Markdown and the page; CSV ---------------------------------


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as it is printed everywhere."""
    return "-" if share is None else f"{share * 100:.{digits}f}%"


def points(difference: float) -> str:
    """Return a difference of two shares in percentage points, never as -0.0."""
    return f"{round(difference * 100, 1) + 0.0:+.1f}"


def span(found: Interval | None, words: Callable[[float], str] = percent) -> str:
    """Return an interval in words."""
    return f"{words(found[0])} to {words(found[1])}" if found else "-"


def cell_words(cell: Sequence[Report]) -> str:
    """Say in a few characters how an evaluation or its samples went."""
    scores, outcomes = _scores(cell), collections.Counter(report.outcome for report in cell)
    if not scores:
        return ", ".join(sorted(outcomes)) or "-"
    share = percent(mean(scores), 0)
    if cell[0].sample:
        failed = f", {outcomes[BUILD_FAILED]} {BUILD_FAILED}" if outcomes[BUILD_FAILED] else ""
        return f"{share} ({len(scores)}: {percent(min(scores), 0)} to {percent(max(scores), 0)}{failed})"
    if cell[0].outcome == BUILD_FAILED:
        return f"{share} {BUILD_FAILED}"
    return f"{share} {cell[0].points:g}/{cell[0].max_points:g} ({cell[0].passed} of {len(cell[0].tests)})"


def _reasons(row: Row) -> str:
    return ", ".join(f"{count} {why}" for why, count in sorted(row.missing.items()))


def row_words(board: Board, row: Row) -> dict[str, str]:
    """Return the columns of a row by their titles, without the repositories."""
    lack = f"{sum(row.missing.values())} of {row.reports} ({_reasons(row)}): {span(row.bounds)}"
    words = {"model": row.model, "score": percent(row.score), "95% interval": span(row.interval)}
    words["solved" if board.has_samples else "passed in full"] = f"{row.solved} of {len(row.scores)}"
    if board.has_samples:
        words[f"pass@{board.k}"] = percent(row.pass_at_k)
    return {**words, "built": f"{row.built} of {row.evaluated}", "incomplete": lack if row.missing else "-"}


def tables(board: Board) -> dict[str, Table]:
    """Return the board as tables of words: models, categories, differences from the first."""
    rows = [row_words(board, row) for row in board.rows]
    cells = [[cell_words(board.cells[row.model, repo]) for repo in board.repos] for row in board.rows]
    body = [[*words.values(), *line] for words, line in zip(rows, cells)]
    means = [percent(mean(row.scores.get(repo) for row in board.rows)) for repo in board.repos]
    found = {"models": [[*rows[0], *board.repos], *body, ["mean", *[""] * (len(rows[0]) - 1), *means]]}
    if board.categories:
        lines = [[r.model + " *" * bool(r.missing), *map(percent, r.categories.values())] for r in board.rows]
        found["categories"] = [["by category", *board.categories], *lines]
    if board.behind:
        lines = [[model, *(gap.words() if gap else "------")] for model, gap in board.behind.items()]
        found["differences"] = [[f"against {board.rows[0].model}", *DIFFERENCE], *lines]
    return found


def _lack(row: Row) -> str:
    within = f"with what is missing its score lies within {span(row.bounds)}"
    return f" It is incomplete: {within}." if row.missing else ""


def verdict(board: Board) -> str:
    """Answer in a few sentences which model is better, and whether that is more than chance."""
    first = board.rows[0]
    if first.score is None:
        return "No model has a score."
    words = f"{first.model} is first with {percent(first.score)}.{_lack(first)}"
    for row in board.rows[1:2]:
        gap = board.behind[row.model]
        words += f" {row.model} is next"
        if gap:
            count = gap.better + gap.worse + gap.equal
            both = f" in the {count} repositories that both have" * (count < len(board.repos))
            within = f" (95% interval {span(gap.interval, points)})" if gap.interval else ""
            words += f", by {points(gap.mean)} points{within}{both}; the difference {gap.judgment}"
        words += f".{_lack(row)}"
    gaps = [(model, gap) for model, gap in list(board.behind.items())[1:] if gap]
    close = ", ".join(model for model, gap in gaps if gap.judgment == "may be chance")
    return words + (f" Others whose difference from the first may be chance: {close}." if close else "")


def text(board: Board, width: int = 100) -> str:
    """Return the board for a terminal; repositories that do not fit follow in further tables."""
    fixed = {"models": len(row_words(board, board.rows[0])), "categories": 1}
    blocks = [_text_table(table, width, fixed.get(name, 9)) for name, table in tables(board).items()]
    return "\n\n".join([*blocks, verdict(board)]) + "\n"


def _text_table(table: Table, width: int, fixed: int) -> str:
    """Return a table as text; its first columns stay together, others follow below where they must."""
    widths = [max(map(len, column)) for column in zip(*table)]
    blocks = [list(range(min(fixed, len(widths))))]
    for at in range(fixed, len(widths)):
        if blocks[-1] != [0] and sum(widths[column] + 2 for column in [*blocks[-1], at]) - 2 > width:
            blocks.append([0])
        blocks[-1].append(at)
    filled = [[f"{w:{'>' if at else '<'}{widths[at]}}" for at, w in enumerate(line)] for line in table]
    parts = ([[line[at] for at in block] for line in filled] for block in blocks)
    told = (["  ".join(line).rstrip() for line in part if "".join(line[1:]).strip()] for part in parts)
    return "\n\n".join(map("\n".join, told))


def markdown(board: Board) -> str:
    """Return the board as Markdown, in which text of anybody's stands as it is."""
    escaped = functools.partial(re.compile(r"([][\\`*_{}<>#~|!&:@$^]|\.(?!\d))").sub, r"\\\1")
    blocks = ["".join(f"{escaped(line)}\n\n" for line in [verdict(board), *_notes(board)])[:-1]]
    for head, *body in tables(board).values():
        rule = ["---", *["---:"] * (len(head) - 1)]
        lines = [map(escaped, head), rule, *(map(escaped, line) for line in body)]
        blocks.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "\n".join(blocks)


def _notes(board: Board) -> list[str]:
    more = len(board.notes) - NOTES
    return [*board.notes[:NOTES], *[f"{more} more notes, which the command prints"] * (more > 0)]


def csv_of_models(board: Board) -> str:
    """Return a line for each model with all its numbers, shares from 0 to 1."""
    lines = []
    for row in board.rows:
        gap = board.behind.get(row.model)
        line: dict[str, Any] = {"model": row.model, "score": row.score}
        line["interval_low"], line["interval_high"] = row.interval or (None, None)
        line.update({"bound_low": row.bounds[0], "bound_high": row.bounds[1], "solved": row.solved})
        line.update({"repositories": len(row.scores), f"pass@{board.k}": row.pass_at_k})
        line.update({"built": row.built, "evaluated": row.evaluated, "reports": row.reports})
        line["missing"] = _reasons(row)
        line["difference"] = gap.mean if gap else None
        line["difference_low"], line["difference_high"] = (gap and gap.interval) or (None, None)
        for name in ("better", "worse", "equal", "judgment"):
            line[name] = getattr(gap, name) if gap else None
        line.update({f"category: {name}": share for name, share in row.categories.items()})
        lines.append({**line, **{f"repo: {repo}": row.scores.get(repo) for repo in board.repos}})
    return _csv(lines)


def csv_of_reports(board: Board) -> str:
    """Return a line for each report; what is no score has none, so that no mean counts it."""
    names = ["model", "sample", "repo", "outcome", "score", "points", "max_points", "passed"]
    names += ["started", "file", "message"]
    known = [names if r.score is not None else {*names} - {"points", "passed"} for r in board.reports]
    return _csv([{n: getattr(r, n) if n in k else None for n in names} for r, k in zip(board.reports, known)])


def _csv(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return CSV in which a spreadsheet finds no formula (OWASP, CSV injection)."""
    out = io.StringIO()
    for line in (dict(zip(lines[0], lines[0])), *lines):
        cells = [round(cell, 6) + 0.0 if isinstance(cell, float) else cell for cell in line.values()]
        evil = re.compile(r"\s*[=+\-@|%]")
        csv.writer(out).writerow([f"'{c}" if isinstance(c, str) and evil.match(c) else c for c in cells])
    return out.getvalue()


def compare(board: Board, first: str, second: str) -> str:
    """Say how much better one model is, then test by test what one passes and the other does not."""
    ours, theirs = (next(row for row in board.rows if row.model == name) for name in (first, second))
    gap = paired_difference(ours.scores, theirs.scores)
    words = "no repository in which both have a score"
    if gap:
        within = f"95% interval {span(gap.interval, points)}; " if gap.interval else ""
        words = f"{points(gap.mean)} points ({within}the difference {gap.judgment}); better in "
        words += f"{gap.better} repositories, worse in {gap.worse}, equal in {gap.equal}"
    lines = [f"{first} against {second}: {words}"]
    for repo in board.repos:
        cells = {name: board.cells[name, repo] for name in (first, second)}
        lines += [f"{repo}: " + ", ".join(f"{name} {cell_words(cell)}" for name, cell in cells.items())]
        for report in cells[first] + cells[second]:
            why = f"  {'/'.join(filter(None, report[:2]))}: {report.message}"
            lines += [why] if report.outcome != SCORED else []
        lines += _passed_by(cells, first, second)
        lines += _passed_by(cells, second, first)
    return "\n".join(lines) + "\n"


def _passed_by(cells: Mapping[str, Sequence[Report]], better: str, worse: str) -> Iterator[str]:
    """Yield what one of two models passes more often, and why the other does not."""
    ours, theirs = _runs(cells[better]), _runs(cells[worse])
    for test_id, here in ours.items() if theirs else ():
        there = theirs.get(test_id, [])
        (passed, others) = ([test.status == "passed" for test in runs] for runs in (here, there))
        if (mean(passed) or 0) <= (mean(others) or 0):
            continue
        failed = [f"{test.status}: {test.message}" for test in there if test.status != "passed"]
        why = failed[0] if failed else "no such test in its rubric"
        start = f"only {better} passes {test_id}; {worse}"
        if max(len(here), len(there)) > 1:
            start = f"{test_id}: {better} {sum(passed)} of {len(here)}, {worse} {sum(others)} of {len(there)}"
        yield f"  {start}: {why}"


def _runs(cell: Iterable[Report]) -> dict[str, list[Test]]:
    """Return the tests of what has a score, by id; nothing where all builds failed, which says it all."""
    found: dict[str, list[Test]] = {}
    for test in (test for report in cell if report.score is not None for test in report.tests):
        found.setdefault(test.test_id, []).append(test)
    return found if any(report.outcome == SCORED for report in cell) else {}


def items_text(board: Board) -> str:
    """Return for each repository its tests, the share of models that pass, and which to look at."""
    tables_of = ([ITEM, *([i.test.test_id, *i.words()] for i in board.items(repo))] for repo in board.repos)
    return "\n".join(f"{r}\n{_text_table(t, 0, len(ITEM))}\n" for r, t in zip(board.repos, tables_of))


# -------- The page: one file, no network; cells are links, so that it works without JavaScript ----


def page(board: Board) -> str:
    """Return the board as HTML; page.html beside this file holds its frame, styles and script."""
    with open(PAGE, encoding="utf-8") as file:
        parts = re.split(r"^<!-- (\w+) -->\n", file.read(), flags=re.MULTILINE)
    fill = {name: string.Template(part).substitute for name, part in zip(parts[1::2], parts[2::2])}
    found, width = tables(board), len(board.repos)
    bars = [[line[0], "", *line[1:-width]] for line in found["models"][:-1]]
    bar = [_bar(row, board.behind.get(row.model), fill["bar"]) for row in board.rows]
    heat = [[line[0], *line[-width:]] for line in found["models"]]
    items = {repo: board.items(repo) for repo in board.repos}
    # Those that the weaker pass first: of those that nobody passes there can be very many.
    doubts = [(i.correlation or 1, repo, i) for repo in items for i in items[repo] if i.note and i.share < 1]
    doubtful = [[f"{repo}: {i.test.test_id}", *i.words()] for _, repo, i in sorted(doubts)[:DOUBTS]]
    more = len(doubts) - DOUBTS
    doubtful += [[f"{more} more: see --items", *["-"] * (len(ITEM) - 1)]] * (more > 0)
    sections = (_section(board, at, items[repo]) for at, repo in enumerate(board.repos))
    days = sorted({report.started[:10] for report in board.reports})
    return fill["page"](
        counts=f"Models: {len(board.rows)}. Repositories: {width}. Reports: {len(board.reports)}",
        days=escape(" to ".join(days[:: max(len(days) - 1, 1)])),
        verdict=escape(verdict(board)),
        cautions="".join(f'<p class="caution">{escape(line)}.</p>' for line in _notes(board)),
        board=_table(bars, lambda y, x, words: f"<td>{escape(words)}" if x else bar[y]),
        heat=_table(heat[:-1], lambda y, x, words: _heat(words, f"p{x}m{y}" * (words != "-"))),
        means="".join(_heat(words, f"p{at}") for at, words in enumerate(heat[-1][1:])),
        categories=_table(found.get("categories", []), lambda _y, _x, words: _heat(words)),
        differences=_table(found.get("differences", [])),
        doubts=_table([ITEM, *doubtful]),
        sections="".join(fill["section"](section, id=f"p{at}") for at, section in enumerate(sections)),
    )


def _table(lines: Table, cell: Callable[[int, int, str], str] | None = None) -> str:
    """Return a table, "" of no lines; `cell` makes the HTML of a cell from its line, column and words."""
    make = cell or (lambda _y, _x, words: f"<td>{escape(words)}")
    rows = ["".join(f"<th><button>{escape(words)}</button>" for words in line) for line in lines[:1]]
    for y, (first, *line) in enumerate(lines[1:]):
        rows.append(f"<th>{escape(first)}" + "".join(make(y, x, words) for x, words in enumerate(line)))
    return f"<thead><tr>{rows[0]}<tbody><tr>{'<tr>'.join(rows[1:])}" if rows[1:] else ""


def _heat(words: str, link: str = "") -> str:
    share, _, more = words.partition(" ") if "%" in words else ("–", "", words.strip("-"))  # noqa: RUF001
    inner = f"{share}<small>{escape(more)}</small>" if more else share
    inner = f'<a href="#{link}">{inner}</a>' if link else inner
    kind = f' class="s{" x" * (BUILD_FAILED in more)}" style="--p:{share[:-1]}"' if "%" in words else ""
    return f"<td{kind}>{inner}"


def _bar(row: Row, gap: Difference | None, fill: Callable[..., str]) -> str:
    """Return a score as a bar, its interval as a whisker, and the bounds of an incomplete row."""
    is_behind = gap and gap.mean < 0 and gap.judgment == "is clear"
    kinds = {"behind": is_behind, "point": not row.interval, "whole": not row.missing}
    kind = " ".join(kind for kind, is_so in kinds.items() if is_so)
    label = escape(f"{row.model}: {percent(row.score)}, 95% interval {span(row.interval)}")
    (low, high), (least, most) = row.interval or (0, 0), row.bounds
    ends = {"score": row.score or 0, "low": low, "high": high, "least": least, "most": most}
    return fill({name: f"{end:.2%}" for name, end in ends.items()}, kind=kind, label=label)


def _section(board: Board, at: int, items: Sequence[Item]) -> dict[str, str]:
    """Return the reports on a repository, model by model, and the matrix of its tests by models."""
    articles, statuses = [], {}
    tests: dict[str, Test] = {}
    for y, row in enumerate(board.rows):
        cell = board.cells[row.model, board.repos[at]]
        statuses[row.model] = [{test.test_id: test.status for test in report.tests} for report in cell]
        tests.update((test.test_id, test) for report in cell for test in report.tests)
        words = f"<h3>{escape(f'{row.model}: {cell_words(cell)}')}</h3>"
        details = "".join(_details(report, len(board.reports)) for report in cell)
        articles += [f'<article id="p{at}m{y}">{words}{details}</article>'] if cell else []

    def mark(_: int, x: int, words: str) -> str:
        is_mark = len(ITEM) - 2 < x < len(lines[0]) - 2
        failed = is_mark and MARKS["passed"] not in words and words.strip(MARKS["not_run"])
        return f"<td{' class=f' * bool(failed)}>{escape(words)}"

    about = {item.test.test_id: item.words()[1:] for item in items}
    alike = {item.test.test_id for item in items if item.note == "passed by all"}
    most = max(5, TESTS // len(board.repos))  # those that tell models apart first
    kept = set(sorted(tests, key=lambda name: name in alike)[:most])
    lines = [["test", "points", *ITEM[2:], *statuses, "asks for"]]
    for name, test in tests.items():
        if name not in kept:
            continue
        marks = ("".join(MARKS[run[name]] for run in runs if name in run) for runs in statuses.values())
        lines.append([name[:100], f"{test.max_score:g}", *about.get(name, "---"), *marks, test.asks])
    if len(tests) > most:
        lines.append([f"{len(tests) - most} more: see --items", *[""] * (len(lines[0]) - 1)])
    return {"name": escape(board.repos[at]), "articles": "".join(articles), "tests": _table(lines, mark)}


def _details(report: Report, reports: int) -> str:
    """Return why tests failed, or the build; where a page has many reports, of the first failures only."""
    words = f"{report.sample}: " * bool(report.sample) + cell_words([report._replace(sample="")])
    lines = [f"<p><b>{escape(words)}</b> {escape(report.message)}</p>"]
    lines += [f"<pre>{escape(report.log)}</pre>"] if report.log else []
    failed = [test for test in report.tests if test.status not in ("passed", "not_run")]
    failed.sort(key=lambda test: test.status == "skipped")
    shown = max(1, min(200, DETAILS // reports))
    for at, test in enumerate(failed[:shown]):
        more = f"<pre>{escape(test.output)}</pre>" if test.output and at < OUTPUTS // reports else ""
        lines.append(f"<dt><b>{escape(test.test_id[:100])}</b> {test.status}<dd>{escape(test.message)}{more}")
    lines += [f"<p>{len(failed) - shown} more in {escape(report.file[-200:])}</p>"] if failed[shown:] else []
    return "".join(lines)


# -------- Command line ------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Read reports, print and write the board; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("reports", nargs="+", metavar="REPORTS", help="reports, or folders to search for them")
    add("--samples", action="store_true", help="the last folder of a report is a sample of its model")
    add("--html", metavar="FILE", help="write a page with bars, heat map, and the tests behind them")
    add("--csv", metavar="FILE", help="write a line for each model")
    add("--reports-csv", metavar="FILE", help="write a line for each report")
    add("--markdown", metavar="FILE", help="write the tables as Markdown")
    add("--compare", nargs=2, metavar="MODEL", help="print the paired difference, and what only one passes")
    add("--items", action="store_true", help="print the tests of each repository, and which to look at")
    arguments = parser.parse_args(argv)
    sys.stdout, sys.stderr = (s or open(os.devnull, "w") for s in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # names and messages come in any script
    reports, left_out = read_reports(arguments.reports, samples=arguments.samples)
    board = Board(reports, left_out) if reports else None
    notes = board.notes if board else [*(f"left out: {line}" for line in left_out), "no report is left"]
    print("".join(note + "\n" for note in notes), end="", file=sys.stderr)
    if not board:
        return 1
    models = [row.model for row in board.rows]
    unknown = [model for model in arguments.compare or () if model not in models]
    if unknown:
        parser.error(f"no model {unknown[0]!r}; there are: {', '.join(models)}")
    try:
        _write(board, arguments)
    except OSError as error:
        print(f"cannot write: {error}", file=sys.stderr)
        return 1
    return 0


def _write(board: Board, arguments: argparse.Namespace) -> None:
    writers = {"html": page, "csv": csv_of_models, "reports_csv": csv_of_reports, "markdown": markdown}
    for name, make in writers.items():
        if getattr(arguments, name):
            made = make(board)  # before a file that is there is emptied
            with open(getattr(arguments, name), "w", encoding="utf-8", newline="") as file:
                file.write(made)
    answers = [compare(board, *arguments.compare)] if arguments.compare else []
    answers += [items_text(board)] if arguments.items else []
    print("\n".join(answers or [text(board, shutil.get_terminal_size((100, 24)).columns)]), end="")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
