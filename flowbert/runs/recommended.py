"""The recommended closed-form map, as one more method beside those of a fit: layers, token weights and shrinkage."""

from collections.abc import Sequence
from dataclasses import replace

from flowbert.advice.choice import MAP_LAYERS, MAP_POOLING, MAP_SHRINKAGE
from flowbert.advice.cls_token import cls_holds_sentence
from flowbert.datamodules.options import CorpusOptions
from flowbert.encoders import SentenceEncoder
from flowbert.evaluation.comparison import Comparison
from flowbert.evaluation.embeddings import EncoderSettings
from flowbert.runs.compare import compare

METHOD = f"whitening:shrinkage={MAP_SHRINKAGE}"
"""Chosen on development data alone, see docs/real-run.md; ``configs/recommended_whitening.yaml`` is the same."""


def recommended_comparison(
    encoder: SentenceEncoder, options: CorpusOptions, sentences: Sequence[str], seed: int = 0
) -> Comparison:
    """The recommended map on the tasks of a fit, fitted on its corpus; the encoder is read once more.

    [CLS] has a weight only where it holds the sentence, see :mod:`flowbert.advice.cls_token`.

    Args:
        encoder: The frozen encoder of the fit; its layers and pooling play no role.
        options: What the fit fits and measures on.
        sentences: The sentences that it fits on.
        seed: Seed of the subset, if there is one.
    """
    pooling = MAP_POOLING[bool(cls_holds_sentence(encoder, sentences, seed))]
    used = {name: encoder.describe()[name] for name in ("path", "revision", "max_length", "dtype", "prompt")}
    settings = EncoderSettings(**used, layers=MAP_LAYERS, pooling=pooling, modules="none")
    found = compare(
        settings,
        METHOD,
        corpus=options.corpus,
        nli=options.nli,
        column=options.column,
        max_sentences=options.max_sentences,
        seeds=seed,
        tasks=options.task_names,
        senteval=options.senteval,
        store_dir=options.store_dir,
        device=encoder.device,
    )
    return replace(found, rows=[replace(row, code="") for row in found.rows])  # rows of a fit carry no digest of code
