"""What a page consists of, and the file that it becomes."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from flowbert import __version__
from flowbert.report.files import write_text
from flowbert.report.panel import Panel
from flowbert.report.table import FigureTable


@dataclass(frozen=True)
class PageCell:
    """A cell of a table: its text, what stands small below it, what it is sorted by, how it stands out."""

    text: str
    note: str = ""
    value: float | str | None = None
    best: bool = False
    moved: bool = False


@dataclass(frozen=True)
class PageTable:
    """A table; ``texts`` are the numbers of columns that hold words."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[PageCell]]
    notes: Sequence[str] = ()
    texts: Sequence[int] = ()
    sortable: bool = True

    @classmethod
    def of_figures(cls, table: FigureTable) -> "PageTable":
        """A table of figures, the best of each column marked."""
        rows = [
            [
                PageCell(label),
                *(
                    PageCell(cell.text, cell.note, _sorted_by(cell.figure), best=(label, number) in table.best)
                    for number, cell in enumerate(cells)
                ),
            ]
            for label, cells in table.cells.items()
        ]
        return cls(table.title, ("method", *table.columns), rows, table.notes)

    @classmethod
    def of_numbers(cls, caption: str, corner: str, found: Mapping[str, Mapping[str, float]]) -> "PageTable":
        """Names x measures, three decimals."""
        columns = list(dict.fromkeys(name for row in found.values() for name in row))
        rows = [
            [PageCell(label), *(PageCell(f"{row[name]:.3f}", value=_sorted_by(row[name])) for name in columns)]
            for label, row in found.items()
        ]
        return cls(caption, (corner, *(name.replace("_", " ") for name in columns)), rows)

    @classmethod
    def of_texts(cls, caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "PageTable":
        """Words only."""
        return cls(
            caption, columns, [[PageCell(text) for text in row] for row in rows], (), range(1, len(columns)), False
        )


@dataclass(frozen=True)
class Section:
    """A part of a page under a title of its own: lines, commands to copy, tables, pictures, tables to unfold."""

    name: str
    title: str
    lines: Sequence[str] = ()
    code: Sequence[str] = ()
    tables: Sequence[PageTable] = ()
    panels: Sequence[Panel] = ()
    folded: Sequence[PageTable] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing stands in it."""
        return not (self.lines or self.code or self.tables or self.panels or self.folded)


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        title: Its title.
        subtitle: What it is of, in a line.
        verdicts: What to do, first of all.
        sections: The rest, in order; empty ones are left out.
    """

    title: str
    subtitle: str
    verdicts: Sequence[str]
    sections: Sequence[Section] = field(default=())

    def write(self, path: Path, figures: Path, source: str = "") -> Path:
        """Write the page as one file that needs nothing else, and its pictures with their data into a folder.

        Args:
            path: The file.
            figures: The folder.
            source: Digest of all that decides the pictures, see :meth:`flowbert.report.panel.Panel.write`.

        Returns:
            The path.
        """
        sections = [section for section in self.sections if not section.empty]
        panels = [panel for section in sections for panel in section.panels]
        pictures = {panel.name: panel.write(figures, source) for panel in panels}
        _remove_others(figures, pictures)
        text: str = _template().render(
            title=self.title,
            subtitle=self.subtitle,
            verdicts=self.verdicts,
            sections=sections,
            pictures=pictures,
            folder=figures.name,
            version=__version__,
            css=page_part("page.css"),
            script=page_part("page.js"),
        )
        return write_text(path, text)


def _remove_others(figures: Path, names: Collection[str]) -> None:
    """Remove the pictures of an earlier page."""
    for picture in figures.glob("*.svg"):
        files = [picture.with_suffix(ending) for ending in (".svg", ".png", ".csv")]
        if picture.stem not in names and all(file.is_file() for file in files):
            for file in files:
                file.unlink()


def _template() -> Any:
    from jinja2 import Environment

    # Everything is escaped but style and script, which are ours, and pictures, which are matplotlib's own markup.
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(page_part("page.html.jinja"))


def page_part(name: str) -> str:
    """The text of a file beside this one: template, style, script."""
    return files("flowbert.report.page").joinpath(name).read_text(encoding="utf-8")


def _sorted_by(figure: float) -> float | str:
    return figure if math.isfinite(figure) else ""
