"""Candidates of a comparison: maps to fit, fitted maps, models with their encoder."""

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
from flowbert.io import as_json
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
        advised: Whether the advice for each encoder chooses map, layers and pooling.
    """

    name: str
    map: Map
    fitted: bool = False
    corpus: str = "none"
    seed: int | None = None
    encoder: Encoder | None = None
    advised: bool = False

    @property
    def needs_fit(self) -> bool:
        """Whether it is fitted on the corpus."""
        return not (self.fitted or type(self.map) is Raw)

    @property
    def size(self) -> int | None:
        """Size of the vectors that a fitted map takes; None where it is not known."""
        first = self.map.parts[0]
        return getattr(first, "n_features_in_", None) if self.fitted else None

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        """Each step in words: name, parameters, digest of fitted values.

        A step whose code is not flowbert's has a random name, so that its records are not reused.
        """
        return [_describe_step(step, self.fitted) for step in self.map.parts]


def _describe_step(step: Map, fitted: bool) -> dict[str, Any]:
    parameters = {
        name: value
        for name, value in step.used_parameters().items()
        if name not in _SET_BY_FIT
    }
    words = {"name": step.name, "parameters": as_json(parameters, _in_one_line)}
    if isinstance(step, SklearnTransformer) or is_custom(step):
        return words | {"object": secrets.token_hex(16)}
    return words | {"values": digest_state(step.get_state())} if fitted else words


def is_custom(value: object) -> bool:
    """Whether an object's class is defined outside of flowbert."""
    return not type(value).__module__.startswith("flowbert.")


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
    estimator = as_map(value)
    name = estimator.text if name is None else name
    if isinstance(estimator, Raw) or not estimator.is_fitted:
        check_unseeded(estimator)
        return Candidate(name, estimator)
    return Candidate(name, estimator, True, "given")


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
