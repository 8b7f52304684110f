"""Tests of rubrics, and the verdicts of each test type on a folder of files."""

from __future__ import annotations

import json
import re
import subprocess
from types import SimpleNamespace

import pytest

import DockerfileEvaluator as de


def read_table(text, **defaults):
    """Return the rows of a text; a line without indentation, `when -> then`, begins one.

    The lines below it are fields. One whose default is no text is JSON.
    """
    rows = []
    for stanza in re.findall(r"(?m)^[^#\s].*(?:\n    .*)*", text):
        head, *lines = stanza.split("\n    ")
        row = SimpleNamespace(**defaults)
        row.when, row.then = head.split(" -> ")
        for name, value in (line.split(": ", 1) for line in lines):
            setattr(row, name, value if isinstance(defaults[name], str) else json.loads(value))
        rows.append(row)
    return rows


def table(text, **defaults):
    """Give a test a `row` of a text at a time."""
    rows = read_table(text, **defaults)
    return pytest.mark.parametrize("row", rows, ids=[row.when for row in rows])


def as_bytes(text):
    """Return the bytes of a text in a table, which may have Python's escapes."""
    return text.encode().decode("unicode_escape").encode("latin-1")


def run_command(command, **more):
    return {"type": "run_command", "params": {"command": command}, **more}


def output_contains(command, *contains, **more):
    params = {"command": command, "contains": list(contains)}
    return {"type": "output_contains", "params": params, **more}


def files_exist(*paths, **more):
    return {"type": "files_exist", "params": {"paths": list(paths)}, **more}


def read_tests(*tests):
    """Return tests as the evaluator reads them from a rubric."""
    return de.read_rubric(json.dumps({"tests": tests}).encode(), "rubric").tests


def judged(test, output, code=0):
    """Return the result of a test that has printed `output` and ended with an exit code."""
    (test,) = read_tests(test)
    container = de.ContainerRun(de.EXIT, docker_code=code, test_code=code, output=output)
    return de.verdict(test, container)


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


# A test on the files of fill(), and a part of its message unless it passes
CASES = r"""
== command_exists
a program on the PATH -> passed
    params: {"name": "sh"}
a builtin command of the shell -> passed
    params: {"name": "cd"}
a path of a program -> passed
    params: {"name": "./program"}
no program of the name -> not found: no-such
    params: {"name": "no-such"}
a path of a folder -> not found: /etc
    params: {"name": "/etc"}
a path of a file that is not executable -> not found: ./file
    params: {"name": "./file"}
a name that looks like an option -> not found: -v
    params: {"name": "-v"}
a name that looks like shell code -> not found: sh; true
    params: {"name": "sh; true"}
== commands_exist
all are there -> passed
    params: {"names": ["sh", "cat"]}
some are missing -> not found: no; not found: nope
    params: {"names": ["sh", "no", "cat", "nope"]}
== envvar_set
it is set -> passed
    params: {"name": "SET"}
it is the first of all -> passed
    params: {"name": "PATH"}
its name has a dot -> passed
    params: {"name": "dotted.name"}
it has only a colour code -> passed
    params: {"name": "COLOR"}
a colour code before its name -> RED is not set
    params: {"name": "RED"}
it is empty -> EMPTY is set, but empty
    params: {"name": "EMPTY"}
a variable that the shell exports -> PWD is not set
    params: {"name": "PWD"}
it is the beginning of another name -> not set
    params: {"name": "PREFIX"}
it is the end of another name -> not set
    params: {"name": "name"}
== files_exist
files, a link and special names -> passed
    params: {"paths": ["file", "link"]}
one of two is missing -> no such file, or not accessible to the image's user: missing
    params: {"paths": ["file", "missing"]}
a pattern is a plain name -> no such file, or not accessible to the image's user: fil*
    params: {"paths": ["fil*"]}
a folder -> a directory, not a file: folder
    params: {"paths": ["folder"]}
a dangling link -> no such file, or not accessible to the image's user: dangling
    params: {"paths": ["dangling"]}
a pipe -> a device, pipe or socket, not a file: pipe
    params: {"paths": ["pipe"]}
a device -> a device, pipe or socket, not a file: /dev/null
    params: {"paths": ["/dev/null"]}
== dirs_exist
folders and a link to one -> passed
    params: {"paths": ["folder", "/etc", "link-to-folder"]}
a file -> a file, not a directory: file
    params: {"paths": ["file"]}
nothing there -> nowhere
    params: {"paths": ["nowhere"]}
== file_contains
one of two texts -> passed
    params: {"path": "file", "contains": ["nothing", "needle"]}
all of two texts -> passed
    params: {"path": "file", "contains": ["needle", "hay"], "match": "all"}
a text with the end of a line, through a link -> passed
    params: {"path": "link", "contains": ["hay\n"]}
a path that looks like an option -> passed
    params: {"path": "-dash", "contains": ["<-dash>"]}
a text in another case -> contains none of 'Needle'
    params: {"path": "file", "contains": ["Needle"]}
no file -> cannot read missing: no such file, or not accessible to the image's user
    params: {"path": "missing", "contains": ["file"]}
a pipe -> cannot read pipe
    params: {"path": "pipe", "contains": ["x"]}
== run_command
it succeeds -> passed
    params: {"command": "true"}
it fails as expected -> passed
    params: {"command": "exit 255", "exit_code": 255}
any exit code is expected -> passed
    params: {"command": "exit 200", "exit_code": "any"}
a process stays in the background -> passed
    params: {"command": "sleep 9 & echo away"}
another shell -> passed
    params: {"command": "exit 3", "shell": "./program"}
drawn numbers -> passed
    params: {"command": "test {a*2} -eq $(({a} + {a}))", "draw": {"a": [0, 999999]}}
it fails -> exit code 2, expected 0: no output
    params: {"command": "exit 2"}
it succeeds unexpectedly -> exit code 0, expected 3
    params: {"command": ":", "exit_code": 3}
it replaces the shell -> exit code 130
    params: {"command": "exec sh -c 'exit 130'"}
no such program -> exit code 127
    params: {"command": "no-such"}
nothing on standard input -> exit code 4
    params: {"command": "read line || exit 4"}
it looks like an option -> exit code 5
    params: {"command": "-x; exit 5"}
it looks like an option with a plus sign -> exit code 6
    params: {"command": "+x; exit 6"}
a shell that the image lacks -> has no shell ./no
    params: {"command": "true", "shell": "./no"}
a shell that is no program -> no shell
    params: {"command": ":", "shell": "./file", "exit_code": "any"}
a shell that does not run -> no shell
    params: {"command": ":", "shell": "./broken", "exit_code": "any"}
== output_contains
standard output -> passed
    params: {"command": "echo a; echo b", "contains": ["a\nb"]}
standard error, of the shell -> passed
    params: {"command": "no-such || true", "contains": ["no-such"]}
a NUL byte -> passed
    params: {"command": "printf 'a\\000b'", "contains": ["b"]}
bytes that are not UTF-8 -> passed
    params: {"command": "printf '\\377\\376x'", "contains": ["x"]}
drawn numbers -> passed
    params: {"command": "echo = $(({a}*3))", "contains": ["= {a*3}\n"], "draw": {"a": [0, 999999]}}
the text, but a failure -> exit code 1
    params: {"command": "echo x; exit 1", "contains": ["x"]}
a pattern is a plain text -> line: a.b
    params: {"command": "echo 'a.b'", "contains": ["a?b"]}
no output -> (no output)
    params: {"command": ":", "contains": ["x"]}
one of two texts, but all are required -> the output lacks 'b'
    params: {"command": "echo a", "contains": ["a", "b"], "match": "all"}
the markers of the script -> none of
    params: {"command": ":", "contains": ["=E", "=B"]}
"""


CASES = {
    kind: read_table(text, params={})
    for kind, text in re.findall(r"(?s)== (\w+)(.*?)(?=\n==|\Z)", CASES)
}
CASES["files_exist"][0].params["paths"].extend(SPECIAL_NAMES)
