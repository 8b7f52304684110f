"""Real engines in tests: queries, private engines, fake registries, processes in containers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

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


# Runs main() and prints, as the last line on stderr: exit code, peak memory in KiB, seconds. The
# memory is VmHWM of proc(5): ru_maxrss of getrusage(2) includes the process that forked this one.
MEASURED = """
import re, sys, time
sys.path.insert(0, sys.argv.pop(1))
import DockerfileEvaluator as de
started = time.perf_counter()
code = de.main(sys.argv[1:])
taken = time.perf_counter() - started
memory = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(code, memory, taken, file=sys.stderr)
"""


class Measured(NamedTuple):
    """What a run of the evaluator took."""

    code: int
    memory: float  # peak, in MiB
    seconds: float  # without the start of Python


def measured(*words: str) -> Measured:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-c", MEASURED, str(Path(__file__).parent.parent), *words]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=600)
    code, memory, seconds = done.stderr.decode().splitlines()[-1].split()
    return Measured(int(code), int(memory) / 1024, float(seconds))


def docker(*words: str) -> str:
    """Run a docker command and return its output."""
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
    """Send a GET request to an engine's API, which is ten times as fast as the docker program."""
    with contextlib.closing(_Connection(host[len("unix://") :])) as connection:
        connection.request("GET", question)
        return json.loads(connection.getresponse().read())


def census() -> dict[str, list[str]]:
    """Return all containers, images, tags and volumes of the engine."""
    host = os.environ.get("DOCKER_HOST", "")
    if host.startswith("unix://"):
        images = ask(host, "/images/json?all=1")
        return {
            "containers": sorted(
                container["Id"] for container in ask(host, "/containers/json?all=1")
            ),
            "images": sorted(image["Id"] for image in images),
            "tags": sorted(
                tag for image in images for tag in image["RepoTags"] or () if "<none>" not in tag
            ),
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
    done = subprocess.run(
        ["docker", "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return done.returncode == 0


def find_buildkit(folder: Path) -> str:
    """Return a docker program that builds with BuildKit, itself or with buildx; "" if none does."""
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
    for place in os.environ["PATH"].split(os.pathsep):
        candidate = os.path.join(place, "docker")
        if os.access(candidate, os.X_OK):
            words = [candidate, "build", "--force-rm", "--tag", "buildkit-test", str(folder)]
            built = subprocess.run(words, env=environment, capture_output=True)
            if built.returncode == 0:
                docker("image", "rm", "buildkit-test")
            if built.returncode == 0 and b"#1 " in built.stderr:
                return candidate
    return ""


class PrivateEngine:
    """A dockerd in namespaces of its own, which a test may kill, stop and start again.

    `network` adds a bridge: containers reach each other and nothing else. BuildKit runs no command
    without a bridge, but a bridge makes each container slower by half. `disk` is the size in MiB of
    a tmpfs as data root, `hub` the fake registries. With `mirror` it asks their mirror of Docker
    Hub first.
    """

    def __init__(
        self,
        folder: Path,
        *,
        network: bool = False,
        disk: int = 0,
        hub: FakeHub | None = None,
        mirror: bool = False,
    ) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/docker.sock"
        self.process: Any = None
        self.hub = hub
        self._network = network
        self._disk = disk
        self._mirror = mirror

    def start(self) -> None:
        """Start dockerd and wait until it answers."""
        self._kill_orphans()
        # In the network of the host, a second dockerd would delete the bridge of the first one.
        script = self._preparation() + 'exec dockerd "$@"'
        words = ["unshare", "--net", "--mount", "sh", "-euc", script, "sh"]
        words += ["--host", self.host, "--iptables=false", "--ip-forward=false"]
        words += [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec"]
        words += [f"--pidfile={self.folder}/pid", "--max-download-attempts=1"]
        if not self._network:
            words.append("--bridge=none")
        if self._mirror:
            words.append("--registry-mirror=http://127.0.0.1:8081")
        # Compiling the default seccomp filter takes a tenth of each container's time.
        (self.folder / "all.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
        words += [f"--seccomp-profile={self.folder}/all.json"]
        environment = {**os.environ, **(self.hub.environment() if self.hub else {})}
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(
                words, stdout=log, stderr=log, start_new_session=True, env=environment
            )
        wait_for(self.answers, what="for the private engine to start")
        if self.hub:
            wait_for((self.hub.folder / "ready").exists, what="for the fake registries to start")

    def answers(self) -> bool:
        assert self.process.poll() is None, f"dockerd ended, see {self.folder}/log"
        with contextlib.suppress(OSError, ValueError):
            return bool(ask(self.host, "/version"))
        return False

    def inside(self, *words: str) -> bytes:
        """Run a command in the engine's namespaces."""
        enter = ["nsenter", f"--target={self.process.pid}", "--net", "--mount"]
        return subprocess.run([*enter, *words], stdout=subprocess.PIPE, check=True).stdout

    def docker(self, *words: str, **more: Any) -> str:
        """Run a docker command on this engine and return its output."""
        done = subprocess.run(
            ["docker", "--host", self.host, *words], stdout=subprocess.PIPE, check=True, **more
        )
        return str(done.stdout, "utf-8")

    def load(self, saved: bytes) -> None:
        """Load images from the output of `docker save`."""
        self.docker("load", "--quiet", input=saved)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(60)

    def _preparation(self) -> str:
        """Return the shell commands that set up the namespaces, before the shell is dockerd."""
        # pytest-xdist kills workers that do not end in time after Ctrl-C. Then this ends dockerd,
        # which has the process id of the shell.
        watch = f"while kill -0 {os.getpid()}; do sleep 2; kill -0 $$ || exit; done; "
        watch += "kill $$; kill -CONT $$"
        commands = f"({watch}) 2>/dev/null &\nip link set lo up\n"
        if self._disk:
            data = self.folder / "data"
            data.mkdir(exist_ok=True)
            commands += f"mount -t tmpfs -o size={self._disk}m tmpfs {data}\n"
        if self.hub:
            commands += self.hub.preparation()
        return commands

    def _kill_orphans(self) -> None:
        """Kill containerd and the shims of an engine that was killed.

        A new dockerd waits for the old containerd in vain. It may miss the end of a container whose
        shim outlived both, and then cannot remove that container until its next start.
        """
        for pid, words in command_lines():
            if b"containerd" in words[0] and f"{self.folder}/".encode() in b" ".join(words):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for file in self.folder.glob("exec/**/containerd.pid"):
            file.unlink()


class FakeHub:
    """Fake public image registries, which a private engine takes for the real ones.

    The engine's network has a name server that knows no other name, and one TLS server for
    docker.io, ghcr.io, quay.io, gcr.io, mcr.microsoft.com, nvcr.io, public.ecr.aws,
    registry.k8s.io, registry.gitlab.com and their token endpoints. Every download from
    http://127.0.0.1/ breaks off. The behaviours of a registry:

    missing         no image exists; the error is that of the real registry
    limits          429, TOOMANYREQUESTS
    unavailable     503
    expired         401, incorrect username or password
    authentication  401, authentication required
    hangs up        the connection is closed without an answer
    away            the host name is unknown
    broken          every image exists, but the download of its layer breaks off
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "resolv.conf").write_text("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n")
        (folder / "hosts").write_text("127.0.0.1 localhost\n")
        self._make_certificate()
        self.behave("missing")

    def behave(self, how: str, host: str = "everywhere") -> None:
        """Set the behaviour of all registries, or of one, such as "docker.io".

        Then the others are "missing".
        """
        (self.folder / "new").write_text(f"{how}\n{host}\n")
        os.replace(self.folder / "new", self.folder / "behaviour")

    def environment(self) -> dict[str, str]:
        """Return what makes dockerd trust these registries."""
        return {"SSL_CERT_FILE": f"{self.folder}/cert.pem"}

    def preparation(self) -> str:
        """Return the shell commands that start the registries in an engine's namespaces."""
        program = f"{sys.executable} -S -E {fake_hub.__file__} {self.folder}"
        return (
            f"mount --bind {self.folder}/hosts /etc/hosts\n"
            f"mount --bind {self.folder}/resolv.conf /etc/resolv.conf\n"
            f"ip address add {fake_hub.ADDRESS} dev lo\n"
            f"rm -f {self.folder}/ready\n"
            f"echo $$ >{self.folder}/pid\n"
            f"{program} & \n"
        )

    def client(self, file: Path, program: str) -> None:
        """Write a script that runs a docker program in the registries' network.

        With BuildKit the client, not the engine, requests the token of a registry.
        """
        file.write_text(
            "#!/bin/sh\n"
            f"export SSL_CERT_FILE={self.folder}/cert.pem\n"
            f'exec nsenter --target="$(cat {self.folder}/pid)" --net --mount '
            f"""sh -c 'cd "$0" && exec "$@"' "$PWD" {program} "$@"\n"""
        )
        file.chmod(0o755)

    def _make_certificate(self) -> None:
        words = ["openssl", "req", "-x509", "-nodes", "-days", "30", "-newkey", "ec"]
        words += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=registries"]
        words += ["-addext", "subjectAltName=" + ",".join(f"DNS:{host}" for host in fake_hub.HOSTS)]
        words += ["-keyout", f"{self.folder}/key.pem", "-out", f"{self.folder}/cert.pem"]
        subprocess.run(words, check=True, capture_output=True)


class Sleep:
    """A `sleep` with a unique argument: its processes can be found from outside its container."""

    def __init__(self, seconds: int = 600) -> None:
        self.argument = f"{seconds}.{secrets.randbelow(10**12):012}"
        self.command = f"sleep {self.argument}"

    def test(self, **more: object) -> dict[str, Any]:
        """Return a test that runs this command, with the id "slow"."""
        return {
            "id": "slow",
            "type": "run_command",
            "params": {"command": self.command},
            "timeout": 300,
            **more,
        }

    def processes(self) -> set[int]:
        wanted = [b"sleep", self.argument.encode()]
        return {pid for pid, words in command_lines() if words == wanted}

    def wait(self) -> None:
        wait_for(self.processes, what=f"for {self.command} to run")


def command_lines() -> Iterator[tuple[int, list[bytes]]]:
    """Yield process id and arguments of all processes on this machine, in containers too."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            yield int(name), Path("/proc", name, "cmdline").read_bytes().split(b"\0")[:-1] or [b""]


def docker_children(command: str) -> list[int]:
    """Return the process ids of the `docker COMMAND` that this process has started."""
    found = []
    for pid, words in command_lines():
        with contextlib.suppress(OSError):
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and words[1:2] == [command.encode()]:
                found.append(pid)
    return found
