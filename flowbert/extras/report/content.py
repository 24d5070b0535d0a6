"""Content of a page: the files of a run, and joined frames of several runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from flowbert.data.text_files import read_yaml
from flowbert.errors import UserError
from flowbert.experiments.intervals import GAIN
from flowbert.experiments.results import Results
from flowbert.extras.analysis import Analysis
from flowbert.extras.analysis.analyze import analyze_results
from flowbert.tasks import AVERAGE
from flowbert.tasks.measures import SPACE_METRICS

ANALYSIS_SUFFIX = ".analysis.json"
_NOT_OPTIONS = (
    *("verdicts", "lead", "differences", "published", "time", "warnings", "used"),
)
_UNFINISHED = "There are no results yet: the run is unfinished or was interrupted."
_OWN_INTERVALS = (
    "Intervals are those of each run. For differences, compare the methods in one run."
)
_OTHER_TASKS = (
    "The runs have different tasks: there are no averages, and no measures of vectors."
)


@dataclass(frozen=True, eq=False)
class RunFiles:
    """The files of a run; a missing one is empty.

    Attributes:
        name: Name of the run on the page.
        results: Rows of results; those of several runs have a column ``run``.
        about: Metadata of the results.
        analysis: Frames of the measures, and their setting.
        metrics: Logged values, by step.
        options: Options of the run, and other settings of the results.
        settings: Settings that differ between several runs, as texts: a column per run.
    """

    name: str
    results: pd.DataFrame
    about: Mapping[str, Any] = field(default_factory=dict)
    analysis: Analysis = field(default_factory=lambda: Analysis({}, {}))
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: pd.DataFrame = field(default_factory=pd.DataFrame)


def read_run_files(path: Path, *, analyzed: bool = True) -> RunFiles:
    """Read a run folder, a file of results, or one of an analysis.

    Args:
        path: The folder or file.
        analyzed: Whether to read the analysis, or make it of the vectors in the results.

    Raises:
        UserError: If it is neither, or damaged.
    """
    file = path / "results.json" if path.is_dir() else path
    config, measured = path / "config.yaml", path / "analysis.json"
    results, analysis = Results([], {}), Analysis({}, {})
    if path.name.endswith(ANALYSIS_SUFFIX):
        measured = path
    elif file.is_file():
        results = Results.load(file)
    elif config.is_file():
        results.about["verdicts"] = [_UNFINISHED]
    else:
        raise UserError(
            argument="runs",
            received=path,
            expected="a run folder, or a file of results or of an analysis",
        )
    if analyzed and measured.is_file():
        analysis = Analysis.from_json(measured)
    elif analyzed and results.vectors:
        analysis = analyze_results(results)
    about = results.about
    options = dict(read_yaml(config)) if config.is_file() else {}
    options |= {name: about[name] for name in about if name not in _NOT_OPTIONS}
    metrics = read_metrics(path)
    return RunFiles(path.name, results.frame, about, analysis, metrics, options)


def join_runs(runs: Mapping[str, RunFiles]) -> RunFiles:
    """The results of several runs by name, and the settings that differ."""
    frame = pd.concat(
        [run.results.assign(run=name, choice="") for name, run in runs.items()],
        ignore_index=True,
    )
    frame[GAIN] = math.nan  # of a verdict over one run
    lines = [_OWN_INTERVALS]
    is_average = frame["task"] == AVERAGE
    measured = frame[~is_average].groupby("run")[["split", "task", "pairs"]]
    tasks = {frozenset(rows.itertuples(index=False, name=None)) for _, rows in measured}
    if len(tasks) > 1:
        frame = frame[~is_average & ~frame["metric"].isin(SPACE_METRICS)]
        lines.append(_OTHER_TASKS)
    warned = [
        f"{name}: {warning}"
        for name, run in runs.items()
        for warning in run.about.get("warnings", [])
    ]
    options = {x: pd.json_normalize(run.options).iloc[0] for x, run in runs.items()}
    settings = pd.DataFrame(options, dtype=object).fillna("").astype(str)
    return RunFiles(
        f"{len(runs)} runs",
        frame,
        {"verdicts": lines, "warnings": warned},
        settings=settings[settings.nunique(axis=1) > 1],
    )


def read_metrics(folder: Path) -> pd.DataFrame:
    """Everything that a run logged: a row per number of steps, a column per name.

    Before each resume, Lightning's ``metrics.csv`` is renamed to ``metrics-1.csv`` and so on. If
    steps were repeated, later values replace earlier ones.
    """
    logs: Sequence[Path] = sorted(
        folder.glob("metrics[-.]*csv"),
        key=lambda log: (log.stem == "metrics", len(log.name), log.name),
    )
    if not logs:
        return pd.DataFrame(index=pd.Index([], name="step"))
    rows = pd.concat([pd.read_csv(log) for log in logs], ignore_index=True)
    rows = rows.apply(pd.to_numeric, errors="coerce")
    # Lightning logs the number of the last step, counted from 0.
    return rows.assign(step=rows["step"] + 1).groupby("step").last()
