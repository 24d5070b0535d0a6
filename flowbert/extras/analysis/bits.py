"""Bits per dimension of held-out vectors under a flow and under Gaussians."""

import copy
import math

import numpy as np
import pandas as pd
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.extras.analysis.sample import Sample
from flowbert.flows import Glow, bits_per_dim
from flowbert.tasks.measures import to_rows

GAUSSIANS = {
    "Gaussian": 0.0,
    **{f"Gaussian, shrinkage {s:g}": s for s in (1e-4, 1e-3, 1e-2, 1e-1)},
}
"""Shrinkage of the Gaussians to compare a flow with, by name."""


def bits(sample: Sample) -> pd.DataFrame:
    """A row per density: bits per dimension of held-out vectors, lower is better.

    The densities are each flow; ``flow, couplings off``, in which the outputs of the coupling
    networks are 0; ``diagonal Gaussian``; and :data:`GAUSSIANS` with the covariance
    (1 - s) C + s m I for their shrinkage s, where m is the mean eigenvalue of C. Undefined
    densities are left out. By the difference to the best Gaussian, a flow describes more than
    whitening.
    """
    if sample.fitting is None or sample.held_out is None:
        return pd.DataFrame()
    rows, found = to_rows(sample.held_out), {}
    for name, flow in sample.flows.items():
        exact = copy.deepcopy(flow).to(rows.device, torch.float64).eval()
        found[name] = _flow_bits(exact, rows)
        for tensor, parameter in exact.named_parameters():
            if tensor.endswith(("weight_out", "bias_out")):
                parameter.data.zero_()
        found[f"{name}, couplings off"] = _flow_bits(exact, rows)
    if found:
        x, y = to_rows(sample.fitting).cpu().numpy(), rows.cpu().numpy()
        found["diagonal Gaussian"] = _bits_under(np.diag(x.var(axis=0)), x, y)
        for name, shrinkage in GAUSSIANS.items():
            found[name] = gaussian_bits(x, y, shrinkage)
    return pd.DataFrame(found.items(), columns=["density", "bits"]).dropna()


@torch.no_grad()
def _flow_bits(flow: Glow, rows: Tensor) -> float:
    return bits_per_dim(float(-flow.log_prob(rows).mean()), flow.dim)


def gaussian_bits(fitting: Floats, held_out: Floats, shrinkage: float) -> float:
    """Bits per dimension of held-out rows under a shrunk Gaussian; NaN if it has no density.

    Args:
        fitting: Rows to fit on, ``(N, D)``.
        held_out: Other rows, ``(M, D)``.
        shrinkage: Weight s of the mean variance: (1 - s) C + s m I.
    """
    from sklearn.covariance import ShrunkCovariance  # not before something is measured

    fitted = ShrunkCovariance(shrinkage=shrinkage).fit(fitting)
    return _bits_under(fitted.covariance_, fitting, held_out)


def _bits_under(covariance: Floats, fitting: Floats, held_out: Floats) -> float:
    mean = fitting.mean(axis=0)
    try:
        density = multivariate_normal(mean, covariance)
    except np.linalg.LinAlgError:  # singular
        return math.nan
    return bits_per_dim(-float(density.logpdf(held_out).mean()), len(mean))


def tabulate_bits(frame: pd.DataFrame) -> pd.DataFrame:
    """The bits, and the difference of each density to the best Gaussian."""
    best = frame.loc[frame["density"].isin(GAUSSIANS), "bits"].min()
    return frame.assign(above_the_best_gaussian=frame["bits"] - best)
