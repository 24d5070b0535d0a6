"""Sentences as tokens: cut by a tokenizer, put into batches of similar length, padded."""

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from itertools import islice

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from flowbert.encoders.token_counts import TokenCounts
from flowbert.errors import UserError
from flowbert.progress import progress

TokenRow = Mapping[str, list[int]]
"""One sentence: name of an input of the network -> a number per token."""

_AT_ONCE = 1024  # sentences
_COUNTED_AT_ONCE = 16384  # sentences whose tokens are in memory together


def input_names(network: nn.Module) -> Collection[str]:
    """Names of what a network takes."""
    return inspect.signature(network.forward).parameters


def tokenize(
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    max_length: int,
    names: Collection[str],
    prompt: str = "",
) -> list[TokenRow]:
    """Cut sentences into tokens, special ones included.

    Args:
        tokenizer: The tokenizer.
        sentences: N sentences.
        max_length: Tokens after which a sentence is cut.
        names: What to keep of the tokenizer's outputs.
        prompt: Text before every sentence.

    Raises:
        UserError: If a sentence has no token.
    """
    rows: list[TokenRow] = []
    for start in range(0, len(sentences), _AT_ONCE):
        block = [prompt + sentence for sentence in sentences[start : start + _AT_ONCE]]
        columns = tokenizer(block, truncation=True, max_length=max_length, return_attention_mask=True)
        inputs = [name for name in columns if name in names]
        rows += [dict(zip(inputs, row, strict=True)) for row in zip(*(columns[name] for name in inputs), strict=True)]
    for sentence, row in zip(sentences, rows, strict=True):
        if not row["input_ids"]:
            raise UserError(f"sentence {sentence!r} has no tokens; allowed with this tokenizer: at least one")
    return rows


def count_tokens(
    tokenizer: PreTrainedTokenizerBase, sentences: Iterable[str], max_length: int, name: str = "", prompt: str = ""
) -> TokenCounts:
    """Count the tokens of sentences, special ones included, in one pass and bounded memory.

    Args:
        tokenizer: The tokenizer.
        sentences: Any sentences; every occurrence counts.
        max_length: Tokens after which a sentence is cut.
        name: What they are, for tables.
        prompt: Text before every sentence, which is counted with it.
    """
    counts, rest = TokenCounts.of([], len(tokenizer), name), iter(sentences)
    with progress(len(sentences) if isinstance(sentences, Sized) else None, "Counting tokens", "sentences") as step:
        while block := list(islice(rest, _COUNTED_AT_ONCE)):
            rows = tokenize(tokenizer, block, max_length, ["input_ids"], prompt)
            counts += TokenCounts.of((row["input_ids"] for row in rows), len(tokenizer))
            step.update(len(block))
    return counts


def begins_with_cls(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a tokenizer puts a [CLS] before every sentence."""
    cls = tokenizer.cls_token_id
    return cls is not None and tokenizer("a")["input_ids"][:1] == [cls]


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Numbers of the tokens that stand for no text; the one for unknown text does."""
    return set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}


def pad_tokens(tokenizer: PreTrainedTokenizerBase, rows: Sequence[TokenRow]) -> dict[str, Tensor]:
    """Token features of a batch, padded to its longest sentence: tensors of shape ``(B, T)`` on the CPU."""
    if not rows:
        return {name: torch.empty(0, 0, dtype=torch.long) for name in ("input_ids", "attention_mask")}
    return dict(tokenizer.pad([dict(row) for row in rows], return_tensors="pt"))


def plan_batches(lengths: Sequence[int], sentences: Sequence[str], batch_tokens: int) -> list[list[int]]:
    """Cut sentences into batches whose padded size (sentences times longest) stays within ``batch_tokens``.

    The plan depends on the set of sentences and not on their order: they are sorted by (length, text), longest first,
    so that a shortage of memory shows at once and that equal input gives equal bits.

    Args:
        lengths: Tokens of each sentence.
        sentences: The sentences, used to order those of equal length.
        batch_tokens: Padded tokens a batch may hold; a longer sentence is a batch of its own.

    Returns:
        Positions into ``sentences``; every position occurs exactly once.

    Example:
        >>> plan_batches([2, 5, 2, 4], ["b", "d", "a", "c"], 10)
        [[1, 3], [0, 2]]
    """
    order = sorted(range(len(sentences)), key=lambda i: (lengths[i], sentences[i]), reverse=True)
    batches: list[list[int]] = []
    for position in order:
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > batch_tokens:
            batches.append([])
        batches[-1].append(position)
    return batches
