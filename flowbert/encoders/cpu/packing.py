"""Sentences end to end: the layers of an encoder compute no padding."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from transformers import AttentionInterface

from flowbert.encoders.cpu.attention import attention
from flowbert.encoders.cpu.dropout import drop
from flowbert.encoders.position_embeddings import first_position

PACKED_ATTENTION = "flowbert_packed"

# Networks that take positions from outside and hand further arguments on to their attention; each has a test.
_PACKABLE = ("albert", "bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")


def can_pack(network: nn.Module) -> bool:
    """Whether a Hugging Face encoder gives the same vectors for packed sentences."""
    config: Any = network.config
    return config.model_type in _PACKABLE and first_position(network) is not None


@contextmanager
def packed_attention(network: nn.Module) -> Iterator[None]:
    """Let a network that can take a :class:`Packing` and nothing else meanwhile."""
    AttentionInterface.register(PACKED_ATTENTION, _attend)
    with attention(network, PACKED_ATTENTION):
        yield


class _Select(torch.autograd.Function):
    """Rows by number, where backward is a selection too: cheaper than the sum that torch must assume."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, rows: Tensor, back: Tensor, real: Tensor | None) -> Tensor:
        ctx.back, ctx.real = back, real  # type: ignore[attr-defined]
        return x.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = gradients[0].index_select(0, ctx.back)
        return gradient if ctx.real is None else gradient.mul_(ctx.real.to(gradient.dtype)), None, None, None


class _Group:
    """``b`` sentences of n tokens in all, the longest of ``l``, whose attention is computed as one padded block."""

    def __init__(self, mask: Tensor) -> None:
        real = mask.bool()
        self.sentences, self.length = real.shape
        lengths = real.sum(dim=1, keepdim=True)
        columns = torch.arange(self.length, device=real.device)
        # (b * l,): which of the n tokens stands there; a padded place repeats its sentence's last token
        self.reading = (lengths.cumsum(0) - lengths + torch.minimum(columns, lengths - 1)).flatten()
        # (n,): where in the block each token stands
        self.writing = real.flatten().nonzero().squeeze(1)
        self.tokens = len(self.writing)
        self.full = self.tokens == self.sentences * self.length
        # (b * l, 1): whether the place is a token
        self.real = real.view(-1, 1)
        # (b, 1, 1, l): 0 for a token, -inf for padding
        self.bias = torch.zeros(real.shape, device=real.device).masked_fill(~real, -torch.inf)[:, None, None, :]

    def pad(self, tokens: Tensor) -> Tensor:
        """``(n, D)`` to ``(b, l, D)``; the gradients of padded places must be zero, as they are behind the bias."""
        if not self.full:
            tokens = _Select.apply(tokens, self.reading, self.writing, None)  # type: ignore[no-untyped-call]
        return tokens.view(self.sentences, self.length, -1)

    def unpad(self, block: Tensor) -> Tensor:
        """``(b, l, D)`` to ``(n, D)``; padded places get the gradient zero."""
        rows = block.reshape(self.sentences * self.length, -1)
        if not self.full:
            rows = _Select.apply(rows, self.writing, self.reading, self.real)  # type: ignore[no-untyped-call]
        return rows


class Packing:
    r"""Sentences of several padded chunks as one sequence of N tokens, without padding.

    All layers that treat tokens alike then compute N tokens. Attention runs chunk by chunk, padded: a sentence sees
    itself alone, and a few percent of the arithmetic are there. The vectors are those of the padded chunks up to the
    rounding of their sums.

    Args:
        chunks: Token features, each ``(b, l)``, with ``attention_mask``; padding on the right.
        first: Position of a sentence's first token, see :mod:`flowbert.encoders.position_embeddings`.

    Shapes:
        N: real tokens of all chunks.  b: sentences of a chunk, l: its longest in tokens.

    Example:
        >>> packing = Packing([{"attention_mask": torch.tensor([[1, 1, 1], [1, 0, 0]])}])
        >>> packing.flatten([torch.tensor([[5, 6, 7], [8, 0, 0]])])
        tensor([[5, 6, 7, 8]])
    """

    def __init__(self, chunks: Sequence[Mapping[str, Tensor]], first: int = 0) -> None:
        self._chunks, self._first = chunks, first
        self._groups = [_Group(chunk["attention_mask"]) for chunk in chunks]
        self._sizes = [group.tokens for group in self._groups]

    def flatten(self, values: Sequence[Tensor]) -> Tensor:
        """A value per token, chunks of ``(b, l)``, as one row ``(1, N)``."""
        rows = [value.flatten()[group.writing] for value, group in zip(values, self._groups, strict=True)]
        return torch.cat(rows).unsqueeze(0)

    def inputs(self) -> dict[str, Any]:
        """Arguments for a network with :data:`PACKED_ATTENTION`: token features ``(1, N)``, positions, this packing."""
        names = [name for name in self._chunks[0] if name != "attention_mask"]
        features = {name: self.flatten([chunk[name] for chunk in self._chunks]) for name in names}
        positions = [group.writing % group.length + self._first for group in self._groups]
        return {**features, "position_ids": torch.cat(positions).unsqueeze(0), "packing": self}

    def unpack(self, hidden: Tensor) -> list[Tensor]:
        """Token vectors ``(1, N, D)`` as chunks of ``(b, l, D)``; what stands in padded places has no meaning."""
        tokens = torch.split(hidden.squeeze(0), self._sizes)
        return [group.pad(own) for group, own in zip(self._groups, tokens, strict=True)]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
        """Every sentence's attention to itself: ``(1, H, N, d)`` each to ``(1, N, H, d)``; H heads of d values."""
        heads, width = query.shape[1], query.shape[3]
        packed = [x.transpose(1, 2).reshape(-1, heads * width) for x in (query * scaling, key, value)]
        contexts = []
        for group, *own in zip(self._groups, *(torch.split(x, self._sizes) for x in packed), strict=True):
            shape = (group.sentences, group.length, heads, width)
            q, k, v = (group.pad(tokens).view(shape).transpose(1, 2) for tokens in own)
            scores = q @ k.transpose(2, 3)
            weights = (scores if group.full else scores + group.bias.to(scores.dtype)).softmax(dim=-1)
            context = (drop(weights, dropout) if dropout else weights) @ v
            contexts.append(group.unpad(context.transpose(1, 2)))
        return torch.cat(contexts).view(1, -1, heads, width)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packing: Packing,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of :class:`Packing` with the arguments that transformers gives."""
    del module, attention_mask
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    # Autocast would take the softmax out of bfloat16 and back, though it computes in float32 inside anyway.
    with torch.autocast(query.device.type, enabled=False):
        return packing.attend(query, key, value, scaling, dropout), None
