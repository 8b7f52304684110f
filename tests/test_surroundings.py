"""What surrounds an evaluation: screens that close, files that cannot be replaced, what others left."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from cases import LOOK, TRUE, run_command
from conftest import PIPES, PROGRAM, statuses
from engine import wait_for

import DockerfileEvaluator as de

# Screens


@pytest.mark.parametrize(("ignored", "code", "last"), [(False, 129, "not_run"), (True, 0, "passed")])
def test_a_terminal_that_closes_loses_no_report(fake, arguments, report, tmp_path, ignored, code, last):
    """SIGHUP asks for the end; where it is ignored, as under nohup, the evaluation goes on unseen."""
    waits = f"touch {tmp_path}/begun; until test -e {tmp_path}/go; do sleep 0.05; done"
    words = arguments(["FROM x"], TRUE, run_command(waits), TRUE, more=["--verbose"])
    master, slave = pty.openpty()

    def on_that_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)

    process = subprocess.Popen(
        [*PROGRAM, *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm"},
        preexec_fn=on_that_terminal,  # noqa: PLW1509 - this process has one thread
    )
    os.close(slave)
    wait_for((tmp_path / "begun").exists)
    os.close(master)
    if ignored:
        (tmp_path / "go").touch()
    assert process.wait(60) == code
    assert list(statuses(report()).values())[::2] == ["passed", last]
    assert fake.left() == []


@pytest.mark.parametrize(
    "redirection",
    [">/dev/full", ">/dev/full 2>&1", "2>/dev/full", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "<&- >&-"],
)
def test_a_screen_that_takes_nothing_changes_nothing(fake, arguments, report, redirection):
    fake.write("config", {"Env": ["PATH=/bin", "BASH_ENV=/x"]})  # a warning is one line more
    words = arguments(["FROM x"], TRUE, LOOK, more=["--verbose"])
    shell = ["sh", "-c", f'"$@" {redirection}', "sh", *PROGRAM, *words]
    done = subprocess.run(shell, stdin=subprocess.DEVNULL, **PIPES)
    assert (done.returncode, done.stderr) == (0, b"")
    assert report()["summary"]["passed_tests"] == 2
    assert fake.left() == []


@pytest.mark.parametrize("redirection", [">/dev/full 2>&1", ">&- 2>&-"])
def test_without_a_screen_a_failure_still_ends_with_1(fake, arguments, report, redirection):
    words = arguments(["FROM x", "RUN FAIL"], TRUE)
    done = subprocess.run(["sh", "-c", f'"$@" {redirection}', "sh", *PROGRAM, *words], **PIPES)
    assert (done.returncode, report()["error"]["kind"]) == (1, "build")
    assert fake.left() == []


# Interrupts


def test_an_interrupted_build_is_reported_with_its_time_and_log(fake, arguments, report):
    words = arguments(["FROM x", "RUN SLEEP"], TRUE, more=["--verbose"])
    process = subprocess.Popen([*PROGRAM, *words], **PIPES)
    for line in process.stdout:
        if b"Step 1/1" in line:
            break
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (out.startswith(b"not built: "), b"build failed" in out) == (True, False)
    build = report()["build"]
    assert (build["succeeded"], build["execution_time"] > 0) == (False, True)
    assert "Step 1/1 : FROM scratch" in build["log"]


# Files


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EPERM, errno.EACCES])
def test_a_report_whose_file_cannot_be_replaced_is_written_in_place(
    fake, evaluate, monkeypatch, tmp_path, number
):
    output = tmp_path / "reports" / "report.json"
    output.parent.mkdir()
    output.write_text("old" * 100_000)
    before = output.stat().st_ino
    for function in ("replace", "rename"):
        real = getattr(os, function)

        def refuse(source, target, real=real, **more):
            if os.fspath(target) == str(output):
                raise OSError(number, os.strerror(number))
            return real(source, target, **more)

        monkeypatch.setattr(os, function, refuse)
    report = evaluate(["FROM x"], TRUE, output=str(output))
    assert (json.loads(output.read_text()), output.stat().st_ino) == (report, before)
    assert os.listdir(str(output.parent)) == ["report.json"]


def test_a_report_can_be_a_file_that_is_mounted(fake, arguments, tmp_path):
    real, mounted = tmp_path / "real.json", tmp_path / "report.json"
    for file in (real, mounted):
        file.write_text("old" * 100_000)
    mount = ["unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh"]
    mount += [str(real), str(mounted)]
    if not shutil.which("unshare") or subprocess.run([*mount, "true"], capture_output=True).returncode:
        pytest.skip("no file can be mounted here")
    done = subprocess.run([*mount, *PROGRAM, *arguments(["FROM x"], TRUE)], **PIPES)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(real.read_text())["summary"]["passed_tests"] == 1


def test_a_report_can_be_somebody_elses_file_in_a_sticky_folder(fake, arguments, tmp_path):
    """As in /tmp: everybody may write to the file, and only its owner may replace or remove it."""
    without_rights = ["setpriv", "--bounding-set", "-fowner"]
    if os.getuid() or not shutil.which("setpriv") or subprocess.run([*without_rights, "true"]).returncode:
        pytest.skip("needs root, who can give files away, and setpriv, who takes the right to replace them")
    folder = tmp_path / "sticky"
    folder.mkdir()
    output = folder / "report.json"
    output.write_text("old" * 100_000)
    output.chmod(0o666)
    folder.chmod(0o1777)
    os.chown(str(output), 65533, 65533)
    os.chown(str(folder), 65532, 65532)
    words = [*arguments(["FROM x"], TRUE), "--output", str(output)]
    done = subprocess.run([*without_rights, *PROGRAM, *words], **PIPES)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(output.read_text())["summary"]["passed_tests"] == 1
    assert (os.listdir(str(folder)), output.stat().st_uid) == (["report.json"], 65533)


def spelled(file: str, spelling: str) -> str:
    """Name a file in another way."""
    folder, name = os.path.split(file)
    if spelling == "other spelling":
        return os.path.join(folder, ".", "..", os.path.basename(folder), name)
    if spelling == "relative":
        return os.path.relpath(file)
    if spelling == "link":
        os.symlink(file, f"{file}.link")
    if spelling == "hard link":
        os.link(file, f"{file}.link")
    return f"{file}.link" if "link" in spelling else file


SPELLINGS = ("same", "other spelling", "relative", "link", "hard link")
CLASHES = [
    (option, with_, how)
    for option in ("output", "junit")
    for with_ in ("rubric", "dockerfile")
    for how in SPELLINGS
]


@pytest.mark.parametrize(
    ("option", "other", "how"),
    [*CLASHES, *(("junit", "output", how) for how in SPELLINGS if how != "hard link")],
)
def test_no_output_may_be_another_file_of_the_evaluation(
    fake, dockerfile, rubric, tmp_path, capsys, option, other, how
):
    files = {"dockerfile": dockerfile("FROM x"), "rubric": rubric(TRUE), "output": str(tmp_path / "new.json")}
    before = {name: Path(file).read_text() for name, file in files.items() if name != "output"}
    given = {**files, option: spelled(files[other], how)}
    with pytest.raises(ValueError, match=option):
        de.evaluate(repo="r", **given)
    with pytest.raises(SystemExit) as caught:
        de.main(["--repo", "r", *(word for name, file in given.items() for word in (f"--{name}", file))])
    assert caught.value.code == 2
    assert re.search(f"error: .*{option}", capsys.readouterr().err)
    assert {name: Path(files[name]).read_text() for name in before} == before
    assert fake.calls() == []


def test_the_default_rubric_is_no_place_for_the_report(fake, dockerfile, rubric, monkeypatch, tmp_path):
    (tmp_path / "rubrics").mkdir()
    shutil.copy(rubric(TRUE), str(tmp_path / "rubrics" / "r.json"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="output"):
        de.evaluate(dockerfile("FROM x"), "r", output="rubrics/r.json")
    assert fake.calls() == []


@pytest.mark.parametrize("redirection", [">>", ">"])
@pytest.mark.parametrize("device", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_report_on_stdout_is_appended_to_the_file_that_it_goes_to(
    fake, arguments, tmp_path, device, redirection
):
    log = tmp_path / "log"
    log.write_text("before\n")
    words = [*arguments(["FROM x"], TRUE), "--output", device]
    shell = f'"$@" {redirection}"$0"; echo after >>"$0"'
    subprocess.run(["sh", "-c", shell, str(log), *PROGRAM, *words], check=True)
    text = log.read_text()
    assert text.startswith("before\n" if redirection == ">>" else "buil")
    assert text.endswith("after\n")
    report, _ = json.JSONDecoder().raw_decode(text, text.index("\n{\n") + 1)
    assert report["summary"]["passed_tests"] == 1
    assert re.search(r"^passed +run_command_1 ", text[: text.index("\n{\n")], re.MULTILINE)


# The first moments


@pytest.mark.parametrize("relative", ["dockerfile", "rubric", "output", "context", "check"])
def test_a_current_folder_that_was_deleted_is_named_without_a_traceback(
    fake, dockerfile, rubric, tmp_path, relative
):
    gone = tmp_path / "gone"
    gone.mkdir()
    files = {
        "dockerfile": dockerfile("FROM x"),
        "rubric": rubric(TRUE),
        "output": str(tmp_path / "report.json"),
    }
    files["context"] = str(tmp_path / "context")
    words = ["--check", "--rubric", "rubric.json"]
    if relative != "check":
        files[relative] = relative
        words = ["--repo", "r", *(word for name, file in files.items() for word in (f"--{name}", file))]
    if relative == "dockerfile":
        words = words[:-2]  # so that its own folder is the context
    shell = 'cd "$0" && rmdir "$0" && exec "$@"'
    done = subprocess.run(["sh", "-c", shell, str(gone), *PROGRAM, *words], **PIPES)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert b"Traceback" not in done.stderr
    assert fake.calls("build") == []


def test_a_current_folder_that_was_deleted_meanwhile_is_named(monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(de.EvaluationError, match="the report cannot be written"):
        de.write_file("report.json", "{}")


@pytest.mark.long("twenty starts")
def test_an_early_ctrl_c_is_answered_without_a_traceback(fake, arguments):
    """What the interpreter says before the first statement that can answer runs, is not ours."""
    text = Path(PROGRAM[-1]).read_text(encoding="utf-8")
    listens = text[: text.index("import signal")].count("\n") + 1
    python = [sys.executable, "-S", "-E", *PROGRAM[1:]]
    words = arguments(["FROM x"], run_command("sleep 600"))
    started = time.monotonic()
    subprocess.run([*python, "--check", *words[2:4]], check=True, **PIPES)
    whole = time.monotonic() - started
    for part in range(20):
        process = subprocess.Popen([*python, *words], **PIPES)
        time.sleep(whole * 1.2 * part / 20)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        places = re.findall(rb'DockerfileEvaluator.py", line (\d+)', err)
        assert all(int(line) < listens for line in places), (part, err.decode())
        # an interpreter that has not begun with ours may say anything, but not end well
        assert process.returncode in (130, -signal.SIGINT) or (err and process.returncode), (part, err)
    assert fake.left() == []
