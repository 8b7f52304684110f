#!/usr/bin/env python3
"""Evaluate many Dockerfiles in parallel, on this machine or on the workers of a Dask cluster.

    find_tasks()      the Dockerfiles, each with its rubric, build context and report
    first round       each task whose report has no score for the same inputs
    second round      once more: what has no score; and without the cache, what a busy machine may
                      have spoilt: failed builds, timeouts, images that did not start
    print_summary()

Both rounds give evaluate_task() to an executor of concurrent.futures: threads of this process, or
Dask's. Started again, the program goes on where it stopped.

Exit codes: 0 every Dockerfile has a score, 1 one has none, 2 bad arguments, 130 Ctrl-C (143
SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import hashlib
import os
import re
import sys
import time
import zlib
from concurrent import futures
from datetime import timedelta
from typing import Any, Callable, Iterator, NamedTuple, Sequence

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]  # a Dask worker has the evaluator beside this file

import DockerfileEvaluator as de

MAX_PARALLEL = 8  # evaluations on this machine, unless --parallel says otherwise
MAX_FAILURES = 3  # engine errors in a row, for each evaluation that runs at a time
WORKER_TIMEOUT = 60  # seconds until the first Dask worker must be there


class Task(NamedTuple):
    """One Dockerfile, and the files of its evaluation."""

    model: str
    repo: str
    report: str  # a path
    options: de.Options

    @property
    def name(self) -> str:
        """MODEL/REPO, for messages."""
        return de.printable(os.path.join(self.model, self.repo))


class Outcome(NamedTuple):
    """What evaluate_task() returns."""

    report: de.Report | None
    problem: str = ""  # why there is no report


# ---------------------------------------------------------------------------------------------
# Tasks
# ---------------------------------------------------------------------------------------------


def layout_pattern(layout: str) -> re.Pattern[str]:
    """Return the pattern of a path with {model}, {repo} and *; raise ArgumentTypeError."""
    parts = {"{model}": "(?P<model>.+)", "{repo}": "(?P<repo>[^/]+)", "*": "[^/]*"}
    words = re.split(r"(\{.*?\}|\*)", layout)
    if not set(words[1::2]) <= set(parts) or words.count("{repo}") != 1:
        raise argparse.ArgumentTypeError(f"expected {{repo}}, {{model}} and * in '{layout}'")
    return re.compile("".join(parts.get(word) or re.escape(word) for word in words))


def find_tasks(arguments: argparse.Namespace) -> tuple[list[Task], list[str]]:
    """Return the selected tasks, and why others are left out."""
    tasks: dict[str, Task] = {}  # by report
    problems = []
    overlays: dict[str | None, str] = {}
    for path in sorted(files_below(arguments.artifacts)):
        place = os.path.relpath(path, arguments.artifacts)
        match = next(filter(None, (layout.fullmatch(place) for layout in arguments.layout)), None)
        if not match:
            continue
        task = make_task(match.groupdict().get("model") or "", match["repo"], path, arguments)
        if task.options.overlay and overlays.setdefault(task.options.overlay, path) != path:
            raise ValueError(f"--overlay: {path} and another Dockerfile share a folder")
        if not is_selected(task, arguments):
            continue
        problem = ""
        if task.report in tasks:
            problem = "another Dockerfile has the same model and repository"
        else:
            try:
                de.read_inputs(task.options)
            except de.EvaluationError as error:
                problem = str(error).splitlines()[0]
        if problem:
            problems.append(f"{path}: {problem}")
        else:
            tasks[task.report] = task
    return list(tasks.values()), problems


def files_below(folder: str) -> Iterator[str]:
    """Yield all files below a folder, except hidden ones; links to folders are not followed."""
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                yield os.path.join(place, name)


def make_task(model: str, repo: str, dockerfile: str, arguments: argparse.Namespace) -> Task:
    """Return the task of a Dockerfile; without checkouts its own folder is the build context."""
    folder = os.path.dirname(dockerfile)
    # Models do not share the files of cache mounts.
    namespace = hashlib.sha256(os.fsencode(model)).hexdigest()[:16]
    options = de.Options(
        dockerfile=dockerfile,
        repo=repo,
        rubric=os.path.join(arguments.rubrics, f"{repo}.json"),
        context=os.path.join(arguments.checkouts, repo) if arguments.checkouts else folder,
        overlay=folder if arguments.overlay else None,
        build_timeout=arguments.build_timeout,
        start_timeout=arguments.start_timeout,
        build_options=(
            *arguments.build_options,
            f"--build-arg=BUILDKIT_CACHE_MOUNT_NS={namespace}",
        ),
        run_options=tuple(arguments.run_options),
        docker=arguments.docker,
        offline=arguments.offline,
    )
    report = os.path.join(arguments.reports, model, f"{repo}.json")
    return Task(model, repo, report, de.checked(options))


def is_selected(task: Task, arguments: argparse.Namespace) -> bool:
    """Return whether --model, --repo and --shard select a task."""
    part, parts = arguments.shard
    place = os.path.join(task.model, task.repo)
    return (
        zlib.crc32(os.fsencode(place)) % parts == part - 1
        and any(fnmatch.fnmatchcase(task.model, pattern) for pattern in arguments.model)
        and any(fnmatch.fnmatchcase(task.repo, pattern) for pattern in arguments.repo)
    )


# ---------------------------------------------------------------------------------------------
# One evaluation, on this machine or on a worker
# ---------------------------------------------------------------------------------------------

_running: set[de.Docker] = set()
_stopped: set[str] = set()  # the batches that are interrupted


def stop(batch: str) -> None:
    """Interrupt the evaluations on this machine, now and those of the batch that begin later."""
    _stopped.add(batch)
    for docker in list(_running):
        docker.interrupt()


def engine_problem(docker: str) -> str:
    """Return why this machine cannot evaluate, or ""."""
    try:
        de.Docker(docker).connect()
    except de.EvaluationError as error:
        return str(error)
    return ""


def evaluate_task(batch: str, task: Task, *, no_cache: bool) -> Outcome:
    """Evaluate a Dockerfile; the log of the build and the tests is beside the report."""
    options = task.options
    if no_cache:
        options = options._replace(build_options=(*options.build_options, "--no-cache"))
    docker = de.Docker(options.docker)
    _running.add(docker)
    try:
        if batch in _stopped:
            docker.interrupt()
        with open(f"{task.report[:-5]}.log", "a", errors="backslashreplace") as log:
            console = de.Console(log, verbose=True)
            return Outcome(de.run_evaluation(options, de.read_inputs(options), docker, console))
    except (de.EvaluationError, OSError) as error:
        return Outcome(None, str(error))
    finally:
        _running.discard(docker)


# ---------------------------------------------------------------------------------------------
# Rounds
# ---------------------------------------------------------------------------------------------


class Batch:
    """Evaluates tasks in two rounds."""

    def __init__(self, tasks: Sequence[Task], *, repeats: bool) -> None:
        self.id = os.urandom(8).hex()
        self.reports: dict[Task, de.Report] = {}  # those with a score for the same inputs
        self.problems: dict[Task, str] = {}  # why a task has none
        self.kinds: dict[Task, str] = {}  # of that error
        self.signal = 0
        self._tasks = tasks
        self._repeats = repeats
        self._stop: Callable[[], Any] = lambda: None
        for task in tasks:
            report = de.read_report(task.report)
            if report and self._is_current(report, task):
                self.reports[task] = report

    def run(self, executor: futures.Executor, parallel: int, stop_all: Callable[[], Any]) -> None:
        """Run both rounds; an interrupt ends what runs, and is in `signal`."""
        self._stop = stop_all
        de.handle_signals(self._on_signal)
        due = [task for task in self._tasks if task not in self.reports]
        self._run_round(due, executor, parallel, is_repetition=False)
        if self._repeats:
            due = [
                task
                for task in self._tasks
                if (
                    is_doubtful(self.reports[task])
                    if task in self.reports
                    else self._may_pass(task)
                )
            ]
            self._run_round(due, executor, parallel, is_repetition=True)

    def _may_pass(self, task: Task) -> bool:
        """Return whether a task without a score is evaluated once more."""
        return self.kinds.get(task) != de.USAGE

    def _run_round(
        self,
        due: Sequence[Task],
        executor: futures.Executor,
        parallel: int,
        *,
        is_repetition: bool,
    ) -> None:
        started = time.monotonic()
        failures = 0  # engine errors in a row
        done = 0
        running: dict[futures.Future[Outcome], Task] = {}
        waiting = iter(due)
        while True:
            # A few more than can run, so that no worker waits for us.
            while len(running) < 2 * parallel and not self.signal:
                task = next(waiting, None)
                if task is None:
                    break
                os.makedirs(os.path.dirname(task.report) or ".", exist_ok=True)
                no_cache = task in self.reports
                running[executor.submit(evaluate_task, self.id, task, no_cache=no_cache)] = task
            if not running:
                return
            for future in futures.wait(running, 1.0, futures.FIRST_COMPLETED).done:
                task = running.pop(future)
                outcome = result_of(future)
                self._take(task, outcome, is_repetition=is_repetition)
                done += 1
                left = (time.monotonic() - started) / done * (len(due) - done)
                say(f"[{done}/{len(due)}] {task.name}: {describe(outcome)}", left)
                failures = failures + 1 if is_engine_error(outcome) else 0
            if failures >= MAX_FAILURES * parallel and not self.signal:
                say(f"the last {failures} evaluations ended in engine errors")
                self.signal = -1
                self._stop()

    def _take(self, task: Task, outcome: Outcome, *, is_repetition: bool) -> None:
        """Write a report, unless an earlier one for the same inputs is as good."""
        report = outcome.report
        earlier = self.reports.get(task)
        if report is None:
            self.problems[task] = outcome.problem
            return
        report["repeated"] = is_repetition
        if not de.is_scored(report):
            self.problems[task] = report["error"]["message"]
            self.kinds[task] = report["error"]["kind"]
        elif not self._is_current(report, task):
            self.problems[task] = "the files have changed, or the worker has others"
            return
        if earlier and part(report) < part(earlier):
            return
        problems = de.write_reports(report, task.options._replace(output=task.report))
        if problems:
            self.problems[task] = problems[0]
        elif de.is_scored(report):
            self.reports[task] = report

    def _is_current(self, report: de.Report, task: Task) -> bool:
        """Return whether a report is for the files that are here now."""
        try:
            return de.is_report_for(report, task.options, de.read_inputs(task.options))
        except de.EvaluationError:  # one has vanished
            return False

    def _on_signal(self, number: int, _frame: object = None) -> None:
        """Interrupt what runs; the second time do not wait for its clean-up."""
        if self.signal:
            os._exit(128 + number)
        self.signal = number
        self._stop()


def part(report: de.Report) -> float:
    """Return the share of the points, below 0 without a score."""
    summary = report["summary"]
    if summary["total_score"] is None:
        return -1.0
    return float(summary["total_score"] / (summary["max_score"] or 1))


def is_doubtful(report: de.Report) -> bool:
    """Return whether a task is evaluated once more: a busy machine may have cost it points."""
    if report.get("repeated"):
        return False
    has_timeout = any(row["status"] == de.TIMEOUT for row in report["test_results"])
    return bool(report["error"]) or has_timeout or report["environment"]["image_starts"] is False


def is_engine_error(outcome: Outcome) -> bool:
    """Return whether the engine has failed."""
    error = (outcome.report or {}).get("error") or {}
    return bool(error.get("kind") == de.ENGINE)


def result_of(future: futures.Future[Outcome]) -> Outcome:
    """Return the result of a future, also if the worker has died."""
    error = future.exception()
    return Outcome(None, f"{type(error).__name__}: {error}") if error else future.result()


@contextlib.contextmanager
def make_executor(
    arguments: argparse.Namespace,
    batch: str,
) -> Iterator[tuple[futures.Executor, int, Callable[[], Any]]]:
    """Yield an executor, how many evaluations it runs at a time, and how to interrupt them."""
    if not arguments.dask:
        parallel = arguments.parallel
        if not parallel:
            facts = de.engine_facts(de.Docker(arguments.docker))
            parallel = min(facts["engine_cpus"] or 1, MAX_PARALLEL)
        with futures.ThreadPoolExecutor(parallel) as pool:
            yield pool, parallel, lambda: stop(batch)
        return
    from distributed import Client

    with Client(arguments.dask, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        client.wait_for_workers(1, timeout=WORKER_TIMEOUT)
        for path in (de.__file__, os.path.realpath(__file__)):
            client.upload_file(path)
        problems = client.run(engine_problem, arguments.docker)
        dead = [address for address, problem in problems.items() if problem]
        for address in dead:
            say(f"worker {address} is retired: {problems[address]}")
        client.retire_workers(dead)
        parallel = sum(client.nthreads().values()) or 1
        yield client.get_executor(pure=False), parallel, lambda: client.run(stop, batch)


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def say(text: str, left: float | None = None) -> None:
    """Print a line, if anybody reads it."""
    if left:
        text += f", {timedelta(seconds=int(left))} left"
    with contextlib.suppress(OSError, ValueError):
        print(text, flush=True)


def describe(outcome: Outcome) -> str:
    """Return how an evaluation ended, in one line."""
    if outcome.report is None:
        return de.printable(f"no report: {outcome.problem}")
    error = outcome.report["error"]
    line = de.score_line(outcome.report)
    return de.printable(f"{line}: {error['message']}" if error else line)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options with their defaults; exit with 2 if they make no sense."""
    parser = argparse.ArgumentParser(
        prog="evaluate_all.py",
        description="Evaluate many Dockerfiles in parallel. Started again, it goes on.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--artifacts", metavar="DIR", default="artifacts", help="Dockerfiles (default: artifacts)")
    text = "their paths in it (default: {model}/{repo}.dockerfile)"
    add("--layout", type=layout_pattern, action="append", help=f"{text}; repeatable")
    add("--rubrics", metavar="DIR", default="rubrics", help="REPO.json (default: rubrics)")
    text = "build contexts, a folder for each repository (default: checkouts, if it exists)"
    add("--checkouts", metavar="DIR", help=text)
    add("--overlay", action="store_true", help="lay the folder of a Dockerfile over its context")
    add("--reports", metavar="DIR", default="reports", help="MODEL/REPO.json (default: reports)")
    add("--model", metavar="PATTERN", action="append", help="only these; repeatable")
    add("--repo", metavar="PATTERN", action="append", help="only these; repeatable")
    add("--shard", metavar="K/N", default="1/1", help="only the Kth of N parts")
    add("--list", action="store_true", help="only print what there is to do")
    add("--no-repeat", action="store_true", help="one round only")
    text = f"evaluations at a time (default: the engine's processors, at most {MAX_PARALLEL})"
    add("--parallel", metavar="N", type=int, help=text)
    add("--dask", metavar="ADDRESS", help="evaluate on the workers of this Dask scheduler")
    de.add_run_options(parser)
    arguments = parser.parse_args(argv)
    shard = re.fullmatch("([1-9][0-9]*)/([1-9][0-9]*)", arguments.shard)
    if not shard or int(shard[1]) > int(shard[2]):
        parser.error("--shard: expected K/N with K from 1 to N")
    if arguments.parallel is not None and arguments.parallel < 1:
        parser.error("--parallel: expected a number over 0")
    arguments.shard = (int(shard[1]), int(shard[2]))
    arguments.layout = arguments.layout or [layout_pattern("{model}/{repo}.dockerfile")]
    arguments.model = arguments.model or ["*"]
    arguments.repo = arguments.repo or ["*"]
    if arguments.checkouts is None and os.path.isdir("checkouts"):
        arguments.checkouts = "checkouts"
    for name in ("artifacts", "rubrics", "checkouts", "reports"):
        folder = getattr(arguments, name)
        if folder and name != "reports" and not os.path.isdir(folder):
            parser.error(f"--{name}: no such folder: {folder}")
        if arguments.dask and folder:  # a worker runs in another folder
            setattr(arguments, name, os.path.abspath(folder))
    return arguments


def print_summary(batch: Batch, tasks: Sequence[Task]) -> None:
    """Print what has no score and why, suspicious zeros, and the mean score of each model."""
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    parts: dict[str, list[float]] = {task.model: [] for task in tasks}
    suspects: list[str] = []
    for task in tasks:
        report = batch.reports.get(task)
        if report is None:
            reasons[batch.problems.get(task, "not evaluated")].append(task.name)
            continue
        parts[task.model].append(part(report))
        if report["error"] and report["error"]["suspect"]:
            suspects.append(task.name)
    for problem, names in reasons.items():
        say(f"no score: {de.printable(problem)}: {de.quoted(names, 50)}")
    if suspects:
        kinds = "network, memory or disk"
        found = de.quoted(suspects, 50)
        say(f"{len(suspects)} suspicious zeros, look at them ({kinds}): {found}")
    counts = collections.Counter(task.model for task in tasks)
    for model, group in sorted(parts.items()):
        mean = f"mean {de.percent(sum(group), len(group))} of {len(group)} reports"
        missing = counts[model] - len(group)
        name = de.printable(model) or "(no model)"
        say(f"{name}: {mean if group else 'no reports'}, {missing} missing")
    say(f"{len(batch.reports)} of {len(tasks)} Dockerfiles have a score")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = parse_arguments(argv)
    de.accept_any_text()
    try:
        tasks, problems = find_tasks(arguments)
    except ValueError as error:
        de.print_errors([str(error)])
        return 2
    if not tasks and not problems:
        de.print_errors(
            [f"no file in {arguments.artifacts} fits --layout, --model, --repo, --shard"]
        )
        return 1
    batch = Batch(tasks, repeats=not arguments.no_repeat)
    for problem in problems:
        say(f"left out: {de.printable(problem)}")
    counts = collections.Counter(task.model for task in tasks)
    resumed = collections.Counter(task.model for task in batch.reports)
    for model, count in sorted(counts.items()):
        say(f"{de.printable(model) or '(no model)'}: {count} Dockerfiles, {resumed[model]} resumed")
    if arguments.list or not tasks:
        return int(bool(problems))
    try:
        with make_executor(arguments, batch.id) as (executor, parallel, stop_all):
            batch.run(executor, parallel, stop_all)
    except de.EvaluationError as error:
        de.print_errors([str(error)])
        return 1
    print_summary(batch, tasks)
    if batch.signal > 0:
        return 128 + batch.signal
    return int(bool(problems) or len(batch.reports) < len(tasks))


if __name__ == "__main__":
    import evaluate_all as this_module  # the name by which Dask workers import it

    raise SystemExit(this_module.main())
