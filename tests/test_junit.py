"""reports/junit.py: what no transcript shows of JUnit XML from reports."""

import functools
import json
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import junit
import pytest
from cases import TRUE
from conftest import called, make_report

import DockerfileEvaluator as de

run = functools.partial(called, junit.main)  # returns the exit code, stdout and stderr


def write(outcome=(de.FAILED,), **facts):
    """Write a report of one test.

    `outcome` is the kind of its error, or the status of the test.
    """
    Path("Dockerfile").touch()
    options = de.completed(de.Options("Dockerfile", "flask", {"tests": [TRUE]}))
    content = {**make_report(outcome, options, log="the log"), **facts}
    Path("report.json").write_text(json.dumps(content))
    return "report.json"


def suite_of(*given, **facts):
    """Return the XML of a report, read again."""
    code, out, err = run(write(*given, **facts))
    assert (code, err) == (0, "")
    return ElementTree.fromstring(out)


def test_suite_and_testcase_have_times_the_name_of_the_model_and_no_colour_codes():
    row = {"test_id": "a", "test_type": "b", "status": "passed", "execution_time": 1}
    row["output"] = "\x1b[91mtext"
    facts = {"summary": {"total_execution_time": 2.5}, "test_results": [row]}

    suite = suite_of(dockerfile="artifacts/atlas/flask.dockerfile", **facts)

    assert suite.get("time") == "2.5"
    assert suite[0].attrib == {"name": "a", "classname": "artifacts/atlas/flask.b", "time": "1"}
    assert suite[0][0].text == "text"


@pytest.mark.parametrize("kind", ["build", "engine"])
def test_without_an_image_each_testcase_has_an_error_and_the_suite_has_the_log(kind):
    case, log = suite_of(kind)

    assert [(part.tag, part.text) for part in case] == [("error", "not run")]
    assert (log.tag, log.text) == ("system-out", "why\nthe log")


def test_no_text_has_what_xml_forbids_or_colour_codes():
    """A transcript shows those of a test."""
    text = "a\x00\x1f\ufffe\ud800]]>&<c>\t\x85\U0001f600"

    suite = suite_of("build", repo=text, error={"message": f"{text}\x1b[0m"})

    kept = "a\ufffd\ufffd\ufffd\ufffd]]>&<c>\t\x85\U0001f600"
    assert (suite.get("name"), suite[1].text) == (f"{kept}: Dockerfile", f"{kept}\nthe log")


BROKEN = """
{"dockerfile": 1}
{"summary": null}
{"test_results": [1]}
{"test_results": [{"status": []}]}
{"test_results": [{"status": "failed", "test_id": "a"}]}
{"error": {"message": "why"}, "build": {}}
"""


@pytest.mark.parametrize("facts", BROKEN.split("\n")[1:-1])
def test_file_that_is_no_report_is_named(facts):
    """A transcript shows that the others are written."""
    error = "error: report.json: not a report of the evaluator\n"

    assert run(write(**json.loads(facts)), "--output", "score.xml") == (1, "", error)
    assert not Path("score.xml").exists()


def test_file_that_cannot_be_written_is_an_error():
    code, _, err = run(write(), "--output", "/")

    assert (code, err) == (1, "error: /: cannot write: Is a directory\n")


def test_interrupt_ends_with_its_exit_code(monkeypatch):
    monkeypatch.setattr(junit, "write", mock.Mock(side_effect=KeyboardInterrupt))

    assert run("report.json")[0] == 130
