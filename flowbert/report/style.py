"""One look for every picture: matplotlib's settings, the colour of each method, and how a figure becomes a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowbert.io.atomic import written_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".svg", ".png")
INK = "#1a1a1a"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)  # Okabe and Ito, 2008
IN_PAGE = {
    INK: "ink",
    "#b0b0b0": "rule",  # matplotlib's grid
    "#000000": "ink",
    "#ffffff": "paper",
    "#0072b2": "blue",
    "#d55e00": "vermilion",
    "#009e73": "green",
    "#cc79a7": "purple",
    "#e69f00": "orange",
    "#56b4e9": "sky",
}
"""Colour in a picture -> the page's variable that stands for it, in its light and its dark form."""
_OF_METHODS = {"raw": INK, "whitening": "#0072b2"}
_OF_METHODS |= dict.fromkeys(("flow", "simcse", "sbert", "mlm"), "#d55e00")  # what a run trains
_STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.markersize": 5,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "flowbert",  # equal figures, equal file
}


def colour_of(method: str, number: int = 0) -> str:
    """Colour of a method, the same in every picture; others take one by their number."""
    return _OF_METHODS.get(method, COLOURS[(number + 2) % (len(COLOURS) - 1)])


@contextmanager
def figure_of_style(width: float, height: float) -> Iterator["Figure"]:
    """An empty figure, in inches, to draw on and to save while the style holds."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


@contextmanager
def picture(path: str | Path, width: float, height: float) -> Iterator["Figure"]:
    """A figure to draw on, in inches, that becomes the file, .svg or .png by the ending."""
    kind = Path(path).suffix.removeprefix(".")
    with figure_of_style(width, height) as figure:
        yield figure
        with written_atomically(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
