"""Tokens that all sentences begin with, computed once."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flowbert.encoders.sanity import differ, tolerance_of


class Prefix(NamedTuple):
    """Keys and values of the tokens before a sentence, which a decoder reads again.

    Args:
        length: Number P of tokens.
        cache: Their keys and values in each block, a cache of transformers.
    """

    length: int
    cache: Any

    @classmethod
    def compute(cls, backbone: Any, ids: tuple[int, ...]) -> "Prefix | None":
        """Compute the tokens that all sentences begin with.

        Args:
            backbone: A :class:`~flowbert.encoders.backbone.Backbone` in evaluation mode.
            ids: Their P numbers.

        Returns:
            None where there are none, or the network does not compute the rest from them.
        """
        if not ids or not backbone.reads_prefixes:
            return None
        return _compute(backbone, torch.tensor([ids]))

    def add_to(self, features: Mapping[str, Tensor]) -> dict[str, Any]:
        """Inputs of the network for the tokens after the prefix, of features ``(B, T)``."""
        cache = deepcopy(self.cache)
        cache.batch_repeat_interleave(len(features["input_ids"]))
        rest = features["input_ids"][:, self.length :]
        return {**features, "input_ids": rest, "past_key_values": cache}

    def cut(self, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Features ``(B, T)`` without the prefix: ``(B, T - P)``."""
        return {name: values[:, self.length :] for name, values in features.items()}


def _compute(backbone: Any, ids: Tensor) -> Prefix | None:
    from transformers import DynamicCache

    features = {"input_ids": ids.to(backbone.device), "use_cache": True}
    cache = getattr(backbone(features), "past_key_values", None)
    length = ids.shape[1]
    if not isinstance(cache, DynamicCache) or cache.get_seq_length() != length:
        return None
    return Prefix(length, cache)


def check_prefixes(backbone: Any) -> bool:
    """Whether a sentence has the same hidden states after its first tokens are computed alone.

    It is so in decoders, whose tokens read those before them alone.

    Args:
        backbone: A :class:`~flowbert.encoders.backbone.Backbone` in evaluation mode.
    """
    findings = backbone.findings
    if findings is None or findings.equal_lengths:
        return False
    long = {name: values[1].tolist() for name, values in findings.features.items()}
    short = {name: values[:-2] for name, values in long.items()}
    padded = backbone.pad([long, short])
    features = {name: values.to(backbone.device) for name, values in padded.items()}
    try:
        prefix = _compute(backbone, features["input_ids"][:1, :3])
        if prefix is None:
            return False
        outputs = [backbone(x) for x in (prefix.add_to(features), features)]
    except Exception:  # caches of recurrent blocks raise a dozen types
        return False
    after_prefix, expected = (
        torch.stack([state.float().cpu() for state in output.hidden_states])
        for output in outputs
    )
    rows = [expected[:, :1, 3:], expected[:, 1:, 3:-2]]
    return not differ(after_prefix, rows, tolerance_of(backbone))
