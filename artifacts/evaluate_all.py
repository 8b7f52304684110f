#!/usr/bin/env python3
"""Evaluate a tree of Dockerfiles, several in parallel, on one docker engine or more.

    python3 artifacts/evaluate_all.py [--layout LAYOUT] [--engine WHERE]… [any option of the evaluator]

    argv -> find() -> a Task for each Dockerfile -> Engine.check() of each engine -> Session: the evaluator's
         command line for each, in a process of its own -> Outcome, read from its report -> a line -> the sums

Started again, it goes on: a report that counts is taken as it is. All that it knows is in the reports folder:

    MODEL/REPO.json   the report, written by the evaluator
    MODEL/REPO.log    what the evaluator said; locked while an evaluation runs, ours or another start's
    MODEL/REPO.first  a report that was repeated (the build failed, or something timed out)

Exit codes: 0 every Dockerfile has a report that counts; 1 one has none; 2 wrong usage; 130 Ctrl-C (143
SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import json
import math
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Collection, Iterable, Iterator, Mapping, NamedTuple, Sequence

PROJECT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
EVALUATOR = os.path.join(PROJECT, "DockerfileEvaluator.py")
sys.path.insert(0, PROJECT)

from DockerfileEvaluator import Engine as CommandLine  # noqa: E402 - the folder above is on the path only now
from DockerfileEvaluator import (  # noqa: E402
    EngineError,
    EvaluationError,
    Stop,
    Stopped,
    check_engine,
    last_line,
    listed,
    load_rubric,
    shown,
    signals_to,
    standard_streams,
    write_to,
)

__all__ = ["main"]

LAYOUT = "{model}/{repo}.dockerfile"
MOST_PARALLEL = 8  # evaluations, unless --parallel says more
REST = 60.0  # seconds without work for an engine after a fault
RESTS = 10  # in a row, without an evaluation that counts: then the engine is given up
FAULTS = 2  # on engines that work for others: then a Dockerfile is held back
ALL_FAULTS = 5  # those on engines that were away included
ASK_LIMIT = 30  # seconds for an engine to tell its processors
CAUSES = 10  # of failed builds, to be listed
CAUSE_LINES = 40  # of a log, its last ones, in which they are looked for
USAGE_CODE = 2  # the evaluator's exit code
LEAVE = 3  # signals: one asks the evaluations to clean up, the second to leave that, the third leaves them
BUILD_FAILED = ("build", "build_timeout")  # kinds of a report's error
# Options of the evaluator that are set here, or that mean nothing for many Dockerfiles.
OURS = (
    *("dockerfile", "repo", "rubric", "context", "output", "resume", "junit", "check", "version", "help"),
    *("docker", "engine", "wait"),  # abbreviated: in full they are options here, too
)
# What must be the same for a report to be that of a repetition, as for --resume.
SAME = ("dockerfile_sha256", "rubric_sha256", "context", "build_options", "run_options", "build_timeout")
# Causes that many builds share, and no Dockerfile is to blame for. They are looked for in text that a
# Dockerfile can print: they are counted, and decide nothing.
SHARED_CAUSES = re.compile(
    r"""
      Temporary\ failure\ (in\ name\ resolution|resolving\ '?[\w.-]+)
    | Could\ not\ (resolve\ host:?|connect\ to)\ '?[\w.-]+
    | Connection\ (timed\ out|refused|reset\ by\ peer)
    | No\ space\ left\ on\ device
    | toomanyrequests | 429\ Too\ Many\ Requests
    | 50[234]\ (Bad\ Gateway|Service\ Unavailable|Gateway\ Time-?out)
    | Hash\ Sum\ mismatch
    """,
    re.VERBOSE | re.IGNORECASE,
)


class Outcome(NamedTuple):
    """What a report says, as far as it matters here."""

    kind: str  # of its error, "" for none
    message: str
    passed: int
    total: int
    share: float  # of the points
    build_seconds: float
    test_seconds: float
    timed_out: bool  # a test
    cause: str  # of a failed build
    asked: Sequence[Any]  # the values of SAME
    digest: str  # of the whole report

    @property
    def counts(self) -> bool:
        """Whether it is a result; an engine fault, a usage error and an interrupt are none."""
        return self.kind in ("", *BUILD_FAILED)

    @property
    def is_doubtful(self) -> bool:
        """Whether a busy machine or a minute's trouble of a package mirror may explain it."""
        return self.kind in BUILD_FAILED or self.timed_out

    def words(self) -> str:
        """Return it for a line on the screen."""
        if self.kind in BUILD_FAILED:
            return f"build failed: {shown(without_step(self.message))} ({self.build_seconds:.0f} s)"
        if self.kind:
            return f"{'engine fault' if self.kind == 'engine' else self.kind}: {shown(self.message, 300)}"
        times = f"build {self.build_seconds:.0f} s, tests {self.test_seconds:.0f} s"
        return f"{self.passed} of {self.total} tests, {100 * self.share:.0f} % ({times})"


def read_outcome(path: str) -> Outcome | None:
    """Read a report; return None where there is none that is whole."""
    try:
        with open(path, "rb") as file:
            content = file.read()
        report = json.loads(content.decode())
        error, summary, build = report["error"], report["summary"], report["build"]
        kind, message = (str(error["kind"]), str(error["message"])) if error else ("", "")
        late = any(row["status"] == "timeout" for row in report["test_results"])
        share = summary["total_score"] / summary["max_score"] if summary["max_score"] else 0.0
        numbers = summary["passed_tests"], summary["total_tests"], float(share)
        times = float(build["execution_time"]), float(summary["total_execution_time"])
        cause = cause_of(message, str(build["log"])) if kind in BUILD_FAILED else ""
        asked = [report["environment"].get(key) for key in SAME]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    digest = hashlib.sha256(content).hexdigest()
    return Outcome(kind, message, *numbers, *times, late, cause, asked, digest)


def cause_of(message: str, log: str) -> str:
    """Return why a build failed, in words that it shares with others: without its step."""
    end = "\n".join(log.splitlines()[-CAUSE_LINES:])  # what stands above may have been overcome
    found = [match[0] for match in SHARED_CAUSES.finditer(end)]
    words = found[-1] if found else without_step(message)
    return " ".join(re.sub(r"\b[0-9a-f]{12,}\b", "…", words).replace("'", "").split())


def without_step(message: str) -> str:
    """Return why a build failed, without the step in which it did."""
    return re.sub(r"^step \S+ of \S+ \(.*?\): (exit code \d+: )?", "", message)


# -------- The tree ----------------------------------------------------------------------------


class Task:
    """One Dockerfile: its files, and the engine faults that it met."""

    def __init__(self, model: str, repo: str, dockerfile: str, options: argparse.Namespace) -> None:
        self.model, self.repo, self.dockerfile = model, repo, dockerfile
        self.place = os.path.join(model, repo)
        path = os.path.join(options.reports, self.place)
        self.report, self.log, self.first = f"{path}.json", f"{path}.log", f"{path}.first"
        self.rubric = os.path.join(options.rubrics, f"{repo}.json")
        self.context = os.path.join(options.checkouts, repo) if options.checkouts else ""
        self.is_repeat = False  # it is to be evaluated once more, alone
        self.failed_on: set[Engine] = set()
        self.faults = 0  # on engines that work for others
        self.open_faults = 0  # on engines of which that is not known yet
        self.all_faults = 0

    def needs_repetition(self, outcome: Outcome) -> bool:
        """Whether a report is doubtful, and is not itself that of a repetition."""
        first = read_outcome(self.first)
        is_second = first is not None and first.digest != outcome.digest and first.asked == outcome.asked
        return outcome.is_doubtful and not is_second

    def repetition_is_due(self) -> bool:
        """Whether an earlier start noted the repetition, for just these files, and did not finish it."""
        first, outcome = read_outcome(self.first), read_outcome(self.report)
        if not first or (outcome and outcome.counts and outcome.digest != first.digest):
            return False
        return first.asked[:2] == [sha256(self.dockerfile), sha256(self.rubric)]

    def note_repetition(self) -> None:
        """Keep the report that is there, whole or not at all, before it is repeated."""
        shutil.copyfile(self.report, f"{self.first}.new")
        os.replace(f"{self.first}.new", self.first)

    def forget(self) -> None:
        """Remove earlier reports; not the log, whose lock another start may hold."""
        for path in (self.report, self.first):
            with contextlib.suppress(OSError):  # what cannot be written is named when it is evaluated
                os.unlink(path)


def sha256(path: str) -> str:
    """Return the SHA-256 of a file, "" where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def layout_pattern(layout: str) -> re.Pattern[str]:
    """Return the pattern of a layout; raise ValueError where it is none."""
    parts = re.split(r"(\{.*?\}|\*)", os.path.normpath(layout))
    words = {"{model}": r"(?P<model>[^/]+(?:/[^/]+)*)", "{repo}": "(?P<repo>[^/]+)", "*": "[^/]*"}
    unknown = [part for part in parts[1::2] if part not in words]
    if unknown or parts.count("{repo}") != 1 or parts.count("{model}") > 1:
        raise ValueError(f"expected {{repo}}, {{model}} and *, found {unknown or layout}")
    if os.path.isabs(layout) or ".." in layout.split("/"):
        raise ValueError("expected a path below --artifacts")
    return re.compile("".join(words.get(part) or re.escape(part) for part in parts))


def files_below(
    folder: str, hidden: Iterable[str], unread: list[OSError], above: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield the files below a folder, in order; note in `unread` why one of its folders cannot be read.

    Links are followed, but not in circles. Names that begin with a dot are passed over, but for those in
    `hidden`.
    """
    here = os.path.realpath(folder)
    try:
        names = sorted(os.listdir(folder)) if here not in above else []
        os.stat(os.path.join(folder, os.curdir))  # it can be entered, too
    except OSError as error:
        if not above:
            raise
        unread.append(error)
        return
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith(".") and name not in hidden:
            continue
        if os.path.isdir(path):
            yield from files_below(path, hidden, unread, (*above, here))
        else:
            yield path


def find(options: argparse.Namespace) -> tuple[list[Task], dict[str, list[str]]]:
    """Return a task for each Dockerfile, and those that are left out, by the reason."""
    hidden = [name for name in options.layout.split("/") if name.startswith(".")]
    found: dict[str, list[Task]] = collections.defaultdict(list)  # by report
    unread: list[OSError] = []
    for path in files_below(options.artifacts, hidden, unread):
        match = options.pattern.fullmatch(os.path.relpath(path, options.artifacts))
        if match:
            task = Task(match.groupdict().get("model") or "", match["repo"], path, options)
            found[task.report].append(task)
    tasks = [task for tasks in found.values() for task in tasks]
    faults = {task.rubric: "" for task in tasks}
    for path in faults:
        try:
            load_rubric(path)
        except EvaluationError as error:
            first, *more = str(error).splitlines()
            faults[path] = f"{first} (and {len(more)} more faults)" if more else first
    read = {os.path.realpath(path) for task in tasks for path in (task.dockerfile, task.rubric)}
    taken: list[Task] = []
    left_out: dict[str, list[str]] = collections.defaultdict(list)
    for unreadable in unread:
        left_out[str(unreadable.strerror)].append(os.path.normpath(unreadable.filename))
    for report, (task, *others) in found.items():
        reason = faults[task.rubric]
        if os.path.realpath(report) in read:
            reason = f"{report} would overwrite what is to be read"
        elif others:
            reason = f"{report} would be the report on each of them"
        elif task.context and not os.path.isdir(task.context):
            reason = reason or f"{task.context}: no such folder for the build context"
        elif not os.path.isfile(task.dockerfile) or not os.access(task.dockerfile, os.R_OK):
            reason = reason or "not a regular file that can be read"
        if reason:
            left_out[reason] += [task.dockerfile, *(other.dockerfile for other in others)]
        else:
            taken.append(task)
    return taken, left_out


# -------- Engines -----------------------------------------------------------------------------

WELL, CHECKED, RESTING, GIVEN_UP = "well", "being checked", "resting", "given up"


class Engine:
    """A docker engine: what it can take, and how it fares."""

    def __init__(self, where: str | None, docker: str) -> None:
        self.where, self.docker, self.name = where, docker, shown(where or "the docker engine")
        self.processors = 0  # once it is known
        self.stop = Stop()  # of a check
        self.running = 0
        self.successes = 0  # reports that count
        self.state, self.rests_until, self.rests = CHECKED, 0.0, 0
        self.suspects: list[Task] = []  # met a fault here, and it is not known yet whose it is

    def check(self, wait: float, over: threading.Event) -> str:
        """Try it with the control, for `wait` seconds; return "" where it works, else what is wrong."""
        deadline = time.monotonic() + wait
        while True:
            try:
                check_engine(self.docker, self.where, self.stop)
            except (EngineError, Stopped) as error:
                if time.monotonic() > deadline or over.wait(1):
                    return str(error) or "interrupted"
            else:
                self.processors = self._count_processors()
                return ""

    def _count_processors(self) -> int:
        engine = CommandLine(self.docker, self.where, self.stop)
        for form in ("{{.NCPU}}", "{{.Host.CPUs}}"):  # docker's, podman's
            with contextlib.suppress(EngineError, Stopped, ValueError):
                answer = engine.ask("info", "--format", form, limit=ASK_LIMIT)
                if answer.returncode == 0:
                    return max(int(answer.stdout), 1)
        return os.cpu_count() or 1

    def rest(self) -> str:
        """Give it no work for a while, or never again; return words for that."""
        if self.state != RESTING:
            self.rests += 1
            self.state = RESTING if self.rests < RESTS else GIVEN_UP
            self.rests_until = time.monotonic() + REST
        if self.state == GIVEN_UP:
            self.settle(was_well=False)
        return f"{self.name} {f'rests {REST:.0f} s' if self.state == RESTING else 'is given up'}"

    def settle(self, *, was_well: bool) -> None:
        """Say whose the latest faults here were: the Dockerfiles', or the engine's own."""
        for task in self.suspects:
            task.open_faults -= 1
            task.faults += was_well
        self.suspects = []


# -------- Evaluations -------------------------------------------------------------------------


class Job:
    """An evaluation under way."""

    def __init__(self, task: Task, engine: Engine, log: Any) -> None:
        self.task, self.engine, self.log = task, engine, log
        self.logged = os.fstat(log.fileno()).st_size  # bytes of earlier evaluations
        self.before = read_outcome(task.report)
        self.process: Any = None


class Session:
    """Says what is evaluated where and when, what is repeated, and when it is over.

    One thread decides. Others only wait, each for a process, a lock or an engine, and put what came of
    it into `events`; so do signals, since SimpleQueue.put() may interrupt itself.
    """

    def __init__(self, options: argparse.Namespace, tasks: Sequence[Task], screen: Screen) -> None:
        self.options, self.tasks, self.screen = options, tasks, screen
        self.engines = [Engine(where, options.docker) for where in dict.fromkeys(options.engine or [None])]
        self.events: queue.SimpleQueue[tuple[Callable[..., None], Any, Any]] = queue.SimpleQueue()
        self.todo: collections.deque[Task] = collections.deque()
        self.repeats: collections.deque[Task] = collections.deque()  # one at a time, after all others
        self.running: list[Job] = []
        self.waiting = 0  # tasks that another start evaluates
        self.checking = 0  # engines
        self.over = threading.Event()  # by a signal or a usage error
        self.signals: list[int] = []
        self.usage = ""  # what docker or the evaluator refuses
        self.results: dict[Task, Outcome] = {}
        self.problems: dict[Task, str] = {}  # why there is no result
        self.finished: set[Task] = set()
        self.evaluated: set[Task] = set()  # in this start
        self.ended = self.repeated = 0  # evaluations, and repetitions among them
        self.began = time.monotonic()

    @property
    def parallel(self) -> int:
        """How many evaluations may run at a time."""
        return self.options.parallel or min(max(self._processors(), 1), MOST_PARALLEL)

    def _processors(self) -> int:
        return sum(engine.processors for engine in self.engines if engine.state != GIVEN_UP)

    # Engines

    def check_engines(self) -> bool:
        """Try all engines; return whether one works."""
        for engine in self.engines:
            self._check(engine, self.options.wait)
        while self.checking and len(self.signals) < LEAVE:
            self._next_event(None)
        return any(engine.state == WELL for engine in self.engines)

    def _check(self, engine: Engine, wait: float = 0.0) -> None:
        engine.state = CHECKED
        self.checking += 1
        self._in_thread(lambda: engine.check(wait, self.over), self._checked, engine)

    def _checked(self, engine: Engine, words: str) -> None:
        self.checking -= 1
        engine.settle(was_well=not words and engine.successes > 0)
        engine.state = engine.state if words else WELL
        if words and not self.over.is_set():
            self.screen.error(f"{engine.name}: {shown(words, 500)}; {engine.rest()}")

    def _free_engine(self) -> Engine | None:
        """Return the engine with the most room for its processors, None where none has any."""
        room = {}
        for engine in self.engines:
            slots = max(math.ceil(self.parallel * engine.processors / max(self._processors(), 1)), 1)
            if engine.state == WELL and engine.running < slots:
                room[engine] = 1 - engine.running / slots
        return max(room, key=lambda engine: room[engine], default=None)

    # The loop

    def run(self) -> None:
        """Evaluate all, until it is done or over."""
        self.began = time.monotonic()
        for task in self.tasks:
            self._plan(task)
        while len(self.signals) < LEAVE:
            if not self.over.is_set():
                self._fill()
            has_work = bool(self.todo or self.repeats) and not self.over.is_set()
            rests = [engine.rests_until for engine in self.engines if engine.state == RESTING and has_work]
            more = self.running or self.checking or rests or (self.waiting and not self.over.is_set())
            if not more:
                break
            self._next_event(self.screen.draw(self, min(rests, default=math.inf) - time.monotonic()))
        self.screen.clear()

    def _plan(self, task: Task) -> None:
        task.is_repeat = not self.options.no_repeat and task.repetition_is_due()
        (self.repeats if task.is_repeat else self.todo).append(task)

    def _fill(self) -> None:
        """Start what there is room for."""
        while self.todo or self.repeats:
            for engine in self.engines:
                if engine.state == RESTING and time.monotonic() >= engine.rests_until:
                    self._check(engine)
            free = self._free_engine()
            room = (self.parallel if self.todo else 1) - len(self.running) - self.waiting
            tasks = self.todo or self.repeats
            task = self._take(tasks, free) if free and room > 0 else None
            if free and task:
                self._start(task, free)
            elif tasks:  # else all of them were held back, and the repetitions are next
                break

    def _take(self, tasks: collections.deque[Task], engine: Engine) -> Task | None:
        """Take the next task for an engine, best one that has not failed there."""
        for task in list(tasks):
            if task.faults >= FAULTS or task.all_faults >= ALL_FAULTS:
                tasks.remove(task)
                self._give_up(task, f"held back for the next start: {self.problems[task]}")
        ready = [task for task in tasks if task.faults + task.open_faults < FAULTS]
        new = [task for task in ready if engine not in task.failed_on]
        for task in (new or ready)[:1]:
            tasks.remove(task)
            return task
        return None

    def _start(self, task: Task, engine: Engine) -> None:
        log: Any = None
        try:
            os.makedirs(os.path.dirname(task.log) or ".", exist_ok=True)
            log = open(task.log, "a+b")  # noqa: SIM115 - closed when the job ends, and with it the lock
            if not lock(log, wait=False):
                self.waiting += 1
                self._line(task, "waiting: another start is evaluating it")
                self._in_thread(lambda: lock(log, wait=True), self._unlocked, (task, log))
                return
            job = Job(task, engine, log)
            job.process = self._popen(job)
        except OSError as error:
            if log:
                log.close()
            self._give_up(task, f"{error.filename or task.log}: {error.strerror}")
            return
        engine.running += 1
        self.running.append(job)
        self._in_thread(job.process.wait, self._ended, job)

    def _popen(self, job: Job) -> subprocess.Popen[bytes]:
        """Start the evaluator, in a session of its own: a terminal's Ctrl-C is to reach only us."""
        task, resume = job.task, not self.options.fresh
        if task.is_repeat and job.before and job.before.counts:
            resume = not task.needs_repetition(job.before)  # another start was faster
            if not resume:
                task.note_repetition()
        elif task.is_repeat:
            resume = False
        words = [*self.options.command, f"--dockerfile={task.dockerfile}", f"--repo={task.repo}"]
        words += [f"--rubric={task.rubric}", f"--output={task.report}", *["--resume"] * resume]
        words += [f"--context={task.context}"] if task.context else []
        words += [f"--engine={job.engine.where}"] if job.engine.where else []
        # Of hundreds of tables GitHub shows the first ones and refuses the rest.
        environment = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
        pipes: Any = {"stdin": subprocess.DEVNULL, "stdout": job.log, "stderr": subprocess.STDOUT}
        return subprocess.Popen(words, env=environment, start_new_session=True, **pipes)

    def _in_thread(self, work: Callable[[], Any], then: Callable[[Any, Any], None], subject: Any) -> None:
        """Wait for something in a thread, `then` go on with the subject and the answer in this one."""

        def body() -> None:
            answer: Any = "an unexpected error"
            try:
                answer = work()
            finally:
                self.events.put((then, subject, answer))

        threading.Thread(target=body, daemon=True).start()

    def _next_event(self, timeout: float | None) -> None:
        with contextlib.suppress(queue.Empty):
            then, subject, answer = self.events.get(timeout=timeout)
            then(subject, answer)

    # What comes of it

    def hear(self, number: int, _frame: object = None) -> None:
        """Take a signal, at any moment."""
        self.events.put((self._interrupted, number, None))

    def _interrupted(self, number: int, _: None) -> None:
        self.signals.append(number)
        self.over.set()
        for engine in self.engines:
            engine.stop.ask()
        count = f"waiting for {len(self.running) + self.checking} to clean up (interrupt again to skip that)"
        self.screen.print(f"interrupted; {count if len(self.signals) == 1 else 'leaving'}")
        for job in self.running:
            job.process.send_signal(number)

    def _unlocked(self, held: tuple[Task, Any], _: bool) -> None:  # noqa: FBT001
        self.waiting -= 1
        held[1].close()
        self._plan(held[0])

    def _ended(self, job: Job, code: int) -> None:
        task = job.task
        self.running.remove(job)
        job.engine.running -= 1
        job.log.seek(job.logged)
        resumed = job.log.readline(100).startswith(b"resumed: ")
        job.log.seek(max(job.logged, os.fstat(job.log.fileno()).st_size - 4000))
        said = last_line(job.log.read().decode(errors="replace")) or "nothing in its log; is the disk full?"
        outcome = read_outcome(task.report)
        if outcome and not resumed and job.before and outcome.digest == job.before.digest:
            outcome = None  # of an earlier evaluation
        if resumed:  # the log stays that of the evaluation
            os.ftruncate(job.log.fileno(), job.logged)
        job.log.close()
        if outcome and outcome.counts:
            self._result(job, outcome, resumed=resumed)
        elif outcome and outcome.kind == "engine":
            self._fault(job, outcome)
        elif (
            outcome
            and outcome.kind == "usage"
            and outcome.message.startswith("docker refuses the build context")
        ):
            self._give_up(task, outcome.words())
        elif code == USAGE_CODE or (outcome and outcome.kind == "usage"):
            words = outcome.message if outcome else said.rpartition("error: ")[2]
            self._give_up(task, f"usage error: {words}")
            self.usage = self.usage or words
            self.over.set()
            for other in self.running:
                other.process.terminate()
        elif outcome or self.over.is_set():
            self.results.pop(task, None)
            self.problems[task] = "interrupted"
            self._line(task, "interrupted")
        else:
            self._give_up(task, f"no report: exit code {code}: {said}")

    def _result(self, job: Job, outcome: Outcome, *, resumed: bool) -> None:
        task, words = job.task, outcome.words()
        self.results[task] = outcome
        self.problems.pop(task, None)
        if resumed:
            words += ", resumed"
        else:
            self.evaluated.add(task)
            self.ended += 1
            self.repeated += task.is_repeat
            words += ", repeated" * task.is_repeat
            job.engine.successes += 1
            job.engine.rests = 0
            job.engine.settle(was_well=True)
            if not task.is_repeat:  # what is noted was of earlier files
                with contextlib.suppress(OSError):
                    os.unlink(task.first)
        task.is_repeat = not self.options.no_repeat and task.needs_repetition(outcome)
        if task.is_repeat:
            self.repeats.append(task)
            words += ", to be repeated at the end"
        else:
            self.finished.add(task)
        self._line(task, words)

    def _fault(self, job: Job, outcome: Outcome) -> None:
        task, engine = job.task, job.engine
        task.all_faults += 1
        task.open_faults += 1
        task.failed_on.add(engine)
        engine.suspects.append(task)
        self.results.pop(task, None)  # of a first evaluation, whose report this fault has replaced
        self.problems[task] = outcome.words()
        (self.repeats if task.is_repeat else self.todo).append(task)
        self._line(task, f"{outcome.words()}; {engine.rest()}")

    def _give_up(self, task: Task, why: str) -> None:
        """Leave a Dockerfile without a result."""
        self.results.pop(task, None)
        self.problems[task] = why
        self.finished.add(task)
        self._line(task, why)

    def _line(self, task: Task, words: str) -> None:
        done, total = len(self.finished), len(self.tasks)
        self.screen.print(f"[{done:>{len(str(total))}}/{total}] {shown(task.place)}: {shown(words, 500)}")


def lock(file: Any, *, wait: bool) -> bool:
    """Lock a file until all close it, processes that inherit it too; return whether it is ours now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:  # of a file system without locks, too: then nobody else is taken to be there
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


# -------- The screen --------------------------------------------------------------------------


class Screen:
    """Lines, and on a terminal a bar below them; nothing that happens to it ends an evaluation."""

    def __init__(self) -> None:
        sys.stdout, sys.stderr = standard_streams()
        self._live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._drawn = False  # the bar is there

    def print(self, text: str) -> None:
        """Print a line above the bar."""
        self.clear()
        write_to(sys.stdout, f"{text}\n")

    def error(self, text: str) -> None:
        """Print a line on stderr."""
        self.clear()
        write_to(sys.stderr, f"error: {text}\n")

    def draw(self, session: Session, limit: float) -> float | None:
        """Draw the bar; return how many seconds it may stand, at most `limit`, None for ever."""
        if self._live:
            write_to(sys.stdout, f"\r\x1b[K{bar(session, shutil.get_terminal_size().columns or 80)}")
            self._drawn = True
            limit = min(limit, 1.0)
        return None if limit == math.inf else max(limit, 0.0)

    def clear(self) -> None:
        """Take the bar away."""
        if self._drawn:
            write_to(sys.stdout, "\r\x1b[K")
        self._drawn = False


def bar(session: Session, columns: int) -> str:
    """Return a line: how much is done, the time left, what is running."""
    done, total, width = len(session.finished), len(session.tasks), max(min(columns // 4, 30), 6)
    filled = width * done // total
    text = f"[{'#' * filled}{'.' * (width - filled)}] {done}/{total}"
    if session.ended >= session.parallel and done < total:
        # Those that are repeated run one at a time.
        left = len(session.todo) + len(session.running) + len(session.repeats) * session.parallel
        minutes = math.ceil((time.monotonic() - session.began) / session.ended * left / 60)
        text += f", {f'{minutes // 60} h ' if minutes >= 60 else ''}{minutes % 60} min left"  # noqa: PLR2004
    text += f": {', '.join(shown(job.task.place, 60) for job in session.running)}" if session.running else ""
    return text if len(text) < columns else f"{text[: max(columns - 2, 0)]}…"


def tell_sums(session: Session, left_out: Mapping[str, Sequence[str]]) -> None:
    """Print the counts, why builds failed, and the mean of each model."""
    tell, results, problems = session.screen.print, session.results, session.problems
    failed = [outcome for outcome in results.values() if outcome.kind in BUILD_FAILED]
    faults = {task.place: problem for task, problem in problems.items() if task.all_faults}
    counts = {"evaluated": len(session.evaluated), "resumed": len(set(results) - session.evaluated)}
    counts.update({"repeated": session.repeated, "builds failed": len(failed), "engine faults": len(faults)})
    counts.update({"left out": sum(map(len, left_out.values()))})
    counts.update({"other without a report": len(session.tasks) - len(results) - len(faults)})
    tell(
        ", ".join(
            f"{name} {count}" for name, count in counts.items() if count or not name.startswith("other")
        )
    )
    for place, problem in sorted(faults.items()):
        tell(f"  {shown(place)}: {shown(problem, 300)}")
    causes = collections.Counter(outcome.cause for outcome in failed).most_common()
    if causes[CAUSES:]:
        causes[CAUSES:] = [("other causes", sum(count for _, count in causes[CAUSES:]))]
    tell("failed builds by cause:") if causes else None
    for cause, count in causes:
        tell(f"  {count} of {len(failed)}: {shown(cause)}")
    means = mean_by_model([task.report for task in results], session.options.reports)
    tell("mean score by model:") if means else None
    reported = collections.Counter(task.model for task in results)
    wanted = collections.Counter(task.model for task in session.tasks)
    for model, mean in means.items():
        lacks = f" ({reported[model]} of {wanted[model]} reports)" * (reported[model] < wanted[model])
        tell(f"  {shown(model):<{max(map(len, means))}}  {'-' if mean is None else f'{mean:.1%}'}{lacks}")


def mean_by_model(files: Collection[str], folder: str) -> dict[str, float | None]:
    """Return the mean score of each model in some of the reports of a folder, as the leaderboard has it."""
    path = os.path.join(PROJECT, "reports", "leaderboard.py")
    spec: Any = importlib.util.spec_from_file_location("leaderboard", path)
    leaderboard: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = leaderboard
    spec.loader.exec_module(leaderboard)
    ours = set(map(os.path.realpath, files))
    found = [r for r in leaderboard.read_reports([folder])[0] if os.path.realpath(r.file) in ours]
    means: dict[str, float | None] = leaderboard.scores_by_model(found) if found else {}
    return means


# -------- Command line ------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="evaluate_all",
        description="Evaluate a tree of Dockerfiles, several in parallel. Started again, it goes on. Options "
        "of DockerfileEvaluator.py are handed on to it.",
        epilog="Exit codes: 0 every Dockerfile has a report that counts; 1 one has none; 2 wrong usage; 130 "
        "interrupted by Ctrl-C (143 by SIGTERM, 129 by SIGHUP).",
        allow_abbrev=False,
    )
    add = parser.add_argument
    for name, holds in (
        ("artifacts", "the Dockerfiles"),
        ("rubrics", "REPO.json for each repository"),
        ("reports", "the reports, MODEL/REPO.json"),
    ):
        add(f"--{name}", metavar="DIR", default=name, help=f"the folder of {holds} (default: {name})")
    add("--layout", default=LAYOUT, help=f"where a Dockerfile is in --artifacts (default: {LAYOUT})")
    add("--checkouts", metavar="DIR", help="the folder of build contexts, REPO for each repository (default: "
        "checkouts; where there is no such folder, each Dockerfile's own)")  # fmt: skip
    add("--parallel", metavar="N", type=int, help="evaluations at a time (default: the processors of the "
        f"engines, at most {MOST_PARALLEL})")  # fmt: skip
    add("--engine", metavar="WHERE", action="append", help="a URL or a docker context; may be repeated")
    add("--docker", metavar="PROGRAM", default="docker", help="the docker command line (default: docker)")
    add("--wait", metavar="S", type=float, default=0.0, help="seconds to wait for an engine (default: 0)")
    add("--fresh", action="store_true", help="remove the reports that there are, and start over")
    add("--no-repeat", action="store_true", help="evaluate nothing twice")
    return parser


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options, with the pattern of the layout, and the command of the evaluator."""
    parser = _parser()
    options, others = parser.parse_known_args(argv)
    for word in others:
        name = word.partition("=")[0]
        if name.startswith("--") and any(own.startswith(name[2:]) for own in OURS):
            parser.error(f"{name} cannot be given for many Dockerfiles")
    if options.parallel is not None and options.parallel < 1:
        parser.error("--parallel: expected a whole number of at least 1")
    if not 0 <= options.wait < math.inf:
        parser.error("--wait: expected a number of seconds")
    try:
        options.pattern = layout_pattern(options.layout)
    except ValueError as error:
        parser.error(f"--layout: {error}")
    if options.checkouts is None and os.path.isdir("checkouts"):
        options.checkouts = "checkouts"
    options.command = [sys.executable, EVALUATOR, *others]
    options.command += [f"--docker={options.docker}", *[f"--wait={options.wait:g}"] * bool(options.wait)]
    # The evaluator says itself which options it takes, before it finds that this is no Dockerfile.
    words = [*options.command, f"--dockerfile={os.devnull}", "--repo=none"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == USAGE_CODE:
        parser.error(last_line(done.stderr.decode(errors="replace")).partition("error: ")[2])
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    try:
        return _run(_options(argv), Screen())
    except KeyboardInterrupt:  # before signals only ask: nothing was begun
        return 128 + signal.SIGINT


def _run(options: argparse.Namespace, screen: Screen) -> int:
    try:
        tasks, left_out = find(options)
    except OSError as error:
        screen.error(f"{shown(str(error.filename))}: {error.strerror}")
        return 1
    for reason, files in left_out.items():
        screen.error(f"left out: {shown(reason, 500)}: {listed(files, most=len(files))}")
    if not tasks:
        where = shown(os.path.join(options.artifacts, options.layout))
        screen.error(f"nothing to evaluate: no Dockerfile {'is left of' if left_out else 'matches'} {where}")
        return 1
    session = Session(options, tasks, screen)
    with signals_to(session.hear):
        if session.check_engines() and not session.signals:
            models = len({task.model for task in tasks})
            places = f" on {len(session.engines)} engines" if session.engines[1:] else ""
            counts = f"{_counted(len(tasks), 'Dockerfile')} of {_counted(models, 'model')}"
            screen.print(f"{counts}, {session.parallel} in parallel{places}")
            for task in tasks if options.fresh else ():
                task.forget()
            session.run()
            tell_sums(session, left_out)
        elif not session.signals:
            screen.error("no engine works; nothing was evaluated")
    if session.usage:
        screen.error(f"stopped, since it would be the same for all: {shown(session.usage, 500)}")
    if session.signals:
        return 128 + session.signals[0]
    return 0 if len(session.results) == len(session.finished) == len(tasks) and not left_out else 1


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


if __name__ == "__main__":
    raise SystemExit(main())
