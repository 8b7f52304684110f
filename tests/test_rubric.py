"""Rubrics: what is accepted, every error with its text, random numbers, and the schema."""

from __future__ import annotations

import json
import math
from typing import NamedTuple

import pytest
from cases import CASES, TRUE, output_contains, run_command
from conftest import PROJECT, called, messages, schema, statuses

import DockerfileEvaluator as de


@pytest.fixture
def load(tmp_path):
    def read(content):
        file = tmp_path / "r.json"
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return de.load_rubric(str(file))

    return read


@pytest.fixture
def errors(load, tmp_path):
    """Return the errors of a rubric, each without the path of the file."""

    def read(content):
        with pytest.raises(de.EvaluationError) as caught:
            load(content)
        return [
            line.replace(f"{tmp_path / 'r.json'}: ", "") for line in str(caught.value).splitlines()
        ]

    return read


def test_all_fields_are_read(load):
    test = {
        **TRUE,
        "id": "i",
        "timeout": 2,
        "score": 0.5,
        "requires": ["j"],
        "category": "c",
        "description": "d",
    }

    rubric = load({"repo": "r", "run_options": ["--memory=1g"], "tests": [test]})

    assert rubric.repo == "r"
    assert rubric.run_options == ("--memory=1g",)
    (test,) = rubric.tests
    assert test.id == "i"
    assert test.type == "run_command"
    assert test.timeout == 2.0
    assert test.score == 0.5
    assert test.requires == ("j",)
    assert test.category == "c"


def test_generated_id_has_the_number_of_the_test(load):
    rubric = load({"tests": [TRUE, TRUE]})

    assert [test.id for test in rubric.tests] == ["run_command_1", "run_command_2"]


def test_generated_id_differs_from_a_given_one(load):
    rubric = load({"tests": [TRUE, {**TRUE, "id": "run_command_1"}]})

    assert len({test.id for test in rubric.tests}) == 2


def test_comments_are_accepted(load):
    test = {**TRUE, "_why": "x", "params": {"command": "true", "_": 0}}

    rubric = load({"$schema": "x", "_note": 1, "tests": [test]})

    assert len(rubric.tests) == 1


def test_byte_order_mark_is_accepted(load):
    rubric = load(b"\xef\xbb\xbf" + json.dumps({"tests": [TRUE]}).encode())

    assert len(rubric.tests) == 1


@pytest.mark.parametrize("seconds", [0.5, 1, 10**6])
def test_timeout_is_any_number_of_seconds(load, seconds):
    (test,) = load({"tests": [{**TRUE, "timeout": seconds}]}).tests

    assert test.timeout == seconds


NULL_PARAMS = dict.fromkeys(["exit_code", "shell", "draw", "match"])
NULL_KEYS = dict.fromkeys(["id", "timeout", "score", "requires", "category", "description"])
WITHOUT_OPTIONAL_KEYS = {"tests": [output_contains("x", "y")]}
WITH_NULLS = {
    "repo": None,
    "run_options": None,
    "tests": [
        {
            "type": "output_contains",
            "params": {"command": "x", "contains": ["y"], **NULL_PARAMS},
            **NULL_KEYS,
        }
    ],
}


@pytest.mark.parametrize("content", [WITH_NULLS, WITHOUT_OPTIONAL_KEYS], ids=["null", "absent"])
def test_null_means_absent_for_optional_keys(load, content):
    rubric = load(content)

    assert rubric.repo is None
    assert rubric.run_options == ()
    (test,) = rubric.tests
    assert test.id == "output_contains_1"
    assert test.type == "output_contains"
    assert test.timeout == 30.0
    assert test.score == 1
    assert test.requires == ()
    assert test.category is None
    assert test.check.shell == "/bin/sh"
    schema("rubric").validate(content)


def changed(**change):
    """Return a rubric with a test that has changed keys."""
    return {"tests": [{**TRUE, **change}]}


def typed(kind, **params):
    """Return a rubric with a test of a type."""
    return {"tests": [{"type": kind, "params": params}]}


class Mistake(NamedTuple):
    """A rubric that is refused, and the beginning of its only error."""

    what: str
    content: object
    error: str
    schema_can_tell: bool = True  # where the content is JSON


TOO_LONG = "x" * 131072  # Linux passes 131071 bytes to a program
MISTAKES = [
    # The file
    Mistake(
        "broken JSON",
        content=b"{",
        error="not valid JSON: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)",
    ),
    Mistake(
        "no UTF-8",
        content=b"\xff",
        error="not valid JSON: 'utf-8' codec can't decode byte 0xff in position 0: "
        "invalid start byte",
    ),
    Mistake("deep nesting", content=b"[" * 100_000, error="not valid JSON: "),
    Mistake("an empty file", content=b" \n", error="the file is empty"),
    Mistake(
        "a key twice",
        content=b'{"tests": [{"type": "envvar_set", "params": {"name": "x", "name": "x"}}]}',
        error="tests[0].params: the key 'name' is given twice",
    ),
    # Keys of the rubric
    Mistake(
        "no tests",
        content={"repo": "r"},
        error="tests: expected a non-empty list of tests, but the key is missing",
    ),
    Mistake(
        "an empty list of tests",
        content={"tests": []},
        error="tests: expected a non-empty list of tests, found []",
    ),
    Mistake(
        "a repo that is a number",
        content={"repo": 3, "tests": [TRUE]},
        error="repo: expected a non-empty string, found 3",
    ),
    Mistake(
        "a misspelled key",
        content={"test": [], "tests": [TRUE]},
        error="unknown key 'test' (did you mean 'tests'?)",
    ),
    Mistake(
        "an id twice",
        content={"tests": [{**TRUE, "id": "a"}] * 2},
        error="tests[0] and tests[1] have the id 'a'",
        schema_can_tell=False,
    ),
    Mistake(
        "an option that no rubric may have",
        content={"tests": [TRUE], "run_options": ["--privileged"]},
        error="run_options[0]: ",
    ),
    # Keys of a test
    Mistake(
        "an unknown type",
        content=changed(type="files_exists"),
        error="tests[0].type: unknown test type 'files_exists' (did you mean 'files_exist'?)",
    ),
    Mistake(
        "params that are null",
        content=changed(params=None),
        error="tests[0].params: expected an object, found null",
    ),
    Mistake(
        "an id that is a number",
        content=changed(id=5),
        error="tests[0].id: expected a non-empty string, found 5",
    ),
    Mistake(
        "a timeout of zero",
        content=changed(timeout=0),
        error="tests[0].timeout: expected a number over 0, found 0",
    ),
    Mistake(
        "a timeout that is true",
        content=changed(timeout=True),
        error="tests[0].timeout: expected a number over 0, found true",
    ),
    Mistake(
        "a timeout that is not a number",
        content=changed(timeout=math.nan),
        error="tests[0].timeout: expected a number over 0, found NaN",
        schema_can_tell=False,
    ),
    Mistake(
        "a negative score",
        content=changed(score=-1),
        error="tests[0].score: expected a number of at least 0, found -1",
    ),
    Mistake(
        "an infinite score",
        content=changed(score=math.inf),
        error="tests[0].score: expected a number of at least 0, found Infinity",
    ),
    Mistake(
        "a requirement without a list",
        content=changed(requires="x"),
        error='tests[0].requires: expected a list of strings, found "x"',
    ),
    Mistake(
        "a requirement that is a number",
        content=changed(requires=[1]),
        error="tests[0].requires[0]: expected a non-empty string, found 1",
    ),
    Mistake(
        "a category that is a list",
        content=changed(category=[]),
        error="tests[0].category: expected a non-empty string, found []",
    ),
    Mistake(
        "a misspelled key of a test",
        content=changed(time_out=5),
        error="tests[0]: unknown key 'time_out' (did you mean 'timeout'?)",
    ),
    Mistake(
        "an unknown key of a test",
        content=changed(depends=[]),
        error="tests[0]: unknown key 'depends' (known: ",
    ),
    # Params
    Mistake(
        "no name",
        content=typed("command_exists"),
        error="tests[0].params.name: expected a non-empty string, but the key is missing",
    ),
    Mistake(
        "a long name",
        content=typed("command_exists", name=TOO_LONG),
        error="tests[0].params.name: expected at most 131071 bytes, found 131072",
    ),
    Mistake(
        "a name that is long in bytes",
        content=typed("command_exists", name="ö" * 65536),
        error="tests[0].params.name: expected at most 131071 bytes, found 131072",
        schema_can_tell=False,
    ),
    Mistake(
        "a NUL character",
        content=typed("command_exists", name="a\0b"),
        error="tests[0].params.name: expected text without NUL or lone surrogates, found ",
    ),
    Mistake(
        "a lone surrogate",
        content=typed("command_exists", name="a\ud800"),
        error="tests[0].params.name: expected text without NUL or lone surrogates, found ",
        schema_can_tell=False,
    ),
    Mistake(
        "names without a list",
        content=typed("commands_exist", names="java"),
        error='tests[0].params.names: expected a non-empty list of strings, found "java"',
    ),
    Mistake(
        "no name in the list",
        content=typed("commands_exist", names=[]),
        error="tests[0].params.names: expected a non-empty list of strings, found []",
    ),
    Mistake(
        "no file in the list",
        content=typed("files_exist", paths=[]),
        error="tests[0].params.paths: expected a non-empty list of strings, found []",
    ),
    Mistake(
        "no directory in the list",
        content=typed("dirs_exist", paths=[]),
        error="tests[0].params.paths: expected a non-empty list of strings, found []",
    ),
    Mistake(
        "an empty name",
        content=typed("commands_exist", names=["a", ""]),
        error='tests[0].params.names[1]: expected a non-empty string, found ""',
    ),
    Mistake(
        "a dollar sign before the name of a variable",
        content=typed("envvar_set", name="$HOME"),
        error='tests[0].params.name: expected a variable name, found "$HOME"',
    ),
    Mistake(
        "a misspelled param",
        content=typed("files_exist", paths=["/x"], path="/x"),
        error="tests[0].params: unknown key 'path' (did you mean 'paths'?)",
    ),
    Mistake(
        "an unknown match",
        content=typed("file_contains", path="x", contains=["y"], match="every"),
        error="tests[0].params.match: expected 'any' or 'all', found \"every\"",
    ),
    Mistake(
        "an exit code that is too high",
        content=typed("run_command", command="x", exit_code=256),
        error="tests[0].params.exit_code: expected 0 to 255 or 'any', found 256",
    ),
    Mistake(
        "an exit code that is too low",
        content=typed("run_command", command="x", exit_code=-1),
        error="tests[0].params.exit_code: expected 0 to 255 or 'any', found -1",
    ),
    Mistake(
        "an exit code that is true",
        content=typed("run_command", command="x", exit_code=True),
        error="tests[0].params.exit_code: expected 0 to 255 or 'any', found true",
    ),
    Mistake(
        "a param of another type",
        content=typed("run_command", command="x", contains=["y"]),
        error="tests[0].params: unknown key 'contains' (known: command, draw, exit_code, shell)",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_error_has_path_expected_and_actual_value(errors, mistake):
    (error,) = errors(mistake.content)

    assert error.startswith(mistake.error)


def test_all_errors_are_reported_at_once_with_path_and_id(errors):
    wrong_type = {"type": "x", "params": {}}
    wrong_param = {"id": "java", "type": "files_exist", "params": {"path": "/x"}}
    wrong_score = {**TRUE, "score": "1"}

    found = errors({"tests": [wrong_type, TRUE, wrong_param, wrong_score], "more": 1})

    assert sorted(error.split(":")[0] for error in found) == [
        "tests[0].type",
        "tests[2] 'java'.params",
        "tests[2] 'java'.params.paths",
        "tests[3].score",
        "unknown key 'more' (known",
    ]


@pytest.mark.parametrize(
    ("content", "sign"), [(b'{"tests": [1, 2,]}', "]"), (b'{"tests": [1], }', "}")]
)
def test_trailing_comma_is_named(content, sign):
    """In the words of each version of Python."""
    with pytest.raises(de.EvaluationError) as caught:
        de.parse_rubric(content, "r.json")

    assert f"(remove the comma before the '{sign}')" in str(caught.value)


def test_missing_rubric_is_an_error(tmp_path):
    with pytest.raises(de.EvaluationError, match=r"none.json.*No such file"):
        de.load_rubric(str(tmp_path / "none.json"))


def test_slip_beside_a_bracket_is_no_comma():
    with pytest.raises(de.EvaluationError) as caught:
        de.parse_rubric(b'{"tests" ]', "r.json")

    assert "comma" not in str(caught.value)


SHIPPED = sorted((PROJECT / "rubrics").glob("*.json"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_rubrics_are_valid(file):
    assert de.load_rubric(str(file)).tests
    schema("rubric").validate(json.loads(file.read_text(encoding="utf-8-sig")))


# Random numbers

DRAW = {"a": [7, 7], "b": [-3, -3], "z": [0, 999_999]}


def drawn(command, *contains, **more):
    """Return a test that draws the numbers of DRAW, and more or others."""
    test = output_contains(command, *contains) if contains else run_command(command)
    return {**test, "params": {**test["params"], "draw": {**DRAW, **more}}}


class Term(NamedTuple):
    """A text of a rubric, and what it is once a is 7 and b is -3."""

    when: str
    text: str
    filled: str


TERMS = [
    Term("names", text="{a} {b}", filled="7 -3"),
    Term("sums of two names", text="{a+b} {b-a} {a*b} {a-a}", filled="4 -10 -21 0"),
    Term("sums with a number", text="{a+1} {a-10} {a*0} {a*007}", filled="8 -3 0 49"),
    Term("text around", text="x{a}y{a}{b} {a}} { {a}; }", filled="x7y7-3 7} { 7; }"),
    Term("JSON around", text='[{"n": {a}}, {"n": [{b}]}]', filled='[{"n": 7}, {"n": [-3]}]'),
]
NO_TERMS = [
    "awk '{print $1}' ${HOME} {} {A} {x,y} $a a a} {",
    "{ run a; } { {c}; echo a | cat; } {print a} ${a} {c} {c+d}",
    "${a} {{a}}",
]


@pytest.fixture
def fill_in(load):
    """Return a text of a rubric as it is in the command, and as it is in `contains`."""

    def read(text):
        command = ": {a} {b} {z}"
        check = load({"tests": [drawn(f"{command} {text}", text)]}).tests[0].check
        (needle,) = check.needles
        return {"command": check.command.split(" ", 4)[4], "contains": needle.decode()}

    return read


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.when)
def test_terms_of_drawn_names_are_replaced(fill_in, term):
    assert fill_in(term.text) == {"command": term.filled, "contains": term.filled}


@pytest.mark.parametrize("text", NO_TERMS)
def test_other_braces_stay_as_they_are(fill_in, text):
    assert fill_in(text) == {"command": text, "contains": text}


class DrawMistake(NamedTuple):
    """A change of DRAW that is refused, and what follows `tests[0].params.draw` in its error."""

    what: str
    change: dict
    error: str


DRAW_MISTAKES = [
    DrawMistake(
        "too few combinations",
        change={"z": [0, 999_998]},
        error=": expected at least 1000000 combinations, found 999999",
    ),
    DrawMistake(
        "the wrong order",
        change={"a": [5, 3]},
        error=".a: expected two integers [from, to], found [5, 3]",
    ),
    DrawMistake(
        "three numbers",
        change={"a": [1, 2, 3]},
        error=".a: expected two integers [from, to], found [1, 2, 3]",
    ),
    DrawMistake(
        "a fraction",
        change={"a": [1, 2.5]},
        error=".a: expected two integers [from, to], found [1, 2.5]",
    ),
    DrawMistake(
        "no number",
        change={"a": [False, 9]},
        error=".a: expected two integers [from, to], found [false, 9]",
    ),
    DrawMistake(
        "a large number",
        change={"a": [0, 10**12 + 1]},
        error=".a: expected two integers [from, to], found [0, 1000000000001]",
    ),
    DrawMistake(
        "an unused name",
        change={"c": [0, 9]},
        error=": expected names that 'command' uses, found 'c'",
    ),
]


@pytest.mark.parametrize("mistake", DRAW_MISTAKES, ids=lambda mistake: mistake.what)
def test_error_in_draw(errors, mistake):
    test = drawn(": {a} {b} {z}", **mistake.change)

    assert f"tests[0].params.draw{mistake.error}" in errors({"tests": [test]})


def test_draw_that_is_no_object_is_an_error(errors):
    test = {"type": "run_command", "params": {"command": ": {a} {b} {z}", "draw": []}}

    expected = "tests[0].params.draw: expected an object of NAME: [from, to], found []"
    assert expected in errors({"tests": [test]})


def test_comment_in_draw_is_no_name(load):
    draw = {"_why": "as many as the tool takes", **DRAW}
    test = {"type": "run_command", "params": {"command": ": {a} {b} {z}", "draw": draw}}

    (read,) = load({"tests": [test]}).tests

    assert set(read.check.drawn) == set(DRAW)


def test_numbers_are_drawn_anew_for_each_evaluation(load):
    test = drawn("{a}{b}{z} {e}", e=[-1, 1])

    numbers = [load({"tests": [test]}).tests[0].check.drawn for _ in range(100)]

    assert {drawn["e"] for drawn in numbers} == {-1, 0, 1}
    assert len({drawn["z"] for drawn in numbers}) > 50


def test_output_is_compared_with_the_drawn_numbers(fake, evaluate):
    right = drawn("echo {a} {b} {z}", "{a} {b}")
    wrong = drawn("echo {a} {b} {z}", "{a*b}")

    report = evaluate(["FROM x"], {**right, "id": "right"}, {**wrong, "id": "wrong"})

    assert statuses(report) == {"right": "passed", "wrong": "failed"}
    assert "none of '-21'" in messages(report)[1]


def test_row_has_numbers_and_params_as_given(fake, evaluate):
    test = drawn("echo {a} {b} {z}", "{a*b}")

    (row,) = evaluate(["FROM x"], test)["test_results"]

    assert row["params"] == test["params"]
    assert row["drawn"]["a"] == 7
    assert row["drawn"]["b"] == -3
    assert row["output"] == f"7 -3 {row['drawn']['z']}\n"


def test_row_of_a_test_that_draws_nothing_has_no_numbers(fake, evaluate):
    (row,) = evaluate(["FROM x"], TRUE)["test_results"]

    assert row["drawn"] is None


# --check


def test_check_prints_all_errors_and_exits_with_1(rubric):
    wrong_type = {"type": "run_comand", "params": {}}
    wrong_param = {"type": "run_command", "params": {"comand": "x"}}
    path = rubric(wrong_type, wrong_param)

    code, _, err = called(de.main, "--check", "--rubric", path)

    text = "tests[0].type: unknown test type 'run_comand' (did you mean 'run_command'?)"
    first, *others = err.splitlines()
    assert code == 1
    assert first == f"error: {path}: {text}"
    assert len(others) == 2


def test_check_exits_with_0_if_each_test_can_run(rubric):
    path = rubric({**TRUE, "id": "a"}, {**TRUE, "id": "b", "requires": ["a"]})

    code, out, err = called(de.main, "--check", "--rubric", path)

    assert code == 0
    assert "2 tests" in out
    assert "'b'" not in out + err


@pytest.mark.parametrize("required", ["b", "c"], ids=["itself", "no test"])
def test_check_exits_with_1_for_test_that_can_never_run(rubric, required):
    path = rubric({**TRUE, "id": "a"}, {**TRUE, "id": "b", "requires": [required]})

    code, out, err = called(de.main, "--check", "--rubric", path)

    assert code == 1
    assert "2 tests" in out
    assert "'b'" in out + err


def test_check_of_default_rubric_needs_no_docker(monkeypatch):
    monkeypatch.chdir(PROJECT)
    monkeypatch.setattr(de.subprocess, "Popen", None)

    code, out, _ = called(de.main, "--check", "--repo", "example")

    assert code == 0
    assert "10 tests" in out


# The schema


@pytest.mark.parametrize(
    "mistake",
    [mistake for mistake in MISTAKES if isinstance(mistake.content, dict)],
    ids=lambda mistake: mistake.what,
)
def test_schema_rejects_what_the_reader_rejects(mistake):
    """Unless a schema cannot express it."""
    assert schema("rubric").is_valid(mistake.content) is not mistake.schema_can_tell


def test_schema_accepts_what_the_reader_accepts(load):
    tests = [
        {"type": kind, "params": case.params, "$c": 0}
        for kind, cases in CASES.items()
        for case in cases
    ]
    content = {"_": 1, "run_options": ["--cpus=2", "--gpus=all"], "tests": tests}

    rubric = load(content)

    assert len(rubric.tests) == len(tests)
    schema("rubric").validate(content)


@pytest.mark.parametrize("name", ["rubric", "report"])
def test_schema_is_a_schema(name):
    schema(name).check_schema(schema(name).schema)
