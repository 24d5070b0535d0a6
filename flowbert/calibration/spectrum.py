"""Eigenvalues and eigenvectors of a covariance, shrunk, and the rank that can be trusted."""

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from flowbert.calibration.few_rows import ENOUGH
from flowbert.calibration.moments import Moments
from flowbert.errors import FlowbertWarning, UserError

Shrinkage = float | str
RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Spectrum:
    r"""Eigendecomposition :math:`U \operatorname{diag}(\lambda) U^T` of a (shrunk) covariance, float64.

    Attributes:
        values: Eigenvalues, falling, not negative, shape ``(D,)``.
        vectors: Eigenvectors U as columns, the largest entry of each positive, shape ``(D, D)``.
        rank: How many eigenvalues exceed the tolerance times the largest one.
    """

    values: Tensor
    vectors: Tensor
    rank: int


def checked_shrinkage(shrinkage: Shrinkage) -> Shrinkage:
    """The shrinkage, if it is a number in [0, 1] or ``"ledoit-wolf"``; else a UserError."""
    if shrinkage == "ledoit-wolf" or (isinstance(shrinkage, int | float) and 0.0 <= shrinkage <= 1.0):
        return shrinkage
    raise UserError(f"shrinkage is {shrinkage!r}; allowed: a number in [0, 1] or 'ledoit-wolf'")


def checked_exponent(exponent: float) -> float:
    """The exponent, if it lies in [-1, 0]; else a UserError."""
    if math.isfinite(exponent) and -1.0 <= exponent <= 0.0:
        return exponent
    raise UserError(f"exponent is {exponent}; allowed: a number in [-1, 0] (-0.5 whitens, 0 only rotates)")


def checked_tolerance(rank_tolerance: float) -> float:
    """The tolerance, if it lies in [0, 1); else a UserError."""
    if 0.0 <= rank_tolerance < 1.0:
        return rank_tolerance
    raise UserError(f"rank_tolerance is {rank_tolerance}; allowed: a number in [0, 1)")


def checked_size(value: int | None, name: str) -> int | None:
    """The count, if it is None or at least 1; else a UserError that names it."""
    if value is None or (isinstance(value, int) and value >= 1):
        return value
    raise UserError(f"{name} is {value!r}; allowed: a whole number of at least 1, or none for all")


def spectrum(moments: Moments, shrinkage: Shrinkage = 0.0, rank_tolerance: float = RANK_TOLERANCE) -> Spectrum:
    r"""Spectrum of :math:`(1 - s) \Sigma + s \bar\lambda I`, :math:`\bar\lambda` the mean eigenvalue of :math:`\Sigma`.

    Sigma has the divisor N - 1 (one row gives zero). Shrinking leaves the eigenvectors alone, so it is done on the
    eigenvalues. The eigenproblem is solved in float64 on the CPU: it gives the same signs and order everywhere.
    """
    values, vectors = torch.linalg.eigh(moments.covariance().cpu())
    values, vectors = values.flip(0).clamp_min(0.0), vectors.flip(1)
    largest = vectors.abs().argmax(dim=0)
    signs = torch.where(vectors.gather(0, largest[None])[0] < 0, -1.0, 1.0).to(torch.float64)
    weight = shrinkage_weight(moments, shrinkage)
    values = (1 - weight) * values + weight * values.mean()
    rank = int((values > rank_tolerance * values[0]).sum())
    return Spectrum(values, vectors * signs, rank)


def shrinkage_weight(moments: Moments, shrinkage: Shrinkage) -> float:
    """The weight s of these statistics: a number, or what ``ledoit-wolf`` makes of them."""
    return moments.ledoit_wolf_shrinkage() if isinstance(shrinkage, str) else shrinkage


def equalizes(moments: Moments, shrinkage: Shrinkage, exponent: float, rank_tolerance: float) -> bool:
    """Whether a map gives every direction kept the same variance: it whitens, and no shrinkage counts."""
    return exponent == -0.5 and shrinkage_weight(moments, shrinkage) <= rank_tolerance


def warn_of_few_rows(name: str, moments: Moments, kept: int) -> None:
    """Warn that there are so few distinct rows for the directions kept that shrinkage is advised.

    Nothing is said if there are enough, or so few that the map means nothing: its flaw says that.
    """
    if kept + 1 < moments.distinct < ENOUGH * kept:
        warnings.warn(
            f"{name}: N={moments.distinct} distinct sentences for {kept} directions are few; below {ENOUGH} for each "
            f"direction shrinkage is advised ({name}:shrinkage=0.1)",
            FlowbertWarning,
            stacklevel=3,
        )


def warn_of_rank_cut(name: str, moments: Moments, found: Spectrum, wanted: int, rank_tolerance: float) -> None:
    """Warn that fewer directions than wanted can be scaled, with N, D, the rank and the extreme eigenvalues."""
    action = f"keeping {found.rank}" if found.rank else "no direction varies, so the rows are only centred"
    warnings.warn(
        f"{name}: covariance of N={moments.count} rows in D={moments.dim} dimensions has rank {found.rank}, "
        f"{wanted} directions wanted; eigenvalues from {found.values[0]:.3e} down to {found.values[-1]:.3e}, "
        f"cut at {rank_tolerance:g} of the largest; {action} (more sentences, shrinkage or fewer components help)",
        FlowbertWarning,
        stacklevel=3,
    )
