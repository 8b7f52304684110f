"""--resume: when a report is taken instead of a new evaluation, and the key of hidden option values."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from cases import FALSE, TRUE
from conftest import called, schema

import DockerfileEvaluator as de

NO_SCORE = ("engine", "registry", "usage", "interrupted")


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


def test_report_on_the_same_inputs_is_taken_without_docker(resume, tmp_path):
    first, is_new = resume()
    assert is_new
    assert resume(junit=str(tmp_path / "junit.xml")) == (first, False)
    assert (tmp_path / "junit.xml").read_text().startswith("<?xml")
    assert resume(jobs=4, build_timeout=9.0, start_timeout=9.0) == (
        first,
        False,
    )  # they change no result


# Options of the first evaluation and of the second one; is the report taken?
TAKEN = [
    ({}, {"build_options": ["--no-cache"]}, True),
    ({"build_options": ["--no-cache=true"]}, {}, True),
    ({}, {"build_options": ["--no-cache-filter=a"]}, False),
    ({}, {"build_timeout": 9.0}, False),  # of a failed build
    ({}, {"offline": True}, False),
    ({}, {"jobs": 4}, True),
    ({}, {"context": "."}, False),
    ({}, {"run_options": ["--memory=1g"]}, False),
    ({"build_options": ["--network=host"]}, {"run_options": ["--network=host"]}, False),
    ({"run_options": ["--env=TOKEN=one"]}, {"run_options": ["--env=TOKEN=one"]}, True),
    ({"run_options": ["--env=TOKEN=one"]}, {"run_options": ["--env=TOKEN=two"]}, False),
    ({"run_options": ["-eTOKEN=one"]}, {"run_options": ["-eTOKEN=two"]}, False),
    ({"build_options": ["--secret=id=one"]}, {"build_options": ["--secret=id=two"]}, False),
]


@pytest.mark.parametrize(("first", "second", "is_taken"), TAKEN)
def test_resume_needs_the_same_options_timeouts_context_and_hidden_values(
    fake, dockerfile, rubric, first, second, is_taken
):
    files = (dockerfile("FROM x", "RUN FAIL"), "r", rubric(TRUE))
    assert de.matches(de.evaluate(*files, **first), *files, **second) == is_taken


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
    assert resume(**OTHERS[changed])[1] is True


def test_key_of_hidden_values_is_salted(evaluate, fake):
    """So that two reports do not tell whether they had the same value."""
    reports = [
        evaluate(["FROM x", "RUN FAIL"], TRUE, run_options=["--env=TOKEN=s3cret"]) for _ in range(2)
    ]
    keys = {report["environment"]["options_key"] for report in reports}
    assert len(keys) == 2
    assert not any("s3cret" in key for key in keys)


def test_failed_build_is_resumed(resume):
    first, _ = resume(("FROM x", "RUN FAIL"))
    assert first["error"]["kind"] == "build"
    assert resume(("FROM x", "RUN FAIL")) == (first, False)


DAMAGES = {
    **{
        kind: lambda report, kind=kind: report.update(error={"kind": kind, "message": "x"})
        for kind in NO_SCORE
    },
    "a row": lambda report: report["test_results"][0].update(status=7),
    "no summary": lambda report: report.pop("summary"),
    "version 1": lambda report: report["environment"].pop("options_key"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_report_that_is_damaged_old_or_without_a_score_is_replaced(resume, tmp_path, damage):
    report, _ = resume()
    DAMAGES[damage](report)
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert resume()[1] is True


CONTENTS = ["", "{", "[]", "null", '{"error": null}', '{"environment": 3}', "\0", "[" * 100_000]


@pytest.mark.parametrize("content", CONTENTS, ids=[text[:20] for text in CONTENTS])
def test_file_that_is_no_report_is_replaced(resume, tmp_path, content):
    (tmp_path / "report.json").write_text(content)
    assert resume()[1] is True


@pytest.mark.parametrize(("test", "code"), [(TRUE, 0), (FALSE, 1)])
def test_resumed_report_prints_its_summary_and_has_the_same_exit_code(fake, arguments, test, code):
    words = arguments(["FROM x"], test, more=["--resume"])
    assert called(de.main, *words)[0] == code
    calls = len(fake.names())
    again, out, _ = called(de.main, *words)
    assert again == code
    assert len(fake.names()) == calls
    assert f"{1 - code} of 1 tests passed, score {1 - code} of 1 ({100 - 100 * code}.0%)" in out


@pytest.mark.parametrize("output", [None, "-"])
def test_resume_needs_an_output_file(evaluate, output):
    with pytest.raises(ValueError, match="resume"):
        evaluate(["FROM x"], TRUE, resume=True, output=output)


def test_rubric_that_can_be_read_once_has_its_own_hash(fake, dockerfile, rubric, tmp_path):
    """Such as `--rubric <(jq ...)`: a second rubric is not taken for the first one."""
    output = tmp_path / "report.json"
    for tests in ([TRUE], [FALSE, FALSE]):
        content = Path(rubric(*tests)).read_bytes()
        read_end, write_end = os.pipe()
        os.write(write_end, content)
        os.close(write_end)
        report = de.evaluate(
            dockerfile("FROM x"), "r", f"/dev/fd/{read_end}", str(output), resume=True
        )
        os.close(read_end)
        assert len(report["test_results"]) == len(tests)
        assert report["environment"]["rubric_sha256"] == hashlib.sha256(content).hexdigest()
