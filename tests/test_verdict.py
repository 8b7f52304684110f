"""The verdict of a test as a function of what docker shows, without docker."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from cases import TRUE

import DockerfileEvaluator as de

LOST = "the connection to the engine was lost, or docker was killed"
FORGED = "the command printed a forged result"

# Runs, by what differs from a complete one with exit code 0
COMPLETE = de.Run()
EXITED_WITH_3 = de.Run(statuses=(3,), exit_code=3)
OVER_ITS_LIMIT = de.Run(expired="check", statuses=(), exit_code=None)
ENDED_IN_THE_TEST = de.Run(statuses=(), exit_code=1)
ENDED_BEFORE_THE_TEST = de.Run(begins=0, statuses=(), exit_code=1)
NOT_BEGUN_IN_TIME = de.Run(begins=0, expired="start", statuses=(), exit_code=None)
NOT_ENDED_IN_TIME = de.Run(expired="exit", exit_code=None)
REFUSED_BY_DOCKER = de.Run(begins=0, statuses=(), exit_code=125)  # what `docker run` exits with

# The engine's record of the container
NEVER_STARTED = de.ContainerState()
NO_SUCH_USER = NEVER_STARTED._replace(error="unable to find user x: no matching entries")
EXITED_WITH_1 = de.ContainerState(was_started=True, exit_code=1)
OUT_OF_MEMORY = EXITED_WITH_1._replace(is_out_of_memory=True)
STILL_RUNNING = EXITED_WITH_1._replace(is_running=True)


class Row(NamedTuple):
    """What docker shows of a container, and the verdict that follows."""

    when: str
    run: de.Run
    status: str
    message: str
    state: de.ContainerState | None = None  # None: the first run, whose container is not kept
    image_has_started: bool = False  # another container of this image


VERDICTS = [
    Row("it passed", run=COMPLETE, status="passed", message="exit code 0"),
    Row("it failed", run=EXITED_WITH_3, status="failed", message="exit code 3: no output"),
    Row(
        "it failed and printed why",
        run=EXITED_WITH_3._replace(output="E: x"),
        status="failed",
        message="exit code 3: E: x",
    ),
    Row(
        "it was killed by its memory limit",
        run=de.Run(statuses=(137,), exit_code=137, output="Killed", is_out_of_memory=True),
        status="failed",
        message="exit code 137: Killed; the container ran out of memory",
    ),
    Row(
        "it took too long",
        run=OVER_ITS_LIMIT,
        status="timeout",
        message="timed out after 30 s",
    ),
    # The first run proves nothing: once more
    Row(
        "first run, not begun",
        run=ENDED_BEFORE_THE_TEST,
        status="inconclusive",
        message="the container ended before the test began (exit code 1)",
    ),
    Row(
        "first run, two begin markers",
        run=COMPLETE._replace(begins=2),
        status="inconclusive",
        message=FORGED,
    ),
    Row(
        "first run, not ended",
        run=ENDED_IN_THE_TEST,
        status="inconclusive",
        message="the container ended before the test did (exit code 1)",
    ),
    Row(
        "first run, two end markers",
        run=COMPLETE._replace(statuses=(0, 0)),
        status="inconclusive",
        message=FORGED,
    ),
    Row(
        "first run, another exit code",
        run=COMPLETE._replace(exit_code=125),
        status="inconclusive",
        message="the test ended with exit code 0, its container with 125",
    ),
    Row(
        "first run, late start",
        run=NOT_BEGUN_IN_TIME,
        status="inconclusive",
        message="the test did not begin in time",
    ),
    Row(
        "first run, late exit",
        run=NOT_ENDED_IN_TIME,
        status="inconclusive",
        message="the test ended, but its container did not",
    ),
    # The second run: the image is at fault
    Row(
        "the container ended itself",
        run=ENDED_IN_THE_TEST,
        state=EXITED_WITH_1,
        status="failed",
        message="the container ended before the test did (exit code 1)",
    ),
    Row(
        "out of memory during the test",
        run=ENDED_IN_THE_TEST,
        state=OUT_OF_MEMORY,
        status="failed",
        message="the container ran out of memory during the test",
    ),
    Row(
        "out of memory before the test",
        run=ENDED_BEFORE_THE_TEST,
        state=OUT_OF_MEMORY,
        status="failed",
        message="the container ran out of memory before the test began",
    ),
    Row(
        "the shell printed why it does not work",
        run=ENDED_BEFORE_THE_TEST._replace(preface="a\nno libc\n"),
        state=EXITED_WITH_1,
        status="failed",
        message="the container ended before the test began (exit code 1): no libc",
    ),
    Row(
        "the container never ends",
        run=NOT_ENDED_IN_TIME,
        state=STILL_RUNNING,
        status="failed",
        message="the test ended, but its container did not",
    ),
    Row(
        "the shell hangs",
        run=NOT_BEGUN_IN_TIME,
        state=STILL_RUNNING,
        status="failed",
        message="the test did not begin in time",
    ),
    # The second run: the engine is at fault
    Row(
        "docker ended, the container runs",
        run=ENDED_IN_THE_TEST,
        state=STILL_RUNNING,
        status="error",
        message=LOST,
    ),
    Row(
        "docker and the engine disagree",
        run=ENDED_IN_THE_TEST,
        state=EXITED_WITH_1._replace(exit_code=3),
        status="error",
        message=LOST,
    ),
    Row(
        "begun, but never started",
        run=ENDED_IN_THE_TEST,
        state=NEVER_STARTED,
        status="error",
        message=LOST,
    ),
    Row(
        "docker was killed",
        run=REFUSED_BY_DOCKER._replace(exit_code=-9),
        state=NEVER_STARTED,
        status="error",
        message=LOST,
    ),
    Row(
        "docker was ended by the signal of a closed terminal",
        run=REFUSED_BY_DOCKER._replace(exit_code=-1),
        state=NEVER_STARTED,
        status="error",
        message=LOST,
    ),
    Row(
        "a full disk",
        run=REFUSED_BY_DOCKER._replace(
            preface="docker: Error response from daemon: no space left."
        ),
        state=NEVER_STARTED,
        status="error",
        message="the container could not be started: no space left.",
    ),
    # The second run: the container never started
    Row(
        "there is no shell",
        run=REFUSED_BY_DOCKER._replace(
            preface="docker: Error response from daemon: failed to create task for container: "
            "OCI runtime create failed: runc create failed: unable to start container process: "
            'exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown.'
        ),
        state=NEVER_STARTED,
        status="not_started",
        message='the container could not be started: exec: "/bin/sh": stat /bin/sh: '
        "no such file or directory: unknown.",
    ),
    Row(
        "the engine's record has the reason",
        run=REFUSED_BY_DOCKER,
        state=NO_SUCH_USER,
        status="not_started",
        message="the container could not be started: unable to find user x: no matching entries",
    ),
    Row(
        "another container of the image has started",
        run=REFUSED_BY_DOCKER,
        state=NO_SUCH_USER,
        image_has_started=True,
        status="error",
        message="the container could not be started: unable to find user x: no matching entries",
    ),
    Row(
        "no start in time",
        run=NOT_BEGUN_IN_TIME,
        state=NEVER_STARTED,
        status="not_started",
        message="the container could not be started: the test did not begin in time",
    ),
    Row(
        "no start in time, another has started",
        run=NOT_BEGUN_IN_TIME,
        state=NEVER_STARTED,
        image_has_started=True,
        status="error",
        message="the container could not be started: the test did not begin in time",
    ),
]


@pytest.mark.parametrize("row", VERDICTS, ids=lambda row: row.when)
def test_verdict(rubric, row):
    (test,) = de.load_rubric(rubric(TRUE)).tests
    run = row.run._replace(state=row.state)

    result = de.verdict(test, run, image_has_started=row.image_has_started)

    assert result.status == row.status
    assert result.message == row.message


# What docker 20.10, docker 28.5 and podman 5.8 print, each on an image that has this fault
OCI = (
    "failed to create task for container: OCI runtime create failed: runc create failed: "
    "unable to start container process: "
)
INIT = f"{OCI}error during container init: "
DECIDED_BY_THE_IMAGE = [
    f'{OCI}exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown',
    f'{INIT}exec: "/bin/sh": is a directory: permission denied',
    f'{INIT}exec: "/bin/sh": stat /bin/sh: too many levels of symbolic links',
    (
        "OCI runtime create failed: container_linux.go:380: starting container process caused: "
        "process_linux.go:545: container init caused: rootfs_linux.go:76: mounting "
        '"/var/lib/docker/volumes/1d/_data" to rootfs at "/proc" caused: x: unknown'
    ),
    (
        f'{INIT}error mounting "/var/lib/docker/volumes/9c/_data" to rootfs at "/proc": '
        "create mountpoint"
    ),
    f"{INIT}error reopening /dev/null inside container: open /dev/null: is a directory: unknown",
    f"{INIT}can't mask paths: open /dev/null: no such file or directory",
    f"{OCI}unable to setup user: stat /dev/null: no such file or directory: unknown",
    f"{INIT}setup user: cannot set uid to unmapped user in user namespace: unknown",
    f"{INIT}mkdir /proc/x: no such file or directory: unknown",
    f"{INIT}mkdir /sys/x: read-only file system",
    f'{INIT}chdir to cwd ("/w") set in config.json failed: permission denied: unknown',
    f'{INIT}invalid environment variable "V": contains nul byte (\\x00)',
    "unable to find user nosuch: no matching entries in passwd file",
    "unable to find user 0: read /var/lib/docker/overlay2/1d/merged/etc/passwd: is a directory",
    "unable to find group nosuch: no matching entries in group file",
    (
        "unable to find groups for spec root: "
        "read /var/lib/docker/overlay2/1d/merged/etc/group: is a directory"
    ),
    "uids and gids must be in range 0-2147483647",
    "Cannot mkdir: /w is not a directory",
    (
        "cannot mount volume over existing file, "
        "file exists /var/lib/docker/overlay2/1d/merged/etc/hosts"
    ),
    "evalSymlinksInScope: too many links in /var/lib/docker/overlay2/1d/merged/etc/passwd",
    "lstat /var/lib/docker/overlay2/1d/merged/bin/busybox/x: not a directory",
    "lstat /var/lib/docker/overlay2/1d/merged/aaaa: file name too long",
    "lstat /var/lib/docker/overlay2/1d/merged/a\x00b: invalid argument",
    "working dir  points to invalid target: too many links",
    (
        "Error: OCI runtime error: runc: runc create failed: unable to start container process: "
        'error during container init: exec: "/bin/sh": is a directory'
    ),
    'Error: workdir "/w" exists on container 6ce977a6, but is not a directory',
    (
        "Error: SecureJoin /var/lib/containers/storage/overlay/21/merged//etc/passwd: "
        "too many levels of symbolic links"
    ),
    (
        "Error: crun: executable file `/bin/sh` not found: "
        "No such file or directory: OCI runtime attempted"
    ),
    "Error: creating /etc/mtab symlink: not a directory",
]
# From public issues: NVIDIA/nvidia-container-toolkit#2102, containers/podman#13363,
# docker/compose#10117 and others
DECIDED_BY_THE_ENGINE = [
    (
        f"{INIT}error running prestart hook #0: exit status 1, "
        "stderr: nvidia-container-cli: rpc error: timed out"
    ),
    'could not select device driver "" with capabilities: [[gpu]].',
    'exec: "nvidia-container-runtime-hook": executable file not found in $PATH: unknown',
    (
        "error during connect: Post http://docker/containers/create: command [ssh] exited: "
        "kex_exchange_identification: Connection reset by peer"
    ),
    "failed to create shim task: context deadline exceeded: unknown",
    "failed to create task for container: failed to create shim task: ttrpc: closed: unknown",
    f"{INIT}unable to create session key: disk quota exceeded",
    f"{INIT}open sysctl net.ipv4.ip_unprivileged_port_start file: permission denied",
    f"{INIT}error setting rlimit type 7: operation not permitted",
    (
        f"{INIT}apparmor failed to apply profile: "
        "write /proc/self/attr/apparmor/exec: no such file or directory"
    ),
    "failed to add the host (veth0) <=> sandbox (veth1) pair interfaces: operation not supported",
    (
        "failed to set up container networking: "
        "no available IPv4 addresses on this network's address pools"
    ),
    "write /var/lib/docker/x: no space left on device",
    "open /var/lib/docker/containers/x: too many open files",
    "No such image: dockerfile-evaluator:1d",
    "an unknown reason",
    "",
]


def as_printed(error):
    return error if error.startswith("Error: ") else f"docker: Error response from daemon: {error}."


@pytest.mark.parametrize("error", DECIDED_BY_THE_IMAGE)
def test_image_decides(error):
    assert de.is_refused_image(as_printed(error))


@pytest.mark.parametrize("error", DECIDED_BY_THE_ENGINE)
def test_engine_decides(error):
    assert not de.is_refused_image(as_printed(error))
