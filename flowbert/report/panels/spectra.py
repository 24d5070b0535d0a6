"""Eigenvalues of the covariance under every method."""

import math

from flowbert.analysis.found import Analysis
from flowbert.report.panel import Panel
from flowbert.report.panels.drawing import WIDTH, colours_in
from flowbert.report.style import Figure

_DRAWN = 200  # directions of a line
_LEAST = 1e-12  # smaller shares are of directions that the vectors do not have


def spectrum_panels(found: Analysis) -> list[Panel]:
    """Share of the variance in each direction, by method, on a logarithmic axis."""
    colours = colours_in(found)
    spread = {name: values for name, values in found.spectra.items() if sum(values) > 0}  # NaN is not, either
    shares = {name: [value / sum(values) for value in values] for name, values in spread.items()}
    if not shares:
        return []

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set(xlabel="direction, by variance", ylabel="share of the variance", yscale="log")
        for name, values in shares.items():
            step = math.ceil(len(values) / _DRAWN)
            kept = [(i + 1, value) for i, value in enumerate(values) if value > _LEAST and i % step == 0]
            axes.plot(*zip(*kept, strict=True), color=colours[name], label=name)
        axes.minorticks_off()
        axes.legend()

    first = ", ".join(f"{name} {100 * values[0]:.1f}%" for name, values in shares.items())
    return [
        Panel(
            "spectra",
            "Variance by direction",
            "Eigenvalues of the covariance, as shares of their sum, the largest first; a flat line is isotropic. Share "
            f"of the first direction: {first}.",
            ("method", "direction", "share"),
            [(name, i + 1, value) for name, values in shares.items() for i, value in enumerate(values)],
            draw,
            (WIDTH, 3.6),
        )
    ]
