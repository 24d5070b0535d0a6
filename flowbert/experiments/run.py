"""Computing the experiments of a comparison: one pass for each backbone, one fit for each map."""

import datetime
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.corpus import Corpus
from flowbert.data.sts import Subset
from flowbert.encoders import Encoder
from flowbert.errors import FlowbertWarning
from flowbert.experiments.candidates import fit_map
from flowbert.experiments.environment import changed_entries, environment
from flowbert.experiments.plan import Experiment, corpus_settings
from flowbert.experiments.results import Results, plain
from flowbert.io import digest, load_tensors, save_tensors
from flowbert.maps import (
    AffineMap,
    AnyMap,
    LabelledPairs,
    Moments,
    Raw,
    invalid_reason_of,
)
from flowbert.progress import bar
from flowbert.seeding import Stream
from flowbert.tasks import STS, Record, Task
from flowbert.tasks.labels import embed_pairs
from flowbert.vectors import EmbeddingCache, Vectors

SAMPLE_SIZE = 1000
"""Sentences whose vectors are kept for the analysis of a comparison."""

_KIND = "experiment of a comparison"

Finished = tuple[Record, Tensor | None]
"""Scores of an experiment, and vectors ``(S, k)`` of a sample of its sentences."""


def run_experiments(
    experiments: Sequence[Experiment],
    cache: str | EmbeddingCache | None = None,
    output: str | Path | None = None,
    device: str | torch.device = "cpu",
) -> Results:
    """Compute experiments; each map is fitted once for all tasks that share its corpus.

    Args:
        experiments: The experiments.
        cache: The embedding cache, or its folder.
        output: File of results; finished experiments are kept beside it, one file each, and taken
            from there while code, versions, device and threads are the same.
        device: Device on which flows are fitted.
    """
    if not isinstance(cache, EmbeddingCache):
        cache = EmbeddingCache(cache)
    here = environment(device)
    files: dict[str, Path] = {}
    if output is not None:
        folder = Path(output).with_suffix(".experiments")
        files = {
            experiment.key: folder / f"{experiment.key}.safetensors"
            for experiment in experiments
            if experiment.lasting
        }
    finished = _read_all(files, here)
    pending = [
        experiment for experiment in experiments if experiment.key not in finished
    ]
    _encode(pending, cache)
    by_fit: dict[str, list[Experiment]] = defaultdict(list)
    for experiment in pending:
        by_fit[experiment.fit_key].append(experiment)
    sampled = _sampled(experiments)
    embedded = None
    for same in bar(by_fit.values(), "Fitting", unit="maps"):
        encoder = same[0].encoder
        if embedded is None or embedded.encoder is not encoder:
            embedded = _Embedded(encoder, cache)
        fitted, invalid_reason = _fit(same[0], embedded, device)
        for experiment in same:
            vectors, sample = embedded.task(experiment.task), None
            if invalid_reason is None:
                vectors = fitted.transform(vectors)
                sample = (
                    vectors[_sample(experiment.task)] if experiment in sampled else None
                )
            finished[experiment.key] = (
                experiment.task.measure(vectors, invalid_reason),
                sample,
            )
            if experiment.key in files:
                _write(
                    files[experiment.key],
                    *finished[experiment.key],
                    experiment.settings(),
                    here,
                )
    results = _results(experiments, finished, here)
    for experiment in sampled:
        results.sentences = [
            experiment.task.sentences[row] for row in _sample(experiment.task)
        ]
        _, sample = finished[experiment.key]
        if sample is not None:
            results.vectors[experiment.candidate.name] = sample
    return results


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


class _Embedded:
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
            vectors = self._cache.embed(self.encoder, task.sentences)
            self._tasks[task] = torch.from_numpy(vectors)
        return self._tasks[task]

    def pairs(self, labels: Sequence[Subset]) -> LabelledPairs | None:
        """Vectors of labelled pairs; None without pairs."""
        if not labels:
            return None
        return embed_pairs(lambda texts: self._cache.embed(self.encoder, texts), labels)


def _fit(
    experiment: Experiment, embedded: _Embedded, device: str | torch.device
) -> tuple[AnyMap, str | None]:
    """The experiment's map, and why it is undefined (None if it is not)."""
    method = experiment.candidate
    if method.fitted:
        return method.map, invalid_reason_of(method.map)
    if experiment.corpus is None:
        return Raw().fit(torch.zeros(1, experiment.encoder.dim)), None
    affine = isinstance(method.map, AffineMap)
    return fit_map(
        method.map,
        embedded.rows(experiment.corpus),
        moments=embedded.moments(experiment.corpus) if affine else None,
        pairs=embedded.pairs(experiment.labels),
        seed=experiment.seed,
        device=device,
    )


def _sampled(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The first experiment of each method on the first STS task: their vectors are analyzed."""
    tasks = [
        experiment.task
        for experiment in experiments
        if isinstance(experiment.task, STS)
    ]
    first: dict[str, Experiment] = {}
    for experiment in experiments:
        if experiment.task in tasks[:1]:
            first.setdefault(experiment.candidate.name, experiment)
    return list(first.values())


def _sample(task: Task) -> NDArray[np.int64]:
    """Rows of the sentences whose vectors are kept."""
    return Stream(0, "sample").rng().permutation(len(task.sentences))[:SAMPLE_SIZE]


def _results(
    experiments: Sequence[Experiment],
    finished: Mapping[str, Finished],
    here: Mapping[str, Any],
) -> Results:
    """Rows of all experiments, and of what is no method but stands in the same table."""
    rows = []
    items: dict[Task, dict[str, Floats]] = defaultdict(dict)
    for experiment in experiments:
        measured, _ = finished[experiment.key]
        items[experiment.task][experiment.key] = measured.items
        rows += _rows(experiment.columns(), measured)
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
                "experiment": key,
            }
            rows += _rows(columns, task.measured(values, task.score(values)))
    encoders = dict.fromkeys(experiment.encoder for experiment in experiments)
    record = {
        **here,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "encoders": [encoder.describe() for encoder in encoders],
        "config": _settings(experiments),
    }
    results = Results(rows, record)
    results.items = dict(items)
    return results


def _rows(columns: Mapping[str, Any], measured: Record) -> list[dict[str, Any]]:
    rows = []
    for (metric, aggregation), value in measured.scores.items():
        row = {**columns, "metric": metric, "aggregation": aggregation, "value": value}
        rows.append(row | {"reason": measured.reasons.get((metric, aggregation), "")})
    return rows


def _settings(experiments: Sequence[Experiment]) -> dict[str, Any]:
    """All settings of the experiments in words; what they share stands once, by its digest."""
    encoders: dict[str, Any] = {}
    corpora: dict[str, Any] = {}
    tasks: dict[str, Any] = {}
    methods: dict[str, Any] = {}
    listed = {}
    for experiment in experiments:
        settings = experiment.settings()
        encoder = digest(settings["encoder"])
        encoders[encoder] = settings["encoder"]
        methods[experiment.candidate.name] = settings["method"]
        tasks[experiment.task.digest] = settings["task"]
        if experiment.corpus is not None:
            corpora[experiment.corpus.digest] = corpus_settings(experiment.corpus)
        listed[experiment.key] = {
            "encoder": encoder,
            "method": experiment.candidate.name,
            "corpus": None if experiment.corpus is None else experiment.corpus.digest,
            "labels": settings["labels"],
            "seed": experiment.seed,
            "task": experiment.task.digest,
        }
    return {
        "encoders": encoders,
        "methods": methods,
        "corpora": corpora,
        "tasks": tasks,
        "experiments": listed,
    }


def _write(
    file: Path,
    measured: Record,
    sample: Tensor | None,
    settings: Mapping[str, Any],
    here: Mapping[str, Any],
) -> None:
    scores = [
        [*metric, None if np.isnan(value) else value, measured.reasons.get(metric, "")]
        for metric, value in measured.scores.items()
    ]
    tensors: dict[str, Any] = {"items": measured.items}
    if sample is not None:
        tensors["sample"] = sample
    save_tensors(
        file,
        _KIND,
        tensors,
        scores=scores,
        settings=plain(settings),
        environment=dict(here),
    )


def _read_all(
    files: Mapping[str, Path], here: Mapping[str, Any]
) -> dict[str, Finished]:
    """Finished experiments by key, but for those of another environment, which is said."""
    finished: dict[str, Finished] = {}
    changed: dict[str, None] = {}
    count = 0
    for key, file in files.items():
        if not file.is_file():
            continue
        tensors, metadata = load_tensors(file, _KIND)
        other = changed_entries(metadata.get("environment", {}), dict(here))
        if other:
            count += 1
            changed |= dict.fromkeys(other)
            continue
        scores = {}
        reasons = {}
        for metric, aggregation, value, reason in metadata["scores"]:
            scores[metric, aggregation] = np.nan if value is None else value
            if reason:
                reasons[metric, aggregation] = reason
        measured = Record(tensors["items"].numpy(), scores, reasons)
        finished[key] = measured, tensors.get("sample")
    if count:
        folder = next(iter(files.values())).parent
        warnings.warn(
            f"{folder}: {count} finished experiments are computed again, as they were computed "
            f"with another {', '.join(changed)}",
            FlowbertWarning,
            stacklevel=3,
        )
    return finished
