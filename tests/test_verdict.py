"""The verdict of a test as a function of what docker shows, without docker."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from cases import TRUE

import DockerfileEvaluator as de

STARTED = de.ContainerState(was_started=True, exit_code=1)
NEVER = de.ContainerState()
LOST = "the connection to the engine was lost, or docker was killed"
FORGED = "the command printed a forged result"


class Row(NamedTuple):
    """What differs from a complete run with exit code 0, and what follows."""

    when: str
    run: dict
    status: str
    message: str
    image_has_started: bool = False


ENDED_EARLY = {"exit_code": 1, "statuses": ()}
NOT_BEGUN = {"begins": 0, "exit_code": 125, "statuses": ()}
VERDICTS = [
    Row("it passed", {}, "passed", "exit code 0"),
    Row("it failed", {"statuses": (3,), "exit_code": 3}, "failed", "exit code 3: no output"),
    Row(
        "it failed and printed why",
        {"statuses": (3,), "exit_code": 3, "output": "E: x"},
        "failed",
        "exit code 3: E: x",
    ),
    Row(
        "it was killed by its memory limit",
        {"statuses": (137,), "exit_code": 137, "output": "Killed", "is_out_of_memory": True},
        "failed",
        "exit code 137: Killed; the container ran out of memory",
    ),
    Row(
        "it took too long",
        {"expired": "check", "statuses": (), "exit_code": None},
        "timeout",
        "timed out after 30 s",
    ),
    # The first run proves nothing: once more
    Row(
        "first run, not begun",
        {**ENDED_EARLY, "begins": 0},
        "inconclusive",
        "the container ended before the test began (exit code 1)",
    ),
    Row("first run, two begin markers", {"begins": 2}, "inconclusive", FORGED),
    Row(
        "first run, not ended",
        ENDED_EARLY,
        "inconclusive",
        "the container ended before the test did (exit code 1)",
    ),
    Row("first run, two end markers", {"statuses": (0, 0)}, "inconclusive", FORGED),
    Row(
        "first run, another exit code",
        {"exit_code": 125},
        "inconclusive",
        "the test ended with exit code 0, its container with 125",
    ),
    Row(
        "first run, late start",
        {**NOT_BEGUN, "expired": "start", "exit_code": None},
        "inconclusive",
        "the test did not begin in time",
    ),
    Row(
        "first run, late exit",
        {"expired": "exit", "exit_code": None},
        "inconclusive",
        "the test ended, but its container did not",
    ),
    # The second run: the image is at fault
    Row(
        "the container ended itself",
        {**ENDED_EARLY, "state": STARTED},
        "failed",
        "the container ended before the test did (exit code 1)",
    ),
    Row(
        "out of memory during the test",
        {**ENDED_EARLY, "state": STARTED._replace(is_out_of_memory=True)},
        "failed",
        "the container ran out of memory during the test",
    ),
    Row(
        "out of memory before the test",
        {**ENDED_EARLY, "begins": 0, "state": STARTED._replace(is_out_of_memory=True)},
        "failed",
        "the container ran out of memory before the test began",
    ),
    Row(
        "the shell printed why it does not work",
        {**ENDED_EARLY, "begins": 0, "preface": "a\nno libc\n", "state": STARTED},
        "failed",
        "the container ended before the test began (exit code 1): no libc",
    ),
    Row(
        "the container never ends",
        {"expired": "exit", "exit_code": None, "state": STARTED._replace(is_running=True)},
        "failed",
        "the test ended, but its container did not",
    ),
    Row(
        "the shell hangs",
        {
            **NOT_BEGUN,
            "expired": "start",
            "exit_code": None,
            "state": STARTED._replace(is_running=True),
        },
        "failed",
        "the test did not begin in time",
    ),
    # The second run: the engine is at fault
    Row(
        "docker ended, the container runs",
        {**ENDED_EARLY, "state": STARTED._replace(is_running=True)},
        "error",
        LOST,
    ),
    Row(
        "docker and the engine disagree",
        {**ENDED_EARLY, "state": STARTED._replace(exit_code=3)},
        "error",
        LOST,
    ),
    Row("begun, but never started", {**ENDED_EARLY, "state": NEVER}, "error", LOST),
    Row("docker was killed", {**NOT_BEGUN, "exit_code": -9, "state": NEVER}, "error", LOST),
    Row(
        "a full disk",
        {
            **NOT_BEGUN,
            "preface": "docker: Error response from daemon: no space left.",
            "state": NEVER,
        },
        "error",
        "the container could not be started: no space left.",
    ),
    # The second run: the container never started
    Row(
        "there is no shell",
        {
            **NOT_BEGUN,
            "preface": "docker: Error response from daemon: failed to create task for container: "
            "OCI runtime create failed: runc create failed: unable to start container process: "
            'exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown.',
            "state": NEVER,
        },
        "not_started",
        'the container could not be started: exec: "/bin/sh": stat /bin/sh: '
        "no such file or directory: unknown.",
    ),
    Row(
        "the engine's record has the reason",
        {**NOT_BEGUN, "state": NEVER._replace(error="unable to find user x: no matching entries")},
        "not_started",
        "the container could not be started: unable to find user x: no matching entries",
    ),
    Row(
        "another container of the image has started",
        {**NOT_BEGUN, "state": NEVER._replace(error="unable to find user x: no matching entries")},
        "error",
        "the container could not be started: unable to find user x: no matching entries",
        image_has_started=True,
    ),
    Row(
        "no start in time",
        {**NOT_BEGUN, "expired": "start", "exit_code": None, "state": NEVER},
        "not_started",
        "the container could not be started: the test did not begin in time",
    ),
    Row(
        "no start in time, another has started",
        {**NOT_BEGUN, "expired": "start", "exit_code": None, "state": NEVER},
        "error",
        "the container could not be started: the test did not begin in time",
        image_has_started=True,
    ),
]


@pytest.mark.parametrize("row", VERDICTS, ids=lambda row: row.when)
def test_verdict(rubric, row):
    (test,) = de.load_rubric(rubric(TRUE)).tests
    run = de.Run()._replace(**row.run)
    result = de.verdict(test, run, image_has_started=row.image_has_started)
    assert result.status == row.status
    assert result.message == row.message


# What docker 20.10, docker 28.5 and podman 5.8 print, each on an image that has this fault
OCI = "failed to create task for container: OCI runtime create failed: runc create failed: unable to start container process: "
INIT = f"{OCI}error during container init: "
DECIDED_BY_THE_IMAGE = [
    f'{OCI}exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown',
    f'{INIT}exec: "/bin/sh": is a directory: permission denied',
    f'{INIT}exec: "/bin/sh": stat /bin/sh: too many levels of symbolic links',
    "OCI runtime create failed: container_linux.go:380: starting container process caused: "
    "process_linux.go:545: container init caused: rootfs_linux.go:76: mounting "
    '"/var/lib/docker/volumes/1d/_data" to rootfs at "/proc" caused: x: unknown',
    f'{INIT}error mounting "/var/lib/docker/volumes/9c/_data" to rootfs at "/proc": create mountpoint',
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
    "unable to find groups for spec root: read /var/lib/docker/overlay2/1d/merged/etc/group: is a directory",
    "uids and gids must be in range 0-2147483647",
    "Cannot mkdir: /w is not a directory",
    "cannot mount volume over existing file, file exists /var/lib/docker/overlay2/1d/merged/etc/hosts",
    "evalSymlinksInScope: too many links in /var/lib/docker/overlay2/1d/merged/etc/passwd",
    "lstat /var/lib/docker/overlay2/1d/merged/bin/busybox/x: not a directory",
    "lstat /var/lib/docker/overlay2/1d/merged/aaaa: file name too long",
    "lstat /var/lib/docker/overlay2/1d/merged/a\x00b: invalid argument",
    "working dir  points to invalid target: too many links",
    "Error: OCI runtime error: runc: runc create failed: unable to start container process: "
    'error during container init: exec: "/bin/sh": is a directory',
    'Error: workdir "/w" exists on container 6ce977a6, but is not a directory',
    "Error: SecureJoin /var/lib/containers/storage/overlay/21/merged//etc/passwd: too many levels of symbolic links",
    "Error: crun: executable file `/bin/sh` not found: No such file or directory: OCI runtime attempted",
    "Error: creating /etc/mtab symlink: not a directory",
]  # fmt: skip
# From public issues: NVIDIA/nvidia-container-toolkit#2102, containers/podman#13363, docker/compose#10117 and others
DECIDED_BY_THE_ENGINE = [
    f"{OCI}error during container init: error running prestart hook #0: exit status 1, stderr: nvidia-container-cli: rpc error: timed out",
    'could not select device driver "" with capabilities: [[gpu]].',
    'exec: "nvidia-container-runtime-hook": executable file not found in $PATH: unknown',
    "error during connect: Post http://docker/containers/create: command [ssh] exited: kex_exchange_identification: Connection reset by peer",
    "failed to create shim task: context deadline exceeded: unknown",
    "failed to create task for container: failed to create shim task: ttrpc: closed: unknown",
    f"{INIT}unable to create session key: disk quota exceeded",
    f"{INIT}open sysctl net.ipv4.ip_unprivileged_port_start file: permission denied",
    f"{INIT}error setting rlimit type 7: operation not permitted",
    f"{INIT}apparmor failed to apply profile: write /proc/self/attr/apparmor/exec: no such file or directory",
    "failed to add the host (veth0) <=> sandbox (veth1) pair interfaces: operation not supported",
    "failed to set up container networking: no available IPv4 addresses on this network's address pools",
    "write /var/lib/docker/x: no space left on device",
    "open /var/lib/docker/containers/x: too many open files",
    "No such image: dockerfile-evaluator:1d",
    "an unknown reason",
    "",
]  # fmt: skip


def printed(error):
    return error if error.startswith("Error: ") else f"docker: Error response from daemon: {error}."


@pytest.mark.parametrize("error", DECIDED_BY_THE_IMAGE)
def test_image_decides(error):
    assert de.is_refused_image(printed(error))


@pytest.mark.parametrize("error", DECIDED_BY_THE_ENGINE)
def test_engine_decides(error):
    assert not de.is_refused_image(printed(error))
