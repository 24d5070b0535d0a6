"""The cells of a comparison: one method on one task, fitted on one corpus with one seed."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flowbert.data.corpus import Corpus
from flowbert.data.sts import Subset
from flowbert.encoders import Encoder, unchanged
from flowbert.errors import UserError
from flowbert.experiments.candidates import Method
from flowbert.io import digest
from flowbert.maps import check_map
from flowbert.tasks import Task

Samples = Mapping[tuple[str, int], Corpus]
"""The sample of a corpus that a seed draws, by the digest of the corpus and the seed."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One method on one task, fitted on one corpus with one seed."""

    encoder: Encoder
    method: Method
    task: Task
    corpus: Corpus | None = None
    seed: int | None = None
    labels: tuple[Subset, ...] = ()

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Identity of the encoder when the cell was planned."""
        return self.encoder.identity

    @cached_property
    def fit_key(self) -> str:
        """Digest of what decides the fitted map."""
        corpus = None if self.corpus is None else self.corpus.digest
        return digest(self.identity, self.method.key, corpus, self._labels, self.seed)

    @cached_property
    def key(self) -> str:
        """Digest of all settings that decide the figures."""
        return digest(self.fit_key, self.task.digest)

    @cached_property
    def _labels(self) -> str | None:
        """Digest of the labelled pairs."""
        pairs = [
            (subset.sentences1, subset.sentences2, subset.scores.tolist())
            for subset in self.labels
        ]
        return digest(pairs) if pairs else None

    @property
    def lasting(self) -> bool:
        """Whether the settings tell the cell from all others, also those of other processes."""
        return self.method.token is None and getattr(self.encoder, "lasting", True)

    def settings(self) -> dict[str, Any]:
        """All settings in words."""
        corpus = self.corpus
        return {
            "encoder": {**self.encoder.describe(), "identity": self.identity},
            "method": self.method.settings(),
            "corpus": None if corpus is None else corpus_settings(corpus),
            "labels": {"pairs": sum(map(len, self.labels)), "digest": self._labels},
            "seed": self.seed,
            "task": self.task.settings(),
        }

    def columns(self) -> dict[str, Any]:
        """Columns of the cell's rows."""
        return {
            **self.encoder.columns(),
            "method": self.method.name,
            "corpus": self.method.corpus if self.corpus is None else self.corpus.name,
            "seed": self.seed if self.method.seed is None else self.method.seed,
            "task": self.task.name,
            "split": self.task.split,
            "pairs": self.task.count,
            "supervised": self.method.supervised,
            "cell": self.key,
        }


def corpus_settings(corpus: Corpus) -> dict[str, Any]:
    """A corpus in words."""
    return {
        "name": corpus.name,
        "sentences": len(corpus),
        "digest": corpus.digest,
    }


def draw_samples(
    corpora: Sequence[Corpus], max_sentences: int | None, seeds: Sequence[int]
) -> Samples:
    """The sample of each corpus that each seed draws; the whole corpus where it is small enough."""
    if max_sentences is None:
        return {}
    distinct = {corpus.digest: corpus for corpus in corpora}
    return {
        (name, seed): corpus.sample(max_sentences, seed)
        for name, corpus in distinct.items()
        for seed in seeds
    }


@unchanged()
def plan_cells(
    encoders: Sequence[Encoder],
    methods: Sequence[Method],
    corpora: Mapping[Task, Sequence[Corpus]],
    labels: Mapping[Task, tuple[Subset, ...]],
    seeds: Sequence[int],
    samples: Samples | None = None,
) -> list[Cell]:
    """All cells, in the order of the tables; none twice.

    Args:
        encoders: Opened encoders.
        methods: Methods.
        corpora: Corpora to fit on, by task.
        labels: Labelled pairs of the supervised methods, by task.
        seeds: Seeds of the methods that draw random numbers, and of the samples.
        samples: What is fitted on in place of whole corpora, see :func:`draw_samples`.

    Raises:
        UserError: If a method does not fit the size of an encoder's vectors, or two different cells
            would have the same names.
    """
    for encoder, method in itertools.product(encoders, methods):
        own = method.encoder or encoder
        if method.needs_fit:
            check_map(method.map, own.dim)
        elif method.size not in (None, own.dim):
            raise UserError(
                f"methods: {method.name}: was fitted on vectors of size {method.size}; expected "
                f"one of size {own.dim}, that of {own.path}"
            )
    cells = []
    for encoder, task, method in itertools.product(encoders, corpora, methods):
        if not method.needs_fit:
            cells.append(Cell(method.encoder or encoder, method, task))
            continue
        pairs = labels[task] if method.supervised else ()
        for corpus, seed in itertools.product(corpora[task], seeds):
            drawn = (samples or {}).get((corpus.digest, seed), corpus)
            random = method.seeded or drawn is not corpus
            used = seed if random else None
            cells.append(Cell(encoder, method, task, drawn, used, pairs))
    return _distinct(cells)


def _distinct(cells: Sequence[Cell]) -> list[Cell]:
    """Cells without repetitions; two that differ have different names in the table."""
    known: dict[tuple[Any, ...], Cell] = {}
    for cell in cells:
        columns = cell.columns()
        key = columns.pop("cell")
        measured = (cell.task.kind, cell.task.metrics)
        first = known.setdefault((*columns.values(), *measured), cell)
        if first.key != key:
            names = ", ".join(f"{name} {value}" for name, value in columns.items())
            raise UserError(
                f"compare: received two different cells called {names}; expected encoders, "
                "methods and corpora with different names"
            )
    return list(known.values())
