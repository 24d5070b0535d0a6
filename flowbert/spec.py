"""The one grammar of methods and poolings on the command line: ``name[-NUMBER][:option=value]...``."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flowbert.errors import UserError, choices

_WORDS: dict[str, Any] = {"none": None, "true": True, "false": False}


@dataclass(frozen=True)
class Spec:
    """What was written, taken apart: name, number after it, options in order."""

    text: str
    name: str
    number: int | None
    options: Mapping[str, Any]
    kind: str = "method"

    def arguments(self, allowed: Iterable[str], size_option: str | None = None) -> dict[str, Any]:
        """The options as arguments.

        Args:
            allowed: Names of the arguments there are.
            size_option: The one that the number sets, if any.

        Raises:
            UserError: If an option is unknown (the nearest names are given), or the number has no meaning.
        """
        names = list(allowed)
        for key, value in self.options.items():
            if key not in names:
                allowed_names = choices(names or ["none"], key)
                raise UserError(f"{self.kind} {self.text!r}: unknown option '{key}={value}'; {allowed_names}")
        if self.number is None:
            return dict(self.options)
        if size_option is None:
            raise UserError(f"{self.kind} {self.text!r}: {self.name} takes no number; allowed: {self.name}")
        return {size_option: self.number, **self.options}


def parse_spec(spec: str, known: Collection[str], kind: str = "method") -> Spec:
    """Take ``name[-NUMBER][:option=value]...`` apart.

    Args:
        spec: The text.
        known: Names there are.
        kind: What they are names of, for messages.

    Raises:
        UserError: If the name is unknown or an option has no value.

    Example:
        >>> found = parse_spec("whitening-128:shrinkage=0.1", ["whitening"])
        >>> found.name, found.number, found.options
        ('whitening', 128, {'shrinkage': 0.1})
    """
    text = spec.strip()
    name, *written = text.split(":")
    number = None
    if name not in known and (match := re.fullmatch(r"(.+)-(\d+)", name)):
        name, number = match[1], int(match[2])
    if name not in known:
        raise UserError(f"{kind}: received {spec!r}; {choices(known, name)}")
    options: dict[str, Any] = {}
    for option in written:
        key, equals, value = option.partition("=")
        if not equals:
            raise UserError(f"{kind} {spec!r}: unknown option {option!r}; allowed: name=value")
        if key in options:
            raise UserError(f"{kind} {spec!r}: {key} stands there twice; allowed: once")
        options[key] = _plain(value)
    return Spec(text, name, number, options, kind)


def _plain(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
