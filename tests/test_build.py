r"""Build, and who is at fault if that fails (section 4).

What a log says is in test_build_log.py. Experiments are made with the fake docker here; with real
engines and registries in test_faults.py and test_attacks.py. Messages are in
transcripts/no-score.txt.

The rows of FLOWS are builds:

    what goes wrong -> what docker is asked, in this order: the outcome (its suspicion)
        dockerfile: its lines, with \n between them
        faults: how docker fails, as the first lines of fake_engine.py explain
        options: of evaluate()
        message: words that the error has

Docker is asked for "build", the build under test; "fresh build", the same with --no-cache; "from",
a control image; "syntax", a trivial Dockerfile of today's syntax; "control", the control
experiment, whose parts are "control COPY", "control RUN" and "control run".
"""

from pathlib import Path

import pytest
from cases import TRUE, as_bytes, run_command, table
from conftest import outcome

import DockerfileEvaluator as de

HUB_IMAGE = de.CONTROL_IMAGES["docker.io"]


# Decisions

# Whether docker is asked to build a file: docker 20.10 ends at a file of ARGs
STAGES = r"""
built -> FROM x
built -> ARG A=`a`\n\n# b\n  from ${A}
built -> \xef\xbb\xbfFROM x
built -> FROM\\\n x
built -> # syntax=a/b\nfeed
not -> # escape=`\n# syntax=a/b\nfeed
not -> ARG A=b
not -> # FROM x\nARG A
not -> ARG A=syntax=b
not -> ARG A\n# syntax=a/b
not -> \xef\xbb\xbf# syntax=x\nARG A=1
# Docker decides about these.
built -> ARG A=x\\\\\nFROM x
built ->   # escape=`\nARG A=x\\\nFROM x
built -> ARG A=x\\\f\nFROM x
built -> ARG A=b \\\nFROM x
"""


@table(STAGES)
def test_dockerfile_without_a_stage_is_not_built(row):
    assert de.has_stage(as_bytes(row.then).decode() + "\n") is (row.when == "built")


REGISTRIES = """
debian -> docker.io
registry-1.docker.io/a/b -> docker.io
ghcr.io/a/b@sha256:1d -> ghcr.io
localhost/a -> localhost
a:5000/b -> a:5000
a.b/docker.io/c -> a.b
Ubuntu/foo -> Ubuntu
"""


@table(REGISTRIES)
def test_registry_of_an_image(row):
    assert de.registry_of(row.when) == row.then


# What docker says of an image, and who is at fault: if it is one of Docker Hub; of a registry
# without a control image; with --offline. "control": if the control image can be pulled, build.
BLAME = r"""
manifest for x:1 not found: manifest unknown -> control build build
pull access denied, repository does not exist or may require authorization -> control build build
docker.io/library/x:1: not found -> control build build
no match for platform in manifest: not found -> control build build
a: no image found in image index for architecture "amd64", variant "", OS "linux" -> control build build
a: no image found in manifest list for architecture "amd64", variant "" -> control build build
a: unsupported docker v2s2 media type: "application/vnd.cncf.helm" -> control build build
Head "https://x": denied -> control build build
unauthorized: authentication required -> control build build
name unknown: repository name not known to registry -> control build build
no token: unexpected status: 403 Forbidden -> control build build
error parsing HTTP 403 response body: invalid character '<': "<p>503" -> control build build
error parsing HTTP 503 response body: invalid character '<': "not found" -> registry registry build
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
short read: expected 89 bytes but got 17: unexpected EOF -> registry registry registry
failed to extract layer sha256:1d: unexpected EOF -> registry registry registry
failed to copy: httpReadSeeker: failed open: status https://x: 403 Forbidden -> registry registry registry
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
        build = de.Build(1, error=row.when, step=de.Step(de.IMAGE, "", image))
        if de.blames_dockerfile(build):
            return "build"
        return de.judge_image(build, de.registry_of(image), is_offline=is_offline) or "control"

    assert " ".join([judge("x", False), judge("a.b/x", False), judge("x", True)]) == row.then


# Messages

DOCKER_ERRORS = r"""
docker: Error response from daemon: No such image: x.\n -> No such image: x.
Error response from daemon: a\nSee 'docker run --help'.\n -> a
needs 1 argument\nSee 'docker build --help'.\n\nUsage:  docker build PATH\n\nStart a build\n -> needs 1 argument
warning: old\nERROR: a\n\nView build details: docker-desktop://x\n -> a
a\n\x1b[31mError: b\x1b[0m\nc\n -> b c
a\x1b]0;title\x07b -> ab
ERROR: failed to build: failed to solve: a -> a
ERROR: failed to solve: rpc error: code = Unknown desc = a -> a
ERROR: failed to solve: failed to calculate checksum of ref x::y: "/a": b -> "/a": b
failed to solve with frontend dockerfile.v0: failed to create LLB definition: a -> a
the Dockerfile (.dockerfile.af3d1e) is empty -> the Dockerfile (Dockerfile) is empty
failed to walk /x/tmp/buildkit-mount816/a: b -> failed to walk ./a: b
mkdir /x/overlay2/99jo80g/merged/f: b -> mkdir ./f: b
sources under "/var/tmp/buildah12/a": b -> sources under "./a": b
lstat '/tmp/dockerfile-evaluator-h-1-a/context/a': b -> lstat './a': b
"""


@table(DOCKER_ERRORS)
def test_error_of_docker_is_shown_without_prefixes_and_temporary_names(row):
    assert de.docker_error(as_bytes(row.when).decode()) == row.then


# Experiments

CONTROL = "control COPY, control RUN, control run"
FLOWS = r"""
# An ordinary failure costs one build
a RUN fails -> build: build
    message: exit code: 3: last words of the build
a COPY fails -> build: build
    dockerfile: FROM x\nCOPY missing /
    message: "/missing": not found (the build context is
a COPY fails, docker 20.10 -> build: build
    faults: build at='COPY x /' error='"/x" not found: not found'
a source is missing, and no step is known -> build: build
    faults: build error='failed to compute cache key: "/x" not found: not found'
another stage lacks a file -> build: build
    faults: build at='COPY --from=a /x /' error='lstat /x: no such file or directory'
another stage lacks a file, docker 20.10 -> build: build
    faults: build at='COPY --from=a /x /' error='lstat /d/overlay2/50d5/merged/x: no such file or directory'
an unknown instruction -> build: build
    faults: build error='dockerfile parse error on line 2: unknown instruction: RUNN'
an unknown instruction, docker 20.10 -> build: build
    faults: build stderr='failed to solve with frontend dockerfile.v0: failed to create LLB definition: dockerfile parse error line 2: unknown instruction: RUNN'
a FROM line is invalid -> build: build
    faults: build error='failed to parse stage name "Busybox": invalid reference format'
no FROM line -> : build
    dockerfile: ARG A=1
    message: it has no FROM line
a variable is required -> build: build
    faults: build error='failed to process "${A:?context canceled}": A: context canceled'
podman, a RUN fails -> build: build
    faults: build stderr='STEP 1/1: RUN a\nError: building at STEP "RUN a": while running runtime: exit status 3'
podman, a COPY fails -> build: build
    faults: build stderr='STEP 1/1: COPY a /\nError: building at STEP "COPY a /": checking on sources under "/c": copier: stat: "/a": no such file or directory'
# Names that quote docker prove nothing; a control experiment that succeeds does
the name of a WORKDIR quotes docker -> build, build, control: build
    faults: build at='WORKDIR /x' error='mkdir "/x": not found'
the error of a WORKDIR begins with docker's words -> build, build, control: build
    faults: build at='WORKDIR /x' error='invalid reference format'
the layer of a COPY is missing -> build, build, control: build
    faults: build at='COPY x /' error='lchown /var/lib/docker/x: no such file or directory'
a name quotes the network -> build, build, control: build
    faults: build at='WORKDIR /w' error='mkdir /w: connection refused: a'
a name ends with docker's words -> build, build, control: build
    faults: build at='WORKDIR /w' error='lstat /w/x\nERROR: short read: y'
a required variable ends with docker's words -> build: build
    faults: build error='failed to process "${A:?x}": A: x\na\nb\nc\nd\ne\nf\ng\nh\ni\nERROR: target stage x could not be found'
the runtime fails before a RUN -> build, control: build
    faults: build at='RUN ["/x"]' prints='runc run failed: exec: "/x": no such file or directory' error=1
docker's error names no line -> build, build, control: build
    faults: build error='ENV must have two arguments'
a trigger fails -> build: build
    faults: build at='ONBUILD RUN a' error=1
the builder does not know a flag -> build: usage
    dockerfile: FROM x\nCOPY --link a /
    faults: build error='dockerfile parse error line 2: Unknown flag: link'
a frontend of the Dockerfile does not know it -> build: build
    dockerfile: FROM x\nCOPY --link a /
    faults: build stderr='#1 resolve image config for x\n#1 DONE 0.1s\ndockerfile parse error line 2: Unknown flag: link'
a script of a RUN looks like docker's log, docker 20.10 -> build, fresh build: build (network)
    faults: build stderr='#1 [internal] load x\n#1 sha256:0000000000000000000000000000000000000000000000000000000000000000\n#1 DONE 0.1s\n#2 [1/1] RUN [sh -c a\n#7 install b]\n#2 sha256:0000000000000000000000000000000000000000000000000000000000000000\n#2 0.1 Connection refused\n#2 ERROR: a\nexecutor failed running [sh -c a]: exit code: 6'
# Accidents
a RUN is terminated -> build, fresh build, control: build
    faults: build at='RUN a' error=143
a RUN meets a full disk -> build, fresh build, control: build (disk)
    faults: build at='RUN a' prints='No space left on device' error=1
a RUN meets a limit -> build, fresh build: build (limits)
    faults: build at='RUN a' prints='x: Cannot fork' error=1
the network was away in an earlier RUN -> build, fresh build: build (network)
    faults: build stderr='#1 [1/2] RUN a\n#1 0.1 W: Failed to fetch http://a.b/c  Could not resolve host: a.b\n#1 DONE 0.1s\n#2 [2/2] RUN b\n#2 ERROR: a\nprocess "b" did not complete successfully: exit code: 1'
an earlier RUN printed words of the network -> build: build
    faults: build stderr='#1 [1/2] RUN a\n#1 0.1 Connection refused\n#1 DONE 0.1s\n#2 [2/2] RUN b\n#2 ERROR: a\nprocess "b" did not complete successfully: exit code: 1'
a RUN uses an old release -> build: build (gone)
    faults: build at='RUN a' prints='E: Release file x is expired (invalid since 1 d)' error=1
a RUN fails whose command quotes the network -> build: build
    faults: build at='RUN echo connection refused' error=1
a quiet download fails -> build, fresh build: build (network)
    faults: build at='RUN wget -q https://a.b/c' error=4
a quiet download fails, docker 20.10 -> build, fresh build: build (network)
    faults: build at='RUN set -e' error='executor failed running [/bin/sh -c set -e wget -q https://a.b/c]: exit code: 4'
a quiet download fails, podman -> build, fresh build: build (network)
    faults: build stderr='STEP 1/1: RUN a\nError: building at STEP "RUN wget -q https://a.b/c": while running runtime: exit status 4'
an ADD meets the network -> build, build, control: build (network)
    faults: build at='ADD http://a.b/c /' error='Get "http://a.b/c": connection refused'
the network breaks a RUN once -> build, fresh build: passed
    dockerfile: FROM x
    faults: build nth=1 at='RUN a' prints='Connection refused' error=1
the kernel kills a RUN once -> build, fresh build: passed
    dockerfile: FROM x
    faults: build nth=1 at='RUN a' error=137
a RUN is killed twice -> build, fresh build, control: build (memory)
    faults: build at='RUN a' error=137
a RUN gets no memory -> build, fresh build, control: build (memory)
    faults: build at='RUN a' error='process "a" did not complete successfully: cannot allocate memory'
the engine is away for a moment -> build, build: passed
    dockerfile: FROM x
    faults: build do=away count=2 nth=1
the engine is away for a moment, and a RUN fails -> build, fresh build: passed
    dockerfile: FROM x
    faults: build nth=1 at='RUN a' error=2; version nth=2
the engine is away after each build -> build, fresh build: engine
    faults: build at='RUN a' error=2; version nth=2; version nth=4
the engine is away, and the log looks forged, docker 20.10 -> build, build: engine
    faults: build stderr='#1 [internal] load x\n#1 sha256:0000000000000000000000000000000000000000000000000000000000000000\n#2 [1/1] ADD a\n#7 b\nERROR: c'; version nth=2; version nth=4
docker is killed twice -> build, build: engine
    faults: build do=die
the engine does not come back -> build: engine
    faults: build do=away count=999999
the connection breaks off twice -> build, build: engine
    faults: build stderr='#1 [1/1] RUN a\nERROR: failed to receive status: error reading: EOF'
docker cancels a step of its own accord -> build, build: engine
    faults: build stderr='#1 [1/1] RUN a\n#1 CANCELED\nERROR: failed to solve: Canceled: context canceled'
the engine is lost after the build -> build: engine
    dockerfile: FROM x
    faults: 'image inspect' stderr='no daemon'
    message: docker cannot inspect the image: no daemon
docker fails once -> build, build: passed
    dockerfile: FROM x
    faults: build nth=1 error=a
the registry comes back after a pause -> build, build: passed
    dockerfile: FROM x
    faults: build nth=1 at='[internal] load metadata for x' error='connection refused'
a RUN ignores a full disk, and docker fails once -> build, fresh build: passed
    dockerfile: FROM x
    faults: build nth=1 stderr='#1 [1/1] RUN a\n#1 0.1 a: No space left on device\n#1 DONE 0.1s\n#2 exporting to image\n#2 ERROR: a\nERROR: a'
docker fails twice -> build, build, control: build
    faults: build error=a
the control fails once -> build, build, control COPY, control, control: build
    faults: build error=a; 'control COPY' nth=1 stderr='exit code -9'
# Images
an image does not exist -> build, build, from: build
    dockerfile: FROM x
    faults: pull x='docker.io/library/x:latest: not found'
an image can be pulled alone -> build, build: registry
    faults: build at='[internal] load metadata for x' error=EOF
the image of a COPY does not exist, docker 20.10 -> build, build, from: build
    faults: build at='FROM ghcr.io/x' error='ghcr.io/x: denied'
its registry gives no other image either -> build, build, from, from: registry
    dockerfile: FROM ghcr.io/x
    faults: pull ghcr.io='manifest unknown'
a variable hides a registry that gives no other image -> build, build, from, from: registry
    faults: build at='FROM $B/x' error='Get "https://ghcr.io/v2/x": denied: a'; pull ghcr.io=EOF
a registry without a control image does not answer -> build, build, from: build (network)
    dockerfile: FROM a.b/x
    faults: pull a.b='connection refused'
    message: connection refused (suspicious: network)
nobody knows any host -> build, build, from, from: registry
    dockerfile: FROM a.b/x
    faults: pull a.b='no such host' docker.io='no such host'
too many requests -> build, build: registry
    dockerfile: FROM x
    faults: pull x=toomanyrequests
the name of an image is a word of docker -> build, build: registry
    dockerfile: FROM denied
    faults: pull denied='denied: EOF'
docker's frontend cannot be pulled, --offline -> build, build: usage
    faults: build at='resolve image config for docker.io/docker/dockerfile:1' error='no such host'
    options: {"offline": true}
another frontend cannot be pulled, --offline -> build, build: build
    faults: build at='resolve image config for docker-image://docker.io/a/b:1' error='no such host'
    options: {"offline": true}
the frontend of an option does not exist -> build, build: usage
    faults: build at='resolve image config for docker-image://docker/dockerfile:9' error='docker.io/docker/dockerfile:9: not found'
    options: {"build_options": ["--build-arg=BUILDKIT_SYNTAX=docker/dockerfile:9"]}
an option needs an image that cannot be pulled -> build, build, control COPY, control COPY, control, control COPY: registry
    faults: build error=a; '*' given=--bogus at='resolve image config for x' error=EOF
    options: {"build_options": ["--bogus"]}
podman, an image has no registry -> build, build: usage
    faults: build stderr='STEP 1/1: FROM x\nError: short-name "x" did not resolve to an alias'
podman, the image of a COPY is missing -> build, build, control, from: build
    faults: build stderr='STEP 1/1: COPY --from=a.b/x /y /\nError: building at STEP "x": no stage or image found with that name'
podman, no image can be pulled -> build, build, control, from, from: registry
    faults: build stderr='STEP 1/1: COPY --from=a.b/x /y /\nError: building at STEP "x": no stage or image found with that name'; pull docker.io=EOF
the host of the engine has no git -> build, build, control: usage
    faults: build at='ADD https://a.b/c.git /' error='unknown scheme git: not found'
# Options, and the build context
--target names no stage -> build, build: usage
    faults: build error='target stage "a" could not be found'
    options: {"build_options": ["--target=a"]}
--target names no stage, podman -> build, build: usage
    faults: build stderr='Error: the target "a" was not found in the provided Dockerfile'
    options: {"build_options": ["--target=a"]}
the target stage is only in the Dockerfile -> build, build, from: build
    dockerfile: FROM x
    faults: pull x='manifest unknown'; from given=--target=a; 'control COPY' given=--target=a
    options: {"build_options": ["--target=a"]}
there is no such --platform -> build, build, control COPY, control COPY, control, control COPY: usage
    faults: '*' given=--platform=x error='"x": unknown operating system or architecture: invalid argument'
    options: {"build_options": ["--platform=x"]}
FROM has no such --platform -> build, build, control: build
    faults: build error='failed to parse platform x: "x": unknown operating system or architecture'
a build option is refused -> build, build, control COPY, control COPY, control, control COPY: usage
    faults: '*' given=--bogus stderr='unknown flag: --bogus'
    options: {"build_options": ["--bogus"]}
a run option is refused -> build, build, control, control, control, control: usage
    faults: build error=a; 'control run' given=--memory=1k code=125
    options: {"run_options": ["--memory=1k"]}
an option is given, and the engine is broken -> build, build, control, control, control: engine
    faults: build error=a; 'control run' code=125
    options: {"run_options": ["--memory=1k"]}
the user of a run option is only in the image -> build, build, control: build
    faults: build error=a; 'control run' given=-uapp code=125
    options: {"run_options": ["-uapp"]}
the context is refused -> build, build, control COPY, control, control COPY: usage
    faults: build error='error checking context'; 'control COPY' given=CONTEXT
    message: docker refuses the build context
# The host
it has no BuildKit -> build: usage
    faults: build stderr='ERROR: BuildKit is enabled but the buildx component is missing or broken.'
    message: install
it has the classic builder -> build: usage
    faults: build stdout='Sending build context to Docker daemon\nStep 1/1 : FROM x\n' stderr=a
    message: install
nothing can be run in a build -> build, fresh build, control COPY, control RUN: engine
    faults: build at='RUN a' error=137; 'control RUN'
a runtime says why it cannot run anything -> build, fresh build, control COPY, control RUN: engine
    faults: build at='RUN a' error=137; 'control RUN' at='RUN b' prints='runc: open sysctl: denied' error=1
    message: exit code: 1: runc: open sysctl: denied
a program that is not there can be run -> build, fresh build, control COPY, control RUN: engine
    faults: build at='RUN a' error=137; 'control RUN' code=0
a container lacks another program -> build, build, control, control: engine
    faults: build error=a; 'control run' code=127 stderr='exec: runc: no such file or directory'
the builder keeps its images -> build, build, control COPY, control COPY: engine
    faults: build error=a; 'control COPY' code=0
podman finds no network -> build, build, control: engine
    faults: build stderr='STEP 1/1: RUN a\nError: building at STEP "RUN a": setup network: x: network not found'
docker cannot export the image -> build, build, control: engine
    faults: build at='exporting to image' error='ref layer-sha256:4f4f locked: unavailable'
docker cannot read the Dockerfile -> build, build, control: engine
    faults: build error='failed to read dockerfile: open D: no such file or directory'
docker cannot read the Dockerfile of a context -> build, build, control COPY, control, control COPY: usage
    faults: build error='failed to read dockerfile: stat S: no such file or directory'; 'control COPY' given=CONTEXT
docker cannot send the Dockerfile -> build, build, control: engine
    faults: build at='[internal] load build definition from D' error='stream terminated'
docker has trouble with its store -> build, build, control: engine
    faults: build at='RUN a' error='short read: expected 89 bytes but got 17: unexpected EOF'
docker gives a RUN no network -> build, build, control: engine
    faults: build at='RUN a' error='failed to create endpoint x on network bridge: adding interface'
an ADD gets a part of a file -> build, build, control: build
    faults: build at='ADD http://a.b/c /' error='short read: expected 89 bytes but got 17'
# The time limit
a RUN takes too long -> build, control: build_timeout
    dockerfile: FROM x\nRUN sleep
    message: in step 'RUN sleep'
an ADD takes too long -> build, control: build_timeout
    faults: build do=hang at='http://a.b/x'
the export takes too long -> build, control: build_timeout
    faults: build do=hang at='exporting to image'
settings grow between two steps -> build, control: build_timeout
    faults: build do=hang at=''
    message: while no instruction was running
settings grow, and the engine is broken -> build, control: engine
    faults: build do=hang at=''; 'control run'
a RUN takes too long, and the engine is broken -> build, control: engine
    faults: build do=hang at='RUN x'; 'control run'
a RUN takes too long, podman -> build, control: build_timeout
    faults: build do=hang stderr='STEP 1/1: RUN a\n'
nothing begins in time -> build: engine
    faults: build do=hang
the context takes too long -> build: engine
    faults: build do=hang at='[internal] load build context'
a registry hangs -> build: registry
    faults: build do=hang at='[internal] load metadata for x'
a registry hangs, podman -> build: registry
    faults: build do=hang stderr='STEP 1/1: FROM x\n'
an instruction is running, and the engine does not answer at once -> build: engine
    faults: build do=hang at='RUN a'; version do=sleep seconds=6 nth=2
the image is there, but docker does not end -> build: engine
    dockerfile: FROM x
    faults: build do='hang after' at='RUN a'
"""


def asked(fake):
    """Return what was built and started, in order."""
    for name, words in fake.log():
        if name.startswith(("build", "from", "syntax", "control")):
            is_fresh = name == "build" and "--no-cache" in words
            yield "fresh build" if is_fresh else name


@table(FLOWS, dockerfile=r"FROM x\nRUN exit 3", faults="", message="", options={"build_timeout": 9})
def test_build_is_judged_by_experiments(fake, evaluate, tmp_path, row):
    fake.inject(row.faults.replace("CONTEXT", f"{tmp_path}/context"))

    report = evaluate(row.dockerfile.split(r"\n"), TRUE, **row.options)

    error = report["error"] or {"message": "", "suspect": None}
    suspicion = f" ({error['suspect']})" if error["suspect"] else ""
    found = ", ".join(asked(fake)).replace(CONTROL, "control")
    assert f"{found}: {outcome(report)}{suspicion}" == row.then
    assert row.message in error["message"]
    assert fake.left() == []


# What follows FROM x; docker's error, and who is at fault. "syntax": the builder, if it cannot build today's syntax, otherwise the Dockerfile.
SYNTAX = r"""
COPY --link a / -> usage
COPY --chown=a --link a / -> usage
copy --link a / -> usage
ADD --unpack a / -> usage
    error: dockerfile parse error line 2: Unknown flag: unpack
HEALTHCHECK --start-interval=1s CMD a -> usage
    error: dockerfile parse error line 2: Unknown flag: start-interval
COPY \\n # no\n --link a / -> usage
COPY a /\n\n# `a`\n--a\nCOPY --parents a / -> usage
    error: dockerfile parse error on line 6: unknown flag: --parents
COPY --invented a / -> build
    error: dockerfile parse error line 2: Unknown flag: invented
COPY --LINK a / -> build
    error: dockerfile parse error line 2: Unknown flag: LINK
RUN --link a -> build
COPY --link a /\nRUN --link a -> build
    error: dockerfile parse error on line 3: unknown flag: --link
WORKDIR "/w/unknown flag: link" -> build
    error: mkdir /w/unknown flag: link
# A file that has a here-document
RUN <<E\necho a\nE -> syntax
    error: dockerfile parse error line 3: unknown instruction: ECHO
COPY <<'E' /a\necho a\nE -> syntax
    error: dockerfile parse error line 3: unknown instruction: ECHO
RUN a <<-E\n\techo a\n\tE -> syntax
    error: dockerfile parse error line 3: unknown instruction: ECHO
RUN a \\n# b\n <<E\necho\nE -> syntax
    error: dockerfile parse error line 5: unknown instruction: ECHO
RUN <<E\nENV A\nE -> syntax
    error: ENV must have two arguments
RUN a "b"\nECHO b\n\nRUN c -> build
    error: dockerfile parse error line 3: unknown instruction: ECHO
RUN test $((1<<a)) = 4\nECHO b -> build
    error: dockerfile parse error line 3: unknown instruction: ECHO
\n # RUN <<E\nECHO b -> build
    error: dockerfile parse error line 4: unknown instruction: ECHO
ENV A=${V#v} -> syntax
    error: failed to process "${V#v}": missing ':' in substitution
RUN --mount=type=secret,env=A a -> syntax
    error: dockerfile parse error line 2: unexpected key 'env' in 'env=A'
RUN --mount=type=cache,invented=A a -> build
    error: dockerfile parse error line 2: unexpected key 'invented' in 'invented=A'
ENV A=${V#\nENV B=} -> build
    error: failed to process "A=${V#": syntax error: missing '}'
"""


@table(SYNTAX, error="dockerfile parse error line 2: Unknown flag: link")
@pytest.mark.parametrize("is_old", [True, False])
def test_syntax_that_only_newer_builders_know_is_no_fault_of_the_dockerfile(
    fake, evaluate, row, is_old
):
    fake.fault("build", error=row.error)
    fake.inject("syntax" * is_old)

    report = evaluate(["FROM x", *row.when.split(r"\n")], TRUE)

    is_usage = row.then == "usage" or (row.then == "syntax" and is_old)
    assert outcome(report) == ("usage" if is_usage else "build")
    assert fake.count("syntax") == (row.then == "syntax")


# Hints


HINTS = r"""
a mistake in an ARG -> no hint
    dockerfile: ARG A=${\nFROM x
    faults: build error='failed to process "${"'
a missing source -> the build context is CONTEXT
    faults: build at='add a /' error='"/a": not found'
of another stage -> no hint
    faults: build at='COPY --from=b a /' error='"/a": not found'
of an address -> no hint
    faults: build at='ADD https://a.b/c /' error='invalid response status 404'
a target that is a file -> no hint
    faults: build at='COPY a /b' error='cannot copy to non-directory: /b'
"""


@table(HINTS, dockerfile="FROM x", faults="")
def test_missing_source_is_explained_and_no_other_error(fake, evaluate, tmp_path, row):
    """transcripts/no-score.txt has the other hints."""
    fake.inject(row.faults)

    message = evaluate(row.dockerfile.split(r"\n"), TRUE)["error"]["message"]

    hint = row.then.replace("CONTEXT", f"{tmp_path}/context")
    assert hint in message or (hint == "no hint" and "(" not in message)


# Reports of a failed build

# Faults, whether the next build would fail alike, the registry at fault, and whether Docker Hub had
# its control image. Another stage may lack a file since a download failed in silence.
CERTAIN = r"""
pull x='manifest unknown' -> True None True
pull x=toomanyrequests -> False docker.io False
# The image may be there the next time.
pull a.b='connection refused' -> False None True
    dockerfile: FROM a.b/x
build stderr='STEPS COPY a /\n#2 ERROR: "/a": not found\nERROR: "/a": not found' -> True None False
build stderr='STEPS COPY --from=b a /\n#2 ERROR: "/a": not found\nERROR: x' -> False None False
build stderr='STEPS RUN --mount=from=b,source=/a,target=/c d\n#2 ERROR: "/a": not found\nERROR: x' -> False None False
"""


@table(CERTAIN, dockerfile="FROM x")
def test_report_of_a_failed_build_says_whether_it_would_fail_again(fake, evaluate, row):
    steps = r"#1 [b 1/1] RUN curl -so a x || true\n#1 DONE 0.1s\n#2 [2/2]"
    fake.inject(row.when.replace("STEPS", steps))

    error = evaluate([row.dockerfile], TRUE)["error"]

    has_control = f"FROM {HUB_IMAGE} alone: succeeded" in error["diagnosis"]
    assert f"{error['certain']} {error['registry']} {has_control}" == row.then


@pytest.mark.parametrize("was_there", [False, True])
def test_control_image_is_asked_of_its_registry_and_removed_unless_it_was_there(
    fake, score, was_there
):
    fake.inject(f"pull x='manifest unknown'; 'image rm' given={HUB_IMAGE} stderr=conflict")
    if was_there:
        (fake.images / HUB_IMAGE.replace("/", "%")).touch()

    warnings = score(TRUE)["warnings"]

    assert warnings == [f"not removed: {HUB_IMAGE}: conflict"] * (not was_there)
    assert all("--pull" in words for words in fake.calls("from"))


# What goes wrong with a build, a run or a test, and the bytes that are written then
FULL_DISKS = r"""
a RUN was killed -> 1024
    faults: build at='RUN a' error=137
docker's disk was full -> 4096
    faults: build at='COPY a /' error='write /a: No space left on device'
a RUN met a full disk -> 4096
    faults: build at='RUN a' prints='No space left on device' error=1
a RUN met its quota -> 4096
    faults: build at='RUN a' prints='a: Disk quota exceeded' error=1
docker run met a full disk -> 4096
    faults: run stderr='docker: No space left on device'
a test met one -> 4096
    command: echo No space left on device; echo bye; false
"""


@table(FULL_DISKS, faults="", command="true")
def test_control_experiment_writes_new_bytes_and_many_if_the_disk_may_be_full(
    fake, score, monkeypatch, row
):
    written = []

    def look(*_, context, limit):
        written.append(Path(context, "content").read_bytes())
        return de.Build(1, error="why")

    monkeypatch.setattr(de, "build_trivial", look)
    fake.inject(row.faults)

    for _ in range(2):
        score(run_command(row.command))

    assert {len(content) for content in written} == {int(row.then)}
    assert len(set(written)) == len(written) >= 2
