"""What reaches docker: our options and the user's, those that are refused, those for one at a time."""

from __future__ import annotations

import pytest
from cases import LOOK, TRUE
from conftest import statuses

import DockerfileEvaluator as de

OURS = "--pull=never --log-driver=none --no-healthcheck --pids-limit=4096"


def test_what_reaches_docker(fake, evaluate):
    options = {"run_options": ["--memory=1g", "--pids-limit=9"], "build_options": ["--network=host"]}
    evaluate(["FROM x"], TRUE, LOOK, **options)
    (build,) = [call for call in fake.calls("build") if call[-1] != "--help"]
    runs = [call for call in fake.calls("run") if call[-1] != "--help"]
    command, look = sorted(runs, key=lambda call: "--network=none" in call)
    ours = "--rm --pull=never --log-driver=none --no-healthcheck --memory=1g --pids-limit=9"
    assert {"--force-rm", "--network=host"} < set(build)
    assert set(ours.split()) < set(command)
    assert "--pids-limit=4096" not in command
    assert "--network=none" in look
    assert "--network=none" not in command
    assert command[command.index("--entrypoint") + 1] == "/bin/sh"


def test_our_name_is_the_last_option_in_two_words(fake, evaluate):
    """An option of the user's that lacks its value swallows the first, and docker then finds no image."""
    evaluate(["FROM x"], TRUE, LOOK, run_options=["--memory=1g", "--init"])
    tag = fake.calls("build")[0][fake.calls("build")[0].index("--tag") + 1]
    calls = [call for call in fake.calls("run") if call[-1] != "--help"]
    assert len(calls) == 2
    for call in calls:
        at = call.index("--name")
        assert call.index("--init") == at - 1
        assert call[at + 2 : at + 4] == [tag, "-c"]


def test_a_container_without_options_of_the_users_has_ours(fake, evaluate):
    evaluate(["FROM x"], TRUE)
    (call,) = fake.calls("run")
    assert {*OURS.split(), "--rm"} < set(call)


def test_a_users_network_replaces_ours(fake, evaluate):
    evaluate(["FROM x"], LOOK, run_options=["--net=host"])
    (call,) = fake.calls("run", "--entrypoint")
    assert ("--net=host" in call, "--network=none" in call) == (True, False)


@pytest.mark.parametrize(
    ("given", "gone"),
    [
        ("--log-driver=json-file", "--log-driver=none"),
        ("--pull=always", "--pull=never"),
        ("--health-cmd=true", "--no-healthcheck"),
        ("--stop-timeout=3", "--stop-timeout=0"),
    ],
)
def test_a_users_option_replaces_our_default_for_the_same_flag(fake, evaluate, given, gone):
    evaluate(["FROM x"], TRUE, run_options=[given])
    (call,) = fake.calls("run", "--entrypoint")
    assert (given in call, gone in call) == (True, False)


@pytest.mark.parametrize(
    ("step", "option"), [("run", "--memori=1"), ("build", "--bogus"), ("build", "--target")]
)
def test_options_that_docker_refuses_are_known_before_the_build(fake, evaluate, step, option):
    """A --target that lacks its value is among them: it swallows the word that follows."""
    words = f"unknown flag: {option}\n\nUsage:  docker {step}"
    fake.fault(step, "fail", given=option, code=125, stderr=words, help=True)
    report = evaluate(["FROM x"], TRUE, **{f"{step}_options": [option]})
    message = f"docker refuses the {step} options: unknown flag: {option} Usage: docker {step}"
    assert report["error"] == {"kind": "usage", "message": message}
    assert (fake.count("build"), statuses(report)) == (0, {"run_command_1": "not_run"})


OURS_OF_RUN = "--name=x --rm=false --entrypoint=x -d -it -Pd --tty --cidfile=x --help --attach=stderr -astderr --restart=always"
OURS_OF_BUILD = "--tag=x -tx -f=x --quiet -q --output=x --load --push --iidfile=x"
OURS_OF_BUILD += " --progress=quiet --call=check --check --print=outline --logfile=x"


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        *(("run", word) for word in OURS_OF_RUN.split()),
        *(("build", word) for word in OURS_OF_BUILD.split()),
        *(("run", word) for word in ["image", "", "-", "--", "-1"]),
    ],
)
def test_options_that_would_break_us_are_wrong_usage(fake, evaluate, kind, word):
    with pytest.raises(ValueError, match=r"expected one word|the evaluation depends on it"):
        evaluate(["FROM x"], TRUE, **{f"{kind}_options": [word]})
    assert fake.calls() == []


def test_a_value_without_its_flag_is_told_with_an_example(evaluate):
    with pytest.raises(ValueError, match="--flag=value"):
        evaluate(["FROM x"], TRUE, run_options=["--memory", "2g"])


@pytest.mark.parametrize("step", ["run", "build"])
def test_an_option_whose_equals_sign_is_missing_is_told_how_to_write_it(arguments, capsys, step):
    with pytest.raises(SystemExit) as caught:
        de.main(arguments(["FROM x"], TRUE, more=[f"--{step}-option", "--memory=2g"]))
    assert caught.value.code == 2
    assert f"--{step}-option=--memory=2g" in capsys.readouterr().err.split("error: ")[1]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        *(("run", word) for word in ["--memory=2g", "-m2g", "-eNAME=dit", "--init", "-u0", "-P"]),
        *(("build", word) for word in ["--network=host", "--no-cache", "--progress=plain"]),
    ],
)
def test_other_options_are_handed_on(fake, evaluate, kind, word):
    evaluate(["FROM x"], TRUE, **{f"{kind}_options": [word]})
    calls = [call for call in fake.calls(kind) if call[-1] != "--help"]
    assert calls
    assert all(word in call for call in calls)


@pytest.mark.parametrize(
    ("option", "most"),
    [
        ("--memory=1g", 2),
        ("--publish=80:80", 1),
        ("-p=80:80", 1),
        ("-p80:80", 1),
        ("--ip=172.29.0.9", 1),
        ("--network=name=n,ip=172.29.0.9", 1),
        ("--publish-all", 2),
    ],
)
def test_what_only_one_container_can_have_is_asked_for_by_one_at_a_time(
    fake, evaluate, monkeypatch, option, most
):
    monkeypatch.setattr(de, "LOOKS_IN_PARALLEL", 2)
    fake.fault("run", "delay", seconds=0.3)
    start, now, seen = de.Docker._container, [], []

    def counted(docker, *words, **more):
        now.append(1)
        seen.append(len(now))
        try:
            return start(docker, *words, **more)
        finally:
            now.pop()

    monkeypatch.setattr(de.Docker, "_container", counted)
    report = evaluate(["FROM x"], LOOK, LOOK, TRUE, run_options=[option])
    assert report["summary"]["passed_tests"] == 3
    assert max(seen) == most
