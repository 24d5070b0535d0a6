"""Bits per dimension of held-out vectors under a flow and under Gaussians."""

import copy
import math

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from flowbert.extras.analysis.sample import Sample
from flowbert.flows import Glow, bits_per_dim
from flowbert.tasks.measures import Array, to_rows

SMALLEST_EIGENVALUE = 1e-10
"""Smallest eigenvalue relative to the largest with which a Gaussian has a density."""

GAUSSIANS = {
    "Gaussian": 0.0,
    **{f"Gaussian, shrinkage {s:g}": s for s in (1e-4, 1e-3, 1e-2, 1e-1)},
}
"""Gaussians to compare a flow with, and their shrinkage."""


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
    if variances.min() > SMALLEST_EIGENVALUE * variances.max():
        normal = stats.norm(x.mean(axis=0), np.sqrt(variances))
        bits["diagonal Gaussian"] = -float(normal.logpdf(y).mean()) / math.log(2)
    for gaussian_name, shrinkage in GAUSSIANS.items():
        value = gaussian_bits(x, y, shrinkage)
        if value is not None:
            bits[gaussian_name] = value
    return bits


def gaussian_bits(
    fitting: NDArray[np.float64], held_out: NDArray[np.float64], shrinkage: float
) -> float | None:
    """Bits per dimension of held-out rows under a shrunk Gaussian; None if it has no density.

    Args:
        fitting: Rows that it is fitted on, ``(N, D)``.
        held_out: Other rows, ``(M, D)``.
        shrinkage: Weight s of the mean variance: (1 - s) C + s m I.
    """
    from sklearn.covariance import ShrunkCovariance  # not before something is measured

    gaussian = ShrunkCovariance(shrinkage=shrinkage).fit(fitting)
    eigenvalues = np.linalg.eigvalsh(gaussian.covariance_)
    if not eigenvalues[0] > SMALLEST_EIGENVALUE * eigenvalues[-1]:
        return None
    return bits_per_dim(-float(gaussian.score(held_out)), fitting.shape[1])


@torch.no_grad()
def _flow_bits(flow: Glow, rows: Tensor) -> float:
    return bits_per_dim(float(-flow.log_prob(rows).mean()), flow.dim)


def bits(sample: Sample) -> pd.DataFrame:
    """A row per density: bits per dimension of held-out vectors, see :func:`density_bits`."""
    found: dict[str, float] = {}
    if sample.fitting is not None and sample.held_out is not None:
        for name, flow in sample.flows.items():
            found |= density_bits(flow, sample.fitting, sample.held_out, name)
    return pd.DataFrame(found.items(), columns=["density", "bits"])


def tabulate_bits(frame: pd.DataFrame) -> pd.DataFrame:
    """The bits, and how far each density is above the best Gaussian."""
    best = frame.loc[frame["density"].isin(GAUSSIANS), "bits"].min()
    return frame.assign(above_the_best_gaussian=frame["bits"] - best)
