"""How Gaussian vectors are under a map, and how well densities describe sentences."""

import copy
import math

import numpy as np
import pandas as pd
import torch
from scipy import stats
from sklearn.covariance import ShrunkCovariance
from torch import Tensor

from flowbert.flows import Glow
from flowbert.tasks.measures import Array, to_rows, varying

RANK_TOLERANCE = 1e-10
"""Smallest eigenvalue relative to the largest with which a Gaussian has a density."""

BINS = 40
"""Bins of the histogram of norms."""

GAUSSIANS = {"Gaussian": 0.0, "Gaussian, shrinkage 0.1": 0.1}
"""Gaussians to compare a flow with, and their shrinkage."""


def dimension_moments(z: Array) -> pd.DataFrame:
    """Skewness and excess kurtosis of each dimension that varies by more than rounding.

    Args:
        z: Vectors, ``(N, D)``.

    Returns:
        Columns ``dimension`` (from 0), ``skewness``, ``excess_kurtosis``.
    """
    rows = to_rows(z)
    varies = varying(rows)
    alive = rows[:, varies].cpu().numpy()
    return pd.DataFrame(
        {
            "dimension": varies.nonzero().ravel().tolist(),
            "skewness": stats.skew(alive),
            "excess_kurtosis": stats.kurtosis(alive),
        }
    )


def gaussianity(z: Array) -> dict[str, float]:
    """How far vectors of size D are from a standard normal, whose figures are 0, 1, 0, 0, D and 0.

    Args:
        z: Vectors, ``(N, D)``, N at least 2.

    Returns:
        ``mean``: mean over the dimensions of the absolute mean; ``std``: mean of their standard
        deviations; ``skewness``: mean of their absolute skewness; ``excess_kurtosis``: mean of
        their kurtosis less 3, both of the dimensions that vary; ``squared_norm``: mean over the
        vectors; ``norm_distance``: Kolmogorov-Smirnov distance of the norms from the chi
        distribution with D degrees of freedom.

    Example:
        >>> z = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0))
        >>> gaussianity(z)["norm_distance"] < 0.02 < gaussianity(z**3)["norm_distance"]
        True
    """
    rows = to_rows(z)
    moments = dimension_moments(rows)
    norms = rows.norm(dim=1)
    chi = stats.chi(rows.shape[1])
    return {
        "mean": float(rows.mean(dim=0).abs().mean()),
        "std": float(rows.std(dim=0, correction=0).mean()),
        "skewness": float(moments["skewness"].abs().mean()),
        "excess_kurtosis": float(moments["excess_kurtosis"].mean()),
        "squared_norm": float(norms.square().mean()),
        "norm_distance": float(stats.kstest(norms.cpu().numpy(), chi.cdf).statistic),
    }


def norm_histogram(z: Array) -> pd.DataFrame:
    r"""Histogram of the norms of vectors ``(N, D)``, divided by :math:`\sqrt D`.

    Returns:
        Columns ``dim`` (D), ``norm_from``, ``norm_to``, ``vectors`` (their number).
    """
    rows = to_rows(z)
    dim = rows.shape[1]
    norms = rows.norm(dim=1) / math.sqrt(dim)
    counts, edges = np.histogram(norms.cpu().numpy(), BINS)
    return pd.DataFrame(
        {"dim": dim, "norm_from": edges[:-1], "norm_to": edges[1:], "vectors": counts}
    )


def density_bits(
    flow: Glow, fitting: Array, held_out: Array, name: str = "flow"
) -> dict[str, float]:
    """Bits per dimension of held-out embeddings under a flow and under Gaussians.

    Lower is better. The difference between the flow and the best Gaussian is what whitening
    cannot describe.

    Args:
        flow: The fitted flow.
        fitting: Embeddings that it was fitted on, ``(N, D)``.
        held_out: Other embeddings, ``(M, D)``.
        name: Name of the flow.

    Returns:
        ``flow``, or ``name``; ``flow, couplings off``: its networks' outputs set to 0;
        ``diagonal Gaussian``; and :data:`GAUSSIANS` with the covariance (1 - s) C + s m I for their
        shrinkage s, m being the mean eigenvalue of C. Those that have no density are left out.

    Example:
        >>> x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0)) * 3
        >>> flow = Glow(4, levels=1)
        >>> flow.initialize(x[:250])
        >>> bits = density_bits(flow, x[:250], x[250:])
        >>> bits["flow"] == bits["flow, couplings off"], abs(bits["flow"] - bits["Gaussian"]) < 0.1
        (True, True)
    """
    rows, others = to_rows(fitting), to_rows(held_out)
    exact = copy.deepcopy(flow).to(rows.device, torch.float64).eval()
    bits = {name: _flow_bits(exact, others)}
    for tensor, parameter in exact.named_parameters():
        if tensor.endswith(("weight_out", "bias_out")):
            parameter.data.zero_()
    bits[f"{name}, couplings off"] = _flow_bits(exact, others)
    x, y = rows.cpu().numpy(), others.cpu().numpy()
    variances = x.var(axis=0)
    if variances.min() > RANK_TOLERANCE * variances.max():
        normal = stats.norm(x.mean(axis=0), np.sqrt(variances))
        bits["diagonal Gaussian"] = -float(normal.logpdf(y).mean()) / math.log(2)
    for gaussian_name, shrinkage in GAUSSIANS.items():
        gaussian = ShrunkCovariance(shrinkage=shrinkage).fit(x)
        eigenvalues = np.linalg.eigvalsh(gaussian.covariance_)
        if eigenvalues[0] > RANK_TOLERANCE * eigenvalues[-1]:
            bits[gaussian_name] = -float(gaussian.score(y)) / (flow.dim * math.log(2))
    return bits


@torch.no_grad()
def _flow_bits(flow: Glow, rows: Tensor) -> float:
    return float(flow.nll(rows).mean()) / (flow.dim * math.log(2))
