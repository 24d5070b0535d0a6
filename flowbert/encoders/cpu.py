"""The encoder on CPUs: training without padding, several batches at a time, slow bfloat16.

Gains are medians on a processor with AVX2 and two cores, with all-MiniLM-L6-v2 or its like.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from flowbert.encoders.settings import changes_positions
from flowbert.errors import FlowbertWarning
from flowbert.threads import MAX_WORKERS

PACKED = "flowbert_packed"
"""Name of the attention over packed sentences."""
ALIGNED = "flowbert_aligned"
"""Name of the attention over keys that fill vectors of the processor."""

_LANES = 16  # float32 numbers in a vector of AVX-512

# Kinds of networks whose sentences can be packed: they have a table of positions, which are an
# input, and pass further inputs on to their attention. Each entry here and below has a test.
PACKABLE = (
    "albert",
    "bert",
    "camembert",
    "distilbert",
    "electra",
    "roberta",
    "xlm-roberta",
)
# Kinds whose modules write nothing while they compute, so that threads may share them.
SHAREABLE = (
    *PACKABLE,
    "deberta-v2",
    "gpt2",
    "llama",
    "mistral",
    "modernbert",
    "mpnet",
    "qwen2",
    "qwen3",
    "roformer",
    "xlnet",
)


def is_replaceable(network: Any) -> bool:
    """Whether attention and layers of a network can be replaced: those of transformers 4 cannot."""
    supported = getattr(network, "_supports_attention_backend", False)
    return network.config.model_type in PACKABLE and supported


def workers(network: nn.Module) -> int:
    """Number of batches that threads may send through a frozen network at the same time.

    1.8 times as fast as all threads on one batch.
    """
    config: Any = network.config
    device = next(network.parameters()).device
    if device.type != "cpu" or config.model_type not in SHAREABLE:
        return 1
    changing = [
        changes_positions(getattr(module, "rope_type", ""))
        for module in network.modules()
    ]
    return 1 if any(changing) else MAX_WORKERS


def unaligned(length: int) -> int:
    """Places that a row of so many numbers lacks to end with a vector of the processor.

    With AVX-512 torch's softmax of 14 numbers takes eight times as long as that of 16; with AVX2
    it does not.
    """
    aligns = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return -length % _LANES if aligns else 0


def bfloat16_is_fast() -> bool:
    """Whether the processor multiplies in bfloat16 itself."""
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return supported is not None and bool(supported())


@cache
def warn_of_bfloat16() -> None:
    """Warn once if bfloat16 is emulated."""
    if not bfloat16_is_fast():
        warnings.warn(
            "dtype: bfloat16 is emulated by this processor and slower than float32; "
            "expected float32, or another device",
            FlowbertWarning,
            stacklevel=3,
        )


@contextmanager
def fast_encoding(network: Any) -> Iterator[None]:
    """Encode on a CPU with AVX-512 with keys in multiples of 16, the last ones masked.

    Nothing happens on other processors and devices, and for networks that cannot do it.
    """
    # Below prediction layers the network has a configuration of its own.
    network = getattr(network, "base_model", network)
    config = network.config
    if (
        not unaligned(1)
        or not is_replaceable(network)
        or config._attn_implementation != "sdpa"
        or next(network.parameters()).device.type != "cpu"
    ):
        yield
        return
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(ALIGNED, _attend_aligned)
    AttentionMaskInterface.register(ALIGNED, sdpa_mask)
    config._attn_implementation = ALIGNED
    try:
        yield
    finally:
        config._attn_implementation = "sdpa"


def _attend_aligned(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> Any:
    """The usual attention over aligned keys, with the arguments that transformers gives."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if lacking := unaligned(key.shape[2]):
        if attention_mask is None:
            attention_mask = key.new_ones((1, 1, 1, key.shape[2]), dtype=torch.bool)
        attention_mask = functional.pad(attention_mask, (0, lacking))  # False
        key, value = (functional.pad(x, (0, 0, 0, lacking)) for x in (key, value))
    return sdpa_attention_forward(module, query, key, value, attention_mask, **options)


@contextmanager
def fast_training(encoder: Any) -> Iterator[None]:
    """Train a :class:`~flowbert.encoders.SentenceEncoder` on a CPU without computing padding.

    1.2 times as fast for batches of 64 captions, each twice. It has no effect on other devices, or
    on networks that are not supported.

    Args:
        encoder: The encoder, on its device.

    Example:
        >>> from flowbert.encoders import SentenceEncoder
        >>> encoder = SentenceEncoder("builtin-sample", frozen=False)
        >>> with fast_training(encoder):
        ...     packs = encoder.packs  # True with transformers 5
    """
    backbone = encoder.backbone
    network = backbone.network
    if (
        not is_replaceable(network)
        or encoder.device.type != "cpu"
        or encoder.pooling.name == "cls_pooler"
    ):
        yield
        return
    from transformers import AttentionInterface

    AttentionInterface.register(PACKED, _attend)
    before = network.config._attn_implementation
    network.set_attn_implementation(PACKED)
    backbone.packs = True
    try:
        yield
    finally:
        backbone.packs = False
        network.set_attn_implementation(before)


class Packing:
    r"""Sentences of several padded chunks as one sequence of N tokens.

    Layers that treat tokens alike compute N tokens and no padding. Attention runs chunk by chunk,
    padded, so that a sentence sees itself alone. Vectors are those of the chunks, up to rounding.

    Args:
        chunks: Token features, each ``(b, l)``, with ``attention_mask``; padding on the right.
        first: Position of a sentence's first token.

    Example:
        >>> packing = Packing([{"attention_mask": torch.tensor([[1, 1, 1], [1, 0, 0]])}])
        >>> packing.flatten([torch.tensor([[5, 6, 7], [8, 0, 0]])])
        tensor([[5, 6, 7, 8]])
    """

    def __init__(self, chunks: Sequence[Mapping[str, Tensor]], first: int = 0) -> None:
        self._chunks = chunks
        self._first = first
        self._groups = [_Group(chunk["attention_mask"]) for chunk in chunks]
        self._sizes = [len(group.writing) for group in self._groups]

    def flatten(self, values: Sequence[Tensor]) -> Tensor:
        """A value per token, chunks of ``(b, l)``, as one row ``(1, N)``."""
        rows = [
            value.flatten()[group.writing]
            for value, group in zip(values, self._groups, strict=True)
        ]
        return torch.cat(rows).unsqueeze(0)

    def inputs(self) -> dict[str, Any]:
        """Inputs of a network inside of :func:`fast_training`."""
        names = [name for name in self._chunks[0] if name != "attention_mask"]
        features = {
            name: self.flatten([chunk[name] for chunk in self._chunks])
            for name in names
        }
        positions = [
            group.writing % group.length + self._first for group in self._groups
        ]
        return {
            **features,
            "position_ids": torch.cat(positions).unsqueeze(0),
            "packing": self,
        }

    def unpack(self, hidden: Tensor) -> list[Tensor]:
        """Token vectors ``(1, N, D)`` as chunks of ``(b, l, D)``, with any values in padding."""
        tokens = torch.split(hidden.squeeze(0), self._sizes)
        return [group.pad(own) for group, own in zip(self._groups, tokens, strict=True)]

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float
    ) -> Tensor:
        """Attention of every sentence to itself: ``(1, H, N, d)`` each to ``(1, N, H, d)``."""
        heads, width = query.shape[1], query.shape[3]
        inputs = []
        for states in (query * scaling, key, value):
            rows = states.transpose(1, 2).reshape(-1, heads * width)
            inputs.append(torch.split(rows, self._sizes))
        contexts = []
        for group, *own in zip(self._groups, *inputs, strict=True):
            q, k, v = (group.pad_heads(rows, heads) for rows in own)
            scores = q @ k.transpose(2, 3) + group.bias.to(q.dtype)
            weights = functional.dropout(scores.softmax(dim=-1), dropout)
            contexts.append(group.unpad((weights @ v).transpose(1, 2)))
        return torch.cat(contexts).view(1, -1, heads, width)


class _Group:
    """A chunk of b sentences with n tokens, the longest of l."""

    def __init__(self, mask: Tensor) -> None:
        real = mask.bool()
        self.sentences, self.length = real.shape
        lengths = real.sum(dim=1, keepdim=True)
        columns = torch.arange(self.length, device=real.device)
        starts = lengths.cumsum(0) - lengths
        # (b * l,): token at each place of the chunk; padding repeats its sentence's last token
        self.reading = (starts + torch.minimum(columns, lengths - 1)).flatten()
        # (n,): place of each token
        self.writing = real.flatten().nonzero().squeeze(1)
        # (b * l, 1): whether the place holds a token
        self.real = real.view(-1, 1)
        # (b, 1, 1, l): 0 for a token, -inf for padding
        self.bias = torch.zeros(real.shape, device=real.device)
        self.bias = self.bias.masked_fill(~real, -torch.inf)[:, None, None, :]

    def pad(self, tokens: Tensor) -> Tensor:
        """``(n, D)`` to ``(b, l, D)``; gradients of padding must be zero, as behind the bias."""
        rows: Tensor = _Select.apply(tokens, self.reading, self.writing, None)  # type: ignore[no-untyped-call]
        return rows.view(self.sentences, self.length, -1)

    def pad_heads(self, tokens: Tensor, heads: int) -> Tensor:
        """``(n, H * d)`` to ``(b, H, l, d)``."""
        return (
            self.pad(tokens)
            .view(self.sentences, self.length, heads, -1)
            .transpose(1, 2)
        )

    def unpad(self, block: Tensor) -> Tensor:
        """``(b, l, D)`` to ``(n, D)``; padding gets the gradient zero."""
        rows = block.reshape(self.sentences * self.length, -1)
        selected: Tensor = _Select.apply(rows, self.writing, self.reading, self.real)  # type: ignore[no-untyped-call]
        return selected


class _Select(torch.autograd.Function):
    """Rows by index whose backward is a selection, too: cheaper than the sum torch must assume."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        rows: Tensor,
        chosen: Tensor,
        back: Tensor,
        real: Tensor | None,
    ) -> Tensor:
        ctx.back, ctx.real = back, real  # type: ignore[attr-defined]
        return rows.index_select(0, chosen)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = gradients[0].index_select(0, ctx.back)
        if ctx.real is not None:
            gradient = gradient.mul_(ctx.real.to(gradient.dtype))
        return gradient, None, None, None


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
    # Autocast would convert the softmax to float32 and back, though it computes in float32 inside.
    with torch.autocast(query.device.type, enabled=False):
        return packing.attend(query, key, value, scaling, dropout), None
