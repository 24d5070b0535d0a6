"""Records of experiments in files: one file each, with all settings."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flowbert.data.text_files import user_path
from flowbert.errors import UserError, warn
from flowbert.experiments.plan import Experiment
from flowbert.io import as_json, load_tensors, save_tensors
from flowbert.tasks import Record, Task

_KIND = "record of an experiment"
_TASK = "task."  # prefix of arrays that a task scores with


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
        UserError: If it is missing, damaged or that of another experiment.
    """
    tensors, content = load_tensors(path, _KIND)
    if content["key"] != path.stem:
        raise UserError(f"{path}: is of another experiment, {content['key']}")
    scores, reasons = {}, {}
    for metric, aggregation, value, reason in content.pop("scores"):
        scores[metric, aggregation] = np.nan if value is None else value
        if reason:
            reasons[metric, aggregation] = reason
    items, sample = tensors.pop("items").numpy(), tensors.pop("sample", None)
    arrays = {
        name.removeprefix(_TASK): tensor.numpy() for name, tensor in tensors.items()
    }
    task = content.pop("task") | arrays
    return Record(items, scores, reasons, task=task, sample=sample, **content)


def read_finished(
    folder: Path, experiments: Sequence[Experiment], sampled: Collection[str]
) -> dict[str, Record]:
    """Records of finished experiments by key.

    Args:
        folder: Folder of the records.
        experiments: The experiments.
        sampled: Keys of experiments whose record needs a sample of vectors.
    """
    records: dict[str, Record] = {}
    for experiment in experiments:
        file = record_file(folder, experiment.key)
        if not file.is_file():
            continue
        record = read_record(file)
        is_sampled = record.sample is not None or record.invalid_reason is not None
        if is_sampled or experiment.key not in sampled:
            records[experiment.key] = record
            for message in record.warnings:
                warn(message, 3)
    return records
