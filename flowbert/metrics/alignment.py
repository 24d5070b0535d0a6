"""Alignment as a torchmetrics class."""

import torch
from torch import Tensor

from flowbert.metrics.functional import alignment
from flowbert.metrics.indexed import IndexedMetric


class Alignment(IndexedMetric):
    """Alignment of all positive pairs of all processes, see :func:`flowbert.metrics.functional.alignment`.

    Args:
        kwargs: Options of ``torchmetrics.Metric``.

    Shapes:
        x, y: ``(B, D)``; index: ``(B,)``; result: ``()``, float64.  B: pairs in the batch, D: embedding size.

    Example:
        >>> metric = Alignment()
        >>> metric.update(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 0.5]]))
        >>> metric.compute().item()
        2.0
    """

    higher_is_better = False
    left: list[Tensor]
    right: list[Tensor]

    def __init__(self, **kwargs: object) -> None:
        super().__init__(("left", "right"), **kwargs)

    def update(self, x: Tensor, y: Tensor, index: Tensor | None = None) -> None:
        """Add positive pairs; with an index, a repeated one is counted once."""
        self.append(index, left=x, right=y)

    def compute(self) -> Tensor:
        """The alignment of everything seen, NaN with a warning if there is nothing."""
        left, right = self.distinct(empty=(0, 1))
        return torch.tensor(alignment(left, right), dtype=torch.float64)
