"""The grammar of whatever is chosen by a text: ``name[-NUMBER][:option=value]...``.

Maps, poolings, losses, couplings and the like are written and read in it. A name is registered, or
an import path such as ``mypackage.maps.MyMap``. A value in brackets is a text, which may be one of
this grammar: ``flow:coupling=[mypackage.couplings.Spline:bins=8]``.
"""

import math
import re
from collections.abc import Collection, Mapping
from numbers import Integral, Real
from typing import Any

from flowbert.errors import UserError, choices
from flowbert.numbers import is_count, parse_integer, parse_number

_WORDS: dict[str, Any] = {"none": None, "true": True, "false": False}
_UNREADABLE = re.compile(r"[,+\s]")  # they separate texts, in lists and chains
_SEPARATORS = re.compile(r"[][:=]")


def is_import_path(name: str) -> bool:
    """Whether a name is written like an import path, ``package.module.Name``.

    Example:
        >>> is_import_path("mypackage.maps.MyMap"), is_import_path("whitening")
        (True, False)
    """
    parts = name.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


def split_chain(text: str) -> list[str]:
    """The parts of a chain, between plus signs.

    Example:
        >>> split_chain("whitening:shrinkage=1e+3+flow")
        ['whitening:shrinkage=1e+3', 'flow']
    """
    # A plus sign inside a number separates nothing.
    return re.split(r"\+(?=\s*[A-Za-z])", text)


def parse_spec(
    text: str, known: Collection[str], argument: str
) -> tuple[str, int | None, dict[str, Any]]:
    """Parse ``name[-NUMBER][:option=value]...``.

    Args:
        text: The specification.
        known: Names to choose from; import paths pass.
        argument: Name of the argument, for error messages.

    Returns:
        The name, the number after it if any, and the options in order.

    Raises:
        UserError: If the name is unknown, or an option is given twice or without a value.

    Example:
        >>> parse_spec("whitening-128:shrinkage=0.1", ["whitening"], "methods")
        ('whitening', 128, {'shrinkage': 0.1})
    """
    name, *written = _split(text.strip())
    number = None
    if name not in known and (match := re.fullmatch(r"(.+)-([0-9]+)", name)):
        name, number = match[1], int(match[2])
    if name not in known and not is_import_path(name):
        raise UserError(argument=argument, received=text, expected=choices(known, name))
    options: dict[str, Any] = {}
    for option in written:
        key, equals, value = option.partition("=")
        if not equals or key in options:
            raise UserError(
                argument=argument,
                received=text,
                expected="each option once, as name=value",
            )
        options[key] = _value(value)
    return name, number, options


def write_spec(name: str, options: Mapping[str, Any], size: str | None = None) -> str:
    """The text that :func:`parse_spec` reads.

    Args:
        name: The name.
        options: Values by option: None, true or false, finite numbers, words.
        size: The option that is written as the number after the name.

    Raises:
        UserError: If the grammar has no text for a value, such as a list.

    Example:
        >>> write_spec("nulling", {"n": 3, "center": True}, size="n")
        'nulling-3:center=true'
    """
    text = name
    number = options.get(size) if size is not None else None
    if is_count(number, 0, math.inf):
        text += f"-{number}"
        options = {key: value for key, value in options.items() if key != size}
    for key, value in options.items():
        written = _write_value(value)
        if written is None:
            raise UserError(
                argument=key,
                received=value,
                expected="a number, true, false, none, or a word without spaces and : = + ,",
            )
        text += f":{key}={written}"
    return text


def _write_value(value: Any) -> str | None:
    """The text of a value; None where :func:`_value` would read another value from it."""
    for word, meaning in _WORDS.items():
        if value is meaning:
            return word
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        text = repr(float(value))
        return text if _value(text) == value else None
    if not isinstance(value, str) or _UNREADABLE.search(value):
        return None
    if value and _value(value) == value and not _SEPARATORS.search(value):
        return value
    text = f"[{value}]"
    return text if _split(f"{text}:next") == [text, "next"] else None


def _split(text: str) -> list[str]:
    """Parts between colons, but for those in brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == ":" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _value(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for parse in (parse_integer, parse_number):
        try:
            return parse(text)
        except ValueError:
            continue
    return text
