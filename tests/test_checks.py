"""The test types (section 2): their scripts run on the host, in the shells that images have.

These are dash, bash and busybox.
"""

import os
import sys

import pytest
from cases import CASES, ENVIRONMENT, fill, output_contains, read_tests, run_command
from conftest import outcome, statuses

import DockerfileEvaluator as de


@pytest.fixture
def files(fake):
    fill(fake.root)
    fake.set(environment=ENVIRONMENT)


def test_each_test_type_has_cases():
    assert {*CASES, de.HTTP} == set(de.CHECKS)


def test_each_case_has_its_verdict_in_each_shell(fake, files, evaluate, shell):
    fake.set(shell=shell)
    cases = [(kind, case) for kind, rows in CASES.items() for case in rows]

    report = evaluate(["FROM x"], *((kind, case.params) for kind, case in cases))

    wrong = [
        (case.when, row["message"])
        for row, (_, case) in zip(report["test_results"], cases)
        if case.then not in (row["status"] if row["passed"] else row["message"])
    ]
    assert wrong == []


IN_THE_WORKING_FOLDER = {"file": "failed", "folder": "failed", "program": "passed", "cd": "passed"}


def test_command_in_the_working_folder_must_be_executable(fake, files, evaluate, shell):
    """An empty PATH entry is the working folder: busybox finds any file there."""
    fake.set(shell=shell, environment={"PATH": "/nowhere:"})
    (fake.root / "cd").touch()

    names = ({"name": name} for name in IN_THE_WORKING_FOLDER)
    report = evaluate(["FROM x"], *(("command_exists", params) for params in names))

    assert list(statuses(report).values()) == list(IN_THE_WORKING_FOLDER.values())


# Shells that the image has changed: functions that its environment brings along

BUILTINS = "[ : alias break case cat command continue echo eval exec exit export printf read return"
FORGES = """ case "$*" in
*[0-9]) /usr/bin/printf '%s\\n' "${*%[0-9]*}0"; exit 0 ;;
*) /usr/bin/printf '%s\\n' "$*" ;;
esac; """
FORGES_MARKERS = (
    "case $* in *=B) /bin/echo $1; /bin/echo needle; /bin/echo ${1%=B}=E 0; exit 0;; esac"
)
FUNCTIONS = {  # the shell, names and body of the functions, and more of the PATH
    "they exit": ("bash", f"{BUILTINS} set shift test trap true unset", " exit 0; ", ""),
    "they do nothing": ("bash", "[ cat cd command echo printf test unset", " return 0; ", ""),
    "they forge an exit code": ("bash", "echo printf", FORGES, ""),
    "one has the name of a missing command": ("bash", "no-such-program", " :; ", ""),
    "one forges the markers": ("dash", "echo", FORGES_MARKERS, ":%builtin"),
    "one says yes": ("dash", "test", "return 0", ":%builtin"),
    "one prints what is looked for": ("dash", "cat", "echo straw", ""),
}
FAILING = [
    run_command("/bin/false"),
    ("command_exists", {"name": "no-such-program"}),
    ("files_exist", {"paths": ["/no/such"]}),
    ("file_contains", {"path": "file", "contains": ["straw"]}),
    output_contains("true", "needle"),
]
PASSING = [run_command("/bin/true"), ("file_contains", {"path": "file", "contains": ["needle"]})]


def test_shell_of_a_command_can_be_of_another_language(fake, evaluate):
    test = run_command("import sys; sys.exit(3)")
    test["params"].update(shell=os.path.realpath(sys.executable), exit_code=3)

    assert outcome(evaluate(["FROM x"], test)) == "passed"


@pytest.mark.parametrize(
    ("shell", "names", "body", "more"), FUNCTIONS.values(), ids=FUNCTIONS, indirect=["shell"]
)
def test_functions_of_the_environment_gain_nothing(fake, files, evaluate, shell, names, body, more):
    """bash as /bin/sh imports the function echo from ENV BASH_FUNC_echo%%=…

    dash loads functions from a folder FOLDER%func of the PATH; its own commands are at %builtin. No
    test passes with either.
    """
    environment = {f"BASH_FUNC_{name}%%": f"() {{{body}}}" for name in names.split()}
    if "dash" in os.path.realpath(shell):
        (fake.folder / names).write_text(f"{names}() {{ {body}; }}\n")
        environment = {"PATH": f"{fake.folder}%func{more}:{os.environ['PATH']}"}
    fake.set(shell=shell, environment=environment)

    report = evaluate(["FROM x"], *FAILING, *PASSING)

    expected = ["failed"] * 5 + ["failed" if "PATH" in environment else "passed"] * 2
    assert list(statuses(report).values()) == expected


def test_environment_of_the_image_is_that_of_the_command(fake, files, evaluate, shell):
    """nvm's startup file ends with a condition that is false."""
    (fake.root / "startup").write_text("test -s /no/such/file && . /no/such/file\n")
    names = ["path", "code", "file", "size", "total", "name", "words"]
    startup = {"BASH_ENV": str(fake.root / "startup")}
    fake.set(shell=shell, environment={**startup, **dict.fromkeys(names, "of the image")})
    command = " && ".join(f'test "${name}" = "of the image"' for name in names)
    in_bash = ("run_command", {"command": command, "shell": "/bin/bash"})

    report = evaluate(["FROM x"], run_command(command), in_bash)

    assert outcome(report) == "passed", report["test_results"]


# Text


def test_rubric_text_is_utf_8_in_every_locale(fake, start, arguments, report):
    (fake.root / "ö€").write_text("läuft", encoding="utf-8")
    tests = [
        run_command("test $(printf %s 'ö€' | od -An -tx1 | tr -d ' \\n') = c3b6e282ac"),
        output_contains("echo größe", "größe"),
        ("file_contains", {"path": "ö€", "contains": ["läuft"]}),
    ]
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}

    process = start(*arguments(["FROM x"], *tests), env={**os.environ, **ascii_only})
    process.communicate(timeout=60)

    assert outcome(report()) == "passed"


@pytest.mark.parametrize(("code", "output"), [(1, b"found x\n\n1\n"), (0, b"found x\n\n11\n")])
def test_entry_is_found_only_if_the_script_says_so_of_each(code, output):
    (test,) = read_tests({"type": "command_exists", "params": {"name": "x"}})

    earned, _ = test.check.judge(code, de.Printed(output))

    assert earned == 0
