"""Vectors of the built-in encoder as they are: stored embeddings are keyed by weights, not by code."""

import numpy as np
import pytest

from flowbert import SentenceEncoder
from flowbert.encoders import encoder as module

SENTENCES = ["A man is playing a guitar.", "Two dogs run across the snow, and one of them barks."]
# The first four numbers of each, at _VECTORS = 1.
PINNED = {
    ("last", "mean"): [[0.47298, -0.8647, 0.73615, 1.09285], [0.81584, -1.00492, 0.58486, 1.05008]],
    ("first_last", "mean"): [[0.09047, -0.64844, 0.44873, 0.80742], [0.68083, -0.84649, 0.41033, 0.60726]],
    ("last", "cls"): [[0.5143, -2.21262, 0.12057, 1.04834], [0.75759, -1.93555, 1.31693, 0.73008]],
    ("embedding_last", "max"): [[1.43627, 0.19769, 1.29842, 1.67717], [0.98347, 1.38749, 1.58337, 1.42948]],
}


@pytest.mark.parametrize(("layers", "pooling"), PINNED)
def test_vectors_do_not_move_unnoticed(layers: str, pooling: str) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers=layers, pooling=pooling)
    moved = "the vectors moved: raise _VECTORS in flowbert/encoders/encoder.py, then pin them anew"
    found = encoder.encode(SENTENCES)[:, :4]
    np.testing.assert_allclose(found, PINNED[layers, pooling], atol=2e-4, err_msg=moved)


def test_the_number_is_part_of_the_identity_from_2_on(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = SentenceEncoder.from_pretrained("builtin-sample")
    key = encoder.key()
    assert "vectors" not in key  # stores made before there was a number stay valid
    monkeypatch.setattr(module, "_VECTORS", 2)
    assert encoder.key() == key | {"vectors": 2}
