"""The Lightning data module of a fit on vectors from elsewhere: all or some rows to fit on, pairs by row number."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.calibration.few_rows import DistinctRows
from flowbert.data.files import as_list
from flowbert.data.sts import load_task
from flowbert.datamodules.batches import in_order
from flowbert.datamodules.embedding import SCALE_SAMPLE, EmbeddingDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.errors import UserError
from flowbert.io.digest import digest_bytes, digest_json, tensor_bytes
from flowbert.seeding import Stream
from flowbert.vectors import Vectors, VectorTable


class VectorDataModule(EmbeddingDataModule):
    """Rows of a table to fit on, each an example, beside pairs of row numbers to measure.

    A closed-form map is fitted in one pass over the table, block by block. Batches of a flow are read by row number;
    where the format has no single rows (parquet, arrow) they come from a temporary file of the rows.

    Args:
        vectors: The table, a file or an array ``(N, D)``.
        tasks: Files of pairs by row number (csv, tsv, jsonl, parquet); none: nothing is measured.
        held_out: Share of the rows kept out of the fit for the held-out likelihood, in [0, 0.5].
        batch_size: Rows per step and process.
        start_size: Rows that drive the data-dependent start of the flow.
        max_sentences: Fit on a random subset of this many rows; default: all.
        workers: Processes that read batches ahead; 0: none.
        seed: Seed of the subset, the held-out split and the shuffling.

    Raises:
        UserError: If an option is outside what is allowed, or the vectors are not there or bad.
    """

    def __init__(
        self,
        vectors: Vectors | VectorTable,
        tasks: str | Sequence[str] = (),
        *,
        held_out: float = 0.02,
        batch_size: int = 64,
        start_size: int = 1024,
        max_sentences: int | None = None,
        workers: int = 0,
        seed: int = 0,
    ) -> None:
        self.table = VectorTable.open(vectors)
        super().__init__(
            self.table,
            CorpusOptions(max_sentences=max_sentences),
            held_out=held_out,
            batch_size=batch_size,
            start_size=start_size,
            workers=workers,
            seed=seed,
        )
        self._task_names = as_list(tasks or None, "tasks")
        self._sample: Tensor | None = None

    # ---------------------------------------------------------------- set-up

    def load(self) -> None:
        """Read the pairs and choose the rows; no row is read."""
        if len(self._fit_index):
            return
        self.tasks = [load_task(name, vectors=len(self.table)) for name in self._task_names]
        size = min(self.options.max_sentences or len(self.table), len(self.table))
        chosen = np.arange(len(self.table))
        if size < len(chosen):
            chosen = np.sort(Stream(self.seed, "subset").rng().permutation(chosen)[:size])
        held = Stream(self.seed, "split").rng().permutation(size)[: round(self.held_out * size)]
        mask = np.zeros(size, dtype=bool)
        mask[held] = True
        self._fit_index, self._held_index = chosen[~mask], chosen[mask]
        rows = len(self._fit_index)
        if rows < 2:
            raise UserError(f"vectors: {self.table.name} has {rows} rows to fit on; allowed: at least 2")

    def setup(self, stage: str) -> None:
        """Have the rows where a flow's batches find them fast."""
        del stage
        self.load()
        if self._trains:
            self.table = self.table.by_number()

    @property
    def _trains(self) -> bool:
        return self.trainer is not None and bool(getattr(self.trainer.lightning_module, "trained", True))

    # ------------------------------------------------------------------ rows

    def embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Vectors of row numbers, ``(N, D)``."""
        return torch.from_numpy(self.table.encode(sentences))

    def distinct_examples(self) -> int:
        """Number of distinct rows that are fitted on, as far as it matters: exact up to D + 1."""
        found = DistinctRows(self.table.dim + 1)
        for start in range(0, len(self._fit_index), found.limit):
            found.update(torch.from_numpy(self._rows(self._fit_index[start : start + found.limit])))
            if int(found) == found.limit:
                break
        return int(found)

    def corpus_chunks(self) -> Iterator[Tensor]:
        """This process's share of the fitting rows, in order, in blocks of shape ``(n, D)``.

        One pass over the file gives the digest and the sample for int8, too. Where the digest is known, several
        processes read their shares alone.
        """
        rank, world_size = self.processes.global_rank, self.processes.world_size
        if world_size > 1 and self.table.needs_no_pass:
            yield from super().corpus_chunks()
            return
        sampled, kept = self._sampled(SCALE_SAMPLE), []
        for number, (start, block) in enumerate(self.table.blocks()):
            kept.append(block[_inside(sampled, start, len(block))])
            if number % world_size == rank:
                yield torch.from_numpy(block[_inside(self._fit_index, start, len(block))])
        self._sample = torch.from_numpy(np.concatenate(kept))

    def scale_sample(self) -> Tensor:
        """Fitting rows that set the scale of int8, as they came by in the pass."""
        return super().scale_sample() if self._sample is None else self._sample

    def _rows(self, index: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        return self.table.take(index)

    def val_dataloader(self) -> list[DataLoader[Any]]:
        """As with sentences; where nothing is trained there is no likelihood, and one row stands for all."""
        return super().val_dataloader() if self._trains else [in_order(self.batch, self._fit_index[:1], 1)]

    def predict_dataloader(self) -> DataLoader[Any]:
        """Every row, in order."""
        return in_order(self.batch, np.arange(len(self.table)), self.batch_size)

    # ------------------------------------------------------------ description

    def summary(self) -> str:
        """What is fitted on, in one line."""
        return f"{self.fitted_examples} of {len(self.table)} vectors of size {self.table.dim} in {self.table.name}"

    def describe_corpus(self) -> dict[str, Any]:
        """Name, digest and number of the rows that are fitted on, as JSON values."""
        digest = digest_json([self.table.digest, digest_bytes(tensor_bytes(self._fit_index))])
        return {"name": self.table.name, "digest": digest, "fitted": self.fitted_examples}


def _inside(rows: npt.NDArray[np.int64], start: int, size: int) -> npt.NDArray[np.int64]:
    """Those of some rising row numbers that lie in a block, counted from its start."""
    low, high = np.searchsorted(rows, [start, start + size])
    return rows[low:high] - start
