"""Real engines in tests: queries, private engines, fake registries, processes in containers.

Types are noted where tests/bench and tests/soak, which mypy checks, call a function.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

import fake_hub


def wait_for(condition: Callable[[], Any], seconds: float = 60, what: str = "") -> Any:
    """Poll a condition until it is true, and return its value.

    `seconds` is generous, for slow machines.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"timed out after {seconds} s {what}"
        time.sleep(0.02)


# Runs main(). The memory is VmHWM of proc(5): ru_maxrss of getrusage(2) includes the process that
# forked this one.
MEASURED = """
import os, re, sys, time
sys.path.insert(0, sys.argv.pop(1))
import DockerfileEvaluator as de
started = time.perf_counter()
code = de.main(sys.argv[1:])
taken = time.perf_counter() - started
used = sum(os.times()[:4])
memory = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(code, int(memory) / 1024, taken, used, file=sys.stderr)
"""


class Measured(NamedTuple):
    """What a run of the evaluator took."""

    code: int
    memory: float  # peak, in MiB
    seconds: float  # without the start of Python
    processor: float  # seconds, with those of its docker programs


def measured(*words: str, project: Path = Path(__file__).parent.parent) -> Measured:
    """Run the command line of the evaluator in a folder, in a process of its own."""
    command = [sys.executable, "-c", MEASURED, str(project), *words]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=600)
    code, *numbers = done.stderr.splitlines()[-1].split()
    return Measured(int(code), *map(float, numbers))


def docker(*words, program="docker", **more):
    """Run a docker command and return its output."""
    done = subprocess.run([program, *words], stdout=subprocess.PIPE, check=True, **more)
    return done.stdout.decode()


QUERIES = {
    "containers": "ps --all --quiet --no-trunc",
    "images": "images --all --quiet --no-trunc",
    "tags": "images --format={{.Repository}}:{{.Tag}}",
    "volumes": "volume ls --quiet",
}


def census() -> dict[str, list[str]]:
    """Return all containers, images, tags and volumes of the engine."""
    return {kind: sorted(set(docker(*QUERIES[kind].split()).split())) for kind in QUERIES}


def engine_answers(*options):
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return bool(docker(*options, "version", stderr=subprocess.DEVNULL))
    return False


class PrivateEngine:
    """A dockerd in namespaces of its own, which a test may kill, stop and start again.

    Its containers reach each other and nothing else. `disk` is the size in MiB of a tmpfs as data
    root, `hub` the fake registries.
    """

    def __init__(self, folder, *, disk=0, hub=None):
        self.folder = folder
        self.host = f"unix://{folder}/docker.sock"
        self.hub = hub
        self._preparation = hub.preparation() if hub else ""
        if disk:
            self._preparation += f"""
                mkdir -p {folder}/data
                mount -t tmpfs -o size={disk}m tmpfs {folder}/data
            """

    def start(self):
        """Start dockerd and wait until it answers."""
        self._kill_orphans()
        # Compiling the default seccomp filter takes a tenth of each container's time.
        (self.folder / "all.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
        # pytest-xdist kills workers that do not end in time after Ctrl-C. Then the first lines end
        # dockerd, which has the process id of the shell.
        script = f"""
            (
                while kill -0 {os.getpid()}; do sleep 2; kill -0 $$ || exit; done
                kill $$; kill -CONT $$
            ) 2>/dev/null &
            ip link set lo up
            {self._preparation}
            exec dockerd --host={self.host} --iptables=false --ip-forward=false \\
                --data-root={self.folder}/data --exec-root={self.folder}/exec \\
                --pidfile={self.folder}/pid --seccomp-profile={self.folder}/all.json \\
                --max-download-attempts=1
        """
        # In the network of the host, a second dockerd would delete the bridge of the first one.
        words = ["unshare", "--net", "--mount", "sh", "-euc", script]
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        wait_for(self.answers, what="for the private engine to start")
        if self.hub:
            wait_for((self.hub.folder / "ready").exists, what="for the fake registries to start")

    def answers(self):
        assert self.process.poll() is None, f"dockerd ended, see {self.folder}/log"
        return engine_answers("--host", self.host)

    def inside(self, *words):
        """Run a command in the engine's namespaces."""
        enter = ["nsenter", f"--target={self.process.pid}", "--net", "--mount"]
        return subprocess.run([*enter, *words], stdout=subprocess.PIPE, check=True).stdout

    def docker(self, *words, **more):
        """Run a docker command on this engine and return its output."""
        return docker("--host", self.host, *words, **more)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(60)
        self._kill_orphans()

    def _kill_orphans(self):
        """Kill containerd and the shims of an engine that was killed.

        A new dockerd waits for the old containerd in vain. It may miss the end of a container whose
        shim outlived both, and then cannot remove that container until its next start.
        """
        end(processes(rf"\S*containerd\S* .*{self.folder}/.*"))
        for file in self.folder.glob("exec/**/containerd.pid"):
            file.unlink()


@contextlib.contextmanager
def started_engine(folder, saved, **options):
    """Start an engine with the images of `docker save`; stop and delete it at the end."""
    engine = PrivateEngine(folder, **options)
    try:
        engine.start()
        engine.docker("load", "--quiet", input=saved)
        yield engine
    finally:
        engine.stop()
        shutil.rmtree(str(folder), ignore_errors=True)


class FakeHub:
    """Fake public image registries, which a private engine takes for the real ones.

    The engine knows no other host; one TLS server plays all HOSTS of fake_hub.py.
    Where a registry answers, it has the control images of the evaluator. The behaviours:

    missing         no other image exists
    limits          429, TOOMANYREQUESTS
    forbidden       403, denied
    hangs-up        the connection is closed without an answer
    """

    def __init__(self, folder):
        self.folder = folder
        (folder / "nsswitch.conf").write_text("hosts: files\n")
        names = " ".join(fake_hub.HOSTS)
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{fake_hub.ADDRESS} {names}\n")
        self._make_certificate()
        self.behave("missing")

    def behave(self, how):
        """Set the behaviour of all registries, except those that are named after one."""
        (self.folder / "new").write_text(how)
        os.replace(self.folder / "new", self.folder / "behaviour")

    def preparation(self):
        """Return the shell commands that start the registries in an engine's namespaces."""
        return f"""
            export SSL_CERT_FILE={self.folder}/trusted.pem
            mount --bind {self.folder}/hosts /etc/hosts
            mount --bind {self.folder}/nsswitch.conf /etc/nsswitch.conf
            ip address add {fake_hub.ADDRESS} dev lo
            rm -f {self.folder}/ready
            echo $$ >{self.folder}/pid
            {sys.executable} -E {fake_hub.__file__} {self.folder} &
        """

    def write_client(self, folder):
        """Write a program that runs docker in the registries' network.

        With BuildKit the client, not the engine, requests the token of a registry.
        """
        lines = f"""#!/bin/sh
            export SSL_CERT_FILE={self.folder}/trusted.pem
            exec nsenter --target="$(cat {self.folder}/pid)" --net --mount \\
                sh -c 'cd "$0" && exec "$@"' "$PWD" {shutil.which("docker")} "$@"
        """
        (folder / "docker").write_text(lines)
        (folder / "docker").chmod(0o755)

    def _make_certificate(self):
        names = ",".join(f"DNS:{host}" for host in fake_hub.HOSTS)
        command = f"""
            openssl req -x509 -nodes -days 30 -subj /CN=registries -addext subjectAltName={names}
            -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -keyout - -out -
        """
        done = subprocess.run(command.split(), check=True, capture_output=True)
        (self.folder / "trusted.pem").write_bytes(done.stdout)


class Sleep:
    """A `sleep` with a unique argument: its processes can be found from outside its container."""

    def __init__(self):
        self.command = f"sleep 600.{secrets.randbelow(10**12):012}"
        self._seen = set()

    def processes(self):
        return processes(f"{self.command} ")

    def wait(self):
        """Wait until it runs; until it runs again, if this is called again."""
        self._seen |= wait_for(lambda: self.processes() - self._seen, what=f"for {self.command}")


def processes(pattern):
    """Return the ids of the processes, in containers too, whose words fit a pattern.

    A blank follows each word.
    """
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
            if re.fullmatch(pattern, words):
                found.add(int(folder.name))
    return found


def end(processes):
    """Kill processes."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
