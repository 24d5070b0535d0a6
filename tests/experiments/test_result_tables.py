"""Tables of results."""

import math

import pytest

from extras.report.rows import results, row, sts_rows
from flowbert.experiments.intervals import labels
from flowbert.experiments.result_tables import (
    notes,
    result_tables,
    summarize,
)
from flowbert.text_tables import table_text


def test_labels_name_the_settings_that_differ():
    frame = results(
        sts_rows("raw", "STSB"),
        sts_rows("whitening", "STSB", layers="0"),
        sts_rows("learned-removal", "STSB", supervised=True),
    )
    expected = ["raw", "whitening (0)", "learned-removal* (-1)"]
    assert list(labels(frame).unique()) == expected


def test_what_a_method_lacks_is_no_difference():
    frame = results(
        sts_rows("raw", "STSB"),
        sts_rows("whitening", "STSB"),
        sts_rows("flow", "STSB", corpus="given"),
        sts_rows("gold", "STSB", encoder="none", layers="none", pooling="none"),
    )
    assert set(labels(frame)) == {"raw", "whitening", "flow", "gold"}


def test_seeds_have_an_interval_and_a_deviation():
    values = enumerate([0.4, 0.5, 0.6])
    seeds = [sts_rows("flow", "STSB", value, seed=seed) for seed, value in values]
    mean = row("flow", "STSB", "spearman", "wmean", 0.5, std=0.1)
    frame = results(*seeds, [mean])
    figures = summarize(frame).set_index(["metric", "aggregation"])
    figure = figures.loc[("spearman", "wmean")]
    assert figure["value"] == pytest.approx(50)
    assert figure["std"] == pytest.approx(10)
    assert (figure["low"], figure["high"]) == pytest.approx((45, 55))
    assert figures.loc[("alignment", "all"), "value"] == pytest.approx(0.5)
    (cell,) = result_tables(frame)[0].text["STSB"]
    assert cell == "50.00\n[45.0, 55.0] ±10.00"


def test_a_seed_without_figure_leaves_no_mean():
    frame = results(
        sts_rows("flow", "STSB", seed=0), sts_rows("flow", "STSB", math.nan, seed=1)
    )
    assert summarize(frame)["value"].isna().all()


def test_several_tasks_have_a_table_of_other_metrics():
    frame = results(
        sts_rows("raw", "STSB", 0.4),
        sts_rows("raw", "SICKR", 0.6),
        [row("raw", "average", "spearman", "wmean", 0.5)],
        [row("raw", "STS12", "spearman", "MSRpar", 0.5)],
        [row("raw", "QNLI", "auc", "all", 0.7), row("flow", "QNLI", "auc", "all", 0.8)],
    )
    tables = {table.title.split(", ")[0]: table for table in result_tables(frame)}
    weighted = tables["Spearman x 100 (wmean)"].text
    assert list(weighted.columns) == ["STSB", "SICKR", "average"]
    assert list(tables["Spearman x 100 (each subset)"].text.columns) == ["STS12 MSRpar"]
    others = tables["Other metrics"]
    assert list(others.text.columns)[:2] == ["QNLI auc", "alignment"]
    assert others.text["alignment"].to_list() == ["0.50", ""]


def test_details_are_on_the_page_alone():
    frame = results(
        sts_rows("raw", "STSB"), [row("raw", "STSB", "isoscore", "all", 0.2)]
    )
    folded = [
        table.folded for table in result_tables(frame) if "isoscore" in table.text
    ]
    assert folded == [True]


def test_splits_are_columns():
    frame = results(sts_rows("raw", "STSB"), sts_rows("raw", "STSB", 0.6, split="dev"))
    (table,) = (table for table in result_tables(frame) if not table.folded)
    assert table.title.endswith("test and dev split")
    assert list(table.text.columns)[:2] == ["STSB test", "STSB dev"]


def test_notes_say_what_is_shared_and_what_failed():
    frame = results(
        sts_rows("raw", "STSB"),
        sts_rows("zca", "STSB", math.nan, reason="no variance"),
        sts_rows("zca", "SICKR", math.nan, reason="no variance"),
    )
    lines = notes(frame)
    assert lines[0] == "encoder bert, layers -1, pooling mean, corpus target"
    assert lines[-1] == "nan: zca on STSB, SICKR: no variance"
    frame = results(sts_rows("raw", "STSB"))
    frame.loc[frame["metric"] == "alignment", "reason"] = "no positive"
    assert notes(frame)[-1] == "nan: alignment of raw on STSB: no positive"


def test_text_continues_below_in_narrow_terminals():
    tasks = [f"task{number}" for number in range(12)]
    groups = [sts_rows(method, task) for method in ("raw", "flow") for task in tasks]
    table = result_tables(results(*groups))[0]
    wide, narrow = table_text(table), table_text(table, 80)
    assert max(map(len, narrow.splitlines())) <= 80
    for text in (wide, narrow):
        assert text.count("50.00") == text.count("[45.0, 55.0]") == 24
        assert all(task in text for task in tasks)
    assert len(wide.splitlines()) == 5
