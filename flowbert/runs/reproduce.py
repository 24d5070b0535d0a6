"""Published rows with their setting here: ours, theirs, the difference, inside our interval or not."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from flowbert.data.files import as_list
from flowbert.data.sts import TASKS
from flowbert.errors import UserError, choices
from flowbert.evaluation.request import as_numbers
from flowbert.progress import tracked
from flowbert.reproduction.comparison import FigureComparison, Reproduction, record_of
from flowbert.reproduction.grid import Figures, PublishedGrid
from flowbert.reproduction.published import PublishedRow, Setting, published_row, published_rows
from flowbert.runs.evaluation_page import page_of
from flowbert.runs.pages import pages_are_written
from flowbert.tasks.replicates import Replicates, average


def reproduce(
    rows: str | Sequence[str] | None = None,
    *,
    table: str | None = None,
    encoder: str | None = None,
    senteval: str | None = None,
    nli: str = "hub",
    tasks: str | Sequence[str] | None = None,
    seeds: int | str | Sequence[int] = (0,),
    bootstrap: int = 1000,
    bootstrap_seed: int = 0,
    output: str | Path | None = None,
    store_dir: str | None = None,
    device: str | torch.device = "cpu",
) -> list[Reproduction]:
    """Run published rows with their exact setting and lay ours beside theirs.

    A row that cannot be run, because its encoder or data cannot be had, says so in its note, and the rest runs.

    Args:
        rows: Ids of rows; here, in ``tasks`` and in ``seeds`` a text may hold several, comma-separated. Default: those
            of ``table``.
        table: A source (``li2020``) or one of its tables (``li2020-2``); default: all.
        encoder: Name of a published encoder: only its rows. A folder, run folder or file of word vectors: in place of
            the published encoder; the published figures are context then, unless the folder has the encoder's name.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        nli: NLI source of the rows that are fitted on NLI: ``hub``, or files.
        tasks: Only these tasks; default: all of a row.
        seeds: Seeds of the flows; several are compared as their mean.
        bootstrap: Resamples for the 95% confidence intervals; 0: none.
        bootstrap_seed: Seed of the resampling.
        output: FILE.json that keeps the figures and is not computed again, with its page FILE.html; default: nothing
            is kept.
        store_dir: Folder of the embedding stores; default: $FLOWBERT_CACHE or ~/.cache/flowbert.
        device: Where encoders and flows run.

    Raises:
        UserError: If a name is unknown, or nothing says where the tasks are.

    Example:
        >>> (found,) = reproduce(["li2020-2-glove-mean"], senteval="data/downstream")
        >>> print(found.text())
        li2020-2-glove-mean (word vectors, layers none, pooling mean of word vectors, not cut, raw, all)
          note: cannot be run: the row needs word vectors; allowed as the encoder: a text file of them
    """
    for task in as_list(tasks, "tasks"):
        if task not in TASKS:
            raise UserError(f"tasks: received {task!r}; {choices(TASKS, task)}")
    if senteval is None:
        raise UserError("senteval: received nothing; allowed: a folder laid out as SentEval's data/downstream, or hub")
    chosen, substitute = _chosen(as_list(rows, "rows"), table, encoder)
    grid = PublishedGrid(
        encoder=substitute,
        encoder_is_trained=rows is not None,
        tasks=as_list(tasks, "tasks") or TASKS,
        senteval=senteval,
        nli=nli,
        seeds=as_numbers(seeds, "seeds", int),
        store_dir=store_dir,
        device=torch.device(device),
    )
    failures: dict[str, str] = {}

    def each(step: Callable[[PublishedRow], None], rows: Iterable[PublishedRow] = chosen) -> None:
        for row in rows:
            if row.id not in failures:
                try:
                    step(row)
                except UserError as error:
                    failures[row.id] = f"cannot be run: {error}"

    with ExitStack() as stack:
        each(grid.place)
        each(grid.plan)
        file = Path(output or Path(stack.enter_context(TemporaryDirectory())) / "results.json")
        run = grid.open(file, with_vectors=output is not None and pages_are_written())
        if output is not None:
            stack.enter_context(page_of(run, has_text=True))
        each(grid.compute, tracked(chosen, "Reproducing", "rows"))
        grid.resample(bootstrap, bootstrap_seed)
        found = [_reproduction(row, substitute, grid.figures(row), failures.get(row.id, "")) for row in chosen]
        grid.save(record_of(found))
    return found


def _chosen(ids: Sequence[str], table: str | None, encoder: str | None) -> tuple[Sequence[PublishedRow], str | None]:
    """The rows, and the encoder in place of the published one, if any."""
    rows = [published_row(row_id) for row_id in ids] or published_rows(table)
    names = {name for row in published_rows() for name in (row.encoder, row.setting.encoder)}
    if encoder is None or encoder not in names or Path(encoder).exists():
        return rows, encoder
    mine = [row for row in rows if encoder in (row.encoder, row.setting.encoder)]
    if not mine:
        there = dict.fromkeys(row.encoder for row in rows)
        raise UserError(f"encoder: none of the rows asked for has {encoder}; {choices(there, encoder)}")
    return mine, None


def _reproduction(row: PublishedRow, substitute: str | None, figures: dict[str, Figures], failure: str) -> Reproduction:
    comparisons = [
        _comparison(task, found.by_seed, found.replicates, row.figures[task]) for task, found in figures.items()
    ]
    seeds = max((len(found.by_seed) for found in figures.values()), default=0)
    whole = [found for found in comparisons if math.isfinite(found.ours) and len(figures[found.task].by_seed) == seeds]
    lacking = [found.task for found in comparisons if found not in whole]
    if len(whole) > 1:
        replicates = [found for each in whole if (found := figures[each.task].replicates) is not None]
        comparisons.append(
            _comparison(
                "Avg",
                [statistics.fmean(found.ours for found in whole)],
                average(replicates) if len(replicates) == len(whole) else None,
                statistics.fmean(found.theirs for found in whole),
            )
        )
    other = substitute is not None and not _same_name(substitute, row.setting)
    notes = [failure]
    if substitute is not None and not failure:
        notes.append(f"{substitute} {'in place of' if other else 'taken, by its name, for'} the published encoder")
    if lacking and whole:
        notes.append(f"Avg is without {', '.join(lacking)}: no figure of all seeds")
    notes += dict.fromkeys(reason for found in figures.values() for reason in found.reasons)
    return Reproduction(row, tuple(comparisons), other, "; ".join(note for note in notes if note))


def _same_name(path: str, setting: Setting) -> bool:
    """Whether a folder is called like the published encoder: a local copy of it."""
    return setting.encoder is not None and not setting.trained and Path(path).name == setting.encoder.split("/")[-1]


def _comparison(task: str, figures: Sequence[float], replicates: Replicates | None, theirs: float) -> FigureComparison:
    low = high = math.nan
    if replicates is not None:
        interval = replicates.interval("ours")
        low, high = 100 * interval.low, 100 * interval.high
    std = statistics.stdev(figures) if len(figures) > 1 and all(map(math.isfinite, figures)) else math.nan
    return FigureComparison(task, statistics.fmean(figures), low, high, theirs, std)
