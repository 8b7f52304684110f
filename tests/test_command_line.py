"""Section 1 of the specification: the command line. What it prints is in transcripts/."""

import os
import re
import subprocess

import pytest
from cases import FALSE, LOOK, TRUE, files_exist, output_contains, run_command
from conftest import PIPES, called, outcome
from engine import docker

import DockerfileEvaluator as de

# Options that are passed to docker


def test_build_is_given_the_users_options_name_dockerfile_and_context(
    fake, dockerfile, rubric, tmp_path
):
    """BuildKit follows no link to a Dockerfile."""
    options = ["--network=host", "--build-arg=A=b c", "--target=x"]
    os.symlink(dockerfile("FROM x"), "link")

    de.evaluate("link", "r", rubric(TRUE), context=".", build_options=options)

    ((_, _, *words),) = fake.calls("build")
    assert words == [f"--file={tmp_path}/context/Dockerfile", *options, os.getcwd()]


def test_run_is_given_options_of_the_evaluator_then_of_the_rubric_then_of_the_user(fake, score):
    of_user = ["--memory=2g", "--pull=always", "-eA=b c", "-P", "--init", "--detach-keys=a"]

    score(TRUE, top={"run_options": ["--shm-size=1g", "--memory=1g"]}, run_options=of_user)

    ours = "--pull=never --no-healthcheck --pids-limit=4096 --stop-timeout=0"
    theirs = "--shm-size=1g --memory=1g --memory=2g --pull=always -eA=b c -P --init --detach-keys=a"
    words = rf"--rm --entrypoint=/bin/sh --log-driver=none --name=\S+ {ours} {theirs} {de.NAME}:"
    (call,) = fake.calls("run")
    assert re.match(words, " ".join(call))


@pytest.mark.parametrize("options", [["--net=host"], ["--network=host"], []], ids=str)
def test_check_without_a_command_has_no_network_unless_the_user_gives_one(fake, score, options):
    score(LOOK, TRUE, run_options=options)

    networks = [[word for word in call if "--net" in word] for call in fake.calls("run")]
    assert networks == [options or ["--network=none"], options]


@pytest.mark.parametrize("given", [[], ["--platform=linux/386"]], ids=str)
def test_default_platform_of_docker_is_an_option_of_the_build_and_of_nothing_else(
    fake, score, monkeypatch, given
):
    monkeypatch.setenv("DOCKER_DEFAULT_PLATFORM", "linux/arm64")

    report = score(TRUE, build_options=given)

    assert fake.calls("build")[0][-2] == (given or ["--platform=linux/arm64"])[0]
    assert outcome(report) == "passed"


def test_classic_builder_that_the_user_asks_for_is_overruled_with_a_warning(
    fake, score, monkeypatch
):
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")

    (warning,) = score(TRUE)["warnings"]

    assert "DOCKER_BUILDKIT" in warning


# Options that are refused

REFUSED = """
--build-option=--tag=x
--build-option=-t=x
--build-option=-tx
--build-option=--file=x
--build-option=-f=x
--build-option=--iidfile=x
--build-option=--output=x
--build-option=-o=x
--build-option=--load
--build-option=--push
--build-option=--quiet
--build-option=-q
--build-option=--progress=plain
--build-option=--check
--build-option=--call=check
--build-option=--help
--build-option=x
--run-option=--name=x
--run-option=--rm=false
--run-option=--entrypoint=x
--run-option=--cidfile=x
--run-option=--restart=always
--run-option=-d
--run-option=--detach
--run-option=-i
--run-option=--interactive
--run-option=-t
--run-option=--tty
--run-option=-it
--run-option=-Pd
--run-option=-a=stdout
--run-option=--attach=stderr
--run-option=--help
--run-option=image
--run-option=
--run-option=-e A=b
--build-option=--build-arg A=b
"""


@pytest.mark.parametrize("argument", REFUSED.strip().split("\n"))
def test_option_that_the_evaluation_sets_itself_or_that_is_not_one_word_is_refused(
    fake, arguments, argument
):
    assert called(de.main, *arguments(["FROM x"], TRUE, more=[argument]))[0] == 2

    assert fake.names() == []


# Text on the screen

EVIL = "\x1b[2J\r\nerror: x\x9b31m\u202e"
EVIL_TESTS = [
    run_command(r"printf '\033[2J\r\nerror: x\302\23331m\n'"),
    run_command(r"printf 'error: \033[2J\n'; false"),
    run_command(f": '{EVIL}'; false"),
    output_contains(r"printf 'error: \033[2J\n'", "nosuch"),
    files_exist(EVIL, id=EVIL),
]


def assert_harmless(screen):
    assert re.search(r"\\x(1b|9b)", screen), "a part of the text is shown"
    assert screen.replace("\n", "").isprintable()
    assert not re.search("(?m)^error: x", screen)


@pytest.mark.parametrize("call", ["none", "build", "run", "image tag"])
def test_control_characters_of_docker_image_and_rubric_are_escaped(fake, arguments, call):
    fake.fault(call, code=125, stdout=f"#1 [1/1] FROM x\n{EVIL}\n", stderr=EVIL)
    more = ["--verbose", "--keep-image"]

    _, out, err = called(de.main, *arguments(["FROM x"], *EVIL_TESTS, more=more))

    assert_harmless(out + err)


@pytest.mark.parametrize("argument", ["--build-option=", "--", "--rubric=", "--output=/dev/null/"])
def test_control_characters_of_an_argument_are_escaped(arguments, argument):
    _, out, err = called(de.main, *arguments(["FROM x"], TRUE, more=[f"{argument}{EVIL}"]))

    assert_harmless(out + err)


def test_suspicious_line_of_a_build_is_cut_and_escaped_in_its_warning(fake, score):
    line = f"W: Failed to fetch http://a.b {EVIL[-5:]} Could not resolve host: a.b {'0' * 10**5}"
    fake.inject(f"build do=print stdout='#1 [1/1] RUN a\n#1 0.1 {line}\n#1 DONE 0.1s\n'")

    (warning,) = score(FALSE)["warnings"]

    assert "Could not resolve host" in warning[:1000] == warning
    assert warning.isprintable()


def test_log_is_shown_without_colors_and_in_a_small_character_set(fake, arguments):
    fake.inject("build do=print stdout='#1 [1/1] FROM x\n#1 0.1 \x1b[91mé€\x1b[0m\n#1 DONE\n'")

    _, out, _ = called(de.main, *arguments(["FROM x"], TRUE, more=["--verbose"]), encoding="ascii")

    assert "  | #1 0.1 \\xe9\\u20ac\n" in out


# --keep-image


def test_kept_image_has_the_name_of_the_repository_and_stays(fake, dockerfile, rubric):
    words = (dockerfile("FROM x"), "Ünicode/my repo", rubric(TRUE))

    kept = de.evaluate(*words, keep_image=True)["environment"]["kept_image"]

    de.evaluate(*words)
    assert re.fullmatch("dockerfile-evaluator:kept-[A-Za-z0-9_.-]*my-repo-[0-9a-f]+", kept)
    assert fake.left() == [kept]


def test_printed_command_repeats_the_tests_with_the_same_options(clean_engine, arguments, report):
    test = run_command('echo "$(id -u) $EXTRA"; exit 4', id="it's")
    options = ["--keep-image", "--run-option=-u7", "--run-option=--env=EXTRA=a b"]

    _, out, _ = called(de.main, *arguments(["FROM busybox:stable"], TRUE, test, more=options))

    line = re.search("(?m)^its tests again.*:\n  (python3 .*)", out)[1]
    done = subprocess.run(["bash", "-c", f'{line} --test "it\'s"'], **PIPES)
    docker("image", "rm", report()["environment"]["kept_image"])
    assert "exit code 4, expected 0: 7 a b" in done.stdout.decode(), done.stderr


@pytest.mark.parametrize(
    "word", ["", "a b", "it's", "a\n\tb'\\n", "\xe9\xa0\u2028\x01\n", "\x1b[31ma"]
)
def test_word_of_a_printed_line_is_the_same_for_bash_and_in_one_line(word):
    quoted = de.shell_word(word)

    assert subprocess.check_output(["bash", "-c", f"printf %s {quoted}"]).decode() == word
    assert "\n" not in quoted


# Others


NOT_WITH_IMAGE = """--dockerfile=Dockerfile --context=. --overlay=. --build-timeout=5
--build-option=--no-cache --output=report.json --resume --keep-image --offline"""


@pytest.mark.parametrize("word", NOT_WITH_IMAGE.split())
def test_image_is_tested_without_options_of_builds_and_reports(fake, rubric, word):
    assert called(de.main, "--image", "x", "--rubric", rubric(TRUE), word)[0] == 2
    assert fake.names() == []


def test_image_that_exists_is_tested_and_stays(fake, rubric):
    words = ["--image", "x", "--rubric", rubric(TRUE, TRUE), "--test", "run_command_2"]

    assert "the engine has no image 'x'" in called(de.main, *words)[2]

    (fake.images / "x").touch()
    assert "1 of 1 tests passed" in called(de.main, *words)[1]
    assert fake.left() == ["x"]
