"""The leaderboard: numbers that a reviewer would accept, what is no score, and pages that no report can take over."""

from __future__ import annotations

import csv
import html.parser
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from conftest import ENGINE_REQUIRED, PROJECT, load_program

PROGRAM = PROJECT / "reports" / "leaderboard.py"
README = (PROJECT / "reports" / "README.md").read_text()
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></pre></section>&amp;$page\x1b[2J"


board_of = load_program(PROGRAM)


@pytest.fixture
def every_written_report_is_as_its_schema_says():
    """Broken reports are what is tested here, and one of the evaluator's own is read at the end."""


def row(name, status="passed", score=1, message="exit code 0", output=None, category=None):
    passed = status == "passed"
    return {
        "test_id": name,
        "test_type": "run_command",
        "passed": passed,
        "score": score if passed else 0,
        "message": message,
        "execution_time": 0.1,
        "max_score": score,
        "status": status,
        "exit_code": 0,
        "timeout": 30.0,
        "output": output,
        "category": category,
        "params": {"command": f"make {name[:20]}"},
        "drawn": None,
        "retried": False,
    }


def report(*rows, repo="app", kind=None, message="why", version="1.0.0", log="", rubric="0" * 64):
    passed = sum(1 for test in rows if test["passed"])
    return {
        "repo": repo,
        "dockerfile": "Dockerfile",
        "rubric": "r.json",
        "summary": {
            "total_tests": len(rows),
            "passed_tests": passed,
            "failed_tests": len(rows) - passed,
            "total_score": sum(test["score"] for test in rows),
            "max_score": sum(test["max_score"] for test in rows),
            "success_rate": passed / len(rows),
            "total_execution_time": 0.1,
        },
        "test_results": list(rows),
        "build": {"succeeded": not kind, "execution_time": 1.0, "message": "built", "log": log},
        "error": {"kind": kind, "message": message} if kind else None,
        "warnings": [],
        "environment": {
            "evaluator_version": version,
            "started_at": "2026-11-22T00:00:00Z",
            "rubric_sha256": rubric,
        },
    }


def share(points, repo="app", most=10, **more):
    """Return a report with `points` of `most`, on two tests."""
    if more.get("kind"):
        return report(row("a", "not_run", points or 1), row("b", "not_run", most - 1), repo=repo, **more)
    return report(
        row("a", score=points),
        row("b", "passed" if points == most else "failed", most - points),
        repo=repo,
        **more,
    )


@pytest.fixture
def folder(tmp_path):
    """Return a function that writes a report into a folder of reports, and the folder."""
    root = tmp_path / "reports"

    def write(place, made):
        file = root / f"{place}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(made if isinstance(made, str) else json.dumps(made))
        return str(root)

    write.root = str(root)
    return write


def run(*words):
    environment = dict(os.environ)  # else the child gets the COLUMNS that readline, once imported, sets
    done = subprocess.run([sys.executable, str(PROGRAM), *words], capture_output=True, env=environment)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def board(root, samples=False):
    reports, left_out = board_of.read_reports([root], samples=samples)
    assert left_out == []
    return board_of.Board(reports)


def fill(folder):
    folder("good/app", report(row("a"), row("b", score=3)))
    folder("good/lib", report(row("a"), row("b", "failed", 3), repo="lib"))
    folder("poor/app", report(row("a"), row("b", "failed", 3, message="exit code 1: no")))
    folder("poor/lib", report(row("a", "not_run"), row("b", "not_run", 3), repo="lib", kind="build"))
    folder("sick/app", report(row("a"), row("b", "error", 3), kind="engine"))
    return folder("sick/lib", report(row("a"), row("b", "not_run", 3), repo="lib", kind="interrupted"))


# Statistics, against values worked out by hand, numpy and scipy


def test_a_mean_leaves_out_what_is_none():
    assert board_of.mean([]) is None
    assert board_of.mean([None]) is None
    assert board_of.mean([0.5, None, 0.25, 0]) == 0.25
    assert board_of.mean([0.1] * 10) == 0.1  # a plain sum is 0.9999999999999999


SAMPLES = [
    [0, 0.25, 0.5, 0.75, 1],
    [0, 0, 0, 1, 1, 1, 1, 1],
    [0.9, 0.8, 0.95, 0, 0.7, 1, 1, 0.85, 0, 0.6, 0.99, 0.4],
    [at * at % 17 / 16 for at in range(50)],
    [-0.3, 0.1, 0.2, -0.05, 0, 0, 0.4],
]


@pytest.mark.parametrize("values", SAMPLES)
def test_an_interval_is_scipys_percentile_bootstrap(values):
    stats = pytest.importorskip("scipy.stats", reason="scipy needs a newer Python")
    numpy = pytest.importorskip("numpy")
    theirs = stats.bootstrap(
        (values,), numpy.mean, method="percentile", n_resamples=50_000, random_state=1
    ).confidence_interval
    tolerance = 0.02 * (max(values) - min(values))
    assert board_of.interval(values) == pytest.approx(tuple(theirs), abs=tolerance)


def test_an_interval_is_the_same_on_every_python_and_in_every_order():
    assert board_of.interval([0, 0.25, 0.5, 0.75, 1]) == (0.2, 0.8)
    low, high = board_of.interval(SAMPLES[2])
    assert (round(low, 6), round(high, 6)) == (0.474167, 0.861667)
    assert board_of.interval(reversed(SAMPLES[2])) == (low, high)


def test_an_interval_of_the_opposite_is_the_opposite_interval():
    for values in SAMPLES:
        low, high = board_of.interval(values)
        assert board_of.interval([-value for value in values]) == pytest.approx((-high, -low), abs=1e-12)


def test_there_is_no_interval_under_five_values_and_none_is_wide_where_all_are_equal():
    assert board_of.interval([0, 1, 0, 1]) is None
    assert board_of.interval([0.7] * 5) == pytest.approx((0.7, 0.7))


def test_each_value_is_drawn_as_often_as_the_others():
    draws = board_of._draws(7)
    counts = [sum(draw.count(at) for draw in draws) for at in range(7)]
    assert len(draws) == 10_000
    assert sum(counts) == 70_000
    assert max(counts) - min(counts) < 700  # seven standard deviations


def test_a_paired_difference_is_that_of_the_repositories_that_both_have():
    ours = {"a": 0.9, "b": 0.5, "c": 1.0, "d": 0.25, "e": 0.4, "only ours": 1.0}
    theirs = {"a": 0.6, "b": 0.5, "c": 0.2, "d": 0.5, "e": 0.3, "only theirs": 0.0}
    found = board_of.paired_difference(ours, theirs)
    assert found.mean == pytest.approx((0.3 + 0 + 0.8 - 0.25 + 0.1) / 5)
    assert (found.better, found.worse, found.equal) == (3, 1, 1)
    assert found.interval == board_of.interval([0.3, 0, 0.8, -0.25, 0.1])
    assert found.judgment == "may be chance"
    back = board_of.paired_difference(theirs, ours)
    assert (back.mean, back.better, back.worse) == (-found.mean, 1, 3)
    assert back.interval == pytest.approx((-found.interval[1], -found.interval[0]))
    assert board_of.paired_difference({"a": 1.0}, {"b": 1.0}) is None


@pytest.mark.parametrize(
    ("differences", "words"),
    [
        ([0.1, 0.2, 0.3, 0.1, 0.2], "is clear"),
        ([-0.1, -0.2, -0.3, -0.1, -0.2], "is clear"),
        ([0, 0, 0, 0, 0], "may be chance"),
        ([0.5, 0, 0, 0, 0], "may be chance"),
        ([0.5, 0.5, 0.5, 0.5], "is unknown under 5 repositories"),
    ],
)
def test_a_difference_is_clear_where_its_interval_leaves_out_nought(differences, words):
    ours = dict(enumerate(differences))
    assert board_of.paired_difference(ours, dict.fromkeys(ours, 0.0)).judgment == words


@pytest.mark.parametrize("samples", [1, 2, 3, 5, 6])
def test_pass_at_k_is_the_share_of_choices_that_hold_a_solved_sample(samples):
    for solved in range(samples + 1):
        for k in range(1, samples + 1):
            choices = list(itertools.combinations(range(samples), k))
            hits = sum(any(at < solved for at in choice) for choice in choices)
            assert board_of.pass_at_k(samples, solved, k) == pytest.approx(hits / len(choices))


def test_pass_at_k_asks_for_no_more_samples_than_there_are():
    for k in (0, 4):
        with pytest.raises(ValueError, match="expected 1 to 3"):
            board_of.pass_at_k(3, 1, k)


def test_a_correlation_is_pearsons():
    assert board_of.correlation([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert board_of.correlation([1, 0, 0, 1], [0, 1, 1, 0]) == pytest.approx(-1)
    assert board_of.correlation([1, 0, 1, 0], [1, 1, 0, 0]) == pytest.approx(0)
    assert board_of.correlation([1, 2], [2, 4]) is None
    assert board_of.correlation([1, 1, 1], [1, 2, 3]) is None
    numpy = pytest.importorskip("numpy", reason="numpy needs a newer Python")
    ours, theirs = SAMPLES[2], SAMPLES[2][::-1]
    assert board_of.correlation(ours, theirs) == pytest.approx(numpy.corrcoef(ours, theirs)[0][1])


# The board


def test_a_failed_build_is_nought_and_what_is_no_score_makes_a_row_incomplete(folder):
    code, out, err = run(fill(folder))
    assert (code, err) == (0, "")
    assert [" ".join(line.split()) for line in out.splitlines() if line] == [
        "model score 95% interval passed in full built incomplete",
        "good 62.5% - 1 of 2 2 of 2 -",
        "poor 12.5% - 0 of 2 1 of 2 -",
        "sick - - 0 of 0 0 of 0 2 of 2 (1 engine fault, 1 interrupted): 0.0% to 100.0%",
        "model app lib",
        "good 100% 4/4 (2 of 2) 25% 1/4 (1 of 2)",
        "poor 25% 1/4 (1 of 2) 0% build failed",
        "sick engine fault interrupted",
        "mean 62.5% 12.5%",
        "against good points 95% interval better worse equal the difference",
        "poor -50.0 - 0 2 0 is unknown under 5 repositories",
        "sick - - - - - -",
        "good is first with 62.5%. poor is next, by -50.0 points; the difference is unknown under 5 repositories.",
    ]


@pytest.mark.parametrize(
    ("kind", "outcome", "score"),
    [
        ("build", "build failed", 0),
        ("build_timeout", "build failed", 0),
        ("engine", "engine fault", None),
        ("usage", "usage error", None),
        ("interrupted", "interrupted", None),
    ],
)
def test_each_end_of_an_evaluation_is_a_score_or_none(folder, kind, outcome, score):
    (made,), _ = board_of.read_reports([folder("m/app", share(0, kind=kind))])
    assert (made.outcome, made.score) == (outcome, score)


def test_a_model_that_fails_builds_does_not_stand_above_one_that_builds(folder):
    for at in range(6):
        folder(f"lucky/r{at}", share(10 if at < 2 else 0, f"r{at}", kind=None if at < 2 else "build"))
        folder(f"steady/r{at}", share(5, f"r{at}"))
    rows = board(folder.root).rows
    assert [(r.model, r.score, r.built, r.evaluated) for r in rows] == [
        ("steady", 0.5, 6, 6),
        ("lucky", pytest.approx(2 / 6), 2, 6),
    ]


def test_a_test_that_docker_could_not_run_is_no_failure_of_the_dockerfile(folder):
    (made,), _ = board_of.read_reports([folder("m/app", report(row("a"), row("b", "error")))])
    assert (made.outcome, made.score) == ("engine fault", None)


def test_a_row_that_lacks_a_repository_shows_bounds_and_stands_where_its_lower_one_puts_it(folder):
    for at in range(4):
        folder(f"whole/r{at}", share(6, f"r{at}"))
    folder("part/r0", share(10, "r0"))
    folder("part/r1", share(8, "r1", kind=None))
    folder("part/r2", share(0, "r2", kind="usage"))
    whole, part = board(folder.root).rows
    assert (whole.model, whole.score, whole.missing) == ("whole", pytest.approx(0.6), {})
    assert (part.model, part.score) == ("part", pytest.approx(0.9))
    assert part.bounds == pytest.approx((1.8 / 4, 3.8 / 4))
    assert (part.missing, part.reports) == ({"usage error": 1, "no report": 1}, 4)
    assert "2 of 4 (1 no report, 1 usage error): 45.0% to 95.0%" in run(folder.root)[1]


def test_the_score_of_each_model_is_there_for_other_tools(folder):
    reports, _ = board_of.read_reports([fill(folder)])
    assert board_of.scores_by_model(reports) == {"good": 0.625, "poor": 0.125, "sick": None}
    assert list(board_of.scores_by_model(reports)) == ["good", "poor", "sick"]


def test_importing_does_nothing():
    script = f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import leaderboard"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (done.returncode, done.stdout) == (0, b"")


def sampled(folder):
    """Three samples of two models on two repositories, and two of a third model."""
    shares = {
        "high": {"app": [10, 10, 4], "lib": [6, "build", 3]},
        "low": {"app": [10, 2, 3], "lib": [2, 2, 2]},
        "odd": {"app": [5, 7], "lib": [10, "engine"]},
    }
    for model, repos in shares.items():
        for repo, points in repos.items():
            for at, number in enumerate(points, 1):
                kind = number if isinstance(number, str) else None
                folder(f"{model}/{at}/{repo}", share(0 if kind else number, repo, kind=kind))
    return folder.root


def test_with_samples_a_cell_is_a_mean_and_a_repository_is_solved_by_one_sample(folder):
    made = board(sampled(folder), samples=True)
    rows = {r.model: r for r in made.rows}
    assert rows["high"].scores == {"app": pytest.approx(0.8), "lib": pytest.approx(0.3)}
    assert rows["high"].score == pytest.approx(0.55)
    assert made.k == 2  # the fewest samples of any row
    assert (rows["high"].solved, rows["low"].solved, rows["odd"].solved) == (1, 1, 1)
    # app: 1 - C(1, 2) / C(3, 2) = 1 for two solved of three; 1 - C(2, 2) / C(3, 2) = 2/3 for one
    assert rows["high"].pass_at_k == pytest.approx((1 + 0) / 2)
    assert rows["low"].pass_at_k == pytest.approx((2 / 3 + 0) / 2)
    assert rows["odd"].pass_at_k is None  # lib has one score, and app alone would be luck with the engine
    assert (rows["odd"].missing, rows["odd"].reports) == ({"engine fault": 1}, 4)
    assert rows["odd"].bounds == pytest.approx((2.2 / 4, 3.2 / 4))
    assert (rows["high"].built, rows["high"].evaluated) == (5, 6)


def test_a_sample_that_is_no_score_solves_nothing_though_all_its_tests_passed(folder):
    folder("m/1/app", share(4))
    folder("m/2/app", report(row("a"), row("b"), kind="engine", message="a container could not be removed"))
    (found,) = board(folder.root, samples=True).rows
    assert (found.score, found.solved, found.pass_at_k) == (0.4, 0, 0)


def test_with_samples_cells_have_their_number_and_spread(folder):
    _, out, _ = run(sampled(folder), "--samples")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "model score 95% interval solved pass@2 built incomplete" in lines
    assert "high 55.0% - 1 of 2 50.0% 5 of 6 -" in lines
    assert "high 80% (3: 40% to 100%) 30% (3: 0% to 60%, 1 build failed)" in lines
    assert "odd 60% (2: 50% to 70%) 100% (1: 100% to 100%)" in lines


def test_without_samples_each_folder_is_a_row(folder):
    assert [r.model for r in board(sampled(folder)).rows][:2] == ["high/1", "odd/1"]


def test_the_last_folder_is_the_sample_wherever_reports_are_looked_for(folder, tmp_path):
    sampled(folder)
    for root, model in (("", "high"), ("/high", "high"), ("/high/2", "high"), ("/high/2/app.json", "high")):
        reports, _ = board_of.read_reports([folder.root + root], samples=True)
        assert {made.model for made in reports} >= {model}
        assert {made.sample for made in reports} <= {"1", "2", "3"}


def test_categories_are_means_over_samples_then_repositories(folder):
    def made(build, use, repo, kind=None):
        status = {True: "passed", False: "not_run" if kind else "failed"}
        rows = [row("a", status[build], 3, category="build"), row("b", status[use], 1, category="use")]
        return report(*rows, row("c", status[use], 5), repo=repo, kind=kind)

    folder("m/1/app", made(True, False, "app"))
    folder("m/2/app", made(True, True, "app"))
    folder("m/1/lib", made(False, False, "lib", "build"))
    folder("m/2/lib", made(False, True, "lib"))
    folder("m/1/x", report(row("a", category="use"), repo="x", kind="engine"))
    folder("m/2/x", report(row("a", category="use"), repo="x"))
    (found,) = board(folder.root, samples=True).rows
    assert found.categories == {"build": (1 + 0) / 2, "use": pytest.approx((0.5 + 0.5 + 1) / 3)}
    lines = [" ".join(line.split()) for line in run(folder.root, "--samples")[1].splitlines()]
    assert lines[lines.index("by category build use") + 1] == "m * 50.0% 66.7%"


def test_items_tell_what_all_pass_none_passes_and_the_weaker_pass(folder):
    passes = {"a": "1110", "b": "1110", "c": "1010", "d": "0001", "e": "0000", "f": "1111"}
    for at, model in enumerate(["m1", "m2", "m3", "m4"]):
        rows = [row(name, "passed" if marks[at] == "1" else "failed", 2) for name, marks in passes.items()]
        folder(f"{model}/app", report(*rows))
    folder("m5/app", report(*[row(name, "not_run", 2) for name in passes], kind="build"))
    items = {item.test.test_id: item for item in board(folder.root).items("app")}
    assert {name: (i.models, i.share, i.note) for name, i in items.items()} == {
        "a": (4, 0.75, ""),
        "b": (4, 0.75, ""),
        "c": (4, 0.5, ""),
        "d": (4, 0.25, "passed by the weaker"),
        "e": (4, 0, "passed by none"),
        "f": (4, 1, "passed by all"),
    }
    # d is passed by m4 alone; without d the four have 4, 3, 4 and 1 of five others
    assert items["d"].correlation == pytest.approx(-0.942809, abs=1e-6)
    assert items["e"].correlation is None
    code, out, _ = run(folder.root, "--items")
    assert code == 0
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "app",
        "models passed with rest note",
        "a 4 75% +0.58",
        "b 4 75% +0.58",
        "c 4 50% +0.58",
        "d 4 25% -0.94 passed by the weaker",
        "e 4 0% - passed by none",
        "f 4 100% - passed by all",
    ]


def test_two_models_are_compared_by_their_paired_difference_then_test_by_test(folder):
    fill(folder)
    code, out, _ = run(folder.root, "--compare", "good", "poor")
    assert code == 0
    assert out.splitlines() == [
        "good against poor: +50.0 points (the difference is unknown under 5 repositories); better in 2 repositories, worse in 0, equal in 0",
        "app: good 100% 4/4 (2 of 2), poor 25% 1/4 (1 of 2)",
        "  only good passes b; poor: failed: exit code 1: no",
        "lib: good 25% 1/4 (1 of 2), poor 0% build failed",
        "  poor: why",
    ]
    assert run(folder.root, "--compare", "good", "sick")[1].splitlines()[0] == (
        "good against sick: no repository in which both have a score"
    )
    code, _, err = run(folder.root, "--compare", "good", "nobody")
    assert code == 2
    assert "no model 'nobody'; there are: good, poor, sick" in err


def test_a_comparison_over_five_repositories_has_its_interval(folder):
    for at in range(5):
        folder(f"a/r{at}", share(9 - at % 2, f"r{at}"))
        folder(f"b/r{at}", share(5, f"r{at}"))
    assert run(folder.root, "--compare", "b", "a")[1].splitlines()[0] == (
        "b against a: -36.0 points (95% interval -40.0 to -32.0; the difference is clear);"
        " better in 0 repositories, worse in 5, equal in 0"
    )


def test_a_comparison_of_samples_counts_them(folder):
    for at in (1, 2):
        folder(f"a/{at}/app", report(row("x"), row("y")))
        folder(f"b/{at}/app", report(row("x", "passed" if at == 1 else "failed", message="no"), row("y")))
    out = run(folder.root, "--samples", "--compare", "a", "b")[1].splitlines()
    assert out[1:] == [
        "app: a 100% (2: 100% to 100%), b 75% (2: 50% to 100%)",
        "  x: a 2 of 2, b 1 of 2: failed: no",
    ]


# Text, Markdown, CSV and the page carry the same numbers


def six(folder):
    """Three models on six repositories in two categories, one of them incomplete."""
    for at in range(6):
        for model, points in (("a", 10 - at), ("b", 9 - at), ("c", at)):
            kind = "engine" if (model, at) == ("c", 3) else "build" if (model, at) == ("b", 5) else None
            rows = [
                row(
                    f"t{n}", "not_run" if kind else "passed" if n < points else "failed", category="xy"[n % 2]
                )
                for n in range(10)
            ]
            folder(f"{model}/r{at}", report(*rows, repo=f"r{at}", kind=kind))
    return folder.root


def test_text_markdown_csv_and_page_say_the_same(folder, tmp_path):
    files = {name: str(tmp_path / name) for name in ("x.html", "x.csv", "x.md")}
    words = ["--html", files["x.html"], "--csv", files["x.csv"], "--markdown", files["x.md"]]
    _, out, _ = run(six(folder), *words)
    page = Tags()
    page.feed((tmp_path / "x.html").read_text())
    md = (tmp_path / "x.md").read_text().replace("\\", "")
    with open(files["x.csv"], newline="") as file:
        lines = {line["model"]: line for line in csv.DictReader(file)}
    for found in board(folder.root).rows:
        line = lines[found.model]
        said = [board_of.percent(found.score), board_of.span(found.interval)]
        said += [f"{found.solved} of {len(found.scores)}", f"{found.built} of {found.evaluated}"]
        said += [board_of.percent(value) for value in found.categories.values()]
        for number in said:
            assert number in out
            assert number in md
            assert number in page.text
        numbers = [
            line["score"],
            line["interval_low"],
            line["interval_high"],
            line["bound_low"],
            line["bound_high"],
        ]
        assert [float(number) for number in numbers] == pytest.approx(
            [found.score, *found.interval, *found.bounds], abs=1e-6
        )
        assert [line["solved"], line["repositories"], line["built"], line["evaluated"], line["reports"]] == [
            str(number)
            for number in (found.solved, len(found.scores), found.built, found.evaluated, found.reports)
        ]
        assert [float(line["category: x"]), float(line["category: y"])] == pytest.approx(
            list(found.categories.values()), abs=1e-6
        )
        assert {repo: float(line[f"repo: {repo}"]) for repo in found.scores} == pytest.approx(found.scores)
    for model, gap in board(folder.root).behind.items():
        for number in gap.words():
            assert number in out
            assert number in md
            assert number in page.text
        ends = [lines[model][name] for name in ("difference", "difference_low", "difference_high")]
        assert [float(end) for end in ends] == pytest.approx([gap.mean, *gap.interval], abs=1e-6)
    assert lines["c"]["repo: r3"] == ""
    verdict = board_of.verdict(board(folder.root))
    assert verdict in out
    assert verdict in page.text
    assert verdict in md


def test_the_verdict_names_the_first_the_next_and_all_that_may_be_chance(folder):
    scores = {"a": [9] * 6, "b": [10, 8, 9, 8, 10, 7], "c": [10, 10, 10, 2, 10, 9], "d": [5] * 6}
    for model, points in scores.items():
        for at, number in enumerate(points):
            folder(f"{model}/r{at}", share(number, f"r{at}"))
    made = board(folder.root)
    assert made.behind["b"].mean == pytest.approx((1 - 1 + 0 - 1 + 1 - 2) / 60)
    within = board_of.span(made.behind["b"].interval, board_of.points)
    assert board_of.verdict(made) == (
        f"a is first with 90.0%. b is next, by -3.3 points (95% interval {within}); the difference may be chance."
        " Others whose difference from the first may be chance: c."
    )
    folder("d/r6", share(10, "r6"))
    assert "d is first" not in board_of.verdict(board(folder.root))


def test_the_verdict_says_that_the_first_is_incomplete_or_that_none_has_a_score(folder):
    folder("a/r0", share(9, "r0"))
    folder("a/r1", share(0, "r1", kind="engine"))
    assert board_of.verdict(board(folder.root)) == (
        "a is first with 90.0%. It is incomplete: with what is missing its score lies within 45.0% to 95.0%."
    )
    folder("a/r0", share(0, "r0", kind="usage"))
    assert board_of.verdict(board(folder.root)) == "No model has a score."


def test_the_verdict_names_the_second_row_and_over_what_it_is_compared(folder):
    for at in range(8):
        folder(f"a/r{at}", share(7, f"r{at}"))
        kind = "engine" if at > 5 else None
        folder(f"b/r{at}", share(9, f"r{at}", kind=kind))
    made = board(folder.root)
    assert board_of.verdict(made) == (
        "a is first with 70.0%. b is next, by +20.0 points (95% interval +20.0 to +20.0) in the 6 repositories"
        " that both have; the difference is clear. It is incomplete: with what is missing its score lies within"
        " 67.5% to 92.5%."
    )
    assert 'class="behind' not in board_of.page(made)  # it is ahead


def test_a_second_row_that_shares_no_repository_is_named_all_the_same(folder):
    folder("a/r0", share(9, "r0"))
    folder("a/r1", share(9, "r1"))
    folder("b/r2", share(10, "r2"))
    folder("c/r0", share(1, "r0"))
    assert " b is next. It is incomplete: " in board_of.verdict(board(folder.root))


def test_a_difference_that_is_printed_as_none_is_not_clear():
    ours = {str(at): 0.5 for at in range(6)}
    gap = board_of.paired_difference(ours, {repo: score - 0.0002 for repo, score in ours.items()})
    assert gap.words()[:2] == ["+0.0", "+0.0 to +0.0"]
    assert gap.judgment == "may be chance"


def test_two_runs_print_the_same(folder):
    assert run(six(folder)) == run(folder.root)


def test_columns_that_do_not_fit_follow_below(folder):
    for number in range(9):
        folder(f"m/repo{number}", report(row("a"), repo=f"a_rather_long_repository_{number}"))
    lines = run(folder.root)[1].splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("m ") for line in lines) > 1
    assert all(f"a_rather_long_repository_{number}" in "\n".join(lines) for number in range(9))


def test_markdown_is_a_table_that_text_cannot_leave(folder, tmp_path):
    folder("a|b*c*/r", report(row("a"), repo="<b>|`x` www.example.com"))
    run(folder.root, "--markdown", str(tmp_path / "x.md"))
    lines = (tmp_path / "x.md").read_text().splitlines()
    assert lines[0] == r"a\|b\*c\* is first with 100.0%\."
    assert lines[4].startswith(r"| a\|b\*c\* | 100.0% | - |")
    assert lines[2].endswith(r"| \<b\>\|\`x\` www\.example\.com |")


def test_csv_holds_no_formula(folder, tmp_path):
    for at, evil in enumerate(["=1+1", "@x", "+x", "-x", " =x", "|x", "\t=x"]):
        folder(f"{evil.strip()}{at}/r", report(row("a"), repo=evil + str(at), kind="engine", message=evil))
    words = ["--csv", str(tmp_path / "x.csv"), "--reports-csv", str(tmp_path / "y.csv")]
    assert run(folder.root, *words)[0] == 0
    lines = list(csv.DictReader((tmp_path / "y.csv").open(newline="")))
    assert len(lines) == 7
    assert {line["outcome"] for line in lines} == {"engine fault"}
    lines += list(csv.DictReader((tmp_path / "x.csv").open(newline="")))
    assert len(lines) == 14
    assert not [value for line in lines for value in line.values() if re.match(r"\s*[=+\-@|]", value)]


def test_a_csv_of_reports_has_no_score_where_there_is_none(folder, tmp_path):
    run(fill(folder), "--reports-csv", str(tmp_path / "x.csv"))
    lines = csv.DictReader((tmp_path / "x.csv").open(newline=""))
    found = {
        (line["model"], line["repo"]): (line["outcome"], line["score"], line["passed"]) for line in lines
    }
    assert found["good", "lib"] == ("scored", "0.25", "1")
    assert found["poor", "lib"] == ("build failed", "0.0", "0")
    assert found["sick", "app"] == ("engine fault", "", "")


# Reading


def test_rows_are_sub_folders_however_deep_and_files_belong_to_their_folder(folder, tmp_path):
    folder("gpt/prompt 1/c0ffee/app", report(row("a")))
    folder("top", report(row("a")))
    reports, left_out = board_of.read_reports([folder.root])
    assert ([made.model for made in reports], left_out) == (["gpt/prompt 1/c0ffee", "reports"], [])
    reports, _ = board_of.read_reports(
        [folder.root + "/top.json", folder.root + "/gpt/prompt 1/c0ffee/app.json"]
    )
    assert sorted(made.model for made in reports) == ["c0ffee", "reports"]


def test_a_report_in_the_current_folder_belongs_to_it(folder, monkeypatch):
    folder("m/app", report(row("a")))
    monkeypatch.chdir(os.path.join(folder.root, "m"))
    for place in ("app.json", ".", "./app.json", "../m"):
        (made,), left_out = board_of.read_reports([place])
        assert (made.model, left_out) == ("m", [])


def test_hidden_files_and_folders_are_passed_over(folder):
    folder("m/app", report(row("a")))
    folder("m/.state", "{}")
    folder(".cache/app", "{}")
    assert run(folder.root)[2] == ""


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("", "not JSON at line 1, column 1; half written?"),
        ('{"repo": "x", "summ', "not JSON at line 1, column 15; half written?"),
        ("[]", "no report of this evaluator"),
        ("[" * 99_999, "no report of this evaluator"),
        ('{"repo": "x"}', "no report of this evaluator: 'environment' is missing or unknown"),
        (json.dumps(report(row("a"), version="2.0.0")), "written by version 2.0.0; expected 1.x"),
        (json.dumps(report(row("a"))).replace('"repo": "app"', '"repo": 5'), "no report of this evaluator"),
        (json.dumps(report(row("a"), repo="x" * 1001)), "a name of 1001 characters; expected at most 1000"),
        (json.dumps(report(row("a"), row("a"))), "a test is there twice"),
        (json.dumps(report(row("a", score=0))), "a rubric without points gives no score"),
        (json.dumps(report(row("a"), kind="build")), "points without a build"),
        (
            json.dumps(report(row("a"), kind="sabotage")),
            "no report of this evaluator: 'sabotage' is missing or unknown",
        ),
        (json.dumps(report(row("a", "splendid"))), "a test's status is splendid"),
    ],
)
def test_what_is_no_report_is_named_and_left_out(folder, made, words):
    folder("bad/x", made)
    code, out, err = run(folder.root)
    assert (code, out) == (1, "")
    assert err.splitlines() == [f"left out: {folder.root}/bad/x.json: {words}", "no report is left"]
    folder("good/app", report(row("a")))
    assert run(folder.root)[0] == 0


def test_a_file_larger_than_any_report_is_not_read(folder):
    with open(f"{folder('m/big', '{}')}/m/big.json", "w") as file:
        file.truncate(30_000_000)
    assert "over 20 MB, larger than any report" in run(folder.root)[2]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("total_score", '"nan"'),
        ("total_score", "NaN"),
        ("total_score", "Infinity"),
        ("total_score", "true"),
        ("total_score", "null"),
        ("total_score", "-5"),
        ("total_score", "99"),
        ("total_score", "2"),
        ("max_score", "1" + "0" * 400),
        ("max_score", "3"),
        ("passed_tests", "1e999"),
        ("passed_tests", "2"),
        ("total_tests", '"2"'),
        ("total_tests", "3"),
        ("score", "true"),
        ("score", "NaN"),
        ("score", "1e9"),
        ("score", "[]"),
    ],
)
def test_a_report_with_impossible_numbers_is_left_out(folder, field, value):
    folder("good/app", report(row("a")))
    text = json.dumps(report(row("a"), row("b", "failed")))
    folder("odd/app", re.sub(f'"{field}": [0-9.]+', f'"{field}": {value}', text))
    code, out, err = run(folder.root)
    assert (code, err.count("odd/app.json"), err.count("Traceback")) == (0, 1, 0)
    assert "odd" not in out


def test_a_score_below_nought_is_left_out_even_where_the_sums_agree(folder):
    made = report(row("a"), row("b", score=3))
    made["test_results"][0]["score"] = -1
    made["summary"]["total_score"] = 2
    _, left_out = board_of.read_reports([folder("m/app", made)])
    assert left_out == [f"{folder.root}/m/app.json: score is -1; expected a number from 0 to 1"]


@pytest.mark.parametrize("place", ["", "test_results", "summary", "environment", "error", "build"])
@pytest.mark.parametrize("value", [None, 5, True, "x", [], [5], {}, [[]], {"kind": []}])
def test_wrong_types_anywhere_are_named_and_never_a_traceback(folder, place, value):
    made = report(row("a", "not_run"), kind="build")
    if place:
        made[place] = value
    else:
        made = value
    folder("odd/app", json.dumps(made))
    folder("good/app", report(row("a")))
    reports, left_out = board_of.read_reports([folder.root])
    assert len(reports) + len(left_out) == 2
    assert len(reports) == (2 if (place, value) == ("error", None) else 1)


@pytest.mark.parametrize("field", sorted(row("a", "failed")))
@pytest.mark.parametrize("value", [None, 5, True, [], {}, "\x1b[2J"])
def test_wrong_types_in_a_test_are_named_or_of_no_consequence(folder, field, value):
    test = row("a", "failed")
    test[field] = value
    folder(
        "odd/app",
        json.dumps(report(row("b"), row("c")))
        .replace('"test_results": [', f'"test_results": [{json.dumps(test)}, ')
        .replace('"total_tests": 2', '"total_tests": 3')
        .replace('"max_score": 2', '"max_score": 3'),
    )
    folder("good/app", report(row("a")))
    words = ["--html", os.path.join(folder.root, "x.html"), "--items"]
    code, _, err = run(folder.root, *words)
    assert (code, "Traceback" in err) == (0, False)
    with open(os.path.join(folder.root, "x.html")) as file:
        assert "\x1b" not in file.read()


def test_huge_texts_are_cut(folder, tmp_path):
    rows = [row("a", "failed", message="m" * 500_000, output="o" * 500_000, category="c" * 500_000)]
    rows[0]["params"] = {"command": "p" * 500_000}
    folder("m/app", report(*rows, row("b")))
    run(folder.root, "--html", str(tmp_path / "x.html"))
    assert os.path.getsize(str(tmp_path / "x.html")) < 30_000


def test_duplicates_are_named(folder):
    folder("m/app", report(row("a")))
    folder("m/app2", report(row("a", "failed")))
    code, out, err = run(folder.root, folder.root)
    assert code == 0
    assert "100%" in out
    assert (
        err
        == f"left out: {folder.root}/m/app2.json: a second report on app in m; {folder.root}/m/app.json is taken\n"
    )


def test_what_is_no_error_object_is_no_score(folder):
    made = json.dumps(report(row("a"))).replace('"error": null', '"error": false')
    code, _, err = run(folder("m/app", made))
    assert (code, "m/app.json" in err) == (1, True)


def test_points_without_measure_and_names_that_are_no_text_spoil_no_board(folder, tmp_path):
    folder("a/app", report(row("a")))
    folder("b/app", report(row("a", score=1e308), row("b", score=1e308)))
    os.rename(f"{folder.root}/a/app.json", os.fsencode(folder.root) + b"/a/\xff\n\x1b.json")
    table = tmp_path / "reports.csv"
    code, _, err = run(folder.root, "--reports-csv", str(table), "--html", str(tmp_path / "x.html"))
    assert (code, "b/app.json: max_score is 1e+308; expected a number from 0 to 1e+100" in err) == (0, True)
    assert "/a/\ufffd\ufffd\ufffd.json" in table.read_text()


def test_a_file_that_is_there_is_not_emptied_for_what_cannot_be_made(folder, tmp_path, monkeypatch):
    table = tmp_path / "table.csv"
    table.write_text("kept")
    monkeypatch.setattr(board_of, "csv_of_models", lambda _board: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        board_of.main([folder("a/app", report(row("a"))), "--csv", str(table)])
    assert table.read_text() == "kept"


def test_a_folder_behind_a_link_is_read_and_one_that_cannot_be_read_is_named(folder, tmp_path, monkeypatch):
    folder("a/app", report(row("a")))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "app.json").write_text(json.dumps(report(row("a"))))
    os.symlink(str(elsewhere), f"{folder.root}/linked")
    os.symlink(folder.root, f"{folder.root}/a/circle")
    os.mkdir(f"{folder.root}/locked")
    scan = os.scandir

    def scandir(path):
        if str(path).endswith("/locked"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    reports, left_out = board_of.read_reports([folder.root])
    assert [found.model for found in reports] == ["a", "linked"]
    assert left_out == [f"{folder.root}/locked: Permission denied"]


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_end_nothing(folder, redirection, tmp_path):
    table = tmp_path / "table.csv"
    words = [sys.executable, str(PROGRAM), folder("a/app", report(row("a"))), "--csv", str(table)]
    shell = f'exec "$@" {redirection}'
    done = subprocess.run(["sh", "-c", shell, "sh", *words], capture_output=True)
    assert (done.returncode, done.stderr, table.exists()) == (0, b"", True)


def test_the_same_file_in_two_rows_and_what_is_no_file_are_named(folder):
    folder("m/app", report(row("a")))
    os.symlink(os.path.join(folder.root, "m"), os.path.join(folder.root, "linked"))
    os.mkdir(os.path.join(folder.root, "n"))
    os.symlink(os.path.join(folder.root, "m", "app.json"), os.path.join(folder.root, "n", "app.json"))
    os.mkfifo(os.path.join(folder.root, "n", "pipe.json"))
    code, _, err = run(folder.root)
    assert code == 0
    assert "n/app.json: the same file as one of m" in err
    assert "n/pipe.json: no regular file" in err


def test_what_cannot_be_written_is_an_error_of_one_line(folder, tmp_path):
    folder("m/app", report(row("a")))
    code, _, err = run(folder.root, "--html", str(tmp_path))
    assert (code, len(err.splitlines())) == (1, 1)
    assert err.startswith("cannot write: ")


def test_columns_that_rest_on_different_rubrics_are_named(folder, tmp_path):
    fill(folder)
    folder("late/app", report(row("a"), row("b"), rubric="1" * 64))
    words = "app: scored by 2 different rubrics, so its scores do not compare"
    code, out, err = run(folder.root, "--html", str(tmp_path / "x.html"))
    assert (code, err) == (0, f"caution: {words}\n")
    assert "late" in out
    assert words in (tmp_path / "x.html").read_text()


def test_names_that_a_terminal_cannot_show_or_obeys_are_replaced(folder, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    folder("\x1b[31mmodèle/r", report(row("a"), repo="dépôt"))
    code, out, err = run(folder.root)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "?[31mmod?le" in out


def test_a_report_of_the_evaluator_is_read(fake, evaluate, folder):
    made = evaluate(["FROM x"], ("run_command", {"command": "true"}), ("run_command", {"command": "false"}))
    reports, left_out = board_of.read_reports([folder("m/example", made)])
    assert left_out == []
    assert [(r.model, r.repo, r.outcome, r.score, r.passed) for r in reports] == [
        ("m", "example", "scored", 0.5, 1)
    ]


# The page


class Tags(html.parser.HTMLParser):
    """Collect the tags of a page, their attributes, and its text."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = [], set(), ""

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data):
        self.text += data


def test_the_page_escapes_whatever_stands_in_a_report(folder, tmp_path):
    safe = EVIL.replace("/", "-").replace("\x1b", "")
    evil = report(row(EVIL, "failed", 1, EVIL, EVIL, EVIL), row("b"), repo=EVIL)
    evil["test_results"][0]["params"] = {EVIL: EVIL}
    evil["test_results"][0]["test_type"] = evil["environment"]["started_at"] = EVIL
    folder(f"{safe}/1/a", evil)
    folder(
        "m/1/a", report(row("b", "not_run", message=EVIL), repo=EVIL, kind="build", message=EVIL, log=EVIL)
    )
    assert run(folder.root, "--samples", "--html", str(tmp_path / "x.html"))[0] == 0
    page = Tags()
    page.feed((tmp_path / "x.html").read_text())
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not [name for name in page.attributes if name.startswith("on")]
    assert page.text.count("<script>alert(1)</script>") >= 8
    assert "\x1b" not in page.text
    assert "http" not in (tmp_path / "x.html").read_text().replace("xhttp", "")


def test_the_page_leads_from_each_cell_to_its_tests_without_javascript(folder, tmp_path):
    run(fill(folder), "--html", str(tmp_path / "x.html"))
    page = (tmp_path / "x.html").read_text()
    links, targets = re.findall(r'href="#(p\d+m\d+)"', page), re.findall(r'<article id="(p\d+m\d+)"', page)
    assert sorted(links) == sorted(targets)
    assert len(targets) == 6
    assert set(re.findall(r'href="#(p\d+)"', page)) == set(
        re.findall(r'<section class="repo" id="(p\d+)"', page)
    )
    assert "<dt><b>b</b> failed<dd>exit code 1: no" in page
    assert "run_command {&quot;command&quot;: &quot;make b&quot;}" in page


def test_the_page_has_the_end_of_a_failed_builds_log_once(folder, tmp_path):
    log = "first line\n" + "something\n" * 200 + "the last line"
    folder("m/app", report(row("a", "not_run"), row("b", "not_run"), kind="build", log=log))
    run(folder.root, "--html", str(tmp_path / "x.html"))
    page = (tmp_path / "x.html").read_text()
    assert (page.count("the last line"), page.count("first line")) == (1, 0)


def test_the_page_draws_bars_intervals_and_bounds(folder, tmp_path):
    made = board(six(folder))
    run(folder.root, "--html", str(tmp_path / "x.html"))
    page = (tmp_path / "x.html").read_text()
    for found in made.rows:
        low, high = found.interval
        assert f'width="{found.score:.2%}"' in page
        assert f'x1="{low:.2%}" x2="{high:.2%}" y1="50%"' in page
        assert f'class="bounds" x1="{found.bounds[0]:.2%}" x2="{found.bounds[1]:.2%}"' in page
    kinds = re.findall(r'<td class="([a-z ]*)"><svg', page)
    expected = [" ".join(["behind"] * (f.model == "c") + ["whole"] * (not f.missing)) for f in made.rows]
    assert made.behind["c"].judgment == "is clear"
    assert kinds[0] == "whole"
    assert kinds[-1] == expected[-1]


def test_a_failed_build_and_what_is_no_score_can_be_told_apart_on_the_heat_map(folder, tmp_path):
    run(fill(folder), "--html", str(tmp_path / "x.html"))
    page = (tmp_path / "x.html").read_text()
    assert re.search(r'<td class="s x" style="--p:0"><a href="#p1m1">0%<small>build failed</small>', page)
    assert re.findall(r'<td class="([a-z ]*)"><svg', page) == ["point whole", "point whole", "point"]
    assert re.search(r'<td><a href="#p0m2">\u2013<small>engine fault</small>', page)


def test_what_was_left_out_and_does_not_compare_stands_in_what_is_published(folder):
    folder("a/app", report(row("a")))
    folder("b/app", report(row("a", "failed"), rubric="1" * 64))
    folder("b/lib", "{")
    folder("c/app", report(row("a", "not_run"), kind="engine"))
    made = board_of.Board(*board_of.read_reports([folder.root]))
    for published in (board_of.page(made), board_of.markdown(made).replace("\\", "")):
        assert "/b/lib.json: not JSON at line 1, column 2; half written?" in published
        assert "caution: app: scored by 2 different rubrics" in published
    for at in range(20):
        folder(f"b/broken{at}", "{")
    many = board_of.page(board_of.Board(*board_of.read_reports([folder.root])))
    assert (many.count("left out: "), many.count("12 more notes, which the command prints")) == (10, 1)
    lines = list(csv.DictReader(board_of.csv_of_models(made).splitlines()))
    assert [line["missing"] for line in lines] == ["", "", "1 engine fault"]
    assert [line["worse"] for line in lines] == ["", "1", ""]
    assert lines[1]["judgment"] == "is unknown under 5 repositories"


def test_tests_that_the_weaker_pass_come_before_the_many_that_nobody_passes(folder):
    for model, strength in {"a": 4, "b": 3, "c": 2, "d": 1}.items():
        for repo in range(9):
            rows = [row(f"none{n}", "failed") for n in range(5)]
            rows += [row(f"t{n}", "passed" if n < strength else "failed") for n in range(4)]
            rows.append(row("odd", "passed" if strength < 3 else "failed"))
            folder(f"{model}/r{repo}", report(*rows, repo=f"r{repo}"))
    page = board_of.page(board(folder.root))
    doubts = page[page.index('id="doubts"') :]
    doubts = doubts[: doubts.index("</table>")]
    assert doubts.count("passed by the weaker") == 9
    assert doubts.count("passed by none") == 31
    assert "14 more: see --items" in doubts


def test_with_samples_a_model_without_folders_of_samples_is_named(folder):
    for place in ("a/1/x", "a/2/x", "b/x"):
        folder(place, report(row("t")))
    reports, left_out = board_of.read_reports([folder.root], samples=True)
    assert [(found.model, found.sample) for found in reports] == [("a", "1"), ("a", "2")]
    assert left_out == [f"{folder.root}/b/x.json: in no folder of a sample, as others are"]
    reports, left_out = board_of.read_reports([os.path.join(folder.root, "a")], samples=True)
    assert ([(found.model, found.sample) for found in reports], left_out) == ([("a", "1"), ("a", "2")], [])


def test_a_comparison_of_samples_counts_failed_builds(folder):
    folder("a/1/r", share(10))
    folder("a/2/r", share(0, kind="build"))
    folder("b/1/r", share(10))
    folder("b/2/r", share(10))
    said = board_of.compare(board(folder.root, samples=True), "a", "b")
    assert "a: b 2 of 2, a 1 of 2: not_run: " in said
    assert ": a 1 of" not in said


def test_a_page_on_many_repositories_is_under_two_megabytes_too(folder):
    for number in range(1000):
        status = ["passed" if (n * 7 + number) % 3 else "failed" for n in range(40)]
        rows = [row(f"a_test_with_a_name_{n}", status[n], 1, "exit code 2: no rule") for n in range(40)]
        folder(f"model-{number % 2}/repo{number // 2}", report(*rows, repo=f"repo{number // 2}"))
    page = board_of.page(board(folder.root))
    assert len(page.encode()) < 2_000_000
    assert "32 more: see --items" in page


def thousand(folder):
    long = "something that was printed & <escaped>\n" * 30
    for number in range(1000):
        status = ["passed" if (n * 7 + number) % 3 else "failed" for n in range(40)]
        rows = [row(f"a_test_with_a_name_{n}", status[n], 1, long[:300], long) for n in range(40)]
        folder(f"model-{number % 20}/repo{number // 20}", report(*rows, repo=f"repo{number // 20}"))
    return folder.root


def test_a_thousand_reports_make_a_page_under_two_megabytes_in_seconds(folder, tmp_path):
    thousand(folder)
    before = os.times()
    assert run(folder.root, "--html", str(tmp_path / "x.html"))[0] == 0
    after = os.times()
    assert 200_000 < os.path.getsize(str(tmp_path / "x.html")) < 2_000_000
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert used < 10  # of a processor's time, on a machine that others use as well


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
    return report(*rows, repo=repo, kind=kind, message=message)


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
    assert len(blocks) == 4
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


# In a browser


@pytest.fixture
def browser(tmp_path):
    """Open headless Chromium without a network; leave the test out where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if not all(programs):
        ending = pytest.fail if ENGINE_REQUIRED else pytest.skip
        ending("no chromium and chromedriver (Debian's packages chromium and chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for word in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
    ):
        options.add_argument(word)
    options.add_argument(f"--user-data-dir={tmp_path / 'profile'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(programs[1]))
    yield driver
    driver.quit()


def test_in_a_browser_columns_sort_cells_open_and_nothing_complains(folder, tmp_path, browser):
    run(fill(folder), "--html", str(tmp_path / "x.html"))
    browser.get(f"file://{tmp_path}/x.html")

    def column(table, at):
        cells = browser.find_elements("css selector", f"#{table} tbody tr > *:nth-child({at})")
        return [cell.text for cell in cells]

    def click(table, name):
        browser.find_element("xpath", f"//table[@id='{table}']//th/button[.='{name}']").click()

    assert column("board", 1) == ["good", "poor", "sick"]
    click("board", "model")
    assert column("board", 1) == ["sick", "poor", "good"]
    click("board", "score")
    assert column("board", 3) == ["62.5%", "12.5%", "-"]
    click("board", "score")
    assert column("board", 3) == ["-", "12.5%", "62.5%"]
    click("heat", "app")
    assert [text.split()[0] for text in column("heat", 2)] == ["100%", "25%", "\u2013"]
    head = browser.find_element("xpath", "//table[@id='heat']//th[button[.='app']]")
    assert head.get_attribute("aria-sort") == "descending"
    message = browser.find_element("xpath", "//section//dd[starts-with(., 'exit code 1: no')]")
    assert not message.is_displayed()
    browser.find_element("xpath", "//table[@id='heat']//tr[th='poor']//a[starts-with(., '25%')]").click()
    assert message.is_displayed()
    browser.find_element("xpath", "//section[.//h2='app']//a[.='tests by model']").click()
    assert not message.is_displayed()
    assert browser.find_element("xpath", "//section[.//h2='app']//table").is_displayed()
    browser.find_element("xpath", "//section[.//h2='app']//a[.='close']").click()
    assert not browser.find_element("xpath", "//section[.//h2='app']//table").is_displayed()
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [1300, 400])
def test_in_a_browser_the_page_is_never_wider_than_the_window(folder, tmp_path, browser, width):
    for number in range(30):
        folder(f"model-with-a-rather-long-name/repo{number}", report(row("a"), repo=f"a_repository_{number}"))
    run(folder.root, "--html", str(tmp_path / "x.html"))
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(f"file://{tmp_path}/x.html")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
