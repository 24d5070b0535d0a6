"""Where a run writes, and the rule that a finished run is never overwritten."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from flowbert.errors import UserError

RESULTS = "results.json"
_SHARED = "FLOWBERT_RUN_DIR"  # processes that Lightning starts for DDP must not each choose their own folder


@contextmanager
def run_dir_shared() -> Iterator[None]:
    """What :func:`resolve_run_dir` tells other processes holds for the run inside alone."""
    before = os.environ.get(_SHARED)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SHARED, None)
        else:
            os.environ[_SHARED] = before


def resolve_run_dir(run_dir: str | None, config: str | None) -> Path:
    """Choose the folder of a run.

    Args:
        run_dir: What the user asked for, or None.
        config: The config file, whose name is used for the default ``runs/<config>/<time>``.

    Raises:
        UserError: If the folder holds a finished run, or is a file.
    """
    inherited = os.environ.get(_SHARED) if "LOCAL_RANK" in os.environ else None
    if inherited is not None:
        return Path(inherited)
    if run_dir is None and "LOCAL_RANK" in os.environ:
        raise UserError("--run_dir: received nothing under torchrun; allowed: a folder, so that all processes agree")
    name = Path(config).stem if config else "run"
    path = Path(run_dir) if run_dir else Path("runs") / name / datetime.now().strftime("%Y%m%d-%H%M%S")
    if path.exists() and not path.is_dir():
        raise UserError(f"--run_dir: {path} is a file; allowed: a new or unfinished run folder")
    if (path / RESULTS).exists():
        raise UserError(f"--run_dir: {path} holds a finished run ({RESULTS}); allowed: another or a new folder")
    os.environ[_SHARED] = str(path.resolve())
    return path
