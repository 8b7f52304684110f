"""rubrics/review.py: lint rules as tables, measuring on the fake engine and on a real one."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from cases import files_exist, output_contains, run_command
from conftest import PIPES, PROJECT, called, load_program

review = load_program(PROJECT / "rubrics" / "review.py")
run = functools.partial(called, review.main)  # returns the exit code, stdout and stderr


def of_type(test_type, **params):
    return {"type": test_type, "params": params}


def counts(expression, of=20, command="make check", **params):
    return of_type("run_command", command=command, count=expression, of=of, **params)


def by_name(command, junit, **params):
    return of_type("run_command", command=command, junit=junit, **params)


def responds(port=8080, **params):
    return {"type": "http_responds", "service": port, "params": params}


def run_by_bash(command):
    return of_type("run_command", command=command, shell="/bin/bash")


def read_tests(*tests):
    """Return tests as the evaluator reads them; a text is the command of one."""
    content = [run_command(test) if isinstance(test, str) else test for test in tests]
    return review.de.read_rubric(json.dumps({"tests": content}).encode(), "rubric").tests


# Lint. A text is the command of a test.

DRAW = {"a": [1, 10**7]}
CANNOT_FAIL = [
    "nosuch || true",
    "nosuch; true",
    "nosuch || :",
    "nosuch && b || true",
    "nosuch || true >/dev/null 2>&1",
    "nosuch\ntrue\n",
    "nosuch; echo done",
    "nosuch || b || echo 'no || thing'",
    "echo hello",
]
# Suites that succeed if no test ran, and what is none of them
EMPTY = """
go test ./...
cd app && /usr/local/go/bin/go test -v ./...
CGO_ENABLED=0 go test ./...
timeout 60 go test ./...
cargo test
cargo test --no-fail-fast
mvn -q test
./mvnw -B clean verify
gradle test
./gradlew --no-daemon check
jest --passWithNoTests
npx jest --ci --passWithNoTests
yarn vitest run --passWithNoTests
npx vitest run -t 'cart > totals'
jest --testNamePattern=totals
npx mocha -g totals
behave --tags=@smoke
pytest --collect-only
python3 -m pytest --collect-only -q
pytest --co
python -m unittest
python3.11 -m unittest discover -v
ctest --test-dir build
phpunit tests
vendor/bin/phpunit
bundle exec rspec
dotnet test
mix test
meson test -C build
npm ci && xvfb-run -a npx jest --passWithNoTests
"""
RAN = """
go build ./...
go vet ./...
go test -c ./core
mvn -q test-compile
go test -v ./... | grep -q '^--- PASS'
grep go test
cargo build
cargo test --no-run
mvn -q package
mvn -DskipTests verify
./gradlew build -x test
gradle assemble
jest
npx vitest run
pytest -q
python3 -m pytest tests
python3 -m unittests
ctest --test-dir build --no-tests=error
phpunit --fail-on-empty-test-suite tests
rspec --fail-if-no-examples
mocha --fail-zero -g totals
vitest --typecheck
npm test
make test
./go-test.sh
test -f go
mytool test
cat cargo.toml
"""
WARNED = {
    "no-tests": EMPTY.strip().splitlines(),
    "no-syntax": [
        "if true; then echo ok",
        "echo 'never closed",
        "a && ",
        "(a; true",
        "a | | b",
        run_by_bash("a=(1 2"),
    ],
    "cannot-fail": [
        *CANNOT_FAIL,
        of_type("run_command", command="make", exit_code="any"),
        of_type("run_command", command="true", exit_code=None),
    ],
    "hidden-status": [
        "app --help | head -n 5",
        "find . -name '*.js' | wc -l",
        "app 2>&1 | tail -1 2>/dev/null",
        "printf '1 2' | app | head -1",
        "app |\n  head",
        "set -e; app | wc -l",
        "find .|wc -l",
        "make 2>&1 |tee log",
    ],
    "shell-function": [
        "nvm use 20 && node -v",
        "cd x && conda activate y && python -c 1",
        of_type("commands_exist", names=["nvm"]),
        of_type("command_exists", name="sdk"),
    ],
    "carriage-return": ["make\r\n", run_by_bash("make\r"), files_exist("bin/x\r")],
    "short-needle": [
        output_contains("java -version", "version", "8"),
        of_type("file_contains", path="x", contains=["ok"]),
        output_contains("make check", "0 failed"),
    ],
    "advice": [
        output_contains("java -version", "11", "17", "21"),
        output_contains("python3 --version", "Python 3.11"),
        of_type("file_contains", path="x", contains=["STANDARD 17"]),
        output_contains("java -version", "17.0."),
    ],
    "counts-failures": [
        *map(counts, [r"(\d+) tests", r"Ran (\d+)", r"(\d+) total", r"Tests run: (\d+)"]),
        *map(counts, ["test_", "ok ", r"(\d+) examples", "tests passed"]),
    ],
    "literal-path": [
        of_type("command_exists", name="~/bin/x"),
        files_exist("x", "$H/x"),
        files_exist("src/*.py"),
        files_exist("~/x"),
    ],
    "bash-only": ["[[ -f x ]]", "if [[ -f x ]]; then make; fi", "source x && make", "A=1 source x"],
    "set-by-docker": [of_type("envvar_set", name=name) for name in ("PATH", "HOME", "HOSTNAME")],
}
MAY_FAIL = [
    "if true; then make; fi",
    "echo '(' | nosuch",
    "nosuch",
    "nosuch || false",
    'echo "building"\n"./nosuch"',
    'echo "a"&&"./nosuch"',
    "echo 'ok'>'/nosuch/x'",
    ': "${NOSUCH:?}"; echo ok',
    'test "${NOSUCH?}" = 1; echo ok',
    "printf '%d' x",
    "echo hi >&7",
    "nosuch &&\necho ok",
    "nosuch || true && nosuch",
    "nosuch || echo $((1 / 0))",
    "nosuch -c 'a || true'",
    "nosuch || { echo no; exit 1; }",
    "nosuch && (nosuch || true)",
    "set -e; nosuch; true",
    "nosuch # || true",
    "nosuch || exit 1; echo done",
    "! true",
    "nosuch || ! true",
    "true >/nosuch/x",
    "exec nosuch || true",
    ". /nosuch/x && nosuch || echo no",
    "A=1 . /nosuch; true",
    "trap 'exit 3' EXIT; nosuch; true",
    "D=${NOSUCH:?}; echo ok",
    "shift 5; echo ok",
    "kill $$; true",
    "cat <<END | nosuch\nx || true\nEND",
    "if nosuch; then true; else false; fi",
    'test -n "$(nosuch || true)"',
    "nosuch || echo x >/nosuch/y",
    "nosuch | grep -q x",
    "nosuch | head -1 | grep x",
    "nosuch | tee log && nosuch",
    "! echo | head",
    "nosuch | head.sh",
    "nosuch '| head'",
    "nosuch || head /nosuch",
    'test "$(nosuch | wc -l)" -gt 0',
    r"printf 'b\na' | sort -c",
    r"printf 'b\na' | sort -uC",
    r"printf 'b\na' | sort --check",
    "bash -o pipefail -c 'nosuch | head'",
    ". ~/.nvm/nvm.sh && nvm use 20",
    "bash -ic 'nvm-nosuch use 20'",
    "nosuch run -n x python",
    "sdk/bin/x",
]
ACCEPTED = [
    *RAN.strip().splitlines(),
    counts(r"(\d+) passed", command="go test"),
    by_name("go test", "r.xml", of=3),
    by_name("go test", "r.xml", tests=["a"], exit_code=0),
    output_contains("go test", "= 3 passed in"),
    of_type("run_command", command="go test", exit_code=1),
    of_type("run_command", command="a=(1 2", shell="/bin/zsh"),
    output_contains("echo $NOSUCH", "UTF-8\n"),
    of_type("output_contains", command="a || true", contains=[" 17.0."], exit_code="any"),
    counts(r"(\d+) passed"),
    counts("^--- PASS", exit_code="any"),
    counts("ok$", exit_code=None),
    responds(path="/~me/*", contains=["ok", "42"]),
    {**run_command("curl localhost:8080"), "service": 8080},
    run_by_bash("[[ -f x ]]"),
    run_by_bash("set -o pipefail; app | head"),
    "bash -c 'source x && [[ -f y ]]'",
    "./source x",
    of_type("run_command", command="make || echo no", exit_code=1),
    run_by_bash("cat <<END\nnever ends"),
    "cat <<END | bash\nsource y\nEND",
    "[ -f x ] && echo -n x >/dev/null 2>&1 && make source x",
    "printf 'a\r\n' | app",
    "echo a | tee /x/y",
    "printf '1 2\\n' | awk '{print $2}'",
    output_contains("app", "HTTP/1.1 200 OK\r\n", " 1.8.", "v1\n", "成功", "^v5.*$"),
    of_type("output_contains", command="app {a}", contains=["{a}"], draw=DRAW),
    files_exist("a~b", "/x y", "[z]", "A$B.class"),
    of_type("commands_exist", names=["perl", "g++", "conda"]),
    of_type("envvar_set", name="JAVA_HOME"),
]


PART = {**responds(contains=["a", "b"], match="share"), "id": "part"}
WHOLE = {**run_command("curl localhost:8080"), "service": 8080}
REQUIRED = {  # tests of one service, and how many should require the first whole one
    "all whole": ([{**WHOLE, "id": "first"}, WHOLE, WHOLE], 2),
    "one requires it": ([{**WHOLE, "id": "first"}, {**WHOLE, "requires": ["first"]}], 0),
    "a part of the points": ([PART, {**WHOLE, "id": "first"}, WHOLE], 1),
}


@pytest.mark.parametrize(("tests", "count"), REQUIRED.values(), ids=REQUIRED)
def test_tests_of_a_service_should_require_the_first_that_earns_all_or_nothing(tests, count):
    found = [text for _, _, text in review.lint(read_tests(*tests), None) if "let it" in text]

    assert found == ["let it require 'first': each waits for a service that does not start"] * count


def rules(test):
    """Return the rules that a test breaks."""
    shfmt = review.find_shfmt() or pytest.skip("needs shfmt (pip install shfmt-py)")
    return [rule for _, rule, _ in review.lint(read_tests(test), shfmt)]


@pytest.mark.parametrize(
    ("rule", "test"), [(rule, test) for rule, tests in WARNED.items() for test in tests], ids=str
)
def test_rule_warns_once(rule, test):
    assert rules(test) == [rule]


@pytest.mark.parametrize("test", [*MAY_FAIL, *ACCEPTED], ids=str)
def test_lint_is_silent_about_what_it_cannot_know(test):
    assert rules(test) == []


def test_nothing_is_said_about_a_very_long_command():
    assert rules(f"nosuch{' && nosuch' * 1000}; true") == []


@pytest.mark.parametrize("command", [*CANNOT_FAIL, *MAY_FAIL])
def test_shell_agrees_with_the_lists(command):
    done = subprocess.run(["sh", "-c", command], **PIPES)

    assert (done.returncode == 0) == (command in CANNOT_FAIL)


# Command line


def test_suite_that_may_run_no_test_is_advice(rubric):
    assert run(rubric(run_command("go test")))[0] == 0


def test_without_shfmt_one_line_says_so_and_sh_finds_syntax_errors(rubric, monkeypatch):
    monkeypatch.setattr(review, "find_shfmt", lambda: None)
    path = rubric(run_command("if"), run_command("echo || true"))

    _, out, err = run(path, path)

    assert re.fullmatch("warning: .* shfmt .*\n", err)
    assert re.findall("(.*): tests", out) == [f"{path}: no-syntax"] * 2


def test_interrupt_ends_what_runs_and_cleans_up(fake, rubric, tmp_path):
    fake.fault("run", "interrupt", number=signal.SIGTERM, seconds=0.2)

    code = run(rubric(run_command("make")), "--base=x")[0]

    assert fake.left() == os.listdir(str(tmp_path / "tmp")) == []
    assert code == 143


# Measuring


def test_options_are_those_of_all_builds_and_containers_but_the_faked_has_no_network(fake, rubric):
    options = ["--build-option=--build-arg=A=1", "--run-option=--memory=2g"]

    run(rubric(run_command("make")), "--base=x", *options, "--run-option=--network=host")

    given = re.compile("--(?:build-arg|memory|network)=.*")
    found = [list(filter(given.match, words)) for words in fake.calls("build")]
    assert found == [["--build-arg=A=1"]] * 2
    found = [list(filter(given.match, words)) for words in fake.calls("run")]
    assert found == [["--memory=2g", "--network=host"], ["--memory=2g", "--network=none"]]


@pytest.mark.parametrize(
    ("test", "has_advice"),
    [
        ("true", True),
        (of_type("run_command", command=": {a}", draw=DRAW), False),
        (of_type("commands_exist", names=["sh"]), False),
        (responds(), True),
    ],
    ids=["command", "draws already", "no command", "http"],
)
def test_draw_is_advised_where_it_can_be_used(test, has_advice, rubric):
    (problem,) = review.judge(read_tests(test), {"faked": [review.Measured(1, [])]}, 1)

    assert problem[2].endswith("use draw") == has_advice


def test_only_what_the_solution_earns_beyond_the_others_counts():
    earned = {"bare": (0.25, 1), "faked": (0.5, 0), "solution": (1, 0.5)}
    points = {name: [review.Measured(it, ()) for it in row] for name, row in earned.items()}

    assert review.earned(read_tests("a", "b"), points) == 0.5


COUNTED = {
    r"(\d+) passed": 9,
    r" \.\.\. ok$": 1,
    r"^(?:#|✔) pass (\d+)": 9,
    "<testcase [^>]*/>": 1,
    r"[✓✔] \w+ \(\d{1,3} ms\)": 1,
    r"^(?!not )ok \d+": 1,
    r"PASSED tests/x\.py::test_(?:a|b)\b": 1,
    r"(?i)pass|ok(?: +\d*)?": 1,
    r"x{3}": 1,
    r"\[PASS\]\s+\S+\.t": 1,
    r"(?<=✓ )\w+": 1,
}


@pytest.mark.parametrize(("expression", "number"), COUNTED.items())
def test_line_that_an_expression_counts_is_made(expression, number):
    """As often as it must be counted, at most MAX_LINES times."""
    for of, expected in ((20, 20), (10**9, review.MAX_LINES)):
        (test,) = read_tests(counts(expression, of))

        lines = review.counted_lines(test)

        assert len(lines) == expected
        assert review.number_counted(test, lines[0]) == number


@pytest.mark.parametrize(
    ("lines", "folder"),
    [
        (["FROM x AS base", "WORKDIR /a", "FROM Base", "WORKDIR b"], "/a/b"),
        (["FROM x", "RUN echo WORKDIR /a"], "/workspace"),
        (["FROM x", "COPY a /a", "COPY --chown=1 . /b"], "/b"),
        (["ARG TOP=/a", "FROM x", "ENV A=1 NAME=b", 'WORKDIR "$TOP/${NAME}"'], "/a/b"),
        (["FROM x", 'ENV A=1 HOME="/a"', "WORKDIR $HOME"], "/a"),
    ],
)
def test_workdir_of_a_solution_is_where_its_workdirs_lead(lines, folder):
    Path("Dockerfile").write_text("\n".join(lines))

    assert review.workdir_of("Dockerfile") == folder


def test_base_image_has_no_workdir_of_the_solution_whose_context_is_that_of_the_project(tmp_path):
    Path("Dockerfile").write_text("FROM x\nWORKDIR /srv\n")
    words = ["r", "--base=x", "--context=files", "--solution=Dockerfile"]

    images = list(review.write_images(str(tmp_path), "r", [], review.parse_arguments(words)))

    texts = {image.name: Path(image.dockerfile).read_text() for image in images}
    assert [name for name in texts if "WORKDIR /srv\n" not in texts[name]] == ["bare"]
    assert images[-1].context == "files"


MEASURED = [
    run_command("""test "$(pwd)" = '/srv/$x \\y'"""),
    files_exist("README", score=2),
    {**of_type("commands_exist", names=["tool"]), "score": 0.5},
    run_command("cmake --version"),
    {**of_type("output_contains", command="tool {a}", contains=["= {a*7}"], draw=DRAW), "score": 5},
]
SOLUTION = r"""FROM busybox:stable AS other
WORKDIR /other
FROM busybox:stable
ENV TOP=/srv
WORKDIR $TOP
WORKDIR \$x \\y
COPY . .
RUN printf '#!/bin/sh\necho = $(($1 * 7))\n' >/bin/tool && chmod +x /bin/tool
"""


def test_tests_that_prove_nothing_or_fail_are_named_with_their_image(clean_engine, rubric):
    """The base has no /usr/local/bin."""
    os.mkdir("context")
    Path("context/README").write_text("")
    Path("solution").write_text(SOLUTION)
    path = rubric(*MEASURED)

    files = ["--context", "context", "--solution", "solution"]
    code, out, _ = run(path, "--base", "busybox:stable", *files)

    points = "bare 0 (0.0%), copied 3 (31.5%), faked 4.5 (47.3%), solution 8.5 (89.4%)"
    assert f"{points}, points only the solution earns: 5 of 9.5\n" in out
    assert re.findall(r"\w+: tests\[\d\]", out) == [
        "copied: tests[0]",
        "copied: tests[1]",
        "faked: tests[2]",
        "faked: tests[3]",
        "solution: tests[3]",
    ]
    assert code == 1


PASSED_BY_STUBS = [
    of_type("commands_exist", names=["make", "./gradlew", "g++"]),
    of_type("envvar_set", name="dotted.name"),
    files_exist("src/main.c", "/opt/x y/z", "-x"),
    of_type("dirs_exist", paths=["src", "/opt", "tests/"]),
    of_type("file_contains", path="src/it's", contains=['it\'s "$x" \\n', "a\nb"], match="all"),
    run_command("cd build && ./tool --check && test -f log/out"),
    run_command('"$JAVA_HOME/bin/java" && [ -d docs ] && test -s config.ini && /opt/v/bin/py -c x'),
    run_command("echo >x.cpp && g++ -o /tmp/x x.cpp && /tmp/x && make 2>&1 | jq -e .nosuch"),
    run_command("bash -lc 'source nvm.sh; node'"),
]
FAILED_BY_STUBS = [
    MEASURED[-1],
    of_type("run_command", command="java x", exit_code=3),
    run_command("test $(x -s) -gt 5"),
    files_exist("/proc/1/x"),
]


SERVED = [
    responds(path="/health", contains=["healthy", "nosuch"], match="all"),
    responds(path="/nosuch", status=404),
    {**output_contains("curl localhost:9090", "some words"), "service": 9090},
    {**run_command("app --check"), "service": True},
    counts(r"(\d+) passed", of=500, exit_code=0),
]
NOT_SERVED = [responds(path="/{a}", contains=["is {a*7}"], draw=DRAW)]


FAKED = [
    by_name("pytest -q --junitxml=/tmp/r.xml", "/tmp/r.xml", of=120),
    by_name("cd app && ./gradlew test", "app/build/test-results/test/*.xml", of=3),
    by_name("mvn test", "*/target/x y/TEST-*.xml", tests=["a.B.c", 'it\'s <d> & "e"', "é"]),
    by_name("jest --ci", "out/it's $x.xml", tests=["a"], exit_code=0),
    by_name("cd / && suite", "r.xml", of=10**6),
    {**by_name("suite", "r.xml", of=2), "service": True},
    of_type("run_command", command="suite", count=r"(\d+) passed", of=20),
    {"type": "http_responds", "service": 80, "params": {"body": "x" * 9999, "contains": ["ok."]}},
]
NOT_FAKED = [
    by_name("no-such-shell; exit 3", "/proc/r.xml", of=1),
    by_name("suite", "r2.xml", of=1, exit_code=3),
]


@pytest.mark.parametrize("base", ["debian:bookworm-slim", "busybox:stable"])
def test_faked_image_serves_and_writes_what_is_counted(clean_engine, rubric, base):
    """With perl, and with busybox's nc."""
    free_tests = [*SERVED, *FAKED]
    path = rubric(*free_tests, *({**test, "timeout": 4} for test in [*NOT_SERVED, *NOT_FAKED]))

    out = run(path, "--base", base)[1]

    assert free(out) == list(range(len(free_tests)))
    assert "bare 0 (0.0%), faked 12.01" in out


def test_part_of_a_list_is_measured_by_the_part_that_is_there(engine, rubric):
    names = ["sh", "nosuch-command", "cat", "other"]

    out = run(
        rubric(of_type("commands_exist", names=names, match="share")), "--base=busybox:stable"
    )[1]

    assert "bare 0.5 (50.0%), faked 1 (100.0%)" in out
    assert "bare: tests[0] 'commands_exist_1': earns 0.5 of 1 points on the base image" in out


SUITES = [FAKED[0], FAKED[6]]
MEASURES = {  # tests, what they earn on all images without the work, and what is said of the rubric
    "suites": (SUITES, 0, 1, 0, "r: advice: images without the work earn all points"),
    "a suite and others": ([*SUITES, files_exist("x")], 0, 1, 0, "r: advice: images without the"),
    "no suite": ([files_exist("x")], 0, 1, 1, "r: measures nothing: images without the work"),
    "suites without a test": (SUITES, 1, 1, 1, "r: measures nothing: images without the work"),
}


@pytest.mark.parametrize(
    ("tests", "bare", "faked", "code", "text"), MEASURES.values(), ids=MEASURES
)
def test_suites_that_only_stubs_pass_are_no_mistake(
    monkeypatch, rubric, tests, bare, faked, code, text
):
    earned = {"bare": review.Measured(bare, ("no",)), "faked": review.Measured(faked, ())}
    points = {name: [each] * len(tests) for name, each in earned.items()}
    monkeypatch.setattr(review, "measure", lambda *_: (points, True))
    path = rubric(*tests)

    found, out, _ = run(path, "--base", "x")

    assert found == code
    assert text in out.replace(path, "r")


def free(out):
    """Return the tests that give points to an image without the work."""
    return [int(at) for at in re.findall(r"(?:bare|faked): tests\[(\d+)\]", out)]


def test_faked_image_has_stubs_of_names_and_strings(clean_engine, rubric):
    path = rubric(*PASSED_BY_STUBS, *FAILED_BY_STUBS)

    out = run(path, "--base", "debian:bookworm-slim")[1]

    assert free(out) == list(range(len(PASSED_BY_STUBS)))
