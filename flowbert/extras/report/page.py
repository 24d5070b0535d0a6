"""The page of a run: finding, tables and pictures in one HTML file."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from flowbert import __version__
from flowbert.data.text_files import user_path
from flowbert.errors import UserError
from flowbert.experiments.commands import next_commands
from flowbert.experiments.summary import GENERATED, Summary
from flowbert.extras.analysis import VIEWS, View
from flowbert.extras.analysis.drawing import (
    house_style,
    method_colour,
    save_picture,
)
from flowbert.extras.analysis.frames import format_table
from flowbert.extras.analysis.sample import RAW
from flowbert.extras.report import reproduction
from flowbert.extras.report.content import RunFiles, join_runs, read_run_files
from flowbert.extras.report.plots import result_frames
from flowbert.io import as_json, write_atomically
from flowbert.options import ReportOptions, takes
from flowbert.tasks import AVERAGE
from flowbert.tasks.measures import SPACE_METRICS
from flowbert.text_tables import short_names

FEW_PAIRS = 200
"""Number of pairs of a task below which the page warns."""

_CONTEXT = "Encoder or pairs are not the published ones: published scores are context, no targets."
_MINUS = "\N{MINUS SIGN}"


@takes(ReportOptions)
def report(options: ReportOptions) -> Path:
    """Write the page of a run, finished or not, or one page of several runs.

    The page is made from the files of the runs; nothing is encoded or fitted.

    Args:
        options: Fields of :class:`flowbert.options.ReportOptions`, as arguments.

    Returns:
        Path of the page.

    Raises:
        UserError: If a path is not a run, its files are damaged, or ``output`` is not an .html
            file.

    Example:
        >>> import tempfile
        >>> from flowbert.experiments.results import Results
        >>> path = Path(tempfile.mkdtemp()) / "results.json"
        >>> Results([], {"verdicts": ["use whitening"]}).save(path)
        >>> report(path).name
        'results.html'
    """
    given = [options.runs] if isinstance(options.runs, str | Path) else options.runs
    paths = list(dict.fromkeys(user_path(run).resolve() for run in given))
    if not paths:
        raise UserError(
            "received none; expected run folders or files of results", argument="runs"
        )
    page = _page_file(paths, options.output)
    next_lines: list[str] = []
    if len(paths) == 1:
        run = read_run_files(paths[0])
        next_lines = next_commands(paths[0], run.about)
    else:
        names = short_names(map(str, paths))
        run = join_runs(
            {name: read_run_files(Path(x), analyzed=False) for x, name in names.items()}
        )
    folder = page.with_suffix(".figures")
    if page.name == "report.html":
        folder = page.with_name("figures")
    folder.mkdir(parents=True, exist_ok=True)
    html = _render(run, next_lines, folder)
    with write_atomically(page) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return page


def _page_file(paths: Sequence[Path], output: str | Path | None) -> Path:
    """The file of the page."""
    page = Path("comparison.html")
    if len(paths) == 1:
        (path,) = paths
        page = path / "report.html" if path.is_dir() else path.with_suffix(".html")
    page = user_path(output or page)
    if page.suffix != ".html":
        raise UserError(
            argument="output", received=page, expected="a file ending in .html"
        )
    return page


def _render(run: RunFiles, next_lines: Sequence[str], folder: Path) -> str:
    """Render the page, and write its pictures into the folder."""
    published = pd.DataFrame(run.about.get("published", [])).fillna(math.nan)
    results = run.results if published.empty else run.results[:0]
    summary = Summary(results, run.about)
    analyzed = run.analysis.setting
    cautions = [*run.about.get("warnings", []), *analyzed.get("failures", [])]
    heading = run.name
    if len(published):
        heading = reproduction.finding(published)
        cautions += reproduction.notes_on(reproduction.measured(published))
        if published["difference"].isna().all():
            cautions.insert(0, _CONTEXT)
    elif len(results):
        heading = summary.finding or heading
    elif "encoder" in analyzed:
        heading = f"Analysis of {analyzed['encoder'].rpartition('/')[2]}"
    tasks = results.drop_duplicates(["task", "pairs"]).set_index("task")["pairs"]
    if GENERATED in summary.notes:
        cautions.insert(0, GENERATED)
    cautions += [
        f"{task} has only {count} pairs: with others, another method may be ahead."
        for task, count in tasks[tasks < FEW_PAIRS].items()
    ]
    environment = Environment(
        loader=PackageLoader("flowbert.extras.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "cell": _mark_up,
        "typeset": _typeset,
        "colour": method_colour,
    }
    return environment.get_template("page.html.jinja").render(
        run=run,
        summary=summary,
        heading=heading,
        cautions=list(dict.fromkeys(cautions)),
        scores=_scores(summary),
        gains=gains_by_task(summary),
        differences=_differences(run),
        views=_show(frames_of(run, summary, published), folder),
        next_lines=next_lines,
        yaml=yaml.safe_dump(as_json(run.options), sort_keys=False, allow_unicode=True),
        folder=folder.name,
        version=__version__,
    )


def frames_of(
    run: RunFiles, summary: Summary, published: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    """Frames of the page by the names of their views."""
    frames = run.analysis.frames | reproduction.published_frames(published)
    frames |= result_frames(summary, run.metrics)
    if summary.frame.empty:
        return frames
    best = {RAW, *summary.used["method"]}
    for name in ("band_cosines", "neighbours", "sentences"):
        if name in frames and len(best) > 1:
            shown = frames[name]["method"].isin(best)
            frames[name] = frames[name][shown | ~shown.any()]
    if "isotropy" in frames:  # those of the tasks are in the results
        known = frames["isotropy"].columns.intersection([*SPACE_METRICS])
        frames["isotropy"] = frames["isotropy"].drop(columns=known)
    return frames


def _show(
    frames: Mapping[str, pd.DataFrame], folder: Path
) -> dict[str, list[tuple[str, View, Any]]]:
    """Name, view and content (a table of texts or a picture), by section.

    Each frame is written as .csv, each picture as .svg and .png.
    """
    shown: dict[str, list[tuple[str, View, Any]]] = {}
    for name, view in VIEWS.items():
        frame = frames.get(name, pd.DataFrame())
        if frame.empty:
            continue
        frame.to_csv(folder / f"{name}.csv", index=False)
        with house_style():
            content = view.show(frame)
            if isinstance(content, Figure):
                content = Markup(save_picture(content, folder / name))
            else:
                content = format_table(content)
        shown.setdefault(view.section, []).append((name, view, content))
    return shown


def _scores(summary: Summary) -> pd.DataFrame:
    """The table of the terminal, with the encoder and the method of each row."""
    rows = summary.rows
    if rows.empty:
        return pd.DataFrame()
    groups = rows["group"] if rows["group"].nunique() > 1 else [""] * len(rows)
    names = pd.MultiIndex.from_arrays([groups, rows["name"]], names=["", "method"])
    return summary.text.loc[rows["label"]].set_axis(names)


def gains_by_task(summary: Summary) -> dict[str, str]:
    """Gains over raw by task, the largest first, of each row to use by its label."""
    cells, rows = summary.cells, summary.rows
    cells = cells[cells["metric"].eq(summary.metric) & cells["task"].ne(AVERAGE)]
    scores = cells.pivot(index="column", columns="label", values="value")
    raw = rows[rows["raw"]].drop_duplicates("group", keep=False)
    texts = {}
    for row in summary.used.merge(raw, on="group", suffixes=("", "_raw")).itertuples():
        gains = scores[row.label] - scores[row.label_raw]
        gains = gains.sort_values(ascending=False).map(" {:+.1f}".format)
        texts[row.label] = ", ".join(gains.index + gains.str.replace("-", _MINUS))
    return texts


def _differences(run: RunFiles) -> dict[str, pd.DataFrame]:
    """Differences of any two rows (row minus column), by title."""
    return {
        title: pd.DataFrame(each["cells"], each["methods"], each["methods"])
        for title, each in run.about.get("differences", {}).items()
    }


def _mark_up(cell: str) -> Markup:
    """Mark up a cell: its interval is small, the words use and tied are chips."""
    if cell in ("use", "tied"):
        return Markup('<span class="chip {0}">{0}</span>').format(cell)
    value, bracket, interval = cell.partition(" [")
    number = value.partition(" ±")[0].lstrip("+-")
    if number.replace(".", "").isdigit():
        value, interval = value.replace("-", _MINUS), interval.replace("-", _MINUS)
    detail = Markup(" <small>[{}</small>").format(interval) if bracket else ""
    return escape(value) + detail


def _typeset(text: Any) -> str:
    """Replace the letter x of a unit by a multiplication sign."""
    return str(text).replace(" x 100", " \N{MULTIPLICATION SIGN} 100")
