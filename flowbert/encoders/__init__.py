"""Sentence encoders."""

from flowbert.encoders.base import (
    Encoder,
    as_sentences,
    check_same_encoder,
    differing_keys,
    digests_reused,
)
from flowbert.encoders.choice import (
    EncoderOptions,
    choose_device,
    open_encoder,
    open_encoders,
)
from flowbert.encoders.encoder import SentenceEncoder
from flowbert.encoders.folder import SentenceTransformerFolder, load_encoder
from flowbert.encoders.loaded import (
    LoadedSentenceTransformer,
    is_sentence_transformer,
)
from flowbert.encoders.pooling import POOLINGS, Pooling, Readout
from flowbert.encoders.words import WordVectors

__all__ = [
    "POOLINGS",
    "Encoder",
    "EncoderOptions",
    "LoadedSentenceTransformer",
    "Pooling",
    "Readout",
    "SentenceEncoder",
    "SentenceTransformerFolder",
    "WordVectors",
    "as_sentences",
    "check_same_encoder",
    "choose_device",
    "differing_keys",
    "digests_reused",
    "is_sentence_transformer",
    "load_encoder",
    "open_encoder",
    "open_encoders",
]
