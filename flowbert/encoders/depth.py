"""Networks without the blocks above the highest layer that is read."""

import copy
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import nn


class Stack(NamedTuple):
    """Where the blocks of a network are, each of which reads the output of the one before.

    Its networks share weights and modules with the one they are made of.

    Args:
        path: Name of the list of blocks.
        outputs: Number of values that a block returns as a tuple; 0 for a tensor.
    """

    path: str
    outputs: int

    def first(self, network: Any, count: int) -> Any:
        """A network of the first ``count`` blocks, whose configuration says so."""
        config = copy.deepcopy(network.config)
        config.num_hidden_layers = count
        if getattr(config, "layer_types", None) is not None:
            config.layer_types = config.layer_types[:count]
        copies = self._copies(network, count)
        for module in copies:
            if hasattr(module, "config"):
                module.config = config
        return copies[0]

    def up_to(self, network: Any, layer: int) -> Any:
        """A network that computes hidden states 0 to ``layer``; those above are meaningless."""
        copies = self._copies(network, layer + 1)
        copies[-1][layer] = self._skip(copies[-1][layer])
        return copies[0]

    def _copies(self, network: Any, count: int) -> list[Any]:
        """Copies of the network and its parts down to a list of ``count`` blocks."""
        copies = [_shallow(network)]
        for name in self.path.split("."):
            child = _shallow(copies[-1]._modules[name])
            copies[-1]._modules[name] = child
            copies.append(child)
        blocks = copies[-1]
        blocks._modules = dict(islice(blocks._modules.items(), count))
        return copies

    def _skip(self, block: nn.Module) -> nn.Module:
        """A block that returns its input, with all attributes that the network may read."""
        skipped = copy.copy(block)
        others = (None,) * (self.outputs - 1)

        def forward(states: Any, *_: Any, **__: Any) -> Any:
            return (states, *others) if self.outputs else states

        skipped.forward = forward
        return skipped


def _shallow(module: Any) -> Any:
    """A copy whose submodules can be replaced; it shares everything else."""
    copied = copy.copy(module)
    copied._modules = dict(module._modules)
    return copied


def stack_of(network: Any, compute: Callable[[Any], Any]) -> Stack | None:
    """The blocks of a network, found once.

    None where they are no plain stack, such as in ALBERT, which repeats one block.

    Args:
        network: The network.
        compute: Hidden states of a few tokens by a network.
    """
    # Removed together with the hooks of transformers, which the whole network, computed here, has
    # to install before parts of it are computed.
    if not hasattr(network, "_flowbert_stack"):
        network._flowbert_stack = _find(network, compute)
    stack: Stack | None = network._flowbert_stack
    return stack


def _find(network: Any, compute: Callable[[Any], Any]) -> Stack | None:
    lists = find_blocks(network)
    if len(lists) != 1:
        return None
    ((path, blocks),) = lists.items()
    outputs: list[Any] = []
    handle = blocks[0].register_forward_hook(
        lambda _, __, output: outputs.append(output)
    )
    try:
        expected = compute(network)
        stack = Stack(path, len(outputs[0]) if isinstance(outputs[0], tuple) else 0)
        for layer in (0, len(blocks) - 1):
            states = compute(stack.up_to(network, layer))[: layer + 1]
            if not all(map(torch.equal, states, expected)) or len(states) <= layer:
                return None
    except Exception:  # the sanity check reports a network that cannot be computed
        return None
    finally:
        handle.remove()
    return stack


def find_blocks(network: Any) -> dict[str, nn.ModuleList]:
    """Lists of as many modules as a network has blocks: one, that of its blocks, in most."""
    return {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, nn.ModuleList)
        and len(module) == network.config.num_hidden_layers
    }
