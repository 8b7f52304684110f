"""reports/leaderboard.py: statistics, board, reading, text, CSV and page."""

import csv
import functools
import html
import io
import itertools
import json
import re
from pathlib import Path

import leaderboard as lb
import pytest
from cases import run_command, table
from conftest import called, make_report

import DockerfileEvaluator as de

run = functools.partial(called, lb.main)  # returns the exit code, stdout and stderr


# Reports. An outcome is how many of ten tests passed, or the kind of the error that ended the
# evaluation. Each test has one point, so 7 is a score of 70 %.

RUBRIC = de.read_rubric(json.dumps({"tests": [run_command("x")] * 10}).encode(), "r")


def report(
    outcome, repo, suspect=None, suspect_test=None, suspect_build=None, part=0, first=None, **facts
):
    """Return a report on ten tests, as the evaluator makes it, and evaluate_all.py marks it.

    `part` is what the last test earns of its point although it failed; `first` is the outcome of
    the first try, if this is the second one; `facts` are of the environment, and of the build.
    """
    options = de.Options("d", repo, "r", context=".")
    inputs = de.Inputs(b"", RUBRIC, *["0" * 64] * 3)
    if isinstance(outcome, int):
        outcome = [de.PASSED] * outcome + [de.FAILED] * (10 - outcome)
    content = make_report(outcome, options, inputs, suspect, log="end of the log")
    content["environment"].update(facts)
    content["build"].update(facts, suspect=suspect_build)
    content["test_results"][-1]["suspect"] = suspect_test
    if part:
        content["test_results"][-1]["score"] = part
        content["summary"]["total_score"] += part
    if first is not None:
        content.update(is_second_try=True, other_attempt=report(first, repo))
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


def write_outcomes(facts=(), **models):
    """Write the outcomes of each model for the repositories r0, r1, …; None is no report.

    A model a__b is in the folder a/b.
    """
    return write(
        {
            f"{model.replace('__', '/')}/r{at}": {"outcome": outcome, **dict(facts)}
            for model, outcomes in models.items()
            for at, outcome in enumerate(outcomes)
            if outcome is not None
        }
    )


def board(folder):
    return lb.Board(lb.read_reports([folder], has_samples=False)[0])


# Statistics. The numbers were computed with numpy and scipy, from the definitions.


INTERVALS = """
0 1 0 1 0 1 0 1 0 1 -> [0.123, 0.877]
1 1 1 1 0.9 0.2 -> [0.5132, 1.0]
0 0 0 0 0.1 0.8 -> [0.0, 0.4868]
0.1 0.4 0.5 0.2 0.9 -> None
1 1 1 1 1 1 1 1 1 1 -> None
"""


@table(INTERVALS)
def test_interval_of_a_mean_unless_scores_are_few_or_equal(row):
    interval = lb.mean_interval(list(map(float, row.when.split())))

    assert str(interval and [round(end, 4) for end in interval]) == row.then


def test_critical_difference_is_that_of_all_pairs():
    rows = [list(map(int, row)) for row in ("989898", "898987", "212122", "519330")]

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
    reports = {
        f"m/{value}": {"outcome": 5, "execution_time": value * 10, "image_size": value * 10**6}
        for value in (1, 5, 900)
    }
    reports["m/late"] = {"outcome": "build_timeout", "execution_time": 3600}

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

    assert out.endswith(" repositories\nonly b fails 'run_command_10' of r0: m9\n")


def test_failed_build_scores_zero_and_other_errors_nothing():
    """The bounds are the scores if all that is missing scored 0, and if it scored 1."""
    outcomes = [10, "build", "build_timeout", "engine", "registry", "interrupted", "usage", None]

    row = board(write_outcomes(a=outcomes, b=[0] * 8)).rows[0]

    assert list(row.scores.values()) == [1, 0, 0]
    assert row.score == 1 / 3
    assert row.standing == (
        "incomplete: 12.5% to 75.0%, ranked by the lower end "
        "(engine error, interrupted, no report, registry error, usage error)"
    )


# Facts of the environment by the place of a report, and what is noted
CONDITIONS = """
a rubric -> rubric of r: 2 digests
    facts: {"a/r": {"rubric_sha256": "0"}, "b/r": {"rubric_sha256": "1"}}
proxies -> proxies: httpProxy / none
    facts: {"a/r": {"proxies": []}, "b/r": {"proxies": ["httpProxy"]}}
platforms -> image_platform: linux/amd64 / linux/arm64
    facts: {"a/r": {"image_platform": "linux/arm64"}, "b/r": {"image_platform": "linux/amd64"}}
a single evaluation -> nothing
    facts: {"a/r": {"parallel": 8}, "b/r": {"parallel": null}}
two repositories -> nothing
    facts: {"a/r": {"parallel": 8}, "a/s": {}, "b/r": {"parallel": 8}, "b/s": {}}
another image -> a/c:1: 2 digests
    facts: {"a/r": {"base_images": ["a/c:1@sha256:0"]}, "b/r": {"base_images": ["a/c:1@sha256:1"]}}
digests that the Dockerfiles ask for -> nothing
    facts: {"a/r": {"base_images": ["x@sha256:0"]}, "b/r": {"base_images": ["x@sha256:1"]}}
two images -> nothing
    facts: {"a/r": {"base_images": ["docker.io/x:a@0"]}, "b/r": {"base_images": ["x:3@1"]}}
30 days -> 30 days between the first and the latest evaluation
    facts: {"a/r": {"started_at": "2026-10-31T23:00"}, "b/r": {"started_at": "2026-10-01T23:00"}}
29 days -> nothing
    facts: {"a/r": {"started_at": "2026-10-30T00:00"}, "b/r": {"started_at": "2026-10-01T00:00"}}
"""


@table(CONDITIONS, facts={})
def test_conditions_that_differ_are_noted(row):
    err = run(write({place: {"outcome": 5, **facts} for place, facts in row.facts.items()}))[2]

    assert re.findall("conditions differ: '(.*)'", err) == [row.then] * (row.then != "nothing")


# A report, and whether a test is marked in its panel
SUSPICIOUS = """
network -> no
    report: {"outcome": "build", "suspect": "network"}
reference -> yes
    report: {"outcome": 5, "suspect_test": "reference"}
gone -> no
    report: {"outcome": 5, "suspect_build": "gone"}
"""


@table(SUSPICIOUS, report={})
def test_suspicious_scores_are_noted_and_marked(row):
    page, err = run(write({"m/a": row.report, "m/b": "build"}), "--html", "-")[1:]

    assert re.findall(r"suspicious scores \((.*)\): .*: (.*)\n", err) == [(row.when, "'m/a'")]
    assert len(re.findall('<td class="[^"]*suspect', page)) == 1
    assert re.findall(r"<pre>(.*): .*suspicious: (.*)\)\n", page) == [("m, a", row.when)]
    assert (f": m9\nsuspicious: {row.when}\n" in page) is (row.then == "yes")


@pytest.mark.parametrize("outcome", [10, "engine"])
def test_score_that_no_suspicion_lowers_is_not_suspicious(outcome):
    """A download that failed did not break anything; or there is no score."""
    suspects = dict.fromkeys(["suspect", "suspect_build"], "network")

    found = run(write({"m/app": {"outcome": outcome, **suspects}}))

    assert "suspicious" not in f"{found}"


SHOWN = f"""
evaluator version: {de.__version__}
docker server: 28.5
engine memory: 16.0 GB
build options: none
run options: --memory=2g --cpus=1 / none
offline: no
build timeout: 3600 s
start timeout: 120 s
"""


def test_page_has_the_conditions_with_units_and_the_values_that_differ():
    facts = {"outcome": 5, "docker_server": "28.5", "engine_memory": 16 * 10**9}
    others = {"outcome": 5, "run_options": ["--memory=2g", "--cpus=1"], "docker_server": None}

    page = run(write({"m/a": facts, "n/a": others}), "--html", "-")[1]

    found = re.findall("<dt>(.*?<dd>.*?)</div>", page)
    assert "\n".join(found).replace("<dd>", ": ") == SHOWN.strip()


def test_page_shows_second_tries_and_parts_of_the_points_in_cell_and_panel():
    reports = {
        "a/app": {"outcome": 5, "first": 5, "part": 0.25},
        "b/app": {"outcome": 5, "first": 5},
        "c/app": {"outcome": 5, "first": "build"},
        "d/app": 6,
    }

    page = run(write(reports), "--html", "-")[1]

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
    place = "laboratory/model-0000000000/repository-0000000000"
    save(place, "")
    facts = {"score": 0.5, "details": '<"&">成功' * 500, "path": f"reports/{place}.json"}
    models = [f"laboratory/model-{at:010}" for at in range(20)]
    repos = [f"repository-{at:010}" for at in range(500)]
    keys = itertools.product(models, [""], repos)

    page = lb.as_page(lb.Board({key: lb.Report(*key, "", **facts) for key in keys}))

    assert page.count("<a ") == 10_000
    assert len(page.encode()) < 4_000_000
