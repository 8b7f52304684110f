"""Who is at fault for a failed build, from real logs: the decision alone, without docker.

The engine works in all of them; what its registries answer is said in each test.
"""

from __future__ import annotations

import signal
from typing import NamedTuple

import logs
import pytest

import DockerfileEvaluator as de


class Cause(NamedTuple):
    """Why the builds of a log in tests/logs failed, if it is not the Dockerfile."""

    why: str
    log: str  # name of the file
    kind: str  # of the error
    programs: tuple[str, ...] = ("",)  # part of their names; by default, all programs


# Every other log is that of a Dockerfile at fault.
NOT_THE_DOCKERFILE = [
    Cause("the context has an unreadable file", log="context-unreadable", kind="usage"),
    Cause("a name in the context is not UTF-8", log="context-not-utf8", kind="usage"),
    Cause("the .dockerignore is broken", log="ignore-file", kind="usage"),
    Cause(
        "this engine has no git for ADD",
        log="add-git",
        kind="engine",
        programs=("buildx", "podman"),
    ),
    Cause(
        "the registry, which may have the image, was out of reach",
        log="from-platform",
        kind="registry",
    ),
    Cause("the registry answers as it does in an outage", log="missing-nvcr.io", kind="registry"),
    Cause(
        "podman has no registry for a short name",
        log="missing-docker.io_user",
        kind="usage",
        programs=("podman",),
    ),
    # A mirror of Docker Hub fails. The legacy builder then asks Docker Hub itself.
    Cause(
        "the mirror wants a login",
        log="mirror-401-docker.io",
        kind="registry",
        programs=("BuildKit", "buildx"),
    ),
    Cause(
        "the mirror forbids it",
        log="mirror-403-docker.io",
        kind="registry",
        programs=("BuildKit", "buildx"),
    ),
    Cause(
        "the mirror has an internal error",
        log="mirror-500-docker.io",
        kind="registry",
        programs=("BuildKit", "buildx"),
    ),
    Cause(
        "the mirror does not answer",
        log="mirror-away-docker.io",
        kind="registry",
        programs=("BuildKit", "buildx"),
    ),
    Cause(
        "the mirror lacks the image, and Docker Hub does not answer",
        log="mirror-404away-docker.io",
        kind="registry",
        programs=("legacy", "20.10.24, BuildKit"),
    ),
]

# What `docker pull` of an image that does not exist prints, by registry
MISSING = {
    "docker.io": "pull access denied for docker.io/IMAGE, "
    "repository does not exist or may require 'docker login'",
    "registry-1.docker.io": "pull access denied for registry-1.docker.io/IMAGE, "
    "repository does not exist",
    "ghcr.io": 'Head "https://ghcr.io/v2/IMAGE/manifests/latest": denied',
    "quay.io": "unauthorized: access to the requested resource is not authorized",
    "gcr.io": "denied: Unauthenticated request. "
    'Unauthenticated requests do not have permission "x"',
    "mcr.microsoft.com": "manifest for mcr.microsoft.com/IMAGE:latest not found: manifest unknown",
    "public.ecr.aws": "name unknown: The repository with name 'x' does not exist",
    "registry.k8s.io": 'manifest unknown: Failed to fetch "latest"',
    "registry.gitlab.com": "denied: access forbidden",
}


class Engine(NamedTuple):
    """A session as far as blame() looks at it."""

    info: dict
    is_podman: bool = False


class Inquiry:
    """Answers for an engine and its registries, and records the questions.

    By default the engine works, and no registry has the image.
    """

    def __init__(self, *, info=None, is_podman=False, fault=None, answers=MISSING):
        self.session = Engine(info or {}, is_podman)
        self.asked = []
        self.fault = fault
        self.answers = answers

    def engine_fault(self, *, is_full_disk=False):
        self.asked.append("256 MiB" if is_full_disk else "engine")
        return self.fault

    def pull(self, registry):
        self.asked.append(registry)
        return self.answers[registry]


OPTIONS = de.Options(dockerfile="Dockerfile", repo="r", context="/context")


def blame(log, inquiry, **options):
    """Return the error of a build that failed twice in the same way."""
    return de.blame(
        inquiry,
        [log.build(), log.build()],
        options=OPTIONS._replace(**options),
        dockerfile=log.dockerfile,
    )


def cause_of(log):
    for cause in NOT_THE_DOCKERFILE:
        is_program = any(word in log.program for word in cause.programs)
        if cause.log == log.name and is_program:
            return cause
    return Cause("the Dockerfile is at fault", log=log.name, kind="build")


def needs_buildkit(log):
    """Return whether the evaluator asks for BuildKit before it looks for a cause."""
    return "legacy" in log.program and "requires BuildKit" in log.stderr


def inquiry_for(log, **more):
    mirrors = ["http://127.0.0.1:8081/"] if "mirror" in log.name else []
    info = {"RegistryConfig": {"Mirrors": mirrors}}
    return Inquiry(info=info, is_podman="podman" in log.program, **more)


JUDGED = [log for log in logs.LOGS if not needs_buildkit(log)]


@pytest.mark.parametrize("log", JUDGED, ids=lambda log: f"{log.name}, {log.program}")
def test_real_log_has_its_kind_of_error(log):
    expected = cause_of(log)

    error = blame(log, inquiry_for(log))

    assert error.kind == expected.kind, f"{expected.why}: {error}"


@pytest.mark.parametrize("log", JUDGED, ids=lambda log: f"{log.name}, {log.program}")
def test_engine_that_fails_is_at_fault_unless_the_failure_is_permanent(log):
    fault = de.EvaluationError("the docker engine fails", "engine")
    build = log.build()
    is_certain = build.failure.is_permanent and build.builder.exit_code_is_of_run

    error = blame(log, inquiry_for(log, fault=fault))

    is_engines = error is fault
    assert is_engines is not is_certain, str(error)


def find(name, program="docker 28.5.2, buildx 0.29.1, overlay2"):
    """Return the log of a Dockerfile, by default as docker 28 prints it."""
    return next(log for log in logs.LOGS if log.name == name and log.program.startswith(program))


def test_context_entry_whose_name_is_not_utf8_is_named(tmp_path):
    (tmp_path / "folder").mkdir()
    with open(bytes(tmp_path / "folder") + b"/caf\xe9.txt", "w"):
        pass
    log = find("context-not-utf8")

    error = blame(log, inquiry_for(log), context=str(tmp_path))

    assert error.kind == "usage"
    assert "folder/caf\\xe9.txt is not UTF-8" in str(error).replace("\\\\", "\\")


def test_unreadable_context_entry_is_named():
    log = find("context-unreadable")

    error = blame(log, inquiry_for(log))

    assert "open pgdata: permission denied" in str(error)


@pytest.mark.parametrize("program", ["docker 20.10.24, BuildKit", "docker 28.5.2, buildx 0.29.1"])
def test_mirror_that_fails_is_named(program):
    log = find("mirror-403-docker.io", program)

    error = blame(log, inquiry_for(log))

    assert "the mirror 127.0.0.1:8081 fails" in str(error)


def test_after_not_found_of_a_mirror_docker_hub_itself_is_asked():
    log = find("mirror-404-docker.io")
    inquiry = inquiry_for(log)

    error = blame(log, inquiry)

    assert error.kind == "build", str(error)
    assert inquiry.asked[-1] == "registry-1.docker.io"


def test_not_found_of_a_mirror_does_not_count_if_docker_hub_is_out_of_reach():
    log = find("mirror-404-docker.io")
    away = {"registry-1.docker.io": "dial tcp: lookup registry-1.docker.io: no such host"}

    error = blame(log, inquiry_for(log, answers=away))

    assert error.kind == "registry", str(error)


def test_registry_that_is_configured_is_no_invented_one():
    config = {"IndexConfigs": {"docker.io": {}, "registry.invalid": {"Secure": False}}}

    error = blame(find("from-host"), Inquiry(info={"RegistryConfig": config}))

    assert error.kind == "registry", str(error)


@pytest.mark.parametrize("part", ["auths", "credHelpers"])
def test_registry_with_a_login_is_no_invented_one(part, tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(f'{{"{part}": {{"https://registry.invalid/v1/": {{}}}}}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))

    error = blame(find("from-host"), Inquiry())

    assert error.kind == "registry", str(error)


def test_offline_a_missing_image_is_the_dockerfiles_and_no_registry_is_asked():
    log = find("mirror-403-docker.io")
    inquiry = inquiry_for(log)

    error = blame(log, inquiry, offline=True)

    assert error.kind == "build", str(error)
    assert inquiry.asked == ["engine"]


# ---- Failures of which there is no log ----


BUILDKIT = de.BuildKitOutput.builder


def blame_for(*failures, exit_code=1, inquiry=None):
    """Return the error of builds with BuildKit that failed in these ways."""
    builds = [
        de.Build(exit_code=exit_code, builder=BUILDKIT, log="", failure=failure)
        for failure in failures
    ]
    return de.blame(inquiry or Inquiry(), builds, options=OPTIONS, dockerfile="FROM x")


class Pair(NamedTuple):
    """How two builds failed, and the kind of the error."""

    when: str
    first: de.BuildFailure
    kind: str
    second: de.BuildFailure | None = None  # None: the same again


COPY_FAILED = de.BuildFailure(
    kind=de.INSTRUCTION, step="[2/2] COPY a /", error="cannot copy to non-directory: /a"
)
UNREADABLE = 'copier: get: "/context/a": open: permission denied'  # podman
RUN_KILLED = de.BuildFailure(
    kind=de.RUN, step="[2/2] RUN make", error="exit code: 137", exit_code=137
)
RUN_LOST = de.BuildFailure(kind=de.RUN, step="[2/2] RUN make", error="unexpected EOF")
EXPORT_FAILED = de.BuildFailure(kind=de.EXPORT, step="exporting to image")
BEFORE_ANY_STEP = de.BuildFailure(kind=de.NO_STEP, error="some reason")
PAIRS = [
    Pair(
        "another step failed in the second build",
        first=COPY_FAILED,
        second=COPY_FAILED._replace(step="[1/2] WORKDIR /x"),
        kind="engine",
    ),
    Pair("a RUN was killed, after a lost engine", first=RUN_LOST, second=RUN_KILLED, kind="engine"),
    Pair("a RUN was killed twice", first=RUN_KILLED, kind="build"),
    Pair(
        "an export failed in two ways",
        first=EXPORT_FAILED._replace(error="image config is too large"),
        second=EXPORT_FAILED._replace(error="layer has no name"),
        kind="engine",
    ),
    Pair(
        "an export failed twice in the same way",
        first=EXPORT_FAILED._replace(error="config of /var/lib/x/1 is too large"),
        second=EXPORT_FAILED._replace(error="config of /var/lib/x/2 is too large"),
        kind="build",
    ),
    Pair(
        "the connection was lost twice",
        first=RUN_LOST._replace(error="error reading from server: EOF"),
        kind="engine",
    ),
    Pair(
        "docker ended in two ways before any step",
        first=BEFORE_ANY_STEP,
        second=BEFORE_ANY_STEP._replace(error="another reason"),
        kind="engine",
    ),
    Pair("docker refused the text in the same words", first=BEFORE_ANY_STEP, kind="build"),
    Pair(
        "the status stream broke",
        first=BEFORE_ANY_STEP._replace(
            error="failed to receive status: rpc error: code = Canceled desc = x"
        ),
        kind="engine",
    ),
    Pair(
        "a file of the context cannot be read",
        first=COPY_FAILED._replace(error=UNREADABLE),
        kind="usage",
    ),
    Pair(
        "a file of another stage cannot be read",
        first=COPY_FAILED._replace(step="[2/2] COPY --from=a a /", error=UNREADABLE),
        kind="build",
    ),
    Pair(
        "text of the Dockerfile is like a lost connection",
        first=BEFORE_ANY_STEP._replace(error="X: a EOF"),
        kind="build",
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.when)
def test_two_builds_have_their_kind_of_error(pair):
    error = blame_for(pair.first, pair.second or pair.first)

    assert error.kind == pair.kind, str(error)


def test_full_disk_in_the_first_build_alone_lets_the_engine_be_tested_with_256_mib():
    disk_full = de.BuildFailure(
        kind=de.RUN, step="[2/2] RUN make", exit_code=1, output="no space left on device"
    )
    inquiry = Inquiry()

    blame_for(disk_full, COPY_FAILED, inquiry=inquiry)

    assert inquiry.asked == ["256 MiB"]


class Trouble(NamedTuple):
    """What the engine prints for trouble of its own."""

    what: str
    error: str


# From public issues (moby/buildkit, containerd); no step is at fault
TROUBLE = [
    Trouble(
        "a parent snapshot is gone",
        error="failed to prepare 1dqy as 8xk2: parent snapshot sha256:1d does not exist: not found",
    ),
    Trouble(
        "a snapshot exists already",
        error="failed to prepare extraction snapshot: snapshot extract-1 sha256:1d: already exists",
    ),
    Trouble(
        "overlay cannot be mounted",
        error="failed to mount /tmp/buildkit-mount1: "
        "[{Type:overlay Source:overlay}]: invalid argument",
    ),
    Trouble(
        "a snapshot cannot be committed",
        error="failed to commit 8xk2 to 9al3 during finalize: "
        "failed to stat active key during commit",
    ),
    Trouble(
        "the network has no endpoint",
        error="failed to create endpoint x on network bridge: "
        "failed to add the host (veth0) <=> sandbox pair",
    ),
    Trouble(
        "a layer cannot be registered",
        error="failed to register layer: lchown /etc/shadow: invalid argument",
    ),
    Trouble(
        "a layer cannot be extracted",
        error="failed to extract layer sha256:1d: "
        "mount callback failed on /tmp/containerd-mount1: input/output error",
    ),
    Trouble(
        "content cannot be committed",
        error='failed commit on ref "layer-sha256:1d": '
        "commit failed: rename /a /b: no such file or directory",
    ),
    Trouble(
        "content cannot be leased",
        error="unable to lease content: lease does not exist: not found",
    ),
    Trouble("a lease is gone", error='lease "x9c": not found'),
    Trouble("content is gone", error="content digest sha256:1d: not found"),
    Trouble(
        "a mount has no memory",
        error="mount callback failed on /tmp/containerd-mount1: mount: cannot allocate memory",
    ),
    Trouble("the disk is read-only", error="open /var/lib/docker/x: read-only file system"),
    Trouble(
        "too many files are open",
        error="mkdir /var/lib/docker/overlay2/1d: too many open files",
    ),
    Trouble("the disk is broken", error="write /var/lib/docker/tmp/1: input/output error"),
]
STEPS = {
    de.RUN: "[2/2] X",
    de.INSTRUCTION: "[2/2] X",
    de.EXPORT: "[2/2] X",
    de.IMAGE: "[1/2] FROM docker.io/library/x",
    de.INTERNAL: "[2/2] X",
}


@pytest.mark.parametrize("trouble", TROUBLE, ids=lambda trouble: trouble.what)
@pytest.mark.parametrize("kind", STEPS)
def test_trouble_of_the_engine_gives_no_score(kind, trouble):
    failure = de.BuildFailure(
        kind=kind, step=STEPS[kind], error=trouble.error, step_error=trouble.error
    )

    error = blame_for(failure, failure)

    assert error.kind == "engine", str(error)


class Late(NamedTuple):
    """The step that was running when the build's time was over, and the kind of the error."""

    during: str
    kind_of_step: str
    step: str
    kind: str


LATE = [
    Late(
        "a RUN",
        kind_of_step=de.RUN,
        step="[2/2] RUN sleep 600",
        kind="build_timeout",
    ),
    Late(
        "the download of an ADD",
        kind_of_step=de.INSTRUCTION,
        step="[2/2] ADD https://example.org/x /",
        kind="build_timeout",
    ),
    Late(
        "the export",
        kind_of_step=de.EXPORT,
        step="exporting to image",
        kind="build_timeout",
    ),
    Late(
        "the download of an image",
        kind_of_step=de.IMAGE,
        step="[1/2] FROM docker.io/library/x",
        kind="registry",
    ),
    Late(
        "the download of an image from a registry that nobody knows",
        kind_of_step=de.IMAGE,
        step="[1/2] FROM registry.invalid/x",
        kind="build_timeout",
    ),
    Late(
        "the transfer of the context",
        kind_of_step=de.CONTEXT,
        step="[internal] load build context",
        kind="engine",
    ),
    Late(
        "another step of BuildKit",
        kind_of_step=de.INTERNAL,
        step="[internal] other",
        kind="engine",
    ),
    Late("none", kind_of_step=de.NO_STEP, step="", kind="engine"),
]


@pytest.mark.parametrize("late", LATE, ids=lambda late: late.during)
def test_build_that_times_out_is_blamed_on_the_step_that_was_running(late):
    failure = de.BuildFailure(kind=late.kind_of_step, step=late.step)

    error = blame_for(failure, exit_code=None)

    assert error.kind == late.kind, str(error)
    assert late.step in str(error)


def test_build_that_times_out_on_an_engine_that_fails_gives_no_score():
    fault = de.EvaluationError("the docker engine fails", "engine")
    failure = de.BuildFailure(kind=de.EXPORT, step="exporting to image")

    error = blame_for(failure, exit_code=None, inquiry=Inquiry(fault=fault))

    assert error is fault


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_docker_that_is_killed_gives_no_score(number):
    failure = de.BuildFailure(kind=de.RUN, step="[2/2] RUN x")

    error = blame_for(failure, failure, exit_code=-number)

    assert error.kind == "engine"
    assert f"killed during the build (signal {number:d})" in str(error)
