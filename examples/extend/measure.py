"""A measure with its picture: how much of the variance the first directions hold.

python train.py analyze --measures spectra,examples.extend.measure.first_directions
"""

import pandas as pd
from matplotlib.figure import Figure

from flowbert.extras.analysis import MEASURES, VIEWS, Sample, View, new_axes
from flowbert.tasks.measures import spectrum


@MEASURES.register("first-directions")
def first_directions(sample: Sample, count: int = 3) -> pd.DataFrame:
    """Share of the variance in the first ``count`` directions of each method."""
    spectra = {method: spectrum(x) for method, x in sample.vectors.items()}
    share = [float((s[:count] / s.sum()).sum()) for s in spectra.values()]
    return pd.DataFrame({"method": list(spectra), "share": share})


def draw(frame: pd.DataFrame) -> Figure:
    """A bar for each method; a function that returns a frame would make a table."""
    figure, ax = new_axes()
    ax.barh(frame["method"], frame["share"])
    ax.set(xlabel="share of the variance")
    return figure


VIEWS["first-directions"] = View(
    "Embedding space", "First directions", "Less is more isotropic.", draw
)
