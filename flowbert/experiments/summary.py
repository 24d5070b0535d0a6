"""Results for readers: a frame of scores, and its tables, notes and finding."""

from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import cached_property
from html import escape
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd

from flowbert.data.scored_pairs import SAMPLE_TASK
from flowbert.experiments.intervals import GAIN, main_aggregation
from flowbert.experiments.labels import name_rows, settings_of
from flowbert.experiments.verdict import LISTED
from flowbert.tasks import AGGREGATIONS, AVERAGE
from flowbert.tasks.measures import SPACE_METRICS, metric_of
from flowbert.text_tables import escape_markdown, in_order, print_lines, print_table

_PLACE = ["split", "task", "metric"]
_SCORE = ["value", "std", "low", "high"]
_TARGET = "target (the sentences of each task)"
GENERATED = f"{SAMPLE_TASK} is generated text: its scores say nothing about real data"


class Summary:
    """Results with the names of methods, a row for each cell of a table.

    Args:
        frame: Rows of results; a column ``run`` is a setting like others.
        about: Metadata of the results.

    Attributes:
        frame: As the argument.
        about: As the argument.
        verdicts: Lines that say which row to use, from the metadata.
        names: Names of the rows, see :func:`flowbert.experiments.labels.name_rows`.
    """

    def __init__(self, frame: pd.DataFrame, about: Mapping[str, Any]) -> None:
        self.frame = frame
        self.about = about
        self.verdicts: list[str] = list(about.get("verdicts", []))
        self.names = name_rows(frame)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """A row per label, split, task, metric and aggregation; with several seeds, their mean.

        Columns of results, of which value, std, low and high have the scale of the metric, and
        further ones: interval and deviation, as texts; text, the value with both; column, its name
        in tables.
        """
        rows = self.frame.assign(label=self.names["label"])
        keys = ["label", *_PLACE, "aggregation"]
        scores = rows.drop_duplicates(keys, keep="last").copy()
        scales = [metric_of(name).scale for name in scores["metric"]]
        scores[_SCORE] = scores[_SCORE].mul(scales, axis=0)
        scores["interval"] = _intervals(scores["low"], scores["high"])
        deviations = scores["std"].map(" ±{:.2f}".format)
        scores["deviation"] = deviations.where(scores["std"].notna(), "")
        values = scores["value"].map("{:z.2f}".format)
        scores["text"] = values + scores["interval"] + scores["deviation"]
        scores["column"] = scores["task"] + _splits(scores)
        return scores

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Scores of the first table: the main aggregation of each metric, without the space."""
        scores = self.scores[~self.scores["metric"].isin(SPACE_METRICS)]
        metrics = scores["metric"].unique()
        main = {name: main_aggregation(scores, name) for name in metrics}
        is_main = scores["aggregation"] == scores["metric"].map(main)
        cells = scores[is_main].copy()
        is_other = cells["metric"] != "spearman"
        with_metric = cells["task"] + " " + cells["metric"] + _splits(cells)
        cells["column"] = cells["column"].mask(is_other, with_metric)
        return cells.drop_duplicates(["label", "column"])

    @cached_property
    def space(self) -> pd.DataFrame:
        """Metrics of the space, averaged over the tasks: columns of :attr:`scores`."""
        keys = ["label", "split", "metric"]
        space = self.scores[self.scores["metric"].isin(SPACE_METRICS)].copy()
        of_tasks = space.groupby(keys)["value"]
        space["value"] = of_tasks.transform(lambda values: values.mean(skipna=False))
        titles = space["metric"].map(lambda name: metric_of(name).title)
        space["column"] = titles + _splits(space)
        return space.drop_duplicates(keys)

    @property
    def chosen(self) -> pd.DataFrame:
        """The cells that verdicts use; those of the first verdict come first."""
        chosen = self.cells[self.cells["choice"] == "use"]
        first = self.about.get("lead") or [AVERAGE, "spearman"]
        is_first = (chosen[["task", "metric"]] == first).all(axis=1)
        return pd.concat([chosen[is_first], chosen[~is_first]])

    @cached_property
    def _first_cell(self) -> Mapping[Any, Any]:
        """A cell of the lead column."""
        averages = self.cells[self.cells["task"] == AVERAGE]
        cells = pd.concat([self.chosen, averages, self.cells])
        return cells.iloc[0] if len(cells) else {"column": "", "metric": "spearman"}

    @property
    def lead(self) -> str:
        """The column that rows are ranked by: that of the verdict, the average or the first."""
        return str(self._first_cell["column"])

    @property
    def metric(self) -> str:
        """Metric of the lead column."""
        return str(self._first_cell["metric"])

    @cached_property
    def rows(self) -> pd.DataFrame:
        """A row per label of the cells, sorted by the lead column within its group.

        Columns of :attr:`names`; raw (whether it is the encoder as it comes); reading (whether
        nobody asked for it); place (number of the group); scores and gains of the lead column.
        """
        role = self.frame["role"]
        names = self.names.assign(raw=role == "reference", reading=role == "reading")
        names = names[names["label"].isin(self.cells["label"])].drop_duplicates("label")
        names["place"] = names["group"].factorize()[0]
        lead = self.cells[self.cells["column"] == self.lead]
        scores = lead[["label", *_SCORE, *GAIN, "choice"]]
        rows = names.merge(scores, "left", "label").fillna({"choice": ""})
        is_rising = metric_of(self.metric).upward == -1
        return rows.sort_values(["place", "value"], ascending=[True, is_rising])

    @property
    def has_gains(self) -> bool:
        """Whether a row has a gain."""
        return bool(self.rows["gain"].notna().any())

    @property
    def text(self) -> pd.DataFrame:
        """Table of the terminal by label: choice, lead, gain over raw, and other columns."""
        cells = self.cells.copy()
        cells["text"] = cells["value"].map("{:z.1f}".format) + cells["deviation"]
        is_lead = cells["column"] == self.lead
        cells["text"] += cells["interval"].where(is_lead, "")
        details = [name for name in SPACE_METRICS if SPACE_METRICS[name].is_detail]
        space = self.space[~self.space["metric"].isin(details)].copy()
        space["text"] = space["value"].map("{:z.2f}".format)
        table = _pivot(pd.concat([cells, space]))
        table.insert(0, self.lead, table.pop(self.lead))
        if not self.has_gains:
            return table
        rows = self.rows
        gains = rows["gain"].map("{:+.1f}".format)
        gains += _intervals(rows["gain_low"], rows["gain_high"])
        table = table.loc[rows["label"]]
        table.insert(1, "over raw", list(gains.where(rows["gain"].notna(), "")))
        table.insert(0, "", list(rows["choice"]))
        return table

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All scores by tasks, aggregations and subsets: a table for each metric, by title."""
        tables = {}
        for name, scores in self.scores.groupby("metric", sort=False):
            aggregations = (" " + scores["aggregation"]).replace(" all", "")
            columns = scores["task"] + aggregations + _splits(scores)
            table = _pivot(scores.assign(column=columns))
            tables[metric_of(str(name)).unit] = table.T.drop_duplicates().T
        return tables

    @property
    def paper(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Scores of the lead's metric by label and task, and whether a verdict uses them."""
        scores = self.cells[self.cells["metric"] == self.metric]
        choices = _pivot(scores.assign(text=scores["choice"]))
        return _pivot(scores), choices == "use"

    def to_markdown(self) -> str:
        """The table of a paper, in bold what the verdicts use, and the verdicts below it."""
        text, is_used = self.paper
        text = text.mask(is_used, "**" + text + "**")
        text = text.rename(index=escape_markdown, columns=escape_markdown)
        header = ["", *text]
        rule = ["---"] * len(header)
        lines = [header, rule, *text.reset_index().to_numpy()]
        table = [f"| {' | '.join(map(str, line))} |" for line in lines]
        verdicts = [f"\n{escape_markdown(line)}" for line in self.verdicts]
        return "\n".join(table + verdicts)

    @property
    def shown(self) -> pd.DataFrame:
        """The rows that the terminal shows: all, or of many those that verdicts compare."""
        rows = self.rows
        if len(rows) > LISTED and self.has_gains:
            rows = rows[rows["raw"] | rows["gain"].notna()]
        return rows

    @property
    def unit(self) -> str:
        """Metric and scale of the lead column, such as ``Spearman x 100``."""
        return metric_of(self.metric).unit

    @property
    def title(self) -> str:
        """Title of the terminal's table: metric and unit, and how many rows are shown."""
        count, total = len(self.shown), len(self.rows)
        more = f", {count} of {total} rows" if count < total else ""
        interval = " [95% interval]" if self.cells["low"].notna().any() else ""
        return f"{self.unit}{interval}{more}"

    def print(self) -> int:
        """Print verdicts, table by encoder, and notes; returns the rows of the table."""
        if self.verdicts:
            print_lines(self.verdicts, "bold")
            print()
        rows = self.shown
        if len(rows):
            text = self.text.loc[rows["label"]].set_axis(rows["name"])
            print_table(text, self.title, rows["group"].tolist())
        print_lines(self.notes)
        return len(rows)

    def __repr__(self) -> str:
        with redirect_stdout(StringIO()) as text:
            self.print()
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        tables = [self._style().to_html()] if len(self.rows) else []
        verdicts = [f"<b>{escape(line)}</b>" for line in self.verdicts]
        return "<br>".join([*verdicts, *tables, *map(escape, self.notes)])

    def _style(self) -> Any:
        """The table of the terminal as a pandas Styler."""
        rows = self.shown
        several = rows["group"].nunique() > 1
        names = rows[["group", "name"] if several else ["name"]]
        text = self.text.loc[rows["label"]].set_axis(pd.MultiIndex.from_frame(names))
        look = np.where(rows["choice"] == "use", "font-weight: bold; color: green", "")
        table = text.rename_axis(names.shape[1] * [None]).style.apply(lambda _: look)
        for axis in (0, 1):
            table.format_index(escape="html", axis=axis)
        return table.format(escape="html").set_caption(self.title)

    def plot(self, ax: Any = None) -> Any:
        """Draw the gains over raw with their 95% intervals, green for the row to use.

        Args:
            ax: Axes of matplotlib; None for new ones.

        Returns:
            The axes.
        """
        from matplotlib import pyplot

        rows = self.shown.dropna(subset="gain")[::-1]
        places = range(len(rows))
        if ax is None:
            size = 6.4, 1 + 0.3 * len(rows)
            _, ax = pyplot.subplots(figsize=size, layout="constrained")
        colours = np.where(rows["choice"] == "use", "tab:green", "tab:gray")
        ax.hlines(places, rows["gain_low"], rows["gain_high"], colours)
        ax.scatter(rows["gain"], places, c=colours)
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_yticks(places, rows["label"])
        ax.set_ylim(-0.7, len(rows) - 0.3)
        ax.set_xlabel(f"{self.lead}: gain over raw, {self.unit}")
        return ax

    @property
    def used(self) -> pd.DataFrame:
        """The row to use of each encoder.

        Further columns: before (the score of raw), tied (the names of rows that tie) and compared
        (the number of methods that the verdict compares).
        """
        rows = self.rows
        used = rows[rows["choice"] == "use"]
        ties = rows[rows["choice"] == "tied"].groupby("group")["name"]
        tied = used["group"].map(ties.agg(", ".join)).astype(object).fillna("")
        compared = rows[~rows["reading"]].groupby("group")["gain"].count()
        return used.assign(
            tied=tied,
            before=used["value"] - used["gain"],
            compared=used["group"].map(compared),
        )

    @property
    def finding(self) -> str:
        """The verdicts in one sentence; empty without verdicts."""
        used = self.used
        better = used[used["gain"].notna()]
        if len(used) and better.empty:
            encoders = ", ".join(used["group"])
            text = f"No method is significantly better than raw on {encoders}"
            readings = "; ".join(filter(None, used["tied"]))
            return f"{text}; better without a map: {readings}" if readings else text
        upward = metric_of(self.metric).upward
        return "; ".join(
            f"{row['name']} gains {upward * row['gain']:.1f} points on {row['group']}"
            for row in better.to_dict("records")
        )

    @property
    def notes(self) -> list[str]:
        """Lines on shared settings, symbols of the tables, and missing scores."""
        frame = self.frame
        main = main_aggregation(frame)
        kinds = set(frame.query("metric == 'spearman'")["aggregation"])
        lines = [_shared_settings(frame)]
        if main == "all" or not kinds <= set(AGGREGATIONS):
            lines.append(f"Spearman: {AGGREGATIONS.get(main, main)}")
        if frame["std"].notna().any():
            lines.append("±: standard deviation over the seeds")
        lines += _metric_notes(frame)
        if frame["supervised"].any():
            lines.append("*: learned from labelled pairs")
        if SAMPLE_TASK in set(frame["task"]):
            lines.append(GENERATED)
        return [*filter(None, lines), *_missing_scores(frame)]


def _shared_settings(frame: pd.DataFrame) -> str:
    """Settings that all rows have."""
    settings = settings_of(frame).replace({"corpus": {"target": _TARGET}})
    values = {name: set(settings[name]) - {""} for name in settings}
    return ", ".join(f"{name} {min(x)}" for name, x in values.items() if len(x) == 1)


def _metric_notes(frame: pd.DataFrame) -> list[str]:
    """Notes of metrics; metrics with equal notes share a line."""
    titles: dict[str, list[str]] = {}
    for name in dict.fromkeys([*SPACE_METRICS, *frame["metric"]]):
        metric = metric_of(name)
        if metric.note and name in set(frame["metric"]):
            titles.setdefault(metric.note, []).append(metric.title)
    return [f"{', '.join(same)}: {note}" for note, same in titles.items()]


def _missing_scores(frame: pd.DataFrame) -> list[str]:
    """A line for each method and reason with scores that are NaN."""
    failed = frame[frame["reason"] != ""].groupby(["method", "reason"], sort=False)
    return [
        f"nan: {method} on {', '.join(rows['task'].unique())}: {reason}"
        for (method, reason), rows in failed
    ]


def _splits(scores: pd.DataFrame) -> pd.Series:
    """The split of each score after a space; empty if there is only one."""
    if scores["split"].nunique() > 1:
        return " " + scores["split"]
    return pd.Series("", scores.index)


def _intervals(low: pd.Series, high: pd.Series) -> pd.Series:
    """Each interval after a space; empty without an interval."""
    texts = low.map(" [{:z.1f}, ".format) + high.map("{:z.1f}]".format)
    return texts.where(low.notna(), "")


def _pivot(scores: pd.DataFrame) -> pd.DataFrame:
    """Texts of scores by label and column."""
    texts = scores.drop_duplicates(["label", "column"])
    pivot = in_order(texts.set_index(["label", "column"])["text"], ["column"])
    return pivot.rename_axis(index=None, columns=None).fillna("")
