"""The report: fields, sums, JSON, JUnit, Markdown, and how the files are written."""

from __future__ import annotations

import datetime
import errno
import json
import os
import re
import stat
import subprocess
from typing import NamedTuple
from xml.etree import ElementTree

import junitparser
import pytest
from cases import FALSE, LOOK, TRUE, run_command
from conftest import SETTINGS, called, outcome, schema, statuses

import DockerfileEvaluator as de

NUMBER = (int, float)
# Fields and their types, in their order; more fields follow them
REPORT = {"repo": str, "dockerfile": str, "rubric": str, "summary": dict, "test_results": list}
SUMMARY = {
    "total_tests": int,
    "passed_tests": int,
    "failed_tests": int,
    "total_score": NUMBER,
    "max_score": NUMBER,
    "success_rate": float,
    "total_execution_time": float,
}
ROW = {
    "test_id": str,
    "test_type": str,
    "passed": bool,
    "score": NUMBER,
    "message": str,
    "execution_time": float,
}
MORE_OF_REPORT = ["build", "error", "warnings", "environment"]
MORE_OF_ROW = [
    "max_score",
    "status",
    "exit_code",
    "timeout",
    "output",
    "category",
    "params",
    "drawn",
    "retried",
]


def of_wrong_type(values, types):
    return {
        name: values[name] for name, kind in types.items() if not isinstance(values[name], kind)
    }


def test_report_is_written_as_json_in_a_new_folder(fake, evaluate, tmp_path):
    output = tmp_path / "deep" / "er" / "report.json"

    report = evaluate(["FROM x"], TRUE, LOOK, output=str(output))

    text = output.read_text()
    assert json.loads(text) == report
    assert text.startswith('{\n  "')


def test_fields_and_their_order(fake, evaluate):
    report = evaluate(["FROM x"], {**TRUE, "category": "x"}, FALSE, LOOK)

    assert list(report) == [*REPORT, *MORE_OF_REPORT]
    assert list(report["summary"]) == [*SUMMARY, "by_category"]
    assert list(report["build"]) == ["succeeded", "execution_time", "message", "log"]
    for row in report["test_results"]:
        assert list(row) == [*ROW, *MORE_OF_ROW], row["test_id"]


def test_types_of_fields(fake, evaluate):
    report = evaluate(["FROM x"], {**FALSE, "score": 0.5})

    assert of_wrong_type(report, REPORT) == {}
    assert of_wrong_type(report["summary"], SUMMARY) == {}
    assert of_wrong_type(report["test_results"][0], ROW) == {}


def test_row_of_a_passed_test(fake, evaluate):
    (row,) = evaluate(["FROM x"], {**TRUE, "category": "x"})["test_results"]

    assert row["score"] == 1
    assert row["max_score"] == 1
    assert row["exit_code"] == 0
    assert row["output"] is None
    assert row["category"] == "x"
    assert row["timeout"] == 30


def test_row_of_a_failed_test(fake, evaluate):
    (row,) = evaluate(["FROM x"], run_command("echo no; exit 4", score=0.5))["test_results"]

    assert row["score"] == 0
    assert row["max_score"] == 0.5
    assert row["exit_code"] == 4
    assert row["output"] == "no\n"
    assert row["category"] is None
    assert row["timeout"] == 30


ENVIRONMENT = {
    "evaluator_version": de.__version__,
    "docker_client": "28.2.2",
    "docker_server": "20.10.24",
    "platform": "linux/amd64",
    "storage_driver": "overlay2",
    "engine_cpus": 4,
    "engine_memory": 2**32,
    "builder": "legacy",
    "image_platform": "linux/amd64",
    "image_id": "sha256:" + "1d" * 32,
    "image_size": 1234,
    "layers": ["sha256:" + "5a" * 32, "sha256:" + "6b" * 32],
    "image_starts": True,
    "kept_image": None,
    "context": "/",
    "jobs": 2,
    "build_timeout": 9,
    "start_timeout": 120,
    "options_key": None,
    "offline": False,
    "no_cache": False,
}


def test_environment(fake, evaluate):
    environment = evaluate(["FROM x"], TRUE, context="/", jobs=2, build_timeout=9)["environment"]

    assert {name: environment[name] for name in ENVIRONMENT} == ENVIRONMENT
    assert de.__version__.startswith("2.")


def test_environment_of_podman(fake, evaluate):
    docker_only = {"NCPU": None, "MemTotal": None, "Driver": None}
    podman = {"host": {"cpus": 8, "memTotal": 9}, "store": {"graphDriverName": "overlay"}}
    fake.set(info={**docker_only, **podman})

    environment = evaluate(["FROM x"], TRUE, context="/", jobs=2, build_timeout=9)["environment"]

    assert {name: environment[name] for name in ENVIRONMENT} == {
        **ENVIRONMENT,
        "engine_cpus": 8,
        "engine_memory": 9,
        "storage_driver": "overlay",
    }


class Warned(NamedTuple):
    """The repo of the rubric, the machine of the image, and a part of the only warning."""

    when: str
    warning: str
    repo: str = "example"
    machine: str = "amd64"


WARNED = [
    Warned("the rubric is that of another repo", repo="another", warning="'another'"),
    Warned("the image is for another machine", machine="arm64", warning="linux/arm64"),
]


@pytest.mark.parametrize("row", WARNED, ids=lambda row: row.when)
def test_warning_is_in_the_report_and_on_the_screen(fake, arguments, report, rubric, row):
    words = arguments(["FROM x"], TRUE)
    rubric(TRUE, repo=row.repo)
    fake.set(image={"Architecture": row.machine})

    code, out, _ = called(de.main, *words)

    (warning,) = report()["warnings"]
    assert code == 0
    assert row.warning in warning
    assert f"\nwarning: {warning}\n" in out


def test_points_are_summed_without_rounding_errors(fake, evaluate):
    """0.1 + 0.2 is 0.3."""
    tests = [{**TRUE, "score": 0.1}, {**TRUE, "score": 0.2}, {**FALSE, "score": 2}, TRUE]

    summary = evaluate(["FROM x"], *tests)["summary"]

    assert summary["total_score"] == 1.3
    assert summary["max_score"] == 3.3
    assert summary["success_rate"] == 0.75


def test_category_has_its_own_totals(fake, evaluate):
    tests = [
        {**TRUE, "score": 0.1, "category": "x"},
        {**TRUE, "score": 0.2, "category": "x"},
        {**FALSE, "score": 2, "category": "y"},
        TRUE,
    ]

    summary = evaluate(["FROM x"], *tests)["summary"]

    assert summary["by_category"] == {
        "x": {
            "total_tests": 2,
            "passed_tests": 2,
            "failed_tests": 0,
            "total_score": 0.3,
            "max_score": 0.3,
        },
        "y": {
            "total_tests": 1,
            "passed_tests": 0,
            "failed_tests": 1,
            "total_score": 0,
            "max_score": 2,
        },
    }


class Percentage(NamedTuple):
    part: float
    whole: float
    text: str


PERCENTAGES = [
    Percentage(part=999, whole=1000, text="99.9%"),
    Percentage(part=9999, whole=10000, text="99.9%"),
    Percentage(part=1, whole=1, text="100.0%"),
    Percentage(part=2, whole=3, text="66.6%"),
    Percentage(part=0.3, whole=0.3, text="100.0%"),
    Percentage(part=1234570, whole=1238570, text="99.6%"),
    Percentage(part=0.29, whole=1, text="29.0%"),
    Percentage(part=0.009, whole=3, text="0.3%"),  # 0.009 / 3 * 1000 is 2.99…
    Percentage(part=0, whole=0, text="0.0%"),
]


@pytest.mark.parametrize("row", PERCENTAGES, ids=lambda row: f"{row.part} of {row.whole}")
def test_percentage_is_rounded_down(row):
    assert de.percent(row.part, row.whole) == row.text


def test_schema_requires_every_field(fake, evaluate):
    report = evaluate(["FROM x"], TRUE)
    parts = [report["build"], report["environment"], report["summary"], report["test_results"][0]]
    for place in (report, *parts):
        for name in list(place):
            value = place.pop(name)
            assert not schema("report").is_valid(report), f"without {name}"
            place[name] = value
    assert schema("report").is_valid(report)


def test_schema_allows_repeated_and_no_unknown_field(fake, evaluate):
    report = evaluate(["FROM x"], TRUE)

    schema("report").validate({**report, "repeated": True})
    assert not schema("report").is_valid({**report, "more": 1})


def test_schema_rejects_a_report_of_version_1(fake, evaluate):
    report = evaluate(["FROM x"], TRUE)

    report["environment"]["evaluator_version"] = "1.2.0"

    assert not schema("report").is_valid(report)


def test_test_without_a_command_has_no_exit_code(fake, evaluate):
    (row,) = evaluate(["FROM x"], LOOK)["test_results"]

    assert row["status"] == "passed"
    assert row["exit_code"] is None


def test_test_that_did_not_run_was_not_retried(fake, evaluate):
    (row,) = evaluate(["FROM x", "RUN FAIL"], TRUE)["test_results"]

    assert row["status"] == "not_run"
    assert row["retried"] is False


# JUnit

OUTCOMES = [
    {**TRUE, "id": "good"},
    run_command("printf 'a\\001\\377]]>&amp;<b>\\n'; exit 3", id="bad"),
    run_command("sleep 60", id="late", timeout=0.5),
    {**TRUE, "id": "after", "requires": ["bad"]},
    {**TRUE, "id": "lost", "requires": ["none"]},
]


@pytest.fixture
def junit(fake, evaluate, tmp_path):
    """Evaluate the tests of OUTCOMES; return the report and the path of its JUnit file."""

    def run(*lines):
        file = tmp_path / "deep" / "junit.xml"
        return evaluate(list(lines), *OUTCOMES, junit=str(file)), str(file)

    return run


def test_junit_has_a_testcase_for_each_test(junit):
    _, file = junit("FROM x")

    (suite,) = junitparser.JUnitXml.fromfile(file)
    results = {case.name: [type(result).__name__ for result in case.result] for case in suite}
    assert results == {
        "good": [],
        "bad": ["Failure"],
        "late": ["Failure"],
        "after": ["Skipped"],
        "lost": ["Error"],
    }


def test_junit_suite_has_totals_and_a_timestamp(junit):
    _, file = junit("FROM x")

    (suite,) = junitparser.JUnitXml.fromfile(file)
    assert suite.tests == 5
    assert suite.failures == 2
    assert suite.errors == 1
    assert suite.skipped == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.timestamp)


def test_junit_testcase_has_class_time_message_and_output(junit):
    _, file = junit("FROM x")

    (suite,) = junitparser.JUnitXml.fromfile(file)
    cases = {case.name: case for case in suite}
    assert cases["good"].classname == "example.run_command"
    assert cases["late"].time >= 0.5
    assert cases["bad"].result[0].message.startswith("exit code 3: ")
    assert cases["bad"].system_out == "a\ufffd\ufffd]]>&amp;<b>\n"


def test_junit_of_failed_build_has_its_message_in_each_testcase(junit):
    """Names and order of elements and attributes are those that Jenkins and Surefire accept."""
    report, file = junit("FROM x", "RUN FAIL")

    root = ElementTree.parse(file).getroot()
    totals = {"tests", "failures", "errors", "skipped"}
    assert set(root.attrib) == {"name", "time", "timestamp", *totals}
    assert [child.tag for child in root] == ["testcase"] * 5 + ["system-out"]
    assert "last words of the build" in root[-1].text
    for case in root[:-1]:
        assert set(case.attrib) == {"classname", "name", "time"}
        (error,) = case
        assert error.tag == "error"
        assert set(error.attrib) == {"type", "message"}
        assert report["build"]["message"] in error.attrib["message"]


def test_failed_build_has_no_facts_of_an_image(fake, evaluate):
    environment = evaluate(["FROM x", "RUN FAIL"], TRUE)["environment"]

    assert environment["image_id"] is None
    assert environment["image_size"] is None
    assert environment["layers"] is None
    assert environment["image_platform"] is None
    assert environment["image_starts"] is None


def test_time_of_the_junit_suite_is_that_of_the_tests(fake, evaluate):
    report = evaluate(["FROM x"], TRUE)
    report["summary"]["total_execution_time"] = 12.5

    suite = ElementTree.fromstring(de.as_junit(report))

    assert suite.get("time") == "12.5"


def test_junit_failure_has_its_message_as_text(fake, evaluate):
    suite = ElementTree.fromstring(de.as_junit(evaluate(["FROM x"], FALSE)))

    failure = suite.find(".//failure")
    assert failure.get("message") == "exit code 1: why"
    assert failure.text == "exit code 1: why"


# Markdown


def test_markdown_is_appended(fake, arguments, tmp_path):
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    for lines in (["FROM x"], ["FROM x", "RUN FAIL"]):
        called(de.main, *arguments(lines, TRUE, more=[f"--markdown={file}"]))

    before, *lines = file.read_text().splitlines()

    assert before == "before"
    assert "1 of 1 tests passed, score 1 of 1 (100.0%)" in lines
    assert [line[:9] for line in lines if line.startswith("**")] == ["**build**"]


def test_markdown_has_a_summary_and_a_table(fake, arguments, tmp_path):
    file = tmp_path / "summary.md"
    evil = run_command("echo '<img src=x> | *b* [x](http://y) `c`'; false")

    code, _, _ = called(de.main, *arguments(["FROM x"], TRUE, evil, more=[f"--markdown={file}"]))

    lines = file.read_text().splitlines()
    message = r"exit code 1\: \<img src=x\> \| \*b\* \[x\](http\://y) \`c\`"
    assert code == 1
    assert lines[2] == "1 of 2 tests passed, score 1 of 2 (50.0%)"
    assert lines[4:6] == ["| status | test | score | message | seconds |", "|---|---|---|---|---|"]
    assert lines[7].startswith(rf"| failed | run\_command\_2 | 0/1 | {message} | ")


def test_markdown_that_is_too_long_has_the_failures_that_fit(fake, evaluate):
    report = evaluate(["FROM x"], TRUE, FALSE)
    passed, failed = report["test_results"]
    report["test_results"] = [passed, *[{**failed, "message": "x" * 300}] * 40]

    text = de.as_markdown(report)

    shown = [line for line in text.splitlines() if line.startswith("| failed |")]
    assert "| passed |" not in text
    assert f"\n… and {41 - len(shown)} more tests\n" in text
    assert de.MAX_MARKDOWN - len(shown[0]) <= len(text.encode()) < de.MAX_MARKDOWN


# Writing


OUTPUTS = ["output", "junit", "markdown"]


@pytest.mark.parametrize("option", OUTPUTS)
@pytest.mark.parametrize("path", ["folder", "file/report"])
def test_unwritable_file_is_an_error_before_the_build(
    fake, dockerfile, rubric, tmp_path, option, path
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")

    with pytest.raises(de.EvaluationError, match=path):
        de.evaluate(dockerfile("FROM x"), "r", rubric(TRUE), **{option: str(tmp_path / path)})

    assert fake.names() == []


@pytest.mark.parametrize("how", ["same", "relative", "link"])
@pytest.mark.parametrize("option", OUTPUTS)
@pytest.mark.parametrize("other", ["rubric", "dockerfile"])
def test_report_must_not_overwrite_an_input(fake, dockerfile, rubric, tmp_path, option, other, how):
    inputs = {"dockerfile": dockerfile("FROM x"), "rubric": rubric(TRUE)}
    link = tmp_path / "link"
    link.symlink_to(inputs[other])
    paths = {"same": inputs[other], "relative": os.path.relpath(inputs[other]), "link": str(link)}
    files = {**inputs, option: paths[how]}

    words = [word for name, file in files.items() for word in (f"--{name}", file)]
    code, _, err = called(de.main, "--repo", "r", *words)

    assert code == 2
    assert paths[how] in err
    assert fake.names() == []


def test_reports_must_not_overwrite_each_other(fake, arguments, tmp_path):
    path = f"{tmp_path}/../{tmp_path.name}/report.json"

    code, _, err = called(de.main, *arguments(["FROM x"], TRUE, more=["--junit", path]))

    assert code == 2
    assert path in err
    assert fake.names() == []


@pytest.fixture
def refuse_replace(monkeypatch):
    """Let os.replace() end with an error number for one target."""
    real = os.replace

    def change(target, number):
        def replace(source, path, **more):
            if os.fspath(path) == str(target):
                raise OSError(number, os.strerror(number))
            return real(source, path, **more)

        monkeypatch.setattr(de.os, "replace", replace)

    return change


@pytest.mark.parametrize(
    "number", [errno.EBUSY, errno.EPERM, errno.EACCES], ids=errno.errorcode.get
)
def test_file_that_cannot_be_replaced_is_overwritten(
    fake, evaluate, refuse_replace, tmp_path, number
):
    output = tmp_path / "reports" / "report.json"
    output.parent.mkdir()
    output.write_text("old" * 100_000)
    inode = output.stat().st_ino
    refuse_replace(output, number)

    report = evaluate(["FROM x"], TRUE, output=str(output))

    assert json.loads(output.read_text()) == report
    assert output.stat().st_ino == inode
    assert os.listdir(str(output.parent)) == ["report.json"]


def test_full_disk_keeps_the_old_report_and_the_summary_is_printed(
    fake, arguments, refuse_replace, tmp_path
):
    output = tmp_path / "report.json"
    output.write_text("old")
    refuse_replace(output, errno.ENOSPC)

    code, out, err = called(de.main, *arguments(["FROM x"], TRUE))

    assert code == 1
    assert "1 of 1 tests passed, score 1 of 1 (100.0%)" in out
    assert "report: " not in out
    assert "error: " in err
    assert "No space left on device" in err
    assert output.read_text() == "old"
    assert [file.name for file in tmp_path.glob("report*")] == ["report.json"]


def test_error_of_a_full_disk_has_the_report(fake, evaluate, refuse_replace, tmp_path):
    output = tmp_path / "report.json"
    refuse_replace(output, errno.ENOSPC)

    with pytest.raises(de.EvaluationError, match="No space left on device") as caught:
        evaluate(["FROM x"], TRUE, output=str(output))

    assert outcome(caught.value.report) == "passed"


@pytest.fixture
def umask():
    """Set a umask until the end of the test."""
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_report_follows_links_and_has_ordinary_permissions(tmp_path, umask):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)

    de.write_file(str(link), "new")

    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_report_can_be_a_pipe(fake, evaluate, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(str(pipe))

    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        report = evaluate(["FROM x"], TRUE, output=str(pipe))
        text, _ = reader.communicate()

    assert json.loads(text.decode()) == report
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("output", ["-", "/dev/stdout"])
def test_report_on_stdout_is_all_of_stdout(fake, start, arguments, output):
    words = arguments(["FROM x"], FALSE, more=["--verbose", "--output", output])

    process = start(*words)
    out, err = process.communicate(timeout=60)

    report = json.loads(out)
    schema("report").validate(report)
    assert process.returncode == 1
    assert statuses(report) == {"run_command_1": "failed"}
    assert b"0 of 1 tests passed" in err


def test_report_on_a_full_stdout_is_an_error(fake, start, arguments):
    with open("/dev/full", "w") as full:
        process = start(*arguments(["FROM x"], TRUE, more=["--output=-"]), stdout=full)
        _, err = process.communicate(timeout=60)

    assert process.returncode == 1
    assert b"1 of 1 tests passed" in err
    assert b"No space left" in err
    assert b"Traceback" not in err


# The engine


class Security(NamedTuple):
    """What an engine says of itself, and the security options in the report."""

    when: str
    info: dict
    names: list


SECURITY = [
    Security(
        "docker as an ordinary user",
        info={"SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"]},
        names=["rootless", "seccomp"],
    ),
    Security("one option", info={"SecurityOptions": ["name=userns"]}, names=["userns"]),
    Security("no options", info={"SecurityOptions": None}, names=[]),
    Security(
        "podman as an ordinary user",
        info={"host": {"security": {"rootless": True}}},
        names=["rootless"],
    ),
]


@pytest.mark.parametrize("row", SECURITY, ids=lambda row: row.when)
def test_security_options_of_the_engine_are_in_the_report(row):
    assert de.engine_facts(row.info)["security_options"] == row.names


@pytest.fixture
def evaluate_with_clock(fake, evaluate, monkeypatch):
    """Evaluate on an engine whose clock is some seconds ahead."""
    monkeypatch.setattr(de, "MAX_CLOCK_OFFSET", 60.0)

    def run(seconds):
        now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
        fake.set(info={"SystemTime": now.strftime("%Y-%m-%dT%H:%M:%S.5Z")})
        return evaluate(["FROM x"], TRUE)

    return run


@pytest.mark.parametrize(
    ("seconds", "words"), [(-39_600, "s behind this machine's"), (90, "s ahead of this machine's")]
)
def test_engine_with_another_clock_is_a_warning(evaluate_with_clock, seconds, words):
    report = evaluate_with_clock(seconds)

    assert words in " ".join(report["warnings"])
    assert report["environment"]["clock_offset"] == pytest.approx(seconds, abs=15)


def test_engine_with_almost_the_same_clock_is_no_warning(evaluate_with_clock):
    report = evaluate_with_clock(20)

    assert report["warnings"] == []
    assert report["environment"]["clock_offset"] == pytest.approx(20, abs=15)


CARRIAGE_RETURNS = [
    ("FROM x\r\nRUN true\r\n", []),
    (
        "FROM x\r\nRUN <<EOF\r\ntrue\r\nEOF\r\n",
        ["CRLF: here-documents keep the carriage returns of their lines"],
    ),
]


@pytest.mark.parametrize(
    ("text", "warnings"), CARRIAGE_RETURNS, ids=["no here-document", "a here-document"]
)
def test_carriage_returns_in_a_here_document_are_a_warning(fake, rubric, tmp_path, text, warnings):
    fake.fault("build", "print", stderr="#1 [internal] load build definition\n")
    (tmp_path / "Dockerfile").write_bytes(text.encode())

    report = de.evaluate(str(tmp_path / "Dockerfile"), "example", rubric(TRUE))

    assert report["warnings"] == warnings


def test_image_without_a_platform_is_not_emulated(fake, evaluate):
    """As the containerd store has it if no manifest fits."""
    fake.set(image={**SETTINGS["image"], "Os": "", "Architecture": ""})

    report = evaluate(["FROM x"], TRUE)

    assert report["environment"]["image_platform"] is None
    assert report["warnings"] == []


def fail_without_a_known_reason(fake):
    """Let the build fail, so that a minimal container shows whether the engine works."""
    steps = "Step 1/2 : FROM x\nStep 2/2 : COPY x /\n"
    fake.fault("build", stdout=steps, stderr="some reason")


def test_diagnosis_lists_what_was_asked_and_answered(fake, evaluate):
    fail_without_a_known_reason(fake)
    fake.fault("smoke run", code=125, stderr="no bridge")

    error = evaluate(["FROM x"], TRUE)["error"]

    (answer,) = error["diagnosis"]
    question = "engine, a minimal image without options"
    assert error["kind"] == "engine"
    assert answer.startswith(f"{question}: it cannot start a minimal container")


def test_diagnosis_of_a_permanent_failure_is_empty(fake, evaluate):
    assert evaluate(["FROM x", "RUN FAIL"], TRUE)["error"]["diagnosis"] == []


def test_engine_that_does_not_answer_fails_for_every_dockerfile(fake, evaluate):
    fake.fault("version", stderr="Cannot connect to the Docker daemon")

    error = evaluate(["FROM x"], TRUE)["error"]

    assert error["kind"] == "engine"
    assert error["engine_failed"] is True


def test_engine_that_starts_no_minimal_container_fails_for_every_dockerfile(fake, evaluate):
    fail_without_a_known_reason(fake)
    fake.fault("smoke run", code=125, stderr="no bridge")

    error = evaluate(["FROM x"], TRUE)["error"]

    assert error["kind"] == "engine"
    assert error["engine_failed"] is True


def test_lost_connection_says_nothing_of_other_dockerfiles(fake, evaluate):
    fake.fault("build", stderr="error reading from server: EOF")

    error = evaluate(["FROM x"], TRUE)["error"]

    assert error["kind"] == "engine"
    assert error["engine_failed"] is False
