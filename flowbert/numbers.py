"""Numbers: one grammar for text in files and options, and checks of values.

Python itself reads ``1_0`` as 10, full-width digits, and ``nan``.
"""

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from types import NoneType
from typing import Annotated, Any, get_args

from flowbert.errors import WORDS, UserError

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


Count = Annotated[int, "[1, inf)"]
"""A parameter type with its limits, as an interval."""
CountOrZero = Annotated[int, "[0, inf)"]
TwoOrMore = Annotated[int, "[2, inf)"]
Seed = Annotated[int, "[0, 9223372036854775808)"]
Positive = Annotated[float, "(0, inf)"]
NotNegative = Annotated[float, "[0, inf)"]
Share = Annotated[float, "[0, 1)"]
ShareAbove0 = Annotated[float, "(0, 1)"]
HalfAtMost = Annotated[float, "[0, 0.5]"]


def check_number(argument: str, value: Any, annotation: Any) -> None:
    """Check a value against the limits of an annotation, such as ``Count | None``.

    Raises:
        UserError: If the annotation has limits that do not allow the value.
    """
    parts = (annotation, *get_args(annotation))
    if value is None and NoneType in parts:
        return
    for part in parts:
        for interval in getattr(part, "__metadata__", ()):
            low, high = map(float, interval[1:-1].split(","))
            is_kind = is_count if part.__origin__ is int else is_number
            ends = {low: interval[0], high: interval[-1]}
            if not is_kind(value, low, high) or ends.get(value, "[") in "()":
                expected = f"{WORDS[part.__origin__]} in {interval}"
                raise UserError(argument=argument, received=value, expected=expected)


def check_limits(function: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """Check arguments of a function or class against the limits of its annotations.

    Args:
        function: The function or class.
        values: Arguments by name; names that are not parameters are ignored.

    Raises:
        UserError: If a value is outside; names the argument, the value and the limits.
    """
    for name, parameter in inspect.signature(function).parameters.items():
        if name in values:
            check_number(name, values[name], parameter.annotation)
