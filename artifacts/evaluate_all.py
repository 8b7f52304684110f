#!/usr/bin/env python3
"""Evaluate many Dockerfiles in parallel, on this machine or on the workers of a Dask cluster.

    find_answers()   the Dockerfiles, each with its rubric, build context and report
    the reference    Dockerfiles that are known to be right: do they get all points on this host?
    first round      each whose report has no score for the same inputs
    second round     retries what has no score, except usage errors; and without the cache what load
                     or network trouble may have affected: failed builds, timeouts, images that did
                     not start, suspicious tests. The reference of the repository is evaluated
                     beside them.
    try_engine()     after many engine errors in a row: if a trivial Dockerfile fails too, stop
    print_summary()

All rounds give evaluate_task() to an executor of concurrent.futures: threads of this process, or
Dask's workers. better() decides which report stays. Started again, the program continues where it
stopped.

Exit codes: 0 every Dockerfile has a score, 1 one has none or was left out, 2 bad arguments,
130 Ctrl-C (143 SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import hashlib
import io
import itertools
import logging
import os
import re
import shutil
import signal
import sys
import time
import zlib
from concurrent import futures
from datetime import timedelta
from typing import (
    Any,
    Callable,
    Collection,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Sequence,
)

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]  # a Dask worker has the evaluator beside this file

import DockerfileEvaluator as de

DEFAULT_LAYOUT = "{model}/{repo}.dockerfile"
MAX_PARALLEL = 8  # evaluations on this machine, unless --parallel says otherwise
MAX_FAILURES = 3  # in a row, per parallel evaluation, before the engine is tried or the run stops
WORKER_TIMEOUT = 60  # seconds until the first Dask worker must be there
TICK = 0.5  # seconds between checks for an interrupt
SHOWN_NAMES = 50  # in a line of the summary
QUIET = 30.0  # seconds of silence before a line says what runs
HALF_LOG = 500_000  # bytes of the beginning of an evaluation's log that are kept, and of its end
REFERENCE = "reference"  # a suspicion: the Dockerfile that is known to be right failed, too


class Task(NamedTuple):
    """A Dockerfile to evaluate. There may be 50,000, so Benchmark computes all else."""

    model: str
    repo: str
    dockerfile: str  # a path
    is_beside_retries: bool = False  # the reference beside retries: its report is not kept

    @property
    def name(self) -> str:
        """MODEL/REPO, for messages."""
        name = de.printable(os.path.join(self.model, self.repo))
        return f"{name} (beside retries)" if self.is_beside_retries else name


# Stands for the control experiment among the tasks that run.
CONTROL_EXPERIMENT = Task("", "control experiment", "")


class Outcome(NamedTuple):
    """How an evaluation has ended."""

    report: de.Report | None
    kind: str = ""  # of the error, "" without one
    problem: str = ""
    worker: str = ""  # the address of the Dask worker with an engine error


class Score(NamedTuple):
    """What is remembered of a report that has a score."""

    share: float  # of the points, from 0 to 1
    suspect: str | None
    needs_retry: bool  # load or the network may have cost points, and it was not retried
    is_second_try: bool


# ---------------------------------------------------------------------------------------------
# What there is to evaluate
# ---------------------------------------------------------------------------------------------


class Benchmark:
    """The folders and options that all evaluations share."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self._rubrics: dict[str, str] = {}  # digests, by path

    def options(self, task: Task) -> de.Options:
        """Return the options of an evaluation; its report is `output`."""
        given = self.arguments
        folder = os.path.dirname(task.dockerfile)
        # Models do not share the files of cache mounts.
        namespace = hashlib.sha256(os.fsencode(task.model)).hexdigest()[:16]
        common: de.Options = given.common
        mine = f"--build-arg=BUILDKIT_CACHE_MOUNT_NS={namespace}"
        return common._replace(
            dockerfile=task.dockerfile,
            repo=task.repo,
            rubric=os.path.join(given.rubrics, f"{task.repo}.json"),
            output=None if task.is_beside_retries else self.report_path(task),
            context=os.path.join(given.checkouts, task.repo) if given.checkouts else folder,
            overlay=folder if given.overlay else None,
            build_options=(*common.build_options, mine),
        )

    def report_path(self, task: Task) -> str:
        """Return where the report of a task is."""
        return os.path.join(self.arguments.reports, task.model, f"{task.repo}.json")

    def inputs_sha256(self, options: de.Options) -> str:
        """Return the digest of the inputs; raise EvaluationError if one of them is unusable."""
        rubric = str(options.rubric)
        if rubric not in self._rubrics:
            content = de.read_file(rubric)
            de.read_rubric(content, rubric)
            self._rubrics[rubric] = hashlib.sha256(content).hexdigest()
        if not os.path.isdir(str(options.context)):
            raise de.EvaluationError(de.FILE, f"no such folder: {options.context}")
        dockerfile = hashlib.sha256(de.read_file(options.dockerfile)).hexdigest()
        return de.inputs_sha256(options, dockerfile, self._rubrics[rubric])

    def is_current(self, report: de.Report, options: de.Options) -> bool:
        """Return whether a report has a score for the files that are here now."""
        try:
            return de.is_report_for(report, options, self.inputs_sha256(options))
        except de.EvaluationError:  # a file has vanished
            return False


class Answers(NamedTuple):
    """What was found in --artifacts."""

    tasks: list[Task]
    models: set[str]  # also those that are not selected
    missing: dict[str, list[str]]  # repositories that only other models have answered, by model
    left_out: dict[str, list[str]]  # paths, by the reason
    unmatched: list[str]  # Dockerfiles that are not matched by any --layout


def find_answers(benchmark: Benchmark) -> Answers:
    """Return the selected tasks; raise EvaluationError if two share an overlay."""
    arguments = benchmark.arguments
    answers = Answers([], set(), {}, collections.defaultdict(list), [])
    overlays: dict[str, str] = {}
    places: set[tuple[str, str]] = set()  # model and repository, also of what is left out
    for path, match in files_below(arguments.artifacts, arguments.layouts, answers.left_out):
        if not match:
            if "dockerfile" in os.path.basename(path).lower():
                answers.unmatched.append(path)
            continue
        other = overlays.setdefault(os.path.dirname(path), path)
        if arguments.overlay and other != path:
            message = f"--overlay: {other} and {path} are in the same folder"
            raise de.EvaluationError(de.USAGE, message)
        task = Task(match.groupdict().get("model") or "", match["repo"], path)
        answers.models.add(task.model)
        if not is_selected(task, arguments):
            continue
        problem = unusable(benchmark, task)
        if task[:2] in places:
            problem = "another Dockerfile has the same model and repository"
        places.add(task[:2])
        if problem:
            answers.left_out[problem].append(path)
        else:
            answers.tasks.append(task)
    if arguments.shard == (1, 1):  # Otherwise an answer may be in another part.
        answers.missing.update(missing_answers(places, arguments.reference))
    return answers


def missing_answers(
    places: Collection[tuple[str, str]], reference: str | None
) -> dict[str, list[str]]:
    """Return the repositories for which others have an answer, by the model that has none."""
    repos = sorted({repo for _, repo in places})
    models = sorted({model for model, _ in places if model != reference})
    missing = {model: [repo for repo in repos if (model, repo) not in places] for model in models}
    return {model: lacking for model, lacking in missing.items() if lacking}


def unusable(benchmark: Benchmark, task: Task) -> str:
    """Return why a task cannot be evaluated, or ""."""
    options = benchmark.options(task)
    if os.path.abspath(benchmark.report_path(task)) == os.path.abspath(str(options.rubric)):
        return "its report would replace its rubric; use another folder for --reports"
    try:
        benchmark.inputs_sha256(options)
    except de.EvaluationError as error:
        return str(error).splitlines()[0]
    return ""


def layout_pattern(layout: str) -> re.Pattern[str]:
    """Return the pattern of a path with {model}, {repo} and *; raise ValueError."""
    parts = {"{model}": "(?P<model>.+)", "{repo}": "(?P<repo>[^/]+)", "*": "[^/]*"}
    words = re.split(r"(\{.*?\}|\*)", layout)
    has_both_once = words.count("{repo}") == 1 and words.count("{model}") < 2
    if not has_both_once or not set(words[1::2]) <= set(parts):
        raise ValueError(f"--layout: expected {{repo}}, {{model}} and * in '{layout}'")
    return re.compile("".join(parts.get(word) or re.escape(word) for word in words))


def files_below(
    folder: str, layouts: Sequence[re.Pattern[str]], left_out: dict[str, list[str]]
) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield each file below a folder in the order of names, and how the first layout matches.

    Skips hidden files, folders named `checkouts`, and folders inside an answer of several files. A
    link to a folder is followed, unless the folder was there before. Folders that cannot be read
    are added to `left_out`.
    """

    def unreadable(error: OSError) -> None:
        left_out[str(error.strerror)].append(str(error.filename))

    for place, folders, files in de.walk(folder, unreadable):
        folders[:] = [name for name in folders if name[0] != "." and name != "checkouts"]
        is_answer = False  # the folder as a whole
        for name in (name for name in files if name[0] != "."):
            path = os.path.join(place, name)
            relative = os.path.relpath(path, folder)
            match = next(filter(None, (layout.fullmatch(relative) for layout in layouts)), None)
            after_names = relative[match.end(match.lastindex or 0) :] if match else ""
            if "/" in after_names:
                is_answer = True
            if os.path.isfile(path):
                yield path, match
            elif match:  # a pipe would block
                left_out["not a regular file"].append(path)
        if is_answer:
            folders.clear()


def is_selected(task: Task, arguments: argparse.Namespace) -> bool:
    """Return whether --model, --repo and --shard select a task.

    The reference is in every shard, since each may use another engine.
    """
    part, parts = arguments.shard
    place = os.path.join(task.model, task.repo)
    is_mine = zlib.crc32(os.fsencode(place)) % parts == part - 1
    is_chosen = task.model == arguments.reference or (is_mine and fits(task.model, arguments.model))
    return is_chosen and fits(task.repo, arguments.repo)


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns matches a name."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


# ---------------------------------------------------------------------------------------------
# One evaluation, on this machine or on a worker
# ---------------------------------------------------------------------------------------------


class BoundedFile(io.FileIO):
    """Appends to a file, and keeps the first and the last HALF_LOG bytes of what it appends."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "a+")
        self._cut_at = self.tell() + HALF_LOG

    def write(self, data: Any) -> int:
        """Append bytes; raise OSError if the disk is full."""
        size = super().write(data)
        self._cut(2 * HALF_LOG)  # Not for each line: it moves the end.
        return size

    def close(self) -> None:
        """Cut the middle out."""
        with contextlib.suppress(OSError, ValueError):  # The disk is full, or it is closed.
            self._cut(HALF_LOG)
        super().close()

    def _cut(self, limit: int) -> None:
        if self.tell() > self._cut_at + limit:
            self.seek(-HALF_LOG, os.SEEK_END)
            end = self.read()
            self.truncate(self._cut_at)
            super().write(b"\n[...]\n" + end)


def open_log(path: str) -> io.TextIOWrapper:
    """Open the log of an evaluation, which is appended to."""
    file: Any = BoundedFile(path)
    return io.TextIOWrapper(file, "utf-8", "backslashreplace", write_through=True)


def evaluate_task(options: de.Options, signals: list[int]) -> Outcome:
    """Evaluate a Dockerfile; what the evaluator prints is appended to a log beside the report.

    A signal that is appended to `signals` interrupts it. It waits for an engine that is down:
    otherwise a worker without one would fail the whole queue.
    """
    docker = de.Docker(options.docker)
    docker.signals = signals
    log = f"{os.path.splitext(options.output)[0]}.log" if options.output else os.devnull
    try:
        docker.connect(de.RECOVERY_TIMEOUT)
        inputs = read_inputs(options)
        if options.output:
            de.check_writable(options.output)
        with open_log(log) as stream:
            report = de.run_evaluation(options, inputs, docker, de.Console(stream, verbose=True))
    except de.EvaluationError as error:
        return Outcome(None, error.kind, str(error))
    if report["error"]:
        return Outcome(report, report["error"]["kind"], report["error"]["message"])
    return Outcome(report)


def read_inputs(options: de.Options) -> de.Inputs:
    """Read Dockerfile and rubric; raise EvaluationError. A retry would not help."""
    try:
        return de.read_inputs(options._replace(output=None))
    except de.EvaluationError as error:
        raise de.EvaluationError(de.USAGE, str(error)) from None


def try_engine(options: de.Options, signals: list[int]) -> Outcome:
    """Make the control experiment with the engine of this machine; `problem` says what fails."""
    docker = de.Docker(options.docker)
    docker.signals = signals
    workspace = de.Workspace(docker)
    try:
        docker.connect(de.RECOVERY_TIMEOUT)
        workspace.begin()
        fault = de.host_fault(workspace, options)
    except (de.EvaluationError, OSError, RuntimeError) as error:
        return Outcome(None, de.ENGINE, str(error))
    finally:
        workspace.end()
    return Outcome(None, de.ENGINE, str(fault)) if fault else Outcome(None)


# On a Dask worker


def run_on_worker(call: Call, options: de.Options, batch_id: str) -> Outcome:
    """Call evaluate_task() or try_engine() on a Dask worker; its name is in an engine error."""
    from distributed import get_worker

    worker = get_worker()
    outcome = call(options, signals_of(batch_id, worker))
    if outcome.kind != de.ENGINE:
        return outcome
    problem = f"worker {worker.name}: {outcome.problem}"
    return outcome._replace(problem=problem, worker=worker.address)


def signals_of(batch_id: str, dask_worker: Any) -> list[int]:
    """Return the signals that the evaluations of a batch on a worker share.

    They are kept in the worker: it loads this module again for each command that uses the cluster.
    """
    batches: dict[str, list[int]] = vars(dask_worker).setdefault("evaluate_all_signals", {})
    return batches.setdefault(batch_id, [])


def interrupt_on_worker(batch_id: str, dask_worker: Any) -> None:
    """Interrupt the evaluations of a batch on a worker: those that run, and later ones."""
    signals_of(batch_id, dask_worker).append(signal.SIGINT)


# ---------------------------------------------------------------------------------------------
# Where evaluations run
# ---------------------------------------------------------------------------------------------

Call = Callable[[de.Options, List[int]], Outcome]  # evaluate_task(), try_engine()


class Workers(NamedTuple):
    """Threads of this process, or the workers of a Dask cluster. All raise EvaluationError."""

    submit: Callable[[Call, de.Options, str], futures.Future[Outcome]]  # str: a worker's address
    parallel: Callable[[], int]  # evaluations that run at a time
    interrupt: Callable[[], Any]  # those that run, and later ones


@contextlib.contextmanager
def threads(arguments: argparse.Namespace) -> Iterator[Workers]:
    """Yield threads of this process; raise EvaluationError if no engine answers."""
    facts = de.engine_facts(de.Docker(arguments.docker))
    parallel: int = arguments.parallel or min(facts["engine_cpus"] or 1, MAX_PARALLEL)
    signals: list[int] = []
    with futures.ThreadPoolExecutor(parallel) as pool:
        yield Workers(
            submit=lambda call, options, _worker: pool.submit(call, options, signals),
            parallel=lambda: parallel,
            interrupt=lambda: signals.append(signal.SIGINT),
        )


@contextlib.contextmanager
def dask_workers(arguments: argparse.Namespace) -> Iterator[Workers]:
    """Yield the workers of a cluster; raise EvaluationError if there are none, or it is lost."""
    try:
        from distributed import Client
    except ImportError as error:
        message = f"--dask: {error} (pip install distributed)"
        raise de.EvaluationError(de.USAGE, message) from None
    batch_id = os.urandom(8).hex()
    logging.disable()  # distributed would print tracebacks on the screen

    def ask(call: Callable[..., Any], *words: Any, **options: Any) -> Any:
        try:
            return call(*words, **options)
        except Exception as error:  # noqa: BLE001 - distributed has many
            message = f"--dask {arguments.dask}: {type(error).__name__}: {error}"
            raise de.EvaluationError(de.ENGINE, message) from None

    client = ask(Client, arguments.dask, set_as_default=False, timeout=WORKER_TIMEOUT)
    try:
        ask(client.wait_for_workers, 1, timeout=WORKER_TIMEOUT)
        for path in (de.__file__, os.path.realpath(__file__)):
            ask(client.upload_file, path)

        def submit(call: Call, options: de.Options, worker: str) -> futures.Future[Outcome]:
            # If the worker is lost, another one will do.
            where = {"workers": [worker], "allow_other_workers": True} if worker else {}
            executor = client.get_executor(pure=False, **where)
            future: futures.Future[Outcome] = ask(
                executor.submit, run_on_worker, call, options, batch_id
            )
            return future

        yield Workers(
            submit=submit,
            parallel=lambda: sum(ask(client.nthreads).values()) or 1,
            interrupt=lambda: ask(client.run, interrupt_on_worker, batch_id),
        )
    finally:
        client.close(timeout=5)
        logging.disable(logging.NOTSET)


# ---------------------------------------------------------------------------------------------
# Two rounds
# ---------------------------------------------------------------------------------------------


def share_of(report: de.Report | None) -> float:
    """Return the share of the points of a report, from 0 to 1; -1 without a score."""
    if not report or not de.is_scored(report):
        return -1.0
    summary = report["summary"]
    return float(summary["total_score"] / (summary["max_score"] or 1))


def score_of(report: de.Report) -> Score:
    """Return what is remembered of a report that has a score."""
    error = report["error"]
    rows = report["test_results"]
    suspects = [error and error["suspect"], *(row.get("suspect") for row in rows)]
    is_doubtful = (
        bool(error and not error["certain"])
        or report["environment"]["image_starts"] is False
        or any(suspects)
        or any(row["status"] == de.TIMEOUT for row in rows)
    )
    return Score(
        share=share_of(report),
        suspect=next(filter(None, suspects), None),
        needs_retry=is_doubtful and not report.get("repeated"),
        is_second_try=bool(report.get("is_second_try")),
    )


def better(earlier: de.Report | None, new: de.Report | None) -> de.Report | None:
    """Return which of two reports for the same inputs stays, with a summary of the other.

    A retry stays if it has at least as many points; one without a score never replaces a score.
    """
    if not earlier:
        return new and {**new, "repeated": False, "is_second_try": False, "other_attempt": None}
    stays, other, is_second_try = earlier, new, bool(earlier.get("is_second_try"))
    if new and share_of(new) >= share_of(earlier):
        stays, other, is_second_try = new, earlier, True
    attempt = other and {"summary": other["summary"], "error": other["error"]}
    return {**stays, "repeated": True, "is_second_try": is_second_try, "other_attempt": attempt}


def blame_host(report: de.Report) -> de.Report:
    """Mark what may have failed for the same reason as the reference; return the report."""
    error = report["error"] and {**report["error"], "suspect": REFERENCE}
    has_started = report["environment"]["image_starts"] is not False
    statuses = (de.TIMEOUT,) if has_started else (de.TIMEOUT, de.FAILED)
    rows = [
        {**row, "suspect": REFERENCE} if row["status"] in statuses else row
        for row in report["test_results"]
    ]
    return {**report, "error": error, "test_results": rows}


class Batch:
    """Evaluates the reference, then the others in two rounds; keeps the better report of each.

    - run() is the order. _is_due_again() decides what the second round retries, _options() how.
    - _results() submits tasks, and yields what has ended; keep() writes the report that stays.
    - If no reference gets all points, _judge_references() stops the run. If one fails beside
      retries, blame_host() marks their failed builds and timeouts as suspicious; no score changes.
    - After MAX_FAILURES engine errors in a row, for each evaluation that runs at a time,
      _run_round() lets the engine be tried; if that fails, _judge_engine() stops the run.
    - The first of the user's signals interrupts all evaluations, and this waits for their clean-up;
      the second (after a stop, the first) ends the clean-up soon, and a third the program: see
      de.handle_signals().
    """

    def __init__(self, benchmark: Benchmark, tasks: Sequence[Task]) -> None:
        self.benchmark = benchmark
        self.tasks = tasks
        self.references = [task for task in tasks if task.model == benchmark.arguments.reference]
        self.scores: dict[Task, Score] = {}  # of the reports for the same inputs
        # The last outcome, in this run, of each task without a score; without its report
        self.outcomes: dict[Task, Outcome] = {}
        self.signals: list[int] = []  # of the user
        self.problem = ""  # why the run has stopped
        self.screen = Screen()
        self._failed_beside: set[str] = set()  # repositories whose reference failed beside retries
        self._doubts: list[Outcome] = []  # errors after which the engine is tried
        for task in tasks:
            report = de.read_report(benchmark.report_path(task))
            if report and benchmark.is_current(report, benchmark.options(task)):
                self.scores[task] = score_of(report)

    def run(self, workers: Workers) -> None:
        """Run all rounds, until there is an interrupt in `signals`, or a `problem`."""
        de.handle_signals(lambda number, _frame: self.signals.append(number))
        references = set(self.references)
        due = [task for task in self.tasks if task not in self.scores and task not in references]
        try:
            self._run_round(self.failing_references(), workers, later=len(due))
            self._judge_references()
            self._run_round(due, workers)
            again = [task for task in self.tasks if self._is_due_again(task)]
            if again and not self._has_stopped():
                due = self._with_references(again)
                line = f"second round: retrying {counted(len(again), 'Dockerfile')}"
                beside = counted(len(due) - len(again), "reference")
                self.screen.line(f"{line}, {beside} beside them" if len(due) > len(again) else line)
                self._run_round(due, workers, is_last=True)
        finally:
            self.screen.clear()

    def _has_stopped(self) -> bool:
        return bool(self.signals or self.problem)

    def _stop(self, problem: str) -> None:
        if not self._has_stopped():
            self.problem = problem
            self.screen.line(f"stopped: {de.printable(problem, 1000)}")

    def failing_references(self) -> list[Task]:
        """Return the references that lack points."""
        scores = self.scores
        return [task for task in self.references if task not in scores or scores[task].share < 1]

    def _judge_references(self) -> None:
        """Name the references that lack points; stop if all do."""
        failing = self.failing_references()
        if not failing or self._has_stopped():
            return
        reasons = [self._shortfall(task) for task in failing[:SHOWN_NAMES]]
        for task, reason in zip(failing, reasons):
            self.screen.line(f"reference fails: {task.repo} {reason}")
        if len(failing) == len(self.references):
            example = f"{failing[0].repo}: {reasons[0]}"
            self._stop(f"no reference gets all points on this machine ({example})")

    def _shortfall(self, task: Task) -> str:
        """Return the points of a reference that lacks some, and the first reason."""
        report = de.read_report(self.benchmark.report_path(task))
        if not report or task not in self.scores:
            return f"no score: {self.problem_of(task)}"
        summary = report["summary"]
        rows = report["test_results"]
        reasons = [f"{row['test_id']}: {row['message']}" for row in rows if not row["passed"]]
        if report["error"]:
            reasons = [report["error"]["message"]]
        points = f"{summary['total_score']:.15g} of {summary['max_score']:.15g}"
        result = ": ".join([points, *reasons[:1]])
        return de.printable("; warning: ".join([result, *report["warnings"]]), 1000)

    def problem_of(self, task: Task) -> str:
        """Return why a task has no score."""
        outcome = self.outcomes.get(task)
        return de.printable(outcome.problem if outcome else "not evaluated")

    def _with_references(self, again: Sequence[Task]) -> list[Task]:
        """Return the retries in the order of repositories, each beside its reference."""
        repos = {task.repo for task in again if task not in self.references}
        mine = [task for task in self.references if task.repo in repos]
        beside = [task._replace(is_beside_retries=True) for task in mine]
        return sorted([*beside, *again], key=lambda task: task.repo)

    def _is_due_again(self, task: Task) -> bool:
        """Return whether the second round evaluates a task."""
        if self.benchmark.arguments.no_repeat:
            return False
        if task in self.scores:
            return self.scores[task].needs_retry
        outcome = self.outcomes.get(task)
        return not outcome or outcome.kind != de.USAGE

    def _run_round(
        self, due: Sequence[Task], workers: Workers, *, later: int = 0, is_last: bool = False
    ) -> None:
        """Evaluate tasks, keep their reports, and say how each has ended.

        After many errors of the engine in a row, the control experiment says whether it works.
        """
        again = sum(map(self._is_due_again, self.scores))
        started = time.monotonic()
        done = errors = 0
        repos = {task.repo for task in due if task.is_beside_retries}
        for task, result in after_references(self._results(due, workers), repos):
            if result.kind == de.INTERRUPTED:
                continue
            if task is CONTROL_EXPERIMENT:
                self._judge_engine(result)
                continue
            done += 1
            outcome = self.keep(task, result)
            line = f"[{done}/{len(due)}] {task.name}: {describe(outcome)}"
            to_do = len(due) - done + later
            if not is_last:
                is_due_again = self._is_due_again(task)
                again += is_due_again
                to_do += again
                if is_due_again:
                    line += ", will be retried"
            left = timedelta(seconds=int((time.monotonic() - started) / done * to_do))
            self.screen.line(f"{line}, {left} left" if left else line)
            errors = errors + 1 if outcome.kind in (de.ENGINE, de.FILE) else 0
            if errors >= MAX_FAILURES * workers.parallel():
                if outcome.kind == de.ENGINE:
                    self._doubts.append(outcome)
                else:
                    self._stop(f"{errors} evaluations in a row have no report: {outcome.problem}")
                errors = 0

    def _judge_engine(self, outcome: Outcome) -> None:
        """Stop if the control experiment has failed."""
        if outcome.problem:
            self._stop(f"the control experiment fails, too: {outcome.problem}")
        else:
            self.screen.line("many engine errors, but the control experiment succeeds: continuing")

    def _results(self, due: Sequence[Task], workers: Workers) -> Iterator[tuple[Task, Outcome]]:
        """Yield each task with its outcome when it ends; after a stop only what has begun.

        For an error in `_doubts` the control experiment runs where it came from, and nothing begins
        meanwhile. Each signal of the user, and a `problem`, interrupts the workers once; after two
        interrupts nothing more is yielded.
        """
        running: dict[futures.Future[Outcome], Task] = {}
        since: dict[Task, float] = {}
        waiting = iter([] if self._has_stopped() else due)
        interrupts = 0
        while True:
            while interrupts < len(self.signals) + bool(self.problem):
                interrupts += 1
                workers.interrupt()
            parallel = workers.parallel()
            if self._doubts:
                options = self.benchmark.arguments.common
                experiment = workers.submit(try_engine, options, self._doubts.pop().worker)
                running[experiment] = CONTROL_EXPERIMENT
            is_held = self._has_stopped() or CONTROL_EXPERIMENT in running.values()
            # Twice as many as can run, so that no worker waits for us.
            room = 0 if is_held else max(2 * parallel - len(running), 0)
            for task in itertools.islice(waiting, room):
                options = self._options(task)
                running[workers.submit(evaluate_task, options, "")] = task
            if not running or interrupts > 1:
                return
            for task in itertools.islice(running.values(), parallel):  # the oldest ones run
                since.setdefault(task, time.monotonic())
            self.screen.status(since)
            ended = futures.wait(running, TICK, futures.FIRST_COMPLETED).done
            for future in [future for future in running if future in ended]:
                task = running.pop(future)
                since.pop(task, None)
                yield task, outcome_of(future)

    def _options(self, task: Task) -> de.Options:
        """Return the options of an evaluation: from the cache a retry would repeat the result."""
        options = self.benchmark.options(task)
        if task in self.scores or task.is_beside_retries:
            options = options._replace(build_options=(*options.build_options, "--no-cache"))
        return options

    def keep(self, task: Task, outcome: Outcome) -> Outcome:
        """Keep the better report of a task; return its outcome, or what went wrong here.

        A score is never lost: what is on the disk is replaced in one step, by what better() says.
        """
        if task.is_beside_retries:
            if share_of(outcome.report) < 1:
                self._failed_beside.add(task.repo)
            return outcome
        options = self.benchmark.options(task)
        path = self.benchmark.report_path(task)
        new = outcome.report
        if new and de.is_scored(new) and not self.benchmark.is_current(new, options):
            outcome = Outcome(None, de.FILE, "the files have changed, or differ on the worker")
            new = None
        earlier_score = self.scores.get(task)
        earlier = None
        if earlier_score:
            if not new:
                return outcome  # The next start makes the second try.
            earlier = de.read_report(path)
            is_unreadable = not earlier and os.path.lexists(path)
            if is_unreadable and share_of(new) < earlier_score.share:
                return Outcome(None, de.FILE, f"cannot read the earlier report: {path}")
        report = better(earlier, new)
        if report and de.is_scored(report) and task.repo in self._failed_beside:
            report = blame_host(report)
        problems = de.write_reports(report, options) if report else []
        if problems:
            outcome = Outcome(None, de.FILE, problems[0].replace(f"{path}: ", ""))
        elif report and de.is_scored(report):
            self.scores[task] = score_of(report)
        else:  # Somebody may have deleted the earlier report.
            self.scores.pop(task, None)
        if not earlier_score and (problems or not report):
            de.keep_previous(path)  # A score for other inputs would count for the new ones.
        if task not in self.scores:
            self.outcomes[task] = outcome._replace(report=None)
        return outcome


def after_references(
    results: Iterable[tuple[Task, Outcome]], repos: Iterable[str]
) -> Iterator[tuple[Task, Outcome]]:
    """Hold back the retries of these repositories until the reference beside them has ended.

    If the reference is interrupted, its retries are lost: the next start runs all of them again.
    """
    waiting = set(repos)
    held: dict[str, list[tuple[Task, Outcome]]] = collections.defaultdict(list)
    for task, outcome in results:
        if task.repo in waiting and not task.is_beside_retries:
            held[task.repo].append((task, outcome))
        elif not task.is_beside_retries or outcome.kind != de.INTERRUPTED:
            waiting.discard(task.repo)
            yield task, outcome
            yield from held.pop(task.repo, ())


def outcome_of(future: futures.Future[Outcome]) -> Outcome:
    """Return the result of a future, also if the evaluation or its worker has died."""
    try:
        return future.result()
    except futures.CancelledError:  # the scheduler has forgotten it
        return Outcome(None, de.INTERRUPTED, "cancelled")
    except Exception as error:  # noqa: BLE001 - whatever it was
        return Outcome(None, de.FILE, f"{type(error).__name__}: {error}")


# ---------------------------------------------------------------------------------------------
# Screen
# ---------------------------------------------------------------------------------------------

ERASE = "\x1b[A\x1b[2K"  # the line above, where the next one is printed then


class Screen:
    """Prints the lines of a run, and after a silence one that says what runs.

    On a terminal the next line is printed over that one.
    """

    def __init__(self) -> None:
        self._is_terminal = bool(sys.stdout and sys.stdout.isatty())
        self._has_status = False
        self._latest = time.monotonic()

    def line(self, text: str) -> None:
        """Print a line."""
        say(f"{ERASE}{text}" if self._has_status else text)
        self._has_status = False
        self._latest = time.monotonic()

    def status(self, running: Mapping[Task, float]) -> None:
        """After a silence say what runs, and since when (the time.monotonic() by task)."""
        now = time.monotonic()
        if now - self._latest < (1.0 if self._is_terminal else QUIET):
            return
        names = [
            f"{task.name} {timedelta(seconds=int(now - start))}" for task, start in running.items()
        ]
        # On a terminal a longer line would be two.
        limit = shutil.get_terminal_size().columns - 2 if self._is_terminal else 300
        self.line(de.printable(f"running: {', '.join(names)}", limit))
        self._has_status = self._is_terminal

    def clear(self) -> None:
        """Remove the line that says what runs."""
        if self._has_status:
            self.line("\x1b[A")


def say(text: str) -> None:
    """Print a line; ignore a stdout that nobody reads."""
    de.Console(sys.stdout).line(text)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}{'s' * (count != 1)}"


def describe(outcome: Outcome) -> str:
    """Return how an evaluation ended, in one line."""
    end = "no report"
    if outcome.report:
        has_failed = outcome.kind in (de.BUILD, de.BUILD_TIMEOUT)
        end = "build failed" if has_failed else de.score_line(outcome.report)
    return de.printable(": ".join(filter(None, [end, outcome.problem])))


def by_model(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    """Return the tasks of each model, by a name that can be printed."""
    groups: dict[str, list[Task]] = collections.defaultdict(list)
    for task in tasks:
        groups[de.printable(task.model) or "(no model)"].append(task)
    return groups


def print_plan(batch: Batch, answers: Answers) -> None:
    """Print how many Dockerfiles each model has, and what is left out and why."""
    for model, tasks in by_model(answers.tasks).items():
        scored = sum(task in batch.scores for task in tasks)
        say(f"{model}: {counted(len(tasks), 'Dockerfile')}, {scored} already scored")
    for model, repos in answers.missing.items():
        say(f"no answer: {de.printable(model) or '(no model)'}: {de.quoted(repos, SHOWN_NAMES)}")
    references = {task.repo for task in batch.references}
    lacking = sorted({task.repo for task in answers.tasks} - references)
    if references and lacking:
        say(f"no reference: {de.quoted(lacking, SHOWN_NAMES)}")
    for problem, paths in answers.left_out.items():
        say(f"left out: {de.printable(problem)}: {de.quoted(paths)}")
    if answers.unmatched:
        say(f"not matched by any --layout: {de.quoted(answers.unmatched)}")
    if not batch.benchmark.arguments.checkouts:
        say("build context: the folder of each Dockerfile (see --checkouts)")


def print_summary(batch: Batch) -> None:
    """Print what has no score and why, what a person should look at, and each model's mean."""
    names: dict[str, list[str]] = collections.defaultdict(list)
    for task in batch.tasks:
        score = batch.scores.get(task)
        if not score:
            names[f"no score: {batch.problem_of(task)}"].append(task.name)
        elif score.suspect:
            names[f"suspicious failures ({score.suspect}), please check"].append(task.name)
    for task in batch.failing_references():
        if task in batch.scores:
            names["reference fails"].append(task.repo)
    for title in sorted(names):
        say(f"{title}: {de.quoted(names[title], SHOWN_NAMES)}")
    second_tries = sum(score.is_second_try for score in batch.scores.values())
    if second_tries:
        one = second_tries == 1
        say("1 score is a second try" if one else f"{second_tries} scores are second tries")
    for model, tasks in by_model(batch.tasks).items():
        shares = [batch.scores[task].share for task in tasks if task in batch.scores]
        mean = f"mean score {de.percent(sum(shares), len(shares))}"
        words = [f"{mean} of {counted(len(shares), 'Dockerfile')}"] if shares else []
        if len(shares) < len(tasks):
            words.append(f"{len(tasks) - len(shares)} without a score")
        say(f"{model}: {', '.join(words)}")
    say(f"{len(batch.scores)} of {len(batch.tasks)} Dockerfiles have a score")


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options with their defaults; exit with 2 if they make no sense."""
    parser = de.Parser(
        prog="evaluate_all.py",
        description="Score many Dockerfiles in parallel. Start it again to continue.",
        epilog="Exit codes: 0 every Dockerfile has a score (that of a failed build is 0); 1 one "
        "has none, or was left out; 2 bad arguments; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.",
    )
    add = parser.add_argument_group("what is evaluated").add_argument
    text = "where the Dockerfiles are (default: artifacts)"
    add("--artifacts", metavar="DIR", default="artifacts", help=text)
    text = "their paths there; {model} can be several folders, * matches part of a name "
    text += f"(default: {DEFAULT_LAYOUT}); repeatable"
    add("--layout", dest="layouts", metavar="LAYOUT", action="append", help=text)
    text = "where the rubrics are, as REPO.json (default: rubrics)"
    add("--rubrics", metavar="DIR", default="rubrics", help=text)
    text = "build contexts, as REPO/ (default: checkouts if it exists, or the Dockerfiles' folders)"
    add("--checkouts", metavar="DIR", help=text)
    text = "lay the folder of each Dockerfile over its build context"
    add("--overlay", action="store_true", help=text)
    text = "where the reports are written, as MODEL/REPO.json (default: reports)"
    add("--reports", metavar="DIR", default="reports", help=text)
    for name in ("model", "repo"):
        text = f"only those that match, such as --{name}='x*' (default: all); repeatable"
        add(f"--{name}", metavar="PATTERN", action="append", help=text)
    text = "only part K of N, such as 2/3 (default: 1/1)"
    add("--shard", metavar="K/N", type=_shard, default="1/1", help=text)
    group = parser.add_argument_group("how it is evaluated")
    add = group.add_argument
    text = "the model whose Dockerfiles are known to be right: evaluated first, and beside "
    text += "retries; the run stops if none gets all points"
    add("--reference", metavar="MODEL", help=text)
    add(
        "--list",
        action="store_true",
        help="print what would be evaluated, and stop; needs no engine",
    )
    add("--no-repeat", action="store_true", help="skip the second round")
    add = group.add_mutually_exclusive_group().add_argument
    text = f"evaluations at a time (default: the engine's processors, at most {MAX_PARALLEL})"
    add("--parallel", metavar="N", type=_positive, help=text)
    add(
        "--dask",
        metavar="ADDRESS",
        help="run on the workers of a Dask cluster: the address of its scheduler",
    )
    de.add_run_options(parser.add_argument_group("options of each evaluation"))
    arguments = parser.parse_args(argv)
    arguments.layout_texts = arguments.layouts or [DEFAULT_LAYOUT]
    arguments.model = arguments.model or ["*"]
    arguments.repo = arguments.repo or ["*"]
    if arguments.checkouts is None and os.path.isdir("checkouts"):
        arguments.checkouts = "checkouts"
    try:
        arguments.layouts = [layout_pattern(text) for text in arguments.layout_texts]
        arguments.common = de.checked(de.Options("", "", **de.run_arguments(arguments)))
    except ValueError as error:
        parser.error(str(error))
    for name in ("artifacts", "rubrics", "checkouts", "reports"):
        folder = getattr(arguments, name)
        if folder and name != "reports" and not os.path.isdir(folder):
            parser.error(f"--{name}: no such folder: {folder}")
        if folder and arguments.dask:  # a worker runs in another folder
            setattr(arguments, name, os.path.abspath(folder))
    return arguments


def _shard(text: str) -> tuple[int, int]:
    numbers = re.fullmatch("([1-9][0-9]*)/([1-9][0-9]*)", text)
    if not numbers or int(numbers[1]) > int(numbers[2]):
        raise argparse.ArgumentTypeError("expected K/N with K from 1 to N")
    return int(numbers[1]), int(numbers[2])


def _positive(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError("expected a number greater than 0")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    de.accept_any_text()
    arguments = parse_arguments(argv)
    try:
        return _main(arguments)
    except KeyboardInterrupt:  # before the first evaluation
        return 130


def _main(arguments: argparse.Namespace) -> int:
    """Find, evaluate, print; return the exit code."""
    benchmark = Benchmark(arguments)
    try:
        answers = find_answers(benchmark)
    except de.EvaluationError as error:
        de.print_errors(str(error))
        return 2
    is_found = any(fits(task.model, arguments.model) for task in answers.tasks)
    if not is_found and not answers.left_out:
        de.print_errors(nothing_found(arguments, answers))
        return 1
    batch = Batch(benchmark, answers.tasks)
    print_plan(batch, answers)
    is_complete = not answers.left_out
    if arguments.reference and answers.tasks and not batch.references:
        problem = f"--reference: no Dockerfile of '{arguments.reference}' to evaluate"
        de.print_errors(f"{problem}; {models_of(answers)}")
        return 2
    if arguments.list or not answers.tasks:
        return int(not is_complete)
    make_workers = dask_workers if arguments.dask else threads
    try:
        with make_workers(arguments) as workers:
            batch.run(workers)
    except de.EvaluationError as error:  # no engine, or the cluster is lost
        de.print_errors(str(error))
        is_complete = False
    print_summary(batch)
    if batch.signals:
        say("interrupted: start the same command again to continue")
        return 128 + batch.signals[0]
    is_complete &= not batch.problem and len(batch.scores) == len(batch.tasks)
    return int(not is_complete)


def models_of(answers: Answers) -> str:
    """List the models, one of which may have been meant."""
    return f"models there: {de.quoted(sorted(answers.models), SHOWN_NAMES)}"


def nothing_found(arguments: argparse.Namespace, answers: Answers) -> str:
    """Return why there is nothing to evaluate."""
    if answers.models:
        part, parts = arguments.shard
        patterns = f"--model {de.quoted(arguments.model)} --repo {de.quoted(arguments.repo)}"
        problem = f"no Dockerfile is selected by {patterns} --shard {part}/{parts}"
        return f"{problem}; {models_of(answers)}"
    problem = f"no file in {arguments.artifacts} is like {de.quoted(arguments.layout_texts)}"
    return f"{problem}; a file there: {answers.unmatched[0]}" if answers.unmatched else problem


if __name__ == "__main__":
    import evaluate_all as this_module  # the name by which Dask workers import it

    raise SystemExit(this_module.main())
