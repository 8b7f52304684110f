"""Options of docker: what is passed on, replaced, refused or hidden."""

from __future__ import annotations

import json

import pytest
from cases import LOOK, TRUE
from conftest import called, outcome, statuses

import DockerfileEvaluator as de

DEFAULTS = "--rm --pull=never --log-driver=none --no-healthcheck --pids-limit=4096 --stop-timeout=0".split()


def only_call(fake, name):
    (words,) = fake.calls(name)
    return words


# What is passed on


def test_command_lines_of_build_and_run_have_every_default_option(fake, evaluate, tmp_path):
    options = {
        "build_options": ["--network=host", "--no-cache"],
        "run_options": ["--memory=1g", "--init"],
    }
    evaluate(["FROM x"], TRUE, **options)
    words, build = only_call(fake, "run"), only_call(fake, "build")
    tag, name, at = build[4], words[words.index("--name") + 1], words.index("-c")
    file, context = str(tmp_path / "context" / "Dockerfile"), str(tmp_path / "context")
    assert build == [
        "--force-rm",
        "--network=host",
        "--no-cache",
        "--tag",
        tag,
        "--file",
        file,
        context,
    ]
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
    assert words[at + 2] == "/bin/sh"
    assert words[at + 4 :] == ["cd /", "/bin/sh"]


@pytest.mark.parametrize(
    ("options", "network"),
    [
        ([], ["--network=none"]),
        (["--network=host"], ["--network=host"]),
        (["--net=host"], ["--net=host"]),
    ],
)
def test_check_without_a_command_has_no_network_unless_the_user_sets_one(
    fake, evaluate, options, network
):
    evaluate(["FROM x"], LOOK, TRUE, run_options=options)
    check, command = fake.calls("run")
    assert [word for word in check if "net" in word[:9]] == network
    assert [word for word in command if "net" in word[:9]] == options


@pytest.mark.parametrize("option", ["--pull=always", "--log-driver=json-file", "--pids-limit=9"])
def test_user_option_replaces_the_default_for_its_flag(fake, evaluate, option):
    evaluate(["FROM x"], TRUE, run_options=[option])
    flag = option.partition("=")[0]
    assert [word for word in only_call(fake, "run") if word.startswith(flag)] == [option]


def test_other_options_are_passed_on(fake, evaluate):
    run = ["-m2g", "-eNAME=dit", "--init", "-u0", "-P", "-eTEXT=a b", "--env=TEXT=a b"]
    build = ["--build-arg=A=b c", "--target=x", "--no-cache"]
    evaluate(["FROM x"], TRUE, run_options=run, build_options=build)
    assert only_call(fake, "run")[len(DEFAULTS) :][: len(run)] == run
    assert only_call(fake, "build")[1:][: len(build)] == build


def test_run_options_of_rubric_reach_docker_and_the_report(fake, evaluate):
    own = ["--shm-size=1g", "--memory=1g"]
    report = evaluate(["FROM x"], TRUE, top={"run_options": own}, run_options=["--memory=2g"])
    words = [word for word in only_call(fake, "run") if word.startswith(("--shm", "--mem"))]
    assert words == ["--shm-size=1g", "--memory=2g"]
    found = [report["environment"][name] for name in ("rubric_run_options", "run_options")]
    assert found == [own, ["--memory=2g"]]


# What is refused

REFUSED = {
    "run": "--name=x --rm=false --entrypoint=x -d -it -Pd -i -t -a --tty --cidfile=x --attach=stderr --restart=always --detach --interactive image",
    "build": "--tag=x -tx -t=x -f=x --file=x --quiet -q --output=x -o=x --load --push --iidfile=x --progress=plain --check --call=check - -- -1",
}  # fmt: skip
REFUSED_WORDS = [(step, word) for step, words in REFUSED.items() for word in [*words.split(), ""]]


@pytest.mark.parametrize(("step", "option"), REFUSED_WORDS)
def test_option_that_the_evaluation_depends_on_is_refused(fake, dockerfile, rubric, step, option):
    with pytest.raises(ValueError, match=f"{step} options: "):
        de.evaluate(dockerfile("FROM x"), "r", rubric(TRUE), **{f"{step}_options": [option]})
    assert fake.names() == []


# Arguments of the command line, part of the message
MISSPELLED = [
    (
        ["--run-option=-e FOO=1"],
        "run options: write '-e' and its value as one argument without a blank, like --run-option=--memory=2g or --run-option=-eA=b\n",
    ),
    (["--run-option=--memory 2g"], "run options: write '--memory' and its value as one argument"),
    (
        ["--build-option=--build-arg A=b"],
        "build options: write '--build-arg' and its value as one argument without a blank, like --build-option=",
    ),
    (["--run-option", "--memory=2g"], "argument --run-option"),
    (["--build-option", "--no-cache"], "argument --build-option"),
]


@pytest.mark.parametrize(("words", "message"), MISSPELLED)
def test_misspelled_argument_is_a_usage_error_with_an_example(fake, arguments, words, message):
    code, _, err = called(de.main, *arguments(["FROM x"], TRUE, more=words))
    assert code == 2
    assert message in err
    assert fake.names() == []


@pytest.mark.parametrize(("step", "option"), [("run", "--memori=1"), ("build", "--target")])
def test_option_that_docker_does_not_know_is_usage_before_the_build(fake, evaluate, step, option):
    """A --target without its value takes the next word, --help, for it; docker then misses an argument."""
    fake.fault(
        f"{step} help", given=option, stderr=f"unknown flag: {option}\n\nUsage:  docker {step}"
    )
    report = evaluate(["FROM x"], TRUE, **{f"{step}_options": [option]})
    assert outcome(report) == "usage"
    assert f"unknown flag: {option}" in report["error"]["message"]
    assert fake.count("build") == 0
    assert statuses(report) == {"run_command_1": "not_run"}


# What the report shows

SECRETS = {
    "build_options": ["--build-arg=TOKEN=s3cret", "--secret=id=s3cret", "--label=a=s3cret", "--build-context=a=s3cret", "--no-cache-filter=s3cret", "--platform=linux/arm64"],
    "run_options": ["--env=TOKEN=s3cret", "-eTOKEN=s3cret", "--env-file=s3cret", "--volume=/s3cret:/x", "-v/s3cret:/x", "--memory=2g", "--network=host"],
}  # fmt: skip
PUBLISHED = {
    "build_options": ["--build-arg=…", "--secret=…", "--label=…", "--build-context=…", "--no-cache-filter=…", "--platform=linux/arm64"],
    "run_options": ["--env=…", "-e…", "--env-file=…", "--volume=…", "-v…", "--memory=2g", "--network=host"],
}  # fmt: skip


def test_values_of_env_build_arg_and_secret_are_hidden_in_the_report(fake, evaluate):
    report = evaluate(["FROM x"], TRUE, LOOK, **SECRETS)
    assert set(SECRETS["build_options"]) < set(only_call(fake, "build"))
    assert "s3cret" not in json.dumps(report)
    assert {name: report["environment"][name] for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("option", ["--no-cache", "--no-cache=true"])
def test_no_cache_has_a_field_of_its_own(fake, evaluate, option):
    environment = evaluate(["FROM x"], TRUE, build_options=["--pull", option])["environment"]
    assert environment["no_cache"] is True
    assert environment["build_options"] == ["--pull"]
