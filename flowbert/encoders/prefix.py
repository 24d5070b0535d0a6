"""Tokens that all sentences begin with, computed once."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Prefix(NamedTuple):
    """Keys and values of the tokens before a sentence, which a decoder reads again.

    Args:
        length: Number P of tokens.
        cache: Their keys and values in each block, a cache of transformers.
    """

    length: int
    cache: Any

    @classmethod
    def compute(cls, backbone: Any, ids: Sequence[int]) -> "Prefix | None":
        """Compute the tokens that all sentences begin with.

        Args:
            backbone: A :class:`~flowbert.encoders.backbone.Backbone` in evaluation mode.
            ids: Their P numbers.

        Returns:
            None if the network keeps no keys and values.
        """
        from transformers import DynamicCache

        features = {"input_ids": torch.tensor([list(ids)], device=backbone.device)}
        cache = getattr(
            backbone({**features, "use_cache": True}), "past_key_values", None
        )
        # Some of transformers before 4.52 give other caches.
        return cls(len(ids), cache) if isinstance(cache, DynamicCache) else None

    def add_to(self, features: Mapping[str, Tensor]) -> dict[str, Any]:
        """Inputs of the network for the tokens after the prefix, of features ``(B, T)``."""
        cache = deepcopy(self.cache)
        cache.batch_repeat_interleave(len(features["input_ids"]))
        rest = features["input_ids"][:, self.length :]
        return {**features, "input_ids": rest, "past_key_values": cache}

    def cut(self, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Features ``(B, T)`` without the prefix: ``(B, T - P)``."""
        return {name: values[:, self.length :] for name, values in features.items()}
