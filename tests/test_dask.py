"""artifacts/evaluate_all.py on a Dask cluster: one that is played, and a real one on loopback."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import types
from concurrent.futures import Future
from pathlib import Path

import pytest
from batch import ea, has, kinds, report, run, start, tree
from cases import run_command
from engine import census, wait_for


class Executor:
    """Runs each evaluation in a thread, and cancels like Dask: also what is running."""

    def __init__(self, client, workers=()):
        self._client = client
        self._workers = workers  # addresses, that it prefers

    def submit(self, function, request):
        future = Future()  # never "running", so that cancel() succeeds
        threading.Thread(target=self._run, args=(future, function, request)).start()
        return future

    def _run(self, future, function, request):
        with self._client.free_worker(self._workers) as worker:
            self._client.here.worker = worker
            outcome = function(request)
        with contextlib.suppress(Exception):  # it was cancelled
            future.set_result(outcome)


class Client:
    """Plays the client of a Dask cluster; its workers are threads of this process."""

    def __init__(self, names):
        self.names = list(names)
        self.uploads = []
        self.interrupted = []
        self.here = threading.local()
        self._free = threading.Condition()
        self._busy = set()

    def get_worker(self):
        return types.SimpleNamespace(name=self.here.worker, address=f"tcp://{self.here.worker}")

    @contextlib.contextmanager
    def free_worker(self, preferred):
        names = {address[len("tcp://") :] for address in preferred}

        def free():
            return (names & set(self.names) or set(self.names)) - self._busy

        with self._free:
            self._free.wait_for(free)
            name = min(free())
            self._busy.add(name)
        self.here.worker = name
        yield name
        with self._free:
            self._busy.discard(name)
            self._free.notify_all()

    def wait_for_workers(self, count, timeout):
        if len(self.names) < count:
            raise TimeoutError

    def upload_file(self, path):
        self.uploads.append(os.path.basename(path))

    def nthreads(self):
        return {f"tcp://{name}": 1 for name in self.names}

    def get_executor(self, pure, workers=(), allow_other_workers=False):
        assert not pure
        assert allow_other_workers or not workers
        return Executor(self, workers)

    def retire_workers(self, addresses):
        self.names = [name for name in self.names if f"tcp://{name}" not in addresses]

    def run(self, function, *arguments, workers, on_error):
        self.interrupted += workers
        function(*arguments)

    def close(self):
        pass


@pytest.fixture
def cluster(stub, monkeypatch):
    """Return a function that starts a cluster with some workers and returns its client."""

    def make(*names):
        client = Client(names)
        module = types.SimpleNamespace(
            Client=lambda address, set_as_default: client, get_worker=client.get_worker
        )
        monkeypatch.setitem(sys.modules, "distributed", module)
        return client

    return make


def test_results_name_their_worker(cluster):
    cluster("one")
    tree({"m/app": ""})
    code, out, _ = run("--dask", "tcp://x")
    assert code == 0
    assert "m/app: 1 of 1 tests, 100.0% (build 0 s, tests 0 s) (one)\n" in out


def test_program_and_files_travel(cluster):
    """A worker reads no Dockerfile and no rubric of its own, and the report names ours."""
    client = cluster("one")
    tree({"m/app": ""})
    run("--dask", "tcp://x")
    arguments = json.loads(Path("arguments").read_text())
    options = dict(word.lstrip("-").split("=", 1) for word in arguments if "=" in word)
    assert client.uploads == ["stub_evaluator.py", "evaluate_all.py"]
    assert not os.path.exists(options["dockerfile"])
    assert not os.path.exists(options["rubric"])
    assert options["context"] == os.path.abspath("artifacts/m")
    found = report("m/app")
    assert found["dockerfile"] == "artifacts/m/app.dockerfile"
    assert found["rubric"] == "rubrics/app.json"
    assert found["environment"]["context"] == "artifacts/m"
    assert run()[1].startswith("m: 1 Dockerfiles, 1 resumed\n")


def test_log_is_written_by_the_coordinator(cluster):
    cluster("one")
    tree({"m/app": ""})
    run("--dask", "tcp://x")
    assert has("reports/m/app.log", "the log\n")


def test_packed_files_are_the_same_elsewhere(tmp_path):
    """Content, modes and links of an overlay; and a Dockerfile's own ignore file."""
    os.makedirs("answer/sub")
    Path("answer/Dockerfile").write_text("FROM x")
    Path("answer/sub/run.sh").write_text("true")
    os.chmod("answer/sub/run.sh", 0o755)
    os.symlink("/nowhere", "answer/link")
    options = ea.de.Options("answer/Dockerfile", "r", "r.json", overlay="answer")
    (tmp_path / "there").mkdir()

    there = ea.unpack(ea.pack(options, b"{}"), str(tmp_path / "there"), options)

    assert ea.de.folder_sha256(there.overlay) == ea.de.folder_sha256("answer")
    assert Path(there.rubric).read_text() == "{}"
    assert Path(there.dockerfile).read_text() == "FROM x"


def test_overlay_that_is_a_link_travels(tmp_path):
    os.makedirs("store/answer")
    Path("store/answer/Dockerfile").write_text("FROM x")
    os.symlink("store/answer", "linked")
    options = ea.de.Options("linked/Dockerfile", "r", "r.json", overlay="linked")
    there = ea.unpack(ea.pack(options, b"{}"), str(tmp_path), options)
    assert Path(there.dockerfile).read_text() == "FROM x"


def test_unreadable_overlay_is_the_problem_of_one_task(cluster, monkeypatch):
    cluster("one")
    tree({"m/app": "", "n/app": ""})
    walk = ea.de.walk

    def refuse(folder):
        if folder.endswith("/m"):
            raise PermissionError(13, "Permission denied")
        return walk(folder)

    monkeypatch.setattr(ea.de, "walk", refuse)
    code, out, _ = run("--dask", "tcp://x", "--overlay")
    assert code == 1
    assert "m/app: input error: cannot read the overlay: [Errno 13] Permission denied\n" in out
    assert kinds() == {"n/app": ""}


def test_ignore_file_of_a_dockerfile_travels(tmp_path):
    Path("app.dockerfile").write_text("FROM x")
    Path("app.dockerfile.dockerignore").write_text("secret")
    options = ea.de.Options("app.dockerfile", "r", "r.json")
    there = ea.unpack(ea.pack(options, b"{}"), str(tmp_path), options)
    assert Path(f"{there.dockerfile}.dockerignore").read_text() == "secret"
    assert there.overlay is None


def test_large_overlay_does_not_travel(cluster, monkeypatch):
    monkeypatch.setattr(ea, "MAX_OVERLAY", 1024**2)
    cluster("one")
    tree({"m/app": ""})
    with open("artifacts/m/large", "wb") as file:
        file.truncate(1024**2 + 1)
    code, out, _ = run("--dask", "tcp://x", "--overlay")
    assert code == 1
    assert "no score: input error: artifacts/m: an overlay over 1 MiB cannot travel" in out


def test_context_that_a_worker_lacks_is_an_input_error_that_names_it(cluster, monkeypatch):
    cluster("one")
    tree({"m/app": ""})
    os.makedirs("checkouts/app")
    submit = Executor.submit

    def submit_to_another_machine(self, function, request):
        shutil.rmtree("checkouts")
        return submit(self, function, request)

    monkeypatch.setattr(Executor, "submit", submit_to_another_machine)
    code, out, _ = run("--dask", "tcp://x")
    place = os.path.abspath("checkouts/app")
    assert code == 1
    assert f"m/app: input error: there is no build context {place} (one)\n" in out


def test_worker_with_another_version_evaluates_nothing(cluster, monkeypatch, stub):
    """Another coordinator has sent it since."""
    cluster("one")
    tree({"m/app": ""})
    digests = iter(["ours", "theirs", "ours"])
    monkeypatch.setattr(ea, "program_sha256", lambda: next(digests))
    code, out, _ = run("--dask", "tcp://x")
    assert code == 0
    assert (
        "has sent another version of the evaluator to this worker, to be tried again (one)" in out
    )
    assert stub() == ["m/app"]


def evaluate_with_dead_engine_on(names, monkeypatch):
    """Let all evaluations on the named workers end with an engine that does not answer."""
    evaluate = ea.evaluate

    def replaced(request, folder):
        if sys.modules["distributed"].get_worker().name in names:
            raise ea.de.EngineFailed("no docker engine")
        return evaluate(request, folder)

    monkeypatch.setattr(ea, "evaluate", replaced)


def test_worker_with_three_engine_failures_in_a_row_is_retired(cluster, monkeypatch):
    cluster("dead", "good")
    evaluate_with_dead_engine_on(["dead"], monkeypatch)
    tree({f"m/app{number}": "" for number in range(12)})
    code, out, _ = run("--dask", "tcp://x")
    assert code == 0
    assert (
        out.count("worker dead is retired: the last 3 evaluations ended in engine errors there\n")
        == 1
    )
    assert "12 of 12 Dockerfiles have a score" in out


def test_retry_goes_to_another_worker(cluster, monkeypatch):
    """Also the last one, with fewer than three failures."""
    cluster("dead", "good")
    evaluate_with_dead_engine_on(["dead"], monkeypatch)
    tree({"m/app": ""})
    code, out, _ = run("--dask", "tcp://x")
    assert code == 0
    assert "to be tried again (dead)\n" in out
    assert "100.0% (build 0 s, tests 0 s) (good)\n" in out


def test_run_stops_when_no_worker_is_left(cluster, monkeypatch):
    cluster("a", "b")
    evaluate_with_dead_engine_on(["a", "b"], monkeypatch)
    tree({f"m/app{number}": "" for number in range(30)})
    code, out, _ = run("--dask", "tcp://x")
    assert code == 1
    assert "no worker is left: the running evaluations clean up\n" in out
    assert out.count(" is retired: ") == 2


@pytest.mark.parametrize("word", ["ENGINE", "REGISTRY", "USAGE"])
def test_worker_that_gets_dockerfiles_without_a_score_is_not_retired(cluster, word):
    cluster("one")
    tree({f"m/app{number}": word for number in range(8)})
    assert "retired" not in run("--dask", "tcp://x")[1]


def test_cluster_without_a_worker_is_an_error(cluster):
    cluster()
    tree({"m/app": ""})
    code, _, errors = run("--dask", "tcp://x")
    assert code == 1
    assert errors.startswith("error: no worker has come to tcp://x in 60 s (start one: ")


def test_missing_package_is_named(stub, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    tree({"m/app": ""})
    assert "needs the package distributed" in run("--dask", "tcp://x")[2]


def test_evaluation_that_killed_its_workers_is_tried_again(cluster, monkeypatch):
    client = cluster("one")
    submit = Executor.submit
    failures = [RuntimeError("KilledWorker")]

    def fail_once(self, function, request):
        if not failures:
            return submit(self, function, request)
        future = Future()
        future.set_exception(failures.pop())
        return future

    monkeypatch.setattr(Executor, "submit", fail_once)
    tree({"m/app": ""})
    code, out, _ = run("--dask", "tcp://x")
    assert code == 0, client
    assert "m/app: engine error: RuntimeError: KilledWorker, to be tried again\n" in out


def test_lost_scheduler_ends_the_run_with_a_summary(cluster, monkeypatch):
    """Dask cancels all futures then."""
    cluster("one")

    def lose(self, function, request):
        future = Future()
        future.cancel()
        return future

    monkeypatch.setattr(Executor, "submit", lose)
    tree({"m/a": "", "m/b": ""})
    code, out, _ = run("--dask", "tcp://x")
    assert code == 1
    assert out.endswith(
        "the Dask scheduler was lost: the running evaluations clean up\n"
        "0 of 2 Dockerfiles have a score, 0 of these a failed build\n"
        "no score: not evaluated: m/a, m/b\n"
        "m: no reports\n"
    )


def test_interrupt_without_any_worker_does_not_wait(cluster, monkeypatch):
    client = cluster("one")
    tree({"m/app": ""})

    def submit(self, function, request):
        client.names = []  # the only worker is gone, and Dask waits for another
        os.kill(os.getpid(), signal.SIGINT)
        return Future()

    monkeypatch.setattr(Executor, "submit", submit)
    code, out, _ = run("--dask", "tcp://x")
    assert code == 130
    assert "no score: not evaluated: m/app\n" in out


def test_worker_that_comes_after_the_interrupt_is_interrupted_too(cluster):
    client = cluster("one")
    workers = ea.DaskWorkers(ea.parse_arguments(["--dask", "tcp://x"]))
    workers.interrupt()
    workers.interrupt()
    assert client.interrupted == ["tcp://one"]
    client.names.append("late")
    assert workers.interrupt()
    assert client.interrupted == ["tcp://one", "tcp://late"]


def test_worker_that_cannot_import_the_program_is_an_error(cluster, monkeypatch):
    def refuse(self, path):
        raise ImportError("No module named 'fcntl'")

    monkeypatch.setattr(Client, "upload_file", refuse)
    cluster("one")
    tree({"m/app": ""})
    errors = run("--dask", "tcp://x")[2]
    assert "a worker cannot import the evaluator: ImportError: No module named 'fcntl'" in errors


def test_interrupt_reaches_the_workers_and_the_command_waits_for_them(cluster, stub):
    cluster("one", "two")
    tree({"m/a": "SLEEP", "m/b": "SLEEP", "m/c": ""})

    def send():
        wait_for(lambda: Path("calls").read_text().count("\n") == 2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    code, out, _ = run("--dask", "tcp://x")
    thread.join()
    assert code == 130
    assert Path("interrupts").read_text() == "one\none\n"  # before the command has ended
    assert "no score: not evaluated: m/a, m/b, m/c\n" in out
    assert kinds() == {}


# ---- A real cluster, on a real engine ----

DOCKERFILE = "FROM busybox:stable\nENV N={place}\n"
TESTS = (run_command("sleep 1"), run_command("test -n $N"))


@pytest.fixture
def real_cluster(engine, tmp_path, monkeypatch, request):
    """Start a scheduler; return its address, and a function that starts workers.

    Each worker has a folder of its own.
    """
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"

    def dask(name, *words, **environment):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
        with open(tmp_path / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                command, cwd=str(folder), stderr=log, env={**os.environ, **environment}
            )
        request.addfinalizer(process.wait)
        request.addfinalizer(process.kill)
        return process

    scheduler = dask(
        "scheduler",
        "scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--scheduler-file",
        str(file),
    )
    address = wait_for(lambda: has(file, "tcp://") and json.loads(file.read_text())["address"])

    def worker(name, **environment):
        words = ("worker", address, "--no-nanny", "--nthreads", "1", "--name", name)
        process = dask(name, *words, **environment)
        wait_for(lambda: has(tmp_path / f"{name}.log", "Registered to:"))
        return process

    return types.SimpleNamespace(address=address, worker=worker, scheduler=scheduler)


def real_tree(count):
    tree({f"m/{number}": DOCKERFILE.format(place=number) for number in range(count)}, *TESTS)


def check_all(count):
    """Check that all reports of real_tree() are right."""
    assert kinds() == {f"m/{number}": "" for number in range(count)}
    for number in range(count):
        assert report(f"m/{number}")["summary"]["total_score"] == 2


def test_worker_with_other_files_and_another_version_makes_the_same_reports(real_cluster, tmp_path):
    """In its folder, and first on its path."""
    other = tmp_path / "other"
    (other / "rubrics").mkdir(parents=True)
    (other / "rubrics" / "0.json").write_text('{"tests": []}')
    (other / "DockerfileEvaluator.py").write_text("__version__ = '0'\nraise SystemExit(1)\n")
    shutil.copy(str(other / "DockerfileEvaluator.py"), str(other / "evaluate_all.py"))
    real_cluster.worker("other", PYTHONPATH=str(other))
    real_tree(3)
    with start("--dask", real_cluster.address) as process:
        out = process.communicate(timeout=120)[0]
    assert process.returncode == 0, out
    check_all(3)


@pytest.mark.no_podman  # which has no engine beside it
def test_worker_without_an_engine_is_retired(real_cluster):
    real_cluster.worker("dead", DOCKER_HOST="unix:///nonexistent.sock")
    real_cluster.worker("good")
    real_tree(10)
    with start("--dask", real_cluster.address) as process:
        out = process.communicate(timeout=120)[0]
    assert process.returncode == 0, out
    assert "worker dead is retired: the last 3 evaluations ended in engine errors there\n" in out
    check_all(10)


def test_work_of_a_killed_worker_moves_and_a_late_one_gets_work(real_cluster):
    before = census()
    killed = real_cluster.worker("killed")
    real_tree(8)
    with start("--dask", real_cluster.address) as process:
        wait_for(kinds)
        killed.kill()
        real_cluster.worker("late")
        out = process.communicate(timeout=120)[0]
    assert process.returncode == 0, out
    assert "(late)\n" in out
    check_all(8)
    wait_for(lambda: census() == before)  # the evaluation of the killed worker ends by itself


def test_killed_scheduler_ends_in_a_summary(real_cluster):
    real_cluster.worker("one")
    real_tree(6)
    with start("--dask", real_cluster.address) as process:
        wait_for(kinds)
        real_cluster.scheduler.kill()
        out = process.communicate(timeout=120)[0]
    assert process.returncode == 1
    assert "the Dask scheduler was lost: " in out
    assert "Traceback" not in out
    assert out.splitlines()[-1].startswith("m: mean score 100.0% of ")


def test_interrupt_cleans_up_on_real_workers(real_cluster):
    before = census()
    real_cluster.worker("one")
    real_tree(6)
    with start("--dask", real_cluster.address) as process:
        wait_for(kinds)
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=120)[0]
    assert process.returncode == 130, out
    assert len(kinds()) < 6
    assert census() == before
