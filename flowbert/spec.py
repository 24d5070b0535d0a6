"""The grammar of maps and poolings on the command line: ``name[-NUMBER][:option=value]...``."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flowbert.errors import UserError, choices
from flowbert.numbers import parse_integer, parse_number

_WORDS: dict[str, Any] = {"none": None, "true": True, "false": False}


@dataclass(frozen=True)
class Spec:
    """A parsed specification: name, number after it, options in order."""

    text: str
    name: str
    number: int | None
    options: Mapping[str, Any]

    def arguments(
        self, allowed: Iterable[str], size: str | None = None
    ) -> dict[str, Any]:
        """The options as keyword arguments.

        Args:
            allowed: Names of the parameters.
            size: The parameter that the number sets, if any.

        Raises:
            UserError: If an option is unknown, or the number has no meaning.
        """
        names = list(allowed)
        for option in self.options:
            if option not in names:
                raise UserError(
                    f"{self.text}: received the option {option!r}; "
                    f"expected {choices(names, option)}"
                )
        arguments = dict(self.options)
        if self.number is not None:
            if size in self.options:
                raise UserError(
                    f"{self.text}: received {size} twice; expected the number, or the option"
                )
            if size is None:
                raise UserError(
                    f"{self.text}: received a number; expected {self.name} without"
                )
            arguments[size] = self.number
        return arguments


def parse_spec(text: str, known: Collection[str], argument: str) -> Spec:
    """Parse ``name[-NUMBER][:option=value]...``.

    Args:
        text: The specification.
        known: Names to choose from.
        argument: Name of the argument, for error messages.

    Raises:
        UserError: If the name is unknown, or an option is given twice or without a value.

    Example:
        >>> parse_spec("whitening-128:shrinkage=0.1", ["whitening"], "methods").options
        {'shrinkage': 0.1}
    """
    name, *written = text.strip().split(":")
    number = None
    if name not in known and (match := re.fullmatch(r"(.+)-([0-9]+)", name)):
        name, number = match[1], int(match[2])
    if name not in known:
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
    return Spec(text.strip(), name, number, options)


def word(value: Any) -> str:
    """A value as a specification writes it: ``true``, ``false``, ``none``, or its text.

    Example:
        >>> word(True), word(0.1)
        ('true', '0.1')
    """
    for text, meaning in _WORDS.items():
        if value is meaning:
            return text
    return str(value)


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for parse in (parse_integer, parse_number):
        try:
            return parse(text)
        except ValueError:
            continue
    return text
