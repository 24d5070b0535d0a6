"""Cosines of a task's pairs by gold score, under every method."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from flowbert.analysis.found import Analysis
from flowbert.analysis.gold_bands import GoldBand
from flowbert.report.panel import Panel
from flowbert.report.panels.drawing import colours_in, file_names, grid_of, grid_size
from flowbert.report.style import INK, Axes, Figure

_COLUMNS = ("method", "gold_from", "gold_to", "pairs", "lower_quartile", "median", "upper_quartile")
_HEIGHT = 0.85  # of the highest step, in bands


def gold_panels(found: Analysis) -> list[Panel]:
    """A panel for each task: histograms of cosines, a band of gold scores above the other, medians marked."""
    names, colours = file_names(found.bands), colours_in(found)
    panels = [_panel(f"gold-{names[task]}", task, found.bands[task], colours) for task in names]
    return [panel for panel in panels if panel is not None]


def _panel(stem: str, task: str, by_method: Mapping[str, list[GoldBand]], colours: Mapping[str, str]) -> Panel | None:
    filled = {name: [band for band in bands if band.median is not None] for name, bands in by_method.items()}
    filled = {name: bands for name, bands in filled.items() if bands}
    if not filled:
        return None
    bins = max(len(band.counts) for bands in by_method.values() for band in bands)
    bounds = np.linspace(-1, 1, bins + 1)

    def draw(figure: Figure) -> None:
        for name, axes in grid_of(figure, list(filled)).items():
            _draw(axes, filled[name], colours[name], bounds)
        used = np.sum([band.counts for bands in filled.values() for band in bands], axis=0).nonzero()[0]
        axes.set(xlim=(bounds[used[0]], bounds[used[-1] + 1]))
        figure.supxlabel("cosine", fontsize=10)
        figure.supylabel("gold score", fontsize=10)

    medians = "; ".join(f"{name} {bands[0].median:.2f} to {bands[-1].median:.2f}" for name, bands in filled.items())
    return Panel(
        stem,
        f"Cosines by gold score, {task}",
        "Histograms of the pairs in each band of the gold score, scaled by the highest step of a method; a line marks "
        "the median. The less the bands overlap, the better the ranking. Medians of the lowest and the highest band: "
        f"{medians}.",
        (*_COLUMNS, *(f"cosine_{bound:.2f}" for bound in bounds[:-1])),
        [
            (name, b.low, b.high, b.pairs, b.lower, b.median, b.upper, *b.counts)
            for name, bands in by_method.items()
            for b in bands
        ],
        draw,
        grid_size(len(filled), 2.6, 0.3),
    )


def _draw(axes: Axes, bands: list[GoldBand], colour: str, bounds: "np.typing.NDArray[np.float64]") -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    shares = [np.array(band.counts) / band.pairs for band in bands]
    highest = max(share.max() for share in shares)
    outlines = []
    for place, share in enumerate(shares):
        used = share.nonzero()[0]
        first, last = used[0], used[-1] + 1
        steps = np.repeat(place + _HEIGHT * share[first:last] / highest, 2)
        heights = np.concatenate([[place], steps, [place]])
        outlines.append(Path(np.column_stack([np.repeat(bounds[first : last + 1], 2), heights])))
    look: dict[str, Any] = {"facecolor": (colour, 0.45), "edgecolor": colour, "linewidth": 0.8}
    # One path and one call for all bands: what matplotlib takes goes by the number of things drawn.
    histograms = PathPatch(Path.make_compound_path(*outlines), **look)
    histograms.sticky_edges.y.append(0)
    axes.add_patch(histograms)
    places = np.arange(len(bands))
    axes.vlines([band.median or 0.0 for band in bands], places, places + _HEIGHT, color=INK, linewidth=1.5)
    axes.set_yticks(range(len(bands)), [f"{b.low:.3g} to {b.high:.3g}" for b in bands])
    axes.grid(visible=False, axis="y")
