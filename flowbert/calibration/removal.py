"""Removal of the strongest directions, the ones that all sentences share."""

from dataclasses import dataclass

import torch

from flowbert.calibration.base import AffineMap, Calibration
from flowbert.calibration.few_rows import few_sentences
from flowbert.calibration.moments import Moments
from flowbert.calibration.spectrum import spectrum
from flowbert.calibration.standardization import standard_deviations
from flowbert.errors import UserError


@dataclass(eq=False)
class RemoveDirections(Calibration, method="nulling"):
    r"""Nulling of the top k directions :math:`y = (x - \mu)(I - U_{:, :k} U_{:, :k}^T)`, U of the covariance.

    References:
        All-but-the-Top: Simple and Effective Postprocessing for Word Representations (Mu, Viswanath, 2018).
        https://arxiv.org/abs/1702.01417

    Args:
        n_directions: How many directions k to null; None takes ``round(D / 100)``, at least 1, as the paper advises.
        standardize: Divide each dimension by its standard deviation first.

    Shapes:
        x, transformed: ``(N, D)``.  N: sentences, D: embedding size.

    Raises:
        UserError: If ``n_directions`` is below 1 or not below D.

    Example:
        >>> x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([9.0, 1.0, 1.0])
        >>> y = RemoveDirections(1).fit(x).transform(x)
        >>> bool(torch.linalg.matrix_rank(y, atol=1e-3) == 2)
        True
    """

    n_directions: int | None = None
    standardize: bool = False

    size_option = "n_directions"

    @property
    def flaw(self) -> str | None:
        """Without all the directions that the sentences span, nothing of them is left."""
        if self.moments is None:
            return None
        count, dim = self._count(self.moments.dim), self.moments.dim
        effect, needed = f"without {count} directions is nothing", f"more than {count + 1} distinct sentences"
        return few_sentences(self.method, self.moments.distinct, dim, count, effect, needed)

    def _count(self, dim: int) -> int:
        return max(1, round(dim / 100)) if self.n_directions is None else self.n_directions

    def output_dim(self, dim: int) -> int:
        """The size of the rows: what is nulled stays as zeros."""
        count = self._count(dim)
        if count >= dim:
            raise UserError(f"n_directions: received {count}; allowed: 1 to {dim - 1}, below the embedding size")
        return dim

    def solve(self, moments: Moments) -> AffineMap:
        """The projection of these statistics."""
        count = self._count(self.output_dim(moments.dim))
        std = standard_deviations(moments) if self.standardize else torch.ones(moments.dim, dtype=torch.float64)
        scaled = moments.with_scatter(moments.scatter / torch.outer(std, std)) if self.standardize else moments
        top = spectrum(scaled).vectors[:, :count]
        projection = torch.eye(moments.dim, dtype=torch.float64) - top @ top.T
        return AffineMap(moments.mean, projection / std[:, None], projection * std)
