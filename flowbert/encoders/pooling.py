"""From hidden states to one vector per sentence: average layers, then pool over tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from flowbert.errors import UserError, choices


def mix_layers(hidden_states: Sequence[Tensor], layers: Sequence[int]) -> Tensor:
    r"""Average of the chosen layers in float32, :math:`\frac{1}{|S|} \sum_{k \in S} h_k`.

    Args:
        hidden_states: L + 1 tensors of shape ``(B, T, D)``; index 0 is the embedding layer.
        layers: Indices into ``hidden_states`` as :func:`flowbert.encoders.layers.resolve_layers` gives them.

    Shapes:
        result: ``(B, T, D)``.  B: batch, T: tokens, D: embedding size.

    Example:
        >>> states = [torch.full((1, 2, 3), float(k)) for k in range(5)]
        >>> mix_layers(states, (1, 4))[0, 0]
        tensor([2.5000, 2.5000, 2.5000])
    """
    mixed = hidden_states[layers[0]].float()
    for layer in layers[1:]:
        mixed = mixed + hidden_states[layer].float()
    return mixed / len(layers) if len(layers) > 1 else mixed


class TokenPooling(NamedTuple):
    """One way from token vectors to a sentence vector.

    Attributes:
        pool: Token vectors ``(B, T, D)`` and where they are real ``(B, T, 1)`` to sentence vectors ``(B, D)``.
        linear: Whether averaging layers before and after it is the same.
    """

    pool: Callable[[Tensor, Tensor], Tensor]
    linear: bool


TOKEN_POOLINGS = {
    "mean": TokenPooling(lambda tokens, mask: tokens.masked_fill(~mask, 0.0).sum(dim=1) / mask.sum(dim=1), linear=True),
    "cls": TokenPooling(lambda tokens, _: tokens[:, 0], linear=True),
    "max": TokenPooling(lambda tokens, mask: tokens.masked_fill(~mask, -torch.inf).amax(dim=1), linear=False),
}
"""Every pooling that is a function of the tokens; a new one is one entry here."""

POOLINGS = (*TOKEN_POOLINGS, "cls_pooler")
"""All poolings: ``cls_pooler`` is a layer of the backbone."""


def check_pooling(pooling: str) -> str:
    """Give ``pooling`` back if it is one of :data:`POOLINGS`.

    Raises:
        UserError: If it is not; the message gives the value received and the names allowed.
    """
    if pooling not in POOLINGS:
        raise UserError(f"pooling: received {pooling!r}; {choices(POOLINGS, pooling)}")
    return pooling


def pool(tokens: Tensor, mask: Tensor, pooling: str) -> Tensor:
    r"""One vector per sentence, for instance the mean over real tokens :math:`\sum_t m_t x_t / \sum_t m_t`.

    ``mean`` and ``max`` run over the real tokens, the special ones at both ends included and padding excluded; ``cls``
    is position 0. The pooling ``cls_pooler`` is a layer of the backbone, not a function of the tokens alone.

    Args:
        tokens: Token vectors of shape ``(B, T, D)``.
        mask: Shape ``(B, T)``, nonzero where the token is real; at least one per sentence.
        pooling: One of :data:`TOKEN_POOLINGS`.

    Shapes:
        result: ``(B, D)``.  B: batch, T: tokens, D: embedding size.

    Raises:
        ValueError: For another name.

    Example:
        >>> pool(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[1, 1, 0]]), "mean")
        tensor([[2.]])
    """
    if pooling not in TOKEN_POOLINGS:
        raise ValueError(f"pooling: received {pooling!r}; {choices(TOKEN_POOLINGS, pooling)}")
    return TOKEN_POOLINGS[pooling].pool(tokens, mask.bool().unsqueeze(-1))
