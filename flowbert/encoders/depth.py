"""Passes through a network that end at the highest layer that is read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


class _Reached(Exception):  # noqa: N818 - nothing went wrong
    """All layers that are read are computed."""


@dataclass
class _Pass:
    """Hidden states of a pass up to layer ``top``."""

    top: int
    states: list[Tensor]


_current: ContextVar[_Pass | None] = ContextVar("current", default=None)


@dataclass(frozen=True)
class _Exit:
    """Forward pre-hook of a block, whose input is the hidden state of this layer."""

    layer: int

    def __call__(self, block: nn.Module, inputs: tuple[Any, ...]) -> None:
        current = _current.get()
        if current is None or not inputs or len(current.states) != self.layer:
            return
        current.states.append(inputs[0])
        if self.layer == current.top:
            raise _Reached


@contextmanager
def _passing(top: int) -> Iterator[list[Tensor]]:
    """A pass up to layer ``top``, which the hooks of this thread see, and its hidden states."""
    current = _Pass(top, [])
    token = _current.set(current)
    try:
        yield current.states
    finally:
        _current.reset(token)


def compute_layers(compute: Callable[[], Any], top: int) -> Any:
    """Compute a network up to a layer.

    Args:
        compute: Computes the network.
        top: Highest layer that is read.

    Returns:
        The hidden states 0 to ``top``; the output of the network if it is computed as a whole.
    """
    with _passing(top) as states:
        try:
            return compute()
        except _Reached:
            return states


def add_exits(network: nn.Module, compute: Callable[[], Any]) -> None:
    """Add the hooks by which :func:`compute_layers` ends a pass early.

    Networks without a list of blocks that take hidden states stay as they are: ALBERT repeats one
    block, and XLNet's blocks have tokens in their first dimension.

    Args:
        network: The network.
        compute: Computes it for a few tokens; the inputs of blocks must be the hidden states.
    """
    config: Any = network.config
    count = config.num_hidden_layers
    lists = find_blocks(network, count)
    if len(lists) != 1 or has_exits(network):
        return
    handles = [
        block.register_forward_pre_hook(_Exit(layer))
        for layer, block in enumerate(lists[0])
    ]
    # The sanity check reports a network that cannot be computed.
    with _passing(count) as states, suppress(Exception):
        expected = compute().hidden_states[:-1]
        if len(states) == count and all(map(torch.equal, states, expected)):
            return
    for handle in handles:
        handle.remove()


def has_exits(network: nn.Module) -> bool:
    """Whether :func:`add_exits` has found the blocks of a network, each the next of a stack."""
    config: Any = network.config
    lists = find_blocks(network, config.num_hidden_layers)
    return any(_Exit(0) in blocks[0]._forward_pre_hooks.values() for blocks in lists)


def find_blocks(network: nn.Module, count: int) -> list[nn.ModuleList]:
    """Lists of so many modules in a network: one, that of its blocks, in most networks."""
    return [
        module
        for module in network.modules()
        if isinstance(module, nn.ModuleList) and len(module) == count
    ]
