"""Published rows as settings of this project, and the comparison as text."""

import math

import pytest

from flowbert.errors import UserError
from flowbert.reproduction.compare import Comparison, Reproduction, method_of, record_of, select_rows
from flowbert.reproduction.published import published_row, published_rows, setting_of

ROW = published_row("li2020-2-bert-base-uncased-flow-target")


def test_flow_rows_use_the_paper_setting() -> None:
    name, *options = method_of(setting_of(ROW)).split(":")
    assert name == "flow"
    expected = {"mixing=reverse", "learning_rate=0.001", "epochs=1.0", "batch_size=64", "noise=0.0", "start_size=64"}
    assert expected | {"schedule=constant", "levels=2", "depth=3", "width=32", "coupling=additive"} <= set(options)
    nli = method_of(setting_of(published_row("li2020-2-bert-base-uncased-flow-nli")))
    assert "learning_rate=2e-05" in nli
    assert "epochs=0.15" in nli


def test_every_row_has_a_method() -> None:
    names = {method_of(setting_of(row)).split(":")[0] for row in published_rows()}
    assert names == {"raw", "flow", "whitening", "whitening-256", "whitening-384", "simcse-unsup", "simcse-sup"}


def test_rows_by_source_table_encoder_and_id() -> None:
    assert len(select_rows("li2020", None, [])) == 19
    assert {row.table for row in select_rows("li2020-3", None, [])} == {"3"}
    assert {row.encoder for row in select_rows("su2021", "bert-base-uncased", [])} == {"bert-base-uncased"}
    assert select_rows(None, None, [ROW.id]) == [ROW]
    with pytest.raises(UserError, match="did you mean 'li2020'"):
        select_rows("li202", None, [])
    with pytest.raises(UserError, match="no row with the encoder roberta-base"):
        select_rows("li2020", "roberta-base", [])


def test_text_says_whether_theirs_is_inside() -> None:
    inside, outside = Comparison("STS12", 63.0, 61.0, 65.0, 63.48), Comparison("STS13", 60.0, 58.0, 62.0, 72.14)
    text = Reproduction(ROW, setting_of(ROW), (inside, outside), context=False).text()
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:]}
    assert lines["published"] == ["63.48", "72.14"]
    assert lines["difference"] == ["-0.48", "-12.14"]
    assert lines["inside"] == ["yes", "no"]


def test_another_encoder_makes_the_figures_context() -> None:
    found = Reproduction(ROW, setting_of(ROW), (Comparison("STS12", 63.0, math.nan, math.nan, 63.48),), context=True)
    assert "published (context only)" in found.text()
    assert "difference" not in found.text()
    (record,) = record_of(found)
    assert math.isnan(record["difference"])
    assert record["inside"] is None


def test_a_row_that_cannot_be_run_says_why() -> None:
    text = Reproduction(ROW, setting_of(ROW), (), context=False, note="cannot be run: no encoder").text()
    assert text.endswith("note: cannot be run: no encoder")
