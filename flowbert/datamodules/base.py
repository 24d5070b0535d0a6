"""What the callbacks and the command line need of every data module."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader

from flowbert.data.corpus import Corpus
from flowbert.data.sts import STSTask
from flowbert.datamodules.batches import BatchSampler, Position, TrainingLoader
from flowbert.errors import UserError
from flowbert.store.embedding_store import Encoder


class CorpusDataModule(LightningDataModule, ABC):
    """A data module that fits on a corpus and evaluates on STS tasks.

    Attributes:
        encoder: The encoder given by :meth:`connect`; default: that of the module that a trainer is given beside it.
        tasks: STS tasks to evaluate on, after :meth:`load`.
        corpus: What is fitted on, after :meth:`load`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder: Encoder | None = None
        self.tasks: list[STSTask] = []
        self.corpus: Corpus | None = None
        self._loader: TrainingLoader | None = None
        self._resumed: dict[str, Any] | None = None
        self.batch_size = 0
        self.seed = 0
        self._fit_index: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._held_index: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def connect(self, encoder: Encoder) -> None:
        """Give the encoder whose sentences this module serves."""
        self.encoder = encoder

    @abstractmethod
    def load(self) -> None:
        """Read corpus and tasks, nothing encoded yet; a mistake in an option or file shows here, early."""

    def _connect_to_trainer(self) -> None:
        """Take the encoder of the trainer's module unless one was given."""
        if self.encoder is None:
            encoder = getattr(getattr(self.trainer, "lightning_module", None), "encoder", None)
            if encoder is None:
                raise UserError("data: no encoder was given; call connect(encoder) before the trainer runs")
            self.connect(encoder)

    # --------------------------------------------------------------- batches

    @abstractmethod
    def batch(self, epoch: int, indices: Sequence[int]) -> Any:
        """A training batch of some examples of the corpus, as it is in an epoch."""

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled batches of the fitting examples, see :class:`flowbert.datamodules.batches.BatchSampler`."""
        index = self._fit_index
        rank, world_size = self._processes()
        sampler = BatchSampler(self._lengths(index), self.batch_size, self._pool(), self.seed, rank, world_size)
        loader = TrainingLoader(
            lambda epoch, chosen: self.batch(epoch, index[chosen].tolist()), sampler, lambda: self._position(sampler)
        )
        if self._resumed is not None:
            self._check_corpus(self._resumed)
            loader.load_state_dict(self._resumed)
        self._loader, self._resumed = loader, None
        return loader

    def state_dict(self) -> dict[str, Any]:
        """Where the training batches have come to, and of which corpus."""
        return {} if self._loader is None else {**self._loader.state_dict(), "corpus": self.corpus_digest}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next training batches go on from there.

        Lightning restores the state of loaders, too, but not where a schedule has asked for the number of steps before.
        """
        self._resumed = state_dict

    def _check_corpus(self, state: dict[str, Any]) -> None:
        if state["corpus"] != self.corpus_digest:
            raise UserError(
                f"the checkpoint was fitted on another corpus than {self.corpus_name}; allowed: the same sentences"
            )

    def _pool(self) -> int:
        """Batches whose examples are sorted by length together."""
        return 1

    def _lengths(self, index: npt.NDArray[np.int64]) -> Sequence[int]:
        """Length of some examples; all the same where it plays no role."""
        return [0] * len(index)

    def _processes(self) -> tuple[int, int]:
        """Number of this process, and of all."""
        return (0, 1) if self.trainer is None else (self.trainer.global_rank, self.trainer.world_size)

    def _position(self, sampler: BatchSampler) -> Position:
        if self.trainer is None:
            return 0, 0
        # A batch is processed once its gradients are there; only later it counts as completed.
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress.current
        done: int = progress.processed
        return (sampler.epoch, done) if done < self.trainer.num_training_batches else (sampler.epoch + 1, 0)

    # ------------------------------------------------------------ description

    @property
    @abstractmethod
    def corpus_name(self) -> str:
        """Name of the corpus, for tables: ``"target"``."""

    @property
    def fitted_examples(self) -> int:
        """Sentences (or pairs, or triples), every occurrence, that are fitted on: without the held-out ones."""
        return len(self._fit_index)

    def summary(self) -> str:
        """What is fitted on, in one line, with what was dropped and what occurs more than once."""
        text = f"{self.fitted_examples} of {self.corpus_name}"
        if self.corpus is None:
            return text
        return f"{text} ({self.corpus.blank} blank lines dropped, {self.corpus.duplicates} duplicates)"

    def describe_corpus(self) -> dict[str, Any]:
        """Name, digest and number of fitted examples, as JSON values."""
        return {"name": self.corpus_name, "digest": self.corpus_digest, "fitted": self.fitted_examples}

    @property
    def corpus_digest(self) -> str:
        """Digest of the corpus in order."""
        return self.loaded_corpus().digest

    def loaded_corpus(self) -> Corpus:
        """The corpus.

        Raises:
            RuntimeError: Before :meth:`load`.
        """
        if self.corpus is None:
            raise RuntimeError("the data module was asked for its corpus before load()")
        return self.corpus
