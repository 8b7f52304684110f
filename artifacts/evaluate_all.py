#!/usr/bin/env python3
"""Evaluate many Dockerfiles in parallel, on this machine or on the workers of a Dask cluster.

    find_answers()   the Dockerfiles, each with its rubric, build context and report
    first round      each whose report has no score for the same inputs
    second round     once more: what has no score; and without the cache what a busy machine or the
                     network may have spoilt: failed builds, timeouts, images that did not start
    print_summary()

Both rounds give evaluate_task() to an executor of concurrent.futures: threads of this process, or
Dask's workers. Batch.take() says what happens to a result: the better report stays. Started again,
the program goes on where it stopped.

Exit codes: 0 every Dockerfile has a score, 1 one has none, 2 bad arguments, 130 Ctrl-C (143
SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import hashlib
import itertools
import logging
import os
import re
import sys
import time
import zlib
from concurrent import futures
from datetime import timedelta
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]  # a Dask worker has the evaluator beside this file

import DockerfileEvaluator as de

DEFAULT_LAYOUT = "{model}/{repo}.dockerfile"
MAX_PARALLEL = 8  # evaluations on this machine, unless --parallel says otherwise
MAX_FAILURES = 3  # engine errors in a row, for each evaluation that runs at a time
WORKER_TIMEOUT = 60  # seconds until the first Dask worker must be there
TICK = 0.5  # seconds between two looks for an interrupt
SHOWN_NAMES = 50  # in a line of the summary


class Task(NamedTuple):
    """A Dockerfile to evaluate. There may be 50,000, so all else is derived by Benchmark."""

    model: str
    repo: str
    dockerfile: str  # a path

    @property
    def name(self) -> str:
        """MODEL/REPO, for messages."""
        return de.printable(os.path.join(self.model, self.repo))


class Outcome(NamedTuple):
    """How an evaluation has ended."""

    report: de.Report | None
    kind: str = ""  # of the error, "" without one
    problem: str = ""


class Score(NamedTuple):
    """What is remembered of a report that has a score."""

    part: float  # of the points, from 0 to 1
    is_built: bool
    suspect: str | None
    may_improve: bool  # a busy machine or the network may have cost points; not yet repeated


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
        options = common_options(given)
        return options._replace(
            dockerfile=task.dockerfile,
            repo=task.repo,
            rubric=os.path.join(given.rubrics, f"{task.repo}.json"),
            output=os.path.join(given.reports, task.model, f"{task.repo}.json"),
            context=os.path.join(given.checkouts, task.repo) if given.checkouts else folder,
            overlay=folder if given.overlay else None,
            build_options=(
                *options.build_options,
                f"--build-arg=BUILDKIT_CACHE_MOUNT_NS={namespace}",
            ),
        )

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


def common_options(arguments: argparse.Namespace) -> de.Options:
    """Return the options that are the same for all evaluations."""
    return de.Options(
        dockerfile="",
        repo="",
        build_timeout=arguments.build_timeout,
        start_timeout=arguments.start_timeout,
        build_options=tuple(arguments.build_options),
        run_options=tuple(arguments.run_options),
        docker=arguments.docker,
        offline=arguments.offline,
    )


class Answers(NamedTuple):
    """What was found in --artifacts."""

    tasks: list[Task]
    left_out: dict[str, list[str]]  # paths, by the reason
    misfits: list[str]  # Dockerfiles that are like no --layout


def find_answers(benchmark: Benchmark) -> Answers:
    """Return the selected tasks; raise EvaluationError if two share an overlay."""
    arguments = benchmark.arguments
    answers = Answers([], collections.defaultdict(list), [])
    overlays: dict[str, str] = {}
    names = set()
    for path, match in files_below(arguments.artifacts, arguments.layouts):
        if not match:
            if "dockerfile" in os.path.basename(path).lower():
                answers.misfits.append(path)
            continue
        other = overlays.setdefault(os.path.dirname(path), path)
        if arguments.overlay and other != path:
            message = f"--overlay: {other} and {path} are in the same folder"
            raise de.EvaluationError(de.USAGE, message)
        task = Task(match.groupdict().get("model") or "", match["repo"], path)
        if not is_selected(task, arguments):
            continue
        problem = unusable(benchmark, task)
        if task.name in names:
            problem = "another Dockerfile has the same model and repository"
        names.add(task.name)
        if problem:
            answers.left_out[problem].append(path)
        else:
            answers.tasks.append(task)
    return answers


def unusable(benchmark: Benchmark, task: Task) -> str:
    """Return why a task cannot be evaluated, or ""."""
    try:
        benchmark.inputs_sha256(benchmark.options(task))
    except de.EvaluationError as error:
        return str(error).splitlines()[0]
    return ""


def layout_pattern(layout: str) -> re.Pattern[str]:
    """Return the pattern of a path with {model}, {repo} and *; raise ArgumentTypeError."""
    parts = {"{model}": "(?P<model>.+)", "{repo}": "(?P<repo>[^/]+)", "*": "[^/]*"}
    words = re.split(r"(\{.*?\}|\*)", layout)
    has_both_once = words.count("{repo}") == 1 and words.count("{model}") < 2
    if not has_both_once or not set(words[1::2]) <= set(parts):
        raise argparse.ArgumentTypeError(
            f"--layout: expected {{repo}}, {{model}} and * in '{layout}'"
        )
    return re.compile("".join(parts.get(word) or re.escape(word) for word in words))


def files_below(
    folder: str, layouts: Sequence[re.Pattern[str]]
) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield each file below a folder in the order of names, and how the first layout matches.

    Left out is what is hidden, what is in a folder `checkouts`, and what is in a folder inside an
    answer of several files. A folder that was seen before is not entered again by a link.
    """
    seen = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        is_new = os.path.realpath(place) not in seen
        seen.add(os.path.realpath(place))
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "checkouts")
        for name in sorted(files) if is_new else []:
            path = os.path.join(place, name)
            relative = os.path.relpath(path, folder)
            matches = (layout.fullmatch(relative) for layout in layouts)
            match = next(filter(None, matches), None)
            if match and "/" in relative[match.end("repo") :]:
                is_new = False  # the folder is the answer
            if name[0] != ".":
                yield path, match
        if not is_new:
            folders.clear()


def is_selected(task: Task, arguments: argparse.Namespace) -> bool:
    """Return whether --model, --repo and --shard select a task."""
    part, parts = arguments.shard
    place = os.path.join(task.model, task.repo)
    return (
        zlib.crc32(os.fsencode(place)) % parts == part - 1
        and any(fnmatch.fnmatchcase(task.model, pattern) for pattern in arguments.model)
        and any(fnmatch.fnmatchcase(task.repo, pattern) for pattern in arguments.repo)
    )


_FROM = re.compile(r"(?im)^\s*FROM\s+(?:--\S+\s+)*(?P<image>\S+)(?:\s+AS\s+(?P<stage>\S+))?")


def base_images(dockerfile: str) -> set[str]:
    """Return the images that a Dockerfile builds from, except those with a variable."""
    lines = list(_FROM.finditer(dockerfile))
    stages = {line["stage"] for line in lines}
    images = {line["image"] for line in lines} - stages - {"scratch"}
    return {image for image in images if "$" not in image}


# ---------------------------------------------------------------------------------------------
# One evaluation, on this machine or on a worker
# ---------------------------------------------------------------------------------------------

# A Dask worker gets this module once more from each command that uses the cluster, and must not
# forget what runs for the others.
_running: dict[de.Docker, str] = globals().get("_running", {})  # with their batches
_stopped: set[str] = globals().get("_stopped", set())  # the batches that are interrupted


def stop(batch: str) -> None:
    """Interrupt the evaluations of a batch on this machine: those that run, and later ones."""
    _stopped.add(batch)
    for docker, its_batch in list(_running.items()):
        if its_batch == batch:
            docker.interrupt()


def engine_problem(docker: str) -> str:
    """Return why this machine cannot evaluate, or ""."""
    try:
        de.Docker(docker).connect()
    except de.EvaluationError as error:
        return str(error)
    return ""


def evaluate_task(batch: str, options: de.Options) -> Outcome:
    """Evaluate a Dockerfile; what the evaluator prints is appended to a log beside the report.

    It waits for an engine that is away, so that a machine without one does not swallow the queue.
    """
    docker = de.Docker(options.docker)
    _running[docker] = batch
    try:
        if batch in _stopped:
            docker.interrupt()
        docker.connect(de.RECOVERY_TIMEOUT)
        report = _evaluate_with_log(options, docker)
    except de.EvaluationError as error:
        return Outcome(None, error.kind, str(error))
    except OSError as error:
        return Outcome(None, de.FILE, str(error))
    finally:
        del _running[docker]
    if report["error"]:
        return Outcome(report, report["error"]["kind"], report["error"]["message"])
    return Outcome(report)


def _evaluate_with_log(options: de.Options, docker: de.Docker) -> de.Report:
    inputs = de.read_inputs(options)
    path = f"{str(options.output)[: -len('.json')]}.log"
    with open(path, "a", encoding="utf-8", errors="backslashreplace") as log:
        return de.run_evaluation(options, inputs, docker, de.Console(log, verbose=True))


def evaluate_on_worker(batch: str, options: de.Options) -> Outcome:
    """Evaluate a Dockerfile on a Dask worker, whose name is in the message of an engine error."""
    from distributed import get_worker

    outcome = evaluate_task(batch, options)
    if outcome.kind != de.ENGINE:
        return outcome
    return outcome._replace(problem=f"worker {get_worker().name}: {outcome.problem}")


# ---------------------------------------------------------------------------------------------
# Where evaluations run
# ---------------------------------------------------------------------------------------------


class Workers(NamedTuple):
    """Threads of this process, or the workers of a Dask cluster."""

    submit: Callable[[de.Options], futures.Future[Outcome]]
    parallel: Callable[[], int]  # evaluations that run at a time; raises EvaluationError
    stop: Callable[[], Any]  # interrupts them


@contextlib.contextmanager
def threads(arguments: argparse.Namespace, batch: str) -> Iterator[Workers]:
    """Yield threads of this process; raise EvaluationError if no engine answers."""
    facts = de.engine_facts(de.Docker(arguments.docker))
    parallel = arguments.parallel or min(facts["engine_cpus"] or 1, MAX_PARALLEL)
    with futures.ThreadPoolExecutor(parallel) as pool:
        yield Workers(
            submit=lambda options: pool.submit(evaluate_task, batch, options),
            parallel=lambda: int(parallel),
            stop=lambda: stop(batch),
        )


@contextlib.contextmanager
def dask_workers(arguments: argparse.Namespace, batch: str) -> Iterator[Workers]:
    """Yield the workers of a cluster; raise EvaluationError if there are none, or it is lost."""
    try:
        from distributed import Client
    except ImportError as error:
        message = f"--dask: {error} (pip install distributed)"
        raise de.EvaluationError(de.USAGE, message) from None
    logging.disable()  # distributed would print tracebacks on the screen
    with contextlib.ExitStack() as stack:
        try:
            client: Any = Client(  # type: ignore[no-untyped-call]
                arguments.dask, set_as_default=False, timeout=WORKER_TIMEOUT
            )
            stack.callback(client.close, timeout=5)
            client.wait_for_workers(1, timeout=WORKER_TIMEOUT)
            for path in (de.__file__, os.path.realpath(__file__)):
                client.upload_file(path)
            retire_dead_workers(client, arguments.docker)
        except (OSError, ValueError, futures.TimeoutError) as error:
            raise de.EvaluationError(de.ENGINE, f"--dask {arguments.dask}: {error}") from None

        def parallel() -> int:
            try:
                return sum(client.nthreads().values()) or 1
            except Exception as error:  # noqa: BLE001 - it has many
                message = f"the Dask scheduler is lost: {error}"
                raise de.EvaluationError(de.ENGINE, message) from None

        executor = client.get_executor(pure=False)
        yield Workers(
            submit=lambda options: executor.submit(evaluate_on_worker, batch, options),
            parallel=parallel,
            stop=lambda: client.run(stop, batch),
        )


def retire_dead_workers(client: Any, docker: str) -> None:
    """Retire the workers without an engine; raise EvaluationError if no other is left."""
    problems = client.run(engine_problem, docker)
    dead = [address for address, problem in problems.items() if problem]
    for address in dead:
        say(f"worker {address} is retired: {problems[address]}")
    client.retire_workers(dead)
    if len(dead) == len(problems):
        raise de.EvaluationError(de.ENGINE, "no worker has an engine")


# ---------------------------------------------------------------------------------------------
# Two rounds
# ---------------------------------------------------------------------------------------------


def score_of(report: de.Report) -> Score:
    """Return what is remembered of a report that has a score."""
    summary = report["summary"]
    error = report["error"]
    is_doubtful = (
        bool(error and not error["certain"])
        or report["environment"]["image_starts"] is False
        or any(row["status"] == de.TIMEOUT for row in report["test_results"])
    )
    return Score(
        part=summary["total_score"] / (summary["max_score"] or 1),
        is_built=not error,
        suspect=error and error["suspect"],
        may_improve=is_doubtful and not report.get("repeated"),
    )


class Batch:
    """Evaluates tasks in two rounds, and keeps the better report of each."""

    def __init__(self, benchmark: Benchmark, tasks: Sequence[Task]) -> None:
        self.id = os.urandom(8).hex()
        self.benchmark = benchmark
        self.tasks = tasks
        self.scores: dict[Task, Score] = {}  # of the reports for the same inputs
        self.failures: dict[Task, Outcome] = {}  # of tasks without one
        self.stops: list[int] = []  # signals; 0 for too many engine errors
        for task in tasks:
            options = benchmark.options(task)
            report = de.read_report(str(options.output))
            if report and benchmark.is_current(report, options):
                self.scores[task] = score_of(report)

    def run(self, workers: Workers) -> None:
        """Run both rounds; an interrupt ends what runs, and is in `stops`."""
        de.handle_signals(self._on_signal)
        due = [task for task in self.tasks if task not in self.scores]
        self._run_round(due, workers, is_repetition=False)
        due = [task for task in self.tasks if self._is_due_again(task)]
        if due and not self.stops:
            say(f"second round: {counted(due, 'Dockerfile')} once more, after all others")
            self._run_round(due, workers, is_repetition=True)

    def _on_signal(self, number: int, _frame: object) -> None:
        self.stops.append(number)
        _stopped.add(self.id)  # from now on none begins here; _results() interrupts what runs

    def _is_due_again(self, task: Task) -> bool:
        """Return whether the second round evaluates a task."""
        if self.benchmark.arguments.no_repeat:
            return False
        if task in self.scores:
            return self.scores[task].may_improve
        return self.failures[task].kind != de.USAGE if task in self.failures else True

    def _run_round(self, due: Sequence[Task], workers: Workers, *, is_repetition: bool) -> None:
        started = time.monotonic()
        done = again = engine_errors = 0
        for task, result in self._results(due, workers):
            if result.kind == de.INTERRUPTED:
                continue
            done += 1
            outcome = self.take(task, result, is_repetition=is_repetition)
            line = f"[{done}/{len(due)}] {task.name}: {describe(outcome)}"
            if not is_repetition and self._is_due_again(task):
                again += 1
                line += ", will be repeated"
            to_do = len(due) - done + again * len(due) / done  # of both rounds
            left = timedelta(seconds=int((time.monotonic() - started) / done * to_do))
            say(f"{line}, {left} left" if left else line)
            engine_errors = engine_errors + 1 if outcome.kind == de.ENGINE else 0
            if engine_errors >= MAX_FAILURES * workers.parallel() and not self.stops:
                say(f"stopped: the last {engine_errors} evaluations ended in engine errors")
                self.stops.append(0)

    def _results(self, due: Sequence[Task], workers: Workers) -> Iterator[tuple[Task, Outcome]]:
        """Yield each task with its outcome when it ends; after a stop only what has begun.

        A second stop makes the clean-up short, and nobody waits for Dask's workers any more.
        """
        running: dict[futures.Future[Outcome], Task] = {}
        waiting = iter(due)
        stops = 0
        while True:
            while stops < len(self.stops):
                stops += 1
                workers.stop()
            # Twice as many as can run, so that no worker waits for us.
            room = 0 if stops else max(2 * workers.parallel() - len(running), 0)
            for task in itertools.islice(waiting, room):
                options = self.benchmark.options(task)
                if task in self.scores:  # it may improve, but not from the cache
                    build_options = (*options.build_options, "--no-cache")
                    options = options._replace(build_options=build_options)
                running[workers.submit(options)] = task
            if not running or stops > 1:
                return
            ended = futures.wait(running, TICK, futures.FIRST_COMPLETED).done
            for future in [future for future in running if future in ended]:
                yield running.pop(future), outcome_of(future)

    def take(self, task: Task, outcome: Outcome, *, is_repetition: bool) -> Outcome:
        """Keep the better report of a task; return its outcome, or what went wrong here."""
        options = self.benchmark.options(task)
        report = outcome.report
        earlier = self.scores.get(task)
        score = None
        if report and de.is_scored(report):
            if self.benchmark.is_current(report, options):
                report["repeated"] = is_repetition
                score = score_of(report)
            else:
                message = "the files have changed, or the worker has others"
                report, outcome = None, Outcome(None, de.FILE, message)
        is_better = report and (not earlier or (score and score.part >= earlier.part))
        if report and is_better:
            problems = de.write_reports(report, options)
            if problems:
                outcome = Outcome(None, de.FILE, problems[0])
            elif score:
                self.scores[task] = score
        elif earlier:
            self._note_repetition(task, options)
        else:
            set_aside(str(options.output))
        self.failures[task] = outcome._replace(report=None)
        return outcome

    def _note_repetition(self, task: Task, options: de.Options) -> None:
        """Write into the report that stays that it has been repeated."""
        report = de.read_report(str(options.output))
        if report:
            de.write_reports({**report, "repeated": True}, options)
        self.scores[task] = self.scores[task]._replace(may_improve=False)


def outcome_of(future: futures.Future[Outcome]) -> Outcome:
    """Return the result of a future, also if the evaluation or its worker has died."""
    try:
        return future.result()
    except (Exception, futures.CancelledError) as error:  # noqa: BLE001 - whatever it was
        return Outcome(None, de.FILE, f"{type(error).__name__}: {error}")


def set_aside(path: str) -> None:
    """Keep a score for other inputs, but not as the report: it would count for the new ones."""
    if de.is_scored(de.read_report(path)):
        with contextlib.suppress(OSError):
            os.replace(path, f"{path}.previous")


# ---------------------------------------------------------------------------------------------
# Screen
# ---------------------------------------------------------------------------------------------


def say(text: str) -> None:
    """Print a line, if anybody reads it."""
    try:
        print(text, flush=True)
    except (OSError, ValueError):
        de.silence(sys.stdout)


def counted(things: Iterable[Any], noun: str) -> str:
    """Return a number with its noun."""
    count = len(list(things))
    return f"{count} {noun}{'s' * (count != 1)}"


def describe(outcome: Outcome) -> str:
    """Return how an evaluation ended, in one line."""
    if outcome.report is None:
        return de.printable(f"no report: {outcome.problem}")
    if outcome.kind in (de.BUILD, de.BUILD_TIMEOUT):
        return de.printable(f"build failed: {outcome.problem}")
    line = de.score_line(outcome.report)
    return de.printable(f"{line}: {outcome.problem}" if outcome.problem else line)


def by_model(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    """Return the tasks of each model, by a name that can be printed."""
    groups: dict[str, list[Task]] = collections.defaultdict(list)
    for task in tasks:
        groups[de.printable(task.model) or "(no model)"].append(task)
    return groups


def print_plan(batch: Batch, answers: Answers) -> None:
    """Print how many Dockerfiles each model has, and what is left out and why."""
    arguments = batch.benchmark.arguments
    groups = by_model(answers.tasks)
    for model, tasks in groups.items():
        resumed = sum(task in batch.scores for task in tasks)
        say(f"{model}: {counted(tasks, 'Dockerfile')}, {resumed} resumed")
    for problem, paths in answers.left_out.items():
        say(f"left out: {de.printable(problem)}: {de.quoted(paths)}")
    if answers.misfits and len(set(map(len, groups.values()))) > 1:
        say(f"like no --layout, and not evaluated: {de.quoted(answers.misfits)}")
    if arguments.list:
        counts: collections.Counter[str] = collections.Counter()
        for task in answers.tasks:
            counts.update(base_images(de.as_text(de.read_file(task.dockerfile))))
        for image, count in counts.most_common():
            say(f"base image {de.printable(image)}: {counted(range(count), 'Dockerfile')}")


def print_summary(batch: Batch) -> None:
    """Print what has no score and why, suspicious zeros, and the mean score of each model."""
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    suspects: dict[str, list[str]] = collections.defaultdict(list)
    for task in batch.tasks:
        score = batch.scores.get(task)
        if not score:
            failure = batch.failures.get(task)
            reasons[failure.problem if failure else "not evaluated"].append(task.name)
        elif score.suspect:
            suspects[score.suspect].append(task.name)
    for problem, names in reasons.items():
        say(f"no score: {de.printable(problem)}: {de.quoted(names, SHOWN_NAMES)}")
    for subject, names in suspects.items():
        zeros = counted(names, "suspicious zero")
        say(f"{zeros} ({subject}), please look: {de.quoted(names, SHOWN_NAMES)}")
    for model, tasks in by_model(batch.tasks).items():
        parts = [batch.scores[task].part for task in tasks if task in batch.scores]
        mean = f"mean score {de.percent(sum(parts), len(parts))}"
        words = [f"{mean} of {counted(parts, 'Dockerfile')}"] if parts else []
        if len(parts) < len(tasks):
            words.append(f"{len(tasks) - len(parts)} without a score")
        say(f"{model}: {', '.join(words)}")
    failed = sum(not score.is_built for score in batch.scores.values())
    more = f", {failed} of these by a failed build" if failed else ""
    say(f"{len(batch.scores)} of {len(batch.tasks)} Dockerfiles have a score{more}")


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options with their defaults; exit with 2 if they make no sense."""
    parser = de.Parser(
        prog="evaluate_all.py",
        description="Evaluate many Dockerfiles in parallel. Started again, it goes on.",
        epilog="Exit codes: 0 every Dockerfile has a score (that of a failed build is 0); 1 one "
        "has none, or was left out; 2 bad arguments; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.",
        allow_abbrev=False,
    )
    add = parser.add_argument_group("what is evaluated").add_argument
    text = "where the Dockerfiles are (default: artifacts)"
    add("--artifacts", metavar="DIR", default="artifacts", help=text)
    text = f"their paths there, * is any part of a name (default: {DEFAULT_LAYOUT}); repeatable"
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
        text = f"only these, such as --{name}='x*' (default: all); repeatable"
        add(f"--{name}", metavar="PATTERN", action="append", help=text)
    text = "only the Kth of N parts (default: 1/1)"
    add("--shard", metavar="K/N", type=_shard, default="1/1", help=text)
    group = parser.add_argument_group("how")
    add = group.add_argument
    add("--list", action="store_true", help="only print what there is to do; needs no engine")
    add("--no-repeat", action="store_true", help="without the second round")
    add = group.add_mutually_exclusive_group().add_argument
    text = f"evaluations at a time (default: the engine's processors, at most {MAX_PARALLEL})"
    add("--parallel", metavar="N", type=_positive, help=text)
    add("--dask", metavar="ADDRESS", help="use the workers of the cluster with this scheduler")
    de.add_run_options(parser.add_argument_group("options of each evaluation"))
    arguments = parser.parse_args(argv)
    arguments.layout_texts = arguments.layouts or [DEFAULT_LAYOUT]
    arguments.model = arguments.model or ["*"]
    arguments.repo = arguments.repo or ["*"]
    if arguments.checkouts is None and os.path.isdir("checkouts"):
        arguments.checkouts = "checkouts"
    try:
        arguments.layouts = [layout_pattern(text) for text in arguments.layout_texts]
        de.checked(common_options(arguments))
    except (argparse.ArgumentTypeError, ValueError) as error:
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
        raise argparse.ArgumentTypeError("expected a number over 0")
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
        de.print_errors([str(error)])
        return 2
    if not answers.tasks and not answers.left_out:
        layouts = de.quoted(arguments.layout_texts)
        hint = f"; a file there: {answers.misfits[0]}" if answers.misfits else ""
        de.print_errors([f"no file in {arguments.artifacts} is selected and like {layouts}{hint}"])
        return 1
    batch = Batch(benchmark, answers.tasks)
    print_plan(batch, answers)
    is_complete = not answers.left_out
    if arguments.list or not answers.tasks:
        return int(not is_complete)
    make_workers = dask_workers if arguments.dask else threads
    try:
        with make_workers(arguments, batch.id) as workers:
            batch.run(workers)
    except de.EvaluationError as error:  # no engine, or the cluster is lost
        de.print_errors([str(error)])
        is_complete = False
    print_summary(batch)
    number = next(filter(None, batch.stops), 0)
    if number:
        return 128 + number
    return int(not is_complete or len(batch.scores) < len(batch.tasks))


if __name__ == "__main__":
    import evaluate_all as this_module  # the name by which Dask workers import it

    raise SystemExit(this_module.main())
