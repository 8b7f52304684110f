"""Tests of rubrics, and the verdicts of each test type on a folder of files."""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple


def read_table(text, row):
    """Return the rows of a text: a line without indentation begins one, "when -> then"."""
    rows = []
    for stanza in re.findall(r"(?m)^[^#\s].*(?:\n    .*)*", text):
        head, *lines = stanza.split("\n    ")
        rows.append(row(*head.split(" -> "), **dict(line.split(": ", 1) for line in lines)))
    return rows


def run_command(command, **more):
    return {"type": "run_command", "params": {"command": command}, **more}


def output_contains(command, *contains, **more):
    params = {"command": command, "contains": list(contains)}
    return {"type": "output_contains", "params": params, **more}


def files_exist(*paths, **more):
    return {"type": "files_exist", "params": {"paths": list(paths)}, **more}


TRUE = run_command("cd /")
FALSE = run_command("echo why; false")
LOOK = files_exist("/etc/passwd")

SPECIAL_NAMES = [
    "-dash",
    "$(false)",
    "`x`",
    "it's",
    "*",
    "~",
    "é€",
    "\\n",
    "!",
    "(",
    "with space",
    'say "hi"',
    "new\nline",
]
ENVIRONMENT = {"SET": "1", "EMPTY": "", "PREFIX_SET": "1", "dotted.name": "x"}
ENVIRONMENT.update({"COLOR": "\x1b[0m", "\x1b[0mRED": "1"})


def fill(folder):
    """Make the files of the cases."""
    script = """
        mkdir folder
        echo needle in the hay >file
        echo '#!/bin/sh' >program
        echo '#!/no/interpreter' >broken
        chmod +x program broken
        mkfifo pipe
        ln -s file link
        ln -s folder link-to-folder
        ln -s nowhere dangling
    """
    subprocess.run(["sh", "-ec", script], cwd=str(folder), check=True)
    for name in SPECIAL_NAMES:
        (folder / name).write_text(f"<{name}>")


NO_FILE = "no such file, or not accessible to the image's user"
DRAW = {"a": [1000000, 2999999]}


class Case(NamedTuple):
    """A test on the files of `fill`, and the verdict on it."""

    when: str
    status: str
    message: str  # a part of it
    params: dict


def passes(when, **params):
    return Case(when, status="passed", message="", params=params)


def fails(when, message, **params):
    return Case(when, status="failed", message=message, params=params)


COMMAND_EXISTS = [
    passes("a program on the PATH", name="sh"),
    passes("a builtin command of the shell", name="cd"),
    passes("a path of a program", name="./program"),
    fails("no program of the name", "not found: no-such", name="no-such"),
    fails("a path of a folder", "not found: /etc", name="/etc"),
    fails("a path of a file that is not executable", "not found: ./file", name="./file"),
    fails("a name that looks like an option", "not found: -v", name="-v"),
    fails("a name that looks like shell code", "not found: sh; true", name="sh; true"),
]
COMMANDS_EXIST = [
    passes("all are there", names=["sh", "cat"]),
    fails("some are missing", "not found: no; not found: nope", names=["sh", "no", "cat", "nope"]),
]
ENVVAR_SET = [
    passes("it is set", name="SET"),
    passes("it is the first of all", name="PATH"),
    passes("its name has a dot", name="dotted.name"),
    passes("it has only a colour code", name="COLOR"),
    fails("a colour code before its name", "RED is not set", name="RED"),
    fails("it is empty", "EMPTY is set, but empty", name="EMPTY"),
    fails("a variable that the shell exports", "PWD is not set", name="PWD"),
    fails("it is the beginning of another name", "not set", name="PREFIX"),
    fails("it is the end of another name", "not set", name="name"),
]
FILES_EXIST = [
    passes("files, a link and special names", paths=["file", "link", *SPECIAL_NAMES]),
    fails("one of two is missing", f"{NO_FILE}: missing", paths=["file", "missing"]),
    fails("a pattern is a plain name", f"{NO_FILE}: fil*", paths=["fil*"]),
    fails("a folder", "a directory, not a file: folder", paths=["folder"]),
    fails("a dangling link", f"{NO_FILE}: dangling", paths=["dangling"]),
    fails("a pipe", "a device, pipe or socket, not a file: pipe", paths=["pipe"]),
    fails("a device", "a device, pipe or socket, not a file: /dev/null", paths=["/dev/null"]),
]
DIRS_EXIST = [
    passes("folders and a link to one", paths=["folder", "/etc", "link-to-folder"]),
    fails("a file", "a file, not a directory: file", paths=["file"]),
    fails("nothing there", "nowhere", paths=["nowhere"]),
]
FILE_CONTAINS = [
    passes("one of two texts", path="file", contains=["nothing", "needle"]),
    passes("all of two texts", path="file", contains=["needle", "hay"], match="all"),
    passes("a text with the end of a line, through a link", path="link", contains=["hay\n"]),
    passes("a path that looks like an option", path="-dash", contains=["<-dash>"]),
    fails("a text in another case", "contains none of 'Needle'", path="file", contains=["Needle"]),
    fails("no file", f"cannot read missing: {NO_FILE}", path="missing", contains=["file"]),
    fails("a pipe", "cannot read pipe", path="pipe", contains=["x"]),
]
RUN_COMMAND = [
    passes("it succeeds", command="true"),
    passes("it fails as expected", command="exit 255", exit_code=255),
    passes("any exit code is expected", command="exit 200", exit_code="any"),
    passes("a process stays in the background", command="sleep 9 & echo away"),
    passes("another shell", command="exit 3", shell="./program"),
    passes("drawn numbers", command="test {a*2} -eq $(({a} + {a}))", draw=DRAW),
    fails("it fails", "exit code 2, expected 0: no output", command="exit 2"),
    fails("it succeeds unexpectedly", "exit code 0, expected 3", command=":", exit_code=3),
    fails("it replaces the shell", "exit code 130", command="exec sh -c 'exit 130'"),
    fails("no such program", "exit code 127", command="no-such"),
    fails("nothing on standard input", "exit code 4", command="read line || exit 4"),
    fails("it looks like an option", "exit code 5", command="-x; exit 5"),
    fails("it looks like an option with a plus sign", "exit code 6", command="+x; exit 6"),
    fails("a shell that the image lacks", "has no shell ./no", command="true", shell="./no"),
    fails("a shell that is no program", "no shell", command=":", shell="./file", exit_code="any"),
    fails("a shell that does not run", "no shell", command=":", shell="./broken", exit_code="any"),
]
OUTPUT_CONTAINS = [
    passes("standard output", command="echo a; echo b", contains=["a\nb"]),
    passes("standard error, of the shell", command="no-such || true", contains=["no-such"]),
    passes("a NUL byte", command="printf 'a\\000b'", contains=["b"]),
    passes("bytes that are not UTF-8", command="printf '\\377\\376x'", contains=["x"]),
    passes("drawn numbers", command="echo = $(({a} * 3))", contains=["= {a*3}\n"], draw=DRAW),
    fails("the text, but a failure", "exit code 1", command="echo x; exit 1", contains=["x"]),
    fails("a pattern is a plain text", "line: a.b", command="echo 'a.b'", contains=["a?b"]),
    fails("no output", "(no output)", command=":", contains=["x"]),
    fails(
        "one of two texts, but all are required",
        "the output lacks 'b'",
        command="echo a",
        contains=["a", "b"],
        match="all",
    ),
    fails("the markers of the script", "none of", command=":", contains=["=E", "=B"]),
]
CASES = {
    "command_exists": COMMAND_EXISTS,
    "commands_exist": COMMANDS_EXIST,
    "envvar_set": ENVVAR_SET,
    "files_exist": FILES_EXIST,
    "dirs_exist": DIRS_EXIST,
    "file_contains": FILE_CONTAINS,
    "run_command": RUN_COMMAND,
    "output_contains": OUTPUT_CONTAINS,
}
