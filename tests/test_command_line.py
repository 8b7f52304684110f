"""The program as a user starts it: words, exit codes, signals."""

from __future__ import annotations

import fcntl
import json
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
import time

import pytest
from cases import FALSE, TRUE, files_exist, output_contains, run_command
from conftest import PROGRAM, PROJECT
from engine import wait_for

import DockerfileEvaluator as de


def test_exit_code_and_lines_of_a_pass(fake, arguments, report, capsys):
    assert de.main(arguments(["FROM x"], TRUE)) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert re.fullmatch(r"building \S+/Dockerfile", lines[0])
    assert re.fullmatch(r"built: \S+/Dockerfile \(legacy builder, \d\.\d s\)", lines[1])
    assert re.fullmatch(r"passed   run_command_1  1/1  exit code 0  \(0\.\d s\)", lines[2])
    assert lines[3:] == ["1 of 1 tests passed, score 1 of 1 (100%)", f"report: {lines[-1][8:]}"]
    assert report()["summary"]["passed_tests"] == 1
    assert err == ""


def test_exit_code_and_lines_of_a_failure(fake, arguments, report, capsys):
    assert de.main(arguments(["FROM x"], FALSE, TRUE, more=["--verbose"])) == 1
    out, _ = capsys.readouterr()
    assert "failed   run_command_1  0/1  exit code 1: why" in out
    assert "  | $ echo why; false\n  | why\n  | exit code 1\n" in out
    assert "  | Step 1/1 : FROM scratch\n" in out
    assert "not passed:\n  run_command_1: exit code 1: why\n1 of 2 tests passed, score 1 of 2 (50%)\n" in out


def test_the_summary_names_what_failed_and_counts_what_did_not_run(fake, arguments, capsys):
    tests = [
        run_command("sleep 9", id="long", timeout=1),
        {**TRUE, "id": "after", "requires": ["long"]},
        {**TRUE, "id": "lost", "requires": ["nobody"]},
    ]
    assert de.main(arguments(["FROM x"], *tests)) == 1
    out, _ = capsys.readouterr()
    summary = out[out.index("not passed:") :].splitlines()
    assert summary[:4] == [
        "not passed:",
        "  long: timed out: no end within 1 s; the container was killed",
        "  lost: requires unknown test 'nobody'",
        "0 of 3 tests passed, score 0 of 3 (0%); 1 skipped",
    ]


def test_warnings_are_printed_below_the_summary(fake, arguments, capsys):
    fake.write("config", {"Env": ["BASH_ENV=/x"]})
    tests = [run_command("false || true"), {**TRUE, "id": "lost", "requires": ["run_comand_1"]}]
    assert de.main(arguments(["FROM x"], *tests)) == 1
    _, warnings = capsys.readouterr().out.split("score 1 of 2 (50%)\n")
    lines = warnings.splitlines()
    suggestion = "requires unknown test 'run_comand_1' (did you mean 'run_command_1'?)"
    assert lines[0] == f"warning: unresolvable: 'lost' {suggestion}, so it can never run"
    assert lines[1].startswith("warning: telling-variable: image: BASH_ENV=/x is set, ")
    assert lines[2].startswith("report: ")


# What leaves no score

NO_SCORE = {
    "engine": "the docker engine failed; evaluate again",
    "registry": "a registry is out of reach; evaluate again",
    "usage": "docker refuses an option or the build context",
    "interrupted": "the evaluation was interrupted",
}
SCORED = ("build", "build_timeout")


@pytest.mark.parametrize("kind", [*NO_SCORE, *SCORED])
def test_no_score_no_number(fake, evaluate, kind):
    """Neither in the line of the screen nor in the table of a step's summary."""
    report = {**evaluate(["FROM x"], TRUE, FALSE), "error": {"kind": kind, "message": "x"}}
    line = f"no score: {NO_SCORE[kind]}" if kind in NO_SCORE else "1 of 2 tests passed, score 1 of 2 (50%)"
    assert de.score_line(report) == line
    assert de.as_markdown(report).splitlines()[2] == line


NO_ANSWER = {"on": "version", "do": "lose", "nth": 1}
REFUSED = {"on": "build", "do": "fail", "help": True, "stderr": "unknown flag: --bogus"}
OUT_OF_REACH = {
    "on": "build",
    "do": "fail",
    "stdout": "Step 1/1 : FROM x\n",
    "stderr": "dial tcp: no such host",
}


@pytest.mark.parametrize(
    ("kind", "fault", "more"),
    [
        ("engine", NO_ANSWER, []),
        ("usage", REFUSED, ["--build-option=--bogus"]),
        ("registry", OUT_OF_REACH, []),
    ],
)
def test_where_there_is_no_score_the_screen_says_why(
    fake, arguments, report, capsys, monkeypatch, kind, fault, more
):
    monkeypatch.setattr(de, "BUILD_PAUSE", 0.1)
    fake.write("pull", {"stderr": "dial tcp: no such host"})
    fake.fault(**fault)
    assert de.main(arguments(["FROM x"], TRUE, TRUE, more=more)) == 1
    out, err = capsys.readouterr()
    assert f"no score: {NO_SCORE[kind]}\n" in out
    assert "score 0" not in out
    assert err.startswith("error: ")
    assert report()["error"]["kind"] == kind


# --keep-image


@pytest.mark.parametrize(
    ("more", "command"),
    [
        ([], "docker"),
        (["--engine=unix:///fake it"], "docker --host 'unix:///fake it'"),
        (["--engine=lab"], "docker --context lab"),
        (["--docker=DOCKER"], "DOCKER"),
    ],
)
def test_a_kept_image_is_printed_with_the_line_that_opens_a_shell_in_it(
    fake, arguments, report, capsys, more, command
):
    more = [word.replace("DOCKER", str(fake.program)) for word in more]
    assert de.main(arguments(["FROM x"], TRUE, more=["--keep-image", *more])) == 0
    (tag,) = fake.left()
    command = command.replace("DOCKER", str(fake.program))
    lines = capsys.readouterr().out.splitlines()
    at = lines.index(f"image kept: {tag}")
    assert lines[at + 1] == f"  a shell in it: {command} run --rm -it --entrypoint /bin/sh {tag}"
    assert report()["environment"]["kept_image"] == tag


# --check


def test_check_says_that_a_rubric_is_understood_and_who_tells_whether_it_is_good(fake, rubric, capsys):
    path = rubric(TRUE, {**TRUE, "score": 0.5, "id": "lost", "requires": ["lost"]})
    assert de.main(["--check", "--rubric", path]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"warning: {path}: 'lost' requires itself, so it can never run",
        f"{path}: 2 tests, 1.5 points",
        f"understood; to check its quality: python3 rubrics/review.py {path}",
    ]
    assert (err, fake.calls()) == ("", [])


def test_check_names_every_fault_and_ends_with_1(rubric, capsys):
    path = rubric({"type": "run_comand", "params": {}}, {"type": "run_command", "params": {"comand": "x"}})
    assert de.main(["--check", "--rubric", path]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"error: {path}: tests[0].type: unknown test type 'run_comand' (did you mean 'run_command'?)",
        f"error: {path}: tests[1].params.command: missing; expected a string that is not empty",
        f"error: {path}: tests[1].params: unknown key 'comand' (did you mean 'command'?)",
    ]


def test_check_takes_the_default_rubric_of_a_repository(capsys, monkeypatch):
    monkeypatch.chdir(PROJECT)
    assert de.main(["--check", "--repo", "example"]) == 0
    assert capsys.readouterr().out.startswith("rubrics/example.json: 10 tests, 23 points\n")


def test_check_starts_no_process(rubric, monkeypatch, capsys):
    monkeypatch.setattr(de.subprocess, "Popen", None)
    monkeypatch.setattr(de.threading.Thread, "start", None)
    assert de.main(["--check", "--rubric", rubric(TRUE)]) == 0


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "the following arguments are required: --dockerfile, --repo"),
        (["--repo", "x"], "the following arguments are required: --dockerfile"),
        (["--check"], "--check needs --rubric FILE or --repo NAME"),
        (
            ["--dockerfile", "x", "--repo", "x", "--resume"],
            "resume: the report to resume from is that of --output",
        ),
    ],
)
def test_arguments_that_are_missing(words, error, capsys):
    with pytest.raises(SystemExit) as caught:
        de.main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {error}\n")


# GitHub Actions


def test_in_github_actions_the_table_is_appended_to_the_steps_summary(
    fake, arguments, capsys, monkeypatch, tmp_path
):
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    evil = run_command("echo '<img src=x> | *b* [x](http://y) `c`'; false")
    words = arguments(["FROM x"], TRUE, evil)
    assert de.main(words) == 1
    plain = capsys.readouterr().out
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    assert de.main(words) == 1
    assert re.sub(r"\d\.\d s", "", capsys.readouterr().out) == re.sub(r"\d\.\d s", "", plain)
    lines = file.read_text().splitlines()
    assert lines[0] == "before"
    assert re.fullmatch(r"### example\\: .*/Dockerfile", lines[1])
    assert lines[2:7] == [
        "",
        "1 of 2 tests passed, score 1 of 2 (50%)",
        "",
        "| status | test | score | message | seconds |",
        "|---|---|---|---|---|",
    ]
    assert lines[8].startswith(
        r"| failed | run\_command\_2 | 0/1 | exit code 1\: \<img src=x\> \| \*b\* \[x\](http\://y) \`c\` | "
    )
    assert de.main(arguments(["FROM x", "RUN FAIL"], TRUE)) == 1
    assert (
        "**build**: step 1 of 1 (FROM scratch)\\: exit code 7\\: last words of the build\n"
        in file.read_text()
    )
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert de.main(words) == 1
    assert "the summary cannot be written: Is a directory" in capsys.readouterr().err


def test_a_failed_build_says_why_and_ends_with_1(fake, arguments, report, capsys):
    assert de.main(arguments(["FROM x", "RUN FAIL"], TRUE)) == 1
    out, err = capsys.readouterr()
    assert "  | last words of the build" in out
    assert err == "error: step 1 of 1 (FROM scratch): exit code 7: last words of the build\n"
    assert report()["test_results"][0]["status"] == "not_run"


def test_a_test_or_build_that_exits_130_is_no_interrupt(fake, arguments):
    assert de.main(arguments(["FROM x"], run_command("exit 130"))) == 1
    fake.fault("build", "fail", code=130, stderr="The command '/bin/sh -c x' returned a non-zero code: 130")
    assert de.main(arguments(["FROM x"], TRUE)) == 1


def bad(tmp_path, what):
    files = {"dockerfile": tmp_path / "Dockerfile", "rubric": tmp_path / "r.json"}
    files["dockerfile"].write_text("FROM x\n")
    files["rubric"].write_text('{"repo": "r", "tests": [{"type": "envvar_set", "params": {"name": "X"}}]}')
    words = {"--dockerfile": str(files["dockerfile"]), "--rubric": str(files["rubric"]), "--repo": "r"}
    return {**words, **{key: str(value).replace("TMP", str(tmp_path)) for key, value in what.items()}}


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"--dockerfile": "TMP/none"}, "TMP/none: the Dockerfile cannot be read: No such file or directory"),
        ({"--dockerfile": "TMP"}, "TMP: not a regular file; expected a Dockerfile"),
        ({"--context": "TMP/none"}, "TMP/none: no such folder for the build context (--context DIR)"),
        ({"--rubric": "TMP/none.json"}, "TMP/none.json: no such rubric; name one with --rubric FILE"),
        ({"--rubric": "TMP/Dockerfile"}, "TMP/Dockerfile: not JSON at line 1, column 1: Expecting value"),
        ({"--output": "TMP"}, "TMP: a folder; expected a file for the report"),
        ({"--output": "TMP/Dockerfile/report.json"}, "the report cannot be written: "),
        (
            {"--docker": "no-such-docker"},
            "no program 'no-such-docker' found. Install the docker command line",
        ),
    ],
)
def test_bad_input_is_named_without_a_traceback(fake, tmp_path, capsys, what, words):
    given = bad(tmp_path, what)
    assert de.main([word for pair in given.items() for word in pair]) == 1
    err = capsys.readouterr().err
    assert f"error: {words.replace('TMP', str(tmp_path))}" in err or words in err
    assert "Traceback" not in err
    assert fake.calls("build") == []


def test_the_default_rubric_is_named_after_the_repository(fake, dockerfile, capsys):
    assert de.main(["--dockerfile", dockerfile("FROM x"), "--repo", "my/repo"]) == 1
    assert (
        capsys.readouterr().err
        == "error: rubrics/my/repo.json: no such rubric; name one with --rubric FILE\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--jobs", "0"],
        ["--jobs", "x"],
        ["--build-timeout", "0"],
        ["--build-timeout", "nan"],
        ["--run-option=-it"],
        ["--bogus"],
    ],
)
def test_wrong_usage_ends_with_2(arguments, capsys, words):
    with pytest.raises(SystemExit) as caught:
        de.main(arguments(["FROM x"], TRUE, more=words))
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_output_of_containers_cannot_steer_terminal_or_ci(fake, arguments, capsys):
    evil = "printf '\\033[2J\\r::error::x\\n##[error]y\\n\\302\\2331m'; false"
    de.main(arguments(["FROM x"], run_command(evil), more=["--verbose"]))
    out = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)
    assert not re.search(r"^\s*::", out, re.MULTILINE)
    assert not re.search(r"##\w*\[", out)
    assert "  | \\x1b[2J\n  | ::error::x\n  | # #[error]y\n" in out


def test_a_screen_that_knows_only_ascii(fake, arguments, tmp_path):
    words = arguments(["FROM x"], run_command("printf 'é\\377€'; false"), more=["--verbose"])
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*PROGRAM, *words], env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"\\xe9" in done.stdout


def test_a_reader_that_goes_away_does_not_stop_the_evaluation(fake, arguments, report):
    shell = '"$@" | head -n 1'
    words = ["sh", "-c", shell, "sh", *PROGRAM, *arguments(["FROM x"], *[TRUE] * 5)]
    done = subprocess.run(words, capture_output=True)
    assert done.stderr == b""
    assert report()["summary"]["passed_tests"] == 5


def test_a_terminal_gets_a_live_line_and_colours(fake, arguments):
    words = arguments(["FROM x"], run_command("sleep 1"))
    screen = on_a_terminal([*PROGRAM, *words], {"TERM": "xterm"})
    assert "\x1b[32mpassed \x1b[0m" in screen
    assert re.search(r"\r\x1b\[Ktesting: run_command_1 \d s", screen)
    words = arguments(["FROM x"], TRUE)
    plain = on_a_terminal([*PROGRAM, *words], {"TERM": "xterm", "NO_COLOR": "1"})
    assert "\x1b[32m" not in plain
    dumb = on_a_terminal([*PROGRAM, *words], {"TERM": "dumb"})
    assert "\x1b" not in dumb


def test_lines_fit_a_terminal_of_80_columns(fake, arguments):
    path = "/no/such/" + "x" * 99
    tests = [files_exist(path, id=f"a_rather_long_name_of_a_test_{n}") for n in range(2)]
    screen = on_a_terminal([*PROGRAM, *arguments(["FROM x"], *tests)], {"TERM": "xterm", "NO_COLOR": "1"})
    rows = [line for line in re.split(r"[\r\n]+|\x1b\[K", screen) if line.startswith("failed")]
    assert len(rows) == 2
    assert all(len(row) < 80 and row.endswith(" s)") for row in rows)
    assert (
        "  a_rather_long_name_of_a_test_0: no such file: '/no/such/xxxxxxx" in screen
    )  # the summary has it in full


def on_a_terminal(command, environment):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(command, stdout=slave, stderr=slave, env={**os.environ, **environment})
    os.close(slave)
    seen = b""
    while select.select([master], [], [], 30)[0]:
        try:
            seen += os.read(master, 4096)
        except OSError:
            break
    process.wait()
    os.close(master)
    return seen.decode()


@pytest.fixture
def started():
    """Start the program, or what starts it; what a failed test leaves running is killed."""
    processes = []

    def start(*words):
        processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


STUCK = run_command("touch running; sleep 600")
HELD = output_contains("touch running; until test -e go; do sleep 0.1; done; echo done", "done")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_during_a_test(fake, arguments, started, report, number, code):
    process = started(*PROGRAM, *arguments(["FROM x"], TRUE, STUCK, TRUE))
    wait_for(lambda: fake.is_running("sleep 600"))
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert [row["status"] for row in report()["test_results"]] == ["passed", "not_run", "not_run"]
    assert report()["error"] == {"kind": "interrupted", "message": "the evaluation was interrupted"}
    assert b"\nno score: the evaluation was interrupted\n" in out
    assert fake.left() == []
    assert b"Traceback" not in err
    assert b"interrupted; cleaning up" in out


def test_a_signal_during_the_build(fake, arguments, started, report):
    process = started(*PROGRAM, *arguments(["FROM x", "RUN SLEEP"], TRUE))
    wait_for(lambda: fake.calls("build"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert report()["test_results"][0]["status"] == "not_run"
    assert report()["error"]["kind"] == "interrupted"


def test_a_signal_while_docker_makes_a_container(fake, arguments, started):
    """The container comes after the signal, from an engine that was asked before; it must not stay."""
    fake.write("in_flight", 2)
    process = started(*PROGRAM, *arguments(["FROM x"], STUCK))
    wait_for(lambda: fake.calls("run"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    wait_for((fake.folder / "arrived.json").exists)
    assert process.returncode == 130
    assert fake.left() == []
    assert fake.calls("container", "rm")


def test_a_second_signal_leaves_clean_up_and_names_what_is_left(fake, arguments, started, report):
    fake.fault("image rm", "hang")
    process = started(*PROGRAM, *arguments(["FROM x"], STUCK))
    wait_for(lambda: fake.is_running("sleep 600"))
    process.send_signal(signal.SIGINT)
    wait_for(lambda: fake.calls("image", "rm"))
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - begun < de.CALL_LIMIT / 2  # the hanging call's own
    assert process.returncode == 130
    assert b"Traceback" not in err
    (left,) = fake.left()
    run = left.partition(":")[2]
    assert [run in warning for warning in report()["warnings"]] == [True]
    assert (
        f"warning: leftover: image dockerfile-evaluator:{run} stays: clean-up was interrupted".encode() in out
    )


def test_a_signal_that_the_caller_ignores_stays_ignored(fake, arguments, started):
    words = arguments(["FROM x"], HELD)
    process = started("sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *PROGRAM, *words)
    wait_for(lambda: fake.is_running("done"))
    process.send_signal(signal.SIGHUP)
    (fake.root / "go").touch()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_evaluate_prints_nothing_keeps_handlers_and_raises_an_interrupt_again(
    fake, dockerfile, rubric, tmp_path
):
    program = f"""
import os, signal, sys
sys.path.insert(0, {str(PROJECT)!r})
import DockerfileEvaluator as de
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
open({str(fake.root / "pid")!r}, "w").write(str(os.getpid()))
try:
    de.evaluate({dockerfile("FROM x")!r}, "r", {rubric(run_command("kill -INT $(cat pid); sleep 600"))!r}, {str(tmp_path / "o.json")!r})
except KeyboardInterrupt:
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    sys.exit(5)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (5, b"", b"")
    assert json.loads((tmp_path / "o.json").read_text())["error"]["kind"] == "interrupted"
    assert fake.left() == []


@pytest.mark.long("installs a package")
def test_the_package_installs_and_its_script_runs(tmp_path):
    """In an empty virtual environment; it needs the index of packages, as the tests themselves do."""
    copy, environment = tmp_path / "project", tmp_path / "venv"
    shutil.copytree(str(PROJECT), str(copy), ignore=shutil.ignore_patterns(".*", "__pycache__"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", str(copy)], check=True)
    done = subprocess.run(
        [str(environment / "bin" / "dockerfile-evaluator"), "--version"], stdout=subprocess.PIPE
    )
    assert done.stdout.decode() == f"DockerfileEvaluator {de.__version__}\n"


def test_signals_only_ask_and_those_ignored_stay_so():
    stop = de.Stop()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with de._signals_ask(stop) as heard:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), number)
        assert (stop.asked, stop.at_once, heard) == (True, True, [signal.SIGINT, signal.SIGTERM])
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGHUP)) == (
            before[0],
            signal.SIG_IGN,
        )
    finally:
        signal.signal(signal.SIGHUP, before[1])
