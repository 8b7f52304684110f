"""No text of others takes long to read: readers are linear in its length."""

import contextlib
import json
import re
import time
from pathlib import Path

import pytest
from cases import TRUE, table
from conftest import PROJECT, load_program, make_report

import DockerfileEvaluator as de

lb = load_program(PROJECT / "reports" / "leaderboard.py")
review = load_program(PROJECT / "rubrics" / "review.py")

# What is repeated in a text, and what begins it
HOSTILE = r"""
blank lines -> "         \n"
one line -> "a"
digits -> "1"
blanks -> " "
    begin: "RUN"
brackets -> "["
    begin: "#1 "
braces -> "{a"
quotes -> "\"'"
    begin: "RUN <<"
variables -> "${a:-"
    begin: "FROM "
colours -> "\u001b["
here-documents without an end -> "<<"
    begin: "RUN "
here-documents -> "RUN <<a >/b && cat /b\ntext \na\n"
backslashes -> "\\"
    begin: "RUN "
continued lines -> "         \\\n"
    begin: "RUN "
flags -> " --a"
    begin: "COPY"
folders -> "/a"
ports -> ":x"
the beginning of an exit code -> "executor failed running ["
prefixes -> "ERROR: failed to solve: "
"""
MB = 2**20  # characters
LIMIT = 5  # seconds


def read_dockerfile(text):
    de.here_document_lines(text)
    de.takes_new_flag(text, "link")
    de.may_have_stage(text)
    de.build_hint(de.Build(1), de.Options("", ""), text)


def read_log(text):
    log = de.BuildLog(de.Console(None))
    for at in range(0, len(text), de.CHUNK):
        log.feed(text[at : at + de.CHUNK].encode())
    build = log.finish(1, seconds=0.0)
    options = de.Options("Dockerfile", "repo", context=".")
    for exit_code in (1, None):
        for builder in de.BUILDERS.values():
            failed = build._replace(exit_code=exit_code, builder=builder, error=text)
            de.dockerfile_fault(failed, options, "FROM x")
            de.new_syntax(failed, "")
            de.judge_image(de.Step(de.IMAGE, text, text[:1000]), failed, "x", is_offline=False)
            de.is_engine_trouble(failed)
            de.blames_dockerfile(failed)


def read_output(text):
    count = re.compile(r"(\d+) passed")
    check = de.Check("", (), lambda *_: (0, ""), (b"x" * 1000,), count, full_count=1)
    capture = de.Capture("nonce", check)
    capture.feed(b"nonce=B\n")
    for at in range(0, len(text), de.CHUNK):
        capture.feed(text[at : at + de.CHUNK].encode())
    capture.finish()
    de.read_http(b"HTTP/1.0 200\r\nTransfer-Encoding: chunked\r\n\r\n" + text.encode())
    lines = de.text_lines(text)
    de.suspicion(lines)
    de.reason(lines)
    de.last_line(text)


def read_answer(text):
    de.docker_error(text)
    de.is_absent("/program", text)
    de.parse_object(text)


def read_rubric(text):
    """The text is in all places of a rubric where it is allowed, and then in all."""
    short = text[: de.MAX_ARGUMENT]
    params = {"command": short, "contains": [short] * (1 + len(text) // len(short))}
    test = {"type": "output_contains", "params": {**params, "draw": {"a": [0, 10**6]}}}
    for item in (test, {**test, "id": text, "type": text}):
        content = json.dumps({"tests": [item]}).encode()
        with contextlib.suppress(de.EvaluationError):
            rubric = de.read_rubric(content, "rubric.json")
            list(review.lint(rubric.tests, None))
    with contextlib.suppress(de.EvaluationError):
        de.read_rubric(text.encode(), "rubric.json")


def read_solution(text):
    Path("Dockerfile").write_text(text)
    review.workdir_of("Dockerfile")


def read_report(text):
    """The text is in all places of a report, and then all of the file."""
    Path("Dockerfile").write_text("FROM x")
    options = de.checked(de.Options("Dockerfile", "repo", {"tests": [TRUE]}))
    report = make_report(["failed"], options)
    report["test_results"][0].update(message=text, output=text)
    report["build"]["log"] = text
    report["environment"]["base_images"] = [text]
    for content in (json.dumps(report), text):
        Path("report.json").write_text(content)
        with contextlib.suppress(ValueError, RecursionError):
            lb.read_report("report.json", model="", sample="")
        de.read_report("report.json")
    de.as_junit(report)
    lb.csv_cell(text)


READERS = [read_answer, read_dockerfile, read_log, read_output, read_rubric, read_solution]


@table(HOSTILE, begin=None)
@pytest.mark.parametrize(
    "read",
    [read_report, *(pytest.param(read, marks=pytest.mark.long("170 texts")) for read in READERS)],
    ids=lambda read: read.__name__,
)
def test_reader_is_linear(read, row):
    begin, repeated = row.begin or "", json.loads(row.then)

    for size in (MB // 16, MB):  # A reader that is not linear takes minutes for the second one.
        started_at = time.thread_time()
        read(begin + repeated * (size // len(repeated)))
        assert time.thread_time() - started_at < LIMIT
