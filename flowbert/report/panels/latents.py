"""How Gaussian the vectors under a map are: their norms against the chi distribution, moments by dimension."""

import math
from collections.abc import Mapping

import numpy as np

from flowbert.analysis.found import Analysis
from flowbert.analysis.gaussianity import LatentShape
from flowbert.report.panel import Panel
from flowbert.report.panels.drawing import colours_in, draw_points, grid_of, grid_size
from flowbert.report.style import INK, Axes, Figure


def latent_panels(found: Analysis) -> list[Panel]:
    """Norms and moments."""
    if not found.shapes:
        return []
    colours = colours_in(found)
    return [_norms(found, colours), _moments(found.shapes, colours)]


def _norms(found: Analysis, colours: Mapping[str, str]) -> Panel:
    shapes = found.shapes

    def draw(figure: Figure) -> None:
        for name, axes in grid_of(figure, list(shapes)).items():
            axes.locator_params(nbins=4)
            _draw_norms(axes, shapes[name], colours[name])
        figure.supxlabel("norm / root of the number of dimensions", fontsize=10)
        figure.supylabel("density", fontsize=10)

    distances = ", ".join(f"{name} {found.latents[name].norm_distance:.2f}" for name in shapes)
    return Panel(
        "latent-norms",
        "Norms of the vectors against those of a standard normal",
        "Filled: the sentences; line: the chi distribution. Kolmogorov-Smirnov distance, 0 for a standard normal: "
        f"{distances}.",
        ("method", "dimensions", "norm_from", "norm_to", "vectors"),
        [
            (name, shape.dim, *bounds, count)
            for name, shape in shapes.items()
            for *bounds, count in zip(_bounds(shape)[:-1], _bounds(shape)[1:], shape.counts, strict=True)
        ],
        draw,
        grid_size(len(shapes), 2.2, 0.3),
    )


def _bounds(shape: LatentShape) -> list[float]:
    bounds: list[float] = np.linspace(shape.low, shape.high, len(shape.counts) + 1).tolist()
    return bounds


def _draw_norms(axes: Axes, shape: LatentShape, colour: str) -> None:
    from scipy.stats import chi

    bounds = _bounds(shape)
    width = (shape.high - shape.low) / len(shape.counts)
    axes.stairs(np.array(shape.counts) / sum(shape.counts) / width, bounds, fill=True, color=colour, alpha=0.6)
    root = math.sqrt(shape.dim)
    x = np.linspace(max(0.0, 1 - 4 / root), 1 + 4 / root, 80)
    axes.plot(x, root * chi.pdf(x * root, shape.dim), color=INK, linewidth=1.2)


def _moments(shapes: Mapping[str, LatentShape], colours: Mapping[str, str]) -> Panel:
    def draw(figure: Figure) -> None:
        for name, axes in grid_of(figure, list(shapes)).items():
            draw_points(
                axes, list(zip(shapes[name].skewness, shapes[name].excess_kurtosis, strict=True)), colours[name]
            )
            axes.locator_params(nbins=4)
            axes.plot(0, 0, "+", markersize=10, color=INK)
        figure.supxlabel("skewness", fontsize=10)
        figure.supylabel("excess kurtosis", fontsize=10)

    return Panel(
        "latent-moments",
        "Skewness and excess kurtosis of each dimension",
        "A dot is a dimension; the cross is a normal distribution. Above it tails are heavier.",
        ("method", "skewness", "excess_kurtosis"),
        [
            (name, *moments)
            for name, shape in shapes.items()
            for moments in zip(shape.skewness, shape.excess_kurtosis, strict=True)
        ],
        draw,
        grid_size(len(shapes), 2.2, 0.3),
    )
