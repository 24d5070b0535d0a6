"""The order of training batches: seeded, by length, shared by processes, and resumable."""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

from flowbert.arrays import is_pinned_for
from flowbert.numbers import Seed, check_limits
from flowbert.seeding import Stream
from flowbert.training.checkpoints import check_corpus

# Arguments of data modules that are not plain values.
_NOT_PLAIN = ["rows", "encoder", "examples", "name", "digest", "workers", "options"]


class BatchSampler(DistributedSampler[Any]):
    """Random batches of similar length, as pairs of epoch and indices.

    The examples are shuffled and cut into pools of ``pool`` batches; a pool is sorted by length and
    cut into batches, which are shuffled. With ``pool=1``, batches are random. With larger pools the
    negatives of a contrastive loss are about as long as its sentences, so that length does not tell
    them apart. Examples beyond the last full batch are left out, others in each epoch; if there are
    fewer examples than a batch, they are one batch.

    The batches of all epochs form one sequence; an iteration yields the next ``len(self)`` of it.
    A resumed run starts after the last batch that was used.

    W processes share the batches of one process with ``W * batch_size``: process r takes every W-th
    example.

    Args:
        lengths: Length of each example, in any unit.
        batch_size: Number of examples in a batch of one process.
        pool: Number of batches that are sorted together; 1 for plain shuffling.
        seed: Seed of the order.
        rank: Number of this process.
        world_size: Number W of processes.

    Attributes:
        start: Number of used batches, counted by :class:`BatchLoader`.
    """

    # Lightning replaces any sampler that is no DistributedSampler.
    def __init__(
        self,
        lengths: Sequence[int] | NDArray[np.int64],
        batch_size: int,
        pool: int = 1,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.lengths = np.asarray(lengths)
        dataset: Any = self.lengths
        super().__init__(dataset, num_replicas=world_size, rank=rank, seed=seed)
        share = min(batch_size, len(self.lengths) // world_size)
        self.joint_size = share * world_size
        self.pool = pool
        self.start = 0

    def __len__(self) -> int:
        return len(self.lengths) // self.joint_size

    def __iter__(self) -> Iterator[Any]:
        first = self.start
        for number in range(first, first + len(self)):
            epoch, position = divmod(number, len(self))
            if number == first or position == 0:
                batches = self._batches(epoch)
            yield epoch, batches[position][self.rank :: self.num_replicas].tolist()

    def _batches(self, epoch: int) -> NDArray[np.int64]:
        """Examples of each batch of an epoch, ``(len(self), joint_size)``."""
        rng = Stream(self.seed, "order", epoch).rng()
        order = rng.permutation(len(self.lengths))[: len(self) * self.joint_size]
        for start in range(0, len(order), self.pool * self.joint_size):
            pool = order[start : start + self.pool * self.joint_size]
            pool[:] = pool[np.argsort(self.lengths[pool], kind="stable")]
        return order.reshape(-1, self.joint_size)[rng.permutation(len(self))]


class _Batches(Dataset[Any]):
    """Dataset of whole batches, by the pairs of :class:`BatchSampler`."""

    def __init__(self, build: Callable[[int, list[int]], Any]) -> None:
        self._build = build

    def __getitem__(self, key: tuple[int, list[int]]) -> Any:
        return self._build(*key)


class BatchLoader(DataLoader[Any]):
    """Training batches. A batch counts as used when it is returned, not when it is prefetched.

    Args:
        build: Function of an epoch and indices that returns their batch.
        sampler: Sampler of the indices.
        **options: Options of the DataLoader.
    """

    sampler: BatchSampler

    def __init__(
        self,
        build: Callable[[int, list[int]], Any],
        sampler: BatchSampler,
        **options: Any,
    ) -> None:
        super().__init__(_Batches(build), sampler=sampler, batch_size=None, **options)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        for batch in super().__iter__():
            self.sampler.start += 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """Number of batches used."""
        return {"batches": self.sampler.start}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue after that many batches."""
        self.sampler.start = state_dict["batches"]


def same_for_all(
    dataset: Any, batch_size: int | None, **options: Any
) -> DataLoader[Any]:
    """Batches of a dataset in order, the same for every process, so that all compute all scores.

    Args:
        dataset: The rows, or whole batches.
        batch_size: Number of rows in a batch; None for whole batches.
        **options: Options of the DataLoader.
    """
    sampler: DistributedSampler[Any] = DistributedSampler(
        dataset, num_replicas=1, rank=0, shuffle=False
    )
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, **options)


class BatchDataModule(LightningDataModule):
    """Base of the data modules: training batches that a resumed run continues.

    Args:
        options: Options of the module, with ``batch_size`` and ``workers``.
        seed: Seed of the order.
    """

    pool = 1

    def __init__(self, options: Any, seed: Seed) -> None:
        super().__init__()
        # Lightning finds them in the calls of the constructors that led here.
        self.save_hyperparameters(ignore=_NOT_PLAIN, logger=False)
        check_limits(BatchDataModule, {"seed": seed})
        self.batch_size = int(options.batch_size)  # torch takes no number of numpy
        self.workers: int = options.workers
        self.seed = seed
        # Not the loader, which has this module: its processes end when it is no longer used.
        self._sampler: BatchSampler | None = None
        self._resumed: int | None = None

    def lengths(self) -> NDArray[np.int64]:
        """Length of each training example; zeros if the order ignores lengths."""
        return np.zeros(self.describe()["fitted"], dtype=np.int64)

    @abstractmethod
    def batch(self, epoch: int, indices: list[int]) -> Any:
        """The training batch of these examples in this epoch."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Name, digest and number of the training examples, as JSON values."""

    def test_dataloader(self) -> Any:
        """The batches of the validation."""
        return self.val_dataloader()

    @property
    def pins(self) -> bool:
        """Whether batches are copied into pinned memory, for an accelerator."""
        trainer = self.trainer
        return trainer is not None and is_pinned_for(trainer.strategy.root_device)

    def loader_options(self) -> dict[str, Any]:
        """Options of all loaders for prefetching and copying batches."""
        return {
            "pin_memory": self.pins,
            "collate_fn": _keep,
            "num_workers": self.workers,
            "worker_init_fn": _start_worker,
            # A fork shares the examples and the tokenizer.
            "multiprocessing_context": "fork" if self.workers else None,
        }

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled batches, see :class:`BatchSampler`; with ``overfit_batches``, of epoch 0."""
        rank, world_size = 0, 1
        if self.trainer is not None:
            rank, world_size = self.trainer.global_rank, self.trainer.world_size
        lengths, size = self.lengths(), self.batch_size
        sampler = BatchSampler(lengths, size, self.pool, self.seed, rank, world_size)
        if getattr(self.trainer, "overfit_batches", 0) > 0:
            fixed: Any = Subset(_Batches(self.batch), list(sampler))
            return DataLoader(fixed, batch_size=None, **self.loader_options())
        sampler.start = self._batches_used()
        options = self.loader_options() | {"persistent_workers": self.workers > 0}
        self._sampler = sampler
        return BatchLoader(self.batch, sampler, **options)

    def _batches_used(self) -> int:
        """Number of batches used by the run of a checkpoint, or by this one so far."""
        if self._resumed is not None:
            resumed, self._resumed = self._resumed, None
            return resumed
        # Lightning asks for another loader in a fit with reload_dataloaders_every_n_epochs.
        if self._sampler is None or self.trainer is None:
            return 0
        begun = self.trainer.fit_loop.total_batch_idx >= 0
        return self._sampler.start if begun else 0

    def state_dict(self) -> dict[str, Any]:
        """Number of batches used, and the description of the examples."""
        if self._sampler is None:
            return {}
        return {"batches": self._sampler.start, "corpus": self.describe()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue after the batches of a checkpoint.

        Raises:
            UserError: If the batches would differ.
        """
        if self.trainer is not None and self.trainer.state.fn == "fit":
            check_corpus(state_dict["corpus"], self.describe())
            self._resumed = int(state_dict["batches"])


def _keep(batch: Any) -> Any:
    """Return a batch unchanged, in place of a collate function."""
    return batch


def _start_worker(_: int) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not survive a fork
