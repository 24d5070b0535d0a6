"""A small encoder that counts its work, and small tasks."""

import json
import zlib
from functools import cache
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

from flowbert.data.sample import (
    sample_corpus,
    sample_encoder_path,
    sample_nli,
    sample_pairs,
)
from flowbert.data.text_files import split_words
from flowbert.encoders import Embedder
from flowbert.experiments import compare
from flowbert.vectors import EmbeddingCache

DIM = 6


@cache
def _word_vector(word, seed):
    return np.random.default_rng([seed, zlib.crc32(word.encode())]).normal(size=DIM)


class WordSums(Embedder):
    """Sums of a random vector for each word.

    Attributes:
        encoded: All sentences that were encoded, in order.
    """

    path = "word-sums"

    def __init__(self, seed=0, dim=DIM):
        self.seed = seed
        self.dim = dim
        self.encoded = []

    @property
    def identity(self):
        return {"seed": self.seed, "dim": self.dim}

    @property
    def backbone_key(self):
        return f"word-sums {self.identity}"

    def embed(self, sentences, on_batch=None):
        self.encoded += sentences
        rows = []
        for sentence in sentences:
            words = [_word_vector(word, self.seed) for word in sentence.split()]
            rows.append(np.sum(words, axis=0)[: self.dim] + 1)
        return np.array(rows, dtype=np.float32)

    def describe(self):
        return {"path": self.path}

    def columns(self):
        name = f"{self.path}-{self.seed}"
        return {"encoder": name, "layers": "words", "pooling": "sum"}


def compare_small(encoder, methods="raw,whitening", **options):
    """A comparison without intervals and without files of embeddings."""
    small: dict[str, Any] = {"bootstrap": 0, "cache": EmbeddingCache(False)}
    return compare(encoder, methods, **small | options)


def write_pairs(path, start=0, count=60):
    """Write scored pairs of the sample as a file of pairs."""
    pairs = sample_pairs("test")[start : start + count]
    lines = ["sentence1\tsentence2\tscore"]
    lines += [f"{first}\t{second}\t{score}" for first, second, score in pairs]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_nli(path, count):
    """Write labelled pairs of the sample as JSON lines."""
    names = ("premise", "hypothesis", "label")
    rows = [dict(zip(names, row, strict=True)) for row in sample_nli()[:count]]
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def write_words(path, texts, dim=8):
    """Write random vectors of the words of texts."""
    words = sorted({word for text in texts for word in split_words(text.lower())})
    rows = np.random.default_rng(0).normal(size=(len(words), dim))
    lines = [" ".join([w, *map(str, row)]) for w, row in zip(words, rows, strict=True)]
    path.write_text("\n".join(lines))
    return str(path)


def write_sentence_transformer(folder, pooling="mean"):
    """Write the sample's encoder as sentence-transformers does."""
    parts = [modules.Transformer(sample_encoder_path()), modules.Pooling(128, pooling)]
    SentenceTransformer(modules=parts).save(str(folder), create_model_card=False)
    return str(folder)


def write_corpus(path, count):
    """Write the first sentences of the sample corpus as a text file."""
    path.write_text("\n".join(sample_corpus()[:count]) + "\n")
    return str(path)
