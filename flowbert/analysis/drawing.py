"""Style, colours and files of plots."""

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1a1a1a"
"""Colour of lines that are of no method."""

ORDINAL = ("#0d0887", "#9c179e", "#d8576b", "#f0a030", "#c8c800")
"""Steps of a quantity, from low to high."""

_TRAINED = "d55e00"  # what a run trains
_FAMILIES = {
    "raw": "7f7f7f",
    "whitening": "0072b2",
    "zca": "56b4e9",
    **dict.fromkeys(("flow", "simcse", "sbert", "mlm"), _TRAINED),
    "standardization": "009e73",
    "truncation": "e69f00",
    "nulling": "cc79a7",
    **dict.fromkeys(("centering", "mean-removal"), "999933"),
    "learned-removal": "8c5fbf",
    "Gaussian": "0072b2",  # densities: whitening and standardization are their maps
    "diagonal": "009e73",
}
"""Colours of the methods in all plots; most are those of Okabe and Ito (2008)."""

_OTHER = "8c564b"
_WIDTH = 5.2  # inches of half a page
_DPI = 150
_STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8.5,
    "font.size": 8.5,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "flowbert",  # equal frames, equal files
    "text.parse_math": False,  # a name may hold dollar signs
}


@dataclass(frozen=True)
class Plot:
    """Settings for drawing a frame.

    Attributes:
        draw: Draws the frame, or one facet of it, on axes.
        title: What it shows.
        caption: How to read it; where that depends on what is drawn, a function of the frame.
        prepare: From the frame to the one that is drawn and saved; None for the same.
        facets: Columns whose values have axes of their own, separated by spaces.
        rows: Column whose values are rows of the picture, and add to its height.
        height: Height of the axes in inches.
        share: Axes that the facets share: ``x``, ``y`` or ``xy``.
        across: Facets in half the width of the page.
    """

    draw: "Callable[[Axes, pd.DataFrame], None]"
    title: str
    caption: str | Callable[[pd.DataFrame], str]
    prepare: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    facets: str = ""
    rows: str = ""
    height: float = 2.7
    share: str = ""
    across: int = 3


def method_colours(methods: Iterable[str]) -> dict[str, str]:
    """Colour of each method by its family; variants of a family are lighter.

    Args:
        methods: Methods, or their labels in tables.

    Example:
        >>> method_colours(["whitening", "whitening-128 (0, mean)"])
        {'whitening': '#0072b2', 'whitening-128 (0, mean)': '#4095c5'}
    """
    colours = {}
    variants: Counter[str] = Counter()
    for method in dict.fromkeys(methods):
        last = re.split(r"[ ,*]", method)[0].split("+")[-1]
        colour = _FAMILIES.get(re.sub(r"(-\d+)?(:.*)?$", "", last), _OTHER)
        rest = [255 - part for part in bytes.fromhex(colour)]
        lightness = 0.75 ** min(variants[colour], 2)
        variants[colour] += 1
        mixed = bytes(255 - round(lightness * part) for part in rest)
        colours[method] = f"#{mixed.hex()}"
    return colours


def colour_of(frame: pd.DataFrame) -> str:
    """Colour of the only method of a frame."""
    (colour,) = method_colours(frame["method"]).values()
    return colour


def short(text: str, longest: int = 64) -> str:
    """A text, or its beginning and its end if it is too long."""
    text = " ".join(str(text).split())
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 1]}…{text[-end:]}"


def scatter(ax: "Axes", points: pd.DataFrame, **look: Any) -> None:
    """Many small points, columns x and y; in an SVG they are one image."""
    ax.scatter(points["x"], points["y"], s=5, rasterized=True, **look)


def draw_intervals(ax: "Axes", frame: pd.DataFrame) -> None:
    """Values with their intervals, a row per label.

    Args:
        ax: Axes.
        frame: Columns label, value, low and high.
    """
    rows = range(len(frame))
    colours = frame["label"].map(method_colours(frame["label"]))
    ax.hlines(
        rows, frame["low"], frame["high"], colors=colours, linewidth=2.5, alpha=0.6
    )
    ax.scatter(frame["value"], rows, s=25, color=colours, zorder=3)
    names = [fill(short(label), 34) for label in frame["label"]]
    ax.set_yticks(rows, names, fontsize=8)
    ax.set_ylim(len(frame) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="x", nbins=5)


def draw(plot: Plot, frame: pd.DataFrame) -> "Figure":
    """Draw a frame, a facet for each value of the plot's facet columns.

    Args:
        plot: How it is drawn.
        frame: The frame, prepared.
    """
    from matplotlib.figure import Figure

    parts: list[Any] = [((), frame)]
    if plot.facets:
        parts = list(frame.groupby(plot.facets.split(), sort=False))
    halves = 1 if len(parts) <= plot.across else 2
    across = min(len(parts), halves * plot.across)
    down = math.ceil(len(parts) / across)
    rows = frame[plot.rows].nunique() if plot.rows else 0
    size = (halves * _WIDTH, down * (plot.height + 0.32 * rows))
    figure = Figure(size, dpi=_DPI, layout="constrained")
    longest = int(12 * size[0] / across)  # of the title above a facet
    x, y = "x" in plot.share, "y" in plot.share
    grid = figure.subplots(down, across, squeeze=False, sharex=x, sharey=y).flatten()
    for number, (ax, (names, part)) in enumerate(zip(grid, parts, strict=False)):
        plot.draw(ax, part)
        ax.set_title("\n".join(short(name, longest) for name in names))
        if number % across:
            ax.set_ylabel("")
        if number + across >= len(parts):
            ax.tick_params(labelbottom=True)  # the axes below are not used
        elif x:
            ax.set_xlabel("")
    for ax in grid[len(parts) :]:
        ax.remove()
    _add_legend(figure)
    return figure


def _add_legend(figure: "Figure") -> None:
    """One legend of all axes below them, in as many columns as there is space for."""
    handles: dict[str, Any] = {}
    for ax in figure.axes:
        own, names = ax.get_legend_handles_labels()
        handles |= dict(zip(names, own, strict=True))
    if len(handles) < 2:
        return
    width, height = figure.get_size_inches()
    columns = int(13 * width / (max(map(len, handles)) + 5))
    columns = min(max(columns, 1), len(handles))
    figure.set_figheight(height + 0.2 * math.ceil(len(handles) / columns))
    place: Any = {"loc": "outside lower center", "ncols": columns}
    figure.legend(list(handles.values()), handles, **place)


class Picture(NamedTuple):
    """A picture that was drawn.

    Args:
        svg: The picture.
        width: Its width in inches.
        caption: How to read it.
    """

    svg: bytes
    width: float
    caption: str


def save_picture(plot: Plot, frame: pd.DataFrame, path: Path) -> Picture:
    """Write a picture as .svg and .png, and the frame that it shows as .csv.

    Args:
        plot: How the frame is drawn.
        frame: The frame; not empty.
        path: Path of the files without their ending.
    """
    from matplotlib import rc_context

    if plot.prepare is not None:
        frame = plot.prepare(frame)
    svg = BytesIO()
    with rc_context(_STYLE), warnings.catch_warnings():
        # The font lacks some scripts; browsers have others.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure = draw(plot, frame)
        figure.savefig(path.with_suffix(".png"))
        figure.savefig(svg, format="svg", metadata={"Date": None})
    path.with_suffix(".svg").write_bytes(svg.getvalue())
    frame.to_csv(path.with_suffix(".csv"), index=False)
    caption = plot.caption if isinstance(plot.caption, str) else plot.caption(frame)
    return Picture(svg.getvalue(), figure.get_figwidth(), caption)
