"""The command line: exit codes, what the screen shows, terminals, streams that fail, signals that are ignored."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios

import pytest
from cases import FALSE, LOOK, TRUE, buildkit, legacy, output_contains, run_command
from conftest import PIPES, PROGRAM, PROJECT, called, outcome
from engine import wait_for

import DockerfileEvaluator as de

# Exit codes


def test_version_of_the_program():
    done = subprocess.run([*PROGRAM, "--version"], stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert done.stdout.decode() == f"DockerfileEvaluator {de.__version__}\n"


BUILD_130 = {
    "on": "build",
    "code": 130,
    "stderr": "The command '/bin/sh -c x' returned a non-zero code: 130",
}
NO_ENGINE = {"on": "version", "stderr": "Cannot connect to the Docker daemon at x"}
NO_OPTION = {"on": "build help", "stderr": "unknown flag: --bogus"}
# A test, a fault, exit code, the kind of error or the statuses, the summary line
EXITS = [
    (TRUE, None, 0, "passed", "1 of 1 tests passed, score 1 of 1 (100.0%)"),
    (FALSE, None, 1, "failed", "0 of 1 tests passed, score 0 of 1 (0.0%)"),
    (run_command("exit 130"), None, 1, "failed", "0 of 1 tests passed, score 0 of 1 (0.0%)"),
    (
        {**TRUE, "requires": ["nobody"]},
        None,
        1,
        "unresolvable",
        "0 of 1 tests passed, score 0 of 1 (0.0%)",
    ),
    (TRUE, BUILD_130, 1, "build", "0 of 1 tests passed, score 0 of 1 (0.0%), 1 not run"),
    (TRUE, NO_ENGINE, 1, "engine", "no score"),
    (TRUE, NO_OPTION, 1, "usage", "no score"),
    (
        TRUE,
        {"on": "build", **legacy("FROM x", error="manifest unknown")},
        1,
        "registry",
        "no score",
    ),
]


@pytest.mark.parametrize(("test", "fault", "code", "kind", "summary"), EXITS)
def test_exit_code_and_summary(fake, arguments, report, test, fault, code, kind, summary):
    fake.set(pull="dial tcp: no such host")
    fake.fault(**(fault or {"on": "nothing"}))
    found, out, err = called(de.main, *arguments(["FROM x"], test, more=["--build-option=--pull"]))
    assert found == code
    assert outcome(report()) == kind
    assert f"\n{summary}" in out
    assert ("score 0" in out) == ("score 0" in summary)
    assert err == (f"error: {report()['error']['message']}\n" if fault else "")


INPUT_ERRORS = [
    ({"--dockerfile": "TMP/none"}, "TMP/none: No such file or directory"),
    ({"--dockerfile": "TMP"}, "TMP: Is a directory"),
    ({"--context": "TMP/none"}, "TMP/none: no such folder"),
    ({"--rubric": "TMP/none.json"}, "TMP/none.json: No such file or directory"),
    ({"--rubric": "TMP/Dockerfile"}, "TMP/Dockerfile: not valid JSON: "),
    ({"--output": "TMP"}, "TMP: not a writable file"),
]


@pytest.mark.parametrize(("change", "message"), INPUT_ERRORS)
def test_unusable_file_is_an_error_without_traceback(fake, tmp_path, change, message):
    (tmp_path / "Dockerfile").write_text("FROM x\n")
    (tmp_path / "r.json").write_text(json.dumps({"tests": [TRUE]}))
    given = {"--dockerfile": "TMP/Dockerfile", "--rubric": "TMP/r.json", "--repo": "r", **change}
    words = [word.replace("TMP", str(tmp_path)) for pair in given.items() for word in pair]
    code, out, err = called(de.main, *words)
    assert code == 1
    assert out == ""
    assert "build" not in fake.names()
    assert err.startswith("error: ")
    assert message.replace("TMP", str(tmp_path)) in err


def test_default_rubric_has_the_name_of_the_repository(fake, dockerfile):
    code, _, err = called(de.main, "--dockerfile", dockerfile("FROM x"), "--repo", "my/repo")
    assert code == 1
    assert (
        "rubrics/my/repo.json: No such file or directory (--rubric FILE names another rubric)"
        in err
    )


HINTS = {
    "--check": "--check needs --rubric FILE, or --repo NAME for rubrics/NAME.json",
    "--run-option --memory=2g": "(write it with =, like --run-option=--memory=2g)",
    "--build-option --pull": "(write it with =, like --run-option=--memory=2g)",
}


@pytest.mark.parametrize("words", HINTS)
def test_usage_error_says_what_to_write(words):
    code, _, err = called(de.main, *words.split())
    assert code == 2
    assert HINTS[words] in err


def test_colors_of_the_legacy_builder_are_not_shown(fake, arguments):
    fake.fault("build", stdout="Step 1/1 : FROM x\n\x1b[91mno space\x1b[0m\n", stderr="why")
    out = called(de.main, *arguments(["FROM x"], TRUE, more=["--verbose"]))[1]
    assert "  | no space\n" in out
    assert "x1b" not in out


FILES = "--dockerfile x --repo x"
USAGE = ["", "--repo x", "--dockerfile x", "--check", f"{FILES} --resume", f"{FILES} --jobs 0", f"{FILES} --jobs x", f"{FILES} --build-timeout 0",
         f"{FILES} --build-timeout nan", f"{FILES} --start-timeout inf", f"{FILES} --verb", f"{FILES} --engine=lab", f"{FILES} --wait=1"]  # fmt: skip


@pytest.mark.parametrize("words", USAGE)
def test_usage_error_exits_with_2(words):
    code, _, err = called(de.main, *words.split())
    assert code == 2
    assert "usage: " in err
    assert "error: " in err


# The screen


def test_screen_of_a_pass(fake, arguments, report, tmp_path):
    fake.fault("build", "print", **legacy("FROM x", "RUN make\nhello", error=""))
    code, out, err = called(de.main, *arguments(["FROM x"], {**TRUE, "score": 0.5}))
    assert code == 0
    assert err == ""
    patterns = [
        r"building /\S+/Dockerfile",
        r"  \| Step 1/2 : FROM x",
        r"  \| Step 2/2 : RUN make",
        r"built \(legacy, \d+\.\d s\)",
        r"passed +run_command_1 +0\.5/0\.5 +exit code 0 +\(\d+\.\d s\)",
        r"1 of 1 tests passed, score 0\.5 of 0\.5 \(100\.0%\)",
        rf"report: {re.escape(str(tmp_path))}/report\.json",
    ]
    lines = out.splitlines()
    assert [line for line, pattern in zip(lines, patterns) if not re.fullmatch(pattern, line)] == []
    assert len(lines) == len(patterns)


def test_screen_shows_buildkit_steps_without_their_output(fake, arguments):
    vertices = (
        "[internal] load x\nDONE 0.1s",
        "[1/2] FROM x\nCACHED",
        "[2/2] RUN make\n0.1 hello\nDONE 1s",
    )
    fake.fault("build", "print", **buildkit(*vertices, error=""))
    _, out, _ = called(de.main, *arguments(["FROM x"], TRUE))
    shown = [line for line in out.splitlines() if line.startswith("  | ")]
    assert [line.partition("[")[2] for line in shown] == ["1/2] FROM x", "2/2] RUN make"]


def test_verbose_screen_has_build_log_command_output_and_exit_code(fake, arguments):
    fake.fault("build", "print", **legacy("RUN make\nhello", error=""))
    draw = {
        "type": "run_command",
        "params": {"command": "echo {a}{a}", "draw": {"a": [1000000, 2000000]}},
    }
    late = run_command("echo early; sleep 9", timeout=0.3)
    _, out, _ = called(de.main, *arguments(["FROM x"], FALSE, draw, late, more=["--verbose"]))
    assert "\n  | hello\n" in out
    assert "\n  | $ echo early; sleep 9\n  | early\nfailed: " in out  # it has no exit code
    assert "\n  | $ echo why; false\n  | why\n  | exit code 1\n" in out
    assert re.search(r"\n  \| \$ echo (\d{14})\n  \| \1\n  \| exit code 0\n", out)


def test_summary_lists_failures_and_counts_what_did_not_run(fake, arguments):
    tests = [
        {**FALSE, "id": "bad", "score": 4000},
        run_command("sleep 9", id="long", timeout=0.3, score=0),
        {**TRUE, "id": "after", "requires": ["long"], "score": 0},
        {**TRUE, "id": "lost", "requires": ["nobody"], "score": 0},
        {**TRUE, "id": "good", "score": 1234570},
    ]
    _, out, _ = called(de.main, *arguments(["FROM x"], *tests))
    *_, bad, late, lost, score, _ = out.splitlines()
    assert bad == "failed: bad: exit code 1: why"
    assert late == "timeout: long: timed out after 0.3 s"
    assert lost.startswith("unresolvable: lost: requires unknown test 'nobody'")
    assert (
        score == "1 of 5 tests passed, score 1234570 of 1238570 (99.6%), 1 skipped"
    )  # exact numbers


def test_screen_of_failed_build_has_the_end_of_its_log(fake, arguments):
    assert (
        "\n  | last words of the build\n"
        in called(de.main, *arguments(["FROM x", "RUN FAIL"], TRUE))[1]
    )


def test_text_of_containers_and_builds_is_escaped(fake, arguments):
    """Neither the terminal nor a CI system may take it for a command."""
    evil = "\x1b[2J\r::error::x\n##[error]y\n##vso[task]z\n\x9b31m\n"
    fake.fault("build", "print", stdout=f"Step 1/1 : FROM x\n{evil}")
    octal = "".join(f"\\{byte:03o}" for byte in evil.encode())
    tests = [run_command(f"printf '{octal}'; false"), output_contains(f"printf '{octal}'", "x")]
    _, out, _ = called(de.main, *arguments(["FROM x"], *tests, more=["--verbose"]))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)
    assert not re.search(r"^\s*::", out, re.MULTILINE)
    assert not re.search(r"##\w*\[", out)
    assert "\\x1b[2J" in out


# --keep-image


def test_kept_image_and_lines_that_repeat_failed_commands(fake, arguments, report, rubric):
    params = {"command": 'echo "it\'s {a}"; false', "draw": {"a": [1000000, 2000000]}}
    words = arguments(["FROM x"], TRUE, more=["--keep-image", "--run-option=--memory=1g"])
    rubric(("run_command", params), TRUE, LOOK, run_options=["--shm-size=1g"])
    code, out, _ = called(de.main, *words)
    image, row = report()["environment"]["kept_image"], report()["test_results"][0]
    commands = [line for line in out.splitlines() if "docker run" in line]
    lines = [shlex.split(line) for line in commands[:-1]]
    run, shell = (
        ["docker", "run", "--rm"],
        ["--shm-size=1g", "--memory=1g", "--entrypoint", "/bin/sh", image],
    )
    repeated = [*run, *shell, "-c", f'echo "it\'s {row["drawn"]["a"]}"; false']
    assert lines == [repeated]
    assert commands[-1] == f"  a shell in it: docker run --rm -it --entrypoint /bin/sh {image}"
    assert code == 1
    assert f"image kept: {image}\n" in out


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
    found = [(row["status"], row["exit_code"], row["retried"]) for row in report()["test_results"]]
    assert process.returncode == 1
    assert found == [("passed", 0, False), ("failed", 1, False)]


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
