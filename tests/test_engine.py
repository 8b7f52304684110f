"""The promises, kept on a real engine."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from cases import CASES, ENVIRONMENT, HELLO, LOOK, TRUE, fill, run_command
from conftest import PROGRAM, PROJECT, schema, statuses
from engine import census, docker, wait_for

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("engine")


def program(*words: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*PROGRAM, *words],
        cwd=str(PROJECT),
        env={**os.environ, **environment},
        capture_output=True,
        timeout=600,
    )


# The example


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory, networked_engine, buildkit_program):
    """Return exit, output and report of the example and of its flawed twin, two at a time, as users run them.

    By BuildKit, as review.py's tests do, which measure all worked pairs, so that each is built once.
    """
    folder = tmp_path_factory.mktemp("evaluated")
    os.symlink(buildkit_program, folder / "docker")
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"

    def one(name):
        output = folder / f"{name}.json"
        words = ["--dockerfile", f"artifacts/{name}.dockerfile", "--repo", name.replace("_flawed", "")]
        done = program(*words, "--output", str(output), PATH=path, DOCKER_BUILDKIT="1")
        return done, json.loads(output.read_text())

    names = ["example", "example_flawed"]
    before = census()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = dict(zip(names, pool.map(one, names)))
    assert census() == before
    for _, report in done.values():
        schema("report").validate(report)
    return done


def test_the_example_passes_in_full(evaluated):
    done, report = evaluated["example"]
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert set(statuses(report).values()) == {"passed"}
    assert (report["error"], report["warnings"]) == (None, [])
    assert report["environment"]["image_size"] > 10_000_000


def test_the_flawed_example_fails_in_every_way(evaluated):
    done, report = evaluated["example_flawed"]
    assert done.returncode == 1
    assert statuses(report) == {
        "java_command": "passed",
        "build_commands": "failed",
        "java_home": "failed",
        "java_version": "passed",
        "project_files": "passed",
        "project_folders": "failed",
        "greeting_configured": "skipped",
        "compiles": "skipped",
        "greets": "skipped",
        "ready_at_once": "timeout",
    }
    assert b"timeout  ready_at_once" in done.stdout


# Verdicts


def nastiest(cases):
    """Return the case of the longest params for each status."""
    by_length = sorted(cases, key=lambda case: len(repr(case[0])))
    return {case[1]: case for case in by_length}.values()


def test_the_nastiest_cases_in_containers(clean_engine, dockerfile, rubric):
    """Of the table that test_scripts.py runs in each shell on the host: docker brings the same words there."""
    lines = ["FROM busybox:stable", *(f"ENV {name}={value}" for name, value in ENVIRONMENT.items())]
    path = dockerfile(*lines, "WORKDIR /place", "COPY place/ .", "RUN mkfifo pipe")
    place = Path(path).with_name("place")
    place.mkdir()
    fill(place)
    cases = [(kind, *case) for kind in sorted(CASES) for case in nastiest(CASES[kind])]
    report = de.evaluate(path, "cases", rubric(*((kind, params) for kind, params, _, _ in cases)), jobs=2)
    wrong = [
        (params, row["status"], row["message"])
        for row, (_, params, status, words) in zip(report["test_results"], cases)
        if row["status"] != status or words not in row["message"]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ['ENTRYPOINT ["/bin/true"]'],
        ['ENTRYPOINT ["/bin/bash"]'],
        ["ENTRYPOINT exec false"],
        ['ENTRYPOINT ["/no/such/program"]', 'CMD ["x"]'],
        ['CMD ["/bin/false"]'],
    ],
)
def test_entrypoint_and_cmd_change_no_verdict(clean_engine, evaluate, lines):
    report = evaluate(["FROM busybox:stable", *lines], HELLO, LOOK, run_command("exit 3"))
    assert list(statuses(report).values()) == ["passed", "passed", "failed"]


def test_a_timeout_is_told_in_time_and_disturbs_nothing(clean_engine, dockerfile, rubric):
    heard = {}

    class Listener(de.Events):
        def started(self, test):
            heard[test.id, "started"] = time.monotonic()

        def finished(self, test, result, output):
            heard[test.id, "finished"] = time.monotonic()
            heard[test.id, "containers"] = census()["containers"]

    tests = [
        run_command("trap '' TERM INT; while :; do sleep 1; done", id="stubborn", timeout=1),
        run_command("yes", id="flood", timeout=1),
        {**TRUE, "id": "next"},
    ]
    path = dockerfile("FROM busybox:stable")
    report = de.Evaluation(de.Options(path, "r", rubric(*tests)), events=Listener()).run()
    assert [row["status"] for row in report["test_results"]] == ["timeout", "timeout", "passed"]
    seconds = {
        name: heard[name, "finished"] - heard[name, "started"] for name in ("stubborn", "flood", "next")
    }
    for name in ("stubborn", "flood"):
        # Its limit, and what docker takes to start and to remove containers on this machine.
        assert seconds[name] < 1 + 3 + 4 * seconds["next"]
        assert heard[name, "containers"] == []


# Builds


def test_a_failed_build_with_buildkit_leaves_nothing(buildkit, clean_engine, evaluate):
    report = evaluate(
        ["FROM busybox:stable", "RUN echo first", "RUN echo the last words; exit 130"], HELLO, LOOK
    )
    assert set(statuses(report).values()) == {"not_run"}
    assert report["error"]["kind"] == "build"
    assert report["error"]["message"].endswith(": exit code 130: the last words")
    assert "the last words" in report["build"]["log"]
    assert report["environment"]["builder"] == "buildkit"


def test_a_failed_build_with_the_legacy_builder_warns_of_what_stays(legacy, engine, evaluate):
    before = census()
    unique = os.urandom(8).hex()
    report = evaluate(
        ["FROM busybox:stable", f"RUN echo {unique}", "RUN echo the last words; exit 130"], HELLO
    )
    assert statuses(report) == {"output_contains_1": "not_run"}
    words = "step 3 of 3 (RUN echo the last words; exit 130): exit code 130: the last words"
    assert report["error"]["message"] == words
    assert "the last words" in report["build"]["log"]
    assert report["warnings"][-1].startswith("cached-layers: the legacy builder's cache may hold new images")
    after = census()
    for image in set(after["images"]) - set(before["images"]):
        docker("image", "rm", image)
    assert census() == before


def test_the_legacy_builders_other_stages_are_warned_of_too(legacy, engine, evaluate):
    before = census()
    lines = ["FROM busybox:stable AS other", f"RUN echo {os.urandom(8).hex()} >/x", "FROM busybox:stable"]
    report = evaluate([*lines, "COPY --from=other /x /"], HELLO)
    assert statuses(report) == {"output_contains_1": "passed"}
    assert report["warnings"][-1].startswith("cached-layers: the legacy builder's cache may hold new images")
    for image in set(census()["images"]) - set(before["images"]):
        docker("image", "rm", image)
    assert census() == before


def test_a_missing_source_names_the_context(clean_engine, evaluate, builder, tmp_path):
    report = evaluate(["FROM busybox:stable", "COPY missing /"], HELLO)
    assert report["error"]["kind"] == "build"
    assert (
        f"The build context was {tmp_path / 'context'}; name another with --context DIR"
        in report["error"]["message"]
    )


def test_a_build_that_hangs_is_stopped(clean_engine, evaluate, builder):
    started = time.monotonic()
    report = evaluate(["FROM busybox:stable", "RUN sleep 600"], HELLO, build_timeout=3)
    assert report["error"] == {"kind": "build_timeout", "message": "the build took over 3 s and was stopped"}
    assert time.monotonic() - started < 300  # of 600
    wait_for(lambda: not census()["containers"], what="for the engine to end a cancelled build")


def test_an_empty_dockerfile_is_a_failed_build(clean_engine, dockerfile, rubric):
    path = dockerfile("")
    Path(path).write_text("")
    report = de.evaluate(path, "r", rubric(HELLO))
    assert report["error"]["kind"] == "build"
    assert re.search("cannot be empty|no contents in", report["error"]["message"])  # docker, podman


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("build", "--bogus"),
        ("run", "--bogus=1"),
        ("run", "--memory"),
        ("run", "--env"),
        ("build", "--network"),
    ],
)
def test_an_option_that_docker_rejects_is_an_error_that_quotes_docker(clean_engine, evaluate, kind, word):
    report = evaluate(["FROM busybox:stable"], HELLO, **{f"{kind}_options": [word]})
    assert report["error"]["kind"] == "usage"
    assert set(statuses(report).values()) == {"not_run"}
    assert kind == "build" or report["build"]["message"] == "not built"
    said = (
        "unknown flag",
        "invalid reference",
        "invalid argument",
        "requires",
        "accepts at most",
        "no context",
    )
    assert any(words in report["error"]["message"] for words in said)  # of docker, buildx, podman


def test_run_options_reach_the_container(clean_engine, evaluate):
    tests = [
        (
            "output_contains",
            {"command": "echo $GIVEN; cat /sys/class/net/*/address | wc -l", "contains": ["yes\n1"]},
        )
    ]
    assert (
        evaluate(["FROM busybox:stable"], *tests, run_options=["--env=GIVEN=yes", "--network=none"])["error"]
        is None
    )


def test_a_kept_image_can_be_looked_into(clean_engine, evaluate):
    tag = evaluate(["FROM busybox:stable", "ENV MADE=here"], HELLO, keep_image=True)["environment"][
        "kept_image"
    ]
    assert docker("run", "--rm", tag, "sh", "-c", "echo $MADE") == "here\n"
    evaluate(["FROM busybox:stable"], HELLO)
    assert docker("images", "--quiet", tag)
    docker("image", "rm", tag)


def test_anonymous_volumes_go_with_their_containers(clean_engine, evaluate):
    slow = run_command("touch /data/x; sleep 60", timeout=1)
    report = evaluate(["FROM busybox:stable", "VOLUME /data"], run_command("touch /data/x"), slow)
    assert list(statuses(report).values()) == ["passed", "timeout"]


# The way to an engine


def test_no_engine_names_the_way_to_get_one(dockerfile, rubric, tmp_path):
    words = ["--dockerfile", dockerfile("FROM busybox:stable"), "--rubric", rubric(HELLO), "--repo", "r"]
    done = program(*words, DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.returncode == 1
    assert b"tests/with-engine" in done.stderr
    assert b"Traceback" not in done.stderr


def test_with_engine_uses_an_engine_that_answers():
    done = subprocess.run(
        [str(PROJECT / "tests" / "with-engine"), "sh", "-c", "echo $DOCKER_HOST; exit 7"],
        stdout=subprocess.PIPE,
    )
    assert (done.returncode, done.stdout.decode().strip()) == (7, os.environ.get("DOCKER_HOST", ""))


# Neighbours


def test_four_in_parallel_and_somebody_elses_things(engine, tmp_path, rubric, builder):
    """Half of the same Dockerfile, half of different ones, beside an image and a container named almost like ours."""
    image, container = "dockerfile-evaluator:somebodys", "dockerfile-evaluator-somebodys-1"
    docker("tag", "busybox:stable", image)
    docker("run", "--detach", "--name", container, "busybox:stable", "sleep", "600")
    before = census()
    path = rubric(HELLO, ("file_contains", {"path": "/n", "contains": ["n0"]}))
    jobs = []
    for at in range(4):
        folder = tmp_path / f"n{at}"
        folder.mkdir()
        number = 0 if at % 2 else at
        lines = ["FROM busybox:stable", "RUN touch /one", f"RUN echo n{number} >/n"]
        (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
        jobs.append((str(folder / "Dockerfile"), "failed" if number else "passed"))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda job: de.evaluate(job[0], "r", path), jobs))
    for report, (_, last) in zip(reports, jobs):
        assert report["error"] is None
        assert list(statuses(report).values()) == ["passed", last]
    after = census()
    docker("rm", "--force", container)
    docker("image", "rm", image)
    assert after == before
