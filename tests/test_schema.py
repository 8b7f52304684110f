"""The schemas say what the reader says, and every report is as its schema says."""

from __future__ import annotations

import json

import pytest
from conftest import PROJECT, schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import DockerfileEvaluator as de

TEXTS = st.text(min_size=1, max_size=8).filter(lambda text: "\0" not in text) | st.sampled_from(
    ["any", "all"]
)
LISTS = st.lists(TEXTS, min_size=1, max_size=3)
SCALARS = st.sampled_from(
    [None, True, False, 0, 1, 1.0, 2.5, -1, 255, 256, 300.0, "", "any", "\0", "A", "A\n", "9x"]
)
ODD = (
    SCALARS
    | st.lists(SCALARS, max_size=2)
    | st.dictionaries(st.sampled_from(["a", "_x", "path"]), SCALARS, max_size=2)
)
COMMAND = {"command": TEXTS}
DRAWN = {"type": "run_command", "params": {"command": "x {a} {b}", "draw": {"a": [0, 999], "b": [-999.0, 0]}}}
COMMAND_OPTIONS = {"exit_code": st.sampled_from([0, 7, 7.0, 255, "any"]), "shell": TEXTS}
CONTAINS = {"contains": LISTS}
CONTAINS_OPTIONS = {"match": st.sampled_from(["any", "all"])}
PARAMS = {
    "command_exists": st.fixed_dictionaries({"name": TEXTS}),
    "commands_exist": st.fixed_dictionaries({"names": LISTS}),
    "envvar_set": st.fixed_dictionaries({"name": st.from_regex("[A-Z_][A-Z0-9_.-]{0,4}", fullmatch=True)}),
    "files_exist": st.fixed_dictionaries({"paths": LISTS}),
    "dirs_exist": st.fixed_dictionaries({"paths": LISTS}),
    "file_contains": st.fixed_dictionaries({"path": TEXTS, **CONTAINS}, optional=CONTAINS_OPTIONS),
    "run_command": st.fixed_dictionaries(COMMAND, optional=COMMAND_OPTIONS),
    "output_contains": st.fixed_dictionaries(
        {**COMMAND, **CONTAINS}, optional={**COMMAND_OPTIONS, **CONTAINS_OPTIONS}
    ),
}
MORE = {
    "timeout": st.sampled_from([1, 0.1, 30.0]),
    "score": st.sampled_from([0, 2, 0.5]),
    "requires": st.lists(TEXTS, max_size=2),
    "category": TEXTS,
    "description": TEXTS,
    "_note": ODD,
    "$comment": ODD,
}
TESTS = st.sampled_from(sorted(PARAMS)).flatmap(
    lambda kind: st.fixed_dictionaries({"type": st.just(kind), "params": PARAMS[kind]}, optional=MORE)
)
RUBRICS = st.fixed_dictionaries(
    {"tests": st.lists(TESTS, min_size=1, max_size=3)}, optional={"repo": TEXTS, "$schema": TEXTS}
)
WORDS = [
    "path",
    "paths",
    "name",
    "names",
    "contains",
    "command",
    "match",
    "type",
    "params",
    "score",
    "repo",
    "tests",
]


def places(value):
    """Return every object and list within a JSON value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [value] if isinstance(value, (dict, list)) else []
    return found + [place for item in inner for place in places(item)]


@st.composite
def broken(draw):
    """Return a rubric that was changed in one or two places, which may have broken it."""
    rubric = draw(RUBRICS)
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from(places(rubric)))
        key = draw(
            st.sampled_from(sorted(place) + WORDS if isinstance(place, dict) else range(len(place) + 1))
        )
        if isinstance(place, list):
            place[key : key + 1] = draw(st.lists(ODD, max_size=1))
        elif draw(st.booleans()):
            place[key] = draw(ODD | TEXTS | LISTS)
        else:
            place.pop(key, None)
    return rubric


def reader_accepts(rubric, folder):
    file = folder / "generated.json"
    file.write_text(json.dumps(rubric))
    try:
        de.load_rubric(str(file))
    except de.RubricError:
        return False
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rubrics")


RELAXED = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.long("hundreds of rubrics")
@RELAXED
@given(rubric=RUBRICS)
def test_schema_and_reader_accept_the_same_good_rubrics(folder, rubric):
    assert reader_accepts(rubric, folder)
    schema("rubric").validate(rubric)


@pytest.mark.long("hundreds of rubrics")
@RELAXED
@given(rubric=broken())
def test_schema_and_reader_agree_on_broken_rubrics(folder, rubric):
    assert schema("rubric").is_valid(rubric) == reader_accepts(rubric, folder)


@pytest.mark.parametrize(
    ("change", "schema_accepts", "reader_accepts_it"),
    [
        ({}, True, True),
        ({"_why": "x", "$c": 1}, True, True),
        ({"a": [0, 99.5]}, False, False),
        ({"a": [0, True]}, False, False),
        ({"a": [0]}, False, False),
        ({"a": [0, 1, 2]}, False, False),
        ({"a": "0-999"}, False, False),
        ({"a": [0, 10**12 + 1]}, False, False),
        ({"a": [-(10**12), 10**12]}, True, True),
        ({"9": [0, 999]}, False, False),
        ({"a_b": [0, 999]}, False, False),
        ({"a\n": [0, 999]}, False, False),
        ({"": [0, 999]}, False, False),
        # What no schema can know.
        ({"a": [999, 0]}, True, False),
        ({"a": [0, 9]}, True, False),
        ({"c": [0, 999]}, True, False),
    ],
)
def test_schema_and_reader_on_a_draw(folder, change, schema_accepts, reader_accepts_it):
    draw = {**DRAWN["params"]["draw"], **change}
    rubric = {"tests": [{**DRAWN, "params": {**DRAWN["params"], "draw": draw}}]}
    assert schema("rubric").is_valid(rubric) == schema_accepts
    assert reader_accepts(rubric, folder) == reader_accepts_it


def test_shipped_rubrics_follow_the_schema_and_name_it():
    for file in sorted((PROJECT / "rubrics").glob("*.json")):
        rubric = json.loads(file.read_text())
        assert rubric["$schema"] == "schema/rubric.schema.json"
        schema("rubric").validate(rubric)


def test_the_schemas_are_schemas():
    for name in ("rubric", "report"):
        validator = schema(name)
        validator.check_schema(validator.schema)


def test_a_report_that_lacks_a_field_is_none(fake, evaluate):
    report = evaluate(["FROM x"], ("run_command", {"command": "false"}))
    schema("report").validate(report)
    for key in report:
        assert not schema("report").is_valid({k: v for k, v in report.items() if k != key})
