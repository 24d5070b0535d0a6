"""Bootstrap estimates: figures with 95% intervals, their differences, and which method to use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flowbert.arrays import Floats

_TAIL = (1 - 0.95) / 2


@dataclass(frozen=True, eq=False)
class Estimate:
    """A figure and its bootstrap replicates.

    Attributes:
        value: The figure.
        replicates: The same on each resample, ``(R,)``; NaN where it does not exist.
    """

    value: float
    replicates: Floats

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the 95% percentile interval; NaN without replicates."""
        finite = self.replicates[np.isfinite(self.replicates)]
        if not len(finite):
            return np.nan, np.nan
        low, high = np.quantile(finite, [_TAIL, 1 - _TAIL])
        return float(low), float(high)

    @property
    def exists(self) -> bool:
        """Whether there are a figure and an interval."""
        return bool(np.isfinite(self.value) and np.isfinite(self.replicates).any())

    def __sub__(self, other: "Estimate") -> "Estimate":
        """The difference on the same resamples."""
        return Estimate(self.value - other.value, self.replicates - other.replicates)

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval."""
        low, high = self.interval
        return low > 0 or high < 0

    def text(self) -> str:
        """Value and interval x 100: ``"12.4 [10.1, 14.6]"``."""
        low, high = self.interval
        return f"{100 * self.value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Plain average, of tasks or of seeds; resample r of each enters resample r of the average."""
    value = float(np.mean([each.value for each in estimates]))
    return Estimate(value, np.mean([each.replicates for each in estimates], axis=0))


def differences(estimates: Mapping[str, Estimate]) -> list[list[str]]:
    """Row minus column of any two, with the interval."""
    return [
        [
            "" if first is second else (first - second).text()
            for second in estimates.values()
        ]
        for first in estimates.values()
    ]


def verdict(estimates: Mapping[str, Estimate]) -> str:
    """Which method to use, in one line; others are compared with raw, or else with the first one.

    Args:
        estimates: At least two methods that exist, in the order of preference at equal merit.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> raw, whitening = (Estimate(x, x + rng.normal(0, 0.01, 99)) for x in (0.5, 0.7))
        >>> verdict({"raw": raw, "whitening": whitening}).split(" by")[0]
        'whitening is better than raw'
    """
    base = "raw" if "raw" in estimates else next(iter(estimates))
    best = max(estimates, key=lambda method: estimates[method].value)
    lead = estimates[best] - estimates[base]
    close = [
        method
        for method, estimate in estimates.items()
        if method != best and not (estimates[best] - estimate).excludes_zero
    ]
    if best == base:
        parts = [f"nothing is better than {base}"]
    elif base in close:
        parts = [
            f"nothing is better than {base}: the lead of {best} is noise ({lead.text()})"
        ]
    else:
        parts = [f"{best} is better than {base} by {lead.text()}"]
    for method in close:
        if method != base:
            difference = estimates[best] - estimates[method]
            parts.append(f"{best} and {method} do not differ ({difference.text()})")
    for method, estimate in estimates.items():
        loss = estimates[base] - estimate
        if method != base and loss.interval[0] > 0:
            parts.append(f"{method} is worse than {base} by {loss.text()}")
    use = next(method for method in estimates if method == best or method in close)
    return f"{'; '.join(parts)}. Use: {use}"
