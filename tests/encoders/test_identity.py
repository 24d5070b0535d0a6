"""Cached vectors are those of what an encoder is now, and never come under another one's name."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from tokenizers import normalizers

from encoders.tiny import (
    DENSE,
    SENTENCES,
    TOLERANCE,
    add_modules,
    assert_near,
    tiny_network,
)
from flowbert.encoders import (
    SentenceEncoder,
    check_same_encoder,
    digests_reused,
    load_encoder,
)
from flowbert.extras.word_vectors import WordVectors
from flowbert.vectors import EmbeddingCache
from helpers import refused

# Some of the texts are cut on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:sentences. some are longer")

TEXTS = [*SENTENCES, "The CAT sleeps", "big " * 30]


def other_configuration(encoder):
    network = tiny_network("bert", hidden_act="relu")
    network.load_state_dict(encoder.backbone.network.state_dict(), strict=False)
    encoder.backbone.network = network


def weights(encoder):
    parameters = dict(encoder.backbone.network.named_parameters())
    weight = parameters["encoder.layer.0.output.dense.weight"]
    weight.detach().numpy()[:] *= 1.5  # behind torch's back


def other_normalizer(encoder):
    backend = encoder.backbone.tokenizer.backend_tokenizer
    backend.normalizer = normalizers.Lowercase()


def other_side(encoder):
    encoder.backbone.tokenizer.truncation_side = "left"


def far(first, second):
    return bool(np.abs(first - second).max() > 10 * TOLERANCE)


@pytest.mark.parametrize(
    "change", [weights, other_configuration, other_normalizer, other_side]
)
def test_cached_vectors_are_those_of_the_changed_encoder(change, folder, tmp_path):
    store, memory = tmp_path / "store", EmbeddingCache(folder=False)
    encoder = SentenceEncoder(folder, max_length=9)
    plain = encoder.encode(TEXTS)
    # Half of the texts are stored before the change, and half after it.
    for cache in (EmbeddingCache(store), memory):
        cache.fill([encoder], TEXTS[::2])
    identity = encoder.identity
    shared = EmbeddingCache(store)
    shared.fill([encoder], [])
    change(encoder)
    direct = encoder.encode(TEXTS)
    assert far(direct, plain), "the change has an effect"
    for cache in (shared, EmbeddingCache(store), memory):
        assert_near(cache.rows(encoder, TEXTS)[:], direct)
    fresh = SentenceEncoder(folder, max_length=9)
    assert fresh.identity == identity
    pair = [identity, json.loads(json.dumps(encoder.identity))]
    for saved, here in (pair, pair[::-1]):
        refused("map was fitted on", check_same_encoder, saved, here, "map")
    check_same_encoder(pair[1], encoder.identity, "map")
    for cache in (EmbeddingCache(store), memory):
        assert_near(cache.rows(fresh, TEXTS)[:], plain)


def words_in_place(encoder):
    encoder.vectors[:] *= np.arange(1, 4)


def other_words(encoder):
    encoder.words["bird"] = encoder.words.pop("cat")


def other_weights(encoder):
    encoder.token_weights = torch.tensor([1.0, 3.0], dtype=torch.float64)


@pytest.mark.parametrize("change", [words_in_place, other_words, other_weights])
def test_changed_word_vectors(change, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("cat 1 2 3\ndog 3 1 1\n")
    texts = ["cat dog dog", "cat", "dog"]
    cache = EmbeddingCache(tmp_path / "store")
    encoder = WordVectors(path)
    plain = cache.rows(encoder, texts)[:]
    change(encoder)
    with pytest.warns() if change is other_words else digests_reused():
        direct = encoder.encode(texts)
        assert far(direct, plain)
        assert_array_equal(cache.rows(encoder, texts)[:], direct)
    fresh = WordVectors(path)
    assert_array_equal(cache.rows(fresh, texts)[:], plain)


def test_a_changed_folder_of_sentence_transformers(folder, tmp_path):
    pooling = ("Pooling", {"pooling_mode_mean_tokens": True})
    add_modules(folder, pooling, DENSE)
    cache = EmbeddingCache(tmp_path / "store")
    encoder: Any = load_encoder(folder)
    plain = cache.rows(encoder, SENTENCES)[:]
    assert load_encoder(folder).identity == encoder.identity
    next(encoder.model[2].parameters()).data.mul_(2)
    direct = encoder.encode(SENTENCES)
    assert far(direct, plain)
    assert_near(cache.rows(encoder, SENTENCES)[:], direct)
    fresh = EmbeddingCache(tmp_path / "store").rows(load_encoder(folder), SENTENCES)[:]
    assert_near(fresh, plain)


def test_files_that_change_after_loading_are_not_those_of_the_model(folder):
    add_modules(folder, ("Pooling", {}), DENSE)
    encoder = load_encoder(folder)
    identity = encoder.identity
    add_modules(folder, ("Pooling", {}), ("Dense", DENSE[1] | {"out_features": 5}))
    assert encoder.identity == identity
    assert load_encoder(folder).identity != identity
