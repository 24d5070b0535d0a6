"""Vectors in two dimensions."""

import importlib.util
import warnings

import numpy as np

from flowbert.arrays import Floats
from flowbert.errors import UserError, choices
from flowbert.seeding import Stream
from flowbert.tasks.measures import Array, to_rows

PROJECTIONS = ("pca", "umap")


def check_projection(kind: str) -> None:
    """Check the kind of a projection before anything is computed.

    Raises:
        UserError: If the kind is unknown, or its package is not installed.
    """
    if kind not in PROJECTIONS:
        raise UserError(
            argument="map", received=kind, expected=choices(PROJECTIONS, kind)
        )
    if kind == "umap" and importlib.util.find_spec("umap") is None:
        raise UserError(
            "received 'umap', which is not installed; expected: pip install 'flowbert[umap]'",
            argument="map",
        )


def project(x: Array, kind: str = "pca", seed: int = 0) -> Floats:
    """Coordinates of vectors in two dimensions, ``(N, 2)``.

    References:
        UMAP: Uniform Manifold Approximation and Projection for Dimension Reduction
        (McInnes et al., 2018). https://arxiv.org/abs/1802.03426

    Args:
        x: Vectors, ``(N, D)``, D at least 2.
        kind: ``pca``, or ``umap`` by cosine with 15 neighbours.
        seed: Seed of UMAP.

    Raises:
        UserError: If the kind is unknown, or its package is not installed.
    """
    check_projection(kind)
    rows = to_rows(x).cpu().numpy()
    if kind == "pca":
        from sklearn.decomposition import PCA  # not before something is projected

        # Exact for every N and D; the solver "auto" may be a randomized one.
        places = PCA(2, svd_solver="covariance_eigh").fit_transform(rows)
    else:
        from umap import UMAP

        umap = UMAP(
            metric="cosine", n_jobs=1, random_state=Stream(seed, "map").number % 2**32
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its threads, which a seed excludes
            places = umap.fit_transform(rows.astype(np.float32))
    return np.asarray(places, dtype=np.float64)
