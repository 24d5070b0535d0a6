"""Content of a page: results, analysis, logged metrics and options, from memory or files."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from flowbert.data.text_files import read_yaml
from flowbert.errors import UserError
from flowbert.experiments.next_commands import next_commands
from flowbert.experiments.results import Results
from flowbert.experiments.summary import Summary
from flowbert.extras.analysis import Analysis
from flowbert.extras.analysis.analyze import analyze_results
from flowbert.tasks import AVERAGE
from flowbert.tasks.measures import SPACE_METRICS

ANALYSIS_SUFFIX = ".analysis.json"
_NOT_SHOWN = (
    "verdicts",
    "differences",
    "published",
    "time",
    "warnings",
    "gains",
)
_OTHER_TASKS = (
    "The runs have different tasks: there are no averages, and no measures of vectors."
)
_UNFINISHED = "There are no results yet: the run is unfinished or was interrupted."


@dataclass(frozen=True, eq=False)
class PageContent:
    """Content of a page; a missing part is empty.

    Attributes:
        name: Its name on the page.
        frame: Rows of results; those of several runs have a column ``run``. Empty for a
            reproduction, whose scores are in the record.
        record: What the results say of the run.
        options: Its options and further settings of the results; empty for several runs.
        metrics: What was logged, by step.
        analysis: The analysis of the embeddings.
        command: How to run it again, or to resume it.
        next: Commands that use its model, each after the word for the program.
        settings: Of several runs, those that differ, as texts: a column per run.
    """

    name: str
    frame: pd.DataFrame
    record: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    metrics: pd.DataFrame = field(default_factory=lambda: read_metrics([]))
    analysis: Analysis = field(default_factory=lambda: Analysis({}, {}))
    command: str = ""
    next: Sequence[str] = ()
    settings: pd.DataFrame = field(default_factory=pd.DataFrame)

    @cached_property
    def summary(self) -> Summary:
        """Tables of the results."""
        return Summary(self.frame, self.record)


def read_content(path: Path, analysis: Analysis | None = None) -> PageContent:
    """Read a run folder, a file of results, or one of an analysis.

    What others write into a run folder is read, too: the options of the command line, and what
    Lightning logged, before a resume as well.

    Args:
        path: The folder or file.
        analysis: The analysis of the embeddings; None for that of the folder or file, or of the
            vectors that the results keep.

    Raises:
        UserError: If it is neither, or damaged.
    """
    file = path / "results.json" if path.is_dir() else path
    config, measured = path / "config.yaml", path / "analysis.json"
    results = Results([], {})
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
    if analysis is None and measured.is_file():
        analysis = Analysis.from_json(measured)
    elif analysis is None and results.vectors:
        analysis = analyze_results(results)
    options: dict[str, Any] = {}
    command = ""
    if config.is_file():
        options = dict(read_yaml(config))
        words = ["--config", str(config)]
        if not file.is_file() and (path / "checkpoints" / "last.ckpt").is_file():
            words = ["--resume", str(path)]
        command = shlex.join(["flowbert", "fit", *words])
    # metrics-1.csv, metrics-2.csv, ... were written before the run was resumed.
    logs = sorted(
        path.glob("metrics[-.]*csv"),
        key=lambda log: (log.stem == "metrics", len(log.name), log.name),
    )
    is_reproduction = "published" in results.about
    options |= {
        name: value for name, value in results.about.items() if name not in _NOT_SHOWN
    }
    return PageContent(
        path.name,
        results.frame[:0] if is_reproduction else results.frame,
        results.about,
        options,
        read_metrics(logs),
        analysis or Analysis({}, {}),
        command,
        next_commands(path, results.about),
    )


def join_contents(runs: Mapping[str, PageContent]) -> PageContent:
    """The results of several runs by name, and the settings that differ."""
    frames = [run.frame.assign(run=name) for name, run in runs.items()]
    options = {x: pd.json_normalize(run.options).iloc[0] for x, run in runs.items()}
    settings = pd.DataFrame(options, dtype=object).fillna("").astype(str)
    verdicts = [
        "Intervals are those of each run. For differences, compare the methods in one run."
    ]
    warned = [
        f"{name}: {each}"
        for name, run in runs.items()
        for each in run.record.get("warnings", [])
    ]
    frame = pd.concat(frames, ignore_index=True)
    is_average = frame["task"] == AVERAGE
    measured = frame[~is_average].groupby("run")[["split", "task", "pairs"]]
    tasks = {frozenset(rows.itertuples(index=False, name=None)) for _, rows in measured}
    if len(tasks) > 1:
        frame = frame[~is_average & ~frame["metric"].isin(SPACE_METRICS)]
        verdicts.append(_OTHER_TASKS)
    unfinished = [name for name, run in runs.items() if run.frame.empty]
    if unfinished:
        verdicts.append(f"Without results: {', '.join(unfinished)}")
    return PageContent(
        f"{len(runs)} runs",
        frame,
        {"verdicts": verdicts, "warnings": warned},
        settings=settings[settings.nunique(axis=1) > 1],
    )


def read_metrics(logs: Sequence[Path]) -> pd.DataFrame:
    """Everything that a run logged, by step (the number of steps done).

    Args:
        logs: Lightning's .csv files, in order; where steps were done again, later values win.

    Returns:
        A row per step and a column per name.
    """
    if not logs:
        return pd.DataFrame(index=pd.Index([], name="step"))
    rows = pd.concat([pd.read_csv(log) for log in logs], ignore_index=True)
    rows = rows.apply(pd.to_numeric, errors="coerce")
    # Lightning logs the number of the last step, counted from 0.
    return rows.assign(step=rows["step"] + 1).groupby("step").last()
