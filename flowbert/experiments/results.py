"""Results: a view of records as one long table, with intervals and verdicts."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from flowbert.analysis.table import by_labels
from flowbert.arrays import Floats
from flowbert.errors import UserError, choices
from flowbert.experiments.columns import RESULT_COLUMNS, aggregation_of
from flowbert.experiments.estimates import Estimates, difference_table, verdict
from flowbert.experiments.intervals import estimate_rows, with_averages
from flowbert.io import (
    as_json,
    digest,
    load_tensors,
    read_json,
    save_tensors,
    write_atomically,
    write_json,
)
from flowbert.tasks import AVERAGE, Record, Task, load_scoring

_KIND = "arrays of results"
_APART = ("encoder", "layers", "pooling", "corpus", "split")
"""Columns whose values are not averaged over."""


class Results:
    """Scores of methods on tasks: a view of the records of experiments.

    Args:
        rows: Scores, with the keys of :data:`flowbert.experiments.columns.RESULT_COLUMNS`.
        record: What the run says of itself: versions, device, settings, verdicts, differences.
        records: Records of the experiments, and of what stands beside them in tables.
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
        config = {"config": _shared_settings(records)}
        return cls(rows, {**record, **config}, records, tasks, sentences)

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks; of a file, what scores are made with.

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
            UserError: If the arrays of the experiments are not beside the file of results.
        """
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
                f"{title}: {verdict(*each)}" for title, each in compared.items()
            ],
            "differences": {
                title: {"methods": names, "cells": difference_table(own_estimates)}
                for title, (names, own_estimates) in compared.items()
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
        chosen |= {"aggregation": aggregation_of(metric), **columns}
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
        """Write the scores and settings, and beside them the table as .csv and the arrays.

        Args:
            path: File ending in .json.
        """
        path = Path(path)
        frame = self.frame.astype({"seed": "Int64"})
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        content = {"rows": rows, "record": self.record, "arrays": bool(self.records)}
        content = as_json(content)
        if self.records:
            self._save_arrays(_arrays_of(path), digest(content))
        write_json(path, content)
        with write_atomically(path.with_suffix(".csv")) as temporary:
            frame.to_csv(temporary, index=False)

    def _save_arrays(self, path: Path, results: str) -> None:
        """Write items, samples of vectors, and what tasks score with."""
        tensors: dict[str, Any] = {}
        tasks = [
            dict(task.state() if isinstance(task, Task) else task)
            for task in self._tasks
        ]
        for number, state in enumerate(tasks):
            for name in [name for name in state if isinstance(state[name], np.ndarray)]:
                tensors[f"task {number} {name}"] = state.pop(name)
        records = []
        for number, record in enumerate(self.records):
            tensors[f"items {number}"] = record.items
            if record.sample is not None:
                tensors[f"sample {number}"] = record.sample
            entry = {
                "key": record.key,
                "columns": as_json(record.columns),
                "task": record.settings["task"]["digest"],
                "invalid_reason": record.invalid_reason,
            }
            records.append(entry)
        save_tensors(
            path,
            _KIND,
            tensors,
            results=results,
            tasks=as_json(tasks),
            records=records,
            sentences=self.sentences,
            environment=as_json(self.records[0].environment),
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read files of :meth:`save`.

        Without the file of the arrays there are scores, but no records.

        Raises:
            UserError: If a file is missing, damaged, holds something else, or is of other results.
        """
        schema = {"rows": list, "record": dict, "arrays": (bool, False)}
        content = read_json(path, schema)
        own, rows = digest(content), content["rows"]
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, dict) or set(row) != set(RESULT_COLUMNS):
                raise UserError(
                    f"{path}: row {number}: expected the columns {', '.join(RESULT_COLUMNS)}"
                )
            for name, kind in RESULT_COLUMNS.items():
                if not isinstance(row[name], kind):
                    raise UserError(f"{path}: row {number}: {name} is {row[name]!r}")
                if kind == float | None and row[name] is None:
                    row[name] = math.nan
        verdicts = content["record"].get("verdicts", [])
        if not isinstance(verdicts, list) or not all(
            isinstance(line, str) for line in verdicts
        ):
            raise UserError(f"{path}: verdicts are {verdicts!r}; expected lines")
        arrays = _arrays_of(path)
        if not content["arrays"] or not arrays.is_file():
            return cls(rows, content["record"])
        tensors, metadata = load_tensors(arrays, _KIND)
        if metadata["results"] != own:
            raise UserError(f"{arrays}: is of other results than {path}")
        return cls(
            rows,
            content["record"],
            list(_read_records(tensors, metadata, content)),
            list(_read_tasks(tensors, metadata["tasks"])),
            metadata["sentences"],
        )


def _arrays_of(path: str | Path) -> Path:
    return Path(path).with_suffix(".safetensors")


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


def _read_records(
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, Any],
    content: Mapping[str, Any],
) -> Iterable[Record]:
    """The records of a file, from its arrays, rows and settings."""
    by_key = defaultdict(list)
    for row in content["rows"]:
        by_key[row["experiment"]].append(row)
    shared = content["record"]["config"]
    for number, entry in enumerate(metadata["records"]):
        key, columns = entry["key"], entry["columns"]
        own = [
            row
            for row in by_key[key]
            if all(row[name] == value for name, value in columns.items())
        ]
        metrics = [(row["metric"], row["aggregation"]) for row in own]
        scores = dict(zip(metrics, (row["value"] for row in own), strict=True))
        reasons = dict(zip(metrics, (row["reason"] for row in own), strict=True))
        yield Record(
            tensors[f"items {number}"].numpy(),
            scores,
            {metric: why for metric, why in reasons.items() if why},
            key=key,
            columns=columns,
            settings=_settings_of(key, entry["task"], shared),
            environment=metadata["environment"],
            invalid_reason=entry["invalid_reason"],
            sample=tensors.get(f"sample {number}"),
        )


def _read_tasks(
    tensors: Mapping[str, torch.Tensor], states: Sequence[Mapping[str, Any]]
) -> Iterable[dict[str, Any]]:
    """The states of tasks with their arrays."""
    for number, state in enumerate(states):
        prefix = f"task {number} "
        arrays = {
            name.removeprefix(prefix): tensor.numpy()
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }
        yield {**state, **arrays}


def _shared_settings(records: Sequence[Record]) -> dict[str, Any]:
    """The settings of all records; what they share stands once, by its digest."""
    shared: dict[str, Any] = {
        name: {} for name in ("encoders", "methods", "corpora", "tasks", "experiments")
    }
    for record in records:
        settings = record.settings
        task = settings["task"]
        shared["tasks"][task["digest"]] = task
        if "encoder" not in settings:  # no experiment, but in the same table
            continue
        encoder, method = digest(settings["encoder"]), settings["method"]
        corpus = settings["corpus"]
        shared["encoders"][encoder] = settings["encoder"]
        shared["methods"][method["name"]] = method
        if corpus is not None:
            shared["corpora"][corpus["digest"]] = corpus
        shared["experiments"][record.key] = {
            "encoder": encoder,
            "method": method["name"],
            "corpus": None if corpus is None else corpus["digest"],
            "labels": settings["labels"],
            "seed": settings["seed"],
            "task": task["digest"],
        }
    return shared


def _settings_of(key: str, task: str, shared: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a record among those of all."""
    settings = {"task": shared["tasks"][task]}
    if key not in shared["experiments"]:
        return settings
    own = shared["experiments"][key]
    corpus = own["corpus"]
    return {
        "encoder": shared["encoders"][own["encoder"]],
        "method": shared["methods"][own["method"]],
        "corpus": None if corpus is None else shared["corpora"][corpus],
        "labels": own["labels"],
        "seed": own["seed"],
        **settings,
    }
