"""How much a token weighs in the mean over a sentence: by counts of a corpus, or by its place in the vocabulary."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from flowbert.encoders.token_counts import TokenCounts, frequencies

_SMOOTHING = 1e-6  # added to frequencies, so that a token that was never counted has a weight
_MARKS = "\u0120\u2581"  # how byte-level and sentence pieces begin a word


def idf(counts: TokenCounts, exponent: float = 1.0) -> Tensor:
    r"""Inverse document frequency :math:`\log^e \frac{N + 1}{df(t) + 1}`, a sentence being a document.

    A token of every sentence weighs nothing, one that was never counted :math:`\log^e(N + 1)`. That frequent words
    disturb the space is of the paper below; that idf weights mend much of it is measured here.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020).
        https://arxiv.org/abs/2011.05864
    """
    return torch.log((counts.sentences + 1) / (counts.documents.double() + 1)) ** exponent


def sif(counts: TokenCounts, a: float = 1e-3) -> Tensor:
    r"""Smooth inverse frequency :math:`a / (a + p(t))`; a token that was never counted weighs 1.

    The removal of the first direction that the paper adds is a calibration of its own (``nulling-1``).

    References:
        A Simple but Tough-to-Beat Baseline for Sentence Embeddings (Arora et al., 2017).
        https://openreview.net/forum?id=SyK00v5xx
    """
    return a / (a + frequencies(counts))


def weighted_mean(counts: TokenCounts, exponent: float = 0.25) -> Tensor:
    r"""A power of the frequency, :math:`(p(t) + 10^{-6})^{-e}`; a token that was never counted weighs :math:`10^{6e}`.

    Ours: between the plain mean (e = 0) and the inverse frequency (e = 1).
    """
    return (frequencies(counts) + _SMOOTHING) ** -exponent


def zipf(ranks: Tensor, a: float = 1e-2) -> Tensor:
    r"""Smooth inverse frequency :math:`a / (a + p(t))` with Zipf's law for p, :math:`p(t) = \frac{1}{r(t) H_n}`.

    r is the rank of a token among the n words of the vocabulary, see :func:`ranks_of`, and :math:`H_n` their harmonic
    number. The a is ours, and so is leaving out what is no word.

    References:
        Model2Vec: Fast State-of-the-Art Static Embeddings (Tulkens and van Dongen, 2024), which weighs so.
        https://github.com/MinishLab/model2vec
    """
    harmonic = (1 / torch.arange(1, int(ranks.max()) + 1, dtype=torch.float64)).sum()
    return a / (a + 1 / (ranks * harmonic))


def ranks_of(tokens: Sequence[str], unknown: str | None = None) -> Tensor:
    """Rank of every token in a vocabulary whose words stand in the order of their frequency, ``(V,)``, float64.

    Vocabularies are made from the frequent to the rare: WordPiece and sentence pieces as a rule, byte pairs in the
    order of their merges. What begins with no letter or digit and what is one character long (punctuation, signs,
    letters) stands before them in an order of its own: it has rank 1, that of the most frequent word. Text that the
    vocabulary does not have ranks last. Bytes of byte pairs beyond ASCII count as letters.

    Args:
        tokens: The V tokens by number.
        unknown: The one for unknown text.

    Example:
        >>> ranks_of(["[UNK]", "!", "a", "##s", "the", "of", "##ing"], "[UNK]").tolist()
        [3.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0]
    """
    words = torch.tensor([_is_word(token or "") for token in tokens])
    ranks = words.cumsum(0).clamp(min=1)
    unseen = torch.tensor([token == unknown for token in tokens])
    return torch.where(unseen, ranks[-1], torch.where(words, ranks, 1)).double()


def _is_word(token: str) -> bool:
    text = token.removeprefix("##").lstrip(_MARKS).removesuffix("</w>")
    return len(text) > 1 and text[0].isalnum()


COUNTED: dict[str, Callable[..., Tensor]] = {"idf": idf, "sif": sif, "weighted_mean": weighted_mean}
"""Every weighting of tokens by their counts: arguments after the counts are options; a new one is one entry here."""

RANKED: dict[str, Callable[..., Tensor]] = {"zipf": zipf}
"""Every weighting of tokens by their ranks in the vocabulary, likewise."""

WEIGHTINGS = {**COUNTED, **RANKED}
