"""artifacts/evaluate_all.py with a stub as the evaluator, or on the fake engine."""

from __future__ import annotations

import functools
import io
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from batch import PROGRAM, ea, run, scores, tree
from cases import table
from conftest import make_report, outcome, schema
from engine import wait_for

import DockerfileEvaluator as de

# The words of Stub for an evaluation that runs its two tests, and the status of the second one.
STATUSES = dict.fromkeys(["passed", "deaf", "heard"], de.PASSED)
STATUSES.update(dict.fromkeys(["failed", "nostart", "fetched"], de.FAILED), late=de.TIMEOUT)


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
        self.during = {}  # by task: a function to call in its evaluation, which may return a word
        self.docker = self.console = None  # of the last evaluation
        self.cpus = 1
        self.error = {}  # what differs in the errors of reports
        self.experiments = []  # "host", or the registry whose control image was pulled
        self.fault = None  # what an experiment finds

    def run_evaluation(self, options, inputs, docker, console):
        _, name, *words = os.fsdecode(inputs.dockerfile).split()
        earlier = sum(call.split()[0] == name for call in self.calls)
        word, _, suspect = ["passed", *words][min(earlier + 1, len(words))].partition(":")
        self.calls.append(f"{name} --no-cache" if "--no-cache" in options.build_options else name)
        self.options[name] = options
        self.docker, self.console = docker, console
        word = self.during.get(name, str)() or word
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
        report["error"] = report["error"] and {**report["error"], **self.error}
        return report

    def host_fault(self, workspace, options):
        self.experiments.append("host")
        return self.fault

    def registry_problem(self, workspace, options, registry):
        self.experiments.append(registry)
        return str(self.fault or "")


@pytest.fixture
def stub(monkeypatch):
    stub = Stub()
    for name in ("run_evaluation", "host_fault", "registry_problem"):
        monkeypatch.setattr(de, name, getattr(stub, name))
    for name in ("begin", "end"):
        monkeypatch.setattr(de.Workspace, name, lambda _: [])
    monkeypatch.setattr(ea, "TICK", 0.02)
    monkeypatch.setattr(de, "engine_facts", lambda _: {"engine_cpus": stub.cpus})
    monkeypatch.setattr(de.Docker, "connect", lambda docker, *_: docker.check_interrupt())
    return stub


# Which Dockerfiles there are


def test_each_rubric_is_read_once():
    tree("m/app, n/app")

    with mock.patch.object(de, "read_rubric", wraps=de.read_rubric) as read_rubric:
        run("--list")

    assert read_rubric.call_count == 1


@pytest.mark.parametrize(
    ("files", "layout"),
    [
        ("m/app/Dockerfile n/1/lib/Dockerfile", "{model}/{repo}/Dockerfile"),
        ("m/app.Dockerfile", "{model}/{repo}.Dockerfile"),
        ("m/Dockerfile.app m/Dockerfile.none", "{model}/Dockerfile.{repo}"),
        ("app/Dockerfile lib/Dockerfile", "{repo}/Dockerfile"),
        ("app.dockerfile", "{repo}.dockerfile"),
        ("app.Dockerfile lib.Dockerfile", "{repo}.Dockerfile"),
        ("Dockerfile.app", "Dockerfile.{repo}"),
        ("m/app.Dockerfile m/app/Dockerfile", ""),
        ("m/app/my-Dockerfile", ""),
        ("m/app/docker/Dockerfile", ""),  # There is no rubric for "docker".
    ],
)
def test_what_no_layout_matches_is_named_at_the_end_with_a_layout_for_it(stub, files, layout):
    """Transcripts show that it is named at the beginning, too."""
    script = f"""
        mkdir rubrics; touch rubrics/app.json rubrics/lib.json
        for file in {files}; do install -D /dev/null artifacts/$file; done
    """
    subprocess.check_call(["sh", "-ec", script])
    places = [f"artifacts/{file}" for file in files.split()]

    out = run()[1]

    advice = f" (use --layout='{layout}')" * bool(layout)
    assert out.splitlines()[-1] == f"not matched by any --layout: {de.quoted(places)}{advice}"
    assert not layout or "not matched" not in run(f"--layout={layout}")[1]


def test_what_is_beside_the_dockerfile_of_an_answer_is_not_named():
    tree("m/a")
    script = "cd artifacts/m; mkdir -p a/docker; mv a.dockerfile a/Dockerfile"
    subprocess.check_call(["sh", "-ec", f"{script}; touch a/Dockerfile.dev a/docker/Dockerfile"])

    code, out, _ = run("--list --layout {model}/{repo}/Dockerfile")

    assert (code, out.count("Dockerfile.dev")) == (0, 0)


# Two rounds

# How evaluations end: the part of the points, -1 without a score, -2 without a report.
ENDS = {
    1: "passed heard:network",
    0.5: "failed failed:network failed:emulation late nostart fetched:network fetched:gone",
    0: "build build_timeout",
    -1: "engine registry usage",
    -2: "crash",
}
SHARES = {word: share for share, words in ENDS.items() for word in words.split()}
FINAL = ("passed", "failed", "usage", "fetched:gone", "failed:emulation", "heard:network")


@pytest.mark.parametrize("second", ["passed", "late", "build", "engine", "crash"])
@pytest.mark.parametrize("first", SHARES)
def test_second_round_repeats_what_is_doubtful_and_the_better_report_stays(stub, first, second):
    tree(f"m/a: {first} {second}")
    attempts = [first] if first in FINAL else [first, second]
    stays = max(reversed(attempts), key=SHARES.get)
    is_retry = SHARES[first] >= 0 and first not in FINAL
    is_second = is_retry and SHARES[second] >= SHARES[first]
    is_done = is_retry and second != "crash"  # without a report the next start retries it
    other = SHARES[first if is_second else second] if is_retry else -2

    code = run()[0]

    # The cache may have what failed. After a crash there is no report that says so.
    calls = ["m/a", "m/a" if first == "crash" else "m/a --no-cache"]
    assert stub.calls == calls[: len(attempts)]
    assert code == int(SHARES[stays] < 0)
    if stays == "crash":
        assert scores() == {}
    else:
        status = STATUSES.get(stays.partition(":")[0])
        words = " ".join(sorted({"passed", status})) if status else stays
        assert facts_of("m/a") == (words, (is_done, is_second), other, 0)


def facts_of(place):
    """Return the outcome, flags, part of the points of the other attempt, and marks of a report."""
    report = de.read_report(f"reports/{place}.json")
    schema("report").validate(report)
    marks = str([report["error"], *report["test_results"]]).count(ea.REFERENCE)
    flags = (report["repeated"], report["is_second_try"])
    other = report["other_attempt"]
    return outcome(report), flags, ea.share_of(other) if other else -2, marks


def test_run_that_is_interrupted_anywhere_ends_like_one_that_is_not(stub):
    """It is started again."""
    tree("a/x: build passed, b/x: late build, c/x: engine passed, d/x: crash passed")
    tree("ref/x: passed build, ref/y")
    run("--reference ref")
    whole = {place: facts_of(place) for place in scores()}

    def interrupt_the_nth():
        if next(calls) == nth:
            stub.calls.pop()  # Its words are those of the next start.
            os.kill(os.getpid(), signal.SIGINT)
            return "interrupted"
        return None

    stub.during = dict.fromkeys(whole, interrupt_the_nth)
    for nth in range(1, 1 + len(stub.calls)):
        shutil.rmtree("reports")
        stub.calls.clear()
        calls = itertools.count(1)

        codes = [run("--reference ref")[0] for _ in range(2)]

        assert codes == [130, 0], nth
        assert {place: facts_of(place) for place in scores()} == whole, nth


# How a build ends, and how often it is tried
REPEATED = """
build -> 1
    error: {"certain": true}
build -> 1
    error: {"exit_code": 126}
build -> 1
    error: {"exit_code": 127}
build -> 2
    error: {"exit_code": 1}
build -> 2
    error: {"exit_code": null}
# The program may be missing because a download failed, but not because it was withdrawn.
build:network -> 2
    error: {"exit_code": 127}
build:gone -> 1
    error: {"exit_code": 127}
"""


@table(REPEATED, error={})
def test_failed_build_is_only_repeated_if_that_can_change_it(stub, row):
    stub.error = row.error
    tree(f"m/a: {row.when}, ref/a")

    run("--reference ref")

    tries = int(row.then)
    assert stub.calls == ["ref/a", "m/a", *["ref/a --no-cache", "m/a --no-cache"][: 2 * tries - 2]]


def test_build_that_would_fail_at_any_time_is_not_repeated(fake):
    tree({"m/a": "FROM x\nCOPY missing /"})

    run()

    assert fake.count("build") == 1


SHARE = '"total_score": 1,'
WRONG = ["NaN", "Infinity", "1e300", "-1", '"1"', "[1]", "1" * 400]
DAMAGED = [(SHARE, f'"total_score": {share},') for share in WRONG]
DAMAGED += [('"error"', '"other"'), ('"test_results"', '"other"')]


@pytest.mark.parametrize(("old", "new"), DAMAGED)
def test_report_whose_score_is_wrong_or_that_lacks_a_part_does_not_count(stub, old, new):
    tree({"m/a": "failed"})
    run()
    report = Path("reports/m/a.json")
    before = report.read_text()
    report.write_text(before.replace(old, new))

    code, out, _ = run()

    assert old in before
    assert "m: mean score 50.0% of 1 Dockerfile\n" in out
    assert (code, scores()) == (0, {"m/a": 0.5})


@pytest.mark.parametrize("word", ["engine", "crash"])
def test_score_for_other_inputs_is_set_aside_if_there_is_no_new_one(stub, word):
    """It would count for the new Dockerfile."""
    tree("m/a")
    run()
    tree(f"m/a: {word}")

    run()

    assert scores().get("m/a") != 1
    assert '"total_score": 2' in Path("reports/m/a.json.previous").read_text()


REFUSED = {  # what happens during an evaluation
    "the files have changed, or differ on the worker": lambda: tree("m/a: ENV x=y"),
    "cannot write: Is a directory": lambda: os.makedirs("reports/m/a.json"),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_report_for_other_files_or_that_cannot_be_written_is_no_score(stub, problem):
    """A Dask worker may have other files."""
    tree("m/a")
    stub.during["m/a"] = REFUSED[problem]

    out = run("--no-repeat")[1]

    assert f"no score: {problem}: 'm/a'\n" in out
    assert scores() == {}


def test_report_that_cannot_be_read_at_its_retry_stays_if_it_has_more_points(stub, monkeypatch):
    """A file server may fail for a moment."""
    tree("m/a: late build")
    run("--no-repeat")
    reports = iter([de.read_report("reports/m/a.json")])  # when the program starts, and no more
    monkeypatch.setattr(de, "read_report", lambda _: next(reports, None))

    out = run()[1]

    assert "no report: cannot read the earlier report: reports/m/a.json" in out
    assert scores() == {"m/a": 0.5}


# What ends how: at first, in a second round (b and c have none), and with --again; and then: part
# of the points, whether it was repeated, whether that is the second try, that of the other one.
SUSPICIOUS = {
    "m/a: build:network build:network passed": (1, (True, True), 0),
    "m/b: failed:gone passed": (1, (True, True), 0.5),
    "m/c: fetched:emulation build": (0.5, (True, False), 0),
    # The other attempt of a second try is always the first one.
    "m/d: build fetched:disk fetched:disk": (0.5, (True, True), 0),
    "m/d2: late fetched:disk build": (0.5, (True, True), 0.5),
}


def test_only_what_is_suspicious_is_evaluated_again_on_request(stub):
    """Each once, without the cache, whatever was repeated before."""
    tree(", ".join(SUSPICIOUS))
    tree("m/e: build, m/f: failed, m/g: late, m/h: heard:disk")
    places = [each.partition(":")[0] for each in SUSPICIOUS]
    run()
    before = len(stub.calls)

    code, out, _ = run("--again suspicious")

    assert stub.calls[before:] == [f"{place} --no-cache" for place in places]
    found = [(scores()[place], *facts_of(place)[1:3]) for place in places]
    assert found == list(SUSPICIOUS.values())
    assert "second tries: 6, of which 3 raised the score" in out
    assert code == 0


@pytest.mark.parametrize("word", ["engine", "engine:network", "registry"])
@pytest.mark.parametrize("starts", [1, 2])
def test_what_has_no_score_is_built_without_the_cache(stub, word, starts):
    """In the second round, or at the next start. A layer may be what a broken host left."""
    tree(f"m/a: {word} passed")

    for _ in range(starts):
        run("--no-repeat" * (starts - 1))

    assert stub.calls == ["m/a", "m/a --no-cache"]


def test_answer_that_has_changed_since_it_was_scored_is_built_from_the_cache(stub):
    for word in ("passed", "failed"):
        tree(f"m/a: {word}")
        run()

    assert stub.calls == ["m/a", "m/a"]


def test_retry_because_of_the_memory_runs_alone_and_the_report_says_so(stub):
    tree("m/a: build:memory passed, m/b: late passed, m/c: build:disk passed")
    stub.cpus = 2
    run("--no-repeat")
    running, beside = [], []

    def evaluating(name):
        running.append(name)
        time.sleep(0.3)  # Others would come.
        beside.append({name, *running})
        running.remove(name)

    stub.during = {name: functools.partial(evaluating, name) for name in scores()}

    run()

    assert [names for names in beside if "m/a" in names] == [{"m/a"}]
    assert scores() == dict.fromkeys(stub.during, 1)
    reports = [de.read_report(f"reports/{name}.json") for name in sorted(stub.during)]
    assert [report["environment"]["parallel"] for report in reports] == [1, 2, 2]


# The reference


@pytest.mark.parametrize(
    "beside", ["passed", "failed", "late", "build", "engine", "registry", "crash"]
)
@pytest.mark.parametrize("first", ["passed", "late", "build", "engine"])
def test_retries_are_suspicious_if_the_reference_beside_them_has_not_all_points(
    stub, first, beside
):
    """However the reference ended before, and after them; d/x has its first score then."""
    tree("a/x: build, b/x: late, c/x: failed, d/x: engine build, e/y: build, ref/y, f/x: nostart")
    tree(f"ref/x: {first} {beside}")
    stub.cpus = 8
    stub.during["ref/x"] = lambda: time.sleep(0.05)

    run("--reference ref")

    marks = {place: facts_of(place)[3] for place in scores() if place != "ref/x"}
    is_marked = int(beside != "passed")
    retried = dict.fromkeys(["a/x", "b/x", "d/x", "f/x"], is_marked)
    assert marks == {**retried, "c/x": 0, "e/y": 0, "ref/y": 0}


def test_retry_whose_reference_is_interrupted_is_done_again(stub):
    tree("a/x: build, ref/x: passed interrupted build")
    stub.cpus = 2
    stub.during["a/x"] = lambda: "--no-cache" in str(stub.calls) and os.kill(os.getpid(), 2)
    run("--reference ref")
    stub.during.clear()

    run("--reference ref")

    assert facts_of("a/x") == ("build", (True, True), 0, 1)


def test_reference_is_evaluated_once_beside_all_retries_of_its_repository(stub):
    """Also if it is retried itself (w, v)."""
    tree("a/v: build, a/w: build, a/x: engine, b/x: build, a/y, ref/z: build")
    tree("ref/v: engine passed, ref/w: build, ref/x, ref/y")

    run("--reference ref")

    second_round = ["ref/v", "a/v", "ref/w", "a/w", "ref/x", "a/x", "b/x", "ref/z"]
    assert stub.calls[10:] == [f"{name} --no-cache" for name in second_round]


def test_report_of_a_reference_beside_retries_stays_and_its_log_tells_how_that_ended(stub):
    tree("a/x: build, ref/x: passed failed, ref/y: build")

    run("--reference ref")

    assert facts_of("ref/x") == ("passed", (False, False), -2, 0)
    assert Path("reports/ref/x.log").read_text().count("DockerfileEvaluator.py") == 2
    assert facts_of("ref/y")[3] == 0, "nothing was retried beside it"


# What an evaluation does to others


def test_whole_reports_are_not_kept_in_memory(stub):
    tree({f"m{number}/app": "" for number in range(100)})
    tracemalloc.start()

    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 5_000_000, "bytes"


def test_models_do_not_share_cache_mounts(stub):
    tree("a/x, a/y, b/x")
    run()

    ax, ay, bx = (stub.options[name].build_options for name in ("a/x", "a/y", "b/x"))
    assert ax == ay != bx


DAMAGES = {  # and what is said; a file of the user that vanished is not tried again
    "the report": (lambda: os.makedirs("reports/m/a.json"), "reports/m/a.json"),
    "the log": (lambda: os.makedirs("reports/m/a.log"), "reports/m/a.log"),
    "the folder": (lambda: Path("reports/m").write_text(""), "reports/m"),
    "the rubric": (lambda: os.unlink("rubrics/a.json"), "cannot read rubrics/a.json: No such"),
    "the Dockerfile": (
        lambda: os.unlink("artifacts/m/a.dockerfile"),
        "cannot read artifacts/m/a.dockerfile: No such",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_trouble_with_a_file_of_one_task_costs_no_other_report(stub, name):
    damage, said = DAMAGES[name]
    tree("l/0, m/a, n/b")
    stub.during["l/0"] = damage

    code, out, _ = run()

    assert sorted(scores()) == ["l/0", "n/b"]
    assert re.search(f"no score: .*{said}", out)
    assert ("second round" in out) is ("reports" in said)
    assert code == 1


@pytest.mark.parametrize("line", ["y" * 500, "é" * 5_000, "\udcff" * 300_000], ids=len)
def test_log_is_bounded_and_has_its_beginning_and_its_end(stub, line):
    tree("m/a: late late")
    lines = ["begin", *[line] * (3_000_000 // len(line)), "end"]
    stub.during["m/a"] = lambda: any(map(stub.console.line, lines))

    run()

    log = Path("reports/m/a.log").read_bytes()
    assert log.count(b"begin\n") == log.count(b"\nend\n") == log.count(b"\n[...]\n") == 2
    assert 1_490_000 < len(log) < 2_000_100, "two evaluations"


# Experiments


FAULT = de.EvaluationError(de.ENGINE, "docker cannot do it")
FAILS = "stopped: the control experiment fails, too: "
ROWS = """
# How evaluations end, what is said; which experiment is made, and whether it stops the run
engine*9 -> stopped: the control experiment fails, too: docker cannot do it
    experiment: host
engine*9 -> many engine errors, but the control experiment succ
    experiment: host
    fails: false
    stops: false
engine*2 late*1 engine*2 late*1 engine*2 -> score
    stops: false
# Three in a row for each of two at a time
engine*5 -> no score
    cpus: 2
    stops: false
# Fewer in a row than ten
registry:quay.io*9 passed*1 registry:quay.io*9 -> score
    stops: false
usage*12 -> no score
    stops: false
registry:quay.io*6 registry:ghcr.io*4 passed*9 -> too: registry quay.io: docker cannot do it
    experiment: quay.io
registry:ghcr.io*4 registry:quay.io*6 -> many registry errors, but the control experiment
    experiment: quay.io
    fails: false
    stops: false
# What lacked an image is one line, although each names another image.
registry:ghcr.io*20 -> no score: registry ghcr.io failed; see the log: 'm/00', 'm/01', 'm/02',
    experiment: ghcr.io
# None is named
registry*20 -> stopped: the control experiment fails, too: docker cannot do it
    experiment: host
crash*9 -> stopped: 3 evaluations in a row have no report: RuntimeError: the reason; start
"""


@table(ROWS, experiment="", fails=True, stops=True, cpus=1)
def test_errors_in_a_row_stop_the_run_only_if_an_experiment_fails(stub, row):
    counts = re.findall(r"(\S+)\*(\d+)", row.when)
    words = [word for word, count in counts for _ in range(int(count))]
    tree({f"m/{number:02}": word for number, word in enumerate(words)})
    stub.fault = FAULT if row.fails else None
    stub.cpus = row.cpus

    code, out, _ = run("--no-repeat")

    assert (len(stub.calls) < len(words)) is ("stopped: " in out) is row.stops
    assert row.then in out
    assert set(stub.experiments) == set(row.experiment.split())
    assert code == 1


# Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_ends_what_runs_and_the_next_start_continues(stub, number):
    """What ends with a score then keeps it."""
    tree("m/a: build, m/b: interrupted passed, m/c: deaf, m/d")
    stub.cpus = 2
    stub.during["m/c"] = lambda: os.kill(os.getpid(), number)

    code, out, _ = run()

    assert code == 128 + number
    assert scores() == {"m/a": 0, "m/c": 1}
    assert not re.search(r"\[3/4\]|second round", out)
    assert out.count("\ninterrupting the running evaluations, which clean up first\n") == 1
    assert out.endswith("\ninterrupted; start the same command again to continue\n")

    stub.during.clear()
    run()

    assert scores() == {"m/a": 0, "m/b": 1, "m/c": 1, "m/d": 1}


def test_second_interrupt_reaches_the_clean_up(stub):
    """It shortens that."""
    tree("m/a: interrupted")

    def interrupt_twice():
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGINT)
            wait_for(lambda: len(stub.docker.signals) == count)  # noqa: B023

    stub.during["m/a"] = interrupt_twice

    assert run()[0] == 130


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
    tree("m/a: build:network, m/b: build:disk, n/a: failed:network, n/b")
    tree("o/a: fetched:gone, o/b: fetched:network, o/c: heard:network")
    clock = itertools.count(10**6, step=10)
    monkeypatch.setattr(ea, "time", SimpleNamespace(monotonic=clock.__next__))

    out = run()[1]

    advice = "check them, and use --again suspicious if the host was at fault"
    listed = r"suspicious failures \((.*)\): (.*): (.*)\n"
    expected = [
        ("disk", advice, "'m/b'"),
        ("gone", "withdrawn, or never existed for this release", "'o/a'"),
        ("network", advice, "'m/a', 'n/a', 'o/b'"),
    ]
    assert re.findall(listed, out) == expected
    assert re.search(r"\[7/7\] .*, 0:\d\d:\d+ left", out)
    assert re.search(r"\[4/4\] (?!.* left)", out)
    assert re.findall(listed, run()[1]) == expected, "also of reports that are already there"


def test_names_control_no_terminal(stub):
    name = "a\x9b2J\u202e"
    tree({f"{model}/{repo}": "build" for model in ("ref", name) for repo in (name, "b")})
    Path(f"artifacts/{name}/Dockerfile").touch()

    screen = run("--reference=ref")[1] + run("--reference=none")[2] + run("--repo=none")[2]

    texts = [screen, *(file.read_text() for file in Path("reports").rglob("*.*"))]
    assert "reference fails: a\\x9b2J\\u202e 0 of 2: why" in screen
    assert "".join(texts).replace("\n", "").isprintable()


def test_line_says_what_runs_and_since_when(stub, monkeypatch):
    """Not what waits for it."""
    tree("m/a, m/b")
    monkeypatch.setattr(ea, "QUIET", 0.1)
    stub.during["m/a"] = lambda: time.sleep(0.4)

    out = run()[1]

    assert re.search(r"^running: m/a 0:00:0[01]$", out, re.MULTILINE)


def test_line_that_says_what_runs_replaces_itself_on_a_terminal(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "25")
    monkeypatch.setattr(ea, "time", SimpleNamespace(monotonic=itertools.count(100).__next__))
    screen = ea.Screen()

    for line in ("first", "second"):
        screen.line(line)
        screen.status({ea.Task("m", "long", "x"): 0, ea.CONTROL_EXPERIMENT: 1})
    screen.clear()

    shown = terminal.getvalue().replace(ea.ERASE, "<over it> ").splitlines()
    assert shown == [
        "first",
        "running: m/long 0:01:42…",
        "<over it> second",
        "running: m/long 0:01:45…",
        "<over it> \x1b[A",
    ]
