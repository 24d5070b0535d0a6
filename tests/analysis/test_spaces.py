"""Word and sentence spaces whose figures are known."""

import math
from pathlib import Path

import pytest
import torch
from helpers.encoders import make_encoder

from flowbert import SentenceEncoder
from flowbert.analysis import principal_projection, sentence_space, word_buckets
from flowbert.analysis.token_space import cosine_by_layer
from flowbert.errors import FlowbertWarning


def test_buckets_by_frequency() -> None:
    """Words on a line at 0, 1, 2, ...: neighbours at distances 1, 1, 2, 2, ..., the ends aside."""
    count = 100
    x = torch.zeros(count, 3)
    x[:, 0] = torch.arange(count)
    counts = torch.arange(count, 0, -1)
    counts[90:] = 0  # never seen: no rank
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    first, second = word_buckets(x[shuffled], counts[shuffled], bounds=(0, 10, 80, 200), ks=(2,))[:2]
    assert (first.first, first.last, second.last) == (0, 10, 80)
    assert first.norm == pytest.approx(4.5)
    assert second.norm == pytest.approx(44.5)
    assert second.distance[2] == pytest.approx(1.0)
    assert first.distance[2] == pytest.approx(1.05)  # the word at 0 has its neighbours at 1 and 2
    assert second.product[2] == pytest.approx(sum(n * n for n in range(10, 80)) / 70)
    assert word_buckets(x[shuffled], counts[shuffled], bounds=(0, 10, 80, 200))[-1].last == 90


def test_equal_counts_are_ranked_by_number() -> None:
    x = torch.eye(20)
    assert word_buckets(x, torch.ones(20), bounds=(0, 5, 20), ks=(3,))[1].distance[3] == pytest.approx(math.sqrt(2))


def test_projection_is_that_of_the_singular_vectors() -> None:
    x = torch.randn(50, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 2
    u, s, _ = torch.linalg.svd(x, full_matrices=False)
    torch.testing.assert_close(principal_projection(x).abs(), (u[:, :2] * s[:2]).abs())


def test_a_hub_is_seen() -> None:
    x = torch.randn(300, 8, generator=torch.Generator().manual_seed(0)) * 0.3 + torch.eye(8)[0]
    around = sentence_space(x)
    centred = sentence_space(x - x.mean(dim=0))
    assert around.mean_cosine > 0.4 > abs(centred.mean_cosine)
    assert around.isoscore == pytest.approx(centred.isoscore)
    assert around.partition_isotropy < centred.partition_isotropy
    assert around.uniformity > centred.uniformity


def test_cosines_by_layer_are_those_of_evaluation_and_every_module_keeps_its_mode(tmp_path: Path) -> None:
    sentences = ["a cat runs", "the big dog sleeps on the mat", "a bird"] * 5
    folder = str(make_encoder(tmp_path))
    expected = cosine_by_layer(SentenceEncoder.from_pretrained(folder), sentences)
    encoder = SentenceEncoder.from_pretrained(folder, frozen=False)
    parts = [module for module in encoder.modules() if isinstance(module, torch.nn.Dropout) and module.p > 0]
    parts[0].eval()
    modes = {name: module.training for name, module in encoder.named_modules()}
    assert set(modes.values()) == {True, False}
    assert cosine_by_layer(encoder, sentences) == pytest.approx(expected)
    assert {name: module.training for name, module in encoder.named_modules()} == modes


def test_wrong_calls() -> None:
    with pytest.raises(ValueError, match=r"counts have the shape \(3,\); allowed: \(4,\)"):
        word_buckets(torch.eye(4), torch.ones(3))
    with pytest.raises(ValueError, match="no row"):
        sentence_space(torch.ones(0, 9))
    with pytest.warns(FlowbertWarning, match="hubness is NaN: 9 vectors; at least 11 are needed"):
        assert math.isnan(sentence_space(torch.eye(9)).hubness)
