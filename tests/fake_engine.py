"""A docker engine for tests, in the process that starts docker: it plays subprocess.Popen.

It does not test docker. Images and containers are files, and the /bin/sh of a container is that of
this machine: it has ended when `docker run` begins. What hangs lets the clock run, so that nobody
waits. inject() lets calls fail, hang or die. A folder has all of it:

calls        a line per call: its name and arguments
settings     a dict: what the engine returns, and the faults
images/      a file per tag
containers/  a file per container: its state
root/        the working folder of all containers
programs/    the first folder on their PATH: `sleep 10`, or longer, hangs
lost         exists while no engine answers
site/        on the PYTHONPATH, it gives this engine to all Pythons, with the real clock

A call's name is its subcommand, such as "build" or "image rm". The experiments have names of their
own: "control COPY", "control RUN" and "control run" of the trivial Dockerfile, "from" of a
Dockerfile that is only a FROM, "syntax" of one with today's syntax.

A Dockerfile may have any lines; these mean something:

FROM IMAGE      fails with settings["pull"][IMAGE], or that of its registry, unless it is there
COPY missing …  fails
COPY --link …   fails if the builder is old
RUN exit N      fails with this exit code, after it has printed "last words of the build"
RUN sleep       never ends
RUN once        is killed the first time, unless it goes wrong anyway
"""

from __future__ import annotations

import ast
import collections
import contextlib
import errno
import functools
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, NamedTuple

SETTINGS: dict[str, Any] = {
    "version": {
        "Client": {"Version": "28.2.2"},
        "Server": {"Version": "20.10.24", "Os": "linux", "Arch": "amd64"},
    },
    "info": {"Driver": "overlay2", "NCPU": 4, "MemTotal": 2**32},
    "image": {"Id": "sha256:" + "1d" * 32, "Size": 1234, "Os": "linux", "Architecture": "amd64"},
    "builder": "legacy",  # or another one of BUILDERS
    "is_old": False,  # the builder
    "pull": {},  # docker's error by image or registry
    "environment": {},  # of a container, beside PATH
    "shell": "/bin/sh",  # "" if the image has none; None: nothing runs, see Engine._pretend()
    "state": {},  # of a container, for `docker container inspect`
    "service": {},  # what differs in the state of a container that is detached
    "own_command": "",  # why ENTRYPOINT and CMD cannot be started
    "listens": True,  # it does so on its port
    "log": "",  # what it has printed
    "faults": [],
}
LOST = "Cannot connect to the Docker daemon at unix:///fake. Is the docker daemon running?\n"
CONTROL = ("COPY . ", "RUN [")  # the last line of the control experiment
KILLED = -signal.SIGKILL
HANGS = signal.SIGUSR2  # what `sleep` sends to all processes of its container
SLEEP = f"""#!/bin/sh
case $1 in [1-9][0-9]*) kill -{HANGS} 0 ;; esac
exec /bin/sleep "$@"
"""
SITE = """
import sys
sys.path.append({tests!r})
import fake_engine
sys.path.pop()
fake_engine.Engine({folder!r}).install()
"""
PROCESS = 2**23  # from here on no process has such an id
LATE = 1.0  # seconds in which an engine completes what a docker has begun that was killed
START, KILL_GROUP = subprocess.Popen, os.killpg


class Builder(NamedTuple):
    """What a builder prints."""

    begin: str
    pull: str  # the step that asks a registry
    step: str
    printed: str  # a line of a RUN
    done: str
    failed: str
    run_failed: str  # the error of a RUN
    missing: str  # the error of a COPY
    exit_code: int | None = None  # instead of that of the RUN


BUILDERS = {
    "legacy": Builder(
        begin="Sending build context to Docker daemon  2.048kB\n",
        pull="",
        step="Step {at}/{of} : {line}\n",
        printed="{text}\n",
        done="",
        failed="{error}\n",
        run_failed="The command '/bin/sh -c {words}' returned a non-zero code: {code}",
        missing="COPY failed: stat missing: file does not exist",
    ),
    "buildkit": Builder(
        begin="#1 [internal] load build definition from Dockerfile\n#1 DONE 0.0s\n\n",
        pull="#{n} [internal] load metadata for {words}\n",
        step="#{n} [{at}/{of}] {line}\n",
        printed="#{n} 0.100 {text}\n",
        done="#{n} DONE 0.0s\n\n",
        failed="#{n} ERROR: {error}\n------\nERROR: failed to solve: {error}\n",
        run_failed='process "/bin/sh -c {words}" did not complete successfully: exit code: {code}',
        missing='failed to calculate checksum of ref 1d::2e: "/missing": not found',
        exit_code=1,
    ),
    "buildah": Builder(
        begin="",
        pull="",
        step="STEP {at}/{of}: {line}\n",
        printed="{text}\n",
        done="",
        failed='Error: building at STEP "{line}": {error}\n',
        run_failed="while running runtime: exit status {code}",
        missing='copier: stat: "/missing": no such file or directory',
    ),
}


class Reply(NamedTuple):
    """What a docker command prints, and its exit code: negative for a signal, None if it hangs."""

    code: int | None = 0
    stdout: str = ""
    stderr: str = ""
    late: Callable | None = None  # what the engine does if the command is killed

    def cut(self):
        """Return it without the second half of what it prints."""
        out, err = (text[: len(text) // 2] for text in self[1:3])
        return self._replace(stdout=out, stderr=err)


class Call:
    """A docker command."""

    def __init__(self, words, stdin, environment):
        at = 2 if words[0] in ("image", "container") else 1
        self.command, self.words = " ".join(words[:at]), words[at:]
        given = list(itertools.takewhile(lambda word: word[:1] == "-" != word, self.words))
        self.options = dict(word.partition("=")[::2] for word in given)
        self.operands = self.words[len(given) :]
        self.platform = (environment or {}).get("DOCKER_DEFAULT_PLATFORM")
        self.lines = []  # of the Dockerfile
        self.is_silent = False  # Something else is printed than what a builder prints.
        if self.command == "build":
            file = self.options.get("--file", "-")
            data = stdin.read() if file == "-" else Path(file).read_bytes()
            self.lines = data.decode(errors="replace").splitlines()
        self.name = self._name()

    def _name(self):
        last = self.lines[-1] if self.lines else ""
        if self.command == "run" and self.options.get("--entrypoint", "/bin/sh") != "/bin/sh":
            return "control run"
        if self.options.get("--file", "-") != "-" or not last:
            return self.command
        if last.startswith(CONTROL) and self.lines[0] == "FROM scratch":
            return f"control {last.split()[0]}"
        if self.lines[0] == "FROM scratch":
            return "syntax"
        return "from" if self.operands == ["-"] else self.command


class Clock:
    """The time of the evaluator: it passes for who waits. Tests run in threads; each has its own.

    Otherwise one that hangs would let the others reach their time limits.
    """

    def __init__(self):
        self.now = 1000.0  # the latest of all
        self._thread = threading.local()

    def begin_thread(self):
        self._thread.now = self.now

    def monotonic(self):
        return getattr(self._thread, "now", self.now)

    def sleep(self, seconds):
        now = self.monotonic() + max(seconds, 0.001)
        if hasattr(self._thread, "now"):
            self._thread.now = now
        self.now = max(self.now, now)


def new_file():
    """Return a file without a name: a pipe would be full after 64 KiB."""
    if hasattr(os, "memfd_create"):  # since Python 3.8; ten times as fast
        return os.fdopen(os.memfd_create("output"), "w+b")
    return tempfile.TemporaryFile()


class Process:
    """Plays a subprocess.Popen."""

    def __init__(self, pid, call, reply, stderr, clock):
        self.pid, self.call, self.late, self.returncode = pid, call, reply.late, None
        self._code, self._clock = reply.code, clock
        is_one = stderr == subprocess.STDOUT
        self.stdout = self._file(reply.stdout + reply.stderr * is_one)
        self.stderr = self._file(reply.stderr) if stderr == subprocess.PIPE else None
        if hasattr(stderr, "write"):
            stderr.write(reply.stderr.encode(errors="surrogateescape"))

    def _file(self, text):
        file = new_file()
        file.write(text.encode(errors="surrogateescape"))
        file.seek(0)
        return file

    def end(self, code):
        self._code = code

    def poll(self):
        self.returncode = self._code
        return self.returncode

    def wait(self, timeout=None):
        if self.poll() is None:
            self._clock.sleep(timeout)
            raise subprocess.TimeoutExpired("docker", timeout)
        return self.returncode


class DockerError(Exception):
    """An error of docker, with an exit code."""

    def __init__(self, text, code=1):
        super().__init__(f"Error response from daemon: {text}\n")
        self.code = code


class Engine:
    """The engine, and what tests ask of it."""

    def __init__(self, folder):
        self.folder, self.root = Path(folder), Path(folder, "root")
        self.images, self.containers = self.folder / "images", self.folder / "containers"
        self.clock: Any = time
        self.killed = []  # the names of calls that were killed, each with its signal
        self.taken = threading.Semaphore(0)  # signals that the evaluator has taken
        self.away, self.answers = 0, ()  # for so many further commands, without these
        self.late = None  # when the engine completes what was killed, and this as a function
        self._lock = threading.Lock()
        self._numbers = collections.Counter()  # of calls by name; "" are all
        self._once = 0  # RUNs and tests with this word
        self._processes = {}
        self._stamp, self._settings = None, {}
        if not self.folder.exists():
            self._make()

    def _make(self):
        for name in ("images", "containers", "root", "programs", "site"):
            (self.folder / name).mkdir(parents=True)
        sleep = self.folder / "programs" / "sleep"
        sleep.write_text(SLEEP)
        sleep.chmod(0o755)
        text = SITE.format(tests=str(Path(__file__).parent), folder=str(self.folder))
        self.site = str(self.folder / "site")
        Path(self.site, "sitecustomize.py").write_text(text)
        (self.folder / "calls").touch()
        self.set(**SETTINGS)

    def install(self):
        """Let this process use the engine, with the real clock."""
        subprocess.Popen, os.killpg = self.start, self.kill_group

    def patch(self, monkeypatch):
        """Let the evaluator use this engine and its clock in a test."""
        import DockerfileEvaluator as de

        interrupt = de.Docker.interrupt

        def take(docker, *words):
            interrupt(docker, *words)
            self.taken.release()

        self.clock = Clock()
        own_clock = functools.partial(ThreadPoolExecutor, initializer=self.clock.begin_thread)
        monkeypatch.setattr(subprocess, "Popen", self.start)
        monkeypatch.setattr(os, "killpg", self.kill_group)
        monkeypatch.setattr(de, "time", self.clock)
        monkeypatch.setattr(de, "ThreadPoolExecutor", own_clock)
        monkeypatch.setattr(de, "POLL", 1.0)  # seconds, of the clock
        monkeypatch.setattr(de.Docker, "interrupt", take)

    # For tests

    def set(self, **changes):
        """Change settings; a dict, such as version, is given as what differs from the default."""
        settings = dict(self.settings) if self._stamp else {}
        for name, value in changes.items():
            settings[name] = {**SETTINGS[name], **value} if isinstance(value, dict) else value
        new = self.folder / "new"  # Other processes may read at the same time.
        new.write_text(repr(settings))
        os.replace(str(new), str(self.folder / "settings"))
        self._settings, self._stamp = settings, self._look()

    def fault(self, on, do="fail", **details):
        """Let a call fail, or another thing happen: see FAULTS.

        It is `on` calls of a name ("*": of all), `given` a word that the call has: on the `nth` of
        them, on all `since` that one, or on all; or only on the call number `at` of all calls.
        """
        self.set(faults=[*self.settings["faults"], {"on": on, "do": do, **details}])

    def inject(self, faults):
        r"""Let calls fail, in words, with "; " between two calls: build nth=1 stderr='a\nb'.

        "pull IMAGE=ERROR": docker cannot get this image, or any of this registry.
        """
        for line in filter(None, faults.split("; ")):
            on, *words = shlex.split(line)
            pairs = (word.replace("\\n", "\n").split("=", 1) for word in words)
            details = {key: int(text) if text.isdigit() else text for key, text in pairs}
            self.set(pull=details) if on == "pull" else self.fault(on, **details)

    def shell(self, *lines):
        """Let a script play the image's /bin/sh."""
        file = self.folder / "shell"
        file.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        file.chmod(0o755)
        self.set(shell=str(file))

    def names(self):
        """Return the names of all calls."""
        return [name for name, _ in self._calls()]

    def calls(self, name):
        """Return the arguments of each call of a name."""
        return [words for call, words in self._calls() if call == name]

    def count(self, name):
        return self.names().count(name)

    def left(self):
        """Return the names of all containers and images that exist."""
        self._catch_up(float("inf"))
        return sorted(os.listdir(str(self.containers)) + os.listdir(str(self.images)))

    def _calls(self):
        *whole_lines, _ = (self.folder / "calls").read_text().split("\n")
        return map(ast.literal_eval, whole_lines)

    def repair(self):
        """Let all further calls work."""
        self.set(faults=[])
        self.away = 0

    # Commands

    @property
    def settings(self):
        """The settings; another process may have changed them."""
        if self._look() != self._stamp:
            self._stamp = self._look()
            self._settings = ast.literal_eval((self.folder / "settings").read_text())
        return self._settings

    def _look(self):
        stat = os.stat(str(self.folder / "settings"))
        return stat.st_ino, stat.st_mtime_ns

    def start(self, argv, *words, stdin=None, stderr=None, env=None, **more):
        """Play subprocess.Popen()."""
        if argv[0] != "docker":
            return START(argv, *words, stdin=stdin, stderr=stderr, env=env, **more)
        call = Call([os.fsdecode(word) for word in argv[1:]], stdin, env)
        with self._lock:
            self._numbers.update([call.name, ""])
            number, at = self._numbers[call.name], self._numbers[""]
            with (self.folder / "calls").open("a") as file:
                file.write(f"{(call.name, call.words)!r}\n")
        self._catch_up(self.clock.monotonic())
        faults = [
            fault
            for fault in self.settings["faults"]
            if fault["on"] in (call.name, "*")
            and fault.get("given", "") in ("", *call.words)
            and fault.get("nth", number) == number >= fault.get("since", 1)
            and fault.get("at", at) == at
        ]
        if "once" in "\n".join([*call.lines, *call.words[-2:]]):
            self._once += 1 + bool(faults)
        process = Process(PROCESS + at, call, self._reply(call, faults), stderr, self.clock)
        self._processes[process.pid] = process
        return process

    def kill_group(self, pid, number):
        """Play os.killpg()."""
        if pid not in self._processes:
            return KILL_GROUP(pid, number)
        process = self._processes[pid]
        self.killed.append((process.call.name, number))
        self.complete(process.late)
        return process.end(-number)

    def complete(self, work):
        """Let the engine complete a bit later what a docker has begun."""
        if work:
            self.late = (self.clock.now + LATE, work)

    def _catch_up(self, now):
        """Do what is late."""
        if self.late and now >= self.late[0]:
            self.late, (_, work) = None, self.late
            work()

    def _reply(self, call, faults):
        """Return the reply to a call with some faults, the first of which happens first."""
        if faults:
            fault, *others = faults
            work = functools.partial(self._reply, call, others)
            return FAULTS[fault["do"]](self, call, work, fault)
        if self.away > 0 and call.command not in self.answers:
            self.away -= 1
            return Reply(1, "", LOST)
        if (self.folder / "lost").exists():
            return Reply(1, "", LOST)
        try:
            return getattr(self, "_" + call.command.replace(" ", "_"))(call)
        except DockerError as error:
            return Reply(error.code, "", str(error))

    def _version(self, _call):
        return Reply(stdout=json.dumps(self.settings["version"]))

    def _info(self, _call):
        return Reply(stdout=json.dumps(self.settings["info"]))

    # Images

    def _image(self, tag):
        return self.images / tag.replace("/", "%")

    def _need_image(self, tag, code=1):
        if not self._image(tag).exists():
            raise DockerError(f"No such image: {tag}", code)

    def _image_ls(self, _call):
        return Reply(stdout="".join(f"{tag}\n" for tag in os.listdir(str(self.images))))

    def _image_inspect(self, call):
        self._need_image(call.operands[0])
        return Reply(stdout=json.dumps([self.settings["image"]]))

    def _image_tag(self, call):
        tag, other = call.operands
        self._need_image(tag)
        self._image(other).touch()
        return Reply()

    def _image_rm(self, call):
        (tag,) = call.operands
        self._need_image(tag)
        if any(self._state(name).get("Image") == tag for name in os.listdir(str(self.containers))):
            if "--force" not in call.options:
                raise DockerError("conflict: a container is using its referenced image")
            self._image("<none>").touch()  # The containerd store keeps it without a name.
        self._image(tag).unlink()
        return Reply()

    def _build(self, call):
        builder = BUILDERS[self.settings["builder"]]
        log = [builder.begin]
        reply = Reply()
        if self.settings["is_old"] and " --link" in str(call.lines):  # A parser runs before a step.
            reply = Reply(1, "", "dockerfile parse error line 2: Unknown flag: link")
            return reply._replace(stdout="".join(log) * (not call.is_silent))
        for at, line in enumerate(call.lines, 1):
            name, _, words = line.partition(" ")
            step = {"n": at + 1, "at": at, "of": len(call.lines), "line": line, "words": words}
            title = builder.pull if name == "FROM" and words != "scratch" else ""
            log.append((title or builder.step).format(**step))
            code, error = self._instruction(call, builder, name, words)
            if name == "RUN" and code:
                text = "last words of the build"
                log.append(builder.printed.format(text=text, **step))
                error = error or builder.run_failed.format(code=code, **step)
                code = builder.exit_code or code
            if code != 0:
                end = builder.failed.format(error=error, **step) if code else ""
                reply = Reply(code, "", end)
                break
            log.append(builder.done.format(**step))
        if reply.code == 0:
            self._image(call.options["--tag"]).touch()
        return reply._replace(stdout="".join(log) * (not call.is_silent))

    def _instruction(self, call, builder, name, words):
        """Return the exit code of an instruction, None if it never ends, and its error."""
        if name == "FROM" and words:
            problem = self._pull(words.split()[0])
            return int(bool(problem)), problem
        if words.startswith("missing"):
            return 1, builder.missing
        if words.startswith('["/') and "FROM scratch" in call.lines[:2]:
            program = words.strip('["]')
            return 1, f"OCI runtime create failed: exec: {program}: no such file or directory"
        return self._exit_code(words) if name == "RUN" else 0, ""

    def _pull(self, image):
        """Return why docker cannot get an image, or ""."""
        if image == "scratch" or self._image(image).exists():
            return ""
        first = image.split("/")[0]
        registry = first if "." in first else "docker.io"
        problems = self.settings["pull"]
        return problems.get(image) or problems.get(registry, "")

    def _exit_code(self, command):
        """Return the exit code of a RUN or a test that is not run, None if it never ends."""
        if command.startswith("once") and self._once == 1:
            return 137
        found = re.match(r"exit (\d+)", command)
        return None if command.startswith("sleep") else int(found[1]) if found else 0

    # Containers

    def _state(self, name):
        """Return the state of a container, {} if another thread writes or removes it just now."""
        with contextlib.suppress(FileNotFoundError):
            return ast.literal_eval((self.containers / name).read_text() or "{}")
        return {}

    def _need_container(self, name):
        if not (self.containers / name).exists():
            raise DockerError(f"No such container: {name}")

    def write_state(self, name, **state):
        """Let a container exist."""
        (self.containers / name).write_text(repr(state))

    def _ps(self, _call):
        return Reply(stdout="".join(f"{name}\n" for name in os.listdir(str(self.containers))))

    def _container_inspect(self, call):
        (name,) = call.operands
        self._need_container(name)
        return Reply(stdout=json.dumps({**self._state(name), **self.settings["state"]}))

    def _container_rm(self, call):
        (name,) = call.operands
        self._need_container(name)
        (self.containers / name).unlink()
        return Reply()

    def _run(self, call):
        tag, *words = call.operands
        name, program = call.options["--name"], call.options.get("--entrypoint", "/bin/sh")
        self._need_image(tag, 125)
        if call.platform:
            raise DockerError("the image does not provide the specified platform", 125)
        shell = self.settings["shell"]
        state = {"Image": tag, "Running": False, "ExitCode": 0, "StartedAt": "0001"}
        self.write_state(name, **state)
        if program != "/bin/sh" or shell == "":
            reason = f"stat {program}: no such file or directory: unknown."
            raise DockerError(f'failed to create task: exec: "{program}": {reason}', 127)
        if self.settings["own_command"] and "--entrypoint" not in call.options:
            raise DockerError(self.settings["own_command"], 127)
        state.update(Running=True, StartedAt="2026")
        self.write_state(name, **state)
        if "--detach" in call.options:
            self.write_state(name, **{**state, **self.settings["service"]})
            return Reply(stdout="1d\n")
        argv = [shell if word == "/bin/sh" else word for word in (program, *words)]
        reply = self._execute(argv) if shell else self._pretend(words)
        if reply.code is not None:
            self.write_state(name, **{**state, "Running": False, "ExitCode": reply.code})
            if "--rm" in call.options:
                (self.containers / name).unlink()
        return reply

    def _exec(self, call):
        """Run a test beside a service, or wait until that listens on its port."""
        name, *words = call.operands
        self._need_container(name)
        if not self._state(name)["Running"]:
            raise DockerError(f"container {name} is not running")
        if len(words) == 3:  # A test has arguments.
            return Reply(0 if self.settings["listens"] else None)
        shell = self.settings["shell"]
        return self._execute([shell, *words[1:]]) if shell else self._pretend(words[1:])

    def _logs(self, _call):
        return Reply(stdout=self.settings["log"])

    def _execute(self, argv):
        """Run a container's first process to its end; what it has left ends with it."""
        path = f"{self.folder / 'programs'}:{os.environ['PATH']}"
        with new_file() as out, new_file() as err:
            process = START(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=str(self.root),
                env={"PATH": path, **self.settings["environment"]},
                start_new_session=True,
            )
            code = process.wait()
            with contextlib.suppress(ProcessLookupError):
                KILL_GROUP(process.pid, signal.SIGKILL)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="surrogateescape"))
        return Reply(None if code == -HANGS else 128 - code if code < 0 else code, *texts)

    def _pretend(self, words):
        """Do as if a test had run, whose command is `exit N`, `sleep`, `once` or anything else."""
        nonce, command = words[3], " ".join(words[4:])
        code = self._exit_code(command)
        end = "" if code is None else f"{command}\n{nonce}=E {code}\n"
        return Reply(code, f"{nonce}=B\n{end}")


# What else can happen to a call: functions of the engine, the call, its work and the fault


def printed(_engine, call, work, fault):
    call.is_silent = True
    reply = work()
    texts = (fault.get("stdout", "") + reply.stdout, fault.get("stderr", "") + reply.stderr)
    return reply._replace(stdout=texts[0], stderr=texts[1])


def failed(*words):
    return printed(*words[:2], lambda: Reply(words[3].get("code", 1)), words[3])


def lost(engine, _call, work, _fault):
    (engine.folder / "lost").touch()
    return work()


def found(engine, _call, work, _fault):
    (engine.folder / "lost").unlink()
    return work()


def slow(engine, _call, work, fault):
    engine.clock.sleep(fault["seconds"])
    return work()


def killed_within(engine, call, work, _fault):
    """What it has begun is left: a container that runs."""
    places = (engine.images, engine.containers)
    before = {path: path.read_text() for place in places for path in place.iterdir()}
    reply = work()
    for place in places:
        for path in place.iterdir():
            path.unlink()
    for path, text in before.items():
        path.write_text(text)
    if call.command == "run":
        engine.write_state(call.options["--name"], Running=True, ExitCode=0, StartedAt="2026")
    return reply.cut()._replace(code=KILLED)


def killed_and_done_later(engine, _call, work, _fault):
    engine.complete(work)
    return Reply(KILLED)


def hanging_and_created_later(engine, call, _work, _fault):
    """The engine creates the container of a `docker run` that was killed."""
    name = call.options["--name"]
    return Reply(None, late=functools.partial(engine.write_state, name, Running=True))


def cannot_start(*_):
    raise OSError(errno.EAGAIN, "no more processes")


def away(engine, call, _work, fault):
    """The engine is away for `count` commands, `but` for one that it still answers."""
    engine.away, engine.answers = fault["count"] - 1, (fault.get("but"),)
    return Reply(125 if call.command == "run" else 1, "", LOST)


def send(engine, number):
    """Send a signal; return when the evaluator has taken it."""
    signal.pthread_kill(threading.main_thread().ident, number)
    assert engine.taken.acquire(timeout=60)


def interrupted(engine, _call, _work, fault):
    """Send one signal or two; then it hangs. Real seconds may pass before."""
    time.sleep(fault.get("seconds", 0))
    for name in ("number", "again"):
        if name in fault:
            send(engine, fault[name])
    return Reply(None)


def interrupted_and_done(engine, _call, work, fault):
    send(engine, fault["number"])
    return work()


FAULTS = {
    "fail": failed,
    "print": printed,
    "hang": lambda *_: Reply(None),
    "sleep": slow,
    "die": lambda *_: Reply(KILLED),
    "lose the engine": lost,
    "find the engine": found,
    "away": away,
    "no process": cannot_start,
    "cut": lambda engine, call, work, _: work().cut(),
    "fail after": lambda engine, call, work, fault: Reply(1, work().stdout, fault["stderr"]),
    "hang after": lambda engine, call, work, _: work()._replace(code=None),
    "die within": killed_within,
    "die after": lambda engine, call, work, _: work()._replace(code=KILLED),
    "die, done later": killed_and_done_later,
    "hang, created later": hanging_and_created_later,
    "interrupt": interrupted,
    "interrupt and go on": interrupted_and_done,
}
