"""An affine map that was fitted elsewhere: kernel and bias of BERT-whitening."""

from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray

from flowbert.calibration.base import AffineMap, Calibration, Rows
from flowbert.calibration.moments import Moments
from flowbert.errors import UserError

KERNEL, BIAS = "kernel", "bias"
_NEEDED = f"an .npz file with {KERNEL} and {BIAS}, or a folder with {KERNEL}.npy and {BIAS}.npy"
_PICKLED = (
    "pickled, which is never read here, or no array; where you trust it, save it anew: "
    "numpy.savez('map.npz', **pickle.loads(pathlib.Path(FILE).read_bytes()))"
)


class GivenMap(Calibration, method="given"):
    r"""The map :math:`y = (x + b) K` of a kernel K and a bias b; it is loaded, never fitted.

    BERT-whitening then scales y to length 1, which no cosine sees.

    References:
        Whitening Sentence Representations for Better Semantics and Faster Retrieval (Su et al., 2021), its code:
        https://github.com/bojone/BERT-whitening, https://github.com/autoliuweijie/BERT-whitening-pytorch

    Shapes:
        x: ``(N, D)``; transformed: ``(N, k)``.  N: sentences, D: embedding size, k: columns of the kernel.

    Example:
        >>> import numpy as np
        >>> given = GivenMap.of(np.array([[2.0], [0.0]]), np.array([[-1.0, 5.0]]))
        >>> given.transform(np.array([[3.0, 7.0]])).tolist()
        [[4.0]]
    """

    fits = False
    to_be_fitted = "it is only loaded: read or load one"

    @classmethod
    def of(cls, kernel: NDArray[Any], bias: NDArray[Any]) -> Self:
        """The map of a kernel ``(D, k)`` and a bias of D numbers.

        Raises:
            ValueError: If they are not of such shapes, or not finite numbers.
        """
        weight, shift = (np.asarray(each, dtype=np.float64) for each in (kernel, bias))
        if weight.ndim != 2 or shift.size != len(weight) or not weight.size:
            raise ValueError(f"kernel {weight.shape}, bias {shift.shape}; allowed: (D, k), and D numbers")
        if not (np.isfinite(weight).all() and np.isfinite(shift).all()):
            raise ValueError("kernel or bias hold NaN or infinity; allowed: finite numbers")
        found = cls()
        found._map = AffineMap(*map(torch.from_numpy, (-shift.reshape(-1), weight.copy(), np.linalg.pinv(weight))))
        return found

    @classmethod
    def read(cls, path: str | Path, scale: float = 1.0) -> Self:
        """Read ``kernel`` and ``bias`` from an ``.npz`` file, or from ``kernel.npy`` and ``bias.npy`` in a folder.

        Args:
            path: The file or folder.
            scale: What rows are multiplied with before they go through the map.

        Raises:
            UserError: If they are missing, pickled, or not as :meth:`of` wants them.
        """
        path = Path(path)
        try:
            if path.is_dir():
                arrays = {name: np.load(path / f"{name}.npy", allow_pickle=False) for name in (KERNEL, BIAS)}
            else:
                with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
                    arrays = {name: content[name] for name in (KERNEL, BIAS)}
            return cls.of(arrays[KERNEL] * scale, arrays[BIAS] / scale)
        except (KeyError, AttributeError, TypeError) as error:  # other names, or one array alone
            raise UserError(f"{path}: holds no {KERNEL} and {BIAS}; needed: {_NEEDED}") from error
        except Exception as error:  # of numpy, zipfile and zlib: a file that is none, or damaged
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise UserError(f"{path}: {_PICKLED if 'pickle' in reason else reason}; needed: {_NEEDED}") from error

    @property
    def fitted(self) -> bool:
        """Whether it was given."""
        return self._map is not None

    @property
    def dim(self) -> int | None:
        """Embedding size D."""
        return None if self._map is None else len(self._map.center)

    def output_dim(self, dim: int) -> int:
        """Columns of the kernel."""
        if dim != self.dim:
            raise UserError(f"map: received embeddings of size {dim}; allowed: {self.dim}, as it was given for")
        return self.affine_map().weight.shape[1]

    def fit(self, x: Rows) -> NoReturn:
        """Refuse: it is never fitted."""
        raise TypeError(f"a {type(self).__name__} is not fitted; allowed: {type(self).__name__}.read or load")

    partial_fit = fit

    def solve(self, moments: Moments) -> AffineMap:
        """The map as it was given; no statistics play a role."""
        return self.affine_map()
