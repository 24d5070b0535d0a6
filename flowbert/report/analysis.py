"""An analysis for the terminal, and as a folder: tables as CSV, pictures as SVG."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from flowbert.analysis.found import Analysis
from flowbert.report.files import write_lines
from flowbert.report.style import colour_of, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_BUCKET_COLOURS = ("#440154", "#31688e", "#35b779", "#fde725")  # viridis: frequent to rare
_POINTS = 2000  # words in the picture


def analysis_to_text(found: Analysis, width: int = 120) -> str:
    """Tables of sentence space, latents, densities and words, and neighbours to read."""
    setting = found.setting
    lines = [
        f"{setting['encoder']}, layers {setting['layers']}, pooling {setting['pooling']}; maps fitted on "
        f"{found.fitted} distinct sentences of {setting['corpus']}, figures of {found.measured} others",
        _table("sentence space", found.spaces, width),
        "isotropic: effective rank and participation ratio D, isoscore and partition isotropy 1, mean cosine 0",
    ]
    if found.latents:
        lines.append(_table("vectors against a standard normal", found.latents, width))
    if found.bits:
        bits = {name: {"bits per dimension": value} for name, value in found.bits.items()}
        lines += [_table("density of the other sentences (lower is better)", bits, width)]
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
            _table("input embeddings by frequency rank", buckets, width),
            f"mean cosine of input embeddings {found.words.mean_cosine:.2f}, of tokens in sentences by layer {layers}",
        ]
    for sentence, by_method in found.neighbours.items():
        lines += ["", f"nearest to: {sentence}"]
        lines += [f"  {name}: {near[0]}" for name, near in by_method.items()]
    return "\n".join(lines)


def _table(title: str, rows: Mapping[str, Any], width: int) -> str:
    named = {name: row if isinstance(row, dict) else row._asdict() for name, row in rows.items()}
    columns = [name.replace("_", " ") for name in next(iter(named.values()))]
    table = Table(title, *columns, box=box.SIMPLE_HEAD)
    for name, row in named.items():
        table.add_row(name, *(f"{value:.3f}" for value in row.values()))
    console = Console(width=width)
    with console.capture() as shown:
        console.print(table)
    return shown.get().rstrip()


def write_analysis(found: Analysis, folder: Path) -> None:
    """Write the tables as CSV and the pictures as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_rows(folder / "sentences.csv", "method", found.spaces)
    _write_rows(folder / "latents.csv", "method", found.latents)
    write_lines(folder / "bits.csv", ("density", "bits_per_dimension"), found.bits.items())
    spectra = [(name, i + 1, value) for name, values in found.spectra.items() for i, value in enumerate(values)]
    write_lines(folder / "spectra.csv", ("method", "direction", "eigenvalue"), spectra)
    near = [
        (sentence, name, i + 1, text)
        for sentence, by_method in found.neighbours.items()
        for name, texts in by_method.items()
        for i, text in enumerate(texts)
    ]
    write_lines(folder / "neighbours.csv", ("sentence", "method", "rank", "neighbour"), near)
    draw_spectra(found.spectra, folder / "spectra.svg")
    if found.bits:
        draw_bits(found.bits, folder / "bits.svg")
    if found.words is not None:
        words = [(rank, *point) for rank, point in enumerate(found.words.projection.tolist())]
        write_lines(folder / "words.csv", ("rank", "first_direction", "second_direction"), words)
        draw_words(found, folder / "words.svg")


def _write_rows(path: Path, corner: str, rows: Mapping[str, Any]) -> None:
    names = next(iter(rows.values()))._fields if rows else ()
    write_lines(path, (corner, *names), ((name, *row) for name, row in rows.items()))


def draw_spectra(spectra: Mapping[str, Sequence[float]], path: Path) -> None:
    """Share of the variance in each direction, by method, on a logarithmic axis."""
    with picture(path, 6, 4) as figure:
        axes = figure.subplots()
        axes.set(xlabel="direction, by variance", ylabel="share of the variance", yscale="log")
        for number, (name, values) in enumerate(spectra.items()):
            shares = torch.tensor(values) / sum(values)
            kept = shares[shares > 1e-12]
            axes.plot(range(1, len(kept) + 1), kept.tolist(), color=colour_of(name, number), label=name)
        axes.legend()


def draw_bits(bits: Mapping[str, float], path: Path) -> None:
    """Bits per dimension of sentences that nothing was fitted on, by density."""
    with picture(path, 6, 0.8 + 0.4 * len(bits)) as figure:
        axes = figure.subplots()
        ordered = sorted(bits.items(), key=lambda item: -item[1])
        names = [name for name, _ in ordered]
        colours = [colour_of("flow" if name.startswith("flow") else "whitening") for name in names]
        axes.plot([value for _, value in ordered], names, "o", color="none")
        for colour, (name, value) in zip(colours, ordered, strict=True):
            axes.plot(value, name, "o", color=colour)
            axes.annotate(f"{value:.3f}", (value, name), (8, -3), textcoords="offset points")
        axes.margins(x=0.2)
        axes.set(xlabel="bits per dimension of held-out sentences (lower is better)")


def draw_words(found: Analysis, path: Path) -> None:
    """Left: input embeddings on their first two directions, by frequency. Right: mean cosine of tokens by layer."""
    words = found.words
    if words is None:
        return
    with picture(path, 9, 4) as figure:
        left, right = figure.subplots(1, 2)
        _draw_projection(left, words.projection.tolist(), [(b.first, b.last) for b in words.buckets])
        right.set(xlabel="hidden state (0: embedding layer)", ylabel="mean cosine of tokens", ylim=(0, 1))
        right.plot(range(len(words.by_layer)), words.by_layer, "o-", color=colour_of("raw"))
        right.xaxis.get_major_locator().set_params(integer=True)


def _draw_projection(axes: "Axes", points: Sequence[Sequence[float]], buckets: Iterable[tuple[int, int]]) -> None:
    axes.set(xlabel="first singular direction", ylabel="second singular direction")
    step = max(1, len(points) // _POINTS)
    for (first, last), colour in reversed(list(zip(buckets, _BUCKET_COLOURS, strict=False))):
        shown = points[first : last : 1 if last - first <= _POINTS // 4 else step]
        x, y = zip(*shown, strict=True)
        axes.scatter(x, y, s=4, color=colour, label=f"rank {first} to {last}", rasterized=True)
    axes.legend(markerscale=2)
