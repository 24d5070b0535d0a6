"""The first screen of a page and its table of results: the finding, cards, rows by encoder."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from flowbert.experiments.intervals import (
    GAIN_KEYS,
    LISTED,
    label_parts,
    labels,
    main_aggregation,
    settings_of,
)
from flowbert.experiments.result_tables import mean_geometry, notes, summarize
from flowbert.experiments.results import Results
from flowbert.tasks import AVERAGE
from flowbert.tasks.measures import SPACE_METRICS
from flowbert.text_tables import make_table, print_lines, print_table

_GROUP_PARTS = ("run", "encoder")
_GAINS = ["gain", "low", "high", "choice"]


def headline_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Scores of :func:`summarize` under the main aggregation, without those of the space."""
    scores = summarize(frame)
    metrics = scores["metric"].unique()
    main = {metric: main_aggregation(scores, metric) for metric in metrics}
    shown = scores["aggregation"] == scores["metric"].map(main)
    return scores[shown & ~scores["metric"].isin(SPACE_METRICS)]


class Summary:
    """Results of a page, row by row, with the gains over raw.

    Args:
        frame: Rows of results.
        record: Their metadata.

    Attributes:
        cells: Scores, columns label, column, value, low, high and std.
        lead: The column that rows are ranked by: that of the verdict, the average or the first.
        rows: A row per label, sorted by the lead column within its group: group (run and encoder),
            method, details (further settings), name (both), raw (whether it is the encoder as it
            is), value, low and high of the lead column; gain, gain_low, gain_high and choice
            (``use``, ``tied``) as in the metadata of the results, NaN and empty without.
    """

    def __init__(self, frame: pd.DataFrame, record: Mapping[str, Any]) -> None:
        scores = headline_scores(frame)
        known = pd.DataFrame(record.get("gains", []), columns=[*GAIN_KEYS, *_GAINS])
        where = ["task", "metric", "split"]
        decides = pd.Series(False, scores.index)
        if len(known):
            first = known[where].eq(known[where].iloc[0]).all(axis=1)
            decides = scores[where].eq(known[where].iloc[0]).all(axis=1)
            known = known[first]
        if not decides.any():
            decides = scores["task"].eq(AVERAGE) | (AVERAGE not in set(scores["task"]))
        self.cells = scores
        self.lead = str(next(iter(scores["column"][decides]), ""))
        lead = scores[scores["column"] == self.lead].set_index("label")
        rows = frame.assign(label=labels(frame)).drop_duplicates("label")
        parts = label_parts(frame).loc[rows.index]
        places = [name for name in _GROUP_PARTS if name in parts]
        group = _join(parts[places])
        if not places:
            group = settings_of(frame)["encoder"].loc[rows.index].fillna("")
        rows = rows.assign(group=group, raw=rows["method"] == "raw")
        keys = [name for name in GAIN_KEYS if name not in where]
        gains = known.set_index(keys)[_GAINS]
        gains.columns = ["gain", "gain_low", "gain_high", "choice"]
        rows = rows.drop(columns=["value", "low", "high"]).join(gains, on=keys)
        rows["method"] = parts["method"]
        rows["details"] = _join(parts.drop(columns=[*places, "method"]))
        in_brackets = " (" + rows["details"] + ")"
        rows["name"] = rows["method"] + in_brackets.where(rows["details"] != "", "")
        rows["choice"] = rows["choice"].astype(object).fillna("")
        rows = rows.join(lead[["value", "low", "high"]], on="label")
        rows = rows[rows["label"].isin(scores["label"])]
        rows["place"] = rows["group"].map(
            {x: n for n, x in enumerate(rows["group"].unique())}
        )
        self.rows = rows.sort_values(["place", "value"], ascending=[True, False])

    @property
    def columns(self) -> list[str]:
        """Columns of the table: the lead, then the others."""
        return list(dict.fromkeys([self.lead, *self.cells["column"]]))

    @property
    def has_gains(self) -> bool:
        """Whether a row has a gain."""
        return bool(self.rows["gain"].notna().any())

    @property
    def table(self) -> list[dict[str, Any]]:
        """Rows with ``cells``: for each column a score or None."""
        first = self.cells.iloc[::-1].itertuples()  # of several, the first one counts
        cells = {(score.label, score.column): score for score in first}
        labels = self.rows["label"]
        lists = [[cells.get((label, x)) for x in self.columns] for label in labels]
        rows = self.rows.assign(cells=lists)
        records: list[dict[str, Any]] = rows.to_dict("records")
        return records

    @property
    def used(self) -> pd.DataFrame:
        """The row to use of each encoder, with score ``before`` and ``tied``, those that tie."""
        rows = self.rows
        used = rows[rows["choice"] == "use"]
        ties = rows[rows["choice"] == "tied"].groupby("group")["name"]
        tied = used["group"].map(ties.agg(", ".join)).astype(object).fillna("")
        return used.assign(tied=tied, before=used["value"] - used["gain"])

    @property
    def finding(self) -> str:
        """What the verdicts say, in one sentence; empty without verdicts."""
        used = self.used
        better = used[used["gain_low"] > 0]
        if used.empty:
            return ""
        encoders = _all_of(used)
        if better.empty:
            return f"No method is significantly better than raw on {encoders}"
        if better["name"].nunique() > 1:
            parts = [
                f"{row.name} gains {row.gain:.1f} points on {row.group}"
                for row in better.itertuples()
            ]
            return _sentence("; ".join(parts))
        low, high = better["gain"].min(), better["gain"].max()
        points = (
            f"{low:.0f} to {high:.0f}" if round(low) < round(high) else f"{low:.1f}"
        )
        where = encoders if len(better) == len(used) else _all_of(better)
        return _sentence(
            f"{better['name'].iloc[0]} gains {points} points on {where}; no other method is "
            "significantly better"
        )


def _all_of(used: pd.DataFrame) -> str:
    """Names of one or two encoders, or their number."""
    names = list(used["group"])
    return " and ".join(names) if len(names) < 3 else f"{len(names)} encoders"


def _sentence(text: str) -> str:
    """With a capital, unless it begins with a name that is not a word."""
    word = text.split()[0].rstrip(":")
    return text[0].upper() + text[1:] if word.isalpha() and len(word) > 4 else text


def _join(parts: pd.DataFrame) -> pd.Series:
    """Texts of each row, separated by commas; empty ones are left out."""
    return parts.apply(lambda row: ", ".join(filter(None, row)), axis=1).astype(str)


def print_verdicts(results: Results) -> None:
    """Print which row to use, a line for each encoder."""
    print_lines(results.verdicts, "bold")


def print_results(results: Results) -> int:
    """Print the verdicts, the table of results by encoder, and its notes; return its rows."""
    if results.verdicts:
        print_verdicts(results)
        print()
    frame = results.frame
    if frame.empty:
        return 0
    summary = Summary(frame, results.about)
    rows = summary.rows
    if len(rows) > LISTED and summary.has_gains:
        rows = rows[rows["raw"] | rows["gain"].notna()]
    if len(rows):
        more = f", {len(rows)} of {len(summary.rows)} rows"
        title = "Spearman x 100 [95% interval]"
        title += more if len(rows) < len(summary.rows) else ""
        text = _texts(summary, frame).loc[rows["label"]]
        text.index = pd.Index(rows["name"])
        print_table(text, title, rows["group"].tolist())
    print_lines(notes(frame))
    return len(rows)


def _texts(summary: Summary, frame: pd.DataFrame) -> pd.DataFrame:
    """Texts of the table by label: choice, the leading score, its gain, and further columns."""
    scores = summary.cells
    deviation = scores["std"].map(" ±{:.2f}".format).where(scores["std"].notna(), "")
    is_lead = scores["column"].eq(summary.lead) & scores["low"].notna()
    text = scores["value"].map("{:z.1f}".format) + deviation
    text += _intervals(scores).where(is_lead, "")
    space = mean_geometry(summarize(frame))
    is_detail = space["metric"].map(lambda name: SPACE_METRICS[name].is_detail)
    space = space[~is_detail.astype(bool)]  # without rows it is a column of objects
    space = space.assign(text=space["value"].map("{:z.2f}".format))
    shown = pd.concat([scores.assign(text=text), space], ignore_index=True)
    table = make_table("", shown.drop_duplicates(["label", "column"])).text
    table.insert(0, summary.lead, table.pop(summary.lead))
    rows = summary.rows.set_index("label")
    if summary.has_gains:
        ends = rows[["gain_low", "gain_high"]].set_axis(["low", "high"], axis=1)
        gains = rows["gain"].map("{:+.1f}".format) + _intervals(ends)
        table.insert(1, "over raw", gains.where(rows["gain"].notna(), ""))
        table.insert(0, "", rows["choice"])
    return table


def _intervals(scores: pd.DataFrame) -> pd.Series:
    """The interval of each score after a space."""
    ends = scores[["low", "high"]].map("{:z.1f}".format)
    return " [" + ends["low"] + ", " + ends["high"] + "]"
