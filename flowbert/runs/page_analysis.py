"""What the page of a run shows beside its figures: the space before and after the maps, cosines by gold score."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from flowbert.analysis.found import Analysis
from flowbert.analysis.gaussianity import GAUSSIANS, density_bits
from flowbert.analysis.gold_bands import ScoredPairs, bands_by_method
from flowbert.analysis.plain import to_plain
from flowbert.analysis.sentence_tokens import tokens_in, words_in
from flowbert.analysis.token_space import word_space
from flowbert.analysis.whole import analysis_of
from flowbert.callbacks.sts_evaluation import MethodFigures
from flowbert.data.sts import STSTask
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.evaluation.resumable import ResumableRun
from flowbert.modules import FlowModule
from flowbert.tasks.pairs import gold_scores
from flowbert.tasks.sts import STS

FEWEST = 50  # sentences: of fewer nothing is said
_COUNTED = 20_000  # sentences of the corpus that words are counted over, and that a Gaussian is fitted on
_TOKENS = 500  # of which the anisotropy by layer is: some hundred sentences pass the encoder


def analysis_of_fit(
    module: Any,
    datamodule: Any,
    sentences: Sequence[str],
    vectors: dict[str, Tensor],
    figures: Sequence[MethodFigures],
    setting: dict[str, Any],
) -> Analysis:
    """Measure the vectors of sentences before and after every map, and look at its tokens, if the encoder has any.

    Args:
        module: The trained module.
        datamodule: Its data.
        sentences: N sentences.
        vectors: Method -> their vectors, ``(N, k)``.
        figures: Figures of every method on the tasks.
        setting: Encoder, layers, pooling, and what the sentences are of.
    """
    fitted_on = datamodule.describe_corpus()
    setting = {**setting, "corpus": fitted_on["name"], "trained": not module.frozen_encoder}
    pairs = scored_pairs(datamodule.tasks, figures)
    if len(sentences) < FEWEST:
        return Analysis(to_plain(setting), 0, 0, bands={task: bands_by_method(each) for task, each in pairs.items()})
    words: dict[str, Any] = {}
    if isinstance(module.encoder, SentenceEncoder):
        corpus = datamodule.examples.columns[0]
        setting["contained"] = len({*sentences} & {*corpus})
        counted = corpus[:_COUNTED]
        words = {
            "tokens": tokens_in(module.encoder, sentences, counted),
            "words": word_space(module.encoder, counted, _TOKENS, module.hparams["seed"]),
        }
    words |= {"bits": _bits(module, datamodule), "pairs": pairs}
    found = analysis_of(sentences, vectors, setting=setting, fitted=fitted_on["fitted"], **words)
    return found if isinstance(module.encoder, SentenceEncoder) else without_text(found)


def scored_pairs(tasks: Sequence[STSTask], figures: Sequence[MethodFigures]) -> dict[str, ScoredPairs]:
    """Gold scores and cosines of every task, by task and split."""
    found: dict[str, ScoredPairs] = {}
    for task in tasks:
        mine = [each for each in figures if each.figures.task == task.name]
        split = mine[0].figures.split
        cosines = {each.method: each.figures.similarities for each in mine}
        found[f"{task.name} {split}"] = ScoredPairs(gold_scores(task.split(split)), cosines)
    return found


def analysis_of_run(run: ResumableRun, *, has_text: bool) -> Analysis:
    """Measure the sample of vectors that an evaluation kept, and the cosines of every STS task by gold score.

    All of it is of the first encoder, layers and pooling, and of one seed and corpus for each method.

    Args:
        run: The cells, and what is kept of them.
        has_text: Whether sentences are sentences, and not row numbers of vectors.
    """
    setting = to_plain(run.cells[0].source.columns)
    pairs = _pairs_of(run)
    vectors = {} if run.sample is None else {n: x for n, x in run.sample.vectors().items() if x.isfinite().all()}
    if run.sample is None or not vectors or len(run.sample.sentences) < FEWEST:
        return Analysis(setting, 0, 0, bands={task: bands_by_method(each) for task, each in pairs.items()})
    sentences, task = run.sample.sentences, run.cells[0].task
    setting["measured"] = f"{task.name} {task.split}"
    corpora = [cell.corpus for name, cell in run.sample.cells.items() if name in vectors and cell.corpus is not None]
    fitted = len(corpora[0]) if corpora else 0
    setting |= {"corpus": corpora[0].name} if corpora else {}
    if not has_text:
        return without_text(analysis_of(sentences, vectors, setting=setting, fitted=fitted, pairs=pairs))
    corpus = corpora[0].sentences if corpora else sentences
    setting |= {"contained": len({*sentences} & {*corpus})} if corpora else {}
    tokens = words_in(sentences, corpus[:_COUNTED])
    return analysis_of(sentences, vectors, setting=setting, fitted=fitted, tokens=tokens, pairs=pairs)


def without_text(found: Analysis) -> Analysis:
    """What stands for a sentence is a row number: nothing to read or to count."""
    return replace(found, neighbours={}, norms={}, points=None)


def _pairs_of(run: ResumableRun) -> dict[str, ScoredPairs]:
    """Gold scores and cosines of every STS task, by task and split."""
    first = run.cells[0].source
    cosines: dict[STS, dict[str, Any]] = {}
    for cell in run.cells:
        found = run.scores.items([cell]).get(cell.setting)
        if isinstance(cell.task, STS) and cell.source is first and found is not None:
            cosines.setdefault(cell.task, {}).setdefault(cell.method.shown, found)
    return {
        f"{task.name} {task.split}": ScoredPairs(gold_scores(task.subsets), by_method)
        for task, by_method in cosines.items()
    }


def _bits(module: Any, datamodule: Any) -> dict[str, float]:
    """Bits per dimension of the held-out sentences under the flow and under Gaussians of the same fitting sentences."""
    if not (isinstance(module, FlowModule) and isinstance(datamodule, EmbeddingDataModule)) or module.flaw is not None:
        return {}
    if module.flow is None:
        return {}
    fitting, held_out = datamodule.likelihood_sample(_COUNTED)
    if len(held_out) < 2 or len(fitting) <= fitting.shape[1]:  # a Gaussian has no density there
        return {}
    return density_bits(module.flow, fitting, held_out, GAUSSIANS)
