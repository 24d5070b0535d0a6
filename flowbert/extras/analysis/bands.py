"""Cosines of sentence pairs by bands of their gold score, with histograms."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flowbert.arrays import Floats
from flowbert.extras.analysis.drawing import INK, TITLE, WIDTH, method_colours, short
from flowbert.extras.analysis.sample import Sample, stack

BANDS = 5
COSINE_BINS = 50
_TASKS = 4  # that are drawn
_HEIGHT = 0.85  # of a histogram, as a share of its band


def gold_bounds(gold: Floats) -> Floats:
    """Bounds of bands of equal width that hold all gold scores: ``(BANDS + 1,)``.

    The range is that of the scores, extended to multiples of the largest power of ten within it.
    Equal scores form one band.

    Args:
        gold: Gold scores, ``(P,)``.

    Example:
        >>> gold_bounds(np.array([0.2, 2.5, 4.8]))
        array([0., 1., 2., 3., 4., 5.])
    """
    low, high = float(np.min(gold)), float(np.max(gold))
    if low == high:
        return np.array([low, high])
    step = 10.0 ** math.floor(math.log10(high - low))
    # Rounding must not leave a score outside.
    first = min(low, math.floor(low / step) * step)
    last = max(high, math.ceil(high / step) * step)
    return np.linspace(first, last, BANDS + 1)


def gold_bands(gold: Floats, cosines: Floats) -> pd.DataFrame:
    """Histograms of cosines by band of the gold score.

    A score on a bound belongs to the band above, the highest one to the last band. Pairs without
    a cosine (NaN) are left out.

    Args:
        gold: Gold scores, ``(P,)``.
        cosines: Cosine of each pair, ``(P,)``.

    Returns:
        The frame of :func:`band_cosines` without task and method.

    Example:
        >>> gold, cosines = np.array([0.0, 2.0, 5.0]), np.array([-0.5, 0.5, 0.7])
        >>> gold_bands(gold, cosines).groupby("gold_from")["median"].first().tolist()
        [-0.5, nan, 0.5, nan, 0.7]
    """
    bounds = gold_bounds(gold)
    band_of_pair = np.digitize(gold, bounds[1:-1])
    histograms = []
    for band, (low, high) in enumerate(pairwise(bounds)):
        chosen = cosines[(band_of_pair == band) & ~np.isnan(cosines)]
        ends = {"gold_from": low, "gold_to": high, "median": pd.Series(chosen).median()}
        counts, edges = np.histogram(chosen, COSINE_BINS, (-1, 1))
        bins = {"cosine_from": edges[:-1], "cosine_to": edges[1:], "pairs": counts}
        histograms.append(pd.DataFrame(ends | bins))
    return pd.concat(histograms)


def band_cosines(sample: Sample) -> pd.DataFrame:
    """A row per task, method, band of the gold score and bin of a histogram of cosines.

    median is that of the band's cosines, pairs the number in the bin. A method without the cosine
    of a pair is left out.
    """
    parts = {
        (task, method): gold_bands(gold, values)
        for task, (gold, cosines) in sample.pairs.items()
        for method, values in cosines.items()
        if np.isfinite(values).all()
    }
    return stack(parts, ["task", "method"])


def prepare_cosines(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the share of a bin in its band's pairs; cut ends that are empty everywhere."""
    of_band = frame.groupby(["task", "method", "gold_from"])["pairs"].transform("sum")
    frame = frame.assign(share=(frame["pairs"] / of_band).fillna(0))
    used = frame[frame["pairs"] > 0]
    first, last = used["cosine_from"].min(), used["cosine_to"].max()
    return frame[frame["cosine_from"].ge(first) & frame["cosine_to"].le(last)]


def draw_bands(frame: pd.DataFrame) -> Figure:
    """A column per task, a row per method: histograms of the cosines, the highest gold above.

    The heights are those of a method's own histograms.
    """
    frame = prepare_cosines(frame)
    tasks, methods = frame["task"].unique()[:_TASKS], frame["method"].unique()
    size = (min(len(tasks), 2) * WIDTH, 0.5 + 1.7 * len(methods))
    figure = Figure(size, layout="constrained")
    grid = figure.subplots(len(methods), len(tasks), squeeze=False, sharex=True)
    for row, method in zip(grid, methods, strict=True):
        for ax, task in zip(row, tasks, strict=True):
            of_both = frame["task"].eq(task) & frame["method"].eq(method)
            _draw_histograms(ax, frame[of_both], method_colours([method])[method])
            ax.set_title(short(f"{method}, {task}", 48))
    for ax in grid[-1]:
        ax.set_xlabel("cosine")
    for ax in grid[:, 0]:
        ax.set_ylabel("gold score")
    return figure


def _draw_histograms(ax: Axes, frame: pd.DataFrame, colour: str) -> None:
    """A histogram per band of the gold score, with its median.

    Args:
        ax: Axes.
        frame: The bins of one task and method, see :func:`prepare_cosines`.
        colour: Colour of the method.
    """
    names = []
    bands = frame.groupby(["gold_from", "gold_to"], sort=True)
    for place, ((low, high), band) in enumerate(bands):
        names.append(f"{low:.3g} to {high:.3g}")
        heights = place + _HEIGHT * band["share"] / frame["share"].max()
        edges = [*band["cosine_from"], band["cosine_to"].iloc[-1]]
        median = band["median"].iloc[0]
        gid = f"{TITLE}{names[-1]}: median {median:z.2f}"
        ax.stairs(heights, edges, baseline=place, fill=True, color=colour, gid=gid)
        if math.isfinite(median):
            ax.plot([median, median], [place, place + _HEIGHT], color=INK)
            beside: Any = {"transform": ax.get_yaxis_transform()}
            ax.text(1.01, place + 0.2, f"{median:z.2f}", **beside)
    ax.set_yticks([place + 0.3 for place in range(len(names))], names)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
