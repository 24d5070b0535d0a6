"""Results: a view of records as one long table, with intervals and verdicts."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pandas as pd
import torch

from flowbert.analysis.table import by_labels
from flowbert.arrays import Floats
from flowbert.errors import UserError, choices
from flowbert.experiments.columns import RESULT_COLUMNS, main_aggregation
from flowbert.experiments.estimates import Estimates
from flowbert.experiments.intervals import estimate_rows, with_averages
from flowbert.experiments.result_files import (
    read_results,
    shared_settings,
    write_results,
)
from flowbert.numbers import is_count
from flowbert.tasks import AVERAGE, Record, Task, load_scoring

_APART = ("encoder", "layers", "pooling", "corpus", "split")
"""Columns whose values are not averaged over."""


class Results:
    """Scores of methods on tasks: a view of the records of experiments.

    Args:
        rows: Scores, with the keys of :data:`flowbert.experiments.columns.RESULT_COLUMNS`.
        record: Metadata of the run: versions, device, settings, verdicts, differences.
        records: Records of the experiments, and of the reference rows of tables.
        tasks: The tasks, as they are or as states of :meth:`flowbert.tasks.Task.state`.
        sentences: The sentences whose vectors records have.

    Attributes:
        frame: One row per score (pandas), in long form. ``low`` and ``high`` are the ends of
            the 95% interval; the task ``average`` is the mean over the tasks of a split.
        record: As the argument.
        records: As the argument.
        sentences: As the argument.

    Example:
        >>> from flowbert import compare
        >>> results = compare(methods="raw,whitening", bootstrap=0)
        >>> results.add_intervals(resamples=100, seed=1)
        >>> len(results.verdicts)
        1
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        record: Mapping[str, Any],
        records: Sequence[Record] = (),
        tasks: Sequence[Any] = (),
        sentences: Sequence[str] = (),
    ) -> None:
        self.frame = pd.DataFrame(list(rows), columns=list(RESULT_COLUMNS))
        self.record = dict(record)
        self.records = list(records)
        self.sentences = list(sentences)
        self._tasks = tasks

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        tasks: Sequence[Task],
        record: Mapping[str, Any],
        sentences: Sequence[str] = (),
    ) -> Self:
        """The results of records, see the class."""
        rows = (row for each in records for row in _rows(each))
        config = {"config": shared_settings(records)}
        return cls(rows, {**record, **config}, records, tasks, sentences)

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks; of results from a file, only what scoring needs.

        Raises:
            UserError: If one is of a class that is not imported.
        """
        return [
            task if isinstance(task, Task) else load_scoring(task)
            for task in self._tasks
        ]

    @property
    def items(self) -> dict[Task, dict[str, Floats]]:
        """Items ``(K,)`` of the experiments on each task, by their keys."""
        items: dict[str, dict[str, Floats]] = defaultdict(dict)
        for record in self.records:
            items[record.settings["task"]["digest"]][record.key] = record.items
        return {task: items[task.digest] for task in self.tasks}

    @property
    def vectors(self) -> dict[str, torch.Tensor]:
        """Vectors ``(S, k)`` of :attr:`sentences` by method."""
        return {
            str(record.columns["method"]): record.sample
            for record in self.records
            if record.sample is not None
        }

    @property
    def verdicts(self) -> list[str]:
        """Which method to use, a line for each group of comparable methods."""
        return list(self.record.get("verdicts", []))

    @property
    def differences(self) -> dict[str, Any]:
        """By title: ``methods``, and ``cells``, a text for row minus column of any two."""
        return dict(self.record.get("differences", {}))

    def estimates(self, resamples: int = 1000, seed: int = 0) -> Estimates:
        """Scores and their bootstrap replicates, row by row of the frame.

        Args:
            resamples: Number of resamples.
            seed: Seed.

        Raises:
            UserError: If the arrays of the experiments are not beside the file of results, or the
                number of resamples is none.
        """
        if not is_count(resamples, 0, math.inf):
            raise UserError(
                argument="resamples", received=resamples, expected="0 or more"
            )
        missing = set(self.frame["experiment"]) - {"", *(r.key for r in self.records)}
        if missing:
            raise UserError(
                "received a file without its arrays; expected the file .safetensors of the same "
                "name beside it",
                argument="results",
            )
        return estimate_rows(self.frame, self.items, resamples, seed)

    def add_intervals(self, resamples: int = 1000, seed: int = 0) -> None:
        """Add intervals, averages over tasks, differences and verdicts, or replace them.

        Args:
            resamples: Number of bootstrap resamples; 0 for none, and no verdict.
            seed: Their seed.

        Raises:
            UserError: If the arrays of the experiments are not beside the file of results.
        """
        estimates = self.estimates(resamples, seed)
        own = (self.frame["task"] != AVERAGE).to_numpy()
        frame = self.frame[own].reset_index(drop=True)
        self.frame, compared = with_averages(frame, estimates[own], self.tasks)
        if not resamples:
            compared = {}
        self.record = self.record | {
            "verdicts": [
                f"{title}: {each.verdict}" for title, each in compared.items()
            ],
            "use": {title: each.names[each.used] for title, each in compared.items()},
            "differences": {
                title: {"methods": each.names, "cells": each.table}
                for title, each in compared.items()
            },
            "bootstrap": {"resamples": resamples, "seed": seed},
        }

    def score(
        self, method: str, task: str, metric: str = "spearman", **columns: Any
    ) -> float:
        """One score; the mean over the seeds, NaN if one of them is.

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
        chosen |= {"aggregation": main_aggregation(self.frame, metric), **columns}
        rows = self.frame
        for name, value in chosen.items():
            if name not in rows:
                raise UserError(
                    argument="score",
                    received=name,
                    expected=choices(RESULT_COLUMNS, name),
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
            aggregation: Aggregation; None for ``wmean`` of Spearman, if all tasks have it, else
                ``all``.
        """
        aggregation = aggregation or main_aggregation(self.frame, metric)
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
        """Write scores and settings, and beside them the table as .csv and the arrays.

        Args:
            path: File ending in .json.
        """
        states = [
            task.state() if isinstance(task, Task) else task for task in self._tasks
        ]
        write_results(
            Path(path), self.frame, self.record, self.records, states, self.sentences
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read files of :meth:`save`.

        Without the file of the arrays there are scores, but no records.

        Raises:
            UserError: If a file is missing, damaged, holds something else, or is of other results.
        """
        return cls(**read_results(Path(path)))


def _rows(record: Record) -> list[dict[str, Any]]:
    """Rows of the table, one for each score."""
    return [
        {
            **record.columns,
            "experiment": record.key,
            "metric": metric,
            "aggregation": aggregation,
            "value": value,
            "reason": record.reasons.get((metric, aggregation), ""),
        }
        for (metric, aggregation), value in record.scores.items()
    ]
