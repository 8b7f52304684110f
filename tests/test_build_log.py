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
        {"kind": "run", "step": "RUN make", "error": "The command 'make' returned a non-zero code: 2", "exit_code": 2, "output": "out\n"},
    ),
    "legacy, RUN that printed to stderr": (
        legacy("FROM x", "RUN make\nwhy\n\x1b[0mRemoving intermediate container 1d", error="The command 'make' returned a non-zero code: 2"),
        {"kind": "run", "step": "RUN make", "error": "The command 'make' returned a non-zero code: 2", "exit_code": 2, "output": "why\n"},
    ),
    "legacy 28, RUN that printed to stderr": (
        legacy("FROM x", "RUN make\nwhy\n\x1b[0m ---> Removed intermediate container 1d", error="The command 'make' returned a non-zero code: 2"),
        {"kind": "run", "step": "RUN make", "error": "The command 'make' returned a non-zero code: 2", "exit_code": 2, "output": "why\n"},
    ),
    "legacy, FROM": (
        legacy("FROM --platform=linux/amd64 ghcr.io/x AS a", error="manifest unknown"),
        {"kind": "image", "step": "FROM --platform=linux/amd64 ghcr.io/x AS a", "error": "manifest unknown"},
    ),
    "legacy, COPY": (
        legacy("FROM x", "COPY --from=a /b /c", error="COPY failed: stat b: file does not exist"),
        {"kind": "instruction", "step": "COPY --from=a /b /c", "error": "COPY failed: stat b: file does not exist"},
    ),
    "legacy, COPY --from of an image": (
        legacy("FROM x", "COPY --from=a /b /c", error="invalid from flag value a: manifest unknown"),
        {"kind": "image", "step": "COPY --from=a /b /c", "error": "invalid from flag value a: manifest unknown"},
    ),
    "legacy, text": (
        legacy(error="Error response from daemon: no build stage in current context"),
        {"error": "no build stage in current context", "output": "Sending build context to Docker daemon  4.608kB\n"},
    ),
    "BuildKit, RUN": (
        buildkit("[1/2] FROM x\nCACHED", RAN, error="ERROR: failed to build: failed to solve: exit code: 2"),
        {"kind": "run", "step": "[2/2] RUN make", "error": "exit code: 2", "step_error": "exit code: 2", "exit_code": 2, "output": "first\nlast\n"},
    ),
    "BuildKit, FROM": (
        buildkit(METADATA, error="ERROR: failed to solve: x: not found"),
        {"kind": "image", "step": METADATA.partition("\n")[0], "error": "x: not found", "step_error": "x: not found"},
    ),
    "BuildKit, ADD of a URL": (
        buildkit("https://x.invalid/\nERROR: no host", error="ERROR: failed to solve: no host"),
        {"kind": "instruction", "step": "https://x.invalid/", "error": "no host", "step_error": "no host"},
    ),
    "BuildKit, context": (
        buildkit("[internal] load build context\nERROR: open x: permission denied", error="ERROR: failed to solve: open x: permission denied"),
        {"kind": "context", "step": "[internal] load build context", "error": "open x: permission denied", "step_error": "open x: permission denied"},
    ),
    "BuildKit, export": (
        buildkit("[1/1] FROM x\nCACHED", "exporting to image\nERROR: x", error="ERROR: failed to solve: x"),
        {"kind": "export", "step": "exporting to image", "error": "x", "step_error": "x"},
    ),
    "BuildKit, another step": (
        buildkit("importing cache manifest from x\nERROR: x", error="ERROR: failed to solve: x"),
        {"kind": "internal", "step": "importing cache manifest from x", "error": "x", "step_error": "x"},
    ),
    "BuildKit, a stage called internal": (
        buildkit("[internal 2/2] RUN x\nERROR: y", error="ERROR: failed to solve: y"),
        {"kind": "run", "step": "[internal 2/2] RUN x", "error": "y", "step_error": "y"},
    ),
    "BuildKit, text, while it reads an image": (
        buildkit("[internal] load metadata for docker.io/library/x", error="ERROR: failed to solve: X: a\n#9 ERROR: b\nERROR: c"),
        {"error": "X: a #9 ERROR: b ERROR: c"},
    ),
    "BuildKit, ended in a RUN": (
        {"stderr": "#1 [internal] load build definition\n#1 DONE 0.1s\n#2 [a 1/1] FROM x\n#3 [b 2/2] RUN make\n#3 0.1 first\n"},
        {"kind": "run", "step": "[b 2/2] RUN make", "error": "#3 0.1 first", "output": "first\n"},
    ),
    "BuildKit, ended in FROM": (
        {"stderr": "#1 [internal] load build definition\n#1 DONE 0.1s\n#2 [1/2] FROM x\n#2 0.3s 1MB\n"},
        {"kind": "image", "step": "[1/2] FROM x", "error": "#2 0.3s 1MB"},
    ),
    "podman, RUN": (
        podman("FROM x", "RUN make\nout", error='building at STEP "RUN make": while running runtime: exit status 2'),
        {"kind": "run", "step": "RUN make", "error": 'building at STEP "RUN make": while running runtime: exit status 2', "exit_code": 2, "output": "out"},
    ),
    "podman, FROM": (
        podman("FROM quay.io/x", error="creating build container: initializing source docker://quay.io/x: manifest unknown"),
        {"kind": "image", "step": "FROM quay.io/x", "error": "creating build container: initializing source docker://quay.io/x: manifest unknown"},
    ),
    "podman, ENV, before its step begins": (
        podman("FROM x", error="resolving step {Value:env}: Missing ':'"),
        {"kind": "instruction", "step": "FROM x", "error": "resolving step {Value:env}: Missing ':'"},
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
    assert failure.step == "RUN y"
    assert failure.is_full_disk


def test_error_may_be_read_before_the_first_step():
    """Both are printed on other streams."""
    for stderr, stdout in (
        (b"manifest unknown\n", b"Step 1/1 : FROM x\n"),
        (b"Error: creating build container: denied\n", b"STEP 1/1: FROM x\n"),
    ):
        log = de.BuildLog(de.Console(None))
        log.feed("stderr", stderr)
        log.feed("stdout", stdout)
        failure = log.output.failure()
        assert failure.kind == "image"
        assert failure.image == "x"


def test_engine_of_podman_behind_docker_is_recognised_at_its_first_step():
    log = de.BuildLog(de.Console(None))
    log.feed(
        "stdout",
        b"Sending build context to Docker daemon  2.048kB\nSTEP 1/2: FROM x\nSTEP 2/2: RUN y\n",
    )
    assert log.output.builder.name == "buildah"
    assert log.output.step == "RUN y"


FORGED = "Step 1/3 : FROM x\n ---> a79ebfed6780\nStep 2/3 : RUN y\nStep 3/3 : FROM z\n"


def test_step_that_a_run_prints_is_replaced_by_the_builders_own():
    log = de.BuildLog(de.Console(None))
    log.feed("stdout", f"{FORGED}Step 3/3 : WORKDIR /file\n".encode())
    log.feed("stderr", b"Cannot mkdir: /file is not a directory")
    log.close()
    failure = log.output.failure()
    assert failure.kind == "instruction"
    assert failure.step == "WORKDIR /file"


def test_build_that_is_ended_after_a_run_is_not_taken_for_a_download():
    """The RUN can have printed the title of a FROM."""
    log = de.BuildLog(de.Console(None))
    log.feed("stdout", FORGED.encode())
    assert log.output.failure().kind == "instruction"


def test_trigger_of_an_image_is_not_the_image():
    log = de.BuildLog(de.Console(None))
    printed = "Step 1/1 : FROM a\n# Executing 1 build trigger\n"
    log.feed("stdout", printed.encode())
    log.feed("stderr", b"Cannot mkdir: /file is not a directory")
    log.close()
    assert log.output.failure().kind == "instruction"
