"""Weighted removal: its gradient, what it learns, and the contract of the calibrations."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad
from torch import Tensor

from flowbert.calibration.base import Calibration, NotFittedError
from flowbert.calibration.learned_removal import Floats, LearnedRemoval, _Pairs
from flowbert.calibration.removal import RemoveDirections
from flowbert.errors import UserError
from flowbert.methods import Chain
from flowbert.progress import Step, shown


def pairs(seed: int = 0, size: int = 300, dim: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs whose score is the cosine of what the first two, loudest dimensions do not hold."""
    generator = torch.Generator().manual_seed(seed)
    x1, x2 = torch.randn(2, size, dim, generator=generator, dtype=torch.float64)
    x2 = x2 + x1 * torch.rand(size, 1, generator=generator, dtype=torch.float64) * 3
    scores = torch.cosine_similarity(x1[:, 2:], x2[:, 2:])
    loud = torch.tensor([20.0, 10.0] + [1.0] * (dim - 2), dtype=torch.float64)
    return x1 * loud + 5, x2 * loud + 5, scores


def correlation(calibration: Calibration, x1: Tensor, x2: Tensor, scores: Tensor) -> float:
    y1, y2 = (calibration.transform(x, dtype=torch.float64) for x in (x1, x2))
    cosine = torch.cosine_similarity(y1, y2)
    return float(np.corrcoef(cosine, scores)[0, 1])


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_gradient_equals_finite_differences(penalty: float) -> None:
    x1, x2, scores = pairs(size=40)
    directions = torch.linalg.qr(torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64))[0]
    problem = _Pairs(x1, x2, directions, scores.numpy())
    start = np.array([0.1, -0.4, 0.7, 0.0])

    def value(weights: Floats) -> float:
        return problem.loss(weights, penalty)[0]

    def gradient(weights: Floats) -> Floats:
        return problem.loss(weights, penalty)[1]

    assert check_grad(value, gradient, start) < 1e-6
    assert np.linalg.norm(problem.loss(start, penalty)[1]) > 1e-2


@pytest.mark.parametrize("center", [True, False])
def test_the_formula_of_the_paper(center: bool) -> None:
    x1, x2, scores = pairs()
    found = LearnedRemoval(3, center=center).fit_pairs(x1, x2, scores)
    rows = torch.cat([x1, x2])
    mean = rows.mean(dim=0) if center else torch.zeros(6, dtype=torch.float64)
    _, vectors = torch.linalg.eigh((rows - mean).T @ (rows - mean))
    u = vectors.flip(1)[:, :3]
    expected = (x1 - mean) - (x1 - mean) @ u @ torch.diag(found.weights) @ u.T
    torch.testing.assert_close(found.transform(x1, dtype=torch.float64), expected)


def test_it_learns_to_null_what_only_disturbs() -> None:
    x1, x2, scores = pairs()
    found = LearnedRemoval(2).fit_pairs(x1, x2, scores)
    assert found.weights.tolist() == pytest.approx([1, 1], abs=0.1)
    held_out = pairs(seed=1)
    assert correlation(found, *held_out) > 0.95
    assert correlation(found, *held_out) > correlation(RemoveDirections(1).fit(torch.cat([x1, x2])), *held_out) + 0.1


def test_scale_of_the_scores_plays_no_role_and_the_penalty_shrinks() -> None:
    x1, x2, scores = pairs()
    weights = LearnedRemoval(4).fit_pairs(x1, x2, scores).weights
    torch.testing.assert_close(LearnedRemoval(4).fit_pairs(x1, x2, 5 * scores + 2).weights, weights)
    assert LearnedRemoval(4, penalty=1.0).fit_pairs(x1, x2, scores).weights.norm() < 0.8 * weights.norm()


def test_directions_come_from_the_rows_seen_before() -> None:
    x1, x2, scores = pairs()
    corpus = torch.randn(500, 6, generator=torch.Generator().manual_seed(3)) * torch.tensor([1.0, 1, 1, 1, 1, 30])
    found = LearnedRemoval(1).fit(corpus).fit_pairs(x1, x2, scores)
    in_parts = LearnedRemoval(1).partial_fit(corpus[:100]).partial_fit(corpus[100:]).fit_pairs(x1, x2, scores)
    merged = LearnedRemoval(1).partial_fit(corpus[:100])
    merged.merge(LearnedRemoval(1).partial_fit(corpus[100:])).fit_pairs(x1, x2, scores)
    for other in (in_parts, merged):
        torch.testing.assert_close(other.transform(x1), found.transform(x1))
    moved = found.transform(x1, dtype=torch.float64) - (x1 - corpus.double().mean(dim=0))
    assert (moved[:, :5].abs().mean() < 0.2 * moved[:, 5].abs().mean()).item()


def test_supervised_and_not_fitted_without_labels() -> None:
    x1, x2, scores = pairs()
    found = LearnedRemoval(2)
    assert Chain([found]).supervised
    assert not found.fit(x1).fitted
    assert found.state_dict() == {}
    with pytest.raises(NotFittedError, match="LearnedRemoval is not fitted: call fit_pairs with labelled pairs"):
        found.transform(x1)
    assert found.fit_pairs(x1, x2, scores).fitted
    assert not found.partial_fit(x2).fitted
    with pytest.raises(NotFittedError, match="LearnedRemoval is not fitted"):
        found.reset().transform(x1)


def test_saved_and_loaded(tmp_path: Path) -> None:
    x1, x2, scores = pairs()
    found = LearnedRemoval(3, penalty=0.1).fit_pairs(x1, x2, scores)
    loaded = Calibration.load(found.save(tmp_path / "removal.safetensors"))
    assert isinstance(loaded, LearnedRemoval)
    assert loaded.config == {"n_directions": 3, "penalty": 0.1, "center": True}
    torch.testing.assert_close(loaded.transform(x1), found.transform(x1), atol=0, rtol=0)
    torch.testing.assert_close(loaded.weights, found.weights)
    state = found.state_dict()
    del state["weights"]
    with pytest.raises(UserError, match="calibration state lacks weights; allowed: a file as written here"):
        LearnedRemoval(3).load_state_dict(state)


def test_inverse_and_affine_form() -> None:
    x1, x2, scores = pairs()
    found = LearnedRemoval(4, penalty=0.05).fit_pairs(x1, x2, scores)
    assert float(found.weights.max()) < 1
    back = found.inverse_transform(found.transform(x1, dtype=torch.float64), dtype=torch.float64)
    torch.testing.assert_close(back, x1, atol=1e-8, rtol=0)
    weight, bias = found.affine()
    torch.testing.assert_close(x1 @ weight + bias, found.transform(x1, dtype=torch.float64))


def test_all_directions_by_default_up_to_a_hundred() -> None:
    x1, x2, scores = pairs()
    assert LearnedRemoval().fit_pairs(x1, x2, scores).weights.shape == (6,)


def test_bad_input() -> None:
    x1, x2, scores = pairs(size=5)
    with pytest.raises(UserError, match="penalty: received -1; allowed: a number of at least 0"):
        LearnedRemoval(penalty=-1)
    with pytest.raises(UserError, match="n_directions: received 7; allowed: 1 to 6, the size of the embeddings"):
        LearnedRemoval(7).fit_pairs(x1, x2, scores)
    with pytest.raises(
        ValueError, match=r"pairs have the shapes \(5, 6\) and \(4, 6\), scores \(5,\); allowed: \(P, D\)"
    ):
        LearnedRemoval().fit_pairs(x1, x2[:4], scores)
    with pytest.raises(UserError, match="1 of 5 scores are NaN or infinite; allowed: finite"):
        LearnedRemoval().fit_pairs(x1, x2, torch.tensor([1.0, 2, 3, 4, torch.nan]))
    with pytest.raises(UserError, match="5 pairs with 1 different scores; allowed: 2 or more of both"):
        LearnedRemoval().fit_pairs(x1, x2, torch.ones(5))
    with pytest.raises(ValueError, match="embeddings have 6 dimensions; allowed: 3, as fitted"):
        LearnedRemoval().fit(torch.randn(9, 3)).fit_pairs(x1, x2, scores)


def test_progress_counts_gradient_steps(steps: list[Step]) -> None:
    with shown():
        LearnedRemoval(3).fit_pairs(*pairs())
    (fitting,) = steps
    assert (fitting.what, fitting.unit) == ("Fitting learned-removal", "gradient steps")
    assert fitting.done > 2
