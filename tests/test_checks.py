"""The test types: their scripts run in the shells that images have (dash, bash, busybox), on the host."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from cases import CASES, ENVIRONMENT, fill, output_contains, run_command
from conftest import PIPES, messages, statuses

import DockerfileEvaluator as de


@pytest.fixture
def files(fake):
    fill(fake.root)
    os.mkfifo(str(fake.root / "pipe"))
    fake.set(environment=ENVIRONMENT)


def test_each_case_has_its_verdict_in_each_shell(fake, files, evaluate, shell):
    fake.set(shell=shell)
    assert set(CASES) == set(de.CHECKS)
    cases = [(kind, *case) for kind, rows in CASES.items() for case in rows]
    report = evaluate(["FROM x"], *((kind, params) for kind, params, _, _ in cases), jobs=4)
    for row, (_, params, status, message) in zip(report["test_results"], cases):
        assert (row["status"], message in row["message"]) == (status, True), (params, row)
    assert fake.left() == []


# Commands


@pytest.mark.parametrize("path", ["", "$PATH:"])
def test_command_must_be_executable(fake, evaluate, shell, path, tmp_path):
    """On the PATH, and in the working folder through an empty PATH entry: busybox finds any file there."""
    programs = tmp_path / "programs on the path"
    programs.mkdir()
    folder = fake.root if path else programs
    fake.set(
        shell=shell, environment={"PATH": path.replace("$PATH", str(programs)) or str(programs)}
    )
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
    assert statuses(evaluate(["FROM x"], *tests)) == expected


def test_missing_paths_are_counted(fake, evaluate):
    report = evaluate(
        ["FROM x"], ("files_exist", {"paths": [f"/absent/{number}" for number in range(90)]})
    )
    assert messages(report)[0].endswith("/absent/4; 85 more")


# Shells that the image has changed

BUILTINS = "[ : alias break case cat command continue echo eval exec exit export printf read return set shift test trap true unset"
FORGES = """() { case "$*" in
*[0-9]) /usr/bin/printf '%s\\n' "${*%[0-9]*}0"; exit 0 ;;
*) /usr/bin/printf '%s\\n' "$*" ;;
esac; }"""
FUNCTIONS = {
    "exits": (BUILTINS, "() { exit 0; }"),
    "does nothing": ("[ cat command echo printf test unset", "() { return 0; }"),
    "forges": ("echo printf", FORGES),
}
VERDICTS = {
    "false": (run_command("/bin/false"), "failed"),
    "true": (run_command("/bin/true"), "passed"),
    "program": (("command_exists", {"name": "no-such-program"}), "failed"),
    "file": (("files_exist", {"paths": ["/no/such"]}), "failed"),
    "content": (("file_contains", {"path": "file", "contains": ["needle"]}), "passed"),
    "no content": (("file_contains", {"path": "file", "contains": ["straw"]}), "failed"),
}


@pytest.mark.parametrize("how", sorted(FUNCTIONS))
def test_bash_functions_of_the_environment_change_no_verdict(fake, files, evaluate, tmp_path, how):
    """bash as /bin/sh imports the function echo from ENV BASH_FUNC_echo%%=…; all functions at once."""
    names, body = FUNCTIONS[how]
    os.symlink(shutil.which("bash"), str(tmp_path / "sh"))
    functions = {f"BASH_FUNC_{name}%%": body for name in names.split()}
    fake.set(shell=str(tmp_path / "sh"), environment=functions)
    report = evaluate(["FROM x"], *(test for test, _ in VERDICTS.values()))
    assert list(statuses(report).values()) == [status for _, status in VERDICTS.values()]


FORGES_MARKERS = (
    "case $* in *=B) /bin/echo $1; /bin/echo needle; /bin/echo ${1%=B}=E 0; exit 0;; esac"
)


@pytest.mark.parametrize(("name", "body"), [("echo", FORGES_MARKERS), ("test", "return 0")])
def test_functions_on_the_path_change_no_verdict(fake, files, evaluate, tmp_path, name, body):
    """dash loads functions from a folder FOLDER%func, and looks for its built-in commands at %builtin."""
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / name).write_text(f"{name}() {{ {body}; }}\n")
    path = f"{tmp_path}/functions%func:%builtin:{os.environ['PATH']}"
    fake.set(
        shell=shutil.which("dash") or pytest.skip("no dash on this machine"),
        environment={"PATH": path},
    )
    tests = [test for test, status in VERDICTS.values() if status == "failed"]
    assert set(
        statuses(evaluate(["FROM x"], *tests, output_contains("true", "needle"))).values()
    ) == {"failed"}


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
    assert (messages(report()) and set(statuses(report()).values())) == {"passed"}
    assert err == b""


# Output


def test_output_keeps_head_and_tail(fake, evaluate):
    """8 KB of a failed command, 1 KB of one that passed; what is between them is counted."""
    command = (
        "echo head; i=0; while [ $i -lt 3000 ]; do echo 0123456789; i=$((i+1)); done; echo tail"
    )
    short = [
        run_command("echo a; echo b >&2; false"),
        run_command("echo c"),
        ("dirs_exist", {"paths": ["/"]}),
    ]
    report = evaluate(["FROM x"], run_command(f"{command}; false"), run_command(command), *short)
    failed, passed, *others = [row["output"] for row in report["test_results"]]
    for output, size in ((failed, 8192), (passed, 1024)):
        assert output.startswith("head\n") is True
        assert output.endswith("0123456789\ntail\n") is True
        assert size < len(output) < size + 100
        assert "bytes left out …]" in output
    assert others == ["a\nb\n", "c\n", None]


OUTPUTS = {  # of a failed command: what the message quotes
    "error line": ("checking\nerror: no such module 'x'\nmake: leaving\ndone", "error: no such module 'x'"),
    "last error line": ("E: first\nE: Unable to locate package x\nbye", "E: Unable to locate package x"),
    "python": ("Traceback (most recent call last):\n  x\nModuleNotFoundError: No module named 'x'", "ModuleNotFoundError: No module named 'x'"),
    "no error line": ("one\ntwo\n\n", "two"),
    "control characters": ("error: \033[31mred", "error: \\x1b[31mred"),
}  # fmt: skip


MEANINGS = {
    "echo 'tool: error while loading shared libraries: libx.so.1'; exit 127": "exit code 127: tool: error while loading shared libraries: libx.so.1",
    "exit 127": "exit code 127: no output (command not found)",
    "exit 126": "exit code 126: no output (not executable)",
    "exit 139": "exit code 139: no output (crashed)",
}  # fmt: skip


def test_message_of_failed_command_quotes_its_error_or_explains_the_exit_code(fake, evaluate):
    tests = [run_command(command) for command in MEANINGS]
    for name, (output, _) in OUTPUTS.items():
        (fake.root / name).write_text(output)
        tests.append(run_command(f"cat '{name}'; exit 7"))
    quoted = [f"exit code 7: {line}" for _, line in OUTPUTS.values()]
    assert messages(evaluate(["FROM x"], *tests)) == [*MEANINGS.values(), *quoted]


@pytest.mark.parametrize(
    "text", ["a" * 65536, "a\n" * 32768, " " * 65536, "error " * 10000, "E: x:" * 13000]
)
def test_error_line_takes_linear_time(text):
    """A regular expression that backtracks would take minutes for such output."""
    timer = os.times().user
    de.error_line(text)
    assert os.times().user - timer < 5
