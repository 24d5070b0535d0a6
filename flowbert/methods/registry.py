"""Calibrations by name, as the command line and the configs write them."""

import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flowbert.calibration.base import Calibration, methods
from flowbert.errors import UserError, choices

_WORDS: dict[str, Any] = {"none": None, "true": True, "false": False}


@dataclass(frozen=True)
class Spec:
    """A method as it is written, taken apart: name, number after it, options in order."""

    text: str
    name: str
    number: int | None
    options: Mapping[str, Any]


def parse_spec(spec: str, known: Collection[str]) -> Spec:
    """Take ``name[-NUMBER][:option=value]...`` apart.

    Args:
        spec: The text.
        known: Names there are.

    Raises:
        UserError: If the name is unknown or an option has no value.

    Example:
        >>> parse_spec("whitening-128:shrinkage=0.1", ["whitening"])
        Spec(text='whitening-128:shrinkage=0.1', name='whitening', number=128, options={'shrinkage': 0.1})
    """
    text = spec.strip()
    head, *parts = text.split(":")
    name, number = head, None
    if head not in known and (match := re.fullmatch(r"(.+)-(\d+)", head)):
        name, number = match[1], int(match[2])
    if name not in known:
        raise UserError(f"unknown method {spec!r}; {choices(known, name)}")
    options: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"method {spec!r}: unknown option {part!r}; allowed: name=value")
        options[key] = _plain(value)
    return Spec(text, name, number, options)


def checked_options(spec: Spec, allowed: Iterable[str]) -> dict[str, Any]:
    """The options of a spec, each of which must be among the allowed names.

    Raises:
        UserError: If one is not; the message gives the nearest names.
    """
    names = list(allowed)
    for key, value in spec.options.items():
        if key not in names:
            raise UserError(f"method {spec.text!r}: unknown option '{key}={value}'; {choices(names or ['none'], key)}")
    return dict(spec.options)


def split_chain(spec: str) -> list[str]:
    """Steps of a composition ``first+second``; a plus sign inside a number (``1e+3``) parts nothing.

    Example:
        >>> split_chain("whitening-128:shrinkage=1e+0+flow:epochs=1")
        ['whitening-128:shrinkage=1e+0', 'flow:epochs=1']
    """
    return [step.strip() for step in re.split(r"\+(?=\s*[A-Za-z])", spec)]


def make_calibration(spec: str) -> Calibration:
    """A new calibration from ``name[-NUMBER][:option=value]...``.

    The number sets the method's main size (``n_components`` of whitening, ``n_directions`` of nulling); every further
    option is a constructor argument. Colons, not commas, part the options, so a list of methods can use commas.

    Args:
        spec: For example ``raw``, ``whitening``, ``whitening-128``, ``whitening:shrinkage=0.1:exponent=-0.35``,
            ``whitening-256:shrinkage=ledoit-wolf``, ``zca``, ``standardization``, ``nulling-3:standardize=true``.

    Raises:
        UserError: If the method or an option is unknown (the nearest names are given), or a value is not allowed.

    Example:
        >>> make_calibration("whitening-128:shrinkage=0.1")
        Whitening(n_components=128, shrinkage=0.1, exponent=-0.5, rank_tolerance=1e-10)
    """
    known = methods()
    found = parse_spec(spec, known)
    method = known[found.name]
    arguments = checked_options(found, inspect.signature(method).parameters)
    if found.number is not None:
        if method.size_option is None:
            raise UserError(f"method {spec!r}: {found.name} takes no number; allowed: {found.name}")
        arguments.setdefault(method.size_option, found.number)
    return method(**arguments)


def _plain(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
