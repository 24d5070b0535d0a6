"""The files beside results.json."""

import csv
import math
from dataclasses import replace
from pathlib import Path

from flowbert.evaluation.results import Row
from flowbert.report.files import write_csv

ROW = Row("whitening", "enc", "1,12", "mean", "target", "STSB", "test", "wmean", 0.5, 9, math.nan, -2.0, 0.3)
ROWS = [replace(ROW, aggregation=name, low=0.4, high=0.6, layer_numbers=(1, 12)) for name in ("all", "mean", "wmean")]


def test_csv_has_a_line_per_figure(tmp_path: Path) -> None:
    with write_csv(tmp_path / "r.csv", ROWS).open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["aggregation"] for line in lines] == ["all", "mean", "wmean"]
    first = lines[0]
    assert (first["spearman"], first["low"], first["high"]) == ("0.5", "0.4", "0.6")
    assert (first["layers"], first["layer_numbers"], first["alignment"]) == ("1,12", "1 12", "")
