"""Calibrations by name, as the command line and the configs write them."""

import inspect
import re
from typing import Any

from flowbert.calibration.base import Calibration, methods
from flowbert.errors import UserError, choices

_WORDS: dict[str, Any] = {"none": None, "true": True, "false": False}


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
    head, *options = spec.strip().split(":")
    known = methods()
    name, size = head, None
    if head not in known and (match := re.fullmatch(r"(.+)-(\d+)", head)):
        name, size = match[1], int(match[2])
    if name not in known:
        raise UserError(f"unknown method {spec!r}; {choices(known, name)}")
    method = known[name]
    arguments: dict[str, Any] = {}
    if size is not None:
        if method.size_option is None:
            raise UserError(f"method {spec!r}: {name} takes no number; allowed: {name}")
        arguments[method.size_option] = size
    allowed = inspect.signature(method).parameters
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or key not in allowed:
            raise UserError(f"method {spec!r}: unknown option {option!r}; {choices(allowed or ['none'], key)}")
        arguments[key] = _plain(value)
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
