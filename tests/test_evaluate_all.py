"""artifacts/evaluate_all.py with a stub as the evaluator, on the fake docker and a real engine."""

from __future__ import annotations

import itertools
import os
import pty
import re
import signal
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Sequence

import pytest
from batch import ea, finished, report, run, scores, start, tree
from cases import run_command
from conftest import schema
from engine import census, wait_for

import DockerfileEvaluator as de

KINDS = ["build", "build_timeout", "engine", "registry", "usage", "interrupted"]


class Stub:
    """Plays the evaluator; the words of a Dockerfile say how its evaluations end, one by one.

    A word is a kind of error, build:network a suspicious zero; "late" is a test that timed out,
    "nostart" an image that does not start, "crash" an exception; "sleep" goes on until it is
    interrupted, "deaf" does not mind. All others pass.

    A call returns the evaluations since the last one, "MODEL/REPO" or "MODEL/REPO --no-cache".
    """

    def __init__(self) -> None:
        self.options: dict[str, de.Options] = {}  # of the last evaluation of each task
        self.during: dict[str, Any] = {}  # by task: a function to call in its evaluation
        self.log = ""  # of each build
        self.calls: list[str] = []
        self.interrupted: list[str] = []
        self._seen = 0

    def __call__(self) -> list[str]:
        seen, self._seen = self._seen, len(self.calls)
        return self.calls[seen:]

    def run_evaluation(self, options, inputs, docker, console):
        _, name, *words = os.fsdecode(inputs.dockerfile).split()
        before = sum(call.split()[0] == name for call in self.calls)
        word = (words or [""])[min(before, max(len(words) - 1, 0))]
        self.calls.append(f"{name} --no-cache" if "--no-cache" in options.build_options else name)
        self.options[name] = options
        console.line("the log")
        self.during.get(name, int)()
        if word == "crash":
            raise RuntimeError("the reason")
        if word in ("sleep", "deaf"):
            wait_for(lambda: docker.signals)
        if docker.signals and word != "deaf":
            self.interrupted.append(name)
            word = "interrupted"
        evaluation = de.Evaluation(options, inputs, docker, console)
        evaluation.build = de.Build(0, log=name + self.log)
        kind, _, suspect = word.partition(":")
        if kind in KINDS:
            evaluation.error = de.EvaluationError(kind, "why", suspect or None)
            return de.make_report(evaluation)
        status = {"late": de.TIMEOUT, "nostart": de.FAILED}.get(word, de.PASSED)
        for at, test in enumerate(reversed(inputs.rubric.tests)):
            evaluation.tests.results[test.id] = de.Result(de.PASSED if at else status, "m")
        evaluation.tests.starts.problem = "why" * (word == "nostart")
        evaluation.image = {"Id": "1d" * 32}
        return de.make_report(evaluation)


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
    tree({"m/app": ""})
    for folder in ("m/app", "m/app/docker", "checkouts/lib"):
        os.makedirs(f"artifacts/{folder}")
        Path(f"artifacts/{folder}/Dockerfile").write_text("FROM x")

    out = run("--list", "--layout", "{model}/{repo}/Dockerfile")[1]

    assert out.startswith("m: 1 Dockerfile, 0 resumed\n")
    assert "docker/Dockerfile" not in out
    assert "lib" not in out


def test_folder_comes_before_a_link_to_it_and_the_last_name_may_be_the_model():
    tree({"app/z/m": "", "app/n": ""})
    os.symlink("app", "artifacts/a-link")
    Path("rubrics/app.json").write_text(Path("rubrics/m.json").read_text())

    out = run("--list", "--layout", "{repo}/{model}.dockerfile")[1]

    assert out.startswith("n: 1 Dockerfile, 0 resumed\nz/m: 1 Dockerfile, 0 resumed\n")


def test_report_never_replaces_a_rubric(stub):
    tree({"m/app": ""})
    rubric = Path("rubrics/app.json").read_text()

    code, out, _ = run("--layout", "*/{repo}.dockerfile", "--reports", "rubrics")

    assert "left out: its report would replace its rubric" in out
    assert Path("rubrics/app.json").read_text() == rubric
    assert code == 1


def test_evaluation_has_checkout_overlay_and_the_options_of_the_evaluator(stub):
    tree({"m/app": ""})
    os.makedirs("checkouts/app")

    run("--overlay", "--build-timeout=7", "--docker=x", "--offline", "--run-option=--cpus=2")

    options = stub.options["m/app"]
    assert (options.context, options.overlay) == ("checkouts/app", "artifacts/m")
    assert (options.build_timeout, options.docker, options.offline) == (7, "x", True)
    assert options.run_options == ("--cpus=2",)


def test_each_rubric_is_read_once(monkeypatch):
    reads = []
    read_file = de.read_file
    monkeypatch.setattr(de, "read_file", lambda path: reads.append(path) or read_file(path))
    tree({f"m{number}/app": "" for number in range(5)})

    run("--list")

    assert reads.count("rubrics/app.json") == 1


# Two rounds


class Rounds(NamedTuple):
    """The words of a Dockerfile, its evaluations, and what its report has at the end."""

    when: str
    words: str
    calls: int
    result: Any  # part of the points, or the kind of the error
    no_cache: bool = True  # in the second round


SCORED = [
    Rounds("it passes", "", calls=1, result=1),
    Rounds("the build fails", "build", calls=2, result=0),
    Rounds("the build times out", "build_timeout", calls=2, result=0),
    Rounds("a test times out", "late", calls=2, result=0.5),
    Rounds("the image does not start", "nostart", calls=2, result=0.5),
    Rounds("the repetition is better", "build late", calls=2, result=0.5),
    Rounds("an engine error passes", "engine passed", calls=2, result=1, no_cache=False),
    Rounds("a registry error passes", "registry passed", calls=2, result=1, no_cache=False),
    Rounds("a crash passes", "crash passed", calls=2, result=1, no_cache=False),
]
NOT_BETTER = [
    Rounds("the repetition is worse", "late build", calls=2, result=0.5),
    Rounds("the repetition has no score", "build registry", calls=2, result=0),
    Rounds("the repetition crashes", "build crash", calls=2, result=0),
]
WITHOUT_SCORE = [
    Rounds("an engine error stays", "engine", calls=2, result="engine", no_cache=False),
    Rounds("a usage error", "usage", calls=1, result="usage"),
]


@pytest.mark.parametrize("row", SCORED + NOT_BETTER + WITHOUT_SCORE, ids=lambda row: row.when)
def test_second_round_repeats_what_is_doubtful_and_the_better_report_stays(stub, row):
    tree({"m/a": row.words, "m/b": ""})

    code = run("--parallel", "1")[0]

    second = f"m/a{' --no-cache' if row.no_cache else ''}"
    assert stub() == ["m/a", "m/b", second][: row.calls + 1]
    assert scores() == {"m/a": row.result, "m/b": 1}
    assert code == int(row in WITHOUT_SCORE)
    schema("report").validate(report("m/a"))


@pytest.mark.parametrize("row", SCORED + NOT_BETTER, ids=lambda row: row.when)
def test_repetition_is_made_once(stub, row):
    tree({"m/a": row.words})
    run()
    stub()

    run()

    assert stub() == []
    assert report("m/a")["repeated"] is (row.calls == 2 and row.no_cache)


def test_second_round_that_was_not_made_is_made_at_the_next_start(stub):
    tree({"m/a": "build", "m/b": "engine passed"})
    run("--no-repeat", "--parallel", "1")

    run("--parallel", "1")

    assert stub() == ["m/a", "m/b", "m/b", "m/a --no-cache"]


def test_build_that_failed_twice_in_the_same_way_before_any_run_is_not_repeated(fake):
    tree({"m/a": "FROM x\nCOPY missing /"})

    run()

    assert fake.count("build") == 2


def test_failed_build_of_a_second_try_is_repeated_at_the_next_start(stub):
    tree({"m/a": "engine build late"})
    run()

    run()

    assert stub() == ["m/a", "m/a", "m/a --no-cache"]
    assert scores() == {"m/a": 0.5}


@pytest.mark.parametrize("word", ["engine", "crash"])
def test_score_for_other_inputs_is_set_aside_if_there_is_no_new_one(stub, word):
    """It would count for the new Dockerfile."""
    tree({"m/a": ""})
    run()
    tree({"m/a": word})

    run()

    assert scores().get("m/a") in (None, word)
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
    stub.log = "x" * 100_000
    tree({f"m{number}/app": "" for number in range(100)})
    tracemalloc.start()

    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 5_000_000, "bytes"


def test_models_do_not_share_cache_mounts(stub):
    tree({"a/x": "", "a/y": "", "b/x": ""})
    run()

    namespaces = {name: options.build_options for name, options in stub.options.items()}
    assert namespaces["a/x"] == namespaces["a/y"] != namespaces["b/x"]


DAMAGES = {
    "the report": lambda: os.makedirs("reports/m/a.json"),
    "the log": lambda: os.makedirs("reports/m/a.log"),
    "the rubric": lambda: os.unlink("rubrics/a.json"),
    "the folder": lambda: Path("reports/m").write_text(""),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_trouble_with_a_file_of_one_task_costs_no_other_report(stub, name):
    tree({"l/0": "", "l/1": "", "m/a": "", "n/b": ""})
    stub.during["l/0"] = DAMAGES[name]

    code, out, _ = run("--parallel", "1")

    assert sorted(scores()) == ["l/0", "l/1", "n/b"]
    assert "no score: " in out
    assert code == 1


def test_full_disk_of_a_log_costs_no_report(stub):
    tree({"m/a": ""})
    os.makedirs("reports/m")
    os.symlink("/dev/full", "reports/m/a.log")

    run()

    assert scores() == {"m/a": 1}


@pytest.mark.parametrize("name", ["\udcff", "é\x1b[2J"], ids=["not UTF-8", "control characters"])
def test_any_name_of_a_model_and_a_file(stub, name):
    tree({f"{name}/{name}": ""})

    code, out, err = run()

    assert "\x1b" not in out + err
    assert code == 0


# Engine errors


@pytest.mark.parametrize(
    ("words", "calls"), [("engine " * 9, 3), ("engine late " * 4, 8), ("registry " * 9, 9)]
)
def test_three_engine_errors_in_a_row_stop_the_run(stub, words, calls):
    tree({f"m/{number}": word for number, word in enumerate(words.split())})

    code = run("--parallel", "1", "--no-repeat")[0]

    assert calls <= len(stub.calls) < calls + 3, "a few more have been submitted"
    assert code == 1


def test_score_that_comes_after_the_stop_is_kept(stub):
    tree({"m/0": "deaf", **{f"m/{number}": "engine" for number in range(1, 9)}})

    run("--parallel", "2", "--no-repeat")

    assert scores()["m/0"] == 1


# Interrupts


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_interrupt_ends_what_runs_and_the_next_start_continues(stub, name):
    number = getattr(signal, name)
    tree({"m/a": "build", "m/b": "sleep passed", "m/c": "sleep passed", "m/d": ""})
    stub.during["m/c"] = lambda: (
        wait_for(lambda: "m/b" in stub.calls) and os.kill(os.getpid(), number)
    )
    assert run("--parallel", "2")[0] == 128 + number
    assert scores()["m/a"] == 0
    assert {"m/b", "m/c"} <= set(stub.interrupted)
    del stub.during["m/c"]

    run("--parallel", "2")

    assert scores() == {"m/a": 0, "m/b": 1, "m/c": 1, "m/d": 1}


def test_what_an_interrupt_prevents_is_not_done(stub):
    tree({"m/a": "", "m/b": "sleep", "m/c": "", "m/d": ""})
    stub.during["m/b"] = lambda: os.kill(os.getpid(), signal.SIGINT)

    out = run("--parallel", "1")[1]

    assert "] m/a: " in out
    assert "[4/4]" not in out
    assert stub() == ["m/a", "m/b"]
    assert scores() == {"m/a": 1}


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


def closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return {"stdout": writer, "stderr": writer}


def closed_terminal():
    master, terminal = pty.openpty()
    os.close(master)
    return {"stdout": terminal, "stderr": terminal}


def full_disk():
    return {"stdout": os.open("/dev/full", os.O_WRONLY)}


def locale_without_utf8():
    return {"env": {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}}


def ignore_hangup():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@pytest.mark.parametrize("screen", [closed_pipe, closed_terminal, full_disk, locale_without_utf8])
def test_trouble_with_the_screen_ends_nothing_under_nohup(fake, screen):
    tree({"münchen/a": "FROM x", "münchen/b": "FROM x\nRUN exit 3"})

    process = start("--no-repeat", **screen(), preexec_fn=ignore_hangup)
    process.send_signal(signal.SIGHUP)
    finished(process)

    assert scores() == {"münchen/a": 1, "münchen/b": 0}


def test_lost_screen_changes_no_exit_code(fake):
    tree({"m/a": "FROM x"})

    assert finished(start(**closed_pipe()))[0] == 0


class Printed(NamedTuple):
    what: str
    pattern: str
    words: Sequence[str] = ()


PRINTED = [
    Printed("what will be repeated", "m/a: .*will be repeated"),
    Printed("the time left over both rounds", r"\[6/6\] .*, 0:00:\d+ left"),
    Printed("suspicious zeros by kind", "suspicious.*network.*: 'm/a', 'n/a'\n"),
    Printed("base images", r"base image x:1: 2 Dockerfiles\n\Z", ["--list"]),
    Printed("exit codes", "Exit codes: 0", ["--help"]),
    Printed(
        "a file that nearly fits",
        "a file there: artifacts/m/a.dockerfile",
        ["--layout", "{model}/{repo}/Dockerfile"],
    ),
]


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.what)
def test_screen_shows(stub, row, monkeypatch):
    words = {"m/a": "build:network", "m/b": "build:disk", "n/a": "build:network", "n/b": ""}
    tree({**words, "m/c": "FROM x:1 AS x:1\nFROM x:1", "n/c": "FROM x:1\nFROM SCRATCH"})

    clock = itertools.count(0, step=10)
    monkeypatch.setattr(ea, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    _, out, err = run("--parallel", "1", *row.words)

    assert re.search(row.pattern, out + err)


# On a real engine


# The legacy builder may leave an untagged image of an interrupted build.
@pytest.mark.usefixtures("engine", "buildkit")
def test_interrupted_run_on_an_engine_continues_and_leaves_nothing():
    places = {f"m/{at}": f"FROM busybox:stable\nENV N={at}" for at in range(4)}
    tree({**places, "m/z": "FROM busybox:stable\nCOPY missing /"}, run_command("sleep 2"))
    before = census()
    first = start("--parallel", "2")
    wait_for(lambda: os.path.exists("reports/m/0.json"))
    first.send_signal(signal.SIGINT)
    assert finished(first)[0] == 130
    assert census() == before

    code = finished(start())[0]

    assert scores() == {**dict.fromkeys(places, 1), "m/z": 0}
    assert code == 0
    assert census() == before
