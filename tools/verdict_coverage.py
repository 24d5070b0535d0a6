"""How often a verdict names a method that is worse than the reference, on simulated tasks.

python tools/verdict_coverage.py            # table of docs/research/verdict.md

Gold scores and cosines are normal variables. Methods have the reference's true score or a lower
one, so that a verdict should name none; or half of them a higher one.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from flowbert.arrays import Floats
from flowbert.experiments.verdict import Verdict
from flowbert.seeding import Stream
from flowbert.tasks.measures import ResampledSpearman, draw_counts

REFERENCE = 0.6
"""Pearson's correlation of the reference with the gold score."""

SCENES: dict[str, Callable[[int], Any]] = {
    "equal": lambda count: np.full(count, REFERENCE),
    "worse by 0.02": lambda count: np.full(count, REFERENCE - 0.02),
    "half worse, half better by 0.02": lambda count: (
        REFERENCE + 0.02 * (-1.0) ** np.arange(count)
    ),
}
"""True correlations of the methods, by number."""

SHARED = 0.9
"""Correlation of the errors of any two rows, as those of maps of one encoder."""


def draw_scores(
    rng: np.random.Generator, correlations: Floats, size: int, resamples: int
) -> Floats:
    """Scores of rows and the same on resamples ``(rows, 1 + R)``, of ``size`` drawn pairs."""
    gold, shared = rng.normal(size=(2, size))
    own = rng.normal(size=(len(correlations), size))
    errors = np.sqrt(SHARED) * shared + np.sqrt(1 - SHARED) * own
    weights = correlations[:, None]
    cosines = weights * gold + np.sqrt(1 - weights**2) * errors
    levels = np.round(2 * gold)  # few, as those of people
    counts = draw_counts([size], resamples, Stream(int(rng.integers(2**31)), "verdict"))
    counts = np.vstack([np.ones((1, size), counts.dtype), counts])
    return ResampledSpearman(list(cosines), levels)(counts)


def simulate(
    scene: str, methods: int, size: int, trials: int, resamples: int
) -> dict[str, float]:
    """Percentages of the trials in which a method is named, and one that is worse."""
    rng = Stream(methods, "verdict", batch=size, of=scene).rng()
    truth = np.append(REFERENCE, SCENES[scene](methods))
    names = [str(row) for row in range(methods + 1)]
    named = wrong = 0
    for _ in range(trials):
        used = Verdict(names, draw_scores(rng, truth, size, resamples)).used
        named += used != 0
        wrong += truth[used] < REFERENCE
    return {"named": 100 * named / trials, "wrong": 100 * wrong / trials}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--resamples", type=int, default=200)
    options = parser.parse_args()
    rows = []
    for scene in SCENES:
        for size in (100, 500, 1500):
            for methods in (2, 5, 15):
                given = scene, methods, size, options.trials, options.resamples
                setting = {"methods": scene, "pairs": size, "number": methods}
                rows.append(setting | simulate(*given))
                print(rows[-1], flush=True)
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    main()
