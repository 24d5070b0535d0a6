"""Digests of what makes an encoder give the numbers it gives besides its weights: configuration, tokenizer."""

import json
from typing import Any

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from flowbert.io.digest import digest_json

# Where the folder lies, who wrote it and in which dtype do not change what the loaded weights compute.
_CONFIG_LEFT_OUT = frozenset({"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"})


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
