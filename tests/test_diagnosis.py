"""Who is at fault after a failure: the engine, an option, a registry, the context, or the Dockerfile."""

from __future__ import annotations

import os
import tempfile

import pytest
from cases import TRUE, buildkit, legacy, podman
from conftest import messages, outcome, statuses

import DockerfileEvaluator as de

FROM = "FROM busybox:stable\n ---> a79ebfed6780"
UNCLEAR = {
    "on": "build",
    "stdout": "Step 1/2 : FROM x\nStep 2/2 : COPY x /\n",
    "stderr": "some reason",
}
RUNS = {"on": "build", "do": "print", "stdout": "Step 1/2 : FROM x\nStep 2/2 : RUN x\n"}
HANGS = {"on": "build", "do": "hang"}
NO_SPACE = "docker: Error response from daemon: write /var/lib/docker/x: no space left on device."
NOT_STARTED = {"on": "run", "code": 125, "stderr": NO_SPACE}
CLIENT = '{"Client": {"Version": "28.2.2"}, "Server": null}'
NO_USER = "docker: Error response from daemon: unable to find user app: no matching entries."
CONTEXT = "error checking context: can't stat '/work/context/secret'"
CONNECTION_LOST = [
    "unexpected EOF",
    'error during connect: Post "http://docker/v1.41/build?x": EOF',
    "ERROR: failed to receive status: rpc error: code = Unavailable desc = error reading from server: EOF",
    "ERROR: failed to solve: error reading from server: EOF",
    "ERROR: rpc error: code = Unavailable desc = closing transport due to: connection error",
    "ERROR: failed to build: failed to solve: rpc error: code = Unavailable desc = transport is closing",
]
NOT_LOST = [
    "Error processing tar file(exit status 1): unexpected EOF",
    'ADD failed: Get "https://x.invalid/unexpected EOF": EOF',
    "ADD failed: unexpected EOF of x",
    "COPY failed: stat transport is closing: file does not exist",
]


def smoke(step, **fault):
    """Return the fault of a step of the smoke test: "build", "RUN" or "run"."""
    return {"on": f"smoke {step}", "stderr": "no bridge", **fault}


def refused(option, on="run", stderr="Minimum memory limit allowed is 6MB", **more):
    """Return the fault of a call that has a certain option."""
    return {"on": on, "given": option, "code": 125, "stderr": stderr, **more}


def failed(log, **more):
    return {"on": "build", **log, **more}


def with_option(option, on, step):
    return [UNCLEAR if on == "build" else NOT_STARTED, refused(option, f"smoke {step}")]


MEMORY = {"run_options": ["--memory=1k"]}
# The faults, other arguments of evaluate(), the kind of error or the statuses, part of the message
DIAGNOSES = {
    "docker does not exist": ([], {"docker": "no-such-docker"}, "engine", "'no-such-docker': No such file or directory, install the docker CLI"),
    "no engine": ([{"on": "version", "stderr": "Cannot connect to the Docker daemon at unix:///x."}], {}, "engine", "no docker engine (check DOCKER_HOST): Cannot connect"),
    "no engine at that host": ([{"on": "version", "stdout": CLIENT, "stderr": 'error during connect: Get "http://x/": dial tcp: no such host'}], {}, "engine", "(check DOCKER_HOST): error during connect"),
    "too old": ([{"on": "version", "stdout": CLIENT, "stderr": "Error response from daemon: client version 1.50 is too new."}], {}, "engine", "docker version: Error response from daemon: client version 1.50 is too new."),
    "no such context": ([{"on": "version", "stdout": CLIENT, "stderr": 'context "lab": context not found'}], {}, "engine", 'docker version: context "lab": context not found'),
    "a failed build": ([UNCLEAR], {}, "build", "some reason"),
    "no minimal image": ([UNCLEAR, smoke("build")], {}, "engine", "no bridge"),
    "no RUN": ([UNCLEAR, smoke("RUN")], {}, "engine", "no bridge"),
    "no container": ([UNCLEAR, smoke("run", code=125)], {}, "engine", "no bridge"),
    "another program is absent": ([UNCLEAR, smoke("run", code=127, stderr='docker: exec: "/nosuch": stat /nosuch: no such file')], {}, "engine", "/nosuch"),
    "a RUN without an exit code": ([{**UNCLEAR, "stdout": RUNS["stdout"]}], {}, "engine", "outside of the Dockerfile's instructions: some reason"),
    "a build that timed out": ([RUNS, HANGS], {"build_timeout": 1}, "build_timeout", "timed out after 1 s"),
    "a build that timed out, no RUN": ([RUNS, HANGS, smoke("RUN")], {"build_timeout": 1}, "engine", "no bridge"),
    "a build that timed out, no container": ([RUNS, HANGS, smoke("run")], {"build_timeout": 1}, "engine", "no bridge"),
    "a build that timed out before it began": ([HANGS], {"build_timeout": 0.3}, "engine", "timed out after 0.3 s, before any instruction"),
    "the image does not start": ([{**NOT_STARTED, "stderr": NO_USER}], {}, "failed", ""),
    "a container does not start": ([NOT_STARTED], {}, "engine", "no space left on device"),
    "no image starts": ([NOT_STARTED, smoke("run")], {}, "engine", "no bridge"),
    "build option in a build": (with_option("--memory=1k", "build", "build"), {"build_options": ["--memory=1k"]}, "usage", "Minimum memory limit"),
    "build option in a RUN": (with_option("--memory=1k", "build", "RUN"), {"build_options": ["--memory=1k"]}, "usage", "Minimum memory limit"),
    "run option after a build": (with_option("--memory=1k", "build", "run"), MEMORY, "usage", "Minimum memory limit"),
    "run option": (with_option("--memory=1k", "run", "run"), MEMORY, "usage", "Minimum memory limit"),
    "run option of the rubric": (with_option("--memory=1k", "run", "run"), {"top": MEMORY}, "usage", "Minimum memory limit"),
    "run option, no container": ([UNCLEAR, smoke("run")], MEMORY, "engine", "no bridge"),
    "user number": (with_option("--user=0:0", "run", "run"), {"run_options": ["--user=0:0"]}, "usage", ""),
    "user namespace": (with_option("--userns=bogus", "run", "run"), {"run_options": ["--userns=bogus"]}, "usage", ""),
    "context, legacy": ([failed({"stderr": CONTEXT})], {}, "usage", f"context: {CONTEXT}"),
    "context, lower case": ([failed({"stderr": CONTEXT})], {"lines": ["# x", "from x"]}, "usage", CONTEXT),
    "context, buildx": ([failed({"stderr": "ERROR: failed to read dockerfile: syntax error in pattern"})], {}, "usage", "syntax error in pattern"),
    "after the context, legacy": ([failed(legacy(error=CONTEXT))], {}, "build", CONTEXT),
    "after the context, buildx": ([failed(buildkit(error=f"ERROR: {CONTEXT}"))], {}, "build", CONTEXT),
    "empty": ([failed({"stderr": "the Dockerfile (Dockerfile) cannot be empty"})], {"lines": [""]}, "build", "the Dockerfile is empty"),
    "no FROM, podman": ([failed({"stderr": 'Error: stage 1 requires a FROM instruction ("")'})], {"lines": ["RUN true"]}, "build", "FROM"),
    "connection lost once": ([failed(legacy(FROM, "COPY x /", error="unexpected EOF"), nth=1), {**UNCLEAR, "nth": 2}], {}, "build", "some reason"),
    "no target stage": ([refused("--target=x", on, "failed to reach build target x in Dockerfile", stdout="Sending build context\n") for on in ("build", "smoke build", "smoke RUN")], {"build_options": ["--target=x"]}, "build", "build target x"),
    **{f"connection: {text}": ([failed(legacy(FROM, "RUN x", error=text))], {}, "engine", "") for text in CONNECTION_LOST},
    "no connection: line break in COPY": ([failed(buildkit("[1/2] FROM x\nCACHED", error="ERROR: failed to solve: X: a\nERROR: unexpected EOF"))], {}, "build", "X: a"),
    **{f"no connection: {text}": ([failed(legacy(FROM, "ADD x /", error=text))], {}, "build", text) for text in NOT_LOST},
    **{f"user name {option}": ([refused(option, on, NO_USER) for on in ("run", "smoke run")], {"run_options": ["--memory=1g", option]}, "failed", "") for option in ("--user=app:app", "--user=1000:app", "-uapp", "--group-add=docker")},
}  # fmt: skip


@pytest.mark.parametrize("name", DIAGNOSES)
def test_failure_has_its_error_kind(fake, evaluate, name):
    faults, options, kind, message = DIAGNOSES[name]
    for fault in faults:
        fake.fault(**fault)
    lines = options.get("lines", ["FROM x"])
    report = evaluate(
        lines, TRUE, **{name: value for name, value in options.items() if name != "lines"}
    )
    error = report["error"] or {"message": messages(report)[0]}
    assert (outcome(report), message in error["message"]) == (kind, True), error["message"]
    assert fake.left() == []
    assert report["warnings"] == []
    assert (
        fake.count("version") == 1 or not faults or faults[0]["on"] != "version"
    )  # the first contact is not waited for
    if kind not in ("failed", "engine"):
        assert statuses(report) == {"run_command_1": "not_run"}


def test_engine_that_hangs_or_is_lost_is_an_engine_error(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.3)
    monkeypatch.setattr(de, "CLEANUP_TIMEOUT", 0.3)
    fake.fault("build", "lose the engine")
    assert outcome(evaluate(["FROM x"], TRUE)) == "engine"
    monkeypatch.setitem(de.Cli.call.__kwdefaults__, "timeout", 0.5)
    fake.fault("version", "hang")
    assert outcome(evaluate(["FROM x"], TRUE)) == "engine"


@pytest.mark.parametrize("server", [None, {"Version": "5.8.6", "OsArch": "linux/amd64"}])
def test_podman_needs_no_engine_beside_it(fake, evaluate, server):
    fake.set(version={"Client": {"Version": "5.8.6", "OsArch": "linux/amd64"}, "Server": server})
    report = evaluate(["FROM x"], TRUE)
    assert outcome(report) == "passed"
    assert report["environment"]["platform"] == "linux/amd64"


@pytest.mark.parametrize("fault", [UNCLEAR, NOT_STARTED])
def test_no_temporary_folder_for_the_smoke_test_is_an_engine_error(
    fake, evaluate, monkeypatch, fault
):
    fake.fault(**fault)
    monkeypatch.setattr(tempfile, "tempdir", "/no/such")
    error = evaluate(["FROM x"], TRUE)["error"]
    assert error["kind"] == "engine"
    assert "/no/such" in error["message"]
    assert fake.left() == []


NO_SPACE_ERROR = "Error processing tar file(exit status 1): write /a: no space left on device"
FULL = legacy(FROM, "COPY a /", error=NO_SPACE_ERROR)
SAYS_FULL = legacy(
    FROM, f"RUN x\n{NO_SPACE_ERROR}", error="The command 'x' returned a non-zero code: 1"
)


@pytest.mark.parametrize(("log", "size"), [(UNCLEAR, 1), (FULL, 256), (SAYS_FULL, 256)])
def test_smoke_test_writes_fresh_content_and_256_mib_after_no_space_left(
    fake, evaluate, monkeypatch, log, size
):
    """A disk that may be full is tested with 256 MiB; text in a log alone makes no engine error."""
    monkeypatch.setattr(de, "SMOKE_TEST", 1)
    monkeypatch.setattr(de, "LARGE_SMOKE_TEST", 256)
    contents, build = [], de.docker_build

    def spy(session, **details):
        file = os.path.join(details["context"], "content")
        if os.path.exists(file):
            with open(file, "rb") as content:
                contents.append(content.read())
        return build(session, **details)

    monkeypatch.setattr(de, "docker_build", spy)
    fake.fault(**{**log, "on": "build"})
    assert outcome(evaluate(["FROM x"], TRUE)) == "build"
    assert {len(content) for content in contents} == {size}
    fake.fault("smoke build", stderr=NO_SPACE)
    assert outcome(evaluate(["FROM x"], TRUE)) == "engine"
    assert contents[0] != contents[-1] or size == 1


def test_image_that_disappears_after_the_build_is_an_engine_error(fake, evaluate):
    fake.fault("image inspect", since=2, stderr="Error: No such image: x")
    fake.fault("run", code=125, stderr="docker: Error response from daemon: No such image: x.")
    report = evaluate(["FROM x"], TRUE)
    assert outcome(report) == "engine"
    assert "removed from the engine" in messages(report)[0]


# Registries

NO_HOST = 'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on 10.0.0.1:53: no such host'
GHCR = 'failed to do request: Head "https://ghcr.io/v2/nosuch/x/manifests/latest": dial tcp: lookup ghcr.io on 10.0.0.1:53: no such host'
LIMITS = "toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating and upgrading: https://www.docker.com/increase-rate-limit"
METADATA = "[internal] load metadata for "
DENIED = "pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied"
NO_ACCESS = "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed"


def solve(error):
    return f"ERROR: failed to build: failed to solve: {error}"


def resolve(image, error):
    return buildkit(f"{METADATA}{image}\nERROR: {error}", error=solve(error))


# What docker prints, and the registry that is asked.
ASKS = {
    "legacy, FROM": (legacy("FROM x", error=DENIED), "docker.io"),
    "legacy, FROM --platform": (legacy("FROM --platform=linux/amd64 mcr.microsoft.com/x AS a", error="manifest unknown"), "mcr.microsoft.com"),
    "legacy, a variable": (legacy("FROM ${R}/x", error='Head "https://ghcr.io/v2/x/manifests/1": denied'), "ghcr.io"),
    "legacy, COPY --from": (legacy(FROM, "COPY --from=ghcr.io/nosuch/x /a /", error='invalid from flag value ghcr.io/nosuch/x: Head "https://ghcr.io/v2/nosuch/x/manifests/latest": denied'), "ghcr.io"),
    "BuildKit 20.10": (buildkit(f"{METADATA}docker.io/nosuch/x:1\nERROR: {NO_ACCESS}", error=f" > {METADATA}docker.io/nosuch/x:1:\n------\nfailed to solve with frontend dockerfile.v0: failed to create LLB definition: {NO_ACCESS}"), "docker.io"),
    "buildx, FROM": (resolve("quay.io/nosuch/x:latest", "quay.io/nosuch/x:latest: not found"), "quay.io"),
    "buildx, syntax": (buildkit(f"resolve image config for docker-image://docker.io/docker/dockerfile:1\nERROR: {NO_ACCESS}", error=solve(NO_ACCESS)), "docker.io"),
    "buildx, COPY --from": (buildkit("[stage-0 1/2] FROM docker.io/library/x\nCACHED", "FROM ghcr.io/nosuch/x:latest\nERROR: x", error=solve("ghcr.io/nosuch/x:latest: not found")), "ghcr.io"),
    "buildx, beside a RUN": (buildkit("[b 1/2] FROM public.ecr.aws/x\nERROR: x", "[a 2/2] RUN make\nCANCELED", error=solve("public.ecr.aws/x: not found")), "public.ecr.aws"),
    "podman": (podman("FROM registry.k8s.io/x", error="creating build container: unable to copy from source docker://registry.k8s.io/x:latest: initializing source docker://registry.k8s.io/x:latest: reading manifest latest in registry.k8s.io/x: manifest unknown"), "registry.k8s.io"),
}  # fmt: skip
# What docker prints where the build's own error tells that the registry has not answered, and the registry
NO_ANSWER = {
    "legacy, FROM": (legacy("FROM x", error=NO_HOST), "docker.io"),
    "legacy, FROM of another registry": (legacy("FROM quay.io/a/x", error="received unexpected HTTP status: 503 Service Unavailable"), "quay.io"),
    "legacy, a variable": (legacy("FROM ${R}/x", error='Head "https://ghcr.io/v2/x/manifests/1": unauthorized'), "ghcr.io"),
    "legacy, a variable, no URL": (legacy("FROM ${R}/x", error=LIMITS), "docker.io"),
    "BuildKit 20.10": (buildkit(f"{METADATA}docker.io/nosuch/x:1\nERROR: {LIMITS}", error=f" > {METADATA}docker.io/nosuch/x:1:\n------\nfailed to solve with frontend dockerfile.v0: failed to create LLB definition: {LIMITS}"), "docker.io"),
    "buildx, FROM": (resolve("ghcr.io/nosuch/x:latest", GHCR), "ghcr.io"),
    "buildx, syntax": (buildkit("resolve image config for docker-image://docker.io/docker/dockerfile:1\nERROR: x", error=solve(NO_HOST)), "docker.io"),
    "buildx, beside a RUN": (buildkit("[b 1/2] FROM public.ecr.aws/x\nERROR: x", "[a 2/2] RUN make\nCANCELED", error=solve("toomanyrequests: Rate exceeded")), "public.ecr.aws"),
    "podman": (podman("FROM registry.gitlab.com/x", error='creating build container: unable to copy from source docker://registry.gitlab.com/x: Get "https://registry.gitlab.com/v2/": dial tcp: i/o timeout'), "registry.gitlab.com"),
    "gcr.io": (resolve("gcr.io/x/y", "unexpected status: 429 Too Many Requests"), "gcr.io"),
    "an image called haproxy": (resolve("docker.io/library/haproxy:2", "failed to do request: Head \"https://registry-1.docker.io/v2/library/haproxy/manifests/2\": Forbidden"), "docker.io"),
    "an unknown answer": (legacy("FROM x", error="I am a teapot"), "docker.io"),
}  # fmt: skip
# What docker prints where no registry is to be asked, although all are out of reach.
ASKS_NONE = {
    "FROM registry.invalid/x": legacy("FROM registry.invalid/x", error='Get "https://registry.invalid/v2/": dial tcp: lookup registry.invalid on 10.0.0.1:53: no such host'),
    "FROM ghcr.io.invalid/x": resolve("ghcr.io.invalid/x:latest", 'failed to do request: Head "https://ghcr.io.invalid/v2/x/manifests/latest": dial tcp: no such host'),
    "FROM registry.invalid/docker.io/x": resolve("registry.invalid/docker.io/x:latest", 'failed to do request: Head "https://registry.invalid/v2/docker.io/x/manifests/latest": dial tcp: no such host'),
    "FROM localhost:5000/ghcr.io/x": resolve("localhost:5000/ghcr.io/x", 'failed to do request: Head "http://localhost:5000/v2/ghcr.io/x/manifests/latest": dial tcp 127.0.0.1:5000: connect: connection refused'),
    "no image for this platform": resolve("docker.io/library/x", "docker.io/library/x: no match for platform in manifest: not found"),
    "an old manifest": legacy("FROM x", error="no matching manifest for linux/arm64/v8 in the manifest list entries"),
    "ADD, legacy": legacy(FROM, "ADD https://ghcr.io/x /", error='ADD failed: Get "https://ghcr.io/x": dial tcp: lookup ghcr.io on 10.0.0.1:53: no such host'),
    "ADD, BuildKit": buildkit("[1/2] FROM docker.io/library/x\nCACHED", 'https://ghcr.io/x\nERROR: Get "https://ghcr.io/x": dial tcp: no such host', error='failed to load cache key: Get "https://ghcr.io/x": dial tcp: no such host'),
    "ADD, buildx": buildkit("[1/2] FROM docker.io/library/x\nCACHED", '[2/2] ADD https://ghcr.io/v2/x /\nERROR: Get "https://ghcr.io/v2/x": dial tcp: no such host', error=solve('failed to load cache key: Get "https://ghcr.io/v2/x": dial tcp: no such host')),
    "USER docker.io, legacy": legacy(FROM, "USER docker.io", "RUN true", error="unable to find user docker.io: no matching entries in passwd file"),
    "RUN docker.io, buildx": buildkit('[2/2] RUN ["docker.io"]\n0.158 runc run failed: exec: "docker.io": executable file not found in $PATH\nERROR: process "docker.io" did not complete successfully: exit code: 1', error=solve('process "docker.io" did not complete successfully: exit code: 1')),
    "RUN that prints a step": legacy(FROM, "RUN x\nStep 9/9 : FROM ghcr.io/x", error="The command 'x' returned a non-zero code: 137"),
    "RUN that prints a step of BuildKit": buildkit(f'[2/2] RUN x\n0.1 #9 {METADATA}ghcr.io/x\n0.1 #9 ERROR: x\nERROR: process "x" did not complete successfully: exit code: 137', error=solve('process "x" did not complete successfully: exit code: 137')),
    "COPY of a missing file": legacy(FROM, 'COPY ["dial tcp: ghcr.io", "/"]', error="COPY failed: stat dial tcp: ghcr.io: file does not exist"),
    "line break in COPY": buildkit(f"{METADATA}docker.io/library/x:1\nDONE 0.1s", error="ERROR: failed to solve: X: a\nERROR: short read: x"),
    "vertex after a line break in COPY": buildkit(f"{METADATA}docker.io/library/x:1\nDONE 0.1s", error="ERROR: failed to solve: X: a\n#2 ERROR: short read: x"),
}  # fmt: skip
# The same, where the engine's own trouble or a lost connection leaves no score
ASKS_NONE_OF_THE_ENGINE = {
    "FROM, legacy, not the registry": legacy("FROM x", error="failed to register layer: mkdir x: file exists"),
    "extraction": buildkit("[1/2] FROM docker.io/library/x\nERROR: x", error=solve("failed to extract layer sha256:1d: mount callback failed on /tmp/x: input/output error")),
    "lease": buildkit("[1/2] FROM registry.invalid/x\nERROR: x", error=solve("unable to lease content: lease does not exist: not found")),
}  # fmt: skip
UNREACHABLE = f"Error response from daemon: {NO_HOST}"


# Text that a RUN prints, before it fails.
TEXTS = ["ERROR: no space left on device", LIMITS, NO_HOST, "Cannot connect to the Docker daemon at unix:///x.", "unexpected EOF",
         f"#1 [internal] load build definition\n#2 {METADATA}ghcr.io/x\n#2 ERROR: x", "the --mount option requires BuildKit"]  # fmt: skip
ASKS_NONE.update(
    {
        text[:40]: legacy(
            FROM, f"RUN x\n{text}", error="The command 'x' returned a non-zero code: 1"
        )
        for text in TEXTS
    }
)


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("name", ASKS)
def test_registry_is_asked_for_an_image_that_cannot_exist(fake, evaluate, name):
    log, registry = ASKS[name]
    fake.set(pull=UNREACHABLE)
    fake.fault("build", **log)
    report = evaluate(["FROM x"], TRUE)
    ((image,),) = fake.calls("pull")
    assert image.startswith(f"{registry}/")
    assert outcome(report) == "registry"
    assert statuses(report) == {"run_command_1": "not_run"}
    assert report["error"]["message"].startswith(f"registry {registry}: {UNREACHABLE}")


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("name", NO_ANSWER)
def test_registry_that_has_not_answered_the_build_gives_no_score(fake, evaluate, name):
    """Even if it answers now."""
    log, registry = NO_ANSWER[name]
    fake.fault("build", **log)
    error = evaluate(["FROM x"], TRUE)["error"]
    assert error["kind"] == "registry"
    assert error["message"].startswith(f"registry {registry}: no answer about the image; ")


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("name", [*ASKS_NONE, *ASKS_NONE_OF_THE_ENGINE])
def test_other_failures_ask_no_registry(fake, evaluate, name):
    fake.set(pull=UNREACHABLE)
    fake.fault("build", **{**ASKS_NONE, **ASKS_NONE_OF_THE_ENGINE}[name])
    kind = "engine" if name in ASKS_NONE_OF_THE_ENGINE else "build"
    assert outcome(evaluate(["FROM x"], TRUE)) == kind
    assert fake.count("pull") == 0


def test_offline_makes_a_missing_image_a_failed_build(fake, evaluate):
    fake.set(pull=UNREACHABLE)
    fake.fault("build", **legacy("FROM x", error=NO_HOST))
    report = evaluate(["FROM x"], TRUE, offline=True)
    assert outcome(report) == "build"
    assert fake.count("pull") == 0
    assert report["environment"]["offline"] is True


# Sources: [f] docker 20.10.24, [c] docker 28.5.2 with the containerd store and [p] podman 5.8.6, all with the registries of
# fake_hub.py, each of which returns what the real one does; [t] an issue thread, number or repository given.
CONTAINERD = 'unknown: failed to resolve reference "{0}/library/x:latest": unexpected status from HEAD request to https://{0}/v2/library/x/manifests/latest: '
ANSWERS = [
    ("docker.io", "pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied", "build"),  # [f]
    ("ghcr.io", 'Head "https://ghcr.io/v2/library/x/manifests/latest": denied', "build"),  # [f]
    ("quay.io", "unauthorized: access to the requested resource is not authorized", "build"),  # [f]
    ("gcr.io", 'Head "https://gcr.io/v2/library/x/manifests/latest": denied: Unauthenticated request. Unauthenticated requests do not have permission "artifactregistry.repositories.downloadArtifacts" on resource "projects/x/locations/us/repositories/gcr.io" (or it may not exist)', "build"),  # [f]
    ("gcr.io", "unauthorized: You don't have the needed permissions to perform this operation, and you may have invalid credentials.", "build"),  # [t] GoogleContainerTools
    ("nvcr.io", "unauthorized: <html> <head><title>401 Authorization Required</title></head>", "build"),  # [t] NVIDIA/nvidia-docker
    ("nvcr.io", 'Head "https://nvcr.io/v2/library/x/manifests/latest": unauthorized: authentication required', "registry"),  # [f]
    ("mcr.microsoft.com", 'manifest for mcr.microsoft.com/library/x:latest not found: manifest unknown: manifest tagged by "latest" is not found', "build"),  # [f]
    ("public.ecr.aws", "repository public.ecr.aws/library/x not found: name unknown: The repository with name 'x' does not exist in the registry with id 'y'", "build"),  # [f]
    ("registry.k8s.io", 'manifest for registry.k8s.io/library/x:latest not found: manifest unknown: Failed to fetch "latest"', "build"),  # [f]
    ("registry.gitlab.com", 'Head "https://registry.gitlab.com/v2/library/x/manifests/latest": denied: access forbidden', "build"),  # [f]
    ("docker.io", 'Head "https://registry-1.docker.io/v2/library/x/manifests/latest": unauthorized: incorrect username or password', "registry"),  # [f], docker/hub-feedback#676
    ("quay.io", 'Head "https://quay.io/v2/library/x/manifests/latest": unauthorized: incorrect username or password', "registry"),  # [f]
    ("docker.io", "unauthorized: authentication required", "registry"),  # [f], docker/hub-feedback#2496
    ("ghcr.io", "denied: your authorization token has expired. Reauthenticate and try again.", "registry"),  # [t] aws/aws-cli
    ("docker.io", LIMITS, "registry"),  # [f], docker/hub-feedback#2429
    ("ghcr.io", "toomanyrequests: retry-after: 985.86µs, allowed: 44000/minute", "registry"),  # [t] alexklibisz/terraform-provider-terrifi#50
    ("docker.io", "received unexpected HTTP status: 503 Service Unavailable", "registry"),  # [f]
    ("mcr.microsoft.com", "error parsing HTTP 429 response body: invalid character 'T': \"Too Many Requests\"", "registry"),  # [t] microsoft/containerregistry
    ("docker.io", NO_HOST, "registry"),  # [f]
    ("docker.io", "unexpected EOF", "registry"),  # [f], a download that breaks off
    ("docker.io", 'Get "https://registry-1.docker.io/v2/": tls: failed to verify certificate: x509: certificate signed by unknown authority', "registry"),
    ("docker.io", 'Get "https://registry-1.docker.io/v2/": proxyconnect tcp: dial tcp 10.0.0.1:3128: connect: connection refused', "registry"),
    ("docker.io", "initializing source docker://x:latest: reading manifest latest in docker.io/library/x: requested access to the resource is denied", "build"),  # [p]
    ("ghcr.io", "denied", "build"),  # [c]
    ("gcr.io", 'error from registry: Unauthenticated request. Unauthenticated requests do not have permission "artifactregistry.repositories.downloadArtifacts" on resource', "build"),  # [c]
    ("quay.io", CONTAINERD.format("quay.io") + "401 Unauthorized", "build"),  # [c]
    ("mcr.microsoft.com", 'failed to resolve reference "mcr.microsoft.com/library/x:latest": mcr.microsoft.com/library/x:latest: not found', "build"),  # [c]
    ("mcr.microsoft.com", "lease does not exist: not found", "registry"),
    ("ghcr.io", "failed to fetch anonymous token: unexpected status from GET request to https://ghcr.io/token?scope=x: 403 Forbidden", "build"),  # a build, docker 28.5.2
    ("ghcr.io", "failed to authorize: rpc error: code = Unknown desc = failed to fetch anonymous token: unexpected status: 403 Forbidden", "build"),  # a build, docker 20.10.24
    ("ghcr.io", 'failed to fetch anonymous token: Get "https://ghcr.io/token?scope=x": Forbidden', "registry"),  # a proxy
    ("quay.io", "pulling from host quay.io failed with status code [manifests stream9]: 401 Unauthorized", "build"),  # a build, docker 20.10.24
    ("docker.io", "pulling from host 127.0.0.1:8081 failed with status code [manifests latest]: 403 Forbidden", "registry"),  # a mirror
    ("docker.io", "unexpected status from HEAD request to http://127.0.0.1:8081/v2/library/x/manifests/latest?ns=docker.io: 403 Forbidden", "registry"),  # a mirror
    ("registry.gitlab.com", "error from registry: access forbidden", "build"),  # [c]
    ("docker.io", CONTAINERD.format("registry-1.docker.io") + "429 Too Many Requests", "registry"),  # [c]
    ("docker.io", CONTAINERD.format("registry-1.docker.io") + "401 Unauthorized", "registry"),  # [c], an outage
    ("ghcr.io", "initializing source docker://ghcr.io/library/x:latest: Requesting bearer token: received unexpected HTTP status: 403 Forbidden", "build"),  # [p]
    ("quay.io", "initializing source docker://quay.io/library/x:latest: unable to retrieve auth token: invalid username/password: unauthorized: incorrect username or password", "registry"),  # [p]
    ("docker.io", "an unknown answer", "registry"),
]  # fmt: skip


@pytest.mark.parametrize(("registry", "answer", "kind"), ANSWERS)
def test_answer_of_registry(registry, answer, kind):
    image = f"{registry}/library/x"
    is_missing = de.is_no_such_image(registry, f"Error response from daemon: {answer}", image=image)
    assert is_missing == (kind == "build")


@pytest.mark.usefixtures("smoke_test_passes")
def test_registry_that_does_not_answer_is_out_of_reach(fake, evaluate, monkeypatch):
    call = de.Cli.call

    def impatient(cli, *words, **more):
        return call(cli, *words, **{**more, "timeout": 0.5} if words[0] == "pull" else more)

    monkeypatch.setattr(de.Cli, "call", impatient)
    fake.fault("pull", "hang")
    fake.fault("build", **legacy("FROM x", error=DENIED))
    assert outcome(evaluate(["FROM x"], TRUE)) == "registry"


SHORT_READ = "short read: expected 1000 bytes but got 17: unexpected EOF"
BROKEN = {  # [f], [c], docker/hub-feedback#2421
    "legacy": legacy("FROM ghcr.io/x/y", error="unexpected EOF"),
    "legacy, configuration": legacy("FROM x", error="error pulling image configuration: download failed after attempts=6: dial tcp: i/o timeout"),
    "BuildKit 20.10": buildkit(f"{METADATA}ghcr.io/x/y:1\nDONE 0.1s", "FROM ghcr.io/x/y:1\nERROR: unexpected EOF", error=" > FROM ghcr.io/x/y:1:\n------\nunexpected EOF"),
    "buildx": buildkit(f"[1/2] FROM ghcr.io/x/y:1\nERROR: {SHORT_READ}", error=solve(SHORT_READ)),
    "containerd": buildkit("[1/2] FROM ghcr.io/x/y:1\nDONE 0.1s", f"[2/2] RUN true\nERROR: {SHORT_READ}", error=solve(f"failed to compute cache key: {SHORT_READ}")),
    "rate limit": resolve("docker.io/library/x", "failed to copy: httpReadSeeker: failed open: unexpected status code https://registry-1.docker.io/v2/library/x/blobs/sha256:1d: 429 Too Many Requests"),
}  # fmt: skip


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("log", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("is_broken_twice", [True, False])
def test_download_that_breaks_off_twice_is_a_registry_error(fake, evaluate, log, is_broken_twice):
    """Without a question: the registry answers, but another server has the content."""
    fake.fault("build", nth=1, **log)
    fake.fault(
        "build", nth=2, **(log if is_broken_twice else legacy("FROM x", error="manifest unknown"))
    )
    assert outcome(evaluate(["FROM x"], TRUE)) == ("registry" if is_broken_twice else "build")


# What is the host's fault, although an image is missing

FORBIDDEN = 'Get "https://registry-1.docker.io/v2/": Forbidden'  # moby/moby#40507
HEAD_FORBIDDEN = 'failed to do request: Head "https://registry-1.docker.io/v2/library/debian/manifests/x": Forbidden'
NO_TOKEN = 'failed to authorize: rpc error: code = Unknown desc = failed to fetch anonymous token: Get "https://auth.docker.io/token?scope=x": dial tcp: lookup auth.docker.io on 10.0.0.1:53: no such host'
PROXY_LOGIN = 'Get "https://registry-1.docker.io/v2/": Proxy Authentication Required'
NO_HELPER = 'error getting credentials - err: exec: "docker-credential-desktop": executable file not found in $PATH, out: ``'
MISSING = "manifest for x:latest not found: manifest unknown"

# The build, the registry's answer, the kind of error
HOSTS = {
    "proxy, legacy": (legacy("FROM debian", error=FORBIDDEN), FORBIDDEN, "registry"),
    "proxy, BuildKit": (resolve("docker.io/library/debian:x", HEAD_FORBIDDEN), FORBIDDEN, "registry"),
    "proxy in the answer": (legacy("FROM debian", error=MISSING), FORBIDDEN, "registry"),
    "proxy in the build": (legacy("FROM debian", error=FORBIDDEN), MISSING, "registry"),
    "the client has another network": (resolve("docker.io/library/debian:x", NO_TOKEN), DENIED, "registry"),
    "proxy, login": (legacy("FROM debian", error=PROXY_LOGIN), PROXY_LOGIN, "registry"),
    "proxy, 403": (legacy("FROM debian", error=MISSING), "error from registry: 403 Forbidden", "registry"),
    "no helper, FROM": (resolve("docker.io/library/debian:x", NO_HELPER), DENIED, "usage"),
    "no helper, syntax": (buildkit(f"resolve image config for docker-image://docker.io/docker/dockerfile:1\nERROR: {NO_HELPER}", error=solve(NO_HELPER)), DENIED, "usage"),
    "no helper, answer": (legacy("FROM debian", error=MISSING), NO_HELPER, "usage"),
    "no helper, own registry": (resolve("registry.invalid/x", NO_HELPER), DENIED, "usage"),
    "no such image": (legacy("FROM nosuch", error=DENIED), DENIED, "build"),
    "text in COPY": (legacy(FROM, 'COPY ["error getting credentials", "/"]', error="COPY failed: stat error getting credentials: file does not exist"), DENIED, "build"),
    "proxy, own registry": (legacy("FROM registry.invalid/x", error='Get "https://registry.invalid/v2/": Forbidden'), FORBIDDEN, "build"),
}  # fmt: skip


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("name", HOSTS)
def test_image_that_the_host_keeps_docker_from_is_not_the_dockerfiles_fault(fake, evaluate, name):
    log, answer, kind = HOSTS[name]
    fake.set(pull=f"Error response from daemon: {answer}")
    fake.fault("build", **log)
    error = evaluate(["FROM x"], TRUE)["error"]
    assert error["kind"] == kind, error["message"]
    assert ("~/.docker/config.json" in error["message"]) == (kind == "usage")


@pytest.mark.usefixtures("smoke_test_passes")
def test_each_download_is_judged_by_its_own_step(fake, evaluate):
    """The first one ends in ADD, with the same error as the download of an image."""
    end = "ERROR: failed to solve: unexpected EOF"
    fake.fault("build", nth=1, **buildkit("[2/2] ADD x.tar /\nERROR: unexpected EOF", error=end))
    fake.fault(
        "build", nth=2, **buildkit("[1/2] FROM ghcr.io/x/y\nERROR: unexpected EOF", error=end)
    )
    message = evaluate(["FROM x"], TRUE)["error"]["message"]
    assert (
        message
        == "registry ghcr.io: no answer about the image; the build ended with: unexpected EOF"
    )
