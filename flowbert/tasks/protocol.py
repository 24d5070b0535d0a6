"""The STS protocol: cosine of two embeddings, Spearman against gold, aggregated over subsets in three named ways."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.data.sts import STSTask, Subset
from flowbert.errors import FlowbertWarning, UserError
from flowbert.metrics import alignment, mean_cosine, no_spearman, spearman, spearman_or_nan, uniformity
from flowbert.metrics.arrays import unit_rows

Embed = Callable[[Sequence[str]], Tensor | NDArray[Any]]
Transform = Callable[[Tensor], Tensor]

AGGREGATIONS = ("all", "mean", "wmean")
POSITIVE_ABOVE = 4.0
_COSINE_DECIMALS = 10


class Aggregates(TypedDict):
    """One task's Spearman under each aggregation, in [-1, 1]."""

    all: float
    mean: float
    wmean: float


@dataclass(frozen=True, eq=False)
class SubsetPairs:
    """Pairs of a subset as rows of the task's distinct sentences.

    Attributes:
        name: Name of the subset.
        left: Rows of the first sentences, shape ``(N,)``, int64.
        right: Rows of the second sentences, shape ``(N,)``, int64.
        scores: Gold scores, shape ``(N,)``, float64.
    """

    name: str
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    scores: NDArray[np.float64]

    @classmethod
    def of(cls, subset: Subset, rows: Mapping[str, int]) -> "SubsetPairs":
        """Pairs of a subset, given the row of each sentence."""
        left, right = (
            np.array([rows[sentence] for sentence in side], dtype=np.int64)
            for side in (subset.sentences1, subset.sentences2)
        )
        return cls(subset.name, left, right, np.asarray(subset.scores, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class PairEmbeddings:
    """A split with the embedding of each distinct sentence, looked up once and then evaluated under many maps.

    Attributes:
        task: Name of the task.
        split: Name of the split.
        subsets: Pairs and gold scores by subset.
        embeddings: One row per distinct sentence, shape ``(M, D)``.
    """

    task: str
    split: str
    subsets: tuple[SubsetPairs, ...]
    embeddings: Tensor


@dataclass(frozen=True)
class SubsetFigures:
    """Spearman of one subset, in [-1, 1]."""

    name: str
    pairs: int
    spearman: float


@dataclass(frozen=True)
class TaskFigures:
    """Figures of one task and split.

    Attributes:
        task: Name of the task.
        split: Name of the split.
        all: One Spearman over the concatenated pairs, in [-1, 1].
        mean: Plain average of the subsets' Spearmans.
        wmean: Average of the subsets' Spearmans weighted by their pairs.
        pairs: Number of pairs.
        subsets: Figures by subset.
        alignment: Over the pairs with a gold score above the threshold (4 unless told otherwise).
        positives: Number of those pairs.
        uniformity: Over all pairs of distinct sentences of the split.
        mean_cosine: Over the same pairs.
        sentences: Number of distinct sentences.
        uniformity_sentences: How many of them the uniformity saw; fewer than ``sentences`` means sampled.
        reason: Why a Spearman is NaN, in one line; empty if none is.
    """

    task: str
    split: str
    all: float
    mean: float
    wmean: float
    pairs: int
    subsets: tuple[SubsetFigures, ...]
    alignment: float
    positives: int
    uniformity: float
    mean_cosine: float
    sentences: int
    uniformity_sentences: int
    reason: str = ""

    def spearman(self, aggregation: str) -> float:
        """The figure under ``all``, ``mean`` or ``wmean``."""
        if aggregation not in AGGREGATIONS:
            raise UserError(f"aggregation is {aggregation!r}; allowed: {', '.join(AGGREGATIONS)}")
        return float(getattr(self, aggregation))


def cosine(left: Tensor, right: Tensor) -> NDArray[np.float64]:
    r"""Cosine :math:`\hat x_i \cdot \hat y_i` of each pair, in float64, rounded to 10 decimals.

    The rounding makes pairs of equal sentences tie at exactly 1: unrounded they differ in the sixteenth digit by the
    order of summation, and with it their ranks, so a figure would depend on the machine.

    Args:
        left: Vectors of shape ``(N, D)``.
        right: Vectors of shape ``(N, D)``.

    Returns:
        Cosines of shape ``(N,)``; NaN, with a warning, where a vector has no direction.
    """
    products = (unit_rows(left, "left vectors") * unit_rows(right, "right vectors")).sum(dim=1)
    return _rounded(products)


def aggregate(gold: Sequence[NDArray[Any]], predicted: Sequence[NDArray[Any]], *, warn: bool = True) -> Aggregates:
    """Spearman over subsets, aggregated in the three ways that papers use without saying which.

    ``all`` is one Spearman over the concatenated pairs, ``mean`` the plain average of the subsets' Spearmans, ``wmean``
    their average weighted by pairs. A subset without a figure (constant or non-finite values, fewer than two pairs)
    makes ``mean`` and ``wmean`` NaN, with a warning.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings, appendix B (Gao et al., 2021).
        https://arxiv.org/abs/2104.08821

    Args:
        gold: Gold scores by subset, each of shape ``(N_s,)``.
        predicted: Similarities by subset, each of shape ``(N_s,)``.
        warn: Whether to warn of a figure that does not exist.

    Raises:
        UserError: If there are no subsets, or the numbers of subsets or of their pairs differ.

    Example:
        >>> gold = [np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0])]
        >>> round(aggregate(gold, [np.array([0.1, 0.2, 0.3]), np.array([0.9, 0.8])])["wmean"], 6)
        0.2
    """
    return _aggregate(gold, predicted, _by_subset(gold, predicted, warn), warn)


def embed_pairs(task: STSTask, split: str, embed: Embed) -> PairEmbeddings:
    """Look up the embedding of every distinct sentence of a split, in one call.

    Args:
        task: The task.
        split: ``train``, ``dev`` or ``test``.
        embed: From M sentences to embeddings of shape ``(M, D)``, torch or numpy.

    Raises:
        UserError: If the task lacks the split, or ``embed`` gives another number of rows.
    """
    subsets = task.split(split)
    rows: dict[str, int] = {}
    for subset in subsets:
        for sentence in (*subset.sentences1, *subset.sentences2):
            rows.setdefault(sentence, len(rows))
    embeddings = torch.as_tensor(embed(list(rows)))
    if embeddings.ndim != 2 or len(embeddings) != len(rows):
        received = tuple(embeddings.shape)
        raise UserError(f"embed gave the shape {received} for {len(rows)} sentences; allowed: ({len(rows)}, D)")
    return PairEmbeddings(task.name, split, tuple(SubsetPairs.of(subset, rows) for subset in subsets), embeddings)


def similarities(pairs: PairEmbeddings, transform: Transform | None = None) -> list[NDArray[np.float64]]:
    """Cosines by subset, each of shape ``(N_s,)``, after an optional map of the embeddings."""
    return _similarities(pairs, unit_rows(_mapped(pairs, transform)))


def evaluate_pairs(
    pairs: PairEmbeddings,
    transform: Transform | None = None,
    *,
    positive_above: float = POSITIVE_ABOVE,
    uniformity_limit: int | None = None,
    seed: int = 0,
    flaw: str | None = None,
) -> TaskFigures:
    """All figures of a split under one map of its embeddings.

    The map is applied once to each distinct sentence. Uniformity and mean cosine are over all pairs of distinct
    sentences of the split; alignment is over the pairs whose gold score exceeds ``positive_above`` (gao2021 take STS-B
    and 4; on scales that end below that there are no positives and it is NaN, with a warning).

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021). https://arxiv.org/abs/2104.08821

    Args:
        pairs: From :func:`embed_pairs`.
        transform: From ``(M, D)`` to ``(M, k)``, e.g. a fitted calibration's ``transform``; None leaves them raw.
        positive_above: Gold score above which a pair counts as positive.
        uniformity_limit: If there are more distinct sentences, draw this many for the uniformity; None is exact.
        seed: Seed of that draw.
        flaw: Why the map's figures mean nothing (:attr:`flowbert.calibration.Calibration.flaw`): all are NaN then, with
            this as the reason.

    Raises:
        UserError: If the map gives another number of rows.
    """
    # The map of a calibration or a flow is a method of it, and it knows what it was fitted on.
    flaw = flaw or getattr(getattr(transform, "__self__", None), "flaw", None)
    if flaw is not None:
        return _no_figures(pairs, positive_above, uniformity_limit, flaw)
    unit = unit_rows(_mapped(pairs, transform))
    predicted = _similarities(pairs, unit)
    gold = [subset.scores for subset in pairs.subsets]
    figures = _by_subset(gold, predicted, warn=True)
    left, right, scores = (
        np.concatenate([getattr(subset, name) for subset in pairs.subsets]) for name in ("left", "right", "scores")
    )
    positive = scores > positive_above
    count = len(unit) if uniformity_limit is None else min(uniformity_limit, len(unit))
    usable = bool(torch.isfinite(unit).all())
    return TaskFigures(
        task=pairs.task,
        split=pairs.split,
        **_aggregate(gold, predicted, figures, warn=True),
        pairs=len(scores),
        subsets=tuple(
            SubsetFigures(subset.name, len(subset.scores), figure)
            for subset, figure in zip(pairs.subsets, figures, strict=True)
        ),
        alignment=_alignment(unit, left[positive], right[positive], pairs, positive_above) if usable else math.nan,
        positives=int(positive.sum()),
        uniformity=_uniformity(unit, count, seed) if usable else math.nan,
        mean_cosine=mean_cosine(unit) if usable else math.nan,
        sentences=len(unit),
        uniformity_sentences=count,
        reason=_reason(pairs, gold, predicted),
    )


def evaluate_task(task: STSTask, split: str, embed: Embed, transform: Transform | None = None) -> TaskFigures:
    """All figures of a split in one go: :func:`embed_pairs`, then :func:`evaluate_pairs`.

    Example:
        >>> import flowbert
        >>> encoder = flowbert.SentenceEncoder.from_pretrained("builtin-sample")
        >>> flowbert.evaluate_task(flowbert.load_task("SAMPLE"), "test", encoder.encode).all > 0.3
        True
    """
    return evaluate_pairs(embed_pairs(task, split, embed), transform)


def _no_figures(pairs: PairEmbeddings, positive_above: float, limit: int | None, flaw: str) -> TaskFigures:
    sizes, sentences = [len(subset.scores) for subset in pairs.subsets], len(pairs.embeddings)
    return TaskFigures(
        task=pairs.task,
        split=pairs.split,
        **dict.fromkeys(("all", "mean", "wmean", "alignment", "uniformity", "mean_cosine"), math.nan),
        pairs=sum(sizes),
        subsets=tuple(SubsetFigures(s.name, size, math.nan) for s, size in zip(pairs.subsets, sizes, strict=True)),
        positives=sum(int((subset.scores > positive_above).sum()) for subset in pairs.subsets),
        sentences=sentences,
        uniformity_sentences=sentences if limit is None else min(limit, sentences),
        reason=flaw,
    )


def _reason(pairs: PairEmbeddings, gold: Sequence[NDArray[Any]], predicted: Sequence[NDArray[Any]]) -> str:
    """Why a figure does not exist: the first subset without one."""
    for subset, scores, values in zip(pairs.subsets, gold, predicted, strict=True):
        problem = no_spearman(values, scores)
        if problem is not None:
            return f"{pairs.task}{f' {subset.name}' * (len(gold) > 1)}: {problem}"
    return ""


def _mapped(pairs: PairEmbeddings, transform: Transform | None) -> Tensor:
    mapped = pairs.embeddings if transform is None else transform(pairs.embeddings)
    if len(mapped) != len(pairs.embeddings):
        raise UserError(f"the map gave {len(mapped)} rows for {len(pairs.embeddings)} embeddings; allowed: as many")
    return mapped


def _similarities(pairs: PairEmbeddings, unit: Tensor) -> list[NDArray[np.float64]]:
    return [_rounded((unit[subset.left] * unit[subset.right]).sum(dim=1)) for subset in pairs.subsets]


def _rounded(products: Tensor) -> NDArray[np.float64]:
    return np.round(products.clamp(-1.0, 1.0).cpu().numpy(), _COSINE_DECIMALS)


def _by_subset(gold: Sequence[NDArray[Any]], predicted: Sequence[NDArray[Any]], warn: bool) -> list[float]:
    if len(gold) != len(predicted) or not gold:
        raise UserError(
            f"{len(gold)} subsets of gold scores and {len(predicted)} of similarities; allowed: as many, >= 1"
        )
    figure = spearman if warn else spearman_or_nan
    return [figure(p, g) for g, p in zip(gold, predicted, strict=True)]


def _aggregate(
    gold: Sequence[NDArray[Any]], predicted: Sequence[NDArray[Any]], by_subset: Sequence[float], warn: bool
) -> Aggregates:
    if len(gold) == 1:
        return Aggregates(all=by_subset[0], mean=by_subset[0], wmean=by_subset[0])
    sizes = [len(scores) for scores in gold]
    return Aggregates(
        all=(spearman if warn else spearman_or_nan)(np.concatenate(list(predicted)), np.concatenate(list(gold))),
        mean=sum(by_subset) / len(by_subset),
        wmean=sum(size * figure for size, figure in zip(sizes, by_subset, strict=True)) / sum(sizes),
    )


def _alignment(
    unit: Tensor, left: NDArray[np.int64], right: NDArray[np.int64], pairs: PairEmbeddings, above: float
) -> float:
    if len(left) == 0:
        warnings.warn(
            f"alignment of {pairs.task} {pairs.split} is NaN: none of the pairs has a gold score above {above:g}",
            FlowbertWarning,
            stacklevel=3,
        )
        return math.nan
    return alignment(unit[left], unit[right])


def _uniformity(unit: Tensor, count: int, seed: int) -> float:
    return uniformity(unit, vectors=count, seed=seed)
