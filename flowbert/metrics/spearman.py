"""Spearman's rank correlation as a torchmetrics class."""

import torch
from torch import Tensor

from flowbert.metrics.functional import spearman
from flowbert.metrics.indexed import IndexedMetric


class Spearman(IndexedMetric):
    r"""Spearman's :math:`\rho` over all examples of all processes, see :func:`flowbert.metrics.functional.spearman`.

    Args:
        kwargs: Options of ``torchmetrics.Metric``.

    Shapes:
        predictions, target, index: ``(B,)``; result: ``()``, float64.  B: examples in the batch.

    Example:
        >>> metric = Spearman()
        >>> metric.update(torch.tensor([0.1, 0.4]), torch.tensor([1.0, 2.0]), index=torch.tensor([0, 1]))
        >>> metric.update(torch.tensor([0.2, 0.4]), torch.tensor([3.0, 2.0]), index=torch.tensor([2, 1]))
        >>> round(metric.compute().item(), 6)
        0.5
    """

    higher_is_better = True
    predictions: list[Tensor]
    target: list[Tensor]

    def __init__(self, **kwargs: object) -> None:
        super().__init__(("predictions", "target"), **kwargs)

    def update(self, predictions: Tensor, target: Tensor, index: Tensor | None = None) -> None:
        """Add pairs; with an index, a repeated one is counted once."""
        self.append(index, predictions=predictions, target=target)

    def compute(self) -> Tensor:
        """The correlation of everything seen, NaN with a warning if it does not exist."""
        predictions, target = self.distinct()
        return torch.tensor(spearman(predictions, target), dtype=torch.float64)
