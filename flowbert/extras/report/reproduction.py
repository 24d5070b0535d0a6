"""Published scores and ours, on the terminal and on the page."""

from typing import Any

import pandas as pd

from flowbert.text_tables import Table, in_order, print_lines, print_table


def print_reproduction(comparison: pd.DataFrame) -> None:
    """Print how many rows were measured, the average of each row, all tasks, and notes.

    Args:
        comparison: What :func:`flowbert.reproduce` returned.
    """
    print_lines([coverage(comparison), ""])
    rows = pd.DataFrame(reproduced_rows(comparison)).set_index("row")
    text = rows[["ours", "low", "high", "published"]].map("{:z.1f}".format)
    interval = " [" + text["low"] + ", " + text["high"] + "]"
    ours = text["ours"] + interval.where(rows["low"].notna(), "")
    table = {
        "task": rows["task"],
        "published": text["published"],
        "ours": ours.where(~rows["repeated"], "same"),
        "ours - published": rows["difference"].map("{:+.1f}".format),
    }
    print_table(pd.DataFrame(table).replace("+nan", "context"), "Spearman x 100")
    for each in task_tables(comparison):
        print_table(each.text, each.title)
    print_lines(notes_on(comparison))


def coverage(comparison: pd.DataFrame) -> str:
    """How many rows were measured, such as ``"12 of 20 rows measured; 8 cannot be run: ..."``."""
    total = comparison["row"].nunique()
    left_out = comparison[~comparison["row"].isin(_run(comparison)["row"])]
    rows = left_out.drop_duplicates("row")["note"].value_counts(sort=False)
    text = f"{total - int(rows.sum())} of {total} rows measured"
    return "; ".join([text, *(f"{count} {note}" for note, count in rows.items())])


def reproduced_rows(comparison: pd.DataFrame) -> list[dict[str, Any]]:
    """The average of each row that was measured, or its only task.

    Rows with equal scores of ours follow each other: ``repeated`` tells that its score is that of
    the row before.
    """
    last = _run(comparison).drop_duplicates("row", keep="last")
    place = last.groupby("ours", sort=False, dropna=False).ngroup()
    last = last.loc[place.sort_values(kind="stable").index]
    last = last.assign(repeated=last["ours"].duplicated())
    rows: list[dict[str, Any]] = last.to_dict("records")
    return rows


def task_tables(comparison: pd.DataFrame) -> list[Table]:
    """A table of all tasks, if there are several: ours, then the published score."""
    run = _run(comparison)
    scores = run.set_index(["row", "task"])[["ours", "published"]].map("{:z.1f}".format)
    text = in_order(scores["ours"] + " / " + scores["published"], ["task"]).fillna("")
    text = text.rename_axis(index=None, columns=None)
    title = "Spearman x 100 by task: ours / published"
    return [Table(title, text)] if len(text.columns) > 1 else []


def notes_on(comparison: pd.DataFrame) -> list[str]:
    """Each note on rows that were measured, after their names where it is not of all.

    Args:
        comparison: What :func:`flowbert.reproduce` returned.
    """
    notes = _run(comparison)[["row", "note"]].drop_duplicates()
    every = list(notes["row"].unique())
    lines = []
    for note, rows in notes[notes["note"] != ""].groupby("note", sort=False)["row"]:
        lines.append(note if list(rows) == every else f"{', '.join(rows)}: {note}")
    return lines


def _run(comparison: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a score of ours."""
    return comparison[comparison.groupby("row")["ours"].transform("count") > 0]
