"""Verdicts: which row of a table to use, from paired differences."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from flowbert.arrays import Floats
from flowbert.experiments.intervals import (
    GAIN,
    METHOD,
    SCORE,
    draws_of,
    find_intervals,
    has_interval,
    main_aggregation,
)
from flowbert.experiments.labels import name_rows, settings_of
from flowbert.tasks import AVERAGE, Task
from flowbert.tasks.measures import METRICS, Metric, metric_of

LISTED = 10
"""Largest number of rows that are shown and compared."""


class Verdict:
    """Rows of a table compared on the same resamples, and which one to use.

    Candidates are the requested methods that are significantly better than the reference and not
    significantly exceeded by any other row. The candidate with the highest score is used. The
    intervals are not adjusted for the number of comparisons; the text states how many methods were
    compared.

    Args:
        names: Names of the rows, n of them.
        draws: Draws of the rows ``(n, 1 + R)``; each row has an interval.
        reference: Index of the row that others must exceed.
        is_asked: Whether a row may be used, ``(n,)``; None for all.
        metric: What was measured, with its scale in texts, and whether higher is better.

    Attributes:
        names: As the argument.
        reference: As the argument.
        is_asked: As the argument.
        metric: As the argument.
        values: Scores of the rows, ``(n,)``.
        ends: Ends of the 95% intervals of row minus column, ``(n, n, 2)``.
        used: Index of the row to use; the reference if no method is better.
        tied: Indices of the other rows that are better than the reference, and that no row
            significantly exceeds.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> values = np.array([0.5, 0.7])
        >>> noise = np.column_stack([np.zeros(2), rng.normal(0, 0.01, (2, 99))])
        >>> Verdict(["raw", "whitening"], values[:, None] + noise).text.split(" [")[0]
        'use whitening, 70.0, +20.0'
    """

    def __init__(
        self,
        names: Sequence[str],
        draws: Floats,
        reference: int = 0,
        is_asked: Any = None,
        metric: Metric = METRICS["spearman"],
    ) -> None:
        self.names = list(names)
        self.reference = reference
        self.is_asked = np.full(len(names), True) if is_asked is None else is_asked
        self.metric = metric
        self.values = draws[:, 0]
        self.ends: Floats = np.zeros((len(names), len(names), 2))
        for row in range(len(names) - 1):
            ends = find_intervals(draws[row] - draws[row + 1 :])
            self.ends[row, row + 1 :] = ends
            self.ends[row + 1 :, row] = -ends[:, ::-1]
        is_better = np.all(metric.upward * self.ends > 0, axis=-1)  # row than column
        is_exceeded = is_better.any(axis=0)
        is_best = is_better[:, reference] & ~is_exceeded
        candidates = np.flatnonzero(is_best & self.is_asked)
        self.used = reference
        if len(candidates):
            scores = metric.upward * self.values[candidates]
            self.used = int(candidates[scores.argmax()])
        is_best[self.used] = False
        self.tied: list[int] = np.flatnonzero(is_best).tolist()

    @property
    def gains(self) -> pd.DataFrame:
        """Each row minus the reference, scaled: columns gain, gain_low, gain_high, and choice.

        The choice is ``use``, ``tied`` or empty; the reference has no gain (NaN).
        """
        differences = self.values - self.values[self.reference]
        ends = self.ends[:, self.reference]
        gains = pd.DataFrame(np.column_stack([differences, ends]), columns=GAIN)
        gains.loc[self.reference] = np.nan
        gains = (self.metric.scale * gains).assign(choice="")
        gains.loc[self.tied, "choice"] = "tied"
        gains.loc[self.used, "choice"] = "use"
        return gains

    @property
    def text(self) -> str:
        """What to use, its scaled score, its gain, the number of methods, and what ties with it."""
        used, reference = self.used, self.reference
        count = int(self.is_asked.sum()) - 1  # without the reference
        compared = f"; {count} methods compared" if count > 1 else ""
        score = f"{self.names[used]}, {self.metric.scale * self.values[used]:z.1f}"
        tied = ", ".join(self.names[row] for row in self.tied)
        if used == reference:
            more = self._highest_asked()
            if tied:
                more = f"; significantly better, without a map: {tied}"
            return f"keep it as it comes: {score}{compared}{more}"
        gain = self._difference(used, reference, sign="+")
        text = f"use {score}, {gain} over {self.names[reference]}{compared}"
        if tied:
            text += f"; tied: {tied}"
        without_map = [self.names[row] for row in self.tied if not self.is_asked[row]]
        if without_map:
            text += f"; this adds nothing significant to {', '.join(without_map)}"
        return text

    def _highest_asked(self) -> str:
        """The requested row with the highest score, if its gain may be chance."""
        gains = self.metric.upward * (self.values - self.values[self.reference])
        best = int((gains * self.is_asked).argmax())
        low, high = self.ends[best, self.reference]
        if gains[best] <= 0 or not low <= 0 <= high:
            return ""
        gain = self._difference(best, self.reference, sign="+")
        return f"; {self.names[best]}, {gain}, is not significantly better"

    @property
    def table(self) -> list[list[str]]:
        """Scaled differences, row minus column, with their intervals."""
        rows = range(len(self.names))
        return [
            ["" if row == column else self._difference(row, column) for column in rows]
            for row in rows
        ]

    def _difference(self, row: int, column: int, sign: str = "") -> str:
        """One scaled difference with its interval, without -0.0; the sign + is optional."""
        difference = self.metric.scale * (self.values[row] - self.values[column])
        low, high = self.metric.scale * self.ends[row, column]
        return f"{difference:{sign}z.1f} [{low:z.1f}, {high:z.1f}]"


def find_verdicts(
    frame: pd.DataFrame, tasks: Sequence[Task]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Which row to use, over all rows of a table, whatever differs in them.

    Methods have to beat the encoder as it comes; without it, there are differences alone.
    On each split there is one verdict for the average, or without one for each averaged task, and
    for every other task with a headline. Of more than ten rows, the best ten of the development
    split and the references are compared, on the other splits.

    Args:
        frame: Rows of :func:`flowbert.experiments.intervals.with_averages`.
        tasks: The tasks.

    Returns:
        The frame, with :attr:`Verdict.gains` in the compared rows of each encoder; and a dict.
        ``verdicts``: lines, for all encoders together and for each. ``lead``: task and metric of
        the first verdict. ``differences`` by title: ``methods``, and ``cells``, a text for row
        minus column of any two.
    """
    frame = frame.assign(**dict.fromkeys(GAIN, np.nan), choice="")
    tables = list(_compared_tables(_ranked_rows(frame), tasks))
    lines: list[str] = []
    differences = {}
    lead: list[str] = []
    for title, table, note in tables:
        lead = lead or table[["task", "metric"]].iloc[0].tolist()
        where = f" on {title}" if len(tables) > 1 else ""
        whole = _verdict(table)
        differences[title] = {"methods": whole.names, "cells": whole.table}
        is_reference = table["role"] == "reference"
        if not is_reference.any():
            lines.append(f"no verdict{where}: raw has no score, or is not compared")
            continue
        encoders = settings_of(table)["encoder"]
        if encoders.nunique() > 1:
            lines.append(f"all encoders{where}: {whole.text}")
        for name, rows in table.groupby(encoders, sort=False):
            if len(rows) > 1 and is_reference[rows.index].any():
                verdict = _verdict(rows)
                lines.append(f"{name}{where}: {verdict.text}")
                gains = verdict.gains.set_axis(rows.index)
                frame.loc[rows.index, list(gains)] = gains
        if note:
            lines.append(f"{note}{where}")
    return frame, {"verdicts": lines, "lead": lead, "differences": differences}


def _verdict(rows: pd.DataFrame) -> Verdict:
    """The verdict over some rows, of which others have to beat the first reference."""
    reference = int((rows["role"] == "reference").to_numpy().argmax())
    is_asked = (rows["role"] != "reading").to_numpy()
    metric = metric_of(rows["metric"].iloc[0])
    names = name_rows(rows)["label"].tolist()
    return Verdict(names, draws_of(rows), reference, is_asked, metric)


def _ranked_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each score of a method with an interval, in order; of several seeds their mean."""
    rows = frame.drop_duplicates(SCORE, keep="last")
    is_reference = rows["encoder"] == "none"  # such as the gold score
    return rows[has_interval(draws_of(rows)) & ~is_reference]


def _compared_tables(
    rows: pd.DataFrame, tasks: Sequence[Task]
) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Title, rows and a note of each table that has a verdict."""
    averaged = [(task.name, "spearman") for task in tasks if task.averaged]
    others = [(task.name, task.headline) for task in tasks if task.headline]
    has_average = rows["split"].isin(rows.loc[rows["task"] == AVERAGE, "split"])
    deciding = dict.fromkeys([(AVERAGE, "spearman"), *averaged, *others])
    for name, metric in deciding:
        is_deciding = (rows["task"] == name) & (rows["metric"] == metric)
        if (name, metric) in averaged:
            is_deciding &= ~has_average
        is_deciding &= rows["aggregation"] == main_aggregation(rows, metric)
        for split, table, note in _listed_rows(rows[is_deciding]):
            if len(table) > 1:
                yield f"{name} {metric}, {split}", table, note


def _listed_rows(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Split, rows and a note on their selection, for the scores of one task."""
    by_split = {split: rows[rows["split"] == split] for split in rows["split"].unique()}
    for split, table in by_split.items():
        count, note = len(table), ""
        if count > LISTED:
            chooser = "dev" if "dev" in by_split else split
            if split == "dev" and len(by_split) > 1:
                continue
            scores = by_split[chooser].set_index(METHOD)["value"]
            table = _best(table, scores)
            note = f"Of {count} rows the best {LISTED} on {chooser} were compared"
            if chooser == split:
                note += "; the one to use was chosen on the same pairs, its score is too high"
        yield split, table, note


def _best(table: pd.DataFrame, scores: pd.Series) -> pd.DataFrame:
    """The references, and the rows with the best scores on other pairs."""
    names = pd.MultiIndex.from_frame(table[METHOD])
    upward = metric_of(table["metric"].iloc[0]).upward
    ranks = (-upward * scores.reindex(names)).rank(method="first").to_numpy()
    return table[(ranks <= LISTED) | (table["role"] == "reference")]
