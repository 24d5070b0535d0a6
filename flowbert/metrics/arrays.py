"""What the metrics share: arrays from torch or numpy, and unit vectors."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.errors import FlowbertWarning
from flowbert.seeding import Stream

Array = Tensor | NDArray[Any]
_ROUNDING = 1e-6  # of the size of the numbers: a dead dimension of an encoder keeps 2e-8, one that lives 7e-4 or more


def to_vector(x: Array, name: str) -> NDArray[np.float64]:
    """Values of shape ``(N,)`` as a float64 numpy array.

    Raises:
        ValueError: If ``x`` is not 1-D; the message names the argument.
    """
    values = x.detach().cpu().to(torch.float64).numpy() if isinstance(x, Tensor) else np.asarray(x, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{name} has the shape {values.shape}; allowed: (N,)")
    return values


def to_rows(x: Array, name: str = "embeddings") -> Tensor:
    """Vectors of shape ``(N, D)`` as a float64 tensor on the device they are on (the CPU where it has no float64).

    Raises:
        ValueError: If ``x`` is not 2-D; the message names the argument.
    """
    rows = x.detach() if isinstance(x, Tensor) else torch.tensor(np.asarray(x))
    if rows.ndim != 2:
        raise ValueError(f"{name} have the shape {tuple(rows.shape)}; allowed: (N, D)")
    return rows.to("cpu" if rows.device.type == "mps" else rows.device, torch.float64)


def varies(rows: Tensor) -> Tensor:
    """Which dimensions of ``(N, D)`` hold more than rounding, ``(D,)``: where that is standardized it is a figure.

    Example:
        >>> varies(torch.tensor([[3.0, 1e-9], [1.0, 2e-9]]))
        tensor([ True, False])
    """
    return rows.std(dim=0, correction=0) > _ROUNDING * rows.square().mean().sqrt()


def drawn_unit_rows(x: Array, measure: str, least: int, vectors: int | None, seed: int) -> Tensor | None:
    """Unit rows of all vectors, or of some drawn without replacement, of which a measure needs at least so many.

    Args:
        x: Vectors of shape ``(N, D)``.
        measure: Name of the measure, and of the stream of its draw.
        least: How many it needs.
        vectors: How many to draw, at least 2; None, or if there are no more: all.
        seed: Seed of the draw.

    Returns:
        Shape ``(n, D)``; None, with a warning, if they are too few or one has no direction: the measure is NaN.

    Raises:
        ValueError: If ``x`` is not 2-D, or ``vectors`` is below 2.
    """
    if vectors is not None and vectors < 2:
        raise ValueError(f"vectors: received {vectors}; allowed: at least 2")
    rows = to_rows(x)
    if vectors is not None and vectors < len(rows):
        order = torch.randperm(len(rows), generator=Stream(seed, measure).generator())
        rows = rows[order[:vectors].sort().values.to(rows.device)]
    unit = unit_rows(rows)
    if len(unit) < least:
        message = f"{measure} is NaN: {len(unit)} vectors; at least {least} are needed"
        warnings.warn(message, FlowbertWarning, stacklevel=3)
        return None
    return unit if bool(torch.isfinite(unit).all()) else None


def unit_rows(x: Array, name: str = "embeddings") -> Tensor:
    r"""Rows :math:`x / |x|` of shape ``(N, D)``, float64.

    A row of zeros has no direction: it becomes NaN, with a warning, and so does every figure it enters. Rows that hold
    NaN or infinity do the same.
    """
    rows = to_rows(x, name)
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    bad = int((~torch.isfinite(norms) | (norms == 0)).sum())
    if bad:
        warnings.warn(
            f"{bad} of {len(rows)} {name} have no direction (zero, NaN or infinite): figures that use them are NaN",
            FlowbertWarning,
            stacklevel=3,
        )
    return rows / norms
