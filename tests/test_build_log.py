"""What a build's log says: which step failed or was running, and docker's error (section 4.2).

The tables are by builder. tests/logs has logs as docker and podman print them.
"""

from pathlib import Path

import pytest

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


# The step that failed: its kind, and the image that it gets or its title
FAILED = {
    "buildkit": {
        "#2 [1/2] FROM x\n#3 [2/2] COPY a /\n#3 ERROR: x\n#2 CANCELED\n": "instruction COPY a /",
        "#2 [1/2] RUN a\n#3 [b 1/1] FROM x\n#3 ERROR: no\n#2 CANCELED\n": "image x",
        "#2 [internal] load metadata for docker.io/x:1\n#2 ERROR: no\n": "image docker.io/x:1",
        "#2 [linux/arm64 internal] load metadata for a.b/x\n#2 ERROR: no\n": "image a.b/x",
        "#2 [context base] load metadata for a.b/x\n#2 ERROR: no\n": "image a.b/x",
        "#2 resolve image config for docker-image://a.b/x:1\n#2 ERROR: no\n": "image a.b/x:1",
        "#2 docker-image://a.b/x:1@sha256:1d\n#2 ERROR: no\n": "image a.b/x:1@sha256:1d",
        "#2 https://a.b/x\n#2 ERROR: no\n": "instruction https://a.b/x",
        "#2 [internal] load build context\n#2 ERROR: no\n": "internal [internal] load build context",
        # Two fail; docker's error quotes one.
        "#2 [a 2/2] RUN a\n#3 [b 2/2] RUN b\n#2 ERROR: first\n#3 ERROR: second\nERROR: x: second\n": (
            "instruction RUN b"
        ),
        "#2 [1/1] FROM scratch\n#2 ERROR: no\n": "instruction FROM scratch",
        "ERROR: dockerfile parse error\n": "internal ",
    },
    "legacy": {
        "Step 1/2 : FROM x\nStep 2/2 : COPY a /\nCOPY failed\n": "instruction COPY a /",
        "Step 1/2 : RUN a\nStep 2/2 : FROM --platform=a/b x\nno such host\n": "image x",
        "Step 1/1 : COPY --from=a.b/x /a /\ninvalid from flag value a.b/x: no\n": "image a.b/x",
        "Step 1/1 : FROM x\n# Executing 1 build trigger\ninvalid from flag value a.b/x: no\n": (
            "image a.b/x"
        ),
        "Step 1/1 : COPY --from=7 /a /\ninvalid from flag value 7: no\n": (
            "instruction COPY --from=7 /a /"
        ),
        "Error response from daemon: dockerfile parse error line 2\n": "internal ",
    },
    "buildah": {
        "STEP 1/2: FROM x\nSTEP 2/2: COPY a /\nError: no\n": "instruction COPY a /",
        "[1/2] STEP 1/1: FROM x\nError: no\n": "image x",
        'STEP 1/1: COPY --from=a.b/x /a /\nError: building at STEP "COPY --from=a.b/x /a /": no stage '
        "or image found with that name\n": "image a.b/x",
        "STEP 1/1: COPY --from=a.b/x:1 /a /\nError: COPY --from=a.b/x:1: no stage or image found with that name\n": (
            "image a.b/x:1"
        ),
    },
}
# The one that was running at the time limit
LATE = {
    "buildkit": {
        "#1 [1/2] COPY a /\n#2 [2/2] RUN b\n#1 DONE 0.1s\n": "instruction RUN b",
        "#1 [1/2] RUN a\n#2 [b 1/2] FROM x\n#2 DONE 0.1s\n#1 0.2 #1 DONE 0.1s\n": "instruction RUN a",
        "#1 [1/2] RUN a\n#1 DONE 0.1s\n#2 [b 1/1] FROM x\n": "image x",
        "#1 [1/2] RUN a\n#1 CACHED\n#2 exporting to image\n": "internal exporting to image",
        "#1 [2/2] ONBUILD RUN a\n": "instruction ONBUILD RUN a",
        "#0 building with default instance\n": "internal ",
        "#1 [1/1] RUN a\nStep 1/1 : FROM x\n": "instruction RUN a",
    },
    "legacy": {
        "Step 1/2 : FROM x\n": "image x",
        "Step 1/2 : ARG A\nStep 2/2 : FROM x\n": "image x",
        "Step 1/2 : RUN a\nStep 2/2 : FROM x\n": "instruction FROM x",  # perhaps an imitation
        "Step 1/1 : FROM x\n# Executing 1 build trigger\n": "instruction Executing 1 build trigger",
        "Step 1/1 : RUN a\n#1 [1/1] FROM b\n": "instruction RUN a",
        "Sending build context to Docker daemon\n": "internal ",
    },
    "buildah": {
        "STEP 1/2: FROM x\n": "image x",
        "STEP 1/2: FROM x\nSTEP 2/2: RUN a\n": "instruction RUN a",
    },
}
# The exit code of a RUN
RUN_CODES = {
    "buildkit": {
        "#2 [1/1] RUN a\n#2 ERROR: process a did not complete successfully: exit code: 3\n"
        "ERROR: failed to solve: process a did not complete successfully: exit code: 3\n": 3,
        "#2 [1/1] RUN a\nexecutor failed running [/bin/sh -c a]: exit code: 137\n": 137,
        "#2 [1/1] RUN a\nERROR: process a did not complete successfully: cannot allocate memory\n": (
            137
        ),
        "#2 [1/1] COPY a /\nERROR: exit code: 3\n": None,
    },
    "legacy": {
        "Step 1/1 : RUN a\nThe command '/bin/sh -c a' returned a non-zero code: 3\n": 3,
        "Step 1/1 : RUN a\na returned a non-zero code: 3\nSee 'docker build --help'\n": 3,
        "Step 1/1 : RUN a\nThe command 'a\nSee 'x' returned a non-zero code: 3\n": 3,
        f"Step 1/1 : RUN a\nThe command '{'a' * 10**6}' returned a non-zero code: 3\n": 3,
        "Step 1/1 : COPY a /\na returned a non-zero code: 3: b\n": None,
    },
    "buildah": {
        'STEP 1/1: RUN a\nError: building at STEP "RUN a": while running runtime: exit status 255\n': (
            255
        ),
        'STEP 1/1: COPY x /\nError: building at STEP "COPY x": exit code: 3\n': None,
    },
}
# Whether docker lost its engine
LOST = {
    "buildkit": {
        "#2 [2/2] RUN a\n#2 0.1 b\nERROR: failed to receive status: error reading: EOF\n": True,
        "#1 [internal] load build context\nunexpected EOF\n": True,
        "#2 [2/2] RUN a\n#2 ERROR: unexpected EOF\nERROR: unexpected EOF\n": False,
        "#2 [a 1/1] FROM x\n#3 [b 1/1] RUN b\n#2 ERROR: EOF\nERROR: EOF\n": False,
        "#0 building with x\n#1 [internal] load\n#1 DONE 0.1s\nERROR: dockerfile parse error\n": False,
        "#2 [2/2] RUN a\nERROR: process a did not complete successfully: exit code: 3\n": False,
        "#2 [2/2] RUN a\n#2 CANCELED\ncontext canceled\n": True,
        '#2 [2/2] COPY a /\n#2 CANCELED\nERROR: failed to solve: "/a": not found\n': False,
    },
    "legacy": {
        "Step 1/1 : RUN a\nerror during connect: EOF\n": True,
        "Step 1/1 : COPY a /\nunexpected EOF\n": True,
        "Step 1/1 : COPY a /\nCOPY failed: unexpected EOF\n": False,
        "Step 1/1 : FROM x\n1d: Pulling fs layer\nunexpected EOF\n": False,
    },
    "buildah": {"STEP 1/1: COPY a /\nError: unexpected EOF\n": False},
}


def kind_and_name(build):
    step = build.step
    return f"{step.kind} {step.image if step.kind == de.IMAGE else step.title}"


READINGS = [
    (FAILED, 1, kind_and_name),
    (LATE, None, kind_and_name),
    (RUN_CODES, 1, lambda build: build.run_code),
    (LOST, 1, lambda build: build.is_lost),
]


@pytest.mark.parametrize("builder", de.BUILDERS)
@pytest.mark.parametrize("is_alone", [False, True])
def test_log_says_which_step_failed_or_was_running(builder, is_alone, monkeypatch):
    """The entries of other builders are not needed for it."""
    if is_alone:
        monkeypatch.setattr(de, "BUILDERS", {builder: de.BUILDERS[builder]})

    for table, exit_code, read in READINGS:
        found = {text: read(read_log(text, exit_code)) for text in table[builder]}
        assert found == table[builder]


LOGS = {  # of a RUN that fails, unless another step does
    "legacy-run": ("legacy", 3),
    "buildkit-20.10-run": ("buildkit", 3),
    "buildx-28.5-run": ("buildkit", 3),
    "buildx-28.5-download": ("buildkit", None),
    "podman-5.8-run": ("buildah", 3),
    "podman-5.8-from": ("buildah", None),
}


@pytest.mark.parametrize("name", LOGS)
def test_recorded_log_says_the_builder_the_exit_code_and_the_output_of_a_run(name):
    log = Path(__file__).with_name("logs").joinpath(f"{name}.log").read_text()

    build = read_log(log)

    assert (build.builder.name, build.run_code) == LOGS[name]
    assert build.run_code is None or build.output == ["one", "E: cause", "bye"]


ERRORS = {  # the end of a log, and docker's error
    "Sending build context\nError response from daemon: a\n": "Error response from daemon: a",
    "Step 1/2 : RUN x\nERROR: a\nStep 2/2 : COPY x /\nCOPY failed: b\n": "COPY failed: b",
    "ERROR: a\n\nView build details: docker-desktop://x\n": "ERROR: a",
    "#2 DONE\nError: a\nb\n": "Error: a b",
    "": "docker build: exit code 1",
}


def test_log_says_dockers_error():
    assert {log: read_log(log).error for log in ERRORS} == ERRORS


WORDS = {  # a log in which a name has newlines, and the beginning of docker's words
    "Step 1/1 : COPY a /\nCOPY failed: stat a\nerror during connect: EOF: no such file\n": "COPY failed",
    "Step 1/1 : COPY a /\nError response from daemon: stat a\nunexpected EOF: no\n": "stat a",
    "Step 1/1 : RUN true\n ---> Running in 1d\nOCI runtime create failed: stat a\nunexpected EOF: no\n": (
        "OCI runtime"
    ),
    "Step 1/1 : COPY a /\nCOPY failed: stat " + "unexpected EOF\n" * 200 + ": no\n": "COPY failed",
    '#5 [2/2] COPY a /\n#5 ERROR: "/a\nshort read: ": not found\n------\nshort read: ": no\n': '"/a',
    "STEP 1/1: COPY a /\nwarning\nError: building at STEP\n": "building at STEP",
}


def test_name_with_newlines_does_not_begin_dockers_words():
    for log, begin in WORDS.items():
        build = read_log(log)

        assert build.full_error.startswith(begin)
        assert not build.is_lost


def test_log_keeps_its_beginning_and_its_end():
    text = "".join(f"line {number}\n" for number in range(10**5))

    begin, end = read_log(text).log.split("\n[...]\n")

    assert text.startswith(begin)
    assert text.endswith(end)
    assert len(begin) + len(end) == pytest.approx(de.LOG_HEAD + de.LOG_TAIL, abs=20)


def test_last_suspicious_line_of_each_kind_is_kept_however_far_back():
    flood = "".join(f"gcc -Werror -c {number}.c\n" for number in range(10**4))
    log = f"Step 1/1 : RUN make\nold: Cannot fork\nnew: Cannot fork\ncc: Killed\n{flood}"

    build = read_log(f"{log}The command 'make' returned a non-zero code: 2\n")

    assert de.suspicion(build.output) == ("limits", "new: Cannot fork")
    assert build.output[:2] == ["new: Cannot fork", "cc: Killed"]
    assert len(build.output) <= de.OUTPUT_LINES + 2


def test_line_is_read_to_its_end_after_a_progress_bar():
    bar = "".join(f"\r {percent}%" for percent in range(999))

    build = read_log(f"Step 1/1 : RUN curl\n{bar}\rcurl: (18) transfer closed\nfailed\n")

    assert de.suspicion(build.output)[0] == "network"


# What the clock of --build-timeout counts at the end of a log
EXECUTING = {
    "Step 1/2 : ARG a\nStep 2/2 : FROM x\n": False,
    "Step 1/2 : FROM x\nStep 2/2 : COPY a /\n": True,
    "Step 1/2 : RUN a\nStep 2/2 : FROM x\n": True,
    "STEP 1/2: FROM x\nSTEP 2/2: RUN a\n": True,
    "#1 [1/2] RUN a\n#2 [b 1/1] FROM x\n": True,
    "#1 [1/2] RUN a\n#1 DONE 1.0s\n#2 [b 1/1] FROM x\n": False,
    "#1 [internal] load build context\n": False,
}


def test_time_limit_counts_while_an_instruction_runs():
    assert {text: fed(text).phase == de.INSTRUCTION for text in EXECUTING} == EXECUTING


UNREPEATABLE = {
    "Step 1/2 : FROM x\nStep 2/2 : COPY a /\nCOPY failed": True,
    "#5 [2/3] WORKDIR /a\n#5 ERROR: x": True,
    "Error response from daemon: dockerfile parse error": True,
    "Step 1/3 : FROM x\nStep 2/3 : RUN true\nStep 3/3 : COPY a /\nCOPY failed": False,
    "#5 [2/3] ADD https://example.org/x /\n#6 [3/3] COPY a /\n#6 ERROR: x": False,
    "#5 https://example.org/x\n#6 [3/3] COPY a /\n#6 ERROR: x": False,
    "Step 1/1 : FROM x\n# Executing 1 build trigger\n": False,
    # BuildKit made the RUN for another build.
    "#1 [1/2] FROM x\nexecutor failed running [a]: exit code: 1": False,
}


def test_build_is_repeatable_if_neither_run_nor_add_began():
    assert {log: read_log(log).is_repeatable for log in UNREPEATABLE} == UNREPEATABLE


def test_log_of_buildkit_has_the_digests_of_bases_and_counts_cached_instructions():
    log = (
        "#1 resolve image config for docker-image://docker.io/docker/dockerfile:1\n"
        "#2 docker-image://docker.io/docker/dockerfile:1@sha256:2e\n#2 CACHED\n"
        "#3 [internal] load metadata for docker.io/library/x:1\n#3 DONE 0.1s\n"
        "#4 [1/3] FROM docker.io/library/x:1@sha256:1d\n#4 CACHED\n"
        "#5 [2/3] RUN a\n#5 CACHED\n#6 [3/3] COPY b /\n#6 DONE 0.1s\n"
    )

    build = read_log(log, exit_code=0)

    assert build.base_images == ["docker.io/library/x:1@sha256:1d"]
    assert build.cached_steps == 1
    assert build.has_frontend


# What a Dockerfile prints


RUN_FAILS = 'process "y" did not complete successfully: exit code: 1'
PRINTERS = {  # the log of a RUN that fails: what is before its output, in each line, and after it
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
@pytest.mark.parametrize("builder", PRINTERS)
def test_nothing_that_a_run_prints_gains_it_anything(builder, what):
    begin, prefix, end = PRINTERS[builder]
    log = begin + prefix + FORGED[what].replace("\n", f"\n{prefix}") + "\n"

    failed, late = read_log(log + end), read_log(log, exit_code=None)

    assert failed.builder.name == builder
    assert failed.error in end
    assert (failed.ending, failed.run_code, failed.is_lost) == (de.RUN_FAILED, 1, False)
    assert late.step.kind == de.INSTRUCTION
    assert not late.is_repeatable
