"""Tables of published scores and ours, for the terminal and for the page."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from flowbert.text_tables import Table, in_order


def reproduction_text(comparison: pd.DataFrame) -> str:
    """A table of all rows, notes, and a table for each of our settings.

    Args:
        comparison: What :func:`flowbert.reproduce` returned.
    """
    run = _run(comparison)
    summary = _summarize(run)
    tables = [_text_of(summary.drop(columns=["low", "high"], errors="ignore"))]
    tables += notes_on(comparison)
    ours = in_order(run.set_index(["row", "task"])["ours"], ["task"])
    for _, same in ours.groupby([*ours.columns], sort=False, dropna=False):
        lines = pd.concat(_lines(run, [*same.index])).dropna(how="all")
        tables.append(_text_of(lines.rename_axis(columns=None)))
    return "\n\n".join(tables)


def reproduction_tables(comparison: pd.DataFrame) -> list[Table]:
    """Tables of the page: the average of each row, and all tasks.

    Args:
        comparison: What :func:`flowbert.reproduce` returned.
    """
    run = _run(comparison)
    summary = _summarize(run)
    text = summary.map(_cell)
    if "low" in summary:
        ends = summary[["low", "high"]].map("{:.1f}".format)
        interval = "\n[" + ends["low"] + ", " + ends["high"] + "]"
        text["ours"] += interval.where(summary["low"].notna(), "")
        text = text.drop(columns=["low", "high"])
    scores = run.set_index(["row", "task"])[["ours", "published"]].map(_cell)
    by_task = in_order(scores["ours"] + "\n" + scores["published"], ["task"])
    by_task = by_task.rename_axis(index=None, columns=None).fillna("")
    tables = [Table("Spearman x 100, with our 95% interval", text)]
    if len(by_task.columns) > 1:
        title = "Spearman x 100 by task: ours, then the published score"
        tables.append(Table(title, by_task))
    return tables


def notes_on(comparison: pd.DataFrame) -> list[str]:
    """Each note, after the rows that it is of where these are not all that were run.

    Args:
        comparison: What :func:`flowbert.reproduce` returned.
    """
    notes = comparison[["row", "note"]].drop_duplicates()
    every = list(_run(comparison)["row"].unique())
    lines = []
    for note, rows in notes[notes["note"] != ""].groupby("note", sort=False)["row"]:
        lines.append(note if list(rows) == every else f"{', '.join(rows)}: {note}")
    return lines


def _run(comparison: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a score of ours."""
    return comparison[comparison.groupby("row")["ours"].transform("count") > 0]


def _summarize(run: pd.DataFrame) -> pd.DataFrame:
    """The average of each row, or its only task."""
    last = run.drop_duplicates("row", keep="last").set_index("row").rename_axis(None)
    columns = ["task", "aggregation", "published", "ours", "low", "high", "difference"]
    kind = np.where(last["difference"].notna(), "target", "context")
    return last[columns].dropna(axis=1, how="all").assign(score=kind)


def _lines(run: pd.DataFrame, rows: list[str]) -> Iterator[pd.DataFrame]:
    """The published scores of rows with equal settings, then ours, with tasks as columns."""
    for row in rows:
        own = run[run["row"] == row].set_index("task")
        inside = own["inside"].map({True: "yes", False: "no"})
        lines = {row: own["published"], "difference": own["difference"]}
        yield pd.DataFrame(lines | {"inside": inside}).T
    yield own[["ours", "low", "high", "std"]].T


def _text_of(table: pd.DataFrame) -> str:
    text: str = table.to_string(float_format="{:z.2f}".format, na_rep="-")
    return text


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:z.2f}"
    return str(value)
