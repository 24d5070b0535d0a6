"""The picture at the top of README: cosines of sentence pairs by human score, under each method.

``python -m tools.cosines RUN --methods raw,whitening --picture docs/cosines`` draws the files
``analysis.json`` and ``results.csv`` of a run.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from flowbert.extras.analysis import Analysis
from flowbert.extras.analysis.bands import prepare_cosines
from flowbert.extras.analysis.drawing import DARK, method_colours
from tools.pictures import INK, save_pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(cosines: pd.DataFrame, titles: dict[str, str], scores: pd.Series) -> "Figure":
    """A panel per method, a histogram per band of the human score, with medians.

    Args:
        cosines: Columns method, gold_from, gold_to, median, cosine_from, cosine_to and share.
        titles: Title of each method that is drawn.
        scores: Spearman x 100 of each method.
    """
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    cosines = cosines[cosines["method"].isin(list(titles))]
    colours = method_colours(titles)
    if rcParams["text.color"] == INK["dark"]:
        colours = {method: DARK[colour] for method, colour in colours.items()}
    figure = Figure((1.2 + 2.9 * len(titles), 3.3), layout="constrained")
    (axes,) = figure.subplots(1, len(titles), squeeze=False, sharex=True, sharey=True)
    for ax, (method, title) in zip(axes, titles.items(), strict=True):
        rows = cosines[cosines["method"] == method]
        names = []
        for place, ((low, high), band) in enumerate(
            rows.groupby(["gold_from", "gold_to"])
        ):
            names.append(f"{low:g} to {high:g}")
            steps = place + 0.82 * band["share"] / rows["share"].max()
            edges = [*band["cosine_from"], band["cosine_to"].iloc[-1]]
            ax.stairs(
                steps,
                edges,
                baseline=place,
                fill=True,
                color=colours[method],
                alpha=0.75,
            )
            median = band["median"].iloc[0]
            ax.plot(
                [median, median], [place, place + 0.82], color=rcParams["text.color"]
            )
            right = median < 0.7
            ax.annotate(
                f"{median:.2f}",
                (median, place + 0.82),
                (5 if right else -5, 0),
                textcoords="offset points",
                ha="left" if right else "right",
                va="top",
                fontweight="bold",
            )
        ax.set_title(title, loc="left", fontsize=13, pad=24)
        score = f"Spearman {scores[method]:.1f}"
        ax.annotate(
            score,
            (0, 1),
            (0, 6),
            xycoords="axes fraction",
            textcoords="offset points",
            color=colours[method],
            fontsize=12,
            fontweight="bold",
        )
        names[0] += "\nunrelated"
        names[-1] += "\nsame meaning"
        ax.set_yticks([place + 0.3 for place in range(len(names))], names)
        ax.tick_params(axis="y", length=0)
        ax.grid(visible=False, axis="y")
        ax.set_xticks([0, 0.5, 1])
        ax.set_ylim(0, len(names))
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("cosine of the two sentences")
    axes[0].set_ylabel("human score of the pair")
    return figure


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
    whole = results.query("split == 'test' and metric == 'spearman'")
    scores = 100 * whole.query("aggregation == 'wmean'").set_index("method")["value"]
    save_pictures(
        lambda: draw(cosines, dict(zip(methods, titles, strict=True)), scores),
        options.picture,
    )


if __name__ == "__main__":
    main()
