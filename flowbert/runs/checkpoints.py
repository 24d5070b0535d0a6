"""Checkpoints given by the user: checked before anything is encoded, and read as plain values alone."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Self
from zipfile import is_zipfile

import torch

from flowbert.errors import FlowbertWarning, UserError
from flowbert.io.metrics_file import digest_rows, read_metrics
from flowbert.io.run_folder import RunFolder


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint of a fit.

    Args:
        path: The file, ``RUN_DIR/checkpoints/NAME.ckpt``.
        content: What is in it.
    """

    path: Path
    content: dict[str, Any]

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a checkpoint, tensors and plain types only.

        Raises:
            UserError: If the file is missing or not a checkpoint of flowbert.
        """
        if not Path(path).is_file():
            raise UserError(f"ckpt_path: no file {path}; allowed: a checkpoint, such as RUN_DIR/checkpoints/last.ckpt")
        try:
            content = torch.load(path, map_location="cpu", weights_only=True) if is_zipfile(path) else None
        except UnpicklingError as error:  # torch says so in a page, which ends by telling how to run foreign code
            raise UserError(
                f"ckpt_path: {path} is not a checkpoint of flowbert: it holds more than tensors and plain values "
                "(numbers, text, lists, dicts), or is damaged; only these are read, no code of a checkpoint is ever run"
            ) from error
        # torch raises a dozen unrelated types for a damaged archive.
        except Exception as error:
            reason = str(error).split(". ")[0].splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f"ckpt_path: {path} is not a checkpoint of flowbert, or damaged ({reason})") from error
        if not isinstance(content, dict) or "encoder_key" not in content:
            raise UserError(f"ckpt_path: {path} is not a checkpoint of flowbert (it names no encoder)")
        return cls(Path(path), content)

    def earlier_metrics(self) -> list[dict[str, str]]:
        """What the run had logged by then, from the ``metrics.csv`` of its folder; empty if that is another by now."""
        file = RunFolder.of_checkpoint(self.path).metrics
        logged = self.content.get("metrics", {"rows": 0, "digest": ""})
        found = read_metrics(file, logged["rows"])
        if digest_rows(found) == logged["digest"]:
            return found
        warnings.warn(
            f"{file} does not hold the {logged['rows']} rows that were logged before {self.path}: "
            "metrics.csv begins here",
            FlowbertWarning,
            stacklevel=2,
        )
        return []
