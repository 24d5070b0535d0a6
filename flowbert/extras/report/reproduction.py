"""Tables of published scores and ours, for the terminal and for the page."""

import numpy as np
import pandas as pd

from flowbert.experiments.result_tables import score_cell
from flowbert.text_tables import Table, table_text


def reproduction_text(comparison: pd.DataFrame) -> str:
    """The tables of the page as text, with notes.

    Args:
        comparison: What :func:`flowbert.reproduce` returned.
    """
    tables = [
        f"{table.title}\n\n{table_text(table)}"
        for table in reproduction_tables(comparison)
    ]
    return "\n\n".join([*tables, *notes_on(comparison)])


def reproduction_tables(comparison: pd.DataFrame) -> list[Table]:
    """The average of each row, or its only task; and all tasks, where a row has several.

    Args:
        comparison: What :func:`flowbert.reproduce` returned.
    """
    run = _run(comparison)
    cells = [
        score_cell(score)
        for score in run.rename(columns={"ours": "value"}).itertuples()
    ]
    ours = pd.Series(cells, run.index).where(run["ours"].notna(), "")
    scores = run.assign(ours=ours, published=run["published"].map("{:.2f}".format))
    last = scores.drop_duplicates("row", keep="last").set_index("row").rename_axis(None)
    kind = np.where(last["difference"].notna(), "target", "context")
    last["difference"] = last["difference"].map("{:z.2f}".format, na_action="ignore")
    columns = ["task", "aggregation", "published", "ours", "difference"]
    summary = last[columns].dropna(axis=1, how="all").fillna("").assign(score=kind)
    tables = [Table("Spearman x 100, with our 95% interval", summary)]
    if run["task"].nunique() > 1:
        blocks = [
            pd.DataFrame({row: same["ours"], "published": same["published"]}).T
            for row, same in scores.set_index("task").groupby("row", sort=False)
        ]
        by_task = pd.concat(blocks).fillna("").rename_axis(columns=None)
        tables.append(Table("Spearman x 100 by task: ours, then published", by_task))
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
