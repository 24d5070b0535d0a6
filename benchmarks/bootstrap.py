"""A paired bootstrap of the difference of two Spearmans, beside scipy.stats.bootstrap.

scipy calls its statistic once for each resample. It is measured on fewer resamples, and its time
grows in proportion to their number.

Floor: a resample is a count of four bytes for each pair, written once and read for each of the
three variables; each of the two methods takes the product of its ranks with those of the target,
in float64. Random numbers, sums along the ranks and gathers are not counted.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.harness import Row, Setting
from flowbert.arrays import Floats
from flowbert.data.scored_pairs import STSData, Subset
from flowbert.tasks import STS

PAIRS = 1379  # of STS-B's test split
RESAMPLES, PEER_RESAMPLES = 10_000, 200


def rows(setting: Setting) -> Iterator[Row]:
    """Seconds of all resamples."""
    rng = np.random.default_rng(0)
    gold = np.round(rng.uniform(0, 5, PAIRS) * 4) / 4  # with ties, as gold scores have
    methods = {name: gold + rng.normal(0, 2, PAIRS) for name in ("first", "second")}
    resamples = setting.times(RESAMPLES, 200)
    peer_resamples = setting.times(PEER_RESAMPLES, 50)
    texts = ("",) * PAIRS
    task = STS(STSData("benchmark", {"test": [Subset("all", texts, texts, gold)]}))

    def ours() -> None:
        task.resample(methods, resamples)

    def difference(first: Floats, second: Floats, target: Floats) -> Any:
        first_figure = stats.spearmanr(first, target).statistic
        return first_figure - stats.spearmanr(second, target).statistic

    def peer() -> None:
        stats.bootstrap(
            (*methods.values(), gold),
            difference,
            n_resamples=peer_resamples,
            paired=True,
            vectorized=False,
            method="percentile",
            rng=np.random.default_rng(0),
        )

    best = setting.seconds({"ours": ours, "peer": peer}, 3)
    drawn = resamples * PAIRS
    yield Row(
        "paired bootstrap",
        f"difference of two Spearmans, {PAIRS} pairs, {resamples} resamples",
        best["ours"],
        best["peer"] * resamples / peer_resamples,
        f"scipy.stats.bootstrap ({peer_resamples} resamples, in proportion)",
        setting.floor(2 * 2.0 * drawn, 4 * 4.0 * drawn, "float64"),
    )
