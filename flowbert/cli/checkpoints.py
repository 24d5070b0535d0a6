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
from flowbert.training.metrics_log import METRICS, digest_rows

_OPTIONS = {"seed": "seed_everything"}  # of the module, with a name of their own on the command line


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
    logged = content.get("metrics", {"rows": 0, "digest": ""})
    found = read_metrics(file, logged["rows"])
    if digest_rows(found) == logged["digest"]:
        return found
    warnings.warn(
        f"{file} does not hold the {logged['rows']} rows that were logged before {path}: metrics.csv begins here",
        FlowbertWarning,
        stacklevel=2,
    )
    return []


def match_options(
    options: Namespace, content: dict[str, Any], module: type[EmbeddingModule], path: str, *, adopt: bool
) -> None:
    """Make the options that decide the shape of the network agree with a checkpoint; all, when its run goes on.

    Args:
        options: The group ``model`` of the configuration; changed in place if ``adopt``.
        content: The checkpoint.
        module: The method's LightningModule; its ``structural`` names the options.
        path: Where the checkpoint lies, for messages.
        adopt: Whether an option left at its default takes the checkpoint's value (when nothing is trained).

    Raises:
        UserError: If an option has another value than in the checkpoint.
    """
    if content and content.get("module") != module.__name__:
        raise UserError(f"--ckpt_path: {path} is of {content.get('module')}; allowed: one of {module.__name__}")
    saved = content.get("hyper_parameters", {})
    for name, received in vars(options).items():
        if name not in saved or received == saved[name] or (adopt and name not in module.structural):
            continue
        if (adopt and received == module.structural[name]) or (name == "dim" and received is None):
            options[name] = saved[name]
            continue
        option = _OPTIONS.get(name, f"model.{name}")
        raise UserError(f"--{option}: received {received!r}; allowed with the checkpoint {path}: {saved[name]!r}")
