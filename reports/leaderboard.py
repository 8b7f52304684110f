#!/usr/bin/env python3
"""Compare models by the reports on their Dockerfiles.

    read_reports()  reads and checks the files
    make_board()    the numbers: a row for each model, the critical difference, who stands where
    board_table(), repo_table()  the words, which text, Markdown and page share
    as_text(), as_markdown(), as_page(), as_csv()

The folder of a report is its model. A failed build scores 0; an engine, registry or usage error and
an interrupt leave no score. Files that are not valid reports are named and left out.

Exit codes: 0 printed; 1 no valid report, or a file cannot be written; 2 usage error; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import collections
import csv
import io
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import string
import sys
from html import escape
from statistics import mean, median, stdev
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import DockerfileEvaluator as de

# ---------------------------------------------------------------------------------------------
# Statistics: functions of numbers; a score is a share of points, from 0 to 1
# ---------------------------------------------------------------------------------------------

MIN_INTERVAL = 5  # repositories for a confidence interval
MIN_CRITICAL = 6  # repositories for a critical difference
MIN_MODELS = 2  # complete models for a critical difference
CONFIDENCE = 0.95
DRAWS = 2000  # random boards for a critical difference
SEED = 95  # makes it reproducible
EPSILON = 1e-9  # smaller differences are rounding errors


def t_quantile(df: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution with `df` degrees of freedom.

    The probability of -t…t is a finite series in the angle atan(t / sqrt(df)) (Abramowitz and
    Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4). The angle is found by bisection.
    """
    low = 0.0
    high = math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if _t_probability(middle, df) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return math.tan(high) * math.sqrt(df)


def _t_probability(angle: float, df: int) -> float:
    """Return the probability of -t…t for the angle atan(t / sqrt(df))."""
    is_odd = df % 2
    total = 0.0
    term: float = math.sin(angle)
    if is_odd:
        term *= math.cos(angle)
    for n in range(2 + is_odd, df + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (n - 1) / n
    if is_odd:
        total = (angle + total) * 2 / math.pi
    return total


def t_interval(values: Sequence[float], minimum: float = 0.0) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of a mean by Student's t, clipped to `minimum` and 1.

    None for fewer than MIN_INTERVAL values and for equal ones: ten scores of 100 % do not prove
    100 %.
    """
    if len(values) < MIN_INTERVAL or max(values) - min(values) < EPSILON:
        return None
    middle = mean(values)
    half = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return max(middle - half, minimum), min(middle + half, 1.0)


def critical_difference(rows: Sequence[Sequence[float]]) -> float:
    """Return the gap of best and worst mean that equal models exceed on at most 5 % of boards.

    A row has the scores of one model, all for the same repositories. Boards of equal models are
    made by permuting the models' residuals within each repository; the result is the 95th
    percentile of the range of their means. It serves all pairs of models, as in Demšar, Statistical
    Comparisons of Classifiers over Multiple Data Sets, JMLR 7 (2006), but for means of scores
    instead of ranks.
    """
    models = len(rows)
    repos = len(rows[0])
    # Residuals vary less than errors: they have (models - 1) * (repos - 1) degrees of freedom. For
    # few models this is more than a permutation needs, which makes the test careful: two equal
    # models with 20 repositories are told apart on 2 % of boards.
    scale = math.sqrt(models * repos / ((models - 1) * (repos - 1)))
    residuals = []
    for row in rows:
        average = mean(row)
        residuals.append([(score - average) * scale for score in row])
    # Sorted, so that the order of the models has no influence.
    columns = sorted(sorted(column) for column in zip(*residuals))

    draw = random.Random(SEED).random  # noqa: S311
    ranges: list[float] = []
    for _ in range(DRAWS):
        permuted = [sorted(column, key=lambda _: draw()) for column in columns]
        sums = [sum(row) for row in zip(*permuted)]
        ranges.append((max(sums) - min(sums)) / repos)
    return sorted(ranges)[int(DRAWS * CONFIDENCE)]


def pass_all(samples: int, solved: int, k: int) -> float:
    """Return pass^k, the probability that k of the samples, drawn at random, are all solved.

    C(solved, k) / C(samples, k), unbiased (Yao et al., tau-bench, 2024, arXiv 2406.12045).
    """
    probability = 1.0
    for n in range(k):
        probability *= max(solved - n, 0) / (samples - n)
    return probability


def pass_at_least_one(samples: int, solved: int, k: int) -> float:
    """Return pass@k, the probability that at least one of k samples is solved.

    Chen et al., Evaluating Large Language Models Trained on Code, 2021, arXiv 2107.03374.
    """
    return 1 - pass_all(samples, samples - solved, k)


# ---------------------------------------------------------------------------------------------
# Reports: files of other people, which are checked
# ---------------------------------------------------------------------------------------------

MAJOR_VERSION = "2"  # of the evaluator whose reports are read
MAX_FILE = 20_000_000  # bytes; reports are far smaller, as the evaluator limits what it keeps
MAX_TEXT = 300  # characters of names and messages
MAX_OUTPUT = 1000  # characters at the end of logs and outputs, and of parameters
MAX_NUMBER = 1e100
ROUNDING = 1e-6  # between a sum of scores and the sum in the report
MAX_LEFT_OUT = 20  # files that are named

# How an evaluation ended, in words, by the kind of its error.
OUTCOMES = {"": "scored", **{kind: what.text for kind, what in de.ERROR_KINDS.items()}}
# What influences scores, times or sizes: fields of the report's environment, with blanks.
CONDITIONS = (
    "evaluator version",
    "docker server",
    "builder",
    "storage driver",
    "platform",
    "engine cpus",
    "engine memory",
    "security options",
    "open files",
    "build options",
    "run options",
    "offline",
    "jobs",
    "build timeout",
    "start timeout",
)
SUMMARY = ("total_tests", "passed_tests", "failed_tests", "success_rate", "total_execution_time")
TEXT = (str,)  # a name or message; without control characters
NUMBER = (int, float)  # not negative, not infinite
REQUIRED = object()


def field(values: Any, path: str, expected: Any, default: Any = REQUIRED) -> Any:
    """Return the value at a dotted path of a JSON object.

    If it is missing or has another type, return the default; raise ValueError if there is none.
    """
    for key in path.split("."):
        values = values.get(key, REQUIRED) if isinstance(values, dict) else REQUIRED
    is_valid = isinstance(values, expected)
    if is_valid and expected is NUMBER:
        is_valid = not isinstance(values, bool) and 0 <= values < MAX_NUMBER
    if is_valid:
        return de.printable(values, MAX_TEXT) if expected is TEXT else values
    if default is REQUIRED:
        found = "missing" if values is REQUIRED else de.printable(as_json(values), 40)
        raise ValueError(f"not a report: {path} is {found}")
    return default


def as_json(value: Any) -> str:
    """Return a value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False)


class Test(NamedTuple):
    """One test of a report."""

    id: str
    type: str
    category: str
    params: str  # as JSON, its beginning
    status: str
    passed: bool
    message: str
    output: str  # its end
    score: float
    max_score: float


def read_test(row: Any) -> Test:
    """Return one of the report's test_results; raise ValueError if it is broken."""
    field(row, "execution_time", NUMBER)
    test = Test(
        id=field(row, "test_id", TEXT),
        type=sys.intern(field(row, "test_type", TEXT)),
        category=sys.intern(field(row, "category", TEXT, "")),
        params=as_json(field(row, "params", dict, {}))[:MAX_OUTPUT],
        status=sys.intern(field(row, "status", TEXT)),
        passed=field(row, "passed", bool),
        message=field(row, "message", TEXT),
        output=field(row, "output", str, "")[-MAX_OUTPUT:],
        score=field(row, "score", NUMBER),
        max_score=field(row, "max_score", NUMBER),
    )
    expected_score = test.max_score if test.passed else 0
    if test.passed != (test.status == "passed") or test.score != expected_score:
        raise ValueError(f"contradictory: test {test.id} {test.status}, score {test.score}")
    return test


class Report(NamedTuple):
    """One evaluation."""

    place: str  # the path below the folder that was given
    model: str
    sample: str
    repo: str
    kind: str  # of the error, "" if there is none
    message: str  # of the error
    log: str  # the end of the build log
    started_at: str
    build_seconds: float | None
    image_size: float | None  # bytes
    conditions: dict[str, str]
    tests: tuple[Test, ...]
    max_points: float = 0.0
    score: float | None = None  # the share of points; None if there is none

    @property
    def has_score(self) -> bool:
        """Whether the kind of its error leaves a score."""
        return not self.kind or de.ERROR_KINDS[self.kind].has_score

    @property
    def is_failed_build(self) -> bool:
        """Whether it scores 0 because the build failed or timed out."""
        return bool(self.kind) and self.has_score

    @property
    def is_solved(self) -> bool:
        """Whether all tests passed."""
        return not self.kind and all(test.passed for test in self.tests)

    def with_tests(self, tests: Sequence[Test]) -> Report:
        """Return the report as if it had these tests only."""
        max_points = math.fsum(test.max_score for test in tests)
        score = None
        if max_points and self.has_score:
            score = math.fsum(test.score for test in tests) / max_points
        return self._replace(tests=tuple(tests), max_points=max_points, score=score)


def read_report(content: Any, *, place: str, model: str, sample: str) -> Report:
    """Return a report; raise ValueError if it is broken, contradictory or of another version."""
    version = field(content, "environment.evaluator_version", TEXT)
    if version.partition(".")[0] != MAJOR_VERSION:
        raise ValueError(f"written by version {version}, expected {MAJOR_VERSION}.x")
    field(content, "dockerfile", str)
    field(content, "rubric", str)
    field(content, "summary.max_score", NUMBER)
    repo = field(content, "repo", TEXT)
    kind = ""
    message = ""
    if field(content, "error", (dict, type(None))) is not None:
        kind = field(content, "error.kind", TEXT)
        message = field(content, "error.message", TEXT)
        if kind not in de.ERROR_KINDS:
            raise ValueError(f"unknown error.kind '{kind}'")
    report = Report(
        place=place,
        model=sys.intern(model),
        sample=sys.intern(sample),
        repo=sys.intern(repo),
        kind=kind,
        message=message,
        log=field(content, "build.log", str, "")[-MAX_OUTPUT:],
        started_at=field(content, "environment.started_at", TEXT, ""),
        build_seconds=field(content, "build.execution_time", NUMBER, None),
        image_size=field(content, "environment.image_size", NUMBER, None),
        conditions=read_conditions(content, repo),
        tests=(),
    )
    report = report.with_tests([read_test(row) for row in field(content, "test_results", list)])
    check_sums(report, content)
    check_tests(report)
    return report


def check_sums(report: Report, content: Any) -> None:
    """Raise ValueError if the summary is not that of the tests."""
    expected = {"max_score": report.max_points}
    if report.has_score:  # otherwise there is no total and no rate
        expected["total_score"] = math.fsum(test.score for test in report.tests)
        for name in SUMMARY:
            field(content, f"summary.{name}", NUMBER)
    for name, value in expected.items():
        difference = abs(field(content, f"summary.{name}", NUMBER) - value)
        if difference > ROUNDING or not report.max_points:
            message = "max_score is 0, or the scores are not those of the tests"
            raise ValueError(f"contradictory: {message}")


def check_tests(report: Report) -> None:
    """Raise ValueError if the tests contradict each other or the error."""
    tests = report.tests
    if len({test.id for test in tests}) < len(tests):
        raise ValueError("contradictory: a test_id is given twice")
    if not report.kind and any(test.status in ("error", "not_run") for test in tests):
        raise ValueError("contradictory: tests without a result, but no error")
    if report.is_failed_build and any(test.passed for test in tests):
        raise ValueError("contradictory: tests passed, but the build failed")


def read_conditions(content: Any, repo: str) -> dict[str, str]:
    """Return the conditions of an evaluation that are known, as texts that can be compared."""
    environment = content["environment"]
    values = {name: environment.get(name.replace(" ", "_")) for name in CONDITIONS}
    memory = field(environment, "engine_memory", NUMBER, 0)  # bytes
    values["engine memory"] = f"{memory / 2**30:.0f} GiB" if memory else None
    server = field(environment, "docker_server", TEXT, "")
    values["docker server"] = server.partition(".")[0]  # the major version
    values[f"rubric of {repo}"] = environment.get("rubric_sha256")
    texts = {}
    for name, value in values.items():
        text = value if isinstance(value, str) else as_json(value)
        if text not in ("", "null"):  # what is missing is unknown
            texts[sys.intern(name)] = sys.intern(de.printable(text, MAX_OUTPUT))
    return texts


class File(NamedTuple):
    """A file that may be a report."""

    path: str
    place: str  # below the folder that was given, for messages
    model: str
    sample: str


def find_files(arguments: Iterable[str], *, samples: bool) -> Iterator[File]:
    """Yield each JSON file below the folders, except hidden ones; raise EvaluationError."""
    for argument in arguments:
        run = ""
        folder = argument
        if not os.path.isdir(argument):
            run, _, folder = argument.partition("=")
        if not os.path.isdir(folder):
            raise de.EvaluationError(f"no such folder: {argument}")
        root = os.path.abspath(folder)
        top = os.path.basename(root)
        for path in sorted(de.files_below(root)):
            if not path.endswith(".json"):
                continue
            *folders, name = os.path.relpath(path, root).split(os.sep)
            place = "/".join([top, *folders, name])
            sample = ""
            if samples and len(folders) > 1:
                sample = folders.pop()
            model = folders or [top]
            yield File(
                path=path,
                place=de.printable(place, MAX_OUTPUT),
                model=de.printable("/".join([run, *model] if run else model), MAX_TEXT),
                sample=de.printable(sample, MAX_TEXT),
            )


def read_reports(
    arguments: Iterable[str],
    *,
    samples: bool = False,
) -> tuple[list[Report], list[str]]:
    """Read the reports below each FOLDER or NAME=FOLDER; with `samples` from MODEL/SAMPLE folders.

    Returns them, and a line for each file that is left out. Raises EvaluationError if a folder is
    missing.
    """
    reports: dict[tuple[str, str, str], Report] = {}
    left_out = []
    for file in find_files(arguments, samples=samples):
        try:
            report = read_file(file, samples=samples)
            first = reports.setdefault((report.model, report.repo, report.sample), report)
            if first is not report:
                raise ValueError(f"duplicate: {first.place} counts for {report.repo}")
        except json.JSONDecodeError as error:
            left_out.append(f"{file.place}: not JSON, or incomplete: {error}")
        except OSError as error:
            left_out.append(f"{file.place}: {error.strerror}")
        except (ValueError, RecursionError) as error:
            left_out.append(f"{file.place}: {error}")
    return [reports[key] for key in sorted(reports)], left_out


def read_file(file: File, *, samples: bool) -> Report:
    """Return the report in a file; raise OSError, ValueError or RecursionError."""
    if samples and not file.sample:
        raise ValueError("not in a folder MODEL/SAMPLE")
    if not os.path.isfile(file.path) or os.path.getsize(file.path) > MAX_FILE:
        raise ValueError(f"not a regular file of at most {MAX_FILE // 10**6} MB")
    with open(file.path, encoding="utf-8-sig") as stream:
        content = json.load(stream)
    return read_report(content, place=file.place, model=file.model, sample=file.sample)


def exclude_unsolved(reports: Sequence[Report], reference: str) -> tuple[list[Report], list[str]]:
    """Exclude the tests that no report of the model `reference` passes.

    Returns the other models' reports that have points left, and notes on what was excluded: nothing
    for a repository without a score of the reference. Raises EvaluationError if there is no such
    model.
    """
    if reports and reference not in {report.model for report in reports}:
        raise de.EvaluationError(f"--reference: no model {reference}")
    solved: dict[str, set[str]] = {}  # test ids by repository
    for report in reports:
        if report.model == reference and report.score is not None:
            passed = {test.id for test in report.tests if test.passed}
            solved.setdefault(report.repo, set()).update(passed)

    others = []
    notes: dict[str, None] = {}  # without repetitions
    for report in reports:
        if report.model == reference:
            continue
        if report.repo not in solved:
            notes[f"{report.repo}: {reference} has no score, nothing is excluded"] = None
            others.append(report)
            continue
        wanted = solved[report.repo]
        excluded = [test.id for test in report.tests if test.id not in wanted]
        if excluded:
            names = de.quoted_list(excluded, limit=100)
            notes[f"{report.repo}: excluded {names}, which {reference} does not pass"] = None
        rest = report.with_tests([test for test in report.tests if test.id in wanted])
        if rest.max_points:
            others.append(rest)
    return others, list(notes)


# ---------------------------------------------------------------------------------------------
# Board: the numbers
# ---------------------------------------------------------------------------------------------

Cells = Dict[str, List[Report]]  # the reports of one model, by repository


class Row(NamedTuple):
    """The numbers of one model."""

    model: str
    cells: Cells
    samples: int
    scores: dict[str, float]  # by repository, those that are known
    score: float | None  # their mean
    interval: tuple[float, float] | None
    missing: collections.Counter[str]  # expected reports without a score, by reason
    bounds: tuple[float, float]  # the score if all that is missing scored 0, and 1
    solved: int  # repositories
    built: int  # reports with an image
    evaluated: int  # reports with a score
    pass_at_k: float | None
    pass_all: float | None
    build_seconds: list[float]
    image_sizes: list[float]

    @property
    def is_complete(self) -> bool:
        """Whether no report or score is missing."""
        return not self.missing


def make_row(model: str, cells: Cells, *, k: int, missing_zero: bool) -> Row:
    """Return the numbers of a model; k is that of pass@k."""
    reports = [report for cell in cells.values() for report in cell]
    samples = len({report.sample for report in reports})
    expected = samples * len(cells)
    missing = collections.Counter(
        OUTCOMES[report.kind] for report in reports if not report.has_score
    )
    if expected > len(reports) and not missing_zero:
        missing["no report"] = expected - len(reports)

    scores: dict[str, float] = {}
    total = 0.0
    tries: list[tuple[int, int]] = []  # by repository: how many scores, and how many are solved
    for repo, cell in cells.items():
        known = [report.score for report in cell if report.score is not None]
        if missing_zero:
            known += [0.0] * (samples - len(cell))
        total += math.fsum(known)
        if known:
            scores[repo] = mean(known)
            tries.append((len(known), sum(report.is_solved for report in cell)))

    built = [report for report in reports if not report.kind]
    has_k = bool(tries) and min(count for count, _ in tries) >= k
    at_least_one = [pass_at_least_one(count, solved, k) for count, solved in tries if has_k]
    all_of_k = [pass_all(count, solved, k) for count, solved in tries if has_k]
    return Row(
        model=model,
        cells=cells,
        samples=samples,
        scores=scores,
        score=mean(scores.values()) if scores else None,
        interval=t_interval(list(scores.values())),
        missing=missing,
        bounds=(total / expected, (total + sum(missing.values())) / expected),
        solved=sum(solved > 0 for _, solved in tries),
        built=len(built),
        evaluated=expected - sum(missing.values()),
        pass_at_k=mean(at_least_one) if has_k else None,
        pass_all=mean(all_of_k) if has_k else None,
        build_seconds=[
            report.build_seconds for report in built if report.build_seconds is not None
        ],
        image_sizes=[report.image_size for report in built if report.image_size is not None],
    )


LEADS = "leads"
NOT_DISTINGUISHABLE = "not distinguishable"
BEHIND = "behind"
INCOMPLETE = "incomplete"
NOT_TESTED = "not tested"


class Board(NamedTuple):
    """The rows, the best first, and which of them can be distinguished."""

    reports: Sequence[Report]
    repos: list[str]
    rows: list[Row]
    k: int  # of pass@k: the samples of the model that has the fewest
    complete: list[Row]
    critical: float | None  # the critical difference; None if it cannot be computed
    group: list[Row]  # the best complete row, and those that cannot be distinguished from it
    undecided: list[Row]  # incomplete, and possibly not distinguishable from the best
    marks: dict[str, list[str]]  # by model, the conditions that differ from most reports
    notes: list[str]  # published with the board

    @property
    def best(self) -> float:
        """The score of the best complete row."""
        return self.complete[0].bounds[0] if self.complete else 0.0

    @property
    def has_leader(self) -> bool:
        """Whether one model is certainly the best."""
        return self.critical is not None and len(self.group) == 1 and not self.undecided

    def standing(self, row: Row) -> str:
        """Return how a row stands to the best complete row."""
        if not row.is_complete:
            return INCOMPLETE
        if self.critical is None:
            return NOT_TESTED
        if row not in self.group:
            return BEHIND
        return LEADS if self.has_leader else NOT_DISTINGUISHABLE


def make_board(reports: Sequence[Report], notes: Sequence[str], *, missing_zero: bool) -> Board:
    """Return the board of one or more reports."""
    repos = sorted({report.repo for report in reports})
    cells: dict[str, Cells] = {}
    samples: dict[str, set[str]] = collections.defaultdict(set)
    for report in reports:
        by_repo = cells.setdefault(report.model, {repo: [] for repo in repos})
        by_repo[report.repo].append(report)
        samples[report.model].add(report.sample)
    k = min(len(names) for names in samples.values())
    rows = [
        make_row(model, by_repo, k=k, missing_zero=missing_zero) for model, by_repo in cells.items()
    ]
    # By their lower bounds: an incomplete row with a single good report does not lead the board.
    rows.sort(key=lambda row: (row.score is None, -round(row.bounds[0], 9), row.model))

    complete = [row for row in rows if row.is_complete]
    critical = None
    group = complete
    undecided: list[Row] = []
    if len(complete) >= MIN_MODELS and len(repos) >= MIN_CRITICAL:
        critical = critical_difference([list(row.scores.values()) for row in complete])
        limit = complete[0].bounds[0] - critical - EPSILON
        group = [row for row in complete if row.bounds[0] >= limit]
        undecided = [row for row in rows if not row.is_complete and row.bounds[1] >= limit]
    marks, differences = compare_conditions(reports)
    all_notes = list(notes)
    if differences:
        all_notes.append(f"conditions differ: {differences}")
    return Board(
        reports=reports,
        repos=repos,
        rows=rows,
        k=k,
        complete=complete,
        critical=critical,
        group=group,
        undecided=undecided,
        marks=marks,
        notes=all_notes,
    )


def compare_conditions(reports: Iterable[Report]) -> tuple[dict[str, list[str]], str]:
    """Return by model the conditions that at most half of the reports have, and a summary."""
    scored = [report for report in reports if report.score is not None]
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for report in scored:
        for name, value in report.conditions.items():
            counts[name][value] += 1
    marks: dict[str, list[str]] = collections.defaultdict(list)
    for report in scored:
        for name, value in report.conditions.items():
            if counts[name][value] * 2 > sum(counts[name].values()):
                continue
            mark = f"{name} {de.printable(value, 30)}"
            if name.startswith("rubric of "):
                mark = "rubric"  # whose value is a digest
            if mark not in marks[report.model]:
                marks[report.model].append(mark)
    differences = [
        f"{name} ({de.quoted_list(sorted(values), '')})"
        for name, values in counts.items()
        if len(values) > 1
    ]
    return marks, de.quoted_list(differences, "", 10, "; ")


# ---------------------------------------------------------------------------------------------
# Tables: the same words in text, Markdown and page
# ---------------------------------------------------------------------------------------------

Table = List[List[str]]  # the first line is the heading
NOTHING = "-"


def share(value: float | None) -> str:
    """Return a share as a percentage."""
    return NOTHING if value is None else de.percent(value, 1)


def span(ends: tuple[float, float] | None) -> str:
    """Return the ends of an interval as percentages."""
    return NOTHING if ends is None else f"{share(ends[0])} to {share(ends[1])}"


def points(difference: float, sign: str = "") -> str:
    """Return a difference of shares in percentage points; the sign "+" is always written."""
    rounded = round(difference * 100, 1) + 0.0  # never -0.0
    return f"{rounded:{sign}.1f}"


def name_list(rows: Sequence[Row]) -> str:
    """Return the names of models: A, B and C."""
    names = [row.model for row in rows[:5]]
    if len(rows) > len(names):
        names.append(f"{len(rows) - len(names)} more")
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def headline(board: Board) -> list[str]:
    """Return what is compared, who leads or cannot be distinguished, and what could change that."""
    counts = (
        f"models: {len(board.rows)}, repositories: {len(board.repos)}, "
        f"reports: {len(board.reports)}"
    )
    days = sorted({report.started_at[:10] for report in board.reports} - {""})
    if days:
        counts += f", {days[0]}"
    if len(days) > 1:
        counts += f" to {days[-1]}"
    lines = [counts, comparison(board)]
    if board.undecided:
        lines.append(f"incomplete, and possibly the best: {name_list(board.undecided)}")
    return lines


def comparison(board: Board) -> str:
    """Return who leads, or cannot be distinguished, or why nobody is compared."""
    if board.critical is None:
        if len(board.complete) < MIN_MODELS:
            models = (
                f"{len(board.complete)} complete model{'' if len(board.complete) == 1 else 's'}"
            )
            return f"not compared: {models}, {MIN_MODELS} are needed"
        repositories = f"{len(board.repos)} repositor{'y' if len(board.repos) == 1 else 'ies'}"
        return f"not compared: {repositories}, {MIN_CRITICAL} are needed"
    critical = f"critical difference {points(board.critical)}"
    if len(board.group) == 1:
        other = board.complete[1]
        role = "leads" if board.has_leader else "is the best complete model"
        text = f"{board.group[0].model} {role}, {other.model} is next"
    else:
        other = board.group[-1]
        text = f"{name_list(board.group)} cannot be distinguished"
    difference = points(board.best - other.bounds[0])
    return f"{text} (difference {difference} points, {critical})"


def board_table(board: Board) -> Table:
    """Return a line for each model, without the columns that are empty in all of them."""
    has_samples = any(report.sample for report in board.reports)
    lines = [board_line(board, row, has_samples=has_samples) for row in board.rows]
    titles = [
        title
        for title in lines[0]
        if title in ("model", "score") or any(line[title] != NOTHING for line in lines)
    ]
    return [titles, *([line[title] for title in titles] for line in lines)]


def board_line(board: Board, row: Row, *, has_samples: bool) -> dict[str, str]:
    """Return the cells of a model by their titles: a new column is a new line here.

    Keep the score second: as_page() draws its bar there.
    """
    line = {
        "model": row.model,
        "score": share(row.score),
        "95% interval": span(row.interval),
        "standing": board.standing(row),
        "other conditions": ", ".join(board.marks.get(row.model, ())) or NOTHING,
        "solved": f"{row.solved} of {len(row.scores)}",
    }
    if has_samples:
        line[f"pass@{board.k}"] = share(row.pass_at_k)
        line[f"pass^{board.k}"] = share(row.pass_all)
    line["built"] = f"{row.built} of {row.evaluated}"
    line["build time"] = NOTHING
    if row.build_seconds:
        line["build time"] = f"{median(row.build_seconds):.1f} s"
    line["image size"] = NOTHING
    if row.image_sizes:
        line["image size"] = f"{median(row.image_sizes) / 1e6:.1f} MB"
    line["bounds"] = NOTHING
    if row.missing:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(row.missing.items()))
        line["bounds"] = f"{span(row.bounds)} ({reasons})"
    return line


def repo_table(board: Board, repos: Sequence[str]) -> Table:
    """Return a line for each model with a cell for each of the repositories."""
    lines = [[row.model, *(cell(row, repo) for repo in repos)] for row in board.rows]
    return [["model", *repos], *lines]


def cell(row: Row, repo: str) -> str:
    """Return the score of a model for a repository, and in brackets what failed or is missing."""
    reports = row.cells[repo]
    outcomes = collections.Counter(OUTCOMES[report.kind] for report in reports if report.kind)
    if row.samples > len(reports):
        outcomes["no report"] = row.samples - len(reports)
    notes = list(outcomes)
    if row.samples > 1:
        notes = [f"{count} of {row.samples} {outcome}" for outcome, count in outcomes.items()]
    text = share(row.scores.get(repo))
    if notes:
        text += f" ({', '.join(notes)})"
    return text


def as_text(table: Table, width: int) -> str:
    """Return a table as aligned text; columns beyond `width` follow below, after the first one."""
    widths = [max(len(words) for words in column) for column in zip(*table)]
    blocks = [[0]]  # the columns of each part
    used = widths[0]
    for column in range(1, len(widths)):
        is_first = blocks[-1] == [0]
        if used + 2 + widths[column] > width and not is_first:
            blocks.append([0])
            used = widths[0]
        blocks[-1].append(column)
        used += 2 + widths[column]

    parts = []
    for block in blocks:
        lines = []
        for words in table:
            cells = [words[0].ljust(widths[0])]
            cells += [words[column].rjust(widths[column]) for column in block[1:]]
            lines.append("  ".join(cells).rstrip())
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def as_markdown(board: Board) -> str:
    """Return the board as Markdown, in which text of reports has no markup."""
    parts = [f"{de.escape_markdown(line)}\n" for line in (*headline(board), *board.notes)]
    parts.append(markdown_table(board_table(board)))
    parts.append(markdown_table(repo_table(board, board.repos)))
    return "\n".join(parts)


def markdown_table(table: Table) -> str:
    """Return a table as Markdown; all columns but the first are aligned to the right."""
    head, *lines = table
    alignment = ["---", *["---:" for _ in head[1:]]]
    rows = [markdown_row(head), f"| {' | '.join(alignment)} |\n"]
    rows += [markdown_row(line) for line in lines]
    return "".join(rows)


def markdown_row(line: Sequence[str]) -> str:
    """Return a line of a table as Markdown."""
    cells = [de.escape_markdown(words) for words in line]
    return f"| {' | '.join(cells)} |\n"


# ---------------------------------------------------------------------------------------------
# CSV, comparison of two models, pass rates of tests
# ---------------------------------------------------------------------------------------------

# Cells that a spreadsheet takes for a formula (OWASP, CSV injection), also after the separator ";".
# The last four are the full-width = + - @.
_FORMULA = re.compile(r"(^|;)(\s*[=+\-@|%\uff1d\uff0b\uff0d\uff20])")


def as_csv(board: Board) -> str:
    """Return a line for each test of each report, without a score where the report has none."""
    of_report = ["model", "sample", "repo", "started_at", "build_seconds", "image_size", "outcome"]
    conditions = [name.replace(" ", "_") for name in CONDITIONS]
    of_test = ["test", "category", "status", "message", "max_score", "score"]
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow([*of_report, *conditions, *of_test])
    for report in board.reports:
        start = [
            report.model,
            report.sample,
            report.repo,
            report.started_at,
            report.build_seconds,
            report.image_size,
            OUTCOMES[report.kind],
            *(report.conditions.get(name) for name in CONDITIONS),
        ]
        for test in report.tests:
            score = None if report.score is None else test.score
            end = [test.id, test.category, test.status, test.message, test.max_score, score]
            writer.writerow([without_formula(value) for value in start + end])
    return stream.getvalue()


def without_formula(value: Any) -> Any:
    """Return a value with an apostrophe before what a spreadsheet would compute."""
    return _FORMULA.sub(r"\1'\2", value) if isinstance(value, str) else value


def compare(board: Board, first: Row, second: Row) -> str:
    """Return the paired difference of two rows, and the tests that only one of them passes."""
    gaps = []
    for repo, score in first.scores.items():
        if repo in second.scores:
            gaps.append(score - second.scores[repo])
    difference = points(mean(gaps), "+") if gaps else NOTHING
    interval = t_interval(gaps, minimum=-1.0)
    ends = NOTHING
    if interval:
        ends = f"{points(interval[0], '+')} to {points(interval[1], '+')}"
    better = sum(gap > EPSILON for gap in gaps)
    worse = sum(gap < -EPSILON for gap in gaps)
    counts = f"{len(gaps)} repositories, {better} better, {worse} worse"
    heading = (
        f"{first.model} minus {second.model}: {difference} points, 95% interval {ends}, {counts}"
    )
    lines = [heading]
    for repo in board.repos:
        words = f"{first.model} {cell(first, repo)}, {second.model} {cell(second, repo)}"
        lines += ["", f"{repo}: {words}"]
        lines += only_passed(first, second, repo)
        lines += only_passed(second, first, repo)
    return "\n".join(lines) + "\n"


def only_passed(row: Row, other: Row, repo: str) -> Iterator[str]:
    """Yield a line for each test that `row` passes and `other` does not, if it has an image."""
    theirs = tests_by_id(other.cells[repo])
    if not theirs:
        return
    for test_id, tests in tests_by_id(row.cells[repo]).items():
        rivals = theirs.get(test_id, [])
        is_passed = any(test.passed for test in tests)
        if not is_passed or any(test.passed for test in rivals):
            continue
        reason = "no such test"
        if rivals:
            reason = f"{rivals[0].status}, {rivals[0].message}"
        yield f"  only {row.model} passes {test_id}; {other.model}: {reason}"


def tests_by_id(reports: Iterable[Report]) -> dict[str, list[Test]]:
    """Return the tests of the reports with an image."""
    tests: dict[str, list[Test]] = collections.defaultdict(list)
    for report in reports:
        if not report.kind:
            for test in report.tests:
                tests[test.id].append(test)
    return tests


def items(board: Board) -> str:
    """Return for each repository the rate at which each test passes, over reports with an image."""
    parts = []
    for repo in board.repos:
        table = [["test", "passed", "rate", ""]]
        reports = [report for row in board.rows for report in row.cells[repo]]
        for test_id, tests in tests_by_id(reports).items():
            passed = sum(test.passed for test in tests)
            note = ""  # a test that does not separate the models is marked
            if not passed:
                note = "none"
            elif passed == len(tests):
                note = "all"
            rate = de.percent(passed, len(tests))
            table.append([test_id, f"{passed} of {len(tests)}", rate, note])
        parts.append(f"{repo}\n{as_text(table, 1000)}")
    return "\n".join(parts)


# ---------------------------------------------------------------------------------------------
# Page: one HTML file without scripts; page.html is its template
# ---------------------------------------------------------------------------------------------

HEAT_COLUMNS = 20  # repositories in one heat map; the others follow below
MAX_CELLS = 1_900_000  # bytes of all cells, so that a page of 10,000 reports has less than 2 MB
CELL_MARKUP = 110  # bytes of a cell without its details
BYTES_PER_LINE = 20  # at least, of the details of a cell

CellHtml = Callable[[int, int, str], str]  # by line, column and escaped words of a table's cell


def as_page(board: Board) -> str:
    """Return the board as HTML: bars, and heat maps whose cells open the reports behind them."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.html")
    with open(path, encoding="utf-8") as file:
        template = string.Template(file.read())

    def board_cell(line: int, column: int, words: str) -> str:
        return bar(board, board.rows[line], words) if column == 0 else f"<td>{words}"

    # The band of scores that cannot be distinguished from the best one.
    best = near = 0.0
    if board.critical is not None:
        best = board.best
        near = max(best - board.critical, 0)
    heat_maps = [
        heat_map(board, board.repos[start : start + HEAT_COLUMNS])
        for start in range(0, len(board.repos), HEAT_COLUMNS)
    ]
    return template.substitute(
        headline=paragraphs(headline(board)),
        notes=paragraphs(board.notes),
        best=f"{best:.2%}",
        near=f"{near:.2%}",
        board=as_html(board_table(board), board_cell),
        heat="".join(heat_maps),
    )


def paragraphs(lines: Iterable[str]) -> str:
    """Return lines as HTML."""
    return "".join(f"<p>{escape(line)}" for line in lines)


def bar(board: Board, row: Row, words: str) -> str:
    """Return the cell of a score: the template draws its parts from the numbers in its style."""
    ends = {"score": row.score or 0.0}
    parts = ["value"]
    if board.critical is not None:
        parts.insert(0, "band")  # behind the others
    if row.interval:
        ends["low"], ends["high"] = row.interval
        parts.append("interval")
    if not row.is_complete:
        ends["lower"], ends["upper"] = row.bounds
        parts.append("bounds")
    style = "".join(f"--{name}:{end:.2%};" for name, end in ends.items())
    spans = "".join(f'<span class="{part}"></span>' for part in parts)
    kind = f"bar {board.standing(row)}"
    return f'<td class="{kind}" style="{style}"><span class="axis">{spans}</span>{words}'


def heat_map(board: Board, repos: Sequence[str]) -> str:
    """Return the table of some repositories, whose cells open their details."""
    cells = len(board.rows) * len(board.repos)
    limit = max(MAX_CELLS // cells - CELL_MARKUP, 0)  # bytes of the details of a cell

    def heat_cell(line: int, column: int, words: str) -> str:
        row = board.rows[line]
        repo = repos[column]
        shown = itertools.islice(details(row.cells[repo]), limit // BYTES_PER_LINE)
        text = escape("\n".join([f"{row.model}, {repo}", *shown]))
        text = text.encode()[:limit].decode(errors="ignore")
        attributes = ""
        if any(report.is_failed_build for report in row.cells[repo]):
            attributes += ' class="failed"'
        if repo in row.scores:
            attributes += f' style="--share:{row.scores[repo]:.3f}"'
        return (
            f"<td{attributes}><details name=cell><summary>{words}</summary>"
            f"<pre>{text}</pre></details>"
        )

    table = as_html(repo_table(board, repos), heat_cell)
    return f'<div class="wide"><table class="heat">{table}</table></div>'


def as_html(table: Table, cell_html: CellHtml) -> str:
    """Return the lines of a table as HTML; the first column is a heading."""
    head, *lines = table
    rows = []
    for at, (first, *others) in enumerate(lines):
        cells = [cell_html(at, column, escape(words)) for column, words in enumerate(others)]
        # A name may be broken where it has a separator, not inside a word.
        name = re.sub("([/_])", r"\1<wbr>", escape(first))
        rows.append(f"<tr><th>{name}{''.join(cells)}")
    titles = "".join(f"<th>{escape(title)}" for title in head)
    return f"<thead><tr>{titles}<tbody>{''.join(rows)}"


def details(reports: Sequence[Report]) -> Iterator[str]:
    """Yield lines on the reports behind a cell, the most important ones first."""
    for report in reports:
        words = [report.sample, OUTCOMES[report.kind], report.message]
        yield " ".join(word for word in words if word)
        failed = []
        if not report.kind:
            failed = [test for test in report.tests if not test.passed]
        for test in failed:
            yield f"{test.id}: {test.status}, 0 of {test.max_score:.15g} points: {test.message}"
        passed = [test.id for test in report.tests if test.passed]
        yield f"passed: {', '.join(passed) or 'none'}"
        for test in failed:
            yield from ("", de.printable(f"{test.id}: {test.type} {test.params}"))
            yield from printable_lines(test.output)
            yield ""
        if report.is_failed_build:
            yield from ("", "end of the build log:")
            yield from printable_lines(report.log)
            yield ""


def printable_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text without control characters."""
    for line in text.splitlines():
        yield de.printable(line)


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="leaderboard.py",
        usage="leaderboard.py FOLDER… [OPTION]…",
        description="Compare models by the reports on their Dockerfiles.",
        epilog="Example: leaderboard.py reports --html board.html\n"
        "Exit codes: 0 printed; 1 no valid report, or a file cannot be written; 2 bad arguments; "
        "130 Ctrl-C",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument_group("what is compared").add_argument
    add(
        "folders",
        nargs="+",
        metavar="FOLDER",
        help="has FOLDER/MODEL; NAME=FOLDER makes its models NAME/MODEL",
    )
    add("--samples", action="store_true", help="reports are in FOLDER/MODEL/SAMPLE")
    add("--reference", metavar="MODEL", help="exclude tests that this known solution fails")
    add("--missing-zero", action="store_true", help="a repository without a report scores 0")

    add = parser.add_argument_group("what is printed instead of the board").add_argument
    add("--compare", nargs=2, metavar=("A", "B"), help="how two models differ")
    add("--items", action="store_true", help="the pass rate of each test")

    add = parser.add_argument_group("what is written").add_argument
    add("--html", metavar="FILE", help="the board as a page; - for stdout")
    add("--markdown", metavar="FILE", help="the board as Markdown")
    add("--csv", metavar="FILE", help="a line for each test of each report")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Print and write what is asked for; return the exit code.

    Raises EvaluationError for a folder or a model that does not exist.
    """
    reports, left_out = read_reports(arguments.folders, samples=arguments.samples)
    notes = [f"left out: {line}" for line in left_out[:MAX_LEFT_OUT]]
    if len(left_out) > MAX_LEFT_OUT:
        notes.append(f"left out: {len(left_out) - MAX_LEFT_OUT} more files")
    if arguments.reference:
        reports, excluded = exclude_unsolved(reports, arguments.reference)
        notes += excluded
    if not reports:
        print(*notes, "no valid report", sep="\n", file=sys.stderr)
        return 1
    board = make_board(reports, notes, missing_zero=arguments.missing_zero)
    text = as_screen(board, compared=arguments.compare, has_items=arguments.items)
    for note in board.notes:
        print(note, file=sys.stderr)
    code = 0
    files = (
        (arguments.html, as_page),
        (arguments.markdown, as_markdown),
        (arguments.csv, as_csv),
    )
    for path, as_file in files:
        if not path:
            continue
        try:
            de.write_file(path, as_file(board))
        except de.EvaluationError as error:
            print(f"error: {error}", file=sys.stderr)
            code = 1
    has_stdout = all(path != "-" for path, _ in files)
    print(text, end="", file=sys.stdout if has_stdout else sys.stderr)
    return code


def as_screen(board: Board, *, compared: Sequence[str] | None, has_items: bool) -> str:
    """Return what is printed; raise EvaluationError for a model that does not exist."""
    parts = []
    if compared:
        rows = {row.model: row for row in board.rows}
        for model in compared:
            if model not in rows:
                names = de.quoted_list(sorted(rows), limit=50)
                raise de.EvaluationError(f"--compare: expected two models of {names}")
        parts.append(compare(board, *(rows[model] for model in compared)))
    if has_items:
        parts.append(items(board))
    if not parts:
        width = shutil.get_terminal_size((100, 24)).columns
        parts.append("".join(f"{line}\n" for line in headline(board)))
        parts.append(as_text(board_table(board), width))
        parts.append(as_text(repo_table(board, board.repos), width))
    return "\n".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argument_parser()
    arguments = parser.parse_args(argv)
    de.accept_any_text()
    try:
        return run(arguments)
    except de.EvaluationError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end silently if nobody reads the output
    raise SystemExit(main())
