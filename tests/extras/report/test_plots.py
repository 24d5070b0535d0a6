"""Pictures of constructed frames."""

from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from matplotlib.patches import StepPatch

from extras.report.rows import PICTURES
from flowbert.experiments.summary import Summary
from flowbert.extras.analysis import VIEWS
from flowbert.extras.analysis.drawing import house_style, save_picture
from flowbert.extras.report.page import frames_of

NASTY = [
    "<script>alert(1)</script>",
    "a & \"b\" 'c'",
    "$x_1$ \\frac",
    "句子 ✓",
    "w" * 300,
]


@pytest.fixture(scope="module")
def frames(run):
    return frames_of(run, Summary(run.results, run.about), pd.DataFrame())


@pytest.mark.parametrize("name", PICTURES)
def test_something_is_drawn_on_all_axes(name, frames):
    figure = VIEWS[name].show(frames[name])
    assert figure.axes
    assert all(ax.has_data() for ax in figure.axes)


def test_a_page_of_results_draws_raw_and_the_method_to_use(frames):
    assert frames["band_cosines"]["method"].unique().tolist() == ["raw", "whitening"]
    titles = [
        ax.get_title() for ax in VIEWS["band_cosines"].show(frames["band_cosines"]).axes
    ]
    assert titles == ["raw, STSB test", "whitening, STSB test"]
    # A mean cosine of the sample would stand beside another one, of the tasks.
    assert "mean_cosine" not in frames["isotropy"]


def test_histograms_are_as_high_in_each_method(frames):
    figure = VIEWS["band_cosines"].show(frames["band_cosines"])
    for ax in figure.axes:
        steps: list[Any] = [
            patch.get_data() for patch in ax.patches if isinstance(patch, StepPatch)
        ]
        places = [each.values - each.baseline for each in steps]
        assert max(map(max, places)) == pytest.approx(0.85)


def test_each_method_has_a_marker_on_the_plane(frames):
    (ax,) = VIEWS["plane"].show(frames["plane"]).axes
    points: dict[str, Any] = {str(line.get_label()): line for line in ax.lines}
    assert list(points) == ["raw", "whitening", "flow"]
    assert len({line.get_marker() for line in ax.lines}) == 3
    assert points["flow"].get_xydata().tolist() == [[-0.5, 0.5]]


def test_equal_frames_are_equal_files(frames, tmp_path):
    written = []
    for name in "ab":
        with house_style():
            save_picture(VIEWS["spectra"].show(frames["spectra"]), tmp_path / name)
        written.append((tmp_path / f"{name}.svg").read_bytes())
    assert written[0] == written[1]


def test_names_of_users_stay_text(tmp_path):
    frame = pd.DataFrame({"method": NASTY, "direction": 1, "share": 0.5})
    with house_style():
        save_picture(VIEWS["spectra"].show(frame), tmp_path / "a")
    picture = ElementTree.parse(tmp_path / "a.svg")
    written = [each.text or "" for each in picture.iter()]
    for name in NASTY[:-1]:
        assert any(text.startswith(name) for text in written)
    assert max(map(len, written)) < 120
