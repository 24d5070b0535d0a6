"""Sentences as points: their norms against length and word frequency, and a map of them."""

import math
from collections.abc import Sequence

import numpy as np

from flowbert.analysis.found import Analysis, SentencePoints
from flowbert.report.panel import Panel
from flowbert.report.panels.drawing import WIDTH, colours_in, draw_points, grid_of, grid_size
from flowbert.report.style import INK, SCALE, Axes, Figure

_BY_NORM, _ON_MAP = 600, 1500  # dots of all methods together
_AXES = {"pca": "first two principal components", "umap": "UMAP"}
_GROUPS = 8  # of equal size, whose medians are drawn


def sentence_panels(found: Analysis) -> list[Panel]:
    """Norms, and the map."""
    if found.points is None or not found.points.maps:
        return []
    return [_norms(found, found.points), _map(found, found.points)]


def _norms(found: Analysis, points: SentencePoints) -> Panel:
    colours = colours_in(found)
    ratios = {name: [norm / found.norms[name].mean for norm in norms] for name, norms in points.norms.items()}
    shown = slice(_BY_NORM // len(ratios))
    measures: tuple[Sequence[float], ...] = (points.lengths, points.frequencies)
    correlations = {name: (of.with_length, of.with_frequency) for name, of in found.norms.items()}

    def draw(figure: Figure) -> None:
        grid = figure.subplots(len(ratios), 2, sharex="col", sharey=True, squeeze=False)
        for row, (name, values) in zip(grid, ratios.items(), strict=True):
            row[0].set_title(name, fontsize=9, loc="left", pad=2)
            for axes, by, rho in zip(row, measures, correlations[name], strict=True):
                axes.locator_params(nbins=4)
                draw_points(axes, list(zip(by, values, strict=True))[shown], colours[name], 2, alpha=0.5)
                _draw_medians(axes, by, values)
                axes.set_title(f"Spearman {rho:.2f}", fontsize=9, loc="right", pad=2)
        grid[-1][0].set_xlabel(f"length ({points.unit})")
        grid[-1][1].set_xlabel(f"mean log10 count of its {points.unit}")
        figure.supylabel("norm / mean norm", fontsize=10)

    said = "; ".join(f"{name} {length:.2f} and {freq:.2f}" for name, (length, freq) in correlations.items())
    return Panel(
        "norms",
        "Norms against length and word frequency",
        f"A dot is a sentence, the line runs through the medians of {_GROUPS} groups. Spearman over all "
        f"{found.measured} sentences with the length, and with the frequency of their {points.unit}: {said}.",
        ("method", "sentence", "length", "mean_log10_count", "norm"),
        [
            (name, text, length, frequency, norm)
            for name, norms in points.norms.items()
            for text, length, frequency, norm in zip(
                points.sentences, points.lengths, points.frequencies, norms, strict=True
            )
        ],
        draw,
        (WIDTH, 0.6 + 1.35 * len(ratios)),
    )


def _draw_medians(axes: Axes, by: Sequence[float], values: Sequence[float]) -> None:
    order = np.argsort(by, kind="stable")
    groups = [group for group in np.array_split(order, _GROUPS) if len(group)]
    x = [np.median(np.take(by, group)) for group in groups]
    axes.plot(x, [np.median(np.take(values, group)) for group in groups], color=INK, linewidth=1.2)


def _map(found: Analysis, points: SentencePoints) -> Panel:
    groups = _by_length(points.lengths)
    shown = slice(_ON_MAP // len(points.maps))
    pca = points.kind == "pca"
    size = grid_size(len(points.maps), 2.3, 0.8)
    across = len(SCALE) if size[0] == WIDTH else 2
    kept = {name: sum(values[:2]) / (sum(values) or math.nan) for name, values in found.spectra.items()}

    def draw(figure: Figure) -> None:
        for name, axes in grid_of(figure, list(points.maps), shared=False).items():
            for (low, high), colour in zip(groups, SCALE, strict=False):
                places = zip(points.maps[name][shown], points.lengths, strict=False)
                draw_points(axes, [place for place, length in places if low <= length <= high], colour)
            axes.set(xticks=[], yticks=[], xlabel=f"PCA, {100 * kept[name]:.0f}% of the variance" if pca else "UMAP")
        for (low, high), colour in zip(groups, SCALE, strict=False):
            figure.axes[0].plot([], [], "o", markersize=4, color=colour, label=f"{low} to {high}")
        handles = figure.axes[0].get_legend_handles_labels()
        figure.legend(*handles, title=f"length ({points.unit})", loc="outside lower center", ncols=across)

    return Panel(
        "map",
        "A map of the sentences",
        f"Each dot is a sentence, on the {_AXES[points.kind]} of all {found.measured}, coloured by its length. Colours "
        "that lie apart say that length decides where a sentence lies. Scales differ between methods.",
        ("method", "sentence", "length", "first", "second"),
        [
            (name, text, length, *place)
            for name, places in points.maps.items()
            for text, length, place in zip(points.sentences, points.lengths, places, strict=True)
        ],
        draw,
        size,
    )


def _by_length(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Lengths, first and last, of at most four groups of about as many sentences."""
    bounds = np.unique(np.quantile(lengths, np.linspace(0, 1, len(SCALE) + 1), method="lower")).astype(int).tolist()
    starts = [bounds[0], *(bound + 1 for bound in bounds[1:-1])]
    return list(zip(starts, bounds[1:] or bounds, strict=True))
