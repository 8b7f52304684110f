"""Tests for rubrics, and the verdicts of each test type on a folder of files: params, status, part of the message."""

from __future__ import annotations

import os


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
HELLO = output_contains("echo hello $HOME", "hello")

SPECIAL_NAMES = [
    *"-dash $(false) `x` it's * ~ é€ \\n ! (".split(),
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


P, F = "passed", "failed"
NO_FILE = "no such file, or not accessible to the image's user"
DRAW = {"a": [1000000, 2999999]}
CASES = {
    "command_exists": [
        ({"name": "sh"}, P, "found "),
        ({"name": "cd"}, P, "found cd"),
        ({"name": "./program"}, P, "found ./program"),
        ({"name": "no-such"}, F, "not found: no-such"),
        ({"name": "/etc"}, F, "not found: /etc"),
        ({"name": "./file"}, F, "not found: ./file"),
        ({"name": "-v"}, F, "not found: -v"),
        ({"name": "sh; true"}, F, "not found: sh; true"),
    ],
    "commands_exist": [
        ({"names": ["sh", "cat"]}, P, "found "),
        ({"names": ["sh", "no", "cat", "nope"]}, F, "not found: nope"),
        ({"names": ["sh", *(f"no{i}" for i in range(30))]}, F, "; 25 more"),
    ],
    "envvar_set": [
        ({"name": "SET"}, P, "SET is set"),
        ({"name": "PATH"}, P, "PATH is set"),
        ({"name": "dotted.name"}, P, "dotted.name is set"),
        ({"name": "EMPTY"}, F, "EMPTY is set, but empty"),
        ({"name": "IFS"}, F, "IFS is not set"),
        ({"name": "PWD"}, F, "PWD is not set"),
        ({"name": "PREFIX"}, F, "PREFIX is not set"),
        ({"name": "dotted_name"}, F, "dotted_name is not set"),
    ],
    "files_exist": [
        ({"paths": ["file", "link", *SPECIAL_NAMES]}, P, "found "),
        ({"paths": ["file", "missing"]}, F, f"{NO_FILE}: missing"),
        ({"paths": ["fil*"]}, F, f"{NO_FILE}: fil*"),
        ({"paths": ["$PWD/file"]}, F, f"{NO_FILE}: $PWD/file"),
        (
            {"paths": ["folder", "dangling"]},
            F,
            f"a directory, not a file: folder; {NO_FILE}: dangling",
        ),
        ({"paths": ["pipe"]}, F, "neither a file nor a directory: pipe"),
    ],
    "dirs_exist": [
        ({"paths": ["folder", "/etc", "link-to-folder"]}, P, "found "),
        ({"paths": ["link"]}, F, "a file, not a directory: link"),
        ({"paths": ["file"]}, F, "a file, not a directory: file"),
        (
            {"paths": ["nowhere"]},
            F,
            "no such directory, or not accessible to the image's user: nowhere",
        ),
    ],
    "file_contains": [
        ({"path": "file", "contains": ["nothing", "needle"]}, P, "file contains 'needle'"),
        ({"path": "link", "contains": ["hay\n"]}, P, "link contains 'hay\\n'"),
        ({"path": "file", "contains": ["Needle"]}, F, "file contains none of 'Needle'"),
        (
            {"path": "file", "contains": ["needle", "hay"], "match": "all"},
            P,
            "file contains 'needle', 'hay'",
        ),
        (
            {"path": "file", "contains": ["needle", "straw"], "match": "all"},
            F,
            "file lacks 'straw'",
        ),
        ({"path": "file", "contains": ["needle.*hay"]}, F, "contains none of"),
        ({"path": "missing", "contains": ["file"]}, F, f"cannot read missing: {NO_FILE}"),
        ({"path": "folder", "contains": ["file"]}, F, "cannot read folder: not a regular file"),
        ({"path": "pipe", "contains": ["x"]}, F, "cannot read pipe: not a regular file"),
        ({"path": "-dash", "contains": ["<-dash>"]}, P, "-dash contains '<-dash>'"),
        ({"path": "$(false)", "contains": ["<$(false)>"]}, P, "contains"),
        ({"path": "é€", "contains": ["é€"]}, P, "é€ contains 'é€'"),
    ],
    "run_command": [
        ({"command": "true"}, P, "exit code 0"),
        ({"command": "exit 3"}, F, "exit code 3: no output"),
        ({"command": "exit 3", "exit_code": 3}, P, "exit code 3"),
        ({"command": "true", "exit_code": 3}, F, "exit code 0, expected 3"),
        ({"command": "exit 200", "exit_code": "any"}, P, "exit code 200"),
        ({"command": "set -e; false; echo on"}, F, "exit code 1"),
        ({"command": "exec true"}, P, "exit code 0"),
        ({"command": "exec sh -c 'exit 130'"}, F, "exit code 130"),
        ({"command": "if"}, F, "exit code 2"),
        ({"command": "no-such"}, F, "exit code 127: "),
        ({"command": "kill -9 $$"}, F, "exit code 137: no output (killed)"),
        ({"command": "exit 125"}, F, "exit code 125"),
        ({"command": 'test -z "$status$path"'}, P, "exit code 0"),
        ({"command": "read line || exit 4"}, F, "exit code 4"),
        ({"command": "sleep 600 & echo away"}, P, "exit code 0"),
        ({"command": "true", "shell": "./no"}, F, "the image has no shell ./no"),
        ({"command": "-x; exit 5"}, F, "exit code 5"),
        ({"command": "+x; exit 6"}, F, "exit code 6"),
        ({"command": "test {a*2} -eq $(({a} + {a}))", "draw": DRAW}, P, "exit code 0"),
    ],
    "output_contains": [
        ({"command": "echo out", "contains": ["out"]}, P, "output contains 'out'"),
        ({"command": "echo err >&2", "contains": ["err"]}, P, "output contains 'err'"),
        ({"command": "printf out", "contains": ["out"]}, P, "output contains 'out'"),
        ({"command": "echo out; exit 1", "contains": ["out"]}, F, "exit code 1: out"),
        (
            {"command": "echo 'a.b'", "contains": ["a?b"]},
            F,
            "output contains none of 'a?b'; last line: 'a.b'",
        ),
        (
            {"command": ":", "contains": ["x"]},
            F,
            "output contains none of 'x'; the command printed nothing",
        ),
        (
            {"command": "echo a", "contains": ["a", "b"], "match": "all"},
            F,
            "output lacks 'b'; last line: 'a'",
        ),
        ({"command": "echo a; echo b", "contains": ["a\nb"]}, P, "output contains 'a\\nb'"),
        ({"command": "no-such || true", "contains": ["no-such"]}, P, "output contains"),
        (
            {"command": "x", "contains": ["no such"], "shell": "/no", "exit_code": "any"},
            F,
            "no shell /no",
        ),
        ({"command": "true", "contains": ["=E", "=B"]}, F, "contains none of"),
        ({"command": "printf 'a\\000b'", "contains": ["b"]}, P, "output contains 'b'"),
        ({"command": "printf '\\377\\376x'", "contains": ["x"]}, P, "output contains 'x'"),
        ({"command": "exit 2; echo", "contains": ["x"], "exit_code": 2}, F, "contains none of"),
        (
            {"command": "echo = $(({a} * 3))", "contains": ["= {a*3}\n"], "draw": DRAW},
            P,
            "output contains '= ",
        ),
        (
            {"command": "echo '= {a*2}'; : {a}", "contains": ["= {a}\n"], "draw": DRAW},
            F,
            "none of '= ",
        ),
    ],
}


# Failed builds, as docker 20.10.24 (legacy builder, BuildKit), docker 28.5.2 (buildx 0.29.1) and podman 5.8.6 print them


def legacy(*steps: str, error: str) -> dict[str, str]:
    """Return stdout and stderr of the legacy builder; each step is an instruction and its output."""
    numbered = "".join(f"Step {at}/{len(steps)} : {step}\n" for at, step in enumerate(steps, 1))
    notice = (
        "DEPRECATED: The legacy builder is deprecated and will be removed in a future release.\n"
    )
    notice += (
        "            BuildKit is currently disabled; enable it by removing the DOCKER_BUILDKIT=0\n"
    )
    notice += "            environment-variable.\n\n"
    stdout = f"Sending build context to Docker daemon  4.608kB\r\r\n{numbered}"
    return {"stdout": stdout, "stderr": f"{notice}{error}"}


def buildkit(*vertices: str, error: str) -> dict[str, str]:
    """Return stderr of BuildKit; each vertex is its title and its output, `error` is what follows after that."""
    log = '#0 building with "default" instance using docker driver\n\n'
    log += "#1 [internal] load build definition from Dockerfile\n#1 transferring dockerfile: 72B done\n#1 DONE 0.0s\n\n"
    for at, vertex in enumerate(vertices, 2):
        log += "".join(f"#{at} {line}\n" for line in vertex.split("\n")) + "\n"
    return {"stderr": f"{log}------\n{error}"}


def podman(*steps: str, error: str) -> dict[str, str]:
    """Return stdout and stderr of podman."""
    numbered = "".join(f"STEP {at}/{len(steps)}: {step}\n" for at, step in enumerate(steps, 1))
    return {"stdout": numbered, "stderr": f"Error: {error}"}
