"""At the edges: clocks, shells, locales, rubrics and images as they are on somebody's bad day."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from cases import LOOK, TRUE, run_command
from conftest import PIPES, PROGRAM, statuses
from engine import wait_for

import DockerfileEvaluator as de

# Clocks


def stand_still(process, seconds, until=lambda: True):
    """Stop a process, as Ctrl-Z does, until something has happened and for some seconds at least."""
    process.send_signal(signal.SIGSTOP)
    end = time.monotonic() + seconds
    wait_for(lambda: until() and time.monotonic() > end)
    process.send_signal(signal.SIGCONT)


def test_an_end_mark_in_the_pipe_counts_before_the_limit_does(fake, arguments, report, tmp_path):
    waits = f"touch {tmp_path}/begun; until test -e {tmp_path}/go; do sleep 0.05; done; echo done"
    words = arguments(["FROM x"], run_command(waits, timeout=3))
    process = subprocess.Popen([*PROGRAM, *words], **PIPES)
    wait_for((tmp_path / "begun").exists)
    process.send_signal(signal.SIGSTOP)
    (tmp_path / "go").touch()
    stand_still(process, 3.5, until=lambda: not os.listdir(fake.folder / "containers"))
    process.communicate(timeout=60)
    assert statuses(report()) == {"run_command_1": "passed"}


def test_a_build_that_ended_while_the_evaluator_stood_still_was_in_time(fake, arguments, report):
    fake.fault("build", "delay", seconds=1.5)
    process = subprocess.Popen([*PROGRAM, *arguments(["FROM x"], TRUE, more=["--build-timeout=3"])], **PIPES)
    wait_for(lambda: fake.calls("build"))
    stand_still(process, 3.5, until=lambda: os.listdir(fake.folder / "images"))
    process.communicate(timeout=60)
    assert (report()["error"], statuses(report())) == (None, {"run_command_1": "passed"})


def test_time_in_which_the_evaluator_stood_still_before_its_first_look_does_not_count(monkeypatch):
    start = subprocess.Popen

    def start_and_sleep(*words, **more):
        started = start(*words, **more)
        time.sleep(0.5)
        return started

    monkeypatch.setattr(de, "GRACE", 0.3)
    monkeypatch.setattr(de.subprocess, "Popen", start_and_sleep)
    with de.Process(("true",), os.environ) as process:
        assert list(process.read()) == []
        assert process.stood_still >= 0.5
        assert process.clock() < time.monotonic() - process._started - 0.4


@pytest.mark.long("stands still for seconds")
@pytest.mark.parametrize(("second", "status"), [("true", "passed"), ("sleep 600", "timeout")])
def test_a_test_during_which_the_evaluator_stood_still_for_long_is_run_once_more(
    fake, arguments, report, tmp_path, second, status
):
    log = tmp_path / "log"
    text = f"echo run >>{log}; if test $(wc -l <{log}) = 1; then sleep 600; fi; {second}"
    process = subprocess.Popen([*PROGRAM, *arguments(["FROM x"], run_command(text, timeout=5))], **PIPES)
    wait_for(log.exists)
    stand_still(process, 10)
    process.communicate(timeout=60)
    assert statuses(report()) == {"run_command_1": status}
    assert log.read_text() == "run\nrun\n"


@pytest.mark.long("stands still for seconds")
def test_what_is_run_once_more_is_run_alone(fake, arguments, report, tmp_path):
    log = tmp_path / "log"
    log.touch()

    def slow(name):
        first = f"if test $(grep -c begin.{name} {log}) = 1; then sleep 600; fi"
        return run_command(f"echo begin {name} >>{log}; {first}; sleep 2; echo end {name} >>{log}", timeout=8)

    words = arguments(["FROM x"], slow("a"), slow("b"), more=["--jobs=2"])
    process = subprocess.Popen([*PROGRAM, *words], **PIPES)
    wait_for(lambda: len(log.read_text().splitlines()) == 2)
    stand_still(process, 10)
    process.communicate(timeout=60)
    assert set(statuses(report()).values()) == {"passed"}
    begin, end, other, last = (line.split() for line in log.read_text().splitlines()[2:])
    assert (begin[0], other[0]) == ("begin", "begin")
    assert (end, last) == (["end", begin[1]], ["end", other[1]])


@pytest.mark.long("waits for a limit")
def test_a_time_limit_is_not_longer_than_it_says(fake, evaluate):
    row = evaluate(["FROM x"], run_command("sleep 6", timeout=4))["test_results"][0]
    assert row["status"] == "timeout"
    assert 4 <= row["execution_time"] < 6


@pytest.mark.long("waits for a limit")
def test_the_builds_time_limit_is_not_longer_than_it_says(fake, evaluate):
    fake.fault("build", "delay", seconds=6)
    report = evaluate(["FROM x"], TRUE, build_timeout=4)
    assert report["error"]["kind"] == "build_timeout"
    assert report["build"]["execution_time"] >= 4


def test_a_container_is_removed_with_its_volumes(fake, evaluate):
    evaluate(["FROM x"], run_command("sleep 60", timeout=0.5))
    removals = [call for call in fake.calls() if call[:2] == ["container", "rm"] or call[0] == "rm"]
    assert removals
    assert all({"--volumes", "-v"} & set(call) for call in removals)


# Shells

BUILTINS = [
    "[",
    ":",
    "alias",
    "break",
    "builtin",
    "case",
    "cat",
    "command",
    "continue",
    "echo",
    "eval",
    "exec",
    "exit",
    "export",
    "kill",
    "printf",
    "read",
    "return",
]
BUILTINS += ["set", "shift", "test", "trap", "true", "umask", "unset", "wait"]
TAKES_OVER = {
    "ends": dict.fromkeys(BUILTINS, "() { exit 0; }"),
    "is silent": dict.fromkeys(
        ("[", "cat", "command", "echo", "printf", "test", "unset"), "() { return 0; }"
    ),
    "forges": dict.fromkeys(
        ("echo", "printf"),
        """() { case \"$*\" in\n*[0-9]) /usr/bin/printf '%s\\n' \"${*%[0-9]*}0\"; exit 0 ;;\n*) /usr/bin/printf '%s\\n' \"$*\" ;;\nesac; }""",
    ),
}


@pytest.mark.long("starts bash again and again")
@pytest.mark.parametrize("how", sorted(TAKES_OVER))
def test_a_function_in_bashs_environment_answers_for_no_word_of_ours(fake, evaluate, how):
    """With bash as /bin/sh, ENV BASH_FUNC_echo%% makes a function of that name before the first line."""
    fake.write("shell", ["bash"])
    tests, expected, environments = [], {}, []
    for at, (name, body) in enumerate(TAKES_OVER[how].items()):
        mark = f"probe_{at}_"
        environments.append([mark, {f"BASH_FUNC_{name}%%": body}])
        (fake.root / mark).write_text("some text\n")
        for word, kind, params, status in (
            ("command", "run_command", {"command": f"/bin/false {mark}"}, "failed"),
            ("good command", "run_command", {"command": f"/bin/true {mark}"}, "passed"),
            ("program", "command_exists", {"name": f"no_such_{mark}"}, "failed"),
            ("file", "files_exist", {"paths": [f"/no/{mark}"]}, "failed"),
            ("good file", "file_contains", {"path": mark, "contains": ["text"]}, "passed"),
        ):
            tests.append({"id": f"{name} {word}", "type": kind, "params": params})
            expected[f"{name} {word}"] = status
    fake.write("environments", environments)
    found = statuses(evaluate(["FROM x"], *tests))
    assert {key: value for key, value in found.items() if value != expected[key]} == {}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("echo", "case $* in *=B) /bin/echo $1; /bin/echo needle; /bin/echo ${1%=B}=E 0; exit 0;; esac"),
        ("test", "return 0"),
    ],
)
def test_a_path_on_which_dash_finds_functions_answers_for_no_word_of_ours(
    fake, evaluate, tmp_path, name, body
):
    """With %builtin in PATH dash looks for its own words there, behind the functions of other folders."""
    if not shutil.which("dash"):
        pytest.skip("no dash here; Debian's /bin/sh is one")
    fake.write("shell", ["dash"])
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / name).write_text(f"{name}() {{ {body}; }}\n")
    fake.write("environment", {"PATH": f"{tmp_path}/functions%func:%builtin:{os.environ['PATH']}"})
    tests = [
        run_command("exit 3"),
        {"type": "output_contains", "params": {"command": "true", "contains": ["needle"]}},
        {"type": "files_exist", "params": {"paths": ["/no/such"]}},
        {"type": "file_contains", "params": {"path": "/no/such", "contains": ["needle"]}},
    ]
    assert set(statuses(evaluate(["FROM x"], *tests)).values()) == {"failed"}


def test_a_command_that_nobody_may_execute_does_not_exist(fake, evaluate, tmp_path, shell):
    fake.write("shell", shell)
    programs = tmp_path / "on the path"
    (programs / "folder").mkdir(parents=True)
    for name, mode in (("notes", 0o644), ("tool", 0o755)):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(mode)
    fake.write("environment", {"PATH": str(programs)})
    names = {"notes": "failed", "tool": "passed", "folder": "failed", "cd": "passed", "no-such": "failed"}
    tests = [{"id": name, "type": "command_exists", "params": {"name": name}} for name in names]
    together = {"id": "all", "type": "commands_exist", "params": {"names": list(names)}}
    report = evaluate(["FROM x"], *tests, together)
    assert statuses(report) == {**names, "all": "failed"}
    assert report["test_results"][-1]["message"] == "not found: 'notes', 'folder', 'no-such'"


@pytest.mark.parametrize("path", ["$PATH:", ":$PATH", "$PATH::/no", "."])
def test_a_file_in_the_working_folder_is_no_command_unless_it_can_be_executed(
    fake, evaluate, tmp_path, shell, path
):
    """An empty entry in PATH (`PATH=$PATH:$NOSUCH`) is the working folder; busybox names it without a slash."""
    fake.write("shell", shell)
    (tmp_path / "elsewhere").mkdir()
    fake.write("environment", {"PATH": path.replace("$PATH", str(tmp_path / "elsewhere"))})
    for name, mode in (("kubectl", 0o644), ("tool", 0o755)):
        (fake.root / name).write_text("#!/bin/sh\n")
        (fake.root / name).chmod(mode)
    (fake.root / "folder").mkdir()
    names = {"kubectl": "failed", "tool": "passed", "folder": "failed", "no-such": "failed", "cd": "passed"}
    report = evaluate(
        ["FROM x"], *[{"id": n, "type": "command_exists", "params": {"name": n}} for n in names]
    )
    assert statuses(report) == names


# Locales


@pytest.fixture
def latin_1(tmp_path):
    """Make a locale in which a letter is one byte, without a trace on the machine."""
    made = tmp_path / "locales" / "de_DE.ISO-8859-1"
    made.parent.mkdir()
    words = ["localedef", "--no-archive", "-i", "de_DE", "-f", "ISO-8859-1", str(made)]
    if not shutil.which("localedef") or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no locale of one byte a letter can be made here")
    return {"LOCPATH": str(made.parent), "LC_ALL": made.name}


@pytest.mark.parametrize("locale", ["C", "latin_1"])
def test_a_rubric_is_utf_8_whatever_the_locale(request, fake, rubric, tmp_path, locale):
    settings = request.getfixturevalue(locale) if locale == "latin_1" else {"LC_ALL": "C"}
    settings = {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", **settings}
    context = tmp_path / "süß"
    for folder in (context, fake.root / "größe"):
        folder.mkdir()
    (context / "Dockerfile").write_text("FROM x\n")
    (fake.root / "größe" / "ö€").write_text("läuft", encoding="utf-8")
    tests = [
        run_command("test $(printf %s 'ö€' | od -An -tx1 | tr -d ' \\n') = c3b6e282ac"),
        ("output_contains", {"command": "echo größe", "contains": ["größe"]}),
        ("file_contains", {"path": "größe/ö€", "contains": ["läuft"]}),
        ("files_exist", {"paths": ["größe/ö€"]}),
        ("dirs_exist", {"paths": ["größe"]}),
    ]
    output = context / "größe.json"
    words = ["--dockerfile", str(context / "Dockerfile"), "--repo", "r", "--output", str(output)]
    words += ["--rubric", rubric(*tests), "--verbose"]
    done = subprocess.run([*PROGRAM, *words], env={**os.environ, **settings}, **PIPES)
    assert b"Traceback" not in done.stderr
    assert [
        row["message"] for row in json.loads(output.read_text())["test_results"] if not row["passed"]
    ] == []
    assert done.returncode == 0
    assert fake.calls("build")[0][-1] == str(context)


# Rubrics and images that are large or odd


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("first", "second"), [(TRUE, TRUE), (LOOK, LOOK), (LOOK, TRUE), (TRUE, LOOK)])
def test_an_id_given_twice_in_one_requires_counts_once(fake, evaluate, first, second, jobs):
    tests = [
        {**first, "id": "a"},
        {**second, "id": "b", "requires": ["a", "a"]},
        {**second, "id": "c", "requires": ["b", "a", "b"]},
    ]
    report = evaluate(["FROM x"], *tests, jobs=jobs)
    assert (statuses(report), report["error"]) == ({"a": "passed", "b": "passed", "c": "passed"}, None)
    assert len(fake.calls("run")) == 3


def test_an_image_with_megabytes_of_labels_is_tested(fake, evaluate):
    fake.write("config", {"Labels": {f"label{i}": "x" * 100_000 for i in range(50)}, "User": "app"})
    report = evaluate(["FROM x"], TRUE)
    assert (statuses(report), report["error"]) == ({"run_command_1": "passed"}, None)
    assert report["environment"]["image_size"] == 1234


@pytest.mark.long("thousands of commands")
def test_one_missing_command_among_thousands_is_named(fake, evaluate):
    names = [*["sh"] * 1500, "no-such-program", *["sh"] * 1500]
    report = evaluate(
        ["FROM x"], ("commands_exist", {"names": names}), ("commands_exist", {"names": ["sh"] * 3001})
    )
    missing, found = report["test_results"]
    assert (missing["status"], missing["message"]) == ("failed", "not found: 'no-such-program'")
    assert found["status"] == "passed"


def test_all_that_is_missing_is_counted(fake, evaluate):
    paths = [f"/absent/{number}" for number in range(90)]
    report = evaluate(["FROM x"], ("files_exist", {"paths": ["/", *paths]}))
    named = ", ".join(f"'{path}'" for path in paths[:5])
    message = f"no such file: {named}, 14 more; a directory, not a file: '/'; 71 more"
    assert [row["message"] for row in report["test_results"]] == [message]


def test_what_is_in_the_pipe_is_read_before_a_time_limit_counts(fake, evaluate, monkeypatch):
    """A command whose output waits for a busy machine to read it has not timed out."""
    monkeypatch.setattr(de, "GRACE", 30.0)
    read, naps = de.Process.read, []

    def read_late(process):
        for stream, data in read(process):
            if stream == "stdout" and not naps and (fake.root / "running").exists():
                naps.append(time.sleep(2))
            yield stream, data

    monkeypatch.setattr(de.Process, "read", read_late)
    more_than_a_pipe_holds = "touch running; sleep 0.5; head -c 500000 /dev/zero"
    report = evaluate(["FROM x"], run_command(more_than_a_pipe_holds, timeout=1.5))
    assert (statuses(report), len(naps)) == ({"run_command_1": "passed"}, 1)
