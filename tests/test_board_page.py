"""The leaderboard's page: nothing in a report can take it over, and all of it can be seen."""

from __future__ import annotations

import os
import re
import shutil
import time

import pytest
from boards import Folder, Tags, board, fill, leaderboard, report, row, run, share
from conftest import ENGINE_REQUIRED


@pytest.fixture
def every_written_report_is_as_its_schema_says():
    """What is written here is what the leaderboard reads of a report, and broken reports."""


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></pre></section>&amp;$page\x1b[2J"


# The page


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


def test_the_page_draws_bars_intervals_bounds_and_the_critical_difference(folder):
    for at in range(6):
        for model, score in (("a", 9 - at % 2), ("b", 8 + at % 3), ("c", at % 3), ("d", 9)):
            folder(
                f"{model}/r{at}",
                share(score or 1, f"r{at}", kind="engine" if (model, at) == ("d", 3) else None),
            )
    made = board(folder.root)
    page = leaderboard.page(made)
    for found in made.rows:
        assert f'width="{found.score:.2%}"' in page
        if found.interval:
            assert 'x1="{:.2%}" x2="{:.2%}" y1="50%"'.format(*found.interval) in page
        assert 'class="bounds" x1="{:.2%}" x2="{:.2%}"'.format(*found.bounds) in page
    kinds = dict(zip((found.model for found in made.rows), re.findall(r'<td class="([a-z ]*)"><svg', page)))
    assert kinds == {"a": "whole", "b": "whole", "c": "behind whole", "d": "point"}
    first = made.complete[0].score
    assert f"--near: {first - made.critical:.2%}; --first: {first:.2%};" in page
    assert f'data-of="critical difference {made.critical * 100:.1f} points"' in page


def test_a_failed_build_and_what_is_no_score_can_be_told_apart_on_the_heat_map(folder, tmp_path):
    run(fill(folder), "--html", str(tmp_path / "x.html"))
    page = (tmp_path / "x.html").read_text()
    assert re.search(r'<td class="s x" style="--p:0"><a href="#p1m1">0%<small>build failed</small>', page)
    assert re.findall(r'<td class="([a-z ]*)"><svg', page) == ["point whole", "point whole", "point"]
    assert re.search(r'<td><a href="#p0m2">\u2013<small>engine fault</small>', page)


def test_what_was_left_out_and_does_not_compare_stands_in_what_is_published(folder):
    folder("a/app", report(row("a")))
    folder("b/app", report(row("a", "failed"), rubric="1" * 64))
    for at in range(15):
        folder(f"b/broken{at:02}", "{")
    reports, left_out = leaderboard.read_reports([folder.root])
    made = leaderboard.Board(reports, left_out)
    for published in (leaderboard.page(made), leaderboard.markdown(made).replace("\\", "")):
        assert "left out: reports/b/broken00.json: not JSON at line 1, column 2; half written?" in published
        assert "warning: conditions differ: rubric of app: 111" in published
        assert (published.count("left out: "), published.count("left out: 5 more")) == (11, 1)


def test_no_path_of_a_machine_is_published(folder):
    folder("a/app", report(row("a"), row("b", "failed")))
    folder("a/lib", "{")
    reports, left_out = leaderboard.read_reports([folder.root])
    made = leaderboard.Board(reports, left_out)
    makers = (leaderboard.page, leaderboard.markdown, leaderboard.csv_of_reports, leaderboard.csv_of_tests)
    assert not [make for make in makers if os.path.dirname(folder.root) in make(made)]
    assert os.path.realpath(reports[0].file) == f"{folder.root}/a/app.json"  # as programs need it


def test_no_score_is_said_twice_of_a_cell(folder):
    page = leaderboard.page(board(folder("a/app", share(7))))
    assert page.count("70% 7/10 (1 of 2)") == 1
    assert page.count("70%<small>7/10 (1 of 2)</small>") == 1


def test_names_are_never_cut_to_the_same_text(folder):
    for end in "xy":
        folder(f"{'m' * 100}{end}/app", report(row("t" * 400 + end, "failed"), repo="r" * 300 + end))
    page = leaderboard.page(board(folder.root))
    for name in ("m" * 100, "t" * 400, "r" * 300):
        assert f"{name}x" in page
        assert f"{name}y" in page
    assert "ellipsis" not in page


def test_a_page_that_is_too_large_drops_the_longest_and_says_how_many(folder, monkeypatch):
    for at in range(10):
        rows = [row("a", "failed", message=f"short {at}", output=f"{at}" * (50 + 50 * at))]
        folder(f"m{at}/app", report(*rows))
    whole = leaderboard.page(board(folder.root))
    assert "no room on this page for" not in whole
    monkeypatch.setattr(leaderboard, "ROOM", 4000)
    page = leaderboard.page(board(folder.root))
    left = [at for at in range(10) if f">{at}{at}{at}" in page]
    assert left == list(range(len(left)))
    assert 0 < len(left) < 10
    assert f"no room on this page for {10 - len(left)} messages and outputs, the longest" in page
    assert page.count("<dd class=d>") == 10 - len(left)
    assert all(f"short {at}" in page for at in range(10))


@pytest.mark.long("reads a thousand reports")
def test_a_page_on_many_repositories_is_under_two_megabytes_too(folder):
    for number in range(1000):
        status = ["passed" if (n * 7 + number) % 3 else "failed" for n in range(40)]
        rows = [row(f"a_test_with_a_name_{n}", status[n], 1, "exit code 2: no rule") for n in range(40)]
        folder(f"model-{number % 2}/repo{number // 2}", report(*rows, repo=f"repo{number // 2}"))
    page = leaderboard.page(board(folder.root))
    assert len(page.encode()) < 2_000_000
    assert "more: see --items" in page


def thousand(folder):
    long = "something that was printed & <escaped>\n" * 30
    for number in range(1000):
        status = ["passed" if (n * 7 + number) % 3 else "failed" for n in range(40)]
        rows = [row(f"a_test_with_a_name_{n}", status[n], 1, long[:300], long) for n in range(40)]
        folder(f"model-{number % 20}/repo{number // 20}", report(*rows, repo=f"repo{number // 20}"))
    return folder.root


@pytest.mark.long("reads a thousand reports")
def test_a_thousand_reports_make_a_page_under_two_megabytes_in_seconds(folder, tmp_path):
    thousand(folder)
    before = time.process_time()
    files = {name: str(tmp_path / f"x.{name}") for name in ("html", "csv", "markdown")}
    assert run(folder.root, *(word for name, file in files.items() for word in (f"--{name}", file)))[0] == 0
    used = time.process_time() - before
    assert 200_000 < os.path.getsize(str(tmp_path / "x.html")) < 2_000_000
    assert used < 5  # seconds of a processor's time, on a machine that others use as well


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
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
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options, webdriver.ChromeService(programs[1])) as driver:
        yield driver


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


def resize(browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.mark.parametrize(("models", "repos"), [(4, 6), (12, 30), (3, 100)])
def test_in_a_browser_every_column_can_be_seen(folder, tmp_path, browser, models, repos):
    for model in range(models):
        for repo in range(repos):
            name = f"a_repository_of_somebody_{repo}"
            folder(f"vendor/model-with-a-rather-long-name-{model}/r{repo}", share(repo % 10, name))
    run(folder.root, "--html", str(tmp_path / "x.html"))
    browser.get(f"file://{tmp_path}/x.html")
    names = "return [...document.querySelectorAll('#board tbody th')].map(e => e.innerText)"
    assert len({*browser.execute_script(names)}) == models  # none is cut
    for width in (1400, 800, 390):
        resize(browser, width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        for table in ("board", "heat"):
            wide = browser.find_element("xpath", f"//table[@id='{table}']/..")
            seen, whole = (
                browser.execute_script(f"return arguments[0].{of}Width", wide) for of in ("client", "scroll")
            )
            assert whole <= seen or wide.value_of_css_property("overflow-x") == "auto"
            assert whole <= seen or width < 1400
        heads = "return [...document.querySelectorAll('#heat thead th')].map(e => e.offsetWidth)"
        assert min(browser.execute_script(heads)) > 5
        cut = "return [...document.querySelectorAll('th')].filter(e => e.scrollWidth > e.clientWidth + 1)"
        assert browser.execute_script(cut) == []


def test_in_print_no_column_is_lost(folder, tmp_path, browser):
    for model in range(3):
        for repo in range(100):
            folder(f"m{model}/r{repo}", share(repo % 10, f"repository_{repo}"))
    run(folder.root, "--html", str(tmp_path / "x.html"))
    resize(browser, 1030)  # A4, landscape, less its margins, in pixels
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.get(f"file://{tmp_path}/x.html")
    seen = browser.execute_script("return document.documentElement.scrollWidth")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})  # for the next test
    assert seen <= 1030
    assert "size: A4 landscape" in leaderboard.page(board(folder.root))
