"""Sentence pairs with gold scores: similarity of meaning, and pairs to learn from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.scored_pairs import (
    PAIR_COLUMNS,
    STSData,
    Subset,
    load_sts,
    scored_pairs,
)
from flowbert.data.tables import make_frame
from flowbert.data.text_files import as_list
from flowbert.errors import UserError, choices, warn
from flowbert.numbers import Share, TwoOrMore, check_limits
from flowbert.options import POSITIVE_ABOVE
from flowbert.tasks.base import TASKS, PairTask, ScoreName, Scorer, Task
from flowbert.tasks.measures import (
    AGGREGATIONS,
    SPACE_METRICS,
    Counts,
    ResampledSpearman,
    Space,
    aggregate,
    spearman,
    sts_spearman,
    undefined_reason,
)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Scored sentence pairs in memory, in place of a file of pairs.

    Args:
        sentences1: First sentences, N of them.
        sentences2: Second sentences, N of them.
        scores: Gold scores, N finite numbers that are not all equal.
        name: Name in tables.
        score_range: Lowest and highest allowed score; None as in
            :attr:`flowbert.data.scored_pairs.STSData.score_range`.

    Example:
        >>> pairs = Pairs(["a dog", "a cat"], ["the dog", "a car"], [1, 0])
        >>> pairs.data().score_range
        (0.0, 1.0)
    """

    sentences1: Sequence[str]
    sentences2: Sequence[str]
    scores: Any
    name: str = "pairs"
    score_range: Sequence[float] | None = None

    def data(self, skip_invalid: bool = False) -> STSData:
        """The pairs as a data set with the split ``test``.

        White space inside a sentence becomes single spaces, as in files.

        Args:
            skip_invalid: Leave out invalid pairs, with a warning.

        Raises:
            UserError: If lengths differ, a sentence is blank or not text, a score is not a finite
                number of the range, or all scores are equal.
        """
        scores = getattr(self.scores, "tolist", lambda: list(self.scores))()
        columns = self.sentences1, self.sentences2, scores
        sizes = list(map(len, columns))
        if len(set(sizes)) > 1:
            raise UserError(
                f"{self.name}: received {sizes} sentences, sentences and scores; expected "
                "equal numbers",
                argument="tasks",
            )
        values = dict(zip(PAIR_COLUMNS, map(list, columns), strict=True))
        frame = pd.DataFrame(values, dtype=object)
        rows = make_frame(Path(self.name), frame, [PAIR_COLUMNS])
        return scored_pairs(self.name, rows, self.score_range, skip_invalid)


class SimilarityTask(PairTask):
    """Spearman of cosine and gold score under the aggregations of :class:`STS`.

    Args:
        data: The data set.
        split: Split to measure.

    Raises:
        UserError: If the data set has no such split.
    """

    options: ClassVar[tuple[str, ...]] = (
        "senteval",
        "split",
        "columns",
        "score_range",
        "skip_invalid",
    )
    metrics = tuple(("spearman", name) for name in AGGREGATIONS)
    headline: ClassVar[str | None] = "spearman"
    scored_with: ClassVar[tuple[str, ...]] = ("gold", "subset_names")

    def __init__(self, data: STSData, split: str = "test") -> None:
        subsets = data.split(split)
        pairs = Subset.join(data.name, subsets)
        super().__init__(
            data.name,
            pairs.sentences1,
            pairs.sentences2,
            split,
            [len(subset) for subset in subsets],
            data.sentences([split]),
        )
        self.data = data
        self.subset_names = tuple(subset.name for subset in subsets)
        self.gold = pairs.scores
        if data.merged:
            self.metrics = tuple(name for name in self.metrics if name[1] == "all")

    @property
    def target(self) -> Floats:
        """Values that the cosines are correlated with, ``(K,)``."""
        return self.gold

    @classmethod
    def load(
        cls,
        source: str | Pairs | pd.DataFrame,
        *,
        senteval: str | Path | None = None,
        split: str | Sequence[str] = "test",
        columns: str | Sequence[str] | None = None,
        score_range: Sequence[float] | None = None,
        skip_invalid: bool = False,
        **options: Any,
    ) -> list[Self]:
        """A task for each of the splits that the data set has, see :func:`load_tasks`.

        Raises:
            UserError: If the source is unknown or damaged, or has none of the splits.
        """
        named = as_list(columns, "columns") or PAIR_COLUMNS
        if isinstance(source, pd.DataFrame):
            where = Path("tasks: data frame")
            rows = make_frame(where, source, [named], "columns")
            data = scored_pairs("pairs", rows, score_range, skip_invalid)
        elif isinstance(source, Pairs):
            data = source.data(skip_invalid)
        else:
            data = load_sts(
                source,
                senteval,
                columns=named,
                score_range=score_range,
                skip_invalid=skip_invalid,
            )
        splits = as_list(split, "split")
        present = [name for name in splits if name in data.splits]
        if not present:
            raise UserError(
                f"{data.name} has no {splits[0]!r}; expected {choices(data.splits, '')}",
                argument="split",
            )
        return [cls(data, name, **options) for name in present]

    def labels(self) -> Sequence[Subset]:
        """The train split, unless it is measured."""
        return self.data.splits.get("train", ()) if self.split != "train" else ()

    def texts(self) -> Mapping[str, Sequence[str]]:
        """First and second sentences of each split."""
        return {split: self.data.sentences([split]) for split in self.data.splits}

    def _split(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Values of the pairs of each subset."""
        ends = np.cumsum(self.strata)
        return np.split(values, ends[:-1], axis=-1)

    def _by_subset(self, values: NDArray[Any]) -> Iterator[tuple[NDArray[Any], Floats]]:
        """Values and targets of the pairs of each subset."""
        return zip(self._split(values), self._split(self.target), strict=True)

    def score(self, items: Floats) -> dict[ScoreName, float]:
        """Spearman under each aggregation of :attr:`metrics`."""
        subset_of = np.repeat(np.arange(len(self.strata)), self.strata)
        scores = sts_spearman(items, self.target, subset_of)
        return {metric: scores[metric[1]] for metric in self.metrics}

    def extras(self, vectors: Tensor, items: Floats) -> dict[ScoreName, float]:
        """The correlation of each subset, where there are several."""
        if len(self.subset_names) == 1:
            return {}
        parts = zip(self.subset_names, self._by_subset(items), strict=True)
        return {("spearman", name): spearman(*part) for name, part in parts}

    def reason(self, items: Floats, metric: ScoreName) -> str:
        """The first subset without a correlation, and why."""
        aggregation = metric[1]
        if aggregation == "all" or len(self.subset_names) == 1:
            return undefined_reason(items, self.target)
        for subset, part in zip(self.subset_names, self._by_subset(items), strict=True):
            problem = undefined_reason(*part)
            if problem and aggregation in (subset, *AGGREGATIONS):
                return f"{subset}: {problem}"
        return ""

    def scorer(self, items: Sequence[Floats]) -> Scorer:
        """The correlations without sorting again for each resample."""
        whole = ResampledSpearman(items, self.target)
        if 1 in (len(self.strata), len(self.metrics)):
            return lambda weights: np.stack([whole(weights)] * len(self.metrics))
        subsets = [
            ResampledSpearman(list(part), target)
            for part, target in self._by_subset(np.stack(items))
        ]

        def scores(weights: Counts) -> Floats:
            drawn = zip(subsets, self._split(weights), strict=True)
            by_subset = [subset(part) for subset, part in drawn]
            aggregated = aggregate(whole(weights), by_subset, self.strata)
            return np.stack([aggregated[name] for _, name in self.metrics])

        return scores


@TASKS.register("sts")
class STS(SimilarityTask):
    """Spearman of cosine and gold score under three aggregations, alignment and uniformity.

    Over the subsets of a year, ``all`` is one correlation of all pairs, ``mean`` the plain and
    ``wmean`` the size-weighted average of the subsets' correlations. Data with merged subsets has
    only ``all``.

    Args:
        data: The data set.
        split: Split to measure.
        positive_above: Share of the data set's score range, in [0, 1), above which a pair is a
            positive of the alignment.
        uniformity_limit: Largest number of sentences for the uniformity, at least 2; None for all.

    Raises:
        UserError: If an argument is wrong.
    """

    options = (*SimilarityTask.options, "positive_above", "uniformity_limit")
    averaged = True
    scored_with = (*SimilarityTask.scored_with, "positive_score", "uniformity_limit")

    def __init__(
        self,
        data: STSData,
        split: str = "test",
        positive_above: Share = POSITIVE_ABOVE,
        uniformity_limit: TwoOrMore | None = None,
    ) -> None:
        super().__init__(data, split)
        check_limits(STS, locals())
        low, high = data.score_range
        self.positive_above = positive_above
        self.positive_score = low + positive_above * (high - low)
        self.uniformity_limit = uniformity_limit

    def other_split(self, split: str) -> "STS":
        """The task of another split, with the same options."""
        return STS(self.data, split, self.positive_above, self.uniformity_limit)

    def settings(self) -> dict[str, Any]:
        """The settings of the measurement in words."""
        return super().settings() | {
            "score_range": list(self.data.score_range),
            "positive_score": self.positive_score,
            "uniformity_limit": self.uniformity_limit,
        }

    def extras(self, vectors: Tensor, items: Floats) -> dict[ScoreName, float]:
        """The metrics of the vectors' space, and the correlation of each subset."""
        positive = self.gold > self.positive_score
        first, second = (vectors[side[positive]] for side in (self.left, self.right))
        space = Space(vectors, first, second, self.uniformity_limit)
        values = {
            (name, "all"): metric.compute(space)
            for name, metric in SPACE_METRICS.items()
        }
        return values | super().extras(vectors, items)

    def reason(self, items: Floats, metric: ScoreName) -> str:
        """Why a score is undefined; for a correlation, also in which subset."""
        if metric[0] not in SPACE_METRICS:
            return super().reason(items, metric)
        measured = SPACE_METRICS[metric[0]]
        if measured.of_pairs and not (self.gold > self.positive_score).any():
            return (
                f"no pair has a score above {self.positive_score:g}, the limit that "
                "positive_above sets as a share of the score range"
            )
        return measured.undefined


def load_labels(
    source: str | None, senteval: str | None = None, **options: Any
) -> Sequence[Subset] | None:
    """Labelled pairs of a task or file: the train split, else all pairs; None without a source.

    Args:
        source: A task or file.
        senteval: As in :func:`flowbert.data.scored_pairs.load_sts`.
        **options: Further arguments of it.
    """
    if source is None:
        return None
    data = load_sts(source, senteval, **options)
    return data.splits.get("train") or data.split("test")


def training_labels(
    task: Task,
    measured: Sequence[Task],
    labels: Sequence[Subset] | None = None,
    drop_overlap: bool = False,
    expected: str = "other labels, or drop_overlap",
    argument: str = "labels",
) -> Subset:
    """Labelled pairs for a supervised method, without test pairs.

    A pair is measured in either order, regardless of case and white space.

    Args:
        task: The task whose train split is learned from.
        measured: All tasks that the method is measured on.
        labels: Pairs to learn from instead of the train split, see :func:`load_labels`.
        drop_overlap: Leave out measured pairs with a warning instead of raising an error.
        expected: How to avoid measured pairs, for the message.
        argument: Name of the argument that selects the labels, for the message.

    Raises:
        UserError: If no pair is left, or a pair is measured.
    """
    pairs = Subset.join(task.name, task.labels() if labels is None else labels)
    for other in measured:
        known = set(map(_unordered, *other.pairs()))
        both = map(_unordered, pairs.sentences1, pairs.sentences2)
        is_new = np.array([pair not in known for pair in both], dtype=bool)
        overlap = len(pairs) - int(is_new.sum())
        where = f"{other.name} {other.split}"
        message = f"{overlap} of {len(pairs)} pairs are measured in {where}"
        if overlap and not drop_overlap:
            raise UserError(f"{message}; expected {expected}", argument=argument)
        if overlap:
            message = f"labels: {message} and left out"
            warn(message)
        pairs = pairs.where(is_new)
    if not len(pairs):
        raise UserError(
            f"received none to learn from for {task.name} {task.split}; expected labelled "
            "pairs that are not measured",
            argument=argument,
        )
    return pairs


def _unordered(*sentences: str) -> frozenset[str]:
    """A pair without its order, its case and its white space."""
    return frozenset(" ".join(sentence.split()).casefold() for sentence in sentences)
