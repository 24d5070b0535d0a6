"""The verdict names the best, what does not differ from it, what is worse, and what to use."""

from collections.abc import Mapping

import numpy as np
import pytest

from flowbert.tasks.replicates import Replicates
from flowbert.tasks.verdict import verdict


def replicates(points: Mapping[str, float], spread: float = 0.01) -> Replicates:
    """Methods whose replicates lie evenly within ``spread`` of the point, those of odd ones mirrored."""
    steps = np.linspace(-spread, spread, 201)
    values = [point + steps * (-1) ** number for number, point in enumerate(points.values())]
    return Replicates("STSB", tuple(points), np.array(list(points.values())), np.array(values))


def test_the_best_what_does_not_differ_and_what_to_use() -> None:
    found = verdict(replicates({"raw": 0.5, "zca": 0.4, "whitening": 0.623, "flow": 0.624}))
    assert found.text == (
        "STSB: flow is better than raw by 12.4 [10.5, 14.3]; flow and whitening do not differ (0.1 [-1.8, 2.0]); "
        "zca is worse than raw by 10.0 [8.1, 11.9]"
    )
    assert (found.best, found.use) == ("flow", "whitening")


def test_noise_and_nothing_that_helps() -> None:
    noise = verdict(replicates({"raw": 0.5, "flow": 0.501}), label="STSB, target")
    assert noise.text == "STSB, target: nothing is better than raw: the lead of flow is noise (0.1 [-1.8, 2.0])"
    assert (noise.best, noise.use) == ("flow", "raw")
    worse = verdict(replicates({"raw": 0.5, "flow": 0.4}))
    assert worse.text == "STSB: nothing is better than raw; flow is worse than raw by 10.0 [8.1, 11.9]"
    assert (worse.best, worse.use) == ("raw", "raw")


def test_methods_without_a_figure_are_no_candidates() -> None:
    found = replicates({"raw": 0.5, "broken": np.nan, "flow": 0.6})
    assert verdict(found).best == "flow"
    assert verdict(found, baseline="broken").text.startswith("STSB: flow is better than raw")
    with pytest.raises(ValueError, match="STSB: 1 methods have a figure; a verdict needs at least 2"):
        verdict(replicates({"raw": 0.5}))
