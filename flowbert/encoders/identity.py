"""Digests of what makes an encoder give the numbers it gives: weights, configuration, tokenizer."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedTokenizerBase

_DIGEST_BYTES = 16

# Where the folder lies, who wrote it and in which dtype do not change what the loaded weights compute.
_CONFIG_LEFT_OUT = frozenset({"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"})


def digest_json(value: object) -> str:
    """Hexadecimal blake2b of ``value`` as JSON with sorted keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def digest_weights(state: Mapping[str, Tensor]) -> str:
    """Hexadecimal blake2b over the tensors in the order of their names: name, dtype, shape and bytes.

    The device on which they lie does not enter.

    Args:
        state: A ``state_dict``.

    Example:
        >>> digest_weights({"w": torch.zeros(2)}) == digest_weights({"w": torch.zeros(1, 2)})
        False
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def digest_config(config: PretrainedConfig) -> str:
    """Hexadecimal blake2b of the model's configuration, without what cannot change an embedding."""
    return digest_json({name: value for name, value in config.to_dict().items() if name not in _CONFIG_LEFT_OUT})


def digest_tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    """Hexadecimal blake2b of how the tokenizer cuts text: vocabulary, rules and special tokens."""
    content: dict[str, Any] = {"class": type(tokenizer).__name__, "special": tokenizer.special_tokens_map}
    if tokenizer.is_fast:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        # These two are state that every call leaves behind, not part of the tokenizer.
        content["rules"] = {name: part for name, part in rules.items() if name not in ("truncation", "padding")}
    else:
        content["vocabulary"] = tokenizer.get_vocab()
        content["options"] = tokenizer.init_kwargs
    return digest_json(content)
