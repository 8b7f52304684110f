"""No text of others takes long to read: readers are linear in its length."""

import contextlib
import json
import time
from pathlib import Path

import pytest
from cases import TRUE, output_contains, run_command, table
from conftest import PROJECT, load_program

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
MB = 2**20  # characters
LIMIT = 5  # seconds


class Readers:
    """What reads a text."""

    def __init__(self, fake, evaluate):
        self._fake, self._evaluate = fake, evaluate

    def _fail(self, call, dockerfile="FROM x", **fault):
        self._fake.set(faults=[])
        self._fake.fault(call, **fault)
        return self._evaluate([dockerfile], TRUE)

    def dockerfile(self, text):
        self._fail("build", text, error="dockerfile parse error on line 2: unknown flag: --link")
        self._fail("build", text, error="failed to process ${V#v}")

    def log(self, text):
        self._fail("build", at="RUN a", prints=text, error=1)
        self._fail("build", at="COPY a /", error=f"a {text}")
        self._fail("build", at=f"FROM {text}", error=f"a {text}")
        self._fail("build", do="hang", at=text)
        self._fail("build", stderr=f"a {text}")

    def answer(self, text):
        for call in ("version", "image inspect", "run", "container inspect", "control run"):
            self._fail(call, stdout=text, stderr=text)
            self._fail(call, code=0, stdout=text)

    def output(self, text):
        (self._fake.root / "text").write_text(text)
        counts = output_contains("cat text", "x" * 1000)
        counts["params"].update(count=r"(\d+) passed", of=9)
        self._evaluate(["FROM x"], run_command("cat text; false"), counts)
        de.read_http(text.encode())
        de.read_http(b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n" + text.encode())

    def rubric(self, text):
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

    def solution(self, text):
        Path("Dockerfile").write_text(text)
        review.workdir_of("Dockerfile")

    def report(self, text):
        """The text is in all places of a report, and then all of the file."""
        report = self._evaluate(["FROM x"], TRUE)
        report["test_results"][0].update(message=text, output=text)
        report["build"]["log"] = text
        report["environment"]["base_images"] = [text]
        for content in (json.dumps(report), text):
            Path("report.json").write_text(content)
            with contextlib.suppress(ValueError, RecursionError):
                lb.read_report("report.json", model="", sample="")
            de.read_report("report.json")
        lb.csv_cell(text)


READERS = [name for name in vars(Readers) if not name.startswith("_")]


@pytest.mark.long("150 texts, in two sizes")
@table(HOSTILE, begin=None)
@pytest.mark.parametrize("name", READERS)
def test_reader_is_linear(fake, evaluate, name, row):
    begin, repeated = row.begin or "", json.loads(row.then)
    read = getattr(Readers(fake, evaluate), name)

    for size in (MB // 16, MB):  # A reader that is not linear takes minutes for the second one.
        started_at = time.thread_time()
        read(begin + repeated * (size // len(repeated)))
        assert time.thread_time() - started_at < LIMIT
