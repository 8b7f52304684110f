"""Text, Markdown, CSV and the page of the leaderboard carry the same numbers; its README says what it prints."""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys

import pytest
from boards import PROGRAM, Folder, Tags, board, chance, chosen, fill, leaderboard, report, row, run, share
from conftest import PROJECT


@pytest.fixture
def every_written_report_is_as_its_schema_says():
    """What is written here is what the leaderboard reads of a report, and broken reports."""


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


README = (PROJECT / "reports" / "README.md").read_text()


# Text, Markdown, CSV and the page carry the same numbers


def said(made, tmp_path, samples):
    """Return the text, the Markdown and the page of a board, and its CSV by model."""
    markdown, page = tmp_path / "x.md", tmp_path / "x.html"
    files = ["--html", str(page), "--csv", str(tmp_path / "x.csv"), "--markdown", str(markdown)]
    code, out, _ = run(made, *files, *["--samples"] * samples)
    assert code == 0
    tags = Tags()
    tags.feed(page.read_text())
    with open(tmp_path / "x.csv", newline="") as file:
        lines = {line["model"]: line for line in csv.DictReader(file)}
    return out, markdown.read_text().replace("\\", ""), tags.text, lines


@pytest.mark.parametrize(("samples", "gaps", "seed"), [(0, 0.03, 4), (3, 0.008, 1)])
def test_text_markdown_csv_and_page_say_the_same(folder, tmp_path, samples, gaps, seed):
    root = chosen(folder, seed, 4, 7, samples, gaps, skills=[0.7, 0.6, 0.5, 0])
    out, markdown, page, lines = said(root, tmp_path, bool(samples))
    made = board(root, samples=bool(samples))
    assert len(made.complete) > 1  # so that there is something to say of all kinds
    assert made.critical
    assert any(r.missing for r in made.rows)
    for table in leaderboard.tables(made).values():
        for words in (words for line in table for words in line):
            assert words in out
            assert words in markdown
            assert words.partition(" ")[0].strip("-") in page  # the page has what is in brackets below
    for line in [*leaderboard.opening(made.reports), *leaderboard.verdict(made)]:
        assert line in out
        assert line in markdown
        assert line in page
    for found in made.rows:
        line = lines[found.model]
        ends = [*(found.interval or ("", "")), *found.bounds]
        names = ["interval_low", "interval_high", "bound_low", "bound_high"]
        assert [float(line[n]) if line[n] else "" for n in names] == pytest.approx(ends, abs=1e-6)
        counts = [found.solved, len(found.scores), found.built, found.evaluated, found.reports]
        names = ["solved", "repositories", "built", "evaluated", "reports"]
        assert [int(line[name]) for name in names] == counts
        assert float(line["critical_difference"]) == pytest.approx(made.critical, abs=1e-6)
        assert (line["standing"], line["missing"]) == (made.standing(found), found.lack())
        assert float(line["category: x"]) == pytest.approx(made.share(found.model, "x"), abs=1e-6)
        scores = {repo: float(line[f"repo: {repo}"]) for repo in made.repos if line[f"repo: {repo}"]}
        assert scores == pytest.approx(found.scores, abs=1e-6)
        for name, of in (("pass@", chance.pass_at_k), ("pass^", chance.pass_all)):
            tried = found.tried(of, made.k)
            assert float(line[f"{name}{made.k}"] or -1) == pytest.approx(
                -1 if tried is None else tried, abs=1e-6
            )


def test_two_runs_print_the_same(folder):
    assert run(chosen(folder, 1, 4, 7)) == run(folder.root)


def test_columns_that_do_not_fit_follow_below(folder):
    for number in range(9):
        folder(f"m/repo{number}", report(row("a"), repo=f"a_rather_long_repository_{number}"))
    lines = run(folder.root)[1].splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("m ") for line in lines) > 1
    assert all(f"a_rather_long_repository_{number}" in "\n".join(lines) for number in range(9))


def test_columns_that_say_nothing_of_anybody_are_left_out(folder):
    made = share(10)
    made["build"]["execution_time"] = None
    table = leaderboard.tables(board(folder("m/app", made)))["models"]
    assert table[0] == ["model", "score", "passed in full", "built", "app"]


def test_an_interval_without_spread_says_so(folder):
    for repo in range(5):
        folder(f"m/r{repo}", share(10, f"r{repo}"))
    folder("n/r0", share(5, "r0"))
    rows = leaderboard.tables(board(folder.root))["models"]
    at = rows[0].index("95% interval")
    assert [line[at] for line in rows[1:3]] == ["no spread", "-"]


def test_markdown_is_a_table_that_text_cannot_leave(folder, tmp_path):
    folder("a|b*c*/r", report(row("a"), repo="<b>|`x` www.example.com"))
    run(folder.root, "--markdown", str(tmp_path / "x.md"))
    lines = (tmp_path / "x.md").read_text().splitlines()
    assert lines[4] == r"a\|b\*c\* is first with 100.0%"
    assert lines[8].startswith(r"| a\|b\*c\* | 100.0% | ")
    assert lines[6].endswith(r"| \<b\>\|\`x\` www\.example\.com |")


def test_csv_holds_no_formula(folder, tmp_path):
    evils = [
        "=1+1",
        "@x",
        "+x",
        "-x",
        " =x",
        "|x",
        "\t=x",
        "a;=x",
        "a; @x",
        "\uff1dx",
        "\uff0bx",
        "\uff0dx",
        "\uff20x",
    ]
    for at, evil in enumerate(evils):
        made = report(row(f"{evil}{at}"), repo=evil + str(at), kind="engine", message=evil)
        made["environment"]["run_options"] = [evil]
        folder(f"{evil.strip()}{at}/r", made)
    names = ("--csv", "--reports-csv", "--tests-csv")
    assert run(folder.root, *[word for name in names for word in (name, str(tmp_path / name))])[0] == 0
    formula = re.compile(r"(^|;)\s*[=+\-@|\uff1d\uff0b\uff0d\uff20]")
    for name in names:
        with open(tmp_path / name, newline="") as file:
            lines = list(csv.reader(file))
        assert len(lines) == len(evils) + 1
        assert not [value for line in lines for value in line if formula.search(value)]


def test_a_csv_of_reports_has_no_score_where_there_is_none(folder, tmp_path):
    made = report(row("a"), row("b", "failed", 3), repo="lib")
    made["environment"].update(image_size=5, run_options=["--memory=1g"])
    fill(folder)
    folder("good/lib", made)
    run(folder.root, "--reports-csv", str(tmp_path / "x.csv"))
    with open(tmp_path / "x.csv", newline="") as file:
        found = {(line["model"], line["repo"]): line for line in csv.DictReader(file)}
    numbers = {key: (line["outcome"], line["score"], line["passed"]) for key, line in found.items()}
    assert numbers["good", "lib"] == ("scored", "0.25", "1")
    assert numbers["poor", "lib"] == ("build failed", "0.0", "0")
    assert numbers["sick", "app"] == ("engine fault", "", "")
    line = found["good", "lib"]
    assert (line["build_seconds"], line["image_size"], line["run_options"]) == ("1.0", "5", "'--memory=1g")
    assert line["place"] == "reports/good/lib.json"


def test_a_csv_of_tests_has_a_line_for_each_test(folder, tmp_path):
    run(fill(folder), "--tests-csv", str(tmp_path / "x.csv"))
    with open(tmp_path / "x.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 12
    found = {(s["model"], s["repo"], s["test_id"]): (s["status"], s["score"], s["max_score"]) for s in lines}
    assert found["good", "lib", "a"] == ("passed", "1.0", "1.0")
    assert found["good", "lib", "b"] == ("failed", "0.0", "3.0")
    assert found["poor", "lib", "a"] == ("not_run", "0.0", "1.0")
    assert found["sick", "app", "a"] == ("passed", "", "1.0")  # its report has no score


# The README


EXAMPLE = {
    "atlas": "1111 1111 1101 1110 1111 1101",
    "birch": "1101 1111 1101 1100 1000 1111",
    "cedar": "1100 1000 build 1001 build 1101",
    "dune": "1000 engine 1100 build 1001 1000",
}
EXAMPLE_TESTS = (
    ("installs", 1, "toolchain"),
    ("compiles", 3, "build"),
    ("tests_pass", 4, "build"),
    ("starts", 2, "use"),
)


def example(marks, repo):
    """Return a report of which the tests are passed that have a 1, or whose evaluation ended so."""
    kind = None if marks.isdigit() else marks
    statuses = ["not_run"] * 4 if kind else ["passed" if mark == "1" else "failed" for mark in marks]
    rows = [
        row(name, status, points, "exit code 2: no rule to make target 'check'", category=category)
        for (name, points, category), status in zip(EXAMPLE_TESTS, statuses)
    ]
    message = "step 2 of 5 (RUN npm ci): exit code 1: npm error code ENOENT"
    made = report(*rows, repo=repo, kind=kind, message=message)
    made["build"]["execution_time"] = 20 + 3 * len(repo) + marks.count("1")
    made["environment"].update(docker_server="26.1.5", image_size=10_000_000 * (20 + len(repo)))
    return made


@pytest.fixture
def example_folder(folder, monkeypatch):
    """Make the reports of which the README shows the leaderboard, and three samples of two models."""
    repos = ["axios", "bat", "flask", "gin", "jq", "serde"]
    for model, line in EXAMPLE.items():
        for repo, marks in zip(repos, line.split()):
            folder(f"{model}/{repo}", example(marks, repo))
    for model in ("atlas", "birch"):
        for sample in range(3):
            line = EXAMPLE[model].split()
            for repo, marks in zip(repos[:3], line[sample:] + line[:sample]):
                folder(f"../sampled/{model}/{sample + 1}/{repo}", example(marks, repo))
    monkeypatch.chdir(os.path.dirname(folder.root))


def test_the_readmes_commands_print_what_it_says(example_folder):
    blocks = re.findall(r"```console\n\$ (.*?)\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 1
    for command, expected in blocks:
        python, program, *words = shlex.split(command)
        assert (python, program) == ("python3", "reports/leaderboard.py")
        assert run(*words) == (0, expected, "")


def test_the_readmes_program_runs(example_folder):
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    script = f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r})\n{program}"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout.decode().split()[0]) == (0, "atlas")


def test_the_readme_names_every_flag_and_every_field():
    flags = set(re.findall(r"--[a-z][a-z-]+", run("--help")[1])) - {"--help"}
    assert flags <= set(re.findall(r"--[a-z][a-z-]+", README))
    for field in [
        *report(row("a")),
        *report(row("a"))["summary"],
        *row("a"),
        "by_category",
        "usage",
        "build_timeout",
    ]:
        assert f"`{field}`" in README, field
