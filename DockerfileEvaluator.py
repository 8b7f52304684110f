#!/usr/bin/env python3
"""Score a Dockerfile against a JSON rubric: build it, test it, report, leave nothing behind.

    arguments -> load_rubric -> Rubric -> with Docker(): build -> plan -> check -> docker.run
              -> Run -> judge -> Verdict -> Result -> summarize -> Report -> JSON, JUnit, screen
              -> exit code

One idea carries it: a check is two pure functions around one impure call. `check.script()`
says what to run in the container, `docker.run()` runs it, `check.judge(run)` says what it means.

Rooms, each using only those above it:

    1  Vocabulary     the words that the other rooms share
    2  Rubric         JSON to typed tests; every fault named with its place
    3  Checks         one small class per test type; a new type is added here and nowhere else;
                      what is doubtful about a test, by reading its command as a shell would
    4  Docker         the only room that starts a process: image, containers, limits, clean-up
    5  Report         the summary; JSON, JUnit, Markdown
    6  Evaluation     the plan, the runner, evaluate()
    7  Command line   arguments, screen, signals; the only room that prints

Exit codes: 0 all tests passed; 1 a test did not pass, the build failed or the evaluation could
not be carried out; 2 wrong usage; 130 Ctrl-C (143 SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import functools
import hashlib
import itertools
import json
import math
import os
import posixpath
import re
import selectors
import signal
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
    Pattern,
    Sequence,
    TextIO,
    Type,
    TypeVar,
    Union,
)

__version__ = "1.0.0"
__all__ = ["EvaluationError", "evaluate", "main"]


# ---------------------------------------------------------------------------------------------
# Room 1: Vocabulary
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
    """Docker is missing, does not answer or refuses; never the fault of a Dockerfile."""


class Stopped(Exception):  # noqa: N818 - a request, not an error
    """Somebody asked the evaluation to end."""


class Stop:
    """A request to end, in two steps: first the work ends, then clean-up does too."""

    def __init__(self) -> None:
        self.level = 0

    def ask(self) -> None:
        """Ask once more; safe from any thread and from a signal handler's exception."""
        self.level += 1


class Needle(NamedTuple):
    """Bytes to look for in a stream: no match of `pattern` is longer than `width` bytes."""

    pattern: Pattern[bytes]
    width: int

    @classmethod
    def literal(cls, text: str) -> Needle:
        """Match `text` byte for byte in UTF-8."""
        data = text.encode()
        return cls(re.compile(re.escape(data)), len(data))


class Script(NamedTuple):
    """What to run in a container: constant shell text; what a rubric says is in `arguments`."""

    text: str
    arguments: tuple[str, ...]
    needles: tuple[Needle, ...] = ()
    looks_only: bool = True


class Run(NamedTuple):
    """What came of one container.

    `ending` is FINISHED, or at once the status of the test: FAILED, TIMEOUT, ERROR, NOT_RUN.
    `status` is the check's own exit status, `found` says of each needle whether the output held
    it, `output` is the output's head and tail, `seconds` the time from the check's first
    instruction to its last.
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


class Finding(NamedTuple):
    """What somebody should know: a short name, the place, and a sentence that says what happens."""

    name: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.place}: {self.text}"


class Build(NamedTuple):
    """What came of `docker build`: `kind` is "", or the fault's; `log` is the log's end."""

    kind: str
    message: str
    log: str
    builder: str
    seconds: float


class Fault(NamedTuple):
    """What stopped an evaluation: `kind` is build, build_timeout, engine or interrupted."""

    kind: str
    message: str


class Result(NamedTuple):
    """One row of the report's `test_results`; the order of fields is that of the JSON."""

    test_id: str
    test_type: str
    passed: bool
    score: float
    message: str
    execution_time: float
    max_score: float
    status: str
    exit_code: int | None
    timeout: float
    output: str | None
    category: str | None


def shown(text: str, limit: int = 200) -> str:
    """Return `text` fit for a line of a screen: at most `limit` long, nothing that commands.

    Control characters could steer a terminal; CI systems obey `##[…]` and `##vso[…]` even in
    the middle of a line (actions/runner, ActionCommand.TryParse).
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    text = re.sub(r"##(?=\w*\[)", "# #", text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def last_line(text: str) -> str:
    """Return the last line that is not blank, "" where there is none."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def listed(items: Sequence[str], most: int = 5) -> str:
    """Return the first `most` items in quotes, and how many more there are."""
    words = [f"'{shown(item, 80)}'" for item in items[:most]]
    if len(items) > most:
        words.append(f"{len(items) - most} more")
    return ", ".join(words)


# ---------------------------------------------------------------------------------------------
# Room 2: Rubric
# ---------------------------------------------------------------------------------------------

DEFAULT_TIMEOUT = 30.0  # seconds
HIGHEST_EXIT_CODE = 255
ARGUMENT_LIMIT = 128 * 1024 - 1  # bytes; Linux, execve(2): MAX_ARG_STRLEN with its final NUL
ARGUMENTS_LIMIT = 1024 * 1024  # bytes of one list together
REQUIRED: Any = object()

Number = Union[int, float]


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


def _suggestion(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` where a known word is near, else what is known."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(word, names, 2, 0.9) or get_close_matches(word, names, 1)
    quoted = " or ".join(f"'{name}'" for name in near)
    return f" (did you mean {quoted}?)" if near else f" (known: {', '.join(names)})"


class Fields:
    """A JSON object read key by key into typed values.

    A fault is noted with its place and reading goes on with a stand-in, so that one reading
    finds them all; whoever holds `faults` refuses the rubric if there are any.
    """

    def __init__(self, value: Any, place: str, faults: list[str]) -> None:
        self.place = place
        self._faults = faults
        self._known: set[str] = set()
        self._values: dict[str, Any] = value if isinstance(value, dict) else {}
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
        self._known.add(key)
        if key not in self._values:
            if default is REQUIRED:
                self.fault(key, f"missing; expected {expected}")
            return default
        value = self._values[key]
        if not fits(value):
            self.fault(key, f"expected {expected}, found {_kind(value)}")
            return default
        return value

    def text(self, key: str, default: Any = REQUIRED) -> str:
        """Return a string that is not empty and can be an argument of a program."""
        value = self.get(key, default, "a string that is not empty", _is_text)
        return self._argument(key, value) if isinstance(value, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of at least one such string."""
        values = self.get(key, REQUIRED, "a list of strings that is not empty", _is_filled_list)
        if values is REQUIRED:
            return ()
        texts = self._strings(key, values)
        if sum(len(text.encode(errors="replace")) for text in texts) > ARGUMENTS_LIMIT:
            self.fault(key, f"longer than {ARGUMENTS_LIMIT} bytes together")
        return texts

    def ids(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, which may be empty or missing."""
        return self._strings(key, self.get(key, [], "a list of ids", _is_list))

    def number(self, key: str, default: Number, expected: str, low: Callable[[Number], bool]) -> Number:
        """Return a finite number for which `low` holds."""
        value: Number = self.get(key, default, expected, lambda v: _is_number(v) and low(v))
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """Return one of `choices`; the first is the default."""
        expected = "one of " + ", ".join(f"'{choice}'" for choice in choices)
        return str(self.get(key, choices[0], expected, lambda v: v in choices))

    def exit_code(self, key: str) -> int | None:
        """Return an exit code, 0 where there is none, None for "any"."""
        value = self.get(key, 0, "a whole number from 0 to 255 or 'any'", _is_exit_code)
        return None if value == "any" else int(value)

    def close(self) -> None:
        """Refuse the keys that nobody asked for; those that begin with _ or $ are comments."""
        for key in self._values:
            if key not in self._known and key[:1] not in ("_", "$"):
                self.fault("", f"unknown key '{shown(key, 40)}'{_suggestion(key, self._known)}")

    def _strings(self, key: str, values: list[Any]) -> tuple[str, ...]:
        for at, value in enumerate(values):
            if not _is_text(value):
                self.fault(f"{key}[{at}]", f"expected a string that is not empty, found {_kind(value)}")
            else:
                self._argument(f"{key}[{at}]", value)
        return tuple(value for value in values if isinstance(value, str))

    def _argument(self, key: str, text: str) -> str:
        if "\0" in text:
            self.fault(key, "a NUL character cannot be handed to a program")
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            self.fault(key, f"a lone surrogate (character {error.start + 1}) is not text")
            return ""
        if size > ARGUMENT_LIMIT:
            self.fault(key, f"longer than {ARGUMENT_LIMIT} bytes")
        return text


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_filled_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_exit_code(value: Any) -> bool:
    """Whether this is "any" or a whole number that fits; 1.0 is whole, as JSON Schema has it."""
    return value == "any" or (_is_number(value) and 0 <= value <= HIGHEST_EXIT_CODE and value == int(value))


class Test(NamedTuple):
    """One test of a rubric. `timeout` is in seconds; `requires` are ids of other tests."""

    id: str
    type: str
    check: Check
    timeout: float
    score: Number
    requires: tuple[str, ...]
    category: str | None


class Rubric(NamedTuple):
    """The tests of one rubric file, in its order; `repo` is "" where it names none."""

    path: str
    sha256: str
    repo: str
    tests: tuple[Test, ...]


def load_rubric(path: str, kinds: Mapping[str, Callable[[Fields], Check]]) -> Rubric:
    """Read a rubric whole; `kinds` makes the check of each test type from its params.

    Raises RubricError, which names every fault of the file with its place.
    """
    data = _read_bytes(path)
    faults: list[str] = []
    top = Fields(_parse_json(path, data), "", faults)
    repo = top.text("repo", None)
    items = top.get("tests", REQUIRED, "a list of tests that is not empty", _is_filled_list)
    tests = [] if items is REQUIRED else _tests(items, kinds, faults)
    top.close()
    if not faults and not _adds_up(tests):
        top.fault("tests", "expected scores whose sum is a finite number")
    if faults:
        raise RubricError("\n".join(f"{path}: {fault}" for fault in faults))
    return Rubric(path, hashlib.sha256(data).hexdigest(), repo, tuple(tests))


def _adds_up(tests: Sequence[Test]) -> bool:
    try:
        return math.isfinite(sum(float(test.score) for test in tests))
    except OverflowError:
        return False


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise RubricError(f"{path}: no such rubric; name one with --rubric FILE") from None
    except OSError as error:
        raise RubricError(f"{path}: the rubric cannot be read: {error.strerror}") from None


def _parse_json(path: str, data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_Object)
    except UnicodeDecodeError as error:
        raise RubricError(f"{path}: not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RubricError(f"{path}: not JSON at {where}: {error.msg}{_json_hint(error)}") from None
    except (RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RubricError(f"{path}: not usable JSON: {reason}") from None


def _json_hint(error: json.JSONDecodeError) -> str:
    """Say what people often write where JSON ends."""
    if not error.doc.strip():
        return " (the file is empty)"
    if error.doc[error.pos : error.pos + 1] in ("#", "/"):
        return " (JSON has no comments; keys that begin with _ are)"
    if error.doc[: error.pos].rstrip().endswith(",") and error.doc[error.pos : error.pos + 1] in ("]", "}"):
        return " (after a comma too many)"
    return ""


def _tests(items: list[Any], kinds: Mapping[str, Callable[[Fields], Check]], faults: list[str]) -> list[Test]:
    given = {item["id"] for item in items if isinstance(item, dict) and _is_text(item.get("id"))}
    seen: dict[str, int] = {}
    tests = []
    for at, item in enumerate(items):
        fields = Fields(item, f"tests[{at}]", faults)
        test = _test(fields, at, kinds, given, faults)
        if test is None:
            continue
        if test.id in seen:
            fields.fault("id", f"'{shown(test.id, 40)}' is the id of tests[{seen[test.id]}] too")
        seen.setdefault(test.id, at)
        tests.append(test)
    return tests


def _test(
    fields: Fields,
    at: int,
    kinds: Mapping[str, Callable[[Fields], Check]],
    given: set[str],
    faults: list[str],
) -> Test | None:
    """Read one test; None where its type is not known, which is then among the faults."""
    kind = fields.text("type")
    params = fields.get("params", REQUIRED, "an object", lambda value: isinstance(value, dict))
    identity = fields.text("id", None) or _free_id(f"{kind}_{at + 1}", given)
    timeout = fields.number("timeout", DEFAULT_TIMEOUT, "a number of seconds over 0", lambda v: v > 0)
    score = fields.number("score", 1, "a number of at least 0", lambda v: v >= 0)
    requires = fields.ids("requires")
    category = fields.text("category", None) or None
    fields.text("description", None)
    fields.close()
    if kind and kind not in kinds:
        fields.fault("type", f"unknown test type '{shown(kind, 40)}'{_suggestion(kind, kinds)}")
    if kind not in kinds or params is REQUIRED:
        return None
    inner = Fields(params, f"{fields.place}.params", faults)
    check = kinds[kind](inner)
    inner.close()
    return Test(identity, kind, check, float(timeout), score, requires, category)


def _free_id(wanted: str, given: set[str]) -> str:
    while wanted in given:
        wanted += "_"
    return wanted


# ---------------------------------------------------------------------------------------------
# Room 3: Checks
# ---------------------------------------------------------------------------------------------

# The scripts run in a subshell of the image's own /bin/sh (dash, busybox, bash), with the
# rubric's text as positional parameters. bash takes functions from the environment even as sh,
# and so could answer in the place of `test` or `command`: hence `unset -f`.

_UNSET = "unset -f command test echo cat\n"

_FIND_COMMANDS = (
    _UNSET
    + """\
i=0 bad=0
for name do
  i=$((i + 1))
  if path=$(command -v -- "$name") && test -n "$path" &&
    case $name in */*) test -f "$name" && test -x "$name" ;; esac
  then echo "found $path"
  else bad=$((bad + 1)); test "$bad" -gt 20 || echo "missing $i"
  fi
done
test "$bad" -eq 0
"""
)

_TEST_PATHS = (
    _UNSET
    + """\
kind=$1 i=0 bad=0
shift
for path do
  i=$((i + 1))
  if test "$kind" "$path"; then continue; fi
  bad=$((bad + 1))
  if test "$bad" -gt 20; then continue; fi
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
)

_READER = (
    _UNSET
    + """\
reader() {
  if test -x /bin/cat; then /bin/cat
  elif test -x /usr/bin/cat; then /usr/bin/cat
  elif test -x /bin/busybox; then /bin/busybox cat
  elif command -v -- cat >/dev/null; then cat
  else return 6
  fi
}
"""
)

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

_NO_SHELL = "dockerfile-evaluator: no such shell"
_RUN_COMMAND = f"""\
exec 2>&1
command -v -- "$2" >/dev/null || {{ echo '{_NO_SHELL}'; exit 127; }}
exec "$2" -c "$1"
"""

_READING = {
    3: "no such file",
    4: "a directory, not a file",
    5: "not a regular file",
    6: "no program to read with in the image (cat, busybox)",
    7: "the image's user may not read it",
}


# What a command does, read as a shell would: not run, so that a guess is only ever a warning.

LONGEST_READ = 8 * 1024  # characters; a longer command is not read
DEEPEST_READ = 50  # parentheses, braces and here-documents of one command
SHORT_NEEDLE = 2  # characters
SHORT_TIMEOUT = 1.0  # seconds

_UNQUOTED = re.compile(
    r"""\\. | '[^']*' | \$?\( | [)`"] | \$\{[^}]*\} | [<>]&|&>
    | (?P<comment>(?:(?<=\s)|^)\#[^\n]*) | (?P<operator>&&|\|\||[;|&\n])""",
    re.DOTALL | re.VERBOSE,
)
_QUOTED = re.compile(r'\\.|\$\(|[`"]', re.DOTALL)
_CLOSERS = {'"': '"', "`": "`", "(": ")", "$(": ")"}
_HERE_DOCUMENT = re.compile(
    r"((?<!<)<<-?\s*(['\"]?)(\w{1,64})\b\2[^\n]*\n)(?:.*?\n)?\t*\3(?=\n|$)", re.DOTALL
)
_OPENS = re.compile(r"\s*(?:(?:then|do|else|elif|!)\s+)*(?:if|for|while|until|case|\{)(?=\s|$)")
_CLOSES = re.compile(r"\s*(?:fi|done|esac|\})(?=[\s)]|$)")
_WRAPPERS = re.compile(
    r"(?:\s*(?:[A-Za-z_]\w*=(?:'[^']*'|\"[^\"]*\"|[^\s'\"])*|!|timeout(?:\s+-\S+)*\s+\S+|env|exec|sudo|time)(?=\s))*\s*"
)
_STRINGS = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_A_SHELL = re.compile(r"(?:/\w+)*/?(?:ba|da|z|k)?sh")
_BASHISMS = {"source", "[[", "((", "shopt", "declare", "pushd", "popd", "mapfile"}
_BUILTINS = {
    "",
    "echo",
    "cd",
    "test",
    "[",
    "printf",
    "export",
    "true",
    "false",
    ":",
    "set",
    "exit",
    "command",
}


class Step(NamedTuple):
    """One command of a list, and the operator before it: "", &&, ||, |, & or ; (a new line, too)."""

    operator: str
    text: str


@functools.lru_cache(maxsize=1024)
def _steps(command: str) -> tuple[Step, ...]:
    """Split a list of commands where no quote, parenthesis or compound command is open."""
    if len(command) > LONGEST_READ or max(map(command.count, ("(", "{", "<<"))) > DEEPEST_READ:
        return ()
    return tuple(_whole(_split(_HERE_DOCUMENT.sub(r"\1", command.replace("\\\n", " ")))))


def _split(command: str) -> Iterator[Step]:
    closers, start, at, operator, text = [""], 0, 0, "", ""
    while True:
        token = (_QUOTED if closers[-1] == '"' else _UNQUOTED).search(command, at)
        if token is None:
            break
        at = token.end()
        if token[0] == closers[-1]:
            closers.pop()
        elif token[0] in _CLOSERS:
            closers.append(_CLOSERS[token[0]])
        elif len(closers) == 1 and token.lastgroup:
            text, start = text + command[start : token.start()], at
            if token.lastgroup == "operator":
                yield Step(operator, text)
                operator, text = token[0].replace("\n", ";"), ""
    yield Step(operator, text + command[start:])


def _whole(steps: Iterable[Step]) -> list[Step]:
    """Join the steps of each compound command (if … fi) to one, and leave out empty ones."""
    whole: list[Step] = []
    depth = 0
    for step in steps:
        if depth > 0:
            whole[-1] = Step(whole[-1].operator, f"{whole[-1].text}{step.operator} {step.text}")
        elif step.text.strip() or step.operator == "&":
            whole.append(Step(step.operator, step.text.strip()))
        depth += bool(_OPENS.match(step.text)) - bool(depth and _CLOSES.match(step.text))
    return whole


def _simple(text: str) -> str:
    """Return a command without what only wraps it: NAME=value, timeout, env, sudo."""
    return _WRAPPERS.sub("", text, 1)


def _bare(text: str) -> str:
    """Return a command with nothing in its quotes."""
    return _STRINGS.sub("''", text)


@functools.lru_cache(maxsize=1024)
def _words(text: str) -> tuple[str, ...]:
    """Return the words of a simple command, without quotes; none where they are not closed."""
    import shlex

    try:
        return tuple(shlex.split(_simple(text), comments=True))
    except ValueError:
        return ()


def _inner(text: str) -> str | None:
    """Return the list that a command only hands on to a shell: ( … ), { … } or sh -c '…'."""
    close = {"(": ")", "{": "}"}.get(text[:1])
    if close:
        inside, _, after = text[1:].rpartition(close)
        return inside.strip(" \t\n;") if re.match(r"\s*(?:\d*[<>]|$)", after) else None
    words = _words(text)
    if words and _A_SHELL.fullmatch(words[0]) and re.fullmatch("-[il]*c", "".join(words[1:2])):
        return "".join(words[2:3])
    return None


def _programs(command: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield text and words of each simple command in a list, also in parentheses and inner shells."""
    for step in _steps(command):
        inner = _inner(step.text)
        if inner is not None:
            yield from _programs(inner)
        else:
            yield step.text, _words(step.text) or ("",)


class Pipeline(NamedTuple):
    """What stands between two operators of a list, split at its pipes; and the operator before it."""

    operator: str
    parts: tuple[str, ...]


class Ending(NamedTuple):
    """The end of a command that decides its exit code alone, and the part whose failure it hides."""

    text: str
    hides: str


_NO_FAILURE = re.compile(
    r"(?:true|:|exit\s+0|echo(?:\s[^<>]*)?|printf\s[^<>]*|rm\s+-\w*f\w*\s[^<>]*)"
    r"(?:\s*\d*>{1,2}\s*(?:&\d|/dev/null|/tmp/[\w.-]+))*\s*"
)
_RISKY = re.compile(r"\$\{\w+:?\?|\$\(\(|printf.*%[^sbc%]", re.DOTALL)
_ENDS_EARLY = re.compile(
    r"\b(?:exit|return|exec|eval|errexit|readonly|trap|shift)\b|(?:^|[;&|{]\s*)(?:\.|set|source)\s|\bkill\b.*(?:\$\$|\s0$)"
)
_FILTER = re.compile(
    r"(?:/usr)?(?:/bin/)?(?:head|tail|wc|cut|tee|cat|sort|uniq|tr|nl|fold|column|less|more)(?=\s|$)"
    r"|sed\s(?!.*[qQ]\s*\d)|awk\s(?!.*\bEND\b.*\bexit\b)|true$",
    re.DOTALL,
)


def _last_list(command: str) -> tuple[list[str], list[Pipeline]]:
    """Return what stands before the last ; & or line of a command, and the pipelines after it."""
    before: list[str] = []
    last: list[Pipeline] = []
    for operator, text in _steps(command):
        if operator == "|" and last:
            last[-1] = Pipeline(last[-1].operator, (*last[-1].parts, text))
        elif operator in ("&&", "||") and last:
            last.append(Pipeline(operator, (text,)))
        else:
            before += [part for pipeline in last for part in pipeline.parts]
            last = [Pipeline(operator, (text,))]
    while last and last[-1].operator == "&&" and _cannot_fail(last[-1].parts[-1]):
        last.pop()
    return before, last


def _decisive(last: Sequence[Pipeline]) -> Sequence[Pipeline]:
    """Return the pipelines on which the exit code rests: from the last && on."""
    return last[max(at for at, pipeline in enumerate(last) if at == 0 or pipeline.operator == "&&") :]


def _cannot_fail(text: str) -> bool:
    return bool(_NO_FAILURE.fullmatch(_bare(_simple(text)))) and not _RISKY.search(text)


def _may_end_early(text: str) -> bool:
    """Whether a command may end the shell in which it stands; what has a shell of its own cannot."""
    return not text.startswith("(") and bool(_ENDS_EARLY.search(_bare(text)) or _RISKY.search(text))


def _sure_success(command: str) -> Ending | None:
    """Return the ending that makes the exit code 0 whatever else happens."""
    before, last = _last_list(command)
    if not last or any(map(_may_end_early, before)):
        return None
    decisive = _decisive(last)
    for at, (first, second) in enumerate(zip(decisive, decisive[1:]), 1):
        parts = [part for pipeline in (*last[: -len(decisive)], *decisive[:at]) for part in pipeline.parts]
        if any(map(_may_end_early, parts)):
            return None
        if len(second.parts) == 1 and _succeeds(second.parts[0]):
            return Ending(f"|| {second.parts[0]}", " | ".join(first.parts))
    if len(last) > 1 or len(last[0].parts) > 1:
        return None
    operator, (text,) = last[0]
    if _cannot_fail(text) or (operator, text) == ("&", ""):
        return Ending(text or "&", "; ".join(before))
    inner = _inner(text)
    return _sure_success(inner) if inner is not None else None


def _succeeds(text: str) -> bool:
    inner = _inner(text)
    return _cannot_fail(text) or (inner is not None and _sure_success(inner) is not None)


def _hidden_status(command: str) -> Iterator[Ending]:
    """Yield what at a command's end may succeed after something that failed."""
    last = _last_list(command)[1]
    if not last or "pipefail" in command:
        return
    for before, (operator, parts) in zip(["", *_decisive(last)], _decisive(last)):
        inner = _inner(parts[0])
        if len(parts) > 1 and _FILTER.match(_simple(parts[-1])) and not parts[0].startswith("!"):
            if not all(map(_cannot_fail, parts[:-1])):
                yield Ending(f"| {parts[-1]}", " | ".join(parts[:-1]))
        elif operator == "||" and before and re.match(r"rm\s", parts[0]):
            yield Ending(f"|| {parts[0]}", " | ".join(before.parts))  # type: ignore[attr-defined]
        elif inner is not None and len(parts) == 1:
            yield from _hidden_status(inner)


# What a command leaves in its container: paths, folders with all that is in them, commands.
_MAKERS = (
    re.compile(r"(?:mkdir|touch|tee)(?: -\S+)* (?P<paths>.+)"),
    re.compile(r"(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|rustc|go build|curl|ld) (?:.* )?-o (?P<paths>\S+).*"),
    re.compile(r"wget (?:.* )?-O ?(?P<paths>\S+).*"),
    re.compile(r"(?:cp|mv|ln) .* (?P<paths>[^\s-]\S*)"),
    re.compile(r"make (?P<paths>[\w./]+)"),
    re.compile(r"javac (?:.* )?-d (?P<trees>\S+).*"),
    re.compile(r"git clone (?:.*[ /])?(?P<trees>[^-/ ][^/ ]*?)(?:\.git)?"),
    re.compile(r"(?:\S+ -m venv|virtualenv|meson setup)(?: -\S+)* (?P<trees>\S+)"),
    re.compile(r"cmake (?:.* )?-B ?(?P<trees>\S+).*"),
    re.compile(r"pip3? install(?P<names>(?: -[qU]| --\w+)*(?: [A-Za-z]\w*)+)"),
    re.compile(
        r"(?:npm (?:install|i) -g|cargo install|apt-get install(?: -y)?)(?P<names>(?: [A-Za-z][\w-]*)+)"
    ),
    re.compile(r"go install \S*/(?P<names>[\w-]+)@\S+"),
)
_PRODUCTS = (
    (re.compile(r"(?:npm|pnpm|yarn) (?:install|ci|i|add)\b(?!.* -g\b).*|yarn"), "node_modules"),
    (re.compile(r"cargo (?:build|test|run|check|bench)\b.*"), "target"),
    (re.compile(r"mvn\b.* (?:compile|test-compile|test|package|verify|install)\b.*"), "target"),
)
_NO_MAKING = re.compile(r" (?:--help|--version|-h|-V|-v|-n|--dry-run)\b")
_EVERYWHERE = {"pip", "setuptools", "wheel"}
_NODE_USER = re.compile(r"(?:npm|pnpm|yarn) (?:run|test|start|exec)\b|npx ")
_READERS = {"cd", "cat", "ls", "test", "[", "grep", "head", "tail", "wc", "file", "stat", "jq", ".", "source"}
_READERS |= {"sh", "bash", "python", "python3", "node", "java"}
_BUILDERS = {"cmake", "ctest"}
_REDIRECTION = re.compile(r"(?<![<>&])\d*>{1,2}\|?\s*(?!&)([^\s;&|<>()]+)|[<>]&\d?")


def _located(command: str) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield text and words of each simple command after the folder where it runs, "" for the WORKDIR."""
    folder = ""
    for text, words in _programs(command):
        yield folder, text, words
        if words[0] == "cd" and len(words) > 1 and len(folder) < LONGEST_READ // 8:
            folder = posixpath.join(folder, words[1])


def _made(command: str) -> Iterator[str]:
    """Yield what a command makes: paths, folders (with a / at the end), and commands (`command NAME`)."""
    for folder, text, words in _located(command):
        yield from _made_paths(folder, _REDIRECTION.findall(_bare(text)))
        line = " ".join(_words(_REDIRECTION.sub("", text)) or words)
        if _NO_MAKING.search(line):
            continue
        yield from _made_paths(
            folder, [product for maker, product in _PRODUCTS if maker.fullmatch(line)], "/"
        )
        for match in filter(None, (maker.fullmatch(line) for maker in _MAKERS)):
            found = {kind: named.split() for kind, named in match.groupdict().items()}
            yield from _made_paths(folder, found.get("paths", ()))
            yield from _made_paths(folder, found.get("trees", ()), "/")
            names = {name for name in found.get("names", ()) if name[0] != "-"} - _EVERYWHERE
            yield from (f"command {name}" for name in names)


def _made_paths(folder: str, paths: Iterable[str], end: str = "") -> Iterator[str]:
    for path in paths:
        if path and not re.search(r"[$*&`'\"]|^-|^/dev/|^/tmp/?$|^\.{1,2}$", path):
            yield posixpath.normpath(posixpath.join(folder, path)) + end


def _used(command: str) -> Iterator[str]:
    """Yield what a command asks for, in the words of _made()."""
    for folder, _, words in _located(command):
        yield f"command {words[0]}"
        if _NODE_USER.match(" ".join(words)):
            yield posixpath.join(folder, "node_modules/")
        if words[0] in ("rm", "mkdir", "touch") or "!" in words:
            continue
        reads = words[0] in _READERS or words[0] in _BUILDERS
        for word in words[:200]:
            if "/" in word or (reads and word not in words[:1]):
                yield from _with_parents(posixpath.join(folder, word))


def _with_parents(path: str) -> Iterator[str]:
    """Yield a path, and the folders of which the whole content may hold it."""
    if len(path) > ARGUMENT_LIMIT // 32:
        return
    path = posixpath.normpath(path)
    yield path
    for _ in range(64):
        if path in ("", "/", "."):
            break
        yield f"{path}/"
        path = posixpath.dirname(path)


class Check:
    """What one test asks. `params` is read in `__init__`, which thereby is the type's schema.

    `looks_only` says that it runs no command of the rubric's.
    """

    looks_only = True

    def __init__(self, params: Fields) -> None:
        raise NotImplementedError

    def script(self) -> Script:
        """Say what to run in the container."""
        raise NotImplementedError

    def judge(self, run: Run) -> Verdict:
        """Say what a finished run means."""
        raise NotImplementedError

    def findings(self) -> Iterator[Finding]:
        """Yield what may mean nothing, or something else than it seems; places are below params."""
        return iter(())

    def makes(self) -> Iterator[str]:
        """Yield what it leaves in its container: paths, folders (with a / at the end), `command NAME`."""
        return iter(())

    def uses(self) -> Iterator[str]:
        """Yield what it asks for, in the same words."""
        return iter(())


CHECKS: dict[str, type[Check]] = {}
AnyCheck = TypeVar("AnyCheck", bound=Type[Check])


def register(name: str) -> Callable[[AnyCheck], AnyCheck]:
    """Make a class the check of the test type `name`."""

    def add(check: AnyCheck) -> AnyCheck:
        CHECKS[name] = check
        return check

    return add


@register("commands_exist")
class CommandsExist(Check):
    """Every command is found by the image's shell."""

    def __init__(self, params: Fields) -> None:
        self.names = params.texts("names")

    def script(self) -> Script:
        """Ask `command -v` for each; print where it is, or the place in the list of one missing."""
        return Script(_FIND_COMMANDS, self.names)

    def judge(self, run: Run) -> Verdict:
        """Pass when nothing was missing and something was printed for each."""
        notes = _notes(run.output)
        missing = [self.names[i] for i in _places(notes, "missing", len(self.names))]
        found = [path for word, path in notes if word == "found"]
        if run.status == 0 and found and not missing:
            return Verdict(PASSED, f"found {listed(found)}")
        return Verdict(FAILED, f"not found: {listed(missing)}" if missing else "nothing was found")

    def findings(self) -> Iterator[Finding]:
        """Warn of names that are whole commands."""
        for name in self.names:
            if re.search(r"\s", name):
                text = f"'{shown(name, 60)}' has a space, and is looked for as one name; write the name alone"
                yield Finding("literal-name", "name" if isinstance(self, CommandExists) else "names", text)

    def uses(self) -> Iterator[str]:
        """Yield the commands."""
        return (f"command {name}" for name in self.names)


@register("command_exists")
class CommandExists(CommandsExist):
    """A command is found by the image's shell."""

    def __init__(self, params: Fields) -> None:
        self.names = (params.text("name"),)


@register("envvar_set")
class EnvvarSet(Check):
    """A variable is in the environment of the container's first process, and not empty."""

    _NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

    def __init__(self, params: Fields) -> None:
        self.name = params.text("name")
        if self.name and not self._NAME.fullmatch(self.name):
            params.fault("name", f"'{shown(self.name, 40)}' is no name of a variable")

    def script(self) -> Script:
        """Hand the environment, a list of NAME=value that end in NUL, to the host."""
        start = b"\0" + re.escape(self.name.encode()) + b"="
        width = len(self.name) + 3
        set_, empty = re.compile(start + b"[^\0]"), re.compile(start + b"\0")
        return Script(_READ_ENVIRONMENT, (), (Needle(set_, width), Needle(empty, width)))

    def judge(self, run: Run) -> Verdict:
        """Pass when the variable was seen with a value."""
        if run.status != 0:
            why = _READING.get(run.status or 0, f"reading ended with exit code {run.status}")
            return Verdict(FAILED, f"the environment cannot be read: {why}")
        if run.found[0]:
            return Verdict(PASSED, f"{self.name} is set")
        return Verdict(FAILED, f"{self.name} is {'set, but empty' if run.found[1] else 'not set'}")

    def findings(self) -> Iterator[Finding]:
        """Warn of variables that docker sets."""
        if self.name in ("PATH", "HOME", "HOSTNAME"):
            text = f"docker itself sets {self.name} in every container, so this passes on any image"
            yield Finding("set-by-docker", "name", f"{text}; ask for what the image should have put there")


@register("files_exist")
class FilesExist(Check):
    """Every path is a regular file, links followed."""

    _TEST = "-f"
    _WANTED = "file"

    def __init__(self, params: Fields) -> None:
        self.paths = params.texts("paths")

    def script(self) -> Script:
        """Test each path; say of one that is none what it is."""
        return Script(_TEST_PATHS, (self._TEST, *self.paths))

    def judge(self, run: Run) -> Verdict:
        """Pass when every path was tested and none was bad."""
        notes = _notes(run.output)
        if run.status == 0 and notes == [("bad", "0")]:
            count = len(self.paths)
            return Verdict(PASSED, f"{count} {self._WANTED}{'s' if count > 1 else ''} found")
        return Verdict(FAILED, "; ".join(self._faults(notes)) or "the paths could not be tested")

    def findings(self) -> Iterator[Finding]:
        """Warn of paths that look as if a shell were to expand them."""
        for at, path in enumerate(self.paths):
            yield from _literal_path(f"paths[{at}]", path)

    def uses(self) -> Iterator[str]:
        """Yield the paths, and the folders above them."""
        for path in self.paths:
            yield from _with_parents(path)

    def _faults(self, notes: list[tuple[str, str]]) -> Iterator[str]:
        words = {
            "missing": f"no such {self._WANTED}",
            "dangling": "a link to nothing",
            "directory": "a directory, not a file",
            "file": "a file, not a directory",
            "special": f"not a {self._WANTED}",
        }
        for word, text in words.items():
            paths = [self.paths[i] for i in _places(notes, word, len(self.paths))]
            if paths:
                yield f"{text}: {listed(paths)}"


@register("dirs_exist")
class DirsExist(FilesExist):
    """Every path is a directory, links followed."""

    _TEST = "-d"
    _WANTED = "directory"

    def judge(self, run: Run) -> Verdict:
        """Pass as files do, with the plural of the word."""
        verdict = super().judge(run)
        return verdict._replace(message=verdict.message.replace("directorys", "directories"))


_PATTERN = re.compile(r"\.[*+]|\\[.dsw]|\[(?:0-9|a-z|A-Z)")  # what looks like a regular expression


class Contents:
    """The strings that a text must hold: any of them, or all."""

    def __init__(self, params: Fields) -> None:
        self.texts = params.texts("contains")
        self.all = params.choice("match", ("any", "all")) == "all"

    def needles(self) -> tuple[Needle, ...]:
        """Return one needle for each string."""
        return tuple(Needle.literal(text) for text in self.texts)

    def findings(self) -> Iterator[Finding]:
        """Warn of strings that are short enough to stand anywhere."""
        patterns = [text for text in self.texts if _PATTERN.search(text)]
        if patterns:
            what = f"{listed(patterns)}: strings are looked for as they stand, not as patterns"
            yield Finding("literal-needle", "contains", f"{what}; write what the text holds")
        short = [text for text in self.texts if len(text) <= SHORT_NEEDLE]
        if short:
            what = f"{listed(short)}: so short a string is in many texts ('8' in '17.0.18')"
            yield Finding("short-needle", "contains", f"{what}; write more of what is meant")

    def judge(self, found: Sequence[bool], holder: str) -> Verdict:
        """Say what `holder` holds of them, or lacks."""
        held = [text for text, here in zip(self.texts, found) if here]
        lacking = [text for text, here in zip(self.texts, found) if not here]
        if not held:
            return Verdict(FAILED, f"{holder} holds none of {listed(self.texts)}")
        if self.all and lacking:
            return Verdict(FAILED, f"{holder} lacks {listed(lacking)}")
        return Verdict(PASSED, f"{holder} holds {listed(held)}")


@register("file_contains")
class FileContains(Check):
    """A regular file holds any (or all) of the strings."""

    def __init__(self, params: Fields) -> None:
        self.path = params.text("path")
        self.contents = Contents(params)

    def script(self) -> Script:
        """Hand the file's content to the host, which does the matching."""
        return Script(_READ_FILE, (self.path,), self.contents.needles())

    def judge(self, run: Run) -> Verdict:
        """Pass when the file was read to its end and held what was asked."""
        if run.status != 0:
            why = _READING.get(run.status or 0, f"reading it ended with exit code {run.status}")
            return Verdict(FAILED, f"{shown(self.path, 80)}: {why}")
        return self.contents.judge(run.found, shown(self.path, 80))

    def findings(self) -> Iterator[Finding]:
        """Warn of a path that looks as if a shell were to expand it, and of short strings."""
        yield from _literal_path("path", self.path)
        yield from self.contents.findings()

    def uses(self) -> Iterator[str]:
        """Yield the path, and the folders above it."""
        yield from _with_parents(self.path)


@register("run_command")
class RunCommand(Check):
    """A command ends with the expected exit code."""

    looks_only = False

    def __init__(self, params: Fields) -> None:
        self.command = params.text("command")
        self.expected = params.exit_code("exit_code")
        self.shell = params.text("shell", "/bin/sh")

    def script(self) -> Script:
        """Run the command in a shell of its own, so that nothing in it can skip the end mark."""
        # A shell takes a first word that begins like an option for one, even after its -c.
        command = f" {self.command}" if self.command[:1] in ("-", "+") else self.command
        return Script(_RUN_COMMAND, (command, self.shell), (), looks_only=self.looks_only)

    def judge(self, run: Run) -> Verdict:
        """Pass on the expected exit code."""
        if run.output.startswith(_NO_SHELL):
            return Verdict(FAILED, f"the image has no shell {shown(self.shell, 80)}")
        if self.expected is None or run.status == self.expected:
            return Verdict(PASSED, f"exit code {run.status}")
        wanted = f", expected {self.expected}" if self.expected else ""
        return Verdict(FAILED, f"exit code {run.status}{wanted}{_meaning(run)}")

    def findings(self) -> Iterator[Finding]:
        """Warn of exit codes that say nothing, and of an echo on which shells differ."""
        sure = _sure_success(self.command)
        if sure and self.expected is not None and (sure.hides or self._is_met_by(sure)):
            yield Finding("cannot-fail", "command", self._says_of_success(sure))
        elif self.expected is None and not self.needed:
            yield Finding("cannot-fail", "exit_code", "'any' lets every exit code pass; name one")
        elif not sure and self.expected is not None:
            yield from map(self._says_of_pipe, itertools.islice(_hidden_status(self.command), 1))
        if self.shell == "/bin/sh":
            yield from _bashisms(self.command)
            yield from _echoes(self.command)

    def makes(self) -> Iterator[str]:
        """Yield what the command makes, as far as that can be read."""
        return _made(self.command)

    def uses(self) -> Iterator[str]:
        """Yield what the command asks for, as far as that can be read."""
        return _used(self.command)

    needed: tuple[str, ...] = ()  # of which the output must hold one

    def _is_met_by(self, sure: Ending) -> bool:
        """Whether a command with this ending passes wherever there is a shell."""
        words = _words(sure.text.replace("||", "", 1).strip())
        printed = " ".join(words[1:]) if words[:1] in (("echo",), ("printf",)) else ""
        return not self.needed or ("$" not in printed and any(text in printed for text in self.needed))

    def _says_of_success(self, sure: Ending) -> str:
        ending = (
            f"ends in '{shown(sure.text, 60)}'" if sure.hides else f"'{shown(sure.text, 60)}' tests nothing"
        )
        if self.expected:
            return f"{ending}: the exit code is always 0, never {self.expected}, so this cannot pass"
        if self._is_met_by(sure):
            advice = "leave the ending out" if sure.hides else "test something of the image"
            return f"{ending}: the exit code is always 0, so this passes on any image; {advice}"
        says = "the exit code is always 0, and only the strings decide; leave the ending out"
        return f'{ending}: {says}, or write "exit_code": "any" if that is meant'

    def _says_of_pipe(self, pipe: Ending) -> Finding:
        what = (
            f"the exit code is that of '{shown(pipe.text, 60)}', so '{shown(pipe.hides, 60)}' may fail unseen"
        )
        advice = "end in a test of what it prints"
        if _words(pipe.hides)[:1] not in (("find",), ("ls",)):
            advice = f"leave that out (a report keeps output short), or {advice}"
        return Finding("hidden-status", "command", f"{what}; {advice}")


@register("output_contains")
class OutputContains(RunCommand):
    """A command ends with the expected exit code and its output holds any (or all) strings."""

    _reads_output = True

    def __init__(self, params: Fields) -> None:
        super().__init__(params)
        self.contents = Contents(params)
        self.needed = self.contents.texts

    def script(self) -> Script:
        """Run the command and look for the strings in all that it prints."""
        return super().script()._replace(needles=self.contents.needles())

    def judge(self, run: Run) -> Verdict:
        """Pass on the exit code and the strings together."""
        code = super().judge(run)
        return self.contents.judge(run.found, "output") if code.status == PASSED else code

    def findings(self) -> Iterator[Finding]:
        """Warn as for any command, of short strings, and of those that the shell itself prints."""
        yield from super().findings()
        yield from self.contents.findings()
        found = self._in_an_error()
        if found:
            yield Finding("needle-in-error", "contains", found)

    def _in_an_error(self) -> str:
        """Say which strings also stand in the shell's word of a missing command, "" where none do."""
        names = {words[0] for _, words in _programs(self.command)} - _BUILTINS
        if re.search(r"2>\s*/dev/null|&>|command -v|which ", self.command):
            return ""
        for program in sorted(names):
            error = f"/bin/sh: 1: {shown(program, 40)}: not found"
            texts = [text for text in self.contents.texts if text in error]
            if any(len(text) > SHORT_NEEDLE for text in texts) and (
                not self.contents.all or len(texts) == len(self.contents.texts)
            ):
                what = f"{listed(texts)}: also in what the shell prints without the command ('{error}')"
                saved = self.expected == 0 and not _sure_success(self.command)
                saved = saved and not any(_hidden_status(self.command))
                then = "only the exit code tells the two apart" if saved else "it passes where there is none"
                return f"{what}, so that {then}; write more of the true output"
        return ""


def _notes(output: str) -> list[tuple[str, str]]:
    """Split what our own scripts print: a word and its value on each line."""
    pairs = (line.partition(" ") for line in output.splitlines())
    return [(word, value) for word, _, value in pairs]


def _places(notes: list[tuple[str, str]], word: str, count: int) -> list[int]:
    """Return the places in a list of `count` that were noted with `word`, from 0."""
    places = [int(value) - 1 for key, value in notes if key == word and value.isdecimal()]
    return [place for place in places if 0 <= place < count]


def _literal_path(place: str, path: str) -> Iterator[Finding]:
    special = re.search(r"^~|[$*]", path)
    if special:
        what = f"'{special[0]}' in '{shown(path, 60)}' stands for itself, since nothing expands a path"
        yield Finding("literal-path", place, f"{what}; write the path out, or use run_command")


def _run_by_sh(command: str) -> Iterator[str]:
    """Yield each simple command that /bin/sh itself runs, not a bash that it calls."""
    for step in _steps(command):
        text, inner = _simple(step.text), _inner(step.text)
        if inner is None:
            yield text
        elif not re.match(r"\S*bash\s", text):
            yield from _run_by_sh(inner)


def _bashisms(command: str) -> Iterator[Finding]:
    """Warn of what bash knows and dash, the /bin/sh of Debian and Ubuntu, does not."""
    for text in _run_by_sh(command):
        words = _words(text) or ("",)
        option = words[0] == "set" and "pipefail" in words
        if words[0] in _BASHISMS or option:
            name = "set -o pipefail" if option else words[0]
            what = f"'{name}' is bash's, and unknown to dash, the /bin/sh of Debian and Ubuntu"
            yield Finding(
                "bashism", "command", f'{what}; give "shell": "/bin/bash", or write it for any shell'
            )


def _echoes(command: str) -> Iterator[Finding]:
    """Warn of an echo whose words dash, the /bin/sh of Debian and Ubuntu, prints otherwise than bash."""
    for text in _run_by_sh(command):
        option = re.match(r"echo\s+(-n?en?)\s", text)
        strings = _STRINGS.findall(text) if re.match(r"echo\s", text) else ()
        literal = " ".join(string for string in strings if not re.search(r"\$\(|`", string))
        escape = re.search(r"\\[abcfnrtv0]", literal)
        advice = "use printf '%s\\n' for text as it stands, '%b' for escapes"
        if option or escape:
            does = f"prints the '{option[1]}' of" if option else f"expands '{escape[0]}' in"  # type: ignore[index]
            yield Finding("echo-escape", "command", f"dash {does} echo, bash does not; {advice}")


def review(rubric: Rubric) -> Iterator[Finding]:
    """Yield what in a rubric may mean nothing, or something else than it seems."""
    if not rubric.repo:
        yield Finding("no-repo", "repo", "missing; reports and readers cannot tell whose rubric this is")
    for at, test in enumerate(rubric.tests):
        if test.timeout < SHORT_TIMEOUT:
            text = f"{test.timeout:g} s is short enough to fail on a busy machine; give at least 1 s"
            yield Finding("short-timeout", _placed(at, test, ".timeout"), text)
        if test.score == 0:
            yield Finding("no-points", _placed(at, test, ".score"), "0: whether it passes changes no score")
        for name, place, text in test.check.findings():
            yield Finding(name, _placed(at, test, f".params.{place}"), text)
    yield from _made_elsewhere(rubric.tests)


def _placed(at: int, test: Test, field: str = "") -> str:
    """Name a place in a rubric: by number, as faults are, and by the id that a report has."""
    return f"tests[{at}]{field} '{shown(test.id, 60)}'"


def _made_elsewhere(tests: Sequence[Test]) -> Iterator[Finding]:
    """Warn of tests that ask for what an earlier command made, in a container that is gone."""
    makers: dict[str, int] = {}
    losers: dict[str, list[int]] = collections.defaultdict(list)
    for at, test in enumerate(tests):
        made = set(test.check.makes())
        lost = makers.keys() & set(test.check.uses()) - made
        for thing in sorted(lost, key=lambda thing: (len(thing), thing))[:1]:
            losers[thing].append(at)
        for product in made:
            makers.setdefault(product, at)
    for thing, (first, *others) in losers.items():
        what = thing if thing.startswith("command ") else f"'{shown(thing, 60)}'"
        says = f"{what} is made by {_placed(makers[thing], tests[makers[thing]])} in a container of its own"
        more = f", nor for {len(others)} more of the tests after it" if others else ""
        then = f"and is not here{more}, unless the image has it, too"
        advice = "join the steps with &&, or build it in the Dockerfile"
        yield Finding("made-elsewhere", _placed(first, tests[first]), f"{says}, {then}; {advice}")


_SYNTAX = re.compile("yntax error|unexpected EOF|nterminated")
SHELL_MISUSE = 2  # the exit code of shells for what they cannot parse
_EXIT_CODES = {
    126: " (cannot be executed)",
    127: " (command not found)",
    137: " (killed; out of memory?)",
    139: " (segmentation fault)",
}


def _meaning(run: Run) -> str:
    """Say what an exit code means by convention, and the last line that was printed."""
    last = last_line(run.output)
    reason = _EXIT_CODES.get(run.status or 0, "")
    if run.status == SHELL_MISUSE and _SYNTAX.search(run.output[-1000:]):
        reason = " (a syntax error in the rubric's command)"
    return f"{reason}: {shown(last, 120)}" if last else reason


# ---------------------------------------------------------------------------------------------
# Room 4: Docker
# ---------------------------------------------------------------------------------------------

REPOSITORY = "dockerfile-evaluator"  # of our images, and the beginning of our containers' names
LABEL = "io.dockerfile-evaluator."
CONTAINER_NAME = re.compile(REPOSITORY + r"-(?P<run>[0-9a-f]{12})-[0-9]+")
IMAGE_TAG = re.compile(r"(?P<run>[0-9a-f]{12})")

# Limits in seconds.
TICK = 0.1  # how soon a deadline or a request to stop is seen while docker is silent
CALL_LIMIT = 20.0  # a docker command that only asks or removes
START_LIMIT = 60.0  # from `docker run` to the begin mark
END_LIMIT = START_LIMIT  # from the end mark to the end of `docker run`
CREATE_LIMIT = 5.0  # for a container that is to end before it is there
KILL_LIMIT = 5.0  # from a signal to the end of a docker command
REMOVE_LIMIT = 30.0  # for one container or image, all attempts together
RETURN_LIMIT = 10.0  # for a lost engine to come back, so that clean-up can go on
MARGIN = 3600.0  # that a run may outlive the sum of its limits before it counts as dead

# Sizes in bytes.
CHUNK = 64 * 1024
KEPT_HEAD = 2 * 1024  # of a container's output
KEPT_TAIL = 6 * 1024
KEPT_LOG = 16 * 1024  # of the build log, its end
KEPT_ANSWER = 4 * 1024 * 1024  # of a docker command that only asks

# A shell whose command was killed by Ctrl-C ends itself, unless it has a trap for it.
_WRAPPER = """\
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
_MARK = re.compile(rb"=(?:(?P<begin>B)|E (?P<status>[0-9]{1,3}))\n")
_MARK_LONGEST = len(b"=E 255\n")

_BUILD_ENVIRONMENT = {"BUILDKIT_PROGRESS": "plain", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}

# What docker and podman say where there is no engine at the other end, in lower case.
_UNREACHABLE = (
    "cannot connect to the docker daemon",
    "is the docker daemon running",
    "error during connect",
    "connection refused",
    "connection reset",
    "unable to connect",
)
# What docker and podman say of a container or image that is not there, in lower case.
_GONE = ("no such container", "no such image", "no such object", "image not known")
# What docker says of itself at the end of a build that no Dockerfile could help.
_ENGINE_FAULTS = (
    "no space left on device",
    "toomanyrequests: ",
    "failed to create endpoint",
    "could not find bridge",
)
# How it says that Docker Hub, from which every image's base may come, cannot be reached. What stands
# in the address is the Dockerfile's, what follows it is not.
_NO_REGISTRY = re.compile(
    r'(Get|Head) "https://(registry-1|auth)\.docker\.io/[^"]*": .*'
    "(no such host|timeout|refused|reset by peer|unreachable|misbehaving|EOF)"
)
# How it begins to say that a RUN failed; then follows the Dockerfile's own text.
_FAILED_RUN = re.compile("The command '|process \"|executor failed running|building at STEP")
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


class Flags(NamedTuple):
    """What may be handed to a docker command: our defaults, and what would break us."""

    forbidden: tuple[str, ...]
    shorts: Mapping[str, str]  # one-letter flags that need no value or are forbidden
    defaults: tuple[tuple[str, str], ...]  # a flag's name and the word that we hand over

    def check(self, word: str) -> None:
        """Raise ValueError, with the reason, for a word that must not be handed to docker."""
        if not re.match(r"--?[A-Za-z]", word):
            raise ValueError(f"{word!r}: expected one word that begins with '-', such as --flag=value")
        for name in self.names(word):
            if name in self.forbidden:
                raise ValueError(f"{word!r}: --{name} is the evaluator's own to set")

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

    def words(
        self, given: Sequence[str], extra: Sequence[tuple[str, str]] = (), without: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Return our defaults, less those `without` or that the user's own words replace, and these words."""
        names = {*without, *self.given(given)}
        if any(name.startswith("health-") for name in names):
            names.add("no-healthcheck")
        ours = (word for name, word in (*self.defaults, *extra) if name not in names)
        return (*ours, *given)

    def given(self, words: Sequence[str]) -> set[str]:
        """Return the long names of the flags that any of the words sets."""
        return {name for word in words for name in self.names(word)}


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
# What only one container at a time can have: a port of the host, an address.
_EXCLUSIVE = frozenset({"publish", "p", "ip", "ip6", "mac-address"})
_EXCLUSIVE_NETWORK = re.compile("--net(work)?=.*(ip6?|mac-address)=")
# What crun says where it may not limit, as for a rootless podman (containers/crun#160).
_NO_LIMITS = "cannot set limits"
BUILD_ATTEMPTS = 5
_LAYER_KEEPERS = ("legacy", "buildah")  # builders whose cache is images without a name
_FROM_STEP = r"^(?:Step \d+/\d+ |(?:\[\d+/\d+\] )?STEP \d+/\d+): FROM "
# How the legacy builder (moby, image/store.go) and buildah end where somebody removed a layer on which
# they were to build.
_LOST_LAYER = re.compile(
    "(No such image:|unknown parent image ID|failed to get digest) sha256:[0-9a-f]{64}"
    "|layer does not exist$|layer not known$"
)
BUILD_FLAGS = Flags(
    ("tag", "file", "iidfile", "quiet", "output", "load", "push", "help"),
    {"t": "tag", "f": "file", "q": "quiet", "o": "output"},
    (("force-rm", "--force-rm"),),
)
_NO_NETWORK = (("network", "--network=none"),)


class Process:
    """A docker command in a session of its own: the one place that starts a process.

    The session keeps a terminal's Ctrl-C away from docker, so that clean-up can finish. Leaving
    the `with` block ends what still runs of it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        except FileNotFoundError:
            raise EngineError(f"no program '{command[0]}' found. {_PROGRAM_HINT}") from None
        except OSError as error:
            raise EngineError(f"'{command[0]}' cannot be started: {error.strerror}") from None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exception: object) -> None:
        for name in ("stdout", "stderr"):  # first, or a docker that writes would never end
            self._pipe(name).close()
        if self.wait(0) is None:
            self._signal(signal.SIGTERM)
            if self.wait(KILL_LIMIT) is None:
                self._signal(signal.SIGKILL)
                self._popen.wait()

    def read(self) -> Iterator[tuple[str, bytes]]:
        """Yield `stdout` or `stderr` with what came there, and ("", b"") at least each TICK.

        Ends with the end of both pipes, or when the command has ended and a stranger that
        it left behind holds them.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe("stdout"), selectors.EVENT_READ, "stdout")
            selector.register(self._pipe("stderr"), selectors.EVENT_READ, "stderr")
            while selector.get_map():
                ended = self.wait(0) is not None  # before the look at the pipes, or its last words were lost
                ready = selector.select(TICK)
                if ended and not ready:
                    return
                for key, _ in ready:
                    data = os.read(key.fd, CHUNK)
                    if data:
                        yield key.data, data
                    else:
                        selector.unregister(key.fileobj)
                yield "", b""

    def wait(self, limit: float) -> int | None:
        """Return the exit code, None where the command runs on after `limit` seconds."""
        try:
            return self._popen.wait(limit) if limit else self._popen.poll()
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End the command at once, without a word to whatever it is talking to."""
        self._signal(signal.SIGKILL)
        self._popen.wait()

    def _pipe(self, name: str) -> Any:
        return getattr(self._popen, name)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)


class Output:
    """A stream of any length: which needles it holds, its first and its last bytes."""

    def __init__(self, needles: Sequence[Needle] = (), head: int = KEPT_HEAD, tail: int = KEPT_TAIL) -> None:
        self._needles = needles
        self._found = [False] * len(needles)
        self._head_limit, self._tail_limit = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self._size = 0
        # Where the stream is a list of strings that end in NUL, the first begins as the others do.
        self._carry = b"\0"
        self._overlap = max((needle.width for needle in needles), default=1) - 1

    def feed(self, data: bytes) -> None:
        """Take the next bytes, in pieces of any size."""
        self._size += len(data)
        if not all(self._found):
            window = self._carry + data
            for at, needle in enumerate(self._needles):
                self._found[at] = self._found[at] or bool(needle.pattern.search(window))
            self._carry = window[-self._overlap :] if self._overlap else b""
        room = self._head_limit - len(self._head)
        self._head += data[: max(room, 0)]
        self._tail += data[max(room, 0) :]
        excess = len(self._tail) - self._tail_limit
        if excess > CHUNK:
            del self._tail[:excess]

    @property
    def found(self) -> tuple[bool, ...]:
        """Whether each needle was in the stream."""
        return tuple(self._found)

    def text(self) -> str:
        """Return the stream, its middle left out where it is long."""
        tail = bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""
        left_out = self._size - len(self._head) - len(tail)
        gap = f"\n[… {left_out} bytes left out …]\n".encode() if left_out else b""
        return (bytes(self._head) + gap + tail).decode(errors="replace")


class Marks:
    """Tell a container's marks from its output, in a stream fed in pieces of any size.

    Only what stands between the begin mark and the first end mark is output. `nonce` begins
    every mark, and nobody outside knows it before the container starts.
    """

    def __init__(self, nonce: bytes, output: Output) -> None:
        self._nonce = nonce
        self._output = output
        self._rest = b""
        self.begins = 0
        self.statuses: list[int] = []

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._rest += data
        while True:
            at = self._rest.find(self._nonce)
            if at < 0:
                return self._pass_on(max(len(self._rest) - len(self._nonce) + 1, 0))
            self._pass_on(at)
            mark = _MARK.match(self._rest, len(self._nonce))
            if mark:
                self._note(mark)
                self._rest = self._rest[mark.end() :]
            elif len(self._rest) < len(self._nonce) + _MARK_LONGEST:
                return None  # the rest of a mark may be on its way
            else:
                self._pass_on(len(self._nonce))

    def close(self) -> None:
        """Take what is left as output: no more is coming."""
        self._pass_on(len(self._rest))

    def proof(self, code: int | None) -> str:
        """Return "" where the marks prove that the check ran to its end, else what is amiss."""
        if self.begins != 1 or len(self.statuses) != 1:
            return f"{self.begins} begin and {len(self.statuses)} end marks instead of one each"
        if self.statuses[0] != code:
            return f"the end mark says exit code {self.statuses[0]}, docker says {code}"
        return ""

    def _pass_on(self, count: int) -> None:
        if self.begins and not self.statuses:
            self._output.feed(self._rest[:count])
        self._rest = self._rest[count:]

    def _note(self, mark: Any) -> None:
        if mark["begin"]:
            self.begins += 1
        else:
            self.statuses.append(int(mark["status"]))


class Answer(NamedTuple):
    """What a docker command that only asks or removes had to say."""

    code: int
    stdout: str
    stderr: str

    def says(self, text: str) -> bool:
        """Whether docker's error holds `text`, whatever the case."""
        return text in self.stderr.lower()


class Engine(NamedTuple):
    """The versions of what answered, and the engine's clock less ours in seconds."""

    client: str
    server: str
    platform: str
    clock_offset: float


class Image(NamedTuple):
    """What `docker image inspect` says of the image that was built."""

    size: int
    user: str
    workdir: str
    environment: tuple[str, ...]


class Container(NamedTuple):
    """How one `docker run` went; `overrun` names the limit that was not kept, "" if none was.

    `running` says of a start or end that took too long whether the engine had the container running.
    """

    name: str
    marks: Marks
    output: Output
    words: str  # docker's own, from before the begin mark
    code: int | None
    overrun: str
    running: bool
    seconds: float


def _untold() -> None:
    """Tell nobody that a check has answered."""


class Watch:
    """The clock of one container: it knows which limit counts now, and whether it is over.

    `answered` is called once, as soon as the end mark is there.
    """

    def __init__(self, marks: Marks, timeout: float, answered: Callable[[], None]) -> None:
        self._marks = marks
        self._timeout = timeout
        self._answered = answered
        self._started = time.monotonic()
        self._begun: float | None = None
        self._ended: float | None = None

    def overrun(self) -> str:
        """Return "start", "check" or "end" where that limit is over, else ""."""
        now = time.monotonic()
        if self._marks.begins and self._begun is None:
            self._begun = now
        if self._marks.statuses and self._ended is None:
            self._ended = now
            self._answered()
        if self._ended is not None:
            return "end" if now - self._ended > END_LIMIT else ""
        if self._begun is not None:
            return "check" if now - self._begun > self._timeout else ""
        return "start" if now - self._started > START_LIMIT else ""

    def seconds(self) -> float:
        """Return the time from begin to end mark; without marks, from the start until now."""
        begun = self._started if self._begun is None else self._begun
        ended = time.monotonic() if self._ended is None else self._ended
        return ended - begun


class Cli:
    """The docker command line, for commands that only ask or remove."""

    def __init__(self, program: str, stop: Stop) -> None:
        self.program = program
        self._stop = stop

    def ask(self, *arguments: str, last: bool = False) -> Answer:
        """Run a docker command and return its answer, whatever its exit code.

        Raises EngineError where there is no engine or no answer within CALL_LIMIT seconds, and
        Stopped where somebody asked for the end; the `last` calls, those of clean-up, go on
        until they ask again.
        """
        stdout, stderr = Output((), KEPT_ANSWER, 0), Output((), CHUNK, 0)
        deadline = time.monotonic() + CALL_LIMIT
        with Process((self.program, *arguments), {}) as process:
            for stream, data in process.read():
                (stdout if stream == "stdout" else stderr).feed(data)
                if self._stop.level > int(last):
                    raise Stopped
                if time.monotonic() > deadline:
                    break
            code = process.wait(max(deadline - time.monotonic(), TICK))
        if code is None:
            raise EngineError(f"docker {arguments[0]} gave no answer within {CALL_LIMIT:.0f} s")
        answer = Answer(code, stdout.text(), stderr.text())
        if code != 0 and any(answer.says(words) for words in _UNREACHABLE):
            raise no_engine(answer.stderr)
        return answer

    def answers(self) -> bool:
        """Whether there is an engine that answers."""
        try:
            return self.ask("version", "--format", "{{.Server.Version}}").code == 0
        except EngineError:
            return False

    def engine(self) -> Engine:
        """Return what answers; raise EngineError where nothing does."""
        answer = self.ask("version", "--format", "{{json .}}")
        versions = _json_object(answer.stdout)
        client = versions.get("Client") or {}
        server = versions.get("Server") or client  # podman is its own engine, and names it once
        if answer.code != 0 or not server:
            raise no_engine(answer.stderr)
        platform = str(server.get("OsArch") or f"{server.get('Os')}/{server.get('Arch')}")
        offset = self._clock() - time.time()
        return Engine(str(client.get("Version")), str(server.get("Version")), platform, offset)

    def _clock(self) -> float:
        """Return the engine's time, in seconds since 1970; ours where it does not tell."""
        text = self.ask("info", "--format", "{{.SystemTime}}").stdout
        parts = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", text)
        if not parts:
            return time.time()
        zone = "+00:00" if parts[2] == "Z" else parts[2]
        return datetime.datetime.fromisoformat(parts[1] + zone).timestamp()


class Janitor:
    """Marks what a run makes on the engine, and removes it: after this run, and after dead ones.

    Nothing is taken for ours by its labels alone, since images can forge them: a container must
    have a name of ours too, and an image a tag in our own repository. `left` names what could
    not be removed.
    """

    _KEYS = ("run", "owner", "expires")

    def __init__(self, cli: Cli, run: str) -> None:
        self._cli = cli
        self._run = run
        self._live: set[str] = set()
        self._count = 0
        self._lock = threading.Lock()
        self.left: list[str] = []

    def labels(self, expires: float) -> tuple[str, ...]:
        """Return the words that put our labels on an image or container; a time since 1970."""
        values = (self._run, _owner(), str(int(min(expires, 1e12))))
        pairs = zip(self._KEYS, values)
        return tuple(word for key, value in pairs for word in ("--label", f"{LABEL}{key}={value}"))

    def new_name(self) -> str:
        """Return a name for a container."""
        with self._lock:
            self._count += 1
            return f"{REPOSITORY}-{self._run}-{self._count}"

    def expect(self, name: str) -> None:
        """Take note that docker is making a container, which is from now on to be removed."""
        self._live.add(name)

    def has_container(self, name: str) -> bool:
        """Whether the engine has made the container yet, and not removed it."""
        return self._cli.ask("container", "inspect", name, last=True).code == 0

    def gone(self, name: str) -> None:
        """Take note that a container is no more."""
        self._live.discard(name)

    def remove_container(self, name: str) -> None:
        """Remove a container with its anonymous volumes, and see that it is gone."""
        remove = ("container", "rm", "--force", "--volumes", name)
        self._remove(remove, ("container", "inspect", name))
        self.gone(name)

    def clean_up(self, tag: str) -> None:
        """Remove this run's containers, then its image; docker may be away for a while."""
        deadline = time.monotonic() + RETURN_LIMIT
        reason = "clean-up was interrupted"
        while time.monotonic() < deadline:
            try:
                return self._clean_up(tag)
            except Stopped:
                break
            except EngineError as error:
                reason = str(error)
                time.sleep(TICK)
        self.left.extend(f"container {name} ({reason})" for name in sorted(self._live))
        self.left.append(f"image {tag} ({reason})")
        return None

    def sweep_dead_runs(self, now: float) -> None:
        """Remove what other runs left that were killed; `now` is the engine's clock."""
        for name, labels in self._containers():
            if labels.get("run") != self._run and _is_dead(labels, now):
                self.remove_container(name)
        for tag, labels in self._images():
            if _is_dead(labels, now):
                self._remove_image(tag)

    def unnamed_images(self) -> set[str]:
        """Return the ids of all images on the engine that have no name."""
        form = ("--all", "--no-trunc", "--format", "{{.Tag}} {{.ID}}")
        answer = self._cli.ask("image", "ls", *form, last=True)
        lines = (line.split() for line in answer.stdout.splitlines())
        return {words[1] for words in lines if words[0] == "<none>"}

    def _clean_up(self, tag: str) -> None:
        self._remove_own_containers()
        self._remove_image(tag)
        if self._live:  # what docker was still making may have come by now
            self._remove_own_containers()
            self.left.extend(
                f"container {name} (docker may still be making it)" for name in sorted(self._live)
            )

    def _remove_own_containers(self) -> None:
        for name, labels in self._containers():
            if labels.get("run") == self._run:
                self.remove_container(name)

    def _remove_image(self, tag: str) -> None:
        self._remove(("image", "rm", tag), ("image", "inspect", tag))

    def _remove(self, remove: Sequence[str], inspect: Sequence[str]) -> None:
        """Remove until docker says that it is gone: it may be in use or on its way for a moment."""
        deadline = time.monotonic() + REMOVE_LIMIT
        words = ""
        while time.monotonic() < deadline:
            words = self._cli.ask(*remove, last=True).stderr
            answer = self._cli.ask(*inspect, last=True)
            if answer.code != 0 and any(answer.says(gone) for gone in _GONE):
                return
            time.sleep(TICK / 2)
        self.left.append(f"{remove[0]} {remove[-1]} ({shown(last_line(words))})")

    def _containers(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the name and labels of each container that a run of ours made."""
        form = "\t".join(["{{.Names}}", *(f'{{{{.Label "{LABEL}{key}"}}}}' for key in self._KEYS)])
        ours = f"label={LABEL}run"
        answer = self._cli.ask("ps", "--all", "--filter", ours, "--format", form, last=True)
        for line in answer.stdout.splitlines():
            name, *values = line.split("\t")
            labels = dict(zip(self._KEYS, values))
            match = CONTAINER_NAME.fullmatch(name)
            if match and match["run"] == labels.get("run"):
                yield name, labels

    def _images(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the tag and labels of each image that a run of ours made and did not keep."""
        answer = self._cli.ask("image", "ls", "--format", "{{.Tag}}", REPOSITORY, last=True)
        form = "{{json .Config.Labels}}"
        for part in filter(IMAGE_TAG.fullmatch, answer.stdout.split()):
            tag = f"{REPOSITORY}:{part}"
            labels = self._cli.ask("image", "inspect", "--format", form, tag, last=True)
            pairs = _json_object(labels.stdout).items()
            yield tag, {key[len(LABEL) :]: str(value) for key, value in pairs if key.startswith(LABEL)}


class Docker:
    """One image, its containers, and their end.

    Entering the `with` block finds the engine and removes what dead runs left; leaving it
    removes all that was made. What could not be removed is then named in `left`, and what the
    user should know is in `notes`. `lifetime` is how long, in seconds, the run can take.
    """

    def __init__(
        self,
        program: str,
        stop: Stop,
        *,
        lifetime: float = 0.0,
        build_options: Sequence[str] = (),
        run_options: Sequence[str] = (),
    ) -> None:
        run = os.urandom(6).hex()
        self._cli = Cli(program, stop)
        self._janitor = Janitor(self._cli, run)
        self._run = run
        self._stop = stop
        self._lifetime = lifetime
        self._build_options = tuple(build_options)
        self._run_options = tuple(run_options)
        self._labels: tuple[str, ...] = ()
        self._builder = ""
        self._stages = 0
        self._unnamed: set[str] = set()
        self._left_out: tuple[str, ...] = ()  # of our defaults for `docker run`
        self._lock = threading.Lock()
        # Held by a container that has what only one can have.
        self._turn: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if _is_exclusive(self._run_options):
            self._turn = threading.Lock()
        self.tag = f"{REPOSITORY}:{run}"
        self.engine: Engine | None = None
        self.image: Image | None = None
        self.notes: list[Finding] = []

    def __enter__(self) -> Docker:
        """Raise EngineError where there is no docker program or no engine."""
        self.engine = self._cli.engine()
        self._try_run_options()
        now = time.time() + self.engine.clock_offset
        self._labels = self._janitor.labels(now + self._lifetime + MARGIN)
        self._janitor.sweep_dead_runs(now)
        self._unnamed = self._janitor.unnamed_images()
        return self

    def __exit__(self, *exception: object) -> None:
        self._janitor.clean_up(self.tag)
        # The last stage's layers went with our tag; those of a broken build or another stage did not.
        if self._builder in _LAYER_KEEPERS and (self.image is None or self._stages > 1) and not self.left:
            self._note_cached_layers()

    @property
    def left(self) -> list[str]:
        """What could not be removed, and why."""
        return self._janitor.left

    def _try_run_options(self) -> None:
        """Raise EngineError where docker refuses the user's options: else it says so after the build."""
        if self._run_options:
            answer = self._cli.ask("run", *self._run_options, "--help")
            if answer.code != 0:
                words = shown(" ".join(answer.stderr.split()), 300)
                raise EngineError(f"docker refuses the run options: {words}")

    # The image

    def build(self, dockerfile: str, context: str, limit: float, watch: Callable[[bytes], None]) -> Build:
        """Build the image; `watch` gets the log in pieces, `limit` is in seconds.

        With the legacy builder and podman's, the clean-up of another run of the same Dockerfile,
        or one that begins alike, can take a layer from under a build, which is then tried again.
        Raises EngineError where the engine is lost on the way, and Stopped.
        """
        started = time.monotonic()
        for _ in range(BUILD_ATTEMPTS):
            build = self._build(dockerfile, context, limit - (time.monotonic() - started), watch)
            if build.kind != "build" or not _LOST_LAYER.search(last_line(build.log)):
                break
        if build.kind == "build_timeout":
            build = build._replace(message=f"the build took over {limit:g} s and was stopped")
        return build._replace(seconds=time.monotonic() - started)

    def _build(self, dockerfile: str, context: str, limit: float, watch: Callable[[bytes], None]) -> Build:
        started = time.monotonic()
        log, head = Output((), 0, KEPT_LOG), Output((), CHUNK, 0)
        code: int | None = None
        try:
            with Process(self._build_command(dockerfile, context), _BUILD_ENVIRONMENT) as process:
                for _, data in process.read():
                    log.feed(data)
                    head.feed(data)
                    watch(data)
                    if self._stop.level:
                        raise Stopped
                    if time.monotonic() - started > limit:
                        break
                else:
                    code = process.wait(END_LIMIT)
        finally:
            self._builder = _builder(head.text())
            self._stages = len(re.findall(_FROM_STEP, head.text(), re.MULTILINE))
        words = log.text()
        kind, message = self._judge_build(code, words)
        hint = _context_hint(words, context) if kind == "build" else ""
        return Build(kind, message + hint, words, self._builder, time.monotonic() - started)

    def keep(self, name: str) -> str:
        """Give the image a second tag, with `name` in it, that is never removed; return the tag."""
        part = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "image"
        tag = f"{REPOSITORY}:{part}-{self._run}-kept"
        answer = self._cli.ask("image", "tag", self.tag, tag)
        if answer.code != 0:
            raise EngineError(f"the image could not be kept: {shown(last_line(answer.stderr))}")
        return tag

    def _build_command(self, dockerfile: str, context: str) -> tuple[str, ...]:
        ours = ("--tag", self.tag, "--file", os.path.abspath(dockerfile))
        options = BUILD_FLAGS.words(self._build_options)
        return (self._cli.program, "build", *options, *self._labels, *ours, os.path.abspath(context))

    def _judge_build(self, code: int | None, log: str) -> tuple[str, str]:
        """Return the kind of fault, "" where there is none, and a message."""
        if code is None:
            return "build_timeout", ""
        if code != 0:
            if not self._cli.answers():
                raise EngineError(f"the docker engine was lost during the build. {_ENGINE_HINT}")
            words = shown(_last_words(log), 300)
            if _blames_the_engine(log):
                raise EngineError(f"the docker engine failed during the build: {words}")
            return "build", f"docker build failed: {words}"
        self.image = self._inspect_image()
        if self.image is None:
            raise EngineError(
                "docker build succeeded, but the engine has no such image: the builder did not "
                "load it (a docker-container builder needs `docker buildx use default`)"
            )
        return "", "built"

    def _inspect_image(self) -> Image | None:
        answer = self._cli.ask("image", "inspect", "--format", "{{json .}}", self.tag)
        facts = _json_object(answer.stdout)
        config = facts.get("Config") or {}
        if answer.code != 0 or (config.get("Labels") or {}).get(f"{LABEL}run") != self._run:
            return None
        environment = tuple(str(entry) for entry in config.get("Env") or ())
        user, workdir = str(config.get("User") or ""), str(config.get("WorkingDir") or "")
        return Image(int(facts.get("Size") or 0), user, workdir, environment)

    def _note_cached_layers(self) -> None:
        """Tell of the builder's remains; whose they are cannot be told, so they stay."""
        count = len(self._janitor.unnamed_images() - self._unnamed)
        if count:
            text = (
                f"new images without a name, other builds' among them: {count}; they are the builder's cache"
            )
            advice = "`docker image prune` removes all such images, best while nothing is built"
            self.notes.append(Finding("cached-layers", "engine", f"{text}; {advice}"))

    # The containers

    def run(self, script: Script, timeout: float, answered: Callable[[], None]) -> Run:
        """Run a script in a new container; `timeout`, in seconds, counts from its begin mark.

        `answered` is called where the check has come to its end, and only docker's removal of the
        container is waited for. Raises nothing for what goes wrong: it is in the Run's `ending`
        and `why`.
        """
        try:
            with self._turn:
                return self._run_anew(script, timeout, answered)
        except EngineError as error:
            return Run(ERROR, str(error))
        except Stopped:
            return Run(NOT_RUN, "the evaluation was interrupted")

    def _run_anew(self, script: Script, timeout: float, answered: Callable[[], None] = _untold) -> Run:
        container = self._start(script, timeout, answered=answered)
        if not container.marks.begins and not container.overrun:
            return self._run_again(script, timeout)
        return self._judge(container, timeout)

    def _start(
        self,
        script: Script,
        timeout: float,
        *extra: str,
        keep: bool = False,
        answered: Callable[[], None] = _untold,
    ) -> Container:
        """Run one container to its end; it is gone afterwards, unless it is to be kept."""
        if self._stop.level:
            raise Stopped
        nonce, name = os.urandom(16).hex(), self._janitor.new_name()
        output, words = Output(script.needles), Output((), CHUNK, 0)
        marks = Marks(nonce.encode(), output)
        watch = Watch(marks, timeout, answered)
        with Process(self._run_command(name, script, nonce, extra, keep=keep), {}) as process:
            self._janitor.expect(name)
            overrun = self._follow(process, marks, words, watch)
            code = None if overrun else process.wait(END_LIMIT)
            if code is None and not overrun:
                overrun = "end"
            marks.close()
            seconds = watch.seconds()
            running = overrun in ("start", "end") and self._is_running(name)
            if code is None:
                self._end_early(process, name, begun=bool(marks.begins))
        if marks.proof(code) and not keep:
            self._janitor.remove_container(name)
        if code is not None and not keep:
            self._janitor.gone(name)
        if overrun == "stop":
            raise Stopped
        return Container(name, marks, output, words.text(), code, overrun, running, seconds)

    def _end_early(self, process: Process, name: str, *, begun: bool) -> None:
        """End a container before its time, and the docker command that waits for it.

        What docker is still making cannot be removed, so its command lives until it is there.
        """
        deadline = time.monotonic() + CREATE_LIMIT
        while not begun and process.wait(0) is None and time.monotonic() < deadline:
            if self._janitor.has_container(name):
                break
            time.sleep(TICK)
        process.kill()  # before the container, since docker cannot remove what it still prints from
        if begun or self._janitor.has_container(name):
            self._janitor.remove_container(name)

    def _is_running(self, name: str) -> bool:
        answer = self._cli.ask("container", "inspect", "--format", "{{.State.Running}}", name)
        return answer.stdout.strip() == "true"

    def _follow(self, process: Process, marks: Marks, words: Output, watch: Watch) -> str:
        """Read a container to its end; return "", the limit that was not kept, or "stop"."""
        for stream, data in process.read():
            if stream == "stdout":
                marks.feed(data)
            elif not marks.begins:
                words.feed(data)
            overrun = "stop" if self._stop.level else watch.overrun()
            if overrun:
                return overrun
        return ""

    def _run_command(
        self, name: str, script: Script, nonce: str, extra: Sequence[str], *, keep: bool
    ) -> tuple[str, ...]:
        """Return the command, in which a `--label` of ours follows the user's own options.

        An option that lacks its value swallows that word, and docker then finds no image where
        it looks for one, before anything is made.
        """
        network = _NO_NETWORK if script.looks_only else ()
        options = RUN_FLAGS.words(self._run_options, network, self._left_out)
        ours = ("--name", name, "--entrypoint", "/bin/sh", *(() if keep else ("--rm",)))
        shell = ("-c", _WRAPPER.format(text=script.text), "/bin/sh", nonce, *script.arguments)
        return (self._cli.program, "run", *ours, *options, *extra, *self._labels, self.tag, *shell)

    def _judge(self, container: Container, timeout: float) -> Run:
        output, seconds = container.output.text(), container.seconds
        if container.overrun == "check":
            why = f"no end within {timeout:g} s; the container was killed"
            return Run(TIMEOUT, why, output=output, seconds=seconds)
        if container.running:
            what = "did not begin the check" if container.overrun == "start" else "went on after its end"
            return Run(FAILED, f"the image's /bin/sh was started, but {what} for {START_LIMIT:.0f} s")
        if container.overrun:
            raise EngineError(f"docker did not {container.overrun} the container within {START_LIMIT:.0f} s")
        amiss = container.marks.proof(container.code)
        if not amiss:
            return Run(FINISHED, "", container.code, container.output.found, output, seconds)
        if not self._cli.answers() or not (container.marks.statuses or self._saw_its_end(container)):
            raise EngineError("the docker engine was lost during the test")
        why = f"no proof that the check ran to its end: {amiss} (container's exit code {container.code})"
        return Run(FAILED, why, output=output, seconds=seconds)

    def _saw_its_end(self, container: Container) -> bool:
        """Whether this engine saw a container die: one that started after its death did not.

        An engine keeps its latest events in memory only (moby, daemon/events), and one that stops
        kills its containers first, which looks like a process that was killed in them.
        """
        now = time.time() + (self.engine.clock_offset if self.engine else 0.0)
        span = ("--since", str(int(now - container.seconds - START_LIMIT)), "--until", str(int(now) + 2))
        filters = ("--filter", f"container={container.name}", "--filter", "event=die")
        answer = self._cli.ask("events", *span, *filters)
        return answer.code != 0 or bool(answer.stdout.strip())

    def _run_again(self, script: Script, timeout: float) -> Run:
        """Find out why a container gave no begin mark: by chance, by the image or by the engine.

        This one is kept when it ends, since only the engine can say whether it ever started:
        what stood on stderr may be an image's forgery.
        """
        left_out = self._left_out
        container = self._start(script, timeout, keep=True)
        try:
            if container.marks.begins or container.overrun:
                return self._judge(container, timeout)
            started, words = self._state(container)
        finally:
            self._janitor.remove_container(container.name)
        if started:
            why = f"the image's /bin/sh ended without running the check (exit code {container.code})"
            return Run(FAILED, why, seconds=container.seconds)
        if container.code in (126, 127) and "/bin/sh" in words:
            return Run(FAILED, f"the image has no usable /bin/sh: {words}")
        if _NO_LIMITS in words and not left_out and self._leave_out_limit(words):
            return self._run_anew(script, timeout)
        if self._inspect_image() is None:
            raise EngineError("the image that was built is gone from the engine")
        return self._try_without_user(script, timeout, words)

    def _leave_out_limit(self, words: str) -> bool:
        """Do without our limit of processes from now on, and note it; False if it is the user's limit."""
        if "pids-limit" in RUN_FLAGS.given(self._run_options):
            return False
        with self._lock:
            if not self._left_out:
                self._left_out = ("pids-limit",)
                text = f"--pids-limit is left out, since the engine can set none ({words})"
                self.notes.append(Finding("no-pids-limit", "engine", text))
        return True

    def _state(self, container: Container) -> tuple[bool, str]:
        """Return whether a container ever started, and docker's words where it did not."""
        answer = self._cli.ask("container", "inspect", "--format", "{{json .State}}", container.name)
        state = _json_object(answer.stdout)
        started = not str(state.get("StartedAt") or "0001").startswith("0001")
        lines = [line for line in container.words.splitlines() if line.startswith("docker:")]
        words = str(state.get("Error") or "") or " ".join(lines) or container.words
        return started, shown(" ".join(words.split()), 400)

    def _try_without_user(self, script: Script, timeout: float, words: str) -> Run:
        """Say whether docker refuses to start a container because of the image's USER or WORKDIR.

        It is their fault if the container starts without them and then still does not with them.
        """
        given = RUN_FLAGS.given(self._run_options)
        overrides = [word for name, word in self._overrides() if not given & {name, name[0]}]
        if overrides:
            probe = Script(":", (), (), script.looks_only)
            if self._start(probe, START_LIMIT, *overrides).marks.begins:
                container = self._start(script, timeout)
                if container.marks.begins or container.overrun:
                    return self._judge(container, timeout)
                return Run(FAILED, f"the image's USER or WORKDIR cannot be used: {words}")
        raise EngineError(f"docker could not start the container: {words}")

    def _overrides(self) -> Iterator[tuple[str, str]]:
        if self.image and self.image.user:
            yield "user", "--user=0"
        if self.image and self.image.workdir:
            yield "workdir", "--workdir=/"


def _is_exclusive(run_options: Sequence[str]) -> bool:
    named = _EXCLUSIVE & RUN_FLAGS.given(run_options)
    return bool(named) or any(map(_EXCLUSIVE_NETWORK.match, run_options))


def no_engine(words: str) -> EngineError:
    """Return the error that says that no engine answers, docker's own words, and what to do."""
    return EngineError(f"no docker engine answers ({shown(last_line(words), 300)}). {_ENGINE_HINT}")


def _json_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a docker command printed, an empty one where it did not."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


_BUILD_VERDICT = re.compile(
    "(docker: |\"docker |ERROR: |Error: |Error response |failed to solve|The command '"
    "|(COPY|ADD) failed|unknown .*flag)"
)


def _last_words(log: str) -> str:
    """Return the line of a build log that says why it failed: docker's, else the last."""
    return (_verdicts(log) or [last_line(log) or "no output"])[-1]


def _verdicts(log: str) -> list[str]:
    """Return the lines at the end of a build log that read like docker's own."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return [line for line in lines[-20:] if _BUILD_VERDICT.match(line)]


def _blames_the_engine(log: str) -> bool:
    """Whether docker says at the end of a build log that it failed itself, and of no RUN that it did."""
    lines = _verdicts(log)
    if any(_FAILED_RUN.search(line) for line in lines):
        return False
    unreachable = any(_NO_REGISTRY.search(line) for line in lines)
    return unreachable or any(fault in line for fault in _ENGINE_FAULTS for line in lines)


def _context_hint(log: str, context: str) -> str:
    """Say where COPY and ADD look, where the end of a log reads as if that had been the trouble."""
    missing = (
        r"(?i)(COPY failed|ADD failed|failed to (compute|calculate) (cache key|checksum)|no source files)"
    )
    if not re.search(missing, log[-2000:]):
        return ""
    return f". The build context was {shown(context)}; name another with --context DIR"


def _builder(log: str) -> str:
    """Tell the builder by the first lines of its log, which come before any of the Dockerfile's."""
    for line in log.splitlines()[:40]:
        if re.match(r"#\d+ ", line):
            return "buildkit"
        if re.match(r"(Sending build context to Docker daemon|Step 1/\d+ :)", line):
            return "legacy"
        if re.match(r"(\[1/\d+\] )?STEP 1/\d+:", line):
            return "buildah"
    return "unknown"


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
    """Return when a process started, in ticks since boot; "" where that cannot be told (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "ended" if fields[0] in ("Z", "X") else fields[19]


def _is_gone(pid: int) -> bool:
    """Whether there is no such process; one that only hides (proc(5), hidepid) is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _is_dead(labels: Mapping[str, str], clock: float) -> bool:
    """Tell whether the run that set these labels is over: by its process, else by its clock."""
    host, _, process = labels.get("owner", "").rpartition("]/")
    ours = _owner().rpartition("]/")[0]
    pid, _, started = process.partition("/")
    if ours and host == ours and pid.isdecimal():
        now_there = _start_time(int(pid))
        if now_there or _is_gone(int(pid)):
            return now_there != started
    expires = labels.get("expires", "")
    return expires.isdecimal() and int(expires) < clock


# ---------------------------------------------------------------------------------------------
# Room 5: Report
# ---------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """Counts and scores; scores are of the whole rubric, times in seconds."""

    total_tests: int
    passed_tests: int
    failed_tests: int
    total_score: Number
    max_score: Number
    success_rate: float
    total_execution_time: float
    by_category: dict[str, dict[str, Number]] | None


def summarize(results: Sequence[Result]) -> Summary:
    """Add up the rows of a report."""
    passed = sum(1 for result in results if result.passed)
    return Summary(
        total_tests=len(results),
        passed_tests=passed,
        failed_tests=len(results) - passed,
        total_score=_sum(result.score for result in results),
        max_score=_sum(result.max_score for result in results),
        success_rate=passed / len(results) if results else 0.0,
        total_execution_time=round(sum(result.execution_time for result in results), 3),
        by_category=_by_category(results),
    )


def _by_category(results: Sequence[Result]) -> dict[str, dict[str, Number]] | None:
    groups: dict[str, list[Result]] = collections.defaultdict(list)
    for result in results:
        if result.category is not None:
            groups[result.category].append(result)
    totals = {name: summarize([r._replace(category=None) for r in rows]) for name, rows in groups.items()}
    keys = ("total_tests", "passed_tests", "failed_tests", "total_score", "max_score")
    return {name: {key: getattr(total, key) for key in keys} for name, total in totals.items()} or None


def _sum(numbers: Iterable[Number]) -> Number:
    """Add scores: whole numbers stay whole, and 0.1 + 0.2 is 0.3."""
    total = sum(numbers)
    return total if isinstance(total, int) else round(total, 9)


class Report(NamedTuple):
    """All that is known of one evaluation; the order of fields is that of the JSON."""

    repo: str
    dockerfile: str
    rubric: str
    summary: Summary
    test_results: Sequence[Result]
    build: Build | None
    error: Fault | None
    warnings: Sequence[Finding]
    environment: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        """Whether all tests passed and nothing else went wrong."""
        return self.error is None and self.summary.failed_tests == 0

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        summary = dict(self.summary._asdict())
        if summary["by_category"] is None:
            del summary["by_category"]
        build = self.build
        return {
            "repo": self.repo,
            "dockerfile": self.dockerfile,
            "rubric": self.rubric,
            "summary": summary,
            "test_results": [dict(result._asdict()) for result in self.test_results],
            "build": {
                "succeeded": bool(build and not build.kind),
                "execution_time": round(build.seconds, 3) if build else 0.0,
                "message": build.message if build else "not built",
                "log": build.log if build else "",
            },
            "error": dict(self.error._asdict()) if self.error else None,
            "warnings": [str(finding) for finding in self.warnings],
            "environment": dict(self.environment),
        }

    def write(self, path: str) -> None:
        """Write the report as JSON; raise EvaluationError where that fails, old file untouched."""
        write_file(path, json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    def write_junit(self, path: str) -> None:
        """Write the report as JUnit XML, one testcase per test; raise EvaluationError where that fails."""
        from xml.etree import ElementTree

        kinds = collections.Counter(_JUNIT_KINDS.get(result.status) for result in self.test_results)
        attributes = {
            "name": _xml(f"{self.repo}: {self.dockerfile}"),
            "tests": len(self.test_results),
            "failures": kinds["failure"],
            "errors": kinds["error"],
            "skipped": kinds["skipped"],
        }
        suite = ElementTree.Element("testsuite", {key: str(value) for key, value in attributes.items()})
        suite.set("time", f"{self.summary.total_execution_time:.3f}")
        suite.set("timestamp", str(self.environment["started_at"]).rstrip("Z"))
        for result in self.test_results:
            suite.append(_testcase(result, self.repo))
        if self.error and self.build:
            ElementTree.SubElement(suite, "system-out").text = _xml(self.build.log)
        text = ElementTree.tostring(suite, encoding="unicode")
        write_file(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n')

    def markdown(self) -> str:
        """Return a title, a table of the tests and what went wrong, as GitHub's Markdown."""
        lines = [f"### {_markdown(f'{self.repo}: {self.dockerfile}')}", "", _score_words(self.summary), ""]
        if self.error:
            lines += [f"**{self.error.kind}**: {_markdown(self.error.message)}", ""]
        lines += ["| status | test | score | message | seconds |", "|---|---|---|---|---|"]
        for row in self.test_results:
            score = f"{row.score:g}/{row.max_score:g}"
            message = "" if row.status == NOT_RUN else row.message
            cells = (row.status, row.test_id, score, message, f"{row.execution_time:.1f}")
            lines.append("| " + " | ".join(map(_markdown, cells)) + " |")
        return "\n".join(lines) + "\n\n"


def _score_words(summary: Summary) -> str:
    share = f" ({summary.total_score / summary.max_score:.0%})" if summary.max_score else ""
    passed = f"{summary.passed_tests} of {summary.total_tests} tests passed"
    return f"{passed}, score {summary.total_score:g} of {summary.max_score:g}{share}"


# How a CI system counts a status. What was not run after a failed build is no success of anybody's.
_JUNIT_KINDS = {
    FAILED: "failure",
    TIMEOUT: "failure",
    SKIPPED: "skipped",
    UNRESOLVABLE: "error",
    ERROR: "error",
    NOT_RUN: "error",
}


def _testcase(result: Result, suite: str) -> Any:
    from xml.etree import ElementTree

    names = {"classname": _xml(f"{suite}.{result.test_type}"), "name": _xml(result.test_id)}
    case = ElementTree.Element("testcase", names, time=f"{result.execution_time:.3f}")
    kind = _JUNIT_KINDS.get(result.status)
    if kind == "skipped":
        ElementTree.SubElement(case, kind, message=_xml(result.message))
    elif kind:
        ElementTree.SubElement(case, kind, type=result.status, message=_xml(result.message))
    if result.output:
        ElementTree.SubElement(case, "system-out").text = _xml(result.output)
    return case


def _xml(text: str) -> str:
    """Return text with what XML 1.0 forbids replaced (section 2.2, Char)."""
    return re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def _markdown(text: str) -> str:
    """Return text of anybody's as Markdown that shows it as it stands: CommonMark, backslash escapes."""
    return re.sub(r"([][\\`*_{}<>#~|!&:.@$^])", r"\\\1", shown(text, 300))


def check_writable(path: str) -> None:
    """Raise EvaluationError where a file could not be written; make the folders that it needs."""
    if os.path.isdir(path):
        raise EvaluationError(f"{path}: a folder; expected a file for the report")
    if _is_special(path):
        return
    target = os.path.realpath(path)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _new_file(_temporary(target)).close()
        os.unlink(_temporary(target))
    except OSError as error:
        raise EvaluationError(f"{path}: the report cannot be written: {error.strerror}") from None


def write_file(path: str, text: str) -> None:
    """Write a file whole or not at all; raise EvaluationError where it cannot be written."""
    target = os.path.realpath(path)
    temporary = target if _is_special(path) else _temporary(target)
    try:
        with open(path, "wb") if _is_special(path) else _new_file(temporary) as file:
            file.write(text.encode(errors="backslashreplace"))
        if temporary != target:
            os.replace(temporary, target)
    except OSError as error:
        if temporary != target:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise EvaluationError(f"{path}: the report cannot be written: {error.strerror}") from None


def _is_special(path: str) -> bool:
    """Whether there is a pipe or a device such as /dev/stdout, which cannot be replaced."""
    return os.path.exists(path) and not os.path.isfile(path)


def _temporary(target: str) -> str:
    return f"{target}.{os.getpid()}-{threading.get_ident()}.tmp"


def _new_file(path: str) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), "wb")


# ---------------------------------------------------------------------------------------------
# Room 6: Evaluation
# ---------------------------------------------------------------------------------------------

LOOKS_AT_ONCE = min(4, os.cpu_count() or 1)
FAULTS_IN_A_ROW = 2  # engine faults after which the rest is not run
START_ALLOWANCE = 3 * START_LIMIT  # seconds of a test's share in the life of a run, beside its timeout

_TELLING_VARIABLES = ("BASH_ENV", "ENV", "LD_PRELOAD", "LD_AUDIT", "SHELLOPTS", "PROMPT_COMMAND")


class Settings(NamedTuple):
    """What was asked for: the arguments of evaluate(), which are those of the command line."""

    dockerfile: str
    repo: str
    rubric: str
    output: str | None = None
    junit: str | None = None
    context: str = "."
    build_timeout: float = 3600.0
    jobs: int = 1
    build_options: tuple[str, ...] = ()
    run_options: tuple[str, ...] = ()
    docker: str = "docker"
    keep_image: bool = False

    def checked(self) -> Settings:
        """Return these settings; raise ValueError for what is wrong usage."""
        if not 0 < self.build_timeout < math.inf:
            raise ValueError(f"build timeout {self.build_timeout!r}: expected a number of seconds over 0")
        if not isinstance(self.jobs, int) or self.jobs < 1:
            raise ValueError(f"jobs {self.jobs!r}: expected a whole number of at least 1")
        for flags, words in ((BUILD_FLAGS, self.build_options), (RUN_FLAGS, self.run_options)):
            for word in words:
                flags.check(word)
        return self


class Observer:
    """Hears what happens; called from one thread at a time. Here it does nothing."""

    def loaded(self, rubric: Rubric, doubts: Sequence[Finding]) -> None:
        """The rubric is understood; this is what is doubtful about it."""

    def phase(self, text: str) -> None:
        """Something else begins that may take long."""

    def build_output(self, data: bytes) -> None:
        """Some more of the build log."""

    def built(self, build: Build) -> None:
        """The build is over."""

    def started(self, test: Test) -> None:
        """A test begins."""

    def finished(self, test: Test, result: Result, output: str) -> None:
        """A test is over."""

    def interrupted(self) -> None:
        """Somebody asked for the end; clean-up begins."""

    def reported(self, report: Report) -> None:
        """All is over, and the report is known."""

    def written(self, path: str) -> None:
        """The report is in its file."""


class Plan(NamedTuple):
    """The tests in an order that respects `requires`, and why some can never run."""

    order: tuple[Test, ...]
    unresolvable: dict[str, str]


def plan(tests: Sequence[Test]) -> Plan:
    """Order the tests so that each comes after all that it requires.

    Tests that require an unknown id, themselves or each other in a circle are unresolvable.
    """
    by_id = {test.id: test for test in tests}
    unresolvable = {}
    for test in tests:
        unknown = [name for name in test.requires if name not in by_id]
        if unknown:
            unresolvable[test.id] = f"requires unknown test {listed(unknown)}"
        elif test.id in test.requires:
            unresolvable[test.id] = "requires itself"
    order = _sorted(tests, by_id)
    placed = {test.id for test in order}
    rest = [test for test in tests if test.id not in placed]
    for test in _circular(rest):
        unresolvable.setdefault(test.id, f"requires itself in a circle: {_circle(test, rest)}")
    return Plan((*order, *rest), unresolvable)


def findings(rubric: Rubric) -> Iterator[Finding]:
    """Yield all that is doubtful about a rubric, tests that can never run among it."""
    yield from review(rubric)
    unresolvable = plan(rubric.tests).unresolvable
    for at, test in enumerate(rubric.tests):
        if test.id in unresolvable:
            text = f"{unresolvable[test.id]}, so this can never run; require other tests"
            yield Finding("unresolvable", _placed(at, test, ".requires"), text)


def _sorted(tests: Sequence[Test], known: Mapping[str, Test]) -> list[Test]:
    """Return, requirements first, the tests that no circle holds up (Kahn's algorithm)."""
    waits = {test.id: {name for name in test.requires if name in known} for test in tests}
    dependents = collections.defaultdict(list)
    for test in tests:
        for name in waits[test.id]:
            dependents[name].append(test)
    ready = collections.deque(test for test in tests if not waits[test.id])
    order = []
    while ready:
        test = ready.popleft()
        order.append(test)
        for dependent in dependents[test.id]:
            waits[dependent.id].discard(test.id)
            if not waits[dependent.id]:
                ready.append(dependent)
    return order


def _circular(rest: Sequence[Test]) -> list[Test]:
    """Return the tests that stand in a circle, without those that only wait for one."""
    requirers: dict[str, list[str]] = collections.defaultdict(list)
    for test in rest:
        for name in test.requires:
            requirers[name].append(test.id)
    reverse = [test._replace(requires=tuple(requirers[test.id])) for test in rest]
    outside = {test.id for test in _sorted(reverse, {test.id: test for test in rest})}
    return [test for test in rest if test.id not in outside]


def _circle(test: Test, rest: Sequence[Test]) -> str:
    """Walk along `requires` until a test comes again, and return the way."""
    by_id = {other.id: other for other in rest}
    way: list[str] = []
    name = test.id
    while name not in way and len(way) < len(rest):
        way.append(name)
        name = next(needed for needed in by_id[name].requires if needed in by_id)
    way = way[way.index(name) :]
    return shown(" -> ".join([*way, name]), 300)


class Runner:
    """Run the tests of a plan: what only looks before commands, each after its requirements.

    A check that has answered makes room for the next one; docker may still be removing its
    container then, and its verdict is not known yet.
    """

    def __init__(
        self,
        the_plan: Plan,
        run: Callable[[Script, float, Callable[[], None]], Run],
        stop: Stop,
        jobs: int,
        observer: Observer,
    ) -> None:
        from queue import SimpleQueue

        self._plan = the_plan
        self._run_script = run
        self._stop = stop
        self._jobs = jobs
        self._observer = observer
        self._waits: dict[str, set[str]] = {}
        self._dependents: dict[str, list[Test]] = collections.defaultdict(list)
        self._looks: collections.deque[Test] = collections.deque()
        self._commands: collections.deque[Test] = collections.deque()
        self._alone: collections.deque[Test] = collections.deque()
        self._again: set[str] = set()  # what ran out of time beside others, and is to be alone
        self._running: dict[str, Test] = {}
        self._checking: dict[str, Test] = {}  # those of them that have not answered yet
        self._news: SimpleQueue[tuple[Test, Any]] = SimpleQueue()  # a future where all is over
        self._faults = 0
        self.results: dict[str, Result] = {}

    def run(self) -> dict[str, Result]:
        """Run all that can be run; return a result for every test, by id."""
        from concurrent import futures

        self._queue_all()
        # One worker for each container that _has_room() can let in: of either kind one beyond its limit.
        with futures.ThreadPoolExecutor(LOOKS_AT_ONCE + self._jobs + 2) as pool:
            while True:
                self._start_ready(pool)
                if not self._running:
                    break
                self._hear(*self._news.get())
        for test in self._plan.order:
            if test.id not in self.results:
                self._settle(test, Run(NOT_RUN, self._why_not_run()))
        return self.results

    def _queue_all(self) -> None:
        unresolvable = self._plan.unresolvable
        for test in self._plan.order:
            self._waits[test.id] = set(test.requires)
            for name in test.requires:
                self._dependents[name].append(test)
        for test in self._plan.order:
            if test.id in unresolvable:
                self._settle(test, Run(UNRESOLVABLE, unresolvable[test.id]))
            elif not self._waits[test.id] and test.id not in self.results:
                self._queue(test)

    def _queue(self, test: Test) -> None:
        (self._looks if test.check.looks_only else self._commands).append(test)

    def _start_ready(self, pool: Any) -> None:
        while not self._stop.level and self._faults < FAULTS_IN_A_ROW:
            test = self._next()
            if test is None:
                return
            self._running[test.id] = self._checking[test.id] = test
            self._observer.started(test)
            answered = functools.partial(self._news.put, (test, None))
            future = pool.submit(self._run_script, test.check.script(), test.timeout, answered)
            future.add_done_callback(functools.partial(self._tell_end, test))

    def _tell_end(self, test: Test, future: Any) -> None:
        self._news.put((test, future))

    def _next(self) -> Test | None:
        """Take the next test that may start now."""
        if self._looks:
            return self._looks.popleft() if self._has_room(LOOKS_AT_ONCE, looks=True) else None
        if self._looks_may_come():
            return None
        if self._commands:
            return self._commands.popleft() if self._has_room(self._jobs, looks=False) else None
        if self._alone and not self._running:
            return self._alone.popleft()
        return None

    def _has_room(self, limit: int, *, looks: bool) -> bool:
        """Whether one more look or command may start; one container more is then on its way out at most.

        Where docker removes slowly, more of them would only wait for each other.
        """
        checking = sum(1 for test in self._checking.values() if test.check.looks_only == looks)
        running = sum(1 for test in self._running.values() if test.check.looks_only == looks)
        return checking < limit and running <= limit

    def _looks_may_come(self) -> bool:
        """Whether a test that looks, and comes before commands, is under way or about to be ready."""
        ending = self._running.keys() - self._checking.keys()
        coming = (test for name in ending for test in self._dependents[name])
        return any(test.check.looks_only for test in (*self._running.values(), *coming))

    def _hear(self, test: Test, future: Any) -> None:
        """Make room for the next test where one has answered, and take its end."""
        self._checking.pop(test.id, None)
        if future is not None:
            del self._running[test.id]
            self._take(test, future.result())

    def _take(self, test: Test, run: Run) -> None:
        beside_others = self._jobs > 1 and not test.check.looks_only and test.id not in self._again
        if run.ending == TIMEOUT and beside_others:
            self._again.add(test.id)
            self._alone.append(test)  # a busy machine is no verdict
            return
        self._faults = self._faults + 1 if run.ending == ERROR else 0
        self._settle(test, run)

    def _settle(self, test: Test, run: Run) -> None:
        """Note a result, and what follows from it for the tests that require this one."""
        settled = [(test, run)]
        while settled:
            test, run = settled.pop()
            if test.id in self.results:
                continue
            result = self._result(test, run)
            self.results[test.id] = result
            self._observer.finished(test, result, run.output)
            for dependent in self._dependents[test.id]:
                if dependent.id in self._plan.unresolvable:
                    continue
                if result.passed:
                    self._release(dependent, test)
                elif run.ending != NOT_RUN:
                    why = f"requires '{shown(test.id, 80)}', which did not pass"
                    settled.append((dependent, Run(SKIPPED, why)))

    def _release(self, dependent: Test, test: Test) -> None:
        self._waits[dependent.id].discard(test.id)
        if not self._waits[dependent.id]:
            self._queue(dependent)

    def _result(self, test: Test, run: Run) -> Result:
        verdict = test.check.judge(run) if run.ending == FINISHED else Verdict(run.ending, run.why)
        return result_of(test, verdict, run)

    def _why_not_run(self) -> str:
        if self._stop.level:
            return "the evaluation was interrupted"
        return f"not run after {FAULTS_IN_A_ROW} engine faults in a row"


def result_of(test: Test, verdict: Verdict, run: Run) -> Result:
    """Make the report's row of one test."""
    passed = verdict.status == PASSED
    command = not test.check.looks_only
    return Result(
        test_id=test.id,
        test_type=test.type,
        passed=passed,
        score=test.score if passed else 0,
        message=verdict.message,
        execution_time=round(run.seconds, 3),
        max_score=test.score,
        status=verdict.status,
        exit_code=run.status if command else None,
        timeout=test.timeout,
        output=run.output if command and run.output and not passed else None,
        category=test.category,
    )


def evaluate(
    dockerfile: str,
    repo: str,
    rubric: str | None = None,
    output: str | None = None,
    *,
    verbose: bool = False,  # noqa: ARG001 - the command line's; nothing is printed here
    context: str | None = None,
    build_timeout: float = 3600.0,
    jobs: int = 1,
    build_options: Sequence[str] = (),
    run_options: Sequence[str] = (),
    docker: str = "docker",
    junit: str | None = None,
    keep_image: bool = False,
) -> dict[str, Any]:
    """Build `dockerfile`, answer every test of `rubric`, and return the report as a plain dict.

    The arguments are the command line's: `rubric` defaults to rubrics/<repo>.json, `context` to
    the Dockerfile's folder, `build_timeout` is in seconds, the options are words for docker such
    as "--memory=2g". With `output` the report is written there as JSON, too. Prints nothing,
    installs no signal handler, is safe in several threads at once.

    Raises EvaluationError where there can be no report (no such Dockerfile, an unusable rubric,
    an output that cannot be written), ValueError for arguments that make no sense, and, after
    clean-up and with the report written, KeyboardInterrupt where that came in between.
    """
    settings = Settings(
        dockerfile=os.fspath(dockerfile),
        repo=repo,
        rubric=os.fspath(rubric) if rubric else default_rubric(repo),
        output=os.fspath(output) if output else None,
        junit=os.fspath(junit) if junit else None,
        context=os.fspath(context) if context else default_context(dockerfile),
        build_timeout=build_timeout,
        jobs=jobs,
        build_options=_option_words("build_options", build_options),
        run_options=_option_words("run_options", run_options),
        docker=docker,
        keep_image=keep_image,
    )
    return _evaluate(settings.checked(), Observer()).as_dict()


def _option_words(name: str, words: Sequence[str]) -> tuple[str, ...]:
    if isinstance(words, str):
        raise ValueError(f"{name}: expected a list of words, found the string {words!r}")  # noqa: TRY004
    return tuple(words)


def default_rubric(repo: str) -> str:
    """Return the path of the rubric that belongs to a repository."""
    return os.path.join("rubrics", f"{repo}.json")


def default_context(dockerfile: str) -> str:
    """Return the build context of a Dockerfile: its own folder."""
    return os.path.dirname(os.path.abspath(os.fspath(dockerfile)))


def _evaluate(settings: Settings, observer: Observer, stop: Stop | None = None) -> Report:
    """Do all that evaluate() promises; the observer hears of it, and `stop` can ask for its end."""
    dockerfile_sha256 = _check_dockerfile(settings.dockerfile, settings.context)
    rubric = load_rubric(settings.rubric, CHECKS)
    doubts = tuple(findings(rubric))
    observer.loaded(rubric, doubts)
    for path in filter(None, (settings.output, settings.junit)):
        check_writable(path)
    stop = stop or Stop()
    evaluation = _Evaluation(settings, rubric, doubts, dockerfile_sha256, observer, stop)
    return _undisturbed(evaluation.run, stop, observer)


def _check_dockerfile(path: str, context: str) -> str:
    """Return the Dockerfile's SHA-256; raise EvaluationError where docker could not read it."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise EvaluationError(f"{path}: not a regular file; expected a Dockerfile")
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise EvaluationError(f"{path}: the Dockerfile cannot be read: {error.strerror}") from None
    if not os.path.isdir(context):
        raise EvaluationError(f"{context}: no such folder for the build context (--context DIR)")
    return hashlib.sha256(content).hexdigest()


Outcome = TypeVar("Outcome")


def _undisturbed(work: Callable[[], Outcome], stop: Stop, observer: Observer) -> Outcome:
    """Do the work in a thread of its own, where no KeyboardInterrupt can tear it.

    The caller only waits. Where it is interrupted it asks the work to stop and waits on; where
    it is interrupted again, the work is asked to leave its clean-up, too. The wait is a read
    from a pipe, since an exception may leave a lock in an unknown state, but not a pipe.
    """
    outcomes: list[Outcome] = []
    failures: list[BaseException] = []
    ending, ended = os.pipe()

    def body() -> None:
        try:
            outcomes.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failures.append(error)
        finally:
            os.close(ended)

    thread = threading.Thread(target=body, name="DockerfileEvaluator", daemon=True)
    try:
        _wait_for(thread, ending, stop, observer)
    finally:
        os.close(ending)
    if failures:
        raise failures[0]
    return outcomes[0]


def _wait_for(thread: threading.Thread, ending: int, stop: Stop, observer: Observer) -> None:
    try:
        thread.start()
        os.read(ending, 1)
    except KeyboardInterrupt:
        _wait_for_clean_up(ending, stop, observer)
        raise


def _wait_for_clean_up(ending: int, stop: Stop, observer: Observer) -> None:
    try:
        stop.ask()
        observer.interrupted()
        os.read(ending, 1)
    except KeyboardInterrupt:
        stop.ask()
        os.read(ending, 1)


class _Evaluation:
    """One evaluation from the engine to the written report."""

    def __init__(
        self,
        settings: Settings,
        rubric: Rubric,
        doubts: Sequence[Finding],
        dockerfile_sha256: str,
        observer: Observer,
        stop: Stop,
    ) -> None:
        self._settings = settings
        self._rubric = rubric
        self._doubts = doubts
        self._observer = observer
        self._results: dict[str, Result] = {}
        self._build: Build | None = None
        self._error: Fault | None = None
        self._kept = ""
        self._hash = dockerfile_sha256
        self._started = datetime.datetime.now(datetime.timezone.utc)
        self._stop = stop

    def run(self) -> Report:
        """Evaluate, clean up, write the report."""
        docker = self._docker()
        try:
            with docker:
                self._work(docker)
        except EngineError as error:
            self._error = Fault("engine", str(error))
        except Stopped:
            pass
        report = self._report(docker)
        self._observer.reported(report)
        for path, write in (
            (self._settings.output, report.write),
            (self._settings.junit, report.write_junit),
        ):
            if path:
                write(path)
                self._observer.written(path)
        return report

    def _docker(self) -> Docker:
        settings = self._settings
        limits = sum(test.timeout * 2 + START_ALLOWANCE for test in self._rubric.tests)
        return Docker(
            settings.docker,
            self._stop,
            lifetime=settings.build_timeout + limits,
            build_options=settings.build_options,
            run_options=settings.run_options,
        )

    def _work(self, docker: Docker) -> None:
        settings, observer = self._settings, self._observer
        observer.phase("building")
        self._build = docker.build(
            settings.dockerfile, settings.context, settings.build_timeout, observer.build_output
        )
        observer.built(self._build)
        if self._build.kind:
            self._error = Fault(self._build.kind, self._build.message)
            return
        runner = Runner(plan(self._rubric.tests), docker.run, self._stop, settings.jobs, observer)
        self._results = runner.results
        runner.run()
        if settings.keep_image:
            self._kept = docker.keep(settings.repo)
        observer.phase("cleaning up")

    def _report(self, docker: Docker) -> Report:
        error = self._final_error(docker)
        why = f"not run: {error.message}" if error else "not run"
        results = [
            self._results.get(test.id) or result_of(test, Verdict(NOT_RUN, why), Run(NOT_RUN))
            for test in self._rubric.tests
        ]
        settings = self._settings
        return Report(
            repo=settings.repo,
            dockerfile=settings.dockerfile,
            rubric=settings.rubric,
            summary=summarize(results),
            test_results=results,
            build=self._build,
            error=error,
            warnings=[*self._doubts, *_oddities(docker.image), *docker.notes],
            environment=self._environment(docker),
        )

    def _final_error(self, docker: Docker) -> Fault | None:
        """Return what stopped the evaluation, else what was wrong with the engine."""
        error = self._error
        faults = [result for result in self._results.values() if result.status == ERROR]
        if self._stop.level:
            error = Fault("interrupted", "the evaluation was interrupted")
        elif not error and faults:
            error = Fault("engine", faults[-1].message)
        if docker.left:
            left = f"left on the engine: {'; '.join(docker.left)}"
            error = Fault(error.kind, f"{error.message}; {left}") if error else Fault("engine", left)
        return error

    def _environment(self, docker: Docker) -> dict[str, Any]:
        engine, build, image = docker.engine, self._build, docker.image
        return {
            "evaluator_version": __version__,
            "jobs": self._settings.jobs,
            "docker_client": engine.client if engine else None,
            "docker_server": engine.server if engine else None,
            "platform": engine.platform if engine else None,
            "builder": build.builder if build else None,
            "started_at": self._started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "dockerfile_sha256": self._hash,
            "rubric_sha256": self._rubric.sha256,
            "image_size": image.size if image else None,
            "kept_image": self._kept or None,
        }


def _oddities(image: Image | None) -> Iterator[Finding]:
    """Name what an image sets that changes how every shell in it behaves."""
    for entry in image.environment if image else ():
        name = entry.partition("=")[0]
        if name in _TELLING_VARIABLES or name.startswith("BASH_FUNC_"):
            text = f"{shown(entry, 120)} is set, which can change what every command does"
            yield Finding("telling-variable", "image", text)


# ---------------------------------------------------------------------------------------------
# Room 7: Command line
# ---------------------------------------------------------------------------------------------

SHOWN_LINES = 20  # of a failed build's log, and of a test's output with --verbose
VERBOSE_LOG = 2 * 1024 * 1024  # bytes of the build log that --verbose shows as they come
FAILURES = (FAILED, TIMEOUT, UNRESOLVABLE, ERROR)
COLOURS = {PASSED: "32", FAILED: "31", TIMEOUT: "31", ERROR: "31", SKIPPED: "33", UNRESOLVABLE: "33"}


class Interrupted(KeyboardInterrupt):
    """A signal that asks for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Screen(Observer):
    """What a person sees: a line per test, and on a terminal one line that lives.

    All text that a container may have written is cleaned and prefixed, so that it can neither
    steer a terminal nor command a CI system.
    """

    def __init__(self, out: TextIO, errors: TextIO, dockerfile: str | None, *, verbose: bool) -> None:
        self._dockerfile = shown(dockerfile or "")
        self._out = out
        self._errors = errors
        self._verbose = verbose
        self._doubts = 0
        self._name_width, self._score_width = 0, 0
        self._live = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._colours = self._live and not os.environ.get("NO_COLOR")
        self._lock = threading.RLock()
        self._running: dict[str, float] = {}
        self._phase, self._step, self._since = "", "", time.monotonic()
        self._drawn = False
        self._closed = threading.Event()
        self._log_size = 0
        self._line = b""
        self._missed: collections.deque[str] = collections.deque(maxlen=40)
        if self._live:
            threading.Thread(target=self._keep_alive, daemon=True).start()

    def loaded(self, rubric: Rubric, doubts: Sequence[Finding]) -> None:
        self._doubts = len(doubts)
        self._name_width = min(max(len(shown(test.id)) for test in rubric.tests), 32)
        self._score_width = max(len(f"{test.score:g}/{test.score:g}") for test in rubric.tests)

    def checked(self, rubric: Rubric, doubts: Sequence[Finding]) -> None:
        """Say what is doubtful about a rubric, and what it asks."""
        for finding in doubts:
            self._print(shown(f"warning: {rubric.path}: {finding}", 1000))
        points = _sum(test.score for test in rubric.tests)
        counts = (
            f"{_counted(len(rubric.tests), 'test')}, {points:g} points, {_counted(len(doubts), 'warning')}"
        )
        self._print(f"{shown(rubric.path, 500)}: {counts}")

    def phase(self, text: str) -> None:
        with self._lock:
            self._phase, self._step, self._since = text, "", time.monotonic()

    def build_output(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        self._line = self._line[-CHUNK:]
        for line in lines:
            self._build_line(line.decode(errors="replace").rstrip("\r"), len(line) + 1)

    def built(self, build: Build) -> None:
        if self._line:
            self.build_output(b"\n")
        if self._missed:
            self._print(self._quoted(f"[the log goes on; its last {len(self._missed)} lines:]"))
        for line in self._missed:
            self._print(self._quoted(line))
        if build.kind and not self._verbose:
            for line in build.log.splitlines()[-SHOWN_LINES:]:
                self._print(self._quoted(line))
        word = "build failed" if build.kind else "built"
        self._print(f"{word}: {self._dockerfile} ({build.builder} builder, {build.seconds:.1f} s)")

    def started(self, test: Test) -> None:
        with self._lock:
            self._phase = "testing"
            self._running[test.id] = time.monotonic()

    def finished(self, test: Test, result: Result, output: str) -> None:
        with self._lock:
            self._running.pop(test.id, None)
        self._print(self._row(result))
        if self._verbose and result.status in (PASSED, FAILED, TIMEOUT):
            self._details(test.check, result, output)

    def interrupted(self) -> None:
        self._print("interrupted; cleaning up (interrupt again to leave at once)")

    def reported(self, report: Report) -> None:
        self._sum_up(report)
        for finding in report.warnings[self._doubts :]:
            self._print(f"warning: {shown(str(finding), 500)}")
        if self._doubts:
            count, path = _counted(self._doubts, "warning"), shown(report.rubric, 200)
            self._print(f"{count} about the rubric: in the report, and by --check --rubric {path}")
        if report.environment["kept_image"]:
            self._print(f"image kept: {report.environment['kept_image']}")
        if report.error:
            self.error(report.error.message)
        self._tell_github(report)

    def _sum_up(self, report: Report) -> None:
        """Print what failed and why, a line each, and the counts."""
        failed = [result for result in report.test_results if result.status in FAILURES]
        if failed:
            self._print("not passed:")
        for result in failed:
            self._print(f"  {shown(result.test_id, 60)}: {shown(result.message, 300)}")
        kinds = collections.Counter(result.status.replace("_", " ") for result in report.test_results)
        others = ", ".join(f"{kinds[kind]} {kind}" for kind in ("skipped", "not run") if kinds[kind])
        self._print(_score_words(report.summary) + (f"; {others}" if others else ""))

    def _tell_github(self, report: Report) -> None:
        """Append the table of results to the summary of a step of GitHub Actions."""
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if path:
            try:
                with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
                    file.write(report.markdown())
            except OSError as error:
                self.error(f"{path}: the summary cannot be written: {error.strerror}")

    def written(self, path: str) -> None:
        self._print(f"report: {shown(path, 500)}")

    def error(self, text: str) -> None:
        """Say on stderr what went wrong, after all that stands on stdout."""
        self._print("", end="")
        for line in text.splitlines():
            print(f"error: {shown(line, 2000)}", file=self._errors, flush=True)

    def close(self) -> None:
        """Take the live line away."""
        self._closed.set()
        self._print("", end="")

    def _row(self, result: Result) -> str:
        """Return one line, on a terminal one that fits."""
        name = f"{shown(result.test_id, self._name_width):<{self._name_width}}"
        score = f"{result.score:g}/{result.max_score:g}"
        start = f"{result.status:<7}  {name}  {score:>{self._score_width}}  "
        end = f"  ({result.execution_time:.1f} s)"
        room = max(_columns() - len(start) - len(end) - 1, 20) if self._live else 300
        status = self._coloured(start[:7], COLOURS.get(result.status))
        return f"{status}{start[7:]}{shown(result.message, room)}{end}"

    def _details(self, check: Check, result: Result, output: str) -> None:
        if check.looks_only:
            return
        self._print(self._quoted(f"$ {check.script().arguments[0]}"))
        for line in output.splitlines()[-SHOWN_LINES:]:
            self._print(self._quoted(line))
        if result.exit_code is not None:
            self._print(self._quoted(f"exit code {result.exit_code}"))

    def _build_line(self, line: str, size: int) -> None:
        self._log_size += size
        if re.match(r"(Step \d+/\d+ :|(\[\d+/\d+\] )?STEP \d+/\d+:|#\d+ \[)", line):
            with self._lock:
                self._step = shown(" ".join(line.split()), 60)
        if self._verbose and self._log_size <= VERBOSE_LOG:
            self._print(self._quoted(line))
        elif self._verbose:
            self._missed.append(shown(line, 500))

    def _quoted(self, text: str) -> str:
        return f"  | {shown(text, 500)}"

    def _coloured(self, text: str, colour: str | None) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours and colour else text

    def _print(self, text: str, end: str = "\n") -> None:
        """Print a line above the live one."""
        with self._lock:
            clear = "\r\x1b[K" if self._drawn else ""
            self._drawn = False
            self._write(f"{clear}{text}{end}")

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:  # the reader went away; the evaluation goes on, and its report
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())

    def _keep_alive(self) -> None:
        while not self._closed.wait(0.5):
            with self._lock:
                if not self._closed.is_set():
                    self._write(f"\r\x1b[K{self._live_line()}")
                    self._drawn = True

    def _live_line(self) -> str:
        now = time.monotonic()
        tests = [f"{shown(name, 30)} {now - since:.0f} s" for name, since in self._running.items()]
        text = ", ".join(tests) or f"{self._step} {now - self._since:.0f} s"
        return f"{self._phase}: {text}"[: _columns() - 1]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
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
    add("--build-timeout", metavar="S", type=float, default=3600.0, help="seconds (default: 3600)")
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
    add("--junit", metavar="FILE", help="write the report as JUnit XML, too")
    add("--keep-image", action="store_true", help="leave the image on the engine, and print its tag")
    add(
        "--check",
        action="store_true",
        help="only read the rubric (--rubric or --repo), and name faults and doubts",
    )
    add("--strict", action="store_true", help="with --check: doubts are faults")
    add("--version", action="version", version=f"DockerfileEvaluator {__version__}")
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    """Return what was asked for; raise ValueError for wrong usage."""
    missing = [f"--{name}" for name in ("dockerfile", "repo") if not getattr(arguments, name)]
    if missing:
        raise ValueError(f"the following arguments are required: {', '.join(missing)}")
    if arguments.strict:
        raise ValueError("--strict belongs to --check")
    values = {key: value for key, value in vars(arguments).items() if key in Settings._fields}
    values["rubric"] = arguments.rubric or default_rubric(arguments.repo)
    values["context"] = arguments.context or default_context(arguments.dockerfile)
    for name in ("build_options", "run_options"):
        values[name] = tuple(values[name])
    return Settings(**values).checked()


@contextlib.contextmanager
def _signals_heard(stop: Stop) -> Iterator[None]:
    """Raise the first signal that asks for the end; those that the caller ignores stay ignored.

    A later one only asks `stop`, since an exception may come anywhere: where the first one is
    being caught, too.
    """
    heard: list[int] = []

    def hear(number: int, _frame: object) -> None:
        heard.append(number)
        if len(heard) == 1:
            raise Interrupted(number)
        stop.ask()

    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check(arguments: argparse.Namespace, screen: Screen) -> int:
    """Name what is wrong or doubtful about a rubric; return the exit code."""
    path = arguments.rubric or default_rubric(arguments.repo)
    rubric = load_rubric(path, CHECKS)
    doubts = list(findings(rubric))
    screen.checked(rubric, doubts)
    return 1 if doubts and arguments.strict else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.check and not (arguments.rubric or arguments.repo):
        parser.error("--check needs --rubric FILE or --repo NAME")
    try:
        settings = None if arguments.check else _settings(arguments)
    except ValueError as error:
        parser.error(str(error))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    screen = Screen(sys.stdout, sys.stderr, arguments.dockerfile, verbose=arguments.verbose)
    stop = Stop()
    try:
        with _signals_heard(stop):
            if settings is None:
                return _check(arguments, screen)
            return 0 if _evaluate(settings, screen, stop).passed else 1
    except Interrupted as interrupt:
        return 128 + interrupt.number
    except EvaluationError as error:
        screen.error(str(error))
        return 1
    finally:
        screen.close()


if __name__ == "__main__":
    raise SystemExit(main())
