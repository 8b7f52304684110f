"""The test types: their scripts run on the host, in the shells that images have.

These are dash, bash and busybox.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NamedTuple

import pytest
from cases import CASES, ENVIRONMENT, fill, output_contains, run_command
from conftest import PIPES, messages, statuses

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

    report = evaluate(["FROM x"], *((kind, case.params) for kind, case in cases), jobs=4)

    rows = report["test_results"]
    assert len(rows) == len(cases)
    for row, (kind, case) in zip(rows, cases):
        assert row["status"] == case.status, f"{kind}, {case.when}: {row}"
        assert case.message in row["message"], f"{kind}, {case.when}: {row}"
    assert fake.left() == []


# Commands


@pytest.mark.parametrize("is_on_the_path", [True, False], ids=["PATH", "working folder"])
def test_command_must_be_executable(fake, evaluate, shell, tmp_path, is_on_the_path):
    """Also in the working folder, through an empty PATH entry: busybox finds any file there."""
    programs = tmp_path / "programs on the path"
    programs.mkdir()
    path = str(programs) if is_on_the_path else f"{programs}:"
    fake.set(shell=shell, environment={"PATH": path})
    folder = programs if is_on_the_path else fake.root
    for name, mode in (("notes", 0o644), ("tool", 0o755)):
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


def test_missing_paths_are_counted(fake, evaluate):
    report = evaluate(
        ["FROM x"], ("files_exist", {"paths": [f"/absent/{number}" for number in range(90)]})
    )
    assert messages(report)[0].endswith("/absent/4; 85 more")


# Shells that the image has changed

BUILTINS = [
    "[",
    ":",
    "alias",
    "break",
    "case",
    "cat",
    "command",
    "continue",
    "echo",
    "eval",
    "exec",
    "exit",
    "export",
    "printf",
    "read",
    "return",
    "set",
    "shift",
    "test",
    "trap",
    "true",
    "unset",
]
FORGES = """() { case "$*" in
*[0-9]) /usr/bin/printf '%s\\n' "${*%[0-9]*}0"; exit 0 ;;
*) /usr/bin/printf '%s\\n' "$*" ;;
esac; }"""


class Functions(NamedTuple):
    """Functions of bash that the environment of an image brings along, all with the same body."""

    when: str
    names: list[str]
    body: str


FUNCTIONS = [
    Functions("they exit", names=BUILTINS, body="() { exit 0; }"),
    Functions(
        "they do nothing",
        names=["[", "cat", "command", "echo", "printf", "test", "unset"],
        body="() { return 0; }",
    ),
    Functions("they forge an exit code", names=["echo", "printf"], body=FORGES),
]


class Verdict(NamedTuple):
    """A test, and its status in a shell that nobody has changed."""

    test: object
    status: str


VERDICTS = [
    Verdict(run_command("/bin/false"), status="failed"),
    Verdict(run_command("/bin/true"), status="passed"),
    Verdict(("command_exists", {"name": "no-such-program"}), status="failed"),
    Verdict(("files_exist", {"paths": ["/no/such"]}), status="failed"),
    Verdict(("file_contains", {"path": "file", "contains": ["needle"]}), status="passed"),
    Verdict(("file_contains", {"path": "file", "contains": ["straw"]}), status="failed"),
]


@pytest.mark.parametrize("functions", FUNCTIONS, ids=lambda functions: functions.when)
def test_bash_functions_of_the_environment_change_no_verdict(
    fake, files, evaluate, tmp_path, functions
):
    """bash as /bin/sh imports the function echo from ENV BASH_FUNC_echo%%=…"""
    os.symlink(shutil.which("bash"), str(tmp_path / "sh"))
    environment = {f"BASH_FUNC_{name}%%": functions.body for name in functions.names}
    fake.set(shell=str(tmp_path / "sh"), environment=environment)

    report = evaluate(["FROM x"], *(verdict.test for verdict in VERDICTS))

    assert list(statuses(report).values()) == [verdict.status for verdict in VERDICTS]


FORGES_MARKERS = (
    "case $* in *=B) /bin/echo $1; /bin/echo needle; /bin/echo ${1%=B}=E 0; exit 0;; esac"
)


@pytest.mark.parametrize(("name", "body"), [("echo", FORGES_MARKERS), ("test", "return 0")])
def test_functions_on_the_path_change_no_verdict(fake, files, evaluate, tmp_path, name, body):
    """dash loads functions from a folder FOLDER%func; its own commands are at %builtin."""
    dash = shutil.which("dash") or pytest.skip("no dash on this machine")
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / name).write_text(f"{name}() {{ {body}; }}\n")
    path = f"{tmp_path}/functions%func:%builtin:{os.environ['PATH']}"
    fake.set(shell=dash, environment={"PATH": path})

    tests = [verdict.test for verdict in VERDICTS if verdict.status == "failed"]
    report = evaluate(["FROM x"], *tests, output_contains("true", "needle"))

    assert set(statuses(report).values()) == {"failed"}


# Locales


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
        ("dirs_exist", {"paths": ["größe"]}),
    ]
    words = arguments(["FROM x"], *tests, more=["--verbose"])
    environment = {**os.environ, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", **settings}

    _, err = start(*words, env=environment).communicate(timeout=60)

    assert set(statuses(report()).values()) == {"passed"}, messages(report())
    assert err == b""


# Output


LONG_OUTPUT = (
    "echo head; i=0; while [ $i -lt 3000 ]; do echo 0123456789; i=$((i+1)); done; echo tail"
)


@pytest.mark.parametrize(
    ("command", "size"),
    [(f"{LONG_OUTPUT}; false", 8192), (LONG_OUTPUT, 1024)],
    ids=["failed: 8 KB", "passed: 1 KB"],
)
def test_long_output_keeps_its_beginning_and_end(fake, evaluate, command, size):
    """What is between them is counted."""
    (row,) = evaluate(["FROM x"], run_command(command))["test_results"]

    output = row["output"]
    assert output.startswith("head\n")
    assert output.endswith("0123456789\ntail\n")
    assert size < len(output) < size + 100
    assert "bytes left out …]" in output


@pytest.mark.parametrize(
    ("test", "output"),
    [
        (run_command("echo a; echo b >&2; false"), "a\nb\n"),
        (run_command("echo c"), "c\n"),
        (("dirs_exist", {"paths": ["/"]}), None),
    ],
    ids=["of a failed command", "of a passed command", "without a command"],
)
def test_short_output_is_in_the_report(fake, evaluate, test, output):
    (row,) = evaluate(["FROM x"], test)["test_results"]

    assert row["output"] == output


class Quoted(NamedTuple):
    """What a failed command printed, and the line of it that its message quotes."""

    when: str
    output: str
    quoted: str


QUOTED = [
    Quoted(
        "one line has an error",
        output="checking\nerror: no such module 'x'\nmake: leaving\ndone",
        quoted="error: no such module 'x'",
    ),
    Quoted(
        "two lines have an error",
        output="E: first\nE: Unable to locate package x\nbye",
        quoted="E: Unable to locate package x",
    ),
    Quoted(
        "a traceback of Python",
        output="Traceback (most recent call last):\n  x\nModuleNotFoundError: No module named 'x'",
        quoted="ModuleNotFoundError: No module named 'x'",
    ),
    Quoted("no line has an error", output="one\ntwo\n\n", quoted="two"),
    Quoted("control characters", output="error: \033[31mred", quoted="error: \\x1b[31mred"),
]


def test_message_of_failed_command_quotes_its_error(fake, evaluate):
    for row in QUOTED:
        (fake.root / row.when).write_text(row.output)

    tests = [run_command(f"cat '{row.when}'; exit 7") for row in QUOTED]
    report = evaluate(["FROM x"], *tests)

    assert messages(report) == [f"exit code 7: {row.quoted}" for row in QUOTED]


NO_LIBRARY = "tool: error while loading shared libraries: libx.so.1"
MEANINGS = {
    f"echo '{NO_LIBRARY}'; exit 127": f"exit code 127: {NO_LIBRARY}",
    "exit 127": "exit code 127: no output (command not found)",
    "exit 126": "exit code 126: no output (not executable)",
    "exit 139": "exit code 139: no output (crashed)",
}


def test_exit_code_is_explained_unless_there_is_output(fake, evaluate):
    report = evaluate(["FROM x"], *(run_command(command) for command in MEANINGS))

    assert messages(report) == list(MEANINGS.values())


@pytest.mark.parametrize(
    "text", ["a" * 65536, "a\n" * 32768, " " * 65536, "error " * 10000, "E: x:" * 13000]
)
def test_error_line_takes_linear_time(text):
    """A regular expression that backtracks would take minutes for such output."""
    before = os.times().user

    de.error_line(text)

    assert os.times().user - before < 5


def test_last_error_at_the_end_of_a_long_output_is_quoted():
    lines = ["error: the first one", *["progress"] * 100, "error: the last one", "done"]

    assert de.error_line("\n".join(lines)) == "error: the last one"


def test_error_far_from_the_end_of_a_long_output_is_not_looked_for():
    lines = ["error: the first one", *["progress"] * 100]

    assert de.error_line("\n".join(lines)) == "progress"


def test_environment_that_cannot_be_read_fails(fake, evaluate):
    variable = {"type": "envvar_set", "params": {"name": "HOME"}}
    fake.shell("nonce=$4", r'printf "$nonce=B\nHOME=/root\n$nonce=E 1\n"', "exit 1")

    report = evaluate(["FROM x"], variable)

    assert messages(report) == ["cannot read the environment (exit code 1)"]
    assert list(statuses(report).values()) == ["failed"]
