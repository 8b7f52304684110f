"""Section 6: what the digest of the inputs covers, --resume, --overlay, pipes, evaluate()."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
from cases import FALSE, TRUE, files_exist, table
from conftest import make_report, outcome, schema

import DockerfileEvaluator as de


def sh(command):
    """Run a shell command; return the lines of its output, sorted."""
    return sorted(subprocess.check_output(["sh", "-ec", command]).decode().splitlines())


def files_of(folder):
    """Return the folders, links and files in a folder: "a/", "b=a" (a link), "c:its content"."""
    line = "-type d -printf '%P/\n' -o -type l -printf '%P=%l\n' -o -printf '%P:' -exec cat {} ';'"
    return " ".join(sh(f"find {folder} -mindepth 1 {line}")) or "nothing"


@pytest.fixture
def options(rubric):
    """Make a context and an overlay in the current folder; return the options of an evaluation."""
    sh("mkdir -p context overlay/folder; echo FROM x >context/Dockerfile")
    sh("echo x >overlay/a; ln -s a overlay/link")
    os.link(rubric(TRUE), "rubric.json")
    files = {"rubric": "rubric.json", "context": "context", "overlay": "overlay"}
    return de.Options("context/Dockerfile", "r", **files)


def scored(**more):
    """Evaluate them, with other options; return the report."""
    return de.evaluate("context/Dockerfile", "r", more.pop("rubric", "rubric.json"), **more)


# The digest


FILES = """
echo >>context/Dockerfile -> another
echo >>rubric.json -> another
mv overlay/a overlay/b -> another
echo y >overlay/a -> another
chmod +x overlay/a -> another
ln -sfn b overlay/link -> another
mkdir overlay/folder/more -> another
touch -d 2001-01-01 overlay overlay/* -> the same
echo >context/more -> the same
"""


@table(FILES)
def test_digest_covers_both_files_and_the_overlay(options, row, monkeypatch):
    monkeypatch.setattr(de, "MAX_OVERLAY", 2)
    before = de.read_inputs(options).sha256

    sh(row.when)

    assert (de.read_inputs(options).sha256 == before) is (row.then == "the same")


OPTIONS = """
{"overlay": null} -> another
{"repo": "s"} -> another
{"context": "."} -> another
{"run_options": ["--memory=1g"]} -> another
{"build_options": ["--memory=1g"]} -> another
{"context": "./context/"} -> the same
{"build_options": ["--no-cache", "--build-arg=BUILDKIT_CACHE_MOUNT_NS=model"]} -> the same
{"build_timeout": 9.0} -> the same
"""


@table(OPTIONS)
def test_digest_covers_the_options_except_those_of_caches_and_limits(options, row):
    others = options._replace(**json.loads(row.when))

    before, after = (de.read_inputs(each).sha256 for each in (options, others))

    assert (after == before) is (row.then == "the same")


def test_digest_covers_the_series_of_the_version(options, monkeypatch):
    def digest(version):
        monkeypatch.setattr(de, "__version__", version)
        return de.read_inputs(options).sha256

    assert digest("3.0.0") == digest("3.0.99") != digest("3.1.0")


# --resume: other limits afterwards

RESUMED = """
a score -> taken
    change: {"build_timeout": 9.0, "start_timeout": 9.0, "offline": true}
an image that did not start -> taken
    starts: false
an image that did not start, another limit -> not taken
    starts: false
    change: {"start_timeout": 9.0}
a failed build -> taken
    error: build
a failed build, and now with registries -> not taken
    error: build
    change: {"offline": true}
a build that took too long -> not taken
    error: build_timeout
    change: {"build_timeout": 9.0}
no score -> not taken
    error: engine
"""


@table(RESUMED, error="", starts=True, change={})
def test_score_is_taken_for_the_same_inputs_a_failure_as_a_whole_for_the_same_limits(options, row):
    report = make_report(row.error or [], options)
    report["environment"]["image_starts"] = row.starts
    digest = de.read_inputs(options).sha256

    is_taken = de.is_report_for(report, options._replace(**row.change), digest)

    assert is_taken is (row.then == "taken")
    assert not de.is_report_for(report, options, "another")


@pytest.mark.parametrize("listens", [False, True])
def test_service_that_did_not_listen_is_tried_again_with_another_limit(fake, score, listens):
    """No other failure is."""
    fake.set(listens=listens)
    tests = ({**TRUE, "service": 8080}, FALSE, files_exist("/nosuch"))

    for limit in (120, 120, 9):
        score(*tests, output="report.json", resume=True, start_timeout=limit)

    assert fake.count("build") == (1 if listens else 2)


NO_REPORTS = r"""
echo '{' >
echo '[]' >
echo '{"environment": 3}' >
printf '\377' >
yes [ | head -c 99999 >
mkfifo
mkdir
ln -s /dev/zero
:
"""


@pytest.mark.parametrize("command", NO_REPORTS.strip().split("\n"))
def test_what_is_no_report_is_not_taken(options, command):
    sh(f"{command} report.json")

    assert not de.is_report_for(de.read_report("report.json"), options, "digest")


# Pipes


def test_dockerfile_and_rubric_can_be_pipes(fake, options):
    """The context is then the current folder."""
    sh("mkfifo dockerfile rubric")
    writer = "printf 'FROM x\nRUN exit 3\n' >dockerfile; cat rubric.json >rubric"

    with subprocess.Popen(["sh", "-c", writer]):
        assert outcome(de.evaluate("dockerfile", "r", "rubric")) == "build"

    assert fake.calls("build")[0][-2:] == ["--file=-", os.getcwd()]


@pytest.mark.parametrize("name", ["[w].dockerfile", "a\\b", "a\nb", "\udcff"])
def test_dockerfile_whose_name_buildkit_cannot_take_is_piped(fake, options, name):
    """It would be a failed build: BuildKit finds no such file, or breaks off."""
    os.rename("context/Dockerfile", name)

    de.evaluate(name, "r", "rubric.json")

    assert fake.calls("build")[0][-2] == "--file=-"


def test_dockerfile_on_standard_input_can_be_a_file(fake, options):
    with open("context/Dockerfile") as file:
        de.evaluate(f"/dev/fd/{file.fileno()}", "r", "rubric.json")

    assert fake.calls("build")[0][-1] == os.getcwd()


# --overlay: shell commands that make files in `context` and `overlay`, and what the copy has then

LAID = """
# Files beside others
cd context; mkdir .g b ../overlay/b; echo 1 >a; echo 2 >b/c; cp b/c ../overlay/a -> .g/ a:2 b/ b/c:2
# Over a link to a file, a link to a folder, a file and a folder
ln -s ../out/file context/x; echo new >overlay/x -> x:new
ln -s ../out context/x; mkdir overlay/x; echo new >overlay/x/y -> x/ x/y:new
echo old >context/x; mkdir overlay/x; echo new >overlay/x/y -> x/ x/y:new
mkdir -p context/x/y; echo new >overlay/x -> x:new
# A link over others
mkdir -p context/x/y; ln -s /etc overlay/x -> x=/etc
ln -s ../out context/x; ln -s y overlay/x -> x=y
mkfifo context/x overlay/y -> nothing
"""


@table(LAID)
def test_overlay_lies_over_a_copy_and_nothing_is_written_through_a_link(row):
    sh(f"mkdir context overlay out; echo outside >out/file; {row.when}")
    before = sh("ls -lR context out")
    options = de.Options("", "", context="context", overlay="overlay")

    with de.build_context(de.Workspace(de.Docker("docker")), options) as folder:
        assert files_of(folder) == row.then

    assert sh("ls -lR context out") == before
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


def test_overlay_that_cannot_be_read_is_a_usage_error(fake, options, monkeypatch):
    denied = mock.Mock(side_effect=PermissionError)  # these tests may run as root
    monkeypatch.setattr(os, "scandir", denied)

    with pytest.raises(de.EvaluationError) as error:
        scored(overlay="overlay")

    assert error.value.kind == "usage"


# What is done to an overlay of two bytes, which is the limit
OVERLAYS = """
# It is not read.
truncate -s 100G overlay/b -> build
d=$(printf %0200d 0); d=$d/$d/$d/$d/$d; mkdir -p overlay/$d/$d/$d/$d -> build
# Each file system has another size for folders.
mkdir -p overlay/b/c -> passed
"""


@table(OVERLAYS)
def test_overlay_that_is_too_large_or_too_deep_is_a_failed_build(fake, options, monkeypatch, row):
    monkeypatch.setattr(de, "MAX_OVERLAY", 2)
    sh(row.when)

    assert outcome(scored(overlay="overlay")) == row.then


@pytest.mark.parametrize("folder", ["context", "overlay"])
def test_temporary_folder_in_what_is_copied_is_a_usage_error(fake, options, monkeypatch, folder):
    """The copy would have itself in it."""
    monkeypatch.setenv("TMPDIR", os.path.abspath(folder))

    assert outcome(scored(overlay="overlay")) == "usage"


# The function evaluate()


def test_keywords_of_evaluate_are_the_options_of_an_evaluation_with_their_defaults():
    defaults = dict(de.Options._field_defaults)
    for name in ("rubric", "output", "tests", "image"):
        del defaults[name]

    assert de.evaluate.__kwdefaults__ == defaults


def test_rubric_can_be_a_dict(fake, options):
    report = scored(rubric={"tests": [TRUE]})

    schema("report").validate(report)
    assert (outcome(report), report["rubric"]) == ("passed", None)


def test_threads_may_evaluate_at_a_time_and_nothing_is_printed(fake, options, capfd):
    """In a thread, Python refuses to install signal handlers."""
    outputs = ["1.json", "2.json", "3.json"]

    with ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(lambda output: scored(output=output), outputs))

    assert {*map(outcome, reports)} == {"passed"}
    assert list(map(de.read_report, outputs)) == reports
    assert capfd.readouterr() == ("", "")


def test_interrupt_of_evaluate_cleans_up_and_is_a_keyboard_interrupt(fake, score):
    # The main thread waits then for the test, as it does nearly always.
    fake.inject("run do=interrupt number=2 seconds=1")

    with pytest.raises(KeyboardInterrupt):
        score(TRUE)

    assert fake.left() == []


REFUSED = [
    ({"context": "none"}, de.EvaluationError),
    ({"output": "/dev/full"}, de.EvaluationError),
    ({"rubric": {"tests": {1, 2}}}, ValueError),
    ({"run_options": "--memory=1g"}, ValueError),
]


@pytest.mark.parametrize(("change", "error"), REFUSED, ids=str)
def test_evaluate_without_a_report_or_with_bad_arguments_raises_an_error(
    fake, options, change, error
):
    with pytest.raises(error):
        scored(**change)
