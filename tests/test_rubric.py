"""Rubrics: what is understood, and every fault with its exact words."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from cases import TRUE
from conftest import PROJECT, assert_holds

import DockerfileEvaluator as de


@pytest.fixture
def load(tmp_path):
    def read(content):
        file = tmp_path / "r.json"
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        file.write_bytes(data)
        return de.load_rubric(str(file))

    return read


@pytest.fixture
def faults(load, tmp_path):
    def read(content):
        with pytest.raises(de.RubricError) as caught:
            load(content)
        return [line.replace(f"{tmp_path / 'r.json'}: ", "") for line in str(caught.value).splitlines()]

    return read


def test_a_whole_test_is_read(load):
    given = {"id": "i", "timeout": 2, "score": 0.5, "requires": ["j"], "category": "c", "description": "d"}
    rubric = load({"repo": "r", "tests": [{**TRUE, **given}, TRUE]})
    first, second = rubric.tests
    assert_holds(first, id="i", timeout=2.0, score=0.5, requires=("j",), category="c")
    assert_holds(second, id="run_command_2", timeout=30.0, score=1, requires=(), category=None)
    assert rubric.repo == "r"


def test_ids_that_are_made_up_do_not_meet_given_ones(load):
    rubric = load({"repo": "r", "tests": [TRUE, {**TRUE, "id": "run_command_1"}]})
    assert [test.id for test in rubric.tests] == ["run_command_1_", "run_command_1"]


def test_comments_byte_order_mark_and_a_missing_repo_are_accepted(load):
    content = {
        "$schema": "x",
        "_note": 1,
        "tests": [{**TRUE, "_why": "x", "params": {"command": "true", "_": 0}}],
    }
    rubric = load(b"\xef\xbb\xbf" + json.dumps(content).encode())
    assert rubric.repo == ""


def test_every_shipped_rubric_loads():
    files = sorted((PROJECT / "rubrics").glob("*.json"))
    assert files
    for file in files:
        rubric = de.load_rubric(str(file))
        assert rubric.tests
        assert not de.unresolvable(rubric.tests)


def test_the_example_shows_every_type():
    rubric = de.load_rubric(str(PROJECT / "rubrics" / "example.json"))
    assert {test.type for test in rubric.tests} == set(de.CHECKS)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "not JSON at line 1, column 2: Expecting property name enclosed in double quotes"),
        (b'{"repo": "r",\n "tests": [}', "not JSON at line 2, column 12: Expecting value"),
        (b"\xff", "not UTF-8 at byte 1"),
        (b"[" * 100_000, "not usable JSON: nested too deeply"),
        ([], "expected an object, found an empty list"),
        ({"repo": "r"}, "tests: missing; expected a list of tests that is not empty"),
        (
            {"repo": "r", "tests": []},
            "tests: expected a list of tests that is not empty, found an empty list",
        ),
        ({"repo": "r", "tests": {}}, "tests: expected a list of tests that is not empty, found an object"),
        ({"repo": 3, "tests": [TRUE]}, "repo: expected a string that is not empty, found 3"),
        ({"repo": "r", "test": [], "tests": [TRUE]}, "unknown key 'test' (did you mean 'tests'?)"),
        ({"repo": "r", "tests": [3]}, "tests[0]: expected an object, found 3"),
        (b'{"tests": [{"type": "x", "type": "x"}]}', "tests[0]: key 'type' is given twice"),
    ],
)
def test_faults_of_the_file(faults, content, fault):
    assert fault in faults(content)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            {"type": "files_exists"},
            "tests[0].type: unknown test type 'files_exists' (did you mean 'files_exist'?)",
        ),
        ({"type": ""}, "tests[0].type: expected a string that is not empty, found an empty string"),
        ({"params": None}, "tests[0].params: expected an object, found null"),
        ({"id": 5}, "tests[0].id: expected a string that is not empty, found 5"),
        ({"timeout": 0}, "tests[0].timeout: expected a number of seconds over 0, found 0"),
        ({"timeout": True}, "tests[0].timeout: expected a number of seconds over 0, found true"),
        ({"timeout": "5"}, "tests[0].timeout: expected a number of seconds over 0, found the string '5'"),
        ({"timeout": math.nan}, "tests[0].timeout: expected a number of seconds over 0, found NaN"),
        ({"timeout": math.inf}, "tests[0].timeout: expected a number of seconds over 0, found Infinity"),
        (
            {"timeout": 10**400},
            "tests[0].timeout: expected a number of seconds over 0, found 100000000000000000000000000000000000000…",
        ),
        ({"score": -1}, "tests[0].score: expected a number of at least 0, found -1"),
        ({"requires": "x"}, "tests[0].requires: expected a list of ids, found the string 'x'"),
        ({"requires": [1]}, "tests[0].requires[0]: expected a string that is not empty, found 1"),
        ({"category": []}, "tests[0].category: expected a string that is not empty, found an empty list"),
        (
            {"depends": []},
            "tests[0]: unknown key 'depends' (known: category, description, id, params, requires, score, timeout, type)",
        ),
        ({"time_out": 5}, "tests[0]: unknown key 'time_out' (did you mean 'timeout'?)"),
    ],
)
def test_faults_of_a_test(faults, change, fault):
    assert faults({"repo": "r", "tests": [{**TRUE, **change}]}) == [fault]


@pytest.mark.parametrize(
    ("kind", "params", "fault"),
    [
        ("command_exists", {}, "name: missing; expected a string that is not empty"),
        ("command_exists", {"name": 1}, "name: expected a string that is not empty, found 1"),
        ("command_exists", {"name": "a\0b"}, "name: a NUL character cannot be handed to a program"),
        ("command_exists", {"name": "a\ud800"}, "name: a lone surrogate (character 2) is not text"),
        ("command_exists", {"name": "a" * 131072}, "name: longer than 131071 bytes"),
        (
            "commands_exist",
            {"names": "java"},
            "names: expected a list of strings that is not empty, found the string 'java'",
        ),
        (
            "commands_exist",
            {"names": []},
            "names: expected a list of strings that is not empty, found an empty list",
        ),
        (
            "commands_exist",
            {"names": ["a", ""]},
            "names[1]: expected a string that is not empty, found an empty string",
        ),
        ("commands_exist", {"names": ["a" * 100_000] * 11}, "names: longer than 1048576 bytes in total"),
        ("envvar_set", {"name": "$HOME"}, "name: '$HOME' is not a valid variable name"),
        ("envvar_set", {"name": "A=B"}, "name: 'A=B' is not a valid variable name"),
        ("files_exist", {"paths": ["/x"], "path": "/x"}, "unknown key 'path' (did you mean 'paths'?)"),
        (
            "file_contains",
            {"path": "x", "contains": "y"},
            "contains: expected a list of strings that is not empty, found the string 'y'",
        ),
        (
            "file_contains",
            {"path": "x", "contains": ["y"], "match": "every"},
            "match: expected one of 'any', 'all', found the string 'every'",
        ),
        (
            "run_command",
            {"command": "x", "exit_code": 256},
            "exit_code: expected a whole number from 0 to 255 or 'any', found 256",
        ),
        (
            "run_command",
            {"command": "x", "exit_code": True},
            "exit_code: expected a whole number from 0 to 255 or 'any', found true",
        ),
        (
            "run_command",
            {"command": "x", "contains": ["y"]},
            "unknown key 'contains' (known: command, draw, exit_code, shell)",
        ),
        (
            "output_contains",
            {"command": "x"},
            "contains: missing; expected a list of strings that is not empty",
        ),
    ],
)
def test_faults_of_params(faults, kind, params, fault):
    place = "tests[0].params: " if fault.startswith("unknown") else "tests[0].params."
    assert faults({"repo": "r", "tests": [{"type": kind, "params": params}]}) == [place + fault]


def test_all_faults_are_named_in_one_go(faults):
    tests = [{"type": "x"}, {**TRUE, "id": "a"}, {**TRUE, "id": "a", "score": "1"}]
    found = faults({"repo": "r", "tests": tests, "more": 1})
    places = ["tests[0].params", "tests[0].type", "tests[2] 'a'.score", "tests[2] 'a'.id"]
    assert [line.split(":")[0] for line in found] == [*places, "unknown key 'more' (known"]
    assert "tests[2] 'a'.id: 'a' is the id of tests[1] too" in found


@pytest.mark.parametrize("score", [1e308, 10**308])
def test_scores_that_add_up_to_no_number(faults, score):
    fault = "tests: expected scores whose sum is a finite number"
    assert faults({"repo": "r", "tests": [{**TRUE, "score": score}] * 2}) == [fault]


def test_a_rubric_that_is_not_there(tmp_path):
    with pytest.raises(de.RubricError, match="no such rubric; name one with --rubric FILE"):
        de.load_rubric(str(tmp_path / "none.json"))
    with pytest.raises(de.RubricError, match="cannot be read: Is a directory"):
        de.load_rubric(str(tmp_path))


REAL = sorted(Path(PROJECT, "..", "shared", "real-rubrics").glob("*.json"))


@pytest.mark.skipif(not REAL, reason="no rubrics of users beside this checkout")
def test_real_rubrics_are_understood():
    for file in REAL:
        assert de.load_rubric(str(file)).tests
