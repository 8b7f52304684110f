"""Options of docker: what is passed on, replaced, refused or hidden."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from cases import LOOK, TRUE
from conftest import called, outcome, statuses

import DockerfileEvaluator as de

DEFAULTS = [
    "--rm",
    "--pull=never",
    "--log-driver=none",
    "--no-healthcheck",
    "--pids-limit=4096",
    "--stop-timeout=0",
]


def only_call(fake, name):
    (words,) = fake.calls(name)
    return words


# What is passed on


def test_command_line_of_build_has_every_default_option(fake, evaluate, tmp_path):
    evaluate(["FROM x"], TRUE, build_options=["--network=host", "--no-cache"])

    words = only_call(fake, "build")
    tag = words[4]
    context = tmp_path / "context"
    assert words == [
        "--force-rm",
        "--network=host",
        "--no-cache",
        "--tag",
        tag,
        "--file",
        str(context / "Dockerfile"),
        str(context),
    ]


def test_command_line_of_run_has_every_default_option(fake, evaluate):
    evaluate(["FROM x"], TRUE, run_options=["--memory=1g", "--init"])

    build, words = only_call(fake, "build"), only_call(fake, "run")
    tag = build[build.index("--tag") + 1]
    name = words[words.index("--name") + 1]
    at = words.index("-c")
    assert words[:at] == [
        *DEFAULTS,
        "--memory=1g",
        "--init",
        "--entrypoint",
        "/bin/sh",
        "--name",
        name,
        tag,
    ]
    _script, shell, _nonce, *command = words[at + 1 :]
    assert shell == "/bin/sh"
    assert command == ["cd /", "/bin/sh"]


class Network(NamedTuple):
    """Options of the user, and those for the network of a test without a command."""

    when: str
    options: list
    of_a_look: list


NETWORKS = [
    Network("the user sets none", options=[], of_a_look=["--network=none"]),
    Network("--network", options=["--network=host"], of_a_look=["--network=host"]),
    Network("--net", options=["--net=host"], of_a_look=["--net=host"]),
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.when)
def test_check_without_a_command_has_no_network_unless_the_user_sets_one(fake, evaluate, network):
    evaluate(["FROM x"], LOOK, TRUE, run_options=network.options)

    look, command = fake.calls("run")
    assert [word for word in look if word.startswith("--net")] == network.of_a_look
    assert [word for word in command if word.startswith("--net")] == network.options


@pytest.mark.parametrize("option", ["--pull=always", "--log-driver=json-file", "--pids-limit=9"])
def test_user_option_replaces_the_default_for_its_flag(fake, evaluate, option):
    evaluate(["FROM x"], TRUE, run_options=[option])

    flag = option.partition("=")[0]
    assert [word for word in only_call(fake, "run") if word.startswith(flag)] == [option]


def test_other_run_options_are_passed_on(fake, evaluate):
    options = ["-m2g", "-eNAME=dit", "--init", "-u0", "-P", "-eTEXT=a b", "--env=TEXT=a b"]

    evaluate(["FROM x"], TRUE, run_options=options)

    words = only_call(fake, "run")
    assert words[len(DEFAULTS) :][: len(options)] == options


def test_other_build_options_are_passed_on(fake, evaluate):
    options = ["--build-arg=A=b c", "--target=x", "--no-cache"]

    evaluate(["FROM x"], TRUE, build_options=options)

    words = only_call(fake, "build")
    assert words[1:][: len(options)] == options


def test_run_options_of_rubric_reach_docker_and_the_report(fake, evaluate):
    rubric = {"run_options": ["--shm-size=1g", "--memory=1g"]}

    report = evaluate(["FROM x"], TRUE, top=rubric, run_options=["--memory=2g"])

    words = [word for word in only_call(fake, "run") if word.startswith(("--shm", "--mem"))]
    assert words == ["--shm-size=1g", "--memory=2g"]
    assert report["environment"]["rubric_run_options"] == ["--shm-size=1g", "--memory=1g"]
    assert report["environment"]["run_options"] == ["--memory=2g"]


def test_start_limit_of_the_command_line_is_120_seconds(fake, arguments, report):
    called(de.main, *arguments(["FROM x"], TRUE))

    assert report()["environment"]["start_timeout"] == 120.0


# What is refused

REFUSED_BY_RUN = [
    "--name=x",
    "--rm=false",
    "--entrypoint=x",
    "--cidfile=x",
    "--restart=always",
    "-d",
    "-it",
    "-Pd",
    "-i",
    "-t",
    "--detach",
    "--interactive",
    "--tty",
    "-a",
    "--attach=stderr",
    "--help",
    "image",
]
REFUSED_BY_BUILD = [
    "--tag=x",
    "-tx",
    "-t=x",
    "-f=x",
    "--file=x",
    "--iidfile=x",
    "--output=x",
    "-o=x",
    "--load",
    "--push",
    "--quiet",
    "-q",
    "--progress=plain",
    "--check",
    "--call=check",
    "--help",
    "-",
    "--",
    "-1",
]
EMPTY = ""


@pytest.mark.parametrize("option", [*REFUSED_BY_RUN, EMPTY])
def test_run_option_that_the_evaluation_depends_on_is_refused(fake, dockerfile, rubric, option):
    with pytest.raises(ValueError, match="run options: "):
        de.evaluate(dockerfile("FROM x"), "r", rubric(TRUE), run_options=[option])

    assert fake.names() == []


@pytest.mark.parametrize("option", [*REFUSED_BY_BUILD, EMPTY])
def test_build_option_that_the_evaluation_depends_on_is_refused(fake, dockerfile, rubric, option):
    with pytest.raises(ValueError, match="build options: "):
        de.evaluate(dockerfile("FROM x"), "r", rubric(TRUE), build_options=[option])

    assert fake.names() == []


class Misspelled(NamedTuple):
    """Arguments of the command line, and a part of the message on them."""

    what: str
    words: list
    message: str


MISSPELLED = [
    Misspelled(
        "a short run option and its value in one argument",
        words=["--run-option=-e FOO=1"],
        message="run options: write '-e' and its value as one argument without a blank, "
        "like --run-option=--memory=2g or --run-option=-eA=b\n",
    ),
    Misspelled(
        "a long run option and its value in one argument",
        words=["--run-option=--memory 2g"],
        message="run options: write '--memory' and its value as one argument",
    ),
    Misspelled(
        "a build option and its value in one argument",
        words=["--build-option=--build-arg A=b"],
        message="build options: write '--build-arg' and its value as one argument "
        "without a blank, like --build-option=",
    ),
    Misspelled(
        "a run option without an equals sign",
        words=["--run-option", "--memory=2g"],
        message="argument --run-option",
    ),
    Misspelled(
        "a build option without an equals sign",
        words=["--build-option", "--no-cache"],
        message="argument --build-option",
    ),
]


@pytest.mark.parametrize("misspelled", MISSPELLED, ids=lambda misspelled: misspelled.what)
def test_misspelled_argument_is_a_usage_error_with_an_example(fake, arguments, misspelled):
    words = arguments(["FROM x"], TRUE, more=misspelled.words)

    code, _, err = called(de.main, *words)

    assert code == 2
    assert misspelled.message in err
    assert fake.names() == []


@pytest.mark.parametrize(("step", "option"), [("run", "--memori=1"), ("build", "--target")])
def test_option_that_docker_does_not_know_is_usage_before_the_build(fake, evaluate, step, option):
    """A --target without its value takes the next word, --help, for it.

    Docker then misses an argument.
    """
    answer = f"unknown flag: {option}\n\nUsage:  docker {step}"
    fake.fault(f"{step} help", given=option, stderr=answer)

    report = evaluate(["FROM x"], TRUE, **{f"{step}_options": [option]})

    assert outcome(report) == "usage"
    assert f"unknown flag: {option}" in report["error"]["message"]
    assert fake.count("build") == 0
    assert statuses(report) == {"run_command_1": "not_run"}


# What the report shows

SHOWN_BUILD_OPTIONS = {
    "--build-arg=TOKEN=s3cret": "--build-arg=…",
    "--secret=id=s3cret": "--secret=…",
    "--label=a=s3cret": "--label=…",
    "--build-context=a=s3cret": "--build-context=…",
    "--no-cache-filter=s3cret": "--no-cache-filter=…",
    "--platform=linux/arm64": "--platform=linux/arm64",
}
SHOWN_RUN_OPTIONS = {
    "--env=TOKEN=s3cret": "--env=…",
    "-eTOKEN=s3cret": "-e…",
    "--env-file=s3cret": "--env-file=…",
    "--volume=/s3cret:/x": "--volume=…",
    "-v/s3cret:/x": "-v…",
    "--memory=2g": "--memory=2g",
    "--network=host": "--network=host",
}


def test_values_of_build_options_are_hidden_in_the_report(fake, evaluate):
    report = evaluate(["FROM x"], TRUE, LOOK, build_options=list(SHOWN_BUILD_OPTIONS))

    assert set(SHOWN_BUILD_OPTIONS) < set(only_call(fake, "build"))
    assert "s3cret" not in json.dumps(report)
    assert report["environment"]["build_options"] == list(SHOWN_BUILD_OPTIONS.values())


def test_values_of_run_options_are_hidden_in_the_report(fake, evaluate):
    report = evaluate(["FROM x"], TRUE, run_options=list(SHOWN_RUN_OPTIONS))

    assert set(SHOWN_RUN_OPTIONS) < set(only_call(fake, "run"))
    assert "s3cret" not in json.dumps(report)
    assert report["environment"]["run_options"] == list(SHOWN_RUN_OPTIONS.values())


@pytest.mark.parametrize("option", ["--no-cache", "--no-cache=true"])
def test_no_cache_has_a_field_of_its_own(fake, evaluate, option):
    report = evaluate(["FROM x"], TRUE, build_options=["--pull", option])

    assert report["environment"]["no_cache"] is True
    assert report["environment"]["build_options"] == ["--pull"]
