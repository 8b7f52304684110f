"""The test types (section 2): their scripts run on the host, in the shells that images have.

These are dash, bash and busybox.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NamedTuple

import pytest
from cases import CASES, ENVIRONMENT, fill, output_contains, run_command
from conftest import PIPES, messages, outcome, statuses

import DockerfileEvaluator as de


@pytest.fixture
def files(fake):
    fill(fake.root)
    os.mkfifo(str(fake.root / "pipe"))
    fake.set(environment=ENVIRONMENT)


def test_each_test_type_has_cases():
    assert set(CASES) == set(de.CHECKS)


def test_each_case_has_its_verdict_in_each_shell(fake, files, evaluate, shell):
    cases = [(kind, case) for kind, rows in CASES.items() for case in rows]
    fake.set(shell=shell)

    report = evaluate(["FROM x"], *((kind, case.params) for kind, case in cases))

    wrong = [
        f"{kind}, {case.when}: {row['status']}, {row['message']}"
        for row, (kind, case) in zip(report["test_results"], cases)
        if row["status"] != case.status or case.message not in row["message"]
    ]
    assert wrong == []
    assert report["error"] is None


@pytest.mark.parametrize("is_on_the_path", [True, False], ids=["PATH", "working folder"])
def test_command_must_be_executable(fake, evaluate, shell, tmp_path, is_on_the_path):
    """Also in the working folder, through an empty PATH entry: busybox finds any file there."""
    programs = tmp_path / "programs on the path"
    programs.mkdir()
    path = str(programs) if is_on_the_path else f"{programs}:"
    fake.set(shell=shell, environment={"PATH": path})
    folder = programs if is_on_the_path else fake.root
    for name, mode in (("notes", 0o644), ("cd", 0o644), ("tool", 0o755)):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(mode)
    (folder / "folder").mkdir()
    expected = {
        "notes": "failed",
        "tool": "passed",
        "folder": "failed",
        "no-such": "failed",
        "cd": "passed",
    }

    tests = [{"id": name, "type": "command_exists", "params": {"name": name}} for name in expected]
    report = evaluate(["FROM x"], *tests)

    assert statuses(report) == expected


def test_shell_that_is_no_program_fails_the_test(fake, files, evaluate):
    fake.set(shell=shutil.which("dash") or pytest.skip("no dash on this machine"))
    test = ("run_command", {"command": "true", "shell": "./file", "exit_code": "any"})

    report = evaluate(["FROM x"], test)

    assert list(statuses(report).values()) == ["failed"]


# Shells that the image has changed

BUILTINS = "[ : alias break case cat command continue echo eval exec exit export printf read return"
FORGES = """() { case "$*" in
*[0-9]) /usr/bin/printf '%s\\n' "${*%[0-9]*}0"; exit 0 ;;
*) /usr/bin/printf '%s\\n' "$*" ;;
esac; }"""


class Functions(NamedTuple):
    """Functions of bash that the environment of an image brings along, all with the same body."""

    when: str
    names: str
    body: str


FUNCTIONS = [
    Functions(
        "they exit", names=f"{BUILTINS} set shift test trap true unset", body="() { exit 0; }"
    ),
    Functions(
        "they do nothing",
        names="[ cat cd command echo printf test unset",
        body="() { return 0; }",
    ),
    Functions("they forge an exit code", names="echo printf", body=FORGES),
]
FAILING = [
    run_command("/bin/false"),
    ("command_exists", {"name": "no-such-program"}),
    ("files_exist", {"paths": ["/no/such"]}),
    ("file_contains", {"path": "file", "contains": ["straw"]}),
]
PASSING = [run_command("/bin/true"), ("file_contains", {"path": "file", "contains": ["needle"]})]


@pytest.mark.parametrize("functions", FUNCTIONS, ids=lambda functions: functions.when)
def test_bash_functions_of_the_environment_change_no_verdict(
    fake, files, evaluate, tmp_path, functions
):
    """bash as /bin/sh imports the function echo from ENV BASH_FUNC_echo%%=…"""
    os.symlink(shutil.which("bash"), str(tmp_path / "sh"))
    environment = {f"BASH_FUNC_{name}%%": functions.body for name in functions.names.split()}
    fake.set(shell=str(tmp_path / "sh"), environment=environment)

    report = evaluate(["FROM x"], *FAILING, *PASSING)

    assert list(statuses(report).values()) == ["failed"] * 4 + ["passed"] * 2


def test_bash_function_of_any_name_is_no_command(fake, evaluate, tmp_path):
    os.symlink(shutil.which("bash"), str(tmp_path / "sh"))
    fake.set(shell=str(tmp_path / "sh"), environment={"BASH_FUNC_no-such%%": "() { :; }"})

    report = evaluate(["FROM x"], ("command_exists", {"name": "no-such"}))

    assert outcome(report) == "failed"


FORGES_MARKERS = (
    "case $* in *=B) /bin/echo $1; /bin/echo needle; /bin/echo ${1%=B}=E 0; exit 0;; esac"
)


@pytest.mark.parametrize(
    ("name", "body", "more"),
    [
        ("echo", FORGES_MARKERS, ":%builtin"),
        ("test", "return 0", ":%builtin"),
        ("cat", "echo straw", ""),
    ],
)
def test_functions_on_the_path_gain_nothing(fake, files, evaluate, tmp_path, name, body, more):
    """dash loads functions from a folder FOLDER%func; its own commands are at %builtin."""
    dash = shutil.which("dash") or pytest.skip("no dash on this machine")
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / name).write_text(f"{name}() {{ {body}; }}\n")
    path = f"{tmp_path}/functions%func{more}:{os.environ['PATH']}"
    fake.set(shell=dash, environment={"PATH": path})

    report = evaluate(["FROM x"], *FAILING, output_contains("true", "needle"))

    assert set(statuses(report).values()) == {"failed"}


# Text


def latin_1(folder):
    """Return the environment of a locale with one byte per letter."""
    made = folder / "locales" / "de_DE.ISO-8859-1"
    made.parent.mkdir()
    words = ["localedef", "--no-archive", "-i", "de_DE", "-f", "ISO-8859-1", str(made)]
    if not shutil.which("localedef") or subprocess.run(words, **PIPES).returncode:
        pytest.skip("cannot make a locale with one byte per letter")
    return {"LOCPATH": str(made.parent), "LC_ALL": made.name}


@pytest.mark.parametrize("locale", ["C", "ISO-8859-1"])
def test_rubric_text_is_utf_8_in_every_locale(fake, start, arguments, report, tmp_path, locale):
    settings = latin_1(tmp_path) if locale != "C" else {"LC_ALL": "C"}
    (fake.root / "größe").mkdir()
    (fake.root / "größe" / "ö€").write_text("läuft", encoding="utf-8")
    tests = [
        run_command("test $(printf %s 'ö€' | od -An -tx1 | tr -d ' \\n') = c3b6e282ac"),
        output_contains("echo größe", "größe"),
        ("file_contains", {"path": "größe/ö€", "contains": ["läuft"]}),
        ("files_exist", {"paths": ["größe/ö€"]}),
    ]
    environment = {**os.environ, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", **settings}

    start(*arguments(["FROM x"], *tests), env=environment).communicate(timeout=60)

    assert set(statuses(report()).values()) == {"passed"}, messages(report())


class Quoted(NamedTuple):
    """What a failed command printed, and the line of it that its message quotes."""

    when: str
    output: str
    quoted: str


QUOTED = [
    Quoted("one line has an error", "checking\nerror: no 'x'\ndone", "error: no 'x'"),
    Quoted("two lines have an error", "E: not found\nE: Unable to x\nbye", "E: Unable to x"),
    Quoted("no line has an error", "one\ntwo\n\n", "two"),
    Quoted("the error is far from the end", "an error\n" + "progress\n" * 40, "progress"),
    Quoted("it has colours and control characters", "\033[31mred\033[0m\b\n", "red\\x08"),
    Quoted("there is none", "\n", "no output"),
]


@pytest.mark.parametrize("row", QUOTED, ids=lambda row: row.when)
def test_message_of_a_failed_command_quotes_its_last_error(row):
    lines = de.text_lines(row.output)

    assert de.reason(lines) == row.quoted
