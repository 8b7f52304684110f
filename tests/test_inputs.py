"""Inputs that are read once, files of any kind in a report's place, and signals while inputs are read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cases import FALSE, TRUE, run_command
from conftest import PIPES, PROGRAM, called, error_of, outcome, statuses
from engine import wait_for

import DockerfileEvaluator as de

# A Dockerfile from a pipe


@pytest.fixture
def piped():
    """Return a function that makes a path which can be read once."""
    ends = []

    def make(content):
        read_end, write_end = os.pipe()
        os.write(write_end, content)
        os.close(write_end)
        ends.append(read_end)
        return f"/dev/fd/{read_end}"

    yield make
    for end in ends:
        os.close(end)


def test_dockerfile_from_a_pipe_is_built_in_the_current_folder(fake, rubric, piped, tmp_path):
    seen = []
    build = de.docker_build

    def look(session, **details):
        seen.append(Path(details["dockerfile"]).read_text())
        return build(session, **details)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(de, "docker_build", look)
        report = de.evaluate(piped(b"FROM x\n"), "r", rubric(TRUE))
    assert outcome(report) == "passed"
    assert seen == ["FROM x\n"]
    assert report["environment"]["context"] == "."
    assert report["environment"]["dockerfile_sha256"] == hashlib.sha256(b"FROM x\n").hexdigest()
    assert os.listdir(str(tmp_path / "tmp")) == []


def test_dockerfile_from_standard_input(fake, rubric, tmp_path):
    words = ["--dockerfile=/dev/stdin", "--repo=r", f"--rubric={rubric(TRUE)}"]
    done = subprocess.run([*PROGRAM, *words], input=b"FROM x\n", stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stdout
    (build,) = fake.calls("build")
    assert build[-1] == str(tmp_path / "home")


# A report's place


HOSTILE = {
    "no JSON": "not JSON",
    "a list": "[]",
    "deep": "[" * 200_000,
    "an infinite number": '{"error": null, "x": 1e999}',
    "not a number": '{"error": null, "x": NaN}',
    "a number of 400 digits": '{"error": null, "x": ' + "9" * 400 + "}",
    "not UTF-8": "\udcff",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_file_that_is_no_report_is_none(tmp_path, name):
    file = tmp_path / "report.json"
    file.write_bytes(HOSTILE[name].encode(errors="surrogateescape"))
    assert de.read_report(str(file)) is None


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "nothing"])
def test_what_is_no_file_is_no_report(tmp_path, kind):
    path = tmp_path / "report.json"
    if kind == "pipe":
        os.mkfifo(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    assert de.read_report(str(path)) is None


def test_huge_file_is_no_report(tmp_path, monkeypatch):
    monkeypatch.setattr(de, "MAX_REPORT", 10)
    (tmp_path / "report.json").write_text('{"error": null}')
    assert de.read_report(str(tmp_path / "report.json")) is None


@pytest.fixture
def evaluate_twice(evaluate, tmp_path):
    """Evaluate, let `change` change the report, and resume."""

    def run(change):
        output = tmp_path / "report.json"
        report = evaluate(["FROM x"], TRUE, output=str(output))
        change(report)
        output.write_text(json.dumps(report))
        evaluate(["FROM x"], TRUE, output=str(output), resume=True)

    return run


@pytest.mark.parametrize("version", ["2.0.0", "2.2.0", "3.1.0", "x", None])
def test_report_of_another_version_is_evaluated_again(fake, evaluate_twice, version):
    evaluate_twice(lambda report: report["environment"].update(evaluator_version=version))
    assert fake.count("build") == 2


def test_report_of_a_patch_release_is_resumed(fake, evaluate_twice):
    evaluate_twice(lambda report: report["environment"].update(evaluator_version="2.1.99"))
    assert fake.count("build") == 1


@pytest.mark.parametrize("error", [{"kind": []}, {"kind": "nonsense", "message": "x"}, [], "x"])
def test_report_with_an_unknown_error_is_evaluated_again(fake, evaluate_twice, error):
    evaluate_twice(lambda report: report.update(error=error))
    assert fake.count("build") == 2


# A score is not lost


def test_report_without_a_score_keeps_the_scored_one_before_it(fake, evaluate, tmp_path):
    output = tmp_path / "report.json"
    scored = evaluate(["FROM x"], TRUE, output=str(output))
    fake.fault("version", stderr="Cannot connect to the Docker daemon")
    report = evaluate(["FROM x"], TRUE, output=str(output))
    assert report["error"]["kind"] == "engine"
    assert json.loads(output.read_text()) == report
    assert json.loads((tmp_path / "report.json.previous").read_text()) == scored
    assert report["warnings"] == [
        f"the earlier report, with a score, is now {output}.previous"
    ]  # fmt: skip


def test_failed_build_replaces_an_earlier_score(fake, evaluate, tmp_path):
    output = tmp_path / "report.json"
    evaluate(["FROM x"], TRUE, output=str(output))
    evaluate(["FROM x", "RUN FAIL"], TRUE, output=str(output))
    assert not (tmp_path / "report.json.previous").exists()


def test_without_a_score_total_and_rate_are_null(fake, evaluate):
    fake.fault("version", stderr="Cannot connect to the Docker daemon")
    summary = evaluate(["FROM x"], TRUE)["summary"]
    assert summary["total_score"] is None
    assert summary["success_rate"] is None
    assert summary["max_score"] == 1


def test_failed_build_has_the_score_0(fake, evaluate):
    summary = evaluate(["FROM x", "RUN FAIL"], TRUE)["summary"]
    assert summary["total_score"] == 0
    assert summary["success_rate"] == 0


@pytest.mark.parametrize("broken", ["output", "junit", "markdown"])
def test_each_file_is_written_even_if_another_one_cannot_be(fake, evaluate, tmp_path, broken):
    paths = {name: str(tmp_path / name) for name in ("output", "junit", "markdown")}
    paths[broken] = "/dev/full"
    with pytest.raises(de.EvaluationError, match="/dev/full: cannot write") as caught:
        evaluate(["FROM x"], TRUE, **paths)
    assert caught.value.kind == "output"
    assert statuses(caught.value.report) == {"run_command_1": "passed"}
    for name in {"output", "junit", "markdown"} - {broken}:
        assert Path(paths[name]).stat().st_size > 0


def test_closed_stdout_is_an_error(fake, arguments):
    words = [*PROGRAM, *arguments(["FROM x"], TRUE), "--output=-"]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words], stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert b"cannot write: stdout is closed" in done.stderr
    assert b"1 of 1 tests passed" in done.stderr


def test_internal_error_is_no_usage_error(fake, arguments, monkeypatch):
    def fail(_report):
        raise ValueError("a mistake in the program")

    monkeypatch.setattr(de, "as_json", fail)
    with pytest.raises(ValueError, match="a mistake in the program"):
        called(de.main, *arguments(["FROM x"], TRUE))


def open_files(folder):
    found = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(f"{folder}/{name}"))
    return found


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("is_check", [True, False])
def test_signal_ends_the_program_while_inputs_are_read(tmp_path, number, code, is_check):
    pipe = tmp_path / "rubric.json"
    os.mkfifo(str(pipe))
    words = ["--check"] if is_check else ["--dockerfile=x"]
    # The end of the pipe is opened first, so the program waits for data and not for a writer.
    writer = os.open(str(pipe), os.O_RDWR)
    process = subprocess.Popen([*PROGRAM, *words, "--repo=r", f"--rubric={pipe}"], **PIPES)
    fds = f"/proc/{process.pid}/fd"
    wait_for(lambda: str(pipe) in open_files(fds), what="for the program to open the pipe")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    os.close(writer)
    assert process.returncode == code, err
    assert err == b""


# What a language model or a colleague gets wrong


@pytest.mark.parametrize(
    ("lines", "is_named"),
    [
        (["```dockerfile", "FROM x", "```"], True),
        (["Here is the Dockerfile:", "", "```", "FROM x", "```"], True),
        (["FROM x", "RUN echo '", "```", "'"], False),
    ],
)
def test_fence_round_the_dockerfile_is_named(fake, evaluate, lines, is_named):
    error = "Error response from daemon: dockerfile parse error line 1: unknown instruction: X"
    fake.fault("build", stdout="Sending build context\n", stderr=error)
    kind, message = error_of(evaluate(lines, TRUE))
    assert kind == "build"
    assert ("has a Markdown fence, ```: remove it" in message) == is_named


def test_dockerfile_that_is_not_utf8_is_named(fake, rubric, tmp_path):
    """What BuildKit of docker 28.5 prints for one that PowerShell wrote."""
    (tmp_path / "Dockerfile").write_bytes("FROM x\n".encode("utf-16"))
    log = "#1 [internal] load build definition from Dockerfile\n#1 DONE 0.1s\n"
    reason = "Internal: stream terminated by RST_STREAM with error code: INTERNAL_ERROR"
    fake.fault("build", stderr=f"{log}ERROR: failed to build: failed to solve: {reason}")
    report = de.evaluate(str(tmp_path / "Dockerfile"), "r", rubric(TRUE))
    assert error_of(report) == ("build", f"{reason} (the Dockerfile is not UTF-8)")


def test_fence_round_the_rubric_is_named(tmp_path):
    (tmp_path / "rubric.json").write_text('```json\n{"tests": []}\n```\n')
    with pytest.raises(de.EvaluationError, match="remove the Markdown fence"):
        de.load_rubric(str(tmp_path / "rubric.json"))


MISTAKES = [
    ({"type": "command_exist"}, "unknown test type 'command_exist' (did you mean 'command_exists'?)"),
    ({"type": "files_exists"}, "unknown test type 'files_exists' (did you mean 'files_exist'?)"),
    ({"weight": 3}, "unknown key 'weight' (use 'score')"),
    ({"depends_on": ["a"]}, "unknown key 'depends_on' (use 'requires')"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), MISTAKES)
def test_mistake_in_a_rubric_has_a_suggestion(rubric, change, message):
    with pytest.raises(de.EvaluationError) as caught:
        de.load_rubric(rubric({**TRUE, **change}))
    assert message in str(caught.value)


DRAWN = {"command": "echo {a} {b}", "draw": {"a": [0, 99_999], "b": [0, 99_999]}}
NO_TERMS = ["{a/2}", "{a + 1}", "{ a }", "{2*a}", "{a+b+a}", "{a,b}", "{a+c}", "{a.b}"]


@pytest.mark.parametrize("key", ["command", "contains"])
@pytest.mark.parametrize("text", NO_TERMS)
def test_braces_that_look_like_a_term_are_an_error(rubric, key, text):
    params = {**DRAWN, "contains": ["{a}"]}
    if key == "command":
        params["command"] += f" {text}"
    else:
        params["contains"] = [text]
    with pytest.raises(de.EvaluationError) as caught:
        de.load_rubric(rubric(("output_contains", params)))
    assert f"'{text}' has the drawn name" in str(caught.value)


@pytest.mark.parametrize("text", ["${a}", "{c}", "{ echo a; }", "awk '{print a}'", "{c+d}", "{}"])
def test_other_braces_are_left_alone(rubric, text):
    params = {**DRAWN, "command": f"echo {{a}} {{b}} {text}"}
    (test,) = de.load_rubric(rubric(("run_command", params))).tests
    assert test.check.command.endswith(text)


NPM = """npm ERR! code EUSAGE
npm ERR!
npm ERR! The `npm ci` command can only install with an existing package-lock.json or
npm ERR! npm-shrinkwrap.json with lockfileVersion >= 1.

npm ERR! A complete log of this run can be found in:
npm ERR!     /root/.npm/_logs/2026-11-25-debug-0.log
"""
PIP = """  error: could not create 'build': Permission denied
  [end of output]
note: This error originates from a subprocess, and is likely not a problem with pip.
error: legacy-install-failure
note: This is an issue with the package mentioned above, not pip.
"""
ERRORS = [
    (NPM, "npm ERR! The `npm ci` command can only install with an existing package-lock.json or"),
    (PIP, "error: could not create 'build': Permission denied"),
    ("E: Unable to locate package x\ndone\n", "E: Unable to locate package x"),
    ("a.c:1: error: x\nmake: *** [all] Error 1\n", "a.c:1: error: x"),
    ("first\nsecond\n", "second"),
    ("", ""),
]


@pytest.mark.parametrize(("output", "line"), ERRORS)
def test_informative_line_is_quoted(output, line):
    assert de.error_line(output) == line


def test_only_podman_is_installed(fake, evaluate, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "podman").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    kind, message = error_of(evaluate(["FROM x"], TRUE))
    assert kind == "engine"
    assert message.endswith(", use --docker podman")


def test_markdown_stays_small(fake, evaluate, tmp_path):
    tests = [TRUE, *[run_command(f"echo {'x' * 300}; false")] * 40]
    evaluate(["FROM x"], *tests, markdown=str(tmp_path / "summary.md"), jobs=8)
    text = (tmp_path / "summary.md").read_text()
    assert len(text.encode()) < 8000
    assert "| passed |" not in text
    assert "more tests" in text


def test_junit_failure_has_its_message_as_text(fake, evaluate, tmp_path):
    evaluate(["FROM x"], FALSE, junit=str(tmp_path / "junit.xml"))
    text = (tmp_path / "junit.xml").read_text()
    assert '<failure type="failed" message="exit code 1: why">exit code 1: why</failure>' in text
