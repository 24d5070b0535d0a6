"""The metrics of the tasks as torchmetrics, for ``self.log`` of any LightningModule.

States are float64 and merge over batches, processes and :meth:`merge_state`. They need a device
with float64: a CPU or a CUDA device. A score that is undefined is NaN.

Lightning's distributed sampler repeats examples so that all processes have equally many, and the
repeated ones count twice. ``Trainer(use_distributed_sampler=False)`` with a custom sampler avoids
this; processes may have different numbers of examples, or none.
"""

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from flowbert.errors import check_choice
from flowbert.tasks.measures import (
    AGGREGATIONS,
    SPACE_METRICS,
    Space,
    squared_distances,
    sts_spearman,
    to_rows,
    uniformity,
)

__all__ = ["Alignment", "MeanCosine", "STSSpearman", "Uniformity", "VectorMetric"]


class _RowMetric(Metric):
    """A function of the rows of all batches and processes, in float64 also in half precision.

    Args:
        size: Numbers in a row; None for the size of the first rows.
        **kwargs: Further arguments of :class:`torchmetrics.Metric`.
    """

    is_differentiable = False
    full_state_update = False
    rows: list[Tensor]
    size: Tensor

    def __init__(self, size: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # A process without data takes part in a concatenation with this type.
        self.set_dtype(torch.float64)
        self.add_state("rows", [], dist_reduce_fx="cat")
        # It learns the size from the others.
        self.add_state("size", torch.tensor(float(size or 0)), dist_reduce_fx="max")

    def add(self, rows: Tensor) -> None:
        """Keep rows ``(N, size)``."""
        size = int(self.size) or rows.shape[-1]
        if rows.ndim != 2 or rows.shape[1] != size:
            received = tuple(rows.shape)
            raise ValueError(f"x: received the shape {received}; expected (N, {size})")
        # One dimension: what a process without data sends has one.
        self.rows.append(to_rows(rows).flatten())
        self.size = torch.full_like(self.size, size)

    @abstractmethod
    def measure(self, rows: Tensor) -> float:
        """The metric of all rows ``(N, size)``, float64."""

    def compute(self) -> Tensor:
        """The metric of all rows, a scalar."""
        rows = dim_zero_cat(self.rows) if len(self.rows) else torch.empty(0)
        value = self.measure(rows.double().view(-1, max(int(self.size), 1)))
        return torch.tensor(value, dtype=torch.float64, device=self.device)


class Alignment(_RowMetric):
    r"""Alignment :math:`\operatorname{mean}_i |\hat x_i - \hat y_i|^2` of positive pairs.

    In [0, 4], lower is better; NaN without pairs. The state is a number for each pair.

    Args:
        **kwargs: Further arguments of :class:`torchmetrics.Metric`.

    References:
        Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere (Wang and Isola, 2020). https://arxiv.org/abs/2005.10242

    Example:
        >>> metric = Alignment()
        >>> metric.update(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 3.0]]))
        >>> metric.compute()
        tensor(2., dtype=torch.float64)
    """

    higher_is_better = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(1, **kwargs)

    def update(self, x: Tensor, y: Tensor) -> None:
        """Add positive pairs.

        Args:
            x: First vectors of the pairs, ``(N, D)``; need not be normalized.
            y: Second vectors of the pairs, ``(N, D)``.
        """
        self.add(squared_distances(x, y)[:, None])

    def measure(self, rows: Tensor) -> float:
        """The alignment of pairs with these squared distances, ``(N, 1)``."""
        return float(rows.mean())


class VectorMetric(_RowMetric):
    r"""A metric of ``flowbert.tasks.measures.SPACE_METRICS`` that needs no pairs.

    Exact: the state is all vectors.

    Args:
        name: Its name, such as ``isoscore``. The metric of pairs is :class:`Alignment`.
        dim: Vector size D; None for the size of the first vectors.
        limit: As in :class:`Uniformity`.
        **kwargs: Further arguments of :class:`torchmetrics.Metric`.

    Raises:
        UserError: If no metric of vectors has this name.

    Example:
        >>> metric = VectorMetric("isoscore")
        >>> metric.update(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        >>> round(float(metric.compute()), 6)
        1.0
    """

    def __init__(
        self,
        name: str,
        dim: int | None = None,
        limit: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dim, **kwargs)
        of_vectors = [x for x in SPACE_METRICS if not SPACE_METRICS[x].of_pairs]
        check_choice("name", name, of_vectors)
        self.measured = SPACE_METRICS[name]
        self.limit = limit

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """Whether higher is better; None if the metric has no better direction."""
        sign = self.measured.sign
        return None if math.isnan(sign) else sign > 0

    def update(self, x: Tensor) -> None:
        """Add vectors ``(N, D)``, which need not be normalized."""
        self.add(x)

    def measure(self, rows: Tensor) -> float:
        """The metric of vectors ``(N, D)``."""
        none = rows[:0]
        return self.measured.compute(Space(rows, none, none, self.limit))


class MeanCosine(VectorMetric):
    r"""Mean cosine :math:`(|\sum_i \hat x_i|^2 - n) / (n (n - 1))` over all distinct pairs.

    In [-1, 1], 0 for evenly spread vectors; NaN for fewer than two or one without direction. The
    state is all vectors.

    Args:
        dim: Vector size D; None for the size of the first vectors.
        **kwargs: Further arguments of :class:`torchmetrics.Metric`.

    References:
        How Contextual are Contextualized Word Representations? (Ethayarajh, 2019), anisotropy.
        https://arxiv.org/abs/1909.00512

    Example:
        >>> metric = MeanCosine(dim=2)
        >>> metric.update(torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
        >>> metric.compute()
        tensor(0., dtype=torch.float64)
    """

    def __init__(self, dim: int | None = None, **kwargs: Any) -> None:
        super().__init__("mean_cosine", dim, **kwargs)


class Uniformity(VectorMetric):
    r"""Uniformity :math:`\log \operatorname{mean}_{i < j} e^{-2 |\hat x_i - \hat x_j|^2}`.

    In [-8, 0], lower is better; NaN for fewer than two vectors or one without direction. Exact:
    the state is all vectors, and the time O(N^2 D).

    Args:
        dim: Vector size D; None for the size of the first vectors.
        limit: Largest number of vectors; of more, a sample is used, which depends on their order.
            None for all.
        **kwargs: Further arguments of :class:`torchmetrics.Metric`.

    References:
        Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere (Wang and Isola, 2020). https://arxiv.org/abs/2005.10242

    Example:
        >>> metric = Uniformity()
        >>> metric.update(torch.tensor([[1.0, 0.0], [-2.0, 0.0]]))
        >>> metric.compute()
        tensor(-8., dtype=torch.float64)
    """

    def __init__(
        self, dim: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__("uniformity", dim, limit, **kwargs)

    def measure(self, rows: Tensor) -> float:
        """The uniformity of vectors ``(N, D)`` in float64."""
        return uniformity(rows, limit=self.limit)


class STSSpearman(_RowMetric):
    r"""Spearman's :math:`\rho` of similarities and gold scores over the subsets of an STS task.

    With mid-ranks, in float64; NaN if a correlation is undefined, for example of constant values.
    The state is three numbers for each pair.

    Args:
        aggregation: ``all`` for one correlation of all pairs, ``mean`` for the plain and
            ``wmean`` for the size-weighted average of the subsets' correlations.
        **kwargs: Further arguments of :class:`torchmetrics.Metric`.

    Raises:
        ValueError: If the aggregation is unknown.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021), appendix B,
        on the aggregations. https://arxiv.org/abs/2104.08821

    Example:
        >>> metric = STSSpearman("wmean")
        >>> metric.update(torch.tensor([0.1, 0.5, 0.5, 0.9]), torch.tensor([1.0, 2.0, 3.0, 4.0]))
        >>> round(float(metric.compute()), 4)
        0.9487
    """

    higher_is_better = True

    def __init__(self, aggregation: str = "all", **kwargs: Any) -> None:
        super().__init__(3, **kwargs)
        check_choice("aggregation", aggregation, AGGREGATIONS)
        self.aggregation = aggregation

    def update(
        self, preds: Tensor, target: Tensor, indexes: Tensor | None = None
    ) -> None:
        """Add pairs.

        Args:
            preds: Similarities, ``(N,)``, such as cosines.
            target: Gold scores, ``(N,)``.
            indexes: Number of the subset of each pair, ``(N,)``; None for one subset.

        Raises:
            ValueError: If shapes differ.
        """
        if indexes is None:
            indexes = torch.zeros_like(target)
        shapes = [tuple(each.shape) for each in (preds, target, indexes)]
        if preds.ndim != 1 or len(set(shapes)) > 1:
            raise ValueError(
                f"preds, target, indexes: received the shapes {shapes}; expected (N,) of all"
            )
        self.add(
            torch.stack([preds.double(), target.double(), indexes.double()], dim=1)
        )

    def measure(self, rows: Tensor) -> float:
        """The correlation of similarities, gold scores and subsets ``(N, 3)``."""
        preds, target, indexes = rows.T.cpu().numpy()
        scores = sts_spearman(preds, target, indexes.astype(int))
        return scores[self.aggregation]
