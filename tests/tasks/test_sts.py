"""STS: its figures and key; the bootstrap is equal to scipy on every resample, paired, and its intervals cover."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import ConstantInputWarning, spearmanr

from flowbert.data.sts import STSTask, Subset
from flowbert.errors import UserError
from flowbert.tasks import STS, resampling
from flowbert.tasks.protocol import AGGREGATIONS
from flowbert.tasks.replicates import Replicates

Floats = NDArray[np.float64]
SIZES = (30, 11, 47)


def made(gold: Sequence[Floats], name: str = "T") -> STS:
    subsets = []
    for number, scores in enumerate(gold):
        texts = tuple(f"{number} {row}" for row in range(len(scores)))
        subsets.append(Subset(f"s{number}", texts, texts, scores))
    return STS(STSTask(name, {"test": subsets}))


GENERATOR = np.random.default_rng(0)
GOLD = [np.round(GENERATOR.uniform(0, 5, size) * 2) / 2 for size in SIZES]
WHOLE = np.concatenate(GOLD)
METHODS = {"smooth": WHOLE + GENERATOR.normal(size=88), "tied": np.round(WHOLE + 2 * GENERATOR.normal(size=88))}


def naive(x: Floats, y: Floats) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        return float(spearmanr(x, y).statistic)


def check_against_scipy(gold: Sequence[Floats], methods: Mapping[str, Floats], resamples: int, seed: int = 0) -> None:
    task = made(gold)
    found = task.resample(methods, resamples=resamples, seed=seed)
    blocks = resampling.blocks("T", sum(task.strata), resamples, seed)
    counts = np.concatenate([block.multiplicities(task.strata) for block in blocks])
    edges = np.cumsum(task.strata)[:-1]
    for number, drawn in enumerate(counts):
        rows = [np.repeat(np.arange(len(each)), each) for each in np.split(drawn, edges)]
        assert tuple(map(len, rows)) == task.strata
        target = [scores[each] for scores, each in zip(gold, rows, strict=True)]
        for place, values in enumerate(methods.values()):
            predicted = [part[each] for part, each in zip(np.split(values, edges), rows, strict=True)]
            by_subset = [naive(x, y) for x, y in zip(predicted, target, strict=True)]
            expected = {
                "all": naive(np.concatenate(predicted), np.concatenate(target)),
                "mean": float(np.mean(by_subset)),
                "wmean": float(np.average(by_subset, weights=task.strata)),
            }
            for name, figure in expected.items():
                np.testing.assert_allclose(found["spearman", name].values[place, number], figure, atol=1e-9, rtol=0)


def test_every_resample_equals_scipy() -> None:
    check_against_scipy(GOLD, METHODS, resamples=100)


def test_one_subset_equals_scipy() -> None:
    check_against_scipy(GOLD[:1], {"smooth": METHODS["smooth"][:30]}, resamples=50, seed=3)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), min_size=2, max_size=8), min_size=1, max_size=3)
)
def test_heavily_tied_and_constant_resamples_equal_scipy(rows: list[list[tuple[int, int]]]) -> None:
    gold = [np.array([float(a) for a, _ in subset]) for subset in rows]
    check_against_scipy(gold, {"method": np.array([float(b) for subset in rows for _, b in subset])}, resamples=8)


def test_blocks_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch, set_threads: Callable[[int], None]) -> None:
    monkeypatch.setattr(resampling, "_BLOCK_VALUES", 1000)
    set_threads(1)
    one = made(GOLD).resample(METHODS, resamples=50)
    set_threads(3)
    three = made(GOLD).resample(METHODS, resamples=50)
    for measure, replicates in one.items():
        np.testing.assert_array_equal(replicates.values, three[measure].values)
    check_against_scipy(GOLD, METHODS, resamples=50)


def values(task: STS, methods: Mapping[str, Floats], seed: int = 0) -> Floats:
    return task.resample(methods, resamples=20, seed=seed)["spearman", "wmean"].values


def test_resamples_depend_on_seed_and_task_not_on_methods() -> None:
    both = values(made(GOLD), METHODS)
    np.testing.assert_array_equal(both[1], values(made(GOLD), {"tied": METHODS["tied"]})[0])
    assert (values(made(GOLD), METHODS, seed=1) != both).any()
    assert (values(made(GOLD, "U"), METHODS) != both).any()


def test_points_are_the_figures_of_the_protocol() -> None:
    task = made(GOLD)
    found = task.resample(METHODS, resamples=30)
    for name, items in METHODS.items():
        for figure, replicates in zip(task.measure_items(items).figures, found.values(), strict=True):
            assert replicates.interval(name).value == figure.value
    assert found["spearman", "all"].interval("smooth").value == pytest.approx(
        naive(METHODS["smooth"], WHOLE), abs=1e-12
    )
    assert {replicates.name for replicates in found.values()} == {"T"}


def test_constant_resamples_are_dropped_and_counted() -> None:
    task = made([np.array([1.0, 2.0, 3.0])])
    interval = task.resample({"m": np.array([0.1, 0.3, 0.2])}, resamples=2000)["spearman", "all"].interval("m")
    assert interval.dropped / 2000 == pytest.approx(3 / 27, abs=0.03)  # all three draws alike
    assert -1 <= interval.low <= interval.high <= 1


def test_a_method_without_figures_has_no_interval() -> None:
    broken = METHODS["smooth"].copy()
    broken[33] = np.nan
    found = made(GOLD).resample({"broken": broken, **METHODS}, resamples=10)["spearman", "all"]
    assert found.interval("broken").dropped == 10
    assert math.isnan(found.interval("broken").low)
    assert found.usable() == ("smooth", "tied")


def gaussian(generator: np.random.Generator, strengths: Sequence[float], size: int) -> tuple[Floats, list[Floats]]:
    gold, noise = generator.normal(size=size), generator.normal(size=(len(strengths), size))
    return gold, [r * gold + math.sqrt(1 - r * r) * e for r, e in zip(strengths, noise, strict=True)]


def test_coverage_of_a_known_difference() -> None:
    """Gold and methods are jointly normal, so Spearman's rho is 6 / pi asin(r / 2) in the population."""
    strengths = (0.7, 0.5)
    truth = [6 / math.pi * math.asin(r / 2) for r in strengths]
    generator = np.random.default_rng(11)
    simulations = 1200
    covered = dict.fromkeys(AGGREGATIONS, 0)
    for number in range(simulations):
        subsets = [gaussian(generator, strengths, size) for size in (90, 110)]
        methods = {name: np.concatenate([each[i] for _, each in subsets]) for i, name in enumerate(("strong", "weak"))}
        found = made([gold for gold, _ in subsets]).resample(methods, resamples=400, seed=number)
        for name in AGGREGATIONS:
            covered[name] += contains(found["spearman", name], truth[0] - truth[1])
    for name, hits in covered.items():
        assert 0.93 <= hits / simulations <= 0.97, name


def contains(replicates: Replicates, difference: float) -> bool:
    interval = replicates.difference("strong", "weak")
    return interval.low <= difference <= interval.high


def test_without_a_method_there_is_nothing_to_resample() -> None:
    with pytest.raises(ValueError, match="T: no method to resample"):
        made(GOLD).resample({})


def test_a_task_learns_from_other_pairs_than_it_measures() -> None:
    subset = made(GOLD[:1]).subsets[0]
    data = STSTask("T", {"test": [subset], "train": [subset]})
    assert list(STS(data).labelled()) == [subset]
    assert not STS(data, "train").labelled()
    with pytest.raises(UserError, match="no split 'dev'"):
        STS(data, "dev")


def test_the_key_follows_what_decides_a_figure() -> None:
    task = made(GOLD)
    assert task.key == made(GOLD).key
    assert task.key["kind"] == "sts"
    others = [
        made(GOLD, "U"),
        made([GOLD[0] + 1, *GOLD[1:]]),
        STS(task.data, positive_above=3),
        STS(task.data, "test", 4, 9),
    ]
    assert all(task.key != other.key for other in others)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resamples": 0}, "resamples: received 0; allowed: a whole number of at least 1"),
        ({"seed": -1}, "seed: received -1; allowed: a whole number of at least 0"),
    ],
)
def test_bad_numbers_of_resamples(change: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        made(GOLD).resample(METHODS, **change)
