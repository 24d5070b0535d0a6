"""What the data modules that train an encoder share: batches of token features."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.batches import cut_by_length, in_order, shared_in_order
from flowbert.datamodules.examples import Examples
from flowbert.datamodules.options import CorpusOptions
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.progress import progress
from flowbert.seeding import Stream
from flowbert.store.embedding_store import Encoder
from flowbert.training.limits import check_limits

_CHUNK = 8192  # sentences per block when a whole corpus streams by
_VALIDATION = 1024  # examples at most: the loss there is a side figure

Batch = dict[str, Any]


class TextDataModule(CorpusDataModule):
    """Batches of token features in chunks of like length, beside the STS tasks.

    A batch has ``chunks``, token features of sentences of similar length; ``rows``, shape ``(G, B)``: where sentence b
    of column g is in the concatenated chunks; and ``targets``, shape ``(B,)``, where there are any.
    G: columns (2 or 3), B: examples.

    Args:
        encoder: The encoder that is trained; default: that of the module that a trainer is given beside it.
        options: What is trained on and measured on; default: the built-in sample.
        max_length: Tokens after which a sentence is cut in training; evaluation cuts at the encoder's own length.
        pool: Batches whose examples are sorted by length together; 1: plain random batches.
        **shared: As in :class:`CorpusDataModule`.
    """

    def __init__(
        self,
        encoder: Encoder | None = None,
        options: CorpusOptions | None = None,
        *,
        max_length: int = 128,
        pool: int = 32,
        **shared: Any,
    ) -> None:
        super().__init__(encoder, options, **shared)
        check_limits(max_length=max_length, pool=pool)
        self.max_length = max_length
        self.pool = pool

    # ---------------------------------------------------------------- set-up

    def check_size(self, examples: Examples, processes: int) -> None:
        """Raise a UserError if there are fewer examples to train on than a batch of all processes has."""
        wanted, there = self.batch_size * processes, len(self._fit_index)
        if there < wanted:
            times = f" times {processes} processes" if processes > 1 else ""
            raise UserError(
                f"batch_size: received {self.batch_size}{times}, but {examples.name} has {there} examples to fit on; "
                f"allowed: at most {there // processes}"
            )

    def setup(self, stage: str) -> None:
        """Read what :meth:`load` reads, if it was not called."""
        self.load()
        self.check_size(self.examples, self.processes.world_size)
        self.weigh_tokens()

    def training_encoder(self) -> SentenceEncoder:
        """A second view of the encoder, which cuts sentences at ``max_length``: the same tokenizer and weights.

        Raises:
            UserError: If the encoder does not tokenize.
        """
        encoder = self.encoder
        if not isinstance(encoder, SentenceEncoder):
            raise UserError(f"encoder: received {type(encoder).__name__}; allowed: an encoder that tokenizes")
        view = copy.copy(encoder)
        view.max_length = min(self.max_length, encoder.max_length)
        return view

    # ------------------------------------------------------------ embeddings

    def embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Embeddings with the encoder's weights of this moment, ``(N, D)``, float32 on the CPU; nothing is stored."""
        return torch.from_numpy(self.encoder.encode(list(sentences)))

    def corpus_chunks(self) -> Iterator[Tensor]:
        """Embeddings of this process's share of :meth:`corpus_sentences`, in blocks ``(n, D)``, as of this moment."""
        sentences = self.corpus_sentences()
        mine = self._share(np.arange(len(sentences))).tolist()
        for start in range(0, len(mine), _CHUNK):
            yield self.embeddings([sentences[i] for i in mine[start : start + _CHUNK]])

    # --------------------------------------------------------------- batches

    def texts(self, epoch: int, indices: Sequence[int]) -> list[list[str]]:
        """Sentences of some examples, column by column, as they are trained on in this epoch."""
        del epoch
        return [[column[i] for i in indices] for column in self.examples.columns]

    def batch(self, epoch: int, indices: Sequence[int]) -> Batch:
        """Token features of some examples in chunks; see the class."""
        texts = self.texts(epoch, indices)
        chunks, rows = cut_by_length(self.training_encoder().tokenize([text for column in texts for text in column]))
        batch: Batch = {"chunks": chunks, "rows": rows.reshape(len(texts), -1)}
        if self.examples.targets is not None:
            batch["targets"] = torch.from_numpy(self.examples.targets[np.asarray(indices)])
        return batch

    def _lengths(self, index: npt.NDArray[np.int64]) -> Sequence[int]:
        """Tokens of some examples, all their columns together."""
        if self.pool == 1:
            return super()._lengths(index)
        encoder, found = self.training_encoder(), np.zeros(len(index), dtype=np.int64)
        columns = self.examples.distinct_columns()
        with progress(len(columns) * len(index), "Counting tokens", "sentences") as step:
            for column in columns:
                for start in range(0, len(index), _CHUNK):
                    chosen = [column[i] for i in index[start : start + _CHUNK]]
                    found[start : start + _CHUNK] += encoder.lengths(chosen)
                    step.update(len(chosen))
        return found.tolist()

    def val_dataloader(self) -> DataLoader[Any]:
        """Fixed batches of held-out examples; of fitting ones if fewer than 2 are held out."""
        index = self._held_index if len(self._held_index) > 1 else self._fit_index
        chosen = np.sort(Stream(self.seed, "sample").rng().permutation(index)[:_VALIDATION])
        return in_order(self.batch, chosen, min(self.batch_size, len(chosen)), drop_last=True, **self.fetching())

    def predict_dataloader(self) -> DataLoader[Any]:
        """Lists of sentences of the file ``predict``, or of the examples' first column, in order."""
        sentences = self.predict_sentences()

        def texts(_: int, chosen: list[int]) -> list[str]:
            return [sentences[i] for i in chosen]

        return shared_in_order(texts, np.arange(len(sentences)), _CHUNK, self.processes)
