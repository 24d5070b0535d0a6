"""One look for every picture: matplotlib's settings, the colour of each method, and how a figure becomes a file."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowbert.io.atomic import written_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # matplotlib takes a while to import: whoever draws does
    Axes = Figure = Any

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
    "#0d0887": "scale-1",  # four steps of an order, low to high
    "#7e03a8": "scale-2",
    "#cc4778": "scale-3",
    "#e07b12": "scale-4",
}
"""Colour in a picture -> the page's variable that stands for it, in its light and its dark form."""
SCALE = tuple(colour for colour, variable in IN_PAGE.items() if variable.startswith("scale-"))
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
    "text.parse_math": False,  # a name may hold dollar signs
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "flowbert",  # equal figures, equal file
}


def colours_of(methods: Iterable[str]) -> dict[str, str]:
    """Colours of the methods of one report, all different as long as there are seven or fewer.

    Raw embeddings, whitening and what a run trains have their own; a variant of these takes it where it is free.

    Example:
        >>> found = colours_of(["raw", "zca", "whitening-128", "flow", "whitening"])
        >>> found["whitening"], len(set(found.values()))
        ('#0072b2', 5)
    """
    found: dict[str, str] = {}
    names = list(dict.fromkeys(methods))
    for wanted in (lambda name: name, _family):
        for name in names:
            colour = _OF_METHODS.get(wanted(name))
            if name not in found and colour is not None and colour not in found.values():
                found[name] = colour
    for number, name in enumerate(names):
        free = [colour for colour in COLOURS if colour not in found.values()] or COLOURS[number % len(COLOURS) :]
        found.setdefault(name, free[0])
    return {name: found[name] for name in names}


def _family(method: str) -> str:
    """``whitening`` of ``whitening-128:shrinkage=0.1``."""
    return re.split("[-:]", method)[0]


@contextmanager
def figure_of_style(width: float, height: float) -> Iterator[Figure]:
    """An empty figure, in inches, to draw on and to save while the style holds."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def lay_out(figure: Figure) -> None:
    """Place what a figure of this style holds, once and for all, in points."""
    from matplotlib.ticker import LogFormatter

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log":
                axis.set_major_formatter(LogFormatter())  # the default one writes formulas, which stay unread here
    figure.set_dpi(72)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")


@contextmanager
def picture(path: str | Path, width: float, height: float) -> Iterator[Figure]:
    """A figure to draw on, in inches, that becomes the file, .svg or .png by the ending."""
    kind = Path(path).suffix.removeprefix(".")
    with figure_of_style(width, height) as figure:
        yield figure
        with written_atomically(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
