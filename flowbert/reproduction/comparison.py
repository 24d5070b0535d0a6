"""A published row beside what the same setting gives here, as text and as files."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowbert.report.files import write_lines, write_text
from flowbert.reproduction.published import PublishedRow

_INSIDE = {True: "yes", False: "no", None: "-"}


@dataclass(frozen=True)
class FigureComparison:
    """One figure x 100 here and in the paper.

    Attributes:
        task: Name of the task, or ``Avg``.
        ours: The figure here.
        low: Lower end of its 95% confidence interval over pairs; NaN if none was computed.
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
        comparisons: By task, then their average; empty if the row could not be run.
        context: Whether another encoder took the published one's place, so that nothing can be compared.
        note: Why it could not be run, or what else must be known.
    """

    row: PublishedRow
    comparisons: tuple[FigureComparison, ...]
    context: bool
    note: str = ""

    def text(self) -> str:
        """Ours, theirs, difference and whether theirs lies inside our interval, as lines of fixed width."""
        lines = [f"{self.row.id} ({self.row.setting})", *([f"  note: {self.note}"] if self.note else [])]
        if not self.comparisons:
            return "\n".join(lines)
        table = {
            "": [found.task for found in self.comparisons],
            "ours": [_with_std(found.ours, found.std) for found in self.comparisons],
            "95% confidence interval": [_ends(found) for found in self.comparisons],
            f"published{' (context only)' * self.context}": [f"{found.theirs:.2f}" for found in self.comparisons],
        }
        if not self.context:
            table["difference"] = [f"{found.difference:+.2f}" for found in self.comparisons]
            table["inside"] = [_INSIDE[found.inside] for found in self.comparisons]
        width = max(15, *(len(found.task) + 2 for found in self.comparisons))
        lines += [f"  {name:<25}" + "".join(f"{cell:>{width}}" for cell in cells) for name, cells in table.items()]
        return "\n".join(lines)

    def records(self) -> list[dict[str, Any]]:
        """One record per task, for a CSV file."""
        return [
            {
                "row": self.row.id,
                "task": found.task,
                "aggregation": self.row.setting.aggregation,
                "ours": found.ours,
                "low": found.low,
                "high": found.high,
                "std": found.std,
                "published": found.theirs,
                "difference": math.nan if self.context else found.difference,
                "inside": None if self.context else found.inside,
                "note": self.note,
            }
            for found in self.comparisons
        ]


def record_of(found: Sequence[Reproduction]) -> dict[str, Any]:
    """What a page says of published rows, as JSON values: how many lie in our intervals, and each beside ours."""
    verdicts = [f"{each.row.id}: {each.note}" for each in found if not each.comparisons]
    inside = [figure.inside for each in found if not each.context for figure in each.comparisons]
    told = [answer for answer in inside if answer is not None]
    if told:
        verdicts.insert(0, f"{sum(told)} of {len(told)} published figures lie inside our 95% confidence intervals.")
    lines = [
        [each.row.id, figure.task, _with_std(figure.ours, figure.std), _ends(figure), f"{figure.theirs:.2f}"]
        + (["", "context only"] if each.context else [f"{figure.difference:+.2f}", _INSIDE[figure.inside]])
        for each in found
        for figure in each.comparisons
    ]
    return {"verdicts": verdicts, "published": lines}


def write_reproductions(found: Sequence[Reproduction], path: Path) -> tuple[Path, Path]:
    """Write all comparisons as CSV, and their texts as Markdown, beside ``path``. Returns both files."""
    table = path.with_suffix(".csv")
    records = [record for each in found for record in each.records()]
    write_lines(table, records[0] if records else (), ([_cell(v) for v in record.values()] for record in records))
    return table, write_text(path.with_suffix(".md"), "\n\n".join(f"```\n{each.text()}\n```" for each in found) + "\n")


def _cell(value: Any) -> Any:
    return "" if isinstance(value, float) and math.isnan(value) else value


def _with_std(value: float, std: float) -> str:
    return f"{value:.2f}" if math.isnan(std) else f"{value:.2f} \u00b1{std:.2f}"


def _ends(found: FigureComparison) -> str:
    return "-" if math.isnan(found.low) else f"[{found.low:.1f}, {found.high:.1f}]"
