"""artifacts/evaluate_all.py, with a stub as the evaluator, and on a real engine."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cases import run_command
from conftest import PROJECT, called, schema
from engine import census, wait_for

sys.path.insert(0, str(PROJECT / "artifacts"))
import evaluate_all as ea

run = functools.partial(called, ea.main)  # returns the exit code, stdout and stderr

# Plays the evaluator. Words in the Dockerfile select the report: with ONCE only that of a build with cache.
STUB = """
import hashlib, json, os, signal, sys, time
given = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
text, no_cache = open(given["dockerfile"]).read(), "--build-option=--no-cache" in sys.argv
def end(kind, status="passed", starts=True):
    score = int(status == "passed" and not kind)
    facts = dict(total_tests=1, passed_tests=score, total_score=score, max_score=1, total_execution_time=0)
    test = dict(test_id="t", test_type="x", status=status, message="m", output="", execution_time=0)
    same = dict(context=given["context"], run_options=[], options_key=None, image_starts=starts, started_at="")
    sha256 = lambda name: hashlib.sha256(open(given[name], "rb").read()).hexdigest()
    same.update(dockerfile_sha256=sha256("dockerfile"), rubric_sha256=sha256("rubric"))
    same.update(evaluator_version="2.1.0", overlay=None, overlay_sha256=None)
    same.update(build_timeout=float(given["build-timeout"]), start_timeout=120.0, offline=False)
    same["build_options"] = [word[15:] for word in sys.argv if word.startswith("--build-option=--pull")]
    report = dict(repo=given["repo"], dockerfile="x", summary=facts, test_results=[test], environment=same)
    report.update(build={"execution_time": 0, "log": ""}, warnings=[])
    sys.exit(json.dump({**report, "error": {"kind": kind, "message": "why"} if kind else None}, sys.stdout))
signal.signal(signal.SIGINT, lambda *_: end("interrupted"))
json.dump(sys.argv[1:], open("arguments", "w"))
open("calls", "a").write(given["dockerfile"][10:-11] + " --no-cache" * no_cache + "\\n")
print("the log", file=sys.stderr, flush=True)
deadline = time.monotonic() + 60  # then an interrupt that does not arrive fails the test
while "SLEEP" in text and not os.path.exists("awake") and time.monotonic() < deadline:
    time.sleep(0.05)
results = dict(FAIL=["build"], SLOW=["build_timeout"], LATE=["", "timeout"], NOSTART=["", "failed", False])
results.update(OTHERS=["interrupted"], ENGINE=["engine"], REGISTRY=["registry"], USAGE=["usage"], CRASH=None)
word = next((word for word in results if word in text), "")
word = ("ENGINE" if "THEN" in text else "" if "ONCE" in text else word) if no_cache else word
end(*results.get(word, [""]))
"""
DOCKER = """#!/bin/sh
echo "$*" >>docker-calls
case "$*" in info*) echo '{"NCPU": 2}' ;; "image inspect"*) [ "$3" = there ] ;;
*lost*) echo "dial tcp: timeout" >&2; exit 1 ;; *none*) echo "manifest unknown" >&2; exit 1 ;;
*prune*1MB) echo "refused" >&2; exit 1 ;;
esac
"""


def tree(dockerfiles, *tests):
    os.makedirs("rubrics", exist_ok=True)
    for place, text in dockerfiles.items():
        file = Path(f"artifacts/{place}.dockerfile")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        Path(f"rubrics/{file.stem}.json").write_text(
            json.dumps({"tests": tests or [run_command("true")]})
        )


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Use STUB and DOCKER; return a function that returns the evaluations since its last call."""
    for name, text in (("DockerfileEvaluator.py", STUB), ("docker", DOCKER), ("home/calls", "")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(ea, "PROJECT", str(tmp_path))

    def evaluations():
        lines = Path("calls").read_text().splitlines()
        Path("calls").write_text("")
        return lines

    return evaluations


def kinds():
    """Return the kind of error in each report, with + if it is repeated."""
    found = {}
    for file in Path("reports").rglob("*.json"):
        report = json.loads(file.read_text())
        kind = (report["error"] or {"kind": ""})["kind"] + "+" * report.get("repeated", 0)
        found[f"{file.parent.name}/{file.stem}"] = kind
    return found


def has(file, text):
    return os.path.exists(file) and text in Path(file).read_text()


def test_tree_is_evaluated_by_repository_and_resumed(stub):
    tree({"gpt/app": "", "o3/1/app": "FAIL", "o3/1/lib": ""})
    code, out, _ = run("--parallel", "1")
    assert (code, stub()) == (0, ["gpt/app", "o3/1/app", "o3/1/lib", "o3/1/app --no-cache"])
    assert out.splitlines()[2:] == [
        "[1/3] gpt/app: 1 of 1 tests, 100.0% (build 0 s, tests 0 s)",
        "[1/3] o3/1/app: build failed: why, to be repeated",
        "[2/3] o3/1/lib: 1 of 1 tests, 100.0% (build 0 s, tests 0 s)",
        "[3/3] o3/1/app: build failed: why",
        "3 of 3 Dockerfiles have a score, 1 of these a failed build",
        "gpt: mean score 100.0% of 1 reports",
        "o3/1: mean score 50.0% of 2 reports",
    ]
    assert has("reports/gpt/app.log", "the log\n")
    assert "o3/1: 2 Dockerfiles, 2 resumed\n" in run()[1]
    Path("artifacts/gpt/app.dockerfile").write_text("changed")
    assert (run()[0], stub()) == (0, ["gpt/app"])
    assert (run("--no-repeat", "--build-option=--pull")[0], len(stub())) == (0, 3)


def test_build_context_is_the_checkout_or_the_folder_of_the_dockerfile(stub):
    tree({"m/app": ""})
    for folder, words in (
        ("artifacts/m", ()),
        ("checkouts/app", ()),
        ("other/app", ("--checkouts", "other")),
    ):
        os.makedirs(folder, exist_ok=True)
        assert (run(*words)[0], stub()) == (0, ["m/app"])
        assert (
            json.loads(Path("reports/m/app.json").read_text())["environment"]["context"] == folder
        )


# Dockerfile, kind in the report, evaluations in the first and in the second run (n is without cache)
OUTCOMES = "FAIL build+ en .|SLOW build_timeout+ en .|LATE + en .|NOSTART + en .|FAIL_ONCE + en .|"
OUTCOMES += "FAIL_THEN build enn nn|ENGINE engine ee ee|REGISTRY registry ee ee|USAGE usage e e|CRASH . ee ee"


@pytest.mark.parametrize("outcome", OUTCOMES.split("|"))
def test_doubtful_results_are_repeated_without_cache_and_errors_tried_again(stub, outcome):
    text, kind, *runs = outcome.replace(" .", " ").split(" ")
    tree({"m/app": text})
    for expected in runs:
        code, out, _ = run()
        assert code == (kind in ("engine", "registry", "usage", ""))
        assert "".join("n" if "--no-cache" in call else "e" for call in stub()) == expected
        assert kinds() == ({"m/app": kind.replace("none", "")} if kind else {})
    notes = (
        "not repeated: engine error: why: m/app\n",
        "no score: engine error: no report, exit code 1: ",
    )
    assert [note in out for note in notes] == [text == "FAIL_THEN", text == "CRASH"]


def test_options_of_the_evaluator_are_passed_on(stub, tmp_path):
    tree({"m/app": ""})
    words = [
        "--build-timeout=7.0",
        "--start-timeout=8.0",
        "--jobs=3",
        f"--docker={tmp_path}/docker",
        "--offline",
    ]
    words += ["--build-option=--network=none", "--run-option=--memory=1g", "--run-option=--cpus=2"]
    assert run(*words)[0] == 0
    assert json.loads(Path("arguments").read_text())[-len(words) :] == words


def test_engine_errors_in_a_row_stop_the_run(stub):
    """Five for each parallel evaluation."""
    tree({f"m/app{at}": "ENGINE" for at in range(30)})
    code, out, _ = run("--parallel", "2")
    assert (
        "the last 10 evaluations ended in engine errors: the running evaluations clean up\n" in out
    )
    assert (code, 10 <= len(stub()) <= 12) == (1, True)


def test_engine_errors_with_a_result_between_them_do_not_stop_the_run(stub):
    tree({f"m/app{at}": text for at, text in enumerate(["ENGINE", "ENGINE", "", "ENGINE", ""])})
    assert ("in engine errors" in run("--parallel", "1")[1], len(stub())) == (False, 8)


def test_retry_failed_and_fresh_evaluate_again(stub):
    tree({"m/app": "FAIL", "m/lib": "", "n/app": "FAIL"})
    assert (run()[0], len(stub())) == (0, 5)
    Path("artifacts/n/app.dockerfile").write_text("FAIL ONCE")
    assert (run("--retry-failed")[0], len(stub())) == (0, 4)
    assert kinds() == {"m/app": "build+", "m/lib": "", "n/app": "+"}
    assert "m: 2 Dockerfiles, 0 resumed\n" in run("--list", "--fresh")[1]
    assert (run("--fresh", "--model", "m", "--no-repeat")[0], sorted(stub())) == (
        0,
        ["m/app", "m/lib"],
    )


class DaskClient(contextlib.AbstractContextManager):
    """Plays the client of a Dask cluster with two workers, which are threads of this process."""

    def __init__(self, address):
        pass

    def __exit__(self, *error):
        pass

    def nthreads(self):
        return {"one": 1, "two": 1}

    def get_executor(self, pure):
        return ThreadPoolExecutor(2)

    def run(self, function, *arguments, on_error):
        function(*arguments)


STOPS = [("", signal.SIGINT), ("", signal.SIGTERM), ("--dask=tcp://x", signal.SIGINT)]


@pytest.mark.parametrize(("option", "number"), STOPS, ids=["ctrl-c", "sigterm", "ctrl-c with dask"])
def test_interrupt_leaves_no_report_and_the_next_start_continues(stub, monkeypatch, option, number):
    """By default two evaluations run in parallel, since the engine has two processors."""
    monkeypatch.setitem(sys.modules, "distributed", types.SimpleNamespace(Client=DaskClient))
    tree({"m/a": "FAIL", "m/b": "SLEEP", "m/c": "SLEEP", "m/d": ""})

    def interrupt():
        wait_for(lambda: has("calls", "m/b") and has("calls", "m/c") and kinds())
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    code, out, _ = run(*filter(None, [option]))
    assert (code, kinds(), sorted(stub())) == (
        128 + number,
        {"m/a": "build"},
        ["m/a", "m/b", "m/c"],
    )
    assert "no score: not evaluated: m/b, m/c, m/d\n" in out
    Path("awake").write_text("")
    assert (run()[0], sorted(stub())) == (0, ["m/a --no-cache", "m/b", "m/c", "m/d"])


@pytest.mark.parametrize(("processors", "expected"), [(3, 3), (64, 8)])
def test_default_of_parallel_is_the_processors_and_at_most_8(stub, tmp_path, processors, expected):
    (tmp_path / "docker").write_text(DOCKER.replace('"NCPU": 2', f'"NCPU": {processors}'))
    with contextlib.ExitStack() as stack:
        assert ea.connect(ea.parse_arguments([]), stack)[1] == expected


def test_second_signal_exits_immediately(monkeypatch):
    codes = []
    monkeypatch.setattr(ea.os, "_exit", codes.append)
    coordinator = ea.Coordinator(ea.parse_arguments([]), {})
    for expected in ([], [143]):
        coordinator.on_signal(signal.SIGTERM, None)
        assert codes == expected


def test_what_cannot_be_evaluated_is_left_out_with_the_reason(monkeypatch):
    tree({"a/app": "FROM x", "a/bad": "", "a/bare": "", "a/none": "", "b/app": "", "c/app": ""})
    os.unlink("rubrics/none.json")
    Path("rubrics/bad.json").write_text('{"tests": [{"type": "run_comand", "params": {}}]}')
    for folder in ("checkouts/app", "checkouts/bad", "checkouts/none", "reports/c"):
        os.makedirs(folder)
    os.symlink("c", "reports/b")
    monkeypatch.setenv("PATH", "/nowhere")  # --list needs no docker
    code, out, _ = run("--list")
    assert (code, out[:56]) == (1, "a: 1 Dockerfiles, 0 resumed\nbase image x: 1 Dockerfiles\n")
    assert "reports/b/app.json\n  artifacts/b/app.dockerfile\n" in out
    assert "did you mean 'run_command'?)\n  artifacts/a/bad.dockerfile\n" in out
    assert (
        "no build context: the folder checkouts/bare does not exist\n  artifacts/a/bare.dockerfile\n"
        in out
    )
    assert out.endswith("No such file or directory\n  artifacts/a/none.dockerfile\n")


def test_layouts_filters_shards_links_and_hidden_files():
    tree(
        {
            "a/app": "",
            "a/lib": "",
            "b/1/app": "",
            "b/1/lib": "",
            "a/.hidden": "",
            "../elsewhere/app": "",
        }
    )
    Path("artifacts/a/Dockerfile.extra").write_text("")
    os.symlink("..", "artifacts/a/up")
    os.symlink("../elsewhere", "artifacts/linked")

    def names(*words):
        found, left_out = ea.find_tasks(ea.parse_arguments(words))
        return [task.name for group in (found, *left_out.values()) for task in group]

    everything = ["a/app", "b/1/app", "linked/app", "a/lib", "b/1/lib"]
    assert names() == everything
    assert names("--model", "a", "--model=b*", "--repo", "l?b") == ["a/lib", "b/1/lib"]
    assert names("--layout", "{model}/Dockerfile.{repo}", "--layout=a/l{repo}.*") == [
        "a/extra",
        "ib",
    ]
    assert sorted(name for at in (1, 2, 3) for name in names("--shard", f"{at}/3")) == sorted(
        everything
    )
    assert run("--model", "none") == (
        1,
        "",
        "error: no Dockerfile in artifacts is selected (see --layout)\n",
    )


def test_images_are_pulled_before_their_builds_and_the_others_do_not_wait(stub, monkeypatch):
    others = "FROM a:$X\nFROM --platform=p b\nRUN psql '\\\nFROM t'\nRUN python3 -c '\nfrom x import y'\n"
    tree(
        {
            "m/a": "FROM lost",
            "m/b": "from new AS One\nFROM ONE\nFROM scratch\n",
            "m/d": "FROM none\nFAIL",
        }
    )
    tree({"m/c": f"FROM there as there\nFROM there\n{others}"})
    monkeypatch.setattr(ea.time, "sleep", lambda seconds: None)
    code, out, _ = run("--pull", "--parallel", "1", "--no-repeat", "--build-cache", "20GB")
    assert (code, stub(), kinds()) == (
        1,
        ["m/c", "m/b", "m/d"],
        {"m/b": "", "m/c": "", "m/d": "build"},
    )
    calls = Path("docker-calls").read_text().splitlines()
    assert [call for call in calls if "pull" in call] == ["pull lost"] * 3 + [
        "pull new",
        "pull none",
    ]
    assert "no score: pull error: base image lost cannot be pulled: dial tcp: timeout: m/a\n" in out
    prunes = [call for call in calls if "prune" in call]  # at the start, and after each
    assert prunes == ["builder prune --force --keep-storage 20GB"] * 4
    assert run("--build-cache", "1MB", "--fresh")[2] == "error: docker builder prune: refused\n"
    assert kinds() == {
        "m/b": "",
        "m/c": "",
        "m/d": "build",
    }  # --fresh removes nothing before the engine answers


def test_report_of_other_inputs_is_removed_if_there_is_no_new_one(stub):
    tree({"m/app": ""})
    assert (run()[0], kinds()) == (0, {"m/app": ""})
    Path("artifacts/m/app.dockerfile").write_text("CRASH")
    assert (run()[0], kinds()) == (1, {})


def test_evaluation_that_others_interrupt_is_run_again(stub):
    tree({"m/app": "OTHERS"})
    code, out, _ = run()
    assert (code, stub()) == (1, ["m/app", "m/app"])
    assert "no score: interrupted error: why: m/app\n" in out


def test_lost_scheduler_is_an_engine_error(stub):
    tree({"m/app": ""})
    options = ea.parse_arguments(["--no-repeat"])
    ((task,), _), future = ea.find_tasks(options), ea.Future()
    future.cancel()
    coordinator = ea.Coordinator(options, {})
    coordinator._stop_reason, coordinator._total, coordinator._parallel = "", 1, 1
    coordinator._submit = lambda job: None
    coordinator._finish(ea.Job(task), future)
    assert coordinator.problems[task] == "engine error: scheduler lost"


def test_usage_errors():
    for words, message in {
        "--output x": "unrecognized arguments: --output x",
        "--shard 4/3": "--shard: expected K/N with K from 1 to N; --parallel: expected a number over 0",
        "--parallel 0": "--parallel: expected a number over 0",
        "--build-opt=x": "unrecognized arguments: --build-opt=x",
        "--layout {model}": "expected {repo}, {model} and * in '{model}'",
        "--jobs 0": "jobs 0: expected an integer of at least 1",
        "--build-option=--tag=x": "the evaluation depends on its own value for '--tag=x'",
        "--dask tcp://x:1 --pull": "--dask: not with --pull or --parallel",
    }.items():
        code, _, errors = run(*words.split())
        assert (code, message in errors) == (2, True), errors


EXPECTED = {"a/x": "", "a/y": "", "b/x": "", "b/y": "", "b/z": "build+"}
TREE = {place: f"FROM busybox:stable\nENV N={place}\n" for place in EXPECTED}
TREE["b/z"] = "FROM busybox:stable\nCOPY missing /\n"
TESTS = (run_command("sleep 2"), run_command("test $N = a/x"))


def start(*words):
    program = [sys.executable, str(PROJECT / "artifacts" / "evaluate_all.py"), *words]
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )


def check_reports():
    assert kinds() == EXPECTED
    for name, kind in EXPECTED.items():
        report = json.loads(Path(f"reports/{name}.json").read_text())
        schema("report").validate(report)
        passed = 0 if kind else 2 if name == "a/x" else 1
        assert (report["summary"]["passed_tests"], report["environment"]["no_cache"]) == (
            passed,
            bool(kind),
        )
        assert has(f"reports/{name}.log", "0 of 2 tests passed" if kind else "built (")


@pytest.mark.usefixtures(
    "buildkit"
)  # the legacy builder may leave an untagged image of an interrupted build
def test_interrupted_run_on_an_engine_continues_and_leaves_nothing():
    tree(TREE, *TESTS)
    before = census()
    with start("--parallel", "2") as first:
        wait_for(lambda: os.path.exists("reports/a/x.json") and has("reports/a/y.log", "built ("))
        first.send_signal(signal.SIGINT)
        assert "interrupted: the running evaluations clean up\n" in first.communicate(timeout=60)[0]
    assert (first.returncode, 0 < len(kinds()) < len(EXPECTED), census()) == (130, True, before)
    for is_first in (True, False):
        with start() as process:
            out = process.communicate(timeout=120)[0]
        assert "5 of 5 Dockerfiles have a score, 1 of these a failed build\n" in out
        assert (process.returncode, "] b/z: build failed" in out, census()) == (0, is_first, before)
    check_reports()


def test_dask_moves_the_evaluations_of_a_killed_worker(engine, tmp_path, monkeypatch, request):
    pytest.importorskip("distributed")
    tree(TREE, *TESTS)
    before, file, log = census(), tmp_path / "scheduler", tmp_path / "dask.log"
    monkeypatch.setenv("PYTHONPATH", str(PROJECT / "artifacts"))

    def dask(*words):
        command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
        process = subprocess.Popen(command, stderr=open(log, "ab"))  # noqa: SIM115
        request.addfinalizer(process.kill)
        return process

    dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
    address = wait_for(lambda: has(file, "tcp://") and json.loads(file.read_text())["address"])
    workers = [dask("worker", address, "--no-nanny", "--nthreads", "1") for _ in range(2)]
    wait_for(lambda: log.read_text().count("Registered to:") == 2)
    with start("--dask", address) as process:
        wait_for(kinds)
        workers[0].kill()
        out = process.communicate(timeout=120)[0]
    assert (process.returncode, "5 of 5 Dockerfiles have a score, 1 of these" in out) == (0, True)
    check_reports()
    wait_for(lambda: census() == before)  # the evaluation of the killed worker ends by itself
