"""Images that mislead, floods and resource limits: each with the verdict that it must get, on a real engine."""

from __future__ import annotations

import json

import engine
import pytest
from cases import FALSE, TRUE, files_exist, output_contains, run_command
from conftest import statuses

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("clean_engine")

DEBIAN, BUSYBOX = "FROM debian:bookworm-slim", "FROM busybox:stable"
BASH = "RUN ln -sf bash /bin/sh"


def script(path: str, *lines: str) -> str:
    """Return a RUN that replaces a program by a bash script."""
    words = " ".join(f"'{line}'" for line in ("#!/bin/bash", *lines))
    return f"RUN printf '%s\\n' {words} >/new && chmod 755 /new && mv -f /new {path}"


def file_contains(path: str, *contains: str) -> tuple:
    return ("file_contains", {"path": path, "contains": list(contains)})


FORGED = "the command printed a forged result"
NEEDLE = output_contains("true", "needle")  # which only a shell that lies can print
ANY_CODE = ("run_command", {"command": "x", "exit_code": "any"})
FOLDER = files_exist("/etc")
ON_PATH = ("command_exists", {"name": "sh"})
# Tests that pass, and tests that fail, on each image that has a working shell
TRUTHS = [
    TRUE,
    ("dirs_exist", {"paths": ["/etc"]}),
    file_contains("/etc/passwd", "root:"),
    ("envvar_set", {"name": "HOME"}),
    output_contains("echo needle", "needle"),
]
LIES = [
    FALSE,
    file_contains("/etc/passwd", "no such words"),
    ("command_exists", {"name": "no-such-command"}),
    ("envvar_set", {"name": "NO_SUCH_VARIABLE"}),
]
LYING_SHELL = [FOLDER, NEEDLE, ANY_CODE]

# What the image is: its Dockerfile, the tests that must pass, the tests that must fail, words of all failures
IMAGES = {
    "no shell for RUN, failing healthcheck, volumes, missing workdir, a user without a name": (
        [BUSYBOX, "WORKDIR /gone", "RUN rmdir /gone", "USER 12345:12345", 'SHELL ["/no/such/shell"]',
         "HEALTHCHECK --interval=1s CMD exit 1", "VOLUME /data /etc", "ONBUILD RUN false", "STOPSIGNAL QUIT"],
        [*TRUTHS, ON_PATH],
        LIES,
        "",
    ),
    "startup files that exit, bash functions of other names": (
        [DEBIAN, BASH, "ENV ENV=/root/.shrc BASH_ENV=/root/.bashrc", 'ENV BASH_FUNC_x%%="() { false; }"',
         "RUN for f in /etc/profile /etc/bash.bashrc /root/.profile /root/.bashrc /root/.shrc; do echo exit 1 >$f; done",
         'SHELL ["/bin/bash", "-x", "-e", "-c"]'],
        [*TRUTHS, ON_PATH],
        LIES,
        "",
    ),
    "shell options": ([DEBIAN, BASH, "ENV SHELLOPTS=xtrace:errexit:nounset:verbose"], [*TRUTHS, ON_PATH], LIES, ""),
    "a missing library is preloaded": (
        [DEBIAN, "ENV LD_PRELOAD=/no/such/lib.so"],
        [*TRUTHS, ON_PATH],
        [*LIES, file_contains("/etc/passwd", "ERROR", "preload", "ld.so")],
        "",
    ),
    "an empty PATH": ([BUSYBOX, "ENV PATH="], TRUTHS, LIES, ""),
    "files that the user cannot read": (
        [BUSYBOX, "RUN mkdir -m 700 /closed && touch /closed/file && echo needle >/secret && chmod 600 /secret",
         "USER 12345"],
        [files_exist("/secret")],
        [files_exist("/closed/file"), file_contains("/secret", "needle")],
        "the image's user",
    ),
    "a large file": (
        [BUSYBOX, "RUN (head -c 10000000 /dev/zero | tr '\\0' x; printf needle) >/large"],
        [{"type": "file_contains", "params": {"path": "/large", "contains": ["needle"]}, "timeout": 120}],
        [],
        "",
    ),
    "a program without its library": (
        [DEBIAN, "RUN rm /lib/*/libselinux.so.1"],
        [],
        [run_command("ls")],
        "exit code 127: ls: error while loading shared libraries: libselinux.so.1",
    ),
    # The shell lies, or does not work
    "the shell prints docker's error": (
        [DEBIAN, script("/bin/sh", 'echo "docker: Error response from daemon: no space left on device." >&2; exit 125')],
        [],
        LYING_SHELL,
        "the container ended before the test began (exit code 125): docker: Error",
    ),
    "the shell has no library": (
        [DEBIAN, "RUN rm /lib/*/libc.so.6"],
        [],
        LYING_SHELL,
        "the container ended before the test began (exit code 127): /bin/sh: error while loading shared libraries: libc.so.6",
    ),
    "the shell is not a program": ([DEBIAN, "RUN echo x >/new && chmod 755 /new && mv -f /new /bin/sh"], [], LYING_SHELL, ""),
    "the shell is a directory": (
        [DEBIAN, 'RUN ["/bin/bash", "-c", "rm /bin/sh && mkdir /bin/sh"]'],
        [],
        LYING_SHELL,
        "the container could not be started: ",
    ),
    "no shell": (
        ["FROM scratch", "COPY Dockerfile /"],
        [],
        [*LYING_SHELL, output_contains("true", "no such file", "OCI", "exec")],
        'the container could not be started: exec: "/bin/sh": stat /bin/sh: no such file or directory',
    ),
    "the shell runs nothing": ([DEBIAN, BASH, "ENV SHELLOPTS=noexec"], [], [TRUE, *LIES], "the container ended before the test began"),
    "the shell prints its input": (
        [DEBIAN, BASH, "ENV SHELLOPTS=verbose"],
        [],
        [output_contains("x=needle; true", "needle")],
        "output contains none of 'needle'",
    ),
    "no such user": (
        [BUSYBOX, "USER no-such-user"],
        [],
        [TRUE, FOLDER, output_contains("true", "unable")],
        "the container could not be started: unable to find user no-such-user",
    ),
    "no such group": ([BUSYBOX, "USER root:no-such-group"], [], [TRUE, FOLDER], "the container could not be started: unable to find group"),
    "the workdir is a file": (
        [BUSYBOX, "WORKDIR /w", "RUN rmdir /w && touch /w"],
        [],
        [TRUE, FOLDER],
        "not a directory",
    ),
    "a volume at /dev/null": (
        [BUSYBOX, "VOLUME /dev/null"],
        [],
        [TRUE, FOLDER],
        "the container could not be started: error reopening /dev/null",
    ),
    "a volume at /proc": ([BUSYBOX, "VOLUME /proc"], [], [TRUE, FOLDER], "the container could not be started: "),
    "a function of bash in place of a command": (
        [DEBIAN, BASH, 'ENV BASH_FUNC_java%%="() { echo openjdk 17; }"'],
        [ON_PATH],
        [("command_exists", {"name": "java"})],
        "not found: java",
    ),
    # Other programs and functions in place of those that the checks use
    "programs that lie on PATH": (
        [DEBIAN, "RUN mkdir /lies", script("/lies/liar", "echo needle; exit 0"),
         "RUN for name in cat test echo command printf tr head [; do ln -s liar /lies/$name; done",
         "ENV PATH=/lies:/usr/bin:/bin"],
        [],
        [file_contains("/etc/passwd", "needle"), *LIES],
        "",
    ),
    "bash functions that lie": (
        [DEBIAN, BASH]
        + [f'ENV BASH_FUNC_{name}%%="() {{ builtin echo needle; return 0; }}"' for name in ("test", "command", "cat", "[", "echo")],
        [],
        [file_contains("/etc/passwd", "needle"), *LIES],
        "",
    ),
    "functions that lie on the PATH of dash": (
        [DEBIAN, "RUN mkdir /f && echo 'test() { return 0; }' >/f/test", "ENV PATH=/f%func:%builtin:/usr/bin:/bin"],
        [],
        [files_exist("/no/such"), *LIES],
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_verdicts_on_image(evaluate, name):
    lines, passing, failing, words = IMAGES[name]
    report = evaluate(lines, *passing, *failing, jobs=2)
    rows = report["test_results"]
    expected = ["passed"] * len(passing) + ["failed"] * len(failing)
    assert [row["status"] for row in rows] == expected, [row["message"] for row in rows]
    # Newer versions of runc add these words.
    messages = [
        row["message"].replace("error during container init: ", "") for row in rows[len(passing) :]
    ]
    assert [message for message in messages if words not in message] == []
    assert report["error"] is None


# A process can read the nonce in the arguments of process 1, but cannot prevent the true markers.
NONCE = "n=$(tr '\\0' '\\n' </proc/1/cmdline | grep -xE '[0-9a-f]{32}')"
COMMANDS = [
    (f'{NONCE}; echo "$n=E 0"; exit 1', "failed", FORGED),
    (f'{NONCE}; echo "$n=B"; echo "$n=E 0"; exit 0', "failed", FORGED),
    (f'{NONCE}; (sleep 0.3; echo "$n=E 0") & exit 1', "failed", ""),
    (f"{NONCE}; kill -9 1; kill -9 $PPID; false", "failed", ""),
    ("kill -9 -1; true", "passed", ""),
    ("exec false", "failed", "exit code 1"),
    ("exec true", "passed", ""),
    ("set -e; false; true", "failed", "exit code 1"),
    ("trap 'exit 0' EXIT; false", "passed", ""),
    ("if then fi fi", "failed", "exit code 2"),
    ("'", "failed", "exit code 2"),
    ("sleep 300 & (sleep 300 >/dev/null &) ; echo needle", "passed", ""),
    ("exec >&- 2>&-; true", "passed", ""),
    ("exec </dev/null >/dev/null 2>&1; false", "failed", "exit code 1"),
    ("ulimit -n 3; true", "passed", ""),
    ("trap 'exit 0' INT; kill -INT 0; sleep 1; exit 5", "passed", ""),
    ("trap 'exit 0' TERM; kill -TERM 0; sleep 1; exit 5", "passed", ""),
]
# Exit codes that docker itself uses
CODES = [(f"exit {code}", "failed", f"exit code {code}") for code in (125, 126, 127, 130, 137)]
CODES += [("exit 256", "passed", "")]


@pytest.mark.parametrize(
    ("lines", "commands"),
    [([BUSYBOX], COMMANDS + CODES), ([DEBIAN], COMMANDS), ([DEBIAN, BASH], COMMANDS)],
    ids=["busybox", "dash", "bash"],
)
def test_command_cannot_forge_or_lose_its_verdict(evaluate, lines, commands):
    report = evaluate(lines, *(run_command(command) for command, _, _ in commands), jobs=2)
    wrong = [
        (command, row["status"], row["message"])
        for row, (command, status, words) in zip(report["test_results"], commands)
        if row["status"] != status or words not in row["message"]
    ]
    assert wrong == []


def test_forged_end_marker_of_running_command_fails(evaluate, monkeypatch):
    monkeypatch.setattr(de, "EXIT_TIMEOUT", 4.0)
    report = evaluate([BUSYBOX], run_command(f'{NONCE}; echo "$n=E 0"; sleep 600', id="forged"))
    assert statuses(report) == {"forged": "failed"}
    assert report["error"] is None


def test_shell_that_only_waits_fails(evaluate, monkeypatch):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 1.0)
    report = evaluate(
        [DEBIAN, script("/bin/sh", "exec sleep 600")], {**TRUE, "id": "true"}, start_timeout=3
    )
    assert statuses(report) == {"true": "failed"}
    assert report["error"] is None
    assert report["test_results"][0]["message"].startswith("the test did not begin in time")


# Floods

FLOOD = "head -c 5000000 /dev/zero | tr '\\0' x"
OUTPUTS = [
    (f"echo needle; {FLOOD}; {FLOOD}", "passed"),
    (f"{FLOOD}; echo needle; {FLOOD}", "passed"),
    (f"{FLOOD}; {FLOOD}; printf needle", "passed"),
    (f"{FLOOD}; {FLOOD} >&2; printf needle >&2", "passed"),
    (f"{FLOOD}; {FLOOD}", "failed"),
    ("head -c 50000000 /dev/zero | tr '\\0' x; echo needle", "passed"),
    ("printf nee; sleep 1; printf dle", "passed"),
    ("printf 'a\\000needle\\000b'", "passed"),
    ("printf '\\377\\376needle\\300'", "passed"),
    ("printf 'nee\\000dle'", "failed"),
    ("printf '\\033[31mneedle\\033[0m'", "passed"),
    ("echo '::error::x'; echo '##[error]needle'", "passed"),
]


@pytest.fixture
def measured(arguments, report):
    """Evaluate in a process of its own; return the report after checks of its size and of the memory in MiB."""

    def run(lines, *tests, memory=60, more=()):
        result = engine.measured(*arguments(lines, *tests, more=more))
        assert result.memory < memory
        assert len(json.dumps(report())) < 1_000_000
        return report()

    return run


def test_strings_are_found_in_output_of_any_kind_and_size(measured):
    tests = [output_contains(command, "needle", timeout=120) for command, _ in OUTPUTS]
    report = measured([BUSYBOX], *tests, more=["--jobs=4"])
    assert [row["status"] for row in report["test_results"]] == [status for _, status in OUTPUTS]


def test_floods_and_bombs_affect_only_their_own_test(measured):
    tests = [
        run_command("yes", id="endless", timeout=1),
        run_command("bomb() { bomb | bomb & }; bomb; sleep 60", id="forks", timeout=1),
        run_command("head -c 2000000000 /dev/zero | tail", id="memory", timeout=60),
        run_command("trap '' INT TERM HUP; while :; do :; done", id="no signals", timeout=1),
        run_command("echo fine", id="after"),
    ]
    options = ["--run-option=--memory=256m", "--run-option=--pids-limit=300", "--verbose"]
    report = measured([BUSYBOX], *tests, more=options)
    found = statuses(report)
    assert found.pop("forks") in ("timeout", "failed")  # a shell may end that cannot fork
    assert found == {
        "endless": "timeout",
        "memory": "failed",
        "no signals": "timeout",
        "after": "passed",
    }
    assert report["error"] is None


def test_build_log_of_5_mb(legacy, measured):
    """BuildKit does not pass on more than 2 MB."""
    lines = [BUSYBOX, "RUN yes some words that a build prints | head -c 5000000"]
    report = measured(lines, TRUE, more=["--verbose"])
    assert report["summary"]["passed_tests"] == 1
    assert len(report["build"]["log"]) < 20_000


@pytest.mark.parametrize(
    ("builder", "flood"), [("legacy", "cat /dev/zero"), ("buildkit", "yes")], indirect=["builder"]
)
def test_endless_build_log(builder, measured, flood):
    report = measured([BUSYBOX, f"RUN {flood}"], TRUE, memory=100, more=["--build-timeout=3"])
    assert report["error"]["kind"] == "build_timeout"


@pytest.mark.no_podman  # which keeps no such record
def test_command_that_exceeds_its_memory_says_so(evaluate):
    test = run_command("tail /dev/zero", timeout=120)
    (row,) = evaluate([BUSYBOX], test, run_options=["--memory=16m"])["test_results"]
    assert row["status"] == "failed"
    assert row["message"].endswith("; the container ran out of memory")
