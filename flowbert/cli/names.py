"""Names of maps, poolings and layers, and what encoders there are: told before torch is imported.

A test holds the names equal to those of the package.
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

TRAINABLE = ("flow", "simcse", "sbert", "mlm")
"""Methods that a Trainer trains."""

FLOW = (
    *("levels", "depth", "width", "mixing", "coupling", "mixing_init", "noise"),
    *("epochs", "steps", "batch_size", "start_size", "learning_rate", "weight_decay"),
    *("schedule", "warmup", "held_out"),
)
WHITENING = ("shrinkage", "exponent", "rank_tolerance")
Options = Mapping[str, Sequence[str]]

MAPS: Options = {
    "flow": FLOW,
    "raw": (),
    "standardization": (),
    "truncation": ("n_components",),
    "nulling": ("n_directions", "standardize"),
    "learned-removal": ("n_directions", "penalty", "center"),
    "whitening": ("n_components", *WHITENING),
    "zca": WHITENING,
}
"""Options of each map; that of the number after its name begins with ``n_``."""

POOLINGS: Options = {
    "mean": ("half",),
    "cls": (),
    "max": (),
    "position_mean": (),
    "last_token": (),
    "idf": ("cls", "half"),
    "sif": ("a", "cls", "half"),
    "zipf": ("a", "cls", "half"),
    "cls_pooler": (),
}
"""Options of each pooling."""

LAYERS = ("last", "last2", "first_last", "embedding_last")
SETS_OF_LAYERS = ("singles", "pairs", "triples")

_SAMPLE = "builtin-sample"
_PATHS = ("/", "./", "../", "~")
_TEXTS = (".txt", ".vec", ".bin", ".gz")


def check_methods(value: str, argument: str) -> None:
    """Check names and options of maps; folders of models pass."""
    for text in as_list(value, argument, paths=True):
        if not _exists(text):
            _check_chain(text, argument, MAPS)


def check_method(value: str, argument: str) -> None:
    """Check name and options of the method of a fit."""
    if value not in TRAINABLE:
        _check_chain(value, argument, {**dict.fromkeys(TRAINABLE, ()), **MAPS})


def check_baseline(value: str, argument: str) -> None:
    """Check name and options of a map, or ``none``."""
    if value != "none":
        _check_chain(value, argument, MAPS)


def check_poolings(value: str, argument: str) -> None:
    """Check names and options of poolings."""
    for text in as_list(value, argument):
        _check_spec(text, argument, POOLINGS)


def _check_chain(text: str, argument: str, known: Options) -> None:
    # A plus sign inside a number (1e+3) separates nothing.
    for step in re.split(r"\+(?=\s*[A-Za-z])", text):
        _check_spec(step, argument, known)


def _check_spec(text: str, argument: str, known: Options) -> None:
    spec = parse_spec(text, known, argument)
    if spec.name not in known:  # an import path
        return
    options = known[spec.name]
    sizes = [option for option in options if option.startswith("n_")]
    spec.arguments(options, sizes[0] if sizes else None)


def check_layers(value: str, argument: str) -> None:
    """Check names of layers; how many there are, the encoder knows."""
    for name in as_list(value, argument):
        if name not in (*LAYERS, *SETS_OF_LAYERS) and not _is_number(name):
            raise UserError(
                argument=argument,
                received=value,
                expected=f"{choices(LAYERS, name)}, or numbers such as 1,12",
            )


def _is_number(text: str) -> bool:
    try:
        parse_integer(text)
    except ValueError:
        return False
    return True


def check_encoders(value: str, argument: str) -> None:
    """Look for encoders and models: folders and files here, other names on the hub."""
    for path in as_list(value, argument, paths=True):
        if path == _SAMPLE or _exists(path):
            continue
        if path.startswith(_PATHS) or path.endswith(_TEXTS) or path.count("/") > 1:
            check_exists(path, argument)
        else:
            fetch_encoder(path, None, ["config.json"], argument)


def check_exists(value: str, argument: str) -> None:
    """Look for a file or folder."""
    if not _exists(value):
        try:
            check_file(Path(value).expanduser())
        except UserError as error:
            raise UserError(str(error), argument=argument) from error


def _exists(path: str) -> bool:
    return os.path.exists(
        os.path.expanduser(path)
    )  # False for text too long for a path


def check_values(options: Mapping[str, Any]) -> None:
    """Check values of options by their names; lists of a configuration item by item.

    Args:
        options: Values by the names of options.

    Raises:
        UserError: For a name, an option of a map or a pooling, or an encoder that there is not.
    """
    for name, check in _CHECKS.items():
        given = options.get(name)
        for value in given if isinstance(given, list) else [given]:
            # A list on the line is for the parser.
            if isinstance(value, str) and not value.startswith("["):
                check(value, name)


_CHECKS: dict[str, Callable[[str, str], None]] = {
    "baseline": check_baseline,
    "encoder": check_encoders,
    "encoder.layers": check_layers,
    "encoder.path": check_encoders,
    "encoder.pooling": check_poolings,
    "method": check_method,
    "methods": check_methods,
    "model": check_encoders,
    "runs": check_exists,
    "source": check_exists,
}
