#!/usr/bin/env python3
"""Compare the reports of many evaluations: who passes what, where, and how many tests.

    python3 reports/leaderboard.py reports/ [--html FILE] [--csv FILE] [--markdown FILE]
    python3 reports/leaderboard.py reports/ --compare ROW ROW

Folders are searched. The folder of a report is its row (a model, a prompt, a commit), its repo its
column. A build that failed, an engine at fault and an interrupt are no scores: they are counted
apart, and no mean rests on them. Reports that cannot be read, of another version or given twice are
named and left out; the exit code is 1 only where nothing is left.

    paths -> read_reports -> Cell -> Board -> text, HTML, CSV, Markdown
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import json
import os
import re
import sys
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

VERSION = "1."  # of the evaluator whose reports are read here
SCORED = "scored"
ENDS = {
    "build": "build failed",
    "build_timeout": "build failed",
    "engine": "engine fault",
    "interrupted": "interrupted",
}
OTHER_ENDS = tuple(dict.fromkeys(ENDS.values()))
MEAN_COLUMNS = ("mean", "of", *OTHER_ENDS)
HTML_LIMIT = 1_800_000  # bytes, shared by all reports


class Row(NamedTuple):
    """One test of a report."""

    test_id: str
    status: str
    message: str
    output: str


class Cell(NamedTuple):
    """One report: whose it is, how it ended, and what was scored."""

    row: str
    repo: str
    file: str
    end: str
    score: float
    max_score: float
    passed: int
    total: int
    message: str
    started: str
    rubric: str
    tests: Sequence[Row]

    @property
    def share(self) -> float:
        """The score as a share of all points."""
        return self.score / self.max_score


class Mean(NamedTuple):
    """The mean share of some cells, None without any, and what it rests on."""

    share: float | None
    scored: int
    ends: dict[str, int]


# ---------------------------------------------------------------------------------------------
# Reading
# ---------------------------------------------------------------------------------------------


def read_reports(paths: Iterable[str]) -> tuple[list[Cell], list[str]]:
    """Return a cell for each report in files and folders, and why others were left out."""
    cells: dict[tuple[str, str], Cell] = {}
    left_out = []
    files: dict[str, str] = {}
    for row, path in _files(paths):
        first = files.setdefault(os.path.realpath(path), row)
        if first != row:
            left_out.append(f"{path}: the same file as one of {first}")
            continue
        try:
            cell = _read(row, path)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            left_out.append(f"{path}: {_reason(error)}")
            continue
        other = cells.setdefault((cell.row, cell.repo), cell)
        if other is not cell:
            left_out.append(f"{path}: a second report on {cell.repo} in {cell.row}; {other.file} is taken")
    return sorted(cells.values()), left_out


def _files(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each path once, with the row to which its folder makes it belong."""
    seen = set()
    for path in paths:
        for row, file in _walk(path) if os.path.isdir(path) else [(_row_of(path), path)]:
            place = os.path.abspath(file)
            if place not in seen:
                seen.add(place)
                yield row, file


def _walk(root: str) -> Iterator[tuple[str, str]]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        row = os.path.relpath(folder, root)
        for name in sorted(names):
            if name.endswith(".json"):
                yield (_row_of(os.path.join(root, name)) if row == "." else row), os.path.join(folder, name)


def _row_of(path: str) -> str:
    return os.path.basename(os.path.dirname(os.path.abspath(path)))


def _read(row: str, path: str) -> Cell:
    """Read one report; raise ValueError, KeyError or TypeError where it is none of ours."""
    if not os.path.isfile(path):
        raise ValueError("no regular file")
    with open(path, encoding="utf-8-sig") as file:
        report = json.load(file, parse_constant=_refuse)
    version = report["environment"]["evaluator_version"]
    if not str(version).startswith(VERSION):
        raise ValueError(f"written by version {version}; expected {VERSION}x")
    summary, error = report["summary"], report["error"]
    end = SCORED if error is None else ENDS[error["kind"]]
    max_score, total = _number(summary, "max_score"), _number(summary, "total_tests")
    if error is None and not max_score:
        raise ValueError("a rubric without points gives no score")
    return Cell(
        row=_text(row),
        repo=_text(report["repo"]),
        file=path,
        end=end,
        score=_number(summary, "total_score", max_score),
        max_score=max_score,
        passed=int(_number(summary, "passed_tests", total)),
        total=int(total),
        message=_text(error["message"]) if error else "",
        started=_text(report["environment"]["started_at"]),
        rubric=str(report["environment"]["rubric_sha256"]),
        tests=tuple(_test(test) for test in report["test_results"]),
    )


def _test(test: dict[str, Any]) -> Row:
    output = _text(test["output"] or "", "\n")
    return Row(_text(test["test_id"]), _text(test["status"]), _text(test["message"]), output)


def _number(summary: dict[str, Any], key: str, most: float = sys.float_info.max) -> float:
    """Return a number from 0 to `most`; raise ValueError for anything else."""
    value = summary[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ValueError(f"{key} is {str(value)[:40]}; expected a number from 0 to {most:g}")
    return float(value)


def _text(value: Any, kept: str = "") -> str:
    """Return text without control characters, since it came from containers nobody trusts."""
    if not isinstance(value, str):
        raise TypeError("expected text")
    return "".join(c if c.isprintable() or c in kept else "\ufffd" for c in value)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at line {error.lineno}, column {error.colno}; half written?"
    if isinstance(error, KeyError):
        return f"no report of this evaluator: {error} is missing or unknown"
    if isinstance(error, (TypeError, RecursionError)):
        return "no report of this evaluator"
    return getattr(error, "strerror", None) or str(error)


# ---------------------------------------------------------------------------------------------
# The board
# ---------------------------------------------------------------------------------------------


def mean(cells: Iterable[Cell]) -> Mean:
    """Return the mean share of the cells that were scored, and count the others."""
    cells = list(cells)
    shares = [cell.share for cell in cells if cell.end == SCORED]
    ends = {end: sum(1 for cell in cells if cell.end == end) for end in OTHER_ENDS}
    return Mean(sum(shares) / len(shares) if shares else None, len(shares), ends)


class Board:
    """All cells by row and repo; rows sorted by their mean, the best first, repos by name."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        """Sort the cells into rows and columns."""
        self.cells = {(cell.row, cell.repo): cell for cell in cells}
        self.repos = sorted({cell.repo for cell in cells})
        self.means = {row: mean(c for c in cells if c.row == row) for row in {cell.row for cell in cells}}
        self.columns = {repo: mean(c for c in cells if c.repo == repo) for repo in self.repos}
        self.rows = sorted(self.means, key=lambda row: (-_ranked(self.means[row].share), row))

    def cell(self, row: str, repo: str) -> Cell | None:
        """Return the cell, None where nothing was evaluated."""
        return self.cells.get((row, repo))

    def cautions(self) -> list[str]:
        """Name the columns whose scores cannot be compared, since they rest on different rubrics."""
        rubrics = {repo: {c.rubric for c in self.cells.values() if c.repo == repo} for repo in self.repos}
        return [
            f"{repo}: scored by {len(found)} different rubrics, so its scores do not compare"
            for repo, found in rubrics.items()
            if len(found) > 1
        ]

    def table(self) -> list[list[str]]:
        """Return the whole as cells of text, the title row first."""
        head = ["", *MEAN_COLUMNS, *self.repos]
        body = [
            [row, *_mean_words(self.means[row]), *(cell_words(self.cell(row, repo)) for repo in self.repos)]
            for row in self.rows
        ]
        blank = [""] * len(MEAN_COLUMNS)
        foot = ["mean", *blank, *(_mean_words(self.columns[repo])[0] for repo in self.repos)]
        return [head, *body, foot]


def _ranked(share: float | None) -> float:
    return -1.0 if share is None else share


def _mean_words(a_mean: Mean) -> list[str]:
    share = "-" if a_mean.share is None else f"{a_mean.share:.1%}"
    return [share, str(a_mean.scored), *(str(count) for count in a_mean.ends.values())]


def cell_words(cell: Cell | None) -> str:
    """Say in a few characters how an evaluation went: score, points, tests; or its end."""
    if cell is None:
        return "-"
    if cell.end != SCORED:
        return cell.end
    return f"{cell.share:.0%} {cell.score:g}/{cell.max_score:g} ({cell.passed} of {cell.total})"


# ---------------------------------------------------------------------------------------------
# Text, Markdown, CSV
# ---------------------------------------------------------------------------------------------


def text(board: Board, width: int = 100) -> str:
    """Return the board for a terminal; columns that do not fit follow in further tables."""
    table = board.table()
    fixed, rest = 1 + len(MEAN_COLUMNS), len(table[0])
    widths = [max(len(line[at]) for line in table) for at in range(rest)]
    blocks, at = [], 0
    while at < rest:
        columns = ([0] if at else []) + _fitting(widths, at, width - (widths[0] + 2 if at else 0), fixed)
        blocks.append("\n".join("  ".join(_aligned(line, widths, columns)).rstrip() for line in table))
        at = columns[-1] + 1
    return "\n\n".join(blocks) + "\n"


def _fitting(widths: Sequence[int], at: int, room: int, fixed: int) -> list[int]:
    """Return the columns from `at` on that fit into `room`; the fixed ones stay together."""
    columns: list[int] = []
    for column in range(at, len(widths)):
        room -= widths[column] + 2
        if columns and column >= fixed and room < 0:
            break
        columns.append(column)
    return columns


def _aligned(line: Sequence[str], widths: Sequence[int], columns: Sequence[int]) -> Iterator[str]:
    for at in columns:
        yield f"{line[at]:<{widths[at]}}" if at == 0 else f"{line[at]:>{widths[at]}}"


def markdown(board: Board) -> str:
    """Return the board as a Markdown table."""
    head, *body = board.table()
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [_escaped(head), rule, *map(_escaped, body)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escaped(line: Sequence[str]) -> list[str]:
    return [re.sub(r"([][\\`*_{}<>#~|!&:@$^])", r"\\\1", cell) for cell in line]


CSV_FIELDS = ("row", "repo", "end", "score", "max_score", "passed", "total", "started", "file", "message")


def as_csv(board: Board) -> str:
    """Return a line for each report; what is no score has none, so that no mean counts it."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(CSV_FIELDS)
    for cell in board.cells.values():
        unknown = () if cell.end == SCORED else ("score", "passed")
        values = ("" if field in unknown else getattr(cell, field) for field in CSV_FIELDS)
        writer.writerow(_no_formula(value) for value in values)
    return out.getvalue()


def _no_formula(value: Any) -> Any:
    """Return a value that no spreadsheet takes for a formula (OWASP, CSV injection)."""
    return f"'{value}" if isinstance(value, str) and re.match(r"\s*[=+\-@|%]", value) else value


def compare(board: Board, first: str, second: str) -> str:
    """Say test by test what one row passes and the other does not, and why one was not scored."""
    lines = []
    for repo in board.repos:
        ours, theirs = board.cell(first, repo), board.cell(second, repo)
        lines += [f"{repo}: {first} {cell_words(ours)}, {second} {cell_words(theirs)}"]
        both = [cell for cell in (ours, theirs) if cell]
        unscored = [cell for cell in both if cell.end != SCORED]
        lines += [f"  {cell.row}: {cell.message}" for cell in unscored]
        if ours and theirs and not unscored:
            lines += _differences(ours, theirs)
            lines += _differences(theirs, ours)
    return "\n".join(lines) + "\n"


def _differences(better: Cell, worse: Cell) -> Iterator[str]:
    found = {test.test_id: test for test in worse.tests}
    for test in better.tests:
        other = found.get(test.test_id)
        if test.status == "passed" and (other is None or other.status != "passed"):
            why = f"{other.status}: {other.message}" if other else "no such test in its rubric"
            yield f"  only {better.row} passes {test.test_id}; {worse.row}: {why}"


# ---------------------------------------------------------------------------------------------
# HTML: one file, no network; a cell is a link to its tests, so that it works without JavaScript
# ---------------------------------------------------------------------------------------------

_STYLE = """
:root{color-scheme:light dark;--l:86%;--line:#8886}
@media(prefers-color-scheme:dark){:root{--l:26%}}
body{font:15px/1.4 system-ui,sans-serif;margin:1.5rem}
table{border-collapse:collapse}
.board{overflow-x:auto}
th,td{padding:.25rem .5rem;border:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child{text-align:left;position:sticky;left:0;background:Canvas}
th button{font:inherit;font-weight:bold;background:none;border:0;color:inherit;cursor:pointer;padding:0}
th[aria-sort=ascending] button::after{content:" \\25b2"}
th[aria-sort=descending] button::after{content:" \\25bc"}
td.s{background:hsl(calc(var(--p)*1.2) 60% var(--l))}
td.e{font-style:italic;opacity:.8}
td a{color:inherit;text-decoration:none;display:block}
td a:hover,td a:focus{text-decoration:underline}
small{opacity:.75}
section{display:none;margin-top:1.5rem}
section:target{display:block}
section td,section th{text-align:left;vertical-align:top;white-space:normal}
pre{margin:.3rem 0 0;max-height:16rem;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere}
@media print{section{display:none!important}body{margin:0}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""

_SCRIPT = """
for (const button of document.querySelectorAll("#board th button")) button.onclick = () => {
  const head = button.parentElement, up = head.getAttribute("aria-sort") === "descending";
  const at = [...head.parentElement.children].indexOf(head), body = document.querySelector("#board tbody");
  const value = row => row.children[at].dataset.v ?? row.children[at].textContent;
  const words = rows => rows.some(row => isNaN(value(row)));
  const order = (a, b) => words([a, b]) ? value(a).localeCompare(value(b)) : value(a) - value(b);
  const rows = [...body.children].sort((a, b) => up ? order(a, b) : order(b, a));
  for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows);
};
"""


def as_html(board: Board, title: str = "Leaderboard") -> str:
    """Return the board as one file of HTML: a heat map whose cells open their tests."""
    numbers = {key: f"r{at}" for at, key in enumerate(sorted(board.cells))}
    room = HTML_LIMIT // max(len(board.cells), 1) - 250  # for a report's place in the table
    sections = "".join(_section(cell, numbers[key], room) for key, cell in sorted(board.cells.items()))
    cautions = "".join(f"<p><strong>{_safe(caution)}.</strong></p>" for caution in board.cautions())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{_safe(title)}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{_STYLE}</style><h1>{_safe(title)}</h1>"
        f"<p>{len(board.cells)} reports. A cell has the share of points and the tests passed; it opens its "
        "tests. Means rest on scored evaluations alone; others are counted beside them.</p>"
        f'{cautions}<div class="board"><table id="board">{_head(board)}<tbody>'
        + "".join(_line(board, row, numbers) for row in board.rows)
        + f"</tbody>{_foot(board)}</table></div>{sections}<script>{_SCRIPT}</script></html>\n"
    )


def _safe(value: str) -> str:
    return html.escape(value, quote=True)


def _head(board: Board) -> str:
    names = ["row", *MEAN_COLUMNS, *board.repos]
    cells = "".join(f"<th><button>{_safe(name)}</button></th>" for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def _foot(board: Board) -> str:
    title, *words = board.table()[-1]
    cells = "".join(f"<td>{word}</td>" for word in words)
    return f"<tfoot><tr><th>{title}</th>{cells}</tr></tfoot>"


def _line(board: Board, row: str, numbers: dict[tuple[str, str], str]) -> str:
    share, scored, ends = board.means[row]
    cells = [f'<td data-v="{_ranked(share):.6f}">{_mean_words(board.means[row])[0]}</td>']
    cells += [f"<td>{count}</td>" for count in (scored, *ends.values())]
    for repo in board.repos:
        cells.append(_cell(board.cell(row, repo), numbers.get((row, repo), "")))
    return f"<tr><th>{_safe(row)}</th>{''.join(cells)}</tr>"


def _cell(cell: Cell | None, number: str) -> str:
    if cell is None:
        return '<td data-v="-2">-</td>'
    if cell.end != SCORED:
        return f'<td class="e" data-v="-1"><a href="#{number}">{cell.end}</a></td>'
    words = f"{cell.share:.0%} <small>{cell.passed}/{cell.total}</small>"
    style = f'style="--p:{cell.share * 100:.0f}" data-v="{cell.share:.6f}"'
    return f'<td class="s" {style}><a href="#{number}">{words}</a></td>'


def _section(cell: Cell, number: str, room: int) -> str:
    """Return the tests of a report in at most about `room` bytes: failures first, and in detail."""
    title = f"{_safe(cell.row[:200])}: {_safe(cell.repo[:200])}"
    start = (
        f'<section id="{number}"><h2>{title}</h2><p>{_safe(cell_words(cell))}. {_safe(cell.message[:300])} '
    )
    start += '<a href="#board">close</a></p>'
    failed = [test for test in cell.tests if test.status != "passed"]
    rows, left, room = [], len(failed), room - _size(start) - 300
    for test in failed:
        row = _test_row(test, min(300, room // 4), min(600, room // max(left, 1) // 2))
        if _size(row) > room:
            break
        rows.append(row)
        room, left = room - _size(row), left - 1
    if left:
        rows.append(f"<tr><td>{left} more<td>not passed<td>see {_safe(os.path.basename(cell.file)[:100])}")
    passed = ", ".join(_safe(test.test_id) for test in cell.tests if test.status == "passed")
    if _size(passed) > room:
        passed = f"{cell.passed} tests"
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    return f"{start}{table}<p>Passed: {passed or 'none'}</p></section>"


def _test_row(test: Row, message: int, output: int) -> str:
    tail = f"<pre>{_safe(test.output[-output:])}</pre>" if test.output and output > 0 else ""
    cells = (test.test_id[:100], test.status, test.message[:message])
    return f"<tr>{''.join(f'<td>{_safe(cell)}' for cell in cells)}{tail}"


def _size(text_: str) -> int:
    return len(text_.encode(errors="replace"))


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Read reports, print or write the board; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "reports", nargs="+", metavar="REPORTS", help="reports, or folders to search for them"
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with a heat map")
    parser.add_argument("--csv", metavar="FILE", help="write a line for each report")
    parser.add_argument("--markdown", metavar="FILE", help="write a Markdown table")
    parser.add_argument("--compare", nargs=2, metavar="ROW", help="print what one passes, the other not")
    arguments = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # names and messages come in any script
    cells, left_out = read_reports(arguments.reports)
    for line in left_out:
        print(f"left out: {_text(line)}", file=sys.stderr)
    if not cells:
        print("no report is left", file=sys.stderr)
        return 1
    board = Board(cells)
    for line in board.cautions():
        print(f"caution: {line}", file=sys.stderr)
    unknown = [row for row in arguments.compare or () if row not in board.means]
    if unknown:
        parser.error(f"no row {unknown[0]!r}; there are: {', '.join(board.rows)}")
    try:
        _write(board, arguments)
    except OSError as error:
        print(f"cannot write: {error}", file=sys.stderr)
        return 1
    return 0


def _write(board: Board, arguments: argparse.Namespace) -> None:
    for path, make in ((arguments.html, as_html), (arguments.csv, as_csv), (arguments.markdown, markdown)):
        if path:
            with open(path, "w", encoding="utf-8", errors="replace", newline="") as file:
                file.write(make(board))
    print(compare(board, *arguments.compare) if arguments.compare else text(board, _columns()), end="")
    sys.stdout.flush()


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 100
    except (OSError, ValueError):
        return 100


if __name__ == "__main__":
    raise SystemExit(main())
