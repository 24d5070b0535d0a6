"""A finished comparison: its rows with 95% confidence intervals, which method to use, which layers to use."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flowbert.evaluation.code import code_digest
from flowbert.evaluation.grid import reference_rows
from flowbert.evaluation.intervals import Intervals
from flowbert.evaluation.results import Row
from flowbert.evaluation.resumable import ResumableRun
from flowbert.evaluation.sweep import LayerChoice, best_layers
from flowbert.tasks.protocol import AGGREGATIONS

AGGREGATION = "wmean"
"""The aggregation that is shown first, and that verdicts and choices go by."""


@dataclass(frozen=True)
class Comparison:
    """Methods side by side.

    Attributes:
        rows: One row per figure, with its interval if there was any resampling.
        intervals: The resampled figures: intervals of averages and of differences, verdicts.
        earlier: Rows of earlier runs that the results file holds, too.
    """

    rows: Sequence[Row]
    intervals: Intervals
    earlier: Sequence[Row] = field(default=())

    @classmethod
    def of(cls, run: ResumableRun, *, resamples: int = 1000, seed: int = 0) -> "Comparison":
        """Add intervals, and what stands beside the methods, to a computed run; save its rows with them."""
        intervals = Intervals.of(run.cells if resamples else (), run.scores, resamples=resamples, seed=seed)
        references = reference_rows(dict.fromkeys(cell.task for cell in run.cells))
        # Intervals are of this run, or there are none.
        rows = [replace(row, low=math.nan, high=math.nan) for row in run.rows()]
        rows = intervals.rows([*rows, *references])
        found = cls(rows, intervals)
        run.record |= {"finished": True, "bootstrap": {"resamples": resamples, "seed": seed}, **found.record()}
        return replace(found, earlier=run.save(rows)[len(rows) :])

    def record(self) -> dict[str, Any]:
        """What no row says, as JSON values: verdicts, intervals of averages, differences of any two methods."""
        averages = {name: [[*key, *ends] for key, ends in self.averages(name).items()] for name in AGGREGATIONS}
        differences = {
            title: {
                "methods": list(names),
                "cells": [["" if each is None else each.text() for each in row] for row in rows],
            }
            for title, (names, rows) in self.intervals.differences(AGGREGATION).items()
        }
        return {"verdicts": self.verdicts, "averages": averages, "differences": differences}

    @cached_property
    def verdicts(self) -> list[str]:
        """Which method to use, a line for each group of comparable ones, and what is left out of that."""
        return [*self.intervals.verdicts(AGGREGATION), *self.intervals.left_out(AGGREGATION)]

    @cached_property
    def layer_choices(self) -> list[LayerChoice]:
        """Which layers to use, where several were compared on a development and a test split."""
        return best_layers(self.rows, AGGREGATION)

    def averages(self, aggregation: str) -> dict[tuple[str, ...], tuple[float, float]]:
        """Interval of each average over tasks by encoder, layers, pooling, split, corpus, method."""
        found = {key: (each.low, each.high) for key, each in self.intervals.averages(aggregation).items()}
        # A map that is not fitted here stands beside every corpus, and its own rows name its own, or none.
        fitted_on = {c.method.shown: c.method.fitted_on for c in self.intervals.cells if c.corpus is None}
        ready = {
            (*group, fitted_on[method], method): ends
            for (*group, _, method), ends in found.items()
            if method in fitted_on
        }
        return found | ready

    def sections(self) -> dict[str, list[str]]:
        """What is said below the tables: title -> lines."""
        other = sum(row.code != code_digest() for row in self.earlier)
        by_other_code = f", {other} of them by other code" if other else ""
        earlier = f"{len(self.earlier)} figures of earlier runs stay in the results file{by_other_code}"
        found = {
            f"Which method to use ({AGGREGATION})": self.verdicts,
            "Which layers to use": [choice.text() for choice in self.layer_choices],
            "Also in the file": [earlier] if self.earlier else [],
        }
        return {title: lines for title, lines in found.items() if lines}
