"""Entries of configurations, kinds of positions, and hooks of transformers."""

import copy
from typing import Any

from torch import nn

# Entries of a configuration that do not change what the loaded weights compute.
_UNRELATED = (
    "_name_or_path",
    "transformers_version",
    "architectures",
    "dtype",
    "torch_dtype",
    "_attn_implementation_autoset",
)
DROPOUT_RATES = ("attention_dropout", "dropout", "dropout_prob")
"""Attributes of modules that are rates of dropout, where an attention holds its rate itself."""


def config_values(config: Any) -> dict[str, Any]:
    """Entries of a configuration that can change a vector."""
    values = config.to_dict().items()
    return {name: value for name, value in values if name not in _UNRELATED}


def changes_positions(rope_type: Any) -> bool:
    """Whether rotary embeddings of this kind (or kinds, by layer) are written in a pass."""
    return any(kind in str(rope_type) for kind in ("dynamic", "longrope"))


def remove_captures(module: nn.Module) -> None:
    """Remove the hooks of transformers, local functions that do not pickle.

    The next pass installs them again.
    """
    for part in module.modules():
        for name in ("_output_capturing_hooks_installed", "_flowbert_stack"):
            vars(part).pop(name, None)
        for number, hook in list(part._forward_hooks.items()):
            if str(getattr(hook, "__module__", "")).startswith("transformers."):
                del part._forward_hooks[number]


def note_captures(module: nn.Module) -> None:
    """Let transformers note what its hooks capture, as it does where a network is made."""
    from transformers import PreTrainedModel

    for part in module.modules():
        if isinstance(part, PreTrainedModel):
            empty = type(part).__new__(type(part))
            PreTrainedModel.__init__(empty, copy.deepcopy(part.config))
