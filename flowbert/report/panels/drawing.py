"""What the panels share: points, a grid of small pictures, and words."""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import chain, count

import numpy as np

from flowbert.analysis.found import Analysis
from flowbert.report.style import Axes, Figure, colours_of

WIDTH = 6.4  # inches of a panel
_ACROSS = 3  # small pictures in a row
_LONG = 24  # letters of a title over one of these
_LONGEST = 60  # letters of a file's name, but for its number


def colours_in(found: Analysis) -> dict[str, str]:
    """Colour of each method of an analysis."""
    return colours_of([*found.spaces, *(name for by_method in found.bands.values() for name in by_method)])


def grid_size(count: int, height: float, extra: float = 0.0) -> tuple[float, float]:
    """Size of a panel of small pictures, in inches; fewer than a row of them are as wide as they would be in one."""
    return WIDTH * min(max(count, 2), _ACROSS) / _ACROSS, height * math.ceil(count / _ACROSS) + extra


def grid_of(figure: Figure, names: Sequence[str], *, shared: bool = True) -> "dict[str, Axes]":
    """A small picture for each name, three in a row; shared axes are labelled at the left and below."""
    across = min(len(names), _ACROSS)
    rows = math.ceil(len(names) / across)
    axes = figure.subplots(rows, across, sharex=shared, sharey=shared, squeeze=False).flatten().tolist()
    for spare in axes[len(names) :]:
        spare.remove()
    for number, (name, each) in enumerate(zip(names, axes, strict=False)):
        each.set_title(name if len(name) <= _LONG else re.sub("[:+]", r"\n\g<0>", name), fontsize=10)
        each.tick_params(labelbottom=number + across >= len(names))  # none below it
    return dict(zip(names, axes, strict=False))


def draw_points(
    axes: Axes, points: Sequence[Sequence[float]], colour: str, size: float = 2.5, alpha: float = 1.0
) -> None:
    """Draw points ``(n, 2)`` as one path of round strokes of hardly any length: in a page far smaller than markers."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    places = np.asarray(points, dtype=float).reshape(-1, 2)
    places = places[np.isfinite(places).all(axis=1)]
    if len(places) == 0:
        return
    codes = np.tile(np.array([Path.MOVETO, Path.LINETO], dtype=Path.code_type), len(places))
    ends = np.repeat(places, 2, axis=0)
    ends[1::2, 0] += 1e-6 * (np.ptp(places[:, 0]) or 1.0)  # a PNG shows no stroke without length
    path = Path(ends, codes)
    look = {"edgecolor": colour, "linewidth": size, "alpha": alpha}
    axes.add_patch(PathPatch(path, fill=False, capstyle="round", snap=False, **look))
    axes.autoscale_view()


def file_names(texts: Iterable[str]) -> dict[str, str]:
    """Each text as part of a file's name and of an id: short, of letters, digits, "." and single "-".

    No two are the same, upper and lower case taken as one, as some file systems do: those that would be are numbered.

    Example:
        >>> file_names(["a b.csv test", "a-b.csv test"])
        {'a b.csv test': 'a-b.csv-test', 'a-b.csv test': 'a-b.csv-test-2'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for text in dict.fromkeys(texts):
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", text)[:_LONGEST].strip("-.") or "1"
        numbered = chain([plain], (f"{plain}-{number}" for number in count(2)))
        found[text] = next(name for name in numbered if name.lower() not in taken)
        taken.add(found[text].lower())
    return found
