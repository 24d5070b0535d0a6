"""Absolute positions of a Hugging Face encoder: where they start, and how many there are."""

from torch import nn
from transformers import PreTrainedTokenizerBase

from flowbert.errors import UserError


def _table(network: nn.Module) -> nn.Embedding | None:
    for name, module in network.named_modules():
        if name.endswith(("position_embeddings", "wpe")) and isinstance(module, nn.Embedding):  # wpe: GPT-2's
            return module
    return None


def first_position(network: nn.Module) -> int | None:
    """Number of the first token's position; None without a table of absolute positions."""
    table = _table(network)
    if table is None:
        return None
    # RoBERTa and its relatives count positions from the one after padding's.
    return 0 if table.padding_idx is None else table.padding_idx + 1


NO_LIMIT = 4096
"""Tokens, for a network that has no limit of its own: longer than any sentence."""


def longest_input(network: nn.Module) -> int | None:
    """Most tokens that a table of absolute positions allows; None without such a table."""
    table, first = _table(network), first_position(network)
    return None if table is None or first is None else table.num_embeddings - first


def check_max_length(max_length: int, network: nn.Module, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that a sentence of so many tokens fits into a network and holds at least one beside the special ones.

    Raises:
        UserError: If it does not; the message gives what is allowed.
    """
    least, most = tokenizer.num_special_tokens_to_add() + 1, longest_input(network)
    if max_length < least or (most is not None and max_length > most):
        limit = "no limit" if most is None else str(most)
        raise UserError(f"max_length: received {max_length}; allowed with this encoder: {least} to {limit}")
