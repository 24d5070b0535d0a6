"""Cached vectors are those of what an encoder is now, and never come under another one's name."""

import json

import numpy as np
import pytest
import torch
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
    load_encoder,
)
from flowbert.extras.word_vectors import WordVectors
from flowbert.vectors import EmbeddingCache
from helpers import refused

# Some of the texts are cut on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:max_length. .* were cut")

MEAN = ("Pooling", {"pooling_mode_mean_tokens": True})
TEXTS = [*SENTENCES, "The CAT sleeps", "big " * 30]


def folder_of(kind):
    """How to make an encoder in a folder, anew with each call."""

    def bert(folder):
        return SentenceEncoder(folder, max_length=9)

    def words(folder):
        (folder / "words.txt").write_text("cat 1 2 3\ndog 3 1 1\n")
        return WordVectors(folder / "words.txt")

    def published(folder):
        return load_encoder(add_modules(folder, MEAN, DENSE))

    return {"bert": bert, "words": words, "published": published}[kind]


def weights(encoder):
    parameters = dict(encoder.backbone.network.named_parameters())
    weight = parameters["encoder.layer.0.output.dense.weight"]
    weight.detach().numpy()[:] *= 1.5  # behind torch's back


def configuration(encoder):
    network = tiny_network("bert", hidden_act="relu")
    network.load_state_dict(encoder.backbone.network.state_dict(), strict=False)
    encoder.backbone.network = network


def normalizer(encoder):
    backend = encoder.backbone.tokenizer.backend_tokenizer
    backend.normalizer = normalizers.Lowercase()


def side(encoder):
    encoder.backbone.tokenizer.truncation_side = "left"


def vectors(encoder):
    encoder.vectors[:] *= np.arange(1, 4)


def other_words(encoder):
    encoder.words["bird"] = encoder.words.pop("cat")


def token_weights(encoder):
    encoder.token_weights = torch.tensor([1.0, 3.0], dtype=torch.float64)


def last_module(encoder):
    next(encoder.model[2].parameters()).data.mul_(2)


CHANGES = [
    *(("bert", change) for change in (weights, configuration, normalizer, side)),
    *(("words", change) for change in (vectors, other_words, token_weights)),
    ("published", last_module),
]


def far(first, second):
    return bool(np.abs(first - second).max() > 10 * TOLERANCE)


@pytest.mark.filterwarnings("ignore:.*have no word with")
@pytest.mark.parametrize(("kind", "change"), CHANGES)
def test_cached_vectors_are_those_of_the_changed_encoder(
    kind, change, folder, tmp_path
):
    make = folder_of(kind)
    store, memory = tmp_path / "store", EmbeddingCache(folder=False)
    encoder = make(folder)
    plain = encoder.encode(TEXTS)
    # Half of the texts are stored before the change, and half after it.
    shared = EmbeddingCache(store)
    for cache in (shared, memory):
        cache.fill([encoder], TEXTS[::2])
    identity = encoder.identity
    change(encoder)
    direct = encoder.encode(TEXTS)
    assert far(direct, plain), "the change has an effect"
    for cache in (shared, EmbeddingCache(store), memory):
        assert_near(cache.rows(encoder, TEXTS)[:], direct)
    fresh = make(folder)
    assert fresh.identity == identity
    pair = [identity, json.loads(json.dumps(encoder.identity))]
    for saved, here in (pair, pair[::-1]):
        refused("map was fitted on", check_same_encoder, saved, here, "map")
    check_same_encoder(pair[1], encoder.identity, "map")
    for cache in (EmbeddingCache(store), memory):
        assert_near(cache.rows(fresh, TEXTS)[:], plain)


def test_files_that_change_after_loading_are_not_those_of_the_model(folder):
    add_modules(folder, MEAN, DENSE)
    encoder = load_encoder(folder)
    identity = encoder.identity
    add_modules(folder, MEAN, ("Dense", DENSE[1] | {"out_features": 5}))
    assert encoder.identity == identity
    assert load_encoder(folder).identity != identity
