"""Pages: one file each, made of the run's files, true to its figures, safe whatever a sentence says."""

import csv
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from flowbert import write_report
from flowbert.errors import UserError
from flowbert.evaluation.results import load_results, write_results
from flowbert.io.run_folder import RunFolder
from flowbert.report.page.content import Page, PageCell, PageTable, Section
from flowbert.report.page.of_run import run_page
from flowbert.report.page.of_runs import side_by_side
from flowbert.report.page.record import RunRecord
from flowbert.report.style import IN_PAGE


class Reader(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def test_a_fit_has_its_page_with_every_figure_of_its_results(runs: dict[str, Path]) -> None:
    run = RunFolder(runs["first"])
    page = Reader(run.report)
    rows, record = load_results(run.results)
    for row in rows:
        if row.aggregation == "wmean":
            assert f"{100 * row.value:.2f}" in page.text
            assert f"[{100 * row.low:.1f}, {100 * row.high:.1f}]" in page.text
    assert page.text.index(record["verdicts"][0].split(":")[0]) < page.text.index("Figures")
    for section in ("Training", "What the maps do to the space", "Nearest neighbours", "How to run this again"):
        assert section in page.text
    assert run.report.stat().st_size < 1_000_000


def test_pictures_lie_beside_the_page_with_their_data(runs: dict[str, Path]) -> None:
    for path, folder in ((runs["first"], runs["first"] / "figures"), (runs["results"], None)):
        folder = folder or path.with_suffix(".figures")
        page = Reader(path / "report.html" if path.is_dir() else path.with_suffix(".html"))
        names = {file.stem for file in folder.iterdir()}
        shown = {value for name, value in page.attributes if name == "id"}
        assert names <= shown
        assert {"figures", "plane"} <= names
        for name in names:
            assert (folder / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")
            assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            with (folder / f"{name}.csv").open(encoding="utf-8") as file:
                head, *lines = list(csv.reader(file))
            assert lines
            assert {len(line) for line in lines} == {len(head)}


@pytest.mark.parametrize("name", ["first", "results"])
def test_a_page_needs_nothing_beside_it(runs: dict[str, Path], name: str) -> None:
    path = runs[name] / "report.html" if name == "first" else runs[name].with_suffix(".html")
    page = Reader(path)
    links = [value for attribute, value in page.attributes if attribute in ("src", "href", "xlink:href", "srcset")]
    assert all(link.startswith("#") for link in links)
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"@import|url\((?!#)|fetch\(|XMLHttpRequest", text)
    ids = [value for attribute, value in page.attributes if attribute == "id"]
    assert len(set(ids)) == len(ids)
    for pointer in re.findall(r"url\(#([^)]+)\)", text) + [link.removeprefix("#") for link in links]:
        assert pointer in ids


def test_pictures_take_the_colours_of_the_page(runs: dict[str, Path]) -> None:
    text = (runs["first"] / "report.html").read_text(encoding="utf-8")
    pictures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert pictures
    for picture in pictures:
        assert not set(re.findall(r"#[0-9a-f]{6}\b", picture))
    style = text[: text.index("</style>")]
    for variable in set(IN_PAGE.values()):
        assert style.count(f"--{variable}:") == 2  # light and dark


def test_colours_of_the_page_are_legible_in_both_forms() -> None:
    """WCAG 2.2 AA: 4.5 for text, 3 for what is drawn."""
    style = (Path(run_page.__code__.co_filename).parent / "page.css").read_text(encoding="utf-8")
    light, dark = style.split("prefers-color-scheme: dark", maxsplit=1)
    for part in (light, dark):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part))
        for name, colour in colours.items():
            if name in ("paper", "panel", "rule"):
                continue
            for ground in ("paper", "panel"):
                needed = 4.5 if name in ("ink", "soft", "mark") else 3.0
                assert contrast(colour, colours[ground]) >= needed, (name, colour, ground)


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_of_a_user_stays_text(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>\"'&"
    table = PageTable(bad, (bad, bad), [[PageCell(bad), PageCell(bad, bad, bad)]], [bad])
    page = Page(bad, bad, [bad], [Section("it", bad, [bad], [bad], [table], folded=[table])])
    read = Reader(page.write(tmp_path / "page.html", tmp_path / "figures"))
    assert read.tags.count("script") == 1  # ours
    assert read.text.count("alert(1)") >= 12


def test_the_page_can_be_made_anew_from_the_files_alone(runs: dict[str, Path]) -> None:
    page = runs["results"].with_suffix(".html")
    before = page.read_bytes()
    page.unlink()
    assert write_report(runs["results"]) == page
    assert page.read_bytes() == before


def test_a_run_without_figures_says_how_to_go_on(runs: dict[str, Path], tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.checkpoints.mkdir(parents=True)
    (run.checkpoints / "last.ckpt").touch()
    run.config.write_text("method: flow\nseed: 0\n", encoding="utf-8")
    run.metrics.write_bytes((runs["first"] / "metrics.csv").read_bytes())
    page = Reader(write_report(run.path))
    assert "This run did not finish" in page.text
    assert f"--run_dir {run.path} --ckpt_path {run.checkpoints / 'last.ckpt'}" in page.text
    assert "Spearman along the training" in page.text


def test_several_runs_on_one_page(runs: dict[str, Path], tmp_path: Path) -> None:
    output = tmp_path / "both.html"
    page = Reader(write_report([runs["first"], runs["second"]], output))
    assert "What differs" in page.text
    assert re.search(r"seed 0 1\b", page.text)
    assert "flow, first" in page.text
    assert "flow, second" in page.text
    assert "whitening, first" not in page.text  # the same in both
    assert (tmp_path / "both.figures" / "figures.csv").is_file()


def test_equal_rows_of_several_runs_stand_once_and_none_is_lost(runs: dict[str, Path]) -> None:
    first, second = (load_results(runs[name] / "results.json")[0] for name in ("first", "second"))
    shown = side_by_side({"a": first, "b": second})
    methods = {row.method for row in shown}
    assert methods == {"raw", "whitening", "flow, a", "flow, b"}
    assert {row.value for row in shown} == {row.value for row in [*first, *second]}
    assert len(side_by_side({"a": first, "b": first})) == len(first)


def test_mistakes_are_one_line(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder; allowed: the run folder of a finished `fit`, or a hub name"):
        write_report(tmp_path / "nothing")
    with pytest.raises(UserError, match=r"neither results\.json nor metrics\.csv"):
        write_report(tmp_path)
    with pytest.raises(UserError, match=r"output: received x\.html; allowed with one run here: nothing"):
        write_report(runs["first"], "x.html")
    with pytest.raises(UserError, match=r"output: received x\.pdf; allowed: a name that ends in \.html"):
        write_report([runs["first"], runs["second"]], "x.pdf")
    with pytest.raises(UserError, match="twice"):
        write_report([runs["first"], runs["first"]], tmp_path / "x.html")
    with pytest.raises(UserError, match="runs: received none"):
        write_report([])
    damaged = RunFolder(tmp_path / "damaged")
    damaged.path.mkdir()
    write_results(damaged.results, *load_results(runs["first"] / "results.json"))
    for text in ("{", "[]", '{"setting": 3}', '{"setting": {}, "fitted": 0, "measured": 0, "bands": 3}'):
        damaged.analysis.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=r"analysis\.json: (.*damaged|holds list)"):
            write_report(damaged.path)


def test_a_record_without_an_analysis_has_a_page(runs: dict[str, Path], tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    write_results(run.results, *load_results(runs["first"] / "results.json"))
    titles = [section.title for section in run_page(RunRecord.read(run.path)).sections if not section.empty]
    assert titles == ["Figures", "How to run this again"]
