"""Nearest neighbours against all distances."""

import numpy as np
import pytest
import torch

from flowbert.extras.analysis import Sample, neighbours
from flowbert.extras.analysis.neighbours import nearest_neighbours


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_all_distances_agree(metric):
    x = torch.randn(400, 5, dtype=torch.float64)
    if metric == "euclidean":
        x += 1000  # far from the origin, where products lose digits
        expected = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    else:
        unit = torch.nn.functional.normalize(x, dim=1)
        expected = 1 - unit @ unit.T
    expected.fill_diagonal_(torch.inf)
    distances, nearest = nearest_neighbours(x, 3, metric)
    np.testing.assert_allclose(distances, expected.topk(3, largest=False).values)
    np.testing.assert_array_equal(nearest, expected.topk(3, largest=False).indices)


def test_neighbours_that_moved(monkeypatch):
    monkeypatch.setattr(neighbours, "NEAREST", 2)
    monkeypatch.setattr(neighbours, "MEASURED", 1)
    angles = torch.deg2rad(torch.tensor([0.0, 10.0, 30.0, 60.0, 100.0]))
    raw = torch.stack([angles.cos(), angles.sin()], dim=1)
    vectors = {"raw": raw, "flow": raw[[0, 3, 1, 2, 4]]}
    frame = neighbours.neighbours(Sample([*"abcde"], vectors))
    columns = ["sentence", "method", "rank", "neighbour", "cosine", "moved"]
    assert frame[columns].values.tolist() == [
        ["a", "raw", 1, "b", 0.9848, False],
        ["a", "raw", 2, "c", 0.866, False],
        ["a", "flow", 1, "c", 0.9848, False],
        ["a", "flow", 2, "d", 0.866, True],
    ]
