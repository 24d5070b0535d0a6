"""The spaces of an encoder before and after its maps: of a corpus, and of a comparison."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flowbert.analysis import Analysis, Sample, analyze_sample
from flowbert.analysis.frames import ALL, make_measures
from flowbert.analysis.projection import check_projection
from flowbert.arrays import Floats
from flowbert.data.corpus import Corpus, load_corpus
from flowbert.encoders import (
    Encoder,
    EncoderOptions,
    SentenceEncoder,
    check_same_encoder,
    choose_device,
    open_encoder,
)
from flowbert.errors import UserError, check_used
from flowbert.experiments.candidates import parse_candidates
from flowbert.experiments.plan import plan_experiments
from flowbert.experiments.results import Results
from flowbert.experiments.run import run_experiments
from flowbert.flows import Glow
from flowbert.io import sentences_digest
from flowbert.maps import Flow
from flowbert.seeding import Stream
from flowbert.tasks import AVERAGE, STS, Task, load_tasks
from flowbert.tasks.base import Metric
from flowbert.vectors import EmbeddingCache

_FEWEST_SENTENCES = 200  # of a corpus
_FEWEST_MEASURED = 20
_FEWEST_WITH_NEIGHBOURS = 11  # with fewer, no ten neighbours exist
_SUFFIX = ".analysis.json"
_SETTING_COLUMNS = ("encoder", "layers", "pooling", "corpus")


class _HeldOut(Task):
    """Sentences whose vectors are analyzed; nothing is scored."""

    kind = "sentences"
    metrics = ()
    name = "held out"
    split = "test"
    strata = ()
    count = 0

    def __init__(self, sentences: list[str]) -> None:
        self.sentences = sentences
        self.digest = sentences_digest(sentences)

    def items(self, vectors: Tensor) -> Floats:
        """None."""
        return np.empty(0)

    def score(self, items: Floats, weights: Any = None) -> dict[Metric, float]:
        """Nothing."""
        return {}

    def texts(self) -> Mapping[str, Sequence[str]]:
        """The sentences."""
        return {self.split: self.sentences}

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """None."""
        return (), ()


def analyze(
    encoder: str | EncoderOptions | Encoder = "builtin-sample",
    methods: Any = "raw,whitening,flow",
    *,
    corpus: str = "builtin-sample",
    nli: str = "hub",
    column: str | None = None,
    limit: int = 3000,
    tasks: str | Sequence[str] = (),
    senteval: str | None = None,
    split: str | Sequence[str] = "test",
    columns: str | Sequence[str] | None = None,
    measures: str | Sequence[str] = ALL,
    map: str = "pca",
    seed: int = 0,
    output: str | Path | None = None,
    cache: str | EmbeddingCache | None = None,
    device: str | torch.device = "auto",
) -> Analysis:
    """Measure words, sentences and densities of an encoder before and after maps.

    Half of the distinct sentences, at most ``limit``, are held out of the fits and measured.

    Args:
        encoder: One encoder, its path or its options; models among the methods must have the same.
        methods: Maps by name or import path (``whitening-128:shrinkage=0.1``, ``flow``) and folders
            of models, separated by commas; in Python also a list, with estimators (a fitted one is
            used as it is) and models.
        corpus: The sentences: files, ``hub:NAME``, ``nli``, or ``builtin-sample``.
        nli: NLI pairs of the corpus ``nli``: ``hub``, ``builtin-sample``, or files.
        column: Column of the sentences in table files.
        limit: Largest number of sentences to measure.
        tasks: Tasks of scored pairs, whose cosines are shown by score: STS12 to STS16, STSB,
            SICKR, SAMPLE, or files; a list, or comma-separated.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        split: Splits of the tasks, such as ``test,dev``.
        columns: Columns of your pair files: two sentences and the score.
        measures: Measures by name, or by import path (``mypackage.measures.MyMeasure``), with
            their options; a list, or comma-separated. ``all`` selects the built-in ones.
        map: Map of the corpus in two dimensions: ``pca``, or ``umap``.
        seed: Seed of the sample, the flow and UMAP.
        output: File to write, ending in ``.analysis.json``; :func:`flowbert.report` draws it.
        cache: Folder of the embedding cache; in Python also an ``EmbeddingCache``. None for
            ``FLOWBERT_CACHE``, or ``~/.cache/flowbert``.
        device: Device of the encoder, such as ``cuda:1``; ``auto`` for the GPU if there is one.

    Raises:
        UserError: If an argument is wrong (nothing has been encoded then), or a map cannot be
            fitted on so few sentences.

    Example:
        >>> analysis = analyze("bert-base-uncased", corpus="own.txt")  # doctest: +SKIP
        >>> analysis.frames["isotropy"][["method", "isoscore"]]  # doctest: +SKIP
    """
    check_projection(map)
    make_measures(measures)
    if output is not None and not str(output).endswith(_SUFFIX):
        raise UserError(
            f"received {output}; expected a file ending in {_SUFFIX}", argument="output"
        )
    if limit < _FEWEST_MEASURED:
        raise UserError(
            argument="limit", received=limit, expected=f"{_FEWEST_MEASURED} or more"
        )
    chosen = parse_candidates(methods)
    given = []
    if tasks:
        given = load_tasks(tasks, senteval, split=split, columns=columns)
    else:
        own = {"senteval": senteval, "columns": columns}
        own["split"] = None if split in ("test", ["test"]) else split
        check_used(own, (), "an analysis without tasks")
    scored = [task for task in given if isinstance(task, STS)]
    if len(scored) < len(given):
        raise UserError(
            f"received {tasks}; expected pairs with gold scores", argument="tasks"
        )
    loaded = load_corpus(corpus, nli=nli, column=column)
    distinct = list(dict.fromkeys(loaded.sentences))
    if len(distinct) < _FEWEST_SENTENCES:
        raise UserError(
            f"received {len(distinct)} distinct sentences; expected {_FEWEST_SENTENCES} or more",
            argument="corpus",
        )
    device = choose_device(device)
    opened = open_encoder(encoder, loaded.sentences, device)
    for candidate in chosen:
        if candidate.encoder is not None:
            own = candidate.encoder.identity
            check_same_encoder(own, opened.identity, candidate.name)
        if candidate.needs_fit and candidate.supervised:
            raise UserError(
                f"received {candidate.name}, which learns from labels; expected others",
                argument="methods",
            )
    order = Stream(seed, "sample").rng().permutation(len(distinct))
    sentences = [distinct[row] for row in order]
    held_out = min(limit, len(distinct) // 2)
    measured, fitting = sentences[:held_out], sentences[held_out:]
    space, fitted_on = _HeldOut(measured), Corpus(loaded.name, tuple(fitting))
    corpora: dict[Task, list[Corpus]] = {task: [fitted_on] for task in (space, *scored)}
    experiments = plan_experiments([opened], chosen, corpora, {}, [seed])
    rows = np.arange(held_out)
    samples = {each.key: rows for each in experiments if each.task is space}
    if not isinstance(cache, EmbeddingCache):
        cache = EmbeddingCache(cache)
    results = run_experiments(
        experiments, cache, None, device, samples=samples, keep_maps=True
    )
    flows: dict[str, Glow] = {}
    for record in results.records:
        name = str(record.columns["method"])
        if record.invalid_reason is not None:
            raise UserError(f"{name}: {record.invalid_reason}", argument="methods")
        if record.sample is not None and isinstance(record.map, Flow):
            flows[name] = record.map.flow_
    x, y = (
        torch.from_numpy(cache.rows(opened, part)[:]) for part in (fitting, measured)
    )
    analysis = analyze_results(
        results,
        setting=opened.columns() | {"corpus": loaded.name, "fitted": len(fitting)},
        measures=measures,
        encoder=opened if isinstance(opened, SentenceEncoder) else None,
        corpus=loaded.sentences,
        flows=flows,
        fitting=x,
        held_out=y,
        projection=map,
        seed=seed,
    )
    if output is not None:
        analysis.to_json(output)
    return analysis


def analyze_results(
    results: Results,
    setting: Mapping[str, Any] | None = None,
    measures: str | Sequence[str] = ALL,
    **parts: Any,
) -> Analysis:
    """Measure the vectors that results keep, and the cosines of their tasks by gold score.

    Each method stands with its first encoder, corpus and seed.

    Args:
        results: Results of a run or of a file.
        setting: What the vectors are of; None for what the rows say.
        measures: As of :func:`analyze`.
        **parts: What is known beside the vectors: arguments of :class:`flowbert.analysis.Sample`.
    """
    measured = results.frame[results.frame["metric"] == STS.headline]
    measured = measured[measured["task"] != AVERAGE]
    measured = measured.drop_duplicates(["task", "split", "method"])
    pairs = {}
    for task, items in results.items.items():
        if isinstance(task, STS):
            own = measured[measured["experiment"].isin(list(items))]
            cosines = {
                method: items[key]
                for method, key in zip(own["method"], own["experiment"], strict=True)
                if np.isfinite(items[key]).all()
            }
            pairs[f"{task.name} {task.split}"] = task.gold, cosines
    if setting is None:
        columns = {name: measured[name].unique() for name in _SETTING_COLUMNS}
        setting = {
            name: ", ".join(value for value in values if value != "none") or "none"
            for name, values in columns.items()
        }
    enough = len(results.sentences) >= _FEWEST_WITH_NEIGHBOURS
    vectors = {
        method: rows
        for method, rows in results.vectors.items()
        if enough and rows.shape[1] > 1 and bool(rows.isfinite().all())
    }
    sentences = results.sentences if enough else []
    return analyze_sample(Sample(sentences, vectors, pairs, **parts), setting, measures)
