"""Batches of vectors in memory or in files."""

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.arrays import Floats, Indices
from flowbert.errors import UserError
from flowbert.numbers import Seed
from flowbert.options import RowsOptions
from flowbert.seeding import Stream
from flowbert.training.sampler import BatchDataModule, same_for_all
from flowbert.vectors import Vectors, as_vectors

# Fitting rows whose likelihood is logged, as that of held-out rows is.
_LIKELIHOOD_SAMPLE = 2048


class RowsDataModule(BatchDataModule):
    """Batches of vectors, and samples for the initialization and the likelihood of a flow.

    Loaders return numpy arrays ``(B, D)``, because a Trainer in half precision would round tensors.
    A module receives float32 tensors, copied to an accelerator during the previous step.

    Args:
        rows: N vectors of size D: :class:`~flowbert.vectors.Vectors`, an array, a tensor, or the
            path of a file.
        seed: Seed of the held-out rows, the samples and the order.
        name: Name of the rows in messages.
        digest: Digest of the sentences behind the rows; None for the digest of their values. A
            checkpoint of rows with another digest is an error.
        **options: Fields of :class:`flowbert.options.RowsOptions`.

    Attributes:
        all_rows: All rows.
        rows: Rows that are fitted on.
        held_out_rows: Rows that are held out.

    Raises:
        UserError: If an argument is outside of its limits, or fewer than 2 rows are left.

    Example:
        >>> data = RowsDataModule(np.eye(10, 4), batch_size=4)
        >>> [batch.shape for batch in data.train_dataloader()]
        [(4, 4), (4, 4)]
    """

    name: str

    def __init__(
        self,
        rows: Any,
        *,
        seed: Seed = 0,
        name: str = "",
        digest: str | None = None,
        **options: Any,
    ) -> None:
        chosen = RowsOptions(**options)
        # Lightning reads the hyper-parameters from this variable.
        options = vars(chosen)
        super().__init__(chosen, seed)
        self.held_out = chosen.held_out
        self.init_size = chosen.init_size
        self.name = name
        self.all_rows = as_vectors(rows)
        self._digest = digest
        held = self._draw_held_out()
        fitting = np.setdiff1d(np.arange(len(self.all_rows)), held)
        self.rows = self.all_rows.subset(fitting) if len(held) else self.all_rows
        self.held_out_rows = self.all_rows.subset(held)
        if len(fitting) < 2:
            raise UserError(
                f"received {len(fitting)} to fit on; expected at least 2",
                argument=name or "rows",
            )

    def _draw_held_out(self) -> Indices:
        """Indices of the held-out rows."""
        size = round(self.held_out * len(self.all_rows))
        chosen = self.all_rows.sample(size, Stream(self.seed, "split"))
        if size == 0:
            return chosen
        held_bytes = {row.tobytes() for row in self.all_rows[chosen]}
        rows = itertools.chain.from_iterable(self.all_rows.blocks())
        return np.flatnonzero([row.tobytes() in held_bytes for row in rows])

    def batch(self, epoch: int, indices: list[int]) -> Floats:
        """Rows ``(B, D)``, the same in every epoch."""
        return self.rows[indices]

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Tensor:
        """The batch as a tensor that Lightning copies asynchronously."""
        rows = torch.as_tensor(batch)
        return rows.pin_memory() if self.pins else rows

    def describe(self) -> dict[str, Any]:
        """Name, digest and number of the rows that are fitted on."""
        digest = self.all_rows.digest if self._digest is None else self._digest
        return {"name": self.name, "digest": digest, "fitted": len(self.rows)}

    def init_sample(self) -> Tensor:
        """Rows to initialize the flow with, ``(n, D)``, equal on all processes."""
        indices = self.rows.sample(self.init_size, Stream(self.seed, "start sample"))
        return torch.from_numpy(self.rows[indices])

    def likelihood_rows(self) -> Vectors:
        """Fitted rows whose likelihood is logged: as many as held out, at least 2,048 or all."""
        size = max(_LIKELIHOOD_SAMPLE, len(self.held_out_rows))
        indices = np.sort(self.rows.sample(size, Stream(self.seed, "sample")))
        return self.rows.subset(indices)

    def val_dataloader(self) -> list[DataLoader[Any]]:
        """Batches of the likelihood sample, and of the held-out rows if there are any."""
        parts = [self.likelihood_rows(), self.held_out_rows]
        size, options = 4 * self.batch_size, self.loader_options()
        return [same_for_all(part, size, **options) for part in parts if len(part)]

    def predict_dataloader(self) -> DataLoader[Any]:
        """All rows in order; Lightning divides them among several processes."""
        size, options = 4 * self.batch_size, self.loader_options()
        rows: Any = self.all_rows
        return DataLoader(rows, batch_size=size, **options)
