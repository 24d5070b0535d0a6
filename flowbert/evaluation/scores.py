"""Similarities, or values by query, kept beside a results file: intervals need no second computation."""

from collections.abc import Sequence
from pathlib import Path

from flowbert.evaluation.code import code_digest
from flowbert.evaluation.grid import Cell
from flowbert.evaluation.results import config_hash
from flowbert.io.lock import locked
from flowbert.tasks.base import Kept
from flowbert.tasks.pairs import ScoredPairs


class ScoreFolder:
    """A folder with one file per embeddings and job, which holds every method's similarities by setting.

    Args:
        folder: The folder; made when the first scores are added.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pairs: dict[Path, ScoredPairs] = {}

    def add(self, cell: Cell, kept: Kept) -> None:
        """Keep a cell's similarities, or values by query."""
        path, job = self._path(cell), cell.job
        names, gold = job.scored()
        new = ScoredPairs(job.name, job.split, names, gold, {cell.setting: kept})
        with locked(self.folder):  # another process may have added to the file
            known = ScoredPairs.load(path) if path.is_file() else None
            self._pairs[path] = new if known is None else known.joined(new)
            self._pairs[path].save(path)

    def has(self, cell: Cell) -> bool:
        """Whether a cell's similarities are there."""
        known = self._load(self._path(cell))
        return known is not None and cell.setting in known.predicted

    def pairs(self, cells: Sequence[Cell]) -> ScoredPairs | None:
        """What is kept of cells of one job, by setting; None for a job without any."""
        found: ScoredPairs | None = None
        for path in dict.fromkeys(self._path(cell) for cell in cells):
            known = self._load(path)
            if known is not None:
                found = known if found is None else found.joined(known)
        if found is None:
            return None
        predicted = {cell.setting: found.predicted[cell.setting] for cell in cells}
        return ScoredPairs(found.task, found.split, found.subsets, found.gold, predicted)

    def _path(self, cell: Cell) -> Path:
        # What other code computed lies in other files.
        key = {"source": cell.source.key, "job": cell.job.key, "code": code_digest()}
        return self.folder / f"{config_hash(key)}.safetensors"

    def _load(self, path: Path) -> ScoredPairs | None:
        if path not in self._pairs and path.is_file():
            self._pairs[path] = ScoredPairs.load(path)
        return self._pairs.get(path)
