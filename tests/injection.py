"""A docker engine in this process, whose Nth command goes wrong in a chosen way.

It takes the place of subprocess.Popen and of the clock, so a thousand evaluations take seconds: a
command that hangs lets the clock of the evaluator run, and nobody waits.

A Dockerfile and a test may have any words; these mean something:

FROM nosuch      no registry has it
COPY missing     fails
COPY --link      fails on an old builder
exit N           the RUN or the test ends with this exit code
sleep            it never ends
once             the first RUN or test with this word is killed, unless it goes wrong anyway
"""

from __future__ import annotations

import errno
import functools
import itertools
import json
import os
import re
import select
import signal
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import DockerfileEvaluator as de

VERSION = {
    "Client": {"Version": "28.2.2"},
    "Server": {"Version": "28.2.2", "Os": "linux", "Arch": "amd64"},
}
IMAGE = [{"Id": "1d" * 32, "Size": 1, "Os": "linux", "Architecture": "amd64"}]
CONTAINER = {"Running": True, "ExitCode": 0, "StartedAt": "2026"}
LOST = "Cannot connect to the Docker daemon at unix:///fake. Is the docker daemon running?"
PROCESS = 2**23  # from here on no process has such an id
BROKEN = "Error response from daemon: something is wrong"
KILLED = -signal.SIGKILL
LATE = 1.0  # seconds in which an engine completes what a docker has begun that was killed


class Reply(NamedTuple):
    """What a docker command prints, and its exit code: negative for a signal, None if it hangs."""

    code: int | None = 0
    stdout: str = ""
    stderr: str = ""

    def cut(self):
        """Return it without the second half of what it prints."""
        out, err = (text[: len(text) // 2] for text in self[1:])
        return self._replace(stdout=out, stderr=err)


class Clock:
    """The time of the evaluator: it passes while it waits."""

    now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 0.001)

    def poll(self):
        """Play select.poll(), which waits for output."""
        real = select.poll()

        def poll(milliseconds):
            ready = real.poll(0)
            if not ready:
                self.sleep(milliseconds / 1000)
            return ready

        return SimpleNamespace(register=real.register, poll=poll)


class Process:
    """Plays a subprocess.Popen."""

    def __init__(self, pid, reply, clock, *, has_stderr):
        self.pid, self.returncode = pid, None
        self._code, self._clock = reply.code, clock
        self._open = []
        self.stdout = self._pipe(reply.stdout + reply.stderr * (not has_stderr))
        self.stderr = self._pipe(reply.stderr) if has_stderr else None
        if reply.code is not None:
            self.end(reply.code)

    def _pipe(self, text):
        read_end, write_end = os.pipe()
        os.write(write_end, text.encode())
        self._open.append(write_end)
        return SimpleNamespace(fileno=lambda: read_end, close=lambda: os.close(read_end))

    def end(self, code):
        self._code = code
        while self._open:
            os.close(self._open.pop())

    def poll(self):
        self.returncode = self._code
        return self.returncode

    def wait(self, timeout):
        if self.poll() is None:
            self._clock.sleep(timeout)
            raise subprocess.TimeoutExpired("docker", timeout)
        return self.returncode


class Engine:
    """Images and containers; `fault` is a function of FAULTS for the command number `nth`."""

    def __init__(self, *, is_old=False, has_shell=True):
        self.images, self.containers = set(), {}
        self.commands = []  # names of commands
        self.clock = Clock()
        self.away, self.answers = 0, ()  # for so many further commands, without these
        self.late = None  # when the engine completes what was killed, and this as a function
        self.signals = threading.Semaphore(0)  # those that the evaluator has taken
        self._fault, self._nth = None, 0
        self._once = 0  # RUNs and tests with this word
        self._processes = {}
        self._is_old, self._has_shell = is_old, has_shell

    def install(self, monkeypatch):
        """Let the evaluator use this engine and its clock."""
        interrupt = de.Docker.interrupt

        def count(docker, *words):
            interrupt(docker, *words)
            self.signals.release()

        monkeypatch.setattr(de.Docker, "interrupt", count)
        monkeypatch.setattr(de, "POLL", 1.0)  # seconds, of the clock
        monkeypatch.setattr(de, "time", self.clock)
        monkeypatch.setattr(
            de, "select", SimpleNamespace(poll=self.clock.poll, POLLIN=select.POLLIN)
        )
        monkeypatch.setattr(subprocess, "Popen", self.start)
        monkeypatch.setattr(os, "killpg", lambda pid, number: self._processes[pid].end(-number))

    def break_command(self, nth, fault):
        """Let a command go wrong, counted from 1."""
        self._fault, self._nth = fault, nth

    def repair(self):
        """Let all further commands work."""
        self._nth = self.away = 0

    def start(self, argv, *, stdin, stderr, **_):
        """Play subprocess.Popen()."""
        words = [os.fsdecode(word) for word in argv[1:]]
        size = 1 + (words[0] in ("image", "container"))
        self.commands.append(" ".join(words[:size]))
        text = stdin.read().decode() if words[0] == "build" else ""
        answer = getattr(self, "_" + "_".join(words[:size]))
        work = functools.partial(answer, *split(words[size:]), text)
        is_broken = len(self.commands) == self._nth
        if "once" in text + str(words[-2:]):
            self._once += 1 + is_broken
        self._catch_up(self.clock.now)
        if is_broken:
            reply = self._fault(self, words, work)
        elif self.away > 0 and self.commands[-1] not in self.answers:
            self.away -= 1
            reply = error(words, LOST)
        else:
            reply = work()
        pid = PROCESS + len(self._processes)
        if hasattr(stderr, "write"):
            stderr.write(reply.stderr.encode())
            reply = reply._replace(stderr="")
        process = Process(pid, reply, self.clock, has_stderr=stderr == subprocess.PIPE)
        self._processes[pid] = process
        return process

    def _catch_up(self, now):
        """Do what is late."""
        if self.late and now >= self.late[0]:
            self.late, (_, work) = None, self.late
            work()

    def left(self):
        """Return the names of all that an evaluation has created, and what is late."""
        self._catch_up(float("inf"))
        return sorted(name for name in {*self.images, *self.containers} if name != "base")

    def _version(self, *_):
        return Reply(stdout=json.dumps(VERSION))

    def _info(self, *_):
        return Reply(stdout=json.dumps({"Driver": "overlay2", "NCPU": 1, "MemTotal": 2**32}))

    def _ps(self, *_):
        return Reply(stdout="".join(f"{name}\n" for name in self.containers))

    def _image_ls(self, *_):
        own = sorted(tag for tag in self.images if tag.startswith(de.NAME))
        return Reply(stdout="".join(f"{tag}\n" for tag in own))

    def _image_inspect(self, _options, tags, _text):
        return Reply(stdout=json.dumps(IMAGE)) if tags[0] in self.images else no_such("image")

    def _image_rm(self, options, tags, _text):
        if tags[0] not in self.images:
            return no_such("image")
        if any(each.get("Image") == tags[0] for each in self.containers.values()):
            if "--force" not in options:
                return Reply(1, "", "conflict: a container is using its referenced image\n")
            self.images.add("<none>")  # The containerd store keeps it without a name.
        self.images.remove(tags[0])
        return Reply()

    def _container_inspect(self, _options, names, _text):
        state = self.containers.get(names[0])
        return Reply(stdout=json.dumps(state)) if state else no_such("container")

    def _container_rm(self, _options, names, _text):
        return Reply() if self.containers.pop(names[0], None) else no_such("container")

    def _build(self, options, _operands, text):
        file = options.get("--file", "-")
        lines = (text if file == "-" else Path(file).read_text()).splitlines()
        log = ""
        for at, line in enumerate(lines, 1):
            log += f"Step {at}/{len(lines)} : {line}\n"
            reply = self._instruction(line)
            if reply:
                return reply._replace(stdout=log)
        self.images.add(options["--tag"])
        return Reply(stdout=f"{log}Successfully built 1d\n")

    def _instruction(self, line):
        """Return the end of a build, if the instruction ends it."""
        name, _, arguments = line.partition(" ")
        if name == "FROM" and arguments == "nosuch":
            return Reply(1, "", "manifest for nosuch:latest not found: manifest unknown\n")
        if name == "FROM" and arguments != "scratch":
            self.images.add(arguments)
        if arguments.startswith("missing"):
            return Reply(1, "", "COPY failed: stat missing: file does not exist\n")
        if arguments.startswith("--link") and self._is_old:
            return Reply(1, "", "dockerfile parse error line 2: Unknown flag: link\n")
        if arguments.startswith('["/'):
            program = arguments.strip('["]')
            return Reply(1, "", f"exec: {program}: no such file or directory: unknown\n")
        code = self._exit_code(arguments) if name == "RUN" else 0
        if code == 0:
            return None
        text = f"The command '/bin/sh -c {arguments}' returned a non-zero code: {code}\n"
        return Reply(code, "", text * (code is not None))

    def _exit_code(self, command):
        """Return the exit code of a RUN or a test, None if it never ends."""
        if "once" in command and self._once == 1:
            return 137
        found = re.search(r"exit (\d+)", command)
        return None if "sleep" in command else int(found[1]) if found else 0

    def _run(self, options, operands, _text):
        image, *words = operands
        name, program = options["--name"], options["--entrypoint"]
        if image not in self.images:
            return no_such("image")._replace(code=125)
        running = {**CONTAINER, "Image": image}
        if program != "/bin/sh" or not self._has_shell:
            self.containers[name] = {**running, "Running": False, "StartedAt": "0001"}
            problem = f'exec: "{program}": stat {program}: no such file or directory: unknown.'
            return Reply(127, "", f"docker: Error response from daemon: {problem}\n")
        nonce, command = words[3], " ".join(words[4:])
        code = self._exit_code(command)
        self.containers[name] = running
        if code is None:
            return Reply(None, f"{nonce}=B\n")
        self.containers[name] = {**running, "Running": False, "ExitCode": code}
        if "--rm" in options:
            del self.containers[name]
        return Reply(code, f"{nonce}=B\n{command}\n{nonce}=E {code}\n")


def split(words):
    """Return the options of a command by name, and all other words."""
    given = list(itertools.takewhile(lambda word: word[0] == "-" != word, words))
    return dict(word.partition("=")[::2] for word in given), words[len(given) :]


def no_such(what):
    return Reply(1, "", f"Error response from daemon: No such {what}\n")


def error(words, text, stdout=""):
    return Reply(125 if words[0] == "run" else 1, stdout, f"docker: {text}\n")


# How a command goes wrong: functions of the engine, the command and its work


def exit_with(code, *_):
    return Reply(code)


def killed_within(engine, words, work):
    """What it has begun is left: a container that runs."""
    images, containers = set(engine.images), dict(engine.containers)
    reply = work()
    engine.images, engine.containers = images, containers
    if words[0] == "run":
        containers[split(words[1:])[0]["--name"]] = CONTAINER
    return reply.cut()._replace(code=KILLED)


def killed_and_done_later(engine, _words, work):
    engine.late = (engine.clock.now + LATE, work)
    return Reply(KILLED)


def cannot_start(*_):
    raise OSError(errno.EAGAIN, "no more processes")


def away_for(count, *but):
    """The engine is away for some commands, `but` for those that it still answers."""

    def fault(engine, words, _work):
        engine.away, engine.answers = count - 1, but
        return error(words, LOST)

    return fault


def interrupted(*numbers, then=lambda work: Reply(None)):
    """Send signals, and wait until the evaluator has taken them; then it hangs."""

    def fault(engine, _words, work):
        for number in numbers:
            signal.pthread_kill(threading.main_thread().ident, number)
            assert engine.signals.acquire(timeout=60)
        return then(work)

    return fault


FAULTS = {
    "daemon error": lambda _, words, work: error(words, BROKEN),
    "daemon error after": lambda _, words, work: error(words, BROKEN, work().stdout),
    **{f"exit code {code}": functools.partial(exit_with, code) for code in (1, 125, 126, 127, 137)},
    "killed before": functools.partial(exit_with, KILLED),
    "killed within": killed_within,
    "killed, done later": killed_and_done_later,
    "killed after": lambda _, words, work: work()._replace(code=KILLED),
    "output cut": lambda _, words, work: work().cut(),
    "hang": functools.partial(exit_with, None),
    "hang after": lambda _, words, work: work()._replace(code=None),
    "away for 2": away_for(2),
    "away for 9": away_for(9),
    "away": away_for(10**9),
    "away for all but version": away_for(10**9, "version"),
    "no process": cannot_start,
}
INTERRUPTS = {
    "INT": (signal.SIGINT, interrupted(signal.SIGINT)),
    "TERM": (signal.SIGTERM, interrupted(signal.SIGTERM)),
    "TERM, goes on": (signal.SIGTERM, interrupted(signal.SIGTERM, then=lambda work: work())),
    "INT and TERM": (signal.SIGINT, interrupted(signal.SIGINT, signal.SIGTERM)),
}
