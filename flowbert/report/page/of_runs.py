"""The page over several runs: what differs in their settings, their figures side by side, their curves."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flowbert.errors import UserError
from flowbert.evaluation.results import Row
from flowbert.progress import progress
from flowbert.report.history import curves_of, short_names
from flowbert.report.page.content import Page, PageTable, Section
from flowbert.report.page.of_run import figures_section
from flowbert.report.page.record import RunRecord, flattened
from flowbert.report.panels.training import spearman_panel
from flowbert.report.table import figure_tables

_EACH_ITS_OWN = (
    "time",
    "config_hash",
    "command",
    "verdicts",
    "averages",
    "differences",
    "bootstrap",
    "rows",
    "finished",
)


def write_runs_page(paths: Sequence[str | Path], output: str | Path) -> Path:
    """Write the page over several runs, and its pictures beside it.

    Returns:
        Where it is.

    Raises:
        UserError: If there is nothing of a run at a path, a file is damaged, or a run is named twice.
    """
    records = [RunRecord.read(path) for path in paths]
    resolved = [record.path.resolve() for record in records]
    for path in resolved:
        if resolved.count(path) > 1:
            raise UserError(f"runs: received {path} twice; allowed: each run once")
    output = Path(output)
    with progress(None, "Drawing the page"):
        return runs_page(records).write(output, output.with_suffix(".figures"))


def runs_page(records: Sequence[RunRecord]) -> Page:
    """The page over several runs."""
    names = short_names([record.place for record in records])
    tables = figure_tables(side_by_side({name: record.rows for name, record in zip(names, records, strict=True)}), {})
    differing = _differing(records)
    caption = "Only what is not the same in all of them"
    settings = Section(
        "settings",
        "What differs",
        tables=[PageTable.of_texts(caption, ("setting", *names), differing)] if differing else (),
        lines=_same(records) if not differing else (),
    )
    unfinished = [name for name, record in zip(names, records, strict=True) if not record.finished]
    notes = ["Intervals are of each run by itself. Two methods that one evaluation measures have paired differences."]
    notes += [f"did not finish: {', '.join(unfinished)}"] if unfinished else []
    curves = curves_of(zip(names, (record.metrics for record in records), strict=True))
    panels = [spearman_panel(curves)] if curves else []
    sections = [settings, figures_section(tables, curves), Section("training-section", "Training", panels=panels)]
    return Page(f"{len(records)} runs", ", ".join(names), notes, sections)


def side_by_side(rows_by_run: dict[str, Sequence[Row]]) -> list[Row]:
    """Rows of several runs: a method whose figures are the same in all of them once, others with their run's name."""
    found: dict[tuple[object, ...], dict[str, list[Row]]] = {}
    for run, rows in rows_by_run.items():
        for row in rows:
            key = (row.method, row.encoder, row.layers, row.pooling, row.corpus)
            found.setdefault(key, {}).setdefault(run, []).append(row)
    shown = []
    for by_run in found.values():
        first, *others = by_run.values()
        if all(_figures(rows) == _figures(first) for rows in others):
            shown += first
        else:
            shown += [replace(row, method=f"{row.method}, {run}") for run, rows in by_run.items() for row in rows]
    return shown


def _figures(rows: Sequence[Row]) -> list[str]:
    """What they measured, as text, in which NaN equals itself."""
    return sorted(
        f"{row.task} {row.split} {row.metric} {row.aggregation} {row.seed} {row.value} {row.alignment} {row.uniformity}"
        for row in rows
    )


def _same(records: Sequence[RunRecord]) -> list[str]:
    if all(record.options for record in records) or len({r.fingerprint.get("config_hash") for r in records}) == 1:
        return ["All settings are the same."]
    commands = [str(record.fingerprint.get("command") or "Python code") for record in records]
    return ["Not all of them have their options on record; they were asked for by", *commands]


def _differing(records: Sequence[RunRecord]) -> list[tuple[str, ...]]:
    """Every setting that is not the same in all, with its value in each; an evaluation has no options on record."""
    told = [{k: v for k, v in record.fingerprint.items() if k not in _EACH_ITS_OWN} for record in records]
    found = []
    for settings in ([record.options for record in records], [flattened(each) for each in told]):
        on_record = [each for each in settings if each]
        for name in dict.fromkeys(name for each in on_record for name in each):
            if len({str(each.get(name, "")) for each in on_record}) > 1:
                found.append((name, *(str(each.get(name, "")) for each in settings)))
    return list(dict.fromkeys(found))
