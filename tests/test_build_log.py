"""The log of a build as a value: what each builder's output says about a failure."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from cases import buildkit, legacy, podman

import DockerfileEvaluator as de


def read_log(*, stdout: str = "", stderr: str = "") -> de.BuildLog:
    """Return the log of a build that printed this, first all of stdout."""
    log = de.BuildLog(de.Console(None))
    log.feed("stdout", stdout.encode())
    log.feed("stderr", stderr.encode())
    log.close()
    return log


class Row(NamedTuple):
    """What docker prints, and the failure that it describes."""

    when: str
    printed: dict[str, str]  # by docker, on stdout and stderr
    failure: de.BuildFailure


MAKE_FAILED = "The command 'make' returned a non-zero code: 2"
LEGACY_RUN = de.BuildFailure(kind=de.RUN, step="RUN make", error=MAKE_FAILED, exit_code=2)
METADATA = "[internal] load metadata for docker.io/library/x:1"
CONTEXT = "[internal] load build context"
PODMAN_MAKE_FAILED = 'building at STEP "RUN make": while running runtime: exit status 2'
PODMAN_UNKNOWN_IMAGE = (
    "creating build container: initializing source docker://quay.io/x: manifest unknown"
)

FAILURES = [
    Row(
        "legacy, RUN",
        printed=legacy(
            "FROM x\n ---> a79e",
            "RUN make\n ---> Running in 1d\nout\nRemoving intermediate container 1d",
            error=MAKE_FAILED,
        ),
        failure=LEGACY_RUN._replace(output="out\n"),
    ),
    Row(
        "legacy, RUN that printed to stderr",
        printed=legacy(
            "FROM x",
            "RUN make\nwhy\n\x1b[0mRemoving intermediate container 1d",
            error=MAKE_FAILED,
        ),
        failure=LEGACY_RUN._replace(output="why\n"),
    ),
    Row(
        "legacy 28, RUN that printed to stderr",
        printed=legacy(
            "FROM x",
            "RUN make\nwhy\n\x1b[0m ---> Removed intermediate container 1d",
            error=MAKE_FAILED,
        ),
        failure=LEGACY_RUN._replace(output="why\n"),
    ),
    Row(
        "legacy, FROM",
        printed=legacy("FROM --platform=linux/amd64 ghcr.io/x AS a", error="manifest unknown"),
        failure=de.BuildFailure(
            kind=de.IMAGE,
            step="FROM --platform=linux/amd64 ghcr.io/x AS a",
            error="manifest unknown",
        ),
    ),
    Row(
        "legacy, COPY",
        printed=legacy(
            "FROM x", "COPY --from=a /b /c", error="COPY failed: stat b: file does not exist"
        ),
        failure=de.BuildFailure(
            kind=de.INSTRUCTION,
            step="COPY --from=a /b /c",
            error="COPY failed: stat b: file does not exist",
        ),
    ),
    Row(
        "legacy, COPY --from of an image",
        printed=legacy(
            "FROM x", "COPY --from=a /b /c", error="invalid from flag value a: manifest unknown"
        ),
        failure=de.BuildFailure(
            kind=de.IMAGE,
            step="COPY --from=a /b /c",
            error="invalid from flag value a: manifest unknown",
        ),
    ),
    Row(
        "legacy, text",
        printed=legacy(error="Error response from daemon: no build stage in current context"),
        failure=de.BuildFailure(
            error="no build stage in current context",
            output="Sending build context to Docker daemon  4.608kB\n",
        ),
    ),
    Row(
        "BuildKit, RUN",
        printed=buildkit(
            "[1/2] FROM x\nCACHED",
            "[2/2] RUN make\n0.1 first\n#5 0.2 not a vertex\n0.2 last\nERROR: exit code: 2",
            error="ERROR: failed to build: failed to solve: exit code: 2",
        ),
        failure=de.BuildFailure(
            kind=de.RUN,
            step="[2/2] RUN make",
            error="exit code: 2",
            step_error="exit code: 2",
            exit_code=2,
            output="first\nlast\n",
        ),
    ),
    Row(
        "BuildKit, FROM",
        printed=buildkit(
            f"{METADATA}\nERROR: x: not found", error="ERROR: failed to solve: x: not found"
        ),
        failure=de.BuildFailure(
            kind=de.IMAGE, step=METADATA, error="x: not found", step_error="x: not found"
        ),
    ),
    Row(
        "BuildKit, ADD of a URL",
        printed=buildkit(
            "https://x.invalid/\nERROR: no host", error="ERROR: failed to solve: no host"
        ),
        failure=de.BuildFailure(
            kind=de.INSTRUCTION,
            step="https://x.invalid/",
            error="no host",
            step_error="no host",
        ),
    ),
    Row(
        "BuildKit, context",
        printed=buildkit(
            f"{CONTEXT}\nERROR: open x: permission denied",
            error="ERROR: failed to solve: open x: permission denied",
        ),
        failure=de.BuildFailure(
            kind=de.CONTEXT,
            step=CONTEXT,
            error="open x: permission denied",
            step_error="open x: permission denied",
        ),
    ),
    Row(
        "BuildKit, export",
        printed=buildkit(
            "[1/1] FROM x\nCACHED",
            "exporting to image\nERROR: x",
            error="ERROR: failed to solve: x",
        ),
        failure=de.BuildFailure(
            kind=de.EXPORT, step="exporting to image", error="x", step_error="x"
        ),
    ),
    Row(
        "BuildKit, another step",
        printed=buildkit(
            "importing cache manifest from x\nERROR: x", error="ERROR: failed to solve: x"
        ),
        failure=de.BuildFailure(
            kind=de.INTERNAL, step="importing cache manifest from x", error="x", step_error="x"
        ),
    ),
    Row(
        "BuildKit, a stage called internal",
        printed=buildkit("[internal 2/2] RUN x\nERROR: y", error="ERROR: failed to solve: y"),
        failure=de.BuildFailure(
            kind=de.RUN, step="[internal 2/2] RUN x", error="y", step_error="y"
        ),
    ),
    Row(
        "BuildKit, text, while it reads an image",
        printed=buildkit(
            METADATA,  # vertex 2, which the text imitates
            error="ERROR: failed to solve: X: a\n#2 ERROR: b\nERROR: c",
        ),
        failure=de.BuildFailure(error="X: a #2 ERROR: b ERROR: c"),
    ),
    Row(
        "BuildKit, ended in a RUN",
        printed={
            "stderr": "#1 [internal] load build definition\n"
            "#1 DONE 0.1s\n"
            "#2 [a 1/1] FROM x\n"
            "#3 [b 2/2] RUN make\n"
            "#3 0.1 first\n"
        },
        failure=de.BuildFailure(
            kind=de.RUN, step="[b 2/2] RUN make", error="#3 0.1 first", output="first\n"
        ),
    ),
    Row(
        "BuildKit, ended in FROM",
        printed={
            "stderr": "#1 [internal] load build definition\n"
            "#1 DONE 0.1s\n"
            "#2 [1/2] FROM x\n"
            "#2 0.3s 1MB\n"
        },
        failure=de.BuildFailure(kind=de.IMAGE, step="[1/2] FROM x", error="#2 0.3s 1MB"),
    ),
    Row(
        "podman, RUN",
        printed=podman("FROM x", "RUN make\nout", error=PODMAN_MAKE_FAILED),
        failure=de.BuildFailure(
            kind=de.RUN, step="RUN make", error=PODMAN_MAKE_FAILED, exit_code=2, output="out"
        ),
    ),
    Row(
        "podman, FROM",
        printed=podman("FROM quay.io/x", error=PODMAN_UNKNOWN_IMAGE),
        failure=de.BuildFailure(kind=de.IMAGE, step="FROM quay.io/x", error=PODMAN_UNKNOWN_IMAGE),
    ),
    Row(
        "podman, ENV, before its step begins",
        printed=podman("FROM x", error="resolving step {Value:env}: Missing ':'"),
        failure=de.BuildFailure(
            kind=de.INSTRUCTION, step="FROM x", error="resolving step {Value:env}: Missing ':'"
        ),
    ),
    Row(
        "no builder",
        printed={"stderr": "warning: x\nerror checking context: y"},
        failure=de.BuildFailure(
            error="error checking context: y", output="warning: x\nerror checking context: y\n"
        ),
    ),
    Row("nothing", printed={}, failure=de.BuildFailure()),
]


@pytest.mark.parametrize("row", FAILURES, ids=lambda row: row.when)
def test_failure(row):
    log = read_log(**row.printed)

    assert log.output.failure() == row.failure


def test_run_that_prints_a_step_begins_none():
    log = read_log(
        stdout="Step 1/2 : FROM x\n"
        "Step 2/2 : RUN y\n"
        "no space left on device\n"
        "Step 1/1 : FROM z\n"
        "Step 9/9 : RUN\n",
        stderr="The command 'y' returned a non-zero code: 1",
    )

    failure = log.output.failure()
    assert failure.step == "RUN y"
    assert failure.is_full_disk, "what the RUN printed before is lost"


class EarlyError(NamedTuple):
    """An error that is read before the line of the first step."""

    builder: str
    stderr: str
    stdout: str
    error: str


EARLY_ERRORS = [
    EarlyError(
        "legacy",
        stderr="manifest unknown\n",
        stdout="Step 1/1 : FROM x\n",
        error="manifest unknown",
    ),
    EarlyError(
        "podman",
        stderr="Error: creating build container: denied\n",
        stdout="STEP 1/1: FROM x\n",
        error="creating build container: denied",
    ),
]


@pytest.mark.parametrize("row", EARLY_ERRORS, ids=lambda row: row.builder)
def test_error_may_be_read_before_the_first_step(row):
    """They are printed on different streams."""
    log = de.BuildLog(de.Console(None))

    log.feed("stderr", row.stderr.encode())
    log.feed("stdout", row.stdout.encode())

    failure = log.output.failure()
    assert failure.kind == de.IMAGE
    assert failure.image == "x"
    assert failure.error == row.error


def test_engine_of_podman_behind_docker_is_recognised_at_its_first_step():
    log = read_log(
        stdout="Sending build context to Docker daemon  2.048kB\n"
        "STEP 1/2: FROM x\n"
        "STEP 2/2: RUN y\n"
    )

    assert log.output.builder.name == "buildah"
    assert log.output.step == "RUN y"


# Its RUN prints the line of the third step.
FORGED_STEP = "Step 1/3 : FROM x\n ---> a79ebfed6780\nStep 2/3 : RUN y\nStep 3/3 : FROM z\n"


def test_step_that_a_run_prints_is_replaced_by_the_builders_own():
    log = read_log(
        stdout=f"{FORGED_STEP}Step 3/3 : WORKDIR /file\n",
        stderr="Cannot mkdir: /file is not a directory",
    )

    failure = log.output.failure()
    assert failure.kind == de.INSTRUCTION
    assert failure.step == "WORKDIR /file"


def test_build_that_is_ended_after_a_run_is_not_taken_for_a_download():
    """The RUN can have printed the title of a FROM."""
    log = read_log(stdout=FORGED_STEP)

    assert log.output.failure().kind == de.INSTRUCTION


def test_trigger_of_an_image_is_not_the_image():
    log = read_log(
        stdout="Step 1/1 : FROM a\n# Executing 1 build trigger\n",
        stderr="Cannot mkdir: /file is not a directory",
    )

    assert log.output.failure().kind == de.INSTRUCTION
