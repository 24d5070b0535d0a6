"""The spaces of an encoder before and after its maps, measured on sentences that no map was fitted on."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flowbert.analysis.found import Analysis, WordSpace
from flowbert.analysis.gaussianity import density_bits, gaussianity
from flowbert.analysis.sentence_space import sentence_space
from flowbert.analysis.token_space import cosine_by_layer, input_embeddings
from flowbert.analysis.word_space import principal_projection, word_buckets
from flowbert.data.corpus import Corpus, load_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.counting import choose_counted
from flowbert.encoders.token_counts import FITTED_ON
from flowbert.errors import UserError
from flowbert.evaluation.embeddings import EncoderSettings, load_embeddings
from flowbert.evaluation.grid import Source
from flowbert.evaluation.request import Methods, methods_of
from flowbert.flows import Glow
from flowbert.io.run_folder import RunFolder
from flowbert.methods.base import FittedMap, Method
from flowbert.methods.embedder import FLOW, load_map
from flowbert.methods.registry import FIT_HERE
from flowbert.metrics import mean_cosine
from flowbert.metrics.neighbours import nearest_neighbours
from flowbert.metrics.spectrum import spectrum
from flowbert.progress import progress, tracked
from flowbert.report.analysis import write_analysis
from flowbert.seeding import Stream

_FEWEST = 200  # distinct sentences
_SHOWN = 5  # sentences to read, and neighbours of each
_GAUSSIANS = {"Gaussian": 0.0, "Gaussian, shrinkage 0.1": 0.1}


def analyze(
    encoder: str | EncoderSettings = "builtin-sample",
    methods: Methods = "raw,whitening,flow",
    flow: str | None = None,
    corpus: str = "builtin-sample",
    column: str | None = None,
    nli: str = "hub",
    limit: int = 3000,
    seed: int = 0,
    output: str | Path | None = None,
    store_dir: str | None = None,
    device: str | torch.device = "cpu",
) -> Analysis:
    """Measure word space, sentence space before and after every method, and how Gaussian the results are.

    Half of the distinct sentences, at most ``limit``, are kept out of the fits; all figures of sentences are theirs. A
    flow that no run is named for is fitted here.

    Args:
        encoder: Path of the encoder, or its settings: one encoder, one choice of layers and pooling.
        methods: Comma-separated, or a list, in which a list is a composition: raw, standardization, nulling-3,
            whitening-128:shrinkage=0.1, zca, learned-removal (from labels), flow:epochs=1, whitening-128+flow.
        flow: For method flow: run folder or exported folder, the name of one on the hub, or 'fit' to fit it here.
        corpus: The sentences: files (a path, a glob, a comma-separated list), hub:NAME, nli, or builtin-sample.
        column: Column of the sentences in table files.
        nli: NLI source for corpus nli: hub, builtin-sample, or files.
        limit: Most sentences that are measured.
        seed: Seed of the split, of what is drawn and of the flow.
        output: Folder to write: tables as CSV, pictures as SVG. None writes nothing.
        store_dir: Embedding cache; default: ~/.cache/flowbert.
        device: Where the encoder and flows run.

    Raises:
        UserError: If a file, a method or the encoder is not usable, or there are fewer than 200 distinct sentences.

    Example:
        >>> found = analyze(methods="raw,whitening-64", limit=400)
        >>> found.spaces["whitening-64"].isoscore > found.spaces["raw"].isoscore
        True
    """
    settings = EncoderSettings(encoder) if isinstance(encoder, str) else encoder
    load = partial(load_corpus, nli=nli, column=column)
    whole = load(corpus)
    distinct = list(dict.fromkeys(whole.sentences))
    if len(distinct) < _FEWEST:
        raise UserError(f"corpus: {corpus} has {len(distinct)} distinct sentences; needed: {_FEWEST}")
    chosen = methods_of(methods, FIT_HERE if flow is None and FLOW in str(methods) else flow, torch.device(device))
    source = _source(settings, whole, load, device, store_dir)
    order = Stream(seed, "sample").rng().permutation(len(distinct)).tolist()
    held = min(limit, len(distinct) // 2)
    measured, fitting = ([distinct[i] for i in part] for part in (order[:held], order[held:]))
    for method in chosen:
        method.check_embeddings(source.key, source.dim)
    source.prepare(distinct)
    x, rows = (torch.as_tensor(source.embed(texts)) for texts in (fitting, measured))
    vectors: dict[str, Tensor] = {}
    bits: dict[str, float] = {}
    for method in tracked(chosen, "Fitting", "methods"):
        fitted = method.fit(lambda: [x], seed=seed)
        if fitted.flaw is not None:
            raise UserError(f"method {method.name!r}: {fitted.flaw}")
        vectors[method.name] = rows if fitted.transform is None else fitted.transform(rows)
        glow = _glow(method, fitted, flow)
        if glow is not None:
            bits = density_bits(glow, x, rows, _GAUSSIANS)
    spaces, spectra, latents = {}, {}, {}
    for name, y in tracked(vectors.items(), "Measuring", "methods"):
        spaces[name], spectra[name] = sentence_space(y), spectrum(y).tolist()
        if name != "raw":
            latents[name] = gaussianity(y)
    with progress(None, "Measuring words"):
        words = _words(settings, whole.sentences, device, seed)
    found = Analysis(
        {**source.columns, "corpus": whole.name},
        len(fitting),
        len(measured),
        spaces,
        spectra,
        latents,
        bits,
        words,
        _neighbours(measured, vectors),
    )
    if output is not None:
        with progress(None, "Drawing"):
            write_analysis(found, Path(output))
    return found


def _source(
    settings: EncoderSettings, whole: Corpus, load: Any, device: str | torch.device, store_dir: str | None
) -> Source:
    sources = load_embeddings(settings, device, store_dir)
    if len(sources) != 1:
        raise UserError(f"encoder: received {len(sources)} settings of path, layers and pooling; allowed: one")
    (source,) = sources
    if source.with_counts is None:
        return source
    return source.with_counts(
        choose_counted(settings.counts or FITTED_ON, lambda: whole, lambda: whole.sentences, load)
    )


def _glow(method: Method, fitted: FittedMap, flow: str | None) -> Glow | None:
    """The flow itself, if the method is one and nothing else."""
    if method.name == FLOW and flow is not None and flow != FIT_HERE:
        loaded = load_map(RunFolder.find(flow).path, FLOW)[0]
        return loaded if isinstance(loaded, Glow) else None
    if fitted.chain is None or not method.seeded or len(fitted.chain.steps) > 1:
        return None
    from flowbert.methods.flow import Flow  # Lightning takes a second to import

    (step,) = fitted.chain.steps
    return step.fitted.flow if isinstance(step, Flow) else None


def _words(
    settings: EncoderSettings, sentences: Sequence[str], device: str | torch.device, seed: int
) -> WordSpace | None:
    if not isinstance(settings.path, str) or Path(settings.path).expanduser().is_file():
        return None  # word vectors have no layers
    encoder = SentenceEncoder.from_pretrained(  # for its tokens alone
        settings.path, revision=settings.revision, dtype=settings.dtype, modules="none"
    ).to(device)
    embeddings, counts = input_embeddings(encoder, sentences)
    ranked = counts.occurrences.argsort(descending=True, stable=True)
    occurring = embeddings[ranked[counts.occurrences[ranked] > 0].to(embeddings.device)]
    return WordSpace(
        word_buckets(embeddings, counts.occurrences),
        mean_cosine(occurring),
        principal_projection(occurring),
        cosine_by_layer(encoder, sentences, seed=seed),
    )


def _neighbours(texts: Sequence[str], vectors: Mapping[str, Tensor]) -> dict[str, dict[str, list[str]]]:
    """The nearest of some sentences, drawn before, under every method."""
    near = {name: nearest_neighbours(y, _SHOWN)[:_SHOWN].tolist() for name, y in vectors.items()}
    return {
        texts[i]: {name: [texts[j] for j in found[i]] for name, found in near.items()}
        for i in range(min(_SHOWN, len(texts)))
    }
