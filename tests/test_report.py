"""The report: fields, sums, JSON, JUnit, Markdown, and how the files are written."""

from __future__ import annotations

import datetime
import errno
import json
import os
import re
import stat
import subprocess
from xml.etree import ElementTree

import junitparser
import pytest
from cases import FALSE, LOOK, TRUE, run_command
from conftest import SETTINGS, called, outcome, schema, statuses

import DockerfileEvaluator as de

NUMBER = (int, float)
SEED = {"repo": str, "dockerfile": str, "rubric": str, "summary": dict, "test_results": list}
SUMMARY = {"total_tests": int, "passed_tests": int, "failed_tests": int, "total_score": NUMBER, "max_score": NUMBER, "success_rate": float, "total_execution_time": float}  # fmt: skip
ROW = {
    "test_id": str,
    "test_type": str,
    "passed": bool,
    "score": NUMBER,
    "message": str,
    "execution_time": float,
}
MORE = "max_score status exit_code timeout output category params drawn retried".split()


def test_fields_and_their_order(fake, evaluate, tmp_path):
    output = tmp_path / "deep" / "er" / "report.json"
    tests = [
        {**TRUE, "id": "a", "category": "x"},
        run_command("echo no; exit 4", id="b", score=0.5),
        LOOK,
    ]
    returned = evaluate(["FROM x"], *tests, output=str(output))
    report, summary, rows = returned, returned["summary"], returned["test_results"]
    assert json.loads(output.read_text()) == report
    assert output.read_text()[:5] == '{\n  "'
    assert list(report) == [*SEED, "build", "error", "warnings", "environment"]
    assert list(summary) == [*SUMMARY, "by_category"]
    assert {tuple(row) for row in rows} == {(*ROW, *MORE)}
    assert list(report["build"]) == ["succeeded", "execution_time", "message", "log"]
    for value, fields in ((report, SEED), (summary, SUMMARY), (rows[1], ROW)):
        assert [name for name, kind in fields.items() if not isinstance(value[name], kind)] == []
    names = ("score", "max_score", "exit_code", "output", "category", "timeout")
    assert [rows[0][name] for name in names] == [1, 1, 0, None, "x", 30]
    assert [rows[1][name] for name in names] == [0, 0.5, 4, "no\n", None, 30]


ENVIRONMENT = {
    "evaluator_version": de.__version__, "docker_client": "28.2.2", "docker_server": "20.10.24", "platform": "linux/amd64",
    "storage_driver": "overlay2", "engine_cpus": 4, "engine_memory": 2**32, "builder": "legacy", "image_platform": "linux/amd64",
    "image_id": "sha256:" + "1d" * 32, "image_size": 1234, "layers": ["sha256:" + "5a" * 32, "sha256:" + "6b" * 32],
    "image_starts": True, "kept_image": None, "context": "/", "jobs": 2, "build_timeout": 9, "start_timeout": 120,
    "options_key": None, "offline": False, "no_cache": False,
}  # fmt: skip
PODMAN = {"NCPU": None, "MemTotal": None, "Driver": None, "host": {"cpus": 8, "memTotal": 9}, "store": {"graphDriverName": "overlay"}}  # fmt: skip
PODMAN_FACTS = {"engine_cpus": 8, "engine_memory": 9, "storage_driver": "overlay"}


@pytest.mark.parametrize(
    ("info", "facts"), [({}, {}), (PODMAN, PODMAN_FACTS)], ids=["docker", "podman"]
)
def test_environment(fake, evaluate, info, facts):
    fake.set(info=info)
    environment = evaluate(["FROM x"], TRUE, context="/", jobs=2, build_timeout=9)["environment"]
    assert {name: environment[name] for name in ENVIRONMENT} == {**ENVIRONMENT, **facts}
    assert de.__version__.startswith("2.")


WARNINGS = [("another", "amd64", "'another'"), ("example", "arm64", "linux/arm64")]


@pytest.mark.parametrize(("repo", "machine", "warning"), WARNINGS)
def test_warning_is_in_the_report_and_on_the_screen(
    fake, arguments, report, rubric, repo, machine, warning
):
    words = arguments(["FROM x"], TRUE)
    rubric(TRUE, repo=repo)
    fake.set(image={"Architecture": machine})
    code, out, _ = called(de.main, *words)
    (text,) = report()["warnings"]
    assert code == 0
    assert f"\nwarning: {text}\n" in out
    assert warning in text


def test_points_are_summed_without_rounding_errors_also_by_category(fake, evaluate):
    """0.1 + 0.2 is 0.3; a category has its own totals."""
    scores = [(0.1, "x", TRUE), (0.2, "x", TRUE), (2, "y", FALSE), (1, None, TRUE)]
    tests = [{**test, "score": score, "category": category} for score, category, test in scores]
    summary = evaluate(["FROM x"], *tests)["summary"]
    assert summary["total_score"] == 1.3
    assert summary["max_score"] == 3.3
    assert summary["success_rate"] == 0.75
    x, y = summary["by_category"]["x"], summary["by_category"]["y"]
    assert list(x.values()) == [2, 2, 0, 0.3, 0.3]
    assert y == {
        "total_tests": 1,
        "passed_tests": 0,
        "failed_tests": 1,
        "total_score": 0,
        "max_score": 2,
    }


def test_percentage_is_rounded_down():
    numbers = [
        (999, 1000),
        (9999, 10000),
        (1, 1),
        (2, 3),
        (0.3, 0.3),
        (1234570, 1238570),
        (0.29, 1),
        (0, 0),
    ]
    found = [de.percent(part, whole) for part, whole in numbers]
    assert found == ["99.9%", "99.9%", "100.0%", "66.6%", "100.0%", "99.6%", "29.0%", "0.0%"]


def test_schema_requires_every_field(fake, evaluate):
    report = evaluate(["FROM x"], TRUE)
    parts = [report["build"], report["environment"], report["summary"], report["test_results"][0]]
    for place in (report, *parts):
        for name in list(place):
            value = place.pop(name)
            assert not schema("report").is_valid(report), name
            place[name] = value
    assert not schema("report").is_valid({**report, "more": 1})
    schema("report").validate({**report, "repeated": True})
    old = {**report, "environment": {**report["environment"], "evaluator_version": "1.2.0"}}
    assert not schema("report").is_valid(old)


# JUnit

OUTCOMES = [
    {**TRUE, "id": "good"},
    run_command("printf 'a\\001\\377]]>&amp;<b>\\n'; exit 3", id="bad"),
    run_command("sleep 60", id="late", timeout=0.5),
    {**TRUE, "id": "after", "requires": ["bad"]},
    {**TRUE, "id": "lost", "requires": ["none"]},
]


def test_junit_has_a_testcase_for_each_test(fake, evaluate, tmp_path):
    file = tmp_path / "deep" / "junit.xml"
    evaluate(["FROM x"], *OUTCOMES, junit=str(file))
    (suite,) = junitparser.JUnitXml.fromfile(str(file))
    assert suite.tests == 5
    assert suite.failures == 2
    assert suite.errors == 1
    assert suite.skipped == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.timestamp)
    cases = {case.name: case for case in suite}
    kinds = {
        name: [type(result).__name__ for result in case.result] for name, case in cases.items()
    }
    found = [[], ["Failure"], ["Failure"], ["Skipped"], ["Error"]]
    assert kinds == dict(zip(("good", "bad", "late", "after", "lost"), found))
    assert cases["bad"].result[0].message.startswith("exit code 3: ")
    assert cases["bad"].system_out == "a\ufffd\ufffd]]>&amp;<b>\n"
    assert cases["good"].classname == "example.run_command"
    assert cases["late"].time >= 0.5


def test_junit_of_failed_build_has_its_message_in_each_testcase(fake, evaluate, tmp_path):
    """Names and order of elements and attributes are those that Jenkins and Surefire accept."""
    file = tmp_path / "junit.xml"
    report = evaluate(["FROM x", "RUN FAIL"], *OUTCOMES, junit=str(file))
    message, environment = report["build"]["message"], report["environment"]
    names = ("image_id", "image_size", "layers", "image_platform", "image_starts")
    assert [environment[name] for name in names] == [None] * 5
    root = ElementTree.parse(str(file)).getroot()
    assert set(root.attrib) == {
        "name",
        "tests",
        "failures",
        "errors",
        "skipped",
        "time",
        "timestamp",
    }
    assert [child.tag for child in root] == ["testcase"] * 5 + ["system-out"]
    assert "last words of the build" in root[-1].text
    for case in root[:-1]:
        assert set(case.attrib) == {"classname", "name", "time"}
        assert [child.tag for child in case] == ["error"]
        assert set(case[0].attrib) == {"type", "message"}
        assert message in case[0].attrib["message"]


# Markdown


def test_markdown_is_appended(fake, arguments, tmp_path):
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    evil = run_command("echo '<img src=x> | *b* [x](http://y) `c`'; false")
    for lines in (["FROM x"], ["FROM x", "RUN FAIL"]):
        assert called(de.main, *arguments(lines, TRUE, evil, more=[f"--markdown={file}"]))[0] == 1
    lines = file.read_text().splitlines()
    assert lines[0] == "before"
    assert lines[3] == "1 of 2 tests passed, score 1 of 2 (50.0%)"
    assert lines[5:7] == ["| status | test | score | message | seconds |", "|---|---|---|---|---|"]
    text = r"exit code 1\: \<img src=x\> \| \*b\* \[x\](http\://y) \`c\`"
    assert lines[8].startswith(rf"| failed | run\_command\_2 | 0/1 | {text} | ")
    assert [line[:9] for line in lines if line.startswith("**")] == ["**build**"]


# Writing


@pytest.mark.parametrize("option", ["output", "junit", "markdown"])
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
@pytest.mark.parametrize("option", ["output", "junit", "markdown"])
@pytest.mark.parametrize("other", ["rubric", "dockerfile"])
def test_report_must_not_overwrite_an_input(fake, dockerfile, rubric, tmp_path, option, other, how):
    files = {"dockerfile": dockerfile("FROM x"), "rubric": rubric(TRUE)}
    link = tmp_path / "link"
    link.symlink_to(files[other])
    path = {"same": files[other], "relative": os.path.relpath(files[other]), "link": str(link)}[how]
    words = [word for name, file in {**files, option: path}.items() for word in (f"--{name}", file)]
    code, _, err = called(de.main, "--repo", "r", *words)
    assert code == 2
    assert path in err
    assert fake.names() == []


def test_reports_must_not_overwrite_each_other(fake, arguments, tmp_path):
    path = f"{tmp_path}/../{tmp_path.name}/report.json"
    code, _, err = called(de.main, *arguments(["FROM x"], TRUE, more=["--junit", path]))
    assert code == 2
    assert path in err
    assert fake.names() == []


def refuse(monkeypatch, function, target, number):
    real = getattr(os, function)

    def fail(source, path, **more):
        if os.fspath(path) == str(target):
            raise OSError(number, os.strerror(number))
        return real(source, path, **more)

    monkeypatch.setattr(de.os, function, fail)


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EPERM, errno.EACCES])
def test_file_that_cannot_be_replaced_is_overwritten(fake, evaluate, monkeypatch, tmp_path, number):
    output = tmp_path / "reports" / "report.json"
    output.parent.mkdir()
    output.write_text("old" * 100_000)
    before = output.stat().st_ino
    refuse(monkeypatch, "replace", output, number)
    report = evaluate(["FROM x"], TRUE, output=str(output))
    assert json.loads(output.read_text()) == report
    assert output.stat().st_ino == before
    assert os.listdir(str(output.parent)) == ["report.json"]


def test_full_disk_keeps_the_old_report_and_the_summary_is_printed(
    fake, arguments, monkeypatch, tmp_path
):
    output = tmp_path / "report.json"
    output.write_text("old")
    refuse(monkeypatch, "replace", output, errno.ENOSPC)
    code, out, err = called(de.main, *arguments(["FROM x"], TRUE))
    assert code == 1
    assert "1 of 1 tests passed, score 1 of 1 (100.0%)" in out
    assert "report: " not in out
    assert "error: " in err
    assert "No space left on device" in err
    assert output.read_text() == "old"
    assert [file.name for file in tmp_path.glob("report*")] == ["report.json"]
    files = (str(tmp_path / "context" / "Dockerfile"), "r", str(tmp_path / "rubric.json"))
    with pytest.raises(de.EvaluationError, match="No space left on device") as caught:
        de.evaluate(*files, str(output))
    assert outcome(caught.value.report) == "passed"


def test_report_follows_links_and_has_ordinary_permissions(tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    os.symlink(str(target), str(link))
    before = os.umask(0o027)
    try:
        de.write_file(str(link), "new")
    finally:
        os.umask(before)
    assert link.is_symlink() is True
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_report_can_be_a_pipe(fake, evaluate, tmp_path):
    os.mkfifo(str(tmp_path / "pipe"))
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE) as reader:
        report = evaluate(["FROM x"], TRUE, output=str(tmp_path / "pipe"))
        assert json.loads(reader.communicate()[0].decode()) == report
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


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


ENGINES = [
    ({"SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"]}, ["rootless", "seccomp"]),
    ({"SecurityOptions": ["name=userns"]}, ["userns"]),
    ({"SecurityOptions": None}, []),
    ({"host": {"security": {"rootless": True}}}, ["rootless"]),
]  # fmt: skip


@pytest.mark.parametrize(("info", "names"), ENGINES)
def test_security_options_of_the_engine_are_in_the_report(info, names):
    assert de.engine_facts(info)["security_options"] == names


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-39_600, "s behind this machine's"), (90, "s ahead of this machine's"), (20, "")],
)
def test_engine_with_another_clock_is_a_warning(fake, evaluate, monkeypatch, seconds, words):
    monkeypatch.setattr(de, "MAX_CLOCK_OFFSET", 60.0)
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    fake.set(info={"SystemTime": now.strftime("%Y-%m-%dT%H:%M:%S.5Z")})
    report = evaluate(["FROM x"], TRUE)
    assert abs(report["environment"]["clock_offset"] - seconds) < 15
    assert any(words in warning for warning in report["warnings"]) == bool(words)


def test_carriage_returns_in_a_here_document_are_a_warning(fake, rubric, tmp_path):
    fake.fault("build", "print", stderr="#1 [internal] load build definition\n")
    for name, text in (
        ("a", "FROM x\r\nRUN <<EOF\r\ntrue\r\nEOF\r\n"),
        ("b", "FROM x\r\nRUN true\r\n"),
    ):
        (tmp_path / name).write_bytes(text.encode())
    path = rubric(TRUE)
    with_document = de.evaluate(str(tmp_path / "a"), "example", path)
    without = de.evaluate(str(tmp_path / "b"), "example", path)
    assert with_document["warnings"] == [
        "CRLF: here-documents keep the carriage returns of their lines"
    ]
    assert without["warnings"] == []


def test_image_without_a_platform_is_not_emulated(fake, evaluate):
    """As the containerd store has it if no manifest fits."""
    fake.set(image={**SETTINGS["image"], "Os": "", "Architecture": ""})
    report = evaluate(["FROM x"], TRUE)
    assert report["environment"]["image_platform"] is None
    assert report["warnings"] == []


def test_diagnosis_lists_what_was_asked_and_answered(fake, evaluate):
    fake.fault("build", stdout="Step 1/2 : FROM x\nStep 2/2 : COPY x /\n", stderr="some reason")
    fake.fault("smoke run", code=125, stderr="no bridge")
    error = evaluate(["FROM x"], TRUE)["error"]
    assert error["kind"] == "engine"
    (answer,) = error["diagnosis"]
    assert answer.startswith(
        "engine, a minimal image without options: it cannot start a minimal container"
    )


def test_diagnosis_of_a_permanent_failure_is_empty(fake, evaluate):
    assert evaluate(["FROM x", "RUN FAIL"], TRUE)["error"]["diagnosis"] == []


# The faults of an engine, and whether they say that it fails for every Dockerfile.
ENGINE_FAULTS = {
    "no engine": ({"on": "version", "stderr": "Cannot connect to the Docker daemon"}, True),
    "no minimal container": ({"on": "smoke run", "code": 125, "stderr": "no bridge"}, True),
    "a lost connection": ({"on": "build", "stderr": "error reading from server: EOF"}, False),
}


@pytest.mark.parametrize("name", ENGINE_FAULTS)
def test_report_says_whether_the_engine_fails_for_every_dockerfile(fake, evaluate, name):
    fault, engine_failed = ENGINE_FAULTS[name]
    if fault["on"] == "smoke run":
        fake.fault("build", stdout="Step 1/2 : FROM x\nStep 2/2 : COPY x /\n", stderr="some reason")
    fake.fault(**fault)
    error = evaluate(["FROM x"], TRUE)["error"]
    assert error["kind"] == "engine"
    assert error["engine_failed"] is engine_failed
