"""What the callbacks and the command line need of every data module."""

from abc import ABC, abstractmethod

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

    def connect(self, encoder: Encoder) -> None:
        """Give the encoder whose sentences this module serves."""
        self.encoder = encoder

    @abstractmethod
    def load(self) -> None:
        """Read corpus and tasks, nothing encoded yet; a mistake in an option or file shows here, early."""

    @property
    @abstractmethod
    def corpus_name(self) -> str:
        """Corpus with what was taken away from it, for tables: ``"target, 2% held out"``."""

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
