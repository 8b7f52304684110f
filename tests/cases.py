"""Tests for rubrics, and what each test type says of a folder of files: params, status, and words of the message."""

from __future__ import annotations

import os


def run_command(command: str, **more: object) -> dict:
    return {"type": "run_command", "params": {"command": command}, **more}


def output_contains(command: str, *contains: str, **more: object) -> dict:
    return {"type": "output_contains", "params": {"command": command, "contains": list(contains)}, **more}


def files_exist(*paths: str, **more: object) -> dict:
    return {"type": "files_exist", "params": {"paths": list(paths)}, **more}


TRUE = run_command("cd /")
FALSE = run_command("echo why; false")
LOOK = files_exist("/etc/passwd")
HELLO = output_contains("echo hello $HOME", "hello")

NASTY = [*"-dash $(false) `x` it's * ~ é€ \\n ! (".split(), "with space", 'say "hi"', "new\nline"]

ENVIRONMENT = {"SET": "1", "EMPTY": "", "PREFIX_SET": "1", "dotted.name": "x"}


def fill(folder) -> None:
    """Make the files that the cases speak of (but for a pipe, which no build context can hold)."""
    (folder / "folder").mkdir()
    (folder / "file").write_text("needle in the hay\n")
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o755)
    os.symlink("file", folder / "link")
    os.symlink("nowhere", folder / "dangling")
    for name in NASTY:
        (folder / name).write_text(f"<{name}>")


CASES = {
    "command_exists": [
        ({"name": "sh"}, "passed", "found '"),
        ({"name": "cd"}, "passed", "found 'cd'"),
        ({"name": "./program"}, "passed", "found './program'"),
        ({"name": "no-such"}, "failed", "not found: 'no-such'"),
        ({"name": "/etc"}, "failed", "not found: '/etc'"),
        ({"name": "./file"}, "failed", "not found: './file'"),
        ({"name": "-v"}, "failed", "not found: '-v'"),
        ({"name": "sh; true"}, "failed", "not found: 'sh; true'"),
    ],
    "commands_exist": [
        ({"names": ["sh", "cat"]}, "passed", "found '"),
        ({"names": ["sh", "no", "cat", "nope"]}, "failed", "not found: 'no', 'nope'"),
        ({"names": ["sh", *(f"no{i}" for i in range(30))]}, "failed", "'no4', 25 more"),
    ],
    "envvar_set": [
        ({"name": "SET"}, "passed", "SET is set"),
        ({"name": "PATH"}, "passed", "PATH is set"),
        ({"name": "dotted.name"}, "passed", "dotted.name is set"),
        ({"name": "EMPTY"}, "failed", "EMPTY is set, but empty"),
        ({"name": "IFS"}, "failed", "IFS is not set"),
        ({"name": "PWD"}, "failed", "PWD is not set"),
        ({"name": "PREFIX"}, "failed", "PREFIX is not set"),
        ({"name": "dotted_name"}, "failed", "dotted_name is not set"),
    ],
    "files_exist": [
        ({"paths": ["file"]}, "passed", "1 file found"),
        ({"paths": ["file", "link", *NASTY]}, "passed", "15 files found"),
        ({"paths": ["file", "missing"]}, "failed", "no such file: 'missing'"),
        ({"paths": ["fil*"]}, "failed", "no such file: 'fil*'"),
        ({"paths": ["$PWD/file"]}, "failed", "no such file: '$PWD/file'"),
        (
            {"paths": ["folder", "dangling"]},
            "failed",
            "a link to nothing: 'dangling'; a directory, not a file: 'folder'",
        ),
        ({"paths": ["pipe"]}, "failed", "not a file: 'pipe'"),
    ],
    "dirs_exist": [
        ({"paths": ["folder", "/etc"]}, "passed", "2 directories found"),
        ({"paths": ["folder"]}, "passed", "1 directory found"),
        ({"paths": ["file"]}, "failed", "a file, not a directory: 'file'"),
        ({"paths": ["nowhere"]}, "failed", "no such directory: 'nowhere'"),
    ],
    "file_contains": [
        ({"path": "file", "contains": ["nothing", "needle"]}, "passed", "file holds 'needle'"),
        ({"path": "link", "contains": ["hay\n"]}, "passed", "link holds 'hay\\n'"),
        ({"path": "file", "contains": ["Needle"]}, "failed", "file holds none of 'Needle'"),
        (
            {"path": "file", "contains": ["needle", "hay"], "match": "all"},
            "passed",
            "file holds 'needle', 'hay'",
        ),
        ({"path": "file", "contains": ["needle", "straw"], "match": "all"}, "failed", "file lacks 'straw'"),
        ({"path": "file", "contains": ["needle.*hay"]}, "failed", "holds none of"),
        ({"path": "missing", "contains": ["file"]}, "failed", "missing: no such file"),
        ({"path": "folder", "contains": ["file"]}, "failed", "folder: a directory, not a file"),
        ({"path": "pipe", "contains": ["x"]}, "failed", "pipe: not a regular file"),
        ({"path": "-dash", "contains": ["<-dash>"]}, "passed", "-dash holds '<-dash>'"),
        ({"path": "$(false)", "contains": ["<$(false)>"]}, "passed", "holds"),
        ({"path": "é€", "contains": ["é€"]}, "passed", "é€ holds 'é€'"),
    ],
    "run_command": [
        ({"command": "true"}, "passed", "exit code 0"),
        ({"command": "exit 3"}, "failed", "exit code 3"),
        ({"command": "exit 3", "exit_code": 3}, "passed", "exit code 3"),
        ({"command": "true", "exit_code": 3}, "failed", "exit code 0, expected 3"),
        ({"command": "exit 200", "exit_code": "any"}, "passed", "exit code 200"),
        ({"command": "set -e; false; echo on"}, "failed", "exit code 1"),
        ({"command": "exec true"}, "passed", "exit code 0"),
        ({"command": "exec sh -c 'exit 130'"}, "failed", "exit code 130"),
        ({"command": "if"}, "failed", "exit code 2 (a syntax error in the rubric's command)"),
        ({"command": "no-such"}, "failed", "exit code 127 (command not found)"),
        ({"command": "./file"}, "failed", "exit code 126 (cannot be executed)"),
        ({"command": "kill -9 $$"}, "failed", "exit code 137 (killed; out of memory?)"),
        ({"command": "exit 125"}, "failed", "exit code 125"),
        ({"command": 'test -z "$nonce$status"'}, "passed", "exit code 0"),
        ({"command": "read line || exit 4"}, "failed", "exit code 4"),
        ({"command": "sleep 60 & echo away"}, "passed", "exit code 0"),
        (
            {"command": "printf '%s' \"$0\" | grep -x fine", "shell": "./fine"},
            "failed",
            "the image has no shell ./fine",
        ),
        ({"command": "-x; exit 5"}, "failed", "exit code 5"),
        ({"command": "+x; exit 6"}, "failed", "exit code 6"),
        (
            {
                "command": "test {a} -ge 1 && test {a*b} -eq $(({a} * {b}))",
                "draw": {"a": [1, 999], "b": [-999, 999]},
            },
            "passed",
            "exit code 0",
        ),
    ],
    "output_contains": [
        ({"command": "echo out", "contains": ["out"]}, "passed", "output holds 'out'"),
        ({"command": "echo err >&2", "contains": ["err"]}, "passed", "output holds 'err'"),
        ({"command": "printf out", "contains": ["out"]}, "passed", "output holds 'out'"),
        ({"command": "echo out; exit 1", "contains": ["out"]}, "failed", "exit code 1: out"),
        (
            {"command": "echo 'a.b'", "contains": ["a?b", "A.B"]},
            "failed",
            "output holds none of 'a?b', 'A.B'",
        ),
        ({"command": "echo a; echo b", "contains": ["a\nb"]}, "passed", "output holds 'a\\nb'"),
        ({"command": "no-such || true", "contains": ["no-such"]}, "passed", "output holds"),
        (
            {"command": "x", "contains": ["not found", "no such"], "shell": "/no/zsh", "exit_code": "any"},
            "failed",
            "the image has no shell /no/zsh",
        ),
        ({"command": "true", "contains": ["=E", "=B"]}, "failed", "holds none of"),
        ({"command": "printf 'a\\000b'", "contains": ["b"]}, "passed", "output holds 'b'"),
        ({"command": "printf '\\377\\376x'", "contains": ["x"]}, "passed", "output holds 'x'"),
        ({"command": "exit 2; echo", "contains": ["x"], "exit_code": 2}, "failed", "holds none of"),
        (
            {"command": "echo = $(({a} * 3))", "contains": ["= {a*3}\n"], "draw": {"a": [1000000, 2999999]}},
            "passed",
            "output holds '= ",
        ),
        (
            {"command": "echo '= {a*2}'; : {a}", "contains": ["= {a}\n"], "draw": {"a": [1000000, 2999999]}},
            "failed",
            "output holds none of '= ",
        ),
    ],
}
