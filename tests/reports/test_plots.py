"""Pictures of constructed frames."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from flowbert.analysis import Analysis
from flowbert.analysis.frames import COLUMNS
from flowbert.reports.drawing import draw, method_colours, save_picture, short
from flowbert.reports.plots import PLOTS
from flowbert.reports.runs import Run

NASTY = [
    "<script>alert(1)</script>",
    "a & \"b\" 'c'",
    "$x_1$ \\frac",
    "句子 ✓",
    "w" * 300,
]


def axes_of(name: str, run: Run) -> list[Any]:
    figure = draw(PLOTS[name], PLOTS[name].frame(run))
    return list(figure.axes)


def texts(labels: list[Any]) -> list[str]:
    return [label.get_text() for label in labels]


@pytest.mark.parametrize("name", PLOTS)
def test_every_facet_has_axes_with_something_on_them(name: str, run: Run) -> None:
    plot = PLOTS[name]
    frame = plot.frame(run)
    facets = len(frame[plot.facets.split()].drop_duplicates()) if plot.facets else 1
    figure = draw(plot, frame)
    assert len(figure.axes) == facets
    assert all(ax.has_data() for ax in figure.axes)
    assert figure.get_figwidth() in (5.2, 10.4)


def test_intervals(run: Run) -> None:
    first, second = axes_of("intervals", run)
    assert texts(first.get_yticklabels()) == ["raw", "whitening", "flow"]
    assert (first.get_title(), second.get_title()) == ("STSB", "QNLI auc")
    assert first.collections[0].get_paths()[0].vertices[:, 0] == pytest.approx([45, 55])


def test_plane(run: Run) -> None:
    (ax,) = axes_of("plane", run)
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["raw"].get_xydata().tolist() == [[-0.5, 0.5]]
    assert lines["flow, training"].get_xydata().tolist() == [[-1, 0.4], [-1, 0.5]]
    assert lines["flow"].get_color() == lines["flow, training"].get_color()


def test_what_does_not_train_is_dashed(run: Run) -> None:
    (ax,) = axes_of("curve", run)
    styles = {line.get_label(): line.get_linestyle() for line in ax.lines}
    assert styles == {"raw": "--", "flow": "-"}
    assert ax.lines[0].get_ydata().tolist() == [40, 50]


def test_medians_of_cosines(run: Run) -> None:
    ax = axes_of("cosines", run)[0]
    bands = run.analysis.bands
    expected = bands[bands["method"] == "raw"]["median"]
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx(list(expected))


def test_histograms_of_latents_have_the_area_of_the_density(run: Run) -> None:
    for ax in axes_of("latent-norms", run):
        heights = [bar.get_height() * bar.get_width() for bar in ax.patches]
        assert sum(heights) == pytest.approx(1)
        x, y = ax.lines[0].get_data()
        # Four standard deviations on either side hold all but 1e-4; the rule is of 80 points.
        assert np.trapezoid(y, x) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("missing", COLUMNS)
def test_a_missing_frame_costs_its_own_pictures(missing: str, run: Run) -> None:
    others = {
        name: frame for name, frame in run.analysis.frames.items() if name != missing
    }
    less = replace(run, analysis=Analysis(run.analysis.setting, **others))
    drawn = {name for name, plot in PLOTS.items() if not plot.frame(run).empty}
    left = {name for name, plot in PLOTS.items() if not plot.frame(less).empty}
    assert drawn == set(PLOTS)
    assert len(left) >= len(drawn) - 3


@pytest.mark.parametrize("constant", ["length", "frequency", "norm"])
def test_constant_sentences_are_drawn(constant: str, run: Run) -> None:
    frame = PLOTS["map"].frame(run).assign(**{constant: 5})
    for name in ("map", "norms-length", "norms-frequency"):
        draw(PLOTS[name], frame)


def test_pictures_are_files_with_their_data(run: Run, tmp_path: Path) -> None:
    plot = PLOTS["spectra"]
    picture = save_picture(plot, run, tmp_path / "spectra")
    assert picture is not None
    svg, width, caption = picture
    assert (tmp_path / "spectra.svg").read_bytes() == svg
    assert (tmp_path / "spectra.png").read_bytes().startswith(b"\x89PNG")
    assert pd.read_csv(tmp_path / "spectra.csv").shape == plot.frame(run).shape
    assert width == 5.2
    assert caption == plot.caption
    assert save_picture(plot, run, tmp_path / "again") == picture
    assert save_picture(plot, Run("", run.frame[:0]), tmp_path / "none") is None
    assert not list(tmp_path.glob("none*"))


def caption(name: str, run: Run) -> str:
    how = PLOTS[name].caption
    return how if isinstance(how, str) else how(PLOTS[name].frame(run))


def test_captions_speak_of_what_is_drawn(run: Run) -> None:
    assert "A path is a training" in caption("plane", run)
    assert "path" not in caption("plane", replace(run, metrics=run.metrics[:0]))
    assert "Dashed" in caption("curve", run)
    alone = run.metrics.drop(columns=[name for name in run.metrics if "raw/" in name])
    assert "Dashed" not in caption("curve", replace(run, metrics=alone))
    assert "may rise" not in caption("training", run)
    rising = run.metrics.assign(**{"held_out/bits_per_dim": [-1.4, -1.3, -1.2, -1.1]})
    assert "may rise" in caption("training", replace(run, metrics=rising))


def test_equal_lengths_are_one_number(run: Run) -> None:
    frame = PLOTS["map"].frame(run).assign(length=11)
    for ax in draw(PLOTS["map"], frame).axes:
        (legend,) = ax.get_legend_handles_labels()[1]
        assert legend == f"11 {frame['unit'].iloc[0]}"


def test_names_of_users_stay_text(run: Run, tmp_path: Path) -> None:
    frames = {"method": NASTY, "direction": 1, "share": 0.5, "eigenvalue": 1.0}
    analysis = Analysis({}, spectra=pd.DataFrame(frames))
    picture = save_picture(
        PLOTS["spectra"], replace(run, analysis=analysis), tmp_path / "a"
    )
    assert picture is not None
    drawn = [each.text or "" for each in ElementTree.fromstring(picture.svg).iter()]
    for name in NASTY[:-1]:
        assert any(text.startswith(name) for text in drawn)
    assert max(map(len, drawn)) < 120


def test_colours_are_of_families() -> None:
    variant = "whitening-128:shrinkage=0.1 (0, mean)"
    methods = ["raw", "whitening", variant, "whitening-64+flow", "new"]
    colours = method_colours(methods)
    assert len(set(colours.values())) == len(methods)
    assert colours["whitening-64+flow"] == method_colours(["flow"])["flow"]
    assert colours["raw"] == method_colours(["raw*", "raw"])["raw*"]
    assert all(to_hex(colour) == colour for colour in colours.values())


def test_short_keeps_beginning_and_end() -> None:
    assert short("a\n b") == "a b"
    cut = short("begin" + "x" * 99 + "end", 20)
    assert len(cut) == 20
    assert cut.startswith("begin")
    assert cut.endswith("end")
