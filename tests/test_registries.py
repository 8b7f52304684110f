"""Who is at fault without an image: its registry, this machine's docker, or the Dockerfile."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from cases import FROM, TRUE, buildkit, legacy, podman
from conftest import error_of, outcome, statuses

import DockerfileEvaluator as de

FROM_VERTEX = "[1/2] FROM docker.io/library/x\nCACHED"
METADATA = "[internal] load metadata for "
SYNTAX = "resolve image config for docker-image://docker.io/docker/dockerfile:1"

# What docker prints of an image
DENIED = (
    "pull access denied for x, repository does not exist or may require 'docker login': "
    "denied: requested access to the resource is denied"
)
NO_ACCESS = (
    "pull access denied, repository does not exist or may require authorization: "
    "server message: insufficient_scope: authorization failed"
)
MISSING = "manifest for x:latest not found: manifest unknown"
LIMITS = (
    "toomanyrequests: You have reached your pull rate limit. You may increase the limit by "
    "authenticating and upgrading: https://www.docker.com/increase-rate-limit"
)


def no_name(host):
    return f"dial tcp: lookup {host} on 10.0.0.1:53: no such host"


def head(image, tag="latest"):
    """Return what comes before the error of a request for an image."""
    registry, _, name = image.partition("/")
    return f'Head "https://{registry}/v2/{name}/manifests/{tag}": '


NO_HUB = 'Get "https://registry-1.docker.io/v2/": ' + no_name("registry-1.docker.io")
HUB_UNREACHABLE = f"Error response from daemon: {NO_HUB}"


def buildx_error(error):
    """Return the last line of buildx."""
    return f"ERROR: failed to build: failed to solve: {error}"


def unresolved(image, error):
    """Return the log of buildx that cannot resolve an image."""
    return buildkit(f"{METADATA}{image}\nERROR: {error}", error=buildx_error(error))


def unresolved_in_20_10(image, error):
    """Return the same log of docker 20.10."""
    solve = "failed to solve with frontend dockerfile.v0: failed to create LLB definition: "
    return buildkit(
        f"{METADATA}{image}\nERROR: {error}", error=f" > {METADATA}{image}:\n------\n{solve}{error}"
    )


def unresolved_syntax(error):
    """Return the log of buildx that cannot resolve the image of a line `# syntax=`."""
    return buildkit(f"{SYNTAX}\nERROR: {error}", error=buildx_error(error))


def failed_beside_a_run(image, error):
    """Return the log of buildx whose error ends a RUN of another stage."""
    return buildkit(
        f"[b 1/2] FROM {image}\nERROR: x", "[a 2/2] RUN make\nCANCELED", error=buildx_error(error)
    )


# Which registry is asked, and whether the build has had an answer


class Unavailable(NamedTuple):
    """A build without its image."""

    when: str
    log: dict
    registry: str  # that could have the image


NO_SUCH_IMAGE = [
    Unavailable("legacy builder, FROM", log=legacy("FROM x", error=DENIED), registry="docker.io"),
    Unavailable(
        "legacy builder, FROM --platform",
        log=legacy(
            "FROM --platform=linux/amd64 mcr.microsoft.com/x AS a", error="manifest unknown"
        ),
        registry="mcr.microsoft.com",
    ),
    Unavailable(
        "legacy builder, FROM with a variable",
        log=legacy("FROM ${R}/x", error=head("ghcr.io/x", "1") + "denied"),
        registry="ghcr.io",
    ),
    Unavailable(
        "legacy builder, COPY --from",
        log=legacy(
            FROM,
            "COPY --from=ghcr.io/nosuch/x /a /",
            error="invalid from flag value ghcr.io/nosuch/x: "
            + head("ghcr.io/nosuch/x")
            + "denied",
        ),
        registry="ghcr.io",
    ),
    Unavailable(
        "BuildKit 20.10, FROM",
        log=unresolved_in_20_10("docker.io/nosuch/x:1", NO_ACCESS),
        registry="docker.io",
    ),
    Unavailable(
        "buildx, FROM",
        log=unresolved("quay.io/nosuch/x:latest", "quay.io/nosuch/x:latest: not found"),
        registry="quay.io",
    ),
    Unavailable("buildx, # syntax=", log=unresolved_syntax(NO_ACCESS), registry="docker.io"),
    Unavailable(
        "buildx, COPY --from",
        log=buildkit(
            "[stage-0 1/2] FROM docker.io/library/x\nCACHED",
            "FROM ghcr.io/nosuch/x:latest\nERROR: x",
            error=buildx_error("ghcr.io/nosuch/x:latest: not found"),
        ),
        registry="ghcr.io",
    ),
    Unavailable(
        "buildx, FROM beside a RUN",
        log=failed_beside_a_run("public.ecr.aws/x", "public.ecr.aws/x: not found"),
        registry="public.ecr.aws",
    ),
    Unavailable(
        "podman, FROM",
        log=podman(
            "FROM registry.k8s.io/x",
            error=(
                "creating build container: unable to copy from source "
                "docker://registry.k8s.io/x:latest: initializing source "
                "docker://registry.k8s.io/x:latest: reading manifest latest in "
                "registry.k8s.io/x: manifest unknown"
            ),
        ),
        registry="registry.k8s.io",
    ),
]


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("row", NO_SUCH_IMAGE, ids=lambda row: row.when)
def test_registry_is_asked_for_an_image_that_cannot_exist(fake, evaluate, row):
    fake.set(pull=HUB_UNREACHABLE)
    fake.fault("build", **row.log)

    report = evaluate(["FROM x"], TRUE)

    ((image,),) = fake.calls("pull")
    assert image.startswith(f"{row.registry}/")
    kind, message = error_of(report)
    assert kind == "registry"
    assert message.startswith(f"registry {row.registry}: {HUB_UNREACHABLE}")
    assert statuses(report) == {"run_command_1": "not_run"}


NO_ANSWER = [
    Unavailable("legacy builder, FROM", log=legacy("FROM x", error=NO_HUB), registry="docker.io"),
    Unavailable(
        "legacy builder, FROM of another registry",
        log=legacy(
            "FROM quay.io/a/x", error="received unexpected HTTP status: 503 Service Unavailable"
        ),
        registry="quay.io",
    ),
    Unavailable(
        "legacy builder, FROM with a variable",
        log=legacy("FROM ${R}/x", error=head("ghcr.io/x", "1") + "unauthorized"),
        registry="ghcr.io",
    ),
    Unavailable(
        "legacy builder, FROM with a variable, no URL in the error",
        log=legacy("FROM ${R}/x", error=LIMITS),
        registry="docker.io",
    ),
    Unavailable(
        "BuildKit 20.10, FROM",
        log=unresolved_in_20_10("docker.io/nosuch/x:1", LIMITS),
        registry="docker.io",
    ),
    Unavailable(
        "buildx, FROM",
        log=unresolved(
            "ghcr.io/nosuch/x:latest",
            "failed to do request: " + head("ghcr.io/nosuch/x") + no_name("ghcr.io"),
        ),
        registry="ghcr.io",
    ),
    Unavailable("buildx, # syntax=", log=unresolved_syntax(NO_HUB), registry="docker.io"),
    Unavailable(
        "buildx, FROM beside a RUN",
        log=failed_beside_a_run("public.ecr.aws/x", "toomanyrequests: Rate exceeded"),
        registry="public.ecr.aws",
    ),
    Unavailable(
        "podman, FROM",
        log=podman(
            "FROM registry.gitlab.com/x",
            error=(
                "creating build container: unable to copy from source "
                "docker://registry.gitlab.com/x: "
                'Get "https://registry.gitlab.com/v2/": dial tcp: i/o timeout'
            ),
        ),
        registry="registry.gitlab.com",
    ),
    Unavailable(
        "buildx, FROM of gcr.io",
        log=unresolved("gcr.io/x/y", "unexpected status: 429 Too Many Requests"),
        registry="gcr.io",
    ),
    Unavailable(
        "buildx, FROM of an image called haproxy",
        log=unresolved(
            "docker.io/library/haproxy:2",
            "failed to do request: "
            + head("registry-1.docker.io/library/haproxy", "2")
            + "Forbidden",
        ),
        registry="docker.io",
    ),
    Unavailable(
        "an unknown answer", log=legacy("FROM x", error="I am a teapot"), registry="docker.io"
    ),
]


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("row", NO_ANSWER, ids=lambda row: row.when)
def test_registry_that_has_not_answered_the_build_gives_no_score(fake, evaluate, row):
    """Even if it answers now."""
    fake.fault("build", **row.log)

    kind, message = error_of(evaluate(["FROM x"], TRUE))

    assert kind == "registry", message
    assert message.startswith(f"registry {row.registry}: no answer about the image; ")


# Failures that ask no registry, although all are out of reach


class Other(NamedTuple):
    """A build that fails for another reason than a registry."""

    when: str
    log: dict
    kind: str = "build"


def run_prints(text, *, code=1):
    """Return the log of a RUN that prints a text and fails."""
    return legacy(FROM, f"RUN x\n{text}", error=f"The command 'x' returned a non-zero code: {code}")


NO_HOST = "dial tcp: no such host"
NO_PROGRAM = 'process "docker.io" did not complete successfully: exit code: 1'
KILLED = 'process "x" did not complete successfully: exit code: 137'
UNKNOWN_REGISTRIES = [
    Other(
        "FROM registry.invalid/x",
        log=legacy(
            "FROM registry.invalid/x",
            error='Get "https://registry.invalid/v2/": ' + no_name("registry.invalid"),
        ),
    ),
    Other(
        "FROM ghcr.io.invalid/x",
        log=unresolved(
            "ghcr.io.invalid/x:latest",
            "failed to do request: " + head("ghcr.io.invalid/x") + NO_HOST,
        ),
    ),
    Other(
        "FROM registry.invalid/docker.io/x",
        log=unresolved(
            "registry.invalid/docker.io/x:latest",
            "failed to do request: " + head("registry.invalid/docker.io/x") + NO_HOST,
        ),
    ),
    Other(
        "FROM localhost:5000/ghcr.io/x",
        log=unresolved(
            "localhost:5000/ghcr.io/x",
            'failed to do request: Head "http://localhost:5000/v2/ghcr.io/x/manifests/latest": '
            "dial tcp 127.0.0.1:5000: connect: connection refused",
        ),
    ),
]
OTHER_PLATFORMS = [
    Other(
        "no image for this platform",
        log=unresolved(
            "docker.io/library/x",
            "docker.io/library/x: no match for platform in manifest: not found",
        ),
    ),
    Other(
        "no manifest for this platform",
        log=legacy(
            "FROM x", error="no matching manifest for linux/arm64/v8 in the manifest list entries"
        ),
    ),
]
OTHER_INSTRUCTIONS = [
    Other(
        "ADD of a URL, legacy builder",
        log=legacy(
            FROM,
            "ADD https://ghcr.io/x /",
            error='ADD failed: Get "https://ghcr.io/x": ' + no_name("ghcr.io"),
        ),
    ),
    Other(
        "ADD of a URL, BuildKit",
        log=buildkit(
            FROM_VERTEX,
            f'https://ghcr.io/x\nERROR: Get "https://ghcr.io/x": {NO_HOST}',
            error=f'failed to load cache key: Get "https://ghcr.io/x": {NO_HOST}',
        ),
    ),
    Other(
        "ADD of a URL, buildx",
        log=buildkit(
            FROM_VERTEX,
            f'[2/2] ADD https://ghcr.io/v2/x /\nERROR: Get "https://ghcr.io/v2/x": {NO_HOST}',
            error=buildx_error(f'failed to load cache key: Get "https://ghcr.io/v2/x": {NO_HOST}'),
        ),
    ),
    Other(
        "USER docker.io",
        log=legacy(
            FROM,
            "USER docker.io",
            "RUN true",
            error="unable to find user docker.io: no matching entries in passwd file",
        ),
    ),
    Other(
        "RUN docker.io",
        log=buildkit(
            '[2/2] RUN ["docker.io"]\n'
            '0.158 runc run failed: exec: "docker.io": executable file not found in $PATH\n'
            f"ERROR: {NO_PROGRAM}",
            error=buildx_error(NO_PROGRAM),
        ),
    ),
    Other(
        "COPY of a missing file",
        log=legacy(
            FROM,
            'COPY ["dial tcp: ghcr.io", "/"]',
            error="COPY failed: stat dial tcp: ghcr.io: file does not exist",
        ),
    ),
    Other(
        "COPY with a line break, and an error after it",
        log=buildkit(
            f"{METADATA}docker.io/library/x:1\nDONE 0.1s",
            error="ERROR: failed to solve: X: a\nERROR: short read: x",
        ),
    ),
    Other(
        "COPY with a line break, and the error of a vertex after it",
        log=buildkit(
            f"{METADATA}docker.io/library/x:1\nDONE 0.1s",
            error="ERROR: failed to solve: X: a\n#2 ERROR: short read: x",
        ),
    ),
]
PRINTED = [
    Other(
        "a RUN prints a step of the legacy builder",
        log=run_prints("Step 9/9 : FROM ghcr.io/x", code=137),
    ),
    Other(
        "a RUN prints a vertex of BuildKit",
        log=buildkit(
            f"[2/2] RUN x\n0.1 #9 {METADATA}ghcr.io/x\n0.1 #9 ERROR: x\nERROR: {KILLED}",
            error=buildx_error(KILLED),
        ),
    ),
    Other("a RUN prints a full disk", log=run_prints("ERROR: no space left on device")),
    Other("a RUN prints a rate limit", log=run_prints(LIMITS)),
    Other("a RUN prints an unknown host", log=run_prints(NO_HUB)),
    Other(
        "a RUN prints that there is no engine",
        log=run_prints("Cannot connect to the Docker daemon at unix:///x."),
    ),
    Other("a RUN prints a lost connection", log=run_prints("unexpected EOF")),
    Other(
        "a RUN prints a log of BuildKit",
        log=run_prints(f"#1 [internal] load build definition\n#2 {METADATA}ghcr.io/x\n#2 ERROR: x"),
    ),
    Other(
        "a RUN prints that BuildKit is missing",
        log=run_prints("the --mount option requires BuildKit"),
    ),
]
ENGINE_TROUBLE = [
    Other(
        "a layer cannot be registered",
        log=legacy("FROM x", error="failed to register layer: mkdir x: file exists"),
        kind="engine",
    ),
    Other(
        "a layer cannot be extracted",
        log=buildkit(
            "[1/2] FROM docker.io/library/x\nERROR: x",
            error=buildx_error(
                "failed to extract layer sha256:1d: "
                "mount callback failed on /tmp/x: input/output error"
            ),
        ),
        kind="engine",
    ),
    Other(
        "a lease has ended",
        log=buildkit(
            "[1/2] FROM registry.invalid/x\nERROR: x",
            error=buildx_error("unable to lease content: lease does not exist: not found"),
        ),
        kind="engine",
    ),
]
OTHERS = [*UNKNOWN_REGISTRIES, *OTHER_PLATFORMS, *OTHER_INSTRUCTIONS, *PRINTED, *ENGINE_TROUBLE]


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.when)
def test_other_failures_ask_no_registry(fake, evaluate, row):
    fake.set(pull=HUB_UNREACHABLE)
    fake.fault("build", **row.log)

    kind, message = error_of(evaluate(["FROM x"], TRUE))

    assert kind == row.kind, message
    assert fake.count("pull") == 0


def test_offline_makes_a_missing_image_a_failed_build(fake, evaluate):
    fake.set(pull=HUB_UNREACHABLE)
    fake.fault("build", **legacy("FROM x", error=NO_HUB))

    report = evaluate(["FROM x"], TRUE, offline=True)

    assert outcome(report) == "build"
    assert fake.count("pull") == 0
    assert report["environment"]["offline"] is True


# What a registry answers, to a pull if nothing else is said. docker 20.10.24, docker 28.5.2 with
# the containerd store, and podman 5.8.6 have printed it with the registries of fake_hub.py, each
# of which answers as the real one does; or it is from an issue of the repository that is named.


class Answer(NamedTuple):
    registry: str
    says: str


GCR_REFUSES = (
    "Unauthenticated request. Unauthenticated requests do not have permission "
    '"artifactregistry.repositories.downloadArtifacts" on resource'
)
MCR_IMAGE = "mcr.microsoft.com/library/x:latest"


def unexpected_status(host, status):
    """Return the answer with the containerd store."""
    return (
        f'unknown: failed to resolve reference "{host}/library/x:latest": '
        f"unexpected status from HEAD request to https://{host}/v2/library/x/manifests/latest: "
        f"{status}"
    )


ANSWERS_OF_NO_SUCH_IMAGE = [
    # docker 20.10.24
    Answer("docker.io", says=DENIED),
    Answer("ghcr.io", says=head("ghcr.io/library/x") + "denied"),
    Answer("quay.io", says="unauthorized: access to the requested resource is not authorized"),
    Answer(
        "gcr.io",
        says=head("gcr.io/library/x")
        + f'denied: {GCR_REFUSES} "projects/x/locations/us/repositories/gcr.io" '
        "(or it may not exist)",
    ),
    Answer(
        "mcr.microsoft.com",
        says=f"manifest for {MCR_IMAGE} not found: manifest unknown: "
        'manifest tagged by "latest" is not found',
    ),
    Answer(
        "public.ecr.aws",
        says="repository public.ecr.aws/library/x not found: name unknown: "
        "The repository with name 'x' does not exist in the registry with id 'y'",
    ),
    Answer(
        "registry.k8s.io",
        says="manifest for registry.k8s.io/library/x:latest not found: manifest unknown: "
        'Failed to fetch "latest"',
    ),
    Answer(
        "registry.gitlab.com",
        says=head("registry.gitlab.com/library/x") + "denied: access forbidden",
    ),
    # docker 20.10.24, a build with BuildKit
    Answer(
        "ghcr.io",
        says="failed to authorize: rpc error: code = Unknown desc = "
        "failed to fetch anonymous token: unexpected status: 403 Forbidden",
    ),
    Answer(
        "quay.io",
        says="pulling from host quay.io failed with status code [manifests stream9]: "
        "401 Unauthorized",
    ),
    # docker 28.5.2 with the containerd store
    Answer("ghcr.io", says="denied"),
    Answer("gcr.io", says=f"error from registry: {GCR_REFUSES}"),
    Answer("quay.io", says=unexpected_status("quay.io", "401 Unauthorized")),
    Answer(
        "mcr.microsoft.com",
        says=f'failed to resolve reference "{MCR_IMAGE}": {MCR_IMAGE}: not found',
    ),
    Answer("registry.gitlab.com", says="error from registry: access forbidden"),
    # docker 28.5.2, a build
    Answer(
        "ghcr.io",
        says="failed to fetch anonymous token: unexpected status from GET request to "
        "https://ghcr.io/token?scope=x: 403 Forbidden",
    ),
    # podman 5.8.6
    Answer(
        "docker.io",
        says="initializing source docker://x:latest: reading manifest latest in "
        "docker.io/library/x: requested access to the resource is denied",
    ),
    Answer(
        "ghcr.io",
        says="initializing source docker://ghcr.io/library/x:latest: Requesting bearer token: "
        "received unexpected HTTP status: 403 Forbidden",
    ),
    # GoogleContainerTools
    Answer(
        "gcr.io",
        says="unauthorized: You don't have the needed permissions to perform this operation, "
        "and you may have invalid credentials.",
    ),
    # NVIDIA/nvidia-docker
    Answer(
        "nvcr.io",
        says="unauthorized: <html> <head><title>401 Authorization Required</title></head>",
    ),
]
OTHER_ANSWERS = [
    # docker 20.10.24
    Answer("nvcr.io", says=head("nvcr.io/library/x") + "unauthorized: authentication required"),
    Answer(  # docker/hub-feedback#676
        "docker.io",
        says=head("registry-1.docker.io/library/x")
        + "unauthorized: incorrect username or password",
    ),
    Answer(
        "quay.io", says=head("quay.io/library/x") + "unauthorized: incorrect username or password"
    ),
    # docker/hub-feedback#2496
    Answer("docker.io", says="unauthorized: authentication required"),
    # docker/hub-feedback#2429
    Answer("docker.io", says=LIMITS),
    Answer("docker.io", says="received unexpected HTTP status: 503 Service Unavailable"),
    Answer("docker.io", says=NO_HUB),
    Answer("docker.io", says="unexpected EOF"),  # a download that breaks off
    # docker 28.5.2 with the containerd store
    Answer("docker.io", says=unexpected_status("registry-1.docker.io", "429 Too Many Requests")),
    Answer(  # an outage
        "docker.io", says=unexpected_status("registry-1.docker.io", "401 Unauthorized")
    ),
    # podman 5.8.6
    Answer(
        "quay.io",
        says="initializing source docker://quay.io/library/x:latest: "
        "unable to retrieve auth token: invalid username/password: "
        "unauthorized: incorrect username or password",
    ),
    # aws/aws-cli
    Answer(
        "ghcr.io",
        says="denied: your authorization token has expired. Reauthenticate and try again.",
    ),
    # alexklibisz/terraform-provider-terrifi#50
    Answer("ghcr.io", says="toomanyrequests: retry-after: 985.86µs, allowed: 44000/minute"),
    # microsoft/containerregistry
    Answer(
        "mcr.microsoft.com",
        says="error parsing HTTP 429 response body: invalid character 'T': \"Too Many Requests\"",
    ),
    # A proxy
    Answer(
        "docker.io",
        says='Get "https://registry-1.docker.io/v2/": tls: failed to verify certificate: '
        "x509: certificate signed by unknown authority",
    ),
    Answer(
        "docker.io",
        says='Get "https://registry-1.docker.io/v2/": '
        "proxyconnect tcp: dial tcp 10.0.0.1:3128: connect: connection refused",
    ),
    Answer(
        "ghcr.io",
        says='failed to fetch anonymous token: Get "https://ghcr.io/token?scope=x": Forbidden',
    ),
    # A mirror
    Answer(
        "docker.io",
        says="pulling from host 127.0.0.1:8081 failed with status code [manifests latest]: "
        "403 Forbidden",
    ),
    Answer(
        "docker.io",
        says="unexpected status from HEAD request to "
        "http://127.0.0.1:8081/v2/library/x/manifests/latest?ns=docker.io: 403 Forbidden",
    ),
    # The engine's own trouble
    Answer("mcr.microsoft.com", says="lease does not exist: not found"),
    # Anything else
    Answer("docker.io", says="an unknown answer"),
]


def is_no_such_image(answer):
    return de.is_no_such_image(
        answer.registry,
        f"Error response from daemon: {answer.says}",
        image=f"{answer.registry}/library/x",
    )


@pytest.mark.parametrize("answer", ANSWERS_OF_NO_SUCH_IMAGE, ids=": ".join)
def test_registry_says_that_it_has_no_such_image(answer):
    assert is_no_such_image(answer)


@pytest.mark.parametrize("answer", OTHER_ANSWERS, ids=": ".join)
def test_any_other_answer_does_not_say_so(answer):
    assert not is_no_such_image(answer)


@pytest.mark.usefixtures("smoke_test_passes")
def test_registry_that_does_not_answer_is_out_of_reach(fake, evaluate, monkeypatch):
    call = de.Cli.call

    def impatient(cli, command, *words, **more):
        if command == "pull":
            more["timeout"] = 0.5
        return call(cli, command, *words, **more)

    monkeypatch.setattr(de.Cli, "call", impatient)
    fake.fault("pull", "hang")
    fake.fault("build", **legacy("FROM x", error=DENIED))

    assert outcome(evaluate(["FROM x"], TRUE)) == "registry"


# Downloads that break off: docker 20.10.24, docker 28.5.2 with the containerd store,
# docker/hub-feedback#2421

SHORT_READ = "short read: expected 1000 bytes but got 17: unexpected EOF"
BROKEN_DOWNLOADS = {
    "legacy builder": legacy("FROM ghcr.io/x/y", error="unexpected EOF"),
    "legacy builder, configuration": legacy(
        "FROM x",
        error=(
            "error pulling image configuration: "
            "download failed after attempts=6: dial tcp: i/o timeout"
        ),
    ),
    "BuildKit 20.10": buildkit(
        f"{METADATA}ghcr.io/x/y:1\nDONE 0.1s",
        "FROM ghcr.io/x/y:1\nERROR: unexpected EOF",
        error=" > FROM ghcr.io/x/y:1:\n------\nunexpected EOF",
    ),
    "buildx": buildkit(
        f"[1/2] FROM ghcr.io/x/y:1\nERROR: {SHORT_READ}", error=buildx_error(SHORT_READ)
    ),
    "buildx, in the step after FROM": buildkit(
        "[1/2] FROM ghcr.io/x/y:1\nDONE 0.1s",
        f"[2/2] RUN true\nERROR: {SHORT_READ}",
        error=buildx_error(f"failed to compute cache key: {SHORT_READ}"),
    ),
    "buildx, rate limit": unresolved(
        "docker.io/library/x",
        "failed to copy: httpReadSeeker: failed open: unexpected status code "
        "https://registry-1.docker.io/v2/library/x/blobs/sha256:1d: 429 Too Many Requests",
    ),
}


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("log", BROKEN_DOWNLOADS.values(), ids=BROKEN_DOWNLOADS)
def test_download_that_breaks_off_twice_is_a_registry_error(fake, evaluate, log):
    """Whatever the registry answers now (it has no such image): another server has the content."""
    fake.fault("build", **log)

    assert outcome(evaluate(["FROM x"], TRUE)) == "registry"


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("log", BROKEN_DOWNLOADS.values(), ids=BROKEN_DOWNLOADS)
def test_download_that_breaks_off_once_is_forgotten(fake, evaluate, log):
    fake.fault("build", nth=1, **log)
    fake.fault("build", nth=2, **legacy("FROM x", error="manifest unknown"))

    assert outcome(evaluate(["FROM x"], TRUE)) == "build"


@pytest.mark.usefixtures("smoke_test_passes")
def test_each_download_is_judged_by_its_own_step(fake, evaluate):
    """The first one ends in ADD, with the same error as the download of an image."""
    add = "[2/2] ADD x.tar /\nERROR: unexpected EOF"
    image = "[1/2] FROM ghcr.io/x/y\nERROR: unexpected EOF"
    end = "ERROR: failed to solve: unexpected EOF"
    fake.fault("build", nth=1, **buildkit(add, error=end))
    fake.fault("build", nth=2, **buildkit(image, error=end))

    _, message = error_of(evaluate(["FROM x"], TRUE))

    assert message == (
        "registry ghcr.io: no answer about the image; the build ended with: unexpected EOF"
    )


# What this machine keeps docker from


class Blocked(NamedTuple):
    """A build without its image, and what the registry answers to a pull."""

    when: str
    log: dict
    answer: str


FORBIDDEN = 'Get "https://registry-1.docker.io/v2/": Forbidden'  # moby/moby#40507
LOGIN = 'Get "https://registry-1.docker.io/v2/": Proxy Authentication Required'
NO_TOKEN = (
    "failed to authorize: rpc error: code = Unknown desc = failed to fetch anonymous token: "
    'Get "https://auth.docker.io/token?scope=x": ' + no_name("auth.docker.io")
)
NO_HELPER = (
    'error getting credentials - err: exec: "docker-credential-desktop": '
    "executable file not found in $PATH, out: ``"
)
DEBIAN = "docker.io/library/debian:x"
CONFIG = "~/.docker/config.json"
PROXIES = [
    Blocked(
        "a proxy, legacy builder", log=legacy("FROM debian", error=FORBIDDEN), answer=FORBIDDEN
    ),
    Blocked(
        "a proxy, BuildKit",
        log=unresolved(
            DEBIAN,
            "failed to do request: "
            + head("registry-1.docker.io/library/debian", "x")
            + "Forbidden",
        ),
        answer=FORBIDDEN,
    ),
    Blocked("a proxy during the pull", log=legacy("FROM debian", error=MISSING), answer=FORBIDDEN),
    Blocked("a proxy during the build", log=legacy("FROM debian", error=FORBIDDEN), answer=MISSING),
    Blocked("another network of the client", log=unresolved(DEBIAN, NO_TOKEN), answer=DENIED),
    Blocked("a proxy that asks for a login", log=legacy("FROM debian", error=LOGIN), answer=LOGIN),
    Blocked(
        "a proxy that answers 403",
        log=legacy("FROM debian", error=MISSING),
        answer="error from registry: 403 Forbidden",
    ),
]
BROKEN_HELPERS = [
    Blocked("no helper for FROM", log=unresolved(DEBIAN, NO_HELPER), answer=DENIED),
    Blocked("no helper for # syntax=", log=unresolved_syntax(NO_HELPER), answer=DENIED),
    Blocked("no helper for the pull", log=legacy("FROM debian", error=MISSING), answer=NO_HELPER),
    Blocked(
        "no helper for a registry that nobody knows",
        log=unresolved("registry.invalid/x", NO_HELPER),
        answer=DENIED,
    ),
]
NOT_BLOCKED = [
    Blocked("no such image", log=legacy("FROM nosuch", error=DENIED), answer=DENIED),
    Blocked(
        "a file that is called as the trouble",
        log=legacy(
            FROM,
            'COPY ["error getting credentials", "/"]',
            error="COPY failed: stat error getting credentials: file does not exist",
        ),
        answer=DENIED,
    ),
    Blocked(
        "a registry that nobody knows",
        log=legacy(
            "FROM registry.invalid/x", error='Get "https://registry.invalid/v2/": Forbidden'
        ),
        answer=FORBIDDEN,
    ),
]


def error_without_image(fake, evaluate, row):
    """Return kind and message of the error."""
    fake.set(pull=f"Error response from daemon: {row.answer}")
    fake.fault("build", **row.log)
    return error_of(evaluate(["FROM x"], TRUE))


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("row", PROXIES, ids=lambda row: row.when)
def test_image_that_a_proxy_keeps_docker_from_is_a_registry_error(fake, evaluate, row):
    kind, message = error_without_image(fake, evaluate, row)

    assert kind == "registry", message
    assert CONFIG not in message


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("row", BROKEN_HELPERS, ids=lambda row: row.when)
def test_missing_credential_helper_is_the_users_fault(fake, evaluate, row):
    kind, message = error_without_image(fake, evaluate, row)

    assert kind == "usage", message
    assert f"repair or remove credsStore and credHelpers in {CONFIG}" in message


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("row", NOT_BLOCKED, ids=lambda row: row.when)
def test_image_that_cannot_be_had_at_all_is_the_dockerfiles_fault(fake, evaluate, row):
    kind, message = error_without_image(fake, evaluate, row)

    assert kind == "build", message
    assert CONFIG not in message
