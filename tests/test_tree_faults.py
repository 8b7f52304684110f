"""artifacts/evaluate_all.py: engines and evaluations at fault, with stand-ins of evaluator and control."""

from __future__ import annotations

import re

import pytest
from trees import ea, evaluations, kind

pytest_plugins = ["trees"]

FAULT = ea.de.EngineError("no bridge")
REFUSAL = ea.de.UsageError("docker refuses the run options: no --gpus here")
SOUND = "FROM x\n"
SUMS = "evaluated {}, resumed 0, repeated {}, builds failed 0, left out 0, without a result {}\n"


@pytest.fixture
def control(quick, monkeypatch):
    """Let the control of each engine answer as told, one after the other, and pass after that."""
    answers, asked = {}, []

    def check(engine, wait, over):
        asked.append(engine.name)
        waiting = answers.get(engine.name, [])
        return waiting.pop(0) if waiting else None

    monkeypatch.setattr(ea.Engine, "check", check)
    answers["asked"] = asked
    return answers


def places(out):
    return re.findall(r"\] (\S+):", out)


def test_an_engine_that_fails_its_control_rests_and_its_work_goes_to_another(control, project, tree, run):
    control["two"] = [None, FAULT]
    reports = tree({f"a/app{at}": "BREAKS ONCE ON two" for at in range(6)})
    code, out, errors = run("--engine", "one", "--engine", "two", "--parallel", "2")
    assert (code, {kind(report) for report in reports}) == (0, {"whole"})
    assert errors == "error: two: no bridge; two rests 0 s\n"
    assert SUMS.format(6, 0, 0) in out


def test_an_engine_comes_back_when_it_passes_its_control_again(control, project, tree, run):
    control["the docker engine"] = [None, FAULT, FAULT]
    reports = tree({f"a/app{at}": "BREAKS ONCE" for at in range(3)})
    code, _, errors = run("--parallel", "1")
    assert (code, [kind(report) for report in reports]) == (0, ["whole"] * 3)
    assert errors == "error: the docker engine: no bridge; the docker engine rests 0 s\n" * 2


def test_an_engine_is_given_up_after_failures_of_its_control_in_a_row(
    control, project, tree, run, monkeypatch
):
    monkeypatch.setattr(ea, "RESTS", 3)
    control["the docker engine"] = [None, FAULT, FAULT, FAULT]
    reports = tree({f"a/app{at}": "BREAKS" for at in range(3)})
    code, out, errors = run("--parallel", "1")
    assert (code, [kind(report) for report in reports]) == (1, ["engine", "none", "none"])
    assert errors.count("; the docker engine rests 0 s\n") == 2
    assert errors.endswith("; the docker engine is given up\n")
    assert SUMS.format(0, 0, 3) in out


def test_a_fault_on_an_engine_that_passes_its_control_is_the_evaluations_alone(control, project, tree, run):
    reports = tree({"a/app": "BREAKS", "a/bat": SOUND, "a/cat": "BREAKS ONCE"})
    code, out, errors = run("--parallel", "1")
    assert (code, errors) == (1, "")
    assert [kind(report) for report in reports] == ["engine", "whole", "whole"]
    assert places(out) == ["a/app", "a/bat", "a/cat", "a/app", "a/cat"]  # once more after all others
    assert "a/app: engine fault: why; to be tried again\n" in out
    assert "\n  a/app: engine fault: why; held back for the next start\n" in out
    assert SUMS.format(2, 0, 1) in out
    (project / "artifacts/a/app.dockerfile").write_text(SOUND)
    assert run()[0] == 0
    assert kind(reports[0]) == "whole"


def test_a_dockerfile_that_breaks_every_engine_for_a_while_is_held_back(control, project, tree, run):
    control["the docker engine"] = [None, *[FAULT, None] * 9]
    reports = tree({"a/app": "BREAKS", "a/bat": SOUND})
    code, _, _ = run("--parallel", "1")
    assert (code, [kind(report) for report in reports]) == (1, ["engine", "whole"])
    assert evaluations(reports[0]) == 5


def test_a_registry_out_of_reach_costs_nobody_else_anything(control, project, tree, run):
    reports = tree({"a/app": "NO REGISTRY", "a/bat": SOUND})
    code, out, errors = run("--parallel", "1")
    assert (code, errors, len(control["asked"])) == (1, "", 1)  # the control, at the start alone
    assert [kind(report) for report in reports] == ["registry", "whole"]
    assert places(out) == ["a/app", "a/bat", "a/app"]
    assert "\n  a/app: registry out of reach: why; held back for the next start\n" in out


def test_a_usage_error_of_one_stops_nobody(control, project, tree, run):
    reports = tree({"a/app": "REFUSED", "a/bat": SOUND})
    code, out, errors = run("--parallel", "1")
    assert (code, errors, evaluations(reports[0])) == (1, "", 1)
    assert [kind(report) for report in reports] == ["usage", "whole"]
    assert "\n  a/app: usage error: why\n" in out


def test_a_context_that_docker_refuses_is_not_the_engines(control, project, tree, run):
    reports = tree({"a/app": "REFUSED CONTEXT", "a/bat": SOUND})
    assert run("--parallel", "1")[0] == 1
    assert [kind(report) for report in reports] == ["usage", "whole"]
    assert len(control["asked"]) == 1


def test_an_engine_that_refuses_the_options_is_left_out_and_its_work_goes_to_another(
    control, project, tree, run
):
    control["two"] = [None, REFUSAL]
    reports = tree({f"a/app{at}": "REFUSED ONCE ON two" for at in range(4)})
    code, _, errors = run("--engine", "one", "--engine", "two", "--parallel", "2")
    assert (code, {kind(report) for report in reports}) == (0, {"whole"})
    assert errors == f"error: two: {REFUSAL}; two is given up\n"


def test_engines_that_fail_at_the_start_are_named_and_the_rest_does_the_work(control, project, tree, run):
    control["two"], control["three"] = [REFUSAL], [FAULT, FAULT]
    reports = tree({f"a/app{at}": SOUND for at in range(4)})
    engines = ["--engine", "one", "--engine", "two", "--engine", "three"]
    code, _, errors = run(*engines, "--parallel", "1")
    assert (code, {kind(report) for report in reports}) == (0, {"whole"})
    assert f"error: two: {REFUSAL}; two is given up\n" in errors
    assert "error: three: no bridge; three rests 0 s\n" in errors


@pytest.mark.parametrize("fault", [FAULT, REFUSAL])
def test_where_no_engine_works_nothing_is_started(control, project, tree, run, fault):
    control["one"] = control["two"] = [fault, fault]
    (report,) = tree({"a/app": SOUND})
    code, out, errors = run("--engine", "one", "--engine", "two")
    assert (code, out, kind(report)) == (1, "", "none")
    assert errors == (
        f"error: one: {fault}\nerror: two: {fault}\nerror: no engine works; nothing was evaluated\n"
    )


def test_the_control_is_tried_with_the_options_and_for_as_long_as_is_said(project, tree, run, monkeypatch):
    tried = []

    def check_engine(docker, engine, stop, **options):
        tried.append((docker, engine, options))
        raise ea.de.EngineError("not yet") if len(tried) < 3 else REFUSAL

    monkeypatch.setattr(ea.de, "check_engine", check_engine)
    tree({"a/app": SOUND})
    words = ["--build-option=--platform=x", "--run-option=--gpus=all", "--docker", "dock", "--engine", "e"]
    code, _, errors = run(*words, "--wait", "60")
    assert code == 1
    assert tried == [("dock", "e", {"build_options": ["--platform=x"], "run_options": ["--gpus=all"]})] * 3
    assert f"error: e: {REFUSAL}\n" in errors


def test_where_none_of_the_first_ten_images_can_be_started_it_stops_and_says_so(control, project, tree, run):
    tree({f"a/app{at:02}": "CANNOT START" for at in range(12)})
    code, out, errors = run("--parallel", "1")
    assert (code, len(places(out))) == (1, 10)
    assert errors == "error: stopped: none of the first 10 images can be started: no such user\n"


def test_fewer_than_ten_are_all_repeated(control, project, tree, run):
    tree({f"a/app{at}": "CANNOT START" for at in range(6)})
    code, out, errors = run("--parallel", "1")
    assert (code, errors) == (0, "")
    assert SUMS.format(6, 6, 0) in out


def test_one_image_that_starts_is_enough_to_go_on(control, project, tree, run):
    tree({f"a/app{at:02}": "CANNOT START" if at else SOUND for at in range(12)})
    code, out, errors = run("--parallel", "1")
    assert (code, errors) == (0, "")
    assert SUMS.format(12, 11, 0) in out


def test_an_image_that_cannot_be_started_is_repeated_at_the_end_and_no_engine_is_blamed(
    control, project, tree, run
):
    reports = tree({"a/app": "CANNOT START ONCE", "a/bat": SOUND})
    code, out, errors = run("--engine", "one", "--engine", "two", "--parallel", "1")
    assert (code, errors, len(control["asked"])) == (0, "", 2)
    assert places(out) == ["a/app", "a/bat", "a/app"]
    assert ", to be repeated at the end: the image cannot be started: no such user\n" in out
    assert [kind(report) for report in reports] == ["whole"] * 2
