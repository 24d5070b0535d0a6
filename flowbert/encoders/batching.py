"""Batches of sentences of similar length under a token budget."""

from collections.abc import Sequence


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
