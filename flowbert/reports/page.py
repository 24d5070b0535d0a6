"""The page of a run: verdicts, tables and pictures in one HTML file."""

import base64
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from flowbert import __version__
from flowbert.errors import UserError
from flowbert.folders import write_files_atomically
from flowbert.io import write_atomically
from flowbert.reports.drawing import save_picture
from flowbert.reports.plots import PLOTS
from flowbert.reports.runs import Run, attempt, join_runs, read_run
from flowbert.reports.tables import Table, make_table, notes, result_tables, short_names

if TYPE_CHECKING:
    from jinja2 import Template

_SETTING = {
    "fitted": "maps fitted on {} other sentences",
    "sentences": "{} sentences measured",
    "map": "drawn in two dimensions by {}",
}
_GENERATOR = b'<meta name="generator" content="flowbert '


@dataclass(frozen=True, eq=False)
class Section:
    """What a section of the page holds beside its pictures; notes follow the tables."""

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
        runs: A run folder of ``fit`` or a results file of ``compare``, or several of them.
        output: The page, a file ending in .html; its pictures and their data are written into a
            folder beside it, in which files of others stay. None for ``report.html`` in a run
            folder, ``NAME.html`` beside ``NAME.json``, and ``comparison.html`` for several runs.

    Returns:
        Path of the page.

    Raises:
        UserError: If a path is no run, its results are damaged, ``output`` is no .html file, or
            there is a file at its place, or at that of a picture, that no page wrote.

    Example:
        >>> import tempfile
        >>> from flowbert.experiments.results import Results
        >>> path = Path(tempfile.mkdtemp()) / "results.json"
        >>> Results([], {"verdicts": ["Use: whitening"]}).save(path)
        >>> report(path).name
        'results.html'
    """
    given = [runs] if isinstance(runs, str | Path) else runs
    paths = list(dict.fromkeys(Path(run).resolve() for run in given))
    if not paths:
        raise UserError(
            "received none; expected run folders or files of results", argument="runs"
        )
    page = _page(paths) if output is None else Path(output)
    if page.suffix != ".html":
        raise UserError(
            f"received {output}; expected a file ending in .html", argument="output"
        )
    figures = page.with_suffix(".figures")
    if page.name == "report.html":
        figures = page.with_name("figures")
    _check_own(page)
    if len(paths) == 1:
        run = read_run(paths[0])
    else:
        names = short_names(map(str, paths))
        run = join_runs({name: read_run(Path(path)) for path, name in names.items()})
    with write_files_atomically(figures) as folder:
        pictures = dict(_pictures(run, folder))
    html = _template().render(
        run=run,
        sections=dict(_sections(run, pictures)),
        plots=PLOTS,
        pictures=pictures,
        folder=figures.name,
        version=__version__,
    )
    with write_atomically(page) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return page


def _check_own(page: Path) -> None:
    """Refuse to replace a page of something else."""
    if page.is_file() and _GENERATOR not in page.read_bytes()[:1000]:
        raise UserError(
            f"received {page}, which is no page of flowbert; expected another file",
            argument="output",
        )


def _page(paths: Sequence[Path]) -> Path:
    if len(paths) > 1:
        return Path("comparison.html")
    is_folder = paths[0].is_dir()
    return paths[0] / "report.html" if is_folder else paths[0].with_suffix(".html")


def _template() -> "Template":
    from jinja2 import Environment

    source = files("flowbert.reports").joinpath("page.html.jinja").read_text("utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source)


def _pictures(run: Run, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write the pictures that a run has data for; yield them by name as the page needs them."""
    for name, plot in PLOTS.items():
        picture = attempt(name, partial(save_picture, plot, run, folder / name), None)
        if picture is not None:
            data = base64.b64encode(picture.svg).decode()
            source = f"data:image/svg+xml;base64,{data}"
            yield name, picture._asdict() | {"source": source}


def _sections(run: Run, pictures: Collection[str]) -> Iterator[tuple[str, Section]]:
    """Sections by title, in order; empty ones are left out."""
    makers = {
        "Results": _results,
        "Training": lambda _: Section(),
        "Embedding space": _space,
        "Word space": lambda _: Section(),
        "Nearest neighbours": _neighbours,
        "Settings": _settings,
    }
    drawn = {PLOTS[name].section for name in pictures}
    for title, make in makers.items():
        section = attempt(title, partial(make, run), Section())
        if title in drawn or section.tables:
            yield title, section


def _results(run: Run) -> Section:
    """Tables of results, and the differences of any two methods."""
    if run.frame.empty:
        return Section()
    tables = result_tables(run.frame)
    for title, difference in run.record.get("differences", {}).items():
        methods = difference["methods"]
        cells = pd.DataFrame(difference["cells"], methods, methods)
        caption = f"Differences x 100 with 95% intervals, row minus column: {title}"
        tables.append(Table(caption, cells, None, folded=True))
    published = pd.DataFrame(run.record.get("published", []))
    if len(published):
        cells = published.set_index("row").round(2).astype(str)
        cells = cells.replace(["nan", "None"], "")
        tables.insert(0, Table("Published figures and ours, Spearman x 100", cells))
    warned = [f"Warning: {warning}" for warning in run.record.get("warnings", [])]
    return Section((), tables, [*warned, *notes(run.frame)])


def _space(run: Run) -> Section:
    """Measures of vectors and latents, and what they are of."""
    frames = {
        "Measures of the vectors": run.analysis.measures,
        "Latents against a standard normal distribution": run.analysis.latents,
        "Bits per dimension of held-out sentences": run.analysis.bits,
    }
    tables = []
    for title, frame in frames.items():
        if len(frame):
            numbers = frame.set_index(frame.columns[0])
            numbers.columns = numbers.columns.str.replace("_", " ")
            tables.append(Table(title, numbers.map("{:.3f}".format)))
    setting = [
        _SETTING.get(name, f"{name} {{}}").format(
            str(value).upper() if name == "map" else value
        )
        for name, value in run.analysis.setting.items()
    ]
    return Section([", ".join(setting)], tables)


def _neighbours(run: Run) -> Section:
    """The nearest neighbours of some sentences, a table for each."""
    names = {"rank": "label", "method": "column", "neighbour": "text", "moved": "bold"}
    neighbours = run.analysis.neighbours.rename(columns=names)
    tables = [
        make_table(str(sentence), cells, words=True)
        for sentence, cells in neighbours.groupby("sentence", sort=False)
    ]
    return Section(["Bold: not among the neighbours under raw."], tables)


def _settings(run: Run) -> Section:
    """All settings; of several runs those that differ."""
    several = "run" in run.frame
    title = "Settings that differ" if several else "All settings"
    return Section((), [Table(title, run.settings, None, not several, words=True)])
