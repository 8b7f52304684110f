"""The test types (section 2): their scripts run on the host, in the shells that images have.

These are dash, bash and busybox.
"""

import json
import os
import shutil
import sys

import pytest
from cases import CASES, ENVIRONMENT, fill, output_contains, read_tests, run_command, table
from conftest import outcome, statuses

import DockerfileEvaluator as de


@pytest.fixture
def files(fake):
    fill(fake.root)
    fake.set(environment=ENVIRONMENT)


def test_each_test_type_has_cases():
    assert {*CASES, de.HTTP} == set(de.CHECKS)


def test_each_case_has_its_verdict_in_each_shell(fake, files, score, shell):
    fake.set(shell=shell)
    cases = [(kind, case) for kind, rows in CASES.items() for case in rows]

    report = score(*((kind, case.params) for kind, case in cases))

    for row, (_, case) in zip(report["test_results"], cases):
        assert case.then in (row["status"] if row["passed"] else row["message"]), case.when


IN_THE_WORKING_FOLDER = {"file": "failed", "folder": "failed", "program": "passed", "cd": "passed"}


def test_command_in_the_working_folder_must_be_executable(fake, files, score, shell):
    """An empty PATH entry is the working folder: busybox finds any file there."""
    fake.set(shell=shell, environment={"PATH": "/nowhere:"})
    (fake.root / "cd").touch()

    report = score(*(("command_exists", {"name": name}) for name in IN_THE_WORKING_FOLDER))

    assert list(statuses(report).values()) == list(IN_THE_WORKING_FOLDER.values())


# Shells that the image has changed: functions that its environment brings along

# Functions -> what becomes of tests that pass otherwise
#     shell, names: whose functions they are, and their names
#     body: what they do
#     more: what else is on the PATH
FUNCTIONS = r"""
they exit -> passed
    names: [ : alias break case cat command continue echo eval exec exit export printf read return
    body: exit 0;
they exit, too -> passed
    names: set shift test trap true unset
    body: exit 0;
they do nothing -> passed
    names: [ cat cd command echo printf test unset
    body: return 0;
they forge an exit code -> passed
    names: echo printf
    body: case $* in *[0-9]) /bin/echo "${*%[0-9]*}0"; exit 0 ;; *) /bin/echo "$*" ;; esac;
one has the name of a missing command -> passed
    names: no-such-program
    body: :;
one forges the markers -> failed
    shell: dash
    names: echo
    body: case $* in *=B) /bin/echo $1; /bin/echo needle; /bin/echo ${1%=B}=E 0; exit 0;; esac
    more: :%builtin
one says yes -> failed
    shell: dash
    names: test
    body: return 0
    more: :%builtin
one prints what is looked for -> failed
    shell: dash
    names: cat
    body: echo straw
"""
FAILING, PASSING = json.loads("""[
    [
        ["run_command", {"command": "/bin/false"}],
        ["command_exists", {"name": "no-such-program"}],
        ["files_exist", {"paths": ["/no/such"]}],
        ["file_contains", {"path": "file", "contains": ["straw"]}],
        ["output_contains", {"command": "true", "contains": ["needle"]}]
    ], [
        ["run_command", {"command": "/bin/true"}],
        ["file_contains", {"path": "file", "contains": ["needle"]}]
    ]
]""")


def test_shell_of_a_command_can_be_of_another_language(fake, score):
    test = run_command("import sys; sys.exit(3)")
    test["params"].update(shell=os.path.realpath(sys.executable), exit_code=3)

    assert outcome(score(test)) == "passed"


@table(FUNCTIONS, shell="bash", names="", body="", more="")
def test_functions_of_the_environment_gain_nothing(fake, files, score, tmp_path, row):
    """bash as /bin/sh imports the function echo from ENV BASH_FUNC_echo%%=…

    dash loads functions from a folder FOLDER%func of the PATH; its own commands are at %builtin. No
    test passes with either.
    """
    (tmp_path / "sh").symlink_to(shutil.which(row.shell))
    if row.shell == "dash":
        (fake.folder / row.names).write_text(f"{row.names}() {{ {row.body}; }}\n")
        environment = {"PATH": f"{fake.folder}%func{row.more}:{os.environ['PATH']}"}
    else:
        body = f"() {{ {row.body} }}"
        environment = {f"BASH_FUNC_{name}%%": body for name in row.names.split()}
    fake.set(shell=str(tmp_path / "sh"), environment=environment)

    report = score(*map(tuple, FAILING + PASSING))

    assert list(statuses(report).values()) == ["failed"] * 5 + [row.then] * 2


def test_environment_of_the_image_is_that_of_the_command(fake, files, score, shell):
    """nvm's startup file ends with a condition that is false."""
    (fake.root / "startup").write_text("test -s /no/such/file && . /no/such/file\n")
    names = ["path", "code", "file", "size", "total", "name", "words"]
    startup = {"BASH_ENV": str(fake.root / "startup")}
    fake.set(shell=shell, environment={**startup, **dict.fromkeys(names, "of the image")})
    command = " && ".join(f'test "${name}" = "of the image"' for name in names)
    in_bash = ("run_command", {"command": command, "shell": "/bin/bash"})

    report = score(run_command(command), in_bash)

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


def test_entry_is_found_only_if_the_script_says_so_of_each():
    (test,) = read_tests({"type": "command_exists", "params": {"name": "x"}})

    assert test.check.judge(1, de.Printed(b"found x\n\n1\n"))[0] == 0
    assert test.check.judge(0, de.Printed(b"found x\n\n11\n"))[0] == 0
