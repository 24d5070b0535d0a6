"""Values that are names: of maps, poolings, layers, encoders and files, looked up without torch.

The parser lists the names, see :mod:`flowbert.cli.options`. An import path passes: what it names is
known once it is imported.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flowbert.data.files import as_list, check_file
from flowbert.data.hub import fetch_encoder
from flowbert.errors import UserError, choices
from flowbert.numbers import parse_integer
from flowbert.spec import parse_spec

_SAMPLE = "builtin-sample"
_PATHS = ("/", "./", "../", "~")
_TEXTS = (".txt", ".vec", ".bin", ".gz")

Names = Mapping[str, Mapping[str, Sequence[str]]]
"""Kinds of names (``maps``, ``poolings``, ...), names of each, and their options.

The option of the number after a name begins with ``n_``.
"""


def check_values(options: Mapping[str, Any], names: Names) -> None:
    """Check values of options by their names; lists of a configuration item by item.

    Args:
        options: Values by the names of options.
        names: Names that values may be.

    Raises:
        UserError: For a name, an option of a map or a pooling, a file or an encoder that there is
            not.
    """
    for name, check in _CHECKS.items():
        given = options.get(name)
        for value in given if isinstance(given, list) else [given]:
            # A list on the line is for the parser.
            if isinstance(value, str) and not value.startswith("["):
                check(value, name, names)


def _check_methods(value: str, argument: str, names: Names) -> None:
    """Check names and options of maps; folders of models pass."""
    for text in as_list(value, argument, paths=True):
        if not _exists(text):
            _check_chain(text, argument, names["maps"])


def _check_method(value: str, argument: str, names: Names) -> None:
    """Check name and options of the method of a fit."""
    if value not in names["trainings"]:
        known = dict.fromkeys(names["trainings"], ())
        _check_chain(value, argument, {**known, **names["maps"]})


def _check_baseline(value: str, argument: str, names: Names) -> None:
    """Check name and options of a map, or ``none``."""
    if value != "none":
        _check_chain(value, argument, names["maps"])


def _check_poolings(value: str, argument: str, names: Names) -> None:
    """Check names and options of poolings."""
    for text in as_list(value, argument):
        _check_spec(text, argument, names["poolings"])


def _check_chain(text: str, argument: str, known: Mapping[str, Sequence[str]]) -> None:
    # A plus sign inside a number (1e+3) separates nothing.
    for step in re.split(r"\+(?=\s*[A-Za-z])", text):
        _check_spec(step, argument, known)


def _check_spec(text: str, argument: str, known: Mapping[str, Sequence[str]]) -> None:
    spec = parse_spec(text, known, argument)
    if spec.name not in known:
        return  # an import path
    options = known[spec.name]
    sizes = [option for option in options if option.startswith("n_")]
    spec.arguments(options, sizes[0] if sizes else None)


def _check_layers(value: str, argument: str, names: Names) -> None:
    """Check names of layers; how many there are, the encoder knows."""
    known = names["layers"]
    for name in as_list(value, argument):
        if name not in known and not _is_number(name):
            raise UserError(
                argument=argument,
                received=value,
                expected=f"{choices(known, name)}, or numbers such as 1,12",
            )


def _is_number(text: str) -> bool:
    try:
        parse_integer(text)
    except ValueError:
        return False
    return True


def _check_encoders(value: str, argument: str, names: Names) -> None:
    """Look for encoders and models: folders and files here, other names on the hub."""
    for path in as_list(value, argument, paths=True):
        if path == _SAMPLE or _exists(path):
            continue
        if path.startswith(_PATHS) or path.endswith(_TEXTS) or path.count("/") > 1:
            _check_exists(path, argument, names)
        else:
            fetch_encoder(path, None, ["config.json"], argument)


def _check_exists(value: str, argument: str, _: Names) -> None:
    """Look for a file or folder."""
    if not _exists(value):
        try:
            check_file(Path(value).expanduser())
        except UserError as error:
            raise UserError(str(error), argument=argument) from error


def _check_file(value: str, argument: str, names: Names) -> None:
    """Look for a file whose name looks like a path; lists, globs and other names pass."""
    looks = value.startswith(_PATHS) or len(Path(value).suffix) > 2
    plain = not any(letter in value for letter in ",*?[:")
    if looks and plain and value.count("/") != 1:
        _check_exists(value, argument, names)


def _exists(path: str) -> bool:
    return os.path.exists(
        os.path.expanduser(path)
    )  # False for text too long for a path


_CHECKS: dict[str, Callable[[str, str, Names], None]] = {
    **dict.fromkeys(("ckpt_path", "corpus", "input", "nli", "vectors"), _check_file),
    "baseline": _check_baseline,
    "encoder": _check_encoders,
    "encoder.layers": _check_layers,
    "encoder.path": _check_encoders,
    "encoder.pooling": _check_poolings,
    "method": _check_method,
    "methods": _check_methods,
    "model": _check_encoders,
    "runs": _check_exists,
    "source": _check_exists,
}
