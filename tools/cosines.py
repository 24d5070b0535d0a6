"""The picture at the top of README: cosines of sentence pairs by human score, under each method.

``python -m tools.cosines RUN --methods raw,whitening --picture docs/cosines`` draws the files
``analysis.json`` and ``results.csv`` of a run: panels side by side, and below each other for phones
(``docs/cosines-phone``).
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from flowbert.extras.analysis import Analysis
from flowbert.extras.analysis.bands import prepare_cosines
from flowbert.extras.analysis.drawing import method_colour
from tools.pictures import DARK, INK, save_pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LAYERS = {"last": "last layer", "first_last": "first and last layer"}
_ROW = 0.86  # height of the highest bar; rows are 1 apart


def draw(
    cosines: pd.DataFrame, titles: dict[str, str], rows: pd.DataFrame, phone: bool
) -> "Figure":
    """A panel per method: a histogram per band of the human score, with the median at its right.

    Args:
        cosines: Columns method, gold_from, gold_to, median, cosine_from, cosine_to and share.
        titles: Title of each method that is drawn.
        rows: Columns layers and value (Spearman), by method.
        phone: Whether the panels are below each other.
    """
    from matplotlib import rcParams

    cosines = cosines[cosines["method"].isin(list(titles))]
    rcParams["font.size"] = 13  # in the context of the theme
    colours = {x: method_colour(x) for x in titles}
    if rcParams["text.color"] == INK["dark"]:
        colours = {method: DARK[colour] for method, colour in colours.items()}
    figure, panels = _make_panels(len(titles), phone)
    for panel, (method, title) in zip(panels, titles.items(), strict=True):
        row = rows.loc[method]
        layers = _LAYERS.get(row["layers"], f"layers {row['layers']}")
        score = f"{layers}, Spearman × 100: {100 * row['value']:.1f}"  # noqa: RUF001
        _draw_bands(panel, cosines[cosines["method"] == method], colours[method])
        _write_title(panel, title, score, colours[method], phone)
    panels[-1 if phone else 0].set_xlabel("cosine of the two sentences")
    return figure


def _make_panels(count: int, phone: bool) -> "tuple[Figure, Sequence[Axes]]":
    """Panels in a row, or in a column; a point is about a pixel of README on GitHub."""
    from matplotlib.figure import Figure

    shape, size = (
        ((count, 1), (345, 228 * count)) if phone else ((1, count), (846, 200))
    )
    width, height = size
    figure = Figure((width / 72, height / 72))
    panels = figure.subplots(*shape, squeeze=False, sharex=True, sharey=not phone)
    # Margins in points: names of the rows, medians, titles, axis.
    space = {"hspace": 0.56} if phone else {"wspace": 0.24}
    figure.subplots_adjust(
        left=128 / width,
        right=1 - 42 / width,
        top=1 - (62 if phone else 44) / height,
        bottom=40 / height,
        **space,
    )
    return figure, list(panels.ravel())


def _draw_bands(panel: "Axes", cosines: pd.DataFrame, colour: str) -> None:
    """Rows of histograms, of the lowest human score at the bottom."""
    from matplotlib import rcParams

    names = []
    for place, ((low, high), band) in enumerate(
        cosines.groupby(["gold_from", "gold_to"])
    ):
        names.append(f"{low:g}–{high:g}")  # noqa: RUF001
        tops = place + _ROW * band["share"] / cosines["share"].max()
        edges = [*band["cosine_from"], band["cosine_to"].iloc[-1]]
        panel.stairs(tops, edges, baseline=place, fill=True, color=colour, zorder=2)
        median = band["median"].iloc[0]
        panel.vlines(median, place, place + _ROW, rcParams["text.color"], zorder=3)
        panel.annotate(
            f"{median:.2f}",
            (1, place + 0.2),
            (40, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            fontweight="bold",
        )
    names[0] = f"unrelated  {names[0]}"
    names[-1] = f"same meaning  {names[-1]}"
    panel.set_yticks([place + 0.3 for place in range(len(names))], names)
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")
    panel.set_xticks([0, 0.5, 1])
    panel.set_ylim(0, len(names))
    panel.spines["left"].set_visible(False)


def _write_title(
    panel: "Axes", title: str, score: str, colour: str, phone: bool
) -> None:
    """The message, the score below it, and the heading of the medians."""
    from matplotlib import rcParams

    # On a phone the title starts at the left edge, and the heading has a line of its own.
    x, y = (-122, 22) if phone else (0, 6)
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    bold = {"fontweight": "bold", **place}
    panel.annotate(title, (0, 1), (x, y + 18), fontsize=16, **bold)
    panel.annotate(score, (0, 1), (x, y), color=colour, **bold)
    muted = rcParams["axes.labelcolor"]
    panel.annotate(
        "median", (1, 1), (40, 4 if phone else y), color=muted, ha="right", **place
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--methods", default="raw,whitening")
    parser.add_argument("--titles", help="of the methods, comma-separated")
    parser.add_argument("--picture", type=Path, default=Path("cosines"))
    options = parser.parse_args(arguments)
    methods = options.methods.split(",")
    titles = (options.titles or options.methods).split(",")
    analysis = Analysis.from_json(options.run / "analysis.json")
    cosines = prepare_cosines(analysis.frames["band_cosines"])
    results = pd.read_csv(options.run / "results.csv")
    spearman = results.query("split == 'test' and metric == 'spearman'")
    rows = spearman.query("aggregation == 'wmean'").set_index("method")
    titles_of = dict(zip(methods, titles, strict=True))
    for ending, phone in (("", False), ("-phone", True)):
        path = options.picture.with_name(options.picture.name + ending)
        save_pictures(partial(draw, cosines, titles_of, rows, phone), path)


if __name__ == "__main__":
    main()
