"""Values of items kept beside a results file: intervals need no second computation."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flowbert.evaluation.code import code_digest
from flowbert.evaluation.grid import Cell
from flowbert.io.container import read_container, write_container
from flowbert.io.digest import digest_json
from flowbert.io.lock import locked

Items = Mapping[str, NDArray[np.float64]]
"""Values of a task's items (similarities, values by query) by setting."""
_FORMAT = "flowbert-item-scores-3"


class ScoreFolder:
    """A folder with one file per embeddings and task, which holds every method's values of the items by setting.

    Args:
        folder: The folder; made when the first scores are saved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._items: dict[Path, Items] = {}
        self._unsaved: dict[Path, Items] = {}

    def add(self, cell: Cell, items: NDArray[np.float64]) -> None:
        """Keep a cell's values; :meth:`save` brings them to the disk.

        Raises:
            ValueError: If their shape is not that of the task's items.
        """
        if items.shape != cell.task.item_shape:
            raise ValueError(f"items of {cell.task.name} have the shape {items.shape}; needed: {cell.task.item_shape}")
        path = self._path(cell)
        self._items[path] = {**self._load(path), cell.setting: items}
        self._unsaved[path] = {**self._unsaved.get(path, {}), cell.setting: items}

    def save(self) -> None:
        """Write what was added since the last time, each file once."""
        if not self._unsaved:
            return
        with locked(self.folder):  # another process may have added to a file
            for path, added in self._unsaved.items():
                known = load_items(path) if path.is_file() else {}
                self._items[path] = {**known, **added}
                save_items(path, self._items[path])
        self._unsaved = {}

    def has(self, cell: Cell) -> bool:
        """Whether a cell's values are there."""
        return cell.setting in self._load(self._path(cell))

    def items(self, cells: Sequence[Cell]) -> Items:
        """Values of the cells of one task, by setting; those that are there."""
        return {cell.setting: self._load(self._path(cell))[cell.setting] for cell in cells if self.has(cell)}

    def _path(self, cell: Cell) -> Path:
        # What other code computed lies in other files.
        key = {"source": cell.source.key, "job": cell.task.key, "code": code_digest()}
        return self.folder / f"{digest_json(key, compact=True)}.safetensors"

    def _load(self, path: Path) -> Items:
        if path not in self._items and path.is_file():
            self._items[path] = load_items(path)
        return self._items.get(path, {})


def save_items(path: str | Path, items: Items) -> Path:
    """Write one safetensors file. Returns the path."""
    # Numbered: a name may hold what a tensor's name may not.
    tensors = {f"values.{number}": values for number, values in enumerate(items.values())}
    return write_container(path, _FORMAT, tensors, {"names": list(items)})


def load_items(path: str | Path) -> Items:
    """Read a file of :func:`save_items`.

    Raises:
        UserError: If the file is missing, damaged or another one.
    """
    metadata, tensors = read_container(path, _FORMAT, "table of item scores", "evaluate again")
    return {name: tensors[f"values.{number}"].numpy() for number, name in enumerate(metadata["names"])}
