"""reports/leaderboard.py: statistics, board, reading, text, CSV and page."""

from __future__ import annotations

import csv
import functools
import html
import io
import itertools
import json
import re
from pathlib import Path

import pytest
from cases import run_command, table
from conftest import PROJECT, called, load_program, make_report

import DockerfileEvaluator as de

lb = load_program(PROJECT / "reports" / "leaderboard.py")
run = functools.partial(called, lb.main)  # returns the exit code, stdout and stderr


# Reports. An outcome is how many of ten tests passed, or the kind of the error that ended the
# evaluation. Each test has one point, so 7 is a score of 70 %.

RUBRIC = de.read_rubric(json.dumps({"tests": [run_command("x")] * 10}).encode(), "r")


def report(
    outcome,
    repo,
    suspect=None,
    suspect_test=None,
    suspect_build=None,
    part=0,
    first=None,
    seconds=0,
    **facts,
):
    """Return a report on ten tests, as the evaluator makes it, and evaluate_all.py marks it.

    `part` is what the last test earns of its point although it failed; `first` is the outcome of
    the first try, if this is the second one; `seconds` is what the build took; `facts` are of the
    environment.
    """
    options = de.Options("d", repo, "r", context=".")
    inputs = de.Inputs(b"", RUBRIC, *["0" * 64] * 3)
    if isinstance(outcome, int):
        outcome = [de.PASSED] * outcome + [de.FAILED] * (10 - outcome)
    content = make_report(outcome, options, inputs, suspect, log="end of the log")
    content["environment"].update(facts)
    content["build"].update(suspect=suspect_build, execution_time=seconds)
    content["test_results"][-1]["suspect"] = suspect_test
    if part:
        content["test_results"][-1]["score"] = part
        content["summary"]["total_score"] += part
    content["is_second_try"] = first is not None
    content["other_attempt"] = None if first is None else report(first, repo)
    return content


def save(place, content, folder="reports"):
    """Write a report, or a text, by its place, such as MODEL/REPO."""
    file = Path(folder, f"{place}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def write(reports, folder="reports"):
    """Write reports by their places; return the folder.

    Of each there is the outcome, or a dict of it and other parameters of report().
    """
    for place, given in reports.items():
        values = given if isinstance(given, dict) else {"outcome": given}
        save(place, report(repo=place.rpartition("/")[2], **values), folder)
    return folder


def write_outcomes(**models):
    """Write the outcomes of each model for the repositories r0, r1, …; None is no report."""
    rows = [(model, *item) for model, outcomes in models.items() for item in enumerate(outcomes)]
    return write({f"{model}/r{at}": it for model, at, it in rows if it is not None})


def board(folder):
    return lb.Board(lb.read_reports([folder], has_samples=False)[0])


# Statistics. The numbers were computed with numpy and scipy, from the definitions.


@pytest.mark.parametrize(
    ("scores", "interval"),
    [
        ([0, 1] * 250, (0.4560, 0.5440)),
        ([1, 1, 1, 1, 0.9, 0.2], (0.5132, 1)),
        ([0, 0, 0, 0, 0.1, 0.8], (0, 0.4868)),
        ([0.1, 0.4, 0.5, 0.2, 0.9], None),
        ([1] * 10, None),
    ],
)
def test_interval_of_a_mean_unless_scores_are_few_or_equal(scores, interval):
    assert lb.mean_interval(scores) == pytest.approx(interval, abs=1e-4)


def test_critical_difference_is_that_of_all_pairs():
    rows = [[9, 8, 9, 8, 9, 8], [8, 9, 8, 9, 8, 7], [2, 1, 2, 1, 2, 2], [5, 1, 9, 3, 3, 0]]

    assert lb.critical_difference(rows) == pytest.approx(2.8070, abs=1e-4)


def test_probability_that_one_of_two_samples_is_solved():
    """Of four samples of which none, one, … all are solved."""
    assert [lb.any_of(2, solved, 4) for solved in range(5)] == [0, 1 / 2, 5 / 6, 1, 1]


# Board

GOOD, ALSO_GOOD = [9, 8, 9, 8, 9, 8], [8, 9, 8, 9, 8, 7]
STANDINGS = """
one is better -> a best, b behind
    models: {"a": [9, 8, 9, 8, 9, 8], "b": [2, 1, 2, 1, 2, 1]}
two are -> a may be the best, b may be the best, c behind
    models: {"a": [9, 8, 9, 8, 9, 8], "b": [8, 9, 8, 9, 8, 7], "c": [2, 1, 2, 1, 2, 1]}
# Whatever the missing score of c is, c is behind, or the best; or it is not known
c is behind -> a best, b behind, c incomplete
    models: {"a": [9, 8, 9, 8, 9, 8], "b": [2, 1, 2, 1, 2, 1], "c": [1, 1, 1, 1, 1, "engine"]}
c is the best -> c incomplete, a behind, b behind
    models: {"a": [2, 1, 2, 1, 2, 2], "b": [2, 1, 2, 1, 2, 1], "c": [10, 10, 10, 10, 10, "engine"]}
c leads, even with a zero -> c incomplete, a may be the best, b behind
    models: {"a": [8, 8, 8, 8, 8, 7], "b": [2, 1, 2, 1, 2, 1], "c": [10, 10, 10, 10, 10, "engine"]}
c may be the best -> a may be the best, c incomplete, b behind
    models: {"a": [9, 8, 9, 8, 9, 8], "b": [2, 1, 2, 1, 2, 1], "c": [9, 9, 9, 9, 9, "engine"]}
"""


@table(STANDINGS, models={})
def test_model_is_the_best_only_beyond_the_critical_difference(row):
    rows = board(write_outcomes(**row.models)).rows

    found = ", ".join(f"{each.model} {each.standing.partition(':')[0]}" for each in rows)
    assert found == row.then


def test_headline_says_which_gap_may_be_chance_and_a_full_board_needs_no_note():
    _, out, err = run(write_outcomes(a=GOOD, b=ALSO_GOOD))

    verdict = "2 models may be the best: a gap of less than 10.8 percentage points may be chance"
    assert out.splitlines()[1] == verdict
    assert err == ""


def test_build_time_and_image_size_are_medians_of_the_images_that_were_built():
    values = {"m/1": 1, "m/5": 5, "m/900": 900}
    reports = {
        place: {"outcome": 5, "seconds": value * 10, "image_size": value * 10**6}
        for place, value in values.items()
    }
    reports["m/late"] = {"outcome": "build_timeout", "seconds": 3600}

    row = lb.board_table(board(write({**reports, "n/a": "build"})))[1]

    assert row[-3:-1] == ["50.0 s", "5.0 MB"]


def test_interval_of_the_difference_of_two_models_may_be_negative():
    out = run(write_outcomes(a=GOOD, b=ALSO_GOOD), "--compare", "b", "a")[1]

    assert out.startswith(
        "these two only: b minus a: -3.3 percentage points, 95% interval -14.2 to 7.5, "
    )


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_comparison_says_which_model_alone_fails_a_test_and_why(order):
    out = run(write_outcomes(a=[10], b=[9]), "--compare", *order)[1]

    assert out.splitlines()[1:] == ["only b fails 'run_command_10' of r0: m9"]


def test_failed_build_scores_zero_and_other_errors_nothing():
    """The bounds are the scores if all that is missing scored 0, and if it scored 1."""
    outcomes = [10, "build", "build_timeout", "engine", "registry", "interrupted", "usage", None]

    row = board(write_outcomes(a=outcomes, b=[0] * 8)).rows[0]

    missing = "engine error, interrupted, no report, registry error, usage error"
    assert list(row.scores.values()) == [1, 0, 0]
    assert row.score == 1 / 3
    assert row.standing == f"incomplete: 12.5% to 75.0%, ranked by the lower end ({missing})"


CONDITIONS = """
a rubric -> rubric of app: 2 digests
    a: {"rubric_sha256": "0"}
    b: {"rubric_sha256": "1"}
proxies -> proxies: httpProxy / none
    a: {"proxies": []}
    b: {"proxies": ["httpProxy"]}
platforms -> image_platform: linux/amd64 / linux/arm64
    a: {"image_platform": "linux/arm64"}
    b: {"image_platform": "linux/amd64"}
a single evaluation -> nothing
    a: {"parallel": 8}
    b: {"parallel": null}
another image -> ghcr.io/x/y:1: 2 digests
    a: {"base_images": ["ghcr.io/x/y:1@sha256:0"]}
    b: {"base_images": ["ghcr.io/x/y:1@sha256:1"]}
digests that the Dockerfiles ask for -> nothing
    a: {"base_images": ["debian@sha256:0"]}
    b: {"base_images": ["debian@sha256:1"]}
two images -> nothing
    a: {"base_images": ["docker.io/library/debian:bookworm-slim@sha256:0"]}
    b: {"base_images": ["alpine:3@sha256:1"]}
30 days -> 30 days between the first and the latest evaluation
    a: {"started_at": "2026-10-31T23:00:00+00:00"}
    b: {"started_at": "2026-10-01T23:00:00+00:00"}
29 days -> nothing
    a: {"started_at": "2026-10-30T00:00:00+00:00"}
    b: {"started_at": "2026-10-01T00:00:00+00:00"}
"""


@table(CONDITIONS, a={}, b={})
def test_conditions_that_differ_are_noted(row):
    err = run(write({f"{at}/app": {"outcome": 5, **vars(row)[at]} for at in "ab"}))[2]

    assert re.findall("conditions differ: '(.*)'", err) == [row.then] * (row.then != "nothing")


def test_conditions_of_two_repositories_may_differ():
    limited = {"outcome": 5, "run_options": ["--memory=1g"]}

    err = run(write({"a/app": limited, "a/lib": 5, "b/app": limited, "b/lib": 5}))[2]

    assert "conditions differ" not in err


SUSPICIOUS = [
    {"outcome": "build", "suspect": "network"},
    {"outcome": 5, "suspect_test": "reference"},
    {"outcome": 5, "suspect_build": "gone"},
]


@pytest.mark.parametrize("outcome", SUSPICIOUS, ids=str)
def test_suspicious_scores_are_noted_and_marked(outcome):
    _, kind = outcome.values()

    page, err = run(write({"m/a": outcome, "m/b": "build"}), "--html", "-")[1:]

    assert re.findall(r"suspicious scores \((.*)\): .*: (.*)\n", err) == [(kind, "'m/a'")]
    assert len(re.findall('<td class="[^"]*suspect', page)) == 1
    assert re.findall(r"<pre>(.*): .*suspicious: (.*)\)\n", page) == [("m, a", kind)]
    assert (f": m9\nsuspicious: {kind}\n" in page) is ("suspect_test" in outcome)


@pytest.mark.parametrize("outcome", [10, "engine"])
def test_score_that_no_suspicion_lowers_is_not_suspicious(outcome):
    """A download that failed did not break anything; or there is no score."""
    suspects = dict.fromkeys(["suspect", "suspect_build"], "network")

    found = run(write({"m/app": {"outcome": outcome, **suspects}}))

    assert "suspicious" not in f"{found}"


def test_page_has_the_conditions_with_units_and_the_values_that_differ():
    facts = {"docker_server": "28.5", "engine_memory": 16 * 10**9}
    others = {"run_options": ["--memory=2g", "--cpus=1"], "docker_server": None}

    page = run(
        write({"m/a": {"outcome": 5, **facts}, "n/a": {"outcome": 5, **others}}), "--html", "-"
    )[1]

    found = re.findall("<dt>(.*?)<dd>(.*?)</div>", page)
    assert found == [
        ("evaluator version", de.__version__),
        ("docker server", "28.5"),
        ("engine memory", "16.0 GB"),
        ("build options", "none"),
        ("run options", "--memory=2g --cpus=1 / none"),
        ("offline", "no"),
        ("build timeout", "3600 s"),
        ("start timeout", "120 s"),
    ]


def test_page_shows_second_tries_and_parts_of_the_points_in_cell_and_panel():
    second = {
        f"{model}/app": {"outcome": 5, "first": first}
        for model, first in zip("abc", (5, 5, "build"))
    }
    second["a/app"]["part"] = 0.25

    page = run(write({**second, "d/app": 6}), "--html", "-")[1]

    assert "<p>second tries: 3, of which 2 raised the score<p>" in page
    assert page.count("\nsecond try\n") == 3
    assert "<pre>a, app: 52.5%\n" in page
    assert "<summary>52.5</summary>" in page
    assert page.count(": m9\npart of the points: 0.25 of 1\n") == 1


def test_repositories_are_in_natural_order():
    repos = ["r1-2", "r1-10", "r9", "r10"]

    assert board(write({f"m/{repo}": 5 for repo in reversed(repos)})).repos == repos


# Reading

NONSENSE = ["null", "[]", "{}", '"x"', "-1", "1e999", "NaN", "true", "9" * 400, "[" * 99_999]


def test_file_that_is_no_report_is_left_out_without_a_traceback():
    """Each value of a report is replaced by nonsense; what cannot be read is named."""
    content = report(5, "app")
    del content["test_results"][1:]
    text = json.dumps(content)
    save("good/app", text)
    values = itertools.product(re.finditer('": ', text), NONSENSE)
    for count, (key, nonsense) in enumerate(values):
        end = json.JSONDecoder().raw_decode(text, key.end())[1]
        save(f"{count}/app", text[: key.end()] + nonsense + text[end:])

    code, _, err = run("reports", "--html", "page", "--csv", "table")

    assert code == 0
    assert count > err.count("left out: ") > 99


# Output

EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></pre></details>"
    "&amp;${x}|`x`\x1b[2J\x1b[1;31m\x1b[K\u202e"
)
# The last ones are full-width.
FORMULAS = ["=1+1", "@x", "+x", "-x", " =x", "|x", "a;=x", "a; @x", "%1+1", "\uff1dx", "\uff20x"]


def write_hostile():
    """Write reports that have hostile texts in all places; return the folder."""
    keys = "repo|test_id|message|category|output|log|builder"
    for outcome, text in itertools.product((5, "build"), [EVIL, *FORMULAS]):
        escaped = json.dumps(text).replace("\\", r"\\")
        content = json.dumps(report(outcome, "app"))
        hostile = re.sub(f'"({keys})": ("[^"]*"|null)', rf'"\1": {escaped}', content)
        save(f"{outcome}{text.replace('/', '-')}/app", hostile)
    return "reports"


@pytest.fixture
def hostile():
    """Return what is on the screen, on the page and in the CSV file of hostile reports."""
    screen = run(write_hostile(), "--html", "page", "--csv", "table")[1:]
    return "".join(screen), Path("page").read_text(), Path("table").read_text()


def test_control_characters_are_escaped_and_colour_codes_left_out(hostile):
    assert not re.search(r"[\x1b\u202e]|\[1;31m|\[K", "".join(hostile))


def test_hostile_text_is_escaped_on_the_page_which_loads_nothing(hostile):
    page = hostile[1]

    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert f'"Content-Security-Policy" content="{policy}"' in page
    assert not re.search(r"(?i)<script|<link|<iframe|<img|<[^>]*\son\w+=|url\(", page)
    assert html.unescape(page).count("<script>alert(1)</script>") > 8


def test_hostile_text_is_no_formula_in_csv(hostile):
    cells = itertools.chain(*csv.reader(io.StringIO(hostile[2])))

    formula = re.compile("(^|;)\\s*[=+\\-@|%\uff1d\uff20]")
    assert list(filter(formula.search, cells)) == []


FOUR = {
    "a": [9, 8, 9, 8, 9, 10, "engine", 8],
    "b": [10, 7, 8, 9, 8, 9, "build", None],
    "c": [1, 2, 1, 2, 1, 2, 1, 2],
    "d": [7, 8, 9, 8, 9, "build", 9, 10],
}


def test_page_has_its_title_the_words_of_the_text_and_the_end_of_the_log():
    folder = write_outcomes(**FOUR)
    words = re.split(r"\n|  +", run(folder)[1])

    page = run(folder, "--html", "-", "--title", "Tom & I")[1]

    words += ["<title>Tom & I</title>", "<h1>Tom & I</h1>", "why\n<q>end of the log</q>"]
    assert [word for word in words if word not in html.unescape(page)] == []


def test_end_of_a_log_is_before_what_buildkit_repeats():
    content = report("build", "app")
    content["build"]["log"] = "#5 no such file\n#5 ERROR\n------\n > [2/2] RUN make:\n------\n"
    save("m/app", content)

    page = run("reports", "--html", "-")[1]

    assert "<q>#5 no such file</q><q>#5 ERROR</q></pre>" in page


def test_cut_text_has_no_part_of_a_tag_or_of_an_entity():
    text = 'a "b" <\n  | x & y\n  | <b>\nend'

    for limit in range(100):
        html_text = lb.as_html(text, limit)
        assert not re.search("[<>&]", re.sub("</?q>|&(amp|lt|gt|quot|#x27);", "", html_text))
    assert html_text == "a &quot;b&quot; &lt;\n<q>x &amp; y</q><q>&lt;b&gt;</q>end"


@pytest.mark.long("makes a page of 10,000 reports")
def test_page_of_10000_reports_is_smaller_than_4_megabytes():
    """With links to reports."""
    save("laboratory/model-0000000000/repository-0000000000", "")
    (path,) = map(str, Path().rglob("*.json"))
    facts = {"score": 0.5, "details": '<"&">成功' * 500, "path": path}
    models = [f"laboratory/model-{at:010}" for at in range(20)]
    repos = [f"repository-{at:010}" for at in range(500)]
    keys = itertools.product(models, [""], repos)

    page = lb.as_page(lb.Board({key: lb.Report(*key, "", **facts) for key in keys}))

    assert page.count("<a ") == 10_000
    assert len(page.encode()) < 4_000_000
