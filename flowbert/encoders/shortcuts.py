"""Two ways to compute less: layers that are not read, and tokens that all sentences begin with."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class _LayersRead(Exception):  # noqa: N818  the normal end of a pass
    """All layers that are read are computed."""


_COLLECTED: ContextVar[tuple[int, dict[int, Tensor]] | None] = ContextVar(
    "collected", default=None
)
"""The highest layer that a pass reads, and the hidden states so far."""


def find_blocks(network: Any) -> dict[str, nn.ModuleList]:
    """Lists of as many modules as a network has blocks: one, that of its blocks, in most."""
    return {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, nn.ModuleList)
        and len(module) == network.config.num_hidden_layers
    }


def allow_early_exit(network: Any) -> None:
    """Let passes of :func:`lower_states` end before a block; other passes are as before."""
    for blocks in find_blocks(network).values():
        for layer, block in enumerate(blocks):
            block.register_forward_pre_hook(partial(_collect, layer), with_kwargs=True)


def lower_states(compute: Callable[[], Any], top: int) -> list[Tensor] | None:
    """Hidden states 0 to ``top`` of a pass, the inputs of the blocks above each of them.

    Args:
        compute: The pass of a network of :func:`allow_early_exit`.
        top: The highest layer that is read, below the last one.

    Returns:
        None if the pass does not come to the block above that layer.
    """
    states: dict[int, Tensor] = {}
    token = _COLLECTED.set((top, states))
    try:
        compute()
    except _LayersRead:
        return [states[layer] for layer in range(top + 1)]
    finally:
        _COLLECTED.reset(token)
    return None


def _collect(layer: int, _: nn.Module, inputs: Any, options: dict[str, Any]) -> None:
    """Keep the input of a block, the output of the layer below it."""
    if torch.compiler.is_compiling() or (collected := _COLLECTED.get()) is None:
        return
    top, states = collected
    states[layer] = inputs[0] if inputs else options["hidden_states"]
    if layer == top:
        raise _LayersRead


class Prefix(NamedTuple):
    """Keys and values of the tokens before a sentence, which a decoder reads again.

    Args:
        length: Number P of tokens.
        cache: Their keys and values in each block, a cache of transformers.
    """

    length: int
    cache: Any

    @classmethod
    def compute(cls, backbone: Any, ids: Sequence[int]) -> "Prefix":
        """Compute the tokens that all sentences begin with.

        Args:
            backbone: A :class:`~flowbert.encoders.backbone.Backbone` in evaluation mode.
            ids: Their P numbers.
        """
        features = {"input_ids": torch.tensor([list(ids)], device=backbone.device)}
        output = backbone({**features, "use_cache": True})
        return cls(len(ids), output.past_key_values)

    def add_to(self, features: Mapping[str, Tensor]) -> dict[str, Any]:
        """Inputs of the network for the tokens after the prefix, of features ``(B, T)``."""
        cache = deepcopy(self.cache)
        cache.batch_repeat_interleave(len(features["input_ids"]))
        rest = features["input_ids"][:, self.length :]
        return {**features, "input_ids": rest, "past_key_values": cache}

    def cut(self, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Features ``(B, T)`` without the prefix: ``(B, T - P)``."""
        return {name: values[:, self.length :] for name, values in features.items()}
