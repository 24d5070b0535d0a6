"""Cells computed one by one and saved on the way; what an earlier run computed is taken over from its results file."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from flowbert.errors import UserError
from flowbert.evaluation.code import code_digest
from flowbert.evaluation.grid import Cell, encode, run, shares
from flowbert.evaluation.results import Row, load_results, merge_results, rows_of
from flowbert.evaluation.sample_vectors import SampleVectors
from flowbert.evaluation.scores import ScoreFolder
from flowbert.methods.base import FittedMap
from flowbert.processes import alone, current, gathered
from flowbert.progress import say, tracked
from flowbert.tasks.base import Measured

_SAVE_SECONDS = 2.0


class ResumableRun:
    """The cells of a run and their rows, saved in a results file whenever some are there.

    A row of the file is taken over if setting and code are the same; one that other code computed is computed anew.
    Rows of other cells stay in the file. The current processes share the work, and the first of them alone reads and
    writes.

    Args:
        output: The results file, which may hold rows of earlier runs; the similarities lie in a folder beside it.
        cells: What is to be computed, in the order of the rows.
        record: Fingerprint of the run.
        with_vectors: Whether vectors of a sample are kept, too, for a page.

    Attributes:
        by_setting: Setting of a cell -> its rows.
        scores: The similarities.
        sample: The vectors; None without.
    """

    def __init__(
        self, output: Path, cells: Sequence[Cell], record: dict[str, Any], *, with_vectors: bool = False
    ) -> None:
        self.output = output
        self.cells = cells
        self.record = record
        self.scores = ScoreFolder(output.with_suffix(".scores"))
        self.sample = SampleVectors(self.scores.folder, cells) if with_vectors and cells else None
        self.by_setting: dict[str, list[Row]] = {}
        if current().is_global_zero and output.exists():
            self._take_over(load_results(output)[0])

    def _take_over(self, earlier: Sequence[Row]) -> None:
        asked = {cell.setting: cell for cell in self.cells}
        mine = [row for row in earlier if row.setting in asked]
        for row in mine:
            cell = asked[row.setting]
            if row.code == code_digest() and self.scores.has(cell):
                # The encoder may lie elsewhere by now, and still be the same.
                self.by_setting.setdefault(row.setting, []).append(replace(row, **cell.columns))
        stale = {row.setting for row in mine if row.code != code_digest()}
        if stale:
            say(f"note: {len(stale)} figures of {self.output} are of other code and computed anew")
        if self.by_setting:
            say(f"note: {len(self.by_setting)} of {len(asked)} figures are in {self.output} already")

    def rows(self) -> list[Row]:
        """The rows there are, in the order of the cells."""
        settings = dict.fromkeys(cell.setting for cell in self.cells)
        return [row for setting in settings for row in self.by_setting.get(setting, [])]

    def compute(self, cells: Sequence[Cell] | None = None) -> None:
        """Compute what is missing, of all cells or of some; an interruption loses nothing that was finished.

        Every process has all figures in the end, but for those of the file.

        Raises:
            UserError: If something cannot be computed, or the processes were not asked for the same.
        """
        processes = current()
        asked = {cell.setting: cell for cell in (self.cells if cells is None else cells)}
        pending = self._missing(asked)
        saved = time.monotonic()
        if processes.world_size > 1:
            encode(pending)
        try:
            with alone():
                mine = self._found(shares(pending, processes.world_size)[processes.global_rank])
                found = gathered(processes, mine, _SAVE_SECONDS)
                for setting, measured, vectors in tracked(found, "Evaluating", "figures", len(pending)):
                    cell = asked[setting]
                    if processes.is_global_zero:  # before the row, which says that all of it is there
                        if self.sample is not None and vectors is not None:
                            self.sample.keep(cell, vectors)
                        self.scores.add(cell, measured.items)
                    self.by_setting[setting] = rows_of(measured, **cell.columns)
                    if processes.is_global_zero and time.monotonic() - saved > _SAVE_SECONDS:
                        self.save(self.rows())
                        saved = time.monotonic()
        finally:
            if self.by_setting and processes.is_global_zero:
                self.save(self.rows())

    def _missing(self, asked: dict[str, Cell]) -> list[Cell]:
        """The cells without figures, as the first process knows them from the file."""
        here = [setting for setting in asked if setting not in self.by_setting]
        code, missing = current().broadcast((code_digest(), here))
        if code != code_digest() or not asked.keys() >= set(missing):
            raise UserError(
                "processes: this one was asked for other figures than the first, or has other code; allowed: the same "
                "command, files and code everywhere"
            )
        return [asked[setting] for setting in missing]

    def _found(self, cells: Sequence[Cell]) -> Iterator[tuple[str, Measured, Tensor | None]]:
        """Settings of cells with their figures, and the mapped sample of those that it is kept of."""
        sampled: dict[str, Tensor | None] = {}

        def look(cell: Cell, fitted: FittedMap) -> None:
            sampled[cell.setting] = None if self.sample is None else self.sample.of(cell, fitted)

        for cell, measured in run(cells, look):
            yield cell.setting, measured, sampled.pop(cell.setting)

    def save(self, rows: Sequence[Row]) -> list[Row]:
        """Write the results file with these rows, and those of earlier runs behind them. Returns all of them.

        The similarities are written first: whatever ends the process, those of every row in the file are there.
        """
        self.scores.save()
        return merge_results(self.output, rows, self.record | {"rows": len(rows)})
