"""Sentence encoders: any Hugging Face backbone, with layers and pooling said once."""

from flowbert.encoders.encoder import SentenceEncoder
from flowbert.encoders.identity import check_same_encoder
from flowbert.encoders.layers import LAYER_NAMES, name_layers, resolve_layers
from flowbert.encoders.pooling import POOLINGS, mix_layers, pool
from flowbert.encoders.static import StaticEncoder, count_words

__all__ = [
    "LAYER_NAMES",
    "POOLINGS",
    "SentenceEncoder",
    "StaticEncoder",
    "check_same_encoder",
    "count_words",
    "mix_layers",
    "name_layers",
    "pool",
    "resolve_layers",
]
