"""Data modules on the built-in sample, in one line."""

from dataclasses import fields
from typing import Any, TypeVar

from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.encoders import SentenceEncoder

Data = TypeVar("Data", bound=CorpusDataModule)
_NAMES = {field.name for field in fields(CorpusOptions)}


def make_data(kind: type[Data], encoder: Any = None, **options: Any) -> Data:
    """A data module whose options are those of the corpus and its own, side by side; read if it has an encoder."""
    corpus = {"nli": "builtin-sample", **{name: value for name, value in options.items() if name in _NAMES}}
    own = {name: value for name, value in options.items() if name not in _NAMES}
    data = kind(encoder, CorpusOptions(**corpus), **own)
    if encoder is not None:
        data.load()
    return data


def trainable_encoder(path: str = "builtin-sample", **options: Any) -> SentenceEncoder:
    """An encoder that is not frozen; the sample's by default."""
    return SentenceEncoder.from_pretrained(path, frozen=False, **options)
