"""What ``fit`` needs of a method: its data, its module, and the options that it uses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from flowbert.data.corpus import OWN_NAMES, Corpus, load_corpus
from flowbert.encoders import open_encoder
from flowbert.errors import check_used
from flowbert.registry import Registry
from flowbert.tasks import Task
from flowbert.training.base import TrainingModule, check_limits
from flowbert.training.fit_options import FitOptions
from flowbert.training.sampler import BatchDataModule
from flowbert.training.training_settings import TrainingSettings
from flowbert.vectors import EmbeddingCache, as_vectors

_WITHOUT_FILES = ("target", "train_only", "nli", "builtin-sample")
_MEASURING = (
    *("tasks", "senteval", "columns", "score_range", "positive_above"),
    *("uniformity_limit", "bootstrap", "bootstrap_seed"),
)


@dataclass(kw_only=True)
class Method(ABC):
    """A method in one run: its data, and the module for the Trainer.

    :meth:`open` comes first and encodes nothing, so that mistakes are told at once; then
    :meth:`encode`.

    Args:
        options: The options of the run.
        tasks: The tasks that are measured.
        settings: What determines the training, bound to a checkpoint if one is given.
        cache: The embedding cache.
        device: Device of the encoder.
        load_model: Opens a folder as a model, which a method that has a teacher needs.

    Attributes:
        name: Name of the method in tables.
        module_class: The LightningModule; None where no Trainer is needed.
        data_class: Its data module.
        without_effect: Patterns of options that the method does not use.
        is_frozen: Whether the encoder stays as it is.
        registries: Options of the module that are texts, and what they name.
        encoder: The encoder before the training; None for vectors.
        sentences: What is fitted on, in the order of the predictions.
        corpus: Its name.
        digest: Its digest.
        module: The module.
        data: The data module.
    """

    name: ClassVar[str] = ""
    module_class: ClassVar[type[TrainingModule] | None] = None
    data_class: ClassVar[type[BatchDataModule] | None] = None
    without_effect: ClassVar[tuple[str, ...]] = ()
    is_frozen: ClassVar[bool] = False
    registries: ClassVar[Mapping[str, Registry[Any]]] = {}

    options: FitOptions
    tasks: Sequence[Task]
    settings: TrainingSettings
    cache: EmbeddingCache
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    load_model: Callable[[str], Any] | None = None

    encoder: Any = None
    sentences: Sequence[str] = ()
    corpus: str = ""
    digest: str = ""
    module: Any = None
    data: BatchDataModule | None = None

    @abstractmethod
    def open(self) -> None:
        """Load what is fitted on, open the encoder and make the module.

        Raises:
            UserError: If an option is wrong, or the checkpoint is of something else.
        """

    @abstractmethod
    def encode(self, sentences: Sequence[str]) -> None:
        """Encode what is fitted on and further sentences, and make the data module."""

    @property
    def trained_through(self) -> str | None:
        """The map between encoder and loss, as a text; None without one."""
        return None

    @property
    def dim(self) -> int:
        """Size D of a vector."""
        dim: int = self.encoder.dim
        return dim

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the predictions, ``(N, D)``."""
        return len(self.sentences), self.dim

    @property
    def fitted_on(self) -> dict[str, Any]:
        """Name and digest of the sentences or vectors, and how many of all are fitted on."""
        total = self.shape[0]
        described = {"name": self.corpus, "digest": self.digest, "fitted": total}
        if self.data is not None:
            described = self.data.describe()
        return described | {"total": total}

    @classmethod
    def model_options(cls, options: FitOptions) -> dict[str, Any]:
        """The hyper-parameters that are given, with texts in their canonical form.

        Raises:
            UserError: If a text names nothing.
        """
        given = dict(options.model or {})
        for name, registry in cls.registries.items():
            if isinstance(given.get(name), str):
                given[name] = registry.normalize(given[name], name)
        return given

    @classmethod
    def unused(cls, options: FitOptions) -> dict[str, tuple[str, ...]]:
        """Patterns of options without effect, by what ignores them."""
        unused = {f"method {options.method}": cls.without_effect}
        name = options.corpus_name
        if options.vectors is not None:
            where = "vectors, which are neither encoded nor measured"
            unused[where] = ("encoder", "encoder.*", "corpus", "nli", "max_sentences")
            unused[where] += (*_MEASURING, "cache")
        elif name in _WITHOUT_FILES:
            unused[f"the corpus {name}, which is no table"] = ("column",)
        return unused

    def embed(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings before the training, ``(N, D)``."""
        return self.cache.rows(self.encoder, sentences)[:]

    def load_corpus(self) -> Corpus:
        """The corpus of the options; ``target`` and ``train_only`` are those of the first task."""
        options = self.options
        if self.tasks and options.corpus_name in OWN_NAMES:
            given = {"nli": options.nli, "column": options.column}
            check_used(given, (), f"the corpus {options.corpus_name}")
            # In a comparison, which has each task's own, `target` is another corpus.
            task = self.tasks[0]
            corpus = task.corpus(options.corpus_name)
            return replace(
                corpus, name=OWN_NAMES[options.corpus_name].format(task.name)
            )
        source = "target" if options.corpus is None else options.corpus
        return load_corpus(source, nli=options.nli or "hub", column=options.column)

    def set_fitted_on(self, fitted_on: Any) -> None:
        """Keep name and digest of what is fitted on."""
        self.corpus, self.digest = fitted_on.name, fitted_on.digest
        self.settings.add(corpus={"name": self.corpus, "digest": self.digest})


class RowsMethod(Method):
    """A method that is fitted on the vectors of a frozen encoder, or on given ones.

    Attributes:
        rows: The vectors, ``(N, D)``.
    """

    is_frozen = True
    rows: Any = None

    @classmethod
    def unused(cls, options: FitOptions) -> dict[str, tuple[str, ...]]:
        """Patterns of options without effect, by what ignores them."""
        name = options.corpus_name
        nli = {} if name == "nli" else {f"the corpus {name}": ("nli",)}
        return {**super().unused(options), **nli}

    def open(self) -> None:
        """Load sentences or vectors, and open the encoder."""
        options = self.options
        check_limits(**options.data or {})
        if options.vectors is not None:
            self.rows = as_vectors(options.vectors, options.column)
            self.set_fitted_on(self.rows)
            self.settings.add(encoder=None)
            return
        fitted_on = self.load_corpus()
        if options.max_sentences is not None:
            fitted_on = fitted_on.sample(options.max_sentences, options.seed)
        self.set_fitted_on(fitted_on)
        self.sentences = fitted_on.sentences
        self.encoder = open_encoder(options.encoder, self.sentences, self.device)
        self.settings.add(encoder=self.encoder.identity)

    @property
    def dim(self) -> int:
        """Size D of a vector."""
        return super().dim if self.rows is None else int(self.rows.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the predictions, ``(N, D)``."""
        return len(self.rows), self.dim

    def encode(self, sentences: Sequence[str]) -> None:
        """Encode what is fitted on and further sentences."""
        if self.encoder is not None:
            self.cache.fill([self.encoder], [*self.sentences, *sentences])
            self.rows = self.cache.rows(self.encoder, self.sentences)
