"""Files of fitted maps."""

from pathlib import Path
from typing import Any

from flowbert import __version__
from flowbert.errors import UserError, warn
from flowbert.io import load_tensors, save_tensors
from flowbert.maps.base import MAPS, Map
from flowbert.maps.chain import Chain, as_map
from flowbert.maps.state import join_states, split_state, state_of_part
from flowbert.registry import imports_refused

_KIND = "map"


def save_map(fitted: Any, path: str | Path, encoder: str | None = None) -> None:
    """Write a fitted map, or a pipeline of maps, as one safetensors file.

    Args:
        fitted: The map.
        path: The file.
        encoder: Digest of the identity of the encoder of the fitted vectors, if known.

    Raises:
        UserError: If it cannot be saved completely or loaded again.
    """
    parts = as_map(fitted).parts
    tensors, values = split_state(join_states(parts))
    metadata: dict[str, Any] = {
        "parts": [
            {"name": part.name, "parameters": part.used_parameters()} for part in parts
        ],
        "values": values,
        "encoder": encoder,
        "flowbert": __version__,
    }
    save_tensors(path, _KIND, tensors, **metadata)


def load_map(path: str | Path, encoder: str | None = None) -> Map:
    """Read a file of :func:`save_map`, with a warning if the map is undefined.

    Import the module of a custom map first.

    Args:
        path: The file.
        encoder: Digest that the encoder of the file must have, if the file names one.

    Raises:
        UserError: If the file is missing, damaged or not a map, or if the map belongs to another
            encoder or to a class that is not imported.
    """
    tensors, metadata = load_tensors(path, _KIND)
    if encoder is not None and metadata.get("encoder") not in (None, encoder):
        raise UserError(
            f"{path}: was fitted on vectors of another encoder than that of the model"
        )
    state = {**tensors, **metadata["values"]}
    parts: list[Map] = []
    for number, record in enumerate(metadata["parts"]):
        try:
            with imports_refused():
                part = MAPS.find(record["name"])(**record["parameters"])
                part.set_state(state_of_part(state, number))
        except (UserError, TypeError) as error:
            raise UserError(f"{path}: {error}") from error
        if part.invalid_reason is not None:
            warn(f"{path}: {part.invalid_reason}")
        parts.append(part)
    return parts[0] if len(parts) == 1 else Chain.of(*parts)
