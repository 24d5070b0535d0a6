"""Figures of pairs: equal to scipy, one look-up feeds many maps, no figure where there is none."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor

from flowbert.calibration import Whitening
from flowbert.data.sts import STSTask, Subset
from flowbert.errors import FlowbertWarning, UserError
from flowbert.metrics import alignment, mean_cosine, uniformity
from flowbert.tasks.pairs import embed_pairs, evaluate_pairs, evaluate_task, similarities


def make_task(sizes: Sequence[int] = (30, 50), sentences: int = 40) -> STSTask:
    rng = np.random.default_rng(0)
    subsets = [
        Subset(
            f"part{i}",
            tuple(f"s{k}" for k in rng.integers(0, sentences, size)),
            tuple(f"s{k}" for k in rng.integers(0, sentences, size)),
            rng.integers(0, 11, size) / 2,
        )
        for i, size in enumerate(sizes)
    ]
    return STSTask("TOY", {"test": subsets})


def embed(sentences: Sequence[str]) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(40, 6, generator=generator) + 0.5
    return table[[int(sentence[1:]) for sentence in sentences]]


def reference_cosines(subset: Subset) -> np.ndarray:
    a, b = embed(subset.sentences1).double().numpy(), embed(subset.sentences2).double().numpy()
    return np.asarray((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))


def test_three_aggregations_equal_scipy() -> None:
    task = make_task()
    figures = evaluate_task(task, "test", embed)
    subsets = task.split("test")
    cosines = [np.round(reference_cosines(subset), 10) for subset in subsets]
    each = [float(spearmanr(c, s.scores).statistic) for c, s in zip(cosines, subsets, strict=True)]
    whole = spearmanr(np.concatenate(cosines), np.concatenate([s.scores for s in subsets])).statistic
    assert figures.all == pytest.approx(float(whole), abs=1e-12)
    assert figures.mean == pytest.approx(sum(each) / 2, abs=1e-12)
    assert figures.wmean == pytest.approx((30 * each[0] + 50 * each[1]) / 80, abs=1e-12)
    assert figures.mean != pytest.approx(figures.wmean, abs=1e-3)
    assert [(s["name"], s["pairs"]) for s in figures.subsets] == [("part0", 30), ("part1", 50)]
    assert [s["spearman"] for s in figures.subsets] == pytest.approx(each, abs=1e-12)
    assert figures.pairs == 80


def test_one_subset_has_one_figure() -> None:
    figures = evaluate_task(make_task((40,)), "test", embed)
    assert figures.all == figures.mean == figures.wmean


def test_side_figures_follow_their_definition() -> None:
    task = make_task()
    figures = evaluate_task(task, "test", embed)
    subsets = task.split("test")
    pairs = [(a, b) for s in subsets for a, b, g in zip(s.sentences1, s.sentences2, s.scores, strict=True) if g > 4]
    distinct = embed(sorted(set(task.sentences())))
    assert figures.positives == len(pairs)
    assert figures.sentences == figures.uniformity_sentences == len(distinct)
    expected = alignment(embed([a for a, _ in pairs]), embed([b for _, b in pairs]))
    assert figures.alignment == pytest.approx(expected, rel=1e-12)
    assert figures.uniformity == pytest.approx(uniformity(distinct), abs=3e-8)
    assert figures.mean_cosine == pytest.approx(mean_cosine(distinct), rel=1e-12)


def test_each_sentence_is_looked_up_once_and_mapped_once() -> None:
    asked: list[str] = []
    mapped: list[int] = []

    def counting_embed(sentences: Sequence[str]) -> Tensor:
        asked.extend(sentences)
        return embed(sentences)

    def counting_map(x: Tensor) -> Tensor:
        mapped.append(len(x))
        return x * 2

    pairs = embed_pairs(make_task(), "test", counting_embed)
    assert len(asked) == len(set(asked)) == len(pairs.embeddings)
    assert evaluate_pairs(pairs, counting_map).all == evaluate_pairs(pairs).all
    assert mapped == [len(asked)]


def test_a_map_is_applied() -> None:
    pairs = embed_pairs(make_task(), "test", embed)
    whitening = Whitening().fit(pairs.embeddings)
    white = embed_pairs(make_task(), "test", lambda sentences: whitening.transform(embed(sentences)))
    assert evaluate_pairs(pairs, whitening.transform) == evaluate_pairs(white)
    assert evaluate_pairs(pairs, whitening.transform).all != evaluate_pairs(pairs).all


# One case gives several warnings; the one that is asked for is checked.
@pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")
def test_no_figure_is_nan_never_a_number() -> None:
    with pytest.warns(FlowbertWarning, match="all 80 predictions are 1"):
        figures = evaluate_task(make_task(), "test", lambda sentences: torch.ones(len(sentences), 3))
    assert all(math.isnan(getattr(figures, name)) for name in ("all", "mean", "wmean"))
    with pytest.warns(FlowbertWarning, match="have no direction"):
        broken = evaluate_pairs(embed_pairs(make_task(), "test", embed), lambda x: x * float("nan"))
    assert all(math.isnan(value) for value in (broken.all, broken.alignment, broken.uniformity, broken.mean_cosine))
    with pytest.warns(FlowbertWarning, match="none of the pairs has a gold score above 9"):
        assert math.isnan(evaluate_pairs(embed_pairs(make_task(), "test", embed), positive_above=9).alignment)


def test_sampled_uniformity_is_said() -> None:
    figures = evaluate_pairs(embed_pairs(make_task(), "test", embed), uniformity_limit=10, seed=3)
    assert (figures.uniformity_sentences, figures.sentences) == (10, 39)


def test_bad_input_is_named() -> None:
    with pytest.raises(UserError, match="no split 'dev'"):
        evaluate_task(make_task(), "dev", embed)
    with pytest.raises(ValueError, match=r"shape \(1, 3\) for 39 sentences"):
        embed_pairs(make_task(), "test", lambda _: torch.ones(1, 3))
    with pytest.raises(ValueError, match="the map gave 1 rows"):
        similarities(embed_pairs(make_task(), "test", embed), lambda x: x[:1])


def test_long_form_and_similarities() -> None:
    figures = evaluate_task(make_task(), "test", embed)
    measured = figures.measured
    assert [tuple(found) for found in measured.figures] == [
        ("spearman", name, getattr(figures, name), "") for name in ("all", "mean", "wmean")
    ]
    expected = np.concatenate([reference_cosines(subset) for subset in make_task().split("test")])
    np.testing.assert_allclose(measured.items, expected, atol=1e-9)
    assert measured.columns["subsets"][1]["pairs"] == 50
    assert (measured.columns["task"], measured.columns["pairs"]) == ("TOY", 80)


def test_a_flaw_leaves_no_figure_but_says_why() -> None:
    figures = evaluate_pairs(embed_pairs(make_task(), "test", embed), flaw="too few")
    assert {found.reason for found in figures.measured.figures} == {"too few"}
    assert np.isnan([figures.all, figures.wmean, figures.alignment, figures.uniformity, figures.mean_cosine]).all()
    assert np.isnan(figures.similarities).all()
    assert (figures.pairs, figures.sentences) == (80, 39)
