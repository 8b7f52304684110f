"""Prepare, build, and who is at fault if that fails (section 4).

What a log says is in test_build_log.py. Experiments are made with the fake docker here; with real
engines and registries in test_faults.py. Messages are in transcripts/no-score.txt.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from cases import TRUE, run_command
from conftest import outcome
from test_build_log import read_log

import DockerfileEvaluator as de

HUB_IMAGE = de.CONTROL_IMAGES["docker.io"]


# Decisions

INSTRUCTION = de.Step(de.INSTRUCTION, "COPY x /")
RUN = de.Step(de.INSTRUCTION, "RUN x")
LEGACY = de.BUILDERS["legacy"]
COPY_FAILED = de.Build(1, builder=LEGACY, step=INSTRUCTION, error="x")
RUN_FAILED = COPY_FAILED._replace(step=RUN, steps=[RUN], error="why", run_code=1)
FULL = "No space left on device"
NO_SOURCE = "COPY failed: file not found in build context: x: no such file or directory"

RETRIED = {
    "nothing": (COPY_FAILED._replace(exit_code=0), False),
    "a RUN": (RUN_FAILED, False),
    "a RUN that was killed": (RUN_FAILED._replace(run_code=137), True),
    "a RUN that was terminated": (RUN_FAILED._replace(run_code=143), True),
    "a RUN that met a full disk": (RUN_FAILED._replace(output=[f"write x: {FULL}"]), True),
    "a RUN that met the network": (RUN_FAILED._replace(output=["connection refused"]), True),
    "a RUN that met a limit": (RUN_FAILED._replace(output=["x: Cannot fork"]), True),
    "a RUN after a download": (RUN_FAILED._replace(other_trouble=["connection refused"]), True),
    "a RUN on an old release": (
        RUN_FAILED._replace(output=[f"E: {'Release file x is expired'}"]),
        False,
    ),
    "a RUN while the engine was away": (RUN_FAILED._replace(engine_problem="x"), True),
    "nothing without an engine": (
        RUN_FAILED._replace(engine_problem="x", engine_returned=False),
        False,
    ),
    "docker": (COPY_FAILED, True),
    "docker, by a signal": (COPY_FAILED._replace(exit_code=-9), True),
    "a COPY of what is missing": (COPY_FAILED._replace(error=NO_SOURCE), False),
    "a parse error": (de.Build(1, error="dockerfile parse error line 2: x"), False),
    "nothing, but it takes too long": (COPY_FAILED._replace(exit_code=None), False),
}


def test_failure_that_may_be_an_accident_is_retried():
    found = {what: (build, de.is_worth_retrying(build)) for what, (build, _) in RETRIED.items()}

    assert found == RETRIED


LOST = {
    "a RUN": (RUN_FAILED, ""),
    "docker is killed": (RUN_FAILED._replace(exit_code=-9), "docker was killed (signal 9)"),
    "the connection": (
        COPY_FAILED._replace(is_lost=True, error="EOF"),
        "docker lost the build: EOF",
    ),
    "the engine was away": (
        RUN_FAILED._replace(engine_problem="no docker engine"),
        "no docker engine",
    ),
    "the image is there": (
        COPY_FAILED._replace(exit_code=None, has_image=True),
        "docker built the image, but did not end in time",
    ),
    "an instruction is slow": (COPY_FAILED._replace(exit_code=None), ""),
    "the export is slow": (
        de.Build(None, step=de.Step(title="exporting")),
        "the build timed out, but no instruction was running: exporting",
    ),
    "nothing began": (
        de.Build(None),
        "the build timed out, but no instruction was running: before the first step",
    ),
}


def test_build_that_docker_lost_is_the_engines_fault():
    found = {what: (build, de.lost_build(build)) for what, (build, _) in LOST.items()}

    assert found == LOST


# What docker's error proves, by the step that failed
BLAMED = {
    ("COPY x /", NO_SOURCE): True,
    ("copy x /", NO_SOURCE): True,
    ("COPY x /", "COPY failed: stat x: file does not exist"): True,
    ("COPY *.x /", "COPY failed: no source files were specified"): True,
    ("COPY x /", 'failed to compute cache key: "/x" not found: not found'): True,
    ("COPY x /", 'failed to calculate checksum of ref 1d::2e: "/x": not found'): True,
    (
        "COPY x /",
        'Error: building at STEP "COPY x /": checking on sources under "/c": copier',
    ): True,
    ("ADD x /", "ADD failed: file not found in build context: stat x"): True,
    (
        "COPY d/x /",
        "failed to walk /v/tmp/buildkit-mount1/d: lstat /v/tmp/buildkit-mount1/d: no such file or directory",
    ): True,
    ("", 'failed to compute cache key: "/x": not found'): True,
    ("COPY x /", "lchown /var/lib/docker/x: no such file or directory"): False,
    ("COPY x /", "failed to get layer sha256:1d: layer does not exist"): False,
    ("COPY x /", "content digest sha256:1d: not found"): False,
    ("WORKDIR /x", 'mkdir "/x": not found'): False,
    ("", "dockerfile parse error line 2: unknown instruction: X"): True,
    ("", "Unknown instruction: X"): True,
    ("", "invalid reference format: repository name must be lowercase"): True,
    ("", "failed to read dockerfile: x"): False,
    ("WORKDIR /dockerfile parse error", "mkdir /dockerfile parse error"): False,
}


def test_docker_blames_the_dockerfile():
    found = {
        (title, error): de.blames_dockerfile(
            de.Build(1, step=de.Step(de.INSTRUCTION, title), error=error)
        )
        for title, error in BLAMED
    }

    assert found == BLAMED


TROUBLE = {
    "short read: expected 89 bytes but got 17: unexpected EOF": True,
    "failed to create endpoint x on network bridge: y": True,
    "content digest sha256:1d: not found": True,
    "mkdir /w/short read: x": False,
    'process "unexpected EOF"': False,
    "unable to find user x: no matching entries in passwd file": False,
}


def test_trouble_of_the_engine_is_at_the_beginning_of_dockers_error():
    found = {
        error: de.is_engine_trouble(COPY_FAILED._replace(error=f"ERROR: failed to solve: {error}"))
        for error in TROUBLE
    }

    assert found == TROUBLE


NO_STAGES = {
    "target stage x could not be found": True,
    'target stage "x" could not be found': True,
    "failed to reach build target x in Dockerfile": True,
    'COPY failed: stat "target stage x could not be found"': False,
}


def test_target_without_a_stage_is_a_usage_error_of_the_option():
    options = de.Options("Dockerfile", "r", build_options=["--target=x"])
    builds = {error: COPY_FAILED._replace(error=error) for error in NO_STAGES}

    found = {error: bool(de.target_fault(options, build)) for error, build in builds.items()}

    assert found == NO_STAGES
    others = options._replace(build_options=["--no-cache"])
    assert not any(de.target_fault(others, build) for build in builds.values())


class Syntax(NamedTuple):
    """Lines after FROM, docker's error, and the syntax that the builder does not know."""

    lines: str
    error: str
    sure: str = ""
    maybe: str = ""


LINK = "dockerfile parse error line 2: Unknown flag: link"
HERE = "dockerfile parse error line {}: unknown instruction: ECHO"
SYNTAX = {
    "a flag": Syntax("COPY --link a /", LINK, "--link"),
    "with its dashes": Syntax("COPY --parents a /", "unknown flag: --parents", "--parents"),
    "after another": Syntax("COPY --chown=a --link a /", LINK, "--link"),
    "in a trigger": Syntax("ONBUILD COPY --link a /", LINK, "--link"),
    "on a continued line": Syntax("COPY \\\n # no\n --link \\\n a /", LINK, "--link"),
    "another escape": Syntax("COPY `\n --link a /", LINK, "--link"),
    "in small letters": Syntax("copy --link a /", LINK, "--link"),
    "requires BuildKit": Syntax(
        "RUN --mount=type=cache,target=/c a", "the --mount option requires BuildKit", "--mount"
    ),
    "unpack": Syntax("ADD --unpack a /", "Unknown flag: unpack", "--unpack"),
    "an invented flag": Syntax("COPY --invented a /", "Unknown flag: invented"),
    "on the wrong instruction": Syntax("RUN --link a", LINK),
    "also on the wrong instruction": Syntax(
        "COPY --link a /\nRUN --link a", "dockerfile parse error on line 3: unknown flag: --link"
    ),
    "below a comment": Syntax(
        "# `a`\nCOPY --link a /", "dockerfile parse error line 3: Unknown flag: link", "--link"
    ),
    "in capitals": Syntax("COPY --LINK a /", "dockerfile parse error line 2: Unknown flag: LINK"),
    "only its word": Syntax("RUN echo --link", LINK),
    "a mistake elsewhere": Syntax('WORKDIR "/w/unknown flag: link"', "mkdir /w/unknown flag: link"),
    "a here-document": Syntax("RUN <<E\necho a\nE", HERE.format(3), maybe="here-documents"),
    "of a COPY, in quotes": Syntax(
        "COPY <<'E' /a\necho a\nE", HERE.format(3), maybe="here-documents"
    ),
    "with tabs": Syntax("RUN <<-E\n\techo\n\tE", HERE.format(3), maybe="here-documents"),
    "on a continued line ": Syntax(
        "RUN a \\\n <<E\necho\nE", HERE.format(4), maybe="here-documents"
    ),
    "below a comment of its instruction": Syntax(
        "RUN a \\\n# b\n <<E\necho\nE", HERE.format(5), maybe="here-documents"
    ),
    "below a form feed": Syntax("#\fa\nRUN <<E\necho\nE", HERE.format(4), maybe="here-documents"),
    "a typo beside it": Syntax("COPY <<E /a\na\nE\nECHO b", HERE.format(5)),
    "without its end": Syntax("RUN cat <<E\nECHO b", HERE.format(3)),
    "of the shell": Syntax('RUN sh -c "cat <<E\nECHO b\nE"', HERE.format(3)),
    "quotes and a blank line": Syntax('RUN a "b"\nECHO b\n\nRUN c', HERE.format(3)),
    "a here-document, no line": Syntax(
        "RUN <<E\nENV A\nE",
        "failed to parse Dockerfile: ENV must have two arguments",
        maybe="here-documents",
    ),
    "a shift": Syntax("RUN test $((1<<2)) = 4\nECHO b", HERE.format(3)),
    "an expansion": Syntax(
        "ENV A=${V#v}",
        'failed to process "A=${V#v}": unsupported modifier',
        maybe="this expansion or option",
    ),
    "a key of a mount": Syntax(
        "RUN --mount=type=secret,env=A a",
        "unexpected key 'env' in 'env=A'",
        maybe="this expansion or option",
    ),
    "an expansion without its end": Syntax(
        "ENV A=${V#", 'failed to process "A=${V#": syntax error'
    ),
}


@pytest.mark.parametrize("case", SYNTAX.values(), ids=list(SYNTAX))
def test_syntax_that_only_newer_builders_know(case):
    build = de.Build(1, error=case.error)
    dockerfile = f"FROM x\n{case.lines}\n"

    found = (de.new_syntax(build, dockerfile), de.maybe_new_syntax(build, dockerfile))

    assert found == (case.sure, case.maybe)


def test_frontend_of_the_dockerfile_has_chosen_its_syntax():
    steps = [de.Step(de.IMAGE, "resolve image config for x", "x", is_frontend=True)]
    build = de.Build(1, builder=de.BUILDERS["buildkit"], steps=steps, error=LINK)

    assert de.new_syntax(build, "COPY --link a /") == ""


NEW_STEPS = {
    "FROM --platform=linux/$TARGETARCH x": True,
    "FROM --platform=${BUILDPLATFORM} x": True,
    "FROM --platform=linux/amd64 x": False,
}


def test_legacy_builder_may_be_too_old_for_a_step():
    found = {}
    for title in NEW_STEPS:
        build = de.Build(1, builder=LEGACY, step=de.Step(de.INSTRUCTION, title), error="x")
        found[title] = de.maybe_new_syntax(build, "") == "this instruction"
        assert not de.maybe_new_syntax(build._replace(builder=de.BUILDERS["buildkit"]), "")

    assert found == NEW_STEPS


DROPPED = {  # lines of a Dockerfile, of which a later RUN fails
    "RUN <<E\ntouch /a\nE": "here-documents",
    "RUN exit 3 # <<E": "",
}


def test_legacy_builder_executes_only_the_first_line_of_a_here_document():
    assert {lines: de.maybe_new_syntax(RUN_FAILED, lines) for lines in DROPPED} == DROPPED
    buildkit = RUN_FAILED._replace(builder=de.BUILDERS["buildkit"])
    assert not any(de.maybe_new_syntax(buildkit, lines) for lines in DROPPED)


STAGES = {  # The engine of docker 20.10 ends if no line but ARGs is there.
    "FROM x": True,
    "ARG A=`a`\n\n# b\n  from ${A}": True,
    "\ufeffFROM x": True,
    "# escape=`\n# syntax=a/b\nfeed": True,
    "ARG A=b": False,
    "# FROM x\nARG A": False,
    "ARG A=b \\\nFROM x": False,
    "ARG A=b \\ \r\n\n# c\nFROM x": False,
    "# escape=`\nARG A=b `\nFROM x": False,
    "ARG A=syntax=b": False,
    "ARG A\n# syntax=a/b": False,
}


def test_dockerfile_without_a_stage_is_not_built():
    assert {lines: de.may_have_stage(f"{lines}\n") for lines in STAGES} == STAGES


REGISTRIES = {
    "debian": "docker.io",
    "": "docker.io",
    "registry-1.docker.io/a/b": "docker.io",
    "ghcr.io/a/b@sha256:1d": "ghcr.io",
    "localhost/a": "localhost",
    "a:5000/b": "a:5000",
    "a.b/docker.io/c": "a.b",
    "Ubuntu/foo": "Ubuntu",
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
    "base name (${X}) should not be blank": "build build build",
    'failed to process "${X#*.}": missing in substitution': "build build build",
    "determining starting point for build: no FROM statement found": "build build build",
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
    def judge(image, pull, is_offline):
        registry = de.registry_of(image)
        return de.judge_image(de.Step(de.IMAGE, "", image), pull, registry, is_offline=is_offline)

    def blame(error):
        for image, is_offline in (("x", False), ("a.b/x", False), ("x", True)):
            pull = de.Build(1, error=error)
            yield (judge(image, pull, is_offline) or "control")

    assert {error: " ".join(blame(error)) for error in BLAME} == BLAME


# Messages

IMAGE_ERRORS = {
    (de.REGISTRY, "EOF", "c fails"): "registry a.b: a.b/x cannot be pulled: EOF; c fails",
    (de.BUILD, "no", ""): "a.b/x cannot be pulled: no",
    (de.USAGE, "no", ""): (
        "a.b/x cannot be pulled: no (pull what `# syntax=` names before you use --offline)"
    ),
}


@pytest.mark.parametrize("case", IMAGE_ERRORS)
def test_message_says_which_image_cannot_be_pulled(case):
    kind, error, problem = case

    fault = de.image_error(kind, "a.b/x", "a.b", de.Build(1, error=error), problem)

    assert str(fault) == IMAGE_ERRORS[case]
    assert fault.registry == ("a.b" if kind == de.REGISTRY else None)


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
    return de.dockerfile_fault(build._replace(**changes), options, lines)


SOURCES = {
    "COPY a /": True,
    "add a /": True,
    "COPY --from=b a /": False,
    "ADD https://a.b/c /": False,
    "RUN a": False,
}


def test_message_names_the_build_context_of_a_missing_source_only():
    found = {
        title: "folder" in str(dockerfile_fault(COPY_FAILED, step=de.Step(de.INSTRUCTION, title)))
        for title in SOURCES
    }

    assert found == SOURCES
    assert "folder" not in str(dockerfile_fault(RUN_FAILED, step=INSTRUCTION))


HINTS = {
    "": "the Dockerfile is empty",
    "```dockerfile\nFROM x\n```\n": "remove the Markdown fence, ```",
    "RUN a\n": "it has no FROM line",
    "Here it is:\nFROM x\n": "remove the text before FROM",
    "# no\nARG A=b\n\nFROM x\n": "",
}


DISK = {
    "a RUN": (RUN_FAILED._replace(output=[f"write x: {FULL}"]), True),
    "docker": (COPY_FAILED._replace(error=f"ERROR: write /x: {FULL}"), True),
    "a name": (COPY_FAILED._replace(error=f"mkdir /w/{FULL}: not a directory"), False),
}


def test_disk_may_be_full_if_not_only_a_name_says_so():
    assert {what: (build, de.may_be_full(build)) for what, (build, _) in DISK.items()} == DISK


def test_message_says_that_a_dockerignore_may_hide_a_source(tmp_path):
    (tmp_path / ".dockerignore").touch()
    options = de.Options("Dockerfile", "repo", context=str(tmp_path))

    hint = de.build_hint(COPY_FAILED, options, "FROM x\n")

    assert hint.endswith(", without what .dockerignore names, see --context")


def test_message_says_what_is_no_dockerfile():
    found = {text: de.build_hint(de.Build(1), de.Options("", ""), text) for text in HINTS}

    assert found == HINTS


SUSPECTS = {  # beside the output of a RUN
    "a RUN that was killed": (RUN_FAILED._replace(run_code=137), "memory"),
    "what docker says of an ADD": (
        RUN_FAILED._replace(
            run_code=None, step=de.Step(de.INSTRUCTION, "ADD x"), error="ADD: connection refused"
        ),
        "network",
    ),
    "a name that docker quotes": (COPY_FAILED._replace(error="mkdir /w/connection refused"), None),
    "what docker quotes of a RUN": (RUN_FAILED._replace(error="echo connection refused"), None),
    "an earlier RUN": (RUN_FAILED._replace(other_trouble=["connection refused"]), "network"),
}


def test_suspicion_is_about_the_output_of_runs_and_dockers_error():
    found = {
        what: (build, dockerfile_fault(build).suspect) for what, (build, _) in SUSPECTS.items()
    }

    assert found == SUSPECTS


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
    step = {"#": "#5 [2/2]", "T": "Step 2/2 :", "E": "STEP 2/2:"}[error[0]]
    log = f"{step} RUN <<EOF\n{error.format(command, code)}\n"

    fault = dockerfile_fault(read_log(log))

    assert fault.suspect == QUIET_DOWNLOADS[command, code]


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


# "control" is the control experiment, if all three parts of it are made; HANG is a call that reaches
# its time limit; CONTEXT is the folder.
FLOWS = r"""
# An ordinary failure costs one build
a RUN fails -> build: build
a COPY fails -> build: build
    dockerfile: FROM x\nCOPY missing /
a parse error -> build: build
    dockerfile: FROM x
    faults: build stderr='dockerfile parse error line 2: unknown instruction: X'
an invented flag -> build: build
    dockerfile: FROM x\nCOPY --invented a /
    faults: build stderr='dockerfile parse error line 2: Unknown flag: invented'
# The syntax
the builder does not know a flag -> build: usage
    dockerfile: FROM x\nCOPY --link a /
    faults: build stderr='dockerfile parse error line 2: Unknown flag: link'
the builder does not know an expansion -> build, syntax: usage
    dockerfile: FROM x\nENV A=${V#v}
    faults: build stderr='failed to process "A=${V#v}": unsupported'; syntax
the builder knows the expansion -> build, syntax: build
    dockerfile: FROM x\nENV A=${V#v}
    faults: build stderr='failed to process "A=${V#v}": missing in substitution'
--target names no stage -> build: usage
    faults: build stderr='target stage a could not be found'
    options: {"build_options": ["--target=a"]}
# Accidents
the network breaks a RUN once -> build: passed
    dockerfile: FROM x
    faults: build nth=1 stdout='Step 1/1 : RUN a\nConnection refused\n' stderr='returned a non-zero code: 1'
the kernel kills a RUN once -> build: passed
    dockerfile: FROM x
    faults: build nth=1 stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 137'
a RUN is killed twice -> build, control: build
    faults: build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 137'
the engine is away for a moment -> build: passed
    dockerfile: FROM x
    faults: build do='lose the engine' nth=1; version do='find the engine' nth=3
the engine is away for a moment, and a RUN fails -> build: passed
    dockerfile: FROM x
    faults: build nth=1 stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 2'; version nth=2
the engine is away after each build -> build: engine
    faults: build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 2'; version nth=2; version nth=4
docker is killed twice -> build: engine
    faults: build do=die
the connection breaks off twice -> build: engine
    faults: build stdout='#1 [1/1] RUN a\n' stderr='failed to receive status: error reading: EOF'
docker fails once -> build: passed
    dockerfile: FROM x
    faults: build nth=1 stderr=a
the registry comes back after a pause -> build: passed
    dockerfile: FROM x
    faults: build nth=1 stderr='connection refused'
docker fails twice -> build, control: build
    faults: build stderr=a
the control fails once -> build, control COPY, control: build
    faults: build stderr=a; 'control COPY' nth=1 stderr='exit code -9'
# Images
an image does not exist -> build, from: build
    faults: build stdout='#1 [internal] load metadata for x\n#1 ERROR: x: not found\n' stderr='failed to solve: x: not found'
an image does not exist, legacy -> build, from: build
    faults: pull x='manifest unknown'
an image can be pulled alone the third time -> build, from: registry
    faults: build stdout='Step 1/1 : FROM x\n' stderr=EOF
its registry gives no other image either -> build, from: registry
    dockerfile: FROM ghcr.io/x
    faults: pull ghcr.io='manifest unknown'
nobody knows any host -> build, from: registry
    dockerfile: FROM a.b/x
    faults: pull a.b='no such host' docker.io='no such host'
too many requests -> build, from: registry
    faults: pull x=toomanyrequests
docker's frontend cannot be pulled, --offline -> build: usage
    faults: build stdout='#1 resolve image config for docker.io/docker/dockerfile:1\n#1 ERROR: no such host\n' stderr='no such host'
    options: {"offline": True}
the image of COPY --from does not exist -> build, from: build
    dockerfile: FROM x\nCOPY --from=ghcr.io/x /y /
    faults: pull ghcr.io/x='ghcr.io/x: denied'; build stdout='Step 2/2 : COPY\n' stderr='invalid from flag value ghcr.io/x: denied'
the trigger of an image fails -> build, control: build
    faults: build stdout='Step 1/1 : FROM x\n# Executing 1 build trigger\n' stderr=a
a pull takes too long, the trigger of its image fails -> build, from, control: build_timeout
    hangs: Step 1/1 : FROM x
    faults: from stdout='Step 1/1 : FROM x\n# Executing 1 build trigger\n' stderr=a
the target stage is only in the Dockerfile -> build, from: build
    faults: pull x='manifest unknown'; from given=--target=a; 'control COPY' given=--target=a
    options: {"build_options": ["--target=a"]}
# The host
nothing can be run in a build -> build, control COPY, control RUN: engine
    faults: build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 137'; 'control RUN'
a program that is not there can be run -> build, control COPY, control RUN: engine
    faults: build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 137'; 'control RUN' code=0
a container lacks another program -> build, control: engine
    faults: build stderr=a; 'control run' code=127 stderr='exec: runc: no such file or directory'
the builder keeps its images -> build, control COPY: engine
    faults: build stderr=a; 'control COPY' code=0
a build option is refused -> build, control COPY, control: usage
    faults: '*' given=--bogus stderr='unknown flag: --bogus'
    options: {"build_options": ["--bogus"]}
an option needs an image that cannot be pulled -> build, control COPY, control: registry
    faults: build stderr=a; '*' given=--bogus stdout='#1 resolve image config for x\n#1 ERROR: EOF\n' stderr=EOF
    options: {"build_options": ["--bogus"]}
a run option is refused -> build, control: usage
    faults: build stderr=a; 'control run' given=--memory=1k code=125
    options: {"run_options": ["--memory=1k"]}
an option is given, and the engine is broken -> build, control: engine
    faults: build stderr=a; 'control run' code=125
    options: {"run_options": ["--memory=1k"]}
the user of a run option is only in the image -> build, control: build
    faults: build stderr=a; 'control run' given=-uapp code=125
    options: {"run_options": ["-uapp"]}
the context is refused -> build, control COPY, control, control COPY: usage
    faults: build stderr='error checking context'; 'control COPY' given=CONTEXT
podman finds no network -> build, control: engine
    faults: build stdout='STEP 1/1: RUN a\n' stderr='Error: building at STEP "RUN a": setup network: x: network not found'
docker has trouble with its store -> build, control: engine
    faults: build stderr='short read: expected 89 bytes but got 17: unexpected EOF'
# The time limit
nothing begins in time -> build: engine
    hangs: Sending build context
the context takes too long -> build: engine
    hangs: #1 [internal] load build context
the export takes too long -> build: engine
    hangs: #1 [1/1] RUN y\n#1 DONE 1.0s\n#2 exporting to image
a RUN takes too long -> build, control: build_timeout
    hangs: #1 [internal] load build context\n#1 DONE 1.0s\n#2 [2/2] RUN x
an ADD takes too long -> build, control: build_timeout
    hangs: #0 building with x\n#1 [1/2] FROM x\n#1 DONE 0.1s\n#2 http://a.b/x
a RUN takes too long, and the engine is broken -> build, control: engine
    hangs: Step 2/2 : RUN x
    faults: 'control run'
a registry hangs -> build: registry
    hangs: #1 [internal] load metadata for x
a registry hangs, legacy -> build, from: registry
    hangs: Step 1/1 : FROM x
    faults: from HANG
a registry is slow, legacy -> build, from, control: build_timeout
    hangs: Step 1/1 : FROM x
a RUN takes too long that imitates a FROM -> build, control: build_timeout
    hangs: Step 1/1 : RUN x\nStep 2/2 : FROM a.b/x
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
    kinds = ("build", "from", "syntax", "control")
    names = [name for name in fake.names() if name.startswith(kinds)]
    words = ", ".join(names).replace(CONTROL, "control").split(", ")
    return ", ".join(word for word, last in zip(words, ["", *words]) if word != last)


@pytest.mark.parametrize("flow", list(read_flows(FLOWS)), ids=lambda flow: flow.when)
def test_build_is_made_and_judged_by_experiments(fake, evaluate, limited, tmp_path, flow):
    hang = rf"do=print stdout='%s\n{LAST_LINE}\n'; %s do=hang"
    faults = [flow.faults.replace("HANG", hang % ("", "from"))]
    faults += [f"build {hang % (flow.hangs, 'build')}"] if flow.hangs else []
    fake.inject("; ".join(faults).replace("CONTEXT", f"{tmp_path}/context"))
    if flow.there:
        (fake.folder / "images" / flow.there).touch()

    report = evaluate(flow.dockerfile.split(r"\n"), TRUE, **ast.literal_eval(flow.options))

    assert f"{asked(fake)}: {outcome(report)}" == flow.then
    assert fake.left() == [flow.there] * bool(flow.there)


def test_report_of_a_failed_build_tells_the_experiments(fake, evaluate):
    fake.inject("pull x='manifest unknown'")

    error = evaluate(["FROM x"], TRUE)["error"]

    assert error["certain"]
    assert sorted(error["diagnosis"]) == [
        f"FROM {HUB_IMAGE} alone: succeeded",
        "FROM x alone: manifest unknown",
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
        (r"build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 137'", "true", 1024),
        (f"build stderr='{FULL}'", "true", 4096),
        (
            rf"build stdout='Step 1/1 : RUN a\n{FULL}\n' stderr='returned a non-zero code: 1'",
            "true",
            4096,
        ),
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
        return de.EvaluationError(de.ENGINE, "why")

    monkeypatch.setattr(de, "_copy_fault", look)
    fake.inject(faults)

    for _ in range(2):
        evaluate(["FROM x"], run_command(command))

    assert {len(content) for content in written} == {size}
    assert len(set(written)) == len(written) >= 2
