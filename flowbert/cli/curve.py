"""``curve``: how runs went, validation by validation, as a table and as a picture."""

import csv
from collections.abc import Sequence
from pathlib import Path

from flowbert.cli.options import check_output
from flowbert.cli.parser import ToolParser
from flowbert.io.atomic import written_atomically
from flowbert.report.curve import curve_svg
from flowbert.report.history import Curve, read_curves

_EXAMPLE = """examples:
  python train.py curve --runs runs/simcse_unsup/TIME
  python train.py curve --runs runs/a,runs/b --task STSB --output curve.svg"""
_COLUMNS = ("run", "method", "task", "step", "spearman", "alignment", "uniformity")


def make_parser() -> ToolParser:
    """Parser of ``curve``."""
    parser = ToolParser(
        usage="train.py curve --runs DIR[,DIR...] [options]",
        description="Spearman, alignment and uniformity on the development split at every validation of a fit.",
        epilog=_EXAMPLE,
    )
    parser.add_argument("--runs", type=str, required=True, help="Run folders of `fit`, with commas.")
    parser.add_argument("--task", type=str | None, default=None, help="Task; default: the first of the first run.")
    parser.add_argument("--aggregation", type=str, default="all", help="all, mean or wmean, for tasks with subsets.")
    parser.add_argument(
        "--output", type=str | None, default=None, help="Picture to write, .svg; the figures go beside it as .csv."
    )
    return parser


def main(argv: list[str]) -> None:
    """Run ``curve``.

    Raises:
        UserError: For every mistake in the options or files.
    """
    options = make_parser().parse_args(argv[1:])
    output = None if options.output is None else check_output(options.output, "--output", (".svg",))
    curves: list[Curve] = []
    for run in options.runs.split(","):
        curves += read_curves(run.strip(), options.task or (curves[0].task if curves else None), options.aggregation)
    curves = _without_repetition(curves)
    print(_markdown(curves, options.aggregation))
    if output is None:
        return
    with written_atomically(output) as temporary:
        temporary.write_text(curve_svg(curves), encoding="utf-8")
    table = output.with_suffix(".csv")
    with written_atomically(table) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for curve in curves:
            for p in curve.points:
                writer.writerow((curve.run, curve.method, curve.task, p.step, p.spearman, p.alignment, p.uniformity))
    print(f"written: {output}, {table}")


def _without_repetition(curves: Sequence[Curve]) -> list[Curve]:
    """Baselines that several runs share, once; the step of their first validation may differ."""
    seen: dict[object, Curve] = {}
    for curve in curves:
        fixed = {str((curve.method, p.spearman, p.uniformity)) for p in curve.points}  # as text NaN equals itself
        seen.setdefault(curve if curve.trained else min(fixed), curve)
    return list(seen.values())


def _markdown(curves: Sequence[Curve], aggregation: str) -> str:
    """One table of all runs; a baseline, the same at every validation, has one line."""
    lines = [
        f"{curves[0].task}, development split, Spearman x 100, {aggregation}; alignment, uniformity: lower is better",
        "",
        "| run | method | step | Spearman | alignment | uniformity |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for curve in curves:
        for p in curve.points if curve.trained else curve.points[:1]:
            step = str(p.step) if curve.trained else ""
            figures = f"{100 * p.spearman:.2f} | {p.alignment:.3f} | {p.uniformity:.3f}"
            lines.append(f"| {Path(curve.run).name} | {curve.method} | {step} | {figures} |")
    return "\n".join(lines)
