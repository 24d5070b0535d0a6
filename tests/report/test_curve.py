"""The picture of some runs: all points and names in it, the same file every time, nothing said on the way."""

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flowbert.report.curve import draw_curves, training_curves
from flowbert.report.history import Curve, Point

SVG = "{http://www.w3.org/2000/svg}"
TRAINED = Curve("runs/a<b", "simcse", "STSB", (Point(10, 0.5, 0.2, -2.0), Point(20, 0.6, 0.3, -3.0)))
BASELINE = Curve("runs/c", "raw", "STSB", (Point(10, 0.4, 0.1, -1.0), Point(20, 0.4, 0.1, -1.0)))


def texts(path: Path) -> set[str]:
    return {"".join(text.itertext()) for text in ElementTree.parse(path).iter(f"{SVG}text")}


def test_axes_and_curves_are_named(tmp_path: Path) -> None:
    found = texts(draw_curves([BASELINE, TRAINED], tmp_path / "c.svg"))
    assert {"training steps", "Spearman x 100, STSB dev", "step 20"} <= found
    assert {"uniformity (lower is better)", "alignment (lower is better)"} <= found
    assert {"raw (c), 40.0", "simcse (a<b), 50.0 to 60.0"} <= found


def test_lower_uniformity_is_left_and_lower_alignment_is_below(tmp_path: Path) -> None:
    def positions(*curves: Curve) -> list[tuple[float, float]]:
        root = ElementTree.parse(draw_curves(curves, tmp_path / "c.svg")).getroot()
        plane = next(group for group in root.iter(f"{SVG}g") if group.get("id") == "axes_2")
        lines = [group for group in plane if (group.get("id") or "").startswith("line2d")]
        uses = lines[0].iter(f"{SVG}use")
        return [(float(use.attrib["x"]), float(use.attrib["y"])) for use in uses]

    (first_x, first_y), (second_x, second_y) = positions(TRAINED)
    assert second_x < first_x
    assert second_y < first_y  # SVG counts downwards


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_equal_curves_equal_file(ending: str, tmp_path: Path) -> None:
    files = [draw_curves([BASELINE, TRAINED], tmp_path / f"{number}{ending}") for number in range(2)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_points_without_alignment_are_left_out(tmp_path: Path) -> None:
    broken = Curve("a", "m", "T", (Point(1, 0.1, math.nan, -1.0), Point(2, 0.2, 0.5, -2.0), Point(3, 0.3, 0.6, -2.5)))
    nothing = Curve("a", "m", "T", (Point(1, 0.1, math.nan, -1.0),))
    for curve in (broken, nothing):
        assert f"m, {100 * curve.points[0].spearman:.1f}" in " ".join(texts(draw_curves([curve], tmp_path / "c.svg")))


def test_one_call_reads_draws_and_writes_the_points(tmp_path: Path) -> None:
    names = [f"raw/T/dev/{measure}" for measure in ("spearman_all", "alignment", "uniformity")]
    (tmp_path / "metrics.csv").write_text(",".join(["step", *names]) + "\n9,0.5,0.2,-2\n19,0.6,,-3\n")
    (curve,) = training_curves([tmp_path], output=tmp_path / "c.png")
    assert curve.points[0] == Point(10, 0.5, 0.2, -2.0)
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    lines = (tmp_path / "c.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "run,method,task,step,spearman,alignment,uniformity"
    assert lines[2].endswith(",raw,T,20,0.6,nan,-3.0")
