"""Several layer settings from one pass of a backbone."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from flowbert.encoders.encoder import SentenceEncoder
from flowbert.encoders.layers import resolve_layers
from flowbert.encoders.pooling import TOKEN_POOLINGS
from flowbert.errors import UserError

Layers = tuple[int, ...]


class LayerwiseEncoder(SentenceEncoder):
    r"""The vectors of S layer settings side by side, ``(N, S * D)``, from one pass; made by ``from_pretrained``.

    Example:
        >>> import torch
        >>> encoder = LayerwiseEncoder.from_pretrained("builtin-sample")
        >>> encoder.select([(1,), (4,), (1, 4)])
        >>> first, last, both = torch.tensor(encoder.encode(["a dog runs"])).chunk(3, dim=1)
        >>> torch.allclose((first + last) / 2, both, atol=1e-5)
        True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.layer_dim = self.dim

    def select(self, settings: Sequence[Layers]) -> None:
        """Choose the settings, as :func:`flowbert.encoders.resolve_layers` gives them.

        Raises:
            UserError: If the pooling is ``cls_pooler``, which reads the last layer alone, and it is not asked for.
        """
        if self.pooling == "cls_pooler" and tuple(settings) != ((self.num_layers,),):
            raise UserError(f"layers: received {settings}; allowed with pooling cls_pooler: last")
        self.settings = tuple(settings)
        self.dim = len(self.settings) * self.layer_dim

    def key(self) -> dict[str, Any]:
        """Identity of the embeddings, as JSON values."""
        return super().key() | {"layers": [list(layers) for layers in self.settings]}

    def key_of(self, layers: Layers) -> dict[str, Any]:
        """Identity of the embeddings of one setting: that of a :class:`SentenceEncoder` with these layers."""
        return super().key() | {"layers": list(layers)}


def single_layers(layers: Layers, pooling: str) -> tuple[Layers, ...]:
    """Settings whose vectors average to those of ``layers``: single layers, wherever the pooling is linear.

    Example:
        >>> single_layers((1, 12), "mean"), single_layers((1, 12), "max")
        (((1,), (12,)), ((1, 12),))
    """
    linear = pooling in TOKEN_POOLINGS and TOKEN_POOLINGS[pooling].linear
    return tuple((layer,) for layer in layers) if linear else (layers,)


_COMBINATIONS = {"singles": 1, "pairs": 2, "triples": 3}
"""Names for all settings of so many layers, the embedding layer included."""


def expand_layers(specs: Sequence[str | int | Sequence[int]], num_layers: int) -> tuple[Layers, ...]:
    """Resolve layer settings, each once; ``singles``, ``pairs`` and ``triples`` stand for all of that size.

    References:
        WhiteningBERT: An Easy Unsupervised Sentence Embedding Approach (Huang et al., 2021).
        https://arxiv.org/abs/2104.01767

    Example:
        >>> expand_layers(["last", "pairs"], 2)
        ((2,), (0, 1), (0, 2), (1, 2))
    """
    found: dict[Layers, Layers] = {}
    for spec in specs:
        size = _COMBINATIONS.get(spec) if isinstance(spec, str) else None
        several = combinations(range(num_layers + 1), size) if size else [resolve_layers(spec, num_layers)]
        for layers in several:
            found.setdefault(tuple(sorted(layers)), layers)
    return tuple(found.values())
