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
import signal
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

    share: float  # of the points, from 0 to 1
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
        common: de.Options = given.common
        mine = f"--build-arg=BUILDKIT_CACHE_MOUNT_NS={namespace}"
        return common._replace(
            dockerfile=task.dockerfile,
            repo=task.repo,
            rubric=os.path.join(given.rubrics, f"{task.repo}.json"),
            output=os.path.join(given.reports, task.model, f"{task.repo}.json"),
            context=os.path.join(given.checkouts, task.repo) if given.checkouts else folder,
            overlay=folder if given.overlay else None,
            build_options=(*common.build_options, mine),
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


COMMON = ("build_timeout", "start_timeout", "build_options", "run_options", "docker", "offline")


def common_options(arguments: argparse.Namespace) -> de.Options:
    """Return the options that are the same for all evaluations; raise ValueError."""
    return de.checked(de.Options("", "", **{name: getattr(arguments, name) for name in COMMON}))


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
    places = set()
    for path, match in files_below(arguments.artifacts, arguments.layouts, answers.left_out):
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
        if task[:2] in places:
            problem = "another Dockerfile has the same model and repository"
        places.add(task[:2])
        if problem:
            answers.left_out[problem].append(path)
        else:
            answers.tasks.append(task)
    return answers


def unusable(benchmark: Benchmark, task: Task) -> str:
    """Return why a task cannot be evaluated, or ""."""
    options = benchmark.options(task)
    if os.path.abspath(str(options.output)) == os.path.abspath(str(options.rubric)):
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

    Not yielded is what is hidden, what is in a folder `checkouts`, and what is in a folder inside
    an answer of several files. A link to a folder is followed, unless the folder was there before.
    Folders that cannot be read are added to `left_out`.
    """

    def unreadable(error: OSError) -> None:
        left_out[str(error.strerror)].append(str(error.filename))

    seen = set()
    for place, folders, files in os.walk(folder, onerror=unreadable, followlinks=True):
        names = [name for name in sorted(folders) if name[0] != "." and name != "checkouts"]
        folders.clear()
        if os.path.realpath(place) in seen:
            continue
        seen.add(os.path.realpath(place))
        is_answer = False  # the folder as a whole
        for name in sorted(name for name in files if name[0] != "."):
            path = os.path.join(place, name)
            relative = os.path.relpath(path, folder)
            match = next(filter(None, (layout.fullmatch(relative) for layout in layouts)), None)
            after_names = relative[match.end(match.lastindex or 0) :] if match else ""
            if "/" in after_names:
                is_answer = True
            if os.path.isfile(path):
                yield path, match
            elif match:  # a pipe would block
                left_out["no regular file"].append(path)
        if not is_answer:  # links last: the folder itself comes first
            names.sort(key=lambda name: os.path.islink(os.path.join(place, name)))
            folders.extend(names)


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

# The signals of each batch, which all its evaluations on this machine share. A Dask worker gets
# this module once more from each command that uses the cluster, and must not forget what runs.
_signals: dict[str, list[int]] = globals().get("_signals", {})


def signals_of(batch_id: str) -> list[int]:
    """Return the list to which a signal for the evaluations of a batch is appended."""
    return _signals.setdefault(batch_id, [])


def interrupt(batch_id: str) -> None:
    """Interrupt the evaluations of a batch on this machine: those that run, and later ones."""
    signals_of(batch_id).append(signal.SIGINT)


def engine_problem(docker: str) -> str:
    """Return why this machine cannot evaluate, or ""."""
    try:
        de.Docker(docker).connect()
    except de.EvaluationError as error:
        return str(error)
    return ""


def evaluate_task(batch_id: str, options: de.Options) -> Outcome:
    """Evaluate a Dockerfile; what the evaluator prints is appended to a log beside the report.

    It waits for an engine that is away, so that a machine without one does not swallow the queue.
    """
    docker = de.Docker(options.docker)
    docker.signals = signals_of(batch_id)
    log = f"{os.path.splitext(str(options.output))[0]}.log"
    try:
        docker.connect(de.RECOVERY_TIMEOUT)
        inputs = de.read_inputs(options)
        with open(log, "a", encoding="utf-8", errors="backslashreplace") as stream:
            report = de.run_evaluation(options, inputs, docker, de.Console(stream, verbose=True))
    except de.EvaluationError as error:
        return Outcome(None, error.kind, str(error))
    if report["error"]:
        return Outcome(report, report["error"]["kind"], report["error"]["message"])
    return Outcome(report)


def evaluate_on_worker(batch_id: str, options: de.Options) -> Outcome:
    """Evaluate a Dockerfile on a Dask worker, whose name is in the message of an engine error."""
    from distributed import get_worker

    outcome = evaluate_task(batch_id, options)
    if outcome.kind != de.ENGINE:
        return outcome
    return outcome._replace(problem=f"worker {get_worker().name}: {outcome.problem}")


# ---------------------------------------------------------------------------------------------
# Where evaluations run
# ---------------------------------------------------------------------------------------------


class Workers(NamedTuple):
    """Threads of this process, or the workers of a Dask cluster. All raise EvaluationError."""

    submit: Callable[[de.Options], futures.Future[Outcome]]
    parallel: Callable[[], int]  # evaluations that run at a time
    interrupt: Callable[[], Any]


@contextlib.contextmanager
def threads(arguments: argparse.Namespace, batch_id: str) -> Iterator[Workers]:
    """Yield threads of this process; raise EvaluationError if no engine answers."""
    facts = de.engine_facts(de.Docker(arguments.docker))
    parallel: int = arguments.parallel or min(facts["engine_cpus"] or 1, MAX_PARALLEL)
    with futures.ThreadPoolExecutor(parallel) as pool:
        yield Workers(
            submit=lambda options: pool.submit(evaluate_task, batch_id, options),
            parallel=lambda: parallel,
            interrupt=lambda: None,  # they share the signals of this process
        )


@contextlib.contextmanager
def dask_workers(arguments: argparse.Namespace, batch_id: str) -> Iterator[Workers]:
    """Yield the workers of a cluster; raise EvaluationError if there are none, or it is lost."""
    try:
        from distributed import Client
    except ImportError as error:
        message = f"--dask: {error} (pip install distributed)"
        raise de.EvaluationError(de.USAGE, message) from None
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
        ask(retire_dead_workers, client, arguments.docker)
        executor = client.get_executor(pure=False)
        yield Workers(
            submit=lambda options: ask(executor.submit, evaluate_on_worker, batch_id, options),
            parallel=lambda: sum(ask(client.nthreads).values()) or 1,
            interrupt=lambda: ask(client.run, interrupt, batch_id),
        )
    finally:
        client.close(timeout=5)


def retire_dead_workers(client: Any, docker: str) -> None:
    """Retire the workers without an engine; raise RuntimeError if no other is left."""
    problems = client.run(engine_problem, docker)
    dead = [address for address, problem in problems.items() if problem]
    for address in dead:
        say(f"worker {address} is retired: {problems[address]}")
    client.retire_workers(dead)
    if len(dead) == len(problems):
        raise RuntimeError("no worker has an engine")


# ---------------------------------------------------------------------------------------------
# Two rounds
# ---------------------------------------------------------------------------------------------


def score_of(report: de.Report) -> Score:
    """Return what is remembered of a report that has a score."""
    summary = report["summary"]
    error = report["error"]
    is_doubtful = (
        bool(error and not error.get("certain"))
        or report["environment"]["image_starts"] is False
        or any(row["status"] == de.TIMEOUT for row in report["test_results"])
    )
    return Score(
        share=summary["total_score"] / (summary["max_score"] or 1),
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
        self.outcomes: dict[Task, Outcome] = {}  # of this run, without the reports
        self.signals = signals_of(self.id)  # all that ends it; 0 stands for engine errors
        for task in tasks:
            options = benchmark.options(task)
            report = de.read_report(str(options.output))
            if report and benchmark.is_current(report, options):
                self.scores[task] = score_of(report)

    def run(self, workers: Workers) -> None:
        """Run both rounds; an interrupt ends what runs, and is in `signals`."""
        de.handle_signals(lambda number, _frame: self.signals.append(number))
        due = [task for task in self.tasks if task not in self.scores]
        self._run_round(due, workers, is_last=False)
        again = [task for task in self.tasks if self._is_due_again(task)]
        if again and not self.signals:
            say(f"second round: {counted(len(again), 'Dockerfile')} once more, after all others")
            self._run_round(again, workers, is_last=True)

    def _is_due_again(self, task: Task) -> bool:
        """Return whether the second round evaluates a task."""
        if self.benchmark.arguments.no_repeat:
            return False
        if task in self.scores:
            return self.scores[task].may_improve
        outcome = self.outcomes.get(task)
        return not outcome or outcome.kind != de.USAGE

    def _run_round(self, due: Sequence[Task], workers: Workers, *, is_last: bool) -> None:
        again = sum(map(self._is_due_again, self.scores))
        started = time.monotonic()
        done = engine_errors = 0
        for task, result in self._results(due, workers):
            if result.kind == de.INTERRUPTED:
                continue
            done += 1
            outcome = self.take(task, result)
            line = f"[{done}/{len(due)}] {task.name}: {describe(outcome)}"
            to_do = len(due) - done
            if not is_last:
                is_due_again = self._is_due_again(task)
                again += is_due_again
                to_do += again
                line += ", will be repeated" * is_due_again
            left = timedelta(seconds=int((time.monotonic() - started) / done * to_do))
            say(f"{line}, {left} left" if left else line)
            is_of_machine = outcome.kind in (de.ENGINE, de.FILE)
            engine_errors = engine_errors + 1 if is_of_machine else 0
            if not self.signals and engine_errors >= MAX_FAILURES * workers.parallel():
                say(f"stopped: the last {engine_errors} evaluations failed on this machine")
                self.signals.append(0)

    def _results(self, due: Sequence[Task], workers: Workers) -> Iterator[tuple[Task, Outcome]]:
        """Yield each task with its outcome when it ends; after a stop only what has begun.

        After a second stop the clean-up is short, and nobody waits for it.
        """
        running: dict[futures.Future[Outcome], Task] = {}
        waiting = iter(due)
        passed_on = 0
        while True:
            while passed_on < len(self.signals):
                passed_on += 1
                workers.interrupt()
            # Twice as many as can run, so that no worker waits for us.
            room = 0 if self.signals else max(2 * workers.parallel() - len(running), 0)
            for task in itertools.islice(waiting, room):
                options = self.benchmark.options(task)
                if task in self.scores:  # it may improve, but not from the cache
                    build_options = (*options.build_options, "--no-cache")
                    options = options._replace(build_options=build_options)
                running[workers.submit(options)] = task
            if not running or passed_on > 1:
                return
            ended = futures.wait(running, TICK, futures.FIRST_COMPLETED).done
            for future in [future for future in running if future in ended]:
                yield running.pop(future), outcome_of(future)

    def take(self, task: Task, outcome: Outcome) -> Outcome:
        """Keep the better report of a task; return its outcome, or what went wrong here."""
        options = self.benchmark.options(task)
        path = str(options.output)
        earlier = self.scores.get(task)
        report = outcome.report
        score = None
        if report and de.is_scored(report):
            if self.benchmark.is_current(report, options):
                report["repeated"] = earlier is not None
                score = score_of(report)
            else:
                message = "the files have changed, or the worker has others"
                report, outcome = None, Outcome(None, de.FILE, message)
        if earlier and (not score or score.share < earlier.share):  # the earlier report stays
            stays = de.read_report(path)
            report = stays and {**stays, "repeated": True}
            score = earlier._replace(may_improve=False)
        problems = de.write_reports(report, options) if report else []
        if problems:
            outcome = Outcome(None, de.FILE, problems[0].replace(f"{path}: ", ""))
        elif score:
            self.scores[task] = score
        if not earlier and (problems or not report):
            de.keep_previous(path)  # a score for other inputs would count for the new ones
        self.outcomes[task] = outcome._replace(report=None)
        return outcome


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


def say(text: str) -> None:
    """Print a line, if anybody reads it."""
    de.Console(sys.stdout).line(text)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun."""
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
    for model, tasks in by_model(answers.tasks).items():
        resumed = sum(task in batch.scores for task in tasks)
        say(f"{model}: {counted(len(tasks), 'Dockerfile')}, {resumed} resumed")
    for problem, paths in answers.left_out.items():
        say(f"left out: {de.printable(problem)}: {de.quoted(paths)}")
    if answers.misfits:
        say(f"like no --layout: {de.quoted(answers.misfits)}")
    if not batch.benchmark.arguments.checkouts:
        say("build contexts: the folders of the Dockerfiles (see --checkouts)")


def print_images(tasks: Iterable[Task]) -> None:
    """Print the images to pull, the most frequent ones first."""
    files = (de.parse_dockerfile(de.read_file(task.dockerfile)) for task in tasks)
    counts = collections.Counter(
        image for file in files for image in {need.image for need in de.needed_images(file, ())}
    )
    for image, count in counts.most_common():
        say(f"image {de.printable(image)}: {counted(count, 'Dockerfile')}")


def print_summary(batch: Batch) -> None:
    """Print what has no score and why, suspicious zeros, and the mean score of each model."""
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    suspects: dict[str, list[str]] = collections.defaultdict(list)
    for task in batch.tasks:
        score = batch.scores.get(task)
        if not score:
            outcome = batch.outcomes.get(task)
            reasons[outcome.problem if outcome else "not evaluated"].append(task.name)
        elif score.suspect:
            suspects[score.suspect].append(task.name)
    for problem, names in reasons.items():
        say(f"no score: {de.printable(problem)}: {de.quoted(names, SHOWN_NAMES)}")
    for subject, names in suspects.items():
        zeros = counted(len(names), "suspicious zero")
        say(f"{zeros} ({subject}), please look: {de.quoted(names, SHOWN_NAMES)}")
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
        description="Evaluate many Dockerfiles in parallel. Started again, it goes on.",
        epilog="Exit codes: 0 every Dockerfile has a score (that of a failed build is 0); 1 one "
        "has none, or was left out; 2 bad arguments; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.",
        allow_abbrev=False,
    )
    add = parser.add_argument_group("what is evaluated").add_argument
    text = "where the Dockerfiles are (default: artifacts)"
    add("--artifacts", metavar="DIR", default="artifacts", help=text)
    text = "their paths there; {model} may be several folders, * is any part of a name "
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
        arguments.common = common_options(arguments)
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
    if arguments.list:
        print_images(answers.tasks)
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
    number = next(filter(None, batch.signals), 0)
    if number:
        return 128 + number
    return int(not is_complete or len(batch.scores) < len(batch.tasks))


if __name__ == "__main__":
    import evaluate_all as this_module  # the name by which Dask workers import it

    raise SystemExit(this_module.main())
