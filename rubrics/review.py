#!/usr/bin/env python3
"""Is a rubric any good? Read it, and measure what it gives away.

    python3 rubrics/review.py RUBRIC... [--strict]
    python3 rubrics/review.py RUBRIC... --base IMAGE [--context DIR] [--solution DOCKERFILE] [--repeat N]

Reading warns of tests that mean nothing, or not what they appear to. Measuring evaluates the rubric
on images that a stranger could build without doing the work (bare: the base alone; copied: and the
project's files; faked: stubs of all that the rubric names) and on one that does it (solution), every
test by itself.

    paths -> read -> Reading -> measure -> the review, one dict -> text, JSON, Markdown -> exit code

In the paths of --context, --solution and --solution-context {repo} stands for the name of each rubric's
file. Exit codes: 0; 1 a rubric was refused or could not be measured; with --strict also for any warning, a
test that is unsolved or flaky, and where the bare image gets more than a tenth of the points, the copied
one more than a third or the faked one more than a half; 2 wrong usage; 130 Ctrl-C (143 SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import functools
import io
import json
import math
import os
import posixpath
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import DockerfileEvaluator as de

SHORT_NEEDLE = 2  # characters
LONGEST_END = 1000  # characters of a command's last part that are read
SHORT_TIMEOUT = 1.0  # seconds
SYNTAX_LIMIT = 10.0  # seconds for one `sh -n`
SHELLS = 4  # `sh -n` at a time
JOBS = 4  # of every second time that the solution is measured
IMAGES = ("bare", "copied", "faked", "solution")
# The share of the points that an image may get at most.
MOST = {"bare": (1 / 10, "a tenth"), "copied": (1 / 3, "a third"), "faked": (1 / 2, "a half")}
KINDS = ("free", "faked", "given", "unsolved", "flaky", "no-syntax")  # of rows, in their order


class ReviewError(Exception):
    """A rubric could not be measured; the text says why."""


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


# ---------------------------------------------------------------------------------------------
# Reading: simple rules on the text; no parser of the shell
# ---------------------------------------------------------------------------------------------

# What decides no exit code: the first kind is read as blanks, what is quoted as a word.
_HIDDEN = r"""(?sx)
    (?P<blank> \\\n                                             # a line that goes on
      | (?<![^\s;&|(]) \# [^\n]*                                # a comment
      | [0-9&]? >>? \s* (?: /dev/null (?![\w./-]) | &[0-9] )    # a redirection that cannot fail
    )
    | \\. | '[^']*'
    | "(?: \\. | \$\([^()]*\) | \$(?!\([^()]*\)) | [^"\\$] )*"   # "$(x "y")" is one
"""
_SUBSTITUTION = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")
_OPERATOR = re.compile(r"(\|\||&&|[|;&\n])")
_GOES_ON = re.compile(r"(\|\||&&|\|)\s+")  # a line that ends in one of these does, too
# Where a command begins: after an operator or a word of the shell, and VAR=1.
_START = r"(?:^|[;&|\n({!]|\b(?:then|do|else|if|elif|while|until)\s)[ \t]*(?:\w+=[^\s;&|]*[ \t]+)*"
# What succeeds on any image; but `>FILE` may fail, and so may what _MAY_FAIL finds.
_ALWAYS = re.compile(r"true|:|exit\s+0|(?:(?:echo|printf)(?![\w.-])|rm\s+(?:-\w+\s+)*-[a-zA-Z]*f)[^<>()]*")
_MAY_FAIL = re.compile(r"""^printf\s+["']?[$-]|^printf\s.*(?<!%)(?:%%)*%(?![sb%])""", re.DOTALL)
# What reads to its end, and succeeds whatever the program before it did. With a FILE it may fail.
_FILTER = r"""(?sx)
    (?:/usr)? (?:/bin/)?
    (?: (?:wc|cat) (?: \s+ -\S* )*
      | (?:head|tail) (?: \s+ (?: -\S+ | \+?\d+ ) )*
      | (?:sort|uniq|cut) (?: \s+ -[a-zA-Z] \s+ [^\s-]\S* | \s+ -\S+ )*
      | (?:tee|tr) (?: \s .* )?
      | sed \s (?! .* [qQ]\s*[0-9] ) .*                         # but `sed /x/q1` tests something,
      | awk \s (?! .* \bEND\b .* \bexit\b | '\{\s*exit\s+[1-9] ) .*  # and so does `awk 'END {exit NR < 3}'`
    )
    (?: \s* [0-9]? >>? \s* [^\s&]\S* )* [\s)}]*
"""
# What may end the shell before its command ends.
_ENDS_EARLY = rf"""(?sx)
    (?<![\w.-]) (?: exit | return | errexit | nounset | until | while \s+ ! ) (?![\w.-])  # a loop may not end
    | \bset \s+ (?:-\w+\s+)* -\w*[eu]                           # set -e, set -eu
    | {_START} (?:
        (?: \. | exec | eval | shift | trap | pkill | killall ) \s      # dash ends where `. FILE` finds none,
      | (?: : | (?:export|readonly|set|unset)\b ) [^;&|\n(){{}}]{{0,200}} [<>]   # and `: > FILE` cannot write
      | kill \b (?! (?: \s+ -\w+ )* (?: \s+ \$ (?!PPID) (?:!|\w+) )+ \s* (?:[;&|\n)}}]|$) )   # perhaps itself
    )
"""
# A command that only hands another one on: bash -lc '…', timeout 60 sh -c "…".
_HANDED_ON = r"""(?sx)
    \s* (?:timeout \s+ \S+ \s+)? (?:/\S*/)? (?:ba|da|z)?sh \s+ (?:-[li]+\s+)* -[li]*c \s+
    (?: '(?P<plain>[^']*)' | "(?P<escaped>(?:\\.|[^"\\])*)" ) \s*
"""
_ECHO = re.compile(r"(?:^|[;&|\n({]|\b(?:then|do|else)\s)[ \t]{0,9}(echo\s[^;&|<>()\n]*)")
_STRING = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_SERVER = r"""(?sx)
    ^ (?: \w+=\S* \s+ )*
    (?: (?: \S*python[\d.]* \s+ -m \s+ )? (?: http\.server | uvicorn | gunicorn | flask \s .*\b run ) \b
      | php \s+ -S \b | streamlit \s+ run \b | redis-server | tail \s+ -[fF] | sleep \s+ infinity
    ) (?: \s | $ ) (?! .* (?: -[hvD]\b | --(?:help|version|check|daemon|pid) ) )
"""
_INSTALLS = r"""(?sx)
    ^ (?: \S*python[\d.]* \s+ -m \s+ )?
    (?: (?:pip[\d.]*|npm|yarn|poetry|bundle|apt(?:-get)?(?:\s+-\S+)*) \s+ (?:install|update|i|ci)
      | git \s+ clone | mkdir | touch )  (?: \s | $ ) (?! .* (?:--dry-run|--help) )
"""

# Each row: a warning, the kind of texts that it looks at (see _texts), what it finds in one, the sentence.
# fmt: off
RULES = (
    ("unresolvable", "unresolvable", "", "{text}, so this can never run; require other tests"),
    ("short-timeout", "timeout", "", "{text} is short enough to fail on a busy machine; give at least 1 s"),
    ("no-points", "score", "", "0: whether it passes changes no score"),
    ("literal-path", "path", r"^~|\*|\$(?![\w$]*\.class$)",  # but Outer$Inner.class
     "'{found}' in {texts} stands for itself, as nothing expands a path; write it out, or use run_command"),
    ("set-by-docker", "variable", "^(?:PATH|HOME|HOSTNAME)$",
     "docker itself sets {text} in every container, so any image passes; ask for what the image should set"),
    ("literal-name", "name", r"\s",
     "{texts} has a space, and is looked for as one name; write the name alone"),
    ("no-syntax", "syntax", "",
     "sh does not accept it ({text}), so it cannot run to its end; try it in a shell"),
    ("never-ends", "server", _SERVER,
     "'{text}' runs until it is stopped, so this can only time out; start it with '&', and ask it in one go"),
    ("lost-state", "state", "",
     "'{text}' changes its own shell alone, and the next test has another; join it to that with '&&'"),
    ("lost-state", "made", _INSTALLS,
     "what '{text}' makes is gone when the tests that require it run; leave it to the Dockerfile"),
    ("bash-only", "for sh", rf"{_START}(?P<word>\[\[|source)\s",
     "dash, Debian's /bin/sh, has no '{word}'; write '[' or '.', or \"shell\": \"/bin/bash\""),
    ("echo-escape", "echo", "",
     "dash {text} echo, bash does not; use printf '%s\\n' for text as it stands, '%b' for escapes"),
    ("literal-needle", "needle", r"^(?!import\ ).*(?:\.[*+]|\\[.dsw]|\[(?:0-9|a-z|A-Z))",
     "{texts}: strings are looked for as they stand, not as patterns; write what the text holds"),
    ("short-needle", "needle", f"^.{{1,{SHORT_NEEDLE}}}$",
     "{texts}: so short a string is in many texts ('8' in '17.0.18'); write more of what is meant"),
)
# fmt: on


def _texts(test: de.Test, error: str, reason: str, *, required: bool) -> dict[str, list[tuple[str, str]]]:
    """Return place and text of all that the table of rules looks at, by kind; an empty text is none."""
    params, draw, command = test.params, test.check.draw, test.params.get("command", "")
    shell = params.get("shell", "/bin/sh")
    outline = _outline(command) if shell == "/bin/sh" else ""
    parts = _parts(_handed(command)) if shell.endswith("sh") and not error else [""]
    stay = [part for part in parts if not re.match(r"(?:cd|export|source|\.)\s", part)]
    names = "params.names" if "names" in params else "params.name"
    paths = [(f"params.paths[{at}]", path) for at, path in enumerate(params.get("paths", ()))]
    needles = [draw.shortest(text) if draw else text for text in params.get("contains", ())]
    return {
        "unresolvable": [("requires", reason)],
        "timeout": [("timeout", f"{test.timeout:g} s" if test.timeout < SHORT_TIMEOUT else "")],
        "score": [("score", "0" if test.score == 0 else "")],
        "path": [*paths, ("params.path", params.get("path", ""))],
        "variable": [("params.name", params["name"] if test.type == "envvar_set" else "")],
        "name": [(names, name) for name in params.get("names") or [params.get("name", "")]],
        "syntax": [("params.command", error)],
        "server": [("params.command", parts[-1])],
        "state": [("params.command", "" if stay else _handed(command).strip())],
        "made": [("params.command", part) for part in stay[-1:] if required],
        "for sh": [("params.command", "" if "<<" in outline else outline)],
        "echo": [("params.command", does) for does in (_echo(command) if shell == "/bin/sh" else ())],
        "needle": [("params.contains", text) for text in needles],
    }


def _echo(command: str) -> Iterator[str]:
    """Yield what dash, the /bin/sh of Debian and Ubuntu, does with the words of an echo, unlike bash."""
    for match in _ECHO.finditer(_outline(command)):
        text = command[match.start(1) : match.end(1)]
        option = re.match(r"echo\s+(-n?en?)\s", text)
        strings = " ".join(string for string in _STRING.findall(text) if not re.search(r"\$\(|`", string))
        escapes = [f"expands '{escape}' in" for escape in re.findall(r"\\[abcfnrtv0]", strings)]
        yield from ([f"prints the '{option[1]}' of"] if option else escapes)[:1]


def _outline(command: str) -> str:
    """Return a command, each character in its place, with comments blank and quoted text a word."""
    text = re.sub(_HIDDEN, lambda match: (" " if match["blank"] else "x") * len(match[0]), command)
    for _ in range(2):  # one inside another
        text = _SUBSTITUTION.sub(lambda match: "x" * len(match[0]), text)
    return _GOES_ON.sub(lambda match: match[1].ljust(len(match[0])), text)


def _handed(command: str) -> str:
    """Return what a command hands on to a shell (bash -lc '…'), else the command."""
    match = re.fullmatch(_HANDED_ON, command)
    return match["plain"] or re.sub(r'\\(["\\$`])', r"\1", match["escaped"] or "") if match else command


def _parts(command: str) -> list[str]:
    """Return the parts of a command that run one after the other, [""] where it is anything else."""
    parts = _OPERATOR.split(_outline(command).strip(" \t\n;"))
    other = re.search(r"(?<![\w./-])(?:if|case|for|while|until|trap|kill|ulimit)\s|[(){}]", "".join(parts))
    return [""] if other or set(parts[1::2]) - {"&&", ";", "\n"} else [part.strip() for part in parts[::2]]


def _end_warnings(command: str, params: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Warn of a command whose end decides its exit code, whatever else it does."""
    expected, needles = params.get("exit_code", 0), params.get("contains", [])
    if expected == "any":
        if not needles:
            yield "cannot-fail", "params.exit_code", "'any' lets every exit code pass; name one"
        return
    command = re.sub(_HIDDEN, lambda match: " " * len(match[0]) if match["blank"] else match[0], command)
    # The last operator and what follows it, and the pipeline before it; as written, and in outline.
    outline = _outline(command).rstrip(" \t\n;")
    *before, last = _OPERATOR.split(outline)
    operator = before.pop() if before else ""
    end = command[len(outline) - len(last) : len(outline)].strip()
    first, last = "".join(before), last.strip()
    pipeline = re.split(r"\|\||&&|[;&\n]", first)[-1]
    source = command[len(first) - len(pipeline) : len(first)].strip(" \t\n({")
    if source in ("}", "done", "fi", "esac"):  # the end of a whole list
        source = command[: len(first)].strip()
    if operator == "|":
        read = end if re.match(r"\S*(?:sed|awk)\s", end) else last
        hides = re.fullmatch(_FILTER, read[:LONGEST_END]) and not _ALWAYS.fullmatch(pipeline.strip())
        if hides and not source.startswith("!") and "pipefail" not in command:
            end, source = de.shown(end.rstrip(" )}"), 60), de.shown(source, 60)
            says = f"the exit code is that of '| {end}', so '{source}' may fail unseen; "
            if not re.search(r"(?s)^(?:find|ls)\s|\|\ \S*awk\s.*\bexit\b", f"{source}| {end}"):
                says += "leave that out (a report keeps output short), or "
            yield "hidden-status", "params.command", says + "end in a test of what it prints"
    elif operator == "&&" or re.search(_ENDS_EARLY, first) or re.search(r"\$\{\w+:?\?|\$\(\(", command):
        return  # ${NAME:?} and $((1 / n)) end the shell, also in quotes
    elif operator == "&" and not end:
        yield "cannot-fail", "params.command", _says_always("ends in '&'", expected, bool(needles))
    elif _ALWAYS.fullmatch(last) and not _MAY_FAIL.search(end):
        if needles and operator != "||" and re.search(r"[$`]", end):
            return  # `cd x; echo $PATH`: what it prints is the test
        words = de.shown(f"{operator.strip() or ';'} {end}" if operator else end, 60)
        what = f"ends in '{words}'" if operator else f"'{words}' tests nothing"
        printed = all if params.get("match") == "all" else any
        strings_decide = bool(needles) and not printed(text in end for text in needles)
        yield "cannot-fail", "params.command", _says_always(what, expected, strings_decide)


def _says_always(what: str, expected: int, strings_decide: bool) -> str:  # noqa: FBT001
    advice = "leave the ending out" if what.startswith("ends") else "test something of the image"
    says = f"so this passes on any image; {advice}"
    if expected:
        says = f"never {expected}, so this cannot pass"
    elif strings_decide:
        says = f'and only the strings decide; {advice}, or write "exit_code": "any" if that is meant'
    return f"{what}: the exit code is always 0, {says}"


def syntax_error(command: str) -> str:
    """Return what the host's `sh -n`, which runs nothing, says against a command; "" if it takes it."""
    try:  # fed on stdin, since a command may begin like an option
        run: Any = functools.partial(subprocess.run, env={**os.environ, "LC_ALL": "C"}, timeout=SYNTAX_LIMIT)
        done = run(["sh", "-n"], input=command.encode(), capture_output=True)
    except (OSError, subprocess.TimeoutExpired):
        return ""  # no shell, or one that is lost in the text: no word against it
    first = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    return re.sub(r"^\S*sh: (?:line )?\d+: ", "", first) if done.returncode else ""


def read(path: str) -> Reading:
    """Read a rubric, with all that is doubtful about it; raise EvaluationError where it is refused."""
    rubric = de.load_rubric(path)
    text = "missing; reports and readers cannot tell whose rubric this is"
    warnings = [] if rubric.repo else [RubricWarning("no-repo", "repo", text, None)]
    reasons = de.unresolvable(rubric.tests)
    required = {name for test in rubric.tests for name in test.requires}
    with ThreadPoolExecutor(SHELLS) as pool:
        commands = [getattr(t.check, "command", "") if "shell" not in t.params else "" for t in rubric.tests]
        errors = list(pool.map(lambda command: command and syntax_error(command), commands))
    for at, (test, error) in enumerate(zip(rubric.tests, errors)):
        texts = _texts(test, error, reasons.get(test.id, ""), required=test.id in required)
        found = []
        for name, kind, pattern, says in RULES:
            matches = ((place, re.search(pattern, text)) for place, text in texts[kind] if text)
            wrong = [(place, match) for place, match in matches if match]
            for place, one in wrong[:1]:
                words = {"text": de.shown(one.string, 120), "texts": de.listed([m.string for _, m in wrong])}
                found.append((name, place, says.format(found=one[0], **words, **one.groupdict())))
        if "command" in test.params and test.params.get("shell", "/bin/sh").endswith("sh") and not error:
            found += _end_warnings(_handed(test.params["command"]), test.params)
        start, end = f"tests[{at}].", f" '{de.shown(test.id, 60)}'"
        warnings += [RubricWarning(name, start + place + end, says, test.id) for name, place, says in found]
    return Reading(rubric, warnings)


# ---------------------------------------------------------------------------------------------
# Measuring, and what a cheat brings who knows the rubric and does none of the work
# ---------------------------------------------------------------------------------------------

STUB = "/usr/local/stub"  # the one script; all else is a link to it
PROGRAMS = "/usr/local/bin"  # first in PATH, of a login shell, too
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # where a base has none
LONGEST_NAME, LONGEST_PATH = 255, 1000  # bytes of a name, characters of a path
# What docker, the base's own shell and the reading of files need as it is.
_VITAL = r"""(?sx)
    (?: /usr )? (?: /s?bin | /lib(?:64|32)? ) (?: / (?:[\w.-]+-linux-\w+/)?
      (?: (?:ba|da|a|k|z)?sh | busybox | cat | ld-.* | lib(?:c|m|tinfo|dl)\.so.* ) )?
    | /(?:proc|sys|dev)(?:/.*)? | /(?:usr|etc|var|root|tmp)? | /etc/(?:passwd|group)
"""
# What a command names: words that could be programs, paths, folders, files, variables.
_WORD = re.compile(r"(?<![\w.+/-])[\w.+][\w.+-]*")
_PATH = re.compile(r"(?<![\w:/.+}$@~-])(?:[\w.@+~-]*/)+[\w.@+~-]*")
_MADE = re.compile(r">\s*[\"']?([\w.@+~/-]+)")  # by the command itself, which would write into the stub
_FOLDER = re.compile(r"(?:\bcd|\s-[dC])\s+[\"']?([\w.@+~/-]+)")
_FILE = re.compile(r"(?:\s-[fesrx]\s+|<\s*)[\"']?([\w.@+~/-]+)")
_VARIABLE = re.compile(r"\$\{?((?!PATH\b|HOME\b|HOSTNAME\b|PWD\b|OLDPWD\b|IFS\b)[A-Z_][A-Z0-9_]+)")


def _asked_for(tests: Sequence[de.Test], workdir: str) -> tuple[list[str], list[str]]:
    """Return the files and the variables that tests name; commands are files, and a folder is its `.stub`."""
    asked, named, made, variables = {"./.stub"}, set(), set(), set()
    for test in tests:
        params, command = test.params, test.params.get("command", "")
        names = {*params.get("names", ()), params.get("name", "./"), *_WORD.findall(command)}
        paths, moves = {*_PATH.findall(command), *_FILE.findall(command)}, _FOLDER.findall(command)
        moves += params["paths"] if test.type == "dirs_exist" else []
        asked |= {f"{folder}/.stub" for folder in moves}
        named |= {name if "/" in name else f"{PROGRAMS}/{name}" for name in names}
        named |= {f"{start}{path}" for path in paths for start in ("", *(f"{move}/" for move in moves))}
        asked |= {*params.get("paths", ()), params.get("path", ".")}
        made |= {*_MADE.findall(command)}
        variables |= {*_VARIABLE.findall(command), params["name"] if test.type == "envvar_set" else "PATH"}

    def absolute(names: Iterable[str]) -> set[str]:
        paths = {"/" + posixpath.normpath(posixpath.join(workdir, name)).lstrip("/") for name in names}
        fit = (path for path in paths if len(path) <= LONGEST_PATH and not re.fullmatch(_VITAL, path))
        return {path for path in fit if max(map(len, path.encode().split(b"/"))) <= LONGEST_NAME}

    files = absolute(asked) | (absolute(named) - absolute(made))
    parts = [path.split("/") for path in files]
    folders = {"/".join(names[:at]) for names in parts for at in range(len(names))}
    return sorted(files - folders - {STUB}), sorted(variables - {"PATH"})


def write_faked(folder: str, tests: Sequence[de.Test], start: str, workdir: str) -> str:
    """Write the context of the faked image, and return its Dockerfile; the same for the same tests."""
    files, variables = _asked_for(tests, workdir)
    strings = list(dict.fromkeys(text for test in tests for text in test.params.get("contains", ())))
    # It prints the strings, and holds them where it stands for a file.
    lines = ["#!/bin/sh", f"printf '%s\\n' {' '.join(map(shlex.quote, strings))}", "exit 0", *strings, ""]
    # No folder is in the tar that docker unpacks: it would replace a link of the base's.
    with tarfile.open(os.path.join(folder, "stubs.tar"), "w", format=tarfile.PAX_FORMAT) as tar:
        for path in [STUB, *files]:
            entry, content = tarfile.TarInfo(path[1:]), "\n".join(lines).encode() if path == STUB else b""
            entry.size, entry.mode, entry.linkname = len(content), 0o755, STUB
            entry.type = tarfile.REGTYPE if content else tarfile.SYMTYPE
            tar.addfile(entry, io.BytesIO(content))
    values = "".join(f" {name}=/usr/local" for name in variables)  # $JAVA_HOME/bin/java is there, too
    return f"{start}ADD stubs.tar /\nENV PATH={PROGRAMS}:${{PATH:-{PATH}}}{values}\n"


PLACES = {"context": os.path.isdir, "solution": os.path.isfile, "solution_context": os.path.isdir}
NETWORK = ("network", "network-alias", "net-alias", "ip", "ip6", "link", "link-local-ip", "mac-address")


def places_of(rubric: str, given: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """Return context, solution and solution_context of one rubric, and of images left out the reason."""
    repo, places, absent = re.sub(r"\.json$", "", os.path.basename(rubric)), {}, {}
    for option, is_there in PLACES.items():
        template = getattr(given, option)
        path = template.replace("{repo}", repo) if template else ""
        if path and is_there(path):
            places[option] = path
        elif template or option != "solution_context":
            absent["copied" if option == "context" else "solution"] = f"no {path or '--' + option}"
    if "solution" in places:
        own = os.path.dirname(os.path.abspath(places["solution"]))
        places.setdefault("solution_context", places.get("context", own))
    return places, absent


def measure(reading: Reading, given: argparse.Namespace) -> dict[str, Any]:
    """Evaluate a rubric, each test by itself, on every image; raise ReviewError where that fails."""
    rubric = reading.rubric
    places, absent = places_of(rubric.path, given)
    # The first test fails on purpose: of such a one the report holds what it prints, which is the WORKDIR.
    probe = "where_it_is" + "_" * max(len(test.id) for test in rubric.tests)  # nobody's id
    tests = [{"id": probe, "type": "run_command", "params": {"command": "pwd", "exit_code": 1}, "score": 0}]
    fields = ("id", "type", "params", "timeout", "score")
    tests += [{name: getattr(test, name) for name in fields} for test in rubric.tests]
    times: dict[str, list[dict[str, str]]] = {image: [] for image in IMAGES}
    with tempfile.TemporaryDirectory(prefix="rubric-review-") as folder:
        path = os.path.join(folder, "rubric.json")
        Path(path).write_text(json.dumps({"tests": tests}), encoding="utf-8")

        def evaluate(image: str, text: str, context: str, **more: Any) -> str:
            dockerfile = os.path.join(folder, f"{image}.dockerfile") if text else places["solution"]
            if text:
                Path(dockerfile).write_text(text, encoding="utf-8", errors="surrogateescape")
            options = {**given.evaluate, **more}
            report = de.evaluate(dockerfile, rubric.repo or image, path, context=context, **options)
            messages, workdir = _messages(image, report, probe)
            times[image].append(messages)
            passed = sum(1 for message in messages.values() if not message)
            _tell(f"{rubric.path}: {image}: ", f"{passed} of {len(messages)} tests passed")
            _tell("", "\n".join(text for text in report["warnings"] if text.startswith("leftover")))
            return workdir

        workdir = ""
        for time in range((given.repeat or 1) if "solution" not in absent else 0):
            workdir = evaluate("solution", "", places["solution_context"], jobs=JOBS if time % 2 else 1)
        workdir = given.workdir or re.sub(r"([\\$])", r"\\\1", workdir) or "/workspace"
        start = f"FROM {given.base}\nWORKDIR {workdir}\n"
        empty, stubs = (tempfile.mkdtemp(dir=folder) for _ in "12")
        evaluate("bare", start, empty)
        if "copied" not in absent:
            evaluate("copied", f"{start}COPY . .\n", places["context"])
        alone = [*de.RUN_FLAGS.without(given.evaluate["run_options"], NETWORK), "--network=none"]
        evaluate("faked", write_faked(stubs, rubric.tests, start, workdir), stubs, run_options=alone)
    data: dict[str, Any] = {"base": given.base, "workdir": workdir, "repeat": given.repeat or 1}
    data.update((option, places.get(option)) for option in PLACES)
    data["images"] = {image: _image(reading, all_) for image, all_ in times.items() if all_}
    data.update(not_measured=absent, rows=_rows(reading, given.base, data["images"]), earned=None)
    if "solution" in data["images"]:
        easy = {row["test_id"] for row in data["rows"] if row["kind"] in ("free", "faked", "given")}
        solved = data["images"]["solution"]["passed"]
        data["earned"] = points_of(t for t in rubric.tests if solved[t.id] and t.id not in easy)
    return data


def _messages(image: str, report: Mapping[str, Any], probe: str) -> tuple[dict[str, str], str]:
    """Return why each test did not pass, and the WORKDIR; raise ReviewError for what is no measurement."""
    error, rows = report["error"], {row["test_id"]: row for row in report["test_results"]}
    if error:
        built = not error["kind"].startswith("build")
        what = f"was not measured ({error['kind']})" if built else "cannot be built"
        raise ReviewError(f"the {image} image {what}: {error['message']}")
    unclear = [row for row in rows.values() if row["status"] in ("error", "not_run")]
    why = [f"{row['test_id']}: {row['message']}" for row in unclear]
    first = rows.pop(probe)
    if first["exit_code"] != 0:
        why.append(f"not even the command 'pwd' succeeds: {first['message']}")
    if why:
        raise ReviewError(f"the {image} image was not measured: {why[0]}")
    messages = {name: "" if row["passed"] else row["message"] or row["status"] for name, row in rows.items()}
    return messages, (first["output"] or "").rstrip("\n")


def _image(reading: Reading, times: Sequence[dict[str, str]]) -> dict[str, Any]:
    """Return what an image got: its points are those of the tests that passed at least once."""
    tests = reading.rubric.tests
    failures = {test.id: [messages[test.id] for messages in times if messages[test.id]] for test in tests}
    passed = {name: len(times) - len(all_) for name, all_ in failures.items()}
    points = points_of(test for test in tests if passed[test.id])
    share = points / (points_of(tests) or 1)
    return {"points": points, "share": share, "times": len(times), "passed": passed, "failures": failures}


def _rows(reading: Reading, base: str, images: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tests that are given away or cannot be relied on, kind by kind."""
    syntax = {warning.test_id: warning.text for warning in reading.warnings if warning.name == "no-syntax"}
    rows = []
    for test in reading.rubric.tests:
        passed = {image: one["passed"][test.id] for image, one in images.items()}
        failures = images["solution"]["failures"][test.id] if "solution" in images else []
        solved = passed.get("solution", 0)
        what = (
            " scripts that print the rubric's own strings" if "command" in test.params else "s of these names"
        )
        gifts = {
            "bare": ("free", f"passes on {base}: asks for nothing that has to be set up"),
            "copied": ("given", "passes once the files are copied"),
            "faked": ("faked", f"stub{what} pass"),
        }
        found = [gift for image, gift in gifts.items() if passed.get(image)][:1]
        if test.id in syntax and not any(passed.values()):
            found.append(("no-syntax", syntax[test.id]))
        elif failures and not solved:
            found.append(("unsolved", f"the solution does not pass: {failures[-1]}"))
        elif failures:
            found.append(("flaky", f"passed {solved} of {solved + len(failures)} times"))
        rows += [(kind, test.id, test.score, text) for kind, text in found]
    names = ("kind", "test_id", "points", "text")
    return [dict(zip(names, row)) for kind in KINDS for row in rows if row[0] == kind]


def points_of(tests: Iterable[de.Test]) -> float:
    """Return the points of some tests together."""
    return round(math.fsum(test.score for test in tests), 6)


# ---------------------------------------------------------------------------------------------
# Text, JSON, Markdown: of a review, which is one dict
# ---------------------------------------------------------------------------------------------


def review(path: str, given: argparse.Namespace) -> dict[str, Any]:
    """Read a rubric and, with a base, measure it; `error` says why it was refused or not measured."""
    data: dict[str, Any] = {"rubric": path, "error": None}
    try:
        reading = read(path)
        rubric, warnings = reading.rubric, [dict(warning._asdict()) for warning in reading.warnings]
        data.update(repo=rubric.repo, sha256=rubric.sha256, tests=len(rubric.tests))
        data.update(points=points_of(rubric.tests), warnings=warnings)
        if given.base:
            data["measured"] = measure(reading, given)
    except (ReviewError, de.EvaluationError) as error:
        data["error"] = str(error)
    return data


def _counted(count: float, noun: str) -> str:
    return f"{count:.10g} {noun}{'' if count == 1 else 's'}"


def scores(reviews: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the points of some rubrics together on each image, in words, and those that are earned."""
    words: dict[str, str] = {}
    measured = [(review["measured"], review["points"]) for review in reviews if "measured" in review]
    for image in IMAGES:
        here = [(one["images"][image], points) for one, points in measured if image in one["images"]]
        got, most = math.fsum(one["points"] for one, _ in here), math.fsum(points for _, points in here)
        if here and image == "solution":
            times = max(one["times"] for one, _ in here)
            words[image] = f"{got:.10g} of {most:.10g}, {'once' if times == 1 else f'{times} times'}"
            earned = math.fsum(one["earned"] for one, _ in measured if one["earned"] is not None)
            words["earned"] = f"{earned:.10g} of {most:.10g}"
        elif here:
            words[image] = f"{got:.10g} ({100 * got / (most or 1):.0f} %)"
    return words


def as_text(review: dict[str, Any]) -> str:
    """Return warnings, then a line of summary, or the table of what was measured."""
    if "points" not in review:
        return ""
    path, measured = de.shown(review["rubric"], 500), review.get("measured")
    places = [(f"{review['rubric']}: {w['name']}: {w['place']}: ", w["text"]) for w in review["warnings"]]
    lines = [de.shown(f"warning: {place}{text}", 1000) for place, text in places]
    if not measured:
        counts = f"{_counted(review['tests'], 'test')}, {_counted(review['points'], 'point')}"
        return "\n".join([*lines, f"{path}: {counts}, {_counted(len(places), 'warning')}", ""])
    points = scores([review])
    earned = points.pop("earned", "")
    each = "   ".join(f"{image} {words}" for image, words in points.items())
    lines.append(f"{path}: {_counted(review['points'], 'point')}      {each}")
    cells = [(de.shown(row["test_id"], 40), _counted(row["points"], "point")) for row in measured["rows"]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for row, (name, points_) in zip(measured["rows"], cells):
        start = f"{row['kind']:<9} {name:<{widths[0]}}  {points_:<{widths[1]}}"
        lines.append(f"{start}  {de.shown(row['text'], 300)}")
    absent = ", ".join(f"{image} ({why})" for image, why in measured["not_measured"].items())
    lines += [f"not measured: {de.shown(absent, 500)}"] if absent else []
    lines += [f"earned {earned}"] if earned else []
    return "\n".join([*lines, ""])


def sum_of(reviews: Sequence[dict[str, Any]]) -> str:
    """Return the line that sums up several rubrics."""
    read = [review for review in reviews if "points" in review]
    kinds = collections.Counter(warning["name"] for review in read for warning in review["warnings"])
    each = f" ({', '.join(f'{count} {name}' for name, count in kinds.most_common())})" if kinds else ""
    tests, points = sum(review["tests"] for review in read), math.fsum(review["points"] for review in read)
    warned = _counted(sum(kinds.values()), "warning") + each
    counts = [_counted(tests, "test"), _counted(points, "point"), warned]
    counts += [f"{len(reviews) - len(read)} refused"] if len(reviews) > len(read) else []
    counts += [f"{image} {words}" for image, words in scores(reviews).items()]
    return f"{_counted(len(reviews), 'rubric')}: {', '.join(counts)}\n"


def as_markdown(reviews: Sequence[dict[str, Any]]) -> str:
    """Return a table of the rubrics, and one of all that was found in them."""
    columns = (*IMAGES, "earned")
    lines = [f"| rubric | tests | points | warnings | {' | '.join(columns)} |", "|---|" + "---:|" * 8]
    found: list[tuple[str, ...]] = []
    for review in reviews:
        path, cells = review["rubric"], ["refused"] + [""] * 7
        if "points" in review:
            cells = [str(review["tests"]), f"{review['points']:.10g}", str(len(review["warnings"]))]
            cells += [scores([review]).get(image, "-") for image in columns]
            found += [(path, w["test_id"] or "", w["name"], "", w["text"]) for w in review["warnings"]]
        rows = review["measured"]["rows"] if "measured" in review else ()
        rows = [row for row in rows if row["kind"] != "no-syntax"]  # which is a warning already
        found += [(path, r["test_id"], r["kind"], f"{r['points']:.10g}", r["text"]) for r in rows]
        found += [(path, "", "error", "", review["error"])] if review["error"] else []
        lines.append(_cells(path, *cells))
    if found:
        lines += ["", "| rubric | test | what | points | why |", "|---|---|---|---:|---|"]
        lines += [_cells(*row) for row in found]
    return "\n".join([*lines, ""])


def _cells(*texts: str) -> str:
    """Return a row of a table, in which no text can end a cell or become markup."""
    safe = [re.sub(r"([\\`*_{}\[\]<>#|~&@$:!])", r"\\\1", de.shown(text, 300)) for text in texts]
    return f"| {' | '.join(safe)} |"


def reasons(review: dict[str, Any]) -> Iterator[str]:
    """Yield what --strict has against a rubric."""
    measured = review.get("measured", {"images": {}, "rows": ()})
    if review.get("warnings"):
        yield _counted(len(review["warnings"]), "warning")
    for image, (most, words) in MOST.items():
        share = measured["images"].get(image, {}).get("share", 0)
        if share > most + 1e-9:  # a third of 3.3 points is 1.1
            yield f"the {image} image gets {100 * share:.0f} %, more than {words}"
    kinds = collections.Counter(row["kind"] for row in measured["rows"])
    yield from (f"{kinds[kind]} {kind}" for kind in ("unsolved", "flaky") if kinds[kind])


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="review.py",
        description="Is a rubric any good? Reads it and, with --base, measures what it gives away.",
        epilog=str(__doc__).rpartition("\n\n")[2],
    )
    add = parser.add_argument
    add("rubrics", metavar="RUBRIC", nargs="+", help="the rubrics to read")
    add("--strict", action="store_true", help="exit 1 for warnings, unsolved and flaky tests, high shares")
    for name, kind, metavar, text in (
        ("base", str, "IMAGE", "measure, too: on this image alone (bare), and with stubs (faked)"),
        ("context", str, "DIR", "the project's files; measure on the base with these (copied)"),
        ("solution", str, "DOCKERFILE", "measure on an image that does the work (solution)"),
        ("solution-context", str, "DIR", "its build context (default: --context, else its own folder)"),
        ("repeat", int, "N", "how often to evaluate the solution (default: 1)"),
        ("workdir", str, "DIR", "of bare, copied and faked (default: the solution's, else /workspace)"),
        ("output", str, "FILE", "write all that was found as JSON"),
        ("markdown", str, "FILE", "write it as Markdown tables"),
        ("engine", str, "WHERE", "the engine to use: a URL or a docker context"),
        ("docker", str, "PROGRAM", "the docker command line to call (default: docker)"),
        ("wait", float, "S", "seconds to wait for an engine that does not answer yet"),
    ):
        add(f"--{name}", type=kind, metavar=metavar, help=text)
    for command in ("build", "run"):
        text = f"a word for docker {command}, such as --{command}-option=--network=host; may be repeated"
        add(f"--{command}-option", metavar="OPT", action="append", help=text)
    return parser


def _given(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments, with those of evaluate() in `evaluate`; wrong usage ends the program."""
    parser = _parser()
    given = parser.parse_args(argv)
    own = ("rubrics", "strict", "output", "markdown")
    for name in [name for name, value in vars(given).items() if value is not None and name not in own]:
        if not given.base:
            parser.error(f"--{name.replace('_', '-')} needs --base IMAGE")
        if name in ("context", "solution") and given.rubrics[1:] and "{repo}" not in getattr(given, name):
            parser.error(f"--{name}: several rubrics need the word {{repo}} in it, for the name of each")
    if not given.solution and (given.repeat is not None or given.solution_context):
        parser.error("--repeat and --solution-context need --solution DOCKERFILE")
    if given.repeat is not None and given.repeat < 1:
        parser.error("--repeat: expected a whole number of at least 1")
    if given.wait is not None and not 0 <= given.wait < math.inf:
        parser.error("--wait: expected a number of seconds")
    if re.search(r"\s", given.base or "") or not re.fullmatch(r"[^\n\r]+", given.workdir or "/workspace"):
        parser.error("--base and --workdir: expected one word, as in a Dockerfile")
    given.evaluate = {name: vars(given)[name] for name in ("engine", "docker", "wait") if vars(given)[name]}
    for flags, kind in ((de.BUILD_FLAGS, "build"), (de.RUN_FLAGS, "run")):
        words = given.evaluate[f"{kind}_options"] = vars(given)[f"{kind}_option"] or []
        try:
            flags.check(f"--{kind}-option", words)
        except ValueError as error:
            parser.error(str(error))
    return given


def _check_files(given: argparse.Namespace) -> None:
    """Know before a long measurement that what it reads is there, and that what it writes can be written."""
    for option, is_there in PLACES.items():
        path = getattr(given, option) or "{repo}"
        if "{repo}" not in path and not is_there(path):
            raise ReviewError(f"{path}: no such {'Dockerfile' if option == 'solution' else 'folder'}")
    solutions = [places_of(path, given)[0].get("solution", path) for path in given.rubrics]
    inputs = set(map(os.path.realpath, (*given.rubrics, *solutions)))
    outputs = [path for path in (given.output, given.markdown) if path]
    for path in outputs:
        if os.path.realpath(path) in inputs:
            raise ReviewError(f"{path}: this is to be read, and would be overwritten")
        de.check_writable(path)
    if len(set(map(os.path.realpath, outputs))) < len(outputs):
        raise ReviewError(f"{outputs[0]}: --output and --markdown are the same file")


def _tell(kind: str, text: str) -> None:
    for line in text.splitlines():
        de.write_to(sys.stderr, f"{de.shown(kind + line, 2000)}\n")


def _run(given: argparse.Namespace) -> int:
    """Review all rubrics, print and write what was found; return the exit code."""
    _check_files(given)
    reviews, bad = [], False
    for path in given.rubrics:
        one = review(path, given)
        reviews.append(one)
        de.write_to(sys.stdout, as_text(one))
        _tell("error: ", one["error"] or "")
        against = list(reasons(one)) if given.strict else []
        for reason in against:
            _tell(f"strict: {path}: ", reason)
        bad = bad or bool(one["error"] or against)
    if len(reviews) > 1:
        de.write_to(sys.stdout, sum_of(reviews))
    if given.output:
        de.write_file(given.output, json.dumps({"rubrics": reviews}, indent=2, allow_nan=False) + "\n")
    if given.markdown:
        de.write_file(given.markdown, as_markdown(reviews))
    return 1 if bad else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = _given(argv)
    sys.stdout, sys.stderr = de.standard_streams()

    def hear(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    try:
        with de.signals_to(hear):
            return _run(given)
    except KeyboardInterrupt as interrupt:
        _tell("error: ", "interrupted")
        return 128 + int((*interrupt.args, signal.SIGINT)[0])
    except (ReviewError, de.EvaluationError, OSError) as error:
        _tell("error: ", str(error))
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
