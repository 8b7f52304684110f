"""Taking up what is there: --resume, --wait and --engine."""

from __future__ import annotations

import ast
import json
import subprocess
import threading
import time

import pytest
from cases import FALSE, TRUE
from conftest import PIPES, PROGRAM, statuses

import DockerfileEvaluator as de


@pytest.fixture
def again(fake, dockerfile, rubric, tmp_path):
    """Evaluate with --resume; return the report and whether docker was asked anything."""

    def run(lines=("FROM x",), tests=(TRUE, FALSE), repo="r", **options):
        before = len(fake.calls())
        path, output = dockerfile(*lines), tmp_path / "report.json"
        report = de.evaluate(path, repo, rubric(*tests), str(output), resume=True, **options)
        assert report == json.loads(output.read_text())
        return report, len(fake.calls()) > before

    return run


def test_a_report_on_just_this_is_taken(again, tmp_path):
    first, _ = again()
    assert again() == (first, False)
    junit = tmp_path / "junit.xml"
    assert again(junit=str(junit)) == (first, False)
    assert junit.read_text().startswith("<?xml")
    assert again(jobs=4, build_timeout=9.0, wait=1.0)[1] is False  # they change no verdict that is there


@pytest.mark.parametrize(
    "change",
    [
        {"lines": ("FROM x", "RUN y")},
        {"tests": (TRUE,)},
        {"context": "."},
        {"run_options": ["--memory=1g"]},
        {"build_options": ["--build-arg=A=b"]},
        {"repo": "another"},
        {"keep_image": True},
    ],
)
def test_a_report_on_something_else_is_made_anew(again, change):
    again()
    assert again(**change)[1] is True
    assert again(**change)[1] is False


SECRETIVE = [
    {"build_options": ["--build-arg=TOKEN=one"]},
    {"build_options": ["--build-arg=TOKEN=two"]},
    {"build_options": ["--secret=id=one"]},
    {"build_options": ["--secret=id=two"]},
    {"run_options": ["--env=TOKEN=one"]},
    {"run_options": ["--env=TOKEN=two"]},
    {"run_options": ["-eTOKEN=one"]},
    {"run_options": ["-eTOKEN=two"]},
    {"run_options": ["--env-file=one"]},
    {"run_options": ["--env-file=two"]},
]


@pytest.mark.parametrize("first", SECRETIVE[::2])
def test_another_value_of_an_option_is_something_else_though_the_report_leaves_it_out(again, first):
    second = SECRETIVE[SECRETIVE.index(first) + 1]
    shown = again(**first)[0]["environment"]
    assert again(**first)[1] is False
    other, is_new = again(**second)
    assert is_new is True
    assert other["environment"]["build_options"] == shown["build_options"]
    assert other["environment"]["run_options"] == shown["run_options"]
    assert other["environment"]["options_sha256"] != shown["options_sha256"]


def test_a_word_that_goes_from_build_to_run_is_something_else(again):
    again(build_options=["--network=host"])
    assert again(run_options=["--network=host"])[1] is True


@pytest.mark.parametrize(
    ("options", "is_new"),
    [
        ({}, False),
        ({"run_options": ["--memory=1g"], "build_options": ["--no-cache"]}, False),
        *((options, True) for options in SECRETIVE[::2]),
    ],
)
def test_an_older_report_without_the_hash_counts_where_no_option_can_hold_a_secret(
    fake, dockerfile, rubric, tmp_path, options, is_new
):
    output = tmp_path / "report.json"
    files = (dockerfile("FROM x"), "r", rubric(TRUE), str(output))
    report = de.evaluate(*files, **options)
    del report["environment"]["options_sha256"]
    output.write_text(json.dumps(report))
    before = len(fake.calls())
    de.evaluate(*files, resume=True, **options)
    assert (len(fake.calls()) > before) is is_new
    output.unlink()  # the schema of today asks for the hash


def test_a_failed_build_is_a_report_like_any_other(again):
    first, _ = again(("FROM x", "RUN FAIL"))
    assert first["error"]["kind"] == "build"
    assert again(("FROM x", "RUN FAIL")) == (first, False)
    assert again(("FROM x", "RUN FAIL"), keep_image=True) == (first, False)  # there is none to keep


@pytest.mark.parametrize("kind", ["engine", "registry", "usage", "interrupted"])
def test_what_is_no_score_is_evaluated_again(again, tmp_path, kind):
    report, _ = again()
    (tmp_path / "report.json").write_text(json.dumps({**report, "error": {"kind": kind, "message": "x"}}))
    assert again()[1] is True


def test_a_pipe_holds_no_report(fake, arguments):
    words = [*PROGRAM, *arguments(["FROM x"], TRUE, more=["--output=/dev/stdout", "--resume"])]
    process = subprocess.Popen(words, **PIPES)
    assert b'"passed_tests": 1' in process.communicate(timeout=120)[0]


def test_a_build_that_took_too_long_is_tried_again_with_more_time(again):
    lines = ("FROM x", "RUN SLEEP")
    assert again(lines, build_timeout=1.0)[0]["error"]["kind"] == "build_timeout"
    assert again(lines, build_timeout=0.5)[1] is False
    assert again(lines, build_timeout=1.5)[1] is True


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"error": null}',
        '{"environment": 3}',
        "\x00",
        "1" * 5000,
        "[" * 100_000,
    ],
)
def test_what_is_no_report_is_replaced(again, tmp_path, content):
    again()
    (tmp_path / "report.json").write_text(content)
    assert again()[1] is True


@pytest.mark.parametrize(
    "damage",
    [
        lambda report: report["test_results"][0].update(status=7),
        lambda report: report["test_results"][0].update(execution_time=10**400),
        lambda report: report.update(error={"kind": "build", "message": 7}),
        lambda report: report["summary"].update(total_score=10**400),
    ],
)
def test_a_report_that_is_damaged_is_replaced(again, tmp_path, damage):
    report, _ = again()
    damage(report)
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert again()[1] is True


def test_a_report_of_another_major_version_is_replaced(again, tmp_path):
    report, _ = again()
    report["environment"]["evaluator_version"] = "999.0.0"
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert again()[1] is True


@pytest.mark.parametrize(("test", "code"), [(TRUE, 0), (FALSE, 1)])
def test_the_command_line_says_so_and_exits_as_the_report_says(fake, arguments, capsys, test, code):
    words = arguments(["FROM x"], test, more=["--resume"])
    assert de.main(words) == code
    capsys.readouterr()
    calls = len(fake.calls())
    assert de.main(words) == code
    out = capsys.readouterr().out.splitlines()
    assert "nothing is run" in out[0]
    assert out[1] == f"{1 - code} of 1 tests passed, score {1 - code} of 1 ({100 - 100 * code}%)"
    assert len(out) == 3
    assert len(fake.calls()) == calls


def test_without_an_output_there_is_nothing_to_resume_from(evaluate):
    with pytest.raises(ValueError, match="--output"):
        evaluate(["FROM x"], TRUE, resume=True)


# --wait


def test_an_engine_that_comes_in_time_is_waited_for(fake, evaluate):
    fake.write("lost", True)
    threading.Timer(1.5, lambda: fake.write("lost", False)).start()
    started = time.monotonic()
    report = evaluate(["FROM x"], TRUE, wait=60)
    assert (statuses(report), report["error"]) == ({"run_command_1": "passed"}, None)
    assert time.monotonic() - started >= 1.5


def test_an_engine_that_does_not_come_is_an_engine_fault(fake, evaluate):
    fake.write("lost", True)
    started = time.monotonic()
    assert evaluate(["FROM x"], TRUE, wait=1)["error"]["kind"] == "engine"
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize("wait", [-1.0, float("inf"), float("nan")])
def test_a_wait_that_makes_no_sense_is_wrong_usage(evaluate, wait):
    with pytest.raises(ValueError, match="wait"):
        evaluate(["FROM x"], TRUE, wait=wait)


# --engine


@pytest.mark.parametrize(
    ("where", "seen"),
    [
        ("tcp://lab:2375", {"DOCKER_HOST": "tcp://lab:2375"}),
        ("lab", {"DOCKER_CONTEXT": "lab"}),
        (None, {"DOCKER_HOST": "unix:///mine"}),
    ],
)
def test_a_url_is_a_host_and_all_else_a_context(fake, evaluate, monkeypatch, where, seen):
    monkeypatch.setenv("DOCKER_HOST", "unix:///mine")
    evaluate(["FROM x"], TRUE, engine=where)
    assert ast.literal_eval((fake.folder / "engine.json").read_text()) == seen


NO_SUCH_CONTEXT = {  # as docker 28.2 says it
    "stderr": 'Failed to initialize: unable to resolve docker endpoint: context "lab": context not found'
}
CLIENT = '{"Client": {"Version": "28.2.2", "Os": "linux", "Arch": "amd64"}, "Server": null}'
LOST = "Cannot connect to the Docker daemon at unix:///nosuch. Is the docker daemon running?"


@pytest.mark.parametrize(
    ("contexts", "answer", "kind"),
    [
        ([], NO_SUCH_CONTEXT, "usage"),
        (["lab"], {"stdout": CLIENT, "stderr": LOST}, "engine"),
        (["lab"], {"stderr": "something else"}, "engine"),
    ],
)
def test_a_context_that_docker_does_not_have_is_usage(fake, evaluate, contexts, answer, kind):
    fake.write("contexts", contexts)
    fake.fault("version", "fail", **answer)
    report = evaluate(["FROM x"], TRUE, engine="lab", wait=0.3)
    assert report["error"]["kind"] == kind
    assert ("docker has no context 'lab'" in report["error"]["message"]) == (kind == "usage")
    assert statuses(report) == {"run_command_1": "not_run"}


def test_a_context_that_docker_does_not_have_is_not_waited_for(fake, evaluate):
    fake.fault("version", "fail", **NO_SUCH_CONTEXT)
    started = time.monotonic()
    assert evaluate(["FROM x"], TRUE, engine="lab", wait=60)["error"]["kind"] == "usage"
    assert time.monotonic() - started < 50


@pytest.mark.parametrize(
    "words",
    [
        LOST,
        "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        "Error response from daemon: client version 1.50 is too new. Maximum supported API version is 1.41",
    ],
)
def test_a_docker_that_names_no_server_has_no_engine(fake, evaluate, words):
    """Only podman is its own engine."""
    fake.fault("version", "fail", stdout=CLIENT, stderr=words)
    error = evaluate(["FROM x"], TRUE)["error"]
    assert (error["kind"], fake.count("build")) == ("engine", 0), error["message"]
    assert "no docker engine answers" in error["message"]


def test_podman_refuses_a_context(fake, evaluate):
    fake.fault("version", "fail", code=0, stdout='{"Client": {"Version": "5.4.2", "OsArch": "linux/amd64"}}')
    report = evaluate(["FROM x"], TRUE, engine="lab")
    assert report["error"]["kind"] == "usage"
    assert "podman knows no context 'lab'" in report["error"]["message"]
