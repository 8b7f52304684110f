"""The command line: terminals, streams that fail, signals that are ignored.

What it prints otherwise is in transcripts/.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
from typing import NamedTuple

import pytest
from cases import FALSE, TRUE, files_exist, output_contains, run_command
from conftest import PIPES, PROGRAM, PROJECT, called, outcome
from engine import wait_for

import DockerfileEvaluator as de

# The screen


def test_colors_of_the_legacy_builder_are_not_shown(fake, arguments):
    fake.fault("build", stdout="Step 1/1 : FROM x\n\x1b[91mno space\x1b[0m\n", stderr="why")
    out = called(de.main, *arguments(["FROM x"], TRUE, more=["--verbose"]))[1]
    assert "  | no space\n" in out
    assert "x1b" not in out


# What a terminal or a CI system would take for a command
EVIL = "\x1b[2J\r::error::x\n##[error]y\n##vso[task]z\n\x9b31m"
IN_PRINTF = "".join(f"\\{byte:03o}" for byte in f"{EVIL}\n".encode())


def assert_is_harmless(text):
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert not re.search(r"^\s*::", text, re.MULTILINE)
    assert not re.search(r"##\w*\[", text)


class Printed(NamedTuple):
    """Where a text of the image, the build or docker gets onto the screen."""

    where: str
    test: dict = TRUE
    fault: dict | None = None  # of docker
    more: tuple = ()  # arguments


PRINTED = [
    Printed("output of a command", run_command(f"printf '{IN_PRINTF}'"), more=("--verbose",)),
    Printed("the error of a command", run_command(r"printf 'error: \033[2J\n'; false")),
    Printed("output without a string", output_contains(f"printf '{IN_PRINTF}'", "nosuch")),
    Printed("a path that is not found", files_exist(EVIL)),
    Printed("an id", {**FALSE, "id": EVIL}),
    Printed(
        "a step and the log of a build",
        fault={"on": "build", "do": "print", "stdout": f"Step 1/1 : FROM {EVIL}\n{EVIL}\n"},
        more=("--verbose",),
    ),
    Printed("the error of a build", fault={"on": "build", "stderr": EVIL}),
    Printed("the error of a container", fault={"on": "run", "code": 125, "stderr": EVIL}),
    Printed("a warning", fault={"on": "image rm", "stderr": EVIL}),
    Printed("an argument", more=(f"--build-option={EVIL}",)),
    Printed("a path that cannot be read", more=("--rubric", EVIL)),
    Printed("a path that cannot be written", more=("--output", f"/dev/null/{EVIL}")),
]


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.where)
def test_text_of_containers_and_builds_is_escaped(fake, arguments, monkeypatch, row):
    """Neither the terminal nor a CI system may take it for a command."""
    monkeypatch.setattr(de, "CLEANUP_TIMEOUT", 0.5)
    fake.fault(**(row.fault or {"on": "nothing"}))

    _, out, err = called(de.main, *arguments(["FROM x"], row.test, more=row.more))

    assert_is_harmless(out)
    assert_is_harmless(err)
    assert re.search(r"\\x(1b|9b)", out + err)  # a part of the text is shown


def test_line_that_repeats_a_command_has_the_shell_of_its_test(fake, arguments):
    test = {"type": "run_command", "params": {"command": "false", "shell": "/bin/bash"}}

    _, out, _ = called(de.main, *arguments(["FROM x"], test, more=["--keep-image"]))

    assert "--entrypoint /bin/bash " in out


def test_kept_image_of_a_name_that_is_no_tag(fake, dockerfile, rubric):
    report = de.evaluate(dockerfile("FROM x"), "Ünicode/my repo", rubric(TRUE), keep_image=True)

    pattern = "dockerfile-evaluator:nicode-my-repo-[0-9a-f]{12}-kept"
    assert re.fullmatch(pattern, report["environment"]["kept_image"])


# Streams


def test_screen_with_a_small_character_set(fake, arguments):
    words = arguments(["FROM x"], run_command("printf 'é€'; false"), more=["--verbose"])
    code, out, err = called(de.main, *words, encoding="ascii")
    assert code == 1
    assert err == ""
    assert "\\xe9\\u20ac" in out


def test_reader_that_goes_away_does_not_stop_the_evaluation(fake, start, arguments, report):
    words = arguments(["FROM x"], *[TRUE] * 3)
    process = start(*words, before=("sh", "-c", '"$@" | head -n 1', "sh"))
    assert process.communicate(timeout=60)[1] == b""
    assert outcome(report()) == "passed"


@pytest.mark.parametrize("redirection", [">/dev/full 2>&1", ">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("lines", "code"), [(["FROM x"], 0), (["FROM x", "RUN FAIL"], 1)])
def test_full_or_closed_screen_changes_nothing(
    fake, start, arguments, report, redirection, lines, code
):
    words = arguments(lines, TRUE, more=["--verbose"])
    process = start(*words, before=("sh", "-c", f'"$@" {redirection}', "sh"))
    process.communicate(timeout=60)
    assert process.returncode == code
    assert outcome(report()) == ("build" if code else "passed")


def test_ignored_sigchld_changes_nothing(fake, start, arguments, report):
    words = arguments(["FROM x"], TRUE, FALSE)
    process = start(*words, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    process.communicate(timeout=60)

    true, false = report()["test_results"]
    assert process.returncode == 1
    assert true["status"] == "passed"
    assert false["status"] == "failed"
    assert false["exit_code"] == 1
    assert not true["retried"]
    assert not false["retried"]


# Terminals


def on_a_terminal(start, words, **environment):
    """Run the command line on a terminal of 60 columns; return what it shows."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    process = start(*words, stdout=slave, stderr=slave, env={**os.environ, **environment})
    os.close(slave)
    seen = b""
    while select.select([master], [], [], 60)[0]:
        try:
            seen += os.read(master, 4096)
        except OSError:  # closed by the last process
            break
    os.close(master)
    process.wait(60)
    return seen.decode()


def test_terminal_has_a_status_line_and_colours(fake, start, arguments):
    words = arguments(["FROM x"], {**run_command("sleep 2"), "id": "x" * 80})
    fake.fault("build", "print", stdout="Step 1/1 : FROM x\n")
    fake.fault("build", "sleep", seconds=2)
    screen = on_a_terminal(start, words, TERM="xterm")
    assert re.search(r"\r\x1b\[KStep 1/1 : FROM x \d s", screen)
    assert re.search(r"\r\x1b\[Kx{40,50}", screen)
    assert re.search(r"\x1b\[32mpassed +\x1b\[0m", screen)
    parts = re.findall(r"\x1b\[K([^\r\n]*)\r\x1b", screen)
    assert max(map(len, parts)) < 60


@pytest.mark.parametrize("environment", [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_and_dumb_terminals_are_respected(fake, start, arguments, environment):
    screen = on_a_terminal(start, arguments(["FROM x"], TRUE), **environment)
    assert "passed" in screen
    assert "\x1b[3" not in screen


@pytest.mark.parametrize(
    ("ignored", "code", "kind"), [(False, 129, "interrupted"), (True, 0, "passed")]
)
def test_terminal_that_is_closed_loses_no_report(
    fake, start, arguments, report, ignored, code, kind
):
    """It sends SIGHUP, which ends the evaluation unless it is ignored (nohup)."""
    held = run_command("touch running; until test -e go; do sleep 0.05; done")
    master, slave = pty.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)

    streams = {"stdin": slave, "stdout": slave, "stderr": slave}
    words = arguments(["FROM x"], TRUE, held, more=["--verbose"])
    process = start(
        *words, **streams, env={**os.environ, "TERM": "xterm"}, preexec_fn=take_terminal
    )
    os.close(slave)
    wait_for((fake.root / "running").exists)
    os.close(master)
    if ignored:
        (fake.root / "go").touch()
    assert process.wait(60) == code
    assert outcome(report()) == kind
    assert fake.left() == []


def test_deleted_current_folder_is_an_error_without_traceback(fake, dockerfile, rubric, tmp_path):
    words = [
        "--dockerfile",
        dockerfile("FROM x"),
        "--repo",
        "r",
        "--rubric",
        rubric(TRUE),
        "--output",
        "r.json",
    ]
    (tmp_path / "gone").mkdir()
    shell = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(tmp_path / "gone")]
    done = subprocess.run([*shell, *PROGRAM, *words], **PIPES)
    assert done.returncode == 1
    assert done.stderr[:7] == b"error: "
    assert b"Traceback" not in done.stderr


def test_example_usage_prints_a_table(fake, tmp_path):
    """Every file that it names exists."""
    for name in ("artifacts", "rubrics", "example_usage.py", "DockerfileEvaluator.py"):
        copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy
        copy(str(PROJECT / name), str(tmp_path / name))
    done = subprocess.run([sys.executable, "example_usage.py"], cwd=str(tmp_path), **PIPES)
    assert done.returncode == 1
    assert done.stderr == b""  # the fake image has no Java
    assert re.search(rb"\nscore +\d+ of 23\n$", done.stdout)
