"""Pictures of constructed frames."""

from xml.etree import ElementTree

import pandas as pd
import pytest

from extras.report.rows import PLOTS
from flowbert.extras.analysis.drawing import TITLE, draw, save_picture
from flowbert.extras.analysis.measure import measure_of
from flowbert.extras.report.plots import CONTENT_PLOTS

NASTY = [
    "<script>alert(1)</script>",
    "a & \"b\" 'c'",
    "$x_1$ \\frac",
    "句子 ✓",
    "w" * 300,
]


def drawn(name, content):
    """A plot by its name, and the frame that it draws."""
    if name in CONTENT_PLOTS:
        _, make, plot = CONTENT_PLOTS[name]
        return plot, make(content)
    return next(
        (measure_of(measure).plots[name], frame)
        for measure, frame in content.analysis.frames.items()
        if name in measure_of(measure).plots
    )


def axes_of(name, content):
    return list(draw(*drawn(name, content)).axes)


@pytest.mark.parametrize("name", PLOTS)
def test_every_facet_has_axes_with_something_on_them(name, content):
    plot, frame = drawn(name, content)
    facets = frame[plot.facets].nunique() if plot.facets else 1
    figure = draw(plot, frame)
    assert len(figure.axes) == facets
    assert all(ax.has_data() for ax in figure.axes)


def test_plane(content):
    (ax,) = axes_of("plane", content)
    lines = {str(line.get_gid()): line for line in ax.lines}
    # Coincident points are one, with all names.
    point = lines[f"{TITLE}raw, whitening, flow: alignment 0.50, uniformity -0.50"]
    assert point.get_xydata().tolist() == [[-0.5, 0.5]]
    assert [note.get_text() for note in ax.texts] == ["raw, whitening, flow"]


def test_constant_sentences_are_drawn(content):
    plot, frame = drawn("map", content)
    assert all(ax.has_data() for ax in draw(plot, frame.assign(length=5)).axes)


def test_pictures_are_files_with_their_data(content, tmp_path):
    plot, frame = drawn("spectra", content)
    picture = save_picture(plot, frame, tmp_path / "spectra")
    svg = (tmp_path / "spectra.svg").read_bytes()
    assert pd.read_csv(tmp_path / "spectra.csv").shape == frame.shape
    assert picture["width"] == 5.2
    assert picture["caption"].endswith("26.5% under flow.")
    save_picture(plot, frame, tmp_path / "again")
    assert (tmp_path / "again.svg").read_bytes() == svg


def test_names_of_users_stay_text(content, tmp_path):
    frame = pd.DataFrame({"method": NASTY, "direction": 1, "share": 0.5})
    plot, _ = drawn("spectra", content)
    save_picture(plot, frame, tmp_path / "a")
    picture = ElementTree.parse(tmp_path / "a.svg")
    written = [each.text or "" for each in picture.iter()]
    for name in NASTY[:-1]:
        assert any(text.startswith(name) for text in written)
    assert max(map(len, written)) < 120
