"""The table: figures x 100 where they belong, averages over the same tasks, the aggregation named."""

import math
from dataclasses import replace

import pytest
from helpers.rows import ROWS, markdown, row

from flowbert.errors import UserError
from flowbert.report.table import Averages, other_table


def test_markdown_has_every_figure() -> None:
    assert markdown(ROWS).splitlines() == [
        "Spearman x 100, aggregation: wmean; alignment and uniformity: lower is better",
        "",
        "| method | STS12 | STSB | Avg | alignment | uniformity |",
        "|---|---:|---:|---:|---:|---:|",
        "| raw | 50.12 | 60.00 | 55.06 | 0.10 | -2.00 |",
        "| whitening | 55.00 | nan | nan | 0.10 | -2.00 |",
        "",
        "encoder enc, layers last, pooling mean, corpus target, split test",
        "",
        "left out of Avg: whitening (no figure on STSB)",
    ]


def test_seeds_are_averaged_and_corpora_told_apart() -> None:
    rows = [row("flow", "STSB", 0.5, seed=0), row("flow", "STSB", 0.7, seed=1), row("flow", "STSB", 0.1, "nli", 0)]
    text = markdown(rows)
    assert "| flow (target), mean of 2 | 60.00 ±14.14 |" in text
    assert "| flow (nli) | 10.00 |" in text
    assert "Avg" not in text


@pytest.mark.parametrize(("encoder", "told"), [("builtin-sample", False), ("enc", True)])
def test_generated_text_says_nothing_of_another_encoder(encoder: str, told: bool) -> None:
    text = markdown([replace(row("raw", "SAMPLE", 0.5), encoder=encoder)])
    assert ("SAMPLE is generated text: its figures say nothing of real text" in text) == told


def test_nothing_to_show_is_an_error() -> None:
    with pytest.raises(UserError, match="no rows with the aggregation 'all' among 4"):
        markdown(ROWS, "all")
    with pytest.raises(UserError, match="allowed: all, mean, wmean"):
        markdown(ROWS, "median")


def test_average_gets_the_interval_it_is_given() -> None:
    rows = [row("raw", "STS12", 0.5), row("raw", "STSB", 0.6)]
    averages: Averages = {("enc", "last", "mean", "test", "target", "raw"): (0.5, 0.6)}
    assert "| 55.00 [50.0, 60.0] |" in markdown(rows, averages=averages)


def test_average_over_seeds_has_their_deviation() -> None:
    rows = [row("flow", task, value, seed=seed) for seed, value in ((0, 0.5), (1, 0.7)) for task in ("STS12", "STSB")]
    assert "| 60.00 ±14.14 | 60.00 ±14.14 | 60.00 ±14.14 |" in markdown(rows)


def test_supervised_methods_are_marked() -> None:
    text = markdown([replace(ROWS[0], supervised=True), ROWS[2]])
    assert "| raw\\* |" in text
    assert "\\* learned from labels" in text


def test_other_metrics_have_a_table_of_their_own() -> None:
    others = [
        replace(ROWS[2], task=task, metric=metric, value=value)
        for task, metric, value in (("A", "auc", 0.7), ("A", "map", 0.6), ("B", "auc", 0.5))
    ]
    content = other_table([*ROWS, *others])
    assert content is not None
    assert content.columns == ("A auc", "A map", "B auc")
    assert [cell.figure for cell in content.cells["whitening"]] == pytest.approx([70, 60, 50])
    assert other_table(ROWS) is None
    extra = other_table([*others, replace(others[0], method="gold", value=math.nan)])
    assert extra is not None
    assert [cell.text for cell in extra.cells["gold"]] == ["nan", "", ""]  # undefined; not there
    assert "auc" not in markdown([*ROWS, *others])
