"""Who is at fault (section 4) on real engines: the Dockerfile, an option or others.

"build" and "failed" are the Dockerfile's faults; "registry", "usage" and "engine" give no score.
The tests run on private engines, which they may harm.
"""

import concurrent.futures
import os
import re
import signal
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from cases import TRUE, run_command, table
from conftest import outcome
from engine import FakeHub, Sleep, end, wait_for

import DockerfileEvaluator as de

BUSYBOX = "FROM busybox:stable"
DISK = 160  # MiB


@pytest.fixture(scope="module")
def private(private_engine, tmp_path_factory):
    """Return an engine whose registries are fake."""
    return private_engine(hub=FakeHub(tmp_path_factory.mktemp("hub")))


@pytest.fixture(autouse=True)
def on_private_engine(engine, private, monkeypatch):
    private.hub.behave("missing")
    monkeypatch.setenv("DOCKER_HOST", private.host)


@pytest.fixture
def hub(private, monkeypatch, tmp_path):
    """Run docker in the network of the registries, since the client requests their tokens."""
    private.hub.write_client(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return private.hub


@pytest.fixture
def expect(tmp_path, monkeypatch):
    """Evaluate the Dockerfiles of a text, three at a time, and expect the outcomes there.

    The control experiment, which other tests make, is taken for granted.
    """
    monkeypatch.setattr(de, "control_experiment", lambda *_, **__: "")
    monkeypatch.setattr(de, "NETWORK_PAUSE", 0.1)  # seconds

    def evaluate(dockerfile):
        file = Path(tempfile.mkdtemp(dir=tmp_path)) / "Dockerfile"
        file.write_text(dockerfile)
        return outcome(de.evaluate(str(file), "r", {"tests": [TRUE]}))

    def run(text):
        rows = re.findall(r"(?m)^ *(\w+): (.*)", text)
        expected = {lines.replace(r"\n", "\n"): kind for kind, lines in rows}
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            assert dict(zip(expected, pool.map(evaluate, expected))) == expected

    return run


# Registries

# By the behaviour of the registries (see FakeHub): who is at fault if there are no such images.
# Those of .example behave always as they are named.
PULLS = r"""
missing
    build: FROM node:20-slim
    build: FROM mcr.microsoft.com/x:8.0
    build: FROM missing.example/x
    build: FROM localhost:1/x
    registry: FROM limits.example/x
    registry: FROM hangs-up.example/x
    build: FROM busybox:stable\nCOPY --from=nginx:1 /a /b
    build: ARG BASE=nginx:1\nFROM ${BASE}
    build: # syntax=nginx:1\nFROM busybox:stable
    build: FROM busybox:stable\nRUN --mount=from=nginx:1,target=/x true
    # The first stage is not needed.
    passed: FROM hangs-up.example/x\nFROM busybox:stable
    build: FROM hangs-up.example/x\nFROM busybox:stable\nCOPY no-such /
    build: FROM limits.example/x\nFROM missing.example/x\nRUN true
    registry: FROM missing.example/x\nFROM limits.example/x\nRUN true
limits
    registry: FROM node:20-slim
    registry: FROM busybox:stable\nCOPY --from=nginx:1 /a /b
    registry: ARG BASE=nginx:1\nFROM ${BASE}
    registry: # syntax=nginx:1\nFROM busybox:stable
    registry: FROM busybox:stable\nRUN --mount=from=nginx:1,target=/x true
forbidden
    registry: FROM quay.io/x/y
hangs-up
    registry: FROM gcr.io/x/y
    registry: FROM public.ecr.aws/x/y
"""
PULLS = dict(re.findall(r"(?m)^(\S+)\n((?:    .*\n)+)", PULLS))


@pytest.mark.parametrize("how", PULLS)
def test_image_is_fault_of_dockerfile_only_if_its_registry_works(hub, expect, how):
    hub.behave(how)

    expect(PULLS[how])


# The Dockerfile's own faults

OFFLINE = r"""
# It looks like an id.
build: FROM aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
build: FROM busybox:stable AS a\nONBUILD RUN ["/nosuch"]\nFROM a
build: FROM busybox:stable \\nAS a\nFROM busybox:stable\nCOPY --from=a /no-such-file /
build: FROM scratch\nCOPY --from=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa /a /
build: FROM busybox:stable\nCOPY --from=busybox:stable /no-such-file /
build: FROM busybox:stable\nCOPY ["a\u000a#9 FROM x\u000a#9 ERROR: dial tcp", "/"]
build: FROM busybox:stable\nADD https://ghcr.io/x /
build: FROM busybox:stable\nADD http://127.0.0.1/x /
build: FROM busybox:stable\nRUN ["docker.io"]
build: FROM busybox:stable\nRUN kill -9 1; kill -9 $PPID; sh -c 'kill -9 $$'; exit $?
build: FROM busybox:stable\nWORKDIR /etc/passwd
build: FROM busybox:stable\nSHELL ["/no-such-shell"]\nRUN true
registry: FROM node:20-slim
registry: FROM registry.k8s.io/x
registry: FROM nobody-knows.example/x
"""  # noqa: E501


@pytest.mark.long("16 builds, most of them twice")
def test_no_registry_is_no_fault_of_the_dockerfile_but_what_it_does_itself_is(
    small_disk, monkeypatch, expect
):
    """The engine has no network."""
    monkeypatch.setenv("DOCKER_HOST", small_disk.host)

    expect(OFFLINE)


# The engine


@pytest.fixture(scope="module")
def small_disk(private_engine):
    """Return an engine with a small disk."""
    return private_engine(disk=DISK)


# What a build or a test writes on a disk with so many free MiB (0: all that there is).
# Last: the layer stays in the build cache for a while.
DISKS = r"""
full before -> engine
    build: RUN dd if=/dev/zero of=/large bs=1M count=20
    free: 8
filled by the failed step -> build
    build: RUN cat /dev/zero >/a
full for a test -> engine
    test: dd if=/dev/zero of=/large bs=1M count=20
    free: 8
filled by a test -> failed
    test: dd if=/dev/zero of=/large bs=1M
filled by a good step -> engine
    build: RUN head -c $(df -m /|awk 'END{print $(NF-2)-16}')m /dev/zero >/a\nRUN cat /dev/zero >/b
"""


@pytest.fixture
def fill_disk(small_disk):
    """Fill the small disk until some MiB are free; empty it at the end."""
    data = f"{small_disk.folder}/data"

    def available():
        return int(small_disk.inside("df", "--output=avail", "-m", data).split()[-1])

    def run(free):
        size = f"--length={available() - free}M"
        small_disk.inside("fallocate", size, f"{data}/filler")

    wait_for(lambda: available() > DISK * 3 / 4, what="for the engine to free its disk")
    yield run
    small_disk.inside("rm", "-f", f"{data}/filler")
    small_disk.docker("builder", "prune", "--all", "--force")


@table(DISKS, build="LABEL a=b", test="true", free=0)
def test_full_disk_is_an_engine_error_unless_the_failure_frees_it(
    small_disk, fill_disk, monkeypatch, evaluate, row
):
    monkeypatch.setattr(de, "LARGE", 32 * 1024 * 1024)
    monkeypatch.setenv("DOCKER_HOST", small_disk.host)
    if row.free:
        fill_disk(row.free)

    report = evaluate([BUSYBOX, *row.build.split(r"\n")], run_command(row.test, timeout=120))

    assert outcome(report) == row.then


# An engine that ends or hangs while a command runs


def harm(engine, sleep, how):
    if how == "freeze":
        engine.process.send_signal(signal.SIGSTOP)
    elif how == "stop":
        engine.stop()
    else:
        engine.kill()
    if how == "restart":
        end(sleep.processes())  # or the new engine waits for it
    if how in ("restart", "stop"):
        engine.start()


# What happens to an engine, one after the other, while a command runs in a build or a test. It may
# be lost for `wait` seconds.
ACCIDENTS = """
test: restart -> passed
test: restart restart -> engine
test: crash -> engine
    wait: 2
test: freeze -> engine
    wait: 2
build: restart -> passed
build: stop -> passed
build: crash -> engine
    wait: 2
build: freeze -> engine
    wait: 2
"""


@pytest.fixture
def harmed(private):
    """Return an engine to harm."""
    yield private
    private.process.send_signal(signal.SIGCONT)
    if private.process.poll() is not None:
        private.start()


@table(ACCIDENTS, wait=30.0)
def test_accident_is_no_fault_of_the_dockerfile(harmed, evaluate, row):
    place, accidents = row.when.split(": ")
    limit, sleep = 3 * row.wait, Sleep()
    # dockerd sends SIGTERM to a container, and waits for its end.
    command = f"trap 'exit 143' TERM; {sleep.command} & wait $!; true"
    lines = [BUSYBOX, *[f"RUN {command}"] * (place == "build")]
    slow = run_command("true" if place == "build" else command, timeout=limit)

    limits = {"RECOVERY_TIMEOUT": row.wait, "COMMAND_TIMEOUT": row.wait + 3, "CREATE_TIMEOUT": 2.0}
    options = {"build_timeout": limit, "start_timeout": limit}
    with mock.patch.multiple(de, **limits), concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(evaluate, lines, TRUE, slow, TRUE, **options)
        for how in accidents.split():
            sleep.wait()
            harm(harmed, sleep, how)
        wait_for(lambda: end(sleep.processes()) or done.done(), seconds=300)

    assert outcome(done.result()) == row.then
