"""Builds: what is repeated, the messages, the log, time limits, BuildKit.

Who is at fault is in test_diagnosis.py.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from cases import FROM, LOOK, TRUE, buildkit, legacy, podman
from conftest import error_of, messages, outcome

import DockerfileEvaluator as de

FROM_VERTEX = "[1/2] FROM docker.io/library/busybox:stable\nCACHED"
APT = "E: Unable to locate package x"
# How each builder says that a RUN failed, up to the exit code
LEGACY_RUN = "The command '/bin/sh -c apt-get install x' returned a non-zero code: "
OLD_RUN = "executor failed running [/bin/sh -c apt-get install x]: exit code: "
NEW_RUN = 'process "/bin/sh -c apt-get install x" did not complete successfully: exit code: '
PODMAN_RUN = 'building at STEP "RUN apt-get install x": while running runtime: exit status '
# How they say that COPY does not find its source
NOT_IN_CONTEXT = (
    "COPY failed: file not found in build context or excluded by .dockerignore: "
    "stat nosuch: file does not exist"
)
NO_SOURCE_OF_PODMAN = (
    'building at STEP "COPY nosuch /app/": checking on sources under "/tmp/x": '
    'copier: stat: "/nosuch": no such file or directory'
)
REF = (
    "failed to calculate checksum of ref "
    "4df3ee2d-846b-4eb4-81c1-d9bfc8fc9abe::po5tch2brg6ipez5ox3ms6xvw: "
)
NO_USER = (
    'process "/bin/sh -c true" did not complete successfully: '
    "unable to find user app: no matching entries in passwd file"
)
EXCERPT = (
    "------\n"
    "Dockerfile:2\n"
    "--------------------\n"
    "   1 |     FROM busybox:stable\n"
    "   2 | >>> RUN x\n"
    "--------------------\n"
)
CONTEXT = " (build context: {context}; select another with --context DIR)"


def run_vertex(error, *output):
    """Return the vertex of a RUN that printed these lines and failed."""
    return "\n".join(["[2/2] RUN apt-get install x", *output, f"ERROR: {error}"])


class FailedBuild(NamedTuple):
    """What docker prints each time, and what the report says."""

    what: str
    printed: dict[str, str]  # on stdout and stderr
    message: str
    builds: int = 1  # two, if the failure may be an accident


FAILED_BUILDS = [
    FailedBuild(
        "RUN, legacy",
        printed=legacy(
            FROM,
            "RUN apt-get install x\n"
            " ---> Running in f7158282fb59\n"
            "first\n"
            "\x1b[91mE: Unable to locate package x\n"
            "\x1b[0mRemoving intermediate container f7158282fb59",
            error=f"{LEGACY_RUN}100",
        ),
        message=f"{LEGACY_RUN}100: {APT}",
    ),
    FailedBuild(
        "RUN, BuildKit 20.10",
        printed=buildkit(
            FROM_VERTEX,
            run_vertex(f"{OLD_RUN}100", "sha256:3a7a5b4a", f"0.159 {APT}", "0.160 bye"),
            error=f" > [2/2] RUN apt-get install x:\n------\n{OLD_RUN}100",
        ),
        message=f"{OLD_RUN}100: {APT}",
    ),
    FailedBuild(
        "RUN, buildx",
        printed=buildkit(
            FROM_VERTEX,
            run_vertex(f"{NEW_RUN}100", f"0.159 {APT}", "0.160 bye"),
            error=" > [2/2] RUN apt-get install x:\n"
            f"0.159 {APT}\n"
            "0.160 bye\n"
            f"{EXCERPT}ERROR: failed to build: failed to solve: {NEW_RUN}100",
        ),
        message=f"{NEW_RUN}100: {APT}",
    ),
    FailedBuild(
        "RUN, podman",
        printed=podman(
            "FROM busybox:stable", "RUN apt-get install x\nfirst", error=f"{PODMAN_RUN}100"
        ),
        message=f"{PODMAN_RUN}100: first",
    ),
    FailedBuild(
        "RUN without output",
        printed=legacy(FROM, "RUN apt-get install x", error=f"{LEGACY_RUN}1"),
        message=f"{LEGACY_RUN}1: no output",
    ),
    FailedBuild(
        "RUN that was killed, legacy",
        printed=legacy(FROM, "RUN apt-get install x", error=f"{LEGACY_RUN}137"),
        message=f"{LEGACY_RUN}137: no output",
        builds=2,
    ),
    FailedBuild(
        "RUN that was terminated, buildx",
        printed=buildkit(
            FROM_VERTEX,
            run_vertex(f"{NEW_RUN}143"),
            error=f"{EXCERPT}ERROR: failed to solve: {NEW_RUN}143",
        ),
        message=f"{NEW_RUN}143: no output",
        builds=2,
    ),
    FailedBuild(
        "COPY, legacy",
        printed=legacy(FROM, "COPY nosuch /app/", error=NOT_IN_CONTEXT),
        message=f"{NOT_IN_CONTEXT}{CONTEXT}",
    ),
    FailedBuild(
        "ADD, legacy",
        printed=legacy(
            FROM, "ADD x*.tar /app/", error="ADD failed: no source files were specified"
        ),
        message=f"ADD failed: no source files were specified{CONTEXT}",
    ),
    FailedBuild(
        "COPY, BuildKit 20.10",
        printed=buildkit(
            FROM_VERTEX,
            '[2/2] COPY nosuch /app/\nERROR: "/nosuch" not found: not found',
            error=" > [2/2] COPY nosuch /app/:\n"
            "------\n"
            'failed to compute cache key: "/nosuch" not found: not found',
        ),
        message=f'failed to compute cache key: "/nosuch" not found: not found{CONTEXT}',
    ),
    FailedBuild(
        "COPY, buildx",
        printed=buildkit(
            FROM_VERTEX,
            f'[2/2] COPY nosuch /app/\nERROR: {REF}"/nosuch": not found',
            error=f"{EXCERPT}ERROR: failed to build: failed to solve: "
            f'failed to compute cache key: {REF}"/nosuch": not found',
        ),
        message="failed to compute cache key: failed to calculate checksum: "
        f'"/nosuch": not found{CONTEXT}',
    ),
    FailedBuild(
        "COPY, podman",
        printed=podman("FROM busybox:stable", "COPY nosuch /app/", error=NO_SOURCE_OF_PODMAN),
        message=f"{NO_SOURCE_OF_PODMAN}{CONTEXT}",
    ),
    FailedBuild(
        "COPY --from",
        printed=legacy(
            FROM,
            "COPY --from=busybox:stable /nosuch /app/",
            error="COPY failed: stat nosuch: file does not exist",
        ),
        message="COPY failed: stat nosuch: file does not exist",
    ),
    FailedBuild(
        "syntax, legacy",
        printed=legacy(
            error="Error response from daemon: "
            "dockerfile parse error line 2: unknown instruction: RUNN"
        ),
        message="dockerfile parse error line 2: unknown instruction: RUNN",
    ),
    FailedBuild(
        "syntax, buildx",
        printed=buildkit(
            error="ERROR: failed to build: failed to solve: dockerfile parse error on line 2: "
            "unknown instruction: RUNN (did you mean RUN?)"
        ),
        message="dockerfile parse error on line 2: unknown instruction: RUNN (did you mean RUN?)",
    ),
    FailedBuild(
        "stage name",
        printed=legacy(
            error="Error response from daemon: "
            'failed to parse stage name "X": invalid reference format'
        ),
        message='failed to parse stage name "X": invalid reference format',
    ),
    FailedBuild(
        "no reason", printed=legacy(FROM, "COPY a /", error=""), message="no output", builds=2
    ),
    FailedBuild(
        "no FROM",
        printed=legacy(error="Error response from daemon: no build stage in current context"),
        message="no build stage in current context (a Dockerfile needs a FROM line)",
    ),
    FailedBuild(
        "no user, buildx",
        printed=buildkit(
            FROM_VERTEX,
            "[2/2] RUN true\nERROR: x",
            error=f"{EXCERPT}ERROR: failed to build: failed to solve: {NO_USER}",
        ),
        message=NO_USER,
        builds=2,
    ),
    FailedBuild(
        "truncated archive",
        printed=legacy(
            FROM,
            "ADD x.tar /",
            error="Error processing tar file(exit status 1): unexpected EOF",
        ),
        message="Error processing tar file(exit status 1): unexpected EOF",
        builds=2,
    ),
    FailedBuild(
        "warnings of the client",
        printed={
            "stderr": 'time="2026" level=warning msg="x"\n'
            "WARNING: No swap limit support\n"
            "ERROR: failed to solve: some reason"
        },
        message="some reason",
        builds=2,
    ),
]


@pytest.mark.parametrize("row", FAILED_BUILDS, ids=lambda row: row.what)
def test_failed_build(fake, evaluate, tmp_path, row):
    """It is repeated unless it is permanent; its message quotes docker, and is in each test."""
    fake.fault("build", **row.printed)
    message = row.message.format(context=tmp_path / "context")

    report = evaluate(["RUN x"], TRUE, LOOK)

    assert fake.count("build") == row.builds
    assert error_of(report) == ("build", message)
    assert report["build"]["message"] == message
    assert report["build"]["succeeded"] is False
    assert messages(report) == [f"not run: {message}"] * 2


PARENT_LOST = legacy(FROM, "ENV a=b", error="unknown parent image ID sha256:1d")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(PARENT_LOST, id="the engine lost a layer"),
        pytest.param({"do": "die"}, id="docker was killed"),
    ],
)
def test_failed_build_is_retried_once_and_the_second_counts(fake, evaluate, fault):
    fake.fault("build", nth=1, **fault)

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    assert fake.count("build") == 2
    assert fake.count("smoke build") == 0


def test_second_build_waits_for_the_engine(fake, evaluate):
    fake.fault("build", "lose the engine", nth=1)
    fake.fault("version", "find the engine", nth=4)

    report = evaluate(["FROM x"], TRUE)

    assert outcome(report) == "passed"
    calls = fake.names()
    since_the_first = calls[calls.index("build") :]
    assert since_the_first[:5] == ["build", "version", "version", "version", "build"]


def test_killed_docker_program_is_an_engine_error(fake, evaluate):
    fake.fault("build", "die")

    kind, message = error_of(evaluate(["FROM x"], TRUE))

    assert kind == "engine"
    assert "killed" in message


def test_image_that_is_missing_after_the_build_is_an_engine_error(fake, evaluate):
    fake.fault("build", code=0)

    kind, message = error_of(evaluate(["FROM x"], TRUE))

    assert kind == "engine"
    assert "docker buildx use default" in message


def test_missing_source_names_the_dockerignore_of_the_context(fake, evaluate, tmp_path):
    context = tmp_path / "other"
    context.mkdir()
    (context / ".dockerignore").write_text("*")
    printed = legacy(FROM, "COPY a /", error="COPY failed: stat a: file does not exist")
    fake.fault("build", **printed)

    _, message = error_of(evaluate(["FROM x"], TRUE, context=str(context)))

    assert (
        f"(build context: {context}, without what {context}/.dockerignore excludes; "
        "select another with --context"
    ) in message


# Lines that programs print when the network fails
NETWORK_FAILURES = {
    "name that does not resolve, apt-get": "  Temporary failure resolving 'deb.debian.org'",
    "name that does not resolve, curl": "curl: (6) Could not resolve host: example.org",
    "connection that is refused": "dial tcp 10.0.0.1:443: connect: connection refused",
    "connection that times out": "Read timed out: connection timed out",
    "too many requests": "HTTP 429 Too Many Requests",
}


@pytest.mark.parametrize("what", NETWORK_FAILURES)
def test_network_failure_in_the_output_is_a_hint(fake, evaluate, what):
    line = NETWORK_FAILURES[what]
    error = "The command 'x' returned a non-zero code: 6"
    fake.fault("build", **legacy(FROM, f"RUN x\n{line}\n{APT}", error=error))

    _, message = error_of(evaluate(["FROM x"], TRUE))

    assert message == f"{error}: {APT} (the log also mentions: {line.strip()})"


def test_other_stages_are_not_quoted(fake, evaluate):
    """BuildKit prints the output of stages that run at the same time."""
    failed = run_vertex(f"{NEW_RUN}1", "0.2 E: cause")
    other = "[b 2/2] RUN test\n0.1 error: expected in the test\nCANCELED"
    fake.fault("build", **buildkit(failed, other, error=f"ERROR: {NEW_RUN}1"))

    _, message = error_of(evaluate(["FROM x"], TRUE))

    assert message == f"{NEW_RUN}1: E: cause"


def test_dockerfile_that_is_a_link_is_built_by_its_target(fake, dockerfile, rubric, tmp_path):
    path = dockerfile("FROM x")
    link = tmp_path / "links" / "Dockerfile"
    link.parent.mkdir()
    link.symlink_to(path)

    de.evaluate(str(link), "r", rubric(TRUE))

    (words,) = fake.calls("build")
    assert words[-2:] == [path, str(link.parent)]


CAUSE, LAST = "ModuleNotFoundError: No module named 'x'", "hint 0899: try something else"
LINES = [CAUSE, *(f"hint {at:04}: try something else" for at in range(900))]
LONG_LOGS = {
    "legacy": legacy(
        FROM,
        "RUN a\nearlier",
        "\n".join(["RUN x", *LINES]),
        error="returned a non-zero code: 1",
    ),
    "buildkit": buildkit(
        "[2/3] RUN a\n0.1 earlier",
        run_vertex("x", *(f"0.2 {line}" for line in LINES)),
        error=f"ERROR: {NEW_RUN}1",
    ),
}


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
    title = b"#1 [internal] load build definition\n#2 [2/2] RUN x\n"

    log.feed("stderr", title + b"#2 0.1 " + b"A" * 70_000)
    log.feed("stderr", b"#1 ERROR: failed to copy: httpReadSeeker: x\n")

    assert log.output.builder.name == "buildkit"
    assert log.output.failure().step_error is None


class Sleep(NamedTuple):
    """A step that was running when the time of the build was over."""

    step: str
    printed: dict[str, str]  # by docker, until then
    kind: str  # of the error


SLEEPS = [
    Sleep(
        "FROM node:22",
        printed=legacy("FROM node:22\n22: Pulling from library/node", error=""),
        kind="registry",
    ),
    Sleep(
        "RUN sleep 600",
        printed=legacy(FROM, "RUN sleep 600", error=""),
        kind="build_timeout",
    ),
    Sleep(
        "[2/2] RUN sleep 600",
        printed={
            "stderr": "#1 [internal] load build definition\n#2 [2/2] RUN sleep 600\n#2 0.1 text\n"
        },
        kind="build_timeout",
    ),
]


@pytest.mark.parametrize("sleep", SLEEPS, ids=lambda sleep: sleep.step)
def test_build_that_times_out_names_its_step_and_is_not_repeated(fake, evaluate, sleep):
    fake.fault("build", "print", **sleep.printed)
    fake.fault("build", "hang")

    report = evaluate(["FROM x"], TRUE, build_timeout=2)

    message = f"the build timed out after 2 s in step '{sleep.step}'"
    assert error_of(report) == (sleep.kind, message)
    assert fake.count("build") == 1
    assert sleep.step in report["build"]["log"]


# ---- BuildKit ----


class Syntax(NamedTuple):
    """A Dockerfile, and what docker prints when it builds it."""

    what: str
    lines: list[str]
    printed: dict[str, str]
    do: str = "fail"  # the build: "print", if it ends well


def refused(what: str, *, instruction: str, error: str) -> Syntax:
    """Return an instruction that docker's legacy builder refuses with an error."""
    printed = legacy(FROM, instruction, error=error)
    return Syntax(what, lines=["FROM busybox:stable", instruction], printed=printed)


def ignored(what: str, *lines: str) -> Syntax:
    """Return lines that the legacy builder of docker 28 takes for an empty RUN."""
    printed = {"stdout": "Step 1/2 : FROM x\n"}
    return Syntax(what, lines=["FROM x", *lines], printed=printed, do="print")


SYNTAX_ERROR = "Error response from daemon: dockerfile parse error line "
# What the legacy builders of docker 20.10 and 28.5 print
BUILDKIT_NEEDED = [
    Syntax(
        "here-document, 20.10",
        lines=["FROM x", "RUN <<EOF", "echo hi", "EOF"],
        printed=legacy(error=f"{SYNTAX_ERROR}3: unknown instruction: ECHO"),
    ),
    Syntax(
        "here-document, 28",
        lines=["FROM x", "RUN <<EOF", "echo hi", "EOF"],
        printed={
            "stdout": "Sending build context to Docker daemon\n"
            "Step 1/2 : FROM x\n"
            "Step 2/2 : RUN <<EOF\n"
        },
        do="print",
    ),
    ignored(
        "here-document of a command",
        "RUN set -e; \\",
        "  python3 - <<-'END' >/log",
        "print(1)",
        "\tEND",
        "RUN y",
    ),
    ignored("here-document after many lines", *["RUN true\\"] * 9000, "cat <<EOF", "EOF"),
    ignored("here-document at the beginning of a line", "RUN cat \\", "<<EOF", "hi", "EOF"),
    ignored("here-document in lower case", "run <<EOF", "echo hi", "EOF"),
    Syntax(
        "here-document of COPY, 28",
        lines=["FROM x", "COPY <<EOF /f", "hi", "EOF"],
        printed=legacy(FROM, "COPY <<EOF /f", error="COPY failed: no source files were specified"),
    ),
    refused(
        "--mount",
        instruction="RUN --mount=type=cache,target=/c true",
        error="the --mount option requires BuildKit. "
        "Refer to https://docs.docker.com/go/buildkit/ "
        "to learn how to build images with BuildKit enabled",
    ),
    refused(
        "--link",
        instruction="COPY --link a /a",
        error=f"{SYNTAX_ERROR}2: Unknown flag: link",
    ),
    refused(
        "--network, 20.10",
        instruction="RUN --network=none true",
        error=f"{SYNTAX_ERROR}2: Unknown flag: network",
    ),
    refused(
        "platform, 20.10",
        instruction="FROM --platform=$BUILDPLATFORM x",
        error='failed to parse platform : "" is an invalid component of "": '
        'platform specifier component must match "^[A-Za-z0-9_-]+$": invalid argument',
    ),
    refused(
        "platform, 28",
        instruction="FROM --platform=$BUILDPLATFORM x",
        error='failed to parse platform : "" is an invalid OS component of "": '
        'OSAndVersion specifier component must match "^([A-Za-z0-9_-]+)$": invalid argument',
    ),
]
BUILDKIT_NOT_NEEDED = [
    refused(
        "COPY of a name with such words",
        instruction='COPY ["requires BuildKit", "/"]',
        error="COPY failed: file not found in build context or excluded by .dockerignore: "
        "stat requires BuildKit: file does not exist",
    ),
    refused(
        "COPY of a name with the whole error",
        instruction='COPY ["the --mount option requires BuildKit", "/"]',
        error="COPY failed: stat the --mount option requires BuildKit: file does not exist",
    ),
    refused(
        "RUN that prints the whole error",
        instruction="RUN echo the --mount option requires BuildKit; false",
        error="The command '/bin/sh -c echo the --mount option requires BuildKit; false' "
        "returned a non-zero code: 1",
    ),
    refused(
        "flag that BuildKit does not know either",
        instruction="COPY --bogus=1 a b",
        error=f"{SYNTAX_ERROR}2: Unknown flag: bogus",
    ),
    Syntax(
        "here-document of the shell that no line ends",
        lines=["FROM x", "RUN echo $((1 << 2)); cat <<EOF", "# RUN <<EOF", "# EOF"],
        printed=legacy(FROM, error="The command 'x' returned a non-zero code: 2"),
    ),
    Syntax(
        "here-document of an instruction that has none",
        lines=["FROM x", "CMD cat <<EOF", "hi", "EOF"],
        printed=legacy(error="dockerfile parse error line 3: unknown instruction: HI"),
    ),
    Syntax(
        "here-document with a continued line",
        lines=["FROM x", "RUN cat <<EOF; \\", "false", "EOF"],
        printed=legacy(FROM, error="The command 'x' returned a non-zero code: 2"),
    ),
    Syntax(
        "here-document, built with BuildKit",
        lines=["FROM x", "RUN <<EOF", "false", "EOF"],
        printed=buildkit(run_vertex(f"{NEW_RUN}1"), error=f"ERROR: {NEW_RUN}1"),
    ),
]
NEEDS_BUILDKIT = "this Dockerfile needs BuildKit, and this docker has none (install docker-buildx)"


@pytest.mark.parametrize("syntax", BUILDKIT_NEEDED, ids=lambda syntax: syntax.what)
def test_dockerfile_that_needs_buildkit_is_usage(fake, evaluate, syntax):
    fake.fault("build", syntax.do, **syntax.printed)

    report = evaluate(syntax.lines, TRUE)

    assert error_of(report) == ("usage", NEEDS_BUILDKIT)


@pytest.mark.parametrize("syntax", BUILDKIT_NOT_NEEDED, ids=lambda syntax: syntax.what)
def test_dockerfile_that_fails_with_buildkit_as_well_is_at_fault(fake, evaluate, syntax):
    fake.fault("build", syntax.do, **syntax.printed)

    kind, message = error_of(evaluate(syntax.lines, TRUE))

    assert kind == "build"
    assert message != NEEDS_BUILDKIT


def warnings_about_target_arguments(fake, evaluate, printed):
    """Evaluate a Dockerfile with such an argument, whose first build fails by accident."""
    fake.fault("build", nth=1, **printed)
    fake.fault("build", "print", nth=2, **printed)
    report = evaluate(["FROM x", "ARG TARGETARCH"], TRUE)
    return [warning for warning in report["warnings"] if "TARGET" in warning]


def test_target_platform_argument_is_a_warning_with_the_legacy_builder(fake, evaluate):
    printed = legacy(FROM, error="unknown parent image ID")

    warnings = warnings_about_target_arguments(fake, evaluate, printed)

    assert len(warnings) == 1, "not once for both builds"


def test_target_platform_argument_is_no_warning_with_buildkit(fake, evaluate):
    printed = buildkit(error="x")

    assert warnings_about_target_arguments(fake, evaluate, printed) == []
