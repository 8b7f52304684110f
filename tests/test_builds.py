"""A failed build: what is tried once more, what is final, whose fault it is, and when a registry is asked."""

from __future__ import annotations

import threading
import time

import pytest
from cases import LOOK, TRUE
from conftest import assert_holds, statuses
from engine import wait_for

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("short_limits")

LOOKUP = 'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host'
RUN_FAILED = "The command '/bin/sh -c x' returned a non-zero code: {}"
FROM = "Step 1/4 : FROM x\n"
COPY_MISSES = (
    "COPY failed: file not found in build context or excluded by .dockerignore: stat {}: file does not exist"
)
HEAD = "#1 [internal] load build definition from Dockerfile\n#1 DONE 0.0s\n"
PASSED = {"run_command_1": "passed"}


def buildkit(*lines, end=""):
    """Return what BuildKit prints of a build that fails."""
    return {"stderr": HEAD + "\n".join(lines) + f"\n------\nERROR: failed to solve: {end}"}


def test_a_failed_build_runs_no_test_and_says_why(fake, evaluate):
    report = evaluate(["FROM x", "RUN FAIL"], TRUE, LOOK)
    assert set(statuses(report).values()) == {"not_run"}
    message = "step 1 of 1 (FROM scratch): exit code 7: last words of the build"
    assert report["error"] == {"kind": "build", "message": message}
    assert_holds(report["build"], succeeded=False, message=message)
    assert "last words of the build" in report["build"]["log"]
    assert report["summary"]["failed_tests"] == 2
    assert report["test_results"][0]["message"] == "not run: the build failed"


def test_what_the_builder_says_of_itself_is_not_quoted(fake, evaluate):
    own = " ---> Running in 0123456789ab\nthe last words\nRemoving intermediate container 0123456789ab\n"
    fake.fault("build", "fail", stdout=f"Step 1/4 : RUN x\n{own}", stderr=RUN_FAILED.format(1))
    message = evaluate(["FROM x"], TRUE)["error"]["message"]
    assert message == "step 1 of 4 (RUN x): exit code 1: the last words"


# Once more, and once again

CHANCES = {
    "no word at all": {"stdout": FROM},
    "cut": {"stdout": FROM, "stderr": "unexpected EOF"},
    "cut, after warnings": {"stdout": FROM, "stderr": 'time="2026" level=warning msg="x"\nunexpected EOF'},
    "cut, as buildx says it": {"stderr": "ERROR: failed to receive status: rpc error: code = Unavailable"},
    "a registry": {"stdout": FROM, "stderr": LOOKUP},
    "a mirror": {"stdout": FROM, "stderr": "received unexpected HTTP status: 500 Internal Server Error"},
    "a name that no registry has": {"stdout": FROM, "stderr": "manifest for x:y not found: manifest unknown"},
    "a layer that another run took": {"stdout": FROM, "stderr": "unknown parent image ID sha256:1d"},
    "a RUN that was killed": {
        "stdout": f"{FROM}Step 2/4 : RUN x\n",
        "stderr": RUN_FAILED.format(137),
    },
    "a RUN that was killed, with BuildKit": buildkit(
        "#4 [2/2] RUN x", "#4 ERROR: x", end='process "/bin/sh -c x" did not complete: exit code: 137'
    ),
    "an archive broken off": {
        "stdout": f"{FROM}Step 2/4 : ADD x /\n",
        "stderr": "ADD failed: unexpected EOF",
    },
}
FINAL = {
    "a RUN": {"stdout": f"{FROM}Step 2/4 : RUN x\n", "stderr": RUN_FAILED.format(1)},
    "a RUN, with BuildKit": {
        "stderr": f"{HEAD}executor failed running [/bin/sh -c echo dial tcp: no such host; false]: exit code: 1"
    },
    "a RUN, with buildx": buildkit(
        "#4 [2/2] RUN x", end='process "/bin/sh -c x" did not complete: exit code: 7'
    ),
    "a text that is none": {
        "stderr": "Error response from daemon: dockerfile parse error line 3: unknown instruction: EOF"
    },
    "a source": {"stdout": f"{FROM}Step 2/4 : COPY geoffrey /\n", "stderr": COPY_MISSES.format("geoffrey")},
    "a source to ADD": {"stdout": f"{FROM}Step 2/4 : ADD x509 /\n", "stderr": COPY_MISSES.format("x509")},
    "a source, with BuildKit": buildkit(
        '#4 [2/2] COPY ["a dial tcp: no such host", "/"]',
        '#4 ERROR: "/a dial tcp: no such host" not found',
        end='failed to compute cache key: "/a dial tcp: no such host": not found',
    ),
}


@pytest.mark.parametrize("name", sorted(CHANCES))
@pytest.mark.parametrize("times", [1, 2])
def test_a_build_that_fails_by_chance_is_built_three_times_at_most(fake, evaluate, name, times):
    for nth in range(times):
        fake.fault("build", "fail", nth=nth + 1, **CHANCES[name])
    report = evaluate(["FROM x"], TRUE)
    assert (statuses(report), report["error"]) == (PASSED, None)
    assert (fake.count("build"), fake.count("control build")) == (times + 1, 0)


@pytest.mark.parametrize("name", sorted(CHANCES))
def test_what_fails_a_third_time_is_asked_about(fake, evaluate, name):
    fake.fault("build", "fail", **CHANCES[name])
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"
    assert fake.count("build") == 3


@pytest.mark.parametrize("name", sorted(FINAL))
def test_what_would_fail_again_is_built_once_and_no_registry_is_asked(fake, evaluate, name):
    """Docker Hub is out of reach, and each of these could say so."""
    fake.write("pull", {"stderr": LOOKUP})
    fake.fault("build", "fail", **FINAL[name])
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"
    assert (fake.count("build"), fake.count("pull")) == (1, 0)


@pytest.mark.parametrize("times", [1, 2])
def test_a_docker_program_that_is_killed_in_the_build_costs_nothing(fake, evaluate, times):
    for nth in range(times):
        fake.fault("build", "die", nth=nth + 1)
    report = evaluate(["FROM x"], TRUE)
    assert (statuses(report), report["error"], fake.left()) == (PASSED, None, [])


def test_a_docker_program_that_is_killed_in_every_build_is_an_engine_fault(fake, evaluate):
    fake.fault("build", "die")
    error = evaluate(["FROM x"], TRUE)["error"]
    assert (error["kind"], "was killed during the build" in error["message"]) == ("engine", True)
    assert fake.count("build") == 3


def test_only_the_second_repetition_waits(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "BUILD_PAUSE", 60.0)
    fake.fault("build", "fail", nth=1, **CHANCES["cut"])
    started = time.monotonic()
    assert statuses(evaluate(["FROM x"], TRUE)) == PASSED
    assert time.monotonic() - started < 50
    monkeypatch.setattr(de, "BUILD_PAUSE", 0.8)
    for nth in (3, 4):
        fake.fault("build", "fail", nth=nth, **CHANCES["cut"])
    started = time.monotonic()
    assert statuses(evaluate(["FROM x"], TRUE)) == PASSED
    assert time.monotonic() - started >= 0.8


def test_an_interrupt_does_not_wait_for_the_second_repetition(fake, dockerfile, rubric, monkeypatch):
    monkeypatch.setattr(de, "BUILD_PAUSE", 60.0)
    fake.fault("build", "fail", **CHANCES["cut"])
    evaluation = de.Evaluation(de.Options(dockerfile("FROM x"), "r", rubric(TRUE)))

    def interrupt():
        wait_for(lambda: fake.count("build") == 2)
        time.sleep(0.7)  # so that it mostly comes in the pause; a test that it misses proves less, and passes
        evaluation.stop.ask()

    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()
    assert evaluation.run()["error"]["kind"] == "interrupted"
    assert time.monotonic() - started < 50
    assert fake.count("build") == 2


@pytest.mark.parametrize("back", [True, False])
def test_an_engine_that_is_lost_in_the_build_has_time_to_come_back(fake, evaluate, limit, back):
    limit(clean_up=0.5)
    fake.fault("build", "lose", nth=1)
    if back:
        limit(**{"return": 60.0})
        fake.fault("version", "find", nth=4)
    report = evaluate(["FROM x"], TRUE)
    assert (statuses(report), report["error"] and report["error"]["kind"]) == (
        (PASSED, None) if back else ({"run_command_1": "not_run"}, "engine")
    )
    assert fake.count("build") == (2 if back else 1)


# Time


def test_a_build_that_takes_too_long_is_not_built_again(fake, evaluate):
    report = evaluate(["FROM x", "RUN SLEEP"], TRUE, build_timeout=0.5)
    assert report["error"] == {
        "kind": "build_timeout",
        "message": "the build took over 0.5 s and was stopped",
    }
    assert (statuses(report), fake.count("build")) == ({"run_command_1": "not_run"}, 1)


CUT_IN_A_RUN = {"stdout": f"{FROM}Step 2/4 : RUN x\n", "stderr": "unexpected EOF"}


@pytest.mark.parametrize(
    ("first", "kind", "message"),
    [
        (CUT_IN_A_RUN, "engine", "docker lost its connection in the build: unexpected EOF"),
        (CHANCES["a registry"], "registry", "Docker Hub is out of reach: "),
    ],
)
def test_where_a_repetition_runs_out_of_time_the_first_failure_stands(fake, evaluate, first, kind, message):
    fake.write("pull", {"stderr": LOOKUP})
    fake.fault("build", "fail", nth=1, **first)
    fake.fault("build", "hang", nth=2)
    report = evaluate(["FROM x"], TRUE, build_timeout=0.7)
    error = report["error"]
    assert (error["kind"], error["message"][: len(message)]) == (kind, message)
    assert fake.count("build") == 2
    assert "Step 1/4 : FROM x" in report["build"]["log"]


def test_an_engine_that_answers_slowly_does_not_prolong_a_build(fake, evaluate):
    fake.fault("version", "delay", seconds=0.7)
    report = evaluate(["FROM x", "RUN SLEEP"], TRUE, build_timeout=0.5)
    assert report["error"]["kind"] == "build_timeout"


@pytest.mark.parametrize(("nth", "kind"), [({"nth": 1}, None), ({}, "build_timeout")])
def test_a_build_whose_time_was_over_while_the_engine_stood_still_has_it_once_more(
    fake, evaluate, monkeypatch, nth, kind
):
    monkeypatch.setattr(de, "SLOW_ANSWER", 0.2)
    fake.fault("version", "hang", nth=2)
    fake.fault("build", "hang", **nth)
    fake.fault("build", "delay", nth=2, seconds=1)  # which it has no time for, unless it has all of it again
    error = evaluate(["FROM x"], TRUE, build_timeout=3)["error"]
    assert (error and error["kind"], fake.count("build")) == (kind, 2)


def test_an_engine_that_stands_still_each_time_excuses_no_build(fake, evaluate, monkeypatch):
    monkeypatch.setattr(de, "SLOW_ANSWER", 0.2)
    for nth in (2, 4):
        fake.fault("version", "hang", nth=nth)
    kind = evaluate(["FROM x", "RUN SLEEP"], TRUE, build_timeout=0.5)["error"]["kind"]
    assert (kind, fake.count("build")) == ("build_timeout", 2)


# The image


def test_a_build_whose_image_was_not_loaded(fake, evaluate):
    error = evaluate(["FROM x", "RUN NOLOAD"], TRUE)["error"]
    assert (error["kind"], "did not load it" in error["message"]) == ("engine", True)


def test_an_environment_of_any_length_is_no_engine_fault(fake, evaluate):
    """Else some ENV would be a way out of every mean."""
    fake.write("config", {"Env": ["PATH=/bin", "A=" + "x" * 4_300_000]})
    assert statuses(evaluate(["FROM x"], TRUE)) == PASSED


def test_the_builders_cache_is_told_of_where_it_may_hold_images_without_a_name(fake, evaluate):
    told = {}
    for name, fault in {"legacy": FINAL["a RUN"], "buildkit": FINAL["a RUN, with buildx"]}.items():
        fake.write("faults", [])
        fake.fault("build", "fail", **fault)
        told[name] = [warning.split(":")[0] for warning in evaluate(["FROM x"], TRUE)["warnings"]]
    fake.write("faults", [])
    told["built"] = evaluate(["FROM x"], TRUE)["warnings"]
    assert told == {"legacy": ["cached-layers"], "buildkit": [], "built": []}


# No word of a build log decides

DOCKERS_WORDS = [
    "Error response from daemon: failed to create endpoint x on network bridge: no bridge",
    "ERROR: failed to solve: write /var/lib/x: no space left on device",
    "toomanyrequests: You have reached your pull rate limit.",
    "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
    LOOKUP,
]


@pytest.mark.parametrize("words", DOCKERS_WORDS)
def test_no_word_of_a_build_log_makes_an_engine_fault(fake, evaluate, words):
    """The engine works, and Docker Hub answers: whatever stands there, the Dockerfile failed."""
    fake.fault("build", "fail", stdout=FROM, stderr=words)
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"


@pytest.mark.parametrize("words", DOCKERS_WORDS)
def test_no_word_before_a_failed_run_is_even_asked_about(fake, evaluate, words):
    fake.write("pull", {"stderr": LOOKUP})
    log = f"{FROM}Step 2/4 : RUN x\n{words}\n"
    fake.fault("build", "fail", stdout=log, stderr=RUN_FAILED.format(1))
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"
    assert (fake.count("build"), fake.count("pull")) == (1, 0)


COPIES = {
    "stdout": 'Step 1/4 : FROM x\nStep 2/4 : COPY ["a", "/"]\n',
    "stderr": "COPY failed: file not found in build context: stat a\n{}: file does not exist",
}
BUILDKIT_COPIES = {
    "stderr": "#1 [1/2] FROM x\n#2 [2/2] COPY [a, /]\n#2 ERROR: cannot copy\n"
    "ERROR: failed to solve: cannot copy to non-directory: /a\n{}"
}
OLD_BUILDKIT_COPIES = {
    "stderr": "#1 [1/2] FROM x\n#2 [2/2] COPY [d, /]\n#2 ERROR: mkdir /a\n"
    "------\n > [2/2] COPY [d, /]:\n------\nmkdir /a\n{}: not a directory"
}
HAS_A_USER = {
    "stdout": "Step 1/4 : FROM x\nStep 2/4 : RUN true\n",
    "stderr": "unable to find user {}: no matching entries in passwd file",
}


@pytest.mark.parametrize(
    ("log", "name"),
    [
        (COPIES, "error during connect"),
        (COPIES, "dial tcp"),
        (BUILDKIT_COPIES, "error during connect"),
        (BUILDKIT_COPIES, "unexpected EOF"),
        (OLD_BUILDKIT_COPIES, "error during connect"),
        (HAS_A_USER, "dial tcp"),
    ],
)
def test_no_name_in_a_dockerfile_is_a_word_of_docker(fake, evaluate, log, name):
    """Names may hold line breaks, and docker tells them as they are; Docker Hub is out of reach."""
    fake.write("pull", {"stderr": LOOKUP})
    fake.fault("build", "fail", **{stream: text.format(name) for stream, text in log.items()})
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "build"
    assert fake.count("pull") == 0


# Registries

LIMITS = "429 Too Many Requests - https://docs.docker.com/docker-hub/download-rate-limit/"
ASKS = {
    "legacy, FROM": {"stdout": FROM, "stderr": LOOKUP},
    "legacy, a later FROM": {"stdout": f"{FROM}Step 2/4 : RUN x\nStep 3/4 : FROM y\n", "stderr": LOOKUP},
    "legacy, COPY --from": {"stdout": f"{FROM}Step 2/4 : COPY --from=y /a /\n", "stderr": LOOKUP},
    "buildkit, FROM": buildkit("#4 [1/2] FROM docker.io/library/x", f"#4 ERROR: {LIMITS}", end=LIMITS),
    "buildkit, metadata": buildkit(
        "#2 [internal] load metadata for docker.io/library/x:1", f"#2 ERROR: {LIMITS}", end=LIMITS
    ),
    "buildkit, syntax": buildkit(
        "#2 resolve image config for docker.io/docker/dockerfile:1", f"#2 ERROR: {LIMITS}", end=LIMITS
    ),
    "buildkit, COPY --from": buildkit(
        "#3 [stage-0 1/2] FROM docker.io/library/x",
        "#5 FROM docker.io/library/y:1",
        f"#5 ERROR: {LIMITS}",
        end=LIMITS,
    ),
    # what is over is printed first, and then a RUN of another stage that was under way
    "buildkit, beside a RUN": buildkit(
        "#4 [b 1/2] FROM node", f"#4 ERROR: {LIMITS}", "#5 [a 2/2] RUN make", "#5 CANCELED", end=LIMITS
    ),
}
ASKS_NOT = {
    "legacy, RUN": {"stdout": f"{FROM}Step 2/4 : RUN x\n", "stderr": RUN_FAILED.format(137)},
    "legacy, a RUN that prints a step": {
        "stdout": f"{FROM}Step 2/4 : RUN x\nStep 9/9 : FROM y\n",
        "stderr": RUN_FAILED.format(137),
    },
    "legacy, ADD": {
        "stdout": f"{FROM}Step 2/4 : ADD https://example.org/x /\n",
        "stderr": f"ADD failed: {LOOKUP}",
    },
    "legacy, no step": {"stderr": LOOKUP},
    "legacy, no such image": {
        "stdout": FROM,
        "stderr": "pull access denied for x, repository does not exist or may require 'docker login'",
    },
    "legacy, no such tag": {"stdout": FROM, "stderr": "manifest for x:y not found: manifest unknown"},
    "buildkit, RUN": buildkit("#4 [1/2] FROM x", "#5 [2/2] RUN x", f"#5 ERROR: {LOOKUP}", end=LOOKUP),
    "buildkit, no such image": buildkit(
        "#2 [internal] load metadata for docker.io/library/x:1",
        "#2 ERROR: docker.io/library/x:1: not found",
        end="x:1: docker.io/library/x:1: not found",
    ),
    "buildkit, ADD": buildkit(
        "#4 [1/2] FROM docker.io/library/x",
        "#4 DONE 0.1s",
        "#5 https://example.org/x",
        "#5 ERROR: dial tcp: lookup example.org: no such host",
        end="failed to load cache key: dial tcp: lookup example.org: no such host",
    ),
    "no word at all": {"stdout": ""},
}


@pytest.mark.parametrize("name", sorted(ASKS))
def test_a_step_that_needs_a_registry_out_of_reach_leaves_no_score(fake, evaluate, name):
    fake.write("pull", {"stderr": f"Error response from daemon: {LOOKUP}"})
    fake.fault("build", "fail", **ASKS[name])
    report = evaluate(["FROM x"], TRUE)
    assert report["error"] == {
        "kind": "registry",
        "message": f"Docker Hub is out of reach: Error response from daemon: {LOOKUP}",
    }
    assert (statuses(report), fake.count("pull")) == ({"run_command_1": "not_run"}, 1)


@pytest.mark.parametrize("name", sorted(ASKS_NOT))
def test_no_other_step_asks_about_a_registry(fake, evaluate, name):
    """Docker Hub is out of reach all the same."""
    fake.write("pull", {"stderr": f"Error response from daemon: {LOOKUP}"})
    fake.fault("build", "fail", **ASKS_NOT[name])
    assert (evaluate(["FROM x"], TRUE)["error"]["kind"], fake.count("pull")) == ("build", 0)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (f"Error response from daemon: {LOOKUP}", "registry"),
        ("Error response from daemon: toomanyrequests: You have reached your pull rate limit.", "registry"),
        ("Error response from daemon: dial tcp 192.0.2.1:443: connect: connection refused", "registry"),
        (
            "Error response from daemon: received unexpected HTTP status: 500 Internal Server Error",
            "registry",
        ),
        ("Error response from daemon: read tcp 10.0.0.2:443: read: connection timed out", "registry"),
        ("Error response from daemon: remote error: tls: bad record MAC", "registry"),
        ("Error response from daemon: Get x: dial tcp: connect: permission denied", "registry"),
        # podman's, which is its own engine
        (
            "Error: pinging container registry: dial tcp 192.0.2.1:443: connect: connection refused",
            "registry",
        ),
        ("Error response from daemon: pull access denied for x, repository does not exist", "build"),
        ("Error response from daemon: manifest for x not found: manifest unknown", "build"),
        ("denied", "build"),
        ("Error: unauthorized: access to the requested resource is not authorized", "build"),
    ],
)
def test_docker_hub_is_asked_for_a_name_that_cannot_exist(fake, evaluate, answer, kind):
    fake.write("pull", {"stderr": answer})
    fake.fault("build", "fail", **ASKS["legacy, FROM"])
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == kind
    (pull,) = fake.calls("pull")
    assert pull[-1].startswith("docker.io/library/dockerfile-evaluator-asks-")


def test_a_docker_hub_that_gives_no_answer_is_out_of_reach(fake, evaluate, limit):
    """As behind a wall that drops what comes."""
    limit(pull=0.5)
    fake.fault("pull", "hang")
    fake.fault("build", "fail", **ASKS["legacy, FROM"])
    assert evaluate(["FROM x"], TRUE)["error"]["kind"] == "registry"


def test_a_build_that_times_out_asks_no_registry(fake, evaluate):
    fake.write("pull", {"stderr": LOOKUP})
    report = evaluate(["FROM x", "RUN SLEEP"], TRUE, build_timeout=0.5)
    assert (report["error"]["kind"], fake.count("pull")) == ("build_timeout", 0)
