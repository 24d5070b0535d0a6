"""How a network is read: layers, pooling, length, template and attention sink."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flowbert.encoders.layers import Layers, resolve_layers
from flowbert.encoders.pooling import (
    LastTokenPooling,
    NetworkPooling,
    Pooling,
    make_pooling,
)
from flowbert.encoders.template import (
    pooling_of,
    prompt_of,
    resolve_template,
    usual_sink,
)
from flowbert.errors import UserError

DEFAULTS: Mapping[str, Any] = {
    "layers": "last",
    "pooling": "mean",
    "max_length": None,
    "template": "",
    "sink_token": None,
}
"""What neither a caller nor a folder says.

A ``sink_token`` of None follows from the others, and a ``max_length`` of None from the network.
"""

DECODER_LENGTH, ENCODER_LENGTH = 512, 128
"""Tokens after which a sentence is cut where nobody says it; fewer with fewer positions."""


@dataclass(frozen=True)
class Reading:
    """How a network is read, with nothing left open; see :func:`resolve`.

    Args:
        layers: Indices of the layers that are averaged.
        pooling: Pooling over tokens with its options, as text.
        max_length: Tokens after which a sentence is cut, special ones included.
        template: Text around every sentence; empty for none.
        sink_token: Token in front of every sentence that is not pooled; empty for none.
    """

    layers: Layers
    pooling: str
    max_length: int
    template: str
    sink_token: str

    def as_json(self) -> dict[str, Any]:
        """The entries as JSON has them."""
        return {**vars(self), "layers": list(self.layers)}


def resolve(
    backbone: Any, usual: Mapping[str, Any], given: Mapping[str, Any]
) -> Reading:
    """The reading of a network: what is given, then what that implies, then the usual.

    A new template brings its pooling, and a new template or pooling brings the sink that suits it.

    Args:
        backbone: A :class:`~flowbert.encoders.backbone.Backbone`.
        usual: Entries of the folder or of another reading; all of :data:`DEFAULTS`.
        given: Entries of the caller; None is the same as missing.

    Raises:
        UserError: If an entry does not fit the network.
        TypeError: If there is no such entry.
    """
    given = {name: value for name, value in given.items() if value is not None}
    implied: dict[str, Any] = {}
    if given.keys() & {"pooling", "template"}:
        implied["sink_token"] = None
    template = given.get("template", usual["template"])
    template = resolve_template(template, backbone.tokenizer)
    if "template" in given and (of_template := pooling_of(template)):
        implied["pooling"] = of_template
    chosen = {**usual, **implied, **given}
    layers = resolve_layers(chosen["layers"], backbone.num_layers)
    length = _choose_length(backbone, given.get("max_length"), usual["max_length"])
    pooling = make_pooling(chosen["pooling"])
    if isinstance(pooling, NetworkPooling) and not (
        backbone.has_pooler and layers == (backbone.num_layers,)
    ):
        raise UserError(
            f"received cls_pooler of {backbone.path!r}; expected a network with a pooler, and "
            "layers last",
            argument="pooling",
        )
    chosen |= {
        "layers": layers,
        "pooling": str(pooling),
        "max_length": length,
        "template": template,
    }
    if chosen["sink_token"] is None:
        chosen["sink_token"] = _choose_sink(backbone, pooling, template)
    return Reading(**chosen)


def _choose_length(backbone: Any, given: int | None, usual: int | None) -> int:
    """Tokens after which a sentence is cut; the usual number as far as there are positions."""
    if given is None:
        usual = usual or (DECODER_LENGTH if backbone.is_decoder else ENCODER_LENGTH)
        given = min(usual, backbone.positions or usual)
    length: int = backbone.check_length(given)
    return length


def _choose_sink(backbone: Any, pooling: Pooling, template: str) -> str:
    """Token in front of a decoder's sentences, if the pooling reads tokens behind it."""
    is_read = pooling.over_tokens or isinstance(pooling, LastTokenPooling)
    is_template = template and not prompt_of(template)
    if not is_read or is_template or not backbone.tokenizer.is_fast:
        return ""
    return usual_sink(backbone.tokenizer) if backbone.is_decoder else ""
