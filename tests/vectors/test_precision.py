"""Vectors in fewer bits: the codes that sentence-transformers has, with a scale that is kept."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from flowbert.errors import UserError
from flowbert.vectors import PRECISIONS, Ranges, quantize

DRAWN = np.random.default_rng(0).standard_normal((200, 20)) * np.arange(1, 21) + 3
X: npt.NDArray[np.float32] = DRAWN.astype(np.float32)


def test_codes_are_those_of_sentence_transformers() -> None:
    quantize_embeddings = pytest.importorskip("sentence_transformers.util").quantize_embeddings
    for precision, theirs in (("float32", "float32"), ("int8", "int8"), ("binary", "ubinary")):
        x = X[:, :16]
        np.testing.assert_array_equal(quantize(x, precision), quantize_embeddings(x, theirs))
        ranges = Ranges.of([x[:90], x[90:150]])
        expected = quantize_embeddings(x, theirs, ranges=np.stack([ranges.low, ranges.high]))
        np.testing.assert_array_equal(quantize(x, precision, ranges), expected)


def test_codes_restore_the_vectors_to_half_a_step() -> None:
    ranges = Ranges.of([X[:77], X[77:], X[:0]])
    step = (ranges.high - ranges.low) / 255
    assert (np.abs(ranges.restore(quantize(X, "int8", ranges)) - X) <= 0.5001 * step).all()


def test_values_beyond_the_ranges_are_cut_and_never_wrap() -> None:
    ranges = Ranges.of([X])
    codes = quantize(np.stack([ranges.low - 1e6, ranges.high + 1e6]), "int8", ranges)
    assert codes.tolist() == [[-128] * 20, [127] * 20]


@pytest.mark.parametrize("rounding", [0.0, 1e-5])
def test_a_dimension_that_does_not_vary_but_by_rounding_has_one_code(rounding: float) -> None:
    x = X.copy()
    x[:, 3] = 7 + rounding * X[:, 4]
    assert set(quantize(x, "int8")[:, 3].tolist()) == {0}
    assert len(set(quantize(x, "int8")[:, 4].tolist())) > 100


def test_signs_of_any_size_are_packed_by_row() -> None:
    packed = quantize(X, "binary")
    assert packed.dtype == np.uint8
    assert packed.shape == (200, 3)
    np.testing.assert_array_equal(np.unpackbits(packed, axis=1, count=20), X > 0)


def test_ranges_come_back_and_a_damaged_file_is_refused(tmp_path: Path) -> None:
    Ranges.of([X]).save(tmp_path / "raw.int8")
    back = Ranges.load(tmp_path / "raw.int8")
    np.testing.assert_array_equal(quantize(X, "int8", back), quantize(X, "int8"))
    np.testing.assert_array_equal(back.first(5).high, X.max(axis=0)[:5])
    content = bytearray((tmp_path / "raw.int8").read_bytes())
    content[-1] ^= 1
    (tmp_path / "raw.int8").write_bytes(content)
    with pytest.raises(UserError, match="int8 scale is damaged"):
        Ranges.load(tmp_path / "raw.int8")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(UserError, match="precision: received 'int4'; allowed: " + ", ".join(PRECISIONS)):
        quantize(X, "int4")
