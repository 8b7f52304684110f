#!/usr/bin/env python3
"""Evaluate many Dockerfiles in parallel, on this machine or on the workers of a Dask cluster.

    find_tasks()      the Dockerfiles, each with its rubric, build context and report
    plan()            what is to be evaluated, and the scores that exist already
    Coordinator.run() gives each evaluation to an executor, and writes the report that comes back
    print_summary()

The executor calls run_task() in a thread of this process, or on a worker. It starts the evaluator
in a process of its own. The table FOLLOWS says what happens to its result.

On a cluster: `dask scheduler` on HOST; `dask worker tcp://HOST:8786` on each machine with an engine
and the build contexts; then `evaluate_all.py --dask tcp://HOST:8786`.

Exit codes: 0 every Dockerfile has a scored report, 1 one has none, 2 usage error, 130 Ctrl-C (129
SIGHUP, 143 SIGTERM).
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import difflib
import fnmatch
import hashlib
import importlib
import io
import json
import logging
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib
from datetime import datetime, timedelta
from typing import Any, Dict, Iterator, NamedTuple, Sequence, Union

HERE = os.path.dirname(os.path.realpath(__file__))
PROJECT = os.path.dirname(HERE)
# On a Dask worker the evaluator was uploaded beside this file; otherwise it is one folder above.
sys.path[:0] = [HERE, PROJECT]

import DockerfileEvaluator as de  # noqa: E402, N813 - the project is on the path only now

PROGRAM = os.path.abspath(de.__file__)

DEFAULT_LAYOUT = "{model}/{repo}.dockerfile"
MAX_PARALLEL = 8  # evaluations on this machine, unless --parallel says otherwise
SUBMITTED = 2  # evaluations on the executor for each that runs, so that it never waits for us
MAX_ENGINE_FAILURES = 3  # in a row; then a worker is retired
MAX_NOT_WRITTEN = 20  # reports in a row that cannot be written: the disk is full
MAX_LOG = 1024 * 1024  # bytes at the end of a log that a worker returns
MAX_OVERLAY = 50 * 1024 * 1024  # bytes of files that travel to a worker with a task
MAX_LISTED = 50  # names in a line of the summary
PRUNE_TIMEOUT = 600.0  # seconds for `docker builder prune`
WORKER_TIMEOUT = 60.0  # seconds until the first Dask worker must be there
REFRESH = 5.0  # seconds between two looks at which Dask workers there are
WAKE_UP = 1.0  # seconds between two looks at the progress, if nothing ends
BAR_WIDTH = 20  # signs of the progress bar
QUIET = 60.0  # seconds without output, after which a line shows the progress

Report = Dict[str, Any]  # as in rubrics/schema/report.schema.json
Arguments = argparse.Namespace  # as parse_arguments() returns them


class UsageError(Exception):
    """Options that make no sense together."""


# ---------------------------------------------------------------------------------------------
# Tasks: what there is to evaluate
# ---------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """One Dockerfile, and the files of its evaluation."""

    repo: str
    model: str
    dockerfile: str
    rubric: str
    context: str
    overlay: str | None
    report: str

    @property
    def name(self) -> str:
        """MODEL/REPO, for messages."""
        return de.printable(os.path.join(self.model, self.repo))

    @property
    def log(self) -> str:
        """The path of the log, beside the report."""
        return f"{self.report[: -len('.json')]}.log"


class Rubrics:
    """The rubrics of a run: each is read and checked once."""

    def __init__(self) -> None:
        self._rubrics: dict[str, bytes | de.EvaluationError] = {}

    def read(self, path: str) -> bytes:
        """Return the content of a valid rubric; raise EvaluationError if it is none."""
        if path not in self._rubrics:
            self._rubrics[path] = self._check(path)
        rubric = self._rubrics[path]
        if isinstance(rubric, de.EvaluationError):
            raise rubric
        return rubric

    def _check(self, path: str) -> bytes | de.EvaluationError:
        try:
            content = de.read_file(path)
            de.parse_rubric(content, path)
        except de.EvaluationError as error:
            return error
        return content


class Layout:
    """Where the Dockerfiles are: a path with {model}, {repo} and *."""

    def __init__(self, text: str) -> None:
        """Raise ArgumentTypeError for a text that is no layout."""
        self.text = os.path.normpath(text)
        patterns = {
            "{model}": "(?P<model>[^/]+(?:/[^/]+)*)",  # one or more folders
            "{repo}": "(?P<repo>[^/]+)",
            "*": "[^/]*",
        }
        words = re.split(r"(\{.*?\}|\*)", self.text)
        fields = words[1::2]
        has_unknown_field = any(field not in patterns for field in fields)
        if has_unknown_field or fields.count("{repo}") != 1 or fields.count("{model}") > 1:
            message = f"expected {{repo}}, {{model}} and * in '{text}'"
            raise argparse.ArgumentTypeError(message)
        pattern = "".join(patterns.get(word, re.escape(word)) for word in words)
        self._pattern = re.compile(pattern)

    def match(self, path: str) -> tuple[str, str] | None:
        """Return model and repository of a Dockerfile's path, None if it does not fit."""
        match = self._pattern.fullmatch(path)
        if match is None:
            return None
        return match.groupdict().get("model") or "", match["repo"]

    @property
    def repo_is_a_folder(self) -> bool:
        """Whether the repository is a folder, such as {model}/{repo}/Dockerfile."""
        return "/" in self.text.split("{repo}")[1]


def find_tasks(
    arguments: Arguments,
    rubrics: Rubrics,
) -> tuple[list[Task], dict[str, list[Task]]]:
    """Return the selected tasks, by repository and model, and those that are left out, by reason.

    Raises UsageError if two answers share a folder with --overlay, EvaluationError if there is no
    Dockerfile, or a folder is missing.
    """
    for option in ("artifacts", "rubrics", "checkouts"):
        folder = getattr(arguments, option)
        if folder and not os.path.isdir(folder):
            raise de.EvaluationError(f"no such folder: {folder} (see --{option})")
    tasks = list(all_tasks(arguments))
    if arguments.overlay:
        check_overlays(tasks)
    by_report: dict[str, list[Task]] = collections.defaultdict(list)
    for task in tasks:
        by_report[os.path.realpath(task.report)].append(task)

    selected: list[Task] = []
    left_out: dict[str, list[Task]] = collections.defaultdict(list)
    for task in sorted(tasks):
        if not is_selected(task, arguments):
            continue
        rivals = len(by_report[os.path.realpath(task.report)])
        if rivals > 1:
            problem = f"{rivals} Dockerfiles would write {task.report}"
        else:
            problem = task_problem(task, rubrics)
        if problem:
            left_out[problem].append(task)
        else:
            selected.append(task)
    if not selected and not left_out and arguments.shard == (1, 1):
        raise de.EvaluationError(nothing_found(arguments, has_matched=bool(tasks)))
    return selected, left_out


def all_tasks(arguments: Arguments) -> Iterator[Task]:
    """Yield the task of each Dockerfile that a layout matches."""
    tasks: list[Task] = []
    # Folders of answers with a rubric. Another match inside one is a file of that answer, such as
    # m/app/docker/Dockerfile, unless it has a rubric, too.
    answers: set[str] = set()
    checkouts = os.path.realpath(arguments.checkouts) if arguments.checkouts else None
    for path in de.files_below(arguments.artifacts):
        if path.endswith(".dockerignore"):
            continue
        if checkouts and is_below(os.path.realpath(path), checkouts):
            continue  # a Dockerfile of a repository
        place = os.path.relpath(path, arguments.artifacts)
        for layout in arguments.layout:
            match = layout.match(place)
            if match is None:
                continue
            model, repo = match
            task = make_task(model, repo, path, arguments)
            tasks.append(task)
            if layout.repo_is_a_folder and os.path.exists(task.rubric):
                answers.add(os.path.dirname(path))
            break
    for task in tasks:
        is_part_of_an_answer = any(folder in answers for folder in folders_above(task.dockerfile))
        if os.path.exists(task.rubric) or not is_part_of_an_answer:
            yield task


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is below a folder; both are real paths."""
    return path.startswith(os.path.join(folder, ""))


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders above the folder of a file."""
    folder = os.path.dirname(os.path.dirname(path))
    while folder not in ("", os.path.dirname(folder)):
        yield folder
        folder = os.path.dirname(folder)


def make_task(model: str, repo: str, dockerfile: str, arguments: Arguments) -> Task:
    """Return the task of a Dockerfile; without checkouts its own folder is the build context."""
    folder = os.path.dirname(dockerfile)
    context = folder
    if arguments.checkouts:
        context = os.path.normpath(os.path.join(arguments.checkouts, repo))
    return Task(
        repo=repo,
        model=model,
        dockerfile=dockerfile,
        rubric=os.path.join(arguments.rubrics, f"{repo}.json"),
        context=context,
        overlay=folder if arguments.overlay else None,
        report=os.path.join(arguments.reports, model, f"{repo}.json"),
    )


def check_overlays(tasks: Sequence[Task]) -> None:
    """Raise UsageError if two tasks have the same overlay."""
    owners: dict[str | None, Task] = {}
    for task in tasks:
        owner = owners.setdefault(task.overlay, task)
        if owner is not task:
            files = f"{owner.dockerfile} and {task.dockerfile}"
            raise UsageError(f"--overlay: {files} share a folder; each answer needs its own")


def is_selected(task: Task, arguments: Arguments) -> bool:
    """Return whether --model, --repo and --shard select a task."""
    part, parts = arguments.shard
    place = os.path.relpath(task.report, arguments.reports)
    if zlib.crc32(os.fsencode(place)) % parts != part - 1:
        return False
    return fits(task.model, arguments.model) and fits(task.repo, arguments.repo)


def fits(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name fits one of the shell patterns; without patterns every name does."""
    if not patterns:
        return True
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def task_problem(task: Task, rubrics: Rubrics) -> str:
    """Return why a task cannot be evaluated, or ""."""
    if not os.path.isdir(task.context):
        return f"no build context: the folder {task.context} does not exist"
    try:
        rubrics.read(task.rubric)
        de.read_file(task.dockerfile)
    except de.EvaluationError as error:
        return str(error).splitlines()[0]
    return ""


def nothing_found(arguments: Arguments, *, has_matched: bool) -> str:
    """Return why there is no Dockerfile to evaluate."""
    if has_matched:
        return f"no Dockerfile in {arguments.artifacts} is selected (see --model and --repo)"
    layouts = [layout.text for layout in arguments.layout]
    message = f"no file in {arguments.artifacts} is like {de.quoted_list(layouts)} (see --layout)"
    places = [
        os.path.relpath(path, arguments.artifacts) for path in de.files_below(arguments.artifacts)
    ]
    nearest = difflib.get_close_matches(layouts[0], places, n=1, cutoff=0)
    if nearest:
        message += f"; a file there: {os.path.join(arguments.artifacts, nearest[0])}"
    return message


_FROM = re.compile(
    r"(?im)(?<!\\\n)^[ \t]*FROM[ \t]+(?P<image>\S.*?)(?:[ \t]+AS[ \t]+(?P<stage>\S+))?[ \t]*$"
)
_PLAIN_IMAGE = re.compile(r"[^\s$-][^\s$]*")  # without a flag or a variable


def base_images(dockerfile: str) -> list[str]:
    """Return the images in FROM lines of a Dockerfile, except in lines with flags or variables."""
    images: set[str] = set()
    stages = {"scratch"}
    for line in _FROM.finditer(de.read_file(dockerfile).decode(errors="replace")):
        image = line["image"]
        if _PLAIN_IMAGE.fullmatch(image) and image != "\\" and image.lower() not in stages:
            images.add(image)
        if line["stage"]:
            stages.add(line["stage"].lower())
    return sorted(images)


# ---------------------------------------------------------------------------------------------
# One evaluation, on this machine or on a worker
# ---------------------------------------------------------------------------------------------


class Request(NamedTuple):
    """What run_task() needs to know, wherever it runs."""

    run_id: str
    name: str  # of the task
    options: de.Options
    build_cache: str | None = None  # size to which BuildKit's cache is reduced afterwards
    log: str | None = None  # the file to which the log grows; None: the result has it
    files: bytes | None = None  # Dockerfile, rubric and overlay, packed for another machine
    program_sha256: str = ""  # of the evaluator that packed them


class Result(NamedTuple):
    """How an evaluation ended."""

    kind: str  # of the error, as in ERROR_KINDS, "input" or "output"; "" if there is none
    message: str = ""  # of the error
    report: Report | None = None  # None if the evaluator has printed none
    log: str = ""
    engine_failed: bool = False  # as in the report: it fails for every Dockerfile
    worker: str = ""  # its name; "" on this machine
    address: str = ""  # of the worker


class Run:
    """What runs on this machine for one evaluate_all."""

    def __init__(self) -> None:
        self.cancel = de.CancelToken()
        self.evaluations: dict[subprocess.Popen[bytes], tuple[float, str]] = {}  # start, name
        self._interrupted: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.RLock()  # a second signal can arrive while interrupt() has it

    def start(self, argv: Sequence[str], name: str, stderr: Any) -> subprocess.Popen[bytes]:
        """Start an evaluator in a session of its own: the terminal's Ctrl-C does not reach it."""
        with self._lock:
            self.cancel.check()
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
            self.evaluations[process] = (time.monotonic(), name)
        return process

    def interrupt(self) -> None:
        """Interrupt what runs, and start nothing more.

        Each evaluator gets one signal: after a second one it would not clean up. It is SIGTERM, as
        SIGINT is ignored in the background of a shell script.
        """
        with self._lock:
            self.cancel.cancel()
            for process in list(self.evaluations):
                if process not in self._interrupted:
                    self._interrupted.add(process)
                    process.send_signal(signal.SIGTERM)

    def longest(self) -> tuple[float, str] | None:
        """Return start (time.monotonic()) and name of the evaluation that has run longest."""
        return min(list(self.evaluations.values()), default=None)


# By run id. A second upload reloads this module in the same worker: the runs there stay known.
_runs: dict[str, Run] = globals().get("_runs", {})


def interrupt(run_id: str) -> None:
    """Interrupt the evaluations of a run on this machine, now and those that would start later."""
    _runs.setdefault(run_id, Run()).interrupt()


def run_task(request: Request) -> Result:
    """Evaluate a Dockerfile; return how that ended, also if it was an error."""
    worker = address = ""
    if request.files is not None:
        from distributed import get_worker

        worker, address = str(get_worker().name), get_worker().address
    try:
        with tempfile.TemporaryDirectory() as folder:
            result = evaluate(request, folder)
    except de.EvaluationError as error:
        result = Result(error.kind, str(error), engine_failed=isinstance(error, de.EngineFailed))
    except OSError as error:  # no space for temporary files, no more processes
        result = Result("engine", str(error), engine_failed=True)
    return result._replace(worker=worker, address=address)


def evaluate(request: Request, folder: str) -> Result:
    """Run the evaluator; return how it ended. Files that are needed for it are put in `folder`."""
    run = _runs.setdefault(request.run_id, Run())
    options = request.options
    if request.files is not None:
        check_program(request.program_sha256)
        options = unpack(request.files, folder, options)
        if not os.path.isdir(str(options.context)):
            return Result("input", f"there is no build context {options.context}")
    with open_log(request.log or os.path.join(folder, "log")) as log:
        process = run.start(command_line(options), request.name, log)
        output = process.communicate()[0]
        del run.evaluations[process]
        report = parse_report(output)
        log_text = ""  # on this machine the file has it
        if request.files is not None or report is None:
            log_text = read_end(log)
    if report is None:
        run.cancel.check()
        problem = input_problem(options)
        if problem:
            return Result("input", problem)
        last_line = de.last_line(log_text)
        return Result("engine", f"no report, exit code {process.returncode}: {last_line}")
    if request.build_cache:
        report["warnings"] += prune(options.docker, request.build_cache, run.cancel)
    error = report["error"]
    if error is None:
        return Result("", report=report, log=log_text)
    return Result(
        error["kind"],
        error["message"],
        report=report,
        log=log_text,
        engine_failed=error["engine_failed"],
    )


def parse_report(output: bytes) -> Report | None:
    """Return the report that the evaluator has printed, None if it is none."""
    try:
        report: Report = json.loads(output)
    except ValueError:
        return None
    return report


def open_log(path: str) -> Any:
    """Open a log, to which each evaluation of a Dockerfile appends; raise EvaluationError."""
    try:
        return open(path, "a+b")
    except OSError as error:
        raise de.EvaluationError(f"{path}: cannot write: {error.strerror}", "output") from None


def read_end(file: Any) -> str:
    """Return the last MAX_LOG bytes of a file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - MAX_LOG, 0))
    return str(file.read().decode(errors="replace"))


def command_line(options: de.Options) -> list[str]:
    """Return the command line of an evaluation."""
    argv = [
        sys.executable,
        PROGRAM,
        "--verbose",
        "--output=-",
        f"--dockerfile={options.dockerfile}",
        f"--repo={options.repo}",
        f"--rubric={options.rubric}",
        f"--context={options.context}",
        f"--build-timeout={options.build_timeout}",
        f"--start-timeout={options.start_timeout}",
        f"--jobs={options.jobs}",
        f"--docker={options.docker}",
    ]
    if options.overlay:
        argv.append(f"--overlay={options.overlay}")
    if options.offline:
        argv.append("--offline")
    argv += [f"--build-option={option}" for option in options.build_options]
    argv += [f"--run-option={option}" for option in options.run_options]
    return argv


def input_problem(options: de.Options) -> str:
    """Return why the evaluator cannot read its files, or ""."""
    try:
        inputs = de.read_inputs(options)
        de.parse_rubric(inputs.rubric, str(options.rubric))
    except de.EvaluationError as error:
        return str(error).splitlines()[0]
    if not os.path.isdir(str(options.context)):
        return f"there is no build context {options.context}"
    return ""


def prune(docker: str, size: str, cancel: de.CancelToken) -> list[str]:
    """Reduce BuildKit's cache to a size; return what goes wrong."""
    words = ("builder", "prune", "--force", "--keep-storage", size)
    try:
        answer = de.Cli(docker, cancel).call(*words, timeout=PRUNE_TIMEOUT)
    except de.EvaluationError as error:
        return [f"docker builder prune: {error}"]
    if answer.exit_code == 0:
        return []
    return [f"docker builder prune: {de.printable(de.last_line(answer.stderr), 300)}"]


# ---------------------------------------------------------------------------------------------
# Files that travel to a Dask worker
# ---------------------------------------------------------------------------------------------


def pack(options: de.Options, rubric: bytes) -> bytes:
    """Return Dockerfile, rubric and overlay as a tar archive; raise EvaluationError ("input")."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        add_file(archive, "rubric.json", rubric)
        if options.overlay:
            add_overlay(archive, options.overlay)
        else:
            name = os.path.basename(options.dockerfile)
            add_file(archive, f"answer/{name}", de.read_file(options.dockerfile))
            ignore_file = f"{options.dockerfile}.dockerignore"
            if os.path.isfile(ignore_file):
                add_file(archive, f"answer/{name}.dockerignore", de.read_file(ignore_file))
    return buffer.getvalue()


def add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file to an archive."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def add_overlay(archive: tarfile.TarFile, overlay: str) -> None:
    """Add an overlay to an archive; raise EvaluationError if it is too large, or unreadable."""
    folder = os.path.realpath(overlay)  # a link would be added as a link
    try:
        size = sum(entry.stat(follow_symlinks=False).st_size for _, entry in de.walk(folder))
        if size > MAX_OVERLAY:
            limit = MAX_OVERLAY // 1024**2
            message = f"{overlay}: an overlay over {limit} MiB cannot travel to a worker"
            raise de.EvaluationError(message)
        archive.add(folder, "answer")
    except OSError as error:
        raise de.EvaluationError(f"cannot read the overlay: {error}") from None


def unpack(files: bytes, folder: str, options: de.Options) -> de.Options:
    """Unpack what pack() has packed; return the options with the paths of the files."""
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        archive.extraction_filter = _unfiltered
        archive.extractall(folder)  # noqa: S202 - these are our own files
    answer = os.path.join(folder, "answer")
    return options._replace(
        rubric=os.path.join(folder, "rubric.json"),
        dockerfile=os.path.join(answer, os.path.basename(options.dockerfile)),
        overlay=answer if options.overlay else None,
    )


def _unfiltered(member: tarfile.TarInfo, _path: str) -> tarfile.TarInfo:
    """Return a member as it is: a filter would change modes and links, and the overlay's digest."""
    return member


def check_program(sha256: str) -> None:
    """Raise EvaluationError if the evaluator on this worker is not the coordinator's."""
    if sha256 != program_sha256():
        message = "another evaluate_all.py has sent another version of the evaluator to this worker"
        raise de.EvaluationError(message, "engine")


def program_sha256() -> str:
    """Return the SHA-256 of the evaluator."""
    return hashlib.sha256(de.read_file(PROGRAM)).hexdigest()


# ---------------------------------------------------------------------------------------------
# What follows when an evaluation has ended
# ---------------------------------------------------------------------------------------------


class Job(NamedTuple):
    """An evaluation that is to run.

    A repetition checks a bad score, without cache. A retry runs the same again after an error.
    """

    task: Task
    is_repetition: bool = False
    is_retry: bool = False
    avoided: str = ""  # address of a worker whose engine has failed


class Score(NamedTuple):
    """What is remembered of a scored report: thousands of them are in memory."""

    part: float  # of the points, from 0 to 1
    has_image: bool  # False: the build failed
    counts: bool = True  # False: a score from before --fresh


# What an evaluation ended with.
SCORE = "a score"
DOUBTFUL = "a doubtful score: a test timed out, or the image could not be started"
NO_IMAGE = "a score of 0, since the build failed or timed out"
ENGINE_FAILED = "an engine error that does not depend on the Dockerfile"
MAY_PASS = "a temporary error, or an evaluator that somebody else has interrupted"  # noqa: S105
NO_REPORT = "no report: the evaluator, or the worker, has died"
USAGE = "an error that stays"
FILE_PROBLEM = "a file of the task that cannot be read or written"

# What happens to its report.
WRITE = "it is written"
WRITE_UNLESS_BUILT = "it is written, but a repetition replaces no score of an image that was built"
WRITE_IF_NO_SCORE = "it is written, unless there is a score for the same inputs"
NO_FILE = "there is none; a score for other inputs is set aside"

# What is evaluated then.
NOTHING = "nothing"
REPEAT = "the Dockerfile once more without cache, unless this was a repetition"
RETRY = "the same once more, unless this was a retry"

# How the engine failures in a row are counted.
END = "the row ends"
COUNT = "one more"
STAY = "the result says nothing about the engine"


class Rule(NamedTuple):
    """What follows."""

    report: str
    then: str
    engine_failures: str


FOLLOWS = {
    SCORE: Rule(WRITE, NOTHING, END),
    DOUBTFUL: Rule(WRITE, REPEAT, END),
    NO_IMAGE: Rule(WRITE_UNLESS_BUILT, REPEAT, END),
    ENGINE_FAILED: Rule(WRITE_IF_NO_SCORE, RETRY, COUNT),
    MAY_PASS: Rule(WRITE_IF_NO_SCORE, RETRY, END),
    NO_REPORT: Rule(NO_FILE, RETRY, STAY),
    USAGE: Rule(WRITE_IF_NO_SCORE, NOTHING, END),
    FILE_PROBLEM: Rule(NO_FILE, NOTHING, STAY),
}


class Decision(NamedTuple):
    """What follows from one result."""

    is_written: bool
    next_job: Job | None
    engine_failures: str


def ended_with(result: Result) -> str:
    """Return what an evaluation ended with: a key of FOLLOWS."""
    if result.kind in ("input", "output"):
        return FILE_PROBLEM
    if result.engine_failed:
        return ENGINE_FAILED
    if result.kind == "engine" and result.report is None:
        return NO_REPORT
    if result.kind:
        kind = de.ERROR_KINDS[result.kind]
        if kind.has_score:
            return NO_IMAGE
        return MAY_PASS if kind.may_pass else USAGE
    return DOUBTFUL if is_doubtful(result.report or {}) else SCORE


def is_doubtful(report: Report) -> bool:
    """Return whether a busy machine may be why the image of a report has lost points."""
    if report["environment"]["image_starts"] is False:
        return True
    return any(row["status"] == "timeout" for row in report["test_results"])


def decide(result: Result, job: Job, earlier: Score | None, *, repeats: bool) -> Decision:
    """Return what follows from a result.

    `earlier` is the score that the task has for the same inputs; `repeats` is False with
    --no-repeat.
    """
    rule = FOLLOWS[ended_with(result)]
    is_written = True
    if rule.report == WRITE_UNLESS_BUILT and job.is_repetition:
        is_written = earlier is None or not earlier.has_image
    if rule.report in (WRITE_IF_NO_SCORE, NO_FILE):
        is_written = earlier is None
    next_job = None
    if rule.then == REPEAT and repeats and not job.is_repetition:
        next_job = Job(job.task, is_repetition=True)
    if rule.then == RETRY and not job.is_retry:
        next_job = job._replace(is_retry=True)
        if rule.engine_failures == COUNT:
            next_job = next_job._replace(avoided=result.address)
    return Decision(is_written, next_job, rule.engine_failures)


def score_of(report: Report, *, counts: bool = True) -> Score:
    """Return what is remembered of a scored report."""
    summary = report["summary"]
    part = summary["total_score"] / (summary["max_score"] or 1)
    return Score(part, has_image=report["error"] is None, counts=counts)


# ---------------------------------------------------------------------------------------------
# Plan: what is to be evaluated, and the scores that exist
# ---------------------------------------------------------------------------------------------


def plan(
    tasks: Sequence[Task],
    arguments: Arguments,
    rubrics: Rubrics,
) -> tuple[list[Job], dict[Task, Score]]:
    """Return the jobs, repetitions last, and the scores that reports have for the same inputs."""
    jobs: list[Job] = []
    repetitions: list[Job] = []
    scores: dict[Task, Score] = {}
    begun = beginning(arguments)
    for task in tasks:
        report = earlier_report(task, arguments, rubrics)
        if report is None:
            jobs.append(Job(task))
            continue
        is_failed_build = report["error"] is not None
        is_unwanted = arguments.fresh or (arguments.retry_failed and is_failed_build)
        is_old = is_unwanted and not is_younger(task.report, begun)
        scores[task] = score_of(report, counts=not (is_old and arguments.fresh))
        is_due = is_failed_build or is_doubtful(report)
        if is_old:
            jobs.append(Job(task))
        elif is_due and not report.get("repeated") and not arguments.no_repeat:
            repetitions.append(Job(task, is_repetition=True))
    return jobs + repetitions, scores


def earlier_report(task: Task, arguments: Arguments, rubrics: Rubrics) -> Report | None:
    """Return the report of a task if it has a score for the same inputs."""
    report = de.read_report(task.report)
    if report is None:
        return None
    options = evaluator_options(Job(task), arguments)
    try:
        inputs = de.read_inputs(options, rubrics.read(task.rubric))
    except de.EvaluationError:  # gone since find_tasks()
        return None
    return report if de.is_report_for(report, options, inputs) else None


def evaluator_options(job: Job, arguments: Arguments) -> de.Options:
    """Return the options with which the evaluator runs for a job."""
    task = job.task
    # Models do not help each other: each has cache mounts of its own.
    folder = os.path.realpath(os.path.dirname(task.report))
    namespace = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    build_options = [*arguments.build_options, f"{de.CACHE_NAMESPACE}{namespace}"]
    if job.is_repetition:
        build_options.append("--no-cache")
    return de.Options(
        dockerfile=task.dockerfile,
        repo=task.repo,
        rubric=task.rubric,
        context=task.context,
        overlay=task.overlay,
        build_timeout=arguments.build_timeout,
        start_timeout=arguments.start_timeout,
        jobs=arguments.jobs,
        build_options=build_options,
        run_options=arguments.run_options,
        offline=arguments.offline,
        docker=arguments.docker,
    )


def begun_file(arguments: Arguments) -> str:
    """Return the file whose age says when --fresh or --retry-failed began for this selection.

    It exists until all Dockerfiles have a new score, so that the same command can go on.
    """
    selection = repr((arguments.fresh, arguments.model, arguments.repo, arguments.shard))
    return os.path.join(arguments.reports, f".begun-{zlib.crc32(selection.encode()):08x}")


def beginning(arguments: Arguments) -> float | None:
    """Return when the --fresh or --retry-failed began that is to be continued, None if none is."""
    try:
        return os.stat(begun_file(arguments)).st_mtime
    except OSError:
        return None


def begin_again(arguments: Arguments) -> None:
    """Note that --fresh or --retry-failed begins, or say that an earlier one is continued."""
    begun = beginning(arguments)
    if begun is None:
        make_folder(arguments.reports)
        de.write_file(begun_file(arguments), "")
        return
    since = datetime.fromtimestamp(begun).strftime("%Y-%m-%d %H:%M")  # noqa: DTZ006 - local time
    say(f"continued since {since}; to begin anew, remove {begun_file(arguments)}")


def is_younger(path: str, begun: float | None) -> bool:
    """Return whether a file was written after a time, by the clock of its file system."""
    return begun is not None and os.stat(path).st_mtime > begun


# ---------------------------------------------------------------------------------------------
# Workers: where evaluations run
# ---------------------------------------------------------------------------------------------

TaskFuture = concurrent.futures.Future  # its result is a Result


class Threads:
    """Evaluations in threads of this process, on one engine."""

    def __init__(self, arguments: Arguments) -> None:
        """Raise EvaluationError if the engine does not answer."""
        self._run = _runs.setdefault(arguments.run_id, Run())
        self._run_id = arguments.run_id
        self._build_cache = arguments.build_cache
        processors = engine_processors(arguments.docker, self._run.cancel)
        if self._build_cache:
            problems = prune(arguments.docker, self._build_cache, self._run.cancel)
            if problems:
                raise de.EvaluationError(problems[0])
        self.parallel = arguments.parallel or min(processors, MAX_PARALLEL)
        self.max_failures = MAX_ENGINE_FAILURES * self.parallel
        self._executor = concurrent.futures.ThreadPoolExecutor(self.parallel)

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *exception: object) -> None:
        self._executor.shutdown()

    def submit(self, job: Job, options: de.Options, _rubric: bytes) -> TaskFuture[Result]:
        """Start an evaluation as soon as a thread is free."""
        request = Request(
            self._run_id,
            job.task.name,
            options,
            build_cache=self._build_cache,
            log=job.task.log,
        )
        return self._executor.submit(run_task, request)

    def interrupt(self) -> bool:
        """Interrupt all evaluations, which then clean up; return whether there is a worker."""
        self._run.interrupt()
        return True

    def retire(self, _address: str) -> bool:
        """Return False: there is no other engine."""
        return False

    def longest(self) -> tuple[float, str] | None:
        """Return start and name of the evaluation that has run longest."""
        return self._run.longest()


def engine_processors(docker: str, cancel: de.CancelToken) -> int:
    """Return the number of the engine's processors; raise EvaluationError if it does not answer."""
    cli = de.Cli(docker, cancel)
    cli.connect()
    answer = cli.call("info", "--format", "{{json .}}")
    info = de.parse_object(answer.stdout)
    host = info.get("host") or {}
    processors = info.get("NCPU") or host.get("cpus")  # docker's name, podman's name
    if not processors:
        problem = de.last_line(answer.stderr) or "no number of processors"
        raise de.EvaluationError(f"docker info: {de.printable(problem, 300)}", "engine")
    return int(processors)


class DaskWorkers:
    """Evaluations on the workers of a Dask cluster. Each has an engine of its own."""

    max_failures = MAX_ENGINE_FAILURES

    def __init__(self, arguments: Arguments) -> None:
        """Raise EvaluationError if there is no scheduler or no worker."""
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError as error:
            message = f"--dask needs the package distributed (pip install distributed): {error}"
            raise de.EvaluationError(message) from None
        # A lost scheduler is our line in the summary, not a traceback of asyncio.
        for name in ("distributed", "distributed.client", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._run_id = arguments.run_id
        self._build_cache = arguments.build_cache
        self._program_sha256 = program_sha256()
        self._threads: dict[str, int] = {}  # of each worker, by its address
        self._refreshed = 0.0
        self._retired: set[str] = set()
        self._interrupted: set[str] = set()
        try:
            self._client: Any = distributed.Client(arguments.dask, set_as_default=False)
        except (OSError, ValueError) as error:
            raise de.EvaluationError(f"no Dask scheduler: {error}") from None
        try:
            self._prepare(arguments.dask)
        except BaseException:
            self._client.close()
            raise
        self._executor = self._client.get_executor(pure=False)

    def _prepare(self, address: str) -> None:
        """Wait for the first worker, and send the program to all, also to those that come later."""
        try:
            self._client.wait_for_workers(1, timeout=WORKER_TIMEOUT)
        except Exception:  # noqa: BLE001 - which TimeoutError it is depends on the version of Python
            message = f"no worker has come to {address} in {WORKER_TIMEOUT:.0f} s"
            hint = f"start one: dask worker {address}"
            raise de.EvaluationError(f"{message} ({hint})") from None
        try:
            self._client.upload_file(PROGRAM)  # first, as this file imports it
            self._client.upload_file(os.path.abspath(__file__))
        except Exception as error:  # noqa: BLE001 - whatever happens when a worker imports them
            text = f"{type(error).__name__}: {error}"
            message = f"a worker cannot import the evaluator: {text}"
            raise de.EvaluationError(message) from None

    def __enter__(self) -> DaskWorkers:
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.close()

    @property
    def parallel(self) -> int:
        """The number of evaluations that run at a time; workers can come and go."""
        if time.monotonic() - self._refreshed > REFRESH:
            self._refresh()
        return max(sum(self._threads.values()), 1)

    def _refresh(self) -> None:
        with contextlib.suppress(Exception):  # the scheduler is gone
            known = self._client.nthreads()
            self._threads = {
                address: threads
                for address, threads in known.items()
                if address not in self._retired
            }
        self._refreshed = time.monotonic()

    def submit(self, job: Job, options: de.Options, rubric: bytes) -> TaskFuture[Result]:
        """Send an evaluation to the cluster, with its files; raise EvaluationError ("input")."""
        options = options._replace(context=os.path.abspath(str(options.context)))
        request = Request(
            self._run_id,
            job.task.name,
            options,
            build_cache=self._build_cache,
            files=pack(options, rubric),
            program_sha256=self._program_sha256,
        )
        executor = self._executor
        others = [address for address in self._threads if address != job.avoided]
        if job.avoided and others:
            executor = self._client.get_executor(
                pure=False, workers=others, allow_other_workers=True
            )
        future: TaskFuture[Result] = executor.submit(run_task, request)
        return future

    def interrupt(self) -> bool:
        """Interrupt all evaluations, which then clean up; return whether there is a worker.

        Called again, it interrupts only on workers that have come since.
        """
        self._refresh()
        workers = [address for address in self._threads if address not in self._interrupted]
        self._interrupted.update(workers)
        if workers:
            with contextlib.suppress(Exception):  # the scheduler, or a worker, is gone
                self._client.run(interrupt, self._run_id, workers=workers, on_error="ignore")
        return bool(self._threads)

    def retire(self, address: str) -> bool:
        """Give a worker no more evaluations, if there are others; return whether there are."""
        self._retired.add(address)
        self._refresh()
        if self._threads:
            with contextlib.suppress(Exception):  # it is gone already
                self._client.retire_workers([address])
        return bool(self._threads)

    def longest(self) -> tuple[float, str] | None:
        """Return None: what runs on a worker is not known here."""
        return None


Workers = Union[Threads, DaskWorkers]


# ---------------------------------------------------------------------------------------------
# Coordinator
# ---------------------------------------------------------------------------------------------


class Coordinator:
    """Gives jobs to workers, writes the reports that come back, and does what follows.

    What waits is in a queue here. The workers get only what keeps them busy, and what has ended
    wakes the coordinator: so the cost of an evaluation does not grow with the queue.
    """

    def __init__(
        self,
        arguments: Arguments,
        jobs: Sequence[Job],
        scores: dict[Task, Score],
        rubrics: Rubrics,
    ) -> None:
        self.scores = scores
        self.problems: dict[Task, str] = {}  # why a task has no score, or no repetition
        self.signal = 0
        self.stop_reason = ""
        self._arguments = arguments
        self._rubrics = rubrics
        self._waiting = collections.deque(jobs)
        self._submitted: dict[TaskFuture[Result], Job] = {}
        self._ended: queue.SimpleQueue[TaskFuture[Result] | None] = queue.SimpleQueue()
        self._engine_failures: collections.Counter[str] = collections.Counter()  # by worker
        self._not_written = 0  # reports in a row
        self.workers: Workers | None = None
        failed = sum(not score.has_image for score in scores.values() if score.counts)
        self._progress = Progress(len(jobs), failed)

    def run(self, workers: Workers) -> None:
        """Run all jobs, and what follows from them."""
        self.workers = workers
        try:
            while self._waiting or self._submitted:
                self._submit(workers)
                has_ended = self._take_results()
                if self.signal:
                    self._stop("interrupted")
                if self.stop_reason and not has_ended and not workers.interrupt():
                    self._submitted.clear()  # no worker, or no scheduler: nothing more can come
                self._progress.show(workers.longest())
        finally:
            self._stop("unexpected error")

    def on_signal(self, number: int, _frame: object) -> None:
        """Stop after the first signal, exit at the second one.

        The first wakes run(), which calls _stop(): all workers get the interrupt, the evaluators
        that run clean up, run_task() begins nothing more, and run() waits for both. The second
        sends the interrupts, if that has not been done, and exits without waiting.
        """
        if not self.signal:
            self.signal = number
            self._ended.put(None)
            return
        signal.signal(number, signal.SIG_DFL)  # a third one ends this
        if self.workers:
            self.workers.interrupt()
        os._exit(128 + self.signal)

    def _submit(self, workers: Workers) -> None:
        """Keep the workers busy."""
        if not self._waiting:
            return
        limit = SUBMITTED * workers.parallel
        while self._waiting and len(self._submitted) < limit:
            job = self._waiting.popleft()
            task = job.task
            try:
                make_folder(os.path.dirname(task.report))
                options = evaluator_options(job, self._arguments)
                future = workers.submit(job, options, self._rubrics.read(task.rubric))
            except de.EvaluationError as error:
                self._finish(job, Result(error.kind, str(error)))
                continue
            self._submitted[future] = job
            future.add_done_callback(self._ended.put)

    def _take_results(self) -> bool:
        """Wait until evaluations have ended, at most WAKE_UP seconds; do what follows from them.

        Return whether one has ended, or a signal has come.
        """
        has_ended = False
        try:
            self._take(self._ended.get(timeout=WAKE_UP))
            has_ended = True
            while True:
                self._take(self._ended.get_nowait())
        except queue.Empty:
            return has_ended

    def _take(self, future: TaskFuture[Result] | None) -> None:
        if future is None:  # a signal
            return
        job = self._submitted.pop(future)
        if future.cancelled():  # not by us: Dask does that when its scheduler is gone
            self._stop("the Dask scheduler was lost")
            return
        self._finish(job, result_of(future))

    def _finish(self, job: Job, result: Result) -> None:
        """Do what follows from a result, and print a line."""
        was_cut_off = result.report is None or result.kind == "interrupted"
        if self.stop_reason and was_cut_off:
            return  # the next start evaluates it
        repeats = not self._arguments.no_repeat
        decision = decide(result, job, self.scores.get(job.task), repeats=repeats)
        text = describe(result)
        try:
            if decision.is_written:
                self._write(job, result)
                self._not_written = 0
            if result.log:
                de.write_file(job.task.log, result.log, append=True)
        except de.EvaluationError as error:  # the report or the log
            text = f"output error: {error}"
            decision = decision._replace(is_written=False, next_job=None)
            self._not_written += 1
        has_new_score = decision.is_written and is_scored(result)
        self.problems[job.task] = "" if has_new_score else text
        following = decision.next_job
        if self.stop_reason:
            following = None
        if following:
            self._waiting.append(following)
            is_new = following.is_repetition and not job.is_repetition
            text += ", to be repeated" if is_new else ", to be tried again"
        if result.worker:
            text += f" ({de.printable(result.worker)})"
        self._progress.ended(job.task.name, text, is_done=not following)
        self._count(decision.engine_failures, result)

    def _write(self, job: Job, result: Result) -> None:
        """Write the report of a result, and remember its score.

        Raises EvaluationError ("output").
        """
        task = job.task
        report = result.report
        if not is_scored(result):
            # What is there has a score for other inputs, if it has one.
            warnings = de.keep_score(task.report, de.read_report(task.report))
            if report:
                report["warnings"] += warnings
        if report is None:
            return
        with_own_paths(report, task)
        if job.is_repetition and is_scored(result):
            report["repeated"] = True
        text = json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)
        de.write_file(task.report, f"{text}\n")
        if is_scored(result):
            before = self.scores.get(task)
            self.scores[task] = score_of(report)
            failed_before = before is not None and before.counts and not before.has_image
            self._progress.failed += int(result.kind != "") - int(failed_before)

    def _count(self, engine_failures: str, result: Result) -> None:
        """Retire a worker with too many engine failures in a row; stop if nothing can go on."""
        if not self.workers or self.stop_reason:
            return
        if self._not_written >= MAX_NOT_WRITTEN:
            self._stop(f"the last {self._not_written} reports could not be written")
            return
        if engine_failures == END:
            self._engine_failures[result.address] = 0
        if engine_failures != COUNT:
            return
        self._engine_failures[result.address] += 1
        failures = self._engine_failures[result.address]
        if failures != self.workers.max_failures:
            return
        text = f"the last {failures} evaluations ended in engine errors"
        if result.worker:
            self._progress.line(f"worker {de.printable(result.worker)} is retired: {text} there")
            text = "no worker is left"
        if not self.workers.retire(result.address):
            self._stop(text)

    def _stop(self, reason: str) -> None:
        """Start nothing more, and interrupt the running evaluations, which clean up.

        Futures are not cancelled: Dask would lose track of what runs. What has not begun sees the
        interrupt in Run.start().
        """
        if self.stop_reason or not self.workers or not (self._waiting or self._submitted):
            return
        self.stop_reason = reason
        self._waiting.clear()
        self.workers.interrupt()
        self._progress.line(f"{reason}: the running evaluations clean up")


def make_folder(path: str) -> None:
    """Make the folder of a report; raise EvaluationError ("output") if that is impossible."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise de.EvaluationError(f"{path}: cannot write: {error.strerror}", "output") from None


def result_of(future: TaskFuture[Result]) -> Result:
    """Return the result of a future, also if it has none."""
    error = future.exception()
    if error:  # workers that died with the evaluation, or an error of this program
        return Result("engine", f"{type(error).__name__}: {error}")
    return future.result()


def is_scored(result: Result) -> bool:
    """Return whether a result has a score; a failed build has one, which is 0."""
    return result.report is not None and de.is_scored(result.report)


def with_own_paths(report: Report, task: Task) -> None:
    """Name the files in a report by their paths here, wherever the evaluation ran."""
    report["dockerfile"] = task.dockerfile
    report["rubric"] = task.rubric
    report["environment"]["context"] = task.context
    report["environment"]["overlay"] = task.overlay


# ---------------------------------------------------------------------------------------------
# Screen
# ---------------------------------------------------------------------------------------------


def say(text: str, end: str = "\n") -> None:
    """Print a text. After a hang-up, or if nobody reads the output, go on without output."""
    try:
        print(text, end=end, flush=True)
    except OSError:
        de.drop_output(sys.stdout)


class Progress:
    """Prints a line for each evaluation, and a progress bar on a terminal."""

    def __init__(self, total: int, failed: int) -> None:
        self.total = total
        self.done = 0
        self.failed = failed  # builds
        self._is_terminal = sys.stdout.isatty()
        self._started = time.monotonic()
        self._printed = time.monotonic()

    def line(self, text: str) -> None:
        """Print a line, in place of the progress bar."""
        say(f"\r\x1b[K{text}" if self._is_terminal else text)
        self._printed = time.monotonic()

    def ended(self, name: str, text: str, *, is_done: bool) -> None:
        """Print how an evaluation ended; its Dockerfile may be evaluated once more."""
        if is_done:
            self.done += 1
        self.line(f"[{self.done}/{self.total}] {name}: {text}")

    def show(self, longest: tuple[float, str] | None) -> None:
        """Draw the progress bar; without a terminal print a line after QUIET seconds."""
        if self._is_terminal:
            bar = ""
            if self.done < self.total:
                signs = "#" * (BAR_WIDTH * self.done // self.total)
                bar = f"[{signs.ljust(BAR_WIDTH, '.')}] {self._text(longest)}"
            width = shutil.get_terminal_size().columns - 1
            say(f"\r\x1b[K{bar[:width]}", end="")
        elif time.monotonic() - self._printed > QUIET:
            self.line(self._text(longest))

    def _text(self, longest: tuple[float, str] | None) -> str:
        now = time.monotonic()
        text = f"{self.done}/{self.total}, {self.failed} failed builds"
        if self.done:
            seconds = (now - self._started) / self.done * (self.total - self.done)
            text += f", {timedelta(seconds=int(seconds))} left"
        if longest:
            start, name = longest
            text += f"; {name} has been running for {timedelta(seconds=int(now - start))}"
        return text


def describe(result: Result) -> str:
    """Return how an evaluation ended, in one line."""
    message = de.printable(result.message.partition("\n")[0], 300)
    if result.kind and is_scored(result):
        return f"build failed: {message}"
    if result.kind or result.report is None:
        return f"{result.kind} error: {message}"
    summary = result.report["summary"]
    score = de.percent(summary["total_score"], summary["max_score"])
    build_time = result.report["build"]["execution_time"]
    test_time = summary["total_execution_time"]
    times = f"build {build_time:.0f} s, tests {test_time:.0f} s"
    return f"{summary['passed_tests']} of {summary['total_tests']} tests, {score} ({times})"


def print_plan(
    tasks: Sequence[Task],
    jobs: Sequence[Job],
    left_out: dict[str, list[Task]],
) -> None:
    """Print the Dockerfiles of each model, and what is left out and why."""
    planned = collections.Counter(job.task.model for job in jobs)
    counts = collections.Counter(task.model for task in tasks)
    for model, count in sorted(counts.items()):
        resumed = count - planned[model]
        say(f"{model_name(model)}: {count} Dockerfiles, {resumed} resumed")
    for problem, group in left_out.items():
        say(f"left out: {de.printable(problem, 400)}")
        for task in group:
            say(f"  {de.printable(task.dockerfile)}")


def model_name(model: str) -> str:
    """Return the name of a model for a message; a layout can have none."""
    return de.printable(model) or "(no model)"


def print_base_images(tasks: Sequence[Task]) -> None:
    """Print the base images of the Dockerfiles, the most common ones first."""
    counts = collections.Counter(image for task in tasks for image in base_images(task.dockerfile))
    for image, count in counts.most_common():
        say(f"base image {de.printable(image)}: {count} Dockerfiles")


def print_summary(
    tasks: Sequence[Task],
    scores: dict[Task, Score],
    problems: dict[Task, str],
) -> None:
    """Print the counts, what has no score and why, and the mean score of each model."""
    parts: dict[str, list[float]] = {task.model: [] for task in tasks}
    has_earlier = {task.model for task, score in scores.items() if not score.counts}
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    failed = 0
    for task in tasks:
        score = scores.get(task)
        if score and score.counts:
            parts[task.model].append(score.part)
            failed += not score.has_image
            if problems.get(task):
                reasons[f"not repeated: {problems[task]}"].append(task.name)
        else:
            label = "no new score, the earlier report stays" if score else "no score"
            problem = problems.get(task) or "not evaluated"
            reasons[f"{label}: {problem}"].append(task.name)
    scored = sum(len(group) for group in parts.values())
    say(f"{scored} of {len(tasks)} Dockerfiles have a score, {failed} of these a failed build")
    for reason, names in reasons.items():
        say(f"{de.printable(reason, 400)}: {de.quoted_list(names, '', MAX_LISTED)}")
    for model, group in sorted(parts.items()):
        mean = "no new reports" if model in has_earlier else "no reports"
        if group:
            mean = f"mean score {de.percent(sum(group), len(group))} of {len(group)} reports"
        say(f"{model_name(model)}: {mean}")


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="evaluate_all.py",
        usage="evaluate_all.py [OPTION]…",
        description="Evaluate many Dockerfiles in parallel. Started again, it goes on where it "
        "stopped.",
        epilog="Example: evaluate_all.py --artifacts answers --layout '{model}/{repo}/Dockerfile'\n"
        "Exit codes: 0 every Dockerfile has a scored report; 1 one has none; 2 bad arguments; "
        "130 Ctrl-C, 143 SIGTERM, 129 SIGHUP",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument_group("which Dockerfiles").add_argument
    add("--artifacts", metavar="DIR", default="artifacts", help="Dockerfiles (default: artifacts)")
    add(
        "--layout",
        metavar="PATH",
        action="append",
        type=Layout,
        help=f"their paths in it; repeatable (default: {DEFAULT_LAYOUT})",
    )
    add("--rubrics", metavar="DIR", default="rubrics", help="REPO.json (default: rubrics)")
    add(
        "--checkouts",
        metavar="DIR",
        help="build contexts, one folder for each repository; '' means the folders of the "
        "Dockerfiles (default: checkouts, if it exists)",
    )
    add("--overlay", action="store_true", help="lay the folder of a Dockerfile over its context")
    add("--model", metavar="PATTERN", action="append", default=[], help="only these; repeatable")
    add("--repo", metavar="PATTERN", action="append", default=[], help="only these; repeatable")
    add("--shard", metavar="K/N", default="1/1", help="only the Kth of N parts")

    add = parser.add_argument_group("what is evaluated again").add_argument
    add("--reports", metavar="DIR", default="reports", help="MODEL/REPO.json (default: reports)")
    add("--fresh", action="store_true", help="evaluate everything again")
    add("--retry-failed", action="store_true", help="evaluate failed builds again")
    add(
        "--no-repeat",
        action="store_true",
        help="repeat no failed builds and timeouts; errors are retried all the same",
    )
    add("--list", action="store_true", help="only print what there is to do")

    add = parser.add_argument_group("where it runs").add_argument
    add(
        "--parallel",
        metavar="N",
        type=int,
        help=f"evaluations at a time (default: the engine's processors, at most {MAX_PARALLEL})",
    )
    add("--dask", metavar="ADDRESS", help="on the workers of this Dask scheduler")
    add(
        "--build-cache",
        metavar="SIZE",
        help="after each evaluation prune BuildKit's cache to this size",
    )

    de.add_run_options(parser.add_argument_group("how each is evaluated"))
    return parser


def parse_arguments(argv: Sequence[str] | None = None) -> Arguments:
    """Return the options with their defaults; exit with 2 if they make no sense."""
    parser = argument_parser()
    arguments = parser.parse_args(argv)
    try:
        de.checked(evaluator_options(Job(Task("r", "m", "d", "r", "c", None, "r.json")), arguments))
    except ValueError as error:
        parser.error(str(error))
    shard = re.fullmatch("([1-9][0-9]*)/([1-9][0-9]*)", arguments.shard)
    if not shard or int(shard[1]) > int(shard[2]):
        parser.error("--shard: expected K/N with K from 1 to N")
    arguments.shard = (int(shard[1]), int(shard[2]))
    if arguments.parallel is not None and arguments.parallel < 1:
        parser.error("--parallel: expected a number over 0")
    if arguments.dask and arguments.parallel:
        parser.error("--dask: not with --parallel, the workers have threads")
    if not arguments.layout:
        arguments.layout = [Layout(DEFAULT_LAYOUT)]
    if arguments.checkouts is None and os.path.isdir("checkouts"):
        arguments.checkouts = "checkouts"
    arguments.run_id = os.urandom(8).hex()
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = parse_arguments(argv)
    de.accept_any_text()
    try:
        return evaluate_all(arguments)
    except UsageError as error:
        argument_parser().error(str(error))
    except (de.EvaluationError, OSError) as error:
        print(f"error: {de.printable(str(error), 500)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before anything was started
        return 128 + signal.SIGINT


def evaluate_all(arguments: Arguments) -> int:
    """Print the plan, run it, print the summary; return the exit code."""
    rubrics = Rubrics()
    tasks, left_out = find_tasks(arguments, rubrics)
    jobs, scores = plan(tasks, arguments, rubrics)
    print_plan(tasks, jobs, left_out)
    if arguments.list:
        print_base_images(tasks)
        return 1 if left_out else 0

    coordinator = Coordinator(arguments, jobs, scores, rubrics)
    begins_again = arguments.fresh or arguments.retry_failed
    if jobs:
        with DaskWorkers(arguments) if arguments.dask else Threads(arguments) as workers:
            if begins_again:
                begin_again(arguments)
            de.handle_signals(coordinator.on_signal)
            coordinator.run(workers)
    counted = sum(score.counts for score in scores.values())
    is_complete = counted == len(tasks) and not coordinator.stop_reason
    if begins_again and is_complete:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(begun_file(arguments))
    print_summary(tasks, scores, coordinator.problems)
    if coordinator.signal:
        return 128 + coordinator.signal
    return 1 if left_out or counted < len(tasks) else 0


if __name__ == "__main__":
    import evaluate_all as this_module  # the name by which Dask workers import it

    raise SystemExit(this_module.main())
