"""Section 1 of the specification: the command line. What it prints is in transcripts/."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from typing import NamedTuple

import pytest
from cases import FALSE, LOOK, TRUE, files_exist, output_contains, run_command
from conftest import PIPES, PROGRAM, PROJECT, called, outcome, statuses
from engine import docker

import DockerfileEvaluator as de

# Options that are passed to docker


def only_call(fake, name):
    (words,) = fake.calls(name)
    return words


def test_build_is_given_the_users_options_name_dockerfile_and_context(fake, evaluate, tmp_path):
    options = ["--network=host", "--build-arg=A=b c", "--target=x"]

    evaluate(["FROM x"], TRUE, build_options=options)

    first, *words = only_call(fake, "build")
    context = tmp_path / "context"
    assert first == "--force-rm"
    assert words[:3] == options
    assert words[3].startswith("--tag=dockerfile-evaluator:")
    assert words[4:] == [f"--file={context}/Dockerfile", str(context)]


def test_run_is_given_options_of_the_evaluator_then_of_the_rubric_then_of_the_user(fake, evaluate):
    of_rubric = ["--shm-size=1g", "--memory=1g"]
    of_user = ["--memory=2g", "--pull=always", "-eA=b c", "-P", "--init", "--detach-keys=a"]

    evaluate(["FROM x"], TRUE, top={"run_options": of_rubric}, run_options=of_user)

    name, *words = only_call(fake, "run")
    image = only_call(fake, "build")[1]
    assert name.startswith("--name=dockerfile-evaluator-")
    assert words[: words.index("-c")] == [
        "--entrypoint=/bin/sh",
        "--pull=never",
        "--log-driver=none",
        "--no-healthcheck",
        "--pids-limit=4096",
        "--stop-timeout=0",
        "--rm",
        *of_rubric,
        *of_user,
        image[len("--tag=") :],
    ]


@pytest.mark.parametrize("of_user", ["--network=host", "--net=host", ""])
def test_check_without_a_command_has_no_network_unless_the_user_gives_one(fake, evaluate, of_user):
    options = [of_user] if of_user else []

    evaluate(["FROM x"], LOOK, TRUE, run_options=options)

    look, command = fake.calls("run")
    assert [word for word in look if "--net" in word] == (options or ["--network=none"])
    assert [word for word in command if "--net" in word] == options


def test_another_program_plays_docker(fake, evaluate):
    program = fake.program.with_name("podman")
    fake.program.rename(program)

    report = evaluate(["FROM x"], TRUE, docker=str(program))

    assert outcome(report) == "passed"


# Options that are refused

REFUSED = {
    "build": "--tag=x -t=x -tx --file=x -f=x --iidfile=x --output=x -o=x --load --push --quiet -q "
    "--progress=plain --check --call=check --help x",
    "run": "--name=x --rm=false --entrypoint=x --cidfile=x --restart=always -d --detach -i "
    "--interactive -t --tty -it -a=stdout --attach=stderr --help image",
}


REFUSED_ARGUMENTS = [
    *(f"--{step}-option={option}" for step in REFUSED for option in REFUSED[step].split()),
    "--run-option=-Pd",
]


@pytest.mark.parametrize("argument", REFUSED_ARGUMENTS)
def test_option_that_the_evaluation_sets_itself_is_refused(fake, arguments, argument):
    code, _, err = called(de.main, *arguments(["FROM x"], TRUE, more=[argument]))

    assert code == 2
    assert len(err.splitlines()) == 1
    assert fake.names() == []


TWO_OR_NO_WORDS = [
    "--run-option=-e A=b",
    "--build-option=--build-arg A=b",
    "--run-option=",
]


@pytest.mark.parametrize("argument", TWO_OR_NO_WORDS)
def test_option_and_value_are_one_word(fake, arguments, argument):
    code, _, _ = called(de.main, *arguments(["FROM x"], TRUE, more=[argument]))

    assert code == 2
    assert fake.names() == []


# Text on the screen

EVIL = "\x1b[2J\r\nerror: x\x9b31m"
IN_PRINTF = "".join(f"\\{byte:03o}" for byte in f"{EVIL}\n".encode())


class Printed(NamedTuple):
    """Where a text of the image, the build, docker or the user gets onto the screen."""

    where: str
    test: dict = TRUE
    fault: tuple = ()  # of docker
    more: tuple = ()  # arguments


PRINTED = [
    Printed("output", run_command(f"printf '{IN_PRINTF}'"), more=("--verbose",)),
    Printed("the error of a command", run_command(r"printf 'error: \033[2J\n'; false")),
    Printed("the last line", output_contains("printf 'error: \\033[2J\\n'", "nosuch")),
    Printed("a path", files_exist(EVIL)),
    Printed("an id", {**FALSE, "id": EVIL}),
    Printed("a command", run_command(f": '{EVIL}'; false"), more=("--keep-image",)),
    Printed(
        "a log",
        fault=("build", "print", {"stdout": f"Step 1/1 : FROM x\n{EVIL}\n"}),
        more=("--verbose",),
    ),
    Printed("the error of a build", fault=("build", "fail", {"stderr": EVIL})),
    Printed("the error of a container", fault=("run", "fail", {"code": 125, "stderr": EVIL})),
    Printed("a warning", fault=("image rm", "fail", {"stderr": EVIL})),
    Printed("an argument", more=(f"--build-option={EVIL}",)),
    Printed("an unknown argument", more=(f"--{EVIL}",)),
    Printed("a path that cannot be read", more=("--rubric", EVIL)),
    Printed("a path that cannot be written", more=("--output", f"/dev/null/{EVIL}")),
]


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.where)
def test_control_characters_are_escaped(fake, arguments, monkeypatch, row):
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.2)
    name, do, details = row.fault or ("none", "fail", {})
    fake.fault(name, do, **details)

    _, out, err = called(de.main, *arguments(["FROM x"], row.test, more=row.more))

    assert re.search(r"\\x(1b|9b)", out + err), "a part of the text is shown"
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out + err)
    assert not re.search("^error: x", out + err, re.MULTILINE)


def test_colors_of_a_builder_are_left_out(fake, arguments):
    fake.fault("build", stdout="Step 1/1 : FROM x\n\x1b[91mwhy\x1b[0m\n")

    _, out, _ = called(de.main, *arguments(["FROM x"], TRUE, more=["--verbose"]))

    assert "  | why\n" in out


def test_small_character_set_of_the_screen_is_enough(fake, arguments):
    words = arguments(["FROM x"], run_command("printf 'é€'; false"), more=["--verbose"])

    code, out, err = called(de.main, *words, encoding="ascii")

    assert code == 1
    assert err == ""
    assert "\\xe9\\u20ac" in out


# The screen is gone


@pytest.mark.parametrize(
    "redirection",
    [
        "| head -n 1",
        ">/dev/full 2>&1",
        "<&- >&- 2>&-",
    ],
)
@pytest.mark.parametrize("lines", [["FROM x"], ["FROM x", "RUN exit 3"]], ids=["built", "failed"])
def test_screen_that_is_full_or_gone_changes_nothing(
    fake, start, arguments, report, redirection, lines
):
    words = arguments(lines, TRUE, more=["--verbose"])
    shell = f'{{ "$@"; echo $? >code; }} {redirection}'

    start(*words, before=("sh", "-c", shell, "sh")).communicate(timeout=60)

    is_built = lines == ["FROM x"]
    assert outcome(report()) == ("passed" if is_built else "build")
    with open("code") as file:
        assert int(file.read()) == (0 if is_built else 1)


def test_ignored_sigchld_changes_nothing(fake, start, arguments, report):
    ignore = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # noqa: E731
    process = start(*arguments(["FROM x"], TRUE, FALSE), preexec_fn=ignore)

    process.communicate(timeout=60)

    assert process.returncode == 1
    assert list(statuses(report()).values()) == ["passed", "failed"]
    assert [row["exit_code"] for row in report()["test_results"]] == [0, 1]
    assert fake.count("run") == 2, "none was repeated"


# --keep-image


def test_kept_image_has_the_name_of_the_repository_and_stays(fake, dockerfile, rubric, evaluate):
    words = (dockerfile("FROM x"), "Ünicode/my repo", rubric(TRUE))

    kept = de.evaluate(*words, keep_image=True)["environment"]["kept_image"]

    evaluate(["FROM x"], TRUE)
    assert re.fullmatch("dockerfile-evaluator:kept-[A-Za-z0-9_.-]*my-repo-[0-9a-f]+", kept)
    assert fake.left() == [kept]


def test_image_that_cannot_be_kept_is_a_warning(fake, evaluate):
    fake.fault("image tag", stderr="Error response from daemon: no space left on device")

    report = evaluate(["FROM x"], TRUE, keep_image=True)

    assert outcome(report) == "passed"
    assert report["environment"]["kept_image"] is None
    assert len(report["warnings"]) == 1


COMMANDS = [
    """echo "$(id -u) '{a}'" $EXTRA; exit 4 # {a}""",
    "-x; exit 4 # {a}",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_printed_line_repeats_a_failed_command(clean_engine, arguments, report, command):
    params = {"command": command, "draw": {"a": [1000000, 2999999]}}
    test = {"id": "repeated", "type": "run_command", "params": params}
    options = ["--keep-image", "--run-option=-u7", "--run-option=--env=EXTRA=a b"]

    _, out, _ = called(de.main, *arguments(["FROM busybox:stable"], test, more=options))

    line = re.search("^ *repeated: (docker run .*)", out, re.MULTILINE)[1]
    done = subprocess.run(line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    docker("image", "rm", report()["environment"]["kept_image"])
    assert done.returncode == 4
    assert done.stdout.decode() == report()["test_results"][0]["output"]


# Others


def test_deleted_current_folder_is_an_error_without_traceback(dockerfile, rubric, tmp_path):
    (tmp_path / "gone").mkdir()
    shell = ["sh", "-c", f'cd {tmp_path}/gone && rmdir ../gone && "$@"', "sh", *PROGRAM]
    files = ["--dockerfile", dockerfile("FROM x"), "--rubric", rubric(TRUE)]

    done = subprocess.run([*shell, *files, "--repo=r", "--output=r.json"], **PIPES)

    assert done.returncode == 1
    assert re.fullmatch(b"error: .*\n", done.stderr)


def test_example_usage_prints_a_table(fake, tmp_path):
    for name in ("artifacts", "rubrics", "example_usage.py", "DockerfileEvaluator.py"):
        copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy
        copy(str(PROJECT / name), str(tmp_path / name))

    done = subprocess.run([sys.executable, "example_usage.py"], cwd=str(tmp_path), **PIPES)

    assert done.returncode == 1, "the fake image has no Java"
    assert done.stderr == b""
    assert re.search(rb"\nscore +\d+ of 23\n$", done.stdout)
