"""Vectors are the same wherever they are: in arrays, tensors, files, the cache, and subsets."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from flowbert.encoders import Embedder
from flowbert.maps import Whitening
from flowbert.vectors import EmbeddingCache, as_vectors, base, write_vectors
from helpers import refused, rows

X = rows(50, 6).astype(np.float32)


class Numbered(Embedder):
    """An encoder of the sentences "0", "1", ... to the rows of X."""

    identity = {"name": "numbered"}  # noqa: RUF012
    dim = X.shape[1]

    def embed(self, sentences, on_batch=None):
        return X[[int(text) for text in sentences]]


def sources(folder):
    """X in every place that vectors may be in."""
    found = {
        "array": X,
        "float64": X.astype(np.float64),
        "tensor": torch.from_numpy(X),
        "tensor with a gradient": torch.from_numpy(X).double().requires_grad_(),
        "subset": as_vectors(X[::-1]).subset(np.arange(len(X))[::-1]),
    }
    for suffix in ("npy", "safetensors", "parquet"):
        path = folder / f"x.{suffix}"
        write_vectors(path, lambda _: [X[:20], X[20:]], len(X))
        found[suffix] = path
    found["mapped"] = np.load(folder / "x.npy", mmap_mode="r")
    texts = [str(number) for number in range(len(X))]
    for place in (False, folder / "cache"):
        found[f"cache {place}"] = EmbeddingCache(place).rows(Numbered(), texts)
    return found


@pytest.mark.parametrize("size", [7, 50, 2048])
def test_equal_values_are_equal_wherever_they_are(size, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "BLOCK_ROWS", size)
    expected = Whitening().fit(as_vectors(X)).weight_
    digests = set()
    for name, source in sources(tmp_path).items():
        vectors = as_vectors(source)
        assert as_vectors(vectors) is vectors
        assert (vectors.shape, len(vectors)) == (X.shape, len(X)), name
        digests.add(vectors.digest)
        assert np.array_equal(np.concatenate(list(vectors.blocks())), X), name
        chosen = np.array([49, 0, 7, 7])
        for read in (vectors[chosen], vectors[chosen.tolist()]):
            assert read.dtype == np.float32
            assert np.array_equal(read, X[chosen]), name
            read[:] = 0  # a copy
        assert np.array_equal(vectors[3:40:2], X[3:40:2]), name
        assert np.array_equal(vectors[-3:], X[-3:]), name
        part = vectors.subset(chosen).subset(np.array([1, 0]))
        assert np.array_equal(part[:], X[[0, 49]]), name
        mask = X[:, 0] > 0
        for read in (vectors[mask], vectors.subset(mask)[:]):
            assert np.array_equal(read, X[mask]), name
        assert [vectors.count_distinct(limit) for limit in (60, 7)] == [50, 7], name
        dataset: Any = vectors
        loader: Any = DataLoader(dataset, batch_size=16, collate_fn=lambda batch: batch)
        assert np.array_equal(np.concatenate(list(loader)), X), name
        assert torch.equal(Whitening().fit(vectors).weight_, expected), name
    assert len(digests) == 1


def test_a_digest_tells_shape_and_values_apart():
    others = [X, X[:, ::-1], X[::-1], X.reshape(25, 12), np.nextafter(X, 1), X[1:]]
    assert len({as_vectors(other).digest for other in others}) == len(others)


@pytest.mark.parametrize(
    "value", [np.ones(3), np.ones((0, 3)), [["a"]], [[np.nan]], [[1e300]], None]
)
def test_what_is_no_matrix_of_finite_numbers(value):
    refused(r"^vectors: received", lambda: as_vectors(value)[:])
