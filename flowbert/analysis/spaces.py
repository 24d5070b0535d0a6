"""How evenly a set of vectors uses its space: spectrum, isotropy, hubness, norms and a map."""

import importlib.util
import math
import warnings

import numpy as np
import torch
from scipy import stats
from sklearn.decomposition import PCA
from torch import Tensor

from flowbert.analysis.neighbours import nearest_neighbours
from flowbert.arrays import Floats
from flowbert.errors import UserError, choices
from flowbert.seeding import Stream
from flowbert.tasks.measures import (
    Array,
    mean_cosine,
    to_rows,
    uniformity,
    unit_rows,
)

MAPS = ("pca", "umap")


def spectrum(x: Array) -> Tensor:
    """Eigenvalues of the covariance (divisor N) of vectors ``(N, D)``, largest first: ``(D,)``.

    Example:
        >>> spectrum(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
        tensor([0.5000, 0.0000], dtype=torch.float64)
    """
    rows = to_rows(x)
    centred = rows - rows.mean(dim=0)
    values: Tensor = torch.linalg.eigvalsh(centred.T @ centred / len(rows))
    return values.flip(0).clamp_min(0)


def effective_rank(eigenvalues: Tensor) -> float:
    r"""Effective rank :math:`\exp(-\sum_i p_i \log p_i)`, :math:`p_i = \sigma_i / \sum_j \sigma_j`.

    The :math:`\sigma_i` are singular values of the centred vectors, the roots of the eigenvalues
    up to a factor.

    References:
        The effective rank: A measure of effective dimensionality (Roy and Vetterli, 2007).
        https://ieeexplore.ieee.org/document/7098875

    Args:
        eigenvalues: From :func:`spectrum`, ``(D,)``.

    Returns:
        Between 1 and D; NaN if all eigenvalues are 0.

    Example:
        >>> round(effective_rank(torch.ones(4)), 6), effective_rank(torch.tensor([2.0, 0.0]))
        (4.0, 1.0)
    """
    singular = eigenvalues.sqrt()
    if not bool(singular.any()):
        return math.nan
    shares = singular[singular > 0] / singular.sum()
    return math.exp(-float((shares * shares.log()).sum()))


def participation_ratio(eigenvalues: Tensor) -> float:
    r"""Participation ratio :math:`(\sum_i \lambda_i)^2 / \sum_i \lambda_i^2`, between 1 and D.

    References:
        A theory of multineuronal dimensionality, dynamics and measurement (Gao et al., 2017).
        https://doi.org/10.1101/214262

    Args:
        eigenvalues: From :func:`spectrum`, ``(D,)``.

    Example:
        >>> participation_ratio(torch.ones(4)), participation_ratio(torch.tensor([2.0, 0.0]))
        (4.0, 1.0)
    """
    return float(eigenvalues.sum() ** 2 / eigenvalues.square().sum())


def isoscore(eigenvalues: Tensor) -> float:
    r"""IsoScore: 1 if all directions have the same variance, 0 if one has all of it.

    With the eigenvalues scaled to norm :math:`\sqrt D`,
    :math:`\delta = |\hat\lambda - 1| / \sqrt{2 (D - \sqrt D)}`,
    :math:`\phi = (D - \delta^2 (D - \sqrt D))^2 / D^2`, the score is
    :math:`(D \phi - 1) / (D - 1)`.

    References:
        IsoScore: Measuring the Uniformity of Embedding Space Utilization (Rudman et al., 2022).
        https://arxiv.org/abs/2108.07344

    Args:
        eigenvalues: From :func:`spectrum`, ``(D,)``, D at least 2.

    Returns:
        In [0, 1]; NaN if all eigenvalues are 0.

    Example:
        >>> isoscore(torch.ones(4)), round(isoscore(torch.tensor([5.0, 0.0, 0.0])), 6)
        (1.0, 0.0)
    """
    dim = len(eigenvalues)
    scaled = eigenvalues * math.sqrt(dim) / torch.linalg.vector_norm(eigenvalues)
    slack = dim - math.sqrt(dim)
    defect = float((scaled - 1).square().sum()) / (2 * slack)
    fraction = (dim - defect * slack) ** 2 / dim**2
    return (dim * fraction - 1) / (dim - 1)


def partition_isotropy(x: Array) -> float:
    r"""Isotropy of the partition function: :math:`\min_c Z(c) / \max_c Z(c)`.

    :math:`Z(c) = \sum_i e^{c \cdot x_i}`; c runs over the eigenvectors of :math:`X^\top X`, each
    with both signs, which the paper leaves open. 1 is isotropic. The scale of the vectors matters.

    References:
        All-but-the-Top: Simple and Effective Postprocessing for Word Representations
        (Mu and Viswanath, 2018). https://arxiv.org/abs/1702.01417

    Args:
        x: Vectors, ``(N, D)``.

    Example:
        >>> partition_isotropy(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        1.0
    """
    rows = to_rows(x)
    products = rows @ torch.linalg.eigh(rows.T @ rows).eigenvectors
    logs = torch.cat(
        [torch.logsumexp(products, dim=0), torch.logsumexp(-products, dim=0)]
    )
    return math.exp(float(logs.min() - logs.max()))


def hubness(x: Array, k: int = 10) -> float:
    r"""Hubness: skewness :math:`\operatorname{mean}_i (N_i - k)^3 / \sigma^3` of the k-occurrences.

    :math:`N_i` counts the other vectors that have vector i among their k nearest by cosine; its
    mean is k. High: a few vectors are neighbours of very many. Exact, in O(N^2 D) time; only
    figures of equal N compare.

    References:
        Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data (Radovanovic et al.,
        2010). https://www.jmlr.org/papers/v11/radovanovic10a.html

    Args:
        x: Vectors, ``(N, D)``; need not be normalized.
        k: Number of neighbours.

    Returns:
        The skewness; 0 where all vectors occur equally often; NaN for fewer than k + 1 vectors or
        one without direction.

    Example:
        >>> ring = torch.eye(5) + 0.5 * torch.roll(torch.eye(5), 1, 0)
        >>> hubness(ring, k=2)
        0.0
    """
    if len(x) <= k or not bool(unit_rows(x).isfinite().all()):
        return math.nan
    occurrences = np.bincount(nearest_neighbours(x, k)[1].ravel(), minlength=len(x))
    if bool((occurrences == k).all()):
        return 0.0
    return float(stats.skew(occurrences))


def space_measures(x: Array) -> dict[str, float]:
    """All measures of vectors ``(N, D)`` of distinct sentences, by name; D at least 2.

    Example:
        >>> x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        >>> space_measures(x)["mean_cosine"] < 0.1 < space_measures(x + 5)["mean_cosine"]
        True
    """
    rows = to_rows(x)
    eigenvalues = spectrum(rows)
    return {
        "effective_rank": effective_rank(eigenvalues),
        "participation_ratio": participation_ratio(eigenvalues),
        "isoscore": isoscore(eigenvalues),
        "partition_isotropy": partition_isotropy(rows),
        "mean_cosine": mean_cosine(rows),
        "uniformity": uniformity(rows),
        "hubness": hubness(rows),
    }


def check_kind(kind: str) -> None:
    """Check the kind of a corpus map before anything is computed.

    Raises:
        UserError: If the kind is unknown, or its package is not installed.
    """
    if kind not in MAPS:
        raise UserError(argument="map", received=kind, expected=choices(MAPS, kind))
    if kind == "umap" and importlib.util.find_spec("umap") is None:
        raise UserError(
            "received 'umap', which is not installed; expected: pip install 'flowbert[umap]'",
            argument="map",
        )


def corpus_map(x: Array, kind: str = "pca", seed: int = 0) -> Floats:
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
    check_kind(kind)
    rows = to_rows(x).cpu().numpy()
    if kind == "pca":
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
