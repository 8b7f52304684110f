#!/usr/bin/env python3
"""Evaluate a tree of Dockerfiles, several in parallel, on one docker engine or more.

    python3 artifacts/evaluate_all.py [--layout LAYOUT]… [--engine WHERE]… [any option of the evaluator]

    argv -> find() -> a Task for each Dockerfile -> Engine.check() of each engine, Base.supply() of what they
         start from -> Session: the evaluator's command line for each, in a process of its own
         -> Outcome, read from its report -> a line -> the sums

Started again, it goes on: a report that counts is taken as it is. All that it knows is in the reports folder:

    MODEL/REPO.json   the report, written by the evaluator
    MODEL/REPO.log    what the evaluator said; locked while an evaluation runs, ours or another start's
    MODEL/REPO.first  a report that was repeated (no image, one that could not be started, a time limit)
    bases.json        with --pull: the digest of each base image, from which every later start builds

Exit codes: 0 every Dockerfile has a report that counts; 1 one has none; 2 wrong usage; 130 Ctrl-C (143
SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import errno
import fcntl
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
from typing import Any, Callable, Iterator, Sequence

PROJECT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
EVALUATOR = os.path.join(PROJECT, "DockerfileEvaluator.py")
sys.path[:0] = [os.path.join(PROJECT, name) for name in ("", "artifacts", "reports")]

from inventory import (  # noqa: E402
    BUILD_FAILED,
    NO_START,
    Base,
    Found,
    Outcome,
    Task,
    files_below,
    find,
    keep,
    layout_pattern,
    plan_bases,
    read_outcome,
)

import DockerfileEvaluator as de  # noqa: E402, N813 - the folders are on the path only now
from DockerfileEvaluator import listed, shown  # noqa: E402

__all__ = ["main"]

LAYOUT = "{model}/{repo}.dockerfile"
MOST_PARALLEL = 8  # evaluations, unless --parallel says more
REST, RESTS = 60.0, 10  # seconds without work for an engine that fails its control; failures in a row
FAULTS, ALL_FAULTS = 2, 5  # of one Dockerfile: on engines that pass the control; on those that fail it, too
FIRST = 10  # evaluations of which one must have an image that can be started
REFUSED_CONTEXT = "docker refuses the build context"  # begins a usage error that is one Dockerfile's alone
PAUSES = (5.0, 20.0, 0.0)  # seconds after each try to have a base image
LOCKED = 0.5  # seconds between looks at an evaluation of another start
ASK_LIMIT, PRUNE_LIMIT = 30.0, 600.0  # seconds for docker's answer
CAUSES, NAMED = 10, 5  # causes of failed builds that are listed, Dockerfiles that are named with a problem
LEAVE = 3  # signals: one asks the evaluations to clean up, the second to leave that, the third leaves them
USAGE_CODE = 2  # the evaluator's exit code
SUMMARY = "GITHUB_STEP_SUMMARY"  # names the file for it, in GitHub Actions
# Options of the evaluator that are set here, or that mean nothing for many Dockerfiles.
OURS = ("dockerfile", "rubric", "context", "output", "resume", "check", "version", "help")


# -------- Engines -----------------------------------------------------------------------------


class Engine:
    """A docker engine: what it can take, and how it fares."""

    def __init__(self, where: str | None, options: argparse.Namespace) -> None:
        self.where, self.name = where, shown(where or "the docker engine")
        self.stop = de.Stop()  # of all that is asked here
        self.docker = de.Engine(options.docker, where, self.stop)
        self.processors = 0  # once it is known
        self.running = 0  # evaluations
        self.is_checked = False  # at this moment
        self.fault: de.EngineError | None = None  # why it gets no work
        self.is_given_up, self.rests_until = False, 0.0
        self.bases: set[Base] = set()  # from which builds may start here
        self._options = options

    def check(self, wait: float, over: threading.Event) -> de.EngineError | None:
        """Try it with the control and the user's options, for `wait` seconds; return what is wrong."""
        options = {"build_options": self._options.build_option, "run_options": self._options.run_option}
        deadline = time.monotonic() + wait
        while True:
            try:
                de.check_engine(self._options.docker, self.where, self.stop, **options)
                self.prune()
                for form in ("{{.NCPU}}", "{{.Host.CPUs}}"):  # docker's, podman's
                    answer = self.docker.ask("info", "--format", form, limit=ASK_LIMIT).stdout.strip()
                    self.processors = int(answer) if answer.isdigit() else self.processors or 1
            except de.Stopped:
                return de.EngineError("interrupted")
            except de.EngineError as error:
                if isinstance(error, de.UsageError) or time.monotonic() >= deadline or over.wait(1):
                    return error
            else:
                return None

    def prune(self) -> None:
        """Bound its build cache, where that was asked for; raise EngineError where that cannot be done."""
        if self._options.build_cache:
            words = ("builder", "prune", "--force", "--keep-storage", self._options.build_cache)
            answer = self.docker.ask(*words, limit=PRUNE_LIMIT)
            if answer.returncode and "already running" not in answer.stderr:
                raise de.UsageError(f"docker builder prune: {de.last_line(answer.stderr)}")


# -------- Evaluations -------------------------------------------------------------------------


class Job:
    """An evaluation under way."""

    def __init__(self, task: Task, engine: Engine) -> None:
        self.task, self.engine, self.began = task, engine, time.monotonic()
        self.process: Any = None  # once there is one
        self.is_resumed = False  # the report was there


class Session:
    """What is evaluated where and when, what is repeated, and when it is over.

    Threads do it, for each engine as many as may be in parallel. All that they know they share: one of them
    has the turn, and lets it go only while docker, the evaluator or another start works. The main thread
    listens to signals, whose handlers may do no more than SimpleQueue.put().
    """

    def __init__(self, options: argparse.Namespace, tasks: Sequence[Task], screen: Screen) -> None:
        self.options, self.tasks, self.screen = options, tasks, screen
        self.engines = [Engine(where, options) for where in dict.fromkeys(options.engine or [None])]
        self.bases: Sequence[Base] = ()  # to be on an engine before what starts from them is built there
        self.pulling: dict[Base, float] = {}  # since when
        self.turn = threading.Condition(threading.Lock())
        self.heard: queue.SimpleQueue[int] = queue.SimpleQueue()  # signals, and 0 once the last thread ends
        self.threads = 0
        self.todo: collections.deque[Task] = collections.deque()
        self.repeats: collections.deque[Task] = collections.deque()  # one at a time, after all others
        self.running: list[Job] = []
        self.over = threading.Event()  # by a signal, or since it would be the same for all
        self.signals: list[int] = []
        self.stopped = ""  # why it would be the same for all
        self.results: dict[Task, Outcome] = {}
        self.problems: dict[Task, str] = {}  # why there is no result
        self.finished: set[Task] = set()
        self.evaluated: set[Task] = set()  # in this start
        self.not_started = 0  # images, when they were first evaluated
        self.repeated = self.ended = 0  # evaluations
        self.spent = 0.0  # seconds of all evaluations

    # Threads, and who has the turn

    def _thread(self, work: Callable[..., object], *subjects: Any) -> None:
        def body() -> None:
            with self.turn:
                try:
                    work(*subjects)
                finally:
                    self.threads -= 1
                    self.turn.notify_all()
                    if not self.threads:
                        self.heard.put(0)

        self.threads += 1
        threading.Thread(target=body, daemon=True).start()

    @contextlib.contextmanager
    def _without_turn(self) -> Iterator[None]:
        self.turn.release()
        try:
            yield
        finally:
            self.turn.acquire()

    def _listen(self) -> None:
        """Take signals and draw the bar until the last thread has ended."""
        number = -1
        while number and len(self.signals) < LEAVE:
            number = -1
            with contextlib.suppress(queue.Empty):
                number = self.heard.get(timeout=1.0 if self.screen.is_live else None)
            with self.turn:
                if number > 0:
                    self._interrupted(number)
                self.screen.draw(self)
        self.screen.clear()

    def _interrupted(self, number: int) -> None:
        self.signals.append(number)
        self._end(number)
        count = sum(bool(job.process) for job in self.running) + sum(it.is_checked for it in self.engines)
        words = f"; waiting for {count} to clean up (interrupt again to skip that)" if count else ""
        self.screen.print(f"interrupted{words if len(self.signals) == 1 else '; leaving'}")

    def _end(self, number: int) -> None:
        """Begin nothing more, and ask what is under way to end."""
        self.over.set()
        self.turn.notify_all()
        for engine in self.engines:
            engine.stop.ask()
        for job in self.running:
            if job.process:
                job.process.send_signal(number)

    def _is_done(self) -> bool:
        return self.over.is_set() or not (self.todo or self.repeats or self.running)

    # Engines and bases

    @property
    def parallel(self) -> int:
        """How many evaluations may run at a time."""
        return self.options.parallel or min(self._processors(), MOST_PARALLEL)

    def _processors(self) -> int:
        return max(sum(engine.processors for engine in self.engines if not engine.is_given_up), 1)

    def check_engines(self) -> bool:
        """Try all engines; return whether one works."""
        with self.turn:
            for engine in self.engines:
                self._thread(self._check, engine, self.options.wait)
        self._listen()
        return not all(engine.fault for engine in self.engines)

    def _check(self, engine: Engine, wait: float = 0.0) -> None:
        engine.is_checked = True
        with self._without_turn():
            fault = engine.check(wait, self.over)
        engine.is_checked, engine.fault = False, fault
        self.turn.notify_all()

    def _is_well(self, engine: Engine) -> bool:
        """Ask an engine whether it works after a fault; if not, it rests."""
        self.turn.wait_for(lambda: not engine.is_checked)
        if not engine.fault:
            self._check(engine)
            if engine.fault:
                self._thread(self._rest, engine)
        return not engine.fault

    def _rest(self, engine: Engine) -> None:
        """Keep all work from an engine until it passes the control again, or for good."""
        failures = 0
        while engine.fault and not self._is_done():
            failures += 1
            engine.is_given_up = failures == RESTS or isinstance(engine.fault, de.UsageError)
            what = "is given up" if engine.is_given_up else f"rests {REST:.0f} s"
            self.screen.error(f"{engine.name}: {shown(str(engine.fault), 500)}; {engine.name} {what}")
            if engine.is_given_up:
                return self._leave()
            engine.rests_until = time.monotonic() + REST
            if not self.turn.wait_for(self._is_done, REST):
                self._check(engine)
        return self._supply()

    def _supply(self) -> None:
        """Have engines supplied with the bases that they lack."""
        for base in self.bases:
            is_lacking = any(not it.fault and base not in it.bases for it in self.engines)
            if is_lacking and not base.problem and base not in self.pulling and not self.over.is_set():
                self.pulling[base] = time.monotonic()
                self._thread(self._have, base)

    def _have(self, base: Base) -> None:
        """Have engines take a base, in three tries; leave what it cannot be had for."""
        for pause in PAUSES:
            base.problem = ""
            for engine in [it for it in self.engines if not it.fault and base not in it.bases]:
                try:
                    with self._without_turn():
                        told = base.supply(engine.docker, self.options.pull_options)
                    engine.bases.add(base)
                    if not keep(self.options.bases_file, base):  # another start was faster, with other bytes
                        for other in self.engines:
                            other.bases.discard(base)
                except (de.EvaluationError, de.Stopped, OSError, ValueError) as error:
                    where = f"{engine.name}: " if self.engines[1:] else ""
                    base.problem = f"{where}{error}"
                else:
                    where = f" on {engine.name}" if self.engines[1:] else ""
                    if told:
                        self.screen.print(f"base {shown(base.name)}{where}: {shown(told, 500)}")
                    self.turn.notify_all()
            with self._without_turn():
                if not base.problem or self.over.wait(pause):
                    break
        del self.pulling[base]
        self._leave()
        self._supply()

    def _leave(self) -> None:
        """Leave to the next start what no engine can build, since each lacks a base for good."""
        engines = [engine for engine in self.engines if not engine.is_given_up]
        left: dict[Base, list[Task]] = collections.defaultdict(list)
        for task in (*self.todo, *self.repeats):
            lost = [base for base in task.bases if base.problem and base not in self.pulling]
            lacking = [[base for base in lost if base not in engine.bases] for engine in engines]
            if lacking and all(lacking) and not self.over.is_set():
                left[lacking[0][0]].append(task)
        for base, tasks in left.items():
            why = f"base {shown(base.name)} cannot be had: {shown(base.problem, 300)}"
            self.screen.error(f"{why}; left for the next start: {listed([task.place for task in tasks])}")
            for task in tasks:
                (self.repeats if task.is_repeat else self.todo).remove(task)
                self.problems[task] = why
                self.finished.add(task)

    # Evaluations

    def run(self) -> None:
        """Evaluate all, until it is done or over."""
        with self.turn:
            for task in self.tasks:
                self._plan(task)
            self._supply()
            for engine in self.engines:
                if engine.fault:
                    self._thread(self._rest, engine)
                for _ in range(self.options.parallel or MOST_PARALLEL):
                    self._thread(self._work, engine)
        self._listen()

    def _plan(self, task: Task) -> None:
        task.is_repeat = not self.options.no_repeat and task.repetition_is_due()
        (self.repeats if task.is_repeat else self.todo).append(task)

    def _work(self, engine: Engine) -> None:
        """Evaluate on an engine whatever there is room for."""
        while not self._is_done() and not engine.is_given_up:
            most = max(math.ceil(self.parallel * engine.processors / self._processors()), 1)
            tasks, at_a_time = (self.todo, self.parallel) if self.todo else (self.repeats, 1)
            is_free = not engine.fault and not engine.is_checked and engine.running < most
            fits = (task for task in tasks if task.bases <= engine.bases)
            task = next(fits, None) if is_free and len(self.running) < at_a_time else None
            if task:
                tasks.remove(task)
                self._evaluate(task, engine)
                self.turn.notify_all()
            else:
                self.turn.wait()

    def _evaluate(self, task: Task, engine: Engine) -> None:
        """Evaluate a task, unless another start does; then plan it anew when that is over."""
        job = Job(task, engine)
        self.running.append(job)
        engine.running += 1
        try:
            os.makedirs(os.path.dirname(task.log) or ".", exist_ok=True)
            with open(task.log, "a+b") as log:
                if lock(log):
                    self._judge(job, *self._outcome(job, log))
                    return
                self._line(task, "waiting: another start is evaluating it")
                with self._without_turn():
                    while not lock(log) and not self.over.wait(LOCKED):
                        pass
                self._plan(task)
        except OSError as error:
            self._give_up(task, f"{error.filename or task.log}: {error.strerror}")
        finally:
            self.running.remove(job)
            engine.running -= 1

    def _outcome(self, job: Job, log: Any) -> tuple[Outcome | None, str]:
        """Let the evaluator work; return the outcome, None where it wrote no report, and its last words."""
        task, logged, before = job.task, os.fstat(log.fileno()).st_size, read_outcome(job.task.report)
        resume = not (self.options.fresh or self.options.failed_builds)
        if task.is_repeat:
            resume = bool(before and before.counts and not task.needs_repetition(before))  # another start's
            if before and before.counts and not resume:
                task.note_repetition()
        job.process = self._popen(job, log, resume=resume)
        with self._without_turn():
            code = job.process.wait()
            with contextlib.suppress(de.EngineError, de.Stopped):  # when it was checked, it could be bounded
                job.engine.prune()
        log.seek(logged)
        job.is_resumed = log.readline(100).startswith(b"resumed: ")
        log.seek(max(logged, os.fstat(log.fileno()).st_size - 4000))
        said = de.last_line(log.read().decode(errors="replace")) or "nothing in its log; is the disk full?"
        if job.is_resumed:  # the log stays that of the evaluation
            os.ftruncate(log.fileno(), logged)
        outcome = read_outcome(task.report)
        is_new = outcome and (job.is_resumed or not before or outcome.digest != before.digest)
        return outcome if is_new else None, f"exit code {code}: {said.rpartition('error: ')[2]}"

    def _popen(self, job: Job, log: Any, *, resume: bool) -> subprocess.Popen[bytes]:
        """Start the evaluator, in a session of its own: a terminal's Ctrl-C is to reach only us."""
        task, junit = job.task, self.options.junit
        words = [*self.options.command, f"--dockerfile={task.dockerfile}", f"--repo={task.repo}"]
        words += [f"--rubric={task.rubric}", f"--output={task.report}", *["--resume"] * resume]
        words += [f"--context={task.context}"] if task.context else []
        words += [f"--engine={job.engine.where}"] if job.engine.where else []
        words += [f"--junit={os.path.join(junit, task.place)}.xml"] if junit else []
        # Of hundreds of tables GitHub shows the first ones and refuses the rest.
        environment = {name: value for name, value in os.environ.items() if name != SUMMARY}
        pipes: Any = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
        return subprocess.Popen(words, env=environment, start_new_session=True, **pipes)

    def _judge(self, job: Job, outcome: Outcome | None, said: str) -> None:
        """Go on by what came of an evaluation: a result, somebody's fault, or nothing."""
        task = job.task
        if outcome and outcome.counts:
            self._result(job, outcome)
        elif self.over.is_set() and (not outcome or outcome.kind == "interrupted"):
            self._give_up(task, "interrupted")
        elif not outcome or outcome.kind == "interrupted":
            self._give_up(task, f"no report: {said}")
        elif outcome.kind == "registry":  # which makes no engine rest
            self._try_again(task, outcome, is_its_own=True)
        elif outcome.kind == "usage" and outcome.message.startswith(REFUSED_CONTEXT):
            self._give_up(task, outcome.words)
        else:
            is_well = self._is_well(job.engine)
            if is_well and outcome.kind == "usage":
                self._give_up(task, outcome.words)
            else:
                self._try_again(task, outcome, is_its_own=is_well)

    def _result(self, job: Job, outcome: Outcome) -> None:
        task, words = job.task, outcome.words
        self.results[task] = outcome
        self.problems.pop(task, None)
        if job.is_resumed:
            words += ", resumed"
        else:
            self.evaluated.add(task)
            self.ended += 1
            self.spent += time.monotonic() - job.began
            self.not_started += outcome.doubt.startswith(NO_START) and not task.is_repeat
            self.repeated += task.is_repeat
            words += ", repeated" * task.is_repeat
            if not task.is_repeat:  # what is noted was of earlier files
                remove(task.first)
        task.is_repeat = not self.options.no_repeat and task.needs_repetition(outcome)
        if task.is_repeat:
            self.repeats.append(task)
            words += ", to be repeated at the end" + f": {outcome.doubt}" * (not outcome.kind)
        else:
            self.finished.add(task)
        self._line(task, words)
        if len(self.evaluated) == self.not_started == FIRST and not self.over.is_set():
            self.stopped = (
                f"none of the first {FIRST} images can be started: {outcome.doubt[len(NO_START) :]}"
            )
            self._end(signal.SIGTERM)

    def _try_again(self, task: Task, outcome: Outcome, *, is_its_own: bool) -> None:
        """Evaluate a task again, after all others; hold it back where that was done already."""
        self.results.pop(task, None)  # of a first evaluation, whose report this fault has replaced
        task.faults += is_its_own
        task.all_faults += 1
        if task.faults >= FAULTS or task.all_faults >= ALL_FAULTS:
            self._give_up(task, f"{outcome.words}; held back for the next start")
        else:
            self.problems[task] = outcome.words
            (self.repeats if task.is_repeat else self.todo).append(task)
            self._line(task, f"{outcome.words}; to be tried again")

    def _give_up(self, task: Task, why: str) -> None:
        self.results.pop(task, None)
        self.problems[task] = why
        self.finished.add(task)
        self._line(task, why)

    def _line(self, task: Task, words: str) -> None:
        done, total = len(self.finished), len(self.tasks)
        self.screen.print(f"[{done:>{len(str(total))}}/{total}] {shown(task.place)}: {shown(words, 500)}")


def remove(path: str) -> None:
    """Remove a report, if it is there."""
    with contextlib.suppress(OSError):  # what cannot be written is named when it is evaluated
        os.unlink(path)


def lock(file: Any) -> bool:
    """Lock a file until all close it, processes that inherit it too; return whether it is ours now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # of a file system without locks, too: then nobody else is taken to be there
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


# -------- The screen --------------------------------------------------------------------------


class Screen:
    """Lines, and on a terminal a bar below them; nothing that happens to it ends an evaluation."""

    def __init__(self) -> None:
        sys.stdout, sys.stderr = de.standard_streams()
        self.is_live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._is_drawn = False  # the bar is there

    def print(self, text: str, stream: Any = None) -> None:
        """Print a line above the bar."""
        self.clear()
        de.write_to(stream or sys.stdout, f"{text}\n")

    def error(self, text: str) -> None:
        """Print a line on stderr."""
        self.print(f"error: {text}", sys.stderr)

    def draw(self, session: Session) -> None:
        """Draw the bar on a terminal."""
        if self.is_live:
            de.write_to(sys.stdout, f"\r\x1b[K{bar(session, shutil.get_terminal_size().columns or 80)}")
            self._is_drawn = True

    def clear(self) -> None:
        """Take the bar away."""
        de.write_to(sys.stdout, "\r\x1b[K") if self._is_drawn else None
        self._is_drawn = False


def bar(session: Session, columns: int) -> str:
    """Return a line: how much is done, the time left, who rests until when, what runs for how long."""
    done, total, width = len(session.finished), len(session.tasks), max(min(columns // 4, 30), 6)
    filled, now = width * done // total, time.monotonic()
    text = f"[{'#' * filled}{'.' * (width - filled)}] {done}/{total}"
    if session.ended and done < total:
        mean = session.spent / session.ended
        under_way = sum(max(mean - (now - job.began), 0) for job in session.running)
        # Those that are repeated run one at a time.
        left = (mean * len(session.todo) + under_way) / session.parallel + mean * len(session.repeats)
        text += f", {lasting(left)} left"
    busy = [f"checking {engine.name}" for engine in session.engines if engine.is_checked]
    busy += [f"{shown(job.task.place, 60)} {lasting(now - job.began)}" for job in session.running]
    busy += [f"pulling {shown(base.name, 60)} {lasting(now - at)}" for base, at in session.pulling.items()]
    for engine in session.engines:
        if engine.rests_until > now and not engine.is_given_up:
            until = time.localtime(time.time() + engine.rests_until - now)
            busy.append(f"{engine.name} rests until {time.strftime('%H:%M:%S', until)}")
    text += f": {', '.join(busy)}" if busy else ""
    return text if len(text) < columns else f"{text[: max(columns - 2, 0)]}…"


def lasting(seconds: float) -> str:
    """Return a time in words."""
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{seconds:.0f} s" if seconds < 60 else f"{hours} h {minutes} min" if hours else f"{minutes} min"  # noqa: PLR2004


def sums(session: Session, found: Found) -> list[str]:
    """Return the counts, what has no result, why builds failed, and the mean of each model, line by line."""
    results = session.results
    failed = [outcome for outcome in results.values() if outcome.kind in BUILD_FAILED]
    counts = {
        "evaluated": len(session.evaluated),
        "resumed": len(set(results) - session.evaluated),
        "repeated": session.repeated,
        "builds failed": len(failed),
        "left out": sum(map(len, found.left_out.values())),
        "without a result": len(session.tasks) - len(results),
    }
    lines = [", ".join(f"{name} {count}" for name, count in counts.items())]
    problems: dict[str, list[str]] = collections.defaultdict(list)
    for task, why in session.problems.items():
        problems[why].append(shown(task.place))
    for why, places in problems.items():
        more = f" and {len(places) - NAMED} more" if places[NAMED:] else ""
        lines.append(f"  {', '.join(places[:NAMED])}{more}: {shown(why, 300)}")
    causes = collections.Counter(outcome.cause for outcome in failed).most_common()
    if causes[CAUSES:]:
        causes[CAUSES:] = [("other causes", sum(count for _, count in causes[CAUSES:]))]
    lines += ["failed builds by cause:"] * bool(causes)
    lines += [f"  {count} of {len(failed)}: {shown(cause)}" for cause, count in causes]
    lines += means(session, found)
    strangers = [path for path in files_below(session.options.reports, (), []) if path.endswith(".json")]
    strangers = [it for it in strangers if os.path.realpath(it) not in found.reports and read_outcome(it)]
    if strangers:
        lines.append(f"no Dockerfile is behind these, which leaderboard.py counts: {listed(strangers, 10)}")
    return lines


def means(session: Session, found: Found) -> list[str]:
    """Return the mean score of each model, as the leaderboard has it, and of how many reports, best first."""
    import leaderboard  # only now, since it takes memory

    asked, rows = set(session.tasks), []
    models: dict[str, list[Task]] = collections.defaultdict(list)
    for task in found.tasks:
        models[task.model].append(task)
    for model, tasks in models.items():
        # What --failed-builds did not ask for keeps its report, and counts.
        files = [task.report for task in tasks if task in session.results or task not in asked]
        read = (it for file in files for it in leaderboard.read_reports([file])[0])
        reports = [it._replace(tests=()) for it in read if it.score is not None]  # they can be thousands
        # One model at a time: whatever the leaderboard makes of its name, it has one score.
        (score,) = leaderboard.scores_by_model(reports).values() if reports else (None,)
        count = f"{len(reports)} of " * (len(reports) < len(tasks)) + counted(len(tasks), "report")
        rows.append((-1.0 if score is None else score, shown(model), count))
    width = max(len(model) for _, model, _ in rows)
    lines = [
        f"  {model:<{width}}  {f'{score:.1%}' if score >= 0 else '-':>6}  ({count})"
        for score, model, count in sorted(rows, key=lambda row: -row[0])
    ]
    return ["mean score by model:", *lines]


def plan(session: Session) -> list[str]:
    """Return what would be done, and which engines have the base images, line by line."""
    lines = []
    is_anew = session.options.fresh or session.options.failed_builds
    for model in sorted({task.model for task in session.tasks}):
        tasks = [task for task in session.tasks if task.model == model]
        reports = [] if is_anew else [(task, read_outcome(task.report)) for task in tasks]
        resumed = sum(1 for task, it in reports if it and it.counts and task.is_of(it))
        lines.append(f"{shown(model)}: {counted(len(tasks), 'Dockerfile')}, {resumed} of them resumed")
    users = collections.Counter(base for task in session.tasks for base in task.bases)
    for base, count in sorted(users.items(), key=lambda item: -item[1]):
        having, where = [], ""  # which no engine may tell
        for engine in session.engines:
            with contextlib.suppress(de.EngineError):
                having += [engine.name] * (base.digests(engine.docker) is not None)
                where = f": on {', '.join(having) or 'no engine'}"
        lines.append(f"base {shown(base.name)}, {counted(count, 'Dockerfile')}{where}")
    return lines


# -------- Command line ------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="evaluate_all",
        description="Evaluate a tree of Dockerfiles, several in parallel. Started again, it goes on. Options "
        "of DockerfileEvaluator.py are handed on to it. What is marked * may be repeated.",
        epilog="Exit codes: 0 every Dockerfile has a report that counts; 1 one has none; 2 wrong usage; 130 "
        "interrupted by Ctrl-C (143 by SIGTERM, 129 by SIGHUP).",
        allow_abbrev=False,
    )
    add = parser.add_argument
    holds = {
        "artifacts": "Dockerfiles",
        "rubrics": "rubrics, REPO.json",
        "reports": "reports, MODEL/REPO.json",
    }
    for name, what in holds.items():
        add(f"--{name}", metavar="DIR", default=name, help=f"the folder of the {what} (default: {name})")
    contexts = "the folder of build contexts, REPO (default: checkouts; without it each Dockerfile's own)"
    add("--checkouts", metavar="DIR", help=contexts)
    add("--layout", action="append", help=f"where a Dockerfile is in --artifacts (default: {LAYOUT}) *")
    for name in ("model", "repo"):
        add(f"--{name}", metavar="PATTERN", action="append", help="only these, by a shell pattern *")
    for name, what in (
        ("list", "only say what would be done"),
        ("fresh", "remove the reports that there are, and start over"),
        ("failed-builds", "evaluate anew whose build failed, and nothing else"),
        ("no-repeat", "evaluate nothing twice"),
        ("pull", "pull base images ahead: the same bytes on all engines, in all starts"),
    ):
        add(f"--{name}", action="store_true", help=what)
    add("--build-cache", metavar="SIZE", help="prune the engines' BuildKit cache to this size, such as 20GB")
    add("--junit", metavar="DIR", help="write the reports as JUnit XML, too: MODEL/REPO.xml")
    most = f"evaluations at a time (default: the processors of the engines, at most {MOST_PARALLEL})"
    add("--parallel", metavar="N", type=int, help=most)
    add("--engine", metavar="WHERE", action="append", help="a URL or a docker context *")
    add("--docker", metavar="PROGRAM", default="docker", help="the docker command line (default: docker)")
    add("--wait", metavar="S", type=float, default=0.0, help="seconds to wait for an engine (default: 0)")
    for step in ("build", "run"):
        add(
            f"--{step}-option", metavar="OPT", action="append", default=[], help=f"a word for docker {step} *"
        )
    return parser


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options, with the patterns of the layouts, and the command of the evaluator."""
    parser = _parser()
    options, others = parser.parse_known_args(argv)
    for word in others:
        name = word.partition("=")[0]
        ours = (*OURS, *(own.replace("_", "-") for own in vars(options)))
        if name.startswith("--") and any(own.startswith(name[2:]) for own in ours):
            parser.error(f"{name} cannot be given for many Dockerfiles, or not in short")
    if options.parallel is not None and options.parallel < 1:
        parser.error("--parallel: expected a whole number of at least 1")
    if not 0 <= options.wait < math.inf:
        parser.error("--wait: expected a number of seconds")
    if options.build_cache and not re.fullmatch(r"\d+(\.\d+)?([kmgt]?i?b)?", options.build_cache.lower()):
        parser.error("--build-cache: expected a size such as 20GB")
    options.layout = options.layout or [LAYOUT]
    try:
        options.patterns = [layout_pattern(layout) for layout in options.layout]
    except ValueError as error:
        parser.error(f"--layout: {error}")
    if options.checkouts is None and os.path.isdir("checkouts"):
        options.checkouts = "checkouts"
    options.bases_file = os.path.join(options.reports, "bases.json")
    options.command = [sys.executable, EVALUATOR, "--verbose", *others, f"--docker={options.docker}"]
    options.command += [f"--wait={options.wait:g}"] * bool(options.wait)
    options.command += [f"--build-option={word}" for word in options.build_option]
    options.command += [f"--run-option={word}" for word in options.run_option]
    # The evaluator says itself which options it takes, before it finds that this is no Dockerfile.
    words = [*options.command, f"--dockerfile={os.devnull}", "--repo=none"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == USAGE_CODE:
        parser.error(de.last_line(done.stderr.decode(errors="replace")).partition("error: ")[2])
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    try:
        return _run(_options(argv), Screen())
    except KeyboardInterrupt:  # before signals only ask: nothing was begun
        return 128 + signal.SIGINT


def _run(options: argparse.Namespace, screen: Screen) -> int:
    try:
        found = find(options)
        tasks = [task for task in found.tasks if not options.failed_builds or build_failed(task)]
        session = Session(options, tasks, screen)
        if options.pull or options.list:
            session.bases = plan_bases(tasks, session.engines[0].docker, options)
    except (OSError, ValueError) as error:
        fault = error.strerror if isinstance(error, OSError) else error
        screen.error(f"{shown(str(getattr(error, 'filename', options.bases_file)))}: {fault}")
        return 1
    for reason, files in found.left_out.items():
        screen.error(f"left out: {shown(reason, 500)}: {listed(files, most=len(files))}")
    if not tasks:
        where = listed([os.path.join(options.artifacts, layout) for layout in options.layout])
        what = f"no Dockerfile {'is left of' if found.left_out else 'matches'} {where}"
        screen.error(f"nothing to evaluate: {'no build failed' if found.tasks else what}")
        return 0 if found.tasks and not found.left_out else 1
    if options.list:
        screen.print("\n".join(plan(session)))
        return 1 if found.left_out else 0
    with de.signals_to(lambda number, _: session.heard.put(number)):
        if session.check_engines() and not session.signals:
            models = len({task.model for task in tasks})
            works = sum(not engine.fault for engine in session.engines)
            places = f" on {f'{works} of ' * (works < len(session.engines))}{len(session.engines)} engines"
            counts = f"{counted(len(tasks), 'Dockerfile')} of {counted(models, 'model')}"
            screen.print(f"{counts}, {session.parallel} in parallel{places * bool(session.engines[1:])}")
            for task in tasks if options.fresh else ():
                remove(task.report)
                remove(task.first)
            session.run()
            with session.turn:
                tell(screen, sums(session, found))
        elif not session.signals:
            for engine in session.engines:
                screen.error(f"{engine.name}: {shown(str(engine.fault), 500)}")
            screen.error("no engine works; nothing was evaluated")
    if session.stopped:
        screen.error(f"stopped: {shown(session.stopped, 500)}")
    if session.signals:
        return 128 + session.signals[0]
    return 0 if len(session.results) == len(session.finished) == len(tasks) and not found.left_out else 1


def tell(screen: Screen, lines: Sequence[str]) -> None:
    """Print the sums, and append them to the summary of a step of GitHub Actions."""
    screen.print("\n".join(lines))
    try:
        if os.environ.get(SUMMARY):
            with open(os.environ[SUMMARY], "a", encoding="utf-8", errors="backslashreplace") as file:
                text = "\n".join(lines).replace("```", "'''")
                file.write(f"### Dockerfiles\n\n```\n{text}\n```\n")
    except OSError as error:
        screen.error(f"{os.environ[SUMMARY]}: the summary cannot be written: {error.strerror}")


def build_failed(task: Task) -> bool:
    """Whether its report says so."""
    outcome = read_outcome(task.report)
    return outcome is not None and outcome.kind in BUILD_FAILED


def counted(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


if __name__ == "__main__":
    raise SystemExit(main())
