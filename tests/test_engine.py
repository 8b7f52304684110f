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
from conftest import PROJECT, called, error_of, outcome, statuses
from engine import Sleep, census, docker, wait_for

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("engine")

BUSYBOX = "FROM busybox:stable"
# The shell begins 3 seconds late.
SLOW_SHELL = (
    r"""RUN printf '#!/bin/busybox sh\nsleep 3\nexec /bin/busybox sh "$@"\n' >/new """
    "&& chmod 755 /new && mv -f /new /bin/sh"
)


def verdicts(report: dict) -> list[str]:
    """Return the statuses in the order of the rubric."""
    return list(statuses(report).values())


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
EXAMPLES = {file.stem for file in (PROJECT / "artifacts").glob("example*.dockerfile")}


@pytest.fixture
def evaluate_example(networked_engine, buildkit, monkeypatch, tmp_path):
    """Evaluate an example by its name, as a user does; return the exit code and the report."""
    monkeypatch.chdir(PROJECT)
    output = tmp_path / "report.json"

    def run(name):
        repo = name.replace("_flawed", "")
        dockerfile = f"artifacts/{name}.dockerfile"
        code, screen, _ = called(
            de.main, f"--dockerfile={dockerfile}", f"--repo={repo}", f"--output={output}"
        )
        report = json.loads(output.read_text())
        assert report["error"] is None, screen
        return code, report

    return run


@pytest.mark.release
@pytest.mark.parametrize("name", sorted(EXAMPLES - {"example_flawed"}))
def test_example_passes_in_full(evaluate_example, name):
    before = census()

    code, report = evaluate_example(name)

    assert code == 0
    assert outcome(report) == "passed"
    assert census() == before


@pytest.mark.release
def test_flawed_example_has_its_statuses(evaluate_example):
    before = census()

    code, report = evaluate_example("example_flawed")

    assert code == 1
    assert statuses(report) == FLAWED
    assert census() == before


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
DRAWN = {"a": [1, 9999], "b": [1, 9999]}
PASSING = [
    ("command_exists", {"name": "sh"}),
    ("commands_exist", {"names": ["cd", "./program"]}),
    ("envvar_set", {"name": "dotted.name"}),
    ("dirs_exist", {"paths": ["/etc", "folder"]}),
    ("files_exist", {"paths": ["program", "link", *NAMES]}),
    ("file_contains", {"path": "new\nline", "contains": ["<new\nline>"]}),
    ("file_contains", {"path": "é€", "contains": ["no", "<é€>\n", "none"]}),
    ("run_command", {"command": "exit 3", "exit_code": 3}),
    (
        "output_contains",
        {"command": "pwd; echo err >&2", "contains": ["/place\n", "err"], "match": "all"},
    ),
    ("output_contains", {"command": "echo {a*b}; : {b}", "contains": ["{a*b}"], "draw": DRAWN}),
]
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
    assert verdicts(report) == expected, report["test_results"]
    assert report["error"] is None


INSTRUCTIONS = {
    "they do not exist": [
        'ENTRYPOINT ["/no/such/program"]',
        'CMD ["x"]',
        'SHELL ["/no/such/shell"]',
        "HEALTHCHECK CMD false",
    ],
    "they fail": ["ENTRYPOINT exec false", "CMD exit 125"],
}


@pytest.mark.parametrize("lines", INSTRUCTIONS.values(), ids=INSTRUCTIONS)
def test_entrypoint_cmd_shell_healthcheck_do_not_influence_verdicts(clean_engine, evaluate, lines):
    tests = [output_contains("id -u", "0"), files_exist("/bin/sh"), run_command("exit 3")]

    report = evaluate([BUSYBOX, *lines], *tests)

    assert verdicts(report) == ["passed", "passed", "failed"]
    assert report["error"] is None


def test_env_user_workdir_apply(clean_engine, evaluate):
    lines = [BUSYBOX, "ENV NAME=value", "USER 123", "WORKDIR /w"]

    report = evaluate(lines, output_contains("echo $NAME $(id -u) $PWD", "value 123 /w"))

    assert outcome(report) == "passed"


def test_command_has_no_terminal_and_no_stdin(clean_engine, start, arguments, report):
    command = run_command('test -z "$(cat)" && ! test -t 0 && ! test -t 1 && ! test -t 2')

    process = start(*arguments([BUSYBOX], command), stdin=subprocess.PIPE)
    process.communicate(b"input of the evaluator\n", timeout=120)

    assert outcome(report()) == "passed"


def test_timeout_kills_container(clean_engine, evaluate):
    sleep = Sleep()
    stubborn = run_command(f"echo started; trap '' TERM INT; {sleep.command}", timeout=1)

    report = evaluate([BUSYBOX, "VOLUME /data"], stubborn, run_command("touch /data/x"))

    assert verdicts(report) == ["timeout", "passed"]
    assert report["error"] is None
    assert report["test_results"][0]["output"] == "started\n"
    assert sleep.processes() == set()


@pytest.mark.parametrize(("start_timeout", "status"), [(1, "failed"), (100, "passed")])
def test_slow_container_needs_start_timeout(
    clean_engine, evaluate, monkeypatch, start_timeout, status
):
    monkeypatch.setattr(de, "CREATE_TIMEOUT", 0.5)

    report = evaluate([BUSYBOX, SLOW_SHELL], TRUE, start_timeout=start_timeout)

    assert outcome(report) == status


def test_jobs_run_commands_in_parallel(clean_engine, evaluate, tmp_path):
    def meet(own, other):
        wait = f"until test -e /shared/{other}; do sleep 0.1; done"
        return run_command(f"touch /shared/{own}; {wait}", timeout=120)

    tests = [meet("a", "b"), meet("b", "a")]

    report = evaluate([BUSYBOX], *tests, jobs=2, run_options=[f"--volume={tmp_path}:/shared"])

    assert verdicts(report) == ["passed", "passed"]


def test_commands_run_one_at_a_time_by_default(clean_engine, evaluate, tmp_path):
    alone = run_command("mkdir /shared/lock && sleep 1 && rmdir /shared/lock")

    report = evaluate([BUSYBOX], *[alone] * 3, run_options=[f"--volume={tmp_path}:/shared"])

    assert verdicts(report) == ["passed"] * 3


@pytest.fixture
def users_things(engine):
    """Make an image and a container with similar names as those of the evaluator."""
    image, container = "dockerfile-evaluator:users", "dockerfile-evaluator-users-1"
    docker("tag", "busybox:stable", image)
    docker("run", "--detach", "--name", container, "busybox:stable", "sleep", "600")
    yield
    docker("rm", "--force", container)
    docker("image", "rm", image)


@pytest.mark.image_store
def test_parallel_evaluations_do_not_affect_each_other_or_others(
    engine, builder, users_things, tmp_path, rubric
):
    """Two of the same Dockerfile, two others."""
    before = census()
    path = rubric(TRUE, ("file_contains", {"path": "/file", "contains": ["content 0"]}))
    files = []
    for at, content in enumerate((0, 0, 2, 3)):
        files.append(tmp_path / f"{at}" / "Dockerfile")
        files[-1].parent.mkdir()
        files[-1].write_text(f"{BUSYBOX}\nRUN echo content {content} >/file\n")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda file: de.evaluate(str(file), "r", path), files))

    assert census() == before
    assert [report["error"] for report in reports] == [None] * 4
    assert [verdicts(report) for report in reports] == [
        ["passed", "passed"],
        ["passed", "passed"],
        ["passed", "failed"],
        ["passed", "failed"],
    ]


# Options


def test_run_options_of_command_line_and_rubric_apply(clean_engine, evaluate):
    command = "echo $GIVEN; ls /sys/class/net; df -k /dev/shm | tail -n 1"
    params = {"command": command, "contains": ["yes\nlo\n", " 7168 "], "match": "all"}

    report = evaluate(
        [BUSYBOX],
        ("output_contains", params),
        top={"run_options": ["--shm-size=7m"]},
        run_options=["--env=GIVEN=yes", "--network=none"],
    )

    assert outcome(report) == "passed", report["test_results"][0]["output"]


@pytest.mark.image_store
def test_kept_image_repeats_failed_command(clean_engine, arguments, report, capfd):
    failing = run_command("""echo "it's $NAME"; exit 3""")

    code = de.main(arguments([BUSYBOX, "ENV NAME=value"], failing, more=["--keep-image"]))
    screen = capfd.readouterr().out
    (line,) = re.findall("^  (docker run --rm --entrypoint .*)$", screen, re.MULTILINE)
    repeated = subprocess.run(shlex.split(line), stdout=subprocess.PIPE)
    docker("image", "rm", report()["environment"]["kept_image"])

    assert code == 1
    assert repeated.returncode == 3
    assert repeated.stdout == b"it's value\n"


@pytest.mark.no_podman
def test_no_engine_quotes_docker(evaluate, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")

    report = evaluate([BUSYBOX], TRUE)

    assert outcome(report) == "engine"
    assert verdicts(report) == ["not_run"]
    assert "none.sock" in report["error"]["message"]


# Builds


def test_linked_dockerfile_builds(clean_engine, builder, dockerfile, rubric, tmp_path):
    path = dockerfile(BUSYBOX, "COPY file /")
    os.rename(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)
    Path(path).with_name("file").touch()

    report = de.evaluate(path, "r", rubric(files_exist("/file")))

    assert outcome(report) == "passed"


@pytest.mark.image_store
def test_failed_build_quotes_exit_code_and_error_line(engine, builder, evaluate):
    before = census()
    run = f"RUN echo {os.urandom(8).hex()}; echo 'E: no such package'; echo done; exit 130"

    report = evaluate([BUSYBOX, run], TRUE, FALSE)

    assert outcome(report) == "build"
    assert verdicts(report) == ["not_run", "not_run"]
    assert report["error"]["message"].endswith("130: E: no such package")
    assert "done" in report["build"]["log"]
    if builder == "buildkit":
        assert census() == before
    else:  # the legacy builder keeps untagged images, but --force-rm removes the container
        assert census()["containers"] == before["containers"]


def test_build_timeout_names_the_step(clean_engine, builder, evaluate):
    sleep = Sleep()

    report = evaluate([BUSYBOX, f"RUN {sleep.command}"], TRUE, build_timeout=8)

    kind, message = error_of(report)
    assert kind == "build_timeout"
    pattern = rf"the build timed out after 8 s in step '.*RUN {sleep.command}'"
    assert re.fullmatch(pattern, message), message
    # `podman build` itself may leave the process of its RUN.
    may_stay = "podman" in docker("--version")
    wait_for(
        lambda: (may_stay or not sleep.processes()) and not census()["containers"],
        what="for the engine to cancel the build",
    )


NEEDS_BUILDKIT = (
    "usage",
    "this Dockerfile needs BuildKit, and this docker has none (install docker-buildx)",
)
FOR_BUILDKIT = {
    # The legacy builder of docker 28 drops it.
    "here-document": [BUSYBOX, "RUN <<EOF", "true", "EOF"],
    "mount": [BUSYBOX, "RUN --mount=type=cache,target=/x true"],
    "chmod": [BUSYBOX, "COPY --chmod=755 Dockerfile /"],
    "platform": ["FROM --platform=$BUILDPLATFORM busybox:stable"],
}


@pytest.mark.no_podman
@pytest.mark.parametrize("lines", FOR_BUILDKIT.values(), ids=FOR_BUILDKIT)
def test_dockerfile_that_needs_buildkit_is_a_usage_error(engine, legacy, evaluate, lines):
    assert error_of(evaluate(lines, TRUE)) == NEEDS_BUILDKIT


@pytest.mark.no_podman
def test_link_needs_buildkit_unless_the_legacy_builder_ignores_it(clean_engine, legacy, evaluate):
    report = evaluate([BUSYBOX, "COPY --link Dockerfile /"], TRUE)

    if major_version("Server") > 20:
        assert outcome(report) == "passed"
    else:
        assert error_of(report) == NEEDS_BUILDKIT


@pytest.mark.no_buildx
def test_docker_buildkit_1_without_buildx_is_an_engine_error(clean_engine, evaluate, monkeypatch):
    if major_version("Client") < 23:
        pytest.skip("this docker needs no buildx")
    monkeypatch.setenv("DOCKER_BUILDKIT", "1")

    report = evaluate([BUSYBOX], TRUE)

    assert outcome(report) == "engine"
    assert verdicts(report) == ["not_run"]
    assert "buildx" in report["error"]["message"]


def test_missing_source_names_context_and_ignore_file(clean_engine, builder, dockerfile, rubric):
    path = dockerfile(BUSYBOX, "COPY missing /")
    context = os.path.dirname(path)
    Path(context, ".dockerignore").write_text("missing\n")

    report = de.evaluate(path, "r", rubric(TRUE))

    kind, message = error_of(report)
    assert kind == "build"
    assert message.endswith(
        f"(build context: {context}, without what {context}/.dockerignore excludes; "
        "select another with --context DIR)"
    )


# Interrupts


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["INT", "TERM", "HUP"]
)
def test_interrupted_test_leaves_nothing(clean_engine, start, arguments, report, number):
    sleep = Sleep()
    process = start(*arguments([BUSYBOX, "VOLUME /data"], {**TRUE, "id": "first"}, sleep.test()))
    sleep.wait()

    process.send_signal(number)
    code = process.wait(120)

    assert code == 128 + number
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
    assert outcome(report()) == "interrupted"
    assert verdicts(report()) == ["not_run"]
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

    report = evaluate([BUSYBOX, "LABEL of=next"], TRUE)

    assert outcome(report) == "passed"
    assert census() == before
    assert killed.processes() == set()
    assert living.processes()
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
