"""Pictures of constructed frames."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from flowbert.analysis import MEASURES, Analysis
from flowbert.analysis.drawing import draw, method_colours, save_picture
from flowbert.analysis.measure import measure_of
from flowbert.reports.page import plots_of
from flowbert.reports.plots import CONTENT_PLOTS

PLOTS = [
    *CONTENT_PLOTS,
    *(plot for name in MEASURES for plot in measure_of(name).plots),
]
NASTY = [
    "<script>alert(1)</script>",
    "a & \"b\" 'c'",
    "$x_1$ \\frac",
    "句子 ✓",
    "w" * 300,
]


def drawn(name, content):
    """A plot by its name, and the frame that it draws."""
    for each, _, plot, frame in plots_of(content):
        if each == name:
            return plot, frame if plot.prepare is None else plot.prepare(frame)
    raise KeyError(name)


def axes_of(name, content):
    return list(draw(*drawn(name, content)).axes)


@pytest.mark.parametrize("name", PLOTS)
def test_every_facet_has_axes_with_something_on_them(name, content):
    plot, frame = drawn(name, content)
    facets = len(frame[plot.facets.split()].drop_duplicates()) if plot.facets else 1
    figure = draw(plot, frame)
    assert len(figure.axes) == facets
    assert all(ax.has_data() for ax in figure.axes)
    assert figure.get_figwidth() in (5.2, 10.4)


def test_plane(content):
    (ax,) = axes_of("plane", content)
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["raw"].get_xydata().tolist() == [[-0.5, 0.5]]
    assert lines["flow, training"].get_xydata().tolist() == [[-1, 0.4], [-1, 0.5]]
    assert lines["flow"].get_color() == lines["flow, training"].get_color()


def test_histograms_of_latents_have_the_area_of_the_density(content):
    for ax in axes_of("latent-norms", content):
        heights = [bar.get_height() * bar.get_width() for bar in ax.patches]
        assert sum(heights) == pytest.approx(1)
        x, y = ax.lines[0].get_data()
        # Four standard deviations on either side hold all but 1e-4; the rule is of 80 points.
        assert np.trapezoid(y, x) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("missing", ["bits", "spectra", "band_cosines"])
def test_a_missing_frame_costs_its_own_plots(missing, content):
    others = {
        name: frame
        for name, frame in content.analysis.frames.items()
        if name != missing
    }
    less = replace(content, analysis=Analysis(content.analysis.setting, others))
    names = [name for name, *_, frame in plots_of(content) if not frame.empty]
    left = [name for name, *_, frame in plots_of(less) if not frame.empty]
    assert names == PLOTS
    assert left == [name for name in names if name not in measure_of(missing).plots]


def test_constant_sentences_are_drawn(content):
    frame = drawn("map", content)[1].assign(length=5, frequency=5, norm=5)
    for name in ("map", "norms-length", "norms-frequency"):
        assert all(ax.has_data() for ax in draw(drawn(name, content)[0], frame).axes)


def test_pictures_are_files_with_their_data(content, tmp_path):
    plot, frame = drawn("spectra", content)
    picture = save_picture(plot, frame, tmp_path / "spectra")
    svg, width, caption = picture
    assert (tmp_path / "spectra.svg").read_bytes() == svg
    assert (tmp_path / "spectra.png").read_bytes().startswith(b"\x89PNG")
    assert pd.read_csv(tmp_path / "spectra.csv").shape == frame.shape
    assert width == 5.2
    assert caption == plot.caption
    assert save_picture(plot, frame, tmp_path / "again") == picture


def caption(name, content):
    plot, frame = drawn(name, content)
    return plot.caption if isinstance(plot.caption, str) else plot.caption(frame)


def test_captions_speak_of_what_is_drawn(content):
    assert "A path is a training" in caption("plane", content)
    assert "path" not in caption("plane", replace(content, metrics=content.metrics[:0]))
    assert "Dashed" in caption("curve", content)
    alone = content.metrics.drop(
        columns=[name for name in content.metrics if "raw/" in name]
    )
    assert "Dashed" not in caption("curve", replace(content, metrics=alone))
    assert "may rise" not in caption("training", content)
    rising = content.metrics.assign(
        **{"held_out/bits_per_dim": [-1.4, -1.3, -1.2, -1.1]}
    )
    assert "may rise" in caption("training", replace(content, metrics=rising))


def test_names_of_users_stay_text(content, tmp_path):
    frame = pd.DataFrame({"method": NASTY, "direction": 1, "share": 0.5})
    plot, _ = drawn("spectra", content)
    picture = save_picture(plot, frame, tmp_path / "a")
    written = [each.text or "" for each in ElementTree.fromstring(picture.svg).iter()]
    for name in NASTY[:-1]:
        assert any(text.startswith(name) for text in written)
    assert max(map(len, written)) < 120


def test_colours_are_of_families():
    variant = "whitening-128:shrinkage=0.1 (0, mean)"
    methods = ["raw", "whitening", variant, "whitening-64+flow", "new"]
    colours = method_colours(methods)
    assert len(set(colours.values())) == len(methods)
    assert colours["whitening-64+flow"] == method_colours(["flow"])["flow"]
    assert colours["raw"] == method_colours(["raw*", "raw"])["raw*"]
    assert all(to_hex(colour) == colour for colour in colours.values())
