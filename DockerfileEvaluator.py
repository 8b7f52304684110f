#!/usr/bin/env python3
"""Score a Dockerfile against a JSON rubric: build it, test it, report, leave nothing behind.

    argv -> Evaluation(options), which checks them all -> with Docker: build
         -> Runner: what is ready -> Docker.run(Script) -> Run -> check.judge -> Verdict
         -> the report, one dict in JSON order -> JSON, JUnit, Markdown, screen -> exit code

One idea carries it: a check is two pure functions around one impure call. `check.script()`
says what to run in the container, `Docker.run()` runs it, `check.judge(run)` says what it means.

Rooms, each using only those above it:

    1  Words          the errors, Script, Run, Verdict and the text helpers that all rooms share
    2  Rubric         JSON to typed tests; every fault named with its place
    3  Checks         one small class per test type
    4  Docker         the only room that starts a process: Engine (what all runs have on it) and
                      Docker (this run: build, containers, time limits, clean-up)
    5  Report         one dict in JSON order; JUnit, Markdown, writing files
    6  Evaluation     which test runs when, and alone or in parallel; evaluate()
    7  Command line   arguments, screen, signals; the only room that prints

A new test type is a subclass of Check (room 2) in room 3, with its `test_type`; tests then ask for
its line in rubrics/README.md, its cases in tests/cases.py and its schema in
rubrics/schema/rubric.schema.json.

Exit codes: 0 all tests passed; 1 a test did not pass, the build failed or the evaluation could
not be carried out; 2 wrong usage; 130 Ctrl-C (143 SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

try:  # until main() listens, Ctrl-C ends the program without a traceback
    import signal

    if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
except KeyboardInterrupt:
    raise SystemExit(130) from None

import argparse
import collections
import contextlib
import datetime
import errno
import functools
import hashlib
import itertools
import json
import math
import operator
import os
import re
import selectors
import stat
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, NamedTuple, Sequence, TextIO, TypeVar

__version__ = "1.1.0"
__all__ = ["EvaluationError", "evaluate", "main"]


# ---------------------------------------------------------------------------------------------
# Room 1: Words
# ---------------------------------------------------------------------------------------------

PASSED = "passed"
FAILED = "failed"
TIMEOUT = "timeout"
SKIPPED = "skipped"
UNRESOLVABLE = "unresolvable"
ERROR = "error"
NOT_RUN = "not_run"
FINISHED = "finished"  # of a Run only: the check has answered and can be judged


class EvaluationError(Exception):
    """There can be no report; the text says why, and what to do."""


class RubricError(EvaluationError):
    """The rubric cannot be used; the text names every fault, one a line."""


class EngineError(EvaluationError):
    """An engine fault: docker is missing, does not answer or fails; never the fault of a Dockerfile.

    Which failed build is one, Docker._blame_engine_or_user() and, of a registry or a connection,
    Docker._blame_registry_or_connection() find out; which test, Docker._judge() and _why_not_begun().
    """

    kind = "engine"


class UsageError(EngineError):
    """Docker refuses an option or the build context: nobody's Dockerfile is to blame, and no retry helps."""

    kind = "usage"


class Stopped(Exception):  # noqa: N818 - a request, not an error
    """Somebody asked the evaluation to end."""


class Stop:
    """A request to end, in two steps: level 1 ends the work, level 2 ends clean-up, too."""

    def __init__(self) -> None:
        self.level = 0

    def ask(self) -> None:
        """Ask once more; a signal handler may."""
        self.level += 1


class Script(NamedTuple):
    """What to run in a container: constant shell text; what a rubric says is in `arguments`.

    `needles` are looked for in all that it prints, `before` is taken to stand before that.
    """

    text: str
    arguments: tuple[str, ...] = ()
    needles: tuple[bytes, ...] = ()
    before: bytes = b""


class Run(NamedTuple):
    """What came of one container.

    `ending` is FINISHED, or at once the status of the test: FAILED, TIMEOUT, ERROR, NOT_RUN.
    `status` is the check's own exit status, `found` says of each needle whether the output held
    it, `output` is the output's head and tail, `seconds` the time from the check's first
    instruction to its last. `disturbed`: this process stood still meanwhile, so the verdict is in doubt.
    """

    ending: str
    why: str = ""
    status: int | None = None
    found: tuple[bool, ...] = ()
    output: str = ""
    seconds: float = 0.0
    disturbed: bool = False


class Verdict(NamedTuple):
    """A test's status, and the sentence that says why."""

    status: str
    message: str


def shown(text: str, limit: int = 200) -> str:
    """Return `text` fit for a line of a screen: at most `limit` long, nothing that commands.

    Control characters could steer a terminal; CI systems obey `##[…]` and `##vso[…]` even in
    the middle of a line (actions/runner, ActionCommand.TryParse).
    """
    text = re.sub(r"##(?=\w*\[)", "# #", text[: limit + 1])
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def listed(items: Sequence[str], most: int = 5, total: int = 0) -> str:
    """Return the first `most` items in quotes, and how many more there are (of `total`, if given)."""
    words = [f"'{shown(item, 80)}'" for item in items[:most]]
    more = max(total, len(items)) - len(words)
    return ", ".join([*words, f"{more} more"] if more else words)


def last_line(text: str) -> str:
    """Return the last line that is not blank, "" where there is none."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


# What stands at the end of an output and says nothing of the cause.
_NOISE = re.compile(
    r"""
      Node\.js\ v\d                                  # Node's last line after every uncaught error
    | \s+(at\s|\.\.\.\ \d+\ more)                    # a frame of a stack trace: Node, Java
    | \s*\d*\s*\|\s                                 # a line of source, or a mark below it: gcc, rustc
    | make(\[\d+\])?:\ (\*\*\*\ .*Error\ \d|Leaving|Entering)
    | (error:\ )?(could\ not\ compile|aborting\ due\ to)   # cargo, rustc: the error stands above
    | (collect2:\ )?error:\ ld\ returned             # gcc: the linker's own error stands above
    | npm\ (ERR!|error)(\s*$|\s\s|\ (A\ complete|To\ see|enoent\ (This|$)|errno|syscall|path|cwd|code\ ))
    | \[ERROR\]\s*($|\[Help|->\ |To\ see|Re-run|For\ more|After\ correcting)   # Maven
    | =+\ .*\ in\ [\d.]+s.*=$                        # pytest: === 1 failed in 0.12s ===
    | (npm\ )?warn(ing)?\b | For\ more\ information
    """,
    re.VERBOSE | re.IGNORECASE,
)
_READS_LIKE_AN_ERROR = re.compile(
    r"""
      ^(E:|E\s{3}|FAILED|FAIL|panic:)                # apt, pytest, go
    | ^\s*[\w.]*(Error|Exception|Exit)(\ \[\w+\])?:  # Python, Node, Java: ImportError: …
    | ^(Exception\ in\ thread|Caused\ by:)           # Java
    | \b(fatal|error|failed|failure|cannot|can't|unable\ to)\b | \[ERROR\] | npm\ ERR!
    | \b(not\ found|no\ such|no\ rule|undefined\ reference|permission\ denied|refused)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def telling_line(text: str) -> str:
    """Return the line that a person would quote: the last that reads like an error, else the last."""
    lines = [line[:500] for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not _NOISE.match(line)] or lines
    errors = [line for line in lines if _READS_LIKE_AN_ERROR.search(line)]
    return (errors or lines or [""])[-1].strip()


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` where a known word is near, else ""."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(word, names, 2, 0.9) or get_close_matches(word, names, 1)
    return f" (did you mean {' or '.join(repr(shown(name, 80)) for name in near)}?)" if near else ""


# ---------------------------------------------------------------------------------------------
# Room 2: Rubric
# ---------------------------------------------------------------------------------------------

DEFAULT_TIMEOUT = 30.0  # seconds of a test
HIGHEST_EXIT_CODE = 255
ARGUMENT_LIMIT = 128 * 1024 - 1  # bytes; Linux, execve(2): MAX_ARG_STRLEN with its final NUL
ARGUMENTS_LIMIT = 1024 * 1024  # bytes of one list together
DRAWN_NAMES = 16  # of one test at most
DRAWN_LIMIT = 10**12  # a drawn number is at most that far from 0
COMBINATIONS = 10**6  # that a draw has at least, so that no image holds every answer
REQUIRED: Any = object()

Number = float  # or int, which typing takes for one


class _Object(Dict[str, Any]):
    """A JSON object that remembers which keys the file gave twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = collections.Counter(key for key, _ in pairs)
        self.twice = [key for key, count in counts.items() if count > 1]


def _kind(value: Any) -> str:
    """Name a JSON value for an error message."""
    if value is None or isinstance(value, (bool, int, float)):
        return shown(json.dumps(value), 40)
    if isinstance(value, str):
        return f"the string '{shown(value, 40)}'" if value else "an empty string"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "an object"


class Fields:
    """A JSON object read key by key into typed values.

    A fault is noted with its place and reading goes on with a stand-in, so that one reading
    finds them all; whoever holds `faults` refuses the rubric if there are any.
    """

    def __init__(self, value: Any, place: str, faults: list[str]) -> None:
        self.place = place
        self.known: set[str] = set()  # the keys that somebody asked for
        self.values: dict[str, Any] = value if isinstance(value, dict) else {}
        self._faults = faults
        if not isinstance(value, dict):
            self.fault("", f"expected an object, found {_kind(value)}")
        for key in getattr(value, "twice", ()):
            self.fault("", f"key '{shown(key, 40)}' is given twice")

    def fault(self, key: str, text: str) -> None:
        """Note what is wrong with the value of `key` (of the object itself: "")."""
        place = ".".join(part for part in (self.place, key) if part)
        self._faults.append(f"{place}: {text}" if place else text)

    def get(self, key: str, default: Any, expected: str, fits: Callable[[Any], bool]) -> Any:
        """Return the value of `key`, or `default` where it is not there."""
        self.known.add(key)
        if key not in self.values:
            if default is REQUIRED:
                self.fault(key, f"missing; expected {expected}")
            return default
        value = self.values[key]
        if not fits(value):
            self.fault(key, f"expected {expected}, found {_kind(value)}")
            return default
        return value

    def text(self, key: str, default: Any = REQUIRED, draw: Draw | None = None) -> str:
        """Return a string that is not empty and can be an argument of a program, with what is drawn in it."""
        value = self.get(key, default, "a string that is not empty", _is_text)
        return self._argument(key, value, draw) if isinstance(value, str) else ""

    def texts(self, key: str, draw: Draw | None = None) -> tuple[str, ...]:
        """Return a list of at least one such string."""
        values = self.get(key, REQUIRED, "a list of strings that is not empty", _is_filled_list)
        if values is REQUIRED:
            return ()
        texts = self._strings(key, values, draw)
        longest = [draw.longest(value) if draw else value for value in values if isinstance(value, str)]
        if sum(len(text.encode(errors="replace")) for text in longest) > ARGUMENTS_LIMIT:
            self.fault(key, f"longer than {ARGUMENTS_LIMIT} bytes in total")
        return texts

    def ids(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, each once, which may be empty or missing."""
        values = self.get(key, [], "a list of ids", lambda value: isinstance(value, list))
        return tuple(dict.fromkeys(self._strings(key, values)))

    def number(self, key: str, default: Number, expected: str, fits: Callable[[Number], bool]) -> Number:
        """Return a finite number for which `fits` holds."""
        value: Number = self.get(key, default, expected, lambda v: _is_number(v) and fits(v))
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """Return one of `choices`; the first is the default."""
        expected = "one of " + ", ".join(f"'{choice}'" for choice in choices)
        return str(self.get(key, choices[0], expected, lambda v: v in choices))

    def exit_code(self, key: str) -> int | None:
        """Return an exit code, 0 where there is none, None for "any"; 1.0 is whole, as in JSON Schema."""

        def fits(value: Any) -> bool:
            return value == "any" or _is_whole(value, 0, HIGHEST_EXIT_CODE)

        value = self.get(key, 0, "a whole number from 0 to 255 or 'any'", fits)
        return None if value == "any" else int(value)

    def draw(self, key: str, used_in: str) -> Draw | None:
        """Return the numbers to draw, None where there are none; the text of `used_in` must use them all."""
        given = self.get(key, None, "an object of names, each with [from, to]", lambda v: isinstance(v, dict))
        if given is None:
            return None
        faults: list[str] = []
        ranges = Fields(given, f"{self.place}.{key}", faults).ranges()
        if len(ranges) > DRAWN_NAMES:
            faults.append(f"{self.place}.{key}: expected at most {DRAWN_NAMES} names, found {len(ranges)}")
        self._faults += faults
        draw, text = Draw(ranges), self.values.get(used_in)
        combinations = functools.reduce(operator.mul, (high - low + 1 for low, high in ranges.values()), 1)
        if not faults and combinations < COMBINATIONS:
            why = "few enough for an image that holds every answer"
            self.fault(key, f"expected at least {COMBINATIONS} combinations, found {combinations}, {why}")
        unused = [name for name in ranges if isinstance(text, str) and name not in draw.used(text)]
        if unused and not faults:
            self.fault(key, f"'{used_in}' does not use {listed(unused)}, so no image could know the number")
        return draw

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Return each name of the object with its range of whole numbers; both ends are included."""
        limit, ranges = DRAWN_LIMIT, {}
        for name in [name for name in self.values if name[:1] not in ("_", "$")]:
            if not re.fullmatch(_NAME, name):
                self.fault("", f"'{shown(name, 40)}' is no name: expected a letter, then letters and digits")
            expected = "[from, to], two whole numbers from -10^12 to 10^12"
            low, high = self.get(
                name,
                (0, 0),
                expected,
                lambda v: isinstance(v, list) and len(v) == 2 and all(_is_whole(n, -limit, limit) for n in v),  # noqa: PLR2004
            )
            if low > high:
                self.fault(name, f"from {low} is over to {high}")
            ranges[name] = (int(min(low, high)), int(high))
        return ranges

    def close(self, elsewhere: Mapping[str, str]) -> None:
        """Refuse the keys that nobody asked for; `elsewhere` says of some where they belong.

        Keys that begin with _ or $ are comments.
        """
        for key in self.values:
            if key in self.known or key[:1] in ("_", "$"):
                continue
            hint = f" (it belongs {elsewhere[key]})" if key in elsewhere else did_you_mean(key, self.known)
            known = f" (known: {', '.join(sorted(self.known))})"
            self.fault("", f"unknown key '{shown(key, 40)}'{hint or known}")

    def _strings(self, key: str, values: list[Any], draw: Draw | None = None) -> tuple[str, ...]:
        texts = []
        for at, value in enumerate(values):
            if not _is_text(value):
                self.fault(f"{key}[{at}]", f"expected a string that is not empty, found {_kind(value)}")
            else:
                texts.append(self._argument(f"{key}[{at}]", value, draw))
        return tuple(texts)

    def _argument(self, key: str, text: str, draw: Draw | None) -> str:
        if "\0" in text:
            self.fault(key, "a NUL character cannot be handed to a program")
        for fault in draw.faults(text) if draw else ():
            self.fault(key, fault)
        try:
            size = len((draw.longest(text) if draw else text).encode())
        except UnicodeEncodeError as error:
            self.fault(key, f"a lone surrogate (character {error.start + 1}) is not text")
            return ""
        if size > ARGUMENT_LIMIT:
            self.fault(key, f"longer than {ARGUMENT_LIMIT} bytes")
        return draw.filled(text) if draw else text


_NAME = "[A-Za-z][A-Za-z0-9]*"
_BRACE = re.compile(r"\{([^{}]*)(\}?)")
_TERM = re.compile(rf"({_NAME})(?:([-+*])({_NAME}|[0-9]{{1,12}}))?")  # what a brace holds
_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


class Draw:
    """Whole numbers drawn each time that a rubric is read, so that no image knows what a test expects.

    In a text `{a}` stands for the number drawn for a, and `{a+b}`, `{a-b}`, `{a*b}` and `{a*2}` for
    the result; every other brace is text.
    """

    def __init__(self, ranges: Mapping[str, tuple[int, int]]) -> None:
        from secrets import randbelow

        self._ranges = ranges
        self.numbers = {name: low + randbelow(high - low + 1) for name, (low, high) in ranges.items()}

    def filled(self, text: str) -> str:
        """Return a text with the numbers in it."""
        return self._fill(text, {name: (number,) for name, number in self.numbers.items()}, min)

    def longest(self, text: str) -> str:
        """Return a text with such numbers in it that none are longer."""
        return self._fill(text, self._ranges, lambda results: max(results, key=lambda n: len(str(n))))

    def shortest(self, text: str) -> str:
        """Return a text with such numbers in it that none are shorter."""

        def choose(results: list[int]) -> int:
            return 0 if min(results) < 0 < max(results) else min(results, key=lambda n: len(str(n)))

        return self._fill(text, self._ranges, choose)

    def used(self, text: str) -> set[str]:
        """Return the names that a text uses."""
        terms = filter(None, map(self._term, _BRACE.finditer(text)))
        return {word for term in terms for word in term.groups() if word in self._ranges}

    def faults(self, text: str) -> Iterator[str]:
        """Say of each brace that holds a drawn name, and is none that stands for a number, what to write."""
        for match in _BRACE.finditer(text):
            # Of a brace around others, such as a list of the shell's, only the first word is looked at.
            held = re.findall(r"\w+" if match[2] else r"^\w+", match[1])
            words = [word for word in held if word in self._ranges]
            if words and not self._term(match):
                found = text[max(match.start() - 1, 0) : match.end()].lstrip()
                forms = "{NAME} or {NAME+NAME} (or - or *, or digits; no blanks, no '$' or '{' before it)"
                yield f"'{shown(found, 40)}' holds the drawn name '{words[0]}', but is not {forms}"

    def _term(self, match: re.Match[str]) -> re.Match[str] | None:
        """Return the parts of a brace that stands for a number, None for any other."""
        before = match.string[match.start() - 1 : match.start()]
        term = _TERM.fullmatch(match[1]) if match[2] and before not in ("$", "{") else None
        words = [word for word in (term[1], term[3]) if word] if term else []
        known = all(word in self._ranges or word.isdigit() for word in words)
        return term if known else None

    def _fill(
        self, text: str, numbers: Mapping[str, Sequence[int]], choose: Callable[[list[int]], int]
    ) -> str:
        """Put in each brace's place one of the results that it has with the numbers given."""

        def result(match: re.Match[str]) -> str:
            term = self._term(match)
            if not term:
                return match[0]
            left, sign, right = term.groups()
            names = [name for name in dict.fromkeys((left, right)) if name in numbers]
            results = []
            for values in itertools.product(*(numbers[name] for name in names)):
                known = dict(zip(names, values))
                other = known[right] if right in known else int(right or 0)
                results.append(_OPERATIONS[sign or "+"](known[left], other))
            return str(choose(results))

        return _BRACE.sub(result, text)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_filled_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_whole(value: Any, low: int, high: int) -> bool:
    return _is_number(value) and low <= value <= high and value == int(value)


CHECKS: dict[str, type[Check]] = {}  # by test type


class Check:
    """What one test asks. `params` is read in `__init__`, which thereby is the type's schema.

    `looks_only`: it runs no command of the rubric's. Such checks overlap, before the commands,
    and their containers have no network.
    """

    looks_only = True
    draw: Draw | None = None  # numbers that stand in what it asks

    def __init_subclass__(cls, test_type: str) -> None:
        """Make a class the check of its test type."""
        CHECKS[test_type] = cls

    def __init__(self, params: Fields) -> None:
        raise NotImplementedError

    def script(self) -> Script:
        """Say what to run in the container."""
        raise NotImplementedError

    def judge(self, run: Run) -> Verdict:
        """Say what a finished run means."""
        raise NotImplementedError


class Test(NamedTuple):
    """One test of a rubric. `timeout` is in seconds; `requires` are ids of other tests."""

    id: str
    type: str
    check: Check
    timeout: float
    score: Number
    requires: tuple[str, ...]
    category: str | None
    params: Mapping[str, Any] = {}  # as in the rubric, without comments


class Rubric(NamedTuple):
    """The tests of one rubric file, in its order; `repo` is "" where it names none."""

    path: str
    sha256: str
    repo: str
    tests: tuple[Test, ...]


def load_rubric(path: str) -> Rubric:
    """Read a rubric whole; raise RubricError, which names every fault of the file with its place."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise RubricError(f"{path}: no such rubric; name one with --rubric FILE") from None
    except OSError as error:
        raise RubricError(f"{path}: the rubric cannot be read: {error.strerror}") from None
    faults: list[str] = []
    top = Fields(_parse_json(path, data), "", faults)
    repo = top.text("repo", None)
    items = top.get("tests", REQUIRED, "a list of tests that is not empty", _is_filled_list)
    tests = [] if items is REQUIRED else _read_tests(items, faults)
    top.close({})
    if not math.isfinite(sum(float(test.score) for test in tests)):
        top.fault("tests", "expected scores whose sum is a finite number")
    if faults:
        raise RubricError("\n".join(f"{path}: {fault}" for fault in faults))
    return Rubric(path, hashlib.sha256(data).hexdigest(), repo, tuple(tests))


def _parse_json(path: str, data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_Object)
    except UnicodeDecodeError as error:
        raise RubricError(f"{path}: not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        next_character, hint = error.doc[error.pos :][:1], ""
        if not error.doc.strip():
            hint = " (the file is empty)"
        elif next_character in ("#", "/"):
            hint = " (JSON has no comments; keys that begin with _ are)"
        elif error.doc[: error.pos].rstrip().endswith(",") and next_character in ("]", "}"):
            hint = " (a trailing comma)"
        place = f"line {error.lineno}, column {error.colno}"
        raise RubricError(f"{path}: not JSON at {place}: {error.msg}{hint}") from None
    except (RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RubricError(f"{path}: not usable JSON: {reason}") from None


def _read_tests(items: list[Any], faults: list[str]) -> list[Test]:
    given = {item["id"] for item in items if isinstance(item, dict) and _is_text(item.get("id"))}
    seen: dict[str, int] = {}
    tests = []
    for at, item in enumerate(items):
        name = item["id"] if isinstance(item, dict) and _is_text(item.get("id")) else ""
        fields = Fields(item, f"tests[{at}]" + (f" '{shown(name, 60)}'" if name else ""), faults)
        test = _read_test(fields, at, given, faults)
        if test is None:
            continue
        if test.id in seen:
            fields.fault("id", f"'{shown(test.id, 40)}' is the id of tests[{seen[test.id]}] too")
        seen.setdefault(test.id, at)
        tests.append(test)
    return tests


def _read_test(fields: Fields, at: int, given: set[str], faults: list[str]) -> Test | None:
    """Read one test; None where its type is not known, which is then among the faults."""
    kind = fields.text("type")
    params = fields.get("params", REQUIRED, "an object", lambda value: isinstance(value, dict))
    identity = fields.text("id", None) or f"{kind}_{at + 1}"
    while "id" not in fields.values and identity in given:
        identity += "_"
    timeout = fields.number("timeout", DEFAULT_TIMEOUT, "a number of seconds over 0", lambda v: v > 0)
    score = fields.number("score", 1, "a number of at least 0", lambda v: v >= 0)
    requires = fields.ids("requires")
    category = fields.text("category", None) or None
    fields.text("description", None)
    if kind not in CHECKS:
        fields.close({})
        if kind:
            known = f" (known: {', '.join(sorted(CHECKS))})"
            hint = did_you_mean(kind, CHECKS) or known
            fields.fault("type", f"unknown test type '{shown(kind, 40)}'{hint}")
        return None
    # Without params, their faults would only repeat that; the check still tells which keys belong there.
    inner = Fields(
        {} if params is REQUIRED else params, f"{fields.place}.params", [] if params is REQUIRED else faults
    )
    check = CHECKS[kind](inner)
    fields.close(dict.fromkeys(inner.known, "into params"))
    inner.close(dict.fromkeys(fields.known - {"params"}, "beside params"))
    known_params = {key: value for key, value in inner.values.items() if key in inner.known}
    return Test(identity, kind, check, float(timeout), score, requires, category, known_params)


def unresolvable(tests: Sequence[Test]) -> dict[str, str]:
    """Map each test that can never run to the reason: it requires an unknown id, itself, or a circle."""
    by_id = {test.id: test for test in tests}
    reasons: dict[str, str] = {}
    for test in tests:
        unknown = [name for name in test.requires if name not in by_id]
        if unknown:
            hint = did_you_mean(unknown[0], by_id.keys() - {test.id})
            reasons[test.id] = f"requires unknown test {listed(unknown)}{hint}"
        elif test.id in test.requires:
            reasons[test.id] = "requires itself"
    # Take away, again and again, what waits for nothing (Kahn): what is left waits for a circle.
    waits = {test.id: sum(name in by_id for name in test.requires) for test in tests}
    requirers = collections.defaultdict(list)
    for test in tests:
        for name in test.requires:
            requirers[name].append(test.id)
    free = [name for name, count in waits.items() if not count]
    while free:
        for name in requirers[free.pop()]:
            waits[name] -= 1
            if not waits[name]:
                free.append(name)
    needs = {
        name: [n for n in by_id[name].requires if waits.get(n)] for name, count in waits.items() if count
    }
    for name in needs:
        if name not in reasons:
            circle = _circle(name, needs)
            for at, member in enumerate(circle):  # each is told from its own place
                way = " -> ".join([*circle[at:], *circle[:at], member])
                reasons.setdefault(member, f"requires itself in a circle: {shown(way, 300)}")
    return reasons


def _circle(start: str, needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the shortest way from a test along what it requires back to it, [] where there is none."""
    ways, seen = collections.deque([[start]]), {start}
    while ways:
        way = ways.popleft()
        for needed in needs[way[-1]]:
            if needed == start:
                return way
            if needed not in seen:
                seen.add(needed)
                ways.append([*way, needed])
    return []


# ---------------------------------------------------------------------------------------------
# Room 3: Checks
# ---------------------------------------------------------------------------------------------

# The scripts run in a subshell of the image's own /bin/sh (dash, busybox, bash), with the rubric's
# text as positional parameters. They use the words that the wrapper (room 4) has made sure of.

LISTED_MISSING = 20  # that a script names; it counts the rest

_FIND_COMMANDS = f"""\
i=0 good=0 bad=0
for name do
  i=$((i + 1))
  if path=$(command -v -- "$name") && test -n "$path" &&
    case $path in */*) test -f "$path" && test -x "$path" ;; esac
  then good=$((good + 1)); test "$good" -gt 5 || echo "found $path"
  else bad=$((bad + 1)); test "$bad" -gt {LISTED_MISSING} || echo "missing $i"
  fi
done
echo "bad $bad"
test "$bad" -eq 0
"""

_TEST_PATHS = f"""\
kind=$1 i=0 bad=0
shift
for path do
  i=$((i + 1))
  if test "$kind" "$path"; then continue; fi
  bad=$((bad + 1))
  if test "$bad" -gt {LISTED_MISSING}; then continue; fi
  if test -d "$path"; then echo "directory $i"
  elif test -f "$path"; then echo "file $i"
  elif test -e "$path"; then echo "special $i"
  elif test -L "$path"; then echo "dangling $i"
  else echo "missing $i"
  fi
done
echo "bad $bad"
test "$bad" -eq 0
"""

_READER = """\
reader() {
  if test -x /bin/cat; then /bin/cat
  elif test -x /usr/bin/cat; then /usr/bin/cat
  elif test -x /bin/busybox; then /bin/busybox cat
  elif command -v -- cat >/dev/null; then cat
  else return 6
  fi
}
"""

_READ_FILE = (
    _READER
    + """\
if test -d "$1"; then exit 4; fi
if test ! -e "$1"; then exit 3; fi
if test ! -f "$1"; then exit 5; fi
if test ! -r "$1"; then exit 7; fi
reader <"$1"
"""
)

_READ_ENVIRONMENT = _READER + "reader </proc/$$/environ\n"

_READING = {  # the exit codes of both
    3: "no such file",
    4: "a directory, not a file",
    5: "not a regular file",
    6: "no program to read with in the image (cat, busybox)",
    7: "the image's user may not read it",
}

_NO_SHELL = "dockerfile-evaluator: no such shell"
_NO_SHELL_CODE = 127
_RUN_COMMAND = f"""\
exec 2>&1
command -v -- "$2" >/dev/null || {{ echo '{_NO_SHELL}'; exit {_NO_SHELL_CODE}; }}
exec "$2" -c "$1"
"""


class CommandsExist(Check, test_type="commands_exist"):
    """Every command is found by the image's shell; one found with a path is an executable regular file."""

    def __init__(self, params: Fields) -> None:
        self.names = params.texts("names")

    def script(self) -> Script:
        """Ask `command -v` for each; print where it is, or the place in the list of one missing."""
        return Script(_FIND_COMMANDS, self.names)

    def judge(self, run: Run) -> Verdict:
        """Pass when the last word is that none was missing."""
        notes = _notes(run.output)
        if run.status == 0 and notes[-1:] == [("bad", "0")]:
            found = [value for word, value in notes if word == "found"]
            return Verdict(PASSED, f"found {listed(found, total=len(self.names))}")
        missing = _noted(notes, "missing", self.names)
        names = listed(missing, total=_bad(notes))
        return Verdict(FAILED, f"not found: {names}" if missing else "nothing was found")


class CommandExists(CommandsExist, test_type="command_exists"):
    """A command is found by the image's shell."""

    def __init__(self, params: Fields) -> None:
        self.names = (params.text("name"),)


class EnvvarSet(Check, test_type="envvar_set"):
    """A variable is in the environment of the container's first process, and not empty."""

    def __init__(self, params: Fields) -> None:
        self.name = params.text("name")
        if self.name and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", self.name):
            params.fault("name", f"'{shown(self.name, 40)}' is not a valid variable name")

    def script(self) -> Script:
        """Hand the environment, a list of NAME=value that end in NUL, to the host."""
        entry = f"\0{self.name}=".encode()
        return Script(_READ_ENVIRONMENT, needles=(entry, entry + b"\0"), before=b"\0")

    def judge(self, run: Run) -> Verdict:
        """Pass when the variable was seen, and not with an empty value."""
        if run.status != 0:
            why = _READING.get(run.status or 0, f"reading ended with exit code {run.status}")
            return Verdict(FAILED, f"the environment cannot be read: {why}")
        there, empty = run.found
        if there and not empty:
            return Verdict(PASSED, f"{self.name} is set")
        return Verdict(FAILED, f"{self.name} is {'set, but empty' if empty else 'not set'}")


class FilesExist(Check, test_type="files_exist"):
    """Every path is a regular file, links followed."""

    _TEST = "-f"
    _WANTED = ("file", "files")

    def __init__(self, params: Fields) -> None:
        self.paths = params.texts("paths")

    def script(self) -> Script:
        """Test each path; say of one that is none what it is."""
        return Script(_TEST_PATHS, (self._TEST, *self.paths))

    def judge(self, run: Run) -> Verdict:
        """Pass when every path was tested and none was bad."""
        notes, (one, many) = _notes(run.output), self._WANTED
        if run.status == 0 and notes == [("bad", "0")]:
            count = len(self.paths)
            return Verdict(PASSED, f"{count} {many if count > 1 else one} found")
        meanings = {
            "missing": f"no such {one}",
            "dangling": "a link to nothing",
            "directory": "a directory, not a file",
            "file": "a file, not a directory",
            "special": f"not a {one}",
        }
        paths = {text: _noted(notes, word, self.paths) for word, text in meanings.items()}
        faults = [f"{text}: {listed(bad)}" for text, bad in paths.items() if bad]
        unnamed = _bad(notes) - sum(map(len, paths.values()))
        faults += [f"{unnamed} more"] if faults and unnamed > 0 else []
        return Verdict(FAILED, "; ".join(faults) or "the paths could not be tested")


class DirsExist(FilesExist, test_type="dirs_exist"):
    """Every path is a directory, links followed."""

    _TEST = "-d"
    _WANTED = ("directory", "directories")


class Contents:
    """The strings that a text must hold: any of them, or all."""

    def __init__(self, params: Fields, draw: Draw | None = None) -> None:
        self.texts = params.texts("contains", draw)
        self.all = params.choice("match", ("any", "all")) == "all"
        self.needles = tuple(text.encode(errors="replace") for text in self.texts)

    def judge(self, found: Sequence[bool], holder: str) -> Verdict:
        """Say what `holder` holds of them, or lacks."""
        held = [text for text, here in zip(self.texts, found) if here]
        lacking = [text for text, here in zip(self.texts, found) if not here]
        if not held:
            return Verdict(FAILED, f"{holder} holds none of {listed(self.texts)}")
        if self.all and lacking:
            return Verdict(FAILED, f"{holder} lacks {listed(lacking)}")
        return Verdict(PASSED, f"{holder} holds {listed(held)}")


class FileContains(Check, test_type="file_contains"):
    """A regular file holds any (or all) of the strings."""

    def __init__(self, params: Fields) -> None:
        self.path = params.text("path")
        self.contents = Contents(params)

    def script(self) -> Script:
        """Hand the file's content to the host, which does the matching."""
        return Script(_READ_FILE, (self.path,), self.contents.needles)

    def judge(self, run: Run) -> Verdict:
        """Pass when the file was read to its end and held what was asked."""
        if run.status != 0:
            why = _READING.get(run.status or 0, f"reading it ended with exit code {run.status}")
            return Verdict(FAILED, f"{shown(self.path, 80)}: {why}")
        return self.contents.judge(run.found, shown(self.path, 80))


class RunCommand(Check, test_type="run_command"):
    """A command ends with the expected exit code."""

    looks_only = False

    def __init__(self, params: Fields) -> None:
        self.draw = params.draw("draw", used_in="command")
        self.command = params.text("command", draw=self.draw)
        self.expected = params.exit_code("exit_code")
        self.shell = params.text("shell", "/bin/sh")

    def script(self) -> Script:
        """Run the command in a shell of its own, so that nothing in it can skip the end mark."""
        # A shell takes a first word that begins like an option for one, even after its -c.
        command = f" {self.command}" if self.command[:1] in ("-", "+") else self.command
        return Script(_RUN_COMMAND, (command, self.shell))

    def judge(self, run: Run) -> Verdict:
        """Pass on the expected exit code."""
        if run.status == _NO_SHELL_CODE and run.output.startswith(_NO_SHELL):
            return Verdict(FAILED, f"the image has no shell {shown(self.shell, 80)}")
        if self.expected is None or run.status == self.expected:
            return Verdict(PASSED, f"exit code {run.status}")
        wanted = f", expected {self.expected}" if self.expected else ""
        meaning = _EXIT_CODES.get(run.status or 0, "")
        if run.status == _SHELL_MISUSE and _is_syntax_error(run.output, self.shell):
            meaning = " (a syntax error in the rubric's command)"
        reason = shown(telling_line(run.output), 160) or "no output"
        return Verdict(FAILED, f"exit code {run.status}{wanted}{meaning}: {reason}")


class OutputContains(RunCommand, test_type="output_contains"):
    """A command ends with the expected exit code and its output holds any (or all) strings."""

    def __init__(self, params: Fields) -> None:
        super().__init__(params)
        self.contents = Contents(params, self.draw)

    def script(self) -> Script:
        """Run the command and look for the strings in all that it prints."""
        return super().script()._replace(needles=self.contents.needles)

    def judge(self, run: Run) -> Verdict:
        """Pass on the exit code and the strings together."""
        code = super().judge(run)
        return self.contents.judge(run.found, "output") if code.status == PASSED else code


def _notes(output: str) -> list[tuple[str, str]]:
    """Split what our own scripts print: a word and its value on each line."""
    pairs = (line.partition(" ") for line in output.splitlines())
    return [(word, value) for word, _, value in pairs]


def _noted(notes: list[tuple[str, str]], word: str, items: Sequence[str]) -> list[str]:
    """Return the items whose place, from 1, was noted with `word`."""
    places = [_number(value) for key, value in notes if key == word]
    return [items[place - 1] for place in places if 0 < place <= len(items)]


def _bad(notes: list[tuple[str, str]]) -> int:
    """Return how many items a script found bad, by its last word."""
    word, value = notes[-1] if notes else ("", "")
    return _number(value) if word == "bad" else 0


def _number(text: str) -> int:
    """Return a number that an image printed, 0 where it is none or so long that int() refuses it."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 0


_EXIT_CODES = {
    126: " (cannot be executed)",
    127: " (command not found)",
    137: " (killed; out of memory?)",
    139: " (segmentation fault)",
}
_SHELL_MISUSE = 2  # the exit code of shells for what they cannot parse, and of many programs


def _is_syntax_error(output: str, shell: str) -> bool:
    """Whether a shell says so of its command, and nothing else was printed (`make` exits 2 as well)."""
    lines = output.splitlines()
    words = ("yntax error", "unexpected EOF", "nterminated")
    is_said = bool(lines) and any(word in lines[0] for word in words)
    return is_said and all(line.startswith(f"{shell}: ") for line in lines)


# ---------------------------------------------------------------------------------------------
# Room 4: Docker
# ---------------------------------------------------------------------------------------------

REPOSITORY = "dockerfile-evaluator"  # of our images, and the beginning of our containers' names
LABEL = "io.dockerfile-evaluator."
CONTAINER_NAME = re.compile(REPOSITORY + r"-(?P<run>[0-9a-f]{12})-[0-9]+")
IMAGE_TAG = re.compile(r"(?P<run>[0-9a-f]{12})(-[0-9]+)?")  # a kept image's ends in -kept

# Time limits in seconds.
TICK = 0.1  # how soon a time limit or a request to stop is seen while docker is silent
CALL_LIMIT = 20.0  # a docker command that only asks or removes
START_LIMIT = 60.0  # from `docker run` to the begin mark
END_LIMIT = 60.0  # from the end mark to the end of `docker run`
CREATE_LIMIT = 5.0  # for a container that is to be stopped before it is there
KILL_LIMIT = 5.0  # from a signal to the end of a docker command
REMOVE_LIMIT = 120.0  # for one container or image, which may be large; all attempts together
RETURN_LIMIT = 10.0  # for a lost engine, or a container on its way, to come back for clean-up
PULL_LIMIT = 60.0  # for Docker Hub to say that it has no such image
MARGIN = 3600.0  # that a run may outlive the sum of its limits before it counts as dead
GRACE = 1.0  # that a time limit waits while output is still read; a longer gap is not counted
STANDSTILL = 5.0  # a gap after which a verdict is in doubt: Ctrl-Z, a frozen machine or engine

BUILD_ATTEMPTS = 5  # where other runs' clean-up takes layers from under it

# Sizes in bytes.
CHUNK = 64 * 1024
KEPT_HEAD = 2 * 1024  # of a container's output
KEPT_TAIL = 6 * 1024
KEPT_LOG = 16 * 1024  # of the build log, its end
KEPT_ANSWER = 4 * 1024 * 1024  # of a docker command that only asks
CONTROL_SIZE = 4 * 1024 * 1024  # of fresh random content: the cache has no answer, a full disk no room

# bash takes functions from the environment even as sh, and these would answer in the place of the
# words that the scripts use; `unset` itself, `set`, `trap`, `exit`, `exec`, `shift` and `:` are special
# built-ins, which no function can replace in a shell called sh (POSIX, 2.9.1). A shell whose command
# was killed by Ctrl-C ends itself, unless it has a trap for it. What it prints of $1, the nonce, are the
# begin mark and the end mark, which Transcript looks for. dash looks for its own built-ins, too, along a
# PATH with %builtin in it, and for functions in the folders before that (dash, exec.c).
_WRAPPER = """\
case $PATH in *%builtin*) exit 1;; esac
unset -f command test echo cat
set +euvx
trap : INT
echo "$1=B"
(
shift
{text}
)
set -- "$1" "$?"
echo "$1=E $2"
exit "$2"
"""

# What docker and podman say. Each is a reason to ask or to try again; no verdict hangs on it alone.
SAYS_NO_ENGINE = re.compile(
    r"""
      cannot\ connect\ to\ the\ docker\ daemon | is\ the\ docker\ daemon\ running
    | error\ during\ connect | connection\ refused | connection\ reset
    | unable\ to\ connect                            # podman
    """,
    re.VERBOSE | re.IGNORECASE,
)
FROM_THE_ENGINE = "Error response from daemon"  # so there is one, whatever else it says
SAYS_GONE = re.compile("no such (container|image|object)|image not known", re.IGNORECASE)
SAYS_NO_FOLDER = re.compile("unable to (prepare context|evaluate symlinks)")  # docker from a snap, of /tmp
SAYS_NO_LIMITS = re.compile("cannot set limits")  # crun, of a rootless podman (containers/crun#160)
SAYS_LOST_LAYER = re.compile(
    r"""
      (No\ such\ image:|unknown\ parent\ image\ ID|failed\ to\ get\ digest)\ sha256:[0-9a-f]{64}  # moby
    | layer\ does\ not\ exist$ | layer\ not\ known$   # moby, layer; containers/storage
    """,
    re.VERBOSE,
)
SAYS_CUT = re.compile(
    r"""
      ^unexpected\ EOF$                              # the legacy builder's command line
    | ^failed\ to\ receive\ status:\ rpc\ error:\ code\ =\ Unavailable  # BuildKit's
    | ^error\ during\ connect
    """,
    re.VERBOSE,
)
SAYS_REGISTRY = re.compile(
    r"""
      dial\ tcp | no\ such\ host | i/o\ timeout | TLS\ handshake | x509 | failed\ to\ do\ request
    | connection\ refused | connection\ reset | network\ is\ unreachable | server\ misbehaving
    | :\ (?-i:(unexpected\ )?EOF)$
    | Client\.Timeout | context\ deadline\ exceeded | \b5\d\d\ [A-Z] | unexpected\ (HTTP\ )?status
    | read\ tcp | GOAWAY | stream\ error | bad\ record\ MAC | verification\ failed
    | toomanyrequests | Too\ Many\ Requests | rate\ limit
    """,
    re.VERBOSE | re.IGNORECASE,
)
# How Docker Hub, or a mirror of it, answers for a name that it does not have: it can be reached.
SAYS_NO_SUCH_IMAGE = re.compile("denied|does not exist|manifest unknown|not found|unauthorized")
SAYS_BAD_STEP = re.compile("parse error|(COPY|ADD) failed: (?!Get )")  # and names what stands in it
SAYS_NO_SOURCE = re.compile("(COPY|ADD) failed|not found|no source files|no such file|checksum|cache key")
SAYS_RUN_FAILED = re.compile(r"(returned a non-zero code: |exit code: |exit status )(?P<code>\d+)\W*$")

# The builders: how each begins its log, and how it begins a step.
_STEP = r"(?P<n>\d{1,6})/(?P<of>\d{1,6})"
BUILDERS = {
    "buildkit": (
        re.compile(r"#\d+ "),
        re.compile(rf"#(?P<vertex>\d+) \[((?P<stage>[^\] ]+) +)?({_STEP}|[^\]]*)\] (?P<title>.*)"),
    ),
    "legacy": (
        re.compile("Sending build context to Docker daemon|Step 1/"),
        re.compile(rf"Step {_STEP} : (?P<title>.*)"),
    ),
    "buildah": (
        re.compile(r"(\[\d+/\d+\] )?STEP 1/"),
        re.compile(rf"(\[\d+/\d+\] )?STEP {_STEP}: (?P<title>.*)"),
    ),
}
# How many steps our labels add, with the builders whose steps, and whose cache, are images.
_OWN_STEPS = {"legacy": 3, "buildah": 1}
_ADVERTISING = re.compile(
    r"""
      DEPRECATED:\ The\ legacy\ builder | \s+Install\ the\ buildx | \s+https://docs\.docker\.com/go/buildx
    | \s+BuildKit\ is\ currently\ disabled | \s+environment-variable\.$
    | View\ build\ details: | What's\ next | \s+View\ a\ summary | Use\ 'docker\ scan'
    | \#\d+\ sha256:[0-9a-f]{64}$                    # BuildKit's name for a step, below its title
    """,
    re.VERBOSE | re.IGNORECASE,
)
# What the legacy builder and podman's put among the lines that a RUN prints.
_OF_THE_BUILDER = re.compile("( -)?--> |Removing intermediate container [0-9a-f]+$")
# On stderr, and no reason of a failure: warnings, and what stands below a word that docker refuses.
_NO_REASON = re.compile(
    r"""
      (?i:warning):\  | time="[^"]*"\ level= | \s*$
    | Usage: | Run\ ' | See\ ' | Build\ an\ image | Start\ a\ build
    """,
    re.VERBOSE,
)
# What stands above BuildKit's reason, or begins it; not where its connection was cut.
_FAILS = re.compile("ERROR: |failed to solve|------$")
# Colors and titles of terminals (ECMA-48).
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])")

_ENVIRONMENT = {
    "BUILDKIT_PROGRESS": "plain",
    "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",
    "DOCKER_CLI_HINTS": "false",
}
REFUSED_CONTEXT = "docker refuses the build context"  # which is one Dockerfile's, and the options all have
_ENGINE_HINT = (
    "Is an engine running, and does DOCKER_HOST or the docker context point at it? "
    "On Debian or Ubuntu, as root, `tests/with-engine COMMAND` of this project's repository "
    "runs COMMAND with an engine of its own."
)
_PROGRAM_HINT = (
    "Install the docker command line, or name another with --docker PROGRAM. "
    "On Debian or Ubuntu, as root, `tests/with-engine COMMAND` of this project's repository "
    "installs docker and runs COMMAND with an engine of its own."
)


_SECRETIVE = {  # flags whose values may be secrets
    *("env", "e", "env-file", "build-arg", "build-arg-file", "secret", "creds", "decryption-key"),
    *("cache-to", "cache-from", "log-opt"),
}


class Flags(NamedTuple):
    """What may be handed to a docker command: our defaults, and what would break us."""

    forbidden: tuple[str, ...]
    shorts: Mapping[str, str]  # one-letter flags that need no value or are forbidden
    defaults: tuple[tuple[str, str], ...]  # a flag's name and the word that we hand over
    harmless: tuple[str, ...] = ()  # words that set a forbidden flag to what we need

    def check(self, argument: str, words: Sequence[str]) -> None:
        """Raise ValueError, with the reason, for words that must not be handed to docker."""
        if isinstance(words, str):
            raise ValueError(f"{argument}: expected a list of words, found the string {words!r}")  # noqa: TRY004
        for word in words:
            if not re.match(r"--?[A-Za-z]", word) or "\0" in word:
                raise ValueError(f"{word!r}: expected one word that begins with '-', such as --flag=value")
            refused = [name for name in self.names(word) if name in self.forbidden]
            if refused and word not in self.harmless:
                raise ValueError(f"{word!r}: --{refused[0]} is refused, since the evaluation depends on it")

    def names(self, word: str) -> list[str]:
        """Return the long names of the flags that a word sets (`-it` sets two)."""
        if word.startswith("--"):
            name = word[2:].partition("=")[0]
            return ["network" if name == "net" else name]
        names = []
        for letter in word[1:]:
            names.append(self.shorts.get(letter, letter))
            if letter not in self.shorts:
                break
        return names

    def set_by(self, words: Sequence[str]) -> set[str]:
        """Return the long names of the flags that any of the words sets."""
        return {name for word in words for name in self.names(word)}

    def with_defaults(
        self, given: Sequence[str], extra: Sequence[tuple[str, str]] = (), omit: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Return our defaults, but those to `omit` and those that the user's words replace; then these."""
        names = {*omit, *self.set_by(given)}
        if any(name.startswith("health-") for name in names):
            names.add("no-healthcheck")
        ours = (word for name, word in (*self.defaults, *extra) if name not in names)
        return (*ours, *given)

    def without(self, words: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
        """Return the words that set none of the flags named."""
        return tuple(word for word in words if not set(names) & set(self.names(word)))

    def redacted(self, word: str) -> str:
        """Return a word for a report: without a value that may be a secret."""
        names = set(self.names(word))
        if not names & _SECRETIVE:
            return word
        flag, equals, value = word.partition("=")
        variable, has_value, _ = value.partition("=")
        if names & {"env", "build-arg"} and word.startswith("--"):
            return f"{flag}{equals}{variable}{'=…' if has_value else ''}"
        return f"{flag}=…" if equals else flag


RUN_FLAGS = Flags(
    ("name", "rm", "entrypoint", "detach", "attach", "interactive", "tty", "cidfile", "restart", "help"),
    {"d": "detach", "a": "attach", "i": "interactive", "t": "tty", "P": "publish-all", "q": "quiet"},
    (
        ("pull", "--pull=never"),
        ("log-driver", "--log-driver=none"),
        ("no-healthcheck", "--no-healthcheck"),
        ("pids-limit", "--pids-limit=4096"),
        ("stop-timeout", "--stop-timeout=0"),  # podman's `rm --force` waits that long before it kills
    ),
)
BUILD_FLAGS = Flags(
    (
        *("tag", "file", "iidfile", "quiet", "output", "load", "push", "help"),
        *("call", "check", "print"),  # they build nothing
        *("progress", "logfile", "logsplit"),  # the log is read
    ),
    {"t": "tag", "f": "file", "q": "quiet", "o": "output"},
    (("force-rm", "--force-rm"),),
    ("--progress=plain", "--progress=auto"),
)
_DOCKER_FAILED = 125  # the exit code of `docker run` for its own failures
_OF_THE_IMAGE = ("user", "u", "workdir", "w", "group-add")  # run options that an image must have a match for
# What only one container at a time can have: a port of the host, an address.
_EXCLUSIVE = frozenset({"publish", "p", "ip", "ip6", "mac-address"})
_EXCLUSIVE_NETWORK = re.compile("--net(work)?=.*(ip6?|mac-address)=")


class Process:
    """A docker command in a session of its own: the one place that starts a process.

    The session keeps a terminal's Ctrl-C away from docker, so that clean-up can finish. Leaving
    the `with` block ends what still runs of it.
    """

    def __init__(self, command: Sequence[str | bytes], environment: Mapping[str, str]) -> None:
        self._started = time.monotonic()
        self.stood_still = 0.0  # seconds in which this process did not look, in gaps over GRACE
        self.disturbed = False  # one of them was over STANDSTILL
        try:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env=environment,
            )
        except FileNotFoundError:
            raise EngineError(f"no program '{os.fsdecode(command[0])}' found. {_PROGRAM_HINT}") from None
        except OSError as error:
            raise EngineError(f"'{os.fsdecode(command[0])}' cannot be started: {error.strerror}") from None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exception: object) -> None:
        for pipe in (self._popen.stdout, self._popen.stderr):
            if pipe:  # closed first, or a docker that writes would never end
                pipe.close()
        self._signal(signal.SIGTERM)
        if self.wait(KILL_LIMIT) is None:
            self.kill()

    def clock(self) -> float:
        """Return the seconds since its start, less those in which this process stood still."""
        return time.monotonic() - self._started - self.stood_still

    def read(self) -> Iterator[tuple[str, bytes]]:
        """Yield `stdout` or `stderr` with what came there, and ("", b"") after a TICK without any.

        Ends with the end of both pipes, or when the command has ended and a stranger that
        it left behind holds them.
        """
        looked = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for name in ("stdout", "stderr"):
                selector.register(getattr(self._popen, name), selectors.EVENT_READ, name)
            while selector.get_map():
                ended = self.wait(0) is not None  # before the look at the pipes, or its last words were lost
                ready = selector.select(TICK)
                now = time.monotonic()
                if now - looked > GRACE:
                    self.stood_still += now - looked
                    self.disturbed = self.disturbed or now - looked > STANDSTILL
                looked = now
                if ended and not ready:
                    return
                for key, _ in ready:
                    data = os.read(key.fd, CHUNK)
                    if data:
                        yield key.data, data
                    else:
                        selector.unregister(key.fileobj)
                if not ready:
                    yield "", b""

    def wait(self, limit: float) -> int | None:
        """Return the exit code, negative for a signal; None where it runs on after `limit` seconds."""
        try:
            return self._popen.wait(limit) if limit else self._popen.poll()
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End the command at once, without a word to whatever it is talking to."""
        self._signal(signal.SIGKILL)
        self.wait(KILL_LIMIT)  # it may belong to another user

    def _signal(self, number: int) -> None:
        if self.wait(0) is None:  # or the number may be somebody else's by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, number)


class Excerpt:
    """The first and the last bytes of a stream of any length."""

    def __init__(self, head: int, tail: int) -> None:
        self._head_limit, self._tail_limit = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes, in pieces of any size."""
        self._size += len(data)
        missing = self._head_limit - len(self._head)
        self._head += data[:missing]
        self._tail += data[missing:]
        excess = len(self._tail) - self._tail_limit
        if excess > CHUNK:
            del self._tail[:excess]

    def text(self) -> str:
        """Return the stream, its middle left out where it is long."""
        tail = bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""
        left_out = self._size - len(self._head) - len(tail)
        gap = f"\n[… {left_out} bytes left out …]\n".encode() if left_out else b""
        return (bytes(self._head) + gap + tail).decode(errors="replace")


class Transcript:
    """What one container prints, in pieces of any size: its marks and when they came, and its output.

    Only what stands between the begin mark and the first end mark is output: needles are looked
    for in all of it, its head and tail are kept. `nonce` begins every mark, and nobody outside
    knows it before the container starts. Times are those of Process.clock().
    """

    def __init__(self, script: Script, nonce: str, timeout: float) -> None:
        self._mark = re.compile(re.escape(nonce).encode() + rb"=(?:(?P<begin>B)|E (?P<status>[0-9]{1,3}))\n")
        self._held_back = len(nonce) + len("=E 255\n") - 1  # bytes that may be the beginning of a mark
        self._rest = b""  # read, but held back
        self._needles = dict(enumerate(script.needles))  # those not found yet
        self._count = len(script.needles)
        self._overlap = max(map(len, script.needles), default=1) - 1  # bytes of a needle cut at the end
        self._window = script.before  # the last of these bytes that were looked through
        self.timeout = timeout
        self._excerpt = Excerpt(KEPT_HEAD, KEPT_TAIL)
        self.begins = 0
        self.statuses: list[int] = []  # of all end marks
        self.begun: float | None = None
        self.ended: float | None = None

    def feed(self, data: bytes, now: float) -> None:
        """Take the next bytes, read at this time."""
        self._rest += data
        for mark in iter(lambda: self._mark.search(self._rest), None):
            self._take(mark.start())
            self._rest = self._rest[mark.end() - mark.start() :]
            if mark["begin"]:
                self.begins += 1
                self.begun = now if self.begun is None else self.begun
            else:
                self.statuses.append(int(mark["status"]))
                self.ended = now if self.ended is None else self.ended
        self._take(max(len(self._rest) - self._held_back, 0))

    def close(self) -> None:
        """Take what was held back as output: no more is coming."""
        self._take(len(self._rest))

    def expect_end(self, now: float) -> None:
        """Let END_LIMIT count from now: the container has ended, its last words are on their way."""
        self.ended = now

    def limit_over(self, now: float) -> str:
        """Return the time limit that is over: "start", "check", "end", or "" for none."""
        if self.ended is not None:
            return "end" if now - self.ended > END_LIMIT else ""
        if self.begun is not None:
            return "check" if now - self.begun > self.timeout else ""
        return "start" if now > START_LIMIT else ""

    def amiss(self, code: int | None) -> str:
        """Return "" where the marks prove that the check ran to its end, else what is amiss."""
        if self.begins != 1 or len(self.statuses) != 1:
            return f"{self.begins} begin and {len(self.statuses)} end marks instead of one each"
        if self.statuses[0] != code:
            return f"the end mark says exit code {self.statuses[0]}, docker says {code}"
        return ""

    def found(self) -> tuple[bool, ...]:
        """Return of each needle whether the output held it."""
        return tuple(at not in self._needles for at in range(self._count))

    def output(self) -> str:
        """Return the output's head and tail."""
        return self._excerpt.text()

    def seconds(self, now: float) -> float:
        """Return the time from begin to end mark; without marks, from the start until now.

        Never less than 0, since the clock goes back by the little that came before a gap was seen.
        """
        return max((now if self.ended is None else self.ended) - (self.begun or 0.0), 0.0)

    def _take(self, count: int) -> None:
        data, self._rest = self._rest[:count], self._rest[count:]
        if not self.begins or self.statuses:
            return
        self._excerpt.feed(data)
        if self._needles:
            window = self._window + data  # a needle may be cut by the border of two chunks
            for at in [at for at, needle in self._needles.items() if needle in window]:
                del self._needles[at]
            self._window = window[max(len(window) - self._overlap, 0) :]


class Container(NamedTuple):
    """How one `docker run` went.

    `limit` is the time limit that was over ("start", "check" or "end"), "" if none was; `fate` says of
    a container without proof what the engine knew before it was removed: "running", "ended" or "lost".
    """

    name: str
    transcript: Transcript
    words: str  # docker's own, from before the begin mark
    code: int | None
    limit: str
    fate: str
    seconds: float
    disturbed: bool


class BuildLog:
    """The log of one `docker build`, line by line: clean text, the steps, and docker's own last word.

    Without colors, the builder's advertising and the steps of our own labels. `watch` hears each
    line, and whether it begins a step.
    """

    def __init__(self, watch: Callable[[str, bool], None] = lambda *_: None) -> None:
        self.builder = ""  # none, as long as docker has not sent the context
        self.stages = 0
        self._watch = watch
        self._kept = Excerpt(0, KEPT_LOG)
        self._rest = {"stdout": b"", "stderr": b""}  # a line that has not ended yet
        # Of each step, by BuildKit's number or "": number, of how many, title, and its last lines.
        self._steps: dict[str, tuple[str, int, str, collections.deque[str]]] = {}
        self._step = ""  # under way; with BuildKit, where several are, the last to fail
        self._has_failed = False  # a step of BuildKit's
        self._hidden = False  # a step of our own labels is under way
        # What docker says on stderr: its last lines, how many there were, and how many begin a reason.
        self._said: collections.deque[str] = collections.deque(maxlen=100)
        self._said_count = self._reasons = 0

    def feed(self, stream: str, data: bytes) -> None:
        """Take the next bytes of "stdout" or "stderr", in pieces of any size."""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        if len(rest) > CHUNK:
            lines, rest = [*lines, rest], b""
        self._rest[stream] = rest
        for line in lines:
            self._take(stream, _ESCAPES.sub("", line.decode(errors="replace")).rstrip("\r"))

    def close(self) -> None:
        """Take the lines that have not ended: no more is coming."""
        for stream, rest in self._rest.items():
            if rest:
                self.feed(stream, b"\n")

    def text(self) -> str:
        """Return the log's end."""
        return self._kept.text()

    @property
    def last_word(self) -> str:
        """Docker's own reason for a failure; names that it tells may have several lines."""
        first = len(self._said) - 1
        if self.builder == "legacy":  # whose stderr holds nothing else
            first = 0
        elif self.builder == "buildkit":
            starts = (at + line.startswith("---") for at, line in enumerate(self._said) if _FAILS.match(line))
            first = max((at for at in starts if at <= first), default=first)
        word = " ".join(list(self._said)[first:]) if self._said else "no output"
        return re.sub(r"^((ERROR|Error): )?(failed to build: )?", "", word)

    def is_cut(self) -> bool:
        """Whether docker says that its connection was cut, and nothing before that."""
        earlier = self._said_count - 1 if self.builder == "legacy" else 0
        if self.builder == "buildkit":
            earlier = self._reasons - bool(self._said and _FAILS.match(self._said[-1]))
        return not earlier and bool(SAYS_CUT.search(self.last_word))

    def step(self) -> tuple[str, int, str, Iterable[str]]:
        """Return number, of how many, title ("" for none) and last lines of the step that failed."""
        return self._steps.get(self._step, ("", 0, "", ()))

    def without_quotes(self) -> str:
        """Return docker's last word without what it quotes, which may be the Dockerfile's text."""
        return re.sub(r'"(?:[^"\\]|\\.)*"', '""', self.last_word)

    def message(self, context: str) -> str:
        """Return what a person would quote: the step, its exit code, and why; of a COPY where it looks."""
        number, of, title, lines = self.step()
        word = re.sub("failed to solve(: | with frontend [^ ]+: )", "", self.last_word)
        failed = SAYS_RUN_FAILED.search(self.last_word)
        if failed:
            reason = shown(telling_line("\n".join(lines)), 160) or "no output"
            word = f"exit code {failed['code']}: {reason}"
        elif re.match("(COPY|ADD) (?!.*--from=)", title) and SAYS_NO_SOURCE.search(word):
            word += f". The build context was {shown(context)}; name another with --context DIR"
        title = shown(" ".join(title.split()), 70)
        where = f"step {number} of {of} ({title}): " if number else f"{title}: " if title else ""
        return f"{where}{shown(word, 500)}"

    def _take(self, stream: str, line: str) -> None:
        if _ADVERTISING.match(line) or (not self.builder and not line.strip()):
            return
        if not self._steps:  # docker sends a context to podman's engine in the words of the legacy builder
            heads = (name for name, (first, _) in BUILDERS.items() if first.match(line))
            self.builder = next(heads, self.builder)
        if self.builder == "legacy":
            line = line.rpartition("\r")[2]  # of a progress that overwrites itself
        # The legacy builder hands on what a RUN prints as stdout; with the others all is on stderr.
        if stream == "stderr" and not _NO_REASON.match(line):
            self._said.append(line.strip())
            self._said_count += 1
            self._reasons += bool(_FAILS.match(line))
        step = BUILDERS[self.builder][1].match(line) if self.builder else None
        if step:
            self._begin_step(step)
            if step["of"]:
                line = f"{line[: step.start('of')]}{self._of(step)}{line[step.end('of') :]}"
        elif self.builder == "buildkit":
            self._take_of_buildkit(line)
        elif self._steps and not _OF_THE_BUILDER.match(line) and not SAYS_RUN_FAILED.search(line):
            self._steps[""][3].append(line[:500])
        if not (self._hidden and (step or _OF_THE_BUILDER.match(line))):
            self._kept.feed(f"{line}\n".encode())
            self._watch(line, bool(step))

    def _begin_step(self, step: Any) -> None:
        vertex = step.groupdict().get("vertex", "")
        if vertex and vertex in self._steps:  # BuildKit repeats the title of a step that goes on
            return
        self.stages += step["title"].startswith("FROM ")
        self._hidden = self.builder in _OWN_STEPS and f"LABEL {LABEL}" in step["title"].replace('"', "")
        if not self._hidden:
            last_lines: collections.deque[str] = collections.deque(maxlen=100)
            self._steps[vertex] = (step["n"] or "", self._of(step), step["title"], last_lines)
            self._step = self._step if self._has_failed else vertex

    def _of(self, step: Any) -> int:
        """Return the number of steps, less those of our labels."""
        of = int(step["of"] or 0)
        return max(of - _OWN_STEPS.get(self.builder, 0), int(step["n"] or 0))

    def _take_of_buildkit(self, line: str) -> None:
        """Tell the lines of steps apart: `#7 0.512 text`, `#7 ERROR: text`."""
        parts = re.match(r"#(\d+) (?:(ERROR:) |\d+\.\d+ )?(.*)", line)
        if parts and parts[2]:
            self._step, self._has_failed = parts[1], True  # others may yet be told of for the first time
        elif parts and parts[1] in self._steps:
            self._steps[parts[1]][3].append(parts[3][:500])


class Build(NamedTuple):
    """What came of `docker build`: `kind` is "" or that of the report's error; `seconds` it took."""

    kind: str
    message: str
    log: str  # its end
    builder: str
    seconds: float


class Image(NamedTuple):
    """What `docker image inspect` says of the image that was built."""

    id: str
    size: int  # bytes
    user: str
    workdir: str
    environment: tuple[str, ...]
    layers: tuple[str, ...]


class Answer(NamedTuple):
    """What a docker command that only asks or removes had to say."""

    code: int
    stdout: str
    stderr: str


class Engine:
    """The docker command line, and what all runs have on its engine: containers, images, leftovers.

    Nothing is taken for ours by its labels alone, since images can forge them: a container must
    have a name of ours too, and an image a tag in our own repository.
    """

    def __init__(self, program: str, where: str | None, stop: Stop) -> None:
        self.program = program
        self.environment = {**os.environ, **_ENVIRONMENT}
        self.client = self.server = self.platform = ""  # versions, once it has answered
        self.is_podman = False  # which may be its own engine, and then names it once
        self.warnings: list[str] = []  # a short name and a sentence each, for the report
        self._context = ""  # of docker, where one was asked for
        self._stop = stop
        self._born = ""  # when it was started, as far as it tells
        self._clock_offset = 0.0  # seconds of its clock less ours
        if where and "://" in where:
            self.environment.update(DOCKER_HOST=where, CONTAINER_HOST=where)  # docker's, podman's
            self.environment.pop("DOCKER_CONTEXT", None)
        elif where:
            self._context = self.environment["DOCKER_CONTEXT"] = where
            self.environment.pop("DOCKER_HOST", None)  # it would win

    def ask(self, *arguments: str, last: bool = False, limit: float | None = None) -> Answer:
        """Run a docker command and return its answer, whatever its exit code.

        Raises EngineError where there is no engine or no answer within `limit` seconds (default
        CALL_LIMIT), and Stopped where somebody asked for the end; the `last` calls, those of
        clean-up, go on until they ask again.
        """
        limit = CALL_LIMIT if limit is None else limit
        stdout, stderr = Excerpt(KEPT_ANSWER, 0), Excerpt(CHUNK, 0)
        deadline = time.monotonic() + limit
        with Process((self.program, *arguments), self.environment) as process:
            for stream, data in process.read():
                (stdout if stream == "stdout" else stderr).feed(data)
                if self._stop.level > int(last):
                    raise Stopped
                if time.monotonic() > deadline + process.stood_still:
                    break
            code = process.wait(max(deadline - time.monotonic(), TICK))
        if code is None:
            raise EngineError(f"docker {arguments[0]} gave no answer within {limit:.0f} s")
        answer = Answer(code, stdout.text(), stderr.text())
        if code != 0 and SAYS_NO_ENGINE.search(answer.stderr) and FROM_THE_ENGINE not in answer.stderr:
            raise _no_engine(answer.stderr)
        return answer

    def warn(self, name: str, text: str) -> None:
        """Note a warning for the report, once; those about rubric and image join it in _report()."""
        warning = f"{name}: {text}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def connect(self, wait: float) -> None:
        """Learn what answers; raise EngineError where nothing does within `wait` seconds."""
        deadline = time.monotonic() + wait
        while True:
            try:
                answer = self.ask("version", "--format", "{{json .}}")
                versions = _json_object(answer.stdout)
                client = versions.get("Client") or {}
                server = versions.get("Server") or client
                if answer.code == 0 and server:
                    break
                raise _no_engine(answer.stderr)
            except EngineError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(TICK)
        self.is_podman = server is client or "BuiltTime" in client
        if self._context and self.is_podman:
            raise UsageError(f"podman knows no context '{shown(self._context)}'; name its engine by a URL")
        self.client, self.server = str(client.get("Version")), str(server.get("Version"))
        self.platform = str(server.get("OsArch") or f"{server.get('Os')}/{server.get('Arch')}")
        self._clock_offset = self._clock() - time.time()
        self._born = "" if self.is_podman else self._bridge_made()  # podman's is the time of asking

    def now(self) -> float:
        """Return the time by the engine's clock, in seconds since 1970."""
        return time.time() + self._clock_offset

    def restarted(self) -> bool | None:
        """Whether this engine was started since we came; None where it does not tell."""
        return self._bridge_made() != self._born if self._born else None

    def is_running(self, name: str) -> bool:
        """Whether the engine has a container and runs it."""
        answer = self.ask("container", "inspect", "--format", "{{.State.Running}}", name)
        return answer.stdout.strip() == "true"

    def has_container(self, name: str) -> bool:
        """Whether the engine has made a container, and not removed it."""
        return self.ask("container", "inspect", "--format", "{{.Name}}", name, last=True).code == 0

    def saw_die(self, name: str, since: float) -> bool:
        """Whether this engine saw a container die in the last `since` seconds, or cannot tell.

        An engine keeps its latest events in memory only (moby, daemon/events), and one that stops
        kills its containers first, which looks like a process that was killed in them.
        """
        span = ("--since", str(int(self.now() - since)), "--until", str(int(self.now()) + 2))
        answer = self.ask("events", *span, "--filter", f"container={name}", "--filter", "event=die")
        return answer.code != 0 or bool(answer.stdout.strip())

    def containers(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the name and labels of each container that a run of ours made."""
        form = "\t".join(["{{.Names}}", *(f'{{{{.Label "{LABEL}{key}"}}}}' for key in _LABELS)])
        answer = self.ask("ps", "--all", "--filter", f"label={LABEL}run", "--format", form, last=True)
        for line in answer.stdout.split("\n"):
            name, *values = line.split("\t")
            labels = dict(zip(_LABELS, values))
            match = CONTAINER_NAME.fullmatch(name)
            if match and match["run"] == labels.get("run"):
                yield name, labels

    def remove(self, kind: str, name: str, limit: float | None = None) -> str:
        """Remove a "container" (with its anonymous volumes) or "image"; return "", or why it is still there.

        What is in use or on its way is tried again for `limit` seconds, default REMOVE_LIMIT.
        """
        options = ("--force", "--volumes") if kind == "container" else ()
        limit = REMOVE_LIMIT if limit is None else limit
        deadline, patience = time.monotonic() + limit, max(limit, CALL_LIMIT)
        while True:
            words = self.ask(kind, "rm", *options, name, last=True, limit=patience).stderr
            answer = self.ask(kind, "inspect", "--format", "{{.Created}}", name, last=True)
            if answer.code != 0 and SAYS_GONE.search(answer.stderr):
                return ""
            if time.monotonic() >= deadline:
                return shown(last_line(words) or f"it is still there after {kind} rm")
            time.sleep(TICK / 2)

    def sweep(self) -> None:
        """Remove the leftovers of killed runs (by name, tag and _is_dead()); one try each, and a warning."""
        for kind, leftovers in (("container", self.containers()), ("image", self._images())):
            for name, labels in leftovers:
                if not _is_dead(labels, self.now()):
                    continue
                try:
                    words = self.remove(kind, name, limit=0)
                except EngineError as error:
                    words = str(error)
                if words and "in progress" not in words:
                    self.warn("leftover", f"{kind} {name} of a killed run stays: {words}")

    def _images(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the tag and labels of each image that a run of ours made and did not keep."""
        answer = self.ask("image", "ls", "--format", "{{.Tag}}", REPOSITORY, last=True)
        form = "\n".join(f'{{{{index .Config.Labels "{LABEL}{key}"}}}}' for key in _LABELS)
        for part in filter(IMAGE_TAG.fullmatch, answer.stdout.split()):
            tag = f"{REPOSITORY}:{part}"
            labels = self.ask("image", "inspect", "--format", form, tag, last=True).stdout
            yield tag, dict(zip(_LABELS, labels.split("\n")))

    def _clock(self) -> float:
        """Return the engine's time, in seconds since 1970; ours where it does not tell."""
        text = self.ask("info", "--format", "{{.SystemTime}}").stdout
        parts = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", text)
        if not parts:
            return time.time()
        zone = "+00:00" if parts[2] == "Z" else parts[2]
        return datetime.datetime.fromisoformat(parts[1] + zone).timestamp()

    def _bridge_made(self) -> str:
        """Return when the default bridge was made, "" where there is none: dockerd does so at every start."""
        answer = self.ask("network", "inspect", "bridge", "--format", "{{.Created}}")
        return answer.stdout.strip() if answer.code == 0 else ""


_LABELS = ("run", "owner", "expires")  # after LABEL: whose it is, and when it may be taken for dead


class Docker:
    """One run: its image, its containers, and their end.

    Entering the `with` block finds the engine and removes leftovers of dead runs; leaving it
    removes all that was made. What could not be removed is then named in `left`. `lifetime` is
    how long, in seconds, the run can take.
    """

    def __init__(
        self,
        engine: Engine,
        stop: Stop,
        *,
        lifetime: float = 0.0,
        wait: float = 0.0,
        build_options: Sequence[str] = (),
        run_options: Sequence[str] = (),
    ) -> None:
        self.engine = engine
        self.image: Image | None = None  # once it is built
        self.left: list[str] = []  # what could not be removed, and why
        self._stop = stop
        self._lifetime, self._wait = lifetime, wait
        self._build_options, self._run_options = tuple(build_options), tuple(run_options)
        self._run_id = os.urandom(6).hex()
        self.tag = f"{REPOSITORY}:{self._run_id}"
        self._numbers = itertools.count(1)  # of containers and control images
        self._labels: tuple[str, ...] = ()  # the words that put them on what is made
        self._images: set[str] = set()  # tags that may be there, to be removed
        self._live: set[str] = set()  # containers that docker was told to make, not known to be gone
        self._cannot: tuple[str, ...] = ()  # our default run options that this engine cannot have
        exclusive = _EXCLUSIVE & RUN_FLAGS.set_by(run_options)
        exclusive |= {word for word in run_options if _EXCLUSIVE_NETWORK.match(word)}
        # One container at a time, or as many as the runner likes.
        self._exclusive_lock: Any = threading.Lock() if exclusive else contextlib.nullcontext()

    def __enter__(self) -> Docker:
        """Raise EngineError where there is no docker program or no engine, UsageError for bad run options."""
        self.engine.connect(self._wait)
        if self._run_options:  # --help parses them, and does nothing
            answer = self.engine.ask("run", *self._run_options, "--help")
            if answer.code != 0:
                words = shown(" ".join(answer.stderr.split()), 300)
                raise UsageError(f"docker refuses the run options: {words}")
        expires = min(self.engine.now() + self._lifetime + MARGIN, 1e12)
        values = zip(_LABELS, (self._run_id, _owner(), str(int(expires))))
        self._labels = tuple(word for key, value in values for word in ("--label", f"{LABEL}{key}={value}"))
        self.engine.sweep()
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove this run's containers, then its images; docker may be away for a while."""
        deadline = time.monotonic() + RETURN_LIMIT
        reason = "clean-up was interrupted"
        while self._stop.level < 2:  # noqa: PLR2004 - see Stop
            try:
                self.left = self._remove_all()
            except Stopped:
                break
            except EngineError as error:
                reason = str(error)
                if time.monotonic() > deadline:
                    break
                time.sleep(TICK)
            else:
                return
        self.left = [f"container {name} ({reason})" for name in sorted(self._live)]
        self.left += [f"image {tag} ({reason})" for tag in sorted(self._images)]

    def _remove_all(self) -> list[str]:
        deadline = time.monotonic() + RETURN_LIMIT  # for what docker is still making
        while True:
            left = []
            ours = [name for name, labels in self.engine.containers() if labels["run"] == self._run_id]
            for name in ours:
                words = self.engine.remove("container", name)
                left += [f"container {name} ({words})"] if words else []
                self._live.discard(name)
            if not self._live or time.monotonic() > deadline or self._stop.level > 1:
                break
            time.sleep(TICK)
        left += [f"container {name} (docker may still be making it)" for name in sorted(self._live)]
        for tag in sorted(self._images):
            words = self.engine.remove("image", tag)
            left += [f"image {tag} ({words})"] if words else []
        return left

    def _new_name(self) -> str:
        return f"{REPOSITORY}-{self._run_id}-{next(self._numbers)}"

    def _remove(self, kind: str, name: str) -> None:
        """Remove a container or image, and forget it if it is gone; what stays is left to the end."""
        if not self.engine.remove(kind, name):
            (self._live if kind == "container" else self._images).discard(name)

    # The image

    def build(self, dockerfile: str, context: str, limit: float, watch: Callable[[str, bool], None]) -> Build:
        """Build the image; `watch` hears each line of the log, `limit` is in seconds.

        It is tried again where docker speaks of a registry or its connection, and where the clean-up
        of another run of a Dockerfile that begins alike took a layer from under it, as can happen
        with the legacy builder and podman's. Raises nothing for what goes wrong: it is in the
        Build's `kind` and `message`.
        """
        started = time.monotonic()
        log, kind, message, doubt = BuildLog(watch), "", "built", ""
        try:
            for attempt in range(BUILD_ATTEMPTS):
                log = BuildLog(watch)
                rest = limit - (time.monotonic() - started)
                code = self._build_once(self.tag, dockerfile, context, self._build_options, rest, log)
                if code and SAYS_LOST_LAYER.search(log.last_word) and attempt < BUILD_ATTEMPTS - 1:
                    continue
                if code != 0:
                    self._blame_engine_or_user(code, log, context)
                earlier, doubt = doubt, self._registry_or_connection(code, log)
                if code is None and earlier == "registry":  # which may have taken the time
                    doubt = earlier
                if not doubt or doubt == earlier:  # what happened once may pass
                    break
            if doubt:
                self._blame_registry_or_connection(doubt, log)
            if code is None:
                kind, message = "build_timeout", f"the build took over {limit:g} s and was stopped"
            elif code != 0:
                kind, message = "build", log.message(context)
            else:
                self.image = self._inspect_image()
                if self.image is None:
                    raise EngineError(  # noqa: TRY301 - caught below as any other
                        "docker build succeeded, but the engine has no such image: the builder did not "
                        "load it (a docker-container builder needs `docker buildx use default`)"
                    )
        except Stopped:
            kind, message = "interrupted", "the build was interrupted"
        except EngineError as error:
            kind, message = error.kind, str(error)
        if log.builder in _OWN_STEPS and (kind or log.stages > 1):
            self.engine.warn(
                "cached-layers",
                f"the {log.builder} builder's cache may hold new images without a name; "
                "`docker image prune` removes all such images, best while nothing is built",
            )
        return Build(kind, message, log.text(), log.builder or "unknown", time.monotonic() - started)

    def keep(self, name: str) -> str:
        """Give the image a second tag, with `name` in it, that is never removed; return the tag."""
        part = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "image"
        tag = f"{REPOSITORY}:{part}-{self._run_id}-kept"
        answer = self.engine.ask("image", "tag", self.tag, tag, last=True)
        if answer.code != 0:
            raise EngineError(f"the image could not be kept: {shown(last_line(answer.stderr))}")
        return tag

    def _build_once(
        self, tag: str, dockerfile: str, context: str, options: Sequence[str], limit: float, log: BuildLog
    ) -> int | None:
        """Fill `log` and return the exit code, None where the build took over `limit` seconds."""
        self._images.add(tag)
        ours = ("--tag", tag, "--file", os.path.abspath(dockerfile), os.path.abspath(context))
        words = ("build", *BUILD_FLAGS.with_defaults(options), *self._labels, *ours)
        prolonged = False
        with Process((self.engine.program, *words), self.engine.environment) as process:
            try:
                for stream, data in process.read():
                    if stream:
                        log.feed(stream, data)
                    if self._stop.level:
                        raise Stopped
                    if process.clock() > limit + (GRACE if stream else 0.0):
                        asked = time.monotonic()
                        self._blame_lost_engine("during the build")
                        if prolonged or time.monotonic() - asked < GRACE:
                            return None
                        # It stood still, and the build with it.
                        prolonged, limit = True, process.clock() + START_LIMIT
                code = process.wait(END_LIMIT)
            finally:
                log.close()
        if code is None:
            raise EngineError(f"docker build closed its output, but did not exit for {END_LIMIT:.0f} s")
        return code

    def _inspect_image(self) -> Image | None:
        """Return what the engine says of our image, None where it has none of this run."""
        fields = ["ID" if self.engine.is_podman else "Id", "Size", "RootFS.Layers"]
        fields += ["Config.User", "Config.WorkingDir", "Config.Env"]  # of any length: what is cut is left out
        form = f'{{{{index .Config.Labels "{LABEL}run"}}}}\n'  # not all labels: they can be many
        form += "\n".join(f"{{{{json .{field}}}}}" for field in fields)
        answer = self.engine.ask("image", "inspect", "--format", form, self.tag)
        run_id, *lines = answer.stdout.rstrip("\n").split("\n")  # nowhere else: text may hold U+0085
        if answer.code != 0 or run_id != self._run_id:
            return None
        values = [*map(_json, lines), *[None] * len(fields)]
        identity, size, layers, user, workdir, environment = values[: len(fields)]
        return Image(
            identity, int(size or 0), user or "", workdir or "", tuple(environment or ()), tuple(layers or ())
        )

    # Engine or Dockerfile? Asked only after something failed.

    def control(self, build_options: Sequence[str] | None = None, run_options: Sequence[str] = ()) -> str:
        """Try the engine with the control; return "" where it works, else what it cannot, in docker's words.

        The control is an image FROM scratch with fresh content, and a container of it whose program is not
        there: an engine that works builds the one, and names the other's path in its refusal. With
        `build_options` that is a RUN, since some options fail only there.
        """
        absent, name = f"/{os.urandom(16).hex()}", self._new_name()
        with_run = bool(build_options) and not self.engine.is_podman  # whose refusal does not name the path
        dockerfile = "FROM scratch\nCOPY content /\n" + (f'RUN ["{absent}"]\n' if with_run else "")
        tag, code, log = self._try_build(dockerfile, build_options or ())
        try:
            if with_run and f'exec: "{absent}"' in log.text():
                return ""
            if code != 0 and not log.builder and SAYS_NO_FOLDER.search(log.last_word):
                return ""  # nothing is known of the engine
            if with_run or code != 0:
                return f"it cannot build a minimal image: {shown(log.last_word, 300)}"
            self._live.add(name)
            options = RUN_FLAGS.with_defaults(run_options, omit=self._cannot)
            # Detached: docker, of podman's engine, tells of an attached one only that it cannot attach.
            words = ("run", "--detach", "--name", name, "--entrypoint", absent, *options, *self._labels, tag)
            stderr = self.engine.ask(*words, limit=START_LIMIT).stderr
            if absent not in stderr:
                return (
                    f"it cannot start a container of a minimal image: {shown(_words_of_docker(stderr), 300)}"
                )
        finally:
            if name in self._live:
                self._remove("container", name)
            self._remove("image", tag)
        return ""

    def _blame_engine_or_user(self, code: int | None, log: BuildLog, context: str) -> None:
        """Raise EngineError for an engine fault, UsageError for the user's: else the Dockerfile failed."""
        if code is not None and code < 0:
            raise EngineError(f"the docker program was killed during the build (signal {-code})")
        self._blame_lost_engine("during the build")
        options = BUILD_FLAGS.without(self._build_options, ["target"])
        if not log.builder:  # does docker take the context with a Dockerfile of ours?
            ours = f"FROM scratch\nLABEL content={os.urandom(16).hex()}\n"
            # Without a target, which podman looks for at once; but one without its value breaks all.
            words = tuple(word for word in self._build_options if not word.startswith("--target="))
            tag, _, tried = self._try_build(ours, words, context)
            self._remove("image", tag)
            if not tried.builder:
                tag, _, without = self._try_build(ours, words)
                self._remove("image", tag)
                what = REFUSED_CONTEXT if without.builder else "docker refuses the build options or context"
                raise UsageError(f"{what}: {shown(tried.last_word, 300)}")
        why = self.control()
        if why:
            raise EngineError(f"the docker engine fails: {why}")
        if options and self.control(build_options=options):
            raise UsageError(f"docker refuses the build options: {shown(log.last_word, 300)}")

    def _blame_lost_engine(self, when: str) -> None:
        """Raise EngineError where the engine does not answer, or was restarted since we came."""
        try:
            answers = self.engine.ask("version", "--format", "{{.Server.Version}}").code == 0
        except EngineError:
            answers = False
        if not answers:
            raise EngineError(f"the docker engine was lost {when}. {_ENGINE_HINT}")
        if self.engine.restarted():
            raise EngineError(f"the docker engine was restarted {when}")

    def _try_build(
        self, dockerfile: str, options: Sequence[str], context: str = ""
    ) -> tuple[str, int | None, BuildLog]:
        """Build a Dockerfile of ours, beside which lies fresh `content`; return tag, exit code and log."""
        import tempfile

        tag, log = f"{self.tag}-{next(self._numbers)}", BuildLog()
        with contextlib.ExitStack() as stack:
            try:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                path = os.path.join(folder, "Dockerfile")
                with open(path, "wb") as file:
                    file.write(dockerfile.encode())
                with open(os.path.join(folder, "content"), "wb") as file:
                    file.write(os.urandom(CONTROL_SIZE))
            except OSError as error:
                raise EngineError(f"no temporary folder to try the engine with: {error.strerror}") from None
            return tag, self._build_once(tag, path, context or folder, options, START_LIMIT, log), log

    def _registry_or_connection(self, code: int | None, log: BuildLog) -> str:
        """Return "registry" or "connection" where docker itself speaks of trouble there, else ""."""
        if not code or SAYS_RUN_FAILED.search(log.last_word) or SAYS_BAD_STEP.search(log.last_word):
            return ""
        if log.is_cut():
            return "connection"
        _, _, title, _ = log.step()
        if title.startswith("RUN "):  # which asks no registry, but may tell a USER of any name
            return ""
        return "registry" if SAYS_REGISTRY.search(log.without_quotes()) else ""

    def _blame_registry_or_connection(self, why: str, log: BuildLog) -> None:
        """Raise EngineError where Docker Hub is out of reach, too, or the connection is cut every time."""
        if why == "connection":
            raise EngineError(
                f"the connection to the docker engine was cut twice: {shown(log.last_word, 300)}"
            )
        name = f"docker.io/library/dockerfile-evaluator-asks-{os.urandom(6).hex()}:latest"
        words = self.engine.ask("pull", name, limit=PULL_LIMIT).stderr
        if not SAYS_NO_SUCH_IMAGE.search(words) or SAYS_REGISTRY.search(words.replace(name, "")):
            raise EngineError(f"Docker Hub is out of reach: {shown(last_line(words), 300)}")

    # The containers

    def run(self, script: Script, timeout: float, *, network: bool) -> Run:
        """Run a script in a new container; `timeout`, in seconds, counts from its begin mark.

        Raises UsageError where docker refuses the user's run options. What else goes wrong is in
        the Run's `ending` and `why`.
        """
        try:
            with self._exclusive_lock:
                run = self._judge(self._container(script, timeout, network=network))
                return run or self._why_not_begun(script, timeout, network=network)
        except UsageError:
            raise
        except EngineError as error:
            return Run(ERROR, str(error))
        except Stopped:
            return Run(NOT_RUN, "the evaluation was interrupted")

    def _container(
        self,
        script: Script,
        timeout: float,
        *,
        network: bool,
        options: Sequence[str] | None = None,
        keep: bool = False,
    ) -> Container:
        """Start one container, read it to its end or a time limit, and see that it is gone, unless `keep`."""
        if self._stop.level:
            raise Stopped
        name, nonce = self._new_name(), os.urandom(16).hex()
        options = self._run_options if options is None else options
        command = self._run_command(name, script, nonce, options, network=network, keep=keep)
        transcript, words = Transcript(script, nonce, timeout), Excerpt(CHUNK, 0)
        over, fate, in_flight = "", "", False
        try:
            with Process(command, self.engine.environment) as process:
                self._live.add(name)
                # 1. Read it to its end, or until a time limit is over and nothing more is in the pipe.
                for stream, data in process.read():
                    now = process.clock()
                    if stream == "stdout":
                        transcript.feed(data, now)
                    elif not transcript.begins:
                        words.feed(data)
                    limit = transcript.limit_over(now - (GRACE if stream else 0.0))
                    over = "stop" if self._stop.level else limit
                    if over == "check" and not self._runs_on(name):
                        transcript.expect_end(now)
                        over = ""
                    if over:
                        break
                code = None if over else process.wait(END_LIMIT)
                over = over or ("end" if code is None else "")
                transcript.close()
                seconds, proven = transcript.seconds(process.clock()), not transcript.amiss(code)
                # 2. Without proof, ask how it ended while the engine still knows it.
                if not proven and over not in ("stop", "check"):
                    fate = self._fate(name, seconds)
                # 3. End what did not end by itself.
                if code is None:
                    in_flight = self._kill_container(process, name, begun=bool(transcript.begins))
                elif not proven and not keep:
                    self.engine.remove("container", name)
            killed_at_once = code is not None and code < 0 and not transcript.begins
            if not (keep or in_flight or killed_at_once):
                self._live.discard(name)
        except EngineError:
            with contextlib.suppress(EngineError):  # what it runs would disturb the next test
                if not self.engine.remove("container", name, limit=0) and transcript.begins:
                    self._live.discard(name)
            raise
        if over == "stop":
            raise Stopped
        return Container(name, transcript, words.text(), code, over, fate, seconds, process.disturbed)

    def _run_command(
        self, name: str, script: Script, nonce: str, options: Sequence[str], *, network: bool, keep: bool
    ) -> tuple[str | bytes, ...]:
        """Return the command, in which a `--label` of ours follows the user's own options.

        An option that lacks its value swallows that word, and docker then finds no image where it looks
        for one, before anything is made.
        """
        extra = () if network else (("network", "--network=none"),)
        words = RUN_FLAGS.with_defaults(options, extra, omit=self._cannot)
        ours = ("--name", name, "--entrypoint", "/bin/sh", *(() if keep else ("--rm",)))
        shell = ("-c", _WRAPPER.format(text=script.text), "/bin/sh", nonce)
        arguments = (argument.encode() for argument in script.arguments)  # UTF-8 whatever the locale
        return (self.engine.program, "run", *ours, *words, *self._labels, self.tag, *shell, *arguments)

    def _kill_container(self, process: Process, name: str, *, begun: bool) -> bool:
        """Kill a container and the command that reads it; return whether it may still be there, or come.

        What is still being made cannot be removed, so the docker command is kept until the container
        exists. It is killed before `rm --force` kills the container, since docker cannot remove what it
        still prints from.
        """
        deadline = time.monotonic() + CREATE_LIMIT
        made = begun
        while not made and process.wait(0) is None and time.monotonic() < deadline:
            made = self.engine.has_container(name)
            time.sleep(0 if made else TICK)
        in_flight = not made and process.wait(0) is None
        process.kill()
        try:
            self.engine.remove("container", name)
        except EngineError:
            if not begun:
                raise
            return True  # what it was killed for stands; the end of the run removes it
        return in_flight

    def _runs_on(self, name: str) -> bool:
        """Whether a container whose time limit is over runs; raise EngineError if that takes too long."""
        started = time.monotonic()
        is_running = self.engine.is_running(name)
        waited = time.monotonic() - started
        if waited > STANDSTILL:
            raise EngineError(
                f"the docker engine did not answer for {waited:.0f} s when the time limit was over"
            )
        return is_running

    def _fate(self, name: str, seconds: float) -> str:
        """Return what became of a container: "running", "lost" with an engine that restarted, or "ended"."""
        if self.engine.is_running(name):
            return "running"
        lost = self.engine.restarted()
        if lost is None:
            lost = not self.engine.saw_die(name, seconds + START_LIMIT)
        return "lost" if lost else "ended"

    def _judge(self, container: Container) -> Run | None:
        """Say what became of a container that began, or took too long to; None where it did neither."""
        transcript, limit = container.transcript, container.limit
        if not (transcript.begins or limit):
            return None
        output, seconds, disturbed = transcript.output(), container.seconds, container.disturbed
        if limit == "check":
            why = f"timed out: no end within {transcript.timeout:g} s; the container was killed"
            return Run(TIMEOUT, why, output=output, seconds=seconds, disturbed=disturbed)
        amiss = transcript.amiss(container.code)
        if not amiss:
            found = transcript.found()
            return Run(FINISHED, "", container.code, found, output, seconds, disturbed)
        if limit:
            seconds_allowed = START_LIMIT if limit == "start" else END_LIMIT
            if container.fate == "running":
                what = "did not begin the check" if limit == "start" else "went on after its end"
                why = f"the image's /bin/sh was started, but {what} for {seconds_allowed:.0f} s"
                return Run(FAILED, why, disturbed=disturbed)
            raise EngineError(f"docker did not {limit} the container within {seconds_allowed:.0f} s")
        if container.fate == "lost":
            raise EngineError("the docker engine was restarted during the test")
        if container.fate == "running" or (container.code or 0) < 0:
            raise EngineError(
                "the connection to the docker engine was lost during the test, or its program killed"
            )
        why = f"no proof that the check ran to its end: {amiss} (container's exit code {container.code})"
        # The connection may have been cut between the mark and docker's word on it.
        disturbed = disturbed or container.code == _DOCKER_FAILED
        return Run(FAILED, why, output=output, seconds=seconds, disturbed=disturbed)

    def _why_not_begun(self, script: Script, timeout: float, *, network: bool) -> Run:
        """Find out why a container gave no begin mark: by chance, by image, by option or by engine.

        The second one is kept when it ends, since only the engine can say whether it ever started:
        what stood on stderr may be an image's forgery.
        """
        # 1. By chance: it begins now.
        container = self._container(script, timeout, network=network, keep=True)
        try:
            run = self._judge(container)
            if run:
                return run
            answer = self.engine.ask("container", "inspect", "--format", "{{json .State}}", container.name)
            state = _json_object(answer.stdout)
        finally:
            self._remove("container", container.name)
        said = str(state.get("Error") or "") or _words_of_docker(container.words)
        words = shown(" ".join(said.split()), 400)
        # 2. By the image: its /bin/sh started and did not do as told, or is none.
        if container.fate == "running" or (container.code or 0) < 0:
            raise EngineError("the connection to the docker engine was lost, or its program killed")
        if not str(state.get("StartedAt") or "0001").startswith("0001"):
            if container.fate == "lost":
                raise EngineError("the docker engine was restarted during the test")
            why = f"the image's /bin/sh ended without running the check (exit code {container.code})"
            return Run(FAILED, why, seconds=container.seconds)
        if container.code in (126, 127) and "/bin/sh" in words:
            return Run(FAILED, f"the image has no usable /bin/sh: {words}")
        # 3. By a limit of ours that this engine cannot set: do without.
        given = RUN_FLAGS.set_by(self._run_options)
        if SAYS_NO_LIMITS.search(words) and "pids-limit" not in given:
            self._cannot = ("pids-limit",)
            self.engine.warn("no-pids-limit", "--pids-limit is left out, since the engine can set none")
            run = self._judge(self._container(script, timeout, network=network))
            if run:
                return run
        # 4. By the engine.
        self._blame_lost_engine("during the test")
        if self._inspect_image() is None:
            raise EngineError("the image that was built is gone from the engine")
        # 5. By USER or WORKDIR: it starts without them, and not with them.
        options = RUN_FLAGS.without(self._run_options, _OF_THE_IMAGE)
        if self._starts((*options, "--user=0", "--workdir=/"), network=network):
            elsewhere = () if given & {"workdir", "w"} else ("--workdir=/",)
            without = options != self._run_options and self._starts(options, network=network)
            if without and not self._starts((*self._run_options, *elsewhere), network=network):
                raise UsageError(f"docker cannot use the run options with this image: {words}")
            run = self._judge(self._container(script, timeout, network=network))
            if run:
                return run
            if self.image and not (self.image.user or self.image.workdir):
                raise EngineError(f"docker could not start the container: {words}")
            return Run(FAILED, f"the image's USER or WORKDIR cannot be used: {words}")
        # 6. The control decides: by the engine, by an option, or by the image.
        why = self.control()
        if why:
            raise EngineError(f"the docker engine fails: {why}")
        if options and self.control(run_options=options):
            raise UsageError(f"docker refuses the run options: {words}")
        return Run(FAILED, f"the image cannot be started: {words}")

    def _starts(self, options: Sequence[str], *, network: bool) -> bool:
        """Whether a container of the image begins with these run options instead of the user's."""
        probe = self._container(Script(":"), START_LIMIT, network=network, options=options)
        return probe.transcript.begins > 0


def _no_engine(words: str) -> EngineError:
    """Return the error that says that no engine answers, docker's own words, and what to do."""
    return EngineError(f"no docker engine answers ({shown(last_line(words), 300)}). {_ENGINE_HINT}")


def _words_of_docker(stderr: str) -> str:
    """Return docker's own lines of what stood on stderr before a container began, else all of it."""
    lines = [line for line in stderr.splitlines() if line.startswith(("docker:", "Error:"))]
    return " ".join(lines) or last_line(stderr)


def _json(text: str) -> Any:
    """Return the JSON value that a docker command printed, None where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _json_object(text: str) -> dict[str, Any]:
    value = _json(text)
    return value if isinstance(value, dict) else {}


def _owner() -> str:
    """Name this process so that a later one on the same host can tell whether it still lives."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown"
    return f"{boot}/{space}/{os.getpid()}/{_start_time(os.getpid())}"


def _start_time(pid: int) -> str:
    """Return when a process started, in ticks since boot, "ended", or "" where that is not told (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        fields = []
    if fields:
        return "ended" if fields[0] in ("Z", "X") else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "ended"
    except (PermissionError, OverflowError):
        pass
    return ""  # it only hides (proc(5), hidepid)


def _is_dead(labels: Mapping[str, str], clock: float) -> bool:
    """Tell whether the run with these labels is over, so that they are on a leftover.

    By its process on the same host, else by the engine's clock.
    """
    theirs, ours = labels.get("owner", "").split("/"), _owner().split("/")
    if len(theirs) == len(ours) > 1 and theirs[:2] == ours[:2] and re.fullmatch("[0-9]{1,10}", theirs[2]):
        start_time = _start_time(int(theirs[2]))
        if start_time:
            return start_time != theirs[3]
    expires = labels.get("expires", "")
    return bool(re.fullmatch("[0-9]{1,15}", expires)) and int(expires) < clock


# ---------------------------------------------------------------------------------------------
# Room 5: Report
# ---------------------------------------------------------------------------------------------

Report = Dict[str, Any]  # what rubrics/schema/report.schema.json describes, keys in that order
Row = Dict[str, Any]  # of its `test_results`
FAILURES = (FAILED, TIMEOUT, UNRESOLVABLE, ERROR)  # statuses that say more than that a test did not run


def result_row(test: Test, verdict: Verdict, run: Run, *, retried: bool = False) -> Row:
    """Return the report's row of one test."""
    passed = verdict.status == PASSED
    command = not test.check.looks_only
    did_run = verdict.status in (PASSED, FAILED, TIMEOUT)
    return {
        "test_id": test.id,
        "test_type": test.type,
        "passed": passed,
        "score": test.score if passed else 0,
        "message": verdict.message,
        "execution_time": round(run.seconds, 3),
        "max_score": test.score,
        "status": verdict.status,
        "exit_code": run.status if command else None,
        "timeout": test.timeout,
        "output": run.output if command and run.output and not passed else None,
        "category": test.category,
        "params": dict(test.params),
        "drawn": dict(test.check.draw.numbers) if test.check.draw and did_run else None,
        "retried": retried,
    }


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """Add up the rows of a report: counts, scores of the whole rubric, times in seconds."""
    summary = _totals(rows)
    summary["success_rate"] = summary["passed_tests"] / len(rows) if rows else 0.0
    summary["total_execution_time"] = round(sum(row["execution_time"] for row in rows), 3)
    groups: dict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        if row["category"] is not None:
            groups[row["category"]].append(row)
    if groups:
        summary["by_category"] = {name: _totals(group) for name, group in groups.items()}
    return summary


def _totals(rows: Sequence[Row]) -> dict[str, Any]:
    passed = sum(row["passed"] for row in rows)
    return {
        "total_tests": len(rows),
        "passed_tests": passed,
        "failed_tests": len(rows) - passed,
        "total_score": add_scores(row["score"] for row in rows),
        "max_score": add_scores(row["max_score"] for row in rows),
    }


def add_scores(numbers: Iterable[Number]) -> Number:
    """Add scores: whole numbers stay whole, and 0.1 + 0.2 is 0.3."""
    total = sum(numbers)
    return total if isinstance(total, int) else round(total, 9)


def all_passed(report: Report) -> bool:
    """Whether all tests passed and nothing else went wrong."""
    return report["error"] is None and report["summary"]["failed_tests"] == 0


def score_line(summary: Mapping[str, Any]) -> str:
    """Return the counts and the score in one line."""
    share = f" ({summary['total_score'] / summary['max_score']:.0%})" if summary["max_score"] else ""
    passed = f"{summary['passed_tests']} of {summary['total_tests']} tests passed"
    return f"{passed}, score {summary['total_score']:g} of {summary['max_score']:g}{share}"


def as_json(report: Report) -> str:
    """Return the report as strict JSON."""
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


# How a CI system counts a status. What was not run after a failed build is no success of anybody's.
_JUNIT_KINDS = {
    FAILED: "failure",
    TIMEOUT: "failure",
    SKIPPED: "skipped",
    UNRESOLVABLE: "error",
    ERROR: "error",
    NOT_RUN: "error",
}


def as_junit(report: Report) -> str:
    """Return the report as JUnit XML, one testcase per test."""
    from xml.etree import ElementTree

    rows = report["test_results"]
    kinds = collections.Counter(_JUNIT_KINDS.get(row["status"]) for row in rows)
    counts = {
        "tests": len(rows),
        "failures": kinds["failure"],
        "errors": kinds["error"],
        "skipped": kinds["skipped"],
    }
    attributes = {
        "name": _xml(f"{report['repo']}: {report['dockerfile']}"),
        **{key: str(value) for key, value in counts.items()},
        "time": f"{report['summary']['total_execution_time']:.3f}",
        "timestamp": report["environment"]["started_at"].rstrip("Z"),
    }
    suite = ElementTree.Element("testsuite", attributes)
    for row in rows:
        names = {"classname": _xml(f"{report['repo']}.{row['test_type']}"), "name": _xml(row["test_id"])}
        case = ElementTree.SubElement(suite, "testcase", names, time=f"{row['execution_time']:.3f}")
        kind = _JUNIT_KINDS.get(row["status"])
        if kind:
            more = {} if kind == "skipped" else {"type": row["status"]}
            ElementTree.SubElement(case, kind, more, message=_xml(row["message"]))
        if row["output"]:
            ElementTree.SubElement(case, "system-out").text = _xml(row["output"])
    if report["error"] and report["build"]["log"]:
        ElementTree.SubElement(suite, "system-out").text = _xml(report["build"]["log"])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def as_markdown(report: Report) -> str:
    """Return a title, a table of the tests and what went wrong, as GitHub's Markdown."""
    title = _markdown(f"{report['repo']}: {report['dockerfile']}")
    lines = [f"### {title}", "", score_line(report["summary"]), ""]
    if report["error"]:
        lines += [f"**{report['error']['kind']}**: {_markdown(report['error']['message'])}", ""]
    lines += ["| status | test | score | message | seconds |", "|---|---|---|---|---|"]
    for row in report["test_results"]:
        score = f"{row['score']:g}/{row['max_score']:g}"
        message = "" if row["status"] == NOT_RUN else row["message"]
        cells = (row["status"], row["test_id"], score, message, f"{row['execution_time']:.1f}")
        lines.append("| " + " | ".join(map(_markdown, cells)) + " |")
    return "\n".join(lines) + "\n\n"


def _xml(text: str) -> str:
    """Return text with what XML 1.0 forbids replaced (section 2.2, Char)."""
    return re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def _markdown(text: str) -> str:
    """Return text of anybody's as Markdown that shows it as it stands: CommonMark, backslash escapes."""
    return re.sub(r"([][\\`*_{}<>#~|!&:.@$^])", r"\\\1", shown(text, 300))


_NOT_REPLACED = (errno.EBUSY, errno.EPERM, errno.EACCES, errno.EROFS)  # but perhaps written in place


def check_writable(path: str) -> None:
    """Raise EvaluationError where a file could not be written; make the folders that it needs."""
    if os.path.isdir(path):
        raise EvaluationError(f"{path}: a folder; expected a file for the report")
    stream, target = _stream(path), os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        if isinstance(stream, int):
            os.fstat(stream)  # raises where it is not open
        elif stream is not None and not os.access(stream, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if stream is not None:
            return
        os.makedirs(folder, exist_ok=True)
        temporary = _temporary(target)
        with contextlib.ExitStack() as stack:
            file = _new_file(temporary)
            stack.callback(os.unlink, temporary)
            with file:
                file.write(bytes(CHUNK))  # a full disk may have room for an empty file
        # A sticky folder lets nobody else replace a file of somebody's.
        sticky = os.stat(folder).st_mode & stat.S_ISVTX and os.path.exists(target)
        if sticky and os.stat(target).st_uid != os.geteuid() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        if error.errno not in _NOT_REPLACED or not (os.path.isfile(target) and os.access(target, os.W_OK)):
            raise EvaluationError(f"{path}: the report cannot be written: {error.strerror}") from None


def write_file(path: str, text: str) -> None:
    """Write a file whole or not at all; raise EvaluationError where it cannot be written.

    In place where it cannot be replaced (a bind mount, somebody else's file in a sticky folder);
    to a pipe or device it is appended.
    """
    data = text.encode(errors="backslashreplace")
    try:
        stream, target = _stream(path), os.path.realpath(path)
        temporary = _temporary(target)
        if stream is not None:
            with open(stream, "ab") if isinstance(stream, str) else os.fdopen(os.dup(stream), "wb") as file:
                file.write(data)
            return
        try:
            with _new_file(temporary) as file:
                file.write(data)
            os.replace(temporary, target)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            if error.errno not in _NOT_REPLACED or not os.path.exists(target):
                raise
            with os.fdopen(os.open(target, os.O_WRONLY), "wb") as file:
                file.write(data)
                file.truncate()
    except OSError as error:
        raise EvaluationError(f"{path}: the report cannot be written: {error.strerror}") from None


def _stream(path: str) -> int | str | None:
    """Return the number of our open file that a path leads to (/dev/stdout), a pipe, a device, or None."""
    link = path
    for _ in range(40):  # as many links as Linux follows
        folder, name = os.path.split(os.path.abspath(link))
        if os.path.realpath(folder) == f"/proc/{os.getpid()}/fd" and name.isdecimal():
            return int(name)
        if not os.path.islink(link):
            break
        link = os.path.join(folder, os.readlink(link))
    return path if os.path.exists(path) and not os.path.isfile(path) else None


def _temporary(target: str) -> str:
    return f"{target}.{os.getpid()}-{threading.get_ident()}.tmp"


def _new_file(path: str) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), "wb")


# ---------------------------------------------------------------------------------------------
# Room 6: Evaluation
# ---------------------------------------------------------------------------------------------

BUILD_TIMEOUT = 3600.0  # seconds, unless asked otherwise
LOOKS_AT_ONCE = min(4, os.cpu_count() or 1)
FAULTS_IN_A_ROW = 2  # engine faults after which the rest is not run
START_ALLOWANCE = 3 * START_LIMIT  # seconds of a test's share in the life of a run, beside its timeout

_TELLING_VARIABLES = ("BASH_ENV", "LD_PRELOAD", "LD_AUDIT", "SHELLOPTS")


class Events:
    """Hears what happens; called from one thread at a time. Here it does nothing."""

    def phase(self, text: str) -> None:
        """Something else begins that may take long."""

    def build_line(self, line: str, is_step: bool) -> None:  # noqa: FBT001
        """Another line of the build log, and whether it begins a step."""

    def built(self, build: Build) -> None:
        """The build is over."""

    def started(self, test: Test) -> None:
        """A test begins."""

    def finished(self, test: Test, row: Row, output: str) -> None:
        """A test is over; `output` is there for a passed one, too."""


class Runner:
    """Run the tests, in waves of what is ready: all that only looks, then commands, then retries.

    Time limits are by the clock, and a busy machine makes slow tests late: what timed out beside
    others is retried alone after its wave, as is a test during which this process stood still.
    """

    def __init__(
        self,
        tests: Sequence[Test],
        run: Callable[..., Run],
        stop: Stop,
        jobs: int,
        events: Events,
    ) -> None:
        self.rows: dict[str, Row] = {}  # the results so far, by id
        self._tests = tests
        self._run = run  # Docker.run
        self._stop = stop
        self._jobs = jobs
        self._events = events
        self._unresolvable = unresolvable(tests)
        self._requirers: dict[str, list[Test]] = collections.defaultdict(list)
        for test in tests:
            for name in test.requires:
                self._requirers[name].append(test)
        self._faults = 0  # engine faults in a row, as checks answered

    def run(self) -> dict[str, Row]:
        """Run all that can be run; return a row for every test, by id."""
        for test in self._tests:
            if test.id in self._unresolvable:
                self._settle(test, Run(UNRESOLVABLE, self._unresolvable[test.id]))
        while not self._is_over():
            passed = {name for name, row in self.rows.items() if row["passed"]}
            waiting = (test for test in self._tests if test.id not in self.rows)
            ready = [test for test in waiting if passed.issuperset(test.requires)]
            looks = [test for test in ready if test.check.looks_only]
            if not ready:
                break
            # One command at a time, so that a check that it unlocks comes before the next.
            wave = looks or (ready if self._jobs > 1 else ready[:1])
            for late in self._run_wave(wave, LOOKS_AT_ONCE if looks else self._jobs):
                self._run_wave([late], 1, retry=True)
        why = (
            "the evaluation was interrupted"
            if self._stop.level
            else f"after {FAULTS_IN_A_ROW} engine faults in a row"
        )
        for test in self._tests:
            if test.id not in self.rows:
                self._settle(test, Run(NOT_RUN, f"not run: {why}"))
        return self.rows

    def _run_wave(self, wave: Sequence[Test], limit: int, *, retry: bool = False) -> list[Test]:
        """Run tests, at most `limit` at once; return those to be retried alone."""
        from concurrent import futures

        waiting = collections.deque(wave)
        running: dict[Any, Test] = {}
        late: list[Test] = []
        with futures.ThreadPoolExecutor(limit) as pool:
            while True:
                while waiting and len(running) < limit and not self._is_over():
                    test = waiting.popleft()
                    self._events.started(test)
                    network = not test.check.looks_only
                    future = pool.submit(self._run, test.check.script(), test.timeout, network=network)
                    running[future] = test
                if not running:
                    return late
                for future in futures.wait(running, return_when=futures.FIRST_COMPLETED).done:
                    test, run = running.pop(future), future.result()
                    beside_others = len(wave) > 1 and limit > 1
                    if not retry and (run.disturbed or (run.ending == TIMEOUT and beside_others)):
                        late.append(test)
                        continue
                    self._faults = self._faults + 1 if run.ending == ERROR else 0
                    self._settle(test, run, retried=retry)

    def _settle(self, test: Test, run: Run, *, retried: bool = False) -> None:
        """Note a result, and skip the tests that require what did not pass."""
        settled = [(test, run, retried)]
        while settled:
            test, run, retried = settled.pop()
            if test.id in self.rows:
                continue
            verdict = test.check.judge(run) if run.ending == FINISHED else Verdict(run.ending, run.why)
            row = result_row(test, verdict, run, retried=retried)
            self.rows[test.id] = row
            self._events.finished(test, row, run.output)
            if row["passed"] or run.ending == NOT_RUN:
                continue
            why = f"requires '{shown(test.id, 80)}', which did not pass"
            requirers = (t for t in self._requirers[test.id] if t.id not in self._unresolvable)
            settled += [(t, Run(SKIPPED, why), False) for t in requirers]

    def _is_over(self) -> bool:
        return bool(self._stop.level) or self._faults >= FAULTS_IN_A_ROW


class Evaluation:
    """One evaluation: its options, which are those of the command line, and the way to its report.

    Raises ValueError for options that make no sense, and EvaluationError where there can be no
    report: no such Dockerfile or context, an unusable rubric, an output that cannot be written.
    """

    def __init__(
        self,
        dockerfile: str,
        repo: str,
        rubric: str | None = None,
        output: str | None = None,
        *,
        context: str | None = None,
        build_timeout: float = BUILD_TIMEOUT,
        jobs: int = 1,
        build_options: Sequence[str] = (),
        run_options: Sequence[str] = (),
        docker: str = "docker",
        engine: str | None = None,
        wait: float = 0.0,
        resume: bool = False,
        junit: str | None = None,
        keep_image: bool = False,
        events: Events | None = None,
        stop: Stop | None = None,
    ) -> None:
        _check_numbers(build_timeout, wait, jobs)
        BUILD_FLAGS.check("build_options", build_options)
        RUN_FLAGS.check("run_options", run_options)
        if resume and not output:
            raise ValueError("resume: the report to resume from is that of --output")
        self.dockerfile = os.fspath(dockerfile)
        self.repo = repo
        self.output = os.fspath(output) if output else None
        self.junit = os.fspath(junit) if junit else None
        self._context = os.fspath(context) if context else os.path.dirname(self.dockerfile) or "."
        rubric = os.fspath(rubric) if rubric else default_rubric(repo)
        read = {"--dockerfile": self.dockerfile, "--rubric": rubric}
        try:
            _check_different({**read, "--output": self.output, "--junit": self.junit})
        except FileNotFoundError:
            raise EvaluationError("the current folder is gone; start in one that is there") from None
        self._build_timeout, self._jobs, self._keep_image = build_timeout, jobs, keep_image
        self._build_options, self._run_options = tuple(build_options), tuple(run_options)
        self._wait, self._resume = wait, resume
        # Files
        self._hash = _hash_dockerfile(self.dockerfile)
        if not os.path.isdir(self._context):
            raise EvaluationError(f"{self._context}: no such folder for the build context (--context DIR)")
        self.rubric = load_rubric(rubric)
        for path in filter(None, (self.output, self.junit)):
            check_writable(path)
        # What comes of it
        self.stop = stop or Stop()
        self.resumed = False  # the report was there already
        self._events = events or Events()
        self._engine = Engine(docker, engine, self.stop)
        self._build: Build | None = None
        self._image: Image | None = None
        self._rows: dict[str, Row] = {}  # by id of the test
        self._error: tuple[str, str] | None = None  # kind and message
        self._kept = ""  # the tag of a kept image
        self._left: list[str] = []  # on the engine
        self._started = datetime.datetime.now(datetime.timezone.utc)

    def run(self) -> Report:
        """Evaluate, clean up, write the report and return it; or return the one that is there already."""
        report = self._earlier_report() if self._resume else None
        self.resumed = report is not None
        if report is None:
            self._evaluate()
            report = self._report()
        failures = []
        for path, render in ((None if self.resumed else self.output, as_json), (self.junit, as_junit)):
            try:
                if path:
                    write_file(path, render(report))
            except EvaluationError as error:  # the other file may yet be written
                failures.append(str(error))
        if failures:
            raise EvaluationError("\n".join(failures))
        return report

    def _evaluate(self) -> None:
        events = self._events
        limits = sum(test.timeout * 2 + START_ALLOWANCE for test in self.rubric.tests)
        docker = Docker(
            self._engine,
            self.stop,
            lifetime=self._build_timeout + limits,
            wait=self._wait,
            build_options=self._build_options,
            run_options=self._run_options,
        )
        try:
            with docker:
                events.phase("building")
                build = docker.build(self.dockerfile, self._context, self._build_timeout, events.build_line)
                self._build, self._image = build, docker.image
                events.built(build)
                if build.kind:
                    self._error = (build.kind, build.message)
                else:
                    runner = Runner(self.rubric.tests, docker.run, self.stop, self._jobs, events)
                    self._rows = runner.rows
                    runner.run()
                    if self._keep_image and not self.stop.level:
                        self._kept = docker.keep(self.repo)
                events.phase("cleaning up")
        except EngineError as error:
            self._error = (error.kind, str(error))
        except Stopped:
            pass  # told by self.stop
        self._left = docker.left

    def _report(self) -> Report:
        """Return the report, in the order of its JSON."""
        error = self._final_error()
        build, image, engine = self._build, self._image, self._engine
        why = f"not run: {_NOT_RUN_AFTER.get(error['kind'], error['message'])}" if error else "not run"
        rows = [
            self._rows.get(test.id) or result_row(test, Verdict(NOT_RUN, why), Run(NOT_RUN))
            for test in self.rubric.tests
        ]
        reasons = unresolvable(self.rubric.tests)
        warnings = [
            f"unresolvable: '{shown(name, 80)}' {reason}, so it can never run"
            for name, reason in reasons.items()
        ]
        return {
            "repo": self.repo,
            "dockerfile": self.dockerfile,
            "rubric": self.rubric.path,
            "summary": summarize(rows),
            "test_results": rows,
            "build": {
                "succeeded": bool(build and not build.kind),
                "execution_time": round(build.seconds, 3) if build else 0.0,
                "message": build.message if build else "not built",
                "log": build.log if build else "",
            },
            "error": error,
            "warnings": [*warnings, *_telling_variables(image), *engine.warnings],
            "environment": {
                **self._asked(),
                "jobs": self._jobs,
                "build_timeout": self._build_timeout,
                "evaluator_version": __version__,
                "docker_client": engine.client or None,
                "docker_server": engine.server or None,
                "platform": engine.platform or None,
                "builder": build.builder if build else None,
                "started_at": self._started.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "image_size": image.size if image else None,  # see Docker._inspect_image()
                "image_id": image.id if image else None,
                "layers": list(image.layers) if image else None,
                "kept_image": self._kept or None,
            },
        }

    def _asked(self) -> dict[str, Any]:
        """Return what must be the same for a report to be taken up again."""
        return {
            "context": self._context,
            "build_options": [BUILD_FLAGS.redacted(word) for word in self._build_options],
            "run_options": [RUN_FLAGS.redacted(word) for word in self._run_options],
            "dockerfile_sha256": self._hash,
            "rubric_sha256": self.rubric.sha256,
        }

    def _final_error(self) -> dict[str, str] | None:
        """Return what stopped the evaluation, else what was wrong with the engine."""
        error = self._error
        faults = [row for row in self._rows.values() if row["status"] == ERROR]
        if self.stop.level:
            error = ("interrupted", "the evaluation was interrupted")
        elif not error and faults:
            error = ("engine", faults[-1]["message"])
        if self._left:
            left = f"left on the engine: {'; '.join(self._left)}"
            error = (error[0], f"{error[1]}; {left}") if error else ("engine", left)
        return {"kind": error[0], "message": error[1]} if error else None

    def _earlier_report(self) -> Report | None:
        """Return the report that `output` already holds, None where it is to be evaluated again."""
        if _stream(str(self.output)) is not None:
            return None  # a pipe or a device holds none
        try:
            with open(str(self.output), "rb") as file:
                report = json.loads(file.read().decode())
            environment, error = report["environment"], report["error"]
            is_ours = environment["evaluator_version"].split(".")[0] == __version__.split(".", maxsplit=1)[0]
            asked = self._asked().items()
            same = report["repo"] == self.repo and all(environment[key] == value for key, value in asked)
            kept = environment["kept_image"] or not (self._keep_image and report["build"]["succeeded"])
            whole = len(report["test_results"]) == len(self.rubric.tests)
            as_junit(report), as_markdown(report), all_passed(report)  # all that is read of it
            kind = error["kind"] if error else ""
            again = kind in ("engine", "usage", "interrupted") or (
                kind == "build_timeout" and environment["build_timeout"] < self._build_timeout
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            return None  # broken, half written, or no report at all
        return report if is_ours and same and kept and whole and not again else None


_NOT_RUN_AFTER = {"build": "the build failed", "build_timeout": "the build took too long"}


def evaluate(
    dockerfile: str,
    repo: str,
    rubric: str | None = None,
    output: str | None = None,
    *,
    verbose: bool = False,
    context: str | None = None,
    build_timeout: float = BUILD_TIMEOUT,
    jobs: int = 1,
    build_options: Sequence[str] = (),
    run_options: Sequence[str] = (),
    docker: str = "docker",
    engine: str | None = None,
    wait: float = 0.0,
    resume: bool = False,
    junit: str | None = None,
    keep_image: bool = False,
) -> Report:
    """Build `dockerfile`, answer every test of `rubric`, and return the report as a plain dict.

    The arguments are the command line's: `rubric` defaults to rubrics/<repo>.json, `context` to
    the Dockerfile's folder, `build_timeout` and `wait` are in seconds, the options are words for
    docker such as "--memory=2g", `engine` is a URL or a docker context. With `output` the report
    is written there as JSON, too; with `resume` it is taken from there, where it fits. `verbose`
    is for the command line: nothing is printed here, no signal handler is installed, and several
    threads may call this at once.

    Raises EvaluationError where there can be no report (no such Dockerfile, an unusable rubric,
    an output that cannot be written), ValueError for arguments that make no sense, and, after
    clean-up and with the report written, KeyboardInterrupt where that came in between.
    """
    options = dict(locals())
    del options["verbose"]
    evaluation = Evaluation(**options)
    return _undisturbed(evaluation.run, evaluation.stop)


def check_engine(docker: str = "docker", engine: str | None = None, stop: Stop | None = None) -> str:
    """Return "" where an engine builds a minimal image and starts a container of it, else what is wrong.

    `engine` is a URL or a docker context, as in evaluate(). What it makes is removed. Somebody may ask
    `stop` to end it.
    """
    stop = stop or Stop()

    def work() -> str:
        try:
            with Docker(Engine(docker, engine, stop), stop, lifetime=START_ALLOWANCE) as run:
                words = run.control()
            return words or "; ".join(run.left)
        except EngineError as error:
            return str(error)
        except Stopped:
            return "interrupted"

    return _undisturbed(work, stop)


def default_rubric(repo: str) -> str:
    """Return the path of the rubric that belongs to a repository."""
    return os.path.join("rubrics", f"{repo}.json")


Outcome = TypeVar("Outcome")


def _undisturbed(work: Callable[[], Outcome], stop: Stop) -> Outcome:
    """Do the work in a thread of its own, where no KeyboardInterrupt can tear it.

    The caller only waits, and by sleeping: an exception may leave a lock in an unknown state.
    Where it is interrupted it asks the work to stop and waits on; where it is interrupted again,
    the work is asked to leave its clean-up, too.
    """
    outcomes: list[tuple[Any, BaseException | None]] = []

    def body() -> None:
        try:
            outcomes.append((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            outcomes.append((None, error))

    thread = threading.Thread(target=body, name="DockerfileEvaluator", daemon=True)
    interrupt: KeyboardInterrupt | None = None
    while not outcomes:
        try:
            if thread.ident is None and not interrupt:
                thread.start()
            if interrupt and not thread.is_alive():
                break  # it came before the thread did
            time.sleep(0.01)
        except KeyboardInterrupt as error:
            interrupt = error
            stop.ask()
    if interrupt:
        raise interrupt
    outcome, failure = outcomes[0]
    if failure:
        raise failure
    return outcome  # type: ignore[no-any-return]


def _check_numbers(build_timeout: float, wait: float, jobs: int) -> None:
    """Raise ValueError for a time in seconds, or a number of jobs, that makes no sense."""
    if not 0 < build_timeout < math.inf:
        raise ValueError(f"build timeout {build_timeout!r}: expected a number of seconds over 0")
    if not 0 <= wait < math.inf:
        raise ValueError(f"wait {wait!r}: expected a number of seconds")
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ValueError(f"jobs {jobs!r}: expected a whole number of at least 1")


def _check_different(paths: Mapping[str, str | None]) -> None:
    """Raise ValueError where a file to write is another one of these, whatever its spelling."""
    seen: list[tuple[str, str]] = []
    for flag, path in paths.items():
        if not path or _stream(path) is not None:
            continue
        for other_flag, other in seen:
            same = os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)
            same = same or os.path.realpath(path) == os.path.realpath(other)
            if same and flag in ("--output", "--junit"):
                raise ValueError(f"{flag} is the same file as {other_flag}: {path}")
        seen.append((flag, path))


def _hash_dockerfile(path: str) -> str:
    """Return the Dockerfile's SHA-256; raise EvaluationError where docker could not read it."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise EvaluationError(f"{path}: not a regular file; expected a Dockerfile")
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise EvaluationError(f"{path}: the Dockerfile cannot be read: {error.strerror}") from None


def _telling_variables(image: Image | None) -> Iterator[str]:
    """Warn of what an image sets that changes how every shell in it behaves."""
    for entry in image.environment if image else ():
        name = entry.partition("=")[0]
        if name in _TELLING_VARIABLES or name.startswith("BASH_FUNC_"):
            text = f"{shown(entry, 120)} is set, which can change what every command does"
            yield f"telling-variable: image: {text}"


# ---------------------------------------------------------------------------------------------
# Room 7: Command line
# ---------------------------------------------------------------------------------------------

SHOWN_LINES = 20  # of a failed build's log, and of a test's output with --verbose
VERBOSE_LOG = 2 * 1024 * 1024  # bytes of the build log that --verbose shows as they come
COLORS = {PASSED: "32", FAILED: "31", TIMEOUT: "31", ERROR: "31", SKIPPED: "33", UNRESOLVABLE: "33"}


def write_to(stream: TextIO, text: str) -> None:
    """Write to a screen, whose reader or terminal may go away, or whose disk be full: that ends nothing."""
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):  # what is buffered must go somewhere at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Screen(Events):
    """What a person sees: a line per test, and on a terminal a live line below them.

    All text that a container may have written is cleaned and prefixed, so that it can neither
    steer a terminal nor command a CI system.
    """

    def __init__(self, out: TextIO, errors: TextIO, *, verbose: bool) -> None:
        self._out, self._errors = out, errors
        self._verbose = verbose
        self._dockerfile = ""
        self._stop = Stop()
        self._name_width, self._score_width = 0, 0  # columns of a test's line
        self._live = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._color = self._live and not os.environ.get("NO_COLOR")
        self._phase, self._step, self._since = "", "", time.monotonic()  # of the live line
        self._running: dict[str, float] = {}  # tests under way, and when they began
        self._drawn = False  # the live line stands on the terminal
        self._lock = threading.RLock()  # the live line is drawn by a thread of its own
        self._closed = threading.Event()
        self._log_size = 0
        self._log_tail: collections.deque[str] = collections.deque(maxlen=40)  # beyond VERBOSE_LOG

    def begin(self, evaluation: Evaluation) -> None:
        """Say what is built; learn how wide the columns must be."""
        tests = evaluation.rubric.tests
        self._name_width = min(max(len(shown(test.id)) for test in tests), 32)
        self._score_width = max(len(f"{test.score:g}/{test.score:g}") for test in tests)
        self._dockerfile, self._stop = shown(evaluation.dockerfile), evaluation.stop
        if self._live:
            threading.Thread(target=self._keep_alive, daemon=True).start()

    def phase(self, text: str) -> None:
        if text == "building":
            self.print(f"building {self._dockerfile}")
        elif self._stop.level:
            self.print("interrupted; cleaning up (interrupt again to leave at once)")
        with self._lock:
            self._phase, self._step, self._since = text, "", time.monotonic()
            self._running.clear()

    def build_line(self, line: str, is_step: bool) -> None:  # noqa: FBT001
        self._log_size += len(line) + 1
        if is_step:
            with self._lock:
                self._step = shown(" ".join(line.split()), 60)
        if self._verbose and self._log_size <= VERBOSE_LOG:
            self._print_quoted(line)
        elif self._verbose:
            self._log_tail.append(line[:500])

    def built(self, build: Build) -> None:
        if self._log_tail:
            self._print_quoted(f"[the log goes on; its last {len(self._log_tail)} lines:]")
        for line in self._log_tail:
            self._print_quoted(line)
        if build.kind and not self._verbose:
            for line in build.log.splitlines()[-SHOWN_LINES:]:
                self._print_quoted(line)
        word = "build failed" if build.kind in _NOT_RUN_AFTER else "not built" if build.kind else "built"
        self.print(f"{word}: {self._dockerfile} ({build.builder} builder, {build.seconds:.1f} s)")

    def started(self, test: Test) -> None:
        with self._lock:
            self._phase = "testing"
            self._running[test.id] = time.monotonic()

    def finished(self, test: Test, row: Row, output: str) -> None:
        with self._lock:
            self._running.pop(test.id, None)
        name = f"{shown(row['test_id'], self._name_width):<{self._name_width}}"
        score = f"{row['score']:g}/{row['max_score']:g}"
        start, end = f"  {name}  {score:>{self._score_width}}  ", f"  ({row['execution_time']:.1f} s)"
        status = f"{row['status']:<7}"
        room = max(self._columns() - len(status) - len(start) - len(end) - 1, 20) if self._live else 300
        if self._color and row["status"] in COLORS:
            status = f"\x1b[{COLORS[row['status']]}m{status}\x1b[0m"
        self.print(f"{status}{start}{shown(row['message'], room)}{end}")
        if self._verbose and not test.check.looks_only and row["status"] in (PASSED, FAILED, TIMEOUT):
            self._print_quoted(f"$ {getattr(test.check, 'command', '')}")  # with what was drawn
            for line in output.splitlines()[-SHOWN_LINES:]:
                self._print_quoted(line)
            if row["exit_code"] is not None:
                self._print_quoted(f"exit code {row['exit_code']}")

    def sum_up(self, report: Report) -> None:
        """Print what failed and why, a line each, the counts, warnings and what was kept."""
        failed = [row for row in report["test_results"] if row["status"] in FAILURES]
        if failed:
            self.print("not passed:")
        for row in failed:
            self.print(f"  {shown(row['test_id'], 60)}: {shown(row['message'], 300)}")
        self.summary(report)
        for warning in report["warnings"]:
            self.print(f"warning: {shown(warning, 500)}")
        if report["environment"]["kept_image"]:
            self.print(f"image kept: {report['environment']['kept_image']}")

    def summary(self, report: Report) -> None:
        """Print the counts and the score."""
        kinds = collections.Counter(row["status"].replace("_", " ") for row in report["test_results"])
        others = ", ".join(f"{kinds[kind]} {kind}" for kind in ("skipped", "not run") if kinds[kind])
        self.print(score_line(report["summary"]) + (f"; {others}" if others else ""))

    def print(self, text: str, end: str = "\n") -> None:
        """Print a line above the live one."""
        with self._lock:
            clear = "\r\x1b[K" if self._drawn else ""
            self._drawn = False
            write_to(self._out, f"{clear}{text}{end}")

    def error(self, text: str) -> None:
        """Say on stderr what went wrong, after all that stands on stdout."""
        self.print("", end="")
        for line in text.splitlines():
            write_to(self._errors, f"error: {shown(line, 2000)}\n")

    def close(self) -> None:
        """Take the live line away."""
        self._closed.set()
        self.print("", end="")

    def _print_quoted(self, text: str) -> None:
        self.print(f"  | {shown(text, 500)}")

    def _keep_alive(self) -> None:
        while not self._closed.wait(0.5):
            with self._lock:
                if not self._closed.is_set():
                    now = time.monotonic()
                    tests = [
                        f"{shown(name, 30)} {now - since:.0f} s" for name, since in self._running.items()
                    ]
                    text = ", ".join(tests) or f"{self._step} {now - self._since:.0f} s"
                    write_to(self._out, f"\r\x1b[K{f'{self._phase}: {text}'[: self._columns() - 1]}")
                    self._drawn = True

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns or 80
        except (OSError, ValueError):
            return 80


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="DockerfileEvaluator",
        description="Build a Dockerfile, test the image against a JSON rubric, write a JSON report.",
        epilog="Exit codes: 0 all tests passed; 1 a test did not pass, the build failed or the "
        "evaluation could not be carried out; 2 wrong usage; 130 interrupted by Ctrl-C (143 by SIGTERM, "
        "129 by SIGHUP).",
    )
    add = parser.add_argument
    add("--dockerfile", metavar="FILE", help="the Dockerfile to score")
    add("--repo", metavar="NAME", help="names the default rubric, and stands in the report")
    add("--rubric", metavar="FILE", help="the rubric (default: rubrics/NAME.json)")
    add("--output", metavar="FILE", help="write the JSON report here; missing folders are made")
    add("--verbose", action="store_true", help="show the build log, and each test's command and output")
    add("--context", metavar="DIR", help="the build context (default: the Dockerfile's folder)")
    add("--build-timeout", metavar="S", type=float, default=BUILD_TIMEOUT, help="seconds (default: 3600)")
    add("--jobs", metavar="N", type=int, default=1, help="commands to run at a time (default: 1)")
    for step in ("build", "run"):
        add(
            f"--{step}-option",
            metavar="OPT",
            dest=f"{step}_options",
            action="append",
            default=[],
            help=f"a word for docker {step}, such as --{step}-option=--network=host; may be repeated",
        )
    add("--docker", metavar="PROGRAM", default="docker", help="the docker command line (default: docker)")
    add("--engine", metavar="WHERE", help="a URL (unix://, ssh://, tcp://) or the name of a docker context")
    add("--wait", metavar="S", type=float, default=0.0, help="seconds to wait for an engine (default: 0)")
    add("--junit", metavar="FILE", help="write the report as JUnit XML, too")
    add("--keep-image", action="store_true", help="leave the image on the engine, and print its tag")
    add("--resume", action="store_true", help="take what --output holds on these files and options")
    add("--check", action="store_true", help="only read the rubric (--rubric or --repo), and name its faults")
    add("--version", action="version", version=f"DockerfileEvaluator {__version__}")
    return parser


def _check(path: str, screen: Screen) -> None:
    """Say whether a rubric is understood, and name what of it can never run."""
    rubric = load_rubric(path)
    for name, reason in unresolvable(rubric.tests).items():
        screen.print(f"warning: {shown(path)}: '{shown(name, 60)}' {reason}, so it can never run")
    count, points = len(rubric.tests), add_scores(test.score for test in rubric.tests)
    screen.print(f"{shown(path, 500)}: {count} test{'' if count == 1 else 's'}, {points:g} points")
    screen.print(f"understood; to check its quality: python3 rubrics/review.py {shown(path, 500)}")


@contextlib.contextmanager
def signals_to(hear: Callable[[int, object], None]) -> Iterator[None]:
    """Let `hear` take the signals that end programs; what the caller ignores stays ignored."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler not in (signal.SIG_IGN, None):  # None: not Python's
            signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def standard_streams() -> tuple[TextIO, TextIO]:
    """Return stdout and stderr as any text can be written to; one that is closed shows nothing."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # or docker's pipes would be taken for it
    out, errors = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (out, errors):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    return out, errors


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = _parser()
    arguments = vars(parser.parse_args(argv))
    verbose, check = arguments.pop("verbose"), arguments.pop("check")
    missing = [f"--{name}" for name in ("dockerfile", "repo") if not arguments[name]]
    if check and not (arguments["rubric"] or arguments["repo"]):
        parser.error("--check needs --rubric FILE or --repo NAME")
    if missing and not check:
        parser.error(f"the following arguments are required: {', '.join(missing)}")
    screen = Screen(*standard_streams(), verbose=verbose)
    try:
        if check:
            _check(arguments["rubric"] or default_rubric(arguments["repo"]), screen)
            return 0
        try:
            evaluation = Evaluation(**arguments, events=screen)
        except ValueError as error:
            parser.error(str(error))
        return _run(evaluation, screen)
    except EvaluationError as error:
        screen.error(str(error))
        return 1
    except KeyboardInterrupt:  # before signals only ask: nothing was begun
        return 128 + signal.SIGINT
    finally:
        screen.close()


@contextlib.contextmanager
def _signals_ask(stop: Stop) -> Iterator[list[int]]:
    """Let signals only ask `stop`, and yield those heard.

    All waits look at `stop`, so no signal need raise an exception, which could come anywhere.
    """
    heard: list[int] = []

    def hear(number: int, _frame: object) -> None:
        heard.append(number)
        stop.ask()

    with signals_to(hear):
        yield heard


def _run(evaluation: Evaluation, screen: Screen) -> int:
    """Evaluate and say what came of it; return the exit code."""
    with _signals_ask(evaluation.stop) as heard:
        screen.begin(evaluation)
        report = evaluation.run()
    if evaluation.resumed:
        screen.print(
            f"resumed: {shown(str(evaluation.output), 500)} already holds the report; nothing is run"
        )
        screen.summary(report)
    else:
        screen.sum_up(report)
        summary = os.environ.get("GITHUB_STEP_SUMMARY")  # of a step of GitHub Actions
        try:
            if summary:
                with open(summary, "a", encoding="utf-8", errors="backslashreplace") as file:
                    file.write(as_markdown(report))
        except OSError as fault:
            screen.error(f"{summary}: the summary cannot be written: {fault.strerror}")
    for path in filter(None, (evaluation.output, evaluation.junit)):
        screen.print(f"report: {shown(path, 500)}")
    error = report["error"]
    if error:
        screen.error(error["message"])
    if heard and error and error["kind"] == "interrupted":
        return 128 + heard[0]
    return 0 if all_passed(report) else 1


if __name__ == "__main__":
    raise SystemExit(main())
