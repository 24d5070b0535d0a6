"""Several layer settings from one pass equal one encoder per setting, whatever the pooling."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.encoders import make_encoder

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.cpu.training import fast_training
from flowbert.encoders.layerwise import LayerwiseEncoder, expand_layers, single_layers
from flowbert.encoders.pooling import TOKEN_POOLINGS, make_pooling
from flowbert.encoders.token_weights import WEIGHTINGS
from flowbert.errors import UserError

SENTENCES = ["a dog runs", "the big cat sleeps on the mat", "bird"]


@pytest.mark.parametrize("pooling", [*TOKEN_POOLINGS, *WEIGHTINGS])
def test_one_pass_equals_an_encoder_per_setting(pooling: str, tmp_path: Path) -> None:
    path = str(make_encoder(tmp_path / "encoder"))
    encoder = LayerwiseEncoder.from_pretrained(path)
    counts = encoder.count_tokens(SENTENCES)
    poolings = [
        make_pooling(each, encoder.tokenizer).with_counts(counts, encoder.tokenizer) for each in (pooling, "mean")
    ]
    settings = [(layers, each) for each in poolings for layers in ((0,), (1, 3), (1, 2, 3))]
    encoder.select(settings)
    found = np.split(encoder.encode(SENTENCES), len(settings), axis=1)
    for setting, vectors in zip(settings, found, strict=True):
        layers, of = setting
        single = SentenceEncoder.from_pretrained(path, layers=layers, pooling=of.text, counts=counts)
        np.testing.assert_allclose(vectors, single.encode(SENTENCES), atol=1e-6)
        assert encoder.key_of(setting) == single.key()


@pytest.mark.parametrize("pooling", [*TOKEN_POOLINGS, *WEIGHTINGS])
def test_parts_average_to_the_setting(pooling: str, tmp_path: Path) -> None:
    path = str(make_encoder(tmp_path / "encoder"))
    encoder = LayerwiseEncoder.from_pretrained(path)
    counts = encoder.count_tokens(SENTENCES)
    parts = single_layers(((1, 3), make_pooling(pooling, encoder.tokenizer).with_counts(counts, encoder.tokenizer)))
    encoder.select(parts)
    averaged = np.mean(np.split(encoder.encode(SENTENCES), len(parts), axis=1), axis=0)
    single = SentenceEncoder.from_pretrained(path, layers=(1, 3), pooling=pooling, counts=counts)
    expected = single.encode(SENTENCES)
    np.testing.assert_allclose(averaged, expected, atol=1e-6)


def test_maximum_is_not_averaged() -> None:
    setting = (1, 3), make_pooling("max")
    assert single_layers(setting) == (setting,)


def test_names_stand_for_all_of_a_size() -> None:
    assert len(expand_layers(["singles", "pairs", "triples"], 6)) == 7 + 21 + 35
    assert expand_layers(["first_last", [3, 1], "last"], 3) == ((1, 3), (3,))


def test_pooler_reads_the_last_layer_alone() -> None:
    encoder = LayerwiseEncoder.from_pretrained("builtin-sample")
    with pytest.raises(UserError, match="allowed with cls_pooler: last"):
        encoder.select([((1,), make_pooling("cls_pooler"))])


@pytest.mark.parametrize("pooling", [*TOKEN_POOLINGS, *WEIGHTINGS])
@pytest.mark.parametrize("architecture", ["bert", "distilbert"])
def test_packed_sentences_give_the_same_vectors_of_every_setting(
    architecture: str, pooling: str, tmp_path: Path
) -> None:
    encoder = LayerwiseEncoder.from_pretrained(str(make_encoder(tmp_path, architecture)))
    of = make_pooling(pooling, encoder.tokenizer).with_counts(encoder.count_tokens(SENTENCES), encoder.tokenizer)
    encoder.select([((1,), of), ((3,), of), ((1, 3), of), ((0, 1, 2), of)])
    chunks = [encoder.tokenize(SENTENCES[:1]), encoder.tokenize(SENTENCES[1:])]
    padded = encoder.embed_chunks(chunks)
    assert padded.shape == (len(SENTENCES), 4 * encoder.layer_dim)
    with fast_training(encoder):
        assert encoder.packs
        torch.testing.assert_close(encoder.embed_chunks(chunks), padded, atol=2e-6, rtol=1e-5)
