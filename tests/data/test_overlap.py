"""No pair that is measured is learned from."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flowbert.data.overlap import without_overlap
from flowbert.data.sts import Subset, load_sts
from flowbert.errors import FlowbertWarning, UserError

LEFT = tuple(f"Left  {n}" for n in range(12))
RIGHT = tuple(f"Right {n}" for n in range(12))
LABELS = Subset("S", LEFT, RIGHT, np.arange(12.0))


@pytest.mark.parametrize(
    ("start", "order", "respell"),
    [(0, 1, str), (5, -1, str.swapcase), (11, 1, " {} ".format)],
)
def test_overlap_is_refused_or_left_out(
    start: int, order: int, respell: Callable[[str], str]
) -> None:
    sides = [[respell(text) for text in side[start:]] for side in (LEFT, RIGHT)]
    first, second = sides[::order]
    message = f"{12 - start} of 24 pairs are measured in T test"
    labels = [LABELS, Subset("other", RIGHT, RIGHT, LABELS.scores)]
    with pytest.raises(UserError, match=message):
        without_overlap(labels, (first, second), "T test")
    with pytest.warns(FlowbertWarning, match=message):
        kept = without_overlap(labels, (first, second), "T test", drop=True)
    assert [len(subset) for subset in kept] == ([start, 12] if start else [12])
    if start:
        assert (kept[0].sentences1, kept[0].sentences2) == (LEFT[:start], RIGHT[:start])
        np.testing.assert_array_equal(kept[0].scores, np.arange(start))


@pytest.mark.real
@pytest.mark.parametrize(
    ("labels", "measured", "message"),
    [
        ("STSB", "STS14", "357 of 5749"),
        ("SICKR", "SICKR", "93 of"),
    ],
)
def test_real_overlap(real: Path, labels: str, measured: str, message: str) -> None:
    root = real / "data" / "senteval"
    tested = load_sts(measured, root).split("test")
    first = [text for subset in tested for text in subset.sentences1]
    second = [text for subset in tested for text in subset.sentences2]
    with pytest.raises(UserError, match=message):
        without_overlap(
            load_sts(labels, root).split("train"), (first, second), measured
        )
