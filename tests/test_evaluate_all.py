"""artifacts/evaluate_all.py with a stub as the evaluator, and on a real engine."""

import json
import os
import signal
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import pytest
from batch import ea, has, kinds, report, run, start, start_stubbed, tree
from cases import run_command
from conftest import schema
from engine import census, wait_for

import DockerfileEvaluator as de


def names(*words):
    """Return the tasks that are found and those that are left out."""
    found, left_out = ea.find_tasks(ea.parse_arguments(words), ea.Rubrics())
    return [task.name for group in (found, *left_out.values()) for task in group]


# ---- Which Dockerfiles there are ----


def test_filters_shards_and_layouts_select_dockerfiles():
    tree({"a/app": "", "a/lib": "", "b/1/app": "", "b/1/lib": ""})
    Path("artifacts/a/Dockerfile.extra").write_text("")
    everything = ["a/app", "b/1/app", "a/lib", "b/1/lib"]
    shards = [name for part in (1, 2, 3) for name in names("--shard", f"{part}/3")]

    assert names() == everything
    assert names("--model", "a", "--model=b*", "--repo", "l?b") == ["a/lib", "b/1/lib"]
    assert sorted(shards) == sorted(everything)
    layouts = ("--layout", "{model}/Dockerfile.{repo}", "--layout=a/l{repo}.*")
    assert names(*layouts) == ["a/extra", "ib"]


def test_hidden_files_are_no_answers():
    tree({"a/app": "", "a/.hidden": ""})
    assert names() == ["a/app"]


def test_hidden_folders_have_no_answers():
    tree({"a/app": "", ".git/app": "", "a/.cache/app": ""})

    assert names() == ["a/app"]


def test_first_layout_that_matches_counts():
    tree({"a/1/app": ""})
    special = "--layout={model}/1/{repo}.dockerfile"
    general = "--layout={model}/{repo}.dockerfile"

    assert names(special, general) == ["a/app"]
    assert names(general, special) == ["a/1/app"]


def test_each_folder_is_visited_once_by_its_own_path():
    tree({"a/app": "", "b/app": "", "../elsewhere/app": ""})
    os.symlink("../b", "artifacts/a/x")
    os.symlink("../a", "artifacts/b/y")
    os.symlink("..", "artifacts/a/up")
    os.symlink("../elsewhere", "artifacts/linked")
    assert names() == ["a/app", "b/app", "linked/app"]


def test_what_cannot_be_evaluated_is_left_out_with_the_reason(monkeypatch):
    tree({"a/app": "", "a/bad": "", "a/bare": "", "a/none": "", "b/app": "", "c/app": ""})
    os.unlink("rubrics/none.json")
    Path("rubrics/bad.json").write_text('{"tests": [{"type": "run_comand", "params": {}}]}')
    for folder in ("checkouts/app", "checkouts/bad", "checkouts/none", "reports/c"):
        os.makedirs(folder)
    os.symlink("c", "reports/b")
    monkeypatch.setenv("PATH", "/nowhere")  # --list needs no docker

    code, out, _ = run("--list")

    assert code == 1
    assert "left out: 2 Dockerfiles would write reports/b/app.json\n  artifacts/b/app" in out
    assert "did you mean 'run_command'?)\n  artifacts/a/bad.dockerfile\n" in out
    assert "the folder checkouts/bare does not exist\n  artifacts/a/bare.dockerfile\n" in out
    assert "No such file or directory\n  artifacts/a/none.dockerfile\n" in out


def test_dockerfile_of_the_repository_itself_is_not_left_out(monkeypatch):
    """In a checkout below the artifacts, and in the folder of an answer."""
    tree({"m/app": ""})
    for folder in ("m/app", "m/app/docker", "checkouts/app/docker"):
        os.makedirs(f"artifacts/{folder}")
        Path(f"artifacts/{folder}/Dockerfile").write_text("FROM x")
    words = ("--layout", "{model}/{repo}/Dockerfile", "--checkouts", "artifacts/checkouts")
    code, out, _ = run("--list", *words)
    assert code == 0
    assert "left out" not in out


def test_ignore_file_of_a_dockerfile_is_no_answer():
    tree({"m/app": ""})
    for name in ("Dockerfile.app", "Dockerfile.app.dockerignore"):
        Path(f"artifacts/m/{name}").write_text("FROM x")
    code, out, _ = run("--list", "--layout", "{model}/Dockerfile.{repo}")
    assert code == 0
    assert "left out" not in out


def test_answer_without_a_rubric_beside_other_answers_is_left_out():
    tree({"m/app": ""})
    for repo in ("app", "lib"):
        os.makedirs(f"artifacts/m/{repo}")
        Path(f"artifacts/m/{repo}/Dockerfile").write_text("FROM x")
    code, out, _ = run("--list", "--layout", "{model}/{repo}/Dockerfile")
    assert code == 1
    assert "  artifacts/m/lib/Dockerfile\n" in out


def test_each_rubric_is_read_once(stub, monkeypatch):
    reads = []
    read_file = de.read_file
    monkeypatch.setattr(de, "read_file", lambda path: reads.append(path) or read_file(path))
    tree({f"m{number}/app": "" for number in range(5)})
    assert run()[0] == 0
    assert run()[0] == 0
    assert reads.count("rubrics/app.json") == 2  # in two runs


def test_overlay_is_the_folder_of_the_dockerfile(stub):
    tree({"m/app": ""})
    os.makedirs("artifacts/m/app")
    Path("artifacts/m/app/Dockerfile").write_text("# m/app\n")
    os.makedirs("checkouts/app")
    assert run("--layout", "{model}/{repo}/Dockerfile", "--overlay")[0] == 0
    arguments = json.loads(Path("arguments").read_text())
    assert "--overlay=artifacts/m/app" in arguments
    assert "--context=checkouts/app" in arguments
    assert report("m/app")["environment"]["overlay"] == "artifacts/m/app"


@pytest.mark.parametrize(
    ("words", "context"),
    [
        ((), "checkouts/app"),
        (("--checkouts", "other"), "other/app"),
        (("--checkouts", ""), "artifacts/m"),
    ],
    ids=["default", "given", "none"],
)
def test_build_context_is_the_checkout_or_the_folder_of_the_dockerfile(stub, words, context):
    tree({"m/app": ""})
    for folder in ("checkouts/app", "other/app"):
        os.makedirs(folder)
    assert run(*words)[0] == 0
    assert report("m/app")["environment"]["context"] == context


# ---- What is printed ----


def test_tree_is_evaluated_by_repository_and_resumed(stub):
    tree({"gpt/app": "", "o3/1/app": "FAIL", "o3/1/lib": ""})
    code, out, _ = run("--parallel", "1")
    assert code == 0
    assert stub() == ["gpt/app", "o3/1/app", "o3/1/lib", "o3/1/app --no-cache"]
    assert out.splitlines() == [
        "gpt: 1 Dockerfiles, 0 resumed",
        "o3/1: 2 Dockerfiles, 0 resumed",
        "[1/3] gpt/app: 1 of 1 tests, 100.0% (build 0 s, tests 0 s)",
        "[1/3] o3/1/app: build failed: why, to be repeated",
        "[2/3] o3/1/lib: 1 of 1 tests, 100.0% (build 0 s, tests 0 s)",
        "[3/3] o3/1/app: build failed: why",
        "3 of 3 Dockerfiles have a score, 1 of these a failed build",
        "gpt: mean score 100.0% of 1 reports",
        "o3/1: mean score 50.0% of 2 reports",
    ]
    assert "o3/1: 2 Dockerfiles, 2 resumed\n" in run()[1]
    assert stub() == []


def test_log_is_beside_the_report(stub):
    tree({"m/app": ""})
    run()
    assert has("reports/m/app.log", "the log\n")


def test_longest_evaluation_is_named_after_a_minute_of_silence(monkeypatch, capsys):
    progress = ea.Progress(total=4, failed=1)
    progress.done = 1
    now = time.monotonic()
    monkeypatch.setattr(ea.time, "monotonic", lambda: now + 90)
    progress.show((now, "m/app"))
    words = "1/4, 1 failed builds, 0:04:30 left; m/app has been running for 0:01:30\n"
    assert capsys.readouterr().out == words
    progress.show((now, "m/app"))
    assert capsys.readouterr().out == ""


def test_progress_counts_the_failed_builds_that_are_left(stub, monkeypatch):
    counts = []
    monkeypatch.setattr(ea.Progress, "show", lambda progress, _: counts.append(progress.failed))
    tree({"m/a": "FAIL", "m/b": "FAIL ONCE", "m/c": ""})

    run("--parallel", "1")

    assert max(counts) == 2
    assert counts[-1] == 1, "the repetition of one has worked"


def test_progress_counts_the_failed_builds_of_earlier_starts(stub, monkeypatch):
    tree({"m/a": "FAIL", "m/b": "", "m/c": ""})
    run()
    counts = []
    monkeypatch.setattr(ea.Progress, "show", lambda progress, _: counts.append(progress.failed))
    tree({"m/d": ""})

    run()

    assert set(counts) == {1}


def test_progress_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(ea.sys.stdout, "isatty", lambda: True, raising=False)
    progress = ea.Progress(total=4, failed=1)
    progress.ended("m/a", "why", is_done=False)
    progress.ended("m/b", "why", is_done=True)
    capsys.readouterr()
    progress.show(None)
    bar = capsys.readouterr().out
    assert bar.startswith("\r\x1b[K[#####...............] 1/4, 1 failed builds, 0:00:0")


def test_run_goes_on_without_a_reader_of_its_output(stub):
    """After `| head -1`, or when the terminal is closed."""
    tree({"m/a": "", "m/b": "FAIL"})
    with start_stubbed() as process:
        process.stdout.close()
        process.wait(timeout=60)
    assert process.returncode == 0
    assert kinds() == {"m/a": "", "m/b": "build"}


# ---- What follows a result ----

NO_SCORE_KINDS = {"ENGINE": "engine", "REGISTRY": "registry", "OTHERS": "interrupted"}


@pytest.mark.parametrize("word", ["FAIL", "SLOW", "LATE", "NOSTART"])
def test_doubtful_score_is_repeated_once_without_cache(stub, word):
    tree({"m/app": word})
    assert run()[0] == 0
    assert stub() == ["m/app", "m/app --no-cache"]
    assert report("m/app")["repeated"] is True
    assert run()[0] == 0
    assert stub() == []


def test_repetition_counts(stub):
    tree({"m/app": "FAIL ONCE"})
    assert run()[0] == 0
    assert kinds() == {"m/app": ""}


def test_repetitions_run_after_all_others(stub):
    tree({"m/a": "FAIL", "m/b": "", "m/c": ""})
    run("--parallel", "1")
    assert stub() == ["m/a", "m/b", "m/c", "m/a --no-cache"]


def test_repetition_without_an_image_takes_nothing_away(stub):
    tree({"m/app": "LATE THEN FAIL"})
    code, out, _ = run()
    assert code == 0
    assert stub() == ["m/app", "m/app --no-cache"]
    assert kinds() == {"m/app": ""}
    assert "not repeated: build failed: why: m/app\n" in out


def test_repetition_that_ends_in_an_error_takes_nothing_away(stub):
    tree({"m/app": "FAIL THEN REGISTRY"})
    code, out, _ = run()
    assert code == 0
    assert stub() == ["m/app", "m/app --no-cache", "m/app --no-cache"]
    assert kinds() == {"m/app": "build"}
    assert "not repeated: registry error: why: m/app\n" in out


@pytest.mark.parametrize("word", NO_SCORE_KINDS)
def test_error_that_may_pass_is_retried_once_at_the_end(stub, word):
    tree({"m/a": word, "m/b": ""})
    code, out, _ = run("--parallel", "1")
    assert code == 1
    assert stub() == ["m/a", "m/b", "m/a"]
    assert kinds() == {"m/a": NO_SCORE_KINDS[word], "m/b": ""}
    assert f"m/a: {NO_SCORE_KINDS[word]} error: why, to be tried again\n" in out
    assert f"no score: {NO_SCORE_KINDS[word]} error: why: m/a\n" in out


def test_usage_error_is_not_retried(stub):
    tree({"m/app": "USAGE"})
    assert run()[0] == 1
    assert stub() == ["m/app"]
    assert kinds() == {"m/app": "usage"}


def test_evaluator_without_a_report_is_an_engine_error(stub):
    tree({"m/app": "CRASH"})
    code, out, _ = run()
    assert code == 1
    assert stub() == ["m/app", "m/app"]
    assert "no score: engine error: no report, exit code 1: the reason: m/app\n" in out


def test_no_repeat(stub):
    tree({"m/a": "FAIL", "m/b": "REGISTRY"})
    run("--no-repeat", "--parallel", "1")
    assert stub() == ["m/a", "m/b", "m/b"]  # an error is retried all the same


def report_with(status="passed", *, image_starts=True):
    """Return as much of a report as a decision needs."""
    environment = {"image_starts": image_starts}
    return {"test_results": [{"status": status}], "environment": environment}


REPORT = report_with()
ENDS = {
    "a score": ea.Result("", report=REPORT),
    "a timeout": ea.Result("", report=report_with("timeout")),
    "an image that does not start": ea.Result("", report=report_with(image_starts=False)),
    "a failed build": ea.Result("build", report=REPORT),
    "a dead engine": ea.Result("engine", report=REPORT, engine_failed=True, address="tcp://x"),
    "another engine error": ea.Result("engine", report=REPORT),
    "a registry error": ea.Result("registry", report=REPORT),
    "a usage error": ea.Result("usage", report=REPORT),
    "no report": ea.Result("engine"),
    "a file that cannot be read": ea.Result("input"),
}
BUILT = ea.Score(0.5, has_image=True)
NOT_BUILT = ea.Score(0.0, has_image=False)
JOBS = {
    "the first": ea.Job("task"),
    "a retry": ea.Job("task", is_retry=True),
    "a retry on another engine": ea.Job("task", is_retry=True, avoided="tcp://x"),
    "a repetition": ea.Job("task", is_repetition=True),
    "a retried repetition": ea.Job("task", is_repetition=True, is_retry=True),
    "nothing": None,
}


class Row(NamedTuple):
    """An evaluation, what it ended with, and what follows."""

    job: str
    ends_with: str
    earlier: object = None  # the score that is there
    is_written: bool = True
    then: str = "nothing"
    engine_failures: str = ea.END

    def __str__(self):
        there = {BUILT: ", a score is there", NOT_BUILT: ", a failed build is there"}
        return f"{self.job} ends with {self.ends_with}{there.get(self.earlier, '')}"


DECISIONS = [
    # Scores
    Row("the first", "a score"),
    Row("a repetition", "a score", earlier=BUILT),
    Row("the first", "a timeout", then="a repetition"),
    Row("a retry", "a timeout", then="a repetition"),
    Row("a repetition", "a timeout", earlier=BUILT),
    Row("the first", "an image that does not start", then="a repetition"),
    Row("the first", "a failed build", then="a repetition"),
    Row("the first", "a failed build", earlier=BUILT, then="a repetition"),
    Row("a repetition", "a failed build", earlier=NOT_BUILT),
    Row("a repetition", "a failed build", earlier=BUILT, is_written=False),
    # The engine
    Row(
        "the first",
        "a dead engine",
        then="a retry on another engine",
        engine_failures=ea.COUNT,
    ),
    Row("a retry", "a dead engine", engine_failures=ea.COUNT),
    Row(
        "the first",
        "a dead engine",
        earlier=BUILT,
        is_written=False,
        then="a retry on another engine",
        engine_failures=ea.COUNT,
    ),
    Row("the first", "another engine error", then="a retry"),
    # Other ends without a score
    Row("the first", "a registry error", then="a retry"),
    Row("a retry", "a registry error", earlier=NOT_BUILT, is_written=False),
    Row(
        "a repetition",
        "a registry error",
        earlier=BUILT,
        is_written=False,
        then="a retried repetition",
    ),
    Row("the first", "a usage error"),
    Row("the first", "no report", then="a retry", engine_failures=ea.STAY),
    Row(
        "the first",
        "no report",
        earlier=BUILT,
        is_written=False,
        then="a retry",
        engine_failures=ea.STAY,
    ),
    Row("the first", "a file that cannot be read", engine_failures=ea.STAY),
    Row(
        "a repetition",
        "a file that cannot be read",
        earlier=BUILT,
        is_written=False,
        engine_failures=ea.STAY,
    ),
]


@pytest.mark.parametrize("row", DECISIONS, ids=str)
def test_what_follows_a_result(row):
    decision = ea.decide(ENDS[row.ends_with], JOBS[row.job], row.earlier, repeats=True)
    assert decision.is_written == row.is_written
    assert decision.next_job == JOBS[row.then]
    assert decision.engine_failures == row.engine_failures


@pytest.mark.parametrize(
    ("points", "of", "part"), [(3, 4, 0.75), (4, 4, 1), (0, 0, 0)], ids=["some", "all", "none"]
)
def test_score_is_a_part_of_the_points(points, of, part):
    summary = {"total_score": points, "max_score": of}

    score = ea.score_of({**REPORT, "summary": summary, "error": None})

    assert score.part == part


def test_without_repetitions_nothing_follows_a_failed_build():
    decision = ea.decide(ENDS["a failed build"], JOBS["the first"], None, repeats=False)
    assert decision.next_job is None


# ---- Engine failures ----


def test_engine_that_fails_three_times_in_each_thread_stops_the_run(stub):
    tree({f"m/app{number}": "DEAD" for number in range(30)})
    code, out, _ = run("--parallel", "2")
    assert code == 1
    assert (
        "the last 6 evaluations ended in engine errors: the running evaluations clean up\n" in out
    )
    assert 6 <= len(stub()) <= 8


@pytest.mark.parametrize("word", ["ENGINE", "REGISTRY", "USAGE"])
def test_errors_that_may_have_to_do_with_the_dockerfile_do_not_stop_a_run(stub, word):
    tree({f"m/app{number}": word for number in range(8)})
    out = run("--parallel", "1")[1]
    assert "in engine errors" not in out
    assert "0 of 8 Dockerfiles have a score" in out


def test_result_between_engine_failures_ends_their_row(stub):
    words = ["DEAD", "DEAD", "", "DEAD", ""]
    tree({f"m/app{number}": word for number, word in enumerate(words)})
    assert "in engine errors" not in run("--parallel", "1")[1]


def test_row_of_engine_failures_begins_again_after_a_result(stub):
    words = ["DEAD", "DEAD", "", "DEAD", "DEAD", "DEAD", "", ""]
    tree({f"m/app{number}": word for number, word in enumerate(words)})

    assert "the last 3 evaluations ended in engine errors" in run("--parallel", "1")[1]
    assert len(stub()) < len(words), "it goes on until the retries at the end"


class OneDeadEngine:
    """A worker whose first evaluation shows that its engine is dead; the others have ended."""

    parallel = 2
    max_failures = 1

    def __init__(self, report):
        dead = ea.Result("engine", "why", engine_failed=True)
        self._results = iter([dead, ea.Result("", report=report)])

    def submit(self, job, options, rubric):
        future = Future()
        future.set_result(next(self._results))
        return future

    def interrupt(self):
        return True

    def retire(self, address):
        return False

    def longest(self):
        return None


def test_score_that_comes_after_the_stop_is_kept(stub):
    tree({"m/a": "", "m/b": ""})
    run()
    scored = report("m/b")
    for file in Path("reports/m").iterdir():
        file.unlink()
    tasks, _ = ea.find_tasks(ea.parse_arguments([]), ea.Rubrics())
    jobs = [ea.Job(task) for task in tasks]
    coordinator = ea.Coordinator(ea.parse_arguments([]), jobs, {}, ea.Rubrics())

    coordinator.run(OneDeadEngine(scored))

    assert coordinator.stop_reason == "the last 1 evaluations ended in engine errors"
    assert kinds() == {"m/b": ""}


def test_report_has_the_letters_of_any_language(stub):
    tree({"münchen/app": ""})
    run()

    text = Path("reports/münchen/app.json").read_text(encoding="utf-8")

    assert '"dockerfile": "artifacts/münchen/app.dockerfile"' in text


# ---- Files of one task ----


def test_rubric_that_vanishes_in_the_middle_ends_nothing(stub):
    """It is named, and is no engine error."""
    tree({f"m{number}/a": "" for number in range(8)})
    tree({f"m{number}/b": "" for number in range(8)})

    def remove():
        wait_for(lambda: has("calls", "m0/a"))
        os.unlink("rubrics/a.json")

    thread = threading.Thread(target=remove)
    thread.start()
    code, out, _ = run("--parallel", "1")
    thread.join()

    assert code == 1
    assert "no score: input error: cannot read rubrics/a.json: No such file or directory: m" in out
    assert len([name for name in kinds() if name.endswith("/b")]) == 8


@pytest.mark.parametrize("place", ["reports/m/b.json", "reports/m/b.log"])
def test_report_or_log_that_cannot_be_written_ends_nothing(stub, place):
    tree({"m/a": "", "m/b": "", "m/c": ""})
    os.makedirs(place)
    code, out, _ = run("--parallel", "1")
    assert code == 1
    assert "2 of 3 Dockerfiles have a score" in out
    assert f"no score: output error: {place}: cannot write: Is a directory: m/b\n" in out


def test_full_disk_stops_the_run(stub, monkeypatch):
    tree({f"m/app{number}": "" for number in range(40)})

    def write_file(path, text, *, append=False):
        raise de.EvaluationError(f"{path}: cannot write: No space left on device", "output")

    monkeypatch.setattr(de, "write_file", write_file)
    code, out, _ = run("--parallel", "1")
    assert code == 1
    assert "the last 20 reports could not be written: the running evaluations clean up\n" in out
    assert 20 <= len(stub()) < 40


def test_reports_that_cannot_be_written_now_and_then_do_not_stop_the_run(stub, monkeypatch):
    tree({f"m/app{number}": "" for number in range(60)})
    write_file = de.write_file
    calls = []

    def write_each_fourth(path, text, *, append=False):
        calls.append(path)
        if len(calls) % 4:
            raise de.EvaluationError(f"{path}: cannot write: No space left on device", "output")
        write_file(path, text, append=append)

    monkeypatch.setattr(de, "write_file", write_each_fourth)
    out = run("--parallel", "1")[1]

    assert "could not be written: the running evaluations clean up" not in out
    assert len(stub()) == 60


def test_folder_of_reports_that_cannot_be_made_ends_nothing(stub):
    tree({"m/a": "", "n/a": ""})
    os.makedirs("reports")
    Path("reports/m").write_text("")
    code, out, _ = run()
    assert code == 1
    assert "no score: output error: reports/m: cannot write: File exists: m/a\n" in out
    assert has("reports/n/a.json", "total_score")


# ---- Resume ----


REPORTS = {
    "deep": "[" * 200_000,
    "infinite": '{"summary": 1e999}',
    "long number": "1" * 400,
    "no object": "[]",
    "empty": "",
}


@pytest.mark.parametrize("name", REPORTS)
def test_broken_report_is_evaluated_again(stub, name):
    tree({"m/app": ""})
    os.makedirs("reports/m")
    Path("reports/m/app.json").write_text(REPORTS[name])
    assert run()[0] == 0
    assert stub() == ["m/app"]
    assert kinds() == {"m/app": ""}


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["fifo", "zero"]
)
def test_what_is_no_regular_file_is_no_report(stub, make):
    tree({"m/app": ""})
    os.makedirs("reports/m")
    make("reports/m/app.json")
    code, out, _ = run("--list")
    assert code == 0
    assert "m: 1 Dockerfiles, 0 resumed\n" in out


CHANGES = {
    "another version": lambda report: report["environment"].update(evaluator_version="2.0.0"),
    "an unknown kind": lambda report: report.update(error={"kind": []}),
    "other options": lambda report: report["environment"].update(run_options=["--init"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_report_of_other_conditions_is_evaluated_again(stub, name):
    tree({"m/app": ""})
    run()
    stub()
    content = report("m/app")
    CHANGES[name](content)
    Path("reports/m/app.json").write_text(json.dumps(content))
    assert run()[0] == 0
    assert stub() == ["m/app"]


def test_changed_dockerfile_is_evaluated_again(stub):
    tree({"m/app": "", "m/lib": ""})
    run()
    stub()
    tree({"m/app": "ENV x=y"})
    assert run()[0] == 0
    assert stub() == ["m/app"]


def test_score_of_another_dockerfile_is_set_aside_if_there_is_no_new_one(stub):
    """It would count for the new Dockerfile."""
    tree({"m/app": ""})
    run()
    tree({"m/app": "CRASH"})
    assert run()[0] == 1
    assert kinds() == {}
    assert has("reports/m/app.json.previous", "total_score")


@pytest.mark.parametrize("word", ["FAIL", "SLOW", "LATE", "NOSTART"])
def test_repetition_that_was_not_made_is_due_at_the_next_start(stub, word):
    tree({"m/app": word})
    run("--no-repeat")
    stub()

    code = run()[0]

    assert code == 0
    assert stub() == ["m/app --no-cache"]


def test_repetition_without_an_image_is_made_again_at_each_start(stub):
    tree({"m/app": "LATE THEN FAIL"})
    run()
    stub()

    run()

    assert stub() == ["m/app --no-cache"]


def test_retry_failed_evaluates_failed_builds_again(stub):
    tree({"m/app": "FAIL", "m/lib": ""})
    run()
    stub()
    assert run("--retry-failed")[0] == 0
    assert stub() == ["m/app", "m/app --no-cache"]


def test_retry_failed_keeps_the_old_report_if_there_is_no_new_one(stub):
    tree({"m/app": "FAIL"})
    run()
    stub.engine_is_dead()
    run("--retry-failed")
    assert kinds() == {"m/app": "build"}


def test_interrupted_retry_failed_goes_on_where_it_stopped(stub):
    tree({"m/a": "FAIL", "m/b": "FAIL SLEEP"})
    Path("awake").write_text("")
    run()
    os.unlink("awake")
    stub()
    thread = interrupt_when(lambda: has("calls", "m/b"))
    assert run("--retry-failed", "--parallel", "1", "--no-repeat")[0] == 130
    thread.join()
    assert stub() == ["m/a", "m/b"]

    Path("awake").write_text("")
    out = run("--retry-failed", "--no-repeat")[1]
    assert stub() == ["m/b"]
    assert "continued since 2" in out


def test_fresh_that_lacks_a_score_is_continued(stub):
    tree({"m/a": "", "m/b": ""})
    run()
    tree({"m/b": "USAGE"})
    stub()
    assert run("--fresh")[0] == 1
    assert sorted(stub()) == ["m/a", "m/b"]
    assert run("--fresh")[0] == 1
    assert stub() == ["m/b"]


def test_fresh_evaluates_everything_again(stub):
    tree({"m/app": "", "n/app": ""})
    run()
    stub()
    assert "m: 1 Dockerfiles, 0 resumed\n" in run("--list", "--fresh")[1]
    assert run("--fresh", "--model", "m")[0] == 0
    assert stub() == ["m/app"]


def test_fresh_in_an_empty_folder(stub):
    tree({"m/app": ""})
    assert run("--fresh")[0] == 0
    assert kinds() == {"m/app": ""}
    assert os.listdir("reports") == ["m"]  # nothing tells that it goes on


def test_fresh_keeps_the_old_report_until_there_is_a_new_one(stub):
    tree({"m/app": ""})
    run()
    before = report("m/app")
    stub.engine_is_dead()
    code, out, _ = run("--fresh")
    assert code == 1
    assert report("m/app") == before
    assert "no new score, the earlier report stays: engine error: why: m/app\n" in out
    assert out.endswith("m: no new reports\n")


def interrupt_when(condition, number=signal.SIGINT, times=1):
    """Send signals to this process when a condition is true."""

    def send():
        wait_for(condition)
        for _ in range(times):
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_interrupted_fresh_run_goes_on_where_it_stopped(stub):
    tree({"m/a": "", "m/b": "SLEEP"})
    Path("awake").write_text("")
    run()
    os.unlink("awake")
    stub()
    thread = interrupt_when(lambda: has("calls", "m/b"))
    assert run("--fresh", "--parallel", "1")[0] == 130
    thread.join()
    assert stub() == ["m/a", "m/b"]

    Path("awake").write_text("")
    assert run("--fresh")[0] == 0
    assert stub() == ["m/b"]
    assert run("--fresh")[0] == 0  # the first one is complete now
    assert sorted(stub()) == ["m/a", "m/b"]


# ---- Interrupts ----


def test_evaluation_that_goes_on_is_not_interrupted(stub, monkeypatch):
    tree({"m/app": "SLEEP"})
    looks = []

    def show(progress, longest):
        looks.append(longest)
        if len(looks) == 3:
            Path("awake").write_text("")

    monkeypatch.setattr(ea, "WAKE_UP", 0.1)  # seconds
    monkeypatch.setattr(ea.Progress, "show", show)
    code = run()[0]

    assert code == 0
    assert kinds() == {"m/app": ""}
    assert not Path("interrupts").exists()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_interrupt_leaves_no_report_and_the_next_start_continues(stub, name):
    """By default two evaluations run in parallel, since the engine has two processors."""
    number = getattr(signal, name)
    tree({"m/a": "FAIL", "m/b": "SLEEP", "m/c": "SLEEP", "m/d": ""})
    thread = interrupt_when(lambda: has("calls", "m/b") and has("calls", "m/c") and kinds(), number)
    code, out, _ = run()
    thread.join()

    assert code == 128 + number
    assert kinds() == {"m/a": "build"}
    assert sorted(stub()) == ["m/a", "m/b", "m/c"]
    assert "interrupted: the running evaluations clean up\n" in out
    assert "no score: not evaluated: m/b, m/c, m/d\n" in out

    Path("awake").write_text("")
    assert run()[0] == 0
    assert sorted(stub()) == ["m/a --no-cache", "m/b", "m/c", "m/d"]


def test_evaluators_end_where_sigint_is_ignored(stub):
    """In the background of a shell script, which evaluators inherit."""
    tree({"m/app": "SLEEP"})
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with start_stubbed() as process:
        signal.signal(signal.SIGINT, handler)
        wait_for(lambda: has("calls", "m/app"))
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 143
    assert has("interrupts", "one\n")


def test_done_does_not_count_what_an_interrupt_prevents(stub):
    tree({f"m/{number}": "" for number in range(6)})
    tree({"m/1": "SLEEP"})
    thread = interrupt_when(lambda: has("calls", "m/1"))
    out = run("--parallel", "1")[1]
    thread.join()
    assert "[1/6] m/0: 1 of 1 tests" in out
    assert "[6/6]" not in out


def test_ignored_signal_stays_ignored(stub, monkeypatch):
    """After nohup."""
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    tree({"m/app": "SLEEP"})

    def send():
        wait_for(lambda: has("calls", "m/app"))
        os.kill(os.getpid(), signal.SIGHUP)
        Path("awake").write_text("")

    thread = threading.Thread(target=send)
    thread.start()
    code = run()[0]
    thread.join()
    signal.signal(signal.SIGHUP, handler)
    assert code == 0


def test_two_signals_at_once_interrupt_the_evaluations(stub):
    """The command exits immediately, and the evaluations clean up."""
    tree({"m/a": "SLEEP", "m/b": "SLEEP"})
    with start_stubbed("--parallel", "2") as process:
        wait_for(lambda: Path("calls").read_text().count("\n") == 2)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    wait_for(lambda: has("interrupts", "one\none\n"))
    assert kinds() == {}


def test_second_signal_sends_the_interrupts_before_it_exits(monkeypatch):
    events = []
    monkeypatch.setattr(ea.os, "_exit", lambda code: events.append(f"exit {code}"))
    monkeypatch.setattr(ea.signal, "signal", lambda *_: None)
    coordinator = ea.Coordinator(ea.parse_arguments([]), [], {}, ea.Rubrics())

    class Workers:
        def interrupt(self):
            events.append("interrupt")

    coordinator.workers = Workers()
    coordinator.on_signal(signal.SIGTERM, None)
    assert events == []
    coordinator.on_signal(signal.SIGTERM, None)
    assert events == ["interrupt", "exit 143"]


# ---- Options ----


def test_options_of_the_evaluator_are_passed_on(stub, tmp_path):
    tree({"m/app": ""})
    words = [
        "--build-timeout=7.0",
        "--start-timeout=8.0",
        "--jobs=3",
        f"--docker={tmp_path}/docker",
        "--offline",
        "--build-option=--network=none",
        "--run-option=--memory=1g",
        "--run-option=--cpus=2",
    ]
    assert run(*words)[0] == 0
    arguments = json.loads(Path("arguments").read_text())
    assert [word for word in words if word not in arguments] == []


def test_each_model_has_cache_mounts_of_its_own(stub):
    namespaces = set()
    for model in ("a", "b"):
        tree({f"{model}/app": ""})
        assert run("--model", model)[0] == 0
        arguments = json.loads(Path("arguments").read_text())
        namespaces |= {word for word in arguments if de.CACHE_NAMESPACE in word}
    assert len(namespaces) == 2
    assert "2 resumed" not in run("--list")[1]
    assert run("--list")[1].count("1 Dockerfiles, 1 resumed") == 2


@pytest.mark.parametrize(("processors", "expected"), [(3, 3), (64, 8)])
def test_default_of_parallel_is_the_processors_and_at_most_8(stub, processors, expected):
    stub.docker(
        f"""case "$*" in info*) echo '{{"NCPU": {processors}}}' ;; *) echo '{{}}' ;; esac"""
    )
    with ea.Threads(ea.parse_arguments([])) as workers:
        assert workers.parallel == expected


def test_engine_that_does_not_answer_is_named_before_anything_runs(stub):
    tree({"m/app": ""})
    assert run("--docker", "/nowhere/docker")[2].startswith("error: cannot start '/nowhere/docker'")
    stub.docker("echo hello")
    assert run()[2] == "error: docker info: no number of processors\n"
    assert stub() == []


def test_build_cache_is_pruned_at_the_start_and_after_each_evaluation(stub):
    tree({"m/a": "", "m/b": ""})
    run("--build-cache", "20GB")
    calls = Path("docker-calls").read_text().splitlines()
    prunes = [call for call in calls if "prune" in call]
    assert prunes == ["builder prune --force --keep-storage 20GB"] * 3


def test_no_other_prune_command_is_run(stub):
    tree({"m/a": ""})
    run()
    assert "prune" not in Path("docker-calls").read_text()


def test_refused_prune_ends_the_command_before_anything_runs(stub):
    stub.docker("""
        case "$*" in
        info*) echo '{"NCPU": 2}' ;;
        *prune*) echo refused >&2; exit 1 ;;
        *) echo '{}' ;;
        esac
    """)
    tree({"m/app": ""})
    assert run("--build-cache", "1MB")[2] == "error: docker builder prune: refused\n"
    assert stub() == []


def test_prune_that_hangs_is_ended(stub, monkeypatch):
    """Also a child of docker that holds its output open; the report has a warning."""
    hangs = "*prune*) if [ -e started ]; then sleep 600 & wait; fi; touch started; echo '{}' ;;"
    stub.docker(f"""case "$*" in info*) echo '{{"NCPU": 2}}' ;; {hangs} *) echo '{{}}' ;; esac""")
    monkeypatch.setattr(ea, "PRUNE_TIMEOUT", 0.2)
    tree({"m/app": ""})
    assert run("--build-cache", "1GB")[0] == 0
    assert report("m/app")["warnings"] == [
        "docker builder prune: `docker builder` timed out after 0 s"
    ]


# ---- On a real engine ----

EXPECTED = {"a/x": "", "a/y": "", "b/x": "", "b/y": "", "b/z": "build"}
TREE = {place: f"FROM busybox:stable\nENV N={place}\n" for place in EXPECTED}
TREE["b/z"] = "FROM busybox:stable\nCOPY missing /\n"
TESTS = (run_command("sleep 2"), run_command("test $N = a/x"))


def check_reports():
    """Check all reports and logs of TREE."""
    assert kinds() == EXPECTED
    for name, kind in EXPECTED.items():
        content = report(name)
        schema("report").validate(content)
        passed = 0 if kind else 2 if name == "a/x" else 1
        assert content["summary"]["passed_tests"] == passed
        assert content["environment"]["no_cache"] is bool(kind)
        assert has(f"reports/{name}.log", "0 of 2 tests passed" if kind else "built (")


# The legacy builder may leave an untagged image of an interrupted build.
@pytest.mark.usefixtures("buildkit")
def test_interrupted_run_on_an_engine_continues_and_leaves_nothing():
    tree(TREE, *TESTS)
    before = census()
    with start("--parallel", "2") as first:
        wait_for(lambda: os.path.exists("reports/a/x.json") and has("reports/a/y.log", "built ("))
        first.send_signal(signal.SIGINT)
        assert "interrupted: the running evaluations clean up\n" in first.communicate(timeout=60)[0]
    assert first.returncode == 130
    assert 0 < len(kinds()) < len(EXPECTED)
    assert census() == before
    for is_first in (True, False):
        with start() as process:
            out = process.communicate(timeout=120)[0]
        assert process.returncode == 0
        assert "5 of 5 Dockerfiles have a score, 1 of these a failed build\n" in out
        assert ("] b/z: build failed" in out) is is_first
        assert census() == before
    check_reports()


@pytest.mark.no_podman  # whose cache mounts have no namespaces
@pytest.mark.usefixtures("buildkit")
def test_models_have_cache_mounts_of_their_own_on_an_engine():
    dockerfile = (
        "FROM busybox:stable\nRUN --mount=type=cache,target=/c test ! -e /c/x && touch /c/x\n"
    )
    tree({"a/x": f"{dockerfile}ENV M=a\n", "b/x": f"{dockerfile}ENV M=b\n"})
    with start("--no-repeat", "--build-option=--no-cache") as process:
        out = process.communicate(timeout=120)[0]
    assert process.returncode == 0, out
    assert kinds() == {"a/x": "", "b/x": ""}
