"""Simple maps: raw, centering, mean removal, standardization, truncation, imported kernels."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.errors import UserError, warn
from flowbert.maps.base import MAPS, AffineMap
from flowbert.vectors.moments import Moments

# Relative to the largest standard deviation: the resolution of float32 embeddings.
_SMALLEST_STD = 1e-7


@MAPS.register("raw")
class Raw(AffineMap):
    """The embeddings unchanged: the baseline of every map."""

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """The identity."""
        identity = torch.eye(moments.dim, dtype=torch.float64)
        return torch.zeros(moments.dim, dtype=torch.float64), identity, identity

    def _apply(self, rows: Tensor) -> Tensor:
        return rows

    _invert = _apply


@MAPS.register("standardization")
class Standardization(AffineMap):
    r"""Standard normalization :math:`y_j = (x_j - \mu_j) / \sigma_j`, divisor N - 1.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 5.
        https://arxiv.org/abs/2011.05864
    """

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """The standardizing map."""
        std = standard_deviations(moments)
        return moments.mean, torch.diag(1 / std), torch.diag(std)


def standard_deviations(moments: Moments) -> Tensor:
    """Standard deviation of each dimension ``(D,)``; 1 where a dimension does not vary."""
    std = moments.covariance().diagonal().clamp_min(0.0).sqrt()
    constant = std <= _SMALLEST_STD * std.max()
    if bool(constant.any()):
        warn(
            f"standardization: {int(constant.sum())} of D={moments.dim} dimensions do not vary; "
            "they are only centred"
        )
    return torch.where(constant, torch.ones_like(std), std)


@MAPS.register("truncation")
@dataclass(eq=False, repr=False)
class Truncation(AffineMap):
    """The first k dimensions, unchanged: a reduction that needs no fit.

    Args:
        n_components: Number of dimensions k; None for all.
    """

    size_parameter = "n_components"

    n_components: int | None = None

    def output_dim(self, dim: int) -> int:
        """Check the parameter; the number of dimensions."""
        return self.check_count("n_components", dim)

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """The first columns of the identity."""
        columns = torch.eye(moments.dim, dtype=torch.float64)[
            :, : self.output_dim(moments.dim)
        ]
        return torch.zeros(moments.dim, dtype=torch.float64), columns, columns.T


class KernelMap(AffineMap):
    r"""The map :math:`y = (x + b) K` of a kernel and a bias that BERT-whitening's code fitted.

    It is read from a file, never fitted.

    References:
        https://github.com/bojone/BERT-whitening,
        https://github.com/autoliuweijie/BERT-whitening-pytorch
    """

    @property
    def name(self) -> str:
        """``kernel``; no map can be made from this name."""
        return "kernel"

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """Raise a UserError: a kernel map cannot be fitted."""
        raise UserError(
            "kernel: received rows to fit on; expected KernelMap.read or KernelMap.of"
        )

    @classmethod
    def of(cls, kernel: NDArray[Any], bias: NDArray[Any]) -> Self:
        """The map of a kernel ``(D, k)`` and a bias ``(D,)``."""
        weight = np.asarray(kernel, dtype=np.float64)
        shift = np.asarray(bias, dtype=np.float64).reshape(-1)
        if weight.ndim != 2 or not weight.size or len(shift) != len(weight):
            raise ValueError(
                f"received the shapes {weight.shape}, {shift.shape}; expected (D, k), (D,)"
            )
        if not (np.isfinite(weight).all() and np.isfinite(shift).all()):
            raise ValueError("received NaN or infinity; expected finite numbers")
        arrays = {
            "center_": -shift,
            "weight_": weight,
            "inverse_": np.linalg.pinv(weight),
        }
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return cls().set_state({**tensors, "n_features_in_": len(shift)})

    @classmethod
    def read(cls, path: str | Path, scale: float = 1.0) -> Self:
        """Read ``kernel`` and ``bias`` from an .npz file, or kernel.npy and bias.npy in a folder.

        Args:
            path: The file or folder; pickled files are refused.
            scale: Factor of the rows that the kernel was fitted on: 2 for the sum of two layers.

        Raises:
            UserError: If the arrays are missing, pickled or of other shapes.
        """
        path = Path(path)
        try:
            if path.is_dir():
                kernel, bias = (
                    np.load(path / f"{name}.npy", allow_pickle=False)
                    for name in ("kernel", "bias")
                )
            else:
                with np.load(path, allow_pickle=False) as content:
                    kernel, bias = content["kernel"], content["bias"]
            return cls.of(kernel * scale, bias / scale)
        # numpy, zipfile and zlib raise a dozen unrelated types for a file that they cannot read.
        except Exception as error:
            raise UserError(
                f"{path}: {error}; expected an .npz file with kernel and bias, or a folder with "
                "kernel.npy and bias.npy (nothing pickled)"
            ) from error


@MAPS.register("centering")
class Centering(AffineMap):
    r"""Mean 0: :math:`y = x - \mu`.

    R1 of the paper, which first normalizes the rows to unit length; here they keep their norms.

    References:
        Correcting Mean Bias in Text Embeddings (Ren et al., 2025).
        https://arxiv.org/abs/2511.11041
    """

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """The identity around the mean."""
        identity = torch.eye(moments.dim, dtype=torch.float64)
        return moments.mean, identity, identity


@MAPS.register("mean-removal")
class MeanRemoval(AffineMap):
    r"""Removal of the mean direction :math:`y = x - (x^T m)\, m`.

    R2 of the paper: :math:`m` is the normalized mean of the unit-length rows. Nothing is
    subtracted, so the cosines are those of unit-length rows.

    References:
        Correcting Mean Bias in Text Embeddings (Ren et al., 2025).
        https://arxiv.org/abs/2511.11041
    """

    min_features = 2

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """The projection onto all other directions."""
        direction = moments.mean_direction
        identity = torch.eye(moments.dim, dtype=torch.float64)
        projection = identity - torch.outer(direction, direction)
        return torch.zeros_like(direction), projection, projection
