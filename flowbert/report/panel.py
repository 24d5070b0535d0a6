"""A picture with its data and its words: as files, and as a piece of a page."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from flowbert.io.atomic import written_atomically
from flowbert.report.files import write_lines, write_text
from flowbert.report.style import IN_PAGE, INK, Figure, figure_of_style, lay_out


@dataclass(frozen=True)
class Panel:
    """One picture.

    Attributes:
        name: Of its files and its place on a page: ``spectra``; without "_", which parts it from ids inside it.
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
    draw: Callable[[Figure], None]
    size: tuple[float, float] = (6.0, 4.0)

    def write(self, folder: Path, source: str = "") -> str:
        """Write ``NAME.svg``, ``NAME.png`` and the data as ``NAME.csv``, each at once or not at all.

        Args:
            folder: Where to.
            source: Digest of all that decides the picture, which the SVG ends with; where one of the same digest is
                there already, nothing is drawn.

        Returns:
            What :meth:`svg` gives, drawn once.
        """
        svg, png, data = (folder / f"{self.name}{ending}" for ending in (".svg", ".png", ".csv"))
        mark = f"<!-- source: {source} -->\n"
        if source and all(file.is_file() for file in (svg, png, data)):
            there = svg.read_text(encoding="utf-8", errors="replace")
            if there.endswith(mark):
                return self._of_page(there.removesuffix(mark).replace(_WHITE, "", 1))
        svg.unlink(missing_ok=True)  # it comes last: whatever ends the process, one that is there is of its neighbours
        write_lines(data, self.columns, self.rows)
        with self._drawn() as figure:
            text = _svg(figure)
            _show_ground(figure, True)
            with written_atomically(png) as temporary:
                _save_png(figure, temporary)
        white = re.sub(r"(<svg [^>]*>)", rf"\1{_WHITE}", text, count=1)
        write_text(svg, white + mark if source else white)
        return self._of_page(text)

    def svg(self) -> str:
        """The picture as an element of a page: its colours are the page's, its ids are its own."""
        with self._drawn() as figure:
            return self._of_page(_svg(figure))

    @contextmanager
    def _drawn(self) -> Iterator[Figure]:
        with figure_of_style(*self.size) as figure:
            self.draw(figure)
            lay_out(figure)
            _show_ground(figure, False)
            yield figure

    def _of_page(self, svg: str) -> str:
        text = _shortened(svg[svg.index("<svg") :])
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}_", text)
        look = f"fill: {INK}; stroke-linejoin: round"  # matplotlib leaves out that a fill is black
        text = text.replace("<svg ", f'<svg role="img" aria-labelledby="{self.name}_title" style="{look}" ', 1)
        for colour, variable in IN_PAGE.items():
            text = text.replace(colour, f"var(--{variable})")
        return text


_WHITE = '<rect width="100%" height="100%" fill="#ffffff"/>'


def _show_ground(figure: Figure, shown: bool) -> None:
    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set_visible(shown)


def _svg(figure: Figure) -> str:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    file = StringIO()
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(file, metadata={"Date": None})  # savefig would draw it twice
    return file.getvalue()


def _save_png(figure: Figure, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(150)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(path)  # savefig would draw it twice here, too


def _shortened(text: str) -> str:
    """The same picture in fewer letters, in the page's font, to a tenth of a point, which is less than a pixel."""
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r">\s+<", "><", text)
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    text = re.sub(r" font-family: [^;\"]*;?", "", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(r' (?:x|y|transform)="[^"]*"', lambda found: re.sub(r"(\.\d)\d+", r"\1", found[0]), text)
    return re.sub(r' d="([^"]*)"', lambda found: f' d="{_short_path(found[1])}"', text)


def _short_path(path: str) -> str:
    """Horizontal and vertical strokes by the one coordinate that changes."""
    short: list[str] = []
    before = [""]
    for line in re.sub(r"(\.\d)\d+", r"\1", path).splitlines():
        command, *place = line.split()
        if command == "L" and place == before:
            short.append("h0")
        elif command == "L" and place[1] == before[-1]:
            short.append(f"H{place[0]}")
        elif command == "L" and place[0] == before[0]:
            short.append(f"V{place[1]}")
        else:
            short.append(command + " ".join(place))
        before = place[-2:] or [""]
    return "".join(short)
