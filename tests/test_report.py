"""Section 5, the report: fields and totals, no score, JUnit, and how files are written."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from cases import FALSE, LOOK, TRUE, run_command
from conftest import called, ended_by, error_of, schema

import DockerfileEvaluator as de


@pytest.fixture
def options(dockerfile, rubric, tmp_path):
    """Return the options of an evaluation."""
    output = str(tmp_path / "report.json")
    return de.checked(de.Options(dockerfile("FROM x"), "example", rubric(TRUE), output))


# Fields

TOTALS = ["total_tests", "passed_tests", "failed_tests", "total_score", "max_score"]
SEED_ROW = ["test_id", "test_type", "passed", "score", "message", "execution_time"]
ROW = [
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


def test_keys_of_the_seed_come_first_in_their_order(fake, evaluate):
    report = evaluate(["FROM x"], {**TRUE, "category": "x"}, FALSE, LOOK)

    seed = ["repo", "dockerfile", "rubric", "summary", "test_results"]
    assert list(report) == [*seed, "build", "error", "warnings", "environment"]
    summary = [*TOTALS, "success_rate", "total_execution_time", "by_category"]
    assert list(report["summary"]) == summary
    assert list(report["build"]) == ["succeeded", "execution_time", "message", "log"]
    for row in report["test_results"]:
        assert list(row) == SEED_ROW + ROW, row["test_id"]


def test_row_tells_how_a_test_ended(fake, evaluate):
    failing = run_command("echo no; exit 4", id="f", score=0.5, category="x", timeout=9)

    failed, looked = evaluate(["FROM x"], failing, LOOK)["test_results"]

    del failed["execution_time"]
    assert "exit code 4" in failed.pop("message")
    assert failed == {
        "test_id": "f",
        "test_type": "run_command",
        "passed": False,
        "score": 0,
        "max_score": 0.5,
        "status": "failed",
        "exit_code": 4,
        "timeout": 9,
        "output": "no\n",
        "category": "x",
        "params": failing["params"],
        "drawn": {},
        "retried": False,
    }
    assert (looked["passed"], looked["status"], looked["score"]) == (True, "passed", 1)
    assert (looked["exit_code"], looked["output"]) == (None, None), "it has no command"


ENVIRONMENT = {
    "evaluator_version": de.__version__,
    "docker_client": "28.2.2",
    "docker_server": "20.10.24",
    "builder": "legacy",
    "platform": "linux/amd64",
    "storage_driver": "overlay2",
    "security_options": ["name=rootless"],
    "engine_cpus": 4,
    "engine_memory": 2**32,
    "image_id": "sha256:" + "1d" * 32,
    "image_size": 1234,
    "image_platform": "linux/amd64",
    "image_starts": True,
    "kept_image": None,
    "context": "/",
    "overlay": None,
    "offline": False,
    "build_timeout": 9,
    "start_timeout": 120,
}


def test_environment_has_the_facts_of_the_engine_and_the_image(fake, evaluate):
    fake.set(info={"SecurityOptions": ["name=rootless"]})

    environment = evaluate(["FROM x"], TRUE, context="/", build_timeout=9)["environment"]

    assert {name: environment[name] for name in ENVIRONMENT} == ENVIRONMENT


PODMAN = {
    "docker_client": "5",
    "docker_server": "5",
    "platform": "linux/arm64",
    "storage_driver": "overlay",
    "security_options": None,
    "engine_cpus": 8,
    "engine_memory": 9,
}


def test_environment_has_the_facts_of_podman(fake):
    info = {"host": {"cpus": 8, "memTotal": 9}, "store": {"graphDriverName": "overlay"}}
    version = {"Client": {"Version": "5", "OsArch": "linux/arm64"}, "Server": None}
    fake.set(info={"NCPU": None, "MemTotal": None, "Driver": None, **info}, version=version)

    assert de.engine_facts(de.Docker("docker")) == PODMAN


PUBLISHED = {
    "--env=TOKEN=s3cret": "--env=…",
    "-eTOKEN=s3cret": "-e…",
    "--secret=id=s3cret\ns3cret": "--secret=…",
    "--memory=1g": "--memory=1g",
    "--init": "--init",
}


def test_values_of_options_that_may_be_secrets_are_hidden(options, rubric):
    rubric(TRUE, run_options=["--cpus=2"])
    words = list(PUBLISHED)

    report = ended_by(None, options._replace(run_options=words, build_options=words))

    assert report["environment"]["build_options"] == list(PUBLISHED.values())
    assert report["environment"]["run_options"] == ["--cpus=2", *PUBLISHED.values()]


def test_rubric_of_another_repo_and_emulated_image_are_warnings(fake, evaluate):
    fake.set(image={"Architecture": "arm64"})

    repo, platform = evaluate(["FROM x"], TRUE, top={"repo": "another"})["warnings"]

    assert "'another'" in repo
    assert "linux/arm64" in platform


def test_schema_requires_every_field_and_knows_no_other(fake, evaluate):
    report = evaluate(["FROM x", "RUN exit 3"], TRUE)

    parts = [report["build"], report["environment"], report["summary"], report["error"]]
    for part in (report, *parts, report["test_results"][0]):
        for name in list(part):
            value = part.pop(name)
            assert not schema("report").is_valid(report), f"without {name}"
            part[name] = value
        part["more"] = 1
        assert not schema("report").is_valid(report)
        del part["more"]
    schema("report").validate(report)


# Totals


def test_points_are_summed_without_rounding_errors_in_all_and_by_category(fake, evaluate):
    """0.1 + 0.2 is 0.3."""
    tests = [
        {**TRUE, "score": 0.1, "category": "x"},
        {**TRUE, "score": 0.2, "category": "x"},
        {**FALSE, "score": 2, "category": "y"},
        TRUE,
    ]

    summary = evaluate(["FROM x"], *tests)["summary"]

    assert summary["success_rate"] == 0.75
    assert [summary[name] for name in TOTALS] == [4, 3, 1, 1.3, 3.3]
    assert summary["by_category"] == {
        "x": dict(zip(TOTALS, [2, 2, 0, 0.3, 0.3])),
        "y": dict(zip(TOTALS, [1, 0, 1, 0, 2])),
    }


PERCENTAGES = {(9999, 10000): "99.9%", (2, 3): "66.6%", (0.29, 1): "29.0%", (0, 0): "0.0%"}


@pytest.mark.parametrize("points", PERCENTAGES)
def test_percentage_is_rounded_down(points):
    assert de.percent(*points) == PERCENTAGES[points]


SCORES = {"build": 0, "build_timeout": 0}
SCORES.update(dict.fromkeys(["engine", "registry", "usage", "interrupted"]))


@pytest.mark.parametrize("kind", SCORES)
def test_failed_build_has_the_score_0_and_other_errors_have_none(options, kind):
    report = ended_by(kind, options)

    schema("report").validate(report)
    summary = report["summary"]
    assert summary["total_score"] == summary["success_rate"] == SCORES[kind]
    assert (summary["max_score"], report["error"]["kind"]) == (1, kind)
    assert report["test_results"][0]["status"] == "not_run"


def test_failed_build_has_its_log_and_builder_even_if_the_engine_is_lost_then(fake, evaluate):
    fake.fault("control COPY")

    report = evaluate(["FROM x", "RUN exit 3"], TRUE)

    assert error_of(report)[0] == "engine"
    assert report["environment"]["builder"] == "legacy"
    assert "last words of the build" in report["build"]["log"]


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

    suite = ElementTree.parse(str(file)).getroot()
    totals = {"tests": "5", "failures": "2", "errors": "1", "skipped": "1"}
    assert {name: suite.get(name) for name in totals} == totals
    assert [(case.get("name"), [child.tag for child in case]) for case in suite] == [
        ("good", []),
        ("bad", ["failure", "system-out"]),
        ("late", ["failure"]),
        ("after", ["skipped"]),
        ("lost", ["error"]),
    ]
    failure, output = suite[1]
    assert failure.get("message") == failure.text
    assert failure.text.startswith("exit code 3, expected 0: ")
    assert output.text == "a\ufffd\ufffd]]>&amp;<b>\n"  # without what XML forbids


def test_junit_of_a_failed_build_has_an_error_in_each_testcase_and_the_log(options):
    report = ended_by("build", options)
    report["build"]["log"] = "the log"

    suite = ElementTree.fromstring(de.as_junit(report))

    tags = ["testsuite", "testcase", "error", "system-out"]
    assert [element.tag for element in suite.iter()] == tags
    assert suite[1].text == "the log"


# Files


@pytest.fixture
def ordinary_user(monkeypatch):
    """Let os.access() answer root as it answers others."""

    def access(path, mode):
        return os.path.exists(path) and bool(os.stat(path).st_mode & 0o200)

    monkeypatch.setattr(de.os, "access", access)


UNWRITABLE = [
    pytest.param("mkdir -p reports/report", id="a folder"),
    pytest.param("touch reports", id="below a file"),
    pytest.param("mkdir -m 555 reports", id="a new file in a protected folder"),
    pytest.param(
        "mkdir reports; touch reports/report; chmod 555 reports",
        id="an old file in a protected folder",
    ),
]


@pytest.mark.parametrize("option", ["output", "junit"])
@pytest.mark.parametrize("shell", UNWRITABLE)
def test_unwritable_file_is_an_error_before_docker_is_started(
    fake, evaluate, ordinary_user, option, shell
):
    subprocess.run(["sh", "-c", shell], check=True)

    with pytest.raises(de.EvaluationError, match="reports/report"):
        evaluate(["FROM x"], TRUE, **{option: "reports/report"})

    assert fake.names() == []


def test_report_is_written_as_strict_json_in_a_new_folder(fake, evaluate):
    report = evaluate(["FROM x"], run_command("echo €"), output="deep/er/report.json")

    with open("deep/er/report.json", encoding="utf-8") as file:
        text = file.read()
    assert json.loads(text) == report
    assert text.startswith('{\n  "repo": "example",\n')
    assert '"output": "€\\n"' in text


@pytest.mark.parametrize(("broken", "written"), [("output", "junit"), ("junit", "output")])
def test_each_file_is_written_even_if_another_one_cannot_be(fake, arguments, broken, written):
    """And the summary is printed."""
    more = [f"--{broken}=/dev/full", f"--{written}=file"]

    code, out, err = called(de.main, *arguments(["FROM x"], TRUE, more=more))

    assert code == 1
    assert "1 of 1 tests passed" in out
    assert "error: /dev/full: cannot write: " in err
    assert os.path.getsize("file") > 100


@pytest.fixture
def full_disk():
    """Let this process write no file of more than a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_leaves_the_old_file_and_no_other(tmp_path, full_disk):
    file = tmp_path / "report.json"
    file.write_text("old")

    with pytest.raises(de.EvaluationError, match=r"report\.json: cannot write"):
        de.write_file(str(file), "x" * 1000)

    assert file.read_text() == "old"
    assert list(tmp_path.glob("report*")) == [file]


def test_report_follows_a_link(tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    link.symlink_to(target)

    de.write_file(str(link), "new")

    assert link.is_symlink()
    assert target.read_text() == "new"


def test_report_can_be_a_pipe(tmp_path):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)

    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        de.write_file(pipe, "text")

        assert reader.communicate() == (b"text", None)


def test_report_can_be_a_process_substitution():
    """Such as --output >(jq .summary)."""
    reader, writer = os.pipe()

    de.write_file(f"/dev/fd/{writer}", "text")

    assert os.read(reader, 9) == b"text"


def test_report_on_stdout_is_all_of_stdout(fake, start, arguments):
    process = start(*arguments(["FROM x"], FALSE, more=["--verbose", "--output=-"]))

    out, err = process.communicate(timeout=60)

    schema("report").validate(json.loads(out))
    assert process.returncode == 1
    assert b"0 of 1 tests passed" in err


def test_report_on_a_full_stdout_is_an_error(fake, start, arguments):
    with open("/dev/full", "w") as full:
        process = start(*arguments(["FROM x"], TRUE, more=["--output=-"]), stdout=full)
        _, err = process.communicate(timeout=60)

    assert process.returncode == 1
    assert b"1 of 1 tests passed" in err
    assert err.endswith(b"\nerror: -: cannot write: No space left on device\n")


# A score is not lost


class Earlier(NamedTuple):
    """The error of the report that is there, that of the new one, and if the former is kept."""

    what: str
    there: str | None
    new: str | None
    is_kept: bool


EARLIER = [
    Earlier("a score after a score", None, None, False),
    Earlier("a failed build after a score", None, "build", False),
    Earlier("no score after a score", None, "engine", True),
    Earlier("no score after a failed build", "build", "interrupted", True),
    Earlier("no score after none", "registry", "engine", False),
]


@pytest.mark.parametrize("row", EARLIER, ids=lambda row: row.what)
def test_report_without_a_score_moves_one_with_a_score(options, tmp_path, row):
    earlier, new = ended_by(row.there, options), ended_by(row.new, options)
    de.write_reports(earlier, options)

    problems = de.write_reports(new, options)

    kept = [json.loads(file.read_text()) for file in tmp_path.glob("report.json.previous")]
    assert kept == [earlier] * row.is_kept
    assert de.read_report(str(options.output)) == new
    assert problems == []
