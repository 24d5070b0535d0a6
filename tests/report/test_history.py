"""The validations of a run, read back from its metrics.csv."""

import math
from pathlib import Path

import pytest

from flowbert.errors import UserError
from flowbert.report.history import Point, read_curves

COLUMNS = [f"{m}/{t}/dev/{x}" for m in ("raw", "flow") for t in ("A", "B") for x in ("spearman_all", "alignment")]


def _run(folder: Path, lines: list[dict[str, float | int]]) -> Path:
    names = ["step", "step/loss", *COLUMNS, *(f"{m}/{t}/dev/uniformity" for m in ("raw", "flow") for t in ("A", "B"))]
    rows = [",".join(str(line.get(name, "")) for name in names) for line in lines]
    (folder / "metrics.csv").write_text("\n".join([",".join(names), *rows, ""]))
    return folder


def _validation(step: int, figure: float) -> dict[str, float | int]:
    found: dict[str, float | int] = {"step": step}
    for task, shift in (("A", 0.0), ("B", 0.1)):
        found |= {f"raw/{task}/dev/spearman_all": 0.4, f"raw/{task}/dev/alignment": 0.1}
        found |= {f"raw/{task}/dev/uniformity": -1.0, f"flow/{task}/dev/uniformity": -2.0}
        found |= {f"flow/{task}/dev/spearman_all": figure + shift}
    return found


def test_every_validation_is_a_point(tmp_path: Path) -> None:
    run = _run(tmp_path, [{"step": 4, "step/loss": 1.0}, _validation(9, 0.5), _validation(19, 0.6)])
    raw, flow = read_curves([run])
    assert (raw.method, raw.task, raw.trained, flow.method, flow.trained) == ("raw", "A", False, "flow", True)
    assert [point.step for point in flow.points] == [10, 20]
    assert raw.points[0] == Point(10, 0.4, 0.1, -1.0)
    assert flow.points[1].spearman == 0.6
    assert math.isnan(flow.points[1].alignment)
    assert [curve.points[0].spearman for curve in read_curves([run], "B")] == [0.4, 0.6]


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no metrics.csv in it; allowed: the run folder of a fit"):
        read_curves([tmp_path])
    run = _run(tmp_path, [_validation(9, 0.5)])
    with pytest.raises(UserError, match=r"task: received 'C'; allowed: A, B"):
        read_curves([run], "C")
    with pytest.raises(UserError, match=r"aggregation: received 'meen'.*'mean'"):
        read_curves([run], aggregation="meen")
    (tmp_path / "metrics.csv").write_text("step,step/loss\n1,2.0\n")
    with pytest.raises(UserError, match="no validation on a development split yet"):
        read_curves([run])
