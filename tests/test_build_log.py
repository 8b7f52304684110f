"""The log of a build as a value: what each builder's output says about a failure, without docker."""

from __future__ import annotations

import pytest
from cases import buildkit, legacy, podman

import DockerfileEvaluator as de

METADATA = "[internal] load metadata for docker.io/library/x:1\nERROR: x: not found"
RAN = "[2/2] RUN make\n0.1 first\n#5 0.2 not a vertex\n0.2 last\nERROR: exit code: 2"

# What docker prints, and what differs from BuildFailure's defaults
FAILURES = {
    "legacy, RUN": (
        legacy("FROM x\n ---> a79e", "RUN make\n ---> Running in 1d\nout\nRemoving intermediate container 1d", error="The command 'make' returned a non-zero code: 2"),
        {"step": "RUN make", "error": "The command 'make' returned a non-zero code: 2", "exit_code": 2, "output": "out\n"},
    ),
    "legacy, FROM": (
        legacy("FROM --platform=linux/amd64 ghcr.io/x AS a", error="manifest unknown"),
        {"step": "FROM --platform=linux/amd64 ghcr.io/x AS a", "error": "manifest unknown", "missing_image": "ghcr.io/x"},
    ),
    "legacy, FROM, not the registry": (
        legacy("FROM x", error="failed to register layer: x"),
        {"step": "FROM x", "error": "failed to register layer: x"},
    ),
    "BuildKit, RUN": (
        buildkit("[1/2] FROM x\nCACHED", RAN, error="ERROR: failed to build: failed to solve: exit code: 2"),
        {"step": "[2/2] RUN make", "error": "exit code: 2", "step_error": "exit code: 2", "exit_code": 2, "output": "first\nlast\n"},
    ),
    "BuildKit, FROM": (
        buildkit(METADATA, error="ERROR: failed to solve: x: not found"),
        {"step": METADATA.partition("\n")[0], "error": "x: not found", "step_error": "x: not found", "missing_image": "docker.io/library/x:1"},
    ),
    "BuildKit, no step failed": (
        buildkit("[1/2] FROM x\nCACHED", error="ERROR: failed to solve: X: a\n#9 ERROR: b\nERROR: c"),
        {"step": "[1/2] FROM x", "error": "X: a #9 ERROR: b ERROR: c"},
    ),
    "podman, RUN": (
        podman("FROM x", "RUN make\nout", error="building at STEP: exit status 2"),
        {"step": "RUN make", "error": "building at STEP: exit status 2", "exit_code": 2, "output": "out"},
    ),
    "podman, FROM": (
        podman("FROM quay.io/x", error="initializing source docker://quay.io/x: manifest unknown"),
        {"step": "FROM quay.io/x", "error": "initializing source docker://quay.io/x: manifest unknown", "missing_image": "quay.io/x"},
    ),
    "no builder": (
        {"stderr": "warning: x\nerror checking context: y"},
        {"error": "error checking context: y", "output": "warning: x\nerror checking context: y\n"},
    ),
    "nothing": ({}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_failure(name):
    printed, differs = FAILURES[name]
    log = de.BuildLog(de.Console(None))
    for stream in ("stdout", "stderr"):
        log.feed(stream, printed.get(stream, "").encode())
    log.close()
    assert log.output.failure() == de.BuildFailure()._replace(**differs)


def test_run_that_prints_a_step_begins_none():
    log = de.BuildLog(de.Console(None))
    log.feed(
        "stdout",
        b"Step 1/2 : FROM x\nStep 2/2 : RUN y\nno space left on device\nStep 1/1 : FROM z\nStep 9/9 : RUN\n",
    )
    log.feed("stderr", b"The command 'y' returned a non-zero code: 1")
    log.close()
    failure = log.output.failure()
    assert (failure.step, failure.is_full_disk) == ("RUN y", True)


def test_error_may_be_read_before_the_first_step():
    """Both are printed on other streams."""
    for stderr, stdout in (
        (b"manifest unknown\n", b"Step 1/1 : FROM x\n"),
        (b"Error: denied\n", b"STEP 1/1: FROM x\n"),
    ):
        log = de.BuildLog(de.Console(None))
        log.feed("stderr", stderr)
        log.feed("stdout", stdout)
        assert log.output.failure().missing_image == "x"


def test_engine_of_podman_behind_docker_is_recognised_at_its_first_step():
    log = de.BuildLog(de.Console(None))
    log.feed(
        "stdout", b"Sending build context to Docker daemon  2.048kB\nSTEP 1/2: FROM x\nSTEP 2/2: RUN y\n"
    )
    assert (log.output.builder.name, log.output.step) == ("buildah", "RUN y")
