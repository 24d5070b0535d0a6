"""Several settings of layers and pooling from one pass of a backbone."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from flowbert.encoders.encoder import SentenceEncoder
from flowbert.encoders.forward import Setting
from flowbert.encoders.layers import resolve_layers
from flowbert.encoders.pooling import POOLER
from flowbert.errors import UserError

Layers = tuple[int, ...]


class LayerwiseEncoder(SentenceEncoder):
    r"""The vectors of S settings, layers and pooling each, side by side, ``(N, S * D)``, from one pass.

    Example:
        >>> import torch
        >>> from flowbert.encoders.pooling import make_pooling
        >>> encoder = LayerwiseEncoder.from_pretrained("builtin-sample")
        >>> mean = make_pooling("mean")
        >>> encoder.select([((1,), mean), ((4,), mean), ((1, 4), mean)])
        >>> first, last, both = torch.tensor(encoder.encode(["a dog runs"])).chunk(3, dim=1)
        >>> torch.allclose((first + last) / 2, both, atol=1e-5)
        True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.layer_dim = self.dim

    def select(self, settings: Sequence[Setting]) -> None:
        """Choose the settings: layers as :func:`flowbert.encoders.resolve_layers` gives them, and poolings.

        Raises:
            UserError: If a pooling is ``cls_pooler``, which reads the last layer alone, and it is not asked for alone,
                or the encoder has Dense modules and a setting is not theirs.
        """
        if any(pooling.name == POOLER for _, pooling in settings) and settings != [((self.num_layers,), self._pooling)]:
            raise UserError(f"layers: received {[layers for layers, _ in settings]}; allowed with cls_pooler: last")
        for layers, pooling in settings:
            self.after_pooling.check(layers, pooling.text, self.num_layers)
        self.settings = tuple(settings)
        self.dim = len(self.settings) * self.layer_dim

    def key_of(self, setting: Setting) -> dict[str, Any]:
        """Identity of the embeddings of one setting: that of a :class:`SentenceEncoder` with it."""
        layers, pooling = setting
        return super().key() | {"layers": list(layers)} | pooling.key()


def single_layers(setting: Setting) -> tuple[Setting, ...]:
    """Settings whose vectors average to those of one: of single layers, wherever the pooling is linear.

    Example:
        >>> from flowbert.encoders.pooling import make_pooling
        >>> [layers for layers, _ in single_layers(((1, 12), make_pooling("mean")))]
        [(1,), (12,)]
    """
    layers, pooling = setting
    return tuple(((layer,), pooling) for layer in layers) if pooling.linear else (setting,)


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
