"""The table on a terminal and in a file: figures where they belong, the best in bold, nothing lost in a narrow one."""

import io
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from helpers.rows import ROWS, markdown, row
from rich.console import Console

from flowbert.evaluation.results import Row
from flowbert.report.render import print_table
from flowbert.report.table import other_table, spearman_table


def shown(rows: Sequence[Row], width: int, terminal: bool) -> str:
    file = io.StringIO()
    print_table(spearman_table(rows), Console(file=file, width=width, force_terminal=terminal, color_system=None))
    return file.getvalue()


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
    print_table(spearman_table([far, near]), Console(file=file, width=80, force_terminal=True, color_system="standard"))
    assert re.search(r"\x1b\[1m +0.20", file.getvalue())
    assert not re.search(r"\x1b\[1m +0.40", file.getvalue())


def test_best_is_bold_on_a_terminal_only() -> None:
    file = io.StringIO()
    print_table(spearman_table(ROWS), Console(file=file, width=80, force_terminal=True, color_system="standard"))
    assert "\x1b[1m55.00" in file.getvalue()
    assert "\x1b[1m50.12" not in file.getvalue()


def test_neither_end_of_the_edit_distance_is_best() -> None:
    figures = {"edit_distance_words": (-0.2, -0.3), "auc": (0.7, 0.8)}
    others = [
        replace(ROWS[0], method=method, task="A", metric=metric, value=value)
        for metric, values in figures.items()
        for method, value in zip(("raw", "whitening"), values, strict=True)
    ]
    content, file = other_table(others), io.StringIO()
    assert content is not None
    print_table(content, Console(file=file, width=80, force_terminal=True, color_system="standard"))
    assert re.search(r"\x1b\[1m *80.00", file.getvalue())
    assert not re.search(r"\x1b\[1m *-[23]0.00", file.getvalue())


def test_interval_stands_below_its_figure() -> None:
    sure = replace(ROWS[0], low=0.456, high=0.543)
    lines = shown([sure], 80, terminal=False).splitlines()
    (place,) = [number for number, line in enumerate(lines) if "50.12" in line]
    assert lines[place + 1].strip() == "[45.6, 54.3]"
    assert "| raw | 50.12 [45.6, 54.3] |" in markdown([sure])
