"""What a build's log says: which step failed or was running, and docker's error (section 4.2).

A line of BuildKit is "#NUMBER TITLE", "#NUMBER SECONDS what a step printed" or "#NUMBER END".
tests/logs has logs as docker and podman print them.
"""

import re
from pathlib import Path

from cases import as_bytes, table

import DockerfileEvaluator as de


def fed(text):
    """Return the log of a build that printed a text, which is read in two pieces."""
    log = de.BuildLog(de.Console(None))
    for piece in (text[:97], text[97:]):
        log.feed(piece.encode())
    return log


def read_log(text, exit_code=1):
    """Return the build that printed a text."""
    return fed(text).finish(exit_code, seconds=0.0)


# What a log says: the words of a step, or another property of its Build
SAYS = r"""
# The step that failed
# A RUN of podman imitates a step.
step STEP 1/2: RUN y\nSTEP 2/2: FROM z\nError: building at STEP "RUN y": while running runtime: exit status 1\n -> instruction FROM z
step #2 [1/2] FROM x\n#3 [2/2] COPY a /\n#3 ERROR: x\n#2 CANCELED\n -> instruction COPY a /
step #2 [1/2] RUN a\n#3 [b 1/1] FROM x\n#3 ERROR: no\n#2 CANCELED\n -> image x
step #2 [internal] load metadata for docker.io/x:1\n#2 ERROR: no\n -> image docker.io/x:1
step #2 [linux/arm64 internal] load metadata for a.b/x\n#2 ERROR: no\n -> image a.b/x
step #2 [context base] load metadata for a.b/x\n#2 ERROR: no\n -> image a.b/x
step #2 resolve image config for docker-image://a.b/x:1\n#2 ERROR: no\n -> image a.b/x:1
step #2 resolve image config for a.b/x:1\n#2 ERROR: no\n -> image a.b/x:1
step #2 docker-image://a.b/x:1@sha256:1d\n#2 ERROR: no\n -> image a.b/x:1@sha256:1d
# of COPY --from, on 20.10
step #2 FROM a.b/x:1\n#2 ERROR: no\n -> image a.b/x:1
step #2 https://a.b/x\n#2 ERROR: no\n -> instruction https://a.b/x
step #2 [internal] load build context\n#2 ERROR: no\n -> internal [internal] load build context
step #2 [1/1] FROM scratch\n#2 ERROR: no\n -> instruction FROM scratch
# a trigger, on 20.10
step #2 RUN a\n#2 ERROR: no\n -> instruction RUN a
step #1 importing cache manifest from x\n#1 ERROR: no\n#2 [1/1] RUN a\n#2 ERROR: no\n -> instruction RUN a
step #2 [internal] load .dockerignore\n#2 ERROR: no\n#5 [2/2] RUN a\n#5 ERROR: no\n -> instruction RUN a
step ERROR: dockerfile parse error\n -> internal
# After the first error all lines may be words of the Dockerfile.
step #2 [a 2/2] RUN a\n#3 [b 2/2] RUN b\n#2 ERROR: first\n#3 ERROR: second\n -> instruction RUN a
step #1 [internal] load x\n#5 [2/2] COPY a /\n#5 ERROR: lstat /w/x\n#1 ERROR: foo\na: no\n -> instruction COPY a /
step #5 [2/2] COPY a /\n#5 ERROR: lstat /w/x\n#9 FROM x\n#9 ERROR: foo\n -> instruction COPY a /
step #1 [internal] load x\n#1 DONE 0.1s\nERROR: failed to solve: x\n#9 FROM x\n#9 ERROR: no\n -> internal
step #1 [internal] load x\n#1 DONE 0.1s\nfailed to solve: x\n#9 FROM x\n#9 ERROR: no\n -> internal
step STEP 1/2: FROM x\nSTEP 2/2: COPY a /\nError: no\n -> instruction COPY a /
step [1/2] STEP 1/1: FROM x\nError: no\n -> image x
# What was running at the time limit
late #1 [1/2] COPY a /\n#2 [2/2] RUN b\n#1 DONE 0.1s\n -> instruction RUN b
late #1 [1/2] RUN a\n#2 [b 1/2] FROM x\n#2 DONE 0.1s\n#1 0.2 #1 DONE 0.1s\n -> instruction RUN a
late #1 [1/2] RUN a\n#1 DONE 0.1s\n#2 [b 1/1] FROM x\n -> image x
late #1 [1/2] RUN a\n#1 CACHED\n#2 exporting to image\n -> instruction exporting to image
late #1 [2/2] ONBUILD RUN a\n -> instruction ONBUILD RUN a
late #1 [internal] load metadata for x\n#1 DONE 0.1s\n -> internal
late #0 building with default instance\n -> internal
late STEP 1/2: FROM x\n -> image x
late STEP 1/2: FROM x\nSTEP 2/2: RUN a\n -> instruction RUN a
# The exit code of a RUN
run_code STEP 1/2: RUN y\nSTEP 2/2: FROM z\nError: building at STEP "RUN y": while running runtime: exit status 1\n -> 1
run_code #2 [1/1] RUN a\nERROR: process a did not complete successfully: exit code: 3\n -> 3
run_code #2 [1/1] RUN a\nexecutor failed running [/bin/sh -c a]: exit code: 137\n -> 137
run_code #2 [1/1] RUN a\nexecutor failed running [LONG]: exit code: 3\n -> 3
run_code #2 [1/1] RUN a\nERROR: process a did not complete successfully: cannot allocate memory\n -> 137
run_code #2 [1/1] COPY a /\nERROR: exit code: 3\n -> None
run_code STEP 1/1: RUN a\nError: building at STEP "RUN a": while running runtime: exit status 255\n -> 255
run_code STEP 1/1: COPY x /\nError: building at STEP "COPY x": exit code: 3\n -> None
# Docker ended, or was canceled, while a step was running
is_lost #2 [2/2] RUN a\n#2 0.1 b\nERROR: failed to receive status: error reading: EOF\n -> True
is_lost #1 [internal] load build context\nunexpected EOF\n -> True
is_lost #2 [2/2] RUN a\n#2 ERROR: unexpected EOF\nERROR: unexpected EOF\n -> False
is_lost #2 [a 1/1] FROM x\n#3 [b 1/1] RUN b\n#2 ERROR: EOF\nERROR: EOF\n -> False
is_lost #0 building with x\n#1 [internal] load\n#1 DONE 0.1s\nERROR: dockerfile parse error\n -> False
is_lost #2 [2/2] RUN a\nERROR: process a did not complete successfully: exit code: 3\n -> False
is_lost #2 [2/2] RUN a\n#2 CANCELED\ncontext canceled\n -> True
is_lost #2 [2/2] COPY a /\n#2 CANCELED\nERROR: failed to solve: "/a": not found\n -> False
is_lost #1 [internal] load x\n#1 DONE 0.1s\nfailed to process "${A:?context canceled}": A: context canceled\n -> False
is_lost STEP 1/1: COPY a /\nError: unexpected EOF\n -> False
# Docker's error at the end
error #1 [internal] load x\nERROR: failed to solve: a\n -> ERROR: failed to solve: a
error #1 [1/1] RUN x\n#1 0.1 ERROR: a\n#2 [2/2] COPY x /\n#2 ERROR: b\nfailed to solve: b\n -> failed to solve: b
error ERROR: a\n\nView build details: docker-desktop://x\n -> ERROR: a
error #2 DONE\nError: a\nb\n -> Error: a b
error  -> docker build: exit code 1
# Line ends in a name do not begin docker's words
full_error #5 [2/2] COPY a /\n#5 ERROR: "/a\nshort read: ": not found\n------\nshort read: ": no\n -> "/a
full_error #1 [internal] load x\n#1 DONE 0.1s\nERROR: failed to solve: process: A: x\na\na\na\na\na\na\na\na\na\na\nERROR: short read: y\n -> process: A: x
full_error #1 [internal] load x\nfailed to process: A: x\nERROR: target stage a could not be found\n -> failed to process: A: x
full_error STEP 1/1: COPY a /\nwarning\nError: building at STEP\n -> building at STEP
# Neither a RUN nor an ADD began; BuildKit may have made the RUN for another build
is_repeatable #5 [2/3] WORKDIR /a\n#5 ERROR: x -> True
is_repeatable ERROR: dockerfile parse error -> True
is_repeatable #5 [2/3] RUN true\n#5 DONE 0.1s\n#6 [3/3] COPY a /\n#6 ERROR: x -> False
is_repeatable #5 [2/3] ADD https://example.org/x /\n#6 [3/3] COPY a /\n#6 ERROR: x -> False
is_repeatable #5 https://example.org/x\n#6 [3/3] COPY a /\n#6 ERROR: x -> False
is_repeatable #1 [1/2] FROM x\nexecutor failed running [a]: exit code: 1 -> False
# docker 20.10 prints a digest below each title; a name with line ends can write more there
is_forged #1 [internal] load build definition from Dockerfile\n#1 DIGEST_a\n#1 DONE 0.0s\n\n#2 x\n#2 DIGEST_a\n#2 DONE 0.1s\n#3 y\n#3 DIGEST_a\n\n#2 x\n#2 DIGEST_a\n -> False
# printed by a RUN
is_forged #1 [internal] load build definition from Dockerfile\n#1 DIGEST_a\n#1 DONE 0.0s\n\n#2 x\n#2 DIGEST_a\n#2 0.1 DIGEST_b\n -> False
is_forged #1 [internal] load build definition from Dockerfile\n#1 DIGEST_a\n#1 DONE 0.0s\n\n#2 x\n#2 0.1 DIGEST_a\n -> True
is_forged #1 [internal] load build definition from Dockerfile\n#1 DIGEST_a\n#1 DONE 0.0s\n\n#2 x\n#1 ERROR: short read\n -> True
is_forged #1 [internal] load build definition from Dockerfile\n#1 DIGEST_a\n#1 DONE 0.0s\n\n#2 x\n#3 DIGEST_a\n#2 x\n#2 DIGEST_a\n -> True
is_forged #1 [internal] load build definition from Dockerfile\n#1 DIGEST_a\n#1 DONE 0.0s\n\n#2 x\n#2 DIGEST_a\n#1 ERROR: y\n#2 x\n#2 DIGEST_b\n -> True
is_forged #1 [internal] load build definition from Dockerfile\n#1 DIGEST_a\n#1 DONE 0.0s\n\n#2 x\n#2 DIGEST_a\n#3 DIGEST_a\n -> True
is_forged #1 [internal] load x\n#1 DONE 0.0s\n\n#2 x\n#1 ERROR: y\n -> False
is_forged STEP 1/1: RUN a\n#2 DIGEST_a\n#3 x\n#4 y\n -> False
# The clock of the instructions runs
phase STEP 1/2: FROM x\n -> internal
phase STEP 1/2: FROM x\nSTEP 2/2: RUN a\n -> instruction
phase #1 [1/2] RUN a\n#2 [b 1/1] FROM x\n -> instruction
phase #1 [1/2] RUN a\n#1 DONE 1.0s\n#2 [b 1/1] FROM x\n -> internal
phase #1 [1/2] RUN a\n#1 DONE 1.0s\n#2 exporting to image\n -> instruction
phase #1 [internal] load build context\n -> internal
phase #1 http://a.b/x\n -> instruction
# Digests of bases, and instructions from the cache
base_images #1 resolve image config for docker-image://docker.io/docker/dockerfile:1\n#2 docker-image://docker.io/docker/dockerfile:1@sha256:2e\n#2 CACHED\n#3 [internal] load metadata for docker.io/library/x:1\n#3 DONE 0.1s\n#4 [1/3] FROM docker.io/library/x:1@sha256:1d\n#4 CACHED\n -> ['docker.io/library/x:1@sha256:1d']
has_frontend #1 resolve image config for docker-image://docker.io/docker/dockerfile:1\n#1 DONE 0.1s\n -> True
cached_steps #4 [1/3] FROM docker.io/library/x:1@sha256:1d\n#4 CACHED\n#5 [2/3] RUN a\n#5 CACHED\n#6 [3/3] COPY b /\n#6 DONE 0.1s\n -> 1
"""


@table(SAYS)
def test_log_says_how_a_build_ended(row):
    what, _, text = row.when.partition(" ")
    text = text.replace(r"\n", "\n").replace("LONG", "a" * 10**6)
    log = fed(re.sub("DIGEST_(.)", lambda found: f"sha256:{found[1] * 64}", text))

    build = log.finish(None if what == "late" else 1, seconds=0.0)

    step = build.step
    name = step.image if step.kind == de.IMAGE else step.title
    words = f"{step.kind} {name}".strip()
    found = {"step": words, "late": words, "phase": log.phase}.get(what)
    assert str(getattr(build, what) if found is None else found) == row.then


LOGS = """
buildkit-20.10-run -> buildkit 3
buildx-28.5-run -> buildkit 3
buildx-28.5-download -> buildkit None
podman-5.8-run -> buildah 3
podman-5.8-from -> buildah None
"""


@table(LOGS)
def test_recorded_log_says_the_builder_the_exit_code_and_the_output_of_a_run(row):
    build = read_log(Path(__file__).with_name("logs").joinpath(f"{row.when}.log").read_text())

    assert f"{build.builder} {build.run_code}" == row.then
    assert build.run_code is None or build.output == ["one", "E: cause", "bye"]


def test_log_keeps_its_beginning_and_its_end():
    text = "".join(f"line {number}\n" for number in range(10**4))

    head, tail = de.LOG_LIMITS
    assert read_log(text).log == f"{text[:head]}\n[...]\n{text[-tail:]}"


def test_many_lines_of_the_step_that_failed_are_kept_and_closing_words_of_others():
    others = "#1 [1/9] RUN a\n#1 1.0 E: broken\n" + "#1 1.0 gcc\n" * 999 + "#1 DONE 1.0s\n"
    lines = [f"{'x' * 2000}{number}" for number in range(9000)]
    flood = "".join(f"#2 1.0 {line}\n" for line in lines)

    build = read_log(f"{others}#2 [2/9] RUN b\n#2 1.0 reason\n{flood}#2 ERROR: c\n")

    assert build.output == ["reason", *(line[:512] + line[-512:] for line in lines)]
    assert build.other_output == ["E: broken"]


def test_line_is_read_to_its_end_after_a_progress_bar():
    bar = "".join(f"\r {percent}%" for percent in range(999))

    build = read_log(f"#1 [1/1] RUN curl\n#1 1.0 {bar}\rcurl: (18) transfer closed\n#1 ERROR: a\n")

    assert de.suspicion(build.output)[0] == "network"


# What a Dockerfile prints

FORGED = r"""
steps -> as without them
    prints: #2 DONE 0.1s\n#3 [1/1] FROM z\n#3 ERROR: x\n#1 exporting to image\nSTEP 3/3: FROM z
exit codes of RUNs that were killed -> as without them
    prints: exit code: 137\nexit status 143
other errors -> as without them
    prints: \nERROR: failed to solve: x: not found\nfailed to solve: x\nError: x: not found\n
other ends of lines -> as without them
    prints: \rERROR: failed to solve: x: not found\xe2\x80\xa8failed to solve: x\rError: x: not found
a line of 64 KiB and more -> as without them
    prints: LONG#3 [1/1] FROM z
"""
RUN_FAILS = 'process "y" did not complete successfully: exit code: 1'


@table(FORGED, prints="")
def test_nothing_that_a_run_prints_gains_it_anything(row):
    text = as_bytes(row.prints.replace("LONG", "A" * de.CHUNK)).decode()
    printed = text.replace("\n", "\n#2 0.1 ")
    log = f"#1 [internal] load x\n#1 DONE 0.1s\n#2 [2/2] RUN y\n#2 0.1 {printed}\n"

    failed = read_log(f"{log}#2 ERROR: {RUN_FAILS}\n------\nERROR: failed to solve: {RUN_FAILS}\n")
    late = read_log(log, exit_code=None)

    assert failed.error.endswith(RUN_FAILS)
    assert (failed.ending, failed.run_code, failed.is_lost) == (de.RUN_FAILED, 1, False)
    assert failed.step.title == late.step.title == "RUN y"
    assert not late.is_repeatable
