"""A published row beside ours: as text, as records, as files."""

import csv
import math
from pathlib import Path

from flowbert.reproduction import published_row
from flowbert.reproduction.comparison import FigureComparison, Reproduction, write_reproductions

ROW = published_row("li2020-2-bert-base-uncased-flow-target")


def test_text_says_whether_theirs_is_inside() -> None:
    inside, outside = (
        FigureComparison("STS12", 63.0, 61.0, 65.0, 63.48),
        FigureComparison("STS13", 60.0, 58.0, 62.0, 72.14),
    )
    text = Reproduction(ROW, (inside, outside), context=False).text()
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:]}
    assert lines["published"] == ["63.48", "72.14"]
    assert lines["difference"] == ["-0.48", "-12.14"]
    assert lines["inside"] == ["yes", "no"]


def test_another_encoder_makes_the_figures_context() -> None:
    found = Reproduction(ROW, (FigureComparison("STS12", 63.0, math.nan, math.nan, 63.48),), context=True)
    assert "published (context only)" in found.text()
    assert "difference" not in found.text()
    (record,) = found.records()
    assert math.isnan(record["difference"])
    assert record["inside"] is None


def test_a_row_that_cannot_be_run_says_why() -> None:
    text = Reproduction(ROW, (), context=False, note="cannot be run: no encoder").text()
    assert text.endswith("note: cannot be run: no encoder")


def test_files_leave_out_what_does_not_exist(tmp_path: Path) -> None:
    found = Reproduction(ROW, (FigureComparison("STS12", 63.0, math.nan, math.nan, 63.48),), context=False)
    failed = Reproduction(ROW, (), context=False, note="cannot be run: no encoder")
    table, text = write_reproductions([found, failed], tmp_path / "r.json")
    with table.open(newline="", encoding="utf-8") as file:
        (record,) = csv.DictReader(file)
    assert (record["row"], record["ours"], record["low"], record["inside"]) == (ROW.id, "63.0", "", "")
    assert text.read_text(encoding="utf-8").count("```") == 4
    write_reproductions([failed], tmp_path / "r.json")
    assert table.read_text(encoding="utf-8").strip() == ""
