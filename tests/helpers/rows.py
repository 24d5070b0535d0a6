"""Rows of results made by hand, and their table in Markdown."""

import math
from collections.abc import Sequence

from flowbert.evaluation.results import Row
from flowbert.report.render import table_to_markdown
from flowbert.report.table import Averages, spearman_table


def row(method: str, task: str, spearman: float, corpus: str = "target", seed: int | None = None) -> Row:
    return Row(method, "enc", "last", "mean", corpus, task, "test", "wmean", spearman, 9, 0.1, -2.0, 0.3, seed)


ROWS = [
    row("raw", "STS12", 0.5012, "none"),
    row("raw", "STSB", 0.6, "none"),
    row("whitening", "STS12", 0.55),
    row("whitening", "STSB", math.nan),
]


def markdown(rows: Sequence[Row], aggregation: str = "wmean", averages: Averages | None = None) -> str:
    return table_to_markdown(spearman_table(rows, aggregation, averages))
