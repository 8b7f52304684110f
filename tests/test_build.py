"""A build that fails: what its log tells, which experiments are made, and who is at fault.

tests/logs has logs as docker and podman print them. Experiments are made with the fake docker here;
with real engines and registries in test_faults.py.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Sequence

import pytest
from cases import TRUE
from conftest import error_of, messages, outcome

import DockerfileEvaluator as de

LOGS = Path(__file__).with_name("logs")
NOTHING: dict = {}
OPTIONS = de.Options("Dockerfile", "r", context="/context", build_timeout=5)


def rows(table: Iterable[Any]) -> list:
    """Return the cases of a table, each called by its first field."""
    return [pytest.param(row, id=row if isinstance(row, str) else row[0]) for row in table]


def read_log(text: str, *, exit_code: int | None, size: int = de.CHUNK) -> de.Build:
    """Return the build that has printed a text, which is read in pieces."""
    data = text.encode()
    log = de.BuildLog(de.Console(None))
    for at in range(0, len(data), size):
        log.feed(data[at : at + size])
    return log.close(exit_code, 0.0)


# ---- What a log tells ----


class Recorded(NamedTuple):
    """A file in tests/logs, and what it tells."""

    file: str
    exit_code: int
    builder: str
    step: str
    error: str  # its end
    run_code: int | None = None
    output: Sequence[str] = ()


RUN = 'RUN echo one; echo "E: cause"; echo bye; sleep 1; exit 3'
PRINTED = ("one", "E: cause", "bye")
NO_HOST = "dial tcp: lookup registry.invalid on 192.0.2.53:53: no such host"
RECORDED = [
    Recorded(
        "legacy-run",
        exit_code=3,
        builder="legacy",
        step=RUN,
        error="exit 3' returned a non-zero code: 3",
        run_code=3,
        output=PRINTED,
    ),
    Recorded(
        "buildkit-20.10-run",
        exit_code=1,
        builder="buildkit",
        step=f"[stage-1 2/3] {RUN}",
        error="exit 3]: exit code: 3",
        run_code=3,
        output=PRINTED,
    ),
    Recorded(
        "buildx-28.5-run",
        exit_code=1,
        builder="buildkit",
        step=f"[stage-1 2/3] {RUN}",
        error='exit 3" did not complete successfully: exit code: 3',
        run_code=3,
        output=PRINTED,
    ),
    Recorded(
        "podman-5.8-run",
        exit_code=3,
        builder="buildah",
        step=RUN,
        error='exit 3": while running runtime: exit status 3',
        run_code=3,
        output=PRINTED,
    ),
    Recorded(
        "legacy-from",
        exit_code=1,
        builder="legacy",
        step="FROM registry.invalid/a/b:1",
        error=f'Get "https://registry.invalid/v2/": {NO_HOST}',
    ),
    Recorded(
        "podman-5.8-from",
        exit_code=125,
        builder="buildah",
        step="FROM registry.invalid/a/b:1",
        error=NO_HOST,
        output=("Trying to pull registry.invalid/a/b:1...",),
    ),
    Recorded(
        "buildkit-20.10-copy",
        exit_code=1,
        builder="buildkit",
        step="[2/2] COPY nosuch /",
        error='failed to compute cache key: "/nosuch" not found: not found',
    ),
    Recorded(
        "buildx-28.5-download",
        exit_code=1,
        builder="buildkit",
        step="[2/2] RUN true",
        error="short read: expected 89 bytes but got 17: unexpected EOF",
    ),
]


@pytest.mark.parametrize("size", [7, de.CHUNK], ids=["in pieces", "at once"])
@pytest.mark.parametrize("row", rows(RECORDED))
def test_log_tells_builder_step_output_and_error(row, size):
    text = (LOGS / f"{row.file}.log").read_text()

    build = read_log(text, exit_code=row.exit_code, size=size)

    found = (build.builder, build.step, tuple(build.output), build.run_code)
    assert found == (row.builder, row.step, row.output, row.run_code)
    assert build.error.endswith(row.error)
    assert build.log == text


class Late(NamedTuple):
    """What was printed until the time limit, and the step that was running."""

    when: str
    printed: str
    step: str


LATE = [
    Late("legacy builder", printed="Step 1/2 : FROM x\nStep 2/2 : RUN y\n1\n", step="RUN y"),
    Late(
        "a RUN beside a download",
        printed="#1 [a 1/2] FROM x\n#2 [b 1/2] FROM y\n#2 DONE 0.1s\n#3 [b 2/2] RUN z\n#1 x 1MB\n",
        step="[b 2/2] RUN z",
    ),
    Late(
        "a download beside a step of BuildKit",
        printed="#0 building with 'default'\n#1 [a 1/2] FROM x\n#2 [internal] load context\n",
        step="[a 1/2] FROM x",
    ),
    Late(
        "all steps but one have ended",
        printed="#1 [1/2] FROM x\n#1 CACHED\n#2 [2/2] RUN y\n#2 DONE 1.0s\n#3 exporting to image\n",
        step="exporting to image",
    ),
]


@pytest.mark.parametrize("row", rows(LATE))
def test_log_tells_the_step_that_was_running_at_the_time_limit(row):
    build = read_log(row.printed, exit_code=None)

    assert build.step == row.step


def test_log_keeps_its_beginning_and_its_end():
    numbers = "".join(f"{number:06}\n" for number in range(10**5))

    log = read_log(f"first\n{numbers}last", exit_code=1).log

    assert log.startswith("first\n000000\n")
    assert "\n[...]\n" in log
    assert log.endswith("099999\nlast\n")
    assert len(log) < de.LOG_HEAD + de.LOG_TAIL + 100


# ---- What a Dockerfile prints ----

LOG_BEGINS = {
    "legacy": "Sending build context to Docker daemon\nStep 1/2 : FROM x\nStep 2/2 : RUN y\n",
    "buildkit": "#1 [internal] load build definition\n#1 DONE 0.1s\n#2 [2/2] RUN y\n",
    "buildah": "STEP 1/2: FROM x\nSTEP 2/2: RUN y\n",
}
BUILDKIT_RUN = 'process "y" did not complete successfully: exit code: 1'
LOG_ENDS = {
    "legacy": "The command 'y' returned a non-zero code: 1\n",
    "buildkit": f"#2 ERROR: {BUILDKIT_RUN}\n------\nERROR: failed to solve: {BUILDKIT_RUN}\n",
    "buildah": 'Error: building at STEP "RUN y": while running runtime: exit status 1\n',
}
WORDS = "\nERROR: failed to solve: x: not found\nError: x: not found\nSee 'x'\n"
FORGED = {
    "nothing": "",
    "an image, legacy builder": "Step 3/3 : FROM z",
    "an export, legacy builder": "Step 3/3 : exporting",
    "an image, podman": "STEP 3/3: FROM z",
    "an export, podman": "STEP 3/3: exporting",
    "an image, BuildKit": "#2 DONE 0.1s\n#3 [1/1] FROM z\n#3 ERROR: x",
    "an export, BuildKit": "#2 DONE 0.1s\n#3 exporting\n#3 ERROR: x",
    "the beginning of a build": "Sending build context to Docker daemon",
    "the end of RUNs that were killed": "returned a non-zero code: 137\nexit code: 143",
    "other errors": WORDS,
    "no BuildKit": "ERROR: BuildKit is enabled but",
    "other ends of lines": WORDS.replace("\n", "\r") + WORDS.replace("\n", "\u2028"),
    "a line of 1 MB": "A" * 10**6 + WORDS.strip("\n"),
    "a line of 64 KiB and more": "A" * de.CHUNK + "Step 3/3 : FROM z",
}
FORGERIES = [f"{builder}: {what}" for what in FORGED for builder in LOG_BEGINS]


def forged_log(forgery: str) -> str:
    """Return the log of a RUN that has printed something, without its end."""
    builder, _, what = forgery.partition(": ")
    prefix = "#2 0.1 " if builder == "buildkit" else ""
    printed = "".join(f"{prefix}{line}\n" for line in FORGED[what].split("\n"))
    return LOG_BEGINS[builder] + printed


@pytest.mark.parametrize("forgery", FORGERIES)
def test_nothing_that_a_run_prints_gains_it_anything(forgery):
    end = LOG_ENDS[forgery.partition(":")[0]]

    build = read_log(forged_log(forgery) + end, exit_code=1)

    assert build.run_code == 1, "so it is not repeated, and no image is asked for"
    assert de.log_fault(build, b"FROM x\nRUN y\n") is None


# An image is asked for: one that is there is no download, see the flows.
NO_IMAGES = [row for row in FORGERIES if not re.match("(legacy|buildah): an image", row)]


@pytest.mark.parametrize("forgery", rows(NO_IMAGES))
def test_nothing_that_a_run_prints_gains_it_anything_at_the_time_limit(forgery):
    build = read_log(forged_log(forgery), exit_code=None)

    assert de.log_fault(build, b"FROM x\nRUN y\n") is None
    assert de.image_of(build.step, b"") == ""


def test_error_that_an_earlier_run_has_printed_is_not_dockers():
    log = LOG_BEGINS["legacy"] + "ERROR: a\nStep 3/3 : COPY x /\nCOPY failed: b\n"

    assert read_log(log, exit_code=1).error == "COPY failed: b"


class Quoted(NamedTuple):
    """An error of docker that quotes text of the Dockerfile, which has line breaks."""

    when: str
    log: str
    step: str
    run_code: int | None


FORGED_EXPORT = "\n#2 DONE 0.1s\n#3 exporting to image\n#3 ERROR: x"
OLD_RUN = f"executor failed running [sh -c exit 3{FORGED_EXPORT}]: exit code: 3"
LSTAT = f"lstat /etc/passwd/a{FORGED_EXPORT}: not a directory"
QUOTED = [
    Quoted(
        "RUN, BuildKit of docker 20.10",
        log=f"#2 [2/2] RUN x\n#2 ERROR: {OLD_RUN}\n------\n{OLD_RUN}\n",
        step="[2/2] RUN x",
        run_code=3,
    ),
    Quoted(
        "COPY, buildx of docker 28.5",
        log=f"#2 [2/2] COPY a x\n#2 ERROR: {LSTAT}\n------\nERROR: failed to solve: {LSTAT}\n",
        step="[2/2] COPY a x",
        run_code=None,
    ),
    Quoted(
        "RUN like docker's advice, legacy builder",
        log="Step 1/1 : RUN x\nThe command 'sh -c exit 3\nRun 'x' returned a non-zero code: 3",
        step="RUN x",
        run_code=3,
    ),
]


@pytest.mark.parametrize("row", rows(QUOTED))
def test_nothing_in_an_error_of_several_lines_gains_it_anything(row):
    build = read_log(row.log, exit_code=1)

    assert (build.step, build.run_code) == (row.step, row.run_code)
    assert de.log_fault(build, b"") is None


# ---- Decisions ----


class Accident(NamedTuple):
    """How a build ended, and whether it is built once more."""

    when: str
    build: de.Build
    is_repeated: bool


RUN_FAILED = de.Build(exit_code=1, builder="buildkit", step="[2/2] RUN x", error="x", run_code=1)
COPY_FAILED = de.Build(exit_code=1, builder="buildkit", step="[2/2] COPY x /", error="x")
LATE_RUN = de.Build(exit_code=None, builder="buildkit", step="[2/2] RUN x")
LATE_FROM = LATE_RUN._replace(step="[1/2] FROM x")
ACCIDENTS = [
    Accident("it succeeded", build=de.Build(exit_code=0), is_repeated=False),
    Accident("the limit in a RUN", build=LATE_RUN, is_repeated=False),
    Accident("the limit in FROM", build=LATE_FROM, is_repeated=True),
    Accident("a RUN failed", build=RUN_FAILED, is_repeated=False),
    Accident("SIGKILL", build=RUN_FAILED._replace(run_code=137), is_repeated=True),
    Accident("SIGTERM", build=RUN_FAILED._replace(run_code=143), is_repeated=True),
    Accident(
        "a full disk", build=RUN_FAILED._replace(log="x\nNo space left on device"), is_repeated=True
    ),
    Accident("COPY failed", build=COPY_FAILED, is_repeated=True),
    Accident("docker was killed", build=de.Build(exit_code=-9), is_repeated=True),
]


@pytest.mark.parametrize("row", rows(ACCIDENTS))
def test_build_that_may_have_failed_by_accident_is_repeated(row):
    assert de.may_be_accident(row.build) is row.is_repeated


class LogFault(NamedTuple):
    """A build, and the kind of the error that its log alone tells; None if it tells none."""

    when: str
    build: de.Build
    kind: str | None
    dockerfile: str = "FROM x\n"


LEGACY_FAILED = de.Build(exit_code=1, builder="legacy", step="COPY x /", error="x")
LEGACY_BUILT = de.Build(exit_code=0, builder="legacy", step="RUN <<EOF")
NO_BUILDKIT = de.Build(exit_code=1, error="ERROR: BuildKit is enabled but buildx is missing")
LOG_FAULTS = [
    LogFault("it succeeded", build=LEGACY_BUILT, kind=None),
    LogFault("COPY failed", build=COPY_FAILED, kind=None),
    LogFault("docker was killed", build=RUN_FAILED._replace(exit_code=-9), kind="engine"),
    LogFault("no export", build=COPY_FAILED._replace(step="exporting to image"), kind="engine"),
    LogFault(
        "a stage of the name", build=COPY_FAILED._replace(step="[exporting 1/1] RUN x"), kind=None
    ),
    LogFault("the limit before any step", build=de.Build(exit_code=None), kind="engine"),
    LogFault(
        "the limit in the context",
        build=LATE_RUN._replace(step="[internal] load build context"),
        kind="engine",
    ),
    LogFault("the limit in a RUN", build=LATE_RUN, kind=None),
    LogFault("the limit in FROM", build=LATE_FROM, kind=None),
    LogFault("no buildx", build=NO_BUILDKIT, kind="usage"),
    LogFault("words of a builder", build=NO_BUILDKIT._replace(builder="buildah"), kind=None),
]
HERE = "FROM x\nRUN <<EOF\ntrue\nEOF\n"
MOUNT = "FROM x\nRUN --mount=type=cache,target=/c true\nRUN false\n"
LOG_FAULTS += [
    LogFault("<< that is ignored", build=LEGACY_BUILT, kind="usage", dockerfile=HERE),
    LogFault("<< of BuildKit", build=COPY_FAILED, kind=None, dockerfile=HERE),
    LogFault(
        "a RUN beside --mount",
        build=LEGACY_FAILED._replace(run_code=1),
        kind=None,
        dockerfile=MOUNT,
    ),
]


@pytest.mark.parametrize("row", rows(LOG_FAULTS))
def test_fault_that_needs_no_experiment(row):
    fault = de.log_fault(row.build, row.dockerfile.encode())

    assert (fault and fault.kind) == row.kind


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


@pytest.mark.parametrize("text", rows(NEEDS_BUILDKIT))
def test_legacy_builder_that_is_given_what_only_buildkit_knows_is_usage(text):
    fault = de.log_fault(LEGACY_FAILED, f"FROM x\n{text}\n".encode())

    assert (fault is not None) is NEEDS_BUILDKIT[text]
    assert not fault or fault.kind == "usage"


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


@pytest.mark.parametrize("step", rows(IMAGES))
def test_image_that_a_step_needs(step):
    assert de.image_of(step, b"") == IMAGES[step]


STAGES = {
    "FROM y\nFROM x AS b\n": True,
    "from --platform=a x \\\n  as B\r\n": True,
    "FROM x \\\n# comment\n  AS b\n": True,
    "# FROM x AS b\nFROM x AS bc\n": False,
}


@pytest.mark.parametrize("dockerfile", rows(STAGES))
def test_stage_is_no_image(dockerfile):
    image = de.image_of("COPY --from=b /x /y", dockerfile.encode())

    assert image == ("" if STAGES[dockerfile] else "b")


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
    """Docker's error about an image, and who is at fault if the control image can be had."""

    error: str
    kind: str
    control: str | None = None
    registry: str = "docker.io"
    offline: bool = False


HUB_IMAGE = de.CONTROL_IMAGES["docker.io"]
GHCR_IMAGE = de.CONTROL_IMAGES["ghcr.io"]
UNKNOWN_HOST = "dial tcp: lookup a.b on 10.0.0.1:53: no such host"
REFUSED = "dial tcp 127.0.0.1:5000: connect: connection refused"
FULL = "write /var/lib/docker/tmp/x: No space left on device"
FORBIDDEN = "unexpected status: 403 Forbidden"
BLAME = [
    Blame("manifest for x:1 not found: manifest unknown", kind="build", control=HUB_IMAGE),
    Blame("pull access denied for x, repository does not exist", kind="build", control=HUB_IMAGE),
    Blame("docker.io/library/x:1: not found", kind="build", control=HUB_IMAGE),
    Blame("no match for platform in manifest", kind="build", control=HUB_IMAGE),
    Blame('Head "https://x": denied', kind="build", control=GHCR_IMAGE, registry="ghcr.io"),
    Blame("unauthorized: authentication required", kind="build", registry="nvcr.io"),
    Blame(f"no token: {FORBIDDEN}", kind="build", control=GHCR_IMAGE, registry="ghcr.io"),
    Blame(f"a proxy: {FORBIDDEN}", kind="registry", registry="a.b"),
    Blame("invalid reference format", kind="build"),
    Blame("repository name must be lowercase", kind="build"),
    Blame("base name (${X}) should not be blank", kind="build"),
    Blame(UNKNOWN_HOST, kind="build", control=HUB_IMAGE, registry="a.b"),
    Blame(REFUSED, kind="build", control=HUB_IMAGE, registry="localhost:5000"),
    Blame(UNKNOWN_HOST, kind="registry"),
    Blame("toomanyrequests: You have reached your pull rate limit", kind="registry"),
    Blame("received unexpected HTTP status: 503 Service Unavailable", kind="registry"),
    Blame("x509: certificate signed by unknown authority", kind="registry", registry="a.b"),
    Blame("unexpected EOF", kind="registry"),
    Blame(FULL, kind="engine"),
    Blame(FULL, kind="engine", offline=True),
    Blame("manifest unknown", kind="build", offline=True),
    Blame(UNKNOWN_HOST, kind="build", offline=True),
    Blame(
        "name unknown: repository name not known to registry",
        kind="build",
        control=GHCR_IMAGE,
        registry="ghcr.io",
    ),
]


@pytest.mark.parametrize("row", rows(BLAME))
def test_blame_for_an_image_that_docker_cannot_get(row):
    blame = de.blame_image(row.error, row.registry, offline=row.offline)

    assert blame == (row.kind, row.control)


# ---- Messages ----


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


@pytest.mark.parametrize("printed", rows(DOCKER_ERRORS))
def test_error_of_docker_is_shown_without_what_only_says_that_it_failed(printed):
    assert de.docker_error(printed) == DOCKER_ERRORS[printed]


class Fault(NamedTuple):
    """A build whose Dockerfile is at fault, and the message."""

    when: str
    build: de.Build
    message: str
    kind: str = "build"
    suspect: str | None = None
    dockerfile: str = "FROM x\n"


CONTEXT = " (the build context is /context, see --context)"
APT = "E: Unable to locate package x"
AWAY = "Temporary failure in name resolution"
REFUSED_TEXT = de.Build(exit_code=1, error="x")
FAULTS = [
    Fault(
        "a RUN",
        build=RUN_FAILED._replace(error="ERROR: exit code: 1", output=("a", APT, "bye")),
        message=f"exit code: 1: {APT}",
    ),
    Fault("a RUN that printed nothing", build=RUN_FAILED, message="x: no output"),
    Fault(
        "a RUN that could not be started",
        build=RUN_FAILED._replace(run_code=None, error="no user a", output=("a",)),
        message="no user a",
    ),
    Fault(
        "a RUN without a network",
        build=RUN_FAILED._replace(output=(AWAY, APT)),
        message=f"x: {APT} (suspicious: network: {AWAY})",
        suspect="network",
    ),
    Fault("COPY", build=COPY_FAILED, message=f"x{CONTEXT}"),
    Fault("COPY --from", build=COPY_FAILED._replace(step="COPY --from=a x /"), message="x"),
    Fault(
        "the time limit",
        build=LATE_RUN,
        message="the build timed out after 5 s in step '[2/2] RUN x'",
        kind="build_timeout",
    ),
    *(
        Fault(hint, build=REFUSED_TEXT, message=f"x ({hint})", dockerfile=dockerfile)
        for hint, dockerfile in {
            "the Dockerfile is empty": "\n \n",
            "a Dockerfile needs a FROM line": "RUN true\n",
            "remove the Markdown fence, ```": "```dockerfile\nFROM x\n```\n",
            "remove the text before FROM": "Here is the Dockerfile:\nfrom x\n",
        }.items()
    ),
    Fault(
        "ARG and comments before FROM",
        build=REFUSED_TEXT,
        message="x",
        dockerfile="# syntax=a\n\nARG A=1\nFROM x\n",
    ),
]


@pytest.mark.parametrize("row", rows(FAULTS))
def test_message_tells_the_author_why_the_build_failed(row):
    error = de.dockerfile_fault(row.build, OPTIONS, row.dockerfile.encode())

    assert str(error) == row.message
    assert (error.kind, error.suspect) == (row.kind, row.suspect)


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
    error = de.dockerfile_fault(COPY_FAILED._replace(log=log), OPTIONS, b"FROM x\n")

    assert error.is_certain is CERTAIN[log]
    assert not de.dockerfile_fault(RUN_FAILED, OPTIONS, b"FROM x\n").is_certain


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
    APT: None,
    "the tests of unskilled workers were skipped": None,
}


@pytest.mark.parametrize("line", rows(SUSPICIOUS))
def test_run_whose_output_mentions_the_host_is_suspicious(line):
    build = RUN_FAILED._replace(output=("a", line, "b"))

    assert de.suspicion(build) == (SUSPICIOUS[line], line if SUSPICIOUS[line] else "")


def test_run_that_was_killed_twice_is_suspicious():
    subject, _line = de.suspicion(RUN_FAILED._replace(run_code=137))

    assert subject == "memory"


@pytest.mark.parametrize("step", ["ADD http://a/b /", "[2/2] ADD http://a/b /", "http://a/b"])
def test_add_whose_download_fails_is_suspicious(step):
    build = COPY_FAILED._replace(step=step, error=REFUSED)

    assert de.suspicion(build) == ("network", REFUSED)


@pytest.mark.parametrize("step", ["[2/2] COPY x /", "FROM x", ""])
def test_no_other_step_is_suspicious(step):
    build = COPY_FAILED._replace(step=step, output=(AWAY,), error=REFUSED)

    assert de.suspicion(build) == (None, "")


# ---- Experiments ----

CONTROL = "control COPY, control RUN, control run"


class Flow(NamedTuple):
    """What goes wrong, what is built and started then, and the outcome.

    "control" in `calls` is the control experiment if all three parts of it are made.
    """

    when: str
    calls: str
    outcome: str  # the kind of the error, or the status of the only test
    lines: Sequence[str] = ("FROM x",)
    faults: Sequence[dict] = ()  # arguments of Fake.fault()
    pull: dict = NOTHING
    options: dict = NOTHING
    rubric: dict = NOTHING
    says: str = ""  # a part of the message


def fault(on: str, **details: Any) -> dict:
    return {"on": on, "stderr": "some reason", **details}


def prints(*lines: str, **details: Any) -> dict:
    """Return the fault of a build that prints these lines."""
    return {"on": "build", "stdout": "".join(f"{line}\n" for line in lines), **details}


def hangs(*lines: str, **details: Any) -> list[dict]:
    """Return the faults of a build that does not end after these lines; see `limited`."""
    return [
        prints(*lines, LAST_LINE, do="print", **details),
        {"on": "build", "do": "hang", **details},
    ]


LAST_LINE = "the last line before the time limit"
THE_CONTEXT = "<the build context>"
RUN_FAILS = ("FROM x", "RUN exit 3")
COPY_FAILS = ("FROM x", "COPY missing /")
NO_IMAGE = "manifest unknown"
LIMITS = "toomanyrequests: You have reached your pull rate limit"
NO_NAME = "dial tcp: lookup a.b on 10.0.0.1:53: no such host"
NO_CONTEXT = prints("error checking context: can't stat 'x'")
MEMORY = ["--memory=1k"]
EXPORT_FAILS = prints("#1 [1/1] FROM x", "#1 CACHED", "#2 exporting to image", "#2 ERROR: y")
REPETITIONS = [
    Flow("a RUN fails", lines=RUN_FAILS, calls="build, control", outcome="build"),
    Flow("COPY fails", lines=COPY_FAILS, calls="build, build, control", outcome="build"),
    Flow(
        "a RUN is killed",
        lines=("FROM x", "RUN exit 137"),
        calls="build, build, control",
        outcome="build",
    ),
    Flow(
        "a RUN prints that the disk is full",
        faults=[
            prints(
                "Step 1/1 : RUN x",
                "no space left on device",
                stderr="returned a non-zero code: 1\n",
            )
        ],
        calls="build, build, control",
        outcome="build",
    ),
    Flow("COPY fails once", faults=[fault("build", nth=1)], calls="build, build", outcome="passed"),
    Flow(
        "docker is killed once",
        faults=[fault("build", do="die", nth=1)],
        calls="build, build",
        outcome="passed",
    ),
    Flow(
        "docker is killed twice",
        faults=[fault("build", do="die")],
        calls="build, build",
        outcome="engine",
        says="signal 9",
    ),
    Flow("the export fails", faults=[EXPORT_FAILS], calls="build, build", outcome="engine"),
    Flow(
        "the legacy builder is given what only BuildKit knows",
        lines=("FROM x", "RUN <<EOF", "true", "EOF"),
        calls="build",
        outcome="usage",
        says="docker-buildx",
    ),
]
DOWNLOAD_FAILS = (LOGS / "buildx-28.5-download.log").read_text()
PULLS = [
    Flow(
        "an image does not exist",
        pull={"x": NO_IMAGE},
        calls="build, from, from, control",
        outcome="build",
        says=NO_IMAGE,
    ),
    Flow(
        "an image does not exist, and its registry gives no other either",
        pull={"x": NO_IMAGE, "docker.io": LIMITS},
        calls="build, from, from",
        outcome="registry",
        says=f"{NO_IMAGE}; nor can docker.io/library/hello-world be had: {LIMITS}",
    ),
    Flow(
        "an image does not exist, and the engine is broken",
        pull={"x": NO_IMAGE},
        faults=[fault("control COPY")],
        calls="build, from, from, control COPY",
        outcome="engine",
    ),
    Flow(
        "an image of a registry without a control image does not exist",
        lines=("FROM a.b/x",),
        pull={"a.b": NO_IMAGE},
        calls="build, from, control",
        outcome="build",
    ),
    Flow(
        "nobody knows the host of an image",
        lines=("FROM a.b/x",),
        pull={"a.b": NO_NAME},
        calls="build, from, from, control",
        outcome="build",
    ),
    Flow(
        "nobody knows any host",
        lines=("FROM a.b/x",),
        pull={"a.b": NO_NAME, "docker.io": NO_NAME},
        calls="build, from, from",
        outcome="registry",
    ),
    Flow(
        "the name of an image is invalid",
        pull={"x": "invalid reference format"},
        calls="build, from, control",
        outcome="build",
    ),
    Flow(
        "a registry limits downloads",
        pull={"docker.io": LIMITS},
        calls="build, from",
        outcome="registry",
    ),
    Flow(
        "no registry can be reached, --offline",
        pull={"docker.io": NO_NAME},
        options={"offline": True},
        calls="build, from, control",
        outcome="build",
    ),
    Flow(
        "the disk is full at a download",
        pull={"x": "write /x: no space left on device"},
        calls="build, from",
        outcome="engine",
    ),
    Flow(
        "an image can be had the second time",
        faults=[prints("Step 1/1 : FROM x", stderr=LIMITS, nth=1)],
        calls="build, from, build",
        outcome="passed",
    ),
    Flow(
        "an image can be had, but something else fails in its step",
        faults=[prints("Step 1/1 : FROM x", stderr="trigger failed")],
        calls="build, from, build, from, control",
        outcome="build",
        says="trigger failed",
    ),
    Flow(
        "an image with a variable in its name, as the legacy builder shows it",
        faults=[prints("Step 1/1 : FROM ${X}", stderr=LIMITS)],
        calls="build",
        outcome="registry",
    ),
    Flow(
        "the image of COPY --from does not exist",
        faults=[prints("Step 2/2 : COPY --from=ghcr.io/x /y /", stderr=NO_IMAGE)],
        pull={"ghcr.io/x": NO_IMAGE},
        calls="build, from, from, control",
        outcome="build",
    ),
    Flow(
        "a download breaks off in RUN, docker 28.5",
        faults=[prints(DOWNLOAD_FAILS, stderr="")],
        pull={"127.0.0.1:5000": "short read: unexpected EOF"},
        calls="build, from",
        outcome="registry",
    ),
    Flow(
        "COPY from another stage fails",
        lines=("FROM x AS a", "FROM x"),
        faults=[prints("Step 3/3 : COPY --from=a /y /", stderr="/y does not exist")],
        calls="build, build, control",
        outcome="build",
    ),
]
HOSTS = [
    Flow(
        "no trivial Dockerfile can be built",
        lines=RUN_FAILS,
        faults=[fault("control COPY")],
        calls="build, control COPY",
        outcome="engine",
        says="docker cannot build a trivial Dockerfile: some reason",
    ),
    Flow(
        "nothing can be run in a build",
        lines=RUN_FAILS,
        faults=[fault("control RUN")],
        calls="build, control COPY, control RUN",
        outcome="engine",
        says="docker cannot run a program in a build: some reason",
    ),
    Flow(
        "a program that cannot be there can be run in a build",
        lines=RUN_FAILS,
        faults=[fault("control RUN", code=0)],
        calls="build, control COPY, control RUN",
        outcome="engine",
    ),
    Flow(
        "no container can be started",
        lines=RUN_FAILS,
        faults=[fault("control run", code=125)],
        calls="build, control",
        outcome="engine",
        says="docker cannot start a container: some reason",
    ),
    Flow(
        "a container lacks another program",
        lines=RUN_FAILS,
        faults=[fault("control run", code=127, stderr='exec: "runc": no such file or directory')],
        calls="build, control",
        outcome="engine",
    ),
    Flow(
        "the builder keeps its images",
        faults=[fault("build", code=0)],
        calls="build",
        outcome="engine",
        says="docker buildx use default",
    ),
    Flow(
        "the builder keeps its images, which the control shows",
        lines=RUN_FAILS,
        faults=[fault("control COPY", code=0)],
        calls="build, control COPY",
        outcome="engine",
        says="docker buildx use default",
    ),
    Flow(
        "a build option is refused",
        faults=[fault("build", given="--memory=1k"), fault("control COPY", given="--memory=1k")],
        options={"build_options": MEMORY},
        calls="build, build, control COPY, control COPY, control",
        outcome="usage",
        says="docker refuses the options: docker cannot build a trivial Dockerfile: some reason",
    ),
    Flow(
        "a run option is refused",
        lines=RUN_FAILS,
        faults=[fault("control run", given="--memory=1k", code=125)],
        options={"run_options": MEMORY},
        calls="build, control, control",
        outcome="usage",
        says="docker refuses the options: docker cannot start a container: some reason",
    ),
    Flow(
        "a run option of the rubric is refused",
        lines=RUN_FAILS,
        faults=[fault("control run", given="--memory=1k", code=125)],
        rubric={"run_options": MEMORY},
        calls="build, control, control",
        outcome="usage",
    ),
    Flow(
        "an option is refused by an engine that is broken",
        lines=RUN_FAILS,
        faults=[fault("control run", code=125)],
        options={"run_options": MEMORY},
        calls="build, control, control",
        outcome="engine",
    ),
    *(
        Flow(
            f"a run option that only the image can fulfil is refused, {option}",
            lines=RUN_FAILS,
            faults=[fault("control run", given=option, code=125)],
            options={"run_options": [option]},
            calls="build, control",
            outcome="build",
        )
        for option in ("-uapp", "--group-add=docker")
    ),
    Flow(
        "the target stage does not exist",
        faults=[
            fault(on, given="--target=a") for on in ("build", "control COPY", "control RUN", "from")
        ],
        options={"build_options": ["--target=a"]},
        calls="build, build, control",
        outcome="build",
    ),
    Flow(
        "the context is refused",
        faults=[NO_CONTEXT, fault("control COPY", given=THE_CONTEXT, stderr="permission denied")],
        calls="build, build, control COPY, control",
        outcome="usage",
        says="docker refuses the build context: docker cannot build",
    ),
    Flow(
        "the context would be refused, but it was an instruction that failed",
        lines=COPY_FAILS,
        faults=[fault("control COPY", given=THE_CONTEXT)],
        calls="build, build, control",
        outcome="build",
    ),
    Flow(
        "docker refuses the text of the Dockerfile",
        faults=[prints(stderr="dockerfile parse error line 1: unknown instruction: FORM")],
        calls="build, build, control",
        outcome="build",
        says="unknown instruction: FORM",
    ),
]
LIMIT = [
    Flow(
        "a RUN takes too long",
        faults=hangs("Step 2/2 : RUN x"),
        calls="build, control",
        outcome="build_timeout",
        says="timed out after 600 s in step 'RUN x'",
    ),
    Flow(
        "a RUN takes too long on an engine that is broken",
        faults=[*hangs("Step 2/2 : RUN x"), fault("control run")],
        calls="build, control",
        outcome="engine",
        says="docker cannot start a container: some reason",
    ),
    Flow(
        "a build takes too long before any instruction",
        faults=hangs("Sending build context to Docker daemon"),
        calls="build",
        outcome="engine",
    ),
    Flow(
        "a download takes too long twice, and works alone",
        faults=hangs("Step 1/1 : FROM x"),
        calls="build, from, build, from",
        outcome="engine",
        says="the build timed out in the download of x",
    ),
    Flow(
        "a download takes too long once",
        faults=hangs("Step 1/1 : FROM x", nth=1),
        calls="build, from, build",
        outcome="passed",
    ),
    Flow(
        "what looks like a download takes too long, but the image is there",
        faults=[*hangs("Step 3/3 : FROM x"), fault("image inspect", code=0)],
        calls="build, from, build, from, control",
        outcome="build_timeout",
    ),
    Flow(
        "a download takes too long, and alone it fails",
        faults=hangs("Step 1/1 : FROM x"),
        pull={"docker.io": LIMITS},
        calls="build, from",
        outcome="registry",
    ),
    Flow(
        "the download of an ADD takes too long",
        faults=hangs("#1 [1/2] FROM x", "#1 CACHED", "#2 http://a.b/x"),  # docker 20.10
        calls="build, control",
        outcome="build_timeout",
    ),
]


@pytest.fixture
def limited(monkeypatch):
    """Let a build reach its time limit as soon as it has printed LAST_LINE."""
    read = de.Docker.read
    late = []

    def read_until_last_line(docker: de.Docker, process: Any, deadline: de.Deadline) -> Any:
        data = None if process in late else read(docker, process, deadline)
        if data and data.endswith(f"{LAST_LINE}\n".encode()):
            late.append(process)
        return data

    monkeypatch.setattr(de.Docker, "read", read_until_last_line)


@pytest.fixture
def judge(fake, evaluate, limited, tmp_path):
    """Evaluate a Flow; return the report."""

    def run(flow: Flow) -> Any:
        fake.set(pull=flow.pull)
        context = {"given": str(tmp_path / "context")}
        for details in flow.faults:
            fake.fault(**{**details, **(context if details.get("given") == THE_CONTEXT else {})})
        options = {"build_timeout": 600, **flow.options}
        return evaluate(list(flow.lines), TRUE, top=flow.rubric, **options)

    return run


def experiments(fake: Any) -> str:
    """Return the names of all builds, and of the control's container."""
    names = [name for name in fake.names() if name in f"build, from, {CONTROL}".split(", ")]
    return ", ".join(names).replace(CONTROL, "control")


@pytest.mark.parametrize("flow", rows([*REPETITIONS, *PULLS, *HOSTS, *LIMIT]))
def test_failed_build_is_judged_by_experiments(fake, judge, flow):
    report = judge(flow)

    assert experiments(fake) == flow.calls
    assert outcome(report) == flow.outcome, report["error"]
    assert flow.says in (report["error"] or {}).get("message", "")
    assert fake.left() == []


def test_report_of_a_failed_build_tells_the_experiments(fake, judge):
    report = judge(
        Flow("", lines=("FROM nosuch",), pull={"nosuch": NO_IMAGE}, calls="", outcome="")
    )

    assert report["error"] == {
        "kind": "build",
        "message": NO_IMAGE,
        "suspect": None,
        "certain": False,
        "diagnosis": [
            f"FROM nosuch alone: {NO_IMAGE}",
            "FROM docker.io/library/hello-world alone: succeeded",
            "a trivial Dockerfile without files: succeeded",
        ],
    }
    assert report["build"]["succeeded"] is False
    assert report["build"]["message"] == NO_IMAGE
    assert report["build"]["log"].endswith(f"Step 1/1 : FROM nosuch\n{NO_IMAGE}\n")
    assert report["environment"]["builder"] == "legacy"
    assert messages(report) == [f"not run: {NO_IMAGE}"]


def test_experiments_have_the_users_options(fake, evaluate):
    fake.set(pull={"x": NO_IMAGE})
    build_options = ["--network=host", "--build-arg=A=1", "--target=a"]

    evaluate(["FROM x"], TRUE, build_options=build_options, run_options=["--memory=2g", "--user=a"])

    for name in ("from", "control COPY", "control RUN"):
        words = set(fake.calls(name)[0])
        assert words.issuperset(build_options[:2]), name
        assert "--target=a" not in words, "which trivial Dockerfiles lack"
    (run,) = fake.calls("control run")
    assert {"--memory=2g", "--pids-limit=4096", "--pull=never"} <= set(run)


@pytest.mark.parametrize("was_there", [True, False])
def test_control_image_is_asked_of_its_registry_and_removed_unless_it_was_there(
    fake, evaluate, was_there
):
    file = fake.folder / "images" / HUB_IMAGE.replace("/", "%")
    fake.set(pull={"x": NO_IMAGE})
    if was_there:
        file.write_text("True")

    evaluate(["FROM x"], TRUE)

    alone, control = fake.calls("from")
    assert "--pull" in control
    assert "--pull" not in alone
    removed = [words[-1] for words in fake.calls("image rm")]
    assert (HUB_IMAGE in removed) is not was_there


class Disk(NamedTuple):
    """What a failed build prints, and how much the control experiment then writes."""

    when: str
    printed: str
    size: int


DISKS = [
    Disk("nothing of the disk", printed="x", size=1024),
    Disk("that the disk is full", printed="x: No space left on device", size=4096),
]


@pytest.mark.parametrize("row", rows(DISKS))
def test_control_experiment_writes_much_if_the_disk_may_be_full(fake, evaluate, monkeypatch, row):
    build, contents = de.docker_build, []

    def spy(docker: de.Docker, *argv: str, **details: Any) -> de.Build:
        contents.extend(file.read_bytes() for file in Path(argv[-1]).glob("content"))
        return build(docker, *argv, **details)

    monkeypatch.setattr(de, "docker_build", spy)
    fake.fault(**prints("Step 1/1 : COPY x /", stderr=row.printed))

    evaluate(["FROM x"], TRUE)
    evaluate(["FROM x"], TRUE)

    assert {len(content) for content in contents} == {row.size}
    assert len({content[:1024] for content in contents}) == 2, "no layer that the engine has"


# ---- The engine between two builds ----


def test_second_build_waits_for_the_engine(fake, evaluate):
    fake.fault("build", "lose the engine", nth=1)
    fake.fault("version", "find the engine", nth=3)

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    calls = fake.names()
    assert calls[calls.index("build") :][:4] == ["build", "version", "version", "build"]


def test_engine_that_does_not_come_back_has_no_score_but_the_log(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.1)
    fake.fault("build", "print", stdout="Step 1/1 : FROM x\n")
    fake.fault("build", "lose the engine")

    report = evaluate(["FROM x"], TRUE)

    kind, message = error_of(report)
    assert kind == "engine"
    assert message.startswith("no docker engine (check DOCKER_HOST): Cannot connect")
    assert report["build"]["log"].startswith("Step 1/1 : FROM x\n")
    assert report["environment"]["builder"] == "legacy"


def test_dockerfile_that_is_a_link_is_built_by_its_target(fake, dockerfile, rubric, tmp_path):
    path = dockerfile("FROM x")
    link = tmp_path / "links" / "Dockerfile"
    link.parent.mkdir()
    os.symlink(path, str(link))

    de.evaluate(str(link), "example", rubric(TRUE))

    (words,) = fake.calls("build")
    assert words[-2:] == [f"--file={path}", str(link.parent)]
