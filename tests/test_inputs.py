"""Section 6: what the digest of the inputs covers, --resume, --overlay, pipes, evaluate()."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from cases import FALSE, TRUE
from conftest import called, ended_by, error_of, outcome
from engine import wait_for

import DockerfileEvaluator as de


def sh(command):
    """Run a shell command; return the lines of its output, sorted."""
    return sorted(subprocess.check_output(["sh", "-ec", command]).decode().splitlines())


def files_of(folder):
    """Return the folders, links and files in a folder: "a/", "b -> a", "c: its content"."""
    line = (
        "-type d -printf '%P/\n' -o -type l -printf '%P -> %l\n' -o -printf '%P: ' -exec cat {} ';'"
    )
    return sh(f"find {folder} -mindepth 1 {line}")


@pytest.fixture
def options(rubric):
    """Make a context and an overlay in the current folder; return the options of an evaluation."""
    sh("mkdir -p context overlay/folder; echo FROM x >context/Dockerfile")
    sh("echo x >overlay/a; ln -s a overlay/link")
    os.link(rubric(TRUE), "rubric.json")
    return de.checked(de.Options("context/Dockerfile", "r", "rubric.json", overlay="overlay"))


# The digest


class Change(NamedTuple):
    """A change of the inputs, by a shell command or by other options."""

    what: str
    is_covered: bool
    shell: str = ""
    options: Any = ()
    version: str = de.__version__


CHANGES = [
    Change("nothing", False),
    Change("the Dockerfile", True, "echo >>context/Dockerfile"),
    Change("the rubric", True, "echo >>rubric.json"),
    Change("the name of an overlaid file", True, "mv overlay/a overlay/b"),
    Change("the content of an overlaid file", True, "echo >>overlay/a"),
    Change("the mode of an overlaid file", True, "chmod +x overlay/a"),
    Change("the target of an overlaid link", True, "ln -sfn b overlay/link"),
    Change("one more overlaid folder", True, "mkdir overlay/folder/more"),
    Change("the times of overlaid files", False, "touch -d 2001-01-01 overlay overlay/*"),
    Change("a file of the context", False, "echo >context/more"),
    Change("no overlay", True, options={"overlay": None}),
    Change("another repo", True, options={"repo": "s"}),
    Change("another context", True, options={"context": "."}),
    Change("another spelling of the context", False, options={"context": "./context/"}),
    Change("a run option", True, options={"run_options": ["--memory=1g"]}),
    Change("a build option", True, options={"build_options": ["--memory=1g"]}),
    Change("no cache", False, options={"build_options": ["--no-cache"]}),
    Change(
        "a namespace of caches",
        False,
        options={"build_options": ["--build-arg=BUILDKIT_CACHE_MOUNT_NS=model"]},
    ),
    Change("a limit", False, options={"build_timeout": 9.0}),
    Change("another release of this series", False, version="3.0.99"),
    Change("another series", True, version="3.1.0"),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.what)
def test_digest_covers_all_that_a_score_depends_on(options, monkeypatch, change):
    before = de.read_inputs(options).sha256

    sh(change.shell)
    monkeypatch.setattr(de, "__version__", change.version)
    after = de.read_inputs(options._replace(**dict(change.options))).sha256

    assert (after != before) is change.is_covered


# --resume


class Resumed(NamedTuple):
    """The error of a report, other options afterwards, and whether it is taken."""

    what: str
    is_taken: bool
    error: str | None = None
    options: Any = ()
    image_starts: bool = True


RESUMED = [
    Resumed("a score, with other limits", True, options={"build_timeout": 9.0, "offline": True}),
    Resumed("a failed build", True, "build"),
    Resumed("a failed build, without registries", False, "build", {"offline": True}),
    Resumed("a failed build, with another limit", False, "build", {"start_timeout": 9.0}),
    Resumed("a limit of the build", True, "build_timeout"),
    Resumed("another limit of the build", False, "build_timeout", {"build_timeout": 9.0}),
    Resumed("no score", False, "engine"),
    Resumed("no start", True, image_starts=False),
    Resumed("no start, with another limit", False, None, {"start_timeout": 9.0}, False),
]


@pytest.mark.parametrize("row", RESUMED, ids=lambda row: row.what)
def test_score_is_taken_for_the_same_inputs_a_failed_build_for_the_same_limits(options, row):
    report = ended_by(row.error, options)
    report["environment"]["image_starts"] = row.image_starts
    inputs = de.read_inputs(options)

    later = options._replace(**dict(row.options))

    assert de.is_report_for(report, later, inputs.sha256) is row.is_taken
    assert not de.is_report_for(report, later, "another")


@pytest.mark.parametrize("test", [TRUE, FALSE], ids=["passed", "failed"])
def test_resumed_report_is_shown_and_written_as_junit_without_docker(fake, arguments, report, test):
    words = arguments(["FROM x"], test, more=["--resume"])
    first, _, _ = called(de.main, *words)
    before = report()

    code, out, _ = called(de.main, *words, "--junit=junit.xml")

    assert (code, report(), fake.count("build")) == (first, before, 1)
    assert de.score_line(before) in out
    assert os.path.exists("junit.xml")


NO_REPORTS = ["echo '{' >", "echo '[]' >", "echo '{\"environment\": 3}' >", "printf '\\377' >"]
NO_REPORTS += ["yes [ | tr -d '\n' | head -c 99999 >", "mkfifo", "mkdir", "ln -s /dev/zero", ": "]


@pytest.mark.parametrize("command", NO_REPORTS)
def test_what_is_no_report_is_not_taken(options, command):
    sh(f"{command} report.json")

    report = de.read_report("report.json")

    assert not de.is_report_for(report, options, de.read_inputs(options).sha256)


# Pipes


def test_dockerfile_and_rubric_can_be_pipes(fake, options):
    """The context is then the current folder."""
    sh("mkfifo overlay/dockerfile overlay/rubric")
    writer = "printf 'FROM x\nRUN exit 3\n' >overlay/dockerfile; cat rubric.json >overlay/rubric"

    with subprocess.Popen(["sh", "-c", writer]):
        report = de.evaluate("overlay/dockerfile", "r", "overlay/rubric")

    assert error_of(report)[0] == "build"
    assert report["environment"]["context"] == "."
    assert fake.calls("build")[0][-2:] == ["--file=-", os.getcwd()]


def test_dockerfile_on_standard_input_can_be_a_file(fake, start, dockerfile, rubric):
    words = ["--dockerfile=/dev/stdin", "--repo=r", f"--rubric={rubric(TRUE)}"]

    with open(dockerfile("FROM x")) as file:
        start(*words, stdin=file).communicate(timeout=60)

    assert fake.calls("build")[0][-1] == os.getcwd()


# --overlay


class Laid(NamedTuple):
    """Shell commands that make files in `context` and `overlay`, and what the copy has then."""

    what: str
    shell: str
    copy: list


LAID = [
    Laid(
        "files beside others",
        "mkdir context/.git context/b overlay/b; cd context; echo old >a; echo kept >b/c;"
        "cd ../overlay; echo new >a; echo new >b/d",
        [".git/", "a: new", "b/", "b/c: kept", "b/d: new"],
    ),
    Laid(
        "a file over a link to a file",
        "ln -s ../out/file context/x; echo new >overlay/x",
        ["x: new"],
    ),
    Laid(
        "a folder over a link to a folder",
        "ln -s ../out context/x; mkdir overlay/x; echo new >overlay/x/file",
        ["x/", "x/file: new"],
    ),
    Laid(
        "a folder over a file",
        "echo old >context/x; mkdir overlay/x; echo new >overlay/x/y",
        ["x/", "x/y: new"],
    ),
    Laid("a file over a folder", "mkdir -p context/x/y; echo new >overlay/x", ["x: new"]),
    Laid("a link over a folder", "mkdir -p context/x/y; ln -s /etc overlay/x", ["x -> /etc"]),
    Laid("a link over a link", "ln -s ../out context/x; ln -s y overlay/x", ["x -> y"]),
    Laid("pipes", "mkfifo context/x overlay/y", []),
]


@pytest.mark.parametrize("row", LAID, ids=lambda row: row.what)
def test_overlay_lies_over_a_copy_and_nothing_is_written_through_a_link(fake, row):
    sh(f"mkdir context overlay out; echo outside >out/file; {row.shell}")
    before = sh("ls -lR context")
    options = de.Options("", "", context="context", overlay="overlay")

    with de.build_context(de.Run(de.Docker("docker")), options) as folder:
        copied = files_of(folder)

    assert copied == row.copy
    assert sh("ls -lR context") == before
    assert files_of("out") == ["file: outside"]
    assert not os.path.exists(folder)


def test_copy_has_the_modes_of_the_files_but_can_be_removed():
    sh("mkdir -p -m 551 source/folder; touch source/file; chmod 750 source/file")

    de.copy_over("source", "copy", de.Docker("docker"))

    assert sh("stat -c '%n %a' copy/*") == ["copy/file 750", "copy/folder 751"]


def test_interrupt_ends_the_copy():
    sh("mkdir source; touch source/file")
    docker = de.Docker("docker")
    docker.interrupt()

    with pytest.raises(de.EvaluationError):
        de.copy_over("source", "copy", docker)


def test_docker_gets_the_copy(fake, evaluate, tmp_path):
    os.mkdir("overlay")

    evaluate(["FROM x"], TRUE, overlay="overlay")

    assert fake.calls("build")[0][-1].startswith(str(tmp_path / "tmp"))


def test_overlay_of_more_than_one_gibibyte_is_a_failed_build(fake, options):
    sh("truncate -s 1G overlay/sparse && echo x >overlay/more")

    report = de.run_evaluation(
        options, de.read_inputs(options), de.Docker("docker"), de.Console(None)
    )

    assert outcome(report) == "build"
    assert fake.count("build") == 0


# The function evaluate()


def test_keywords_of_evaluate_are_the_options_of_an_evaluation_with_their_defaults():
    options = vars(de._parser().parse_args([]))
    for name in ("dockerfile", "repo", "rubric", "output", "verbose", "check", "tests"):
        del options[name]

    keywords = de.evaluate.__kwdefaults__

    given, expected = (
        {name: value or None for name, value in part.items()} for part in (keywords, options)
    )
    assert given == expected


def test_threads_may_evaluate_at_a_time_and_nothing_is_printed(fake, dockerfile, rubric, capfd):
    """In a thread, Python refuses to install signal handlers."""
    files = (dockerfile("FROM x"), "r", rubric(TRUE, FALSE))

    with ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(lambda at: de.evaluate(*files, f"{at}.json"), range(3)))

    assert [outcome(report) for report in reports] == ["failed passed"] * 3
    assert [de.read_report(f"{at}.json") for at in range(3)] == reports
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("call", ["build", "run"])
def test_interrupt_of_evaluate_cleans_up_and_is_a_keyboard_interrupt(fake, evaluate, call):
    fake.fault(call, "hang")

    def interrupt():
        wait_for(lambda: fake.count(call), what=f"for {call}")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()

    with pytest.raises(KeyboardInterrupt):
        evaluate(["FROM x"], TRUE)

    assert fake.left() == []


class Refused(NamedTuple):
    """An argument of evaluate(), and what it raises."""

    argument: dict
    error: type


REFUSED = [
    Refused({"dockerfile": "none"}, de.EvaluationError),
    Refused({"rubric": "none"}, de.EvaluationError),
    Refused({"context": "none"}, de.EvaluationError),
    Refused({"overlay": "none"}, de.EvaluationError),
    Refused({"output": "/dev/full"}, de.EvaluationError),
    Refused({"build_timeout": 0}, ValueError),
    Refused({"run_options": "--memory=1g"}, ValueError),
    Refused({"resume": True}, ValueError),
    Refused({"output": "rubric.json"}, ValueError),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: str(row.argument))
def test_error_of_evaluate(fake, options, row):
    """No report, or bad arguments."""
    arguments = {"dockerfile": options.dockerfile, "repo": "r", "rubric": options.rubric}

    with pytest.raises(row.error):
        de.evaluate(**{**arguments, **row.argument})
