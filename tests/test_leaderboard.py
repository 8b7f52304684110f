"""The leaderboard: rows, what is no score, samples, references, conditions, items, comparisons."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from boards import PROGRAM, Folder, board, chance, fill, leaderboard, report, row, run, share, squeezed


@pytest.fixture
def every_written_report_is_as_its_schema_says():
    """What is written here is what the leaderboard reads of a report, and broken reports."""


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


# The board


def test_a_failed_build_is_nought_and_what_is_no_score_makes_a_row_incomplete(folder):
    code, out, err = run(fill(folder))
    assert (code, err) == (0, "")
    assert squeezed(out) == [
        "models: 3; repositories: 2; tests: 4; reports: 6",
        "days: 2026-11-22; evaluator: 1.0.0",
        "model score passed in full built build time",
        "good 62.5% 1 of 2 2 of 2 1.0 s",
        "poor 12.5% 0 of 2 1 of 2 1.0 s",
        "sick - 0 of 0 0 of 0 -",
        "model incomplete app lib",
        "good - 100% 4/4 (2 of 2) 25% 1/4 (1 of 2)",
        "poor - 25% 1/4 (1 of 2) 0% build failed",
        "sick 2 of 2 (1 engine fault, 1 interrupted): 0.0% to 100.0% engine fault interrupted",
        "mean 62.5% 12.5%",
        "good is first of the complete models with 62.5%, poor is next with 12.5%",
        "under 6 repositories nothing tells whether that is chance",
        "sick is incomplete: its score lies within 0.0% to 100.0%, whatever is missing, ahead of or behind good",
    ]


@pytest.mark.parametrize(
    ("kind", "outcome", "score"),
    [
        ("build", "build failed", 0),
        ("build_timeout", "build failed", 0),
        ("engine", "engine fault", None),
        ("registry", "registry out of reach", None),
        ("usage", "usage error", None),
        ("interrupted", "interrupted", None),
    ],
)
def test_each_end_of_an_evaluation_is_a_score_or_none(folder, kind, outcome, score):
    (made,), _ = leaderboard.read_reports([folder("m/app", share(0, kind=kind))])
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
    (made,), _ = leaderboard.read_reports([folder("m/app", report(row("a"), row("b", "error")))])
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
    reports, _ = leaderboard.read_reports([fill(folder)])
    assert leaderboard.scores_by_model(reports) == {"good": 0.625, "poor": 0.125, "sick": None}
    assert list(leaderboard.scores_by_model(reports)) == ["good", "poor", "sick"]


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
    assert rows["high"].tried(chance.pass_at_k, 2) == pytest.approx((1 + 0) / 2)
    assert rows["low"].tried(chance.pass_at_k, 2) == pytest.approx((2 / 3 + 0) / 2)
    # C(2, 2) / C(3, 2) = 1/3 for two solved of three, none for one
    assert [rows[name].tried(chance.pass_all, 2) for name in ("high", "low")] == pytest.approx([1 / 6, 0])
    assert (
        rows["odd"].tried(chance.pass_at_k, 2) is None
    )  # lib has one score, and app alone would be luck with the engine
    assert (rows["odd"].missing, rows["odd"].reports) == ({"engine fault": 1}, 4)
    assert rows["odd"].bounds == pytest.approx((2.2 / 4, 3.2 / 4))
    assert (rows["high"].built, rows["high"].evaluated) == (5, 6)


def test_a_sample_that_is_no_score_solves_nothing_though_all_its_tests_passed(folder):
    folder("m/1/app", share(4))
    folder("m/2/app", report(row("a"), row("b"), kind="engine", message="a container could not be removed"))
    (found,) = board(folder.root, samples=True).rows
    assert (found.score, found.solved, found.tried(chance.pass_at_k, 1)) == (0.4, 0, 0)


def test_with_samples_cells_have_their_number_and_spread(folder):
    _, out, _ = run(sampled(folder), "--samples")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "model score solved pass@2 pass^2 built build time incomplete" in lines
    assert "high 55.0% 1 of 2 50.0% 16.7% 5 of 6 1.0 s -" in lines
    assert "high 80% (3: 40% to 100%) 30% (3: 0% to 60%, 1 build failed)" in lines
    assert "odd 60% (2: 50% to 70%) 100% (1: 100% to 100%)" in lines


def test_without_samples_each_folder_is_a_row(folder):
    assert [r.model for r in board(sampled(folder)).rows][:2] == ["high/1", "odd/1"]


def test_the_last_folder_is_the_sample_wherever_reports_are_looked_for(folder, tmp_path):
    sampled(folder)
    for root, model in (("", "high"), ("/high", "high"), ("/high/2", "high"), ("/high/2/app.json", "high")):
        reports, _ = leaderboard.read_reports([folder.root + root], samples=True)
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
    made = board(folder.root, samples=True)
    shares = [made.share("m", name) for name in ("build", "use")]
    assert shares == pytest.approx([(1 + 0) / 2, (0.5 + 0.5 + 1) / 3])
    lines = [" ".join(line.split()) for line in run(folder.root, "--samples")[1].splitlines()]
    assert lines[lines.index("by category build use") + 1] == "m * 50.0% 66.7%"


def with_odd(folder, models, passing):
    """Write models of which the better pass more of twelve tests, and `odd` only those that are named."""
    for at in range(models):
        rows = [row(f"t{n:02}", "passed" if n <= at else "failed", 2) for n in range(12)]
        rows.append(row("odd", "passed" if at in passing else "failed"))
        folder(f"m{at:02}/app", report(*rows))
    return board(folder.root).items("app")


def test_items_tell_what_all_pass_none_passes_and_the_weaker_pass(folder):
    items = with_odd(folder, 11, {0, 1, 2, 3})
    folder("m99/app", report(*[row(name, "not_run") for name in items], kind="build"))
    assert board(folder.root).items("app") == items  # what was not built tells nothing of a test
    assert items["t00"] == ["100% of 11", "passed by all built"]
    assert items["t05"] == ["55% of 11", ""]
    assert items["t11"] == ["0% of 11", "passed by none built"]
    assert items["odd"] == ["36% of 11", "passed by the weaker"]  # the weakest four of C(11, 4) = 330 choices
    code, out, _ = run(folder.root, "--items")
    assert (code, squeezed(out)[:4] + squeezed(out)[-1:]) == (
        0,
        [
            "models: 12; repositories: 1; tests: 13; reports: 12",
            "days: 2026-11-22; evaluator: 1.0.0",
            "app",
            "passed note",
            "odd 36% of 11 passed by the weaker",
        ],
    )


@pytest.mark.parametrize(("models", "passing"), [(9, {0}), (8, {0, 1, 2}), (11, {0, 1, 3, 5})])
def test_what_chance_explains_in_one_case_of_a_hundred_is_not_named(folder, models, passing):
    assert with_odd(folder, models, passing)["odd"][1] == ""


def test_on_random_data_few_tests_are_named(folder):
    draw = random.Random(4)
    for model in range(12):
        for repo in range(10):
            rows = [row(f"t{n}", draw.choice(["passed", "failed"])) for n in range(100)]
            folder(f"m{model}/r{repo}", report(*rows, repo=f"r{repo}"))
    made = board(folder.root)
    notes = [note for repo in made.repos for _, note in made.items(repo).values()]
    assert len(notes) == 1000
    assert notes.count("passed by the weaker") <= 15


def test_two_models_are_compared_by_their_paired_difference_then_test_by_test(folder):
    fill(folder)
    code, out, _ = run(folder.root, "--compare", "good", "poor")
    assert code == 0
    assert out.splitlines() == [
        "good against poor: +50.0 points (no 95% interval); better in 2 of 2 repositories, worse in 0, equal in 0",
        "models: 2; repositories: 2; tests: 4; reports: 4",
        "days: 2026-11-22; evaluator: 1.0.0",
        "",
        "app: good 100% 4/4 (2 of 2), poor 25% 1/4 (1 of 2)",
        "  only good passes b; poor: failed: exit code 1: no",
        "lib: good 25% 1/4 (1 of 2), poor 0% build failed",
        "  poor: why",
    ]
    assert run(folder.root, "--compare", "good", "sick")[1].splitlines()[0] == (
        "good against sick: no repository in which both have a score"
    )


def test_models_that_are_not_there_and_one_against_itself_are_usage_errors(folder):
    fill(folder)
    for words, why in (
        (["--compare", "good", "nobody"], "'nobody' is none of the models: good, poor, sick"),
        (["--compare", "good", "good"], "'good' is named twice"),
        (["--compare", "good", "sick", "--reference", "good"], "'good' is named twice"),
        (["--reference", "nobody"], "'nobody' is none of the models: good, poor, sick"),
    ):
        code, out, err = run(folder.root, *words)
        assert (code, out, why in err) == (2, "", True)


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ([9, 8, 9, 8, 9], "+36.0 points (95% interval +29.2 to +42.8; the difference is clear)"),
        ([1, 2, 1, 2, 1], "-36.0 points (95% interval -42.8 to -29.2; the difference is clear)"),
        ([9, 5, 5, 5, 5], "+8.0 points (95% interval -14.2 to +30.2; the difference may be chance)"),
        ([9, 9, 9, 9, 9], "+40.0 points (no 95% interval)"),
    ],
)
def test_a_comparison_has_the_paired_interval_of_student(folder, ours, words):
    for at, score in enumerate(ours):
        folder(f"a/r{at}", share(score, f"r{at}"))
        folder(f"b/r{at}", share(5, f"r{at}"))
    first = run(folder.root, "--compare", "a", "b")[1].splitlines()[0]
    assert first.startswith(f"a against b: {words}; better in ")


def test_a_comparison_of_samples_counts_them(folder):
    for at in (1, 2):
        folder(f"a/{at}/app", report(row("x"), row("y")))
        folder(f"b/{at}/app", report(row("x", "passed" if at == 1 else "failed", message="no"), row("y")))
    out = run(folder.root, "--samples", "--compare", "a", "b")[1].splitlines()
    assert out[4:] == [
        "app: a 100% (2: 100% to 100%), b 75% (2: 50% to 100%)",
        "  x: a 2 of 2, b 1 of 2: failed: no",
    ]


def test_a_comparison_of_samples_counts_failed_builds(folder):
    folder("a/1/r", share(10))
    folder("a/2/r", share(0, kind="build"))
    folder("b/1/r", share(10))
    folder("b/2/r", share(10))
    said = leaderboard.compare(board(folder.root, samples=True), "a", "b")
    assert "a: b 2 of 2, a 1 of 2: not_run: " in said
    assert ": a 1 of" not in said


def test_two_runs_of_the_same_models_stand_beside_each_other(folder, tmp_path):
    fill(folder)
    again = Folder(tmp_path / "again")
    again("good/app", share(5))
    again("direct", share(3, "lib"))
    (tmp_path / "a=b").mkdir()
    reports, left_out = leaderboard.read_reports([f"old={folder.root}", f"new={again.root}"])
    assert left_out == []
    assert sorted({r.model for r in reports}) == [
        "new/good",
        "new/reports",
        "old/good",
        "old/poor",
        "old/sick",
    ]
    code, out, _ = run(f"old={folder.root}", f"new={again.root}", "--compare", "old/good", "new/good")
    assert (code, out.startswith("old/good against new/good: ")) == (0, True)
    Folder(tmp_path / "a=b")("m/app", share(5))
    assert board(str(tmp_path / "a=b")).rows[0].model == "reports/m"
    assert "nowhere.json: no regular file" in run(folder.root, "x=nowhere.json")[2]


# Who is first, and what is more than chance


def ranked(folder, **models):
    for model, scores in models.items():
        for at, score in enumerate(scores):
            folder(
                f"{model}/r{at}",
                share(score, f"r{at}", kind="engine" if score is None else None)
                if score is not None
                else share(0, f"r{at}", kind="engine"),
            )
    return board(folder.root)


def test_the_board_has_one_critical_difference_and_says_who_is_behind(folder):
    made = ranked(
        folder, a=[9, 8, 9, 9, 8, 9], b=[8, 9, 7, 8, 9, 8], c=[2, 1, 2, 3, 1, 2], d=[9, 9, 9, 9, 9, None]
    )
    assert made.critical == pytest.approx(
        chance.critical_difference([[*r.scores.values()] for r in made.complete])
    )
    assert {r.model: made.standing(r) for r in made.rows} == {
        "a": "first",
        "b": "may be equal",
        "c": "clearly behind",
        "d": "incomplete",
    }
    assert leaderboard.verdict(made) == [
        "a is first of the complete models with 86.7%, b is next with 81.7%",
        f"models less than {made.critical * 100:.1f} points apart may be equal (critical difference, 6 repositories, 3 models)",
        "may be equal to a: b",
        "clearly behind a: c",
        (
            "d is incomplete: its score lies within 75.0% to 91.7%, whatever is missing, ahead of or behind a;"
            " +4.0 points over the 5 repositories that both have"
        ),
    ]
    assert 0.05 < made.critical < 0.5


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"a": [9] * 5, "b": [1, 2, 3, 4, 5]}, "under 6 repositories nothing tells whether that is chance"),
        ({"a": [9, 8] * 3}, "a is first with 85.0%"),
        (
            {"a": [9, 8, 9, 8, 9, None], "b": [1, 2] * 3},
            (
                "a is incomplete: its score lies within 71.7% to 88.3%,"
                " whatever is missing, ahead of b; +72.0 points over the 5 repositories that both have"
            ),
        ),
        ({"a": [9, 8, 9, 8, 9, None], "b": [None] * 6}, "no model has a score in every repository"),
    ],
)
def test_there_is_no_critical_difference_of_few_repositories_or_one_complete_model(folder, rows, says):
    made = ranked(folder, **rows)
    assert made.critical is None
    assert {made.standing(r) for r in made.rows} == {"-"}
    assert says in leaderboard.verdict(made)


def test_an_incomplete_row_that_is_better_is_not_said_to_be_next(folder):
    made = ranked(folder, a=[7] * 8, b=[9] * 6 + [None] * 2)
    assert [r.model for r in made.rows] == ["a", "b"]
    assert leaderboard.verdict(made) == [
        "a is first of the complete models with 70.0%",
        (
            "b is incomplete: its score lies within 67.5% to 92.5%, whatever is missing, ahead of or behind a;"
            " +20.0 points over the 6 repositories that both have"
        ),
    ]
    assert 'class="behind' not in leaderboard.page(made)


def test_of_many_incomplete_rows_five_are_told_and_the_rest_counted(folder):
    made = ranked(folder, **{f"m{at}": [5, None] for at in range(8)})
    assert leaderboard.verdict(made)[-1] == "3 more are incomplete"
    assert len(leaderboard.verdict(made)) == 7


def test_what_was_measured_stands_in_the_columns_as_medians(folder):
    for at, (seconds, size) in enumerate([(5, 1_000_000), (7, 9_000_000), (90, 2_500_000)]):
        made = share(5, f"r{at}")
        made["build"]["execution_time"], made["environment"]["image_size"] = seconds, size
        folder(f"a/r{at}", made)
    made = share(0, "r3", kind="build")
    made["build"]["execution_time"] = 999
    folder("a/r3", made)
    (found,) = board(folder.root).rows
    assert (found.build_seconds, found.image_size) == (7, 2_500_000)
    assert "7.0 s 2.5 MB" in " ".join(run(folder.root)[1].split())


# A reference


def solved(passes, repo="app", kind=None):
    """Return a report on tests a, b, c of 1, 2 and 3 points."""
    tests = [
        row(name, "not_run" if kind else "passed" if name in passes else "failed", at)
        for at, name in enumerate("abc", 1)
    ]
    return report(*tests, repo=repo, kind=kind)


def test_what_the_reference_does_not_pass_is_held_against_nobody(folder):
    folder("sol/app", solved("ac"))
    folder("m/app", solved("ab"))
    folder("n/app", solved("ac"))
    made = board(folder.root, reference="sol")
    assert [(r.model, r.score, r.solved) for r in made.rows] == [("n", 1, 1), ("m", 0.25, 0)]
    assert made.notes == ["reference sol: held against nobody: it does not pass app (b)"]
    assert leaderboard.opening(made.reports, made.reference)[1].endswith("reference: sol; evaluator: 1.0.0")
    assert "b" not in made.items("app")
    code, out, err = run(folder.root, "--reference", "sol")
    assert (code, err, "\nsol" in out) == (0, made.notes[0] + "\n", False)


def test_repositories_of_which_the_reference_passes_nothing_or_has_no_score(folder):
    for repo, made in {"none": solved("", "none"), "unbuilt": solved("", "unbuilt", "build")}.items():
        folder(f"sol/{repo}", made)
    folder("sol/sick", solved("", "sick", "engine"))
    for repo in ("none", "unbuilt", "sick", "absent"):
        folder(f"m/{repo}", solved("ab", repo))
    made = board(folder.root, reference="sol")
    assert (made.repos, made.rows[0].scores) == (["absent", "sick"], {"absent": 0.5, "sick": 0.5})
    assert sorted(made.notes) == [
        "reference sol: counted in full: it has no score on absent, sick",
        "reference sol: not on the board: it passes nothing of none, unbuilt",
    ]
    folder("lone/none", solved("ab", "none"))
    assert run(folder.root, "--reference", "sol", "--compare", "m", "lone")[1].startswith(
        "m against lone: no repository"
    )


def test_with_samples_the_reference_passes_what_one_sample_passes(folder):
    for sample, passes in enumerate(["a", "b"]):
        folder(f"sol/{sample}/app", solved(passes))
        folder(f"m/{sample}/app", solved("ac"))
    made = board(folder.root, samples=True, reference="sol")
    assert (made.rows[0].score, made.notes) == (
        pytest.approx(1 / 3),
        ["reference sol: held against nobody: it does not pass app (c)"],
    )


def test_a_report_on_other_tests_than_the_reference_is_no_score(folder):
    folder("sol/app", solved("abc"))
    folder("m/app", report(row("x")))
    folder("n/app", solved("a", kind="build"))
    made = board(folder.root, reference="sol")
    assert [(r.model, r.score, r.missing) for r in made.rows] == [
        ("n", 0, {}),
        ("m", None, {"another rubric": 1}),
    ]


def test_a_reference_alone_leaves_no_board(folder):
    code, out, err = run(folder("sol/app", solved("abc")), "--reference", "sol")
    assert (code, out, err) == (1, "", "no report is left\n")


# What was compared, and under which conditions


def under(**more):
    made = share(5)
    made["environment"].update(more)
    return made


@pytest.mark.parametrize(
    ("usual", "other", "words"),
    [
        (
            {"platform": "linux/amd64"},
            {"platform": "linux/arm64"},
            "platform: linux/arm64 for c, linux/amd64 for most",
        ),
        ({"docker_server": "20.10.24"}, {"docker_server": "26.1.5"}, "docker server: 26 for c, 20 for most"),
        ({"docker_server": "20.10.24"}, {"docker_server": "20.10.5"}, ""),
        ({"builder": "buildkit"}, {"builder": "legacy"}, "builder: legacy for c, buildkit for most"),
        (
            {"run_options": []},
            {"run_options": ["--memory=2g"]},
            "run options: --memory=2g for c, none for most",
        ),
        (
            {"engine_memory": 8 * 2**30},
            {"engine_memory": 16 * 2**30 + 99},
            "engine memory: 16 GiB for c, 8 GiB for most",
        ),
        ({"engine_cpus": 4}, {"engine_cpus": 64}, "engine cpus: 64 for c, 4 for most"),
        (
            {"evaluator_version": "1.0.0"},
            {"evaluator_version": "1.2.0"},
            "evaluator version: 1.2.0 for c, 1.0.0 for most",
        ),
        ({"rubric_sha256": "a"}, {"rubric_sha256": "b"}, "rubric of app: b for c, a for most"),
        ({"options_sha256": "a"}, {"options_sha256": "b"}, "options sha256: b for c, a for most"),
        (
            {"options_sha256": "a", "run_options": []},
            {"options_sha256": "b", "run_options": ["-x"]},
            "run options: -x for c, none for most",
        ),
        ({"engine_cpus": 4, "engine_memory": 2**33, "options_sha256": "a"}, {"engine_cpus": None}, ""),
        ({"builder": "buildkit"}, {}, ""),
        ({"engine_memory": 2**33}, {"engine_memory": "much"}, ""),
    ],
)
def test_unequal_conditions_are_named_and_who_differs_from_most(folder, usual, other, words):
    for model, more in {"a": usual, "b": usual, "c": other}.items():
        folder(f"{model}/app", under(**more))
    assert board(folder.root).notes == [f"warning: conditions differ: {words}"] * bool(words)


def test_conditions_of_what_has_no_score_are_no_matter(folder):
    folder("a/app", under(platform="linux/amd64"))
    sick = share(0, kind="engine")
    sick["environment"]["platform"] = "linux/arm64"
    folder("b/app", sick)
    assert board(folder.root).notes == []


def test_the_first_lines_of_every_output_say_what_was_compared(folder, tmp_path):
    for at, model in enumerate("abc"):
        for repo in ("x", "y"):
            made = share(5, repo)
            made["environment"].update(docker_server=f"2{at}.1", started_at=f"2026-11-1{at}T00:00:00Z")
            folder(f"{model}/{repo}", made)
    first = [
        "models: 3; repositories: 2; tests: 4; reports: 6",
        "days: 2026-11-10 to 2026-11-12; evaluator: 1.0.0; engine: 20.1, 21.1, 22.1",
    ]
    assert run(folder.root, "--markdown", str(tmp_path / "x.md"))[1].splitlines()[:2] == first
    assert run(folder.root, "--items")[1].splitlines()[:2] == first
    assert (tmp_path / "x.md").read_text().replace("\\", "").startswith(f"{first[0]}\n\n{first[1]}\n\n")
    assert f'<p class="soft">{first[0]}<br>{first[1]}</p>' in leaderboard.page(board(folder.root))


@pytest.mark.parametrize(
    ("places", "is_told"),
    [
        (["a/1", "a/2", "b/1", "b/2"], True),
        (["a/sample_1", "a/sample_2"], True),
        (["1", "2"], True),
        (["a/run-01", "a/run-02", "b"], True),
        (["a/1", "b/1"], False),
        (["gpt-4", "gpt-5"], False),
        (["a/high", "a/low"], False),
    ],
)
def test_folders_that_look_like_samples_are_named(folder, places, is_told):
    for place in places:
        folder(f"{place}/app", share(5))
    notes = board(folder.root).notes
    assert any("samples, but no --samples?" in note for note in notes) is is_told
