"""Results: one long table of figures, the items behind them, and the fingerprint of the run."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from flowbert.arrays import Floats
from flowbert.errors import UserError, choices
from flowbert.io import read_json, write_atomically, write_json
from flowbert.tasks import Task

COLUMNS: dict[str, Any] = {
    "encoder": str,
    "layers": str,
    "pooling": str,
    "method": str,
    "corpus": str,
    "seed": int | None,
    "task": str,
    "split": str,
    "metric": str,
    "aggregation": str,
    "value": float | None,
    "low": float | None,
    "high": float | None,
    "pairs": int,
    "supervised": bool,
    "reason": str,
    "experiment": str,
}
"""Columns of :attr:`Results.frame` and their types."""

_APART = ("encoder", "layers", "pooling", "corpus", "split")
"""Columns whose values are not averaged over."""

AGGREGATION = "wmean"
"""The aggregation that is shown first, and that verdicts go by."""


def aggregation_of(metric: str) -> str:
    """The aggregation of a metric that is shown first."""
    return AGGREGATION if metric == "spearman" else "all"


class Results:
    """Figures of methods on tasks.

    Args:
        rows: Records with the keys of :data:`COLUMNS`.
        record: What the run says of itself: fingerprint, verdicts, differences, encoders.

    Attributes:
        frame: One row per figure (pandas), in long form. ``low`` and ``high`` are the ends of
            the 95% interval; the task ``average`` is the mean over the tasks of a split.
        record: As the argument.
        items: Items ``(K,)`` of each experiment by task, of a run in this process.
        vectors: Vectors of a sample of sentences by method, for the analysis of the run.
        sentences: The sentences of this sample.
    """

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], record: Mapping[str, Any]
    ) -> None:
        self.frame = pd.DataFrame(list(rows), columns=list(COLUMNS))
        self.record = dict(record)
        self.items: dict[Task, dict[str, Floats]] = {}
        self.vectors: dict[str, torch.Tensor] = {}
        self.sentences: list[str] = []

    @property
    def verdicts(self) -> list[str]:
        """Which method to use, a line for each group of comparable methods."""
        return list(self.record.get("verdicts", []))

    def score(
        self, method: str, task: str, metric: str = "spearman", **columns: Any
    ) -> float:
        """One figure; the mean over the seeds, NaN if one of them is.

        Args:
            method: Method.
            task: Task.
            metric: Metric.
            **columns: Values of further columns: ``split="dev"``, ``encoder``, ``layers``,
                ``pooling``, ``corpus``, ``seed``, ``aggregation``; needed where there are several.

        Raises:
            UserError: If there is none, or rows differ in more than the seed.
        """
        chosen = {"method": method, "task": task, "metric": metric}
        chosen |= {"aggregation": aggregation_of(metric), **columns}
        rows = self.frame
        for name, value in chosen.items():
            if name not in rows:
                raise UserError(
                    argument="score", received=name, expected=choices(COLUMNS, name)
                )
            if value not in set(rows[name]):
                raise UserError(
                    argument=name,
                    received=value,
                    expected=choices(set(rows[name]), str(value)),
                )
            rows = rows[rows[name] == value]
        several = [name for name in _APART if rows[name].nunique() > 1]
        if several:
            values = (f"{name} ({', '.join(rows[name].unique())})" for name in several)
            raise UserError(
                f"received {method} on {task}; expected one {' and one '.join(values)}",
                argument="score",
            )
        return float(rows["value"].mean(skipna=False))

    def table(
        self, metric: str = "spearman", aggregation: str | None = None
    ) -> pd.DataFrame:
        """Methods by tasks, the mean over seeds; NaN if one of them is, or there is none.

        Args:
            metric: Metric.
            aggregation: Aggregation; None for ``wmean`` of Spearman, else ``all``.
        """
        aggregation = aggregation or aggregation_of(metric)
        rows = self.frame
        rows = rows[(rows["metric"] == metric) & (rows["aggregation"] == aggregation)]
        index = ["encoder", "layers", "pooling", "corpus", "method"]
        columns = ["split", "task"]
        means = rows.groupby([*index, *columns], sort=False)["value"].agg(
            lambda values: values.mean(skipna=False)
        )
        size = len(index)
        cells = {(key[:size], key[size:]): value for key, value in means.items()}
        table = by_labels(cells, math.nan)
        table.index = pd.MultiIndex.from_tuples(table.index, names=index)
        table.columns = pd.MultiIndex.from_tuples(table.columns, names=columns)
        return table.astype(float)

    def save(self, path: str | Path) -> None:
        """Write ``results.json`` (records and fingerprint), and the frame as .csv beside it."""
        path = Path(path)
        frame = self.frame.astype({"seed": "Int64"})
        content = {"rows": frame.to_dict("records"), "record": self.record}
        write_json(path, plain(content))
        with write_atomically(path.with_suffix(".csv")) as temporary:
            frame.to_csv(temporary, index=False)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file of :meth:`save`.

        Raises:
            UserError: If it is missing, damaged, or holds something else.
        """
        content = read_json(path, {"rows": list, "record": dict})
        for number, row in enumerate(content["rows"], start=1):
            if not isinstance(row, dict) or set(row) != set(COLUMNS):
                raise UserError(
                    f"{path}: row {number}: expected the columns {', '.join(COLUMNS)}"
                )
            for name, kind in COLUMNS.items():
                if not isinstance(row[name], kind):
                    raise UserError(f"{path}: row {number}: {name} is {row[name]!r}")
                if kind == float | None and row[name] is None:
                    row[name] = math.nan
        verdicts = content["record"].get("verdicts", [])
        if not isinstance(verdicts, list) or not all(
            isinstance(line, str) for line in verdicts
        ):
            raise UserError(f"{path}: verdicts are {verdicts!r}; expected lines")
        return cls(content["rows"], content["record"])


def by_labels(cells: Mapping[tuple[Any, Any], Any], fill: Any) -> pd.DataFrame:
    """A table from cells by row and column, both in the order in which they come first.

    Args:
        cells: Values by row and column.
        fill: Value of missing cells.

    Example:
        >>> by_labels({("b", "y"): 1, ("b", "x"): 2, ("a", "x"): 3}, 0).values.tolist()
        [[1, 2], [0, 3]]
    """
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    values = [[cells.get((row, column), fill) for column in columns] for row in rows]
    # Labels may be tuples, which pandas would spread over levels.
    frame = pd.DataFrame(values)
    frame.index = pd.Index(rows, tupleize_cols=False, dtype=object)
    frame.columns = pd.Index(columns, tupleize_cols=False, dtype=object)
    return frame


def plain(value: Any) -> Any:
    """A JSON value; what is missing becomes null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    missing = isinstance(value, float) and not math.isfinite(value)
    return None if missing or value is pd.NA else value
