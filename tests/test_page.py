"""The leaderboard's page in a real browser: Chromium, headless, through selenium.

`tests/run` installs the browser. Without it these tests are skipped, or fail where CI requires
an engine.
"""

import shutil
from pathlib import Path

import pytest
from cases import table
from conftest import skip
from test_leaderboard import FOUR, board, lb, write, write_outcomes

widths = pytest.mark.parametrize("width", [390, 800, 1000, 1400])  # pixels: phone to desktop


@pytest.fixture(scope="module")
def browser():
    """Start Chromium."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        skip("needs chromium and chromedriver")
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
            expected = [left + end * (right - left) for end in ends]
            assert found == pytest.approx(expected, abs=0.006 * (right - left)), row.model


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


def cell_and_panel(browser):
    """Return the texts and boxes (left, top, right, bottom) of the last cell and its panel."""
    return browser.execute_script("""
        const cells = document.querySelectorAll(".heat summary");
        const cell = cells[cells.length - 1];
        const box = (element) => {
            const it = element.getBoundingClientRect();
            return [it.left, it.top, it.right, it.bottom];
        };
        return [cell.textContent + getComputedStyle(cell, "::after").content,
            box(cell), box(cell.nextElementSibling)];
    """)


@widths
@pytest.mark.parametrize("block", ["start", "end"])
def test_opened_cell_keeps_number_and_place_beside_its_panel_and_a_click_closes_it(
    opened, width, block
):
    browser = opened(write_outcomes(**FOUR), width)
    browser.execute_script("document.body.style.paddingBottom = '900px'")
    cell = browser.find_elements("css selector", ".heat summary")[-1]
    browser.execute_script("arguments[0].scrollIntoView({block: arguments[1]})", cell, block)
    before = cell_and_panel(browser)

    cell.click()

    after = cell_and_panel(browser)
    assert [before[0], after[0]] == ["20.0none", '20.0" ✕"']
    assert after[1] == before[1]
    (_, top, _, bottom), (left, panel_top, right, panel_bottom) = after[1:]
    assert panel_bottom <= top or panel_top >= bottom
    assert 0 <= left < right <= width
    assert 0 <= panel_top < panel_bottom <= 900
    cell.click()
    assert not browser.find_element("css selector", ".heat pre").is_displayed()


# The classes of the parts of the page in which something has the colour of warnings
RED = """
    const colour = getComputedStyle(document.querySelector(".mark")).color;
    const found = new Set();
    for (const element of document.querySelectorAll("body *")) {
        for (const part of ["", "::before", "::after"]) {
            const style = getComputedStyle(element, part);
            const {color, borderLeft, boxShadow, background} = style;
            const used = [color, borderLeft, boxShadow, background].join();
            if (element.checkVisibility() && used.includes(colour)) {
                found.add(element.closest("td, div, ul").className.trim());
            }
        }
    }
    return [...found].sort();
"""


@pytest.mark.parametrize("suspect", [None, "network"])
def test_only_what_a_person_must_check_is_red(opened, suspect):
    """A failed build, a missing score and a second try are facts."""
    suspicious = {"outcome": 5, "suspect_test": suspect}
    second_try = {"outcome": 5, "first": 4}

    browser = opened(write({"m/a": "build", "m/b": "engine", "m/c": second_try, "m/d": suspicious}))

    assert browser.execute_script(RED) == (["legend", "notes", "suspect"] if suspect else [])
    marks = browser.execute_script("""
        return [...document.querySelectorAll(".heat summary")].map(cell =>
            getComputedStyle(cell, "::before").content);
    """)
    assert marks == ["none", "none", "none", '"? "' if suspect else "none"]


@widths
@pytest.mark.parametrize("count", [2, 12])
def test_heat_map_fills_the_width_with_equal_columns_and_whole_words(opened, width, count):
    """Many models make it wider; a shadow at the right shows that it can be scrolled."""
    models = {f"laboratory/model-{at}" + "-instruct-2026" * (at % 2): [at] for at in range(count)}

    browser = opened(write_outcomes(**models), width)

    above, table, view, columns, broken = browser.execute_script("""
        const wide = document.querySelector(".wide");
        const names = [...document.querySelectorAll(".heat thead th + th")];
        const broken = names.flatMap(name => {
            const text = name.firstChild.firstChild;
            const range = document.createRange();
            return [...text.data.matchAll(/[^-\u200b]+/g)].filter(word => {
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                return range.getClientRects().length > 1;  // one on each line
            });
        });
        const tables = [...document.querySelectorAll("table")];
        return [...tables.map(table => table.offsetWidth), wide.clientWidth,
            names.map(name => name.offsetWidth), broken.map(word => word[0])];
    """)
    shadows = [browser.execute_async_script(SHADOW, place) for place in (0, 9999)]
    assert above == view
    assert table == view if count == 2 else table >= view
    assert max(columns) - min(columns) <= 1
    assert broken == []
    assert shadows == [str(int(table > view)), "0"]


SHADOW = """
    const [place, done] = arguments;
    const wide = document.querySelector(".wide");
    wide.scrollLeft = place;
    const opacity = () => done(getComputedStyle(wide, "::after").opacity);
    requestAnimationFrame(() => requestAnimationFrame(opacity));
"""


# Outcomes by model, and what is explained
LEGENDS = """
scores -> nothing
    models: {"a": [5, 5], "gold": [10, 10]}
samples -> if-samples
    models: {"a/1": [5, 5], "a/2": [6, 6]}
incomplete -> if-incomplete if-no-score
    models: {"a": [5, 5], "b": [6, "engine"]}
build -> if-build
    models: {"a": [5, 5], "b": [6, "build"]}
interval -> if-interval
    models: {"a": [9, 8, 9, 8, 9, 8]}
compared -> if-behind if-compared
    models: {"a": [5, 5, 5, 5, 5, 5], "b": [6, 6, 6, 6, 6, 6]}
all pairs -> if-behind if-compared if-pairs
    models: {"a": [5, 5, 5, 5, 5, 5], "b": [6, 6, 6, 6, 6, 6], "c": [7, 7, 7, 7, 7, 7]}
reference -> if-unfit
    models: {"a": [5, 5], "gold": [10, 9]}
"""


@table(LEGENDS, models={})
def test_legend_explains_only_what_is_on_the_page(opened, row):
    words = ["--reference=gold"] * ("gold" in row.models) + ["--samples"] * ("a/1" in row.models)
    browser = opened(write_outcomes(**row.models), 1400, *words)

    found = browser.find_elements("css selector", ".legend [class^=if-]")
    shown = {part.get_attribute("class") for part in found if part.is_displayed()}
    assert " ".join(sorted(shown) or ["nothing"]) == row.then
