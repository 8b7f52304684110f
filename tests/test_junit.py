"""reports/junit.py: JUnit XML from reports."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cases import TRUE
from conftest import PROJECT, called, load_program, make_report

import DockerfileEvaluator as de

junit = load_program(PROJECT / "reports" / "junit.py")
run = functools.partial(called, junit.main)  # returns the exit code, stdout and stderr

STATUSES = [de.PASSED, de.FAILED, de.TIMEOUT, de.SKIPPED, de.UNRESOLVABLE, de.NOT_RUN]


def report(outcome=(de.PASSED,), **facts):
    """Return a report: `outcome` is the kind of its error, or the statuses of its tests."""
    Path("Dockerfile").write_text("FROM x")
    tests = [TRUE] * (1 if isinstance(outcome, str) else len(outcome))
    options = de.completed(de.Options("Dockerfile", "flask", {"tests": tests}))
    return {**make_report(outcome, options, log="the log"), **facts}


def save(content, path="report.json"):
    """Write a report; return its path."""
    Path(path).write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def suite_of(content):
    """Return the XML of a report, read again."""
    code, out, err = run(save(content))
    assert (code, err) == (0, "")
    return ElementTree.fromstring(out)


def test_each_status_has_its_element_and_the_suite_counts_them():
    content = report(STATUSES)
    content["summary"]["total_execution_time"] = 2.5

    suite = suite_of(content)

    elements = [[part.tag for part in case] for case in suite]
    assert elements == [[], ["failure"], ["failure"], ["skipped"], ["error"], ["error"]]
    assert suite.tag == "testsuite"
    assert suite.attrib == {
        "name": "flask: Dockerfile",
        "tests": "6",
        "failures": "2",
        "errors": "2",
        "skipped": "1",
        "time": "2.5",
    }


def test_testcase_has_name_model_time_message_and_output():
    content = report([de.FAILED], dockerfile="artifacts/atlas/flask.dockerfile")
    content["test_results"][0].update(execution_time=1.5, output="the output", message="why")

    (case,) = suite_of(content)

    assert case.attrib == {
        "name": "run_command_1",
        "classname": "artifacts/atlas/flask.run_command",
        "time": "1.5",
    }
    assert [(part.tag, part.get("message"), part.text) for part in case] == [
        ("failure", "why", "why"),
        ("system-out", None, "the output"),
    ]


@pytest.mark.parametrize("kind", ["build", "engine"])
def test_without_an_image_each_testcase_has_an_error_and_the_suite_has_the_log(kind):
    case, log = suite_of(report(kind))

    assert [(part.tag, part.text) for part in case] == [("error", "not run")]
    assert (log.tag, log.text) == ("system-out", "why\nthe log")


FORBIDDEN = "a\x00\x1f\ufffe\ud800]]>&<c>\t\x85\U0001f600"
KEPT = "a\ufffd\ufffd\ufffd\ufffd]]>&<c>\t\x85\U0001f600"


def test_no_text_has_what_xml_forbids():
    content = report([de.FAILED], repo=FORBIDDEN, error={"message": f"{FORBIDDEN}\x1b[0m"})
    names = ("test_id", "test_type", "message", "output")
    content["test_results"][0].update(dict.fromkeys(names, FORBIDDEN))
    content["test_results"][0]["output"] += "\x1b[91m"

    suite = suite_of(content)

    (case, log), (failure, output) = suite, suite[0]
    assert suite.get("name") == f"{KEPT}: Dockerfile"
    assert case.get("name") == failure.get("message") == failure.text == output.text == KEPT
    assert case.get("classname") == f"Dockerfile.{KEPT}"
    assert log.text == f"{KEPT}\nthe log"


def test_several_reports_are_suites_in_one_file():
    paths = [save(report(repo=repo), f"{repo}.json") for repo in ("flask", "express")]

    assert run(*paths, "--output", "deep/score.xml") == (0, "", "")

    top = ElementTree.parse("deep/score.xml").getroot()
    names = [(suite.tag, suite.get("name")) for suite in top]
    assert top.tag == "testsuites"
    assert names == [("testsuite", "flask: Dockerfile"), ("testsuite", "express: Dockerfile")]


NUMBERS = dict.fromkeys(["status", "test_id", "test_type", "execution_time", "message"], 1.5)
BROKEN = [
    {"test_results": [{**NUMBERS, "output": None}]},
    {"dockerfile": 1},
    {"summary": None},
    {"test_results": [1]},
    {"test_results": [{"status": []}]},
    {"test_results": [{"status": "failed", "test_id": "a"}]},
    {"error": {"message": "why"}, "build": {}},
]


@pytest.mark.parametrize("content", ["", "[]", "{}", *BROKEN], ids=str)
def test_file_that_is_no_report_is_named_and_the_others_are_written(content):
    """A text is the file, a dict has the fields of a report that are wrong."""
    broken = content if isinstance(content, str) else report([de.FAILED], **content)
    paths = [save(broken, "broken.json"), "none.json", save(report())]

    code, out, err = run(*paths)

    assert code == 1
    assert err.splitlines() == [
        "error: broken.json: not a report of the evaluator",
        "error: cannot read none.json: No such file or directory",
    ]
    assert [suite.tag for suite in ElementTree.fromstring(out)] == ["testsuite"]


def test_without_a_report_nothing_is_written():
    assert run("none.json", "--output", "score.xml")[0] == 1
    assert not Path("score.xml").exists()


def test_file_that_cannot_be_written_is_an_error():
    Path("folder").mkdir()

    code, _, err = run(save(report()), "--output", "folder")

    assert code == 1
    assert err.startswith("error: folder: cannot write: ")


def test_interrupt_ends_with_its_exit_code(monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(junit, "as_suite", interrupt)

    assert run(save(report()))[0] == 130
