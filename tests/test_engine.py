"""The evaluator on a real engine: verdicts, options, builds, interrupts, and nothing left."""

import itertools
import signal

import pytest
from cases import TRUE, run_command, table
from conftest import PROJECT, outcome, statuses
from engine import Sleep, census, docker, end, wait_for

import DockerfileEvaluator as de

pytestmark = pytest.mark.usefixtures("engine")

BUSYBOX = "FROM busybox:stable"


# Verdicts


FLAWED = """
java_command passed build_commands failed java_home failed java_version passed project_files passed
project_folders failed greeting_configured skipped compiles skipped greets skipped
ready_at_once timeout
"""
EXAMPLES = sorted(file.stem for file in (PROJECT / "artifacts").glob("example*.dockerfile"))


@pytest.mark.release
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_passes_in_full_unless_it_is_flawed(networked_engine, monkeypatch, name):
    monkeypatch.chdir(PROJECT)
    before = census()

    report = de.evaluate(f"artifacts/{name}.dockerfile", name.replace("_flawed", ""))

    if name == "example_flawed":
        assert [*itertools.chain(*statuses(report).items())] == FLAWED.split()
    else:
        assert outcome(report) == "passed"
    assert census() == before


# Builds


# What comes of it with docker 20.10, and with docker 23 or newer
SYNTAX = r"""
ARG V=v1\nLABEL a=${V#v} -> usage passed
RUN <<EOF\ntrue\nEOF -> usage passed
RUN cat << 'A-B' >/file\ntext \\nA-B -> usage passed
COPY --link Dockerfile / -> usage passed
COPY --invented Dockerfile / -> build build
RUN --link true -> build build
"""


@pytest.mark.no_podman
@table(SYNTAX)
def test_syntax_that_the_builder_does_not_know_is_a_usage_error(engine, evaluate, row):
    version = docker("version", "--format={{.Server.Version}}")
    of_old, of_new = row.then.split()

    report = evaluate([BUSYBOX, *row.when.split(r"\n")], TRUE)

    assert outcome(report) == (of_old if int(version.split(".")[0]) < 23 else of_new)


# Interrupts


@pytest.fixture(params=["test", "build"])
def running(request, clean_engine, start, arguments):
    """Start an evaluation; return where it sleeps, the `sleep` and the process."""
    sleep = Sleep()
    lines = {"test": "VOLUME /data", "build": f"RUN {sleep.command}; true"}
    test = run_command(sleep.command, timeout=300)
    process = start(*arguments([BUSYBOX, lines[request.param]], test))
    sleep.wait()
    return request.param, sleep, process


def test_interrupted_evaluation_leaves_nothing(running, report):
    _, sleep, process = running

    process.terminate()

    assert process.wait(120) == 128 + signal.SIGTERM
    assert outcome(report()) == "interrupted"
    wait_for(lambda: not sleep.processes(), what="for the engine to cancel the build")


def test_next_run_removes_what_a_killed_run_has_left(running, evaluate):
    where, sleep, process = running
    process.kill()
    process.wait()
    assert sleep.processes()
    if where == "build":
        end(sleep.processes())  # docker itself goes on with the build

    assert outcome(evaluate([BUSYBOX, "LABEL of=next"], TRUE)) == "passed"
    assert not sleep.processes()
