"""What is compared: maps to fit, fitted maps, models with their own encoder."""

import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any

from flowbert.data.text_files import as_list
from flowbert.encoders import (
    Encoder,
    SentenceTransformerEncoder,
    is_sentence_transformer,
)
from flowbert.errors import FlowbertWarning, UserError
from flowbert.io import as_json, digest
from flowbert.maps import (
    Map,
    Raw,
    SklearnTransformer,
    as_map,
    digest_state,
    is_map,
    make_map,
)
from flowbert.model import Model, model_folder

# Parameters that a fit sets, and the arguments that say how.
_SET_BY_FIT = {"random_state": "seeds", "accelerator": "device"}
_OURS = "flowbert."

ADVISED = "advised"
"""Name of the candidate that follows the advice."""

RECIPE_METHOD = "whitening:shrinkage=0.3"
"""Map of the recommended recipe."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A map or model that is compared.

    Attributes:
        name: Name in tables.
        map: The map.
        fitted: Whether it is used as it is.
        corpus: What a fitted map was fitted on; ``none`` for raw.
        seed: Seed of a fitted map.
        encoder: Encoder of a model, in place of those of the comparison.
        token: Name unique to this object, where its settings do not identify it: a transformer of
            another library.
        advised: Whether the advice for each encoder chooses map, layers and pooling.
    """

    name: str
    map: Map
    fitted: bool = False
    corpus: str = "none"
    seed: int | None = None
    encoder: Encoder | None = None
    token: str | None = None
    advised: bool = False

    @property
    def needs_fit(self) -> bool:
        """Whether it is fitted on the corpus."""
        return not (self.fitted or type(self.map) is Raw)

    @property
    def supervised(self) -> bool:
        """Whether it learns from labelled pairs."""
        return self.map.supervised

    @property
    def seeded(self) -> bool:
        """Whether the fit draws random numbers."""
        return self.map.seeded

    @cached_property
    def key(self) -> str:
        """Digest of all parameters, and of the values of a fitted map."""
        return digest(self._steps, self._values, self.token)

    @property
    def _steps(self) -> list[dict[str, Any]]:
        """Name and parameters of each step, without those that a fit sets by itself."""
        return [
            {
                "name": step.name,
                "parameters": as_json(_parameters(step), _in_one_line),
            }
            for step in self.map.parts
        ]

    @property
    def lasting(self) -> bool:
        """Whether its parameters and flowbert's code determine what it does, in any process."""
        own = all(type(step).__module__.startswith(_OURS) for step in self.map.parts)
        return own and self.token is None

    @cached_property
    def _values(self) -> list[str]:
        """Digest of each step of a fitted map."""
        if not self.fitted or self.token is not None:
            return []
        return [digest_state(part.get_state()) for part in self.map.parts]

    @property
    def size(self) -> int | None:
        """Size of the vectors that a fitted map takes; None where it is not known."""
        first = self.map.parts[0]
        return getattr(first, "n_features_in_", None) if self.fitted else None

    def settings(self) -> dict[str, Any]:
        """Name, steps with all their parameters, and digests of fitted values."""
        return {"name": self.name, "steps": self._steps, "values": self._values}


def _parameters(step: Map) -> dict[str, Any]:
    """Parameters without those that a fit sets by itself."""
    parameters = step.used_parameters().items()
    return {name: value for name, value in parameters if name not in _SET_BY_FIT}


def _in_one_line(value: Any) -> str:
    return " ".join(str(value).split())


def parse_candidates(methods: Any) -> list[Candidate]:
    """Candidates from names, estimators, models and folders of models.

    Args:
        methods: A comma-separated text, a list, or a dict from names in tables.

    Raises:
        UserError: If a name is unknown or given twice.
    """
    if isinstance(methods, Mapping):
        parsed = [
            replace(_candidate(value), name=name) for name, value in methods.items()
        ]
    else:
        values = methods
        if isinstance(methods, str):
            values = as_list(methods, "methods", paths=True)
        parsed = [_candidate(value) for value in values]
    names = [candidate.name for candidate in parsed]
    if len(set(names)) < len(names):
        raise UserError(
            f"received {', '.join(names)}; expected each name once", argument="methods"
        )
    return parsed


def _candidate(value: Any) -> Candidate:
    if isinstance(value, Candidate):
        return value
    if isinstance(value, str):
        return _named(value)
    if isinstance(value, Model):
        made = Raw() if value.map is None else value.map
        fitted = value.map is not None
        return Candidate(value.map_name, made, fitted, "given", encoder=value.encoder)
    if is_sentence_transformer(value):
        encoder = SentenceTransformerEncoder(value)
        name = encoder.columns()["encoder"]
        return Candidate(name, Raw(), False, "given", encoder=encoder)
    return _estimator(value)


def _named(text: str) -> Candidate:
    """A map by name, or the model of a folder; a method's name is not taken for a folder's."""
    if text == ADVISED:
        return Candidate(text, make_map(RECIPE_METHOD), advised=True)
    if model_folder(text) is None:
        return _estimator(make_map(text), text)
    if not is_map(text):
        loaded = Model.load(text)
        return replace(_candidate(loaded), name=f"{loaded.map_name} of {text}")
    warnings.warn(
        f"methods: {text} is taken as the method of that name; for the folder write ./{text}",
        FlowbertWarning,
        stacklevel=2,
    )
    return _estimator(make_map(text), text)


def _estimator(value: Any, name: str | None = None) -> Candidate:
    made = as_map(value)
    foreign = any(isinstance(part, SklearnTransformer) for part in made.parts)
    token = secrets.token_hex(16) if foreign else None
    name = made.text if name is None else name
    if isinstance(made, Raw) or not made.is_fitted:
        check_unseeded(made)
        return Candidate(name, made, token=token)
    return Candidate(name, made, True, "given", token=token)


def check_unseeded(unfitted: Map) -> None:
    """Refuse parameters that a fit here sets by itself.

    Raises:
        UserError: If a map has a ``random_state`` or an ``accelerator`` of its own.
    """
    for part in unfitted.parts:
        parameters = signature(type(part)).parameters
        for name, argument in _SET_BY_FIT.items():
            if name in parameters and getattr(part, name) != parameters[name].default:
                raise UserError(
                    f"received {name}={getattr(part, name)!r}; expected the argument "
                    f"{argument} instead",
                    argument="methods",
                )
