"""How much of a score do words alone reach? The table and the picture of docs/research/lexical.md.

``python -m tools.lexical --senteval DIR --encoders bert-mini-mlm,minilm-mlm --flow bert-mini-mlm``
measures word overlap, tf-idf, and each encoder with its layers and maps, on all pairs of each task
and on those with little and with much word overlap; means over the tasks go into the CSV and SVG.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from examples.low_overlap import word_baselines
from flowbert import compare
from flowbert.arrays import Floats
from flowbert.data.text_files import as_list
from flowbert.encoders import EncoderOptions, SentenceEncoder, open_encoder
from flowbert.experiments.intervals import find_intervals
from flowbert.tasks import AGGREGATIONS, Task, load_tasks
from flowbert.vectors import EmbeddingCache
from tools.pictures import save_pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS = "STS12,STS13,STS14,STS15,STS16,STSB,SICKR"
PARTS = {
    "all pairs": "",
    "low overlap": "low-overlap:",
    "high overlap": "high-overlap:",
}
READOUTS = {
    ("0", "mean"): ("raw", "whitening"),
    ("first_last", "mean"): ("raw", "whitening"),
    ("last", "mean"): ("raw", "whitening"),
    ("embedding_last", "zipf"): ("raw", "whitening:shrinkage=0.3"),
}
"""Methods by layers and pooling; the last ones are the recommended recipe."""

FLOW = ("first_last", "mean")
"""Layers and pooling of the flow."""

_LOOKS = {"raw": "#7f7f7f", "whitened": "#0072b2"}
_WORDS = "#009e73"


class Row(NamedTuple):
    """A row of the table; words alone have neither encoder nor layers."""

    encoder: str
    layers: str
    pooling: str
    method: str


Items = dict[Task, dict[Row, Floats]]
"""Similarities ``(K,)`` of the pairs of each task by row."""


def word_items(tasks: Sequence[Task]) -> Items:
    """Similarities that know words alone."""
    found: Items = {}
    for task in tasks:
        corpus = chain.from_iterable(task.texts().values())
        rows = word_baselines(*task.pairs(), corpus)
        found[task] = {Row("", "", "", name): items for name, items in rows.items()}
    return found


def encoder_items(path: str, tasks: Sequence[Task], flow: bool) -> Iterator[Items]:
    """Similarities under each layer, pooling and map of an encoder, after a single pass.

    Args:
        path: The encoder.
        tasks: The tasks.
        flow: Whether a flow is fitted, too.
    """
    encoder = open_encoder(EncoderOptions(path, layers="last", pooling="mean"))
    assert isinstance(encoder, SentenceEncoder)
    variants = {key: encoder.read(layers=key[0], pooling=key[1]) for key in READOUTS}
    cache = EmbeddingCache()
    sentences = [text for task in tasks for text in task.corpus("target").sentences]
    cache.fill(list(variants.values()), sentences)
    for key, variant in variants.items():
        methods = [*READOUTS[key], *(("flow",) if flow and key == FLOW else ())]
        results = compare(variant, methods, tasks=tasks, cache=cache, bootstrap=0)
        by_digest = {task.digest: task for task in tasks}
        found: Items = defaultdict(dict)
        for record in results.records:
            # Not words, beside the methods, nor raw as the encoder comes, where that differs.
            if variant.columns().items() <= record.columns.items():
                method = str(record.columns["method"])
                row = Row(Path(path).name, *key, method)
                found[by_digest[record.settings["task"]["digest"]]][row] = record.items
        yield found


def means(tasks: Sequence[Task], items: Items, resamples: int) -> pd.DataFrame:
    """Mean over the tasks of each row, and its gain over raw vectors of the same layers.

    Args:
        tasks: Tasks of one part of the pairs.
        items: Similarities of all rows on each of them.
        resamples: Resamples of the intervals, which all rows share.

    Returns:
        Columns of :class:`Row`, aggregation, value, low, high, gain, gain_low and gain_high, x 100;
        the gain of raw vectors is that over tf-idf.
    """
    rows = list(items[tasks[0]])
    names = dict(zip(rows, map(str, rows), strict=True))
    drawn = [
        task.resample({names[row]: items[task][row] for row in rows}, resamples)
        for task in tasks
    ]
    base = [rows.index(_base(row)) for row in rows]
    frames = []
    for name in AGGREGATIONS:
        metric = "spearman", name
        values = [
            [task.score(items[task][row])[metric] for row in rows] for task in tasks
        ]
        resampled = np.mean([each[metric] for each in drawn], axis=0)
        draws = np.column_stack([np.mean(values, axis=0), resampled])
        gains = draws - draws[base]
        frame = pd.DataFrame(rows).assign(aggregation=name)
        frame["value"], frame["gain"] = 100 * draws[:, 0], 100 * gains[:, 0]
        frame[["low", "high"]] = 100 * find_intervals(draws)
        frame[["gain_low", "gain_high"]] = 100 * find_intervals(gains)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _base(row: Row) -> Row:
    """What the gain of a row is over."""
    if row.method == "raw" or not row.encoder:
        return Row("", "", "", "tf-idf")
    return row._replace(method="raw")


def measure(
    encoders: Sequence[str],
    flows: Sequence[str],
    names: Sequence[str],
    senteval: str | None,
    resamples: int,
) -> pd.DataFrame:
    """The table: a row per part of the pairs, aggregation, encoder, layers, pooling and method.

    Args:
        encoders: Their paths.
        flows: Those of them that a flow is fitted for.
        names: Tasks of scored pairs.
        senteval: Their folder; None where they need none.
        resamples: Resamples of the intervals.
    """
    kinds = {part: [f"{kind}{name}" for name in names] for part, kind in PARTS.items()}
    # No uniformity is shown; of two sentences it costs nothing.
    loaded = load_tasks(list(chain(*kinds.values())), senteval, uniformity_limit=2)
    items = word_items(loaded)
    for path in encoders:
        for found in encoder_items(path, loaded, path in flows):
            for task, rows in found.items():
                items[task] |= rows
    size = len(names)
    return pd.concat(
        [
            means(loaded[size * number :][:size], items, resamples).assign(part=part)
            for number, part in enumerate(PARTS)
        ],
        ignore_index=True,
    )


def draw(frame: pd.DataFrame, aggregation: str = "wmean") -> "Figure":
    """Raw and whitened scores with intervals: a row per encoder, a column per part of the pairs.

    Args:
        frame: Of :func:`measure`.
        aggregation: The aggregation that is drawn.
    """
    from matplotlib.figure import Figure

    frame = frame[frame["aggregation"] == aggregation]
    encoders = [name for name in frame["encoder"].unique() if name]
    figure = Figure((8, 0.9 + 1.5 * len(encoders)), layout="constrained")
    grid = figure.subplots(
        len(encoders), len(PARTS), squeeze=False, sharex=True, sharey="row"
    )
    for axes, encoder in zip(grid, encoders, strict=True):
        for ax, part in zip(axes, PARTS, strict=True):
            of_part = frame[frame["part"] == part].set_index(list(Row._fields))
            _draw_rows(ax, of_part.loc[encoder])
            for name, look in {"tf-idf": "--", "word overlap": ":"}.items():
                words = of_part["value"]["", "", "", name]
                ax.axvline(words, ls=look, color=_WORDS, lw=1.2, label=name)
        axes[0].set_title(encoder, loc="left", fontsize=10)
    for ax, part in zip(grid[0], PARTS, strict=True):
        ax.set_title(part, loc="right", fontsize=10, fontweight="normal")
    for ax in grid[-1]:
        ax.set_xlabel("Spearman x 100")
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4)
    return figure


def _draw_rows(ax: Any, rows: pd.DataFrame) -> None:
    """Scores of an encoder on a part of the pairs: a dumbbell per layers and pooling."""
    from matplotlib import rcParams

    names = []
    for place, ((layers, pooling), methods) in enumerate(READOUTS.items()):
        ends = rows.loc[[(layers, pooling, method) for method in methods]]
        ax.plot(ends["value"], [place, place], color=rcParams["grid.color"], lw=4)
        for (_, end), name in zip(ends.iterrows(), ("raw", "whitened"), strict=True):
            colour = _LOOKS[name]
            label = name if place == 0 else None
            ax.plot([end["low"], end["high"]], [place, place], color=colour, lw=1.5)
            ax.plot(end["value"], place, "o", color=colour, label=label)
        names.append(f"{'layer 0' if layers == '0' else layers}, {pooling}")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoders", required=True, help="paths, comma-separated")
    parser.add_argument("--flow", help="those that a flow is fitted for")
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--senteval")
    parser.add_argument("--bootstrap", type=int, default=1000)
    parser.add_argument("--output", type=Path, default=Path("lexical.csv"))
    parser.add_argument("--picture", type=Path, default=Path("lexical"))
    options = parser.parse_args(arguments)
    frame = measure(
        as_list(options.encoders, "encoders"),
        as_list(options.flow, "flow"),
        as_list(options.tasks, "tasks"),
        options.senteval,
        options.bootstrap,
    )
    frame.to_csv(options.output, index=False)
    table = frame.pivot_table(
        index=list(Row._fields),
        columns=["aggregation", "part"],
        values="value",
        sort=False,
    )
    print(table.round(1).to_string())
    save_pictures(lambda: draw(frame), options.picture)


if __name__ == "__main__":
    main()
