"""The criterion of the adviser: its formula by brute force, its views, its resamples."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from flowbert.advice.criterion import Cosines, cosines, discriminability, merit, resamples, views_of


def vectors(seed: int, shape: tuple[int, int] = (40, 6)) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_cosines_are_those_of_the_whole_matrix() -> None:
    x, y = vectors(0), vectors(1)
    matrix = (normalize(x, dim=1) @ normalize(y, dim=1).T).numpy()
    others = matrix[~np.eye(40, dtype=bool)].reshape(40, 39)
    found = cosines(x.float(), y.float())
    np.testing.assert_allclose(found.own, matrix.diagonal(), atol=1e-6)
    np.testing.assert_allclose(found.mean, others.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(found.square, (others**2).mean(axis=1), atol=1e-6)


def test_discriminability_by_hand() -> None:
    x, y = vectors(0), vectors(0) + 0.3 * vectors(1)
    found = cosines(x, y)
    inside = np.sqrt((found.own.var() + (found.square - found.mean**2).mean()) / 2)
    assert discriminability(found)[0] == pytest.approx((found.own.mean() - found.mean.mean()) / inside)


def test_nearer_views_are_told_apart_better() -> None:
    x, noise = vectors(0), vectors(1)
    found = [float(discriminability(cosines(x, x + share * noise))[0]) for share in (0.1, 0.5, 1.0, 3.0)]
    assert found == sorted(found, reverse=True)
    assert abs(float(discriminability(cosines(x, vectors(2)))[0])) < 1  # views of nothing


def test_a_resample_that_draws_each_once_is_the_whole() -> None:
    found = cosines(vectors(0), vectors(0) + vectors(1))
    drawn = np.stack([np.ones(40), np.eye(40)[3] * 40])
    assert discriminability(found, drawn)[0] == pytest.approx(discriminability(found)[0])
    alone = Cosines(*(values[3:4] for values in found))
    assert discriminability(found, drawn)[1] == pytest.approx(discriminability(alone)[0])


def test_resamples_draw_as_many_as_there_are() -> None:
    drawn = resamples(50, 7, seed=3)
    assert (drawn.sum(axis=1) == 7).all()
    assert np.array_equal(drawn, resamples(50, 7, seed=3))
    assert not np.array_equal(drawn, resamples(50, 7, seed=4))


def test_views_lack_two_words_of_five() -> None:
    sentences = ["one two three four five", "a b", "alone"]
    views = views_of(sentences, seed=1)
    assert [len(view.split()) for view in views] == [3, 1, 1]
    for sentence, view in zip(sentences, views, strict=True):
        words = iter(sentence.split())
        assert all(word in words for word in view.split()), "in their order"
    assert views_of(sentences, seed=1) == views
    assert views_of(["x", *sentences], seed=1)[1:] != views or views_of(sentences, seed=2) != views


def test_both_kinds_of_views_count_and_none_counts_against() -> None:
    near, far = cosines(vectors(0), vectors(0) + vectors(1)), cosines(vectors(0), -vectors(0))
    alone = discriminability(near)
    assert merit([near, near])[0] == pytest.approx(2**0.5 * alone[0])
    assert discriminability(far)[0] < 0
    assert merit([near, far])[0] == pytest.approx(alone[0])
