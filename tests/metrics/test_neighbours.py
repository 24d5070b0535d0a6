"""Exact neighbours against every distance computed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.metrics import neighbours
from flowbert.metrics.neighbours import MEASURES, nearest_neighbours


def similarities(queries: torch.Tensor, x: torch.Tensor, measure: str) -> torch.Tensor:
    if measure == "euclidean":
        return -torch.cdist(queries, x)
    if measure == "dot":
        return queries @ x.T
    return torch.nn.functional.cosine_similarity(queries[:, None], x[None], dim=2)


@settings(max_examples=30, deadline=None)
@given(
    count=st.integers(3, 60),
    dim=st.integers(1, 9),
    measure=st.sampled_from(MEASURES),
    seed=st.integers(0, 5),
    block=st.sampled_from([50, 1 << 24]),
)
def test_all_distances_agree(count: int, dim: int, measure: str, seed: int, block: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, dim, generator=generator, dtype=torch.float64) + 100 * (measure == "euclidean")
    k = min(3, count - 1)
    similar = similarities(x, x, measure).fill_diagonal_(-torch.inf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_BLOCK_NUMBERS", block)
        found = nearest_neighbours(x, k, measure)
    torch.testing.assert_close(similar.gather(1, found), similar.topk(k).values, rtol=1e-4, atol=1e-5)


def test_wrong_calls() -> None:
    x = torch.eye(3)
    for k in (0, 3):
        with pytest.raises(ValueError, match=rf"k: received {k}; allowed: 1 to 2"):
            nearest_neighbours(x, k)
    with pytest.raises(ValueError, match="measure: received 'l1'; allowed: cosine, dot, euclidean"):
        nearest_neighbours(x, 1, "l1")
