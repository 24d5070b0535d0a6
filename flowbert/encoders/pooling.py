"""Token vectors to sentence vectors: plain and weighted means, single tokens, maxima."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from flowbert.encoders.token_weights import COUNTED, RANKED
from flowbert.errors import UserError
from flowbert.spec import parse_spec

POOLER = "cls_pooler"
_LARGEST = 1e30  # sums of float32 weights stay finite


def _mean(tokens: Tensor, mask: Tensor) -> Tensor:
    return tokens.masked_fill(~mask, 0.0).sum(dim=1) / mask.sum(dim=1)


def _weighted_mean(tokens: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    return (tokens.masked_fill(~mask, 0.0) * weights).sum(dim=1) / weights.sum(dim=1)


def _max(tokens: Tensor, mask: Tensor) -> Tensor:
    return tokens.masked_fill(~mask, -torch.inf).amax(dim=1)


def _position_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    return _weighted_mean(tokens, mask, mask.cumsum(dim=1) * mask)


def _last(tokens: Tensor, mask: Tensor) -> Tensor:
    last = mask.sum(dim=1, keepdim=True) - 1
    # ONNX has gather, but not take_along_dim.
    return tokens.gather(1, last.expand(-1, -1, tokens.shape[2])).squeeze(1)


TOKEN_POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "cls": lambda tokens, _: tokens[:, 0],
    "max": _max,
    "position_mean": _position_mean,
    "last_token": _last,
}
"""Functions of token vectors ``(B, T, D)`` and a mask ``(B, T, 1)``; a new pooling is one entry."""

WEIGHTED = (*COUNTED, *RANKED)
POOLINGS = (*TOKEN_POOLINGS, *WEIGHTED, POOLER)
"""Names of all poolings; ``cls_pooler`` is a layer of the network."""

_OPTIONS: dict[str, dict[str, float | None]] = {
    "mean": {"half": None},
    "idf": {"cls": 0.0, "half": None},
    "sif": {"a": 1e-3, "cls": 0.0, "half": None},
    "zipf": {"a": 1e-2, "cls": 0.0, "half": None},
}


@dataclass(frozen=True, eq=False)
class Pooling:
    """A pooling over the real tokens of a sentence, special ones included unless noted.

    ``mean``, ``max``; ``cls``: position 0; ``last_token``; ``position_mean``: weights 1, 2, 3, ...
    (SGPT); ``cls_pooler``: the network's own layer over position 0; ``idf``, ``sif:a=0.001`` and
    ``zipf:a=0.01``: means with :mod:`token weights <flowbert.encoders.token_weights>`, in which
    special tokens weigh 0 and a sentence of weight 0 gets its plain mean.

    Weighted means take ``cls=16``, the weight of [CLS]. All means take ``half=0`` or ``half=1``:
    only tokens at even, or odd, positions and no special ones.

    References:
        SGPT: GPT Sentence Embeddings for Semantic Search (Muennighoff, 2022).
        https://arxiv.org/abs/2202.08904

    Args:
        name: One of :data:`POOLINGS`.
        options: All options.
        weights: Weight of each token of the vocabulary, ``(V,)``.
        special: Ids of special tokens.

    Example:
        >>> tokens, ids = torch.tensor([[[1.0], [4.0], [9.0]]]), torch.tensor([[5, 6, 0]])
        >>> parse_pooling("mean")(tokens, torch.tensor([[1, 1, 0]]), ids)
        tensor([[2.5000]])
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    weights: Tensor | None = None
    special: Sequence[int] = ()

    def __str__(self) -> str:
        text = self.name
        for option, value in self.options.items():
            if value != _OPTIONS[self.name][option]:
                text += f":{option}={repr(float(value)).removesuffix('.0')}"
        return text

    @property
    def linear(self) -> bool:
        """Whether averaging layers before and after it is the same."""
        return self.name not in ("max", POOLER)

    def __call__(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence.

        Args:
            tokens: Token vectors, ``(B, T, D)``.
            mask: Nonzero where a token is real, ``(B, T)``; padding is on the right.
            ids: Token ids, ``(B, T)``.

        Shapes:
            result: ``(B, D)``.  B: batch, T: tokens, D: size of a vector.
        """
        mask = self._in_half(mask.bool(), ids)
        if self.weights is None:
            return TOKEN_POOLINGS[self.name](tokens, mask.unsqueeze(-1))
        # The table moves to the ids: it is small, and variants of an encoder move together.
        weights = self.weights.to(ids.device)[ids] * mask
        empty = weights.sum(dim=1, keepdim=True) == 0
        weights = torch.where(empty, mask.to(weights.dtype), weights)
        return _weighted_mean(tokens, mask.unsqueeze(-1), weights.unsqueeze(-1))

    def _in_half(self, mask: Tensor, ids: Tensor) -> Tensor:
        half = self.options.get("half")
        if half is None:
            return mask
        positions = torch.arange(ids.shape[1], device=ids.device) % 2 == half
        # onnxruntime has neither isin nor where on truth values.
        tokens = torch.tensor(self.special, device=ids.device)
        special = ids.unsqueeze(-1).eq(tokens).any(dim=-1)
        chosen = mask & positions & ~special
        # A sentence without a token in its half has all its tokens there.
        half_mask: Tensor = chosen | (mask & ~chosen.any(dim=1, keepdim=True))
        return half_mask


def parse_pooling(text: str) -> Pooling:
    """A pooling from ``name[:option=value]...``, without token weights.

    Raises:
        UserError: If the name, an option or a value is not one of those allowed.
    """
    spec = parse_spec(text, POOLINGS, "pooling")
    options = _OPTIONS.get(spec.name, {})
    given = spec.arguments(options)
    for name, value in given.items():
        if name == "half":
            allowed = value in (0, 1)
        else:
            allowed = type(value) in (int, float) and 0 < value <= _LARGEST
        if not allowed:
            raise UserError(
                f"received {text!r}; {name} cannot be {value}", argument="pooling"
            )
    return Pooling(spec.name, options | given)


def mix_layers(states: Sequence[Tensor], layers: Sequence[int]) -> Tensor:
    r"""Average of layers in float32, :math:`\frac{1}{|S|} \sum_{k \in S} h_k`.

    Args:
        states: L + 1 tensors of shape ``(B, T, D)``.
        layers: Indices into them.
    """
    mixed = states[layers[0]].float()
    for layer in layers[1:]:
        mixed = mixed + states[layer].float()
    return mixed / len(layers) if len(layers) > 1 else mixed
