"""The bootstrap: equal to scipy on every resample, paired, reproducible, and its intervals cover."""

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import ConstantInputWarning, spearmanr

from flowbert.errors import UserError
from flowbert.tasks import resampling
from flowbert.tasks.bootstrap import Interval, Replicates, average, bootstrap, over_seeds, verdict
from flowbert.tasks.pairs import ScoredPairs
from flowbert.tasks.protocol import AGGREGATIONS

Floats = NDArray[np.float64]


def scored(gold: Sequence[Floats], **methods: Sequence[Floats]) -> ScoredPairs:
    predicted = {name: tuple(values) for name, values in methods.items()}
    return ScoredPairs("T", "test", tuple(f"s{i}" for i in range(len(gold))), tuple(gold), predicted)


def three_subsets(seed: int = 0) -> ScoredPairs:
    generator = np.random.default_rng(seed)
    gold = [np.round(generator.uniform(0, 5, size) * 2) / 2 for size in (30, 11, 47)]
    smooth = [scores + generator.normal(size=len(scores)) for scores in gold]
    tied = [np.round(scores + 2 * generator.normal(size=len(scores))) for scores in gold]
    return scored(gold, smooth=smooth, tied=tied)


def naive(x: Floats, y: Floats) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        return float(spearmanr(x, y).statistic)


def replayed(pairs: ScoredPairs, resamples: int, seed: int) -> list[list[NDArray[np.int64]]]:
    """The resamples themselves, as rows by subset, drawn again from the documented streams."""
    sizes = [len(scores) for scores in pairs.gold]
    blocks = resampling.blocks(pairs.task, len(pairs), resamples, seed)
    counts = np.concatenate([block.multiplicities(sizes) for block in blocks])
    edges = np.cumsum(sizes)[:-1]
    return [[np.repeat(np.arange(len(part)), part) for part in np.split(row, edges)] for row in counts]


def check_against_scipy(pairs: ScoredPairs, resamples: int, seed: int = 0) -> None:
    found = bootstrap(pairs, resamples=resamples, seed=seed)
    sizes = [len(scores) for scores in pairs.gold]
    for number, rows in enumerate(replayed(pairs, resamples, seed)):
        assert [len(part) for part in rows] == sizes
        gold = [scores[part] for scores, part in zip(pairs.gold, rows, strict=True)]
        for place, values in enumerate(pairs.predicted.values()):
            predicted = [scores[part] for scores, part in zip(values, rows, strict=True)]
            by_subset = [naive(x, y) for x, y in zip(predicted, gold, strict=True)]
            expected = [
                naive(np.concatenate(predicted), np.concatenate(gold)),
                float(np.mean(by_subset)),
                float(np.average(by_subset, weights=sizes)),
            ]
            np.testing.assert_allclose(found.values[place, :, number], expected, atol=1e-9, rtol=0)


def test_every_resample_equals_scipy() -> None:
    check_against_scipy(three_subsets(), resamples=100)


def test_one_subset_equals_scipy() -> None:
    pairs = three_subsets()
    check_against_scipy(scored(pairs.gold[:1], smooth=pairs.predicted["smooth"][:1]), resamples=50, seed=3)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), min_size=2, max_size=8), min_size=1, max_size=3)
)
def test_heavily_tied_and_constant_resamples_equal_scipy(rows: list[list[tuple[int, int]]]) -> None:
    gold = [np.array([float(a) for a, _ in subset]) for subset in rows]
    values = [np.array([float(b) for _, b in subset]) for subset in rows]
    pairs = scored(gold, method=values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the point figure itself may not exist
        check_against_scipy(pairs, resamples=8)


def test_blocks_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = three_subsets()
    monkeypatch.setattr(resampling, "_BLOCK_VALUES", 1000)
    one = bootstrap(pairs, resamples=50)
    three = bootstrap(pairs, resamples=50, threads=3)
    np.testing.assert_array_equal(one.values, three.values)
    check_against_scipy(pairs, resamples=50)


def test_resamples_depend_on_seed_and_task_not_on_methods() -> None:
    pairs = three_subsets()
    both = bootstrap(pairs, resamples=20)
    alone = bootstrap(scored(pairs.gold, tied=pairs.predicted["tied"]), resamples=20)
    np.testing.assert_array_equal(both.values[1], alone.values[0])
    assert (bootstrap(pairs, resamples=20, seed=1).values != both.values).any()
    other = ScoredPairs("U", "test", pairs.subsets, pairs.gold, pairs.predicted)
    assert (bootstrap(other, resamples=20).values != both.values).any()


def test_points_are_the_figures_of_the_protocol_and_differences_are_paired() -> None:
    pairs = three_subsets()
    found = bootstrap(pairs, resamples=300)
    whole = naive(pairs.concatenated("smooth"), pairs.concatenated())
    assert found.interval("smooth", "all").value == pytest.approx(whole, abs=1e-12)
    for aggregation in AGGREGATIONS:
        itself = found.difference("smooth", "smooth", aggregation)
        assert (itself.value, itself.low, itself.high) == (0, 0, 0)
        there, back = found.difference("smooth", "tied", aggregation), found.difference("tied", "smooth", aggregation)
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    values = found.values[0, 2]
    interval = found.interval("smooth", level=0.9)
    assert (interval.low, interval.high) == tuple(np.percentile(values, [5, 95]))


def test_constant_resamples_are_dropped_and_counted() -> None:
    gold, values = np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.3, 0.2])
    found = bootstrap(scored([gold], method=[values]), resamples=2000).interval("method")
    assert found.resamples + found.dropped == 2000
    assert found.dropped / 2000 == pytest.approx(3 / 27, abs=0.03)  # all three draws alike
    assert -1 <= found.low <= found.high <= 1


@pytest.mark.filterwarnings("ignore:Spearman is NaN")
def test_a_method_without_figures_has_no_interval() -> None:
    pairs = three_subsets()
    broken = [values.copy() for values in pairs.predicted["smooth"]]
    broken[1][3] = np.nan
    found = bootstrap(scored(pairs.gold, broken=broken, **pairs.predicted), resamples=10)
    interval = found.interval("broken", "all")
    assert (interval.resamples, interval.dropped) == (0, 10)
    assert math.isnan(interval.low)
    assert not interval.excludes_zero
    assert verdict(found, baseline="smooth").best == "smooth"


def gaussian(generator: np.random.Generator, size: int, strengths: Mapping[str, float]) -> tuple[Floats, list[Floats]]:
    gold = generator.normal(size=size)
    noise = generator.normal(size=(len(strengths), size))
    return gold, [r * gold + math.sqrt(1 - r * r) * e for r, e in zip(strengths.values(), noise, strict=True)]


def test_coverage_of_a_known_difference() -> None:
    """Gold and methods are jointly normal, so Spearman's rho is 6 / pi asin(r / 2) in the population."""
    strengths = {"strong": 0.7, "weak": 0.5}
    truth = [6 / math.pi * math.asin(r / 2) for r in strengths.values()]
    generator = np.random.default_rng(11)
    simulations = 1200
    covered = dict.fromkeys(AGGREGATIONS, 0)
    for number in range(simulations):
        parts = [gaussian(generator, size, strengths) for size in (90, 110)]
        methods = {name: [values[i] for _, values in parts] for i, name in enumerate(strengths)}
        found = bootstrap(scored([gold for gold, _ in parts], **methods), resamples=400, seed=number)
        for aggregation in AGGREGATIONS:
            covered[aggregation] += found.difference("strong", "weak", aggregation).contains(truth[0] - truth[1])
    for aggregation, hits in covered.items():
        assert 0.93 <= hits / simulations <= 0.97, aggregation


def test_average_over_tasks() -> None:
    first, second = three_subsets(0), three_subsets(1)
    parts = [
        bootstrap(ScoredPairs(name, "test", pairs.subsets, pairs.gold, pairs.predicted), resamples=40)
        for name, pairs in (("A", first), ("B", second))
    ]
    mean = average(parts)
    np.testing.assert_allclose(mean.values, (parts[0].values + parts[1].values) / 2)
    assert mean.interval("tied").value == pytest.approx(np.mean([p.interval("tied").value for p in parts]))
    assert (mean.task, mean.pairs) == ("Avg", 176)
    with pytest.raises(UserError, match="tasks A, A: one comes twice; allowed: each once"):
        average([parts[0], parts[0]])
    with pytest.raises(UserError, match="B has the methods smooth, tied and 7 resamples; needed: smooth, tied and 40"):
        average([parts[0], Replicates("B", ("smooth", "tied"), parts[0].points, parts[0].values[..., :7], 88, 0)])
    with pytest.raises(UserError, match="no task to average"):
        average([])


def test_seeds_are_pooled_and_summarized() -> None:
    found = bootstrap(three_subsets(), resamples=30)
    pooled = found.pooled("mean of 2", ["smooth", "tied"])
    assert pooled.methods == ("mean of 2",)
    np.testing.assert_allclose(pooled.values[0], found.values.mean(axis=0))
    summary = over_seeds([0.6, 0.7, 0.65])
    assert (summary.mean, summary.std, summary.seeds) == pytest.approx((0.65, 0.05, 3))
    assert math.isnan(over_seeds([0.5]).std)
    with pytest.raises(UserError, match="no figures"):
        over_seeds([])
    with pytest.raises(UserError, match="name 'tied' is taken; there are smooth, tied"):
        found.pooled("tied", ["smooth"])
    with pytest.raises(UserError, match="no members for 'x'"):
        found.pooled("x", [])


def replicates(points: Mapping[str, float], spread: float, task: str = "STSB") -> Replicates:
    """Methods whose replicates lie evenly within ``spread`` of the point, those of odd ones mirrored."""
    steps = np.linspace(-spread, spread, 201)
    values = [np.broadcast_to(point + steps * (-1) ** i, (3, 201)) for i, point in enumerate(points.values())]
    return Replicates(task, tuple(points), np.repeat(list(points.values()), 3).reshape(-1, 3), np.array(values), 9, 0)


def test_verdict_names_the_best_what_ties_with_it_and_what_to_use() -> None:
    found = verdict(replicates({"raw": 0.5, "zca": 0.4, "whitening": 0.623, "flow": 0.624}, 0.01))
    assert found.text == (
        "STSB: flow is better than raw by 12.4 [10.5, 14.3]; flow and whitening do not differ (0.1 [-1.8, 2.0]); "
        "zca is worse than raw by 10.0 [8.1, 11.9]"
    )
    assert (found.best, found.use, found.noise) == ("flow", "whitening", False)


def test_verdict_says_noise_and_that_nothing_helps() -> None:
    noise = verdict(replicates({"raw": 0.5, "flow": 0.501}, 0.01), label="STSB, target")
    assert noise.text == "STSB, target: nothing is better than raw: the lead of flow is noise (0.1 [-1.8, 2.0])"
    assert (noise.best, noise.use, noise.noise) == ("flow", "raw", True)
    worse = verdict(replicates({"raw": 0.5, "flow": 0.4}, 0.01))
    assert worse.text == "STSB: nothing is better than raw; flow is worse than raw by 10.0 [8.1, 11.9]"
    assert (worse.best, worse.use, worse.noise) == ("raw", "raw", True)
    with pytest.raises(UserError, match="STSB: 1 methods have a figure; a verdict needs at least 2"):
        verdict(replicates({"raw": 0.5}, 0.01))


def test_interval_text_and_bounds() -> None:
    interval = Interval(0.1, -0.05, 0.2, 0.95, 100, 0)
    assert interval.text() == "10.0 [-5.0, 20.0]"
    assert interval.contains(0.2)
    assert not interval.contains(0.21)
    assert not interval.excludes_zero
    assert Interval(0.1, 0.05, 0.2, 0.95, 100, 0).excludes_zero


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resamples": 0}, "resamples is 0; allowed: a whole number of at least 1"),
        ({"seed": -1}, "seed is -1; allowed: a whole number of at least 0"),
        ({"threads": 0}, "threads is 0; allowed: a whole number of at least 1"),
    ],
)
def test_bad_options(options: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        bootstrap(three_subsets(), **options)


def test_bad_questions() -> None:
    found = bootstrap(three_subsets(), resamples=5)
    with pytest.raises(UserError, match=r"T: no method 'tie'; allowed: smooth, tied \(did you mean 'tied'\?\)"):
        found.interval("tie")
    with pytest.raises(UserError, match=r"aggregation is 'weighted'; allowed: all, mean, wmean"):
        found.interval("tied", "weighted")
    with pytest.raises(UserError, match="level is 95; allowed: a number between 0 and 1"):
        found.interval("tied", level=95)
    gold = np.array([1.0, 2.0, np.nan])
    with pytest.raises(UserError, match="T: gold scores hold NaN or infinity"):
        bootstrap(scored([gold], m=[np.arange(3.0)]))
    with pytest.raises(UserError, match="T: no method to resample"):
        bootstrap(scored([np.arange(3.0)]))
