"""Numbers: one grammar for text in files and options, and checks of values.

Python itself reads ``1_0`` as 10, full-width digits, and ``nan``.
"""

import math
import re
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

_INTEGER = re.compile(r"[+-]?[0-9]+")


def parse_numbers(texts: Sequence[str]) -> list[float]:
    """Finite decimal numbers, such as ``-4.5e-1``.

    Raises:
        ValueError: For the first text that is not a finite number.

    Example:
        >>> parse_numbers(["3", "-4.5e-1"])
        [3.0, -0.45]
    """
    joined = "".join(texts)
    if "_" in joined or not joined.isascii():
        wrong = next(text for text in texts if "_" in text or not text.isascii())
        raise ValueError(f"{wrong!r} is not a number")
    numbers = []
    for text in texts:
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number") from None
        if not math.isfinite(number):
            raise ValueError(f"{text!r} is not finite")
        numbers.append(number)
    return numbers


def parse_number(text: str) -> float:
    """A finite decimal number, with or without white space around it.

    Raises:
        ValueError: If the text is not such a number.
    """
    return parse_numbers([text.strip()])[0]


def parse_integer(text: str) -> int:
    """A whole number in decimal digits, with or without white space around it.

    Raises:
        ValueError: If the text is not such a number.

    Example:
        >>> parse_integer("-12")
        -12
    """
    if not _INTEGER.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def is_count(value: Any, low: float, high: float) -> bool:
    """Whether a value is a whole number, not true or false, from ``low`` to ``high``."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and low <= int(value) <= high


def is_number(value: Any, low: float, high: float) -> bool:
    """Whether a value is a finite number from ``low`` to ``high``."""
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    return is_real and bool(low <= value <= high)
