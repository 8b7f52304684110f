"""Rubrics: what is accepted, every error with its text, random numbers, and that the schema agrees."""

from __future__ import annotations

import json
import math
import re

import pytest
from cases import CASES, TRUE, output_contains, run_command
from conftest import PROJECT, called, schema

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
    more = {"timeout": 2, "score": 0.5, "requires": ["j"], "category": "c", "description": "d"}
    rubric = load(
        {"repo": "r", "run_options": ["--memory=1g"], "tests": [{**TRUE, **more, "id": "i"}, TRUE]}
    )
    first, second = rubric.tests
    assert rubric.repo == "r"
    assert rubric.run_options == ("--memory=1g",)
    assert first[:2] + first[3:7] == ("i", "run_command", 2.0, 0.5, ("j",), "c")
    assert second[:2] + second[3:7] == ("run_command_2", "run_command", 30.0, 1, (), None)


def test_generated_id_differs_and_comments_and_byte_order_mark_are_accepted(load):
    params = {"command": "true", "_": 0}
    tests = [{**TRUE, "_why": "x", "params": params}, {**TRUE, "id": "run_command_1"}]
    content = {"$schema": "x", "_note": 1, "tests": tests}
    rubric = load(b"\xef\xbb\xbf" + json.dumps(content).encode())
    assert rubric.repo is None
    assert len({test.id for test in rubric.tests}) == 2


NULLS = dict.fromkeys(("exit_code", "shell", "draw", "match"))
KEYS = dict.fromkeys(("id", "timeout", "score", "requires", "category", "description"))
WITH_NULLS = {
    "repo": None,
    "run_options": None,
    "tests": [
        {"type": "output_contains", "params": {"command": "x", "contains": ["y"], **NULLS}, **KEYS}
    ],
}


@pytest.mark.parametrize(
    "content", [WITH_NULLS, {"tests": [output_contains("x", "y")]}], ids=["null", "absent"]
)
def test_null_means_absent_for_optional_keys(load, content):
    rubric = load(content)
    (test,) = rubric.tests
    assert test[:2] + test[3:7] == ("output_contains_1", "output_contains", 30.0, 1, (), None)
    assert rubric.repo is None
    assert rubric.run_options == ()
    assert test.check.shell == "/bin/sh"
    schema("rubric").validate(content)


def changed(**change):
    return {"tests": [{**TRUE, **change}]}


def typed(kind, **params):
    return {"tests": [{"type": kind, "params": params}]}


LONG = "x" * 131072  # Linux passes 131071 bytes to a program
T, PARAMS = "tests[0]", "tests[0].params"
ERRORS = [
    (b"{", "not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    (b"\xff", "not valid JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    (b"[" * 100_000, "not valid JSON: "),
    (b" \n", "the file is empty"),
    ({"repo": "r"}, "tests: expected a non-empty list of tests, but the key is missing"),
    ({"tests": []}, "tests: expected a non-empty list of tests, found []"),
    ({"repo": 3, "tests": [TRUE]}, "repo: expected a non-empty string, found 3"),
    ({"test": [], "tests": [TRUE]}, "unknown key 'test' (did you mean 'tests'?)"),
    (b'{"tests": [{"type": "envvar_set", "params": {"name": "x", "name": "x"}}]}', f"{PARAMS}: the key 'name' is given twice"),
    ({"tests": [{**TRUE, "id": "a"}] * 2}, "tests[0] and tests[1] have the id 'a'"),
    ({"tests": [TRUE], "run_options": ["--privileged"]}, "run_options[0]: "),
    (changed(type="files_exists"), f"{T}.type: unknown test type 'files_exists' (did you mean 'files_exist'?)"),
    (changed(params=None), f"{PARAMS}: expected an object, found null"),
    (changed(id=5), f"{T}.id: expected a non-empty string, found 5"),
    (changed(timeout=0), f"{T}.timeout: expected a number over 0, found 0"),
    (changed(timeout=True), f"{T}.timeout: expected a number over 0, found true"),
    (changed(timeout=math.nan), f"{T}.timeout: expected a number over 0, found NaN"),
    (changed(score=-1), f"{T}.score: expected a number of at least 0, found -1"),
    (changed(score=math.inf), f"{T}.score: expected a number of at least 0, found Infinity"),
    (changed(requires="x"), f'{T}.requires: expected a list of strings, found "x"'),
    (changed(requires=[1]), f"{T}.requires[0]: expected a non-empty string, found 1"),
    (changed(category=[]), f"{T}.category: expected a non-empty string, found []"),
    (changed(time_out=5), f"{T}: unknown key 'time_out' (did you mean 'timeout'?)"),
    (changed(depends=[]), f"{T}: unknown key 'depends' (known: "),
    (typed("command_exists"), f"{PARAMS}.name: expected a non-empty string, but the key is missing"),
    (typed("command_exists", name=LONG), f"{PARAMS}.name: expected at most 131071 bytes, found 131072"),
    (typed("command_exists", name="ö" * 65536), f"{PARAMS}.name: expected at most 131071 bytes, found 131072"),
    (typed("command_exists", name="a\0b"), f"{PARAMS}.name: expected text without NUL or lone surrogates, found "),
    (typed("command_exists", name="a\ud800"), f"{PARAMS}.name: expected text without NUL or lone surrogates, found "),
    (typed("commands_exist", names="java"), f'{PARAMS}.names: expected a non-empty list of strings, found "java"'),
    (typed("commands_exist", names=["a", ""]), f'{PARAMS}.names[1]: expected a non-empty string, found ""'),
    (typed("envvar_set", name="$HOME"), f'{PARAMS}.name: expected a variable name, found "$HOME"'),
    (typed("files_exist", paths=["/x"], path="/x"), f"{PARAMS}: unknown key 'path' (did you mean 'paths'?)"),
    (typed("file_contains", path="x", contains=["y"], match="every"), f"{PARAMS}.match: expected 'any' or 'all', found \"every\""),
    (typed("run_command", command="x", exit_code=256), f"{PARAMS}.exit_code: expected 0 to 255 or 'any', found 256"),
    (typed("run_command", command="x", exit_code=True), f"{PARAMS}.exit_code: expected 0 to 255 or 'any', found true"),
    (typed("run_command", command="x", contains=["y"]), f"{PARAMS}: unknown key 'contains' (known: command, draw, exit_code, shell)"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "error"), ERRORS, ids=[error[:60] for _, error in ERRORS])
def test_error_has_path_expected_and_actual_value(errors, content, error):
    (found,) = errors(content)
    assert found.startswith(error)


def test_all_errors_are_reported_at_once_with_path_and_id(errors):
    wrong = {"id": "java", "type": "files_exist", "params": {"path": "/x"}}
    found = errors(
        {"tests": [{"type": "x", "params": {}}, TRUE, wrong, {**TRUE, "score": "1"}], "more": 1}
    )
    places = [
        "tests[0].type",
        "tests[2] 'java'.params",
        "tests[2] 'java'.params.paths",
        "tests[3].score",
    ]
    assert sorted(error.split(":")[0] for error in found) == [*places, "unknown key 'more' (known"]


def test_missing_rubric_is_an_error(tmp_path):
    with pytest.raises(de.EvaluationError, match=r"none.json.*No such file"):
        de.load_rubric(str(tmp_path / "none.json"))


SHIPPED = sorted((PROJECT / "rubrics").glob("*.json"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_rubrics_are_valid(file):
    assert de.load_rubric(str(file)).tests
    schema("rubric").validate(json.loads(file.read_text(encoding="utf-8-sig")))


# Random numbers

DRAW = {"a": [7, 7], "b": [-3, -3], "z": [0, 999_999]}


def drawn(command, *contains, **more):
    test = output_contains(command, *contains) if contains else run_command(command)
    return {**test, "params": {**test["params"], "draw": {**DRAW, **more}}}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{a} {b}", "7 -3"),
        ("{a+b} {b-a} {a*b} {a-a}", "4 -10 -21 0"),
        ("{a+1} {a-10} {a*0} {a*007}", "8 -3 0 49"),
        ("x{a}y{a}{b} {a}} { {a}; }", "x7y7-3 7} { 7; }"),
        ('[{"n": {a}}, {"n": [{b}]}]', '[{"n": 7}, {"n": [-3]}]'),
        ("awk '{print $1}' ${HOME} {} {A} {x,y} $a a a} {", None),
        ("{ run a; } { {c}; echo a | cat; } {print a} ${a} {c} {c+d}", None),
        ("${a} {{a}}", None),
    ],
)
def test_only_terms_of_drawn_names_are_replaced(load, text, filled):
    check = load({"tests": [drawn(f": {{a}} {{b}} {{z}} {text}", text)]}).tests[0].check
    assert check.command.split(" ", 4)[4] == (filled or text)
    assert check.needles == ((filled or text).encode(),)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ([], ": expected an object of NAME: [from, to], found []"),
        ({"z": [0, 999_998]}, ": expected at least 1000000 combinations, found 999999"),
        ({"a": [5, 3]}, ".a: expected two integers [from, to], found [5, 3]"),
        ({"a": [1, 2, 3]}, ".a: expected two integers [from, to], found [1, 2, 3]"),
        ({"a": [1, 2.5]}, ".a: expected two integers [from, to], found [1, 2.5]"),
        ({"a": [False, 9]}, ".a: expected two integers [from, to], found [false, 9]"),
        ({"a": [0, 10**12 + 1]}, ".a: expected two integers [from, to], found [0, 1000000000001]"),
        ({"c": [0, 9]}, ": expected names that 'command' uses, found 'c'"),
    ],
)
def test_error_in_draw(errors, change, error):
    test = drawn(": {a} {b} {z}")
    test["params"]["draw"] = {**DRAW, **change} if change else change
    assert f"tests[0].params.draw{error}" in errors({"tests": [test]})


def test_numbers_are_drawn_anew_for_each_evaluation(load):
    test = drawn("{a}{b}{z} {e}", e=[-1, 1])
    numbers = [load({"tests": [test]}).tests[0].check.drawn for _ in range(100)]
    assert {drawn["e"] for drawn in numbers} == {-1, 0, 1}
    assert len({drawn["z"] for drawn in numbers}) > 50


def test_row_has_numbers_and_params_as_given(fake, evaluate):
    tests = [drawn("echo {a} {b} {z}", "{a} {b}"), drawn("echo {a} {b} {z}", "{a*b}"), TRUE]
    passed, failed, plain = evaluate(["FROM x"], *tests)["test_results"]
    assert passed["status"] == "passed"
    assert failed["status"] == "failed"
    assert plain["drawn"] is None
    assert failed["drawn"]["a"] == 7
    assert failed["drawn"]["b"] == (-3)
    assert failed["params"] == tests[1]["params"]
    assert failed["output"] == f"7 -3 {failed['drawn']['z']}\n"
    assert "none of '-21'" in failed["message"]


# --check


def test_check_prints_all_errors_and_exits_with_1(rubric):
    path = rubric(
        {"type": "run_comand", "params": {}}, {"type": "run_command", "params": {"comand": "x"}}
    )
    code, _, err = called(de.main, "--check", "--rubric", path)
    first, *others = err.splitlines()
    text = "tests[0].type: unknown test type 'run_comand' (did you mean 'run_command'?)"
    assert code == 1
    assert first == f"error: {path}: {text}"
    assert len(others) == 2


@pytest.mark.parametrize(("requires", "code"), [("a", 0), ("b", 1), ("c", 1)])
def test_check_exits_with_1_for_test_that_can_never_run(rubric, requires, code):
    path = rubric({**TRUE, "id": "a"}, {**TRUE, "id": "b", "requires": [requires]})
    found, out, err = called(de.main, "--check", "--rubric", path)
    assert found == code
    assert "2 tests" in out
    assert ("'b'" in out + err) == bool(code)


def test_check_of_default_rubric_needs_no_docker(monkeypatch):
    monkeypatch.chdir(PROJECT)
    monkeypatch.setattr(de.subprocess, "Popen", None)
    code, out, _ = called(de.main, "--check", "--repo", "example")
    assert code == 0
    assert "10 tests" in out


# The schema

# What a schema cannot express.
ONLY_READER = (
    "the key 'name' is given twice",
    " have the id",
    "bytes, found",
    "lone surrogates, found",
    "not valid JSON",
    "found NaN",
)
VALID = [{"type": kind, "params": case.params} for kind, cases in CASES.items() for case in cases]


@pytest.mark.parametrize(("content", "error"), ERRORS, ids=[error[:60] for _, error in ERRORS])
def test_schema_rejects_what_the_reader_rejects(content, error):
    if not any(text in error for text in ONLY_READER):
        assert not schema("rubric").is_valid(content)


def test_schema_accepts_what_the_reader_accepts(load):
    content = {
        "_": 1,
        "run_options": ["--cpus=2", "--gpus=all"],
        "tests": [{**test, "$c": 0} for test in VALID],
    }
    assert load(content).tests
    schema("rubric").validate(content)
    for name in ("rubric", "report"):
        schema(name).check_schema(schema(name).schema)


@pytest.mark.parametrize(
    ("content", "sign"), [('{"tests": [1, 2,]}', "]"), ('{"tests": [1], }', "}")]
)
def test_trailing_comma_is_named(content, sign):
    """In the words of each version of Python."""
    with pytest.raises(
        de.EvaluationError, match=re.escape(f"(remove the comma before the '{sign}')")
    ):
        de.parse_rubric(content.encode(), "r.json")
