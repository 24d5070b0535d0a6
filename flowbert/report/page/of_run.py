"""The page of one run: which method to use, its figures, what its maps did to the space, and how to run it again."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowbert.analysis.found import Analysis
from flowbert.io.run_folder import LAST, RunFolder
from flowbert.progress import progress
from flowbert.report.history import Curve, curves_of
from flowbert.report.page.content import Page, PageCell, PageTable, Section, page_part
from flowbert.report.page.record import RunRecord, figures_folder, flattened, page_file
from flowbert.report.panel import Panel
from flowbert.report.panels import panels_of
from flowbert.report.panels.figures import intervals_panel, plane_panel
from flowbert.report.panels.training import logged_panel, path_panel, spearman_panel
from flowbert.report.table import Averages, FigureTable, figure_tables

# What of a fingerprint stands above.
_ELSEWHERE = ("verdicts", "averages", "differences", "published", "rows", "finished")
_PUBLISHED = ("row", "task", "ours", "95% confidence interval", "published", "difference", "inside")


def write_run_page(path: str | Path, output: Path | None = None) -> Path:
    """Write the page of a run folder or of a results file, with its pictures.

    Args:
        path: The run folder or its name on the hub, or the results file.
        output: Where to; default: with the run.

    Returns:
        Where it is.

    Raises:
        UserError: If there is nothing of a run, or a file is damaged.
    """
    record = RunRecord.read(path)
    place = page_file(record.path) if output is None else output
    figures = figures_folder(record.path) if output is None else output.with_suffix(".figures")
    with progress(None, "Drawing the page"):
        return run_page(record).write(place, figures, record.drawn_from)


def run_page(record: RunRecord) -> Page:
    """The page of what a run left behind, finished or not."""
    curves = curves_of([(record.on_hub or str(record.path), record.metrics)])
    sections = [_figures(record, curves), _training(record, curves), *_analysis(record.analysis), _again(record)]
    return Page(record.name, _subtitle(record), _verdicts(record), sections)


def figures_section(
    tables: Sequence[FigureTable],
    curves: Sequence[Curve] = (),
    folded: Sequence[PageTable] = (),
    beside: Sequence[PageTable] = (),
) -> Section:
    """Tables, the first one with its pictures, further aggregations folded away; ``beside``: more tables in sight."""
    shown = [table for number, table in enumerate(tables) if number == 0 or not table.title.startswith("Spearman")]
    panels = [intervals_panel(tables[0])] if tables else []
    panels.append(path_panel(curves) if curves else plane_panel(tables[0]) if tables else None)
    return Section(
        "figures-section",
        "Figures",
        tables=[*beside, *(PageTable.of_figures(table) for table in shown)],
        panels=[panel for panel in panels if panel is not None],
        folded=[*(PageTable.of_figures(table) for table in tables if table not in shown), *folded],
    )


def _subtitle(record: RunRecord) -> str:
    """What all figures share."""
    found = {
        "": {Path(row.encoder).name for row in record.rows},
        "layers ": {row.layers for row in record.rows},
        "pooling ": {row.pooling for row in record.rows},
    }
    told = [f"{name}{values.pop()}" for name, values in found.items() if len(values) == 1]
    parts = [", ".join(told)] if told else []
    parts += [f"method {record.options['method']}"] if "method" in record.options else []
    parts += [str(record.fingerprint[name]) for name in ("time", "device") if name in record.fingerprint]
    return "; ".join(parts)


def _verdicts(record: RunRecord) -> list[str]:
    if record.finished:
        return list(record.fingerprint.get("verdicts", ()))
    if record.path.is_file():
        return ["It did not finish; the figures that there are have no intervals yet."]
    steps = max((int(row["step"]) + 1 for row in record.metrics if row.get("step")), default=0)
    return [f"This run did not finish: {steps} training steps are in its log. How to go on stands at the end."]


def _figures(record: RunRecord, curves: Sequence[Curve]) -> Section:
    averages: dict[str, Averages] = {
        name: {tuple(key): (low, high) for *key, low, high in lines}
        for name, lines in record.fingerprint.get("averages", {}).items()
    }
    differences = [
        PageTable.of_texts(
            f"Differences x 100 with 95% confidence intervals, {title}",
            ("row - column", *found["methods"]),
            [(name, *cells) for name, cells in zip(found["methods"], found["cells"], strict=True)],
        )
        for title, found in record.fingerprint.get("differences", {}).items()
    ]
    published = record.fingerprint.get("published")
    beside = [] if not published else [PageTable.of_texts("Published figures x 100, and ours", _PUBLISHED, published)]
    earlier = [
        replace(PageTable.of_figures(table), caption=f"Of earlier runs. {table.title}")
        for table in figure_tables(record.earlier, {})
    ]
    return figures_section(figure_tables(record.rows, averages), curves, [*differences, *earlier], beside)


def _training(record: RunRecord, curves: Sequence[Curve]) -> Section:
    panels: list[Panel | None] = [spearman_panel(curves)] if curves else []
    panels.append(logged_panel(record.metrics))
    return Section("training-section", "Training", panels=[panel for panel in panels if panel is not None])


def _analysis(found: Analysis | None) -> list[Section]:
    if found is None:
        return []
    tables = []
    for caption, rows in (("Measures of the vectors", found.spaces), ("Against a standard normal", found.latents)):
        if rows:
            tables.append(PageTable.of_numbers(caption, "method", {name: row._asdict() for name, row in rows.items()}))
    near = [
        PageTable(
            sentence,
            ("rank", *by_method),
            [
                [PageCell(str(rank)), *(PageCell(each.text, moved=each.moved) for each in row)]
                for rank, row in enumerate(zip(*by_method.values(), strict=True), start=1)
            ],
            texts=range(1, len(by_method) + 1),
            sortable=False,
        )
        for sentence, by_method in found.neighbours.items()
    ]
    lines = _measured(found)
    told = ["Of each sentence, by method. Bold: not among the nearest of raw."] if near else []
    return [
        Section("space", "What the maps do to the space", lines, tables=tables, panels=panels_of(found)),
        Section("neighbours", "Nearest neighbours", told, tables=near),
    ]


def _measured(found: Analysis) -> list[str]:
    """What the pictures are of."""
    setting = found.setting
    lines = [f"{setting['encoder']}, layers {setting['layers']}, pooling {setting['pooling']}."]
    if not found.measured:
        return lines if found.bands else []
    fitted_on = setting.get("fitted_on", {"": setting.get("corpus")})
    line = f"Of {found.measured} sentences of {setting.get('measured', setting.get('corpus'))}"
    if found.fitted:
        line += f"; the maps were fitted on {found.fitted} sentences of the corpus {next(iter(fitted_on.values()))}"
        line += f", {setting['contained']} of the measured ones among them." if "contained" in setting else "."
    else:
        each = [f"{name} {corpus}" for name, corpus in fitted_on.items() if name]
        line += f"; corpus of each map: {', '.join(each)}." if each else "."
    if setting.get("left_out"):
        line += f" Without {', '.join(setting['left_out'])}: flawed, of one dimension, or of an earlier run."
    trained = "Raw is the encoder before the training; words and layers are of the encoder after it."
    return [*lines, line, *([trained] if setting.get("trained") else [])]


def _again(record: RunRecord) -> Section:
    run, code = RunFolder(record.path), []
    last = run.checkpoints / LAST
    if run.config.is_file():
        command = "go on" if last.is_file() and not record.finished else "again"
        paths = {"config": run.config, "run": run.path, "checkpoint": last}
        quoted = {name: shlex.quote(str(path)) for name, path in paths.items()}
        code = [json.loads(page_part("commands.json"))[command].format(**quoted)]
    elif record.fingerprint.get("command"):
        code = [record.fingerprint["command"]]
    folded = []
    if record.options:
        folded.append(PageTable.of_texts("Every option", ("option", "value"), settings_rows(record.options)))
    if record.fingerprint:
        plain = {name: value for name, value in record.fingerprint.items() if name not in _ELSEWHERE}
        folded.append(PageTable.of_texts("Fingerprint", ("what", "value"), settings_rows(plain)))
    return Section("again", "How to run this again", code=code, folded=folded)


def settings_rows(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each as text, nested ones by their dotted names."""
    return [(name, "" if value is None else str(value)) for name, value in flattened(options).items()]
