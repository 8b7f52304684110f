#!/usr/bin/env python3
"""Evaluate many Dockerfiles in parallel, on this machine or on the workers of a Dask cluster.

    find_answers()   the Dockerfiles, each with its rubric, build context and report
    the reference    Dockerfiles that are known to be right: do they get all points on this host?
    first round      each whose report has no score for the same inputs
    second round     retries what has no score, except usage errors, and what load or trouble
                     of the network may have affected: failed builds (unless the next one would
                     fail alike), timeouts, images that did not start, suspicious tests and
                     builds. If there is a report, it uses no cache. The reference of a repository
                     is evaluated once beside all its retries. What lacked memory is retried alone
                     on its host.
    try_host()       after many errors of the engine or of registries in a row: if a trivial
                     Dockerfile or the registry's control image fails too, stop
    print_summary()

All rounds give evaluate_task() to an executor of concurrent.futures: threads of this process, or
Dask's workers. better() decides which report stays. Started again, the program continues where it
stopped: a report with a score for the same inputs stays (de.inputs_sha256() has what they are),
unless it is a reference without all points: Batch, de.is_report_for().

--layout finds a model and a repository in a path; the repository selects RUBRICS/REPO.json. What
has no such rubric is left out: unusable(). What an interrupt does: Batch.

Exit codes: 0 every Dockerfile has a score, 1 one has none or was left out, none was found, or the
program stopped, 2 bad arguments, 130 Ctrl-C (143 SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import functools
import hashlib
import io
import itertools
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
import zlib
from concurrent import futures
from datetime import timedelta
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Sequence,
    Tuple,
)

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]  # a Dask worker has the evaluator beside this file

import DockerfileEvaluator as de

DEFAULT_LAYOUT = "{model}/{repo}.dockerfile"
# For Dockerfiles that no --layout matches, the first of these is suggested that matches all
KNOWN_LAYOUTS = (
    "{model}/{repo}/Dockerfile {model}/{repo}.dockerfile {model}/{repo}.Dockerfile "
    "{model}/Dockerfile.{repo} {repo}/Dockerfile {repo}.dockerfile {repo}.Dockerfile "
    "Dockerfile.{repo}"
)
MAX_PARALLEL = 8  # evaluations on this machine, unless --parallel says otherwise
# Errors of a kind in a row, per parallel evaluation, before try_host() decides or, without reports,
# the run stops
MAX_ERRORS = {de.ENGINE: 3, de.FILE: 3, de.REGISTRY: 10}
TICK = 0.5  # seconds between checks for an interrupt
SHOWN_NAMES = 50  # in a line of the summary
QUIET = 30.0  # seconds of silence before a line says what runs
HALF_LOG = 500_000  # bytes of the beginning of an evaluation's log that are kept
# The exit codes of a RUN whose command cannot be executed, or does not exist: that will not change.
NO_PROGRAM = (126, 127)
REFERENCE = "reference"  # a suspicion: the Dockerfile that is known to be right failed, too
CACHE_NAMESPACE = "--build-arg=BUILDKIT_CACHE_MOUNT_NS="


class Task(NamedTuple):
    """A Dockerfile to evaluate. There may be 50,000, so Benchmark computes all else."""

    model: str
    repo: str
    dockerfile: str  # a path

    @property
    def name(self) -> str:
        """MODEL/REPO, for messages."""
        return de.printable(os.path.join(self.model, self.repo))


# Stands for the control experiment among the tasks that run.
CONTROL_EXPERIMENT = Task("", "control experiment", "")


class Outcome(NamedTuple):
    """How an evaluation has ended."""

    report: de.Report | None
    kind: str = ""  # of the error, "" without one
    problem: str = ""
    registry: str = ""  # the one that failed
    worker: str = ""  # the address of the Dask worker


class Score(NamedTuple):
    """What is remembered of a report that has a score."""

    share: float  # of the points, from 0 to 1
    suspects: Collection[str]
    needs_retry: bool  # load or the network may have cost points, and it was not retried
    gain: float | None  # of the share by the second try, None if this is the first one


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
        return common._replace(
            dockerfile=task.dockerfile,
            repo=task.repo,
            rubric=self.rubric_path(task.repo),
            output=self.report_path(task),
            context=os.path.join(given.checkouts, task.repo) if given.checkouts else folder,
            overlay=folder if given.overlay else None,
            build_options=(*common.build_options, f"{CACHE_NAMESPACE}{namespace}"),
        )

    def report_path(self, task: Task) -> str:
        """Return where the report of a task is."""
        return os.path.join(self.arguments.reports, task.model, f"{task.repo}.json")

    def rubric_path(self, repo: str) -> str:
        """Return where the rubric of a repository is."""
        return os.path.join(self.arguments.rubrics, f"{repo}.json")

    def inputs_sha256(self, options: de.Options) -> str:
        """Return the digest of the inputs; raise EvaluationError if one of them is unusable."""
        rubric = str(options.rubric)
        if rubric not in self._rubrics:
            content = de.read_file(rubric)
            de.read_rubric(content, rubric)
            self._rubrics[rubric] = hashlib.sha256(content).hexdigest()
        if not os.path.isdir(str(options.context)):
            raise de.EvaluationError(de.FILE, f"no such folder: {options.context}")
        return de.inputs_sha256(
            options,
            hashlib.sha256(de.read_file(options.dockerfile)).hexdigest(),
            self._rubrics[rubric],
        )

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
    repos: set[str]  # likewise
    missing: dict[str, list[str]]  # repositories that only other models have answered, by model
    left_out: dict[str, list[str]]  # paths, by the reason
    unmatched: list[str]  # Dockerfiles that are not matched by any --layout


def find_answers(benchmark: Benchmark) -> Answers:
    """Return the selected tasks; raise EvaluationError if two share an overlay."""
    arguments = benchmark.arguments
    answers = Answers([], set(), set(), {}, collections.defaultdict(list), [])
    overlays: dict[str, str] = {}
    places: set[tuple[str, str]] = set()  # model and repository, also of what is left out
    for path, match in matched_files(arguments.artifacts, arguments.layouts.values(), answers):
        other = overlays.setdefault(os.path.dirname(path), path)
        if arguments.overlay and other != path:
            raise de.EvaluationError(
                de.USAGE, f"--overlay: {other} and {path} are in the same folder"
            )
        task = Task(match.groupdict().get("model") or "", match["repo"], path)
        answers.models.add(task.model)
        answers.repos.add(task.repo)
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
        answers.missing.update(missing_answers(benchmark, places))
    return answers


def missing_answers(
    benchmark: Benchmark, places: Collection[tuple[str, str]]
) -> dict[str, list[str]]:
    """Return the repositories with a rubric that others answered, by the model that did not."""
    repos = [
        repo
        for repo in sorted({repo for _, repo in places})
        if os.path.exists(benchmark.rubric_path(repo))
    ]
    models = sorted({model for model, _ in places} - {benchmark.arguments.reference})
    return {model: [repo for repo in repos if (model, repo) not in places] for model in models}


def unusable(benchmark: Benchmark, task: Task) -> str:
    """Return why a task cannot be evaluated, or ""."""
    options = benchmark.options(task)
    paths = {os.path.abspath(str(options.rubric)), os.path.abspath(str(options.output))}
    if len(paths) == 1:
        return "its report would replace its rubric; use another folder for --reports"
    if any(map(de.is_special, paths)):  # A pipe would block.
        return "its rubric or report is not a regular file"
    try:
        benchmark.inputs_sha256(options)
    except de.EvaluationError as error:
        return str(error).splitlines()[0]
    return ""


def layout_pattern(layout: str) -> re.Pattern[str]:
    """Return the pattern of a path with {model}, {repo} and *; raise ValueError."""
    parts = {"{model}": "(?P<model>.+)", "{repo}": "(?P<repo>[^/]+)", "*": "[^/]*"}
    words = re.split(r"(\{.*?\}|\*)", layout)
    for word in words[1::2]:
        if word not in parts:
            raise ValueError(f"--layout: unknown {de.did_you_mean(word, parts)}")
    if words.count("{repo}") != 1 or words.count("{model}") > 1:
        raise ValueError(f"--layout: expected {{repo}}, {{model}} and * in '{layout}'")
    return re.compile("".join(parts.get(word) or re.escape(word) for word in words))


def matched_files(
    folder: str, layouts: Collection[re.Pattern[str]], answers: Answers
) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the files below a folder, in the order of names, and how the first layout matches.

    Skips hidden files, folders named `checkouts`, and what else is in an answer of several files. A
    link to a folder is followed, unless the folder was there before. What is left out or unmatched
    is added to `answers`.
    """

    def unreadable(error: OSError) -> None:
        answers.left_out[str(error.strerror)].append(str(error.filename))

    seen = set()
    for place, folders, files in os.walk(folder, onerror=unreadable, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        is_answer = False  # the folder as a whole
        for name in sorted(name for name in files if name[0] != "."):
            path = os.path.join(place, name)
            relative = os.path.relpath(path, folder)
            match = next(filter(None, (layout.fullmatch(relative) for layout in layouts)), None)
            if not match:
                if "dockerfile" in name.lower() and not is_answer:
                    answers.unmatched.append(path)
                continue
            if "/" in relative[match.end(match.lastindex or 0) :]:  # after the names
                is_answer = True
            if os.path.isfile(path):
                yield path, match
            else:  # A pipe would block.
                answers.left_out["not a regular file"].append(path)
        folders[:] = [
            name for name in folders if not (is_answer or name[0] == "." or name == "checkouts")
        ]
        # Links last, so that a folder is met by its own path first.
        folders.sort(key=lambda name: (os.path.islink(os.path.join(place, name)), name))


def is_selected(task: Task, arguments: argparse.Namespace) -> bool:
    """Return whether --model, --repo and --shard select a task.

    The reference is in every shard, since each may use another engine.
    """
    part, parts = arguments.shard
    is_mine = zlib.crc32(os.fsencode(task.name)) % parts == part - 1
    is_chosen = task.model == arguments.reference or (is_mine and fits(task.model, arguments.model))
    return is_chosen and fits(task.repo, arguments.repo)


def fits(name: str, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns matches a name, or there are none."""
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


# ---------------------------------------------------------------------------------------------
# One evaluation, on this machine or on a worker
# ---------------------------------------------------------------------------------------------


class BoundedFile(io.FileIO):
    """Appends to a file; keeps the beginning and the end of what it appends, at most 1 MB."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "a+")
        self._cut_at = self.tell() + HALF_LOG

    def write(self, text: Any) -> int:
        """Append text, then cut out the middle; raise OSError if the disk is full."""
        size = super().write(text.encode(errors="backslashreplace"))
        if self.tell() > self._cut_at + HALF_LOG:
            self.seek(-HALF_LOG // 2, os.SEEK_END)  # Half of it, since this takes time.
            end = self.read()
            self.truncate(self._cut_at)
            super().write(b"\n[...]\n" + end)
        return size


class Shared:
    """What the evaluations of a batch share that run in the same process."""

    def __init__(self, parallel: int) -> None:
        self.parallel = parallel  # evaluations at a time
        self.seats = threading.Semaphore(parallel)  # one for each of them
        self.queue = threading.Lock()
        self.signals: list[int] = []  # A signal interrupts those that run, and later ones.


def command_line(program: str, options: de.Options) -> str:
    """Return the command that repeats an evaluation alone, for bash.

    It writes no report. Logs are published with reports, so values of options are masked here, too.
    """
    words = ["python3", program]
    for name, value in options._replace(output=None)._asdict().items():
        flag = f"--{name.rstrip('s').replace('_', '-')}"
        if isinstance(value, tuple):
            words += [
                f"{flag}={de.redact(word)}"
                for word in value
                if not word.startswith(CACHE_NAMESPACE)
            ]
        elif value:
            words.append(flag if value is True else f"{flag}={value}")
    return " ".join(map(de.shell_word, words))


def evaluate_task(options: de.Options, shared: Shared, *, program: str, is_alone: bool) -> Outcome:
    """Evaluate a Dockerfile; what the evaluator prints is appended to a log beside the report.

    It waits for an engine that is down: otherwise a worker without one would fail the whole queue.
    """
    docker = de.Docker(options.docker)
    docker.signals = shared.signals
    report_path = str(options.output)
    try:
        inputs = de.read_inputs(options._replace(output=None))
    except de.EvaluationError as error:
        return Outcome(None, de.USAGE, str(error))  # A retry would not help.
    try:
        with contextlib.ExitStack() as stack:
            with shared.queue:  # Who needs all seats waits first.
                for _ in range(shared.parallel if is_alone else 1):
                    stack.enter_context(shared.seats)
            docker.connect(de.RECOVERY_TIMEOUT)
            de.check_writable(report_path)
            log = f"{os.path.splitext(report_path)[0]}.log"
            stream: Any = stack.enter_context(BoundedFile(log))
            console = de.Console(stream, verbose=True)
            if stream.tell():
                console.line("-" * 72)
            console.line(command_line(program, options))
            report = de.run_evaluation(options, inputs, docker, console)
    except de.EvaluationError as error:
        return Outcome(None, error.kind, str(error))
    report["environment"]["parallel"] = 1 if is_alone else shared.parallel
    fault = report["error"] or collections.defaultdict(str)
    return Outcome(report, fault["kind"], fault["message"], fault["registry"] or "")


def try_host(options: de.Options, shared: Shared, *, registry: str) -> Outcome:
    """Make the control experiment on this host; `problem` says what fails.

    With a registry: pull its control image.
    """
    docker = de.Docker(options.docker)
    docker.signals = shared.signals
    workspace = de.Workspace(docker)
    try:
        docker.connect(de.RECOVERY_TIMEOUT)
        workspace.begin()
        if registry:
            problem = de.registry_problem(workspace, options, registry)
        else:
            problem = str(de.host_fault(workspace, options) or "")
    except (de.EvaluationError, OSError, RuntimeError) as error:
        problem = str(error)
    finally:
        workspace.end()
    if problem and registry:
        problem = f"registry {registry}: {problem}"
    return Outcome(None, de.REGISTRY if registry else de.ENGINE, problem)


# ---------------------------------------------------------------------------------------------
# Where evaluations run
# ---------------------------------------------------------------------------------------------

Call = Callable[[de.Options, Shared], Outcome]  # evaluate_task(), try_host()
Running = Dict["futures.Future[Outcome]", Task]
Results = Iterator[Tuple[Task, Outcome]]


class Workers(NamedTuple):
    """Threads of this process, or the workers of a Dask cluster. All raise EvaluationError."""

    # Any worker does the call, or one of those with these addresses.
    submit: Callable[[Call, de.Options, Collection[str]], futures.Future[Outcome]]
    parallel: Callable[[], int]  # evaluations that run at a time
    interrupt: Callable[[], Any]  # those that run, and later ones
    # The addresses of workers that can take over, if the one of an outcome has no engine
    others: Callable[[Outcome], Collection[str]]


@contextlib.contextmanager
def threads(arguments: argparse.Namespace) -> Iterator[Workers]:
    """Yield threads of this process; raise EvaluationError if no engine answers."""
    facts = de.engine_facts(de.Docker(arguments.docker))
    parallel: int = arguments.parallel or min(facts["engine_cpus"] or 1, MAX_PARALLEL)
    shared = Shared(parallel)
    with futures.ThreadPoolExecutor(parallel) as pool:
        yield Workers(
            submit=lambda call, options, _addresses: pool.submit(call, options, shared),
            parallel=lambda: parallel,
            interrupt=lambda: shared.signals.append(signal.SIGINT),
            others=lambda _outcome: (),
        )


# ---------------------------------------------------------------------------------------------
# Two rounds
# ---------------------------------------------------------------------------------------------


def share_of(report: Any) -> float:
    """Return the share of the points of a report, from 0 to 1; -1 without a score."""
    if not de.is_scored(report):
        return -1.0
    summary = report["summary"]
    return float(summary["total_score"] / (summary["max_score"] or 1))


def suspicions(report: Any) -> set[str]:
    """Return the kinds of trouble that may have cost points."""
    with contextlib.suppress(KeyError, TypeError):  # There is none, or of another version.
        if report["summary"]["failed_tests"]:
            places = [report["error"], report["build"], *report["test_results"]]
            return {place["suspect"] for place in places if place and place["suspect"]}
    return set()


def score_of(report: de.Report, *, is_again: object = None) -> Score:
    """Return what is remembered of a report that has a score; raise an exception if it is wrong."""
    suspects = suspicions(report)
    error = report["error"] or {"certain": True}
    is_doubtful = (
        not (error["certain"] or error.get("exit_code") in NO_PROGRAM)
        or report["environment"]["image_starts"] is False
        or not suspects.isdisjoint(de.ACCIDENTS)
        or any(row["status"] == de.TIMEOUT for row in report["test_results"])
    )
    share = share_of(report)
    if not 0 <= share <= 1:  # also true for NaN
        raise ValueError(share)
    return Score(
        share=share,
        suspects=suspects,
        needs_retry=(is_doubtful and not report.get("repeated")) or bool(is_again and suspects),
        gain=share - share_of(report["other_attempt"]) if report.get("is_second_try") else None,
    )


def better(earlier: de.Report | None, new: de.Report) -> de.Report:
    """Return which of two reports for the same inputs stays, with a summary of another attempt.

    A retry stays if it has at least as many points; one without a score never replaces a score. The
    other attempt of a second try is always the first one.
    """
    if not earlier:
        return {**new, "repeated": False, "is_second_try": False, "other_attempt": None}
    was_second_try = bool(earlier.get("is_second_try"))
    is_better = share_of(new) >= share_of(earlier)
    stays, other = (new, earlier) if is_better else (earlier, new)
    attempt = {"summary": other["summary"], "error": other["error"]}
    return {
        **stays,
        "repeated": True,
        "is_second_try": was_second_try or is_better,
        "other_attempt": earlier["other_attempt"] if was_second_try else attempt,
    }


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

    - run() is the order. _is_due_again() decides what the second round retries, _submit() how.
    - _results() submits tasks, and yields what has ended; keep() writes the report that stays.
    - If no reference gets all points, _judge_references() stops the run. If one fails beside
      retries, blame_host() marks their failed builds and timeouts as suspicious; no score changes.
    - After MAX_ERRORS, _run_round() lets try_host() make an experiment; if that fails, the run
      stops.
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
        self.problem = ""  # says why the run has stopped
        self.screen = Screen()
        self._beside: set[Task] = set()  # the references that are evaluated beside retries
        self._failed_beside: set[str] = set()  # the repositories of those that failed there
        self._doubts: list[Outcome] = []  # errors after which try_host() makes an experiment
        for task in tasks:
            report = de.read_report(benchmark.report_path(task))
            if report and benchmark.is_current(report, benchmark.options(task)):
                with contextlib.suppress(Exception):  # Somebody may have edited the report.
                    self.scores[task] = score_of(report, is_again=benchmark.arguments.again)

    def run(self, workers: Workers) -> None:
        """Run all rounds, until there is an interrupt in `signals`, or a `problem`."""
        de.handle_signals(lambda number, _frame: self.signals.append(number))
        apart = {*self.scores, *self.references}  # done, or in a round of their own
        due = [task for task in self.tasks if task not in apart]
        try:
            self._run_round(self.failing_references(), workers, later=len(due))
            self._judge_references()
            self._run_round(due, workers)
            again = [task for task in self.tasks if self._is_due_again(task)]
            if again and not self._has_stopped():
                due = self._with_references(again)
                self.screen.line(f"second round: retrying {counted(len(due), 'Dockerfile')}")
                self._run_round(due, workers, is_last=True)
        finally:
            self.screen.clear()

    def _has_stopped(self) -> bool:
        return bool(self.signals or self.problem)

    def _stop(self, problem: str) -> None:
        if not self._has_stopped():
            self.problem = f"stopped: {de.printable(problem, 1000)}"

    def failing_references(self) -> list[Task]:
        """Return the references that lack points."""
        return [
            task
            for task in self.references
            if task not in self.scores or self.scores[task].share < 1
        ]

    def _judge_references(self) -> None:
        """Name the references that lack points; stop if all do."""
        failing = self.failing_references()
        if not failing or self._has_stopped():
            return
        for task in failing[:SHOWN_NAMES]:
            self.screen.line(
                de.printable(f"reference fails: {task.repo} {self._shortfall(task)}", 1000)
            )
        if failing == self.references:
            self._stop(
                "no reference gets all points on this machine "
                f"({failing[0].repo}: {self._shortfall(failing[0])})"
            )

    def _shortfall(self, task: Task) -> str:
        """Return the points of a reference that lacks some, and the first reason."""
        report = de.read_report(self.benchmark.report_path(task))
        if not report or task not in self.scores:
            return f"no score: {self.problem_of(task)}"
        summary = report["summary"]
        reasons = [
            f"{row['test_id']}: {row['message']}"
            for row in report["test_results"]
            if not row["passed"]
        ]
        if report["error"]:
            reasons = [report["error"]["message"]]
        points = f"{summary['total_score']:.15g} of {summary['max_score']:.15g}"
        result = ": ".join([points, *reasons[:1]])
        return "; warning: ".join([result, *report["warnings"]])

    def problem_of(self, task: Task) -> str:
        """Return why a task has no score, in the same words for each image of a registry."""
        outcome = self.outcomes.get(task)
        if not outcome:
            return "not evaluated"
        registry = outcome.registry
        return de.printable(
            f"registry {registry} failed; see the log" if registry else outcome.problem
        )

    def _with_references(self, again: Sequence[Task]) -> list[Task]:
        """Return the retries in the order of repositories, with the reference of each once."""
        repos = {task.repo for task in again if task.model != self.benchmark.arguments.reference}
        self._beside.update(task for task in self.references if task.repo in repos)
        return sorted(
            {*self._beside, *again}, key=lambda task: (task.repo, task not in self._beside, task)
        )

    def _is_due_again(self, task: Task) -> bool:
        """Return whether the second round evaluates a task."""
        if self.benchmark.arguments.no_repeat:
            return False
        if task in self.scores:
            return self.scores[task].needs_retry
        return self.outcomes.get(task, Outcome(None)).kind != de.USAGE

    def _run_round(
        self, due: Sequence[Task], workers: Workers, *, later: int = 0, is_last: bool = False
    ) -> None:
        """Evaluate tasks, keep their reports, and say how each has ended.

        After many errors in a row, an experiment says whether the engine or the registry works.
        """
        again = 0 if is_last else sum(map(self._is_due_again, self.scores))
        started = time.monotonic()
        done = 0
        kind = ""  # of the latest error, and for each of its kind in a row the registry that failed
        registries: list[str] = []
        for task, result in after_references(self._results(due, workers), self._beside):
            if result.kind == de.INTERRUPTED:
                continue
            if task is CONTROL_EXPERIMENT:
                self._judge_host(result)
                continue
            done += 1
            outcome = self.keep(task, result)
            line = f"[{done}/{len(due)}] {task.name}: {describe(outcome)}"
            if not is_last and self._is_due_again(task):
                again += 1
                line += ", will be retried"
            to_do = len(due) - done + later + again
            left = timedelta(seconds=int((time.monotonic() - started) / done * to_do))
            self.screen.line(f"{line}, {left} left" if left else line)
            if outcome.kind != kind:
                registries.clear()
            kind = outcome.kind
            registries.append(outcome.registry)
            count = len(registries)
            if kind not in MAX_ERRORS or count < MAX_ERRORS[kind] * workers.parallel():
                continue
            if kind == de.FILE:
                self._stop(f"{count} evaluations in a row have no report: {outcome.problem}")
            else:
                registry = max(set(registries), key=registries.count)
                self._doubts.append(outcome._replace(registry=registry))
            registries.clear()

    def _judge_host(self, outcome: Outcome) -> None:
        """Stop if an experiment has failed."""
        if outcome.problem:
            self._stop(f"the control experiment fails, too: {outcome.problem}")
        else:
            self.screen.line(
                f"many {outcome.kind} errors, but the control experiment succeeds: continuing"
            )

    def _results(self, due: Sequence[Task], workers: Workers) -> Results:
        """Yield each task with its outcome when it ends; after a stop only what has begun.

        For an error in `_doubts` an experiment is made where it came from, and nothing begins
        meanwhile. Each signal of the user, and a `problem`, interrupts the workers once; after two
        interrupts nothing more is yielded.
        """
        running: Running = {}
        since: dict[Task, float] = {}
        waiting = iter(due)
        interrupts = 0
        while True:
            while interrupts < len(self.signals) + bool(self.problem):
                interrupts += 1
                if running:
                    self.screen.line("interrupting the running evaluations, which clean up first")
                workers.interrupt()
            self._begin(waiting, workers, running)
            if not running or interrupts > 1:
                return
            for task in itertools.islice(
                running.values(), workers.parallel()
            ):  # the oldest ones run
                since.setdefault(task, time.monotonic())
            self.screen.status(since)
            ended = futures.wait(running, TICK, futures.FIRST_COMPLETED).done
            for future in [future for future in running if future in ended]:
                task = running.pop(future)
                since.pop(task, None)
                outcome = outcome_of(future)
                is_final = task is CONTROL_EXPERIMENT or self._has_stopped()
                others = () if is_final else workers.others(outcome)
                if others:
                    running[self._submit(task, workers, others)] = task
                else:
                    yield task, outcome

    def _begin(self, waiting: Iterator[Task], workers: Workers, running: Running) -> None:
        """Submit the experiment of a doubt, or tasks."""
        if self._doubts:
            doubt = self._doubts.pop()
            call = functools.partial(try_host, registry=doubt.registry)
            future = workers.submit(call, self.benchmark.arguments.common, [doubt.worker])
            running[future] = CONTROL_EXPERIMENT
        if not self._has_stopped() and CONTROL_EXPERIMENT not in running.values():
            # Twice as many as can run, so that no worker waits for us.
            for task in itertools.islice(waiting, max(2 * workers.parallel() - len(running), 0)):
                running[self._submit(task, workers)] = task

    def _submit(
        self, task: Task, workers: Workers, addresses: Collection[str] = ()
    ) -> futures.Future[Outcome]:
        """Let a worker evaluate a task: from the cache a retry would repeat the result.

        What may have lacked memory is retried alone.
        """
        options = self.benchmark.options(task)
        report = de.read_report(options.output or "")
        suspects = suspicions(report)
        # An engine with a full disk, too, leaves layers that lack files.
        is_spoilt = suspects or (report and not de.is_scored(report))
        if task in self.scores or task in self._beside or is_spoilt:
            options = options._replace(build_options=(*options.build_options, "--no-cache"))
        call = functools.partial(evaluate_task, program=de.__file__, is_alone="memory" in suspects)
        return workers.submit(call, options, addresses)

    def keep(self, task: Task, outcome: Outcome) -> Outcome:
        """Keep the better report of a task; return its outcome, or what went wrong here.

        A score is never lost: what is on the disk is replaced in one step, by what better() says.
        """
        earlier_score = self.scores.get(task)
        if task in self._beside:
            if share_of(outcome.report) < 1:
                self._failed_beside.add(task.repo)
            if earlier_score and not earlier_score.needs_retry:
                return outcome  # It only had to show what this host can do now.
        options = self.benchmark.options(task)
        path = str(options.output)
        new: Any = outcome.report
        if de.is_scored(new) and not self.benchmark.is_current(new, options):
            outcome = Outcome(None, de.FILE, "the files have changed, or differ on the worker")
            new = None
        earlier = None
        if earlier_score:
            if not new:
                return outcome  # The next start makes the second try.
            earlier = de.read_report(path)
            is_unreadable = not earlier and os.path.lexists(path)
            if is_unreadable and share_of(new) < earlier_score.share:
                return Outcome(None, de.FILE, f"cannot read the earlier report: {path}")
        report: Any = new and better(earlier, new)
        if de.is_scored(report) and task.repo in self._failed_beside:
            report = blame_host(report)
        problem = de.write_report(report, path) if report else ""
        if problem:
            outcome = Outcome(None, de.FILE, problem.replace(f"{path}: ", ""))
        elif de.is_scored(report):
            self.scores[task] = score_of(report)
        else:  # Somebody may have deleted the earlier report.
            self.scores.pop(task, None)
        if not earlier_score and (problem or not report):
            with contextlib.suppress(OSError):
                de.keep_previous(path)  # A score for other inputs would count for the new ones.
        if task not in self.scores:
            self.outcomes[task] = outcome._replace(report=None)
        return outcome


def after_references(results: Results, references: Collection[Task]) -> Results:
    """Hold back what is retried beside these references until its reference has ended.

    If the reference is interrupted, its retries are lost: the next start runs all of them again.
    """
    waiting = {task.repo for task in references}
    held: dict[str, list[tuple[Task, Outcome]]] = collections.defaultdict(list)
    for task, outcome in results:
        if task.repo in waiting and task not in references:
            held[task.repo].append((task, outcome))
        elif task not in references or outcome.kind != de.INTERRUPTED:
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
        end = de.score_line(outcome.report)
        if outcome.kind in (de.BUILD, de.BUILD_TIMEOUT):
            end = "build failed"
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
        if repos:
            say(
                f"no answer: {de.printable(model) or '(no model)'}: {de.quoted(repos, SHOWN_NAMES)}"
            )
    references = {task.repo for task in batch.references}
    lacking = sorted({task.repo for task in answers.tasks} - references)
    if references and lacking:
        say(f"no reference: {de.quoted(lacking, SHOWN_NAMES)}")
    print_left_out(batch.benchmark, answers)
    if not batch.benchmark.arguments.checkouts:
        say("build context: the folder of each Dockerfile (see --checkouts)")


def print_left_out(benchmark: Benchmark, answers: Answers) -> None:
    """Print what is not evaluated, and why; and what no --layout matches."""
    for problem, paths in answers.left_out.items():
        say(f"left out: {de.printable(problem)}: {de.quoted(paths)}")
    if answers.unmatched:
        say(
            f"not matched by any --layout: {de.quoted(answers.unmatched)}"
            f"{layout_hint(benchmark, answers)}"
        )


def layout_hint(benchmark: Benchmark, answers: Answers) -> str:
    """Return the options that also match what no --layout matches, or "".

    There must be one of KNOWN_LAYOUTS that matches all of that, and then a rubric for some of it.
    """
    given = benchmark.arguments
    paths = [os.path.relpath(path, given.artifacts) for path in answers.unmatched]
    for layout in KNOWN_LAYOUTS.split():
        found = list(filter(None, map(layout_pattern(layout).fullmatch, paths)))
        rubrics = (benchmark.rubric_path(match["repo"]) for match in found)
        if len(found) == len(paths) and any(map(os.path.exists, rubrics)):
            layouts = [*given.layouts, layout] if answers.models else [layout]
            return f" (use {' '.join(f'--layout={de.shell_word(each)}' for each in layouts)})"
    return ""


def print_summary(batch: Batch) -> None:
    """Print what has no score and why, what a person should look at, and each model's mean."""
    names: dict[str, list[str]] = collections.defaultdict(list)
    for task in batch.tasks:
        score = batch.scores.get(task)
        if not score:
            names[f"no score: {batch.problem_of(task)}"].append(task.name)
            continue
        for suspect in score.suspects:
            advice = (
                "withdrawn, or never existed for this release"
                if suspect == "gone"
                else "check them, and use --again suspicious if the host was at fault"
            )
            names[f"suspicious failures ({suspect}): {advice}"].append(task.name)
    for task in filter(batch.scores.get, batch.failing_references()):
        names["reference fails"].append(task.repo)
    for title in sorted(names):
        say(f"{title}: {de.quoted(names[title], SHOWN_NAMES)}")
    tries = [score.gain for score in batch.scores.values() if score.gain is not None]
    if tries:
        rises = sum(gain > 0 for gain in tries)
        say(f"second tries: {len(tries)}, of which {rises} raised the score")
    for model, tasks in by_model(batch.tasks).items():
        shares = [batch.scores[task].share for task in tasks if task in batch.scores]
        mean = de.percent(sum(shares), len(shares))
        words = [f"mean score {mean} of {counted(len(shares), 'Dockerfile')}"] if shares else []
        lacking = len(tasks) - len(shares)
        if lacking:
            words.append(f"{lacking} without a score")
        say(f"{model}: {', '.join(words)}")
    say(f"{len(batch.scores)} of {len(batch.tasks)} Dockerfiles have a score")


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def run_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the options of add_run_options(), as keywords of evaluate()."""
    names = "build_timeout start_timeout build_options run_options docker offline"
    return {name: getattr(arguments, name) for name in names.split()}


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options with their defaults; exit with 2 if they make no sense."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.checkouts is None and os.path.isdir("checkouts"):
        arguments.checkouts = "checkouts"
    try:
        arguments.layouts = {
            text: layout_pattern(text) for text in arguments.layouts or [DEFAULT_LAYOUT]
        }
        arguments.common = de.completed(de.Options("", "", **run_arguments(arguments)))
    except ValueError as error:
        parser.error(str(error))
    for name in ("artifacts", "rubrics", "checkouts", "reports"):
        folder = getattr(arguments, name)
        try:
            os.scandir(folder).close()
        except OSError as error:  # Also if it is below a file.
            if name != "reports" or not isinstance(error, FileNotFoundError):
                parser.error(f"--{name}: cannot read {folder}: {error.strerror}")
        if folder and arguments.dask:  # a worker runs in another folder
            setattr(arguments, name, os.path.abspath(folder))
    return arguments


def _parser() -> de.Parser:
    parser = de.Parser(
        prog="evaluate_all.py",
        description="Score many Dockerfiles in parallel. Start it again to continue.",
        epilog="Exit codes: 0 every Dockerfile has a score (that of a failed build is 0); 1 one "
        "has none, or was left out; 2 bad arguments; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.",
    )
    _add_what(parser.add_argument_group("what is evaluated").add_argument)
    _add_how(parser.add_argument_group("how it is evaluated"))
    de.add_run_options(parser.add_argument_group("options of each evaluation"))
    return parser


def _add_what(add: Callable[..., object]) -> None:
    add(
        "--artifacts",
        metavar="DIR",
        default="artifacts",
        help="where the Dockerfiles are (default: artifacts)",
    )
    add(
        "--layout",
        dest="layouts",
        metavar="LAYOUT",
        action="append",
        help="their paths there; {model} can be several folders, * matches part of a name "
        f"(default: {DEFAULT_LAYOUT}); repeatable",
    )
    add(
        "--rubrics",
        metavar="DIR",
        default="rubrics",
        help="where the rubrics are, as REPO.json (default: rubrics)",
    )
    add(
        "--checkouts",
        metavar="DIR",
        help="build contexts, as REPO/ (default: checkouts if it exists, or the Dockerfiles' "
        "folders)",
    )
    add(
        "--overlay",
        action="store_true",
        help="lay the folder of each Dockerfile over its build context",
    )
    add(
        "--reports",
        metavar="DIR",
        default="reports",
        help="where the reports are written, as MODEL/REPO.json (default: reports)",
    )
    for name in ("model", "repo"):
        add(
            f"--{name}",
            metavar="PATTERN",
            action="append",
            help=f"only those that match, such as --{name}='x*' (default: all); repeatable",
        )
    add(
        "--shard",
        metavar="K/N",
        type=_shard,
        default="1/1",
        help="only part K of N, such as 2/3 (default: 1/1)",
    )


def _add_how(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--reference",
        metavar="MODEL",
        help="the model whose Dockerfiles are known to be right: evaluated first, and beside "
        "retries; the run stops if none gets all points",
    )
    group.add_argument(
        "--list",
        action="store_true",
        help="print what would be evaluated, and stop; needs no engine",
    )
    add = group.add_mutually_exclusive_group().add_argument
    add("--no-repeat", action="store_true", help="skip the second round")
    add(
        "--again",
        choices=["suspicious"],
        metavar="suspicious",
        help="retry everything suspicious once, without the cache; a worse result replaces nothing",
    )
    add = group.add_mutually_exclusive_group().add_argument
    add(
        "--parallel",
        metavar="N",
        type=_positive,
        help=f"evaluations at a time (default: the engine's processors, at most {MAX_PARALLEL})",
    )
    add(
        "--dask",
        metavar="ADDRESS",
        help="run on the workers of a Dask cluster (pip install distributed): the address of its "
        "scheduler",
    )


def _shard(text: str) -> tuple[int, int]:
    numbers = re.fullmatch("([1-9][0-9]*)/([1-9][0-9]*)", text)
    part, parts = map(int, numbers.groups()) if numbers else (1, 0)
    if part > parts:
        raise argparse.ArgumentTypeError("expected K/N with K from 1 to N")
    return part, parts


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
    if not (is_found or answers.left_out):
        de.print_errors(nothing_found(arguments, answers))
        print_left_out(benchmark, answers)
        return 1
    batch = Batch(benchmark, answers.tasks)
    print_plan(batch, answers)
    lacks_scores = bool(answers.left_out)
    reference = arguments.reference
    if reference and answers.tasks and not batch.references:
        what = f"'{reference}' to evaluate: all are left out, or not selected by --repo"
        if reference not in answers.models:
            what = de.did_you_mean(reference, answers.models)
        de.print_errors(f"--reference: no Dockerfile of {what}")
        return 2
    if arguments.list or not answers.tasks:
        return int(lacks_scores)
    try:
        with (dask_workers if arguments.dask else threads)(arguments) as workers:
            batch.run(workers)
    except de.EvaluationError as error:  # no engine, or the cluster is lost
        de.print_errors(str(error))
        lacks_scores = True
    print_summary(batch)
    print_left_out(benchmark, answers)
    if batch.problem or batch.signals:
        say(f"{batch.problem or 'interrupted'}; start the same command again to continue")
    if batch.signals:
        return 128 + batch.signals[0]
    return int(lacks_scores or bool(batch.problem) or len(batch.scores) < len(batch.tasks))


def nothing_found(arguments: argparse.Namespace, answers: Answers) -> str:
    """Return why there is nothing to evaluate."""
    if not answers.models:
        return f"no file in {arguments.artifacts} is like {de.quoted(arguments.layouts)}"
    models, repos = (
        de.quoted(sorted(names), SHOWN_NAMES) for names in (answers.models, answers.repos)
    )
    return f"no Dockerfile is selected; models there: {models}; repositories there: {repos}"


# ---------------------------------------------------------------------------------------------
# The workers of a Dask cluster, for --dask
# ---------------------------------------------------------------------------------------------

WORKER_TIMEOUT = 60  # seconds until the first worker must be there


@contextlib.contextmanager
def dask_workers(arguments: argparse.Namespace) -> Iterator[Workers]:
    """Yield the workers of a cluster; raise EvaluationError if there are none, or it is lost."""
    batch_id = os.urandom(8).hex()
    without_engine: set[str] = set()
    logging.disable()  # distributed would print tracebacks on the screen
    client: Any = None
    try:
        from distributed import Client

        client = Client(  # type: ignore[no-untyped-call]
            arguments.dask, set_as_default=False, timeout=WORKER_TIMEOUT
        )
        client.wait_for_workers(1, timeout=WORKER_TIMEOUT)
        for path in (de.__file__, os.path.realpath(__file__)):
            client.upload_file(path)

        yield Workers(
            # If these workers are lost, others will do.
            submit=lambda call, options, addresses: client.get_executor(
                pure=False, workers=list(addresses) or None, allow_other_workers=bool(addresses)
            ).submit(run_on_worker, call, options, batch_id),
            parallel=lambda: sum(client.nthreads().values()) or 1,
            interrupt=lambda: client.run(interrupt_on_worker, batch_id),
            others=lambda outcome: other_workers(outcome, client.nthreads(), without_engine),
        )
    except de.EvaluationError:
        raise
    except Exception as error:  # noqa: BLE001 - distributed has many
        message = f"--dask {arguments.dask}: {type(error).__name__}: {error}"
        raise de.EvaluationError(de.ENGINE, message) from None
    finally:
        if client:
            client.close(timeout=5)
        logging.disable(logging.NOTSET)


def other_workers(
    outcome: Outcome, addresses: Iterable[str], without_engine: set[str]
) -> Collection[str]:
    """Return the addresses of other workers if the one of an outcome has no engine.

    It is added to `without_engine`. distributed.Reschedule does not suffice: the scheduler may
    choose the same one for ever.
    """
    if outcome.kind != de.ENGINE or outcome.report:
        return ()
    without_engine.add(outcome.worker)
    return set(addresses) - without_engine


def run_on_worker(call: Call, options: de.Options, batch_id: str) -> Outcome:
    """Call evaluate_task() or try_host() on a Dask worker; errors of its host have its name."""
    from distributed import get_worker

    worker = get_worker()
    outcome = call(options, shared_on(batch_id, worker))._replace(worker=worker.address)
    if not outcome.problem or outcome.kind not in (de.ENGINE, de.REGISTRY):
        return outcome
    return outcome._replace(problem=f"worker {worker.name}: {outcome.problem}")


def shared_on(batch_id: str, dask_worker: Any) -> Shared:
    """Return what the evaluations of a batch on a worker share.

    It is kept in the worker, which loads this module again for each command that uses the cluster.
    """
    batches: dict[str, Shared] = vars(dask_worker).setdefault("evaluate_all", {})
    return batches.setdefault(batch_id, Shared(dask_worker.state.nthreads))


def interrupt_on_worker(batch_id: str, dask_worker: Any) -> None:
    """Interrupt the evaluations of a batch on a worker: those that run, and later ones."""
    shared_on(batch_id, dask_worker).signals.append(signal.SIGINT)


if __name__ == "__main__":
    import evaluate_all as this_module  # the name by which Dask workers import it

    raise SystemExit(this_module.main())
