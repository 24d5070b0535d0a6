"""Experiments are run: the only code that fits a map and measures it."""

import datetime
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sklearn.base import clone
from torch import Tensor

from flowbert.arrays import Floats, Indices
from flowbert.data.corpus import Corpus
from flowbert.data.sts import Subset
from flowbert.encoders import Encoder
from flowbert.errors import UserError
from flowbert.experiments.candidates import check_unseeded
from flowbert.experiments.environment import environment
from flowbert.experiments.kept import KeptRecords
from flowbert.experiments.plan import Experiment
from flowbert.experiments.results import Results
from flowbert.io import digest
from flowbert.maps import (
    AffineMap,
    LabelledPairs,
    Map,
    Moments,
    Raw,
)
from flowbert.progress import bar
from flowbert.seeding import Stream
from flowbert.tasks import STS, Record, Task
from flowbert.tasks.labels import embed_labels
from flowbert.vectors import EmbeddingCache, Vectors

SAMPLE_SIZE = 1000
"""Sentences whose vectors are kept for the analysis of a comparison."""

_ACCELERATORS = {"cpu": "cpu", "cuda": "gpu", "mps": "mps"}


def run_experiments(
    experiments: Sequence[Experiment],
    cache: str | EmbeddingCache | None = None,
    output: str | Path | None = None,
    device: str | torch.device = "cpu",
    *,
    samples: Mapping[str, Indices] | None = None,
    keep_maps: bool = False,
) -> Results:
    """Fit and measure; each backbone makes one pass, each map is fitted once for all its tasks.

    Args:
        experiments: What :func:`flowbert.experiments.plan.plan_experiments` returned.
        cache: The embedding cache, or its folder.
        output: File of results; finished records are kept beside it, one file each, and taken from
            there while settings, code, versions, device and threads are the same.
        device: Device on which flows are fitted.
        samples: Rows ``(S,)`` of the task's sentences whose vectors are kept with the results, by
            key of the experiment; None for 1000 sentences of the first task of scored pairs, once
            for each candidate.
        keep_maps: Whether the records have their fitted maps.

    Returns:
        The results, without intervals: see :meth:`Results.add_intervals`.
    """
    if not isinstance(cache, EmbeddingCache):
        cache = EmbeddingCache(cache)
    here = environment(device)
    samples = _first_samples(experiments) if samples is None else samples
    kept = KeptRecords(output, here)
    records = {} if keep_maps else kept.read(experiments, samples)
    by_fit: dict[str, list[Experiment]] = defaultdict(list)
    for experiment in experiments:
        if experiment.key not in records:
            by_fit[experiment.fit_key].append(experiment)
    _encode([each for same in by_fit.values() for each in same], cache)
    encoded = None
    for same in bar(by_fit.values(), "Fitting", unit="maps"):
        if encoded is None or encoded.encoder is not same[0].encoder:
            encoded = _Encoded(same[0].encoder, cache)
        fitted, reason = fit_experiment(same[0], encoded, device)
        for experiment in same:
            vectors, rows = encoded.task(experiment.task), samples.get(experiment.key)
            record = measure_experiment(experiment, fitted, reason, vectors, rows)
            record = replace(record, environment=here)
            kept.write(experiment, record)
            records[experiment.key] = replace(record, map=fitted if keep_maps else None)
    return _results(experiments, records, samples, here)


def fit_map(
    template: Map,
    rows: Any,
    *,
    moments: Moments | None = None,
    pairs: LabelledPairs | None = None,
    seed: int | None = None,
    device: torch.device | str = "cpu",
) -> tuple[Map, str | None]:
    """Fit a copy of a map or chain, on the rows and, where a step learns from them, on the pairs.

    Args:
        template: The map with its parameters.
        rows: Embeddings to fit on, ``(N, D)``.
        moments: Their moments, if they are known and the map is affine.
        pairs: Vectors of labelled pairs, ``(P, D)`` each, and their scores ``(P,)``.
        seed: Seed of a flow, or of a transformer whose ``random_state`` is None.
        device: Device of a flow.

    Returns:
        The fitted map, and why its results are undefined (None if they are not).

    Raises:
        UserError: If the map learns from labelled pairs and there are none.
    """
    check_unseeded(template)
    fitted: Any = clone(template)
    for part in fitted.parts:
        part.check_pairs(pairs)
        part.set_run_parameters(seed or 0, _ACCELERATORS[torch.device(device).type])
    try:
        if moments is not None:
            fitted.fit_moments(moments, pairs)
        else:
            fitted.fit(rows, pairs=pairs)
    except (UserError, ValueError) as error:
        return fitted, str(error)
    return fitted, fitted.invalid_reason


def fit_experiment(
    experiment: Experiment, encoded: "_Encoded", device: str | torch.device
) -> tuple[Map, str | None]:
    """The experiment's map, and why it is undefined (None if it is not)."""
    candidate = experiment.candidate
    if candidate.fitted:
        return candidate.map, candidate.map.invalid_reason
    if experiment.corpus is None:
        return Raw().fit(torch.zeros(1, experiment.encoder.dim)), None
    affine = isinstance(candidate.map, AffineMap)
    return fit_map(
        candidate.map,
        encoded.rows(experiment.corpus),
        moments=encoded.moments(experiment.corpus) if affine else None,
        pairs=encoded.pairs(experiment.labels),
        seed=experiment.seed,
        device=device,
    )


def measure_experiment(
    experiment: Experiment,
    fitted: Map,
    reason: str | None,
    vectors: Tensor,
    rows: Indices | None,
) -> Record:
    """What the task says of vectors that the map has mapped.

    Args:
        experiment: What is measured.
        fitted: Its map.
        reason: Why the map is undefined; None if it is not.
        vectors: Embeddings of the task's sentences, ``(M, D)``.
        rows: Rows of the sentences whose mapped vectors are kept; None for none.
    """
    if reason is None:
        vectors = fitted.transform(vectors)
    record = experiment.task.measure(vectors, reason)
    return replace(
        record,
        key=experiment.key,
        columns=experiment.columns(),
        settings=experiment.settings(),
        invalid_reason=reason,
        sample=None if rows is None or reason is not None else vectors[rows],
    )


def _encode(experiments: Sequence[Experiment], cache: EmbeddingCache) -> None:
    """Fill the cache with all sentences of the experiments, one pass for each backbone."""
    encoders: dict[str, dict[Encoder, None]] = defaultdict(dict)
    sentences: dict[str, set[str]] = defaultdict(set)
    for experiment in experiments:
        key = experiment.encoder.pass_key
        encoders[key][experiment.encoder] = None
        sentences[key].update(experiment.task.sentences)
        if experiment.corpus is not None:
            sentences[key].update(experiment.corpus.sentences)
        for subset in experiment.labels:
            sentences[key].update(subset.sentences1, subset.sentences2)
    for key, group in encoders.items():
        cache.fill(list(group), list(sentences[key]))


class _Encoded:
    """What all maps of an encoder share; memory holds that of one encoder."""

    def __init__(self, encoder: Encoder, cache: EmbeddingCache) -> None:
        self.encoder = encoder
        self._cache = cache
        self._rows: dict[str, Vectors] = {}
        self._moments: dict[str, Moments] = {}
        self._tasks: dict[Task, Tensor] = {}

    def rows(self, corpus: Corpus) -> Vectors:
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
            vectors = self._cache.rows(self.encoder, task.sentences)[:]
            self._tasks[task] = torch.from_numpy(vectors)
        return self._tasks[task]

    def pairs(self, labels: Sequence[Subset]) -> LabelledPairs | None:
        """Vectors of labelled pairs; None without pairs."""
        if not labels:
            return None
        return embed_labels(
            lambda texts: self._cache.rows(self.encoder, texts)[:], labels
        )


def _first_samples(experiments: Sequence[Experiment]) -> dict[str, Indices]:
    """Rows of the first experiment of each candidate on the first task of scored pairs."""
    tasks = [each.task for each in experiments if isinstance(each.task, STS)]
    first: dict[str, Experiment] = {}
    for experiment in experiments:
        if experiment.task in tasks[:1]:
            first.setdefault(experiment.candidate.name, experiment)
    rng = Stream(0, "sample").rng()
    order = rng.permutation(len(tasks[0].sentences)) if tasks else None
    return (
        {}
        if order is None
        else {each.key: order[:SAMPLE_SIZE] for each in first.values()}
    )


def _results(
    experiments: Sequence[Experiment],
    records: Mapping[str, Record],
    samples: Mapping[str, Indices],
    here: Mapping[str, Any],
) -> Results:
    """The records in the order of the plan, and of what is no method but in the same table."""
    tasks = {each.task.digest: each.task for each in experiments}
    ordered = [
        # Of two experiments of one key the names may differ.
        replace(records[each.key], columns=each.columns(), settings=each.settings())
        for each in experiments
    ]
    for task in tasks.values():
        for name, items in task.references.items():
            ordered.append(replace(_reference(task, name, items), environment=here))
    encoders = dict.fromkeys(each.encoder for each in experiments)
    now = datetime.datetime.now(datetime.UTC)
    record = {
        **here,
        "time": now.isoformat(timespec="seconds"),
        "encoders": [encoder.describe() for encoder in encoders],
    }
    sampled = [each for each in experiments if each.key in samples]
    sentences = []
    for each in sampled[:1]:
        sentences = [each.task.sentences[row] for row in samples[each.key]]
    return Results.of(ordered, list(tasks.values()), record, sentences)


def _reference(task: Task, name: str, items: Floats) -> Record:
    """What is no method: it has no encoder, and nothing is fitted."""
    columns = {
        **dict.fromkeys(("encoder", "layers", "pooling", "corpus"), "none"),
        "method": name,
        "seed": None,
        "task": task.name,
        "split": task.split,
        "pairs": task.count,
        "supervised": False,
    }
    return replace(
        task.measured(items, task.score(items)),
        key=digest(task.digest, name),
        columns=columns,
        settings={"task": task.settings()},
    )
