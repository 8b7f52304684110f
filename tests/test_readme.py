"""README.md and the pages of the folders: each command, example and link is right.

A test takes a command from its page by a pattern that no other command has.
test_each_command_is_run() fails for a command that no test has taken.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from batch import scores, tree
from cases import run_command
from conftest import PIPES, PROJECT, error_of, load_program, make_report, outcome, schema
from engine import census
from test_injection import MODES, SCENARIOS
from test_leaderboard import write

import DockerfileEvaluator as de

FOLDERS = ("", "artifacts", "rubrics", "reports", "tests")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", re.MULTILINE)
NAMES = r"python3|git|tests/|dask|while|for|awk|grep|npx|every_eval_ever|reward=|\.venv/"
PROGRAM = rf"(?:cd \S+ && )?(?:[A-Z_]+=\S+ )*(?:{NAMES})"
COMMAND = re.compile(
    rf"^    ({PROGRAM}.*)$"  # an indented line
    r"|`((?:python3|tests/with-engine) [^`]+)`"  # in a sentence
    r"|^ +- run: (.*)$",  # a step of a CI job
    re.MULTILINE,
)


class Page:
    """A page: its commands, what they print, and its other examples."""

    def __init__(self, folder):
        self.path = PROJECT / folder / "README.md"
        self.text = self.path.read_text()
        self.printed = dict(SESSION.findall(self.examples("console")))  # by command
        found = ["".join(groups) for groups in COMMAND.findall(self.text)]
        self.commands = {*found, *self.printed}
        self.taken = set()

    def command(self, pattern):
        """Return the one command with this pattern."""
        (found,) = (each for each in self.commands if re.search(pattern, each))
        self.taken.add(found)
        return found

    def take(self, **patterns):
        """Let attributes be commands."""
        vars(self).update({name: self.command(pattern) for name, pattern in patterns.items()})

    def examples(self, kind, word=""):
        """Return the examples in a language that have a word."""
        found = FENCED.findall(self.text)
        return "".join(block for name, block in found if name == kind and word in block)


MAIN, ARTIFACTS, RUBRICS, REPORTS, TESTS = PAGES = [Page(folder) for folder in FOLDERS]

MAIN.take(
    clone="git clone",
    quick_start="--dockerfile artifacts/example.dockerfile",
    run_tests="^tests/run$",
    own="--repo express",
    benchmark="evaluate_all.py",
    board="leaderboard.py",
)
ARTIFACTS.take(
    list="--list",
    all="evaluate_all.py$",
    tree="cd artifacts/tree.* --reference",
    two_repositories="--repo express --repo flask",
    one="Dockerfile.slug",
    keep="--keep-image",
    one_test="--test compiles",
    overlay="--overlay",
    shard_board="leaderboard.py",
    scheduler="dask scheduler",
    worker="dask worker",
    dask="--dask",
    again="--again",
    named="grep",
    prune="docker builder prune",
    hidden="--mount=",
    frontend="BUILDKIT_SYNTAX",
    cache="http_proxy",
    ci_step="--junit",
)
RUBRICS.take(
    lint=r"review.py rubrics/\*.json$",
    measure="--repeat 3",
    check="--check",
    review="review.py rubric.json",
)
REPORTS.take(
    ranking="leaderboard.py reports/$",
    export="--eee",
    validate="every_eval_ever validate",
    reward="jq -e",
    ctrf="npx junit-to-ctrf",
)
TESTS.take(
    picture="tests/picture",
    subjects="grep",
)
# Other examples; test_dask.py runs the commands of Dask
RUBRIC = MAIN.examples("json")
PRINTED = MAIN.examples("")
LAYOUT = re.findall(r"^    (\S+)   .*$", MAIN.text, re.MULTILINE)
SHARDS = [ARTIFACTS.command(f"--shard {part}/2") for part in (1, 2)]
PROXIES = ARTIFACTS.examples("json")
HARNESS = ARTIFACTS.examples("python", "def reward")
TAKE_OUT = ARTIFACTS.examples("python", "FENCED")
WEAK = RUBRICS.examples("json", "Hello, World!")
DRAW = RUBRICS.examples("json", "draw")
WITH_DRAW = f'{{"tests": [{DRAW}]}}'
PART = RUBRICS.examples("json", '"count"')
SERVICE = RUBRICS.examples("json", "http_responds")
OWN_SUITES = [RUBRICS.command("-m pytest"), RUBRICS.command("-m unittest")]
COUNTS = dict(re.findall(r"^\| ([^`|]+) \| `.+` \| `(.+)` \|$", RUBRICS.text, re.MULTILINE))
FROM_SETUPBENCH = RUBRICS.examples("python", "Setup successful")
EXCERPT = REPORTS.examples("json")
PYTEST = [TESTS.command(word) for word in ("-k limit", "test_hostile", "--collect-only")]
BEFORE_A_RELEASE = [TESTS.command("tests/soak"), TESTS.command("tests/bench")]
EXAMPLE_TEST = TESTS.examples("python")

BUSYBOX = "FROM busybox:stable"
SUITES = json.loads((PROJECT / "tests" / "logs" / "suites.json").read_text())  # what tools printed


def run(command):
    return subprocess.run(["sh", "-c", command], text=True, **PIPES)


def run_clone(command):
    """Run a command of the page of many Dockerfiles in `own_folder`."""
    return run(command.replace("artifacts/", "~/DockerfileEvaluator/artifacts/"))


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Change to a copy of the project, in which reports may be written."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    files = "DockerfileEvaluator.py artifacts rubrics reports/leaderboard.py reports/page.html"
    run(f"cd {PROJECT} && cp -r --parents {files} tests/with-engine {folder}")
    monkeypatch.chdir(folder)


@pytest.fixture
def example_tree(checkout, monkeypatch):
    """Change to the folder of the example."""
    monkeypatch.chdir("artifacts/tree")


@pytest.fixture
def benchmark(fake, checkout):
    """Add two answers of one model, each as a file and as a folder."""
    for repo in ("express", "flask"):
        tree({f"gpt-5/{repo}": "FROM x"})
        run(f"cd artifacts/gpt-5; mkdir {repo}; cp {repo}.dockerfile {repo}/Dockerfile")


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Change to the folder of a user, whose clone is in the home folder."""
    (tmp_path / "home" / "DockerfileEvaluator").symlink_to(PROJECT)
    folder = tmp_path / "benchmark"
    folder.mkdir()
    monkeypatch.chdir(folder)


def written(folder="reports"):
    """Return the paths of all reports."""
    return sorted(map(str, Path(folder).rglob("*.json")))


def read_report(place):
    content = json.loads(Path(f"reports/{place}.json").read_text())
    schema("report").validate(content)
    return content


def anchors(text):
    """Return what a link can name in a page."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.fixture
def reported(dockerfile, rubric):
    """Return a function that writes report.json and score.xml: see make_report()."""

    def write(result):
        tests = [run_command("true")] * len(result)
        report = make_report(result, de.Options(dockerfile("FROM x"), "r", rubric(*tests)))
        Path("report.json").write_text(de.as_json(report))
        Path("score.xml").write_text(de.as_junit(report))

    return write


# Links, tables and examples


@pytest.mark.parametrize("page", PAGES, ids=FOLDERS)
def test_each_command_is_run(page):
    assert set(page.commands) - page.taken == set()


@pytest.mark.parametrize("page", PAGES, ids=FOLDERS)
def test_links_lead_to_something(page):
    for target, anchor in re.findall(r"\]\((?!http)([^)#]+)#?([^)]*)\)", page.text):
        assert (page.path.parent / target).exists()
        assert not anchor or anchor in anchors((page.path.parent / target).read_text())


def test_table_has_each_kind_of_error():
    kinds = schema("report").schema["properties"]["error"]["properties"]["kind"]["enum"]

    assert re.findall(r"^\| `(\w+)` \| (?:0|none) \|", REPORTS.text, re.MULTILINE) == kinds


def test_claim_is_what_test_injection_does():
    numbers = re.findall(r"of (\d+) evaluations fail in (\d+) ways", MAIN.text)

    assert numbers == [(str(len(SCENARIOS)), str(len(MODES)))]


VALID = {
    "test": RUBRIC,
    "weak": WEAK,
    "draw": WITH_DRAW,
    "part": f'{{"tests": [{PART}]}}',
    "service": f'{{"tests": {SERVICE}}}',
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID)
def test_rubric_is_valid(text):
    assert de.read_rubric(text.encode(), "README.md").unresolvable == {}


def counted(expression, text):
    """Return what an evaluation counts in an output."""
    params = {"command": "x", "count": expression, "of": 100}
    content = json.dumps({"tests": [{"type": "run_command", "params": params}]})
    (test,) = de.read_rubric(content.encode(), "README.md").tests
    tally = de.Tally(test.check.count_pattern)
    tally.add(text.encode())
    return tally.count


@pytest.mark.parametrize("log", SUITES, ids=lambda log: log["suite"])
def test_count_of_a_suite_is_the_number_of_passed_tests(log):
    """Lint finds nothing in it."""
    expression = COUNTS[log["suite"]]

    assert counted(expression, log["output"]) == log["passed"]
    assert counted(expression, load_program(PROJECT / "rubrics" / "review.py").FAILED_SUITE) == 0


def test_each_count_has_a_log():
    assert set(COUNTS) == {log["suite"] for log in SUITES}


@pytest.mark.parametrize("command", OWN_SUITES)
def test_suite_of_the_table_is_counted(command):
    Path("test_x.py").write_text(
        "import unittest\nclass TestX(unittest.TestCase):\n"
        "  def test_a(self): pass\n  def test_b(self): pass\n  def test_c(self): self.fail()\n"
    )

    done = run(f"{command.replace('python3', sys.executable)} 2>&1")

    assert counted(COUNTS[command.split()[2]], done.stdout) == 2


def test_example_of_a_test_passes(fake, evaluate):
    names = {}
    exec(EXAMPLE_TEST, names)

    names["test_second_build_counts"](fake, evaluate)


def test_excerpt_has_fields_of_a_report(fake, evaluate):
    report = de.as_json(evaluate(["FROM x"], run_command("false")))

    excerpt, fields = (set(re.findall(r'"(\w+)":', text)) for text in (EXCERPT, report))
    assert excerpt <= fields


@pytest.mark.long("starts pytest")
@pytest.mark.parametrize("command", PYTEST)
def test_commands_of_pytest_select_something(command):
    words = re.sub(".* -m pytest", f"{sys.executable} -m pytest --collect-only", command)

    assert run(f"cd {PROJECT} && {words} -p no:cacheprovider").returncode == 0


def test_each_file_of_tests_says_what_it_tests():
    printed = run(f"cd {PROJECT} && {TESTS.subjects}").stdout

    found = re.findall(r'^tests/(\w+\.py):"""\S', printed, re.MULTILINE)
    assert found == sorted(file.name for file in PROJECT.glob("tests/*.py"))


@pytest.mark.parametrize("command", BEFORE_A_RELEASE)
def test_program_is_run_before_a_release(command):
    assert command.split()[1] in (PROJECT / "tests" / "run").read_text()


# Commands without an engine


ANSWERS = {
    "fence": ("Sure!\n```dockerfile\nFROM x\nRUN make\n```\nDone.\n", "FROM x\nRUN make\n"),
    "indented fence": ("1. So:\n   ```\n   FROM x\n   ```\n", "   FROM x\n"),
    "other blocks": ("```sh\nls\n```\nThen:\n```\nFROM x\n```\n```\nFROM y\n```\n", "FROM y\n"),
    "other block last": ("```\nFROM x\n```\n```sh\ndocker build .\n```\n", "FROM x\n"),
    "tildes, lower case": ("~~~\nfrom x\n```\n~~~\n", "from x\n```\n"),
    "no end": ("Sure!\n```Dockerfile\n# syntax=y\nFROM x", "# syntax=y\nFROM x\n"),
    "no fence": ("ARG V=1\nFROM x:$V\n", "ARG V=1\nFROM x:$V\n"),
    "no Dockerfile": ("I cannot\n```sh\nls\n```\n", ""),
    "nothing": ("", ""),
}


@pytest.mark.usefixtures("own_folder")
def test_from_lines_are_listed_once():
    tree(
        {"gpt-5/express": "FROM node AS build\nFROM scratch", "beta/express": "from node AS build"}
    )

    named = run(ARTIFACTS.named).stdout.splitlines()

    assert named == ["FROM node AS build", "FROM scratch", "from node AS build"]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_dockerfile_is_taken_out_of_an_answer(answer, expected):
    Path("answers/gpt-5").mkdir(parents=True)
    Path("answers/gpt-5/express.md").write_text(answer)
    Path("answers.jsonl").write_text(
        json.dumps({"model": "gamma", "repo": "flask", "answer": answer}) + "\n"
    )

    exec(TAKE_OUT, {})

    for file in ("gpt-5/express", "gamma/flask"):
        assert Path(f"artifacts/{file}.dockerfile").read_text() == expected


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="not a clone")
@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_project_is_cloned():
    clone = MAIN.clone.replace("ADDRESS", f"--quiet {PROJECT}")

    assert run(f"{clone} && test -e README.md").returncode == 0


def test_program_that_runs_the_tests_is_there():
    assert run(f"{PROJECT / MAIN.run_tests} nothing").stderr == "usage: tests/run [quick | all]\n"


def test_tasks_of_setupbench_become_rubrics():
    os.mkdir("rubrics")
    said = "app && echo 'Setup successful' || echo 'Setup failed'"
    commands = {"deps-a-1": "npm ci", "b-2": said, "bgsetup-c": said, "dbsetup-d-1": said}
    tasks = [{"instance_id": name, "success_command": text} for name, text in commands.items()]
    Path("records.jsonl").write_text("\n".join(map(json.dumps, tasks)))

    subprocess.run([sys.executable, "-c", FROM_SETUPBENCH, "records.jsonl"], check=True)

    found = []
    for name in commands:
        data = Path(f"rubrics/{name}.json").read_bytes()
        ((test),) = de.read_rubric(data, name, is_strict=True).tests
        found.append((test.type, test.service, test.params.get("exit_code"), test.check.command))
    service = ("output_contains", 0, "any", f"sleep 20; {said}")
    assert found == [
        ("run_command", None, None, "npm ci"),
        ("output_contains", None, "any", said),
        service,
        service,
    ]


@pytest.mark.usefixtures("checkout")
def test_rubrics_of_the_project_are_valid_and_lint_finds_nothing():
    assert run(RUBRICS.check).stdout == "rubrics/example.json: 10 tests, valid\n"
    assert run(RUBRICS.lint).stdout.count(" 0 warnings\n") == 4


@pytest.mark.long("evaluates the solutions of three rubrics three times")
@pytest.mark.usefixtures("fake", "checkout")
def test_whole_benchmark_is_measured():
    assert run(RUBRICS.measure).stdout.count("only the solution earns") == 3


@pytest.mark.usefixtures("fake", "checkout")
def test_one_dockerfile_is_scored():
    run(ARTIFACTS.one)

    assert written() == ["reports/slug.json"]


@pytest.mark.long("evaluates a benchmark")
@pytest.mark.usefixtures("fake", "checkout")
def test_image_is_kept_to_work_on_one_test():
    assert "image kept: " in run(ARTIFACTS.keep).stdout
    assert re.search(r"^\w+ +compiles ", run(ARTIFACTS.one_test).stdout, re.MULTILINE)


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("false", 1)], ids=["passes", "fails"])
def test_ci_step_fails_unless_all_tests_pass(fake, own_folder, command, code):
    """In the repository of a user."""
    shutil.copy(str(PROJECT / "DockerfileEvaluator.py"), ".")
    Path("Dockerfile").write_text("FROM x\n")
    Path("rubrics").mkdir()
    Path("rubrics/express.json").write_text(json.dumps({"tests": [run_command(command)]}))

    done = run(ARTIFACTS.ci_step)

    assert done.returncode == code
    assert Path("score.xml").read_text().startswith("<testsuite ")


TO_REWARD = {
    "passes": ([de.PASSED, de.PASSED], {"reward": 1}),
    "half of the points": ([de.PASSED, de.FAILED], {"reward": 0.5}),
    "failed build": ("build", {"reward": 0}),
    "engine error": ("engine", None),
    "no report": (None, None),
}


@pytest.mark.skipif(not shutil.which("jq"), reason="needs jq")
@pytest.mark.parametrize(("result", "expected"), TO_REWARD.values(), ids=TO_REWARD)
def test_reward_is_written_only_if_there_is_a_score(reported, result, expected):
    if result:
        reported(result)
    file = Path("reward.json")

    done = run(REPORTS.reward.replace("/logs/verifier/", ""))

    assert (done.returncode == 0) is file.exists()
    assert (json.loads(file.read_text()) if file.exists() else None) == expected


@pytest.mark.skipif(not shutil.which("junit-to-ctrf"), reason="needs npm's junit-to-ctrf")
def test_junit_becomes_ctrf(reported):
    statuses = [de.PASSED, de.FAILED, de.SKIPPED]
    reported(statuses)

    run(REPORTS.ctrf.replace("npx ", ""))

    found = json.loads(Path("ctrf/ctrf-report.json").read_text())["results"]
    assert [test["status"] for test in found["tests"]] == statuses


@pytest.mark.usefixtures("checkout")
def test_board_is_exported():
    write({"openai/gpt-5/r": 10})

    assert run(REPORTS.export).returncode == 0

    pattern = re.findall("'(.*)'", REPORTS.validate)[0]
    assert [file.parent.name for file in Path().glob(pattern)] == ["gpt-5"]


REWARDS = {
    "passes": ("FROM x", "", 1.0),
    "failed build": ("FROM x\nRUN exit 1", "", 0.0),
    "engine error": ("FROM x", "build; 'control COPY'", None),
}


@pytest.mark.parametrize(("dockerfile", "faults", "expected"), REWARDS.values(), ids=REWARDS)
def test_harness_gets_a_reward(fake, tmp_path, dockerfile, faults, expected):
    fake.inject(faults)
    names = {}
    exec(HARNESS, names)

    reward = names["reward"](dockerfile, {"tests": [run_command("true")]}, str(tmp_path))

    assert reward == expected


@pytest.mark.usefixtures("checkout")
def test_example_is_listed():
    assert "birch: 3 Dockerfiles, 0 already scored\n" in run(ARTIFACTS.list).stdout


@pytest.mark.long("evaluates a benchmark")
@pytest.mark.usefixtures("benchmark")
@pytest.mark.parametrize(
    "command",
    [ARTIFACTS.all, ARTIFACTS.overlay, ARTIFACTS.two_repositories],
    ids=["all", "overlay", "two repositories"],
)
def test_benchmark_is_evaluated(command):
    run(command)

    assert written() == ["reports/gpt-5/express.json", "reports/gpt-5/flask.json"]


@pytest.mark.long("evaluates a benchmark")
@pytest.mark.usefixtures("benchmark")
def test_shards_evaluate_their_part_and_the_reference_for_one_board():
    tree("reference/express:FROM x, reference/flask:FROM x")

    for command in SHARDS:
        run(command)
    board = run(ARTIFACTS.shard_board)

    files = " ".join(written("lab1") + written("lab2"))
    assert re.findall(r"gpt-5/\w+", files) == ["gpt-5/express", "gpt-5/flask"]
    assert files.count("reference/") == 4
    assert re.search(r"^gpt-5 +100\.0%", board.stdout, re.MULTILINE)


@pytest.mark.long("evaluates a benchmark")
@pytest.mark.usefixtures("fake", "own_folder")
def test_own_benchmark_is_scored_and_compared():
    for path in map(Path, LAYOUT):
        (path if path.suffix == "" else path.parent).mkdir(parents=True, exist_ok=True)
        if path.suffix == ".dockerfile":
            path.write_text("FROM x\n")
    Path("rubrics/express.json").write_text(json.dumps({"tests": [run_command("true")]}))

    evaluated = run(MAIN.benchmark)
    board = run(MAIN.board)

    assert evaluated.returncode == 0
    assert scores() == {"gpt-5/express": 1, "reference/express": 1}
    assert re.search(r"^gpt-5 +100\.0%", board.stdout, re.MULTILINE)
    assert "gpt-5" in Path("board.html").read_text()


def board_of_the_picture():
    """Return what is printed of the made-up reports, and the words of their page."""
    program = PROJECT / TESTS.picture.split()[-1]
    printed = run(f"PYTHONPATH={PROJECT} {sys.executable} {program} --words 2>&1").stdout
    return printed.split("\f")


@pytest.mark.long("evaluates a benchmark")
def test_picture_has_the_words_of_the_page():
    """Otherwise the picture is older than the program."""
    assert board_of_the_picture()[1] == (PROJECT / "tests" / "picture.txt").read_text()


@pytest.mark.long("evaluates a benchmark")
def test_board_begins_with_what_is_printed():
    """The reports are those of the picture."""
    printed = board_of_the_picture()[0]

    assert REPORTS.ranking == "python3 reports/leaderboard.py reports/"
    date = r"\d{4}-\d\d-\d\d"
    shown = REPORTS.printed[REPORTS.ranking]
    assert re.sub(date, "", printed).startswith(re.sub(date, "", shown))


# Commands on an engine


def test_what_is_suspicious_is_evaluated_again(fake, own_folder):
    tree({"gpt-5/express": "FROM x\nRUN exit 1", "gpt-5/flask": "FROM x\nRUN exit 2"})
    run_clone(ARTIFACTS.all)
    content = read_report("gpt-5/flask")
    content["error"]["suspect"] = "reference"
    Path("reports/gpt-5/flask.json").write_text(de.as_json(content))

    printed = run_clone(ARTIFACTS.again).stdout

    assert re.findall(r"^\[.*?: ", printed, re.MULTILINE) == ["[1/1] gpt-5/flask: "]


@pytest.mark.no_podman
@pytest.mark.usefixtures("engine")
def test_build_cache_is_pruned():
    assert run(ARTIFACTS.prune.replace("while sleep 600", "for once in 1")).returncode == 0


@pytest.mark.usefixtures("engine", "own_folder")
def test_hidden_tests_are_mounted():
    tree({"gpt-5/express": BUSYBOX}, run_command("sh /hidden/check.sh"))
    Path("hidden").mkdir()
    Path("hidden/check.sh").write_text("! touch /hidden/new\n")

    run_clone(ARTIFACTS.hidden)

    assert scores() == {"gpt-5/express": 1}


@pytest.mark.usefixtures("engine", "own_folder")
def test_each_run_has_the_proxy_of_the_cache():
    tree({"gpt-5/express": f'{BUSYBOX}\nRUN test "$http_proxy" = http://172.17.0.1:3128'})

    run_clone(ARTIFACTS.cache)

    assert scores() == {"gpt-5/express": 1}


@pytest.mark.no_podman
@pytest.mark.usefixtures("engine", "buildkit", "own_folder")
def test_frontend_that_cannot_be_pulled_is_no_zero():
    tree({"gpt-5/express": BUSYBOX})
    frontend = ARTIFACTS.frontend.replace("docker/dockerfile:1.10", "localhost:1/dockerfile:1.10")

    run_clone(frontend)

    kind, message = error_of(read_report("gpt-5/express"))
    assert kind == "registry"
    assert "localhost:1/dockerfile" in message


@pytest.mark.no_podman  # which does not read this file
def test_localhost_needs_no_proxy(engine, evaluate):
    folder = Path("~/.docker").expanduser()
    folder.mkdir()
    (folder / "config.json").write_text(PROXIES)
    expected = 'test "$https_proxy $no_proxy" = "http://proxy:3128 localhost,127.0.0.1"'

    report = evaluate([BUSYBOX, f"RUN {expected}"], run_command(expected))

    assert outcome(report) == "passed"


@pytest.mark.usefixtures("engine", "own_folder")
def test_answer_without_a_dockerfile_scores_0():
    tree("gpt-5/express")
    Path("artifacts/gpt-5/express.dockerfile").write_text("")

    run_clone(ARTIFACTS.all)

    assert scores() == {"gpt-5/express": 0}


@pytest.mark.usefixtures("layers_of_the_example", "checkout")
def test_quick_start_scores_the_example_in_full():
    before = census()

    done = run(MAIN.quick_start)

    varies = r"\d+\.\d s|number \d+|party \d+|'\d+ hands"
    printed = done.stdout[done.stdout.index("\npassed ") + 1 :]
    assert re.sub(varies, "", printed) == re.sub(varies, "", PRINTED)
    assert written() == ["reports/example.json"]
    assert census() == before


SUITE = r"#!/bin/sh\necho 2 failed, 18 passed; exit 1\n"


@pytest.mark.usefixtures("engine", "own_folder")
def test_own_rubric_counts_a_suite_and_asks_a_service():
    Path("rubrics").mkdir()
    Path("rubrics/express.json").write_text(RUBRIC)
    service = "RUN mkdir /www && echo ok >/www/health"
    suite = f"RUN printf '{SUITE}' >/bin/pytest && chmod +x /bin/pytest"
    lines = [BUSYBOX, service, suite, "CMD httpd -f -p 8080 -h /www"]
    Path("Dockerfile").write_text("\n".join(lines))

    printed = run(MAIN.own).stdout

    assert re.findall(r"^(\w+) +(\w+) +([\d.]+/\d+) ", printed, re.MULTILINE) == [
        ("failed", "suite", "7.2/8"),
        ("passed", "health", "2/2"),
    ]


@pytest.mark.usefixtures("networked_engine", "legacy", "example_tree")
def test_review_is_what_is_printed_and_only_the_solution_passes_with_draw():
    Path("rubric.json").write_text(WEAK)
    shown = run(RUBRICS.review).stdout
    Path("rubric.json").write_text(WITH_DRAW)
    drawn = run(RUBRICS.review).stdout

    assert shown == RUBRICS.printed[RUBRICS.review]
    assert "faked 0 (0.0%), solution 1 (100.0%), points only the solution earns: 1 of 1\n" in drawn


@pytest.mark.release
@pytest.mark.usefixtures("networked_engine", "legacy", "checkout")
def test_tree_and_board():
    evaluated = run(ARTIFACTS.tree)
    board = run("python3 reports/leaderboard.py artifacts/tree/reports --reference reference")

    assert evaluated.returncode == 0, evaluated.stdout
    assert re.findall(r"^(\w+) +([\d.]+%) +-", board.stdout, re.MULTILINE) == [
        ("atlas", "100.0%"),
        ("birch", "29.6%"),
    ]
