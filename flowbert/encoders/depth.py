"""Networks without the blocks above the highest layer that is read."""

import copy
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

    def up_to(self, network: Any, layer: int) -> Any:
        """A network that computes hidden states 0 to ``layer``; those above are meaningless."""
        copies = self.copies(network, layer + 1)
        skipped = copy.copy(copies[-1][layer])  # with all that the network may read
        others = (None,) * (self.outputs - 1)

        def forward(states: Any, *_: Any, **__: Any) -> Any:
            return (states, *others) if self.outputs else states

        skipped.forward = forward
        copies[-1][layer] = skipped
        return copies[0]

    def copies(self, network: Any, count: int) -> list[Any]:
        """Copies of the network and its parts down to a list of ``count`` blocks."""
        copies = [_shallow(network)]
        for name in self.path.split("."):
            child = _shallow(copies[-1]._modules[name])
            copies[-1]._modules[name] = child
            copies.append(child)
        blocks = copies[-1]
        blocks._modules = dict(islice(blocks._modules.items(), count))
        return copies


def _shallow(module: Any) -> Any:
    """A copy whose submodules can be replaced; it shares everything else."""
    copied = copy.copy(module)
    copied._modules = dict(module._modules)
    return copied


def stack_of(backbone: Any) -> Stack | None:
    """The blocks of a network, found once.

    None where they are no plain stack, such as in ALBERT, which repeats one block.

    Args:
        backbone: A :class:`~flowbert.encoders.backbone.Backbone`.
    """
    network = backbone.network.base_model
    # Removed together with the hooks of transformers, which the whole network, computed here, has
    # to install before parts of it are computed.
    if not hasattr(network, "_flowbert_stack"):
        with backbone.evaluating():
            network._flowbert_stack = _find(backbone, network)
    stack: Stack | None = network._flowbert_stack
    return stack


def _find(backbone: Any, network: Any) -> Stack | None:
    lists = find_blocks(network)
    if len(lists) != 1:
        return None
    ((path, blocks),) = lists.items()
    ids = torch.arange(4, device=backbone.device).unsqueeze(0)
    features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    outputs: list[Any] = []
    handle = blocks[0].register_forward_hook(
        lambda _, __, output: outputs.append(output)
    )
    try:
        expected = backbone.compute(network, features).hidden_states
        stack = Stack(
            path, len(outputs[0]) if isinstance(outputs[0], tuple | list) else 0
        )
        for layer in (0, len(blocks) - 1):
            part = stack.up_to(network, layer)
            states = backbone.compute(part, features).hidden_states[: layer + 1]
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
