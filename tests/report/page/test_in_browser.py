"""Pages in a real headless browser: rendered without a complaint, nothing overflows, sorting works, WCAG 2.2 AA."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowbert import write_report
from flowbert.report.page.content import Page, Section

pytestmark = pytest.mark.alone

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS, SCHEMES = (400, 1400), ("light", "dark")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no page is rendered")
    path = os.environ.get("FLOWBERT_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser is installed ({', '.join(BROWSERS)}, or FLOWBERT_BROWSER): no page is rendered")
    with playwright.sync_playwright() as running:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
        opened = running.chromium.launch(executable_path=path, args=options)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    both = tmp_path_factory.mktemp("both") / "both.html"
    write_report([runs["first"], runs["second"]], both)
    return {"fit": runs["first"] / "report.html", "results": runs["results"].with_suffix(".html"), "both": both}


def opened(browser: Any, path: Path, width: int, scheme: str) -> Any:
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    page.wait_for_load_state("load")
    assert not complaints
    return page


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["fit", "results", "both"])
def test_nothing_overflows_and_everybody_can_read_it(
    browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(browser, pages[name], width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    found = axe.Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []
    for picture in page.query_selector_all("figure svg"):
        box = picture.bounding_box()
        assert box["width"] > 300
        assert box["height"] > 50
        label = picture.get_attribute("aria-labelledby")
        assert page.inner_text(f"#{label}").strip()
    page.context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_letters_in_pictures_stand_out_from_the_page(browser: Any, pages: dict[str, Path], scheme: str) -> None:
    page = opened(browser, pages["fit"], 1400, scheme)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    fills = page.evaluate("[...new Set([...document.querySelectorAll('svg text')].map(t => getComputedStyle(t).fill))]")
    assert fills
    for fill in fills:
        assert contrast(fill, ground) >= 4.5, (fill, ground)
    page.context.close()


def test_a_click_sorts_a_table_and_the_next_one_turns_it(browser: Any, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["results"], 1400, "light")
    column = "[...document.querySelector('table.sortable').tBodies[0].rows].map(r => Number(r.cells[1].dataset.value))"
    head = page.locator("table.sortable thead th").nth(1)
    before = page.evaluate(column)
    assert len(before) == 5
    head.locator("button").click()
    assert page.evaluate(column) == sorted(before, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").press("Enter")
    assert page.evaluate(column) == sorted(before)
    assert head.get_attribute("aria-sort") == "ascending"
    names = "[...document.querySelector('table.sortable').tBodies[0].rows].map(r => r.cells[0].textContent)"
    page.locator("table.sortable thead th").nth(0).locator("button").click()
    assert page.evaluate(names) == sorted(page.evaluate(names), reverse=True)
    page.context.close()


def test_the_command_is_copied_or_marked(browser: Any, tmp_path: Path) -> None:
    command = "python train.py fit --config 'a b.yaml'"
    content = Page("it", "", [], [Section("again", "How to run this again", code=[command])])
    page = opened(browser, content.write(tmp_path / "page.html", tmp_path / "figures"), 1400, "light")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("button.copy").click()
    page.wait_for_function("document.querySelector('button.copy').textContent === 'copied'")
    assert page.evaluate("navigator.clipboard.readText()") == command
    page.context.close()


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
