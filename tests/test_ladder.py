"""Engine or Dockerfile? The ladder: the engine, its control, the user's options, the context."""

from __future__ import annotations

import os
import tempfile

import pytest
from cases import LOOK, TRUE
from conftest import assert_holds, statuses

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("short_limits")

NO_BRIDGE = "docker: Error response from daemon: no bridge"
NO_SPACE = {"code": 125, "stderr": "docker: Error response from daemon: no space left on device."}
BEGUN = "Step 1/2 : FROM scratch\n"
CUT = {"stdout": "Step 1/4 : FROM x\nStep 2/4 : RUN x\n", "stderr": "cannot do that"}
PODMAN = '{"Client": {"Version": "5.4.2", "OsArch": "linux/amd64"}}'


def kind_of(report):
    return report["error"] and report["error"]["kind"]


# Rung 1: the engine answers


def test_no_docker_program(evaluate):
    report = evaluate(["FROM x"], TRUE, docker="no-such-docker")
    assert report["error"]["kind"] == "engine"
    assert "no program 'no-such-docker' found" in report["error"]["message"]
    assert "tests/with-engine" in report["error"]["message"]
    assert statuses(report) == {"run_command_1": "not_run"}


def test_without_an_engine_no_test_runs(fake, evaluate):
    fake.fault("*", "lose", nth=1)
    report = evaluate(["FROM x"], TRUE)
    assert report["error"]["kind"] == "engine"
    assert "Cannot connect to the Docker daemon" in report["error"]["message"]
    assert "tests/with-engine" in report["error"]["message"]


def test_an_engine_that_never_answers(fake, evaluate, limit):
    limit(call=1.0)
    fake.fault("*", "hang")
    report = evaluate(["FROM x"], TRUE)
    assert report["error"] == {"kind": "engine", "message": "docker version gave no answer within 1 s"}


def test_an_engine_that_stops_answering_after_a_failed_build(fake, evaluate, limit):
    limit(clean_up=0.5)
    fake.fault("build", "fail", **CUT)
    fake.fault("control build", "lose")
    assert kind_of(evaluate(["FROM x"], TRUE)) == "engine"


# Rung 2: the control


@pytest.mark.parametrize("step", ["control build", "control run"])
def test_an_engine_on_which_the_control_fails_is_at_fault(fake, evaluate, step):
    begun = BEGUN if step == "control build" else ""
    fake.fault(step, "fail", code=125, stdout=begun, stderr=NO_BRIDGE)
    report = evaluate(["FROM x", "RUN FAIL"], TRUE)
    assert report["error"]["kind"] == "engine"
    assert NO_BRIDGE in report["error"]["message"]
    assert_holds(report["build"], succeeded=False, message=report["error"]["message"])
    assert fake.left() == []


@pytest.mark.parametrize(("on", "status"), [(["run"], "failed"), (["run", "control run"], "error")])
def test_the_control_decides_whether_image_or_engine_cannot_be_started(fake, evaluate, on, status):
    for step in on:
        fake.fault(step, "fail", **NO_SPACE)
    report = evaluate(["FROM x"], TRUE)
    row = report["test_results"][0]
    assert (row["status"], "no space left on device" in row["message"]) == (status, True)
    assert (report["error"] is None) == (status == "failed")
    assert fake.left() == []


@pytest.mark.parametrize(
    ("code", "stderr", "kind"),
    [  # a missing device says the same but for the path, and the control's path is a random one
        (127, 'docker: Error: exec: "/nosuch": stat /nosuch: no such file or directory.', "engine"),
        (127, "docker: Error: gathering device information: no such file or directory.", "engine"),
        (0, "", "engine"),
    ],
)
def test_only_a_refusal_that_names_the_controls_path_shows_that_it_was_started(
    fake, evaluate, code, stderr, kind
):
    fake.fault("control run", "fail", code=code, stderr=stderr)
    assert kind_of(evaluate(["FROM x", "RUN FAIL"], TRUE)) == kind


def test_a_control_that_state_says_was_started_is_well(fake, evaluate):
    """With --init docker starts, and then looks for the program: its refusal names no path."""
    fake.fault("control run", "fail", code=127, stderr="[FATAL tini] exec failed: No such file or directory")
    answer = '{"Running": false, "ExitCode": 127, "StartedAt": "2026-01-01T00:00:00Z"}'
    fake.fault("container inspect", "fail", code=0, stdout=answer)
    assert kind_of(evaluate(["FROM x", "RUN FAIL"], TRUE, run_options=["--init"])) == "build"


def test_the_control_runs_detached_and_leaves_nothing(fake, evaluate):
    """Attached, docker 28 tells of a container that podman 4.3's engine cannot start only that it cannot attach."""
    evaluate(["FROM x", "RUN FAIL"], TRUE)
    (control,) = [call for call in fake.calls() if call[0] == "run"]
    assert "--detach" in control
    assert fake.left() == []


def test_the_control_of_the_engine_has_none_of_the_users_options(fake, evaluate):
    evaluate(["FROM x", "RUN FAIL"], TRUE, build_options=["--pull"], run_options=["--memory=1g"])
    controls = [call for call in fake.calls() if call[0] in ("build", "run") and call[-1] != "--help"][1:]
    first_build, first_run = controls[:2]
    assert ("--pull" in first_build, "--memory=1g" in first_run) == (False, False)


@pytest.mark.parametrize(("do", "kind"), [("fail", "build"), ("hang", "engine")])
@pytest.mark.parametrize("on", ["container rm", "image rm"])
def test_a_control_that_the_engine_refuses_to_remove_is_a_leftover_and_no_answer_its_fault(
    fake, evaluate, limit, on, do, kind
):
    limit(call=1.0)
    fake.fault(on, do, nth=1, stderr="Error response from daemon: conflict")
    report = evaluate(["FROM x", "RUN FAIL"], TRUE)
    assert (kind_of(report), fake.left()) == (kind, [])


def test_a_docker_that_cannot_see_temporary_folders_is_no_engine_fault(fake, evaluate):
    """As docker from a snap: nothing is known of the engine then, and the Dockerfile failed."""
    fake.fault("control build", "fail", stderr="unable to prepare context: path not found")
    assert kind_of(evaluate(["FROM x", "RUN FAIL"], TRUE, build_options=["--pull"])) == "build"


def test_no_temporary_folder_for_the_control_is_an_engine_fault(fake, evaluate, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/no/such")
    error = evaluate(["FROM x", "RUN FAIL"], TRUE)["error"]
    assert (error["kind"], "no temporary folder" in error["message"]) == ("engine", True)


def test_each_control_has_content_of_its_own(fake, evaluate, monkeypatch):
    """Else the cache answers; and its program is one that cannot be there."""
    contents, entries = [], []
    build = de.Engine.build

    def look(engine, tag, dockerfile, context, *more):
        file = os.path.join(context, "content")
        if os.path.exists(file):
            with open(file, "rb") as content:
                contents.append(content.read())
        return build(engine, tag, dockerfile, context, *more)

    monkeypatch.setattr(de.Engine, "build", look)
    for _ in range(2):
        evaluate(["FROM x", "RUN FAIL"], TRUE)
    entries = [call[call.index("--entrypoint") + 1] for call in fake.calls() if call[0] == "run"]
    assert (len(set(contents)), {len(content) for content in contents}) == (2, {2**20})
    assert len(set(entries)) == 2


# Rung 3: the user's options


@pytest.mark.parametrize("asks", [True, False])
def test_build_options_that_docker_refuses_are_usage(fake, evaluate, asks):
    """Known before the build where `docker build … --help` tells it, and else by the ladder."""
    words = "unknown flag: --bogus\n\nUsage:  docker build"
    for on in ("build", "control build"):
        fake.fault(on, "fail", given="--bogus", code=125, stderr=words, help=asks)
    report = evaluate(["FROM x"], TRUE, build_options=["--bogus"])
    assert report["error"]["kind"] == "usage"
    assert report["error"]["message"].startswith("docker refuses the build options: unknown flag: --bogus")
    assert fake.count("build") == (0 if asks else 3)


def test_a_build_option_that_only_fails_at_a_run_is_usage(fake, evaluate):
    words = "Minimum memory limit allowed is 6MB"
    fake.fault("build", "fail", stdout="Step 1/4 : FROM x\n", stderr=words)
    fake.fault("control build", "fail", given="--memory=1k", stdout=BEGUN, stderr=words)
    error = evaluate(["FROM x"], TRUE, build_options=["--memory=1k"])["error"]
    assert error == {"kind": "usage", "message": f"docker refuses the build options: {words}"}


def test_build_options_with_which_docker_never_ends_are_usage(fake, evaluate, limit):
    """As docker 20.10's command line now and then does where BuildKit refuses them."""
    limit(start=0.5)
    for on in ("build", "control build"):
        fake.fault(on, "hang", given="--isolation=none")
    error = evaluate(["FROM x"], TRUE, build_options=["--isolation=none"], build_timeout=0.5)["error"]
    assert error == {"kind": "usage", "message": "docker refuses the build options: no end within 0.5 s"}


def test_a_run_that_fails_as_it_should_shows_that_docker_takes_the_build_options(fake, evaluate):
    evaluate(["FROM x", "RUN FAIL"], TRUE, build_options=["--memory=1g"])
    with_options = [call for call in fake.calls() if call[0] == "build" and "--memory=1g" in call][-1]
    assert fake.count("control build") == 2
    assert with_options[0] == "build"


def test_a_target_is_the_dockerfiles(fake, evaluate):
    """Our control has none of that name."""
    words = 'failed to solve: target stage "final" could not be found'
    for on in ("build", "control build"):
        fake.fault(on, "fail", given="--target=final", stderr=words)
    assert kind_of(evaluate(["FROM x"], TRUE, build_options=["--target=final", "--pull"])) == "build"


OPTIONS = {  # run options, where the image alone cannot have them: what is to blame
    "--user=app": "failed",
    "--user=app:app": "failed",
    "-uapp": "failed",
    "-u=app": "failed",
    "--group-add=docker": "failed",
    "--workdir=/a/file": "failed",
    "--volume=/empty:/bin": "failed",
}


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_an_option_that_only_this_image_cannot_have_fails_its_tests(fake, evaluate, option):
    words = "docker: Error response from daemon: the image cannot have that."
    quoted = words.rpartition(": ")[2]
    fake.fault("run", "fail", given=option, code=125, stderr=words)
    if de._NAMES_AN_ACCOUNT.match(option):  # which the control cannot have, either
        fake.fault("control run", "fail", given=option, code=125, stderr=words)
    report = evaluate(["FROM x"], TRUE, LOOK, run_options=["--memory=1g", option])
    assert (set(statuses(report).values()), report["error"]) == ({"failed"}, None)
    assert {row["message"] for row in report["test_results"]} == {
        f"the image cannot be started with --memory=1g {option}: {quoted}"
    }


@pytest.mark.parametrize(
    "option", ["--memory=1k", "--user=1000", "--user=0:0", "-u0", "--group-add=27", "--gpus=all"]
)
def test_an_option_that_no_container_can_have_is_usage(fake, evaluate, option):
    for step in ("run", "control run"):
        fake.fault(step, "fail", given=option, **NO_SPACE)
    report = evaluate(["FROM x"], TRUE, LOOK, run_options=[option])
    assert report["error"]["kind"] == "usage"
    assert report["error"]["message"].startswith("docker refuses the run options: ")
    assert "no space left on device" in report["error"]["message"]
    assert set(statuses(report).values()) == {"not_run"}
    assert fake.left() == []


def test_an_engine_that_fails_is_no_fault_of_the_options(fake, evaluate):
    """The first rung that fails is to blame."""
    for step in ("run", "control run"):
        fake.fault(step, "fail", **NO_SPACE)
    report = evaluate(["FROM x"], TRUE, run_options=["--memory=1k"])
    assert (statuses(report), kind_of(report)) == ({"run_command_1": "error"}, "engine")


@pytest.mark.parametrize(
    "given", [{"build_options": ["--platform=linux/arm64"]}, {"run_options": ["--platform=linux/arm64"]}]
)
def test_the_control_of_the_run_options_is_built_for_the_users_platform(fake, evaluate, given):
    fake.fault("run", "fail", **NO_SPACE)
    options = {"run_options": ["--memory=1g"], **given}
    evaluate(["FROM x"], TRUE, **options)
    builds = [call for call in fake.calls() if call[0] == "build" and call[-1] != "--help"]
    assert ["--platform=linux/arm64" in call for call in builds[-2:]] == [False, True]


NO_LIMITS = {"code": 126, "stderr": "Error: crun: cannot set limits without cgroups: OCI runtime error"}


@pytest.mark.parametrize("info", [{"PidsLimit": False}, {"host": {"cgroupControllers": ["memory"]}}])
def test_an_engine_that_cannot_limit_processes_does_without_and_the_report_says_so(fake, evaluate, info):
    fake.write("info", info)
    fake.fault("run", "fail", given="--pids-limit=4096", **NO_LIMITS)
    fake.fault("control run", "fail", given="--pids-limit=4096", **NO_LIMITS)
    report = evaluate(["FROM x"], LOOK, LOOK, TRUE, TRUE)
    assert (report["summary"]["passed_tests"], report["error"]) == (4, None)
    words = "no-pids-limit: --pids-limit is left out, since the engine can set none"
    assert report["warnings"] == [words]
    assert kind_of(evaluate(["FROM x", "RUN FAIL"], TRUE)) == "build"


def test_a_limit_that_the_user_gave_is_not_left_out(fake, evaluate):
    fake.write("info", {"PidsLimit": False})
    for step in ("run", "control run"):
        fake.fault(step, "fail", given="--pids-limit=9", **NO_LIMITS)
    error = evaluate(["FROM x"], TRUE, run_options=["--pids-limit=9"])["error"]
    assert (error["kind"], "cannot set limits without cgroups" in error["message"]) == ("usage", True)


# Rung 4: the context


def test_a_context_that_docker_refuses_is_told_from_options(fake, evaluate, tmp_path):
    context = tmp_path / "context"
    context.mkdir()
    words = "error checking context: syntax error in pattern"
    for on in ("build", "control build"):
        fake.fault(on, "fail", given=str(context), stderr=words)
    report = evaluate(["FROM x"], TRUE, context=str(context), build_options=["--pull"])
    assert report["error"] == {"kind": "usage", "message": f"docker refuses the build context: {words}"}
    assert fake.left() == []


def test_a_context_is_asked_about_only_where_docker_had_not_sent_it(fake, evaluate, tmp_path):
    context = tmp_path / "context"
    context.mkdir()
    fake.fault("build", "fail", **CUT)
    fake.fault("control build", "fail", given=str(context), stderr="error checking context")
    assert kind_of(evaluate(["FROM x"], TRUE, context=str(context))) == "build"
    assert not [call for call in fake.calls() if call[0] == "build" and call[-1] == str(context)][3:]


def test_a_dockerfile_that_docker_refuses_at_once_is_at_fault_itself(fake, evaluate):
    words = "the Dockerfile (Dockerfile) cannot be empty"
    fake.fault("build", "fail", stderr=words)
    assert_holds(evaluate([""], TRUE)["error"], kind="build", message=words)


# podman


@pytest.mark.parametrize("server", ["", ', "Server": {"Version": "5.4.2", "OsArch": "linux/amd64"}'])
def test_podman_is_known_here_and_by_a_url(fake, evaluate, server):
    """It calls an image's id otherwise; behind a URL it names a server, too."""
    client = '{"Version": "5.4.2", "BuiltTime": "Thu Jan  1 00:00:00 1970", "OsArch": "linux/amd64"}'
    fake.fault("version", "fail", code=0, stdout=f'{{"Client": {client}{server}}}')
    fake.write("podman", True)
    assert statuses(evaluate(["FROM x"], TRUE)) == {"run_command_1": "passed"}


def test_a_failed_build_with_options_on_podman_is_a_failed_build(fake, evaluate):
    """Its refusal of a RUN does not name the program, so its control has none."""
    fake.write("podman", True)
    fake.fault("version", "fail", code=0, stdout=PODMAN)
    fake.fault("build", "fail", stderr="STEP 1/2: FROM x\nError: while running runtime: exit status 1")
    assert kind_of(evaluate(["FROM x"], TRUE, build_options=["--layers=false"])) == "build"


# What tools ask


def test_check_engine_builds_and_starts_the_control_and_leaves_nothing(fake):
    de.check_engine()
    assert (fake.count("control build"), fake.count("control run"), fake.left()) == (1, 1, [])


@pytest.mark.parametrize(
    ("on", "given", "error"),
    [
        ("control build", {}, de.EngineError),
        ("control run", {}, de.EngineError),
        ("control build", {"given": "--memory=1k"}, de.UsageError),
        ("control run", {"given": "--memory=2k"}, de.UsageError),
    ],
)
def test_check_engine_raises_what_is_wrong(fake, on, given, error):
    fake.fault(on, "fail", stdout=BEGUN if on == "control build" else "", stderr=NO_BRIDGE, **given)
    with pytest.raises(de.EngineError, match="no bridge") as caught:
        de.check_engine(build_options=["--memory=1k"], run_options=["--memory=2k"])
    assert type(caught.value) is error
    assert fake.left() == []


def test_check_engine_can_be_asked_to_end(fake):
    stop = de.Stop()
    stop.ask()
    with pytest.raises(de.Stopped):
        de.check_engine(stop=stop)


# The docker program


def test_no_signal_goes_to_a_number_that_may_be_somebody_elses_by_now(monkeypatch):
    signals = []
    with de.Process(["true"], os.environ) as process:
        assert process.wait(60) == 0
        monkeypatch.setattr(os, "killpg", lambda *words: signals.append(words))
        process.kill()
    assert signals == []


def test_a_docker_that_may_not_be_killed_is_not_waited_for(monkeypatch):
    """As one behind sudo."""
    monkeypatch.setattr(de, "KILL_LIMIT", 0.1)
    kill = os.killpg
    with de.Process(["sleep", "600"], os.environ) as process:
        monkeypatch.setattr(os, "killpg", lambda *_: None)
        process.kill()
        assert process.wait(0) is None
        monkeypatch.setattr(os, "killpg", kill)
