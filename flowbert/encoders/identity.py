"""What tells encoders apart: digests of configuration and tokenizer, and the comparison of two identities."""

import json
from collections.abc import Mapping
from typing import Any

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from flowbert.errors import UserError
from flowbert.io.digest import digest_json

# Where the folder lies, who wrote it and in which dtype do not change what the loaded weights compute.
_CONFIG_LEFT_OUT = frozenset({"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"})
# What a digest in the identity was made from, in the encoder's folder.
_DIGESTED = {
    "weights": "model.safetensors",
    "config": "config.json",
    "tokenizer": "tokenizer.json or another file of the tokenizer",
}
# Entries that an identity has only where they are not this.
_NOT_ALWAYS: Mapping[str, Any] = {"prompt": "", "modules": "none", "after_pooling": None}


def digest_config(config: PretrainedConfig) -> str:
    """Hexadecimal blake2b of the model's configuration, without what cannot change an embedding."""
    return digest_json({name: value for name, value in config.to_dict().items() if name not in _CONFIG_LEFT_OUT})


def digest_tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    """Hexadecimal blake2b of how the tokenizer cuts text: vocabulary, rules and special tokens."""
    content: dict[str, Any] = {"class": type(tokenizer).__name__, "special": tokenizer.special_tokens_map}
    if tokenizer.is_fast:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        # These two are state that every call leaves behind, not part of the tokenizer.
        content["rules"] = {name: rule for name, rule in rules.items() if name not in ("truncation", "padding")}
    else:
        content["vocabulary"] = tokenizer.get_vocab()
        content["options"] = tokenizer.init_kwargs
    return digest_json(content)


def check_same_encoder(saved: Mapping[str, Any], here: Mapping[str, Any], what: str) -> None:
    """Compare two encoder identities (:meth:`SentenceEncoder.key`).

    Args:
        saved: Identity that the parameters were fitted with; entries that no identity has, such as a path, do not
            count.
        here: Identity of the encoder at hand.
        what: What holds the parameters, for the message: ``"checkpoint runs/x/last.ckpt"``.

    Raises:
        UserError: If they differ; the message lists how.
    """
    differences = []
    for name in dict.fromkeys([*here, *_NOT_ALWAYS]):
        there, at_hand = (identity.get(name, _NOT_ALWAYS.get(name)) for identity in (saved, here))
        # The weights tell; the revision is only where they came from.
        if name != "revision" and there != at_hand:
            file = f" ({_DIGESTED[name]} differs)" if name in _DIGESTED else ""
            differences.append(f"{name}: {there!r} there, {at_hand!r} here{file}")
    if differences:
        raise UserError(
            f"the {what} belongs to another encoder ({'; '.join(differences)}); allowed: the encoder it was fitted on"
        )
