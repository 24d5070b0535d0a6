"""Methods side by side on the same embeddings: one frozen pass of the encoder feeds them all."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flowbert import __version__
from flowbert.calibration.chain import Chain, LabelledPairs
from flowbert.data.corpus import Corpus, sentences_digest
from flowbert.data.sts import Subset
from flowbert.errors import UserError
from flowbert.evaluation.jobs import Job, Measured
from flowbert.evaluation.pairs import sentence_pairs
from flowbert.evaluation.protocol import Embed, Transform
from flowbert.evaluation.results import config_hash

_CHUNK = 8192  # rows at a time: bounds the memory whatever the corpus


@dataclass(frozen=True, eq=False)
class Source:
    """Frozen embeddings: an encoder with its layers and pooling, or word vectors.

    Attributes:
        columns: Columns of a results row that describe it: encoder, layers, pooling and so on.
        key: Identity of the embeddings as JSON values.
        embed: From M sentences to embeddings ``(M, D)``.
        prepare: Encodes what is missing of some sentences, with progress.
    """

    columns: Mapping[str, Any]
    key: Mapping[str, Any]
    embed: Embed
    prepare: Callable[[Iterable[str]], None]


@dataclass(frozen=True, eq=False)
class Method:
    """A method as the tables name it.

    Attributes:
        name: Its name.
        build: Makes the unfitted map for a seed; None for a map that is not fitted here.
        ready: The map if it is not fitted here; None leaves the embeddings raw.
        fitted_on: What a ready map was fitted on, for the column ``corpus``.
        seeded: Whether the seed plays a role.
        supervised: Whether it learns from labels.
        identity: What else decides its figures, as JSON values, e.g. the digest of a file.
        check: Refuses a source that a ready map does not belong to.
    """

    name: str
    build: Callable[[int], Chain] | None = None
    ready: Transform | None = None
    fitted_on: str = "none"
    seeded: bool = False
    supervised: bool = False
    identity: Any = None
    check: Callable[[Source], None] | None = None

    @property
    def shown(self) -> str:
        """Its name, with a star if it learns from labels."""
        return f"{self.name}*" if self.supervised else self.name


@dataclass(frozen=True, eq=False)
class Cell:
    """One method on one job: what is computed, or skipped, as a whole.

    Attributes:
        source: The embeddings.
        job: What is measured.
        method: The method.
        corpus: What the method is fitted on; None if it is not fitted here.
        seed: Seed of the method; None where nothing is random.
        labels: Labelled pairs that a supervised method learns from.
    """

    source: Source
    job: Job
    method: Method
    corpus: Corpus | None
    seed: int | None
    labels: tuple[Subset, ...] = ()

    @cached_property
    def fit_key(self) -> str:
        """Digest of what decides the fitted map."""
        names = {"name": self.method.name, "identity": self.method.identity, "seed": self.seed}
        labels = None
        if self.labels:
            texts = [text for side in sentence_pairs(self.labels) for text in side]
            labels = sentences_digest([*texts, *(str(subset.scores.tolist()) for subset in self.labels)])
        corpus = None if self.corpus is None else self.corpus.digest
        return config_hash({"source": self.source.key, "corpus": corpus, "labels": labels, **names})

    @cached_property
    def setting(self) -> str:
        """Digest of everything that decides the figures."""
        return config_hash({"fit": self.fit_key, "job": self.job.key, "version": __version__})

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of the rows of this cell."""
        method = self.method
        return {
            **self.source.columns,
            "method": method.name,
            "corpus": method.fitted_on if self.corpus is None else self.corpus.name,
            "seed": self.seed,
            "supervised": method.supervised,
            "setting": self.setting,
        }

    def needed(self) -> list[str]:
        """Every sentence that must be embedded."""
        labelled = [text for side in sentence_pairs(self.labels) for text in side]
        return [*self.job.sentences(), *labelled, *(() if self.corpus is None else self.corpus.sentences)]


@dataclass(frozen=True, eq=False)
class Request:
    """Everything to compare: each source x job x method x corpus x seed.

    Attributes:
        sources: The embeddings.
        jobs: What is measured.
        methods: The methods.
        corpora: Names of the corpora.
        corpus_of: Loads the corpus of a name for a job.
        labels_of: Labelled pairs for supervised methods on a job.
        seeds: Seeds of the methods with a random start.
    """

    sources: Sequence[Source]
    jobs: Sequence[Job]
    methods: Sequence[Method]
    corpora: Sequence[str]
    corpus_of: Callable[[str, Job], Corpus]
    labels_of: Callable[[Job], Sequence[Subset]]
    seeds: Sequence[int] = field(default=(0,))

    def cells(self) -> list[Cell]:
        """All cells, in the order of the tables: by source, job, corpus, method, seed; ready maps once per job."""
        return [cell for source in self.sources for job in self.jobs for cell in self._of(source, job)]

    def _of(self, source: Source, job: Job) -> Iterator[Cell]:
        for number, name in enumerate(self.corpora):
            for method in self.methods:
                if method.build is None:
                    if number == 0:
                        yield Cell(source, job, method, None, None)
                    continue
                labels = tuple(self.labels_of(job)) if method.supervised else ()
                for seed in self.seeds if method.seeded else (None,):
                    yield Cell(source, job, method, self.corpus_of(name, job), seed, labels)


def run(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Measured]]:
    """Compute cells; each map is fitted once for all jobs that share its corpus, each encoder's pass comes first.

    Yields:
        Each cell with its rows as soon as they are there.
    """
    for source in dict.fromkeys(cell.source for cell in cells):
        mine = [cell for cell in cells if cell.source is source]
        for method in dict.fromkeys(cell.method for cell in mine):
            if method.check is not None:
                method.check(source)
        source.prepare(text for cell in mine for text in cell.needed())
        prepared: dict[Job, Any] = {}
        for fit_key in dict.fromkeys(cell.fit_key for cell in mine):
            same = [cell for cell in mine if cell.fit_key == fit_key]
            transform = fit(same[0])
            for cell in same:
                if cell.job not in prepared:
                    prepared[cell.job] = cell.job.prepare(source.embed)
                yield cell, cell.job.measure(prepared[cell.job], transform, cell.columns)


def fit(cell: Cell) -> Transform | None:
    """The cell's map, fitted on its corpus block by block; None leaves the embeddings raw.

    Raises:
        UserError: If the method cannot be fitted on this corpus.
    """
    if cell.method.build is None or cell.corpus is None:
        return cell.method.ready
    texts, embed = cell.corpus.sentences, cell.source.embed

    def blocks() -> Iterator[Tensor]:
        for start in range(0, len(texts), _CHUNK):
            yield torch.as_tensor(embed(texts[start : start + _CHUNK]))

    chain = cell.method.build(cell.seed or 0)
    return chain.fit_blocks(blocks, _labelled_pairs(cell) if chain.supervised else None).transform


def _labelled_pairs(cell: Cell) -> LabelledPairs:
    if not cell.labels:
        raise UserError(
            f"method {cell.method.name} learns from labelled pairs and task {cell.job.name} has no train split; "
            "allowed with --labels TASK: a task that has one, or a file of pairs"
        )
    left, right = (torch.as_tensor(cell.source.embed(side)) for side in sentence_pairs(cell.labels))
    scores = np.concatenate([subset.scores for subset in cell.labels])
    return LabelledPairs(left, right, torch.from_numpy(scores))
