"""Results as people read them: one frame of scores, and tables, notes and the finding of it."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from flowbert.data.scored_pairs import SAMPLE_TASK
from flowbert.experiments.intervals import main_aggregation
from flowbert.experiments.labels import join_parts, label_parts, name_rows, settings_of
from flowbert.experiments.verdict import GAIN_KEYS, LISTED
from flowbert.tasks import AGGREGATIONS, AVERAGE
from flowbert.tasks.measures import SPACE_METRICS
from flowbert.text_tables import (
    Table,
    escape_markdown,
    in_order,
    print_lines,
    print_table,
)

_PLACE = ["split", "task", "metric"]
_SCORE = ["value", "std", "low", "high"]
_GAINS = {"gain": "gain", "low": "gain_low", "high": "gain_high", "choice": "choice"}
_SPACE = "Measures of the vectors"
_TARGET = "target (the sentences of each task)"


class Summary:
    """Results with the names of methods, a row for each cell of a table.

    Args:
        frame: Rows of results; a column ``run`` is a setting like others.
        about: Their metadata.

    Attributes:
        frame: As the argument.
        verdicts: Those of the metadata.
        settings: Settings of its rows: short name of the encoder, template, layers and so on.
        scores: A row per label, split, task, metric and aggregation: the mean over the seeds,
            x 100 but for measures of the vectors, which are means over the tasks, too. Columns
            value; std (of several seeds), low and high (ends of the 95% interval); gain over raw
            with gain_low and gain_high, and choice (``use``, ``tied`` or empty), where verdicts
            are of it; column and table (the title), its place among the tables of a page; the
            texts of interval and deviation, and text, which has both.
        cells: Those of the first table: the main aggregation of each metric.
        lead: The column that rows are ranked by: that of the verdict, the average or the first.
        rows: A row per label of ``cells``, sorted by the lead column within its group: group (run
            and encoder) with its number ``place``, method, details (further settings), name
            (both), raw (whether it is the encoder as it is); scores and gains of the lead column.
        has_gains: Whether one of them has a gain.
    """

    def __init__(self, frame: pd.DataFrame, about: Mapping[str, Any]) -> None:
        self.frame = frame
        self.verdicts: list[str] = list(about.get("verdicts", []))
        self.settings = settings_of(frame)
        parts = label_parts(frame, self.settings)
        labelled = frame.assign(label=name_rows(parts))
        gains = pd.DataFrame(about.get("gains", []), columns=[*GAIN_KEYS, *_GAINS])
        gains = gains.rename(columns=_GAINS)
        self.scores = scores = _scores(labelled.merge(gains, "left", GAIN_KEYS))
        is_shown = scores["table"] != _SPACE
        for metric in scores["metric"].unique():
            main = main_aggregation(scores, metric)
            is_shown &= (scores["metric"] != metric) | scores["aggregation"].eq(main)
        self.cells = cells = scores[is_shown].drop_duplicates(["label", "column"])
        averages = cells[cells["task"] == AVERAGE]
        leads = [cells.merge(gains[_PLACE].head(1)), averages, cells]
        columns = [column for rows in leads for column in rows["column"]]
        self.lead = str(next(iter(columns), ""))
        lead = cells[cells["column"] == self.lead].set_index("label")
        first = labelled.drop_duplicates("label")
        first = first[first["label"].isin(cells["label"])]
        parts = parts.loc[first.index]
        known = [name for name in ("run", "encoder") if name in parts]
        group = self.settings.loc[first.index, "encoder"].fillna("")
        if known:
            group = join_parts(parts[known])
        own = parts.drop(columns=known)
        rows = pd.DataFrame(
            {
                "label": first["label"],
                "group": group,
                "place": group.factorize()[0],
                "method": parts["method"],
                "details": join_parts(own.drop(columns="method")),
                "name": name_rows(own),
                "raw": first["role"] == "reference",
            }
        ).join(lead[[*_SCORE, *_GAINS.values()]], on="label")
        rows["choice"] = rows["choice"].fillna("")
        self.rows = rows.sort_values(["place", "value"], ascending=[True, False])
        self.has_gains = bool(rows["gain"].notna().any())

    @property
    def columns(self) -> list[str]:
        """Columns of the first table: the lead, then the others."""
        return list(dict.fromkeys([self.lead, *self.cells["column"]]))

    @property
    def metric(self) -> str:
        """Metric of the lead column."""
        metrics = self.cells.loc[self.cells["column"] == self.lead, "metric"]
        return str(next(iter(metrics), "spearman"))

    @property
    def table(self) -> list[dict[str, Any]]:
        """Rows of the first table with ``cells``: for each column a score or None."""
        cells = {
            (score.label, score.column): score for score in self.cells.itertuples()
        }
        records: list[dict[str, Any]] = self.rows.to_dict("records")
        return [
            row | {"cells": [cells.get((row["label"], x)) for x in self.columns]}
            for row in records
        ]

    @property
    def text(self) -> pd.DataFrame:
        """Table of the terminal by label: choice, lead, gain over raw, and further columns."""
        cells, space = self.cells, self.scores[self.scores["table"] == _SPACE]
        details = [name for name, metric in SPACE_METRICS.items() if metric.is_detail]
        space = space[~space["metric"].isin(details)]
        texts = [
            f"{score.value:z.1f}{score.deviation}"
            + (score.interval if score.column == self.lead else "")
            for score in cells.itertuples()
        ]
        table = _pivot(pd.concat([cells.assign(text=texts), space]))
        table.insert(0, self.lead, table.pop(self.lead))
        if self.has_gains:
            table = table.loc[self.rows["label"]]
            gains = [
                f"{row.gain:+.1f}{_interval(row.gain_low, row.gain_high)}"
                for row in self.rows.itertuples()
            ]
            table.insert(1, "over raw", gains)
            table = table.replace({"over raw": {"+nan": ""}})
            table.insert(0, "", list(self.rows["choice"]))
        return table

    @property
    def tables(self) -> list[Table]:
        """Folded tables of a page, of what its first table leaves out, but for equal ones.

        Spearman under other aggregations, other metrics, and measures of the vectors.
        """
        main = f"Spearman x 100 ({AGGREGATIONS[main_aggregation(self.frame)]})"
        groups = dict(iter(self.scores.groupby("table", sort=False)))
        tables: list[Table] = []
        seen: list[pd.DataFrame] = []
        for title in sorted(groups, key=lambda title: title != main):
            scores = groups[title]
            # The interval is the second line of a cell.
            text = _pivot(
                scores.assign(text=scores["text"].str.replace(" ", "\n", n=1))
            )
            values = text.map(lambda cell: cell.partition("\n")[0])
            if title != main and not any(map(values.equals, seen)):
                tables.append(Table(title, text, folded=True))
            seen.append(values)
        return tables

    @property
    def paper(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Scores x 100 of the lead's metric by label and task, and whether verdicts use them."""
        scores = self.cells[self.cells["metric"] == self.metric]
        choices = _pivot(scores.assign(text=scores["choice"]))
        return _pivot(scores), choices == "use"

    def to_markdown(self) -> str:
        """The table of a paper, in bold what the verdicts use."""
        text, is_used = self.paper
        text = text.mask(is_used, "**" + text + "**")
        text = text.rename(escape_markdown, axis=0).rename(escape_markdown, axis=1)
        lines = [["", *text], ["---"] * (1 + text.shape[1]), *text.reset_index().values]
        return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)

    def style(self) -> Any:
        """The same as a Styler of pandas."""
        text, is_used = self.paper
        bold = np.where(is_used, "font-weight: bold", "")
        return text.style.apply(lambda _: bold, axis=None)

    def print(self) -> int:
        """Print the verdicts, the table by encoder, and its notes; return its rows."""
        if self.verdicts:
            print_lines(self.verdicts, "bold")
            print()
        rows = self.rows
        if len(rows) > LISTED and self.has_gains:
            rows = rows[rows["raw"] | rows["gain"].notna()]
        if len(rows):
            more = f", {len(rows)} of {len(self.rows)} rows"
            name = self.metric.replace("_", " ")
            title = f"{name[:1].upper()}{name[1:]} x 100 [95% interval]"
            title += more if len(rows) < len(self.rows) else ""
            text = self.text.loc[rows["label"]].set_axis(rows["name"])
            print_table(text, title, rows["group"].tolist())
        print_lines(self.notes)
        return len(rows)

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
            f"{better['name'].iloc[0]} gains {points} points on {where}; no method is "
            "significantly better than it"
        )

    @property
    def notes(self) -> list[str]:
        """Lines on shared settings, symbols of the tables, and missing scores."""
        frame, corpus = self.frame, self.settings["corpus"]
        settings = self.settings.assign(corpus=corpus.replace("target", _TARGET))
        shared = [
            f"{name} {settings[name].dropna().iloc[0]}"
            for name in settings
            if settings[name].nunique() == 1
        ]
        sample = (
            f"{SAMPLE_TASK} is generated text: its scores say nothing about real data"
        )
        main = main_aggregation(frame)
        of_subsets = ~frame["aggregation"].isin(AGGREGATIONS)
        of_subsets &= frame["metric"] == "spearman"
        shown = {
            ", ".join(shared): True,
            f"Spearman: {AGGREGATIONS[main]}": main == "all" or of_subsets.any(),
            "±: standard deviation over the seeds": frame["std"].notna().any(),
            **dict.fromkeys(_notes_on_space(frame["metric"]), True),
            "*: learned from labelled pairs": frame["supervised"].any(),
            sample: SAMPLE_TASK in set(frame["task"]),
        }
        lines = [line for line, applies in shown.items() if applies]
        failed = frame[frame["reason"] != ""].groupby(["method", "reason"], sort=False)
        for (method, reason), rows in failed:
            tasks = rows["task"].unique()
            own = frame[frame["method"].eq(method) & frame["task"].isin(tasks)]
            metrics = rows["metric"].unique()
            if len(metrics) < own["metric"].nunique():
                method = f"{', '.join(metrics).replace('_', ' ')} of {method}"
            lines.append(f"nan: {method} on {', '.join(tasks)}: {reason}")
        return [line for line in lines if line]


def _notes_on_space(measured: Collection[str]) -> list[str]:
    """Notes on the measures of the vectors; those of equal ones name all of them."""
    names: dict[str, list[str]] = {}
    for name, metric in SPACE_METRICS.items():
        if metric.note and name in set(measured):
            names.setdefault(metric.note, []).append(name.replace("_", " "))
    return [f"{', '.join(same)}: {note}" for note, same in names.items()]


def _all_of(used: pd.DataFrame) -> str:
    """Names of one or two encoders, or their number."""
    names = list(used["group"])
    return " and ".join(names) if len(names) < 3 else f"{len(names)} encoders"


def _sentence(text: str) -> str:
    """With a capital, unless it begins with a name that is not a word."""
    word = text.split()[0].rstrip(":")
    return text[0].upper() + text[1:] if word.isalpha() and len(word) > 4 else text


def _scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Attribute ``scores`` of a summary.

    Args:
        rows: Rows of results with label and gains.
    """
    scores = _average(rows)
    is_space = scores["metric"].isin(SPACE_METRICS)
    space = scores[is_space].assign(task="", std=np.nan, low=np.nan, high=np.nan)
    scores.loc[~is_space, _SCORE] *= 100
    scores = pd.concat([scores[~is_space], _average(space)], ignore_index=True)
    places = [_table_and_column(score) for score in scores.itertuples()]
    scores = scores.join(pd.DataFrame(places, scores.index, ["table", "column"]))
    if scores["split"].nunique() > 1:
        scores["column"] += " " + scores["split"]
    ends = zip(scores["low"], scores["high"], strict=True)
    scores["interval"] = [_interval(*interval) for interval in ends]
    scores["deviation"] = [
        f" ±{std:.2f}" if math.isfinite(std) else "" for std in scores["std"]
    ]
    scores["text"] = [
        f"{score.value:z.2f}{score.interval}{score.deviation}"
        for score in scores.itertuples()
    ]
    return scores


def _average(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean value of each score; of several seeds, the last row is their mean."""
    keys = ["label", *_PLACE, "aggregation"]
    means = rows.groupby(keys, sort=False)["value"].agg(
        lambda values: values.mean(skipna=False)
    )
    last = rows.drop_duplicates(keys, keep="last").set_index(keys)
    return last.assign(value=means).loc[means.index].reset_index()


def _table_and_column(score: Any) -> tuple[str, str]:
    if score.metric in SPACE_METRICS:
        return _SPACE, score.metric.replace("_", " ")
    if score.metric != "spearman":
        return "Other metrics", f"{score.task} {score.metric}"
    if score.aggregation in AGGREGATIONS:
        return f"Spearman x 100 ({AGGREGATIONS[score.aggregation]})", score.task
    return "Spearman x 100 (each subset)", f"{score.task} {score.aggregation}"


def _pivot(scores: pd.DataFrame) -> pd.DataFrame:
    """Texts of scores by label and column."""
    texts = scores.drop_duplicates(["label", "column"])
    pivot = in_order(texts.set_index(["label", "column"])["text"], ["column"])
    return pivot.rename_axis(index=None, columns=None).fillna("")


def _interval(low: float, high: float) -> str:
    """An interval after a space, empty without one."""
    return f" [{low:z.1f}, {high:z.1f}]" if math.isfinite(low) else ""
