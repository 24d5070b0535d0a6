"""Results as people read them: the finding, rows by encoder, tables, notes, next commands."""

import math
import re
import shlex
from ast import literal_eval
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from flowbert.data.scored_pairs import SAMPLE_TASK
from flowbert.experiments.intervals import (
    ENCODER_PARTS,
    GAIN_KEYS,
    LISTED,
    label_parts,
    labels,
    main_aggregation,
    settings_of,
)
from flowbert.experiments.plan import ADVISED, UNMAPPED
from flowbert.experiments.results import Results
from flowbert.maps import is_map
from flowbert.tasks import AGGREGATIONS, AVERAGE
from flowbert.tasks.measures import SPACE_METRICS
from flowbert.text_tables import Table, make_table, print_lines, print_table

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
            f"{better['name'].iloc[0]} gains {points} points on {where}; no method is "
            "significantly better than it"
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


def summarize(frame: pd.DataFrame) -> pd.DataFrame:
    """Results by label: the mean over the seeds, x 100 but for those of the vectors' space.

    Args:
        frame: Rows of results.

    Returns:
        A row per label, split, task, metric and aggregation: value, std (of several seeds), low
        and high (ends of the 95% interval), and column, its place in a table.
    """
    keys = ["label", "split", "task", "metric", "aggregation"]
    grouped = frame.assign(label=labels(frame)).groupby(keys, sort=False)
    scores = grouped.agg(
        value=("value", lambda values: values.mean(skipna=False)),
        # Of several seeds the last row is their mean.
        std=("std", lambda values: values.iloc[-1]),
        low=("low", lambda values: values.iloc[-1]),
        high=("high", lambda values: values.iloc[-1]),
    ).reset_index()
    scaled = ~scores["metric"].isin(SPACE_METRICS)
    scores.loc[scaled, ["value", "std", "low", "high"]] *= 100
    scores["column"] = [_column(score) for score in scores.itertuples()]
    if scores["split"].nunique() > 1:
        scores["column"] += " " + scores["split"]
    return scores


def _column(score: Any) -> str:
    if score.metric in SPACE_METRICS:
        return str(score.metric).replace("_", " ")
    if score.metric != "spearman":
        return f"{score.task} {score.metric}"
    if score.aggregation not in AGGREGATIONS:
        return f"{score.task} {score.aggregation}"
    return str(score.task)


def mean_geometry(scores: pd.DataFrame) -> pd.DataFrame:
    """Metrics of the vectors' space by label, the mean over the tasks; NaN if one is."""
    geometry = scores[scores["metric"].isin(SPACE_METRICS)]
    keys = ["label", "split", "metric", "column"]
    means = geometry.groupby(keys, sort=False)["value"].agg(
        lambda values: values.mean(skipna=False)
    )
    return means.reset_index()


def result_tables(frame: pd.DataFrame) -> list[Table]:
    """Folded tables of what the first table of a page leaves out.

    Spearman under other aggregations, unless all scores are equal; other metrics.

    Args:
        frame: Rows of results.
    """
    scores = summarize(frame)
    is_space = scores["metric"].isin(SPACE_METRICS)
    geometry = mean_geometry(scores).assign(table="Measures of the vectors")
    known = scores["aggregation"].map(AGGREGATIONS).fillna("each subset")
    names = ("Spearman x 100 (" + known + ")").where(
        scores["metric"] == "spearman", "Other metrics"
    )
    shown = pd.concat([scores.assign(table=names)[~is_space], geometry])
    main = f"Spearman x 100 ({AGGREGATIONS[main_aggregation(frame)]})"
    tables: list[Table] = []
    seen: list[pd.DataFrame] = []
    groups = dict(iter(shown.groupby("table", sort=False)))
    for name in sorted(groups, key=lambda name: name != main):
        texts = [_cell(score) for score in groups[name].itertuples()]
        table = make_table(name, groups[name].assign(text=texts), folded=True)
        values = table.text.map(lambda cell: cell.partition("\n")[0])
        if name != main and not any(map(values.equals, seen)):
            tables.append(table)
        seen.append(values)
    return tables


def _cell(score: Any) -> str:
    """A score with its interval, and its deviation over the seeds, in a second line."""
    parts = []
    if math.isfinite(score.low):
        parts.append(f"[{score.low:z.1f}, {score.high:z.1f}]")
    if math.isfinite(score.std):
        parts.append(f"±{score.std:.2f}")
    return f"{score.value:z.2f}\n{' '.join(parts)}".rstrip()


def paper_table(results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Spearman x 100 by label and task with intervals; ``use`` in the cells of the verdicts."""
    frame, keys = results.frame, ["label", "split", "task"]
    scores = summarize(frame)
    main = scores["aggregation"] == main_aggregation(frame)
    scores = scores[main & scores["metric"].eq("spearman")]
    gains = pd.DataFrame(results.about.get("gains", []), columns=[*GAIN_KEYS, "choice"])
    chosen = frame.assign(label=labels(frame)).merge(gains, on=GAIN_KEYS)
    used = chosen[chosen["choice"] == "use"].set_index(keys).index
    cells = [_cell(score).replace("\n", " ") for score in scores.itertuples()]
    choices = ["use" if key in used else "" for key in scores.set_index(keys).index]
    text, choice = (
        make_table("", scores.assign(text=each)).text for each in (cells, choices)
    )
    return text, choice


def to_markdown(results: Results) -> str:
    """The table of :func:`paper_table`, in bold what the verdicts use."""
    text, choices = paper_table(results)
    text = text.mask(choices == "use", "**" + text + "**")
    lines = [["", *text], ["---"] * (1 + text.shape[1]), *text.reset_index().values]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def styled(results: Results) -> Any:
    """The same as a Styler of pandas."""
    text, choices = paper_table(results)
    return text.style.apply(
        lambda _: choices.replace("use", "font-weight: bold"), axis=None
    )


_TARGET = "target (the sentences of each task)"


def notes(frame: pd.DataFrame) -> list[str]:
    """Notes on shared settings, symbols of the tables, and missing scores.

    Args:
        frame: Rows of results.
    """
    settings = settings_of(frame)
    settings["corpus"] = settings["corpus"].replace("target", _TARGET)
    shared = [
        f"{name} {settings[name].dropna().iloc[0]}"
        for name in settings
        if settings[name].nunique() == 1
    ]
    sample = f"{SAMPLE_TASK} is generated text: its scores say nothing about real data"
    lower = ", ".join(
        name.replace("_", " ")
        for name, metric in SPACE_METRICS.items()
        if metric.sign == -1
    )
    geometry = (
        f"{lower}: mean over the tasks; lower is better, one at the cost of the other"
    )
    main = main_aggregation(frame)
    of_subsets = ~frame["aggregation"].isin(AGGREGATIONS)
    of_subsets &= frame["metric"] == "spearman"
    shown = {
        ", ".join(shared): True,
        f"Spearman: {AGGREGATIONS[main]}": main == "all" or of_subsets.any(),
        "±: standard deviation over the seeds": frame["std"].notna().any(),
        geometry: frame["metric"].isin(SPACE_METRICS).any(),
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


def next_commands(path: Path, record: Mapping[str, Any]) -> list[str]:
    """Commands that use what the verdicts of the first task choose; none without a verdict.

    Args:
        path: A run folder, whose model encodes and is exported if it is chosen; or a file of
            results. What has no model is fitted, or encodes as it is.
        record: What its results say of the run.

    Returns:
        Commands after the word for the program.
    """
    gains = record.get("gains", [])
    deciding = [row for row in gains if row["task"] == gains[0]["task"]]
    best = [row for row in deciding if row["choice"] == "use"]
    commands = list(dict.fromkeys(filter(None, map(_command, best))))
    if not best or not (path / "model").is_dir():
        return commands
    method = best[0]["method"].replace(UNMAPPED, "raw")
    first, _, mapped = method.partition("+")
    if (path / "model" / "encoder").is_dir():  # a trained encoder, without a map
        if is_map(first):
            return commands
        if mapped:
            words = ["--method", mapped, "--encoder.path", path, "--corpus", "FILE"]
            return [shlex.join(map(str, ["fit", *words]))]
        which = []
    elif best[0]["method"] == "raw" and any(x["method"] == UNMAPPED for x in deciding):
        return commands  # the model reads the network otherwise
    else:
        which = ["--method", method]
    encode = ["encode", "--model", path, *which, "--input", "FILE", "--output"]
    export = ["export", path, *which, "--to", "FOLDER"]
    return [shlex.join(map(str, words)) for words in ([*encode, "vectors.npy"], export)]


_OF_NO_NETWORK = ("", "none", "own", "words")  # layers and poolings that are no options


def _command(row: Mapping[str, Any]) -> str:
    """The command that fits the map of a row of ``gains``, or encodes without one.

    Empty for other methods than maps, and for views.
    """
    method = row["method"].removeprefix(f"{ADVISED}: ")
    is_plain = method in ("raw", UNMAPPED)
    is_views = " | " in row["layers"]
    if row["supervised"] or is_views or not (is_plain or is_map(method)):
        return ""
    words = ["encode"] if is_plain else ["fit", "--method", method]
    match = re.match(ENCODER_PARTS, row["encoder"])
    assert match is not None
    parts = match.groupdict()
    words += ["--encoder.path", parts.pop("encoder")]
    for name in ("layers", "pooling") if method != "raw" else ():
        if row[name] not in _OF_NO_NETWORK:
            words += [f"--encoder.{name}", row[name]]
    for name, text in parts.items():
        words += [f"--encoder.{name}", literal_eval(text)] if text else []
    if is_plain:
        return shlex.join([*words, "--input", "FILE", "--output", "vectors.npy"])
    return shlex.join([*words, "--corpus", "FILE", "--run_dir", "my-model"])
