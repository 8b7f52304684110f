"""README.md and the pages of the folders: each command, example and link is right.

test_each_command_is_run() fails for a command that no transcript has and no test takes.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import review
from batch import scores, tree
from cases import FALSE, TRUE, run_command, table
from conftest import PIPES, PROJECT, outcome, schema
from engine import census

import DockerfileEvaluator as de

FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", re.MULTILINE)
NAMES = r"python3|git|tests/|dask|while|for|awk|grep|npx|every_eval_ever|reward=|\.venv/"
PROGRAM = rf"(?:cd \S+ && )?(?:[A-Z_]+=\S+ )*(?:{NAMES})"
COMMAND = re.compile(
    rf"^    ({PROGRAM}.*)$"  # an indented line
    r"|(?<!\| )`((?:python3|tests/with-engine) [^`]+)`"  # in a sentence, not in a table
    r"|^ +- run: (.*)$",  # a step of a CI job
    re.MULTILINE,
)
PAGES = sorted({*PROJECT.glob("README.md"), *PROJECT.glob("[a-z]*/README.md")})
TEXT = "".join(page.read_text() for page in PAGES)
EXAMPLES = FENCED.findall(TEXT)
PRINTED = dict(SESSION.findall("".join(text for kind, text in EXAMPLES if kind == "console")))
COMMANDS = {*map("".join, COMMAND.findall(TEXT)), *PRINTED}


def command(word):
    """Return the one command that has a word."""
    (found,) = (each for each in COMMANDS if word in each)
    return found


def example(kind, word):
    """Return the one example in a language that has a word."""
    (found,) = (text for language, text in EXAMPLES if language == kind and word in text)
    return found


def as_rubric(text):
    """Return an example, which may be a part of a rubric, as a whole one."""
    if '"tests"' in text:
        return text
    tests = text.strip().strip("[]")
    return f'{{"tests": [{tests}]}}'


COUNTS = dict(re.findall(r"^\| ([^`|]+) \| `.+` \| `(.+)` \|$", TEXT, re.MULTILINE))
SUITES = json.loads((PROJECT / "tests" / "logs" / "suites.json").read_text())  # what tools printed
BUSYBOX = "FROM busybox:stable"


def run(line):
    return subprocess.run(["sh", "-c", line], text=True, **PIPES)


def needs(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f"needs {program}")


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Change to a copy of the project in the home folder, in which reports may be written."""
    folder = tmp_path / "home" / "DockerfileEvaluator"
    folder.mkdir()
    files = "DockerfileEvaluator.py artifacts rubrics reports/leaderboard.py tests/with-engine"
    run(f"cd {PROJECT} && cp -r --parents {files} {folder}")
    monkeypatch.chdir(folder)


def anchors(text):
    """Return what a link can name in a page."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


# Links, tables and examples


def test_each_command_is_run():
    tests, shown = (
        "".join(file.read_text() for file in PROJECT.glob(f"tests/{files}"))
        for files in ("*.py", "transcripts/pages-*")
    )
    taken = set(map(command, re.findall(r"""\bcommand\(["'](.+?)["']\)""", tests)))

    assert [line for line in COMMANDS - taken if f"$ {line}" not in shown] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_to_something(page):
    for target, anchor in re.findall(r"\]\((?!http)([^)#]+)#?([^)]*)\)", page.read_text()):
        assert (page.parent / target).exists()
        assert not anchor or anchor in anchors((page.parent / target).read_text())


def test_table_has_each_kind_of_error():
    kinds = schema("report").schema["properties"]["error"]["properties"]["kind"]["enum"]

    assert re.findall(r"^\| `(\w+)` \| (?:0|none) \|", TEXT, re.MULTILINE) == kinds


@pytest.mark.parametrize("text", [text for _, text in EXAMPLES if '"params"' in text])
def test_rubric_is_valid(text):
    if not text.startswith("import"):
        assert de.read_rubric(as_rubric(text).encode(), "README.md").unresolvable == {}


@pytest.mark.parametrize("log", SUITES, ids=lambda log: log["suite"])
def test_count_of_a_suite_is_the_number_of_passed_tests(log):
    """Lint finds nothing in it."""
    count = re.compile(COUNTS[log["suite"]])

    assert de.count_matches(count, de.Printed(log["output"].encode())) == log["passed"]
    assert de.count_matches(count, de.Printed(review.FAILED_SUITE.encode())) == 0


def test_each_count_has_a_log():
    assert set(COUNTS) == {log["suite"] for log in SUITES}


def test_example_of_a_test_passes(fake, evaluate):
    names = {}
    exec(example("python", "test_second_build"), names)

    names["test_second_build_counts"](fake, evaluate)


def test_excerpt_has_fields_of_a_report(fake, evaluate):
    fields = json.dumps(evaluate(["FROM x"], FALSE))

    assert all(key in fields for key in re.findall(r'"\w+":', example("json", '"summary"')))


@pytest.mark.long("starts pytest")
@pytest.mark.parametrize("line", [command("-k limit"), command("test_hostile")])
def test_command_of_pytest_selects_something(line):
    words = line.partition(" -m pytest")[2]

    line = f"cd {PROJECT} && {sys.executable} -m pytest -p no:cacheprovider --collect-only {words}"

    assert run(line).returncode == 0


@pytest.mark.parametrize("line", [command("tests/soak"), command("tests/bench")])
def test_program_is_run_before_a_release(line):
    assert line.split()[1] in (PROJECT / "tests" / "run").read_text()


# Commands without an engine; those of Dask are in test_dask.py


@needs("git")
def test_checkouts_have_their_commit_and_its_history():
    run("""
        git init --quiet origin
        cd origin
        git config user.name n
        git config user.email e
        for n in 1 2 3; do git commit --quiet --allow-empty --message=$n; git tag -m $n v$n; done
        for n in 1 2; do echo "v$n file://$PWD $(git rev-parse v$n^0)"; done >../repositories.txt
    """)

    run(example("sh", "repositories.txt"))

    found = run("""
        for folder in checkouts/v1 checkouts/v2; do
            git -C $folder describe
            git -C $folder rev-list --count HEAD
        done
    """)
    assert found.stdout.split() == ["v1", "1", "v2", "2"]


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="not a clone")
def test_project_is_cloned():
    line = command("git clone").replace("ADDRESS", f"--quiet {PROJECT}")

    assert "usage: tests/run " in run(f"{line} && tests/run nothing").stderr


@needs("jq")
@pytest.mark.parametrize(
    ("faults", "written"), [("", '{"reward":0.5}'), ("build; 'control COPY'", "")]
)
def test_reward_is_written_only_if_there_is_a_score(fake, evaluate, faults, written):
    fake.inject(faults)
    evaluate(["FROM x"], TRUE, FALSE, output="report.json")
    line = command("jq -e").replace("/logs/verifier/", "")

    assert run(f"{line} && tr -d '[:space:]' <reward.json").stdout == written


# The lines of a Dockerfile, and the reward
REWARDS = """
FROM x -> 1.0
FROM x|RUN exit 1 -> 0.0
FROM y -> None
    faults: build; 'control COPY'
"""


@table(REWARDS, faults="")
def test_harness_gets_a_reward(fake, tmp_path, row):
    fake.inject(row.faults)
    names = {}
    exec(example("python", "def reward"), names)

    reward = names["reward"](row.when.replace("|", "\n"), {"tests": [TRUE]}, str(tmp_path))

    assert str(reward) == row.then


@pytest.mark.long("evaluates a benchmark")
def test_picture_has_the_words_of_the_page_and_the_board_begins_with_what_is_printed():
    """Otherwise the picture is older than the program."""
    program = PROJECT / command("tests/picture").split()[-1]

    done = run(f"PYTHONPATH={PROJECT} {sys.executable} {program} --words 2>&1")

    printed, words = done.stdout.split("\f")
    shown = PRINTED[command("leaderboard.py reports/")]
    assert words == program.with_suffix(".txt").read_text()
    days = re.compile(r"\d{4}-\d\d-\d\d")
    assert days.sub("", printed).startswith(days.sub("", shown))


# Commands on an engine


@pytest.mark.no_podman
@pytest.mark.usefixtures("engine")
def test_build_cache_is_pruned():
    line = command("docker builder prune").replace("while sleep 600", "for once in 1")

    assert run(line).returncode == 0


@pytest.mark.usefixtures("engine", "clone")
def test_hidden_tests_are_mounted():
    tree({"gpt-5/express": BUSYBOX}, run_command("sh /hidden/check.sh"))
    Path("hidden").mkdir()
    Path("hidden/check.sh").write_text("! touch /hidden/new\n")

    run(command("--mount="))

    assert scores() == {"gpt-5/express": 1}


@pytest.mark.no_podman  # which does not read this file
def test_localhost_needs_no_proxy(engine, evaluate):
    Path(".docker").mkdir()
    Path(".docker/config.json").write_text(example("json", "httpProxy"))
    expected = 'test "$https_proxy $no_proxy" = "http://proxy:3128 localhost,127.0.0.1"'

    report = evaluate([BUSYBOX, f"RUN {expected}"], run_command(expected))

    assert outcome(report) == "passed"


@pytest.mark.usefixtures("example_image", "clone")
def test_quick_start_scores_the_example_in_full():
    before = census()

    done = run(command("--dockerfile artifacts/example.dockerfile"))

    printed = done.stdout[done.stdout.index("\npassed ") + 1 :]
    shown, printed = (
        re.sub(r"\d+\.\d s|number \d+|party \d+|'\d+ hands", "", text)
        for text in (example("", "java_command"), printed)
    )
    assert printed == shown
    assert census() == before


FLASK = """
    mkdir flask; cd flask
    cat >pytest <<'END'
#!/bin/sh
for n in $(seq 20); do
    test $n -gt 18 && failure='<failure/>'
    cases="$cases<testcase name='$n'>$failure</testcase>"
done
echo "<suite>$cases</suite>" >/tmp/r.xml
exit 1
END
    chmod +x pytest
    cat >Dockerfile <<'END'
FROM busybox:stable
RUN mkdir /www && echo ok >/www/health
COPY pytest /bin/
CMD httpd -f -p 8080 -h /www
END
"""


@pytest.mark.usefixtures("engine", "clone")
def test_own_rubric_counts_a_suite_and_asks_a_service():
    Path("rubrics/flask.json").write_text(example("json", '"of": 20'))
    run(FLASK)

    printed = run(command("~/DockerfileEvaluator/DockerfileEvaluator.py")).stdout

    assert re.search(r"(?m)^failed +suite +7\.2/8 .*failed: '19', '20'", printed)
    assert re.search(r"(?m)^passed +health +2/2 ", printed)


@pytest.mark.usefixtures("networked_engine", "clone")
def test_review_is_what_is_printed_and_only_the_solution_passes_with_draw(monkeypatch):
    monkeypatch.chdir("artifacts/tree")
    line = command("review.py rubric.json")

    def reviewed(word):
        Path("rubric.json").write_text(as_rubric(example("json", word)))
        return run(line).stdout

    assert reviewed("Hello, World!") == PRINTED[line]
    assert "points only the solution earns: 1 of 1\n" in reviewed("Page {a}")


@pytest.mark.release
@pytest.mark.usefixtures("networked_engine", "clone")
def test_tree_and_board():
    evaluated = run(command("{repo}' --reference reference"))
    board = run("python3 reports/leaderboard.py artifacts/tree/reports --reference reference")

    assert evaluated.returncode == 0, evaluated.stdout
    assert re.findall(r"^(\w+) +([\d.]+%) +-", board.stdout, re.MULTILINE) == [
        ("atlas", "100.0%"),
        ("birch", "29.6%"),
    ]
