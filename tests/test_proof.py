"""A test's verdict: what proves it, what is tried once more, and what the engine is asked then."""

from __future__ import annotations

import threading
import time

import pytest
from cases import LOOK, TRUE, run_command
from conftest import statuses

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("short_limits")

PASSED = {"run_command_1": "passed"}
NAME_IN_USE = 'docker: Error response from daemon: Conflict. The container name "/x" is already in use.'
NO_SPACE = {"code": 125, "stderr": "docker: Error response from daemon: no space left on device."}


def row_of(report):
    (row,) = report["test_results"]
    return row


def lying_shell(fake, tmp_path, *lines):
    """Let a script play the image's /bin/sh."""
    program = tmp_path / "lying"
    program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    program.chmod(0o755)
    fake.write("shell", [str(program)])


def test_a_good_evaluation_leaves_nothing_and_runs_each_test_once(fake, evaluate):
    report = evaluate(["FROM x"], TRUE, LOOK)
    assert statuses(report) == {"run_command_1": "passed", "files_exist_2": "passed"}
    assert (report["error"], report["warnings"], fake.left()) == (None, [], [])
    assert [row["retried"] for row in report["test_results"]] == [False, False]
    assert (fake.count("run"), fake.count("control build")) == (2, 0)


# Once more

CHANCES = {
    "docker was killed": {"do": "die"},
    "no word": {"do": "fail", "code": 1},
    "a name in use": {"do": "fail", "code": 125, "stderr": NAME_IN_USE},
    "no space for a moment": {"do": "fail", **NO_SPACE},
    "a cut connection": {"do": "fail", "code": 125, "stderr": "docker: error during connect: EOF"},
}


@pytest.mark.parametrize("name", sorted(CHANCES))
def test_what_fails_once_by_chance_costs_nothing(fake, arguments, report, name):
    fake.fault("run", nth=1, **CHANCES[name])
    assert de.main(arguments(["FROM x"], TRUE)) == 0
    assert (statuses(report()), row_of(report())["retried"]) == (PASSED, True)
    assert (report()["error"], fake.left(), fake.count("control run")) == (None, [], 0)


def test_a_start_that_hangs_once_costs_no_verdict(fake, arguments, report, limit):
    """What docker may still be making is named, and with it the image, which the next run removes."""
    limit(start=1.0, create=0.3)
    fake.fault("run", "hang", nth=1)
    assert de.main(arguments(["FROM x"], TRUE)) == 0
    assert (statuses(report()), row_of(report())["retried"]) == (PASSED, True)
    (image,) = fake.left()
    assert [image in warning for warning in report()["warnings"]] == [False, True]


def test_a_docker_program_that_is_killed_once_in_the_middle_of_a_test_costs_nothing(fake, arguments, report):
    first = f"test -e once || {{ touch once; kill -9 $(cat {fake.folder}/program.pid); sleep 60; }}"
    assert de.main(arguments(["FROM x"], run_command(first))) == 0
    assert (statuses(report()), fake.left()) == (PASSED, [])


@pytest.mark.parametrize("back", [True, False])
def test_an_engine_that_is_lost_in_a_test_has_time_to_come_back(fake, arguments, report, limit, back):
    limit(clean_up=0.5)
    fake.fault("run", "lose", nth=2)
    if back:
        limit(**{"return": 60.0})
        fake.fault("version", "find", nth=4)
    assert de.main(arguments(["FROM x"], TRUE, TRUE, TRUE)) == (0 if back else 1)
    found = list(statuses(report()).values())
    assert found == (["passed"] * 3 if back else ["passed", "error", "error"])
    assert (report()["error"] and report()["error"]["kind"]) == (None if back else "engine")


def test_after_two_engine_faults_in_a_row_the_rest_is_not_run(fake, evaluate, limit):
    limit(clean_up=0.5)
    fake.fault("run", "lose", nth=2)
    report = evaluate(["FROM x"], *[TRUE] * 5)
    assert list(statuses(report).values()) == ["passed", "error", "error", "not_run", "not_run"]
    assert report["error"]["kind"] == "engine"


def test_a_test_is_tried_once_more_only_and_in_a_container_that_is_kept(fake, evaluate):
    lies = {"code": 1, "stdout": "nothing that proves anything\n"}
    fake.fault("run", "fail", **lies)
    report = evaluate(["FROM x"], TRUE)
    first, second = fake.calls("run")
    assert ("--rm" in first, "--rm" in second) == (True, False)
    assert first[first.index("--name") + 1] != second[second.index("--name") + 1]
    assert row_of(report)["retried"] is True


def test_what_is_tried_once_more_is_run_alone_after_those_beside_it(fake, evaluate):
    """The first of each fails; nothing else runs beside the second, nor before all the first have ended."""
    fake.fault("run", "fail", given="--rm", code=125, stderr=NAME_IN_USE)
    log = "echo begin >>log; sleep 0.1; echo end >>log"
    report = evaluate(["FROM x"], *[run_command(log)] * 3, jobs=3)
    assert set(statuses(report).values()) == {"passed"}
    assert (fake.root / "log").read_text().split() == ["begin", "end"] * 3
    assert ["--rm" in call for call in fake.calls("run")] == [True] * 3 + [False] * 3
    assert fake.left() == []


@pytest.mark.parametrize(("second", "status"), [("true", "passed"), ("sleep 60", "timeout")])
def test_a_time_limit_that_passed_while_the_engine_stood_still_is_in_doubt(
    fake, evaluate, monkeypatch, second, status
):
    monkeypatch.setattr(de, "SLOW_ANSWER", 0.2)
    fake.fault("version", "hang", nth=2)
    text = f"test -e once || {{ touch once; sleep 60; }}; {second}"
    row = row_of(evaluate(["FROM x"], run_command(text, timeout=0.3)))
    assert (row["status"], row["retried"]) == (status, True)


def test_the_engine_is_asked_whether_it_stood_still_before_anything_is_removed(fake, evaluate):
    evaluate(["FROM x"], run_command("sleep 60", timeout=0.3))
    names = [" ".join(call[:2]) for call in fake.calls()]
    after = names[names.index("run --entrypoint") :]
    assert after.index("version") < after.index("container rm")


def test_a_slow_removal_excuses_no_test_that_timed_out(fake, evaluate, limit):
    limit(call=1.0)
    fake.fault("container rm", "delay", nth=2, seconds=2)
    report = evaluate(["FROM x"], run_command("sleep 600", timeout=0.5))
    assert (statuses(report), report["error"], fake.left()) == ({"run_command_1": "timeout"}, None, [])
    assert row_of(report)["retried"] is False


# Without proof the second time, State decides

ENDS_AT_ONCE = ("exit 0",)
CUTS_THE_END = ('/bin/sh "$@" | sed "/=E /d"', "exit 0")
LOST = "the connection to the docker engine was lost, or the docker program was killed"
GONE = {"on": "container inspect", "do": "fail", "stderr": "Error: No such container: x"}
STATES = {  # the image's shell, what State says, status, words of the message
    "a shell that does nothing": (
        ENDS_AT_ONCE,
        {},
        "failed",
        "ended without running the check (exit code 0)",
    ),
    "and one out of memory": (ENDS_AT_ONCE, {"OOMKilled": True}, "failed", "the container ran out of memory"),
    "a shell that hides the end": (CUTS_THE_END, {}, "failed", "1 begin and 0 end marks instead of one each"),
    "it still runs": (ENDS_AT_ONCE, {"Running": True}, "error", LOST),
    "it ended otherwise": (ENDS_AT_ONCE, {"ExitCode": 3}, "error", LOST),
    "it ended otherwise, after it began": (CUTS_THE_END, {"ExitCode": 3}, "error", LOST),
    "it never started": (
        ENDS_AT_ONCE,
        {"StartedAt": "0001-01-01T00:00:00Z", "Error": "mkdir /x: no"},
        "failed",
        "the image cannot be started: mkdir /x: no",
    ),
}


@pytest.mark.parametrize("name", sorted(STATES))
def test_without_proof_twice_state_decides(fake, evaluate, tmp_path, name):
    shell, state, status, words = STATES[name]
    lying_shell(fake, tmp_path, *shell)
    fake.write("state", state)
    report = evaluate(["FROM x"], TRUE)
    row = row_of(report)
    assert (row["status"], words in row["message"], row["retried"]) == (status, True, True), row["message"]
    assert (report["error"] is None) == (status == "failed")
    assert fake.left() == []


def test_what_could_not_be_started_is_told_in_dockers_own_words(fake, evaluate):
    """A WORKDIR that cannot be made leaves no container; the loader of the image writes to stderr, too."""
    words = "ERROR: ld.so: object '/x' cannot be preloaded\ndocker: Error response from daemon: mkdir /a: not a directory"
    fake.fault("run", "fail", code=127, stderr=words)
    row = row_of(evaluate(["FROM x"], TRUE))
    why = "the image cannot be started: mkdir /a: not a directory"
    assert (row["status"], row["message"]) == ("failed", why)


def test_an_engine_that_has_no_answer_for_one_container_only_blames_the_image(fake, evaluate, limit):
    """As for an image whose VOLUMEs take minutes to copy: the control is started in the meantime."""
    limit(call=1.0, start=1.0, create=0.2)
    fake.fault("run", "hang")
    fake.fault("container inspect", "hang", nth=1)
    report = evaluate(["FROM x"], TRUE)
    assert statuses(report) == {"run_command_1": "failed"}
    assert "the image cannot be started: docker did not start it within" in row_of(report)["message"]
    assert report["error"] is None


@pytest.mark.parametrize("how", ["gone", "no answer"])
def test_a_container_that_began_and_of_which_nothing_is_known_leaves_it_to_the_ladder(
    fake, evaluate, tmp_path, limit, how
):
    """The control can be started: a Dockerfile that brings this about is to blame."""
    limit(call=1.0)
    lying_shell(fake, tmp_path, *CUTS_THE_END)
    fake.fault("container inspect", "hang" if how == "no answer" else "fail", nth=1, stderr=GONE["stderr"])
    assert statuses(evaluate(["FROM x"], TRUE)) == {"run_command_1": "failed"}


def test_a_docker_program_that_is_killed_twice_before_the_start_blames_no_image(fake, evaluate):
    fake.fault("run", "die")
    report = evaluate(["FROM x"], TRUE, TRUE, TRUE)
    assert (list(statuses(report).values())[:2], report["error"]["kind"]) == (["error"] * 2, "engine")


def test_a_docker_program_that_is_killed_twice_in_a_test_is_a_lost_connection(fake, evaluate):
    row = row_of(evaluate(["FROM x"], run_command(f"kill -9 $(cat {fake.folder}/program.pid); sleep 60")))
    assert (row["status"], row["message"]) == ("error", LOST)
    assert fake.left() == []


@pytest.mark.parametrize(("times", "status"), [(1, "passed"), (2, "error")])
def test_a_connection_cut_after_the_end_mark_is_no_proof(fake, evaluate, tmp_path, times, status):
    program = tmp_path / "cut-docker"
    lines = ["#!/bin/sh", f'test $1 = run && echo >>{tmp_path}/runs || exec {fake.program} "$@"']
    lines += [f'test $(wc -l <{tmp_path}/runs) -gt {times} && exec {fake.program} "$@"']
    lines += [f'{fake.program} "$@"', "echo error during connect: EOF >&2", "exit 125"]
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    report = evaluate(["FROM x"], TRUE, docker=str(program))
    assert statuses(report) == {"run_command_1": status}
    assert (report["error"] is None) == (status == "passed")


def test_a_process_killed_in_the_container_is_the_images_own_doing(fake, evaluate):
    row = row_of(evaluate(["FROM x"], run_command("kill -9 $PPID")))  # what would print the end mark
    assert (row["status"], row["retried"]) == ("failed", True)


# Starts and ends that take their time


def test_a_slow_start_takes_nothing_of_a_tests_time(fake, evaluate):
    fake.fault("run", "delay", seconds=2.5)
    row = row_of(evaluate(["FROM x"], run_command("sleep 0.1", timeout=2)))
    assert (row["status"], row["execution_time"] < 2) == ("passed", True)


def test_a_shell_that_starts_and_says_nothing_is_the_images_fault(fake, evaluate, limit, tmp_path):
    limit(start=1.0, create=0.2)
    lying_shell(fake, tmp_path, "sleep 60")
    report = evaluate(["FROM x"], TRUE)
    why = "the image's /bin/sh was started, but did not begin the check for 1 s"
    assert (row_of(report)["status"], row_of(report)["message"]) == ("failed", why)
    assert (report["error"], fake.left()) == (None, [])


def test_a_shell_that_goes_on_after_the_end_mark_is_the_images_fault(fake, evaluate, limit, tmp_path):
    limit(end=1.0)
    lying_shell(fake, tmp_path, '/bin/sh "$@"', "sleep 60")
    report = evaluate(["FROM x"], LOOK)
    why = "the image's /bin/sh went on for 1 s after the end of the check"
    assert (row_of(report)["status"], row_of(report)["message"]) == ("failed", why)
    assert (report["error"], fake.left()) == (None, [])


def test_an_argument_that_is_too_long_for_the_machine_is_an_engine_fault(fake, evaluate, monkeypatch):
    fake.is_forked = False
    for i in range(12):
        monkeypatch.setenv(f"BIG_{i}", "y" * 120_000)
    report = evaluate(["FROM x"], ("commands_exist", {"names": ["x" * 100_000] * 10}))
    assert row_of(report)["message"] == "'docker' cannot be started: Argument list too long"
    assert report["error"]["kind"] == "engine"


# What cannot be started


def test_an_image_that_cannot_be_started_says_so_once_for_all_tests(fake, evaluate):
    fake.fault("run", "fail", **NO_SPACE)
    report = evaluate(["FROM x"], *[TRUE] * 6)
    assert set(statuses(report).values()) == {"failed"}
    assert len({row["message"] for row in report["test_results"]}) == 1
    assert "the image cannot be started: no space left on device." in report["test_results"][5]["message"]
    assert (report["error"], fake.count("run"), fake.count("control run")) == (None, 2, 1)
    assert fake.left() == []


def test_a_container_that_has_begun_shows_that_the_image_can_be_started(fake, evaluate):
    for nth in (2, 3, 4, 5):
        fake.fault("run", "fail", nth=nth, **NO_SPACE)
    report = evaluate(["FROM x"], *[TRUE] * 4)
    assert list(statuses(report).values()) == ["passed", "failed", "failed", "passed"]
    assert (fake.count("run"), fake.count("control run")) == (6, 2)


def test_an_image_that_cannot_be_started_runs_no_test_of_the_next_wave(fake, evaluate):
    fake.fault("run", "fail", **NO_SPACE)
    report = evaluate(["FROM x"], LOOK, LOOK, TRUE, TRUE)
    assert set(statuses(report).values()) == {"failed"}
    assert (fake.count("run"), fake.count("control run")) == (3, 1)  # two looks, and one of them once more


# The files of accounts

FAR = "/etc/" + "ö" * 120  # which an archive can only tell in a header of its own
FILES = {
    "a file": ({}, ""),
    "a folder": ({"/etc/passwd": "5"}, ""),
    "a device": ({"/etc/passwd": "3"}, "a device"),
    "a disk": ({"/etc/passwd": "4"}, "a device"),
    "a pipe": ({"/etc/passwd": "6"}, "a pipe"),
    "a link": ({"/etc/passwd": "../etc/other"}, ""),
    "a link to a pipe": ({"/etc/passwd": "other", "/etc/other": FAR, FAR: "6"}, "a pipe"),
    "a link to itself": ({"/etc/passwd": "/etc/passwd"}, ""),
    "a link into /proc": ({"/etc/passwd": "/proc/self/fd/1"}, "a link to /proc/self/fd/1"),
    "a link to standard input": ({"/etc/passwd": "../dev/stdin"}, "a link to /dev/stdin"),
}


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/group"])
@pytest.mark.parametrize("name", sorted(FILES))
def test_an_image_whose_files_of_accounts_would_block_docker_is_never_started(fake, evaluate, name, path):
    files, what = FILES[name]
    fake.write("types", {path if key == "/etc/passwd" else key: kind for key, kind in files.items()})
    report = evaluate(["FROM x"], TRUE, TRUE)
    why = f"the image cannot be started: {path} is {what}"
    if what:
        assert {(row["status"], row["message"]) for row in report["test_results"]} == {("failed", why)}
        assert fake.count("run") == 0
    else:
        assert report["summary"]["passed_tests"] == 2
    assert (report["error"], fake.left()) == (None, [])


def test_the_files_of_accounts_are_looked_at_once_before_the_first_start(fake, evaluate):
    evaluate(["FROM x"], TRUE, LOOK, TRUE)
    names = [call[0] for call in fake.calls()]
    assert (names.count("create"), names.count("cp")) == (1, 2)
    last = max(at for at, name in enumerate(names) if name == "cp")
    assert [name for name in names[last + 1 : names.index("run")] if name != "version"] == ["container"]
    assert (fake.count("container rm"), fake.calls("container", "rm")[0][-1]) == (
        1,
        fake.calls("create")[0][-2],
    )


@pytest.mark.parametrize("on", ["create", "cp"])
@pytest.mark.parametrize("do", ["fail", "die"])
def test_what_goes_wrong_in_that_look_is_for_the_tests_to_find_out(fake, evaluate, on, do):
    fake.fault(on, do)
    report = evaluate(["FROM x"], TRUE)
    assert (statuses(report), report["error"], fake.left()) == (PASSED, None, [])


def test_no_look_where_the_build_failed(fake, evaluate):
    evaluate(["FROM x", "RUN FAIL"], TRUE)
    assert fake.count("create") == 0


# The image


def test_an_image_that_is_gone_is_built_once_more(fake, evaluate):
    fake.fault("run", "fail", nth=1, code=125, stderr="docker: Error: No such image: x.")
    fake.fault("image inspect", "fail", nth=3, stderr="Error: No such image: x")
    report = evaluate(["FROM x"], TRUE)
    assert (statuses(report), report["error"], fake.count("build")) == (PASSED, None, 2)


def test_an_image_that_cannot_be_built_any_more_is_an_engine_fault(fake, evaluate):
    fake.fault("image inspect", "fail", **{"from": 3}, stderr="Error: No such image: x")
    fake.fault("run", "fail", code=125, stderr="docker: Error: No such image: x.")
    fake.fault("build", "fail", **{"from": 2}, stderr="The command 'x' returned a non-zero code: 1")
    report = evaluate(["FROM x"], TRUE)
    assert row_of(report)["message"] == "the image that was built is gone from the engine"
    assert report["error"]["kind"] == "engine"


def test_no_container_is_started_once_somebody_asked_for_the_end(fake):
    stop = de.Stop()
    docker = de.Docker(de.Engine("docker", None, stop), stop)
    stop.ask()
    assert docker.run(de.Script(":"), 1.0, network=False).ending == de.NOT_RUN
    assert fake.calls("run") == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(["FROM x"], ["passed", "passed", "failed"]), (["FROM x", "RUN FAIL"], ["not_run"] * 3)],
)
def test_evaluations_in_several_threads_do_not_meet(fake, dockerfile, rubric, lines, expected):
    path, tests = dockerfile(*lines), rubric(TRUE, LOOK, run_command("false"))
    reports = []
    threads = [
        threading.Thread(target=lambda: reports.append(de.evaluate(path, "r", tests))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [list(statuses(report).values()) for report in reports] == [expected] * 4
    assert fake.left() == []


def test_a_retry_does_not_wait_for_an_engine_once_somebody_asked_for_the_end(fake, monkeypatch):
    monkeypatch.setattr(de, "RETURN_LIMIT", 60.0)
    fake.write("lost", True)
    stop = de.Stop()
    docker = de.Docker(de.Engine("docker", None, stop), stop)
    threading.Timer(0.3, stop.ask).start()
    started = time.monotonic()
    assert docker.run(de.Script(":"), 1.0, network=False, retry=True).ending == de.NOT_RUN
    assert time.monotonic() - started < 50
