"""From token features to sentence vectors: one pass of a backbone, and each setting's layers and pooling of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from flowbert.encoders.cpu.packing import Packing
from flowbert.encoders.pooling import POOLER, Pooling, mix_layers
from flowbert.encoders.tokens import input_names

Features = Mapping[str, Tensor]
"""Token features, each ``(B, T)``."""

Setting = tuple[tuple[int, ...], Pooling]
"""Layers to average, as indices into the hidden states, and what pools the tokens."""

After = Callable[[Tensor], Tensor]
"""What each pooled vector goes through."""


def embed(backbone: nn.Module, features: Features, settings: Sequence[Setting], after: After) -> Tensor:
    """Vectors of a batch under S settings side by side: ``(B, S * k)``, float32.

    Args:
        backbone: The network.
        features: Token features, each ``(B, T)``.
        settings: Layers and poolings; ``cls_pooler`` only alone.
        after: From pooled vectors ``(B, D)`` to ``(B, k)``.
    """
    output = _states(backbone, features)
    if settings[0][1].name == POOLER:
        return after(output.pooler_output.float())
    mixed = {layers: mix_layers(output.hidden_states, layers) for layers, _ in settings}
    return _pooled(mixed, features, settings, after)


def embed_packed(
    backbone: nn.Module, packing: Packing, chunks: Sequence[Features], settings: Sequence[Setting], after: After
) -> Tensor:
    """The same of chunks that went through the network as one sequence without padding, one after another."""
    states = _states(backbone, packing.inputs()).hidden_states
    mixed = {layers: packing.unpack(mix_layers(states, layers)) for layers, _ in settings}
    rows = [
        _pooled({layers: parts[number] for layers, parts in mixed.items()}, chunk, settings, after)
        for number, chunk in enumerate(chunks)
    ]
    return torch.cat(rows)


@contextmanager
def evaluating(encoder: nn.Module) -> Iterator[None]:
    """Evaluation mode, no gradients, no autocast; afterwards every module is in the mode that it was in."""
    training = [module for module in encoder.modules() if module.training]
    encoder.eval()
    try:
        with torch.no_grad(), torch.autocast(next(encoder.parameters()).device.type, enabled=False):
            yield
    finally:
        for module in training:
            module.training = True


def _pooled(
    mixed: Mapping[tuple[int, ...], Tensor], features: Features, settings: Sequence[Setting], after: After
) -> Tensor:
    mask, ids = features["attention_mask"], features["input_ids"]
    return torch.cat([after(pool(mixed[layers], mask, ids)) for layers, pool in settings], dim=1)


def _states(backbone: nn.Module, features: Features) -> Any:
    options: dict[str, Any] = {"output_hidden_states": True, "return_dict": True}
    if "use_cache" in input_names(backbone):  # keys and values of a decoder: nothing goes on from here
        options["use_cache"] = False
    return backbone(**features, **options)
