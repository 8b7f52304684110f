"""The evaluator on a real engine: verdicts, options, builds, interrupts, and nothing left."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from cases import TRUE, files_exist, output_contains, run_command
from conftest import PROJECT, called, error_of, outcome, statuses
from engine import Sleep, census, docker, end, wait_for

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("engine")

BUSYBOX = "FROM busybox:stable"


def verdicts(report: dict) -> list[str]:
    """Return the statuses in the order of the rubric."""
    return list(statuses(report).values())


# Verdicts


FLAWED = {
    "java_command": "passed",
    "build_commands": "failed",
    "java_home": "failed",
    "java_version": "passed",
    "project_files": "passed",
    "project_folders": "failed",
    "greeting_configured": "skipped",
    "compiles": "skipped",
    "greets": "skipped",
    "ready_at_once": "timeout",
}
EXAMPLES = sorted(file.stem for file in (PROJECT / "artifacts").glob("example*.dockerfile"))


@pytest.mark.release
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_passes_in_full_unless_it_is_flawed(
    networked_engine, buildkit, monkeypatch, tmp_path, name
):
    monkeypatch.chdir(PROJECT)
    before = census()
    repo = name.replace("_flawed", "")
    words = [f"--dockerfile=artifacts/{name}.dockerfile", f"--repo={repo}"]

    code, screen, _ = called(de.main, *words, f"--output={tmp_path}/report.json")
    report = json.loads((tmp_path / "report.json").read_text())

    assert report["error"] is None, screen
    if name == "example_flawed":
        assert (code, statuses(report)) == (1, FLAWED)
    else:
        assert (code, outcome(report)) == (0, "passed")
    assert census() == before


NAMES = ["-dash", "$(false)", "`x`", "it's", "*", "é€", "\\n", "with space", "new\nline"]
DRAWN = {"a": [1, 9999], "b": [1, 9999]}


@pytest.mark.image_store
def test_names_and_texts_of_any_kind_reach_the_container(
    clean_engine, buildkit, dockerfile, rubric
):
    path = dockerfile(BUSYBOX, "ENV dotted.name=x", "WORKDIR /place", "COPY place/ .")
    place = Path(path).with_name("place")
    place.mkdir()
    for name in NAMES:
        (place / name).write_text(f"<{name}>\n")
    tests = [("file_contains", {"path": name, "contains": [f"<{name}>\n"]}) for name in NAMES]
    echo = {"command": "echo é; echo {a*b}; : {b}", "contains": ["é\n{a*b}\n"], "draw": DRAWN}
    set_one = ("envvar_set", {"name": "dotted.name"})

    report = de.evaluate(path, "r", rubric(*tests, set_one, ("output_contains", echo)))

    assert outcome(report) == "passed", report["test_results"]


@pytest.mark.parametrize(
    "instructions",
    [
        ['ENTRYPOINT ["/no/such"]', 'CMD ["x"]', 'SHELL ["/no/such"]', "HEALTHCHECK CMD false"],
        ["ENTRYPOINT exec false", "CMD exit 125"],
    ],
)
def test_entrypoint_cmd_shell_healthcheck_do_not_matter_but_env_user_workdir_do(
    clean_engine, evaluate, instructions
):
    lines = [BUSYBOX, "ENV NAME=value", "USER 123", "WORKDIR /w", *instructions]
    tests = [output_contains("echo $NAME $(id -u) $PWD", "value 123 /w"), run_command("exit 3")]

    report = evaluate(lines, *tests, files_exist("/bin/sh"))

    assert verdicts(report) == ["passed", "failed", "passed"]
    assert report["error"] is None


@pytest.fixture
def users_things(engine):
    """Make an image and a container with similar names as those of the evaluator."""
    image, container = "dockerfile-evaluator:users", "dockerfile-evaluator-users-1"
    docker("tag", "busybox:stable", image)
    docker("run", "--detach", "--name", container, "busybox:stable", "sleep", "600")
    yield
    docker("rm", "--force", container)
    docker("image", "rm", image)


@pytest.mark.image_store
def test_parallel_evaluations_do_not_affect_each_other_or_others(
    engine, builder, users_things, tmp_path, rubric
):
    """Two of the same Dockerfile, and another."""
    before = census()
    path = rubric(("file_contains", {"path": "/file", "contains": ["same"]}))

    def evaluate(name, content):
        (tmp_path / name).write_text(f"{BUSYBOX}\nRUN echo {content} >/file\n")
        return outcome(de.evaluate(str(tmp_path / name), "r", path, context=str(tmp_path / "tmp")))

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        found = pool.map(evaluate, ("first", "second", "third"), ("same", "same", "other"))

    assert list(found) == ["passed", "passed", "failed"]
    assert census() == before


# Options


def test_run_options_of_command_line_win_over_those_of_the_rubric(clean_engine, evaluate):
    command = "echo $GIVEN; ls /sys/class/net; df -k /dev/shm | tail -n 1; ulimit -n"
    params = {"command": command, "contains": ["yes\nlo\n", " 7168 ", "\n99\n"], "match": "all"}

    report = evaluate(
        [BUSYBOX],
        ("output_contains", params),
        top={"run_options": ["--shm-size=6m", "--ulimit=nofile=99"]},
        run_options=["--env=GIVEN=yes", "--network=none", "--shm-size=7m"],
    )

    assert outcome(report) == "passed", report["test_results"][0]["output"]


@pytest.mark.image_store
def test_kept_image_repeats_failed_command(clean_engine, arguments, report, capfd):
    failing = run_command("""echo "it's $NAME $(ulimit -n)"; exit 3""")
    words = arguments([BUSYBOX, "ENV NAME=value"], failing, more=["--keep-image"])

    code = de.main([*words, "--run-option=--ulimit=nofile=99"])
    screen = capfd.readouterr().out
    (line,) = re.findall("^  [^:\n]+: (docker run --rm --.*)$", screen, re.MULTILINE)
    repeated = subprocess.run(shlex.split(line), stdout=subprocess.PIPE)
    docker("image", "rm", report()["environment"]["kept_image"])

    assert code == 1
    assert repeated.returncode == 3
    assert repeated.stdout == b"it's value 99\n"


# Builds


def test_linked_dockerfile_builds(clean_engine, builder, dockerfile, rubric, tmp_path):
    path = dockerfile(BUSYBOX, "COPY file /")
    os.rename(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)
    Path(path).with_name("file").touch()

    report = de.evaluate(path, "r", rubric(files_exist("/file")))

    assert outcome(report) == "passed"


def test_failed_build_tells_exit_code_and_error_line(engine, builder, evaluate):
    """The legacy builder keeps untagged images, but no container."""
    before = census()["containers"]
    run = f"RUN echo {os.urandom(8).hex()}; echo 'E: no such package'; echo done; exit 130"

    report = evaluate([BUSYBOX, run], TRUE)

    assert outcome(report) == "build"
    assert report["error"]["message"].endswith("130: E: no such package")
    assert report["environment"]["builder"] in (builder, "buildah")  # podman's
    assert "done" in report["build"]["log"]
    assert census()["containers"] == before


FOR_BUILDKIT = {
    # The legacy builder of docker 28 drops it.
    "here-document": [BUSYBOX, "RUN <<EOF", "true", "EOF"],
    "here-document as a file": [BUSYBOX, 'COPY <<-"END" /file', "text", "END"],
    "mount": [BUSYBOX, "RUN --mount=type=cache,target=/x true"],
    "chmod": [BUSYBOX, "COPY --chmod=755 Dockerfile /"],
    "platform": ["FROM --platform=$BUILDPLATFORM busybox:stable"],
}
FOR_ANY_BUILDER = [
    BUSYBOX,
    "# RUN --mount=type=cache <<EOF",
    "RUN test $((1<<2)) = 4",
    "RUN echo COPY --link",
]


@pytest.mark.no_podman
@pytest.mark.parametrize("lines", FOR_BUILDKIT.values(), ids=FOR_BUILDKIT)
def test_dockerfile_that_needs_buildkit_is_a_usage_error(engine, legacy, evaluate, lines):
    kind, message = error_of(evaluate(lines, TRUE))

    assert kind == "usage"
    assert "docker-buildx" in message


@pytest.mark.no_podman
def test_what_looks_like_syntax_of_buildkit_builds(clean_engine, legacy, evaluate):
    assert outcome(evaluate(FOR_ANY_BUILDER, TRUE)) == "passed"


@pytest.mark.no_buildx
def test_buildkit_without_buildx_is_a_usage_error(clean_engine, evaluate, monkeypatch):
    client = docker("version", "--format={{.Client.Version}}")
    if int(client.partition(".")[0]) < 23:
        pytest.skip("this docker needs no buildx")
    monkeypatch.setenv("DOCKER_BUILDKIT", "1")

    assert outcome(evaluate([BUSYBOX], TRUE)) == "usage"


# Interrupts

INTERRUPTS = [
    ("test", signal.SIGINT),
    ("test", signal.SIGTERM),
    ("test", signal.SIGHUP),
    ("build", signal.SIGINT),
]


@pytest.mark.image_store
@pytest.mark.parametrize(("phase", "number"), INTERRUPTS)
def test_interrupted_evaluation_leaves_nothing(
    clean_engine, builder, start, arguments, report, phase, number
):
    sleep = Sleep()
    line = f"RUN {sleep.command}" if phase == "build" else "VOLUME /data"
    process = start(*arguments([BUSYBOX, line], {**TRUE, "id": "first"}, sleep.test()))
    sleep.wait()

    process.send_signal(number)

    assert process.wait(120) == 128 + number
    assert outcome(report()) == "interrupted"
    first = "passed" if phase == "test" else "not_run"
    assert statuses(report()) == {"first": first, "slow": "not_run"}
    may_stay = "podman" in docker("--version")  # `podman build` leaves the process of its RUN
    wait_for(
        lambda: (may_stay or not sleep.processes()) and not census()["containers"],
        what="for the engine to cancel the build",
    )


KILLED_IN = {
    "test": ["VOLUME /data"],
    "build": ["RUN SLEEP; true", "RUN true"],
    "control": ["COPY missing /"],
}


@pytest.mark.image_store
@pytest.mark.parametrize("phase", KILLED_IN)
def test_next_run_removes_what_a_killed_run_has_left(
    engine, builder, start, arguments, evaluate, tmp_path, phase
):
    before = census()
    sleep = Sleep()
    lines = [line.replace("SLEEP", sleep.command) for line in KILLED_IN[phase]]
    process = start(*arguments([BUSYBOX, *lines], sleep.test()))

    def what_it_has():
        folders = list((tmp_path / "tmp").glob("dockerfile-evaluator-*"))
        return folders if phase == "control" else sleep.processes()

    wait_for(what_it_has, what=f"for the {phase}")
    process.kill()
    process.wait()
    assert what_it_has()
    if phase == "build":
        end(sleep.processes())  # docker itself goes on with the build

    report = evaluate([BUSYBOX, "LABEL of=next"], TRUE)

    assert outcome(report) == "passed"
    assert not what_it_has()
    after = census()
    del before["images"], after["images"]  # the legacy builder keeps untagged ones
    assert after == before
