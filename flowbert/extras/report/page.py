"""The page of a run: verdicts, tables and pictures in one HTML file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader

from flowbert import __version__
from flowbert.data.text_files import user_path
from flowbert.errors import UserError
from flowbert.extras.analysis import Analysis, Table
from flowbert.extras.analysis.bands import prepare_cosines
from flowbert.extras.analysis.drawing import DARK, method_colours, save_picture
from flowbert.extras.analysis.measure import measure_of
from flowbert.extras.report.content import (
    PageContent,
    join_contents,
    read_content,
)
from flowbert.extras.report.plots import CONTENT_PLOTS
from flowbert.extras.report.reproduction import (
    coverage,
    notes_on,
    reproduced_rows,
    task_tables,
)
from flowbert.io import as_json, write_atomically
from flowbert.options import takes_options
from flowbert.text_tables import short_names

_GENERATOR = b'<meta name="generator" content="flowbert '


@dataclass(frozen=True, eq=False)
class Section:
    """A section of the page: lines, tables, notes and pictures, in this order."""

    lines: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pictures: dict[str, Any] = field(default_factory=dict)


@takes_options
def report(
    runs: str | Path | Sequence[str | Path], output: str | Path | None = None
) -> Path:
    """Write the page of a run, finished or not, or one page of several runs.

    Nothing is encoded or fitted: the page is made of the files of the runs.

    Args:
        runs: A run folder of ``fit``, a results file of ``compare``, an ``.analysis.json`` file of
            ``analyze``, or several of them.
        output: The page, a file ending in .html; its pictures and their data are written into a
            folder next to it, where other files are kept. None for ``report.html`` in a run
            folder, ``NAME.html`` next to ``NAME.json``, and ``comparison.html`` for several runs.

    Returns:
        Path of the page.

    Raises:
        UserError: If a path is not a run, its files are damaged, or ``output`` is not an .html
            file, or one that is not a page of flowbert.

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
        (path,) = paths
        page = path / "report.html" if path.is_dir() else path.with_suffix(".html")
        content = read_content(path)
    else:
        page = Path("comparison.html")
        names, nothing = short_names(map(str, paths)), Analysis({}, {})
        content = join_contents(
            {name: read_content(Path(path), nothing) for path, name in names.items()}
        )
    page = user_path(output or page)
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
    # What reproduce returned; a file has null for NaN.
    comparison = pd.DataFrame(content.record.get("published", [])).where(pd.notna)
    environment = Environment(
        loader=PackageLoader("flowbert.extras.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html = environment.get_template("page.html.jinja").render(
        run=content,
        frames=content.analysis.frames,
        prepare_cosines=prepare_cosines,
        summary=content.summary,
        published=() if comparison.empty else reproduced_rows(comparison),
        sections=_sections(content, comparison, pictures_folder),
        colour_of=lambda method: method_colours([method])[method][1:],
        dark=DARK,
        yaml=yaml.safe_dump(
            as_json(content.options),
            sort_keys=False,
            allow_unicode=True,
        ),
        folder=pictures_folder.name,
        version=__version__,
    )
    with write_atomically(page) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return page


def _sections(
    content: PageContent, comparison: pd.DataFrame, folder: Path
) -> dict[str, Section]:
    """Sections by title, in order; their pictures are written into the folder."""
    frame, frames = content.frame, content.analysis.frames
    sections: dict[str, Section] = {}
    if len(comparison):
        sections["Published scores"] = Section(
            [coverage(comparison)], task_tables(comparison), notes_on(comparison)
        )
    if len(frame):
        sections["Results"] = Section([], content.summary.tables, content.summary.notes)
    if differences := content.record.get("differences"):
        tables = []
        for title, difference in differences.items():
            methods = difference["methods"]
            cells = pd.DataFrame(difference["cells"], methods, methods)
            tables.append(Table(title, cells, folded=True))
        line = "Row minus column x 100, with 95% intervals."
        sections["Differences"] = Section([line], tables)
    for name, (title, make, plot) in CONTENT_PLOTS.items():
        shown = make(content)
        if len(shown):
            picture = save_picture(plot, shown, folder / name)
            sections.setdefault(title, Section()).pictures[name] = picture
    measured = [(measure_of(name), frame) for name, frame in frames.items()]
    for measure, frame in measured:
        section = sections.setdefault(measure.section, Section())
        section.lines.extend(measure.lines(frame))
        section.tables.extend(measure.tables(frame))
        for name, plot in measure.plots.items():
            section.pictures[name] = save_picture(plot, frame, folder / name)
    if measured:
        first = sections[measured[0][0].section]
        setting = dict(content.analysis.setting)
        first.lines.extend(setting.pop("failures", []))
        first.lines.append(_setting(setting))
    if content.options:
        sections["Settings"] = Section()
    elif len(content.settings):
        table = Table("Settings that differ", content.settings, words=True)
        sections["Settings"] = Section(tables=[table])
    return sections


def _setting(setting: Mapping[str, Any]) -> str:
    """Setting of the analysis in one line."""
    texts = {
        "encoder": f"encoder {Path(str(setting.get('encoder'))).name}",
        "fitted": f"maps fitted on {setting.get('fitted')} other sentences",
        "sentences": f"{setting['sentences']} sentences measured",
    }
    lists = {
        name: ", ".join(map(str, value if isinstance(value, list) else [value]))
        for name, value in setting.items()
    }
    return ", ".join(texts.get(name, f"{name} {text}") for name, text in lists.items())
