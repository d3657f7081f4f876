"""The report page in a real browser."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import numpy as np
import pytest

import scorewise as sw
from browser_support import (
    assert_silent,
    emulate,
    eventually,
    is_within,
    load,
    press,
    resize,
    visit,
)
from cli_support import run, succeeded
from report_support import HOSTILE, full, hostile
from scorewise.cli import demo
from scorewise.report import write_report

LIGHT, DARK = "rgb(255, 255, 255)", "rgb(21, 25, 31)"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_report(full(), tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def hostile_path(tmp_path_factory):
    # even a class name that reads "#FFFFFF" must stay text
    return write_report(
        hostile(),
        tmp_path_factory.mktemp("page") / "hostile.html",
        title=HOSTILE[1],
        provenance={text: text for text in HOSTILE},
    )


@pytest.fixture
def opened(browser, path):
    open_page(browser, path)
    return browser


def open_page(browser, path: Path, width: int = 1100, scheme: str = "light") -> None:
    visit(browser, path, width, scheme)
    is_ready = "return 'ready' in document.documentElement.dataset"
    eventually(browser, True, lambda: browser.execute_script(is_ready))


def grounds(browser) -> list[str]:
    """Colours behind the page and behind the plots."""
    return browser.execute_script(
        "const of = (element, property) => getComputedStyle(element)[property];"
        "return [of(document.body, 'backgroundColor'),"
        " ...[...document.querySelectorAll('.plot .main-svg:first-of-type')]"
        ".map((element) => of(element, 'backgroundColor'))];"
    )


def test_the_page_of_the_demo(browser, tmp_path, monkeypatch):
    from selenium.webdriver.common.keys import Keys

    monkeypatch.setattr(demo, "N_RUNS", 2)
    monkeypatch.setattr(demo, "N_LABELS", 40)
    succeeded(run("demo", "--trees", "20", "--out", tmp_path))
    open_page(browser, tmp_path / "report.html")
    plots = browser.find_elements("css selector", ".plot")
    assert len(plots) == 6
    assert all(plot.find_elements("css selector", "svg.main-svg") for plot in plots)
    before = browser.find_element("id", "slider-text").text
    press(browser, "#coverage", Keys.HOME)
    assert browser.find_element("id", "slider-text").text != before
    assert browser.save_screenshot(str(tmp_path / "page.png"))
    assert (tmp_path / "page.png").stat().st_size > 30_000
    assert is_within(browser)
    resize(browser, 320)
    assert is_within(browser)
    assert_silent(browser)


def test_the_page_opens_without_messages_or_requests(opened, tmp_path):
    plots = opened.find_elements("css selector", ".plot")
    drawn = [plot.find_elements("css selector", "svg.main-svg") for plot in plots]
    assert len(plots) == 6
    assert all(drawn)
    assert (
        opened.execute_script("return document.querySelectorAll('.scatterlayer .trace').length")
        > 20
    )
    assert is_within(opened)
    assert_silent(opened)
    shot = tmp_path / "page.png"
    assert opened.save_screenshot(str(shot))
    content = shot.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert struct.unpack(">II", content[16:24]) == (1100, 900)
    assert len(content) > 30_000


def test_the_slider_moves_the_sentence_and_the_marks(opened):
    from selenium.webdriver.common.keys import Keys

    def state():
        return opened.execute_script(
            "const plot = document.querySelector('[data-figure=rejection]');"
            "return [document.getElementById('slider-text').textContent,"
            " document.getElementById('percent').textContent,"
            " document.getElementById('coverage').getAttribute('aria-valuetext'),"
            " plot.layout.shapes[0].x0, plot.data.at(-1).x[0]];"
        )

    before = state()
    press(opened, "#coverage", Keys.HOME)
    press(opened, "#coverage", Keys.ARROW_RIGHT, 39)
    text, percent, value, line, mark = state()
    assert text != before[0]
    assert (percent, value, line) == ("40 %", "40 % of the rows", 40)
    assert mark == pytest.approx(40, abs=1)
    assert "abstain on the 180 of 300 rows" in text
    press(opened, "#coverage", Keys.END)
    assert "accept all 300 rows" in state()[0]
    emulate(opened, "dark")  # drawn anew, where the reader has left it
    eventually(opened, [DARK] * 7, lambda: grounds(opened))
    assert state()[3] == 100
    assert_silent(opened)


def test_the_page_follows_the_theme(opened):
    assert grounds(opened) == [LIGHT] * 7
    emulate(opened, "dark")
    eventually(opened, [DARK] * 7, lambda: grounds(opened))
    button = opened.find_element("id", "theme")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    eventually(opened, [LIGHT] * 7, lambda: grounds(opened))
    button.click()
    eventually(opened, [DARK] * 7, lambda: grounds(opened))


def test_print_is_light(browser, path):
    open_page(browser, path, scheme="dark")
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert grounds(browser)[1:] == [LIGHT] * 6
    widths = browser.execute_script(
        "return [...document.querySelectorAll('.plot')].map((plot) => plot.layout.width)"
    )
    assert set(widths) == {680}
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert grounds(browser) == [DARK] * 7
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    content = base64.b64decode(printed["data"])
    assert content.startswith(b"%PDF")
    assert len(content) > 50_000
    assert_silent(browser)


def test_tables_are_sorted(opened):
    from selenium.webdriver.common.keys import Keys

    def column():
        return opened.execute_script(
            "return [...document.querySelectorAll('[data-sortable] tbody tr')]"
            ".map((row) => [row.cells[0].textContent, Number(row.cells[2].dataset.value)])"
        )

    press(opened, "[data-sortable] th:nth-child(3) button", Keys.ENTER)
    head = opened.find_element("css selector", "[data-sortable] th:nth-child(3)")
    assert head.get_attribute("aria-sort") == "ascending"
    rising = [loss for _, loss in column()]
    assert rising == sorted(rising)
    press(opened, "[data-sortable] th:nth-child(3) button", Keys.SPACE)
    assert head.get_attribute("aria-sort") == "descending"
    assert [loss for _, loss in column()] == rising[::-1]
    press(opened, "[data-sortable] th:nth-child(1) button", Keys.ENTER)
    assert head.get_attribute("aria-sort") is None
    assert [name for name, _ in column()] == ["doubtful", "healthy", "ill"]


def test_the_keyboard_reaches_everything(opened):
    from selenium.webdriver.common.keys import Keys

    press(opened, "body", Keys.TAB)
    skip = opened.switch_to.active_element
    assert skip.text == "Skip to the verdict"
    assert skip.rect["x"] >= 0
    skip.send_keys(Keys.ENTER)
    assert opened.switch_to.active_element.get_attribute("id") == "verdict"


def test_hostile_names_run_nothing(browser, hostile_path):
    from selenium.webdriver.common.keys import Keys

    open_page(browser, hostile_path)
    assert browser.execute_script("return window.pwned") is None
    assert browser.title != "pwned"
    assert "<script>" in browser.title
    injected = "img, iframe, script[src], [href^=javascript], [onerror], [onmouseover]"
    assert not browser.find_elements("css selector", injected)
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('.plot text')]"
        ".map((element) => element.textContent).join()"
    )
    assert "<script>" in drawn  # as text
    assert not browser.find_elements("css selector", ".plot text a")
    press(browser, "[data-sortable] th button", Keys.ENTER)
    press(browser, "#theme", Keys.ENTER)
    assert browser.execute_script("return window.pwned") is None
    assert is_within(browser)
    resize(browser, 360)
    eventually(browser, True, lambda: is_within(browser))
    assert_silent(browser)


def test_the_page_fits_a_phone(browser, tmp_path):
    long = "a-name-without-spaces-" * 5
    costs = sw.rules.cost_matrix(1 - np.eye(3), [long, f"{long} again", "refer"])
    evaluation = full(task_loss=costs)
    texts = [f"{long} {i}" for i in range(evaluation.n_rows)]
    path = write_report(evaluation, tmp_path / "long.html", title=long, inputs=texts)
    open_page(browser, path, width=390)
    assert is_within(browser)
    # every cell of a table can be scrolled to, within the table's own box
    cut = browser.execute_script(
        "return [...document.querySelectorAll('table')].filter((table) => {"
        " const box = table.closest('.scroll');"
        " return !box || (box.scrollWidth > box.clientWidth"
        " && getComputedStyle(box).overflowX !== 'auto')"
        " || [...table.querySelectorAll('th, td')].some((cell) =>"
        "  cell.getBoundingClientRect().right"
        "   > box.getBoundingClientRect().left + box.scrollWidth + 1"
        "  || cell.scrollWidth > cell.clientWidth + 1);"
        "}).map((table) => table.getAttribute('aria-label'))"
    )
    assert cut == []
    widest = browser.execute_script(
        "return Math.max(...[...document.querySelectorAll('.plot svg.main-svg')]"
        ".map((svg) => svg.getBoundingClientRect().right))"
    )
    assert widest <= 390
    assert_silent(browser)


def test_all_but_the_figures_is_there_without_script(browser, path):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        load(browser, path.as_uri())
        text = browser.find_element("tag name", "main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    for expected in (
        "If the model passes on",
        "need JavaScript",
        "Abstaining at random",
        "The most uncertain rows",
    ):
        assert expected in text
    assert "Dark theme" not in text
