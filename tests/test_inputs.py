"""Inputs that are read once, files of any kind in a report's place, mistakes in inputs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from cases import TRUE
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


def test_dockerfile_from_a_pipe_is_built_in_the_current_folder(
    fake, rubric, piped, tmp_path, monkeypatch
):
    seen = []
    build = de.docker_build

    def look(session, **details):
        seen.append(Path(details["dockerfile"]).read_text())
        return build(session, **details)

    monkeypatch.setattr(de, "docker_build", look)

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


def test_dockerfile_without_a_folder_has_the_current_one_as_context(fake):
    Path("Dockerfile").write_text("FROM x")
    Path("r.json").write_text(json.dumps({"tests": [TRUE]}))

    report = de.evaluate("Dockerfile", "r", "r.json")

    assert report["environment"]["context"] == "."


# A report's place


NO_REPORTS = {
    "no JSON": b"not JSON",
    "a list": b"[]",
    "deep nesting": b"[" * 200_000,
    "an infinite number": b'{"error": null, "x": 1e999}',
    "not a number": b'{"error": null, "x": NaN}',
    "a number of 400 digits": b'{"error": null, "x": ' + b"9" * 400 + b"}",
    "not UTF-8": b"\xff",
}


@pytest.mark.parametrize("what", NO_REPORTS)
def test_file_that_is_no_report_is_none(tmp_path, what):
    file = tmp_path / "report.json"
    file.write_bytes(NO_REPORTS[what])

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
    file = tmp_path / "report.json"
    file.write_text('{"error": null}')
    assert de.read_report(str(file)) == {"error": None}
    monkeypatch.setattr(de, "MAX_REPORT", 10)

    assert de.read_report(str(file)) is None


@pytest.fixture
def builds_after(fake, evaluate, tmp_path):
    """Evaluate, change keys of the report, resume; return how many builds there were.

    `part` is the part of the report whose keys are changed.
    """

    def run(part=None, **change):
        output = tmp_path / "report.json"
        report = evaluate(["FROM x"], TRUE, output=str(output))
        changed = report[part] if part else report
        changed.update(change)
        output.write_text(json.dumps(report))
        evaluate(["FROM x"], TRUE, output=str(output), resume=True)
        return fake.count("build")

    return run


@pytest.mark.parametrize("version", ["2.0.0", "2.2.0", "3.1.0", "x", None])
def test_report_of_another_version_is_evaluated_again(builds_after, version):
    assert builds_after(part="environment", evaluator_version=version) == 2


def test_report_of_a_patch_release_is_resumed(builds_after):
    assert builds_after(part="environment", evaluator_version="2.1.99") == 1


@pytest.mark.parametrize("error", [{"kind": []}, {"kind": "nonsense", "message": "x"}, [], "x"])
def test_report_with_an_unknown_error_is_evaluated_again(builds_after, error):
    assert builds_after(error=error) == 2


# A score is not lost


def test_report_without_a_score_keeps_the_scored_one_before_it(fake, evaluate, tmp_path):
    output, previous = tmp_path / "report.json", tmp_path / "report.json.previous"
    scored = evaluate(["FROM x"], TRUE, output=str(output))
    fake.fault("version", stderr="Cannot connect to the Docker daemon")

    report = evaluate(["FROM x"], TRUE, output=str(output))

    assert report["error"]["kind"] == "engine"
    assert json.loads(output.read_text()) == report
    assert json.loads(previous.read_text()) == scored
    warning = f"the earlier report, with a score, is now {previous}"
    assert report["warnings"] == [warning]


def test_score_that_cannot_be_kept_is_a_warning(fake, evaluate, tmp_path):
    output = tmp_path / "report.json"
    evaluate(["FROM x"], TRUE, output=str(output))
    (tmp_path / "report.json.previous").mkdir()
    fake.fault("version", stderr="Cannot connect to the Docker daemon")

    report = evaluate(["FROM x"], TRUE, output=str(output))

    (warning,) = report["warnings"]
    assert warning.startswith("the earlier report, with a score, is lost: ")
    assert json.loads(output.read_text()) == report


@pytest.mark.parametrize("content", ["{}", '{"x": 1}', '{"error": 5}', '{"error": {"kind": []}}'])
def test_file_that_is_no_report_is_not_kept(fake, evaluate, tmp_path, content):
    output = tmp_path / "report.json"
    output.write_text(content)
    fake.fault("version", stderr="Cannot connect to the Docker daemon")

    report = evaluate(["FROM x"], TRUE, output=str(output))

    assert report["warnings"] == []
    assert json.loads(output.read_text()) == report


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

    with pytest.raises(de.EvaluationError, match="/dev/full: cannot write") as caught:
        evaluate(["FROM x"], TRUE, **{**paths, broken: "/dev/full"})

    assert caught.value.kind == "output"
    assert statuses(caught.value.report) == {"run_command_1": "passed"}
    written = {name for name, path in paths.items() if os.path.exists(path)}
    assert written == set(paths) - {broken}
    empty = [name for name in written if os.path.getsize(paths[name]) == 0]
    assert empty == []


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


# Signals while inputs are read


def open_files(folder):
    found = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(f"{folder}/{name}"))
    return found


@pytest.fixture
def waiting(tmp_path):
    """Return a function that starts the program, which then waits for data of its rubric."""
    pipe = tmp_path / "rubric.json"
    os.mkfifo(str(pipe))
    # The end of the pipe is opened first, so the program waits for data and not for a writer.
    writer = os.open(str(pipe), os.O_RDWR)

    def run(*words):
        process = subprocess.Popen([*PROGRAM, *words, "--repo=r", f"--rubric={pipe}"], **PIPES)
        folder = f"/proc/{process.pid}/fd"
        wait_for(lambda: str(pipe) in open_files(folder), what="for the program to open the pipe")
        return process

    yield run
    os.close(writer)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("word", ["--check", "--dockerfile=x"])
def test_signal_ends_the_program_while_inputs_are_read(waiting, number, code, word):
    process = waiting(word)

    process.send_signal(number)
    _, err = process.communicate(timeout=60)

    assert process.returncode == code, err
    assert err == b""


# What a language model or a colleague gets wrong


class Fenced(NamedTuple):
    """Lines of a Dockerfile, and whether the message names a Markdown fence."""

    where: str
    lines: list
    is_named: bool


FENCES = [
    Fenced("around the file", lines=["```dockerfile", "FROM x", "```"], is_named=True),
    Fenced(
        "after words",
        lines=["Here is the Dockerfile:", "", "```", "FROM x", "```"],
        is_named=True,
    ),
    Fenced("in a string", lines=["FROM x", "RUN echo '", "```", "'"], is_named=False),
]


@pytest.mark.parametrize("fenced", FENCES, ids=lambda fenced: fenced.where)
def test_fence_round_the_dockerfile_is_named(fake, evaluate, fenced):
    error = "Error response from daemon: dockerfile parse error line 1: unknown instruction: X"
    fake.fault("build", stdout="Sending build context\n", stderr=error)

    kind, message = error_of(evaluate(fenced.lines, TRUE))

    assert kind == "build"
    assert ("has a Markdown fence, ```: remove it" in message) is fenced.is_named


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


class Mistake(NamedTuple):
    """Keys of a test that are wrong, and a part of the message."""

    what: str
    keys: dict
    message: str


MISTAKES = [
    Mistake(
        "a missing s",
        keys={"type": "command_exist"},
        message="unknown test type 'command_exist' (did you mean 'command_exists'?)",
    ),
    Mistake(
        "an s too many",
        keys={"type": "files_exists"},
        message="unknown test type 'files_exists' (did you mean 'files_exist'?)",
    ),
    Mistake("weight", keys={"weight": 3}, message="unknown key 'weight' (use 'score')"),
    Mistake(
        "depends_on",
        keys={"depends_on": ["a"]},
        message="unknown key 'depends_on' (use 'requires')",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_mistake_in_a_rubric_has_a_suggestion(rubric, mistake):
    with pytest.raises(de.EvaluationError) as caught:
        de.load_rubric(rubric({**TRUE, **mistake.keys}))

    assert mistake.message in str(caught.value)


COMMAND = "echo {a} {b}"
DRAW = {"a": [0, 99_999], "b": [0, 99_999]}
NO_TERMS = ["{a/2}", "{a + 1}", "{ a }", "{2*a}", "{a+b+a}", "{a,b}", "{a+c}", "{a.b}"]


@pytest.mark.parametrize("text", NO_TERMS)
def test_braces_in_a_command_that_look_like_a_term_are_an_error(rubric, text):
    params = {"command": f"{COMMAND} {text}", "draw": DRAW}

    with pytest.raises(de.EvaluationError) as caught:
        de.load_rubric(rubric(("run_command", params)))

    assert f"params.command: '{text}' has the drawn name" in str(caught.value)


@pytest.mark.parametrize("text", NO_TERMS)
def test_braces_in_a_text_that_look_like_a_term_are_an_error(rubric, text):
    params = {"command": COMMAND, "draw": DRAW, "contains": [text]}

    with pytest.raises(de.EvaluationError) as caught:
        de.load_rubric(rubric(("output_contains", params)))

    assert f"params.contains[0]: '{text}' has the drawn name" in str(caught.value)


@pytest.mark.parametrize("text", ["${a}", "{c}", "{ echo a; }", "awk '{print a}'", "{c+d}", "{}"])
def test_other_braces_are_left_alone(rubric, text):
    params = {"command": f"{COMMAND} {text}", "draw": DRAW}

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


class Quoted(NamedTuple):
    """An output, and the line of it that tells most."""

    when: str
    output: str
    line: str


QUOTED = [
    Quoted(
        "npm",
        NPM,
        line="npm ERR! The `npm ci` command can only install with an existing package-lock.json or",
    ),
    Quoted("pip", PIP, line="error: could not create 'build': Permission denied"),
    Quoted(
        "apt",
        "E: Unable to locate package x\ndone\n",
        line="E: Unable to locate package x",
    ),
    Quoted("make", "a.c:1: error: x\nmake: *** [all] Error 1\n", line="a.c:1: error: x"),
    Quoted("no error", "first\nsecond\n", line="second"),
    Quoted("no output", "", line=""),
]


@pytest.mark.parametrize("row", QUOTED, ids=lambda row: row.when)
def test_informative_line_is_quoted(row):
    assert de.error_line(row.output) == row.line


def test_only_podman_is_installed(fake, evaluate, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "podman").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    kind, message = error_of(evaluate(["FROM x"], TRUE))

    assert kind == "engine"
    assert message.endswith(", use --docker podman")
