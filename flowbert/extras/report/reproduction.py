"""Published scores and ours, on the terminal and on the page."""

import pandas as pd
from matplotlib.figure import Figure

from flowbert.extras.analysis.drawing import INK, ORDINAL, TITLE, WIDTH, short
from flowbert.text_tables import in_order, print_lines, print_table


def print_reproduction(comparison: pd.DataFrame) -> None:
    """Print how many rows were measured, the average of each row, all tasks, and notes.

    Args:
        comparison: What :func:`flowbert.reproduce` returned.
    """
    print_lines([coverage(comparison), ""])
    print_table(tabulate_averages(comparison).set_index("row"), "Spearman x 100")
    tasks = tabulate_tasks(comparison)
    if len(tasks.columns) > 1:
        print_table(tasks, "Spearman x 100 by task: ours / published")
    print_lines(notes_on(comparison))


def coverage(comparison: pd.DataFrame) -> str:
    """How many rows were measured, such as ``"12 of 20 rows of su2021 measured; 8 cannot ..."``."""
    total = comparison["row"].nunique()
    left_out = comparison[~comparison["row"].isin(_measured(comparison)["row"])]
    rows = left_out.drop_duplicates("row")["note"].value_counts(sort=False)
    papers = " and ".join(comparison["row"].str.partition("-")[0].unique())
    text = f"{total - int(rows.sum())} of {total} rows of {papers} measured"
    return "; ".join([text, *(f"{count} {note}" for note, count in rows.items())])


def averages(comparison: pd.DataFrame) -> pd.DataFrame:
    """The average of each row that was measured, or its only task; equal scores follow each other.

    The column ``repeated`` tells that the score of ours is that of the row before.
    """
    last = _measured(comparison).drop_duplicates("row", keep="last")
    place = last.groupby("ours", sort=False, dropna=False).ngroup()
    last = last.loc[place.sort_values(kind="stable").index]
    return last.assign(repeated=last["ours"].duplicated())


def tabulate_averages(comparison: pd.DataFrame) -> pd.DataFrame:
    """A table of the averages: columns row, task, published, ours with its interval, difference."""
    rows = averages(comparison)
    text = rows[["ours", "low", "high", "published"]].map("{:z.1f}".format)
    interval = " [" + text["low"] + ", " + text["high"] + "]"
    ours = text["ours"] + interval.where(rows["low"].notna(), "")
    difference = rows["difference"].map("{:+.1f}".format)
    return pd.DataFrame(
        {
            "row": rows["row"],
            "task": rows["task"],
            "published": text["published"],
            "ours": ours.where(~rows["repeated"], "same"),
            "ours - published": difference.replace("+nan", "context"),
        }
    )


def tabulate_tasks(comparison: pd.DataFrame) -> pd.DataFrame:
    """Ours, then the published score, by row and task."""
    run = _measured(comparison)
    scores = run.set_index(["row", "task"])[["ours", "published"]].map("{:z.1f}".format)
    text = in_order(scores["ours"] + " / " + scores["published"], ["task"]).fillna("")
    return text.rename_axis(columns=None)


def notes_on(comparison: pd.DataFrame) -> list[str]:
    """Each note on rows that were measured, after their names where it is not of all.

    Args:
        comparison: What :func:`flowbert.reproduce` returned.
    """
    notes = _measured(comparison)[["row", "note"]].drop_duplicates()
    every = list(notes["row"].unique())
    lines = []
    for note, rows in notes[notes["note"] != ""].groupby("note", sort=False)["row"]:
        lines.append(note if list(rows) == every else f"{', '.join(rows)}: {note}")
    return lines


def draw_published(comparison: pd.DataFrame) -> Figure:
    """The average of each row: published hollow, ours filled, with the 95% interval."""
    rows = averages(comparison)
    figure = Figure((2 * WIDTH, 0.8 + 0.22 * len(rows)), layout="constrained")
    ax = figure.subplots()
    for place, row in enumerate(rows.itertuples()):
        told = f"{TITLE}{row.row}: published {row.published:z.1f}, ours {row.ours:z.1f}"
        ax.plot([row.published, row.ours], [place, place], color=INK, linewidth=0.7)
        ax.plot([row.low, row.high], [place, place], color=ORDINAL[0], linewidth=2.5)
        ax.plot(row.ours, place, "o", color=ORDINAL[0], markersize=6, gid=told)
        ax.plot(row.published, place, "o", color=INK, fillstyle="none", markersize=6)
    ax.set_yticks(range(len(rows)), [short(name) for name in rows["row"]])
    ax.margins(y=0.3 / len(rows))
    ax.invert_yaxis()
    ax.set_xlabel("Spearman \N{MULTIPLICATION SIGN} 100")
    return figure


def _measured(comparison: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a score of ours."""
    return comparison[comparison.groupby("row")["ours"].transform("count") > 0]
