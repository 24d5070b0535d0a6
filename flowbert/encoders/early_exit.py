"""Passes that end at the highest layer that is read."""

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


class _LayersRead(Exception):  # noqa: N818  the normal end of a pass
    """All layers that are read are computed."""


_States = dict[int, Tensor]

_COLLECTED: ContextVar[tuple[int, _States] | None] = ContextVar(
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
    states: _States = {}
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
