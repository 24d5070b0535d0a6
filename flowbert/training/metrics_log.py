"""metrics.csv: one row for each time figures are logged; what a resumed run had logged before stays."""

import csv
import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities import rank_zero_only

from flowbert.io.atomic import written_atomically
from flowbert.io.metrics_file import digest_rows, read_metrics
from flowbert.io.run_folder import RunFolder

_AT_ONCE = 100  # rows that wait in memory; every checkpoint writes what waits


class MetricsLog(Logger):
    """Write logged figures to ``metrics.csv``.

    Lightning's own CSVLogger deletes the file that a resumed run finds, and a process that is killed takes rows with
    it that the checkpoint counts on. Here every checkpoint says how many rows there were, and those are on disk.

    Args:
        folder: The run folder.
        rows: What was logged before, as :func:`read_metrics` gives it; the file starts with it.

    Example:
        >>> import tempfile
        >>> log = MetricsLog(tempfile.mkdtemp())
        >>> log.log_metrics({"step/nll": 1.5}, step=9)
        >>> log.save()
        >>> read_metrics(log.path)
        [{'step': '9', 'step/nll': '1.5'}]
    """

    def __init__(self, folder: str | Path, rows: Sequence[dict[str, str]] = ()) -> None:
        super().__init__()
        self.path = RunFolder(Path(folder)).metrics
        self._columns: list[str] = []
        self._waiting = list(rows)
        self._count = 0
        self.digest = digest_rows(rows)

    @property
    def name(self) -> str:
        """No sub-folder."""
        return ""

    @property
    def version(self) -> str:
        """No sub-folder."""
        return ""

    @property
    def save_dir(self) -> str:
        """The run folder."""
        return str(self.path.parent)

    @property
    def count(self) -> int:
        """Rows so far, those of before included."""
        return self._count + len(self._waiting)

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Do nothing: config.yaml has them."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add a row."""
        values = {name: str(value) for name, value in metrics.items()}
        row = {**values, "step": str(self.count if step is None else step)}
        self._waiting.append(row)
        self.digest = digest_rows([row], self.digest)
        if len(self._waiting) >= _AT_ONCE:
            self.save()

    @rank_zero_only
    def save(self) -> None:
        """Bring every row to the disk: behind the others, or all anew where there is a new column."""
        if not self._waiting:
            return
        columns = sorted({name for row in self._waiting for name in row}.union(self._columns))
        if columns == self._columns:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                _write(file, columns, self._waiting)
                file.flush()
                os.fsync(file.fileno())
        else:
            rows = [*(read_metrics(self.path) if self._columns else []), *self._waiting]
            with written_atomically(self.path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerow(columns)
                _write(file, columns, rows)
        self._columns = columns
        self._count += len(self._waiting)
        self._waiting = []

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Write what waits."""
        del status
        self.save()


def _write(file: Any, columns: Sequence[str], rows: Sequence[dict[str, str]]) -> None:
    csv.DictWriter(file, columns, lineterminator="\n").writerows(rows)
