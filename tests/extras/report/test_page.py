"""The page as a file."""

import html.parser
import math
import shutil
from collections import Counter
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from extras.report.rows import PICTURES, TABLES, row, sts_rows
from flowbert.experiments.results import Results
from flowbert.extras.report.page import report
from helpers import draw_nothing, refused

VOID = {"meta", "br", "input"}
NASTY = "<script>alert('x')</script> & \"quoted\" 句子 " + "w" * 200


class Page(html.parser.HTMLParser):
    """Tags and texts of a page; fails where tags are not nested."""

    def __init__(self, path: Path):
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.texts: list[str] = []
        self.sources: list[str] = []
        self.pictures: list[str] = []
        self.feed(path.read_text())
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
        self.pictures += (
            [dict(attrs)["id"]] if tag == "figure" and "id" in dict(attrs) else []
        )
        self.sources += [
            value or "" for name, value in attrs if name in ("src", "href")
        ]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def undrawn(monkeypatch):
    """The page of ``written`` alone has pictures."""
    draw_nothing(monkeypatch)


@pytest.fixture(scope="module")
def written(folder):
    """A page with its pictures; their .png files are empty."""
    save = Figure.savefig

    def save_svg(figure, file, **options):
        file.touch() if isinstance(file, Path) else save(figure, file, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save_svg)
        return report(folder)


def test_the_page_of_a_run(written, folder):
    assert written == folder.resolve() / "report.html"
    page = Page(written)
    assert sorted(page.pictures) == sorted(PICTURES)
    assert page.tags["script"] == 1
    assert page.texts.count("whitening gains 9.5 points on bert") == 2
    gain = "+9.5 [8.0, 11.0] over raw; 2 methods compared"
    assert {"tied: flow", "40.5 → 50.0", gain} <= set(page.texts)
    assert "50.0 <small>[45.0, 55.0]</small>" in written.read_text()
    for title in (
        "Results",
        "Training",
        "Embedding space",
        "Word space",
        "Nearest neighbours",
    ):
        assert page.texts.count(title) == 2
    # One file: pictures are inside, links stay on the page.
    assert all(source.startswith("#") for source in page.sources)
    # They lie beside the page, too.
    files = {file.name for file in (written.parent / "figures").iterdir()}
    pictures = {f"{name}.{kind}" for name in PICTURES for kind in ("svg", "png")}
    assert files == pictures | {f"{name}.csv" for name in PICTURES + TABLES}


def save(folder, rows, name="results.json", **record):
    Results(rows, record).save(folder / name)
    return folder / name


@pytest.mark.parametrize("rows", [[], sts_rows("raw", "STSB", math.nan, reason="none")])
def test_pages_of_nothing(tmp_path, rows):
    page = Page(report(save(tmp_path, rows)))
    assert not page.pictures


@pytest.mark.usefixtures("undrawn")
def test_everything_is_escaped(tmp_path):
    settings = {"encoder": NASTY, "corpus": NASTY}
    rows = [
        *sts_rows("raw", NASTY, **settings),
        *sts_rows(NASTY, "b", **settings, reason=""),
        row(NASTY, "c", "auc", "all", math.nan, reason=NASTY),
    ]
    differences = {
        NASTY: {"methods": [NASTY, "b"], "cells": [[NASTY, ""], ["", NASTY]]}
    }
    path = save(tmp_path, rows, verdicts=[NASTY], differences=differences)
    page = Page(report(path))
    assert page.tags["script"] == 1
    assert page.texts.count(NASTY) >= 6
    assert len(page.pictures) == 1


@pytest.mark.usefixtures("undrawn")
def test_its_first_line_says_what_the_scores_are(tmp_path):
    fitted = [sts_rows("zca", "STSB", corpus="targets.txt", seed=n) for n in (1, 2)]
    rows = [*fitted[0], *fitted[1], row("raw", "quiz", "auc", "all", 0.5)]
    line, *_ = [x for x in Page(report(save(tmp_path, rows))).texts if "pairs" in x]
    assert " 100 · STSB, test pairs · fitted on targets.txt · raw" in line
    mean = row("zca", "average", "spearman", "wmean", -0.5, std=0.1)
    texts = Page(report(save(tmp_path, [*rows, *sts_rows("zca", "SICKR"), mean]))).texts
    assert "\N{MINUS SIGN}50.0 ±10.00 " in texts
    line, *_ = [x for x in texts if "pairs" in x]
    assert "mean of STSB, SICKR, test pairs, mean of 2 seeds" in line
    assert "targets.txt, the sentences of each task" in line


@pytest.mark.usefixtures("undrawn")
def test_a_warning_stands_beside_the_figures(tmp_path):
    rows = sts_rows("whitening", "STSB")
    names = [save(tmp_path, rows, f"{n}.json", warnings=["few"]) for n in "ab"]
    assert "few" in Page(report(names[0])).texts
    several = Page(report(names, tmp_path / "both.html"))
    assert "b.json: few" in several.texts


@pytest.mark.usefixtures("undrawn")
def test_several_runs(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    config = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(config.replace("0.05", "0.2"))
    page = Page(report([folder, other, folder], tmp_path / "both.html"))
    assert {"finished", "other", "model.noise", "0.2"} <= set(page.texts)
    assert "encoder.path" not in page.texts
    assert (tmp_path / "both.figures" / "plane.png").is_file()


@pytest.mark.parametrize(
    ("name", "output", "part"),
    [
        ("missing", None, "runs: received"),
        ("empty", None, "empty"),
        ("damaged.json", None, "damaged.json"),
        ("good.json", "page.pdf", "output: received"),
    ],
)
def test_mistakes(tmp_path, name, output, part):
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged.json").write_text("{")
    save(tmp_path, [], "good.json")
    refused(part, report, [tmp_path / name], output)
    refused("runs: received none", report, [])
    assert not list(tmp_path.rglob("*.html"))


@pytest.fixture
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("needs chromium")
    with sync_api.sync_playwright() as playwright:
        arguments = {"executable_path": executable, "args": ["--no-sandbox"]}
        browser = playwright.chromium.launch(**arguments)
        yield browser
        browser.close()


def methods(page):
    """Methods of the rows of the table of results."""
    return page.locator("#results tbody .dot").all_text_contents()


def test_a_browser_shows_sorts_and_copies(browser, written):
    page = browser.new_page(viewport={"width": 1150, "height": 900})
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(written.as_uri())
    lead = page.locator("#results thead th[aria-sort]")
    assert lead.text_content() == "STSB"
    assert methods(page) == ["raw", "whitening", "flow"]
    page.get_by_role("button", name="method", exact=True).first.click()
    assert methods(page) == ["whitening", "raw", "flow"]
    page.get_by_role("button", name="over raw").click()
    assert methods(page) == ["whitening", "flow", "raw"]
    assert lead.text_content() == "over raw"
    page.evaluate(
        "document.execCommand = () => { copied = document.activeElement.value; }"
    )
    copied = {}
    for name in ("CSV", "LaTeX", "Markdown"):
        page.get_by_role("button", name=f"Copy {name}").click()
        copied[name] = page.evaluate("copied").splitlines()
    head, first, *_ = copied["CSV"]
    assert head.startswith("method,,STSB,over raw")
    interval = "50.0 [45.0, 55.0]"
    assert first.startswith(f'whitening,use,"{interval}","+9.5 [8.0, 11.0]"')
    assert copied["LaTeX"][2].startswith(f"whitening & use & {interval} & +9.5")
    assert copied["Markdown"][2].startswith(f"| whitening | use | {interval} | +9.5")
    for width in (1150, 400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Paper and phones show intervals without a pointer, and heads of tables.
    for media in ("screen", "print"):
        page.emulate_media(media=media)
        assert page.get_by_text("[45.0, 55.0]").first.is_visible()
        assert page.locator("#results thead button").first.is_visible()
    assert not errors
    page = browser.new_page(java_script_enabled=False)
    page.goto(written.as_uri())
    assert page.locator("#results thead").inner_text().startswith("method")
    assert page.locator("#neighbours tr.group").count() == 4
