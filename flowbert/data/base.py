"""What the callbacks and the command line need of every data module."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from pytorch_lightning import LightningDataModule

from flowbert.data.corpus import Corpus
from flowbert.data.store import Encoder
from flowbert.data.sts import STSTask


class CorpusDataModule(LightningDataModule, ABC):
    """A data module that fits on a corpus and evaluates on STS tasks.

    Attributes:
        encoder: The encoder given by :meth:`connect`.
        tasks: STS tasks to evaluate on, after :meth:`load`.
        corpus: What is fitted on, after :meth:`load`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder: Encoder | None = None
        self.tasks: list[STSTask] = []
        self.corpus: Corpus | None = None
        self._fit_index: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._held_index: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def connect(self, encoder: Encoder) -> None:
        """Give the encoder whose sentences this module serves."""
        self.encoder = encoder

    @abstractmethod
    def load(self) -> None:
        """Read corpus and tasks, nothing encoded yet; a mistake in an option or file shows here, early."""

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
