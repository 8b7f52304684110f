"""rubrics/review.py: lint rules as tables, measuring on the fake engine and on a real one."""

import functools
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import review
from cases import read_tests, run_command, table
from conftest import PIPES, called

run = functools.partial(called, review.main)  # returns the exit code, stdout and stderr


def as_test(line):
    """Return the test of a line: TYPE {PARAMS}, TYPE {PARAMS} + {OTHER KEYS}, or a command."""
    found = re.fullmatch(r"([a-z_]+) (\{.*?\})(?:\s+\+ (\{.*\}))?", line)
    if not found:
        return run_command(line)
    kind, params, others = found.groups("{}")
    return {"type": kind, "params": json.loads(params), **json.loads(others)}


# Lint. A test below the rule that it breaks: none is broken by what may fail, or is accepted.

LINT = r"""
== no-tests
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
== no-syntax
if true; then echo ok
echo 'never closed
run_command {"command": "a && "}
(a; true
a | | b
run_command {"command": "a=(1 2", "shell": "/bin/bash"}
== cannot-fail
nosuch || true
nosuch; true
nosuch || :
nosuch && b || true
nosuch || true >/dev/null 2>&1
run_command {"command": "nosuch\ntrue\n"}
nosuch; echo done
nosuch || b || echo 'no || thing'
echo hello
run_command {"command": ":", "exit_code": "any"}
run_command {"command": "true", "exit_code": null}
== hidden-status
app --help | head -n 5
find . -name '*.js' | wc -l
app 2>&1 | tail -1 2>/dev/null
printf '1 2' | app | head -1
run_command {"command": "app |\n  head"}
set -e; app | wc -l
find .|wc -l
make 2>&1 |tee log
== shell-function
nvm use 20 && node -v
cd x && conda activate y && python -c 1
commands_exist {"names": ["nvm"]}
command_exists {"name": "sdk"}
== carriage-return
run_command {"command": "make\r\n"}
run_command {"command": "make\r", "shell": "/bin/bash"}
files_exist {"paths": ["bin/x\r"]}
== short-needle
output_contains {"command": "java -version", "contains": ["version", "8"]}
file_contains {"path": "x", "contains": ["ok"]}
output_contains {"command": "make check", "contains": ["0 failed"]}
== advice
output_contains {"command": "java -version", "contains": ["11", "17", "21"]}
output_contains {"command": "python3 --version", "contains": ["Python 3.11"]}
file_contains {"path": "x", "contains": ["STANDARD 17"]}
output_contains {"command": "java -version", "contains": ["17.0."]}
== counts-failures
run_command {"command": "make check", "count": "(\\d+) tests", "of": 20}
run_command {"command": "make check", "count": "Ran (\\d+)", "of": 20}
run_command {"command": "make check", "count": "(\\d+) total", "of": 20}
run_command {"command": "make check", "count": "Tests run: (\\d+)", "of": 20}
run_command {"command": "make check", "count": "test_", "of": 20}
run_command {"command": "make check", "count": "ok ", "of": 20}
run_command {"command": "make check", "count": "(\\d+) examples", "of": 20}
run_command {"command": "make check", "count": "tests passed", "of": 20}
== literal-path
command_exists {"name": "~/bin/x"}
files_exist {"paths": ["x", "$H/x"]}
files_exist {"paths": ["src/*.py"]}
files_exist {"paths": ["~/x"]}
== bash-only
[[ -f x ]]
if [[ -f x ]]; then make; fi
source x && make
A=1 source x
== set-by-docker
envvar_set {"name": "PATH"}
envvar_set {"name": "HOME"}
envvar_set {"name": "HOSTNAME"}
== may-fail
if true; then make; fi
echo '(' | nosuch
nosuch
nosuch || false
run_command {"command": "echo \"building\"\n\"./nosuch\""}
echo "a"&&"./nosuch"
echo 'ok'>'/nosuch/x'
: "${NOSUCH:?}"; echo ok
test "${NOSUCH?}" = 1; echo ok
printf '%d' x
echo hi >&7
run_command {"command": "nosuch &&\necho ok"}
nosuch || true && nosuch
nosuch || echo $((1 / 0))
nosuch -c 'a || true'
nosuch || { echo no; exit 1; }
nosuch && (nosuch || true)
set -e; nosuch; true
nosuch # || true
nosuch || exit 1; echo done
! true
nosuch || ! true
true >/nosuch/x
exec nosuch || true
. /nosuch/x && nosuch || echo no
A=1 . /nosuch; true
trap 'exit 3' EXIT; nosuch; true
D=${NOSUCH:?}; echo ok
shift 5; echo ok
kill $$; true
run_command {"command": "cat <<END | nosuch\nx || true\nEND"}
if nosuch; then true; else false; fi
test -n "$(nosuch || true)"
nosuch || echo x >/nosuch/y
nosuch | grep -q x
nosuch | head -1 | grep x
nosuch | tee log && nosuch
! echo | head
nosuch | head.sh
nosuch '| head'
nosuch || head /nosuch
test "$(nosuch | wc -l)" -gt 0
printf 'b\na' | sort -c
printf 'b\na' | sort -uC
printf 'b\na' | sort --check
bash -o pipefail -c 'nosuch | head'
. ~/.nvm/nvm.sh && nvm use 20
bash -ic 'nvm-nosuch use 20'
nosuch run -n x python
sdk/bin/x
== accepted
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
run_command {"command": "go test", "count": "(\\d+) passed", "of": 20}
run_command {"command": "go test", "junit": "r.xml", "of": 3}
run_command {"command": "go test", "junit": "r.xml", "tests": ["a"], "exit_code": 0}
output_contains {"command": "go test", "contains": ["= 3 passed in"]}
run_command {"command": "go test", "exit_code": 1}
run_command {"command": "a=(1 2", "shell": "/bin/zsh"}
output_contains {"command": "echo $NOSUCH", "contains": ["UTF-8\n"]}
output_contains {"command": "a || true", "contains": [" 17.0."], "exit_code": "any"}
run_command {"command": "make check", "count": "(\\d+) passed", "of": 20}
run_command {"command": "make check", "count": "^--- PASS", "of": 20, "exit_code": "any"}
run_command {"command": "make check", "count": "ok$", "of": 20, "exit_code": null}
http_responds {"path": "/~me/*", "contains": ["ok", "42"]} + {"service": 8080}
run_command {"command": "curl localhost:8080"} + {"service": 8080}
run_command {"command": "[[ -f x ]]", "shell": "/bin/bash"}
run_command {"command": "set -o pipefail; app | head", "shell": "/bin/bash"}
bash -c 'source x && [[ -f y ]]'
./source x
run_command {"command": "make || echo no", "exit_code": 1}
run_command {"command": "cat <<END\nnever ends", "shell": "/bin/bash"}
run_command {"command": "cat <<END | bash\nsource y\nEND"}
[ -f x ] && echo -n x >/dev/null 2>&1 && make source x
run_command {"command": "printf 'a\r\n' | app"}
echo a | tee /x/y
printf '1 2\n' | awk '{print $2}'
output_contains {"command": "app", "contains": ["HTTP/1.1 200 OK\r\n", " 1.8.", "v1\n", "成功"]}
output_contains {"command": "app", "contains": ["^v5.*$"]}
output_contains {"command": "app {a}", "contains": ["{a}"], "draw": {"a": [1, 1000000]}}
files_exist {"paths": ["a~b", "/x y", "[z]", "A$B.class"]}
commands_exist {"names": ["perl", "g++", "conda"]}
envvar_set {"name": "JAVA_HOME"}
"""
LINT = [
    (rule, line)
    for rule, lines in re.findall(r"== (.*)\n((?:(?!== ).+\n)+)", LINT)
    for line in lines.splitlines()
]


def rules(test):
    """Return the rules that a test breaks."""
    shfmt = review.find_shfmt() or pytest.skip("needs shfmt (pip install shfmt-py)")
    return [rule for _, rule, _ in review.lint(read_tests(test), shfmt)]


@pytest.mark.parametrize(("rule", "line"), LINT)
def test_rule_warns_once_and_lint_is_silent_about_what_it_cannot_know(rule, line):
    assert rules(as_test(line)) == [rule] * (rule not in ("may-fail", "accepted"))


@pytest.mark.long("parses a long command")
def test_nothing_is_said_about_a_very_long_command():
    assert rules(run_command(f"nosuch{' && nosuch' * 1000}; true")) == []


@pytest.mark.parametrize(("rule", "line"), [it for it in LINT if it[0].endswith("-fail")])
def test_shell_agrees_with_the_lists(rule, line):
    done = subprocess.run(["sh", "-c", as_test(line)["params"]["command"]], **PIPES)

    assert (done.returncode == 0) == (rule == "cannot-fail")


# Tests of one service, and how many should require the first one that earns all or nothing
SERVICE = """
all whole -> 2
    tests: [{"id": "first"}, {}, {}]
one requires it -> 0
    tests: [{"id": "first"}, {"requires": ["first"]}]
a part of the points -> 1
    tests: [{"params": {"command": "x", "count": "x", "of": 2}}, {"id": "first"}, {}]
"""


@table(SERVICE, tests=[])
def test_tests_of_a_service_should_require_the_first_that_earns_all_or_nothing(row):
    tests = read_tests(*(run_command("x", service=8080, **more) for more in row.tests))

    found = [text for _, _, text in review.lint(tests, None) if "let it" in text]

    text = "let it require 'first': each waits for a service that does not start"
    assert found == [text] * int(row.then)


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

    builds, runs = (
        re.findall("--(?:build-arg|memory|network)=[^']*", str(fake.calls(name)))
        for name in ("build", "run")
    )
    assert builds == ["--build-arg=A=1"] * 2
    assert runs == ["--memory=2g", "--network=host", "--memory=2g", "--network=none"]


DRAWS = """
true -> use draw
run_command {"command": ": {a}", "draw": {"a": [1, 1000000]}} -> give it few points
commands_exist {"names": ["sh"]} -> give it few points
http_responds {} + {"service": 8080} -> use draw
"""


@table(DRAWS)
def test_draw_is_advised_where_it_can_be_used(row):
    tests = read_tests(as_test(row.when))

    ((_, _, text),) = review.judge(tests, {"faked": [review.Measured(1, [])]}, 1)

    assert text.endswith(row.then)


def test_only_what_the_solution_earns_beyond_the_others_counts():
    earned = {"bare": (0.25, 1), "faked": (0.5, 0), "solution": (1, 0.5)}
    points = {name: [review.Measured(it, ()) for it in row] for name, row in earned.items()}

    assert review.earned(read_tests(*[run_command("x")] * 2), points) == 0.5


# An expression, and what a line that is made for it adds to the count
COUNTED = r"""
(\d+) passed -> 9
x \.\.\. ok$ -> 1
^(?:#|✔) pass (\d+) -> 9
<testcase [^>]*/> -> 1
[✓✔] \w+ \(\d{1,3} ms\) -> 1
^(?!not )ok \d+ -> 1
PASSED tests/x\.py::test_(?:a|b)\b -> 1
(?i)pass|ok(?: +\d*)? -> 1
x{3} -> 1
\[PASS\]\s+\S+\.t -> 1
(?<=✓ )\w+ -> 1
"""


@table(COUNTED)
@pytest.mark.parametrize("of", [20, 10**9])
def test_line_that_an_expression_counts_is_made_at_most_10000_times(row, of):
    params = {"command": "x", "count": row.when, "of": of}
    (test,) = read_tests({"type": "run_command", "params": params})

    lines = review.counted_lines(test)

    assert len(lines) == min(of, 10_000)
    assert review.number_counted(test, lines[0]) == int(row.then)


# A Dockerfile whose lines end in |
WORKDIRS = """
FROM x AS base|WORKDIR /a|FROM Base|WORKDIR b -> /a/b
FROM x|RUN echo WORKDIR /a -> /workspace
FROM x|COPY a /a|COPY --chown=1 . /b -> /b
ARG TOP=/a|FROM x|ENV A=1 NAME=b|WORKDIR "$TOP/${NAME}" -> /a/b
FROM x|ENV A=1 HOME="/a"|WORKDIR $HOME -> /a
"""


@table(WORKDIRS)
def test_workdir_of_a_solution_is_where_its_workdirs_lead(row):
    Path("Dockerfile").write_text(row.when.replace("|", "\n"))

    assert review.workdir_of("Dockerfile") == row.then


def test_base_image_has_no_workdir_of_the_solution_whose_context_is_that_of_the_project(tmp_path):
    Path("Dockerfile").write_text("FROM x\nWORKDIR /srv\n")
    words = ["r", "--base=x", "--context=files", "--solution=Dockerfile"]

    images = list(review.write_images(str(tmp_path), "r", [], review.parse_arguments(words)))

    texts = {image.name: Path(image.dockerfile).read_text() for image in images}
    assert [name for name in texts if "WORKDIR /srv\n" not in texts[name]] == ["bare"]
    assert images[-1].context == "files"


def from_lines(text):
    """Return the tests of lines."""
    return list(map(as_test, re.findall(r".+(?:\n +.+)?", text)))


MEASURED = r"""
run_command {"command": "test \"$(pwd)\" = '/srv/$x \\y'"}
files_exist {"paths": ["README"]} + {"score": 2}
commands_exist {"names": ["tool"]} + {"score": 0.5}
cmake --version
output_contains {"command": "tool {a}", "contains": ["= {a*7}"], "draw": {"a": [1, 1000000]}}
"""
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
    Path("context/README").touch()
    Path("solution").write_text(SOLUTION)
    words = "--base busybox:stable --context context --solution solution"

    code, out, _ = run(rubric(*from_lines(MEASURED)), *words.split())

    points = "bare 0 (0.0%), copied 3 (54.5%), faked 4.5 (81.8%), solution 4.5 (81.8%)"
    assert f"{points}, points only the solution earns: 1 of 5.5\n" in out
    found = re.findall(r"(\w+): tests\[(\d)\]", out)
    assert " ".join(map(" ".join, found)) == "copied 0 copied 1 faked 2 faked 3 solution 3"
    assert code == 1


PASSED_BY_STUBS = r"""
commands_exist {"names": ["make", "./gradlew", "g++"]}
envvar_set {"name": "dotted.name"}
files_exist {"paths": ["src/main.c", "/opt/x y/z", "-x"]}
dirs_exist {"paths": ["src", "/opt", "tests/"]}
file_contains {"path": "src/it's", "contains": ["it's \"$x\" \\n", "a\nb"], "match": "all"}
cd build && ./tool --check && test -f log/out
"$JAVA_HOME/bin/java" && [ -d docs ] && test -s config.ini && /opt/v/bin/py -c x
echo >x.cpp && g++ -o /tmp/x x.cpp && /tmp/x && make 2>&1 | jq -e .nosuch
bash -lc 'source nvm.sh; node'
"""
FAILED_BY_STUBS = """
output_contains {"command": "tool {a}", "contains": ["= {a*7}"], "draw": {"a": [1, 1000000]}}
run_command {"command": "java x", "exit_code": 3}
test $(x -s) -gt 5
files_exist {"paths": ["/proc/1/x"]}
"""
FAKED = r"""
http_responds {"path": "/health", "contains": ["healthy", "x"], "match": "all"} + {"service": 80}
http_responds {"path": "/nosuch", "status": 404} + {"service": 80}
output_contains {"command": "curl localhost:9090", "contains": ["some words"]} + {"service": 9090}
run_command {"command": "app --check"} + {"service": true}
run_command {"command": "make check", "count": "(\\d+) passed", "of": 500, "exit_code": 0}
run_command {"command": "pytest -q --junitxml=/tmp/r.xml", "junit": "/tmp/r.xml", "of": 120}
run_command {"command": "cd app && ./gradlew test", "junit": "app/build/test/*.xml", "of": 3}
run_command {"command": "mvn test", "junit": "*/x y/T-*.xml", "tests": ["it's <d> & \"e\"", "é"]}
run_command {"command": "jest --ci", "junit": "out/it's $x.xml", "tests": ["a"], "exit_code": 0}
run_command {"command": "cd / && suite", "junit": "r.xml", "of": 1000000}
run_command {"command": "suite", "junit": "r.xml", "of": 2} + {"service": true}
run_command {"command": "suite", "count": "(\\d+) passed", "of": 20}
"""
NOT_FAKED = """
http_responds {"path": "/{a}", "contains": ["is {a*7}"], "draw": {"a": [1, 1000000]}}
    + {"service": 80, "timeout": 4}
run_command {"command": "no-such-shell; exit 3", "junit": "/proc/r.xml", "of": 1} + {"timeout": 4}
run_command {"command": "suite", "junit": "r2.xml", "of": 1, "exit_code": 3} + {"timeout": 4}
"""


@pytest.mark.parametrize("base", ["debian:bookworm-slim", "busybox:stable"])
def test_faked_image_serves_and_writes_what_is_counted(clean_engine, rubric, base):
    """With perl, and with busybox's nc."""
    request = {"body": "x" * 9999, "contains": ["ok."]}
    large = {"type": "http_responds", "service": 80, "params": request}
    path = rubric(large, *from_lines(FAKED + NOT_FAKED))

    out = run(path, "--base", base)[1]

    assert free(out) == list(range(13))
    assert "bare 0 (0.0%), faked 12.01" in out


# Tests, what they earn on the base image, and what is said if all of them pass on the faked one
MEASURES = """
suites -> r: advice: images without the work earn all points
    tests: [{"count": "^PASS$", "of": 1}, {"junit": "x", "of": 1}]
a suite and others -> r: advice: images without the work earn all points
    tests: [{"count": "^PASS$", "of": 1}, {}]
no suite -> r: measures nothing: images without the work earn all points
    tests: [{}]
    code: 1
suites without a test -> r: measures nothing: images without the work earn all points
    tests: [{"count": "^PASS$", "of": 1}]
    bare: 1
    code: 1
"""


@table(MEASURES, tests=[], bare=0, code=0)
def test_suites_that_only_stubs_pass_are_no_mistake(monkeypatch, rubric, row):
    points = {
        "bare": [review.Measured(row.bare, ["no"])] * len(row.tests),
        "faked": [review.Measured(1, [])] * len(row.tests),
    }
    monkeypatch.setattr(review, "measure", lambda *_: (points, True))
    path = rubric(*(("run_command", {"command": "x", **params}) for params in row.tests))

    code, out, _ = run(path, "--base", "x")

    assert code == row.code
    assert row.then in out.replace(path, "r")


def free(out):
    """Return the tests that give points to an image without the work."""
    return [int(at) for at in re.findall(r"(?:bare|faked): tests\[(\d+)\]", out)]


def test_faked_image_has_stubs_of_names_and_strings(clean_engine, rubric):
    path = rubric(*from_lines(PASSED_BY_STUBS + FAILED_BY_STUBS))

    out = run(path, "--base", "debian:bookworm-slim")[1]

    assert free(out) == list(range(9))
