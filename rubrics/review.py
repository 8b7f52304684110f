#!/usr/bin/env python3
"""Is a rubric any good? Read it, and measure what it gives away.

    python3 rubrics/review.py RUBRIC... [--strict]
    python3 rubrics/review.py RUBRIC --base IMAGE [--context DIR] [--solution DOCKERFILE] [--repeat N]

Reading warns of tests that mean nothing, or not what they appear to. Measuring evaluates the
rubric on images that a stranger could build without doing the work (bare: the base alone; copied:
and the project's files) and on one that does it (solution), every test by itself.

    paths -> read -> Reading -> measure -> Measurement -> text, JSON, Markdown -> exit code

Exit codes: 0; 1 a rubric was refused or could not be measured, with --strict also any warning, a test
that is unsolved or flaky, and too many points for too little; 2 wrong usage; 130 Ctrl-C (143 SIGTERM,
129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import json
import math
import os
import posixpath
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import DockerfileEvaluator as de

SHORT_NEEDLE = 2  # characters
LONGEST_END = 1000  # characters of a command's last part that are read
SHORT_TIMEOUT = 1.0  # seconds
SYNTAX_LIMIT = 10.0  # seconds for one `sh -n`
SHELLS = 4  # `sh -n` at a time
JOBS = 4  # of every second time that the solution is measured
BARE_SHARE, COPIED_SHARE = 1 / 10, 1 / 3  # of the points, that the images may get at most


class ReviewError(Exception):
    """A rubric could not be measured; the text says why."""


class Interrupted(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which end the program as Ctrl-C does."""


class RubricWarning(NamedTuple):
    """What may mean nothing, or something else than it seems: a short name, the place, a sentence."""

    name: str
    place: str
    text: str
    test_id: str | None


class Reading(NamedTuple):
    """A rubric that was understood, and the warnings about it."""

    rubric: de.Rubric
    warnings: Sequence[RubricWarning]

    @property
    def points(self) -> float:
        """The points of all its tests."""
        return points_of(self.rubric.tests)


def points_of(tests: Iterable[de.Test]) -> float:
    """Return the points of some tests together."""
    return round(math.fsum(test.score for test in tests), 6)


# ---------------------------------------------------------------------------------------------
# Reading: simple rules on the text; no parser of the shell
# ---------------------------------------------------------------------------------------------

# What decides no exit code: the first kind is read as blanks, what is quoted as a word.
_HIDDEN = re.compile(
    r"""
      (?P<blank> \\\n                                             # a line that goes on
        | (?<![^\s;&|(]) \# [^\n]*                                # a comment
        | [0-9&]? >>? \s* (?: /dev/null (?![\w./-]) | &[0-9] )    # a redirection that cannot fail
      )
      | \\. | '[^']*'
      | "(?: \\. | \$\([^()]*\) | \$(?!\([^()]*\)) | [^"\\$] )*"   # "$(x "y")" is one
    """,
    re.DOTALL | re.VERBOSE,
)
_SUBSTITUTION = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")
_OPERATOR = re.compile(r"(\|\||&&|[|;&\n])")
_GOES_ON = re.compile(r"(\|\||&&|\|)\s+")  # a line that ends in one of these does, too
_ALWAYS = re.compile(r"true|:|exit\s+0|(?:echo|printf)(?![\w.-])[^<>()]*")  # succeeds; `>FILE` may fail
# What reads to its end, and succeeds whatever the program before it did.
_FILTER = re.compile(
    r"""
      (?:/usr)? (?:/bin/)?
      (?: (?:head|tail|wc|cat|tee|sort|uniq|cut|tr) (?![\w.-])
        | sed \s (?! .* q\s*[0-9] )                               # but `sed /x/q1` tests something,
        | awk \s (?! .* \bEND\b .* \bexit\b )                     # and so does `awk 'END {exit NR < 3}'`
      )
    """,
    re.DOTALL | re.VERBOSE,
)
# What may end the shell before its command ends.
_ENDS_EARLY = re.compile(
    r"""
      (?<![\w.-]) (?: exit | return | errexit | until | while \s+ ! ) (?![\w.-])   # a loop may never end
      | \bset \s+ (?:-\w+\s+)* -\w*[eu]                           # set -e, set -eu
      | (?: ^ | [;&|\n({] ) [ \t]? (?: \. | exec ) \s             # dash ends where `. FILE` finds no file
    """,
    re.VERBOSE,
)
# A command that only hands another one on: bash -lc '…', timeout 60 sh -c "…".
_HANDED_ON = re.compile(
    r"""
      \s* (?:timeout \s+ \S+ \s+)? (?:/\S*/)? (?:ba|da|z)?sh \s+ (?:-[li]+\s+)* -[li]*c \s+
      (?: '(?P<plain>[^']*)' | "(?P<escaped>(?:\\.|[^"\\])*)" ) \s*
    """,
    re.DOTALL | re.VERBOSE,
)
_ECHO = re.compile(r"(?:^|[;&|\n({]|\b(?:then|do|else)\s)[ \t]{0,9}(echo\s[^;&|<>()\n]*)")
_STRING = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_PATTERN = re.compile(r"\.[*+]|\\[.dsw]|\[(?:0-9|a-z|A-Z)")  # what looks like a regular expression


def _outline(command: str) -> str:
    """Return a command, each character in its place, with comments blank and quoted text a word."""
    text = _HIDDEN.sub(lambda match: (" " if match["blank"] else "x") * len(match[0]), command)
    for _ in range(2):  # one inside another
        text = _SUBSTITUTION.sub(lambda match: "x" * len(match[0]), text)
    return _GOES_ON.sub(lambda match: match[1].ljust(len(match[0])), text)


def _exit_code_warnings(params: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Warn of a command whose end decides its exit code, whatever else it does."""
    expected, needles = params.get("exit_code", 0), params.get("contains", [])
    if expected == "any":
        if not needles:
            yield "cannot-fail", "exit_code", "'any' lets every exit code pass; name one"
        return
    command = params["command"]
    handed = _HANDED_ON.fullmatch(command)
    if handed:
        command = handed["plain"] or re.sub(r'\\(["\\$`])', r"\1", handed["escaped"] or "")
    command = _HIDDEN.sub(lambda match: " " * len(match[0]) if match["blank"] else match[0], command)
    # The last operator and what follows it, and the pipeline before it; as written, and in outline.
    outline = _outline(command).rstrip(" \t\n;")
    *before, last = _OPERATOR.split(outline)
    operator = before.pop() if before else ""
    end = command[len(outline) - len(last) : len(outline)].strip()
    first = "".join(before)
    pipeline = re.split(r"\|\||&&|[;&\n]", first)[-1]
    source = command[len(first) - len(pipeline) : len(first)].strip(" \t\n({")
    if source in ("}", "done", "fi", "esac"):  # the end of a whole list
        source = command[: len(first)].strip()
    if operator == "|" and _FILTER.match(end[:LONGEST_END]):
        hides = not _ALWAYS.fullmatch(pipeline.strip()) and not source.startswith("!")
        if hides and "pipefail" not in command:
            yield "hidden-status", "command", _says_hidden(end.rstrip(" )}"), source)
    elif _ENDS_EARLY.search(first) or re.search(r"\$\{\w+:?\?", command):  # ${NAME:?}, also in quotes
        return
    elif operator == "&" and not end:
        yield "cannot-fail", "command", _says_always("ends in '&'", expected, strings_decide=bool(needles))
    elif operator not in ("|", "&&") and _ALWAYS.fullmatch(last.strip()):
        if needles and operator != "||" and re.search(r"[$`]", end):
            return  # `cd x; echo $PATH`: what it prints is the test
        words = de.shown(f"{operator.strip() or ';'} {end}" if operator else end, 60)
        what = f"ends in '{words}'" if operator else f"'{words}' tests nothing"
        printed = all if params.get("match") == "all" else any
        strings_decide = bool(needles) and not printed(text in end for text in needles)
        yield "cannot-fail", "command", _says_always(what, expected, strings_decide=strings_decide)


def _says_hidden(end: str, source: str) -> str:
    what = f"the exit code is that of '| {de.shown(end, 60)}', so '{de.shown(source, 60)}' may fail unseen"
    advice = "end in a test of what it prints"
    if not re.match(r"find\s|ls\s", source) and not re.match(r"\S*awk\b.*\bexit\b", end, re.DOTALL):
        advice = f"leave that out (a report keeps output short), or {advice}"
    return f"{what}; {advice}"


def _says_always(what: str, expected: int, *, strings_decide: bool) -> str:
    if expected:
        return f"{what}: the exit code is always 0, never {expected}, so this cannot pass"
    if strings_decide:
        says = "the exit code is always 0, and only the strings decide; leave the ending out"
        return f'{what}: {says}, or write "exit_code": "any" if that is meant'
    advice = "leave the ending out" if what.startswith("ends") else "test something of the image"
    return f"{what}: the exit code is always 0, so this passes on any image; {advice}"


def _echo_warnings(command: str) -> Iterator[tuple[str, str, str]]:
    """Warn of an echo whose words dash, the /bin/sh of Debian and Ubuntu, prints otherwise than bash."""
    for match in _ECHO.finditer(_outline(command)):
        text = command[match.start(1) : match.end(1)]
        option = re.match(r"echo\s+(-n?en?)\s", text)
        strings = " ".join(string for string in _STRING.findall(text) if not re.search(r"\$\(|`", string))
        does = [f"prints the '{option[1]}' of" for _ in "1" if option]
        does += [f"expands '{escape}' in" for escape in re.findall(r"\\[abcfnrtv0]", strings)]
        if does:
            advice = "use printf '%s\\n' for text as it stands, '%b' for escapes"
            yield "echo-escape", "command", f"dash {does[0]} echo, bash does not; {advice}"


def _look_warnings(kind: str, params: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Warn of paths and names that a shell would read otherwise, and of variables that are always there."""
    paths = [(f"paths[{at}]", path) for at, path in enumerate(params.get("paths", ()))]
    for place, path in paths or [("path", params.get("path", ""))]:
        for special in re.findall(r"^~|\*|\$(?![\w$]*\.class$)", path)[:1]:  # but Outer$Inner.class
            what = f"'{special}' in '{de.shown(path, 60)}' stands for itself, since nothing expands a path"
            yield "literal-path", place, f"{what}; write the path out, or use run_command"
    if kind == "envvar_set" and params["name"] in ("PATH", "HOME", "HOSTNAME"):
        what = f"docker itself sets {params['name']} in every container, so this passes on any image"
        yield "set-by-docker", "name", f"{what}; ask for what the image should have put there"
    elif kind in ("command_exists", "commands_exist"):
        for name in [name for name in params.get("names") or [params["name"]] if re.search(r"\s", name)]:
            what = f"'{de.shown(name, 60)}' has a space, and is looked for as one name"
            yield "literal-name", "names" if "names" in params else "name", f"{what}; write the name alone"


def _needle_warnings(needles: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    patterns = [text for text in needles if _PATTERN.search(text) and not text.startswith("import ")]
    if patterns:
        what = f"{de.listed(patterns)}: strings are looked for as they stand, not as patterns"
        yield "literal-needle", "contains", f"{what}; write what the text holds"
    short = [text for text in needles if len(text) <= SHORT_NEEDLE]
    if short:
        what = f"{de.listed(short)}: so short a string is in many texts ('8' in '17.0.18')"
        yield "short-needle", "contains", f"{what}; write more of what is meant"


def _param_warnings(kind: str, params: Mapping[str, Any], syntax: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, place below params, and sentence of what is doubtful about one test."""
    yield from _look_warnings(kind, params)
    if "command" in params:
        shell = params.get("shell", "/bin/sh")
        if syntax:
            what = f"sh does not accept it ({de.shown(syntax, 120)}), so it cannot run to its end"
            yield "no-syntax", "command", f"{what}; try it in a shell"
        elif shell.endswith("sh"):
            yield from _exit_code_warnings(params)
        if shell == "/bin/sh":
            yield from _echo_warnings(params["command"])
    yield from _needle_warnings(params.get("contains", ()))


def syntax_error(command: str) -> str:
    """Return what the host's `sh -n`, which runs nothing, says against a command; "" if it takes it."""
    words = ["sh", "-n"]  # fed on stdin, since a command may begin like an option
    run: Any = functools.partial(subprocess.run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        done = run(words, input=command.encode(), env={**os.environ, "LC_ALL": "C"}, timeout=SYNTAX_LIMIT)
    except (OSError, subprocess.TimeoutExpired):
        return ""  # no shell, or one that is lost in the text: no word against it
    first = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    return re.sub(r"^\S*sh: (?:line )?\d+: ", "", first) if done.returncode else ""


def rubric_warnings(rubric: de.Rubric) -> Iterator[RubricWarning]:
    """Yield all that is doubtful about a rubric, in the order of its tests."""
    if not rubric.repo:
        text = "missing; reports and readers cannot tell whose rubric this is"
        yield RubricWarning("no-repo", "repo", text, None)
    unresolvable = de.unresolvable(rubric.tests)
    with ThreadPoolExecutor(SHELLS) as pool:
        params = [test.params for test in rubric.tests]
        run_by_sh = [one["command"] if "command" in one and "shell" not in one else "" for one in params]
        errors = list(pool.map(lambda command: command and syntax_error(command), run_by_sh))
    for at, test in enumerate(rubric.tests):
        found = []
        if test.id in unresolvable:
            text = f"{unresolvable[test.id]}, so this can never run; require other tests"
            found.append(("unresolvable", "requires", text))
        if test.timeout < SHORT_TIMEOUT:
            text = f"{test.timeout:g} s is short enough to fail on a busy machine; give at least 1 s"
            found.append(("short-timeout", "timeout", text))
        if test.score == 0:
            found.append(("no-points", "score", "0: whether it passes changes no score"))
        doubts = _param_warnings(test.type, test.params, errors[at])
        found += [(name, f"params.{field}", text) for name, field, text in doubts]
        for name, field, text in found:
            yield RubricWarning(name, f"tests[{at}].{field} '{de.shown(test.id, 60)}'", text, test.id)


def read(path: str) -> Reading:
    """Read a rubric; raise EvaluationError where the evaluator would refuse it."""
    rubric = de.load_rubric(path)
    return Reading(rubric, list(rubric_warnings(rubric)))


# ---------------------------------------------------------------------------------------------
# Measuring
# ---------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A test to look at: free, given, unsolved, flaky or no-syntax; and the sentence that says why."""

    kind: str
    test_id: str
    points: float
    text: str


class Images(NamedTuple):
    """What to measure on: the arguments of the command line, checked."""

    base: str
    workdir: str
    context: str | None
    solution: str | None
    solution_context: str | None
    repeat: int


class Measurement(NamedTuple):
    """Which tests passed where: for each image the times it was evaluated, and in each the messages.

    A test that passed has no message.
    """

    reading: Reading
    images: Images
    times: dict[str, Sequence[dict[str, str]]]

    def passed(self, image: str, test: de.Test) -> int:
        """How many times a test passed on an image; 0 where the image was not measured."""
        return sum(1 for messages in self.times.get(image, ()) if not messages[test.id])

    def failures(self, image: str, test: de.Test) -> list[str]:
        """Return why a test did not pass on an image, each time that it did not."""
        return [messages[test.id] for messages in self.times.get(image, ()) if messages[test.id]]

    def points(self, image: str) -> float:
        """The points of the tests that passed on an image at least once."""
        return points_of(test for test in self.reading.rubric.tests if self.passed(image, test))

    def share(self, image: str) -> float:
        """The same as a share of all points."""
        return self.points(image) / self.reading.points if self.reading.points else 0.0

    def rows(self) -> list[Row]:
        """The tests that are given away or cannot be relied on, kind by kind."""
        rows = [row for test in self.reading.rubric.tests for row in self._rows_of(test)]
        kinds = ("free", "given", "unsolved", "flaky", "no-syntax")
        return sorted(rows, key=lambda row: kinds.index(row.kind))

    def _rows_of(self, test: de.Test) -> Iterator[Row]:
        solution = self.times.get("solution", ())
        passed = self.passed("solution", test)
        given = self.passed("bare", test) or self.passed("copied", test)
        if self.passed("bare", test):
            text = f"passes on {self.images.base}: asks for nothing that has to be set up"
            yield Row("free", test.id, test.score, text)
        elif given:
            yield Row("given", test.id, test.score, "passes once the files are copied")
        syntax = [w for w in self.reading.warnings if (w.name, w.test_id) == ("no-syntax", test.id)]
        if syntax and not passed and not given:
            yield Row("no-syntax", test.id, test.score, syntax[0].text)
        elif solution and not passed:
            text = f"the solution does not pass: {self.failures('solution', test)[-1]}"
            yield Row("unsolved", test.id, test.score, text)
        elif passed < len(solution):
            yield Row("flaky", test.id, test.score, f"passed {passed} of {len(solution)} times")

    def not_measured(self) -> str:
        """Which images were left out, and which option they need."""
        needs = {"copied": "context", "solution": "solution"}
        return ", ".join(f"{image} (no --{flag})" for image, flag in needs.items() if image not in self.times)


def measure(reading: Reading, images: Images) -> Measurement:
    """Evaluate a rubric, each test by itself, on every image; raise ReviewError where that fails."""
    probe = "a_shell_runs" + "_" * max(len(test.id) for test in reading.rubric.tests)  # nobody's id
    tests: list[dict[str, Any]] = [{"id": probe, "type": "run_command", "params": {"command": "exit 0"}}]
    for test in reading.rubric.tests:
        one = {"id": test.id, "type": test.type, "params": test.params, "timeout": test.timeout}
        tests.append({**one, "score": test.score})
    start = f"FROM {images.base}\nWORKDIR {images.workdir}\n"
    with tempfile.TemporaryDirectory(prefix="rubric-review-") as folder:
        empty = os.path.join(folder, "empty")
        os.mkdir(empty)
        rubric = _written(folder, "rubric.json", json.dumps({"tests": tests}))
        bare = _written(folder, "bare.dockerfile", start)
        copied = _written(folder, "copied.dockerfile", f"{start}COPY . .\n")
        plan = [("bare", bare, empty, 1)]
        plan += [("copied", copied, images.context, 1)] if images.context else []
        if images.solution and images.solution_context:
            for time in range(images.repeat):
                plan.append(("solution", images.solution, images.solution_context, JOBS if time % 2 else 1))
        times: dict[str, list[dict[str, str]]] = collections.defaultdict(list)
        for image, dockerfile, context, jobs in plan:
            report = de.evaluate(dockerfile, reading.rubric.repo or image, rubric, context=context, jobs=jobs)
            messages = _messages(image, report, probe)
            times[image].append(messages)
            passed = sum(1 for message in messages.values() if not message)
            note = f"{reading.rubric.path}: {image}: {passed} of {len(messages)} tests passed"
            de.write_to(sys.stderr, f"{de.shown(note, 500)}\n")
    return Measurement(reading, images, dict(times))


def _written(folder: str, name: str, text: str) -> str:
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return path


def _messages(image: str, report: dict[str, Any], probe: str) -> dict[str, str]:
    """Return why each test did not pass, "" where it did; raise ReviewError for what is no measurement."""
    if report["error"]:
        kind, message = report["error"]["kind"], report["error"]["message"]
        what = "cannot be built" if kind.startswith("build") else f"was not measured ({kind})"
        raise ReviewError(f"the {image} image {what}: {message}")
    messages = {}
    for row in report["test_results"]:
        if row["status"] in ("error", "not_run"):
            raise ReviewError(f"the {image} image was not measured: {row['test_id']}: {row['message']}")
        messages[row["test_id"]] = "" if row["passed"] else row["message"] or row["status"]
    why = messages.pop(probe)
    if why:
        raise ReviewError(
            f"the {image} image was not measured: not even the command 'exit 0' succeeds: {why}"
        )
    return messages


def last_workdir(dockerfile: str) -> str:
    """Return the WORKDIR with which a Dockerfile ends, /workspace where it has none."""
    with open(dockerfile, encoding="utf-8", errors="replace") as file:
        lines = [line.split(None, 1) for line in file]
    stages: dict[str, str] = {}
    stage = folder = ""
    for words in lines:
        if len(words) > 1 and words[0].upper() == "WORKDIR":
            folder = posixpath.join(folder, words[1].strip().strip("\"'"))
        elif len(words) > 1 and words[0].upper() == "FROM":
            stages[stage] = folder
            base, *alias = [word for word in words[1].lower().split() if not word.startswith("--")] or [""]
            stage, folder = alias[-1] if alias else "", stages.get(base, "")
    if "$" in folder:
        raise ReviewError(f"{dockerfile}: WORKDIR {folder} holds a variable; write it out with --workdir DIR")
    return posixpath.join("/", folder) if folder else "/workspace"


# ---------------------------------------------------------------------------------------------
# Text, JSON, Markdown
# ---------------------------------------------------------------------------------------------


class Review(NamedTuple):
    """What came of one rubric: why it was refused or not measured, or how it reads and measures."""

    path: str
    reading: Reading | None = None
    measurement: Measurement | None = None
    error: str = ""


def counted(count: float, noun: str) -> str:
    """Return a number and its noun."""
    return f"{round(count, 6):.12g} {noun}" if count == 1 else f"{round(count, 6):.12g} {noun}s"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _scores(measurement: Measurement) -> list[str]:
    """Return the points on each image, in words."""
    scores = []
    for image in ("bare", "copied"):
        if image in measurement.times:
            points = f"{measurement.points(image):.12g}"
            scores.append(f"{image} {points} ({_percent(measurement.share(image))})")
    times = len(measurement.times.get("solution", ()))
    if times:
        points = f"{measurement.points('solution'):.12g} of {measurement.reading.points:.12g}"
        scores.append(f"solution {points}, {'once' if times == 1 else f'{times} times'}")
    return scores


def as_text(review: Review) -> str:
    """Return warnings, then a line of summary, or the table of what was measured."""
    reading, measurement = review.reading, review.measurement
    if not reading:
        return ""
    path = de.shown(review.path, 500)
    lines = [
        de.shown(f"warning: {review.path}: {warning.name}: {warning.place}: {warning.text}", 1000)
        for warning in reading.warnings
    ]
    points = counted(reading.points, "point")
    if not measurement:
        counts = f"{counted(len(reading.rubric.tests), 'test')}, {points}"
        return "\n".join([*lines, f"{path}: {counts}, {counted(len(reading.warnings), 'warning')}", ""])
    lines.append(f"{path}: {points}      {'   '.join(_scores(measurement))}")
    rows = measurement.rows()
    names = [de.shown(row.test_id, 40) for row in rows]
    widths = [
        max(map(len, names), default=0),
        max((len(counted(row.points, "point")) for row in rows), default=0),
    ]
    for name, row in zip(names, rows):
        start = f"{row.kind:<9} {name:<{widths[0]}}  {counted(row.points, 'point'):<{widths[1]}}"
        lines.append(f"{start}  {de.shown(row.text, 300)}")
    if measurement.not_measured():
        lines.append(f"not measured: {measurement.not_measured()}")
    return "\n".join([*lines, ""])


def sum_of(reviews: Sequence[Review]) -> str:
    """Return the line that sums up several rubrics."""
    readings = [review.reading for review in reviews if review.reading]
    kinds = collections.Counter(warning.name for reading in readings for warning in reading.warnings)
    each = f" ({', '.join(f'{count} {name}' for name, count in kinds.most_common())})" if kinds else ""
    points = math.fsum(reading.points for reading in readings)
    tests = sum(len(reading.rubric.tests) for reading in readings)
    counts = [
        counted(tests, "test"),
        counted(points, "point"),
        counted(sum(kinds.values()), "warning") + each,
    ]
    refused = sum(1 for review in reviews if not review.reading)
    counts += [f"{refused} refused"] if refused else []
    measured = [review.measurement for review in reviews if review.measurement]
    if measured:
        bare = math.fsum(measurement.points("bare") for measurement in measured)
        share = bare / (math.fsum(measurement.reading.points for measurement in measured) or 1)
        counts.append(f"bare {round(bare, 6):.12g} ({_percent(share)})")
    return f"{counted(len(reviews), 'rubric')}: {', '.join(counts)}\n"


def as_dict(review: Review) -> dict[str, Any]:
    """Return a review as plain data."""
    reading, measurement = review.reading, review.measurement
    data: dict[str, Any] = {"rubric": review.path, "error": review.error or None}
    if reading:
        warnings = [warning._asdict() for warning in reading.warnings]
        data.update(repo=reading.rubric.repo, sha256=reading.rubric.sha256, tests=len(reading.rubric.tests))
        data.update(points=reading.points, warnings=[dict(warning) for warning in warnings])
    if reading and measurement:
        images: dict[str, Any] = {}
        for image, times in measurement.times.items():
            images[image] = {
                "points": measurement.points(image),
                "share": measurement.share(image),
                "times": len(times),
                "passed": {test.id: measurement.passed(image, test) for test in reading.rubric.tests},
                "failures": {test.id: measurement.failures(image, test) for test in reading.rubric.tests},
            }
        data["measured"] = {
            **dict(measurement.images._asdict()),
            "images": images,
            "rows": [dict(row._asdict()) for row in measurement.rows()],
        }
    return data


def as_markdown(reviews: Sequence[Review]) -> str:
    """Return a table of the rubrics, and one of all that was found in them."""
    lines = ["| rubric | tests | points | warnings | bare | copied | solution |", "|---|" + "---:|" * 6]
    found = []
    for review in reviews:
        reading, measurement = review.reading, review.measurement
        cells = ["refused"] + [""] * 5
        if reading:
            cells = [str(len(reading.rubric.tests)), f"{reading.points:.12g}", str(len(reading.warnings))]
            scores = dict(score.split(" ", 1) for score in _scores(measurement)) if measurement else {}
            cells += [scores.get(image, "-") for image in ("bare", "copied", "solution")]
            found += [(review.path, w.test_id or "", w.name, "", w.text) for w in reading.warnings]
        if measurement:
            rows = [row for row in measurement.rows() if row.kind != "no-syntax"]  # a warning already
            found += [(review.path, row.test_id, row.kind, f"{row.points:.12g}", row.text) for row in rows]
        found += [(review.path, "", "error", "", review.error)] * bool(review.error)
        lines.append(_cells(review.path, *cells))
    if found:
        lines += ["", "| rubric | test | what | points | why |", "|---|---|---|---:|---|"]
        lines += [_cells(*row) for row in found]
    return "\n".join([*lines, ""])


def _cells(*texts: str) -> str:
    """Return a row of a table, in which no text can end a cell or become markup."""
    safe = [re.sub(r"([\\`*_{}\[\]<>#|~&@$:!])", r"\\\1", de.shown(text, 300)) for text in texts]
    return f"| {' | '.join(safe)} |"


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def reasons(review: Review) -> Iterator[str]:
    """Yield what --strict has against a rubric."""
    measurement = review.measurement
    if review.reading and review.reading.warnings:
        yield counted(len(review.reading.warnings), "warning")
    if measurement:
        for image, most, words in (("bare", BARE_SHARE, "a tenth"), ("copied", COPIED_SHARE, "a third")):
            if measurement.share(image) > most + 1e-9:  # a third of 3.3 points is 1.1
                yield f"the {image} image gets {_percent(measurement.share(image))}, more than {words}"
        kinds = collections.Counter(row.kind for row in measurement.rows())
        for kind in ("unsolved", "flaky"):
            if kinds[kind]:
                yield f"{kinds[kind]} {kind}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="review.py",
        description="Is a rubric any good? Reads it and, with --base, measures what it gives away.",
        epilog="Exit codes: 0; 1 a rubric was refused or could not be measured, with --strict also for any "
        "warning, where something is unsolved or flaky, and where the bare image gets more than a tenth of "
        "the points or the copied one more than a third; 2 wrong usage; 130 interrupted by Ctrl-C.",
    )
    add = parser.add_argument
    add("rubrics", metavar="RUBRIC", nargs="+", help="the rubrics to read")
    add(
        "--strict",
        action="store_true",
        help="exit 1 for warnings, unsolved and flaky tests, and shares too high",
    )
    add("--base", metavar="IMAGE", help="measure, too: on this image with nothing done (bare)")
    add("--context", metavar="DIR", help="the project's files; measure on the base with these (copied)")
    add("--solution", metavar="DOCKERFILE", help="measure on an image that does the work (solution)")
    add(
        "--solution-context",
        metavar="DIR",
        help="its build context (default: --context, else its own folder)",
    )
    add("--repeat", metavar="N", type=int, help="how often to evaluate the solution (default: 1)")
    add("--workdir", metavar="DIR", help="of bare and copied (default: the solution's last, else /workspace)")
    add("--output", metavar="FILE", help="write all that was found as JSON")
    add("--markdown", metavar="FILE", help="write it as Markdown tables")
    return parser


def _images(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Images | None:
    """Return what to measure on, None where nothing is to be measured; wrong usage ends the program."""
    words = ("context", "solution", "solution_context", "repeat", "workdir")
    if not given.base:
        for name in words:
            if getattr(given, name) is not None:
                parser.error(f"--{name.replace('_', '-')} needs --base IMAGE")
        return None
    if len(given.rubrics) > 1 and (given.context or given.solution):
        parser.error("--context and --solution belong to one rubric")
    if not given.solution and (given.repeat is not None or given.solution_context):
        parser.error("--repeat and --solution-context need --solution DOCKERFILE")
    if given.repeat is not None and given.repeat < 1:
        parser.error("--repeat: expected a whole number of at least 1")
    if re.search(r"\s", given.base) or not re.fullmatch(r"[^\n\r]+", given.workdir or "/workspace"):
        parser.error("--base and --workdir: expected one word, as in a Dockerfile")
    for folder in filter(None, (given.context, given.solution_context)):
        if not os.path.isdir(folder):
            raise ReviewError(f"{folder}: no such folder for a build context")
    if given.solution and not os.path.isfile(given.solution):
        raise ReviewError(f"{given.solution}: no such Dockerfile")
    own = os.path.dirname(os.path.abspath(given.solution)) if given.solution else None
    workdir = given.workdir or (last_workdir(given.solution) if given.solution else "/workspace")
    context = given.solution_context or given.context or own
    return Images(given.base, workdir, given.context, given.solution, context, given.repeat or 1)


def _review(path: str, images: Images | None) -> Review:
    reading = None
    try:
        reading = read(path)
        return Review(path, reading, measure(reading, images) if images else None)
    except (ReviewError, de.EvaluationError) as error:
        return Review(path, reading, None, str(error))


def _check_outputs(given: argparse.Namespace) -> None:
    """Know before a long measurement that the files can be written, and are none of those to be read."""
    inputs = {os.path.realpath(path) for path in (*given.rubrics, given.solution) if path}
    outputs = [path for path in (given.output, given.markdown) if path]
    for path in outputs:
        if os.path.realpath(path) in inputs:
            raise ReviewError(f"{path}: this is to be read, and would be overwritten")
        de.check_writable(path)
    if len(set(map(os.path.realpath, outputs))) < len(outputs):
        raise ReviewError(f"{outputs[0]}: --output and --markdown are the same file")


@contextlib.contextmanager
def _signals_heard() -> Iterator[None]:
    """Let SIGTERM and SIGHUP clean up as Ctrl-C does, unless the caller ignores them."""

    def hear(number: int, _frame: object) -> None:
        raise Interrupted(number)

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, hear)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _error(text: str) -> None:
    for line in text.splitlines():
        de.write_to(sys.stderr, f"error: {de.shown(line, 2000)}\n")


def _run(given: argparse.Namespace, images: Images | None) -> int:
    """Review all rubrics, print and write what was found; return the exit code."""
    _check_outputs(given)
    reviews, bad = [], False
    for path in given.rubrics:
        review = _review(path, images)
        reviews.append(review)
        de.write_to(sys.stdout, as_text(review))
        _error(review.error)
        against = list(reasons(review)) if given.strict else []
        for reason in against:
            de.write_to(sys.stderr, de.shown(f"strict: {path}: {reason}", 1000) + "\n")
        bad = bad or bool(review.error or against)
    if len(reviews) > 1:
        de.write_to(sys.stdout, sum_of(reviews))
    if given.output:
        data = {"rubrics": list(map(as_dict, reviews))}
        de.write_file(given.output, json.dumps(data, indent=2, allow_nan=False) + "\n")
    if given.markdown:
        de.write_file(given.markdown, as_markdown(reviews))
    return 1 if bad else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    sys.stdout, sys.stderr = de.standard_streams()
    try:
        with _signals_heard():
            return _run(given, _images(parser, given))
    except KeyboardInterrupt as interrupt:
        _error("interrupted")
        return 128 + (interrupt.args[0] if isinstance(interrupt, Interrupted) else signal.SIGINT)
    except (ReviewError, de.EvaluationError, OSError) as error:
        _error(str(error))
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
