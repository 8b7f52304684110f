"""Images that mislead, floods and resource limits on a real engine, and the verdicts they get."""

from __future__ import annotations

import json
from typing import NamedTuple

import engine
import pytest
from cases import FALSE, TRUE, files_exist, output_contains, run_command
from conftest import statuses

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("clean_engine")

DEBIAN, BUSYBOX = "FROM debian:bookworm-slim", "FROM busybox:stable"
BASH = "RUN ln -sf bash /bin/sh"  # Debian's shell is dash


def script(path: str, *lines: str) -> str:
    """Return a RUN that replaces a program by a bash script."""
    words = " ".join(f"'{line}'" for line in ("#!/bin/bash", *lines))
    return f"RUN printf '%s\\n' {words} >/new && chmod 755 /new && mv -f /new {path}"


def file_contains(path: str, *contains: str) -> tuple:
    return ("file_contains", {"path": path, "contains": list(contains)})


def function(name: str, *commands: str) -> str:
    """Return an ENV that defines a function for bash."""
    body = " ".join(f"{command};" for command in commands)
    return f'ENV BASH_FUNC_{name}%%="() {{ {body} }}"'


SHELL_WORKS = [
    TRUE,
    ("dirs_exist", {"paths": ["/etc"]}),
    file_contains("/etc/passwd", "root:"),
    ("envvar_set", {"name": "HOME"}),
    output_contains("echo needle", "needle"),
]
ON_PATH = ("command_exists", {"name": "sh"})
LIES = [  # these pass only in a shell that lies
    FALSE,
    file_contains("/etc/passwd", "no such words"),
    ("command_exists", {"name": "no-such-command"}),
    ("envvar_set", {"name": "NO_SUCH_VARIABLE"}),
]
FOLDER = files_exist("/etc")
SHELL_MUST_WORK = [  # these pass only with a true result of the shell
    FOLDER,
    output_contains("true", "needle"),
    ("run_command", {"command": "x", "exit_code": "any"}),
]
NOT_BEGUN = "the container ended before the test began"
NOT_STARTED = "the container could not be started: "


class Image(NamedTuple):
    """An image, the tests that pass and fail on it, and what the messages of all failures have."""

    what: str
    lines: list[str]
    passing: list | tuple = ()
    failing: list | tuple = ()
    message: str = ""


IMAGES = [
    # The shell works, whatever else the image has
    Image(
        "no shell for RUN, failing healthcheck, volumes, missing workdir, a user without a name",
        [
            BUSYBOX,
            "WORKDIR /gone",
            "RUN rmdir /gone",
            "USER 12345:12345",
            'SHELL ["/no/such/shell"]',
            "HEALTHCHECK --interval=1s CMD exit 1",
            "VOLUME /data /etc",
            "ONBUILD RUN false",
            "STOPSIGNAL QUIT",
        ],
        passing=[*SHELL_WORKS, ON_PATH],
        failing=LIES,
    ),
    Image(
        "startup files that exit, bash functions of other names",
        [
            DEBIAN,
            BASH,
            "ENV ENV=/root/.shrc BASH_ENV=/root/.bashrc",
            function("x", "false"),
            (
                "RUN for file in /etc/profile /etc/bash.bashrc /root/.profile /root/.bashrc "
                "/root/.shrc; do echo exit 1 >$file; done"
            ),
            'SHELL ["/bin/bash", "-x", "-e", "-c"]',
        ],
        passing=[*SHELL_WORKS, ON_PATH],
        failing=LIES,
    ),
    Image(
        "shell options",
        [DEBIAN, BASH, "ENV SHELLOPTS=xtrace:errexit:nounset:verbose"],
        passing=[*SHELL_WORKS, ON_PATH],
        failing=LIES,
    ),
    Image(
        "a missing library is preloaded",
        [DEBIAN, "ENV LD_PRELOAD=/no/such/lib.so"],
        passing=[*SHELL_WORKS, ON_PATH],
        failing=[*LIES, file_contains("/etc/passwd", "ERROR", "preload", "ld.so")],
    ),
    Image("an empty PATH", [BUSYBOX, "ENV PATH="], passing=SHELL_WORKS, failing=LIES),
    Image(
        "files that the user cannot read",
        [
            BUSYBOX,
            "RUN mkdir -m 700 /closed && touch /closed/file",
            "RUN echo needle >/secret && chmod 600 /secret",
            "USER 12345",
        ],
        passing=[files_exist("/secret")],
        failing=[files_exist("/closed/file"), file_contains("/secret", "needle")],
        message="the image's user",
    ),
    Image(
        "a large file",
        [BUSYBOX, r"RUN (head -c 10000000 /dev/zero | tr '\0' x; printf needle) >/large"],
        passing=[
            {
                "type": "file_contains",
                "params": {"path": "/large", "contains": ["needle"]},
                "timeout": 120,
            }
        ],
    ),
    Image(
        "a program without its library",
        [DEBIAN, "RUN rm /lib/*/libselinux.so.1"],
        failing=[run_command("ls")],
        message="exit code 127: ls: error while loading shared libraries: libselinux.so.1",
    ),
    # The shell lies, or does not work
    Image(
        "the shell prints docker's error",
        [
            DEBIAN,
            script(
                "/bin/sh",
                'echo "docker: Error response from daemon: no space left on device." >&2; exit 125',
            ),
        ],
        failing=SHELL_MUST_WORK,
        message=f"{NOT_BEGUN} (exit code 125): docker: Error",
    ),
    Image(
        "the shell has no library",
        [DEBIAN, "RUN rm /lib/*/libc.so.6"],
        failing=SHELL_MUST_WORK,
        message=f"{NOT_BEGUN} (exit code 127): "
        "/bin/sh: error while loading shared libraries: libc.so.6",
    ),
    Image(
        "the shell is not a program",
        [DEBIAN, "RUN echo x >/new && chmod 755 /new && mv -f /new /bin/sh"],
        failing=SHELL_MUST_WORK,
    ),
    Image(
        "the shell is a directory",
        [DEBIAN, 'RUN ["/bin/bash", "-c", "rm /bin/sh && mkdir /bin/sh"]'],
        failing=SHELL_MUST_WORK,
        message=NOT_STARTED,
    ),
    Image(
        "no shell",
        ["FROM scratch", "COPY Dockerfile /"],
        failing=[*SHELL_MUST_WORK, output_contains("true", "no such file", "OCI", "exec")],
        message=f'{NOT_STARTED}exec: "/bin/sh": stat /bin/sh: no such file or directory',
    ),
    Image(
        "the shell runs nothing",
        [DEBIAN, BASH, "ENV SHELLOPTS=noexec"],
        failing=[TRUE, *LIES],
        message=NOT_BEGUN,
    ),
    Image(
        "the shell prints its input",
        [DEBIAN, BASH, "ENV SHELLOPTS=verbose"],
        failing=[output_contains("x=needle; true", "needle")],
        message="output contains none of 'needle'",
    ),
    # The container cannot be started
    Image(
        "no such user",
        [BUSYBOX, "USER no-such-user"],
        failing=[TRUE, FOLDER, output_contains("true", "unable")],
        message=f"{NOT_STARTED}unable to find user no-such-user",
    ),
    Image(
        "no such group",
        [BUSYBOX, "USER root:no-such-group"],
        failing=[TRUE, FOLDER],
        message=f"{NOT_STARTED}unable to find group",
    ),
    Image(
        "the workdir is a file",
        [BUSYBOX, "WORKDIR /w", "RUN rmdir /w && touch /w"],
        failing=[TRUE, FOLDER],
        message="not a directory",
    ),
    Image(
        "a volume at /dev/null",
        [BUSYBOX, "VOLUME /dev/null"],
        failing=[TRUE, FOLDER],
        message=f"{NOT_STARTED}error reopening /dev/null",
    ),
    Image(
        "a volume at /proc", [BUSYBOX, "VOLUME /proc"], failing=[TRUE, FOLDER], message=NOT_STARTED
    ),
    # Other programs and functions in place of commands, and of those that the checks use
    Image(
        "a function of bash in place of a command",
        [DEBIAN, BASH, function("java", "echo openjdk 17")],
        passing=[ON_PATH],
        failing=[("command_exists", {"name": "java"})],
        message="not found: java",
    ),
    Image(
        "programs that lie on PATH",
        [
            DEBIAN,
            "RUN mkdir /lies",
            script("/lies/liar", "echo needle; exit 0"),
            (
                "RUN for name in cat test echo command printf tr head [; "
                "do ln -s liar /lies/$name; done"
            ),
            "ENV PATH=/lies:/usr/bin:/bin",
        ],
        failing=[file_contains("/etc/passwd", "needle"), *LIES],
    ),
    Image(
        "bash functions that lie",
        [
            DEBIAN,
            BASH,
            *(
                function(name, "builtin echo needle", "return 0")
                for name in ("test", "command", "cat", "[", "echo")
            ),
        ],
        failing=[file_contains("/etc/passwd", "needle"), *LIES],
    ),
    Image(
        "functions that lie on the PATH of dash",
        [
            DEBIAN,
            "RUN mkdir /f && echo 'test() { return 0; }' >/f/test",
            "ENV PATH=/f%func:%builtin:/usr/bin:/bin",
        ],
        failing=[files_exist("/no/such"), *LIES],
    ),
]


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.what)
def test_verdicts_on_image(evaluate, image):
    report = evaluate(image.lines, *image.passing, *image.failing, jobs=2)

    results = report["test_results"]
    expected = ["passed"] * len(image.passing) + ["failed"] * len(image.failing)
    assert [result["status"] for result in results] == expected, results
    # Newer versions of runc add these words.
    messages = [
        result["message"].replace("error during container init: ", "")
        for result in results
        if not result["passed"]
    ]
    assert [message for message in messages if image.message not in message] == []
    assert report["error"] is None


class Command(NamedTuple):
    """A command, its verdict, and a part of the message."""

    what: str
    command: str
    status: str = "passed"
    message: str = ""


FORGED = "the command printed a forged result"
# A process can read the nonce in the arguments of process 1, but cannot prevent the true markers.
NONCE = r"n=$(tr '\0' '\n' </proc/1/cmdline | grep -xE '[0-9a-f]{32}')"
COMMANDS = [
    Command("forges an end", f'{NONCE}; echo "$n=E 0"; exit 1', status="failed", message=FORGED),
    Command(
        "forges a begin and an end",
        f'{NONCE}; echo "$n=B"; echo "$n=E 0"; exit 0',
        status="failed",
        message=FORGED,
    ),
    Command(
        "forges an end later", f'{NONCE}; (sleep 0.3; echo "$n=E 0") & exit 1', status="failed"
    ),
    Command("kills what runs it", f"{NONCE}; kill -9 1; kill -9 $PPID; false", status="failed"),
    Command("kills all others", "kill -9 -1; true"),
    Command("becomes false", "exec false", status="failed", message="exit code 1"),
    Command("becomes true", "exec true"),
    Command("ends at an error", "set -e; false; true", status="failed", message="exit code 1"),
    Command("has a trap for its end", "trap 'exit 0' EXIT; false"),
    Command("has a wrong syntax", "if then fi fi", status="failed", message="exit code 2"),
    Command("does not end its quotes", "'", status="failed", message="exit code 2"),
    Command("leaves processes", "sleep 300 & (sleep 300 >/dev/null &) ; echo needle"),
    Command("closes its output", "exec >&- 2>&-; true"),
    Command(
        "drops its output",
        "exec </dev/null >/dev/null 2>&1; false",
        status="failed",
        message="exit code 1",
    ),
    Command("limits its files", "ulimit -n 3; true"),
    Command("interrupts all", "trap 'exit 0' INT; kill -INT 0; sleep 1; exit 5"),
    Command("terminates all", "trap 'exit 0' TERM; kill -TERM 0; sleep 1; exit 5"),
]
# Exit codes that docker itself uses
EXITS = [
    Command(f"exits with {code}", f"exit {code}", status="failed", message=f"exit code {code}")
    for code in (125, 126, 127, 130, 137)
]
EXITS.append(Command("exits with 256", "exit 256"))


@pytest.mark.parametrize(
    ("lines", "commands"),
    [([BUSYBOX], COMMANDS + EXITS), ([DEBIAN], COMMANDS), ([DEBIAN, BASH], COMMANDS)],
    ids=["busybox", "dash", "bash"],
)
def test_command_cannot_forge_or_lose_its_verdict(evaluate, lines, commands):
    tests = [run_command(command.command, id=command.what) for command in commands]

    report = evaluate(lines, *tests, jobs=2)

    assert statuses(report) == {command.what: command.status for command in commands}
    for command, result in zip(commands, report["test_results"]):
        assert command.message in result["message"], command.what


def test_forged_end_marker_of_running_command_fails(evaluate, monkeypatch):
    monkeypatch.setattr(de, "EXIT_TIMEOUT", 4.0)
    command = f'{NONCE}; echo "$n=E 0"; sleep 600'

    report = evaluate([BUSYBOX], run_command(command, id="forged"))

    assert statuses(report) == {"forged": "failed"}
    assert report["error"] is None


def test_shell_that_only_waits_fails(evaluate, monkeypatch):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 1.0)
    shell = script("/bin/sh", "exec sleep 600")

    report = evaluate([DEBIAN, shell], {**TRUE, "id": "true"}, start_timeout=3)

    assert statuses(report) == {"true": "failed"}
    assert report["error"] is None
    assert report["test_results"][0]["message"].startswith("the test did not begin in time")


# Floods

FLOOD = r"head -c 5000000 /dev/zero | tr '\0' x"


class Output(NamedTuple):
    """A command, and whether its output has the needle."""

    what: str
    command: str
    status: str = "passed"


OUTPUTS = [
    Output("at the beginning", f"echo needle; {FLOOD}; {FLOOD}"),
    Output("in the middle", f"{FLOOD}; echo needle; {FLOOD}"),
    Output("at the end", f"{FLOOD}; {FLOOD}; printf needle"),
    Output("at the end of stderr", f"{FLOOD}; {FLOOD} >&2; printf needle >&2"),
    Output("nowhere", f"{FLOOD}; {FLOOD}", status="failed"),
    Output("after 50 MB", r"head -c 50000000 /dev/zero | tr '\0' x; echo needle"),
    Output("in two writes", "printf nee; sleep 1; printf dle"),
    Output("between NUL bytes", r"printf 'a\000needle\000b'"),
    Output("between bytes that are no UTF-8", r"printf '\377\376needle\300'"),
    Output("around a NUL byte", r"printf 'nee\000dle'", status="failed"),
    Output("between colours", r"printf '\033[31mneedle\033[0m'"),
    Output("in a command of a workflow", "echo '::error::x'; echo '##[error]needle'"),
]


@pytest.fixture
def measured(arguments, report):
    """Evaluate in a process of its own; check its memory in MiB and the report's size."""

    def run(lines, *tests, memory=60, more=()):
        result = engine.measured(*arguments(lines, *tests, more=more))
        assert result.memory < memory, "MiB"
        assert len(json.dumps(report())) < 1_000_000, "the report is too large"
        return report()

    return run


def test_strings_are_found_in_output_of_any_kind_and_size(measured):
    tests = [
        output_contains(output.command, "needle", timeout=120, id=output.what) for output in OUTPUTS
    ]

    report = measured([BUSYBOX], *tests, more=["--jobs=4"])

    assert statuses(report) == {output.what: output.status for output in OUTPUTS}


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

    report = evaluate([BUSYBOX], test, run_options=["--memory=16m"])

    (result,) = report["test_results"]
    assert result["status"] == "failed"
    assert result["message"].endswith("; the container ran out of memory")
