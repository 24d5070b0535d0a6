"""The state of a fitted map as named tensors and plain values, for files and checkpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from flowbert.errors import UserError
from flowbert.flows import Glow
from flowbert.io import digest, digest_tensors


def pack(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors and plain values of fitted attributes.

    A flow becomes its configuration and its tensors, named ``NAME.PARAMETER``; feature names become
    a list.

    Raises:
        UserError: If a value is of another kind.
    """
    packed: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Glow):
            packed[name] = dict(value.config)
            for key, tensor in value.state_dict().items():
                packed[f"{name}.{key}"] = tensor.detach().cpu().clone()
        elif isinstance(value, Tensor):
            packed[name] = value.detach().cpu().clone()
        elif isinstance(value, np.ndarray) and value.dtype == object:
            packed[name] = [str(each) for each in value]
        elif value is None or isinstance(value, bool | int | float | str):
            packed[name] = value
        else:
            raise UserError(
                argument=name,
                received=type(value).__name__,
                expected="a tensor, a flow, a number, text, true, false or none to save",
            )
    return packed


def unpack(packed: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the fitted attributes that :func:`pack` received; flows are in float64."""
    values: dict[str, Any] = {}
    for name, value in packed.items():
        if isinstance(value, dict):
            flow = Glow(**value).double()
            flow.load_state_dict(state_of_part(packed, name))
            values[name] = flow.eval().requires_grad_(False)
        elif isinstance(value, list):
            values[name] = np.array(value, dtype=object)
        elif "." not in name:
            values[name] = value
    return values


def join_states(parts: Sequence[Any]) -> dict[str, Any]:
    """Join the states of fitted maps, by ``NUMBER.NAME``."""
    return {
        f"{number}.{name}": value
        for number, part in enumerate(parts)
        for name, value in part.get_state().items()
    }


def state_of_part(state: Mapping[str, Any], part: int | str) -> dict[str, Any]:
    """The values ``PART.NAME`` of one part: a map of :func:`join_states`, or a flow."""
    prefix = f"{part}."
    return {
        name.removeprefix(prefix): value
        for name, value in state.items()
        if name.startswith(prefix)
    }


def split_state(packed: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors and the plain values of :func:`pack`."""
    tensors = {name: x for name, x in packed.items() if isinstance(x, Tensor)}
    return tensors, {name: x for name, x in packed.items() if name not in tensors}


def digest_state(packed: Mapping[str, Any]) -> str:
    """Digest of the tensors and plain values of :func:`pack`."""
    tensors, values = split_state(packed)
    return digest(digest_tensors(tensors), values)
