"""The spaces of an encoder before and after its maps, on sentences that no map was fitted on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flowbert.analysis.density import density_bits
from flowbert.analysis.frames import Analysis
from flowbert.analysis.lengths import word_lengths
from flowbert.analysis.spaces import check_kind
from flowbert.analysis.vectors import analyze_vectors
from flowbert.analysis.words import token_frames
from flowbert.arrays import Floats
from flowbert.data.corpus import load_corpus
from flowbert.encoders import (
    Encoder,
    EncoderOptions,
    SentenceEncoder,
    check_same_encoder,
    choose_device,
    open_encoder,
)
from flowbert.errors import UserError
from flowbert.experiments.candidates import fit_map, parse_candidates
from flowbert.maps import Flow, check_map, invalid_reason_of
from flowbert.progress import bar
from flowbert.seeding import Stream
from flowbert.tasks import STS, load_tasks
from flowbert.vectors import EmbeddingCache

FEWEST = 200
"""Distinct sentences of a corpus, at least."""

_FEWEST_MEASURED = 20
_SUFFIX = ".analysis.json"


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
    map: str = "pca",
    seed: int = 0,
    output: str | Path | None = None,
    cache: str | EmbeddingCache | None = None,
    device: str | torch.device = "auto",
) -> Analysis:
    """Measure words, sentences and densities of an encoder before and after maps.

    Half of the distinct sentences, at most ``limit``, are held out of the fits; the figures are
    theirs.

    Args:
        encoder: One encoder, its path or its options; that of models among the methods, too.
        methods: Maps by name (``whitening-128:shrinkage=0.1``, ``flow``), estimators (a fitted one
            is used as it is), models or their folders; a list, or comma-separated.
        corpus: The sentences: files, ``hub:NAME``, ``nli``, or ``builtin-sample``.
        nli: NLI pairs of the corpus ``nli``: ``hub``, ``builtin-sample``, or files.
        column: Column of the sentences in table files.
        limit: Largest number of sentences that are measured.
        tasks: Tasks of scored pairs, whose cosines are shown by score: STS12 to STS16, STSB,
            SICKR, SAMPLE, or files; a list, or comma-separated.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        split: Splits of the tasks, such as ``test,dev``.
        map: Map of the corpus in two dimensions: ``pca``, or ``umap``.
        seed: Seed of the sample, the flow and UMAP.
        output: File to write, ending in ``.analysis.json``; :func:`flowbert.report` draws it.
        cache: The embedding cache, or its folder.
        device: Device of the encoder, such as ``cuda:1``; ``auto`` for the GPU if there is one.

    Raises:
        UserError: If an argument is wrong (nothing has been encoded then), or a map cannot be
            fitted on so few sentences.

    Example:
        >>> analysis = analyze("bert-base-uncased", corpus="own.txt")  # doctest: +SKIP
        >>> analysis.measures[["method", "isoscore", "hubness"]]  # doctest: +SKIP
    """
    check_kind(map)
    if output is not None and not str(output).endswith(_SUFFIX):
        raise UserError(
            f"received {output}; expected a file ending in {_SUFFIX}", argument="output"
        )
    if limit < _FEWEST_MEASURED:
        raise UserError(
            argument="limit", received=limit, expected=f"{_FEWEST_MEASURED} or more"
        )
    chosen = parse_candidates(methods)
    given = load_tasks(tasks, senteval, split=split) if tasks else []
    scored = [task for task in given if isinstance(task, STS)]
    if len(scored) < len(given):
        raise UserError(
            f"received {tasks}; expected pairs with gold scores", argument="tasks"
        )
    loaded = load_corpus(corpus, nli=nli, column=column)
    distinct = list(dict.fromkeys(loaded.sentences))
    if len(distinct) < FEWEST:
        raise UserError(
            f"received {len(distinct)} distinct sentences; expected {FEWEST} or more",
            argument="corpus",
        )
    device = choose_device(device)
    opened = open_encoder(encoder, loaded.sentences, device)
    for method in chosen:
        if method.encoder is not None:
            check_same_encoder(method.encoder.identity, opened.identity, method.name)
        if method.needs_fit and method.supervised:
            raise UserError(
                f"received {method.name}, which learns from labels; expected others",
                argument="methods",
            )
        if method.needs_fit:
            check_map(method.map, opened.dim)
    order = Stream(seed, "sample").rng().permutation(len(distinct))
    sentences = [distinct[row] for row in order]
    held_out = min(limit, len(distinct) // 2)
    measured, fitting = sentences[:held_out], sentences[held_out:]
    if not isinstance(cache, EmbeddingCache):
        cache = EmbeddingCache(cache)
    of_tasks = [text for task in scored for text in task.sentences]
    cache.fill([opened], [*distinct, *of_tasks])
    x, y = (torch.from_numpy(cache.embed(opened, part)) for part in (fitting, measured))
    vectors: dict[str, Tensor] = {}
    bits: dict[str, float] = {}
    pairs: dict[str, tuple[Floats, dict[str, Floats]]] = {
        f"{task.name} {task.split}": (task.gold, {}) for task in scored
    }
    for method in bar(chosen, "Fitting", unit="methods"):
        fitted, invalid_reason = method.map, invalid_reason_of(method.map)
        if not method.fitted:
            fitted, invalid_reason = fit_map(method.map, x, seed=seed, device=device)
        if invalid_reason is not None:
            raise UserError(f"{method.name}: {invalid_reason}", argument="methods")
        vectors[method.name] = fitted.transform(y)
        for task, (_, cosines) in zip(scored, pairs.values(), strict=True):
            rows = torch.from_numpy(cache.embed(opened, task.sentences))
            cosines[method.name] = task.items(fitted.transform(rows))
        if isinstance(fitted, Flow):
            bits |= density_bits(fitted.flow_, x, y, method.name)
    words = {"lengths": word_lengths(measured, loaded.sentences)}
    if isinstance(opened, SentenceEncoder):
        words = token_frames(opened, measured, loaded.sentences, seed=seed)
    analysis = analyze_vectors(
        measured,
        vectors,
        setting=opened.columns() | {"corpus": loaded.name, "fitted": len(fitting)},
        bits=bits,
        pairs=pairs,
        kind=map,
        seed=seed,
        **words,
    )
    if output is not None:
        analysis.to_json(output)
    return analysis
