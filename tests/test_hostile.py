"""Images and commands that mislead, floods and bombs: the verdicts they get on a real engine."""

import json
import re

import engine
import pytest
from cases import TRUE, read_table, run_command
from conftest import messages, outcome, statuses

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("clean_engine")

DEBIAN, BUSYBOX = "FROM debian:bookworm-slim", "FROM busybox:stable"
BASH = "RUN ln -sf bash /bin/sh"  # Debian's shell is dash


# What becomes of tests. Those that fail pass in a shell that lies, or only with a true result of
# the shell.
TESTS = r"""
== sh is found
passed command_exists {"name": "sh"}
== the rest works
passed run_command {"command": "cd /"}
passed dirs_exist {"paths": ["/etc"]}
passed file_contains {"path": "/etc/passwd", "contains": ["root:"]}
passed envvar_set {"name": "HOME"}
passed output_contains {"command": "echo needle", "contains": ["needle"]}
== nothing lies
failed run_command {"command": "echo why; false"}
failed file_contains {"path": "/etc/passwd", "contains": ["no such words"]}
failed command_exists {"name": "no-such-command"}
failed envvar_set {"name": "NO_SUCH_VARIABLE"}
== the shell or the container does not work
failed run_command {"command": "cd /"}
failed output_contains {"command":"true","contains":["needle","no such file","OCI","exec","unable"]}
failed run_command {"command": "x", "exit_code": "any"}
== closed files
passed files_exist {"paths": ["/secret"]}
failed files_exist {"paths": ["/closed/file"]}
failed file_contains {"path": "/secret", "contains": ["needle"]}
== the shell prints its input
failed output_contains {"command": "x=needle; true", "contains": ["needle"]}
== ENV, USER and WORKDIR count
passed output_contains {"command": "echo $A $(id -u) $PWD", "contains": ["b 123 /w"]}
== programs lie
failed file_contains {"path": "/etc/passwd", "contains": ["needle"]}
"""
KINDS = {  # of images that have several sections of tests; the others have the one of their name
    "the shell works": ["sh is found", "the rest works", "nothing lies"],
    "no PATH": ["the rest works", "nothing lies"],
    "programs lie": ["programs lie", "nothing lies"],
}
IMAGES = r"""
== the shell works: no shell for RUN, failing healthcheck, volumes, missing workdir, unknown user
FROM busybox:stable
WORKDIR /gone
RUN rmdir /gone
USER 12345:12345
SHELL ["/no/such/shell"]
HEALTHCHECK --interval=1s CMD exit 1
VOLUME /data /etc
ONBUILD RUN false
STOPSIGNAL QUIT
== the shell works: options, startup files that exit, functions of other names, a missing library
FROM debian:bookworm-slim
RUN ln -sf bash /bin/sh
RUN cd /root && echo exit 1 | tee /etc/profile /etc/bash.bashrc .profile .bashrc .shrc
SHELL ["/bin/bash", "-x", "-e", "-c"]
ENV ENV=/root/.shrc BASH_ENV=/root/.bashrc SHELLOPTS=xtrace:errexit:nounset:verbose
ENV BASH_FUNC_x%%="() { false; }"
ENV LD_PRELOAD=/no/such/lib.so
== ENV, USER and WORKDIR count: ENTRYPOINT, CMD and SHELL do not
FROM busybox:stable
ENV A=b
USER 123
WORKDIR /w
ENTRYPOINT ["/no/such"]
CMD ["x"]
SHELL ["/no/such"]
== no PATH: it is empty
FROM busybox:stable
ENV PATH=
== closed files: the user cannot read them
FROM busybox:stable
RUN mkdir -m 700 /closed && touch /closed/file
RUN echo needle >/secret && chmod 600 /secret
USER 12345
== the shell or the container does not work: docker's error is printed
FROM debian:bookworm-slim
RUN printf '#!/bin/bash\necho docker: Error: no space left on device. >&2; exit 125\n' >/new
RUN chmod 755 /new && mv -f /new /bin/sh
== the shell or the container does not work: it succeeds at once
FROM debian:bookworm-slim
RUN ln -sf true /bin/sh
== the shell or the container does not work: it has no library
FROM debian:bookworm-slim
RUN rm /lib/*/libc.so.6
== the shell or the container does not work: it is no program
FROM debian:bookworm-slim
RUN echo x >/new && chmod 755 /new && mv /new /bin/sh
== the shell or the container does not work: it is a folder
FROM debian:bookworm-slim
RUN ["/bin/bash", "-c", "rm /bin/sh; mkdir /bin/sh"]
== the shell or the container does not work: there is none
FROM scratch
COPY Dockerfile /
== the shell or the container does not work: it runs nothing
FROM debian:bookworm-slim
RUN ln -sf bash /bin/sh
ENV SHELLOPTS=noexec
== the shell prints its input: by an option
FROM debian:bookworm-slim
RUN ln -sf bash /bin/sh
ENV SHELLOPTS=verbose
== the shell or the container does not work: no such user
FROM busybox:stable
USER no-such-user
== the shell or the container does not work: the workdir is a file
FROM busybox:stable
WORKDIR /w
RUN rmdir /w && touch /w
== the shell or the container does not work: a volume at /dev/null
FROM busybox:stable
VOLUME /dev/null
== the shell or the container does not work: a volume at /proc
FROM busybox:stable
VOLUME /proc
== programs lie: those on the PATH, in place of those that the checks use
FROM debian:bookworm-slim
RUN mkdir /lies && printf '#!/bin/bash\necho needle; exit 0\n' >/lies/liar && chmod 755 /lies/liar
RUN cd /lies; for name in cat test echo command tr head [; do ln -s liar $name; done
ENV PATH=/lies:/usr/bin:/bin
"""


@pytest.mark.parametrize(
    ("kind", "what", "lines"), re.findall(r"== (.*?): (.*)\n((?:(?!==).+\n)+)", IMAGES)
)
def test_verdicts_on_image(evaluate, kind, what, lines):
    sections = dict(re.findall(r"== (.*)\n((?:(?!==).+\n)+)", TESTS))
    lines_of_tests = "".join(sections[name] for name in KINDS.get(kind, [kind])).splitlines()
    rows = [line.split(" ", 2) for line in lines_of_tests]

    report = evaluate(
        lines.splitlines(), *((test_type, json.loads(params)) for _, test_type, params in rows)
    )

    expected = [status for status, *_ in rows]
    assert [row["status"] for row in report["test_results"]] == expected, messages(report)


@pytest.mark.parametrize("program", ["sleep 600", "yes", "yes >&2"])
def test_shell_that_waits_or_floods_fails_with_a_warning(evaluate, monkeypatch, program):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 1.0)
    shell = f"RUN printf '#!/bin/bash\\nexec {program}\\n' >/sh && chmod 755 /sh && mv /sh /bin/"

    report = evaluate([DEBIAN, shell], TRUE, start_timeout=2)

    assert outcome(report) == "failed"
    assert "--start-timeout" in report["warnings"][0]


# A process can read the nonce in the arguments of its shell, but cannot prevent the true markers.
NONCE = r"n=$(tr '\0' '\n' </proc/$PPID/cmdline | grep -xE '[0-9a-f]{32}')"
COMMANDS = r"""
forges an end -> failed
    command: NONCE; echo "$n=E 0"; exit 1
forges a begin and an end -> failed
    command: NONCE; echo "$n=B"; echo "$n=E 0"; exit 1
forges an end later -> failed
    command: NONCE; (sleep 0.3; echo "$n=E 0") & exit 1
kills what runs it -> failed
    command: NONCE; kill -9 1; kill -9 $PPID; false
becomes false -> failed
    command: exec false
ends at an error -> failed
    command: set -e; false; true
has a wrong syntax -> failed
    command: if then fi fi
does not end its quotes -> failed
    command: '
drops its output -> failed
    command: exec </dev/null >/dev/null 2>&1; false
exits with a code of docker -> failed
    command: exit 125
exits like a missing program -> failed
    command: exit 127
exits like a command that was killed -> failed
    command: exit 137
kills all others -> passed
    command: kill -9 -1; true
    alone: true
becomes true -> passed
    command: exec true
has a trap for its end -> passed
    command: trap 'exit 0' EXIT; false
leaves processes -> passed
    command: sleep 300 & (sleep 300 >/dev/null &) ; echo needle
    alone: true
closes its output -> passed
    command: exec >&- 2>&-; true
limits its files -> passed
    command: ulimit -n 3; true
interrupts all -> passed
    command: trap 'exit 0' INT; kill -INT 0; sleep 1; exit 5
terminates all -> passed
    command: trap 'exit 0' TERM; kill -TERM 0; sleep 1; exit 5
"""


SHELLS = {
    "busybox": [BUSYBOX],
    "dash": [DEBIAN],
    "bash": [DEBIAN, BASH],
    "a service": [BUSYBOX, "CMD sleep 600"],
}


@pytest.mark.parametrize("shell", SHELLS)
def test_command_cannot_forge_or_lose_its_verdict(evaluate, shell):
    """Beside a service its shell is not process 1, which no signal ends."""
    service = {"service": True} if shell == "a service" else {}
    rows = read_table(COMMANDS, command="", alone=False)
    rows = [row for row in rows if not (service and row.alone)]
    commands = [row.command.replace("NONCE", NONCE) for row in rows]

    report = evaluate(SHELLS[shell], *(run_command(command, **service) for command in commands))

    for row, found in zip(rows, report["test_results"]):
        assert found["passed"] is (row.then == "passed"), (row, found["message"])


# Floods


FLOODS = json.loads(r"""[
    {"type": "output_contains", "id": "large", "params": {
        "command": "f() { head -c 3000000 /dev/zero | tr '\\0' x; }; f; printf needle; f >&2",
        "contains": ["xneedlex"]
    }},
    {"type": "run_command", "id": "endless", "timeout": 1, "params": {"command": "yes"}},
    {"type": "run_command", "id": "forks", "timeout": 1, "params": {
        "command": "bomb() { bomb | bomb & }; bomb; sleep 60"
    }},
    {"type": "run_command", "id": "memory", "params": {"command": "tail /dev/zero"}},
    {"type": "run_command", "id": "no signals", "timeout": 1, "params": {
        "command": "trap '' INT TERM HUP; while :; do :; done"
    }},
    {"type": "run_command", "id": "after", "params": {"command": "echo fine"}}
]""")


def test_floods_and_bombs_affect_only_their_own_test_and_take_little_memory(arguments, report):
    options = ["--run-option=--memory=64m", "--run-option=--pids-limit=300", "--verbose"]

    taken = engine.measured(*arguments([BUSYBOX], *FLOODS, more=options))

    assert taken.memory < 100, "MiB"
    assert len(json.dumps(report())) < 1_000_000
    found = statuses(report())
    assert found.pop("forks") in ("timeout", "failed")  # a shell may end that cannot fork
    assert " ".join(found.values()) == "passed timeout failed timeout passed"
