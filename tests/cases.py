"""Tests of rubrics, the verdicts of each test type on a folder of files, and failed builds."""

from __future__ import annotations

import os
from typing import NamedTuple


def run_command(command: str, **more: object) -> dict:
    return {"type": "run_command", "params": {"command": command}, **more}


def output_contains(command: str, *contains: str, **more: object) -> dict:
    return {
        "type": "output_contains",
        "params": {"command": command, "contains": list(contains)},
        **more,
    }


def files_exist(*paths: str, **more: object) -> dict:
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


def fill(folder) -> None:
    """Make the files of the cases, except a pipe, which no build context can contain."""
    (folder / "folder").mkdir()
    (folder / "file").write_text("needle in the hay\n")
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o755)
    os.symlink("file", folder / "link")
    os.symlink("folder", folder / "link-to-folder")
    os.symlink("nowhere", folder / "dangling")
    for name in SPECIAL_NAMES:
        (folder / name).write_text(f"<{name}>")


NO_FILE = "no such file, or not accessible to the image's user"
NO_FOLDER = "no such directory, or not accessible to the image's user"
DRAW = {"a": [1000000, 2999999]}


class Case(NamedTuple):
    """A test on the files of `fill`, and the verdict on it."""

    when: str
    params: dict
    message: str  # a part of it
    status: str = "passed"


COMMAND_EXISTS = [
    Case("a program on the PATH", params={"name": "sh"}, message="found "),
    Case("a builtin command of the shell", params={"name": "cd"}, message="found cd"),
    Case("a path of a program", params={"name": "./program"}, message="found ./program"),
    Case(
        "no program of the name",
        params={"name": "no-such"},
        status="failed",
        message="not found: no-such",
    ),
    Case(
        "a path of a folder",
        params={"name": "/etc"},
        status="failed",
        message="not found: /etc",
    ),
    Case(
        "a path of a file that is not executable",
        params={"name": "./file"},
        status="failed",
        message="not found: ./file",
    ),
    Case(
        "a name that looks like an option",
        params={"name": "-v"},
        status="failed",
        message="not found: -v",
    ),
    Case(
        "a name that looks like shell code",
        params={"name": "sh; true"},
        status="failed",
        message="not found: sh; true",
    ),
]
COMMANDS_EXIST = [
    Case("all are there", params={"names": ["sh", "cat"]}, message="found "),
    Case(
        "some are missing",
        params={"names": ["sh", "no", "cat", "nope"]},
        status="failed",
        message="not found: nope",
    ),
    Case(
        "many are missing",
        params={"names": ["sh", *(f"no{number}" for number in range(30))]},
        status="failed",
        message="; 25 more",
    ),
]
ENVVAR_SET = [
    Case("it is set", params={"name": "SET"}, message="SET is set"),
    Case("it is the PATH", params={"name": "PATH"}, message="PATH is set"),
    Case("its name has a dot", params={"name": "dotted.name"}, message="dotted.name is set"),
    Case(
        "it is empty",
        params={"name": "EMPTY"},
        status="failed",
        message="EMPTY is set, but empty",
    ),
    Case(
        "a variable of the shell",
        params={"name": "IFS"},
        status="failed",
        message="IFS is not set",
    ),
    Case(
        "a variable that the shell exports",
        params={"name": "PWD"},
        status="failed",
        message="PWD is not set",
    ),
    Case(
        "it is the beginning of another name",
        params={"name": "PREFIX"},
        status="failed",
        message="PREFIX is not set",
    ),
    Case(
        "it matches another name as a pattern",
        params={"name": "dotted_name"},
        status="failed",
        message="dotted_name is not set",
    ),
]
FILES_EXIST = [
    Case(
        "files, a link and special names",
        params={"paths": ["file", "link", *SPECIAL_NAMES]},
        message="found ",
    ),
    Case(
        "one of two is missing",
        params={"paths": ["file", "missing"]},
        status="failed",
        message=f"{NO_FILE}: missing",
    ),
    Case(
        "a pattern is a plain name",
        params={"paths": ["fil*"]},
        status="failed",
        message=f"{NO_FILE}: fil*",
    ),
    Case(
        "a variable is a plain name",
        params={"paths": ["$PWD/file"]},
        status="failed",
        message=f"{NO_FILE}: $PWD/file",
    ),
    Case(
        "a folder and a dangling link",
        params={"paths": ["folder", "dangling"]},
        status="failed",
        message=f"a directory, not a file: folder; {NO_FILE}: dangling",
    ),
    Case(
        "a pipe",
        params={"paths": ["pipe"]},
        status="failed",
        message="neither a file nor a directory: pipe",
    ),
]
DIRS_EXIST = [
    Case(
        "folders and a link to one",
        params={"paths": ["folder", "/etc", "link-to-folder"]},
        message="found ",
    ),
    Case(
        "a link to a file",
        params={"paths": ["link"]},
        status="failed",
        message="a file, not a directory: link",
    ),
    Case(
        "a file",
        params={"paths": ["file"]},
        status="failed",
        message="a file, not a directory: file",
    ),
    Case(
        "nothing there",
        params={"paths": ["nowhere"]},
        status="failed",
        message=f"{NO_FOLDER}: nowhere",
    ),
]
FILE_CONTAINS = [
    Case(
        "one of two texts",
        params={"path": "file", "contains": ["nothing", "needle"]},
        message="file contains 'needle'",
    ),
    Case(
        "a text with the end of a line, through a link",
        params={"path": "link", "contains": ["hay\n"]},
        message="link contains 'hay\\n'",
    ),
    Case(
        "a text in another case",
        params={"path": "file", "contains": ["Needle"]},
        status="failed",
        message="file contains none of 'Needle'",
    ),
    Case(
        "all of two texts",
        params={"path": "file", "contains": ["needle", "hay"], "match": "all"},
        message="file contains 'needle', 'hay'",
    ),
    Case(
        "one of two texts, but all are required",
        params={"path": "file", "contains": ["needle", "straw"], "match": "all"},
        status="failed",
        message="file lacks 'straw'",
    ),
    Case(
        "a pattern is a plain text",
        params={"path": "file", "contains": ["needle.*hay"]},
        status="failed",
        message="contains none of",
    ),
    Case(
        "no file",
        params={"path": "missing", "contains": ["file"]},
        status="failed",
        message=f"cannot read missing: {NO_FILE}",
    ),
    Case(
        "a folder",
        params={"path": "folder", "contains": ["file"]},
        status="failed",
        message="cannot read folder: not a regular file",
    ),
    Case(
        "a pipe",
        params={"path": "pipe", "contains": ["x"]},
        status="failed",
        message="cannot read pipe: not a regular file",
    ),
    Case(
        "a path that looks like an option",
        params={"path": "-dash", "contains": ["<-dash>"]},
        message="-dash contains '<-dash>'",
    ),
    Case(
        "a path that looks like shell code",
        params={"path": "$(false)", "contains": ["<$(false)>"]},
        message="contains",
    ),
    Case(
        "a path and a text that are not ASCII",
        params={"path": "é€", "contains": ["é€"]},
        message="é€ contains 'é€'",
    ),
]
RUN_COMMAND = [
    Case("it succeeds", params={"command": "true"}, message="exit code 0"),
    Case(
        "it fails",
        params={"command": "exit 3"},
        status="failed",
        message="exit code 3: no output",
    ),
    Case(
        "it fails as expected",
        params={"command": "exit 3", "exit_code": 3},
        message="exit code 3",
    ),
    Case(
        "it succeeds against expectation",
        params={"command": "true", "exit_code": 3},
        status="failed",
        message="exit code 0, expected 3",
    ),
    Case(
        "the lowest exit code is expected",
        params={"command": "true", "exit_code": 0},
        message="exit code 0",
    ),
    Case(
        "the highest exit code is expected",
        params={"command": "exit 255", "exit_code": 255},
        message="exit code 255",
    ),
    Case(
        "any exit code is expected",
        params={"command": "exit 200", "exit_code": "any"},
        message="exit code 200",
    ),
    Case(
        "the shell stops at an error",
        params={"command": "set -e; false; echo on"},
        status="failed",
        message="exit code 1",
    ),
    Case("it replaces the shell", params={"command": "exec true"}, message="exit code 0"),
    Case(
        "it replaces the shell and fails",
        params={"command": "exec sh -c 'exit 130'"},
        status="failed",
        message="exit code 130",
    ),
    Case(
        "a syntax error",
        params={"command": "if"},
        status="failed",
        message="exit code 2",
    ),
    Case(
        "no such program",
        params={"command": "no-such"},
        status="failed",
        message="exit code 127: ",
    ),
    Case(
        "it kills itself",
        params={"command": "kill -9 $$"},
        status="failed",
        message="exit code 137: no output (killed)",
    ),
    Case(
        "the exit code of a failed docker run",
        params={"command": "exit 125"},
        status="failed",
        message="exit code 125",
    ),
    Case(
        "no variables of the script",
        params={"command": 'test -z "$status$path"'},
        message="exit code 0",
    ),
    Case(
        "nothing on standard input",
        params={"command": "read line || exit 4"},
        status="failed",
        message="exit code 4",
    ),
    Case(
        "a process stays in the background",
        params={"command": "sleep 600 & echo away"},
        message="exit code 0",
    ),
    Case(
        "a shell that the image lacks",
        params={"command": "true", "shell": "./no"},
        status="failed",
        message="the image has no shell ./no",
    ),
    Case(
        "a command that looks like an option",
        params={"command": "-x; exit 5"},
        status="failed",
        message="exit code 5",
    ),
    Case(
        "a command that looks like an option with a plus sign",
        params={"command": "+x; exit 6"},
        status="failed",
        message="exit code 6",
    ),
    Case(
        "drawn numbers",
        params={"command": "test {a*2} -eq $(({a} + {a}))", "draw": DRAW},
        message="exit code 0",
    ),
]
OUTPUT_CONTAINS = [
    Case(
        "standard output",
        params={"command": "echo out", "contains": ["out"]},
        message="output contains 'out'",
    ),
    Case(
        "standard error",
        params={"command": "echo err >&2", "contains": ["err"]},
        message="output contains 'err'",
    ),
    Case(
        "no end of the line",
        params={"command": "printf out", "contains": ["out"]},
        message="output contains 'out'",
    ),
    Case(
        "the text, but a failure",
        params={"command": "echo out; exit 1", "contains": ["out"]},
        status="failed",
        message="exit code 1: out",
    ),
    Case(
        "a pattern is a plain text",
        params={"command": "echo 'a.b'", "contains": ["a?b"]},
        status="failed",
        message="output contains none of 'a?b'; last line: 'a.b'",
    ),
    Case(
        "no output",
        params={"command": ":", "contains": ["x"]},
        status="failed",
        message="output contains none of 'x'; the command printed nothing",
    ),
    Case(
        "one of two texts, but all are required",
        params={"command": "echo a", "contains": ["a", "b"], "match": "all"},
        status="failed",
        message="output lacks 'b'; last line: 'a'",
    ),
    Case(
        "a text of two lines",
        params={"command": "echo a; echo b", "contains": ["a\nb"]},
        message="output contains 'a\\nb'",
    ),
    Case(
        "a message of the shell",
        params={"command": "no-such || true", "contains": ["no-such"]},
        message="output contains",
    ),
    Case(
        "a shell that the image lacks, with any exit code",
        params={"command": "x", "contains": ["no such"], "shell": "/no", "exit_code": "any"},
        status="failed",
        message="no shell /no",
    ),
    Case(
        "the markers of the script are no output",
        params={"command": "true", "contains": ["=E", "=B"]},
        status="failed",
        message="contains none of",
    ),
    Case(
        "a NUL byte",
        params={"command": "printf 'a\\000b'", "contains": ["b"]},
        message="output contains 'b'",
    ),
    Case(
        "bytes that are not UTF-8",
        params={"command": "printf '\\377\\376x'", "contains": ["x"]},
        message="output contains 'x'",
    ),
    Case(
        "the expected exit code, but not the text",
        params={"command": "exit 2; echo", "contains": ["x"], "exit_code": 2},
        status="failed",
        message="contains none of",
    ),
    Case(
        "a text of drawn numbers",
        params={"command": "echo = $(({a} * 3))", "contains": ["= {a*3}\n"], "draw": DRAW},
        message="output contains '= ",
    ),
    Case(
        "another text than that of drawn numbers",
        params={"command": "echo '= {a*2}'; : {a}", "contains": ["= {a}\n"], "draw": DRAW},
        status="failed",
        message="none of '= ",
    ),
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


# Failed builds, as docker 20.10.24 (legacy builder, BuildKit), docker 28.5.2 (buildx 0.29.1) and
# podman 5.8.6 print them

LEGACY_NOTICE = (
    "DEPRECATED: The legacy builder is deprecated and will be removed in a future release.\n"
    "            BuildKit is currently disabled; enable it by removing the DOCKER_BUILDKIT=0\n"
    "            environment-variable.\n\n"
)
BUILDKIT_START = (
    '#0 building with "default" instance using docker driver\n\n'
    "#1 [internal] load build definition from Dockerfile\n"
    "#1 transferring dockerfile: 72B done\n"
    "#1 DONE 0.0s\n\n"
)


FROM = "FROM busybox:stable\n ---> a79ebfed6780"  # a step of the legacy builder


def legacy(*steps: str, error: str) -> dict[str, str]:
    """Return stdout and stderr of the legacy builder; a step is an instruction and its output."""
    numbered = "".join(f"Step {at}/{len(steps)} : {step}\n" for at, step in enumerate(steps, 1))
    stdout = f"Sending build context to Docker daemon  4.608kB\r\r\n{numbered}"
    return {"stdout": stdout, "stderr": f"{LEGACY_NOTICE}{error}"}


def buildkit(*vertices: str, error: str) -> dict[str, str]:
    """Return stderr of BuildKit.

    Each vertex is its title and its output, `error` is what follows after that.
    """
    log = BUILDKIT_START
    for at, vertex in enumerate(vertices, 2):
        log += "".join(f"#{at} {line}\n" for line in vertex.split("\n")) + "\n"
    return {"stderr": f"{log}------\n{error}"}


def podman(*steps: str, error: str) -> dict[str, str]:
    """Return stdout and stderr of podman."""
    numbered = "".join(f"STEP {at}/{len(steps)}: {step}\n" for at, step in enumerate(steps, 1))
    return {"stdout": numbered, "stderr": f"Error: {error}"}
