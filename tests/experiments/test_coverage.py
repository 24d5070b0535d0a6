"""How often the 95% intervals contain the true score, on simulated tasks."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm

from flowbert.data.scored_pairs import STSData
from flowbert.experiments.intervals import find_intervals
from flowbert.tasks import STS, spearman
from helpers import scored

WMEAN = "spearman", "wmean"

# Strata of low-overlap:STS12 to STS16, STSB and SICKR: a tenth of their test pairs.
LOW_OVERLAP = [
    (75, 75, 46, 75, 40),
    (19, 75, 56),
    (45, 30, 75, 75, 75, 75),
    (38, 75, 38, 75, 75),
    (25, 25, 23, 24, 21),
    (138,),
    (493,),
]


@dataclass(frozen=True)
class Population:
    """Gold scores and cosines of two methods, by correlated normal variables."""

    first: float
    second: float

    def draw(self, rng, size):
        """Gold scores ``(size,)`` in 26 levels, and the cosines of each method."""
        gold, shared, own = rng.normal(size=(3, size))
        errors = shared, (shared + np.sqrt(3) * own) / 2
        cosines = [
            r * gold + np.sqrt(1 - r**2) * error
            for r, error in zip((self.first, self.second), errors, strict=True)
        ]
        return np.round(25 * norm.cdf(gold)) / 5, cosines

    def truth(self):
        """Spearman of each method and their difference, of a million pairs: error 0.001."""
        gold, cosines = self.draw(np.random.default_rng(1), 1_000_000)
        first, second = (spearman(values, gold) for values in cosines)
        return np.array([first, second, first - second])

    def draws(self, rng, tasks, resamples):
        """Both methods and their difference, the mean over tasks of these strata."""
        means = []
        for number, strata in enumerate(tasks):
            drawn = [self.draw(rng, size) for size in strata]
            alone = [scored({"test": gold}, "test").data for gold, _ in drawn]
            subsets = [subset for data in alone for subset in data.split("test")]
            task = STS(STSData(str(number), {"test": subsets}))
            items = {
                str(method): np.concatenate([cosines[method] for _, cosines in drawn])
                for method in range(2)
            }
            values = [task.score(each)[WMEAN] for each in items.values()]
            seed = int(rng.integers(2**31))
            replicates = task.resample(items, resamples, seed)[WMEAN]
            means.append(np.column_stack([values, replicates]))
        first, second = np.mean(means, axis=0)
        return np.stack([first, second, first - second])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "first", "second"),
    [
        (LOW_OVERLAP, 0.75, 0.6),
        (LOW_OVERLAP, 0.85, 0.75),
        (LOW_OVERLAP[4:5], 0.85, 0.75),
        (LOW_OVERLAP[5:6], 0.75, 0.6),
    ],
)
def test_intervals_of_small_tasks_cover_the_true_score(tasks, first, second):
    trials, resamples = 400, 400
    population = Population(first, second)
    truth = population.truth()
    rng = np.random.default_rng(0)
    covered, uncorrected = np.zeros(3), np.zeros(3)
    for _ in range(trials):
        drawn = population.draws(rng, tasks, resamples)
        low, high = find_intervals(drawn).T
        covered += (low <= truth) & (truth <= high)
        low, high = np.quantile(drawn[:, 1:], [0.025, 0.975], axis=1)
        uncorrected += (low <= truth) & (truth <= high)
    covered, uncorrected = covered / trials, uncorrected / trials
    print(f"covered {covered}, by percentiles alone {uncorrected}")
    # Four standard deviations of a share of 95% in so many trials: 4.4 points.
    tolerance = 4 * np.sqrt(0.95 * 0.05 / trials)
    np.testing.assert_allclose(covered, 0.95, atol=tolerance)
