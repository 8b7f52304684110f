"""Who is at fault (CONTRACT, section 4) on real engines: the Dockerfile, an option or others.

"build" and "failed" are the Dockerfile's faults; "registry", "usage" and "engine" give no score.
The tests run on private engines, which they may harm.
"""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import signal
import subprocess
import time
from typing import Callable, NamedTuple

import pytest
from cases import TRUE, files_exist, run_command
from conftest import PROGRAM, outcome
from engine import FakeHub, PrivateEngine, Sleep, docker_children, end, wait_for

import DockerfileEvaluator as de

BUSYBOX = "FROM busybox:stable"
FIRST, AFTER = ({**TRUE, "id": name} for name in ("first", "after"))
CHECK = {**files_exist("/bin/sh"), "id": "check"}
BUILDERS = ("legacy", "buildkit")
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
def in_network_of(builder, monkeypatch, tmp_path):
    """Run docker in the network of registries: with BuildKit the client requests their tokens."""

    def enter(hub):
        (tmp_path / "client").mkdir()
        hub.client(tmp_path / "client" / "docker", shutil.which("docker"))
        monkeypatch.setenv("PATH", f"{tmp_path}/client{os.pathsep}{os.environ['PATH']}")
        return hub

    return enter


@pytest.fixture
def hub(private, in_network_of):
    """Return the registries of the private engine."""
    return in_network_of(private.hub)


@pytest.fixture
def outcomes(tmp_path, rubric, monkeypatch):
    """Evaluate Dockerfiles (lines by a name), three at a time; return their outcomes by name.

    The control experiment, which other tests make, is taken for granted.
    """
    monkeypatch.setattr(de, "control_experiment", lambda *_, **__: "")

    def evaluate(dockerfiles):
        path = rubric(FIRST)

        def one(number, lines):
            folder = tmp_path / f"context-{number}"
            folder.mkdir()
            (folder / "Dockerfile").write_text("".join(f"{line}\n" for line in lines))
            report = de.evaluate(str(folder / "Dockerfile"), "r", path)
            print(lines, report["error"])
            return outcome(report)

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            found = pool.map(one, range(len(dockerfiles)), dockerfiles.values())
            return dict(zip(dockerfiles, found))

    return evaluate


def by_builder(rows):
    """Return the rows of a table as parameters, with each builder of a row.

    A row with a `bug` is known to have a wrong verdict.
    """
    parameters = []
    for row in rows:
        words = [getattr(word, "__name__", str(word)) for word in row[:3]]
        marks = [pytest.mark.xfail(strict=True, reason=row.bug)] if row.bug else []
        for builder in row.builders:
            name = " ".join([builder, *words])[:60]
            parameters.append(pytest.param(builder, row, id=name, marks=marks))
    return pytest.mark.parametrize(("builder", "row"), parameters, indirect=["builder"])


# Registries


class Situation(NamedTuple):
    """How the registries behave (see FakeHub), and for which images who is at fault.

    Those of .example behave always as they are named.
    """

    how: str
    registry: str = ""
    build: str = ""
    builders: tuple[str, ...] = BUILDERS
    bug: str = ""


OF_EACH = (
    "node:20-slim ghcr.io/x/y quay.io/x/y gcr.io/x/y mcr.microsoft.com/x:8.0 nvcr.io/x/y:12"
    " public.ecr.aws/x/y registry.k8s.io/no-such missing.example/x nobody-knows.example/x"
    " refuses.example/x"
)
SITUATIONS = [
    Situation(
        "missing",
        build=OF_EACH,
        registry="limits.example/x unavailable.example/x untrusted.example/x hangs-up.example/x",
    ),
    Situation("limits", registry="node:20-slim ghcr.io/x/y"),
    Situation("pull-limits", registry="node:20-slim ghcr.io/x/y"),
    Situation("unavailable", registry="node:20-slim mcr.microsoft.com/x nvcr.io/x/y"),
    Situation("authentication", registry="node:20-slim quay.io/x/y"),
    Situation("forbidden", registry="node:20-slim ghcr.io/x/y"),
    Situation("hangs-up", registry="node:20-slim public.ecr.aws/x/y"),
    Situation("untrusted", registry="node:20-slim gcr.io/x/y"),
    Situation("refuses", registry="node:20-slim refuses.example/x"),
    Situation(
        "away",
        registry="node:20-slim registry.k8s.io/x nobody-knows.example/x",
        build="missing.example/x",
    ),
]


@by_builder(SITUATIONS)
def test_image_is_fault_of_dockerfile_only_if_its_registry_works(builder, hub, outcomes, row):
    hub.behave(row.how)
    images = [*row.registry.split(), *row.build.split()]

    found = outcomes({image: [f"FROM {image}", "RUN true"] for image in images})

    assert {image for image in images if found[image] == "registry"} == set(row.registry.split())
    assert {image for image in images if found[image] == "build"} == set(row.build.split())


def test_control_image_that_was_not_there_is_removed(builder, hub, private, outcomes):
    hub.behave("missing")
    before = private.docker("images", "--quiet")

    assert outcomes({"FROM": ["FROM no-such"]}) == {"FROM": "build"}
    assert private.docker("images", "--quiet") == before


@pytest.mark.parametrize("how", ["authentication", "pull-limits"])
def test_control_image_that_was_there_proves_nothing_and_stays(hub, private, outcomes, how):
    private.docker("pull", "--quiet", "hello-world")
    hub.behave(how)

    assert outcomes({"FROM": ["FROM node:20-slim"]}) == {"FROM": "registry"}
    private.docker("image", "rm", "hello-world")  # fails if it is not there


OF_BOTH = (
    f"{BUSYBOX}; COPY --from=IMAGE /a /b",
    f"{BUSYBOX}; RUN true; FROM IMAGE",
    "ARG BASE=IMAGE; FROM ${BASE}",
)
OF_BUILDKIT = (
    f"# syntax=IMAGE; {BUSYBOX}",
    f"{BUSYBOX}; RUN --mount=from=IMAGE,target=/x true",
)


class Other(NamedTuple):
    """An image of another instruction, how Docker Hub behaves, and who is at fault."""

    image: str
    hub: str
    fault: str
    dockerfiles: tuple[str, ...] = OF_BOTH
    builders: tuple[str, ...] = BUILDERS
    bug: str = ""


OTHERS = [
    Other("nginx:1", "unavailable", "registry"),
    Other("nginx:1", "missing", "build"),
    Other("nginx:1", "unavailable", "registry", OF_BUILDKIT, ("buildkit",)),
    Other("nginx:1", "missing", "build", OF_BUILDKIT, ("buildkit",)),
    Other(
        "nobody-knows.example/x",
        "missing",
        "build",
        OF_BOTH[2:],
        ("legacy",),
        bug="registry_of() takes a variable for an image of Docker Hub",
    ),
]


@by_builder(OTHERS)
def test_image_of_another_instruction_is_judged_like_that_of_from(builder, hub, outcomes, row):
    hub.behave(row.hub)

    found = outcomes(
        {text: text.replace("IMAGE", row.image).split("; ") for text in row.dockerfiles}
    )

    assert found == dict.fromkeys(row.dockerfiles, row.fault)


@pytest.fixture(scope="module")
def mirrored(private_engine, tmp_path_factory):
    """Return an engine that asks a mirror before Docker Hub."""
    return private_engine(hub=FakeHub(tmp_path_factory.mktemp("hub")), mirror=True)


class Mirror(NamedTuple):
    """How a mirror of Docker Hub behaves, and whose fault it is that there is no image."""

    how: str
    fault: str
    hub: str = "missing"
    builders: tuple[str, ...] = BUILDERS
    bug: str = ""


MIRRORS = [
    Mirror("missing", fault="build"),
    Mirror("missing", hub="away", fault="registry"),
    Mirror("limits", hub="away", fault="registry"),
    Mirror("forbidden", fault="build"),  # Docker Hub is asked after that
    Mirror("forbidden", hub="limits", fault="registry"),
]


@by_builder(MIRRORS)
def test_mirror_that_fails_gives_no_score(
    mirrored, builder, in_network_of, outcomes, monkeypatch, row
):
    in_network_of(mirrored.hub)
    mirrored.hub.behave(row.hub, mirror=row.how)
    monkeypatch.setenv("DOCKER_HOST", mirrored.host)

    assert outcomes({"FROM": ["FROM node:20-slim"]}) == {"FROM": row.fault}


def test_missing_credential_helper_gives_no_score(hub, buildkit, outcomes, monkeypatch, tmp_path):
    """The legacy builder asks without an account."""
    (tmp_path / "config.json").write_text('{"credsStore": "nowhere"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))

    assert outcomes({"FROM": ["FROM node:20-slim"]}) == {"FROM": "registry"}


def test_offline_a_missing_image_is_fault_of_dockerfile(hub, evaluate):
    hub.behave("away")

    report = evaluate(["FROM node:20-slim"], FIRST, offline=True)

    assert outcome(report) == "build"


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
]


def run_that_prints(then):
    """Return a RUN that prints lines on stdout and stderr, and then does something else."""
    text = "".join(rf"{line}\n" for line in PRINTED).replace("'", r"\047")
    return f"RUN printf '{text}' >&2; printf '{text}'; {then}"


OWN_FAULTS = {
    "empty": [],
    # FROM
    "capital letter": ["FROM Ubuntu"],
    "looks like an id": [f"FROM {64 * 'a'}"],
    "long name": [f"FROM {300 * 'a'}"],
    "ONBUILD WORKDIR": [f"{BUSYBOX} AS a", "ONBUILD WORKDIR /etc/passwd", "FROM a"],
    "ONBUILD RUN": [f"{BUSYBOX} AS a", 'ONBUILD RUN ["/nosuch"]', "FROM a"],
    "name of a stage on a line of its own": [
        f"{BUSYBOX} \\",
        "AS first",
        BUSYBOX,
        "COPY --from=first /no-such-file /",
    ],
    # COPY and ADD
    "COPY from what looks like an id": [BUSYBOX, f"COPY --from={64 * 'a'} /a /b"],
    "COPY from a file as a folder": [BUSYBOX, "COPY Dockerfile/x /"],
    "COPY by a pattern from a file as a folder": [BUSYBOX, "COPY Dockerfile/* /"],
    "COPY of a missing file of an image": [BUSYBOX, "COPY --from=busybox:stable /no-such-file /"],
    "COPY of the name of docker's error": [BUSYBOX, r'COPY ["a\nerror during connect", "/"]'],
    "COPY of the name of BuildKit's error": [
        BUSYBOX,
        r'COPY ["a\n#9 FROM x\n#9 ERROR: dial tcp", "/"]',
    ],
    "ADD from a registry": [BUSYBOX, "ADD https://ghcr.io/x /"],
    "ADD of what breaks off": [BUSYBOX, "ADD http://127.0.0.1/x /"],  # unexpected EOF
    # RUN and others
    "program named like a registry": [BUSYBOX, 'RUN ["docker.io"]'],
    "command with docker's error": [
        BUSYBOX,
        r'RUN ["/bin/sh", "-c", "exit 3 #\nerror during connect: EOF"]',
    ],
    "command that kills": [BUSYBOX, "RUN kill -9 1; kill -9 $PPID; sh -c 'kill -9 $$'; exit $?"],
    "command that prints a step": [BUSYBOX, "RUN echo 'Step 3/3 : FROM x'", "WORKDIR /etc/passwd"],
    "command that prints errors and fails": [BUSYBOX, run_that_prints(then="exit 1")],
    "command that prints errors and is killed": [
        BUSYBOX,
        run_that_prints(then="sh -c 'kill -9 $$'; exit $?"),
    ],
    "command that prints errors before a failing COPY": [
        BUSYBOX,
        run_that_prints(then="true"),
        BUSYBOX,
        "COPY --from=0 /no-such-file /",
    ],
    "workdir in a file": [BUSYBOX, "RUN touch /file", "WORKDIR /file/folder", "RUN true"],
    "no shell": [BUSYBOX, 'SHELL ["/no-such-shell"]', "RUN true"],
    "unknown signal": [BUSYBOX, "STOPSIGNAL NONSENSE"],
}


@pytest.mark.long("30 builds, most of them twice")
def test_own_faults_with_every_registry_away_are_failed_builds(hub, outcomes):
    hub.behave("away")

    found = outcomes(OWN_FAULTS)

    assert found == dict.fromkeys(OWN_FAULTS, "build")


def test_what_a_build_prints_changes_no_verdict(hub, evaluate):
    report = evaluate([BUSYBOX, run_that_prints(then="true")], FIRST)

    assert outcome(report) == "passed"


# Options and context

OPTIONS = [
    *(("build", option) for option in ("--nonsense", "--network=no-such", "--memory=1k")),
    *(("run", option) for option in ("--nonsense", "--network=no-such", "--memory=1k")),
    ("run", "--device=/no/such"),
]


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_option_that_docker_refuses_is_a_usage_error(legacy, evaluate, command, option):
    lines = [BUSYBOX, f"RUN echo {os.urandom(8).hex()}"]

    report = evaluate(lines, FIRST, **{f"{command}_options": [option]})

    assert outcome(report) == "usage"


@pytest.mark.parametrize("option", ["--user=no-such", "--group-add=no-such", "--workdir=/bin/sh/x"])
def test_option_that_this_image_cannot_have_fails_tests(legacy, evaluate, option):
    report = evaluate([BUSYBOX], FIRST, CHECK, run_options=[option])

    assert outcome(report) == "failed"


def test_unreadable_context_is_a_usage_error(builder, arguments, report, tmp_path):
    words = arguments([BUSYBOX, "COPY . /copied"], FIRST)
    (tmp_path / "context" / "secret").mkdir(mode=0)
    # root without the right to read all files
    unprivileged = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]

    done = subprocess.run([*unprivileged, *PROGRAM, *words])

    assert done.returncode == 1
    assert outcome(report()) == "usage"
    assert "secret" in report()["error"]["message"]


# The engine


@pytest.fixture
def without_bridge(private):
    """Delete the bridge: the engine builds images, but no container gets a network."""
    private.inside("ip", "link", "set", "docker0", "down")
    private.inside("ip", "link", "set", "docker0", "name", "hidden")
    yield
    private.inside("ip", "link", "set", "hidden", "name", "docker0")
    private.inside("ip", "link", "set", "docker0", "up")


@pytest.mark.parametrize("line", ["RUN random", "LABEL random"])
def test_no_bridge_for_a_build_or_a_test_is_an_engine_error(
    builder, without_bridge, evaluate, line
):
    report = evaluate([BUSYBOX, line.replace("random", f"a={os.urandom(8).hex()}")], FIRST)

    assert outcome(report) == "engine"


@pytest.fixture(scope="module")
def small_disk(private_engine):
    """Return an engine with a data root of DISK MiB."""
    return private_engine(disk=DISK)


def write(count):
    return f"dd if=/dev/zero of=/large bs=1M count={count}"


ALL_BUT_16_MIB = "$(($(df -m / | awk 'END {print $(NF-2)}') - 16))"


class Disk(NamedTuple):
    """What a build or a test writes on a disk, and what comes of it."""

    when: str
    outcome: str
    lines: tuple[str, ...] = ()
    command: str = "true"
    builders: tuple[str, ...] = ("legacy",)
    free: int = DISK  # MiB
    bug: str = ""


DISKS = [
    Disk("full before", "engine", (f"RUN {write(20)}",), free=8, builders=BUILDERS),
    Disk("filled by the failed step", "build", (f"RUN {write(2 * DISK)}",), builders=BUILDERS),
    Disk("full for a test", "engine", command=write(20), free=8),
    Disk("filled by a test", "failed", command=write(2 * DISK)),
    # Last: the layer stays in the build cache for a while. The legacy builder needs twice its size.
    Disk(
        "filled by a good step",
        "engine",
        (f"RUN {write(ALL_BUT_16_MIB)}", "RUN dd if=/dev/zero of=/more bs=1M"),
        builders=("buildkit",),
    ),
]


@pytest.fixture
def fill_disk(small_disk):
    """Fill the small disk until some MiB are free; empty it at the end."""
    data = f"{small_disk.folder}/data"

    def used():
        return int(small_disk.inside("df", "--output=used", "-m", data).split()[-1])

    def run(free):
        size = max(DISK - used() - free, 1)
        small_disk.inside("fallocate", "--length", f"{size}M", f"{data}/filler")

    wait_for(lambda: used() < DISK / 4, what="for the engine to free its disk")
    yield run
    small_disk.inside("rm", f"{data}/filler")
    small_disk.docker("builder", "prune", "--all", "--force")


@by_builder(DISKS)
def test_full_disk_is_an_engine_error_unless_the_failure_frees_it(
    builder, small_disk, fill_disk, monkeypatch, evaluate, row
):
    monkeypatch.setattr(de, "LARGE", 32 * 1024 * 1024)
    monkeypatch.setenv("DOCKER_HOST", small_disk.host)
    fill_disk(row.free)

    report = evaluate([BUSYBOX, *row.lines], run_command(row.command, timeout=120))

    assert outcome(report) == row.outcome


# An engine or a docker program that ends while a command runs


def evaluate_with(harm, times, sleep, evaluate):
    """Evaluate; call `harm` the first `times` times that a command runs, and end it after that."""
    seen = set()

    def new_processes():
        return sleep.processes() - seen

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        report = pool.submit(evaluate)
        for _ in range(times):
            seen.update(wait_for(new_processes, what="for the command"))
            harm()
        while not report.done():
            end(sleep.processes())
            time.sleep(0.05)
    return report.result()


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


def kill_docker(engine, sleep):
    end(docker_children())


def remove_image(engine, sleep):
    template = "--format={{.Repository}}:{{.Tag}}"
    tag = engine.docker("image", "ls", template, "dockerfile-evaluator").strip()
    engine.docker("image", "rm", "--force", tag)
    kill_docker(engine, sleep)


class Accident(NamedTuple):
    """What happens while a command runs in a build or a test, how often, and what comes of it."""

    where: str
    harm: Callable[[PrivateEngine, Sleep], object]
    times: int
    outcome: str
    builders: tuple[str, ...] = ("legacy",)
    wait: float = 60.0  # seconds, for an engine that is lost
    bug: str = ""


ACCIDENTS = [
    Accident("test", restart, 1, "passed"),
    Accident("test", restart, 2, "engine"),
    Accident("test", stop_and_start, 1, "passed"),
    Accident("test", kill_docker, 1, "passed"),
    Accident("test", kill_docker, 2, "engine"),
    Accident("test", remove_image, 1, "engine"),
    Accident("test", crash, 1, "engine", wait=2.0),
    Accident("test", freeze, 1, "engine", wait=2.0),
    Accident(
        "last test",
        freeze,
        1,
        "engine",
        wait=2.0,
        bug="a test has timed out, and the engine is not asked whether it answers",
    ),
    Accident("build", restart, 1, "passed", ("buildkit",)),
    Accident(
        "build",
        restart,
        2,
        "engine",
        BUILDERS,
        bug="section 8: what hits one Dockerfile twice, and no experiment, is a zero",
    ),
    Accident("build", stop_and_start, 1, "passed"),
    Accident("build", kill_docker, 1, "passed"),
    Accident("build", kill_docker, 2, "engine", ("buildkit",)),
    Accident("build", crash, 1, "engine", BUILDERS, wait=2.0),
    Accident("build", freeze, 1, "engine", BUILDERS, wait=2.0),
]


@pytest.fixture
def harmed(private, evaluate):
    """Return an engine to harm; the next evaluation removes what the test has left."""
    yield private
    private.process.send_signal(signal.SIGCONT)
    if private.process.poll() is not None:
        private.start()
    assert outcome(evaluate([BUSYBOX], FIRST)) == "passed"
    assert private.docker("image", "ls", "--quiet", "dockerfile-evaluator") == ""
    assert private.docker("ps", "--all", "--quiet", "--filter", "name=dockerfile-evaluator") == ""


@pytest.fixture
def waiting():
    """Limit the time for an engine that is lost, until the test ends; after `harmed`."""
    with pytest.MonkeyPatch.context() as patch:

        def limit(seconds):
            for name in ("RECOVERY_TIMEOUT", "CREATE_TIMEOUT", "END_TIMEOUT"):
                patch.setattr(de, name, min(seconds, getattr(de, name)))
            patch.setitem(de.Docker.call.__kwdefaults__, "timeout", min(seconds + 3, 20.0))

        yield limit


@by_builder(ACCIDENTS)
def test_accident_is_no_fault_of_the_dockerfile(harmed, waiting, builder, evaluate, row):
    waiting(row.wait)
    sleep = Sleep()
    # dockerd sends SIGTERM to a container, and waits for its end.
    line = f"RUN trap 'exit 143' TERM; {sleep.command} & wait $!; true"
    sleep.command += "; true"
    limit = min(row.wait, 20) * 3
    slow = sleep.test(timeout=limit)
    lines, tests = {"build": ([line], []), "test": ([], [slow, AFTER]), "last test": ([], [slow])}[
        row.where
    ]
    limits = {"build_timeout": limit, "start_timeout": limit}

    report = evaluate_with(
        lambda: row.harm(harmed, sleep),
        row.times,
        sleep,
        lambda: evaluate([BUSYBOX, "LABEL of=this", *lines], FIRST, *tests, **limits),
    )

    assert outcome(report) == row.outcome
    assert "".join(lines) in report["build"]["log"]


def test_image_whose_containers_block_their_engine_fails(
    private_engine, legacy, waiting, evaluate, monkeypatch
):
    """The engine opens /etc/passwd at each start, and gives no answer about that container."""
    waiting(2.0)
    blocked = private_engine()
    monkeypatch.setenv("DOCKER_HOST", blocked.host)
    line = "RUN rm /etc/passwd && mkfifo /etc/passwd"

    report = evaluate([BUSYBOX, line], FIRST, start_timeout=4)
    blocked.kill()

    assert outcome(report) == "failed"
    assert any("not removed" in warning for warning in report["warnings"])
