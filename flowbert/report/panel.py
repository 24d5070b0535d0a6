"""A picture with its data and its words: as files, and as a piece of a page."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowbert.io.atomic import written_atomically
from flowbert.report.files import write_lines
from flowbert.report.style import IN_PAGE, figure_of_style, lay_out

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Panel:
    """One picture.

    Attributes:
        name: Of its files and its place on a page: ``spectra``.
        title: What it shows, in a line.
        caption: How to read it, and what it says here, in sentences.
        columns: Names of the data's columns.
        rows: What is drawn, a line each.
        draw: Draws it on an empty figure.
        size: Width and height in inches.
    """

    name: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    draw: Callable[["Figure"], None]
    size: tuple[float, float] = (6.0, 4.0)

    def write(self, folder: Path) -> None:
        """Write ``NAME.svg``, ``NAME.png`` and the data as ``NAME.csv``, each at once or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        write_lines(folder / f"{self.name}.csv", self.columns, self.rows)
        with figure_of_style(*self.size) as figure:
            self.draw(figure)
            for kind in ("svg", "png"):
                with written_atomically(folder / f"{self.name}.{kind}") as temporary:
                    figure.savefig(temporary, format=kind, dpi=150, metadata=_METADATA[kind])

    def svg(self) -> str:
        """The picture as an element of a page: its colours are the page's, its ids are its own."""
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        file = StringIO()
        with figure_of_style(*self.size) as figure:
            self.draw(figure)
            lay_out(figure)
            for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
                patch.set_visible(False)
            canvas: Any = FigureCanvasSVG(figure)
            canvas.print_svg(file, metadata=_METADATA["svg"])  # savefig would draw it twice
        text = file.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
        text = re.sub(r' (?:d|x|y)="[^"]*"', lambda found: _shortened(found[0]), text)
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", text)
        for colour, variable in IN_PAGE.items():
            text = text.replace(colour, f"var(--{variable})")
        return text.replace("<svg ", f'<svg role="img" aria-labelledby="{self.name}-title" ', 1)


def _shortened(coordinates: str) -> str:
    """Tenths of a point, less than a pixel; a stroke without length, which is a dot, in fewer letters."""
    return re.sub(r"M (\S+ \S+) \nL \1 \n", r"M\1h0", re.sub(r"(\.\d)\d+", r"\1", coordinates))


_METADATA: dict[str, Any] = {"svg": {"Date": None}, "png": None}
