"""The page of a run: verdicts, tables and pictures in one HTML file."""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from flowbert import __version__
from flowbert.analysis import Analysis, Plot, Table
from flowbert.analysis.drawing import save_picture
from flowbert.analysis.measure import measure_of
from flowbert.analysis.table import short_names
from flowbert.data.text_files import user_path
from flowbert.errors import UserError
from flowbert.experiments.intervals import LISTED, label_parts, labels
from flowbert.io import write_atomically
from flowbert.reports.content import PageContent, attempt, join_contents, read_content
from flowbert.reports.plots import CONTENT_PLOTS
from flowbert.reports.reproduction import notes_on, reproduction_tables
from flowbert.reports.result_tables import notes, result_tables

_GENERATOR = b'<meta name="generator" content="flowbert '


@dataclass(frozen=True, eq=False)
class Section:
    """Lines, tables and notes of a section of the page, in this order."""

    lines: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def report(
    runs: str | Path | Sequence[str | Path], output: str | Path | None = None
) -> Path:
    """Write the page of a run, finished or not, or one page of several runs.

    Nothing is encoded or fitted: the page is made of the files of the runs. A part that cannot be
    shown is left out with a warning.

    Args:
        runs: A run folder of ``fit``, a results file of ``compare``, an ``.analysis.json`` file of
            ``analyze``, or several of them.
        output: The page, a file ending in .html; its pictures and their data are written into a
            folder next to it, where other files are kept. None for ``report.html`` in a run
            folder, ``NAME.html`` next to ``NAME.json``, and ``comparison.html`` for several runs.

    Returns:
        Path of the page.

    Raises:
        UserError: If a path is not a run, its results are damaged, ``output`` is not an .html
            file, or the page or a picture would replace a file that is not part of a page.

    Example:
        >>> import tempfile
        >>> from flowbert.experiments.results import Results
        >>> path = Path(tempfile.mkdtemp()) / "results.json"
        >>> Results([], {"verdicts": ["use whitening"]}).save(path)
        >>> report(path).name
        'results.html'
    """
    given = [runs] if isinstance(runs, str | Path) else runs
    paths = list(dict.fromkeys(user_path(run).resolve() for run in given))
    if not paths:
        raise UserError(
            "received none; expected run folders or files of results", argument="runs"
        )
    if len(paths) == 1:
        page, content = page_of(paths[0]), read_content(paths[0])
    else:
        page = Path("comparison.html")
        names, nothing = short_names(map(str, paths)), Analysis({}, {})
        content = join_contents(
            {name: read_content(Path(path), nothing) for path, name in names.items()}
        )
    return save_page(content, user_path(output or page))


def save_page(content: PageContent, page: Path) -> Path:
    """Write a page and its pictures; a part that cannot be shown is left out with a warning.

    Args:
        content: What it shows.
        page: The page, a file ending in .html.

    Returns:
        The page.

    Raises:
        UserError: If its file was not written by a page.
    """
    if page.suffix != ".html":
        raise UserError(
            argument="output", received=page, expected="a file ending in .html"
        )
    pictures_folder = page.with_suffix(".figures")
    if page.name == "report.html":
        pictures_folder = page.with_name("figures")
    if page.is_file() and _GENERATOR not in page.read_bytes()[:1000]:
        raise UserError(
            f"received {page}, which is not a page of flowbert; expected another file",
            argument="output",
        )
    pictures_folder.mkdir(parents=True, exist_ok=True)
    pictures = dict(_pictures(content, pictures_folder))
    from jinja2 import Environment

    source = files("flowbert.reports").joinpath("page.html.jinja").read_text("utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    html = environment.from_string(source).render(
        run=content,
        sections=dict(_sections(content, pictures)),
        pictures=pictures,
        folder=pictures_folder.name,
        version=__version__,
    )
    with write_atomically(page) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return page


def page_of(path: Path) -> Path:
    """The page of a run folder, or that of a file of results or of an analysis."""
    return path / "report.html" if path.is_dir() else path.with_suffix(".html")


def plots_of(content: PageContent) -> Iterator[tuple[str, str, Plot, pd.DataFrame]]:
    """Name, section and plot of each picture with the frame that it shows, in order."""
    for name, (section, make, plot) in CONTENT_PLOTS.items():
        yield name, section, plot, attempt(name, partial(make, content), pd.DataFrame())
    for measure, frame in content.analysis.frames.items():
        kind = measure_of(measure)
        for name, plot in kind.plots.items():
            yield name, kind.section, plot, frame


def _pictures(
    content: PageContent, folder: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write the pictures that there are data for, and remove others; yield them by name."""
    for name, section, plot, frame in plots_of(content):
        if frame.empty:
            for older in folder.glob(f"{name}.*"):
                older.unlink()
            continue
        picture = attempt(name, partial(save_picture, plot, frame, folder / name), None)
        if picture is not None:
            data = base64.b64encode(picture.svg).decode()
            source = f"data:image/svg+xml;base64,{data}"
            shown = {"section": section, "title": plot.title, "source": source}
            yield name, picture._asdict() | shown


def _sections(
    content: PageContent, pictures: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, Section]]:
    """Sections by title, in order; empty ones are left out."""
    kinds = map(measure_of, content.analysis.frames)
    of_measures = list(dict.fromkeys(kind.section for kind in kinds))
    makers: dict[str, Callable[[PageContent], Section]] = {
        "Published scores": _published,
        "Results": _results,
        "Differences": _differences,
        "Training": lambda _: Section(),
        **{title: partial(_measures, title) for title in of_measures},
        "Settings": _settings,
    }
    drawn = {picture["section"] for picture in pictures.values()}
    for title, make in makers.items():
        section = attempt(title, partial(make, content), Section())
        if title in drawn or section.tables:
            yield title, section


def _results(content: PageContent) -> Section:
    """Tables of results."""
    if content.frame.empty:
        return Section()
    names = label_parts(content.frame).set_axis(labels(content.frame))
    names = names[~names.index.duplicated()]
    tables = [_in_columns(table, names) for table in result_tables(content.frame)]
    lines = [f"Warning: {warning}" for warning in content.record.get("warnings", [])]
    if any(table.bold.to_numpy().any() for table in tables):
        lines.append("bold: best of its column, with no other score in its interval")
    return Section((), tables, [*lines, *notes(content.frame)])


def _in_columns(table: Table, names: pd.DataFrame) -> Table:
    """A table with a column for each part of the names of its rows, by the first part.

    Args:
        table: A table of results.
        names: Parts of each name.
    """
    parts = names.loc[list(table.text.index)]
    if len(names.columns) == 1:
        return table
    order = list(parts.index)
    if len(names) <= LISTED:  # more are sorted by their scores
        groups = parts.groupby(parts.columns[0], sort=False)
        order = [name for _, group in groups for name in group.index]
    index = pd.MultiIndex.from_frame(parts.loc[order])
    text, bold = (
        cells.loc[order].set_axis(index) for cells in (table.text, table.bold)
    )
    return replace(table, text=text, bold=bold)


def _published(content: PageContent) -> Section:
    """Published scores and ours."""
    if not content.record.get("published"):
        return Section()
    comparison = pd.DataFrame(content.record["published"])
    return Section((), reproduction_tables(comparison), notes_on(comparison))


def _differences(content: PageContent) -> Section:
    """The differences of any two methods, a folded table for each comparison."""
    tables = []
    for title, difference in content.record.get("differences", {}).items():
        methods = difference["methods"]
        cells = pd.DataFrame(difference["cells"], methods, methods)
        tables.append(Table(title, cells, None, folded=True))
    lines = ["Row minus column x 100, with 95% intervals."] if tables else []
    return Section(lines, tables)


def _measures(title: str, content: PageContent) -> Section:
    """Tables of the measures of a section, and what they are of in the first one."""
    frames = content.analysis.frames
    kinds = {name: measure_of(name) for name in frames}
    own = [name for name, kind in kinds.items() if kind.section == title]
    tables = [table for name in own for table in kinds[name].tables(frames[name])]
    lines = [kinds[name].note for name in own if kinds[name].note]
    if own[0] == next(iter(frames)):
        lines.insert(0, _setting(content.analysis.setting))
    return Section(lines, tables)


def _setting(setting: Mapping[str, Any]) -> str:
    """Setting of the analysis in one line."""
    texts = {
        "fitted": "maps fitted on {} other sentences",
        "sentences": "{} sentences measured",
    }
    lists = {
        name: value if isinstance(value, list) else [value]
        for name, value in setting.items()
    }
    if "encoder" in lists:
        lists["encoder"] = list(short_names(lists["encoder"]).values())
    shown = {name: ", ".join(map(str, values)) for name, values in lists.items()}
    return ", ".join(
        texts.get(name, f"{name} {{}}").format(value) for name, value in shown.items()
    )


def _settings(content: PageContent) -> Section:
    """All settings; of several runs those that differ."""
    several = "run" in content.frame
    title = "Settings that differ" if several else "All settings"
    return Section((), [Table(title, content.settings, None, not several, words=True)])
