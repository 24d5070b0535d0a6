"""Torchmetrics of the tasks: values of the functions, of batches and of merged states."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torchmetrics import Metric

from flowbert.metrics import (
    Alignment,
    MeanCosine,
    STSSpearman,
    Uniformity,
    VectorMetric,
)
from flowbert.tasks import alignment, mean_cosine, sts_spearman, uniformity
from flowbert.tasks.measures import SPACE_METRICS, isoscore, spectrum
from helpers import refused

DIM, COUNT = 5, 90
METRICS: dict[str, Callable[[], Metric]] = {
    "alignment": Alignment,
    "mean_cosine": lambda: MeanCosine(DIM),
    "isoscore": lambda: VectorMetric("isoscore"),
    "uniformity": Uniformity,
    "sample": lambda: Uniformity(DIM, limit=20),
    "wmean": lambda: STSSpearman("wmean"),
}


def draw_pairs():
    """Vectors of pairs, gold scores with ties, and three subsets that are not in order."""
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(COUNT, DIM)) + 0.3, dtype=torch.float32)
    y = x + torch.tensor(rng.normal(size=(COUNT, DIM)), dtype=torch.float32)
    gold = torch.tensor(rng.integers(0, 6, COUNT), dtype=torch.float32)
    return x, y, gold, torch.tensor(rng.integers(0, 3, COUNT))


def arguments(name, rows=slice(None)):
    """What update takes of some of the pairs."""
    x, y, gold, subset_of = (values[rows] for values in draw_pairs())
    if name == "alignment":
        return x, y
    if name == "wmean":
        return torch.cosine_similarity(x, y), gold, subset_of
    return (x,)


def expected(name):
    """The value of the function that tasks measure with."""
    values = arguments(name)
    if name == "wmean":
        return sts_spearman(*(value.double().numpy() for value in values))[name]
    functions: dict[str, Callable[..., float]] = {
        "alignment": alignment,
        "mean_cosine": mean_cosine,
        "uniformity": uniformity,
        "sample": lambda x: uniformity(x, limit=20),
        "isoscore": lambda x: isoscore(spectrum(x)),
    }
    return functions[name](*values)


@pytest.fixture(params=METRICS)
def name(request):
    return str(request.param)


BATCHES = (slice(0, 40), slice(40, 41), slice(41, 41), slice(41, COUNT))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_metric_is_the_function_of_all_batches(name, dtype):
    """In a module of half precision, too; parts merge, and a reset forgets."""
    metric, other = METRICS[name]().to(dtype), METRICS[name]().to(dtype)
    metric.update(*arguments(name))
    assert float(metric.compute()) == expected(name)
    metric.reset()
    metric.update(*arguments(name, BATCHES[0]))
    for rows in BATCHES[1:]:
        other.update(*arguments(name, rows))
    other.merge_state(metric)
    # Another order of sums.
    assert float(other.compute()) == pytest.approx(expected(name), abs=1e-12)


def test_what_is_undefined_is_nan(name):
    """As tests/tasks/test_measures.py has it."""
    metric = METRICS[name]()
    metric.update(*arguments(name, slice(0, 0)))
    assert math.isnan(metric.compute())


def test_wrong_shapes_and_names():
    with pytest.raises(ValueError, match=r"\(3, 4\); expected \(N, 5\)"):
        MeanCosine(DIM).update(torch.ones(3, 4))
    with pytest.raises(ValueError, match=r"\(3,\), \(4,\)"):
        STSSpearman().update(torch.ones(3), torch.ones(4))
    with pytest.raises(ValueError, match="received 'max'; expected all, mean, wmean"):
        STSSpearman("max")


def test_a_metric_by_name_is_the_metric():
    for named, made in (("uniformity", Uniformity()), ("mean_cosine", MeanCosine())):
        assert VectorMetric(named).higher_is_better is made.higher_is_better
    assert Uniformity().higher_is_better is False
    assert VectorMetric("isoscore").higher_is_better is True
    assert MeanCosine().higher_is_better is None
    for wrong in ("isoscre", *(x for x in SPACE_METRICS if SPACE_METRICS[x].of_pairs)):
        refused(f"name: received '{wrong}'", VectorMetric, wrong)
