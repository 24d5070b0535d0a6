"""Tasks made of sentence pairs with gold scores, and the first of them: semantic textual similarity."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from flowbert.data.corpus import Corpus, corpus_of_task, sentences_digest
from flowbert.data.sts import STSTask, Subset, sentence_pairs
from flowbert.tasks.base import Measured, Task
from flowbert.tasks.options import TaskOptions
from flowbert.tasks.pairs import POSITIVE_ABOVE, by_subset, embed_pairs, evaluate_pairs, gold_scores, similarities
from flowbert.tasks.protocol import AGGREGATIONS, Embed, Floats, Transform, aggregate
from flowbert.tasks.rank_resampling import ResampledSpearman
from flowbert.tasks.resampling import Counts


class PairTask(Task):
    """A task made of sentence pairs: one split of an STS task, or of a file of own pairs.

    Args:
        data: Sentences and gold scores, N pairs.
        split: The split to measure on.

    Raises:
        UserError: If the data lack the split.
    """

    options: ClassVar[tuple[str, ...]] = ()
    """Arguments beside data and split, which decide its figures; named alike in :class:`TaskOptions`."""

    def __init__(self, data: STSTask, split: str) -> None:
        self.data = data
        self.name = data.name
        self.split = split
        self.subsets = data.split(split)
        self.strata = tuple(len(subset) for subset in self.subsets)
        self.item_shape = (sum(self.strata),)

    @classmethod
    def load(cls, source: str, options: TaskOptions) -> list[Self]:
        """Load by task name or file of own pairs."""
        chosen = {name: getattr(options, name) for name in cls.options}
        return [cls(data, split, **chosen) for data, split in options.pairs_of(source)]

    @cached_property
    def key(self) -> dict[str, Any]:
        """Identity as JSON values."""
        scores = [f"{subset.name} {subset.scores.tolist()}" for subset in self.subsets]
        digest = sentences_digest([*self.sentences(), *scores])
        options = {name: getattr(self, name) for name in self.options}
        return {"kind": self.kind, "task": self.name, "split": self.split, "pairs": digest, **options}

    def sentences(self) -> list[str]:
        """Every occurrence of every sentence of the split."""
        return self.data.sentences([self.split])

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences of the split."""
        return sentence_pairs(self.subsets)

    def corpus(self, name: str) -> Corpus:
        """Its own corpus ``target`` or ``train_only``."""
        return corpus_of_task(name, self.data)

    def labelled(self) -> Sequence[Subset]:
        """The train split, unless it is measured on."""
        return self.data.splits.get("train", ()) if self.split != "train" else ()

    def prepare(self, embed: Embed) -> Any:
        """Look up the embeddings once for all methods."""
        return embed_pairs(self.data, self.split, embed)

    def item_values(self, prepared: Any, transform: Transform | None) -> Floats:
        """Cosine of each pair."""
        return similarities(prepared, transform)


class STS(PairTask, kind="sts"):
    """Spearman of cosine and gold score, with alignment and uniformity.

    Args:
        data: Sentences and gold scores.
        split: The split to measure on.
        positive_above: Gold score above which a pair counts as positive for the alignment.
        uniformity_limit: Draw this many distinct sentences for the uniformity if there are more; None takes all.

    Raises:
        UserError: If the data lack the split.

    Example:
        >>> from flowbert.data.sts import load_task
        >>> task = STS(load_task("SAMPLE"), "test")
        >>> lengths = task.prepare(lambda texts: np.array([[1.0, len(text)] for text in texts]))
        >>> [(f.metric, f.aggregation, round(f.value, 2)) for f in task.measure(lengths).figures][0]
        ('spearman', 'all', 0.21)
    """

    measures = tuple(("spearman", name) for name in AGGREGATIONS)
    headline = "spearman"
    averaged = True
    options = ("positive_above", "uniformity_limit")

    def __init__(
        self,
        data: STSTask,
        split: str = "test",
        positive_above: float = POSITIVE_ABOVE,
        uniformity_limit: int | None = None,
    ) -> None:
        super().__init__(data, split)
        self.positive_above = positive_above
        self.uniformity_limit = uniformity_limit

    def measure(self, prepared: Any, transform: Transform | None = None, flaw: str | None = None) -> Measured:
        """Figures under one map, with what the geometry of the embeddings tells of it."""
        return evaluate_pairs(
            prepared, transform, positive_above=self.positive_above, uniformity_limit=self.uniformity_limit, flaw=flaw
        ).measured

    def aggregate(self, items: Floats) -> list[float]:
        """Spearman with the gold score in three aggregations."""
        found = aggregate([subset.scores for subset in self.subsets], by_subset(items, self.subsets), warn=False)
        return [found.all, found.mean, found.wmean]

    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """The same on resamples of each subset's pairs."""
        gold = gold_scores(self.subsets)
        whole = ResampledSpearman(items, gold)
        if len(self.subsets) == 1:
            return lambda counts: np.repeat(whole(counts)[None], len(AGGREGATIONS), axis=0)
        stops = np.cumsum(self.strata)
        slices = [slice(stop - size, stop) for size, stop in zip(self.strata, stops, strict=True)]
        subsets = [ResampledSpearman([values[pairs] for values in items], gold[pairs]) for pairs in slices]
        weights = np.divide(self.strata, sum(self.strata))

        def figures(counts: Counts) -> Floats:
            each = np.array([spearman(counts[:, pairs]) for spearman, pairs in zip(subsets, slices, strict=True)])
            return np.stack([whole(counts), each.mean(axis=0), np.tensordot(weights, each, axes=1)])

        return figures
