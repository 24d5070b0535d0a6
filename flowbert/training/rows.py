"""Vectors to fit on: from a cache of embeddings, a file or memory alike."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from flowbert.arrays import Floats, Indices
from flowbert.errors import UserError
from flowbert.seeding import Stream
from flowbert.training.base import check_limits
from flowbert.training.sampler import BatchDataModule, same_for_all

_BLOCK = 8192  # rows in memory at once
_LIKELIHOOD_SAMPLE = (
    2048  # fitting rows whose likelihood is logged beside that of held-out ones
)


class Rows(Dataset[Any]):
    """Some of the rows of an array or file, of which only those asked for are in memory.

    Args:
        source: N vectors of size D, with ``shape`` and indexing by an array of integers.
        index: Which of them; None for all.

    Attributes:
        shape: ``(n, D)``.
    """

    def __init__(self, source: Any, index: Indices | None = None) -> None:
        count, dim = source.shape
        self._source = source
        self._index = np.arange(count) if index is None else index
        self._all = index is None
        self.shape = (len(self._index), dim)

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, numbers: Any) -> Floats:
        """Rows by an array of integers, ``(n, D)``, float32."""
        return np.asarray(self._source[self._index[numbers]], dtype=np.float32)

    def __getitems__(self, numbers: list[int]) -> Floats:
        """Rows of a batch of a DataLoader."""
        return self[np.asarray(numbers, dtype=np.int64)]

    def blocks(self, size: int = _BLOCK) -> Iterator[Floats]:
        """All of them in order, in blocks ``(n, D)``."""
        if self._all and hasattr(self._source, "blocks"):
            yield from self._source.blocks(size)
            return
        for start in range(0, len(self), size):
            yield self[np.arange(start, min(start + size, len(self)))]

    def sample(self, size: int, stream: Stream) -> Indices:
        """Numbers of at most ``size`` of them, drawn without replacement."""
        return stream.rng().permutation(len(self))[:size]

    def count_distinct(self, limit: int) -> int:
        """Number of distinct rows, counted up to a limit."""
        distinct: set[bytes] = set()
        for block in self.blocks():
            distinct.update(row.tobytes() for row in block)
            if len(distinct) >= limit:
                return limit
        return len(distinct)


class RowsDataModule(BatchDataModule):
    """Batches of vectors, and samples of them for the start and the likelihood of a flow.

    Batches are numpy arrays ``(B, D)``: a Trainer in half precision rounds tensors.

    Args:
        rows: N vectors of size D, with ``shape`` and indexing by an array of integers: an array, a
            memory map, or lazy rows of a cache or file.
        held_out: Share of the rows that is not fitted on, in [0, 0.5], for the held-out
            likelihood. Rows equal to one of them are held out, too.
        batch_size: Rows of a batch on one process.
        start_size: Rows that the flow starts from.
        workers: Processes that read batches ahead; 0 for none.
        seed: Seed of the held-out rows, the samples and the order.
        name: Name of the rows in messages.
        digest: Digest of the rows: a checkpoint of other rows is refused.

    Attributes:
        rows: The rows that are fitted on.
        held_out_rows: The others.

    Raises:
        UserError: If an argument is outside of its limits, or fewer than 2 rows are left.

    Example:
        >>> data = RowsDataModule(np.eye(10, 4), batch_size=4)
        >>> [batch.shape for batch in data.train_dataloader()]
        [(4, 4), (4, 4)]
    """

    def __init__(
        self,
        rows: Any,
        *,
        held_out: float = 0.0,
        batch_size: int = 64,
        start_size: int = 1024,
        workers: int = 0,
        seed: int = 0,
        name: str = "",
        digest: str = "",
    ) -> None:
        super().__init__(batch_size=batch_size, workers=workers, seed=seed)
        check_limits(held_out=held_out, start_size=start_size)
        if len(rows.shape) != 2:
            raise ValueError(
                f"rows: received the shape {tuple(rows.shape)}; expected (N, D)"
            )
        self.held_out = held_out
        self.start_size = start_size
        self.name = name
        self.digest = digest
        self.all_rows = Rows(rows)
        fitting, held = self._split()
        self.rows = Rows(rows, None if len(held) == 0 else fitting)
        self.held_out_rows = Rows(rows, held)
        if len(fitting) < 2:
            raise UserError(
                f"received {len(fitting)} to fit on; expected at least 2",
                argument=name or "rows",
            )

    def _split(self) -> tuple[Indices, Indices]:
        """Numbers of the rows to fit on and of those held out."""
        count = len(self.all_rows)
        numbers = np.arange(count)
        chosen = self.all_rows.sample(
            round(self.held_out * count), Stream(self.seed, "split")
        )
        if len(chosen) == 0:
            return numbers, chosen
        held_bytes = {row.tobytes() for row in self.all_rows[chosen]}
        rows = itertools.chain.from_iterable(self.all_rows.blocks())
        is_held = np.array([row.tobytes() in held_bytes for row in rows])
        return numbers[~is_held], numbers[is_held]

    def batch(self, epoch: int, indices: list[int]) -> Floats:
        """Rows ``(B, D)``, the same in every epoch."""
        return self.rows[np.asarray(indices)]

    def describe(self) -> dict[str, Any]:
        """Name, digest and number of the rows that are fitted on."""
        return {"name": self.name, "digest": self.digest, "fitted": len(self.rows)}

    def start_sample(self) -> Tensor:
        """Rows that the flow starts from, ``(n, D)``, equal on all processes."""
        numbers = self.rows.sample(self.start_size, Stream(self.seed, "start sample"))
        return torch.from_numpy(self.rows[numbers])

    def likelihood_rows(self) -> Rows:
        """Fitting rows whose likelihood is logged: as many as held out, at least 2,048 or all."""
        size = max(_LIKELIHOOD_SAMPLE, len(self.held_out_rows))
        numbers = np.sort(self.rows.sample(size, Stream(self.seed, "sample")))
        return Rows(self.rows, numbers)

    def val_dataloader(self) -> list[DataLoader[Any]]:
        """Batches of the likelihood sample, and of the held-out rows if there are any."""
        parts = [self.likelihood_rows(), self.held_out_rows]
        size, options = 4 * self.batch_size, self.loader_options()
        return [same_for_all(part, size, **options) for part in parts if len(part)]

    def predict_dataloader(self) -> DataLoader[Any]:
        """All rows in order; Lightning divides them among several processes."""
        size, options = 4 * self.batch_size, self.loader_options()
        return DataLoader(self.all_rows, batch_size=size, **options)
