"""Vectors of some sentences under every method, kept beside a results file: what its page measures the space on."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from flowbert.data.corpus import sentences_digest
from flowbert.errors import UserError
from flowbert.evaluation.code import code_digest
from flowbert.evaluation.grid import Cell
from flowbert.io.container import read_container, write_container
from flowbert.io.digest import digest_json
from flowbert.methods.base import FittedMap
from flowbert.seeding import Stream

MEASURED = 1000
"""Sentences: enough for every figure of a page, few enough for it to take seconds."""
FEWEST = 50  # of fewer a page says nothing
_NAME = "sample-"
_FORMAT = "flowbert-sample-vectors-1"


class SampleVectors:
    """Vectors of a sample under every method; those of maps that are fitted here are kept in a folder, a file each.

    The sample is of the first task with enough sentences, under the first embeddings; of a method with several corpora
    or seeds the first one counts. A flawed map has no vectors. Files of other code are removed.

    Args:
        folder: The folder; made when the first vectors are kept.
        cells: What is compared, at least one cell.

    Attributes:
        cells: Method as shown -> its cell.
        sentences: At most :data:`MEASURED`, in random order.
    """

    def __init__(self, folder: Path, cells: Sequence[Cell]) -> None:
        enough = (cell for cell in cells if len(set(cell.task.sentences())) >= FEWEST)
        first = next(enough, cells[0])
        self.folder = folder
        self.cells: dict[str, Cell] = {}
        for cell in cells:
            if cell.source is first.source and cell.task is first.task:
                self.cells.setdefault(cell.method.shown, cell)
        self.sentences = drawn_sentences(first.task.sentences(), seed=0)
        self._digest = sentences_digest(self.sentences)

    def of(self, cell: Cell, fitted: FittedMap) -> Tensor | None:
        """Map the sample, ``(N, k)``, if this is the cell of its method and the map is fitted here."""
        chosen = self.cells.get(cell.method.shown)
        if chosen is None or chosen.setting != cell.setting or cell.method.build is None or fitted.flaw is not None:
            return None
        return self._mapped(cell, fitted)

    def keep(self, cell: Cell, vectors: Tensor) -> None:
        """Keep the mapped sample of a cell."""
        for file in self.folder.glob(f"{_NAME}*"):
            if not file.name.startswith(f"{_NAME}{code_digest()}-"):
                file.unlink(missing_ok=True)
        write_container(self._path(cell), _FORMAT, {"vectors": vectors})

    def vectors(self) -> dict[str, Tensor]:
        """Method as shown -> vectors of the sentences, ``(N, k)``.

        What an earlier run fitted without keeping any, or a file that is damaged, is left out.
        """
        found = {}
        for name, cell in self.cells.items():
            path, method = self._path(cell), cell.method
            if method.build is None and method.flaw is None:
                found[name] = self._mapped(cell, FittedMap(method.ready))
            elif method.build is not None and path.is_file():
                with suppress(UserError):
                    found[name] = read_container(path, _FORMAT, "sample of vectors", "remove it")[1]["vectors"]
        return found

    def _mapped(self, cell: Cell, fitted: FittedMap) -> Tensor:
        vectors = torch.as_tensor(cell.source.embed(self.sentences))
        return (vectors if fitted.transform is None else fitted.transform(vectors)).float().cpu()

    def _path(self, cell: Cell) -> Path:
        digest = digest_json({"setting": cell.setting, "sentences": self._digest}, compact=True)
        return self.folder / f"{_NAME}{code_digest()}-{digest}.safetensors"


def drawn_sentences(sentences: Iterable[str], seed: int) -> list[str]:
    """Distinct sentences in random order, at most :data:`MEASURED`."""
    distinct = list(dict.fromkeys(sentences))
    order = Stream(seed, "sample").rng().permutation(len(distinct))[:MEASURED]
    return [distinct[i] for i in order.tolist()]
