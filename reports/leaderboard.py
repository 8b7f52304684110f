#!/usr/bin/env python3
"""Compare models by the reports on their Dockerfiles: which is better, by how much, and how sure is that.

    python3 reports/leaderboard.py reports/ [--samples] [--reference MODEL] [--html FILE] [--csv FILE] …
    python3 reports/leaderboard.py reports/ [--compare MODEL MODEL] [--items]

The folder of a report names its model. A build that failed scores 0; an engine fault, a registry out of
reach, a usage error and an interrupt are no scores. Reports that cannot be read, of another version or given
twice are named and left out; the exit code is 1 only where none is left. README.md explains the numbers.

    paths -> read_reports -> Report -> Board of Row and Item -> tables -> text, Markdown; CSV; page
"""

from __future__ import annotations

import argparse
import collections
import csv
import io
import json
import math
import os
import re
import shutil
import statistics
import string
import sys
from html import escape
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chance  # beside this file
from chance import Interval, mean

VERSION = "1."  # of the evaluator whose reports are read here
SCORED, BUILD_FAILED, ENGINE_FAULT, OTHER_RUBRIC = "scored", "build failed", "engine fault", "another rubric"
OUTCOMES = {"build": BUILD_FAILED, "build_timeout": BUILD_FAILED, "engine": ENGINE_FAULT}
OUTCOMES.update({"registry": "registry out of reach", "usage": "usage error", "interrupted": "interrupted"})
MARKS = {"passed": "✓", "failed": "✗", "timeout": "t", "skipped": "s", "unresolvable": "u", "error": "e"}
MARKS["not_run"] = "·"  # a test's status on the page
FIRST, EQUAL, BEHIND = "first", "may be equal", "clearly behind"  # how a model stands to the first
RARE = 0.01  # the chance of what is named among the tests
MAX_BYTES = 20_000_000  # of a report; the evaluator keeps them under a million
NAME, MESSAGE, OUTPUT, PARAMS = 1000, 300, 1000, 120  # characters; a longer name is refused, the rest is cut
TESTS, NOTES = 4000, 10  # on one page: tests in tables; reports left out that are named
ROOM, DROPPED = 1_700_000, "<dd class=d>"  # bytes of details on one page, and what stands for one dropped
SAMPLE = re.compile(r"(?:(.*)/)?(?:sample|run|seed|try|trial|attempt|repeat)?[-_ ]?\d+")  # a folder's name
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.html")
CONDITIONS = ["evaluator_version", "docker_server", "platform", "builder", "build_options", "run_options"]
CONDITIONS += ["options_sha256", "engine_cpus", "engine_memory", "rubric_sha256"]  # what moves scores


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
    conditions: Mapping[str, str]  # what moves scores, by its field in the report
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


# -------- Reading: reports are other people's files -------------------------------------------


def read_reports(paths: Iterable[str], *, samples: bool = False) -> tuple[list[Report], list[str]]:
    """Return the reports in files, folders and NAME=FOLDER, and why others were left out."""
    reports: dict[tuple[str, str, str], Report] = {}
    owners: dict[str, str] = {}
    left_out: list[str] = []
    for path, place, model, sample in _files(paths, left_out, samples=samples):
        real, owner = os.path.realpath(path), f"{model}/{sample}".rstrip("/")
        if owners.get(real) == owner:  # a folder given twice
            continue
        try:
            if owners.setdefault(real, owner) != owner:
                raise ValueError(f"the same file as one of {owners[real]}")
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
    """Yield each file, its place from the folder given (no machine's path is published), model and sample."""
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
    measured = (_amount(build.get("execution_time")), _amount(environment.get("image_size")))
    why = (_line(error["message"], MESSAGE) if error else "", _tail(build["log"]) * (outcome == BUILD_FAILED))
    made = _scored(Report(*whose, *how, *measured, *why, tests))
    by_tests = {"max_score": made.max_points, "total_score": made.points, "passed_tests": made.passed}
    for key, found in {**by_tests, "total_tests": len(tests)}.items():
        said = _number(report["summary"], key)
        if not math.isclose(said, found, rel_tol=1e-6):
            raise ValueError(f"{key} is {said:g}, but {found:g} by its tests")
    if made.points and outcome == BUILD_FAILED:
        raise ValueError("points without a build")
    if not made.max_points:
        raise ValueError("a rubric without points gives no score")
    return made


def _scored(report: Report) -> Report:
    """Return a report with the numbers that its outcome and its tests make."""
    points = math.fsum(test.score for test in report.tests)
    most = math.fsum(test.max_score for test in report.tests)
    score = points / most if most and report.outcome in (SCORED, BUILD_FAILED) else None
    outcome = OTHER_RUBRIC if report.outcome in (SCORED, BUILD_FAILED) and not most else report.outcome
    passed = sum(test.status == "passed" for test in report.tests)
    made = report._replace(outcome=outcome, score=score, points=points, max_points=most)
    return made._replace(passed=passed, is_solved=outcome == SCORED and passed == len(report.tests))


def _conditions(environment: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name in CONDITIONS:
        value = environment.get(name)
        if isinstance(value, list):
            value = " ".join(map(str, value)) or "none"
        elif name == "engine_memory":
            value = f"{(_amount(value) or 0) / 2**30:.0f} GiB" if _amount(value) else None
        found.update({name: _line(str(value)[:PARAMS])} if value else {})  # an older report does not say all
    return found


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


def _amount(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and 0 < value < math.inf else None  # else unknown


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
    return line if line.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in line)


def _tail(value: str) -> str:
    tail = value.rstrip()[-OUTPUT:].expandtabs(4)
    return tail if tail.replace("\n", "").isprintable() else "\n".join(map(_line, tail.splitlines()))


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at line {error.lineno}, column {error.colno}; half written?"
    if isinstance(error, (KeyError, TypeError, AttributeError, RecursionError)):
        missing = f": {str(error)[:60]} is missing or unknown" * isinstance(error, KeyError)
        return f"no report of this evaluator{missing}"
    return getattr(error, "strerror", None) or str(error)


# -------- The board ---------------------------------------------------------------------------


class Row:
    """One model over all repositories of a board."""

    def __init__(self, model: str, samples: int, cells: Mapping[str, Sequence[Report]]) -> None:
        """Sum up a model of so many samples; `cells` holds its reports by repository."""
        self.model = model
        found = [report for cell in cells.values() for report in cell]
        built = [report for report in found if report.outcome == SCORED]
        by_repo = {repo: _scores(cell) for repo, cell in cells.items() if _scores(cell)}
        self.scores = {repo: math.fsum(scores) / len(scores) for repo, scores in by_repo.items()}
        self.score, self.interval = mean(self.scores.values()), chance.interval(self.scores.values())
        # Reports: there should be, with a score (0 for a failed build included), without by the reason.
        self.reports, self.evaluated, self.built = samples * len(cells), len(_scores(found)), len(built)
        outcomes = collections.Counter(report.outcome for report in found)
        outcomes["no report"] = self.reports - len(found)
        kinds = sorted({*outcomes} - {SCORED, BUILD_FAILED})
        self.missing = {kind: outcomes[kind] for kind in kinds if outcomes[kind]}
        # Of the score, with what is missing as 0 and as 1.
        low = math.fsum(_scores(found)) / self.reports
        self.bounds = (low, low + 1 - self.evaluated / self.reports)
        # By repository: how many samples have a score, and how many of them pass all tests.
        self.tries = [(len(by_repo[repo]), sum(r.is_solved for r in cells[repo])) for repo in by_repo]
        self.solved = sum(solved > 0 for _, solved in self.tries)
        self.build_seconds = mean((report.build_seconds for report in built), statistics.median)
        self.image_size = mean((report.image_size for report in built), statistics.median)

    def tried(self, of: Callable[[int, int, int], float], k: int) -> float | None:
        """Return the mean of pass@k or pass^k over repositories; None where one has fewer scores."""
        few = any(count < k for count, _ in self.tries)  # a mean of those that were luckier with the engine
        return None if few else mean(of(count, solved, k) for count, solved in self.tries)

    def lack(self) -> str:
        """Return which reports have no score, and why."""
        return ", ".join(f"{count} {why}" for why, count in self.missing.items())


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
            key = f"rubric of {report.repo}" if name == "rubric_sha256" else name.replace("_", " ")
            major = value.split(".")[0] if name == "docker_server" else value
            found.setdefault(key, {}).setdefault(major[:60], []).append(report.model)
    if any(len(found.get(name, ())) > 1 for name in ("build options", "run options")):
        found.pop("options sha256", None)  # which then differs as well
    told = []
    for condition, by_value in found.items():
        (usual, _), *others = sorted(by_value.items(), key=lambda item: -len(item[1]))
        words = [f"{value} for {listed(sorted({*models}), 3)}" for value, models in others]
        told += [f"{condition}: {listed(words, 3)}, {usual} for most"] * bool(others)
    return listed(told, 8, "; ")


def hold_against_nobody(reports: Sequence[Report], reference: str) -> tuple[list[Report], list[str]]:
    """Leave out the row of known solutions, and of others the tests that these do not pass; note which."""
    kept: list[Report] = []
    told: dict[str, list[str]] = collections.defaultdict(list)
    for repo in sorted({report.repo for report in reports if report.model != reference}):
        solutions = [r for r in reports if (r.model, r.repo) == (reference, repo) and r.score is not None]
        others = [report for report in reports if report.repo == repo and report.model != reference]
        passed = {t.test_id: t.max_score for r in solutions for t in r.tests if t.status == "passed"}
        lost = dict.fromkeys(t.test_id for r in others for t in r.tests if t.test_id not in passed)
        if not solutions:
            told["counted in full: it has no score on"].append(repo)
            kept += others
        elif any(passed.values()):
            told["held against nobody: it does not pass"] += [f"{repo} ({', '.join(lost)})"] * bool(lost)
            kept += [_scored(r._replace(tests=[t for t in r.tests if t.test_id in passed])) for r in others]
        else:
            told["not on the board: it passes nothing of"].append(repo)
    return kept, [f"reference {reference}: {why} {', '.join(what)}" for why, what in told.items() if what]


class Board:
    """Rows of models, the best first, and columns of repositories, by name."""

    def __init__(self, reports: Iterable[Report], left_out: Sequence[str] = (), reference: str = "") -> None:
        """Sort the reports into rows and columns; note what no reader of the numbers should miss."""
        self.reports, self.reference = list(reports), reference
        self.notes = [f"left out: {line}" for line in left_out[:NOTES]]
        self.notes += [f"left out: {len(left_out) - NOTES} more"] * (len(left_out) > NOTES)
        differ = unequal_conditions(self.reports)
        self.notes += [f"warning: conditions differ: {differ}"] * bool(differ)
        self.reports, held = hold_against_nobody(self.reports, reference) if reference else (self.reports, [])
        self.notes += held
        # By model and repository: a report for each sample.
        self.cells: dict[tuple[str, str], list[Report]] = collections.defaultdict(list)
        samples: dict[str, set[str]] = collections.defaultdict(set)
        for report in self.reports:
            self.cells[report.model, report.repo].append(report)
            samples[report.model].add(report.sample)
        self.repos = sorted({report.repo for report in self.reports})
        self.categories = sorted({t.category for r in self.reports for t in r.tests} - {""})
        self.has_samples = any(report.sample for report in self.reports)
        likely = [] if self.has_samples else [*filter(None, map(SAMPLE.fullmatch, samples))]
        if len({match[1] for match in likely}) < len(likely):
            self.notes.append(f"warning: samples, but no --samples? {listed([m[0] for m in likely], 3)}")
        rows = []
        for model, names in samples.items():
            rows.append(Row(model, len(names), {repo: self.cells[model, repo] for repo in self.repos}))
        # k of pass@k: the samples that every row has, so that none has more tries than another.
        self.k = min((max(count for count, _ in row.tries) for row in rows if row.tries), default=1)
        # An incomplete row stands where its lower bound puts it, lest one good report lead the board.
        self.rows = sorted(rows, key=lambda row: (row.score is None, -row.bounds[0], row.model))
        self.complete = [row for row in self.rows if not row.missing]
        self.critical: float | None = None
        if len(self.complete) > 1 and len(self.repos) >= chance.FEWEST_RANKED:
            self.critical = chance.critical_difference([[*row.scores.values()] for row in self.complete])

    def standing(self, row: Row) -> str:
        """Return whether a row is the first, clearly behind it or may be equal; "-" where nothing tells."""
        if self.critical is None or row.missing:
            return "-" if self.critical is None else "incomplete"
        if row is self.complete[0]:
            return FIRST
        gap = (self.complete[0].score or 0) - (row.score or 0)
        return BEHIND if chance.sign(gap - self.critical) > 0 else EQUAL

    def share(self, model: str, category: str) -> float | None:
        """Return a model's share of a category's points, the mean over repositories."""
        cells = (self.cells[model, repo] for repo in self.repos)
        return mean(mean(_category_share(report, category) for report in cell) for cell in cells)

    def items(self, repo: str) -> dict[str, list[str]]:
        """Return by test the share of the models whose image was built that pass, and what that tells."""
        # By test and model: whether a sample passes, and its share of the other points.
        runs: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for report in (r for row in self.rows for r in self.cells[row.model, repo] if r.outcome == SCORED):
            for test in report.tests:
                rest = (report.points - test.score) / (report.max_points - test.max_score or 1)
                run = runs.setdefault(test.test_id, {}).setdefault(report.model, [])
                run.append((test.status == "passed", rest))
        items = {}
        for test_id, by_model in runs.items():
            pairs = [[math.fsum(side) / len(run) for side in zip(*run)] for run in by_model.values()]
            passes, rests = zip(*pairs)
            note, share = "", math.fsum(passes) / len(passes)
            if share in (0, 1):
                note = ("passed by all built" if share else "passed by none built") * (len(passes) > 1)
            elif chance.as_low([passed > 1 / 2 for passed in passes], rests) < RARE:  # most samples of a row
                note = "passed by the weaker"
            items[test_id] = [f"{percent(share, 0)} of {len(passes)}", note]
        return items


# -------- Words, the same in text, Markdown and the page; CSV ---------------------------------


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as it is printed everywhere."""
    return "-" if share is None else f"{share * 100:.{digits}f}%"


def points(difference: float) -> str:
    """Return a difference of two shares in percentage points, never as -0.0."""
    return f"{round(difference * 100, 1) + 0.0:+.1f}"


def span(found: Interval | None) -> str:
    """Return an interval in words."""
    return f"{percent(found[0])} to {percent(found[1])}" if found else "-"


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
        failed = f", {outcomes[BUILD_FAILED]} {BUILD_FAILED}" * bool(outcomes[BUILD_FAILED])
        return f"{share} ({len(scores)}: {percent(min(scores), 0)} to {percent(max(scores), 0)}{failed})"
    tests = f"{cell[0].points:g}/{cell[0].max_points:g} ({cell[0].passed} of {len(cell[0].tests)})"
    return f"{share} {BUILD_FAILED if cell[0].outcome == BUILD_FAILED else tests}"


def opening(reports: Sequence[Report], reference: str = "") -> list[str]:
    """Say in two lines what is compared."""
    sizes = [len({report.model for report in reports}), len({report.repo for report in reports})]
    sizes += [len({(report.repo, test.test_id) for report in reports for test in report.tests}), len(reports)]
    days = sorted(report.started[:10] for report in reports)
    told = {"days": [" to ".join(sorted({days[0], days[-1]}))], "reference": [reference] * bool(reference)}
    for name, field in (("evaluator", "evaluator_version"), ("engine", "docker_server")):
        told[name] = sorted({report.conditions[field] for report in reports if field in report.conditions})
    how = [f"{name}: {listed(values, 4)}" for name, values in told.items() if values]
    return ["models: {}; repositories: {}; tests: {}; reports: {}".format(*sizes), "; ".join(how)]


def tables(board: Board) -> dict[str, list[list[str]]]:
    """Return the board as tables of words: models, categories; without columns that say nothing."""
    rows = []
    for row in board.rows:
        is_level = not row.interval and len(row.scores) >= chance.FEWEST
        words = {"model": row.model, "score": percent(row.score)}
        words["95% interval"] = "no spread" if is_level else span(row.interval)
        words["standing"] = board.standing(row)
        words["solved" if board.has_samples else "passed in full"] = f"{row.solved} of {len(row.scores)}"
        if board.has_samples:
            words[f"pass@{board.k}"] = percent(row.tried(chance.pass_at_k, board.k))
            words[f"pass^{board.k}"] = percent(row.tried(chance.pass_all, board.k))
        words["built"] = f"{row.built} of {row.evaluated}"
        words["build time"] = f"{row.build_seconds:.1f} s" if row.build_seconds else "-"
        words["image size"] = f"{row.image_size / 1e6:.1f} MB" if row.image_size else "-"
        lack = f"{sum(row.missing.values())} of {row.reports} ({row.lack()}): {span(row.bounds)}"
        rows.append({**words, "incomplete": lack if row.missing else "-"})
    titles = [title for title in rows[0] if title == "score" or any(words[title] != "-" for words in rows)]
    lines = [[*titles, *board.repos]]
    for row, words in zip(board.rows, rows):
        cells = [cell_words(board.cells[row.model, repo]) for repo in board.repos]
        lines.append([*map(words.__getitem__, titles), *cells])
    means = [percent(mean(row.scores.get(repo) for row in board.rows)) for repo in board.repos]
    found = {"models": [*lines, ["mean", *[""] * (len(titles) - 1), *means]]}
    if board.categories:
        names = board.categories
        shares = {row.model: [percent(board.share(row.model, name)) for name in names] for row in board.rows}
        lines = [[row.model + " *" * bool(row.missing), *shares[row.model]] for row in board.rows]
        found["categories"] = [["by category", *board.categories], *lines]
    return found


def verdict(board: Board) -> list[str]:
    """Answer in a few lines which model is better, and whether that is more than chance."""
    places = ("first" + " of the complete models" * (len(board.complete) < len(board.rows)), "next")
    named = [f"{r.model} is {place} with {percent(r.score)}" for r, place in zip(board.complete, places)]
    lines = [", ".join(named) or "no model has a score in every repository"]
    if board.critical is not None:
        size = f"critical difference, {len(board.repos)} repositories, {len(board.complete)} models"
        lines.append(f"models less than {points(board.critical)[1:]} points apart may be equal ({size})")
        for standing, words in ((EQUAL, f"{EQUAL} to"), (BEHIND, BEHIND)):
            models = [row.model for row in board.rows if board.standing(row) == standing]
            lines += [f"{words} {board.complete[0].model}: {listed(models, 10)}"] * bool(models)
    elif len(board.complete) > 1:
        lines.append(f"under {chance.FEWEST_RANKED} repositories nothing tells whether that is chance")
    lacking = [row for row in board.rows if row.missing]
    for row in lacking[:5]:
        words = f"{row.model} is incomplete: its score lies within {span(row.bounds)}, whatever is missing"
        for other in board.complete[:1]:
            low, high = (chance.sign(bound - (other.score or 0)) for bound in row.bounds)
            order = "ahead of" if low > 0 else "behind" if high < 0 else "ahead of or behind"
            gaps = chance.differences(row.scores, other.scores)
            both = f"; {points(mean(gaps) or 0)} points over the {len(gaps)} repositories that both have"
            words += f", {order} {other.model}{both * bool(gaps)}"
        lines.append(words)
    return lines + [f"{len(lacking) - 5} more are incomplete"] * (len(lacking) > 5)  # noqa: PLR2004


def text(board: Board, width: int = 100) -> str:
    """Return the board for a terminal; repositories that do not fit follow in further tables."""
    blocks = [_text_table(table, width) for table in tables(board).values()]
    first, last = ("\n".join(lines) for lines in (opening(board.reports, board.reference), verdict(board)))
    return "\n\n".join([first, *blocks, last]) + "\n"


def _text_table(table: list[list[str]], width: int) -> str:
    """Return a table as text; columns that do not fit follow below, behind the first."""
    widths = [max(map(len, column)) for column in zip(*table)]
    blocks = [[0]]
    for at in range(1, len(widths)):
        if blocks[-1] != [0] and sum(widths[column] + 2 for column in [*blocks[-1], at]) - 2 > width:
            blocks.append([0])
        blocks[-1].append(at)
    filled = [[f"{w:{'>' if at else '<'}{widths[at]}}" for at, w in enumerate(line)] for line in table]
    parts = ([[line[at] for at in block] for line in filled] for block in blocks)
    told = (["  ".join(line).rstrip() for line in part if "".join(line[1:]).strip()] for part in parts)
    return "\n\n".join(map("\n".join, told))


def markdown(board: Board) -> str:
    """Return the board as Markdown, in which text of anybody's stands as it is."""
    evil, plain = re.compile(r"([][\\`*_{}<>#~|!&:@$^]|\.(?!\d))"), r"\\\1"
    told = [*opening(board.reports, board.reference), *verdict(board), *board.notes]
    blocks = ["".join(f"{evil.sub(plain, line)}\n\n" for line in told)[:-1]]
    for head, *body in tables(board).values():
        rows = [" | ".join(evil.sub(plain, words) for words in line) for line in (head, *body)]
        rows.insert(1, " | ".join(["---", *["---:"] * (len(head) - 1)]))
        blocks.append("".join(f"| {row} |\n" for row in rows))
    return "\n".join(blocks)


def csv_of_models(board: Board) -> str:
    """Return a line for each model with all its numbers, shares from 0 to 1."""
    hidden = ("model", "interval", "bounds", "missing", "scores", "tries")
    lines = []
    for row in board.rows:
        line: dict[str, Any] = {"model": row.model, "standing": board.standing(row)}
        line.update(zip(("interval_low", "interval_high"), row.interval or (None, None)))
        line.update(zip(("bound_low", "bound_high"), row.bounds), critical_difference=board.critical)
        line.update({name: value for name, value in vars(row).items() if name not in hidden})
        line[f"pass@{board.k}"] = row.tried(chance.pass_at_k, board.k)
        line[f"pass^{board.k}"] = row.tried(chance.pass_all, board.k)
        line.update(repositories=len(row.scores), missing=row.lack())
        line.update({f"category: {name}": board.share(row.model, name) for name in board.categories})
        lines.append({**line, **{f"repo: {repo}": row.scores.get(repo) for repo in board.repos}})
    return _csv(lines)


def csv_of_reports(board: Board) -> str:
    """Return a line for each report; what is no score has none, so that no mean counts it."""
    hidden = ("file", "conditions", "log", "tests", "is_solved")
    lines = []
    for r in board.reports:
        line = {name: value for name, value in r._asdict().items() if name not in hidden}
        lines.append({**line, **dict.fromkeys(["points", "passed"] * (r.score is None)), **r.conditions})
    return _csv(lines)


def csv_of_tests(board: Board) -> str:
    """Return a line for each test of each report, without a score where the report has none."""
    lines = []
    for report in board.reports:
        whose = {name: getattr(report, name) for name in ("model", "sample", "repo", "outcome")}
        none = {} if report.score is not None else {"score": None}
        lines += [{**whose, **test._replace(output="")._asdict(), **none} for test in report.tests]
    return _csv(lines)


def _csv(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return CSV in which a spreadsheet finds no formula (OWASP, CSV injection), even behind a `;`."""
    evil = re.compile(r"(^|;)(\s*[=+\-@|%\uff1d\uff0b\uff0d\uff20])")  # and their full-width forms
    out, names = io.StringIO(), {name: name for line in lines for name in line}
    for line in (names, *lines):
        cells = [round(cell, 6) + 0.0 if isinstance(cell, float) else cell for cell in map(line.get, names)]
        csv.writer(out).writerow([evil.sub(r"\1'\2", c) if isinstance(c, str) else c for c in cells])
    return out.getvalue()


def compare(board: Board, first: str, second: str) -> str:
    """Say how much better one model is, then test by test what one passes and the other does not."""
    scores = {row.model: row.scores for row in board.rows}
    gaps = chance.differences(scores.get(first, {}), scores.get(second, {}))
    better, worse = (sum(chance.sign(gap) == side for gap in gaps) for side in (1, -1))
    sure, words = "no 95% interval", "no repository in which both have a score"
    found = chance.interval(gaps, least=-1)
    if found:
        judgment = "is clear" if chance.sign(found[0]) == chance.sign(found[1]) else "may be chance"
        sure = f"95% interval {points(found[0])} to {points(found[1])}; the difference {judgment}"
    if gaps:
        words = f"{points(mean(gaps) or 0)} points ({sure}); better in {better} of {len(gaps)} repositories, "
        words += f"worse in {worse}, equal in {len(gaps) - better - worse}"
    both = [report for report in board.reports if report.model in (first, second)]
    lines = [f"{first} against {second}: {words}", *opening(both, board.reference), ""]
    for repo in board.repos:
        cells = {name: board.cells[name, repo] for name in (first, second)}
        lines += [f"{repo}: " + ", ".join(f"{name} {cell_words(cell)}" for name, cell in cells.items())]
        failed = (report for report in cells[first] + cells[second] if report.outcome != SCORED)
        lines += [f"  {'/'.join(filter(None, report[:2]))}: {report.message}" for report in failed]
        lines += [*_passed_by(cells, first, second), *_passed_by(cells, second, first)]
    return "\n".join(lines) + "\n"


def _passed_by(cells: Mapping[str, Sequence[Report]], better: str, worse: str) -> Iterator[str]:
    """Yield what one of two models passes more often, and why the other does not."""
    runs: dict[str, dict[str, list[Test]]] = {better: {}, worse: {}}
    for model, cell in cells.items():
        for test in (test for report in cell if report.score is not None for test in report.tests):
            runs[model].setdefault(test.test_id, []).append(test)
    has_images = all(any(report.outcome == SCORED for report in cell) for cell in cells.values())
    for test_id, here in runs[better].items() if has_images else ():
        there = runs[worse].get(test_id, [])
        passed, others = ([test.status == "passed" for test in tests] for tests in (here, there))
        start = f"only {better} passes {test_id}; {worse}"
        if max(len(here), len(there)) > 1:
            start = f"{test_id}: {better} {sum(passed)} of {len(here)}, {worse} {sum(others)} of {len(there)}"
        failed = [f"{test.status}: {test.message}" for test in there if test.status != "passed"]
        if (mean(passed) or 0) > (mean(others) or 0):
            yield f"  {start}: {failed[0] if failed else 'no such test in its rubric'}"


def items_text(board: Board) -> str:
    """Return for each repository its tests, the share of models that pass, and which to look at."""
    blocks = ["\n".join(opening(board.reports, board.reference)) + "\n"]
    for repo in board.repos:
        lines = [[test_id, *words] for test_id, words in board.items(repo).items()]
        blocks.append(f"{repo}\n{_text_table([['', 'passed', 'note'], *lines], 1000)}\n")
    return "\n".join(blocks)


# -------- The page: one file, no network; cells are links, so that it works without JavaScript ----


def page(board: Board) -> str:
    """Return the board as HTML; page.html beside this file holds its frame, styles and script."""
    with open(PAGE, encoding="utf-8") as file:
        parts = re.split(r"^<!-- (\w+) -->\n", file.read(), flags=re.MULTILINE)
    fill = {name: string.Template(part).substitute for name, part in zip(parts[1::2], parts[2::2])}
    found, width = tables(board), len(board.repos)
    heat = [[line[0], *line[-width:]] for line in found["models"]]
    known, critical = board.critical is not None, board.critical or 0
    first = (board.complete[0].score or 0) if known else 0
    near = {"first": f"{first:.2%}", "near": f"{max(first - critical, 0):.2%}"}
    near["words"] = f"critical difference {points(critical)[1:]} points" * known
    bar = []
    for row in board.rows:  # its interval as a whisker, and the bounds of an incomplete row
        kind = " behind" * (board.standing(row) == BEHIND) + " point" * (not row.interval)
        kind += " whole" * (not row.missing)
        numbers = (row.score or 0, *(row.interval or (0, 0)), *row.bounds)
        ends = zip(("score", "low", "high", "least", "most"), numbers)
        bar.append(fill["bar"]({name: f"{end:.2%}" for name, end in ends}, kind=kind.strip()))
    bars = [[line[0], "", *line[1:-width]] for line in found["models"][:-1]]
    table = _table(bars, lambda y, x, words: f"<td>{escape(words)}" if x else bar[y])
    pieces: list[str] = []
    for at, repo in enumerate(board.repos):
        pieces.append(fill["section"](id=f"p{at}", name=escape(repo)))
        pieces += _section(board, at)
    spare = ROOM - sum(len(piece.encode()) for piece in pieces)
    for at in sorted(range(len(pieces)), key=lambda at: -len(pieces[at])):  # the longest are dropped first
        if spare < 0 and pieces[at].startswith(("<dd>", "<pre>")):
            spare += len(pieces[at].encode()) - len(DROPPED)
            pieces[at] = DROPPED
    lost = f"no room on this page for {pieces.count(DROPPED)} messages and outputs, the longest"
    notes = [*board.notes, *[lost] * (DROPPED in pieces)]
    return fill["page"](
        near,
        name=max(len(row.model) for row in board.rows) + 1,
        opening="<br>".join(map(escape, opening(board.reports, board.reference))),
        verdict="".join(f"<p>{escape(line)}" for line in verdict(board)),
        notes="".join(f'<p class="caution">{escape(line)}' for line in notes),
        board=table.replace("<button></button>", fill["ruler"](near), 1),
        heat=_table(heat[:-1], lambda y, x, words: _heat(words, f"p{x}m{y}" * (words != "-"))),
        means="".join(_heat(words, f"p{at}") for at, words in enumerate(heat[-1][1:])),
        categories=_table(found.get("categories", []), lambda _y, _x, words: _heat(words)),
        sections="".join(pieces),
    )


def _table(lines: list[list[str]], cell: Callable[[int, int, str], str]) -> str:
    """Return a table, "" of no lines; `cell` makes the HTML of a cell from its line, column and words."""
    rows = ["".join(f"<th><button>{escape(words)}</button>" for words in line) for line in lines[:1]]
    for y, (first, *line) in enumerate(lines[1:]):
        rows.append(f"<th>{escape(first)}" + "".join(cell(y, x, words) for x, words in enumerate(line)))
    return f"<thead><tr>{rows[0]}<tbody><tr>{'<tr>'.join(rows[1:])}" if rows[1:] else ""


def _heat(words: str, link: str = "") -> str:
    share, _, more = words.partition(" ") if "%" in words else ("–", "", words.strip("-"))  # noqa: RUF001
    inner = f"{share}<small>{escape(more)}</small>" if more else share
    inner = f'<a href="#{link}">{inner}</a>' if link else inner
    kind = f' class="s{" x" * (BUILD_FAILED in more)}" style="--p:{share[:-1]}"' if "%" in words else ""
    return f"<td{kind}>{inner}"


def _section(board: Board, at: int) -> Iterator[str]:
    """Yield in pieces why tests and builds failed, and the tests by models."""
    tests: dict[str, Test] = {}
    marks: dict[tuple[str, int], str] = collections.defaultdict(str)  # of the samples, by test and row
    for y, row in enumerate(board.rows):
        cell = board.cells[row.model, board.repos[at]]
        yield f'<article id="p{at}m{y}"><h3>{escape(f"{row.model}: {cell_words(cell)}")}</h3>' * bool(cell)
        for report in cell:
            words = f"{report.sample}: {cell_words([report._replace(sample='')])}" * bool(report.sample)
            yield f"<p><b>{escape(words)}</b> {escape(report.message)}</p>"
            yield f"<pre>{escape(report.log)}</pre>" * bool(report.log)
            for test in report.tests:
                marks[tests.setdefault(test.test_id, test).test_id, y] += MARKS[test.status]
                if test.status not in ("passed", "not_run"):
                    yield f"<dt><b>{escape(test.test_id)}</b> {test.status}"
                    yield f"<dd>{escape(test.message)}"
                    yield f"<pre>{escape(test.output)}</pre>" * bool(test.output)
        yield "</article>" * bool(cell)
    items, most = board.items(board.repos[at]), max(5, TESTS // len(board.repos))
    lines = [["test", "points", "passed", "note", *(row.model for row in board.rows), "asks for"]]
    for name in [*tests][:most]:
        about = [name, f"{tests[name].max_score:g}", *items.get(name, "--")]
        lines.append([*about, *(marks[name, y] for y in range(len(board.rows))), tests[name].asks])
    if len(tests) > most:
        lines.append([f"{len(tests) - most} more: see --items", *[""] * (len(lines[0]) - 1)])

    def mark(_: int, x: int, words: str) -> str:
        is_mark = 3 <= x < 3 + len(board.rows)  # noqa: PLR2004, behind points, passed and note
        failed = is_mark and MARKS["passed"] not in words and words.strip(MARKS["not_run"])
        return f"<td{' class=f' * bool(failed)}>{escape(words)}"

    yield f'<div class="wide"><table class="tests sort">{_table(lines, mark)}</table></div></section>'


# -------- Command line ------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Read reports, print and write the board; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("reports", nargs="+", metavar="REPORTS", help="reports, their folders, or NAME=FOLDER for NAME/MODEL")
    add("--samples", action="store_true", help="the last folder of a report is a sample of its model")
    add("--reference", metavar="MODEL", help="known solutions: what they do not pass is held against nobody")
    add("--html", metavar="FILE", help="write a page with bars, heat map, and the tests behind them")
    add("--csv", metavar="FILE", help="write a line for each model")
    add("--reports-csv", metavar="FILE", help="write a line for each report")
    add("--tests-csv", metavar="FILE", help="write a line for each test of each report")
    add("--markdown", metavar="FILE", help="write the tables as Markdown")
    add("--compare", nargs=2, metavar="MODEL", help="print the paired difference, and what only one passes")
    add("--items", action="store_true", help="print the tests of each repository, and which to look at")
    options = parser.parse_args(argv)
    sys.stdout, sys.stderr = (s or open(os.devnull, "w") for s in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # names and messages come in any script
    reports, left_out = read_reports(options.reports, samples=options.samples)
    models = sorted({report.model for report in reports})
    named = [*(options.compare or ()), *filter(None, [options.reference])]
    for at, model in enumerate(named if reports else ()):
        if model not in models or model in named[:at]:
            why = "is named twice" if model in models else f"is none of the models: {', '.join(models)}"
            parser.error(f"{model!r} {why}")
    board = Board(reports, left_out, options.reference or "")
    notes = board.notes + ["no report is left"] * (not board.reports)
    print("".join(note + "\n" for note in notes), end="", file=sys.stderr)
    if not board.reports:
        return 1
    writers = {"html": page, "csv": csv_of_models, "reports_csv": csv_of_reports, "tests_csv": csv_of_tests}
    for name, make in {**writers, "markdown": markdown}.items():
        made = make(board) if vars(options)[name] else ""  # before a file that is there is emptied
        try:
            with open(vars(options)[name] or os.devnull, "w", encoding="utf-8", newline="") as file:
                file.write(made)
        except OSError as error:
            print(f"cannot write: {error}", file=sys.stderr)
            return 1
    answers = [compare(board, *options.compare)] if options.compare else []
    answers += [items_text(board)] if options.items else []
    answers = answers or [text(board, shutil.get_terminal_size((100, 24)).columns)]
    print("\n".join(answers), end="", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
