"""Vectors of some sentences under every method, kept beside a results file: what its page measures the space on."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from flowbert.data.corpus import sentences_digest
from flowbert.evaluation.code import code_digest
from flowbert.evaluation.grid import Cell
from flowbert.io.container import read_container, write_container
from flowbert.io.digest import digest_json
from flowbert.methods.base import FittedMap
from flowbert.seeding import Stream

MEASURED = 1000
"""Sentences: enough for every figure of a page, few enough for it to take seconds."""
FEWEST = 50  # of fewer a page says nothing
_FORMAT = "flowbert-sample-vectors-1"


class SampleVectors:
    """A folder with the vectors of a sample, a file for each method.

    The sample is of the first task under the first embeddings; of a method with several corpora or seeds the first one
    counts. A flawed map has no vectors.

    Args:
        folder: The folder; made when the first vectors are kept.
        cells: What is compared, at least one cell.

    Attributes:
        cells: Method as shown -> its cell.
        sentences: At most :data:`MEASURED`, in random order.
    """

    def __init__(self, folder: Path, cells: Sequence[Cell]) -> None:
        first = cells[0]
        self.folder = folder
        self.cells: dict[str, Cell] = {}
        for cell in cells:
            if cell.source is first.source and cell.task is first.task:
                self.cells.setdefault(cell.method.shown, cell)
        self.sentences = drawn_sentences(first.task.sentences(), seed=0)
        self._digest = sentences_digest(self.sentences)

    def keep(self, cell: Cell, fitted: FittedMap) -> None:
        """Map the sample and keep it, if this is the cell of its method."""
        chosen = self.cells.get(cell.method.shown)
        if chosen is None or chosen.setting != cell.setting or fitted.flaw is not None:
            return
        vectors = torch.as_tensor(cell.source.embed(self.sentences))
        if fitted.transform is not None:
            vectors = fitted.transform(vectors)
        write_container(self._path(cell), _FORMAT, {"vectors": vectors.float().cpu()})

    def vectors(self) -> dict[str, Tensor]:
        """Method as shown -> vectors of the sentences, ``(N, k)``, of this run or an earlier one; those there are.

        Raises:
            UserError: If a file is damaged.
        """
        paths = {name: self._path(cell) for name, cell in self.cells.items()}
        found = {name: path for name, path in paths.items() if path.is_file()}
        return {
            name: read_container(path, _FORMAT, "sample of vectors", "remove it")[1]["vectors"]
            for name, path in found.items()
        }

    def _path(self, cell: Cell) -> Path:
        key = {"setting": cell.setting, "sentences": self._digest, "code": code_digest()}
        return self.folder / f"{digest_json(key, compact=True)}.safetensors"


def drawn_sentences(sentences: Iterable[str], seed: int) -> list[str]:
    """Distinct sentences in random order, at most :data:`MEASURED`."""
    distinct = list(dict.fromkeys(sentences))
    order = Stream(seed, "sample").rng().permutation(len(distinct))[:MEASURED]
    return [distinct[i] for i in order.tolist()]
