"""Section 2, the rubric: what is read, every mistake with its place, drawn numbers, the schema."""

import json

import pytest
from cases import CASES, TRUE, judged, output_contains, read_table, read_tests, table
from conftest import PROJECT, schema

import DockerfileEvaluator as de


def read(*tests, **top):
    """Read a rubric of some tests."""
    return de.read_rubric(json.dumps({"tests": tests, **top}).encode(), "r.json")


def mistakes(data):
    """Return the mistakes of a rubric, each with its place."""
    with pytest.raises(de.EvaluationError) as caught:
        de.read_rubric(data, "r")
    return str(caught.value).splitlines()


def test_all_fields_are_read():
    test = {**TRUE, "id": "i", "timeout": 0.5, "score": 2, "requires": ["j"], "category": "c"}

    rubric = read({**test, "description": "d"}, repo="r", run_options=["--memory=1g"])

    assert rubric[:2] == ("r", ("--memory=1g",))
    found = rubric.tests[0]._asdict()
    assert found == {**found, **test, "requires": ("j",)}


WITH_NULLS = json.loads("""{
    "type": "output_contains", "id": null, "timeout": null, "score": null, "requires": null,
    "category": null, "description": null, "params": {
        "command": "x", "contains": ["y"], "exit_code": null, "shell": null, "draw": null,
        "match": null, "count": null, "of": null
    }, "service": null
}""")


def test_null_is_absent():
    rubric = read(WITH_NULLS, repo=None, run_options=None)

    (found,) = rubric.tests
    assert (*rubric[:2], *found[3:7]) == ("", (), 30, 1, (), None)
    assert (found.id, *found.check.arguments) == ("output_contains_1", "x", "/bin/sh")
    assert judged(WITH_NULLS, b"y").status == "passed"


COMMENTED = """{"_why": null, "tests": [{
    "type": "run_command", "_why": "x", "params": {
        "command": "{a}", "$": [], "draw": {"_why": "many", "a": [-1000000000000, 1000000000000]}
    }
}]}"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_keys_with_underscore_or_dollar_are_comments_and_a_byte_order_mark_is_ignored(encoding):
    (test,) = de.read_rubric(COMMENTED.encode(encoding), "r.json").tests

    assert list(test.check.drawn) == ["a"]


# Mistakes: what is wrong in a test that would be right otherwise, and its place


def mistakes_of(text):
    """Return the lines of a text, each with what is reported."""
    return {row.when: row.then for row in read_table(text)}


SHORT = {
    "LONG": "x" * 128 * 1024,  # bytes; Linux passes one less to a program
    "LÖNG": "ö" * 64 * 1024,
    "DEEP": "(" * 5000 + ")" * 5000,
    "DRAW": '"draw": {"a": [1, 1000000]}',
    "OUTPUT": '"type": "output_contains"',
    "HTTP": '"type": "http_responds", "service": 80',
}
MISTAKES = mistakes_of(r"""
{"type": null} -> .type:
{"type": "run_commands"} -> .type:
{"params": null} -> .params:
{"id": ""} ->  ''.id:
{"timeout": 0} -> .timeout:
{"timeout": true} -> .timeout:
{"score": -1} -> .score:
{"score": 1000000000001} -> .score:
{"requires": "x"} -> .requires:
{"requires": [1]} -> .requires:
{"category": []} -> .category:
{"description": 3} -> .description:
{"type": "command_exists", "params": {}} -> .params.name:
{"type": "command_exists", "params": {"name": "LONG"}} -> .params.name:
{"type": "command_exists", "params": {"name": "a\u0000"}} -> .params.name:
{"type": "commands_exist", "params": {"names": "java"}} -> .params.names:
{"type": "commands_exist", "params": {"names": ["a", ""]}} -> .params.names:
{"type": "files_exist", "params": {"paths": []}} -> .params.paths:
{"type": "files_exist", "params": {"paths": ["/x"], "path": "/x"}} -> .params:
{"type": "dirs_exist", "params": {"paths": []}} -> .params.paths:
{"type": "envvar_set", "params": {"name": "HOME=/root"}} -> .params.name:
{"type": "file_contains", "params": {"path": "x", "contains":["y"], "match": "x"}} -> .params.match:
{"params": {"command": "x", "exit_code": 256}} -> .params.exit_code:
{"params": {"command": "x", "exit_code": -1}} -> .params.exit_code:
{"params": {"command": "x", "exit_code": true}} -> .params.exit_code:
{"params": {"command": "x", "count": "", "of": 3}} -> .params.count:
{"params": {"command": "x", "count": "x", "of": 0}} -> .params.of:
{"params": {"command": "x", "count": "x", "of": true}} -> .params.of:
{"params": {"command": "x", "count": "x", "of": 1000000000001}} -> .params.of:
{"service": false} -> .service:
{"service": 0} -> .service:
{"service": "8080"} -> .service:
{HTTP, "params": {"path": "/a b"}} -> .params.path:
{HTTP, "params": {"path": "/\u0001"}} -> .params.path:
{HTTP, "params": {"path": "/\n"}} -> .params.path:
{HTTP, "params": {"status": 99}} -> .params.status:
{HTTP, "params": {"status": "200"}} -> .params.status:
{HTTP, "params": {"contains": []}} -> .params.contains:
{HTTP, "params": {"command": "x"}} -> .params:
{"params": {"command": "x", "draw": []}} -> .params.draw:
{"params": {"command": "{a}", "draw": {"a": [1, 2, 1000000]}}} -> .params.draw.a:
{"params": {"command": "{a}", "draw": {"a": [1, 1000000.5]}}} -> .params.draw.a:
{"params": {"command": "{a}", "draw": {"a": [false, 1000000]}}} -> .params.draw.a:
{"params": {"command": "{a}", "draw": {"a": [0, 1000000000001]}}} -> .params.draw.a:
{"time_out": 5} -> : unknown key 'time_out'
{"service": 65536} -> .service: expected an integer from 1 to 65535 or true,
{"params": {"command": "x", "count": "x"}} -> .params: expected 'count' with 'of', or 'junit'
{"params": {"command": "x", "of": 3}} -> .params: expected 'count' with 'of', or 'junit'
{HTTP, "params": {}, "service": null} -> .service: expected a port, since
{HTTP, "params": {}, "service": true} -> .service: expected a port, since
{"type": "files_exist", "params": {"paths": ["/x"]}, "service": true} -> .service: only a test
{HTTP, "params": {"path": "x"}} -> .params.path: expected /
{HTTP, "params": {"match": "all"}} -> .params.match: expected 'contains' beside
{"type": "commands_exist", "params": {"names": ["a"], "match": "any"}} -> .params.match: expected
{"type": "command_exists", "params": {"name": "a", "match": "share"}} -> .params: unknown key
{"type": "dirs_exist", "params": {"paths": ["a"], "match": "any"}} -> .params.match: expected 'all'
{"type": "file_contains", "params": {"path":"a", "contains":["b"], "match":"some"}} -> .params.match
{OUTPUT, "params": {"command":"a","contains":["b"],"match":"share","junit":"r","of":1}} -> .params
{OUTPUT, "params": {"command":"a","contains":["b"],"match":"share","count":"r","of":1}} -> .params
{"params": {"command": "a", "match": "share"}} -> .params: unknown key 'match'
{HTTP, "params": {"method": "PUT"}} -> .params.method: expected GET, HEAD or POST
{HTTP, "params": {"method": "get"}} -> .params.method: expected GET, HEAD or POST
{HTTP, "params": {"method": "HEAD", "contains": ["a"]}} -> .params.method: with HEAD
{HTTP, "params": {"method": "HEAD", "body": "a"}} -> .params.method: with HEAD
{HTTP, "params": {"body": ""}} -> .params.body: expected a string
{HTTP, "params": {"body": "a\u0000"}} -> .params.body: expected a string
{HTTP, "params": {"headers": {"a b": "c"}}} -> .params.headers.a b: expected a header
{HTTP, "params": {"headers": {"a": "b\nc"}}} -> .params.headers.a: expected a header
{HTTP, "params": {"headers": {"a": "b\rc"}}} -> .params.headers.a: expected a header
{HTTP, "params": {"headers": {"a": null}}} -> .params.headers.a: expected a string
{HTTP, "params": {"headers": {"content-length": "3"}}} -> .params.headers.content-length: expected a
{HTTP, "params": {"headers": {"Connection": "close"}}} -> .params.headers.Connection: expected a
{HTTP, "params": {"headers": ["a"]}} -> .params.headers: expected an object
{HTTP, "params": {"status": 199}} -> .params.status: expected an integer from 200 to
{HTTP, "params": {"headers": {"A": ""}}} -> .params.headers.A: expected a string
{HTTP, "params": {"headers": {"A": 1}}} -> .params.headers.A: expected a string
{HTTP, "params": {"headers": {"transfer-encoding":"x"}}} -> .params.headers.transfer-encoding:
{"params": {"command": "a", "junit": "r.xml"}} -> .params: expected 'count'
{"params": {"command": "a", "tests": ["a"]}} -> .params: expected 'count'
{"params": {"command": "a", "junit": "r.xml", "of": 3, "tests": ["a"]}} -> .params: expected 'count'
{"params": {"command": "a", "junit": "r.xml", "of": 3, "count": "x"}} -> .params: expected 'count'
{"params": {"command": "a", "count": "x", "tests": ["a"]}} -> .params: expected 'count'
{"params": {"command": "a", "junit": "r.xml", "tests": []}} -> .params.tests: expected a
{"params": {"command": "a", "junit": "r.xml", "tests": ["a", "b", "a"]}} -> .params.tests: expected
{"params": {"command": "a", "junit": "r.xml", "tests": "a"}} -> .params.tests: expected a non-empty
{"params": {"command": "a", "junit": "r.xml", "tests": [1]}} -> .params.tests: expected a non-empty
{"params": {"command": "a", "junit": "r.xml", "of": 0}} -> .params.of: expected an integer from 1
{"params": {"command": "a", "junit": "", "of": 3}} -> .params.junit: expected a string
{"params": {"command": "a", "junit": ["r.xml"], "of": 3}} -> .params.junit: expected a string
{"params": {"command": "a", "junit": "**/target/*.xml", "of": 3}} -> .params.junit: '*' is any part
""")
MISTAKES_BEYOND_A_SCHEMA = mistakes_of(r"""
{HTTP, "params": {DRAW}} -> .params.draw:
{"type": "command_exists", "params": {"name": "LÖNG"}} -> .params.name:
{"type": "command_exists", "params": {"name": "a\ud800"}} -> .params.name:
{"params": {"command": "{a}", "draw": {"a": [1000000, 1]}}} -> .params.draw.a:
{"params": {"command": "{a}", "draw": {"a": [1, 999999]}}} -> .params.draw:
{"params": {"command": "{a}", "draw": {"a": [2, 1000000]}}} -> .params.draw:
{"params": {"command": "x", DRAW}} -> .params.draw:
{"params": {"command": "{a} {a/2}", DRAW}} -> .params.draw:
{"params": {"command": "{a} {2*a}", DRAW}} -> .params.draw:
{"params": {"command": "{a} {a+1+a}", DRAW}} -> .params.draw:
{"params": {"command": "{a} {a+c}", DRAW}} -> .params.draw:
{OUTPUT, "params": {"command": "{a}", "contains": ["{a/2}"], DRAW}} -> .params.draw:
{OUTPUT, "params": {"command": "x", "contains": ["{a}"], DRAW}} -> .params.draw:
{"params": {"command": "x", "count": "(", "of": 3}} -> .params.count: not a regular expression of
{"params": {"command": "x", "count": "x{99999999999}", "of": 3}} -> .params.count: not a regular
{"params": {"command": "x", "count": "DEEP", "of": 3}} -> .params.count: not a regular expression of
{"params": {"command":"x", "count": "(a)(b)", "of": 3}} -> .params.count: expected at most one group
{"params": {"command": "x", "count": "x*", "of": 3}} -> .params.count: it matches the empty text
""")


def as_test(text):
    """Return a test of a table."""
    for word, meaning in SHORT.items():
        text = text.replace(word, meaning)
    return {**TRUE, **json.loads(text)}


def test_all_mistakes_are_reported_at_once_with_their_places():
    places = {**MISTAKES, **MISTAKES_BEYOND_A_SCHEMA}

    found = mistakes(json.dumps({"tests": list(map(as_test, places))}).encode())

    for at, place in enumerate(places.values()):
        assert found[at].startswith(f"r: tests[{at}]{place}")
    assert len(found) == len(places)


FILE_MISTAKES = mistakes_of("""
[{"type": "run_command"}] -> expected an object
{"repo": "r"} -> tests:
{"tests": []} -> tests:
{"tests": [3]} -> tests[0]:
{"tests": [{"params": {"name": "sh"}}]} -> tests[0].type:
{"tests": [{"type": "command_exists"}]} -> tests[0].params:
{"tests": [TRUE], "repo": 3} -> repo:
{"tests": [TRUE], "test": []} -> unknown key 'test'
{"tests": [TRUE], "run_options": ["--memory=1g", "--privileged"]} -> run_options:
""")
FILE_MISTAKES_BEYOND_A_SCHEMA = mistakes_of("""
{"tests": [TRUE, TRUE]} -> tests[1] 'a':
{"tests": [TRUE], "_": [{"_a": 1, "_a": 2}]} -> the key '_a' is given twice in
{"tests": [TRUE], "_": NaN} -> not valid JSON
{"tests": [TRUE], "_": -Infinity} -> not valid JSON
{"tests": [TRUE] -> not valid JSON
""")


def file_with_mistake(text):
    """Return a rubric with a mistake."""
    return text.replace("TRUE", json.dumps({**TRUE, "id": "a"}))


def test_mistake_outside_of_the_tests():
    for text, place in {**FILE_MISTAKES, **FILE_MISTAKES_BEYOND_A_SCHEMA}.items():
        assert mistakes(file_with_mistake(text).encode())[0].startswith(f"r: {place}")


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 100_000], ids=["empty", "bytes", "deep"])
def test_file_that_is_no_json_is_a_mistake(data):
    assert mistakes(data)[0].startswith("r: not valid JSON")


# Drawn numbers

TERMS = """
{a} {b} -> 7 -3
{a+b} {b-a} {a*b} {a-a} -> 4 -10 -21 0
{a+1} {a-10} {a*0} {a*007} -> 8 -3 0 49
{ a } {a + b} {a *2} -> 7 4 14
x{a}y{a}{b} [{"n": {a}}] -> x7y7-3 [{"n": 7}]
${a} {c} {c+d} {} {x,y} '{print $1}' a} { -> ${a} {c} {c+d} {} {x,y} '{print $1}' a} {
"""


def drawn(text, contains=""):
    """Return a test that draws 7, -3 and a random number."""
    test = output_contains(f"echo {{z}};{text}", contains or "x")
    test["params"]["draw"] = {"a": [7, 7], "b": [-3, -3], "z": [-1, 999_999]}
    return test


@table(TERMS)
def test_terms_of_drawn_numbers_are_replaced_in_command_and_contains(row):
    (test,) = read_tests(drawn(f"{row.when}{{a}}{{b}}", row.when))

    assert test.check.shown.partition(";")[2] == f"{row.then}7-3"
    assert judged(drawn("{a}{b}", row.when), row.then.encode()).status == "passed"


def test_numbers_are_drawn_anew_for_each_evaluation_and_from_their_whole_range():
    test = output_contains("echo {a} {b}", "x")
    test["params"]["draw"] = {"a": [-1, 1], "b": [0, 999_999]}

    assert {read(test).tests[0].check.drawn["a"] for _ in range(100)} == {-1, 0, 1}


def test_report_has_the_drawn_numbers_and_the_params_as_they_are_in_the_rubric(fake, score):
    test = drawn("echo {a} {b}", "{a} {b}")

    (row,) = score(test)["test_results"]

    assert row["params"] == test["params"]
    assert row["output"] == "{z}\n7 -3\n".format(**row["drawn"])


# The schema


# Tests that are right
FINE = r"""
{"type": "commands_exist", "params": {"names": ["a"], "match": "share"}}
{"type": "commands_exist", "params": {"names": ["a", "a"], "match": "all"}}
{"type": "files_exist", "params": {"paths": ["a"], "match": "share"}}
{"type": "files_exist", "params": {"paths": ["a"], "match": null}}
{"type": "file_contains", "params": {"path": "a", "contains": ["b"], "match": "share"}}
{OUTPUT, "params": {"command": "a", "contains": ["b"], "match": "share"}}
{OUTPUT, "params": {"command": "a", "contains": ["b"], "match": "all", "junit": "r", "of": 1}}
{"params": {"command": "a", "count": "x", "of": 3}}
{"params": {"command": "a", "junit": "r", "of": 1}}
{"params": {"command": "a", "junit": "a*/*.xml", "tests": ["x", "y"], "of": null}}
{"params": {"command": "a", "junit": "r", "tests": ["x"], "exit_code": 1}}
{HTTP, "params": {"method": "POST", "body": "{}", "headers": {"Content-Type": "a/b"}}}
{HTTP, "params": {"method": "HEAD", "status": 204}}
{HTTP, "params": {"method": null, "body": null, "headers": null, "path": null}}
{HTTP, "params": {"status": null, "contains": null, "match": null, "draw": null}}
{HTTP, "params": {"path": "/x", "contains": ["y"]}}
{HTTP, "params": {"headers": {"x-y_z!": "a: b", "HOST": "x"}}}
{HTTP, "params": {"contains": ["a"], "match": "share"}}
"""


def test_schema_accepts_what_the_reader_accepts():
    tests = [{"type": kind, "params": row.params} for kind in CASES for row in CASES[kind]]
    tests += map(as_test, FINE.strip().split("\n"))
    tests += [WITH_NULLS, {**TRUE, "service": True}, {**TRUE, "service": 65535}]
    content = {"_": 1, "run_options": ["--cpus=2", "--gpus=all"], "tests": tests}

    assert read(**content).tests
    of_the_project = [json.loads(file.read_text()) for file in PROJECT.glob("rubrics/*.json")]
    for each in (content, *of_the_project):
        schema("rubric").validate(each)


def test_schema_rejects_what_the_reader_rejects():
    files = [json.loads(file_with_mistake(text)) for text in FILE_MISTAKES]
    files += [{"tests": [as_test(text)]} for text in MISTAKES]

    assert list(filter(schema("rubric").is_valid, files)) == []


def test_default_id_avoids_the_ids_of_other_tests():
    rubric = read(TRUE, {**TRUE, "id": "run_command_1"}, description="what it is for")

    assert [test.id for test in rubric.tests] == ["run_command_1_", "run_command_1"]
