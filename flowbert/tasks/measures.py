"""Measures of tasks: Spearman on bootstrap resamples, and metrics of the space of vectors.

Every metric is described in :data:`METRICS`; the metrics of the space, with their functions, in
:data:`SPACE_METRICS`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.arrays import Floats, Indices, to_tensor
from flowbert.seeding import Stream
from flowbert.threads import MAX_WORKERS, in_threads

Counts = NDArray[np.int32]
"""How often each unit is drawn in each resample, ``(R, units)``."""


def draw_counts(strata: Sequence[int], resamples: int, stream: Stream) -> Counts:
    """Draw with replacement from each stratum; returns multiplicities ``(R, units)``.

    Args:
        strata: Sizes of the groups of units that are resampled separately.
        resamples: Number of resamples R.
        stream: Source of the random numbers.
    """
    rng = stream.rng()
    drawn = []
    for size in strata:
        units = rng.integers(0, size, (resamples, size))
        units += np.arange(resamples)[:, None] * size
        counts = np.bincount(units.ravel(), minlength=resamples * size)
        drawn.append(counts.astype(np.int32).reshape(resamples, size))
    return np.concatenate(drawn, axis=1)


class ResampledSpearman:
    r"""Spearman of several methods with one target, on any resample of the pairs.

    The mid-rank of a value in a resample follows from how often smaller and equal values are
    drawn. Each variable is therefore sorted once, and a resample needs only a cumulative sum.

    Args:
        methods: Similarities of M methods, each ``(N,)``, finite.
        target: Gold scores ``(N,)``.
    """

    def __init__(self, methods: Sequence[Floats], target: Floats) -> None:
        self._target = _Sorted(target)
        self._methods = [_Sorted(values) for values in methods]

    def __call__(self, counts: Counts) -> Floats:
        """Correlations ``(M, R)`` for multiplicities ``(R, N)``; NaN where one is undefined."""
        cubes = _sum_of_cubes(counts)
        target, target_norms = self._target.ranks(counts, cubes)
        weighted: Floats = counts.astype(np.float64) * target
        correlations = []
        for method in self._methods:
            ranks, norms = method.ranks(counts, cubes)
            # Squared norms of doubled ranks are whole numbers: below 1/2 means a constant.
            defined = (norms > 0.5) & (target_norms > 0.5)
            norm = np.sqrt(np.where(defined, norms * target_norms, np.nan))
            product = np.vecdot(weighted, ranks.astype(np.float64))
            correlations.append(np.clip(product / norm, -1.0, 1.0))
        return np.stack(correlations)


class _Sorted:
    """One variable, sorted once."""

    def __init__(self, values: Floats) -> None:
        self._order = np.argsort(values, kind="stable")
        ordered = values[self._order]
        is_last = np.append(ordered[1:] != ordered[:-1], True)
        self._ends = np.flatnonzero(is_last)
        self._tied = len(self._ends) < len(values)
        self._group = np.empty(len(values), dtype=np.int64)
        self._group[self._order] = np.cumsum(is_last) - is_last

    def ranks(self, counts: Counts, cubes: Floats) -> tuple[Counts, Floats]:
        r"""Doubled centred mid-ranks ``(R, N)`` and their squared norms ``(R,)``.

        The sum of the squared doubled mid-ranks of n values in groups of sizes g is
        :math:`(n^3 - \sum g^3) / 3`.
        """
        sizes: Any = np.take(counts, self._order, axis=1)
        highest: Any = np.cumsum(sizes, axis=1, dtype=np.int32)
        total = highest[:, -1:].copy()
        if self._tied:
            highest = np.take(highest, self._ends, axis=1)
            sizes = np.diff(highest, axis=1, prepend=np.int32(0))
            cubes = _sum_of_cubes(sizes)
        doubled = 2 * highest
        doubled -= sizes
        doubled -= total
        norms: Floats = (total[:, 0].astype(np.float64) ** 3 - cubes) / 3
        return np.take(doubled, self._group, axis=1), norms


def _sum_of_cubes(counts: Counts) -> Floats:
    exact = counts.astype(np.float64)
    cubes: Floats = np.vecdot(exact * exact, exact)
    return cubes


Array = Tensor | NDArray[Any]


def to_rows(x: Array) -> Tensor:
    """Vectors ``(N, D)`` as a float64 tensor on their device (the CPU where it has no float64)."""
    rows = to_tensor(x)
    if rows.ndim != 2:
        raise ValueError(
            f"embeddings: received the shape {tuple(rows.shape)}; expected (N, D)"
        )
    return rows.to("cpu" if rows.device.type == "mps" else rows.device, torch.float64)


def unit_rows(x: Array) -> Tensor:
    r"""Rows :math:`x / |x|` of shape ``(N, D)``, float64; NaN for a row without direction."""
    rows = to_rows(x)
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / norms


def undefined_reason(x: Floats, y: Floats) -> str:
    """Why the correlation of two variables ``(N,)`` is undefined; an empty string if it is not."""
    if len(x) < 2:
        return f"{len(x)} pairs; at least 2 are needed"
    for name, values in (("similarities", x), ("gold scores", y)):
        invalid = int((~np.isfinite(values)).sum())
        if invalid:
            return f"{invalid} of {len(values)} {name} are NaN or infinite"
        if values.min() == values.max():
            return f"all {len(values)} {name} are {values[0]:g}"
    return ""


def spearman(x: Floats, y: Floats) -> float:
    r"""Spearman's :math:`\rho`: Pearson's correlation of the mid-ranks, in float64.

    Args:
        x: First variable, ``(N,)``.
        y: Second variable, ``(N,)``.

    Returns:
        The correlation in [-1, 1]; NaN where it is undefined, see :func:`undefined_reason`.

    Example:
        >>> x = np.array([1.0, 2.0, 2.0, 4.0])
        >>> round(spearman(x, np.array([1.0, 2.0, 3.0, 4.0])), 4)
        0.9487
    """
    if undefined_reason(x, y):
        return math.nan
    once = np.ones((1, len(x)), dtype=np.int32)
    return float(ResampledSpearman([x], y)(once)[0, 0])


AGGREGATIONS = {
    "all": "all pairs of a task together",
    "mean": "plain mean over subsets",
    "wmean": "mean over subsets, weighted by their pairs",
}
"""Ways to compute one score of the subsets of a task."""


def sts_spearman(x: Floats, y: Floats, subset_of: Indices) -> dict[str, float]:
    """Spearman's correlation by aggregation over the subsets of a task.

    ``all`` is one correlation of all pairs, ``mean`` the plain and ``wmean`` the size-weighted
    average of the subsets' correlations.

    Args:
        x: Similarities, ``(N,)``.
        y: Gold scores, ``(N,)``.
        subset_of: Index of the subset of each pair, ``(N,)``.

    Returns:
        The correlations; NaN where one that it depends on is undefined.

    Example:
        >>> x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 4.0, 3.0])
        >>> sts_spearman(x, y, np.array([0, 0, 1, 1]))["mean"]
        0.0
    """
    subsets, sizes = np.unique(subset_of, return_counts=True)
    parts = [subset_of == subset for subset in subsets]
    by_subset = [spearman(x[part], y[part]) for part in parts]
    scores = aggregate(spearman(x, y), by_subset, sizes)
    return {name: float(score) for name, score in scores.items()}


def aggregate(whole: Any, by_subset: Any, sizes: Any) -> dict[str, Any]:
    """Correlations of a task under each of :data:`AGGREGATIONS`.

    Args:
        whole: Correlation of all pairs, of any shape.
        by_subset: Correlations of the subsets, along an additional first axis.
        sizes: Number of pairs of each subset.
    """
    if not len(by_subset):
        return {"all": whole, "mean": math.nan, "wmean": math.nan}
    mean, wmean = (
        np.average(by_subset, axis=0, weights=weights) for weights in (None, sizes)
    )
    return {"all": whole, "mean": mean, "wmean": wmean}


def alignment(x: Array, y: Array) -> float:
    r"""Alignment :math:`\operatorname{mean}_i |\hat x_i - \hat y_i|^2` of positive pairs.

    Lower is better.

    Args:
        x: First vectors of the pairs, ``(N, D)``; need not be normalized.
        y: Second vectors of the pairs, ``(N, D)``.

    Returns:
        The alignment in [0, 4]; NaN without pairs.

    References:
        Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere (Wang and Isola, 2020). https://arxiv.org/abs/2005.10242
    """
    return float(squared_distances(x, y).mean())


def squared_distances(x: Array, y: Array) -> Tensor:
    """Squared distance of each pair of rows ``(N, D)`` on the unit sphere, ``(N,)``, float64."""
    differences = unit_rows(x) - unit_rows(y)
    return differences.square().sum(dim=1)


def mean_cosine(x: Array) -> float:
    """Mean cosine over all distinct pairs, see :func:`mean_pair_cosine`; NaN without a pair."""
    unit = unit_rows(x)
    if len(unit) < 2:
        return math.nan
    return float(mean_pair_cosine(unit.sum(dim=0), len(unit)))


def mean_pair_cosine(total: Tensor, count: Tensor | int) -> Tensor:
    r"""Mean cosine of all pairs of n different vectors, in O(D).

    .. math::
        \frac{1}{n (n - 1)} \sum_{i \ne j} \hat x_i \cdot \hat x_j
        = \frac{\lVert \sum_i \hat x_i \rVert^2 - n}{n (n - 1)}

    Args:
        total: Sum of the vectors of length 1, ``(D,)``.
        count: Number n of vectors, at least 2.

    Returns:
        Shape ``()``, in [-1, 1].
    """
    mean: Tensor = (total.square().sum() - count) / (count * (count - 1))
    return mean


def uniformity(
    x: Array, *, limit: int | None = None, dtype: torch.dtype = torch.float64
) -> float:
    r"""Uniformity :math:`\log \operatorname{mean}_{i < j} e^{-2 |\hat x_i - \hat x_j|^2}`.

    Lower is better. Exact over all distinct pairs, in O(N^2 D) time and O(N D) memory.

    Args:
        x: Vectors, ``(N, D)``; need not be normalized.
        limit: Largest number of vectors; more are sampled without replacement.
        dtype: Precision of the products; float32 takes half the time and changes the result by
            less than 1e-6.

    Returns:
        The uniformity in [-8, 0]; NaN for fewer than two vectors or one without direction.

    References:
        Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere (Wang and Isola, 2020). https://arxiv.org/abs/2005.10242

    Example:
        >>> round(uniformity(torch.tensor([[1.0, 0.0], [-2.0, 0.0]])), 12)
        -8.0
    """
    unit = unit_rows(x)
    if limit is not None and limit < len(unit):
        generator = Stream(0, "uniformity").generator()
        order = torch.randperm(len(unit), generator=generator)
        unit = unit[order[:limit].sort().values.to(unit.device)]
    count = len(unit)
    if count < 2 or not bool(torch.isfinite(unit).all()):
        return math.nan
    unit = unit.to(dtype)
    on_cpu = unit.device.type == "cpu"
    # Tiles stay in the caches of a CPU.
    rows, columns = (256, 512) if on_cpu else (2048, 2048)
    shift = torch.full((1,), -4.0, dtype=dtype, device=unit.device)

    def sum_of_rows(start: int) -> Tensor:
        block = unit[start : start + rows]
        total = torch.zeros((), dtype=torch.float64, device=unit.device)
        for begin in range(start, count, columns):
            # -2 |a - b|^2 = 4 a.b - 4 on the sphere
            others = unit[begin : begin + columns].T
            kernel = torch.addmm(shift, block, others, alpha=4).exp_()
            if begin == start:
                kernel.triu_(diagonal=1)
            total += kernel.sum(dim=1).sum(dtype=torch.float64)
        return total

    workers = MAX_WORKERS if on_cpu else 1
    with (
        torch.autocast(unit.device.type, enabled=False),
        in_threads(sum_of_rows, range(0, count, rows), workers) as sums,
    ):
        total = torch.stack(list(sums)).sum()
    return math.log(float(total) / (count * (count - 1) / 2))


def spectrum(x: Array) -> Tensor:
    """Eigenvalues of the covariance (divisor N) of vectors ``(N, D)``, largest first: ``(D,)``.

    NaN if a value is not finite, or without vectors.

    Example:
        >>> spectrum(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
        tensor([0.5000, 0.0000], dtype=torch.float64)
    """
    rows = to_rows(x)
    if not len(rows) or not bool(rows.isfinite().all()):
        return torch.full((rows.shape[1],), math.nan, dtype=torch.float64)
    centred = rows - rows.mean(dim=0)
    values: Tensor = torch.linalg.eigvalsh(centred.T @ centred / len(rows))
    return values.flip(0).clamp_min(0)


def effective_rank(eigenvalues: Tensor) -> float:
    r"""Effective rank :math:`\exp(-\sum_i p_i \log p_i)`, :math:`p_i = \sigma_i / \sum_j \sigma_j`.

    The :math:`\sigma_i` are singular values of the centred vectors, the roots of the eigenvalues
    up to a factor.

    References:
        The effective rank: A measure of effective dimensionality (Roy and Vetterli, 2007).
        https://ieeexplore.ieee.org/document/7098875

    Args:
        eigenvalues: From :func:`spectrum`, ``(D,)``.

    Returns:
        Between 1 and D; NaN if all eigenvalues are 0.

    Example:
        >>> round(effective_rank(torch.ones(4)), 6), effective_rank(torch.tensor([2.0, 0.0]))
        (4.0, 1.0)
    """
    singular = eigenvalues.sqrt()
    if not bool(singular.any()):
        return math.nan
    shares = singular[singular > 0] / singular.sum()
    return math.exp(-float((shares * shares.log()).sum()))


def participation_ratio(eigenvalues: Tensor) -> float:
    r"""Participation ratio :math:`(\sum_i \lambda_i)^2 / \sum_i \lambda_i^2`, between 1 and D.

    References:
        A theory of multineuronal dimensionality, dynamics and measurement (Gao et al., 2017).
        https://doi.org/10.1101/214262

    Args:
        eigenvalues: From :func:`spectrum`, ``(D,)``.

    Example:
        >>> participation_ratio(torch.ones(4)), participation_ratio(torch.tensor([2.0, 0.0]))
        (4.0, 1.0)
    """
    return float(eigenvalues.sum() ** 2 / eigenvalues.square().sum())


def isoscore(eigenvalues: Tensor) -> float:
    r"""IsoScore: 1 if all directions have the same variance, 0 if one has all of it.

    The paper scales the eigenvalues to norm :math:`\sqrt D` and has
    :math:`\delta = |\hat\lambda - 1| / \sqrt{2 (D - \sqrt D)}`,
    :math:`\phi = (D - \delta^2 (D - \sqrt D))^2 / D^2` and the score
    :math:`(D \phi - 1) / (D - 1)`, which is :math:`(r - 1) / (D - 1)` with the
    participation ratio r.

    References:
        IsoScore: Measuring the Uniformity of Embedding Space Utilization (Rudman et al., 2022).
        https://arxiv.org/abs/2108.07344

    Args:
        eigenvalues: From :func:`spectrum`, ``(D,)``.

    Returns:
        In [0, 1]; NaN if all eigenvalues are 0, or D is 1.

    Example:
        >>> isoscore(torch.ones(4)), round(isoscore(torch.tensor([5.0, 0.0, 0.0])), 6)
        (1.0, 0.0)
    """
    dim = len(eigenvalues)
    return (participation_ratio(eigenvalues) - 1) / (dim - 1) if dim > 1 else math.nan


def partition_isotropy(x: Array) -> float:
    r"""Isotropy of the partition function: :math:`\min_c Z(c) / \max_c Z(c)`.

    :math:`Z(c) = \sum_i e^{c \cdot x_i}`; c runs over the eigenvectors of :math:`X^\top X`, each
    with both signs, which the paper leaves open. 1 is isotropic. The scale of the vectors matters.

    References:
        All-but-the-Top: Simple and Effective Postprocessing for Word Representations
        (Mu and Viswanath, 2018). https://arxiv.org/abs/1702.01417

    Args:
        x: Vectors, ``(N, D)``.

    Example:
        >>> partition_isotropy(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        1.0
    """
    rows = to_rows(x)
    products = rows @ torch.linalg.eigh(rows.T @ rows).eigenvectors
    logs = torch.cat(
        [torch.logsumexp(products, dim=0), torch.logsumexp(-products, dim=0)]
    )
    return math.exp(float(logs.min() - logs.max()))


@dataclass(frozen=True, eq=False)
class Space:
    """Vectors of a task.

    Attributes:
        vectors: Vectors of its distinct sentences, ``(M, D)``.
        first: First vectors of its positive pairs, ``(P, D)``.
        second: Second vectors of its positive pairs, ``(P, D)``.
        limit: Largest number of vectors for a time of O(M^2 D); None for all.
    """

    vectors: Tensor
    first: Tensor
    second: Tensor
    limit: int | None = None


@dataclass(frozen=True)
class Metric:
    """A metric, as tables show it.

    Attributes:
        title: Name in titles and columns.
        sign: 1 if higher is better, -1 if lower is better, NaN if neither.
        scale: Factor of its values in tables.
        note: Line below tables that show it, after its title.
    """

    title: str
    sign: float = 1
    scale: float = 100
    note: str = ""

    @property
    def unit(self) -> str:
        """Title and scale of a table, such as ``Spearman x 100``."""
        title = self.title[:1].upper() + self.title[1:]
        return title if self.scale == 1 else f"{title} x {self.scale:g}"

    @property
    def upward(self) -> int:
        """Factor after which a higher score is better."""
        return -1 if self.sign == -1 else 1


@dataclass(frozen=True, kw_only=True)
class SpaceMetric(Metric):
    """A metric of the vectors of a task, which has no interval.

    Attributes:
        compute: Function of the space; NaN if the metric is undefined.
        undefined: Reason that is shown if it is undefined.
        of_pairs: Whether it is undefined without positive pairs.
        is_detail: Whether the terminal does not show it, and the page folds it.
    """

    compute: Callable[[Space], float]
    undefined: str = "fewer than two sentences, or a vector without direction"
    of_pairs: bool = False
    is_detail: bool = False
    scale: float = 1


_TRADED = (
    "mean over the tasks; lower is better, but spreading all sentences (uniformity) also moves "
    "pairs of equal meaning apart (alignment)"
)

SPACE_METRICS = {
    "alignment": SpaceMetric(
        "alignment",
        sign=-1,
        compute=lambda space: alignment(space.first, space.second),
        of_pairs=True,
        note=_TRADED,
    ),
    "uniformity": SpaceMetric(
        "uniformity",
        sign=-1,
        compute=lambda space: uniformity(
            space.vectors, limit=space.limit, dtype=torch.float32
        ),
        note=_TRADED,
    ),
    "mean_cosine": SpaceMetric(
        "mean cosine",
        sign=math.nan,
        compute=lambda space: mean_cosine(space.vectors),
    ),
    "isoscore": SpaceMetric(
        "isoscore",
        compute=lambda space: isoscore(spectrum(space.vectors)),
        undefined="all vectors are equal, have one dimension, or are not finite",
        is_detail=True,
    ),
}
"""Metrics of vectors by name, in the order of tables."""

METRICS: dict[str, Metric] = {"spearman": Metric("Spearman"), **SPACE_METRICS}
"""Metrics by name; a task may add its own."""


def metric_of(name: str) -> Metric:
    """A metric by name; a name that is not in :data:`METRICS` becomes the title of a new one."""
    return METRICS.get(name) or Metric(name.replace("_", " "))
