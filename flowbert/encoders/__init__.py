"""Sentence encoders."""

from typing import Any

from flowbert.encoders.base import (
    Embedder,
    Encoder,
    as_sentences,
    check_same_encoder,
    differing_keys,
    digests_reused,
)
from flowbert.encoders.encoder import SentenceEncoder, encode_counted
from flowbert.encoders.folders import SENTENCE_TRANSFORMER, is_sentence_transformer
from flowbert.encoders.loading import (
    EncoderOptions,
    choose_device,
    load_encoder,
    open_encoder,
    open_encoders,
)
from flowbert.encoders.pooling import POOLINGS, Pooling
from flowbert.encoders.reading import Reading
from flowbert.registry import import_object

__all__ = [
    "POOLINGS",
    "Embedder",
    "Encoder",
    "EncoderOptions",
    "Pooling",
    "Reading",
    "SentenceEncoder",
    "SentenceTransformerEncoder",
    "as_sentences",
    "check_same_encoder",
    "choose_device",
    "differing_keys",
    "digests_reused",
    "encode_counted",
    "is_sentence_transformer",
    "load_encoder",
    "open_encoder",
    "open_encoders",
]


def __getattr__(name: str) -> Any:
    """The encoder of ``flowbert.extras.sentence_transformer``, imported when it is used."""
    if name != "SentenceTransformerEncoder":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_object(f"{SENTENCE_TRANSFORMER}.{name}")
