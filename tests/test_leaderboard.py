"""The leaderboard: what is a score, what is not, and pages that no report can take over."""

from __future__ import annotations

import csv
import html.parser
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ENGINE_REQUIRED, PROJECT, schema

PROGRAM = PROJECT / "reports" / "leaderboard.py"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></pre></section>&amp;\x1b[2J"


def load():
    spec = importlib.util.spec_from_file_location("leaderboard", str(PROGRAM))
    module = importlib.util.module_from_spec(spec)
    sys.modules["leaderboard"] = module
    spec.loader.exec_module(module)
    return module


board_of = load()


@pytest.fixture
def every_report_is_as_its_schema_says():
    """Broken reports are what is tested here; the good ones are held to the schema where they are made."""


def row(name, status="passed", score=1, message="exit code 0", output=None):
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
        "category": None,
    }


def report(*rows, repo="app", kind=None, message="why", version="1.0.0"):
    passed = sum(1 for test in rows if test["passed"])
    made = {
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
        "build": {"succeeded": True, "execution_time": 1.0, "message": "built", "log": ""},
        "error": {"kind": kind, "message": message} if kind else None,
        "warnings": [],
        "environment": {
            "evaluator_version": version,
            "jobs": 1,
            "docker_client": None,
            "docker_server": None,
            "platform": None,
            "builder": None,
            "started_at": "2026-11-22T00:00:00Z",
            "dockerfile_sha256": "0" * 64,
            "rubric_sha256": "0" * 64,
            "image_size": None,
            "kept_image": None,
        },
    }
    schema("report").validate(made)
    return made


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
    done = subprocess.run([sys.executable, str(PROGRAM), *words], capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def fill(folder):
    folder("good/app", report(row("a"), row("b", score=3)))
    folder("good/lib", report(row("a"), row("b", "failed", 3), repo="lib"))
    folder("poor/app", report(row("a"), row("b", "failed", 3, message="exit code 1: no")))
    folder("poor/lib", report(row("a", "not_run"), row("b", "not_run", 3), repo="lib", kind="build"))
    folder("sick/app", report(row("a"), row("b", "error", 3), kind="engine"))
    return folder("sick/lib", report(row("a"), row("b", "not_run", 3), repo="lib", kind="interrupted"))


def test_means_rest_on_scores_alone_and_the_rest_is_counted(folder):
    code, out, err = run(fill(folder))
    assert (code, err) == (0, "")
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "mean of build failed engine fault interrupted app lib",
        "good 62.5% 2 0 0 0 100% 4/4 (2 of 2) 25% 1/4 (1 of 2)",
        "poor 25.0% 1 1 0 0 25% 1/4 (1 of 2) build failed",
        "sick - 0 0 1 1 engine fault interrupted",
        "mean 62.5% 25.0%",
    ]


def test_columns_that_do_not_fit_follow_below(folder):
    for number in range(9):
        folder(f"m/repo{number}", report(row("a"), repo=f"a_rather_long_repository_{number}"))
    lines = run(folder.root)[1].splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("m ") for line in lines) > 1
    assert all(f"a_rather_long_repository_{number}" in "\n".join(lines) for number in range(9))


def test_rows_are_sub_folders_however_deep_and_files_belong_to_their_folder(folder, tmp_path):
    folder("gpt/prompt 1/c0ffee/app", report(row("a")))
    folder("top", report(row("a")))
    cells, left_out = board_of.read_reports([folder.root])
    assert ([cell.row for cell in cells], left_out) == (["gpt/prompt 1/c0ffee", "reports"], [])
    cells, _ = board_of.read_reports(
        [folder.root + "/top.json", folder.root + "/gpt/prompt 1/c0ffee/app.json"]
    )
    assert sorted(cell.row for cell in cells) == ["c0ffee", "reports"]


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
        (json.dumps(report(row("a"))).replace('"total_score": 1', '"total_score": NaN'), "NaN is no JSON"),
        (json.dumps(report(row("a", score=0))), "a rubric without points gives no score"),
    ],
)
def test_what_is_no_report_is_named_and_left_out(folder, made, words):
    folder("bad/x", made)
    code, out, err = run(folder.root)
    assert (code, out) == (1, "")
    assert err.splitlines() == [f"left out: {folder.root}/bad/x.json: {words}", "no report is left"]
    folder("good/app", report(row("a")))
    assert run(folder.root)[0] == 0


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


def test_two_rows_are_compared_test_by_test(folder):
    fill(folder)
    code, out, _ = run(folder.root, "--compare", "good", "poor")
    assert code == 0
    assert out.splitlines() == [
        "app: good 100% 4/4 (2 of 2), poor 25% 1/4 (1 of 2)",
        "  only good passes b; poor: failed: exit code 1: no",
        "lib: good 25% 1/4 (1 of 2), poor build failed",
        "  poor: why",
    ]
    code, _, err = run(folder.root, "--compare", "good", "nobody")
    assert code == 2
    assert "no row 'nobody'; there are: good, poor, sick" in err


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("total_score", '"nan"'),
        ("total_score", "NaN"),
        ("total_score", "true"),
        ("total_score", "-5"),
        ("total_score", "99"),
        ("max_score", "1" + "0" * 400),
        ("passed_tests", "1e999"),
        ("passed_tests", "3"),
        ("total_tests", '"2"'),
    ],
)
def test_a_report_with_impossible_numbers_is_left_out(folder, field, value):
    folder("good/app", report(row("a")))
    text = json.dumps(report(row("a"), row("b", "failed")))
    folder("odd/app", re.sub(f'"{field}": [0-9.]+', f'"{field}": {value}', text))
    code, out, err = run(folder.root)
    assert (code, err.count("odd/app.json"), err.count("Traceback")) == (0, 1, 0)
    assert "odd" not in out


def test_what_is_no_error_object_is_no_score(folder):
    made = json.dumps(report(row("a"))).replace('"error": null', '"error": false')
    code, _, err = run(folder("m/app", made))
    assert (code, "m/app.json" in err) == (1, True)


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
    other = report(row("a"), row("b"))
    other["environment"]["rubric_sha256"] = "1" * 64
    fill(folder)
    folder("late/app", other)
    words = "app: scored by 2 different rubrics, so its scores do not compare"
    code, out, err = run(folder.root, "--html", str(tmp_path / "x.html"))
    assert (code, err) == (0, f"caution: {words}\n")
    assert "late" in out
    assert words in (tmp_path / "x.html").read_text()


def test_csv_holds_no_formula(folder, tmp_path):
    for at, evil in enumerate(["=1+1", "@x", "+x", "-x", " =x", "|x", "\t=x"]):
        folder(f"{evil.strip()}{at}/r", report(row("a"), repo=evil + str(at), kind="engine", message=evil))
    assert run(folder.root, "--csv", str(tmp_path / "x.csv"))[0] == 0
    lines = list(csv.DictReader((tmp_path / "x.csv").open(newline="")))
    assert len(lines) == 7
    assert not [value for line in lines for value in line.values() if re.match(r"\s*[=+\-@|]", value)]
    assert {line["end"] for line in lines} == {"engine fault"}


def test_csv_has_no_score_where_there_is_none(folder, tmp_path):
    run(fill(folder), "--csv", str(tmp_path / "x.csv"))
    lines = csv.DictReader((tmp_path / "x.csv").open(newline=""))
    found = {(line["row"], line["repo"]): (line["end"], line["score"], line["passed"]) for line in lines}
    assert found["good", "lib"] == ("scored", "1.0", "1")
    assert found["poor", "lib"] == ("build failed", "", "")
    assert found["sick", "app"] == ("engine fault", "", "")


def test_names_that_a_terminal_cannot_show_or_obeys_are_replaced(folder, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    folder("\x1b[31mmodèle/r", report(row("a"), repo="dépôt"))
    code, out, err = run(folder.root)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "?[31mmod?le" in out


def test_markdown_is_a_table_that_text_cannot_leave(folder, tmp_path):
    folder("a|b*c*/r", report(row("a"), repo="<b>|`x`"))
    run(folder.root, "--markdown", str(tmp_path / "x.md"))
    lines = (tmp_path / "x.md").read_text().splitlines()
    assert lines[2].startswith(r"| a\|b\*c\* | 100.0% | 1 |")
    assert lines[0].endswith(r"| \<b\>\|\`x\` |")


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


def test_html_escapes_whatever_stands_in_a_report(folder, tmp_path):
    safe = EVIL.replace("/", "-").replace("\x1b", "")
    folder(f"{safe}/a", report(row(EVIL, "failed", 1, EVIL, EVIL), row("b"), repo=EVIL))
    folder("m/a", report(row("b", message=EVIL), repo=EVIL, kind="build", message=EVIL))
    assert run(folder.root, "--html", str(tmp_path / "x.html"))[0] == 0
    page = Tags()
    page.feed((tmp_path / "x.html").read_text())
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert not [name for name in page.attributes if name.startswith("on")]
    assert page.text.count("<script>alert(1)</script>") >= 5
    assert "\x1b" not in page.text
    assert "http" not in (tmp_path / "x.html").read_text().replace("xhttp", "")


def test_html_without_javascript_leads_from_each_cell_to_its_tests(folder, tmp_path):
    run(fill(folder), "--html", str(tmp_path / "x.html"))
    page = (tmp_path / "x.html").read_text()
    links, targets = re.findall(r'href="#(r\d+)"', page), re.findall(r'<section id="(r\d+)"', page)
    assert sorted(links) == sorted(targets)
    assert len(targets) == 6
    assert "<td>b<td>failed<td>exit code 1: no" in page


def test_html_of_a_thousand_reports_is_under_two_megabytes(folder, tmp_path):
    long = "something that was printed & <escaped>\n" * 30
    rows = [
        row(f"a_test_with_a_name_{n}", "failed" if n % 2 else "passed", 1, long[:300], long)
        for n in range(40)
    ]
    made = json.dumps(report(*rows))
    for number in range(1000):
        folder(f"model-{number % 20}/repo{number // 20}", made.replace('"app"', f'"repo{number // 20}"'))
    assert run(folder.root, "--html", str(tmp_path / "x.html"))[0] == 0
    assert 200_000 < os.path.getsize(str(tmp_path / "x.html")) < 2_000_000


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

    def column(at):
        cells = browser.find_elements("css selector", f"#board tbody tr > *:nth-child({at})")
        return [cell.text for cell in cells]

    def click(name):
        browser.find_element("xpath", f"//th/button[.='{name}']").click()

    assert column(1) == ["good", "poor", "sick"]
    click("row")
    assert column(1) == ["sick", "poor", "good"]
    click("mean")
    assert column(2) == ["62.5%", "25.0%", "-"]
    click("mean")
    assert column(2) == ["-", "25.0%", "62.5%"]
    click("app")
    assert [text.split()[0] for text in column(7)] == ["100%", "25%", "engine"]
    head = browser.find_element("xpath", "//th[button[.='app']]")
    assert head.get_attribute("aria-sort") == "descending"
    message = browser.find_element("xpath", "//section//td[.='exit code 1: no']")
    assert not message.is_displayed()
    browser.find_element("xpath", "//tr[th='poor']//a[starts-with(., '25%')]").click()
    assert message.is_displayed()
    assert browser.get_log("browser") == []
