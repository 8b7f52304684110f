"""Who is at fault for a failed build, from real logs: the decision alone, without docker.

The engine works in all of them; what its registries answer is said in each test.
"""

from __future__ import annotations

from typing import NamedTuple

import logs
import pytest

import DockerfileEvaluator as de

# The kind of error, by log; for all programs, or for those whose names contain a word. Every other log is that
# of a Dockerfile at fault.
NOT_THE_DOCKERFILE = {
    # The build context
    "context-unreadable": {"": "usage"},
    "context-not-utf8": {"": "usage"},
    "ignore-file": {"": "usage"},
    # What this engine lacks: git for ADD
    "add-git": {"buildx": "engine", "podman": "engine"},
    # Images that a registry may have: it was out of reach
    "from-platform": {"": "registry"},
    # The registry answers, but as it does in an outage
    "missing-nvcr.io": {"": "registry"},
    # podman has no registry for a short name
    "missing-docker.io_user": {"podman": "usage"},
    # The mirror fails; the legacy builder then asks Docker Hub
    "mirror-401-docker.io": {"BuildKit": "registry", "buildx": "registry"},
    "mirror-403-docker.io": {"BuildKit": "registry", "buildx": "registry"},
    "mirror-500-docker.io": {"BuildKit": "registry", "buildx": "registry"},
    "mirror-away-docker.io": {"BuildKit": "registry", "buildx": "registry"},
    "mirror-404away-docker.io": {"legacy": "registry", "20.10.24, BuildKit": "registry"},
}
MISSING = {
    "docker.io": "pull access denied for docker.io/IMAGE, repository does not exist or may require 'docker login'",
    "registry-1.docker.io": "pull access denied for registry-1.docker.io/IMAGE, repository does not exist",
    "ghcr.io": 'Head "https://ghcr.io/v2/IMAGE/manifests/latest": denied',
    "quay.io": "unauthorized: access to the requested resource is not authorized",
    "gcr.io": 'denied: Unauthenticated request. Unauthenticated requests do not have permission "x"',
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
    """Answers for an engine that works and for registries that have no image, and records the questions."""

    def __init__(self, *, info=None, is_podman=False, fault=None, answers=MISSING):
        self.session = Engine(info or {}, is_podman)
        self.asked = []
        self._fault = fault
        self._answers = answers

    def engine_fault(self, *, is_full_disk=False):
        self.asked.append("256 MiB" if is_full_disk else "engine")
        return self._fault

    def pull(self, registry):
        self.asked.append(registry)
        return self._answers[registry]


OPTIONS = de.Options(dockerfile="Dockerfile", repo="r", context="/context")


def blame(log, inquiry, *, builds=2, **options):
    """Return the error of a build that failed in the same way each time."""
    return de.blame(
        inquiry,
        [log.build()] * builds,
        options=OPTIONS._replace(**options),
        dockerfile=log.dockerfile,
    )


def expected_kind(log):
    for word, kind in NOT_THE_DOCKERFILE.get(log.name, {}).items():
        if word in log.program:
            return kind
    return "build"


def needs_buildkit(log):
    return "legacy" in log.program and "requires BuildKit" in log.stderr


def inquiry_for(log, **more):
    mirrors = ["http://127.0.0.1:8081/"] if "mirror" in log.name else []
    info = {"RegistryConfig": {"Mirrors": mirrors}}
    return Inquiry(info=info, is_podman="podman" in log.program, **more)


JUDGED = [log for log in logs.LOGS if not needs_buildkit(log)]


@pytest.mark.parametrize("log", JUDGED, ids=lambda log: f"{log.name}, {log.program}")
def test_real_log_has_its_kind_of_error(log):
    error = blame(log, inquiry_for(log))
    assert error.kind == expected_kind(log), str(error)


@pytest.mark.parametrize("log", JUDGED, ids=lambda log: f"{log.name}, {log.program}")
def test_engine_that_fails_is_at_fault_unless_the_failure_is_permanent(log):
    fault = de.EvaluationError("the docker engine fails", "engine")
    inquiry = inquiry_for(log, fault=fault)
    error = blame(log, inquiry)
    build = log.build()
    is_certain = build.failure.is_permanent and build.builder.exit_code_is_of_run
    assert (error is fault) != is_certain, str(error)


def find(name, word):
    (log,) = [log for log in logs.LOGS if log.name == name and word in log.program]
    return log


def test_context_entry_whose_name_is_not_utf8_is_named(tmp_path):
    (tmp_path / "folder").mkdir()
    with open(bytes(tmp_path / "folder") + b"/caf\xe9.txt", "w"):
        pass
    log = find("context-not-utf8", "overlay2")
    error = blame(log, inquiry_for(log), context=str(tmp_path))
    assert error.kind == "usage"
    assert "folder/caf\\xe9.txt is not UTF-8" in str(error).replace("\\\\", "\\")


def test_unreadable_context_entry_is_named():
    log = find("context-unreadable", "overlay2")
    assert "open pgdata: permission denied" in str(blame(log, inquiry_for(log)))


def test_mirror_that_fails_is_named():
    log = find("mirror-403-docker.io", "overlay2")
    assert "the mirror 127.0.0.1:8081 fails" in str(blame(log, inquiry_for(log)))


def test_not_found_of_a_mirror_counts_only_if_docker_hub_itself_has_no_such_image():
    log = find("mirror-404-docker.io", "overlay2")
    inquiry = inquiry_for(log)
    assert blame(log, inquiry).kind == "build"
    assert inquiry.asked[-1] == "registry-1.docker.io"
    away = {"registry-1.docker.io": "dial tcp: lookup registry-1.docker.io: no such host"}
    assert blame(log, inquiry_for(log, answers=away)).kind == "registry"


def test_registry_that_is_configured_is_no_invented_one():
    log = find("from-host", "overlay2")
    config = {"IndexConfigs": {"docker.io": {}, "registry.invalid": {"Secure": False}}}
    assert blame(log, Inquiry(info={"RegistryConfig": config})).kind == "registry"


@pytest.mark.parametrize("part", ["auths", "credHelpers"])
def test_registry_with_a_login_is_no_invented_one(part, tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(f'{{"{part}": {{"https://registry.invalid/v1/": {{}}}}}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    log = find("from-host", "overlay2")
    assert blame(log, Inquiry()).kind == "registry"


def test_offline_a_missing_image_is_the_dockerfiles_and_no_registry_is_asked():
    log = find("mirror-403-docker.io", "overlay2")
    inquiry = inquiry_for(log)
    assert blame(log, inquiry, offline=True).kind == "build"
    assert inquiry.asked == ["engine"]


# Failures that are no log of their own


def failed(kind, step, error, **more):
    return de.BuildFailure(kind=kind, step=step, error=error, **more)


BUILDKIT = de.BuildKitOutput.builder
COPY = failed(de.INSTRUCTION, "[2/2] COPY a /", "cannot copy to non-directory: /a")
# Two builds, and the kind of error
PAIRS = {
    "another step failed in the second build": (
        [COPY, COPY._replace(step="[1/2] WORKDIR /x")],
        "engine",
    ),
    "a RUN was killed, after a lost engine": (
        [
            failed(de.RUN, "[2/2] RUN make", "unexpected EOF"),
            failed(de.RUN, "[2/2] RUN make", "exit code: 137", exit_code=137),
        ],
        "engine",
    ),
    "a RUN was killed twice": (
        [failed(de.RUN, "[2/2] RUN make", "exit code: 137", exit_code=137)] * 2,
        "build",
    ),
    "an export failed in two ways": (
        [
            failed(de.EXPORT, "exporting to image", "image config is too large"),
            failed(de.EXPORT, "exporting to image", "layer has no name"),
        ],
        "engine",
    ),
    "an export failed twice in the same way": (
        [
            failed(de.EXPORT, "exporting to image", "config of /var/lib/x/1 is too large"),
            failed(de.EXPORT, "exporting to image", "config of /var/lib/x/2 is too large"),
        ],
        "build",
    ),
    "the connection was lost twice": (
        [failed(de.RUN, "[2/2] RUN make", "error reading from server: EOF")] * 2,
        "engine",
    ),
    "docker ended in two ways before any step": (
        [
            failed(de.NO_STEP, "", "some reason"),
            failed(de.NO_STEP, "", "another reason"),
        ],
        "engine",
    ),
    "docker refused the text in the same words": (
        [failed(de.NO_STEP, "", "some reason")] * 2,
        "build",
    ),
    "the status stream broke": (
        [failed(de.NO_STEP, "", "failed to receive status: rpc error: code = Canceled desc = x")]
        * 2,
        "engine",
    ),
    "text of the Dockerfile is like a lost connection": (
        [failed(de.NO_STEP, "", "X: a EOF")] * 2,
        "build",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_builds_have_their_kind_of_error(name):
    failures, kind = PAIRS[name]
    builds = [de.Build(1, BUILDKIT, "", failure) for failure in failures]
    error = de.blame(Inquiry(), builds, options=OPTIONS, dockerfile="FROM x")
    assert error.kind == kind, str(error)


# What the engine prints for its own trouble, in public issues (moby/buildkit, containerd); no step is at fault
TROUBLE = [
    "failed to prepare 1dqy as 8xk2: parent snapshot sha256:1d does not exist: not found",
    "failed to prepare extraction snapshot: snapshot extract-1 sha256:1d: already exists",
    'failed to mount /tmp/buildkit-mount1: [{Type:overlay Source:overlay}]: invalid argument',
    "failed to commit 8xk2 to 9al3 during finalize: failed to stat active key during commit",
    "failed to create endpoint x on network bridge: failed to add the host (veth0) <=> sandbox pair",
    "failed to register layer: lchown /etc/shadow: invalid argument",
    "failed to extract layer sha256:1d: mount callback failed on /tmp/containerd-mount1: input/output error",
    'failed commit on ref "layer-sha256:1d": commit failed: rename /a /b: no such file or directory',
    "unable to lease content: lease does not exist: not found",
    'lease "x9c": not found',
    "content digest sha256:1d: not found",
    "mount callback failed on /tmp/containerd-mount1: mount: cannot allocate memory",
    "open /var/lib/docker/x: read-only file system",
    "mkdir /var/lib/docker/overlay2/1d: too many open files",
    "write /var/lib/docker/tmp/1: input/output error",
]  # fmt: skip


@pytest.mark.parametrize("error", TROUBLE)
@pytest.mark.parametrize("kind", [de.RUN, de.INSTRUCTION, de.EXPORT, de.IMAGE, de.INTERNAL])
def test_trouble_of_the_engine_gives_no_score(kind, error):
    step = "[1/2] FROM docker.io/library/x" if kind == de.IMAGE else "[2/2] X"
    failure = failed(kind, step, error, step_error=error)
    builds = [de.Build(1, BUILDKIT, "", failure)] * 2
    assert de.blame(Inquiry(), builds, options=OPTIONS, dockerfile="FROM x").kind == "engine"


# Time limits: the step that was running, whether the registry is known, the kind of error
LATE = [
    (de.RUN, "[2/2] RUN sleep 600", "build_timeout"),
    (de.INSTRUCTION, "[2/2] ADD https://example.org/x /", "build_timeout"),
    (de.EXPORT, "exporting to image", "build_timeout"),
    (de.IMAGE, "[1/2] FROM docker.io/library/x", "registry"),
    (de.IMAGE, "[1/2] FROM registry.invalid/x", "build_timeout"),
    (de.CONTEXT, "[internal] load build context", "engine"),
    (de.INTERNAL, "[internal] other", "engine"),
    (de.NO_STEP, "", "engine"),
]


@pytest.mark.parametrize(("kind", "step", "expected"), LATE)
def test_build_that_times_out_is_blamed_on_the_step_that_was_running(kind, step, expected):
    build = de.Build(None, BUILDKIT, "", failed(kind, step, "no output"))
    error = de.blame(Inquiry(), [build], options=OPTIONS, dockerfile="FROM x")
    assert error.kind == expected
    assert step in str(error)


def test_build_that_times_out_on_an_engine_that_fails_gives_no_score():
    fault = de.EvaluationError("the docker engine fails", "engine")
    build = de.Build(None, BUILDKIT, "", failed(de.EXPORT, "exporting to image", "no output"))
    inquiry = Inquiry(fault=fault)
    assert de.blame(inquiry, [build], options=OPTIONS, dockerfile="FROM x") is fault


def test_docker_that_is_killed_gives_no_score():
    build = de.Build(-9, BUILDKIT, "", failed(de.RUN, "[2/2] RUN x", "no output"))
    error = de.blame(Inquiry(), [build] * 2, options=OPTIONS, dockerfile="FROM x")
    assert error.kind == "engine"
    assert "killed during the build (signal 9)" in str(error)
