"""Light and dark SVG files of the documents' pictures."""

import re
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = {"light": "#1f2328", "dark": "#e6edf3"}
DARK = {
    "#1a1a1a": "#e6edf3",
    "#d8dee4": "#3c424b",
    "#6b6b6b": "#8b9098",
    "#0072b2": "#2f8fe0",
    "#2b97ec": "#a9d2ff",
    "#e8500a": "#ff7c00",
    "#00945a": "#10d0a0",
    "#7d4600": "#ffe94d",
    "#d559b4": "#f58fd6",
    "#3f3a00": "#7d8f3a",
    "#4b06a0": "#8f45e0",
    "#1c0008": "#ffc795",
}
"""Colours of methods on dark ground, in place of those on white."""

_MUTED = {"light": "#59636e", "dark": "#9198a1"}
_GRID = {"light": "#d1d9e0", "dark": "#3d444d"}
_FONTS = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"


def save_pictures(draw: "Callable[[], Figure]", path: Path) -> None:
    """Write PATH-light.svg and PATH-dark.svg, without a ground.

    Args:
        draw: Draws the figure; called once per theme, with that theme's colours as defaults.
        path: Path of the files without their ending.
    """
    from matplotlib import rc_context

    for theme in INK:
        ink, muted = INK[theme], _MUTED[theme]
        style: Any = {
            "axes.edgecolor": muted,
            "axes.grid": True,
            "axes.labelcolor": muted,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titleweight": "bold",
            "font.size": 10,
            "grid.color": _GRID[theme],
            "legend.frameon": False,
            "lines.color": ink,
            "svg.fonttype": "none",  # text stays text
            "svg.hashsalt": "flowbert",  # equal frames, equal files
            "text.color": ink,
            "xtick.color": muted,
            "ytick.color": muted,
            "ytick.labelcolor": ink,
        }
        svg = StringIO()
        with rc_context(style):
            metadata = {"Date": None}
            draw().savefig(svg, format="svg", transparent=True, metadata=metadata)
        # DejaVu, which matplotlib measures with, is wider than these.
        text = re.sub(r"'DejaVu Sans'[^;\"]*", _FONTS, svg.getvalue())
        path.with_name(f"{path.name}-{theme}.svg").write_text(text, encoding="utf-8")


def main() -> None:
    """``python -m tools.pictures FIGURE.svg PATH``: a figure of a page for light and dark."""
    source, path = map(Path, sys.argv[1:])
    text = source.read_text(encoding="utf-8")
    for theme, colours in {"light": {}, "dark": DARK}.items():
        for light, dark in colours.items():
            text = text.replace(light, dark)
        path.with_name(f"{path.name}-{theme}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
