"""A map of sentences in two dimensions."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from flowbert.analysis.drawing import ORDINAL, Plot, scatter
from flowbert.analysis.measure import MEASURES, Measure, by_method
from flowbert.analysis.sample import Sample
from flowbert.arrays import Floats
from flowbert.tasks.measures import Array, to_rows

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes

DRAWN_SENTENCES = 400


def project(x: Array) -> Floats:
    """The first two principal components of vectors ``(N, D)``, D at least 2: ``(N, 2)``."""
    from sklearn.decomposition import PCA  # not before something is projected

    # Exact for every N and D; the solver "auto" may be a randomized one.
    pca = PCA(2, svd_solver="covariance_eigh")
    return np.asarray(pca.fit_transform(to_rows(x).cpu().numpy()), dtype=np.float64)


def draw_map(ax: "Axes", frame: pd.DataFrame) -> None:
    """Sentences in two dimensions, coloured by length.

    Args:
        ax: Axes.
        frame: Columns length, unit, x and y.
    """
    groups = [frame]  # lengths that are all equal have no quantiles
    if frame["length"].nunique() > 1:
        quarters = pd.qcut(frame["length"], 4, duplicates="drop")
        groups = [rows for _, rows in frame.groupby(quarters, observed=True)]
    for colour, rows in zip(ORDINAL, groups, strict=False):
        ends = sorted({rows["length"].min(), rows["length"].max()})
        label = f"{' to '.join(map(str, ends))} {rows['unit'].iloc[0]}"
        scatter(ax, rows, color=colour, label=label)
    ax.set(xticks=[], yticks=[])


@MEASURES.register("sentences")
class Sentences(Measure):
    """A row per method and sentence, at most 400 of them.

    length is in the unit (``words`` or ``tokens``), x and y the place on the first two principal
    components of all sentences.
    """

    plots: ClassVar = {
        "map": Plot(
            draw_map,
            "Map of the corpus",
            "The first two principal components. A point is a sentence, coloured by its length; "
            "scales differ between methods.",
            facets="method",
            height=2.2,
        ),
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The drawn sentences under every method."""
        drawn = sample.lengths.head(DRAWN_SENTENCES)
        drawn.insert(0, "sentence", sample.sentences[:DRAWN_SENTENCES])

        def place(x: Array) -> pd.DataFrame:
            places = project(x)[: len(drawn)]
            return drawn.assign(x=places[:, 0], y=places[:, 1])

        return by_method(sample.vectors, place)
