# ruff: noqa: INP001 - a folder of programs is no package
"""What there is to evaluate: Dockerfiles, the reports on them, the base images that they start from.

For evaluate_all.py, which imports it:

    find() -> a Task for each Dockerfile, read_outcome() of its report, bases_of() its text
    Base.supply() -> the image is on an engine; keep() -> its digest is in a file, for every later start
"""

from __future__ import annotations

import collections
import contextlib
import fnmatch
import hashlib
import itertools
import json
import os
import re
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Collection, Iterator, Mapping, NamedTuple, Sequence

if TYPE_CHECKING:
    import argparse

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

import DockerfileEvaluator as de  # noqa: N813 - the folder above is on the path only now
from DockerfileEvaluator import listed, shown

CAUSE_LINES = 40  # of a log, its last ones, in which the cause of a failed build is looked for
NO_START = "the image cannot be started: "  # begins the message of every test of such an image
BUILD_FAILED = ("build", "build_timeout")  # kinds of a report's error
# What must be the same for a report to be that of a repetition, as for --resume.
SAME = ("dockerfile_sha256", "rubric_sha256", "context", "build_timeout", "build_options", "run_options",
        "options_sha256")  # fmt: skip
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


# -------- Reports -----------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What a report says, as far as it matters here."""

    kind: str  # of its error, "" for none
    message: str
    words: str  # for a line on the screen
    doubt: str  # what of it a busy machine, or a minute's trouble of a package mirror, may explain
    cause: str  # of a failed build
    asked: Sequence[Any]  # the values of SAME
    digest: str  # of the whole report

    @property
    def counts(self) -> bool:
        """Whether it is a result; a fault of engine or registry, a usage error and an interrupt are none."""
        return self.kind in ("", *BUILD_FAILED)


def read_outcome(path: str) -> Outcome | None:
    """Read a report; return None where there is none that is whole."""
    try:
        with open(path, "rb") as file:
            content = file.read()
        report = json.loads(content.decode())
        error, summary, build = report["error"], report["summary"], report["build"]
        kind, message = (str(error["kind"]), str(error["message"])) if error else ("", "")
        doubt, cause, seconds = doubt_of(report["test_results"]), "", f"{build['execution_time']:.0f} s"
        share = 100 * summary["total_score"] / (summary["max_score"] or 1)
        words = f"{summary['passed_tests']} of {summary['total_tests']} tests, {share:.0f} % (build {seconds}"
        words += f", tests {summary['total_execution_time']:.0f} s)"
        if kind in BUILD_FAILED:
            doubt, cause = "the build failed", cause_of(message, str(build["log"]))
            words = f"build failed: {shown(without_step(message))} ({seconds})"
        elif kind:
            names = {"engine": "engine fault", "registry": "registry out of reach", "usage": "usage error"}
            words = f"{names.get(kind, kind)}: {shown(message, 300)}"
        asked = [report["environment"].get(key) for key in SAME]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Outcome(kind, message, words, doubt, cause, asked, hashlib.sha256(content).hexdigest())


def doubt_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return why an image is to be tested once more: it did not start, or tests timed out; "" for neither."""
    no_start = [str(row["message"]) for row in rows if str(row["message"]).startswith(NO_START)]
    late = [str(row["test_id"]) for row in rows if row["status"] == "timeout"]
    return no_start[0][:300] if no_start else f"{listed(late, 3)} timed out" if late else ""


def cause_of(message: str, log: str) -> str:
    """Return why a build failed, in words that it shares with others: without its step."""
    end = "\n".join(log.splitlines()[-CAUSE_LINES:])  # what stands above may have been overcome
    found = [match[0] for match in SHARED_CAUSES.finditer(end)]
    words = found[-1] if found else without_step(message)
    return " ".join(re.sub(r"\b[0-9a-f]{12,}\b", "…", words).replace("'", "").split())


def without_step(message: str) -> str:
    """Return why a build failed, without the step in which it did."""
    return re.sub(r"^step \S+ of \S+ \(.*?\): (exit code \d+: )?", "", message)


# -------- Dockerfiles -------------------------------------------------------------------------


class Task:
    """One Dockerfile: its files, what it starts from, and the faults that its evaluations met."""

    def __init__(self, model: str, repo: str, dockerfile: str, options: argparse.Namespace) -> None:
        """Name its files by the options."""
        self.model, self.repo, self.dockerfile = model, repo, dockerfile
        self.place = os.path.join(model, repo)
        path = os.path.join(options.reports, self.place)
        self.report, self.log, self.first = f"{path}.json", f"{path}.log", f"{path}.first"
        self.rubric = os.path.join(options.rubrics, f"{repo}.json")
        self.context = os.path.join(options.checkouts, repo) if options.checkouts else ""
        self.bases: frozenset[Base] = frozenset()  # that are to be on an engine before it is built there
        self.is_repeat = False  # it is to be evaluated once more, alone
        self.faults = 0  # on engines that pass the control, or of a registry
        self.all_faults = 0

    def needs_repetition(self, outcome: Outcome) -> bool:
        """Whether a report is doubtful, and is not itself that of a repetition."""
        first = read_outcome(self.first)
        is_second = first is not None and first.digest != outcome.digest and first.asked == outcome.asked
        return bool(outcome.doubt) and not is_second

    def repetition_is_due(self) -> bool:
        """Whether an earlier start noted the repetition, for just these files, and did not finish it."""
        first, outcome = read_outcome(self.first), read_outcome(self.report)
        if not first or (outcome and outcome.counts and outcome.digest != first.digest):
            return False
        return self.is_of(first)

    def is_of(self, outcome: Outcome) -> bool:
        """Whether a report is on the files as they are."""
        return outcome.asked[:2] == [sha256(self.dockerfile), sha256(self.rubric)]

    def note_repetition(self) -> None:
        """Keep the report that is there, whole or not at all, before it is repeated."""
        shutil.copyfile(self.report, f"{self.first}.new")
        os.replace(f"{self.first}.new", self.first)


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


def files_below(folder: str, hidden: Collection[str], unread: list[OSError]) -> Iterator[str]:
    """Yield the files below a folder, in order; note in `unread` why folders cannot be read.

    Links are followed, but not in circles. Names that begin with a dot are passed over, but for those in
    `hidden`.
    """
    for place, folders, names in os.walk(folder, onerror=unread.append, followlinks=True):
        try:
            os.stat(os.path.join(place, os.curdir))  # what can be listed may be closed even so
        except OSError as error:
            unread.append(error)
            continue
        here = os.path.join(os.path.realpath(place), "")
        real = {name: os.path.join(os.path.realpath(os.path.join(place, name)), "") for name in folders}
        folders[:] = sorted(name for name in folders if not here.startswith(real[name]))
        for wanted in (folders, names):
            wanted[:] = [name for name in wanted if not name.startswith(".") or name in hidden]
        yield from (os.path.join(place, name) for name in sorted(names))


class Found(NamedTuple):
    """What there is below --artifacts."""

    tasks: list[Task]  # that were chosen, repository by repository
    left_out: dict[str, list[str]]  # files, by the reason
    reports: dict[str, list[Task]]  # all tasks, by the real paths of their reports


def find(options: argparse.Namespace) -> Found:
    """Look for Dockerfiles; of those that were chosen, find what cannot be evaluated. Raises OSError."""
    found = Found([], collections.defaultdict(list), collections.defaultdict(list))
    hidden = {name for layout in options.layout for name in layout.split("/") if name.startswith(".")}
    unread: list[OSError] = []
    for path in files_below(options.artifacts, hidden, unread):
        matches = [one.fullmatch(os.path.relpath(path, options.artifacts)) for one in options.patterns]
        for match in list(filter(None, matches))[:1]:  # of the first layout that fits
            task = Task(match.groupdict().get("model") or "", match["repo"], path, options)
            found.reports[os.path.realpath(task.report)].append(task)
    if unread and unread[0].filename == options.artifacts:
        raise unread[0]
    for error in unread:
        found.left_out[str(error.strerror)].append(os.path.normpath(error.filename))
    chosen = [task for tasks in found.reports.values() for task in tasks if is_chosen(task, options)]
    faults = {path: fault_of_rubric(path) for path in {task.rubric for task in chosen}}
    read = {os.path.realpath(path) for task in chosen for path in (task.dockerfile, task.rubric)}
    read.add(os.path.realpath(options.bases_file))
    folders: set[str] = set()  # that reports are in
    for folder in map(os.path.dirname, found.reports):
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)  # noqa: PLW2901 - up to the root
    for task in sorted(chosen, key=lambda task: (task.repo, task.model)):
        report = os.path.realpath(task.report)
        reason = faults[task.rubric]
        if report in read:
            reason = f"{task.report} would overwrite what is to be read"
        elif found.reports[report][1:]:
            reason = f"{task.report} would be the report on each of them"
        elif not folders.isdisjoint(map(os.path.realpath, (report, task.log, task.first))):
            reason = f"{task.report} would be a folder of reports, too"
        elif task.context and not os.path.isdir(task.context):
            reason = reason or f"{task.context}: no such folder for the build context"
        elif not os.path.isfile(task.dockerfile) or not os.access(task.dockerfile, os.R_OK):
            reason = reason or "not a regular file that can be read"
        found.left_out[reason].append(task.dockerfile) if reason else found.tasks.append(task)
    return found


def is_chosen(task: Task, options: argparse.Namespace) -> bool:
    """Whether model and repository are among those asked for."""
    asked = ((task.model, options.model), (task.repo, options.repo))
    return all(not some or any(fnmatch.fnmatchcase(name, one) for one in some) for name, some in asked)


def fault_of_rubric(path: str) -> str:
    """Return why a rubric is refused, "" where it is not."""
    try:
        de.load_rubric(path)
    except de.EvaluationError as error:
        first, *more = str(error).splitlines()
        return f"{first} (and {len(more)} more faults)" if more else first
    return ""


# -------- Base images: what Dockerfiles start from --------------------------------------------

MAX_TEXT = 1024 * 1024  # characters of a Dockerfile that are read
PULLS = 3  # at a time
PULL_LIMIT = 3600.0  # seconds for one
# How `docker pull` says that a registry has no such image, or that this is no name of one.
SAYS_NONE = re.compile(
    "denied|unauthorized|does not exist|manifest unknown|not found|no matching manifest|invalid reference"
)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^${}]*))?\})")  # $NAME, ${NAME}, ${NAME:-default}
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:\\.|[^"\\])*"|'[^']*')+""")  # of a shell, quotes and all
_IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]*", re.ASCII)  # never an option of docker's
_DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*=\s*(\S+)\s*")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and words of each instruction of a Dockerfile; `# syntax=` is one of the name SYNTAX.

    Continued lines are joined; comments, also those between such lines, and heredocs are left out.
    """
    directives: dict[str, str] = {}
    text = text.lstrip("\ufeff").replace("\r\n", "\n")
    for line in text.split("\n"):
        directive = _DIRECTIVE.fullmatch(line)
        if not directive:
            break
        directives.setdefault(directive[1].lower(), directive[2])
    if "syntax" in directives:
        yield "SYNTAX", directives["syntax"]
    text = re.sub(r"(?m)^[ \t]*(#.*)?(\n|\Z)", "", text)
    text = re.sub(re.escape(directives.get("escape", "\\")) + r"[ \t]*\n", "", text)
    lines = iter(text.split("\n"))
    for line in lines:
        name, words = [*line.split(None, 1), "", ""][:2]
        yield name.upper(), words
        for word in _WORD.findall(words) if name.upper() in ("RUN", "COPY", "ADD") else ():
            heredoc = re.fullmatch(r"\d*<<(-?)([^<]+)", word)
            dash, end = heredoc.groups() if heredoc else ("", "")
            for body in lines if heredoc else ():
                if (body.lstrip("\t") if dash else body) == re.sub(r"[\"'\\]", "", end):
                    break


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its variables replaced, "" where one has no value, or a form that is rare."""
    text = _VARIABLE.sub(lambda it: values.get(it[1] or it[2]) or it[3] or "$", re.sub("[\"']", "", text))
    return "" if "$" in text or "\\" in text else text


def bases_of(text: str, given: Mapping[str, str]) -> list[str]:
    """Return the images that a build of a Dockerfile takes from elsewhere, as far as its text tells.

    `given` are the build arguments; its TARGETPLATFORM is the platform that is pulled for. What cannot be
    resolved, and an image for another platform, is left to the build.
    """
    values = {name: value for name, value in given.items() if name.endswith("PLATFORM")}
    stages: list[str] = []
    found: list[str] = []
    for name, words in instructions(text):
        flags = list(itertools.takewhile(lambda word: word.startswith("--"), words.split()))
        rest = [*words.split()[len(flags) :], "", "", ""]
        sources: list[str] = []
        if name == "SYNTAX":
            sources = [words]
        elif name == "ARG" and not stages:
            for word in _WORD.findall(words):
                argument, _, default = word.partition("=")
                values[argument] = given.get(argument) or expanded(default, values)
        elif name == "FROM":
            platforms = [expanded(flag.partition("=")[2], values) for flag in flags]
            is_ours = all(platform and platform == given.get("TARGETPLATFORM") for platform in platforms)
            sources = [expanded(rest[0], values)] if is_ours else []
        elif name in ("COPY", "RUN"):
            parts = [part for flag in flags for part in re.sub("^--(mount=)?", "", flag).split(",")]
            sources = [part[len("from=") :] for part in parts if part.startswith("from=")]
        known = ("scratch", *stages, *map(str, range(len(stages))))
        found += [image for image in sources if _IMAGE.fullmatch(image) and image.lower() not in known]
        if name == "FROM":
            stages.append(rest[2].lower() if rest[1].lower() == "as" else "scratch")
    return list(dict.fromkeys(it if re.search("[:@][^/]*$", it) else f"{it}:latest" for it in found))


def build_arguments(options: Sequence[str]) -> dict[str, str]:
    """Return the arguments among the options for docker build; TARGETPLATFORM is that of --platform."""
    given: dict[str, str] = {}
    words = iter(options)
    for word in words:
        flag, has_value, value = word.partition("=")
        if flag in ("--build-arg", "--platform"):
            value = value if has_value else next(words, "")
            name, has_value, value = (
                value.partition("=") if flag == "--build-arg" else ("TARGETPLATFORM", "=", value)
            )
            given[name] = value if has_value else os.environ.get(name, "")
    return given


class Base:
    """An image that Dockerfiles start from, by name, and by digest once that is known."""

    _few = threading.Semaphore(PULLS)

    def __init__(self, name: str, digest: str = "") -> None:
        """Name it as a Dockerfile does; a digest in the name is the one that counts."""
        self.name, self.digest = name, name.partition("@")[2] or digest
        self.problem = ""  # why an engine does not have it, after all tries
        self._repository = re.sub("(:[^/:@]*)?(@.*)?$", "", name)

    def supply(self, docker: de.Engine, options: Sequence[str]) -> str:
        """Have an engine take it, by the digest if that is known; return what is to be told.

        Where its registry answers that there is none, that is for the build to fail by. Raises EngineError
        where it cannot be had.
        """
        digests, told = self.digests(docker), ""
        if digests is None or (self.digest and self.digest not in digests):
            image, began = f"{self._repository}@{self.digest}" if self.digest else self.name, time.monotonic()
            with self._few:
                answer = docker.ask("pull", *options, image, limit=PULL_LIMIT)
            words = de.last_line(answer.stderr).replace("Error response from daemon: ", "")
            if answer.returncode and (self.digest or not SAYS_NONE.search(words.replace(self.name, ""))):
                raise de.EngineError(words)
            if self.digest and "@" not in self.name:
                docker.ask("image", "tag", image, self.name)
            digests = self.digests(docker)
            told = (
                f"left to the build: {words}"
                if answer.returncode
                else f"pulled in {time.monotonic() - began:.0f} s"
            )
        elif not digests:
            told = "there without a digest, taken as it is"
        self.digest = self.digest or "".join((digests or [])[:1])
        return told

    def digests(self, docker: de.Engine) -> list[str] | None:
        """Return its digests in its repository, none where it was imported; None where it is not there."""
        form = '{{range .RepoDigests}}{{.}}{{"\\n"}}{{end}}'
        answer = docker.ask("image", "inspect", "--format", form, self.name)
        found = [_short(line).partition("@") for line in answer.stdout.split()]
        ours = [digest for repository, _, digest in found if repository == _short(self._repository)]
        return None if answer.returncode else ours


def _short(repository: str) -> str:
    return re.sub("^(docker.io/)?(library/)?", "", repository)


def plan_bases(tasks: Sequence[Task], docker: de.Engine, options: argparse.Namespace) -> list[Base]:
    """Read what Dockerfiles start from into their `bases`; raise OSError or ValueError for a broken file.

    The engine is only asked for its platform, which is pulled for unless the options name another one.
    """
    given = build_arguments(options.build_option)
    options.pull_options = [f"--platform={given['TARGETPLATFORM']}"] if "TARGETPLATFORM" in given else []
    with contextlib.suppress(de.EngineError):
        answer = docker.ask("version", "--format", "{{.Server.Os}}/{{.Server.Arch}}")
        for name in ("BUILDPLATFORM", "TARGETPLATFORM") if answer.returncode == 0 else ():
            given.setdefault(name, answer.stdout.strip())
    kept = read_digests(options.bases_file)
    bases: dict[str, Base] = {}
    for task in tasks:
        with open(task.dockerfile, encoding="utf-8", errors="replace") as file:
            names = bases_of(file.read(MAX_TEXT), given)
        task.bases = frozenset(bases.setdefault(it, Base(it, kept.get(it, ""))) for it in names)
    return list(bases.values())


def read_digests(path: str) -> dict[str, str]:
    """Return the digests that a file keeps, by name; raise OSError or ValueError where it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            found: Any = json.load(file)
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict) or not all(isinstance(digest, str) for digest in found.values()):
        raise ValueError("expected names of images and their digests; without this file, new ones are taken")
    return found


def keep(path: str, base: Base) -> bool:
    """Write down the digest of a base; return False where another start was faster: then it is that one's."""
    kept = read_digests(path)
    if base.digest and kept.setdefault(base.name, base.digest) != base.digest:
        base.digest = kept[base.name]
        return False
    if base.digest:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        de.write_file(path, json.dumps(kept, indent=2, sort_keys=True) + "\n")
    return True
