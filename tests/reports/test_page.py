"""The page as a file."""

import html.parser
import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flowbert.errors import FlowbertWarning
from flowbert.experiments import compare
from flowbert.experiments.results import Results
from flowbert.reports import page as page_module
from flowbert.reports.page import report
from flowbert.reports.plots import CONTENT_PLOTS
from helpers import draw_nothing, refused
from reports.rows import PLOTS, row, sts_rows

VOID = {"meta", "img", "br"}
NASTY = "<script>alert('x')</script> & \"quoted\" 句子 " + "w" * 200


class Page(html.parser.HTMLParser):
    """Tags and texts of a page; fails where tags are not nested."""

    def __init__(self, path: Path):
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.texts: list[str] = []
        self.sources: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)
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
    return report(folder)


def test_the_page_of_a_run(written, folder):
    assert written == folder.resolve() / "report.html"
    page = Page(written)
    assert page.tags["img"] == len(PLOTS)
    assert page.tags["script"] == 0
    assert "use whitening" in page.texts
    assert "50.00\n[45.0, 55.0]" in page.texts
    for title in (
        "Results",
        "Training",
        "Embedding space",
        "Word space",
        "Nearest neighbours",
    ):
        assert page.texts.count(title) == 2
    # One file: pictures are inside, links stay on the page.
    assert all(
        source.startswith(("data:image/svg+xml;base64,", "#"))
        for source in page.sources
    )
    # They lie beside the page, too.
    files = {file.name for file in (written.parent / "figures").iterdir()}
    kinds = ("svg", "png", "csv")
    assert files == {f"{name}.{kind}" for name in PLOTS for kind in kinds}


def save(folder, rows, name="results.json", **record):
    Results(rows, record).save(folder / name)
    return folder / name


@pytest.mark.usefixtures("undrawn")
def test_pictures_of_an_earlier_page_are_removed(tmp_path):
    path = save(tmp_path, sts_rows("raw", "STSB"), "mine.json")
    assert report(str(path)).name == "mine.html"
    figures = tmp_path / "mine.figures"
    assert (figures / "plane.svg").is_file()
    save(tmp_path, [row("flow", "QNLI", "auc", "all", 0.7)], "mine.json")
    report(path)
    assert {file.stem for file in figures.glob("*.*")} == {"intervals"}


@pytest.mark.usefixtures("undrawn")
def test_files_of_the_user_stay(tmp_path):
    path = save(tmp_path, sts_rows("raw", "STSB"))
    page = tmp_path / "paper" / "report.html"
    own = page.with_name("figures") / "own.svg"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    for _ in range(2):
        report(path, page)
    assert own.read_text() == "mine"
    page.write_text("<html>my own page")
    refused(r"output: .*report\.html, which is not a page", report, path, page)
    assert page.read_text() == "<html>my own page"


@pytest.mark.parametrize("rows", [[], sts_rows("raw", "STSB", math.nan, reason="none")])
def test_pages_of_nothing(tmp_path, rows):
    page = Page(report(save(tmp_path, rows)))
    assert page.tags["img"] == 0


def test_a_part_that_fails_costs_a_warning(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("boom")

    section, frame, plot = CONTENT_PLOTS["plane"]
    failing = section, frame, replace(plot, draw=fail)
    monkeypatch.setitem(CONTENT_PLOTS, "plane", failing)
    monkeypatch.setattr(page_module, "notes", fail)
    with pytest.warns(FlowbertWarning, match="left out of the page") as caught:
        page = Page(report(save(tmp_path, sts_rows("raw", "STSB"))))
    parts = [str(each.message).split(":")[0] for each in caught]
    assert sorted(parts) == ["Results", "plane"]
    assert page.tags["img"] == 1


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
    assert page.tags["script"] == 0
    assert page.texts.count(NASTY) >= 8
    assert page.tags["img"] == 2


@pytest.mark.usefixtures("undrawn")
def test_a_warning_stands_beside_the_figures(tmp_path):
    options: dict[str, Any] = {"max_sentences": 300, "bootstrap": 0}
    with pytest.warns(FlowbertWarning, match="sentences for 127 directions are few"):
        results = compare(methods=["whitening"], **options)
    (warning,) = results.record["warnings"]
    rows = sts_rows("whitening", "STSB")
    names = [save(tmp_path, rows, f"{n}.json", warnings=[warning]) for n in "ab"]
    assert f"Warning: {warning}" in Page(report(names[0])).texts
    several = Page(report(names, tmp_path / "both.html"))
    assert f"Warning: b.json: {warning}" in several.texts


@pytest.mark.usefixtures("undrawn")
def test_several_runs(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    config = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(config.replace("0.05", "0.2"))
    page = Page(report([folder, other, folder], tmp_path / "both.html"))
    assert {"run", "finished", "other", "model.noise", "0.2"} <= set(page.texts)
    assert "encoder.path" not in page.texts
    assert (tmp_path / "both.figures" / "intervals.png").is_file()


@pytest.mark.parametrize(
    ("name", "output", "part"),
    [
        ("missing", None, "runs: received"),
        ("empty", None, "empty"),
        ("damaged.json", None, "damaged.json"),
        ("good.json", "page.pdf", "output: received"),
        (None, None, "runs: received none"),
    ],
)
def test_mistakes(tmp_path, name, output, part):
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged.json").write_text("{")
    save(tmp_path, [], "good.json")
    refused(part, report, [] if name is None else [tmp_path / name], output)
    assert not list(tmp_path.rglob("*.html"))


def test_a_browser_shows_it(written):
    sync_api = pytest.importorskip("playwright.sync_api")
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("needs chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox"]
        )
        errors = []
        for width in (1150, 400):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.on("console", lambda message: errors.append(message.text))
            page.goto(written.as_uri())
            images = "[...document.images].filter(each => each.naturalWidth > 0).length"
            assert page.evaluate(images) == len(PLOTS)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        browser.close()
    assert not errors
