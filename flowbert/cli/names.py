"""Values that are names: of maps, losses, layers, tasks, encoders, files; looked up without torch.

The parser lists the names, see :mod:`flowbert.cli.listing`. An import path passes: what it names is
known once it is imported.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flowbert.data.hub import fetch_encoder
from flowbert.data.pair_files import read_pairs, scored_pairs
from flowbert.data.tables import is_table
from flowbert.data.text_files import as_list, check_file
from flowbert.errors import UserError, choices
from flowbert.numbers import parse_integer
from flowbert.spec import parse_spec, split_chain

_SAMPLE = "builtin-sample"
_ADVISED = "advised"
_PATHS = ("/", "./", "../", "~")
_TEXTS = (".txt", ".vec", ".bin", ".gz")


class Names(NamedTuple):
    """What values of options may be.

    Attributes:
        known: Names of each kind (``map``, ``pooling``, ...), with their options, and with the one
            that a number after the name sets.
        kinds: Kind of a text in the grammar, by the name of the option.
    """

    known: Mapping[str, Mapping[str, Mapping[str, Any]]]
    kinds: Mapping[str, str]


def check_values(options: Mapping[str, Any], names: Names) -> None:
    """Check values of options by their names; lists of a configuration item by item.

    Args:
        options: Values by the names of options.
        names: Names that values may be.

    Raises:
        UserError: For a name, an option of a map or a pooling, a file or an encoder that there is
            not.
    """
    for name, given in options.items():
        check = _CHECKS.get(name, _check_kind if name in names.kinds else None)
        for value in given if isinstance(given, list) else [given]:
            if check and isinstance(value, str) and not _is_for_parser(value):
                check(value, name, names)


def check_pairs(options: Mapping[str, Any], names: Names) -> None:
    """Read the files of pairs among tasks and labels, before torch is imported and text encoded.

    Args:
        options: Values by the names of options.
        names: Names that values may be; ``scored`` are the kinds of tasks with own files of pairs.

    Raises:
        UserError: If a file is missing or damaged, or lacks a column.
    """
    columns = options.get("columns")
    if _is_for_parser(columns):
        return
    for option in ("tasks", "labels"):
        given = options.get(option)
        if given is None or _is_for_parser(given):
            continue
        for name in as_list(given, option, paths=True):
            kind, colon, source = name.partition(":")
            if colon and kind not in names.known["scored"]:
                continue  # another kind of task, such as one's own, has other files
            path = source if colon else name
            if is_table(path):
                scored_pairs(read_pairs(path, as_list(columns, "columns")))


def _is_for_parser(value: Any) -> bool:
    """Whether a value on the line is a list in brackets, or unsets the option."""
    return isinstance(value, str) and (value.startswith("[") or value == "null")


def _check_kind(value: str, argument: str, names: Names) -> None:
    """Check names and options of poolings, losses and the like."""
    kind = names.kinds[argument]
    for text in as_list(value, argument):
        _check_spec(text, argument, names.known[kind])


def _check_methods(value: str, argument: str, names: Names) -> None:
    """Check names and options of maps; folders of models and ``advised`` pass."""
    for text in as_list(value, argument, paths=True):
        if text != _ADVISED and not _exists(text):
            _check_chain(text, argument, names.known["map"])


def _check_method(value: str, argument: str, names: Names) -> None:
    """Check name and options of the method of a fit."""
    _check_or_map(value, argument, names, "training")


def _check_head(value: str, argument: str, names: Names) -> None:
    """Check name and options of what is between encoder and loss."""
    _check_or_map(value, argument, names, "head")


def _check_or_map(value: str, argument: str, names: Names, kind: str) -> None:
    """Check a name of a kind, or name and options of a map."""
    known = names.known[kind]
    if value not in known:
        _check_chain(value, argument, {**known, **names.known["map"]})


def _check_baseline(value: str, argument: str, names: Names) -> None:
    """Check name and options of a map, or ``none``."""
    if value != "none":
        _check_chain(value, argument, names.known["map"])


def _check_chain(text: str, argument: str, known: Mapping[str, Any]) -> None:
    for part in split_chain(text):
        _check_spec(part, argument, known)


def _check_spec(text: str, argument: str, known: Mapping[str, Any]) -> None:
    spec = parse_spec(text, known, argument)
    if spec.name in known:  # no import path
        spec.arguments(known[spec.name]["options"], known[spec.name]["number"])


def _check_tasks(value: str, argument: str, names: Names) -> None:
    """Check names of data sets; files, patterns, and texts with a kind or import path pass."""
    known = names.known["task"]
    for name in as_list(value, argument, paths=True):
        if not _exists(name) and name.replace("-", "").isalnum() and name not in known:
            allowed = choices(known, name.upper())
            raise UserError(
                argument=argument, received=name, expected=f"{allowed}, or a file"
            )


def _check_layers(value: str, argument: str, names: Names) -> None:
    """Check names of layers; how many there are, the encoder knows."""
    known = names.known["layer"]
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
    "data.teacher": _check_encoders,
    "encoder": _check_encoders,
    "encoder.layers": _check_layers,
    "encoder.path": _check_encoders,
    "method": _check_method,
    "methods": _check_methods,
    "model": _check_encoders,
    "model.head": _check_head,
    "runs": _check_exists,
    "source": _check_exists,
    "tasks": _check_tasks,
}
