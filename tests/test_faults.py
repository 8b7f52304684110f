"""Who is at fault: the Dockerfile, a registry, an option or the engine.

"build" and "failed" are the Dockerfile's faults; "registry", "usage" and "engine" give no score.
The tests run on private engines, which they may harm.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import io
import os
import shutil
import signal
import subprocess
import tarfile
import threading
from typing import NamedTuple

import pytest
from cases import TRUE, files_exist
from conftest import PROGRAM, outcome, statuses
from engine import FakeHub, Sleep, docker_children

import DockerfileEvaluator as de

BUSYBOX = "FROM busybox:stable"
FIRST, AFTER, LAST = ({**TRUE, "id": name} for name in ("first", "after", "last"))
CHECK = {**files_exist("/bin/sh"), "id": "check"}
DISK = 160  # MiB


@pytest.fixture(scope="module")
def private(private_engine, tmp_path_factory):
    """Return an engine with a bridge, whose registries work and have no image."""
    return private_engine(network=True, hub=FakeHub(tmp_path_factory.mktemp("hub")))


@pytest.fixture(autouse=True)
def on_private_engine(engine, private, monkeypatch):
    private.hub.behave("missing")
    monkeypatch.setenv("DOCKER_HOST", private.host)
    monkeypatch.setattr(de, "RETRY_DELAY", 0.1)


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


def broken_archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        member = tarfile.TarInfo("random")
        member.size = 10000
        tar.addfile(member, io.BytesIO(os.urandom(member.size)))
    return file.getvalue()[:5000]


@pytest.fixture
def reports(tmp_path, rubric):
    """Evaluate Dockerfiles (lines by a name), four at a time; return the reports by name."""

    def evaluate(dockerfiles):
        path = rubric(FIRST)

        def one(number, lines):
            folder = tmp_path / f"context-{number}"
            folder.mkdir()
            (folder / "Dockerfile").write_text("".join(f"{line}\n" for line in lines))
            (folder / "broken.tar.gz").write_bytes(broken_archive())
            return de.evaluate(str(folder / "Dockerfile"), "r", path)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = pool.map(one, range(len(dockerfiles)), dockerfiles.values())
            return dict(zip(dockerfiles, found))

    return evaluate


def outcomes(reports: dict) -> dict:
    return {name: outcome(report) for name, report in reports.items()}


# Registries

IMAGES = {
    "docker.io": "node:20-slim",
    "ghcr.io": "ghcr.io/astral-sh/uv",
    "quay.io": "quay.io/centos/centos:stream9",
    "gcr.io": "gcr.io/distroless/static",
    "mcr.microsoft.com": "mcr.microsoft.com/dotnet/sdk:8.0",
    "nvcr.io": "nvcr.io/nvidia/cuda:12",
    "public.ecr.aws": "public.ecr.aws/docker/library/gradle:jdk11",
    "registry.k8s.io": "registry.k8s.io/pause",
    "registry.gitlab.com": "registry.gitlab.com/x/y",
}


class Failure(NamedTuple):
    """How registries behave (see FakeHub), and which of them are asked."""

    how: str
    hosts: tuple[str, str]
    message: str = "registry {host}: "  # its beginning


FAILURES = [
    Failure("limits", hosts=("docker.io", "ghcr.io")),
    Failure("unavailable", hosts=("docker.io", "mcr.microsoft.com")),
    Failure("expired", hosts=("docker.io", "ghcr.io")),
    Failure("authentication", hosts=("docker.io", "quay.io")),
    Failure("hangs up", hosts=("docker.io", "nvcr.io")),
    Failure("away", hosts=("docker.io", "registry.gitlab.com")),
    Failure("broken", hosts=("docker.io", "ghcr.io"), message="registry"),
]


@pytest.mark.usefixtures("smoke_test_passes")
def test_image_that_no_registry_has_is_fault_of_dockerfile(hub, reports):
    found = reports({host: [f"FROM {image}"] for host, image in IMAGES.items()})

    expected = dict.fromkeys(IMAGES, "build")
    expected["nvcr.io"] = "registry"  # "authentication required", as in an outage
    assert outcomes(found) == expected


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("row", FAILURES, ids=lambda row: row.how)
def test_registry_that_fails_gives_no_score(hub, reports, row):
    hub.behave(row.how)

    found = reports({host: [f"FROM {IMAGES[host]}", "RUN true"] for host in row.hosts})

    assert outcomes(found) == dict.fromkeys(row.hosts, "registry")
    for host, report in found.items():
        assert report["error"]["message"].startswith(row.message.format(host=host)), host
        assert statuses(report) == {"first": "not_run"}, host


def test_registry_of_copy_and_syntax_gives_no_score(hub, builder, reports):
    hub.behave("unavailable")
    dockerfiles = {"COPY": [BUSYBOX, "COPY --from=nginx:1 /a /b"]}
    if builder == "buildkit":
        dockerfiles["syntax"] = ["# syntax=docker/dockerfile:1", BUSYBOX]

    found = reports(dockerfiles)

    assert outcomes(found) == dict.fromkeys(dockerfiles, "registry")


@pytest.fixture(scope="module")
def mirrored(private_engine, tmp_path_factory):
    """Return an engine that asks a mirror before Docker Hub."""
    hub = FakeHub(tmp_path_factory.mktemp("hub"))
    return private_engine(network=True, hub=hub, mirror=True)


class Mirror(NamedTuple):
    """What a mirror of Docker Hub answers, and whose fault it is that there is no image."""

    when: str
    status: int
    fault: str
    builder: str = "buildkit"
    hub: str = "missing"  # how Docker Hub behaves
    message: str = ""  # a part of it


MIRROR_FAILS = "the mirror 127.0.0.1:8081 fails"
MIRRORS = [
    Mirror("it wants a login", status=401, fault="registry", message=MIRROR_FAILS),
    Mirror("it forbids", status=403, fault="registry", message=MIRROR_FAILS),
    Mirror("it limits", status=429, fault="registry", message=MIRROR_FAILS),
    Mirror("it is broken", status=500, fault="registry", message=MIRROR_FAILS),
    Mirror("it has no image", status=404, fault="build"),
    Mirror("it has no image, the hub is away", status=404, hub="away", fault="registry"),
    # The legacy builder asks Docker Hub after any error of the mirror.
    Mirror("it forbids, the hub is asked", builder="legacy", status=403, fault="build"),
    Mirror(
        "it forbids, the hub is away", builder="legacy", status=403, hub="away", fault="registry"
    ),
]


def by_builder(rows):
    """Return the rows of a table as parameters, with the builder of each."""
    return [pytest.param(row.builder, row, id=f"{row.builder}: {row.when}") for row in rows]


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize(("builder", "row"), by_builder(MIRRORS), indirect=["builder"])
def test_mirror_that_fails_gives_no_score(
    mirrored, builder, in_network_of, evaluate, monkeypatch, row
):
    in_network_of(mirrored.hub)
    (mirrored.hub.folder / "mirror").write_text(str(row.status))
    mirrored.hub.behave(row.hub)
    monkeypatch.setenv("DOCKER_HOST", mirrored.host)

    error = evaluate(["FROM node:20-slim", "RUN true"], FIRST)["error"]

    assert error["kind"] == row.fault, error["message"]
    assert row.message in error["message"]


@pytest.mark.usefixtures("smoke_test_passes")
def test_missing_credential_helper_gives_no_score(hub, buildkit, evaluate, monkeypatch, tmp_path):
    """The legacy builder asks without an account."""
    (tmp_path / "config.json").write_text('{"credsStore": "nowhere"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))

    error = evaluate(["FROM node:20-slim"], FIRST)["error"]

    assert error["kind"] == "usage"
    assert "repair or remove credsStore and credHelpers" in error["message"]


def test_offline_a_missing_image_is_fault_of_dockerfile(hub, evaluate):
    hub.behave("away")

    report = evaluate(["FROM node:20-slim"], FIRST, offline=True)

    assert outcome(report) == "build"


# The Dockerfile's own faults

# What docker and its builders print for faults of others; for `printf`
PRINTED = [
    "ERROR: no space left on device",
    "toomanyrequests: You have reached your pull rate limit.",
    (
        "ERROR: pulling from host registry-1.docker.io failed with status code [manifests latest]: "
        "429 Too Many Requests"
    ),
    'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
    (
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
        "Is the docker daemon running?"
    ),
    'error during connect: Post "http://docker/v1.41/build": EOF',
    "The command '/bin/sh -c true' returned a non-zero code: 137",
    "failed to create endpoint x on network bridge: could not find bridge docker0",
    r"#1 [internal] load build definition from Dockerfile\n#1 ERROR: no space left on device",
    r"Sending build context to Docker daemon  2.048kB\nStep 1/1 : FROM busybox\nunexpected EOF",
    "ERROR: BuildKit is enabled but the buildx component is missing or broken.",
    r"unknown flag: --force-rm\nSee 'docker build --help'.",
    "Successfully built 0123456789ab",
    r"Step 9/9 : FROM x\nunexpected EOF",
]


def run_that_prints(lines, then):
    """Return a RUN that prints lines on stdout and stderr, and then does something else."""
    text = "".join(rf"{line}\n" for line in lines).replace("'", r"\047")
    return f"RUN printf '{text}' >&2; printf '{text}'; {then}"


OWN_FAULTS = {
    "empty": [],
    # FROM
    "unknown registry": ["FROM registry.invalid/x"],
    "unknown registry, name of a known one": ["FROM registry.invalid/docker.io/x"],
    "unknown host of a known registry": ["FROM nosuch.docker.io/x/y"],
    "unknown registry in an argument": [
        "ARG R=registry.invalid",
        BUSYBOX,
        "RUN true",
        "FROM ${R}/x",
    ],
    "capital letter": ["FROM Ubuntu"],
    "looks like an id": [f"FROM {64 * 'a'}"],
    "long name": [f"FROM {300 * 'a'}"],
    "ONBUILD WORKDIR": [f"{BUSYBOX} AS a", "ONBUILD WORKDIR /etc/passwd", "FROM a"],
    "ONBUILD RUN": [f"{BUSYBOX} AS a", 'ONBUILD RUN ["/nosuch"]', "FROM a"],
    # COPY and ADD
    "COPY from an unknown registry": [BUSYBOX, "COPY --from=registry.invalid/x /a /b"],
    "COPY from what looks like an id": [BUSYBOX, f"COPY --from={64 * 'a'} /a /b"],
    "COPY from a file as a folder": [BUSYBOX, "COPY Dockerfile/x /"],
    "COPY by a pattern from a file as a folder": [BUSYBOX, "COPY Dockerfile/* /"],
    "COPY of a missing file of a stage": [BUSYBOX, BUSYBOX, "COPY --from=0 /no-such-file /"],
    "COPY of the name of an error": [BUSYBOX, 'COPY ["requires BuildKit", "/"]'],
    "COPY of the name of docker's error": [BUSYBOX, r'COPY ["a\nerror during connect", "/"]'],
    "COPY of the name of BuildKit's error": [
        BUSYBOX,
        r'COPY ["a\n#9 FROM x\n#9 ERROR: dial tcp", "/"]',
    ],
    "ADD from a registry": [BUSYBOX, "ADD https://ghcr.io/x /"],
    "ADD of what breaks off": [BUSYBOX, "ADD http://127.0.0.1/x /"],  # unexpected EOF
    "ADD of a broken archive": [BUSYBOX, "ADD broken.tar.gz /"],  # unexpected EOF
    # RUN and others
    "program named like a registry": [BUSYBOX, 'RUN ["docker.io"]'],
    "command with docker's error": [
        BUSYBOX,
        r'RUN ["/bin/sh", "-c", "exit 3 #\nerror during connect: EOF"]',
    ],
    "command that kills": [BUSYBOX, "RUN kill -9 1; kill -9 $PPID; sh -c 'kill -9 $$'; exit $?"],
    "command that prints a step": [BUSYBOX, "RUN echo 'Step 3/3 : FROM x'", "WORKDIR /etc/passwd"],
    "command that prints errors and fails": [BUSYBOX, run_that_prints(PRINTED, then="exit 1")],
    "command that prints errors before a failing COPY": [
        BUSYBOX,
        run_that_prints(PRINTED, then="true"),
        BUSYBOX,
        "COPY --from=0 /no-such-file /",
    ],
    "workdir in a file": [BUSYBOX, "RUN touch /file", "WORKDIR /file/folder", "RUN true"],
    "no shell": [BUSYBOX, 'SHELL ["/no-such-shell"]', "RUN true"],
    "unknown signal": [BUSYBOX, "STOPSIGNAL NONSENSE"],
}


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.long("30 builds, each of them twice")
def test_own_faults_with_every_registry_away_are_failed_builds(hub, reports):
    hub.behave("away")

    found = reports(OWN_FAULTS)

    assert outcomes(found) == dict.fromkeys(OWN_FAULTS, "build")


def test_what_a_build_prints_changes_no_verdict(hub, evaluate):
    report = evaluate([BUSYBOX, run_that_prints(PRINTED, then="true")], FIRST)

    assert outcome(report) == "passed"


# Options

BUILD_OPTIONS = [
    ("--nonsense", "unknown flag: --nonsense"),
    ("--network=no-such", "no-such"),
    ("--memory=1k", "memory"),
    ("--cpuset-cpus=999", "999"),
]
RUN_OPTIONS = ["--nonsense", "--memory=1k", "--device=/no/such", "--network=no-such"]
OPTIONS_OF_ANOTHER_IMAGE = [
    "--user=no-such-user",
    "--group-add=no-such-group",
    "--workdir=/bin/sh/x",
    "--volume=/dev/null:/bin",
]


@pytest.mark.parametrize(("option", "word"), BUILD_OPTIONS)
def test_build_option_that_docker_rejects_is_a_usage_error(legacy, evaluate, option, word):
    lines = [BUSYBOX, f"RUN echo {os.urandom(8).hex()}"]

    report = evaluate(lines, FIRST, build_options=[option])

    assert outcome(report) == "usage"
    assert statuses(report) == {"first": "not_run"}
    assert word in report["error"]["message"]


@pytest.mark.parametrize("option", RUN_OPTIONS)
def test_run_option_that_docker_rejects_is_a_usage_error(legacy, evaluate, option):
    report = evaluate([BUSYBOX], FIRST, AFTER, run_options=[option])

    assert outcome(report) == "usage"
    assert set(statuses(report).values()) == {"not_run"}


@pytest.mark.parametrize("option", OPTIONS_OF_ANOTHER_IMAGE)
def test_run_option_that_this_image_cannot_have_fails_tests(legacy, evaluate, option):
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


def test_no_bridge_for_a_build_is_an_engine_error(builder, without_bridge, evaluate):
    report = evaluate([BUSYBOX, f"RUN echo {os.urandom(8).hex()}"], FIRST)

    assert outcome(report) == "engine"
    assert statuses(report) == {"first": "not_run"}


def test_no_bridge_for_a_test_is_an_engine_error(legacy, without_bridge, evaluate):
    """A check runs without a network, and passes."""
    report = evaluate([BUSYBOX], FIRST, CHECK)

    assert outcome(report) == "engine"
    assert statuses(report) == {"first": "error", "check": "passed"}


@pytest.fixture(scope="module")
def small_disk(private_engine):
    """Return an engine with a data root of DISK MiB."""
    return private_engine(network=True, disk=DISK)


def fill(count):
    return f"RUN dd if=/dev/zero of=/large bs=1M count={count}"


ALL_BUT_16_MIB = "$(($(df -m / | awk 'END {print $(NF-2)}') - 16))"


class Disk(NamedTuple):
    """What a build writes on a full disk, and whose fault it is that it fails."""

    when: str
    builder: str
    lines: list[str]
    fault: str
    free: int = DISK  # MiB


DISKS = [
    Disk("it was full before", builder="legacy", lines=[fill(20)], free=8, fault="engine"),
    Disk("it was full before", builder="buildkit", lines=[fill(20)], free=8, fault="engine"),
    Disk("a failed step filled it", builder="legacy", lines=[fill(2 * DISK)], fault="build"),
    Disk("a failed step filled it", builder="buildkit", lines=[fill(2 * DISK)], fault="build"),
    # The layer stays in the build cache. The legacy builder needs twice the space of a layer.
    Disk(
        "a good step filled it",
        builder="buildkit",
        lines=[fill(ALL_BUT_16_MIB), "RUN dd if=/dev/zero of=/more bs=1M"],
        fault="engine",
    ),
]


@pytest.fixture
def fill_disk(small_disk):
    """Fill the small disk until some MiB are free; empty it at the end."""
    data = f"{small_disk.folder}/data"

    def run(free):
        used = int(small_disk.inside("df", "--output=used", "-m", data).split()[-1])
        size = max(DISK - used - free, 1)
        small_disk.inside("fallocate", "--length", f"{size}M", f"{data}/filler")

    yield run
    small_disk.inside("rm", f"{data}/filler")
    small_disk.docker("builder", "prune", "--all", "--force")


@pytest.mark.parametrize(("builder", "row"), by_builder(DISKS), indirect=["builder"])
def test_full_disk_is_an_engine_error_unless_the_failed_build_frees_it(
    builder, small_disk, fill_disk, monkeypatch, evaluate, row
):
    monkeypatch.setattr(de, "LARGE_SMOKE_TEST", 32 * de.SMOKE_TEST)
    monkeypatch.setenv("DOCKER_HOST", small_disk.host)
    fill_disk(row.free)

    report = evaluate([BUSYBOX, *row.lines], FIRST)

    assert outcome(report) == row.fault
    assert statuses(report) == {"first": "not_run"}
    assert "no space left" in report["error"]["message"].lower()


# An engine or a docker program that ends while a command runs


@pytest.fixture
def harmed(private, evaluate):
    """Return the engine for a test to harm; the next evaluation removes what the test has left."""
    yield private
    if private.process.poll() is not None:
        private.start()
    assert outcome(evaluate([BUSYBOX], FIRST)) == "passed"
    assert private.docker("image", "ls", "--quiet", "dockerfile-evaluator") == ""
    assert private.docker("ps", "--all", "--quiet", "--filter", "name=dockerfile-evaluator") == ""


@pytest.fixture
def short_waits(harmed):
    """Do not wait long for an engine that does not come back."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "RECOVERY_TIMEOUT",
            "CLEANUP_TIMEOUT",
            "COMMAND_TIMEOUT",
            "CREATE_TIMEOUT",
            "KILL_TIMEOUT",
        ):
            patch.setattr(de, name, 2.0)
        yield


@contextlib.contextmanager
def each_time(sleep, harm, times=1):
    """Call `harm` the first `times` times that the command runs, and end it when it runs again."""
    over = threading.Event()
    failures = []
    count = 0

    def watch():
        nonlocal count
        seen = set()
        while not over.wait(0.05):
            new = sleep.processes() - seen
            seen |= new
            if new and count < times:
                count += 1
                try:
                    harm()
                except Exception as error:  # noqa: BLE001 - raised below
                    failures.append(error)
            elif new:
                end(new)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        end(sleep.processes())
    assert failures == []
    assert count == times


def end(processes: set) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def restart(engine, how: str, sleep: Sleep) -> None:
    getattr(engine, how)()
    end(sleep.processes())  # or the new engine waits for it
    engine.start()


def kill_docker(command: str) -> None:
    for process in docker_children(command):
        os.kill(process, signal.SIGKILL)


def run_line(sleep: Sleep) -> str:
    """Return a RUN that ends on SIGTERM: dockerd sends it to a container, and waits for its end."""
    return f"RUN trap 'exit 143' TERM; {sleep.command} & wait $!; true"


@pytest.fixture
def slow():
    sleep = Sleep()
    sleep.command += "; true"
    return sleep


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_engine_that_restarts_during_a_test_costs_only_time(harmed, legacy, evaluate, slow, how):
    with each_time(slow, lambda: restart(harmed, how, slow)):
        report = evaluate([BUSYBOX], FIRST, slow.test(), AFTER)

    assert outcome(report) == "passed"
    assert [row["retried"] for row in report["test_results"]] == [False, True, False]


@pytest.mark.parametrize(
    ("builder", "how"), [("legacy", "stop"), ("buildkit", "kill")], indirect=["builder"]
)
def test_engine_that_restarts_during_a_build_costs_only_time(harmed, builder, evaluate, how):
    sleep = Sleep()

    with each_time(sleep, lambda: restart(harmed, how, sleep)):
        report = evaluate([BUSYBOX, run_line(sleep)], FIRST)

    assert outcome(report) == "passed"


def test_engine_that_restarts_during_both_builds_is_an_engine_error(harmed, builder, evaluate):
    sleep = Sleep()

    with each_time(sleep, lambda: restart(harmed, "kill", sleep), times=2):
        report = evaluate([BUSYBOX, run_line(sleep)], FIRST)

    assert outcome(report) == "engine"


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGKILL, "error"), (signal.SIGSTOP, "timeout")],
    ids=["killed", "stopped"],
)
def test_engine_that_is_lost_during_a_test_is_an_engine_error(
    harmed, legacy, short_waits, evaluate, slow, number, status
):
    with each_time(slow, lambda: harmed.process.send_signal(number)):
        report = evaluate([BUSYBOX], FIRST, slow.test(timeout=5), AFTER, LAST, start_timeout=4)
    harmed.process.send_signal(signal.SIGCONT)

    found = statuses(report)
    assert found["first"] == "passed"
    assert found["slow"] == status
    assert found["after"] == "error"
    assert report["error"]["kind"] == "engine"
    assert any("not removed" in warning for warning in report["warnings"])


def test_engine_that_is_lost_during_a_build_is_an_engine_error(
    harmed, buildkit, short_waits, evaluate
):
    sleep = Sleep()

    with each_time(sleep, harmed.kill):
        report = evaluate([BUSYBOX, run_line(sleep)], FIRST)

    assert outcome(report) == "engine"
    assert statuses(report) == {"first": "not_run"}


def test_engine_that_is_lost_before_clean_up_keeps_the_score(harmed, legacy, short_waits, evaluate):
    clean_up = de.Session.clean_up

    def clean_up_without_engine(session):
        harmed.kill()
        clean_up(session)

    with pytest.MonkeyPatch.context() as patch:  # not for the evaluation at the end of `harmed`
        patch.setattr(de.Session, "clean_up", clean_up_without_engine)
        report = evaluate([BUSYBOX], FIRST)

    assert outcome(report) == "passed"
    assert report["warnings"][-1].startswith("not removed: ")


@pytest.mark.parametrize(("times", "status"), [(1, "passed"), (2, "error")])
def test_docker_program_that_is_killed_during_a_test(harmed, legacy, evaluate, slow, times, status):
    with each_time(slow, lambda: kill_docker("run"), times):
        report = evaluate([BUSYBOX], FIRST, slow.test(), AFTER)

    assert statuses(report) == {"first": "passed", "slow": status, "after": "passed"}
    assert (report["error"] is None) == (status == "passed")


@pytest.mark.parametrize(
    ("builder", "times", "expected"),
    [("legacy", 1, "passed"), ("buildkit", 2, "engine")],
    indirect=["builder"],
)
def test_docker_program_that_is_killed_during_a_build(harmed, builder, evaluate, times, expected):
    sleep = Sleep()

    with each_time(sleep, lambda: kill_docker("build"), times):
        report = evaluate([BUSYBOX, run_line(sleep)], FIRST)

    assert outcome(report) == expected


def test_image_that_is_removed_during_the_tests_is_an_engine_error(harmed, legacy, evaluate, slow):
    def remove_image():
        template = "{{.Repository}}:{{.Tag}}"
        tags = harmed.docker("image", "ls", "--format", template, "dockerfile-evaluator")
        (tag,) = tags.split()
        harmed.docker("image", "rm", "--force", tag)
        end(slow.processes())

    with each_time(slow, remove_image):
        report = evaluate([BUSYBOX, "LABEL of=removed"], slow.test(), AFTER)

    assert outcome(report) == "engine"
    assert statuses(report) == {"slow": "passed", "after": "error"}
    assert "image was removed" in report["error"]["message"]
