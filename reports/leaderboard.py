#!/usr/bin/env python3
"""Compare models by the reports on their Dockerfiles: which is better, by how much, and how sure is that.

    python3 reports/leaderboard.py reports/ [--samples] [--reference MODEL] [--html FILE] [--csv FILE] …
    python3 reports/leaderboard.py reports/ --compare MODEL MODEL
    python3 reports/leaderboard.py reports/ --items

The folder of a report names its model. A build that failed scores 0; an engine fault, a registry out of
reach, a usage error and an interrupt are no scores. Reports that cannot be read, of another version or given
twice are named and left out; the exit code is 1 only where none is left. README.md explains the numbers.

    paths -> read_reports -> Report -> Board of Row and Item -> tables -> text, Markdown; CSV; page
"""

from __future__ import annotations

import argparse
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
import statistics
import string
import sys
from html import escape
from typing import Any, Callable, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

VERSION = "1."  # of the evaluator whose reports are read here
SCORED, BUILD_FAILED, ENGINE_FAULT, OTHER_RUBRIC = "scored", "build failed", "engine fault", "another rubric"
OUTCOMES = {"build": BUILD_FAILED, "build_timeout": BUILD_FAILED, "engine": ENGINE_FAULT}
OUTCOMES.update({"registry": "registry out of reach", "usage": "usage error", "interrupted": "interrupted"})
MARKS = {"passed": "✓", "failed": "✗", "timeout": "t", "skipped": "s", "unresolvable": "u", "error": "e"}
MARKS["not_run"] = "·"  # a test's status on the page
EQUAL, BEHIND = "may be equal", "clearly behind"  # how a model stands to the first
DRAWS, SEED = 2000, 95  # of the critical difference, so that the same reports always print the same numbers
FEWEST, FEWEST_RANKED = 5, 6  # repositories for an interval, and for a critical difference
NOTHING, CHANCE = 1e-9, 0.01  # a difference that is none, but for the last bits; that a test was passed so
MAX_BYTES = 20_000_000  # of a report; the evaluator keeps them under a million
NAME, MESSAGE, OUTPUT, PARAMS = 1000, 300, 1000, 120  # characters; a longer name is refused, the rest is cut
TESTS, NOTES = 4000, 10  # on one page: tests in tables; reports left out that are named
ROOM, DROPPED = (
    1_700_000,
    "<dd class=d>",
)  # bytes for what failed on one page, and in place of what has no room
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.html")
ITEM = ["", "models", "passed", "note"]
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
    place: str  # the file as others may see it: from the folder that was given
    started: str
    conditions: Mapping[str, str]  # what moves scores, by its name; what the report does not say is not there
    outcome: str
    build_seconds: float | None
    image_size: float | None  # bytes
    message: str
    log: str
    tests: Sequence[Test]
    score: float | None = None  # the share of points, 0 for a build that failed, None where it is no score
    points: float = 0
    max_points: float = 0
    passed: int = 0  # tests
    is_solved: bool = False  # all of them


# -------- Statistics: plain functions of numbers ----------------------------------------------


def mean(values: Iterable[float | None], of: Callable[[list[float]], float] | None = None) -> float | None:
    """Return the arithmetic mean, or another middle, of what is not None; None where nothing is left."""
    found = [value for value in values if value is not None]
    return (of(found) if of else math.fsum(found) / len(found)) if found else None


@functools.lru_cache(maxsize=None)
def t_quantile(df: int) -> float:
    """Return the t that 95 % of Student's distribution with `df` degrees of freedom lie within, on both sides.

    By bisection of the angle in its finite series (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    low, high, odd = 0.0, math.pi / 2, df % 2
    for _ in range(60):
        angle = (low + high) / 2
        term, total = math.sin(angle) * math.cos(angle) ** odd, 0.0
        for at in range(2 + odd, df + 1, 2):
            total += term
            term *= math.cos(angle) ** 2 * (at - 1) / at
        share = (angle + total) * 2 / math.pi if odd else total
        low, high = (angle, high) if share < 0.95 else (low, angle)  # noqa: PLR2004, of the 95 %
    return math.tan(high) * math.sqrt(df)


def interval(values: Iterable[float], least: float = 0) -> Interval | None:
    """Return Student's 95 % interval of a mean, cut at `least` and 1; None under five values or if all are equal."""
    found = list(values)
    if len(found) < FEWEST or max(found) - min(found) < NOTHING:
        return None
    middle = math.fsum(found) / len(found)
    half = t_quantile(len(found) - 1) * statistics.stdev(found) / math.sqrt(len(found))
    return max(middle - half, least), min(middle + half, 1)


def critical_difference(rows: Sequence[Sequence[float]]) -> float:
    """Return how far apart the best and the worst of equal models are by chance, on 19 of 20 boards.

    `rows` holds scores by model and repository. In each repository the models' residuals are exchanged at
    random, which makes boards of equal models; of the ranges of their means it is the 95th percentile.
    """
    models, repos = len(rows), len(rows[0])
    fit = math.sqrt(models * repos / ((models - 1) * (repos - 1)))  # for what the means took of the residuals
    residuals = [[(score - math.fsum(row) / repos) * fit for score in row] for row in rows]
    columns = sorted(sorted(column) for column in zip(*residuals))  # whatever the order of names
    draw = random.Random(SEED).random  # noqa: S311, no secret
    ranges = []
    for _ in range(DRAWS):
        sums = [*map(sum, zip(*(sorted(column, key=lambda _residual: draw()) for column in columns)))]
        ranges.append((max(sums) - min(sums)) / repos)
    return sorted(ranges)[DRAWS * 95 // 100]


def differences(first: Mapping[str, float], second: Mapping[str, float]) -> list[float]:
    """Return the differences first - second of scores in the repositories that both have."""
    return [score - second[repo] for repo, score in first.items() if repo in second]


def pass_all(samples: int, solved: int, k: int) -> float:
    """Return the chance that all of k samples are solved: C(solved, k) / C(samples, k)."""
    if not 1 <= k <= samples:
        raise ValueError(f"k is {k}; expected 1 to {samples}, the number of samples")
    return functools.reduce(lambda chance, at: chance * max(solved - at, 0) / (samples - at), range(k), 1.0)


def pass_at_k(samples: int, solved: int, k: int) -> float:
    """Return the chance that one of k samples is solved: 1 - C(samples - solved, k) / C(samples, k)."""
    return 1 - pass_all(samples, samples - solved, k)


def chance_as_low(passes: Sequence[bool], values: Sequence[float]) -> float:
    """Return how probable it is that those who pass rank as low by their values, were it chance who passes.

    This is the exact rank-sum test on one side. A whole number counts the choices of so many ranks by their
    sum: it is a polynomial, of which each coefficient has `width` bits, so that none overflows.
    """
    values = [round(value, 9) for value in values]
    ranks = [sum((value > other) + (value >= other) for other in values) for value in values]
    width, counts = len(ranks) + 1, [1] + [0] * sum(passes)  # by how many are chosen
    for rank in ranks:
        for chosen in range(sum(passes), 0, -1):
            counts[chosen] += counts[chosen - 1] << rank * width
    ours = sum(rank for rank, passed in zip(ranks, passes) if passed)
    as_low = counts[-1] & ((1 << (ours + 1) * width) - 1)
    return as_low % ((1 << width) - 1) / (counts[-1] % ((1 << width) - 1))  # each the sum of coefficients


# -------- Reading: reports are other people's files -------------------------------------------


def read_reports(paths: Iterable[str], *, samples: bool = False) -> tuple[list[Report], list[str]]:
    """Return the reports in files, folders and NAME=FOLDER, and why others were left out."""
    reports: dict[tuple[str, str, str], Report] = {}
    owners: dict[str, str] = {}
    left_out: list[str] = []
    for path, place, model, sample in _files(paths, left_out, samples=samples):
        real, owner = os.path.realpath(path), f"{model}/{sample}".rstrip("/")
        first = owners.get(real)
        if first == owner:  # a folder given twice
            continue
        try:
            if first:
                raise ValueError(f"the same file as one of {first}")
            owners[real] = owner
            report = _read(path, place, model, sample)
            other = reports.setdefault((report.model, report.repo, report.sample), report)
            if other is not report:
                raise ValueError(f"a second report on {report.repo} in {owner}; {other.place} is taken")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            left_out.append(f"{place}: {_reason(error)}")
    return [reports[key] for key in sorted(reports)], [*map(_line, left_out)]


def _files(
    paths: Iterable[str], left_out: list[str], *, samples: bool
) -> Iterator[tuple[str, str, str, str]]:
    """Yield each file, its place in the folder given (no path of a machine is published), model and sample."""
    for given in paths:
        name, is_named, path = given.partition("=")
        name, path = (f"{name}/", path) if is_named and not os.path.exists(given) else ("", given)
        is_folder = os.path.isdir(path)
        root = os.path.abspath(path if is_folder else os.path.dirname(path))
        unread: list[OSError] = []
        files = _walk(path, unread) if is_folder else [path]
        base = os.path.basename(root)
        left_out += [f"{base}/{os.path.relpath(e.filename, root)}: {e.strerror}" for e in unread]
        folders = [os.path.relpath(os.path.abspath(file), root).split(os.sep)[:-1] for file in files]
        deepest = max(map(len, folders), default=0)
        for file, names in zip(files, folders):
            place = "/".join([base, *names, os.path.basename(file)])
            if samples and len(names) < 2 <= deepest:  # noqa: PLR2004, a model and a sample
                left_out.append(f"{place}: in no folder of a sample, as others are")
                continue
            above = ["", *root.split(os.sep)]
            sample = (names or above).pop() if samples else ""
            yield file, place, name + ("/".join(names) or above[-1]), sample


def _walk(path: str, unread: list[OSError]) -> list[str]:
    """Return the reports in a folder, those last that links lead to; no link is followed in a circle."""
    found = []
    for folder, folders, names in os.walk(path, onerror=unread.append, followlinks=True):
        here = os.path.join(os.path.realpath(folder), "")
        inner = {name: os.path.join(os.path.realpath(os.path.join(folder, name)), "") for name in folders}
        folders[:] = [n for n in folders if not (n.startswith(".") or here.startswith(inner[n]))]
        found += [os.path.join(folder, n) for n in names if n.endswith(".json") and not n.startswith(".")]
    return sorted(found, key=lambda file: (os.path.realpath(file) != os.path.abspath(file), file))


def _read(path: str, place: str, model: str, sample: str) -> Report:
    """Read one report; raise ValueError, KeyError, TypeError or AttributeError where it is none of ours."""
    if not os.path.isfile(path):
        raise ValueError("no regular file")
    if os.path.getsize(path) > MAX_BYTES:
        raise ValueError(f"over {MAX_BYTES // 1_000_000} MB, larger than any report")
    with open(path, encoding="utf-8-sig") as file:
        report = json.load(file)
    environment, build, error = report["environment"], report["build"], report["error"]
    version = str(environment["evaluator_version"])
    if not version.startswith(VERSION):
        raise ValueError(f"written by version {version[:40]}; expected {VERSION}x")
    tests = [_test(test) for test in report["test_results"]]
    outcome = SCORED if error is None else OUTCOMES[error["kind"]]
    if outcome == SCORED and any(test.status in ("error", "not_run") for test in tests):
        outcome = ENGINE_FAULT
    if len({test.test_id for test in tests}) < len(tests):
        raise ValueError("a test is there twice")
    whose = (_line(model), _line(sample), _line(report["repo"], NAME, cut=False), path, _line(place))
    how = (_line(environment["started_at"], PARAMS), _conditions(environment), outcome)
    measured = (_known(build, "execution_time"), _known(environment, "image_size"))
    why = (_line(error["message"], MESSAGE) if error else "", _tail(build["log"]) * (outcome == BUILD_FAILED))
    made = _scored(Report(*whose, *how, *measured, *why, tests))
    by_tests = {"max_score": made.max_points, "total_score": made.points, "passed_tests": made.passed}
    for key, found in {**by_tests, "total_tests": len(tests)}.items():
        said = _number(report["summary"], key)
        if not math.isclose(said, found, rel_tol=1e-6):
            raise ValueError(f"{key} is {said:g}, but {found:g} by its tests")
    if not made.max_points or (made.points and outcome == BUILD_FAILED):
        raise ValueError(
            "points without a build" if made.points else "a rubric without points gives no score"
        )
    return made


def _scored(report: Report) -> Report:
    """Return a report with the numbers that its outcome and its tests make."""
    points, most = (
        math.fsum(getattr(test, name) for test in report.tests) for name in ("score", "max_score")
    )
    score = points / most if most and report.outcome in (SCORED, BUILD_FAILED) else None
    passed = sum(test.status == "passed" for test in report.tests)
    is_solved = report.outcome == SCORED and passed == len(report.tests)
    return report._replace(score=score, points=points, max_points=most, passed=passed, is_solved=is_solved)


def _conditions(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return what moves scores; what an older report does not say is not there."""
    names = {"evaluator_version": "evaluator", "docker_server": "engine", "engine_cpus": "processors"}
    names.update(engine_memory="memory", options_sha256="hidden option values", rubric_sha256="rubric")
    names.update(
        {name: name.replace("_", " ") for name in ("platform", "builder", "build_options", "run_options")}
    )
    found = {title: environment.get(name) for name, title in names.items()}
    found["memory"] = f"{(_known(environment, 'engine_memory') or 0) / 2**30:.0f} GiB".replace("0 GiB", "")
    lists = {
        name: " ".join(map(str, value)) or "none" for name, value in found.items() if isinstance(value, list)
    }
    return {name: _line(str(value), PARAMS) for name, value in {**found, **lists}.items() if value}


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


def _known(values: Mapping[str, Any], key: str) -> float | None:
    try:
        return _number(values, key)
    except (KeyError, ValueError):
        return None


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
    score: float | None  # the mean over repositories
    interval: Interval | None
    bounds: Interval  # of the score, with what is missing as 0, and as 1
    solved: int  # repositories in which a sample passes all tests
    pass_at_k: float | None
    pass_all: float | None
    built: int
    evaluated: int  # reports that have a score, 0 for a failed build included
    reports: int  # that there should be: each sample of this model in each repository of the board
    missing: Mapping[str, int]  # reports without a score, by the reason
    build_seconds: float | None  # medians over what was built
    image_size: float | None
    categories: Mapping[str, float | None]  # the share of their points
    scores: Mapping[str, float]  # by repository, of those that have one: the mean over samples


class Item(NamedTuple):
    """How the models did in one test of a repository."""

    test: Test
    models: int  # whose image was built and tested
    share: float  # of these that pass
    note: str
    chance: float = 1  # that those who pass are as weak in the other tests

    def words(self) -> list[str]:
        """Return the columns of a table, to the titles ITEM after the first."""
        return [str(self.models), percent(self.share, 0), self.note]


def scores_by_model(reports: Iterable[Report]) -> dict[str, float | None]:
    """Return the score of each model, the best first; None where it has none."""
    return {row.model: row.score for row in Board(reports).rows}


def _scores(reports: Iterable[Report]) -> list[float]:
    return [report.score for report in reports if report.score is not None]


def _category_share(report: Report, category: str) -> float | None:
    tests = [test for test in report.tests if test.category == category and report.score is not None]
    most = math.fsum(test.max_score for test in tests)
    return math.fsum(test.score for test in tests) / most if most else None


def unequal_conditions(reports: Iterable[Report]) -> str:
    """Name what moves scores and differs between the reports that have one, and who differs from most."""
    found: dict[str, dict[str, list[str]]] = {}  # by condition and value: the model of each report
    for report in reports:
        for name, value in report.conditions.items() if report.score is not None else ():
            condition = f"rubric of {report.repo}" if name == "rubric" else name
            major = value.split(".")[0] if name == "engine" else value
            found.setdefault(condition, {}).setdefault(major[:60], []).append(report.model)
    if any(len(found.get(name, ())) > 1 for name in ("build options", "run options")):
        found.pop("hidden option values", None)  # which then differ as well
    told = []
    for condition, by_value in found.items():
        (usual, _), *others = sorted(by_value.items(), key=lambda item: -len(item[1]))
        words = [f"{value} for {listed(sorted({*models}), 3)}" for value, models in others]
        told += [f"{condition}: {listed(words, 3)}, {usual} for most"] * bool(others)
    return listed(told, 8, "; ")


def hold_against_nobody(reports: Iterable[Report], reference: str) -> tuple[list[Report], list[str]]:
    """Leave out the row of known solutions, and in each repository the tests that these do not pass.

    Return the other reports, scored by the tests that are left, and notes of what is not.
    """
    passed: dict[
        str, dict[str, float]
    ] = {}  # points by test, of repositories on which the reference has a score
    for report in reports:
        if report.model == reference and report.score is not None:
            solved = {test.test_id: test.max_score for test in report.tests if test.status == "passed"}
            passed.setdefault(report.repo, {}).update(solved)
    kept: list[Report] = []
    unsolved: dict[str, dict[str, str]] = {}  # by repository, in their order
    for report in reports:
        if report.model != reference:
            solved = passed.get(report.repo, {test.test_id: 1.0 for test in report.tests})
            lost = {test.test_id: report.repo for test in report.tests if test.test_id not in solved}
            unsolved.setdefault(report.repo, {}).update(lost)
            made = _scored(report._replace(tests=[test for test in report.tests if test.test_id in solved]))
            is_other = report.score is not None and not made.max_points
            kept += [made._replace(outcome=OTHER_RUBRIC) if is_other else made] * any(solved.values())
    gone = [repo for repo in unsolved if repo in passed and not any(passed[repo].values())]
    held = [f"{repo} ({', '.join(lost)})" for repo, lost in unsolved.items() if lost and repo not in gone]
    notes = {f"held against nobody, since {reference} does not pass it": held}
    notes[f"not on the board, since {reference} passes none of its tests"] = gone
    notes[f"counted in full, since {reference} has no score there"] = [r for r in unsolved if r not in passed]
    return kept, [f"{why}: {', '.join(sorted(what))}" for why, what in notes.items() if what]


class Board:
    """Rows of models, the best first, and columns of repositories, by name."""

    def __init__(self, reports: Iterable[Report], left_out: Sequence[str] = (), reference: str = "") -> None:
        """Sort the reports into rows and columns; note what no reader of the numbers should miss."""
        self.reports, self.reference = list(reports), reference
        self.notes = [f"left out: {line}" for line in left_out[:NOTES]]
        self.notes += [f"left out: {len(left_out) - NOTES} more"] * (len(left_out) > NOTES)
        differ = unequal_conditions(self.reports)
        self.notes += [f"warning: conditions differ: {differ}"] * bool(differ)
        if reference:
            self.reports, notes = hold_against_nobody(self.reports, reference)
            self.notes += notes
        # By model and repository: a report for each sample.
        self.cells: dict[tuple[str, str], list[Report]] = collections.defaultdict(list)
        samples: dict[str, set[str]] = collections.defaultdict(set)
        for report in self.reports:
            self.cells[report.model, report.repo].append(report)
            samples[report.model].add(report.sample)
        self.repos = sorted({report.repo for report in self.reports})
        self.categories = sorted({t.category for r in self.reports for t in r.tests} - {""})
        self.has_samples = any(report.sample for report in self.reports)
        name = re.compile(r"(?:(.*)/)?(?:sample|run|seed|try|trial|attempt|repeat)?[-_ ]?\d+")
        likely = [] if self.has_samples else [*filter(None, map(name.fullmatch, samples))]
        if len({match[1] for match in likely}) < len(likely):
            names = listed([match[0] for match in likely], 3)
            self.notes.append(f"warning: these look like samples of one model, see --samples: {names}")
        # k of pass@k: the samples that every row has, so that none has more tries than another.
        most = [max(len(_scores(self.cells[m, repo])) for repo in self.repos) for m in samples]
        self.k = min([count for count in most if count], default=1)
        rows = [self._row(model, len(names)) for model, names in samples.items()]
        # An incomplete row stands where its lower bound puts it, lest one good report lead the board.
        self.rows = sorted(rows, key=lambda row: (row.score is None, -row.bounds[0], row.model))
        self.complete = [row for row in self.rows if not row.missing]
        self.critical: float | None = None
        if len(self.complete) > 1 and len(self.repos) >= FEWEST_RANKED:
            self.critical = critical_difference([[*row.scores.values()] for row in self.complete])

    def standing(self, row: Row) -> str:
        """Return whether a row is the first, clearly behind it or may be equal; "-" where nothing tells."""
        if self.critical is None or row.missing:
            return "-" if self.critical is None else "incomplete"
        gap = (self.complete[0].score or 0) - (row.score or 0)
        return "first" if row is self.complete[0] else BEHIND if gap > self.critical + NOTHING else EQUAL

    def _row(self, model: str, samples: int) -> Row:
        cells = {repo: self.cells[model, repo] for repo in self.repos}
        scored = {repo: _scores(cell) for repo, cell in cells.items() if _scores(cell)}
        scores = {repo: math.fsum(found) / len(found) for repo, found in scored.items()}
        solved = {repo: sum(report.is_solved for report in cells[repo]) for repo in scored}
        # None where a repository has fewer: it would be the mean of those that were luckier with the engine.
        few = any(len(found) < self.k for found in scored.values())
        tries = [] if few else [(len(found), solved[repo], self.k) for repo, found in scored.items()]
        outcomes = collections.Counter(report.outcome for cell in cells.values() for report in cell)
        reports, evaluated = samples * len(cells), sum(map(len, scored.values()))
        missing = {why: n for why, n in sorted(outcomes.items()) if why not in (SCORED, BUILD_FAILED)}
        if reports > sum(outcomes.values()):
            missing["no report"] = reports - sum(outcomes.values())
        low = math.fsum(score for found in scored.values() for score in found) / reports
        middle = (mean(scores.values()), interval(scores.values()), (low, low + 1 - evaluated / reports))
        chances = (mean(pass_at_k(*counts) for counts in tries), mean(pass_all(*counts) for counts in tries))
        built = [report for cell in cells.values() for report in cell if report.outcome == SCORED]
        medians = (
            mean((r.build_seconds for r in built), of=statistics.median),
            mean((r.image_size for r in built), of=statistics.median),
        )
        shares = {
            name: mean(mean(_category_share(report, name) for report in cell) for cell in cells.values())
            for name in self.categories
        }
        counts = (len(built), evaluated, reports, missing)
        full = sum(count > 0 for count in solved.values())
        return Row(model, *middle, full, *chances, *counts, *medians, shares, scores)

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
            share = math.fsum(passes) / len(passes)
            chance = chance_as_low([passed > 1 / 2 for passed in passes], rests)  # most samples of a row pass
            note = "passed by the weaker" if chance < CHANCE else ""
            if len(passes) > 1 and share in (0, 1):
                note = "passed by all" if share else "passed by none"
            items.append(Item(tests[test_id], len(passes), share, note, chance))
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


def listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return names in a line, of too many the first and a count."""
    return between.join([*names[:most], *[f"{len(names) - most} more"] * (len(names) > most)])


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


def opening(reports: Sequence[Report], reference: str = "") -> list[str]:
    """Say in two lines what is compared."""
    sizes = [len({report.model for report in reports}), len({report.repo for report in reports})]
    sizes += [len({(report.repo, test.test_id) for report in reports for test in report.tests}), len(reports)]
    days = sorted(report.started[:10] for report in reports)
    told = {"days": [f"{days[0]} to {days[-1]}"], "reference": [reference] * bool(reference)}
    for name in ("evaluator", "engine"):
        told[name] = sorted({report.conditions[name] for report in reports if name in report.conditions})
    how = [f"{name}: {listed(values, 4)}" for name, values in told.items() if values]
    return ["models: {}; repositories: {}; tests: {}; reports: {}".format(*sizes), "; ".join(how)]


def _reasons(row: Row) -> str:
    return ", ".join(f"{count} {why}" for why, count in row.missing.items())


def row_words(board: Board, row: Row) -> dict[str, str]:
    """Return the columns of a row by their titles, without the repositories."""
    words = {"model": row.model, "score": percent(row.score), "95% interval": span(row.interval)}
    if not row.interval and len(row.scores) >= FEWEST:
        words["95% interval"] = "no spread"
    words["standing"] = board.standing(row)
    words["solved" if board.has_samples else "passed in full"] = f"{row.solved} of {len(row.scores)}"
    if board.has_samples:
        words.update({f"pass@{board.k}": percent(row.pass_at_k), f"pass^{board.k}": percent(row.pass_all)})
    words["built"] = f"{row.built} of {row.evaluated}"
    words["build time"] = "-" if row.build_seconds is None else f"{row.build_seconds:.1f} s"
    words["image size"] = "-" if row.image_size is None else f"{row.image_size / 1e6:.1f} MB"
    lack = f"{sum(row.missing.values())} of {row.reports} ({_reasons(row)}): {span(row.bounds)}"
    return {**words, "incomplete": lack if row.missing else "-"}


def tables(board: Board) -> dict[str, Table]:
    """Return the board as tables of words: models, categories; columns that say nothing of anybody are left out."""
    rows = [row_words(board, row) for row in board.rows]
    titles = [title for title in rows[0] if title == "score" or any(words[title] != "-" for words in rows)]
    means = [percent(mean(row.scores.get(repo) for row in board.rows)) for repo in board.repos]
    lines = [[*titles, *board.repos]]
    for row, words in zip(board.rows, rows):
        cells = [cell_words(board.cells[row.model, repo]) for repo in board.repos]
        lines.append([*map(words.__getitem__, titles), *cells])
    found = {"models": [*lines, ["mean", *[""] * (len(titles) - 1), *means]]}
    if board.categories:
        lines = [[r.model + " *" * bool(r.missing), *map(percent, r.categories.values())] for r in board.rows]
        found["categories"] = [["by category", *board.categories], *lines]
    return found


def verdict(board: Board) -> list[str]:
    """Answer in a few lines which model is better, and whether that is more than chance."""
    lines = [f"{row.model} is first with {percent(row.score)}" for row in board.complete[:1]]
    lines += [f"{row.model} is next with {percent(row.score)}" for row in board.complete[1:2]]
    lines = [", ".join(lines)] if lines else ["no model has a score in every repository"]
    if board.critical is not None:
        over = f"{len(board.repos)} repositories, {len(board.complete)} models"
        near = f"models less than {points(board.critical)[1:]} points apart may be equal"
        lines.append(f"{near} (critical difference, {over})")
        for standing, words in ((EQUAL, f"{EQUAL} to"), (BEHIND, BEHIND)):
            models = [row.model for row in board.rows if board.standing(row) == standing]
            lines += [f"{words} {board.complete[0].model}: {listed(models, 10)}"] * bool(models)
    elif len(board.complete) > 1:
        lines.append(f"under {FEWEST_RANKED} repositories nothing tells whether that is chance")
    lacking = [_known_of(row, board.complete[:1]) for row in board.rows if row.missing]
    return lines + lacking[:5] + [f"{len(lacking) - 5} more are incomplete"] * (len(lacking) > 5)


def _known_of(row: Row, first: Sequence[Row]) -> str:
    words = f"{row.model} is incomplete: its score lies within {span(row.bounds)}, whatever is missing"
    for other in first:
        score, gaps = other.score or 0, differences(row.scores, other.scores)
        low, high = (bound - score for bound in row.bounds)
        order = "ahead of" if low > NOTHING else "behind" if high < -NOTHING else "ahead of or behind"
        words += f", {order} {other.model}"
        if gaps:
            words += f"; by {points(mean(gaps) or 0)} points in the {len(gaps)} repositories that both have"
    return words


def text(board: Board, width: int = 100) -> str:
    """Return the board for a terminal; repositories that do not fit follow in further tables."""
    found, count = tables(board), len(board.repos)
    blocks = [
        _text_table(table, width, len(table[0]) - count if name == "models" else 1)
        for name, table in found.items()
    ]
    lines = ["\n".join(opening(board.reports, board.reference)), *blocks, "\n".join(verdict(board))]
    return "\n\n".join(lines) + "\n"


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
    told = [*opening(board.reports, board.reference), *verdict(board), *board.notes]
    blocks = ["".join(f"{escaped(line)}\n\n" for line in told)[:-1]]
    for head, *body in tables(board).values():
        lines = [
            map(escaped, head),
            ["---", *["---:"] * (len(head) - 1)],
            *(map(escaped, line) for line in body),
        ]
        blocks.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "\n".join(blocks)


def csv_of_models(board: Board) -> str:
    """Return a line for each model with all its numbers, shares from 0 to 1."""
    same = {"critical_difference": board.critical, "k": board.k}
    rows = [
        {**_columns(row), "missing": _reasons(row), "standing": board.standing(row)} for row in board.rows
    ]
    return _csv([{**same, **row} for row in rows])


def csv_of_reports(board: Board) -> str:
    """Return a line for each report; what is no score has none, so that no mean counts it."""
    none = {"points": None, "passed": None}
    return _csv([{**_columns(r), **(none if r.score is None else {})} for r in board.reports])


def csv_of_tests(board: Board) -> str:
    """Return a line for each test of each report, without a score where the report has none."""
    pairs = ((report, test) for report in board.reports for test in report.tests)
    names = ("model", "sample", "repo", "outcome")
    lines = [({name: getattr(r, name) for name in names}, _columns(test), r.score) for r, test in pairs]
    return _csv(
        [{**whose, **test, "score": None if none is None else test["score"]} for whose, test, none in lines]
    )


def _columns(record: Any) -> dict[str, Any]:
    """Return the fields of a record for CSV: a column for each end of an interval and each key of a mapping."""
    line: dict[str, Any] = {}
    for name, value in record._asdict().items():
        if name in ("interval", "bounds"):
            line.update(zip((f"{name.rstrip('s')}_low", f"{name.rstrip('s')}_high"), value or (None, None)))
        elif isinstance(value, dict):
            title = {"scores": "repo", "categories": "category"}.get(name, name)
            line.update({f"{title}: {key}": inner for key, inner in value.items()})
        elif name not in ("file", "log", "output", "tests"):
            line[name] = value
    return line


def _csv(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return CSV in which no spreadsheet finds a formula (OWASP, CSV injection), also where `;` ends a cell."""
    evil = re.compile(r"(^|;)(\s*[=+\-@|%\uff1d\uff0b\uff0d\uff20])")  # and their full-width forms
    out, names = io.StringIO(), {name: name for line in lines for name in line}
    for line in (names, *lines):
        cells = [round(cell, 6) + 0.0 if isinstance(cell, float) else cell for cell in map(line.get, names)]
        csv.writer(out).writerow([evil.sub(r"\1'\2", c) if isinstance(c, str) else c for c in cells])
    return out.getvalue()


def compare(board: Board, first: str, second: str) -> str:
    """Say how much better one model is, then test by test what one passes and the other does not."""
    ours, theirs = (next(row for row in board.rows if row.model == name) for name in (first, second))
    gaps = differences(ours.scores, theirs.scores)
    found, better, worse = (
        interval(gaps, -1),
        sum(gap > NOTHING for gap in gaps),
        sum(gap < -NOTHING for gap in gaps),
    )
    sure = (
        "no interval: the same in every repository"
        if len(gaps) >= FEWEST
        else f"no interval under {FEWEST} repositories"
    )
    if found:
        sure = "is clear" if found[0] > NOTHING or found[1] < -NOTHING else "may be chance"
        sure = f"95% interval {span(found, points)}; the difference {sure}"
    words = f"{points(mean(gaps) or 0)} points ({sure}); better in {better} of {len(gaps)} repositories, worse in {worse}"
    words = words if gaps else "no repository in which both have a score"
    both = [report for report in board.reports if report.model in (first, second)]
    lines = [f"{first} against {second}: {words}", *opening(both, board.reference), ""]
    for repo in board.repos:
        cells = {name: board.cells[name, repo] for name in (first, second)}
        lines += [f"{repo}: " + ", ".join(f"{name} {cell_words(cell)}" for name, cell in cells.items())]
        for report in cells[first] + cells[second]:
            why = f"  {'/'.join(filter(None, report[:2]))}: {report.message}"
            lines += [why] if report.outcome != SCORED else []
        lines += [*_passed_by(cells, first, second), *_passed_by(cells, second, first)]
    return "\n".join(lines) + "\n"


def _passed_by(cells: Mapping[str, Sequence[Report]], better: str, worse: str) -> Iterator[str]:
    """Yield what one of two models passes more often, and why the other does not; nothing where no build of it did."""
    runs: dict[str, dict[str, list[Test]]] = {better: {}, worse: {}}
    for model, found in runs.items():
        for report in cells[model] if any(report.outcome == SCORED for report in cells[model]) else ():
            for test in report.tests if report.score is not None else ():
                found.setdefault(test.test_id, []).append(test)
    for test_id, here in runs[better].items() if runs[worse] else ():
        there = runs[worse].get(test_id, [])
        passed, others = ([test.status == "passed" for test in tests] for tests in (here, there))
        if (mean(passed) or 0) > (mean(others) or 0):
            failed = [f"{test.status}: {test.message}" for test in there if test.status != "passed"]
            start = f"only {better} passes {test_id}; {worse}"
            if max(len(here), len(there)) > 1:
                start = (
                    f"{test_id}: {better} {sum(passed)} of {len(here)}, {worse} {sum(others)} of {len(there)}"
                )
            yield f"  {start}: {failed[0] if failed else 'no such test in its rubric'}"


def items_text(board: Board) -> str:
    """Return for each repository its tests, the share of models that pass, and which to look at."""
    blocks = ["\n".join(opening(board.reports, board.reference)) + "\n"]
    for repo in board.repos:
        table = [ITEM, *([item.test.test_id, *item.words()] for item in board.items(repo))]
        blocks.append(f"{repo}\n{_text_table(table, 0, len(ITEM))}\n")
    return "\n".join(blocks)


# -------- The page: one file, no network; cells are links, so that it works without JavaScript ----


def page(board: Board) -> str:
    """Return the board as HTML; page.html beside this file holds its frame, styles and script."""
    with open(PAGE, encoding="utf-8") as file:
        parts = re.split(r"^<!-- (\w+) -->\n", file.read(), flags=re.MULTILINE)
    fill = {name: string.Template(part).substitute for name, part in zip(parts[1::2], parts[2::2])}
    found, width = tables(board), len(board.repos)
    bars = [[line[0], "", *line[1:-width]] for line in found["models"][:-1]]
    heat = [[line[0], *line[-width:]] for line in found["models"]]
    near = {"first": "0", "near": "0", "words": ""}
    if board.critical is not None:
        first = board.complete[0].score or 0
        near = {"first": f"{first:.2%}", "near": f"{max(first - board.critical, 0):.2%}"}
        near["words"] = f"critical difference {points(board.critical)[1:]}"
    bar = [_bar(row, board.standing(row), fill["bar"]) for row in board.rows]
    table = _table(bars, lambda y, x, words: f"<td>{escape(words)}" if x else bar[y])
    pieces: list[str] = []
    for at, repo in enumerate(board.repos):
        inner, tests = _section(board, at)
        before, after = fill["section"](id=f"p{at}", name=escape(repo), articles="\0", tests=tests).split(
            "\0"
        )
        pieces += [before, *inner, after]
    spare = ROOM - sum(len(piece.encode()) for piece in pieces)
    for at in sorted(range(len(pieces)), key=lambda at: -len(pieces[at])):  # the longest go first
        if spare < 0 and pieces[at].startswith(("<dd>", "<pre>")):
            spare += len(pieces[at].encode()) - len(DROPPED)
            pieces[at] = DROPPED
    dropped = pieces.count(DROPPED)
    lost = [f"no room on this page for the longest {dropped} messages and outputs"] * bool(dropped)
    return fill["page"](
        near,
        name=max(len(row.model) for row in board.rows) + 1,
        opening="<br>".join(map(escape, opening(board.reports, board.reference))),
        verdict="".join(f"<p>{escape(line)}" for line in verdict(board)),
        notes="".join(f'<p class="caution">{escape(line)}' for line in board.notes + lost),
        board=table.replace("<button></button>", fill["ruler"](near), 1),
        heat=_table(heat[:-1], lambda y, x, words: _heat(words, f"p{x}m{y}" * (words != "-"))),
        means="".join(_heat(words, f"p{at}") for at, words in enumerate(heat[-1][1:])),
        categories=_table(found.get("categories", []), lambda _y, _x, words: _heat(words)),
        sections="".join(pieces),
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


def _bar(row: Row, standing: str, fill: Callable[..., str]) -> str:
    """Return a score as a bar, its interval as a whisker, and the bounds of an incomplete row."""
    kind = " behind" * (standing == BEHIND) + " point" * (not row.interval) + " whole" * (not row.missing)
    ends = (row.score or 0, *(row.interval or (0, 0)), *row.bounds)
    names = ("score", "low", "high", "least", "most")
    return fill({name: f"{end:.2%}" for name, end in zip(names, ends)}, kind=kind.strip())


def _section(board: Board, at: int) -> tuple[list[str], str]:
    """Return the reports on a repository as pieces of HTML, and the matrix of its tests by models."""
    pieces: list[str] = []
    tests: dict[str, Test] = {}
    marks: dict[tuple[str, int], str] = collections.defaultdict(str)  # of the samples, by test and row
    for y, row in enumerate(board.rows):
        cell = board.cells[row.model, board.repos[at]]
        words = escape(f"{row.model}: {cell_words(cell)}")
        pieces += [f'<article id="p{at}m{y}"><h3>{words}</h3>'] * bool(cell)
        for report in cell:
            pieces += _details(report)
            for test in report.tests:
                marks[tests.setdefault(test.test_id, test).test_id, y] += MARKS[test.status]
        pieces += ["</article>"] * bool(cell)
    items = {item.test.test_id: item for item in board.items(board.repos[at])}
    ends = len(ITEM), len(ITEM) + len(board.rows)

    def mark(_: int, x: int, words: str) -> str:
        failed = (
            ends[0] - 2 < x < ends[1] - 1 and MARKS["passed"] not in words and words.strip(MARKS["not_run"])
        )
        return f"<td{' class=f' * bool(failed)}>{escape(words)}"

    lines = [["test", "points", *ITEM[2:], *(row.model for row in board.rows), "asks for"]]
    most = max(5, TESTS // len(board.repos))  # those that tell models apart first
    shown = sorted(tests, key=lambda name: name in items and items[name].note == "passed by all")[:most]
    for name in sorted(shown, key=[*tests].index):
        about = items[name].words()[1:] if name in items else ["-", "-"]
        row_marks = [marks[name, y] for y in range(len(board.rows))]
        lines.append([name, f"{tests[name].max_score:g}", *about, *row_marks, tests[name].asks])
    if len(tests) > most:
        lines.append([f"{len(tests) - most} more: see --items", *[""] * (len(lines[0]) - 1)])
    return pieces, _table(lines, mark)


def _details(report: Report) -> Iterator[str]:
    """Yield why tests failed, or the build, in pieces; <dd> and <pre> are what a page can do without."""
    words = f"{report.sample}: {cell_words([report._replace(sample='')])}" * bool(report.sample)
    yield f"<p><b>{escape(words)}</b> {escape(report.message)}</p>"
    yield f"<pre>{escape(report.log)}</pre>" if report.log else ""
    failed = [test for test in report.tests if test.status not in ("passed", "not_run")]
    for test in sorted(failed, key=lambda test: test.status == "skipped"):
        yield f"<dt><b>{escape(test.test_id)}</b> {test.status}"
        yield f"<dd>{escape(test.message)}" if test.message else ""
        yield f"<pre>{escape(test.output)}</pre>" if test.output else ""


# -------- Command line ------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Read reports, print and write the board; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "reports",
        nargs="+",
        metavar="REPORTS",
        help="reports, folders of them, or NAME=FOLDER for NAME/MODEL",
    )
    add("--samples", action="store_true", help="the last folder of a report is a sample of its model")
    add("--reference", metavar="MODEL", help="known solutions: what they do not pass is held against nobody")
    add("--html", metavar="FILE", help="write a page with bars, heat map, and the tests behind them")
    add("--csv", metavar="FILE", help="write a line for each model")
    add("--reports-csv", metavar="FILE", help="write a line for each report")
    add("--tests-csv", metavar="FILE", help="write a line for each test of each report")
    add("--markdown", metavar="FILE", help="write the tables as Markdown")
    add("--compare", nargs=2, metavar="MODEL", help="print the paired difference, and what only one passes")
    add("--items", action="store_true", help="print the tests of each repository, and which to look at")
    arguments = parser.parse_args(argv)
    sys.stdout, sys.stderr = (s or open(os.devnull, "w") for s in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # names and messages come in any script
    reports, left_out = read_reports(arguments.reports, samples=arguments.samples)
    models = sorted({report.model for report in reports})
    if reports and arguments.reference and arguments.reference not in models:
        parser.error(f"no model {arguments.reference!r}; there are: {', '.join(models)}")
    board = Board(reports, left_out, arguments.reference or "")
    notes = board.notes if board.reports else [*board.notes, "no report is left"]
    print("".join(note + "\n" for note in notes), end="", file=sys.stderr)
    if not board.reports:
        return 1
    models, named = [row.model for row in board.rows], arguments.compare or ()
    for model in named:
        if model not in models:
            parser.error(f"no model {model!r}; there are: {', '.join(models)}")
    if named and named[0] == named[1]:
        parser.error(f"{named[0]!r} against itself: nothing to compare")
    try:
        _write(board, arguments)
    except OSError as error:
        print(f"cannot write: {error}", file=sys.stderr)
        return 1
    return 0


def _write(board: Board, arguments: argparse.Namespace) -> None:
    writers = {"html": page, "csv": csv_of_models, "reports_csv": csv_of_reports, "tests_csv": csv_of_tests}
    for name, make in {**writers, "markdown": markdown}.items():
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
