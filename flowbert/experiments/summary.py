"""Results as people read them: one frame of scores, and tables, notes and the finding of it."""

import math
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from flowbert.data.scored_pairs import SAMPLE_TASK
from flowbert.experiments.intervals import main_aggregation
from flowbert.experiments.labels import join_parts, label_parts, name_rows, settings_of
from flowbert.experiments.verdict import GAIN_KEYS, LISTED
from flowbert.tasks import AGGREGATIONS, AVERAGE
from flowbert.tasks.measures import SPACE_METRICS, metric_of
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
        about: As the argument.
        verdicts: Those of the metadata.
        settings: Settings of its rows: short name of the encoder, template, layers and so on.
        parts: Parts of their names, see ``label_parts``.
    """

    def __init__(self, frame: pd.DataFrame, about: Mapping[str, Any]) -> None:
        self.frame = frame
        self.about = about
        self.verdicts: list[str] = list(about.get("verdicts", []))
        self.settings = settings_of(frame)
        self.parts = label_parts(frame, self.settings)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """A row per label, split, task, metric and aggregation: the mean over the seeds.

        Values have the scale of the metric; measures of the vectors are means over the tasks, too.
        Columns value; std (of several seeds), low and high (ends of the 95% interval); gain over
        raw with gain_low and gain_high, and choice (``use``, ``tied`` or empty), where verdicts
        are of it; column and table (the title), its place among the tables of a page; the texts
        of interval and deviation, and text, which has both.
        """
        rows = self.frame.assign(label=name_rows(self.parts))
        gains = pd.DataFrame(self.about.get("gains", []), columns=[*GAIN_KEYS, *_GAINS])
        rows = rows.merge(gains.rename(columns=_GAINS), "left", GAIN_KEYS)
        scores = _average(rows)
        is_space = scores["metric"].isin(SPACE_METRICS)
        space = scores[is_space].assign(task="", std=np.nan, low=np.nan, high=np.nan)
        scores = pd.concat([scores[~is_space], _average(space)], ignore_index=True)
        scales = scores["metric"].map(lambda name: metric_of(name).scale)
        scores[_SCORE] = scores[_SCORE].mul(scales, axis=0)
        return _with_texts(_with_places(scores))

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Scores of the first table: the main aggregation of each metric."""
        scores = self.scores
        names = scores["metric"].unique()
        main = {name: main_aggregation(scores, name) for name in names}
        is_main = scores["aggregation"] == scores["metric"].map(main)
        is_shown = is_main & (scores["table"] != _SPACE)
        return scores[is_shown].drop_duplicates(["label", "column"])

    @cached_property
    def lead(self) -> str:
        """The column that rows are ranked by: that of the verdict, the average or the first."""
        cells = self.cells
        decided = pd.DataFrame(self.about.get("gains", [])[:1], columns=_PLACE)
        averages = cells[cells["task"] == AVERAGE]
        ranked = pd.concat([cells.merge(decided), averages, cells])
        return str(next(iter(ranked["column"]), ""))

    @property
    def metric(self) -> str:
        """Metric of the lead column."""
        metrics = self.cells.loc[self.cells["column"] == self.lead, "metric"]
        return str(next(iter(metrics), "spearman"))

    @cached_property
    def rows(self) -> pd.DataFrame:
        """A row per label of the cells, sorted by the lead column within its group.

        Columns group (run and encoder) with its number ``place``, method, details (further
        settings), name (both), raw (whether it is the encoder as it is); scores and gains of the
        lead column.
        """
        labels = name_rows(self.parts).drop_duplicates()
        labels = labels[labels.isin(self.cells["label"])]
        parts = self.parts.loc[labels.index]
        groups = parts.columns.intersection(["run", "encoder"])
        group = self.settings.loc[labels.index, "encoder"]
        if len(groups):
            group = join_parts(parts[groups])
        own = parts.drop(columns=groups)
        names = {
            "label": labels,
            "group": group,
            "place": group.factorize()[0],
            "method": parts["method"],
            "details": join_parts(own.drop(columns="method")),
            "name": name_rows(own),
            "raw": self.frame.loc[labels.index, "role"] == "reference",
        }
        lead = self.cells[self.cells["column"] == self.lead].set_index("label")
        scores = lead[[*_SCORE, *_GAINS.values()]]
        rows = pd.DataFrame(names).join(scores, on="label").fillna({"choice": ""})
        is_rising = metric_of(self.metric).sign == -1
        return rows.sort_values(["place", "value"], ascending=[True, is_rising])

    @property
    def has_gains(self) -> bool:
        """Whether a row has a gain."""
        return bool(self.rows["gain"].notna().any())

    @property
    def text(self) -> pd.DataFrame:
        """Table of the terminal by label: choice, lead, gain over raw, and further columns."""
        cells, space = self.cells, self.scores[self.scores["table"] == _SPACE]
        details = [name for name in SPACE_METRICS if SPACE_METRICS[name].is_detail]
        space = space[~space["metric"].isin(details)]
        values = cells["value"].map("{:z.1f}".format) + cells["deviation"]
        values += cells["interval"].where(cells["column"] == self.lead, "")
        table = _pivot(pd.concat([cells.assign(text=values), space]))
        table.insert(0, self.lead, table.pop(self.lead))
        if self.has_gains:
            rows = self.rows
            table = table.loc[rows["label"]]
            ends = _intervals(rows["gain_low"], rows["gain_high"])
            gains = rows["gain"].map("{:+.1f}".format) + ends
            table.insert(1, "over raw", list(gains.where(rows["gain"].notna(), "")))
            table.insert(0, "", list(rows["choice"]))
        return table

    @property
    def tables(self) -> list[Table]:
        """Folded tables of a page, of what its first table leaves out, but for equal ones.

        Spearman under other aggregations, other metrics, and measures of the vectors.
        """
        main = _title("spearman", main_aggregation(self.frame))
        groups = dict(iter(self.scores.groupby("table", sort=False)))
        tables: list[Table] = []
        seen: list[pd.DataFrame] = []
        for title in sorted(groups, key=lambda title: title != main):
            scores = groups[title]
            # The interval is the second line of a cell.
            lines = scores["text"].str.replace(" ", "\n", n=1)
            text = _pivot(scores.assign(text=lines))
            values = text.map(lambda cell: cell.partition("\n")[0])
            if title != main and not any(map(values.equals, seen)):
                tables.append(Table(title, text, folded=True))
            seen.append(values)
        return tables

    @property
    def paper(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Scores of the lead's metric by label and task, and whether verdicts use them."""
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
        rows, total = self.rows, len(self.rows)
        if total > LISTED and self.has_gains:
            rows = rows[rows["raw"] | rows["gain"].notna()]
        if len(rows):
            more = f", {len(rows)} of {total} rows" if len(rows) < total else ""
            title = f"{_title(self.metric)} [95% interval]{more}"
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
        better = used[used["gain"].notna()]
        if len(used) and better.empty:
            names = ", ".join(used["group"])
            readings = "; ".join(used.loc[used["tied"] != "", "tied"])
            without_map = f"; better without a map: {readings}" if readings else ""
            return f"No method is significantly better than raw on {names}{without_map}"
        gains = better["name"] + " gains " + better["gain"].map("{:.1f}".format)
        return "; ".join(gains + " points on " + better["group"])

    @property
    def notes(self) -> list[str]:
        """Lines on shared settings, symbols of the tables, and missing scores."""
        frame = self.frame
        main = main_aggregation(frame)
        is_spearman = frame["metric"] == "spearman"
        of_subsets = is_spearman & ~frame["aggregation"].isin(AGGREGATIONS)
        sample = (
            f"{SAMPLE_TASK} is generated text: its scores say nothing about real data"
        )
        shown = {
            self._shared_settings(): True,
            f"Spearman: {AGGREGATIONS[main]}": main == "all" or of_subsets.any(),
            "±: standard deviation over the seeds": frame["std"].notna().any(),
            **dict.fromkeys(_metric_notes(frame["metric"].unique()), True),
            "*: learned from labelled pairs": frame["supervised"].any(),
            sample: SAMPLE_TASK in set(frame["task"]),
        }
        lines = [line for line, applies in shown.items() if line and applies]
        return lines + _missing_scores(frame)

    def _shared_settings(self) -> str:
        """Settings that all rows have."""
        settings = self.settings.replace({"corpus": {"target": _TARGET}})
        values = {name: set(settings[name]) - {""} for name in settings}
        return ", ".join(
            f"{name} {min(x)}" for name, x in values.items() if len(x) == 1
        )


def _metric_notes(names: Collection[str]) -> list[str]:
    """Notes of metrics; metrics with equal notes share a line."""
    titles: dict[str, list[str]] = {}
    for name in [*SPACE_METRICS, *names]:
        metric = metric_of(name)
        if metric.note and name in names:
            titles.setdefault(metric.note, []).append(metric.title)
    return [
        f"{', '.join(dict.fromkeys(same))}: {note}" for note, same in titles.items()
    ]


def _missing_scores(frame: pd.DataFrame) -> list[str]:
    """A line on each method and reason of scores that are NaN."""
    lines = []
    failed = frame[frame["reason"] != ""].groupby(["method", "reason"], sort=False)
    for (method, reason), rows in failed:
        tasks, metrics = rows["task"].unique(), rows["metric"].unique()
        is_measured = frame["method"].eq(method) & frame["task"].isin(tasks)
        if len(metrics) < frame.loc[is_measured, "metric"].nunique():
            titles = [metric_of(name).title for name in metrics]
            method = f"{', '.join(titles)} of {method}"
        lines.append(f"nan: {method} on {', '.join(tasks)}: {reason}")
    return lines


def _average(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean value of each score; of several seeds, the last row is their mean."""
    keys = ["label", *_PLACE, "aggregation"]
    means = rows.groupby(keys, sort=False)["value"].agg(
        lambda values: values.mean(skipna=False)
    )
    last = rows.drop_duplicates(keys, keep="last").set_index(keys)
    return last.assign(value=means).loc[means.index].reset_index()


def _with_places(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores with the title of their table and their column in it."""
    places = [_table_and_column(score) for score in scores.itertuples()]
    columns = pd.DataFrame(places, scores.index, ["table", "column"])
    if scores["split"].nunique() > 1:
        columns["column"] += " " + scores["split"]
    return scores.join(columns)


def _table_and_column(score: Any) -> tuple[str, str]:
    if score.metric in SPACE_METRICS:
        return _SPACE, metric_of(score.metric).title
    if score.metric != "spearman":
        return "Other metrics", f"{score.task} {score.metric}"
    if score.aggregation in AGGREGATIONS:
        return _title(score.metric, score.aggregation), score.task
    return f"{_title(score.metric)} (each subset)", f"{score.task} {score.aggregation}"


def _title(name: str, aggregation: str = "") -> str:
    """Title of a table, such as ``Spearman x 100``."""
    metric = metric_of(name)
    title = metric.title[:1].upper() + metric.title[1:]
    if metric.scale != 1:
        title += f" x {metric.scale:g}"
    return f"{title} ({AGGREGATIONS[aggregation]})" if aggregation else title


def _with_texts(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores with their interval and deviation as texts, and both after the value."""
    deviation = scores["std"].map(" ±{:.2f}".format).where(scores["std"].notna(), "")
    interval = _intervals(scores["low"], scores["high"])
    text = scores["value"].map("{:z.2f}".format) + interval + deviation
    return scores.assign(interval=interval, deviation=deviation, text=text)


def _intervals(low: pd.Series, high: pd.Series) -> pd.Series:
    """Each interval after a space; empty where there is none."""
    ends = zip(low, high, strict=True)
    texts = [f" [{a:z.1f}, {b:z.1f}]" if math.isfinite(a) else "" for a, b in ends]
    return pd.Series(texts, low.index, dtype=object)


def _pivot(scores: pd.DataFrame) -> pd.DataFrame:
    """Texts of scores by label and column."""
    texts = scores.drop_duplicates(["label", "column"])
    pivot = in_order(texts.set_index(["label", "column"])["text"], ["column"])
    return pivot.rename_axis(index=None, columns=None).fillna("")
