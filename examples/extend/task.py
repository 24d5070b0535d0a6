"""A task: finding questions that were asked before.

python train.py compare --tasks examples.extend.task.Duplicates:examples/extend/questions.csv
"""

from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score

from flowbert.arrays import Floats
from flowbert.data.tables import read_frame, read_sentences, read_texts
from flowbert.tasks import PairTask


class Duplicates(PairTask):
    """Average precision of the cosine, over pairs of which some ask the same.

    Args:
        source: File with the columns question1, question2 and is_duplicate (0 or 1).
    """

    metrics = (("average_precision", "all"),)
    headline = "average_precision"
    scored_with = ("is_duplicate",)

    def __init__(self, source: str) -> None:
        rows = read_frame(source, ("question1", "question2", "is_duplicate"))
        first, second = (read_sentences(rows, f"question{n}") for n in "12")
        super().__init__(Path(source).stem, first, second)
        self.is_duplicate = np.array(read_texts(rows, "is_duplicate")) == "1"

    def score(self, items: Floats) -> dict[tuple[str, str], float]:
        """Average precision of the cosines."""
        value = average_precision_score(self.is_duplicate, items)
        return {self.metrics[0]: float(value)}
