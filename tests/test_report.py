"""The report: fields, sums, and a file that is whole or not there."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from xml.etree import ElementTree

import junitparser
import pytest
from cases import TRUE, run_command
from conftest import PROJECT, assert_holds

import DockerfileEvaluator as de

SEED = {"repo": str, "dockerfile": str, "rubric": str, "summary": dict, "test_results": list}
SEED_SUMMARY = {
    "total_tests": int,
    "passed_tests": int,
    "failed_tests": int,
    "total_score": (int, float),
    "max_score": (int, float),
    "success_rate": float,
    "total_execution_time": float,
}
SEED_ROW = {
    "test_id": str,
    "test_type": str,
    "passed": bool,
    "score": (int, float),
    "message": str,
    "execution_time": float,
}


def fits(value, fields):
    assert {key: type(value[key]) for key in fields if not isinstance(value[key], fields[key])} == {}


def test_the_fields_of_the_published_format_are_there(fake, evaluate, tmp_path):
    output = tmp_path / "deep" / "er" / "report.json"
    tests = [
        {**TRUE, "id": "a", "category": "x"},
        run_command("echo no; exit 4", id="b", score=0.5),
    ]
    returned = evaluate(["FROM x"], *tests, output=str(output))
    report = json.loads(output.read_text())
    assert report == returned
    fits(report, SEED)
    fits(report["summary"], SEED_SUMMARY)
    for row in report["test_results"]:
        fits(row, SEED_ROW)
    names = "repo dockerfile rubric summary test_results build error warnings environment"
    assert list(report) == names.split()
    good, bad = report["test_results"]
    assert_holds(good, score=1, max_score=1, status="passed", exit_code=0, output=None, category="x")
    assert_holds(bad, score=0, max_score=0.5, status="failed", exit_code=4, output="no\n")
    assert report["summary"]["by_category"] == {
        "x": {"total_tests": 1, "passed_tests": 1, "failed_tests": 0, "total_score": 1, "max_score": 1}
    }
    environment = report["environment"]
    assert_holds(environment, docker_client="28.2", docker_server="20.10", builder="legacy", jobs=1)
    assert_holds(environment, image_size=1234, platform="linux/amd64", engine_cpus=3, engine_memory=2**32)
    assert len(environment["dockerfile_sha256"]) == len(environment["rubric_sha256"]) == 64


@pytest.mark.parametrize(
    ("info", "cpus", "memory"),
    [
        ({"NCPU": 16, "MemTotal": 7}, 16, 7),
        ({"NCPU": None, "MemTotal": None, "host": {"cpus": 8, "memTotal": 9}}, 8, 9),  # podman's words
        ({"NCPU": None, "MemTotal": None}, None, None),
    ],
)
def test_processors_and_memory_are_the_engines(fake, evaluate, info, cpus, memory):
    fake.write("info", info)
    assert_holds(evaluate(["FROM x"], TRUE)["environment"], engine_cpus=cpus, engine_memory=memory)


def test_the_report_is_in_the_rubrics_order(fake, evaluate):
    tests = [
        {**TRUE, "id": name, "requires": needs} for name, needs in [("c", ["b"]), ("a", []), ("b", ["a"])]
    ]
    assert [row["test_id"] for row in evaluate(["FROM x"], *tests)["test_results"]] == ["c", "a", "b"]


def test_no_category_no_sums_of_categories(fake, evaluate):
    assert "by_category" not in evaluate(["FROM x"], TRUE)["summary"]


def test_scores_add_up_as_people_add(fake, evaluate):
    summary = evaluate(["FROM x"], *[{**TRUE, "score": score} for score in (0.1, 0.2, 0)])["summary"]
    assert (summary["total_score"], summary["success_rate"]) == (0.3, 1.0)


def test_two_runs_differ_only_in_times_and_ids(fake, evaluate):
    def settled(report):
        text = json.dumps(report)
        return re.sub(r'"(execution_time|total_execution_time|started_at)": [^,}]+', r'"\1": 0', text)

    tests = [TRUE, run_command("echo x; exit 1")]
    assert settled(evaluate(["FROM x"], *tests)) == settled(evaluate(["FROM x"], *tests))


def test_the_start_is_told_to_the_millisecond(fake, evaluate):
    """So no two reports on a Dockerfile are the same, by which evaluate_all.py tells a new one from the old."""
    started = evaluate(["FROM x"], TRUE)["environment"]["started_at"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", started)


def test_oddities_of_the_image_are_warned_of(fake, evaluate):
    fake.write(
        "config",
        # only a shell that somebody types in reads the file that ENV names
        {"Env": ["ENV=test", "BASH_ENV=/x", "LD_PRELOAD=/evil.so", "BASH_FUNC_ls%%=() { :; }"]},
    )
    warnings = evaluate(["FROM x"], TRUE)["warnings"]
    assert [warning.split(",")[0] for warning in warnings] == [
        "telling-variable: image: BASH_ENV=/x is set",
        "telling-variable: image: LD_PRELOAD=/evil.so is set",
        "telling-variable: image: BASH_FUNC_ls%%=() { :; } is set",
    ]


def test_what_is_doubtful_about_a_rubric_is_not_repeated_in_its_reports(fake, evaluate):
    tests = [run_command("false || true"), {**TRUE, "id": "lost", "requires": ["lost"]}]
    warnings = evaluate(["FROM x"], *tests)["warnings"]
    assert warnings == ["unresolvable: 'lost' requires itself, so it can never run"]


# JUnit, as CI systems read it


OUTCOMES = [
    {**TRUE, "id": "good"},
    run_command("printf 'a\\001\\377]]>&amp;<b>\\n'; exit 3", id="bad"),
    run_command("sleep 60", id="late", timeout=1),
    {**TRUE, "id": "after", "requires": ["bad"]},
    {**TRUE, "id": "lost", "requires": ["none"]},
]


def test_junit_has_a_case_for_each_test_and_what_it_printed(fake, evaluate, tmp_path):
    file = tmp_path / "deep" / "junit.xml"
    evaluate(["FROM x"], *OUTCOMES, junit=str(file))
    (suite,) = junitparser.JUnitXml.fromfile(str(file))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (5, 2, 1, 1)
    assert re.fullmatch("example: .*/Dockerfile", suite.name)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.timestamp)
    cases = {case.name: case for case in suite}
    kinds = {name: [type(result).__name__ for result in case.result] for name, case in cases.items()}
    assert kinds == {
        "good": [],
        "bad": ["Failure"],
        "late": ["Failure"],
        "after": ["Skipped"],
        "lost": ["Error"],
    }
    assert cases["bad"].result[0].message.startswith("exit code 3: ")
    assert cases["bad"].system_out == "a\ufffd\ufffd]]>&amp;<b>\n"
    assert cases["good"].classname == "example.run_command"
    assert cases["late"].time >= 1


def test_junit_follows_the_rules_of_jenkins_and_surefire(fake, evaluate, tmp_path):
    """What both schemas ask: names, types and order of attributes and elements."""
    file = tmp_path / "junit.xml"
    evaluate(["FROM x", "RUN FAIL"], *OUTCOMES, junit=str(file))
    root = ElementTree.parse(str(file)).getroot()
    assert root.tag == "testsuite"
    assert set(root.attrib) == {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}
    assert [child.tag for child in root] == ["testcase"] * 5 + ["system-out"]
    assert "last words of the build" in root[-1].text
    for case in root[:-1]:
        assert set(case.attrib) == {"classname", "name", "time"}
        assert float(case.attrib["time"]) == 0
        assert [child.tag for child in case] == ["error"]  # a failed build is not a set of skipped tests
        assert set(case[0].attrib) == {"type", "message"}


def test_whether_junit_can_be_written_is_known_before_the_build(fake, evaluate, tmp_path):
    with pytest.raises(de.EvaluationError, match="a folder; expected a file"):
        evaluate(["FROM x"], TRUE, junit=str(tmp_path))
    assert fake.calls() == []


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    folder = tmp_path / "reports"
    folder.mkdir()
    target = folder / "report.json"
    target.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(de.os, "replace", full)
    with pytest.raises(de.EvaluationError, match="cannot be written: No space left on device"):
        de.write_file(str(target), "new")
    assert target.read_text() == "old"
    assert os.listdir(folder) == ["report.json"]


def test_a_report_has_ordinary_permissions_and_follows_links(tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    os.symlink(target, link)
    old = os.umask(0o027)
    try:
        de.write_file(str(link), "new")
    finally:
        os.umask(old)
    assert (link.is_symlink(), target.read_text()) == (True, "new")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_report_can_go_to_a_device(tmp_path):
    de.check_writable("/dev/null")
    de.write_file("/dev/null", "x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_full_disk_is_known_before_the_build(tmp_path):
    """A limit of the size of files stands for it: an empty file can be made there, too."""
    path = tmp_path / "report.json"
    script = "import resource, DockerfileEvaluator; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0));"
    script += f"DockerfileEvaluator.check_writable({str(path)!r})"
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, cwd=str(PROJECT), capture_output=True)
    assert b"report.json: the report cannot be written: File too large" in done.stderr
    assert not list(tmp_path.glob("report*"))


def test_whether_the_report_can_be_written_is_known_before_the_build(fake, evaluate, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(de.EvaluationError, match="the report cannot be written"):
        evaluate(["FROM x"], TRUE, output=str(tmp_path / "file" / "report.json"))
    with pytest.raises(de.EvaluationError, match="/dev/fd/987: the report cannot be written"):
        evaluate(["FROM x"], TRUE, output="/dev/fd/987")
    assert fake.calls() == []
