"""artifacts/evaluate_all.py with a stub as the evaluator, or on the fake engine."""

from __future__ import annotations

import collections
import contextlib
import functools
import io
import itertools
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest import mock

import pytest
from batch import PROGRAM, ea, run, scores, tree
from cases import run_command
from conftest import called, make_report, outcome, schema
from engine import wait_for

import DockerfileEvaluator as de

# The words of Stub for an evaluation that runs its two tests, and the status of the second one.
STATUSES = {
    "passed": de.PASSED,
    "deaf": de.PASSED,
    "late": de.TIMEOUT,
    "failed": de.FAILED,
    "nostart": de.FAILED,
    "fetched": de.FAILED,
    "heard": de.PASSED,
}


class Stub:
    """Plays the evaluator; the words of a Dockerfile say how its evaluations end, one by one.

    A word is a kind of error, build:network a suspicious zero, failed:network a suspicious test,
    fetched:network a failed test after a suspicious build, heard:network none after such a build,
    registry:quay.io its registry; "late" is a test that timed out, "nostart" an image that does not
    start, "crash" an exception.
    "interrupted" goes on until it is interrupted, "deaf" passes then. The last word counts for all
    further evaluations.
    """

    def __init__(self):
        self.calls = []  # "MODEL/REPO" or "MODEL/REPO --no-cache"
        self.options = {}  # of the last evaluation of each task
        self.during = {}  # by task: a function to call in its evaluation
        self.experiments = 0
        self.signals = []  # of the last evaluation
        self.fault = None  # what an experiment finds
        self.pulled = []  # the registries whose control image was pulled

    def run_evaluation(self, options, inputs, docker, console):
        _, name, *words = os.fsdecode(inputs.dockerfile).split()
        earlier = sum(call.split()[0] == name for call in self.calls)
        word, _, suspect = ["passed", *words][min(earlier + 1, len(words))].partition(":")
        self.calls.append(f"{name} --no-cache" if "--no-cache" in options.build_options else name)
        self.options[name] = options
        self.signals = docker.signals
        console.line("the log")
        self.during.get(name, int)()
        if word == "crash":
            raise RuntimeError("the reason")
        if word in ("interrupted", "deaf"):
            wait_for(lambda: docker.signals)
        outcome = [de.PASSED, STATUSES[word]] if word in STATUSES else word
        report = make_report(outcome, options, inputs, suspect or None, log=name * 20_000)
        report["environment"]["image_starts"] = word != "nostart"
        report["test_results"][1]["suspect"] = (word == "failed" and suspect) or None
        report["build"]["suspect"] = suspect if word in ("fetched", "heard") else None
        if word == "registry":
            report["error"].update(registry=suspect or None, suspect=None)
        return report

    def host_fault(self, workspace, options):
        self.experiments += 1
        return self.fault

    def registry_problem(self, workspace, options, registry):
        self.pulled.append(registry)
        return str(self.fault or "")


@pytest.fixture
def stub(monkeypatch):
    stub = Stub()
    monkeypatch.setattr(de, "run_evaluation", stub.run_evaluation)
    monkeypatch.setattr(de, "host_fault", stub.host_fault)
    monkeypatch.setattr(de, "registry_problem", stub.registry_problem)
    for name in ("begin", "end"):
        monkeypatch.setattr(de.Workspace, name, lambda _: [])
    monkeypatch.setattr(de, "engine_facts", lambda _: {"engine_cpus": 2})
    monkeypatch.setattr(de.Docker, "connect", lambda docker, *_: docker.check_interrupt())
    return stub


# Which Dockerfiles there are


def test_dockerfile_of_the_repository_itself_is_no_answer():
    """In a checkout inside the artifacts, and inside the folder of an answer."""
    tree({"m/app/x": "", "m/app/docker/x": "", "checkouts/lib/x": "", "app": ""})

    out = run("--list", "--layout", "{model}/{repo}/x.dockerfile")[1]

    assert out.startswith(
        "m: 1 Dockerfile, 0 already scored\nnot matched by any --layout: 'artifacts/"
    )


def test_link_to_nothing_and_a_pipe_are_left_out():
    tree({"m/app": ""})
    os.symlink("nothing", "artifacts/m/lib.dockerfile")
    os.mkfifo("artifacts/m/web.dockerfile")

    code, out, _ = run("--list")

    assert code == 1
    assert "left out: not a regular file: 'artifacts/m/lib.dockerfile', 'artifacts/m/web." in out


def test_second_dockerfile_of_a_model_for_a_repository_is_left_out():
    tree({"m/app": "", "m/app/x": ""})

    out = run(
        "--list", "--layout={model}/{repo}/x.dockerfile", "--layout={model}/{repo}.dockerfile"
    )[1]

    assert "m: 1 Dockerfile, " in out
    assert "left out: another Dockerfile has the same model and repository: " in out


def test_missing_answers_are_named_and_what_has_no_reference():
    tree({"alpha/api": "", "alpha/web": "", "gamma/lib": "", "ref/api": "", "ref/x": ""})
    tree({"alpha/norubric": ""})
    os.unlink("rubrics/norubric.json")

    out = run("--list", "--reference", "ref", "--repo", "[!x]*")[1]

    assert re.findall("no answer: .*", out) == [
        "no answer: alpha: 'lib'",
        "no answer: gamma: 'api', 'web'",
    ]
    assert "no reference: 'lib', 'web'\n" in out


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


# How evaluations end: the points of two, -1 without a score, -2 without a report.
POINTS = {"passed": 2, "failed": 1, "failed:network": 1, "late": 1, "nostart": 1}
POINTS.update({"build": 0, "build_timeout": 0, "engine": -1, "registry": -1, "usage": -1})
POINTS.update({"fetched:network": 1, "fetched:gone": 1, "failed:emulation": 1, "heard:network": 2})
POINTS["crash"] = -2
FINAL = ("passed", "failed", "usage", "fetched:gone", "failed:emulation", "heard:network")


@pytest.mark.parametrize("second", ["passed", "late", "build", "engine", "crash"])
@pytest.mark.parametrize("first", POINTS)
def test_second_round_repeats_what_is_doubtful_and_the_better_report_stays(stub, first, second):
    tree({"m/a": f"{first} {second}"})
    attempts = [first] if first in FINAL else [first, second]
    stays = max(reversed(attempts), key=POINTS.get)
    is_retry = POINTS[first] >= 0 and first not in FINAL
    is_second = is_retry and POINTS[second] >= POINTS[first]
    is_done = is_retry and second != "crash"  # without a report the next start retries it
    other = POINTS[first if is_second else second] if is_retry else -2

    code = run("--parallel", "1")[0]

    calls = ["m/a", "m/a --no-cache" if is_retry else "m/a"]  # The cache may have what failed.
    assert stub.calls == calls[: len(attempts)]
    assert code == int(POINTS[stays] < 0)
    if stays == "crash":
        assert scores() == {}
    else:
        status = STATUSES.get(stays.partition(":")[0])
        words = " ".join(sorted({"passed", status})) if status else stays
        assert facts_of("m/a") == (words, (is_done, is_second), other, 0)


def points_of(report):
    if not report:
        return -2
    points = report["summary"]["total_score"]
    return -1 if points is None else points


INTERRUPTED_TREE = {
    "a/x": "build passed",
    "b/x": "late build",
    "c/x": "engine passed",
    "d/x": "crash passed",
    "ref/x": "passed build",
    "ref/y": "",
}


def facts_of(place):
    """Return the outcome, flags, points of the other attempt, and marks of a report."""
    report = json.loads(Path(f"reports/{place}.json").read_text())
    schema("report").validate(report)
    marks = str([report["error"], *report["test_results"]]).count(ea.REFERENCE)
    flags = (report["repeated"], report["is_second_try"])
    return outcome(report), flags, points_of(report["other_attempt"]), marks


def marked():
    """Return what has the mark that a reference failed beside it, each with one mark."""
    marks = {place: facts_of(place)[3] for place in sorted(scores())}
    assert set(marks.values()) <= {0, 1}
    return [place for place, count in marks.items() if count]


def test_run_that_is_interrupted_anywhere_ends_like_one_that_is_not(stub, monkeypatch):
    """It is started again."""
    tree(INTERRUPTED_TREE)
    run("--parallel", "1", "--reference", "ref")
    whole = {place: facts_of(place) for place in INTERRUPTED_TREE}
    evaluate = de.run_evaluation
    calls = itertools.count(1)

    def interrupted(options, inputs, docker, console):
        if next(calls) == nth:
            os.kill(os.getpid(), signal.SIGINT)
            wait_for(lambda: docker.signals)
            return make_report(de.INTERRUPTED, options, inputs)
        return evaluate(options, inputs, docker, console)

    monkeypatch.setattr(de, "run_evaluation", interrupted)
    for nth in range(1, 1 + len(stub.calls)):
        shutil.rmtree("reports")
        stub.calls.clear()
        calls = itertools.count(1)

        codes = [run("--parallel", "1", "--reference", "ref")[0] for _ in range(2)]

        assert codes == [130, 0], nth
        assert {place: facts_of(place) for place in INTERRUPTED_TREE} == whole, nth


def test_build_that_would_fail_at_any_time_is_not_repeated(fake):
    tree({"m/a": "FROM x\nCOPY missing /"})

    run()

    assert fake.count("build") == 1


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

    assert "no score: the files have changed, or differ on the worker: 'm/a'\n" in out
    assert scores() == {}


def fail_after_the_first(monkeypatch):
    """Let one report be read, and none later."""
    read = de.read_report
    times = iter([True])
    monkeypatch.setattr(de, "read_report", lambda path: read(path) if next(times, False) else None)


@pytest.mark.parametrize("second", ["build", "registry"])
def test_report_that_cannot_be_read_at_its_retry_is_left_alone(stub, second, monkeypatch):
    """It has more points; a file server may fail for a moment."""
    tree({"m/a": f"late {second}"})
    run("--no-repeat")
    before = Path("reports/m/a.json").read_text()
    fail_after_the_first(monkeypatch)

    out = run()[1]

    assert "no report: cannot read the earlier report: reports/m/a.json" in out
    assert Path("reports/m/a.json").read_text() == before
    assert "1 of 1 Dockerfiles have a score" in out


def test_second_tries_and_those_that_raised_the_score_are_counted(stub):
    tree({"m/a": "build passed", "m/b": "late build", "m/c": "build", "m/d": "late"})

    assert "\n3 second tries, 1 raised the score\n" in run()[1]
    assert "\n3 second tries, 1 raised the score\n" in run()[1]


# What ends how: at first, in a second round (b and c have none), and with --again.
SUSPICIOUS = {
    "m/a": "build:network build:network passed",
    "m/b": "failed:gone passed",
    "m/c": "fetched:emulation build",
    "m/d": "build fetched:disk fetched:disk",
    "m/d2": "late fetched:disk build",
}
OTHERS = {"m/e": "build", "m/f": "failed", "m/g": "late", "m/h": "heard:disk"}


def test_only_what_is_suspicious_is_evaluated_again_on_request(stub):
    """Each once, without the cache, whatever was repeated before."""
    tree({**SUSPICIOUS, **OTHERS})
    run("--parallel", "1")
    before = len(stub.calls)

    code, out, _ = run("--parallel", "1", "--again", "suspicious")

    assert stub.calls[before:] == [f"{place} --no-cache" for place in SUSPICIOUS]
    # The other attempt of a second try is always the first one.
    tries = [(scores()[place], *facts_of(place)[1:3]) for place in SUSPICIOUS]
    is_second, is_first = (True, True), (True, False)
    assert tries == [
        (1, is_second, 0),
        (1, is_second, 1),
        (0.5, is_first, 0),
        (0.5, is_second, 0),
        (0.5, is_second, 1),
    ]
    assert "6 second tries, 3 raised the score" in out
    assert code == 0


@pytest.mark.parametrize(("word", "is_cached"), [("engine", True), ("engine:network", False)])
@pytest.mark.parametrize("starts", [1, 2])
def test_what_has_a_suspicion_and_no_score_is_built_without_the_cache(
    stub, word, is_cached, starts
):
    """In the second round, or at the next start. A layer may be what a broken network left."""
    tree({"m/a": f"{word} passed"})

    for _ in range(starts):
        run(*["--no-repeat"] * (starts - 1))

    assert stub.calls == ["m/a", "m/a" if is_cached else "m/a --no-cache"]


@pytest.mark.parametrize("content", ["[]", '{"build": [], "summary": {"failed_tests": 1}}', "{"])
def test_report_of_another_program_is_none(stub, content):
    tree({"m/a": ""})
    os.makedirs("reports/m")
    Path("reports/m/a.json").write_text(content)

    run()

    assert stub.calls == ["m/a"]
    assert scores() == {"m/a": 1}


@pytest.mark.parametrize("suspect", ["memory", "disk"])
def test_retry_because_of_the_memory_runs_alone_and_the_report_says_so(stub, suspect):
    tree({"m/a": f"build:{suspect} passed", "m/b": "late passed", "m/c": "late passed"})
    run("--parallel", "3", "--no-repeat")
    is_alone = suspect == "memory"
    together = threading.Barrier(2 if is_alone else 3, timeout=60)
    running = []

    def wait_for_others(name):
        running.append(name)
        assert not is_alone or "m/a" not in running or running == ["m/a"]
        if name == "m/a" and is_alone:
            time.sleep(0.3)  # Others would come.
        else:
            together.wait()
        running.remove(name)

    for name in ("m/a", "m/b", "m/c"):
        stub.during[name] = functools.partial(wait_for_others, name)

    run("--parallel", "3")

    assert scores() == {"m/a": 1, "m/b": 1, "m/c": 1}
    parallel = [json.loads(Path(f"reports/m/{repo}.json").read_text()) for repo in "abc"]
    assert [each["environment"]["parallel"] for each in parallel] == [1 if is_alone else 3, 3, 3]


# The reference


def test_reference_comes_first_and_the_run_stops_if_it_gets_no_full_score(stub):
    tree({"a/x": "", "a/y": "", "ref/x": "late", "ref/y": "engine"})

    code, out, _ = run("--parallel", "1", "--reference", "ref")

    assert stub.calls == ["ref/x", "ref/y"]
    assert "reference fails: y no score: why\n" in out
    message = "stopped: no reference gets all points on this machine (x: 1 of 2: "
    assert message in out
    assert code == 1


def test_reference_that_fails_is_named_and_all_others_run(stub):
    tree({"a/x": "", "a/y": "", "ref/x": "build", "ref/y": ""})

    code, out, _ = run("--parallel", "1", "--reference", "ref", "--no-repeat")

    assert stub.calls == ["ref/x", "ref/y", "a/x", "a/y"]
    assert out.count("reference fails: x 0 of 2: why\n") == 1
    assert "reference fails: 'x'\n" in out, "in the summary"
    assert code == 0


def test_reference_that_failed_is_tried_at_the_next_start(stub):
    """A person has mended the machine; what the cache has may be of the time before."""
    tree({"a/x": "", "ref/x": "build passed", "ref/y": "late", "a/y": ""})
    run("--parallel", "1", "--reference", "ref", "--no-repeat")

    code = run("--parallel", "1", "--reference", "ref", "--no-repeat")[0]

    again = ["ref/x --no-cache", "ref/y --no-cache", "a/x", "a/y"]
    assert stub.calls == ["ref/x", "ref/y", *again]
    assert code == 0


ENDED = ea.Outcome(None)
X, Y = (ea.Task("a", "x", ""), ENDED), (ea.Task("a", "y", ""), ENDED)
CONTROL = (ea.Task("ref", "x", "", True), ENDED)
INTERRUPTED = (CONTROL[0], ea.Outcome(None, de.INTERRUPTED))


@pytest.mark.parametrize(
    ("ended", "kept"),
    [
        ([CONTROL, X, Y], [CONTROL, X, Y]),
        ([X, Y, CONTROL], [Y, CONTROL, X]),
        # A retry that was kept would never have a control.
        ([X, Y], [Y]),
        ([X, INTERRUPTED, Y], [Y]),
    ],
)
def test_retry_is_kept_when_the_reference_beside_it_has_ended(ended, kept):
    assert list(ea.after_references(ended, {"x"})) == kept


FIRST = ("passed", "late", "build", "engine")
BESIDE = ("passed", "failed", "late", "build", "engine", "registry", "crash")


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("first", FIRST)
def test_retries_are_suspicious_if_the_reference_beside_them_has_not_all_points(
    stub, first, beside
):
    """However the reference ended before; d/x has its first score then."""
    tree({"a/x": "build", "b/x": "late", "c/x": "failed", "d/x": "engine build", "e/y": "build"})
    tree({"ref/x": f"{first} {beside}", "ref/y": ""})

    run("--parallel", "1", "--reference", "ref")

    others = [place for place in marked() if place != "ref/x"]
    assert others == ([] if beside == "passed" else ["a/x", "b/x", "d/x"])


def test_reference_is_only_evaluated_beside_retries_of_its_repository(stub):
    tree({"a/x": "engine", "a/y": "", "a/z": "build", "ref/x": "", "ref/y": "", "ref/z": ""})
    tree({"ref/w": "build"})

    run("--parallel", "1", "--reference", "ref")

    w, x, z = (f"ref/{repo} --no-cache" for repo in "wxz")
    assert stub.calls[-5:] == [w, x, "a/x", z, "a/z --no-cache"]


def test_reference_is_in_each_shard_and_not_selected_by_model(stub):
    """Each shard may have an engine of its own."""
    tree({f"{model}/{repo}": "build" for model in "ab" for repo in "vwxyz"})
    tree({f"ref/{repo}": "" for repo in "vwxyz"})

    for part in "12":
        run("--reference", "ref", "--model=a", f"--shard={part}/2", f"--reports=reports/{part}")

    calls = collections.Counter(stub.calls)
    for repo in "vwxyz":
        assert calls[f"ref/{repo}"] == 2
        assert calls[f"ref/{repo} --no-cache"] == calls[f"a/{repo}"] == 1
        assert calls[f"b/{repo}"] == 0


@pytest.mark.parametrize(
    ("other", "hint"),
    [
        ("reff/x", " (did you mean 'reff'?)"),
        ("ref/y", ": all are left out, or not selected by --repo"),
    ],
)
def test_reference_without_a_selected_dockerfile_is_a_mistake(stub, other, hint):
    tree({"a/x": "", other: ""})

    code, _, err = run("--reference", "ref", "--repo", "x")

    assert err == f"error: --reference: no Dockerfile of 'ref' to evaluate{hint}\n"
    assert (code, stub.calls) == (2, [])


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


@pytest.mark.parametrize("line", ["y" * 500, "é" * 5_000, "\udcff" * 300_000], ids=len)
def test_log_is_bounded_and_has_its_beginning_and_its_end(stub, line, monkeypatch):
    tree({"m/a": "late late"})
    count = 3_000_000 // len(line.encode(errors="backslashreplace"))
    sizes = []
    evaluate = de.run_evaluation

    def loud(options, inputs, docker, console):
        for text in ("begin", *[line] * count, "end"):
            console.line(text)
        sizes.append(os.path.getsize("reports/m/a.log"))
        return evaluate(options, inputs, docker, de.Console(None))

    monkeypatch.setattr(de, "run_evaluation", loud)

    run()

    log = Path("reports/m/a.log").read_bytes()
    assert log.count(b"begin\n") == log.count(b"\nend\n") == log.count(b"\n[...]\n") == 2
    assert 1_490_000 < len(log) < 2_000_100, "two evaluations"
    assert all(size < 2_000_100 for size in sizes), "it can be followed meanwhile"


def test_log_begins_with_the_command_that_repeats_the_evaluation(fake):
    """It writes no report. A retry has another one, after a line between the tries."""
    tree({"m x/it's\n": "FROM x"}, run_command("exit 3"), run_command("sleep 600"))
    words = ["--build-timeout=7.5", "--offline", "--run-option=--cpus=2", "--build-option=--pull"]
    run(*words, "--run-option=--env=TOKEN=s3cret", "--overlay")
    file = Path("reports/m x/it's\n.json")
    before = file.read_text()

    first, *_ = log = file.with_suffix(".log").read_text().splitlines()
    at = log.index("-" * 72)
    python3, program, *given = eval_words(first)
    code, out, _ = called(de.main, *given)

    assert (python3, program) == ("python3", de.__file__)
    assert (code, file.read_text()) == (1, before)
    assert "0 of 2 tests passed" in out
    assert {*words, "--run-option=--env=…", "--overlay=artifacts/m x"} <= set(given)
    assert "s3cret" not in "".join(log)
    assert log[at + 1] == first.replace("--pull", "--pull --build-option=--no-cache")
    assert log.count("-" * 72) == 1


def eval_words(line):
    """Return the words of a line of bash."""
    script = 'printf "%s\\0" ' + line
    found = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, encoding="utf-8")
    return found.stdout.split("\0")[:-1]


def test_any_name_of_a_model_and_a_file(stub):
    """Such as one that is not UTF-8, and one with control characters."""
    tree({f"{name}/{name}": "" for name in ("\udcff", "é\x1b[2J")})

    code, out, _ = run()

    assert "\x1b" not in out
    assert code == 0


# Experiments


FAULT = de.EvaluationError(de.ENGINE, "docker cannot do it")


class Row(NamedTuple):
    """How evaluations end, one by one, and what comes of it."""

    words: str
    experiments: int = 0
    pulled: str = ""  # the registry
    stops: bool = False
    fault: de.EvaluationError | None = FAULT  # that an experiment would find
    said: str = ""


FAILS = "stopped: the control experiment fails, too: "
NIGHT = ("registry:quay.io " * 3 + "registry:ghcr.io " * 2) * 2
ROWS = {
    "the experiment fails": Row("engine " * 9, 1, stops=True, said=f"{FAILS}docker cannot do it"),
    "it succeeds": Row(
        "engine " * 9, 2, fault=None, said="many engine errors, but the control experiment succeeds"
    ),
    "not in a row": Row("engine engine late " * 3),
    "few errors of registries": Row("registry:quay.io " * 9),
    "not in a row either": Row(("registry:quay.io " * 9 + "passed ") * 2),
    "files that cannot be read": Row("usage " * 12),
    "no control image of the registry": Row(
        NIGHT * 2,
        pulled="quay.io",
        stops=True,
        said=f"{FAILS}registry quay.io: docker cannot do it",
    ),
    "the control image of the registry": Row(
        NIGHT, pulled="quay.io", fault=None, said="many registry errors, but the control experiment"
    ),
    "no registry is named": Row("registry " * 20, 1, stops=True, said=FAILS),
}


@pytest.mark.parametrize("name", ROWS)
def test_errors_in_a_row_stop_the_run_only_if_an_experiment_fails(stub, name):
    row = ROWS[name]
    words = row.words.split()
    tree({f"m/{number:02}": word for number, word in enumerate(words)})
    stub.fault = row.fault

    code, out, _ = run("--parallel", "1", "--no-repeat")

    assert (len(stub.calls) < len(words)) is row.stops
    assert FAILS in out if row.stops else FAILS not in out
    assert row.said in out
    assert stub.experiments >= row.experiments if row.experiments else stub.experiments == 0
    assert set(stub.pulled) == set(filter(None, [row.pulled]))
    assert code == 1


@contextlib.contextmanager
def cluster(engines, seed):
    """Play workers that get tasks at random; `engines`: whether each has one, by address.

    Yield the address of the worker without an engine for each call that it got.
    """
    choose = random.Random(seed).choice
    shared = ea.Shared(1)
    failed = []

    def submit(call, options, addresses):
        address = choose(sorted(addresses or engines))
        future = futures.Future()
        lost = ea.Outcome(None, de.ENGINE, f"{address} has no engine")
        outcome = call(options, shared) if engines[address] else lost
        failed.extend([address] * (outcome == lost))
        future.set_result(outcome._replace(worker=address))
        return future

    workers = ea.Workers(submit, lambda: dict.fromkeys(engines, 1), list)
    with mock.patch.object(ea, "threads", return_value=contextlib.nullcontext(workers)):
        yield failed


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("names", ["ab", "abcd"])
def test_what_fails_on_a_worker_without_an_engine_is_done_by_another_one(stub, names, seed):
    """The first one has an engine."""
    tree({f"m/{number}": "" for number in range(20)})

    with cluster({name: name == "a" for name in names}, seed) as failed:
        code, out, _ = run("--no-repeat")

    assert (code, list(scores().values())) == (0, [1] * 20), out
    assert len(failed) < 20 + len(names), "A task goes only to workers that may have an engine."


@pytest.mark.parametrize(("has_engine", "fault"), [(False, "[ab] has no"), (True, "docker cannot")])
def test_cluster_on_which_the_control_experiment_fails_stops_the_run(stub, has_engine, fault):
    """It is not moved to another worker."""
    tree({f"m/{number}": "engine" for number in range(20)})
    stub.fault = FAULT

    with cluster({"a": has_engine, "b": has_engine}, 0):
        code, out, _ = run("--no-repeat")

    assert re.search(f"{FAILS}{fault}", out)
    assert code == 1


def test_crashes_in_a_row_stop_the_run(stub):
    tree({f"m/{number}": "crash" for number in range(9)})

    code, out, _ = run("--parallel", "1")

    assert "stopped: 3 evaluations in a row have no report: RuntimeError: the reason\n" in out
    assert len(stub.calls) < 6
    assert code == 1


@pytest.mark.parametrize("file", ["artifacts/m/a.dockerfile", "rubrics/a.json"])
def test_answer_that_cannot_be_read_is_not_tried_again(stub, file):
    tree({"l/0": "", "m/a": ""})
    stub.during["l/0"] = lambda: os.unlink(file)

    out = run("--parallel", "1")[1]

    assert f"no score: cannot read {file}: No such file" in out
    assert "second round" not in out


# Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_ends_what_runs_and_the_next_start_continues(stub, number):
    tree({"m/a": "build", "m/b": "interrupted passed", "m/c": ""})
    stub.during["m/b"] = lambda: os.kill(os.getpid(), number)

    code, out, _ = run("--parallel", "1")

    assert code == 128 + number
    assert scores() == {"m/a": 0}
    assert not re.search(r"\[2/3\]|second round", out)
    assert out.endswith("\ninterrupted: start the same command again to continue\n")

    stub.during.clear()
    run()

    assert scores() == {"m/a": 0, "m/b": 1, "m/c": 1}


def test_second_interrupt_reaches_the_clean_up(stub):
    """It shortens that."""
    tree({"m/a": "interrupted"})

    def interrupt_twice():
        os.kill(os.getpid(), signal.SIGINT)
        wait_for(lambda: stub.signals)
        os.kill(os.getpid(), signal.SIGINT)
        wait_for(lambda: len(stub.signals) > 1)

    stub.during["m/a"] = interrupt_twice

    assert run("--parallel", "1")[0] == 130


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


def test_screen_shows_what_is_suspicious_by_kind_and_the_time_left_over_both_rounds(
    stub, monkeypatch
):
    tree({"m/a": "build:network", "m/b": "build:disk", "n/a": "failed:network", "n/b": ""})
    tree({"o/a": "fetched:gone", "o/b": "fetched:network", "o/c": "heard:network"})
    clock = itertools.count(10**6, step=10)
    monkeypatch.setattr(ea, "time", SimpleNamespace(monotonic=clock.__next__))

    out = run("--parallel", "1")[1]

    for kind, names in (("network", "'m/a', 'n/a', 'o/b'"), ("disk", "'m/b'"), ("gone", "'o/a'")):
        assert f"suspicious failures ({kind}), please check: {names}\n" in out
    assert re.search(r"\[7/7\] .*, 0:\d\d:\d+ left", out)
    assert "suspicious failures (network)" in run()[1]  # also of reports that are already there


def test_line_says_what_runs_and_since_when(stub, monkeypatch):
    """Not what waits for it."""
    tree({"m/a": "", "m/b": ""})
    monkeypatch.setattr(ea, "QUIET", 0.1)
    monkeypatch.setattr(ea, "TICK", 0.1)
    stub.during["m/a"] = lambda: time.sleep(0.4)

    out = run("--parallel", "1")[1]

    assert re.search(r"^running: m/a 0:00:0[01]$", out, re.MULTILINE)


class Terminal(io.StringIO):
    """Knows the two codes that move the cursor up, and erase a line."""

    def isatty(self):
        return True

    def shown(self):
        lines = [""]
        at = 0
        for part in re.findall("\x1b\\[A|\x1b\\[2K|\n|[^\x1b\n]+", self.getvalue()):
            if part == "\x1b[A":
                at -= 1
            elif part == "\n":
                at += 1
                lines += [""] * (at == len(lines))
            else:
                lines[at] = "" if part == "\x1b[2K" else part
        return lines[:at]


@pytest.mark.parametrize(("columns", "line"), [(25, "running: m/long 0:01:42…"), (8, "runnin…")])
def test_line_that_says_what_runs_replaces_itself_on_a_terminal(monkeypatch, columns, line):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(ea, "time", SimpleNamespace(monotonic=itertools.count(100).__next__))
    screen = ea.Screen()
    task = ea.Task("m", "long", "x")
    screen.line("first")

    screen.status({task: 0, ea.CONTROL_EXPERIMENT: 1})
    status = terminal.shown()
    screen.status({task: 0})
    screen.line("second")
    news = terminal.shown()
    screen.status({task: 0})
    screen.clear()
    screen.line("last")

    assert status == ["first", line]
    assert news == ["first", "second"]
    assert terminal.shown() == ["first", "second", "last"]
