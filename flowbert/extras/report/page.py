"""The page of a run: verdicts, tables and pictures in one HTML file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from flowbert import __version__
from flowbert.data.text_files import user_path
from flowbert.errors import UserError
from flowbert.extras.analysis import Analysis, Plot, Table
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
    """Lines, tables and notes of a section of the page, in this order."""

    lines: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


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
    pictures = dict(_pictures(content, pictures_folder))
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("flowbert.extras.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    comparison = _comparison(content)
    html = environment.get_template("page.html.jinja").render(
        run=content,
        summary=content.summary,
        cosines=_cosines(content),
        neighbours=_neighbours(content),
        published=() if comparison.empty else reproduced_rows(comparison),
        sections=_sections(content, pictures),
        pictures=pictures,
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


def plots_of(content: PageContent) -> Iterator[tuple[str, str, Plot, pd.DataFrame]]:
    """Name, section and plot of each picture with the frame that it shows, in order."""
    for name, (section, make, plot) in CONTENT_PLOTS.items():
        yield name, section, plot, make(content)
    for measure, frame in content.analysis.frames.items():
        kind = measure_of(measure)
        for name, plot in kind.plots.items():
            yield name, kind.section, plot, frame


def _pictures(
    content: PageContent, folder: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write the pictures that there are data for; yield them by name."""
    for name, section, plot, frame in plots_of(content):
        if len(frame):
            picture = save_picture(plot, frame, folder / name)
            yield name, picture | {"section": section}


def _sections(
    content: PageContent, pictures: Mapping[str, Mapping[str, Any]]
) -> dict[str, Section]:
    """Sections by title, in order; empty ones are left out."""
    kinds = map(measure_of, content.analysis.frames)
    sections = {
        "Published scores": _published(content),
        "Results": _results(content),
        "Differences": _differences(content),
        "Training": Section(),
        **{kind.section: _measures(kind.section, content) for kind in kinds},
        "Settings": _settings(content),
    }
    shown = {picture["section"] for picture in pictures.values()}
    shown |= {"Results"} if len(content.frame) else set()
    shown |= {"Settings"} if content.options else set()
    return {
        title: section
        for title, section in sections.items()
        if title in shown or section.tables or section.lines
    }


def _results(content: PageContent) -> Section:
    """Tables of results."""
    if content.frame.empty:
        return Section()
    return Section((), content.summary.tables, content.summary.notes)


def _cosines(content: PageContent) -> dict[str, Any]:
    """By task and method, bands of the gold score: name, median, shares of the bins."""
    frames = content.analysis.frames
    if "band_cosines" not in frames:
        return {}
    frame = prepare_cosines(frames["band_cosines"])
    frame["share"] /= frame["share"].max()
    panels: dict[str, Any] = {}
    bands = ["task", "method", "gold_from", "gold_to", "median"]
    for (task, method, low, high, median), rows in frame.groupby(
        bands, sort=False, dropna=False
    ):
        band = {"name": f"{low:.3g} to {high:.3g}", "median": median}
        band |= {"shares": list(rows["share"]), "first": rows["cosine_from"].min()}
        panels.setdefault(task, {}).setdefault(method, []).insert(0, band)
    return panels


def _neighbours(content: PageContent) -> dict[str, Any]:
    """By sentence and method, records of the neighbours."""
    shown: dict[str, Any] = {}
    frames = content.analysis.frames
    if "neighbours" in frames:
        keys = ["sentence", "method"]
        for (sentence, method), rows in frames["neighbours"].groupby(keys, sort=False):
            shown.setdefault(sentence, {})[method] = rows.to_dict("records")
    return shown


def _published(content: PageContent) -> Section:
    """Published scores and ours."""
    comparison = _comparison(content)
    if comparison.empty:
        return Section()
    notes = notes_on(comparison)
    return Section([coverage(comparison)], task_tables(comparison), notes)


def _comparison(content: PageContent) -> pd.DataFrame:
    """What ``reproduce`` returned; a file has null for NaN."""
    return pd.DataFrame(content.record.get("published", [])).where(pd.notna)


def _differences(content: PageContent) -> Section:
    """The differences of any two methods, a folded table for each comparison."""
    tables = []
    for title, difference in content.record.get("differences", {}).items():
        methods = difference["methods"]
        cells = pd.DataFrame(difference["cells"], methods, methods)
        tables.append(Table(title, cells, folded=True))
    lines = ["Row minus column x 100, with 95% intervals."] if tables else []
    return Section(lines, tables)


def _measures(title: str, content: PageContent) -> Section:
    """Tables of the measures of a section, and what they are of in the first one."""
    frames = content.analysis.frames
    kinds = {name: measure_of(name) for name in frames}
    own = [name for name, kind in kinds.items() if kind.section == title]
    tables = [table for name in own for table in kinds[name].tables(frames[name])]
    lines = [line for name in own for line in kinds[name].lines(frames[name])]
    if own[0] == next(iter(frames)):
        lines.append(_setting(content.analysis.setting))
    return Section(lines, tables)


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


def _settings(content: PageContent) -> Section:
    """All settings; of several runs those that differ."""
    if content.options or content.settings.empty:
        return Section()
    return Section((), [Table("Settings that differ", content.settings, words=True)])
