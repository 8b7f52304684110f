"""Builds: what is repeated, the messages, the log, time limits, BuildKit; who is at fault is in test_diagnosis.py."""

from __future__ import annotations

import pytest
from cases import LOOK, TRUE, buildkit, legacy, podman
from conftest import error_of, messages, outcome

import DockerfileEvaluator as de

FROM = "FROM busybox:stable\n ---> a79ebfed6780"
FROM_VERTEX = "[1/2] FROM docker.io/library/busybox:stable\nCACHED"
APT = "E: Unable to locate package x"
RUN = (
    "RUN apt-get install x\n ---> Running in f7158282fb59\nfirst\n\x1b[91mE: Unable to locate package x\n"
    "\x1b[0mRemoving intermediate container f7158282fb59"
)
OLD_RUN = "executor failed running [/bin/sh -c apt-get install x]: exit code: "
NEW_RUN = 'process "/bin/sh -c apt-get install x" did not complete successfully: exit code: '
REF = "failed to calculate checksum of ref 4df3ee2d-846b-4eb4-81c1-d9bfc8fc9abe::po5tch2brg6ipez5ox3ms6xvw: "
EXCERPT = "------\nDockerfile:2\n--------------------\n   1 |     FROM busybox:stable\n   2 | >>> RUN x\n--------------------\n"
CONTEXT = " (build context: {context}; select another with --context DIR)"


def run_vertex(error, *output):
    return "\n".join(["[2/2] RUN apt-get install x", *output, f"ERROR: {error}"])


# A name, what docker prints, how many builds, the message
FAILED_BUILDS = [
    ("RUN, legacy", legacy(FROM, RUN, error="The command '/bin/sh -c apt-get install x' returned a non-zero code: 100"), 1, f"The command '/bin/sh -c apt-get install x' returned a non-zero code: 100: {APT}"),
    ("RUN, BuildKit 20.10", buildkit(FROM_VERTEX, run_vertex(f"{OLD_RUN}100", "sha256:3a7a5b4a", f"0.159 {APT}", "0.160 bye"), error=f" > [2/2] RUN apt-get install x:\n------\n{OLD_RUN}100"), 1, f"{OLD_RUN}100: {APT}"),
    ("RUN, buildx", buildkit(FROM_VERTEX, run_vertex(f"{NEW_RUN}100", f"0.159 {APT}", "0.160 bye"), error=f" > [2/2] RUN apt-get install x:\n0.159 {APT}\n0.160 bye\n{EXCERPT}ERROR: failed to build: failed to solve: {NEW_RUN}100"), 1, f"{NEW_RUN}100: {APT}"),
    ("RUN, podman", podman("FROM busybox:stable", "RUN apt-get install x\nfirst", error='building at STEP "RUN apt-get install x": while running runtime: exit status 100'), 1, 'building at STEP "RUN apt-get install x": while running runtime: exit status 100: first'),
    ("RUN without output", legacy(FROM, "RUN false", error="The command '/bin/sh -c false' returned a non-zero code: 1"), 1, "The command '/bin/sh -c false' returned a non-zero code: 1: no output"),
    ("RUN that was killed, legacy", legacy(FROM, "RUN x", error="The command '/bin/sh -c x' returned a non-zero code: 137"), 2, "The command '/bin/sh -c x' returned a non-zero code: 137: no output"),
    ("RUN that was terminated, buildx", buildkit(FROM_VERTEX, run_vertex(f"{NEW_RUN}143"), error=f"{EXCERPT}ERROR: failed to solve: {NEW_RUN}143"), 2, f"{NEW_RUN}143: no output"),
    ("COPY, legacy", legacy(FROM, "COPY nosuch /app/", error="COPY failed: file not found in build context or excluded by .dockerignore: stat nosuch: file does not exist"), 1, f"COPY failed: file not found in build context or excluded by .dockerignore: stat nosuch: file does not exist{CONTEXT}"),
    ("ADD, legacy", legacy(FROM, "ADD x*.tar /app/", error="ADD failed: no source files were specified"), 1, f"ADD failed: no source files were specified{CONTEXT}"),
    ("COPY, BuildKit 20.10", buildkit(FROM_VERTEX, '[2/2] COPY nosuch /app/\nERROR: "/nosuch" not found: not found', error=' > [2/2] COPY nosuch /app/:\n------\nfailed to compute cache key: "/nosuch" not found: not found'), 1, f'failed to compute cache key: "/nosuch" not found: not found{CONTEXT}'),
    ("COPY, buildx", buildkit(FROM_VERTEX, f'[2/2] COPY nosuch /app/\nERROR: {REF}"/nosuch": not found', error=f'{EXCERPT}ERROR: failed to build: failed to solve: failed to compute cache key: {REF}"/nosuch": not found'), 1, f'failed to compute cache key: failed to calculate checksum: "/nosuch": not found{CONTEXT}'),
    ("COPY, podman", podman("FROM busybox:stable", "COPY nosuch /app/", error='building at STEP "COPY nosuch /app/": checking on sources under "/tmp/x": copier: stat: "/nosuch": no such file or directory'), 1, f'building at STEP "COPY nosuch /app/": checking on sources under "/tmp/x": copier: stat: "/nosuch": no such file or directory{CONTEXT}'),
    ("COPY --from", legacy(FROM, "COPY --from=busybox:stable /nosuch /app/", error="COPY failed: stat nosuch: file does not exist"), 1, "COPY failed: stat nosuch: file does not exist"),
    ("syntax, legacy", legacy(error="Error response from daemon: dockerfile parse error line 2: unknown instruction: RUNN"), 1, "dockerfile parse error line 2: unknown instruction: RUNN"),
    ("syntax, buildx", buildkit(error="ERROR: failed to build: failed to solve: dockerfile parse error on line 2: unknown instruction: RUNN (did you mean RUN?)"), 1, "dockerfile parse error on line 2: unknown instruction: RUNN (did you mean RUN?)"),
    ("stage name", legacy(error='Error response from daemon: failed to parse stage name "X": invalid reference format'), 1, 'failed to parse stage name "X": invalid reference format'),
    ("no reason", legacy(FROM, "COPY a /", error=""), 2, "no output"),
    ("no FROM", legacy(error="Error response from daemon: no build stage in current context"), 1, "no build stage in current context (a Dockerfile needs a FROM line)"),
    ("no user, buildx", buildkit(FROM_VERTEX, "[2/2] RUN true\nERROR: x", error=f'{EXCERPT}ERROR: failed to build: failed to solve: process "/bin/sh -c true" did not complete successfully: unable to find user app: no matching entries in passwd file'), 2, 'process "/bin/sh -c true" did not complete successfully: unable to find user app: no matching entries in passwd file'),
    ("truncated archive", legacy(FROM, "ADD x.tar /", error="Error processing tar file(exit status 1): unexpected EOF"), 2, "Error processing tar file(exit status 1): unexpected EOF"),
    ("warnings of the client", {"stderr": 'time="2026" level=warning msg="x"\nWARNING: No swap limit support\nERROR: failed to solve: some reason'}, 2, "some reason"),
]  # fmt: skip


BY_NAME = {name: row for name, *row in FAILED_BUILDS}


@pytest.mark.parametrize("name", BY_NAME)
def test_failed_build(fake, evaluate, tmp_path, name):
    """One build if the failure is permanent, otherwise two; the message quotes docker and the output."""
    log, builds, message = BY_NAME[name]
    fake.fault("build", **log)
    report = evaluate(["RUN x"], TRUE, LOOK)
    message = message.format(context=tmp_path / "context")
    assert fake.count("build") == builds
    assert error_of(report) == ("build", message)
    assert report["build"]["message"] == message
    assert report["build"]["succeeded"] is False
    assert messages(report) == [f"not run: {message}"] * 2


PARENT_LOST = legacy(FROM, "ENV a=b", error="unknown parent image ID sha256:1d")


@pytest.mark.parametrize("fault", [PARENT_LOST, {"do": "die"}])
def test_failed_build_is_retried_once_and_the_second_counts(fake, evaluate, fault):
    fake.fault("build", nth=1, **fault)
    assert outcome(evaluate(["FROM x"], TRUE)) == "passed"
    assert fake.count("build") == 2
    assert fake.count("smoke build") == 0


def test_second_build_waits_for_the_engine(fake, evaluate):
    fake.fault("build", "lose the engine", nth=1)
    fake.fault("version", "find the engine", nth=4)
    assert outcome(evaluate(["FROM x"], TRUE)) == "passed"
    names = fake.names()
    assert names[names.index("build") :][:5] == ["build", "version", "version", "version", "build"]


LOST_BUILDS = [({"do": "die"}, "killed"), ({"code": 0}, "docker buildx use default")]


@pytest.mark.parametrize(("fault", "message"), LOST_BUILDS)
def test_killed_docker_program_and_missing_image_are_engine_errors(fake, evaluate, fault, message):
    fake.fault("build", **fault)
    error = evaluate(["FROM x"], TRUE)["error"]
    assert error["kind"] == "engine"
    assert message in error["message"]


def test_missing_source_names_the_dockerignore_of_the_context(fake, evaluate, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".dockerignore").write_text("*")
    fake.fault(
        "build", **legacy(FROM, "COPY a /", error="COPY failed: stat a: file does not exist")
    )
    context = str(tmp_path / "other")
    message = evaluate(["FROM x"], TRUE, context=context)["error"]["message"]
    assert (
        f"(build context: {context}, without what {context}/.dockerignore excludes; select another with --context"
        in message
    )


HINTS = [
    ("  Temporary failure resolving 'deb.debian.org'\nE: Unable to locate package x", "Temporary failure resolving 'deb.debian.org'"),
    ("curl: (6) Could not resolve host: example.org\nerror: x", "curl: (6) Could not resolve host: example.org"),
    ("dial tcp 10.0.0.1:443: connect: connection refused\nerror: x", "dial tcp 10.0.0.1:443: connect: connection refused"),
    ("Read timed out: connection timed out\nE: x", "Read timed out: connection timed out"),
    ("HTTP 429 Too Many Requests\nerror: x", "HTTP 429 Too Many Requests"),
]  # fmt: skip


@pytest.mark.parametrize(("output", "hint"), HINTS)
def test_network_failure_in_the_output_is_a_hint(fake, evaluate, output, hint):
    error = "The command 'x' returned a non-zero code: 6"
    fake.fault("build", **legacy(FROM, f"RUN x\n{output}", error=error))
    assert hint in evaluate(["FROM x"], TRUE)["error"]["message"]


def test_other_stages_are_not_quoted(fake, evaluate):
    """BuildKit prints the output of stages that run at the same time."""
    other = "[b 2/2] RUN test\n0.1 error: expected in the test\nCANCELED"
    log = buildkit(run_vertex(f"{NEW_RUN}1", "0.2 E: cause"), other, error=f"ERROR: {NEW_RUN}1")
    fake.fault("build", **log)
    assert evaluate(["FROM x"], TRUE)["error"]["message"] == f"{NEW_RUN}1: E: cause"


def test_dockerfile_that_is_a_link_is_built_by_its_target(fake, dockerfile, rubric, tmp_path):
    path = dockerfile("FROM x")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "Dockerfile").symlink_to(path)
    de.evaluate(str(tmp_path / "links" / "Dockerfile"), "r", rubric(TRUE))
    (words,) = fake.calls("build")
    assert words[-2:] == [path, str(tmp_path / "links")]


CAUSE, LAST = "ModuleNotFoundError: No module named 'x'", "hint 0899: try something else"
LINES = [CAUSE, *(f"hint {at:04}: try something else" for at in range(900))]
LONG_LOGS = {
    "legacy": legacy(FROM, "RUN a\nearlier", "\n".join(["RUN x", *LINES]), error="returned a non-zero code: 1"),
    "buildkit": buildkit("[2/3] RUN a\n0.1 earlier", run_vertex("x", *(f"0.2 {line}" for line in LINES)), error=f"ERROR: {NEW_RUN}1"),
}  # fmt: skip


@pytest.mark.parametrize("builder", LONG_LOGS)
def test_log_keeps_the_beginning_of_the_failed_step_and_the_end(fake, evaluate, builder):
    fake.fault("build", **LONG_LOGS[builder])
    log = evaluate(["FROM x"], TRUE)["build"]["log"]
    assert log.count(CAUSE) == 1
    assert log.count(LAST) == 1
    assert "earlier" not in log
    assert 16_384 < len(log) < 20_000


def test_short_log_is_kept_in_full_and_once(fake, evaluate):
    fake.fault("build", "print", stdout="Step 1/1 : FROM x\nfirst\n", stderr="last\n")
    log = evaluate(["FROM x"], TRUE)["build"]["log"]
    assert sorted(log.splitlines()) == ["Step 1/1 : FROM x", "first", "last"]


def test_rest_of_a_long_line_begins_no_line():
    log = de.BuildLog(de.Console(None))
    log.feed(
        "stderr", b"#1 [internal] load build definition\n#2 [2/2] RUN x\n#2 0.1 " + b"A" * 70_000
    )
    log.feed("stderr", b"#1 ERROR: failed to copy: httpReadSeeker: x\n")
    assert log.output.builder.name == "buildkit"
    assert log.output.failure().step_error is None


RUNS = {"stderr": "#1 [internal] load build definition\n#2 [2/2] RUN sleep 600\n#2 0.1 text\n"}
# The step that is running, what was printed, the kind of error
SLEEPS = {
    "FROM node:22": (legacy("FROM node:22\n22: Pulling from library/node", error=""), "registry"),
    "RUN sleep 600": (legacy(FROM, "RUN sleep 600", error=""), "build_timeout"),
    "[2/2] RUN sleep 600": (RUNS, "build_timeout"),
}


@pytest.mark.parametrize("step", SLEEPS)
def test_build_that_times_out_names_its_step_and_is_not_repeated(fake, evaluate, step):
    printed, kind = SLEEPS[step]
    fake.fault("build", "print", **printed)
    fake.fault("build", "hang")
    report = evaluate(["FROM x"], TRUE, build_timeout=2)
    message = f"the build timed out after 2 s in step '{step}'"
    assert error_of(report) == (kind, message)
    assert fake.count("build") == 1
    assert step in report["build"]["log"]


# BuildKit


def needs(instruction, error):
    return (["FROM busybox:stable", instruction], legacy(FROM, instruction, error=error))


BUILDKIT_NEEDED = {  # what the legacy builders of docker 20.10 and 28.5 print
    "here-document, 20.10": (["FROM x", "RUN <<EOF", "echo hi", "EOF"], legacy(error="Error response from daemon: dockerfile parse error line 3: unknown instruction: ECHO")),
    "here-document, 28": (["FROM x", "RUN <<EOF", "echo hi", "EOF"], {"do": "print", "stdout": "Sending build context to Docker daemon\nStep 1/2 : FROM x\nStep 2/2 : RUN <<EOF\n"}),
    "here-document of a command": (["FROM x", "RUN set -e; \\", "  python3 - <<-'END' >/log", "print(1)", "\tEND", "RUN y"], {"do": "print", "stdout": "Step 1/2 : FROM x\n"}),
    "many lines": (["FROM x", *["RUN true\\"] * 9000, "cat <<EOF", "EOF"], {"do": "print", "stdout": "Step 1/2 : FROM x\n"}),
    "at the beginning of a line": (["FROM x", "RUN cat \\", "<<EOF", "hi", "EOF"], {"do": "print", "stdout": "Step 1/2 : FROM x\n"}),
    "lower case": (["FROM x", "run <<EOF", "echo hi", "EOF"], {"do": "print", "stdout": "Step 1/2 : FROM x\n"}),
    "COPY here-document, 28": (["FROM x", "COPY <<EOF /f", "hi", "EOF"], legacy(FROM, "COPY <<EOF /f", error="COPY failed: no source files were specified")),
    "--mount": needs("RUN --mount=type=cache,target=/c true", "the --mount option requires BuildKit. Refer to https://docs.docker.com/go/buildkit/ to learn how to build images with BuildKit enabled"),
    "--link": needs("COPY --link a /a", "Error response from daemon: dockerfile parse error line 2: Unknown flag: link"),
    "--network, 20.10": needs("RUN --network=none true", "Error response from daemon: dockerfile parse error line 2: Unknown flag: network"),
    "platform, 20.10": needs("FROM --platform=$BUILDPLATFORM x", 'failed to parse platform : "" is an invalid component of "": platform specifier component must match "^[A-Za-z0-9_-]+$": invalid argument'),
    "platform, 28": needs("FROM --platform=$BUILDPLATFORM x", 'failed to parse platform : "" is an invalid OS component of "": OSAndVersion specifier component must match "^([A-Za-z0-9_-]+)$": invalid argument'),
}  # fmt: skip
BUILDKIT_NOT_NEEDED = {
    "COPY": needs('COPY ["requires BuildKit", "/"]', "COPY failed: file not found in build context or excluded by .dockerignore: stat requires BuildKit: file does not exist"),
    "COPY of such a name": needs('COPY ["the --mount option requires BuildKit", "/"]', "COPY failed: stat the --mount option requires BuildKit: file does not exist"),
    "RUN": needs("RUN echo the --mount option requires BuildKit; false", "The command '/bin/sh -c echo the --mount option requires BuildKit; false' returned a non-zero code: 1"),
    "flag of none": needs("COPY --bogus=1 a b", "Error response from daemon: dockerfile parse error line 2: Unknown flag: bogus"),
    "another here-document": (["FROM x", "RUN echo $((1 << 2)); cat <<EOF", "# RUN <<EOF", "# EOF"], legacy(FROM, error="The command 'x' returned a non-zero code: 2")),
    "another instruction": (["FROM x", "CMD cat <<EOF", "hi", "EOF"], legacy(error="dockerfile parse error line 3: unknown instruction: HI")),
    "continued after it": (["FROM x", "RUN cat <<EOF; \\", "false", "EOF"], legacy(FROM, error="The command 'x' returned a non-zero code: 2")),
    "BuildKit": (["FROM x", "RUN <<EOF", "false", "EOF"], buildkit(run_vertex(f"{NEW_RUN}1"), error=f"ERROR: {NEW_RUN}1")),
}  # fmt: skip


NEEDS_BUILDKIT = "this Dockerfile needs BuildKit, and this docker has none (install docker-buildx)"


@pytest.mark.parametrize("name", [*BUILDKIT_NEEDED, *BUILDKIT_NOT_NEEDED])
def test_dockerfile_that_needs_buildkit_is_usage(fake, evaluate, name):
    lines, log = {**BUILDKIT_NEEDED, **BUILDKIT_NOT_NEEDED}[name]
    fake.fault("build", **log)
    error = evaluate(lines, TRUE)["error"]
    is_needed = name in BUILDKIT_NEEDED
    assert error["kind"] == ("usage" if is_needed else "build")
    assert (error["message"] == NEEDS_BUILDKIT) == is_needed


@pytest.mark.parametrize(
    "log", [legacy(FROM, error="unknown parent image ID"), buildkit(error="x")]
)
def test_target_platform_argument_is_a_warning_with_the_legacy_builder(fake, evaluate, log):
    fake.fault("build", nth=1, **log)
    fake.fault("build", "print", nth=2, **log)
    warnings = evaluate(["FROM x", "ARG TARGETARCH"], TRUE)["warnings"]
    assert ["TARGET" in text for text in warnings] == ([True] if "stdout" in log else [])
