"""Log density of vectors under a flow, or the Gaussian of a whitening."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.arrays import BLOCK_ROWS, Floats
from flowbert.errors import UserError
from flowbert.flows import StandardNormal
from flowbert.maps.base import Map
from flowbert.maps.flow import Flow
from flowbert.maps.simple import Standardization
from flowbert.maps.whitening import RANK_TOLERANCE, SpectralMap


def log_density(fitted: Map | None, rows: Floats) -> NDArray[np.float64]:
    r"""Log density :math:`\log N(f(x); 0, I) + \log|\det df/dx|` of rows in nats: ``(N,)``.

    Args:
        fitted: A flow, a Gaussian (whitening, ZCA or standardization of all dimensions), or a chain
            that ends in one of these; what comes before is a flow, or affine with an inverse.
        rows: Vectors, ``(N, D)``.

    Raises:
        UserError: If the map has no density.

    Example:
        >>> from flowbert.maps import Whitening
        >>> x = np.random.default_rng(0).normal(size=(1000, 2)) * 3
        >>> nats = log_density(Whitening().fit(x), x)
        >>> bool(abs(nats.mean() + np.log(2 * np.pi * np.e * 9)) < 0.1)
        True
    """
    parts = [] if fitted is None else fitted.parts
    last = parts[-1] if parts else None
    # Its latents are meant to be standard normal.
    whitens = isinstance(last, SpectralMap) and last.exponent == -0.5
    if not whitens and not isinstance(last, Flow | Standardization):
        raise _no_density(fitted)
    prior = StandardNormal(last.n_features_in_).log_prob
    if isinstance(last, Flow):
        prior = last.flow_.prior_log_prob
    found = []
    for z in torch.split(torch.as_tensor(rows, dtype=torch.float64), BLOCK_ROWS):
        total = torch.zeros(len(z), dtype=torch.float64)
        for part in parts:
            log_det, z = _step(part, z)
            total = total + log_det
        total += prior(z)
        found.append(total)
    return torch.cat(found).numpy()


@torch.no_grad()
def _step(part: Map, rows: Tensor) -> tuple[Tensor | float, Tensor]:
    """Log determinant and mapped rows."""
    if isinstance(part, Flow):
        z, log_det = part.flow_.cpu()(rows)
        return log_det, z
    weight, _ = part.affine()
    scales = torch.linalg.svdvals(weight)
    if weight.shape[0] != weight.shape[1] or scales[-1] <= RANK_TOLERANCE * scales[0]:
        raise _no_density(part)
    return float(scales.log().sum()), part.transform(rows)


def _no_density(part: Map | None) -> UserError:
    return UserError(
        f"received {'raw' if part is None else part.text}, which has no density; expected a map "
        "that keeps all dimensions: a flow, whitening:shrinkage=0.0001 or standardization",
        argument="map",
    )
