"""Methods side by side on the same embeddings: one frozen pass of the encoder feeds them all."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flowbert.calibration.moments import Moments
from flowbert.data.corpus import Corpus, sentences_digest
from flowbert.data.labels import unmeasured
from flowbert.data.sts import Subset, sentence_pairs
from flowbert.encoders.counting import Counted
from flowbert.errors import UserError
from flowbert.evaluation.code import code_digest
from flowbert.evaluation.results import Row, rows_of
from flowbert.io.digest import digest_json
from flowbert.methods.base import FittedMap, Method
from flowbert.methods.chain import LabelledPairs
from flowbert.progress import progress
from flowbert.tasks.base import Measured, Task
from flowbert.tasks.protocol import Embed
from flowbert.vectors import VectorCorpus

_CHUNK = 8192  # rows at a time: bounds the memory whatever the corpus


@dataclass(frozen=True, eq=False)
class Source:
    """Frozen embeddings: an encoder with its layers and pooling, word vectors, or vectors from elsewhere.

    Attributes:
        columns: Columns of a results row that describe it: encoder, layers, pooling and so on.
        key: Identity of the embeddings as JSON values.
        dim: Their size D.
        embed: From M sentences to embeddings ``(M, D)``.
        prepare: Encodes what is missing of some sentences, with progress; the current processes share it, and all call.
        expect: Notes sentences that are going to be asked for: the next pass of the encoder serves all sources.
        with_counts: The source with the token counts of some sentences, where its pooling needs them; else None.
        halves: Sources of the same encoder over every second token; None where there are none.
        begins_with_cls: Whether its sentences begin with [CLS].
    """

    columns: Mapping[str, Any]
    key: Mapping[str, Any]
    dim: int
    embed: Embed
    prepare: Callable[[Iterable[str]], None]
    expect: Callable[[Iterable[str]], None] = lambda _: None
    with_counts: Callable[[Counted], "Source"] | None = None
    halves: Callable[[], Sequence["Source"]] | None = None
    begins_with_cls: bool = False


@dataclass(frozen=True, eq=False)
class Cell:
    """One method on one task: what is computed, or skipped, as a whole.

    Attributes:
        source: The embeddings.
        task: What is measured.
        method: The method.
        corpus: What the method is fitted on; None if it is not fitted here.
        seed: Seed of the method; None where nothing is random.
        labels: Labelled pairs that a supervised method learns from.

    Raises:
        UserError: If a supervised method has no labels, or a labelled pair is measured, too.
    """

    source: Source
    task: Task
    method: Method
    corpus: Corpus | None
    seed: int | None
    labels: tuple[Subset, ...] = ()

    def __post_init__(self) -> None:
        if self.method.supervised and not self.labels:
            raise UserError(
                f"labels: received none; method {self.method.name} learns from labelled pairs and task "
                f"{self.task.name} has no train split, or none beside what is measured; allowed: a task that has one, "
                "or a file of pairs"
            )
        unmeasured(self.labels, self.task.pairs, f"{self.task.name} {self.task.split}")

    @cached_property
    def fit_key(self) -> str:
        """Digest of what decides the fitted map."""
        names = {"name": self.method.name, "identity": self.method.identity, "seed": self.seed}
        labels = None
        if self.labels:
            labels = sentences_digest([*self._labelled, *(str(subset.scores.tolist()) for subset in self.labels)])
        corpus = None if self.corpus is None else self.corpus.digest
        return digest_json({"source": self.source.key, "corpus": corpus, "labels": labels, **names}, compact=True)

    @cached_property
    def setting(self) -> str:
        """Digest of everything that decides the figures but the code."""
        # The number is what it was when it stood for the code, so that older rows are still found, and replaced.
        return digest_json({"fit": self.fit_key, "job": self.task.key, "version": "0.1.0"}, compact=True)

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
            "code": code_digest(),
        }

    @property
    def _labelled(self) -> list[str]:
        return [text for sentences in sentence_pairs(self.labels) for text in sentences]

    def needed(self) -> list[str]:
        """Every sentence that must be embedded."""
        return [*self.task.sentences(), *self._labelled, *(() if self.corpus is None else self.corpus.sentences)]


@dataclass(frozen=True, eq=False)
class Request:
    """Everything to compare: each embeddings x task x method x corpus x seed.

    Attributes:
        embeddings: Encoders with their layers and pooling, or word vectors.
        tasks: What is measured.
        methods: The methods.
        corpora: Names of the corpora.
        corpus_of: Loads the corpus of a name for a task.
        labels_of: Labelled pairs for supervised methods on a task.
        seeds: Seeds of the methods with a random start.
        drop_overlap: Learn without the labelled pairs that are measured, in place of refusing.
        counted_for: What token weights are counted over, for the corpus of a name and a task.
    """

    embeddings: Sequence[Source]
    tasks: Sequence[Task]
    methods: Sequence[Method]
    corpora: Sequence[str]
    corpus_of: Callable[[str, Task], Corpus]
    labels_of: Callable[[Task], Sequence[Subset]]
    seeds: Sequence[int] = field(default=(0,))
    drop_overlap: bool = False
    counted_for: Callable[[str, Task], Counted] | None = None

    def cells(self) -> list[Cell]:
        """All cells, in the order of the tables: by source, task, corpus, method, seed; ready maps once per task."""
        return [cell for source in self.embeddings for task in self.tasks for cell in self._of(source, task)]

    def _of(self, source: Source, task: Task) -> Iterator[Cell]:
        ready: set[tuple[Source, Method]] = set()
        for name in self.corpora:
            here = self._counted(source, name, task)
            for method in self.methods:
                if method.build is None:
                    if (here, method) not in ready:
                        yield Cell(here, task, method, None, None)
                    ready.add((here, method))
                    continue
                labels = self._labels(task) if method.supervised else ()
                for seed in self.seeds if method.seeded else (None,):
                    yield Cell(here, task, method, self.corpus_of(name, task), seed, labels)

    def _counted(self, source: Source, name: str, task: Task) -> Source:
        if source.with_counts is None or self.counted_for is None:
            return source
        return source.with_counts(self.counted_for(name, task))

    def _labels(self, task: Task) -> tuple[Subset, ...]:
        labels = tuple(self.labels_of(task))
        where = f"{task.name} {task.split}"
        return unmeasured(labels, task.pairs, where, drop_overlap=True) if self.drop_overlap else labels


def encode(cells: Sequence[Cell]) -> None:
    """Encode what cells need; the current processes share it, and all call with the same cells."""
    for source, mine in _by_source(cells).items():
        source.prepare(text for cell in mine for text in cell.needed())


def _by_source(cells: Sequence[Cell]) -> dict[Source, list[Cell]]:
    """Cells by their source, which is told all that is going to be asked for; maps are checked before any encoding."""
    for source, method in dict.fromkeys((cell.source, cell.method) for cell in cells):
        method.check_embeddings(source.key, source.dim)
    found: dict[Source, list[Cell]] = {}
    for cell in cells:
        cell.source.expect(cell.needed())
        found.setdefault(cell.source, []).append(cell)
    return found


def shares(cells: Sequence[Cell], processes: int) -> list[list[Cell]]:
    """Deal cells out to processes, so that each map is fitted by one of them.

    The maps in closed form of a source and corpus, or a ready one on a task, are of one process: they start from the
    same moments. Those with a random start take longest, and are dealt out one by one behind them.

    Returns:
        For each process its cells, none for some if there are too few.
    """
    together: dict[Any, list[Cell]] = {}
    for cell in cells:
        fitted = cell.task if cell.corpus is None else cell.corpus.digest
        unit = (cell.source, fitted) if cell.seed is None else (cell.source, cell.fit_key)
        together.setdefault(unit, []).append(cell)
    units = sorted(together.values(), key=lambda unit: unit[0].seed is not None)
    return [[cell for unit in units[rank::processes] for cell in unit] for rank in range(processes)]


def run(
    cells: Sequence[Cell], look: Callable[[Cell, FittedMap], None] = lambda *_: None
) -> Iterator[tuple[Cell, Measured]]:
    """Compute cells; each map is fitted once for all tasks that share its corpus, each encoder's pass comes first.

    Args:
        cells: What to compute.
        look: Is shown each cell with its map before the figures are.

    Yields:
        Each cell with its figures as soon as they are there.
    """
    for source, mine in _by_source(cells).items():
        source.prepare(text for cell in mine for text in cell.needed())
        prepared: dict[Task, Any] = {}
        corpus = ""
        moments: Moments | None = None  # of the corpus of this digest: all maps of it start from them
        for fit_key in dict.fromkeys(cell.fit_key for cell in mine):
            same = [cell for cell in mine if cell.fit_key == fit_key]
            if same[0].corpus is not None and same[0].corpus.digest != corpus:
                corpus, moments = same[0].corpus.digest, None
            fitted = fit(same[0], moments)
            if fitted.chain is not None:
                moments = fitted.chain.moments or moments
            for cell in same:
                look(cell, fitted)
                if cell.task not in prepared:
                    prepared[cell.task] = cell.task.prepare(source.embed)
                yield cell, cell.task.measure(prepared[cell.task], fitted.transform, fitted.flaw)


def reference_rows(tasks: Iterable[Task]) -> list[Row]:
    """Rows of what is no method but stands beside them: of the gold score, against the edit distance."""
    none = dict.fromkeys(("encoder", "layers", "pooling", "corpus"), "none")
    return [
        row
        for task in tasks
        for name, items in task.references.items()
        for row in rows_of(task.measure_items(items), **none, method=name, code=code_digest())
    ]


def fit(cell: Cell, moments: Moments | None = None) -> FittedMap:
    """The cell's map, fitted on its corpus block by block.

    Args:
        cell: The cell.
        moments: Moments of the corpus under the cell's source, where another map has found them.

    Raises:
        UserError: If the method cannot be fitted on this corpus.
    """
    texts, embed = () if cell.corpus is None else cell.corpus.sentences, cell.source.embed

    def embedded() -> Iterator[Tensor]:
        for start in range(0, len(texts), _CHUNK):
            yield torch.as_tensor(embed(texts[start : start + _CHUNK]))

    def blocks() -> Iterator[Tensor]:
        rows = cell.corpus.blocks() if isinstance(cell.corpus, VectorCorpus) else embedded()
        with progress(len(cell.corpus or ()), f"Fitting {cell.method.name}", "rows") as step:
            for block in rows:
                yield block
                step.update(len(block))

    return cell.method.fit(blocks, _labelled_pairs(cell) if cell.labels else None, cell.seed, moments)


def _labelled_pairs(cell: Cell) -> LabelledPairs:
    left, right = (torch.as_tensor(cell.source.embed(sentences)) for sentences in sentence_pairs(cell.labels))
    scores = np.concatenate([subset.scores for subset in cell.labels])
    return LabelledPairs(left, right, torch.from_numpy(scores))
