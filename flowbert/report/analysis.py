"""An analysis for the terminal, and as a folder: tables and pictures."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from flowbert.analysis.found import Analysis, Neighbour
from flowbert.analysis.gold_bands import GoldBand
from flowbert.report.files import write_lines
from flowbert.report.panels import panels_of
from flowbert.report.render import text_of


def analysis_to_text(found: Analysis) -> str:
    """Tables of sentence space, latents, densities and words, and neighbours to read."""
    setting = found.setting
    lines = [
        f"{setting['encoder']}, layers {setting['layers']}, pooling {setting['pooling']}; maps fitted on "
        f"{found.fitted} distinct sentences of {setting['corpus']}, figures of {found.measured} others"
    ]
    if found.spaces:
        lines += [
            _table("sentence space", found.spaces),
            "isotropic: effective rank and participation ratio D, isoscore and partition isotropy 1, mean cosine 0",
        ]
    if found.latents:
        lines.append(_table("vectors against a standard normal", found.latents))
    if found.bits:
        bits = {name: {"bits per dimension": value} for name, value in found.bits.items()}
        lines += [_table("density of the other sentences (lower is better)", bits)]
    if found.words is not None:
        buckets = {
            f"[{bucket.first}, {bucket.last})": {
                "norm": bucket.norm,
                **{f"{k}-nn distance": value for k, value in bucket.distance.items()},
                **{f"{k}-nn product": value for k, value in bucket.product.items()},
            }
            for bucket in found.words.buckets
        }
        layers = ", ".join(f"{value:.2f}" for value in found.words.by_layer)
        lines += [
            _table("input embeddings by frequency rank", buckets),
            f"mean cosine of input embeddings {found.words.mean_cosine:.2f}, of tokens in sentences by layer {layers}",
        ]
    if found.norms:
        lines.append(_table("norms, and their Spearman", found.norms))
    for task, bands in found.bands.items():
        lines.append(_table(f"median cosine by gold score, {task}", _medians(bands)))
    for sentence, by_method in found.neighbours.items():
        lines += ["", f"nearest to: {sentence}"]
        lines += [f"  {name}: {_nearest(near)}" for name, near in by_method.items()]
    return "\n".join(lines)


def _medians(by_method: Mapping[str, Sequence[GoldBand]]) -> dict[str, dict[str, float]]:
    return {
        name: {f"{b.low:.3g} to {b.high:.3g}": math.nan if b.median is None else b.median for b in bands}
        for name, bands in by_method.items()
    }


def _nearest(near: Sequence[Neighbour]) -> str:
    """The first, and how many of all moved."""
    moved = sum(each.moved for each in near)
    among = ", this one among them" if near[0].moved else ""
    return near[0].text + (f" ({moved} of {len(near)} are not near under raw{among})" if moved else "")


def _table(title: str, rows: Mapping[str, Any]) -> str:
    named = {name: row if isinstance(row, dict) else row._asdict() for name, row in rows.items()}
    columns = [name.replace("_", " ") for name in next(iter(named.values()))]
    table = Table(title, *columns, box=box.SIMPLE_HEAD)
    for name, row in named.items():
        table.add_row(name, *(f"{value:.3f}" for value in row.values()))
    return text_of(table)


def write_analysis(found: Analysis, folder: Path) -> None:
    """Write the tables as .csv, and each picture as .svg and .png with its data as .csv."""
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[str, Mapping[str, Any]] = {
        "sentences": found.spaces,
        "latents": found.latents,
        "correlations": found.norms,
    }
    for title, rows in tables.items():
        if rows:
            columns = next(iter(rows.values()))._fields
            write_lines(folder / f"{title}.csv", ("method", *columns), ((name, *row) for name, row in rows.items()))
    near = [
        (sentence, name, i + 1, each.text, each.moved)
        for sentence, by_method in found.neighbours.items()
        for name, texts in by_method.items()
        for i, each in enumerate(texts)
    ]
    write_lines(folder / "neighbours.csv", ("sentence", "method", "rank", "neighbour", "not_among_raw"), near)
    for panel in panels_of(found):
        panel.write(folder)
