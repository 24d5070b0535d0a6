"""Absolute positions of a Hugging Face encoder: where they start, and how many there are."""

from torch import nn


def _table(network: nn.Module) -> nn.Embedding | None:
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module
    return None


def first_position(network: nn.Module) -> int | None:
    """Number of the first token's position; None without a table of absolute positions."""
    table = _table(network)
    if table is None:
        return None
    # RoBERTa and its relatives count positions from the one after padding's.
    return 0 if table.padding_idx is None else table.padding_idx + 1


def longest_input(network: nn.Module) -> int | None:
    """Most tokens that a table of absolute positions allows; None without such a table."""
    table, first = _table(network), first_position(network)
    return None if table is None or first is None else table.num_embeddings - first
