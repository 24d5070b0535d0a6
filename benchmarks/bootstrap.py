"""A paired bootstrap of the difference of two Spearmans, beside scipy.stats.bootstrap.

Ours is what ``evaluate`` does. scipy calls its statistic once a resample, which is how it takes a Spearman; it is
measured on fewer resamples, as its row says, and its time grows with their number in proportion.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.harness import Copy, Row, Setting
from flowbert.data.sts import STSTask, Subset
from flowbert.tasks.sts import STS

PAIRS, RESAMPLES, PEER_RESAMPLES = 1379, 10_000, 200  # pairs of STS-B's test split
Floats = NDArray[np.float64]


def rows(setting: Setting) -> list[Row]:
    """Seconds of all resamples."""
    rng = np.random.default_rng(0)
    gold = np.round(rng.uniform(0, 5, PAIRS) * 4) / 4  # tied, as gold scores are
    methods = [gold + rng.normal(0, 2, PAIRS) for _ in range(2)]
    resamples, theirs = setting.times(RESAMPLES, 200), setting.times(PEER_RESAMPLES, 50)

    nothing = ("",) * PAIRS
    task = STS(STSTask("benchmark", {"test": [Subset("benchmark", nothing, nothing, gold)]}))
    items = dict(zip(("first", "second"), methods, strict=True))

    def ours() -> Floats:
        found = task.resample(items, resamples=resamples)
        first, second = found["spearman", "all"].values
        return np.asarray(first - second)

    def difference(first: Floats, second: Floats, target: Floats) -> Any:
        return stats.spearmanr(first, target).statistic - stats.spearmanr(second, target).statistic

    def peer() -> Floats:
        found = stats.bootstrap(
            (*methods, gold),
            difference,
            n_resamples=theirs,
            paired=True,
            vectorized=False,
            method="percentile",
            rng=np.random.default_rng(0),
        )
        return np.asarray(found.bootstrap_distribution)

    copy = Copy()
    best = setting.seconds({"ours": ours, "peer": peer, "copy": copy}, 3)
    errors = [float(np.std(ours())), float(np.std(peer()))]
    counted = 4.0 * resamples * PAIRS * 4  # written, and read for the gold scores and for each method
    return [
        Row(
            name="paired bootstrap",
            setting=f"difference of two Spearmans, {PAIRS} pairs, {resamples} resamples",
            ours=best["ours"],
            peer=best["peer"] * resamples / theirs,
            peer_name=f"scipy.stats.bootstrap ({theirs} resamples, in proportion)",
            floor=counted * best["copy"] / copy.bytes,
            floor_is=f"{counted / 1e6:.0f} MB: multiplicities, written once and read three times",
            aim="50 x the peer",
            more={"standard errors, ours and the peer's": errors},
        )
    ]
