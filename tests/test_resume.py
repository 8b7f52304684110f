"""--resume: when a report is taken instead of a new evaluation, and the key of hidden values."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest
from cases import FALSE, TRUE
from conftest import called, schema

import DockerfileEvaluator as de


@pytest.fixture
def resume(fake, dockerfile, rubric, tmp_path):
    """Evaluate with resume; return the report, and whether docker was called."""

    def run(lines=("FROM x",), tests=(TRUE, FALSE), repo="r", **options):
        calls = len(fake.names())
        output = tmp_path / "report.json"
        report = de.evaluate(
            dockerfile(*lines), repo, rubric(*tests), str(output), resume=True, **options
        )
        schema("report").validate(report)
        assert report == json.loads(output.read_text())
        return report, len(fake.names()) > calls

    return run


def test_report_on_the_same_inputs_is_taken_without_docker(resume):
    first, is_new = resume()
    assert is_new

    assert resume() == (first, False)


def test_resumed_report_is_written_as_junit_too(resume, tmp_path):
    resume()

    resume(junit=str(tmp_path / "junit.xml"))

    assert (tmp_path / "junit.xml").read_text().startswith("<?xml")


def test_jobs_and_time_limits_change_no_result_of_a_built_image(resume):
    first, _ = resume()

    again = resume(jobs=4, build_timeout=9.0, start_timeout=9.0)

    assert again == (first, False)


NO_OPTIONS: dict = {}


class Change(NamedTuple):
    """Options of two evaluations of a Dockerfile that does not build."""

    what: str
    is_taken: bool  # is the report of the first one that of the second one?
    first: dict = NO_OPTIONS
    second: dict = NO_OPTIONS


CHANGES = [
    Change("--no-cache is added", second={"build_options": ["--no-cache"]}, is_taken=True),
    Change("--no-cache is removed", first={"build_options": ["--no-cache=true"]}, is_taken=True),
    Change(
        "an option that begins like --no-cache",
        second={"build_options": ["--no-cache-filter=a"]},
        is_taken=False,
    ),
    Change("more time for the build", second={"build_timeout": 9.0}, is_taken=False),
    Change("another time for the start", second={"start_timeout": 9.0}, is_taken=False),
    Change("no registry", second={"offline": True}, is_taken=False),
    Change("more jobs", second={"jobs": 4}, is_taken=True),
    Change("another context", second={"context": "."}, is_taken=False),
    Change("a run option", second={"run_options": ["--memory=1g"]}, is_taken=False),
    Change(
        "an option of the build becomes one of the run",
        first={"build_options": ["--network=host"]},
        second={"run_options": ["--network=host"]},
        is_taken=False,
    ),
    Change(
        "the same hidden value",
        first={"run_options": ["--env=TOKEN=one"]},
        second={"run_options": ["--env=TOKEN=one"]},
        is_taken=True,
    ),
    Change(
        "another hidden value",
        first={"run_options": ["--env=TOKEN=one"]},
        second={"run_options": ["--env=TOKEN=two"]},
        is_taken=False,
    ),
    Change(
        "another hidden value of a short option",
        first={"run_options": ["-eTOKEN=one"]},
        second={"run_options": ["-eTOKEN=two"]},
        is_taken=False,
    ),
    Change(
        "another hidden value of a build option",
        first={"build_options": ["--secret=id=one"]},
        second={"build_options": ["--secret=id=two"]},
        is_taken=False,
    ),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.what)
def test_resume_needs_the_same_options_timeouts_context_and_hidden_values(
    fake, dockerfile, rubric, change
):
    files = (dockerfile("FROM x", "RUN FAIL"), "r", rubric(TRUE))

    report = de.evaluate(*files, **change.first)

    assert de.matches(report, *files, **change.second) is change.is_taken


@pytest.mark.parametrize("option", ["--no-cache", f"{de.CACHE_NAMESPACE}model"])
def test_options_of_the_cache_are_no_condition(fake, dockerfile, rubric, option):
    """They decide no verdict, so that a report with them is like one without."""
    files = (dockerfile("FROM x"), "r", rubric(TRUE))

    report = de.evaluate(*files, build_options=[option])

    assert report["environment"]["build_options"] == []
    assert report["environment"]["options_key"] is None
    assert de.matches(report, *files)


OTHERS = {
    "dockerfile": {"lines": ("FROM x", "RUN y")},
    "rubric": {"tests": (TRUE,)},
    "repo": {"repo": "x"},
}


@pytest.mark.parametrize("changed", OTHERS)
def test_report_on_another_dockerfile_rubric_or_repo_is_replaced(resume, changed):
    resume()

    _, is_new = resume(**OTHERS[changed])

    assert is_new


def test_key_of_hidden_values_is_salted(evaluate, fake):
    """So that two reports do not tell whether they had the same value."""
    lines = ["FROM x", "RUN FAIL"]

    reports = [evaluate(lines, TRUE, run_options=["--env=TOKEN=s3cret"]) for _ in range(2)]

    first, second = [report["environment"]["options_key"] for report in reports]
    assert first != second
    assert "s3cret" not in first + second


def test_failed_build_is_resumed(resume):
    lines = ("FROM x", "RUN FAIL")
    first, _ = resume(lines)
    assert first["error"]["kind"] == "build"

    assert resume(lines) == (first, False)


@pytest.fixture
def is_replaced(resume, tmp_path):
    """Change a report by a function, and return whether a new one takes its place."""

    def run(change):
        report, _ = resume()
        change(report)
        (tmp_path / "report.json").write_text(json.dumps(report))
        return resume()[1]

    return run


def test_report_that_nobody_changed_is_not_replaced(is_replaced):
    def change(report):
        pass

    assert not is_replaced(change)


@pytest.mark.parametrize("kind", ["engine", "registry", "usage", "interrupted"])
def test_report_without_a_score_is_replaced(is_replaced, kind):
    def change(report):
        report["error"] = {"kind": kind, "message": "x"}

    assert is_replaced(change)


def test_report_with_a_damaged_row_is_replaced(is_replaced):
    def change(report):
        report["test_results"][0]["status"] = 7

    assert is_replaced(change)


def test_report_without_a_summary_is_replaced(is_replaced):
    def change(report):
        del report["summary"]

    assert is_replaced(change)


def test_report_without_a_total_score_is_replaced(is_replaced):
    def change(report):
        del report["summary"]["total_score"]

    assert is_replaced(change)


def test_report_without_the_key_of_hidden_values_is_replaced(is_replaced):
    """As version 1 wrote it."""

    def change(report):
        del report["environment"]["options_key"]

    assert is_replaced(change)


CONTENTS = ["", "{", "[]", "null", '{"error": null}', '{"environment": 3}', "\0", "[" * 100_000]


@pytest.mark.parametrize("content", CONTENTS, ids=[text[:20] for text in CONTENTS])
def test_file_that_is_no_report_is_replaced(resume, tmp_path, content):
    (tmp_path / "report.json").write_text(content)

    _, is_new = resume()

    assert is_new


class Resumed(NamedTuple):
    """A test, and what its report ends with."""

    when: str
    test: dict
    code: int
    summary: str


RESUMED = [
    Resumed("it passed", TRUE, code=0, summary="1 of 1 tests passed, score 1 of 1 (100.0%)"),
    Resumed("it failed", FALSE, code=1, summary="0 of 1 tests passed, score 0 of 1 (0.0%)"),
]


@pytest.mark.parametrize("row", RESUMED, ids=lambda row: row.when)
def test_resumed_report_prints_its_summary_and_has_the_same_exit_code(fake, arguments, row):
    words = arguments(["FROM x"], row.test, more=["--resume"])
    first, _, _ = called(de.main, *words)
    calls = len(fake.names())

    again, out, _ = called(de.main, *words)

    assert first == row.code
    assert again == row.code
    assert len(fake.names()) == calls
    assert row.summary in out


@pytest.mark.parametrize("output", [None, "-"])
def test_resume_needs_an_output_file(evaluate, output):
    with pytest.raises(ValueError, match="resume"):
        evaluate(["FROM x"], TRUE, resume=True, output=output)


def test_rubric_that_can_be_read_once_has_its_own_hash(fake, dockerfile, rubric, tmp_path):
    """Such as `--rubric <(jq ...)`: a second rubric is not taken for the first one."""
    output = str(tmp_path / "report.json")

    def evaluate_from_a_pipe(content):
        read_end, write_end = os.pipe()
        os.write(write_end, content)
        os.close(write_end)
        pipe = f"/dev/fd/{read_end}"
        report = de.evaluate(dockerfile("FROM x"), "r", pipe, output, resume=True)
        os.close(read_end)
        return report

    for tests in ([TRUE], [FALSE, FALSE]):
        content = Path(rubric(*tests)).read_bytes()

        report = evaluate_from_a_pipe(content)

        assert len(report["test_results"]) == len(tests), tests
        sha256 = report["environment"]["rubric_sha256"]
        assert sha256 == hashlib.sha256(content).hexdigest(), tests


@pytest.mark.parametrize(("limit", "is_taken"), [(120.0, True), (600.0, False)])
def test_resume_after_an_image_that_never_started_compares_the_start_limit(
    fake, evaluate, dockerfile, rubric, limit, is_taken
):
    report = evaluate(["FROM x"], TRUE)
    report["environment"]["image_starts"] = False
    files = (dockerfile("FROM x"), "example", rubric(TRUE))

    assert de.matches(report, *files, start_timeout=limit) is is_taken
