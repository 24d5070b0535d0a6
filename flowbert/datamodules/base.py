"""What the data modules share: examples and tasks, resumable batches, and what is said of them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.data.corpus import Corpus, load_corpus, read_sentences
from flowbert.data.sts import STSTask
from flowbert.datamodules.batches import BatchSampler, Position, TrainingLoader
from flowbert.datamodules.examples import Examples, split_held_out
from flowbert.datamodules.options import CorpusOptions
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.counting import Counted, choose_counted, weigh_tokens
from flowbert.errors import UserError
from flowbert.processes import ALONE, Processes
from flowbert.store.embedding_store import Encoder
from flowbert.training.lightning_adapter import batches_processed
from flowbert.training.limits import check_limits


class CorpusDataModule(LightningDataModule, ABC):
    """A data module that fits on a corpus and evaluates on STS tasks.

    Args:
        encoder: The encoder whose sentences it serves; default: that of the module that a trainer is given beside it.
        options: What is fitted on and measured on; default: the built-in sample.
        held_out: Share of the distinct sentences kept out of the fit, in [0, 0.5].
        batch_size: Examples per step and process.
        predict: Text file whose sentences ``predict`` embeds; default: the corpus.
        workers: Processes that prepare batches ahead; 0: none. The batches are the same.
        seed: Seed of the subset, the held-out split and the shuffling.

    Attributes:
        tasks: STS tasks to evaluate on, after :meth:`load`.

    Raises:
        UserError: If a number is outside what is allowed.
    """

    uses: ClassVar[frozenset[str]] = frozenset({"corpus", "tasks", "senteval", "nli", "column", "max_sentences"})
    """Fields of :class:`CorpusOptions` that play a role here."""
    pool = 1
    """Batches whose examples are sorted by length together."""

    def __init__(
        self,
        encoder: Encoder | None = None,
        options: CorpusOptions | None = None,
        *,
        held_out: float = 0.0,
        batch_size: int = 16,
        predict: str | None = None,
        workers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_limits(held_out=held_out, batch_size=batch_size, workers=workers)
        self.options = CorpusOptions() if options is None else options
        self.held_out = held_out
        self.batch_size = batch_size
        self.predict = predict
        self.workers = workers
        self.seed = seed
        self.tasks: list[STSTask] = []
        self._encoder = encoder
        self._examples: Examples | None = None
        self._to_predict: Sequence[str] | None = None
        self._fit_index: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._held_index: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._to_count: Counted | None = None
        self._loader: TrainingLoader | None = None
        self._resumed: dict[str, Any] | None = None

    @property
    def encoder(self) -> Any:
        """The encoder given, or that of the trainer's module.

        Raises:
            UserError: If there is none.
        """
        module = None if self.trainer is None else self.trainer.lightning_module
        found = getattr(module, "encoder", None) if self._encoder is None else self._encoder
        if found is None:
            raise UserError("data: no encoder was given; allowed: one here, or one of the module beside it")
        return found

    @property
    def processes(self) -> Processes:
        """Those that the trainer runs on; without one this one alone."""
        return ALONE if self.trainer is None else cast(Processes, self.trainer.strategy)

    # ---------------------------------------------------------------- set-up

    def read_examples(self) -> Examples:
        """Read what is fitted on."""
        corpus = self.options.load_corpus()
        return Examples(corpus.name, (corpus.sentences,), blank=corpus.blank)

    @abstractmethod
    def check_size(self, examples: Examples, processes: int) -> None:
        """Raise a UserError if there are too few examples to fit on."""

    def load(self) -> None:
        """Read corpus and tasks, nothing encoded yet; a mistake in an option or file shows here, early."""
        if self._examples is not None:
            return
        if self.predict is not None:
            self._to_predict = read_sentences(self.predict).sentences
        self.tasks = self.options.load_tasks()
        examples = self.read_examples()
        if self.options.max_sentences is not None:
            examples = examples.sample(self.options.max_sentences, self.seed)
        self._fit_index, self._held_index = split_held_out(examples.columns[0], self.held_out, self.seed)
        self.check_size(examples, 1)
        self._examples = examples

    @property
    def examples(self) -> Examples:
        """What is fitted on, the held-out examples included.

        Raises:
            RuntimeError: Before :meth:`load`.
        """
        if self._examples is None:
            raise RuntimeError("the data module was asked for its examples before load()")
        return self._examples

    def weigh_tokens(self) -> None:
        """Count the tokens that the encoder's pooling weighs, every process its share, unless there are counts."""
        module = None if self.trainer is None else self.trainer.lightning_module
        there = self._encoder is not None or getattr(module, "has_encoder", False)  # else it is made later
        if not there or not isinstance(self.encoder, SentenceEncoder):
            return
        weigh_tokens(self.encoder, lambda: self.counted(self.encoder), self.processes)

    def counted(self, encoder: SentenceEncoder) -> Counted:
        """What an encoder's token weights are counted over, read once; held-out sentences are part of the corpus.

        Raises:
            UserError: If it is not there or is bad.
        """
        if self._to_count is None:
            found, options = self.examples, self.options
            fitted = [text for column in found.distinct_columns() for text in column]
            tasks = [task.sentences() for task in self.tasks]
            self._to_count = choose_counted(
                encoder.count_over,
                lambda: Corpus.of(found.name, fitted),
                lambda: chain(fitted, *tasks),
                lambda name: load_corpus(name, nli=options.nli, column=options.column),
            )
        return self._to_count

    # ------------------------------------------------------------ embeddings

    @abstractmethod
    def embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Raw embeddings of any sentences, ``(N, D)``, float32 on the CPU."""

    @abstractmethod
    def corpus_chunks(self) -> Iterator[Tensor]:
        """Embeddings of this process's share of the fitting sentences, blocks ``(n, D)``, bounded in memory."""

    def corpus_sentences(self) -> list[str]:
        """Every sentence of the fitting examples, column after column."""
        return [column[i] for column in self.examples.distinct_columns() for i in self._fit_index]

    @property
    def corpus_rows(self) -> int:
        """How many rows :meth:`corpus_chunks` gives in all processes together."""
        return len(self.corpus_sentences())

    def predict_sentences(self) -> Sequence[str]:
        """Sentences that ``predict`` embeds, in order."""
        return self.examples.columns[0] if self._to_predict is None else self._to_predict

    # --------------------------------------------------------------- batches

    @abstractmethod
    def batch(self, epoch: int, indices: Sequence[int]) -> Any:
        """A training batch of some examples, as it is in an epoch."""

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled batches of the fitting examples, see :class:`flowbert.datamodules.batches.BatchSampler`."""
        index, rank, world_size = self._fit_index, self.processes.global_rank, self.processes.world_size
        if len(index) < world_size:
            allowed = f"allowed: at most {len(index)}, one for each example that is fitted on"
            raise UserError(f"devices: received {world_size} processes; {allowed}")
        sampler = BatchSampler(self._lengths(index), self.batch_size, self.pool, self.seed, rank, world_size)

        def build(epoch: int, chosen: list[int]) -> Any:
            return self.batch(epoch, index[chosen].tolist())

        loader = TrainingLoader(build, sampler, lambda: self._position(sampler), **self.fetching())
        if self._resumed is not None:
            loader.load_state_dict(self._resumed)
        self._loader, self._resumed = loader, None
        return loader

    def test_dataloader(self) -> Any:
        """The same batches as in validation."""
        return self.val_dataloader()

    def fetching(self) -> dict[str, Any]:
        """How loaders fetch batches: arguments of a DataLoader."""
        on_gpu = self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
        return {"workers": self.workers, "pin_memory": on_gpu}

    def state_dict(self) -> dict[str, Any]:
        """Where the training batches have come to."""
        return {} if self._loader is None else self._loader.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next training batches go on from there.

        Lightning restores the state of loaders, too, but not where a schedule has asked for the number of steps before.
        """
        self._resumed = state_dict

    def _lengths(self, index: npt.NDArray[np.int64]) -> Sequence[int]:
        """Length of some examples; all the same where it plays no role."""
        return [0] * len(index)

    def _share(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """This process's part of some rows: one after another, so that files are read from end to end."""
        return np.array_split(rows, self.processes.world_size)[self.processes.global_rank]

    def _position(self, sampler: BatchSampler) -> Position:
        if self.trainer is None:
            return 0, 0
        done = batches_processed(self.trainer)
        return (sampler.epoch, done) if done < self.trainer.num_training_batches else (sampler.epoch + 1, 0)

    # ------------------------------------------------------------ description

    @property
    def fitted_examples(self) -> int:
        """Sentences (or pairs, or triples), every occurrence, that are fitted on; without the held-out ones."""
        return len(self._fit_index)

    def summary(self) -> str:
        """What is fitted on, in one line, with what was dropped and what occurs more than once."""
        found = self.examples
        dropped = f"({found.blank} blank lines dropped, {found.duplicates} duplicates)"
        return f"{self.fitted_examples} of {found.name} {dropped}"

    def describe_corpus(self) -> dict[str, Any]:
        """Name, digest and number of fitted examples, as JSON values."""
        return {"name": self.examples.name, "digest": self.examples.digest, "fitted": self.fitted_examples}

    def check_corpus(self, saved: Mapping[str, Any]) -> None:
        """A fit goes on with what it began with: its maps and its rows belong to one corpus.

        Args:
            saved: :meth:`describe_corpus` of the fit's beginning.

        Raises:
            UserError: If other sentences are fitted on here.
        """
        here = self.describe_corpus()
        if any(saved[name] != here[name] for name in ("digest", "fitted")):
            raise UserError(
                f"ckpt_path: the checkpoint was fitted on {saved['fitted']} of {saved['name']}, this run on "
                f"{here['fitted']} of {here['name']}; allowed: the same sentences"
            )
