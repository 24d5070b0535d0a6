"""The recommended closed-form map, as one more method beside those of a fit: layers, token weights and shrinkage."""

from dataclasses import replace

from flowbert.datamodules.options import CorpusOptions
from flowbert.encoders import SentenceEncoder
from flowbert.evaluation.comparison import Comparison
from flowbert.evaluation.embeddings import EncoderSettings
from flowbert.runs.compare import compare

LAYERS, POOLING, METHOD = "embedding_last", "idf:exponent=0.5", "whitening:shrinkage=0.9"
"""Chosen on development data alone, see docs/real-run.md; ``configs/recommended_whitening.yaml`` is the same."""


def recommended_comparison(encoder: SentenceEncoder, options: CorpusOptions, seed: int = 0) -> Comparison:
    """The recommended map on the tasks of a fit, fitted on its corpus; the encoder is read once more.

    Args:
        encoder: The frozen encoder of the fit; its layers and pooling play no role.
        options: What the fit fits and measures on.
        seed: Seed of the subset, if there is one.
    """
    used = encoder.describe()
    settings = EncoderSettings(
        used["path"],
        used["revision"],
        LAYERS,
        POOLING,
        max_length=used["max_length"],
        dtype=used["dtype"],
        prompt=used["prompt"],
        modules="none",
    )
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
