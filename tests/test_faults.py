"""Who is at fault (section 4) on real engines: the Dockerfile, an option or others.

"build" and "failed" are the Dockerfile's faults; "registry", "usage" and "engine" give no score.
The tests run on private engines, which they may harm.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Callable, NamedTuple
from unittest import mock

import pytest
from cases import TRUE, files_exist, run_command
from conftest import PROGRAM, outcome
from engine import FakeHub, Sleep, end, wait_for

import DockerfileEvaluator as de

BUSYBOX = "FROM busybox:stable"
CHECK = files_exist("/bin/sh")
BOTH = ("legacy", "buildkit")
DISK = 160  # MiB


@pytest.fixture(scope="module")
def private(private_engine, tmp_path_factory):
    """Return an engine whose registries are fake."""
    return private_engine(hub=FakeHub(tmp_path_factory.mktemp("hub")))


@pytest.fixture(scope="module")
def mirrored(private_engine, tmp_path_factory):
    """Return an engine that asks a mirror before Docker Hub."""
    return private_engine(hub=FakeHub(tmp_path_factory.mktemp("hub")), mirror=True)


@pytest.fixture
def select(monkeypatch):
    """Select an engine."""
    return lambda engine: monkeypatch.setenv("DOCKER_HOST", engine.host)


@pytest.fixture(autouse=True)
def on_private_engine(engine, private, select):
    private.hub.behave("missing")
    select(private)


@pytest.fixture
def in_network_of(monkeypatch, tmp_path):
    """Run docker in the network of registries: with BuildKit the client requests their tokens.

    A test names its builder before this.
    """

    def enter(hub):
        hub.write_client(tmp_path)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        return hub

    return enter


@pytest.fixture
def hub(private, in_network_of):
    """Return the registries of the private engine."""
    return in_network_of(private.hub)


@pytest.fixture
def expect(tmp_path, rubric, monkeypatch):
    """Evaluate Dockerfiles, three at a time, and expect the same outcome of all.

    The control experiment, which other tests make, is taken for granted.
    """
    monkeypatch.setattr(de, "control_experiment", lambda *_, **__: "")
    monkeypatch.setattr(de, "NETWORK_PAUSE", 0.1)  # seconds
    path = rubric(TRUE)

    def evaluate(dockerfile):
        file = Path(tempfile.mkdtemp(dir=tmp_path)) / "Dockerfile"
        file.write_text(dockerfile)
        report = de.evaluate(str(file), "r", path)
        print(dockerfile, report["error"])
        return outcome(report)

    def run(expected, *dockerfiles):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            found = dict(zip(dockerfiles, pool.map(evaluate, dockerfiles)))
        assert found == dict.fromkeys(dockerfiles, expected)

    return run


def by_builder(rows):
    """Return the rows of a table as parameters, with each builder of a row."""
    cases = {f"{builder}: {row.when}": (builder, row) for row in rows for builder in row.builders}
    names = ("builder", "row")
    return pytest.mark.parametrize(names, cases.values(), indirect=["builder"], ids=cases)


# Registries


class Registries(NamedTuple):
    """How the registries behave (see FakeHub), and who is at fault if there are no such images.

    Those of .example behave always as they are named.
    """

    how: str
    registry: str = ""
    build: str = ""


REGISTRIES = [
    Registries(
        "missing",
        build="node:20-slim mcr.microsoft.com/x:8.0 missing.example/x nobody-knows.example/x"
        " refuses.example/x",
        registry="limits.example/x unavailable.example/x untrusted.example/x hangs-up.example/x",
    ),
    Registries("limits", registry="node:20-slim"),
    Registries("pull-limits", registry="mcr.microsoft.com/x"),
    Registries("forbidden", registry="quay.io/x/y"),
    Registries("hangs-up", registry="public.ecr.aws/x/y"),
    Registries("untrusted", registry="gcr.io/x/y"),
    Registries(
        "away",
        registry="node:20-slim registry.k8s.io/x nvcr.io/x/y nobody-knows.example/x",
        build="missing.example/x",
    ),
]


@pytest.mark.parametrize("row", REGISTRIES, ids=lambda row: row.how)
def test_image_is_fault_of_dockerfile_only_if_its_registry_works(builder, hub, expect, row):
    hub.behave(row.how)

    expect("registry", *(f"FROM {image}\nRUN true" for image in row.registry.split()))
    expect("build", *(f"FROM {image}\nRUN true" for image in row.build.split()))


OTHER_INSTRUCTIONS = [
    "FROM busybox:stable\nCOPY --from=nginx:1 /a /b",
    "ARG BASE=nginx:1\nFROM ${BASE}",
]
OF_BUILDKIT = [
    "# syntax=nginx:1\nFROM busybox:stable",
    "FROM busybox:stable\nRUN --mount=from=nginx:1,target=/x true",
]


def test_image_of_another_instruction_is_judged_like_that_of_from(builder, hub, expect):
    dockerfiles = OTHER_INSTRUCTIONS + (OF_BUILDKIT if builder == "buildkit" else [])

    expect("build", *dockerfiles)
    hub.behave("limits")
    expect("registry", *dockerfiles)


# The first stage is needed by the legacy builder alone
UNUSED_STAGE = [
    ("FROM unavailable.example/x\nFROM busybox:stable\nCOPY no-such /", "registry", "build"),
    ("FROM limits.example/x\nFROM busybox:stable\nCOPY unused.x /", "registry", "build"),
    ("FROM missing.example/x\nFROM limits.example/x\nRUN true", "build", "registry"),
    ("FROM limits.example/x\nFROM missing.example/x\nRUN true", "registry", "build"),
    ("FROM unavailable.example/x\nFROM busybox:stable", "registry", "passed"),
]


@pytest.mark.parametrize("row", UNUSED_STAGE, ids=lambda row: row[0].split()[1])
def test_image_that_does_not_explain_the_failure_is_not_blamed(builder, hub, expect, row):
    text, of_legacy, of_buildkit = row

    expect(of_legacy if builder == "legacy" else of_buildkit, text)


MIRRORS = [
    ("missing", "away", "registry"),
    ("forbidden", "missing", "build"),  # Docker Hub is asked after that
    ("forbidden", "limits", "registry"),
]


@pytest.mark.parametrize(("mirror", "hub_behind", "outcome"), MIRRORS)
def test_mirror_that_fails_gives_no_score(
    builder, mirrored, select, in_network_of, expect, mirror, hub_behind, outcome
):
    select(mirrored)
    in_network_of(mirrored.hub).behave(hub_behind, mirror=mirror)

    expect(outcome, "FROM node:20-slim")


def test_missing_credential_helper_gives_no_score(buildkit, hub, expect, monkeypatch, tmp_path):
    """The legacy builder asks without an account."""
    (tmp_path / "config.json").write_text('{"credsStore": "nowhere"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))

    expect("registry", "FROM node:20-slim")


# The Dockerfile's own faults

# What docker and its builders print for faults of others; for `printf`
PRINTED = [
    "ERROR: no space left on device",
    "toomanyrequests: You have reached your pull rate limit.",
    'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
    "Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?",
    "The command '/bin/sh -c true' returned a non-zero code: 137",
    r"#1 [internal] load build definition from Dockerfile\n#1 ERROR: no space left on device",
    r"#5 [2/2] FROM docker.io/x\n#5 ERROR: unexpected EOF",
    r"Sending build context to Docker daemon  2.048kB\nStep 1/1 : FROM busybox\nunexpected EOF",
    "ERROR: BuildKit is enabled but the buildx component is missing or broken.",
    r"unknown flag: --force-rm\nSee 'docker build --help'.",
    "Successfully built 0123456789ab",
    r"exporting to image\n#9 exporting layers",
    r"Step 9/9 : FROM x\nunexpected EOF",
    r"#1 [internal] load build context",
    r"#1 exporting to image",
]


def run_that_prints(then):
    """Return a RUN that prints lines on stdout and stderr, and then does something else."""
    text = "".join(rf"{line}\n" for line in PRINTED).replace("'", r"\047")
    return f"RUN printf '{text}' >&2; printf '{text}'; {then}"


OWN_FAULTS = [
    "",
    f"FROM {64 * 'a'}",  # looks like an id
    'FROM busybox:stable AS a\nONBUILD RUN ["/nosuch"]\nFROM a',
    "FROM busybox:stable \\\nAS first\nFROM busybox:stable\nCOPY --from=first /no-such-file /",
]
OWN_FAULTS_AFTER_FROM = [
    f"COPY --from={64 * 'a'} /a /b",
    "COPY --from=busybox:stable /no-such-file /",
    r'COPY ["a\nerror during connect", "/"]',
    r'COPY ["a\n#9 FROM x\n#9 ERROR: dial tcp", "/"]',
    "ADD https://ghcr.io/x /",
    "ADD http://127.0.0.1/x /",  # breaks off
    'RUN ["docker.io"]',
    r'RUN ["/bin/sh", "-c", "exit 3 #\nerror during connect: EOF"]',
    "RUN kill -9 1; kill -9 $PPID; sh -c 'kill -9 $$'; exit $?",
    "RUN echo 'Step 3/3 : FROM x'\nWORKDIR /etc/passwd",
    'SHELL ["/no-such-shell"]\nRUN true',
    run_that_prints(then="exit 1"),
    run_that_prints(then="sh -c 'kill -9 $$'; exit $?"),
    run_that_prints(then="true") + "\nFROM busybox:stable\nCOPY --from=0 /no-such-file /",
]


@pytest.mark.long("30 builds, most of them twice")
def test_own_faults_with_every_registry_away_are_failed_builds(builder, hub, expect):
    hub.behave("away")

    expect("build", *OWN_FAULTS)
    expect("build", *(f"{BUSYBOX}\n{text}" for text in OWN_FAULTS_AFTER_FROM))


# Options and context


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ("build_options", "--nonsense"),
        ("build_options", "--memory=1k"),
        ("run_options", "--nonsense"),
        ("run_options", "--network=no-such"),
    ],
)
def test_option_that_docker_refuses_is_a_usage_error(legacy, evaluate, options, option):
    lines = [BUSYBOX, f"RUN echo {os.urandom(8).hex()}"]  # which no cache has

    assert outcome(evaluate(lines, TRUE, **{options: [option]})) == "usage"


def test_unreadable_context_is_a_usage_error(builder, arguments, report, tmp_path):
    words = arguments([BUSYBOX, "COPY . /copied"], TRUE)
    (tmp_path / "context" / "secret").mkdir(mode=0)
    # root without the right to read all files
    unprivileged = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]

    subprocess.run([*unprivileged, *PROGRAM, *words])

    assert outcome(report()) == "usage"


# The engine


@pytest.fixture
def without_bridge(private):
    """Delete the bridge: the engine builds images, but no container gets a network."""
    for change in ("down", "name hidden"):
        private.inside("ip", "link", "set", "docker0", *change.split())
    yield
    private.inside("ip", "link", "set", "hidden", "name", "docker0")
    private.inside("ip", "link", "set", "docker0", "up")


@pytest.mark.parametrize("instruction", ["RUN", "LABEL"], ids=["build", "test"])
def test_no_bridge_for_a_build_or_a_test_is_an_engine_error(
    builder, without_bridge, evaluate, instruction
):
    lines = [BUSYBOX, f"{instruction} a={os.urandom(8).hex()}"]

    assert outcome(evaluate(lines, TRUE)) == "engine"


@pytest.fixture(scope="module")
def small_disk(private_engine):
    """Return an engine with a small disk."""
    return private_engine(disk=DISK)


class Disk(NamedTuple):
    """What a build or a test writes on a disk, and what comes of it."""

    when: str
    outcome: str
    build: str = "LABEL a=b"
    test: str = "true"
    free: int = 0  # MiB; 0: all that there is
    builders: tuple = ("legacy",)


WRITES_20 = "dd if=/dev/zero of=/large bs=1M count=20"
FILLS = "dd if=/dev/zero of=/large bs=1M"
LEAVES_16 = f"{FILLS} count=$(($(df -m / | awk 'END {{print $(NF-2)}}') - 16))"
DISKS = [
    Disk("full before", "engine", build=f"RUN {WRITES_20}", free=8, builders=BOTH),
    Disk("filled by the failed step", "build", build=f"RUN {FILLS}", builders=BOTH),
    Disk("full for a test", "engine", test=WRITES_20, free=8),
    Disk("filled by a test", "failed", test=FILLS),
    # Last: the layer stays in the build cache for a while. The legacy builder needs twice its size.
    Disk(
        "filled by a good step",
        "engine",
        build=f"RUN {LEAVES_16}\nRUN dd if=/dev/zero of=/more bs=1M",
        builders=("buildkit",),
    ),
]


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


@by_builder(DISKS)
def test_full_disk_is_an_engine_error_unless_the_failure_frees_it(
    builder, small_disk, fill_disk, select, monkeypatch, evaluate, row
):
    monkeypatch.setattr(de, "LARGE", 32 * 1024 * 1024)
    select(small_disk)
    if row.free:
        fill_disk(row.free)

    report = evaluate([BUSYBOX, row.build], run_command(row.test, timeout=120))

    assert outcome(report) == row.outcome


# An engine that ends or hangs while a command runs


def crash(engine, sleep):
    engine.kill()


def freeze(engine, sleep):
    engine.process.send_signal(signal.SIGSTOP)


def restart(engine, sleep):
    engine.kill()
    end(sleep.processes())  # or the new engine waits for it
    engine.start()


def stop_and_start(engine, sleep):
    engine.stop()
    engine.start()


class Accident(NamedTuple):
    """What happens while a command runs in a build or a test, how often, and what comes of it."""

    when: str
    harm: Callable
    outcome: str
    times: int = 1
    wait: float = 30.0  # seconds, for an engine that is lost
    builders: tuple = ("legacy",)


ACCIDENTS = [
    Accident("test, restart", restart, "passed"),
    Accident("test, two restarts", restart, "engine", times=2),
    Accident("test, crash", crash, "engine", wait=2.0),
    Accident("test, freeze", freeze, "engine", wait=2.0),
    Accident("build, restart", restart, "passed", builders=("buildkit",)),
    Accident("build, stop", stop_and_start, "passed"),
    Accident("build, crash", crash, "engine", wait=2.0),
    Accident("build, freeze", freeze, "engine", wait=2.0, builders=("buildkit",)),
]


@pytest.fixture
def harmed(private):
    """Return an engine to harm; an evaluation removes what the one before it has left there."""

    def all_that_is_left():
        images = private.docker("image", "ls", "--format={{.Tag}}", "dockerfile-evaluator")
        names = ["--filter=name=dockerfile-evaluator", "--format={{.Names}}"]
        return set((images + private.docker("ps", "--all", *names)).split())

    left_before = all_that_is_left()
    yield private
    private.process.send_signal(signal.SIGCONT)
    if private.process.poll() is not None:
        private.start()
    assert not left_before & all_that_is_left()


@contextlib.contextmanager
def lost_after(seconds):
    """Limit the time for an engine that is lost."""
    limits = {"RECOVERY_TIMEOUT": seconds, "COMMAND_TIMEOUT": seconds + 3, "CREATE_TIMEOUT": 2.0}
    with mock.patch.multiple(de, **limits):
        yield


@by_builder(ACCIDENTS)
def test_accident_is_no_fault_of_the_dockerfile(harmed, builder, evaluate, row):
    limit = 3 * row.wait
    sleep = Sleep()
    lines, tests = [BUSYBOX, "LABEL of=this"], [TRUE, TRUE]
    if row.when.startswith("build"):
        # dockerd sends SIGTERM to a container, and waits for its end.
        lines.append(f"RUN trap 'exit 143' TERM; {sleep.command} & wait $!; true")
    else:
        tests.insert(1, run_command(f"{sleep.command}; true", timeout=limit))

    with lost_after(row.wait), concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(evaluate, lines, *tests, build_timeout=limit, start_timeout=limit)
        for _ in range(row.times):
            sleep.wait()
            row.harm(harmed, sleep)
        wait_for(lambda: end(sleep.processes()) or done.done(), seconds=300)

    report = done.result()
    assert outcome(report) == row.outcome
    assert lines[-1] in report["build"]["log"]


@pytest.mark.release
def test_image_whose_containers_block_their_engine_fails(private_engine, select, legacy, evaluate):
    """The engine opens /etc/passwd at each start, and gives no answer about that container."""
    blocked = private_engine()
    select(blocked)
    line = "RUN rm /etc/passwd && mkfifo /etc/passwd"

    with lost_after(6.0):  # seconds, in which the control experiment must succeed
        report = evaluate([BUSYBOX, line], TRUE, start_timeout=4)
    blocked.kill()

    assert outcome(report) == "failed"
    assert any("not removed" in warning for warning in report["warnings"])
