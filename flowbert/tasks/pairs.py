"""Figures of sentence pairs with gold scores: one look-up of the embeddings feeds many maps."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.data.sts import STSTask, Subset, sentence_pairs
from flowbert.errors import FlowbertWarning
from flowbert.metrics import alignment, mean_cosine, no_spearman, uniformity
from flowbert.metrics.arrays import unit_rows
from flowbert.tasks.base import Figure, Measured
from flowbert.tasks.protocol import AGGREGATIONS, Embed, Floats, Transform, aggregate, cosine_of_units

POSITIVE_ABOVE = 4.0


@dataclass(frozen=True, eq=False)
class PairEmbeddings:
    """A split with the embedding of each distinct sentence.

    Attributes:
        task: Name of the task.
        split: Name of the split.
        subsets: Sentences and gold scores by subset, N pairs in all.
        left: Row of each pair's first sentence, shape ``(N,)``, int64.
        right: Row of each pair's second sentence, shape ``(N,)``, int64.
        embeddings: One row per distinct sentence, shape ``(M, D)``.
    """

    task: str
    split: str
    subsets: tuple[Subset, ...]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    embeddings: Tensor


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
        subsets: ``name``, ``pairs`` and ``spearman`` of each subset.
        alignment: Over the pairs with a gold score above the threshold (4 unless told otherwise).
        positives: Number of those pairs.
        uniformity: Over all pairs of distinct sentences of the split.
        mean_cosine: Over the same pairs.
        sentences: Number of distinct sentences.
        uniformity_sentences: How many of them the uniformity saw; fewer than ``sentences`` means sampled.
        reason: Why a Spearman is NaN, in one line; empty if none is.
        similarities: Cosine of each pair, shape ``(N,)``.
    """

    task: str
    split: str
    all: float
    mean: float
    wmean: float
    pairs: int
    subsets: tuple[Mapping[str, Any], ...]
    alignment: float
    positives: int
    uniformity: float
    mean_cosine: float
    sentences: int
    uniformity_sentences: int
    reason: str = ""
    similarities: Floats = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    @property
    def measured(self) -> Measured:
        """The same in long form, as every task gives it."""
        columns = dict(vars(self))
        reason, items = columns.pop("reason"), columns.pop("similarities")
        figures = [Figure.of("spearman", name, columns.pop(name), reason) for name in AGGREGATIONS]
        return Measured(tuple(figures), items, columns)


def gold_scores(subsets: Sequence[Subset]) -> Floats:
    """Gold scores of all subsets, shape ``(N,)``."""
    return np.concatenate([subset.scores for subset in subsets])


def by_subset(values: Floats, subsets: Sequence[Subset]) -> list[Floats]:
    """Values of all pairs, shape ``(N,)``, parted by subset."""
    return np.split(values, np.cumsum([len(subset) for subset in subsets])[:-1])


def embed_pairs(task: STSTask, split: str, embed: Embed) -> PairEmbeddings:
    """Look up the embedding of every distinct sentence of a split, in one call.

    Args:
        task: The task.
        split: ``train``, ``dev`` or ``test``.
        embed: From M sentences to embeddings of shape ``(M, D)``, torch or numpy.

    Raises:
        UserError: If the task lacks the split.
        ValueError: If ``embed`` gives another number of rows.
    """
    subsets = tuple(task.split(split))
    rows = {sentence: row for row, sentence in enumerate(dict.fromkeys(task.sentences([split])))}
    embeddings = torch.as_tensor(embed(list(rows)))
    if embeddings.ndim != 2 or len(embeddings) != len(rows):
        received = tuple(embeddings.shape)
        raise ValueError(f"embed gave the shape {received} for {len(rows)} sentences; allowed: ({len(rows)}, D)")
    left, right = (
        np.array([rows[sentence] for sentence in sentences], dtype=np.int64) for sentences in sentence_pairs(subsets)
    )
    return PairEmbeddings(task.name, split, subsets, left, right, embeddings)


def similarities(pairs: PairEmbeddings, transform: Transform | None = None) -> Floats:
    """Cosine of each pair, shape ``(N,)``, after an optional map of the embeddings.

    Raises:
        ValueError: If the map gives another number of rows.
    """
    unit = _mapped_units(pairs, transform)
    return cosine_of_units(unit[pairs.left], unit[pairs.right])


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
        ValueError: If the map gives another number of rows.
    """
    # The map of a calibration or a flow is a method of it, and it knows what it was fitted on.
    flaw = flaw or getattr(getattr(transform, "__self__", None), "flaw", None)
    sentences, positive = len(pairs.embeddings), gold_scores(pairs.subsets) > positive_above
    count = sentences if uniformity_limit is None else min(uniformity_limit, sentences)
    nothing = torch.full((sentences, 1), math.nan, dtype=torch.float64)
    unit = nothing if flaw is not None else _mapped_units(pairs, transform)
    values = cosine_of_units(unit[pairs.left], unit[pairs.right])
    gold = [subset.scores for subset in pairs.subsets]
    found = aggregate(gold, by_subset(values, pairs.subsets), warn=flaw is None)
    geometry = dict.fromkeys(("alignment", "uniformity", "mean_cosine"), math.nan)
    if bool(torch.isfinite(unit).all()):
        geometry = {
            "alignment": _alignment(unit, pairs, positive, positive_above),
            "uniformity": uniformity(
                unit, vectors=None if count == sentences else count, seed=seed, dtype=torch.float32
            ),
            "mean_cosine": mean_cosine(unit),
        }
    return TaskFigures(
        task=pairs.task,
        split=pairs.split,
        **{name: getattr(found, name) for name in AGGREGATIONS},
        **geometry,
        pairs=len(positive),
        subsets=tuple(
            {"name": subset.name, "pairs": len(subset), "spearman": figure}
            for subset, figure in zip(pairs.subsets, found.subsets, strict=True)
        ),
        positives=int(positive.sum()),
        sentences=sentences,
        uniformity_sentences=count,
        reason=flaw or _reason(pairs, values),
        similarities=values,
    )


def evaluate_task(task: STSTask, split: str, embed: Embed, transform: Transform | None = None) -> TaskFigures:
    """All figures of a split in one go: :func:`embed_pairs`, then :func:`evaluate_pairs`.

    Example:
        >>> from flowbert.data.sts import STSTask, Subset, sentence_pairs
        >>> pairs = Subset("T", ("a", "a", "a"), ("a", "bb", "ccc"), np.array([5.0, 3.0, 1.0]))
        >>> figures = evaluate_task(
        ...     STSTask("T", {"test": [pairs]}), "test", lambda texts: np.array([[1.0, len(text)] for text in texts])
        ... )
        >>> round(figures.wmean, 6), figures.sentences
        (1.0, 3)
    """
    return evaluate_pairs(embed_pairs(task, split, embed), transform)


def _mapped_units(pairs: PairEmbeddings, transform: Transform | None) -> Tensor:
    mapped = pairs.embeddings if transform is None else transform(pairs.embeddings)
    if len(mapped) != len(pairs.embeddings):
        raise ValueError(f"the map gave {len(mapped)} rows for {len(pairs.embeddings)} embeddings; allowed: as many")
    return unit_rows(mapped)


def _reason(pairs: PairEmbeddings, values: Floats) -> str:
    """Why a figure does not exist: the first subset without one."""
    for subset, predicted in zip(pairs.subsets, by_subset(values, pairs.subsets), strict=True):
        problem = no_spearman(predicted, subset.scores)
        if problem is not None:
            return f"{pairs.task}{f' {subset.name}' * (len(pairs.subsets) > 1)}: {problem}"
    return ""


def _alignment(unit: Tensor, pairs: PairEmbeddings, positive: NDArray[np.bool_], above: float) -> float:
    if not positive.any():
        warnings.warn(
            f"alignment of {pairs.task} {pairs.split} is NaN: none of the pairs has a gold score above {above:g}",
            FlowbertWarning,
            stacklevel=3,
        )
        return math.nan
    return alignment(unit[pairs.left[positive]], unit[pairs.right[positive]])
