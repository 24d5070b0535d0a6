"""The table of ``evaluate`` and ``reproduce``: computed cell by cell, resumed, printed, written."""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from flowbert.evaluation import Cell, Row, load_results, merge_results, reference_rows, rows_of, run
from flowbert.evaluation.code import code_digest
from flowbert.evaluation.intervals import Intervals
from flowbert.evaluation.scores import ScoreFolder
from flowbert.evaluation.sweep import best_layers
from flowbert.report import differences_to_markdown, other_grid, print_grid, print_table, write_csv, write_markdown
from flowbert.tasks.protocol import AGGREGATIONS

_SHOWN = "wmean"
_SAVE_SECONDS = 2.0


class Table:
    """The rows of a results file, computed cell by cell and kept whenever some are there.

    Printed, averaged and ranked is what this run asks for; the file keeps the rows of earlier runs, too. A row of the
    file is taken over if setting and code are the same; one that other code computed is computed anew.

    Args:
        output: The file, which may hold rows of earlier runs.
        cells: What it is to hold, in this order.
        record: Fingerprint of the run.
    """

    def __init__(self, output: Path, cells: Sequence[Cell], record: dict[str, Any]) -> None:
        self.output = output
        self.cells = cells
        self.record = record
        self.scores = ScoreFolder(output.with_suffix(".scores"))
        self.rows_of: dict[str, list[Row]] = {}
        self._read()

    def _read(self) -> None:
        if not self.output.exists():
            return
        asked = {cell.setting: cell for cell in self.cells}
        earlier, _ = load_results(self.output)
        for row in earlier:
            cell = asked.get(row.setting)
            if cell is not None and row.code == code_digest() and self.scores.has(cell):
                # The encoder may lie elsewhere by now, and still be the same.
                self.rows_of.setdefault(row.setting, []).append(replace(row, **cell.columns))
        stale = {row.setting for row in earlier if row.setting in asked and row.code != code_digest()}
        if stale:
            print(f"note: {len(stale)} figures of {self.output} are of other code and computed anew", file=sys.stderr)
        if self.rows_of:
            print(f"{len(self.rows_of)} of {len(asked)} figures are in {self.output} already")

    def rows(self) -> list[Row]:
        """The rows there are, in the order of the cells."""
        return [
            row for setting in dict.fromkeys(c.setting for c in self.cells) for row in self.rows_of.get(setting, [])
        ]

    def compute(self, cells: Sequence[Cell] | None = None) -> None:
        """Compute what is missing, of all cells or of some; an interruption keeps what was finished."""
        asked = self.cells if cells is None else cells
        pending = list({cell.setting: cell for cell in asked if cell.setting not in self.rows_of}.values())
        saved = time.monotonic()
        try:
            with tqdm(total=len(pending), desc="Evaluating", unit=" figures", disable=None) as bar:
                for cell, measured in run(pending):
                    self.rows_of[cell.setting] = rows_of(measured, **cell.columns)
                    self.scores.add(cell, measured.items)
                    bar.update()
                    if time.monotonic() - saved > _SAVE_SECONDS:
                        self.save(self.rows())
                        saved = time.monotonic()
        finally:
            if self.rows_of:
                self.save(self.rows())

    def save(self, rows: Sequence[Row]) -> list[Row]:
        """Write results.json with these rows, and those of earlier runs behind them. Returns all of them."""
        return merge_results(self.output, rows, self.record)

    def finish(self, resamples: int, seed: int) -> list[Row]:
        """Add intervals, print everything, write all files. Returns the rows."""
        intervals = Intervals.of(self.cells if resamples else (), self.scores, resamples=resamples, seed=seed)
        references = reference_rows(dict.fromkeys(cell.task for cell in self.cells))
        # Intervals are of this run, or there are none.
        bare = [replace(row, low=math.nan, high=math.nan) for row in self.rows()]
        rows = intervals.rows([*bare, *references])
        choices_made = [choice.text() for choice in best_layers(rows, _SHOWN)]
        verdicts = intervals.verdicts(_SHOWN)
        left_out = intervals.left_out(_SHOWN)
        averages = {name: _ends(intervals, name) for name in AGGREGATIONS}
        self._print(rows, averages[_SHOWN], [*verdicts, *left_out, *choices_made])
        self.record |= {"bootstrap": {"resamples": resamples, "seed": seed}, "verdicts": verdicts}
        everything = self.save(rows)
        kept = _kept(everything[len(rows) :], self.output)
        sections = {
            f"Which method to use ({_SHOWN})": [*verdicts, *left_out],
            "Which layers to use": choices_made,
            "Also in the file": kept,
        }
        markdown = write_markdown(
            self.output.with_suffix(".md"),
            rows,
            averages,
            {title: lines for title, lines in sections.items() if lines},
            _differences(intervals),
        )
        table = write_csv(self.output.with_suffix(".csv"), everything)
        for line in kept:
            print(line)
        print(f"written: {self.output}, {markdown}, {table}")
        return rows

    def _print(
        self, rows: Sequence[Row], averages: dict[tuple[str, ...], tuple[float, float]], lines: list[str]
    ) -> None:
        if any(row.metric == "spearman" for row in rows):
            print_table(rows, _SHOWN, averages=averages)
        others = other_grid(rows)
        if others is not None:
            print_grid(others)
        for line in lines:
            print(line)


def _kept(rows: Sequence[Row], output: Path) -> list[str]:
    if not rows:
        return []
    other = sum(row.code != code_digest() for row in rows)
    told = f", {other} of them by other code" if other else ""
    return [f"{len(rows)} figures of earlier runs are kept in {output}{told}"]


def _ends(intervals: Intervals, aggregation: str) -> dict[tuple[str, ...], tuple[float, float]]:
    found = intervals.averages(aggregation)
    ends = {key: (interval.low, interval.high) for key, interval in found.items()}
    # A map that is not fitted here stands under its own corpus, or none.
    ready = {(cell.method.shown, cell.method.fitted_on) for cell in intervals.cells if cell.corpus is None}
    for (*group, _, method), value in list(ends.items()):
        ends |= {(*group, fitted_on, method): value for name, fitted_on in ready if name == method}
    return ends


def _differences(intervals: Intervals) -> list[str]:
    """A table of differences for each group, in Markdown."""
    return [
        differences_to_markdown(
            f"Differences x 100 with 95% intervals, {title}",
            names,
            [["" if interval is None else interval.text() for interval in row] for row in cells],
        )
        for title, (names, cells) in intervals.differences(_SHOWN).items()
    ]
