"""Compositions: each step sees what the steps before it give, in blocks or at once."""

import pytest
import torch
from torch import Tensor

from flowbert.calibration import LearnedRemoval, RemoveDirections, Standardization, Whitening
from flowbert.errors import UserError
from flowbert.methods import Chain, LabelledPairs


def data(rows: int = 200, dim: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, dim, generator=generator) @ torch.randn(dim, dim, generator=generator) + 3


class Halve:
    """A step that is no calibration: it remembers what it was fitted on."""

    def __init__(self) -> None:
        self.seen: Tensor | None = None

    def fit(self, x: Tensor) -> None:
        self.seen = x

    def transform(self, x: Tensor) -> Tensor:
        return x / 2

    def output_dim(self, dim: int) -> int:
        return dim


def test_steps_are_fitted_on_mapped_rows() -> None:
    x = data()
    first, last = Whitening(n_components=3), Halve()
    chain = Chain([first, last]).fit(x)
    assert last.seen is not None
    torch.testing.assert_close(last.seen, Whitening(n_components=3).fit(x).transform(x))
    torch.testing.assert_close(chain.transform(x), last.seen / 2)


def test_blocks_give_what_all_rows_give() -> None:
    x = data()
    whole = Chain([Standardization(), Whitening()]).fit(x).transform(x)
    parts = Chain([Standardization(), Whitening()]).fit_blocks(lambda: torch.split(x, 37)).transform(x)
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-5)


def test_fitting_again_forgets() -> None:
    x = data()
    chain = Chain([Whitening()]).fit(x * 9 + 5)
    torch.testing.assert_close(chain.fit(x).transform(x), Whitening().fit(x).transform(x))


def test_labelled_pairs_are_mapped_too() -> None:
    x = data()
    pairs = LabelledPairs(x[:50], x[50:100], torch.cosine_similarity(x[:50], x[50:100]))
    chain = Chain([Whitening(n_components=4), LearnedRemoval(2)])
    assert chain.supervised
    mapped = Whitening(n_components=4).fit(x)
    expected = LearnedRemoval(2).fit(mapped.transform(x))
    expected.fit_pairs(mapped.transform(pairs.left), mapped.transform(pairs.right), pairs.scores)
    torch.testing.assert_close(chain.fit(x, pairs).transform(x), expected.transform(mapped.transform(x)))


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="no step"):
        Chain([])
    with pytest.raises(UserError, match="supervised and has no labelled pairs"):
        Chain([LearnedRemoval()]).fit(data())


def test_sizes_are_checked_before_anything_is_fitted() -> None:
    assert Chain([Whitening(n_components=3), Standardization()]).output_dim(8) == 3
    for steps in (
        [Whitening(n_components=9)],
        [Whitening(n_components=4), Whitening(n_components=5)],
        [Whitening(n_components=4), RemoveDirections(4)],
        [Whitening(n_components=4), LearnedRemoval(5)],
    ):
        with pytest.raises(UserError, match=r"received \d; allowed: 1 to \d"):
            Chain(steps).output_dim(8)
