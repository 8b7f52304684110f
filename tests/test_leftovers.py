"""Nothing left behind: names, the sweep, clean-up and its deadline, and warnings of what stays."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import time

import pytest
from cases import TRUE, run_command
from conftest import PIPES, PROGRAM, statuses
from engine import wait_for

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("short_limits")

PASSED = {"run_command_1": "passed"}
NOW = 1_767_225_600  # the stand-in's clock
PAST, FUTURE = 1_000_000_000, 2_000_000_000
CONFLICT = "Error response from daemon: conflict: unable to remove it - container 1d2e3f is using it"
SLOW = run_command("sleep 600", timeout=0.3)
RUN = r"[0-9a-f]{12}-\d+-[0-9a-f]{12}\.\d+\.\d+\.\d+"


def leftovers(report):
    return [warning for warning in report["warnings"] if warning.startswith("leftover: ")]


def leave_one(fake, name):
    """Leave a container, or an image where the name has a tag."""
    folder = "images" if ":" in name else "containers"
    facts = {"Config": {}} if folder == "images" else {"pid": 0}
    (fake.folder / folder / name.replace("/", "%2F")).write_text(json.dumps(facts))
    return name


def leave(fake, run):
    """Leave what a run may: a container, an image, a control."""
    names = (f"dockerfile-evaluator-{run}-1", f"dockerfile-evaluator:{run}", f"dockerfile-evaluator:{run}-2")
    return [leave_one(fake, name) for name in names]


def named(number, expires, boot="", space="", pid="", start=""):
    return f"{number:012x}-{expires}-{boot}.{space}.{pid}.{start}"


# Names


def test_names_say_whose_a_thing_is_and_until_when(fake, evaluate):
    evaluate(["FROM x"], run_command("true", timeout=7), run_command("true", timeout=11), build_timeout=100)
    (build,) = fake.calls("build")
    tag = build[build.index("--tag") + 1]
    names = [call[call.index("--name") + 1] for call in [*fake.calls("create"), *fake.calls("run")]]
    assert re.fullmatch(f"dockerfile-evaluator:{RUN}", tag)
    run = tag[len("dockerfile-evaluator:") :]
    assert [re.fullmatch(rf"dockerfile-evaluator-{re.escape(run)}-\d+", name) is None for name in names] == [
        False
    ] * 3
    assert len(set(names)) == 3
    assert run.endswith(f".{os.getpid()}.{de._start_time(os.getpid())}")
    assert int(run.split("-")[1]) >= NOW + 100 + 2 * (7 + 11) + 2 * 120


def test_two_runs_of_one_process_have_different_names(fake, evaluate):
    for _ in range(2):
        evaluate(["FROM x"], TRUE)
    first, second = (call[call.index("--tag") + 1] for call in fake.calls("build"))
    assert first[:34] != second[:34]


@pytest.mark.parametrize("lines", [("FROM x",), ("FROM x", "RUN FAIL")])
def test_nothing_that_is_made_has_a_label(fake, evaluate, lines):
    evaluate(list(lines), TRUE)
    assert not [word for call in fake.calls() for word in call if word.startswith(("--label", "-l"))]


def test_a_kept_image_stays_under_a_name_of_its_own(fake, evaluate):
    kept = evaluate(["FROM x"], TRUE, keep_image=True)["environment"]["kept_image"]
    assert fake.left() == [kept]
    assert re.fullmatch("dockerfile-evaluator:example-[0-9a-f]{12}-kept", kept)
    evaluate(["FROM x"], TRUE)
    assert fake.left() == [kept]


def test_an_interrupt_while_an_image_is_kept_hides_none(fake, arguments, report):
    fake.fault("image tag", "delay", seconds=1)
    process = subprocess.Popen([*PROGRAM, *arguments(["FROM x"], TRUE, more=["--keep-image"])], **PIPES)
    wait_for(lambda: fake.calls("image", "tag"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert fake.left() == [report()["environment"]["kept_image"]]


# What killed runs left


def owners():
    """Return of each run its name, and whether it is dead."""
    boot, space, pid, start = de._owner()
    gone = str(2**22 + 1)  # no process has such a number
    return {
        "alive, though its time is over": (named(1, PAST, boot, space, pid, start), False),
        "killed": (named(2, FUTURE, boot, space, gone, "5"), True),
        "killed, and its number is another process's": (named(3, FUTURE, boot, space, pid, "5"), True),
        "on another host": (named(4, FUTURE, "0123456789ab", space, pid, start), False),
        "on another host, and its time is over": (named(5, PAST, "0123456789ab", space, pid, start), True),
        "in another container": (named(6, FUTURE, boot, "1", gone, "5"), False),
        "in another container, and its time is over": (named(7, PAST, boot, "1", gone, "5"), True),
        "of unknown owner": (named(8, FUTURE), False),
        "of unknown owner, and its time is over": (named(9, PAST), True),
        "of unknown owner, by the engine's clock": (named(10, NOW - 5), True),
        "of unknown owner, just alive by it": (named(11, NOW + 5), False),
    }


@pytest.mark.parametrize("name", sorted(owners()))
def test_what_a_killed_run_left_is_removed_and_what_is_a_live_ones_is_not(fake, evaluate, name):
    run, is_dead = owners()[name]
    made = leave(fake, run)
    report = evaluate(["FROM x"], TRUE)
    assert fake.left() == ([] if is_dead else sorted(made))
    assert (statuses(report), report["warnings"]) == (PASSED, [])


def test_a_live_run_whose_process_hides_counts_by_its_time(fake, evaluate, monkeypatch):
    boot, space, pid, start = own = de._owner()
    made = leave(fake, named(1, FUTURE, boot, space, pid, start))
    leave(fake, named(2, PAST, boot, space, pid, start))
    monkeypatch.setattr(de, "_owner", lambda: own)
    monkeypatch.setattr(de, "_start_time", lambda number: "")
    evaluate(["FROM x"], TRUE)
    assert fake.left() == sorted(made)


def test_what_an_evaluation_that_was_killed_left_is_removed_by_the_next(fake, arguments, evaluate):
    process = subprocess.Popen([*PROGRAM, *arguments(["FROM x"], run_command("touch running; sleep 600"))])
    wait_for(lambda: fake.is_running("sleep 600"))
    process.kill()
    process.wait()
    assert fake.left()
    assert statuses(evaluate(["FROM x"], TRUE)) == PASSED
    assert fake.left() == []


OURS = f"00000000000a-{PAST}-..."
NOT_OURS = [
    "somebodys",
    "dockerfile-evaluator",
    "dockerfile-evaluator-1",
    f"dockerfile-evaluator-{OURS}",
    f"dockerfile-evaluator-{OURS}-x",
    f"dockerfile-evaluator-{OURS}-1x",
    f"dockerfile-evaluator-{OURS}-1-1",
    f"dockerfile-evaluator-{OURS}-",
    f"dockerfile-evaluator-{OURS}--1",
    f"dockerfile-evaluator-{OURS}-kept",
    f"my-dockerfile-evaluator-{OURS}-1",
    f"mydockerfile-evaluator-{OURS}-1",
    f"dockerfile-evaluators-{OURS}-1",
    f"dockerfile-evaluator_{OURS}-1",
    f"dockerfile-evaluator-x-{OURS}-1",
    f"dockerfile-evaluator-00000000000A-{PAST}-...-1",
    f"dockerfile-evaluator-0000000000a-{PAST}-...-1",
    f"dockerfile-evaluator-000000000000a-{PAST}-...-1",
    "dockerfile-evaluator-00000000000a-...-1",
    "dockerfile-evaluator-00000000000a--...-1",
    "dockerfile-evaluator-00000000000a-1e9-...-1",
    "dockerfile-evaluator-00000000000a-1000000000000-...-1",
    f"dockerfile-evaluator-00000000000a-{PAST}-1",
    f"dockerfile-evaluator-00000000000a-{PAST}-..-1",
    f"dockerfile-evaluator-00000000000a-{PAST}-....-1",
    f"dockerfile-evaluator-00000000000a-{PAST}-0123456789abc...-1",
    f"dockerfile-evaluator-00000000000a-{PAST}-.x..-1",
    "dockerfile-evaluator:latest",
    "dockerfile-evaluator:mine",
    "dockerfile-evaluator:00000000000a",
    f"dockerfile-evaluator:{OURS}-kept",
    f"dockerfile-evaluator:{OURS}-1-2",
    f"dockerfile-evaluator:{OURS}-x",
    f"dockerfile-evaluator:x-{OURS}",
    "dockerfile-evaluator:x-00000000000a-kept",
    f"example.org/dockerfile-evaluator:{OURS}",
]


def test_what_has_not_the_whole_form_of_a_name_is_nobodys_of_ours(fake, evaluate):
    """The two first show that the others stand for what they are to show."""
    for name in (f"dockerfile-evaluator-{OURS}-1", f"dockerfile-evaluator:{OURS}"):
        leave_one(fake, name)
    for name in NOT_OURS:
        leave_one(fake, name)
    evaluate(["FROM x"], TRUE)
    assert fake.left() == sorted(name.replace("/", "%2F") for name in NOT_OURS)


@pytest.mark.parametrize("kind", ["image", "container"])
def test_what_a_killed_run_left_and_somebody_holds_is_one_try_and_a_warning(fake, evaluate, kind):
    names = leave(fake, OURS)
    held = names[kind == "image"]
    fake.fault(f"{kind} rm", "fail", given=held, stderr=CONFLICT)
    report = evaluate(["FROM x"], TRUE)
    assert (statuses(report), report["error"], fake.left()) == (PASSED, None, [held])
    assert leftovers(report) == [f"leftover: {kind} {held} of a killed run stays: {CONFLICT}"]
    assert len([call for call in fake.calls(kind, "rm") if held in call]) == 1


def test_after_the_first_without_an_answer_nothing_else_is_swept(fake, evaluate, limit):
    limit(call=60.0, sweep=0.5)
    for number in (1, 2, 3):
        leave(fake, named(number, PAST))
    fake.fault("container rm", "hang", nth=1)
    started = time.monotonic()
    report = evaluate(["FROM x"], TRUE)
    assert time.monotonic() - started < 50
    first = f"dockerfile-evaluator-{named(1, PAST)}-1"
    (warning,) = leftovers(report)
    assert warning.startswith(f"leftover: container {first} of a killed run stays: docker container gave no ")
    assert (statuses(report), report["error"]) == (PASSED, None)
    assert len(fake.left()) == 9
    assert [call for call in fake.calls() if "rm" in call and named(2, PAST) in " ".join(call)] == []


def test_what_another_run_is_removing_just_now_is_no_leftover(fake, evaluate):
    leave(fake, OURS)
    words = "Error response from daemon: removal of container x is already in progress"
    fake.fault("container rm", "fail", nth=1, stderr=words)
    assert evaluate(["FROM x"], TRUE)["warnings"] == []


# Clean-up


def test_one_answer_that_fails_in_clean_up_is_asked_again(fake, evaluate):
    fake.fault("image rm", "fail", nth=1, stderr=CONFLICT)
    report = evaluate(["FROM x"], TRUE)
    assert (report["error"], report["warnings"], fake.left()) == (None, [], [])


def test_a_large_image_may_take_longer_to_remove_than_a_question(fake, evaluate, limit):
    limit(call=1.0)
    fake.fault("image rm", "delay", nth=1, seconds=1.5)
    report = evaluate(["FROM x"], TRUE)
    assert (report["error"], report["warnings"], fake.left()) == (None, [], [])
    assert fake.count("image rm") == 1


@pytest.mark.parametrize(
    ("on", "do", "why"),
    [
        ("image rm", "fail", CONFLICT),
        ("image rm", "hang", "docker image gave no answer within "),
        ("image rm", "die", "image rm failed"),
    ],
)
def test_an_image_that_cannot_be_removed_is_a_warning_and_the_verdict_stands(
    fake, arguments, report, capsys, limit, on, do, why
):
    limit(clean_up=1.0, sweep=0.5)
    fake.fault(on, do, stderr=CONFLICT)
    assert de.main(arguments(["FROM x"], TRUE)) == 0
    assert (statuses(report()), report()["error"], report()["build"]["succeeded"]) == (PASSED, None, True)
    (left,) = fake.left()
    (warning,) = leftovers(report())
    assert warning.startswith(f"leftover: image {left} stays: {why}")
    out, err = capsys.readouterr()
    assert (f"warning: leftover: image {left} stays" in out, err) == (True, "")


@pytest.mark.parametrize("do", ["fail", "hang"])
def test_a_container_that_cannot_be_removed_is_a_warning_and_the_verdict_stands(fake, evaluate, limit, do):
    limit(call=1.0, clean_up=1.0, sweep=0.5)
    fake.fault(
        "container rm", do, stderr="Error response from daemon: device or resource busy", **{"from": 2}
    )
    report = evaluate(["FROM x"], SLOW)
    assert (statuses(report), report["error"]) == ({"run_command_1": "timeout"}, None)
    (left,) = [name for name in fake.left() if ":" not in name]
    (warning,) = [warning for warning in leftovers(report) if "container" in warning]
    assert warning.startswith(f"leftover: container {left} stays: ")
    assert fake.count("image rm") > 0


def test_a_container_that_docker_run_could_not_remove_fails_no_test_that_passed(fake, evaluate, tmp_path):
    """Docker then says 125 after a check that passed; without --rm the code is the container's."""
    program = tmp_path / "docker-that-cannot-remove"
    lines = ["#!/bin/sh", f'case "$*" in "run "*" --rm "*) {fake.program} "$@"; exit 125;; esac']
    program.write_text("\n".join([*lines, f'exec {fake.program} "$@"', ""]))
    program.chmod(0o755)
    report = evaluate(["FROM x"], TRUE, docker=str(program))
    assert (statuses(report), report["error"]) == (PASSED, None)


def test_an_engine_that_does_not_list_what_is_there_leaves_a_warning_that_names_the_run(
    fake, evaluate, limit
):
    limit(clean_up=0.5)
    fake.fault("ps", "fail", code=1, stderr="Cannot connect to the Docker daemon at x", **{"from": 2})
    report = evaluate(["FROM x"], TRUE)
    (tag,) = [call[call.index("--tag") + 1] for call in fake.calls("build")]
    assert (statuses(report), report["error"]) == (PASSED, None)
    (warning,) = leftovers(report)
    assert tag.partition(":")[2] in warning


def test_the_image_is_tried_though_containers_cannot_be_listed(fake, evaluate, limit):
    limit(call=1.0, clean_up=1.0)
    fake.fault("ps", "hang", **{"from": 2})
    evaluate(["FROM x"], TRUE)
    assert fake.count("image rm") > 0


def test_clean_up_does_not_ask_without_a_pause(fake, evaluate, limit):
    limit(clean_up=1.0)
    fake.fault("image rm", "fail", stderr=CONFLICT)
    evaluate(["FROM x"], TRUE)
    assert 2 <= fake.count("image rm") <= 5  # in one second: after 0, 0.1, 0.3 and 0.7 s


def test_the_tag_goes_by_force_once_the_containers_are_gone(fake, evaluate):
    evaluate(["FROM x"], TRUE)
    (removal,) = fake.calls("image", "rm")
    assert "--force" in removal


MANY = 12


def test_there_is_one_deadline_for_all_that_cannot_be_removed(fake, evaluate, limit):
    """The engine has no answer for any of the containers; each try of theirs takes half a second."""
    limit(call=1.0, clean_up=1.0, sweep=0.5)
    numbers = " ".join(str(900 + number) for number in range(MANY))
    text = f'cd {fake.folder}/containers; until set -- dockerfile-*; test -e "$1"; do sleep 0.05; done; '
    text += f'for n in {numbers}; do echo \'{{"pid": 0}}\' >"${{1%-*}}-$n"; done'
    fake.fault("container rm", "hang", **{"from": 2})
    report = evaluate(["FROM x"], run_command(text))
    assert statuses(report) == PASSED
    assert [name for name in fake.left() if not any(name in warning for warning in leftovers(report))] == []
    tries = fake.count("container rm") - 1
    assert tries <= 4
    assert fake.count("image rm") > 0


# Containers that docker may still be making


def test_a_container_that_comes_after_the_end_is_named(fake, evaluate, limit):
    """Its start was given up long before the engine had made it, and nobody waits for it any more."""
    limit(start=0.3, create=0.3)
    fake.write("in_flight", 0.1)
    fake.write("held", True)
    report = evaluate(["FROM x"], TRUE)
    fake.write("held", False)
    made = [call[call.index("--name") + 1] for call in fake.calls("run")]
    told = time.monotonic()  # a busy machine may have ended the call before it was begun
    wait_for(lambda: made[-1] in os.listdir(fake.folder / "containers") or time.monotonic() - told > 6)
    for name in os.listdir(fake.folder / "containers"):
        facts = ast.literal_eval((fake.folder / "containers" / name).read_text())
        os.killpg(facts["pid"], signal.SIGKILL)
    warnings = leftovers(report)
    assert f"leftover: container {made[-1]} stays: docker may still be making it" in warnings
    assert [name for name in fake.left() if not any(name in warning for warning in warnings)] == []


def test_a_container_that_comes_in_time_is_removed_and_not_named(fake, evaluate, limit):
    limit(start=0.3, create=20.0)
    fake.write("in_flight", 1.2)
    report = evaluate(["FROM x"], TRUE)
    assert (leftovers(report), fake.left()) == ([], [])
    assert (fake.folder / "arrived.json").exists()


def test_one_that_docker_made_without_an_answer_is_removed_and_not_named(fake, evaluate, tmp_path, limit):
    limit(create=0.7)
    program = tmp_path / "docker-that-does-not-answer"
    program.write_text(
        f'#!/bin/sh\ntest $1 = create || exec {fake.program} "$@"\n{fake.program} "$@"\nsleep 60\n'
    )
    program.chmod(0o755)
    report = evaluate(["FROM x"], TRUE, docker=str(program))
    assert (statuses(report), report["warnings"], fake.left()) == (PASSED, [], [])


@pytest.mark.parametrize("on", ["create", "control run"])
def test_one_that_was_never_there_to_be_removed_is_named(fake, evaluate, limit, on):
    limit(start=1.0, create=0.5)
    fake.fault(on, "hang", nth=1)
    report = evaluate(["FROM x" if on == "create" else "RUN FAIL"], TRUE)
    call = next(call for call in fake.calls() if call[0] == "create" or "--detach" in call)
    name = call[call.index("--name") + 1]
    assert f"leftover: container {name} stays: docker may still be making it" in leftovers(report)
    assert all("docker may still be making" in leftover for leftover in leftovers(report))
    assert (report["error"] and report["error"]["kind"]) == (None if on == "create" else "engine")
