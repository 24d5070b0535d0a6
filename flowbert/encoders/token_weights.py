"""Weights of tokens in a mean: from counts of a corpus, or from the vocabulary."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

_PREFIXES = "\u0120\u2581"  # of words in byte-level and sentence pieces


class TokenCounts(NamedTuple):
    """Counts of tokens in a corpus.

    Args:
        occurrences: How often each token occurs, ``(V,)``, float64.
        documents: How many sentences have it, ``(V,)``, float64.
        sentences: Number N of sentences.
    """

    occurrences: Tensor
    documents: Tensor
    sentences: int


def idf(counts: TokenCounts) -> Tensor:
    r"""Inverse document frequency :math:`\log \frac{N + 1}{df(t) + 1}` over sentences."""
    return torch.log((counts.sentences + 1) / (counts.documents + 1))


def sif(counts: TokenCounts, a: float) -> Tensor:
    r"""Smooth inverse frequency :math:`a / (a + p(t))`; the direction that is removed is a map.

    References:
        A Simple but Tough-to-Beat Baseline for Sentence Embeddings (Arora et al., 2017).
        https://openreview.net/forum?id=SyK00v5xx
    """
    return a / (a + counts.occurrences / counts.occurrences.sum().clamp(min=1))


def zipf(ranks: Tensor, a: float) -> Tensor:
    r"""Smooth inverse frequency with Zipf's law, :math:`p(t) = \frac{1}{r(t) H_n}`, for n words.

    References:
        Model2Vec: Fast State-of-the-Art Static Embeddings (Tulkens and van Dongen, 2024).
        https://github.com/MinishLab/model2vec
    """
    harmonic = (1 / torch.arange(1, int(ranks.max()) + 1, dtype=torch.float64)).sum()
    return a / (a + 1 / (ranks * harmonic))


def rank_tokens(tokens: Sequence[str | None], unknown: str | None = None) -> Tensor:
    """Frequency rank of each token of a vocabulary that is sorted by frequency, ``(V,)``, float64.

    Tokens that begin with no letter or digit and tokens of one character (punctuation, letters)
    are frequent but sorted apart: they get rank 1. The token for unknown text gets the last rank.

    Args:
        tokens: The V tokens by id.
        unknown: The token for unknown text.

    Example:
        >>> rank_tokens(["[UNK]", "!", "a", "##s", "the", "of", "##ing"], "[UNK]").tolist()
        [3.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0]
    """
    ranks = []
    words = 0
    for token in tokens:
        text = (token or "").removeprefix("##").lstrip(_PREFIXES).removesuffix("</w>")
        is_word = len(text) > 1 and text[0].isalnum()
        words += is_word
        ranks.append(words if is_word else 1)
    last = max(words, 1)
    return torch.tensor(
        [
            last if token == unknown else rank
            for token, rank in zip(tokens, ranks, strict=True)
        ],
        dtype=torch.float64,
    )


def vocabulary_size(tokenizer: Any) -> int:
    """Size V of a vocabulary, whose ids may have gaps."""
    ids: list[int] = list(tokenizer.get_vocab().values())
    return max(ids) + 1


def special_tokens(tokenizer: Any) -> list[int]:
    """Ids of the special tokens, without the one for unknown text."""
    return sorted(set(tokenizer.all_special_ids) - {unknown_token(tokenizer)})


def unknown_token(tokenizer: Any) -> int | None:
    """Id of the token for unknown text, of the tokenizer or of its model; None without one."""
    if tokenizer.unk_token_id is not None or not tokenizer.is_fast:
        return cast("int | None", tokenizer.unk_token_id)
    backend = tokenizer.backend_tokenizer
    if hasattr(backend.model, "unk_token"):
        token = backend.model.unk_token
        return None if token is None else backend.token_to_id(token)
    rules = json.loads(backend.to_str())  # Unigram's has no attribute
    return cast("int | None", rules["model"].get("unk_id"))
