"""Which networks may be computed how: the kind of a network, and how many batches at a time."""

from typing import Any

from torch import nn

from flowbert.threads import MANY

# transformers' networks whose modules write nothing while they compute; each has a test.
_SAFE = (
    *("albert", "bert", "camembert", "deberta-v2", "distilbert", "electra", "esm", "gpt2", "llama", "mistral"),
    *("modernbert", "mpnet", "qwen2", "qwen3", "roberta", "roformer", "xlm-roberta", "xlnet"),
)
_MOVING_POSITIONS = ("dynamic", "longrope")  # rotary embeddings that are written while they are computed


def model_type(network: nn.Module) -> str:
    """Transformers' name of the kind of a network; empty for any other."""
    config: Any = getattr(network, "config", None)
    return getattr(config, "model_type", "")


def most_batches(network: nn.Module) -> int:
    """Batches that threads of one process may send through a frozen network at the same time.

    It is one elsewhere than on a CPU, and for a network that may change itself while it computes.

    Example:
        >>> from flowbert.encoders import SentenceEncoder
        >>> most_batches(SentenceEncoder.from_pretrained("builtin-sample").backbone), most_batches(nn.Linear(2, 2))
        (8, 1)
    """
    on_cpu = all(tensor.device.type == "cpu" for tensor in network.parameters())
    if not on_cpu or model_type(network) not in _SAFE:
        return 1
    positions = " ".join(str(getattr(module, "rope_type", "")) for module in network.modules())
    return 1 if any(kind in positions for kind in _MOVING_POSITIONS) else MANY
