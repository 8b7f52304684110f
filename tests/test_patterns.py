"""No text of others takes long to read: readers are linear in its length."""

import contextlib
import json
import time
from pathlib import Path

import leaderboard as lb
import pytest
import review
from cases import TRUE, judged, output_contains, run_command, table

import DockerfileEvaluator as de

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
titles of a terminal -> "\u001b]"
here-documents without an end -> "<<"
    begin: "RUN "
here-documents -> "RUN <<a >/b && cat /b\ntext \na\n"
backslashes -> "\\"
    begin: "RUN "
continued lines -> "         \\\n"
    begin: "FROM x\nRUN "
flags -> " --a"
    begin: "COPY"
folders -> "/a"
ports -> ":x"
the beginning of an exit code -> "executor failed running ["
prefixes -> "ERROR: failed to solve: "
steps -> "#1 [1/1] RUN a\n"
steps of podman -> "STEP 1/1: RUN a\n"
interim answers -> "HTTP/1.1 103 x\r\n\r\n"
"""
SIZES = (2**14, 2**18)  # characters; without the first one, a failure would take hours
LIMIT = 3  # seconds


def dockerfile(fail, text):
    fail("build", text, error="dockerfile parse error on line 2: unknown flag: --link")
    fail("build", text, error="failed to process ${V#v}")


def log(fail, text):
    fail("build", at="RUN a", prints=text, error=1)
    fail("build", at="COPY a /", error=f"a {text}")
    fail("build", at=f"FROM {text}", error=f"a {text}")
    fail("build", do="hang", at=text)
    fail("build", stderr=f"a {text}")


def answer(fail, text):
    for call in ("version", "image inspect", "run", "container inspect", "control run"):
        fail(call, stdout=text, stderr=text)
        fail(call, code=0, stdout=text)


def output(_, text):
    counts = output_contains("x", "x" * 1000)
    counts["params"].update(count=r"(\d+) passed", of=9)
    judged(counts, text.encode())
    judged(run_command("x"), text.encode(), code=1)
    de.suspicion(text.splitlines())
    for start in (b"", b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n"):
        de.read_http(start + text.encode())


def rubric(_, text):
    """The text is in all places of a rubric where it is allowed, and then in all."""
    short = text[: de.MAX_ARGUMENT]
    test = output_contains(short, *[short] * 8)
    test["params"]["draw"] = {"a": [0, 10**6]}
    tests = (json.dumps({"tests": [item]}) for item in (test, {**test, "id": text, "type": text}))
    for content in (*tests, text):
        with contextlib.suppress(de.EvaluationError):
            list(review.lint(de.read_rubric(content.encode(), "rubric.json").tests, None))


def solution(_, text):
    Path("Dockerfile").write_text(text)
    review.workdir_of("Dockerfile")


def report(fail, text):
    """The text is in all places of a report, and then all of the file."""
    content = fail("none")
    content["test_results"][0].update(message=text, output=text)
    content["build"]["log"] = text
    content["environment"]["base_images"] = [text]
    for each in (json.dumps(content), text):
        Path("report.json").write_text(each)
        with contextlib.suppress(ValueError, RecursionError):
            lb.read_report("report.json", model="", sample="")
    lb.csv_cell(text)


@pytest.mark.long("150 texts")
@table(HOSTILE, begin=None)
@pytest.mark.parametrize("read", [dockerfile, log, answer, output, rubric, solution, report])
def test_reader_is_linear(fake, evaluate, read, row):
    def fail(call, lines="FROM x", **fault):
        fake.set(faults=[])
        fake.fault(call, **fault)
        return evaluate([lines], TRUE)

    for size in SIZES:
        repeated = json.loads(row.then)
        started_at = time.thread_time()
        read(fail, (row.begin or "") + repeated * (size // len(repeated)))
        assert time.thread_time() - started_at < LIMIT
