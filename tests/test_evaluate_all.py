"""artifacts/evaluate_all.py with a stub as the evaluator, or on the fake docker."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, Sequence
from unittest import mock

import pytest
from batch import PROGRAM, ea, finished, run, scores, start, tree
from cases import run_command
from conftest import make_report, schema
from engine import wait_for

import DockerfileEvaluator as de

# The words of Stub for an evaluation that runs its two tests, and the status of the second one.
STATUSES = {"passed": de.PASSED, "deaf": de.PASSED, "late": de.TIMEOUT, "nostart": de.FAILED}


class Stub:
    """Plays the evaluator; the words of a Dockerfile say how its evaluations end, one by one.

    A word is a kind of error, build:network a suspicious zero; "late" is a test that timed out,
    "nostart" an image that does not start, "crash" an exception. "interrupted" goes on until it is
    interrupted, "deaf" passes then. The last word counts for all further evaluations.
    """

    def __init__(self):
        self.calls = []  # "MODEL/REPO" or "MODEL/REPO --no-cache"
        self.options = {}  # of the last evaluation of each task
        self.during = {}  # by task: a function to call in its evaluation

    def run_evaluation(self, options, inputs, docker, console):
        _, name, *words = os.fsdecode(inputs.dockerfile).split()
        earlier = sum(call.split()[0] == name for call in self.calls)
        word, _, suspect = ["passed", *words][min(earlier + 1, len(words))].partition(":")
        self.calls.append(f"{name} --no-cache" if "--no-cache" in options.build_options else name)
        self.options[name] = options
        console.line("the log")
        self.during.get(name, int)()
        if word == "crash":
            raise RuntimeError("the reason")
        if word in ("interrupted", "deaf"):
            wait_for(lambda: docker.signals)
        outcome = [de.PASSED, STATUSES[word]] if word in STATUSES else word
        report = make_report(outcome, options, inputs, suspect or None, log=name * 20_000)
        report["environment"]["image_starts"] = word != "nostart"
        return report


@pytest.fixture
def stub(monkeypatch):
    stub = Stub()
    monkeypatch.setattr(de, "run_evaluation", stub.run_evaluation)
    monkeypatch.setattr(de, "engine_facts", lambda _: {"engine_cpus": 2})
    monkeypatch.setattr(de.Docker, "connect", lambda docker, *_: docker.check_interrupt())
    return stub


# Which Dockerfiles there are


def test_dockerfile_of_the_repository_itself_is_no_answer():
    """In a checkout inside the artifacts, and inside the folder of an answer."""
    tree({"m/app/x": "", "m/app/docker/x": "", "checkouts/lib/x": "", "app": ""})

    out = run("--list", "--layout", "{model}/{repo}/x.dockerfile")[1]

    assert out.startswith(
        "m: 1 Dockerfile, 0 resumed\nlike no --layout: 'artifacts/app.dockerfile'\n"
    )


def test_folder_comes_before_a_link_to_it_and_the_last_name_may_be_the_model():
    tree({"app/z/m": "", "app/n": "", "app": ""})
    os.symlink("app", "artifacts/a-link")

    out = run("--list", "--layout", "{repo}/{model}.dockerfile")[1]

    assert out.startswith("n: 1 Dockerfile, 0 resumed\nz/m: 1 Dockerfile, 0 resumed\n")


def test_link_to_nothing_and_a_pipe_are_left_out():
    tree({"m/app": ""})
    os.symlink("nothing", "artifacts/m/lib.dockerfile")
    os.mkfifo("artifacts/m/web.dockerfile")

    code, out, _ = run("--list")

    assert code == 1
    assert "left out: no regular file: 'artifacts/m/lib.dockerfile', 'artifacts/m/web." in out


def test_second_dockerfile_of_a_model_for_a_repository_is_left_out():
    tree({"m/app": "", "m/app/x": ""})

    out = run(
        "--list", "--layout={model}/{repo}/x.dockerfile", "--layout={model}/{repo}.dockerfile"
    )[1]

    assert "m: 1 Dockerfile, " in out
    assert "left out: another Dockerfile has the same model and repository: " in out


def test_report_never_replaces_a_rubric(stub):
    tree({"m/app": ""})
    rubric = Path("rubrics/app.json").read_text()

    run("--layout", "*/{repo}.dockerfile", "--reports", "rubrics")

    assert Path("rubrics/app.json").read_text() == rubric


def test_evaluation_has_checkout_overlay_and_the_options_of_the_evaluator(stub):
    tree({"m/app": ""})
    os.makedirs("checkouts/app")

    run("--overlay", "--build-timeout=7", "--docker=x", "--offline", "--run-option=--cpus=2")

    expected = {
        "context": "checkouts/app",
        "overlay": "artifacts/m",
        "build_timeout": 7,
        "docker": "x",
        "offline": True,
        "run_options": ("--cpus=2",),
    }
    assert expected.items() <= stub.options["m/app"]._asdict().items()


def test_each_rubric_is_read_once():
    tree({"m/app": "", "n/app": ""})

    with mock.patch.object(de, "read_rubric", wraps=de.read_rubric) as read_rubric:
        run("--list")

    assert read_rubric.call_count == 1


# Two rounds


class Rounds(NamedTuple):
    """The words of a Dockerfile, its evaluation in the second round, and its report at the end."""

    words: str
    result: float | str  # part of the points, or the kind of the error
    second: Sequence[str] = ("m/a --no-cache",)
    code: int = 0


IN_THE_CACHE = ["m/a"]
ROUNDS = [
    Rounds("passed", result=1, second=[]),
    Rounds("build", result=0),
    Rounds("build_timeout", result=0),
    Rounds("late", result=0.5),
    Rounds("nostart", result=0.5),
    Rounds("build late", result=0.5),
    Rounds("late build", result=0.5),
    Rounds("build registry", result=0),
    Rounds("build crash", result=0),
    Rounds("registry passed", result=1, second=IN_THE_CACHE),
    Rounds("crash passed", result=1, second=IN_THE_CACHE),
    Rounds("engine", result="engine", second=IN_THE_CACHE, code=1),
    Rounds("usage", result="usage", second=[], code=1),
]


@pytest.mark.parametrize("row", ROUNDS, ids=lambda row: row.words)
def test_second_round_repeats_what_is_doubtful_and_the_better_report_stays(stub, row):
    tree({"m/a": row.words, "m/b": ""})

    code = run("--parallel", "1")[0]

    report = json.loads(Path("reports/m/a.json").read_text())
    schema("report").validate(report)
    assert report.get("repeated", False) is ("--no-cache" in stub.calls[-1])
    assert stub.calls == ["m/a", "m/b", *row.second]
    assert scores() == {"m/a": row.result, "m/b": 1}
    assert code == row.code


def test_mean_score_is_that_of_the_parts_of_the_points(stub):
    tree({"m/a": "late", "m/b": ""})

    assert "m: mean score 75.0% of 2 Dockerfiles\n" in run()[1]


def test_repetition_is_made_once(stub):
    tree({"m/a": "build", "m/b": "late passed", "m/c": "build registry"})
    run()

    run()

    assert len(stub.calls) == 6


def test_second_round_that_was_not_made_is_made_at_the_next_start(stub):
    tree({"m/a": "build", "m/b": "engine build"})
    run("--no-repeat", "--parallel", "1")

    run("--parallel", "1")

    assert stub.calls == ["m/a", "m/b", "m/b", "m/a --no-cache", "m/b --no-cache"]


def test_build_that_failed_twice_in_the_same_way_before_any_run_is_not_repeated(fake):
    tree({"m/a": "FROM x\nCOPY missing /"})

    run()

    assert fake.count("build") == 2


@pytest.mark.parametrize("word", ["engine", "crash"])
def test_score_for_other_inputs_is_set_aside_if_there_is_no_new_one(stub, word):
    """It would count for the new Dockerfile."""
    tree({"m/a": ""})
    run()
    tree({"m/a": word})

    run()

    assert scores().get("m/a") != 1
    assert '"total_score": 2' in Path("reports/m/a.json.previous").read_text()


def test_report_for_other_files_is_refused(stub):
    """They changed meanwhile, or a Dask worker has others."""
    tree({"m/a": ""})
    stub.during["m/a"] = lambda: tree({"m/a": "ENV x=y"})

    out = run("--no-repeat")[1]

    assert "no score: the files have changed, or the worker has others: 'm/a'\n" in out
    assert scores() == {}


# What an evaluation does to others


def test_whole_reports_are_not_kept_in_memory(stub):
    tree({f"m{number}/app": "" for number in range(100)})
    tracemalloc.start()

    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 5_000_000, "bytes"


def test_models_do_not_share_cache_mounts(stub):
    tree({"a/x": "", "a/y": "", "b/x": ""})
    run()

    ax, ay, bx = (stub.options[name].build_options for name in ("a/x", "a/y", "b/x"))
    assert ax == ay != bx


DAMAGES = {
    "the report": lambda: os.makedirs("reports/m/a.json"),
    "the log": lambda: os.makedirs("reports/m/a.log"),
    "the rubric": lambda: os.unlink("rubrics/a.json"),
    "the folder": lambda: Path("reports/m").write_text(""),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_trouble_with_a_file_of_one_task_costs_no_other_report(stub, name):
    tree({"l/0": "", "m/a": "", "n/b": ""})
    stub.during["l/0"] = DAMAGES[name]

    code = run("--parallel", "1")[0]

    assert sorted(scores()) == ["l/0", "n/b"]
    assert code == 1


def test_full_disk_of_a_log_costs_no_report(stub):
    tree({"m/a": ""})
    os.makedirs("reports/m")
    os.symlink("/dev/full", "reports/m/a.log")

    run()

    assert scores() == {"m/a": 1}


def test_any_name_of_a_model_and_a_file(stub):
    """Such as one that is not UTF-8, and one with control characters."""
    tree({f"{name}/{name}": "" for name in ("\udcff", "é\x1b[2J")})

    code, out, _ = run()

    assert "\x1b" not in out
    assert code == 0


# Engine errors


@pytest.mark.parametrize(
    ("words", "calls"),
    [("engine " * 9, 3), ("crash " * 9, 3), ("engine late " * 4, 8), ("engine registry " * 4, 8)],
)
def test_three_errors_of_this_machine_in_a_row_stop_the_run(stub, words, calls):
    tree({f"m/{number}": word for number, word in enumerate(words.split())})

    code = run("--parallel", "1", "--no-repeat")[0]

    assert calls <= len(stub.calls) < calls + 3, "a few more have been submitted"
    assert code == 1


def test_score_that_comes_after_the_stop_is_kept(stub):
    tree({"m/0": "deaf", **{f"m/{number}": "engine" for number in range(1, 9)}})

    run("--parallel", "2", "--no-repeat")

    assert scores()["m/0"] == 1


# Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_ends_what_runs_and_the_next_start_continues(stub, number):
    tree({"m/a": "build", "m/b": "interrupted passed", "m/c": ""})
    stub.during["m/b"] = lambda: os.kill(os.getpid(), number)

    code, out, _ = run("--parallel", "1")

    assert code == 128 + number
    assert scores() == {"m/a": 0}
    assert not re.search(r"\[2/3\]|second round", out)

    stub.during.clear()
    run()

    assert scores() == {"m/a": 0, "m/b": 1, "m/c": 1}


def test_interrupt_removes_containers_and_images(fake):
    # A container of the fake docker runs here.
    interrupt = f"kill -INT {os.getpid()}; sleep 20; touch ended"
    tree({"m/a": "FROM x"}, run_command(interrupt))

    code = run()[0]

    assert not (fake.root / "ended").exists()
    assert fake.left() == []
    assert code == 130


def test_second_interrupt_does_not_wait_for_the_clean_up(fake):
    tree({"m/a": "FROM x"})
    fake.fault("build", "hang")
    fake.fault("image ls", "hang", since=2)  # after the build
    process = start("--parallel", "1")
    wait_for(lambda: fake.count("build"))
    process.send_signal(signal.SIGINT)
    wait_for(lambda: fake.count("image ls") > 1)

    process.send_signal(signal.SIGINT)

    assert finished(process, seconds=10)[0] == 130


# The screen


@pytest.mark.parametrize("screen", ["2>&1 | true", ">/dev/full", ">file"])
def test_trouble_with_the_screen_changes_nothing_under_nohup(fake, screen):
    """A closed pipe, a full disk, and a name that the locale does not have."""
    tree({"münchen/a": "FROM x", "münchen/b": "FROM x\nRUN exit 3"})
    program = " ".join(map(shlex.quote, PROGRAM))
    script = f"""
        export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0
        trap '' HUP
        set -o pipefail
        {{ {program} --no-repeat & while kill -HUP $! 2>&-; do sleep 0.1; done; wait $!; }} {screen}
    """

    code = subprocess.call(["bash", "-c", script])

    assert scores() == {"münchen/a": 1, "münchen/b": 0}
    assert code == 0


def test_list_names_each_image_that_is_needed_as_it_is_written_or_by_default(stub):
    tree({"m/a": ""})
    Path("artifacts/m/a.dockerfile").write_text(
        "# syntax=docker/dockerfile:1\nARG V=1\nFROM node:$V AS node\nFROM node\n"
        "COPY --from=alpine:3 /a /\n"
        "RUN --mount=from=tool,target=/t <<EOF\nfrom flask import a\nEOF\n"
    )

    out = run("--list")[1]

    images = re.findall("^image (.+): 1 Dockerfile$", out, re.MULTILINE)
    assert sorted(images) == ["alpine:3", "docker/dockerfile:1", "node:1", "tool"]


def test_screen_shows_suspicious_zeros_by_kind_and_the_time_left_over_both_rounds(
    stub, monkeypatch
):
    tree({"m/a": "build:network", "m/b": "build:disk", "n/a": "build:network", "n/b": ""})
    clock = itertools.count(10**6, step=10)
    monkeypatch.setattr(ea, "time", SimpleNamespace(monotonic=clock.__next__))

    out = run("--parallel", "1")[1]

    assert re.search(r"suspicious.*network.*: 'm/a', 'n/a'\n", out)
    assert re.search(r"\[4/4\] .*, 0:00:\d+ left", out)
    assert "suspicious zeros (network)" in run()[1]  # also of reports that are resumed
