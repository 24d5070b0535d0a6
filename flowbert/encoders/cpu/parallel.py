"""How many batches a network may compute at a time."""

from typing import Any

from torch import nn

from flowbert.threads import MANY

_MOVING_POSITIONS = ("dynamic", "longrope")  # transformers writes into these rotary embeddings while it computes
_WRITING = ("big_bird", "funnel", "recurrent_gemma", "rwkv")  # so do these networks into other modules of their own


def changes_itself(network: nn.Module) -> bool:
    """Whether a network of transformers is known to change its own modules or weights while it computes."""
    config: Any = getattr(network, "config", None)
    return getattr(config, "model_type", "") in _WRITING


def most_batches(network: nn.Module) -> int:
    """Batches that threads of one process may send through a frozen network at the same time.

    Elsewhere than on a CPU, or for a network that changes itself while it computes, it is one.

    Example:
        >>> most_batches(nn.Linear(2, 2)), most_batches(nn.Linear(2, 2, device="meta"))
        (8, 1)
    """
    if any(tensor.device.type != "cpu" for tensor in network.parameters()):
        return 1
    if changes_itself(network):
        return 1
    positions = " ".join(str(getattr(module, "rope_type", "")) for module in network.modules())
    return 1 if any(kind in positions for kind in _MOVING_POSITIONS) else MANY
