"""Behaviours that a stranger could break without a failing test: one test each."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cases import LOOK, TRUE, files_exist, output_contains, run_command
from conftest import PIPES, PROJECT, called, load_program
from engine import wait_for

import DockerfileEvaluator as de

leaderboard = load_program(PROJECT / "reports" / "leaderboard.py")
review = load_program(PROJECT / "rubrics" / "review.py")


# The evaluator


@pytest.mark.parametrize(
    ("kind", "param"),
    [("commands_exist", "names"), ("files_exist", "paths"), ("dirs_exist", "paths")],
)
def test_empty_list_is_an_error_of_the_rubric(kind, param):
    test = {"type": kind, "params": {param: []}}

    with pytest.raises(de.EvaluationError, match="expected a non-empty list of strings"):
        de.parse_rubric(json.dumps({"tests": [test]}).encode(), "r.json")


@pytest.mark.parametrize(("limit", "is_taken"), [(120.0, True), (600.0, False)])
def test_resume_after_an_image_that_never_started_compares_the_start_limit(
    fake, evaluate, dockerfile, rubric, limit, is_taken
):
    report = evaluate(["FROM x"], TRUE)
    report["environment"]["image_starts"] = False
    files = (dockerfile("FROM x"), "example", rubric(TRUE))

    assert de.matches(report, *files, start_timeout=limit) is is_taken


def test_dockerfile_without_a_folder_has_the_current_one_as_context(fake):
    Path("Dockerfile").write_text("FROM x")
    Path("r.json").write_text(json.dumps({"tests": [TRUE]}))

    report = de.evaluate("Dockerfile", "r", "r.json")

    assert report["environment"]["context"] == "."


def test_start_limit_of_the_command_line_is_120_seconds(fake, arguments, report):
    called(de.main, *arguments(["FROM x"], TRUE))

    assert report()["environment"]["start_timeout"] == 120.0


@pytest.mark.parametrize("size", range(1, 40))
def test_marker_and_strings_may_be_cut_between_two_reads(size):
    """With an exit code of three digits, and strings of different length."""
    nonce = "0123456789abcdef"
    text = f"{nonce}=B\nfirst needle, ab\n{nonce}=E 123\n".encode()
    test = output_contains("x", "first needle", "ab", "absent")
    rubric = de.parse_rubric(json.dumps({"tests": [test]}).encode(), "r.json")
    output = de.MarkedOutput(rubric.tests[0].check, nonce)

    for at in range(0, len(text), size):
        output.feed("stdout", text[at : at + size], 1.0)
    output.close(2.0)

    assert output.begins == 1
    assert output.statuses == [123]
    assert output.found() == (True, True, False)


def test_docker_that_ignores_sigterm_is_killed(monkeypatch):
    monkeypatch.setattr(de, "KILL_TIMEOUT", 0.5)
    words = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]

    with de.Process(words, os.environ) as process:
        assert next(process.read())[1] == b"ready\n"

    assert process.wait(5) == -signal.SIGKILL


def test_interrupt_while_the_engine_is_waited_for(fake):
    fake.fault("version", stderr="Cannot connect to the Docker daemon")
    cancel = de.CancelToken()
    cancel.cancel()
    started = time.monotonic()

    with pytest.raises(de.EvaluationError) as caught:
        de.Cli("docker", cancel).connect(60)

    assert caught.value.kind == "interrupted"
    assert time.monotonic() - started < 30


def test_kept_image_of_a_name_that_is_no_tag(fake, dockerfile, rubric):
    report = de.evaluate(dockerfile("FROM x"), "Ünicode/my repo", rubric(TRUE), keep_image=True)

    pattern = "dockerfile-evaluator:nicode-my-repo-[0-9a-f]{12}-kept"
    assert re.fullmatch(pattern, report["environment"]["kept_image"])


def test_line_that_repeats_a_command_has_the_shell_of_its_test(fake, arguments):
    test = {"type": "run_command", "params": {"command": "false", "shell": "/bin/bash"}}

    _, out, _ = called(de.main, *arguments(["FROM x"], test, more=["--keep-image"]))

    assert "--entrypoint /bin/bash " in out


def test_time_of_the_junit_suite_is_that_of_the_tests(fake, evaluate):
    report = evaluate(["FROM x"], TRUE)
    report["summary"]["total_execution_time"] = 12.5

    suite = ElementTree.fromstring(de.as_junit(report))

    assert suite.get("time") == "12.5"


def test_test_without_a_command_has_no_exit_code(fake, evaluate):
    (row,) = evaluate(["FROM x"], LOOK)["test_results"]

    assert row["status"] == "passed"
    assert row["exit_code"] is None


def test_exit_code_255_is_accepted(fake, evaluate):
    test = {"type": "run_command", "params": {"command": "exit 255", "exit_code": 255}}

    (row,) = evaluate(["FROM x"], test)["test_results"]

    assert row["status"] == "passed"


def test_last_error_at_the_end_of_a_long_output_is_quoted():
    lines = ["error: the first one", *["progress"] * 100, "error: the last one", "done"]

    assert de.error_line("\n".join(lines)) == "error: the last one"


def test_error_far_from_the_end_of_a_long_output_is_not_looked_for():
    lines = ["error: the first one", *["progress"] * 100]

    assert de.error_line("\n".join(lines)) == "progress"


# rubrics/review.py


def test_review_shows_the_end_of_a_long_output():
    problem = {
        "kind": "unsolved",
        "test_id": "t",
        "points": 1,
        "text": "why",
        "output": "\n".join(f"line {number}" for number in range(9)),
    }
    measured = {"images": {}, "problems": [problem], "not_measured": {}, "earned": None}
    facts = {"rubric": "r", "tests": 1, "points": 1, "warnings": [], "measured": measured}

    shown = [line for line in review.as_text(facts) if line.startswith("  | ")]

    assert shown == [f"  | line {number}" for number in range(4, 9)]


def test_review_ends_at_a_hangup(fake, rubric):
    program = str(PROJECT / "rubrics" / "review.py")
    words = [sys.executable, program, rubric(run_command("sleep 600")), "--base", "x"]

    with subprocess.Popen(words, **PIPES) as process:
        wait_for(lambda: any("sleep 600" in call for call in fake.calls("run")))
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)

    assert process.returncode == 129
    assert fake.left() == []


def test_review_writes_nothing_but_json_to_stdout(rubric, capfd):
    review.main([rubric(files_exist("x")), "--json", "-"])

    out, err = capfd.readouterr()
    (reviewed,) = json.loads(out)["rubrics"]
    assert reviewed["tests"] == 1
    assert "1 test, 1 point, 0 warnings\n" in err


# reports/leaderboard.py


def test_formula_that_begins_with_a_percent_sign_is_text():
    assert leaderboard.without_formula("%1+1") == "'%1+1"


def test_leaderboard_ends_with_130_after_ctrl_c(monkeypatch):
    def interrupt(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(leaderboard, "run", interrupt)

    assert leaderboard.main(["x"]) == 130


def test_page_has_the_build_log_of_a_failed_build(fake, evaluate, tmp_path):
    report = evaluate(["FROM x", "RUN FAIL"], TRUE)
    report["build"]["log"] = "the reason in the log"
    file, page = tmp_path / "reports" / "model" / "example.json", tmp_path / "page"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(report))

    code = leaderboard.main([str(tmp_path / "reports"), "--html", str(page)])

    assert code == 0
    assert "end of the build log:\nthe reason in the log" in page.read_text()
