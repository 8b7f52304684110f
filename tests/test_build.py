"""A build that fails (section 4): what its log tells, the experiments, and who is at fault.

tests/logs has logs as docker and podman print them. Experiments are made with the fake docker here;
with real engines and registries in test_faults.py. Messages are in transcripts/no-score.txt.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from cases import TRUE
from conftest import outcome

import DockerfileEvaluator as de

LOGS = Path(__file__).with_name("logs")
HUB_IMAGE = de.CONTROL_IMAGES["docker.io"]


def when(row):
    """Return the name of a row."""
    return row.when


def read_log(text, exit_code=1):
    """Return the build that has printed a text, which is read in pieces."""
    data = text.encode()
    log = de.BuildLog(de.Console(None))
    for at in range(0, len(data), 97):
        log.feed(data[at : at + 97])
    return log.close(exit_code, seconds=0.0)


# What a log tells


class Recorded(NamedTuple):
    """A file in tests/logs, and what it tells."""

    when: str
    builder: str
    step: str
    error: str  # its end
    run_code: int | None = None
    output: tuple[str, ...] = ()


RUN = 'RUN echo one; echo "E: cause"; echo bye; sleep 1; exit 3'
PRINTED = ("one", "E: cause", "bye")
RECORDED = [
    Recorded("legacy-run", "legacy", RUN, "returned a non-zero code: 3", 3, PRINTED),
    Recorded(
        "buildkit-20.10-run", "buildkit", f"[stage-1 2/3] {RUN}", "]: exit code: 3", 3, PRINTED
    ),
    Recorded(
        "buildx-28.5-run",
        "buildkit",
        f"[stage-1 2/3] {RUN}",
        '" did not complete successfully: exit code: 3',
        3,
        PRINTED,
    ),
    Recorded("podman-5.8-run", "buildah", RUN, "running runtime: exit status 3", 3, PRINTED),
    Recorded(
        "podman-5.8-from",
        "buildah",
        "FROM registry.invalid/a/b:1",
        "no such host",
        output=("Trying to pull registry.invalid/a/b:1...",),
    ),
    Recorded("buildx-28.5-download", "buildkit", "[2/2] RUN true", "unexpected EOF"),
]


@pytest.mark.parametrize("row", RECORDED, ids=when)
def test_recorded_log_tells_builder_step_output_and_error(row):
    text = (LOGS / f"{row.when}.log").read_text()

    build = read_log(text)

    found = Recorded(
        row.when, build.builder, build.step, row.error, build.run_code, tuple(build.output)
    )
    assert found == row
    assert build.error.endswith(row.error)
    assert build.log == text


def test_log_keeps_its_beginning_and_its_end():
    log = read_log("".join(f"{number:06}\n" for number in range(10**5))).log

    assert log.startswith("000000\n")
    assert log.endswith("099999\n")
    assert len(log) < de.LOG_HEAD + de.LOG_TAIL + 100


LATE = {
    "Step 1/2 : FROM x\nStep 2/2 : RUN y\n1\n": "RUN y",
    "#1 [a 1/2] FROM x\n#2 [b 1/2] FROM y\n#2 DONE 0.1s\n#3 [b 2/2] RUN z\n#1 x\n": "[b 2/2] RUN z",
    "#0 building with 'default'\n#1 [a 1/2] FROM x\n#2 [internal] load context\n": "[a 1/2] FROM x",
    "#1 [1/1] RUN y\n#1 DONE 1.0s\n#2 exporting to image\n": "exporting to image",
}


@pytest.mark.parametrize("printed", LATE)
def test_log_tells_the_step_that_was_running_at_the_time_limit(printed):
    assert read_log(printed, exit_code=None).step == LATE[printed]


# What a Dockerfile prints or quotes


class Builder(NamedTuple):
    """The log of a Dockerfile whose RUN fails: what is before and after the output of the RUN."""

    when: str
    begin: str
    end: str
    prefix: str = ""  # of each line of the output


BUILDKIT_RUN = 'process "y" did not complete successfully: exit code: 1'
BUILDERS = [
    Builder(
        "legacy",
        "Sending build context to Docker daemon\nStep 1/2 : FROM x\nStep 2/2 : RUN y\n",
        "The command 'y' returned a non-zero code: 1\n",
    ),
    Builder(
        "buildkit",
        "#1 [internal] load build definition\n#1 DONE 0.1s\n#2 [2/2] RUN y\n",
        f"#2 ERROR: {BUILDKIT_RUN}\n------\nERROR: failed to solve: {BUILDKIT_RUN}\n",
        prefix="#2 0.1 ",
    ),
    Builder(
        "podman",
        "STEP 1/2: FROM x\nSTEP 2/2: RUN y\n",
        'Error: building at STEP "RUN y": while running runtime: exit status 1\n',
    ),
]
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
    "a line of 1 MB": "A" * 10**6 + ERRORS.strip("\n"),
    "a line of 64 KiB and more": "A" * de.CHUNK + "Step 3/3 : FROM z",
}


@pytest.mark.parametrize("what", FORGED)
@pytest.mark.parametrize("builder", BUILDERS, ids=when)
def test_nothing_that_a_run_prints_gains_it_anything(builder, what):
    printed = "".join(f"{builder.prefix}{line}\n" for line in FORGED[what].split("\n"))

    failed = read_log(builder.begin + printed + builder.end)
    late = read_log(builder.begin + printed, exit_code=None)

    assert failed.run_code == 1, "so it is not repeated, and no image is asked for"
    assert de.log_fault(failed, b"FROM x\nRUN y\n") is None
    assert de.log_fault(late, b"FROM x\nRUN y\n") is None
    # An image that is there is no download, see the flows.
    assert de.image_of(late.step, b"") in ("", "there")


class Quoted(NamedTuple):
    """A log whose error quotes what looks like a step or an error, and what is read from it."""

    when: str
    log: str
    step: str
    run_code: int | None
    error: str  # its end


EXPORT = "\n#2 DONE 0.1s\n#3 exporting to image\n#3 ERROR: x"
OLD_RUN = f"executor failed running [sh -c exit 3{EXPORT}]: exit code: 3"
LSTAT = f"lstat /etc/passwd/a{EXPORT}: not a directory"
QUOTED = [
    Quoted(
        "RUN, BuildKit of docker 20.10",
        f"#2 [2/2] RUN x\n#2 ERROR: {OLD_RUN}\n------\n{OLD_RUN}\n",
        "[2/2] RUN x",
        3,
        "exit code: 3",
    ),
    Quoted(
        "COPY, buildx of docker 28.5",
        f"#2 [2/2] COPY a x\n#2 ERROR: {LSTAT}\n------\nERROR: failed to solve: {LSTAT}\n",
        "[2/2] COPY a x",
        None,
        "not a directory",
    ),
    Quoted(
        "RUN like docker's advice, legacy builder",
        "Step 1/1 : RUN x\nThe command 'sh -c exit 3\nRun 'x' returned a non-zero code: 3",
        "RUN x",
        3,
        "exit 3",
    ),
    Quoted(
        "RUN that printed an error before COPY, legacy builder",
        "Step 1/2 : RUN x\nERROR: a\nStep 2/2 : COPY x /\nCOPY failed: b\n",
        "COPY x /",
        None,
        "COPY failed: b",
    ),
]


@pytest.mark.parametrize("row", QUOTED, ids=when)
def test_nothing_that_an_error_quotes_gains_it_anything(row):
    build = read_log(row.log)

    assert (build.step, build.run_code) == (row.step, row.run_code)
    assert build.error.endswith(row.error)
    assert de.log_fault(build, b"") is None


# Decisions

RUN_FAILED = de.Build(
    exit_code=1,
    builder="buildkit",
    step="[2/2] RUN x",
    error='process "install certificate" did not complete successfully: exit code: 1',
    run_code=1,
)
COPY_FAILED = de.Build(exit_code=1, builder="legacy", step="COPY x /", error="x")

NEEDS_BUILDKIT = {
    "RUN <<EOF\ntrue\nEOF": True,
    "copy <<-'END' /x\nx\n\tEND": True,
    "RUN a && \\\n  cat <<EOF >/x\nx\nEOF": True,
    "RUN cat <<EOF": False,  # which no line ends
    "ENV A=1 \\\nX\nRUN false <<X": False,
    "CMD <<EOF\nx\nEOF": False,
    "# RUN <<EOF\nEOF": False,
    "RUN --mount=type=cache,target=/c true": True,
    "RUN --network=none true": True,
    "copy --from=a --link x /": True,
    "COPY --chmod=755 x /": True,
    "FROM --platform=$BUILDPLATFORM x": True,
    "FROM --platform=${TARGETPLATFORM} x": True,
    "COPY --chown=a x /": False,
    "COPY --nonsense x /": False,
    "FROM --platform=linux/amd64 x": False,
    "RUN echo --mount=x": False,
    "# RUN --mount=x": False,
}


@pytest.mark.parametrize("text", NEEDS_BUILDKIT)
def test_dockerfile_needs_buildkit_if_the_legacy_builder_does_not_know_its_syntax(text):
    dockerfile = f"FROM x\n{text}\n".encode()

    fault = de.log_fault(COPY_FAILED, dockerfile)

    assert bool(fault) is NEEDS_BUILDKIT[text]
    assert not de.log_fault(COPY_FAILED._replace(builder="buildkit"), dockerfile)


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
    "FROM\tx": "x",
    "COPY  --from=x /y /": "x",
    "COPY --from=0 /x /y": "",
    "COPY FROM x": "",
    "RUN FROM x": "",
    "[FROM 2/2] RUN x": "",
    "": "",
}


@pytest.mark.parametrize("step", IMAGES)
def test_image_that_a_step_needs(step):
    assert de.image_of(step, b"") == IMAGES[step]


STAGES = {
    b"FROM y\nFROM x AS b\n": "",
    b"from --platform=a x \\\n  as B\r\n": "",
    b"FROM x \\\n# comment\n  AS b\n": "",
    b"# FROM x AS b\nFROM x AS bc\n": "b",
    b"FROM b AS b\n": "b",
    b"FROM x AS b\nFROM b\n": "",
}


@pytest.mark.parametrize("dockerfile", STAGES)
def test_stage_is_no_image(dockerfile):
    assert de.image_of("COPY --from=b /x /y", dockerfile) == STAGES[dockerfile]


def test_variable_of_an_image_has_its_build_argument_or_the_default_of_its_arg():
    dockerfile = b'ARG R="a.b"\nARG T=1\nARG U=2\nFROM ${R}/x:$T$TT$U\n'

    found = de.with_arguments("${R}/x:$T$TT$U", ["--build-arg=U=3"], dockerfile)

    assert found == "a.b/x:1$TT3"


REGISTRIES = {
    "debian": "docker.io",
    "a/b:1": "docker.io",
    "${BASE}": "docker.io",
    "docker.io/a/b": "docker.io",
    "index.docker.io/a/b": "docker.io",
    "registry-1.docker.io/a/b": "docker.io",
    "ghcr.io/a/b@sha256:1d": "ghcr.io",
    "localhost/a": "localhost",
    "a:5000/b": "a:5000",
    "a.b/docker.io/c": "a.b",
}


@pytest.mark.parametrize("image", REGISTRIES)
def test_registry_of_an_image(image):
    assert de.registry_of(image) == REGISTRIES[image]


class Blame(NamedTuple):
    """Docker's error about an image; who is at fault if the control images can be had."""

    when: str
    hub: str = "build"  # or another registry with a control image
    elsewhere: str = "build"
    offline: str = "build"


BLAME = [
    Blame("manifest for x:1 not found: manifest unknown"),
    Blame("pull access denied for x, repository does not exist"),
    Blame("docker.io/library/x:1: not found"),
    Blame("no match for platform in manifest"),
    Blame('Head "https://x": denied'),
    Blame("unauthorized: authentication required"),
    Blame("name unknown: repository name not known to registry"),
    Blame("no token: unexpected status: 403 Forbidden", elsewhere="registry"),
    Blame("invalid reference format"),
    Blame("repository name must be lowercase"),
    Blame("base name (${X}) should not be blank"),
    Blame("dial tcp: lookup a.b on 10.0.0.1:53: no such host", hub="registry"),
    Blame("dial tcp 127.0.0.1:5000: connect: connection refused", hub="registry"),
    Blame("toomanyrequests: You have reached your pull rate limit", "registry", "registry"),
    Blame("received unexpected HTTP status: 503 Service Unavailable", "registry", "registry"),
    Blame("x509: certificate signed by unknown authority", "registry", "registry"),
    Blame("unexpected EOF", "registry", "registry"),
    Blame("write /x: No space left on device", "engine", "engine", "engine"),
    Blame("invalid reference format: repository name (No space left on device)"),
    Blame("lsetxattr: operation not supported", "registry", "registry"),
]


@pytest.mark.parametrize("row", BLAME, ids=when)
def test_blame_for_an_image_that_docker_cannot_get(row):
    hub, _ = de.blame_image(row.when, "docker.io", offline=False)
    elsewhere, _ = de.blame_image(row.when, "a.b", offline=False)
    offline, _ = de.blame_image(row.when, "docker.io", offline=True)

    assert Blame(row.when, hub, elsewhere, offline) == row


# Messages

DOCKER_ERRORS = {
    "": "",
    "docker: Error response from daemon: No such image: x.\n": "No such image: x.",
    "Error response from daemon: a\nSee 'docker run --help'.\n": "a",
    "docker: a\n\nRun 'docker run --help' for more information\n": "a",
    "warning: old\nERROR: a\n\nView build details: docker-desktop://x\n": "a",
    "\x1b[31mError: a\x1b[0m\nb\n": "a",
    "a\x1b]0;title\x07b": "a\\x1b]0;title\\x07b",
    "ERROR: failed to build: failed to solve: a": "a",
    "ERROR: failed to solve: rpc error: code = Unknown desc = a": "a",
    'ERROR: failed to solve: failed to calculate checksum of ref x::y: "/a": b': '"/a": b',
    "failed to solve with frontend dockerfile.v0: failed to create LLB definition: a": "a",
    "COPY failed: Error: a": "COPY failed: Error: a",
}


@pytest.mark.parametrize("printed", DOCKER_ERRORS)
def test_error_of_docker_is_shown_without_what_only_says_that_it_failed(printed):
    assert de.docker_error(printed) == DOCKER_ERRORS[printed]


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


@pytest.mark.parametrize("log", CERTAIN)
def test_failed_build_is_certain_if_neither_run_nor_add_had_begun(log):
    assert dockerfile_fault(COPY_FAILED, log=log).is_certain is CERTAIN[log]


SUSPICIOUS = {
    "Temporary failure resolving 'deb.debian.org'": "network",
    "[Errno -3] Temporary failure in name resolution": "network",
    "curl: (6) Could not resolve host: example.org": "network",
    "dial tcp: lookup proxy.golang.org: no such host": "network",
    "npm ERR! getaddrinfo EAI_AGAIN registry.npmjs.org": "network",
    "wget: bad address 'example.org'": "network",
    "java.net.UnknownHostException: repo.maven.apache.org": "network",
    "connect: connection refused": "network",
    "npm ERR! connect ECONNREFUSED 10.0.0.1:443": "network",
    "Connection reset by peer": "network",
    "HTTPSConnectionPool: Read timed out. (read timeout=15)": "network",
    "connect: network is unreachable": "network",
    "SSL certificate problem: unable to get local issuer certificate": "network",
    "HTTP 429 Too Many Requests": "network",
    "E: Release file is not valid yet (invalid for another 3h)": "network",
    "c++: fatal error: Killed signal terminated program cc1plus": "memory",
    "virtual memory exhausted: Cannot allocate memory": "memory",
    "java.lang.OutOfMemoryError; Out of memory": "memory",
    "tar: x: Cannot write: No space left on device": "disk",
    "E: Unable to locate package x": None,
    "the tests of unskilled workers were skipped": None,
}


@pytest.mark.parametrize("line", SUSPICIOUS)
def test_run_whose_output_mentions_the_host_is_suspicious(line):
    error = dockerfile_fault(RUN_FAILED, output=["a", line, "b"])

    assert error.suspect == SUSPICIOUS[line]


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


@pytest.mark.parametrize("step", SUSPICIOUS_STEPS)
def test_step_that_downloads_is_suspicious_if_docker_mentions_the_network(step):
    error = dockerfile_fault(COPY_FAILED, step=step, error="connection refused")

    assert error.suspect == SUSPICIOUS_STEPS[step]


# Experiments

CONTROL = "control COPY, control RUN, control run"
LAST_LINE = "the last line before the time limit"


class Flow(NamedTuple):
    """What goes wrong, what is built and started then, and the outcome.

    "control" in `calls` is the control experiment if all three parts of it are made.
    """

    when: str
    calls: str
    outcome: str  # the kind of the error, or the status of the only test
    dockerfile: str = "FROM x"
    faults: str = ""  # as for tests/docker-fault
    hangs_after: str = ""  # what the build prints before it reaches its time limit
    build_option: str = ""
    run_option: str = ""
    offline: bool = False


REPETITIONS = [
    Flow("a RUN fails", dockerfile="FROM x\nRUN exit 3", calls="build, control", outcome="build"),
    Flow(
        "COPY fails",
        dockerfile="FROM x\nCOPY missing /",
        calls="build, build, control",
        outcome="build",
    ),
    Flow(
        "a RUN is killed",
        dockerfile="FROM x\nRUN exit 137",
        calls="build, build, control",
        outcome="build",
    ),
    Flow(
        "a RUN is terminated",
        dockerfile="FROM x\nRUN exit 143",
        calls="build, build, control",
        outcome="build",
    ),
    Flow(
        "a RUN prints that the disk is full",
        faults="build stdout='Step 1/1 : RUN x\nno space left on device\n'"
        " stderr='returned a non-zero code: 1'",
        calls="build, build, control",
        outcome="build",
    ),
    Flow("it fails once", faults="build nth=1", calls="build, build", outcome="passed"),
    Flow("docker is killed twice", faults="build do=die", calls="build, build", outcome="engine"),
    Flow(
        "the export fails",
        faults="build stdout='#1 [1/1] FROM x\n#1 CACHED\n#2 exporting to image\n#2 ERROR: y\n'",
        calls="build, build",
        outcome="engine",
    ),
    Flow(
        "COPY fails in a stage named like the export",
        faults="build stdout='#1 [exporting 1/1] COPY a /\n#1 ERROR: y\n'",
        calls="build, build, control",
        outcome="build",
    ),
    Flow(
        "the legacy builder is given what only BuildKit knows, and ignores it",
        dockerfile="FROM x\nRUN <<EOF\ntrue\nEOF",
        calls="build",
        outcome="usage",
    ),
    Flow(
        "a RUN fails beside what only BuildKit knows",
        dockerfile="FROM x\nRUN --mount=type=cache,target=/c true\nRUN exit 3",
        calls="build, control",
        outcome="build",
    ),
    Flow(
        "docker has no BuildKit",
        faults="build stderr='ERROR: BuildKit is enabled but the buildx component is missing'",
        calls="build, build",
        outcome="usage",
    ),
]
PULLS = [
    Flow(
        "an image does not exist",
        faults="pull x='manifest unknown'",
        calls="build, from, from, control",
        outcome="build",
    ),
    Flow(
        "an image does not exist, and its registry gives no other either",
        dockerfile="FROM ghcr.io/x",
        faults="pull ghcr.io='manifest unknown'",
        calls="build, from, from, from",
        outcome="registry",
    ),
    Flow(
        "an image does not exist, and another evaluation removes the control image meanwhile",
        faults="pull x='manifest unknown'; from nth=2 stderr='no such image'",
        calls="build, from, from, from, control",
        outcome="build",
    ),
    Flow(
        "an image does not exist, and the engine is broken",
        faults="pull x='manifest unknown'; 'control COPY'",
        calls="build, from, from, control COPY",
        outcome="engine",
    ),
    Flow(
        "an image of a registry without a control image does not exist",
        dockerfile="FROM a.b/x",
        faults="pull a.b='manifest unknown'",
        calls="build, from, control",
        outcome="build",
    ),
    Flow(
        "nobody knows the host of an image",
        dockerfile="FROM a.b/x",
        faults="pull a.b='no such host'",
        calls="build, from, from, control",
        outcome="build",
    ),
    Flow(
        "nobody knows any host",
        dockerfile="FROM a.b/x",
        faults="pull a.b='no such host' docker.io='no such host'",
        calls="build, from, from, from",
        outcome="registry",
    ),
    Flow(
        "the name of an image is invalid",
        faults="pull x='invalid reference format'",
        calls="build, from, control",
        outcome="build",
    ),
    Flow(
        "a registry limits downloads",
        faults="pull docker.io=toomanyrequests",
        calls="build, from",
        outcome="registry",
    ),
    Flow(
        "a registry limits downloads of an image whose name looks like an answer",
        dockerfile="FROM u/hexadecimal",
        faults="pull docker.io='u/hexadecimal: toomanyrequests'",
        calls="build, from",
        outcome="registry",
    ),
    Flow(
        "no registry can be reached, --offline",
        faults="pull docker.io='no such host'",
        offline=True,
        calls="build, from, control",
        outcome="build",
    ),
    Flow(
        "the disk is full at a download",
        faults="pull x='write /x: no space left on device'",
        calls="build, from",
        outcome="engine",
    ),
    Flow(
        "an image can be had the second time",
        faults="build stdout='Step 1/1 : FROM x\n' stderr=toomanyrequests nth=1",
        calls="build, from, build",
        outcome="passed",
    ),
    Flow(
        "an image can be had, but something else fails in its step",
        faults="build stdout='Step 1/1 : FROM x\n'",
        calls="build, from, build, from, control",
        outcome="build",
    ),
    Flow(
        "an image with a variable in its name, as the legacy builder shows it",
        dockerfile="FROM ${X}",
        faults="build stdout='Step 1/1 : FROM ${X}\n' stderr=toomanyrequests",
        calls="build",
        outcome="registry",
    ),
    Flow(
        "the image of COPY --from does not exist",
        dockerfile="FROM x\nCOPY --from=ghcr.io/x /y /",
        faults="build stdout='Step 2/2 : COPY --from=ghcr.io/x /y /\n'; pull ghcr.io/x=': denied'",
        calls="build, from, from, control",
        outcome="build",
    ),
    Flow(
        "a download breaks off in RUN, BuildKit",
        faults="build stdout='#1 [1/2] FROM a.b/x:1@sha256:1d\n#2 [2/2] RUN y\n#2 ERROR: EOF\n';"
        " pull a.b='unexpected EOF'",
        calls="build, from",
        outcome="registry",
    ),
    Flow(
        "COPY from another stage fails",
        dockerfile="FROM x AS a\nFROM x",
        faults="build stdout='Step 3/3 : COPY --from=a /y /\n'",
        calls="build, build, control",
        outcome="build",
    ),
]
HOSTS = [
    Flow(
        "no trivial Dockerfile can be built",
        dockerfile="FROM x\nRUN exit 3",
        faults="'control COPY'",
        calls="build, control COPY",
        outcome="engine",
    ),
    Flow(
        "nothing can be run in a build",
        dockerfile="FROM x\nRUN exit 3",
        faults="'control RUN'",
        calls="build, control COPY, control RUN",
        outcome="engine",
    ),
    Flow(
        "a program that cannot be there can be run in a build",
        dockerfile="FROM x\nRUN exit 3",
        faults="'control RUN' code=0",
        calls="build, control COPY, control RUN",
        outcome="engine",
    ),
    Flow(
        "a container lacks another program",
        dockerfile="FROM x\nRUN exit 3",
        faults="'control run' code=127 stderr='exec: runc: no such file or directory'",
        calls="build, control",
        outcome="engine",
    ),
    Flow("the builder keeps its images", faults="build code=0", calls="build", outcome="engine"),
    Flow(
        "the builder keeps its images, which the control shows",
        dockerfile="FROM x\nRUN exit 3",
        faults="'control COPY' code=0",
        calls="build, control COPY",
        outcome="engine",
    ),
    Flow(
        "a build option is refused",
        faults="build given=--memory=1k; 'control COPY' given=--memory=1k",
        build_option="--memory=1k",
        calls="build, build, control COPY, control COPY, control",
        outcome="usage",
    ),
    Flow(
        "a run option is refused",
        dockerfile="FROM x\nRUN exit 3",
        faults="'control run' given=--memory=1k code=125",
        run_option="--memory=1k",
        calls="build, control, control",
        outcome="usage",
    ),
    Flow(
        "an option is refused by an engine that is broken",
        dockerfile="FROM x\nRUN exit 3",
        faults="'control run' code=125",
        run_option="--memory=1k",
        calls="build, control, control",
        outcome="engine",
    ),
    Flow(
        "the user that a run option names is only in the image",
        dockerfile="FROM x\nRUN exit 3",
        faults="'control run' given=-uapp code=125",
        run_option="-uapp",
        calls="build, control",
        outcome="build",
    ),
    Flow(
        "the target stage does not exist",
        faults="build given=--target=a; 'control COPY' given=--target=a;"
        " 'control RUN' given=--target=a",
        build_option="--target=a",
        calls="build, build, control",
        outcome="build",
    ),
    Flow(
        "the context is refused",
        faults="build stdout='error checking context\n'; 'control COPY' given=CONTEXT",
        calls="build, build, control COPY, control",
        outcome="usage",
    ),
    Flow(
        "the context would be refused, but it was an instruction that failed",
        dockerfile="FROM x\nCOPY missing /",
        faults="'control COPY' given=CONTEXT",
        calls="build, build, control",
        outcome="build",
    ),
]
LIMIT = [
    Flow(
        "a RUN takes too long",
        hangs_after="Step 2/2 : RUN x",
        calls="build, control",
        outcome="build_timeout",
    ),
    Flow(
        "a RUN takes too long on an engine that is broken",
        hangs_after="Step 2/2 : RUN x",
        faults="'control run'",
        calls="build, control",
        outcome="engine",
    ),
    Flow(
        "the context takes too long, legacy builder",
        hangs_after="Sending build context to Docker daemon",
        calls="build",
        outcome="engine",
    ),
    Flow(
        "the context takes too long, BuildKit",
        hangs_after="#1 [internal] load build context",
        calls="build",
        outcome="engine",
    ),
    Flow(
        "a download takes too long twice, and works alone",
        hangs_after="#1 [1/1] FROM x",
        calls="build, from, build, from",
        outcome="engine",
    ),
    Flow(
        "a download takes too long once",
        faults=f"build do=print stdout='Step 1/1 : FROM x\n{LAST_LINE}\n' nth=1;"
        " build do=hang nth=1",
        calls="build, from, build",
        outcome="passed",
    ),
    Flow(
        "what looks like a download takes too long, but the image can be had",
        hangs_after="Step 3/3 : FROM x",
        calls="build, from, build, from, control",
        outcome="build_timeout",
    ),
    Flow(
        "a download takes too long, and alone it fails",
        hangs_after="Step 1/1 : FROM x",
        faults="pull docker.io=toomanyrequests",
        calls="build, from",
        outcome="registry",
    ),
    Flow(
        "the download of an ADD takes too long",
        hangs_after="#1 [1/2] FROM x\n#1 CACHED\n#2 http://a.b/x",  # docker 20.10
        calls="build, control",
        outcome="build_timeout",
    ),
    Flow(
        "the download of an ADD takes too long, with a step of buildx that never ends",
        hangs_after="#0 building with x\n#1 [1/2] FROM x\n#1 DONE 0.1s\n#2 http://a.b/x",
        calls="build, control",
        outcome="build_timeout",
    ),
    Flow(
        "a RUN that takes too long prints a FROM that the Dockerfile does not have",
        hangs_after="Step 9/9 : FROM bad.host/x",
        faults="pull bad.host=x509",
        calls="build, build, control",
        outcome="build_timeout",
    ),
    Flow(
        "a RUN that takes too long prints an ARG",
        hangs_after="Step 9/9 : ARG X",
        calls="build, control",
        outcome="build_timeout",
    ),
    Flow(
        "a RUN that takes too long prints a FROM with a variable",
        dockerfile="FROM $X",
        hangs_after="Step 9/9 : FROM $X",
        calls="build, build, control",
        outcome="build_timeout",
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


def inject(fake, line):
    """Let docker fail, as tests/docker-fault does for a transcript."""
    call, *words = shlex.split(line)
    pairs = (word.split("=", 1) for word in words)
    details = {key: int(text) if text.isdigit() else text for key, text in pairs}
    if call == "pull":
        fake.set(pull=details)
    else:
        fake.fault(call, **details)


@pytest.mark.parametrize("flow", [*REPETITIONS, *PULLS, *HOSTS, *LIMIT], ids=when)
def test_failed_build_is_judged_by_experiments(fake, evaluate, limited, tmp_path, flow):
    for line in filter(None, flow.faults.replace("CONTEXT", f"{tmp_path}/context").split("; ")):
        inject(fake, line)
    if flow.hangs_after:
        fake.fault("build", "print", stdout=f"{flow.hangs_after}\n{LAST_LINE}\n")
        fake.fault("build", "hang")

    report = evaluate(
        flow.dockerfile.split("\n"),
        TRUE,
        build_timeout=600,
        build_options=flow.build_option.split(),
        run_options=flow.run_option.split(),
        offline=flow.offline,
    )

    calls = [name for name in fake.names() if name in f"build, from, {CONTROL}".split(", ")]
    assert ", ".join(calls).replace(CONTROL, "control") == flow.calls
    assert outcome(report) == flow.outcome, report["error"]
    assert fake.left() == []


def test_report_of_a_failed_build_tells_the_experiments(fake, evaluate):
    fake.set(pull={"x": "manifest unknown"})

    report = evaluate(["FROM x"], TRUE)

    assert report["build"]["succeeded"] is False
    assert report["error"]["diagnosis"] == [
        "FROM x alone: manifest unknown",
        f"FROM {HUB_IMAGE} alone: succeeded",
        "a trivial Dockerfile without files: succeeded",
    ]


def test_experiments_have_the_users_options(fake, evaluate):
    fake.set(pull={"x": "manifest unknown"})

    evaluate(
        ["FROM x"],
        TRUE,
        build_options=["--network=host", "--target=a"],  # trivial Dockerfiles have no stage
        run_options=["--memory=2g", "--user=a"],
    )

    for name in ("from", "control COPY", "control RUN"):
        assert "--network=host" in fake.calls(name)[0]
        assert "--target=a" not in fake.calls(name)[0]
    assert {"--memory=2g", "--pids-limit=4096"} <= set(fake.calls("control run")[0])


def test_control_image_is_asked_of_its_registry_and_removed(fake, evaluate):
    fake.set(pull={"x": "manifest unknown"})

    evaluate(["FROM x"], TRUE)

    alone, control = fake.calls("from")
    assert "--pull" in control
    assert "--pull" not in alone
    assert HUB_IMAGE in [words[-1] for words in fake.calls("image rm")]


@pytest.mark.parametrize(
    ("printed", "size"), [("no such file", 1024), ("No space left on device", 4096)]
)
def test_control_experiment_writes_much_if_the_disk_may_be_full(
    fake, evaluate, monkeypatch, printed, size
):
    contents = set()

    def look(*words):
        contents.add(Path(words[-1], "content").read_bytes())
        return ""

    monkeypatch.setattr(de, "_make_trivial", look)
    fake.fault("build", stdout="Step 1/1 : COPY x /\n", stderr=printed)

    evaluate(["FROM x"], TRUE)
    evaluate(["FROM x"], TRUE)

    first, second = contents  # always new ones: no layer that the engine has
    assert len(first) == len(second) == size


def test_second_build_waits_for_the_engine(fake, evaluate):
    fake.fault("build", "lose the engine", nth=1)
    fake.fault("version", "find the engine", nth=3)

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    assert fake.count("build") == 2
