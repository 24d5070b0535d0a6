"""Bits per dimension of densities."""

from flowbert.analysis.found import Analysis
from flowbert.report.panel import Panel
from flowbert.report.panels.drawing import WIDTH
from flowbert.report.style import COLOURS, Figure


def bits_panels(found: Analysis) -> list[Panel]:
    """Bits per dimension of sentences that nothing was fitted on, by density."""
    if not found.bits:
        return []
    ordered = sorted(found.bits.items(), key=lambda item: -item[1])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for row, (name, value) in enumerate(ordered):
            axes.plot(value, row, "o", color=COLOURS[name.startswith("flow")])
            axes.annotate(f"{value:.3f}", (value, row), (8, -3), textcoords="offset points")
        axes.set_yticks(range(len(ordered)), [name for name, _ in ordered])
        axes.margins(x=0.2, y=0.15)
        axes.set(xlabel="bits per dimension of held-out sentences (lower is better)")

    best, value = ordered[-1]
    return [
        Panel(
            "bits",
            "Density of held-out sentences",
            f"The fewer bits, the better a density describes them; best here: {best}, {value:.3f}. What the flow has "
            "below the best Gaussian is what whitening cannot say; with its couplings off it is a linear map.",
            ("density", "bits_per_dimension"),
            ordered,
            draw,
            (WIDTH, 0.8 + 0.35 * len(ordered)),
        )
    ]
