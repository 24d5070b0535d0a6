"""Results: one long table of figures, the items behind them, and the fingerprint of the run."""

import datetime
import math
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from flowbert import __version__
from flowbert.errors import UserError, choices
from flowbert.io import digest, read_json, write_atomically, write_json
from flowbert.tasks import AVERAGE, Task
from flowbert.tasks.bootstrap import Floats

COLUMNS: dict[str, Any] = {
    "encoder": str,
    "layers": str,
    "pooling": str,
    "method": str,
    "corpus": str,
    "seed": int | None,
    "task": str,
    "split": str,
    "metric": str,
    "aggregation": str,
    "value": float | None,
    "low": float | None,
    "high": float | None,
    "pairs": int,
    "supervised": bool,
    "reason": str,
    "cell": str,
}
"""Columns of :attr:`Results.frame` and their types."""

AGGREGATION = "wmean"
"""The aggregation that is shown first, and that verdicts go by."""

_LIBRARIES = (
    "torch",
    "pytorch-lightning",
    "transformers",
    "tokenizers",
    "numpy",
    "scikit-learn",
)


def aggregation_of(metric: str) -> str:
    """The aggregation of a metric that is shown first."""
    return AGGREGATION if metric == "spearman" else "all"


class Results:
    """Figures of methods on tasks.

    Args:
        rows: Records with the keys of :data:`COLUMNS`.
        record: What the run says of itself: fingerprint, verdicts, differences, encoders.

    Attributes:
        frame: One row per figure (pandas), in long form. ``low`` and ``high`` are the ends of
            the 95% interval; the task ``average`` is the mean over the tasks of a split.
        record: As the argument.
        items: Items ``(K,)`` of each cell (method on a task) by task, of a run in this process.
        vectors: Vectors of a sample of sentences by method, for the analysis of the run.
        sentences: The sentences of this sample.
    """

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], record: Mapping[str, Any]
    ) -> None:
        self.frame = pd.DataFrame(list(rows), columns=list(COLUMNS))
        self.record = dict(record)
        self.items: dict[Task, dict[str, Floats]] = {}
        self.vectors: dict[str, torch.Tensor] = {}
        self.sentences: list[str] = []

    @property
    def verdicts(self) -> list[str]:
        """Which method to use, a line for each group of comparable methods."""
        return list(self.record.get("verdicts", []))

    def figure(
        self, method: str, task: str, metric: str = "spearman", **columns: Any
    ) -> float:
        """One value; the mean if several rows agree.

        Raises:
            UserError: If there is none.
        """
        chosen = {"method": method, "task": task, "metric": metric}
        chosen |= {"aggregation": aggregation_of(metric), **columns}
        rows = self.frame
        for name, value in chosen.items():
            if value not in set(rows[name]):
                raise UserError(
                    f"{name}: received {value!r}; {choices(set(rows[name]), str(value))}"
                )
            rows = rows[rows[name] == value]
        return float(rows["value"].mean())

    def table(
        self, metric: str = "spearman", aggregation: str | None = None
    ) -> pd.DataFrame:
        """Methods by tasks, the mean over seeds.

        Args:
            metric: Metric.
            aggregation: Aggregation; None for ``wmean`` of Spearman, else ``all``.
        """
        aggregation = aggregation or aggregation_of(metric)
        rows = self.frame
        rows = rows[(rows["metric"] == metric) & (rows["aggregation"] == aggregation)]
        index = ["encoder", "layers", "pooling", "corpus", "method"]
        return rows.pivot_table(
            index=index, columns=["split", "task"], values="value", sort=False
        )

    def save(self, path: str | Path) -> None:
        """Write ``results.json`` (records and fingerprint), and the frame as .csv beside it."""
        path = Path(path)
        frame = self.frame.astype({"seed": "Int64"})
        content = {"rows": frame.to_dict("records"), "record": self.record}
        write_json(path, _plain(content))
        with write_atomically(path.with_suffix(".csv")) as temporary:
            frame.to_csv(temporary, index=False)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file of :meth:`save`.

        Raises:
            UserError: If it is missing, damaged, or holds something else.
        """
        content = read_json(path, {"rows": list, "record": dict})
        for number, row in enumerate(content["rows"], start=1):
            if not isinstance(row, dict) or set(row) != set(COLUMNS):
                raise UserError(
                    f"{path}: row {number}: expected the columns {', '.join(COLUMNS)}"
                )
            for name, kind in COLUMNS.items():
                if not isinstance(row[name], kind):
                    raise UserError(f"{path}: row {number}: {name} is {row[name]!r}")
                if kind == float | None and row[name] is None:
                    row[name] = math.nan
        verdicts = content["record"].get("verdicts", [])
        if not isinstance(verdicts, list) or not all(
            isinstance(line, str) for line in verdicts
        ):
            raise UserError(f"{path}: verdicts are {verdicts!r}; expected lines")
        return cls(content["rows"], content["record"])


def _plain(value: Any) -> Any:
    """A JSON value; what is missing becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    missing = isinstance(value, float) and not math.isfinite(value)
    return None if missing or value is pd.NA else value


def fingerprint(
    config: Mapping[str, Any], device: str | torch.device
) -> dict[str, Any]:
    """What a figure depends on beside its row: versions, configuration, device, time."""
    device = torch.device(device)
    on_gpu = device.type == "cuda"
    return {
        "versions": {
            "flowbert": __version__,
            "python": platform.python_version(),
            **{library: version(library) for library in _LIBRARIES},
        },
        "config": digest(dict(config)),
        "device": torch.cuda.get_device_name(device) if on_gpu else platform.machine(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
