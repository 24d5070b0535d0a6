"""Which template, layer, pooling and map? The table and the picture of docs/research/decoders.md.

``python -m tools.decoders --encoder DIR --senteval DIR`` measures, for each template, all layers
with the mean of the sentence and the last token, and each map, on development splits. A template is
one pass; its vectors are kept in the cache, and its rows in the CSV file, so that the command goes
on where it was interrupted.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from flowbert import compare
from flowbert.data.text_files import as_list
from flowbert.encoders import EncoderOptions, SentenceEncoder, open_encoder
from flowbert.extras.analysis.drawing import method_colour
from flowbert.tasks import Task, load_tasks
from flowbert.vectors import EmbeddingCache
from tools.pictures import save_pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NONE = "none"
TEMPLATES = f"{NONE},prompteol,pretended-cot,knowledge,echo"
METHODS = (
    "raw,centering,mean-removal,"
    "whitening:shrinkage=0.1,whitening:shrinkage=0.3,whitening:shrinkage=0.8"
)
TASKS = "STSB,SICKR"
POOLINGS = ("mean", "last_token")
COLUMNS = ["template", "layer", "pooling", "method", "task", "value"]

PANELS = {
    (NONE, "mean"): "no template, mean",
    ("prompteol", "last_token"): "prompteol, last token",
    ("echo", "mean"): "echo, mean",
}
"""Templates and poolings that are drawn."""


def measure(
    path: str, dtype: str, template: str, methods: str, tasks: Sequence[Task]
) -> pd.DataFrame:
    """Spearman x 100 of each layer, pooling, method and task with a template.

    Args:
        path: The decoder.
        dtype: Its precision.
        template: The template, or ``none``.
        methods: Maps, which are fitted on all sentences of each task.
        tasks: The tasks, without subsets.
    """
    text = None if template == NONE else template
    options = EncoderOptions(path, dtype=dtype, template=text, pooling="last_token")
    encoder = open_encoder(options)
    assert isinstance(encoder, SentenceEncoder)
    variants = [
        encoder.read(layers=layer, pooling=pooling)
        for layer in range(encoder.num_layers + 1)
        for pooling in POOLINGS
    ]
    cache = EmbeddingCache()
    cache.fill(variants, [s for task in tasks for s in task.corpus("target").sentences])
    frames = []
    for variant in variants:
        results = compare(variant, methods, tasks=tasks, cache=cache, bootstrap=0)
        frame = results.frame.query("metric == 'spearman' and aggregation == 'all'")
        frame = frame[frame["task"] != "average"]
        # Without raw as the encoder comes, where that is another reading.
        columns = pd.Series(variant.columns())
        frame = frame[(frame[columns.index] == columns).all(axis=1)]
        frames.append(
            frame.assign(
                template=template,
                layer=variant.layers[0],
                pooling=str(variant.pooling),
                value=100 * frame["value"],
            )[COLUMNS]
        )
    return pd.concat(frames)


def best(frame: pd.DataFrame) -> pd.DataFrame:
    """The layer with the highest mean over the tasks, for each template, pooling and method."""
    setting = ["template", "pooling", "method"]
    table = frame.pivot_table(
        index=[*setting, "layer"], columns="task", values="value", sort=False
    )
    table["mean"] = table.mean(axis=1)
    chosen = table.groupby(setting, sort=False)["mean"].idxmax()
    return table.loc[list(chosen)].reset_index("layer")


def draw(frame: pd.DataFrame) -> "Figure":
    """Means over the tasks by layer: a panel per template and pooling, a line per map."""
    from matplotlib.figure import Figure

    means = frame.groupby(["template", "pooling", "method", "layer"])["value"].mean()
    panels = [panel for panel in PANELS if panel in means.index.droplevel([2, 3])]
    colours = {x: method_colour(x) for x in frame["method"].unique()}
    figure = Figure((8, 3.6), layout="constrained")
    (axes,) = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)
    for ax, panel in zip(axes, panels, strict=True):
        for method, colour in colours.items():
            line = means[(*panel, method)]
            ax.plot(line.index, line, color=colour, label=method)
        ax.set_title(PANELS[panel], loc="left", fontsize=11)
        ax.set_xlabel("layer")
    axes[0].set_ylabel("Spearman x 100")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", required=True, help="the decoder")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--templates", default=TEMPLATES)
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--senteval")
    parser.add_argument("--output", type=Path, default=Path("decoders.csv"))
    parser.add_argument("--picture", type=Path, default=Path("decoders"))
    options = parser.parse_args(arguments)
    tasks = load_tasks(
        options.tasks, options.senteval, split=options.split, uniformity_limit=2
    )
    known = pd.DataFrame(columns=COLUMNS)
    if options.output.exists():
        known = pd.read_csv(options.output)
    for template in as_list(options.templates, "templates"):
        if template not in set(known["template"]):
            rows = measure(
                options.encoder, options.dtype, template, options.methods, tasks
            )
            known = rows if known.empty else pd.concat([known, rows])
            known.to_csv(options.output, index=False)
    print(best(known).round(1).to_string())
    save_pictures(lambda: draw(known), options.picture)


if __name__ == "__main__":
    main()
