"""The one place that says which hidden state a layer number means.

``hidden_states`` of an encoder with L blocks has L + 1 entries: 0 is the output of the embedding layer, 1 that of the
first Transformer block, L that of the last. Negative numbers count from the end, so -1 is L and -(L + 1) is 0.
"""

from collections.abc import Sequence

from flowbert.errors import UserError, choices

LAYER_NAMES: dict[str, tuple[int, ...]] = {
    "last": (-1,),
    "last2": (-1, -2),
    "first_last": (1, -1),
    "embedding_last": (0, -1),
}


def resolve_layers(spec: str | int | Sequence[int], num_layers: int) -> tuple[int, ...]:
    """Turn a layer name or layer numbers into indices into ``hidden_states``, 0 to L, in the given order.

    Args:
        spec: A name (``last``, ``last2``, ``first_last``, ``embedding_last``), a number, a sequence of numbers, or
            numbers as text (``"1,12"``).
        num_layers: Number L of Transformer blocks.

    Returns:
        Indices from 0 (embedding layer) to L (last block), each once.

    Raises:
        UserError: For an unknown name, no layer at all, a number outside -(L + 1) to L, or a number given twice.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020). https://arxiv.org/abs/2011.05864
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021). https://arxiv.org/abs/2104.08821

    Example:
        >>> resolve_layers("first_last", 12)
        (1, 12)
        >>> resolve_layers("0,-1", 12)
        (0, 12)
    """
    if isinstance(spec, str) and spec in LAYER_NAMES:
        # In an encoder of one block, first and last are the same layer.
        return tuple(dict.fromkeys(_index(layer, num_layers) for layer in LAYER_NAMES[spec]))
    layers = tuple(_index(layer, num_layers) for layer in _numbers(spec))
    if len(set(layers)) < len(layers):
        raise UserError(f"layers: received {spec!r}, a layer twice (indices {list(layers)}); allowed: each once")
    return layers


def name_layers(layers: Sequence[int], num_layers: int) -> str:
    """Name of resolved layers if they have one, else their numbers.

    Example:
        >>> name_layers((1, 12), 12), name_layers((1, 2, 12), 12)
        ('first_last', '1,2,12')
    """
    for name in LAYER_NAMES:
        if resolve_layers(name, num_layers) == tuple(layers):
            return name
    return ",".join(map(str, layers))


def _numbers(spec: str | int | Sequence[int]) -> list[int]:
    try:
        numbers = [int(part) for part in spec.split(",")] if isinstance(spec, str) else spec
    except ValueError:
        allowed = choices(LAYER_NAMES, str(spec))
        raise UserError(f"layers: received {spec!r}; numbers such as '1,12', or {allowed}") from None
    numbers = [numbers] if isinstance(numbers, int) else list(numbers)
    if not numbers or any(isinstance(number, bool) or not isinstance(number, int) for number in numbers):
        raise UserError(f"layers: received {spec!r}; whole numbers, at least one, or {choices(LAYER_NAMES, '')}")
    return numbers


def _index(layer: int, num_layers: int) -> int:
    if not -num_layers - 1 <= layer <= num_layers:
        raise UserError(
            f"layers: received {layer}, beyond the encoder's {num_layers} blocks; "
            f"allowed: 0 (embedding layer) to {num_layers} (last block), or -1 (last) to {-num_layers - 1}"
        )
    return layer % (num_layers + 1)
