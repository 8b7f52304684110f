"""The leaderboard's page in a real browser: Chromium, headless, through selenium.

`tests/run` installs the browser. Without it these tests are skipped, or fail where CI requires
an engine.
"""

import shutil
from pathlib import Path

import pytest
from cases import table
from conftest import ENGINE_REQUIRED
from test_leaderboard import FOUR, board, lb, write, write_hostile, write_outcomes

widths = pytest.mark.parametrize("width", [390, 800, 1000, 1400])  # pixels: phone to desktop


@pytest.fixture(scope="module")
def browser():
    """Start Chromium."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        (pytest.fail if ENGINE_REQUIRED else pytest.skip)("needs chromium and chromedriver")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(word)
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as started:
        yield started


@pytest.fixture
def opened(browser):
    """Return a function that opens the page of some reports at a width, in pixels."""

    def show(folder, width=1400, *words):
        lb.main([folder, "--html", "board.html", *words])
        # The window has a minimum width; the view has not.
        view = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", view)
        browser.get(Path("board.html").absolute().as_uri())
        return browser

    return show


BOX = """
    const box = document.querySelector(arguments[0]).getBoundingClientRect();
    return [box.left, box.right];
"""


@widths
def test_bars_end_where_the_numbers_say(opened, width):
    folder = write_outcomes(**FOUR)

    browser = opened(folder, width)

    for number, row in enumerate(board(folder).rows, start=1):
        bar = f".board tbody tr:nth-child({number}) .bar"
        left, right = browser.execute_script(BOX, bar)
        for part, ends in {"i": (0, row.score), "b": row.interval or row.bounds}.items():
            found = browser.execute_script(BOX, f"{bar} {part}")
            shares = [(end - left) / (right - left) for end in found]
            assert shares == pytest.approx(ends, abs=0.006), f"{part} of {row.model}"


@widths
def test_nothing_leaves_the_page_or_its_cell(opened, width):
    """Wide tables scroll by themselves."""
    folder = write_outcomes(**{"a-long-name-" * 4: FOUR["a"], "b_long_name" * 4: FOUR["c"]})
    script = """
        return [...document.querySelectorAll("th, td:not(.bar)")].filter(
            cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.textContent);
    """

    browser = opened(folder, width)

    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(script) == []


@pytest.mark.parametrize("suspect", [None, "gone"])
def test_open_cell_has_a_button_that_closes_it_and_suspicions_are_explained(opened, suspect):
    """A suspicious cell has a question mark there while it is closed."""
    browser = opened(write({"m/app": {"outcome": 5, "suspect_test": suspect}}))
    browser.find_element("css selector", ".heat summary").click()

    script = "return getComputedStyle(document.querySelector('summary'), '::after').content"
    assert browser.execute_script(script) == '"✕ close"'
    explained = browser.find_element("css selector", ".if-suspect")
    assert explained.is_displayed() is bool(suspect)
    browser.find_element("css selector", ".heat summary").click()
    assert not browser.find_element("css selector", ".heat pre").is_displayed()


def test_links_of_a_cell_open_its_report(opened):
    browser = opened(write({"m/<b>app": 5}), 390)

    browser.find_element("css selector", ".heat summary").click()
    browser.find_element("link text", "json").click()

    assert '"repo": "<b>app"' in browser.find_element("css selector", "body").text


# Outcomes by model, and what is explained
LEGENDS = """
scores -> nothing
    models: {"a": [5, 5], "gold": [10, 10]}
incomplete -> if-incomplete if-no-score
    models: {"a": [5, 5], "b": [6, "engine"]}
build -> if-build
    models: {"a": [5, 5], "b": [6, "build"]}
interval -> if-interval
    models: {"a": [9, 8, 9, 8, 9, 8]}
compared -> if-behind if-compared
    models: {"a": [5, 5, 5, 5, 5, 5], "b": [6, 6, 6, 6, 6, 6]}
reference -> if-unfit
    models: {"a": [5, 5], "gold": [10, 9]}
"""


@table(LEGENDS, models={})
def test_legend_explains_only_what_is_on_the_page(opened, row):
    words = ["--reference=gold"] * ("gold" in row.models)
    browser = opened(write_outcomes(**row.models), 1400, *words)

    found = browser.find_elements("css selector", ".legend [class^=if-]")
    shown = {part.get_attribute("class") for part in found if part.is_displayed()}
    assert " ".join(sorted(shown) or ["nothing"]) == row.then


def test_hostile_texts_run_and_load_nothing(opened):
    browser = opened(write_hostile())

    browser.execute_script("for (const cell of document.querySelectorAll('summary')) cell.click()")

    assert browser.title == "Leaderboard"  # an open alert() would raise an error here
    elements = "script, img, iframe, object, embed, link, svg, form, audio"
    assert browser.find_elements("css selector", elements) == []
    targets = [link.get_attribute("href") for link in browser.find_elements("css selector", "a")]
    assert [target for target in targets if "/reports/" not in target] == []
    assert browser.execute_script("return performance.getEntriesByType('resource')") == []


def test_heading_of_a_panel_has_one_font_on_a_phone(opened):
    """It may be two lines there, of which a style has the first one only."""
    browser = opened(write_outcomes(a=[5]), 390)

    weights = browser.execute_script("""
        const panel = document.querySelector("pre");
        panel.parentElement.open = true;
        return ["", "::first-line"].map(part => getComputedStyle(panel, part).fontWeight);
    """)

    assert weights == ["400", "400"]
