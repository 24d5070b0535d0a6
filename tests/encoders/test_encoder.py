"""The encoder against transformers alone, and what must not change a vector."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from encoders.tiny import (
    CONFIGS,
    SENTENCES,
    TOLERANCE,
    WORDS,
    assert_near,
    states_of,
    tiny_network,
    word_tokenizer,
)
from flowbert.encoders import (
    POOLINGS,
    SentenceEncoder,
    check_same_encoder,
)
from flowbert.encoders.backbone import Backbone
from flowbert.encoders.encoder import encode_counted
from flowbert.model import Model
from flowbert.vectors import EmbeddingCache
from helpers import refused, warned


def sentences(count, seed=0):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(0, 40))) for _ in range(count)]


# --------------------------------------------------------------- equal to transformers


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_kind_of_network_gives_the_states_of_transformers(kind, tiny):
    encoder = SentenceEncoder(tiny(kind), layers="first_last", sink_token="")
    assert (encoder.dim, encoder.layers) == (16, (1, encoder.num_layers))
    vectors = encoder.encode(SENTENCES)  # one padded batch
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        states = states_of(tiny(kind), sentence)
        expected = (states[1] + states[-1]).mean(axis=0) / 2
        assert_near(vector, expected)


# ------------------------------------------------------------- what changes no vector


@pytest.mark.filterwarnings("ignore:max_length. .* were cut")
@pytest.mark.parametrize("pooling", POOLINGS)
def test_neither_order_nor_batches_change_a_vector(pooling, tiny):
    texts = sentences(12)
    encoder = SentenceEncoder(
        tiny("bert"), pooling=pooling, max_length=32, count_over=texts
    )
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    for tokens in (60, 400, 10**6):
        together = encoder.embed(texts, batch_tokens=tokens)
        assert_near(together, alone)
    order = random.Random(1).sample(range(12), 12)
    shuffled = encoder.embed([texts[i] for i in order], batch_tokens=100)
    assert np.array_equal(shuffled, encoder.embed(texts, batch_tokens=100)[order])
    distances = np.abs(alone[:, None] - alone).max(axis=2)
    assert np.median(distances) > 100 * TOLERANCE, "the network tells sentences apart"


def test_one_pass_gives_the_vectors_of_each_variant(tiny):
    base = SentenceEncoder(tiny("bert"))
    layers = itertools.cycle([(0,), (1, 3), (3, 1, 2), (3,)])
    settings: list[dict[str, Any]] = [
        {"layers": next(layers), "pooling": text, "count_over": SENTENCES}
        for text in POOLINGS
        if text != "cls_pooler"
    ]
    variants = [base.read(**each) for each in settings]
    for each, variant, vectors in zip(
        settings, variants, encode_counted(variants, SENTENCES), strict=True
    ):
        single = SentenceEncoder(tiny("bert"), **each)
        assert_near(vectors, single.encode(SENTENCES))
        assert variant.identity == single.identity


# ------------------------------------------------------------------- frozen or trained


def test_frozen_stays_frozen(tiny):
    encoder = SentenceEncoder(tiny("bert"))
    owner = nn.Sequential(encoder).train()
    assert not any(module.training for module in encoder.backbone.modules())
    assert not any(parameter.requires_grad for parameter in owner.parameters())
    features = encoder.tokenize(SENTENCES)
    plain = encoder(features)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(encoder(features), plain)
        assert_near(encoder.encode(SENTENCES), plain)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_unfrozen_trains(pooling, tiny):
    encoder = SentenceEncoder(
        tiny("bert"), pooling=pooling, frozen=False, count_over=SENTENCES
    )
    features = encoder.tokenize(["the cat sleeps"] * 2)
    first, second = encoder(features)
    assert not torch.equal(first, second), "dropout is on"
    first.sum().backward()
    # A parameter without gradient would stop distributed training.
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    first, second = encoder.encode(["the cat sleeps"] * 2)
    assert_allclose(first, second, atol=TOLERANCE, err_msg="dropout is off")
    assert all(module.training for module in encoder.modules())


# -------------------------------------------------------------------------- identities


def test_threads_share_evaluation_mode(tiny):
    encoder = SentenceEncoder(tiny("bert"), frozen=False)
    texts = ["the cat", "a dog on the mat"]
    expected = encoder.encode(texts)
    entered, leave = Event(), Event()

    def enter_first():
        with encoder.backbone.evaluating():
            entered.set()
            assert leave.wait(30)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(enter_first)
        assert entered.wait(30)
        with encoder.backbone.evaluating():
            leave.set()
            first.result()
            assert not encoder.backbone.training
            assert np.array_equal(encoder.encode(texts), expected)
    assert encoder.backbone.training


def test_the_identity_names_what_decides_the_vectors(folder, tmp_path):
    encoder = SentenceEncoder(folder)
    moved = folder.rename(tmp_path / "moved")
    again = SentenceEncoder(moved, layers=[3])
    assert again.identity == encoder.identity
    check_same_encoder(encoder.identity, again.identity, "map")
    others: list[dict[str, Any]] = [
        {},
        {"pooling": "idf", "token_weights": torch.ones(21)},
        {"pooling": "idf", "token_weights": torch.arange(21.0)},
        {"dtype": "float16"},
    ]
    identities = [SentenceEncoder(moved, **each).identity for each in others]
    for number, identity in enumerate(identities):
        assert identity not in identities[:number]
        if number:
            refused("in run", check_same_encoder, identities[0], identity, "in run")


# ------------------------------------------------------------------- tokens and lengths


def test_cut_sentences_are_told_wherever_they_are_encoded(bert):
    short = bert.read(max_length=6)
    texts = ["", "the cat sleeps", "the cat sleeps on the mat"]
    assert bert.lengths(texts) == [2, 5, 8]
    assert short.lengths(texts) == [2, 5, 6]
    features = short.tokenize(texts)
    assert features["attention_mask"].sum(dim=1).tolist() == [2, 5, 6]
    assert features["input_ids"][2, -1] == short.backbone.tokenizer.sep_token_id
    short.encode(texts[:2])
    fill = partial(EmbeddingCache(folder=False).fill, [short])
    for encode in (short.encode, Model(short).encode, fill):
        with warned("max_length: 1 of 3 sentences were cut to 6 tokens"):
            encode(texts)


@pytest.mark.filterwarnings("ignore:max_length. .* were cut")
@pytest.mark.parametrize(
    ("kind", "longest"),
    [
        ("bert", 150),
        ("roberta", 149),
        ("mpnet", 148),
        ("distilbert", 512),
        ("llama", 150),
        ("deberta-v2", 150),
    ],
)
def test_the_longest_sentence_fits(kind, longest, tiny):
    encoder = SentenceEncoder(tiny(kind), max_length=0)
    assert encoder.lengths(["cat " * 600]) == [longest]
    assert np.isfinite(encoder.encode(["cat " * 600])).all()
    refused(f"max_length: received {longest + 1}", encoder.read, max_length=longest + 1)


@pytest.mark.parametrize(
    ("kind", "positions", "length"),
    [("bert", 150, 128), ("llama", 150, 150), ("llama", 8192, 512)],
)
def test_the_usual_length_of_decoders_is_512(kind, positions, length):
    tokenizer = word_tokenizer(decoder=kind == "llama")
    tokenizer.pad_token = "[SEP]"
    network = tiny_network(kind, max_position_embeddings=positions)
    assert SentenceEncoder(Backbone(network, tokenizer)).max_length == length


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_readings_share_a_tokenizer_between_threads(kind, tiny):
    encoders = [
        SentenceEncoder(tiny(kind), max_length=60).read(max_length=length)
        for length in (60, 6, 9, 60)
    ]
    for encoder in encoders[1:]:
        encoder.backbone.tokenizer = encoders[0].backbone.tokenizer
    texts = [f"the {text}" for text in sentences(40)]
    expected = [encoder.lengths(texts) for encoder in encoders]

    def repeat(encoder):
        return [encoder.lengths(texts) for _ in range(20)]

    with ThreadPoolExecutor() as pool:
        for lengths, found in zip(expected, pool.map(repeat, encoders), strict=True):
            assert found == [lengths] * 20


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", ["bert", "roberta", "llama"])
def test_a_cut_is_that_of_the_tokenizer(kind, side, tiny):
    """Special tokens stay; those in a sentence are cut as other words."""
    encoder = SentenceEncoder(tiny(kind), sink_token="")
    tokenizer = encoder.backbone.tokenizer
    tokenizer.truncation_side = side
    texts = [
        "the cat [SEP] sleeps [MASK] on the mat",
        "[SEP] [CLS] [SEP] [SEP] dog cat",
    ]
    for length in range(3, 11):
        expected = tokenizer(texts, truncation=True, max_length=length)
        rows = list(encoder.read(max_length=length).tokenization.rows(texts))
        assert [row["input_ids"] for row in rows] == expected["input_ids"]


# --------------------------------------------------------------------------- precision


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype, tiny):
    encoder = SentenceEncoder(tiny("bert"), dtype=dtype)
    texts = sentences(100)
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.float32
    full = SentenceEncoder(tiny("bert")).encode(texts)
    lengths = np.linalg.norm(full, axis=1) * np.linalg.norm(vectors, axis=1)
    cosines = (full * vectors).sum(1) / lengths
    # Relative errors of some 20 roundings one after another add up to an angle, whose cosine is
    # 1 - angle ** 2 / 2.
    assert cosines.min() > 1 - (20 * 2.0**-8) ** 2 / 2


def test_a_vector_that_is_not_finite_is_an_error(tiny):
    encoder = SentenceEncoder(tiny("bert"))
    with torch.no_grad():
        next(encoder.parameters())[word_tokenizer().get_vocab()["cat"]] = torch.nan
    message = "'the cat' is not finite; .*finite weights"
    refused(message, encoder.encode, ["dog", "the cat", "a bird"])


# -------------------------------------------------------------------------- bad inputs


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": "first_last", "pooling": "cls_pooler"}, "^pooling: .*layers last"),
        ({"max_length": 2}, "^max_length: .*received 2"),
        ({"dtype": "float23"}, "^dtype: .*did you mean 'float32'"),
        ({"pooling": "sif", "count_over": []}, "^pooling: .*without sentences"),
    ],
)
def test_wrong_settings(settings, message, tiny):
    refused(message, SentenceEncoder, tiny("bert"), **settings)


def test_no_and_wrong_sentences(bert, tiny):
    assert bert.lengths([]) == []
    refused("''", SentenceEncoder(tiny("gpt2")).encode, ["cat", ""])


def test_a_model_of_double_precision_is_loaded_again(tiny, tmp_path):
    encoder = SentenceEncoder(tiny("bert")).double()
    Model(encoder).save(tmp_path / "model")
    loaded = Model.load(tmp_path)
    assert loaded.encoder.identity == encoder.identity
    assert np.array_equal(loaded.encode(SENTENCES), encoder.encode(SENTENCES))
