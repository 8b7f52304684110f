"""Prepare, build, and who is at fault if that fails (section 4).

tests/logs has logs as docker and podman print them. Experiments are made with the fake docker here;
with real engines and registries in test_faults.py. Messages are in transcripts/no-score.txt.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, Sequence

import pytest
from cases import TRUE, run_command
from conftest import outcome

import DockerfileEvaluator as de

HUB_IMAGE = de.CONTROL_IMAGES["docker.io"]


# The Dockerfile: what it needs


class Needs(NamedTuple):
    """Lines of a Dockerfile, and the images that it needs."""

    lines: str
    images: str  # with a blank between two
    build_options: Sequence[str] = ()


HERE = "\nFROM no\nCOPY --from=no a /\nARG X=no\n"  # text that is no instruction
NEEDS = {
    "an image": Needs("FROM x", "x"),
    "with a platform": Needs("FROM --platform=linux/amd64 x AS y", "x"),
    "no name": Needs("FROM", ""),
    "scratch": Needs("FROM scratch", ""),
    "twice the same": Needs("FROM x:1\nFROM x:1 AS y", "x:1"),
    "a COPY and the same again": Needs("COPY --from=y:1 a /\nCOPY --from=y:1 b /", "y:1"),
    # Stages
    "a stage": Needs("FROM x AS b\nFROM b", "x"),
    "a stage in RUN": Needs("FROM x AS b\nRUN --mount=from=b,target=/b true", "x"),
    "a stage in any case": Needs("from x as Bc\nfrom bC\ncopy --from=BC a /", "x"),
    "a stage by its number": Needs("FROM x\nFROM y\nCOPY --from=0 a /", "x y"),
    "a stage after Windows ends of lines": Needs("FROM x AS b\r\nFROM b\r\n", "x"),
    "a stage after a byte order mark": Needs("\ufeffFROM x AS b\nFROM b", "x"),
    "a stage, another escape": Needs("# escape=`\nFROM x `\nAS b\nFROM b", "x"),
    "a stage, on two lines": Needs("FROM x \\\n  AS b\nFROM b", "x"),
    "a stage, a comment between": Needs("FROM x \\\n# no\n\n  # no\nAS b\nFROM b", "x"),
    "a stage with a variable": Needs("ARG B=b\nFROM x AS b\nFROM ${B}", "x"),
    "an image with the name of its stage": Needs("FROM b AS b", "b"),
    # Flags
    "COPY --from": Needs("COPY --chown=a --from=ghcr.io/a/b:1 x /", "ghcr.io/a/b:1"),
    "a double escape": Needs("FROM x\nRUN echo a\\\\\nFROM y", "x y"),
    "a here-document in quotes": Needs(f'RUN a "<<E b"\nFROM y\nCOPY <<E /{HERE}E', "y"),
    "an odd end of a here-document": Needs("RUN <<'E+F'\nFROM y\nE+F\nFROM z", "z"),
    "a frontend with words after it": Needs("# syntax=a/b c\nFROM x", "a/b x"),
    "a frontend after a shebang": Needs("#!/bin/docker\n# syntax=a/b\nFROM x", "a/b x"),
    "two mounts": Needs("RUN --mount=from=y,target=/y --mount=type=bind,from=z b", "y z"),
    "from= that is no flag": Needs("RUN git log --from=y", ""),
    "COPY of a file named --from": Needs("COPY a --from=y /", ""),
    # Here-documents
    "a here-document": Needs(f"RUN <<E{HERE}E\nFROM w", "w"),
    "with quotes": Needs(f"COPY <<'E' /a{HERE}E\nFROM w", "w"),
    "with a blank": Needs(f'RUN << "E.O-F"{HERE}E.O-F\nFROM w', "w"),
    "with tabs": Needs(f"RUN <<-E{HERE}\t\tE\nFROM w", "w"),
    "after flags": Needs(f"RUN --mount=type=tmpfs,target=/a <<E{HERE}E\nFROM w", "w"),
    "on a continued line": Needs(f"RUN a \\\n b <<E{HERE}E\nFROM w", "w"),
    "with a continued line at its end": Needs(f"RUN <<E{HERE} \\\nE\nFROM w", "w"),
    "with another end before its own": Needs(f"RUN <<E\n\tE{HERE} E{HERE}EE{HERE}E\nFROM w", "w"),
    "two of them": Needs(f"COPY <<A <<B /{HERE}A{HERE}B\nFROM w", "w"),
    "after Windows ends of lines": Needs(f"RUN <<E{HERE}E\nFROM w".replace("\n", "\r\n"), "w"),
    "<< without its end": Needs("RUN cat <<E\nFROM x", "x"),
    "<< in another instruction": Needs("CMD <<E\nFROM x\nE", "x"),
    "<< in quotes": Needs("RUN echo '<<E'\nFROM x\nE", "x"),
    # Variables
    "a variable": Needs("ARG A=x\nFROM $A", "x"),
    "a variable in quotes": Needs('ARG A="x" B=\'1\'\nFROM "$A:${B}"', "x:1"),
    "a variable of another": Needs("ARG A=x\nARG B=a.b/${A}:1\nFROM $B", "a.b/x:1"),
    "a default": Needs("ARG V=3\nFROM x:${T:-1}${U-2}${V:-4}", "x:123"),
    "a build argument": Needs("ARG A=x\nARG B=2\nFROM $A:$B", "x:3", ["--build-arg=B=3"]),
    "an ARG after FROM": Needs("FROM x\nARG A=y\nFROM ${A:-z}", "x z"),
    # The frontend
    "syntax": Needs("# syntax=a/b:1\nFROM x", "a/b:1 x"),
    "syntax, other blanks and case": Needs("#escape=`\n#  SYNTAX = a/b\nFROM x", "a/b x"),
    "syntax after a comment": Needs("# a comment\n# syntax=a/b\nFROM x", "x"),
    "syntax after an instruction": Needs("FROM x\n# syntax=a/b", "x"),
}


def needs_of(text, build_options=()):
    return list(de.needed_images(de.parse_dockerfile(text.encode()), build_options))


@pytest.mark.parametrize("needs", NEEDS.values(), ids=list(NEEDS))
def test_needed_images_are_those_of_others(needs):
    found = needs_of(needs.lines, needs.build_options)

    assert " ".join(need.image for need in found) == needs.images


def test_docker_gets_the_from_line_as_it_is_written_after_the_args():
    text = 'arg A="x" B\n\n# no\nARG C=1\nFROM --platform=$P \\\n "$A:${C}" AS b\nARG D=1\nRUN a\n'

    (need,) = needs_of(text)

    start = 'ARG A="x" B\nARG C=1\nFROM --platform=$P '
    assert need.dockerfile == f'{start}"$A:${{C}}"\n'
    assert need.with_scratch.startswith(f"{start}scratch\n")


SYNTAX = {
    "RUN <<E\na\nE": "here-documents",
    "COPY <<-'E' /a\na\n\tE": "here-documents",
    "RUN << E\na\nE": "here-documents",
    "RUN cat <<E": "",  # which no line ends
    "copy --from=a --link x /": "COPY --link",
    "COPY --chmod=755 x /": "COPY --chmod",
    "HEALTHCHECK --start-interval=1s CMD a": "HEALTHCHECK --start-interval",
    "run --mount=type=cache,target=/c a": "RUN --mount",
    "RUN --network=none a": "RUN --network",
    "RUN \\\n # no\n --network=none \\\n a": "RUN --network",
    "FROM --platform=$BUILDPLATFORM x": "FROM --platform=$BUILDPLATFORM",
    "FROM --platform=${BUILDPLATFORM} x": "FROM --platform=$BUILDPLATFORM",
    "FROM --platform=linux/amd64 x": "",
    "COPY --chown=a x /": "",
    "COPY --invented x /": "",
    "RUN echo --mount=x": "",
    "RUN test $((1<<2)) = 4": "",
    "# RUN --mount=type=cache <<EOF": "",
}


def test_new_syntax_is_what_only_newer_builders_know():
    found = {
        text: ", ".join(de.new_syntax(de.parse_dockerfile(f"FROM x\n{text}\n".encode())))
        for text in SYNTAX
    }

    assert found == SYNTAX


# What a log tells


def read_log(text, exit_code=1):
    """Return the build that has printed a text, which is read in two pieces."""
    log = de.BuildLog(de.Console(None))
    for piece in (text[:97], text[97:]):
        log.feed(piece.encode())
    return log.finish(exit_code, seconds=0.0)


def recorded(name):
    return Path(__file__).with_name("logs").joinpath(f"{name}.log").read_text()


LOGS = {  # the builder, and the exit code of its RUN
    "legacy-run": ("legacy", 3),
    "buildkit-20.10-run": ("buildkit", 3),
    "buildx-28.5-run": ("buildkit", 3),
    "buildx-28.5-download": ("buildkit", None),
    "podman-5.8-run": ("buildah", 3),
    "podman-5.8-from": ("buildah", None),
}


def test_log_tells_the_builder_and_the_exit_code_of_a_run():
    builds = {name: read_log(recorded(name)) for name in LOGS}

    assert {name: (build.builder, build.run_code) for name, build in builds.items()} == LOGS


@pytest.mark.parametrize("name", ["legacy", "buildkit-20.10", "buildx-28.5", "podman-5.8"])
def test_log_tells_what_the_failed_step_has_printed(name):
    assert read_log(recorded(f"{name}-run")).output == ["one", "E: cause", "bye"]


RUN_CODES = {
    "The command '/bin/sh -c a' returned a non-zero code: 3": 3,
    'ERROR: failed to solve: process "/bin/sh -c a" did not complete successfully: exit code: 3': 3,
    "executor failed running [/bin/sh -c a]: exit code: 137": 137,
    'Error: building at STEP "RUN a": while running runtime: exit status 255': 255,
    "a returned a non-zero code: 3\nSee 'docker build --help'": 3,  # advice
    "The command 'a\nSee 'x' returned a non-zero code: 3": 3,  # no advice
    "a returned a non-zero code: 3\nERROR: failed to solve: b": None,
    "a returned a non-zero code: 3: b": None,
    'Error: building at STEP "COPY x": copier: stat "/x": exit code: 3': None,
    "exit code: 3": None,
    "": None,
}


def test_exit_code_of_a_run_is_read_only_where_docker_reports_it():
    assert {text: de.run_exit_code(text.split("\n")) for text in RUN_CODES} == RUN_CODES


ERRORS = {  # the end of a log, and docker's error
    "Sending build context\nError response from daemon: a\n": "Error response from daemon: a",
    "Step 1/2 : RUN x\nERROR: a\nStep 2/2 : COPY x /\nCOPY failed: b\n": "COPY failed: b",
    "ERROR: a\n\nView build details: docker-desktop://x\n": "ERROR: a",
    "#2 DONE\nError: a\nb\n": "Error: a b",
    "": "docker build: exit code 1",
}


def test_log_tells_dockers_error():
    assert {log: read_log(log).error for log in ERRORS} == ERRORS


class Begun(NamedTuple):
    """What has begun at the end of a log."""

    instruction: bool = False
    change: bool = False  # one that may do something else the next time
    docker_step: str = ""  # BuildKit's own that has not ended


LOAD_CONTEXT = "[internal] load build context"
BEGUN = {
    "Sending build context to Docker daemon\n": Begun(),
    "Step 1/2 : FROM x\nStep 2/2 : ENV a=a\n": Begun(),
    "Step 1/2 : FROM x\nStep 2/2 : COPY a /\nCOPY failed": Begun(instruction=True),
    "Step 1/3 : FROM x\nStep 2/3 : RUN a\nStep 3/3 : COPY": Begun(instruction=True, change=True),
    "Step 1/1 : FROM x\n# Executing 1 build trigger\n": Begun(instruction=True, change=True),
    "STEP 1/2: FROM x\nSTEP 2/2: run a\n": Begun(instruction=True, change=True),
    "[1/2] STEP 1/2: FROM x\n[1/2] STEP 2/2: ADD a /\n": Begun(instruction=True, change=True),
    "#1 [internal] load build definition\n#2 [a 1/2] FROM x\n": Begun(docker_step="FROM x"),
    "#2 [a 1/2] FROM x\n#2 DONE 1.0s\n": Begun(),
    "#1 [a 2/2] RUN a\n#2 [b 1/2] FROM y\n#1 DONE 0.1s\n": Begun(True, True, "FROM y"),
    "#1 [a 2/2] RUN a\n#2 [b 1/2] FROM y\n": Begun(True, True),
    "#1 [1/2] FROM x\n#2 [2/2] ONBUILD RUN a\n": Begun(instruction=True, change=True),
    "#5 [2/3] COPY a /\n#5 ERROR: x\n[2/3] COPY a /": Begun(instruction=True),
    "#5 [a 2/3] RUN a\n#6 [2/2] COPY a /\n": Begun(instruction=True, change=True),
    "#1 [1/2] FROM x\n#2 https://a.b/x\n": Begun(instruction=True, change=True),
    "#1 [exporting 2/2] COPY a /\n": Begun(instruction=True),
    "#1 [internal] load build context\n#1 transferring": Begun(docker_step=LOAD_CONTEXT),
    "#3 [internal] load build context\n#4 [1/2] FROM x\n#3 DONE 1.0s\n": Begun(
        docker_step="FROM x"
    ),
    "#1 [1/1] COPY a /\n#2 exporting to image\n": Begun(instruction=True, docker_step="exporting"),
    "#1 [1/1] COPY a /\n#2 exporting to image\n#2 ERROR: x\n": Begun(instruction=True),
    # BuildKit made the RUN for another build.
    "#1 [1/2] FROM x\nexecutor failed running [a]: exit code: 1": Begun(
        instruction=True, change=True, docker_step="FROM x"
    ),
}


RUNNING = {
    "#1 [1/2] COPY a /\n#2 [2/2] RUN b\n#1 DONE 0.1s\n": "RUN b",
    "#1 [1/2] RUN a\n#2 [b 1/2] COPY b /\n#2 DONE 0.1s\n#1 0.2 #1 DONE 0.1s\n": "RUN a",
    "#1 [1/2] RUN a\n#1 DONE 0.1s\n#2 [b 1/1] FROM x\n": "",
    "#1 [1/2] RUN a\n#1 CACHED\n#2 exporting to image\n": "",
    "Step 1/1 : RUN a\n#1 [1/1] RUN b\n": "RUN a",
    "Step 1/2 : RUN a\nStep 2/2 : FROM x\n": "",
    "Step 1/2 : FROM x\nStep 2/2 : COPY a /\n": "COPY a /",
    "Step 1/1 : FROM x\n# Executing 1 build trigger\n": "Executing 1 build trigger",
    "Step 1/2 : FROM x\nStep 2/2 : COPY --from=y a /\n": "",
    "Step 1/2 : FROM x\nStep 2/2 : RUN curl a?from=y\n": "RUN curl a?from=y",
    "STEP 1/2: FROM x\nSTEP 2/2: RUN a\n": "RUN a",
    "STEP 1/2: FROM x\nSTEP 2/2: RUN --mount=type=bind,from=y,target=/y a\n": "",
}


def test_log_tells_the_instruction_that_was_running_at_the_limit():
    found = {log: read_log(log, exit_code=None).running_instruction for log in RUNNING}

    assert found == RUNNING


FAILED = {
    "Step 1/2 : FROM x\nStep 2/2 : COPY a /\nCOPY failed\n": "COPY a /",
    "Step 1/2 : RUN a\nStep 2/2 : FROM x\nno such host\n": "",
    "STEP 1/2: FROM x\nSTEP 2/2: COPY --from=y a /\nno such host\n": "",
    "#2 [1/2] FROM x\n#3 [2/2] COPY a /\n#3 ERROR: x\n#2 CANCELED\n": "COPY a /",
    "#2 [1/2] RUN a\n#3 [b 1/1] FROM x\n#3 ERROR: no such host\n#2 CANCELED\n": "",
    "#2 [internal] load metadata for docker.io/library/x:1\n#2 ERROR: no such host\n": "",
    "#2 https://a.b/x\n#2 ERROR: no such host\n": "https://a.b/x",
}


def test_log_tells_the_instruction_that_has_failed():
    assert {log: read_log(log).failed for log in FAILED} == FAILED


@pytest.mark.parametrize(
    "log",
    [
        "Step 1/3 : RUN curl a | sh\nno such host\nStep 2/3 : RUN c\nStep 3/3 : RUN uv\nd\n",
        "STEP 1/3: RUN curl a | sh\nno such host\nSTEP 2/3: RUN c\nSTEP 3/3: RUN uv\nd\n",
        "#1 [1/2] RUN curl a | sh\n#1 0.1 no such host\n#2 [2/2] RUN uv\n#2 0.1 d\n#2 ERROR: e\n",
    ],
    ids=["legacy", "buildah", "buildkit"],
)
def test_missing_program_is_suspicious_if_an_earlier_step_has_met_the_network(log):
    build = read_log(log)._replace(run_code=127)

    assert "no such host" not in build.output
    assert "(suspicious: network: no such host)" in str(dockerfile_fault(build))
    assert not dockerfile_fault(build, run_code=1).suspect


QUIET_DOWNLOADS = {
    ("apt-get install -y wget && wget -q https://a.b/c", 4): "network",
    ("wget https://a.b/c -qO /c", 4): "network",
    ("wget $URL", 4): "network",
    (r"set -e\ncurl -s https://a.b/c", 6): "network",  # a here-document
    (r"wget \"$URL\"", 4): "network",
    ("wget -q https://a.b/c", 8): None,  # the server has answered: 404
    ("make", 4): None,
    ("dpkg -i libcurl4.deb", 6): None,
    ("apt-get install -y wget git && pytest", 5): None,
    ("make # without curl", 6): None,
    ("curl -s localhost:8080 -o /x", 7): None,
}
ERRORS_OF_A_RUN = [
    '#5 ERROR: process "/bin/sh -c {}" did not complete successfully: exit code: {}',
    "#5 ERROR: executor failed running [/bin/sh -c {}]: exit code: {}",
    "The command '/bin/sh -c {}' returned a non-zero code: {}",
    'Error: building at STEP "RUN {}": while running runtime: exit status {}',
]


@pytest.mark.parametrize(("command", "code"), QUIET_DOWNLOADS)
@pytest.mark.parametrize("error", ERRORS_OF_A_RUN)
def test_exit_code_of_a_quiet_download_is_suspicious(error, command, code):
    step = "#5 [2/2]" if error[0] == "#" else "Step 2/2 :"
    log = f"{step} RUN <<EOF\n{error.format(command, code)}\n"

    fault = dockerfile_fault(read_log(log))

    assert fault.suspect == QUIET_DOWNLOADS[command, code]


def test_log_tells_what_has_begun():
    def begun(log):
        build = read_log(log)
        return Begun(build.has_begun, build.may_change, build.docker_step.strip())

    assert {log: begun(log) for log in BEGUN} == BEGUN


def test_log_keeps_its_beginning_and_its_end():
    text = "".join(f"line {number}\n" for number in range(10**5))

    begin, end = read_log(text).log.split("\n[...]\n")

    assert text.startswith(begin)
    assert text.endswith(end)
    assert len(begin) + len(end) == pytest.approx(de.LOG_HEAD + de.LOG_TAIL, abs=20)


# What a Dockerfile prints


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
OTHER_ERRORS = "\nERROR: failed to solve: x: not found\nError: x: not found\nSee 'x'\n"
FORGED = {
    "nothing": "",
    "other instructions": "Step 3/3 : FROM z\nSTEP 3/3: FROM z\n#2 DONE 0.1s\n#3 [1/1] FROM z",
    "an export": "Step 3/3 : exporting\n#2 exporting to image\n#3 exporting to image\n#3 ERROR: x",
    "the first step of BuildKit": "#1 exporting to image\n#1 [internal] load build context",
    "the beginning of a build": "Sending build context to Docker daemon",
    "the end of RUNs that were killed": "returned a non-zero code: 137\nexit code: 143",
    "other errors": OTHER_ERRORS,
    "other ends of lines": OTHER_ERRORS.replace("\n", "\r") + OTHER_ERRORS.replace("\n", "\u2028"),
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
    assert (failed.ending, failed.run_code) == (de.RUN_FAILED, 1)
    assert (late.has_begun, late.may_change, late.docker_step) == (True, True, "")


# Decisions

COPY_FAILED = de.Build(1, builder="legacy", has_begun=True, failed="COPY x /", error="x")
RUN_FAILED = COPY_FAILED._replace(may_change=True, failed="RUN x", error="why", run_code=1)
FULL = "No space left on device"

RETRIED = {
    "nothing": (COPY_FAILED._replace(exit_code=0), False),
    "a RUN": (RUN_FAILED, False),
    "a RUN that was killed": (RUN_FAILED._replace(run_code=137), True),
    "a RUN that was terminated": (RUN_FAILED._replace(run_code=143), True),
    "a RUN that met a full disk": (RUN_FAILED._replace(log=f"write x: {FULL}\n"), True),
    "docker": (COPY_FAILED, True),
    "docker, by a signal": (COPY_FAILED._replace(exit_code=-9), True),
    "nothing, but it takes too long": (COPY_FAILED._replace(exit_code=None), False),
}


def test_failure_that_may_be_an_accident_is_retried():
    found = {what: (build, de.is_worth_retrying(build)) for what, (build, _) in RETRIED.items()}

    assert found == RETRIED


class Explained(NamedTuple):
    """What docker says of an image alone, and of the build."""

    alone: str
    build: str
    image: str = "x"
    failed: str = ""  # an instruction


DENIED = "pull access denied for x, repository does not exist or may require 'docker login'"
NOT_FOUND = "docker.io/library/x:latest: not found"
EXPLAINED = {
    "the same": Explained(DENIED, DENIED),
    "the same, but for numbers": Explained("dial 10.0.0.1:53: no", "ERROR: dial 10.0.0.9:7: no"),
    "the same after other words": Explained("a: b", "ERROR: failed to solve: x: a: b"),
    "the image with its tag": Explained("a", "ERROR: x:1: b", "x:1"),
    "the image with docker's tag": Explained("a", f"ERROR: {NOT_FOUND}"),
    "the network, in other words": Explained("no such host", "a: connection refused"),
    "the same, of an instruction": Explained("a: b", "failed to solve: a: b", failed="COPY a /"),
}
NOT_EXPLAINED = {
    "the network, but not of the build": Explained("no such host", "COPY failed"),
    "the network, but not of the image": Explained(DENIED, "ADD: no such host"),
    "a file with its name, legacy": Explained(DENIED, "COPY failed: stat x: file does not exist"),
    "a file with its name, docker 20.10": Explained(DENIED, '"/x" not found: not found'),
    "a file with its name": Explained(NOT_FOUND, 'checksum of ref 1d::2e: "/x": not found'),
    "another instruction": Explained(DENIED, "unknown instruction: FOO"),
    "an instruction with a network word": Explained("a: no such host", "EOF: b", failed="COPY"),
    "an instruction with its name": Explained(DENIED, '"/x:1" not found', "x:1", failed="COPY"),
    "a parser with a network word": Explained(
        "no such host", "dockerfile parse error: unknown instruction: UNKNOWNHOST"
    ),
    "an expansion with its name": Explained(
        "a: no such host", 'failed to process "${A:?x:1}": A: x:1', "x:1"
    ),
    "nothing but a number": Explained("500", "COPY failed"),
    "another image, whose name ends with its name": Explained("z", "ERROR: mango:1: b", "go:1"),
    "another tag, which begins with its tag": Explained("z", "ERROR: go:1.2: b", "go:1"),
}


@pytest.mark.parametrize("what", [*EXPLAINED, *NOT_EXPLAINED])
def test_missing_image_explains_a_failure_that_says_the_same(what):
    case = {**EXPLAINED, **NOT_EXPLAINED}[what]
    missing = de.Missing(de.Need(case.image, ""), case.alone)
    build = de.Build(1, error=case.build, failed=case.failed)

    assert de.explains(missing, build) is (what in EXPLAINED)


@pytest.mark.parametrize(
    ("ask", "build_timeout", "limits"),
    [
        (de.pull_images, 1200, [1200, 750, 300, de.POLL]),
        (de.pull_images, 150, [300, de.POLL, de.POLL, de.POLL]),
        (lambda *words: list(de.missing_images(*words)), 1200, [300, 150]),
    ],
    ids=["before the build", "before a short one", "after it"],
)
def test_all_pulls_share_one_time_limit(monkeypatch, ask, build_timeout, limits):
    """In seconds; an image that is there counts in none before the build."""
    dockerfile = de.parse_dockerfile(b"".join(b"FROM %c\n" % name for name in b"abxcd"))
    now = [0.0]
    given = []

    def pull(*_words, limit):
        given.append(limit)
        now[0] += 450
        return de.Build(0)

    monkeypatch.setattr(de, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(de, "build_from", pull)
    monkeypatch.setattr(de.Docker, "has_image", lambda _, image: image == "x")

    options = de.Options("Dockerfile", "r", build_timeout=build_timeout)

    ask(de.Workspace(de.Docker("")), options, dockerfile)

    assert given == limits


REGISTRIES = {
    "debian": "docker.io",
    "": "docker.io",
    "registry-1.docker.io/a/b": "docker.io",
    "ghcr.io/a/b@sha256:1d": "ghcr.io",
    "localhost/a": "localhost",
    "a:5000/b": "a:5000",
    "a.b/docker.io/c": "a.b",
    "${A%b}/c": "${A%b}/c",
}


def test_registry_of_an_image():
    assert {image: de.registry_of(image) for image in REGISTRIES} == REGISTRIES


# What docker says of an image, and who is at fault: if it is one of Docker Hub; of a registry
# without a control image; with --offline. "control": if the control image can be pulled, build.
BLAME = {
    "manifest for x:1 not found: manifest unknown": "control build build",
    "pull access denied for x, repository does not exist": "control build build",
    "docker.io/library/x:1: not found": "control build build",
    "no match for platform in manifest": "control build build",
    'Head "https://x": denied': "control build build",
    "unauthorized: authentication required": "control build build",
    "name unknown: repository name not known to registry": "control build build",
    "no token: unexpected status: 403 Forbidden": "control build build",
    "invalid reference format": "build build build",
    "repository name must be lowercase": "build build build",
    "base name (${X}) should not be blank": "build build build",
    'failed to process "${X#*.}": missing in substitution': "build build build",
    "no FROM statement found": "build build build",
    "while replacing arg variables with values for format: x": "build build build",
    "invalid reference format: repository name (No space left on device)": "build build build",
    "dial tcp: lookup a.b on 10.0.0.1:53: no such host": "registry control build",
    "dial tcp 127.0.0.1:5000: connect: connection refused": "registry control build",
    'Head "http://x/v2/unauthorized/manifests/1": EOF': "registry registry build",
    "toomanyrequests: You have reached your pull rate limit": "registry registry build",
    "received unexpected HTTP status: 503 Service Unavailable": "registry registry build",
    "x509: certificate signed by unknown authority": "registry registry build",
    "lsetxattr: operation not supported": "registry registry build",
    "write /x: No space left on device": "engine engine engine",
    "content digest sha256:51f5: not found": "registry registry registry",
    "could not fetch content descriptor sha256:1d: not found": "registry registry registry",
    "blob sha256:1d expected at /x: blob not found: not found": "registry registry registry",
    "parent snapshot sha256:1d does not exist: not found": "registry registry registry",
    "lease does not exist: not found": "registry registry registry",
}


def test_blame_for_an_image_that_docker_cannot_pull():
    def blame(error):
        for image, is_offline in (("x", False), ("a.b/x", False), ("x", True)):
            missing = de.Missing(de.Need(image, ""), error)
            yield de.judge_image(missing, is_offline=is_offline) or "control"

    assert {error: " ".join(blame(error)) for error in BLAME} == BLAME


# Messages

MESSAGES = {
    de.Missing(de.Need("a.b/x", ""), "EOF"): "registry a.b: a.b/x cannot be pulled: EOF",
    de.Missing(de.Need("", ""), "not be blank"): "an image without a name cannot be pulled: not be",
    de.Missing(de.Need("docker/dockerfile:1", "", is_frontend=True), "EOF"): (
        "docker/dockerfile:1 cannot be pulled: EOF (pull what `# syntax=` names before you use"
    ),
}


@pytest.mark.parametrize("missing", MESSAGES, ids=lambda missing: missing.need.image)
def test_message_says_which_image_cannot_be_pulled(monkeypatch, missing):
    monkeypatch.setattr(de, "host_fault", lambda *_: None)
    options = de.Options("Dockerfile", "r", offline=missing.need.is_frontend)

    fault = de.image_fault(de.Workspace(de.Docker("")), options, missing)

    assert str(fault).startswith(MESSAGES[missing])


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
    "the Dockerfile (.dockerfile.af3d1e) is empty": "the Dockerfile (Dockerfile) is empty",
    "stat /var/lib/docker/tmp/docker-builder12/a: b": "stat ./a: b",
    "failed to walk /x/tmp/buildkit-mount816/a: b": "failed to walk ./a: b",
    "mkdir /x/overlay2/99jo80g/merged/f: b": "mkdir ./f: b",
    'sources under "/var/tmp/buildah12/a": b': 'sources under "./a": b',
    "lstat '/tmp/dockerfile-evaluator-h-1-a/context/a': b": "lstat './a': b",
}


def test_error_of_docker_is_shown_without_prefixes_and_temporary_names():
    assert {printed: de.docker_error(printed) for printed in DOCKER_ERRORS} == DOCKER_ERRORS


def dockerfile_fault(build, lines="FROM x\n", **changes):
    """Return the error of a build whose Dockerfile is at fault."""
    options = de.Options("Dockerfile", "repo", context="folder")
    parsed = de.parse_dockerfile(lines.encode())
    return de.dockerfile_fault(build._replace(**changes), options, parsed)


SOURCES = {
    "COPY a /": True,
    "add a /": True,
    "COPY --from=b a /": False,
    "ADD https://a.b/c /": False,
    "RUN a": False,
}


def test_message_names_the_build_context_of_a_missing_source_only():
    found = {step: "folder" in str(dockerfile_fault(COPY_FAILED, failed=step)) for step in SOURCES}

    assert found == SOURCES
    assert "folder" not in str(dockerfile_fault(RUN_FAILED, failed="COPY a /"))


CERTAIN = {
    "Step 1/2 : FROM x\nStep 2/2 : COPY a /\nCOPY failed": True,
    "#5 [2/3] WORKDIR /a\n#5 ERROR: x": True,
    "Error response from daemon: dockerfile parse error": True,
    "Step 1/3 : FROM x\nStep 2/3 : RUN true\nStep 3/3 : COPY a /\nCOPY failed": False,
    "#5 [2/3] ADD https://example.org/x /\n#6 [3/3] COPY a /\n#6 ERROR: x": False,
}


def test_failed_build_is_certain_if_neither_run_nor_add_had_begun():
    assert {log: dockerfile_fault(read_log(log)).is_certain for log in CERTAIN} == CERTAIN


SUSPECTS = {  # beside the output of a RUN
    "a RUN that was killed": (RUN_FAILED._replace(run_code=137), "memory"),
    "what docker says of an ADD": (
        RUN_FAILED._replace(run_code=None, error="ADD: connection refused"),
        "network",
    ),
    "what docker quotes of a RUN": (RUN_FAILED._replace(error="echo connection refused"), None),
    "what docker says of a COPY": (COPY_FAILED._replace(error="connection refused"), None),
}


def test_suspicion_is_about_what_may_do_something_else_the_next_time():
    found = {
        what: (build, dockerfile_fault(build).suspect) for what, (build, _) in SUSPECTS.items()
    }

    assert found == SUSPECTS


# Experiments

CONTROL = "control COPY, control RUN, control run"
LAST_LINE = "the last line before the time limit"


class Flow(NamedTuple):
    """What goes wrong, and what follows."""

    when: str
    then: str  # what is built and started, in this order: the kind of error, or the test's status
    dockerfile: str = r"FROM x\nRUN exit 3"
    faults: str = ""  # as for tests/docker-fault
    hangs: str = ""  # what the build prints before it reaches its time limit
    there: str = ""  # an image that the engine has
    options: str = "{}"


# "control" is the control experiment, if all three parts of it are made; "line" is the FROM line
# with scratch; HANG is a call that reaches its time limit; CONTEXT is the folder.
FLOWS = r"""
# Preparation
an image is not there -> from, build: passed
    dockerfile: FROM x
an image is there -> build: passed
    dockerfile: FROM x
    there: x
a pull takes too long, and the build does not -> from, build: passed
    dockerfile: FROM x
    faults: from HANG
a pull takes too long, and the build does, too -> from, build: registry
    faults: from HANG
    hangs: Step 1/1 : FROM x
a pull takes too long, and a RUN does, too -> from, build, control: build_timeout
    faults: from HANG
    hangs: #1 [2/2] RUN x
the builder does not know the syntax -> from, syntax, control: usage
    dockerfile: FROM x\nRUN --mount=type=cache,target=/c true
    faults: syntax stderr='unknown flag: mount'
the builder does not know the syntax, the engine is broken -> from, syntax, control COPY: engine
    dockerfile: FROM x\nCOPY --link a /
    faults: syntax; 'control COPY'
the builder knows the syntax with the frontend of the Dockerfile -> from, syntax, build: passed
    dockerfile: # syntax=a/b\nFROM x\nCOPY --link a /
    faults: syntax nth=1
the builder knows the syntax, and a RUN fails -> from, syntax, build, control: build
    dockerfile: FROM x\nRUN --mount=type=cache,target=/c true\nRUN exit 3
an invented flag -> from, build, from, control: build
    dockerfile: FROM x\nCOPY --invented a /
    faults: build stderr='unknown flag: invented'
# Accidents
a RUN fails once -> from, build, control: build
    dockerfile: FROM x
    faults: build nth=1 stderr='returned a non-zero code: 1'
the engine is away for a moment -> from, build: passed
    dockerfile: FROM x
    faults: build do='lose the engine' nth=1; version do='find the engine' nth=3
docker is killed twice -> from, build: engine
    faults: build do=die
docker fails once -> from, build: passed
    dockerfile: FROM x
    faults: build nth=1 stderr=a
the registry comes back after a pause -> from, build: passed
    dockerfile: FROM x
    faults: build nth=1 stderr='connection refused'
docker fails twice -> from, build, from, control: build
    dockerfile: FROM x
    faults: build nth=1 stderr=a; build nth=2 stderr=a
the control fails once -> from, build, control COPY, control: build
    dockerfile: FROM x\nCOPY missing /
    faults: 'control COPY' nth=1 stderr='exit code -9'
# Images
an image does not exist -> from, build, from, control, line, from: build
    faults: pull x='manifest unknown'
an image can be pulled again only the second time -> from, build, from, control: build
    faults: from nth=2 stderr=EOF; build stderr=EOF
an image that is there cannot be pulled again -> build, from, control, line: registry
    faults: from stderr=toomanyrequests; build stderr=toomanyrequests
    there: x
the second build fails for another reason -> from, build, from, control, line: registry
    dockerfile: FROM x
    faults: pull x=toomanyrequests; build nth=2 stderr='failed to get digest'
its registry gives no other image either -> from, build, from, control, line, from: registry
    dockerfile: FROM ghcr.io/x
    faults: pull ghcr.io='manifest unknown'
nobody knows any host -> from, build, from, control, line, from: registry
    dockerfile: FROM a.b/x
    faults: pull a.b='no such host' docker.io='no such host'
the FROM line fails for scratch, too -> from, build, from, control, line: build
    dockerfile: FROM --invented x
    faults: pull docker.io='invented: toomanyrequests'; line stderr=invented
docker's frontend cannot be pulled, --offline -> from, build, from, control: usage
    dockerfile: # syntax=docker/dockerfile:1\nFROM x
    faults: pull docker.io='no such host'
    options: {"offline": True}
the image of COPY --from does not exist -> from, build, from, control, from: build
    dockerfile: FROM x\nCOPY --from=ghcr.io/x /y /
    faults: pull ghcr.io/x='ghcr.io/x: denied'; build stderr='ghcr.io/x: denied'
an image that is not needed cannot be pulled, a COPY fails -> from, build, from, control: build
    dockerfile: FROM a.b/no AS unused\nFROM x\nCOPY missing /
    faults: pull a.b=toomanyrequests; build stderr='stat missing: file does not exist'
an image that is not needed cannot be pulled, a RUN fails -> from, build, control: build
    dockerfile: FROM a.b/no AS unused\nFROM x\nRUN a
    faults: pull a.b=toomanyrequests; build stderr='returned a non-zero code: 1'
two images cannot be pulled, one is not needed -> from, build, from, control, line, from: build
    dockerfile: FROM a.b/no AS unused\nFROM x
    faults: pull a.b=toomanyrequests x='manifest unknown'; build stderr='manifest unknown'
the trigger of an image fails -> from, build, from, control: build
    faults: from stdout='# Executing 1 build trigger\n' stderr=a; build stderr=a
the target stage is only in the Dockerfile -> from, build, from, control, line, from: build
    faults: pull x='manifest unknown'; from given=--target=a; 'control COPY' given=--target=a
    options: {"build_options": ["--target=a"]}
# The host
nothing can be run in a build -> from, build, control COPY, control RUN: engine
    faults: 'control RUN'
a program that is not there can be run -> from, build, control COPY, control RUN: engine
    faults: 'control RUN' code=0
a container lacks another program -> from, build, control: engine
    faults: 'control run' code=127 stderr='exec: runc: no such file or directory'
the builder keeps its images -> from, build, control COPY: engine
    faults: 'control COPY' code=0
a build option is refused -> from, build, from, control COPY, control: usage
    faults: '*' given=--bogus stderr='unknown flag: --bogus'
    options: {"build_options": ["--bogus"]}
a run option is refused -> from, build, control: usage
    faults: 'control run' given=--memory=1k code=125
    options: {"run_options": ["--memory=1k"]}
an option is given, and the engine is broken -> from, build, control: engine
    faults: 'control run' code=125
    options: {"run_options": ["--memory=1k"]}
the user of a run option is only in the image -> from, build, control: build
    faults: 'control run' given=-uapp code=125
    options: {"run_options": ["-uapp"]}
the context is refused -> from, build, from, control COPY, control, control COPY: usage
    faults: build stderr='error checking context'; 'control COPY' given=CONTEXT
the context would be refused, but a RUN fails -> from, build, control: build
    faults: 'control COPY' given=CONTEXT
# The time limit
nothing begins in time -> from, build, from: engine
    hangs: Step 1/2 : FROM x
the context takes too long -> from, build, from: engine
    hangs: #1 [internal] load build context
the export takes too long -> from, build, from: engine
    hangs: #1 [1/1] RUN y\n#1 DONE 1.0s\n#2 exporting to image
a RUN takes too long -> from, build, control: build_timeout
    hangs: #1 [internal] load build context\n#1 DONE 1.0s\n#2 [2/2] RUN x
an ADD takes too long -> from, build, control: build_timeout
    hangs: #0 building with x\n#1 [1/2] FROM x\n#1 DONE 0.1s\n#2 http://a.b/x
a RUN takes too long, and the engine is broken -> from, build, control: engine
    hangs: Step 2/2 : RUN x
    faults: 'control run'
an image that is not needed cannot be pulled -> from, build, control: build_timeout
    dockerfile: FROM a.b/no AS unused\nFROM x\nRUN x
    hangs: #1 [stage-1 2/2] RUN x
    faults: pull a.b='dial tcp: i/o timeout'
"""


def read_flows(text):
    """Yield the flows of a text: a line without indentation begins one."""
    for stanza in re.findall(r"(?m)^[^#\s].*(?:\n    .*)*", text):
        head, *lines = stanza.split("\n    ")
        fields = dict(line.split(": ", 1) for line in lines)
        yield Flow(*head.split(" -> "), **fields)


@pytest.fixture
def limited(monkeypatch):
    """Let a build reach its time limit when it has printed LAST_LINE, however slow the machine."""
    stream = de.Docker.stream

    def stream_until_last_line(docker, process, deadline):
        for data in stream(docker, process, deadline):
            yield data
            if LAST_LINE.encode() in data:
                deadline.shorten(0)

    monkeypatch.setattr(de.Docker, "stream", stream_until_last_line)


def asked(fake):
    """Return what was built and started in order; what comes again at once is one."""
    kinds = ("build", "from", "syntax", "line", "control")
    names = [name for name in fake.names() if name.startswith(kinds)]
    words = ", ".join(names).replace(CONTROL, "control").split(", ")
    return ", ".join(word for word, last in zip(words, ["", *words]) if word != last)


@pytest.mark.parametrize("flow", list(read_flows(FLOWS)), ids=lambda flow: flow.when)
def test_build_is_prepared_made_and_judged_by_experiments(fake, evaluate, limited, tmp_path, flow):
    hang = rf"do=print stdout='%s\n{LAST_LINE}\n'; %s do=hang"
    faults = [flow.faults.replace("HANG", hang % ("", "from"))]
    faults += [f"build {hang % (flow.hangs, 'build')}"] if flow.hangs else []
    fake.inject("; ".join(faults).replace("CONTEXT", f"{tmp_path}/context"))
    if flow.there:
        (fake.folder / "images" / flow.there).touch()

    report = evaluate(flow.dockerfile.split(r"\n"), TRUE, **ast.literal_eval(flow.options))

    assert f"{asked(fake)}: {outcome(report)}" == flow.then
    assert fake.left() == [flow.there] * bool(flow.there)


@pytest.mark.parametrize(
    ("error", "kind"),
    [("a.b/c: lookup a.b: no such host", None), ("dockerfile parse error: x", de.USAGE)],
    ids=["BuildKit", "legacy, which does not read this line"],
)
def test_new_syntax_is_tried_without_and_then_with_a_frontend_that_makes_no_builder_old(
    monkeypatch, error, kind
):
    """The frontend cannot be pulled."""
    texts = []
    down = de.Build(1, error="dial a.b: no such host")
    monkeypatch.setattr(
        de, "build_scratch", lambda *words: texts.append(words[2]) or de.Build(1, error=error)
    )
    monkeypatch.setattr(de, "build_from", lambda *words: down)
    monkeypatch.setattr(de, "host_fault", lambda *words: None)
    dockerfile = de.parse_dockerfile(b"# syntax=a.b/c\nFROM x\nCOPY --link a /")
    options = de.Options("Dockerfile", "r")

    fault = de.syntax_fault(de.Workspace(de.Docker("docker")), options, dockerfile)

    assert [text.split("\n")[0] for text in texts] == ["FROM scratch", "# syntax=a.b/c"]
    assert (fault and fault.kind) == kind


def test_report_of_a_failed_build_tells_the_experiments(fake, evaluate):
    fake.inject("pull x='manifest unknown'")

    error = evaluate(["FROM x"], TRUE)["error"]

    assert error["certain"]
    assert sorted(error["diagnosis"]) == [
        f"FROM {HUB_IMAGE} alone: succeeded",
        "FROM x alone: manifest unknown",
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

    *others, last = ["--pull" in words for words in fake.calls("from")]
    assert last
    assert not any(others)
    assert (HUB_IMAGE in str(fake.calls("image rm"))) is not was_there


@pytest.mark.parametrize(
    ("faults", "command", "size"),
    [
        ("build stderr='returned a non-zero code: 1'", "true", 1024),
        (f"build stderr='{FULL}'", "true", 4096),
        (rf"build stdout='{FULL}\n' stderr='returned a non-zero code: 1'", "true", 4096),
        (f"run stderr='docker: {FULL}'", "true", 4096),
        ("", f"echo {FULL}; echo bye; false", 4096),
    ],
)
def test_control_experiment_writes_new_bytes_and_many_if_the_disk_may_be_full(
    fake, evaluate, monkeypatch, faults, command, size
):
    written = []

    def look(*words):
        written.append(Path(words[-2], "content").read_bytes())
        return "why"

    monkeypatch.setattr(de, "_copy_problem", look)
    fake.inject(faults)

    for _ in range(2):
        evaluate(["FROM x"], run_command(command))

    assert {len(content) for content in written} == {size}
    assert len(set(written)) == len(written) >= 2
