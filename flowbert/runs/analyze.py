"""The spaces of an encoder before and after its maps, measured on sentences that no map was fitted on."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flowbert.analysis.corpus_map import check_map
from flowbert.analysis.found import Analysis
from flowbert.analysis.gaussianity import GAUSSIANS, density_bits
from flowbert.analysis.gold_bands import ScoredPairs
from flowbert.analysis.sentence_tokens import tokens_in, words_in
from flowbert.analysis.token_space import word_space
from flowbert.analysis.whole import analysis_of
from flowbert.data.corpus import Corpus, load_corpus
from flowbert.data.files import as_list
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.counting import choose_counted
from flowbert.encoders.token_counts import FITTED_ON
from flowbert.errors import UserError
from flowbert.evaluation.embeddings import EncoderSettings, load_embeddings
from flowbert.evaluation.grid import Source
from flowbert.evaluation.request import Methods, Names, methods_of
from flowbert.flows import Glow
from flowbert.io.run_folder import RunFolder
from flowbert.methods.base import FittedMap, Method
from flowbert.methods.embedder import FLOW, load_map
from flowbert.methods.registry import FIT_HERE
from flowbert.processes import leave_to_first
from flowbert.progress import progress, tracked
from flowbert.report.analysis import write_analysis
from flowbert.seeding import Stream
from flowbert.tasks import TaskOptions, load_tasks
from flowbert.tasks.pairs import gold_scores
from flowbert.tasks.sts import STS

_FEWEST = 200  # distinct sentences


def analyze(
    encoder: str | EncoderSettings = "builtin-sample",
    methods: Methods = "raw,whitening,flow",
    flow: str | None = None,
    given: str | None = None,
    corpus: str = "builtin-sample",
    column: str | None = None,
    nli: str = "hub",
    limit: int = 3000,
    tasks: Names | None = None,
    senteval: str | None = None,
    split: Names = "test",
    map: str = "pca",
    seed: int = 0,
    output: str | Path | None = None,
    store_dir: str | None = None,
    device: str | torch.device = "cpu",
) -> Analysis:
    """Measure word space, sentence space before and after every method, and how Gaussian the results are.

    Half of the distinct sentences, at most ``limit``, are kept out of the fits; all figures of sentences are theirs.
    Pairs of ``tasks`` are measured under the same maps; whether their sentences are in the corpus is not looked at. A
    flow that no run is named for is fitted here.

    Args:
        encoder: Path of the encoder, or its settings: one encoder, one choice of layers and pooling.
        methods: Comma-separated, or a list, in which a list is a composition: raw, standardization, nulling-3,
            whitening-128:shrinkage=0.1, zca, learned-removal (from labels), flow:epochs=1, whitening-128+flow.
        flow: For method flow: run folder or exported folder, the name of one on the hub, or 'fit' to fit it here.
        given: For method given: run folder of fit or import, or exported folder, or the name of one on the hub, whose
            whitening it is.
        corpus: The sentences: files (a path, a glob, a comma-separated list), hub:NAME, nli, or builtin-sample.
        column: Column of the sentences in table files.
        nli: NLI source for corpus nli: hub, builtin-sample, or files.
        limit: Most sentences that are measured.
        tasks: Whose cosines are shown by gold score: STS12..STS16, STSB, SICKR, SAMPLE, or files of own pairs. Default:
            none.
        senteval: Folder laid out as SentEval's data/downstream, or hub; not for SAMPLE.
        split: Split to evaluate on: test, dev, or test,dev.
        map: Two-dimensional map of the corpus: pca, or umap (pip install 'flowbert[umap]').
        seed: Seed of the split, of what is drawn, of the flow and of UMAP.
        output: Folder to write: tables as .csv, pictures as .svg and .png with their data as .csv. None writes nothing.
        store_dir: Embedding cache; default: ~/.cache/flowbert.
        device: Where the encoder and flows run.

    Raises:
        UserError: If a file, a method or the encoder is not usable, or there are fewer than 200 distinct sentences.

    Example:
        >>> found = analyze(methods="raw,whitening-64", limit=400)
        >>> found.spaces["whitening-64"].isoscore > found.spaces["raw"].isoscore
        True
    """
    check_map(map)
    measured_on = _sts(tasks, TaskOptions(senteval, as_list(split, "split")))
    settings = EncoderSettings(encoder) if isinstance(encoder, str) else encoder
    load = partial(load_corpus, nli=nli, column=column)
    whole = load(corpus)
    distinct = list(dict.fromkeys(whole.sentences))
    if len(distinct) < _FEWEST:
        raise UserError(f"corpus: {corpus} has {len(distinct)} distinct sentences; needed: {_FEWEST}")
    chosen = methods_of(methods, FIT_HERE if flow is None and FLOW in str(methods) else flow, device, given)
    source = _source(settings, whole, load, device, store_dir)
    order = Stream(seed, "sample").rng().permutation(len(distinct)).tolist()
    held = min(limit, len(distinct) // 2)
    measured, fitting = ([distinct[i] for i in part] for part in (order[:held], order[held:]))
    for method in chosen:
        method.check_embeddings(source.key, source.dim)
    source.prepare([*distinct, *(text for task in measured_on for text in task.sentences())])
    leave_to_first()
    x, rows = (torch.as_tensor(source.embed(texts)) for texts in (fitting, measured))
    prepared = {f"{task.name} {task.split}": (task, task.prepare(source.embed)) for task in measured_on}
    cosines: dict[str, dict[str, Any]] = {name: {} for name in prepared}
    vectors: dict[str, Tensor] = {}
    bits: dict[str, float] = {}
    for method in tracked(chosen, "Fitting", "methods"):
        fitted = method.fit(lambda: [x], seed=seed)
        if fitted.flaw is not None:
            raise UserError(f"method {method.name!r}: {fitted.flaw}")
        vectors[method.name] = rows if fitted.transform is None else fitted.transform(rows)
        for name, (task, embedded) in prepared.items():
            cosines[name][method.name] = task.item_values(embedded, fitted.transform)
        glow = _glow(method, fitted, flow)
        if glow is not None:
            bits = density_bits(glow, x, rows, GAUSSIANS)
    with progress(None, "Measuring"):
        reader = _reader(settings, device)
        found = analysis_of(
            measured,
            vectors,
            setting={**source.columns, "corpus": whole.name},
            fitted=len(fitting),
            tokens=words_in(measured, whole.sentences)
            if reader is None
            else tokens_in(reader, measured, whole.sentences),
            words=None if reader is None else word_space(reader, whole.sentences, seed=seed),
            bits=bits,
            pairs={name: ScoredPairs(gold_scores(task.subsets), cosines[name]) for name, (task, _) in prepared.items()},
            kind=map,
            seed=seed,
        )
    if output is not None:
        with progress(None, "Drawing"):
            write_analysis(found, Path(output))
    return found


def _sts(names: Names | None, options: TaskOptions) -> list[STS]:
    found = load_tasks({STS.kind: as_list(names, "tasks")}, options)
    chosen = [task for task in found if isinstance(task, STS)]
    if len(chosen) < len(found):
        raise UserError(f"tasks: received {names!r}; allowed: STS tasks and files of own pairs with gold scores")
    return chosen


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


def _reader(settings: EncoderSettings, device: str | torch.device) -> SentenceEncoder | None:
    """The encoder for its tokens alone; None for word vectors, which have no layers."""
    if not isinstance(settings.path, str) or Path(settings.path).expanduser().is_file():
        return None
    return SentenceEncoder.from_pretrained(
        settings.path,
        revision=settings.revision,
        max_length=settings.max_length or None,
        dtype=settings.dtype,
        modules="none",
    ).to(device)
