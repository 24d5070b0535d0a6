"""The shapes that public objects and functions take and give, each by a table."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sentence_transformers import SentenceTransformer, util
from sentence_transformers.sentence_transformer import modules as library

import flowbert
from encoders.tiny import SENTENCES, write_tiny
from flowbert.encoders import (
    Embedder,
    SentenceTransformerEncoder,
    ViewsEncoder,
    WordVectors,
)

LISTS = (list, tuple, np.array, pd.Series, iter)


@pytest.fixture(scope="module")
def embedders(tmp_path_factory):
    """What has ``encode``, by name."""
    folder = tmp_path_factory.mktemp("embedders")
    write_tiny(folder / "bert")
    words = folder / "words.txt"
    words.write_text("the 1 2\ndog 3 -4\na 5 6\ncat -7 8\nmat 9 10\nété 1 1")
    encoder = flowbert.SentenceEncoder(folder / "bert")
    views: Any = [{"layers": 0}, {"layers": "last", "pooling": "cls"}]
    parts = [library.Transformer(str(folder / "bert")), library.Pooling(16, "mean")]
    whitening = flowbert.Whitening(n_components=3, shrinkage=0.5)
    whitening.fit(encoder.encode(SENTENCES))
    return {
        "encoder": encoder,
        "views": ViewsEncoder(folder / "bert", views=views),
        "words": WordVectors(words),
        "library": SentenceTransformerEncoder(SentenceTransformer(modules=parts)),
        "raw model": flowbert.Model(encoder),
        "whitened": flowbert.Model(encoder, whitening),
    }


KINDS = ("encoder", "views", "words", "library", "raw model", "whitened")


@pytest.mark.parametrize("kind", KINDS)
def test_encode(kind, embedders):
    embedder = embedders[kind]
    assert type(embedder).encode is Embedder.encode
    vectors = embedder.encode(SENTENCES)
    count, dim = len(SENTENCES), embedder.get_sentence_embedding_dimension()
    assert vectors.shape == (count, dim) == (count, embedder.dim)
    assert vectors.dtype == np.float32
    # Batches of other sizes: 168 u of float32, u = 6e-8.
    check_close = partial(
        assert_allclose, rtol=0, atol=1e-5 * float(np.abs(vectors).max())
    )
    for shape in LISTS:
        assert_array_equal(embedder.encode(shape(SENTENCES)), vectors)
    assert embedder.encode([]).shape == (0, dim)
    one = embedder.encode(SENTENCES[0])
    assert one.shape == (dim,)
    check_close(one, vectors[0])
    check_close(embedder.encode(SENTENCES, batch_size=2), vectors)
    tensor = embedder.encode(SENTENCES, convert_to_tensor=True)
    assert_array_equal(tensor.numpy(), vectors)
    assert tensor.device == embedder.device == torch.device("cpu")
    tensors = embedder.encode(SENTENCES, convert_to_numpy=False)
    assert isinstance(tensors, list)
    assert all(map(torch.equal, tensors, tensor))
    shorter = embedder.encode(SENTENCES, truncate_dim=2, normalize_embeddings=True)
    lengths = np.linalg.norm(vectors[:, :2], axis=1, keepdims=True)
    assert_allclose(shorter, vectors[:, :2] / lengths, rtol=1e-6)
    cosines = embedder.similarity(vectors, tensor[:2])
    assert_allclose(cosines, util.cos_sim(vectors, tensor[:2]), atol=1e-6)
    assert embedder.similarity(one, one).shape == (1, 1)
    assert embedder.to("cpu") is embedder
