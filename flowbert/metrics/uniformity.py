"""Uniformity as a torchmetrics class."""

import torch
from torch import Tensor

from flowbert.metrics.functional import uniformity
from flowbert.metrics.indexed import IndexedMetric


class Uniformity(IndexedMetric):
    """Uniformity over all vectors of all processes, exact, see :func:`flowbert.metrics.functional.uniformity`.

    Args:
        t: Factor of the squared distance, above 0.
        kwargs: Options of ``torchmetrics.Metric``.

    Shapes:
        x: ``(B, D)``; index: ``(B,)``; result: ``()``, float64.  B: vectors in the batch, D: embedding size.

    Example:
        >>> metric = Uniformity()
        >>> metric.update(torch.tensor([[1.0, 0.0]]), index=torch.tensor([0]))
        >>> metric.update(torch.tensor([[-2.0, 0.0], [1.0, 0.0]]), index=torch.tensor([1, 0]))
        >>> round(metric.compute().item(), 6)
        -8.0
    """

    higher_is_better = False
    vectors: list[Tensor]

    def __init__(self, t: float = 2.0, **kwargs: object) -> None:
        super().__init__(("vectors",), **kwargs)
        self.t = t

    def update(self, x: Tensor, index: Tensor | None = None) -> None:
        """Add vectors; with an index, a repeated one is counted once."""
        self.append(index, vectors=x)

    def compute(self) -> Tensor:
        """The uniformity of everything seen, NaN with a warning for fewer than two vectors."""
        (vectors,) = self.distinct(empty=(0, 1))
        return torch.tensor(uniformity(vectors, self.t), dtype=torch.float64)
