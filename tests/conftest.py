"""What all tests share: a hermetic home, the fake docker, the real engine, small builders of input."""

from __future__ import annotations

import array
import ast
import collections
import contextlib
import functools
import importlib.util
import io
import json
import os
import py_compile
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, NamedTuple

import jsonschema
import pytest
from engine import FakeHub, PrivateEngine, census, engine_answers, find_buildkit

import DockerfileEvaluator as de

PROJECT = Path(__file__).resolve().parent.parent
PROGRAM = [sys.executable, str(PROJECT / "DockerfileEvaluator.py")]
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
ENGINE_REQUIRED = os.environ.get("DOCKERFILE_EVALUATOR_REQUIRE_ENGINE") == "1"
STARTED_IN = dict(os.environ)
KEPT = ("PATH", "LANG", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_BUILDKIT", "COVERAGE_PROCESS_START")
KEPT += ("PYTHONPYCACHEPREFIX",)  # what is compiled there already need not be compiled again
KEPT += ("GOGC",)  # see tests/with-engine


def load_program(path: object) -> object:
    """Import a program of the project by its path, under the name that it has as a module."""
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def called(
    main: Callable[[tuple[str, ...]], int], *words: object, encoding: str = "utf-8"
) -> tuple[int, str, str]:
    """Call a program's `main` in this process; return its exit code, what it printed and what it complained of.

    Starting Python for each of hundreds of calls would take most of their time.
    """
    streams = [io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        for name, stream in zip(("stdout", "stderr"), streams):
            patch.setattr(sys, name, stream)
        try:
            code = main(tuple(map(str, words)))
        except SystemExit as end:
            code = end.code
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    return (code, *(stream.buffer.getvalue().decode() for stream in streams))


@pytest.fixture(scope="session", autouse=True)
def usual_signals():
    """Reset ignored signals, as nohup or a background job leaves them, so that child processes get the defaults.

    An ignored signal is inherited, a handler is not: with one that does nothing, pytest itself goes on
    ignoring the signal, and a child starts with the default.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(autouse=True)
def hermetic(monkeypatch, tmp_path):
    """Give each test a home and a current folder of its own, and none of the user's settings."""
    for name in list(os.environ):
        if name not in KEPT and not name.startswith("PYTEST_"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.chdir(home)


@functools.lru_cache(maxsize=None)
def schema(name: str) -> jsonschema.Draft202012Validator:
    """Return the project's schema of a rubric or a report, ready to validate."""
    file = PROJECT / "rubrics" / "schema" / f"{name}.schema.json"
    return jsonschema.Draft202012Validator(json.loads(file.read_text()))


@pytest.fixture(autouse=True)
def every_written_report_is_as_its_schema_says(tmp_path):
    yield
    for file in filter(Path.is_file, tmp_path.rglob("*.json")):
        with contextlib.suppress(ValueError, RecursionError):
            data = json.loads(file.read_text())
            if isinstance(data, dict) and "test_results" in data:
                schema("report").validate(data)


class Fake:
    """The fake docker's folder."""

    is_forked = True  # where this process itself calls it; else it is started as any program

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder, self.program = folder, program
        for name in ("images", "containers", "root"):
            (folder / name).mkdir(parents=True)

    @property
    def root(self) -> Path:
        """The WORKDIR of its containers."""
        return self.folder / "root"

    def write(self, name: str, value: object) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps(value))

    def fault(self, on: str, do: str, **more: object) -> None:
        """Let something go wrong at a call (`nth`), or at all calls `from` one on."""
        file = self.folder / "faults.json"
        faults = json.loads(file.read_text()) if file.exists() else []
        self.write("faults", [*faults, {"on": on, "do": do, **more}])

    def calls(self, *first: str) -> list[list[str]]:
        """Return the words of all calls, or of those that begin so, without those of the control."""
        file = self.folder / "calls"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []  # the last may be half written
        calls = [ast.literal_eval(line) for line in lines]
        calls = [call for call in calls if not first or not call["name"].startswith("control ")]
        return [call["words"] for call in calls if tuple(call["words"][: len(first)]) == first]

    def count(self, name: str) -> int:
        """Count the calls of a name, such as "run" (of the image), "control run" or "image rm"."""
        file = self.folder / "calls"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        calls = [ast.literal_eval(line) for line in lines]
        return sum(call["name"] == name and call["words"][-1] != "--help" for call in calls)

    def is_running(self, text: str) -> bool:
        """Whether a command that holds a text is running: its container is there, and it has said so.

        The command does so by `touch running`.
        """
        runs = [call for call in self.calls("run") if any(text in word for word in call)]
        name = runs[-1][runs[-1].index("--name") + 1] if runs else "none"
        return (self.root / "running").exists() and (self.folder / "containers" / name).exists()

    def left(self) -> list[str]:
        """Name every container and image that is still there."""
        return sorted(os.listdir(self.folder / "containers") + os.listdir(self.folder / "images"))


class Forked:
    """A call of the fake docker, as a Popen is to the evaluator, but forked from a Python that runs already.

    Most of a call's time is the start of Python.
    """

    def __init__(self, server: str, command: list[object], environment: dict[str, str]) -> None:
        words = [os.fsdecode(word) for word in command[1:]]
        call = repr((words, dict(environment), os.getcwd())).encode()
        self.stdout, out = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb")))
        self.stderr, errors = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb")))
        with out, errors:
            rights = array.array("i", [out.fileno(), errors.fileno()])
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(server)
            self._socket.sendmsg([b"%20d" % len(call)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        self._socket.sendall(call)
        self.pid = self._number()
        self.returncode = None

    def _number(self) -> int:
        return int(b"".join(iter(lambda: self._socket.recv(1), b"\n")))

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._socket], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._socket], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("docker", timeout)
            self.returncode = self._number()
            self._socket.close()
        return self.returncode


@pytest.fixture(scope="session")
def fake_program(tmp_path_factory):
    """Compile the fake docker once, since the suite starts it thousands of times."""
    compiled = str(tmp_path_factory.mktemp("compiled") / "fake_docker.pyc")
    return py_compile.compile(str(Path(__file__).with_name("fake_docker.py")), cfile=compiled, doraise=True)


@pytest.fixture(scope="session")
def fake_server(fake_program):
    """Start one fake docker from which calls are forked; return its address."""
    with tempfile.TemporaryDirectory() as folder:  # a socket's address must be short
        address = os.path.join(folder, "docker")
        words = [sys.executable, "-S", "-E", "-X", "utf8", "-W", "ignore", fake_program, "serve", address]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            server.stdout.readline()
            yield address
            server.stdin.close()


@pytest.fixture
def fake(monkeypatch, tmp_path, fake_program, fake_server):
    """Put the fake docker first on the PATH; calls of this process itself are forked from the server."""
    folder = tmp_path / "fake"
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "docker"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E -X utf8 "{fake_program}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_DOCKER", str(folder))
    fake, start = Fake(folder, program), subprocess.Popen

    def popen(command, **more):
        is_ours = command[0] == "docker" and fake.is_forked
        return Forked(fake_server, command, more["env"]) if is_ours else start(command, **more)

    monkeypatch.setattr(de.subprocess, "Popen", popen)
    return fake


@pytest.fixture
def limit(monkeypatch):
    """Set time limits, by their names in lower case: limit(call=1.0) sets CALL_LIMIT."""

    def shorten(**seconds: float) -> None:
        for name, value in seconds.items():
            monkeypatch.setattr(de, f"{name.upper()}_LIMIT", value)

    return shorten


@pytest.fixture
def short_limits(monkeypatch, limit):
    """Shorten the pauses before a retry, and set all other limits to 10 s, enough for a busy machine.

    A test that waits for one of those sets it by `limit`.
    """
    monkeypatch.setattr(de, "BUILD_PAUSE", 0.1)
    monkeypatch.setattr(de, "SLOW_ANSWER", 10.0)
    limit(call=10, start=10, end=10, create=10, pull=10, clean_up=10, sweep=10, kill=0.5)
    limit(**{"return": 0.5})


@pytest.fixture
def rubric(tmp_path):
    """Write a rubric; the tests are given as dicts, or as (type, params)."""

    def write(*tests: object, repo: str = "example") -> str:
        items = [t if isinstance(t, dict) else {"type": t[0], "params": t[1]} for t in tests]
        file = tmp_path / "rubric.json"
        file.write_text(json.dumps({"repo": repo, "tests": items}))
        return str(file)

    return write


@pytest.fixture
def dockerfile(tmp_path):
    """Write a Dockerfile in a build context of its own."""

    def write(*lines: str) -> str:
        folder = tmp_path / "context"
        folder.mkdir(exist_ok=True)
        file = folder / "Dockerfile"
        file.write_text("\n".join(lines) + "\n")
        return str(file)

    return write


@pytest.fixture(scope="session")
def busybox(tmp_path_factory):
    """Return a busybox: the host's, that of Debian's package, or that of the image."""
    if shutil.which("busybox"):
        return shutil.which("busybox")
    folder = tmp_path_factory.mktemp("busybox")
    if shutil.which("apt-get") and shutil.which("dpkg"):
        subprocess.run(["apt-get", "download", "busybox-static"], cwd=str(folder), capture_output=True)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True)
            return str(folder / "bin" / "busybox")
    if engine_answers():
        shell = 'id=$(docker create busybox:stable) && docker cp "$id:/bin/busybox" . && docker rm "$id"'
        if subprocess.run(["sh", "-c", shell], cwd=str(folder), capture_output=True).returncode == 0:
            return str(folder / "busybox")
    return pytest.skip("no busybox on this machine, in Debian's package or on an engine")


@pytest.fixture(params=["dash", "bash", "busybox"])
def shell(request):
    """Return each shell that images have as /bin/sh, as the words that start it here."""
    if request.param == "busybox":
        return [request.getfixturevalue("busybox"), "sh"]
    return [shutil.which(request.param) or pytest.skip(f"no {request.param} on this machine")]


@pytest.fixture
def evaluate(dockerfile, rubric):
    """Evaluate a Dockerfile (a list of lines) against tests; return the report."""

    def run(lines: list[str], *tests: object, **options: object) -> dict:
        report = de.evaluate(dockerfile(*lines), "example", rubric(*tests), **options)
        schema("report").validate(report)
        return report

    return run


def assert_holds(value: object, **expected: object) -> None:
    """Compare some fields of a dict, or attributes of an object, all in one go."""
    found = {name: value[name] if isinstance(value, dict) else getattr(value, name) for name in expected}
    assert found == expected


@pytest.fixture
def arguments(dockerfile, rubric, tmp_path):
    """Return the command line for an evaluation, with its report in tmp_path/report.json."""

    def make(lines: list[str], *tests: object, more: tuple[str, ...] = ()) -> list[str]:
        files = ["--dockerfile", dockerfile(*lines), "--rubric", rubric(*tests)]
        return [*files, "--repo", "example", "--output", str(tmp_path / "report.json"), *more]

    return make


@pytest.fixture
def report(tmp_path):
    """Read the report that the command line wrote."""
    return lambda: json.loads((tmp_path / "report.json").read_text())


def outcome(report) -> str:
    """Return the kind of error, or else the statuses."""
    if report["error"]:
        return report["error"]["kind"]
    return " ".join(sorted(set(statuses(report).values())))


def statuses(report: dict) -> dict[str, str]:
    return {row["test_id"]: row["status"] for row in report["test_results"]}


# Engines. Each worker of pytest-xdist has one of its own, so that tests on engines run beside each other
# and each can count all that it left.


@pytest.fixture(scope="session")
def any_engine():
    """Skip a test where no engine answers; fail it where one is required."""
    if not engine_answers():
        if ENGINE_REQUIRED:
            pytest.fail("no docker engine answers, and DOCKERFILE_EVALUATOR_REQUIRE_ENGINE=1 is set")
        pytest.skip("no docker engine answers (tests/with-engine starts one)")


@pytest.fixture(scope="session")
def networked_engine(any_engine):
    """The engine that the suite was started on, whose containers reach Debian's packages.

    Its tests run one after another. Fixtures that use it have the scope of a module or the session.
    """


def can_have_engines() -> bool:
    return not os.getuid() and bool(shutil.which("dockerd"))


@functools.lru_cache(maxsize=None)
def saved(*images: str) -> bytes:
    """Return images of the engine that the suite was started on."""
    words = ["docker", "save", *images]
    return subprocess.run(words, stdout=subprocess.PIPE, check=True, env=STARTED_IN).stdout


@contextlib.contextmanager
def private(folder: Path, *images: str, **furniture: object):
    """Start an engine that has these images; it goes afterwards, with all that is in it."""
    engine = PrivateEngine(folder, **furniture)
    try:
        engine.start()
        engine.load(saved(*images))
        yield engine
    finally:
        engine.stop()
        shutil.rmtree(str(folder), ignore_errors=True)


class OwnEngines(NamedTuple):
    """Two engines of a worker, one with debian:bookworm-slim, one with a bridge, and the Docker Hub of both."""

    plain: PrivateEngine
    bridged: PrivateEngine
    hub: FakeHub


@pytest.fixture(scope="session")
def own_engines(any_engine, tmp_path_factory):
    """Return the engines of this worker; None where all tests share one."""
    if "PYTEST_XDIST_WORKER" not in os.environ or not can_have_engines():
        yield None
        return
    hub = FakeHub(tmp_path_factory.mktemp("hub"))
    with contextlib.ExitStack() as stack:
        make = lambda *images, **more: stack.enter_context(  # noqa: E731
            private(tmp_path_factory.mktemp("own"), "busybox:stable", *images, hub=hub, **more)
        )
        yield OwnEngines(make("debian:bookworm-slim"), make(network=True), hub)


@pytest.fixture
def engine(request, own_engines, monkeypatch):
    """Point docker at an engine of this worker: the one with a bridge for `buildkit` and `bridge`, else the plain one.

    Every test on an engine uses this, before all its other fixtures.
    """
    if own_engines:
        builder = getattr(request.node, "callspec", None) and request.node.callspec.params.get("builder")
        names = {builder, *request.fixturenames}
        chosen = own_engines.bridged if names & {"buildkit", "bridge"} else own_engines.plain
        monkeypatch.setenv("DOCKER_HOST", chosen.host)


@pytest.fixture
def bridge(engine):
    """Run the test on the engine with a bridge, so that containers have a network of their own."""


@pytest.fixture(scope="module")
def private_engine(any_engine, tmp_path_factory):
    """Return a maker of engines that a test may harm; each has busybox:stable."""
    if not can_have_engines():
        reason = "a private engine needs root and dockerd"
        pytest.fail(reason) if ENGINE_REQUIRED else pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        make = lambda **more: private(tmp_path_factory.mktemp("e"), "busybox:stable", **more)  # noqa: E731
        yield lambda **furniture: stack.enter_context(make(**furniture))


@pytest.fixture(scope="session")
def buildkit_program(own_engines, tmp_path_factory):
    """Return a docker command line that builds with BuildKit; with ..._ANY_BUILDER=1, any."""
    if os.environ.get("DOCKERFILE_EVALUATOR_ANY_BUILDER") == "1":
        return shutil.which("docker")
    with pytest.MonkeyPatch.context() as patch:
        if own_engines:  # what is tried on the engine that all share would be counted by others
            patch.setenv("DOCKER_HOST", own_engines.bridged.host)
        program = find_buildkit(tmp_path_factory.mktemp("try"))
    return program or pytest.fail("no docker command line here builds with BuildKit; Debian's docker.io does")


@pytest.fixture
def buildkit(buildkit_program, monkeypatch, tmp_path):
    programs = tmp_path / "buildkit"
    programs.mkdir()
    os.symlink(buildkit_program, programs / "docker")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_BUILDKIT", "1")


@pytest.fixture
def legacy(monkeypatch):
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")


@pytest.fixture(params=["legacy", "buildkit"])
def builder(request):
    """Build with docker's first builder, then with BuildKit."""
    request.getfixturevalue(request.param)
    return request.param


@pytest.fixture
def clean_engine(engine):
    """See to it that the engine is after a test as it was before."""
    before = census()
    yield
    assert census() == before


def pytest_configure(config):
    config.addinivalue_line("markers", "private: needs engines of its own, which it may harm")
    config.addinivalue_line("markers", "networked: installs Debian's packages; one after another")
    config.addinivalue_line("markers", "long(why): not in tests/run quick, and may take longer than BUDGET")


ON_AN_ENGINE = {"engine", "any_engine"}


def pytest_collection_modifyitems(items):
    """Mark what needs an engine, so that `-m "not docker"` leaves it out, and give it this worker's."""
    for item in items:
        names = getattr(item, "fixturenames", [])
        if ON_AN_ENGINE & set(names):
            item.add_marker(pytest.mark.docker)
            # Before all other fixtures, those of a module too; all cases of a test share this list.
            if names[0] != "engine" and "networked_engine" not in names:
                names.insert(0, "engine")
        if "browser" in names:
            item.add_marker(pytest.mark.long("starts a browser"))
        if "private_engine" in names:
            item.add_marker(pytest.mark.private)
        if "networked_engine" in names:
            item.add_marker(pytest.mark.networked)
            item.add_marker(pytest.mark.long("installs Debian's packages"))


# Seconds that a test may take on a quiet machine, unless it is marked as long. Nothing fails for being slow:
# the end of a run names the tests that have grown.
BUDGET = 30.0


def pytest_terminal_summary(terminalreporter):
    """Name the tests that took longer than they may."""
    seconds = collections.Counter()
    for report in (one for found in terminalreporter.stats.values() for one in found):
        if isinstance(report, pytest.TestReport) and "long" not in report.keywords:
            seconds[report.nodeid] += report.duration
    for name, taken in seconds.most_common():
        if taken > BUDGET:
            terminalreporter.write_line(f"over the budget of {BUDGET:.0f} s: {name} ({taken:.0f} s)")
