"""Norms, lengths, frequencies and maps whose figures are known."""

import math
import sys
from types import ModuleType

import pytest
import torch

from flowbert import SentenceEncoder
from flowbert.analysis import SentenceTokens, corpus_map, norms, sentence_tokens
from flowbert.analysis.gaussianity import latent_shape
from flowbert.analysis.sentence_tokens import tokens_in, words_in
from flowbert.analysis.word_space import word_buckets, word_points
from flowbert.errors import UserError


def normal(count: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_norms_that_grow_with_the_length_alone() -> None:
    lengths = list(range(1, 201))
    frequencies = normal(200, 1)[:, 0].tolist()
    directions = torch.nn.functional.normalize(normal(200, 5), dim=1)
    x = directions * torch.tensor(lengths)[:, None] ** 2
    found = norms(x, SentenceTokens(lengths, frequencies, "words"))
    assert found.mean == pytest.approx(sum(n * n for n in lengths) / 200)
    assert found.with_length == pytest.approx(1)
    assert abs(found.with_frequency) < 0.2
    assert (
        norms(
            directions / x.norm(dim=1, keepdim=True), SentenceTokens(lengths, list(map(float, lengths)), "words")
        ).with_frequency
        < -0.99
    )


def test_norms_of_equal_sentences_have_no_correlation() -> None:
    found = norms(normal(9, 2), SentenceTokens([4] * 9, [1.0] * 9, "words"))
    assert math.isnan(found.with_length)
    assert math.isnan(found.with_frequency)
    with pytest.raises(ValueError, match="embeddings have 9 rows; allowed: 8, one for each sentence"):
        norms(normal(9, 2), SentenceTokens([4] * 8, [1.0] * 8, "words"))


def test_words_are_counted_in_the_corpus_and_measured_in_the_sentences() -> None:
    found = words_in(["A dog.", "a cat"], ["a dog", "A bird", "a fish", "x a"] * 25)
    assert found.lengths == [3, 2]  # the full stop is a word
    assert found.frequencies == pytest.approx([(2 + math.log10(25) + 0) / 3, (2 + 0) / 2])
    assert sentence_tokens([[]], {}, "words") == SentenceTokens([0], [0.0], "words")


def test_tokens_are_the_encoders_without_special_ones() -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample")
    texts = ["a dog runs", "a dog", "the cat sleeps in the park"]
    found = tokens_in(encoder, texts, texts * 10)
    assert found.unit == "tokens"
    assert [n + 2 for n in found.lengths] == encoder.lengths(texts)
    assert found.frequencies[1] == pytest.approx(math.log10(20))  # both words occur 20 times
    elsewhere = tokens_in(encoder, texts, ["a dog"] * 100)
    assert elsewhere.frequencies == pytest.approx([4 / elsewhere.lengths[0], 2, 0])


def test_pca_keeps_the_two_directions_of_the_largest_variance() -> None:
    rotation = torch.linalg.qr(normal(5, 5)).Q
    latent = normal(500, 5) * torch.tensor([0.1, 3.0, 0.2, 7.0, 0.1], dtype=torch.float64)
    found = corpus_map(latent @ rotation.T + 9)
    centred = latent - latent.mean(dim=0)
    for place, column in enumerate((3, 1)):
        correlation = torch.corrcoef(torch.stack([found[:, place], centred[:, column]]))[0, 1]
        assert abs(correlation) > 0.99
    assert found.mean(dim=0).abs().max() < 1e-9
    torch.testing.assert_close(corpus_map(latent @ rotation.T), found)


def test_unknown_and_absent_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"map: received 'pcs'; .*pca"):
        corpus_map(normal(9, 3), "pcs")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"map: received 'umap'.* pip install 'flowbert\[umap\]'"):
        corpus_map(normal(9, 3), "umap")


def test_umap_parts_what_is_apart() -> None:
    pytest.importorskip("umap", reason="umap-learn is not installed")
    x = normal(120, 6) * 0.1
    x[:60, 0] += 5
    x[60:, 1] += 5
    found = corpus_map(x, "umap")
    assert found.shape == (120, 2)
    torch.testing.assert_close(corpus_map(x, "umap"), found)
    near = torch.cdist(found, found).topk(4, largest=False).indices[:, 1:] < 60
    assert near[:60].all()
    assert not near[60:].any()


def test_umap_is_told_what_the_help_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorder:
        options: dict[str, object]

        def __init__(self, **options: object) -> None:
            Recorder.options = options

        def fit_transform(self, rows: object) -> object:
            return rows

    module = ModuleType("umap")
    module.UMAP = Recorder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "umap", module)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: module)
    corpus_map(normal(9, 2), "umap", seed=1)
    first = Recorder.options
    corpus_map(normal(9, 2), "umap", seed=2)
    assert first["metric"] == "cosine"
    assert first["random_state"] != Recorder.options["random_state"]


def test_the_shape_of_a_standard_normal_and_of_a_skewed_latent() -> None:
    z = normal(20_000, 16)
    z[:, 3] = z[:, 3].square()
    shape = latent_shape(z, bins=30)
    assert (shape.dim, sum(shape.counts)) == (16, 20_000)
    ratios = z.norm(dim=1) / 4
    assert (shape.low, shape.high) == pytest.approx((float(ratios.min()), float(ratios.max())))
    assert shape.skewness[3] == pytest.approx(8**0.5, abs=0.3)  # of chi-squared with one degree of freedom
    assert shape.excess_kurtosis[3] == pytest.approx(12, abs=4)
    others = [i for i in range(16) if i != 3]
    assert max(abs(shape.skewness[i]) for i in others) < 0.1
    assert max(abs(shape.excess_kurtosis[i]) for i in others) < 0.2
    assert len(latent_shape(normal(50, 600), dimensions=256).skewness) == 200
    with pytest.raises(ValueError, match="latents: received 1 rows"):
        latent_shape(normal(1, 3))


def test_points_of_words_are_those_of_their_ranks() -> None:
    x = torch.diag(torch.tensor([9.0, 5.0, 1.0, 1.0, 1.0, 1.0])).repeat(2, 1)
    buckets = word_buckets(x, torch.arange(12, 0, -1), bounds=(0, 2, 12), ks=(1,))
    found = word_points(x, buckets, each=5)
    assert [point.rank for point in found] == [0, 1, 2, 4, 6, 8, 10]
    assert [abs(value) for value in found[0][1:]] == pytest.approx([9, 0])
    assert [abs(value) for value in found[1][1:]] == pytest.approx([0, 5])
