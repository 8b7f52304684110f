"""What every change must pass on Python 3.7, beside the floor that vermin sees: one of each kind.

`tests/run` says in DOCKERFILE_EVALUATOR_OLDEST where it is; `tests/run all` runs the whole suite on it.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from cases import FALSE, HELLO, LOOK, TRUE, run_command
from conftest import PIPES, PROJECT, statuses

OLDEST = os.environ.get("DOCKERFILE_EVALUATOR_OLDEST", "")
pytestmark = [
    pytest.mark.skipif(not OLDEST, reason="no Python 3.7 is named by DOCKERFILE_EVALUATOR_OLDEST"),
    pytest.mark.long("a second Python"),
]

TOOLS = [file for folder in ("artifacts", "reports", "rubrics") for file in (PROJECT / folder).glob("*.py")]
PROGRAMS = [PROJECT / "DockerfileEvaluator.py", *TOOLS]
ALL_TYPES = [
    ("command_exists", {"name": "sh"}),
    ("commands_exist", {"names": ["sh", "cat"]}),
    ("envvar_set", {"name": "PATH"}),
    ("files_exist", {"paths": ["/etc/passwd"]}),
    ("dirs_exist", {"paths": ["/etc"]}),
    ("file_contains", {"path": "/etc/passwd", "contains": ["root:"]}),
    TRUE,
    HELLO,
]


def oldest(*words: object) -> tuple[int, str, str]:
    """Run a program on Python 3.7; return exit code, stdout and stderr."""
    done = subprocess.run([OLDEST, *map(str, words)], **PIPES)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("program", [*PROGRAMS, PROJECT / "example_usage.py"], ids=lambda file: file.name)
def test_a_program_can_be_imported(program):
    script = f"import sys, runpy; sys.path.insert(0, {str(PROJECT)!r}); runpy.run_path({str(program)!r})"
    assert oldest("-W", "error", "-c", script) == (0, "", "")


@pytest.mark.parametrize(
    "program", [file for file in PROGRAMS if "__main__" in file.read_text()], ids=lambda file: file.name
)
def test_a_program_says_how_it_is_used(program):
    code, out, err = oldest(program, "--help")
    assert (code, out.startswith("usage: "), err) == (0, True, "")


EVALUATIONS = {
    "passes": ([], ALL_TYPES, 0, "passed"),
    "fails": ([], [LOOK, FALSE], 1, "failed"),
    "times out": ([], [run_command("sleep 60", timeout=0.5)], 1, "timeout"),
    "is not built": (["FAIL"], [LOOK], 1, "not_run"),
}


@pytest.mark.parametrize("kind", EVALUATIONS)
def test_an_evaluation(fake, arguments, report, tmp_path, kind):
    lines, tests, code, last = EVALUATIONS[kind]
    junit = str(tmp_path / "report.xml")
    words = arguments(["FROM x", *(f"RUN {line}" for line in lines)], *tests, more=("--junit", junit))
    done = oldest(PROGRAMS[0], *words)
    assert done[0] == code, done
    assert [*statuses(report()).values()][-1] == last
    assert os.path.getsize(junit)
    assert fake.left() == []


def test_a_resumed_evaluation(fake, arguments):
    words = [PROGRAMS[0], *arguments(["FROM x"], LOOK, more=("--resume",))]
    assert [oldest(*words)[0], oldest(*words)[0]] == [0, 0]
    assert len(fake.calls("build")) == 1


@pytest.fixture
def tree(tmp_path):
    """Write two Dockerfiles and a rubric."""
    for model in ("m1", "m2"):
        (tmp_path / "artifacts" / model).mkdir(parents=True)
        (tmp_path / "artifacts" / model / "app.dockerfile").write_text("FROM x\n")
    (tmp_path / "rubrics").mkdir()
    (tmp_path / "rubrics" / "app.json").write_text(
        json.dumps({"repo": "app", "tests": [{"type": "files_exist", "params": {"paths": ["/etc/passwd"]}}]})
    )
    return tmp_path


def test_the_tools(fake, tree):
    """A tree, the board of its reports, and a look at its rubric."""
    all_of_them, board = PROJECT / "artifacts/evaluate_all.py", PROJECT / "reports/leaderboard.py"
    review = PROJECT / "rubrics/review.py"
    folders = [f"--{name}={tree / name}" for name in ("artifacts", "rubrics", "reports")]
    done = oldest(all_of_them, *folders)
    assert done[0] == 0, done
    code, out, err = oldest(board, tree / "reports")
    assert (code, "m1" in out, "m2" in out) == (0, True, True), err
    code, out, err = oldest(review, tree / "rubrics" / "app.json")
    assert (code, "app.json" in out) == (0, True), err
