"""Data modules on the built-in sample, in one line."""

from dataclasses import fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from flowbert.data.sample import sample_pairs
from flowbert.datamodules.base import CorpusDataModule
from flowbert.datamodules.options import CorpusOptions
from flowbert.encoders import SentenceEncoder

Data = TypeVar("Data", bound=CorpusDataModule)
_FOLDER = TemporaryDirectory()
_NAMES = {field.name for field in fields(CorpusOptions)}


def make_data(kind: type[Data], encoder: Any = None, **options: Any) -> Data:
    """A data module whose options are those of the corpus and its own, side by side; read if it has an encoder."""
    corpus = {"nli": "builtin-sample", **{name: value for name, value in options.items() if name in _NAMES}}
    if "tasks" not in corpus and corpus.get("corpus", "target") not in ("target", "train_only"):
        corpus["tasks"] = small_task()  # the whole sample takes longer than the training
    own = {name: value for name, value in options.items() if name not in _NAMES}
    data = kind(encoder, CorpusOptions(**corpus), **own)
    if encoder is not None:
        data.load()
    return data


@cache
def small_task() -> str:
    """A file of 60 pairs of the sample's test split."""
    path = Path(_FOLDER.name) / "small.tsv"
    lines = ["\t".join(map(str, pair)) for pair in sample_pairs("test")[:60]]
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n", encoding="utf-8")
    return str(path)


def trainable_encoder(path: str = "builtin-sample", **options: Any) -> SentenceEncoder:
    """An encoder that is not frozen; the sample's by default."""
    return SentenceEncoder.from_pretrained(path, frozen=False, **options)
