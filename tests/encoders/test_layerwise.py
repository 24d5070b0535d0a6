"""Several layer settings from one pass equal one encoder per setting, whatever the pooling."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.encoders import make_encoder

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.cpu.training import fast_training
from flowbert.encoders.layerwise import LayerwiseEncoder, expand_layers, single_layers
from flowbert.encoders.pooling import TOKEN_POOLINGS
from flowbert.errors import UserError

SENTENCES = ["a dog runs", "the big cat sleeps on the mat", "bird"]


@pytest.mark.parametrize("pooling", TOKEN_POOLINGS)
def test_one_pass_equals_an_encoder_per_setting(pooling: str, tmp_path: Path) -> None:
    path = str(make_encoder(tmp_path / "encoder"))
    settings = [(0,), (1, 3), (1, 2, 3)]
    encoder = LayerwiseEncoder.from_pretrained(path, pooling=pooling)
    encoder.select(settings)
    found = np.split(encoder.encode(SENTENCES), len(settings), axis=1)
    for layers, vectors in zip(settings, found, strict=True):
        single = SentenceEncoder.from_pretrained(path, layers=layers, pooling=pooling)
        np.testing.assert_allclose(vectors, single.encode(SENTENCES), atol=1e-6)
        assert encoder.key_of(layers) == single.key()


@pytest.mark.parametrize("pooling", TOKEN_POOLINGS)
def test_parts_average_to_the_setting(pooling: str, tmp_path: Path) -> None:
    path = str(make_encoder(tmp_path / "encoder"))
    parts = single_layers((1, 3), pooling)
    encoder = LayerwiseEncoder.from_pretrained(path, pooling=pooling)
    encoder.select(parts)
    averaged = np.mean(np.split(encoder.encode(SENTENCES), len(parts), axis=1), axis=0)
    expected = SentenceEncoder.from_pretrained(path, layers=(1, 3), pooling=pooling).encode(SENTENCES)
    np.testing.assert_allclose(averaged, expected, atol=1e-6)


def test_maximum_is_not_averaged() -> None:
    assert single_layers((1, 3), "max") == ((1, 3),)


def test_names_stand_for_all_of_a_size() -> None:
    assert len(expand_layers(["singles", "pairs", "triples"], 6)) == 7 + 21 + 35
    assert expand_layers(["first_last", [3, 1], "last"], 3) == ((1, 3), (3,))


def test_pooler_reads_the_last_layer_alone() -> None:
    encoder = LayerwiseEncoder.from_pretrained("builtin-sample")
    encoder.pooling = "cls_pooler"
    with pytest.raises(UserError, match="allowed with pooling cls_pooler: last"):
        encoder.select([(1,), (4,)])


@pytest.mark.parametrize("pooling", TOKEN_POOLINGS)
@pytest.mark.parametrize("architecture", ["bert", "distilbert"])
def test_packed_sentences_give_the_same_vectors_of_every_setting(
    architecture: str, pooling: str, tmp_path: Path
) -> None:
    encoder = LayerwiseEncoder.from_pretrained(str(make_encoder(tmp_path, architecture)), pooling=pooling)
    encoder.select([(1,), (3,), (1, 3), (0, 1, 2)])
    chunks = [encoder.tokenize(SENTENCES[:1]), encoder.tokenize(SENTENCES[1:])]
    padded = encoder.embed_chunks(chunks)
    assert padded.shape == (len(SENTENCES), 4 * encoder.layer_dim)
    with fast_training(encoder):
        assert encoder.packs
        torch.testing.assert_close(encoder.embed_chunks(chunks), padded, atol=2e-6, rtol=1e-5)
