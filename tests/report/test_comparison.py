"""A comparison as text: every aggregation, other metrics, and what follows from them."""

import io
from dataclasses import replace

from rich.console import Console

from flowbert.evaluation.comparison import Comparison
from flowbert.evaluation.intervals import Intervals
from flowbert.evaluation.results import Row
from flowbert.report.comparison import comparison_to_markdown, print_comparison

ROW = Row("whitening", "enc", "1,12", "mean", "target", "STSB", "test", "wmean", 0.5, 9, float("nan"), -2.0, 0.3)
ROWS = [replace(ROW, aggregation=name, low=0.4, high=0.6) for name in ("all", "mean", "wmean")]
OTHER = replace(ROW, metric="auc", value=0.7, aggregation="all", task="answers")
COMPARISON = Comparison([*ROWS, OTHER], Intervals({}, ()), [replace(ROW, method="raw", code="other")])


def test_markdown_has_every_aggregation_and_section() -> None:
    text = comparison_to_markdown(COMPARISON)
    for aggregation in ("all", "mean", "wmean"):
        assert f"aggregation: {aggregation}" in text
    assert text.count("50.00 [40.0, 60.0]") == 3
    assert "| whitening | 70.00 |" in text
    assert text.endswith(
        "## Also in the file\n\n- 1 figures of earlier runs stay in the results file, 1 of them by other code\n"
    )


def test_one_aggregation_is_printed() -> None:
    file = io.StringIO()
    print_comparison(COMPARISON, Console(file=file, width=80))
    assert "aggregation: wmean" in file.getvalue()
    assert "aggregation: all" not in file.getvalue()
    assert file.getvalue().endswith("1 figures of earlier runs stay in the results file, 1 of them by other code\n")
