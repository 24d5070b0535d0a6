"""Checkpoints given by the user: checked before anything is encoded, and never in silent conflict with the options."""

import warnings
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import is_zipfile

import torch
from jsonargparse import Namespace

from flowbert.errors import FlowbertWarning, UserError
from flowbert.modules import EmbeddingModule
from flowbert.training import read_metrics
from flowbert.training.metrics_log import METRICS


def read_checkpoint(path: str) -> dict[str, Any]:
    """Content of a checkpoint, tensors and plain types only.

    Raises:
        UserError: If the file is missing or not a checkpoint of flowbert.
    """
    if not Path(path).is_file():
        raise UserError(f"--ckpt_path: no file {path}; allowed: a checkpoint, such as RUN_DIR/checkpoints/last.ckpt")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True) if is_zipfile(path) else None
    except UnpicklingError as error:  # torch says so in a page, which ends by telling how to run foreign code
        raise UserError(
            f"--ckpt_path: {path} is not a checkpoint of flowbert: it holds more than tensors and plain values "
            "(numbers, text, lists, dicts), or is damaged; only these are read, no code of a checkpoint is ever run"
        ) from error
    # torch raises a dozen unrelated types for a damaged archive.
    except Exception as error:
        reason = str(error).split(". ")[0].splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"--ckpt_path: {path} is not a checkpoint of flowbert, or damaged ({reason})") from error
    if not isinstance(content, dict) or "encoder_key" not in content:
        raise UserError(f"--ckpt_path: {path} is not a checkpoint of flowbert (it names no encoder)")
    return content


def earlier_metrics(path: str, content: dict[str, Any]) -> list[dict[str, str]]:
    """What a run had logged when it wrote a checkpoint, from the ``metrics.csv`` of its run folder.

    Args:
        path: The checkpoint, ``RUN_DIR/checkpoints/NAME.ckpt``.
        content: What is in it.
    """
    file = Path(path).resolve().parents[1] / METRICS
    rows = content.get("metric_rows", 0)
    found = read_metrics(file, rows) if file.is_file() else []
    if len(found) < rows:
        warnings.warn(
            f"{file} has {len(found)} of the {rows} rows logged before {path}: metrics.csv begins with what is there",
            FlowbertWarning,
            stacklevel=2,
        )
    return found


def match_structure(
    options: Namespace, content: dict[str, Any], module: type[EmbeddingModule], path: str, *, adopt: bool
) -> None:
    """Make the options that decide the shape of the network agree with a checkpoint.

    Args:
        options: The group ``model`` of the configuration; changed in place if ``adopt``.
        content: The checkpoint.
        module: The method's LightningModule; its ``structural`` names the options.
        path: Where the checkpoint lies, for messages.
        adopt: Whether an option left at its default takes the checkpoint's value (when nothing is trained).

    Raises:
        UserError: If an option has another value than in the checkpoint.
    """
    saved = content.get("hyper_parameters", {})
    for name, default in module.structural.items():
        if name not in saved or options[name] == saved[name]:
            continue
        if adopt and options[name] == default:
            options[name] = saved[name]
        else:
            raise UserError(
                f"--model.{name}: received {options[name]!r}; allowed with the checkpoint {path}: {saved[name]!r}"
            )
