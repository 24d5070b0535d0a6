"""Spearman along the training, and alignment against uniformity: figures 2 and 3 of the SimCSE paper, for any run."""

from collections.abc import Sequence
from pathlib import Path

from flowbert.data.files import as_list
from flowbert.report.files import write_lines
from flowbert.report.history import Curve, curve_rows, read_curves
from flowbert.report.panels.training import draw_path, draw_spearman
from flowbert.report.style import picture


def training_curves(
    runs: str | Sequence[str | Path],
    *,
    task: str | None = None,
    aggregation: str = "all",
    output: str | Path | None = None,
) -> list[Curve]:
    r"""Spearman, alignment and uniformity on the development split at every validation of some fits.

    Args:
        runs: Run folders, or their names on the hub; a text may hold several, comma-separated.
        task: Task; default: the first of the first run.
        aggregation: Which Spearman of a task with subsets: ``all``, ``mean`` or ``wmean``.
        output: Picture to write, .svg or .png; the points stand beside it as .csv.

    Raises:
        UserError: If a folder has no metrics.csv or no validation in it, or a name is unknown.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> measures = ("spearman_all", "alignment", "uniformity")
        >>> head = ",".join(["step", *(f"flow/STSB/dev/{measure}" for measure in measures)])
        >>> with TemporaryDirectory() as run:
        ...     size = (Path(run) / "metrics.csv").write_text(f"{head}\n9,0.6,0.3,-2.0\n19,0.7,0.2,-2.5\n")
        ...     (flow,) = training_curves([run])
        >>> [(point.step, point.spearman) for point in flow.points]
        [(10, 0.6), (20, 0.7)]
    """
    curves = read_curves(as_list(runs, "runs") if isinstance(runs, str) else runs, task, aggregation)
    if output is not None:
        draw_curves(curves, output)
        write_lines(Path(output).with_suffix(".csv"), *curve_rows(curves))
    return curves


def draw_curves(curves: Sequence[Curve], path: str | Path) -> Path:
    """Draw curves as SVG or PNG, by the ending. Returns the path.

    On the left Spearman by step; on the right alignment by uniformity, both better where they are lower. A trained
    method is a line with a dot per validation, the first one hollow; a baseline is dashed, or a cross.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021), figures 2 and 3.
        https://arxiv.org/abs/2104.08821
    """
    with picture(path, 9, 4 + 0.1 * len(curves)) as figure:
        by_step, plane = figure.subplots(1, 2)
        draw_spearman(by_step, curves)
        draw_path(plane, curves)
        figure.legend(*by_step.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return Path(path)
