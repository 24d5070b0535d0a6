"""The table: figures x 100 where they belong, the aggregation named, nothing lost in a narrow terminal."""

import io
import math
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from flowbert.errors import UserError
from flowbert.evaluation import Row
from flowbert.report import other_grid, print_grid, print_table, to_markdown
from flowbert.report.table import Averages


def row(method: str, task: str, spearman: float, corpus: str = "target", seed: int | None = None) -> Row:
    return Row(method, "enc", "last", "mean", corpus, task, "test", "wmean", spearman, 9, 0.1, -2.0, 0.3, seed)


ROWS = [
    row("raw", "STS12", 0.5012, "none"),
    row("raw", "STSB", 0.6, "none"),
    row("whitening", "STS12", 0.55),
    row("whitening", "STSB", math.nan),
]


def shown(rows: Sequence[Row], width: int, terminal: bool) -> str:
    file = io.StringIO()
    print_table(rows, console=Console(file=file, width=width, force_terminal=terminal, color_system=None))
    return file.getvalue()


def test_markdown_has_every_figure() -> None:
    assert to_markdown(ROWS).splitlines() == [
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
    text = to_markdown(rows)
    assert "| flow (target), mean of 2 | 60.00 ±14.14 |" in text
    assert "| flow (nli) | 10.00 |" in text
    assert "Avg" not in text


def test_a_file_gets_the_full_width() -> None:
    long = "whitening-128:shrinkage=ledoit-wolf:exponent=-0.35"
    text = shown([row(long, f"TASK{i}", i / 100) for i in range(12)], width=20, terminal=False)
    (line,) = [line for line in text.splitlines() if long in line]
    assert line.split()[1:] == [f"{i}.00" for i in range(12)] + ["5.50", "0.10", "-2.00"]
    assert "aggregation: wmean" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_narrow_terminal_loses_no_figure(width: int) -> None:
    text = shown([row("whitening-128", f"TASK{i}", 0.1 + i / 100) for i in range(12)], width, terminal=True)
    assert all(f"{10 + i}.00" in text and f"TASK{i}" in text for i in range(12))
    assert max(len(line) for line in text.splitlines() if "." in line) <= width


def test_lower_is_better_for_alignment_and_uniformity() -> None:
    far = replace(row("far", "STSB", 0.5), alignment=0.4, uniformity=-1.0)
    near = replace(row("near", "STSB", 0.5), alignment=0.2, uniformity=-3.0)
    file = io.StringIO()
    print_table([far, near], console=Console(file=file, width=80, force_terminal=True, color_system="standard"))
    assert re.search(r"\x1b\[1m +0.20", file.getvalue())
    assert not re.search(r"\x1b\[1m +0.40", file.getvalue())


def test_best_is_bold_on_a_terminal_only() -> None:
    file = io.StringIO()
    print_table(ROWS, console=Console(file=file, width=80, force_terminal=True, color_system="standard"))
    assert "\x1b[1m55.00" in file.getvalue()
    assert "\x1b[1m50.12" not in file.getvalue()


def test_neither_end_of_the_edit_distance_is_best() -> None:
    figures = {"edit_distance_words": (-0.2, -0.3), "auc": (0.7, 0.8)}
    others = [
        replace(ROWS[0], method=method, task="A", metric=metric, value=value)
        for metric, values in figures.items()
        for method, value in zip(("raw", "whitening"), values, strict=True)
    ]
    content, file = other_grid(others), io.StringIO()
    assert content is not None
    print_grid(content, Console(file=file, width=80, force_terminal=True, color_system="standard"))
    assert re.search(r"\x1b\[1m *80.00", file.getvalue())
    assert not re.search(r"\x1b\[1m *-[23]0.00", file.getvalue())


def test_nothing_to_show_is_an_error() -> None:
    with pytest.raises(UserError, match="no rows with the aggregation 'all' among 4"):
        to_markdown(ROWS, "all")
    with pytest.raises(UserError, match="allowed: all, mean, wmean"):
        to_markdown(ROWS, "median")


def test_interval_stands_below_its_figure() -> None:
    sure = replace(ROWS[0], low=0.456, high=0.543)
    lines = shown([sure], 80, terminal=False).splitlines()
    (place,) = [number for number, line in enumerate(lines) if "50.12" in line]
    assert lines[place + 1].strip() == "[45.6, 54.3]"
    assert "| raw | 50.12 [45.6, 54.3] |" in to_markdown([sure])


def test_average_gets_the_interval_it_is_given() -> None:
    rows = [row("raw", "STS12", 0.5), row("raw", "STSB", 0.6)]
    averages: Averages = {("enc", "last", "mean", "test", "target", "raw"): (0.5, 0.6)}
    assert "| 55.00 [50.0, 60.0] |" in to_markdown(rows, averages=averages)


def test_average_over_seeds_has_their_deviation() -> None:
    rows = [row("flow", task, value, seed=seed) for seed, value in ((0, 0.5), (1, 0.7)) for task in ("STS12", "STSB")]
    assert "| 60.00 ±14.14 | 60.00 ±14.14 | 60.00 ±14.14 |" in to_markdown(rows)


def test_supervised_methods_are_marked() -> None:
    text = to_markdown([replace(ROWS[0], supervised=True), ROWS[2]])
    assert "| raw\\* |" in text
    assert "\\* learned from labels" in text


def test_other_metrics_have_a_table_of_their_own() -> None:
    others = [
        replace(ROWS[2], task=task, metric=metric, value=value)
        for task, metric, value in (("A", "auc", 0.7), ("A", "map", 0.6), ("B", "auc", 0.5))
    ]
    content = other_grid([*ROWS, *others])
    assert content is not None
    assert content.columns == ("A auc", "A map", "B auc")
    assert [cell.figure for cell in content.cells["whitening"]] == pytest.approx([70, 60, 50])
    assert other_grid(ROWS) is None
    extra = other_grid([*others, replace(others[0], method="gold", value=math.nan)])
    assert extra is not None
    assert [cell.shown for cell in extra.cells["gold"]] == ["nan", "", ""]  # undefined; not there
    assert "auc" not in to_markdown([*ROWS, *others])
