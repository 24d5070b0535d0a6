"""Word space, lengths and frequencies whose values are known."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from flowbert.encoders import SentenceEncoder
from flowbert.extras.analysis import Sample
from flowbert.extras.analysis.isotropy import sentence_map
from flowbert.extras.analysis.word_space import buckets, layers, words
from flowbert.tasks.measures import mean_cosine

TEXTS = ["a dog runs", "a dog", "the cat sleeps in the park", "dog " * 500]


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder("builtin-sample")


def with_embeddings(x) -> Any:
    return SimpleNamespace(input_embeddings=x)


def test_buckets_of_words_on_a_line():
    # Words at 0, 1, 2, ...: the seven neighbours of one inside are at 1, 1, 2, 2, 3, 3, 4.
    x = torch.zeros(540, 3)
    x[:, 0] = torch.arange(540)
    measured = buckets(with_embeddings(x)).set_index("ranks")
    assert measured.index.tolist() == ["0 to 99", "100 to 499", "500 to 539"]
    assert measured["norm"].tolist() == [49.5, 299.5, 519.5]
    inner = measured.loc["100 to 499"]
    expected = {"distance_3": 4 / 3, "distance_5": 9 / 5, "distance_7": 16 / 7}
    assert inner[list(expected)].to_dict() == pytest.approx(expected)
    assert measured["distance_3"].iloc[0] > inner["distance_3"]
    assert buckets(with_embeddings(x[:7])).empty


def test_points_are_evenly_spaced_ranks_of_each_bucket():
    x = torch.diag(torch.tensor([9.0, 5.0])).repeat(500, 1)
    points = words(with_embeddings(x))
    expected = [*range(100), *range(100, 500, 2), *range(500, 1000, 3)]
    assert points["rank"].tolist() == expected
    assert points["ranks"].value_counts().to_dict() == {
        "0 to 99": 100,
        "100 to 499": 200,
        "500 to 999": 167,
    }
    assert points[["x", "y"]].abs().values[:2].ravel() == pytest.approx([9, 0, 0, 5])


def test_lengths_are_in_words_or_in_tokens_of_the_encoder(encoder):
    sample = Sample(["A dog.", "a bird", ""], {"raw": torch.eye(3)})
    drawn = sentence_map(sample)
    assert drawn["length"].tolist() == [3, 2, 0]  # the full stop is a word
    assert drawn["unit"].tolist() == ["words"] * 3
    drawn = sentence_map(replace(sample, encoder=encoder))
    assert drawn["length"].tolist() == encoder.lengths(sample.sentences)
    assert drawn["unit"].tolist() == ["tokens"] * 3


def test_cosines_by_layer_are_those_of_all_tokens(encoder):
    network, tokenizer = encoder.backbone.network, encoder.backbone.tokenizer
    states = []
    for text in TEXTS[:3]:
        features = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            hidden = network(**features, output_hidden_states=True).hidden_states
        states.append(torch.stack(hidden)[:, 0, 1:-1])
    expected = [mean_cosine(layer) for layer in torch.cat(states, dim=1)]
    for template in ("", "the big {}"):  # whose tokens are not of the sentences
        found = layers(Sample(TEXTS[:3], encoder=encoder.read(template=template)))
        assert found["layer"].tolist() == ["input", "0", "1", "2", "3", "4"]
        # Padding changes the order of float32 sums: some units of rounding in each layer.
        assert found["mean_cosine"][1:].tolist() == pytest.approx(expected, abs=1e-5)
    few = [
        layers(Sample(TEXTS[:3] * 30, encoder=encoder, tokens=10, seed=seed))
        for seed in (1, 1, 2)
    ]
    assert few[0].equals(few[1])
    assert not few[0].equals(few[2])


def test_tokens_of_a_sample_are_ranked_by_frequency(encoder):
    tokenizer = encoder.backbone.tokenizer
    embeddings = encoder.backbone.network.get_input_embeddings().weight.detach()
    rows = tokenizer(TEXTS, truncation=True, max_length=encoder.max_length)["input_ids"]
    counts = Counter(token for row in rows for token in row[1:-1])
    ranked = embeddings[sorted(counts, key=lambda token: (-counts[token], token))]
    found = Sample(TEXTS[:2], encoder=encoder, corpus=TEXTS).input_embeddings
    torch.testing.assert_close(found, ranked, rtol=0, atol=0)
