"""Exact search against a full sort, in blocks, with ties and several relevant documents."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from flowbert.data.sts import STSTask, Subset
from flowbert.errors import FlowbertWarning, UserError
from flowbert.tasks import retrieval as module
from flowbert.tasks.retrieval import retrieval_figures, retrieval_task, retrieve


def by_sorting(x: torch.Tensor, y: torch.Tensor, relevant: NDArray[np.int64], cut: int) -> tuple[float, float]:
    """Recall@cut and MRR@10 from the whole ranking; no ties."""
    cosines = torch.cosine_similarity(x[:, None].double(), y[None].double(), dim=2).numpy()
    recalls, reciprocals = [], []
    for query in range(len(x)):
        wanted = set(relevant[relevant[:, 0] == query, 1].tolist())
        order = np.argsort(-cosines[query]).tolist()
        recalls.append(len(wanted & set(order[:cut])) / len(wanted))
        first = 1 + min(order.index(document) for document in wanted)
        reciprocals.append(1 / first if first <= 10 else 0.0)
    return float(np.mean(recalls)), float(np.mean(reciprocals))


@pytest.mark.parametrize("block", [7, 1024])
def test_figures_equal_a_full_sort(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(60, 8, generator=generator)
    x = y[:40] + 1.5 * torch.randn(40, 8, generator=generator)
    relevant = np.array([[i, i] for i in range(40)] + [[3, 50], [3, 51], [7, 59]])
    found = retrieval_figures(x, y, relevant, cuts=(1, 3, 10))
    for cut in (1, 3, 10):
        recall, reciprocal = by_sorting(x, y, relevant, cut)
        assert found.recall[cut] == pytest.approx(recall, abs=1e-9)
    assert found.mrr == pytest.approx(reciprocal, abs=1e-9)
    assert (found.queries, found.documents, found.relevant) == (40, 60, 43)


def test_a_constant_embedding_gets_chance_and_order_plays_no_role() -> None:
    same = torch.ones(20, 3)
    pairs = np.stack([np.arange(20)] * 2, axis=1)
    found = retrieval_figures(same, same, pairs)
    assert found.recall == pytest.approx({1: 1 / 20, 5: 5 / 20, 10: 10 / 20})
    assert found.mrr == pytest.approx(sum(1 / rank for rank in range(1, 11)) / 20)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(0, 2, (2, 20, 3), generator=generator).float() + 0.5
    order = np.random.default_rng(0).permutation(20)
    there = retrieval_figures(x, y, pairs)
    back = retrieval_figures(x, y[order], np.stack([np.arange(20), np.argsort(order)], axis=1))
    assert back.recall == pytest.approx(there.recall, abs=1e-12)
    assert back.mrr == pytest.approx(there.mrr, abs=1e-12)


def made_task() -> STSTask:
    subset = Subset("T", ("a", "a", "b", "c"), ("x", "y", "x", "z"), np.array([5.0, 4.5, 1.0, 4.2]))
    return STSTask("T", {"test": [subset]})


def test_pairs_become_queries_documents_and_distractors() -> None:
    task = retrieval_task(made_task())
    assert (task.queries, task.documents) == (("a", "c"), ("x", "y", "z"))
    assert task.relevant.tolist() == [[0, 0], [0, 1], [1, 2]]
    places = {"a": 0, "b": 1, "c": 2, "x": 0, "y": 0, "z": 2}
    found = retrieve(task, lambda texts: torch.eye(3)[[places[text] for text in texts]], cuts=(1, 2))
    assert found.recall == {1: pytest.approx(0.75), 2: pytest.approx(1.0)}
    assert found.mrr == 1.0
    turned = retrieve(task, lambda texts: torch.eye(3)[[places[text] for text in texts]], lambda x: -x, cuts=(1,))
    assert turned.recall == {1: pytest.approx(0.75)}


def test_bad_arguments() -> None:
    with pytest.raises(
        UserError, match=r"T test: no pair has a score above 6 \(the highest is 5\); allowed: a threshold below that"
    ):
        retrieval_task(made_task(), positive_above=6)
    x = torch.eye(3)
    with pytest.raises(UserError, match=r"relevant has the shape \(3,\); allowed: \(P, 2\), P >= 1"):
        retrieval_figures(x, x, np.arange(3))
    with pytest.raises(UserError, match=r"relevant holds rows up to \[2, 3\]; allowed: 0 to \(3, 3\)"):
        retrieval_figures(x, x, np.array([[0, 0], [1, 1], [2, 3]]))
    with pytest.raises(UserError, match="1 of 3 queries have no relevant document; allowed: at least one each"):
        retrieval_figures(x, x, np.array([[0, 0], [1, 1]]))
    with pytest.raises(UserError, match=r"cuts are \(0,\); allowed: one or more whole numbers of at least 1"):
        retrieval_figures(x, x, np.array([[i, i] for i in range(3)]), cuts=(0,))
    with (
        pytest.warns(FlowbertWarning, match="1 of 3 documents have no direction"),
        pytest.raises(UserError, match="1 of 3 documents have no direction; allowed: finite vectors other than zero"),
    ):
        retrieval_figures(x, x * torch.tensor([[1.0], [0.0], [1.0]]), np.array([[i, i] for i in range(3)]))
