#!/usr/bin/env python3
"""Score a Dockerfile against a JSON rubric: build it, test the image in fresh containers, write a report.

    evaluate(): load_rubric -> build_image -> TestRunner -> report

A check (one function per test type) defines what to run in a container and how to judge the completed run.
`TestRunner` accepts a run only with one begin and one end marker. `diagnose()` decides whether the engine, a
registry, an option or the Dockerfile is at fault.

Exit codes: 0 all tests passed; 1 a test did not pass, the build failed, there is no score or no report;
2 bad arguments; 130 Ctrl-C (143 SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import errno
import fcntl
import hashlib
import itertools
import json
import os
import re
import secrets
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent import futures
from difflib import get_close_matches
from typing import IO, Any, Callable, Dict, Iterable, Iterator, Mapping, NamedTuple, Sequence, TextIO
from xml.etree import ElementTree

__version__ = "2.0.0"
__all__ = ["EvaluationError", "Rubric", "Test", "evaluate", "last_line", "load_rubric", "main", "matches"]
__all__ += ["percent", "printable", "quoted_list", "write_file"]


# ---------------------------------------------------------------------------------------------
# Types and helpers
# ---------------------------------------------------------------------------------------------

PASSED, FAILED, TIMEOUT, SKIPPED = "passed", "failed", "timeout", "skipped"
UNRESOLVABLE, ERROR, NOT_RUN = "unresolvable", "error", "not_run"
BUILD_TIMEOUT, START_TIMEOUT = 3600.0, 120.0  # seconds; the latter from `docker run` to the begin marker
INCONCLUSIVE = "inconclusive"  # internal: no proof of completion, the test is run once more

Words = Sequence[str]  # options of docker
Report = Dict[str, Any]  # as in rubrics/schema/report.schema.json, keys in that order
Row = Dict[str, Any]  # one of the report's `test_results`


class EvaluationError(Exception):
    """An evaluation that cannot be completed; `kind` is the report's `error.kind`, "input" or "output"."""

    def __init__(self, message: str, kind: str = "input", report: Report | None = None) -> None:  # noqa: D107
        super().__init__(message)
        self.kind = kind
        self.report = report  # the finished report, if only writing it failed


class CancelToken:
    """A request to end the evaluation; a second request ends the clean-up as well."""

    def __init__(self) -> None:
        self.signals: list[int] = []

    def cancel(self, number: int = signal.SIGINT, _frame: object = None) -> None:
        """Request the end; usable as a signal handler."""
        self.signals.append(number)

    def check(self, *, cleanup: bool = False) -> None:
        """Raise EvaluationError ("interrupted") after a request; during `cleanup` after the second one."""
        if len(self.signals) > cleanup:
            raise EvaluationError("the evaluation was interrupted", "interrupted")


class Options(NamedTuple):
    """The arguments of evaluate(), and `tests`: the ids given by --test. Timeouts are in seconds."""

    dockerfile: str
    repo: str
    rubric: str | None = None
    output: str | None = None
    context: str | None = None
    build_timeout: float = BUILD_TIMEOUT
    jobs: int = 1
    build_options: Sequence[str] = ()
    run_options: Sequence[str] = ()
    start_timeout: float = START_TIMEOUT
    docker: str = "docker"
    offline: bool = False
    junit: str | None = None
    markdown: str | None = None
    keep_image: bool = False
    resume: bool = False
    verbose: bool = False
    tests: Sequence[str] = ()


class Result(NamedTuple):
    """The result of one test; `seconds` is the time from its begin marker to its end marker."""

    status: str
    message: str
    exit_code: int | None = None
    output: str = ""
    seconds: float = 0.0


def printable(text: str, limit: int = 200) -> str:
    """Escape control characters and CI workflow commands (`##[…]`, `##vso[…]`); truncate to `limit`."""
    text = re.sub(r"##(?=\w*\[)", "# #", text[: limit + 1])
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quoted_list(items: Iterable[str], quote: str = "'", limit: int = 5, separator: str = ", ") -> str:
    """Join the first `limit` items for a message, and count the others."""
    words = [f"{quote}{printable(item, 200)}{quote}" for item in items]
    return separator.join(words[:limit] + ([f"{len(words) - limit} more"] if len(words) > limit else []))


def percent(part: float, whole: float) -> str:
    """Return a percentage rounded down to one decimal, so that only the whole is 100.0%."""
    return f"{int(round(part / whole * 1000, 6)) / 10:.1f}%" if whole else "0.0%"


def last_line(text: str) -> str:
    """Return the last line that is not blank, or ""."""
    return ([""] + [line.strip() for line in text.splitlines() if line.strip()])[-1]


def mentions(text: str, phrases: Sequence[str]) -> bool:
    """Return whether a text contains one of the phrases (in lower case)."""
    return any(phrase in text.lower() for phrase in phrases)


def read_file(path: str) -> bytes:
    """Return the content of a file; raise EvaluationError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise EvaluationError(f"cannot read {path}: {error.strerror}") from None


_ERROR_LINE = re.compile(
    r"(?i)\w*(error|exception|fatal|panic)\b[^:]{0,20}:|\bERR!|^E:\s|\b(cannot|can't|could not|unable to"
    r"|no such|not found|failed|denied|refused|undefined reference|no rule)\b"
)


def error_line(text: str) -> str:
    """Return the last of the final 30 lines that looks like an error, else the last line."""
    lines = [line.strip()[:500] for line in text.splitlines() if line.strip()][-30:]
    return ([last_line(text)] + [line for line in lines if _ERROR_LINE.search(line)])[-1]


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" for a misspelled word, or the known words."""
    similar = [printable(name, 60) for name in get_close_matches(word, known, 1)]
    return f" (did you mean '{similar[0]}'?)" if similar else f" (known: {quoted_list(sorted(known), '', 9)})"


# ---------------------------------------------------------------------------------------------
# Rubric
# ---------------------------------------------------------------------------------------------

MAX_NUMBER = 10**12  # for timeouts, scores and drawn numbers
MAX_ARGUMENT = 128 * 1024 - 1  # bytes that Linux passes to a program (execve(2), MAX_ARG_STRLEN)
MIN_COMBINATIONS = 10**6  # of a draw; with fewer, an image could contain all answers
REQUIRED: Any = object()
RESOURCE_OPTIONS = ("--shm-size=", "--memory=", "--cpus=", "--gpus=", "--ulimit=")


def describe(value: Any) -> str:
    """Describe a JSON value for an error message."""
    return printable(json.dumps(value, ensure_ascii=False), 60)


def is_number(value: Any, low: float, high: float = MAX_NUMBER, *, integer: bool = False) -> bool:
    """Return whether a value is a number in a range; a bool is not."""
    is_type = isinstance(value, int if integer else (int, float)) and not isinstance(value, bool)
    return is_type and low <= value <= high


class JsonObject(Dict[str, Any]):
    """A JSON object with a list of its duplicate keys."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = collections.Counter(key for key, _ in pairs)
        self.duplicates = [key for key, count in counts.items() if count > 1]


class ObjectReader:
    """Reads the keys of a JSON object; collects errors with their JSON path, continues with defaults."""

    def __init__(self, value: Any, path: str, errors: list[str]) -> None:
        self.path, self.errors = path, errors
        self.values: dict[str, Any] = value if isinstance(value, dict) else {}
        self.known: set[str] = set()  # the keys that were asked for
        if not isinstance(value, dict):
            self.error("", f"expected an object, found {describe(value)}")
        for key in getattr(value, "duplicates", ()):
            self.error("", f"the key '{printable(key, 40)}' is given twice")

    def error(self, key: str, message: str) -> None:
        """Record an error for `key`; "" means the object itself."""
        place = ".".join(filter(None, (self.path, key)))
        self.errors.append(f"{place}: {message}" if place else message)

    def get(self, key: str, expected: str, is_valid: Callable[[Any], bool], default: Any = REQUIRED) -> Any:
        """Return the value, or `default` (None if required) if it is missing, null or invalid."""
        self.known.add(key)
        value = self.values.get(key)
        if value is None and default is not REQUIRED:
            return default
        if key in self.values and is_valid(value):
            return value
        found = f"found {describe(value)}" if key in self.values else "but the key is missing"
        self.error(key, f"expected {expected}, {found}")
        return None if default is REQUIRED else default

    def string(self, key: str, default: Any = REQUIRED) -> str:
        """Return a non-empty string that can be passed to a program; "" if there is none."""
        value = self.get(key, "a non-empty string", lambda v: v is not None, default)
        return "" if value is None else self._argument(key, value)

    def strings(self, key: str, default: Any = REQUIRED) -> tuple[str, ...]:
        """Return a list of such strings, which may be empty only if the key is optional."""
        expected = "a non-empty list of strings" if default is REQUIRED else "a list of strings"
        values = self.get(key, expected, lambda v: isinstance(v, list) and bool(v or default == ()), default)
        return tuple(self._argument(f"{key}[{at}]", value) for at, value in enumerate(values or ()))

    def reject_unknown_keys(self) -> None:
        """Record an error for each key that was not asked for; keys that begin with _ or $ are comments."""
        for key in self.values:
            if key not in self.known and key[:1] not in ("_", "$"):
                self.error("", f"unknown key '{printable(key, 40)}'{suggestion(key, self.known)}")

    def _argument(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            self.error(key, f"expected a non-empty string, found {describe(value)}")
        elif "\0" in value or re.search("[\ud800-\udfff]", value):
            self.error(key, f"expected text without NUL or lone surrogates, found {describe(ascii(value))}")
        elif len(value.encode()) > MAX_ARGUMENT:
            self.error(key, f"expected at most {MAX_ARGUMENT} bytes, found {len(value.encode())}")
        else:
            return value
        return ""


_NAME = "[A-Za-z][A-Za-z0-9]*"
_TERM = re.compile(rf"(?<![${{]){{({_NAME})(?:([-+*])({_NAME}|[0-9]{{1,12}}))?}}")  # skips ${a}
_OPERATIONS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}


def read_draw(params: ObjectReader) -> dict[str, int]:
    """Draw the random integers of a test, anew for each evaluation: no image can contain the answers."""

    def is_range(value: Any) -> bool:
        integers = [is_number(n, -MAX_NUMBER, integer=True) for n in value] if isinstance(value, list) else []
        return integers == [True, True] and bool(value[0] <= value[1])

    given = params.get("draw", "an object of NAME: [from, to]", lambda v: isinstance(v, dict), {})
    reader, combinations, numbers = ObjectReader(given, f"{params.path}.draw", params.errors), 1, {}
    for name in [name for name in given if name[:1] not in ("_", "$")]:
        low, high = map(int, reader.get(name, "two integers [from, to]", is_range) or (0, 0))
        numbers[name] = low + secrets.randbelow(high - low + 1)
        combinations *= high - low + 1
    used = {word for term in _TERM.finditer(str(params.values.get("command"))) for word in term.groups()}
    unused = quoted_list(sorted(set(numbers) - used))
    if unused:
        reader.error("", f"expected names that 'command' uses, found {unused}")
    if numbers and combinations < MIN_COMBINATIONS:
        reader.error("", f"expected at least {MIN_COMBINATIONS} combinations, found {combinations}")
    return numbers


def fill(text: str, numbers: Mapping[str, int]) -> str:
    """Replace `{a}`, `{a+b}`, `{a-b}`, `{a*b}`, `{a*2}` of drawn numbers; leave other braces alone."""

    def value(term: re.Match[str]) -> str:
        left, sign, right = term.groups()
        operands = {**numbers, right: int(right)} if right and right.isdigit() else numbers
        if left not in numbers or (sign and right not in operands):
            return term[0]
        return str(_OPERATIONS[sign](numbers[left], operands[right]) if sign else numbers[left])

    return _TERM.sub(value, text)


class Check(NamedTuple):
    """What to run in a container, and how to judge the completed run.

    `code` is constant shell code; rubric text is passed in `arguments`. `needles` are searched in `prefix`
    and the output. `judge` gets the exit code, a flag per needle, and head and tail of the output; it returns
    whether the test passed, and the message. An empty `command` means that there is no network.
    """

    code: str
    arguments: tuple[str, ...]
    judge: Callable[[int, Sequence[bool], str], tuple[bool, str]]
    needles: tuple[bytes, ...] = ()
    prefix: bytes = b""
    command: str = ""
    shell: str = ""  # that runs the command
    drawn: Mapping[str, int] = {}  # the random numbers in the command


class Test(NamedTuple):
    """One test of a rubric; `timeout` is in seconds, `requires` are ids of other tests."""

    id: str
    type: str
    check: Check
    timeout: float
    score: float
    requires: tuple[str, ...]
    category: str | None
    params: Mapping[str, Any]


class Rubric(NamedTuple):
    """The tests of a rubric file in its order; `unresolvable` has the reason per test id."""

    repo: str | None
    run_options: tuple[str, ...]
    tests: tuple[Test, ...]
    unresolvable: Mapping[str, str]


def load_rubric(path: str) -> Rubric:
    """Read a rubric; raise EvaluationError that lists all errors of the file."""
    try:
        content = json.loads(read_file(path).decode("utf-8-sig"), object_pairs_hook=JsonObject)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, nested too deeply
        raise EvaluationError(f"{path}: not valid JSON: {error}") from None
    errors: list[str] = []
    top = ObjectReader(content, "", errors)
    repo = top.string("repo", None) or None
    run_options = top.strings("run_options", ())
    for at, option in enumerate(run_options):
        if not option.startswith(RESOURCE_OPTIONS):
            top.error(f"run_options[{at}]", f"not one of {', '.join(RESOURCE_OPTIONS)}: {describe(option)}")
    items = top.get("tests", "a non-empty list of tests", lambda v: isinstance(v, list) and bool(v)) or []
    given_ids = [item.get("id") for item in items if isinstance(item, dict)]
    read = [_read_test(item, at, given_ids, errors) for at, item in enumerate(items)]
    tests = tuple(test for test in read if test)
    top.reject_unknown_keys()
    for name, count in collections.Counter(test.id for test in tests).items():
        if count > 1:
            top.error("tests", f"{count} tests have the id '{printable(name, 60)}'")
    if errors:
        raise EvaluationError("\n".join(f"{path}: {error}" for error in errors))
    return Rubric(repo, run_options, tests, find_unresolvable(tests))


def _read_test(item: Any, at: int, given_ids: list[Any], errors: list[str]) -> Test | None:
    """Read one test; for an unknown type record an error and return None."""
    name = item.get("id") if isinstance(item, dict) else None
    label = f" '{printable(name, 60)}'" if isinstance(name, str) else ""
    fields = ObjectReader(item, f"tests[{at}]{label}", errors)
    kind = fields.string("type")
    params = fields.get("params", "an object", lambda v: isinstance(v, dict))
    identity = fields.string("id", None) or f"{kind}_{at + 1}"
    while name is None and identity in given_ids:
        identity += "_"
    timeout = fields.get("timeout", "a number over 0", lambda v: is_number(v, 0) and v > 0, 30.0)
    score = fields.get("score", "a number of at least 0", lambda v: is_number(v, 0), 1)
    requires = tuple(dict.fromkeys(fields.strings("requires", ())))
    category = fields.string("category", None) or None
    fields.get("description", "a string", lambda v: isinstance(v, str), None)
    fields.reject_unknown_keys()
    if kind not in CHECKS:
        if kind:
            fields.error("type", f"unknown test type '{printable(kind, 40)}'{suggestion(kind, CHECKS)}")
        return None
    # Missing params are one error already; their keys are not reported as well.
    reader = ObjectReader(params or {}, f"{fields.path}.params", [] if params is None else errors)
    check = CHECKS[kind](reader)
    reader.reject_unknown_keys()
    return Test(identity, kind, check, float(timeout), score, requires, category, params or {})


def find_unresolvable(tests: Sequence[Test]) -> dict[str, str]:
    """Return the reason for each test that can never run: it requires an unknown id, itself or a cycle."""
    required = {test.id: test.requires for test in tests}
    reasons: dict[str, str] = {}

    def ancestors(name: str) -> set[str]:
        found: set[str] = set()
        stack = [name]
        while stack:
            new = set(required.get(stack.pop(), ())) - found
            found |= new
            stack += new
        return found

    for test in tests:
        unknown = [name for name in test.requires if name not in required]
        if unknown:
            shown = printable(unknown[0], 60)
            reasons[test.id] = f"requires unknown test '{shown}'{suggestion(unknown[0], required)}"
        elif test.id in test.requires:
            reasons[test.id] = "requires itself"
        elif test.id in ancestors(test.id):
            on_cycle = [name for name in test.requires if test.id in ancestors(name)]
            reasons[test.id] = f"requires itself through {quoted_list(on_cycle)}"
    return reasons


# ---------------------------------------------------------------------------------------------
# Checks
# ---------------------------------------------------------------------------------------------

# Scripts for the image's /bin/sh, inside _WRAPPER. Text of the rubric is passed as positional parameters.

_FIND_COMMANDS = """\
status=0
for name do
  if path=$(command -v -- "$name") && test -n "$path" &&
    case $path in
      */*) test -f "$path" && test -x "$path" ;;
      # A built-in command, or (busybox) a file in $PWD from an empty PATH entry.
      *) test ! -f "$path" || test -x "$path" || (cd /proc && command -v -- "$name" >/dev/null) ;;
    esac
  then echo "found $path"
  else echo "not found: $name"; status=1
  fi
done
exit "$status"
"""

_TEST_PATHS = """\
operator=$1 noun=$2 status=0
shift 2
for path do
  if test "$operator" "$path"; then echo "found $path"; continue; fi
  status=1
  if test -d "$path"; then echo "a directory, not a file: $path"
  elif test -f "$path"; then echo "a file, not a directory: $path"
  elif test -e "$path"; then echo "neither a file nor a directory: $path"
  else echo "no such $noun, or not accessible to the image's user: $path"
  fi
done
exit "$status"
"""

_NOT_READ = 3
_READ_FILE = f"""\
fail() {{ echo "$1"; exit {_NOT_READ}; }}
test -e "$1" || fail "no such file, or not accessible to the image's user"
test -f "$1" || fail "not a regular file"
test -r "$1" || fail "not readable by the image's user"
if test -x /bin/cat; then /bin/cat; else cat; fi <"$1"
"""
_READ_ENVIRONMENT = "if test -x /bin/cat; then /bin/cat; else cat; fi </proc/$$/environ\n"

_NO_SHELL = "dockerfile-evaluator: no such shell"
_RUN_COMMAND = f"""\
exec 2>&1
command -v -- "$2" >/dev/null || {{ echo '{_NO_SHELL}'; exit 127; }}
exec "$2" -c "$1"
"""
_EXIT_CODES = {126: " (not executable)", 127: " (command not found)", 137: " (killed)", 139: " (crashed)"}


def _all_found(code: str, arguments: tuple[str, ...]) -> Check:
    """A script prints a line for each command or path, and exits with 0 if all are found."""

    def judge(status: int, _found: Sequence[bool], output: str) -> tuple[bool, str]:
        lines = [line for line in output.splitlines() if line.startswith("found ") == (status == 0)]
        return status == 0, quoted_list(lines, "", separator="; ") or f"exit code {status}"

    return Check(code, arguments, judge)


def _envvar_set(params: ObjectReader) -> Check:
    """The variable is in the environment of the container's first process, and not empty."""
    name = params.string("name")
    if name and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name):
        params.error("name", f"expected a variable name, found {describe(name)}")

    def judge(code: int, found: Sequence[bool], _output: str) -> tuple[bool, str]:
        if code != 0:
            return False, f"cannot read the environment (exit code {code})"
        state = "set" if found == (True, False) else "set, but empty" if found[0] else "not set"
        return state == "set", f"{name} is {state}"

    entry = f"\0{name}=".encode()  # the environment is a list of NAME=value that end in NUL
    return Check(_READ_ENVIRONMENT, (), judge, (entry, entry + b"\0"), prefix=b"\0")


class ExpectedStrings:
    """The strings that a file or an output must contain: any of them, or all."""

    def __init__(self, params: ObjectReader, numbers: Mapping[str, int]) -> None:
        self.texts = [fill(text, numbers) for text in params.strings("contains")]
        self.needles = tuple(text.encode() for text in self.texts)
        self.match = params.get("match", "'any' or 'all'", lambda v: v in ("any", "all"), "any")

    def judge(self, found: Sequence[bool], subject: str) -> tuple[bool, str]:
        """Return whether the strings that were found suffice, and the message."""
        present = [text for text, is_found in zip(self.texts, found) if is_found]
        absent = [text for text, is_found in zip(self.texts, found) if not is_found]
        if present and (self.match == "any" or not absent):
            return True, f"{subject} contains {quoted_list(present)}"
        verb = "contains none of" if self.match == "any" else "lacks"
        return False, f"{subject} {verb} {quoted_list(absent)}"


def _file_contains(params: ObjectReader) -> Check:
    """A regular file contains any (or all) of the strings; the host searches it."""
    path, contents = params.string("path"), ExpectedStrings(params, {})

    def judge(code: int, found: Sequence[bool], output: str) -> tuple[bool, str]:
        if code == 0:
            return contents.judge(found, printable(path, 100))
        reason = last_line(output) if code == _NOT_READ else f"exit code {code}"
        return False, f"cannot read {printable(path, 100)}: {printable(reason)}"

    return Check(_READ_FILE, (path,), judge, contents.needles)


def _run_command(params: ObjectReader) -> Check:
    """A command ends with the expected exit code."""
    numbers = read_draw(params)
    command, shell = fill(params.string("command"), numbers), params.string("shell", "/bin/sh")
    expected = params.get(
        "exit_code", "0 to 255 or 'any'", lambda v: v == "any" or is_number(v, 0, 255, integer=True), 0
    )

    def judge(code: int, _found: Sequence[bool], output: str) -> tuple[bool, str]:
        if code == 127 and output.startswith(_NO_SHELL):  # noqa: PLR2004
            return False, f"the image has no shell {printable(shell, 100)}"
        if expected in ("any", code):
            return True, f"exit code {code}"
        wanted = f", expected {expected}" if expected else ""
        reason = printable(error_line(output)) or f"no output{_EXIT_CODES.get(code, '')}"
        return False, f"exit code {code}{wanted}: {reason}"

    # A shell takes a first word that begins with - or + as an option, even after -c.
    argument = f" {command}" if command[:1] in ("-", "+") else command
    return Check(_RUN_COMMAND, (argument, shell), judge, command=command, shell=shell, drawn=numbers)


def _output_contains(params: ObjectReader) -> Check:
    """A command ends with the expected exit code, and its output contains any (or all) of the strings."""
    base = _run_command(params)
    contents = ExpectedStrings(params, base.drawn)

    def judge(code: int, found: Sequence[bool], output: str) -> tuple[bool, str]:
        passed, message = base.judge(code, found, output)
        if passed:
            passed, message = contents.judge(found, "output")
            if not passed:
                end = printable(last_line(output))
                message += f"; last line: '{end}'" if end else "; the command printed nothing"
        return passed, message

    return base._replace(judge=judge, needles=contents.needles)


CHECKS: dict[str, Callable[[ObjectReader], Check]] = {
    "command_exists": lambda params: _all_found(_FIND_COMMANDS, (params.string("name"),)),
    "commands_exist": lambda params: _all_found(_FIND_COMMANDS, params.strings("names")),
    "envvar_set": _envvar_set,
    "dirs_exist": lambda params: _all_found(_TEST_PATHS, ("-d", "directory", *params.strings("paths"))),
    "files_exist": lambda params: _all_found(_TEST_PATHS, ("-f", "file", *params.strings("paths"))),
    "file_contains": _file_contains,
    "run_command": _run_command,
    "output_contains": _output_contains,
}


# ---------------------------------------------------------------------------------------------
# Docker
# ---------------------------------------------------------------------------------------------

NAME = "dockerfile-evaluator"  # repository of the images, prefix of the containers' names
# Time limits in seconds.
POLL_INTERVAL = 0.1
COMMAND_TIMEOUT = 20.0  # a docker command that queries or removes something
CREATE_TIMEOUT = 10.0  # wait for a container that is being created
EXIT_TIMEOUT = 60.0  # from the end marker to the end of `docker run`
KILL_TIMEOUT = 5.0  # wait after a signal to a docker command; also for the leftovers of one killed run
RECOVERY_TIMEOUT = 60.0  # for an engine that does not answer, and for each step of a smoke test
RETRY_DELAY = 5.0  # before a failed build is repeated
CLEANUP_TIMEOUT = 60.0  # all clean-up together
EXPIRY_MARGIN = 3600.0  # added to the sum of a run's limits
OUTPUT_GRACE = 1.0  # added to a time limit while output is still arriving

# Sizes in bytes.
CHUNK = 64 * 1024
OUTPUT_HEAD, OUTPUT_TAIL = 2 * 1024, 6 * 1024  # kept of a test's output
LOG_HEAD, LOG_TAIL = 2 * 1024, 16 * 1024  # kept of the beginning of a build step, and of the log's end
SMOKE_TEST, LARGE_SMOKE_TEST = 1024 * 1024, 256 * 1024 * 1024  # content of the smoke test's image

# bash imports functions from the environment even as sh; they would replace the commands used here.
# `unset`, `set`, `trap`, `exit`, `exec`, `shift` and `:` are special built-ins, which no function replaces
# in a POSIX shell (2.9.1). dash loads functions from PATH entries with %func, built-ins from %builtin.
# The trap keeps the shell running if its command gets SIGINT. $1 is the nonce.
_WRAPPER = """\
case $PATH in *%builtin*) exit 1;; esac
unset -f command test echo cat
set +euvx
trap : INT
echo "$1=B"
(
shift
{code}
)
set -- "$1" "$?"
echo "$1=E $2"
exit "$2"
"""

_NO_ENGINE = ("connect to the docker", "unable to connect", "error during connect", "connection refused")
_IS_REMOVED = ("no such container", "no such image", "image not known", "already in progress")

# How each builder shows that it has read the Dockerfile, and how it begins a step. The first line of a
# BuildKit vertex is its title; what a RUN prints has a time after the number.
_BUILDER = re.compile(
    r"(?P<buildkit>#\d+ \[internal\] load )|(?P<legacy>Sending build|Step 1/)|(?P<buildah>(\[\S+ )?STEP 1/)"
)
_VERTEX = re.compile(r"#(?P<number>\d+) (?P<rest>.*)")
_STEP = re.compile(r"(\[\d+/\d+\] )?(Step|STEP) \d+/\d+ ?: (?P<title>.*)")
_BUILDER_LINE = ("-->", " --->", "Sending build context", "Removing intermediate ")  # besides _STEP
_NOTICE = re.compile(r"(?i)deprecated: |\s|warning")  # at the beginning of the legacy builder's stderr

# Patterns of docker's final error: retry or not, and what to quote.
_PREFIXES = re.compile(
    r"^(------ |ERROR: |Error: |Error response from daemon: |failed to (solve|build)( with frontend \S+)?: "
    r"|failed to (create LLB definition|build LLB): |rpc error: code = Unknown desc = )+"
)
_RUN_FAILED = re.compile(r"(returned a non-zero code: |exit code: |exit status )(?P<code>\d+)\W*$")
_SYNTAX_ERROR = re.compile("(?i)dockerfile parse|unknown (inst|flag)|failed to parse|reading mult|parsing m")
_SOURCE_MISSING = re.compile(
    r"(COPY|ADD) failed: .*(not found|no source files|does not exist|no such file|forbidden path)"
    r"|failed to (compute cache key|calculate checksum).*\"[^\"]+\":? not found|.*copier: stat: "
)
_CONNECTION_LOST = re.compile(
    r"(error during connect: .*: )?(unexpected )?EOF|error reading from server: EOF|transport is closing"
    r"|(failed to receive status: )?(rpc error: code = )?Unavailable(: | desc = )(?!.*_ERROR).*"
)
_NETWORK_FAILURE = re.compile(
    r"(?i).{0,60}(temporary failure|could ?n.t resolve|could not resolve|name or service not known|rate limit"
    r"|connection (refused|timed out|reset)|network is unreachable|too many requests).{0,80}"
)
# <<WORD outside quotes and comments, and no later line continuation (Dockerfile reference, "Here-Documents").
_HERE_DOCUMENT = re.compile(
    r"""\s*(?i:RUN|COPY|ADD)\b([^\\"'#]|\\.|"[^"]*"|'[^']*')*?\s\d*<<-?(["']?)(?P<word>\w+)\b\2[^\\]*$"""
)
_NEEDS_BUILDKIT = re.compile(
    r"(?i)the --[a-z-]+ option requires BuildKit|(dockerfile parse [\w ]+: )?"
    r"unknown flag: -*(link|parents|exclude|checksum|keep-git-dir|unpack|network|security|device)\b"
)
# Titles of the steps that ask a registry; BuildKit logs COPY --from=IMAGE as a FROM step, too. The legacy
# builder and podman also fail there for other reasons: _REGISTRY_ERROR must match as well.
_IMAGE_STEP = re.compile(
    r"(\[internal\] load metadata for |resolve image config for |\[[^]]*\] FROM |FROM (--\S+ )*"
    r"|COPY .*--from=)(docker-image://)?(?P<image>\S+)"
)
_REGISTRY_ERROR = re.compile(
    r"(invalid from flag value \S+: |unknown: )*((Get|Head) \"?https?:|pull access denied|manifest |toomany"
    r"|denied|unauthorized|error (pulling|from reg)|received unexp|expected HTTP|(dial|read) tcp|short read"
    r"|failed to (resolve reference|do request|copy: httpRead)|(unexpected )?EOF"
    r"|(creating build container: )?(unable to copy from source|initializing source) docker://)"
)
_BROKEN_DOWNLOAD = re.compile(
    "(invalid from flag value .*: |failed to compute cache key: )?(failed to (copy: httpRead|read expected)"
    "|short read: |error pulling image configuration|expected HTTP 206)|(unexpected )?EOF$"
)
REGISTRIES = "docker.io ghcr.io quay.io gcr.io mcr.microsoft.com nvcr.io public.ecr.aws registry.k8s.io"
REGISTRIES += " registry.gitlab.com"
_UNREACHABLE = re.compile(
    r"(?i)dial tcp|no such host|timeout|timed out|tls|x509|proxy|\b429\b|\b5\d\d\b|too ?many ?requests|EOF"
    r"|rate (limit|exceeded)|incorrect username or|expired|unauthorized: authentication req|reset by peer"
)
_NO_SUCH_IMAGE = ("does not exist", "manifest unknown", "not found", "denied", "forbidden", "unauthenticated")

_ENVIRONMENT = {"BUILDKIT_PROGRESS": "plain", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1", "DOCKER_CLI_HINTS": "0"}
# With --stop-timeout podman's `rm --force` does not wait.
_RUN_ARGS = ("--pull=never", "--log-driver=none", "--no-healthcheck", "--pids-limit=4096", "--stop-timeout=0")
_REFUSED_OPTIONS = {
    "run": "--(name|rm|entrypoint|detach|interactive|tty|attach|cidfile|restart|help)(=|$)|-[Pq]*[dait]",
    "build": "--(tag|file|iidfile|quiet|output|load|push|progress|check|call|help)(=|$)|-[tfqo]",
}
_NAMED_USER = re.compile(r"(--user=|--group-add=|-u).*[^\d:=]")  # which only the image under test has
_OPTION = re.compile(r"(?s)--[a-z0-9-]+(=.*)?|-[A-Za-z](\S.*)?")  # one argument: no blank after the flag
# Group "run": 12 hex digits and the time of expiry, in seconds since 1970 by the engine's clock.
_OWNED = re.compile(rf"{NAME}[-:](?P<run>[0-9a-f]{{12}}-(?P<expires>[0-9]{{1,12}}))(-[0-9]+|\.lock)?")
_ENGINE_FACTS = "docker_client docker_server platform storage_driver engine_cpus engine_memory"
_IMAGE_FACTS = (
    '{"image_id": {{json .ID}}, "image_size": {{json .Size}}, "layers": {{json .RootFS.Layers}}, '
    '"image_platform": "{{.Os}}/{{.Architecture}}"}'
)


def check_options(step: str, options: Sequence[str]) -> None:
    """Raise ValueError for options of `docker build` or `docker run` that would break the evaluation."""
    for option in [options] if isinstance(options, str) else options:
        if isinstance(options, str) or not _OPTION.fullmatch(option) or "\0" in option:
            raise ValueError(f"{step} options: not like --memory=2g or -eA=b: {re.split('[ =]', option)[0]}")
        if re.match(_REFUSED_OPTIONS[step], option):
            raise ValueError(f"{step} options: the evaluation depends on its own value for '{option}'")


def with_defaults(defaults: Iterable[str], options: Sequence[str]) -> tuple[str, ...]:
    """Return the defaults, except those that the user's options replace, and the options."""
    given = {f"{option}=".replace("--net=", "--network=").partition("=")[0] for option in options}
    return (*(word for word in defaults if word.partition("=")[0] not in given), *options)


class Process:
    """A docker command in its own session (no Ctrl-C from the terminal); leaving `with` ends it."""

    def __init__(self, argv: Sequence[str | bytes], env: Mapping[str, str], fds: Sequence[int] = ()) -> None:
        self._started, null, pipe = time.monotonic(), subprocess.DEVNULL, subprocess.PIPE
        try:
            self._popen = subprocess.Popen(
                argv, stdin=null, stdout=pipe, stderr=pipe, start_new_session=True, env=env, pass_fds=fds
            )
        except OSError as error:
            hint = ", install the docker CLI or use --docker" if error.errno == errno.ENOENT else ""
            message = f"cannot start '{os.fsdecode(argv[0])}': {error.strerror}{hint}"
            raise EvaluationError(message, "engine") from None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exception: object) -> None:
        for pipe in filter(None, (self._popen.stdout, self._popen.stderr)):
            pipe.close()  # first: this unblocks a process that is writing
        self.end(signal.SIGTERM)
        self.end(signal.SIGKILL)

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started

    def read(self) -> Iterator[tuple[str, bytes]]:
        """Yield ("stdout" or "stderr", data), and ("", b"") after each POLL_INTERVAL without data.

        Ends with both pipes, or with the process if an orphaned child keeps them open.
        """
        with selectors.DefaultSelector() as selector:
            for name in ("stdout", "stderr"):
                selector.register(getattr(self._popen, name), selectors.EVENT_READ, name)
            while selector.get_map():
                ended = self.wait(0) is not None  # before the pipes are read, to miss no output
                ready = selector.select(POLL_INTERVAL)
                for key, _ in ready:
                    data = os.read(key.fd, CHUNK)
                    if data:
                        yield key.data, data
                    else:
                        selector.unregister(key.fileobj)
                if not ready:
                    if ended:
                        return
                    yield "", b""

    def wait(self, timeout: float) -> int | None:
        """Return the exit code, negative for a signal; None if it still runs after `timeout` seconds."""
        try:
            return self._popen.wait(timeout) if timeout else self._popen.poll()
        except subprocess.TimeoutExpired:
            return None

    def end(self, number: int) -> None:
        """Send a signal to the process and its children; wait at most KILL_TIMEOUT seconds."""
        if self.wait(0) is None:  # the PID of an ended process may be reused
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, number)
            self.wait(KILL_TIMEOUT)


class Excerpt:
    """The first and the last bytes of a stream of any length."""

    def __init__(self, head: int, tail: int) -> None:
        self._head, self._limit = head, head + tail
        self._data, self._omitted = bytearray(), 0

    def feed(self, data: bytes, slack: int = CHUNK) -> None:
        """Add the next bytes; cut the middle if the excess is over `slack` bytes."""
        self._data += data
        excess = len(self._data) - self._limit
        if excess > slack:
            del self._data[self._head : self._head + excess]
            self._omitted += excess

    def text(self) -> str:
        """Return head and tail, with a note of how much was left out between them."""
        self.feed(b"", 0)
        head, tail = self._data[: self._head], self._data[self._head :]
        note = f"\n[… {self._omitted} bytes left out …]\n".encode() if self._omitted and tail else b""
        return (head + note + tail).decode(errors="replace")


class ContainerRun:
    """A check in a container: finds markers, which begin with a secret nonce, and needles between them."""

    def __init__(self, check: Check, nonce: str) -> None:
        self.expired = ""  # the limit that was exceeded: "start", "check" or "exit"
        self.code: int | None = None  # docker's exit code, None if docker was killed
        self.state: dict[str, Any] = {}  # the engine's record of a container that was kept
        self._marker = re.compile(nonce.encode() + rb"=(?:(?P<begin>B)|E (?P<status>[0-9]{1,3}))\n")
        self._held_back = len(nonce) + len("=E 255\n") - 1  # bytes that may be the beginning of a marker
        self._buffer, self._window = b"", check.prefix
        self._needles, self._missing = check.needles, set(check.needles)
        self._overlap = max(map(len, check.needles), default=1) - 1  # a needle may span two chunks
        self.excerpt = Excerpt(OUTPUT_HEAD, OUTPUT_TAIL)
        self.preface = Excerpt(0, CHUNK)  # printed before the begin marker, on stdout or stderr
        self.begins = 0
        self.statuses: list[int] = []  # of the end markers
        self.begun_at = self.ended_at = 0.0  # seconds since the start

    def feed(self, stream: str, data: bytes, now: float) -> None:
        """Add the next bytes, read at the time `now`; stderr is kept only before the begin marker."""
        if stream == "stderr" and not self.begins:
            self.preface.feed(data)
        self._buffer += data if stream == "stdout" else b""
        for marker in iter(lambda: self._marker.search(self._buffer), None):
            self._take(marker.start())
            self._buffer = self._buffer[len(marker[0]) :]
            if marker["begin"]:
                self.begins += 1
                self.begun_at = self.begun_at or now
            else:
                self.statuses.append(int(marker["status"]))
                self.ended_at = self.ended_at or now
        self._take(max(len(self._buffer) - self._held_back, 0))

    def close(self, now: float) -> None:
        """Add what was held back: no more output follows."""
        self._take(len(self._buffer))
        self.ended_at = self.ended_at or now

    def found(self) -> tuple[bool, ...]:
        """Return for each needle whether the output contains it."""
        return tuple(needle not in self._missing for needle in self._needles)

    @property
    def problem(self) -> str:
        """Why completion is not proven, or ""."""
        if self.expired:
            return f"{self.expired} timed out"
        if self.begins != 1 or len(self.statuses) != 1:
            marker, count = ("end", len(self.statuses)) if self.begins == 1 else ("begin", self.begins)
            return f"{'more than one' if count else 'no'} {marker} marker (exit code {self.code})"
        differ = f"end marker {self.statuses[0]}, docker's exit code {self.code}"
        return "" if self.statuses[0] == self.code else differ

    def _take(self, count: int) -> None:
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        if not self.begins:
            self.preface.feed(data)
        elif not self.statuses:
            self.excerpt.feed(data)
            self._window += data if self._missing else b""
            self._missing = {needle for needle in self._missing if needle not in self._window}
            self._window = self._window[max(len(self._window) - self._overlap, 0) :]


class BuildLog:
    """The log of one `docker build`, which is shown on the console."""

    def __init__(self, console: Console) -> None:
        self.builder = ""  # "buildkit", "legacy" or "buildah"; "" until it has read the Dockerfile
        self.step = ""  # title of the failed step, or of the last one that began
        self._console, self.started = console, time.monotonic()
        self._titles: dict[str, str] = {}  # of BuildKit's vertices, by number
        self.failed, self.vertex_error = "", ""  # number and error of the first BuildKit vertex that failed
        self._rest = {"": b"", "stdout": b"", "stderr": b""}
        self._end, self._head = Excerpt(0, LOG_TAIL), Excerpt(LOG_HEAD, 0)  # of the log; of the last step
        self._stderr: list[str] = []  # the first and the last 50 lines, or those of docker's final error
        self._has_final_error = False

    def feed(self, stream: str, data: bytes) -> None:
        """Add the next bytes of stdout or stderr, or none; called at least after each POLL_INTERVAL."""
        self._console.tick()
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        if len(rest) > CHUNK:
            lines, rest = [*lines, rest], b" "  # what follows does not begin a line
        self._rest[stream] = rest
        for line in lines:
            self._add(stream, line.decode(errors="replace").rstrip("\r"))

    def close(self) -> None:
        """Add the lines that have not ended: no more output follows."""
        for stream, rest in self._rest.items():
            self.feed(stream, b"\n" if rest else b"")

    @property
    def error_lines(self) -> list[str]:
        """Docker's final error; without a failed vertex its later lines may be text of the Dockerfile."""
        if self.builder == "legacy":  # whose RUN instructions print to stdout
            return list(itertools.dropwhile(_NOTICE.match, self._stderr))
        return self._stderr if self._has_final_error else self._stderr[-1:]

    @property
    def final_error(self) -> str:
        """Docker's error message in one line, without prefixes."""
        excerpt = Excerpt(LOG_HEAD, LOG_HEAD)
        excerpt.feed(" ".join(map(str.strip, self.error_lines)).encode())
        text = _PREFIXES.sub("", excerpt.text())
        return re.sub(r" of ref [\w-]+::\w+| View build details: \S+$", "", text) or "no output"

    @property
    def run_failure(self) -> int | None:
        """The exit code of a RUN that failed, or None."""
        failed = _RUN_FAILED.search(self.final_error)
        return int(failed["code"]) if failed else None

    @property
    def is_permanent(self) -> bool:
        """True if a repetition would fail as well; 137 and 143 mean that the RUN was killed from outside."""
        if self.mentions_no_space or "unable to start container process" in self.run_output():
            return False
        if self.run_failure is not None:
            return self.run_failure not in (137, 143)
        return bool(_SOURCE_MISSING.search(self.final_error) or _SYNTAX_ERROR.match(self.final_error))

    @property
    def mentions_no_space(self) -> bool:
        """True if the failing output or docker's error says that the disk is full."""
        return mentions(self.run_output() + self.final_error, ["no space left on device"])

    @property
    def missing_image(self) -> str:
        """The image that docker failed to resolve or download, "" if the build failed for another reason."""
        asks, is_failed = _IMAGE_STEP.match(self.step), bool(self.failed)
        if self.builder in ("legacy", "buildah"):
            is_failed = bool(_REGISTRY_ERROR.match(self.final_error))
        return asks["image"] if asks and is_failed and self.run_failure is None else ""

    def text(self) -> str:
        """Return the log's tail, preceded by the last step's head if the tail lacks it."""
        head, end = self._head.text(), self._end.text()
        return end if head in end else f"{head}[…]\n{end}"

    def run_output(self) -> str:
        """Return the end of what the failed RUN printed."""
        text = self._end.text()
        if self.failed:
            lines = re.findall(rf"(?m)^#{self.failed} \d+\.\d+ (.*)", text)
        else:
            docker_lines = self._stderr if self.builder == "legacy" else self.error_lines
            lines = [line for line in text.splitlines() if line not in docker_lines]
            lines = [line for line in lines if not line.startswith(_BUILDER_LINE) and not _STEP.match(line)]
        return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(lines))

    def _add(self, stream: str, line: str) -> None:
        if not self.step:  # docker with podman's engine prints the legacy builder's first line
            builder = _BUILDER.match(line)
            self.builder = str(builder.lastgroup) if builder else self.builder
        is_step = self._begins_step(line)
        if is_step:
            self._head = Excerpt(LOG_HEAD, 0)
        if stream == "stderr" and line.strip():
            is_first = not self._has_final_error or self.failed or self.builder == "buildah"
            if self.builder != "legacy" and is_first and re.match("(?i)-{6}$|error: |failed to ", line):
                self._stderr, self._has_final_error = [], True
            self._stderr.append(line)
            del self._stderr[50:-50]
        for excerpt in (self._end, self._head):
            excerpt.feed(f"{line}\n".encode())
        self._console.build_line(line, is_step=is_step)

    def _begins_step(self, line: str) -> bool:
        """Record the step that a line begins; return whether it is one of the Dockerfile's instructions."""
        vertex = _VERTEX.match(line) if self.builder == "buildkit" and not self._has_final_error else None
        if vertex and vertex["rest"].startswith("ERROR: ") and not self.failed:
            self.failed, self.vertex_error = vertex["number"], vertex["rest"][len("ERROR: ") :]
            self.step = self._titles.get(self.failed, "")
        elif vertex and vertex["number"] not in self._titles:
            self._titles[vertex["number"]] = vertex["rest"]
            self.step = self.step if self.failed else vertex["rest"]
            return bool(re.match(r"\[(?!internal\]|auth\])", vertex["rest"]))
        step = _STEP.match(line) if self.builder in ("legacy", "buildah") else None
        self.step = step["title"] if step else self.step
        return bool(step)


def lock_run(run_id: str, mode: str) -> IO[str]:
    """Open and lock the file of a run; mode "x" creates it, others raise OSError if it is locked already."""
    file = open(os.path.join(tempfile.gettempdir(), f"{NAME}-{run_id}.lock"), mode)  # noqa: SIM115
    fcntl.flock(file, fcntl.LOCK_EX | (0 if mode == "x" else fcntl.LOCK_NB))
    return file


Answer = subprocess.CompletedProcess  # exit code and output of a docker command
Feed = Callable[[str, bytes], None]  # takes the stream ("stdout", "stderr" or "") and the next bytes


class Docker:
    """The docker CLI, the engine behind it, and what this run owns there."""

    def __init__(self, options: Options, dockerfile: str, cancel: CancelToken, console: Console) -> None:
        self.options, self.dockerfile, self.cancel, self.console = options, dockerfile, cancel, console
        self.warnings: list[str] = []
        self.facts: dict[str, Any] = dict.fromkeys(_ENGINE_FACTS.split())
        self.image = ""  # tag of the image under test
        self._environment = {**os.environ, **_ENVIRONMENT}
        self._run_id, self._engine_id, self._numbers = "", "", itertools.count(1)
        self._lock: IO[str] | None = None
        self._pending: set[str] = set()  # containers that docker may still be creating

    def call(self, *arguments: str, timeout: float = COMMAND_TIMEOUT, cleanup: bool = False) -> Answer[str]:
        """Run a docker command; raise EvaluationError if interrupted, or without an answer in `timeout` s."""
        output = {"": Excerpt(0, 0), "stdout": Excerpt(4 * 1024 * 1024, 0), "stderr": Excerpt(CHUNK, 0)}
        code = self._run(arguments, timeout, lambda stream, data: output[stream].feed(data), cleanup=cleanup)
        if code is None:
            raise EvaluationError(f"`docker {arguments[0]}` timed out after {timeout:.0f} s", "engine")
        stderr = output["stderr"].text()
        if code != 0 and mentions(stderr, _NO_ENGINE) and "Error response from daemon" not in stderr:
            problem = printable(last_line(stderr), 300)
            raise EvaluationError(f"no docker engine (check DOCKER_HOST): {problem}", "engine")
        return Answer(arguments, code, output["stdout"].text(), stderr)

    def connect(self, timeout: float = 0.0) -> None:
        """Ask for the versions; raise EvaluationError if no engine answers within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                answer = self.call("version", "--format", "{{json .}}")
                if answer.returncode == 0:
                    break
                problem = f"docker version: {printable(last_line(answer.stderr), 300)}"
                raise EvaluationError(problem, "engine")  # noqa: TRY301
            except EvaluationError as error:
                if error.kind == "interrupted" or time.monotonic() >= deadline:
                    raise
                time.sleep(POLL_INTERVAL)
        versions = parse_object(answer.stdout)
        client = versions.get("Client") or {}
        server = versions.get("Server") or client  # podman without a service has no server
        self.facts.update(docker_client=client.get("Version"), docker_server=server.get("Version"))
        self.facts["platform"] = server.get("OsArch") or f"{server.get('Os')}/{server.get('Arch')}"

    def start_run(self, lifetime: float) -> None:
        """Name this run, which takes at most `lifetime` seconds; remove the leftovers of dead runs."""
        info = parse_object(self.call("info", "--format", "{{json .}}").stdout)
        host, store = info.get("host") or {}, info.get("store") or {}  # podman's
        self.facts.update(storage_driver=info.get("Driver") or store.get("graphDriverName"))
        self.facts.update(engine_cpus=info.get("NCPU") or host.get("cpus"))
        self.facts.update(engine_memory=info.get("MemTotal") or host.get("memTotal"))
        self.is_podman, self._engine_id = bool(host), str(info.get("ID") or "")
        clock = (info.get("SystemTime") or "").replace("Z", "+00:00")  # podman has none; without fractions:
        now = datetime.datetime.fromisoformat(clock[:19] + clock[-6:]).timestamp() if clock else time.time()
        self._run_id = f"{secrets.token_hex(6)}-{int(min(now + lifetime + EXPIRY_MARGIN, 10**12 - 1))}"
        self.image = f"{NAME}:{self._run_id}"
        with contextlib.suppress(OSError):  # without a lock file, the expiry protects this run
            while not self._lock or not os.path.exists(self._lock.name):  # removed before it was locked
                self._lock = lock_run(self._run_id, "x")
            self._lock.write(self._engine_id)
            self._lock.flush()
        self._remove_leftovers(now)

    def check_cli_options(self) -> None:
        """Raise EvaluationError ("usage") for an option that the docker CLI does not accept."""
        for step, options in (("build", self.options.build_options), ("run", self.options.run_options)):
            answer = self.call(step, *options, "--help") if options else None
            if answer and answer.returncode != 0:
                lines = [line for line in answer.stderr.splitlines() if line and not _NOTICE.match(line)]
                problem = printable(lines[0]) if lines else "no output"
                raise EvaluationError(f"docker refuses the {step} options: {problem}", "usage")

    def build(self, log: BuildLog, tag: str, file: str, ctx: str, options: Words, limit: float) -> int | None:
        """Build an image; fill `log`, return docker's exit code, None if it takes over `limit` seconds."""
        # BuildKit does not follow a symbolic link to the Dockerfile.
        paths = ("--tag", tag, "--file", os.path.realpath(file), os.path.abspath(ctx))
        code = self._run(("build", *with_defaults(("--force-rm",), options), *paths), limit, log.feed)
        log.close()
        return code

    def image_facts(self) -> dict[str, Any]:
        """Return id, size, platform and layers of the image, {} if it does not exist."""
        return parse_object(self.call("image", "inspect", "--format", _IMAGE_FACTS, self.image).stdout)

    def run_container(self, check: Check, timeout: float, *, keep: bool) -> ContainerRun:
        """Run a check in a new container, then remove it; with `keep`, read its state before."""
        self.cancel.check()
        name, nonce = f"{NAME}-{self._run_id}-{next(self._numbers)}", secrets.token_hex(16)
        run, expired_at = ContainerRun(check, nonce), 0.0
        limits = {"start": self.options.start_timeout, "check": timeout, "exit": EXIT_TIMEOUT}
        try:
            with Process(self._run_argv(name, nonce, check, keep=keep), self._environment) as process:
                self._pending.add(name)
                for stream, data in process.read():
                    now = process.elapsed()
                    run.feed(stream, data, now)
                    phase = "exit" if run.statuses else "check" if run.begins else "start"
                    since = now - (run.ended_at or run.begun_at) - (OUTPUT_GRACE if stream else 0.0)
                    if not run.expired and (self.cancel.signals or since > limits[phase]):
                        run.expired, expired_at = phase, now
                    # A container that is still being created cannot be removed yet.
                    is_removable = run.begins or now - expired_at > CREATE_TIMEOUT
                    if run.expired and (is_removable or len(self.cancel.signals) > 1):
                        break
                run.code = process.wait(0 if run.expired else EXIT_TIMEOUT)
                process.end(signal.SIGKILL)  # first: otherwise the container could not be removed
                run.close(process.elapsed())
            self.cancel.check()
            run.expired = run.expired or ("exit" if run.code is None else "")
            if keep and run.problem and run.expired != "check":
                state = self.call("container", "inspect", "--format", "{{json .State}}", name).stdout
                run.state = parse_object(state)
            return run
        finally:
            if run.begins or run.code is not None:
                self._pending.discard(name)
            if keep or run.statuses != [run.code]:  # else --rm removed it
                with contextlib.suppress(EvaluationError):  # clean_up() tries again
                    self.remove("container", name)

    def smoke_test(self, size: int, options: Options) -> str:
        """Build an image with `size` random bytes, try to run a program in it and in a build.

        Return what fails, or "". A working engine reports that the program does not exist.
        """
        build_options = [o for o in options.build_options if not o.startswith("--target")]
        run_options = [o for o in options.run_options if not _NAMED_USER.match(o)]
        absent, tag, logs = f"/{secrets.token_hex(16)}", f"{self.image}-0", []
        name = f"{NAME}-{self._run_id}-{next(self._numbers)}"
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "Dockerfile")
                with open(os.path.join(folder, "content"), "wb") as content:
                    content.writelines(os.urandom(SMOKE_TEST) for _ in range(0, size, SMOKE_TEST))
                for instruction in (f'RUN ["{absent}"]', "COPY content /"):
                    with open(path, "w", encoding="ascii") as file:
                        file.write(f"FROM scratch\n{instruction}\n")
                    logs.append(BuildLog(Console(None)))
                    code = self.build(logs[-1], tag, path, folder, build_options, RECOVERY_TIMEOUT)
            if code != 0:
                return f"it cannot build a minimal image: {printable(logs[1].final_error, 300)}"
            if logs[0].builder != "buildah" and f'exec: "{absent}"' not in logs[0].text():
                return f"it cannot run a program in a build: {printable(logs[0].final_error, 300)}"
            argv = ("run", "--detach", *with_defaults(_RUN_ARGS, run_options), "--entrypoint", absent)
            answer = self.call(*argv, "--name", name, tag, timeout=RECOVERY_TIMEOUT)
        finally:
            self.remove("container", name)
            self.remove("image", tag)
        if answer.returncode == 0 or absent in answer.stderr:  # 0 with --init
            return ""
        return f"it cannot start a minimal container: {printable(docker_error(answer.stderr), 300)}"

    def keep_image(self, name: str) -> str | None:
        """Give the image a tag of its own and return it; on failure a warning and None."""
        part = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "image"
        tag = f"{NAME}:{part}-{secrets.token_hex(6)}-kept"
        with contextlib.suppress(EvaluationError):
            if self.call("image", "tag", self.image, tag, cleanup=True).returncode == 0:
                return tag
        self.warnings.append("the image could not be kept (docker image tag failed)")
        return None

    def remove(self, kind: str, name: str, timeout: float = COMMAND_TIMEOUT) -> str:
        """Remove a "container" with its anonymous volumes, or an "image"; return the problem, or ""."""
        options = ("--force", "--volumes") if kind == "container" else ()
        answer = self.call(kind, "rm", *options, name, timeout=timeout, cleanup=True)
        self._pending.difference_update(answer.stdout.split())  # docker prints what it removed
        is_removed = answer.returncode == 0 or mentions(answer.stderr, _IS_REMOVED)
        return "" if is_removed else f"{kind} {name}: {printable(last_line(answer.stderr))}"

    def clean_up(self) -> None:
        """Remove this run's containers and images; what is left after CLEANUP_TIMEOUT is a warning."""
        started = time.monotonic()
        while self._run_id:
            left = self._remove_run(self._run_id, started + CLEANUP_TIMEOUT, self._lock)
            left += [f"container {name}: may still be created" for name in sorted(self._pending)]
            limit = CREATE_TIMEOUT if len(left) == len(self._pending) else CLEANUP_TIMEOUT
            if not left or time.monotonic() - started > limit or len(self.cancel.signals) > 1:
                self.warnings += [f"not removed: {problem}" for problem in left]
                break
            time.sleep(1.0)

    def _run(self, words: Sequence[str], limit: float, feed: Feed, *, cleanup: bool = False) -> int | None:
        """Run a docker command, pass on its output; return the exit code, None after `limit` seconds."""
        # A build can survive a killed evaluator and tag its image later: until then it holds the run's lock.
        fds = [self._lock.fileno()] if self._lock and words[0] == "build" else []
        with Process((self.options.docker, *words), self._environment, fds) as process:
            for stream, data in process.read():
                feed(stream, data)
                self.cancel.check(cleanup=cleanup)
                if process.elapsed() > limit + (OUTPUT_GRACE if stream else 0.0):
                    return None
            return process.wait(EXIT_TIMEOUT)

    def _run_argv(self, name: str, nonce: str, check: Check, *, keep: bool) -> tuple[str | bytes, ...]:
        defaults = _RUN_ARGS if check.command else (*_RUN_ARGS, "--network=none")
        options = (*(() if keep else ("--rm",)), *with_defaults(defaults, self.options.run_options))
        image = ("--entrypoint", "/bin/sh", "--name", name, self.image)
        arguments = (argument.encode() for argument in check.arguments)  # UTF-8 whatever the locale
        wrapper = ("-c", _WRAPPER.format(code=check.code), "/bin/sh", nonce)
        return (self.options.docker, "run", *options, *image, *wrapper, *arguments)

    def _remove_leftovers(self, now: float) -> None:
        """Remove what belongs to runs that were killed, and the lock files of runs that left nothing."""
        owned = {match["run"] for _, match in self._owned()}
        names = map(_OWNED.fullmatch, os.listdir(tempfile.gettempdir()))
        locked = {match["run"] for match in names if match and match[0].endswith(".lock")}
        for run_id in sorted((owned | locked) - {self._run_id}):
            with contextlib.suppress(OSError, ValueError):  # locked: the run is alive; or not readable
                lock = lock_run(run_id, "r") if run_id in locked else None  # None: no lock file here
                is_here = run_id in owned or (lock and lock.read() in ("", self._engine_id))
                if is_here and (lock or float(run_id.partition("-")[2]) < now):
                    left = self._remove_run(run_id, time.monotonic() + KILL_TIMEOUT, lock)
                    self.warnings += [f"leftover of a killed run: {problem}" for problem in left]

    def _remove_run(self, run_id: str, deadline: float, lock: IO[str] | None) -> list[str]:
        """Remove what belongs to a run, containers first, then its lock file; return what is left."""
        problems = []
        try:
            for kind, match in self._owned():
                if match["run"] == run_id:
                    timeout = min(max(deadline - time.monotonic(), POLL_INTERVAL), COMMAND_TIMEOUT)
                    problems.append(self.remove(kind, match[0], timeout))
        except EvaluationError as error:
            problems.append(f"{NAME}-{run_id}: {error}")
        if lock and not any(problems) and not self._pending:
            with contextlib.suppress(OSError):
                os.unlink(lock.name)
        return list(filter(None, problems))

    def _owned(self) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield kind and name of all containers and images of this program, of any run."""
        containers = ("ps", "--all", "--filter", f"name={NAME}-", "--format", "{{.Names}}")
        images = ("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", NAME)
        for kind, argv in (("container", containers), ("image", images)):
            answer = self.call(*argv, cleanup=True)
            if answer.returncode != 0:
                raise EvaluationError(f"docker {argv[0]}: {printable(last_line(answer.stderr))}", "engine")
            for match in map(_OWNED.fullmatch, answer.stdout.replace("localhost/", "").split()):  # podman's
                if match and (match[3] or kind == "image"):
                    yield kind, match


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object that docker printed, {} if there is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def docker_error(stderr: str) -> str:
    """Return docker's own error from the stderr of `docker run`."""
    lines = [line for line in stderr.splitlines() if line.startswith(("docker:", "Error:"))]
    text = (" ".join(lines) or last_line(stderr)).partition("See 'docker")[0]
    return text.split("Error response from daemon: ")[-1].split("start container process: ")[-1].strip()


def diagnose(docker: Docker, logs: Sequence[BuildLog] = ()) -> None:
    """Find the cause of a build that failed twice (`logs`) or timed out, or of a container that never ran.

    Raises EvaluationError: "engine", "usage" or "registry". If it returns, these causes are excluded.
    """
    docker.connect(RECOVERY_TIMEOUT)
    options, plain = docker.options, docker.options._replace(build_options=(), run_options=())
    size = LARGE_SMOKE_TEST if any(log.mentions_no_space for log in logs) else SMOKE_TEST
    problem = docker.smoke_test(size, options)
    if problem and (options.build_options or options.run_options) and not docker.smoke_test(size, plain):
        raise EvaluationError(f"docker refuses the options: with them {problem}", "usage")
    if problem:
        raise EvaluationError(f"the docker engine fails: {problem}", "engine")
    if not logs:
        return
    log = logs[-1]
    if not options.offline:
        ask_registry(docker, logs)
    if not log.builder and not docker.is_podman and re.search(r"(?im)^[ \t]*FROM\s", docker.dockerfile):
        raise EvaluationError(f"docker refuses the build context: {printable(log.final_error, 300)}", "usage")
    # A lost connection is no failed step; a truncated archive in ADD is one, with the same error.
    is_lost = all(not log.failed and _CONNECTION_LOST.fullmatch(log.final_error) for log in logs)
    if is_lost and not docker.is_podman:
        raise EvaluationError(f"the connection to the engine was lost twice: {log.final_error}", "engine")


def ask_registry(docker: Docker, logs: Sequence[BuildLog]) -> None:
    """Raise EvaluationError ("registry") if the registry of the missing image fails."""
    log = logs[-1]
    url = re.search(r"https?://([^/\s\"]+)/v2/", log.final_error)
    reference = re.match(r"([^/]*[.:$][^/]*|localhost)/", log.missing_image)
    host = url[1] if url else reference[1] if reference else "docker.io"
    host = "docker.io" if host.endswith(".docker.io") else host
    quoted = f"the build ended with: {printable(log.final_error, 300)}"
    broken = [_BROKEN_DOWNLOAD.match(log.vertex_error or log.final_error) for log in logs]
    if all(match and (match[2] or _IMAGE_STEP.match(log.step)) for match in broken):  # EOF: of any step
        raise EvaluationError(f"registry: a download of an image broke off twice; {quoted}", "registry")
    if not log.missing_image or host not in REGISTRIES.split():
        return
    token = secrets.token_hex(8)  # may contain "503"
    try:
        answer = docker.call("pull", f"{host}/library/{NAME}-{token}", timeout=RECOVERY_TIMEOUT).stderr
    except EvaluationError as error:
        docker.cancel.check()
        answer = str(error)
    is_private = host in ("gcr.io", "nvcr.io", "quay.io") and "unauthorized" in answer.lower()
    if _UNREACHABLE.search(answer.replace(token, "")) or not (is_private or mentions(answer, _NO_SUCH_IMAGE)):
        raise EvaluationError(f"registry {host}: {printable(last_line(answer), 300)}; {quoted}", "registry")


def build_image(docker: Docker, logs: list[BuildLog]) -> dict[str, Any]:
    """Build the image under test, twice if that may help; fill `logs`, return Docker.image_facts()."""
    options = docker.options
    arguments = (options.dockerfile, str(options.context), options.build_options, options.build_timeout)
    while True:
        logs.append(BuildLog(docker.console))
        log = logs[-1]
        code = docker.build(log, docker.image, *arguments)
        if log.builder == "legacy":
            check_builder(docker, log)
        if not code or log.is_permanent or len(logs) > 1:
            break
        docker.console.line(f"build failed, repeated once: {printable(log.final_error, 300)}")
        for _ in range(round(RETRY_DELAY / POLL_INTERVAL)):
            docker.cancel.check()
            time.sleep(POLL_INTERVAL)
        docker.connect(RECOVERY_TIMEOUT)
    if code is None or (code and not log.is_permanent):
        diagnose(docker, logs if code and code > 0 else ())  # no final error after a timeout or kill
    if code is None:
        step = f" in step '{printable(log.step, 100)}'" if log.step else ""
        raise EvaluationError(f"the build timed out after {options.build_timeout:g} s{step}", "build_timeout")
    if code < 0:
        raise EvaluationError(f"the docker program was killed during the build (signal {-code})", "engine")
    if code != 0:
        raise EvaluationError(failure_message(log, str(options.context)), "build")
    docker.connect(RECOVERY_TIMEOUT)  # the engine may have restarted since
    image = docker.image_facts()
    if not image:
        hint = "the builder did not load it, run `docker buildx use default` or unset BUILDX_BUILDER"
        raise EvaluationError(f"docker build succeeded, but the engine has no such image: {hint}", "engine")
    return image


def check_builder(docker: Docker, log: BuildLog) -> None:
    """Raise EvaluationError ("usage") if the legacy builder got a Dockerfile for BuildKit, or warn."""
    is_empty = "BUILDPLATFORM" in docker.dockerfile and log.final_error.startswith("failed to parse platform")
    lines = set(map(str.strip, docker.dockerfile.splitlines()))
    instructions = docker.dockerfile.replace("\\\n", "\\  ").splitlines()
    has_document = any(m["word"] in lines for m in map(_HERE_DOCUMENT.match, instructions) if m)
    if is_empty or has_document or _NEEDS_BUILDKIT.match(log.final_error):
        message = "this Dockerfile needs BuildKit, and this docker has none (install docker-buildx)"
        raise EvaluationError(message, "usage")
    if lines & {f"ARG TARGET{name}" for name in ("PLATFORM", "OS", "ARCH", "VARIANT")}:
        docker.warnings.append("ARG TARGET… is empty with the legacy builder (install docker-buildx)")


def failure_message(log: BuildLog, context: str) -> str:
    """Return docker's final error, the most informative line of the RUN's output, and hints."""
    message, output = printable(log.final_error, 400), log.run_output()
    if log.run_failure is not None:
        message += f": {printable(error_line(output)) or 'no output'}"
    elif _SOURCE_MISSING.search(log.final_error) and "--from=" not in log.step:
        ignore_file = os.path.join(context, ".dockerignore")
        ignored = f", without what {printable(ignore_file)} excludes" if os.path.exists(ignore_file) else ""
        message += f" (build context: {printable(context)}{ignored}; select another with --context DIR)"
    message += " (a Dockerfile needs a FROM line)" * ("no build stage in" in message)
    network = [m[0].strip() for m in _NETWORK_FAILURE.finditer(output) if m[0].strip() not in message]
    return f"{message} (the log also mentions: {printable(network[-1])})" if network else message


# ---------------------------------------------------------------------------------------------
# Report
# ---------------------------------------------------------------------------------------------

PASS_OUTPUT = 1024  # bytes kept of the output of a command that passed
NO_SCORE = ("engine", "registry", "usage", "interrupted")  # kinds of error that --resume repeats


def result_row(test: Test, result: Result, *, retried: bool = False) -> Row:
    """Return the report's row of a test."""
    passed, output = result.status == PASSED, Excerpt(PASS_OUTPUT // 2, PASS_OUTPUT // 2)
    output.feed(result.output.encode())
    return {
        "test_id": test.id,
        "test_type": test.type,
        "passed": passed,
        "score": test.score if passed else 0,
        "message": result.message,
        "execution_time": round(result.seconds, 3),
        "max_score": test.score,
        "status": result.status,
        "exit_code": result.exit_code if test.check.command else None,
        "timeout": test.timeout,
        "output": ((output.text() if passed else result.output) or None) if test.check.command else None,
        "category": test.category,
        "params": {key: value for key, value in test.params.items() if key[:1] not in ("_", "$")},
        "drawn": dict(test.check.drawn) or None,
        "retried": retried,
    }


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """Return counts, scores and times (seconds) of the rows."""

    def totals(rows: Sequence[Row]) -> dict[str, Any]:
        passed = sum(row["passed"] for row in rows)
        return {
            "total_tests": len(rows),
            "passed_tests": passed,
            "failed_tests": len(rows) - passed,
            "total_score": round(sum(row["score"] for row in rows), 9),  # 0.1 + 0.2 is 0.3
            "max_score": round(sum(row["max_score"] for row in rows), 9),
        }

    summary = totals(rows)
    summary["success_rate"] = summary["passed_tests"] / len(rows)
    summary["total_execution_time"] = round(sum(row["execution_time"] for row in rows), 3)
    names = dict.fromkeys(row["category"] for row in rows if row["category"] is not None)
    if names:
        groups = {name: [row for row in rows if row["category"] == name] for name in names}
        summary["by_category"] = {name: totals(group) for name, group in groups.items()}
    return summary


def score_line(report: Report) -> str:
    """Return counts and score in one line, with exact numbers."""
    summary, error = report["summary"], report["error"]
    if error and error["kind"] in NO_SCORE:
        return f"no score ({error['kind']} error)"
    score, max_score = summary["total_score"], summary["max_score"]
    passed = f"{summary['passed_tests']} of {summary['total_tests']} tests passed"
    share = f" ({percent(score, max_score)})" if max_score else ""
    return f"{passed}, score {score:.15g} of {max_score:.15g}{share}"


def as_junit(report: Report) -> str:
    """Return the report as JUnit XML, one testcase per test."""

    def xml_text(text: str) -> str:  # without the characters that XML 1.0 forbids (section 2.2)
        return re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)

    rows = report["test_results"]
    kinds = {PASSED: "", FAILED: "failure", TIMEOUT: "failure", SKIPPED: "skipped"}
    elements = [kinds.get(row["status"], "error") for row in rows]
    suite = ElementTree.Element("testsuite", name=xml_text(f"{report['repo']}: {report['dockerfile']}"))
    suite.attrib.update(tests=str(len(rows)), failures=str(elements.count("failure")))
    suite.attrib.update(errors=str(elements.count("error")), skipped=str(elements.count("skipped")))
    suite.attrib["time"] = str(report["summary"]["total_execution_time"])
    suite.attrib["timestamp"] = report["environment"]["started_at"][:19]
    for row, element in zip(rows, elements):
        case = ElementTree.SubElement(suite, "testcase", name=xml_text(row["test_id"]))
        case.attrib.update(classname=xml_text(f"{report['repo']}.{row['test_type']}"))
        case.attrib.update(time=str(row["execution_time"]))
        if element:
            ElementTree.SubElement(case, element, type=row["status"], message=xml_text(row["message"]))
        if row["output"]:
            ElementTree.SubElement(case, "system-out").text = xml_text(row["output"])
    if report["error"]:
        ElementTree.SubElement(suite, "system-out").text = xml_text(report["build"]["log"])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def as_markdown(report: Report) -> str:
    """Return the report as a Markdown table."""

    def escaped(text: object) -> str:  # CommonMark, backslash escapes
        return re.sub(r"([][\\`*_{}<>#~|!&:.@$^])", r"\\\1", printable(str(text), 300))

    lines = [f"### {escaped(report['repo'])}: {escaped(report['dockerfile'])}", "", score_line(report), ""]
    if report["error"]:
        lines += [f"**{report['error']['kind']}**: {escaped(report['error']['message'])}", ""]
    lines += ["| status | test | score | message | seconds |", "|---|---|---|---|---|"]
    for row in report["test_results"]:
        score = f"{row['score']:.15g}/{row['max_score']:.15g}"
        cells = (row["status"], row["test_id"], score, row["message"], row["execution_time"])
        lines.append(f"| {' | '.join(map(escaped, cells))} |")
    return "\n".join(lines) + "\n\n"


def check_writable(path: str) -> None:
    """Create the folders of an output file; raise EvaluationError if the file cannot be written."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
    is_file, existing = not os.path.isdir(target), target if os.path.exists(target) else folder
    if not is_file or not os.path.isdir(folder) or not os.access(existing, os.W_OK):
        raise EvaluationError(f"{path}: not a writable file, or not in a writable folder", "output")


def write_file(path: str, text: str, *, append: bool = False) -> None:
    """Replace a file atomically, or overwrite it where that is impossible (a bind mount, a device).

    The path "-" is stdout; `append` is not atomic. Raises EvaluationError if the file cannot be written.
    """
    target, data = os.path.realpath(path), text.encode(errors="backslashreplace")
    temporary = f"{target}.{secrets.token_hex(4)}.tmp"
    try:
        if path == "-":
            while data:
                data = data[os.write(1, data) :]
            return
        if not append and (os.path.isfile(target) or not os.path.exists(target)):
            try:
                with open(temporary, "wb") as file:
                    file.write(data)
                os.replace(temporary, target)
                return  # noqa: TRY300
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS):
                    raise  # such as a full disk: overwriting would lose what the file holds
        with open(target, "ab" if append else "wb") as file:
            file.write(data)
    except OSError as error:
        raise EvaluationError(f"{path}: cannot write: {error.strerror}", "output") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


# ---------------------------------------------------------------------------------------------
# Evaluation
# ---------------------------------------------------------------------------------------------

PARALLEL_PROBES = 4  # tests that run no command
_NO_CACHE = ("--no-cache", "--no-cache=true")
_LIMITS = ("offline", "build_timeout", "start_timeout")  # compared for a report on a failure
MAX_ERRORS = 2  # consecutive engine errors, after which the remaining tests are not run

# Options whose values are published in the report; all other values may be secrets.
_PUBLIC_OPTION = re.compile(
    "--(network|memory|memory-swap|cpus|cpuset-cpus|pids-limit|platform|target|user|group-add|workdir|gpus"
    "|shm-size|ulimit|pull|cap-add|cap-drop|security-opt|no-cache|init|privileged|read-only|runtime|ipc|device)="
)


class TestRunner:
    """Runs tests in dependency order, checks before commands; a run counts only with proof of completion."""

    def __init__(self, rubric: Rubric, docker: Docker) -> None:
        self.rows: dict[str, Row] = {}  # results by test id
        self.has_started = False  # any container of the image
        self.image_fault = ""  # the message of all tests if no container can be started
        self._rubric, self._docker, self._console = rubric, docker, docker.console
        self._errors = 0  # consecutive

    def run(self, jobs: int, parallel_probes: int) -> None:
        """Run all tests; after an interrupt or MAX_ERRORS engine errors, `rows` is incomplete."""
        for test in self._rubric.tests:
            if test.id in self._rubric.unresolvable:
                self._finish(test, Result(UNRESOLVABLE, self._rubric.unresolvable[test.id]))
        while not self._is_over():
            waiting = [test for test in self._rubric.tests if test.id not in self.rows]
            failed = {name for name, row in self.rows.items() if not row["passed"]}
            ready = [test for test in waiting if self.rows.keys() - failed >= set(test.requires)]
            skipped = [test for test in waiting if failed.intersection(test.requires)]
            for test in skipped:
                names = quoted_list(name for name in test.requires if name in failed)
                self._finish(test, Result(SKIPPED, f"requires {names}, which did not pass"))
            if not ready and not skipped:
                break
            probes = [test for test in ready if not test.check.command]
            # With one job, probes that a command makes ready run before the next command.
            wave = probes or (ready if jobs > 1 else ready[:1])
            for test in self._run_wave(wave, parallel_probes if probes else jobs):
                self._run_wave([test], 1, retry=True)

    def _run_wave(self, wave: Sequence[Test], limit: int, *, retry: bool = False) -> list[Test]:
        """Run tests, at most `limit` in parallel; return those without proof or late beside others."""
        waiting = collections.deque(wave)
        running: dict[futures.Future[Result], Test] = {}
        to_retry: list[Test] = []
        with futures.ThreadPoolExecutor(limit) as pool:
            try:
                while True:
                    while waiting and len(running) < limit and not self._is_over():
                        test = waiting.popleft()
                        self._console.running[test.id] = time.monotonic()
                        running[pool.submit(self._run_test, test, retry=retry)] = test
                    if not running:
                        return to_retry
                    for future in futures.wait(running, 0.5, futures.FIRST_COMPLETED).done:
                        test, result = running.pop(future), future.result()
                        was_alone = limit == 1 or len(wave) == 1
                        if result.status == INCONCLUSIVE or (result.status == TIMEOUT and not was_alone):
                            to_retry.append(test)
                            continue
                        self._errors = self._errors + 1 if result.status == ERROR else 0
                        self._finish(test, result, retried=retry)
                    self._console.tick()
            except KeyboardInterrupt:  # only in evaluate(): stop the threads as well
                self._docker.cancel.cancel()
                raise

    def _finish(self, test: Test, result: Result, *, retried: bool = False) -> None:
        self.rows[test.id] = row = result_row(test, result, retried=retried)
        self._console.finished(test, row, result.output)

    def _is_over(self) -> bool:
        return bool(self._docker.cancel.signals) or self._errors >= MAX_ERRORS

    def _run_test(self, test: Test, *, retry: bool) -> Result:
        """Run a test; without proof of completion return INCONCLUSIVE, after a retry FAILED or ERROR."""
        if self.image_fault:
            return Result(FAILED, self.image_fault)
        try:
            if retry:
                self._docker.connect(RECOVERY_TIMEOUT)
            run = self._docker.run_container(test.check, test.timeout, keep=retry)
            text, seconds = run.excerpt.text(), (run.ended_at - run.begun_at) * bool(run.begins)
            self.has_started = self.has_started or run.begins > 0
            if run.expired == "check":
                message = f"timed out after {test.timeout:g} s (container killed)"
                return Result(TIMEOUT, message, None, text, seconds)
            if not run.problem:
                passed, message = test.check.judge(run.statuses[0], run.found(), text)
                return Result(PASSED if passed else FAILED, message, run.statuses[0], text, seconds)
            if not retry:
                return Result(INCONCLUSIVE, run.problem)
            return Result(FAILED, self._image_problem(run), None, text, seconds)
        except EvaluationError as error:
            if error.kind in ("usage", "interrupted"):
                raise
            return Result(ERROR if retry else INCONCLUSIVE, str(error))

    def _image_problem(self, run: ContainerRun) -> str:
        """Return why the image is at fault; raise EvaluationError if the engine or an option is."""
        was_started = not str(run.state.get("StartedAt") or "0001").startswith("0001")  # year 1: never
        disagrees = was_started and (run.state.get("Running") or run.state.get("ExitCode") != run.code)
        is_lost = run.begins and not was_started
        if is_lost or (run.code is not None and (run.code < 0 or disagrees)):
            raise EvaluationError("the connection to the engine was lost, or docker was killed", "engine")
        preface = run.preface.text()
        if was_started:
            printed = "" if run.begins else printable(last_line(preface), 300)
            memory = "; the container ran out of memory" if run.state.get("OOMKilled") else ""
            return run.problem + (f": {printed}" if printed else "") + memory
        diagnose(self._docker)
        if not self._docker.image_facts():
            raise EvaluationError("the image was removed from the engine during the evaluation", "engine")
        reason = " ".join(docker_error(str(run.state.get("Error") or preface)).split())
        reason = printable(reason, 400) or f"no start within {self._docker.options.start_timeout:g} s"
        message = f"the container could not be started: {reason}"
        self.image_fault = "" if self.has_started else message
        return message


def checked(options: Options) -> Options:
    """Fill in rubric and context; raise ValueError for invalid arguments."""
    for name in ("build_timeout", "start_timeout"):
        if not is_number(getattr(options, name), 0) or not getattr(options, name):
            raise ValueError(f"{name} {getattr(options, name)!r}: expected a number of seconds over 0")
    if not is_number(options.jobs, 1, integer=True):
        raise ValueError(f"jobs {options.jobs!r}: expected an integer of at least 1")
    if options.resume and options.output in (None, "-"):
        raise ValueError("resume: needs an output file to resume from")
    if options.tests and (options.output or options.junit or options.markdown or options.resume):
        raise ValueError("--test: not with --output, --junit, --markdown or --resume")
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        raise ValueError("SIGCHLD is ignored, so the exit codes of docker are lost: set it to SIG_DFL")
    check_options("build", options.build_options)
    check_options("run", options.run_options)
    rubric = options.rubric or os.path.join("rubrics", f"{options.repo}.json")
    context = options.context or os.path.dirname(options.dockerfile) or "."
    files = [f for f in (options.dockerfile, rubric, options.output, options.junit, options.markdown) if f]
    for at, path in enumerate(files[2:], 2):
        if os.path.realpath(path) in map(os.path.realpath, files[:at]):
            raise ValueError(f"{path}: would overwrite another file of this evaluation")
    return options._replace(rubric=rubric, context=context)


def hide_value(option: str) -> str:
    """Return an option as the report publishes it: without a value that may be a secret."""
    flag = re.match("--[^=]+=|-[A-Za-z](?=.)", option)
    return option if not flag or _PUBLIC_OPTION.match(option) else f"{flag[0]}…"


def options_key(options: Options, salt: str) -> str | None:
    """Return a salted, slow hash of the options whose values are hidden; they may be short secrets."""
    hidden = [word for word in (*options.build_options, *options.run_options) if hide_value(word) != word]
    if not hidden:
        return None
    digest = hashlib.pbkdf2_hmac("sha256", json.dumps(hidden).encode(), salt.encode(), 200_000)
    return f"{salt}:{digest.hex()}"


def input_facts(options: Options) -> dict[str, Any]:
    """Return the inputs that --resume compares, besides `repo` and `options_key`."""
    facts: dict[str, Any] = {"context": options.context}
    for name, path in (("dockerfile", options.dockerfile), ("rubric", str(options.rubric))):
        facts[f"{name}_sha256"] = hashlib.sha256(read_file(path)).hexdigest()
    facts["build_options"] = [hide_value(o) for o in options.build_options if o not in _NO_CACHE]
    facts["run_options"] = [hide_value(o) for o in options.run_options]
    return facts


def matches(report: Any, dockerfile: str, repo: str, rubric: str | None = None, **options: Any) -> bool:
    """Return whether --resume would take a report for these inputs.

    `options` are evaluate()'s. Raises EvaluationError for an unreadable file, ValueError for bad arguments.
    """
    wanted = checked(Options(dockerfile, repo, rubric, **options))
    try:
        environment, error = report["environment"], report["error"]
        as_junit(report), score_line(report)  # these raise if the report is not complete
        key = environment["options_key"]
        is_scored = report["repo"] == repo and (not error or error["kind"] not in NO_SCORE)
        facts = input_facts(wanted)
        if error or environment["image_starts"] is False:
            facts.update({name: getattr(wanted, name) for name in _LIMITS if name in environment})
        is_same = all(environment[name] == value for name, value in facts.items())
        return is_scored and is_same and key == options_key(wanted, str(key).partition(":")[0])
    except (KeyError, TypeError, AttributeError, ValueError):
        return False


class Evaluation:
    """One evaluation; raises EvaluationError if there can be no report (an unusable file or output)."""

    def __init__(self, options: Options, console: Console, cancel: CancelToken) -> None:
        self._console, self._cancel = console, cancel
        rubric = load_rubric(str(options.rubric))
        self._rubric = select_tests(rubric, options.tests) if options.tests else rubric
        self._inputs = input_facts(options)
        if not os.path.isdir(str(options.context)):
            raise EvaluationError(f"{options.context}: no such folder for the build context (--context DIR)")
        for path in (options.output, options.junit, options.markdown):
            if path and path != "-":
                check_writable(path)
        self._options, self._started = options, datetime.datetime.now(datetime.timezone.utc)
        dockerfile = read_file(options.dockerfile).decode(errors="replace")
        options = options._replace(run_options=with_defaults(rubric.run_options, options.run_options))
        self._docker = Docker(options, dockerfile, cancel, console)
        self._runner = TestRunner(self._rubric, self._docker)
        self._logs: list[BuildLog] = []  # of the build's attempts
        self._image: dict[str, Any] = {}  # Docker.image_facts()
        self._build_seconds = 0.0
        self._error: dict[str, str] | None = None  # kind and message
        self._kept_image: str | None = None

    def run(self) -> Report:
        """Evaluate, clean up, write the reports; with `resume` return a report that exists already."""
        options = self._options
        earlier = self._earlier_report() if options.resume else None
        if earlier:
            self._console.line(f"resumed: {printable(str(options.output), 500)} already holds the report")
        report = earlier or self._new_report()
        try:
            if options.output and not earlier:
                text = json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)
                write_file(options.output, f"{text}\n")
            if options.junit:
                write_file(options.junit, as_junit(report))
            if options.markdown:
                write_file(options.markdown, as_markdown(report), append=True)
        except EvaluationError as error:
            error.report = report
            raise
        return report

    def _new_report(self) -> Report:
        try:
            self._evaluate()
        except (EvaluationError, OSError, ValueError) as error:  # such as no temporary folder
            self._error = {"kind": getattr(error, "kind", "engine"), "message": str(error)}
        finally:
            if self._cancel.signals:
                self._console.line("interrupted; cleaning up (interrupt again to stop waiting)")
            self._docker.clean_up()
        return self._report()

    def _evaluate(self) -> None:
        options, docker, console = self._options, self._docker, self._console
        console.line(f"building {printable(options.dockerfile)}")
        docker.connect()
        limits = sum(2 * (test.timeout + options.start_timeout) for test in self._rubric.tests)
        docker.start_run(2 * options.build_timeout + limits)
        docker.check_cli_options()
        try:
            self._image = build_image(docker, self._logs)
        finally:
            self._build_seconds = time.monotonic() - self._logs[0].started
            console.built(self._logs[-1], self._build_seconds, succeeded=bool(self._image))
        self._runner.run(options.jobs, min(PARALLEL_PROBES, docker.facts["engine_cpus"] or 1))
        for row in self._runner.rows.values():
            if row["status"] == ERROR:
                self._error = {"kind": "engine", "message": row["message"]}
        if len(self._runner.rows) < len(self._rubric.tests):
            self._cancel.check()
        if options.keep_image:
            self._kept_image = docker.keep_image(options.repo)

    def _report(self) -> Report:
        runner, why = self._runner, self._error["message"] if self._error else "interrupted"
        not_run = Result(NOT_RUN, f"not run: {why}")
        rows = [runner.rows.get(test.id) or result_row(test, not_run) for test in self._rubric.tests]
        options, docker = self._options, self._docker
        log = self._logs[-1] if self._logs else BuildLog(Console(None))
        if self._rubric.repo not in (None, options.repo):
            docker.warnings.append(f"the rubric is for '{self._rubric.repo}', not for '{options.repo}'")
        if self._image and self._image["image_platform"] != docker.facts["platform"]:
            docker.warnings.append(f"emulated: the image is for {self._image['image_platform']}")
        return {
            "repo": options.repo,
            "dockerfile": options.dockerfile,
            "rubric": options.rubric,
            "summary": summarize(rows),
            "test_results": rows,
            "build": {
                "succeeded": bool(self._image),
                "execution_time": round(self._build_seconds, 3),
                "message": "built" if self._image else why,
                "log": log.text(),
            },
            "error": self._error,
            "warnings": list(dict.fromkeys(docker.warnings)),
            "environment": {
                "evaluator_version": __version__,
                **docker.facts,
                "builder": log.builder or "unknown",
                **dict.fromkeys(("image_platform", "image_id", "image_size", "layers")),
                **self._image,
                "image_starts": runner.has_started or (False if runner.image_fault else None),
                "kept_image": self._kept_image,
                **self._inputs,
                "rubric_run_options": list(self._rubric.run_options),
                "options_key": options_key(options, secrets.token_hex(8)),
                "no_cache": any(option in _NO_CACHE for option in options.build_options),
                **{n: getattr(options, n) for n in ("offline", "jobs", "build_timeout", "start_timeout")},
                "started_at": self._started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            },
        }

    def _earlier_report(self) -> Report | None:
        """Return the report in the output file if it has a score for the same inputs."""
        try:
            report: Report = json.loads(read_file(str(self._options.output)))
        except (EvaluationError, ValueError, RecursionError):
            return None
        return report if matches(report, **self._options._asdict()) else None


def select_tests(rubric: Rubric, ids: Sequence[str]) -> Rubric:
    """Return the rubric with the tests `ids` and those they require; raise ValueError for an unknown id."""
    known, wanted = {test.id: test for test in rubric.tests}, list(ids)
    for name in wanted:  # extended below
        if name in known:
            wanted += [required for required in known[name].requires if required not in wanted]
        elif name in ids:
            raise ValueError(f"--test: no test '{printable(name, 60)}'{suggestion(name, known)}")
    return rubric._replace(tests=tuple(test for test in rubric.tests if test.id in wanted))


def evaluate(
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
    start_timeout: float = START_TIMEOUT,
    docker: str = "docker",
    offline: bool = False,
    junit: str | None = None,
    markdown: str | None = None,
    keep_image: bool = False,
    resume: bool = False,
    verbose: bool = False,
) -> Report:
    """Build `dockerfile`, run the tests of `rubric` in its image, return (and write) the report.

    The arguments are those of the command line, timeouts in seconds. Nothing is printed (`verbose` has no
    effect), no signal handler is installed, several threads may call this. Raises EvaluationError if there is
    no report or it cannot be written, ValueError for bad arguments, KeyboardInterrupt after clean-up.
    """
    arguments = {name: os.fspath(v) if isinstance(v, os.PathLike) else v for name, v in locals().items()}
    return Evaluation(checked(Options(**arguments)), Console(None), CancelToken()).run()


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------

SHOWN_LINES = 20  # of a failed build's log, and of a test's output with --verbose
COLORS = {PASSED: 32, FAILED: 31, TIMEOUT: 31, ERROR: 31, SKIPPED: 33, UNRESOLVABLE: 33}


class Console:
    """Prints progress and the summary; on a terminal with a status line; without a stream nothing."""

    def __init__(self, stream: TextIO | None, *, verbose: bool = False) -> None:
        self._stream, self._verbose = stream, verbose
        self._is_terminal = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
        self.running: dict[str, float] = {}  # the build step or the tests, and when they began
        self._drawn_at = 0.0  # the status line, 0 if there is none

    def line(self, text: str) -> None:
        """Print a line in place of the status line."""
        clear, self._drawn_at = "\r\x1b[K" if self._drawn_at else "", 0.0
        self._write(f"{clear}{text}\n")

    def tick(self) -> None:
        """Redraw the status line, at most twice a second; called from all loops that wait."""
        now = time.monotonic()
        if self._is_terminal and self.running and now - self._drawn_at > 0.5:  # noqa: PLR2004
            running = (f"{printable(name, 50)} {now - since:.0f} s" for name, since in self.running.items())
            self._write(f"\r\x1b[K{', '.join(running)[: shutil.get_terminal_size().columns - 1]}")
            self._drawn_at = now

    def build_line(self, line: str, *, is_step: bool) -> None:
        """Show a build step, or with --verbose every line."""
        if is_step:
            self.running = {line: time.monotonic()}
        if self._verbose or is_step:
            self._quote(line)

    def built(self, log: BuildLog, seconds: float, *, succeeded: bool) -> None:
        """Show how a build ended, and the end of its log if it failed."""
        self.running.clear()
        self._quote(*(() if succeeded or self._verbose else log.text().splitlines()[-SHOWN_LINES:]))
        self.line(f"{'built' if succeeded else 'build failed'} ({log.builder or 'unknown'}, {seconds:.1f} s)")

    def finished(self, test: Test, row: Row, output: str) -> None:
        """Show the result of a test."""
        self.running.pop(test.id, None)
        status, score = f"{row['status']:<7}", f"{row['score']:.15g}/{row['max_score']:.15g}"
        if self._is_terminal and not os.environ.get("NO_COLOR"):
            status = f"\x1b[{COLORS[row['status']]}m{status}\x1b[0m"
        name, message = printable(test.id, 40), printable(row["message"], 300)
        self.line(f"{status}  {name:<24}  {score:>5}  {message}  ({row['execution_time']:.1f} s)")
        if self._verbose and test.check.command and row["status"] in (PASSED, FAILED, TIMEOUT):
            code = () if row["exit_code"] is None else (f"exit code {row['exit_code']}",)
            self._quote(f"$ {test.check.command}", *output.splitlines()[-SHOWN_LINES:], *code)

    def summary(self, report: Report, docker: str) -> None:
        """Print failures, warnings, the kept image and the score."""
        facts = report["environment"]
        image, options = facts["kept_image"], facts["rubric_run_options"] + facts["run_options"]
        run = " ".join(map(shlex.quote, (docker, "run", "--rm", *options, "--entrypoint")))
        for row in report["test_results"]:
            if row["status"] in (FAILED, TIMEOUT, UNRESOLVABLE, ERROR):
                name, message = printable(row["test_id"], 60), printable(row["message"], 300)
                self.line(f"{row['status']}: {name}: {message}")
                if image and "command" in row["params"]:
                    command = fill(row["params"]["command"], row["drawn"] or {})
                    words = (row["params"].get("shell") or "/bin/sh", image, "-c", command)
                    self.line(f"  {run} {printable(' '.join(map(shlex.quote, words)), 2000)}")
        for warning in report["warnings"]:
            self.line(f"warning: {printable(warning, 500)}")
        if image:
            self.line(f"image kept: {image}")
        counts = collections.Counter(row["status"].replace("_", " ") for row in report["test_results"])
        others = [f", {counts[status]} {status}" for status in ("skipped", "not run") if counts[status]]
        self.line(f"{score_line(report)}{''.join(others)}")

    def _quote(self, *lines: str) -> None:
        for line in lines:
            self.line(f"  | {printable(line, 500)}")

    def _write(self, text: str) -> None:
        try:
            if self._stream:
                self._stream.write(text)
                self._stream.flush()
        except (OSError, ValueError):  # broken pipe or full disk: continue without output
            with contextlib.suppress(OSError, ValueError):  # what is buffered is written at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno() if self._stream else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        usage="DockerfileEvaluator.py --dockerfile FILE --repo NAME [--rubric FILE] [OPTION]…",
        description="Build a Dockerfile, test the image against a JSON rubric, write a JSON report.",
        epilog="Example: --run-option=--memory=2g\nExit codes: 0 passed; 1 not passed; 2 usage; 130 Ctrl-C",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--dockerfile", metavar="FILE", help="the Dockerfile to score")
    add("--repo", metavar="NAME", help="recorded in the report, selects the default rubric")
    add("--rubric", metavar="FILE", help="default: rubrics/NAME.json")
    add("--output", metavar="FILE", help="JSON report; - for stdout")
    add("--verbose", action="store_true", help="show the build log, and each test's command and output")
    add("--context", metavar="DIR", help="build context (default: the folder of the Dockerfile)")
    add("--build-timeout", metavar="S", type=float, default=BUILD_TIMEOUT, help="seconds (default: 3600)")
    add("--start-timeout", metavar="S", type=float, default=START_TIMEOUT, help="seconds (default: 120)")
    add("--jobs", metavar="N", type=int, default=1, help="commands to run in parallel (default: 1)")
    for step in ("build", "run"):
        text = f"an argument of docker {step}; repeatable"
        add(f"--{step}-option", dest=f"{step}_options", metavar="OPT", action="append", default=[], help=text)
    add("--docker", metavar="PROGRAM", default="docker", help="docker-compatible CLI (default: docker)")
    add("--junit", metavar="FILE", help="JUnit XML report")
    add("--markdown", metavar="FILE", help="append a Markdown table")
    add("--keep-image", action="store_true", help="keep the image and print its tag")
    add("--offline", action="store_true", help="count a missing base image as a failed build")
    add("--test", dest="tests", metavar="ID", action="append", default=[], help="run only this test")
    add("--resume", action="store_true", help="evaluate nothing if --output has a score for the same inputs")
    add("--check", action="store_true", help="validate the rubric only")
    add("--version", action="version", version=f"DockerfileEvaluator {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    missing = [f"--{name}" for name in ("dockerfile", "repo") if not getattr(arguments, name)]
    is_check = vars(arguments).pop("check")
    if missing and not (is_check and (arguments.rubric or arguments.repo)):
        parser.error(f"the following arguments are required: {', '.join(missing)}")
    arguments.output = "-" if arguments.output == "/dev/stdout" else arguments.output
    options = Options(**vars(arguments))
    for stream in (sys.stdout, sys.stderr):  # None if it is closed
        getattr(stream, "reconfigure", dict)(errors="backslashreplace")
    console = Console(sys.stderr if options.output == "-" else sys.stdout, verbose=options.verbose)
    cancel, report, problem = CancelToken(), None, ""
    written = [options.output, options.junit, options.markdown]
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or every exit code would be lost
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, cancel.cancel)
    try:
        if is_check:
            rubric = load_rubric(options.rubric or os.path.join("rubrics", f"{options.repo}.json"))
            for name, reason in rubric.unresolvable.items():
                console.line(f"error: test '{printable(name, 60)}' can never run: it {reason}")
            console.line(f"{len(rubric.tests)} tests, {'invalid' if rubric.unresolvable else 'valid'}")
            return 1 if rubric.unresolvable else 0
        report = Evaluation(checked(options), console, cancel).run()
        problem = report["error"]["message"] if report["error"] else ""
    except ValueError as error:
        parser.error(str(error))
    except (EvaluationError, OSError) as error:  # OSError: the current folder was deleted
        report, problem, written = getattr(error, "report", None), str(error), []
    if report:
        console.summary(report, options.docker)
    for path in filter(None, written):
        console.line(f"report: {printable(path, 500)}")
    for line in problem.splitlines():
        Console(sys.stderr).line(f"error: {printable(line, 2000)}")
    if report and report["error"] and report["error"]["kind"] == "interrupted" and cancel.signals:
        return 128 + cancel.signals[0]
    return 1 if problem or not report or report["summary"]["failed_tests"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
