"""Retrieval on pairs: recall@k and MRR@10 by exact search, block by block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.data.sts import STSTask
from flowbert.errors import NoFigureError, UserError
from flowbert.metrics.arrays import Array, unit_rows
from flowbert.tasks.protocol import Embed, Transform
from flowbert.tasks.ties import reciprocal_rank_in_run

_BLOCK = 1024
_DECIMALS = 10  # as the cosines of the STS protocol: equal texts tie exactly on every machine
CUTS = (1, 5, 10)
MRR_CUT = 10
METRICS = (*(f"recall@{cut}" for cut in CUTS), f"mrr@{MRR_CUT}")


@dataclass(frozen=True)
class RetrievalFigures:
    """Figures of one retrieval run, in [0, 1].

    Attributes:
        recall: k -> share of a query's relevant documents among the first k, averaged over the queries.
        mrr: Mean of 1 / rank of a query's first relevant document, 0 beyond rank 10.
        queries: Number of queries.
        documents: Number of documents.
        relevant: Number of relevant (query, document) pairs.
        by_query: Metric (``recall@1``, ``mrr@10``) -> value of each query, shape ``(Q,)``, whose mean is the figure.
    """

    recall: dict[int, float]
    mrr: float
    queries: int
    documents: int
    relevant: int
    by_query: dict[str, NDArray[np.float64]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class RetrievalTask:
    """Distinct queries and documents, and which belong together.

    Attributes:
        name: Name of the task.
        queries: Q distinct texts.
        documents: M distinct texts, relevant ones and distractors.
        relevant: Rows (query, document), distinct, shape ``(P, 2)``, int64.
    """

    name: str
    queries: tuple[str, ...]
    documents: tuple[str, ...]
    relevant: NDArray[np.int64]


def retrieval_task(task: STSTask, split: str = "test", *, positive_above: float = 4.0) -> RetrievalTask:
    """Make a retrieval task of sentence pairs.

    Queries are the first sentences of the pairs whose score exceeds ``positive_above``; documents are all distinct
    second sentences of the split, so the second sentences of the other pairs are distractors.

    Args:
        task: Any pair task, from a SentEval folder or from own files.
        split: Split to take.
        positive_above: Gold score above which the second sentence is relevant to the first.

    Raises:
        UserError: If no pair has such a score.
    """
    queries: dict[str, int] = {}
    documents: dict[str, int] = {}
    relevant: dict[tuple[int, int], None] = {}
    for subset in task.split(split):
        for first, second, score in zip(subset.sentences1, subset.sentences2, subset.scores, strict=True):
            document = documents.setdefault(second, len(documents))
            if score > positive_above:
                relevant[queries.setdefault(first, len(queries)), document] = None
    if not relevant:
        highest = max(float(subset.scores.max()) for subset in task.split(split))
        raise UserError(
            f"{task.name} {split}: no pair has a score above {positive_above:g} (the highest is {highest:g}); "
            "allowed: a threshold below that"
        )
    return RetrievalTask(task.name, tuple(queries), tuple(documents), np.array(list(relevant), dtype=np.int64))


def retrieve(
    task: RetrievalTask, embed: Embed, transform: Transform | None = None, *, cuts: Sequence[int] = CUTS
) -> RetrievalFigures:
    """Figures of a task; each distinct text is embedded once.

    Args:
        task: From :func:`retrieval_task`.
        embed: From M sentences to embeddings of shape ``(M, D)``, torch or numpy.
        transform: Map of the embeddings, e.g. a fitted calibration's ``transform``; None leaves them raw.
        cuts: The k of recall@k.
    """
    texts = {text: row for row, text in enumerate(dict.fromkeys((*task.queries, *task.documents)))}
    embeddings = torch.as_tensor(embed(list(texts)))
    mapped = embeddings if transform is None else transform(embeddings)
    queries, documents = ([texts[text] for text in side] for side in (task.queries, task.documents))
    return retrieval_figures(mapped[queries], mapped[documents], task.relevant, cuts=cuts)


def retrieval_figures(
    queries: Array, documents: Array, relevant: NDArray[np.int64], *, cuts: Sequence[int] = CUTS
) -> RetrievalFigures:
    r"""Recall@k and MRR@10 of exact search by cosine over all documents, in memory of one block of cosines.

    Only how many documents lie above each relevant one, and beside it, is counted, so no ranking is ever kept. Cosines
    are rounded to 10 decimals. Documents with equal cosines count as in a random order (the exact expectation): the
    order in which they are given plays no role, and a constant embedding gets :math:`k / M`, not a lucky 1.

    Args:
        queries: Vectors of shape ``(Q, D)``, torch or numpy.
        documents: Vectors of shape ``(M, D)``.
        relevant: Distinct rows (query, document), shape ``(P, 2)``; every query at least once.
        cuts: The k of recall@k, each at least 1.

    Raises:
        UserError: If ``relevant`` is misshapen, out of range or leaves a query out, a vector has no direction, or a
            cut is below 1.

    Example:
        >>> x = torch.eye(3)
        >>> retrieval_figures(x, x, np.array([[0, 0], [1, 1], [2, 0]]), cuts=(1, 2)).recall
        {1: 0.6666666666666666, 2: 0.8333333333333334}
    """
    left, right = unit_rows(queries, "queries"), unit_rows(documents, "documents")
    pairs = _checked(relevant, left, right, cuts)
    above, level = _positions(left, right, pairs)
    counts = np.bincount(pairs[:, 0], minlength=len(left))
    by_query = {}
    for cut in cuts:
        inside = np.clip((cut - above) / level, 0.0, 1.0)
        by_query[f"recall@{cut}"] = np.bincount(pairs[:, 0], weights=inside, minlength=len(left)) / counts
    by_query[f"mrr@{MRR_CUT}"] = _reciprocal_ranks(pairs[:, 0], above, level, len(left))
    means = {metric: float(np.mean(values)) for metric, values in by_query.items()}
    recall = {cut: means[f"recall@{cut}"] for cut in cuts}
    return RetrievalFigures(recall, means[f"mrr@{MRR_CUT}"], len(left), len(right), len(pairs), by_query)


def _checked(relevant: NDArray[np.int64], queries: Tensor, documents: Tensor, cuts: Sequence[int]) -> NDArray[np.int64]:
    pairs = np.unique(np.asarray(relevant, dtype=np.int64), axis=0)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise UserError(f"relevant has the shape {np.shape(relevant)}; allowed: (P, 2), P >= 1")
    limits = (len(queries), len(documents))
    if pairs.min() < 0 or (pairs.max(axis=0) >= limits).any():
        raise UserError(f"relevant holds rows up to {pairs.max(axis=0).tolist()}; allowed: 0 to {limits} (exclusive)")
    without = len(queries) - len(np.unique(pairs[:, 0]))
    if without:
        raise UserError(f"{without} of {len(queries)} queries have no relevant document; allowed: at least one each")
    if min(cuts, default=0) < 1:
        raise UserError(f"cuts are {tuple(cuts)}; allowed: one or more whole numbers of at least 1")
    for name, rows in (("queries", queries), ("documents", documents)):
        bad = int((~torch.isfinite(rows).all(dim=1)).sum())
        if bad:
            raise NoFigureError(
                f"{bad} of {len(rows)} {name} have no direction; allowed: finite vectors other than zero"
            )
    return pairs


def _positions(
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
        yield first, (rows @ documents[first : first + _BLOCK].T).round_(decimals=_DECIMALS)


def _reciprocal_ranks(
    query: NDArray[np.int64], above: NDArray[np.int64], level: NDArray[np.int64], queries: int
) -> NDArray[np.float64]:
    best = np.full(queries, np.iinfo(np.int64).max)
    np.minimum.at(best, query, above)
    first = above == best[query]
    hits = np.bincount(query[first], minlength=queries)
    run = np.zeros(queries, dtype=np.int64)
    run[query[first]] = level[first]
    return np.array(
        [
            reciprocal_rank_in_run(int(a), int(size), int(hit), MRR_CUT)
            for a, size, hit in zip(best, run, hits, strict=True)
        ]
    )
