"""Style, colours and files of plots."""

import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flowbert.options import TRAINED_METHODS

INK = "#1a1a1a"
"""Colour of lines that do not belong to a method."""

ORDINAL = ("#5b6ee1", "#9a55d3", "#cf4a8f", "#d4602f", "#9a7b1a")
"""Steps of a quantity, from low to high; at least 3:1 on white and on dark ground."""

_TRAINED = "e8500a"  # what a run trains
_FAMILIES = {
    **dict.fromkeys(("raw", "layers", "pooling", "template", "sink_token"), "6b6b6b"),
    "whitening": "0072b2",
    "zca": "2b97ec",
    **dict.fromkeys(TRAINED_METHODS, _TRAINED),
    "standardization": "00945a",
    "truncation": "7d4600",
    "nulling": "d559b4",
    **dict.fromkeys(("centering", "mean-removal"), "3f3a00"),
    "learned-removal": "4b06a0",
}
"""Colours of methods; contrast of 3:1 on white, distinct also under deuteranopia."""

WIDTH = 5.2
"""Inches of half a page."""
_DPI = 150
_STYLE = Path(__file__).with_name("page.mplstyle")


def method_colour(method: str) -> str:
    """Colour of a method, or of its label in tables, by the family of its first map.

    Example:
        >>> method_colour("whitening") == method_colour("whitening-128 (0, mean)")
        True
    """
    name = method.removeprefix("advised: ")
    families = (
        colour for family, colour in _FAMILIES.items() if name.startswith(family)
    )
    return f"#{next(families, '1c0008')}"


def short(text: str, longest: int = 64) -> str:
    """A text, or its beginning if it is too long."""
    text = " ".join(str(text).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def scatter(ax: Axes, points: pd.DataFrame, **look: Any) -> None:
    """Draw many small points, columns x and y; an SVG contains them as one image."""
    ax.scatter(points["x"], points["y"], s=5, rasterized=True, **look)


def new_axes() -> tuple[Figure, Axes]:
    """A figure of half the width of a page, with one axes."""
    figure = Figure((WIDTH, 2.7), layout="constrained")
    return figure, figure.subplots()


def draw_facets(
    frame: pd.DataFrame,
    column: str,
    draw: Callable[[Axes, pd.DataFrame], None],
    height: float = 2.7,
) -> Figure:
    """Draw the rows of each value of a column on separate axes, four in the width of a page.

    Args:
        frame: The frame.
        column: The column.
        draw: Function that draws rows on axes.
        height: Height of the axes in inches.
    """
    parts = list(frame.groupby(column, sort=False))
    columns = min(len(parts), 4)
    lines = math.ceil(len(parts) / columns)
    width = max(WIDTH, WIDTH * columns / 2)
    figure = Figure((width, lines * height), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    for ax in grid.flat[len(parts) :]:
        ax.remove()
    for ax, (name, part) in zip(grid.flat, parts, strict=False):
        draw(ax, part)
        ax.set_title(short(name, int(12 * width / columns)))
    for ax in grid[:, 1:].flat:
        ax.set_ylabel("")
    return figure


def _add_legend(figure: Figure) -> None:
    """One legend of all axes below them, a line for each label."""
    entries = [ax.get_legend_handles_labels() for ax in figure.axes]
    handles = {
        name: line for lines in entries for line, name in zip(*lines, strict=True)
    }
    if len(handles) > 1:
        figure.set_figheight(figure.get_figheight() + 0.2 * len(handles))
        place: Any = {"loc": "outside lower left"}
        figure.legend(list(handles.values()), handles, **place)


def inline(svg: bytes, name: str) -> str:
    """An SVG for a page, in the fonts of the page.

    Args:
        svg: The picture as matplotlib writes it.
        name: Name of the picture, a prefix of its ids on the page.
    """
    text = svg.decode()
    text = text[text.find("<svg") :]
    dropped = r"<(metadata|style).*?</\1>\s*|font-family: [^;\"]*;? ?"
    text = re.sub(dropped, "", text, flags=re.DOTALL)
    return re.sub(r'\bid="|(?<=url\(#)|(?<=href="#)', rf"\g<0>{name}-", text)


@contextmanager
def house_style() -> Iterator[None]:
    """Context to draw and save figures in the style of the page."""
    with style.context(_STYLE), warnings.catch_warnings():
        # The font lacks some scripts; browsers have others.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def save_picture(figure: Figure, path: Path) -> str:
    """Write a picture as .svg and .png.

    Args:
        figure: The picture; lines with labels get a legend.
        path: Path of the files without extension.

    Returns:
        The SVG for a page.
    """
    svg = BytesIO()
    _add_legend(figure)
    figure.savefig(path.with_suffix(".png"), dpi=_DPI)
    figure.savefig(svg, format="svg", metadata={"Date": None}, transparent=True)
    path.with_suffix(".svg").write_bytes(svg.getvalue())
    return inline(svg.getvalue(), path.name)
