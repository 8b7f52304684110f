"""The evaluator on a real engine: verdicts, builds, options, interrupts, and nothing left."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from cases import FALSE, TRUE, files_exist, output_contains, run_command
from conftest import PROJECT, called, error_of, statuses
from engine import Sleep, census, docker, wait_for

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("engine")

BUSYBOX = "FROM busybox:stable"
SLOW_SHELL = r"""RUN printf '#!/bin/busybox sh\nsleep 3\nexec /bin/busybox sh "$@"\n' >/s && chmod 755 /s && mv -f /s /bin/sh"""


def outcomes(report: dict) -> tuple:
    """Return the statuses in the rubric's order, and the kind of error."""
    return list(statuses(report).values()), report["error"] and report["error"]["kind"]


def major_version(part: str) -> int:
    """Return the major version of docker's "Client" or "Server"."""
    return int(docker("version", "--format", f"{{{{.{part}.Version}}}}").partition(".")[0])


# Verdicts


FLAWED = {
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
EXAMPLES = [file.stem for file in (PROJECT / "artifacts").glob("example*.dockerfile")]


@pytest.mark.release
@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.usefixtures("networked_engine", "buildkit")
def test_example_has_its_statuses(tmp_path, monkeypatch, name):
    """All but the flawed one pass in full."""
    before, output, is_flawed = census(), tmp_path / "report.json", name == "example_flawed"
    monkeypatch.chdir(PROJECT)
    repo = name.replace("_flawed", "")
    words = [f"--dockerfile=artifacts/{name}.dockerfile", f"--repo={repo}", f"--output={output}"]
    code, screen, _ = called(de.main, *words)
    report = json.loads(output.read_text())
    assert (code, report["error"], census()) == (is_flawed, None, before), screen
    assert statuses(report) == FLAWED if is_flawed else set(statuses(report).values()) == {"passed"}


NAMES = [
    "-dash",
    "$(false)",
    "`x`",
    "it's",
    "*",
    "é€",
    "\\n",
    "with space",
    'say "hi"',
    "new\nline",
]
PASSING = [
    ("command_exists", {"name": "sh"}),
    ("commands_exist", {"names": ["cd", "./program"]}),
    ("envvar_set", {"name": "dotted.name"}),
    ("dirs_exist", {"paths": ["/etc", "folder"]}),
    ("files_exist", {"paths": ["program", "link", *NAMES]}),
    ("file_contains", {"path": "new\nline", "contains": ["<new\nline>"]}),
    ("file_contains", {"path": "é€", "contains": ["no", "<é€>\n", "none"]}),
    ("run_command", {"command": "exit 3", "exit_code": 3}),
    ("output_contains", {"command": "pwd; echo err >&2", "contains": ["/place\n", "err"], "match": "all"}),
    ("output_contains", {"command": "echo {a*b}; : {b}", "contains": ["{a*b}"], "draw": {"a": [1, 9999], "b": [1, 9999]}}),
]  # fmt: skip
FAILING = [
    ("command_exists", {"name": "./link"}),
    ("commands_exist", {"names": ["sh", "sh; true"]}),
    ("envvar_set", {"name": "EMPTY"}),
    ("dirs_exist", {"paths": ["/etc", "link"]}),
    ("files_exist", {"paths": ["pro*"]}),
    ("file_contains", {"path": "folder", "contains": ["x"]}),
    ("file_contains", {"path": "link", "contains": ["<it's>", "no"], "match": "all"}),
    ("run_command", {"command": "kill -9 $$"}),
    ("output_contains", {"command": "echo 'a.b'", "contains": ["a?b", "A.B"]}),
]


@pytest.mark.image_store
def test_each_test_type_passes_and_fails(clean_engine, buildkit, dockerfile, rubric):
    lines = [BUSYBOX, "ENV dotted.name=x EMPTY=", "WORKDIR /place", "COPY place/ ."]
    path = dockerfile(*lines)
    place = Path(path).with_name("place")
    (place / "folder").mkdir(parents=True)
    for name in ("program", *NAMES):
        (place / name).write_text(f"<{name}>\n")
    (place / "program").chmod(0o755)
    os.symlink("it's", place / "link")
    report = de.evaluate(path, "r", rubric(*PASSING, *FAILING), jobs=2)
    expected = ["passed"] * len(PASSING) + ["failed"] * len(FAILING)
    assert outcomes(report) == (expected, None), [row["message"] for row in report["test_results"]]


@pytest.mark.parametrize(
    "lines",
    [
        [
            'ENTRYPOINT ["/no/such/program"]',
            'CMD ["x"]',
            'SHELL ["/no/such/shell"]',
            "HEALTHCHECK CMD false",
        ],
        ["ENTRYPOINT exec false", "CMD exit 125"],
    ],
)
def test_entrypoint_cmd_shell_healthcheck_do_not_influence_verdicts(clean_engine, evaluate, lines):
    report = evaluate(
        [BUSYBOX, *lines],
        output_contains("id -u", "0"),
        files_exist("/bin/sh"),
        run_command("exit 3"),
    )
    assert outcomes(report) == (["passed", "passed", "failed"], None)


def test_env_user_workdir_apply(clean_engine, evaluate):
    command = "echo $NAME $(id -u) $PWD"
    report = evaluate(
        [BUSYBOX, "ENV NAME=value", "USER 123", "WORKDIR /w"],
        output_contains(command, "value 123 /w"),
    )
    assert outcomes(report) == (["passed"], None)


def test_command_has_no_terminal_and_no_stdin(clean_engine, start, arguments, report):
    command = run_command('test -z "$(cat)" && ! test -t 0 && ! test -t 1 && ! test -t 2')
    process = start(*arguments([BUSYBOX], command), stdin=subprocess.PIPE)
    process.communicate(b"input of the evaluator\n", timeout=120)
    assert outcomes(report()) == (["passed"], None)


def test_timeout_kills_container(clean_engine, evaluate):
    sleep = Sleep()
    stubborn = run_command(f"echo started; trap '' TERM INT; {sleep.command}", timeout=1)
    report = evaluate([BUSYBOX, "VOLUME /data"], stubborn, run_command("touch /data/x"))
    assert outcomes(report) == (["timeout", "passed"], None)
    assert report["test_results"][0]["output"] == "started\n"
    assert sleep.processes() == set()


def test_slow_container_needs_start_timeout(clean_engine, evaluate, monkeypatch):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 0.5)
    assert outcomes(evaluate([BUSYBOX, SLOW_SHELL], TRUE, start_timeout=1)) == (["failed"], None)
    assert outcomes(evaluate([BUSYBOX, SLOW_SHELL], TRUE, start_timeout=100)) == (["passed"], None)


def test_jobs_run_commands_in_parallel(clean_engine, evaluate, tmp_path):
    meet = "touch /shared/{0}; until test -e /shared/{1}; do sleep 0.1; done"
    tests = [run_command(meet.format(*names), timeout=120) for names in ("ab", "ba")]
    assert (
        outcomes(evaluate([BUSYBOX], *tests, jobs=2, run_options=[f"--volume={tmp_path}:/shared"]))[
            0
        ]
        == ["passed"] * 2
    )


def test_commands_run_one_at_a_time_by_default(clean_engine, evaluate, tmp_path):
    alone = run_command("mkdir /shared/lock && sleep 1 && rmdir /shared/lock")
    assert (
        outcomes(evaluate([BUSYBOX], *[alone] * 3, run_options=[f"--volume={tmp_path}:/shared"]))[0]
        == ["passed"] * 3
    )


@pytest.mark.image_store
def test_parallel_evaluations_do_not_affect_each_other_or_others(engine, builder, tmp_path, rubric):
    """Two of the same Dockerfile, two others, beside an image and a container with similar names."""
    image, container = "dockerfile-evaluator:users", "dockerfile-evaluator-users-1"
    docker("tag", "busybox:stable", image)
    docker("run", "--detach", "--name", container, "busybox:stable", "sleep", "600")
    before = census()
    for at in range(4):
        (tmp_path / f"{at}").mkdir()
        text = f"{BUSYBOX}\nRUN echo content {at // 2 * at} >/file\n"
        (tmp_path / f"{at}" / "Dockerfile").write_text(text)
    path = rubric(TRUE, ("file_contains", {"path": "/file", "contains": ["content 0"]}))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        reports = list(
            pool.map(
                lambda at: de.evaluate(str(tmp_path / f"{at}" / "Dockerfile"), "r", path), range(4)
            )
        )
    after = census()
    docker("rm", "--force", container)
    docker("image", "rm", image)
    assert [outcomes(report) for report in reports] == [
        (["passed", status], None) for status in ("passed", "passed", "failed", "failed")
    ]
    assert after == before


# Options


def test_run_options_of_command_line_and_rubric_apply(clean_engine, dockerfile, tmp_path):
    command = "echo $GIVEN; ls /sys/class/net; df -k /dev/shm | tail -n 1"
    tests = [
        {
            "type": "output_contains",
            "params": {"command": command, "contains": ["yes\nlo\n", " 7168 "], "match": "all"},
        }
    ]
    (tmp_path / "rubric.json").write_text(
        json.dumps({"run_options": ["--shm-size=7m"], "tests": tests})
    )
    options = ["--env=GIVEN=yes", "--network=none"]
    report = de.evaluate(
        dockerfile(BUSYBOX), "r", str(tmp_path / "rubric.json"), run_options=options
    )
    assert outcomes(report) == (["passed"], None), report["test_results"][0]["output"]


@pytest.mark.image_store
def test_kept_image_repeats_failed_command(clean_engine, arguments, report, capfd):
    failing = run_command("""echo "it's $NAME"; exit 3""")
    assert de.main(arguments([BUSYBOX, "ENV NAME=value"], failing, more=["--keep-image"])) == 1
    line = re.search(
        r"^  (docker run --rm --entrypoint .*)$", capfd.readouterr().out, re.MULTILINE
    )[1]
    repeated = subprocess.run(shlex.split(line), stdout=subprocess.PIPE)
    docker("image", "rm", report()["environment"]["kept_image"])
    assert repeated.returncode == 3
    assert repeated.stdout == b"it's value\n"


@pytest.mark.no_podman
def test_no_engine_quotes_docker(evaluate, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    report = evaluate([BUSYBOX], TRUE)
    assert outcomes(report) == (["not_run"], "engine")
    assert "none.sock" in report["error"]["message"]


# Builds


def test_linked_dockerfile_builds(clean_engine, builder, dockerfile, rubric, tmp_path):
    path = dockerfile(BUSYBOX, "COPY file /")
    os.rename(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)
    Path(path).with_name("file").touch()
    assert outcomes(de.evaluate(path, "r", rubric(files_exist("/file")))) == (["passed"], None)


@pytest.mark.image_store
def test_failed_build_quotes_exit_code_and_error_line(engine, builder, evaluate):
    before = census()
    run = f"RUN echo {os.urandom(8).hex()}; echo 'E: no such package'; echo done; exit 130"
    report = evaluate([BUSYBOX, run], TRUE, FALSE)
    assert outcomes(report) == (["not_run"] * 2, "build")
    assert report["error"]["message"].endswith("130: E: no such package")
    assert "done" in report["build"]["log"]
    if builder == "buildkit":
        assert census() == before
    else:  # the legacy builder keeps untagged images, but --force-rm removes the container
        assert census()["containers"] == before["containers"]


def test_build_timeout_names_the_step(clean_engine, builder, evaluate):
    sleep = Sleep()
    report = evaluate([BUSYBOX, f"RUN {sleep.command}"], TRUE, build_timeout=8)
    assert report["error"]["kind"] == "build_timeout"
    assert re.fullmatch(
        rf"the build timed out after 8 s in step '.*RUN {sleep.command}'",
        report["error"]["message"],
    )
    may_stay = "podman" in docker(
        "--version"
    )  # `podman build` itself may leave the process of its RUN
    wait_for(
        lambda: (may_stay or not sleep.processes()) and not census()["containers"],
        what="for the engine to cancel the build",
    )


NEEDS_BUILDKIT = (
    "usage",
    "this Dockerfile needs BuildKit, and this docker has none (install docker-buildx)",
)
WITHOUT_BUILDKIT = [
    [BUSYBOX, "RUN <<EOF", "true", "EOF"],  # which the legacy builder of docker 28 drops
    [BUSYBOX, "RUN --mount=type=cache,target=/x true"],
    [BUSYBOX, "COPY --chmod=755 Dockerfile /"],
    ["FROM --platform=$BUILDPLATFORM busybox:stable"],
]


@pytest.mark.no_podman
@pytest.mark.parametrize(
    "lines", WITHOUT_BUILDKIT, ids=["here-document", "mount", "chmod", "platform"]
)
def test_dockerfile_that_needs_buildkit_is_a_usage_error(engine, legacy, evaluate, lines):
    assert error_of(evaluate(lines, TRUE)) == NEEDS_BUILDKIT


@pytest.mark.no_podman
def test_link_needs_buildkit_unless_the_legacy_builder_ignores_it(clean_engine, legacy, evaluate):
    report = evaluate([BUSYBOX, "COPY --link Dockerfile /"], TRUE)
    if major_version("Server") > 20:
        assert outcomes(report) == (["passed"], None)
    else:
        assert error_of(report) == NEEDS_BUILDKIT


@pytest.mark.no_buildx
def test_docker_buildkit_1_without_buildx_is_an_engine_error(clean_engine, evaluate, monkeypatch):
    if major_version("Client") < 23:
        pytest.skip("this docker needs no buildx")
    monkeypatch.setenv("DOCKER_BUILDKIT", "1")
    report = evaluate([BUSYBOX], TRUE)
    assert outcomes(report) == (["not_run"], "engine")
    assert "buildx" in report["error"]["message"]


def test_missing_source_names_context_and_ignore_file(clean_engine, builder, dockerfile, rubric):
    path = dockerfile(BUSYBOX, "COPY missing /")
    context = os.path.dirname(path)
    Path(context, ".dockerignore").write_text("missing\n")
    report = de.evaluate(path, "r", rubric(TRUE))
    assert report["error"]["kind"] == "build"
    hint = f"(build context: {context}, without what {context}/.dockerignore excludes; select another with --context DIR)"
    assert report["error"]["message"].endswith(hint)


# Interrupts


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["INT", "TERM", "HUP"],
)
def test_interrupted_test_leaves_nothing(clean_engine, start, arguments, report, number, code):
    sleep = Sleep()
    process = start(*arguments([BUSYBOX, "VOLUME /data"], {**TRUE, "id": "first"}, sleep.test()))
    sleep.wait()
    process.send_signal(number)
    assert process.wait(120) == code
    assert statuses(report()) == {"first": "passed", "slow": "not_run"}
    assert report()["error"]["kind"] == "interrupted"


@pytest.fixture
def interrupted_build(builder, start, arguments, report):
    """Interrupt a build during a RUN; return its Sleep."""
    sleep = Sleep()
    process = start(*arguments([BUSYBOX, f"RUN {sleep.command}"], TRUE))
    sleep.wait()
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert outcomes(report()) == (["not_run"], "interrupted")
    return sleep


@pytest.mark.image_store
def test_interrupted_build_leaves_nothing(clean_engine, interrupted_build):
    wait_for(lambda: not census()["containers"], what="for the engine to cancel the build")


@pytest.mark.no_podman  # after SIGTERM, `podman build` itself leaves the process of its RUN
def test_interrupted_build_ends_the_process_of_its_run(clean_engine, interrupted_build):
    wait_for(
        lambda: not interrupted_build.processes() and not census()["containers"],
        what="for the engine to cancel the build",
    )


@pytest.mark.image_store
def test_next_run_removes_leftovers_of_killed_run_and_spares_living_run(
    clean_engine, start, arguments, evaluate
):
    living, killed = Sleep(), Sleep()
    process = start(*arguments([BUSYBOX], living.test()))
    living.wait()
    before = census()
    victim = start(*arguments([BUSYBOX, "LABEL of=killed"], killed.test()))
    killed.wait()
    victim.kill()
    victim.wait()
    assert census() != before
    assert outcomes(evaluate([BUSYBOX, "LABEL of=next"], TRUE)) == (["passed"], None)
    assert census() == before
    assert killed.processes() == set()
    assert living.processes()
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
