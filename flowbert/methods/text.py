"""Batches of sentences, pairs or triples for a module that trains an encoder."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.arrays import Indices
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.methods.examples import Examples
from flowbert.numbers import Seed
from flowbert.options import BatchOptions
from flowbert.progress import tell
from flowbert.seeding import Stream
from flowbert.training.sampler import BatchDataModule, same_for_all

TextBatch = dict[str, Any]

_LEAST = 32  # sentences of a chunk: fewer cost more than the padding saved
_SHORTER = 0.8  # share of its longest sentence below which a chunk ends
_VALIDATED = 1024  # examples of a validation at most
# Sentences tokenized together, or embedded together in a prediction.
_SENTENCES_AT_ONCE = 8192


class TextDataModule(BatchDataModule):
    """Batches of token features, on the CPU in chunks of similar length.

    A batch is a dictionary. ``chunks`` is a list of token features ``(b, t)`` of some sentences of
    the batch, on a GPU of all in one; ``rows``, ``(G, B)``, are the indices of the sentences of
    each column in the concatenated chunks; ``targets``, ``(B,)``, are those of the examples. B:
    number of examples, G: of columns.

    Args:
        encoder: The encoder to train, whose tokenizer is used.
        examples: The examples.
        seed: Seed of the held-out sentences, the order and the edits.
        **options: Fields of :class:`flowbert.options.BatchOptions`.

    Attributes:
        fitted: Indices of the training examples.
        held: Indices of the held-out examples.

    Raises:
        UserError: If an argument is outside of its limits, or fewer than a batch are trained on.

    Example:
        >>> examples = Examples("three", (("a dog", "a cat", "a bird"),))
        >>> data = TextDataModule(SentenceEncoder(), examples, batch_size=3)
        >>> (batch,) = data.train_dataloader()
        >>> batch["rows"].shape, batch["chunks"][0]["input_ids"].shape
        (torch.Size([1, 3]), torch.Size([3, 4]))
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        examples: Examples,
        *,
        seed: Seed = 0,
        **options: Any,
    ) -> None:
        chosen = BatchOptions(**options)
        # Lightning reads the hyper-parameters from this variable.
        options = vars(chosen)
        super().__init__(chosen, seed)
        length = min(chosen.max_length, encoder.max_length)
        self.encoder = encoder.read(max_length=length)
        self.examples = examples
        self.pool = chosen.pool
        column, size = examples.columns[0], chosen.batch_size
        self.fitted, self.held = split_held_out(column, chosen.held_out, seed)
        if len(self.fitted) < size:
            count = len(self.fitted)
            raise UserError(
                argument="batch_size",
                received=size,
                expected=f"at most {count}, the examples of {examples.name} to train on",
            )

    def lengths(self) -> Indices:
        """Number of tokens of each example in all columns; zeros if the order ignores lengths."""
        lengths = super().lengths()
        if self.pool == 1:
            return lengths
        tell("counting tokens")
        for start in range(0, len(lengths), _SENTENCES_AT_ONCE):
            block = slice(start, start + _SENTENCES_AT_ONCE)
            for column in set(self.examples.columns):
                sentences = [column[i] for i in self.fitted[block]]
                lengths[block] += self.encoder.lengths(sentences)
        return lengths

    def describe(self) -> dict[str, Any]:
        """Name, digest and number of the training examples."""
        name, digest = self.examples.name, self.examples.digest
        return {"name": name, "digest": digest, "fitted": len(self.fitted)}

    def batch(self, epoch: int, indices: list[int]) -> TextBatch:
        """A batch of training examples, with the edits of this epoch."""
        return self.features(epoch, self.fitted[indices])

    def sentences(
        self, epoch: int, indices: Sequence[int] | Indices
    ) -> list[list[str]]:
        """Sentences of some examples by column; an edit depends on seed, epoch and example."""
        columns = [[column[i] for i in indices] for column in self.examples.columns]
        if self.examples.edit is not None:
            rngs = [Stream(self.seed, "edit", epoch, i).python() for i in indices]
            columns[1] = self.examples.edit(columns[1], rngs)
        return columns

    def features(self, epoch: int, indices: Indices) -> TextBatch:
        """Token features of some examples, see the class."""
        columns = self.sentences(epoch, indices)
        sentences = [sentence for column in columns for sentence in column]
        # A GPU waits for the calls of another pass, not for padding.
        least = _LEAST if self.encoder.device.type == "cpu" else len(sentences)
        chunks, rows = cut_by_length(self.encoder.tokenize(sentences), least)
        batch: TextBatch = {"chunks": chunks, "rows": rows.view(len(columns), -1)}
        if self.examples.targets is not None:
            batch["targets"] = torch.from_numpy(self.examples.targets[indices])
        return batch

    def sample(self, size: int) -> list[str]:
        """Draw at most ``size`` distinct training sentences of the first column."""
        column = self.examples.columns[0]
        distinct = list(dict.fromkeys(column[i] for i in self.fitted))
        order = Stream(self.seed, "fitted sample").rng().permutation(len(distinct))
        return [distinct[i] for i in order[:size]]

    def val_dataloader(self) -> DataLoader[Any]:
        """Full batches of held-out examples, or else of training examples; always the same."""
        indices = self.held if len(self.held) > 1 else self.fitted
        drawn = Stream(self.seed, "sample").rng().permutation(indices)[:_VALIDATED]
        size = min(self.batch_size, len(drawn))
        full = np.sort(drawn)[: len(drawn) // size * size].reshape(-1, size)
        batches = [self.features(0, batch) for batch in full]
        return same_for_all(batches, None, **self.loader_options())

    def predict_dataloader(self) -> DataLoader[Any]:
        """Lists of sentences of the first column, in order; several processes share them."""
        sentences: Any = self.examples.columns[0]
        return DataLoader(
            sentences, batch_size=_SENTENCES_AT_ONCE, **self.loader_options()
        )


def split_held_out(
    sentences: tuple[str, ...], share: float, seed: int
) -> tuple[Indices, Indices]:
    """Split sentences so that no held-out sentence is also in the training part.

    Args:
        sentences: N sentences, some of them equal.
        share: Share of the distinct sentences to hold out, in [0, 1).
        seed: Seed of the choice.

    Returns:
        Indices of the training part and of the held-out part, both in increasing order.

    Example:
        >>> fitted, held = split_held_out(("a", "b", "a", "c"), 0.34, seed=0)
        >>> fitted.tolist(), held.tolist()
        ([1, 3], [0, 2])
    """
    distinct = list(dict.fromkeys(sentences))
    order = Stream(seed, "split").rng().permutation(len(distinct))
    chosen = {distinct[i] for i in order[: round(share * len(distinct))]}
    is_held = np.array([sentence in chosen for sentence in sentences], dtype=bool)
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def cut_by_length(
    features: Mapping[str, Tensor], least: int = _LEAST
) -> tuple[list[dict[str, Tensor]], Tensor]:
    """Sort sentences by length and cut them into chunks, each padded to its longest sentence.

    Args:
        features: Token features, each ``(N, T)``, with ``attention_mask``.
        least: Smallest number of sentences in a chunk.

    Returns:
        Chunks, longest sentences first, and the row of each sentence in their concatenation,
        ``(N,)``.

    Example:
        >>> mask = torch.tensor([[1, 0], [1, 1]])
        >>> chunks, rows = cut_by_length({"attention_mask": mask})
        >>> chunks[0]["attention_mask"].tolist(), rows.tolist()
        ([[1, 1], [1, 0]], [1, 0])
    """
    lengths = features["attention_mask"].sum(dim=1)
    order = torch.argsort(lengths, descending=True, stable=True)
    ordered = lengths[order].tolist()
    bounds = [0]
    for i, length in enumerate(ordered):
        is_shorter = length < _SHORTER * ordered[bounds[-1]]
        if is_shorter and min(i - bounds[-1], len(ordered) - i) >= least:
            bounds.append(i)
    bounds.append(len(ordered))
    chunks = []
    for start, end in pairwise(bounds):
        indices, longest = order[start:end], ordered[start]
        chunks.append(
            {name: values[indices, :longest] for name, values in features.items()}
        )
    return chunks, torch.argsort(order)
