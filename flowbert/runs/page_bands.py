"""What the page of an evaluation shows beside its figures: cosines by gold score."""

from collections.abc import Sequence
from typing import Any

from flowbert.analysis.found import Analysis
from flowbert.analysis.gold_bands import ScoredPairs, bands_by_method
from flowbert.analysis.plain import to_plain
from flowbert.evaluation.grid import Cell
from flowbert.evaluation.scores import ScoreFolder
from flowbert.tasks.pairs import gold_scores
from flowbert.tasks.sts import STS


def analysis_of_cells(cells: Sequence[Cell], scores: ScoreFolder) -> Analysis:
    """Cosines by gold score on every STS task: of the first encoder, layers and pooling, and of one seed per method."""
    first = cells[0].source
    cosines: dict[STS, dict[str, Any]] = {}
    for cell in cells:
        found = scores.items([cell]).get(cell.setting)
        if isinstance(cell.task, STS) and cell.source is first and found is not None:
            cosines.setdefault(cell.task, {}).setdefault(cell.method.shown, found)
    bands = {
        f"{task.name} {task.split}": bands_by_method(ScoredPairs(gold_scores(task.subsets), by_method))
        for task, by_method in cosines.items()
    }
    return Analysis(to_plain(first.columns), 0, 0, bands=bands)
