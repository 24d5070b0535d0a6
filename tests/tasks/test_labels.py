"""No pair that is measured is learned from."""

import numpy as np
import pytest

from flowbert.data.scored_pairs import STSData, Subset
from flowbert.tasks import STS, load_tasks
from flowbert.tasks.sts import training_labels
from helpers import refused, warned

LEFT = tuple(f"Left  {n}" for n in range(12))
RIGHT = tuple(f"Right {n}" for n in range(12))
SCORES = np.arange(12.0)
LABELS = Subset("S", LEFT, RIGHT, SCORES)


@pytest.mark.parametrize(
    ("start", "order", "respell"),
    [(0, 1, str), (5, -1, str.swapcase), (10, 1, " {} ".format)],
)
def test_overlap_is_an_error_or_left_out(start, order, respell):
    sides = [tuple(map(respell, side[start:])) for side in (LEFT, RIGHT)]
    first, second = sides[::order]
    task = STS(STSData("T", {"test": [Subset("T", first, second, SCORES[start:])]}))
    message = f"{12 - start} of 24 pairs are measured in T test"
    labels = [LABELS, Subset("other", RIGHT, RIGHT, SCORES)]
    refused(message, training_labels, task, [task], labels)
    with warned(message):
        kept = training_labels(task, [task], labels, drop_overlap=True)
    assert kept.sentences1 == LEFT[:start] + RIGHT
    assert kept.sentences2 == RIGHT[:start] + RIGHT
    assert kept.scores.tolist() == [*SCORES[:start], *SCORES]


@pytest.mark.real
@pytest.mark.parametrize(
    ("names", "message"), [("STSB,STS14", "357 of 5749"), ("SICKR,SICKR", "93 of 4500")]
)
def test_real_overlap(real, names, message):
    root = str(real / "data" / "senteval")
    task, measured = (load_tasks(name, root)[0] for name in names.split(","))
    refused(message, training_labels, task, [measured])
