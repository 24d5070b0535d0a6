"""Sentence encoders: any Hugging Face backbone, with layers and pooling said once."""

from flowbert.encoders.encoder import SentenceEncoder
from flowbert.encoders.identity import check_same_encoder
from flowbert.encoders.layers import name_layers, resolve_layers
from flowbert.encoders.static import StaticEncoder, count_words

__all__ = ["SentenceEncoder", "StaticEncoder", "check_same_encoder", "count_words", "name_layers", "resolve_layers"]
