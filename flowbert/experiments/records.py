"""Records of experiments in files: one file each, with all settings, versions, device, threads."""

import platform
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import flowbert
from flowbert.data.text_files import user_path
from flowbert.errors import warn
from flowbert.experiments.plan import Experiment
from flowbert.io import as_json, digest_stream, load_tensors, save_tensors
from flowbert.tasks import Record, Task
from flowbert.threads import choose_threads

_LIBRARIES = (
    "torch",
    "pytorch-lightning",
    "transformers",
    "tokenizers",
    "numpy",
    "scipy",
    "scikit-learn",
)
_KIND = "record of an experiment"
_TASK = "task."  # prefix of arrays that a task scores with


@cache
def source_digest() -> str:
    """Digest of the package's source files at the first call in this process."""
    root = Path(flowbert.__file__).parent
    files = sorted(root.rglob("*.py"))
    parts = ([str(file.relative_to(root)), file.read_bytes()] for file in files)
    return digest_stream(part for pair in parts for part in pair)


def environment(device: str | torch.device) -> dict[str, Any]:
    """Versions, source, device and threads, by name."""
    device = torch.device(device)
    on_gpu = device.type == "cuda"
    return {
        "versions": {
            "flowbert": flowbert.__version__,
            "python": platform.python_version(),
            **{library: version(library) for library in _LIBRARIES},
        },
        "source": source_digest(),
        "device": torch.cuda.get_device_name(device) if on_gpu else platform.machine(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "platform": platform.platform(),
        "threads": choose_threads(),
    }


def changed_entries(saved: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Names of what differs between two environments, with single versions by library.

    Example:
        >>> changed_entries({"versions": {"torch": "2"}}, {"versions": {"torch": "3"}})
        ['torch']
    """
    names = []
    for name in dict.fromkeys([*saved, *here]):
        one, other = saved.get(name), here.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            names += changed_entries(one, other)
        elif one != other:
            names.append(name)
    return names


def records_folder(results: str | Path) -> Path:
    """Folder of the records of a results file, an absolute path."""
    return user_path(results).absolute().with_suffix(".records")


def record_file(folder: Path, key: str) -> Path:
    """File of a record."""
    return folder / f"{key}.safetensors"


def write_record(folder: Path, record: Record) -> None:
    """Write a record into a folder; one of the same experiment is replaced."""
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
        environment=as_json(record.environment),
        task=as_json(task),
        sentences=list(record.sentences),
    )


def read_record(path: Path) -> Record:
    """Read a file of :func:`write_record`.

    Raises:
        UserError: If it is missing, damaged or holds something else.
    """
    tensors, content = load_tensors(path, _KIND)
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
    folder: Path,
    experiments: Sequence[Experiment],
    environment: Mapping[str, Any],
    sampled: Collection[str],
) -> dict[str, Record]:
    """Records by key, of experiments finished with the same settings, code, device and so on.

    Warns of those that were computed in another environment.

    Args:
        folder: Folder of the records.
        experiments: The experiments.
        environment: Versions, source, device and threads of this process.
        sampled: Keys of experiments whose record needs a sample of vectors.
    """
    records: dict[str, Record] = {}
    changed: dict[str, None] = {}
    recomputed = 0
    for experiment in experiments:
        file = record_file(folder, experiment.key)
        record = read_record(file) if file.is_file() else None
        if record is None or record.settings != experiment.settings:
            continue
        differing = changed_entries(record.environment, environment)
        changed |= dict.fromkeys(differing)
        recomputed += bool(differing)
        is_sampled = record.sample is not None or record.invalid_reason is not None
        if not differing and (is_sampled or experiment.key not in sampled):
            records[experiment.key] = record
            for message in record.warnings:
                warn(message, 3)
    if recomputed:
        warn(
            f"{folder}: {recomputed} finished experiments are recomputed, because they were "
            f"computed with another {', '.join(changed)}",
            3,
        )
    return records
