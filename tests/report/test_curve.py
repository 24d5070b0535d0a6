"""The picture of alignment against uniformity: well-formed, in its frame, and the right way up."""

import math
from xml.etree import ElementTree

from flowbert.report.curve import curve_svg
from flowbert.report.history import Curve, Point

SVG = "{http://www.w3.org/2000/svg}"
TRAINED = Curve("runs/a<b", "simcse", "STSB", (Point(10, 0.5, 0.2, -2.0), Point(20, 0.6, 0.3, -3.0)))
BASELINE = Curve("runs/a<b", "raw", "STSB", (Point(10, 0.4, 0.1, -1.0), Point(20, 0.4, 0.1, -1.0)))


def _circles(*curves: Curve) -> list[tuple[float, float]]:
    root = ElementTree.fromstring(curve_svg(curves))
    return [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter(f"{SVG}circle")]


def test_lower_uniformity_is_left_and_lower_alignment_is_below() -> None:
    (first_x, first_y), (second_x, second_y) = _circles(BASELINE, TRAINED)
    assert second_x < first_x
    assert second_y < first_y  # pixels grow downwards
    assert all(70 <= x <= 520 and 30 <= y <= 420 for x, y in _circles(BASELINE, TRAINED))


def test_names_are_escaped_and_figures_told() -> None:
    root = ElementTree.fromstring(curve_svg([BASELINE, TRAINED]))
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"raw (40.0)", "simcse (50.0 to 60.0)", "runs/a<b", "step 20"} <= set(texts)
    assert [title.text for title in root.iter(f"{SVG}title")] == ["step 10, Spearman 50.00", "step 20, Spearman 60.00"]


def test_points_without_alignment_are_left_out() -> None:
    broken = Curve("a", "m", "T", (Point(1, 0.1, math.nan, -1.0), Point(2, 0.2, 0.5, -2.0), Point(3, 0.3, 0.6, -2.5)))
    assert len(_circles(broken)) == 2
    nothing = Curve("a", "m", "T", (Point(1, 0.1, math.nan, -1.0),))
    assert ElementTree.fromstring(curve_svg([nothing])).tag == f"{SVG}svg"
