"""results.json: one row per figure with everything that decided it, and the fingerprint of the run."""

import datetime
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_origin

import torch

from flowbert import __version__
from flowbert.errors import UserError, choices
from flowbert.io.atomic import written_atomically
from flowbert.io.command import command_line
from flowbert.io.digest import digest_json
from flowbert.io.json_file import read_json
from flowbert.io.lock import locked
from flowbert.tasks.base import Measured
from flowbert.tasks.protocol import AGGREGATIONS

_LIBRARIES = ("torch", "pytorch-lightning", "transformers", "tokenizers", "datasets", "numpy", "scipy", "safetensors")


@dataclass(frozen=True)
class Row:
    """One figure and its setting.

    Attributes:
        method: Name of the method, e.g. ``raw``, ``whitening``, ``flow``.
        encoder: Path or hub name of the encoder.
        layers: Layers averaged, as asked for, e.g. ``first_last`` or ``1,12``.
        pooling: Token pooling.
        corpus: What the method was fitted on, e.g. ``target``; ``none`` for raw.
        task: Name of the task.
        split: Split that was evaluated.
        aggregation: ``all``, ``mean`` or ``wmean``; ``all`` for a metric without subsets.
        value: The figure; NaN (null in the file) if it does not exist.
        pairs: Number of pairs.
        alignment: Over the positive pairs.
        uniformity: Over the distinct sentences.
        mean_cosine: Over the distinct sentences.
        seed: Seed of the method, None where nothing is random.
        positives: Number of positive pairs.
        sentences: Number of distinct sentences.
        uniformity_sentences: How many of them the uniformity saw.
        subsets: Spearman and pairs by subset.
        layer_numbers: The layers as indices into the hidden states, 0 being the embedding layer's output.
        revision: Pinned revision of the encoder, if any.
        dtype: Number format of the encoder.
        max_length: Tokens after which sentences are cut.
        metric: What ``value`` is: ``spearman``, or the figure of another kind of task, e.g. ``auc``, ``recall@5``.
        low: Lower end of the 95% confidence interval over pairs; NaN if none was computed.
        high: Upper end.
        supervised: Whether the method learned from labels.
        setting: Digest of everything that decides the figure but the code; with equal ``code``, not computed twice.
        fitted: Number of sentences that the method was fitted on, where a run of ``fit`` says it.
        reason: Why there is no figure, in one line; empty if there is one.
        code: Digest of the code that computed it, see :func:`flowbert.evaluation.code.code_digest`; empty in old files.
    """

    method: str
    encoder: str
    layers: str
    pooling: str
    corpus: str
    task: str
    split: str
    aggregation: str
    value: float
    pairs: int
    alignment: float = math.nan
    uniformity: float = math.nan
    mean_cosine: float = math.nan
    seed: int | None = None
    positives: int = 0
    sentences: int = 0
    uniformity_sentences: int = 0
    subsets: tuple[Mapping[str, Any], ...] = ()
    layer_numbers: tuple[int, ...] = ()
    revision: str | None = None
    dtype: str | None = None
    max_length: int | None = None
    metric: str = "spearman"
    low: float = math.nan
    high: float = math.nan
    supervised: bool = False
    setting: str = ""
    fitted: int = 0
    reason: str = ""
    code: str = ""

    @property
    def spearman(self) -> float:
        """The figure in [-1, 1] if it is a Spearman correlation, else NaN."""
        return self.value if self.metric == "spearman" else math.nan

    @property
    def key(self) -> tuple[object, ...]:
        """What the figure is of, whichever code computed it; rows of equal keys replace each other."""
        where = (self.encoder, self.layers, self.pooling, self.corpus, self.seed)
        return (self.setting or (self.method, *where), self.task, self.split, self.metric, self.aggregation)

    @property
    def shown_method(self) -> str:
        """The method's name, with a star if it learned from labels."""
        return f"{self.method}*" if self.supervised else self.method

    def columns(self) -> dict[str, Any]:
        """The row as it stands in files: :data:`COLUMNS` in order."""
        return {name: getattr(self, name) for name in COLUMNS}


def rows_of(measured: Measured, **columns: Any) -> list[Row]:
    """A row for each figure of a method on a task; the other columns as in :class:`Row`.

    Example:
        >>> from flowbert.tasks.base import Figure
        >>> columns = {"task": "T", "split": "test", "pairs": 9, "encoder": "e", "layers": "last", "pooling": "mean"}
        >>> (row,) = rows_of(Measured((Figure("auc", "all", 0.75),), None, columns), method="raw", corpus="none")
        >>> row.metric, row.value, row.spearman
        ('auc', 0.75, nan)
    """
    columns = {**measured.columns, **columns}
    return [Row(**columns, **figure._asdict()) for figure in measured.figures]


def fingerprint(
    config: Mapping[str, Any] | None = None,
    *,
    corpus_hash: str | None = None,
    device: str | torch.device = "cpu",
    seed: int | None = None,
) -> dict[str, Any]:
    """What a figure depends on besides its row: versions, hashes, device, platform, time, seed.

    Args:
        config: The run's configuration, JSON values; hashed in canonical form.
        corpus_hash: Digest of the fitting corpus.
        device: Device that computed the embeddings.
        seed: Seed of the run.
    """
    device = torch.device(device)
    versions = {library: version(library) for library in _LIBRARIES}
    return {
        "versions": {"python": platform.python_version(), "flowbert": __version__, **versions},
        "config_hash": digest_json(config or {}, compact=True),
        "corpus_hash": corpus_hash,
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "command": command_line(),
    }


def write_results(path: str | Path, rows: Sequence[Row], run_fingerprint: Mapping[str, Any]) -> Path:
    """Write ``{"rows": [...], "fingerprint": {...}}`` at once or not at all; NaN becomes null. Returns the path."""
    path = Path(path)
    content = {"rows": [_plain(row.columns()) for row in rows], "fingerprint": _plain(dict(run_fingerprint))}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def merge_results(path: str | Path, rows: Sequence[Row], run_fingerprint: Mapping[str, Any]) -> list[Row]:
    """Write rows and keep those of the file that they do not replace (:attr:`Row.key`), behind them.

    The file is read and written under a lock, so that several processes lose no row of each other.

    Returns:
        All rows of the file.

    Raises:
        UserError: If there is a file and it is no results.json.
    """
    path = Path(path)
    with locked(path.parent):
        earlier = load_results(path)[0] if path.exists() else []
        new = {row.key for row in rows}
        merged = [*rows, *(row for row in earlier if row.key not in new)]
        write_results(path, merged, run_fingerprint)
    return merged


def load_results(path: str | Path) -> tuple[list[Row], dict[str, Any]]:
    """Rows and fingerprint of a results.json, checked; null becomes NaN again.

    Raises:
        UserError: If the file is missing, not JSON, or a row lacks a field or holds a value that is not allowed.
    """
    path = Path(path)
    content = read_json(path, needed="a results.json")
    if not isinstance(content.get("rows"), list):
        raise UserError(f"{path}: lacks the list 'rows'; needed: an object with 'rows' and 'fingerprint'")
    rows = [_row(value, f"{path}: row {number}") for number, value in enumerate(content["rows"], start=1)]
    return rows, dict(content.get("fingerprint") or {})


_FIELDS = {field.name: field for field in fields(Row)}
_IN_FILES = {"value": ("spearman",), "metric": ("metric", "value")}
COLUMNS = tuple(column for name in _FIELDS for column in _IN_FILES.get(name, (name,)))
"""The columns of a results file in order: ``spearman`` stands in the place of ``value``, which follows ``metric``."""

_KINDS: dict[Any, tuple[str, Any]] = {
    str: ("text", str),
    int: ("a whole number", int),
    float: ("a number or null", int | float | None),
    tuple: ("a list", list),
}
"""Type of a field -> what is allowed in a file, and the type of that; fields of other types hold anything."""


def _row(record: Any, where: str) -> Row:
    if not isinstance(record, dict):
        raise UserError(f"{where} is {type(record).__name__}; allowed: an object")
    needed = ["spearman", *(name for name, field in _FIELDS.items() if field.default is MISSING and name != "value")]
    for name in needed:
        if name not in record:
            raise UserError(f"{where} lacks {name!r}; needed: {', '.join(COLUMNS)}")
    checked: dict[str, Any] = {}
    for name, content in record.items():
        if name not in COLUMNS:
            raise UserError(f"{where}: unknown field {name!r}; {choices(COLUMNS, name)}")
        annotation = float if name == "spearman" else _FIELDS[name].type
        kind: Any = get_origin(annotation) or annotation
        allowed, types = _KINDS.get(kind, ("", object))
        if not isinstance(content, types) or (kind in (int, float) and isinstance(content, bool)):
            raise UserError(f"{where}: {name} is {content!r}; allowed: {allowed}")
        value = math.nan if kind is float and content is None else content
        checked[name] = kind(value) if kind in _KINDS else value
    aggregation, spearman = checked["aggregation"], checked.pop("spearman")
    if aggregation not in AGGREGATIONS:
        raise UserError(f"{where}: aggregation is {aggregation!r}; {choices(AGGREGATIONS, aggregation)}")
    if abs(spearman) > 1:
        raise UserError(f"{where}: spearman is {spearman}; allowed: a number in [-1, 1] or null")
    return Row(**{"value": spearman, **checked})


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
