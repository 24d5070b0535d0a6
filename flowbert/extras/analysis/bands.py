"""Cosines of sentence pairs by bands of their gold score, with histograms."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from flowbert.arrays import Floats
from flowbert.extras.analysis.drawing import INK, WIDTH, method_colour, short
from flowbert.extras.analysis.sample import Sample, stack

_ROUND = MaxNLocator(5, steps=[1, 2, 5, 10])  # at most five bands
COSINE_BINS = 50
_TASKS = 4  # that are drawn
_HEIGHT = 0.85  # of a histogram, as a share of its band


def gold_bands(gold: Floats, cosines: Floats) -> pd.DataFrame:
    """Histograms of cosines by band of the gold score; bands have round bounds and equal widths.

    A score on a bound belongs to the higher band, except for the highest bound. Bands without pairs
    are left out.

    Args:
        gold: Gold scores, ``(P,)``.
        cosines: Cosine of each pair, ``(P,)``.

    Returns:
        The frame of :func:`band_cosines` without task and method.

    Example:
        >>> gold, cosines = np.array([0.0, 2.0, 5.0]), np.array([-0.5, 0.5, 0.7])
        >>> frame = gold_bands(gold, cosines).drop_duplicates("gold_from")
        >>> frame[["gold_from", "gold_to", "median"]].values.tolist()
        [[0.0, 1.0, -0.5], [2.0, 3.0, 0.5], [4.0, 5.0, 0.7]]
    """
    bounds = _ROUND.tick_values(gold.min(), gold.max())
    band_of_pair = np.digitize(gold, bounds[1:-1])
    histograms = []
    for band in np.unique(band_of_pair):
        chosen = cosines[band_of_pair == band]
        counts, edges = np.histogram(chosen, COSINE_BINS, (-1, 1))
        bins = {"cosine_from": edges[:-1], "cosine_to": edges[1:], "pairs": counts}
        ends = {"gold_from": bounds[band], "gold_to": bounds[band + 1]}
        histograms.append(pd.DataFrame(ends | {"median": np.median(chosen)} | bins))
    return pd.concat(histograms)


def band_cosines(sample: Sample) -> pd.DataFrame:
    """A row per task, method, band of the gold score and bin of a histogram of cosines.

    ``median`` is the median cosine of the band, ``pairs`` the number of pairs in the bin. A method
    that lacks the cosine of a pair is left out.
    """
    parts = {
        (task, method): gold_bands(gold, values)
        for task, (gold, cosines) in sample.pairs.items()
        for method, values in cosines.items()
        if np.isfinite(values).all()
    }
    return stack(parts, ["task", "method"])


def prepare_cosines(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the share of each bin in the pairs of its band; remove bins at the ends without pairs."""
    of_band = frame.groupby(["task", "method", "gold_from"])["pairs"].transform("sum")
    frame = frame.assign(share=frame["pairs"] / of_band)
    used = frame[frame["pairs"] > 0]
    first, last = used["cosine_from"].min(), used["cosine_to"].max()
    return frame[frame["cosine_from"].ge(first) & frame["cosine_to"].le(last)]


def draw_bands(frame: pd.DataFrame) -> Figure:
    """A column per task, a row per method: histograms of the cosines, the highest gold above.

    Heights are scaled for each method separately.
    """
    frame = prepare_cosines(frame)
    tasks, methods = frame["task"].unique()[:_TASKS], frame["method"].unique()
    size = (min(len(tasks), 2) * WIDTH, 0.5 + 1.7 * len(methods))
    figure = Figure(size, layout="constrained")
    grid = figure.subplots(len(methods), len(tasks), squeeze=False, sharex=True)
    for row, method in zip(grid, methods, strict=True):
        for ax, task in zip(row, tasks, strict=True):
            of_both = frame["task"].eq(task) & frame["method"].eq(method)
            _draw_histograms(ax, frame[of_both], method_colour(method))
            ax.set_title(short(f"{method}, {task}", 48))
    for ax in grid[-1]:
        ax.set_xlabel("cosine")
    for ax in grid[:, 0]:
        ax.set_ylabel("gold score")
    return figure


def _draw_histograms(ax: Axes, frame: pd.DataFrame, colour: str) -> None:
    """A histogram per band of the gold score, with its median at the right.

    Args:
        ax: Axes.
        frame: The bins of one task and method, see :func:`prepare_cosines`.
        colour: Colour of the method.
    """
    names = []
    for place, ((low, high), band) in enumerate(
        frame.groupby(["gold_from", "gold_to"])
    ):
        names.append(f"{low:.3g} to {high:.3g}")
        heights = place + _HEIGHT * band["share"] / frame["share"].max()
        edges = [*band["cosine_from"], band["cosine_to"].iloc[-1]]
        ax.stairs(heights, edges, baseline=place, fill=True, color=colour)
        median = band["median"].iloc[0]
        ax.vlines(median, place, place + _HEIGHT, INK)
        text = f"{median:z.2f}".replace("-", "\N{MINUS SIGN}")
        ax.text(1.01, place + 0.2, text, transform=ax.get_yaxis_transform())
    ax.set_yticks([place + 0.3 for place in range(len(names))], names)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
