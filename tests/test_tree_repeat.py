"""artifacts/evaluate_all.py: what is repeated."""

from __future__ import annotations

import json
import os

import pytest
from trees import ea, evaluations, kind, write

pytest_plugins = ["trees"]


@pytest.mark.parametrize("text", ["FAIL", "LATE"])
def test_a_doubtful_evaluation_is_repeated_once_alone_at_the_end(
    quick, project, tree, run, monkeypatch, text
):
    reports = tree({"a/app": text, "b/app": text})
    tree({f"{model}/zoo": "FROM x\n" for model in "abc"})
    starts = []
    popen = ea.Session._popen

    def watched(session, job, *words, **more):
        starts.append((job.task.place, len(session.running)))
        return popen(session, job, *words, **more)

    monkeypatch.setattr(ea.Session, "_popen", watched)
    code, out, _ = run("--parallel", "3")
    assert code == 0
    assert sorted(place for place, _ in starts[:5]) == ["a/app", "a/zoo", "b/app", "b/zoo", "c/zoo"]
    assert sorted(starts[5:]) == [("a/app", 1), ("b/app", 1)]
    assert out.count(", to be repeated at the end") == out.count(", repeated\n") == 2
    assert [evaluations(report) for report in reports] == [2, 2]
    code, out, _ = run()
    assert "evaluated 0, resumed 5, repeated 0" in out
    assert code == 0


def test_the_repetition_counts(quick, project, tree, run):
    (report,) = tree({"a/app": "FAIL ONCE"})
    code, out, _ = run()
    assert (code, kind(report)) == (0, "whole")
    assert kind(report.with_suffix(".first")) == "build"
    assert "evaluated 1, resumed 0, repeated 1, builds failed 0" in out


def test_without_repetition_nothing_is_evaluated_twice(quick, project, tree, run):
    (report,) = tree({"a/app": "FAIL"})
    assert run("--no-repeat")[0] == 0
    assert evaluations(report) == 1


def interrupted(report):
    data = json.loads(report.read_text())
    data["error"] = {"kind": "interrupted", "message": "the evaluation was interrupted"}
    report.write_text(json.dumps(data))


def without_report(report):
    report.unlink()


def with_the_first_report(report):
    report.write_bytes(report.with_suffix(".first").read_bytes())


@pytest.mark.parametrize("harm", [interrupted, without_report, with_the_first_report])
def test_an_interrupted_repetition_is_made_up_for_at_the_next_start_alone(quick, project, tree, run, harm):
    (report,) = tree({"a/app": "FAIL"})
    run()
    harm(report)
    code, out, _ = run()
    assert code == 0
    assert "evaluated 1, resumed 0, repeated 1," in out
    assert evaluations(report) == 3
    assert "evaluated 0, resumed 1, repeated 0," in run()[1]


@pytest.mark.parametrize(
    "changed", ["artifacts/a/app.dockerfile", "rubrics/app.json", "--run-option=--memory=2g"]
)
def test_what_was_repeated_with_other_files_or_options_is_repeated_again(quick, project, tree, run, changed):
    (report,) = tree({"a/app": "FAIL"})
    run()
    words = [changed] if changed.startswith("--") else []
    if not words:
        with open(changed, "a") as file:
            file.write("\n")
    code, out, _ = run(*words)
    assert code == 0
    assert "evaluated 1, resumed 0, repeated 1," in out
    assert evaluations(report) == 4
    assert "evaluated 0, resumed 1, repeated 0," in run(*words)[1]


def test_a_repetition_of_earlier_files_excuses_none(quick, project, tree, run):
    (report,) = tree({"a/app": "FAIL"})
    run()
    tree({"a/app": "x"})
    run()
    assert (kind(report), evaluations(report)) == ("whole", 3)
    tree({"a/app": "FAIL"})
    run()
    assert evaluations(report) == 5


def test_an_interrupted_repetition_is_no_excuse_for_other_options(quick, project, tree, run):
    (report,) = tree({"a/app": "FAIL"})
    run()
    interrupted(report)
    run("--run-option=--memory=2g")
    assert evaluations(report) == 4


def test_a_dockerfile_that_is_held_back_drops_no_repetition(quick, project, tree, run):
    reports = tree({"a/app0": "FAIL ONCE", "a/app1": "BREAKS"})
    code, out, _ = run("--parallel", "1")
    assert (code, [evaluations(report) for report in reports]) == (1, [2, 2])
    assert "evaluated 1, resumed 0, repeated 1, builds failed 0, left out 0, without a result 1\n" in out


def test_a_repetition_on_an_engine_that_fails_is_no_result(quick, project, tree, run, monkeypatch):
    (report,) = tree({"a/app": "FAIL"})
    note = ea.Task.note_repetition

    def then_break(task):
        note(task)
        write(project / task.dockerfile, "BREAKS")

    monkeypatch.setattr(ea.Task, "note_repetition", then_break)
    code, out, _ = run()
    assert (code, kind(report)) == (1, "engine")
    assert "builds failed 0, left out 0, without a result 1\n" in out


@pytest.mark.parametrize("words", [[], ["--fresh"]])
def test_files_in_the_way_are_named(quick, project, tree, run, words):
    reports = tree({"a/app": "x", "b/app": "x"})
    write(project / "reports" / "a", "a file")
    code, out, _ = run(*words)
    assert (code, evaluations(reports[1])) == (1, 1)
    assert "a/app: " in out


def test_a_log_that_somebody_removes_ends_nothing(quick, project, tree, run):
    reports = tree({"a/app": "x", "b/app": "x"})
    popen = ea.Session._popen

    def without_a_log(session, job, *words, **more):
        os.unlink(job.task.log)
        return popen(session, job, *words, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ea.Session, "_popen", without_a_log)
        code, out, _ = run()
    assert (code, [kind(report) for report in reports]) == (0, ["whole", "whole"])
    assert "evaluated 2," in out


def test_the_reason_stands_with_what_is_to_be_repeated(quick, project, tree, run):
    tree({"a/app": "FAIL", "b/app": "LATE"})
    _, out, _ = run("--parallel", "1")
    assert "a/app: build failed: why (0 s), to be repeated at the end\n" in out
    assert ", to be repeated at the end: 't' timed out\n" in out


# --failed-builds


def test_failed_builds_are_evaluated_anew_and_nothing_else(quick, project, tree, run):
    reports = tree({"a/app": "FAIL", "a/bat": "LATE", "a/cat": "BREAKS", "b/app": "FAIL"})
    run("--parallel", "1")
    before = [evaluations(report) for report in reports]
    write(project / "artifacts/b/app.dockerfile", "FROM x\n")
    code, out, _ = run("--failed-builds")
    assert (code, [kind(report) for report in reports]) == (0, ["build", "whole", "engine", "whole"])
    again = [after - old for after, old in zip(map(evaluations, reports), before)]
    assert again == [2, 0, 0, 1]  # what fails again is repeated
    assert "2 Dockerfiles of 2 models" in out
    code, out, _ = run("--failed-builds", "--model", "b*")
    assert (code, out) == (0, "")


def test_failed_builds_keep_their_report_until_the_new_one_is_whole(quick, project, tree, run, monkeypatch):
    (report,) = tree({"a/app": "FAIL"})
    run("--no-repeat")
    before = report.read_text()
    monkeypatch.setattr(ea.Session, "_popen", lambda *_, **__: os.stat("/nowhere/at/all"))
    assert run("--failed-builds")[0] == 1
    assert report.read_text() == before
