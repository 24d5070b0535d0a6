"""A measure with its plot: how much of the variance the first directions hold.

python train.py analyze --measures spectra,examples.extend.measure.FirstDirections
"""

from typing import ClassVar

import pandas as pd
from matplotlib.axes import Axes

from flowbert.extras.analysis import MEASURES, Measure, Plot, Sample
from flowbert.tasks.measures import spectrum


def draw(ax: Axes, frame: pd.DataFrame) -> None:
    """A bar for each method."""
    ax.barh(frame["method"], frame["share"])
    ax.set(xlabel="share of the variance")


@MEASURES.register("first-directions")
class FirstDirections(Measure):
    """Share of the variance in the first ``count`` directions: columns method and share."""

    plots: ClassVar = {
        "first-directions": Plot(draw, "First directions", "Less is more isotropic.")
    }

    def __init__(self, count: int = 3) -> None:
        self.count = count

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The share under every method."""
        spectra = {method: spectrum(x) for method, x in sample.vectors.items()}
        share = [float((s[: self.count] / s.sum()).sum()) for s in spectra.values()]
        return pd.DataFrame({"method": list(spectra), "share": share})
