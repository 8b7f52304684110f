"""Images and commands that mislead, floods and bombs: the verdicts they get on a real engine."""

from __future__ import annotations

import json
from typing import NamedTuple, Sequence

import engine
import pytest
from cases import FALSE, TRUE, files_exist, output_contains, read_table, run_command
from conftest import messages, outcome, statuses

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("clean_engine")

DEBIAN, BUSYBOX = "FROM debian:bookworm-slim", "FROM busybox:stable"
BASH = "RUN ln -sf bash /bin/sh"  # Debian's shell is dash


def script(path, *lines):
    """Return a RUN that replaces a program by a bash script."""
    words = " ".join(f"'{line}'" for line in ("#!/bin/bash", *lines))
    return f"RUN printf '%s\\n' {words} >/new && chmod 755 /new && mv -f /new {path}"


def file_contains(path, *contains):
    return ("file_contains", {"path": path, "contains": list(contains)})


def function(name, *commands):
    """Return an ENV that defines a function for bash."""
    body = " ".join(f"{command};" for command in commands)
    return f'ENV BASH_FUNC_{name}%%="() {{ {body} }}"'


SHELL_WORKS = [
    ("command_exists", {"name": "sh"}),
    TRUE,
    ("dirs_exist", {"paths": ["/etc"]}),
    file_contains("/etc/passwd", "root:"),
    ("envvar_set", {"name": "HOME"}),
    output_contains("echo needle", "needle"),
]
LIES = [  # these pass only in a shell that lies
    FALSE,
    file_contains("/etc/passwd", "no such words"),
    ("command_exists", {"name": "no-such-command"}),
    ("envvar_set", {"name": "NO_SUCH_VARIABLE"}),
]
SHELL_MUST_WORK = [  # these pass only with a true result of the shell
    TRUE,
    output_contains("true", "needle", "no such file", "OCI", "exec", "unable"),
    ("run_command", {"command": "x", "exit_code": "any"}),
]


class Image(NamedTuple):
    """An image, and the tests that pass and fail on it."""

    what: str
    lines: Sequence
    passing: Sequence = ()
    failing: Sequence = ()


def works(what, *lines):
    """Return an image whose shell works, whatever else it has."""
    return Image(what, lines, SHELL_WORKS, LIES)


def fails(what, *lines):
    """Return an image whose shell lies or does not work, or whose containers do not start."""
    return Image(what, lines, failing=SHELL_MUST_WORK)


IMAGES = [
    works(
        "no shell for RUN, failing healthcheck, volumes, missing workdir, a user without a name",
        BUSYBOX,
        "WORKDIR /gone",
        "RUN rmdir /gone",
        "USER 12345:12345",
        'SHELL ["/no/such/shell"]',
        "HEALTHCHECK --interval=1s CMD exit 1",
        "VOLUME /data /etc",
        "ONBUILD RUN false",
        "STOPSIGNAL QUIT",
    ),
    works(
        "shell options, startup files that exit, functions of other names, a missing library",
        DEBIAN,
        BASH,
        "RUN for file in /etc/profile /etc/bash.bashrc /root/.profile /root/.bashrc /root/.shrc; "
        "do echo exit 1 >$file; done",
        'SHELL ["/bin/bash", "-x", "-e", "-c"]',
        "ENV ENV=/root/.shrc BASH_ENV=/root/.bashrc SHELLOPTS=xtrace:errexit:nounset:verbose",
        function("x", "false"),
        "ENV LD_PRELOAD=/no/such/lib.so",
    ),
    Image("an empty PATH", [BUSYBOX, "ENV PATH="], SHELL_WORKS[1:], LIES),
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
    ),
    # The shell lies, or does not work
    fails(
        "the shell prints docker's error",
        DEBIAN,
        script("/bin/sh", 'echo "docker: Error: no space left on device." >&2; exit 125'),
    ),
    fails("the shell succeeds at once", DEBIAN, "RUN ln -sf true /bin/sh"),
    fails("the shell has no library", DEBIAN, "RUN rm /lib/*/libc.so.6"),
    fails(
        "the shell is no program", DEBIAN, "RUN echo x >/new && chmod 755 /new && mv /new /bin/sh"
    ),
    fails("the shell is a folder", DEBIAN, 'RUN ["/bin/bash", "-c", "rm /bin/sh; mkdir /bin/sh"]'),
    fails("no shell", "FROM scratch", "COPY Dockerfile /"),
    fails("the shell runs nothing", DEBIAN, BASH, "ENV SHELLOPTS=noexec"),
    Image(
        "the shell prints its input",
        [DEBIAN, BASH, "ENV SHELLOPTS=verbose"],
        failing=[output_contains("x=needle; true", "needle")],
    ),
    # The container cannot be started
    fails("no such user", BUSYBOX, "USER no-such-user"),
    fails("the workdir is a file", BUSYBOX, "WORKDIR /w", "RUN rmdir /w && touch /w"),
    fails("a volume at /dev/null", BUSYBOX, "VOLUME /dev/null"),
    fails("a volume at /proc", BUSYBOX, "VOLUME /proc"),
    # Other programs and functions in place of commands, and of those that the checks use
    Image(
        "programs that lie on PATH",
        [
            DEBIAN,
            "RUN mkdir /lies",
            script("/lies/liar", "echo needle; exit 0"),
            "RUN cd /lies; for name in cat test echo command tr head [; do ln -s liar $name; done",
            "ENV PATH=/lies:/usr/bin:/bin",
        ],
        failing=[file_contains("/etc/passwd", "needle"), *LIES],
    ),
]


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.what)
def test_verdicts_on_image(evaluate, image):
    report = evaluate(image.lines, *image.passing, *image.failing)

    expected = ["passed"] * len(image.passing) + ["failed"] * len(image.failing)
    assert list(statuses(report).values()) == expected, report["test_results"]
    assert report["error"] is None


@pytest.mark.parametrize("program", ["sleep 600", "yes", "yes >&2"])
def test_shell_that_waits_or_floods_fails_with_a_warning(evaluate, monkeypatch, program):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 1.0)

    report = evaluate([DEBIAN, script("/bin/sh", f"exec {program}")], TRUE, start_timeout=2)

    assert outcome(report) == "failed"
    assert "--start-timeout" in report["warnings"][0]


# A process can read the nonce in the arguments of process 1, but cannot prevent the true markers.
NONCE = r"n=$(tr '\0' '\n' </proc/1/cmdline | grep -xE '[0-9a-f]{32}')"
FAILING = r"""
forges an end -> NONCE; echo "$n=E 0"; exit 1
forges a begin and an end -> NONCE; echo "$n=B"; echo "$n=E 0"; exit 1
forges an end later -> NONCE; (sleep 0.3; echo "$n=E 0") & exit 1
kills what runs it -> NONCE; kill -9 1; kill -9 $PPID; false
becomes false -> exec false
ends at an error -> set -e; false; true
has a wrong syntax -> if then fi fi
does not end its quotes -> '
drops its output -> exec </dev/null >/dev/null 2>&1; false
exits with a code of docker -> exit 125
exits like a missing program -> exit 127
exits like a command that was killed -> exit 137
"""
PASSING = r"""
kills all others -> kill -9 -1; true
becomes true -> exec true
has a trap for its end -> trap 'exit 0' EXIT; false
leaves processes -> sleep 300 & (sleep 300 >/dev/null &) ; echo needle
closes its output -> exec >&- 2>&-; true
limits its files -> ulimit -n 3; true
interrupts all -> trap 'exit 0' INT; kill -INT 0; sleep 1; exit 5
terminates all -> trap 'exit 0' TERM; kill -TERM 0; sleep 1; exit 5
"""


@pytest.mark.parametrize(
    "lines", [[BUSYBOX], [DEBIAN], [DEBIAN, BASH]], ids=["busybox", "dash", "bash"]
)
def test_command_cannot_forge_or_lose_its_verdict(evaluate, lines):
    failing, passing = read_table(FAILING), read_table(PASSING)
    commands = [row.then.replace("NONCE", NONCE) for row in [*failing, *passing]]

    report = evaluate(lines, *map(run_command, commands))

    expected = ["failed"] * len(failing) + ["passed"] * len(passing)
    assert list(statuses(report).values()) == expected, messages(report)


# Floods


def test_floods_and_bombs_affect_only_their_own_test_and_take_little_memory(arguments, report):
    flood = r"head -c 5000000 /dev/zero | tr '\0' x"
    tests = [
        output_contains(f"{flood}; printf needle; {flood} >&2", "xneedlex", id="large"),
        run_command("yes", id="endless", timeout=1),
        run_command("bomb() { bomb | bomb & }; bomb; sleep 60", id="forks", timeout=1),
        run_command("tail /dev/zero", id="memory"),
        run_command("trap '' INT TERM HUP; while :; do :; done", id="no signals", timeout=1),
        run_command("echo fine", id="after"),
    ]
    options = ["--run-option=--memory=64m", "--run-option=--pids-limit=300", "--verbose"]

    taken = engine.measured(*arguments([BUSYBOX], *tests, more=options))

    assert taken.memory < 60, "MiB"
    assert len(json.dumps(report())) < 1_000_000
    found = statuses(report())
    assert found.pop("forks") in ("timeout", "failed")  # a shell may end that cannot fork
    assert found == {
        "large": "passed",
        "endless": "timeout",
        "memory": "failed",
        "no signals": "timeout",
        "after": "passed",
    }
