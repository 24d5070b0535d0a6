"""Analysis of the embedding space before and after maps, of a corpus or a comparison."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.corpus import Corpus, load_corpus
from flowbert.encoders import (
    SentenceEncoder,
    check_same_encoder,
    choose_device,
    open_encoder,
)
from flowbert.errors import UserError, warn
from flowbert.experiments.plan import Method, parse_methods
from flowbert.experiments.results import Results
from flowbert.experiments.run import fit_map
from flowbert.extras.analysis import Analysis, Sample, analyze_sample
from flowbert.extras.analysis.frames import parse_measures
from flowbert.maps import Flow, Map
from flowbert.options import AnalyzeOptions, takes
from flowbert.seeding import Stream
from flowbert.tasks import STS, Task, load_tasks
from flowbert.vectors import EmbeddingCache, Vectors

_FEWEST_SENTENCES = 200  # of a corpus
_FEWEST_WITH_NEIGHBOURS = 11  # with fewer, no ten neighbours exist
_SUFFIX = ".analysis.json"


@takes(AnalyzeOptions)
def analyze(options: AnalyzeOptions) -> Analysis:
    """Measure words, sentences and densities of an encoder before and after maps.

    Half of the distinct sentences, at most ``limit``, are held out of the fits and measured. A map
    that cannot be fitted on the others is left out with a warning. In Python, ``methods`` may
    also be a list, with estimators (a fitted one is used as it is) and models.

    Args:
        options: Fields of :class:`flowbert.options.AnalyzeOptions`, as arguments.

    Raises:
        UserError: If an argument is wrong (nothing has been encoded then), or the sentences are too
            few for all of the maps.

    Example:
        >>> analysis = analyze("bert-base-uncased", corpus="own.txt")  # doctest: +SKIP
        >>> analysis.frames["isotropy"][["method", "isoscore"]]  # doctest: +SKIP
    """
    parse_measures(options.measures)
    if options.output is not None and not str(options.output).endswith(_SUFFIX):
        raise UserError(
            f"received {options.output}; expected a file ending in {_SUFFIX}",
            argument="output",
        )
    parsed = parse_methods(options.methods)
    scored = load_tasks(
        options.tasks or None,
        options.senteval,
        split=options.split,
        columns=options.columns,
    )
    loaded = load_corpus(options.corpus, nli=options.nli, column=options.column)
    distinct = _distinct_sentences(loaded)
    device = choose_device(options.device)
    opened = open_encoder(options.encoder, loaded.sentences, device)
    for method in parsed:
        if method.encoder is not None:
            identity = method.encoder.identity
            check_same_encoder(identity, opened.identity, method.name)
        method.check_size(opened)
    order = Stream(options.seed, "sample").rng().permutation(len(distinct))
    sentences = [distinct[row] for row in order]
    held_out = min(options.limit, len(distinct) // 2)
    measured, fitting = sentences[:held_out], sentences[held_out:]
    cache = options.cache
    if not isinstance(cache, EmbeddingCache):
        cache = EmbeddingCache(cache)
    texts = [task.sentences for task in scored]
    cache.fill([opened], list(itertools.chain(sentences, *texts)))
    rows = cache.rows(opened, fitting)
    maps, failures = _fit_maps(parsed, rows, options.seed, device)
    y = torch.from_numpy(cache.rows(opened, measured)[:])
    cosines = {}
    for task in scored:
        x = torch.from_numpy(cache.rows(opened, task.sentences)[:])
        cosines[task] = {
            name: task.items(map.transform(x)) for name, map in maps.items()
        }
    sample = Sample(
        measured,
        _measurable({name: map.transform(y) for name, map in maps.items()}),
        _with_gold(cosines),
        encoder=opened if isinstance(opened, SentenceEncoder) else None,
        corpus=loaded.sentences,
        flows={name: x.flow_ for name, x in maps.items() if isinstance(x, Flow)},
        fitting=torch.from_numpy(rows[:]),
        held_out=y,
        seed=options.seed,
    )
    setting = opened.columns() | {"corpus": loaded.name, "fitted": len(fitting)}
    analysis = analyze_sample(
        sample, setting | {"failures": failures}, options.measures
    )
    if options.output is not None:
        analysis.to_json(options.output)
    return analysis


def _distinct_sentences(corpus: Corpus) -> list[str]:
    """Distinct sentences of a corpus.

    Raises:
        UserError: If they are too few.
    """
    distinct = list(dict.fromkeys(corpus.sentences))
    if len(distinct) < _FEWEST_SENTENCES:
        raise UserError(
            f"received {len(distinct)} distinct sentences; expected {_FEWEST_SENTENCES} or more",
            argument="corpus",
        )
    return distinct


def _with_gold(
    items: Mapping[Task, Mapping[str, Floats]],
) -> dict[str, tuple[Floats, Mapping[str, Floats]]]:
    """Gold scores, and cosines by method, of the tasks of scored pairs."""
    return {
        f"{task.name} {task.split}": (task.gold, cosines)
        for task, cosines in items.items()
        if isinstance(task, STS)
    }


def _fit_maps(
    methods: Sequence[Method], rows: Vectors, seed: int, device: torch.device
) -> tuple[dict[str, Map], list[str]]:
    """Fitted maps by name, and why others could not be fitted.

    Raises:
        UserError: If no map can be fitted.
    """
    maps, failures = {}, []
    for method in methods:
        fitted, reason = fit_map(method.map, rows, seed=seed, device=device)
        if reason is None:
            maps[method.name] = fitted
        else:
            failures.append(f"{method.name} was not analyzed: {reason}")
    if not maps:
        raise UserError("; ".join(failures), argument="methods")
    for failure in failures:
        warn(failure)
    return maps, failures


def analyze_results(results: Results, **parts: Any) -> Analysis:
    """Measure the vectors stored in results, and the cosines of their tasks by gold score.

    For each method, only the first encoder, corpus and seed are measured.

    Args:
        results: Results of a run or of a file.
        **parts: Other arguments of :class:`flowbert.extras.analysis.Sample`.
    """
    names = results.method_names
    cosines: dict[Task, dict[str, Floats]] = {}
    for task, items in results.items.items():
        cosines[task] = {}
        for key in items:
            cosines[task].setdefault(names[key], items[key])
    sample = Sample(pairs=_with_gold(cosines), **parts)
    if len(results.sentences) >= _FEWEST_WITH_NEIGHBOURS:
        vectors = _measurable(results.vectors)
        sample = replace(sample, sentences=results.sentences, vectors=vectors)
    encoders = results.frame["encoder"].unique()
    known = [name for name in encoders if name != "none"]  # as of gold scores
    return analyze_sample(sample, {"encoder": ", ".join(known)})


def _measurable(vectors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Vectors by method that are finite and of more than one dimension."""
    return {
        method: rows
        for method, rows in vectors.items()
        if rows.shape[1] > 1 and bool(rows.isfinite().all())
    }
