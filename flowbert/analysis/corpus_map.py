"""A two-dimensional map of sentence vectors: PCA, or UMAP where it is installed."""

import importlib.util
import warnings

import torch
from torch import Tensor

from flowbert.errors import UserError, choices
from flowbert.metrics.arrays import Array, to_rows
from flowbert.seeding import Stream

MAPS = ("pca", "umap")


def check_map(kind: str) -> None:
    """Refuse a map that cannot be drawn, before anything is computed.

    Raises:
        UserError: If the kind is unknown, or what it needs is not installed.
    """
    if kind not in MAPS:
        raise UserError(f"map: received {kind!r}; {choices(MAPS, kind)}")
    if kind == "umap" and importlib.util.find_spec("umap") is None:
        raise UserError("map: received 'umap', which is not installed; needed: pip install 'flowbert[umap]'")


def corpus_map(x: Array, kind: str = "pca", seed: int = 0) -> Tensor:
    """Coordinates in two dimensions, ``(N, 2)``, float64 on the CPU.

    ``pca``: on the two directions of the largest variance, the largest first; each points so that its largest
    component is positive. ``umap``: by cosine, with 15 neighbours, the package's defaults else.

    References:
        UMAP: Uniform Manifold Approximation and Projection for Dimension Reduction (McInnes et al., 2018).
        https://arxiv.org/abs/1802.03426

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy, D at least 2.
        kind: ``pca`` or ``umap``.
        seed: Seed of UMAP.

    Raises:
        UserError: If the kind is unknown, or what it needs is not installed.
        ValueError: If ``x`` is not 2-D.

    Example:
        >>> corpus_map(torch.tensor([[0.0, 5.0, 1.0], [2.0, 5.0, 1.0], [1.0, 5.0, 1.5]])).abs().round(decimals=3)
        tensor([[1.0000, 0.1670],
                [1.0000, 0.1670],
                [0.0000, 0.3330]], dtype=torch.float64)
    """
    check_map(kind)
    rows = to_rows(x)
    if kind == "umap":
        return _umap(rows, seed)
    centred = rows - rows.mean(dim=0)
    directions: Tensor = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -2:].flip(1)
    largest = directions.gather(0, directions.abs().argmax(dim=0, keepdim=True))
    return (centred @ (directions * largest.sign())).cpu()


def _umap(rows: Tensor, seed: int) -> Tensor:
    from umap import UMAP  # numba takes seconds to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its threads, which a seed forbids
        found = UMAP(metric="cosine", n_jobs=1, random_state=Stream(seed, "map").number % 2**32).fit_transform(
            rows.float().cpu().numpy()
        )
    return torch.as_tensor(found, dtype=torch.float64)
