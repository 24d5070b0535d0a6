"""Poolings against their formulas, on vectors of a network and of tokens drawn at random."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from encoders.tiny import (
    SENTENCES,
    TOLERANCE,
    assert_near,
    states_of,
    tiny_network,
    word_tokenizer,
)
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.backbone import Backbone
from flowbert.encoders.encoder import encode_counted
from flowbert.encoders.layers import average_layers
from flowbert.encoders.pooling import (
    POOLINGS,
    Pooling,
    make_pooling,
)
from flowbert.extras.token_weights import rank_tokens
from flowbert.vectors import EmbeddingCache
from helpers import refused

CORPUS = [
    "the cat sleeps",
    "the dog runs on the mat",
    "the bird",
]  # 11 words, 4 times "the"
LENGTHS = [5, 1, 3]


def batch():
    """Token vectors with NaN in padding, mask, ids."""
    mask = torch.arange(5) < torch.tensor(LENGTHS)[:, None]
    tokens = torch.randn(3, 5, 4).masked_fill(~mask[..., None], torch.nan)
    return tokens, mask.long(), torch.full((3, 5), 7)


FORMULAS = {
    "mean": lambda x: x.sum(0) / len(x),
    "mean:unit=true": lambda x: nn.functional.normalize(x).mean(0),
    "cls": lambda x: x[0],
    "max": lambda x: torch.stack([row.max() for row in x.T]),
    "position_mean": lambda x: (
        torch.arange(1.0, len(x) + 1) @ x / (len(x) * (len(x) + 1) / 2)
    ),
    "last_token": lambda x: x[-1],
}


@pytest.mark.parametrize("text", FORMULAS)
def test_formula_over_real_tokens(text):
    tokens, mask, ids = batch()
    pooled = make_pooling(text).pool(tokens, mask.bool(), ids)
    for row, length, vector in zip(tokens, LENGTHS, pooled, strict=True):
        torch.testing.assert_close(vector, FORMULAS[text](row[:length]))


@pytest.mark.parametrize("text", sorted({*POOLINGS, *FORMULAS} - {"cls_pooler"}))
def test_linear_poolings_commute_with_the_average_of_layers(text, bert):
    encoder = bert.read(pooling=text, count_over=CORPUS)
    features = encoder.tokenize(SENTENCES)
    with torch.no_grad():
        states = encoder.backbone(features).hidden_states
    arguments = features["attention_mask"].bool(), features["input_ids"]
    before = encoder.pooling.pool(average_layers(states, (0, 2, 3)), *arguments)
    parts = [encoder.pooling.pool(states[layer], *arguments) for layer in (0, 2, 3)]
    equal = torch.allclose(before, torch.stack(parts).mean(0), atol=TOLERANCE)
    assert equal == encoder.pooling.linear


def weights_by_hand(text):
    """Weights of four words; "sits" is unknown text, "not" is in no sentence."""
    if text == "idf":
        return {"the": 0.0, "cat": np.log(4 / 2), "not": np.log(4), "sits": np.log(4)}
    if text == "sif:a=0.01":
        the, cat = (0.01 / (0.01 + count / 11) for count in (4, 1))
        return {"the": the, "cat": cat, "not": 1.0, "sits": 1.0}
    # Words longer than one character rank by id, and unknown text after the 15 of them.
    harmonic = sum(1 / rank for rank in range(1, 16))
    ranks = {"the": 1, "cat": 2, "not": 11, "sits": 15}
    return {word: 0.02 / (0.02 + 1 / (rank * harmonic)) for word, rank in ranks.items()}


@pytest.mark.parametrize("cls", [0.0, 2.5])
@pytest.mark.parametrize("text", ["idf", "sif:a=0.01", "zipf:a=0.02"])
def test_token_weights_by_hand(text, cls, bert, tiny):
    option = f":cls={cls}" if cls else ""
    encoder = bert.read(pooling=text + option, count_over=CORPUS)
    by_word = weights_by_hand(text)
    sentence = "the cat sits not"
    weights = np.array([cls, *(by_word[word] for word in sentence.split()), 0.0])
    ids = encoder.tokenize([sentence])["input_ids"][0]
    assert encoder.token_weights is not None
    assert_allclose(encoder.token_weights[ids], weights, rtol=2.0**-23)
    expected = weights @ states_of(tiny("bert"), sentence)[-1] / weights.sum()
    assert_near(encoder.encode([sentence])[0], expected)


@pytest.mark.parametrize("text", ["idf", "sif", "zipf"])
def test_a_sentence_of_weight_zero_gets_its_plain_mean(text, bert):
    encoder = bert.read(pooling=text, count_over=["the the", "the"])
    sentences = ["", "the"] if text == "idf" else [""]
    plain = bert.encode(sentences)
    assert_near(encoder.encode(sentences), plain)


@pytest.mark.parametrize("prefix", ["", "##", "\u0120", "\u2581"])
def test_ranks_in_every_kind_of_vocabulary(prefix):
    words = [f"{prefix}{word}" for word in ("the", "of", "2nd")]
    others = ["[CLS]", "<0x0A>", "...", "'s", "a", f"{prefix}s", "", None]
    ranks = rank_tokens([*others, "<unk>", *words, "?"], "<unk>").tolist()
    assert ranks == [1.0] * len(others) + [3.0, 1.0, 2.0, 3.0, 1.0]


def test_wrong_poolings():
    refused("a: received 0", make_pooling, "sif:a=0")
    refused("cls: received True", make_pooling, "zipf:cls=true")
    decoder = Backbone(tiny_network("gpt2"), word_tokenizer(decoder=True))
    options = {"pooling": "zipf:cls=2", "sink_token": "", "max_length": 9}
    refused("cls=2", SentenceEncoder, decoder, **options)


def learning(bert):
    """An encoder whose token weights are those of a training."""
    encoder = SentenceEncoder(bert.backbone, pooling="learned_weights", frozen=False)
    factors = encoder.log_token_factors
    assert factors is not None
    factors.weight.data = torch.randn(factors.weight.shape)
    return encoder


def test_learned_weights_begin_as_the_mean(bert):
    for frozen in (True, False):
        encoder = SentenceEncoder(
            bert.backbone, pooling="learned_weights", frozen=frozen
        )
        assert (encoder.log_token_factors is None) == frozen
        vectors = encoder.encode(SENTENCES)
        assert_near(vectors, bert.encode(SENTENCES))


def test_learned_weights_by_hand(bert, tiny):
    encoder = learning(bert)
    factors = encoder.log_token_factors
    assert factors is not None
    features = encoder.tokenize(["the cat sits not"])
    weights = factors(features["input_ids"][0]).detach().squeeze(1).exp().numpy()
    states = states_of(tiny("bert"), "the cat sits not")[-1]
    expected = weights @ states / weights.sum()
    vector = encoder(features)
    assert_near(vector[0].detach(), expected)
    (gradient,) = torch.autograd.grad(vector[0, 0], factors.weight)
    used = torch.zeros(len(gradient), dtype=torch.bool)
    used[features["input_ids"]] = True
    assert gradient[~used].abs().max() == 0 < gradient[used].abs().min()


@pytest.mark.parametrize("text", ["idf", "sif:a=0.01", "learned_weights"])
def test_saved_weights_are_those_of_all_variants(text, bert, tmp_path):
    if text == "learned_weights":
        encoder = learning(bert)
    else:
        encoder = bert.read(pooling=text, count_over=CORPUS)
    encoder.save(tmp_path / "saved")
    saved = SentenceEncoder(tmp_path / "saved")
    assert saved.identity["token_weights"] == encoder.identity["token_weights"]
    expected = saved.encode(SENTENCES)
    assert_array_equal(encoder.encode(SENTENCES), expected)
    # A further training begins with them.
    further = SentenceEncoder(tmp_path / "saved", frozen=False)
    assert_array_equal(further.encode(SENTENCES), expected)
    opened = SentenceEncoder(tmp_path / "saved", pooling="mean")
    found = opened.read(pooling=text, count_over=["a big dog"])
    assert_array_equal(found.encode(SENTENCES), expected)
    # Another option is another pooling.
    other = opened.read(pooling="sif:a=0.5", count_over=["a big dog"])
    assert other.identity["token_weights"] != saved.identity["token_weights"]


class MeanAndMax(Pooling):
    """Mean and maximum side by side: vectors of another size than the tokens."""

    def pool(self, tokens, mask, ids):
        """One vector per sentence, ``(B, 2 D)``."""
        parts = [make_pooling(name).pool(tokens, mask, ids) for name in ("mean", "max")]
        return torch.cat(parts, dim=1)


def test_vectors_of_another_size_than_the_tokens(bert):
    texts = [f"{__name__}.MeanAndMax", "mean", "max"]
    variants = [bert.read(pooling=text) for text in texts]
    both = variants[0]
    assert both.dim == 2 * bert.dim
    together = encode_counted(variants, SENTENCES)
    assert_array_equal(together[0], np.concatenate(together[1:], axis=1))
    for variant, vectors in zip(variants, together, strict=True):
        assert_array_equal(variant.encode(SENTENCES), vectors)
    rows = EmbeddingCache(folder=False).rows(both, SENTENCES)
    # Sentences in another order: sums of float32 in another order.
    assert_near(rows[:], together[0])


def test_vectors_of_a_wrong_shape(bert, monkeypatch):
    monkeypatch.setattr(MeanAndMax, "pool", lambda _, tokens, *__: tokens)
    message = r"^pooling: received .*MeanAndMax, .*; expected \(2, k\)"
    refused(message, bert.read, pooling=f"{__name__}.MeanAndMax")
