"""Which attention a Hugging Face network computes: the one place that reads what has no public name."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


def attention_of(network: nn.Module) -> str | None:
    """Name of the attention, as ``set_attn_implementation`` takes it; None for a network that is not transformers'."""
    return getattr(network.config, "_attn_implementation", None)


@contextmanager
def attention(network: Any, name: str) -> Iterator[None]:
    """Compute another attention meanwhile; the one before comes back, also after an interruption."""
    before = attention_of(network)
    network.set_attn_implementation(name)
    try:
        yield
    finally:
        network.set_attn_implementation(before)
