"""The page of an evaluation: what it shows beside its figures, and when it is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flowbert.analysis.found import Analysis
from flowbert.analysis.gold_bands import ScoredPairs, bands_of
from flowbert.analysis.plain import to_plain
from flowbert.analysis.sentence_tokens import COUNTED, words_in
from flowbert.analysis.whole import analysis_of
from flowbert.evaluation.resumable import ResumableRun
from flowbert.evaluation.sample_vectors import FEWEST
from flowbert.report.page.record import analysis_file, page_file
from flowbert.runs.pages import write_page
from flowbert.tasks.pairs import gold_scores
from flowbert.tasks.sts import STS


@contextmanager
def page_of(run: ResumableRun, *, has_text: bool) -> Iterator[None]:
    """Write the page of an evaluation in the end, or of the figures that there are if something stops it.

    Args:
        run: Its cells, and what is kept of them.
        has_text: Whether sentences are sentences, and not row numbers of vectors.
    """
    for file in (analysis_file(run.output), page_file(run.output)):
        file.unlink(missing_ok=True)  # an earlier run's is of other figures
    try:
        yield
    except BaseException:
        if run.output.is_file():
            write_page(run.output)
        raise
    write_page(run.output, lambda: analysis_of_run(run, has_text=has_text) if run.by_setting else None)


def analysis_of_run(run: ResumableRun, *, has_text: bool) -> Analysis:
    """Measure the sample of vectors that an evaluation kept, and the cosines of every STS task by gold score.

    All of it is of the first encoder, layers and pooling, and of one seed and corpus for each method.

    Args:
        run: The cells, and what is kept of them.
        has_text: Whether sentences are sentences, and not row numbers of vectors.
    """
    setting, pairs, sample = to_plain(run.cells[0].source.columns), _pairs_of(run), run.sample
    found = {} if sample is None else sample.vectors()
    # A spectrum and an angle need two dimensions.
    vectors = {name: rows for name, rows in found.items() if rows.isfinite().all() and rows.shape[1] > 1}
    if sample is None or not vectors or len(sample.sentences) < FEWEST:
        return Analysis(setting, 0, 0, bands=bands_of(pairs))
    cells = {name: cell for name, cell in sample.cells.items() if name in vectors}
    measured = next(iter(cells.values())).task
    setting |= {
        "measured": f"{measured.name} {measured.split}",
        "left_out": [name for name in sample.cells if name not in cells],
    }
    setting["fitted_on"] = {name: text for name, cell in cells.items() if (text := cell.columns["corpus"]) != "none"}
    corpora = {cell.corpus.digest: cell.corpus for cell in cells.values() if cell.corpus is not None}
    one = next(iter(corpora.values())) if len(corpora) == len({*setting["fitted_on"].values()}) == 1 else None
    fitted = 0 if one is None else len(one)
    if not has_text:
        return analysis_of(sample.sentences, vectors, setting=setting, fitted=fitted, pairs=pairs).without_sentences()
    if one is not None:
        setting["contained"] = len({*sample.sentences} & {*one.sentences})
    counted = sample.sentences if one is None else one.sentences[:COUNTED]
    tokens = words_in(sample.sentences, counted)
    return analysis_of(sample.sentences, vectors, setting=setting, fitted=fitted, tokens=tokens, pairs=pairs)


def _pairs_of(run: ResumableRun) -> dict[str, ScoredPairs]:
    """Gold scores and cosines of every STS task, by task and split."""
    first = run.cells[0].source.columns  # weights by counts of each task's own sentences are sources of their own
    cosines: dict[STS, dict[str, Any]] = {}
    for cell in run.cells:
        found = run.scores.items([cell]).get(cell.setting)
        if isinstance(cell.task, STS) and cell.source.columns == first and found is not None:
            cosines.setdefault(cell.task, {}).setdefault(cell.method.shown, found)
    return {
        f"{task.name} {task.split}": ScoredPairs(gold_scores(task.subsets), by_method)
        for task, by_method in cosines.items()
    }
