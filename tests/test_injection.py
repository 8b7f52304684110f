"""Each docker command of an evaluation goes wrong in each way: no Dockerfile is blamed for it."""

from __future__ import annotations

import functools
import json
import os
from typing import Any, Iterator, NamedTuple, Sequence

import pytest
from cases import LOOK, TRUE, files_exist, output_contains, run_command
from conftest import called, schema
from engine import docker
from injection import FAULTS, INTERRUPTS, Engine

import DockerfileEvaluator as de

TESTS = [files_exist("/a"), run_command("true"), output_contains("echo hello", "hello")]
MIXED = [
    run_command("true"),
    run_command("exit 3", id="bad"),
    run_command("true", requires=["bad"]),
    run_command("sleep"),
]


class Scenario(NamedTuple):
    """A Dockerfile and tests, and what comes of them if docker works.

    `retried` is a command that is retried in any case. If the retry goes wrong, too, in one of the
    modes `twice`, nobody can tell that from a fault of the Dockerfile.
    """

    expected: str  # the kind of the error, or the status of each test
    line: str = "RUN true"
    image: str = "base"
    tests: Sequence[Any] = TESTS
    retried: str = ""
    twice: Sequence[str] = ()
    is_old: bool = False  # the builder
    has_shell: bool = True
    has_overlay: bool = False


SCENARIOS = {
    "all points": Scenario("passed passed passed"),
    "some tests fail": Scenario("passed failed skipped timeout", tests=MIXED),
    "a RUN fails": Scenario("build", "RUN exit 3"),
    "a RUN takes too long": Scenario("build_timeout", "RUN sleep"),
    "a COPY fails": Scenario("build", "COPY missing /"),
    "no shell": Scenario("failed failed failed", has_shell=False),
    "no such image": Scenario("build", image="nosuch"),
    "an old builder": Scenario("usage", "COPY --link . /", is_old=True),
    "an overlay": Scenario("passed passed passed", has_overlay=True),
    "a test is retried": Scenario(
        "passed", tests=[run_command("once")], retried="run", twice=["output cut"]
    ),
    "a build is retried": Scenario(
        "passed passed passed",
        "RUN once",
        retried="build",
        twice=[
            mode for mode in FAULTS if mode.startswith(("daemon error", "exit code", "away for"))
        ],
    ),
}
UNSEEN = ("output cut", "killed, done later")  # An evaluation cannot know what is left then.


class Found(NamedTuple):
    """What has come of an evaluation."""

    code: int
    report: de.Report
    printed: str
    left: list[str]  # on the engine, and of temporary folders

    @property
    def kind(self) -> str:
        """The kind of the error, "" without one."""
        return self.report["error"]["kind"] if self.report["error"] else ""

    @property
    def statuses(self) -> str:
        return " ".join(row["status"] for row in self.report["test_results"])

    @property
    def score(self) -> float | None:
        return self.report["summary"]["total_score"]


@pytest.fixture
def prepare(arguments, tmp_path, monkeypatch):
    """Return a function that returns one that evaluates a scenario on an engine."""
    output = tmp_path / "report.json"
    validated = set()  # Reports with the same words are validated once.

    def prepare(scenario):
        words = arguments([f"FROM {scenario.image}", scenario.line], *scenario.tests)
        if scenario.has_overlay:
            (tmp_path / "overlay").mkdir()
            words += ["--overlay", str(tmp_path / "overlay")]

        def evaluate(engine):
            with monkeypatch.context() as patch:
                engine.install(patch)
                code, out, err = called(de.main, *words)
            report = json.loads(output.read_text())
            output.unlink()
            left = engine.left() + os.listdir(str(tmp_path / "tmp"))
            found = Found(code, report, out + err, left)
            shape = (found.kind, found.statuses, bool(report["warnings"]))
            if shape not in validated:
                schema("report").validate(report)
                validated.add(shape)
            return found

        return evaluate

    return prepare


def is_right(found: Found, sound: Found, number: int | None) -> bool:
    """Return whether an evaluation has the score of a sound one, or none for a good reason."""
    if found.score is None:
        reasons = [de.INTERRUPTED] if number else [de.ENGINE, de.REGISTRY]
        return found.kind in [*reasons, sound.kind]
    return (found.score, found.statuses) == (sound.score, sound.statuses)


def exit_code(found: Found, number: int | None) -> int:
    """Return the exit code that belongs to a report, after a signal or without one."""
    if number and found.kind == de.INTERRUPTED:
        return 128 + number
    return int(bool(found.kind or found.report["summary"]["failed_tests"]))


def failures_of(name, scenario, evaluate, new_engine, modes, number=None):
    """Let each command of an evaluation go wrong in one of some modes; yield the failures."""
    engine = new_engine()
    sound = evaluate(engine)
    assert scenario.expected in (sound.kind, sound.statuses)
    assert sound.left == []
    commands = engine.commands
    retries = [nth for nth, command in enumerate(commands, 1) if command == scenario.retried]
    for nth, command in enumerate(commands, 1):
        mode, fault = list(modes.items())[nth % len(modes)]
        engine = new_engine()
        engine.break_command(nth, fault)
        found = evaluate(engine)
        problems = []
        is_twice = nth in retries[-1:] and mode in scenario.twice
        if not is_right(found, sound, number) and not is_twice:
            problems.append(f"{found.report['error'] or found.statuses}")
        if found.code != exit_code(found, number):
            problems.append(f"exit code {found.code}")
        if "Traceback" in found.printed:
            problems.append(found.printed)
        if found.left and not found.report["warnings"] and mode not in UNSEEN:
            problems.append(f"no warning of {found.left}")
        if found.left:
            engine.repair()
            ours = [what for what in evaluate(engine).left if de.NAME in what]
            problems += [f"{ours} stay after the next evaluation"] * bool(ours)
        yield from (f"{name}, {mode}, {nth} ({command}): {problem}" for problem in problems)


def cases() -> Iterator[Any]:
    """Yield each scenario with each mode; some of them for tests/run quick."""
    long = pytest.mark.long("5,000 evaluations")
    for at, name in enumerate(SCENARIOS):
        for other, mode in enumerate([*FAULTS, *INTERRUPTS]):
            yield pytest.param(name, mode, marks=[long] * bool((at + other) % 17))


@pytest.mark.parametrize(("name", "mode"), list(cases()))
def test_docker_command_that_goes_wrong_changes_no_score_and_leaves_nothing(name, mode, prepare):
    scenario = SCENARIOS[name]
    number, fault = INTERRUPTS.get(mode) or (None, FAULTS[mode])
    new_engine = functools.partial(Engine, is_old=scenario.is_old, has_shell=scenario.has_shell)

    evaluate = prepare(scenario)

    failures = list(failures_of(name, scenario, evaluate, new_engine, {mode: fault}, number))

    assert not failures, "\n".join(failures)


# On a real engine

REAL_FAULTS = {
    "daemon error": "echo 'Error response from daemon: something is wrong' >&2; exit 1",
    "daemon error after": 'docker "$@"; exit 1',
    "killed before": "kill -9 $$",
    "killed after": 'docker "$@"; kill -9 $$',
    "output cut": 'docker "$@" | head -c 20; exit 0',
}
BUSYBOX = "busybox:stable"
REAL = {
    "all points": Scenario("passed passed", f"RUN echo {os.getpid()}", BUSYBOX, [LOOK, TRUE]),
    "a RUN fails": Scenario("build", "RUN exit 3", BUSYBOX),
    "a COPY fails": Scenario("build", "COPY missing /", BUSYBOX),
}


class RealEngine:
    """Plays Engine: a program named docker that starts the real one, or goes wrong."""

    def __init__(self, folder):
        self._folder, self._path = folder, os.environ["PATH"]
        self._calls = folder / "calls"
        self._calls.write_text("")
        self.repair()

    @property
    def commands(self):
        return self._calls.read_text().splitlines()

    def install(self, monkeypatch):
        monkeypatch.setenv("PATH", f"{self._folder}:{self._path}")

    def break_command(self, nth, fault):
        self._write(f'if [ "$(wc -l <{self._calls})" = {nth} ]; then {fault}; fi')

    def repair(self):
        self._write("")

    def left(self):
        names = docker("ps", "--all", f"--filter=name={de.NAME}", "--format={{.Names}}")
        tags = docker("image", "ls", "--format={{.Repository}}:{{.Tag}}", de.NAME)
        return f"{names} {tags}".split()

    def _write(self, line):
        start = f'#!/bin/sh\nPATH={self._path}\necho "$1" >>{self._calls}\n'
        program = self._folder / "docker"
        program.write_text(f'{start}{line}\nexec docker "$@"\n')
        program.chmod(0o755)


@pytest.mark.no_podman  # whose incomplete builds leave images
@pytest.mark.release
@pytest.mark.parametrize("name", REAL)
def test_command_of_a_real_docker_that_goes_wrong_changes_no_score_and_leaves_nothing(
    clean_engine, builder, name, prepare, tmp_path
):
    """The modes take turns."""
    scenario = REAL[name]
    folder = tmp_path / "broken"
    folder.mkdir()

    evaluate = prepare(scenario)

    failures = list(failures_of(name, scenario, evaluate, lambda: RealEngine(folder), REAL_FAULTS))

    assert not failures, "\n".join(failures)
