"""Running experiments: all commands fit and measure maps with these functions."""

import datetime
import platform
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache as cached
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sklearn.base import clone
from torch import Tensor

from flowbert.arrays import Indices
from flowbert.data.corpus import Corpus
from flowbert.encoders import Embedder
from flowbert.errors import UserError, record_warnings, warn
from flowbert.experiments.plan import VERSIONS, Experiment
from flowbert.experiments.results import (
    Results,
    read_record,
    record_file,
    records_folder,
    write_record,
)
from flowbert.io import as_json, digest
from flowbert.maps import AffineMap, LabelledPairs, Map, Moments
from flowbert.progress import tell, track
from flowbert.seeding import Stream
from flowbert.tasks import STS, Record, Task
from flowbert.vectors import EmbeddingCache

SAMPLE_SIZE = 1000
"""Number of sentences whose vectors are kept for the analysis of a comparison."""

_ACCELERATORS = {"cpu": "cpu", "cuda": "gpu", "mps": "mps"}


def run_experiments(
    experiments: Sequence[Experiment],
    cache: str | EmbeddingCache | None = None,
    output: str | Path | None = None,
    device: str | torch.device = "cpu",
    *,
    sample: bool = True,
) -> Results:
    """Fit and measure; each backbone makes one pass, each map is fitted once for all its tasks.

    Args:
        experiments: Experiments of :func:`flowbert.experiments.plan.plan_experiments`.
        cache: The embedding cache, or its folder.
        output: Results file; each finished record is written into its folder of records. Records
            with the same settings and versions of flowbert and torch are reused.
        device: Device on which flows are fitted.
        sample: Whether one record of each method stores the vectors of 1,000 sentences of the first
            task of scored pairs.

    Returns:
        The results, without intervals: see :meth:`Results.add_intervals`.
    """
    if not isinstance(cache, EmbeddingCache):
        cache = EmbeddingCache(cache)
    folder = None if output is None else records_folder(output)
    samples = _first_samples(experiments) if sample else {}
    records = {} if folder is None else _read_finished(folder, experiments, samples)
    if records:
        tell(f"{len(records)} of {len(experiments)} experiments were known")

    def keep(record: Record) -> None:
        records[record.key] = record
        if folder is not None:
            write_record(folder, record)

    by_fit: dict[str, list[Experiment]] = defaultdict(list)
    for experiment in experiments:
        if experiment.key not in records:
            by_fit[experiment.fit_key].append(experiment)
    _encode([each for same in by_fit.values() for each in same], cache)
    encoded = None
    for same in track(by_fit.values(), "fitting"):
        if encoded is None or encoded.encoder is not same[0].encoder:
            encoded = _Encoded(same[0].encoder, cache)
        with record_warnings() as warned:
            fitted, reason = fit_experiment(same[0], encoded, device)
        for experiment in same:
            vectors = encoded.task(experiment.task)
            if reason is None:
                vectors = fitted.transform(vectors)
            record = _measure(experiment, vectors, reason)
            if reason is None and experiment.key in samples:
                rows = samples[experiment.key]
                sentences = [experiment.task.sentences[row] for row in rows]
                record = replace(record, sample=vectors[rows], sentences=sentences)
            keep(replace(record, warnings=warned))
    keys = [experiment.key for experiment in experiments]
    for task in {each.task.digest: each.task for each in experiments}.values():
        for record in _reference_records(task):
            keep(record)
            keys.append(record.key)
    about = _describe_run(experiments, device)
    return Results.of([records[key] for key in keys], about)


def _measure(experiment: Experiment, vectors: Tensor, reason: str | None) -> Record:
    """The record of an experiment, whose scores are NaN if there is a reason."""
    return replace(
        experiment.task.measure(vectors, reason),
        key=experiment.key,
        columns=experiment.columns,
        settings=experiment.settings,
        invalid_reason=reason,
    )


def _describe_run(
    experiments: Sequence[Experiment], device: str | torch.device
) -> dict[str, Any]:
    """Versions, device, time and encoders of a run."""
    is_cuda = torch.device(device).type == "cuda"
    now = datetime.datetime.now(datetime.UTC)
    encoders = dict.fromkeys(experiment.encoder for experiment in experiments)
    return {
        "versions": VERSIONS,
        "device": torch.cuda.get_device_name(device) if is_cuda else platform.machine(),
        "time": now.isoformat(timespec="seconds"),
        "encoders": [encoder.describe() for encoder in encoders],
    }


def fit_map(
    map: Map,
    rows: Any,
    *,
    moments: Moments | None = None,
    pairs: LabelledPairs | None = None,
    seed: int | None = None,
    device: torch.device | str = "cpu",
) -> tuple[Map, str | None]:
    """Fit a copy of a map or chain on rows, and on pairs if a step learns from them.

    Args:
        map: The map with its parameters, except for seed and device. A fitted map is returned
            unchanged.
        rows: Embeddings to fit on, ``(N, D)``.
        moments: Moments of the rows, if they are known and the map is affine.
        pairs: Vectors of labelled pairs, ``(P, D)`` each, and their scores ``(P,)``.
        seed: Seed of a flow, or of a transformer whose ``random_state`` is None.
        device: Device of a flow.

    Returns:
        The fitted map, and why its results are undefined (None if they are not).

    Raises:
        UserError: If the map learns from labelled pairs and they are missing.
    """
    if map.is_fitted:
        return map, map.invalid_reason
    fitted: Any = clone(map)
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
    map, corpus, labels = experiment.method.map, experiment.corpus, experiment.labels
    if corpus is None:  # fitted, or raw
        return fit_map(map, torch.zeros(1, experiment.encoder.dim))
    pairs = None
    if labels is not None:
        sides = labels.sentences1, labels.sentences2
        first, second = (encoded.rows(side)[:] for side in sides)
        pairs = first, second, labels.scores
    return fit_map(
        map,
        encoded.rows(corpus.sentences),
        seed=experiment.seed,
        device=device,
        moments=encoded.moments(corpus) if isinstance(map, AffineMap) else None,
        pairs=pairs,
    )


def _reference_records(task: Task) -> Iterator[Record]:
    """Records of additional rows of a table, such as the gold score."""
    for name, items in task.references.items():
        columns = {
            **dict.fromkeys(("encoder", "layers", "pooling", "corpus"), "none"),
            **dict.fromkeys(("template", "sink_token"), ""),
            "method": name,
            "role": "method",
            "seed": None,
            "supervised": False,
            **task.columns,
        }
        yield replace(
            task.measured(items, task.score(items)),
            key=digest(task.digest, name),
            columns=columns,
            settings={"task": as_json(task.settings())},
        )


def _read_finished(
    folder: Path, experiments: Sequence[Experiment], sampled: Collection[str]
) -> dict[str, Record]:
    """Records of finished experiments by key.

    Args:
        folder: Folder of the records.
        experiments: The experiments.
        sampled: Keys of experiments whose record needs a sample of vectors.
    """
    records: dict[str, Record] = {}
    for experiment in experiments:
        file = record_file(folder, experiment.key)
        if not file.is_file():
            continue
        record = read_record(file)
        is_sampled = record.sample is not None or record.invalid_reason is not None
        if is_sampled or experiment.key not in sampled:
            records[experiment.key] = record
            for message in record.warnings:
                warn(message, 3)
    return records


def _encode(experiments: Sequence[Experiment], cache: EmbeddingCache) -> None:
    """Fill the cache with all sentences of the experiments, one pass for each backbone."""
    encoders: dict[str, dict[Embedder, None]] = defaultdict(dict)
    sentences: dict[str, set[str]] = defaultdict(set)
    for experiment in experiments:
        key = experiment.encoder.backbone_key
        encoders[key][experiment.encoder] = None
        sentences[key].update(experiment.sentences())
    for number, (key, group) in enumerate(encoders.items(), start=1):
        name = Path(next(iter(group)).columns()["encoder"]).name
        step = f"encoder {number} of {len(encoders)}, {name}: encoding"
        cache.fill(list(group), list(sentences[key]), step)


class _Encoded:
    """Vectors and moments of one encoder, computed once and freed with this object."""

    def __init__(self, encoder: Embedder, cache: EmbeddingCache) -> None:
        self.encoder = encoder
        # By their sentences, a tuple.
        self.rows = cached(partial(cache.rows, encoder))
        self.moments = cached(self._moments)
        self.task = cached(self._task)

    def _moments(self, corpus: Corpus) -> Moments:
        blocks = self.rows(corpus.sentences).blocks()
        return Moments(self.encoder.dim).update_blocks(blocks)

    def _task(self, task: Task) -> Tensor:
        return torch.from_numpy(self.rows(tuple(task.sentences))[:])


def _first_samples(experiments: Sequence[Experiment]) -> dict[str, Indices]:
    """Indices of the sentences whose vectors are kept, for the first experiment of each method.

    The sentences belong to the first task of scored pairs.
    """
    task = next((x.task for x in experiments if isinstance(x.task, STS)), None)
    if task is None:
        return {}
    order = Stream(0, "sample").rng().permutation(len(task.sentences))[:SAMPLE_SIZE]
    first: dict[tuple[str, str], str] = {}
    for experiment in experiments:
        if experiment.task is task:
            first.setdefault((experiment.method.name, experiment.role), experiment.key)
    return dict.fromkeys(first.values(), order)
