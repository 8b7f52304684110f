#!/usr/bin/env python3
"""Compare models by the reports on their Dockerfiles.

    python3 reports/leaderboard.py FOLDER… [--samples] [--reference MODEL] [--missing-zero]
        [--compare A B] [--items] [--html FILE] [--markdown FILE] [--csv FILE]

    read_reports() -> exclude_unsolved() -> Board -> tables -> text, Markdown, page

The folder of a report is its model. A failed build scores 0; an engine, registry or usage error and an
interrupt leave no score. Files that are not valid reports are named and left out. README.md explains more.

Exit codes: 0 printed; 1 no valid report, or a file cannot be written; 2 usage error; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import collections
import csv
import glob
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
from typing import Any, Callable, Iterable, Iterator, List, Mapping, Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from DockerfileEvaluator import (
    ERROR_KINDS,
    EvaluationError,
    percent,
    printable,
    quoted_list,
    write_file,
)

# -------- Statistics: functions of numbers; a score is a share of points, from 0 to 1 --------
MIN_INTERVAL, MIN_CRITICAL = (
    5,
    6,
)  # repositories for a confidence interval, for a critical difference
DRAWS, SEED = 2000, 95  # random boards for a critical difference; the seed makes it reproducible
EPSILON = 1e-9  # smaller differences are rounding errors


def t_quantile(df: int) -> float:
    """Return the 97.5 % quantile of Student's t distribution for an integer number of degrees of freedom.

    The probability of -t…t is a finite series in the angle atan(t / sqrt(df)) (Abramowitz and Stegun,
    Handbook of Mathematical Functions, 26.7.3 and 26.7.4); the angle is found by bisection.
    """
    low, high, odd = 0.0, math.pi / 2, df % 2
    for _ in range(60):
        angle = (low + high) / 2
        term, total = math.sin(angle) * math.cos(angle) ** odd, 0.0
        for n in range(2 + odd, df + 1, 2):
            total += term
            term *= math.cos(angle) ** 2 * (n - 1) / n
        probability = (angle + total) * 2 / math.pi if odd else total
        low, high = (angle, high) if probability < 0.95 else (low, angle)  # noqa: PLR2004
    return math.tan(high) * math.sqrt(df)


def t_interval(values: Sequence[float], minimum: float = 0.0) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of a mean by Student's t, clipped to `minimum` and 1.

    None for fewer than MIN_INTERVAL values and for equal ones: ten scores of 100 % do not prove 100 %.
    """
    if len(values) < MIN_INTERVAL or max(values) - min(values) < EPSILON:
        return None
    half = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return max(mean(values) - half, minimum), min(mean(values) + half, 1.0)


def critical_difference(rows: Sequence[Sequence[float]]) -> float:
    """Return the difference between best and worst mean that equal models exceed on 5 % of boards.

    A row has the scores of one model, all for the same repositories. Boards of equal models are made by
    permuting the models' residuals within each repository; the result is the 95th percentile of the range
    of their means. It serves all pairs of models, as in Demšar, Statistical Comparisons of Classifiers over
    Multiple Data Sets, JMLR 7 (2006), but for means of scores instead of ranks.
    """
    models, repos = len(rows), len(rows[0])
    # Residuals vary less than errors: (models - 1) * (repos - 1) degrees of freedom of models * repos values.
    scale = math.sqrt(models * repos / ((models - 1) * (repos - 1)))
    residuals = [
        [(score - average) * scale for score in row] for row, average in zip(rows, map(mean, rows))
    ]
    columns = sorted(
        sorted(column) for column in zip(*residuals)
    )  # the order of models has no influence
    draw = random.Random(SEED).random  # noqa: S311
    ranges: list[float] = []
    for _ in range(DRAWS):
        permuted = (sorted(column, key=lambda _: draw()) for column in columns)
        sums = [sum(row) for row in zip(*permuted)]
        ranges.append((max(sums) - min(sums)) / repos)
    return sorted(ranges)[DRAWS * 95 // 100]


def pass_all(samples: int, solved: int, k: int) -> float:
    """Return pass^k, the probability that k of the samples, drawn at random, are all solved.

    C(solved, k) / C(samples, k), unbiased (Yao et al., tau-bench, 2024, arXiv 2406.12045). pass@k, the
    probability that at least one is solved, is 1 - pass_all(samples, samples - solved, k) (Chen et al.,
    Evaluating Large Language Models Trained on Code, 2021, arXiv 2107.03374).
    """
    probability = 1.0
    for n in range(k):
        probability *= max(solved - n, 0) / (samples - n)
    return probability


# -------- Reports: files of other people, which are checked --------
VERSION = "2"  # major version of the evaluator whose reports are read
MAX_FILE = (
    20_000_000  # bytes; reports are far smaller, as the evaluator limits what it keeps of output
)
MAX_TEXT, MAX_OUTPUT = 300, 1000  # characters of names and messages; of the end of logs and outputs
# Kinds of error, and the words for them: those that score 0, and those that have no score.
FAILED_BUILDS = {kind: what.text for kind, what in ERROR_KINDS.items() if what.has_score}
NO_SCORE = {kind: what.text for kind, what in ERROR_KINDS.items() if not what.has_score}
OUTCOMES = {"": "scored", **FAILED_BUILDS, **NO_SCORE}
CONDITIONS = (  # that influence scores, times or sizes; fields of the report's environment, with spaces
    *("evaluator version", "docker server", "builder", "storage driver", "platform", "engine cpus"),
    *(
        "engine memory",
        "security options",
        "open files",
        "build options",
        "run options",
        "offline",
        "jobs",
        "build timeout",
        "start timeout",
    ),
)
SUMMARY = ("total_tests", "passed_tests", "failed_tests", "success_rate", "total_execution_time")
TEXT, NUMBER = (str,), (int, float)  # types of fields: a name or message; not negative or infinite
MISSING = object()
ROUNDING = 1e-6  # between a sum of scores and the sum in the report


def field(values: Any, path: str, expected: Any, default: Any = MISSING) -> Any:
    """Return the value at a dotted path of a JSON object, TEXT without control characters.

    If it is missing or has another type, return the default; raise ValueError if there is none.
    """
    for key in path.split("."):
        values = values.get(key, MISSING) if isinstance(values, dict) else MISSING
    is_valid = isinstance(values, expected)
    if is_valid and expected is NUMBER:
        is_valid = not isinstance(values, bool) and 0 <= values < 1e100  # noqa: PLR2004
    if not is_valid and default is MISSING:
        found = "missing" if values is MISSING else printable(json.dumps(values), 40)
        raise ValueError(f"not a report: {path} is {found}")
    values = printable(values, MAX_TEXT) if is_valid and expected is TEXT else values
    return values if is_valid else default


class Test:
    """One test of a report."""

    def __init__(self, row: Any) -> None:
        """Read one of the report's test_results; raise ValueError if it is broken."""
        self.id, self.type = field(row, "test_id", TEXT), field(row, "test_type", TEXT)
        self.status, self.passed = field(row, "status", TEXT), field(row, "passed", bool)
        self.category, self.params = (
            field(row, "category", TEXT, ""),
            field(row, "params", dict, {}),
        )
        self.message, self.output = (
            field(row, "message", TEXT),
            field(row, "output", str, "")[-MAX_OUTPUT:],
        )
        self.score, self.max_score = field(row, "score", NUMBER), field(row, "max_score", NUMBER)
        field(row, "execution_time", NUMBER)
        if self.passed != (self.status == "passed") or self.score != self.passed * self.max_score:
            raise ValueError(f"contradictory: test {self.id} {self.status}, score {self.score}")


class Report:
    """One evaluation; `kind` is its error.kind, or "", `place` its path below the folder that was given."""

    def __init__(self, content: Any, place: str, model: str, sample: str) -> None:
        """Read a report; raise ValueError if it is broken, contradictory or of another version."""
        version = field(content, "environment.evaluator_version", TEXT)
        if version.partition(".")[0] != VERSION:
            raise ValueError(f"written by version {version}, expected {VERSION}.x")
        for path in ("dockerfile", "rubric"):
            field(content, path, str)
        field(content, "summary.max_score", NUMBER)
        self.place, self.model, self.sample, self.repo = (
            place,
            model,
            sample,
            field(content, "repo", TEXT),
        )
        self.kind, self.message = "", ""
        if field(content, "error", (dict, type(None))) is not None:
            self.kind = field(content, "error.kind", TEXT)
            self.message = field(content, "error.message", TEXT)
            if self.kind not in {**FAILED_BUILDS, **NO_SCORE}:
                raise ValueError(f"unknown error.kind '{self.kind}'")
        self.log = field(content, "build.log", str, "")[-MAX_OUTPUT:]
        self.started_at = field(content, "environment.started_at", TEXT, "")
        self.build_seconds = field(content, "build.execution_time", NUMBER, None)
        self.image_size = field(content, "environment.image_size", NUMBER, None)  # bytes
        self.conditions = read_conditions(content)
        self.set_tests([Test(row) for row in field(content, "test_results", list)])
        sums = {"max_score": self.max_points}
        if self.kind not in NO_SCORE:  # then there is no total and no rate
            sums["total_score"] = math.fsum(test.score for test in self.tests)
            for name in SUMMARY:
                field(content, f"summary.{name}", NUMBER)
        for name, expected in sums.items():
            found = field(content, f"summary.{name}", NUMBER)
            if abs(found - expected) > ROUNDING or not self.max_points:
                raise ValueError(
                    "contradictory: max_score is 0, or the scores are not those of the tests"
                )
        if len({test.id for test in self.tests}) < len(self.tests):
            raise ValueError("contradictory: a test_id is given twice")
        if not self.kind and any(test.status in ("error", "not_run") for test in self.tests):
            raise ValueError("contradictory: tests without a result, but no error")
        if self.kind in FAILED_BUILDS and any(test.passed for test in self.tests):
            raise ValueError("contradictory: tests passed, but the build failed")

    def set_tests(self, tests: Sequence[Test]) -> None:
        """Set the tests that count and the score: their share of points, None if there is none."""
        self.tests = tests
        self.max_points = math.fsum(test.max_score for test in tests)
        has_score = self.max_points and self.kind not in NO_SCORE
        self.score = (
            math.fsum(test.score for test in tests) / self.max_points if has_score else None
        )
        self.is_solved = not self.kind and all(test.passed for test in tests)


def read_conditions(content: Any) -> dict[str, str]:
    """Return the conditions of an evaluation that are known, as text that can be compared."""
    values = {name: content["environment"].get(name.replace(" ", "_")) for name in CONDITIONS}
    memory = field(values, "engine memory", NUMBER, 0)  # bytes
    values["engine memory"] = f"{memory / 2**30:.0f} GiB" if memory else None
    values["docker server"] = field(values, "docker server", TEXT, "").partition(".")[
        0
    ]  # the major version
    values[f"rubric of {field(content, 'repo', TEXT)}"] = content["environment"].get(
        "rubric_sha256"
    )
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
    }
    return {name: printable(text, 1000) for name, text in texts.items() if text not in ("", "null")}


def find_files(arguments: Iterable[str], *, samples: bool) -> Iterator[tuple[str, str, str, str]]:
    """Yield path, place, model and sample of each JSON file below the folders, but for hidden ones."""
    for argument in arguments:
        prefix, _, folder = (
            ("", "", argument) if os.path.isdir(argument) else argument.partition("=")
        )
        if not os.path.isdir(folder):
            raise EvaluationError(f"no such folder: {argument}")
        root = os.path.abspath(folder)
        for path in sorted(
            glob.glob(os.path.join(glob.escape(root), "**", "*.json"), recursive=True)
        ):
            *folders, file = os.path.relpath(path, root).split(os.sep)
            place = printable("/".join([os.path.basename(root), *folders, file]), 1000)
            sample = printable(folders.pop(), MAX_TEXT) if samples and len(folders) > 1 else ""
            model = "/".join(filter(None, [prefix, *(folders or [os.path.basename(root)])]))
            yield path, place, printable(model, MAX_TEXT), sample


def read_reports(
    arguments: Iterable[str], *, samples: bool = False
) -> tuple[list[Report], list[str]]:
    """Read the reports below each FOLDER or NAME=FOLDER; with `samples` the last folder is a sample.

    Returns them, and a line for each file that is left out. Raises EvaluationError if a folder is missing.
    """
    reports: dict[tuple[str, str, str], Report] = {}
    left_out = []
    for path, place, model, sample in find_files(arguments, samples=samples):
        try:
            if samples and not sample:
                raise ValueError("not in a folder MODEL/SAMPLE")
            if not os.path.isfile(path) or os.path.getsize(path) > MAX_FILE:
                raise ValueError(f"not a regular file of at most {MAX_FILE // 10**6} MB")
            with open(path, encoding="utf-8-sig") as file:
                report = Report(json.load(file), place, model, sample)
            first = reports.setdefault((model, report.repo, sample), report)
            if first is not report:
                raise ValueError(f"duplicate: {first.place} counts for {report.repo}")
        except json.JSONDecodeError as error:
            left_out.append(f"{place}: not JSON, or incomplete: {error}")
        except (OSError, ValueError, RecursionError) as error:
            left_out.append(f"{place}: {getattr(error, 'strerror', None) or error}")
    return [reports[key] for key in sorted(reports)], left_out


def exclude_unsolved(reports: Sequence[Report], reference: str) -> tuple[list[Report], list[str]]:
    """Exclude the tests that no report of the model `reference` passes.

    Returns the other models' reports that have points left, and notes on what was excluded: nothing for a
    repository without a score of the reference. Raises EvaluationError if there is no such model.
    """
    if reports and reference not in {report.model for report in reports}:
        raise EvaluationError(f"--reference: no model {reference}")
    solved: dict[str, set[str]] = {}  # test ids by repository
    for report in reports:
        if report.model == reference and report.score is not None:
            solved.setdefault(report.repo, set()).update(
                test.id for test in report.tests if test.passed
            )
    others = [report for report in reports if report.model != reference]
    notes: dict[str, None] = {}  # without repetitions
    for report in others:
        wanted = solved.get(report.repo, {test.id for test in report.tests})
        excluded = quoted_list(
            (test.id for test in report.tests if test.id not in wanted), limit=100
        )
        report.set_tests([test for test in report.tests if test.id in wanted])
        if report.repo not in solved:
            notes[f"{report.repo}: {reference} has no score, nothing is excluded"] = None
        elif excluded:
            notes[f"{report.repo}: excluded {excluded}, which {reference} does not pass"] = None
    return [report for report in others if report.max_points], [*notes]


# -------- Board: a row for each model, a column for each repository --------
class Row:
    """The numbers of one model."""

    def __init__(
        self, model: str, cells: Mapping[str, list[Report]], k: int, *, missing_zero: bool
    ) -> None:
        """Compute them from the reports by repository; k is that of pass@k."""
        self.model, self.cells = model, cells
        reports = [report for cell in cells.values() for report in cell]
        built = [report for report in reports if not report.kind]
        self.samples = len({report.sample for report in reports})
        expected = self.samples * len(cells)
        # Expected reports without a score, by reason. Each of them makes the row incomplete.
        self.missing = collections.Counter(OUTCOMES[r.kind] for r in reports if r.kind in NO_SCORE)
        if expected > len(reports) and not missing_zero:
            self.missing["no report"] = expected - len(reports)

        self.scores: dict[str, float] = {}  # by repository
        total, tries = (
            0.0,
            [],
        )  # per repository the number of scores, and of those with all tests passed
        for repo, cell in cells.items():
            scores = [report.score for report in cell if report.score is not None]
            scores += [0.0] * (self.samples - len(cell)) * missing_zero
            total += math.fsum(scores)
            if scores:
                self.scores[repo] = mean(scores)
                tries.append((len(scores), sum(report.is_solved for report in cell)))
        self.score = mean(self.scores.values()) if self.scores else None
        self.interval = t_interval([*self.scores.values()])
        # The score if all that is missing scored 0, and 1. Of a complete row both are its score.
        self.bounds = (total / expected, (total + sum(self.missing.values())) / expected)
        has_k = bool(tries) and min(tries)[0] >= k
        self.pass_at_k = (
            mean(1 - pass_all(n, n - solved, k) for n, solved in tries) if has_k else None
        )
        self.pass_all = mean(pass_all(n, solved, k) for n, solved in tries) if has_k else None
        self.solved = sum(solved > 0 for _, solved in tries)
        self.built, self.evaluated = len(built), expected - sum(self.missing.values())
        self.build_seconds = [r.build_seconds for r in built if r.build_seconds is not None]
        self.image_sizes = [r.image_size for r in built if r.image_size is not None]


class Board:
    """The rows, the best first, and which of them can be distinguished."""

    def __init__(
        self, reports: Sequence[Report], notes: Sequence[str], *, missing_zero: bool
    ) -> None:
        """Compute the board of one or more reports; the notes are published with it."""
        self.reports = reports
        self.repos = sorted({report.repo for report in reports})
        samples: dict[str, set[str]] = collections.defaultdict(set)
        cells: dict[str, dict[str, list[Report]]] = {}
        for report in reports:
            samples[report.model].add(report.sample)
            cells.setdefault(report.model, {repo: [] for repo in self.repos})[report.repo].append(
                report
            )
        self.k = min(map(len, samples.values()))
        rows = [
            Row(model, by_repo, self.k, missing_zero=missing_zero)
            for model, by_repo in cells.items()
        ]
        # By their lower bounds, so that an incomplete row with a single good report does not lead the board.
        self.rows = sorted(
            rows, key=lambda row: (row.score is None, -round(row.bounds[0], 9), row.model)
        )

        self.complete = [row for row in self.rows if not row.missing]
        self.critical: float | None = None
        if len(self.complete) > 1 and len(self.repos) >= MIN_CRITICAL:
            self.critical = critical_difference([[*row.scores.values()] for row in self.complete])
        limit = 1.0 if self.critical is None else self.critical + EPSILON
        # The best complete row, and those that cannot be distinguished from it.
        self.best = self.complete[0].bounds[0] if self.complete else 0.0
        self.group = [row for row in self.complete if self.best - row.bounds[0] <= limit]
        self.undecided = [
            row for row in self.rows if row.missing and self.best - row.bounds[1] <= limit
        ]
        self.has_leader = len(self.group) == 1 and not self.undecided and self.critical is not None
        self.differing, differences = compare_conditions(reports)
        self.notes = [*notes, *[f"conditions differ: {differences}"] * bool(differences)]

    def standing(self, row: Row) -> str:
        """Return how a row stands to the best complete row."""
        if row.missing:
            return "incomplete"
        if row not in self.group:
            return "behind"
        return "leads" if self.has_leader else "not distinguishable"


def compare_conditions(reports: Iterable[Report]) -> tuple[Mapping[str, Iterable[str]], str]:
    """Return by model the conditions that at most half of the reports with a score have, and what differs."""
    scored = [report for report in reports if report.score is not None]
    counts = collections.Counter(item for report in scored for item in report.conditions.items())
    totals = collections.Counter(name for report in scored for name in report.conditions)
    marks: dict[str, dict[str, None]] = collections.defaultdict(dict)  # without repetitions
    for report in scored:
        for name, value in report.conditions.items():
            if counts[name, value] * 2 <= totals[name]:
                mark = (
                    "rubric" if name.startswith("rubric of ") else f"{name} {printable(value, 30)}"
                )
                marks[report.model][mark] = None
    values = {name: sorted(value for other, value in counts if other == name) for name in totals}
    differing = (
        f"{name} ({quoted_list(found, '')})" for name, found in values.items() if len(found) > 1
    )
    return marks, quoted_list(differing, "", 10, "; ")


# -------- Tables: the same words in text, Markdown and the page; CSV --------
Table = List[List[str]]  # the first line is the heading


def shares(*values: float | None) -> str:
    """Return a share or the ends of an interval as percentages."""
    return " to ".join("-" if value is None else percent(value, 1) for value in values)


def points(difference: float, sign: str = "") -> str:
    """Return a difference of shares in percentage points; the sign "+" is always written."""
    return f"{round(difference * 100, 1) + 0.0:{sign}.1f}"  # + 0.0: never -0.0


def headline(board: Board) -> list[str]:
    """Return what is compared, who leads or cannot be distinguished, and what could change that."""
    days = sorted(report.started_at[:10] or "unknown date" for report in board.reports)
    sizes = f"models: {len(board.rows)}, repositories: {len(board.repos)}, reports: {len(board.reports)}"
    first = quoted_list((row.model for row in board.group), "", separator=" and ") or "the models"
    if board.critical is None:
        first += f" cannot be distinguished: this takes 2 complete models and {MIN_CRITICAL} repositories"
    else:
        other = board.complete[1] if len(board.group) == 1 else board.group[-1]
        gap = f"difference {points(board.best - other.bounds[0])} points"
        role = "leads" if board.has_leader else "is the best complete model"
        first += (
            f" {role}, {other.model} is next"
            if len(board.group) == 1
            else " cannot be distinguished"
        )
        first += f" ({gap}, critical difference {points(board.critical)})"
    last = f"incomplete, and possibly the best: {quoted_list((row.model for row in board.undecided), '')}"
    return [
        f"{sizes}, {' to '.join(sorted({days[0], days[-1]}))}",
        first,
        *[last] * bool(board.undecided),
    ]


def board_table(board: Board) -> Table:
    """Return a line for each model, without the columns that are empty in all of them."""
    lines = []
    for row in board.rows:
        line = {"model": row.model, "score": shares(row.score)}
        line["95% interval"] = shares(*(row.interval or [None]))
        line["standing"] = board.standing(row)
        line["other conditions"] = ", ".join(board.differing.get(row.model, ())) or "-"
        line["solved"] = f"{row.solved} of {len(row.scores)}"
        if any(report.sample for report in board.reports):
            line.update(
                {f"pass@{board.k}": shares(row.pass_at_k), f"pass^{board.k}": shares(row.pass_all)}
            )
        line["built"] = f"{row.built} of {row.evaluated}"
        line["build time"] = f"{median(row.build_seconds):.1f} s" if row.build_seconds else "-"
        line["image size"] = f"{median(row.image_sizes) / 1e6:.1f} MB" if row.image_sizes else "-"
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(row.missing.items()))
        line["bounds"] = f"{shares(*row.bounds)} ({reasons})" if reasons else "-"
        lines.append(line)
    titles = [
        title for title in lines[0] if title == "score" or any(line[title] != "-" for line in lines)
    ]
    return [titles, *([line[title] for title in titles] for line in lines)]


def repo_table(board: Board, repos: Sequence[str]) -> Table:
    """Return a line for each model with a cell for each of the repositories."""
    return [
        ["model", *repos],
        *([row.model, *(cell(row, repo) for repo in repos)] for row in board.rows),
    ]


def cell(row: Row, repo: str) -> str:
    """Return the score of a model for a repository, and in brackets what failed or is missing."""
    outcomes = collections.Counter(
        OUTCOMES[report.kind] for report in row.cells[repo] if report.kind
    )
    outcomes["no report"] = row.samples - len(row.cells[repo])
    notes = [
        f"{n} of {row.samples} {what}" if row.samples > 1 else what
        for what, n in outcomes.items()
        if n
    ]
    return (
        f"{shares(row.scores.get(repo))} ({', '.join(notes)})"
        if notes
        else shares(row.scores.get(repo))
    )


def as_text(table: Table, width: int) -> str:
    """Return a table as aligned text; columns beyond `width` characters follow below, after the first one."""
    widths = [max(map(len, column)) for column in zip(*table)]
    blocks = [[0]]
    for at in range(1, len(widths)):
        if (
            len(blocks[-1]) > 1
            and sum(widths[column] + 2 for column in [*blocks[-1], at]) - 2 > width
        ):
            blocks.append([0])
        blocks[-1].append(at)
    lines = [
        [f"{words:{'>' if at else '<'}{widths[at]}}" for at, words in enumerate(line)]
        for line in table
    ]
    parts = [["  ".join(line[at] for at in block).rstrip() for line in lines] for block in blocks]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def as_markdown(board: Board) -> str:
    """Return the board as Markdown, in which text of reports has no markup."""
    markup = re.compile(r"([][\\`*_{}<>#~|!&:@$^]|\.(?!\d))")  # CommonMark, backslash escapes
    parts = [markup.sub(r"\\\1", f"{line}\n") for line in (*headline(board), *board.notes)]
    for table in (board_table(board), repo_table(board, board.repos)):
        lines = [" | ".join(markup.sub(r"\\\1", words) for words in line) for line in table]
        lines.insert(1, " | ".join(["---"] + ["---:"] * (len(table[0]) - 1)))
        parts.append("".join(f"| {line} |\n" for line in lines))
    return "\n".join(parts)


def as_csv(board: Board) -> str:
    """Return a line for each test of each report, without a score where the report has none."""
    # Cells that a spreadsheet takes for a formula, also after the separator `;`, get an apostrophe (OWASP).
    formula = re.compile(
        r"(^|;)(\s*[=+\-@|%\uff1d\uff0b\uff0d\uff20])"
    )  # and the full-width = + - @
    of_report = ("model", "sample", "repo", "started_at", "build_seconds", "image_size")
    of_test = ("id", "category", "status", "message", "max_score")

    def safe(values: Iterable[Any]) -> list[Any]:
        return [
            formula.sub(r"\1'\2", value) if isinstance(value, str) else value for value in values
        ]

    header = (*of_report, "outcome", *CONDITIONS, "test", *of_test[1:], "score")
    lines: list[list[Any]] = [[name.replace(" ", "_") for name in header]]
    for report in board.reports:
        conditions = map(report.conditions.get, CONDITIONS)
        start = safe(
            [*(getattr(report, name) for name in of_report), OUTCOMES[report.kind], *conditions]
        )
        for test in report.tests:
            score = None if report.score is None else test.score
            lines.append([*start, *safe(getattr(test, name) for name in of_test), score])
    stream = io.StringIO()
    csv.writer(stream).writerows(lines)
    return stream.getvalue()


def compare(board: Board, first: Row, second: Row) -> str:
    """Return the paired difference of two rows, and for each repository the tests that only one passes."""
    gaps = [
        score - second.scores[repo] for repo, score in first.scores.items() if repo in second.scores
    ]
    interval = t_interval(gaps, minimum=-1.0)
    ends = f"{points(interval[0], '+')} to {points(interval[1], '+')}" if interval else "-"
    better, worse = (sum(sign * gap > EPSILON for gap in gaps) for sign in (1, -1))
    difference = f"{points(mean(gaps), '+') if gaps else '-'} points, 95% interval {ends}"
    counts = f"{len(gaps)} repositories, {better} better, {worse} worse"
    lines = [f"{first.model} minus {second.model}: {difference}, {counts}"]
    for repo in board.repos:
        lines += [
            "",
            f"{repo}: {first.model} {cell(first, repo)}, {second.model} {cell(second, repo)}",
        ]
        for row, other in ((first, second), (second, first)):
            ours, theirs = tests_by_id(row.cells[repo]), tests_by_id(other.cells[repo])
            for test_id in ours if theirs else ():
                failed = theirs.get(test_id, [])
                if any(test.passed for test in ours[test_id]) and not any(
                    test.passed for test in failed
                ):
                    reason = (
                        f"{failed[0].status}, {failed[0].message}" if failed else "no such test"
                    )
                    lines.append(f"  only {row.model} passes {test_id}; {other.model}: {reason}")
    return "\n".join(lines) + "\n"


def tests_by_id(reports: Iterable[Report]) -> dict[str, list[Test]]:
    """Return the tests of the reports with an image."""
    tests: dict[str, list[Test]] = collections.defaultdict(list)
    for test in (test for report in reports if not report.kind for test in report.tests):
        tests[test.id].append(test)
    return tests


def items(board: Board) -> str:
    """Return for each repository the rate at which each test passes, over the reports with an image."""
    parts = []
    for repo in board.repos:
        table = [["test", "passed", "rate", ""]]
        for test_id, tests in tests_by_id(
            report for row in board.rows for report in row.cells[repo]
        ).items():
            passed, total = sum(test.passed for test in tests), len(tests)
            note = "none" if not passed else "all" if passed == total else ""
            table.append([test_id, f"{passed} of {total}", percent(passed, total), note])
        parts.append(f"{repo}\n{as_text(table, 1000)}")
    return "\n".join(parts)


# -------- Page: one HTML file without scripts; page.html is its template --------
HEAT_COLUMNS = 20  # repositories in one heat map; the others follow below
DETAILS = 1_500_000  # bytes for the details of all cells


def as_page(board: Board) -> str:
    """Return the board as HTML: bars, and heat maps whose cells open the reports behind them."""
    with open(os.path.join(os.path.dirname(__file__), "page.html"), encoding="utf-8") as file:
        template = string.Template(file.read())

    def bar(
        y: int, x: int, words: str
    ) -> str:  # drawn by the template from the numbers in its style
        row = board.rows[y]
        ends = {"score": row.score or 0, **dict(zip(("low", "high"), row.interval or ()))}
        ends.update(zip(("lower", "upper"), row.bounds if row.missing else ()))
        style = "".join(f"--{name}:{end:.2%};" for name, end in ends.items())
        kind = f"bar {board.standing(row)}"
        return f'<td class="{kind}" style="{style}"><i></i>{words}' if x == 0 else f"<td>{words}"

    best = board.best if board.critical is not None else 0  # of the band of the critical difference
    starts = range(0, len(board.repos), HEAT_COLUMNS)
    return template.substitute(
        headline="".join(f"<p>{escape(line)}" for line in headline(board)),
        notes="".join(f"<p>{escape(line)}" for line in board.notes),
        best=f"{best:.2%}",
        near=f"{max(best - (board.critical or 0), 0):.2%}",
        board=as_html(board_table(board), bar),
        heat="".join(
            heat_map(board, board.repos[start : start + HEAT_COLUMNS]) for start in starts
        ),
    )


def heat_map(board: Board, repos: Sequence[str]) -> str:
    """Return the table of some repositories; a cell opens its details, which are cut for a page of 2 MB."""
    limit = DETAILS // (len(board.rows) * len(board.repos))  # bytes

    def heat(y: int, x: int, words: str) -> str:
        row, repo = board.rows[y], repos[x]
        lines = itertools.islice(details(row.cells[repo]), limit // 20)
        shown = (
            escape("\n".join([f"{row.model}, {repo}", *lines]))
            .encode()[:limit]
            .decode(errors="ignore")
        )
        color = f' style="--share:{row.scores[repo]:.3f}"' if repo in row.scores else ""
        return (
            f"<td{color}><details name=cell><summary>{words}</summary><pre>{shown}</pre></details>"
        )

    return f'<div class="wide"><table class="heat">{as_html(repo_table(board, repos), heat)}</table></div>'


def as_html(table: Table, cell_html: Callable[[int, int, str], str]) -> str:
    """Return the lines of a table as HTML; a cell is made of its line, its column and its escaped words."""
    head, *lines = ([escape(words) for words in line] for line in table)
    rows = ["".join(f"<th>{words}" for words in head)]
    for y, (first, *line) in enumerate(lines):
        rows.append(f"<th>{first}{''.join(cell_html(y, x, words) for x, words in enumerate(line))}")
    return f"<thead><tr>{rows[0]}<tbody><tr>{'<tr>'.join(rows[1:])}"


def details(reports: Sequence[Report]) -> Iterator[str]:
    """Yield lines on the reports behind a cell, the most important ones first."""
    for report in reports:
        yield " ".join(filter(None, [report.sample, OUTCOMES[report.kind], report.message]))
        failed = [test for test in report.tests if not report.kind and not test.passed]
        for test in failed:
            yield f"{test.id}: {test.status}, 0 of {test.max_score:.15g} points: {test.message}"
        yield f"passed: {', '.join(test.id for test in report.tests if test.passed) or 'none'}"
        outputs = {
            f"{test.id}: {test.type} {json.dumps(test.params)}": test.output for test in failed
        }
        outputs.update(
            {"end of the build log:": report.log} if report.kind in FAILED_BUILDS else {}
        )
        for title, output in outputs.items():
            yield from ("", printable(title), *map(printable, output.splitlines()), "")


# -------- Command line --------
def run(arguments: argparse.Namespace) -> int:
    """Print and write what is asked for; return the exit code, raise EvaluationError for bad arguments."""
    reports, left_out = read_reports(arguments.folders, samples=arguments.samples)
    notes = [f"left out: {line}" for line in left_out[:20]]
    notes += [f"left out: {len(left_out) - 20} more files"] * (len(left_out) > 20)  # noqa: PLR2004
    if arguments.reference:
        reports, excluded = exclude_unsolved(reports, arguments.reference)
        notes += excluded
    if not reports:
        print(*notes, "no valid report", sep="\n", file=sys.stderr)
        return 1
    board, code = Board(reports, notes, missing_zero=arguments.missing_zero), 0
    rows, compared = {row.model: row for row in board.rows}, arguments.compare or ()
    if not {*compared} <= {*rows}:
        raise EvaluationError(
            f"--compare: expected two models of {quoted_list(sorted(rows), limit=50)}"
        )
    print("".join(f"{note}\n" for note in board.notes), end="", file=sys.stderr)
    files = {arguments.html: as_page, arguments.markdown: as_markdown, arguments.csv: as_csv}
    for path in filter(None, files):
        try:
            write_file(path, files[path](board))
        except EvaluationError as error:
            print(f"error: {error}", file=sys.stderr)
            code = 1
    width = shutil.get_terminal_size((100, 24)).columns
    tables = [
        as_text(table, width) for table in (board_table(board), repo_table(board, board.repos))
    ]
    parts = [compare(board, *(rows[model] for model in compared))] if compared else []
    parts += [items(board)] if arguments.items else []
    parts = parts or ["".join(f"{line}\n" for line in headline(board)), *tables]
    print("\n".join(parts), end="", file=sys.stderr if "-" in files else sys.stdout)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.usage = "leaderboard.py FOLDER… [OPTION]…"
    add = parser.add_argument
    add(
        "folders",
        nargs="+",
        metavar="FOLDER",
        help="has FOLDER/MODEL; with NAME=FOLDER: model NAME/MODEL",
    )
    add("--samples", action="store_true", help="reports are in FOLDER/MODEL/SAMPLE")
    add(
        "--reference",
        metavar="MODEL",
        help="exclude the tests that this known solution does not pass",
    )
    add("--missing-zero", action="store_true", help="a repository without a report scores 0")
    add("--compare", nargs=2, metavar=("A", "B"), help="print how two models differ, not the board")
    add("--items", action="store_true", help="print the pass rate of each test, not the board")
    add("--html", metavar="FILE", help="write the board as a page")
    add("--markdown", metavar="FILE", help="write the board as Markdown")
    add("--csv", metavar="FILE", help="write a line for each test of each report")
    for stream in (sys.stdout, sys.stderr):  # None if it is closed
        getattr(stream, "reconfigure", dict)(errors="backslashreplace")
    try:
        return run(parser.parse_args(argv))
    except EvaluationError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end silently if nobody reads the output
    raise SystemExit(main())
