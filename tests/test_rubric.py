"""Section 2, the rubric: what is read, every mistake with its place, drawn numbers, the schema."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import pytest
from cases import CASES, TRUE, output_contains
from conftest import PROJECT, called, schema, statuses

import DockerfileEvaluator as de


def read(*tests, **top):
    """Read a rubric of some tests."""
    return de.read_rubric(json.dumps({"tests": tests, **top}).encode(), "r.json")


def mistakes(content):
    """Return the mistakes of a rubric, each without the name of the file."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(de.EvaluationError) as caught:
        de.read_rubric(data, "r.json")
    return [line.replace("r.json: ", "", 1) for line in str(caught.value).splitlines()]


def typed(kind, **params):
    return {"type": kind, "params": params}


def without_check(test):
    return (test.id, test.type, test.timeout, test.score, test.requires, test.category)


def test_all_fields_are_read():
    more = {"requires": ["j"], "category": "c", "description": "d"}

    rubric = read({**TRUE, "id": "i", "timeout": 0.5, "score": 2, **more}, repo="r")

    (test,) = rubric.tests
    assert rubric.repo == "r"
    assert without_check(test) == ("i", "run_command", 0.5, 2, ("j",), "c")


NULL_PARAMS = dict.fromkeys(["exit_code", "shell", "draw", "match"])
NULL_KEYS = dict.fromkeys(["id", "timeout", "score", "requires", "category", "description"])
MINIMAL = output_contains("x", "y")
WITH_NULLS = {**MINIMAL, "params": {**MINIMAL["params"], **NULL_PARAMS}, **NULL_KEYS}


@pytest.mark.parametrize("test", [MINIMAL, WITH_NULLS], ids=["absent", "null"])
def test_null_is_absent(test):
    rubric = read(test, repo=None, run_options=None)

    (test,) = rubric.tests
    assert rubric[:2] == ("", ())
    assert without_check(test) == ("output_contains_1", "output_contains", 30, 1, (), None)
    assert test.check.arguments == ("x", "/bin/sh")
    assert test.check.judge(0, [True], "y")[0]


def test_keys_that_begin_with_underscore_or_dollar_are_comments():
    draw = {"_why": "many", "a": [1, 10**6]}
    test = typed("run_command", command="{a}", draw=draw, _why="x", **{"$": []})

    rubric = read({**test, "_why": "x"}, _why=None, **{"$schema": 1})

    assert list(rubric.tests[0].check.drawn) == ["a"]


def test_byte_order_mark_is_no_mistake():
    data = json.dumps({"tests": [TRUE]}).encode("utf-8-sig")

    assert de.read_rubric(data, "r.json").tests


# Mistakes


class Mistake(NamedTuple):
    """A test with one mistake (or a rubric), and its place in the test (or the whole error)."""

    what: str
    place: str
    content: Any
    schema_can_tell: bool = True


def key(what, place, **change):
    """Return a mistake in a key of a test."""
    return Mistake(what, place, {**TRUE, **change})


def param(what, place, kind, **params):
    """Return a mistake in the params of a test."""
    return Mistake(what, f".params{place}", typed(kind, **params))


def drawn_wrong(what, command="", **change):
    """Return a mistake in drawn numbers."""
    draw = {"a": [1, 1000], "b": [1, 1000], **change}
    return param(what, ".draw", "run_command", command=f": {{a}} {{b}} {command}", draw=draw)


LONG = 128 * 1024  # Linux passes one byte less to a program
MISTAKES = [
    Mistake("no type", ".type", {"params": {}}),
    key("an unknown type", ".type", type="files_exists"),
    Mistake("no params", ".params", {"type": "envvar_set"}),
    key("params that are null", ".params", params=None),
    key("an empty id", ".id", id=""),
    key("a timeout of zero", ".timeout", timeout=0),
    key("a timeout that is true", ".timeout", timeout=True),
    key("a negative score", ".score", score=-1),
    key("a score beyond 10^12", ".score", score=10**13),
    key("a requirement without a list", ".requires", requires="x"),
    key("a requirement that is a number", ".requires", requires=[1]),
    key("a category that is a list", ".category", category=[]),
    key("a description that is a number", ".description", description=3),
    key("a misspelled key", "", time_out=5),
    param("no name", ".name", "command_exists"),
    param("a long name", ".name", "command_exists", name="x" * LONG),
    param("a NUL", ".name", "command_exists", name="a\0b"),
    param("names without a list", ".names", "commands_exist", names="java"),
    param("an empty name in a list", ".names", "commands_exist", names=["a", ""]),
    param("an empty list of files", ".paths", "files_exist", paths=[]),
    param("an empty list of folders", ".paths", "dirs_exist", paths=[]),
    param("a variable with its value", ".name", "envvar_set", name="HOME=/root"),
    param("a misspelled param", "", "files_exist", paths=["/x"], path="/x"),
    param("an unknown match", ".match", "file_contains", path="x", contains=["y"], match="every"),
    param("a high exit code", ".exit_code", "run_command", command="x", exit_code=256),
    param("a low exit code", ".exit_code", "run_command", command="x", exit_code=-1),
    param("an exit code that is true", ".exit_code", "run_command", command="x", exit_code=True),
    param("draw without names", ".draw", "run_command", command="x", draw=[]),
    drawn_wrong("a range of three numbers", a=[1, 2, 3]),
    drawn_wrong("a range with a fraction", a=[1, 10**6 + 0.5]),
    drawn_wrong("a range of a boolean", a=[False, 10**6]),
    drawn_wrong("a range beyond 10^12", a=[0, 10**12 + 1]),
]
MISTAKES_BEYOND_A_SCHEMA = [
    param("a name that is long in bytes", ".name", "command_exists", name="ö" * (LONG // 2)),
    param("a lone surrogate", ".name", "command_exists", name="a\ud800"),
    drawn_wrong("a range from high to low", a=[1000, 1]),
    drawn_wrong("too few combinations", b=[1, 999]),
    drawn_wrong("a number that the command does not use", c=[1, 9]),
    drawn_wrong("a quotient", "{a/2}"),
    param(
        "a quotient in a text",
        ".draw",
        "output_contains",
        command="{a}",
        contains=["{a/2}"],
        draw={"a": [1, 10**6]},
    ),
    drawn_wrong("a product that begins with a number", "{2*a}"),
    drawn_wrong("a sum of three", "{a+b+a}"),
    drawn_wrong("a sum with an unknown name", "{a+c}"),
]
MISTAKES += [row._replace(schema_can_tell=False) for row in MISTAKES_BEYOND_A_SCHEMA]


def test_all_mistakes_are_reported_at_once_with_place_and_id():
    tests = [{"id": row.what, **row.content} for row in MISTAKES]

    found = mistakes({"tests": tests})

    assert [error.split(": ")[0] for error in found] == [
        f"tests[{at}] '{test['id']}'{row.place}"
        for at, (test, row) in enumerate(zip(tests, MISTAKES))
    ]


FILE_MISTAKES = [
    Mistake("broken JSON", "not valid JSON", b"{"),
    Mistake("no UTF-8", "not valid JSON", b"\xff"),
    Mistake("deep nesting", "not valid JSON", b"[" * 100_000),
    Mistake("an empty file", "not valid JSON", b""),
    Mistake("a list", "expected an object", [TRUE]),
    Mistake("no tests", "tests: ", {"repo": "r"}),
    Mistake("an empty list of tests", "tests: ", {"tests": []}),
    Mistake("a test that is a number", "tests[0]: ", {"tests": [3]}),
    Mistake("a repo that is a number", "repo: ", {"repo": 3, "tests": [TRUE]}),
    Mistake("a misspelled key", "unknown key 'test'", {"test": [], "tests": [TRUE]}),
    Mistake(
        "an option that is no resource",
        "run_options: ",
        {"tests": [TRUE], "run_options": ["--memory=1g", "--privileged"]},
    ),
    Mistake("an id twice", "tests[1] 'a': ", {"tests": [{**TRUE, "id": "a"}] * 2}, False),
    Mistake(
        "a key twice", "the key '_a' is given twice in {\"_a\": 2}", b'{"_": [{"_a": 1, "_a": 2}]}'
    ),
]


@pytest.mark.parametrize("mistake", FILE_MISTAKES, ids=lambda mistake: mistake.what)
def test_mistake_outside_of_the_tests(mistake):
    assert mistakes(mistake.content)[0].startswith(mistake.place)


@pytest.mark.parametrize("number", [math.nan, -math.inf])
def test_number_that_json_does_not_have_is_a_mistake_in_a_comment_too(number):
    mistakes({"tests": [typed("run_command", command="true", _why=number)]})


# Requirements, --check


class Requirement(NamedTuple):
    """What the test `a` requires; test `b` requires `a`."""

    what: str
    requires: list
    statuses: list  # of `a` and `b`
    warned: str  # the tests that are named in warnings


REQUIREMENTS = [
    Requirement("nothing", [], ["passed", "passed"], ""),
    Requirement("an unknown test", ["c"], ["unresolvable", "skipped"], "a"),
    Requirement("itself", ["a"], ["unresolvable", "skipped"], "a"),
    Requirement("a test that requires it", ["b"], ["unresolvable", "unresolvable"], "ab"),
]


@pytest.mark.parametrize("row", REQUIREMENTS, ids=lambda row: row.what)
def test_requirement_that_cannot_be_met_is_unresolvable_a_warning_and_found_by_check(
    fake, evaluate, rubric, row
):
    tests = [{**TRUE, "id": "a", "requires": row.requires}, {**TRUE, "id": "b", "requires": ["a"]}]

    report = evaluate(["FROM x"], *tests)
    code, _, err = called(de.main, "--check", "--rubric", rubric(*tests))

    assert list(statuses(report).values()) == row.statuses
    assert report["summary"]["failed_tests"] == 2 - row.statuses.count("passed")
    for text in ("".join(report["warnings"]), err):
        assert [name for name in "ab" if f"test '{name}'" in text] == list(row.warned)
    assert code == bool(row.warned)
    assert fake.count("info") == 1, "--check has called docker"


# Drawn numbers

TERMS = {
    "{a} {b}": "7 -3",
    "{a+b} {b-a} {a*b} {a-a}": "4 -10 -21 0",
    "{a+1} {a-10} {a*0} {a*007}": "8 -3 0 49",
    "{ a } {a + b} {a *2}": "7 4 14",
    'x{a}y{a}{b} [{"n": {a}}]': 'x7y7-3 [{"n": 7}]',
    "${a} {c} {c+d} {} {x,y} '{print $1}' a} {": "${a} {c} {c+d} {} {x,y} '{print $1}' a} {",
}


def drawn(command, *contains):
    """Return a test that draws 7, -3 and a random number."""
    draw = {"a": [7, 7], "b": [-3, -3], "z": [0, 999_999]}
    command = f"echo {{a}} {{b}} {{z}}{command}"
    return typed("output_contains", command=command, contains=list(contains), draw=draw)


@pytest.mark.parametrize("text", TERMS)
def test_terms_of_drawn_numbers_are_replaced_in_command_and_contains(text):
    check = read(drawn(f";{text}", text)).tests[0].check

    assert check.command.split(";", 1)[1] == TERMS[text]
    assert check.needles == (TERMS[text].encode(),)


def test_numbers_are_drawn_anew_for_each_evaluation():
    numbers = {read(drawn("", "x")).tests[0].check.drawn["z"] for _ in range(100)}

    assert len(numbers) > 90


def test_report_has_the_drawn_numbers_and_the_params_as_they_are_in_the_rubric(fake, evaluate):
    test = drawn("", "{a} {b}")

    right, wrong = evaluate(["FROM x"], test, drawn("", "{a*b}"))["test_results"]

    assert (right["status"], wrong["status"]) == ("passed", "failed")
    assert right["params"] == test["params"]
    assert right["output"] == "{a} {b} {z}\n".format(**right["drawn"])


# The schema


def test_schema_accepts_what_the_reader_accepts():
    tests = [typed(kind, **case.params) for kind, cases in CASES.items() for case in cases]
    content = {"_": 1, "run_options": ["--cpus=2", "--gpus=all"], "tests": [*tests, WITH_NULLS]}

    assert read(**content).tests
    schema("rubric").validate(content)


REFUSED = [row._replace(content={"tests": [row.content]}) for row in MISTAKES]
REFUSED += [row for row in FILE_MISTAKES if not isinstance(row.content, bytes)]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.what)
def test_schema_rejects_what_the_reader_rejects(row):
    """Unless a schema cannot express it."""
    assert schema("rubric").is_valid(row.content) is not row.schema_can_tell


@pytest.mark.parametrize("file", sorted(PROJECT.glob("rubrics/*.json")), ids=lambda file: file.stem)
def test_rubrics_of_the_project_are_valid(file):
    data = file.read_bytes()

    assert de.read_rubric(data, str(file)).unresolvable == {}
    schema("rubric").validate(json.loads(data.decode("utf-8-sig")))


@pytest.mark.parametrize("name", ["rubric", "report"])
def test_schema_is_a_schema(name):
    schema(name).check_schema(schema(name).schema)
