"""Who is at fault: the Dockerfile, a registry, an option or the engine. On private engines that tests may harm.

"build" and "failed" are the Dockerfile's faults; "registry", "usage" and "engine" give no score.
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

import pytest
from cases import TRUE, files_exist
from conftest import PROGRAM, outcome, statuses
from engine import FakeHub, Sleep, docker_children

import DockerfileEvaluator as de

BUSYBOX = "FROM busybox:stable\n"
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
def hub(private, builder, monkeypatch, tmp_path):
    """Run docker in the network of the registries: with BuildKit the client requests their tokens."""
    (tmp_path / "client").mkdir()
    private.hub.client(tmp_path / "client" / "docker", shutil.which("docker"))
    monkeypatch.setenv("PATH", f"{tmp_path}/client{os.pathsep}{os.environ['PATH']}")
    return private.hub


def broken_archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        member = tarfile.TarInfo("random")
        member.size = 10000
        tar.addfile(member, io.BytesIO(os.urandom(member.size)))
    return file.getvalue()[:5000]


@pytest.fixture
def reports(tmp_path, rubric):
    """Evaluate Dockerfiles, four at a time; return the reports by Dockerfile."""

    def evaluate(texts, *tests, **options):
        path = rubric(*(tests or [FIRST]))

        def one(number, text):
            folder = tmp_path / f"context-{number}"
            folder.mkdir()
            (folder / "Dockerfile").write_text(text)
            (folder / "broken.tar.gz").write_bytes(broken_archive())
            return de.evaluate(str(folder / "Dockerfile"), "r", path, **options)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return dict(zip(texts, pool.map(one, range(len(texts)), texts)))

    return evaluate


def outcomes(reports: dict) -> dict:
    return {text: outcome(report) for text, report in reports.items()}


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
FAILURES = [
    ("limits", "docker.io", "ghcr.io"),
    ("unavailable", "docker.io", "mcr.microsoft.com"),
    ("expired", "docker.io", "ghcr.io"),
    ("authentication", "docker.io", "quay.io"),
    ("hangs up", "docker.io", "nvcr.io"),
    ("away", "docker.io", "registry.gitlab.com"),
    ("broken", "docker.io", "ghcr.io"),
]


@pytest.mark.usefixtures("smoke_test_passes")
def test_image_that_no_registry_has_is_fault_of_dockerfile(hub, reports):
    texts = {host: f"FROM {image}\n" for host, image in IMAGES.items()}
    expected = dict.fromkeys(texts.values(), "build")
    expected[texts["nvcr.io"]] = "registry"  # "authentication required", as in an outage
    assert outcomes(reports([*texts.values()])) == expected


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize("failure", FAILURES, ids=[failure[0] for failure in FAILURES])
def test_registry_that_fails_gives_no_score(hub, reports, failure):
    how, *hosts = failure
    hub.behave(how)
    found = reports([f"FROM {IMAGES[host]}\nRUN true\n" for host in hosts])
    assert outcomes(found) == dict.fromkeys(found, "registry")
    for host, report in zip(hosts, found.values()):
        assert report["error"]["message"].startswith(
            "registry" if how == "broken" else f"registry {host}: "
        )
        assert statuses(report) == {"first": "not_run"}


def test_registry_of_copy_and_syntax_gives_no_score(hub, builder, reports):
    hub.behave("unavailable")
    texts = [f"{BUSYBOX}COPY --from=nginx:1 /a /b\n", f"# syntax=docker/dockerfile:1\n{BUSYBOX}"]
    found = reports(texts[: 2 if builder == "buildkit" else 1])
    assert outcomes(found) == dict.fromkeys(found, "registry")


@pytest.fixture(scope="module")
def mirrored(private_engine, tmp_path_factory):
    """Return an engine that asks a mirror before Docker Hub."""
    hub = FakeHub(tmp_path_factory.mktemp("hub"))
    return private_engine(network=True, hub=hub, mirror=True)


# What the mirror answers, whether Docker Hub answers, and whose fault it is. The legacy builder then asks Docker Hub.
MIRRORS = [
    ("buildkit", 401, True, "registry"),
    ("buildkit", 403, True, "registry"),
    ("buildkit", 429, True, "registry"),
    ("buildkit", 500, True, "registry"),
    ("buildkit", 404, True, "build"),
    ("buildkit", 404, False, "registry"),
    ("legacy", 403, True, "build"),
    ("legacy", 403, False, "registry"),
]


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.parametrize(
    ("builder", "status", "hub_answers", "kind"), MIRRORS, indirect=["builder"]
)
def test_mirror_that_fails_gives_no_score(
    mirrored, builder, evaluate, monkeypatch, tmp_path, status, hub_answers, kind
):
    (mirrored.hub.folder / "mirror").write_text(str(status))
    mirrored.hub.behave("missing" if hub_answers else "away")
    (tmp_path / "client").mkdir()
    mirrored.hub.client(tmp_path / "client" / "docker", shutil.which("docker"))
    monkeypatch.setenv("PATH", f"{tmp_path}/client{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_HOST", mirrored.host)
    error = evaluate(["FROM node:20-slim", "RUN true"], FIRST)["error"]
    assert error["kind"] == kind, error["message"]
    if kind == "registry" and hub_answers:
        assert "the mirror 127.0.0.1:8081 fails" in error["message"]


@pytest.mark.usefixtures("smoke_test_passes")
def test_missing_credential_helper_gives_no_score(hub, buildkit, evaluate, monkeypatch, tmp_path):
    """The legacy builder asks without an account."""
    (tmp_path / "config.json").write_text('{"credsStore": "nowhere"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    error = evaluate(["FROM node:20-slim"], FIRST)["error"]
    assert error["kind"] == "usage"
    assert "repair or remove credsStore and credHelpers" in error["message"]


def test_offline_a_missing_image_is_fault_of_dockerfile(hub, reports):
    hub.behave("away")
    assert outcomes(reports(["FROM node:20-slim\n"], offline=True)) == {
        "FROM node:20-slim\n": "build"
    }


# The Dockerfile's own faults

# What docker and its builders print for faults of others
PRINTED = [
    "ERROR: no space left on device",
    "toomanyrequests: You have reached your pull rate limit.",
    "ERROR: pulling from host registry-1.docker.io failed with status code [manifests latest]: 429 Too Many Requests",
    'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    'error during connect: Post "http://docker/v1.41/build": EOF',
    "The command '/bin/sh -c true' returned a non-zero code: 137",
    "failed to create endpoint x on network bridge: could not find bridge docker0",
    "#1 [internal] load build definition from Dockerfile\\n#1 ERROR: no space left on device",
    "Sending build context to Docker daemon  2.048kB\\nStep 1/1 : FROM busybox\\nunexpected EOF",
    "ERROR: BuildKit is enabled but the buildx component is missing or broken.",
    "unknown flag: --force-rm\\nSee 'docker build --help'.",
    "Successfully built 0123456789ab",
    "Step 9/9 : FROM x\\nunexpected EOF",
]
PRINT = "RUN printf '{}' >&2; printf '{}'; ".format(
    *2 * ["".join(f"{line}\\n" for line in PRINTED).replace("'", "\\047")]
)
OWN_FAULTS = [
    "",
    "FROM registry.invalid/x\n",
    "FROM registry.invalid/docker.io/x\n",
    "FROM Ubuntu\n",
    f"FROM {64 * 'a'}\n",
    f"FROM {300 * 'a'}\n",
    "FROM nosuch.docker.io/x/y\n",
    "FROM busybox:stable AS a\nONBUILD WORKDIR /etc/passwd\nFROM a\n",
    'FROM busybox:stable AS a\nONBUILD RUN ["/nosuch"]\nFROM a\n',
    f"ARG R=registry.invalid\n{BUSYBOX}RUN true\nFROM ${{R}}/x\n",
    *(
        BUSYBOX + line
        for line in (
            "COPY --from=registry.invalid/x /a /b\n",
            "ADD https://ghcr.io/x /\n",
            "ADD http://127.0.0.1/x /\n",  # which breaks off: unexpected EOF
            "ADD broken.tar.gz /\n",  # unexpected EOF
            'RUN ["docker.io"]\n',
            'RUN ["/bin/sh", "-c", "exit 3 #\\nerror during connect: EOF"]\n',
            "RUN kill -9 1; kill -9 $PPID; sh -c 'kill -9 $$'; exit $?\n",
            "RUN touch /file\nWORKDIR /file/folder\nRUN true\n",
            'SHELL ["/no-such-shell"]\nRUN true\n',
            "STOPSIGNAL NONSENSE\n",
            "COPY Dockerfile/x /\n",
            "COPY Dockerfile/* /\n",
            "RUN echo 'Step 3/3 : FROM x'\nWORKDIR /etc/passwd\n",
            f"COPY --from={64 * 'a'} /a /b\n",
            'COPY ["requires BuildKit", "/"]\n',
            'COPY ["a\\nerror during connect", "/"]\n',
            'COPY ["a\\n#9 FROM x\\n#9 ERROR: dial tcp", "/"]\n',
            "FROM busybox:stable\nCOPY --from=0 /no-such-file /\n",
            f"{PRINT}exit 1\n",
            f"{PRINT}true\nFROM busybox:stable\nCOPY --from=0 /no-such-file /\n",
        )
    ),
]


@pytest.mark.usefixtures("smoke_test_passes")
@pytest.mark.long("21 builds, each of them twice")
def test_own_faults_with_every_registry_away_are_failed_builds(hub, reports):
    hub.behave("away")
    assert outcomes(reports(OWN_FAULTS)) == dict.fromkeys(OWN_FAULTS, "build")


def test_what_a_build_prints_changes_no_verdict(hub, reports):
    assert outcomes(reports([f"{BUSYBOX}{PRINT}true\n"])) == {f"{BUSYBOX}{PRINT}true\n": "passed"}


# Options

BUILD_OPTIONS = [
    ("--nonsense", "unknown flag: --nonsense"),
    ("--network=no-such", "no-such"),
    ("--memory=1k", "memory"),
    ("--cpuset-cpus=999", "999"),
]
RUN_OPTIONS = [
    "--nonsense",
    "--memory=1k",
    "--device=/no/such",
    "--network=no-such",
]
OPTIONS_OF_ANOTHER_IMAGE = [
    "--user=no-such-user",
    "--group-add=no-such-group",
    "--workdir=/bin/sh/x",
    "--volume=/dev/null:/bin",
]


@pytest.mark.parametrize(("option", "word"), BUILD_OPTIONS)
def test_build_option_that_docker_rejects_is_a_usage_error(legacy, evaluate, option, word):
    report = evaluate([BUSYBOX, f"RUN echo {os.urandom(8).hex()}"], FIRST, build_options=[option])
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
    assert outcome(evaluate([BUSYBOX], FIRST, CHECK, run_options=[option])) == "failed"


def test_unreadable_context_is_a_usage_error(builder, arguments, report, tmp_path):
    words = arguments([BUSYBOX, "COPY . /copied"], FIRST)
    (tmp_path / "context" / "secret").mkdir(mode=0)
    # root without the right to read all files
    done = subprocess.run(
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *PROGRAM, *words]
    )
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


FILL = "RUN dd if=/dev/zero of=/large bs=1M count="
FILL_AND_KEEP = [
    FILL + "$(($(df -m / | awk 'END {print $(NF-2)}') - 16))",
    "RUN dd if=/dev/zero of=/more bs=1M",
]
DISKS = [  # builder, free MiB, what is written, whose fault it is
    ("legacy", 8, [f"{FILL}20"], "engine"),
    ("buildkit", 8, [f"{FILL}20"], "engine"),
    ("legacy", DISK, [f"{FILL}{2 * DISK}"], "build"),
    ("buildkit", DISK, [f"{FILL}{2 * DISK}"], "build"),
    (
        "buildkit",
        DISK,
        FILL_AND_KEEP,
        "engine",
    ),  # the legacy builder needs twice the space of a layer
]


@pytest.mark.parametrize(("builder", "free", "lines", "fault"), DISKS, indirect=["builder"])
def test_full_disk_is_an_engine_error_unless_the_failed_build_frees_it(
    builder, small_disk, monkeypatch, evaluate, free, lines, fault
):
    monkeypatch.setattr(de, "LARGE_SMOKE_TEST", 32 * de.SMOKE_TEST)
    monkeypatch.setenv("DOCKER_HOST", small_disk.host)
    used = int(
        small_disk.inside("df", "--output=used", "-m", f"{small_disk.folder}/data").split()[-1]
    )
    filler = f"{small_disk.folder}/data/filler"
    small_disk.inside("fallocate", "--length", f"{max(DISK - used - free, 1)}M", filler)
    try:
        report = evaluate([BUSYBOX, *lines], FIRST)
    finally:
        small_disk.inside("rm", filler)
        small_disk.docker("builder", "prune", "--all", "--force")
    assert outcome(report) == fault
    assert statuses(report) == {"first": "not_run"}
    assert "no space left" in report["error"]["message"].lower()


# An engine or a docker program that ends while a command runs


@pytest.fixture
def harmed(private, evaluate):
    """Return the engine for a test to harm; the next evaluation removes what is left of the test's."""
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
        patch.setitem(de.Cli.call.__kwdefaults__, "timeout", 2.0)  # COMMAND_TIMEOUT
        patch.setattr(de.Session.remove, "__defaults__", (2.0,))
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


# dockerd asks a container to end before it kills it, and waits for that.
def run_line(sleep: Sleep) -> str:
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
    ("number", "status"), [(signal.SIGKILL, "error"), (signal.SIGSTOP, "timeout")]
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
    with pytest.MonkeyPatch.context() as patch:
        clean_up = de.Session.clean_up
        patch.setattr(de.Session, "clean_up", lambda self: (harmed.kill(), clean_up(self)))
        report = evaluate([BUSYBOX], FIRST)
    assert outcome(report) == "passed"
    assert report["warnings"][-1].startswith("not removed: ")


@pytest.mark.parametrize(("times", "status"), [(1, "passed"), (2, "error")])
def test_docker_program_that_is_killed_during_a_test(harmed, legacy, evaluate, slow, times, status):
    with each_time(slow, lambda: kill_docker("run"), times):
        report = evaluate([BUSYBOX], FIRST, slow.test(), AFTER)
    assert statuses(report) == {"first": "passed", "slow": status, "after": "passed"}
    assert (report["error"] is None) == (times == 1)


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
    def remove():
        (tag,) = harmed.docker(
            "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "dockerfile-evaluator"
        ).split()
        harmed.docker("image", "rm", "--force", tag)
        end(slow.processes())

    with each_time(slow, remove):
        report = evaluate([BUSYBOX, "LABEL of=removed"], slow.test(), AFTER)
    assert outcome(report) == "engine"
    assert statuses(report) == {"slow": "passed", "after": "error"}
    assert "image was removed" in report["error"]["message"]
