"""The pictures of an analysis: what they show, how they read as pieces of a page, with one method and with six."""

import csv
import json
import math
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flowbert.analysis import Analysis, ScoredPairs, SentenceTokens, analysis_of, gold_bands
from flowbert.analysis.found import WordSpace
from flowbert.analysis.word_space import word_buckets, word_points
from flowbert.report.analysis import analysis_to_text, write_analysis
from flowbert.report.panels import panels_of
from flowbert.report.panels.drawing import draw_points, file_names
from flowbert.report.style import COLOURS, IN_PAGE, INK, colours_of, figure_of_style

SIX = ("raw", "zca", "whitening", "flow", "whitening-64:shrinkage=0.1", "whitening-64+flow")
N = 450


def analysis(methods: tuple[str, ...] = SIX, task: str = "STSB dev") -> Analysis:
    generator, rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
    x = torch.randn(N, 200, generator=generator) * torch.logspace(0, -2, 200)
    vectors = {name: x * (1 + i) + (3 if name == "raw" else 0) for i, name in enumerate(methods)}
    lengths = rng.integers(3, 30, N).tolist()
    tokens = SentenceTokens(lengths, rng.uniform(1, 4, N).tolist(), "tokens")
    gold = rng.uniform(0, 5, 800)
    cosines = {name: np.clip(gold / 5 + rng.normal(0, 0.2, 800), -1, 1) for name in methods}
    buckets = word_buckets(x, torch.arange(N, 0, -1), bounds=(0, 50, 100, 200, N))
    return analysis_of(
        [f"sentence {i}" for i in range(N)],
        vectors,
        setting={"encoder": "mine", "layers": "last", "pooling": "mean", "corpus": "here"},
        fitted=9,
        tokens=tokens,
        words=WordSpace(buckets, 0.4, word_points(x, buckets), [0.1, 0.6, -0.2]),
        bits={"flow": -2.4, "Gaussian": -2.5, "diagonal Gaussian": -1.0},
        pairs={task: ScoredPairs(gold, cosines)},
    )


FOUND: dict[tuple[str, ...], Analysis] = {methods: analysis(methods) for methods in (SIX, ("raw",), ("flow",))}
NAMES = (
    *("gold-STSB-dev", "spectra", "norms", "map", "latent-norms", "latent-moments"),
    *("bits", "words", "word-norms", "anisotropy"),
)


@pytest.mark.parametrize("methods", FOUND, ids=len)
def test_each_is_a_small_element_of_a_page_in_its_colours(methods: tuple[str, ...]) -> None:
    seen: Counter[str] = Counter()
    for panel in panels_of(FOUND[methods]):
        element = panel.svg()
        assert "_" not in panel.name
        assert len(element) < 60_000, panel.name
        tree = ElementTree.fromstring(element.replace("xlink:", ""))
        ids = [node.attrib["id"] for node in tree.iter() if "id" in node.attrib]
        assert all(each.startswith(f"{panel.name}_") for each in ids)
        assert tree.attrib["style"].startswith("fill: var(--ink)")
        seen.update(ids)
        used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', element))
        assert {first or second for first, second in used} <= set(ids)
        assert not re.findall(r"(?:fill|stroke): ?(#\w+)", element), panel.name
        assert set(re.findall(r"var\(--([^)]+)\)", element)) <= set(IN_PAGE.values())
        texts = [text for text in tree.itertext() if text.strip()]
        assert not [text for text in texts if "\\" in text], panel.name  # a formula that nothing sets
        for label in _labels(panel.name):
            assert any(label in text for text in texts), (panel.name, label)
    assert max(seen.values()) == 1


def _labels(name: str) -> list[str]:
    return {
        "gold": ["cosine", "gold score"],
        "spectra": ["direction, by variance", "share of the variance"],
        "norms": ["norm / mean norm", "length (tokens)", "mean log10 count"],
        "map": ["PCA, ", "% of the variance", "length (tokens)"],
        "latent-norms": ["norm / root", "density"],
        "latent-moments": ["skewness", "excess kurtosis"],
        "bits": ["bits per dimension", "-2.400"],
        "words": ["first singular direction", "frequency rank"],
        "word-norms": ["frequency rank", "mean"],
        "anisotropy": ["hidden state", "mean cosine"],
    }["gold" if name.startswith("gold") else name]


def test_what_was_measured_has_its_panels_and_no_other() -> None:
    assert [panel.name for panel in panels_of(FOUND[SIX])] == list(NAMES)
    assert [panel.name for panel in panels_of(FOUND[("raw",)])] == [n for n in NAMES if not n.startswith("latent")]
    assert panels_of(Analysis({}, 0, 9)) == []
    nothing = {"STSB dev": {"raw": gold_bands(np.full(3, math.nan), np.array([0.0, 1.0, 2.0]))}}
    assert panels_of(Analysis({}, 0, 9, bands=nothing)) == []
    assert panels_of(analysis_of([str(i) for i in range(30)], {}, setting={}, fitted=0)) == []


def test_vectors_without_spread_leave_the_others_their_pictures() -> None:
    x = torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
    x[:, 3] = 7  # a dead dimension
    collapsed = torch.ones(60, 8)
    found = analysis_of([str(i) for i in range(60)], {"raw": x, "other": x, "flow": collapsed}, setting={}, fitted=0)
    again = Analysis.from_json(json.loads(json.dumps(found.as_json(), allow_nan=False)))
    pictures = {panel.name: ElementTree.fromstring(panel.svg()) for panel in panels_of(again)}
    assert {"spectra", "norms", "map"} <= set(pictures)


def test_files_hold_what_is_drawn(tmp_path: Path) -> None:
    found = FOUND[SIX]
    write_analysis(found, tmp_path)
    tables = {"sentences", "latents", "correlations", "neighbours"}
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"{name}.{kind}" for name in NAMES for kind in ("svg", "png", "csv")),
        *(f"{name}.csv" for name in tables),
    }
    bands = _read(tmp_path / "gold-STSB-dev.csv")
    assert len(bands) == 5 * len(SIX)
    for row in bands:
        assert int(row["pairs"]) == sum(int(value) for name, value in row.items() if name.startswith("cosine_"))
    assert len(_read(tmp_path / "spectra.csv")) == 200 * len(SIX)
    drawn = _read(tmp_path / "map.csv")
    assert Counter(row["method"] for row in drawn) == dict.fromkeys(SIX, 400)
    moved = {row["method"] for row in _read(tmp_path / "neighbours.csv") if row["not_among_raw"] == "True"}
    assert moved
    assert "raw" not in moved


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_medians_stand_where_they_are_and_captions_say_them() -> None:
    found = FOUND[SIX]
    panel = panels_of(found)[0]
    first, last = (found.bands["STSB dev"]["flow"][i].median for i in (0, -1))
    assert f"flow {first:.2f} to {last:.2f}" in panel.caption
    with figure_of_style(*panel.size) as figure:
        panel.draw(figure)
        flow = next(axes for axes in figure.axes if axes.get_title() == "flow")
        (medians,) = flow.collections
        marks = [segment[0][0] for segment in medians.get_segments()]  # type: ignore[attr-defined]
    assert marks == pytest.approx([band.median for band in found.bands["STSB dev"]["flow"]])


def test_a_method_has_one_colour_and_no_two_share_it() -> None:
    colours = colours_of(SIX)
    assert len(set(colours.values())) == len(SIX)
    own = {"raw": INK, "whitening": COLOURS[0], "flow": COLOURS[1]}
    assert {name: colours[name] for name in own} == own
    assert colours_of(["whitening-64", "zca"])["whitening-64"] == COLOURS[0]
    assert set(colours_of(map(str, range(9))).values()) <= set(COLOURS)
    for panel in panels_of(FOUND[("flow",)]):
        if panel.name in ("gold-STSB-dev", "spectra", "norms", "latent-norms", "latent-moments"):
            assert f"var(--{IN_PAGE[COLOURS[1]]})" in panel.svg(), panel.name


def test_points_become_dots_of_one_path_and_those_that_are_not_finite_are_left_out() -> None:
    with figure_of_style(2, 2) as figure:
        axes = figure.subplots()
        draw_points(axes, [(0.0, 1.0), (2.0, 3.0), (math.nan, 1.0)], COLOURS[0])
        draw_points(axes, [], COLOURS[0])
        (patch,) = axes.patches
        assert patch.get_path().vertices.shape == (4, 2)  # type: ignore[union-attr]
        low, high = axes.get_xlim()
        assert low <= 0 < 2 <= high < 3


def test_dots_are_seen_in_a_png_too(tmp_path: Path) -> None:
    from matplotlib.image import imread

    panel = next(panel for panel in panels_of(FOUND[("raw",)]) if panel.name == "words")
    panel.write(tmp_path)
    pixels = (imread(tmp_path / "words.png")[..., :3] * 255).round().astype(int).reshape(-1, 3)
    for colour in ("#0d0887", "#cc4778"):
        wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        assert (pixels == wanted).all(axis=1).sum() > 200, colour


def test_any_task_is_a_file_name() -> None:
    assert list(file_names(["a b/c:d.csv test"]).values()) == ["a-b-c-d.csv-test"]
    (panel,) = (p for p in panels_of(analysis(("raw",), "my pairs (2) test")) if p.name.startswith("gold"))
    assert panel.name == "gold-my-pairs-2-test"
    ElementTree.fromstring(panel.svg())


ALIKE = st.text("aAbé日 -_.:/2\0", max_size=8)


@given(st.lists(ALIKE | st.text(max_size=300)))
def test_any_names_are_file_names_of_their_own(texts: list[str]) -> None:
    names = file_names(texts)
    assert names.keys() == set(texts)
    assert len({name.lower() for name in names.values()}) == len(names)
    for name in names.values():
        assert re.fullmatch(r"[A-Za-z0-9.]+(-[A-Za-z0-9.]+)*", name)
        assert not name.endswith(".")
        assert len(name) < 70


@given(st.sets(ALIKE, min_size=2, max_size=4))
@example({"a b", "a-b"})
@example({"a", "a title"})
@settings(max_examples=5, deadline=None)
def test_tasks_of_any_names_have_pictures_of_their_own(tasks: set[str]) -> None:
    gold = np.array([0.0, 1.0, 3.0, 5.0])
    found = Analysis({}, 0, 9, bands={task: {"raw": gold_bands(gold / 5, gold)} for task in tasks})
    panels = panels_of(found)
    assert {panel.title.removeprefix("Cosines by gold score, ") for panel in panels} == tasks
    nodes = [node for panel in panels for node in ElementTree.fromstring(panel.svg().replace("xlink:", "")).iter()]
    ids = [node.attrib["id"] for node in nodes if "id" in node.attrib]
    ids += [each for panel in panels for each in (panel.name, f"{panel.name}_title")]
    assert len({each.lower() for each in ids}) == len(ids)


def test_the_terminal_says_what_moved_and_the_medians() -> None:
    text = analysis_to_text(FOUND[SIX])
    found = FOUND[SIX]
    sentence = next(iter(found.neighbours))
    assert f"nearest to: {sentence}" in text
    moved = sum(near.moved for near in found.neighbours[sentence]["flow"])
    assert (f"{moved} of 5 are not near under raw" in text) == (moved > 0)
    one = analysis_to_text(FOUND[("raw",)])
    assert "median cosine by gold score, STSB dev" in one
    assert f"{found.bands['STSB dev']['raw'][2].median:.3f}" in one
    assert "not near under raw" not in one
