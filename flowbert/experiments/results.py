"""Files of the records of experiments, and results: a long table, intervals and verdicts."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from flowbert.arrays import Floats
from flowbert.data.text_files import user_path
from flowbert.errors import UserError, check_choice, warn
from flowbert.experiments.intervals import (
    METHOD,
    RESULT_COLUMNS,
    SETTINGS,
    main_aggregation,
    with_averages,
)
from flowbert.experiments.labels import name_rows
from flowbert.experiments.summary import Summary
from flowbert.experiments.verdict import find_verdicts
from flowbert.io import (
    as_json,
    load_tensors,
    read_json,
    save_tensors,
    write_atomically,
    write_json,
)
from flowbert.progress import tell
from flowbert.registry import import_object
from flowbert.tasks import Record, Task, load_scoring

_KIND = "record of an experiment"
_TASK = "task."  # prefix of arrays that a task scores with


class Results:
    """Scores of methods on tasks, from the records of experiments.

    Args:
        rows: Scores, with the keys of :data:`flowbert.experiments.intervals.RESULT_COLUMNS`.
        about: Metadata of the run: versions, device, settings, verdicts, differences.
        records: Records of the experiments, and of the reference rows of tables.

    Attributes:
        frame: One row per score (pandas), in long form. ``low`` and ``high`` are the ends of
            the 95% interval; the task ``average`` is the mean over the tasks of a split. Of several
            seeds there is a row each, and one without a seed: their mean, with an interval over
            pairs and seeds, and ``std``, the standard deviation over the seeds. Rows that a verdict
            compares have the ``gain`` over raw in units of tables, ``gain_low`` and ``gain_high``,
            the ends of its interval, and the ``choice``: ``use``, ``tied`` or empty.
        about: As the argument.
        records: As the argument.

    Example:
        >>> from flowbert import compare
        >>> results = compare(methods="raw,whitening", max_sentences=1000, bootstrap=0)
        >>> results.add_intervals(resamples=100, seed=1)
        >>> len(results.verdicts)
        1
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        about: Mapping[str, Any],
        records: Sequence[Record] = (),
    ) -> None:
        frame = pd.DataFrame(list(rows), columns=list(RESULT_COLUMNS))
        self.frame = frame.astype(RESULT_COLUMNS)
        self.about = dict(about)
        self.records = list(records)

    def __repr__(self) -> str:
        return repr(self.summary)

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()

    def plot(self, ax: Any = None) -> Any:
        """Draw the gains over raw with their 95% intervals, green for the row to use.

        Args:
            ax: Axes of matplotlib; None for new ones.

        Returns:
            The axes.
        """
        return self.summary.plot(ax)

    def to_markdown(self) -> str:
        """Scores by task with 95% intervals, in bold what the verdicts use; the verdicts below."""
        return self.summary.to_markdown()

    def to_latex(self) -> str:
        """The table of :meth:`to_markdown` in LaTeX, with the package booktabs."""
        text, is_used = self.summary.paper
        bold = np.where(is_used, "font-weight: bold", "")
        table = text.style.apply(lambda _: bold, axis=None).format(escape="latex")
        for axis in (0, 1):
            table.format_index(escape="latex", axis=axis)
        return str(table.to_latex(hrules=True, convert_css=True))

    @classmethod
    def of(cls, records: Sequence[Record], about: Mapping[str, Any]) -> Self:
        """Make results of records, see the class."""
        rows = [
            {
                **record.columns,
                "experiment": record.key,
                "choice": "",
                "metric": metric,
                "aggregation": aggregation,
                "value": value,
                "reason": record.reasons.get((metric, aggregation), ""),
            }
            for record in records
            for (metric, aggregation), value in record.scores.items()
        ]
        return cls(rows, about, records)

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks; results of a file have only what scoring needs.

        Raises:
            UserError: If the class of a task is not imported.
        """
        tasks = {each.settings["task"]["digest"]: each.task for each in self.records}
        return [
            task if isinstance(task, Task) else load_scoring(task)
            for task in tasks.values()
        ]

    @property
    def items(self) -> dict[Task, dict[str, Floats]]:
        """Items ``(K,)`` of the experiments on each task, by their keys."""
        return {
            task: {
                record.key: record.items
                for record in self.records
                if record.settings["task"]["digest"] == task.digest
            }
            for task in self.tasks
        }

    @property
    def sentences(self) -> list[str]:
        """The sentences whose vectors are in the records."""
        sampled = (each.sentences for each in self.records if each.sample is not None)
        return list(next(sampled, ()))

    @property
    def vectors(self) -> dict[str, torch.Tensor]:
        """Vectors ``(S, k)`` of :attr:`sentences` by the name of the method in tables."""
        vectors: dict[str, torch.Tensor] = {}
        sentences, names = self.sentences, self.method_names
        for record in self.records:
            if record.sample is not None and list(record.sentences) == sentences:
                vectors.setdefault(names[record.key], record.sample)
        return vectors

    @property
    def method_names(self) -> dict[str, str]:
        """Names of methods in tables by experiment."""
        methods = name_rows(self.frame)["method"]
        return dict(zip(self.frame["experiment"], methods, strict=True))

    @property
    def summary(self) -> Summary:
        """Tables of the results, notes on them, and the finding in one sentence."""
        return Summary(self.frame, self.about)

    @property
    def verdicts(self) -> list[str]:
        """Which row to use: a line for each encoder, and one for all encoders together."""
        return list(self.about.get("verdicts", []))

    @property
    def differences(self) -> dict[str, Any]:
        """By title: ``methods``, and ``cells``, the difference (row minus column) of any two."""
        return dict(self.about.get("differences", {}))

    def draws(self, resamples: int = 1000, seed: int = 0) -> Floats:
        """Scores, and their values on each resample, ``(n, 1 + R)``, for each row of the frame.

        Rows of one task share the resamples, so that any two can be compared. Values that are not
        resampled, such as averages, are NaN.

        Args:
            resamples: Number of resamples R; 0 gives one resample of NaN.
            seed: Seed.

        Raises:
            UserError: If the folder of records is missing.
        """
        missing = set(self.frame["experiment"]) - {"", *(r.key for r in self.records)}
        if missing:
            raise UserError(
                "received a file without its records; expected the folder .records of the same "
                "name next to it",
                argument="results",
            )
        drawn: dict[tuple[str, ...], Floats] = {}
        for task, items in self.items.items():
            finite = {key: row for key, row in items.items() if np.isfinite(row).all()}
            if resamples and finite:
                for metric, scores in task.resample(finite, resamples, seed).items():
                    for key, row in zip(finite, scores, strict=True):
                        drawn[key, *metric] = row
        undefined: Floats = np.full(max(resamples, 1), np.nan)
        keys = self.frame[["experiment", "metric", "aggregation"]].to_numpy()
        rows = [drawn.get(tuple(key), undefined) for key in keys]
        return np.column_stack([self.frame["value"], np.reshape(rows, (len(keys), -1))])

    def add_intervals(self, resamples: int = 1000, seed: int = 0) -> None:
        """Add intervals, averages over tasks and seeds, differences and verdicts, or replace them.

        Args:
            resamples: Number of bootstrap resamples; 0 for no intervals and no verdict.
            seed: Seed of the resamples.

        Raises:
            UserError: If the folder of records is missing.
        """
        is_measured = self.frame["experiment"] != ""
        self.frame = self.frame[is_measured].reset_index(drop=True)
        rows = self.frame.assign(draws=list(self.draws(resamples, seed)))
        rows, found = find_verdicts(with_averages(rows, self.tasks, seed), self.tasks)
        self.frame = rows[list(RESULT_COLUMNS)]
        bootstrap = {"resamples": resamples, "seed": seed}
        self.about = self.about | found | {"bootstrap": bootstrap}  # copies keep theirs
        self.about["used"] = self._used_settings()

    def _used_settings(self) -> list[dict[str, Any]]:
        """Methods that the verdicts of the first score use, with what commands are made of."""
        chosen = self.summary.chosen
        measured = chosen["task"] + chosen["metric"]
        is_first = measured.isin(measured.head(1))
        used = []
        for row in chosen[is_first].to_dict("records"):
            settings = next(
                record.settings
                for record in self.records
                if all(record.columns[name] == row[name] for name in METHOD)
            )
            names = ("method", "role", "corpus", "layers")
            known = {name: row[name] for name in names}
            kept = {name: settings[name] for name in ("map", "options")}
            used.append(known | kept)
        return used

    def score(
        self, method: str, task: str, metric: str = "spearman", **columns: Any
    ) -> float:
        """One score; with several seeds their mean, NaN if one of them is NaN.

        Args:
            method: Method.
            task: Task.
            metric: Metric.
            **columns: Values of other columns, required if there are several: ``split="dev"``,
                ``encoder``, ``layers``, ``pooling``, ``corpus``, ``seed``, ``aggregation``,
                ``role="reference"``.

        Raises:
            UserError: If the score is missing, or rows differ in more than the seed.
        """
        chosen = {"method": method, "task": task, "metric": metric}
        chosen |= {"aggregation": main_aggregation(self.frame, metric), **columns}
        rows = self.frame
        for name, value in chosen.items():
            check_choice("score", name, RESULT_COLUMNS)
            known = rows[name].astype(str)
            check_choice(name, str(value), dict.fromkeys(known))
            rows = rows[known == str(value)]
        several = [x for x in (*SETTINGS, "split") if rows[x].nunique() > 1]
        if several:
            values = (f"{name} ({', '.join(rows[name].unique())})" for name in several)
            raise UserError(
                f"received {method} on {task}; expected one {' and one '.join(values)}",
                argument="score",
            )
        return float(rows["value"].mean(skipna=False))

    def save(self, path: str | Path) -> None:
        """Write scores and verdicts, the table as .csv, and a folder with the records.

        Args:
            path: File ending in .json.
        """
        path, folder = Path(path), records_folder(path)
        for each in self.records:
            if not record_file(folder, each.key).is_file():
                write_record(folder, each)
        frame = self.frame
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        content = {
            "rows": rows,
            "record": self.about,
            "records": [each.key for each in self.records],
        }
        write_json(path, as_json(content))
        with write_atomically(path.with_suffix(".csv")) as temporary:
            frame.to_csv(temporary, index=False)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read files of :meth:`save`.

        Without the folder of records, the results have scores but no records.

        Raises:
            UserError: If a file is missing, damaged or of another version.
        """
        path, folder = user_path(path), records_folder(path)
        schema = {"rows": list, "record": dict, "records": (list, [])}
        content = read_json(path, schema)
        if any(RESULT_COLUMNS.keys() - row.keys() for row in content["rows"]):
            raise UserError(
                f"{path}: written by another version of flowbert; run it again"
            )
        records = []
        if folder.is_dir():
            records = [read_record(record_file(folder, x)) for x in content["records"]]
        return cls(content["rows"], content["record"], records)


def write_page(path: str | Path, analyze: Callable[[], None] | None = None) -> None:
    """Write the page of a run or a file, unless ``FLOWBERT_REPORT`` is 0.

    Errors become warnings, because the results are saved already.

    Args:
        path: A run folder, or a file of results or of an analysis.
        analyze: Function that first writes an analysis for the page.
    """
    if os.environ.get("FLOWBERT_REPORT") == "0":
        return
    tell("writing the page")
    try:
        if analyze is not None:
            analyze()
        import_object("flowbert.extras.report.report")(path)
    except Exception as error:
        warn(f"{path}: the page was not written ({error}); the results are saved")


def records_folder(results: str | Path) -> Path:
    """Folder of the records of a results file, an absolute path."""
    return user_path(results).absolute().with_suffix(".records")


def record_file(folder: Path, key: str) -> Path:
    """File of a record."""
    return folder / f"{key}.safetensors"


def write_record(folder: Path, record: Record) -> None:
    """Write a record into a folder."""
    task = record.task.state() if isinstance(record.task, Task) else dict(record.task)
    arrays = [name for name in task if isinstance(task[name], np.ndarray)]
    tensors: dict[str, Any] = {f"{_TASK}{name}": task.pop(name) for name in arrays}
    tensors["items"] = record.items
    if record.sample is not None:
        tensors["sample"] = record.sample
    scores = [
        [*metric, as_json(value), record.reasons.get(metric, "")]
        for metric, value in record.scores.items()
    ]
    save_tensors(
        record_file(folder, record.key),
        _KIND,
        tensors,
        key=record.key,
        columns=as_json(record.columns),
        scores=scores,
        invalid_reason=record.invalid_reason,
        warnings=list(record.warnings),
        settings=record.settings,
        task=as_json(task),
        sentences=list(record.sentences),
    )


def read_record(path: Path) -> Record:
    """Read a file of :func:`write_record`.

    Raises:
        UserError: If it is missing or damaged.
    """
    tensors, content = load_tensors(path, _KIND)
    rows = content.pop("scores")
    scores = {(m, a): np.nan if value is None else value for m, a, value, _ in rows}
    reasons = {(m, a): reason for m, a, _, reason in rows if reason}
    items, sample = tensors.pop("items").numpy(), tensors.pop("sample", None)
    arrays = {
        name.removeprefix(_TASK): tensor.numpy() for name, tensor in tensors.items()
    }
    task = content.pop("task") | arrays
    return Record(items, scores, reasons, task=task, sample=sample, **content)
