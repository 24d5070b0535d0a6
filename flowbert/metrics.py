"""The metrics of the tasks as torchmetrics, for ``self.log`` of any LightningModule.

States are float64 and merge over batches, processes and :meth:`merge_state`. They need a device
with float64: a CPU or a CUDA device. A score that is undefined is NaN.

Lightning's distributed sampler repeats examples so that all processes have equally many, and the
repeated ones count twice. ``Trainer(use_distributed_sampler=False)`` with a custom sampler avoids
this; processes may have different numbers of examples, or none.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from flowbert.errors import choices
from flowbert.tasks.measures import (
    AGGREGATIONS,
    SPACE_METRICS,
    Space,
    alignment_of,
    mean_cosine_of,
    squared_distances,
    sts_spearman,
    to_rows,
    uniformity,
    unit_rows,
)

__all__ = ["Alignment", "MeanCosine", "STSSpearman", "Uniformity", "VectorMetric"]


class _Float64Metric(Metric):
    """A metric whose states are float64, in modules of half precision, too."""

    is_differentiable = False
    full_state_update = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # A process without data takes part in a concatenation with this type.
        self.set_dtype(torch.float64)

    def _scalar(self, value: float) -> Tensor:
        return torch.tensor(value, dtype=torch.float64, device=self.device)


class Alignment(_Float64Metric):
    r"""Alignment :math:`\operatorname{mean}_i |\hat x_i - \hat y_i|^2` of positive pairs.

    In [0, 4], lower is better; NaN without pairs. The state is a sum and a count.

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
    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _add_sums(self, total=torch.zeros(()))

    def update(self, x: Tensor, y: Tensor) -> None:
        """Add positive pairs.

        Args:
            x: First vectors of the pairs, ``(N, D)``; need not be normalized.
            y: Second vectors of the pairs, ``(N, D)``.
        """
        distances = squared_distances(x, y)
        self.total = self.total.double() + distances.sum()
        self.count = self.count.double() + len(distances)

    def compute(self) -> Tensor:
        """The alignment of all pairs, a scalar."""
        return self._scalar(alignment_of(self.total, int(self.count)))


class MeanCosine(_Float64Metric):
    r"""Mean cosine :math:`(|\sum_i \hat x_i|^2 - n) / (n (n - 1))` over all distinct pairs.

    In [-1, 1], 0 for evenly spread vectors; NaN for fewer than two or one without direction. The
    state is a vector and a count.

    Args:
        dim: Vector size D.
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

    total: Tensor
    count: Tensor

    def __init__(self, dim: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dim = dim
        _add_sums(self, total=torch.zeros(dim))

    def update(self, x: Tensor) -> None:
        """Add vectors ``(N, D)``, which need not be normalized."""
        unit = unit_rows(_of_size(x, self.dim))
        self.total = self.total.double() + unit.sum(dim=0)
        self.count = self.count.double() + len(unit)

    def compute(self) -> Tensor:
        """The mean cosine of all vectors, a scalar."""
        return self._scalar(mean_cosine_of(self.total, int(self.count)))


class VectorMetric(_Float64Metric):
    r"""A metric of ``flowbert.tasks.measures.SPACE_METRICS`` that needs no pairs.

    Exact: the state is all vectors.

    Args:
        name: Its name, such as ``isoscore``.
        dim: Vector size D; None for that of the first vectors.
        limit: As of :class:`Uniformity`.
        **kwargs: Further arguments of :class:`torchmetrics.Metric`.

    Example:
        >>> metric = VectorMetric("isoscore")
        >>> metric.update(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        >>> round(float(metric.compute()), 6)
        1.0
    """

    rows: list[Tensor]
    size: Tensor

    def __init__(
        self,
        name: str,
        dim: int | None = None,
        limit: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.measured = SPACE_METRICS[name]
        self.limit = limit
        # A process without data learns it from the others.
        self.add_state("size", torch.tensor(float(dim or 0)), dist_reduce_fx="max")
        _add_lists(self, "rows")

    def update(self, x: Tensor) -> None:
        """Add vectors ``(N, D)``, which need not be normalized."""
        # One dimension: what a process without data sends has one.
        size = int(self.size) or x.shape[-1]
        self.rows.append(to_rows(_of_size(x, size)).flatten())
        self.size = torch.full_like(self.size, size)

    def vectors(self) -> Tensor:
        """All vectors, ``(N, D)``."""
        return _joined(self.rows).view(-1, max(int(self.size), 1))

    def compute(self) -> Tensor:
        """The metric of all vectors, a scalar."""
        x = self.vectors()
        return self._scalar(self.measured.compute(Space(x, x[:0], x[:0], self.limit)))


class Uniformity(VectorMetric):
    r"""Uniformity :math:`\log \operatorname{mean}_{i < j} e^{-2 |\hat x_i - \hat x_j|^2}`.

    In [-8, 0], lower is better; NaN for fewer than two vectors or one without direction. Exact:
    the state is all vectors, and the time O(N^2 D).

    Args:
        dim: Vector size D; None for that of the first vectors.
        limit: Largest number of vectors; of more, a sample that depends on their order. None for
            all.
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

    higher_is_better = False

    def __init__(
        self, dim: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__("uniformity", dim, limit, **kwargs)

    def compute(self) -> Tensor:
        """The uniformity of all vectors in float64, a scalar."""
        return self._scalar(uniformity(self.vectors(), limit=self.limit))


class STSSpearman(_Float64Metric):
    r"""Spearman's :math:`\rho` of similarities and gold scores over the subsets of an STS task.

    With mid-ranks, in float64; NaN where a correlation is undefined, as of constant similarities.
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
    preds: list[Tensor]
    target: list[Tensor]
    indexes: list[Tensor]

    def __init__(self, aggregation: str = "all", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if aggregation not in AGGREGATIONS:
            allowed = choices(AGGREGATIONS, aggregation)
            raise ValueError(
                f"aggregation: received {aggregation!r}; expected {allowed}"
            )
        self.aggregation = aggregation
        _add_lists(self, "preds", "target", "indexes")

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
        self.preds.append(preds.detach().double())
        self.target.append(target.detach().double())
        self.indexes.append(indexes.detach().double())

    def compute(self) -> Tensor:
        """The correlation under the aggregation, a scalar."""
        states = (self.preds, self.target, self.indexes)
        preds, target, indexes = (_joined(each).cpu().numpy() for each in states)
        scores = sts_spearman(preds, target, indexes.astype(int))
        return self._scalar(scores[self.aggregation])


def _add_sums(metric: Metric, total: Tensor) -> None:
    """States ``total`` and ``count``, which add up."""
    for name, zero in (("total", total), ("count", torch.zeros(()))):
        metric.add_state(name, zero.double(), dist_reduce_fx="sum")


def _add_lists(metric: Metric, *names: str) -> None:
    """States that are lists of tensors, concatenated over processes."""
    for name in names:
        metric.add_state(name, [], dist_reduce_fx="cat")


def _joined(state: Tensor | Sequence[Tensor]) -> Tensor:
    """A state of :func:`_add_lists` as one tensor, float64."""
    if not isinstance(state, Tensor):
        state = dim_zero_cat(list(state)) if state else torch.empty(0)
    return state.double()


def _of_size(x: Tensor, dim: int) -> Tensor:
    if x.ndim != 2 or x.shape[1] != dim:
        raise ValueError(f"x: received the shape {tuple(x.shape)}; expected (N, {dim})")
    return x
