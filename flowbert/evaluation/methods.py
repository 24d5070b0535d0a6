"""Methods of a comparison: maps to fit, fitted maps, models with their own encoder."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from flowbert.data.files import as_list
from flowbert.encoders import Encoder
from flowbert.errors import UserError
from flowbert.io import digest, digest_tensors
from flowbert.maps import (
    AnyMap,
    Flow,
    LabelledPairs,
    Map,
    Moments,
    Raw,
    as_map,
    make_map,
    map_name,
    steps_of,
)
from flowbert.model import Model, model_folder

_ACCELERATORS = {"cpu": "cpu", "cuda": "gpu", "mps": "mps"}


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a comparison.

    Attributes:
        name: Name in tables.
        map: The map.
        fitted: Whether it is used as it is.
        corpus: What a fitted map was fitted on; ``none`` for raw.
        seed: Seed of a fitted map.
        encoder: Encoder of a model, in place of those of the comparison.
    """

    name: str
    map: AnyMap
    fitted: bool = False
    corpus: str = "none"
    seed: int | None = None
    encoder: Encoder | None = None

    @property
    def needs_fit(self) -> bool:
        """Whether it is fitted on the corpus."""
        return not (self.fitted or isinstance(self.map, Raw))

    @property
    def supervised(self) -> bool:
        """Whether it learns from labelled pairs."""
        return any(step.supervised for step in steps_of(self.map))

    @property
    def seeded(self) -> bool:
        """Whether the fit draws random numbers."""
        return any(step.seeded for step in steps_of(self.map))

    @cached_property
    def key(self) -> str:
        """Digest of the parameters, and of the values of a fitted map."""
        states = (
            [step.get_state() for step in steps_of(self.map)] if self.fitted else []
        )
        return digest(map_name(self.map), [digest_tensors(state) for state in states])


def parse_methods(methods: Any) -> list[Method]:
    """Methods from names, estimators, models and folders of models.

    Args:
        methods: A comma-separated text, a list, or a dict from names in tables.

    Raises:
        UserError: If a name is unknown or given twice.
    """
    if isinstance(methods, Mapping):
        parsed = [replace(_method(value), name=name) for name, value in methods.items()]
    else:
        values = as_list(methods, "methods") if isinstance(methods, str) else methods
        parsed = [_method(value) for value in values]
    names = [method.name for method in parsed]
    if len(set(names)) < len(names):
        raise UserError(
            f"methods: received {', '.join(names)}; expected each name once"
        )
    return parsed


def _method(value: Any) -> Method:
    if isinstance(value, Method):
        return value
    if isinstance(value, str) and model_folder(value) is not None:
        loaded = Model.load(value)
        return replace(_method(loaded), name=f"{loaded.map_name} of {value}")
    if isinstance(value, Model):
        made = Raw() if value.map is None else value.map
        fitted = value.map is not None
        return Method(value.map_name, made, fitted, "given", encoder=value.encoder)
    made = make_map(value) if isinstance(value, str) else value
    if not all(isinstance(step, Map) for step in steps_of(made)):
        raise UserError(f"methods: received {value!r}; expected maps and models")
    name = value if isinstance(value, str) else map_name(made)
    if isinstance(made, Raw) or not _is_fitted(made):
        return Method(name, made)
    return Method(name, made, True, "given")


def _is_fitted(estimator: AnyMap) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def fit_map(
    template: AnyMap,
    rows: Any,
    *,
    moments: Moments | None = None,
    pairs: LabelledPairs | None = None,
    seed: int | None = None,
    device: torch.device | str = "cpu",
) -> tuple[AnyMap, str | None]:
    """Fit a copy of a map or chain, on the rows and, where a step learns from them, on the pairs.

    Args:
        template: The map with its parameters.
        rows: Embeddings to fit on, ``(N, D)``.
        moments: Their moments, if they are known and the map is affine.
        pairs: Vectors of labelled pairs, ``(P, D)`` each, and their scores ``(P,)``.
        seed: Seed of a flow.
        device: Device of a flow.

    Returns:
        The fitted map, and why its results mean nothing (None if they do).

    Raises:
        UserError: If the map learns from labelled pairs and there are none.
    """
    fitted: Any = as_map(clone(template))
    for step in steps_of(fitted):
        step.check_pairs(pairs)
    for step in steps_of(fitted):
        if isinstance(step, Flow):
            accelerator = _ACCELERATORS[torch.device(device).type]
            step.set_params(random_state=seed or 0, accelerator=accelerator)
    try:
        if moments is not None:
            fitted.fit_moments(moments, pairs)
        else:
            fitted.fit(rows, pairs=pairs)
    except (UserError, ValueError) as error:
        return fitted, str(error)
    return fitted, fitted.flaw
