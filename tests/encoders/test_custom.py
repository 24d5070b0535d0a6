"""Functions and objects with ``encode`` as encoders."""

import numpy as np
import pytest
import torch

from experiments.small import WordSums, write_pairs
from flowbert import compare
from flowbert.encoders import open_encoder
from flowbert.model import Model
from helpers import refused


class Counting:
    """Vectors of words, and the number of sentences that were embedded."""

    name = "counting"

    def __init__(self):
        self.count = 0

    def encode(self, texts):
        self.count += len(texts)
        return WordSums().encode(texts).tolist()


class Lasting(Counting):
    """Vectors that are the same tomorrow."""

    identity = "of version 1"
    dim = 6


def as_tensor(texts):
    return torch.from_numpy(WordSums().encode(texts)).requires_grad_()


SOURCES = [Counting(), Lasting(), as_tensor, WordSums(), Model(WordSums())]


@pytest.mark.parametrize("source", SOURCES)
def test_any_embedder_is_compared(source, tmp_path):
    pairs = write_pairs(tmp_path / "pairs.tsv")
    given = {"tasks": pairs, "bootstrap": 0, "cache": str(tmp_path / "cache")}
    results = compare(source, "raw,zca", **given)
    expected = compare(WordSums(), "raw,zca", **given)
    for method in ("raw", "zca"):
        assert results.score(method, "pairs") == expected.score(method, "pairs")
    (name,) = results.frame["encoder"].unique()
    assert name in ("counting", "as_tensor", "word-sums-0", "Model")


def test_vectors_are_kept_if_they_have_an_identity(tmp_path):
    pairs = write_pairs(tmp_path / "pairs.tsv")
    given = {"tasks": pairs, "bootstrap": 0, "cache": str(tmp_path / "cache")}
    given["output"] = tmp_path / "results.json"
    for source, again in ((Counting(), True), (Lasting(), False)):
        compare(source, "raw,zca", **given)
        assert source.count > 100
        compare(other := type(source)(), "raw,zca", **given)
        assert (other.count > 0) == again


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "received 3; expected a path, EncoderOptions, a function"),
        (lambda _: [[1, 2], [3]], "received list for 2 sentences; expected a vec"),
        (lambda _: np.zeros((1, 4)), "received ndarray for 2 sentences"),
        (lambda _: None, "received NoneType for 2 sentences"),
    ],
)
def test_other_objects_are_refused(source, message):
    refused(message, lambda: open_encoder(source).embed(["a", "b"]))
