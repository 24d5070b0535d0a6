"""Exact search against a full sort, in blocks, with ties; resampled queries."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from flowbert.data.sts import STSTask, Subset
from flowbert.errors import FlowbertWarning, NoFigureError, UserError
from flowbert.tasks import Retrieval, resampling
from flowbert.tasks import retrieval as module
from flowbert.tasks.retrieval import query_values


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
    *recalls, mrr = query_values(x, y, relevant, cuts=(1, 3, 10)).mean(axis=1)
    for cut, found in zip((1, 3, 10), recalls, strict=True):
        recall, reciprocal = by_sorting(x, y, relevant, cut)
        assert found == pytest.approx(recall, abs=1e-9)
    assert mrr == pytest.approx(reciprocal, abs=1e-9)


def test_a_constant_embedding_gets_chance_and_order_plays_no_role() -> None:
    same = torch.ones(20, 3)
    pairs = np.stack([np.arange(20)] * 2, axis=1)
    found = query_values(same, same, pairs).mean(axis=1)
    chance = sum(1 / rank for rank in range(1, 11)) / 20
    assert found.tolist() == pytest.approx([1 / 20, 5 / 20, 10 / 20, chance])
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(0, 2, (2, 20, 3), generator=generator).float() + 0.5
    order = np.random.default_rng(0).permutation(20)
    there = query_values(x, y, pairs)
    back = query_values(x, y[order], np.stack([np.arange(20), np.argsort(order)], axis=1))
    np.testing.assert_allclose(back, there, atol=1e-12)


def made_task() -> STSTask:
    subset = Subset("T", ("a", "a", "b", "c"), ("x", "y", "x", "z"), np.array([5.0, 4.5, 1.0, 4.2]))
    return STSTask("T", {"test": [subset]})


def test_pairs_become_queries_documents_and_distractors() -> None:
    task = Retrieval(made_task())
    assert (task.queries, task.documents) == (("a", "c"), ("x", "y", "z"))
    assert task.relevant.tolist() == [[0, 0], [0, 1], [1, 2]]
    rows = {"a": 0, "b": 1, "c": 2, "x": 0, "y": 0, "z": 2}
    prepared = task.prepare(lambda texts: torch.eye(3)[[rows[text] for text in texts]])
    for transform in (None, torch.neg):
        measured = task.measure(prepared, transform)
        assert [figure.metric for figure in measured.figures] == ["recall@1", "recall@5", "recall@10", "mrr@10"]
        assert [figure.value for figure in measured.figures] == pytest.approx([0.75, 1, 1, 1])
        assert measured.columns == {"task": "T", "split": "test", "pairs": 3}
    with pytest.raises(
        UserError, match=r"^positive_above: received 6; no pair has a score above 6 in T test \(the highest is 5\)"
    ):
        Retrieval(made_task(), positive_above=6)


def test_without_directions_there_is_no_figure() -> None:
    x, relevant = torch.eye(3), np.array([[i, i] for i in range(3)])
    lost = x * torch.tensor([[1.0], [0.0], [1.0]])
    message = "1 of 3 documents have no direction"
    with (
        pytest.warns(FlowbertWarning, match=message),
        pytest.raises(NoFigureError, match=f"{message}; allowed: finite vectors other than zero"),
    ):
        query_values(x, lost, relevant)
    task = Retrieval(made_task())
    with pytest.warns(FlowbertWarning, match="have no direction"):
        measured = task.measure(torch.zeros(5, 2))
    assert np.isnan(measured.items).all()
    assert {figure.reason for figure in measured.figures} == {
        "2 of 2 queries have no direction; allowed: finite vectors other than zero"
    }


QUERIES = 40
GENERATOR = np.random.default_rng(0)
GOOD, POOR = (np.clip(GENERATOR.normal(mean, 0.2, (4, QUERIES)), 0, 1) for mean in (0.8, 0.3))
METHODS = {"good": GOOD, "poor": POOR, "twin": GOOD}


def of_queries(count: int, name: str = "T") -> Retrieval:
    first, second = (tuple(f"{side} {number}" for number in range(count)) for side in "ab")
    return Retrieval(STSTask(name, {"test": [Subset(name, first, second, np.full(count, 5.0))]}))


@pytest.mark.parametrize("values", [1 << 16, 7 * QUERIES])
def test_replicates_are_the_means_of_the_repeated_queries(values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_BLOCK_VALUES", values)
    found = of_queries(QUERIES).resample(METHODS, resamples=25, seed=3)
    counts = np.concatenate([b.multiplicities([QUERIES]) for b in resampling.blocks("T", QUERIES, 25, 3)])
    for place, replicates in enumerate(found.values()):
        for row, method in enumerate(METHODS.values()):
            expected = [np.repeat(method[place], drawn).mean() for drawn in counts]
            np.testing.assert_allclose(replicates.values[row], expected, atol=1e-12)
            assert replicates.points[row] == method[place].mean()


def test_methods_are_paired() -> None:
    found = of_queries(QUERIES).resample(METHODS, resamples=500)["mrr@10", "all"]
    assert found.name == "T mrr@10"
    same = found.difference("good", "twin")
    assert (same.value, same.low, same.high) == (0, 0, 0)
    assert found.difference("good", "poor").low > 0


@pytest.mark.parametrize("methods", [2, 3, 5, 9, 17])
def test_equal_methods_differ_by_exactly_nothing_however_many_there_are(methods: int) -> None:
    values = GENERATOR.uniform(size=(4, 1001))
    copies = {f"m{number}": values.copy() for number in range(methods)}
    for replicates in of_queries(1001).resample(copies, resamples=130).values():
        assert (replicates.values == replicates.values[:1]).all()
        assert (replicates.points == replicates.points[:1]).all()


def test_resamples_depend_on_seed_and_task_not_on_methods() -> None:
    def values(task: Retrieval, methods: dict[str, NDArray[np.float64]], seed: int = 0) -> NDArray[np.float64]:
        return task.resample(methods, resamples=20, seed=seed)["mrr@10", "all"].values

    task = of_queries(QUERIES)
    both = values(task, METHODS)
    np.testing.assert_array_equal(values(task, {"poor": POOR})[0], both[1])
    assert (values(task, METHODS, seed=1) != both).any()
    assert (values(of_queries(QUERIES, "U"), METHODS) != both).any()


def test_interval_covers_a_known_mean() -> None:
    covered = []
    for seed in range(300):
        values = np.tile(np.random.default_rng(seed).uniform(size=60), (4, 1))
        found = of_queries(60).resample({"m": values}, resamples=400, seed=seed)["mrr@10", "all"].interval("m")
        covered.append(found.low <= 0.5 <= found.high)
    assert 0.90 < np.mean(covered) < 0.985  # 60 queries: a percentile interval is a little narrow


def test_interval_covers_a_known_difference() -> None:
    """Hits at rank 1 of two methods that err on the same hard queries: the truth is 0.7 - 0.5."""
    covered = 0
    task = of_queries(200)
    for seed in range(600):
        hardness = np.random.default_rng(seed).uniform(size=200)
        hits = {
            name: np.tile(hardness < share, (4, 1)).astype(np.float64)
            for name, share in (("strong", 0.7), ("weak", 0.5))
        }
        found = task.resample(hits, resamples=400, seed=seed)["recall@1", "all"].difference("strong", "weak")
        covered += found.low <= 0.2 <= found.high
    assert 0.92 <= covered / 600 <= 0.98
