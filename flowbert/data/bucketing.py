"""Batches of sentences of similar length, so that little padding is computed."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, DistributedSampler

_LEAST = 32  # sentences of a chunk: below, the fixed cost of a forward pass outweighs the padding saved
_SHORTER = 0.8  # a chunk ends where sentences fall below this share of its longest


class LengthBuckets(DistributedSampler[Any]):
    """Random batches of similar length: ``(epoch, indices)``, the same for any number of processes.

    The examples are shuffled, cut into pools of ``pool`` batches, sorted by length within the pool, cut into batches,
    and the batches shuffled. With ``pool=1`` a batch is a plain random one. With larger pools the negatives of a batch
    are of about the length of its sentences, which a contrastive loss then cannot tell apart by length. Examples beyond
    the last full batch are left out, others in each epoch.

    A batch of W processes is that of one process with ``W * batch_size``; process r takes every W-th example of it.

    Args:
        lengths: Length of each example, in any unit.
        batch_size: Examples of a batch of one process.
        pool: Batches that are sorted together; 1 for plain shuffling.
        seed: Seed of the order.
        rank: Number of this process.
        world_size: Number W of processes.
    """

    # A DistributedSampler, because Lightning puts its own in the place of any other sampler.
    def __init__(
        self, lengths: Sequence[int], batch_size: int, pool: int, seed: int = 0, rank: int = 0, world_size: int = 1
    ) -> None:
        data: Any = lengths
        super().__init__(data, num_replicas=world_size, rank=rank, seed=seed)
        self._lengths = np.asarray(lengths)
        self._joined = batch_size * world_size
        self._pool = pool

    def __len__(self) -> int:
        return len(self._lengths) // self._joined

    def __iter__(self) -> Iterator[Any]:
        rng = np.random.default_rng((self.seed, self.epoch))
        order = rng.permutation(len(self._lengths))[: len(self) * self._joined]
        size = self._pool * self._joined
        pools = [order[start : start + size] for start in range(0, len(order), size)]
        batches = np.concatenate([pool[np.argsort(self._lengths[pool], kind="stable")] for pool in pools])
        for number in rng.permutation(len(self)):
            batch = batches[number * self._joined : (number + 1) * self._joined]
            yield self.epoch, batch[self.rank :: self.num_replicas].tolist()


class BatchDataset(Dataset[Any]):
    """Whole batches by the ``(epoch, indices)`` of :class:`LengthBuckets`."""

    def __init__(self, build: Any) -> None:
        self._build = build

    def __getitem__(self, key: tuple[int, list[int]]) -> Any:
        return self._build(*key)


def cut_by_length(features: dict[str, Tensor]) -> tuple[list[dict[str, Tensor]], Tensor]:
    """Sort sentences by length and cut them into chunks, each padded only to its own longest.

    Args:
        features: Token features, each of shape ``(N, T)``, with ``attention_mask``.

    Returns:
        Chunks, longest sentences first, and where each sentence is in their concatenation, shape ``(N,)``.

    Example:
        >>> mask = torch.tensor([[1, 0], [1, 1]])
        >>> chunks, places = cut_by_length({"attention_mask": mask})
        >>> chunks[0]["attention_mask"].tolist(), places.tolist()
        ([[1, 1], [1, 0]], [1, 0])
    """
    lengths = features["attention_mask"].sum(dim=1)
    order = torch.argsort(lengths, descending=True, stable=True)
    ordered = lengths[order].tolist()
    starts = [0]
    for i, length in enumerate(ordered):
        filled, left = i - starts[-1], len(ordered) - i
        if length < _SHORTER * ordered[starts[-1]] and filled >= _LEAST and left >= _LEAST:
            starts.append(i)
    ends = [*starts[1:], len(ordered)]
    chunks = [
        {name: value[order[a:b], : ordered[a]] for name, value in features.items()}
        for a, b in zip(starts, ends, strict=True)
    ]
    return chunks, torch.argsort(order)
