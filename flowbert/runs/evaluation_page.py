"""The page of an evaluation: what it shows beside its figures, and when it is written."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flowbert.analysis.found import Analysis
from flowbert.analysis.gold_bands import ScoredPairs, bands_by_method
from flowbert.analysis.plain import to_plain
from flowbert.analysis.sentence_tokens import COUNTED, words_in
from flowbert.analysis.whole import analysis_of
from flowbert.evaluation.resumable import ResumableRun
from flowbert.evaluation.sample_vectors import FEWEST
from flowbert.report.page.record import analysis_file
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
    analysis_file(run.output).unlink(missing_ok=True)  # an earlier run's is of other figures
    try:
        yield
    except BaseException:
        if run.output.is_file():
            write_page(run.output)
        raise
    if run.by_setting:
        write_page(run.output, lambda: analysis_of_run(run, has_text=has_text))


def analysis_of_run(run: ResumableRun, *, has_text: bool) -> Analysis:
    """Measure the sample of vectors that an evaluation kept, and the cosines of every STS task by gold score.

    All of it is of the first encoder, layers and pooling, and of one seed and corpus for each method.

    Args:
        run: The cells, and what is kept of them.
        has_text: Whether sentences are sentences, and not row numbers of vectors.
    """
    setting = to_plain(run.cells[0].source.columns)
    pairs = _pairs_of(run)
    vectors = {} if run.sample is None else {n: x for n, x in run.sample.vectors().items() if x.isfinite().all()}
    if run.sample is None or not vectors or len(run.sample.sentences) < FEWEST:
        return Analysis(setting, 0, 0, bands={task: bands_by_method(each) for task, each in pairs.items()})
    sentences, task = run.sample.sentences, run.cells[0].task
    setting["measured"] = f"{task.name} {task.split}"
    corpora = [cell.corpus for name, cell in run.sample.cells.items() if name in vectors and cell.corpus is not None]
    fitted = len(corpora[0]) if corpora else 0
    setting |= {"corpus": corpora[0].name} if corpora else {}
    if not has_text:
        return analysis_of(sentences, vectors, setting=setting, fitted=fitted, pairs=pairs).without_sentences()
    corpus = corpora[0].sentences if corpora else sentences
    setting |= {"contained": len({*sentences} & {*corpus})} if corpora else {}
    tokens = words_in(sentences, corpus[:COUNTED])
    return analysis_of(sentences, vectors, setting=setting, fitted=fitted, tokens=tokens, pairs=pairs)


def _pairs_of(run: ResumableRun) -> dict[str, ScoredPairs]:
    """Gold scores and cosines of every STS task, by task and split."""
    first = run.cells[0].source
    cosines: dict[STS, dict[str, Any]] = {}
    for cell in run.cells:
        found = run.scores.items([cell]).get(cell.setting)
        if isinstance(cell.task, STS) and cell.source is first and found is not None:
            cosines.setdefault(cell.task, {}).setdefault(cell.method.shown, found)
    return {
        f"{task.name} {task.split}": ScoredPairs(gold_scores(task.subsets), by_method)
        for task, by_method in cosines.items()
    }
