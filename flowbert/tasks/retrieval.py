"""Retrieval on pairs: recall@k and MRR@10 by exact search, block by block."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.data.sts import STSTask
from flowbert.errors import NoFigureError, UserError
from flowbert.metrics.arrays import Array, unit_rows
from flowbert.tasks.expected_ranks import reciprocal_rank_in_run
from flowbert.tasks.pairs import POSITIVE_ABOVE, gold_scores
from flowbert.tasks.protocol import COSINE_DECIMALS, Embed, Floats, Transform
from flowbert.tasks.resampling import Counts, unit_means
from flowbert.tasks.sts import PairTask

_BLOCK = 1024
CUTS = (1, 5, 10)
MRR_CUT = 10


class Retrieval(PairTask, kind="retrieval"):
    """Recall@k and MRR@10 of finding the second sentence of a positive pair among all second sentences.

    Queries are the first sentences of the pairs whose score exceeds ``positive_above``; documents are all distinct
    second sentences of the split, so the second sentences of the other pairs are distractors. Queries are resampled,
    the documents stay as they are: what is drawn again is what was asked, not what there is to find.

    Args:
        data: Sentences and gold scores.
        split: The split to measure on.
        positive_above: Gold score above which the second sentence is relevant to the first.

    Attributes:
        queries: Q distinct texts.
        documents: M distinct texts, relevant ones and distractors.
        relevant: Rows (query, document), distinct, shape ``(P, 2)``, int64.

    Raises:
        UserError: If the data lack the split, or no pair has such a score.
    """

    measures = (*((f"recall@{cut}", "all") for cut in CUTS), (f"mrr@{MRR_CUT}", "all"))
    headline = f"mrr@{MRR_CUT}"
    options = ("positive_above",)

    def __init__(self, data: STSTask, split: str = "test", positive_above: float = POSITIVE_ABOVE) -> None:
        super().__init__(data, split)
        self.positive_above = positive_above
        pairs, scores = list(zip(*self.pairs(), strict=True)), gold_scores(self.subsets)
        positive = [pair for pair, score in zip(pairs, scores, strict=True) if score > positive_above]
        if not positive:
            raise UserError(
                f"positive_above: received {positive_above:g}; no pair has a score above {positive_above:g} in "
                f"{self.name} {split} (the highest is {scores.max():g}); allowed: a number below that"
            )
        queries, documents = (
            {text: row for row, text in enumerate(dict.fromkeys(texts))}
            for texts in ((query for query, _ in positive), (document for _, document in pairs))
        )
        self.queries, self.documents = tuple(queries), tuple(documents)
        relevant = [(queries[query], documents[document]) for query, document in dict.fromkeys(positive)]
        self.relevant = np.array(relevant, dtype=np.int64)
        self.item_shape = (len(self.measures), len(self.queries))
        self.strata = (len(self.queries),)
        self._texts = {text: row for row, text in enumerate(dict.fromkeys((*self.queries, *self.documents)))}

    @property
    def columns(self) -> dict[str, Any]:
        """Counted are the relevant pairs."""
        return {**super().columns, "pairs": len(self.relevant)}

    def prepare(self, embed: Embed) -> Tensor:
        """Look up the embedding of each distinct query and document, in one call."""
        return torch.as_tensor(embed(list(self._texts)))

    def item_values(self, prepared: Tensor, transform: Transform | None) -> Floats:
        """Values of each query."""
        mapped = prepared if transform is None else transform(prepared)
        queries, documents = ([self._texts[text] for text in texts] for texts in (self.queries, self.documents))
        return query_values(mapped[queries], mapped[documents], self.relevant)

    def aggregate(self, items: Floats) -> list[float]:
        """Means over the queries."""
        return [float(values.mean()) for values in items]

    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """Means over the queries drawn."""
        return lambda counts: np.stack([unit_means(values, counts) for values in items], axis=1)


def query_values(
    queries: Array, documents: Array, relevant: NDArray[np.int64], *, cuts: Sequence[int] = CUTS
) -> Floats:
    r"""Recall@k and MRR@10 of each query by exact search over all documents, in memory of one block of cosines.

    Only how many documents lie above each relevant one, and beside it, is counted, so no ranking is ever kept. Cosines
    are rounded to 10 decimals. Documents with equal cosines count as in a random order (the exact expectation): the
    order in which they are given plays no role, and a constant embedding gets :math:`k / M`, not a lucky 1.

    Args:
        queries: Vectors of shape ``(Q, D)``, torch or numpy.
        documents: Vectors of shape ``(M, D)``.
        relevant: Distinct rows (query, document), shape ``(P, 2)``; every query at least once.
        cuts: The k of recall@k, each at least 1.

    Returns:
        Shape ``(len(cuts) + 1, Q)``: recall at each cut, then the reciprocal rank of the first relevant document, 0
        beyond rank 10.

    Raises:
        NoFigureError: If a vector has no direction.

    Example:
        >>> x = torch.eye(3)
        >>> query_values(x, x, np.array([[0, 0], [1, 1], [2, 0]]), cuts=(1, 2)).mean(axis=1).round(2)
        array([0.67, 0.83, 0.81])
    """
    left, right = unit_rows(queries, "queries"), unit_rows(documents, "documents")
    for name, rows in (("queries", left), ("documents", right)):
        bad = int((~torch.isfinite(rows).all(dim=1)).sum())
        if bad:
            raise NoFigureError(
                f"{bad} of {len(rows)} {name} have no direction; allowed: finite vectors other than zero"
            )
    pairs = np.unique(relevant, axis=0)
    above, level = _counted(left, right, pairs)
    query = pairs[:, 0]
    inside = (np.clip((cut - above) / level, 0.0, 1.0) for cut in cuts)
    recall = (np.bincount(query, weights=each) / np.bincount(query) for each in inside)
    return np.array([*recall, _reciprocal_ranks(query, above, level)])


def _counted(
    queries: Tensor, documents: Tensor, pairs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each relevant pair: documents above it, and documents at its level, itself counted."""
    above, level = np.zeros(len(pairs), dtype=np.int64), np.zeros(len(pairs), dtype=np.int64)
    for start in range(0, len(pairs), _BLOCK):
        block = slice(start, start + _BLOCK)
        query, own = torch.from_numpy(pairs[block, 0]), torch.from_numpy(pairs[block, 1])
        rows = queries[query]
        # From the same products as the others: a separate sum could differ in its last digit.
        scores = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
        for first, cosines in _cosines(rows, documents):
            here = (own >= first) & (own < first + cosines.shape[1])
            scores[here] = cosines[here, own[here] - first]
        for _, cosines in _cosines(rows, documents):
            above[block] += (cosines > scores[:, None]).sum(dim=1).cpu().numpy()
            level[block] += (cosines == scores[:, None]).sum(dim=1).cpu().numpy()
    return above, level


def _cosines(rows: Tensor, documents: Tensor) -> Iterator[tuple[int, Tensor]]:
    for first in range(0, len(documents), _BLOCK):
        # Rounded as the cosines of the STS protocol: equal texts tie exactly on every machine.
        yield first, (rows @ documents[first : first + _BLOCK].T).round_(decimals=COSINE_DECIMALS)


def _reciprocal_ranks(query: NDArray[np.int64], above: NDArray[np.int64], level: NDArray[np.int64]) -> Floats:
    """Of the first relevant document of each query, given the pairs in the order of their queries."""
    order = np.lexsort((above, query))
    first = order[np.flatnonzero(np.diff(query[order], prepend=-1))]
    hits = np.bincount(query, weights=above == above[first][query])
    found = zip(above[first].tolist(), level[first].tolist(), hits.astype(int).tolist(), strict=True)
    return np.array([reciprocal_rank_in_run(before, size, hit, MRR_CUT) for before, size, hit in found])
