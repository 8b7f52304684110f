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
import shlex
import stat
import subprocess
import sys
import threading
import time
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    NoReturn,
    Sequence,
    TextIO,
    TypeVar,
)

__version__ = "1.2.0"
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
IN_DOUBT = "in doubt"  # of a Run only: it proves nothing, and is to be tried once more


class EvaluationError(Exception):
    """There can be no report; the text says why, and what to do."""


class RubricError(EvaluationError):
    """The rubric cannot be used; the text names every fault, one a line."""


class EngineError(EvaluationError):
    """An engine fault: docker is missing, does not answer or fails; never the fault of a Dockerfile.

    Whether a failure is one, Ladder (room 4) finds out. `kind` is that of the report's error: "engine",
    or "registry" for one that is out of reach.
    """

    def __init__(self, text: str, kind: str = "engine") -> None:
        super().__init__(text)
        self.kind = kind


class UsageError(EngineError):
    """Docker refuses an option or the build context: nobody's Dockerfile is to blame, and no retry helps."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "usage")


class Stopped(Exception):  # noqa: N818 - a request, not an error
    """Somebody asked the evaluation to end."""


class Stop:
    """A request to end: once it is asked the work ends, and asked again, clean-up ends at once."""

    def __init__(self) -> None:
        self._times = 0

    def ask(self) -> None:
        """Ask once more; a signal handler may."""
        self._times += 1

    @property
    def asked(self) -> bool:
        """Whether the work is to end."""
        return self._times > 0

    @property
    def at_once(self) -> bool:
        """Whether clean-up is to end, too."""
        return self._times > 1


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

    `ending` is FINISHED, IN_DOUBT, or at once the status of the test: FAILED, TIMEOUT, ERROR, NOT_RUN,
    SKIPPED, UNRESOLVABLE. `status` is the check's own exit status, `found` says of each needle whether
    the output held it, `output` is the output's head and tail, `seconds` the time from the check's
    first instruction to its last.
    """

    ending: str
    why: str = ""
    status: int | None = None
    found: tuple[bool, ...] = ()
    output: str = ""
    seconds: float = 0.0


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


LISTED = 5  # items that a message names; it counts the rest


def listed(items: Sequence[str], most: int = LISTED, total: int = 0) -> str:
    """Return the first `most` items in quotes, and how many more there are (of `total`, if given)."""
    words = [f"'{shown(item, 80)}'" for item in items[:most]]
    more = max(total, len(items)) - len(words)
    return ", ".join([*words, f"{more} more"] if more else words)


def last_line(text: str) -> str:
    """Return the last line that is not blank, "" where there is none."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


# Lines that say nothing of the cause. npm and Maven put their mark before what others print, too.
_NOISE = re.compile(
    r"""
    npm\ (ERR!|error)(\s*$|\s\s|\ (errno|path|command|exited|Exit\ st|code\ (\d+|ELIF)|\S+@\S+\ \w+:
      |Test\ f|Failed\ at|This\ is|A\ complete|JSON.*Failed|While\ res|Found:|Could\ not\ res|node_modules/))
    | (npm\ (ERR!|error)\ |\[ERROR\]\ ?)?(
        \W*$ | \s*(\d+\s*)?\|\s | \s+at\s            # a rule, a line of source, a frame of a stack trace
      | \s*g?make(\[\d+\])?:\ (\*\*\*\ .*Error\ \d|Leaving) | ninja:\ build\ stopped
      | \s*(collect2:\ )?error:\ ld\ returned | \s*\d+\ errors?$     # gcc and javac: their errors stand above
      | gyp\ (?!ERR!\ stack\ \w*Error:\ (?!`make`))  # node-gyp: all but its own error
      | ->\ |\[Help|To\ see\ |Re-run|For\ more\ info|After\ correcting|\ +mvn\ <|Please\ refer|Tests\ run:
      | \s+(symbol|location):\s | .*There\ are\ test\ failures)      # Maven
    | \[INFO\] | (npm\ |CMake\ |\[)?warn(ing)?\b | \s*(note|hint):
    | Node\.js\ v\d | Emitted\ 'error' | \(Use\ `node | \s+(opensslErrorS|reason:\ 'uns) | \s*'error:\d # Node
    | (error:\ )?(could\ not\ compile|aborting\ due|test\ failed,|As\ a\ reminder) | test\ result:  # cargo
    | FAIL(\t|$) | FAILED\ \( | =+\ .*\ in\ [\d.]+s.*=$                                         # go, Python
    | CMake\ (Error\ at|Generate) | \s+A\ required\ package\ was | Use\ "--rerun                # CMake, ctest
    | BUILD\ FAILED | FAILURE: | :\S+\ FAILED | \s*FAILED$ | Execution\ failed\ for\ task       # Gradle
    | \s*>\ (Compilation|There\ were|A\ failure\ occ) | A\ problem\ occurred\ [ce] | \d+\ tests?\ completed
    | E:\ (Sub-process|Unable\ to\ correct|Unmet|Some\ index) | W:\ | debconf: | invoke-rc\.d:  # apt
    | \s*(\xd7|error:\ ((subprocess|metadata|failed|legacy)-|command\ (?!\S+\ failed:)))        # pip
    | \s*(error:\ )?(Failed\ (to\ )?build(ing)?|Could\ not\ build|ResolutionImpossible)\b       # pip; conda:
    | (Conda\w+:\ Pip\ )?failed$|An\ HTTP\ error|The\ environment\ can't|\w+\s+libmamba\ |Could\ not\ solve\ f
    | (error|\s*ELIFECYCLE)\s+Command\ failed | This\ error\ happened | info\ Visit             # yarn, pnpm
    """,
    re.VERBOSE | re.IGNORECASE,
)
_READS_LIKE_AN_ERROR = re.compile(
    r"""
      ^(E:|E\s{3}|(---\ )?FAIL(ED)?\b|panic:|Exception\ in\ thread|Caused\ by:)  # apt, pytest, go, Java
    | ^npm\ (ERR!|error)\ code                       # the mark alone is no error: npm's advice has it, too
    | ^[\w.]*(Error|Exception|Exit|NotFound)(\ \[\w+\])?:  # Python, Node, Java, conda: ImportError: …
    | (?<![-/.\w])(?<!npm\ )(fatal|error|failed|failure)(?![-/\w]|\.\w)  # no flag, no path: src/error.rs
    | \b(cannot|can't|could\ not|unable\ to|not\ found|no\ such|no\ rule|no\ matching|no\ required)\b
    | \b(undefined\ reference|permission\ denied|refused|unsupported|not\ compatible|panicked|unmet\ dep\w+)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CAUSE = re.compile(r"(?ms)^(?:\* What went|CMake Error)[^\n]*:[ ]*\n(.*?)(?=^\* Try|^Call St|^-- Conf|\Z)")


def _without_noise(text: str) -> list[str]:
    lines = (line[:500] for line in text.splitlines())
    return [line.strip() for line in lines if not _NOISE.match(line)]


def telling_line(text: str) -> str:
    """Return what a person would quote: the last line that reads like an error, else the last line.

    What Gradle and CMake call the cause comes first. A line that introduces the next is quoted with it.
    """
    text = re.sub(r"\x1b\[[\d;]*[mK]", "", text)  # without colors
    told, default = _without_noise(text) or text.strip().splitlines() or [""], -1
    for cause in [*_CAUSE.finditer(text)][-1:]:
        above = [line for line in _without_noise(text[: cause.start()]) if _READS_LIKE_AN_ERROR.search(line)]
        told, default = _without_noise(cause[1]) or above or cause[1].split("\n")[:1], 0
    errors = [at for at, line in enumerate(told) if _READS_LIKE_AN_ERROR.search(line)]
    quote, *more = told[errors[-1] if errors else default :]
    if more and re.search(r":$|ERESOLVE|^npm (ERR!|error) code|^--- FAIL", quote):
        quote = f"{quote.rstrip(':')}: {re.sub('^(npm (ERR!|error)|.ERROR.) +', '', more[0])}"
    return re.sub(r"(Failed to execute goal) \S+ \(\S+\)", r"\1 …", quote)  # Maven: the cause stands behind


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
    """The tests of one rubric file, in its order; `repo` is "" where it names none.

    `unresolvable` says of the tests that can never run, by id, why.
    """

    path: str
    sha256: str
    repo: str
    tests: tuple[Test, ...]
    unresolvable: Mapping[str, str]


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
    return Rubric(path, hashlib.sha256(data).hexdigest(), repo, tuple(tests), unresolvable(tests))


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
        name = test.id if test else name
        if name in seen:
            fields.fault("id", f"'{shown(name, 40)}' is the id of tests[{seen[name]}] too")
        if name:
            seen.setdefault(name, at)
        tests += [test] if test else []
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
    # Those that wait for nothing go, and with them the waiting for them, until none does: what is left
    # waits for a circle, or is in one.
    needs = {test.id: [name for name in test.requires if name in by_id] for test in tests}
    requirers = collections.defaultdict(list)
    for name, needed in needs.items():
        for other in needed:
            requirers[other].append(name)
    free = [name for name, needed in needs.items() if not needed]
    while free:
        gone = free.pop()
        del needs[gone]
        for name in requirers[gone]:
            needs[name] = [other for other in needs[name] if other != gone]
            free += [] if needs[name] else [name]
    for name in needs:
        way = [] if name in reasons else _way_back(name, needs)
        for at, member in enumerate(way):  # each is told from its own place
            circle = " -> ".join([*way[at:], *way[:at], member])
            reasons.setdefault(member, f"requires itself in a circle: {shown(circle, 300)}")
    return reasons


def _way_back(start: str, needs: Mapping[str, Sequence[str]]) -> list[str]:
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
    case $path in
      */*) test -f "$path" && test -x "$path" ;;
      # busybox, by an empty entry of PATH, finds a file in this folder that nobody may execute
      *) test ! -f "$path" || test -x "$path" || (cd /proc && command -v -- "$name" >/dev/null) ;;
    esac
  then good=$((good + 1)); test "$good" -gt {LISTED} || echo "found $path"
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

# Time limits in seconds.
TICK = 0.1  # how soon a time limit or a request to stop is seen while docker is silent
CALL_LIMIT = 20.0  # a docker command that only asks or removes
START_LIMIT = 60.0  # from `docker run` to the begin mark
END_LIMIT = 60.0  # from the end mark to the end of `docker run`
CREATE_LIMIT = 10.0  # for a container on its way, of a run that is to end or a start that took too long
KILL_LIMIT = 5.0  # from a signal to the end of a docker command
RETURN_LIMIT = 60.0  # for a lost engine to come back
BUILD_PAUSE = 5.0  # before a build is repeated the second time
CLEAN_UP_LIMIT = 60.0  # for all that a run removes at its end, together
SWEEP_LIMIT = 5.0  # for one leftover of a killed run
PULL_LIMIT = 60.0  # for Docker Hub to say that it has no such image
MARGIN = 3600.0  # that a run may outlive the sum of its limits before it counts as dead
GRACE = 1.0  # that a limit waits while output still comes; a gap in our clock that is longer is not counted
STANDSTILL = 5.0  # gaps after which a verdict is in doubt: Ctrl-Z, a machine that slept
SLOW_ANSWER = 1.0  # after which an engine counts as having stood still, too; it mostly takes 0.02

# Sizes in bytes.
CHUNK = 64 * 1024
KEPT_HEAD = 2 * 1024  # of a container's output
KEPT_TAIL = 6 * 1024
KEPT_STEP = 2 * 1024  # of a step's output, its beginning
KEPT_LOG = 16 * 1024  # of the build log, its end
KEPT_ANSWER = 4 * 1024 * 1024  # of a docker command that only asks
CONTROL_SIZE = 1024 * 1024  # of fresh random content: the cache has no answer, a full disk no room

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

# What docker and podman say. It decides what is tried once more and what a message quotes; a verdict
# hangs on it only where no Dockerfile can print it.
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
# That a registry has no such image: as docker says it of any, and Docker Hub or a mirror of a name asked for.
SAYS_NO_SUCH_IMAGE = re.compile(
    "(?<!permission )denied|does not exist|manifest unknown|not found|unauthorized"
)
SAYS_BAD_TEXT = re.compile("parse error")
SAYS_CUT = re.compile("unexpected EOF$|error during connect|failed to receive status: rpc error")
SAYS_NO_SOURCE = re.compile(
    "not found|no source files|no such file|does not exist|forbidden path|checksum|cache key"
)
SAYS_RUN_FAILED = re.compile(r"(returned a non-zero code: |exit code: |exit status )(?P<code>\d+)\W*$")
KILLED = ("137", "143")  # exit codes of a RUN that somebody killed: an engine that ends, a lack of memory

# The legacy builder's word on a registry, whose steps fail for other reasons, too, under the same title.
SAYS_REGISTRY = re.compile(
    r"(invalid from flag value \S+: )?(Error response from daemon: )?"
    r"((Get|Head) \"?https?:|toomanyrequests|error pulling|received unexpected|(dial|read) tcp|net/http)"
)
# The steps that ask a registry, by their titles; with BuildKit COPY --from=IMAGE is FROM, too.
_ASKS_REGISTRY = {
    "buildkit": re.compile("FROM |resolve image config for |load metadata for "),
    "legacy": re.compile("FROM |COPY (.* )?--from="),
    "buildah": re.compile("FROM |COPY (.* )?--from="),
}
# The builders: how each begins its log, and how it begins a step.
_STEP = r"(?P<n>\d{1,6})/(?P<of>\d{1,6})"
BUILDERS = {
    "buildkit": (
        re.compile(r"#\d+ "),
        re.compile(rf"#(?P<vertex>[1-9]\d*) (?P<place>\[([^\] ]+ +)?({_STEP}|[^\]]*)\] )?(?P<title>.*)"),
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
_CACHE_IS_IMAGES = ("legacy", "buildah")  # builders that keep their cache as images without a name
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
_OF_THE_BUILDER = re.compile("( -)?--> |Removing intermediate container [0-9a-f]{12}$")
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
_WITH_ENGINE = "On Debian or Ubuntu, as root, `tests/with-engine COMMAND` of this project runs COMMAND with"
_ENGINE_HINT = (
    "Is an engine running, and does DOCKER_HOST or the docker context point at it? "
    f"{_WITH_ENGINE} an engine of its own."
)
_PROGRAM_HINT = (
    "Install the docker command line, or name another with --docker PROGRAM. "
    f"{_WITH_ENGINE} docker and an engine of its own."
)

# RUN, in the names of what a run makes: containers are REPOSITORY-RUN-N, images REPOSITORY:RUN, controls
# REPOSITORY:RUN-N. It says whose they are, and from when on (seconds since 1970, by the engine's clock) that
# run counts as dead; by its process at once on the same host: its boot, pid namespace, pid, start time.
_RUN = re.compile(
    r"""
      [0-9a-f]{12} - (?P<expires>[0-9]{1,12})
    - (?P<boot>[0-9a-f]{0,12}) \. (?P<space>[0-9]*) \. (?P<pid>[0-9]{0,10}) \. (?P<start>[0-9]*)
    (?P<number>-[0-9]+)?
    """,
    re.VERBOSE,
)
# Files on which docker may wait for ever, by the typeflag of an archive (POSIX, pax).
_BLOCKING = {b"3": "a device", b"4": "a device", b"6": "a pipe"}


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
        """Return our defaults, except those to `omit` or set by the user, followed by the user's words."""
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
# Run options that name a user or group, which only an image can have.
_NAMES_AN_ACCOUNT = re.compile("(--user=|--group-add=|-u=?)(?![0-9:]+$)")
# What only one container at a time can have: a port of the host, an address.
_EXCLUSIVE = frozenset({"publish", "p", "ip", "ip6", "mac-address"})
_EXCLUSIVE_NETWORK = re.compile("--net(work)?=.*(ip6?|mac-address)=")


class Process:
    """A docker command in a session of its own: the one place that starts a process.

    The session keeps a terminal's Ctrl-C away from docker, so that clean-up can finish. Leaving
    the `with` block ends what still runs of it.
    """

    def __init__(self, argv: Sequence[str | bytes], environment: Mapping[str, str]) -> None:
        self._started = time.monotonic()
        self.stood_still = 0.0  # seconds in which this process did not look, in gaps over GRACE
        try:
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env=environment,
            )
        except FileNotFoundError:
            raise EngineError(f"no program '{os.fsdecode(argv[0])}' found. {_PROGRAM_HINT}") from None
        except OSError as error:
            raise EngineError(f"'{os.fsdecode(argv[0])}' cannot be started: {error.strerror}") from None

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
        looked = self._started  # the command runs already, while this process may not
        with selectors.DefaultSelector() as selector:
            for name in ("stdout", "stderr"):
                selector.register(getattr(self._popen, name), selectors.EVENT_READ, name)
            while selector.get_map():
                ended = self.wait(0) is not None  # before the look at the pipes, or its last words were lost
                ready = selector.select(TICK)
                now = time.monotonic()
                if now - looked > GRACE:
                    self.stood_still += now - looked
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

    def head(self) -> str:
        """Return the first bytes alone, as text."""
        return self._head.decode(errors="replace")

    def text(self) -> str:
        """Return the stream, its middle left out where it is long."""
        tail = bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""
        left_out = self._size - len(self._head) - len(tail)
        gap = f"\n[… {left_out} bytes left out …]\n".encode() if left_out else b""
        return (bytes(self._head) + gap + tail).decode(errors="replace")


class Transcript:
    """How one `docker run` goes: what the container prints, its marks and when they came, and its end.

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
        self.seconds = 0.0  # from begin to end mark; without marks, from the start to the end
        # Of the docker program:
        self.stderr = Excerpt(CHUNK, 0)  # from before the begin mark
        self.over = ""  # the time limit that was over ("start", "check", "end"), or "stop"
        self.code: int | None = None  # negative for a signal; None where it did not end by itself
        self.stood_still = False  # this process, or the engine when the limit was over
        self.state: dict[str, Any] = {}  # what the engine says of a container that was kept

    def feed(self, data: bytes, now: float) -> None:
        """Take the next bytes, read at this time."""
        self._rest += data
        while True:
            mark = self._mark.search(self._rest)
            if not mark:
                break
            self._take(mark.start())
            self._rest = self._rest[mark.end() - mark.start() :]
            if mark["begin"]:
                self.begins += 1
                self.begun = now if self.begun is None else self.begun
            else:
                self.statuses.append(int(mark["status"]))
                self.ended = now if self.ended is None else self.ended
        self._take(max(len(self._rest) - self._held_back, 0))

    def close(self, now: float) -> None:
        """Take what was held back as output: no more is coming."""
        self._take(len(self._rest))
        # Less than 0 where the clock went back by the little that came before a gap was seen.
        self.seconds = max((now if self.ended is None else self.ended) - (self.begun or 0.0), 0.0)

    def limit_over(self, now: float) -> str:
        """Return the time limit that is over: "start", "check", "end", or "" for none."""
        if self.ended is not None:
            return "end" if now - self.ended > END_LIMIT else ""
        if self.begun is not None:
            return "check" if now - self.begun > self.timeout else ""
        return "start" if now > START_LIMIT else ""

    @property
    def amiss(self) -> str:
        """What is amiss, "" where it is proven that the check ran to its end."""
        if self.over:
            return f"the {self.over} took too long"
        if self.begins != 1 or len(self.statuses) != 1:
            return f"{self.begins} begin and {len(self.statuses)} end marks instead of one each"
        if self.statuses[0] != self.code:
            return f"the end mark says exit code {self.statuses[0]}, docker says {self.code}"
        return ""

    def output(self) -> str:
        """Return the output's head and tail."""
        return self._excerpt.text()

    def found(self) -> tuple[bool, ...]:
        """Return of each needle whether the output held it."""
        return tuple(at not in self._needles for at in range(self._count))

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


class Step(NamedTuple):
    """One step of a build; only a Dockerfile that forges some gives it several titles."""

    number: str  # "" for none
    of: str
    titles: list[str]
    output: Excerpt


class BuildLog:
    """The log of one `docker build`, line by line: its end, the step that failed, docker's last word.

    Without colors and the builder's advertising. `watch` hears each line, and whether it begins a step.
    """

    def __init__(self, watch: Callable[[str, bool], None] = lambda *_: None) -> None:
        self.builder = ""  # none, as long as docker has not sent the context
        self.stages = 0
        self.seconds = 0.0  # that the build took
        self.stood_still = False  # the engine, when its time was over
        self._watch = watch
        self._kept = Excerpt(0, KEPT_LOG)
        self._rest = {"stdout": b"", "stderr": b""}  # a line that has not ended yet
        self._steps: dict[str, Step] = {}  # by BuildKit's number; of the others the last, by ""
        self._step = ""  # under way
        self._failed: list[str] = []  # steps of BuildKit's
        self._said: collections.deque[str] = collections.deque(maxlen=100)  # docker's last lines on stderr

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

    @property
    def failed_step(self) -> Step:
        """The step that failed, else the one under way; one without a number where there is none."""
        name = self._failed[-1] if self._failed else self._step
        return self._steps.get(name) or Step("", "", [""], Excerpt(0, 0))

    @property
    def misses_source(self) -> bool:
        """Whether a COPY or ADD did not find what it was to take from the context."""
        is_copy = re.match("(COPY|ADD) (?!.*(--from=|://))", self.failed_step.titles[0])
        return bool(is_copy and SAYS_NO_SOURCE.search(self.last_word))

    @property
    def is_final(self) -> bool:
        """Whether a repetition would fail as well: a RUN by itself, a text that docker refuses, a source."""
        failed = SAYS_RUN_FAILED.search(self.last_word)
        if failed:
            return failed["code"] not in KILLED
        return self.misses_source or bool(SAYS_BAD_TEXT.search(self.last_word))

    @property
    def is_cut(self) -> bool:
        """Whether docker lost its connection in a RUN, of which it else says how it ended."""
        is_run = not self._failed and self.failed_step.titles[0].startswith("RUN ")
        word = self.last_word
        return bool(is_run and SAYS_CUT.match(word) and not SAYS_RUN_FAILED.search(word))

    @property
    def asks_registry(self) -> bool:
        """Whether all that failed asks a registry, and that did not say that it has no such image.

        By the titles of steps, which no RUN can print; with the legacy builder, where it can, docker's
        last word is then that the RUN failed.
        """
        word = self.last_word
        if SAYS_RUN_FAILED.search(word) or SAYS_NO_SUCH_IMAGE.search(word) or word.startswith("COPY failed"):
            return False
        if self.builder == "legacy" and not SAYS_REGISTRY.match(word):
            return False
        failed = [self._steps[name] for name in self._failed] or [self.failed_step]
        titles = [title for step in failed for title in step.titles]
        return self.builder in _ASKS_REGISTRY and all(map(_ASKS_REGISTRY[self.builder].match, titles))

    def text(self) -> str:
        """Return the log's end, and before it the beginning of the step that failed."""
        beginning, end = self.failed_step.output.head(), self._kept.text()
        return end if beginning in end else f"{beginning}[…]\n{end}"

    def message(self, context: str) -> str:
        """Return what a person would quote: the step, its exit code, and why; of a COPY where it looks."""
        step = self.failed_step
        word = re.sub("failed to solve(: | with frontend [^ ]+: )", "", self.last_word)
        failed = SAYS_RUN_FAILED.search(self.last_word)
        if failed:
            output = re.sub(r"(?m)^#\d+ (\d+\.\d+ )?", "", step.output.text())
            word = f"exit code {failed['code']}: {shown(telling_line(output), 160) or 'no output'}"
        elif self.misses_source:
            word += f". The build context was {shown(context)}; name another with --context DIR"
        title = shown(" ".join(step.titles[0].split()), 70)
        where = (
            f"step {step.number} of {step.of} ({title}): " if step.number else f"{title}: " if title else ""
        )
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
        is_quoted = self.builder == "legacy" and self._said  # a command, perhaps of several lines
        if stream == "stderr" and (is_quoted or not _NO_REASON.match(line)):
            self._said.append(line.strip())
        begins = BUILDERS[self.builder][1].match(line) if self.builder else None
        name = begins["vertex"] if begins and self.builder == "buildkit" else ""
        if begins and name and name in self._steps and not begins["place"]:  # a line of a step that is known
            begins = None
        step = self._steps.get(name)
        if begins:
            self._begin_step(name, begins)
        elif step and name and line.startswith(f"#{name} ERROR: "):
            self._failed.append(name)
        elif step and not _OF_THE_BUILDER.match(line) and not SAYS_RUN_FAILED.search(line):
            # What a RUN prints may lack its last line break.
            step.output.feed(
                f"{re.sub('Removing intermediate container [0-9a-f]{12}$', '', line)}\n".encode()
            )
        self._kept.feed(f"{line}\n".encode())
        self._watch(line, bool(begins))

    def _begin_step(self, name: str, begins: re.Match[str]) -> None:
        title = begins["title"]
        if name and name in self._steps:  # BuildKit repeats the title of a step that goes on
            self._steps[name].titles.append(title)
            return
        self.stages += title.startswith("FROM ")
        self._steps[name] = Step(begins["n"] or "", begins["of"] or "", [title], Excerpt(KEPT_STEP, KEPT_LOG))
        self._step = name


Answer = subprocess.CompletedProcess  # what a docker command that only asks or removes had to say


class Build(NamedTuple):
    """What came of `docker build`: `kind` is "" or that of the report's error; `seconds` it took."""

    kind: str
    message: str
    log: str  # its end
    builder: str
    seconds: float


class Engine:
    """The docker command line, the engine behind it, and what stands there under names of ours.

    A name tells whose it is (see _RUN), so that nothing need be written into an image.
    """

    def __init__(self, program: str, where: str | None, stop: Stop) -> None:
        self.program = program
        self.environment = {**os.environ, **_ENVIRONMENT}
        self.warnings: list[str] = []  # a short name and a sentence each, for the report
        # Known once it has answered:
        self.client = self.server = self.platform = ""  # versions
        self.cpus: int | None = None
        self.memory: int | None = None  # bytes
        self.is_podman = False  # which may be its own engine, and then names it once
        self.cannot: tuple[str, ...] = ()  # our default run options that it cannot have
        # Of this run, see begin():
        self.tag = ""  # of its image
        self.awaited: set[str] = set()  # containers that docker was told to make, and may still be making
        self._run = "not begun"  # what its names have in common
        self._numbers = itertools.count(1)
        self._context = ""  # of docker, where one was asked for
        self._stop = stop
        if where and "://" in where:
            self.environment.update(DOCKER_HOST=where, CONTAINER_HOST=where)  # docker's, podman's
            self.environment.pop("DOCKER_CONTEXT", None)
        elif where:
            self._context = self.environment["DOCKER_CONTEXT"] = where
            self.environment.pop("DOCKER_HOST", None)  # it would win

    def ask(
        self, *arguments: str, last: bool = False, limit: float | None = None, makes: str = ""
    ) -> Answer[str]:
        """Run a docker command and return its answer, whatever its exit code.

        Raises EngineError where there is no engine or no answer within `limit` seconds (default
        CALL_LIMIT), and Stopped where somebody asked for the end; the `last` calls, those of
        clean-up, go on until they ask again. Where the command `makes` a container, and gives no answer,
        that may still come.
        """
        limit = CALL_LIMIT if limit is None else limit
        stdout, stderr = Excerpt(KEPT_ANSWER, 0), Excerpt(CHUNK, 0)
        with Process((self.program, *arguments), self.environment) as process:
            for stream, data in process.read():
                (stdout if stream == "stdout" else stderr).feed(data)
                if self._stop.at_once or (self._stop.asked and not last):
                    raise Stopped
                if process.clock() > limit:
                    break
            code = process.wait(max(limit - process.clock(), TICK))
        if code is None:
            self.awaited.update({makes} if makes else ())
            raise EngineError(f"docker {arguments[0]} gave no answer within {limit:.0f} s")
        answer = Answer((self.program, *arguments), code, stdout.text(), stderr.text())
        if code != 0 and SAYS_NO_ENGINE.search(answer.stderr) and FROM_THE_ENGINE not in answer.stderr:
            raise _no_engine(answer.stderr)
        return answer

    def ask_json(self, *arguments: str) -> dict[str, Any]:
        """Return the JSON object that a docker command prints, {} where it prints none."""
        return _json_object(self.ask(*arguments).stdout)

    def connect(self, wait: float) -> None:
        """Learn what answers; raise EngineError where nothing does within `wait` seconds."""
        deadline = time.monotonic() + wait
        while True:
            try:
                answer = self.ask("version", "--format", "{{json .}}")
                versions = _json_object(answer.stdout)
                client = versions.get("Client") or {}
                server = versions.get("Server") or client
                if answer.returncode == 0 and server:
                    break
                if self._context and self.ask("context", "inspect", self._context).returncode != 0:
                    raise UsageError(f"docker has no context '{shown(self._context)}' (`docker context ls`)")
                raise _no_engine(answer.stderr)
            except EngineError as error:
                if time.monotonic() >= deadline or isinstance(error, UsageError):
                    raise
                time.sleep(TICK)
        self.is_podman = server is client or "BuiltTime" in client
        if self._context and self.is_podman:
            raise UsageError(f"podman knows no context '{shown(self._context)}'; name its engine by a URL")
        self.client, self.server = str(client.get("Version")), str(server.get("Version"))
        self.platform = str(server.get("OsArch") or f"{server.get('Os')}/{server.get('Arch')}")

    def begin(self, lifetime: float) -> None:
        """Learn what the engine has, and name this run, which may take `lifetime` seconds."""
        info = self.ask_json("info", "--format", "{{json .}}")
        host = info.get("host") or {}  # podman's
        self.cpus = info.get("NCPU") or host.get("cpus")
        self.memory = info.get("MemTotal") or host.get("memTotal")
        # A rootless podman without cgroups starts nothing that has a limit (containers/crun#160).
        if info.get("PidsLimit") is False or "pids" not in host.get("cgroupControllers", ["pids"]):
            self.cannot = ("pids-limit",)
            self.warn("no-pids-limit", "--pids-limit is left out, since the engine can set none")
        now = _seconds_since_1970(str(info.get("SystemTime")))
        expires = int(min(now + lifetime + MARGIN, 999_999_999_999))
        self._run = f"{os.urandom(6).hex()}-{expires}-{'.'.join(_owner())}"
        self.tag = f"{REPOSITORY}:{self._run}"
        self._sweep(now)

    def new_name(self, prefix: str = "-") -> str:
        """Return a name for a container (or, after ":", the tag of a control) that is about to be made."""
        return f"{REPOSITORY}{prefix}{self._run}-{next(self._numbers)}"

    def build(
        self, tag: str, dockerfile: str, context: str, options: Sequence[str], limit: float, log: BuildLog
    ) -> int | None:
        """Build once: fill `log` and return the exit code, None where it took over `limit` seconds.

        Raises EngineError where docker was killed, and Stopped.
        """
        ours = ("--tag", tag, "--file", os.path.abspath(dockerfile), os.path.abspath(context))
        argv = (self.program, "build", *BUILD_FLAGS.with_defaults(options), *ours)
        with Process(argv, self.environment) as process:
            try:
                for stream, data in process.read():
                    if stream:
                        log.feed(stream, data)
                    if self._stop.asked:
                        raise Stopped
                    if process.clock() > limit + (GRACE if stream else 0.0):
                        log.stood_still = self.stands_still()
                        return None
                code = process.wait(END_LIMIT)
            finally:
                log.close()
                log.seconds = process.clock()
        if code is None:
            raise EngineError(f"docker build closed its output, but did not exit for {END_LIMIT:.0f} s")
        if code < 0:
            raise EngineError(f"the docker program was killed during the build (signal {-code})")
        return code

    def stands_still(self) -> bool:
        """Whether it does not say within SLOW_ANSWER seconds that it is there."""
        try:
            self.ask("version", limit=SLOW_ANSWER)
        except EngineError:
            return True
        return False

    def state(self, container: str) -> dict[str, Any]:
        """Return what the engine says of a container, {} for nothing or where it does not answer."""
        with contextlib.suppress(EngineError):
            return self.ask_json("container", "inspect", "--format", "{{json .State}}", container)
        return {}

    def warn(self, name: str, text: str) -> None:
        """Note a warning for the report, once; those about rubric and image join it in _report()."""
        warning = f"{name}: {text}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def remove(self, kind: str, name: str, limit: float | None = None, *, force: bool = False) -> str:
        """Remove a "container", with its anonymous volumes, or an "image"; return "", or why it stays.

        Raises EngineError where the engine gives no answer.
        """
        options = ("--force", "--volumes") if kind == "container" else ("--force",) if force else ()
        answer = self.ask(kind, "rm", *options, name, last=True, limit=limit)
        is_gone = answer.returncode == 0 or SAYS_GONE.search(answer.stderr)
        if answer.stdout.strip():  # what was removed, and so there
            self.awaited.discard(name)
        return "" if is_gone else shown(last_line(answer.stderr)) or f"{kind} rm failed"

    def clean_up(self) -> Iterator[str]:
        """Remove all that this run made, containers first; yield what stays, and why.

        That takes CLEAN_UP_LIMIT seconds at most, and a little more for the image. What docker may still be
        making was waited for where it was started, and is not again.
        """
        deadline, pause = time.monotonic() + CLEAN_UP_LIMIT, TICK
        while True:
            stays: dict[str, str] = {}
            for kind in ("container", "image"):
                try:
                    self._remove_own(kind, deadline, stays)
                except (Stopped, EngineError) as error:
                    each = f"each container named {REPOSITORY}-{self._run}-N"
                    what = f"image {self.tag}" if kind == "image" else each
                    stays[what] = str(error) or "clean-up was interrupted"
            if not stays or self._stop.at_once or time.monotonic() + pause > deadline:
                break
            time.sleep(pause)
            pause = min(2 * pause, 2.0)
        for name in self.awaited:
            stays[f"container {name}"] = "docker may still be making it"
            stays[f"image {self.tag}"] = "docker may still be making a container of it"
        yield from (f"{thing} stays: {why}" for thing, why in sorted(stays.items()))

    def _remove_own(self, kind: str, deadline: float, stays: dict[str, str]) -> None:
        """Try to remove what this run made of a kind, and note what stays; images also after the deadline."""
        for name, run in self._ours(kind):
            # An image whose container is still being made, or stays, would only lose its name.
            if not run[0].startswith(self._run) or (kind == "image" and self.awaited):
                continue
            rest, why = deadline - time.monotonic(), "no time was left"
            if rest > 0 or kind == "image":
                try:
                    limit = min(rest, CALL_LIMIT) if kind == "container" else max(rest, SWEEP_LIMIT)
                    why = self.remove(kind, name, limit, force=not stays)
                except EngineError as error:
                    why = str(error)
            if why:
                stays[f"{kind} {name}"] = why

    def _sweep(self, now: float) -> None:
        """Remove the leftovers of killed runs, one try each; what stays is a warning."""
        for kind in ("container", "image"):
            for name, run in self._ours(kind):
                if not _is_dead(run, now):
                    continue
                try:
                    why = self.remove(kind, name, SWEEP_LIMIT)
                except EngineError as error:
                    self.warn("leftover", f"{kind} {name} of a killed run stays: {error}")
                    return
                if why and "in progress" not in why:  # another run may be sweeping, too
                    self.warn("leftover", f"{kind} {name} of a killed run stays: {why}")

    def _ours(self, kind: str) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield name and match of _RUN of each container, or image, that stands under a name of ours."""
        argv: tuple[str, ...] = ("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", REPOSITORY)
        if kind == "container":
            argv = ("ps", "--all", "--filter", f"name={REPOSITORY}-", "--format", "{{.Names}}")
        prefix = f"{REPOSITORY}-" if kind == "container" else f"{REPOSITORY}:"
        for line in self.ask(*argv, last=True).stdout.split():
            name = line.rpartition("localhost/")[2]  # podman's word for an image without a registry
            run = _RUN.fullmatch(name[len(prefix) :])
            if run and name.startswith(prefix) and (run["number"] or kind == "image"):
                yield name, run


class Ladder:
    """Engine or Dockerfile? Climbed where something failed again; the first rung that fails is to blame.

    What decides is asked of the engine, while no other container of this run is alive. Each rung
    raises EngineError or a kind of it; beyond the last, the Dockerfile is to blame.
    """

    def __init__(self, engine: Engine, build_options: Sequence[str], run_options: Sequence[str]) -> None:
        self._engine = engine
        self._build_options, self._run_options = build_options, run_options

    def after_build(self, code: int | None, log: BuildLog, context: str) -> None:
        """Climb it for a build that failed, or timed out (None)."""
        self.ask_engine()
        self.ask_build_options()
        if not log.builder:
            self._ask_context(context)
        if code is not None and log.asks_registry:
            self._ask_docker_hub()

    def ask_engine(self) -> None:
        """Raise EngineError where no engine answers, or it cannot build and start the control."""
        self._engine.connect(RETURN_LIMIT)
        why = self._control()
        if why:
            raise EngineError(f"the docker engine fails: {why}")

    def ask_build_options(self) -> None:
        """Raise UsageError where a RUN cannot have the user's options (but --target, a stage of theirs)."""
        options = BUILD_FLAGS.without(self._build_options, ["target"])
        if not options:
            return
        if self._engine.is_podman:  # whose refusal does not name the program
            why = self._control(options)
        else:
            absent = f"/{os.urandom(16).hex()}"
            with self._built(f'FROM scratch\nRUN ["{absent}"]\n', options) as (_, code, log):
                is_named = f'exec: "{absent}"' in log.text() or _sees_no_folder(log)
                said = log.last_word if code is not None else f"no end within {START_LIMIT:g} s"
                why = "" if is_named else said
        if why:
            raise UsageError(f"docker refuses the build options: {shown(why, 300)}")

    def ask_run_options(self) -> None:
        """Raise UsageError where no container can have the user's options.

        Without users and groups given by name, which are the image's; on the platform that they ask for.
        """
        options = [word for word in self._run_options if not _NAMES_AN_ACCOUNT.match(word)]
        words = (*self._build_options, *self._run_options)
        platform = [word for word in words if word.startswith("--platform=")][-1:]
        why = self._control(platform, options) if options else ""
        if why:
            raise UsageError(f"docker refuses the run options: {why}")

    def _ask_context(self, context: str) -> None:
        """Raise UsageError where docker does not take the context with a Dockerfile of ours, either."""
        with self._built(f"FROM scratch\nLABEL content={os.urandom(16).hex()}\n", (), context) as (_, _, log):
            if not log.builder:
                raise UsageError(f"docker refuses the build context: {shown(log.last_word, 300)}")

    def _ask_docker_hub(self) -> None:
        """Raise EngineError ("registry") where Docker Hub does not say that it lacks an impossible name."""
        name = f"docker.io/library/{REPOSITORY}-asks-{os.urandom(6).hex()}:latest"
        try:
            stderr = self._engine.ask("pull", name, limit=PULL_LIMIT).stderr
        except EngineError as error:  # no answer; the engine itself has just passed
            stderr = str(error)
        if not SAYS_NO_SUCH_IMAGE.search(stderr):
            raise EngineError(f"Docker Hub is out of reach: {shown(last_line(stderr), 300)}", "registry")

    def _control(self, build_options: Sequence[str] = (), run_options: Sequence[str] = ()) -> str:
        """Build and start the control; return "" where that works, else what does not, in docker's words.

        It is an image FROM scratch with fresh content, and a container of it whose program is not there:
        an engine that works builds the one, and names the other's path in its refusal, or says that it
        was started (with --init). An engine that gives no answer to a removal fails, too.
        """
        absent, name = f"/{os.urandom(16).hex()}", self._engine.new_name()
        with self._built("FROM scratch\nCOPY content /\n", build_options) as (tag, code, log):
            if code != 0:
                words = shown(log.last_word, 300)
                return "" if _sees_no_folder(log) else f"it cannot build a minimal image: {words}"
            options = RUN_FLAGS.with_defaults(run_options, omit=self._engine.cannot)
            # Detached: docker, of podman's engine, tells of an attached one only that it cannot attach.
            argv = ("run", "--detach", "--entrypoint", absent, *options, "--name", name, tag)
            stderr = self._engine.ask(*argv, last=True, limit=START_LIMIT, makes=name).stderr
            is_started = absent in stderr or _was_started(self._engine.state(name))
            self._engine.remove("container", name)
        words = shown(_of_docker(stderr), 300)
        return "" if is_started else f"it cannot start a container of a minimal image: {words}"

    @contextlib.contextmanager
    def _built(
        self, dockerfile: str, options: Sequence[str], context: str = ""
    ) -> Iterator[tuple[str, int | None, BuildLog]]:
        """Build a Dockerfile of ours, beside which lies fresh `content`; yield tag, exit code and log."""
        import tempfile

        tag, log = self._engine.new_name(":"), BuildLog()
        with contextlib.ExitStack() as stack:
            try:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                for name, content in (
                    ("Dockerfile", dockerfile.encode()),
                    ("content", os.urandom(CONTROL_SIZE)),
                ):
                    with open(os.path.join(folder, name), "wb") as file:
                        file.write(content)
            except OSError as error:
                raise EngineError(f"no temporary folder to try the engine with: {error.strerror}") from None
            path = os.path.join(folder, "Dockerfile")
            code = self._engine.build(tag, path, context or folder, options, START_LIMIT, log)
        try:
            yield tag, code, log
        finally:
            if code == 0:
                self._engine.remove("image", tag)


class Builder:
    """Builds the image under test: what failed is repeated, then the ladder is climbed."""

    def __init__(self, engine: Engine, ladder: Ladder, stop: Stop, options: Sequence[str]) -> None:
        self._engine, self._ladder, self._stop, self._options = engine, ladder, stop, options
        self._dockerfile = self._context = ""
        self._limit = 0.0  # seconds
        self._log = BuildLog()  # of the attempt that counts

    def build(self, dockerfile: str, context: str, limit: float, watch: Callable[[str, bool], None]) -> Build:
        """Build the image; `watch` hears each line of the log, `limit` is in seconds.

        Raises nothing for what goes wrong: it is in the Build's `kind` and `message`.
        """
        started, kind, message = time.monotonic(), "", "built"
        self._dockerfile, self._context, self._limit = dockerfile, context, limit
        try:
            code = self._attempt(watch)
            if code != 0:
                self._ladder.after_build(code, self._log, context)
            if code is None:
                kind, message = "build_timeout", f"the build took over {limit:g} s and was stopped"
            elif code != 0 and self._log.is_cut:
                kind, message = "engine", f"docker lost its connection in the build: {self._log.last_word}"
            elif code != 0:
                kind, message = "build", self._log.message(context)
            elif not self.image():
                raise EngineError(  # noqa: TRY301 - caught below as any other
                    "docker build succeeded, but the engine has no such image: the builder did not "
                    "load it (a docker-container builder needs `docker buildx use default`)"
                )
        except Stopped:
            kind, message = "interrupted", "the build was interrupted"
        except EngineError as error:
            kind, message = error.kind, str(error)
        log = self._log
        if log.builder in _CACHE_IS_IMAGES and (kind or log.stages > 1):
            self._engine.warn(
                "cached-layers",
                f"the {log.builder} builder's cache may hold new images without a name; "
                "`docker image prune` removes all such images, best while nothing is built",
            )
        return Build(kind, message, log.text(), log.builder or "unknown", time.monotonic() - started)

    def image(self) -> dict[str, Any]:
        """Return what the engine says of our image (id, size in bytes, env, layers), {} where it has none."""
        fields = {"id": "ID" if self._engine.is_podman else "Id", "size": "Size"}
        fields.update(env="Config.Env", layers="RootFS.Layers")  # not all: labels can be many
        form = ", ".join(f'"{key}": {{{{json .{field}}}}}' for key, field in fields.items())
        answer = self._engine.ask("image", "inspect", "--format", f"{{{form}}}", self._engine.tag)
        # A very large Env is cut off, and then this is no JSON; the image is there all the same.
        return {} if answer.returncode else {"id": None, **_json_object(answer.stdout)}

    def make_sure_of_image(self) -> None:
        """Build an image that is gone once more; raise EngineError where that fails."""
        if not self.image() and self._attempt(lambda *_: None) != 0:
            raise EngineError("the image that was built is gone from the engine")

    def _attempt(self, watch: Callable[[str, bool], None]) -> int | None:
        """Build three times at most; return the exit code that counts, None for a time limit.

        So registries, cut connections, an engine that restarts, and layers that another run's clean-up
        took are met. Where a repetition runs out of time, the first failure stands. A build whose time
        was over while the engine stood still has all of it once more, and then that counts.
        """
        rest = self._limit
        failures: list[tuple[int | EngineError, BuildLog]] = []
        for pause in (0.0, 0.0, BUILD_PAUSE):
            if failures:
                watch("the build failed, and is tried once more", True)  # noqa: FBT003 - a callback's
                self._engine.connect(RETURN_LIMIT)
                self._pause(pause)
            self._log = log = BuildLog(watch)
            outcome: int | EngineError | None
            try:
                outcome = self._engine.build(
                    self._engine.tag, self._dockerfile, self._context, self._options, rest, log
                )
            except EngineError as error:
                outcome = error
            rest -= log.seconds
            if outcome is None and log.stood_still and not failures:
                outcome = EngineError("the docker engine stood still when the build's time was over")
                rest = self._limit
            elif outcome == 0 or (outcome is None and (not failures or failures[0][1].stood_still)):
                return outcome
            elif outcome is None:
                outcome, self._log = failures[0]
                break
            failures.append((outcome, log))
            if not isinstance(outcome, EngineError) and log.is_final:
                break
        if isinstance(outcome, EngineError):
            raise outcome
        return outcome

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._stop.asked:
                raise Stopped
            time.sleep(TICK)


class Docker:
    """One run: its image, its containers, and their end.

    Entering the `with` block finds the engine and sweeps, leaving it removes all that was made; what
    stays is a warning. `lifetime` is how long, in seconds, the run can take.
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
        self.ladder = Ladder(engine, build_options, run_options)
        self.builder = Builder(engine, self.ladder, stop, build_options)
        self._engine, self._stop = engine, stop
        self._lifetime, self._wait = lifetime, wait
        self._options = {"build": build_options, "run": run_options}
        self._has_begun = False  # any container of the image
        self._unstartable: Run | None = None  # the answer to every test, where none can be started
        exclusive = _EXCLUSIVE & RUN_FLAGS.set_by(run_options)
        exclusive |= {word for word in run_options if _EXCLUSIVE_NETWORK.match(word)}
        # One container at a time, or as many as the runner likes.
        self._exclusive_lock: Any = threading.Lock() if exclusive else contextlib.nullcontext()

    def __enter__(self) -> Docker:
        """Raise EngineError where there is no docker program or no engine, UsageError for bad options."""
        self._engine.connect(self._wait)
        for step, options in self._options.items():  # --help parses them, and does nothing
            answer = self._engine.ask(step, *options, "--help") if options else None
            if answer and answer.returncode != 0:
                lines = (line for line in answer.stderr.splitlines() if not _ADVERTISING.match(line))
                words = shown(" ".join(" ".join(lines).split()), 300)
                raise UsageError(f"docker refuses the {step} options: {words}")
        self._engine.begin(self._lifetime)
        return self

    def __exit__(self, *exception: object) -> None:
        for leftover in self._engine.clean_up():
            self._engine.warn("leftover", leftover)

    def probe(self) -> None:
        """Look at /etc/passwd and /etc/group, which docker opens when it starts a container.

        If one is a pipe, that start and every later removal on the engine hang for ever. `docker create`
        and `docker cp` open neither, and take 0.2 s.
        """
        name = self._engine.new_name()
        argv = ("create", "--entrypoint", "/bin/sh", "--network=none", "--name", name, self._engine.tag)
        with contextlib.suppress(EngineError):  # which is for the tests to find out
            self._engine.ask(*argv, last=True, limit=CREATE_LIMIT, makes=name)
            for path in ("/etc/passwd", "/etc/group"):
                what = self._what_blocks(name, path)
                if what:
                    self._unstartable = Run(FAILED, f"the image cannot be started: {path} is {what}")
            self._engine.remove("container", name)

    def run(self, script: Script, timeout: float, *, network: bool, retry: bool = False) -> Run:
        """Run a script in a new container; `timeout`, in seconds, counts from its begin mark.

        A first run without proof is IN_DOUBT. A retry never is: it waits for an engine that is away, its
        container is kept to be asked about, and no other is alive. Raises UsageError where docker
        refuses the user's run options. What else goes wrong is in the Run's `ending` and `why`.
        """
        try:
            with self._exclusive_lock:
                if retry and not self._unstartable:
                    self._engine.connect(RETURN_LIMIT)
                    self.builder.make_sure_of_image()
                if self._unstartable:
                    return self._unstartable
                seen = self._container(script, timeout, network=network, keep=retry)
                self._has_begun = self._has_begun or seen.begins > 0
                return self._judged(seen, retry=retry)
        except UsageError:
            raise
        except EngineError as error:
            return Run(ERROR if retry else IN_DOUBT, str(error))
        except Stopped:
            return Run(NOT_RUN, "the evaluation was interrupted")

    def keep(self, name: str) -> str:
        """Give the image a second tag, with `name` in it, that is never removed; return the tag."""
        part = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "image"
        tag = f"{REPOSITORY}:{part}-{os.urandom(6).hex()}-kept"
        answer = self._engine.ask("image", "tag", self._engine.tag, tag, last=True)
        if answer.returncode != 0:
            raise EngineError(f"the image could not be kept: {shown(last_line(answer.stderr))}")
        return tag

    def _what_blocks(self, container: str, path: str) -> str:
        """Say what a file is, links followed, that docker might wait for when it opens it; else return ""."""
        import tarfile
        from io import BytesIO

        for _ in range(40):  # as many links as Linux follows
            archive = b""
            argv = (self._engine.program, "cp", f"{container}:{path}", "-")
            with Process(argv, self._engine.environment) as process:
                for stream, data in process.read():
                    archive += data if stream == "stdout" else b""
                    if len(archive) >= CHUNK or process.clock() > CALL_LIMIT or self._stop.asked:
                        break
            try:
                file = tarfile.open(fileobj=BytesIO(archive), mode="r|").next()  # noqa: SIM115 - in memory
            except tarfile.TarError:
                file = None  # not there
            if not file or not file.issym():
                return _BLOCKING.get(file.type, "") if file else ""
            path = os.path.normpath(os.path.join(os.path.dirname(path), file.linkname))
            if path.startswith(("/proc/", "/dev/", "/sys/")):  # which a container has, and its image has not
                return f"a link to {shown(path, 80)}"
        return ""

    def _container(self, script: Script, timeout: float, *, network: bool, keep: bool) -> Transcript:
        """Start one container, read it to its end or a time limit, and remove it; `keep` it for its State."""
        if self._stop.asked:
            raise Stopped
        name, nonce, since = self._engine.new_name(), os.urandom(16).hex(), 0.0
        argv = self._argv(name, nonce, script, network=network, keep=keep)
        seen, process = Transcript(script, nonce, timeout), Process(argv, self._engine.environment)
        try:
            with process:
                for stream, data in process.read():
                    now = process.clock()
                    if stream == "stdout":
                        seen.feed(data, now)
                    elif not seen.begins:
                        seen.stderr.feed(data)
                    if not seen.over:
                        since, limit = now, seen.limit_over(now - (GRACE if stream else 0.0))
                        seen.over = "stop" if self._stop.asked else limit
                        if seen.over == "check":  # asked before anything is removed
                            seen.stood_still = self._engine.stands_still()
                            continue  # to what an engine that stood still has to say now
                    # What docker is still making cannot be removed, so it is waited for.
                    is_read = seen.begins and (not stream or now - since > GRACE or seen.over == "stop")
                    if seen.over and (is_read or now - since > CREATE_LIMIT or self._stop.at_once):
                        break
                seen.code = process.wait(0 if seen.over else END_LIMIT)
                seen.over = seen.over or ("end" if seen.code is None else "")
                has_ended = seen.over == "check" and seen.ended is not None  # in time, or a little late
                seen.stood_still |= has_ended or process.stood_still > STANDSTILL
                process.kill()  # before its container, which could not be removed
            seen.close(process.clock())
            if seen.over == "stop":
                raise Stopped
            if keep and seen.amiss and seen.over != "check":
                seen.state = self._engine.state(name)
        finally:
            if seen.code is None and not seen.begins:
                self._engine.awaited.add(name)
            if keep or seen.amiss:
                with contextlib.suppress(EngineError, Stopped):  # the end of the run tries again
                    self._engine.remove("container", name)
        return seen

    def _argv(
        self, name: str, nonce: str, script: Script, *, network: bool, keep: bool
    ) -> tuple[str | bytes, ...]:
        """Return the command, in which our `--name` follows the user's own options.

        An option that lacks its value swallows that word, and docker then finds no image where it looks
        for one, before anything is made.
        """
        extra = () if network else (("network", "--network=none"),)
        words = RUN_FLAGS.with_defaults(self._options["run"], extra, omit=self._engine.cannot)
        ours = ("--entrypoint", "/bin/sh", *(() if keep else ("--rm",)))
        shell = ("-c", _WRAPPER.format(text=script.text), "/bin/sh", nonce)
        arguments = (argument.encode() for argument in script.arguments)  # UTF-8 whatever the locale
        image = ("--name", name, self._engine.tag)
        return (self._engine.program, "run", *ours, *words, *image, *shell, *arguments)

    def _judged(self, seen: Transcript, *, retry: bool) -> Run:
        """Turn a container into a Run: without proof IN_DOUBT, and on a retry why there is none."""
        if seen.over and seen.stood_still and not retry:
            return Run(IN_DOUBT, "the engine or this machine stood still when the time was over")
        if seen.over == "check":
            why = f"timed out: no end within {seen.timeout:g} s; the container was killed"
            return Run(TIMEOUT, why, output=seen.output(), seconds=seen.seconds)
        if not seen.amiss:
            return Run(FINISHED, "", seen.code, seen.found(), seen.output(), seen.seconds)
        if not retry:
            return Run(IN_DOUBT, seen.amiss)
        was_started, code = _was_started(seen.state), seen.code
        disagrees = was_started and (seen.state.get("Running") or seen.state.get("ExitCode") != code)
        if code is not None and (code < 0 or disagrees):
            raise EngineError(
                "the connection to the docker engine was lost, or the docker program was killed"
            )
        if was_started:
            return Run(FAILED, self._why_no_proof(seen), output=seen.output(), seconds=seen.seconds)
        return self._why_not_started(seen)

    def _why_no_proof(self, seen: Transcript) -> str:
        """Say what a container that was started did amiss."""
        why = {
            "start": f"the image's /bin/sh was started, but did not begin the check for {START_LIMIT:.0f} s",
            "end": f"the image's /bin/sh went on for {END_LIMIT:.0f} s after the end of the check",
        }.get(seen.over, f"no proof that the check ran to its end: {seen.amiss} (exit code {seen.code})")
        if not seen.begins and not seen.over:
            why = f"the image's /bin/sh ended without running the check (exit code {seen.code})"
        return f"{why}; the container ran out of memory" if seen.state.get("OOMKilled") else why

    def _why_not_started(self, seen: Transcript) -> Run:
        """Climb the ladder; where it ends at the image, remember that unless a container of it has begun."""
        self.ladder.ask_engine()
        self.ladder.ask_run_options()
        said = " ".join((str(seen.state.get("Error") or "") or _of_docker(seen.stderr.text())).split())
        said = re.sub(".*(Error response from daemon|unable to start container process): ", "", said)
        options = " ".join(self._options["run"])
        what = f"the image cannot be started{f' with {shown(options)}' if options else ''}"
        if seen.begins:
            what, said = "no proof that the check ran to its end", "the engine knows nothing of the container"
        run = Run(
            FAILED, f"{what}: {shown(said, 400) or f'docker did not start it within {START_LIMIT:.0f} s'}"
        )
        self._unstartable = None if self._has_begun else run
        return run


def _no_engine(stderr: str) -> EngineError:
    """Return the error that says that no engine answers, docker's own words, and what to do."""
    return EngineError(f"no docker engine answers ({shown(last_line(stderr), 300)}). {_ENGINE_HINT}")


def _json_object(text: str) -> dict[str, Any]:
    """Return the JSON object that docker printed, {} where it is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _of_docker(stderr: str) -> str:
    """Return docker's own lines of what stood on stderr before a container began, else the last."""
    lines = [line for line in stderr.splitlines() if line.startswith(("docker:", "Error:"))]
    return " ".join(lines) or last_line(stderr)


def _sees_no_folder(log: BuildLog) -> bool:
    """Whether docker (one from a snap) sees no temporary folders: nothing is known of the engine then."""
    return not log.builder and bool(SAYS_NO_FOLDER.search(log.last_word))


def _was_started(state: Mapping[str, Any]) -> bool:
    """Whether the engine ever started a container; else that time, in its State, is 0001-01-01."""
    return not str(state.get("StartedAt") or "0001").startswith("0001")


def _seconds_since_1970(time_stamp: str) -> float:
    """Return the time that `docker info` tells; now, where it tells none (podman's)."""
    parts = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", time_stamp)
    if not parts:
        return time.time()
    zone = "+00:00" if parts[2] == "Z" else parts[2]
    return datetime.datetime.fromisoformat(parts[1] + zone).timestamp()


def _owner() -> tuple[str, str, str, str]:
    """Return the host's boot, pid namespace, pid and start time of this process; "" for what is not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip().replace("-", "")[:12]
        space = re.sub("[^0-9]", "", os.readlink("/proc/self/ns/pid"))
    except OSError:
        return "", "", "", ""
    return boot, space, str(os.getpid()), _start_time(os.getpid())


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


def _is_dead(run: re.Match[str], now: float) -> bool:
    """Tell whether a run is over: by its process on the same host, else by the engine's clock."""
    boot, space, *_ = _owner()
    if boot and (run["boot"], run["space"]) == (boot, space) and run["pid"]:
        start_time = _start_time(int(run["pid"]))
        if start_time:
            return start_time != run["start"]
    return float(run["expires"]) < now


# ---------------------------------------------------------------------------------------------
# Room 5: Report
# ---------------------------------------------------------------------------------------------

Report = Dict[str, Any]  # what rubrics/schema/report.schema.json describes, keys in that order
Row = Dict[str, Any]  # of its `test_results`
FAILURES = (FAILED, TIMEOUT, UNRESOLVABLE, ERROR)  # statuses that say more than that a test did not run
# The kinds of error that leave no score, and why; such a report is evaluated again by --resume.
NO_SCORE = {
    "engine": "the docker engine failed; evaluate again",
    "registry": "a registry is out of reach; evaluate again",
    "usage": "docker refuses an option or the build context",
    "interrupted": "the evaluation was interrupted",
}


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


def score_line(report: Report) -> str:
    """Return the counts and the score in one line, or that there is none."""
    summary, error = report["summary"], report["error"]
    if error and error["kind"] in NO_SCORE:
        return f"no score: {NO_SCORE[error['kind']]}"
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
        "timestamp": report["environment"]["started_at"][:19],
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
    lines = [f"### {title}", "", score_line(report), ""]
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
    target, stream = os.path.realpath(path), _stream(path)
    folder = os.path.dirname(target)
    try:
        if os.path.isdir(path):
            raise EvaluationError(f"{path}: a folder; expected a file for the report")
        if isinstance(stream, int):
            os.fstat(stream)  # raises where it is not open
        elif stream is None:
            os.makedirs(folder, exist_ok=True)
            with _new_file(target) as file:
                file.write(bytes(CHUNK))  # a full disk may have room for an empty file
        # A stream is opened as it is; a sticky folder lets nobody replace a file of somebody else's.
        is_sticky = os.path.exists(target) and os.stat(folder).st_mode & stat.S_ISVTX
        is_theirs = is_sticky and os.stat(target).st_uid != os.geteuid()
        if (isinstance(stream, str) or is_theirs) and not os.access(target, os.W_OK):
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
        target, stream = os.path.realpath(path), _stream(path)
        if stream is not None:
            with open(stream, "ab", closefd=isinstance(stream, str)) as file:
                file.write(data)
            return
        try:
            with _new_file(target, replace=True) as file:
                file.write(data)
        except OSError as error:
            if error.errno not in _NOT_REPLACED or not os.path.exists(target):
                raise
            with open(target, "r+b") as file:
                file.write(data)
                file.truncate()
    except OSError as error:
        raise EvaluationError(f"{path}: the report cannot be written: {error.strerror}") from None


def _stream(path: str) -> int | str | None:
    """Return the number of our open file that a path leads to (/dev/stdout), a pipe, a device, or None."""
    link = os.path.realpath(os.path.dirname(path) or ".") + "/" + os.path.basename(path)
    link = os.readlink(link) if os.path.islink(link) and not link.startswith("/proc/") else link
    number = re.fullmatch(rf"/(?:proc/(?:self|{os.getpid()})|dev)/fd/([0-9]+)", link)
    if number:
        return int(number[1])
    return path if os.path.exists(path) and not os.path.isfile(path) else None


@contextlib.contextmanager
def _new_file(target: str, *, replace: bool = False) -> Iterator[Any]:
    """Yield a new file beside `target`, which takes its place if it is to, and else goes."""
    temporary = f"{target}.{os.getpid()}-{threading.get_ident()}.tmp"
    try:
        with open(temporary, "wb") as file:
            yield file
        if replace:
            os.replace(temporary, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


# ---------------------------------------------------------------------------------------------
# Room 6: Evaluation
# ---------------------------------------------------------------------------------------------

BUILD_TIMEOUT = 3600.0  # seconds, unless asked otherwise
LOOKS_IN_PARALLEL = min(4, os.cpu_count() or 1)
FAULTS_IN_A_ROW = 2  # engine faults after which the rest is not run
START_ALLOWANCE = 2 * START_LIMIT  # seconds of a test's share in the life of a run, beside its timeout

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
    others, and what is in doubt, is retried once, after its wave and alone.
    """

    def __init__(
        self,
        rubric: Rubric,
        run: Callable[..., Run],
        stop: Stop,
        jobs: int,
        events: Events,
    ) -> None:
        self.rows: dict[str, Row] = {}  # the results so far, by id
        self._tests, self._unresolvable = rubric.tests, rubric.unresolvable
        self._run = run  # Docker.run
        self._stop = stop
        self._jobs = jobs
        self._events = events
        self._requirers: dict[str, list[Test]] = collections.defaultdict(list)
        for test in self._tests:
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
            for test in self._run_wave(wave, LOOKS_IN_PARALLEL if looks else self._jobs):
                self._run_wave([test], 1, retry=True)
        faults = f"after {FAULTS_IN_A_ROW} engine faults in a row"
        why = "the evaluation was interrupted" if self._stop.asked else faults
        for test in self._tests:
            if test.id not in self.rows:
                self._settle(test, Run(NOT_RUN, f"not run: {why}"))
        return self.rows

    def _run_wave(self, wave: Sequence[Test], limit: int, *, retry: bool = False) -> list[Test]:
        """Run tests, at most `limit` in parallel; return those to be retried alone."""
        from concurrent import futures

        waiting = collections.deque(wave)
        running: dict[Any, Test] = {}
        to_retry: list[Test] = []
        with futures.ThreadPoolExecutor(limit) as pool:
            while True:
                while waiting and len(running) < limit and not self._is_over():
                    test = waiting.popleft()
                    self._events.started(test)
                    options = {"network": not test.check.looks_only, "retry": retry}
                    running[pool.submit(self._run, test.check.script(), test.timeout, **options)] = test
                if not running:
                    return to_retry
                for future in futures.wait(running, return_when=futures.FIRST_COMPLETED).done:
                    test, run = running.pop(future), future.result()
                    has_company = len(wave) > 1 and limit > 1
                    if run.ending == IN_DOUBT or (run.ending == TIMEOUT and has_company):
                        to_retry.append(test)
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
        return self._stop.asked or self._faults >= FAULTS_IN_A_ROW


class Options(NamedTuple):
    """What an evaluation can be told, in the words of evaluate() and of the command line.

    `rubric` defaults to rubrics/<repo>.json, `context` to the Dockerfile's folder; `build_timeout` and
    `wait` are in seconds; `build_options` and `run_options` are words for docker, such as
    "--memory=2g"; `engine` is a URL or a docker context.
    """

    dockerfile: str
    repo: str
    rubric: str | None = None
    output: str | None = None
    context: str | None = None
    build_timeout: float = BUILD_TIMEOUT
    jobs: int = 1
    build_options: Sequence[str] = ()
    run_options: Sequence[str] = ()
    docker: str = "docker"
    engine: str | None = None
    wait: float = 0.0
    resume: bool = False
    junit: str | None = None
    keep_image: bool = False

    def checked(self) -> Options:
        """Return them with their defaults filled in; raise ValueError for what makes no sense."""
        if not 0 < self.build_timeout < math.inf:
            raise ValueError(f"build timeout {self.build_timeout!r}: expected a number of seconds over 0")
        if not 0 <= self.wait < math.inf:
            raise ValueError(f"wait {self.wait!r}: expected a number of seconds")
        if isinstance(self.jobs, bool) or not isinstance(self.jobs, int) or self.jobs < 1:
            raise ValueError(f"jobs {self.jobs!r}: expected a whole number of at least 1")
        BUILD_FLAGS.check("build_options", self.build_options)
        RUN_FLAGS.check("run_options", self.run_options)
        if self.resume and not self.output:
            raise ValueError("resume: the report to resume from is that of --output")
        dockerfile = os.fspath(self.dockerfile)
        return self._replace(
            dockerfile=dockerfile,
            rubric=os.fspath(self.rubric or default_rubric(self.repo)),
            output=os.fspath(self.output) if self.output else None,
            context=os.fspath(self.context or os.path.dirname(dockerfile) or "."),
            build_options=tuple(self.build_options),
            run_options=tuple(self.run_options),
            junit=os.fspath(self.junit) if self.junit else None,
        )


class Outcome:
    """What an evaluation has come to, as far as it came."""

    def __init__(self) -> None:
        self.build: Build | None = None
        self.image: dict[str, Any] = {}  # see Builder.image()
        self.rows: dict[str, Row] = {}  # by id of the test
        self.error: tuple[str, str] | None = None  # kind and message
        self.kept = ""  # the tag of a kept image


class Evaluation:
    """One evaluation: its options, and the way to its report.

    Raises ValueError for options that make no sense, and EvaluationError where there can be no
    report: no such Dockerfile or context, an unusable rubric, an output that cannot be written.
    """

    def __init__(self, options: Options, events: Events | None = None, stop: Stop | None = None) -> None:
        self.options = options = options.checked()
        context, rubric = str(options.context), str(options.rubric)
        read = {"--dockerfile": options.dockerfile, "--rubric": rubric}
        try:
            _check_different({**read, "--output": options.output, "--junit": options.junit})
        except FileNotFoundError:
            raise EvaluationError("the current folder is gone; start in one that is there") from None
        self._context, self._hash = context, _hash_dockerfile(options.dockerfile)
        if not os.path.isdir(context):
            raise EvaluationError(f"{context}: no such folder for the build context (--context DIR)")
        self.rubric = load_rubric(rubric)
        for path in filter(None, (options.output, options.junit)):
            check_writable(path)
        self.stop = stop or Stop()
        self.resumed = False  # the report was there already
        self._events = events or Events()
        self._engine = Engine(options.docker, options.engine, self.stop)
        self._started = datetime.datetime.now(datetime.timezone.utc)

    def run(self) -> Report:
        """Evaluate, clean up, write the report and return it; or return the one that is there already."""
        output, junit = self.options.output, self.options.junit
        report = self._earlier_report() if self.options.resume else None
        self.resumed = report is not None
        if report is None:
            report = self._report(self._evaluate())
        failures = []
        for path, render in ((None if self.resumed else output, as_json), (junit, as_junit)):
            try:
                if path:
                    write_file(path, render(report))
            except EvaluationError as error:  # the other file may yet be written
                failures.append(str(error))
        if failures:
            raise EvaluationError("\n".join(failures))
        return report

    def _evaluate(self) -> Outcome:
        options, events, outcome = self.options, self._events, Outcome()
        limits = sum(test.timeout * 2 + START_ALLOWANCE for test in self.rubric.tests)
        docker = Docker(
            self._engine,
            self.stop,
            lifetime=2 * options.build_timeout + limits,
            wait=options.wait,
            build_options=options.build_options,
            run_options=options.run_options,
        )
        try:
            with docker:
                try:
                    events.phase("building")
                    build = docker.builder.build(
                        options.dockerfile, self._context, options.build_timeout, events.build_line
                    )
                    outcome.build = build
                    events.built(build)
                    if build.kind:
                        outcome.error = (build.kind, build.message)
                    else:
                        outcome.image = docker.builder.image()
                        docker.probe()
                        runner = Runner(self.rubric, docker.run, self.stop, options.jobs, events)
                        outcome.rows = runner.rows
                        runner.run()
                        if options.keep_image and not self.stop.asked:
                            outcome.kept = docker.keep(options.repo)
                finally:
                    events.phase("cleaning up")
        except EngineError as error:
            outcome.error = (error.kind, str(error))
        except Stopped:
            pass  # told by self.stop
        return outcome

    def _report(self, outcome: Outcome) -> Report:
        """Return the report, in the order of its JSON."""
        error = self._final_error(outcome)
        build, image, engine = outcome.build, outcome.image, self._engine
        why = f"not run: {_NOT_RUN_AFTER.get(error['kind'], error['message'])}" if error else "not run"
        rows = [
            outcome.rows.get(test.id) or result_row(test, Verdict(NOT_RUN, why), Run(NOT_RUN))
            for test in self.rubric.tests
        ]
        warnings = [
            f"unresolvable: '{shown(name, 80)}' {reason}, so it can never run"
            for name, reason in self.rubric.unresolvable.items()
        ]
        return {
            "repo": self.options.repo,
            "dockerfile": self.options.dockerfile,
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
                "jobs": self.options.jobs,
                "build_timeout": self.options.build_timeout,
                "evaluator_version": __version__,
                "docker_client": engine.client or None,
                "docker_server": engine.server or None,
                "engine_cpus": engine.cpus,
                "engine_memory": engine.memory,
                "platform": engine.platform or None,
                "builder": build.builder if build else None,
                # To the millisecond, so that no two reports on a Dockerfile are the same to the letter.
                "started_at": self._started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "image_size": image.get("size"),
                "image_id": image.get("id"),
                "layers": image.get("layers"),
                "kept_image": outcome.kept or None,
            },
        }

    def _asked(self) -> dict[str, Any]:
        """Return what must be the same for --resume: not what is in the context, nor the engine."""
        options = self.options
        words = json.dumps([options.build_options, options.run_options])
        return {
            "context": self._context,
            "build_options": [BUILD_FLAGS.redacted(word) for word in options.build_options],
            "run_options": [RUN_FLAGS.redacted(word) for word in options.run_options],
            "options_sha256": hashlib.sha256(words.encode(errors="surrogateescape")).hexdigest(),
            "dockerfile_sha256": self._hash,
            "rubric_sha256": self.rubric.sha256,
        }

    def _final_error(self, outcome: Outcome) -> dict[str, str] | None:
        """Return the error that ended the evaluation, else the last engine fault of a test."""
        error = outcome.error
        faults = [row for row in outcome.rows.values() if row["status"] == ERROR]
        if self.stop.asked:
            error = ("interrupted", "the evaluation was interrupted")
        elif not error and faults:
            error = ("engine", faults[-1]["message"])
        return {"kind": error[0], "message": error[1]} if error else None

    def _earlier_report(self) -> Report | None:
        """Return the report that `output` already holds, None where it is to be evaluated again."""
        options, output, asked = self.options, str(self.options.output), self._asked()
        if _stream(output) is not None:
            return None  # a pipe or a device holds none
        try:
            with open(output, "rb") as file:
                report = json.loads(file.read().decode())
            environment, error = report["environment"], report["error"]
            if [asked["build_options"], asked["run_options"]] == [
                [*options.build_options],
                [*options.run_options],
            ]:  # no value was left out, so these tell; an older report has nothing else
                environment.setdefault("options_sha256", asked["options_sha256"])
            is_ours = environment["evaluator_version"].split(".")[0] == __version__.split(".", maxsplit=1)[0]
            same = report["repo"] == options.repo and all(environment[key] == asked[key] for key in asked)
            kept = environment["kept_image"] or not (options.keep_image and report["build"]["succeeded"])
            whole = len(report["test_results"]) == len(self.rubric.tests)
            (
                as_junit(report),
                as_markdown(report),
                all_passed(report),
            )  # raise where one of them cannot be read
            kind = error["kind"] if error else ""
            again = kind in NO_SCORE or (
                kind == "build_timeout" and environment["build_timeout"] < options.build_timeout
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
    verbose: bool = False,  # noqa: ARG001 - taken for the command line's sake, and ignored
    **options: Any,
) -> Report:
    """Build `dockerfile`, answer every test of `rubric`, and return the report as a plain dict.

    The `options` are the command line's, by name: context, build_timeout and wait (seconds), jobs,
    build_options and run_options (lists of words for docker, such as "--memory=2g"), docker, engine
    (a URL or a docker context), resume, junit, keep_image; Options has their defaults. With `output` the
    report is written there as JSON, too; with `resume` it is taken from there, where it fits. `verbose`
    is for the command line: nothing is printed here, no signal handler is installed, and several
    threads may call this at the same time.

    Raises EvaluationError where there can be no report (no such Dockerfile, an unusable rubric,
    an output that cannot be written), ValueError or TypeError for arguments that make no sense, and,
    after clean-up and with the report written, KeyboardInterrupt where that came in between.
    """
    evaluation = Evaluation(Options(dockerfile, repo, rubric, output, **options))
    return _uninterrupted(evaluation.run, evaluation.stop)


def check_engine(
    docker: str = "docker",
    engine: str | None = None,
    stop: Stop | None = None,
    *,
    build_options: Sequence[str] = (),
    run_options: Sequence[str] = (),
) -> None:
    """Build and start the control on an engine, then with the user's options; what it makes is removed.

    Raises EngineError where the engine fails that, UsageError where it refuses the options, and Stopped
    where somebody asked `stop` to end it. `engine` is a URL or a docker context, as in evaluate().
    """
    stop = stop or Stop()
    BUILD_FLAGS.check("build_options", build_options)
    RUN_FLAGS.check("run_options", run_options)
    tried = Docker(
        Engine(docker, engine, stop),
        stop,
        lifetime=START_ALLOWANCE,
        build_options=build_options,
        run_options=run_options,
    )

    def work() -> None:
        with tried:
            tried.ladder.ask_engine()
            tried.ladder.ask_build_options()
            tried.ladder.ask_run_options()

    _uninterrupted(work, stop)


def default_rubric(repo: str) -> str:
    """Return the path of the rubric that belongs to a repository."""
    return os.path.join("rubrics", f"{repo}.json")


Result = TypeVar("Result")


def _uninterrupted(work: Callable[[], Result], stop: Stop) -> Result:
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


def _telling_variables(image: Mapping[str, Any]) -> Iterator[str]:
    """Warn of what an image sets that changes how every shell in it behaves."""
    for entry in image.get("env") or ():
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
        self._dockerfile, self._docker = "", "docker"
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
        self._dockerfile, self._stop = shown(evaluation.options.dockerfile), evaluation.stop
        where = evaluation.options.engine or ""
        flags = ["--host" if "://" in where else "--context", where] if where else []
        self._docker = " ".join(map(shlex.quote, [evaluation.options.docker, *flags]))
        if self._live:
            threading.Thread(target=self._keep_alive, daemon=True).start()

    def phase(self, text: str) -> None:
        if text == "building":
            self.print(f"building {self._dockerfile}")
        elif self._stop.asked:
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
        tag = report["environment"]["kept_image"]
        if tag:
            self.print(
                f"image kept: {tag}\n  a shell in it: {self._docker} run --rm -it --entrypoint /bin/sh {tag}"
            )

    def summary(self, report: Report) -> None:
        """Print the counts and the score."""
        kinds = collections.Counter(row["status"].replace("_", " ") for row in report["test_results"])
        others = ", ".join(f"{kinds[kind]} {kind}" for kind in ("skipped", "not run") if kinds[kind])
        has_score = not (report["error"] and report["error"]["kind"] in NO_SCORE)
        self.print(score_line(report) + (f"; {others}" if others and has_score else ""))

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
    refuse = parser.error

    def error(message: str) -> NoReturn:
        missing = re.match("argument (--[a-z]+-option): expected one", message)
        hint = f"; one that begins with - needs an equals sign: {missing[1]}=--memory=2g" if missing else ""
        refuse(message + hint)

    parser.error = error  # type: ignore[method-assign]
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
    for name, reason in rubric.unresolvable.items():
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
            evaluation = Evaluation(Options(**arguments), events=screen)
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
            f"resumed: {shown(str(evaluation.options.output), 500)} already holds the report; nothing is run"
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
    for path in filter(None, (evaluation.options.output, evaluation.options.junit)):
        screen.print(f"report: {shown(path, 500)}")
    error = report["error"]
    if error:
        screen.error(error["message"])
    if heard and error and error["kind"] == "interrupted":
        return 128 + heard[0]
    return 0 if all_passed(report) else 1


if __name__ == "__main__":
    raise SystemExit(main())
