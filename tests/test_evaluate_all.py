"""artifacts/evaluate_all.py with a stub as the evaluator, or on the fake engine."""

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
STATUSES = """
passed passed
deaf passed
heard passed
failed failed
nostart failed
fetched failed
late timeout
"""
STATUSES = dict(map(str.split, STATUSES.strip().splitlines()))


class Stub:
    """Plays the evaluator; the words of a Dockerfile say how its evaluations end, one by one.

    A word is a kind of error, build:network a suspicious zero, failed:network a suspicious test,
    fetched:network a failed test after a suspicious build, heard:network none after such a build,
    registry:quay.io its registry; "late" is a test that timed out, "nostart" an image that does not
    start, "crash" an exception.
    "interrupted" goes on until it is interrupted, "deaf" passes then. The last word counts for all
    further evaluations.
    """

    cpus = 1
    fault = None  # what an experiment finds

    def __init__(self):
        self.calls = []  # "MODEL/REPO" or "MODEL/REPO --no-cache"
        self.given = {}  # by task: options, docker and console of its last evaluation
        self.during = {}  # by task: a function to call in its evaluation, which may return a word
        self.experiments = []  # "host", or the registry whose control image was pulled

    def run_evaluation(self, options, inputs, docker, console):
        _, name, *words = inputs.dockerfile.decode().split()
        earlier = " ".join(self.calls).split().count(name)
        word, _, suspect = ["passed", *words][min(earlier + 1, len(words))].partition(":")
        self.calls.append(f"{name} --no-cache" if "--no-cache" in options.build_options else name)
        self.given[name] = (options, docker, console)
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
        return report

    def experiment(self, _workspace, _options, registry="host"):
        self.experiments.append(registry)
        return self.fault


@pytest.fixture
def stub(monkeypatch):
    stub = Stub()
    monkeypatch.setattr(ea, "TICK", 0.02)
    for name in ("begin", "end"):
        monkeypatch.setattr(de.Workspace, name, lambda _: [])
    monkeypatch.setattr(de.Docker, "connect", lambda docker, *_: docker.check_interrupt())
    with mock.patch.multiple(
        de,
        run_evaluation=stub.run_evaluation,
        host_fault=stub.experiment,
        registry_problem=stub.experiment,
        engine_facts=lambda _: {"engine_cpus": stub.cpus},
    ):
        yield stub


# Which Dockerfiles there are


def test_each_rubric_is_read_once():
    tree("m/app, n/app")

    with mock.patch.object(de, "read_rubric", wraps=de.read_rubric) as read_rubric:
        run("--list")

    assert read_rubric.call_count == 1


# Dockerfiles, and the layout for them
LAYOUTS = """
m/app/Dockerfile n/1/lib/Dockerfile -> {model}/{repo}/Dockerfile
m/app.Dockerfile -> {model}/{repo}.Dockerfile
m/Dockerfile.app m/Dockerfile.none -> {model}/Dockerfile.{repo}
app/Dockerfile lib/Dockerfile -> {repo}/Dockerfile
app.dockerfile -> {repo}.dockerfile
app.Dockerfile lib.Dockerfile -> {repo}.Dockerfile
Dockerfile.app -> Dockerfile.{repo}
m/app.Dockerfile m/app/Dockerfile -> none
m/app/my-Dockerfile -> none
# There is no rubric for "docker".
m/app/docker/Dockerfile -> none
"""


@table(LAYOUTS)
def test_what_no_layout_matches_is_named_at_the_end_with_a_layout_for_it(stub, row):
    """Transcripts show that it is named at the beginning, too."""
    script = f"""
        mkdir rubrics; touch rubrics/app.json rubrics/lib.json
        for file in {row.when}; do install -D /dev/null artifacts/$file; done
    """
    subprocess.check_call(["sh", "-ec", script])

    out = run()[1]

    files = row.when.replace(" ", "', 'artifacts/")
    advice = "" if row.then == "none" else f" (use --layout='{row.then}')"
    assert out.endswith(f"not matched by any --layout: 'artifacts/{files}'{advice}\n")
    assert not advice or "not matched" not in run(f"--layout={row.then}")[1]


def test_what_is_beside_the_dockerfile_of_an_answer_is_not_named():
    tree("m/a")
    script = "cd artifacts/m; mkdir -p a/docker; mv a.dockerfile a/Dockerfile"
    subprocess.check_call(["sh", "-ec", f"{script}; touch a/Dockerfile.dev a/docker/Dockerfile"])

    code, out, _ = run("--list --layout {model}/{repo}/Dockerfile")

    assert (code, out.count("Dockerfile.dev")) == (0, 0)


# Two rounds

# How the evaluations of a task end -> which of them there are
ROUNDS = """
passed -> m/a
    report: passed
failed passed -> m/a
    report: failed passed
usage passed -> m/a
    report: usage
    code: 1
fetched:gone passed -> m/a
    report: failed passed
failed:emulation passed -> m/a
    report: failed passed
heard:network failed -> m/a
    report: passed
build passed -> m/a, m/a --no-cache
    report: passed, second try, other 0.0
build_timeout passed -> m/a, m/a --no-cache
    report: passed, second try, other 0.0
late passed -> m/a, m/a --no-cache
    report: passed, second try, other 0.5
nostart passed -> m/a, m/a --no-cache
    report: passed, second try, other 0.5
failed:network passed -> m/a, m/a --no-cache
    report: passed, second try, other 0.5
fetched:network passed -> m/a, m/a --no-cache
    report: passed, second try, other 0.5
late failed -> m/a, m/a --no-cache
    report: failed passed, second try, other 0.5
late build -> m/a, m/a --no-cache
    report: passed timeout, repeated, other 0.0
build build -> m/a, m/a --no-cache
    report: build, second try, other 0.0
late engine -> m/a, m/a --no-cache
    report: passed timeout, repeated, other -1.0
# Without a report the next start retries it.
build crash -> m/a, m/a --no-cache
    report: build
engine passed -> m/a, m/a --no-cache
    report: passed
registry late -> m/a, m/a --no-cache
    report: passed timeout
engine registry -> m/a, m/a --no-cache
    report: registry
    code: 1
engine crash -> m/a, m/a --no-cache
    report: engine
    code: 1
# No report says that the cache may have what failed.
crash build -> m/a, m/a
    report: build
crash crash -> m/a, m/a
    code: 1
# A layer may be what a broken host left.
engine:network passed -> m/a, m/a --no-cache
    starts: ["--no-repeat", ""]
    report: passed
registry passed -> m/a, m/a --no-cache
    starts: ["--no-repeat", ""]
    report: passed
# On request, once, whatever was repeated before
build:network build:network passed -> m/a, m/a --no-cache, m/a --no-cache
    starts: ["", "--again suspicious"]
    report: passed, second try, other 0.0
failed:gone passed -> m/a, m/a --no-cache
    starts: ["", "--again suspicious"]
    report: passed, second try, other 0.5
fetched:emulation build -> m/a, m/a --no-cache
    starts: ["", "--again suspicious"]
    report: failed passed, repeated, other 0.0
# The other attempt of a second try is always the first one.
build fetched:disk fetched:disk -> m/a, m/a --no-cache, m/a --no-cache
    starts: ["", "--again suspicious"]
    report: failed passed, second try, other 0.0
late fetched:disk build -> m/a, m/a --no-cache, m/a --no-cache
    starts: ["", "--again suspicious"]
    report: failed passed, second try, other 0.5
# Nothing is suspicious.
late -> m/a, m/a --no-cache
    starts: ["", "--again suspicious"]
    report: passed timeout, second try, other 0.5
heard:disk failed -> m/a
    starts: ["", "--again suspicious"]
    report: passed
"""


@table(ROUNDS, starts=[""], report="no report", code=0)
def test_what_is_doubtful_is_evaluated_again_and_the_better_report_stays(stub, row):
    tree(f"m/a: {row.when}")

    codes = [run(words)[0] for words in row.starts]

    assert codes[-1] == row.code
    assert ", ".join(stub.calls) == row.then
    assert facts_of("m/a") == row.report


def facts_of(place):
    """Return what is in a report: its outcome, whether there was a second try, marks."""
    report = de.read_report(f"reports/{place}.json")
    if not report:
        return "no report"
    schema("report").validate(report)
    words = [outcome(report)]
    if report["repeated"]:
        other = ea.share_of(report["other_attempt"])
        words += ["second try" if report["is_second_try"] else "repeated", f"other {other}"]
    marks = str([report["error"], *report["test_results"]]).count(ea.REFERENCE)
    return ", ".join(words + ["reference"] * marks)


def facts():
    return {place: facts_of(place) for place in scores()}


def test_run_that_is_interrupted_anywhere_ends_like_one_that_is_not(stub):
    """It is started again."""
    tree("a/x: build passed, b/x: late build, c/x: engine passed, d/x: crash passed")
    tree("ref/x: passed build, ref/y")
    run("--reference ref")
    whole = facts()

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
        assert facts() == whole, nth


# What is in a report, and how many evaluations there are after the next start
EDITED = """
build -> 2
    new: "exit_code": 1
build -> 1
    new: "exit_code": 126
build -> 1
    new: "exit_code": 127
# The program may be missing because a download failed, but not because it was withdrawn.
build:network -> 2
    new: "exit_code": 127
build:gone -> 1
    new: "exit_code": 127
build -> 1
    old: "certain": false
    new: "certain": true
# A score that is wrong, or a part that is missing
failed -> 2
    old: "total_score": 1,
    new: "total_score": NaN,
failed -> 2
    old: "total_score": 1,
    new: "total_score": 1e300,
failed -> 2
    old: "total_score": 1,
    new: "total_score": -1,
failed -> 2
    old: "total_score": 1,
    new: "total_score": "1",
failed -> 2
    old: "error"
    new: "other"
failed -> 2
    old: "test_results"
    new: "other"
"""


@table(EDITED, old='"exit_code": null', new="")
def test_next_start_repeats_what_that_can_change_and_reports_that_are_wrong(stub, row):
    tree(f"m/a: {row.when}")
    run("--no-repeat")
    report = Path("reports/m/a.json")
    edited = report.read_text().replace(row.old, row.new)
    report.write_text(edited)

    code = run()[0]

    assert row.new in edited
    assert len(stub.calls) == int(row.then)
    assert (code, scores()) == (0, {"m/a": 0.5 if row.when == "failed" else 0})


@pytest.mark.parametrize("word", ["engine", "crash"])
def test_score_for_other_inputs_is_set_aside_if_there_is_no_new_one(stub, word):
    """It would count for the new Dockerfile."""
    tree("m/a")
    run()
    tree(f"m/a: {word}")

    run()

    assert scores().get("m/a") != 1
    assert '"total_score": 2' in Path("reports/m/a.json.previous").read_text()


def test_report_that_cannot_be_read_at_its_retry_stays_if_it_has_more_points(stub, monkeypatch):
    """A file server may fail for a moment."""
    tree("m/a: late build")
    run("--no-repeat")
    reports = iter([de.read_report("reports/m/a.json")])  # when the program starts, and no more
    monkeypatch.setattr(de, "read_report", lambda _: next(reports, None))

    out = run()[1]

    assert "no report: cannot read the earlier report: reports/m/a.json" in out
    assert scores() == {"m/a": 0.5}


def test_answer_that_has_changed_since_it_was_scored_is_built_from_the_cache(stub):
    for word in ("passed", "failed"):
        tree(f"m/a: {word}")
        run()

    assert stub.calls == ["m/a", "m/a"]


def test_retry_because_of_the_memory_runs_alone_and_the_report_says_so(stub):
    tree("m/a: late passed, m/b: build:memory passed, m/c: build:disk passed")
    stub.cpus = 2
    run("--no-repeat")
    ended = []

    def evaluate_alone():
        before = len(stub.calls)
        time.sleep(0.3)  # Others would begin.
        ended.append(len(stub.calls) - before)

    stub.during = {"m/a": lambda: time.sleep(0.3) or ended.append("m/a"), "m/b": evaluate_alone}

    run()

    assert ended == ["m/a", 0]
    reports = (de.read_report(f"reports/m/{repo}.json") for repo in "abc")
    assert [report["environment"]["parallel"] for report in reports] == [2, 1, 2]


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

    marked = {place for place, words in facts().items() if words.count("reference") == 1}
    assert marked - {"ref/x"} == ({"a/x", "b/x", "d/x", "f/x"} if beside != "passed" else set())


def test_retry_whose_reference_is_interrupted_is_done_again(stub):
    tree("a/x: build, ref/x: passed interrupted build")
    stub.cpus = 2

    def interrupt_the_retry():
        if "a/x --no-cache" in stub.calls:
            wait_for(lambda: "ref/x --no-cache" in stub.calls)
            os.kill(os.getpid(), signal.SIGINT)

    stub.during["a/x"] = interrupt_the_retry
    run("--reference ref")
    stub.during.clear()

    run("--reference ref")

    assert facts_of("a/x") == "build, second try, other 0.0, reference"


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

    assert facts_of("ref/x") == "passed"
    assert Path("reports/ref/x.log").read_text().count("DockerfileEvaluator.py") == 2
    assert "reference" not in facts_of("ref/y"), "nothing was retried beside it"


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

    ax, ay, bx = (stub.given[name][0].build_options for name in ("a/x", "a/y", "b/x"))
    assert ax == ay != bx


# What happens during an evaluation, and what is said
DAMAGES = """
mkdir -p reports/m/a.json -> reports/m/a.json
mkdir -p reports/m/a.log -> reports/m/a.log
touch reports/m -> reports/m
# What is the user's is not tried again.
rm rubrics/a.json -> cannot read rubrics/a.json: No such
rm artifacts/m/a.dockerfile -> cannot read artifacts/m/a.dockerfile: No such
mkdir -p reports/m/a.json -> cannot write: Is a directory
    during: m/a
# A Dask worker may have other files, too.
echo >>artifacts/m/a.dockerfile -> the files have changed, or differ on the worker
    during: m/a
"""


@table(DAMAGES, during="l/0")
def test_trouble_with_a_file_of_one_task_costs_no_other_report(stub, row):
    tree("l/0, m/a, n/b")
    stub.during[row.during] = lambda: os.system(row.when)

    code, out, _ = run()

    assert scores() == {"l/0": 1, "n/b": 1}
    assert re.search(f"no (score|report): .*{row.then}", out)
    assert ("second round" in out) is (row.when[:2] != "rm")
    assert code == 1


@pytest.mark.parametrize("line", ["y" * 500, "é" * 5_000, "\udcff" * 300_000], ids=len)
def test_log_is_bounded_and_has_its_beginning_and_its_end(stub, line):
    tree("m/a: late late")
    lines = ["begin", *[line] * (3_000_000 // len(line)), "end"]
    stub.during["m/a"] = lambda: any(map(stub.given["m/a"][2].line, lines))

    run()

    log = Path("reports/m/a.log").read_bytes()
    assert log.count(b"begin\n") == log.count(b"\nend\n") == log.count(b"\n[...]\n") == 2
    assert 1_490_000 < len(log) < 2_000_100, "two evaluations"


# Experiments


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
    words = re.sub(r"(\S+)\*(\d+)", lambda run: f"{run[1]} " * int(run[2]), row.when).split()
    tree({f"m/{number:02}": word for number, word in enumerate(words)})
    stub.fault = "docker cannot do it" * row.fails
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
            wait_for(lambda: len(stub.given["m/a"][1].signals) == count)  # noqa: B023

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


SUSPICIOUS = """
suspicious failures (disk): check them, and use --again suspicious if the host was at fault: 'm/b'
suspicious failures (gone): withdrawn, or never existed for this release: 'o/a'
suspicious failures (network): check them, and use --again suspicious if the host was at fault: \
'm/a', 'n/a', 'o/b'
"""


def test_screen_shows_what_is_suspicious_by_kind_and_the_time_left_over_both_rounds(
    stub, monkeypatch
):
    tree("m/a: build:network, m/b: build:disk, n/a: failed:network, n/b")
    tree("o/a: fetched:gone, o/b: fetched:network, o/c: heard:network")
    clock = itertools.count(10**6, step=10)
    monkeypatch.setattr(ea, "time", SimpleNamespace(monotonic=clock.__next__))

    out = run()[1]

    assert SUSPICIOUS in out
    assert re.search(r"\[7/7\] .*, 0:\d\d:\d+ left", out)
    assert re.search(r"\[4/4\] (?!.* left)", out)
    assert SUSPICIOUS in run()[1], "also of reports that are already there"


def test_names_control_no_terminal(stub):
    name = "a\x9b2J\u202e"
    tree(f"ref/{name}: build, ref/b: build, {name}/{name}: build")
    Path(f"artifacts/{name}/Dockerfile").touch()

    screen = run("--reference=ref")[1] + run("--reference=none")[2] + run("--repo=none")[2]

    texts = [file.read_text() for file in Path("reports").rglob("*.*")]
    assert "reference fails: a\\x9b2J\\u202e 0 of 2: why" in screen
    assert "".join([screen, *texts]).replace("\n", "").isprintable()


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
