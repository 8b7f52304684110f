"""Images that try to mislead, each with the verdict that it must get, on a real engine."""

from __future__ import annotations

import json

import pytest
from cases import FALSE, TRUE, files_exist, output_contains, run_command
from conftest import statuses

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("clean_engine")

DEBIAN, BUSYBOX = "FROM debian:bookworm-slim", "FROM busybox:stable"
BASH = "RUN ln -sf bash /bin/sh"

FOLDER = files_exist("/etc")  # and so a failure
HOLDS = ("file_contains", {"path": "/etc/passwd", "contains": ["no such words"]})
NO_COMMAND = ("command_exists", {"name": "no-such-command"})
NO_VARIABLE = ("envvar_set", {"name": "NO_SUCH_VARIABLE"})
LIES = (FALSE, HOLDS, NO_COMMAND, NO_VARIABLE)
ON_PATH = ("command_exists", {"name": "sh"})
TRUTHS = (
    TRUE,
    ("dirs_exist", {"paths": ["/etc"]}),
    ("file_contains", {"path": "/etc/passwd", "contains": ["root:"]}),
    ON_PATH,
    ("envvar_set", {"name": "HOME"}),
    output_contains("echo needle", "needle"),
)


def says(text: str) -> dict:
    return output_contains("true", text)


def program(path: str, *lines: str) -> str:
    """Return the RUN that writes a program (by printf, which the words must not upset)."""
    words = " ".join(f"'{line}'" for line in lines)
    return f"RUN printf '%s\\n' {words} >/new && chmod 755 /new && mv -f /new {path}"


HONEST = {
    "no shell for RUN, healthcheck, volume, onbuild, stopsignal, no workdir, a user without a name": [
        BUSYBOX,
        "WORKDIR /gone",
        "RUN rmdir /gone",
        "USER 12345:12345",
        'SHELL ["/no/such/shell"]',
        "HEALTHCHECK --interval=1s CMD exit 1",
        "VOLUME /data /etc",
        "ONBUILD RUN false",
        "STOPSIGNAL SIGQUIT",
    ],
    "another shell for RUN, profile and rc files, bash functions of other names": [
        DEBIAN,
        BASH,
        "RUN for f in /etc/profile /etc/bash.bashrc /root/.profile /root/.bashrc /root/.shrc; do echo exit 1 >$f; done",
        "ENV ENV=/root/.shrc BASH_ENV=/root/.bashrc",
        'ENV BASH_FUNC_other%%="() { false; }"',
        'SHELL ["/bin/bash", "-x", "-e", "-c"]',
    ],
    "shell options in the environment": [DEBIAN, BASH, "ENV SHELLOPTS=xtrace:errexit:nounset:verbose"],
    "missing library preloaded": [DEBIAN, "ENV LD_PRELOAD=/no/such/lib.so"],
    "no end of line, no PATH": [BUSYBOX, "ENV PATH="],
}


@pytest.mark.parametrize("name", sorted(HONEST))
def test_what_must_change_no_verdict(evaluate, name):
    truths = [test for test in TRUTHS if not (name.startswith("no end") and test is ON_PATH)]
    report = evaluate(HONEST[name], *truths, *LIES, jobs=2)
    expected = ["passed"] * len(truths) + ["failed"] * len(LIES)
    assert list(statuses(report).values()) == expected, [row["message"] for row in report["test_results"]]
    assert report["error"] is None


SHELLS_THAT_LIE = {
    "always succeeds": "RUN ln -sf true /bin/sh",
    "prints what is looked for": program("/bin/sh", "#!/bin/bash", "echo needle 17"),
    "prints marks of its own": program(
        "/bin/sh", "#!/bin/bash", "echo deadbeef=B; echo needle; echo deadbeef=E 0"
    ),
    "plays docker on stderr": program(
        "/bin/sh",
        "#!/bin/bash",
        'echo "docker: Error response from daemon: no space left on device." >&2',
        "exit 125",
    ),
    "plays a missing shell": program(
        "/bin/sh", "#!/bin/bash", 'echo "docker: exec: \\"/bin/sh\\": not found" >&2', "exit 127"
    ),
    "is no program": "RUN echo x >/new && chmod 755 /new && mv -f /new /bin/sh",
    "is a folder": 'RUN ["/bin/bash", "-c", "rm /bin/sh && mkdir /bin/sh"]',
    "is gone": 'RUN ["/bin/bash", "-c", "rm /bin/sh"]',
    "prints the begin mark only": program("/bin/sh", "#!/bin/bash", 'echo "$4=B"; echo needle'),
    "prints marks that docker contradicts": program(
        "/bin/sh", "#!/bin/bash", 'echo "$4=B"; echo needle; echo "$4=E 0"; exit 9'
    ),
}


@pytest.mark.parametrize("name", sorted(SHELLS_THAT_LIE))
def test_a_shell_that_does_not_do_as_told_earns_nothing_and_is_no_excuse(evaluate, name):
    tests = [FOLDER, says("needle"), ("run_command", {"command": "x", "exit_code": "any"})]
    report = evaluate([DEBIAN, SHELLS_THAT_LIE[name]], *tests)
    assert set(statuses(report).values()) == {"failed"}, [row["message"] for row in report["test_results"]]
    assert report["error"] is None


def test_no_shell_at_all(evaluate):
    words = ("no such file", "OCI", "exec")
    report = evaluate(["FROM scratch", "COPY Dockerfile /"], *map(says, words), TRUE, FOLDER)
    assert set(statuses(report).values()) == {"failed"}
    why = 'the image cannot be started: exec: "/bin/sh": stat /bin/sh: no such file or directory: '
    (message,) = {row["message"] for row in report["test_results"]}
    assert message.startswith(why)  # docker ends with "unknown", podman with what it was about to do


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["USER nobody-of-that-name"], "unable to find user nobody-of-that-name"),
        (["USER root:nogroup-of-that-name"], "unable to find group"),
        (["WORKDIR /w", "RUN rmdir /w && touch /w"], "not a directory"),
    ],
)
def test_an_unusable_user_or_workdir_is_the_images_fault(evaluate, lines, words):
    report = evaluate([BUSYBOX, *lines], TRUE, says("unable"), *LIES)
    assert set(statuses(report).values()) == {"failed"}
    for row in report["test_results"]:
        assert row["message"].startswith("the image cannot be started: ")
        assert words in row["message"]


def test_what_the_user_may_not_see_is_not_there(evaluate):
    lines = [
        "RUN mkdir -m 700 /closed && touch /closed/file && echo needle >/secret && chmod 600 /secret",
        "USER 12345",
    ]
    tests = [
        ("files_exist", {"paths": ["/closed/file"]}),
        ("file_contains", {"path": "/secret", "contains": ["needle"]}),
    ]
    rows = evaluate([BUSYBOX, *lines], *tests, ("files_exist", {"paths": ["/secret"]}))["test_results"]
    assert [row["status"] for row in rows] == ["failed", "failed", "passed"]
    assert rows[1]["message"] == "/secret: the image's user may not read it"


def test_programs_on_a_poisoned_path_do_not_answer_for_the_checks(evaluate):
    lines = [
        DEBIAN,
        "RUN mkdir /evil",
        program("/evil/liar", "#!/bin/bash", "echo needle; exit 0"),
        "RUN for name in cat test echo command printf tr head [; do ln -s liar /evil/$name; done",
        "ENV PATH=/evil:/usr/bin:/bin",
    ]
    tests = [("file_contains", {"path": "/etc/passwd", "contains": ["needle"]}), *LIES]
    assert set(statuses(evaluate(lines, *tests)).values()) == {"failed"}


@pytest.mark.parametrize("names", [["test", "command", "cat", "["], ["echo"]])
def test_functions_from_the_environment_do_not_answer_for_the_checks(evaluate, names):
    lines = [f'ENV BASH_FUNC_{name}%%="() {{ builtin echo needle; return 0; }}"' for name in names]
    tests = [("file_contains", {"path": "/etc/passwd", "contains": ["needle"]}), *LIES]
    report = evaluate([DEBIAN, BASH, *lines], *tests)
    assert set(statuses(report).values()) == {"failed"}
    telling = [warning for warning in report["warnings"] if warning.startswith("telling-variable")]
    assert telling[0].startswith(f"telling-variable: image: BASH_FUNC_{names[0]}%%=")


def test_functions_along_a_path_of_dash_do_not_answer_for_the_checks(evaluate):
    lines = [
        "RUN mkdir /f && echo 'test() { return 0; }' >/f/test",
        "ENV PATH=/f%func:%builtin:/usr/bin:/bin",
    ]
    report = evaluate([DEBIAN, *lines], ("files_exist", {"paths": ["/no/such"]}), *LIES)
    assert set(statuses(report).values()) == {"failed"}


def test_a_shell_told_to_run_nothing_passes_nothing(evaluate):
    report = evaluate([DEBIAN, BASH, "ENV SHELLOPTS=noexec"], TRUE, *LIES)
    assert set(statuses(report).values()) == {"failed"}


def test_a_shell_that_repeats_what_it_is_told_satisfies_no_needle(evaluate):
    test = output_contains("x=needle; true", "needle")
    report = evaluate([DEBIAN, BASH, "ENV SHELLOPTS=verbose"], test)
    assert statuses(report) == {"output_contains_1": "failed"}


def test_an_end_mark_that_was_forged_early_is_no_engine_fault(evaluate, monkeypatch):
    monkeypatch.setattr(de, "START_LIMIT", 4.0)
    monkeypatch.setattr(de, "END_LIMIT", 4.0)
    row = evaluate([BUSYBOX], ("run_command", {"command": f'{NONCE}; echo "$n=E 0"; sleep 600'}))[
        "test_results"
    ][0]
    assert (row["status"], "went on for 4 s after the end of the check" in row["message"]) == ("failed", True)


def test_a_shell_that_only_waits_is_no_engine_fault(evaluate, monkeypatch):
    monkeypatch.setattr(de, "START_LIMIT", 3.0)
    report = evaluate([DEBIAN, program("/bin/sh", "#!/bin/bash", "exec sleep 600")], TRUE)
    assert set(statuses(report).values()) == {"failed"}
    assert "was started, but did not begin the check" in report["test_results"][0]["message"]


def test_the_loaders_words_satisfy_no_needle_of_a_file(evaluate):
    tests = [("file_contains", {"path": "/etc/passwd", "contains": ["ERROR", "preload", "ld.so"]})]
    assert statuses(evaluate([DEBIAN, "ENV LD_PRELOAD=/no/such.so"], *tests)) == {"file_contains_1": "failed"}


NONCE = "n=$(tr '\\0' '\\n' </proc/1/cmdline | grep -xE '[0-9a-f]{32}')"
COMMANDS = [
    # A process can read the marks' secret from PID 1's arguments; it cannot keep the true marks away.
    (f'{NONCE}; echo "$n=E 0"; exit 1', "failed", "2 end marks"),
    (f'{NONCE}; echo "$n=B"; echo "$n=E 0"; exit 0', "failed", "2 begin and 2 end marks"),
    (f'{NONCE}; (sleep 0.3; echo "$n=E 0") & exit 1', "failed", ""),
    (f"{NONCE}; kill -9 1; kill -9 $PPID; false", "failed", ""),
    ("kill -9 -1; true", "passed", ""),
    ("exec false", "failed", "exit code 1"),
    ("exec true", "passed", ""),
    ("set -e; false; true", "failed", "exit code 1"),
    ("trap 'exit 0' EXIT; false", "passed", ""),
    ("if then fi fi", "failed", "a syntax error in the rubric's command"),
    ("'", "failed", "a syntax error in the rubric's command"),
    ("sleep 300 & (sleep 300 >/dev/null &) ; echo needle", "passed", ""),
    ('cat; read x; test -z "$x"', "passed", ""),
    ("test -t 0 || test -t 1", "failed", "exit code 1"),
    ("exec >&- 2>&-; true", "passed", ""),
    ("exec </dev/null >/dev/null 2>&1; false", "failed", "exit code 1"),
    ("ulimit -n 3; true", "passed", ""),
    ("trap 'exit 0' INT; kill -INT 0; sleep 1; exit 5", "passed", ""),
    ("trap 'exit 0' TERM; kill -TERM 0; sleep 1; exit 5", "passed", ""),
]
# The same in every shell: what docker itself says by its exit code.
EXITS = [
    ("exit 125", "failed", "exit code 125"),
    ("exit 126", "failed", "exit code 126"),
    ("exit 127", "failed", "exit code 127"),
    ("exit 130", "failed", "exit code 130"),
    ("exit 137", "failed", "exit code 137"),
    ("exit 256", "passed", ""),
]


@pytest.mark.parametrize(
    ("lines", "commands"),
    [([BUSYBOX], COMMANDS + EXITS), ([DEBIAN], COMMANDS), ([DEBIAN, BASH], COMMANDS)],
    ids=["busybox", "dash", "bash"],
)
def test_what_commands_get_up_to(evaluate, lines, commands):
    report = evaluate(lines, *(run_command(command) for command, _, _ in commands), jobs=2)
    wrong = [
        (command, row["status"], row["message"])
        for row, (command, status, words) in zip(report["test_results"], commands)
        if row["status"] != status or words not in row["message"]
    ]
    assert wrong == []


BIG = "head -c 5000000 /dev/zero | tr '\\0' x"
OUTPUTS = [
    (f"echo needle; {BIG}; {BIG}", "passed"),
    (f"{BIG}; echo needle; {BIG}", "passed"),
    (f"{BIG}; {BIG}; printf needle", "passed"),
    (f"{BIG}; {BIG} >&2; printf needle >&2", "passed"),
    (f"{BIG}; {BIG}", "failed"),
    ("printf nee; sleep 1; printf dle", "passed"),
    ("printf 'a\\000needle\\000b'", "passed"),
    ("printf '\\377\\376needle\\300'", "passed"),
    ("printf 'nee\\000dle'", "failed"),
    ("printf '\\033[31mneedle\\033[0m'", "passed"),
    ("echo '::error::x'; echo '##[error]needle'", "passed"),
]


def test_output_of_every_kind_and_size(evaluate, monkeypatch):
    tests = [("output_contains", {"command": command, "contains": ["needle"]}) for command, _ in OUTPUTS]
    report = evaluate(
        [BUSYBOX], *({"type": kind, "params": params, "timeout": 120} for kind, params in tests)
    )
    assert [row["status"] for row in report["test_results"]] == [status for _, status in OUTPUTS]
    text = json.dumps(report)
    assert len(text) < 1_000_000


def test_big_files_are_read_to_their_end(evaluate):
    lines = [BUSYBOX, f"RUN ({BIG}; {BIG}; printf needle) >/big"]
    report = evaluate(
        lines, {"type": "file_contains", "params": {"path": "/big", "contains": ["needle"]}, "timeout": 120}
    )
    assert statuses(report) == {"file_contains_1": "passed"}
