"""Lexical similarity: how far a similarity, or the gold score, follows the wording instead of the meaning."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from rapidfuzz.distance import Levenshtein

from flowbert.data.sts import STSTask
from flowbert.errors import UserError, choices
from flowbert.metrics import no_spearman, spearman_or_nan
from flowbert.tasks.pairs import gold_scores
from flowbert.tasks.protocol import Floats
from flowbert.tasks.rank_resampling import ResampledSpearman
from flowbert.tasks.resampling import Counts
from flowbert.tasks.sts import PairTask

UNITS = ("words", "characters")
EDIT_DISTANCE = "edit_distance"


class Lexical(PairTask, kind="lexical"):
    r"""Spearman of cosine and Levenshtein distance over all pairs of a split; nearer to -1: more by the wording.

    The gold score stands beside the methods under the name ``gold``. There is no verdict: neither end is better.

    li2020 report -24.61 for the gold score on STS-B and say neither in which unit nor on which split. The nearest
    reading is the number of edited words, not normalized, on the development split: -24.55 (characters: -20.27). The
    test split gives -15.68. Hence unit and split belong beside every figure.

    References:
        On the Sentence Embeddings from Pre-trained Language Models, table 6 (Li et al., 2020).
        https://arxiv.org/abs/2011.05864

    Args:
        data: Sentences and gold scores.
        split: The split to measure on.
        unit: Unit of the edit distance: ``words`` (parted at white space) or ``characters``; case as it stands.

    Raises:
        UserError: If the data lack the split, or the unit is unknown.

    Example:
        >>> from flowbert.data.sts import STSTask, Subset
        >>> pairs = Subset("T", ("a b", "a b", "a b"), ("a b", "a c", "c d"), np.array([5.0, 2.0, 1.0]))
        >>> task = Lexical(STSTask("T", {"test": [pairs]}))
        >>> task.distances, round(task.measure_items(task.references["gold"]).figures[0].value, 6)
        (array([0., 1., 2.]), -1.0)
    """

    needs_text = True
    options = ("unit",)

    def __init__(self, data: STSTask, split: str = "test", unit: str = "words") -> None:
        super().__init__(data, split)
        if unit not in UNITS:
            raise UserError(f"unit: received {unit!r}; {choices(UNITS, unit)}")
        self.unit = unit
        self.measures = ((f"{EDIT_DISTANCE}_{unit}", "all"),)

    @cached_property
    def distances(self) -> Floats:
        """Levenshtein distance of each pair, shape ``(N,)``."""
        units = str.split if self.unit == "words" else str
        found = [Levenshtein.distance(units(first), units(second)) for first, second in zip(*self.pairs(), strict=True)]
        return np.array(found, dtype=np.float64)

    @property
    def references(self) -> Mapping[str, Floats]:
        """The gold score."""
        return {"gold": gold_scores(self.subsets)}

    def aggregate(self, items: Floats) -> list[float]:
        """Spearman with the distance."""
        return [spearman_or_nan(items, self.distances)]

    def reason(self, items: Floats) -> str:
        """Why there is no correlation."""
        return no_spearman(items, self.distances) or ""

    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """The same on resamples of each subset's pairs."""
        spearman = ResampledSpearman(items, self.distances)
        return lambda counts: spearman(counts)[None]
