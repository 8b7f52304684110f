"""rubrics/review.py on suites, results by name and parts of a list."""

from __future__ import annotations

import functools
import json
import re

import pytest
from cases import files_exist, output_contains, run_command
from conftest import PROJECT, called, load_program

review = load_program(PROJECT / "rubrics" / "review.py")
run = functools.partial(called, review.main)  # returns the exit code, stdout and stderr


def of_type(test_type, **params):
    return {"type": test_type, "params": params}


def by_name(command, junit, **params):
    return of_type("run_command", command=command, junit=junit, **params)


def read_tests(*tests):
    return review.de.read_rubric(json.dumps({"tests": [*tests]}).encode(), "rubric").tests


# Lint: a suite that succeeds if no test ran

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
npm test
make test
./go-test.sh
test -f go
mytool test
cat cargo.toml
"""


def rules(test):
    shfmt = review.find_shfmt() or pytest.skip("needs shfmt (pip install shfmt-py)")
    return [rule for _, rule, _ in review.lint(read_tests(test), shfmt)]


@pytest.mark.parametrize("command", EMPTY.strip().splitlines())
def test_suite_that_may_run_no_test_is_named(command):
    counted = [
        of_type("run_command", command=command, count=r"(\d+) passed", of=3),
        by_name(command, "r.xml", of=3),
        by_name(command, "r.xml", tests=["a"], exit_code=0),
        output_contains(command, "= 3 passed in"),
        of_type("run_command", command=command, exit_code=1),
    ]

    assert rules(run_command(command)) == ["no-tests"]
    assert [rules(test) for test in counted] == [[]] * 5


@pytest.mark.parametrize("command", RAN.strip().splitlines())
def test_what_is_no_such_suite_is_not(command):
    assert rules(run_command(command)) == []


def test_that_is_advice(rubric):
    code, out, _ = run(rubric(run_command("cd x; go test ./...")))

    assert "no-tests: tests[0] 'run_command_1': 'go test ./...' succeeds if no test ran;" in out
    assert (code, "1 tests, 1 points, 0 warnings" in out) == (0, True)


# Measuring

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
PARTS = [of_type("commands_exist", names=["sh", "nosuch-command", "cat", "other"], match="share")]


@pytest.mark.parametrize("base", ["debian:bookworm-slim", "busybox:stable"])
def test_faked_image_writes_results(engine, rubric, base):
    path = rubric(*({**test, "timeout": 60} for test in [*FAKED, *NOT_FAKED]))

    out = run(path, "--base", base)[1]

    faked = re.findall(r"faked: tests\[(\d+)\] '\w+': ([^;]+)", out)
    assert [int(at) for at, _ in faked] == list(range(len(FAKED)))
    texts = [text for _, text in faked]
    assert texts[0] == "passes with stubs that write what it counts"
    assert re.fullmatch("earns 0.01000. of 1 points with stubs that write what it counts", texts[4])


def test_part_of_a_list_is_measured_by_the_part_that_is_there(engine, rubric):
    out = run(rubric(*PARTS), "--base", "busybox:stable")[1]

    assert "bare 0.5 (50.0%), faked 1 (100.0%)" in out
    assert "bare: tests[0] 'commands_exist_1': earns 0.5 of 1 points on the base image" in out


SUITES = [FAKED[0], FAKED[6]]
MEASURES = {  # tests that all images without the work pass, and what is said of the rubric
    "suites": (SUITES, 0, "r: advice: images without the work earn all points"),
    "a suite and others": ([*SUITES, files_exist("x")], 0, "r: advice: images without the work"),
    "no suite": ([files_exist("x")], 1, "r: measures nothing: images without the work"),
}


@pytest.mark.parametrize(("tests", "code", "text"), MEASURES.values(), ids=MEASURES)
def test_suites_that_only_stubs_pass_are_no_mistake(monkeypatch, rubric, tests, code, text):
    def measure(_path, _data, tests, _arguments):
        passed = [review.Measured(test.score, ()) for test in tests]
        bare = [review.Measured(0, ("no",)) for test in tests]
        return {"bare": bare, "faked": passed}, True

    monkeypatch.setattr(review, "measure", measure)
    path = rubric(*tests)

    found, out, _ = run(path, "--base", "x")

    assert found == code
    assert text in out.replace(path, "r")


def test_suite_that_the_base_image_passes_measures_nothing():
    tests = read_tests(*SUITES)
    passed = [review.Measured(test.score, ()) for test in tests]
    points = {"bare": passed, "faked": passed}

    assert review.earned(tests, points, can_fake_suites=False) == 0
    assert review.earned(tests, {"faked": passed}, can_fake_suites=False) == 2
    assert review.earned(tests, {"faked": passed}) == 0
