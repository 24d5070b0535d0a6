"""A published row beside what the same setting gives here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowbert.errors import UserError, choices
from flowbert.reproduction.published import PublishedRow, Setting, published_row, published_rows

_FLOW_OPTIONS = {
    "levels": "levels",
    "depth": "depth",
    "width": "width",
    "coupling": "coupling",
    "mixing": "mixing",
    "noise": "noise",
    "weight_decay": "weight_decay",
    "schedule": "schedule",
    "learning_rate": "learning_rate",
    "epochs": "epochs",
    "sentences_per_batch": "batch_size",
}


@dataclass(frozen=True)
class Comparison:
    """One figure x 100 here and in the paper.

    Attributes:
        task: Name of the task, or ``Avg``.
        ours: The figure here.
        low: Lower end of its 95% interval over pairs.
        high: Upper end.
        theirs: The published figure.
        std: Standard deviation over seeds; NaN for one.
    """

    task: str
    ours: float
    low: float
    high: float
    theirs: float
    std: float = math.nan

    @property
    def difference(self) -> float:
        """Ours minus theirs."""
        return self.ours - self.theirs

    @property
    def inside(self) -> bool | None:
        """Whether the published figure lies in our interval; None without an interval."""
        return None if math.isnan(self.low + self.ours) else self.low <= self.theirs <= self.high


@dataclass(frozen=True)
class Reproduction:
    """A published row with its comparisons, or the reason why there are none.

    Attributes:
        row: The row.
        setting: How it was run.
        comparisons: By task; empty if it could not be run.
        context: Whether another encoder took the published one's place, so that nothing can be compared.
        note: Why it could not be run, or what else must be known.
    """

    row: PublishedRow
    setting: Setting
    comparisons: tuple[Comparison, ...]
    context: bool
    note: str = ""

    def text(self) -> str:
        """Ours, theirs, difference and whether theirs lies inside our interval, as lines of fixed width."""
        lines = [f"{self.row.id} ({describe(self.setting)})"]
        if self.note:
            lines.append(f"  note: {self.note}")
        if not self.comparisons:
            return "\n".join(lines)
        width = max(15, *(len(found.task) + 2 for found in self.comparisons))
        theirs = "published (context only)" if self.context else "published"
        table: dict[str, list[str]] = {
            "": [found.task for found in self.comparisons],
            "ours": [_number(found.ours, found.std) for found in self.comparisons],
            "95% interval": [_ends(found) for found in self.comparisons],
            theirs: [f"{found.theirs:.2f}" for found in self.comparisons],
        }
        if not self.context:
            table["difference"] = [f"{found.difference:+.2f}" for found in self.comparisons]
            table["inside"] = [{True: "yes", False: "no", None: "-"}[found.inside] for found in self.comparisons]
        lines += [f"  {name:<25}" + "".join(f"{cell:>{width}}" for cell in cells) for name, cells in table.items()]
        return "\n".join(lines)


def select_rows(table: str | None, encoder: str | None, ids: Sequence[str]) -> list[PublishedRow]:
    """Published rows by source (``li2020``) or table (``li2020-2``), encoder, or id; all without any.

    Raises:
        UserError: If a name is unknown; the message gives the nearest ones.

    Example:
        >>> [row.method for row in select_rows("li2020-2", "bert-base-uncased", [])]
        ['last', 'first_last', 'flow', 'flow']
    """
    if ids:
        return [published_row(row_id) for row_id in ids]
    rows = list(published_rows(encoder=encoder))
    if table is None:
        return rows
    names = list(dict.fromkeys(name for row in published_rows() for name in (row.source, table_of(row))))
    if table not in names:
        raise UserError(f"--table: received {table!r}; {choices(names, table)}")
    found = [row for row in rows if table in (row.source, table_of(row))]
    if not found:
        raise UserError(f"--table {table} has no row with the encoder {encoder}; allowed: see --list")
    return found


def table_of(row: PublishedRow) -> str:
    """Name of a row's table, as in ``li2020-2``."""
    return f"{row.source}-{row.table.lower().replace('.', '-')}" if row.table else row.source


def method_of(setting: Setting) -> str:
    """Method of ``evaluate`` that a setting is; flows with every option written out.

    Example:
        >>> from flowbert.reproduction.published import setting_of
        >>> method_of(setting_of(published_row("li2020-2-bert-base-uncased-flow-nli"))).split(":")[-3:]
        ['epochs=0.15', 'batch_size=64', 'start_size=64']
    """
    if setting.method != "flow":
        return setting.method
    options: dict[str, Any] = {
        ours: setting.options[theirs] for theirs, ours in _FLOW_OPTIONS.items() if theirs in setting.options
    }
    options["start_size"] = options["batch_size"]
    return ":".join(["flow", *(f"{name}={value}" for name, value in options.items())])


def describe(setting: Setting) -> str:
    """A setting in one line."""
    cut = "not cut" if setting.max_length is None else f"cut at {setting.max_length}"
    fitted = "" if setting.corpus == "none" else f" on {setting.corpus}"
    trained = ", encoder trained first" if setting.trained else ""
    return (
        f"{setting.encoder or 'word vectors'}, layers {setting.layers}, pooling {setting.pooling}, {cut}, "
        f"{method_of(setting)}{fitted}, {setting.aggregation}{trained}"
    )


def record_of(found: Reproduction) -> list[Mapping[str, Any]]:
    """One record per task, for a CSV file."""
    return [
        {
            "row": found.row.id,
            "task": item.task,
            "aggregation": found.setting.aggregation,
            "ours": item.ours,
            "low": item.low,
            "high": item.high,
            "std": item.std,
            "published": item.theirs,
            "difference": math.nan if found.context else item.difference,
            "inside": None if found.context else item.inside,
            "note": found.note,
        }
        for item in found.comparisons
    ]


def _number(value: float, std: float) -> str:
    return f"{value:.2f}" if math.isnan(std) else f"{value:.2f} \u00b1{std:.2f}"


def _ends(found: Comparison) -> str:
    return "-" if math.isnan(found.low) else f"[{found.low:.1f}, {found.high:.1f}]"
