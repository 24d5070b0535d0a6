"""Sentence encoders."""

from flowbert.encoders.base import (
    Encoder,
    as_sentences,
    check_same_encoder,
    unchanged,
)
from flowbert.encoders.encoder import AveragedLayers, SentenceEncoder, encode_variants
from flowbert.encoders.folder import SentenceTransformerFolder, load_encoder
from flowbert.encoders.loaded import (
    LoadedSentenceTransformer,
    is_sentence_transformer,
)
from flowbert.encoders.options import (
    EncoderOptions,
    choose_device,
    open_encoder,
    open_encoders,
)
from flowbert.encoders.words import WordVectors

__all__ = [
    "AveragedLayers",
    "Encoder",
    "EncoderOptions",
    "LoadedSentenceTransformer",
    "SentenceEncoder",
    "SentenceTransformerFolder",
    "WordVectors",
    "as_sentences",
    "check_same_encoder",
    "choose_device",
    "encode_variants",
    "is_sentence_transformer",
    "load_encoder",
    "open_encoder",
    "open_encoders",
    "unchanged",
]
