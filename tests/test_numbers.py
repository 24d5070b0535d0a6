"""Numbers in text: what Python's own grammar allows beyond is refused wherever text is read."""

import pytest

from flowbert.encoders.layers import resolve_layers
from flowbert.encoders.pooling import make_pooling
from flowbert.errors import UserError
from flowbert.maps import make_map
from flowbert.numbers import parse_integer, parse_number, parse_numbers

NO_NUMBERS = ["1_0", "\uff11", "\u0663", "nan", "inf", "-Infinity", "1e400", "", "0x1"]


def open_map(text):
    make_map(text).check(16)


READERS = {
    "whitening:shrinkage={}": open_map,
    "whitening-{}": open_map,
    "sif:a={}": make_pooling,
    "1,{}": lambda text: resolve_layers(text, 12),
}


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_no_numbers(text):
    with pytest.raises(ValueError, match=r"is not a number|is not finite"):
        parse_number(text)
    with pytest.raises(ValueError, match=r"is not a number|is not finite"):
        parse_numbers(["1", text])
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_integer(text)
    for option, read in READERS.items():
        with pytest.raises(UserError):
            read(option.format(text))


def test_numbers_are_those_of_python():
    for text in ("0", "-1", "+2.", ".5", "4.5e-1", "1E3", " 7 "):
        assert parse_number(text) == float(text)
    assert [parse_integer(text) for text in ("12", "-3", "+4 ")] == [12, -3, 4]
    with pytest.raises(ValueError, match=r"'1\.0' is not a whole number"):
        parse_integer("1.0")
