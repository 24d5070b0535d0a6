"""Advice from unlabelled sentences: every setting by one criterion, the best as a file that ``fit`` takes."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flowbert.advice.choice import MAP_LAYERS, MAP_POOLING, Advice, Candidate, may_hold_advice
from flowbert.advice.cls_token import holds_sentence
from flowbert.advice.criterion import FEWEST, WORDS, Cosines, Floats, cosines, merit, resamples, views_of, with_views
from flowbert.data.corpus import Corpus, load_corpus
from flowbert.data.files import as_list
from flowbert.encoders.loading import find_checkpoint
from flowbert.encoders.saving import trained_settings
from flowbert.encoders.sentence_folder import SentenceFolder
from flowbert.errors import FlowbertWarning, UserError
from flowbert.evaluation.embeddings import EncoderSettings, load_embeddings
from flowbert.evaluation.grid import Source
from flowbert.methods import parse_methods
from flowbert.methods.base import Method
from flowbert.processes import leave_to_first
from flowbert.progress import progress, tracked
from flowbert.report.files import write_text
from flowbert.training.limits import check_limits

LAYERS = ("embedding_last", "first_last", "last")
JUDGED, _CLS = "mean", "cls"
METHODS = (
    "raw",
    "whitening",
    *(f"whitening:shrinkage={share}" for share in (0.1, 0.3, 0.6, 0.8)),
    *(f"whitening:exponent={power}" for power in (-0.25, -0.35)),
)
_RESAMPLES = 200
Setting = tuple[str, str]  # layers, map
_AS_GOOD = 0.99  # of the best merit: the simplest such setting is taken, raw


def advise(
    encoder: str | EncoderSettings = "builtin-sample",
    corpus: str = "builtin-sample",
    column: str | None = None,
    nli: str = "hub",
    limit: int = 5000,
    seed: int = 0,
    output: str | Path | None = None,
    store_dir: str | None = None,
    device: str | torch.device = "cpu",
) -> Advice:
    """Choose layers, pooling and map for a corpus from its sentences alone, without labels.

    At most ``limit`` distinct sentences of four words or more, drawn by the seed, are encoded, each with a view of it
    that lacks 40% of the words; one pass feeds all settings. Every map is fitted on the sentences and judged by how
    well it tells own views from others (:mod:`flowbert.advice.criterion`). A raw setting within 1% of the best is
    taken.

    All are judged on the plain mean over tokens. Layers and token weights come with a map, as no criterion that we
    tried judges them: the embedding layer and the last, and ``zipf:cls=16``, or ``zipf`` where [CLS] does not hold the
    sentence, as in encoders that never trained it.

    What that is worth, and where it fails, is measured in docs/choosing-a-method.md. The criterion is ours.

    Args:
        encoder: Path of the encoder, or its settings; their layers and pooling play no role.
        corpus: The sentences: files (a path, a glob, a comma-separated list), hub:NAME, nli, or builtin-sample.
        column: Column of the sentences in table files.
        nli: NLI source for corpus nli: hub, builtin-sample, or files.
        limit: Most sentences to encode.
        seed: Seed of the draw, of the views and of the resampling.
        output: YAML file to write, which `fit` takes as it stands; None writes nothing.
        store_dir: Embedding cache; default: ~/.cache/flowbert.
        device: Where the encoder runs.

    Returns:
        The advice; ``print(found.yaml())``.

    Raises:
        UserError: If the encoder or corpus cannot be read, or there are fewer than 50 sentences.

    Example:
        >>> found = advise("builtin-sample", "builtin-sample", limit=800)
        >>> found.setting[:2], found.config()["encoder"]["layers"]
        (('embedding_last', 'zipf'), 'embedding_last')
    """
    check_limits(seed=seed)
    given = EncoderSettings(encoder) if isinstance(encoder, str) else encoder
    path, *others = as_list(given.path, "path")
    if others or Path(path).expanduser().is_file():
        raise UserError(f"path: received {given.path}; allowed: one encoder, no word vectors")
    if output is not None and not may_hold_advice(Path(output)):
        raise UserError(f"output: {output} is there and no earlier advice; allowed: another file")
    folder, _ = find_checkpoint(path, given.revision)
    sentence_model = bool(SentenceFolder(folder)) and not trained_settings(str(folder))  # one of ours says what it is
    settings = replace(given, layers=list(LAYERS), pooling=[JUDGED, _CLS], counts=None)
    whole = load_corpus(corpus, nli=nli, column=column)
    distinct = Corpus.of(whole.name, with_views(whole.sentences))
    texts = list(distinct.sample(limit, seed).sentences)
    if len(texts) < FEWEST:
        enough = f"distinct sentences of {WORDS} words or more; needed: {FEWEST}"
        raise UserError(f"corpus: {corpus} has {len(texts)} {enough}")
    views = views_of(texts, seed)
    found = {(of.columns["layers"], of.columns["pooling"]): of for of in load_embeddings(settings, device, store_dir)}
    several = [
        (source, source.halves()) for (_, pooling), source in found.items() if pooling == JUDGED and source.halves
    ]
    used = [source for source, _ in several] + [found["last", _CLS]]
    for source in used:
        source.expect([*texts, *views])
    for _, halves in several:
        for half in halves:
            half.expect(texts)
    for source in used:
        source.prepare([*texts, *views])
    leave_to_first()
    methods = parse_methods(METHODS, None, torch.device(device))
    cls, mean = found["last", _CLS], found["last", JUDGED]
    holds = cls.begins_with_cls and holds_sentence(_vectors(cls, texts, views), _vectors(mean, texts, views))
    ranked = _ranked(list(_judged(several, methods, texts, views)), resamples(_RESAMPLES, len(texts), seed))
    of_corpus, of_encoder = _given(corpus=corpus, column=column, nli=nli), _given(**vars(given))
    with_map = (MAP_LAYERS, MAP_POOLING[holds])
    advice = Advice(tuple(ranked), len(texts), of_corpus, of_encoder, with_map, sentence_model)
    if output is not None:
        write_text(output, advice.yaml())
    return advice


def _vectors(source: Source, texts: list[str], views: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.as_tensor(source.embed(texts)), torch.as_tensor(source.embed(views))


def _given(**options: Any) -> dict[str, Any]:
    """What is said of an encoder or a corpus, without what is default or chosen here."""
    usual = {**vars(EncoderSettings()), "column": None, "nli": "hub", "path": None, "corpus": None}
    chosen = ("layers", "pooling", "counts")
    return {name: value for name, value in options.items() if name not in chosen and value != usual[name]}


def _judged(
    sources: Sequence[tuple[Source, Sequence[Source]]], methods: Sequence[Method], texts: list[str], views: list[str]
) -> Iterator[tuple[Setting, list[Cosines]]]:
    """Cosines with both kinds of views under every setting."""
    with progress(len(sources) * len(methods), "Maps", "maps") as step:
        for source, halves in sources:
            whole, *parts = (torch.as_tensor(each.embed(texts)) for each in (source, *halves))
            vectors = [whole, torch.as_tensor(source.embed(views)), *parts]
            for method in methods:
                found = _cosines(method, vectors)
                step.update()
                if found is not None:
                    yield (source.columns["layers"], method.name), found


def _cosines(method: Method, vectors: Sequence[torch.Tensor]) -> list[Cosines] | None:
    """Cosines under one map, fitted on the first vectors; None where the sentences are too few for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FlowbertWarning)  # a candidate is no choice yet
        fitted = method.fit(lambda: vectors[:1])
        if fitted.flaw is not None:
            return None
        whole, view, even, odd = (x if fitted.transform is None else fitted.transform(x) for x in vectors)
        return [cosines(whole, view), cosines(even, odd)]


def _ranked(found: Sequence[tuple[Setting, list[Cosines]]], drawn: Floats) -> list[Candidate]:
    values = np.array([merit(each)[0] for _, each in found])
    spread = np.stack([merit(each, drawn) for _, each in tracked(found, "Resampling", "settings")])
    raw = [i for i, (setting, _) in enumerate(found) if setting[-1] == "raw"]
    simplest = max(raw, key=values.__getitem__)
    best = simplest if values[simplest] >= _AS_GOOD * values.max() else int(values.argmax())
    low, high = np.quantile(spread, (0.025, 0.975), axis=1)
    behind = np.quantile(spread[best] - spread, 0.025, axis=1)
    # The same map on other layers is no other advice: layers come with a map.
    advised = [setting if setting[-1] == "raw" else setting[-1] for setting, _ in found]
    rivals = [each != advised[best] for each in advised]
    candidates = [
        Candidate(*setting, float(values[i]), float(low[i]), float(high[i]), tied=bool(rivals[i] and behind[i] <= 0))
        for i, (setting, _) in enumerate(found)
    ]
    others = sorted((c for i, c in enumerate(candidates) if i != best), key=lambda candidate: -candidate.criterion)
    return [candidates[best], *others]
