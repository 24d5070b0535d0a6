"""How Gaussian a latent is, and what a flow learned of a density that a Gaussian cannot say."""

import copy
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from flowbert.calibration.spectrum import RANK_TOLERANCE
from flowbert.flows import AdditiveCoupling, AffineCoupling, Glow
from flowbert.metrics.arrays import Array, to_rows, varies

GAUSSIANS = {"Gaussian": 0.0, "Gaussian, shrinkage 0.1": 0.1}
"""Those that a flow is laid beside, with their shrinkage."""


class Gaussianity(NamedTuple):
    """How far vectors of size D are from a standard normal, whose figures are 0, 1, 0, 0, D and 0.

    Attributes:
        mean: Mean over the dimensions of the absolute mean.
        std: Mean over the dimensions of the standard deviation.
        skewness: Mean over the dimensions of the absolute skewness; those that hold rounding alone have none.
        excess_kurtosis: Mean over the same dimensions of the kurtosis less 3.
        squared_norm: Mean squared norm.
        norm_distance: Kolmogorov-Smirnov distance of the norms from the chi distribution with D degrees of freedom.
    """

    mean: float
    std: float
    skewness: float
    excess_kurtosis: float
    squared_norm: float
    norm_distance: float


def gaussianity(z: Array) -> Gaussianity:
    """Moments of each dimension and norms of latents ``(N, D)``, torch or numpy.

    Raises:
        ValueError: If ``z`` is not 2-D, or has fewer than 2 rows.

    Example:
        >>> z = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0))
        >>> normal, heavy = gaussianity(z), gaussianity(z**3)
        >>> normal.norm_distance < 0.02 < heavy.norm_distance, abs(normal.excess_kurtosis) < 0.1 < heavy.excess_kurtosis
        (True, True)
    """
    from scipy import stats  # takes a second to import

    rows = _latents(z)
    standard = _standardized(rows)
    squared = rows.square().sum(dim=1)
    return Gaussianity(
        float(rows.mean(dim=0).abs().mean()),
        float(rows.std(dim=0, correction=0).mean()),
        float(standard.pow(3).mean(dim=0).abs().mean()),
        float(standard.pow(4).mean(dim=0).mean()) - 3,
        float(squared.mean()),
        float(stats.kstest(squared.sqrt().cpu().numpy(), stats.chi(rows.shape[1]).cdf).statistic),
    )


class LatentShape(NamedTuple):
    """What to draw of latents of size D.

    Attributes:
        dim: The size D.
        low: Where the first bin of norms begins, norms being divided by the root of D.
        high: Where the last one ends.
        counts: Latents by norm, in bins of equal width.
        skewness: Skewness of each dimension that varies; of some, evenly chosen, if there are many.
        excess_kurtosis: Kurtosis of the same dimensions less 3.
    """

    dim: int
    low: float
    high: float
    counts: list[int]
    skewness: list[float]
    excess_kurtosis: list[float]


def latent_shape(z: Array, bins: int = 40, dimensions: int = 256) -> LatentShape:
    """Norms and moments by dimension of latents ``(N, D)``, torch or numpy.

    Args:
        z: The latents.
        bins: Number of bins of the norms.
        dimensions: Most dimensions whose moments are kept.

    Raises:
        ValueError: If ``z`` is not 2-D, or has fewer than 2 rows.

    Example:
        >>> shape = latent_shape(torch.randn(5000, 8, generator=torch.Generator().manual_seed(0)), bins=4)
        >>> shape.dim, sum(shape.counts), max(map(abs, shape.skewness)) < 0.1
        (8, 5000, True)
    """
    rows = _latents(z)
    norms = (rows.norm(dim=1) / math.sqrt(rows.shape[1])).cpu().numpy()
    counts, bounds = np.histogram(norms, bins)
    standard = _standardized(rows)
    standard = standard[:, :: math.ceil(standard.shape[1] / dimensions) or 1]
    return LatentShape(
        rows.shape[1],
        float(bounds[0]),
        float(bounds[-1]),
        counts.tolist(),
        standard.pow(3).mean(dim=0).tolist(),
        (standard.pow(4).mean(dim=0) - 3).tolist(),
    )


def _latents(z: Array) -> Tensor:
    rows = to_rows(z, "latents")
    if len(rows) < 2:
        raise ValueError(f"latents: received {len(rows)} rows; allowed: at least 2")
    return rows


def _standardized(rows: Tensor) -> Tensor:
    """The dimensions that vary."""
    return ((rows - rows.mean(dim=0)) / rows.std(dim=0, correction=0))[:, varies(rows)]


def density_bits(
    flow: Glow, fitting: Array, held_out: Array, shrinkage: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Bits per dimension of held-out embeddings under a flow and under what it could have been without its networks.

    Args:
        flow: The fitted flow.
        fitting: Embeddings that it was fitted on, ``(N, D)``.
        held_out: Others, ``(M, D)``.
        shrinkage: Name of a Gaussian -> its shrinkage s: covariance (1 - s) C + s m I, m being the mean eigenvalue;
            default: one without.

    Returns:
        ``flow``; ``flow, couplings off``: the same with the networks' output at 0; ``diagonal Gaussian``; and the
        Gaussians that have a density. Lower is better; what ``flow`` has below the best one whitening cannot say.

    Raises:
        ValueError: If sizes do not fit.

    Example:
        >>> flow, x = Glow(4, levels=1), torch.randn(500, 4, generator=torch.Generator().manual_seed(0)) * 3
        >>> flow.initialize(x[:250])
        >>> bits = density_bits(flow, x[:250], x[250:])
        >>> bits["flow"] == bits["flow, couplings off"], abs(bits["flow"] - bits["Gaussian"]) < 0.1
        (True, True)
    """
    rows, others = to_rows(fitting), to_rows(held_out, "held_out")
    if rows.shape[1] != flow.dim or others.shape[1] != flow.dim:
        raise ValueError(f"embeddings have {rows.shape[1]} and {others.shape[1]} dimensions; allowed: {flow.dim}")
    exact = copy.deepcopy(flow).to(rows.device, torch.float64).eval()
    found = {"flow": _flow_bits(exact, others)}
    for module in exact.modules():
        if isinstance(module, AdditiveCoupling | AffineCoupling):
            module.net.weight_out.data.zero_()
            module.net.bias_out.data.zero_()
    found["flow, couplings off"] = _flow_bits(exact, others)
    mean = rows.mean(dim=0)
    covariance = torch.cov(rows.T, correction=0)
    gaussians = {"diagonal Gaussian": covariance.diagonal().diag()}
    average = covariance.diagonal().mean() * torch.eye(flow.dim, dtype=torch.float64, device=rows.device)
    for name, s in (shrinkage or {"Gaussian": 0.0}).items():
        gaussians[name] = (1 - s) * covariance + s * average
    for name, matrix in gaussians.items():
        values = torch.linalg.eigvalsh(matrix)
        if values[0] > RANK_TOLERANCE * values[-1]:  # else it has no density, and what is there is rounding
            found[name] = _gaussian_bits(mean, matrix, others)
    return found


@torch.no_grad()
def _flow_bits(flow: Glow, rows: Tensor) -> float:
    return float(flow.nll(rows).mean()) / (flow.dim * math.log(2))


def _gaussian_bits(mean: Tensor, covariance: Tensor, rows: Tensor) -> float:
    normal = torch.distributions.MultivariateNormal(mean, covariance)
    log_density: Tensor = normal.log_prob(rows)  # type: ignore[no-untyped-call]
    return -float(log_density.mean()) / (len(mean) * math.log(2))
