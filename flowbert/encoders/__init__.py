"""Sentence encoders."""

from flowbert.data.text_files import as_sentences
from flowbert.encoders.base import (
    Embedder,
    check_same_encoder,
    differing_keys,
    digests_reused,
)
from flowbert.encoders.encoder import SentenceEncoder, encode_counted
from flowbert.encoders.folders import is_sentence_transformer
from flowbert.encoders.loading import (
    choose_device,
    load_encoder,
    open_encoder,
    open_encoders,
)
from flowbert.encoders.pooling import POOLINGS, Pooling
from flowbert.encoders.reading import Reading
from flowbert.options import EncoderOptions

__all__ = [
    "POOLINGS",
    "Embedder",
    "EncoderOptions",
    "Pooling",
    "Reading",
    "SentenceEncoder",
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
