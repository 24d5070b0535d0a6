"""The spectrum of the covariance, and its plot."""

from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
import torch
from torch import Tensor

from flowbert.analysis.drawing import Plot, method_colours, short
from flowbert.analysis.measure import MEASURES, Measure, by_method
from flowbert.analysis.sample import Sample
from flowbert.tasks.measures import Array, to_rows

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes


def spectrum(x: Array) -> Tensor:
    """Eigenvalues of the covariance (divisor N) of vectors ``(N, D)``, largest first: ``(D,)``.

    Example:
        >>> spectrum(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
        tensor([0.5000, 0.0000], dtype=torch.float64)
    """
    rows = to_rows(x)
    centred = rows - rows.mean(dim=0)
    values: Tensor = torch.linalg.eigvalsh(centred.T @ centred / len(rows))
    return values.flip(0).clamp_min(0)


def draw_spectra(ax: "Axes", frame: pd.DataFrame) -> None:
    """Share of the variance by direction on a logarithmic axis.

    Args:
        ax: Axes.
        frame: Columns method, direction and share.
    """
    frame = frame[frame["share"] > 1e-12]  # less is rounding
    colours = method_colours(frame["method"])
    for method, rows in frame.groupby("method", sort=False):
        label = f"{short(method)}, first {rows['share'].iloc[0]:.1%}"
        ax.plot(rows["direction"], rows["share"], color=colours[method], label=label)
    ax.set(xlabel="direction", ylabel="share of the variance", yscale="log")
    ax.yaxis.set_major_formatter("{x:.0e}")  # the default writes formulas
    ax.minorticks_off()


@MEASURES.register("spectra")
class Spectra(Measure):
    """A row per method and direction, from 1, by falling variance.

    eigenvalue is that of the covariance, share its share of their sum.
    """

    columns: ClassVar = {
        "method": str,
        "direction": int,
        "eigenvalue": float,
        "share": float,
    }
    plots: ClassVar = {
        "spectra": Plot(
            draw_spectra,
            "Spectra",
            "Eigenvalues of the covariance as shares of their sum; a flat line is isotropic.",
        )
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The spectrum of every method."""
        return by_method(sample.vectors, _directions)


def _directions(x: Array) -> dict[str, Any]:
    values = spectrum(x).cpu().numpy()
    return {
        "direction": range(1, len(values) + 1),
        "eigenvalue": values,
        "share": values / values.sum(),
    }
