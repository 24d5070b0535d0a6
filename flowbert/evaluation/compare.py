"""Methods on the same embeddings and tasks: one frozen pass of each encoder feeds them all."""

import itertools
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert import __version__
from flowbert.data.corpus import Corpus, load_corpus
from flowbert.data.files import as_list
from flowbert.data.sts import Subset
from flowbert.encoders import (
    EmbeddingCache,
    EmbeddingRows,
    Encoder,
    EncoderOptions,
    open_encoders,
)
from flowbert.errors import UserError
from flowbert.evaluation.intervals import add_intervals
from flowbert.evaluation.labels import embed_pairs, given_labels, labels_of
from flowbert.evaluation.methods import Method, fit_map, parse_methods
from flowbert.evaluation.results import Results, fingerprint
from flowbert.io import digest, load_tensors, save_tensors
from flowbert.maps import (
    AffineMap,
    AnyMap,
    LabelledPairs,
    Moments,
    Raw,
    check_map,
    flaw_of,
)
from flowbert.progress import bar
from flowbert.seeding import Stream
from flowbert.tasks import POSITIVE_ABOVE, STS, Measured, Task, load_tasks
from flowbert.tasks.measures import Floats

SAMPLE_SIZE = 1000
"""Sentences whose vectors are kept for the analysis of a comparison."""

_KIND = "cell of a comparison"
_OWN = ("target", "train_only")

Finished = tuple[Measured, Tensor | None]
"""Figures of a cell, and vectors ``(S, k)`` of a sample of its sentences for the analysis."""


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
    def fit_key(self) -> str:
        """Digest of what decides the fitted map."""
        labels = [
            (subset.sentences1, subset.sentences2, subset.scores.tolist())
            for subset in self.labels
        ]
        corpus = None if self.corpus is None else self.corpus.digest
        return digest(self.encoder.identity, self.method.key, corpus, labels, self.seed)

    @cached_property
    def key(self) -> str:
        """Digest of what decides the figures."""
        return digest(self.fit_key, self.task.digest, __version__)

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


def compare(
    encoder: "str | EncoderOptions | Encoder" = "builtin-sample",
    methods: Any = "raw,whitening",
    *,
    corpus: str | Sequence[str] = "target",
    nli: str = "hub",
    column: str | None = None,
    max_sentences: int | None = None,
    tasks: str | Sequence[str] = "SAMPLE",
    senteval: str | None = None,
    split: str | Sequence[str] = "test",
    columns: str | Sequence[str] | None = None,
    score_range: Sequence[float] | None = None,
    positive_above: float = POSITIVE_ABOVE,
    uniformity_limit: int | None = None,
    labels: str | None = None,
    drop_overlap: bool = False,
    seeds: int | Sequence[int] = 0,
    bootstrap: int = 1000,
    bootstrap_seed: int = 0,
    output: str | Path | None = None,
    cache: str | EmbeddingCache | None = None,
    device: str | torch.device = "cpu",
) -> Results:
    """Compare encoders x layers x poolings x methods x corpora x tasks x seeds.

    Args:
        encoder: An encoder, its path, or options whose path, layers and pooling may be lists.
        methods: Maps by name (``whitening-128:shrinkage=0.1``, ``flow``, ``whitening-64+flow``),
            estimators (a fitted one is used as it is), models or their folders; a list, a
            comma-separated text, or a dict from the names in tables.
        corpus: What maps are fitted on: ``target`` (all sentences of the task, labels unused),
            ``train_only``, ``nli``, ``builtin-sample``, files or ``hub:NAME``.
        nli: NLI pairs of the corpus ``nli``: ``hub``, ``builtin-sample``, or files.
        column: Column of the sentences in table files.
        max_sentences: Fit on a random subset of so many sentences.
        tasks: Tasks, a list or comma-separated: STS12 to STS16, STSB, SICKR, SAMPLE, files of
            scored pairs, ``answers:FILE``, ``probe:SICKR``, ``lexical:STSB``.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        split: Splits to measure.
        columns: Columns of own pair files.
        score_range: Lowest and highest score of own pair files.
        positive_above: Gold score above which a pair is a positive of the alignment.
        uniformity_limit: Largest number of sentences for the uniformity.
        labels: Task or file whose labelled pairs supervised maps learn from; None for the train
            split of each task.
        drop_overlap: Learn without labelled pairs that are measured; otherwise they are an error.
        seeds: Seeds of the flows.
        bootstrap: Resamples of the confidence intervals; 0 for none.
        bootstrap_seed: Their seed.
        output: ``results.json`` to write; finished cells are kept beside it and not computed
            again.
        cache: The embedding cache, or its folder.
        device: Device of the encoder.

    Returns:
        The results, with intervals and verdicts.

    Raises:
        UserError: If an argument is wrong; nothing has been encoded then.

    Example:
        >>> results = compare(methods="raw,whitening", bootstrap=0)
        >>> results.figure("whitening", "SAMPLE") > results.figure("raw", "SAMPLE")
        True
    """
    seeds = check_options(seeds, bootstrap, output)
    chosen = parse_methods(methods)
    measured = load_tasks(
        tasks,
        senteval,
        split=split,
        columns=columns,
        score_range=score_range,
        positive_above=positive_above,
        uniformity_limit=uniformity_limit,
    )
    names = as_list(corpus, "corpus", paths=True)
    shared = {
        name: load_corpus(name, nli=nli, column=column)
        for name in names
        if name not in _OWN
    }
    corpora: dict[Task, list[Corpus]] = {}
    for task in measured:
        corpora[task] = [
            shared[name] if name in shared else task.corpus(name) for name in names
        ]
        if max_sentences is not None:
            corpora[task] = [
                whole.sample(max_sentences, seeds[0]) for whole in corpora[task]
            ]
    distinct = {each.digest: each for own in corpora.values() for each in own}
    count_over = [text for each in distinct.values() for text in each.sentences]
    encoders = open_encoders(encoder, count_over, device)
    learned = {}
    if any(method.supervised and method.needs_fit for method in chosen):
        given = given_labels(labels, senteval, columns)
        learned = {
            task: labels_of(task, [task], given, drop_overlap) for task in measured
        }
    cells = plan_cells(encoders, chosen, corpora, learned, seeds)
    results = compute(cells, cache, output, device)
    add_intervals(results, bootstrap, bootstrap_seed)
    if output is not None:
        results.save(output)
        if results.vectors and os.environ.get("FLOWBERT_REPORT") != "0":
            from flowbert.evaluation.spaces import analyze_results  # slow to import

            file = Path(output).with_suffix(".analysis.json")
            analyze_results(results).to_json(file)
    return results


def check_options(
    seeds: int | Sequence[int], bootstrap: int, output: str | Path | None
) -> list[int]:
    """Check what comparisons and reproductions share; the seeds as a list.

    Raises:
        UserError: If an argument is wrong.
    """
    if output is not None and Path(output).suffix != ".json":
        raise UserError(f"output: received {output}; expected a file ending in .json")
    if bootstrap < 0:
        raise UserError(f"bootstrap: received {bootstrap}; expected 0 or more")
    numbers = [seeds] if isinstance(seeds, int) else list(seeds)
    if not numbers:
        raise UserError("seeds: received none; expected one or more")
    return numbers


def plan_cells(
    encoders: Sequence[Encoder],
    methods: Sequence[Method],
    corpora: Mapping[Task, Sequence[Corpus]],
    labels: Mapping[Task, tuple[Subset, ...]],
    seeds: Sequence[int],
) -> list[Cell]:
    """All cells, in the order of the tables; none twice.

    Args:
        encoders: Opened encoders.
        methods: Methods.
        corpora: Corpora to fit on, by task.
        labels: Labelled pairs of the supervised methods, by task.
        seeds: Seeds of the methods that draw random numbers.

    Raises:
        UserError: If a method does not fit the size of an encoder's vectors.
    """
    cells = []
    for encoder, method in itertools.product(encoders, methods):
        if method.needs_fit:
            check_map(method.map, encoder.dim)
    for encoder, task, method in itertools.product(encoders, corpora, methods):
        if not method.needs_fit:
            cells.append(Cell(method.encoder or encoder, method, task))
            continue
        own = labels[task] if method.supervised else ()
        for corpus in corpora[task]:
            for seed in seeds if method.seeded else [None]:
                cells.append(Cell(encoder, method, task, corpus, seed, own))
    return list({tuple(cell.columns().values()): cell for cell in cells}.values())


def compute(
    cells: Sequence[Cell],
    cache: str | EmbeddingCache | None = None,
    output: str | Path | None = None,
    device: str | torch.device = "cpu",
) -> Results:
    """Compute cells; each map is fitted once for all tasks that share its corpus.

    Args:
        cells: The cells.
        cache: The embedding cache, or its folder.
        output: File of results; finished cells are kept beside it, one file each.
        device: Device on which flows are fitted.
    """
    if not isinstance(cache, EmbeddingCache):
        cache = EmbeddingCache(cache)
    files: dict[str, Path] = {}
    if output is not None:
        folder = Path(output).with_suffix(".cells")
        files = {cell.key: folder / f"{cell.key}.safetensors" for cell in cells}
    finished = {key: _read(file) for key, file in files.items() if file.is_file()}
    pending = [cell for cell in cells if cell.key not in finished]
    _encode(pending, cache)
    by_fit: dict[str, list[Cell]] = defaultdict(list)
    for cell in pending:
        by_fit[cell.fit_key].append(cell)
    sampled = _sampled(cells)
    embedded = None
    for same in bar(by_fit.values(), "Fitting", unit="maps"):
        encoder = same[0].encoder
        if embedded is None or embedded.encoder is not encoder:
            embedded = _Embedded(encoder, cache)
        fitted, flaw = _fit(same[0], embedded, device)
        for cell in same:
            vectors, sample = embedded.task(cell.task), None
            if flaw is None:
                vectors = fitted.transform(vectors)
                sample = vectors[_sample(cell.task)] if cell in sampled else None
            finished[cell.key] = cell.task.measure(vectors, flaw), sample
            if files:
                _write(files[cell.key], *finished[cell.key])
    results = _results(cells, finished, device)
    for cell in sampled:
        results.sentences = [cell.task.sentences[row] for row in _sample(cell.task)]
        _, sample = finished[cell.key]
        if sample is not None:
            results.vectors[cell.method.name] = sample
    return results


def _encode(cells: Sequence[Cell], cache: EmbeddingCache) -> None:
    """Fill the cache with all sentences of the cells, one pass for each backbone."""
    encoders: dict[str, dict[Encoder, None]] = defaultdict(dict)
    sentences: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        key = cell.encoder.pass_key
        encoders[key][cell.encoder] = None
        sentences[key].update(cell.task.sentences)
        if cell.corpus is not None:
            sentences[key].update(cell.corpus.sentences)
        for subset in cell.labels:
            sentences[key].update(subset.sentences1, subset.sentences2)
    for key, group in encoders.items():
        cache.fill(list(group), list(sentences[key]))


class _Embedded:
    """What all maps of an encoder share; memory holds that of one encoder."""

    def __init__(self, encoder: Encoder, cache: EmbeddingCache) -> None:
        self.encoder = encoder
        self._cache = cache
        self._rows: dict[str, EmbeddingRows] = {}
        self._moments: dict[str, Moments] = {}
        self._tasks: dict[Task, Tensor] = {}

    def rows(self, corpus: Corpus) -> EmbeddingRows:
        """Vectors of a corpus, ``(N, D)``."""
        if corpus.digest not in self._rows:
            rows = self._cache.rows(self.encoder, corpus.sentences)
            self._rows[corpus.digest] = rows
        return self._rows[corpus.digest]

    def moments(self, corpus: Corpus) -> Moments:
        """Moments of the vectors of a corpus."""
        if corpus.digest not in self._moments:
            rows = self.rows(corpus)
            moments = Moments(rows.shape[1]).update_blocks(rows.blocks())
            self._moments[corpus.digest] = moments
        return self._moments[corpus.digest]

    def task(self, task: Task) -> Tensor:
        """Vectors of the sentences of a task, ``(M, D)``."""
        if task not in self._tasks:
            vectors = self._cache.embed(self.encoder, task.sentences)
            self._tasks[task] = torch.from_numpy(vectors)
        return self._tasks[task]

    def pairs(self, labels: Sequence[Subset]) -> LabelledPairs | None:
        """Vectors of labelled pairs; None without pairs."""
        if not labels:
            return None
        return embed_pairs(lambda texts: self._cache.embed(self.encoder, texts), labels)


def _fit(
    cell: Cell, embedded: _Embedded, device: str | torch.device
) -> tuple[AnyMap, str | None]:
    """The cell's map, and why its results mean nothing (None if they do)."""
    method = cell.method
    if method.fitted:
        return method.map, flaw_of(method.map)
    if cell.corpus is None:
        return Raw().fit(torch.zeros(1, cell.encoder.dim)), None
    affine = isinstance(method.map, AffineMap)
    return fit_map(
        method.map,
        embedded.rows(cell.corpus),
        moments=embedded.moments(cell.corpus) if affine else None,
        pairs=embedded.pairs(cell.labels),
        seed=cell.seed,
        device=device,
    )


def _sampled(cells: Sequence[Cell]) -> list[Cell]:
    """The first cell of each method on the first STS task: their vectors are analyzed."""
    tasks = [cell.task for cell in cells if isinstance(cell.task, STS)]
    first: dict[str, Cell] = {}
    for cell in cells:
        if cell.task in tasks[:1]:
            first.setdefault(cell.method.name, cell)
    return list(first.values())


def _sample(task: Task) -> NDArray[np.int64]:
    """Rows of the sentences whose vectors are kept."""
    return Stream(0, "sample").rng().permutation(len(task.sentences))[:SAMPLE_SIZE]


def _results(
    cells: Sequence[Cell], finished: Mapping[str, Finished], device: str | torch.device
) -> Results:
    """Rows of all cells, and of what is no method but stands in the same table."""
    rows = []
    items: dict[Task, dict[str, Floats]] = defaultdict(dict)
    for cell in cells:
        measured, _ = finished[cell.key]
        items[cell.task][cell.key] = measured.items
        rows += _rows(cell.columns(), measured)
    for task, own in items.items():
        for name, values in task.references.items():
            key = digest(task.digest, name)
            own[key] = values
            settings = ("encoder", "layers", "pooling", "corpus")
            columns = {
                **dict.fromkeys(settings, "none"),
                "method": name,
                "seed": None,
                "task": task.name,
                "split": task.split,
                "pairs": task.count,
                "supervised": False,
                "cell": key,
            }
            rows += _rows(columns, Measured(values, task.score(values)))
    record = fingerprint({"cells": [cell.key for cell in cells]}, device)
    encoders = dict.fromkeys(cell.encoder for cell in cells)
    record["encoders"] = [encoder.describe() for encoder in encoders]
    results = Results(rows, record)
    results.items = dict(items)
    return results


def _rows(columns: Mapping[str, Any], measured: Measured) -> list[dict[str, Any]]:
    rows = []
    for (metric, aggregation), value in measured.scores.items():
        row = {**columns, "metric": metric, "aggregation": aggregation, "value": value}
        exists = np.isfinite(value)
        rows.append(row | {"reason": "" if exists else measured.reason})
    return rows


def _write(file: Path, measured: Measured, sample: Tensor | None) -> None:
    scores = [
        [*metric, None if np.isnan(value) else value]
        for metric, value in measured.scores.items()
    ]
    tensors: dict[str, Any] = {"items": measured.items}
    if sample is not None:
        tensors["sample"] = sample
    save_tensors(file, _KIND, tensors, scores=scores, reason=measured.reason)


def _read(file: Path) -> Finished:
    tensors, metadata = load_tensors(file, _KIND)
    scores = {
        (metric, aggregation): np.nan if value is None else value
        for metric, aggregation, value in metadata["scores"]
    }
    items = tensors["items"].numpy()
    return Measured(items, scores, metadata["reason"]), tensors.get("sample")
