#!/usr/bin/env python3
"""Evaluate many Dockerfiles in parallel, on this machine or on the workers of a Dask cluster.

    find_tasks() -> plan() -> Coordinator.run(): an executor calls run_task() for each job -> print_summary()

run_task() starts the evaluator in a process of its own, the coordinator writes MODEL/REPO.json (with Dask
also MODEL/REPO.log). Started again, it skips each Dockerfile that has a score for the same inputs.

Exit codes: 0 every Dockerfile has a scored report; 1 one has none; 2 usage error; 130 Ctrl-C (143 SIGTERM).
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any, Callable, Dict, Iterator, NamedTuple, Sequence

PROJECT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, PROJECT)

import DockerfileEvaluator as de  # noqa: E402, N813 - the project is on the path only now

LAYOUT = "{model}/{repo}.dockerfile"
INPUTS = ("build_options", "run_options", "build_timeout", "start_timeout", "jobs", "offline")
# Kinds of error whose reports have a score: none, and a failed build, which scores 0.
SCORED = ("", *(kind for kind, what in de.ERROR_KINDS.items() if what.has_score))
MAX_ENGINE_ERRORS = 5  # in a row, times the number of parallel evaluations; then the run stops
MAX_LOG = 1024 * 1024  # bytes at the end of a log that run_task() returns
DOCKER_TIMEOUT = 600.0  # seconds for a docker command
QUIET = 60.0  # seconds without output, after which a line shows the progress
NO_SUCH_IMAGE = re.compile(
    "not exist|manifest unknown|not found|denied|forbidden|not authorized|invalid ref"
)

Report = Dict[str, Any]  # as in rubrics/schema/report.schema.json
Options = argparse.Namespace  # as parse_arguments() returns them


# ---- Tasks: what there is to evaluate ----
class Task(NamedTuple):
    """One Dockerfile, the files of its evaluation, and where report and log go; `name` is MODEL/REPO."""

    repo: str
    model: str
    name: str
    dockerfile: str
    rubric: str
    context: str
    report: str
    log: str


def layout_pattern(layout: str) -> re.Pattern[str]:
    """Return the pattern of a --layout; raise ArgumentTypeError if it is none."""
    parts = re.split(r"(\{.*?\}|\*)", os.path.normpath(layout))
    fields = {"{model}": "(?P<model>[^/]+(?:/[^/]+)*)", "{repo}": "(?P<repo>[^/]+)", "*": "[^/]*"}
    if set(parts[1::2]) - set(fields) or parts.count("{repo}") != 1 or parts.count("{model}") > 1:
        raise argparse.ArgumentTypeError(f"expected {{repo}}, {{model}} and * in '{layout}'")
    return re.compile("".join(fields.get(part, re.escape(part)) for part in parts))


def files_below(folder: str) -> Iterator[str]:
    """Yield the files below a folder that are not hidden; follow links, except to a folder above the link."""
    for place, folders, names in os.walk(folder, followlinks=True):
        real = {
            name: os.path.realpath(os.path.join(place, name)) for name in folders if name[0] != "."
        }
        above = f"{os.path.realpath(place)}/"
        folders[:] = [name for name, path in real.items() if not above.startswith(f"{path}/")]
        yield from (os.path.join(place, name) for name in names if name[0] != ".")


def make_task(model: str, repo: str, dockerfile: str, options: Options) -> Task:
    """Return the task of a Dockerfile; without checkouts its own folder is the build context."""
    context = (
        os.path.join(options.checkouts, repo) if options.checkouts else os.path.dirname(dockerfile)
    )
    rubric, result = os.path.join(options.rubrics, repo), os.path.join(options.reports, model, repo)
    files = (
        dockerfile,
        f"{rubric}.json",
        os.path.normpath(context),
        f"{result}.json",
        f"{result}.log",
    )
    return Task(repo, model, de.printable(os.path.join(model, repo)), *files)


def find_tasks(options: Options) -> tuple[list[Task], dict[str, list[Task]]]:
    """Return the selected tasks, by repository and model, and those that are left out, by reason."""
    by_report: dict[str, list[Task]] = defaultdict(list)  # by the real path of the report
    for path in files_below(options.artifacts):
        place = os.path.relpath(path, options.artifacts)
        match = next(filter(None, (layout.fullmatch(place) for layout in options.layout)), None)
        if match:
            task = make_task(match.groupdict().get("model") or "", match["repo"], path, options)
            by_report[os.path.realpath(task.report)].append(task)
    by_problem: dict[str, list[Task]] = defaultdict(list)
    for task in sorted(
        task for group in by_report.values() for task in group if is_selected(task, options)
    ):
        same = by_report[os.path.realpath(task.report)]
        by_problem[
            f"{len(same)} would write {task.report}" if same[1:] else task_problem(task)
        ].append(task)
    if not by_problem and options.shard == "1/1":
        raise de.EvaluationError(f"no Dockerfile in {options.artifacts} is selected (see --layout)")
    return by_problem.pop("", []), by_problem


def is_selected(task: Task, options: Options) -> bool:
    """Check a task against --model, --repo and --shard."""
    part, parts = map(int, options.shard.split("/"))
    in_shard = (
        zlib.crc32(os.fsencode(os.path.relpath(task.report, options.reports))) % parts == part - 1
    )
    chosen = ((task.model, options.model or "*"), (task.repo, options.repo or "*"))
    return in_shard and all(
        any(fnmatch.fnmatchcase(name, one) for one in some) for name, some in chosen
    )


def task_problem(task: Task) -> str:
    """Return why a task cannot be evaluated, or ""."""
    if not os.path.isdir(task.context):
        return f"no build context: the folder {task.context} does not exist"
    try:
        base_images(task)
        de.load_rubric(task.rubric)
    except (OSError, de.EvaluationError) as error:
        return str(error).splitlines()[0]
    return ""


def base_images(task: Task) -> list[str]:
    """Return the images in FROM lines of a Dockerfile, except in lines with flags or variables."""
    images, stages = set(), {"scratch"}
    with open(task.dockerfile, encoding="utf-8", errors="replace") as file:
        text = file.read()
    for line in re.finditer(
        r"(?im)(?<!\\\n)^[ \t]*FROM[ \t]+(\S.*?)(?:[ \t]+AS[ \t]+(\S+))?[ \t]*$", text
    ):
        if re.fullmatch(r"[^\s$-][^\s$]*", line[1]) and line[1].lower() not in stages:
            images.add(line[1])
        stages.add((line[2] or "scratch").lower())
    return sorted(images)


# ---- One evaluation, on this machine or on a worker ----
_running: dict[
    subprocess.Popen[bytes], tuple[str, str, float]
] = {}  # run, task, start (time.monotonic())
_interrupted: set[str] = set()  # runs


def call(
    argv: Sequence[str], run: str, task_name: str = "", stderr: Any = None
) -> tuple[int, bytes, str]:
    """Run the evaluator for a task, or docker; return exit code, stdout, and stderr as one line."""
    pipes: Any = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": stderr or subprocess.PIPE,
    }
    process = subprocess.Popen(argv, start_new_session=True, **pipes)  # no Ctrl-C from the terminal
    _running[process] = (run, task_name, time.monotonic())
    if run in _interrupted:
        process.send_signal(signal.SIGINT)
    try:
        output, errors = process.communicate(timeout=None if task_name else DOCKER_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()[0], b"timed out"
    del _running[process]
    return process.returncode, output, " ".join((errors or b"").decode(errors="replace").split())


def interrupt(run: str) -> None:
    """Interrupt the processes of a run in this Python process, now and those started later."""
    _interrupted.add(run)
    for process in [process for process, (owner, _, _) in list(_running.items()) if owner == run]:
        process.send_signal(signal.SIGINT)


def run_task(task: Task, options: Options, log_path: str | None = None) -> tuple[Report, str]:
    """Evaluate a Dockerfile; return report and log, which grows in `log_path`; or raise EvaluationError."""
    problems = [
        pull(image, options.docker, options.run_id) for image in base_images(task) if options.pull
    ]
    if any(problems):
        raise de.EvaluationError("; ".join(filter(None, problems)), "pull")
    argv = [
        sys.executable,
        os.path.join(PROJECT, "DockerfileEvaluator.py"),
        "--verbose",
        "--output=-",
    ]
    argv += [
        f"--{name}={getattr(task, name)}" for name in ("dockerfile", "repo", "rubric", "context")
    ]
    argv += [f"--build-timeout={options.build_timeout}", f"--start-timeout={options.start_timeout}"]
    argv += [
        f"--jobs={options.jobs}",
        f"--docker={options.docker}",
        *["--offline"] * options.offline,
    ]
    argv += [f"--build-option={option}" for option in options.build_options]
    argv += [f"--run-option={option}" for option in options.run_options]
    with open(log_path, "a+b") if log_path else tempfile.TemporaryFile() as file:
        code, output, _ = call(argv, options.run_id, task.name, file)
        file.seek(max(file.seek(0, os.SEEK_END) - MAX_LOG, 0))
        log = file.read().decode(errors="replace")
    try:
        report: Report = json.loads(output)
    except ValueError:
        raise de.EvaluationError(
            f"no report, exit code {code}: {de.last_line(log)}", "engine"
        ) from None
    report["warnings"] += filter(None, [prune(options)])
    return report, log


@functools.lru_cache(maxsize=None)
def pull(image: str, docker: str, run: str, pauses: Sequence[float] = (5.0, 10.0, 0.0)) -> str:
    """Pull an image that the engine lacks, once before each pause (in seconds); return the problem, or ""."""
    code, _, problem = call([docker, "image", "inspect", image], run)
    for pause in pauses if code else ():
        code, _, problem = call([docker, "pull", image], run)
        if code == 0 or run in _interrupted or NO_SUCH_IMAGE.search(problem.replace(image, "")):
            return ""  # the build decides
        time.sleep(pause)
    return f"base image {image} cannot be pulled: {problem}" if code else ""


def prune(options: Options) -> str:
    """Reduce BuildKit's cache to the size of --build-cache, if given; return the problem, or ""."""
    argv = [
        options.docker,
        "builder",
        "prune",
        "--force",
        "--keep-storage",
        str(options.build_cache),
    ]
    code, _, problem = call(argv, options.run_id) if options.build_cache else (0, b"", "")
    return f"docker builder prune: {problem}" if code else ""


# ---- The run: what is evaluated, and what follows ----
class Job(NamedTuple):
    """An evaluation. A repetition checks a bad score, without cache; a retry follows an error."""

    task: Task
    is_repetition: bool = False
    is_retry: bool = False


def next_job(job: Job, report: Report, options: Options) -> Job | None:
    """Return the next job of a task: a retry after an engine or registry error, a repetition, or None."""
    kind = report["error"]["kind"] if report["error"] else ""
    may_pass = kind in de.ERROR_KINDS and de.ERROR_KINDS[kind].may_pass
    if may_pass and not job.is_retry:  # "interrupted": by others
        return job._replace(is_retry=True)
    if kind not in SCORED or options.no_repeat or report.get("repeated"):
        return None
    timed_out = any(row["status"] == "timeout" for row in report["test_results"])
    is_doubtful = kind or timed_out or report["environment"]["image_starts"] is False
    return Job(job.task, is_repetition=True) if is_doubtful else None


def plan(tasks: Sequence[Task], options: Options) -> tuple[list[Job], dict[Task, Report]]:
    """Return the jobs to run, and the earlier reports that have a score for the same inputs."""
    inputs = {name: getattr(options, name) for name in INPUTS}
    jobs, results = [], {}
    for task in tasks:
        job: Job | None = Job(task)
        with suppress(OSError, ValueError), open(task.report, encoding="utf-8") as file:
            report = json.load(file)
            files = (task.dockerfile, task.repo, task.rubric)
            if not options.fresh and de.matches(report, *files, context=task.context, **inputs):
                results[task] = {"summary": report["summary"], "error": report["error"]}
                if not (options.retry_failed and report["error"]):
                    job = next_job(Job(task), report, options)
        jobs.extend([job] if job else [])
    return jobs, results


class Coordinator:
    """Runs jobs on an executor, writes what they return, and decides what follows."""

    def __init__(self, options: Options, results: dict[Task, Report]) -> None:  # noqa: D107
        self.options, self.results, self.signal = options, results, 0
        self.problems: dict[Task, str] = {}  # why a task has no score, or no repetition
        self._pending: dict[Future[tuple[Report, str]], Job] = {}
        self._engine_errors, self._stop_reason = 0, ""  # errors in a row
        self._clear, self._printed = "\r\x1b[K" if sys.stdout.isatty() else "", time.monotonic()

    def run(self, jobs: Sequence[Job]) -> None:
        """Run jobs and what follows from them; raise EvaluationError if the engine does not work."""
        self._total, self._started = len(jobs), time.monotonic()
        with ExitStack() as stack:
            self._executor, self._parallel, self._interrupt = connect(self.options, stack)
            for task in [
                job.task for job in jobs if self.options.fresh and os.path.exists(job.task.report)
            ]:
                os.unlink(task.report)
            try:
                for job in sorted(jobs, key=self._rank):
                    self._submit(job)
                while self._pending:
                    for future in wait(self._pending, 1.0, FIRST_COMPLETED).done:
                        self._finish(self._pending.pop(future), future)
                    if self.signal:
                        self._stop("interrupted")
                    self._show_progress()
            finally:
                self._stop("unexpected error")  # otherwise the executor would first run all jobs

    def _rank(self, job: Job) -> tuple[bool, bool]:
        """Return a sort key: images on the engine first, then images to pull, repetitions last."""
        images = base_images(job.task) if self.options.pull else []
        return job.is_repetition, any(
            pull(it, self.options.docker, self.options.run_id, ()) for it in images
        )

    def on_signal(self, number: int, _frame: object) -> None:
        """Stop after the first signal, exit immediately at the second."""
        if self.signal:
            os._exit(128 + self.signal)
        self.signal = number

    def _submit(self, job: Job) -> None:
        """Put a job at the end of the executor's queue."""
        options = Options(**vars(self.options))
        options.build_options = [*options.build_options, *["--no-cache"] * job.is_repetition]
        os.makedirs(os.path.dirname(job.task.report), exist_ok=True)
        log_path = None if options.dask else job.task.log
        self._pending[self._executor.submit(run_task, job.task, options, log_path)] = job

    def _finish(self, job: Job, future: Future[tuple[Report, str]]) -> None:
        """Write the report, submit the job that follows, print a line."""
        task, error = (
            job.task,
            OSError("scheduler lost") if future.cancelled() else future.exception(),
        )
        message = str(error).partition("\n")[0]
        failure: Report = {"error": {"kind": getattr(error, "kind", "engine"), "message": message}}
        report, log = (failure, "") if error else future.result()
        kind, words = report["error"]["kind"] if report["error"] else "", describe(report)
        if self._stop_reason and (error or kind == "interrupted"):
            return
        self.problems[task] = "" if kind in SCORED else words
        if kind in SCORED:
            report.update({"repeated": True} if job.is_repetition else {})
            self.results[task] = {"summary": report["summary"], "error": report["error"]}
        if kind in SCORED or not (
            error or task in self.results
        ):  # an error never overwrites a score
            de.write_file(task.report, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        elif task not in self.results and os.path.exists(task.report):
            os.unlink(task.report)  # of other inputs
        if log and self.options.dask:
            de.write_file(task.log, log, append=True)
        following = None if self._stop_reason else next_job(job, report, self.options)
        if following:
            self._submit(following)
            words += ", to be repeated" if kind in SCORED else ", to be tried again"
        self._line(f"[{self._total - len(self._pending)}/{self._total}] {task.name}: {words}")
        self._engine_errors = (
            self._engine_errors + (kind == "engine") if kind in ("engine", "pull") else 0
        )
        if self._engine_errors >= MAX_ENGINE_ERRORS * self._parallel:
            self._stop(f"the last {self._engine_errors} evaluations ended in engine errors")

    def _stop(self, reason: str) -> None:
        """Start nothing more, and interrupt the running evaluations, which clean up."""
        if self._pending and not self._stop_reason:
            self._stop_reason = reason
            self._interrupt()
            self._pending = {
                future: job for future, job in self._pending.items() if not future.cancel()
            }
            self._line(f"{reason}: the running evaluations clean up")

    def _line(self, text: str) -> None:
        """Print a line in place of the progress bar."""
        print(f"{self._clear}{text}", flush=True)
        self._printed = time.monotonic()

    def _show_progress(self) -> None:
        """Draw a progress bar on a terminal; elsewhere print a line after QUIET seconds without one."""
        now, left = time.monotonic(), len(self._pending)
        done, failed = (
            self._total - left,
            sum(bool(result["error"]) for result in self.results.values()),
        )
        text = f"{done}/{self._total}, {failed} failed builds"
        text += (
            f", {timedelta(seconds=int((now - self._started) / done * left))} left" if done else ""
        )
        for start, name in sorted(
            (start, name) for _, name, start in list(_running.values()) if name
        )[:1]:
            text += f"; {name} has been running for {timedelta(seconds=int(now - start))}"
        if self._clear:
            bar = f"[{'#' * (20 * done // self._total):.<20}] {text}"[
                : os.get_terminal_size().columns - 1
            ]
            print(f"{self._clear}{bar if left else ''}", end="", flush=True)
        elif now - self._printed > QUIET:
            self._line(text)


def connect(options: Options, stack: ExitStack) -> tuple[Executor, int, Callable[[], object]]:
    """Return an executor, how many evaluations it runs in parallel, and a function that interrupts these."""
    if options.dask:
        client: Any = stack.enter_context(
            importlib.import_module("distributed").Client(options.dask)
        )
        stop = functools.partial(client.run, interrupt, options.run_id, on_error="ignore")
        return client.get_executor(pure=False), max(sum(client.nthreads().values()), 1), stop
    _, output, problem = call([options.docker, "info", "--format", "{{json .}}"], options.run_id)
    info = json.loads(output or "{}")
    processors = info.get("NCPU") or info.get("host", {}).get(
        "cpus"
    )  # docker's name, podman's name
    problem = (
        prune(options)
        if processors
        else "docker info: " + (info.get("ServerErrors") or [problem])[0]
    )
    if problem:
        raise de.EvaluationError(problem)
    parallel = options.parallel or min(processors, 8)
    stop = functools.partial(interrupt, options.run_id)
    return stack.enter_context(ThreadPoolExecutor(parallel)), parallel, stop


# ---- Command line ----
def describe(report: Report) -> str:
    """Return the result of an evaluation in one line."""
    if report["error"]:
        kind, message = report["error"]["kind"], de.printable(report["error"]["message"], 300)
        return f"build failed: {message}" if kind in SCORED else f"{kind} error: {message}"
    summary, build_time = report["summary"], report["build"]["execution_time"]
    score = de.percent(summary["total_score"], summary["max_score"])
    times = f"build {build_time:.0f} s, tests {summary['total_execution_time']:.0f} s"
    return f"{summary['passed_tests']} of {summary['total_tests']} tests, {score} ({times})"


def print_plan(tasks: Sequence[Task], jobs: Sequence[Job], left_out: dict[str, list[Task]]) -> None:
    """Print the Dockerfiles of each model and base image, and what is left out."""
    planned = Counter(job.task.model for job in jobs)
    for model, count in sorted(Counter(task.model for task in tasks).items()):
        print(f"{de.printable(model)}: {count} Dockerfiles, {count - planned[model]} resumed")
    for image, count in Counter(
        image for task in tasks for image in base_images(task)
    ).most_common():
        print(f"base image {de.printable(image)}: {count} Dockerfiles")
    for problem, group in left_out.items():
        files = (de.printable(task.dockerfile) for task in group)
        print(f"left out: {de.printable(problem, 400)}", *files, sep="\n  ")


def print_summary(
    tasks: Sequence[Task], results: dict[Task, Report], problems: dict[Task, str]
) -> None:
    """Print the counts, what has no result and why, and the mean score of each model."""
    failed = sum(bool(result["error"]) for result in results.values())
    print(
        f"{len(results)} of {len(tasks)} Dockerfiles have a score, {failed} of these a failed build"
    )
    reasons: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        if problems.get(task) or task not in results:
            label = "not repeated" if task in results else "no score"
            reasons[f"{label}: {problems.get(task, 'not evaluated')}"].append(task.name)
    for reason, names in reasons.items():
        print(f"{de.printable(reason, 400)}: {de.quoted_list(names, '', 50)}")
    for model in sorted({task.model for task in tasks}):
        summaries = [
            results[task]["summary"] for task in tasks if task.model == model and task in results
        ]
        total = sum(summary["total_score"] / (summary["max_score"] or 1) for summary in summaries)
        mean = de.percent(total, len(summaries))
        print(f"{de.printable(model)}: mean score {mean} of {len(summaries)} reports")


def parse_arguments(argv: Sequence[str] | None = None) -> Options:
    """Return the options with their defaults; exit with 2 if they make no sense."""
    parser = argparse.ArgumentParser(
        "evaluate_all", None, str(__doc__).splitlines()[0], allow_abbrev=False
    )
    parser.usage = "evaluate_all.py [OPTION]…"
    add = parser.add_argument
    for name, text in {
        "artifacts": "Dockerfiles",
        "rubrics": "rubrics",
        "reports": "reports",
    }.items():
        add(
            f"--{name}", metavar="DIR", default=name, help=f"folder of the {text} (default: {name})"
        )
    add(
        "--checkouts",
        metavar="DIR",
        help="folder of the build contexts (default: checkouts, if it exists)",
    )
    add(
        "--layout",
        action="append",
        type=layout_pattern,
        help=f"paths in it; repeatable (default: {LAYOUT})",
    )
    for name in ("model", "repo"):
        add(
            f"--{name}",
            metavar="PATTERN",
            action="append",
            help=f"{name}s by shell pattern; repeatable",
        )
    add("--shard", metavar="K/N", default="1/1", help="only the Kth of N parts")
    add(
        "--parallel",
        metavar="N",
        type=int,
        help="evaluations in parallel (default: processors, at most 8)",
    )
    add("--dask", metavar="ADDRESS", help="evaluate on the workers of this Dask scheduler")
    add("--list", action="store_true", help="print the plan only")
    add("--fresh", action="store_true", help="evaluate everything again")
    add("--retry-failed", action="store_true", help="evaluate failed builds again")
    add("--no-repeat", action="store_true", help="never repeat an evaluation")
    add("--pull", action="store_true", help="pull missing base images before the builds")
    add(
        "--build-cache",
        metavar="SIZE",
        help="prune BuildKit's cache to this size after each evaluation",
    )
    add("--build-timeout", metavar="S", type=float, default=3600.0, help="seconds (default: 3600)")
    add("--start-timeout", metavar="S", type=float, default=120.0, help="seconds (default: 120)")
    add(
        "--jobs",
        metavar="N",
        type=int,
        default=1,
        help="parallel commands in one evaluation (default: 1)",
    )
    for step in ("build", "run"):
        text = f"an argument of docker {step}; repeatable"
        add(
            f"--{step}-option",
            dest=f"{step}_options",
            metavar="OPT",
            action="append",
            default=[],
            help=text,
        )
    add("--offline", action="store_true", help="count a missing base image as a failed build")
    add(
        "--docker",
        metavar="PROGRAM",
        default="docker",
        help="docker-compatible CLI (default: docker)",
    )
    options = parser.parse_args(argv)
    try:  # checks the options only: there is no report
        de.matches(
            {}, os.devnull, "none", os.devnull, **{name: getattr(options, name) for name in INPUTS}
        )
    except ValueError as error:
        parser.error(str(error))
    part = re.fullmatch("([1-9][0-9]*)/([1-9][0-9]*)", options.shard)
    if (
        not part
        or int(part[1]) > int(part[2])
        or (options.parallel is not None and options.parallel < 1)
    ):
        parser.error(
            "--shard: expected K/N with K from 1 to N; --parallel: expected a number over 0"
        )
    if options.dask and (options.pull or options.parallel):
        parser.error("--dask: not with --pull or --parallel")
    options.layout = options.layout or [layout_pattern(LAYOUT)]
    options.checkouts = options.checkouts or ("checkouts" if os.path.isdir("checkouts") else None)
    options.run_id = os.urandom(8).hex()
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = parse_arguments(argv)
    try:
        tasks, left_out = find_tasks(options)
        jobs, results = plan(tasks, options)
        print_plan(tasks, jobs, left_out)
        if options.list:
            return 1 if left_out else 0
        run = Coordinator(options, results)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, run.on_signal)
        if jobs:
            run.run(jobs)
        print_summary(tasks, results, run.problems)
    except (de.EvaluationError, OSError, ValueError, ImportError) as error:
        print(f"error: {de.printable(str(error), 500)}", file=sys.stderr)
        return 1
    return 128 + run.signal if run.signal else 1 if left_out or len(results) < len(tasks) else 0


if __name__ == "__main__":
    import evaluate_all  # the name by which Dask workers import it

    raise SystemExit(evaluate_all.main())
