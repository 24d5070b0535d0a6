"""How many directions a cloud of vectors really uses: measures of the eigenvalues of its covariance."""

import math

import torch
from torch import Tensor

from flowbert.metrics.arrays import Array, to_rows


def spectrum(x: Array) -> Tensor:
    """Eigenvalues of the covariance (over N), largest first, at least 0: ``(D,)``, float64.

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy.

    Raises:
        ValueError: If ``x`` is not 2-D, or has no row.

    Example:
        >>> spectrum(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
        tensor([0.5000, 0.0000], dtype=torch.float64)
    """
    rows = to_rows(x)
    if not len(rows):
        raise ValueError("embeddings have no row; allowed: at least one")
    centred = rows - rows.mean(dim=0)
    values: Tensor = torch.linalg.eigvalsh(centred.T @ centred / len(rows))
    return values.flip(0).clamp_min(0)


def effective_rank(eigenvalues: Tensor) -> float:
    r"""Effective rank :math:`\exp(-\sum_i p_i \log p_i)`, :math:`p_i = \sigma_i / \sum_j \sigma_j`.

    The :math:`\sigma_i` are singular values of the centred vectors, the roots of the eigenvalues up to a factor.

    References:
        The effective rank: A measure of effective dimensionality (Roy, Vetterli, 2007). EUSIPCO.

    Args:
        eigenvalues: From :func:`spectrum`, ``(D,)``.

    Returns:
        Between 1 and D; NaN if all are 0.

    Example:
        >>> round(effective_rank(torch.ones(4)), 6), effective_rank(torch.tensor([2.0, 0.0]))
        (4.0, 1.0)
    """
    singular = eigenvalues.double().sqrt()
    shares = singular[singular > 0] / singular.sum()
    return math.exp(-float((shares * shares.log()).sum())) if len(shares) else math.nan


def participation_ratio(eigenvalues: Tensor) -> float:
    r"""Participation ratio :math:`(\sum_i \lambda_i)^2 / \sum_i \lambda_i^2` of the eigenvalues, between 1 and D.

    References:
        A theory of multineuronal dimensionality, dynamics and measurement (Gao et al., 2017).
        https://doi.org/10.1101/214262

    Args:
        eigenvalues: From :func:`spectrum`, ``(D,)``.

    Example:
        >>> participation_ratio(torch.ones(4)), participation_ratio(torch.tensor([2.0, 0.0]))
        (4.0, 1.0)
    """
    values = eigenvalues.double()
    return float(values.sum() ** 2 / values.square().sum())


def isoscore(eigenvalues: Tensor) -> float:
    r"""IsoScore: 1 if all directions have the same variance, 0 if one has it all.

    With the eigenvalues scaled to norm :math:`\sqrt D`, :math:`\delta = |\hat\lambda - 1| / \sqrt{2 (D - \sqrt D)}`,
    :math:`\phi = (D - \delta^2 (D - \sqrt D))^2 / D^2`, the score is :math:`(D \phi - 1) / (D - 1)`.

    References:
        IsoScore: Measuring the Uniformity of Embedding Space Utilization (Rudman et al., 2022).
        https://arxiv.org/abs/2108.07344

    Args:
        eigenvalues: From :func:`spectrum`, ``(D,)``, D at least 2.

    Returns:
        In [0, 1]; NaN if all are 0.

    Raises:
        ValueError: If D is below 2.

    Example:
        >>> isoscore(torch.ones(4)), round(isoscore(torch.tensor([5.0, 0.0, 0.0])), 6)
        (1.0, 0.0)
    """
    dim = len(eigenvalues)
    if dim < 2:
        raise ValueError(f"eigenvalues: received {dim}; allowed: at least 2")
    values = eigenvalues.double()
    scaled = values * math.sqrt(dim) / torch.linalg.vector_norm(values)
    defect = float((scaled - 1).square().sum()) / (2 * (dim - math.sqrt(dim)))
    fraction = (dim - defect * (dim - math.sqrt(dim))) ** 2 / dim**2
    return (dim * fraction - 1) / (dim - 1)


def partition_isotropy(x: Array) -> float:
    r"""Isotropy of the partition function, :math:`\min_c Z(c) / \max_c Z(c)`, :math:`Z(c) = \sum_i e^{c \cdot x_i}`.

    c runs over the eigenvectors of :math:`X^\top X`, each with both signs, which the paper leaves open. 1 is isotropic.

    References:
        All-but-the-Top: Simple and Effective Postprocessing for Word Representations (Mu, Viswanath, 2018).
        https://arxiv.org/abs/1702.01417

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy; their scale matters.

    Example:
        >>> partition_isotropy(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        1.0
    """
    rows = to_rows(x)
    directions = torch.linalg.eigh(rows.T @ rows).eigenvectors
    products = rows @ directions
    logs = torch.cat([torch.logsumexp(products, dim=0), torch.logsumexp(-products, dim=0)])
    return math.exp(float(logs.min() - logs.max()))
