"""What tests and tools ask of a real engine."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple


def wait_for(condition: Callable[[], Any], seconds: float = 60, what: str = "") -> Any:
    """Ask again and again until the answer is true, and return it; the limit is generous, for slow machines."""
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


class _Connection(http.client.HTTPConnection):
    """A connection to an engine's socket."""

    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(host: str, question: str) -> Any:
    """Ask an engine by its API: starting the docker program takes ten times as long as the answer."""
    with contextlib.closing(_Connection(host[len("unix://") :])) as connection:
        connection.request("GET", question)
        return json.loads(connection.getresponse().read())


def census() -> dict[str, list[str]]:
    """List all that is on the real engine."""
    host = os.environ.get("DOCKER_HOST", "")
    if host.startswith("unix://"):
        images = ask(host, "/images/json?all=1")
        return {
            "containers": sorted(container["Id"] for container in ask(host, "/containers/json?all=1")),
            "images": sorted(image["Id"] for image in images),
            "tags": sorted(tag for image in images for tag in image["RepoTags"] or () if "<none>" not in tag),
            "volumes": sorted(volume["Name"] for volume in ask(host, "/volumes")["Volumes"] or ()),
        }
    tags = docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()
    return {
        "containers": sorted(docker("ps", "--all", "--quiet", "--no-trunc").split()),
        "images": sorted(set(docker("images", "--all", "--quiet", "--no-trunc").split())),
        "tags": sorted(tag for tag in tags if "<none>" not in tag),
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
    """A dockerd of our own, in a network of its own, that can be killed, frozen and started again.

    `network` gives it a bridge (its containers then reach each other and nothing else; BuildKit runs no
    command without one, and each container costs half as much again), `disk` a disk of so many MiB, and
    `hub` a Docker Hub.
    """

    def __init__(
        self, folder: Path, *, network: bool = False, disk: int = 0, hub: FakeHub | None = None
    ) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/docker.sock"
        self.process: Any = None
        self.hub = hub
        self._network = network
        self._disk = disk

    def start(self) -> None:
        self._end_remains()
        # Namespaces of its own: a second dockerd would delete the first one's network bridge, and its
        # mounts would outlive a kill.
        words = ["unshare", "--net", "--mount", "sh", "-euc", self._preparation() + 'exec dockerd "$@"', "sh"]
        words += ["--host", self.host, "--iptables=false", "--ip-forward=false"]
        words += [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec"]
        words += [f"--pidfile={self.folder}/pid", *([] if self._network else ["--bridge=none"])]
        # Compiling a filter of system calls is not what is tested, and costs a tenth of each container's time.
        (self.folder / "all.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
        words += [f"--seccomp-profile={self.folder}/all.json"]
        environment = {**os.environ, **(self.hub.environment() if self.hub else {})}
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(
                words, stdout=log, stderr=log, start_new_session=True, env=environment
            )
        wait_for(self.answers, what="for the private engine to start")
        if self.hub:
            wait_for((self.hub.folder / "ready").exists, what="for the engine's Docker Hub to start")

    def answers(self) -> bool:
        assert self.process.poll() is None, "the private engine ended"
        with contextlib.suppress(OSError, ValueError):
            return bool(ask(self.host, "/version"))
        return False

    def _preparation(self) -> str:
        """Return the shell commands that furnish the engine's namespaces."""
        commands = "ip link set lo up\n"
        if self._disk:
            data = self.folder / "data"
            data.mkdir(exist_ok=True)
            commands += f"mount -t tmpfs -o size={self._disk}m tmpfs {data}\n"
        if self.hub:
            commands += self.hub.preparation()
        return commands

    def inside(self, *words: str) -> bytes:
        """Run a command in the engine's namespaces."""
        enter = ["nsenter", f"--target={self.process.pid}", "--net", "--mount"]
        return subprocess.run([*enter, *words], stdout=subprocess.PIPE, check=True).stdout

    def _end_remains(self) -> None:
        """Kill containerd and the shims that a killed engine left, as a crash of its machine would.

        A new engine waits in vain for the old containerd. It may never hear of the end of a container whose
        shim outlived both, and then refuses to remove it until its next start.
        """
        for pid, words in command_lines():
            if b"containerd" in words[0] and f"{self.folder}/".encode() in b" ".join(words):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for file in self.folder.glob("exec/**/containerd.pid"):
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


class FakeHub:
    """A fake Docker Hub, which a private engine takes for the real one.

    It lives in the engine's own network: a name server that knows no other name, and a registry on
    127.0.0.1 that answers as `behave` was told last: "missing" (no such image), "limits"
    (toomanyrequests), "hangs up", or "away" (its name is not known either). On port 80 of the same
    address every download breaks off.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "resolv.conf").write_text("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n")
        (folder / "hosts").write_text("127.0.0.1 localhost\n")
        self._make_certificate()
        self.behave("missing")

    def behave(self, how: str) -> None:
        """Answer this way from now on."""
        (self.folder / "behaviour").write_text(how)

    def environment(self) -> dict[str, str]:
        """Return what makes dockerd trust this Hub."""
        return {"SSL_CERT_FILE": f"{self.folder}/cert.pem"}

    def preparation(self) -> str:
        """Return the shell commands that start it in namespaces of its own."""
        program = f"{sys.executable} -S -E {Path(__file__).with_name('fake_hub.py')} {self.folder}"
        return (
            f"mount --bind {self.folder}/hosts /etc/hosts\n"
            f"mount --bind {self.folder}/resolv.conf /etc/resolv.conf\n"
            f"rm -f {self.folder}/ready\n"
            f"{program} & \n"
        )

    def _make_certificate(self) -> None:
        words = ["openssl", "req", "-x509", "-nodes", "-days", "30", "-newkey", "ec"]
        words += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=registry-1.docker.io"]
        words += ["-addext", "subjectAltName=DNS:registry-1.docker.io,DNS:auth.docker.io"]
        words += ["-keyout", f"{self.folder}/key.pem", "-out", f"{self.folder}/cert.pem"]
        subprocess.run(words, check=True, capture_output=True)


class Proxy:
    """Stands between the docker command line and an engine: it can cut connections, or let them wait."""

    def __init__(self, folder: Path, engine: PrivateEngine, *, tcp: bool = False) -> None:
        self._target = engine.host[len("unix://") :]
        if tcp:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.host = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            path = str(folder / "proxy.sock")
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(path)
            self._listener.listen(100)
            self.host = f"unix://{path}"
        self._open: list[socket.socket] = []
        self._flowing = threading.Event()
        self._flowing.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections that there are."""
        connections, self._open = self._open, []
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        """Let new connections wait, as systemd's docker.socket does while there is no engine."""
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()

    def close(self) -> None:
        self.release()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._flowing.wait()
        engine = socket.socket(socket.AF_UNIX)
        with client, engine, contextlib.suppress(OSError):
            engine.connect(self._target)
            self._open += [client, engine]
            back = threading.Thread(target=self._pump, args=(engine, client), daemon=True)
            back.start()
            self._pump(client, engine)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for data in iter(lambda: source.recv(65536), b""):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)  # the other direction of a hijacked connection goes on


def command_lines() -> Iterator[tuple[int, list[bytes]]]:
    """Yield id and argv of all processes on this machine, in containers too."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            yield int(name), Path("/proc", name, "cmdline").read_bytes().split(b"\0")[:-1] or [b""]


def processes(*words: str) -> list[int]:
    """Return the ids of all processes of this argv."""
    wanted = [word.encode() for word in words]
    return [pid for pid, argv in command_lines() if argv == wanted]


def docker_programs(command: str) -> list[int]:
    """Return the ids of the children of this process that are docker commands of this kind."""
    found = []
    for pid, words in command_lines():
        with contextlib.suppress(OSError):
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and words[1:2] == [command.encode()]:
                found.append(pid)
    return found
