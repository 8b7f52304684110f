"""A docker engine for tests, in the process that starts docker: it plays subprocess.Popen.

It does not test docker. Images and containers are files, and the /bin/sh of a container is that of
this machine: it has ended when `docker run` begins. What hangs lets the clock run, so that nobody
waits. A folder has all of it:

calls        a line per call: its name and arguments
settings     a dict: what the engine returns, and the faults
images/      a file per tag
containers/  a file per container: its state
root/        the working folder of all containers
programs/    the first folder on their PATH: `sleep 10`, or longer, hangs
site/        on the PYTHONPATH, it gives this engine to all Pythons, with the real clock

A call's name is its subcommand, such as "build" or "image rm". The experiments have names of their
own: "control COPY", "control RUN" and "control run" of the trivial Dockerfile, "from" of a
Dockerfile that is only a FROM, "syntax" of one with today's syntax.

The builder is BuildKit. A Dockerfile may have any lines; these mean something:

FROM IMAGE      fails with settings["pull"][IMAGE], or that of its registry, unless it is there
COPY missing …  fails
RUN exit N      fails with this exit code, after it has printed "last words of the build"
RUN sleep       never ends
RUN ["/…"]      fails, since there is no such program

A fault is a line: the name of a call, or '*' for all, and words. "; " is between two faults:

    build nth=1 at='RUN make' prints='make: Cannot fork' error=2; 'image rm' do=hang

nth=N since=N             only the Nth call of this name; all since the Nth
given=WORD without=WORD   only calls with this argument; without it
at=TITLE prints=LINES     BuildKit's log ends with this step (do=hang: it is running; '': with none)
error=TEXT                docker's error then; a number is the exit code of a RUN
code=N stdout= stderr=    otherwise how the command ends, and what it prints
do=HOW                    it does not fail, but `hang`, `die`, … (FAULTS and ended() have all)

"pull IMAGE=ERROR" is another: docker cannot pull this image, or any of this registry.
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
from pathlib import Path
from typing import Callable, NamedTuple

SETTINGS = {
    "version": {
        "Client": {"Version": "28.2.2"},
        "Server": {"Version": "20.10.24", "Os": "linux", "Arch": "amd64"},
    },
    "info": {"Driver": "overlay2", "NCPU": 4, "MemTotal": 2**32},
    "image": {"Id": "sha256:" + "1d" * 32, "Size": 1234, "Os": "linux", "Architecture": "amd64"},
    "pull": {},  # docker's error by image or registry
    "environment": {},  # of a container, beside PATH
    "shell": "/bin/sh",  # "" if the image has none
    "state": {},  # what differs in the record of a container
    "networks": {"bridge": {"IPAddress": "172.17.0.2"}},  # of a container
    "listens": True,  # a service does so on its port
    "listeners": "\n",  # what the wait for that prints
    "faults": [],
}
LOST = "Cannot connect to the Docker daemon at unix:///fake. Is the docker daemon running?\n"
EXPERIMENTS = {"RUN": "control RUN", "FROM": "from", "LABEL": "syntax"}  # by the last instruction
KILLED = -signal.SIGKILL
HANGS = signal.SIGPROF  # what `sleep` sends to all processes of its container
SLEEP = f"""
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


class Reply(NamedTuple):
    """What a docker command prints, and its exit code: negative for a signal, None if it hangs."""

    code: int | None = 0
    stdout: str = ""
    stderr: str = ""
    late: Callable | None = None  # what the engine does if the command is killed


class Call:
    """A docker command."""

    def __init__(self, words, stdin):
        at = 2 if words[0] in ("image", "container") else 1
        self.command, self.words = " ".join(words[:at]), words[at:]
        given = list(itertools.takewhile(lambda word: word[:1] == "-" != word, self.words))
        self.options = dict(word.partition("=")[::2] for word in given)
        self.operands = self.words[len(given) :]
        self.name = self.command
        self.lines = []  # of the Dockerfile
        if self.command == "build":  # The evaluator pipes it, even where docker reads a file.
            self.lines = stdin.read().decode(errors="replace").splitlines()
        if self.operands == ["-"]:
            self.name = EXPERIMENTS[self.lines[-1].split()[0]]
        if "COPY . /content/" in self.lines:
            self.name = "control COPY"
        if self.options.get("--entrypoint", "/bin/sh") != "/bin/sh":
            self.name = "control run"


class Clock:
    """The time of the evaluator: it passes for who waits."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 0.001)


class Process:
    """Plays a subprocess.Popen."""

    def __init__(self, pid, call, reply, stderr, clock):
        self.pid, self.call, self.late, self._clock = pid, call, reply.late, clock
        self.returncode = reply.code
        self.stdout = self._file(reply.stdout + reply.stderr * (stderr == subprocess.STDOUT))
        self.stderr = self._file(reply.stderr) if stderr == subprocess.PIPE else None

    def _file(self, text):
        """Return a file, since a pipe would be full after 64 KiB."""
        file = tempfile.TemporaryFile()  # noqa: SIM115
        file.write(text.encode(errors="surrogateescape"))
        file.seek(0)
        return file

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            self._clock.sleep(timeout)
            raise subprocess.TimeoutExpired("docker", timeout)
        return self.returncode


def step(number, title, printed="", error="", code=0):
    """Return what BuildKit prints of a step: it may end, end the build, or (code None) hang."""
    printed = "".join(f"#N 0.1 {line}\n" for line in printed.splitlines())
    failed = f"#N ERROR: {error}\n------\n > {title}:\n------\nERROR: failed to solve: {error}\n"
    end = {0: "#N DONE 0.1s\n\n", None: ""}.get(code, failed)
    return f"#N {title}\n{printed}{end}".replace("#N", f"#{number}")


def run_error(command, code):
    """Return the error of a RUN that ended with an exit code."""
    return f'process "/bin/sh -c {command}" did not complete successfully: exit code: {code}'


FAILING = {  # instructions: docker's exit code, what is printed, and docker's error
    "COPY missing .*": (1, "", '"/missing": not found'),
    r"RUN (exit ([1-9]\d*).*)": (1, "last words of the build", run_error(r"\1", r"\2")),
    r'RUN (\["/\w+"\])': (
        *(1, r"runc run failed: exec: \1: no such file or directory", run_error(r"\1", 127)),
    ),
    "RUN sleep": (None, "", ""),
}


def instruction(line):
    """Return the exit code of docker, None if it never ends, what is printed, and the error."""
    for pattern, (code, printed, error) in FAILING.items():
        found = re.fullmatch(pattern, line)
        if found:
            return code, found.expand(printed), found.expand(error)
    return 0, "", ""


class Engine:
    """The engine, and what tests ask of it."""

    def __init__(self, folder):
        self.folder, self.root = Path(folder), Path(folder, "root")
        self.images, self.containers = self.folder / "images", self.folder / "containers"
        self.site = str(self.folder / "site")
        self.clock = time
        self.killed = []  # the names of calls that were killed, each with the number of its signal
        self.interrupted_at = None  # by the clock, the first time
        self.taken = threading.Semaphore(0)  # signals that the evaluator has taken
        self.away, self.answers = 0, ""  # for so many further commands, without this one
        self.late = None  # when the engine completes what was killed, and this as a function
        self._lock = threading.Lock()
        self._numbers = collections.Counter()  # of calls by name; "*" are all
        self._processes = {}
        self.settings = dict(SETTINGS)
        if self.folder.exists():
            self.settings = ast.literal_eval((self.folder / "settings").read_text())
        else:
            self._make()

    def _make(self):
        for name in ("images", "containers", "root", "programs", "site"):
            (self.folder / name).mkdir(parents=True)
        self._script("programs/sleep", SLEEP)
        text = SITE.format(tests=str(Path(__file__).parent), folder=str(self.folder))
        Path(self.site, "sitecustomize.py").write_text(text)
        (self.folder / "calls").touch()
        self.set()

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
        monkeypatch.setattr(subprocess, "Popen", self.start)
        monkeypatch.setattr(os, "killpg", self.kill_group)
        monkeypatch.setattr(de, "monotonic", self.clock.monotonic)
        monkeypatch.setattr(de, "sleep", self.clock.sleep)
        monkeypatch.setattr(de, "POLL", 1.0)  # seconds, of the clock
        monkeypatch.setattr(de.Docker, "interrupt", take)

    # For tests

    def set(self, **changes):
        """Change settings; a dict, such as version, is given as what differs from the default.

        Other processes read them when they start.
        """
        for name, value in changes.items():
            self.settings[name] = {**SETTINGS[name], **value} if isinstance(value, dict) else value
        (self.folder / "settings").write_text(repr(self.settings))

    def fault(self, on, do="fail", **details):
        """Let calls with the name `on` go wrong; the details are as in the lines above."""
        self.set(faults=[*self.settings["faults"], {"on": on, "do": do, **details}])

    def inject(self, faults):
        """Let calls go wrong as the lines above say."""
        for line in filter(None, faults.split("; ")):
            on, *words = shlex.split(line)
            pairs = (word.replace("\\n", "\n").split("=", 1) for word in words)
            details = {key: int(text) if text.isdigit() else text for key, text in pairs}
            self.set(pull=details) if on == "pull" else self.fault(on, **details)

    def shell(self, *lines):
        """Let a script play the image's /bin/sh."""
        self.set(shell=self._script("shell", "\n".join(lines)))

    def _script(self, path, text):
        file = self.folder / path
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return str(file)

    def log(self):
        """Return the name and the arguments of each call."""
        *whole_lines, _ = (self.folder / "calls").read_text().split("\n")
        return map(ast.literal_eval, whole_lines)

    def names(self):
        """Return the names of all calls."""
        return [name for name, _ in self.log()]

    def calls(self, name):
        """Return the arguments of each call of a name."""
        return [words for call, words in self.log() if call == name]

    def count(self, name):
        return len(self.calls(name))

    def left(self):
        """Return the names of all containers and images that exist."""
        self._catch_up(float("inf"))
        return sorted(os.listdir(str(self.containers)) + os.listdir(str(self.images)))

    def repair(self):
        """Let all further calls work."""
        self.set(faults=[])
        self.away = 0

    # Commands

    def start(self, argv, *words, stdin=None, stderr=None, env=None, **more):
        """Play subprocess.Popen()."""
        if argv[0] != "docker":
            return START(argv, *words, stdin=stdin, stderr=stderr, env=env, **more)
        assert not env["DOCKER_DEFAULT_PLATFORM"], "docker would look for another image"
        call = Call([os.fsdecode(word) for word in argv[1:]], stdin)
        with self._lock:
            self._numbers.update([call.name, "*"])
            numbers = dict(self._numbers)
            with (self.folder / "calls").open("a") as file:
                file.write(f"{(call.name, call.words)!r}\n")
        self._catch_up(self.clock.monotonic())
        faults = [
            fault
            for fault in self.settings["faults"]
            if fault["on"] in (call.name, "*")
            and fault.get("given", "") in ("", *call.words)
            and fault.get("without") not in call.words
            and fault.get("nth", numbers[fault["on"]]) == numbers[fault["on"]]
            and fault.get("since", 0) <= numbers[fault["on"]]
        ]
        pid = PROCESS + numbers["*"]
        process = Process(pid, call, self._reply(call, faults), stderr, self.clock)
        self._processes[pid] = process
        return process

    def kill_group(self, pid, number):
        """Play os.killpg()."""
        process = self._processes[pid]
        self.killed.append(f"{process.call.name} {number:d}")
        process.returncode = -number
        if process.late:
            self.late = (self.clock.now + LATE, process.late)

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
            return FAULTS.get(fault["do"], ended)(self, call, work, fault)
        if self.away > 0 and call.command != self.answers:
            self.away -= 1
            return Reply(1, "", LOST)
        try:
            return getattr(self, "_" + call.command.replace(" ", "_"))(call) or Reply()
        except FileNotFoundError as error:
            path = Path(error.filename)
            text = f"Error response from daemon: No such {path.parent.name[:-1]}: {path.name}\n"
            return Reply(125 if call.command == "run" else 1, "", text)

    def _version(self, call):
        return Reply(stdout=json.dumps(self.settings[call.command]))

    _info = _version

    # Images

    def _image(self, tag):
        return self.images / tag.replace("/", "%")

    def _image_ls(self, _call):
        return Reply(stdout="\n".join(os.listdir(str(self.images))))

    def _image_inspect(self, call):
        self._image(call.operands[0]).stat()
        return Reply(stdout=json.dumps([self.settings["image"]]))

    def _image_tag(self, call):
        tag, other = map(self._image, call.operands)
        tag.stat()
        other.touch()

    def _image_rm(self, call):
        for tag in call.operands:
            self._image(tag).unlink()

    def _build(self, call):
        log = ""
        for at, line in enumerate(call.lines, 1):
            found = re.match(r"FROM (\S+)", line)
            title = f"[internal] load metadata for {found[1]}" if found else f"[{at}/9] {line}"
            code, printed, error = self._pull(found[1]) if found else instruction(line)
            if code != 0:
                return Reply(code, "", log + step(at, title, printed, error, code))
            log += step(at, title)
        self._image(call.options["--tag"]).touch()
        return Reply(stderr=log)

    def _pull(self, image):
        """Return what becomes of a FROM, as instruction() does."""
        host = image.partition("/")[0]
        error = ""
        if image != "scratch" and not self._image(image).exists():
            names = (image, host if "." in host else "docker.io")
            error = next(filter(None, map(self.settings["pull"].get, names)), "")
        return int(error != ""), "", error

    # Containers

    def write_state(self, name, **state):
        """Let a container exist, which runs unless its state says otherwise."""
        state = {"Running": True, "ExitCode": 0, "StartedAt": "2026", **state}
        (self.containers / name).write_text(json.dumps(state))

    def _ps(self, _call):
        return Reply(stdout="\n".join(os.listdir(str(self.containers))))

    def _container_inspect(self, call):
        state = json.loads((self.containers / call.operands[0]).read_text())
        if "Networks" in call.options["--format"]:
            return Reply(stdout=json.dumps(self.settings["networks"]))
        return Reply(stdout=json.dumps({**state, **self.settings["state"]}))

    def _container_rm(self, call):
        for name in call.operands:
            (self.containers / name).unlink()

    def _run(self, call):
        tag, *words = call.operands
        name, program = call.options["--name"], call.options.get("--entrypoint", "")
        self._image(tag).stat()
        if program not in ("", self.settings["shell"] and "/bin/sh"):
            self.write_state(name, Running=False, StartedAt="0001")
            return Reply(127, "", f"docker: exec: stat {program}: no such file or directory\n")
        self.write_state(name)
        if "--detach" in call.options:
            return None
        reply = self._execute(words)
        if reply.code is not None:
            self.write_state(name, Running=False, ExitCode=reply.code)
            if "--rm" in call.options:
                (self.containers / name).unlink()
        return reply

    def _exec(self, call):
        """Run a test beside a service, or wait until that listens on its port."""
        name, program, *words = call.operands
        (self.containers / name).stat()
        if program != "/bin/sh":
            return Reply(127, f"exec: {program}: no such file or directory\n")
        if len(words) == 2:  # A test has arguments.
            return Reply(0 if self.settings["listens"] else None, self.settings["listeners"])
        return self._execute(words)

    def _logs(self, _call):
        pass

    def _execute(self, words):
        """Run the shell of a container to its end; what it has left ends with it."""
        shell = self.settings["shell"]
        path = f"{self.folder / 'programs'}:{os.environ['PATH']}"
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = START(
                [shell, *(shell if word == "/bin/sh" else word for word in words)],
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
            out.seek(0)
            err.seek(0)
            texts = [file.read().decode(errors="surrogateescape") for file in (out, err)]
        return Reply(None if code == -HANGS else 128 - code if code < 0 else code, *texts)


# What else can happen to a call: functions of the engine, the call, its work and the fault


def ended(engine, call, work, fault):
    """It fails, hangs or dies, before or "after" it has done its work, or prints something else.

    If a `docker run` that hangs is killed, the engine creates its container a bit later.
    """
    do, _, after = fault["do"].partition(" ")
    reply = work() if after or do == "print" else Reply()
    code = {"fail": fault.get("code", 1), "hang": None, "die": KILLED}.get(do, reply.code)
    if {"at", "error"} & set(fault):
        reply = reply._replace(stdout="", stderr=failed_log(fault, code))
    late = None
    if fault["do"] == "hang" and call.command == "run":
        late = functools.partial(engine.write_state, call.options["--name"])
    return Reply(code, fault.get("stdout", reply.stdout), fault.get("stderr", reply.stderr), late)


def failed_log(fault, code):
    """Return BuildKit's log of a build that ended, or hangs, at a step or beside all steps."""
    title, error = fault.get("at", ""), fault.get("error", "")
    if str(error).isdigit():
        error = run_error(title.partition(" ")[2], error)
    log = step(1, "[internal] load build definition from Dockerfile")
    if not title:
        return log + f"ERROR: failed to solve: {error}\n" * bool(error)
    # An instruction has its stage before it.
    title = f"[2/9] {title}" if title[0].isupper() else title
    return log + step(2, title, fault.get("prints", ""), error, code)


def cut(_engine, _call, work, _fault):
    """The second half of what it prints is missing."""
    reply = work()
    out, err = (text[: len(text) // 2] for text in reply[1:3])
    return reply._replace(stdout=out, stderr=err)


def killed_within(engine, call, work, fault):
    """A container runs on."""
    if call.command != "run":
        return Reply(KILLED)
    reply = cut(engine, call, work, fault)
    engine.write_state(call.options["--name"])
    return reply._replace(code=KILLED)


def cannot_start(*_):
    raise OSError(errno.EAGAIN, "no more processes")


def away(engine, call, _work, fault):
    """The engine is away for `count` commands, `but` for one that it still answers."""
    engine.away, engine.answers = fault["count"] - 1, fault.get("but")
    return Reply(125 if call.command == "run" else 1, "", LOST)


def slow(engine, _call, work, fault):
    engine.clock.sleep(fault["seconds"])
    return work()


def interrupted(engine, _call, work, fault):
    """Send one signal or two, and hang or go on. Real seconds pass before each.

    Python takes a signal late that comes just before its main thread waits for another one.
    """
    engine.interrupted_at = engine.interrupted_at or engine.clock.monotonic()
    for name in ("number", "again"):
        if name in fault:
            time.sleep(fault.get("seconds", 0.01))
            signal.pthread_kill(threading.main_thread().ident, fault[name])
            assert engine.taken.acquire(timeout=60)
    return work() if fault["do"].endswith("go on") else Reply(None)


FAULTS = {
    "sleep": slow,
    "away": away,
    "no process": cannot_start,
    "cut": cut,
    "die within": killed_within,
    "interrupt": interrupted,
    "interrupt and go on": interrupted,
}  # and fail, hang, die, "… after" and print: ended()
