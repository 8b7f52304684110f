"""Fixtures that all tests share: environment, the fake engine, evaluations, real engines."""

import contextlib
import functools
import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from engine import FakeHub, census, docker, engine_answers, started_engine
from fake_engine import Engine

import DockerfileEvaluator as de

PROJECT = Path(__file__).resolve().parent.parent
PROGRAM = [sys.executable, str(PROJECT / "DockerfileEvaluator.py")]
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
ENGINE_REQUIRED = os.environ.get("DOCKERFILE_EVALUATOR_REQUIRE_ENGINE") == "1"
STARTED_IN = dict(os.environ)
KEPT = {"PATH", "LANG", "DOCKER_HOST", "DOCKER_CONTEXT"}
# tests/run and tests/with-engine set these.
KEPT |= {"COVERAGE_PROCESS_CONFIG", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "GOGC"}


# Environment


@pytest.fixture(scope="session", autouse=True)
def default_signals():
    """Give child processes the default signals, even if pytest was started by nohup or with &.

    An ignored signal is inherited by child processes, a handler is not.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture(autouse=True)
def hermetic(monkeypatch, tmp_path):
    """Give each test folders of its own, and none of the user's settings."""
    for name in set(os.environ) - KEPT:
        if not name.startswith("PYTEST_"):
            monkeypatch.delenv(name)
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)  # where it is kept once it was determined
    monkeypatch.chdir(tmp_path / "home")


# The fake engine


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Let docker be the fake engine, here and in programs; the control experiment writes little."""
    fake = Engine(tmp_path / "fake")
    fake.patch(monkeypatch)
    monkeypatch.setenv("PYTHONPATH", fake.site)
    monkeypatch.setattr(de, "LARGE", 4096)  # bytes
    return fake


# Rubrics, Dockerfiles and evaluations


@functools.lru_cache(maxsize=None)
def schema(name):
    """Return a validator for the project's schema of a rubric or a report."""
    import jsonschema

    file = PROJECT / "rubrics" / "schema" / f"{name}.schema.json"
    content = json.loads(file.read_text())
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


@pytest.fixture
def rubric(tmp_path):
    """Write a rubric; tests are given as dicts, or as (type, params)."""

    def write(*tests, **top):
        items = [
            {"type": test[0], "params": test[1]} if isinstance(test, tuple) else test
            for test in tests
        ]
        file = tmp_path / "rubric.json"
        file.write_text(json.dumps({"repo": "example", "tests": items, **top}))
        return str(file)

    return write


@pytest.fixture
def dockerfile(tmp_path):
    """Write a Dockerfile in a build context of its own."""

    def write(*lines):
        folder = tmp_path / "context"
        folder.mkdir(exist_ok=True)
        file = folder / "Dockerfile"
        file.write_text("\n".join(lines) + "\n")
        return str(file)

    return write


@pytest.fixture
def evaluate(dockerfile, rubric):
    """Evaluate a Dockerfile (a list of lines) against tests; return the report.

    `top` are keys of the rubric.
    """

    def run(lines, *tests, top=(), **options):
        report = de.evaluate(dockerfile(*lines), "example", rubric(*tests, **dict(top)), **options)
        schema("report").validate(report)
        return report

    return run


@pytest.fixture
def score(evaluate):
    """Evaluate the Dockerfile `FROM x` against tests; return the report."""
    return functools.partial(evaluate, ["FROM x"])


@pytest.fixture
def arguments(dockerfile, rubric, tmp_path):
    """Return the arguments for an evaluation that writes its report to tmp_path/report.json."""

    def make(lines, *tests, more=()):
        files = ["--dockerfile", dockerfile(*lines), "--rubric", rubric(*tests)]
        return [*files, "--repo", "example", "--output", str(tmp_path / "report.json"), *more]

    return make


@pytest.fixture
def report(tmp_path):
    """Read the report that the command line has written."""

    def read():
        content = json.loads((tmp_path / "report.json").read_text())
        schema("report").validate(content)
        return content

    return read


def make_report(outcome, options, inputs=None, suspect=None, log=""):
    """Return a report: `outcome` is the kind of its error, or the statuses of its tests."""
    inputs = inputs or de.read_inputs(options)
    evaluation = de.Evaluation(options, inputs, de.Docker("docker"), de.Console(None))
    evaluation.build = de.Build(0, log=log)
    if isinstance(outcome, str):
        evaluation.error = de.EvaluationError(outcome, "why", suspect)
    else:
        evaluation.image = {"Id": "1d" * 32}
        for at, (test, status) in enumerate(zip(inputs.rubric.tests, outcome)):
            evaluation.results[test.id] = de.Result(status, f"m{at}")
    return de.make_report(evaluation)


TAKEN = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def called(main, *words, encoding="utf-8", is_one_screen=False):
    """Call a program's main() in this process; return its exit code, stdout and stderr.

    As on one screen, stdout may have both.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2))
    before = {number: signal.getsignal(number) for number in TAKEN}
    try:
        screen = contextlib.redirect_stderr(out if is_one_screen else err)
        with contextlib.redirect_stdout(out), screen:
            code = main([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return (code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


@pytest.fixture
def start():
    """Start the command line in a process of its own."""
    with contextlib.ExitStack() as stack:

        def run(*words, **more):
            process = subprocess.Popen([*PROGRAM, *words], **{**PIPES, **more})
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield run


def load_program(path):
    """Import a program of the project by its path."""
    return importlib.import_module(path.stem)


def outcome(report):
    """Return the kind of error, or else the statuses."""
    if report["error"]:
        return report["error"]["kind"]
    return " ".join(sorted(set(statuses(report).values())))


def statuses(report):
    """Return the status of each test by its id."""
    return {row["test_id"]: row["status"] for row in report["test_results"]}


def messages(report):
    """Return the messages of all tests."""
    return [row["message"] for row in report["test_results"]]


# Shells


@pytest.fixture(scope="session")
def busybox(tmp_path_factory):
    """Return a busybox: the host's, or that of Debian's package."""
    shell = """
        command -v busybox && exit
        apt-get download busybox-static >&2 && dpkg -x *.deb . && find $PWD -path '*/bin/busybox'
    """
    done = subprocess.run(["sh", "-c", shell], cwd=tmp_path_factory.mktemp("busybox"), **PIPES)
    return done.stdout.decode().strip() or pytest.skip("no busybox here or in Debian's package")


OTHERS = [
    pytest.param(name, marks=pytest.mark.long("the same in another shell"))
    for name in ("bash", "busybox")
]


@pytest.fixture(params=["dash", *OTHERS])
def shell(request, tmp_path):
    """Return each shell that images have as /bin/sh, under the name sh."""
    name = request.param
    program = request.getfixturevalue("busybox") if name == "busybox" else shutil.which(name)
    link = tmp_path / "sh"
    link.symlink_to(program or pytest.skip(f"no {name} on this machine"))
    return str(link)


# Real engines. Each worker of pytest-xdist has one of its own: tests run in parallel, and each can
# list all that is on its engine. Without xdist or root, all tests share the engine that the suite
# was started on.


def skip(reason):
    """Skip a test; fail it where an engine is required."""
    (pytest.fail if ENGINE_REQUIRED else pytest.skip)(reason)


@pytest.fixture(scope="session")
def any_engine():
    """Skip a test where no engine answers."""
    if not engine_answers():
        skip("no docker engine answers (tests/with-engine starts one)")


@pytest.fixture(scope="session")
def networked_engine(any_engine):
    """The engine that the suite was started on: its containers reach Debian's packages.

    Its tests run one after another. Fixtures that use it have the scope of a module or the session.
    """


@pytest.fixture(scope="session")
def example_image(networked_engine):
    """Build the image of artifacts/example.dockerfile once; evaluations take its layers."""
    files = ["--file", "artifacts/example.dockerfile", "artifacts"]
    words = ["docker", "build", "--quiet", "--tag", "readme-example", *files]
    subprocess.run(words, check=True, cwd=str(PROJECT), env={**STARTED_IN, "DOCKER_BUILDKIT": "1"})
    yield
    docker("image", "rm", "readme-example")


CAN_START_ENGINES = not os.getuid() and shutil.which("dockerd")


@functools.lru_cache(maxsize=None)
def saved(*images):
    """Return the archive of images on the engine that the suite was started on."""
    words = ["docker", "save", *images]
    return subprocess.run(words, stdout=subprocess.PIPE, check=True, env=STARTED_IN).stdout


@pytest.fixture(scope="session")
def own_engine(any_engine, tmp_path_factory):
    """Return the engine of this worker, whose registries are fake; None if all tests share one."""
    if "PYTEST_XDIST_WORKER" not in os.environ or not CAN_START_ENGINES:
        yield None
        return
    hub = FakeHub(tmp_path_factory.mktemp("hub"))
    images = saved("busybox:stable", "debian:bookworm-slim")
    with started_engine(tmp_path_factory.mktemp("own"), images, hub=hub) as started:
        yield started


@pytest.fixture
def engine(own_engine, monkeypatch):
    """Select the engine of this worker.

    Every test on an engine uses this, before all its other fixtures.
    """
    if own_engine:
        monkeypatch.setenv("DOCKER_HOST", own_engine.host)


@pytest.fixture(scope="module")
def private_engine(any_engine, tmp_path_factory):
    """Return a function that starts engines with busybox:stable, which the test may damage."""
    if not CAN_START_ENGINES:
        skip("a private engine needs root and dockerd")
    with contextlib.ExitStack() as stack:

        def start(**options):
            folder = tmp_path_factory.mktemp("e")
            return stack.enter_context(started_engine(folder, saved("busybox:stable"), **options))

        yield start


@pytest.fixture
def clean_engine(engine):
    """Fail a test that leaves anything on the engine."""
    before = census()
    yield
    assert census() == before


def pytest_addoption(parser):
    text = "write tests/transcripts/ anew"
    parser.addoption("--rewrite-transcripts", action="store_true", help=text)


MARKS = {  # of tests with a fixture
    "any_engine": [pytest.mark.docker],
    "browser": [pytest.mark.long("starts a browser")],
    "private_engine": [pytest.mark.private],
    "networked_engine": [pytest.mark.networked, pytest.mark.long("installs Debian's packages")],
}


def pytest_collection_modifyitems(items):
    """Mark tests by their fixtures, and let `engine` come first."""
    for item in items:
        names = item.fixturenames
        for mark in [mark for name in MARKS if name in names for mark in MARKS[name]]:
            item.add_marker(mark)
        # Before the fixtures of a module too; all cases of a test share this list.
        if "any_engine" in names and names[0] != "engine" and "networked_engine" not in names:
            names.insert(0, "engine")
