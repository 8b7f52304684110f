"""Who is at fault after a failure: the engine, an option, the build context, or the Dockerfile.

The registries are in test_registries.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from cases import FROM, TRUE, buildkit, legacy
from conftest import error_of, messages, outcome, statuses

import DockerfileEvaluator as de

NOTHING: dict = {}


class Diagnosis(NamedTuple):
    """What goes wrong, and the error in the report."""

    when: str
    faults: list  # of docker's calls: arguments of Fake.fault()
    kind: str
    says: str  # a part of the message
    dockerfile: tuple = ("FROM x",)
    rubric: dict = NOTHING  # further keys
    options: dict = NOTHING  # of evaluate()
    status: str = "not_run"  # of the only test


def inject(fake, faults):
    for fault in faults:
        fake.fault(**fault)


# The first contact

CLIENT = '{"Client": {"Version": "28.2.2"}, "Server": null}'
TOO_NEW = "Error response from daemon: client version 1.50 is too new."
FIRST_CONTACT = [
    Diagnosis(
        "no engine answers",
        faults=[{"on": "version", "stderr": "Cannot connect to the Docker daemon at unix:///x."}],
        kind="engine",
        says="no docker engine (check DOCKER_HOST): Cannot connect to the Docker daemon",
    ),
    Diagnosis(
        "the engine's host is unknown",
        faults=[
            {
                "on": "version",
                "stdout": CLIENT,
                "stderr": 'error during connect: Get "http://x/": dial tcp: no such host',
            }
        ],
        kind="engine",
        says="no docker engine (check DOCKER_HOST): error during connect",
    ),
    Diagnosis(
        "the engine is too old",
        faults=[{"on": "version", "stdout": CLIENT, "stderr": TOO_NEW}],
        kind="engine",
        says=f"docker version: {TOO_NEW}",
    ),
    Diagnosis(
        "the docker context does not exist",
        faults=[{"on": "version", "stdout": CLIENT, "stderr": 'context "lab": context not found'}],
        kind="engine",
        says='docker version: context "lab": context not found',
    ),
]


@pytest.mark.parametrize("row", FIRST_CONTACT, ids=lambda row: row.when)
def test_first_contact_is_not_waited_for(fake, evaluate, row):
    inject(fake, row.faults)

    evaluate(["FROM x"], TRUE)

    assert fake.count("version") == 1


# Builds and containers that fail

BUILD_FAILS = {
    "on": "build",
    "stdout": "Step 1/2 : FROM x\nStep 2/2 : COPY x /\n",
    "stderr": "some reason",
}
RUN_FAILS = {**BUILD_FAILS, "stdout": "Step 1/2 : FROM x\nStep 2/2 : RUN x\n"}
RUN_BEGINS = {**RUN_FAILS, "do": "print", "stderr": ""}
BUILD_HANGS = {"on": "build", "do": "hang"}
NO_SPACE = "docker: Error response from daemon: write /var/lib/docker/x: no space left on device."
CONTAINER_FAILS = {"on": "run", "code": 125, "stderr": NO_SPACE}

# The smoke test: an engine that cannot do this is at fault for all that fails.
NO_MINIMAL_BUILD = {"on": "smoke build", "stderr": "no bridge"}
NO_MINIMAL_RUN = {"on": "smoke RUN", "stderr": "no bridge"}
NO_MINIMAL_CONTAINER = {"on": "smoke run", "code": 125, "stderr": "no bridge"}


def failed_build(log, **more):
    """Return the fault of a build that prints a log of cases.py."""
    return {"on": "build", **log, **more}


NO_SPACE_ERROR = "Error processing tar file(exit status 1): write /a: no space left on device"
FULL_DISK = legacy(FROM, "COPY a /", error=NO_SPACE_ERROR)
RUN_PRINTS_FULL_DISK = legacy(
    FROM, f"RUN x\n{NO_SPACE_ERROR}", error="The command 'x' returned a non-zero code: 1"
)
ENGINE = [
    Diagnosis(
        "docker does not exist",
        faults=[],
        options={"docker": "no-such-docker"},
        kind="engine",
        says="'no-such-docker': No such file or directory, install the docker CLI",
    ),
    Diagnosis(
        "a build fails, but the engine works",
        faults=[BUILD_FAILS],
        kind="build",
        says="some reason",
    ),
    Diagnosis(
        "a build fails, and the engine builds no minimal image",
        faults=[BUILD_FAILS, NO_MINIMAL_BUILD],
        kind="engine",
        says="the docker engine fails: it cannot build a minimal image: no bridge",
    ),
    Diagnosis(
        "a build fails, and the engine runs nothing in a build",
        faults=[BUILD_FAILS, NO_MINIMAL_RUN],
        kind="engine",
        says="the docker engine fails: it cannot run a program in a build: no bridge",
    ),
    Diagnosis(
        "a build fails, and the engine starts no container",
        faults=[BUILD_FAILS, NO_MINIMAL_CONTAINER],
        kind="engine",
        says="the docker engine fails: it cannot start a minimal container: no bridge",
    ),
    Diagnosis(
        "another program than that of the smoke test is absent",
        faults=[
            BUILD_FAILS,
            {
                "on": "smoke run",
                "code": 127,
                "stderr": 'docker: exec: "/nosuch": stat /nosuch: no such file',
            },
        ],
        kind="engine",
        says='it cannot start a minimal container: exec: "/nosuch": stat /nosuch: no such file',
    ),
    Diagnosis(
        "a RUN fails without an exit code",
        faults=[RUN_FAILS],
        kind="engine",
        says="the build failed outside of the Dockerfile's instructions: some reason",
    ),
    Diagnosis(
        "a container does not start",
        faults=[CONTAINER_FAILS],
        kind="engine",
        says="the container could not be started: write /var/lib/docker/x: no space left on device",
        status="error",
    ),
    Diagnosis(
        "a container does not start, and neither does a minimal one",
        faults=[CONTAINER_FAILS, NO_MINIMAL_CONTAINER],
        kind="engine",
        says="the docker engine fails: it cannot start a minimal container: no bridge",
        status="error",
    ),
    Diagnosis(
        "docker says that the disk is full, but it is not",
        faults=[failed_build(FULL_DISK)],
        kind="build",
        says=NO_SPACE_ERROR,
    ),
    Diagnosis(
        "docker says that the disk is full, and it is",
        faults=[failed_build(FULL_DISK), {**NO_MINIMAL_BUILD, "stderr": NO_SPACE}],
        kind="engine",
        says="no space left on device",
    ),
    Diagnosis(
        "a RUN prints that the disk is full, but it is not",
        faults=[failed_build(RUN_PRINTS_FULL_DISK)],
        kind="build",
        says="The command 'x' returned a non-zero code: 1",
    ),
    Diagnosis(
        "a RUN prints that the disk is full, and it is",
        faults=[failed_build(RUN_PRINTS_FULL_DISK), {**NO_MINIMAL_BUILD, "stderr": NO_SPACE}],
        kind="engine",
        says="no space left on device",
    ),
]
TIMEOUTS = [
    Diagnosis(
        "a RUN takes too long",
        faults=[RUN_BEGINS, BUILD_HANGS],
        options={"build_timeout": 1},
        kind="build_timeout",
        says="the build timed out after 1 s in step 'RUN x'",
    ),
    Diagnosis(
        "a RUN takes too long, and the engine runs nothing in a build",
        faults=[RUN_BEGINS, BUILD_HANGS, NO_MINIMAL_RUN],
        options={"build_timeout": 1},
        kind="engine",
        says="the docker engine fails: it cannot run a program in a build: no bridge",
    ),
    Diagnosis(
        "a RUN takes too long, and the engine starts no container",
        faults=[RUN_BEGINS, BUILD_HANGS, NO_MINIMAL_CONTAINER],
        options={"build_timeout": 1},
        kind="engine",
        says="the docker engine fails: it cannot start a minimal container: no bridge",
    ),
    Diagnosis(
        "a build takes too long before its first instruction",
        faults=[BUILD_HANGS],
        options={"build_timeout": 0.3},
        kind="engine",
        says="the build timed out after 0.3 s, before any instruction of the Dockerfile began",
    ),
]


# Options of docker

MEMORY_LIMIT = "Minimum memory limit allowed is 6MB"
MEMORY = ["--memory=1k"]


def refused(option, *, on, **more):
    """Return the fault of the calls of a name that have an option."""
    return {"on": on, "given": option, "code": 125, "stderr": MEMORY_LIMIT, **more}


NO_TARGET = "failed to reach build target x in Dockerfile"
OPTIONS = [
    Diagnosis(
        "a build fails, and a build option is refused",
        faults=[BUILD_FAILS, refused("--memory=1k", on="smoke build")],
        options={"build_options": MEMORY},
        kind="usage",
        says="docker refuses the options: with them it cannot build a minimal image: "
        + MEMORY_LIMIT,
    ),
    Diagnosis(
        "a build fails, and a build option is refused in a RUN",
        faults=[BUILD_FAILS, refused("--memory=1k", on="smoke RUN")],
        options={"build_options": MEMORY},
        kind="usage",
        says="docker refuses the options: with them it cannot run a program in a build: "
        + MEMORY_LIMIT,
    ),
    Diagnosis(
        "a build fails, and a run option is refused",
        faults=[BUILD_FAILS, refused("--memory=1k", on="smoke run")],
        options={"run_options": MEMORY},
        kind="usage",
        says="docker refuses the options: with them it cannot start a minimal container: "
        + MEMORY_LIMIT,
    ),
    Diagnosis(
        "a build fails, and no container starts without the run option either",
        faults=[BUILD_FAILS, NO_MINIMAL_CONTAINER],
        options={"run_options": MEMORY},
        kind="engine",
        says="the docker engine fails: it cannot start a minimal container: no bridge",
    ),
    Diagnosis(
        "a container does not start, and a run option is refused",
        faults=[CONTAINER_FAILS, refused("--memory=1k", on="smoke run")],
        options={"run_options": MEMORY},
        kind="usage",
        says="docker refuses the options: with them it cannot start a minimal container: "
        + MEMORY_LIMIT,
    ),
    Diagnosis(
        "a container does not start, and a run option of the rubric is refused",
        faults=[CONTAINER_FAILS, refused("--memory=1k", on="smoke run")],
        rubric={"run_options": MEMORY},
        kind="usage",
        says="docker refuses the options: with them it cannot start a minimal container: "
        + MEMORY_LIMIT,
    ),
    Diagnosis(
        "a container does not start, and a user's number is refused",
        faults=[CONTAINER_FAILS, refused("--user=0:0", on="smoke run")],
        options={"run_options": ["--user=0:0"]},
        kind="usage",
        says="docker refuses the options",
    ),
    Diagnosis(
        "a container does not start, and a user namespace is refused",
        faults=[CONTAINER_FAILS, refused("--userns=bogus", on="smoke run")],
        options={"run_options": ["--userns=bogus"]},
        kind="usage",
        says="docker refuses the options",
    ),
    Diagnosis(
        "the Dockerfile lacks the target stage, which the smoke test lacks too",
        faults=[
            refused("--target=x", on="build", stdout="Sending build context\n", stderr=NO_TARGET),
            refused("--target=x", on="smoke build", stderr=NO_TARGET),
            refused("--target=x", on="smoke RUN", stderr=NO_TARGET),
        ],
        options={"build_options": ["--target=x"]},
        kind="build",
        says=NO_TARGET,
    ),
]


# The build context

UNREADABLE = "error checking context: can't stat '/work/context/secret'"
CONTEXT = [
    Diagnosis(
        "the client cannot read the context",
        faults=[failed_build({"stderr": UNREADABLE})],
        kind="usage",
        says=f"docker refuses the build context: {UNREADABLE}",
    ),
    Diagnosis(
        "the client cannot read the context of a Dockerfile with a lower-case FROM",
        faults=[failed_build({"stderr": UNREADABLE})],
        dockerfile=("# x", "from x"),
        kind="usage",
        says=f"docker refuses the build context: {UNREADABLE}",
    ),
    Diagnosis(
        "buildx refuses .dockerignore",
        faults=[
            failed_build({"stderr": "ERROR: failed to read dockerfile: syntax error in pattern"})
        ],
        kind="usage",
        says=".dockerignore: failed to read dockerfile: syntax error in pattern",
    ),
    Diagnosis(
        "the legacy builder has read the context before",
        faults=[failed_build(legacy(error=UNREADABLE))],
        kind="build",
        says=UNREADABLE,
    ),
    Diagnosis(
        "BuildKit has read the context before",
        faults=[failed_build(buildkit(error=f"ERROR: {UNREADABLE}"))],
        kind="build",
        says=UNREADABLE,
    ),
    Diagnosis(
        "the Dockerfile is empty",
        faults=[failed_build({"stderr": "the Dockerfile (Dockerfile) cannot be empty"})],
        dockerfile=("",),
        kind="build",
        says="the Dockerfile is empty",
    ),
    Diagnosis(
        "podman misses a FROM",
        faults=[failed_build({"stderr": 'Error: stage 1 requires a FROM instruction ("")'})],
        dockerfile=("RUN true",),
        kind="build",
        says="stage 1 requires a FROM instruction",
    ),
]


# The connection to the engine

SERVER_GONE = "rpc error: code = Unavailable desc = error reading from server: EOF"
CLOSING = "rpc error: code = Unavailable desc = transport is closing"
CONNECTION_LOST = {
    "without a word": "unexpected EOF",
    "by the client": 'error during connect: Post "http://docker/v1.41/build?x": EOF',
    "by buildx, status": f"ERROR: failed to receive status: {SERVER_GONE}",
    "by buildx, build": "ERROR: failed to solve: error reading from server: EOF",
    "by buildx, transport": (
        "ERROR: rpc error: code = Unavailable desc = closing transport due to: connection error"
    ),
    "by buildx, transport of the build": f"ERROR: failed to build: failed to solve: {CLOSING}",
}
NOT_LOST = {
    "a truncated archive": "Error processing tar file(exit status 1): unexpected EOF",
    "a download that ends": 'ADD failed: Get "https://x.invalid/unexpected EOF": EOF',
    "a file's name": "ADD failed: unexpected EOF of x",
    "a missing file's name": "COPY failed: stat transport is closing: file does not exist",
}
CONNECTION = [
    *(
        Diagnosis(
            f"the connection is lost twice, {name}",
            faults=[failed_build(legacy(FROM, "RUN x", error=error))],
            kind="engine",
            says="the connection to the engine was lost twice: ",
        )
        for name, error in CONNECTION_LOST.items()
    ),
    Diagnosis(
        "the connection is lost once",
        faults=[
            failed_build(legacy(FROM, "COPY x /", error="unexpected EOF"), nth=1),
            {**BUILD_FAILS, "nth": 2},
        ],
        kind="build",
        says="some reason",
    ),
    *(
        Diagnosis(
            f"the words of a lost connection are those of {name}",
            faults=[failed_build(legacy(FROM, "ADD x /", error=error))],
            kind="build",
            says=error,
        )
        for name, error in NOT_LOST.items()
    ),
    Diagnosis(
        "the words of a lost connection follow a line break in COPY",
        faults=[
            failed_build(
                buildkit(
                    "[1/2] FROM x\nCACHED",
                    error="ERROR: failed to solve: X: a\nERROR: unexpected EOF",
                )
            )
        ],
        kind="build",
        says="X: a",
    ),
]
DIAGNOSES = [*FIRST_CONTACT, *ENGINE, *TIMEOUTS, *OPTIONS, *CONTEXT, *CONNECTION]


@pytest.mark.parametrize("row", DIAGNOSES, ids=lambda row: row.when)
def test_failure_has_its_error_kind(fake, evaluate, row):
    inject(fake, row.faults)

    report = evaluate(list(row.dockerfile), TRUE, top=row.rubric, **row.options)

    kind, message = error_of(report)
    assert kind == row.kind, message
    assert row.says in message
    assert statuses(report) == {"run_command_1": row.status}
    assert report["warnings"] == []
    assert fake.left() == []


# Containers that the image keeps from starting

NO_USER = "docker: Error response from daemon: unable to find user app: no matching entries."


def test_image_that_does_not_start_is_a_failed_test(fake, evaluate):
    fake.fault("run", code=125, stderr=NO_USER)

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "failed"
    assert messages(report) == [
        "the container could not be started: unable to find user app: no matching entries."
    ]
    assert report["warnings"] == []
    assert fake.left() == []


@pytest.mark.parametrize(
    "option", ["--user=app:app", "--user=1000:app", "-uapp", "--group-add=docker"]
)
def test_name_that_the_image_does_not_know_is_no_refused_option(fake, evaluate, option):
    """The smoke test's image has no names, so it is run without such options."""
    fake.fault(**refused(option, on="run", stderr=NO_USER))
    fake.fault(**refused(option, on="smoke run", stderr=NO_USER))

    report = evaluate(["FROM x"], TRUE, run_options=["--memory=1g", option])

    assert outcome(report) == "failed", report["error"]
    assert report["warnings"] == []
    assert fake.left() == []


def test_image_that_disappears_after_the_build_is_an_engine_error(fake, evaluate):
    fake.fault("image inspect", since=2, stderr="Error: No such image: x")
    fake.fault("run", code=125, stderr="docker: Error response from daemon: No such image: x.")

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "engine"
    assert "removed from the engine" in messages(report)[0]


# The engine's answers


def test_engine_that_is_lost_is_an_engine_error(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.3)
    monkeypatch.setattr(de, "CLEANUP_TIMEOUT", 0.3)
    fake.fault("build", "lose the engine")

    assert outcome(evaluate(["FROM x"], TRUE)) == "engine"


def test_engine_that_hangs_is_an_engine_error(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "COMMAND_TIMEOUT", 0.5)
    fake.fault("version", "hang")

    kind, message = error_of(evaluate(["FROM x"], TRUE))

    assert kind == "engine"
    assert message.startswith("`docker version` timed out after ")


PODMAN = {"Version": "5.8.6", "OsArch": "linux/amd64"}


@pytest.mark.parametrize("server", [None, PODMAN], ids=["no service", "a service"])
def test_podman_needs_no_engine_beside_it(fake, evaluate, server):
    fake.set(version={"Client": PODMAN, "Server": server})

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    assert report["environment"]["platform"] == "linux/amd64"


# The smoke test's image


@pytest.mark.parametrize(
    "fault", [BUILD_FAILS, CONTAINER_FAILS], ids=["a build fails", "a container does not start"]
)
def test_no_temporary_folder_for_the_smoke_test_is_an_engine_error(
    fake, evaluate, monkeypatch, fault
):
    fake.fault(**fault)
    monkeypatch.setattr(tempfile, "tempdir", "/no/such")

    kind, message = error_of(evaluate(["FROM x"], TRUE))

    assert kind == "engine"
    assert message.startswith("cannot write a minimal build context: ")
    assert "/no/such" in message
    assert fake.left() == []


@pytest.fixture
def smoke_contents(fake, monkeypatch):
    """Collect the content of each image of the smoke test, with one byte for each MiB."""
    contents = []
    build = de.docker_build

    def spy(session, *, context, **details):
        file = Path(context, "content")
        if file.exists():
            contents.append(file.read_bytes())
        return build(session, context=context, **details)

    monkeypatch.setattr(de, "SMOKE_TEST", 1)
    monkeypatch.setattr(de, "LARGE_SMOKE_TEST", 256)
    monkeypatch.setattr(de, "docker_build", spy)
    return contents


class SmokeTest(NamedTuple):
    """How a build fails, and how much the smoke test then writes."""

    when: str
    fault: dict
    mebibytes: int


SMOKE_TESTS = [
    SmokeTest("nothing tells of a full disk", fault=BUILD_FAILS, mebibytes=1),
    SmokeTest("docker tells of a full disk", fault=failed_build(FULL_DISK), mebibytes=256),
    SmokeTest("a RUN tells of it", fault=failed_build(RUN_PRINTS_FULL_DISK), mebibytes=256),
]


@pytest.mark.parametrize("row", SMOKE_TESTS, ids=lambda row: row.when)
def test_smoke_test_writes_256_mib_after_no_space_left(fake, evaluate, smoke_contents, row):
    """A disk that is nearly full has space for a small image."""
    fake.fault(**row.fault)

    evaluate(["FROM x"], TRUE)

    assert {len(content) for content in smoke_contents} == {row.mebibytes}


def test_smoke_test_writes_fresh_content(fake, evaluate, smoke_contents):
    """The engine could have the layers of a known content already."""
    fake.fault(**failed_build(FULL_DISK))

    evaluate(["FROM x"], TRUE)
    evaluate(["FROM x"], TRUE)

    assert smoke_contents[0] != smoke_contents[-1]
