"""Published scores and ours, on the terminal and on the page."""

import pandas as pd
from matplotlib.figure import Figure

from flowbert.extras.analysis import VIEWS, View
from flowbert.extras.analysis.drawing import INK, ORDINAL, WIDTH, short
from flowbert.text_tables import in_order, print_lines, print_table

_LISTED = 3  # rows that a note names


def print_reproduction(comparison: pd.DataFrame) -> None:
    """Print how many rows were measured, the average of each row, all tasks, and notes.

    Args:
        comparison: Frame of :func:`flowbert.reproduce`.
    """
    print_lines([finding(comparison), ""])
    averages = tabulate_averages(comparison)
    ours, rows = (list(averages.index.get_level_values(level)) for level in (0, 1))
    print_table(averages.set_axis(rows), "Spearman x 100", ours)
    if comparison["task"].nunique() > 1:
        tasks = tabulate_tasks(comparison)
        print_table(tasks, "Spearman x 100 by task: ours / published")
    print_lines(notes_on(comparison))


def finding(comparison: pd.DataFrame) -> str:
    """Number of measured rows, and the notes that all of them have.

    For example ``10 of 20 rows of su2021 measured, with my-bert in place of the published
    encoder``.
    """
    rows, run = comparison["row"].drop_duplicates(), measured(comparison)
    papers = " and ".join(rows.str.partition("-")[0].unique())
    text = f"{run['row'].nunique()} of {len(rows)} rows of {papers} measured"
    notes = run["note"].unique()
    return f"{text}, with {notes[0]}" if len(notes) == 1 and notes[0] else text


def measured(comparison: pd.DataFrame) -> pd.DataFrame:
    """The rows that were measured."""
    return comparison[comparison.groupby("row")["ours"].transform("count") > 0]


def left_out(comparison: pd.DataFrame) -> pd.DataFrame:
    """The rows that were not measured, with the reason."""
    rows = comparison.drop(measured(comparison).index)
    return rows[["row", "note"]].drop_duplicates()


def averages(comparison: pd.DataFrame) -> pd.DataFrame:
    """The average of each measured row, or its only task; rows with equal scores are adjacent.

    Equal scores belong to one setting with several published scores.
    """
    last = measured(comparison).drop_duplicates("row", keep="last")
    place = last.groupby("ours", sort=False, dropna=False).ngroup()
    return last.loc[place.sort_values(kind="stable").index]


def tabulate_averages(comparison: pd.DataFrame) -> pd.DataFrame:
    """A table of the averages: published score and difference, by our score and row."""
    rows = averages(comparison)
    text = rows[["ours", "low", "high", "published"]].map("{:z.1f}".format)
    interval = " [" + text["low"] + ", " + text["high"] + "]"
    ours = "ours " + text["ours"] + interval.where(rows["low"].notna(), "")
    ours += rows["std"].map(" ±{:.2f}".format).where(rows["std"].notna(), "")
    difference = rows["difference"].map("{:+.1f}".format)
    return pd.DataFrame(
        {
            "task": rows["task"],
            "published": text["published"],
            "difference": difference.replace("+nan", "context"),
        }
    ).set_index([ours.rename("ours"), rows["row"]])


def tabulate_tasks(comparison: pd.DataFrame) -> pd.DataFrame:
    """Our score and the published score, by row and task."""
    rows = measured(comparison).set_index(["row", "task"])
    text = rows[["ours", "published"]].map("{:z.1f}".format)
    table = in_order(text["ours"] + " / " + text["published"], ["task"]).fillna("")
    return table.rename_axis(columns=None)


def notes_on(comparison: pd.DataFrame) -> list[str]:
    """Each note with its rows, unless it is in the finding."""
    said, lines = finding(comparison), []
    for note, rows in comparison.groupby("note", sort=False)["row"]:
        names = rows.unique()
        if note not in said:
            few = ", ".join(names) if len(names) <= _LISTED else f"{len(names)} rows"
            lines.append(f"{few}: {note}")
    return lines


def draw_averages(rows: pd.DataFrame) -> Figure:
    """Plot the averages: published hollow, ours filled, with the 95% interval."""
    figure = Figure((2 * WIDTH, 0.8 + 0.22 * len(rows)), layout="constrained")
    ax = figure.subplots()
    places, colour = range(len(rows)), ORDINAL[0]
    ax.hlines(places, rows["ours"], rows["published"], INK, linewidth=0.7)
    ax.hlines(places, rows["low"], rows["high"], colour, linewidth=2.5)
    ax.plot(rows["ours"], places, "o", color=colour, markersize=6)
    ax.plot(rows["published"], places, "o", color=INK, fillstyle="none", markersize=6)
    ax.set_yticks(places, [short(name) for name in rows["row"]])
    ax.margins(y=0.3 / len(rows))
    ax.invert_yaxis()
    ax.set_xlabel("Spearman \N{MULTIPLICATION SIGN} 100")
    return figure


def published_frames(comparison: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Frames of a reproduction by the names of their views; without scores, empty."""
    if comparison.empty:
        return {}
    frames = {"published": comparison, "published_averages": averages(comparison)}
    if comparison["task"].nunique() > 1:
        frames["published_tasks"] = comparison
    return frames | {"left_out": left_out(comparison)}


_SECTION = "Published scores"
VIEWS |= {
    "published": View(
        _SECTION,
        "Our score of each setting, above the published ones",
        "Averages over the tasks, or the only task.",
        tabulate_averages,
    ),
    "published_averages": View(
        _SECTION,
        "Published scores and ours",
        "Hollow: published; filled: ours, with the 95% interval.",
        draw_averages,
    ),
    "published_tasks": View(
        _SECTION, "By task: ours / published", "", tabulate_tasks, folded=True
    ),
    "left_out": View(
        _SECTION, "Rows that cannot be run", "", pd.DataFrame, folded=True
    ),
}
