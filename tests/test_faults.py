"""Everything that docker can do wrong, done by the fake docker at a chosen call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time

import pytest
from cases import LOOK, TRUE, output_contains, run_command
from conftest import PIPES, PROGRAM, assert_holds, statuses
from engine import wait_for

import DockerfileEvaluator as de

NAME_IN_USE = 'docker: Error response from daemon: Conflict. The container name "/x" is already in use.'


@pytest.fixture(autouse=True)
def short_limits(monkeypatch):
    for name, seconds in {
        "CALL_LIMIT": 2.0,
        "START_LIMIT": 2.0,
        "END_LIMIT": 2.0,
        "KILL_LIMIT": 0.5,
        "CREATE_LIMIT": 0.5,
        "RETURN_LIMIT": 0.5,
        "BUILD_PAUSE": 0.1,
        "CLEAN_UP_LIMIT": 3.0,
        "SWEEP_LIMIT": 1.0,
    }.items():
        monkeypatch.setattr(de, name, seconds)


def test_a_good_evaluation_leaves_nothing_and_reports_no_error(fake, evaluate):
    report = evaluate(["FROM x"], TRUE, LOOK)
    assert (statuses(report), report["error"]) == (
        {"run_command_1": "passed", "files_exist_2": "passed"},
        None,
    )
    assert fake.left() == []


def test_no_docker_program(evaluate):
    report = evaluate(["FROM x"], TRUE, docker="no-such-docker")
    assert report["error"]["kind"] == "engine"
    assert "no program 'no-such-docker' found" in report["error"]["message"]
    assert "tests/with-engine" in report["error"]["message"]
    assert statuses(report) == {"run_command_1": "not_run"}


def test_no_engine(fake, evaluate):
    fake.fault("*", "lose", nth=1)
    report = evaluate(["FROM x"], TRUE)
    assert report["error"]["kind"] == "engine"
    assert "Cannot connect to the Docker daemon" in report["error"]["message"]
    assert "tests/with-engine" in report["error"]["message"]


def test_an_engine_that_never_answers(fake, evaluate):
    fake.fault("*", "hang")
    started = time.monotonic()
    report = evaluate(["FROM x"], TRUE)
    assert report["error"] == {"kind": "engine", "message": "docker version gave no answer within 2 s"}
    assert time.monotonic() - started < 40


def test_a_failed_build(fake, evaluate):
    report = evaluate(["FROM x", "RUN FAIL"], TRUE, LOOK)
    assert set(statuses(report).values()) == {"not_run"}
    assert report["error"]["kind"] == "build"
    assert report["error"]["message"] == "step 1 of 1 (FROM scratch): exit code 7: last words of the build"
    assert report["build"]["succeeded"] is False
    assert "last words of the build" in report["build"]["log"]
    assert report["summary"]["failed_tests"] == 2
    assert report["test_results"][0]["message"] == "not run: the build failed"


LOOKUP = 'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host'
DOCKERS_WORDS = [
    "Error response from daemon: failed to create endpoint x on network bridge: no bridge",
    "ERROR: failed to solve: write /var/lib/x: no space left on device",
    "toomanyrequests: You have reached your pull rate limit.",
    "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
    "unexpected end of words",
    LOOKUP,
]
RUN_FAILED = "The command '/bin/sh -c x' returned a non-zero code: 1"


def test_what_the_builder_says_of_itself_is_not_quoted(fake, evaluate):
    own = " ---> Running in 0123456789ab\nthe last words\nRemoving intermediate container 0123456789ab\n"
    fake.fault("build", "fail", stdout=f"Step 1/4 : RUN x\n{own}", stderr=RUN_FAILED)
    message = evaluate(["FROM x"], TRUE)["error"]["message"]
    assert message == "step 1 of 1 (RUN x): exit code 1: the last words"


@pytest.mark.parametrize("words", DOCKERS_WORDS)
def test_no_word_of_a_build_log_makes_an_engine_fault(fake, evaluate, words):
    """The engine works, and Docker Hub answers: whatever stands there, the Dockerfile failed."""
    fake.fault("build", "fail", stdout="Step 1/4 : FROM x\n", stderr=words)
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"


@pytest.mark.parametrize("words", DOCKERS_WORDS)
def test_no_word_before_a_failed_run_is_even_asked_about(fake, evaluate, words):
    fake.write("pull", {"stderr": LOOKUP})
    fake.fault("build", "fail", stdout=f"Step 1/4 : FROM x\nStep 2/4 : RUN x\n{words}\n", stderr=RUN_FAILED)
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"
    assert (len(fake.calls("build")), fake.calls("pull")) == (1, [])


def test_what_buildkit_quotes_of_a_failed_run_is_not_asked_about(fake, evaluate):
    fake.write("pull", {"stderr": LOOKUP})
    quoted = "executor failed running [/bin/sh -c echo dial tcp: no such host; false]: exit code: 1"
    fake.fault("build", "fail", stderr=f"#1 [internal] load build definition\n{quoted}")
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"
    assert fake.calls("pull") == []


@pytest.mark.parametrize("step", ["control build", "control run"])
def test_an_engine_on_which_the_control_fails_is_at_fault(fake, evaluate, step):
    begun = "Step 1/2 : FROM scratch\n" if step == "control build" else ""
    fake.fault(step, "fail", code=125, stdout=begun, stderr="docker: Error response from daemon: no bridge")
    report = evaluate(["FROM x", "RUN FAIL"], TRUE)
    assert report["error"]["kind"] == "engine"
    assert "Error response from daemon: no bridge" in report["error"]["message"]
    assert (report["build"]["succeeded"], report["build"]["message"]) == (False, report["error"]["message"])
    assert fake.left() == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (f"Error response from daemon: {LOOKUP}", "engine"),
        ("Error response from daemon: toomanyrequests: You have reached your pull rate limit.", "engine"),
        ("Error response from daemon: dial tcp 192.0.2.1:443: connect: connection refused", "engine"),
        ("Error response from daemon: pull access denied for x, repository does not exist", "build"),
        ("Error response from daemon: manifest for x not found: manifest unknown", "build"),
        ("denied", "build"),
    ],
)
def test_a_registry_out_of_reach_is_asked_for_a_name_that_cannot_exist(fake, evaluate, answer, kind):
    fake.write("pull", {"stderr": answer})
    fake.fault("build", "fail", stdout="Step 1/4 : FROM x\n", stderr=LOOKUP)
    error = evaluate(["FROM x"], TRUE)["error"]
    assert (error["kind"], error["message"].startswith("Docker Hub is out of reach: ")) == (
        kind,
        kind == "engine",
    )
    assert (len(fake.calls("build")), len(fake.calls("pull"))) == (2, 1)


def test_what_docker_quotes_of_a_dockerfile_is_no_word_about_a_registry(fake, evaluate):
    """Docker Hub is out of reach, and the Dockerfile could say so: its COPY fails all the same."""
    fake.write("pull", {"stderr": LOOKUP})
    words = 'ERROR: failed to compute cache key: "/a \\"dial tcp: no such host": not found'
    fake.fault("build", "fail", stderr=f"#1 [1/2] FROM x\n{words}")
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"
    assert (len(fake.calls("build")), fake.calls("pull")) == (1, [])


@pytest.mark.parametrize(
    "words",
    [
        "Error response from daemon: dockerfile parse error line 3: unknown instruction: EOF",
        "COPY failed: file not found in build context or excluded by .dockerignore: stat geoffrey: file does not exist",
        "ADD failed: file not found in build context or excluded by .dockerignore: stat x509: file does not exist",
    ],
)
def test_what_docker_names_of_a_dockerfile_is_no_word_about_a_registry(fake, evaluate, words):
    fake.write("pull", {"stderr": LOOKUP})
    fake.fault("build", "fail", stdout="Step 1/4 : FROM x\n", stderr=words)
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"
    assert (len(fake.calls("build")), fake.calls("pull")) == (1, [])


COPIES = {
    "stdout": 'Step 1/4 : FROM x\nStep 2/4 : COPY ["a", "/"]\n',
    "stderr": "COPY failed: file not found in build context: stat a\n{}: file does not exist",
}
BUILDKIT_COPIES = {"stderr": "#1 [1/2] FROM x\nERROR: failed to solve: cannot copy to non-directory: /a\n{}"}
OLD_BUILDKIT_COPIES = {
    "stderr": "#1 [1/2] FROM x\n------\n > [2/2] COPY [d, /]:\n------\nmkdir /a\n{}: not a directory"
}
HAS_A_USER = {
    "stdout": "Step 1/4 : FROM x\nStep 2/4 : RUN true\n",
    "stderr": "unable to find user {}: no matching entries in passwd file",
}


@pytest.mark.parametrize(
    ("log", "name"),
    [
        (COPIES, "error during connect"),
        (COPIES, "dial tcp"),
        (BUILDKIT_COPIES, "error during connect"),
        (BUILDKIT_COPIES, "unexpected EOF"),
        (OLD_BUILDKIT_COPIES, "error during connect"),
        (HAS_A_USER, "dial tcp"),
    ],
)
def test_no_name_in_a_dockerfile_is_a_word_of_docker(fake, evaluate, log, name):
    """Names may hold line breaks, and docker tells them as they are; Docker Hub is out of reach."""
    fake.write("pull", {"stderr": LOOKUP})
    fake.fault("build", "fail", **{stream: text.format(name) for stream, text in log.items()})
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"


@pytest.mark.parametrize(
    "words",
    [
        "received unexpected HTTP status: 500 Internal Server Error",
        "unexpected status code 520",
        "read tcp 10.0.0.2:443: read: connection timed out",
        "http2: server sent GOAWAY and closed the connection",
        "stream error: stream ID 5; INTERNAL_ERROR",
        "remote error: tls: bad record MAC",
        "filesystem layer verification failed for digest sha256:0",
    ],
)
def test_a_failure_of_docker_hub_is_no_failed_build(fake, evaluate, words):
    fake.write("pull", {"stderr": f"Error response from daemon: {words}"})
    fake.fault("build", "fail", stdout="Step 1/4 : FROM x\n", stderr=words)
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "engine"
    assert len(fake.calls("build")) == 2


def test_a_step_that_is_told_of_after_the_one_that_failed_is_not_at_fault(fake, evaluate):
    """BuildKit prints what is over first, and then a RUN of another stage that was under way."""
    why = "pulling from host registry-1.docker.io failed with status code: 429 Too Many Requests"
    log = f"#4 [b 1/2] FROM node\n#4 ERROR: {why}\n#5 [a 2/2] RUN make\n#5 CANCELED\nERROR: failed to solve: {why}"
    fake.write("pull", {"stderr": "toomanyrequests: You have reached your pull rate limit."})
    fake.fault("build", "fail", stderr=log)
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "engine"


def test_a_cut_before_a_build_that_takes_too_long_excuses_it_not(fake, evaluate):
    fake.fault("build", "fail", nth=1, stdout="Step 1/4 : FROM x\n", stderr="unexpected EOF")
    fake.fault("build", "hang", nth=2)
    assert evaluate(["FROM x"], TRUE, build_timeout=2)["error"]["kind"] == "build_timeout"


def test_a_registry_out_of_reach_is_asked_about_if_the_second_attempt_takes_too_long(fake, evaluate):
    fake.write("pull", {"stderr": LOOKUP})
    fake.fault("build", "fail", nth=1, stdout="Step 1/4 : FROM x\n", stderr=LOOKUP)
    fake.fault("build", "hang", nth=2)
    assert evaluate(["FROM x"], TRUE, build_timeout=2)["error"]["kind"] == "engine"


def test_a_docker_that_dies_in_the_second_attempt_is_an_engine_fault(fake, evaluate):
    fake.write("pull", {"stderr": "denied"})
    fake.fault("build", "fail", nth=1, stdout="Step 1/4 : FROM x\n", stderr=LOOKUP)
    fake.fault("build", "die", nth=2)
    error = evaluate(["FROM x"], TRUE)["error"]
    assert (error["kind"], "was killed during the build" in error["message"]) == ("engine", True)


def test_a_registry_that_comes_back_costs_nothing(fake, evaluate):
    fake.fault("build", "fail", nth=1, stdout="Step 1/4 : FROM x\n", stderr=LOOKUP)
    assert statuses(evaluate(["FROM x"], TRUE)) == {"run_command_1": "passed"}


@pytest.mark.parametrize(
    "words",
    [
        "unexpected EOF",
        'time="2026-01-01T00:00:00Z" level=warning msg="something"\nWARNING: something\nunexpected EOF',
        # buildx, and since 0.26 with one more prefix
        "ERROR: failed to receive status: rpc error: code = Unavailable desc = error reading from server: EOF",
        "ERROR: failed to build: failed to receive status: rpc error: code = Unavailable desc = closing",
    ],
)
@pytest.mark.parametrize(("nth", "kind"), [({"nth": 1}, None), ({}, "engine")])
def test_a_connection_that_is_cut_in_the_build_is_tried_once_more(fake, evaluate, nth, kind, words):
    fake.fault("build", "fail", stdout="Step 1/4 : FROM x\n", stderr=words, **nth)
    error = evaluate(["FROM x"], TRUE)["error"]
    assert (error and error["kind"]) == kind


@pytest.mark.parametrize("words", ["ADD failed: unexpected EOF", "failed to load cache key: unexpected EOF"])
def test_an_archive_that_is_broken_off_is_the_dockerfiles(fake, evaluate, words):
    fake.write("pull", {"stderr": "denied"})
    fake.fault("build", "fail", stdout="Step 1/4 : FROM x\nStep 2/4 : ADD x /\n", stderr=words)
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"


@pytest.mark.parametrize("on", ["build", "run"])
def test_an_engine_that_was_restarted_is_at_fault(fake, evaluate, on):
    fake.fault(on, "restart")
    killed = run_command("kill -9 $PPID")  # the shell that would print the end mark
    report = evaluate(["FROM x", "RUN FAIL" if on == "build" else ""], killed)
    assert report["error"]["kind"] == "engine"
    assert "restarted" in report["error"]["message"]


def test_a_killed_docker_program_is_no_failed_build(fake, evaluate):
    fake.fault("build", "die")
    assert_holds(evaluate(["FROM x"], TRUE)["error"], kind="engine")


def test_a_docker_that_cannot_see_temporary_folders_is_no_engine_fault(fake, evaluate):
    """As docker from a snap: nothing is known of the engine then, and the Dockerfile failed."""
    fake.fault("control build", "fail", stderr="unable to prepare context: path not found")
    assert_holds(evaluate(["FROM x", "RUN FAIL"], TRUE)["error"], kind="build")


def test_options_and_contexts_that_docker_refuses_are_usage(fake, evaluate):
    fake.fault(
        "build", "fail", given="--bogus", code=125, stderr="unknown flag: --bogus\n\nUsage:  docker build"
    )
    fake.fault("control build", "fail", given="--bogus", code=125, stderr="unknown flag: --bogus")
    report = evaluate(["FROM x"], TRUE, build_options=["--bogus"])
    words = "docker refuses the build options or context: unknown flag: --bogus"
    assert report["error"] == {"kind": "usage", "message": words}


def test_a_target_without_a_value_is_usage(fake, evaluate):
    """It takes a label of ours for its value, and docker one for the context."""
    for on in ("build", "control build"):
        fake.fault(on, "fail", given="--target", stderr='ERROR: "docker build" requires exactly 1 argument.')
    assert evaluate(["FROM x"], TRUE, build_options=["--target"])["error"]["kind"] == "usage"


def test_a_target_that_podman_does_not_find_is_the_dockerfiles(fake, evaluate):
    """It looks for it before the first step, and would do so in a Dockerfile of ours."""
    for on in ("build", "control build"):
        words = 'Error: the target "final" was not found in the provided Dockerfile'
        fake.fault(on, "fail", given="--target=final", stderr=words)
    assert evaluate(["FROM x"], TRUE, build_options=["--target=final"])["error"]["kind"] == "build"


def test_a_context_that_docker_refuses_is_told_from_options(fake, evaluate, tmp_path):
    context = tmp_path / "context"
    context.mkdir()
    for on in ("build", "control build"):
        fake.fault(on, "fail", given=str(context), stderr="error checking context: syntax error in pattern")
    report = evaluate(["FROM x"], TRUE, context=str(context), build_options=["--pull"])
    words = f"{de.REFUSED_CONTEXT}: error checking context: syntax error in pattern"
    assert report["error"] == {"kind": "usage", "message": words}
    assert fake.left() == []


def test_a_dockerfile_that_docker_refuses_at_once_is_at_fault_itself(fake, evaluate):
    fake.fault("build", "fail", stderr="the Dockerfile (Dockerfile) cannot be empty")
    assert_holds(
        evaluate([""], TRUE)["error"], kind="build", message="the Dockerfile (Dockerfile) cannot be empty"
    )


@pytest.mark.parametrize("server", ["", ', "Server": {"Version": "5.4.2", "OsArch": "linux/amd64"}'])
def test_podman_is_known_here_and_by_a_url(fake, evaluate, server):
    """It calls an image's id otherwise; behind a URL it names a server, too."""
    client = '{"Version": "5.4.2", "BuiltTime": "Thu Jan  1 00:00:00 1970", "OsArch": "linux/amd64"}'
    fake.fault("version", "fail", code=0, stdout=f'{{"Client": {client}{server}}}')
    fake.write("podman", True)
    assert statuses(evaluate(["FROM x"], TRUE)) == {"run_command_1": "passed"}


def test_a_failed_build_with_options_on_podman_is_a_failed_build(fake, evaluate):
    """Its refusal of a RUN does not name the program, so its control has none."""
    fake.fault("version", "fail", code=0, stdout='{"Client": {"Version": "5.4.2", "OsArch": "linux/amd64"}}')
    fake.fault("build", "fail", stderr="STEP 1/2: FROM x\nError: while running runtime: exit status 1")
    assert evaluate(["FROM x"], TRUE, build_options=["--layers=false"])["error"]["kind"] == "build"


def test_the_control_runs_detached(fake, evaluate):
    """Attached, docker 28 tells of a container that podman 4.3's engine cannot start only that it cannot attach."""
    evaluate(["FROM x", "RUN FAIL"], TRUE)
    (control,) = [call for call in fake.calls() if call[0] == "run"]
    assert "--detach" in control


def test_no_signal_goes_to_a_number_that_may_be_somebody_elses_by_now(monkeypatch):
    signals = []
    with de.Process(["true"], os.environ) as process:
        assert process.wait(60) == 0
        monkeypatch.setattr(os, "killpg", lambda *words: signals.append(words))
        process.kill()
    assert signals == []


def test_a_build_option_that_only_fails_at_a_run_is_usage(fake, evaluate):
    fake.fault("build", "fail", stdout="Step 1/4 : FROM x\n", stderr="Minimum memory limit allowed is 6MB")
    begun = "Step 1/3 : FROM scratch\n"
    fake.fault(
        "control build",
        "fail",
        given="--memory=1k",
        stdout=begun,
        stderr="Minimum memory limit allowed is 6MB",
    )
    assert_holds(evaluate(["FROM x"], TRUE, build_options=["--memory=1k"])["error"], kind="usage")


def test_an_argument_that_is_too_long_for_the_machine_is_an_engine_fault(fake, evaluate):
    fake.is_forked = False
    names = ["x" * 100_000] * 10
    long = [("commands_exist", {"names": names})]
    os.environ.update({f"BIG_{i}": "y" * 120_000 for i in range(12)})
    try:
        report = evaluate(["FROM x"], *long)
    finally:
        for i in range(12):
            del os.environ[f"BIG_{i}"]
    assert report["test_results"][0]["message"] == "'docker' cannot be started: Argument list too long"
    assert "left on the engine" not in report["error"]["message"]


def test_a_build_that_takes_too_long(fake, evaluate):
    report = evaluate(["FROM x", "RUN SLEEP"], TRUE, build_timeout=0.5)
    assert report["error"] == {
        "kind": "build_timeout",
        "message": "the build took over 0.5 s and was stopped",
    }
    assert statuses(report) == {"run_command_1": "not_run"}


def test_a_slow_engine_does_not_prolong_a_build_again_and_again(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "START_LIMIT", 2.0)
    fake.fault("version", "delay", seconds=0.7)
    fake.fault("network inspect", "delay", seconds=0.7)
    report = evaluate(["FROM x", "RUN SLEEP"], TRUE, build_timeout=0.5)
    assert report["error"]["kind"] == "build_timeout"


def test_a_build_whose_image_was_not_loaded(fake, evaluate):
    report = evaluate(["FROM x", "RUN NOLOAD"], TRUE)
    assert report["error"]["kind"] == "engine"
    assert "did not load it" in report["error"]["message"]


def test_an_environment_of_any_length_is_no_engine_fault(fake, evaluate):
    fake.write("config", {"Env": ["PATH=/bin", "A=" + "x" * 4_300_000]})
    assert statuses(evaluate(["FROM x"], TRUE)) == {"run_command_1": "passed"}


def test_an_image_of_another_run_under_our_tag_is_not_tested(fake, evaluate):
    fake.write("config", {"Labels": {"io.dockerfile-evaluator.run": "0" * 12}})
    report = evaluate(["FROM x"], TRUE)
    assert report["error"]["kind"] == "engine"
    assert "the engine has no such image" in report["error"]["message"]
    assert fake.calls("run") == []


def test_an_engine_lost_during_the_build(fake, evaluate):
    fake.fault("build", "lose")
    report = evaluate(["FROM x"], TRUE)
    assert report["error"]["kind"] == "engine"
    assert statuses(report) == {"run_command_1": "not_run"}


@pytest.mark.parametrize(
    "words",
    [  # all but the last, from moby's source, seen with four builds at once on docker 20.10 and podman 5.4
        "Error response from daemon: No such image: sha256:{id}",
        "unknown parent image ID sha256:{id}",
        "failed to get digest sha256:{id}: open /x/imagedb/content/sha256/{id}: no such file or directory",
        "Error: checking if cached image exists from a previous build: getting top layer info: layer not known",
        "failed to get layer sha256:{id}: layer does not exist",
    ],
)
def test_a_layer_that_another_runs_clean_up_took_is_built_again(fake, evaluate, words):
    words = "Error: what a RUN of the Dockerfile printed\n" + words.format(id="0" * 64)
    fake.fault("build", "fail", nth=1, stderr=words)
    report = evaluate(["FROM x"], TRUE)
    assert (statuses(report), report["error"]) == ({"run_command_1": "passed"}, None)
    fake.fault("build", "fail", stderr=words)
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"
    assert len(fake.calls("build")) == 2 + de.BUILD_ATTEMPTS


@pytest.mark.parametrize("fault", [{"code": 125, "stderr": NAME_IN_USE}, {"code": 1, "stderr": ""}])
def test_one_start_that_fails_by_chance_costs_nothing(fake, evaluate, fault):
    fake.fault("run", "fail", nth=1, **fault)
    report = evaluate(["FROM x"], TRUE)
    assert (statuses(report), report["error"]) == ({"run_command_1": "passed"}, None)
    assert fake.left() == []


CANNOT_START = {"code": 125, "stderr": "docker: Error response from daemon: no space left on device."}


@pytest.mark.parametrize(("on", "status"), [(["run"], "failed"), (["run", "control run"], "error")])
def test_the_control_decides_whether_image_or_engine_cannot_be_started(fake, evaluate, on, status):
    for step in on:
        fake.fault(step, "fail", **CANNOT_START)
    report = evaluate(["FROM x"], TRUE)
    row = report["test_results"][0]
    assert row["status"] == status
    assert "no space left on device" in row["message"]
    assert (report["error"] is None) == (status == "failed")
    assert fake.left() == []


def test_a_run_option_that_no_container_can_start_with_is_usage(fake, evaluate):
    for step in ("run", "control run"):
        fake.fault(step, "fail", given="--memory=1k", **CANNOT_START)
    report = evaluate(["FROM x"], TRUE, LOOK, run_options=["--memory=1k"])
    assert report["error"]["kind"] == "usage"
    assert "no space left on device" in report["error"]["message"]
    assert set(statuses(report).values()) == {"not_run"}
    assert fake.left() == []


@pytest.mark.parametrize(
    ("config", "status"), [({"User": "nobody"}, "failed"), ({"WorkingDir": "/x"}, "failed"), ({}, "error")]
)
def test_an_unusable_user_or_workdir_is_the_images_fault(fake, evaluate, config, status):
    fake.write("config", config)
    for nth in (1, 2, 4):
        fake.fault(
            "run",
            "fail",
            nth=nth,
            code=125,
            stderr="docker: Error response from daemon: unable to find user nobody.",
        )
    report = evaluate(["FROM x"], TRUE)
    row = report["test_results"][0]
    assert row["status"] == status
    assert "unable to find user nobody" in row["message"]
    probes = [call for call in fake.calls("run") if {"--user=0", "--workdir=/"} & set(call)]
    assert len(probes) == 1


def test_a_start_that_fails_twice_by_chance_is_not_blamed_on_user_or_workdir(fake, evaluate):
    fake.write("config", {"WorkingDir": "/app"})
    for nth in (1, 2):
        fake.fault(
            "run", "fail", nth=nth, code=125, stderr="docker: Error response from daemon: exchange full."
        )
    assert statuses(evaluate(["FROM x"], TRUE)) == {"run_command_1": "passed"}


def test_a_user_of_the_image_is_not_blamed_on_the_run_options(fake, evaluate):
    fake.write("config", {"User": "nosuch"})
    words = "docker: Error response from daemon: unable to find user nosuch."
    for nth in (1, 2, 4, 5):
        fake.fault("run", "fail", nth=nth, code=125, stderr=words)
    report = evaluate(["FROM x"], TRUE, run_options=["--group-add=27"])
    assert (statuses(report), report["error"]) == ({"run_command_1": "failed"}, None)


def test_a_workdir_that_the_users_user_may_not_enter_is_the_images_fault(fake, evaluate):
    """Probes: without both, with the image's own user, and with the user's in another folder."""
    fake.write("config", {"WorkingDir": "/root/app"})
    words = "docker: Error response from daemon: chdir to cwd (/root/app): permission denied."
    for nth in (1, 2, 6):
        fake.fault("run", "fail", nth=nth, code=126, stderr=words)
    report = evaluate(["FROM x"], TRUE, run_options=["--user=1000"])
    assert (statuses(report), report["error"]) == ({"run_command_1": "failed"}, None)
    assert {"--user=1000", "--workdir=/"} <= set(fake.calls("run")[5])


def test_a_user_that_the_run_option_gave_is_not_the_images_fault(fake, evaluate):
    fake.write("config", {"User": "app"})
    words = "docker: Error response from daemon: unable to find user nosuch."
    fake.fault("run", "fail", given="--user=nosuch", code=125, stderr=words)
    error = evaluate(["FROM x"], TRUE, run_options=["--user=nosuch"])["error"]
    assert (error["kind"], "unable to find user nosuch" in error["message"]) == ("usage", True)


def test_a_probe_without_the_user_has_the_network_of_the_test(fake, evaluate):
    fake.write("config", {"User": "app"})
    fake.fault(
        "run", "fail", code=125, stderr="docker: Error response from daemon: port is already allocated."
    )
    evaluate(["FROM x"], TRUE, LOOK)
    probes = [call for call in fake.calls("run") if "--user=0" in call]
    assert sorted("--network=none" in call for call in probes) == [False, True]


NO_LIMITS = {"code": 126, "stderr": "Error: crun: cannot set limits without cgroups: OCI runtime error"}


def test_an_engine_that_cannot_limit_processes_does_without_and_the_report_says_so(fake, evaluate):
    fake.fault("run", "fail", given="--pids-limit=4096", **NO_LIMITS)
    report = evaluate(["FROM x"], LOOK, LOOK, TRUE, TRUE)
    assert (report["summary"]["passed_tests"], report["error"]) == (4, None)
    words = "no-pids-limit: --pids-limit is left out, since the engine can set none"
    assert report["warnings"] == [words]
    assert "--pids-limit=4096" not in fake.calls("run")[-1]


def test_a_limit_that_the_user_gave_is_not_left_out(fake, evaluate):
    for step in ("run", "control run"):
        fake.fault(step, "fail", given="--pids-limit=9", **NO_LIMITS)
    error = evaluate(["FROM x"], TRUE, run_options=["--pids-limit=9"])["error"]
    assert (error["kind"], "cannot set limits without cgroups" in error["message"]) == ("usage", True)


def test_a_missing_shell_is_the_images_fault(fake, evaluate):
    words = 'docker: Error response from daemon: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown.'
    fake.fault("run", "fail", code=127, stderr=words)
    row = evaluate(["FROM x"], output_contains("x", "file"))["test_results"][0]
    assert (row["status"], "no usable /bin/sh" in row["message"]) == ("failed", True)


def test_an_image_that_vanished_is_an_engine_fault(fake, evaluate):
    fake.fault("image inspect", "fail", **{"from": 2}, stderr="Error: No such image: x")
    fake.fault("run", "fail", code=125, stderr="docker: Error: No such image: x.")
    report = evaluate(["FROM x"], TRUE)
    assert report["test_results"][0]["message"] == "the image that was built is gone from the engine"
    assert report["error"]["kind"] == "engine"


def test_an_engine_lost_during_the_tests(fake, evaluate):
    fake.fault("run", "lose", nth=2)
    report = evaluate(["FROM x"], TRUE, TRUE, TRUE, TRUE)
    assert list(statuses(report).values()) == ["passed", "error", "error", "not_run"]
    assert report["error"]["kind"] == "engine"


def test_a_slow_start_takes_nothing_of_a_tests_time(fake, evaluate):
    fake.fault("run", "delay", seconds=1.2)
    report = evaluate(["FROM x"], run_command("sleep 0.1", timeout=1))
    assert statuses(report) == {"run_command_1": "passed"}
    assert report["test_results"][0]["execution_time"] < 1


def test_a_start_that_hangs_is_an_engine_fault(fake, evaluate):
    fake.fault("run", "hang", nth=1)
    report = evaluate(["FROM x"], TRUE, TRUE)
    assert list(statuses(report).values()) == ["error", "passed"]
    assert report["test_results"][0]["message"] == "docker did not start the container within 2 s"
    assert report["error"]["kind"] == "engine"
    assert fake.left() == []


def test_a_shell_that_starts_and_says_nothing_is_the_images_fault(fake, evaluate, monkeypatch, tmp_path):
    monkeypatch.setattr(de, "START_LIMIT", 3.0)
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nsleep 60\n")
    silent.chmod(0o755)
    fake.write("shell", [str(silent)])
    report = evaluate(["FROM x"], TRUE)
    why = "the image's /bin/sh was started, but did not begin the check for 3 s"
    assert [(row["status"], row["message"]) for row in report["test_results"]] == [("failed", why)]
    assert (report["error"], fake.left()) == (None, [])


@pytest.mark.parametrize("on", ["container rm", "image rm", "ps"])
def test_clean_up_that_hangs_is_bounded_and_named(fake, evaluate, on):
    fake.fault(on, "hang", **{"from": 2 if on == "ps" else 1})
    slow = run_command("sleep 60", timeout=0.3)
    started = time.monotonic()
    report = evaluate(["FROM x"], slow)
    assert time.monotonic() - started < 60
    assert report["error"]["kind"] == "engine"
    assert "dockerfile-evaluator" in report["error"]["message"]


def test_a_large_image_may_take_longer_to_remove_than_a_question(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CALL_LIMIT", 1.0)
    monkeypatch.setattr(de, "RETURN_LIMIT", 0.5)
    fake.fault("image rm", "delay", nth=1, seconds=2.5)
    report = evaluate(["FROM x"], TRUE)
    assert (report["error"], fake.left()) == (None, [])


def test_a_slow_removal_excuses_no_test_that_timed_out(fake, evaluate, monkeypatch):
    for limit, seconds in {"REMOVE_LIMIT": 1.5, "CALL_LIMIT": 1.5, "RETURN_LIMIT": 0.5}.items():
        monkeypatch.setattr(de, limit, seconds)
    fake.fault("container rm", "delay", nth=1, seconds=4)
    report = evaluate(["FROM x"], run_command("sleep 600", timeout=0.5))
    assert (statuses(report), report["error"]) == ({"run_command_1": "timeout"}, None)
    assert fake.left() == []


def test_a_docker_that_may_not_be_killed_is_not_waited_for(monkeypatch):
    """As one behind sudo."""
    monkeypatch.setattr(de, "KILL_LIMIT", 0.1)
    kill = os.killpg
    with de.Process(["sleep", "600"], os.environ) as process:
        monkeypatch.setattr(os, "killpg", lambda *_: None)
        process.kill()
        assert process.wait(0) is None
        monkeypatch.setattr(os, "killpg", kill)


def test_one_answer_that_fails_in_clean_up_is_asked_again(fake, evaluate):
    fake.fault("image rm", "fail", nth=1, stderr="Error response from daemon: conflict")
    report = evaluate(["FROM x"], TRUE)
    assert (report["error"], fake.left()) == (None, [])


def test_what_cannot_be_removed_is_named(fake, evaluate):
    fake.fault("image rm", "fail", stderr="Error response from daemon: conflict: in use")
    report = evaluate(["FROM x"], TRUE)
    assert statuses(report) == {"run_command_1": "passed"}
    assert report["error"]["kind"] == "engine"
    assert "left on the engine: image dockerfile-evaluator:" in report["error"]["message"]
    assert "conflict: in use" in report["error"]["message"]


def test_a_docker_that_dies_is_no_pass(fake, evaluate):
    fake.fault("run", "die", nth=1)
    fake.fault("run", "die", nth=2)
    row = evaluate(["FROM x"], TRUE)["test_results"][0]
    assert row["passed"] is False


@pytest.mark.parametrize("has_bridge", [True, False])
@pytest.mark.parametrize(("restarted", "status"), [(True, "error"), (False, "failed")])
def test_an_engine_that_restarted_during_a_test_is_told_from_a_killed_process(
    fake, evaluate, restarted, status, has_bridge
):
    """By its bridge, or where it has none, by its events."""
    if not has_bridge:
        fake.fault("network inspect", "fail", stderr="no such network: bridge")
    fake.write("restarted", restarted and not has_bridge)
    if restarted and has_bridge:
        fake.fault("run", "restart")
    row = evaluate(["FROM x"], run_command("kill -9 $PPID"))["test_results"][0]
    assert row["status"] == status


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_docker_program_that_dies_is_an_engine_fault(fake, evaluate, moment):
    """Before the begin mark it is tried once more."""
    if moment == "before":
        fake.fault("run", "die", nth=1)
        assert statuses(evaluate(["FROM x"], TRUE)) == {"run_command_1": "passed"}
    else:
        row = evaluate(["FROM x"], run_command(f"kill -9 $(cat {fake.folder}/program.pid); sleep 60"))
        assert row["test_results"][0]["status"] == "error"
        assert fake.left() == []


@pytest.mark.parametrize(("times", "status"), [(1, "passed"), (2, "failed")])
def test_a_connection_cut_after_the_end_mark_is_tried_once_more(fake, evaluate, tmp_path, times, status):
    program = tmp_path / "cut-docker"
    lines = ["#!/bin/sh", f'test $1 = run && echo >>{tmp_path}/runs || exec {fake.program} "$@"']
    lines += [f'test $(wc -l <{tmp_path}/runs) -gt {times} && exec {fake.program} "$@"']
    lines += [f'{fake.program} "$@"', "echo error during connect: EOF >&2", "exit 125"]
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    report = evaluate(["FROM x"], TRUE, docker=str(program))
    assert (statuses(report), report["error"]) == ({"run_command_1": status}, None)


def leave(fake, owner, expires, run="0123456789ab"):
    labels = {"run": run, "owner": owner, "expires": expires}
    labels = {f"io.dockerfile-evaluator.{key}": str(value) for key, value in labels.items()}
    name = f"dockerfile-evaluator-{run}-1"
    (fake.folder / "containers" / name).write_text(json.dumps({"pid": 2**22 + 1, "labels": labels}))
    (fake.folder / "images" / f"dockerfile-evaluator:{run}").write_text(
        json.dumps({"Config": {"Labels": labels}})
    )
    return [name, f"dockerfile-evaluator:{run}"]


def here(pid, started):
    return f"{de._owner().rpartition(']/')[0]}]/{pid}/{started}"


PAST, FUTURE = 1_000_000_000, 2_000_000_000


def test_what_a_dead_run_left_is_removed(fake, evaluate):
    leave(fake, here(2**22 + 1, 5), FUTURE, "00000000000a")
    leave(fake, here(os.getpid(), 5), FUTURE, "00000000000b")  # another process had our pid
    leave(fake, "elsewhere/pid:[1]/1/1", PAST, "00000000000c")
    leave(fake, "unknown", PAST, "00000000000d")
    evaluate(["FROM x"], TRUE)
    assert fake.left() == []


def test_what_a_live_run_made_is_left_alone(fake, evaluate):
    live = leave(fake, de._owner(), PAST, "00000000000a")
    live += leave(fake, "elsewhere/pid:[1]/1/1", FUTURE, "00000000000b")
    live += leave(fake, "unknown", FUTURE, "00000000000c")
    evaluate(["FROM x"], TRUE)
    assert fake.left() == sorted(live)


def test_a_live_run_whose_process_hides_is_left_alone(fake, evaluate, monkeypatch):
    live = leave(fake, de._owner(), FUTURE, "00000000000a")
    dead = leave(fake, here(2**22 + 1, 5), FUTURE, "00000000000b")
    own = de._owner()
    monkeypatch.setattr(de, "_owner", lambda: own)
    monkeypatch.setattr(de, "_start_time", lambda pid: "" if pid == os.getpid() else "ended")
    evaluate(["FROM x"], TRUE)
    assert fake.left() == sorted(live)
    assert dead


def test_labels_alone_make_nothing_ours(fake, evaluate):
    labels = {"io.dockerfile-evaluator.run": "00000000000a", "io.dockerfile-evaluator.expires": "1"}
    for name in ("somebodys", "dockerfile-evaluator-00000000000b-1"):
        (fake.folder / "containers" / name).write_text(json.dumps({"pid": 2**22 + 1, "labels": labels}))
    for tag in ("dockerfile-evaluator:mine", "dockerfile-evaluator:x-00000000000a-kept"):
        (fake.folder / "images" / tag).write_text(json.dumps({"Config": {"Labels": labels}}))
    before = fake.left()
    evaluate(["FROM x"], TRUE)
    assert fake.left() == before


def test_a_kept_image_stays_under_a_name_of_its_own(fake, evaluate):
    report = evaluate(["FROM x"], TRUE, keep_image=True)
    assert fake.left() == [report["environment"]["kept_image"]]
    assert report["environment"]["kept_image"].startswith("dockerfile-evaluator:example-")
    assert report["environment"]["kept_image"].endswith("-kept")


def test_an_interrupt_while_an_image_is_kept_hides_none(fake, arguments, report):
    fake.fault("image tag", "delay", seconds=1)
    process = subprocess.Popen([*PROGRAM, *arguments(["FROM x"], TRUE, more=["--keep-image"])], **PIPES)
    wait_for(lambda: fake.calls("image", "tag"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert fake.left() == [report()["environment"]["kept_image"]]


def test_evaluations_in_several_threads_do_not_meet(fake, dockerfile, rubric):
    path, tests = dockerfile("FROM x"), rubric(TRUE, LOOK, run_command("false"))
    reports = []
    threads = [
        threading.Thread(target=lambda: reports.append(de.evaluate(path, "r", tests))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [list(statuses(report).values()) for report in reports] == [["passed", "passed", "failed"]] * 4
    assert fake.left() == []


def test_what_reaches_docker(fake, evaluate):
    options = {"run_options": ["--memory=1g", "--pids-limit=9"], "build_options": ["--network=host"]}
    evaluate(["FROM x"], TRUE, LOOK, **options)
    build = fake.calls("build")[0]
    command, look = sorted(fake.calls("run", "--name"), key=lambda call: "--network=none" in call)
    ours = "--rm --pull=never --log-driver=none --no-healthcheck --memory=1g --pids-limit=9"
    assert {"--force-rm", "--network=host"} < set(build)
    assert set(ours.split()) < set(command)
    assert "--pids-limit=4096" not in command
    assert "--network=none" in look
    assert command[command.index("--entrypoint") + 1] == "/bin/sh"
    assert command.index("--memory=1g") < command.index("--label")


def test_run_options_that_docker_refuses_are_known_before_the_build(fake, evaluate):
    fake.fault("run", "fail", code=125, stderr="unknown flag: --memori\n\nUsage:  docker run", help=True)
    report = evaluate(["FROM x"], TRUE, run_options=["--memori=1"])
    assert report["error"]["kind"] == "usage"
    words = "docker refuses the run options: unknown flag: --memori Usage: docker run"
    assert report["error"]["message"] == words
    assert fake.calls("build") == []


def test_a_users_network_replaces_ours(fake, evaluate):
    evaluate(["FROM x"], LOOK, run_options=["--net=host"])
    assert "--net=host" in fake.calls("run")[0]
    assert "--network=none" not in fake.calls("run")[0]


OURS_OF_RUN = "--name=x --rm=false --entrypoint=x -d -it -Pd --tty --cidfile=x --help --attach=stderr -astderr --restart=always"
OURS_OF_BUILD = "--tag=x -tx -f=x --quiet -q --output=x --load --push --iidfile=x"
OURS_OF_BUILD += " --progress=quiet --call=check --check --print=outline --logfile=x"


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        *(("run", word) for word in OURS_OF_RUN.split()),
        *(("build", word) for word in OURS_OF_BUILD.split()),
        *(("run", word) for word in ["image", "", "-", "--", "-1"]),
    ],
)
def test_options_that_would_break_us_are_wrong_usage(evaluate, kind, word):
    with pytest.raises(ValueError, match=r"expected one word|the evaluation depends on it"):
        evaluate(["FROM x"], TRUE, **{f"{kind}_options": [word]})


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        *(("run", word) for word in ["--memory=2g", "-m2g", "-eNAME=dit", "--init", "-u0", "-P"]),
        *(("build", word) for word in ["--network=host", "--no-cache", "--progress=plain"]),
    ],
)
def test_other_options_are_handed_on(fake, evaluate, kind, word):
    evaluate(["FROM x"], TRUE, **{f"{kind}_options": [word]})
    assert word in fake.calls(kind)[0]


@pytest.mark.parametrize(
    ("option", "most"),
    [
        ("--memory=1g", 2),
        ("--publish=80:80", 1),
        ("-p=80:80", 1),
        ("-p80:80", 1),
        ("--ip=172.29.0.9", 1),
        ("--network=name=n,ip=172.29.0.9", 1),
        ("--publish-all", 2),
    ],
)
def test_what_only_one_container_can_have_is_asked_for_by_one_at_a_time(
    fake, evaluate, monkeypatch, option, most
):
    monkeypatch.setattr(de, "LOOKS_AT_ONCE", 2)
    fake.fault("run", "delay", seconds=0.3)
    start, now, seen = de.Docker._container, [], []

    def counted(docker, *words, **more):
        now.append(1)
        seen.append(len(now))
        try:
            return start(docker, *words, **more)
        finally:
            now.pop()

    monkeypatch.setattr(de.Docker, "_container", counted)
    report = evaluate(["FROM x"], LOOK, LOOK, TRUE, run_options=[option])
    assert report["summary"]["passed_tests"] == 3
    assert max(seen) == most


def test_no_container_is_started_once_somebody_asked_for_the_end(fake):
    stop = de.Stop()
    docker = de.Docker(de.Engine("docker", None, stop), stop)
    stop.ask()
    assert docker.run(de.Script(":"), 1.0, network=False).ending == de.NOT_RUN
    assert fake.calls("run") == []


def test_an_engine_that_keeps_what_the_control_made_is_not_well(fake):
    assert de.check_engine() == ""
    fake.fault("image rm", "fail", stderr="Error response from daemon: conflict")
    assert "conflict" in de.check_engine()
