"""Each docker command of an evaluation goes wrong in each way: no Dockerfile is blamed for it."""

from __future__ import annotations

import itertools
import json
import os
import signal
from typing import Any, Iterator, NamedTuple, Sequence

import pytest
from cases import files_exist, output_contains, run_command
from conftest import called, schema
from fake_engine import Engine

import DockerfileEvaluator as de

BROKEN = "Error response from daemon: something is wrong\n"
MODES = {  # how a command goes wrong, in the words of Engine.fault()
    "daemon error": {"do": "fail", "stderr": BROKEN},
    "daemon error after": {"do": "fail after", "stderr": BROKEN},
    **{f"exit code {code}": {"do": "fail", "code": code} for code in (1, 125, 126, 127, 137)},
    "killed before": {"do": "die"},
    "killed within": {"do": "die within"},
    "killed, done later": {"do": "die, done later"},
    "killed after": {"do": "die after"},
    "output cut": {"do": "cut"},
    "hang": {"do": "hang"},
    "hang after": {"do": "hang after"},
    "away for 2": {"do": "away", "count": 2},
    "away for 9": {"do": "away", "count": 9},
    "away": {"do": "away", "count": 10**9},
    "away for all but version": {"do": "away", "count": 10**9, "but": "version"},
    "no process": {"do": "no process"},
}
INTERRUPTS = {
    "INT": {"do": "interrupt", "number": signal.SIGINT},
    "TERM": {"do": "interrupt", "number": signal.SIGTERM},
    "TERM, goes on": {"do": "interrupt and go on", "number": signal.SIGTERM},
    "INT and TERM": {"do": "interrupt", "number": signal.SIGINT, "again": signal.SIGTERM},
}

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
    waits: Sequence[str] = ()  # commands that wait for what the image starts: their limit is final
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
    "services": Scenario(
        "passed passed failed passed",
        tests=[
            run_command("true"),
            run_command("true", service=8080),
            run_command("exit 3", service=True),
            run_command("true"),
        ],
        waits=["run", "exec"],
    ),
    "an overlay": Scenario("passed passed passed", has_overlay=True),
    "a test is retried": Scenario(
        "passed", tests=[run_command("once")], retried="run", twice=["output cut"]
    ),
    "a build is retried": Scenario(
        "passed passed passed",
        "RUN once",
        retried="build",
        twice=[
            mode for mode in MODES if mode.startswith(("daemon error", "exit code", "away for"))
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
                engine.patch(patch)
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
    commands = engine.names()
    retries = [nth for nth, command in enumerate(commands, 1) if command == scenario.retried]
    for nth, command in enumerate(commands, 1):
        mode, fault = list(modes.items())[nth % len(modes)]
        engine = new_engine()
        engine.fault("*", at=nth, **fault)
        found = evaluate(engine)
        problems = []
        is_twice = nth in retries[-1:] and mode in scenario.twice
        is_twice |= command in scenario.waits and mode.startswith("hang")
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
        for other, mode in enumerate([*MODES, *INTERRUPTS]):
            yield pytest.param(name, mode, marks=[long] * bool((at + other) % 17))


@pytest.mark.parametrize(("name", "mode"), list(cases()))
def test_docker_command_that_goes_wrong_changes_no_score_and_leaves_nothing(
    name, mode, prepare, tmp_path
):
    scenario = SCENARIOS[name]
    fault = {**MODES, **INTERRUPTS}[mode]
    numbers = itertools.count()

    def new_engine():
        engine = Engine(tmp_path / f"engine-{next(numbers)}")
        shell = None if scenario.has_shell else ""
        engine.set(shell=shell, is_old=scenario.is_old, pull={"nosuch": "manifest unknown"})
        return engine

    evaluate = prepare(scenario)

    failures = list(
        failures_of(name, scenario, evaluate, new_engine, {mode: fault}, fault.get("number"))
    )

    assert not failures, "\n".join(failures)


# On a real engine
