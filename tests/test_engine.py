"""The evaluator on a real engine: verdicts, options, builds, interrupts, and nothing left."""

import signal

import pytest
from cases import TRUE, run_command
from conftest import PROJECT, outcome, statuses
from engine import Sleep, census, docker, end, wait_for

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("engine")

BUSYBOX = "FROM busybox:stable"


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
EXAMPLES = sorted(file.stem for file in (PROJECT / "artifacts").glob("example*.dockerfile"))


@pytest.mark.release
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_passes_in_full_unless_it_is_flawed(networked_engine, monkeypatch, name):
    monkeypatch.chdir(PROJECT)
    before = census()

    report = de.evaluate(f"artifacts/{name}.dockerfile", name.replace("_flawed", ""))

    if name == "example_flawed":
        assert statuses(report) == FLAWED
    else:
        assert outcome(report) == "passed"
    assert census() == before


# Builds


def is_old():
    """Return whether this is an old docker, whose builder knows little."""
    return int(docker("version", "--format={{.Server.Version}}").split(".")[0]) < 23


SYNTAX = {  # what comes of it with docker 20.10, and with docker 23 or newer
    f"{BUSYBOX}\nARG V=v1\nLABEL a=${{V#v}}": "usage passed",
    f"{BUSYBOX}\nRUN <<EOF\ntrue\nEOF": "usage passed",
    f"{BUSYBOX}\nRUN cat << 'A-B' >/file\ntext \\\nA-B": "usage passed",
    f"{BUSYBOX}\nCOPY --link Dockerfile /": "usage passed",
    f"{BUSYBOX}\nCOPY --invented Dockerfile /": "build build",
    f"{BUSYBOX}\nRUN --link true": "build build",
}


@pytest.mark.no_podman
@pytest.mark.parametrize("text", SYNTAX)
def test_syntax_that_the_builder_does_not_know_is_a_usage_error(engine, evaluate, text):
    of_old, of_new = SYNTAX[text].split()

    report = evaluate(text.split("\n"), TRUE)

    assert outcome(report) == (of_old if is_old() else of_new)


# Interrupts


@pytest.mark.parametrize(("where", "number"), [("test", signal.SIGTERM), ("build", signal.SIGINT)])
def test_interrupted_evaluation_leaves_nothing(
    clean_engine, start, arguments, report, where, number
):
    sleep = Sleep()
    line = f"RUN {sleep.command}" if where == "build" else "VOLUME /data"
    process = start(*arguments([BUSYBOX, line], run_command(sleep.command, timeout=300)))
    sleep.wait()

    process.send_signal(number)

    assert process.wait(120) == 128 + number
    assert outcome(report()) == "interrupted"
    wait_for(lambda: not sleep.processes(), what="for the engine to cancel the build")


KILLED_IN = {"test": "VOLUME /data", "build": "RUN SLEEP; true"}


@pytest.mark.parametrize("where", KILLED_IN)
def test_next_run_removes_what_a_killed_run_has_left(
    clean_engine, start, arguments, evaluate, where
):
    sleep = Sleep()
    line = KILLED_IN[where].replace("SLEEP", sleep.command)
    process = start(*arguments([BUSYBOX, line], run_command(sleep.command, timeout=300)))
    sleep.wait()
    process.kill()
    process.wait()
    assert sleep.processes()
    if where == "build":
        end(sleep.processes())  # docker itself goes on with the build

    assert outcome(evaluate([BUSYBOX, "LABEL of=next"], TRUE)) == "passed"
    assert not sleep.processes()
