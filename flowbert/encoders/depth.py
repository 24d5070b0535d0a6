"""Training of lower layers: the layers above those that are read are not computed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from flowbert.encoders.cpu import is_replaceable


@contextmanager
def up_to_layers_read(encoder: Any) -> Iterator[None]:
    """Compute a :class:`~flowbert.encoders.SentenceEncoder` up to its highest layer alone.

    Reading a higher layer meanwhile is an error. It has no effect on networks whose layers are not
    known to take and give hidden states alone.

    Args:
        encoder: The encoder; its network's own outputs are undefined meanwhile.
    """
    backbone, top = encoder.backbone, max(encoder.layers)
    upper = _layers(backbone.network)[top:]
    for layer in upper:
        layer.forward = _pass_on
    backbone.computed = top if upper else None
    try:
        yield
    finally:
        backbone.computed = None
        for layer in upper:
            del layer.forward


def _layers(network: Any) -> list[Any]:
    """The layers of a network of a kind that is known, in order; none of another one."""
    if not is_replaceable(network):
        return []
    count = network.config.num_hidden_layers
    lists = [
        list(module)
        for module in network.modules()
        if isinstance(module, nn.ModuleList) and len(module) == count
    ]
    return lists[0] if len(lists) == 1 else []


def _pass_on(hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
    return hidden_states
