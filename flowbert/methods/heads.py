"""Heads between an encoder and its loss, used in training."""

from typing import Any

import torch
from torch import Tensor, nn

from flowbert.arrays import Floats
from flowbert.errors import UserError, choices
from flowbert.maps import MAPS, Map, Raw, make_map
from flowbert.seeding import Stream

HEADS = ("mlp_train_only", "mlp", "none")
"""Heads that are not maps."""

SAMPLED_ROWS = 16384
"""Largest number of sentences that the map of a head is fitted on."""

_INIT_STD = 0.02  # as BERT starts its layers


def dense_tanh(dim: int, seed: int) -> nn.Sequential:
    r"""Dense layer and tanh, :math:`y = \tanh(W x + b)`, with the start of BERT's layers.

    Args:
        dim: Vector size D.
        seed: Seed of the start, :math:`W \sim N(0, 0.02^2)`, b = 0.

    Shapes:
        x, y: ``(..., D)``.  D: size of a vector.
    """
    dense = nn.Linear(dim, dim)
    generator = Stream(seed, "head").generator()
    nn.init.normal_(dense.weight, std=_INIT_STD, generator=generator)
    nn.init.zeros_(dense.bias)
    return nn.Sequential(dense, nn.Tanh())


def normalize_head(text: str) -> str:
    """Canonical text of a head: one of :data:`HEADS`, or an affine map.

    Raises:
        UserError: If it is neither, or ``raw``, or a map that is not affine, learns from labels or
            draws random numbers.

    Example:
        >>> normalize_head("whitening:n_components=64:exponent=-0.50")
        'whitening-64'
    """
    return text if text in HEADS else _affine_map(text).text


def _affine_map(text: str) -> Map:
    """The unfitted map of a head."""
    unfitted = make_map(text, "head")
    if not all(_is_head(type(part)) for part in unfitted.parts):
        names = [*HEADS, *(name for name in MAPS if _is_head(MAPS.find(name)))]
        raise UserError(argument="head", received=text, expected=choices(names, text))
    return unfitted


def _is_head(map_class: type[Map]) -> bool:
    is_affine = map_class.affine is not Map.affine
    is_fixed = not (map_class.seeded or map_class.supervised)
    return is_affine and is_fixed and map_class is not Raw


class AffineHead(nn.Module):
    r"""An affine map :math:`y = x W + b` that is fitted in closed form and never trained.

    Weight and bias are float32 buffers, so that checkpoints contain them.

    References:
        WhitenedCSE: Whitening-based Contrastive Learning of Sentence Embeddings (Zhuo et al.,
        2023), which whitens groups of dimensions of each batch. https://arxiv.org/abs/2305.17746

    Args:
        text: The map, such as ``whitening:shrinkage=0.3``, or a chain, ``nulling-2+whitening``.
        dim: Vector size D.

    Attributes:
        weight: W, ``(D, k)``.
        bias: b, ``(k,)``.
        is_fitted: 1 if weight and bias come from a fitted map, otherwise 0, ``()``.

    Shapes:
        x: ``(..., D)``; y: ``(..., k)``, float32.  D: size of a vector, k: of a mapped one, which
        is known once the map is fitted.

    Raises:
        UserError: If the text does not name such a map, or the map does not fit the size.

    Example:
        >>> head = AffineHead("standardization", 2).fit([[1.0, 0.0], [3.0, 4.0]])
        >>> head(torch.tensor([2.0, 2.0])).tolist()
        [0.0, 0.0]
    """

    weight: Tensor
    bias: Tensor
    is_fitted: Tensor

    def __init__(self, text: str, dim: int) -> None:
        super().__init__()
        self.text = text
        size = _affine_map(text).check(dim, "head")
        self.register_buffer("weight", torch.zeros(dim, size))
        self.register_buffer("bias", torch.zeros(size))
        self.register_buffer("is_fitted", torch.zeros(()))

    def fit(self, rows: Floats) -> "AffineHead":
        """Fit the map on rows ``(N, D)``, in float64. Returns self.

        Raises:
            UserError: If the map of these rows is undefined.
        """
        fitted = _affine_map(self.text).fit(rows)
        if fitted.invalid_reason is not None:
            raise UserError(fitted.invalid_reason, argument="head")
        weight, bias = fitted.affine()
        # Fewer dimensions than asked for, where the rows have a lower rank.
        self.weight = weight.to(self.weight)
        self.bias = bias.to(self.bias)
        self.is_fitted.fill_(True)
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Tensor], prefix: str, *arguments: Any
    ) -> None:
        """Adopt the size of a map that was fitted before."""
        for name in ("weight", "bias"):
            buffer, loaded = getattr(self, name), state_dict.get(f"{prefix}{name}")
            if loaded is not None:
                setattr(self, name, buffer.new_empty(loaded.shape))
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def forward(self, x: Tensor) -> Tensor:
        """Map vectors, in float32 also under autocast."""
        with torch.autocast(x.device.type, enabled=False):
            return x.float() @ self.weight + self.bias
