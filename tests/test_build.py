"""Prepare, build, and who is at fault if that fails (section 4).

What a log says is in test_build_log.py. Experiments are made with the fake docker here; with real
engines and registries in test_faults.py. Messages are in transcripts/no-score.txt.
"""

import re
from pathlib import Path

import pytest
from cases import TRUE, run_command, table
from conftest import outcome

import DockerfileEvaluator as de

HUB_IMAGE = de.CONTROL_IMAGES["docker.io"]


# Decisions


# A Dockerfile after its FROM, docker's error, and the flag that only newer builders have, or (with a
# question mark) what it may be
SYNTAX = r"""
a flag -> --link
    lines: COPY --link a /
with its dashes -> --parents
    lines: COPY --parents a /
    error: unknown flag: --parents
after another -> --link
    lines: COPY --chown=a --link a /
in a trigger -> --link
    lines: ONBUILD COPY --link a /
on a continued line -> --link
    lines: COPY \\\n # no\n --link \\\n a /
another escape -> --link
    lines: COPY `\n --link a /
in small letters -> --link
    lines: copy --link a /
requires BuildKit -> --mount
    lines: RUN --mount=type=cache,target=/c a
    error: the --mount option requires BuildKit
unpack -> --unpack
    lines: ADD --unpack a /
    error: Unknown flag: unpack
an invented flag -> no
    lines: COPY --invented a /
    error: Unknown flag: invented
podman does not know -> --unpack
    lines: ADD --chown=1 --unpack=false a /
    error: building at STEP "ADD --chown=1 --unpack=false a /": ADD only supports the --chown=<uid:gid>, and --link flags
podman knows, but not the other -> no
    lines: COPY --link --invented a /
    error: building at STEP "COPY --link --invented a /": COPY only supports the --chown=<uid:gid>, and --link flags
podman does not know a mode -> --chmod=+x
    lines: COPY --link --chmod=+x a /
    error: building at STEP "COPY --link --chmod=+x a /": parsing chmod "+x": strconv.ParseUint: parsing "+x": invalid syntax
an invalid mode -> no
    lines: COPY --chmod=+q a /
    error: building at STEP "COPY --chmod=+q a /": parsing chmod "+q": strconv.ParseUint: parsing "+q": invalid syntax
on the wrong instruction -> no
    lines: RUN --link a
also on the wrong instruction -> no
    lines: COPY --link a /\nRUN --link a
    error: dockerfile parse error on line 3: unknown flag: --link
below a comment -> --link
    lines: # `a`\nCOPY --link a /
    error: dockerfile parse error line 3: Unknown flag: link
in capitals -> no
    lines: COPY --LINK a /
    error: dockerfile parse error line 2: Unknown flag: LINK
only its word -> no
    lines: RUN echo --link
a mistake elsewhere -> no
    lines: WORKDIR "/w/unknown flag: link"
    error: mkdir /w/unknown flag: link
a here-document -> here-documents?
    lines: RUN <<E\necho a\nE
    error: HERE line 3
of a COPY, in quotes -> here-documents?
    lines: COPY <<'E' /a\necho a\nE
    error: HERE line 3
with tabs -> here-documents?
    lines: RUN <<-E\n\techo\n\tE
    error: HERE line 3
its beginning on a continued line -> here-documents?
    lines: RUN a \\\n <<E\necho\nE
    error: HERE line 4
below a comment of its instruction -> here-documents?
    lines: RUN a \\\n# b\n <<E\necho\nE
    error: HERE line 5
below a form feed -> here-documents?
    lines: #\fa\nRUN <<E\necho\nE
    error: HERE line 4
a typo beside it -> no
    lines: COPY <<E /a\na\nE\nECHO b
    error: HERE line 5
without its end -> no
    lines: RUN cat <<E\nECHO b
    error: HERE line 3
of the shell -> no
    lines: RUN sh -c "cat <<E\nECHO b\nE"
    error: HERE line 3
quotes and a blank line -> no
    lines: RUN a "b"\nECHO b\n\nRUN c
    error: HERE line 3
a here-document, no line -> here-documents?
    lines: RUN <<E\nENV A\nE
    error: failed to parse Dockerfile: ENV must have two arguments
a shift -> no
    lines: RUN test $((1<<2)) = 4\nECHO b
    error: HERE line 3
an expansion -> this expansion or option?
    lines: ENV A=${V#v}
    error: failed to process "A=${V#v}": unsupported modifier
a key of a mount -> this expansion or option?
    lines: RUN --mount=type=secret,env=A a
    error: unexpected key 'env' in 'env=A'
an expansion without its end -> no
    lines: ENV A=${V#
    error: failed to process "A=${V#": syntax error
"""


@table(SYNTAX, lines="", error="dockerfile parse error line 2: Unknown flag: link")
def test_syntax_that_only_newer_builders_know(row):
    lines = row.lines.encode().decode("unicode_escape")
    error = re.sub("HERE (.*)", r"dockerfile parse error \1: unknown instruction: ECHO", row.error)
    build = de.Build(1, error=error)

    syntax, is_sure = de.new_syntax(build, f"FROM x\n{lines}\n")

    assert (syntax + "?" * (not is_sure) if syntax else "no") == row.then


STAGES = {  # The engine of docker 20.10 ends if no line but ARGs is there.
    "FROM x": True,
    "ARG A=`a`\n\n# b\n  from ${A}": True,
    "\ufeffFROM x": True,
    "\ufeff# syntax=x\na": True,
    "# escape=`\n# syntax=a/b\nfeed": True,
    "ARG A=b": False,
    "# FROM x\nARG A": False,
    "ARG A=b \\\nFROM x": False,
    "ARG A=b \\\r\n# c\nFROM x": False,
    "# \\\nFROM x": True,
    "# escape=`\nARG A=\\\nFROM x": True,
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
BLAME = r"""
manifest for x:1 not found: manifest unknown -> control build build
pull access denied for x, repository does not exist -> control build build
docker.io/library/x:1: not found -> control build build
no match for platform in manifest -> control build build
a: no image found in image index for architecture "amd64", variant "", OS "linux" -> control build build
a: no image found in manifest list for architecture "amd64", variant "" -> control build build
a: unsupported docker v2s2 media type: "application/vnd.cncf.helm" -> control build build
Head "https://x": denied -> control build build
unauthorized: authentication required -> control build build
name unknown: repository name not known to registry -> control build build
no token: unexpected status: 403 Forbidden -> control build build
invalid reference format -> build build build
base name (${X}) should not be blank -> build build build
failed to process "${X#*.}": missing in substitution -> build build build
determining starting point for build: no FROM statement found -> build build build
invalid reference format: repository name (No space left on device) -> build build build
dial tcp: lookup a.b on 10.0.0.1:53: no such host -> registry control build
dial tcp 127.0.0.1:5000: connect: connection refused -> registry control build
Head "http://x/v2/unauthorized/manifests/1": EOF -> registry registry build
toomanyrequests: You have reached your pull rate limit -> registry registry build
received unexpected HTTP status: 503 Service Unavailable -> registry registry build
x509: certificate signed by unknown authority -> registry registry build
lsetxattr: operation not supported -> registry registry build
error getting credentials: "docker-credential-x": executable file not found in $PATH -> registry registry build
write /x: No space left on device -> engine engine engine
content digest sha256:51f5: not found -> registry registry registry
could not fetch content descriptor sha256:1d: not found -> registry registry registry
blob sha256:1d expected at /x: blob not found: not found -> registry registry registry
parent snapshot sha256:1d does not exist: not found -> registry registry registry
lease does not exist: not found -> registry registry registry
"""


@table(BLAME)
def test_blame_for_an_image_that_docker_cannot_pull(row):
    def judge(image, is_offline):
        pull, registry = de.Build(1, error=row.when), de.registry_of(image)
        step = de.Step(de.IMAGE, "", image)
        return de.judge_image(step, pull, registry, is_offline=is_offline) or "control"

    assert " ".join([judge("x", False), judge("a.b/x", False), judge("x", True)]) == row.then


# Messages

DOCKER_ERRORS = {
    "": "",
    "docker: Error response from daemon: No such image: x.\n": "No such image: x.",
    "Error response from daemon: a\nSee 'docker run --help'.\n": "a",
    "warning: old\nERROR: a\n\nView build details: docker-desktop://x\n": "a",
    "a\n\x1b[31mError: b\x1b[0m\nc\n": "b c",
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


FROM = "ARG A \\\n B\nFROM x\n"  # The second line is no text of a person.
HAS_HINT = {  # the step that failed
    "add a /": True,
    "COPY --from=b a /": False,
    "ADD https://a.b/c /": False,
    "RUN a": False,
}


@pytest.mark.parametrize("title", HAS_HINT)
def test_message_of_a_missing_source_names_the_context(title):
    """Other hints, and that of a COPY, are in transcripts/no-score.txt."""
    step = de.Step(title=title)
    build = de.Build(1, step=step, steps=[step])

    hint = de.build_hint(build, de.Options("D", "r", context="folder"), FROM)

    assert hint.startswith("the build context is folder, ") is HAS_HINT[title]


# A command, its exit code, and the program of which that says that there was no network
QUIET_DOWNLOADS = r"""
apt-get install -y wget && wget -q https://a.b/c -> 4 wget
wget https://a.b/c -qO /c -> 4 wget
wget $URL -> 4 wget
set -e\ncurl -s https://a.b/c -> 6 curl
wget \"$URL\" -> 4 wget
wget -q https://a.b/c -> 8
make -> 4
dpkg -i libcurl4.deb -> 6
apt-get install -y wget git && pytest -> 5
make # without curl -> 6
curl -s localhost:8080 -o /x -> 7
"""


@table(QUIET_DOWNLOADS)
def test_exit_code_of_a_quiet_download_is_suspicious(row):
    code, *program = row.then.split()

    assert de.failed_download(int(code), row.when) == "".join(program)


# Experiments

CONTROL = "control COPY, control RUN, control run"


# What goes wrong; what is built and started then, in this order, and the result.
# "control" is the control experiment, if all three parts of it are made; CONTEXT is the folder.
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
an ADD fails -> build: build
    faults: build stdout='Step 2/2 : add x /\n' stderr='ADD failed: file not found in build context: stat x'
a source is missing, and no step is known -> build: build
    faults: build stderr='failed to compute cache key: "/x": not found'
a FROM line is invalid -> build: build
    faults: build stderr='invalid reference format: repository name must be lowercase'
the name of a WORKDIR quotes docker -> build, build, control: build
    faults: build stdout='Step 2/2 : WORKDIR /x\n' stderr='mkdir "/x": not found'
it begins with docker's words -> build, build, control: build
    faults: build stdout='Step 2/2 : WORKDIR /x\n' stderr='invalid reference format'
the layer of a COPY is missing -> build, build, control: build
    faults: build stdout='Step 2/2 : COPY x /\n' stderr='lchown /var/lib/docker/x: no such file or directory'
the runtime fails before a RUN -> build, control: build
    faults: build stdout='Step 2/2 : RUN a\nrunc run failed: a\n' stderr='returned a non-zero code: 1'
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
the frontend of the Dockerfile does not know a flag -> build: build
    dockerfile: FROM x\nCOPY --link a /
    faults: build stdout='#1 resolve image config for x\n#1 DONE 0.1s\n' stderr='dockerfile parse error line 2: Unknown flag: link'
the legacy builder may not know a platform -> build, build, syntax: usage
    faults: build stdout='Step 1/1 : FROM --platform=linux/$TARGETARCH x\n' stderr=a; syntax
it knows this platform -> build, build, from: registry
    faults: build stdout='Step 1/1 : FROM --platform=linux/amd64 x\n' stderr=a; syntax
BuildKit knows any platform -> build, build, control: build
    faults: build stdout='#1 [1/1] RUN --platform=linux/$TARGETARCH x\n#1 ERROR: a\n' stderr=a; syntax
the legacy builder drops a here-document -> build, syntax: usage
    dockerfile: FROM x\nRUN <<E\ntouch /a\nE
    faults: build stdout='Step 2/2 : RUN <<E\n' stderr='returned a non-zero code: 1'; syntax
BuildKit drops nothing -> build: build
    dockerfile: FROM x\nRUN <<E\ntouch /a\nE
    faults: build stdout='#1 [2/2] RUN <<E\n' stderr='did not complete successfully: exit code: 1'; syntax
--target names no stage -> build, build: usage
    faults: build stderr='target stage a could not be found'
    options: {"build_options": ["--target=a"]}
# Accidents
a RUN is terminated -> build, fresh build, control: build
    faults: build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 143'
a RUN meets a full disk -> build, fresh build, control: build (disk)
    faults: build stdout='Step 1/1 : RUN a\nNo space left on device\n' stderr='returned a non-zero code: 1'
a RUN meets a limit -> build, fresh build: build (limits)
    faults: build stdout='Step 1/1 : RUN a\nx: Cannot fork\n' stderr='returned a non-zero code: 1'
an earlier RUN met the network -> build, fresh build: build (network)
    faults: build stdout='Step 1/2 : RUN a\nConnection refused\nStep 2/2 : RUN b\n' stderr='returned a non-zero code: 1'
a RUN uses an old release -> build: build (gone)
    faults: build stdout='Step 1/1 : RUN a\nE: Release file x is expired (invalid since 1 d)\n' stderr='returned a non-zero code: 1'
a RUN fails whose command quotes the network -> build: build
    faults: build stdout='Step 1/1 : RUN a\n' stderr='echo connection refused returned a non-zero code: 1'
a quiet download fails, BuildKit -> build, fresh build: build (network)
    faults: build stdout='#1 [1/1] RUN <<E\n' stderr='process "/bin/sh -c wget -q https://a.b/c" did not complete successfully: exit code: 4'
a quiet download fails, legacy -> build, fresh build: build (network)
    faults: build stdout='Step 1/1 : RUN <<E\n' stderr='The command wget -q https://a.b/c returned a non-zero code: 4'
a quiet download fails, podman -> build, fresh build: build (network)
    faults: build stdout='STEP 1/1: RUN a\n' stderr='Error: building at STEP "RUN wget -q https://a.b/c": while running runtime: exit status 4'
an ADD meets the network -> build, build, control: build (network)
    faults: build stdout='Step 1/1 : ADD http://a.b/c /\n' stderr='connection refused'
a name quotes the network -> build, build, control: build
    faults: build stdout='Step 1/1 : WORKDIR /w\n' stderr='mkdir /w: connection refused: a'
the network breaks a RUN once -> build, fresh build: passed
    dockerfile: FROM x
    faults: build nth=1 stdout='Step 1/1 : RUN a\nConnection refused\n' stderr='returned a non-zero code: 1'
the kernel kills a RUN once -> build, fresh build: passed
    dockerfile: FROM x
    faults: build nth=1 stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 137'
a RUN is killed twice -> build, fresh build, control: build (memory)
    faults: build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 137'
the engine is away for a moment -> build, build: passed
    dockerfile: FROM x
    faults: build do=away count=2 nth=1
the engine is away for a moment, and a RUN fails -> build, fresh build: passed
    dockerfile: FROM x
    faults: build nth=1 stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 2'; version nth=2
the engine is away after each build -> build, fresh build: engine
    faults: build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 2'; version nth=2; version nth=4
docker is killed twice -> build, build: engine
    faults: build do=die
the engine does not come back -> build: engine
    faults: build do=away count=999999
the connection breaks off twice -> build, build: engine
    faults: build stdout='#1 [1/1] RUN a\n' stderr='failed to receive status: error reading: EOF'
docker fails once -> build, build: passed
    dockerfile: FROM x
    faults: build nth=1 stderr=a
the registry comes back after a pause -> build, build: passed
    dockerfile: FROM x
    faults: build nth=1 stderr='connection refused'
docker fails twice -> build, build, control: build
    faults: build stderr=a
the control fails once -> build, build, control COPY, control, control: build
    faults: build stderr=a; 'control COPY' nth=1 stderr='exit code -9'
# Images
an image does not exist -> build, build, from: build
    faults: build stdout='#1 [internal] load metadata for x\n#1 ERROR: x: not found\n' stderr='failed to solve: x: not found'
an image does not exist, legacy -> build, build, from, from: build
    faults: pull x='manifest unknown'
an image can be pulled alone the third time -> build, build, from: registry
    faults: build stdout='Step 1/1 : FROM x\n' stderr=EOF
its registry gives no other image either -> build, build, from, from, from: registry
    dockerfile: FROM ghcr.io/x
    faults: pull ghcr.io='manifest unknown'
a variable hides a registry that gives no other image -> build, build, from, from: registry
    faults: build stdout='Step 1/1 : FROM $B/x\n' stderr='Get "https://ghcr.io/v2/x": denied: a'; pull ghcr.io=EOF
nobody knows any host -> build, build, from, from, from: registry
    dockerfile: FROM a.b/x
    faults: pull a.b='no such host' docker.io='no such host'
too many requests -> build, build, from: registry
    faults: pull x=toomanyrequests
docker's frontend cannot be pulled, --offline -> build, build: usage
    faults: build stdout='#1 resolve image config for docker.io/docker/dockerfile:1\n#1 ERROR: no such host\n' stderr='no such host'
    options: {"offline": true}
the name of an image is a word of docker -> build, build: registry
    faults: build stdout='#1 [internal] load metadata for denied\n#1 ERROR: denied: EOF\n' stderr='failed to solve: denied: EOF'
another frontend cannot be pulled, --offline -> build, build: build
    faults: build stdout='#1 resolve image config for docker.io/a/b:1\n#1 ERROR: no such host\n' stderr='no such host'
    options: {"offline": true}
the image of COPY --from does not exist -> build, build, from, from: build
    dockerfile: FROM x\nCOPY --from=ghcr.io/x /y /
    faults: pull ghcr.io/x='ghcr.io/x: denied'; build stdout='Step 2/2 : COPY\n' stderr='invalid from flag value ghcr.io/x: denied'
the trigger of an image fails -> build, build, control: build
    faults: build stdout='Step 1/1 : FROM x\n# Executing 1 build trigger\n' stderr=a
a pull takes too long, the trigger of its image fails -> build, from, control: build_timeout
    hangs: Step 1/1 : FROM x
    faults: from stdout='Step 1/1 : FROM x\n# Executing 1 build trigger\n' stderr=a
the target stage is only in the Dockerfile -> build, build, from, from: build
    faults: pull x='manifest unknown'; from given=--target=a; 'control COPY' given=--target=a
    options: {"build_options": ["--target=a"]}
# The host
nothing can be run in a build -> build, fresh build, control COPY, control RUN: engine
    faults: build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 137'; 'control RUN'
a program that is not there can be run -> build, fresh build, control COPY, control RUN: engine
    faults: build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 137'; 'control RUN' code=0
a container lacks another program -> build, build, control, control: engine
    faults: build stderr=a; 'control run' code=127 stderr='exec: runc: no such file or directory'
the builder keeps its images -> build, build, control COPY, control COPY: engine
    faults: build stderr=a; 'control COPY' code=0
a build option is refused -> build, build, control COPY, control COPY, control: usage
    faults: '*' given=--bogus stderr='unknown flag: --bogus'
    options: {"build_options": ["--bogus"]}
an option needs an image that cannot be pulled -> build, build, control COPY, control COPY, control: registry
    faults: build stderr=a; '*' given=--bogus stdout='#1 resolve image config for x\n#1 ERROR: EOF\n' stderr=EOF
    options: {"build_options": ["--bogus"]}
a run option is refused -> build, build, control, control, control: usage
    faults: build stderr=a; 'control run' given=--memory=1k code=125
    options: {"run_options": ["--memory=1k"]}
an option is given, and the engine is broken -> build, build, control, control, control: engine
    faults: build stderr=a; 'control run' code=125
    options: {"run_options": ["--memory=1k"]}
the user of a run option is only in the image -> build, build, control: build
    faults: build stderr=a; 'control run' given=-uapp code=125
    options: {"run_options": ["-uapp"]}
the context is refused -> build, build, control COPY, control, control COPY: usage
    faults: build stderr='error checking context'; 'control COPY' given=CONTEXT
podman finds no network -> build, build, control: engine
    faults: build stdout='STEP 1/1: RUN a\n' stderr='Error: building at STEP "RUN a": setup network: x: network not found'
docker lacks the plugin that builds -> build, build, control COPY, control COPY: engine
    faults: build stderr='BuildKit is enabled but the buildx component is missing or broken.'; 'control COPY'
docker cannot export the image -> build, build, control: engine
    faults: build stdout='#1 [1/1] RUN a\n#1 DONE 1.0s\n#2 exporting to image\n#2 ERROR: ref layer-sha256:4f4f locked: unavailable\n' stderr='failed to solve: ref layer-sha256:4f4f locked: unavailable'
docker cannot read the Dockerfile -> build, build, control: engine
    faults: build stderr='failed to read dockerfile: open D: no such file or directory'
docker cannot read the Dockerfile of a context -> build, build, control: engine
    faults: build stderr='failed to read dockerfile: stat S: no such file or directory'; 'control COPY' given=CONTEXT
docker cannot send the Dockerfile -> build, build, control: engine
    faults: build stdout='#1 [internal] load build definition from D\n#1 ERROR: stream terminated\n' stderr='failed to solve: failed to read dockerfile: stream terminated'
docker has trouble with its store -> build, build, control: engine
    faults: build stderr='short read: expected 89 bytes but got 17: unexpected EOF'
# The time limit
an instruction is running, and the engine does not answer at once -> build: engine
    faults: build do=print stdout='Step 1/1 : RUN a\n'; build do=hang; version do=sleep seconds=6 nth=2
the image is there, but docker does not end -> build: engine
    dockerfile: FROM x
    faults: build do=print stdout='Step 1/1 : RUN a\n'; build do='hang after'
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
    faults: from do=print stdout='Step 1/1 : FROM x\n'; from do=hang
a registry is slow, legacy -> build, from, control: build_timeout
    hangs: Step 1/1 : FROM x
a RUN takes too long that imitates a FROM -> build, control: build_timeout
    hangs: Step 1/1 : RUN x\nStep 2/2 : FROM a.b/x
"""


def asked(fake):
    """Return what was built and started, in order."""
    builds = iter(fake.calls("build"))
    kinds = ("build", "from", "syntax", "control")
    for name in fake.names():
        if name.startswith(kinds):
            is_fresh = name == "build" and "--no-cache" in next(builds)
            yield "fresh build" if is_fresh else name


def result(report):
    """Return the outcome, and what a failed build is suspicious of."""
    suspect = (report["error"] or {}).get("suspect")
    return outcome(report) + (f" ({suspect})" if suspect else "")


@table(FLOWS, dockerfile=r"FROM x\nRUN exit 3", faults="", hangs="", options={"build_timeout": 9})
def test_build_is_made_and_judged_by_experiments(fake, evaluate, tmp_path, row):
    hang = "; ".join(["CALL do=print stdout='LINES\\n'", "CALL do=hang"])
    hangs = [hang.replace("CALL", "build").replace("LINES", row.hangs)] * bool(row.hangs)
    faults = "; ".join([row.faults, *hangs]).replace("CONTEXT", f"{tmp_path}/context")
    fake.inject(faults)

    report = evaluate(row.dockerfile.split(r"\n"), TRUE, **row.options)

    found = ", ".join(asked(fake)).replace(CONTROL, "control")
    assert f"{found}: {result(report)}" == row.then
    assert fake.left() == []


HERE_DOCUMENTS = {
    "FROM x\nRUN <<E\na\nE\nRUN <<F\nF": [3, 4],
    "RUN <<-E\n\tE\n": [2],
    "E\nRUN cat <<E\na": [],
    "RUN echo '<<E'\nE": [],
}


def test_lines_of_the_first_here_document_that_ends():
    found = {text: list(de.here_document_lines(text)) for text in HERE_DOCUMENTS}

    assert found == HERE_DOCUMENTS


# What docker says, whether the build fails each time, and the registry at fault
TOLD = {"manifest unknown": (True, None), "toomanyrequests": (False, "docker.io")}


@pytest.mark.parametrize("problem", TOLD)
def test_report_of_a_failed_build_tells_the_experiments(fake, evaluate, problem):
    fake.inject(f"pull x='{problem}'")

    error = evaluate(["FROM x"], TRUE)["error"]

    assert (error["certain"], error["registry"]) == TOLD[problem]
    assert f"FROM x alone: {problem}" in error["diagnosis"]
    assert (f"FROM {HUB_IMAGE} alone: succeeded" in error["diagnosis"]) is error["certain"]


def test_engine_that_is_lost_after_the_build_is_not_taken_for_a_builder_that_keeps_its_images(
    fake, evaluate
):
    fake.inject("'image inspect' stderr='no daemon'")

    error = evaluate(["FROM x"], TRUE)["error"]

    assert error["kind"] == "engine"
    assert error["message"] == "docker cannot inspect the image: no daemon"


@pytest.mark.parametrize("was_there", [False, True])
def test_control_image_is_asked_of_its_registry_and_removed_unless_it_was_there(
    fake, evaluate, was_there
):
    fake.inject("pull x='manifest unknown'")
    if was_there:
        (fake.folder / "images" / HUB_IMAGE.replace("/", "%")).touch()

    warnings = evaluate(["FROM x"], TRUE)["warnings"]

    assert warnings == []
    *others, last = ["--pull" in words for words in fake.calls("from")]
    assert last
    assert not any(others)
    assert (HUB_IMAGE in str(fake.calls("image rm"))) is not was_there


def test_control_image_that_cannot_be_removed_is_a_warning(fake, evaluate):
    fake.inject(f"pull x='manifest unknown'; 'image rm' given={HUB_IMAGE} stderr=conflict")

    warnings = evaluate(["FROM x"], TRUE)["warnings"]

    assert warnings == [f"not removed: {HUB_IMAGE}: conflict"]


# What goes wrong with a build, a run or a test, and the bytes that are written then
FULL_DISKS = r"""
a RUN was killed -> 1024
    faults: build stdout='Step 1/1 : RUN a\n' stderr='returned a non-zero code: 137'
docker's disk was full -> 4096
    faults: build stderr='No space left on device'
a RUN met a full disk -> 4096
    faults: build stdout='Step 1/1 : RUN a\nNo space left on device\n' stderr='returned a non-zero code: 1'
docker run met one -> 4096
    faults: run stderr='docker: No space left on device'
a test met one -> 4096
    command: echo No space left on device; echo bye; false
"""


@table(FULL_DISKS, faults="", command="true")
def test_control_experiment_writes_new_bytes_and_many_if_the_disk_may_be_full(
    fake, evaluate, monkeypatch, row
):
    written = []

    def look(*words, limit):
        written.append(Path(words[-1], "content").read_bytes())
        return de.Build(1, error="why")

    monkeypatch.setattr(de, "build_trivial", look)
    fake.inject(row.faults)

    for _ in range(2):
        evaluate(["FROM x"], run_command(row.command))

    assert {len(content) for content in written} == {int(row.then)}
    assert len(set(written)) == len(written) >= 2
