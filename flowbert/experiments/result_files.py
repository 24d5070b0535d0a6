"""Files of results: scores and settings as JSON, the table as CSV, arrays in safetensors."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from flowbert.errors import UserError
from flowbert.experiments.columns import RESULT_COLUMNS
from flowbert.io import (
    as_json,
    digest,
    load_tensors,
    read_json,
    save_tensors,
    write_atomically,
    write_json,
)
from flowbert.tasks import Record

_KIND = "arrays of results"


def write_results(
    path: Path,
    frame: pd.DataFrame,
    record: Mapping[str, Any],
    records: Sequence[Record],
    tasks: Sequence[Mapping[str, Any]],
    sentences: Sequence[str],
) -> None:
    """Write the parts of results; the arguments are those of :class:`flowbert.Results`."""
    frame = frame.astype({"seed": "Int64"})
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    content = {"rows": rows, "record": record, "arrays": bool(records)}
    content = as_json(content)
    if records:
        _write_arrays(_arrays_of(path), digest(content), records, tasks, sentences)
    write_json(path, content)
    with write_atomically(path.with_suffix(".csv")) as temporary:
        frame.to_csv(temporary, index=False)


def read_results(path: Path) -> dict[str, Any]:
    """Arguments of :class:`flowbert.Results` from a file; no records without its arrays.

    Raises:
        UserError: If a file is missing, damaged, holds something else, or is of other results.
    """
    schema = {"rows": list, "record": dict, "arrays": (bool, False)}
    content = read_json(path, schema)
    own = digest(content)
    _check_rows(path, content["rows"])
    verdicts = content["record"].get("verdicts", [])
    if not isinstance(verdicts, list) or not all(
        isinstance(line, str) for line in verdicts
    ):
        raise UserError(f"{path}: verdicts are {verdicts!r}; expected lines")
    parts = {"rows": content["rows"], "record": content["record"]}
    arrays = _arrays_of(path)
    if not content["arrays"] or not arrays.is_file():
        return parts
    tensors, metadata = load_tensors(arrays, _KIND)
    if metadata["results"] != own:
        raise UserError(f"{arrays}: is of other results than {path}")
    return parts | {
        "records": list(_read_records(tensors, metadata, content)),
        "tasks": list(_read_tasks(tensors, metadata["tasks"])),
        "sentences": metadata["sentences"],
    }


def _check_rows(path: Path, rows: Sequence[Any]) -> None:
    """Check columns and types of rows, and take NaN for missing numbers."""
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or set(row) != set(RESULT_COLUMNS):
            raise UserError(
                f"{path}: row {number}: expected the columns {', '.join(RESULT_COLUMNS)}"
            )
        for name, kind in RESULT_COLUMNS.items():
            if not isinstance(row[name], kind):
                raise UserError(f"{path}: row {number}: {name} is {row[name]!r}")
            if kind == float | None and row[name] is None:
                row[name] = math.nan


def _arrays_of(path: Path) -> Path:
    return path.with_suffix(".safetensors")


def _write_arrays(
    path: Path,
    results: str,
    records: Sequence[Record],
    tasks: Sequence[Mapping[str, Any]],
    sentences: Sequence[str],
) -> None:
    """Write items, samples of vectors, and what tasks score with."""
    tensors: dict[str, Any] = {}
    states = [dict(task) for task in tasks]
    for number, state in enumerate(states):
        for name in [name for name in state if isinstance(state[name], np.ndarray)]:
            tensors[f"task {number} {name}"] = state.pop(name)
    entries = []
    for number, record in enumerate(records):
        tensors[f"items {number}"] = record.items
        if record.sample is not None:
            tensors[f"sample {number}"] = record.sample
        entry = {
            "key": record.key,
            "columns": as_json(record.columns),
            "task": record.settings["task"]["digest"],
            "invalid_reason": record.invalid_reason,
        }
        entries.append(entry)
    save_tensors(
        path,
        _KIND,
        tensors,
        results=results,
        tasks=as_json(states),
        records=entries,
        sentences=list(sentences),
        environment=as_json(records[0].environment),
    )


def _read_records(
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, Any],
    content: Mapping[str, Any],
) -> Iterable[Record]:
    """The records of a file, from its arrays, rows and settings."""
    by_key = defaultdict(list)
    for row in content["rows"]:
        by_key[row["experiment"]].append(row)
    shared = content["record"]["config"]
    for number, entry in enumerate(metadata["records"]):
        key, columns = entry["key"], entry["columns"]
        own = [
            row
            for row in by_key[key]
            if all(row[name] == value for name, value in columns.items())
        ]
        metrics = [(row["metric"], row["aggregation"]) for row in own]
        scores = dict(zip(metrics, (row["value"] for row in own), strict=True))
        reasons = dict(zip(metrics, (row["reason"] for row in own), strict=True))
        yield Record(
            tensors[f"items {number}"].numpy(),
            scores,
            {metric: why for metric, why in reasons.items() if why},
            key=key,
            columns=columns,
            settings=_settings_of(key, entry["task"], shared),
            environment=metadata["environment"],
            invalid_reason=entry["invalid_reason"],
            sample=tensors.get(f"sample {number}"),
        )


def _read_tasks(
    tensors: Mapping[str, torch.Tensor], states: Sequence[Mapping[str, Any]]
) -> Iterable[dict[str, Any]]:
    """The states of tasks with their arrays."""
    for number, state in enumerate(states):
        prefix = f"task {number} "
        arrays = {
            name.removeprefix(prefix): tensor.numpy()
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }
        yield {**state, **arrays}


def shared_settings(records: Sequence[Record]) -> dict[str, Any]:
    """The settings of all records; what they share stands once, by its digest."""
    shared: dict[str, Any] = {
        name: {} for name in ("encoders", "methods", "corpora", "tasks", "experiments")
    }
    for record in records:
        settings = record.settings
        task = settings["task"]
        shared["tasks"][task["digest"]] = task
        if "encoder" not in settings:  # no experiment, but in the same table
            continue
        encoder, method = digest(settings["encoder"]), settings["method"]
        corpus = settings["corpus"]
        shared["encoders"][encoder] = settings["encoder"]
        shared["methods"][method["name"]] = method
        if corpus is not None:
            shared["corpora"][corpus["digest"]] = corpus
        shared["experiments"][record.key] = {
            "encoder": encoder,
            "method": method["name"],
            "corpus": None if corpus is None else corpus["digest"],
            "labels": settings["labels"],
            "seed": settings["seed"],
            "task": task["digest"],
        }
    return shared


def _settings_of(key: str, task: str, shared: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a record among those of all."""
    settings = {"task": shared["tasks"][task]}
    if key not in shared["experiments"]:
        return settings
    own = shared["experiments"][key]
    corpus = own["corpus"]
    return {
        "encoder": shared["encoders"][own["encoder"]],
        "method": shared["methods"][own["method"]],
        "corpus": None if corpus is None else shared["corpora"][corpus],
        "labels": own["labels"],
        "seed": own["seed"],
        **settings,
    }
