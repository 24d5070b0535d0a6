"""Maps by name, chains of them, and their files."""

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline
from torch import Tensor

from flowbert import __version__
from flowbert.errors import FlowbertWarning, UserError
from flowbert.flows import Glow
from flowbert.io import load_tensors, save_tensors
from flowbert.maps.base import MAPS, AffineMap, Map
from flowbert.maps.chain import AnyMap, Chain
from flowbert.maps.flow import Flow
from flowbert.registry import imports_refused

_KIND = "map"


def make_map(text: str) -> AnyMap:
    """A new map from ``name[-NUMBER][:option=value]...``, or a chain of several joined by ``+``.

    Args:
        text: Such as ``whitening-128:shrinkage=0.1`` or ``whitening-64+flow:epochs=1``.

    Raises:
        UserError: If a name or option is unknown.

    Example:
        >>> make_map("whitening-128:shrinkage=0.1")
        Whitening(n_components=128, shrinkage=0.1)
    """
    # A plus sign inside a number (1e+3) separates nothing.
    steps: list[Map] = [
        MAPS.make(step, argument="methods")
        for step in re.split(r"\+(?=\s*[A-Za-z])", text)
    ]
    return steps[0] if len(steps) == 1 else Chain.of(*steps)


def is_map(text: str) -> bool:
    """Whether a text is the specification of a map; no module is imported to see."""
    try:
        with imports_refused():
            make_map(text)
    except UserError:
        return False
    return True


def steps_of(fitted: AnyMap) -> list[Map]:
    """The maps of a pipeline, or the map itself."""
    if isinstance(fitted, Pipeline):
        return [step for _, step in fitted.steps]
    return [fitted]


def map_name(fitted: AnyMap) -> str:
    """The specification of a map, with its parameters that are not the default.

    Example:
        >>> map_name(make_map("whitening-128:shrinkage=0.1+flow"))
        'whitening-128:shrinkage=0.1+flow'
    """
    return "+".join(step.text for step in steps_of(fitted))


def check_map(unfitted: AnyMap, dim: int) -> None:
    """Check the parameters of all steps before anything is encoded.

    Raises:
        UserError: If one is not allowed for rows of size ``dim``.
    """
    for step in steps_of(unfitted):
        try:
            dim = step.output_dim(dim)
        except (UserError, TypeError) as error:
            raise UserError(f"{step.text}: {error}", argument="methods") from error


def invalid_reason_of(fitted: AnyMap) -> str | None:
    """Why the fitted map is undefined; None if it is not."""
    return next(
        (
            step.invalid_reason
            for step in steps_of(fitted)
            if step.invalid_reason is not None
        ),
        None,
    )


def affine_of(steps: Sequence[Map]) -> tuple[Tensor, Tensor]:
    """Weight and bias, float64, of affine maps one after another."""
    return Chain.of(*steps).affine()


def save_map(fitted: AnyMap, path: str | Path, encoder: str | None = None) -> None:
    """Write a fitted map, or a pipeline of maps, as one safetensors file.

    Args:
        fitted: The map.
        path: The file.
        encoder: Digest of the identity of the encoder whose vectors it was fitted on, if known.
    """
    tensors: dict[str, Tensor] = {}
    records = []
    for number, step in enumerate(steps_of(fitted)):
        record: dict[str, Any] = {
            "name": MAPS.name_of(type(step)),
            "invalid_reason": step.invalid_reason,
            "parameters": step.get_params(deep=False),
            "features": list(map(str, getattr(step, "feature_names_in_", []))),
        }
        if isinstance(step, Flow):
            record["parameters"] |= {"random_state": step.seed_}
            record["flow"] = step.flow_.config
        for name, value in step.get_state().items():
            tensors[f"{number}.{name}"] = value
        records.append(record)
    save_tensors(
        path, _KIND, tensors, steps=records, encoder=encoder, flowbert=__version__
    )


def load_map(path: str | Path, encoder: str | None = None) -> AnyMap:
    """Read a file of :func:`save_map`; an undefined map gives a warning.

    Args:
        path: The file.
        encoder: Digest of the encoder that it must be of, if the file names one.

    Raises:
        UserError: If the file is missing, damaged, no map, or a map of another encoder.
    """
    tensors, metadata = load_tensors(path, _KIND)
    if encoder is not None and metadata.get("encoder") not in (None, encoder):
        raise UserError(
            f"{path}: was fitted on vectors of another encoder than that of the model"
        )
    steps = []
    for number, record in enumerate(metadata["steps"]):
        with imports_refused():
            step = MAPS.find(record["name"], str(path))(**record["parameters"])
        prefix = f"{number}."
        state = {
            name.removeprefix(prefix): value
            for name, value in tensors.items()
            if name.startswith(prefix)
        }
        if isinstance(step, Flow):
            flow = Glow(**record["flow"])
            flow.load_state_dict(state)
            step.set_flow(flow, record["invalid_reason"]).seed_ = step.random_state
        elif isinstance(step, AffineMap):
            step.set_state(state, record["invalid_reason"])
        if record["features"]:
            step.feature_names_in_ = record["features"]
        if record["invalid_reason"] is not None:
            warnings.warn(
                f"{path}: {record['invalid_reason']}", FlowbertWarning, stacklevel=2
            )
        steps.append(step)
    return steps[0] if len(steps) == 1 else Chain.of(*steps)
