"""A build that fails (section 4): what its log tells, the experiments, and who is at fault.

tests/logs has logs as docker and podman print them. Experiments are made with the fake docker here;
with real engines and registries in test_faults.py. Messages are in transcripts/no-score.txt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, NamedTuple

import pytest
from cases import TRUE, run_command
from conftest import outcome

import DockerfileEvaluator as de

HUB_IMAGE = de.CONTROL_IMAGES["docker.io"]


def read_log(text, exit_code=1):
    """Return the build that has printed a text, which is read in two pieces."""
    log = de.BuildLog(de.Console(None))
    for piece in (text[:97], text[97:]):
        log.feed(piece.encode())
    return log.close(exit_code, seconds=0.0)


# What a log tells


def recorded(name):
    return Path(__file__).with_name("logs").joinpath(f"{name}.log").read_text()


RUN = 'RUN echo one; echo "E: cause"; echo bye; sleep 1; exit 3'
EXPORT = "\n#2 DONE 0.1s\n#3 exporting to image\n#3 ERROR: x"
OLD_RUN = f"executor failed running [sh -c exit 3{EXPORT}]: exit code: 3"
LSTAT = f"lstat /etc/passwd/a{EXPORT}: not a directory"


class Told(NamedTuple):
    """A log, and what it tells."""

    log: str
    step: str  # that has failed, after the builder
    error: str  # its end
    run_code: int | None = None


TOLD = {
    "legacy builder": Told(
        recorded("legacy-run"),
        f"legacy: {RUN}",
        "returned a non-zero code: 3",
        run_code=3,
    ),
    "BuildKit of docker 20.10": Told(
        recorded("buildkit-20.10-run"),
        f"buildkit: [stage-1 2/3] {RUN}",
        "]: exit code: 3",
        run_code=3,
    ),
    "buildx of docker 28.5": Told(
        recorded("buildx-28.5-run"),
        f"buildkit: [stage-1 2/3] {RUN}",
        '" did not complete successfully: exit code: 3',
        run_code=3,
    ),
    "podman": Told(
        recorded("podman-5.8-run"),
        f"buildah: {RUN}",
        "running runtime: exit status 3",
        run_code=3,
    ),
    "podman, an image": Told(
        recorded("podman-5.8-from"),
        "buildah: FROM registry.invalid/a/b:1",
        "no such host",
    ),
    "buildx, a download in RUN": Told(
        recorded("buildx-28.5-download"),
        "buildkit: [2/2] RUN true",
        "unexpected EOF",
    ),
    "BuildKit of docker 20.10, the error quotes a failed export": Told(
        f"#2 [2/2] RUN x\n#2 ERROR: {OLD_RUN}\n------\n{OLD_RUN}\n",
        "buildkit: [2/2] RUN x",
        "exit code: 3",
        run_code=3,
    ),
    "buildx, the error quotes a failed export": Told(
        f"#2 [2/2] COPY a x\n#2 ERROR: {LSTAT}\n------\nERROR: failed to solve: {LSTAT}\n",
        "buildkit: [2/2] COPY a x",
        "not a directory",
    ),
    "legacy builder, the error quotes docker's advice": Told(
        "Step 1/1 : RUN x\nThe command 'sh -c exit 3\nRun 'x' returned a non-zero code: 3\n",
        "legacy: RUN x",
        "exit 3",
        run_code=3,
    ),
    "legacy builder, before the first step": Told(
        "Sending build context to Docker daemon  2kB\nError response from daemon: x\n",
        "legacy: ",
        "x",
    ),
    "legacy builder, an earlier RUN printed an error": Told(
        "Step 1/2 : RUN x\nERROR: a\nStep 2/2 : COPY x /\nCOPY failed: b\n",
        "legacy: COPY x /",
        "COPY failed: b",
    ),
}


@pytest.mark.parametrize("what", TOLD)
def test_log_tells_builder_step_and_error_whatever_the_error_quotes(what):
    told = TOLD[what]

    build = read_log(told.log)

    assert f"{build.builder}: {build.step}" == told.step
    assert build.run_code == told.run_code
    assert build.error.endswith(told.error)
    assert de.log_fault(build, b"") is None


@pytest.mark.parametrize("name", ["legacy", "buildkit-20.10", "buildx-28.5", "podman-5.8"])
def test_log_tells_what_the_failed_step_has_printed(name):
    assert read_log(recorded(f"{name}-run")).output == ["one", "E: cause", "bye"]


def test_log_keeps_its_beginning_and_its_end():
    text = "".join(f"line {number}\n" for number in range(10**5))

    begin, end = read_log(text).log.split("[...]\n")

    assert text.startswith(begin)
    assert text.endswith(end)
    assert len(begin) + len(end) == pytest.approx(de.LOG_HEAD + de.LOG_TAIL, abs=20)


LATE = {
    "Step 1/2 : FROM x\nStep 2/2 : RUN y\n1\n": "RUN y",
    "#1 [a 1/2] FROM x\n#2 [b 1/2] FROM y\n#2 DONE 0.1s\n#3 [b 2/2] RUN z\n#1 x\n": "[b 2/2] RUN z",
    "#0 building with 'default'\n#1 [a 1/2] FROM x\n#2 [internal] load context\n": "[a 1/2] FROM x",
    "#1 [1/1] RUN y\n#1 DONE 1.0s\n#2 exporting to image\n": "exporting to image",
}


def test_log_tells_the_step_that_was_running_at_the_time_limit():
    assert {log: read_log(log, exit_code=None).step for log in LATE} == LATE


# What a Dockerfile prints or quotes


RUN_FAILS = 'process "y" did not complete successfully: exit code: 1'
BUILDERS = {  # the log of a RUN that fails: what is before its output, in each line, and after it
    "legacy": (
        "Sending build context to Docker daemon\nStep 1/2 : FROM x\nStep 2/2 : RUN y\n",
        "",
        "The command 'y' returned a non-zero code: 1\n",
    ),
    "buildkit": (
        "#1 [internal] load build definition\n#1 DONE 0.1s\n#2 [2/2] RUN y\n",
        "#2 0.1 ",
        f"#2 ERROR: {RUN_FAILS}\n------\nERROR: failed to solve: {RUN_FAILS}\n",
    ),
    "buildah": (
        "STEP 1/2: FROM x\nSTEP 2/2: RUN y\n",
        "",
        'Error: building at STEP "RUN y": while running runtime: exit status 1\n',
    ),
}
ERRORS = "\nERROR: failed to solve: x: not found\nError: x: not found\nSee 'x'\n"
FORGED = {
    "nothing": "",
    "an image, legacy builder": "Step 3/3 : FROM there",
    "an export, legacy builder": "Step 3/3 : exporting",
    "an image, podman": "STEP 3/3: FROM there",
    "an export, podman": "STEP 3/3: exporting",
    "an image, BuildKit": "#2 DONE 0.1s\n#3 [1/1] FROM z\n#3 ERROR: x",
    "an export, BuildKit": "#2 DONE 0.1s\n#3 exporting\n#3 ERROR: x",
    "the beginning of a build": "Sending build context to Docker daemon",
    "the end of RUNs that were killed": "returned a non-zero code: 137\nexit code: 143",
    "other errors": ERRORS,
    "no BuildKit": "ERROR: BuildKit is enabled but",
    "other ends of lines": ERRORS.replace("\n", "\r") + ERRORS.replace("\n", "\u2028"),
    "a line of 64 KiB and more": "A" * de.CHUNK + "Step 3/3 : FROM z",
}


@pytest.mark.parametrize("what", FORGED)
@pytest.mark.parametrize("builder", BUILDERS)
def test_nothing_that_a_run_prints_gains_it_anything(builder, what):
    begin, prefix, end = BUILDERS[builder]
    log = begin + prefix + FORGED[what].replace("\n", f"\n{prefix}") + "\n"

    failed, late = read_log(log + end), read_log(log, exit_code=None)

    assert failed.builder == builder
    assert failed.error in end
    assert failed.run_code == 1, "so it is not repeated, and no image is asked for"
    assert de.log_fault(failed, b"") is de.log_fault(late, b"") is None
    # An image that is there is no download, see the flows.
    assert de.image_of(late.step, b"") in ("", "there")


# Decisions

COPY_FAILED = de.Build(1, builder="legacy", step="COPY x /", error="x")
RUN_FAILED = COPY_FAILED._replace(step="RUN x", error="install certificate", run_code=1)

NEEDS_BUILDKIT = {
    "RUN <<EOF\ntrue\nEOF": True,
    "copy <<-'END' /x\nx\n\tEND": True,
    "RUN a && \\\n  cat <<EOF >/x\nx\nEOF": True,
    "RUN cat <<EOF": False,  # which no line ends
    "ENV A=1 \\\nX\nRUN false <<X": False,
    "CMD <<EOF\nx\nEOF": False,
    "# RUN <<EOF\nEOF": False,
    "RUN --mount=type=cache,target=/c true": True,
    "copy --from=a --link x /": True,
    "FROM --platform=$BUILDPLATFORM x": True,
    "COPY --chown=a x /": False,
    "FROM --platform=linux/amd64 x": False,
    "RUN echo --mount=x": False,
}


def test_dockerfile_needs_buildkit_if_the_legacy_builder_does_not_know_its_syntax():
    with_buildkit = COPY_FAILED._replace(builder="buildkit")
    for text, expected in NEEDS_BUILDKIT.items():
        dockerfile = f"FROM x\n{text}\n".encode()

        assert bool(de.log_fault(COPY_FAILED, dockerfile)) is expected, text
        assert not de.log_fault(with_buildkit, dockerfile), text


IMAGES = {
    "FROM ghcr.io/a/b:1": "ghcr.io/a/b:1",
    "from --platform=linux/amd64 x as y": "x",
    "[a 1/2] FROM docker.io/library/x@sha256:1d": "docker.io/library/x@sha256:1d",
    "[internal] load metadata for docker.io/library/x:1": "docker.io/library/x:1",
    "resolve image config for docker-image://docker.io/a/b:1": "docker.io/a/b:1",
    "resolve image config for docker.io/a/b:1": "docker.io/a/b:1",  # docker 20.10
    "docker-image://docker.io/a/b:1@sha256:1d": "docker.io/a/b:1@sha256:1d",
    "COPY --chown=a --from=ghcr.io/a/b /x /y": "ghcr.io/a/b",
    "FROM  x": "x",
    "COPY  --from=x /y /": "x",
    "COPY --from=0 /x /y": "",
    "COPY FROM x": "",
    "RUN FROM x": "",
    "[FROM 2/2] RUN x": "",
    "": "",
}


def test_image_that_a_step_needs():
    assert {step: de.image_of(step, b"") for step in IMAGES} == IMAGES


STAGES = {
    b"FROM y\nFROM x AS b\n": "",
    b"from --platform=a x \\\n  as B\r\n": "",
    b"FROM x \\\n# comment\n  AS b\n": "",
    b"\xef\xbb\xbfFROM x A\\\r\nS b\r\n": "",
    b"# escape=`\n\x0cFROM x `\nAS b": "",
    b"# FROM x AS b\nFROM x AS bc\n": "b",
    b"FROM b AS b\n": "b",
    b"FROM x AS b\nFROM b\n": "",
    b"FROM b\nFROM x AS b\n": "b",
}


def test_stage_is_no_image():
    step = "COPY --from=b /x /y"

    assert {dockerfile: de.image_of(step, dockerfile) for dockerfile in STAGES} == STAGES


def test_variable_of_an_image_has_its_build_argument_or_the_default_of_its_arg():
    dockerfile = b'ARG R="a.b"\nARG T=1\nARG U=2\nFROM ${R}/x:$T$TT$U\n'

    found = de.with_arguments("${R}/x:$T$TT$U", ["--build-arg=U=3"], dockerfile)

    assert found == "a.b/x:1$TT3"


REGISTRIES = {
    "debian": "docker.io",
    "a/b:1": "docker.io",
    "${BASE}": "docker.io",
    "docker.io/a/b": "docker.io",
    "registry-1.docker.io/a/b": "docker.io",
    "ghcr.io/a/b@sha256:1d": "ghcr.io",
    "localhost/a": "localhost",
    "a:5000/b": "a:5000",
    "a.b/docker.io/c": "a.b",
}


def test_registry_of_an_image():
    assert {image: de.registry_of(image) for image in REGISTRIES} == REGISTRIES


# What docker says of an image, and who is at fault: if it is one of Docker Hub; of a registry
# without a control image; with --offline. The control image can be had.
BLAME = {
    "manifest for x:1 not found: manifest unknown": "build build build",
    "pull access denied for x, repository does not exist": "build build build",
    "docker.io/library/x:1: not found": "build build build",
    "no match for platform in manifest": "build build build",
    'Head "https://x": denied': "build build build",
    "unauthorized: authentication required": "build build build",
    "name unknown: repository name not known to registry": "build build build",
    "invalid reference format": "build build build",
    "repository name must be lowercase": "build build build",
    "base name (${X}) should not be blank": "build build build",
    "invalid reference format: repository name (No space left on device)": "build build build",
    "no token: unexpected status: 403 Forbidden": "build registry build",
    "dial tcp: lookup a.b on 10.0.0.1:53: no such host": "registry build build",
    "dial tcp 127.0.0.1:5000: connect: connection refused": "registry build build",
    "toomanyrequests: You have reached your pull rate limit": "registry registry build",
    "received unexpected HTTP status: 503 Service Unavailable": "registry registry build",
    "x509: certificate signed by unknown authority": "registry registry build",
    "lsetxattr: operation not supported": "registry registry build",
    "write /x: No space left on device": "engine engine engine",
}


def test_blame_for_an_image_that_docker_cannot_get():
    def blame(problem):
        for registry, offline in (("docker.io", False), ("a.b", False), ("docker.io", True)):
            yield de.blame_image(problem, registry, offline=offline)[0]

    assert {problem: " ".join(blame(problem)) for problem in BLAME} == BLAME


# Messages

DOCKER_ERRORS = {
    "": "",
    "docker: Error response from daemon: No such image: x.\n": "No such image: x.",
    "Error response from daemon: a\nSee 'docker run --help'.\n": "a",
    "warning: old\nERROR: a\n\nView build details: docker-desktop://x\n": "a",
    "\x1b[31mError: a\x1b[0m\nb\n": "a",
    "a\x1b]0;title\x07b": "a\\x1b]0;title\\x07b",
    "ERROR: failed to build: failed to solve: a": "a",
    "ERROR: failed to solve: rpc error: code = Unknown desc = a": "a",
    'ERROR: failed to solve: failed to calculate checksum of ref x::y: "/a": b': '"/a": b',
    "failed to solve with frontend dockerfile.v0: failed to create LLB definition: a": "a",
    "COPY failed: Error: a": "COPY failed: Error: a",
}


def test_error_of_docker_is_shown_without_what_only_says_that_it_failed():
    assert {printed: de.docker_error(printed) for printed in DOCKER_ERRORS} == DOCKER_ERRORS


def dockerfile_fault(build, **changes):
    """Return the error of a build whose Dockerfile is at fault."""
    options = de.Options("Dockerfile", "repo")
    return de.dockerfile_fault(build._replace(**changes), options, b"FROM x\n")


CERTAIN = {
    "Step 1/2 : FROM x\nStep 2/2 : COPY a /\nCOPY failed": True,
    "#5 [2/3] COPY a /\n#5 ERROR: x\n[2/3] COPY a /": True,
    "Step 1/3 : FROM x\nStep 2/3 : RUN true\nStep 3/3 : COPY a /\nCOPY failed": False,
    "#5 [a 2/3] run true\n#6 [2/2] COPY a /\n#6 ERROR: x": False,
    "#5 [2/3] ADD https://example.org/x /\n#6 [3/3] COPY a /\n#6 ERROR: x": False,
    "Step 1/2 : FROM x\n# Executing 1 build trigger\n ---> Running in 1d\nx": False,
}


def test_failed_build_is_certain_if_neither_run_nor_add_had_begun():
    assert {log: dockerfile_fault(COPY_FAILED, log=log).is_certain for log in CERTAIN} == CERTAIN


SUSPICIOUS = {
    "Temporary failure resolving 'deb.debian.org'": "network",
    "curl: (6) Could not resolve host: example.org": "network",
    "dial tcp: lookup proxy.golang.org: no such host": "network",
    "npm ERR! getaddrinfo EAI_AGAIN registry.npmjs.org": "network",
    "wget: bad address 'example.org'": "network",
    "java.net.UnknownHostException: repo.maven.apache.org": "network",
    "connect: connection refused": "network",
    "Connection reset by peer": "network",
    "HTTPSConnectionPool: Read timed out. (read timeout=15)": "network",
    "connect: network is unreachable": "network",
    "SSL certificate problem: unable to get local issuer certificate": "network",
    "HTTP 429 Too Many Requests": "network",
    "E: Release file is not valid yet (invalid for another 3h)": "network",
    "c++: fatal error: Killed signal terminated program cc1plus": "memory",
    "java.lang.OutOfMemoryError; Out of memory": "memory",
    "tar: x: Cannot write: No space left on device": "disk",
    "E: Unable to locate package x": None,
    "the tests of unskilled workers were skipped": None,
}


def test_run_whose_output_mentions_the_host_is_suspicious():
    found = {
        line: dockerfile_fault(RUN_FAILED, output=["a", line, "b"]).suspect for line in SUSPICIOUS
    }

    assert found == SUSPICIOUS


def test_run_that_was_killed_twice_is_suspicious():
    assert dockerfile_fault(RUN_FAILED, run_code=137).suspect == "memory"


SUSPICIOUS_STEPS = {
    "ADD http://a/b /": "network",
    "[2/2] ADD http://a/b /": "network",
    "http://a/b": "network",
    "[2/2] RUN x": "network",  # BuildKit downloads its image then
    "[2/2] COPY x /": None,
    "FROM x": None,
    "": None,
}


def test_step_that_downloads_is_suspicious_if_docker_mentions_the_network():
    refused = COPY_FAILED._replace(error="connection refused")

    found = {step: dockerfile_fault(refused, step=step).suspect for step in SUSPICIOUS_STEPS}

    assert found == SUSPICIOUS_STEPS


# Experiments

CONTROL = "control COPY, control RUN, control run"
LAST_LINE = "the last line before the time limit"


class Flow(NamedTuple):
    """What goes wrong, and what follows.

    "control" is the control experiment, if all three parts of it are made. The outcome is the kind
    of the error, or the status of the only test.
    """

    when: str
    then: str  # "what is built and started: outcome"
    dockerfile: str = "FROM x\nRUN exit 3"
    faults: str = ""  # as for tests/docker-fault
    hangs_after: str = ""  # what the build prints before it reaches its time limit
    options: Mapping = {}


REPETITIONS = [
    Flow("a RUN fails", "build, control: build"),
    Flow("a here-document without BuildKit builds", "build: usage", "FROM x\nRUN <<E\nexit 3\nE"),
    Flow(
        "a RUN is killed",
        "build, build, control: build",
        dockerfile="FROM x\nRUN exit 137",
    ),
    Flow(
        "a RUN is terminated",
        "build, build, control: build",
        dockerfile="FROM x\nRUN exit 143",
    ),
    Flow(
        "a RUN prints that the disk is full",
        "build, build, control: build",
        faults="build stdout='Step 1/1 : RUN x\nno space left on device\n'"
        " stderr='returned a non-zero code: 1'",
    ),
    Flow(
        "the engine is away for a moment",
        "build, build: passed",
        dockerfile="FROM x",
        faults="build do='lose the engine' nth=1; version do='find the engine' nth=3",
    ),
    Flow("docker is killed twice", "build, build: engine", faults="build do=die"),
    Flow(
        "the export fails",
        "build, build: engine",
        faults="build stdout='#1 [1/1] FROM x\n#1 CACHED\n#2 exporting to image\n#2 ERROR: y\n'",
    ),
    Flow(
        "COPY fails in a stage named like the export",
        "build, build, control: build",
        faults="build stdout='#1 [exporting 1/1] COPY a /\n#1 ERROR: y\n'",
    ),
    Flow(
        "a RUN fails beside what only BuildKit knows",
        "build, control: build",
        dockerfile="FROM x\nRUN --mount=type=cache,target=/c true\nRUN exit 3",
    ),
    Flow(
        "docker has no BuildKit",
        "build, build: usage",
        faults="build stderr='ERROR: BuildKit is enabled but the buildx component is missing'",
    ),
]
PULLS = [
    Flow(
        "an image does not exist",
        "build, from, from, from, control: build",
        faults="pull x='manifest unknown'",
    ),
    Flow(
        "an image can be had alone only the second time",
        "build, from, from, build: passed",
        dockerfile="FROM x",
        faults="build stdout='Step 1/1 : FROM x\n' stderr=EOF nth=1; from stderr=EOF nth=1",
    ),
    Flow(
        "an image does not exist, and its registry gives no other either",
        "build, from, from, from, from: registry",
        dockerfile="FROM ghcr.io/x",
        faults="pull ghcr.io='manifest unknown'",
    ),
    Flow(
        "an image does not exist, and another evaluation removes the control image meanwhile",
        "build, from, from, from, from, control: build",
        faults="pull x='manifest unknown'; from nth=3 stderr='no such image'",
    ),
    Flow(
        "an image does not exist, and the engine is broken",
        "build, from, from, from, control COPY: engine",
        faults="pull x='manifest unknown'; 'control COPY'",
    ),
    Flow(
        "an image of a registry without a control image does not exist",
        "build, from, from, control: build",
        dockerfile="FROM a.b/x",
        faults="pull a.b='manifest unknown'",
    ),
    Flow(
        "nobody knows the host of an image",
        "build, from, from, from, control: build",
        dockerfile="FROM a.b/x",
        faults="pull a.b='no such host'",
    ),
    Flow(
        "nobody knows any host",
        "build, from, from, from, from: registry",
        dockerfile="FROM a.b/x",
        faults="pull a.b='no such host' docker.io='no such host'",
    ),
    Flow(
        "the name of an image is invalid",
        "build, from, from, control: build",
        faults="pull x='invalid reference format'",
    ),
    Flow(
        "a registry limits downloads of an image whose name looks like an answer",
        "build, from, from: registry",
        dockerfile="FROM u/hexadecimal",
        faults="pull docker.io='u/hexadecimal: toomanyrequests'",
    ),
    Flow(
        "no registry can be reached, --offline",
        "build, from, from, control: build",
        faults="pull docker.io='no such host'",
        options={"offline": True},
    ),
    Flow(
        "an image can be had, but something else fails in its step",
        "build, from, build, from, control: build",
        faults="build stdout='Step 1/1 : FROM x\n'",
    ),
    Flow(
        "an image with a variable in its name, as the legacy builder shows it",
        "build: registry",
        dockerfile="FROM ${X}",
        faults="build stdout='Step 1/1 : FROM ${X}\n' stderr=toomanyrequests",
    ),
    Flow(
        "the image of COPY --from does not exist",
        "build, from, from, from, control: build",
        dockerfile="FROM x\nCOPY --from=ghcr.io/x /y /",
        faults="build stdout='Step 2/2 : COPY --from=ghcr.io/x /y /\n'; pull ghcr.io/x=': denied'",
    ),
    Flow(
        "a download breaks off in RUN, BuildKit",
        "build, from, from: registry",
        faults="build stdout='#1 [1/2] FROM a.b/x:1@sha256:1d\n#2 [2/2] RUN y\n#2 ERROR: EOF\n'"
        "; pull a.b='unexpected EOF'",
    ),
]
HOSTS = [
    Flow(
        "nothing can be run in a build",
        "build, control COPY, control RUN: engine",
        faults="'control RUN'",
    ),
    Flow(
        "a program that cannot be there can be run in a build",
        "build, control COPY, control RUN: engine",
        faults="'control RUN' code=0",
    ),
    Flow(
        "a container lacks another program",
        "build, control: engine",
        faults="'control run' code=127 stderr='exec: runc: no such file or directory'",
    ),
    Flow(
        "the builder keeps its images, which the control shows",
        "build, control COPY: engine",
        faults="'control COPY' code=0",
    ),
    Flow(
        "a build option lets docker get no image",
        "build, from, from: registry",
        faults="build given=--network=n stdout='Step 1/1 : FROM x\n' stderr=EOF;"
        " from given=--network=n stderr=EOF",
        options={"build_options": ["--network=n"]},
    ),
    Flow(
        "a run option is refused",
        "build, control, control: usage",
        faults="'control run' given=--memory=1k code=125",
        options={"run_options": ["--memory=1k"]},
    ),
    Flow(
        "an option is refused by an engine that is broken",
        "build, control, control: engine",
        faults="'control run' code=125",
        options={"run_options": ["--memory=1k"]},
    ),
    Flow(
        "the user that a run option names is only in the image",
        "build, control: build",
        faults="'control run' given=-uapp code=125",
        options={"run_options": ["-uapp"]},
    ),
    Flow(
        "the target stage is only in the Dockerfile, and its image does not exist",
        "build, from, from, from, control: build",
        faults="pull x='manifest unknown'; from given=--target=a since=3;"
        " 'control COPY' given=--target=a; 'control RUN' given=--target=a",
        options={"build_options": ["--target=a"]},
    ),
    Flow(
        "the context is refused",
        "build, build, control COPY, control: usage",
        faults="build stdout='error checking context\n'; 'control COPY' given=CONTEXT",
    ),
    Flow(
        "the context would be refused, but it was an instruction that failed",
        "build, build, control: build",
        dockerfile="FROM x\nCOPY missing /",
        faults="'control COPY' given=CONTEXT",
    ),
]
LIMIT = [
    Flow(
        "a RUN takes too long on an engine that is broken",
        "build, control: engine",
        hangs_after="Step 2/2 : RUN x",
        faults="'control run'",
    ),
    Flow(
        "the context takes too long",
        "build: engine",
        hangs_after="#1 [internal] load build context",
    ),
    Flow(
        "a download takes too long twice, and works alone",
        "build, from, build, from: engine",
        hangs_after="#1 [1/1] FROM x",
    ),
    Flow(
        "a download takes too long once",
        "build, from, build: passed",
        dockerfile="FROM x",
        faults=f"build do=print stdout='Step 1/1 : FROM x\n{LAST_LINE}\n' nth=1;"
        " build do=hang nth=1",
    ),
    Flow(
        "what looks like a download takes too long, but the image can be had",
        "build, from, build, from, control: build_timeout",
        hangs_after="Step 3/3 : FROM x",
    ),
    Flow(
        "a download takes too long, and alone it fails",
        "build, from, from: registry",
        hangs_after="Step 1/1 : FROM x",
        faults="pull docker.io=toomanyrequests",
    ),
    Flow(
        "the download of an ADD takes too long, with a step of buildx that never ends",
        "build, control: build_timeout",
        hangs_after="#0 building with x\n#1 [1/2] FROM x\n#1 DONE 0.1s\n#2 http://a.b/x",
    ),
    Flow(
        "a RUN that takes too long prints a FROM that the Dockerfile does not have",
        "build, build, control: build_timeout",
        hangs_after="Step 9/9 : FROM bad.host/x",
        faults="pull bad.host=x509",
    ),
    Flow(
        "a RUN that takes too long prints an ARG",
        "build, control: build_timeout",
        hangs_after="Step 9/9 : ARG X",
    ),
    Flow(
        "a RUN that takes too long prints a FROM with a variable",
        "build, build, control: build_timeout",
        dockerfile="FROM $X",
        hangs_after="Step 9/9 : FROM $X",
    ),
]


@pytest.fixture
def limited(monkeypatch):
    """Let a build reach its time limit when it has printed LAST_LINE, however slow the machine."""
    read = de.Docker.read

    def read_until_last_line(docker, process, deadline):
        data = read(docker, process, deadline)
        if LAST_LINE.encode() in (data or b""):
            deadline.shorten(0)
        return data

    monkeypatch.setattr(de.Docker, "read", read_until_last_line)


@pytest.mark.parametrize("flow", [*REPETITIONS, *PULLS, *HOSTS, *LIMIT], ids=lambda flow: flow.when)
def test_failed_build_is_judged_by_experiments(fake, evaluate, limited, tmp_path, flow):
    fake.inject(flow.faults.replace("CONTEXT", f"{tmp_path}/context"))
    if flow.hangs_after:
        fake.inject(f"build do=print stdout='{flow.hangs_after}\n{LAST_LINE}\n'; build do=hang")

    report = evaluate(flow.dockerfile.split("\n"), TRUE, **flow.options)

    calls = ", ".join(
        name for name in fake.names() if name.startswith(("build", "from", "control"))
    )
    assert f"{calls}: {outcome(report)}".replace(CONTROL, "control") == flow.then
    assert fake.left() == []


def test_report_of_a_failed_build_tells_the_experiments(fake, evaluate):
    fake.inject("pull x='manifest unknown'")

    report = evaluate(["FROM x"], TRUE)

    assert report["error"]["diagnosis"] == [
        "FROM x alone: manifest unknown",
        f"FROM {HUB_IMAGE} alone: succeeded",
        "a trivial Dockerfile without files: succeeded",
    ]


@pytest.mark.parametrize("was_there", [False, True])
def test_control_image_is_asked_of_its_registry_and_removed_unless_it_was_there(
    fake, evaluate, was_there
):
    fake.inject("pull x='manifest unknown'")
    if was_there:
        (fake.folder / "images" / HUB_IMAGE.replace("/", "%")).touch()

    evaluate(["FROM x"], TRUE)

    assert ["--pull" in words for words in fake.calls("from")] == [False, False, True]
    assert (HUB_IMAGE in str(fake.calls("image rm"))) is not was_there


FULL = "No space left on device"


@pytest.mark.parametrize(
    ("faults", "command", "size"),
    [
        ("build stdout='Step 1/1 : COPY x /\n' stderr='no such file'", "true", 1024),
        (f"build stdout='Step 1/1 : COPY x /\n' stderr='{FULL}'", "true", 4096),
        (f"run stderr='docker: {FULL}'", "true", 4096),
        ("", f"echo {FULL}; echo bye; false", 4096),
    ],
)
def test_control_experiment_writes_new_bytes_and_many_if_the_disk_may_be_full(
    fake, evaluate, monkeypatch, faults, command, size
):
    written = set()

    def look(*words):
        written.add(Path(words[-1], "content").read_bytes())
        return ""

    monkeypatch.setattr(de, "_make_trivial", look)
    fake.inject(faults)

    for _ in range(2):
        evaluate(["FROM x"], run_command(command))

    assert [len(content) for content in written] == [size, size]
