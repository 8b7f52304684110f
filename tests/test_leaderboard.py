"""reports/leaderboard.py: statistics, board, reading, text, Markdown, CSV and page."""

from __future__ import annotations

import csv
import html
import itertools
import json
import math
import os
import random
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reports"))

import leaderboard as lb

REPORTS = Path(lb.__file__).parent
ERRORS = dict(zip("bterui", "build build_timeout engine registry usage interrupted".split()))


def report(score, repo="app", **environment):
    """Return a report on ten tests of a point: 0 to 9 passed, all of them ("X"), or one of ERRORS."""
    kind, passed = ERRORS.get(score), 0 if score in ERRORS else 10 if score == "X" else int(score)
    rows = []
    for n in range(10):
        status = "not_run" if kind else "passed" if n < passed else "failed"
        rows.append(
            {"test_id": f"t{n}", "test_type": "run_command", "message": f"m{n}", "status": status}
        )
        rows[-1].update(passed=n < passed, score=int(n < passed), max_score=1, execution_time=0.1)
    summary = {
        "total_tests": 10,
        "passed_tests": passed,
        "failed_tests": 10 - passed,
        "total_score": passed,
    }
    summary.update(max_score=10, success_rate=passed / 10, total_execution_time=0.1)
    content = {
        "repo": repo,
        "dockerfile": "d",
        "rubric": "r",
        "summary": summary,
        "test_results": rows,
    }
    content["build"] = {"execution_time": 1.0, "log": ""}
    content["error"] = {"kind": kind, "message": "why"} if kind else None
    content["environment"] = {
        "evaluator_version": "2.0.0",
        "started_at": "2026-11-22T00",
        **environment,
    }
    return content


def write(tmp_path, reports):
    """Write reports by their places below the folder `reports`; return the folder."""
    for place, content in reports.items():
        file = tmp_path / "reports" / f"{place}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(tmp_path / "reports")


def scores(tmp_path, models):
    """Write reports for repositories r0, r1, …: "a=98-" gives model a scores for r0 and r1, no report for r2."""
    lines = (words.split("=") for words in models.split())
    cells = (
        (model, f"r{n}", score)
        for model, line in lines
        for n, score in enumerate(line)
        if score != "-"
    )
    return write(tmp_path, {f"{model}/{repo}": report(score, repo) for model, repo, score in cells})


def board(folder, *, samples=False, missing_zero=False):
    reports, left_out = lb.read_reports([folder], samples=samples)
    return lb.make_board(reports, left_out, missing_zero=missing_zero)


@pytest.fixture
def run(capsys):
    def call(*words):
        try:
            code = lb.main([*map(str, words)])
        except SystemExit as end:
            code = end.code
        return (code, *capsys.readouterr())

    return call


# Statistics


@pytest.mark.long("imports scipy")
def test_t_interval_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    for count in (2, 3, 4, 5, 6, 10, 20, 30, 101, 500):
        assert lb.t_quantile(count - 1) == pytest.approx(stats.t.ppf(0.975, count - 1), rel=1e-9)
        draw = random.Random(count)
        values = [draw.uniform(0.2, 0.8) for _ in range(count)]
        theirs = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        expected = (max(theirs.low, 0), min(theirs.high, 1)) if count >= 5 else None
        assert lb.t_interval(values) == (expected and pytest.approx(expected, rel=1e-9))
        assert lb.t_interval([0.1 * 3] + [0.3] * count) is None  # equal but for a rounding error


@pytest.mark.long("imports numpy")
@pytest.mark.parametrize(("models", "repos"), [(2, 6), (8, 12), (20, 20)])
def test_critical_difference_is_that_of_numpy(models, repos):
    numpy = pytest.importorskip("numpy")
    draw, generator = random.Random(models), numpy.random.default_rng(5)
    rows = [[draw.random() for _ in range(repos)] for _ in range(models)]
    residuals = numpy.array(rows) - numpy.mean(rows, axis=1, keepdims=True)
    residuals *= math.sqrt(models * repos / ((models - 1) * (repos - 1)))
    means = numpy.stack([generator.permuted(residuals, axis=0).mean(axis=1) for _ in range(4000)])
    theirs = numpy.quantile(numpy.ptp(means, axis=1), 0.95)
    assert lb.critical_difference(rows) == pytest.approx(theirs, rel=0.05)
    assert lb.critical_difference(rows[::-1]) == lb.critical_difference(rows)


@pytest.mark.parametrize("samples", [1, 2, 3, 6])
def test_pass_at_k_and_pass_all_count_choices(samples):
    for solved, k in itertools.product(range(samples + 1), range(1, samples + 1)):
        choices = [
            [n < solved for n in choice] for choice in itertools.combinations(range(samples), k)
        ]
        pass_all, pass_at_k = (sum(map(some, choices)) / len(choices) for some in (all, any))
        assert lb.pass_all(samples, solved, k) == pytest.approx(pass_all)
        assert 1 - lb.pass_all(samples, samples - solved, k) == pytest.approx(pass_at_k)


@pytest.mark.long("simulates 200 boards")
def test_equal_models_are_rarely_behind():
    """On 200 boards instead of 12, 3 % have a model that is behind."""
    alarms = 0
    for draw in map(random.Random, range(12)):
        means = [0.7 + draw.gauss(0, 0.6) for _ in range(20)]
        rows = [[min(max(mean + draw.gauss(0, 0.8), 0), 1) for mean in means] for _ in range(20)]
        totals = [math.fsum(row) / 20 for row in rows]
        alarms += max(totals) - min(totals) > lb.critical_difference(rows)
    assert alarms <= 1


# Board

# Scores of models for r0, r1, … -> standings by model, and what the headline says.
STANDINGS = [
    {
        "scores": "a=989898 b=212121",
        "standings": {"a": "leads", "b": "behind"},
        "headline": "a leads, b is next (difference 70.0 points, critical difference ",
    },
    {
        "scores": "a=989898 b=898987 c=121212",
        "standings": {"a": "not distinguishable", "b": "not distinguishable", "c": "behind"},
        "headline": "a and b cannot be distinguished (difference 3.3 points",
    },
    {
        "scores": "a=989898 b=898987 c=988988",
        "standings": dict.fromkeys("abc", "not distinguishable"),
        "headline": "a, c and b cannot be distinguished (difference 3.3 points",
    },
    {
        "scores": "a=989898 b=212121 c=11111e",
        "standings": {"a": "leads", "b": "behind", "c": "incomplete"},
        "headline": "a leads, b is next (difference 70.0 points",
    },
    {
        "scores": "a=989898 b=212121 c=99999e",
        "standings": {"a": "not distinguishable", "b": "behind", "c": "incomplete"},
        "headline": "a is the best complete model, b is next (difference 70.0 points",
        "possibly the best": "c",
    },
    {
        "scores": "a=989898 b=212121 c=9e9999",
        "standings": {"a": "not distinguishable", "b": "behind", "c": "incomplete"},
        "headline": "a is the best complete model, b is next",
        "possibly the best": "c",
    },
    {
        "scores": "a=555555 b=555555",
        "standings": dict.fromkeys("ab", "not distinguishable"),
        "headline": "a and b cannot be distinguished (difference 0.0 points, critical difference ",
    },
    {
        "scores": "a=99999 b=12345",
        "standings": dict.fromkeys("ab", "not tested"),
        "headline": "not compared: 5 repositories, 6 are needed\n",
    },
    {
        "scores": "a=9 b=1",
        "standings": dict.fromkeys("ab", "not tested"),
        "headline": "not compared: 1 repository, 6 are needed\n",
    },
    {
        "scores": "a=989898",
        "standings": {"a": "not tested"},
        "headline": "not compared: 1 complete model, 2 are needed\n",
    },
    {
        "scores": "a=eeeeee",
        "standings": {"a": "incomplete"},
        "headline": "not compared: 0 complete models, 2 are needed\n",
    },
]


@pytest.mark.parametrize("row", STANDINGS, ids=lambda row: row["scores"])
def test_model_leads_only_beyond_the_critical_difference(tmp_path, run, row):
    folder = scores(tmp_path, row["scores"])
    made = board(folder)
    assert {line.model: made.standing(line) for line in made.rows} == row["standings"]
    out = run(folder)[1]
    assert row["headline"] in out
    possibly = f"incomplete, and possibly the best: {row.get('possibly the best', '')}\n"
    assert (possibly in out) == ("possibly the best" in row)


def test_headline_has_the_days_that_are_known(tmp_path, run):
    contents = [report("5", "r0", started_at="2026-11-25T10"), report("5", "r1", started_at="")]
    folder = write(tmp_path, {f"a/{at}": content for at, content in enumerate(contents)})
    assert run(folder)[1].startswith("models: 1, repositories: 2, reports: 2, 2026-11-25\n")
    write(tmp_path, {"a/2": report("5", "r2", started_at="2026-11-26")})
    assert run(folder)[1].startswith(
        "models: 1, repositories: 3, reports: 3, 2026-11-25 to 2026-11-26\n"
    )


def test_engine_error_has_no_score_and_failed_build_scores_zero(tmp_path, run):
    folder = scores(tmp_path, "a=Xbterui- b=22222222")
    b, a = board(folder).rows
    words = "100.0%; 0.0% (build failed); 0.0% (build timed out); - (engine error); - (registry error); "
    words += "- (usage error); - (interrupted); - (no report)"
    assert "; ".join(lb.cell(a, f"r{n}") for n in range(8)) == words
    assert a.score == 1 / 3
    assert a.bounds == (1 / 8, 6 / 8)
    assert a.built == 1
    assert a.evaluated == 3
    assert a.solved == 1
    assert b.score == 0.2
    assert b.bounds == pytest.approx((0.2, 0.2))
    assert b.missing == {}
    assert "12.5% to 75.0% (1 engine error, 1 interrupted, 1 no report, 1 regis" in run(folder)[1]


def test_missing_zero_scores_a_repository_without_a_report_zero(tmp_path, run):
    folder = scores(tmp_path, "a=Xb- b=555")
    rows = [board(folder, missing_zero=is_zero).rows[-1] for is_zero in (False, True)]
    assert [(row.score, row.missing) for row in rows] == [(1 / 2, {"no report": 1}), (1 / 3, {})]
    assert [
        "0.0% (no report)" in run(folder, *words)[1] for words in ((), ("--missing-zero",))
    ] == [
        False,
        True,
    ]


def test_samples_are_averaged_before_repositories(tmp_path, run):
    cells = {"high/{}/app": "XX4", "high/{}/lib": "6b3", "low/{}/app": "5X", "low/{}/lib": "Xe"}
    places = (
        (place.format(n), score, n) for place, line in cells.items() for n, score in enumerate(line)
    )
    reports = {
        place: report(score, place[-3:], image_size=10**6 * n * n) for place, score, n in places
    }
    for place, content in reports.items():  # the median is 1.0 s, the mean 1.7 s
        content["build"]["execution_time"] = float(place.split("/")[1]) ** 2
    folder = write(tmp_path, reports)
    made = board(folder, samples=True)
    high, low = sorted(made.rows, key=lambda line: line.model)
    assert high.scores == pytest.approx({"app": 0.8, "lib": 0.3})
    assert high.score == pytest.approx(0.55)
    assert made.k == 2
    assert high.solved == 1
    assert high.built == 5
    assert high.evaluated == 6
    # app: 1 - C(1, 2) / C(3, 2) = 1 and C(2, 2) / C(3, 2) = 1/3 for two solved of three; lib: 0
    assert high.pass_at_k == pytest.approx(1 / 2)
    assert high.pass_all == pytest.approx(1 / 6)
    assert low.pass_at_k is None  # lib has one score
    out = run(folder, "--samples")[1]
    assert all(
        words in out
        for words in ("pass@2  pass^2", "30.0% (1 of 3 build failed)", "1.0 s", "1.0 MB")
    )
    assert (
        "reports/x.json: not in a folder MODEL/SAMPLE"
        in run(write(tmp_path, {"x": "{}"}), "--samples")[2]
    )


THREE = "sol=80e m=424 n=9b4"


def test_reference_excludes_tests_that_it_does_not_pass(tmp_path, run):
    folder = scores(tmp_path, THREE)
    code, out, err = run(folder, "--reference", "sol")
    assert code == 0
    assert len(err.splitlines()) == 3
    assert "r0: excluded 't8', 't9', which sol does not pass\nr1: excluded 't0', 't1', " in err
    assert "r2: sol has no score, nothing is excluded\n" in err
    assert re.search(r"model +r0 +r2\nn +100\.0% +40\.0%\nm +50\.0% +40\.0%\n", out)
    assert run(folder, "--reference", "x")[0] == 2


def test_items_has_the_pass_rate_of_each_test(tmp_path, run):
    folder = scores(tmp_path, THREE)
    items = [line.split() for line in run(folder, "--items")[1].splitlines()]
    assert items[2] == ["t0", "3", "of", "3", "100.0%", "all"]
    assert items[6] == ["t4", "2", "of", "3", "66.6%"]
    assert items[11] == ["t9", "0", "of", "3", "0.0%", "none"]


def test_compare_lists_differences_and_tests_that_only_one_passes(tmp_path, run):
    folder = scores(tmp_path, THREE)
    lines = run(folder, "--compare", "n", "m")[1].splitlines()
    assert lines[0] == "n minus m: +10.0 points, 95% interval -, 3 repositories, 1 better, 1 worse"
    assert lines[2:4] == ["r0: n 90.0%, m 40.0%", "  only n passes t4; m: failed, m4"]
    assert "r1: n 0.0% (build failed), m 20.0%" in lines
    assert run(folder, "--compare", "n", "x")[0] == 2
    out = run(scores(tmp_path / "2", "a=98989 b=55555"), "--compare", "a", "b")[1]
    assert "+36.0 points, 95% interval +29.2 to +42.8, 5 repositories, 5 better, 0 worse" in out


CONDITIONS = [  # field, usual value, other value, mark
    ("storage_driver", "overlay2", "overlayfs", "storage driver overlayfs"),
    ("docker_server", "20.10.24", "28.5.2", "docker server 28"),
    ("docker_server", "20.10.24", "20.10.5", ""),
    ("engine_memory", 2**33, 2**34 + 99, "engine memory 16 GiB"),
    ("run_options", [], ["--memory=2g"], 'run options ["--memory=2g"]'),
    ("rubric_sha256", "aa", "bb", "rubric"),
    ("builder", "buildkit", None, ""),
]


@pytest.mark.parametrize(("field", "usual", "other", "mark"), CONDITIONS)
def test_row_with_other_conditions_is_marked(tmp_path, run, field, usual, other, mark):
    values = {"a": usual, "b": usual, "c": other}
    folder = write(
        tmp_path, {f"{name}/app": report("5", **{field: value}) for name, value in values.items()}
    )
    made = board(folder)
    assert {name: [*marks] for name, marks in made.marks.items()} == ({"c": [mark]} if mark else {})
    assert [note.startswith("conditions differ: ") for note in made.notes] == [True] * bool(mark)
    assert mark in run(folder)[1]
    write(tmp_path, {"b/app": report("5", **{field: other}), "c/app": report("e")})  # one half each
    assert sorted(board(folder).marks) == ([*"ab"] if mark else [])


# Reading


def changed(path, *value):
    """Return a valid report in which a field has another value, or is missing."""
    place = content = report("1")
    *parents, key = (int(name) if name.isdigit() else name for name in path.split("."))
    for name in parents:
        place = place[name]
    place.pop(key)
    place.update({key: value[0]} if value else {})
    return json.dumps(content)


SEED = "repo dockerfile rubric test_results error environment.evaluator_version".split()
SEED += [f"summary.{name}" for name in report("1")["summary"]]
SEED += [f"test_results.0.{name}" for name in report("1")["test_results"][0]]
BROKEN = {  # reason by content
    "": "not JSON, or incomplete: Expecting value: line 1 column 1",
    '{"repo": "x", "summ': "not JSON, or incomplete: Unterminated string",
    "[" * 99_999: "maximum recursion depth exceeded",
    "[]": "not a report: environment.evaluator_version is missing",
    changed("environment.evaluator_version", "1.2.0"): "written by version 1.2.0, expected 2.x",
    changed("error", {"kind": "sabotage", "message": ""}): "unknown error.kind 'sabotage'",
    changed("test_results.0.score", 5): "contradictory: test t0 passed, score 5",
    changed("test_results.1.score", 1): "contradictory: test t1 failed, score 1",
    changed("test_results.1.score", math.nan): "not a report: score is NaN",
    changed("test_results.0.max_score", True): "not a report: max_score is true",
    changed("test_results.0.test_id", "t1"): "contradictory: a test_id is given twice",
    changed(
        "test_results.1.status", "error"
    ): "contradictory: tests without a result, but no error",
    changed("summary.max_score", 10**400): "not a report: summary.max_score is 1000",
    changed(
        "summary.total_score", 2
    ): "contradictory: max_score is 0, or the scores are not those of",
    changed("test_results", []): "contradictory: max_score is 0",
    **{
        changed(path): f"not a report: {path.replace('test_results.0.', '')} is missing"
        for path in SEED
    },
}


@pytest.mark.parametrize("content", BROKEN)
def test_broken_report_is_named_and_left_out(tmp_path, run, content):
    folder, line = (
        write(tmp_path, {"bad/x": content}),
        f"left out: reports/bad/x.json: {BROKEN[content]}",
    )
    code, out, err = run(folder)
    assert code == 1
    assert out == ""
    assert err.startswith(line) is True
    assert err.endswith("\nno valid report\n") is True
    code, out, err = run(write(tmp_path, {"good/x": report("5")}), "--html", tmp_path / "x.html")
    assert code == 0
    assert "models: 1, repositories: 1, reports: 1" in out
    assert err.startswith(line) is True
    assert html.unescape((tmp_path / "x.html").read_text()).count(line) == 1


def test_folders_name_models_and_what_is_no_report_is_named(tmp_path, run):
    folder = write(
        tmp_path, {"gpt/prompt 1/x": report("5"), "x": report("6"), "y": report("7"), ".z/x": ""}
    )
    os.mkfifo(f"{folder}/pipe.json")
    Path(folder, "gpt", "\udcff\n\x1b.json").write_bytes(b" " * 20_000_001)
    reports, left_out = lb.read_reports([folder])
    assert [made.model for made in reports] == ["gpt/prompt 1", "reports"]
    assert left_out == [
        "reports/gpt/\\udcff\\n\\x1b.json: not a regular file of at most 20 MB",
        "reports/pipe.json: not a regular file of at most 20 MB",
        "reports/y.json: duplicate: reports/x.json counts for app",
    ]
    reports, _ = lb.read_reports([f"old={folder}", f"new={folder}/gpt/prompt 1"])
    assert [made.model for made in reports] == ["new/prompt 1", "old/gpt/prompt 1", "old/reports"]
    assert run(f"{folder}/nowhere")[0] == 2
    err = run(write(tmp_path, {f"bad/{n}": "{" for n in range(30)}))[2].splitlines()
    assert err[20:] == ["left out: 13 more files"]


def test_link_to_a_folder_above_makes_no_models(tmp_path):
    folder = write(tmp_path, {"m/x": report("5"), "n/x": report("5")})
    os.symlink("..", f"{folder}/m/up")
    os.symlink("../n", f"{folder}/m/side")
    os.symlink("m", f"{folder}/again")
    reports, left_out = lb.read_reports([folder])
    assert [made.model for made in reports] == ["m", "n"]
    assert left_out == []


def test_deeply_nested_parameters_are_harmless(tmp_path, run):
    """Deep enough to be read and not to be written, or not even to be read."""
    for depth in (400, 984, 20_000):
        content = json.dumps(report("5")).replace(
            '"message": "m7"',
            f'"message": "m7", "params": {"{"}"a": {"[" * depth}{"]" * depth}{"}"}',
        )
        folder = write(tmp_path / str(depth), {"bad/x": content, "good/x": report("6")})
        code, out, _ = run(folder, "--html", tmp_path / "page")
        assert code == 0
        assert "\ngood " in out


# Output

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></pre></details>&amp;${x}|`x`\x1b[2J\u202e"
FORMULAS = "=1+1,@x,+x,-x, =x,|x,a;=x,a; @x,\uff1dx,\uff0bx,\uff0dx,\uff20x".split(",")


def test_hostile_text_is_escaped_on_page_screen_markdown_and_csv(tmp_path, run):
    reports = {}
    for (n, text), score in itertools.product(enumerate([EVIL, *FORMULAS]), "5b"):
        content = report(score, text + score, builder=text, run_options=[text], started_at=text)
        content["build"]["log"] = content["test_results"][9]["output"] = text
        content["test_results"][9].update(
            test_id=text, test_type=text, message=text, params={text: text}
        )
        content["error"] = content["error"] and {"kind": "build", "message": text}
        reports[f"{text.replace('/', '-')}/{score}{n}"] = content
    files = {name: tmp_path / name for name in ("html", "markdown", "csv")}
    code, out, err = run(
        write(tmp_path, reports), *(f"--{name}={file}" for name, file in files.items())
    )
    page, markdown = (files[name].read_text() for name in ("html", "markdown"))
    assert code == 0
    assert re.findall("[\x1b\u202e]", out + err + page + markdown) == []
    template = (REPORTS / "page.html").read_text()
    assert re.findall(r"(?i)<script|<link|<iframe|\son\w+=|url\(|https?:", template) == []
    own = {*re.findall(r"<(\w+)", template), *"p thead tbody tr th td".split()}
    assert {*re.findall(r"<(\w+)", page)} == own | {"details", "summary", "pre"}
    assert html.unescape(page).count("<script>alert(1)</script>") > 8
    assert not re.search(r"(?<!\\)[<`]", markdown)
    assert {line.count(" | ") for line in markdown.splitlines() if line.startswith("| ")} == {7, 26}
    with open(files["csv"], newline="") as file:
        cells = [value for line in csv.reader(file) for value in line]
    assert not [
        value for value in cells if re.search(r"(^|;)\s*[=+\-@|\uff1d\uff0b\uff0d\uff20]", value)
    ]


def test_csv_has_a_line_for_each_test_of_each_report(tmp_path):
    folder, names = scores(tmp_path, "a=9e b=b"), "model repo outcome test score".split()
    assert lb.main([folder, "--csv", str(tmp_path / "csv")]) == 0
    with open(tmp_path / "csv", newline="") as file:
        lines = [",".join(line[name] for name in names) for line in csv.DictReader(file)]
    assert len(lines) == 30
    assert lines[8:10] == ["a,r0,scored,t8,1", "a,r0,scored,t9,0"]
    assert lines[10] == "a,r1,engine error,t0,"
    assert lines[20] == "b,r0,build failed,t0,0"


STARTS = [("--html", "<!doctype html>"), ("--markdown", "models\\: 1"), ("--csv", "model,")]


@pytest.mark.parametrize(("option", "start"), STARTS)
def test_file_on_stdout_moves_the_tables_to_stderr(tmp_path, capfd, option, start):
    code = lb.main([scores(tmp_path, "a=98"), option, "-"])
    out, err = capfd.readouterr()
    assert (code, out.startswith(start), err.startswith("models: 1")) == (0, True, True), (
        out[:80],
        err[:80],
    )


def test_text_markdown_and_page_have_the_same_words(tmp_path, run, monkeypatch):
    folder = scores(tmp_path, "a=98989Xe8 b=X78989b- c=12121212 d=78989b9X")
    files = {name: tmp_path / name for name in ("html", "markdown")}
    code, out, _ = run(
        folder, *(f"--{name}={file}" for name, file in files.items()), "--csv", tmp_path
    )
    assert code == 1  # a folder cannot be written, which does not prevent the rest
    page, markdown = (file.read_text() for file in files.values())
    text, made = html.unescape(re.sub("<[^>]*>", "\n", page)).splitlines(), board(folder)
    for words in itertools.chain(
        lb.headline(made), *lb.board_table(made), *lb.repo_table(made, made.repos)
    ):
        assert words in out
        assert words in markdown.replace("\\", "")
        assert words in text
    for line in made.rows:
        ends = "--score:{:.2%};--low:{:.2%};--high:{:.2%};".format(line.score, *line.interval)
        ends += "--lower:{:.2%};--upper:{:.2%};".format(*line.bounds) if line.missing else ""
        assert f'style="{ends}"' in page
    assert f"--near: {made.best - made.critical:.2%}; --best: {made.best:.2%};" in page
    monkeypatch.setattr(lb, "MAX_CELLS", 32 * (lb.CELL_MARKUP + 20))  # bytes for 32 cells
    assert len(lb.as_page(made)) < len(page) - 32 * 50


def test_readme_shows_what_is_printed(tmp_path, run, monkeypatch):
    rows = {"atlas": "98X97X", "birch": "8796X8", "cedar": "2b1324", "dune": "1e41-2"}
    for model, line in rows.items():
        facts = {
            "storage_driver": "overlayfs" if model == "dune" else "overlay2",
            "image_size": 240_000_000,
        }
        cells = zip("axios bat flask gin jq serde".split(), line)
        write(
            tmp_path,
            {
                f"{model}/{repo}": report(score, repo, **facts)
                for repo, score in cells
                if score != "-"
            },
        )
    monkeypatch.chdir(tmp_path)
    readme = (REPORTS / "README.md").read_text()
    ((words, shown),) = re.findall(r"\$ python3 reports/leaderboard.py (.*)\n((?s:.*?))```", readme)
    code, out, err = run(*words.split())
    assert code == 0
    assert err + out == shown
    assert {*re.findall("--[a-z-]{3,}", run("--help")[1])} - {"--help"} <= {
        *re.findall("--[a-z-]+", readme)
    }
