"""What the page of a fit shows beside its figures: the space before and after the maps, cosines by gold score."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from flowbert.analysis.found import Analysis
from flowbert.analysis.gaussianity import GAUSSIANS, density_bits
from flowbert.analysis.gold_bands import ScoredPairs, bands_of
from flowbert.analysis.plain import to_plain
from flowbert.analysis.sentence_tokens import COUNTED, tokens_in
from flowbert.analysis.token_space import word_space
from flowbert.analysis.whole import analysis_of
from flowbert.callbacks.sts_evaluation import MethodFigures
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.evaluation.sample_vectors import FEWEST
from flowbert.modules import FlowModule
from flowbert.runs.fit_figures import similarities_of
from flowbert.tasks.pairs import gold_scores

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
    pairs = {
        f"{task.name} {split}": ScoredPairs(gold_scores(task.split(split)), cosines)
        for task, split, cosines in similarities_of(datamodule.tasks, figures)
    }
    if len(sentences) < FEWEST:
        return Analysis(to_plain(setting), 0, 0, bands=bands_of(pairs))
    words: dict[str, Any] = {}
    if isinstance(module.encoder, SentenceEncoder):
        corpus = datamodule.examples.columns[0]
        setting["contained"] = len({*sentences} & {*corpus})
        counted = corpus[:COUNTED]
        words = {
            "tokens": tokens_in(module.encoder, sentences, counted),
            "words": word_space(module.encoder, counted, _TOKENS, module.hparams["seed"]),
        }
    words |= {"bits": _bits(module, datamodule), "pairs": pairs}
    found = analysis_of(sentences, vectors, setting=setting, fitted=fitted_on["fitted"], **words)
    return found if isinstance(module.encoder, SentenceEncoder) else found.without_sentences()


def _bits(module: Any, datamodule: Any) -> dict[str, float]:
    """Bits per dimension of the held-out sentences under the flow and under Gaussians of the same fitting sentences."""
    if not (isinstance(module, FlowModule) and isinstance(datamodule, EmbeddingDataModule)):
        return {}
    if module.flow is None or module.flaw is not None:
        return {}
    fitting, held_out = datamodule.likelihood_sample(COUNTED)
    if len(held_out) < 2 or len(fitting) <= fitting.shape[1]:  # a Gaussian has no density there
        return {}
    return density_bits(module.flow, fitting, held_out, GAUSSIANS)
