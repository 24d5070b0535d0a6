"""The one order of training batches: seeded, by length, shared by processes, and resumed where it was left."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from flowbert.errors import UserError
from flowbert.processes import Processes
from flowbert.seeding import Stream

_LEAST = 32  # sentences of a chunk: below, the fixed cost of a forward pass outweighs the padding saved
_SHORTER = 0.8  # a chunk ends where sentences fall below this share of its longest

Build = Callable[[int, list[int]], Any]
"""Makes the batch of an epoch and indices."""

Position = tuple[int, int]
"""Epoch and batch in it, both from 0."""


class BatchSampler(DistributedSampler[Any]):
    """Random batches of similar length: ``(epoch, indices)``, the same for any number of processes.

    The examples are shuffled, cut into pools of ``pool`` batches, sorted by length within the pool, cut into batches,
    and the batches shuffled. With ``pool=1`` a batch is a plain random one. With larger pools the negatives of a batch
    are of about the length of its sentences, which a contrastive loss then cannot tell apart by length. Examples beyond
    the last full batch are left out, others in each epoch; fewer examples than a batch are one batch.

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
        # Fewer examples than a batch are one batch, of which every process still has as many as the others.
        self._joined = min(batch_size * world_size, len(self._lengths) // world_size * world_size)
        self._pool = pool
        self._start: Position = (0, 0)

    def __len__(self) -> int:
        return len(self._lengths) // self._joined

    @property
    def order(self) -> dict[str, int]:
        """What decides the order of an epoch, beside the lengths."""
        return {"examples": len(self._lengths), "batch": self._joined, "pool": self._pool, "seed": self.seed}

    def start_at(self, position: Position) -> None:
        """Leave out what comes before a position: batches of its epoch. Lightning says which epoch comes."""
        self._start = position
        self.set_epoch(position[0])

    def __iter__(self) -> Iterator[Any]:
        rng = Stream(self.seed, "order", self.epoch).rng()
        order = rng.permutation(len(self._lengths))[: len(self) * self._joined]
        size = self._pool * self._joined
        pools = [order[start : start + size] for start in range(0, len(order), size)]
        batches = np.concatenate([pool[np.argsort(self._lengths[pool], kind="stable")] for pool in pools])
        epoch, first = self._start
        for number in rng.permutation(len(self))[first if epoch == self.epoch else 0 :]:
            batch = batches[number * self._joined : (number + 1) * self._joined]
            yield self.epoch, batch[self.rank :: self.num_replicas].tolist()


class BatchDataset(Dataset[Any]):
    """Whole batches by the ``(epoch, indices)`` of :class:`BatchSampler`."""

    def __init__(self, build: Build) -> None:
        self._build = build

    def __getitem__(self, key: tuple[int, list[int]]) -> Any:
        return self._build(*key)


class TrainingLoader(DataLoader[Any]):
    """Training batches whose position is part of a checkpoint: Lightning saves and restores loaders with a state.

    Args:
        build: Makes the batch of an epoch and indices.
        sampler: Which indices, in which order.
        position: Tells the epoch and batch that training has come to; batches fetched ahead do not count.
        workers: Processes that build batches ahead; 0: none.
        **fetching: ``pin_memory``: whether to copy tensors into memory that a GPU reads fast.
    """

    sampler: BatchSampler

    def __init__(
        self, build: Build, sampler: BatchSampler, position: Callable[[], Position], workers: int = 0, **fetching: Any
    ) -> None:
        options = _fetching(workers, **fetching) | {"persistent_workers": workers > 0}
        super().__init__(BatchDataset(build), sampler=sampler, **options)
        self._position = position

    def state_dict(self) -> dict[str, Any]:
        """Epoch and batch that come next, and what decides the order."""
        epoch, batch = self._position()
        return {"epoch": epoch, "batch": batch, "order": self.sampler.order}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there.

        Raises:
            UserError: If the batches of the epoch that was left are not those of this sampler.
        """
        differing = [name for name, value in state["order"].items() if self.sampler.order[name] != value]
        if differing and state["batch"]:
            here = self.sampler.order
            differences = ", ".join(f"{name} {state['order'][name]} there, {here[name]} here" for name in differing)
            raise UserError(
                f"the checkpoint is from batch {state['batch']} of epoch {state['epoch']}, whose order was another "
                f"({differences}); allowed: the data options of its run, or a checkpoint from the end of an epoch"
            )
        self.sampler.start_at((state["epoch"], state["batch"]))


class _Keys(DistributedSampler[Any]):
    """Given keys in their order."""

    # A DistributedSampler, because Lightning would deal the keys of any other to the processes, some of them twice.
    def __init__(self, keys: list[tuple[int, list[int]]]) -> None:
        data: Any = keys
        super().__init__(data, num_replicas=1, rank=0)
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)


def in_order(
    build: Build, index: npt.NDArray[np.int64], size: int, *, drop_last: bool = False, **fetching: Any
) -> DataLoader[Any]:
    """Batches of some examples in their order, the same every time: ``build`` is told epoch 0."""
    end = len(index) - size + 1 if drop_last else len(index)
    keys = [(0, index[start : start + size].tolist()) for start in range(0, end, size)]
    return DataLoader(BatchDataset(build), sampler=keys, **_fetching(**fetching))


def shared_in_order(
    build: Build, index: npt.NDArray[np.int64], size: int, processes: Processes, **fetching: Any
) -> DataLoader[Any]:
    """The same for one of W processes: its share of each batch of ``W * size`` examples, none twice.

    All have equally many batches. Fewer examples than processes are one batch, the whole of it for each.
    """
    rank, world_size = processes.global_rank, processes.world_size
    if world_size == 1:
        return in_order(build, index, size, **fetching)
    batches = np.array_split(index, -(-len(index) // (size * world_size)))
    shares = [batch[rank::world_size] if len(index) >= world_size else batch for batch in batches]
    keys = _Keys([(0, share.tolist()) for share in shares])
    return DataLoader(BatchDataset(build), sampler=keys, **_fetching(**fetching))


def rows_in_order(shares: Sequence[Sequence[Tensor]], count: int) -> Tensor:
    """What W processes made of the batches of :func:`shared_in_order`, row by row in the order of the examples.

    Args:
        shares: For each process its batches, ``(n, k)`` each.
        count: Number of examples.

    Returns:
        Shape ``(count, k)``.

    Example:
        >>> shares = [[torch.tensor([[0], [2]]), torch.tensor([[4]])], [torch.tensor([[1], [3]]), torch.tensor([[5]])]]
        >>> rows_in_order(shares, 6).ravel().tolist()
        [0, 1, 2, 3, 4, 5]
    """
    if count < len(shares):
        return torch.cat(list(shares[0]))
    joined = []
    for batches in zip(*shares, strict=True):
        rows = torch.empty(sum(map(len, batches)), *batches[0].shape[1:], dtype=batches[0].dtype)
        for number, batch in enumerate(batches):
            rows[number :: len(batches)] = batch
        joined.append(rows)
    return torch.cat(joined)


def _fetching(workers: int = 0, pin_memory: bool = False) -> dict[str, Any]:
    options: dict[str, Any] = {
        "batch_size": None,
        "collate_fn": _as_is,
        "num_workers": workers,
        "pin_memory": pin_memory,
    }
    if workers:  # forked ones have the corpus and the tokenizer in memory already
        options |= {"multiprocessing_context": "fork", "worker_init_fn": _start_worker}
    return options


def _as_is(batch: Any) -> Any:
    """Collate nothing: the batch is one already."""
    return batch


def _start_worker(_: int) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not survive a fork


def cut_by_length(features: dict[str, Tensor]) -> tuple[list[dict[str, Tensor]], Tensor]:
    """Sort sentences by length and cut them into chunks, each padded only to its own longest.

    Args:
        features: Token features, each of shape ``(N, T)``, with ``attention_mask``.

    Returns:
        Chunks, longest sentences first, and the row of each sentence in their concatenation, shape ``(N,)``.

    Example:
        >>> mask = torch.tensor([[1, 0], [1, 1]])
        >>> chunks, rows = cut_by_length({"attention_mask": mask})
        >>> chunks[0]["attention_mask"].tolist(), rows.tolist()
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
