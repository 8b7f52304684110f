"""What tests and tools ask of a real engine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple


def wait_for(condition: Callable[[], Any], seconds: float = 60, what: str = "") -> Any:
    """Ask again and again until the answer is true, and return it; the time is there for slow machines."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"waited in vain {what}"
        time.sleep(0.02)


# Runs the command line in a process that prints, as its last line on stderr: exit code, memory in KiB
# (VmHWM of proc(5), since getrusage(2)'s ru_maxrss counts the process from which this one was forked), seconds.
MEASURED = """
import re, sys, time
sys.path.insert(0, sys.argv.pop(1))
import DockerfileEvaluator as de
started = time.perf_counter()
code = de.main(sys.argv[1:])
taken = time.perf_counter() - started
print(code, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], taken, file=sys.stderr)
"""


class Measured(NamedTuple):
    """The command line's exit code, its memory at most in MiB, and its time without Python's own start."""

    code: int
    memory: float
    seconds: float


def measured(*words: str) -> Measured:
    """Evaluate in a process of its own."""
    command = [sys.executable, "-c", MEASURED, str(Path(__file__).parent.parent), *words]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=600)
    code, memory, seconds = done.stderr.decode().splitlines()[-1].split()
    return Measured(int(code), int(memory) / 1024, float(seconds))


def docker(*words: str) -> str:
    """Ask the real engine."""
    done = subprocess.run(["docker", *words], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def census() -> dict[str, list[str]]:
    """List all that is on the real engine."""
    return {
        "containers": sorted(docker("ps", "--all", "--quiet", "--no-trunc").split()),
        "images": sorted(set(docker("images", "--all", "--quiet", "--no-trunc").split())),
        "tags": sorted(docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()),
        "volumes": sorted(docker("volume", "ls", "--quiet").split()),
    }


def engine_answers() -> bool:
    if not shutil.which("docker"):
        return False
    done = subprocess.run(["docker", "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def find_buildkit(folder: Path) -> str:
    """Return a docker command line that builds with BuildKit (by a plugin or itself), "" if none does."""
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
    for place in os.environ["PATH"].split(os.pathsep):
        candidate = os.path.join(place, "docker")
        if os.access(candidate, os.X_OK):
            words = [candidate, "build", "--force-rm", "--tag", "buildkit-tried", str(folder)]
            tried = subprocess.run(words, env=environment, capture_output=True)
            if tried.returncode == 0:
                docker("image", "rm", "buildkit-tried")
            if tried.returncode == 0 and b"#1 " in tried.stderr:
                return candidate
    return ""


class PrivateEngine:
    """A dockerd of our own, without a network, that can be killed, frozen and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/docker.sock"
        self.process: Any = None

    def start(self) -> None:
        self.forget_containerd()
        # Namespaces of its own: a second dockerd would delete the first one's network bridge, and its
        # mounts would outlive a kill.
        words = ["unshare", "--net", "--mount", "dockerd", "--host", self.host]
        words += [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec"]
        words += [f"--pidfile={self.folder}/pid", "--bridge=none", "--iptables=false", "--ip-forward=false"]
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        wait_for(self.answers, what="for the private engine to start")

    def answers(self) -> bool:
        return not subprocess.run(["docker", "--host", self.host, "version"], capture_output=True).returncode

    def forget_containerd(self) -> None:
        """Remove the traces of a killed engine's containerd, for which a new one would wait in vain."""
        for file in Path(self.folder).glob("exec/**/containerd.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)
            file.unlink()

    def load(self, saved: bytes) -> None:
        """Take images from `docker save`."""
        words = ["docker", "--host", self.host, "load", "--quiet"]
        subprocess.run(words, input=saved, check=True, stdout=subprocess.DEVNULL)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        self.process.wait(60)
