"""Layer numbers: indices into ``hidden_states`` of a network with L blocks.

Index 0 is the embedding layer, 1 the first block, L the last one; negative numbers count from the
end, so that -1 is L and -(L + 1) is 0.
"""

from collections.abc import Sequence
from itertools import combinations
from numbers import Integral
from operator import index
from typing import Any

from torch import Tensor

from flowbert.errors import UserError, choices
from flowbert.numbers import parse_integer

Layers = tuple[int, ...]
LayerSpec = str | int | Sequence[int]

LAYER_NAMES: dict[str, Layers] = {
    "last": (-1,),
    "last2": (-1, -2),
    "first_last": (1, -1),
    "embedding_last": (0, -1),
}
SIZES = {"singles": 1, "pairs": 2, "triples": 3}
"""Number of layers in a set, by the name of all sets of this size."""


def resolve_layers(spec: LayerSpec, num_layers: int) -> Layers:
    """Indices of the layers that are averaged, in the given order.

    Args:
        spec: A name (``last``, ``last2``, ``first_last``, ``embedding_last``), a number, a
            sequence of numbers, or numbers as text (``"1,12"``).
        num_layers: Number L of blocks.

    Returns:
        Indices from 0 to L.

    Raises:
        UserError: For an unknown name, no layer, a number outside -(L + 1) to L, or one twice.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020).
        https://arxiv.org/abs/2011.05864

    Example:
        >>> resolve_layers("first_last", 12), resolve_layers("0,-1", 12)
        ((1, 12), (0, 12))
    """
    is_name = isinstance(spec, str) and spec in LAYER_NAMES
    try:
        if is_name:
            numbers = list(LAYER_NAMES[str(spec)])
        elif isinstance(spec, str):
            numbers = [parse_integer(part) for part in spec.split(",")]
        else:
            parts: Any = [spec] if isinstance(spec, Integral) else spec
            numbers = [index(part) for part in parts]
    except (TypeError, ValueError):
        numbers = []
    layers = tuple(dict.fromkeys(number % (num_layers + 1) for number in numbers))
    # In a network of one block, the first and the last layer are the same.
    are_different = is_name or len(layers) == len(numbers)
    in_range = all(-num_layers - 1 <= number <= num_layers for number in numbers)
    if not (layers and are_different and in_range):
        raise UserError(
            argument="layers",
            received=spec,
            expected=(
                f"{choices(LAYER_NAMES, str(spec))}, or numbers such as 1,12, each once, from 0"
                f" (embedding layer) to {num_layers} (last block), or from -1 (last block) to"
                f" {-num_layers - 1}"
            ),
        )
    return layers


def name_layers(layers: Sequence[int], num_layers: int) -> str:
    """Name of resolved layers, or their numbers where they have none.

    Example:
        >>> name_layers((1, 12), 12), name_layers((1, 2, 12), 12)
        ('first_last', '1,2,12')
    """
    for name in LAYER_NAMES:
        if resolve_layers(name, num_layers) == tuple(layers):
            return name
    return ",".join(map(str, layers))


def expand_layers(specs: Sequence[LayerSpec], num_layers: int) -> list[Layers]:
    """Resolve several specifications of layers; returns each set once.

    Args:
        specs: As in :func:`resolve_layers`; ``singles``, ``pairs`` and ``triples`` stand for all
            sets of that size, including the embedding layer.
        num_layers: Number L of blocks.

    References:
        WhiteningBERT: An Easy Unsupervised Sentence Embedding Approach (Huang et al., 2021).
        https://arxiv.org/abs/2104.01767

    Example:
        >>> expand_layers(["last", "pairs"], 2)
        [(2,), (0, 1), (0, 2), (1, 2)]
    """
    expanded: dict[Layers, Layers] = {}
    for spec in specs:
        if isinstance(spec, str) and spec in SIZES:
            sets = list(combinations(range(num_layers + 1), SIZES[spec]))
        else:
            sets = [resolve_layers(spec, num_layers)]
        for layers in sets:
            expanded.setdefault(tuple(sorted(layers)), layers)
    return list(expanded.values())


def average_layers(states: Sequence[Tensor], layers: Sequence[int]) -> Tensor:
    r"""Average of layers in float32, :math:`\frac{1}{|S|} \sum_{k \in S} h_k`.

    Args:
        states: Hidden states, each ``(B, T, D)``.
        layers: Indices into them.
    """
    mixed = states[layers[0]].float()
    for layer in layers[1:]:
        mixed = mixed + states[layer].float()
    return mixed / len(layers) if len(layers) > 1 else mixed
