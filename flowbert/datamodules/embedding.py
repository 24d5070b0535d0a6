"""The Lightning data module of the flow: a corpus of frozen embeddings to fit on, and STS tasks to evaluate on."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.batches import shared_in_order
from flowbert.datamodules.examples import Examples
from flowbert.datamodules.options import CorpusOptions
from flowbert.errors import UserError, choices
from flowbert.seeding import Stream
from flowbert.store.embedding_store import EmbeddingStore, Encoder, MemoryStore
from flowbert.training.limits import check_limits

STORES = ("disk", "memory", "none")
_CHUNK = 8192  # sentences per block when a whole corpus streams by
SCALE_SAMPLE = 8192  # fitting sentences whose mapped vectors set the scale of int8
_LIKELIHOOD_SAMPLE = 2048  # fitting sentences whose likelihood is shown beside that of the held-out ones

Features = dict[str, Tensor]


class EmbeddingDataModule(CorpusDataModule):
    """A corpus of sentences as frozen embeddings, each distinct sentence encoded once, beside the STS tasks.

    Args:
        encoder: The frozen encoder; default: that of the module that a trainer is given beside it.
        options: What is fitted on and measured on; default: the built-in sample.
        held_out: Share of the distinct sentences kept out of the fit for the held-out likelihood, in [0, 0.5].
        batch_size: Sentences per step and process.
        start_size: Sentences that drive the data-dependent start of the flow.
        store: ``disk`` (sharded cache, shared between runs), ``memory``, or ``none`` (encoder inside the step).
        **shared: Further arguments of :class:`CorpusDataModule`.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    uses = CorpusDataModule.uses | {"store_dir"}

    def __init__(
        self,
        encoder: Encoder | None = None,
        options: CorpusOptions | None = None,
        *,
        held_out: float = 0.02,
        batch_size: int = 64,
        start_size: int = 1024,
        store: str = "disk",
        **shared: Any,
    ) -> None:
        super().__init__(encoder, options, held_out=held_out, batch_size=batch_size, **shared)
        if store not in STORES:
            raise UserError(f"store: received {store!r}; {choices(STORES, store)}")
        if batch_size < 2:
            raise UserError(f"batch_size: received {batch_size}; allowed: at least 2")
        check_limits(start_size=start_size)
        root = self.options.store_dir
        if root is not None and Path(root).is_file():
            raise UserError(f"store_dir: {root} is a file; allowed: a folder, new or not")
        self.start_size = start_size
        self.store = store
        self._store: EmbeddingStore | MemoryStore | None = None
        self._corpus_rows = np.empty(0, dtype=np.int64)

    # ---------------------------------------------------------------- set-up

    def check_size(self, examples: Examples, processes: int) -> None:
        """Raise a UserError if there are fewer than two sentences to fit on."""
        if len(self._fit_index) < 2:
            raise UserError(
                f"corpus: {examples.name} has {len(self._fit_index)} sentences to fit on; allowed: at least 2"
            )

    def setup(self, stage: str) -> None:
        """Encode what the store lacks, every process its share, and look up the rows."""
        if self._store is not None:
            return
        self.load()
        self.weigh_tokens()
        if self.trainer is not None and isinstance(self.encoder, torch.nn.Module):
            self.encoder.to(self.trainer.strategy.root_device)
        store: EmbeddingStore | MemoryStore
        if self.store == "disk":
            root = self.options.store_dir
            store = EmbeddingStore(None if root is None else Path(root), self.encoder)
        else:
            store = MemoryStore(self.encoder)
        store.share(self._to_encode(), self.processes)
        self._store = store
        if self.store != "none":
            self._corpus_rows = store.rows(self.examples.columns[0])

    def _to_encode(self) -> list[str]:
        evaluated = [(task, [split for split in ("dev", "test") if split in task.splits]) for task in self.tasks]
        sentences = [sentence for task, splits in evaluated for sentence in task.sentences(splits)]
        return sentences if self.store == "none" else [*self.examples.columns[0], *sentences]

    def _embedder(self) -> EmbeddingStore | MemoryStore:
        if self._store is None:
            raise RuntimeError("the data module was asked for embeddings before setup()")
        return self._store

    # ------------------------------------------------------------ embeddings

    def embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Raw embeddings of any sentences, shape ``(N, D)``, float32 on the CPU; new ones are encoded and stored."""
        return torch.from_numpy(self._embedder().embeddings(sentences))

    def distinct_examples(self) -> int:
        """Number of distinct sentences that are fitted on."""
        return len(set(self._sentences(self._fit_index)))

    def start_sample(self) -> Tensor:
        """The first ``start_size`` fitting sentences of a seeded shuffle, shape ``(n, D)``; equal in all processes."""
        shuffled = Stream(self.seed, "start sample").rng().permutation(self._fit_index)
        return torch.from_numpy(self._rows(shuffled[: self.start_size]))

    def scale_sample(self) -> Tensor:
        """Fitting sentences that set the scale of int8, drawn by the seed, shape ``(n, D)``, n at most 8,192."""
        return torch.from_numpy(self._rows(self._sampled(SCALE_SAMPLE)))

    def likelihood_sample(self, size: int) -> tuple[Tensor, Tensor]:
        """Raw embeddings of at most ``size`` fitting sentences, drawn by the seed, and of all held out, ``(n, D)``."""
        fitting, held_out = self._rows(self._sampled(size)), self._rows(self._held_index)
        return torch.from_numpy(fitting), torch.from_numpy(held_out)

    def _sampled(self, size: int) -> npt.NDArray[np.int64]:
        """At most so many of the fitting sentences, in their order."""
        return np.sort(Stream(self.seed, "sample").rng().permutation(self._fit_index)[:size])

    @property
    def corpus_rows(self) -> int:
        """How many rows :meth:`corpus_chunks` gives in all processes together."""
        return self.fitted_examples

    def corpus_chunks(self) -> Iterator[Tensor]:
        """Raw embeddings of this process's share of the fitting sentences, in order, in blocks ``(n, D)``."""
        index = self._share(self._fit_index)
        for start in range(0, len(index), _CHUNK):
            yield torch.from_numpy(self._rows(index[start : start + _CHUNK]))

    def _rows(self, index: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        if self.store == "none":
            encoded: npt.NDArray[np.float32] = self.encoder.encode(self._sentences(index))
            return encoded
        return self._embedder().take(self._corpus_rows[index])

    def _sentences(self, index: npt.ArrayLike) -> list[str]:
        sentences = self.examples.columns[0]
        return [sentences[i] for i in np.asarray(index).tolist()]

    # --------------------------------------------------------------- batches

    def batch(self, epoch: int, indices: Sequence[int]) -> npt.NDArray[np.float32] | Features:
        """Embeddings ``(B, D)``, or token features when the encoder runs inside the step.

        Embeddings stay an array of numpy: a Trainer in half precision would round tensors on their way to the flow.
        """
        del epoch
        if self.store != "none":
            return self._rows(np.asarray(indices, dtype=np.int64))
        tokenize = getattr(self.encoder, "tokenize", None)
        if tokenize is None:
            raise UserError("store: 'none' needs an encoder that tokenizes; allowed with this one: disk, memory")
        features: Features = tokenize(self._sentences(indices))
        return features

    def val_dataloader(self) -> list[DataLoader[Any]]:
        """Two likelihood samples: fitting sentences (at most as many as held out or 2,048) and held-out ones."""
        size = min(len(self._fit_index), max(_LIKELIHOOD_SAMPLE, len(self._held_index)))
        indices = [index for index in (self._sampled(size), self._held_index) if len(index)]
        size, fetching = 4 * self.batch_size, self.fetching()
        return [shared_in_order(self.batch, index, size, self.processes, **fetching) for index in indices]

    def predict_dataloader(self) -> DataLoader[Any]:
        """Embeddings of the file ``predict``, or of the whole corpus, in order."""
        store = self._embedder()
        store.share(self.predict_sentences(), self.processes)
        rows = store.rows(self.predict_sentences())
        return shared_in_order(lambda _, chosen: store.take(chosen), rows, self.batch_size, self.processes)
