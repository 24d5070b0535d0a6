"""Weighted means over tokens, with counted, ranked or learned weights."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from flowbert.encoders.pooling import (
    POOLINGS,
    Pooling,
    inverse_frequency,
    special_tokens,
    vocabulary_size,
    weighted_mean,
)
from flowbert.errors import UserError

_PREFIXES = "\u0120\u2581"  # of words in byte-level and sentence pieces
_LARGEST = 1e30  # sums of float32 weights stay finite


class TokenCounts(NamedTuple):
    """Counts of tokens in a corpus.

    Args:
        occurrences: Number of occurrences of each token, ``(V,)``, float64.
        documents: Number of sentences that contain it, ``(V,)``, float64.
        sentences: Number N of sentences.
    """

    occurrences: Tensor
    documents: Tensor
    sentences: int


def count_tokens(tokenization: Any, sentences: Sequence[str]) -> TokenCounts:
    """Count the tokens of sentences; repeated sentences count repeatedly.

    Args:
        tokenization: A :class:`~flowbert.encoders.tokenization.Tokenization`.
        sentences: The sentences.

    Raises:
        UserError: If the list is empty.
    """
    if not len(sentences):
        raise UserError(
            f"received {tokenization.reading.pooling!r} without sentences to count tokens over; "
            "expected a fitted model, count_over, or zipf",
            argument="pooling",
        )
    size = vocabulary_size(tokenization.backbone.tokenizer)
    occurrences, documents = torch.zeros(2, size, dtype=torch.float64)
    for row in tokenization.rows(sentences):
        ids = np.array(row["input_ids"])
        if "special_tokens_mask" in row:  # of a template
            ids = ids[np.array(row["special_tokens_mask"]) == 0]
        ids, counts = np.unique(ids, return_counts=True)
        occurrences[ids] += torch.from_numpy(counts)
        documents[ids] += 1
    return TokenCounts(occurrences, documents, len(sentences))


def rank_tokens(tokens: Sequence[str | None], unknown: str | None = None) -> Tensor:
    """Frequency rank of each token of a vocabulary that is sorted by frequency, ``(V,)``, float64.

    Tokens that do not begin with a letter or digit and tokens of one character are frequent, but
    sorted apart from the words: they get rank 1. The token for unknown text gets the last rank.

    Args:
        tokens: The V tokens by id.
        unknown: The token for unknown text.

    Example:
        >>> rank_tokens(["[UNK]", "!", "a", "##s", "the", "of", "##ing"], "[UNK]").tolist()
        [3.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0]
    """
    texts = [
        (token or "").removeprefix("##").lstrip(_PREFIXES).removesuffix("</w>")
        for token in tokens
    ]
    is_word = np.array([len(text) > 1 and text[0].isalnum() for text in texts])
    ranks = np.where(is_word, is_word.cumsum(), 1)
    ranks[np.array([token == unknown for token in tokens])] = ranks.max()
    return torch.from_numpy(ranks).double()


class WeightedPooling(Pooling):
    """Base of the means with a weight for each token of the vocabulary.

    Special tokens weigh 0, unless weights are learned. A sentence whose tokens weigh 0 gets its
    plain mean.

    Args:
        cls: Weight of [CLS].

    Attributes:
        special: Ids of special tokens.
    """

    linear = True
    special: Sequence[int] = ()

    def __init__(self, cls: float = 0) -> None:
        self.cls = _weight("cls", cls) if cls else 0

    @abstractmethod
    def weigh(self, tokenizer: Any, count: Callable[[], TokenCounts]) -> Tensor:
        """Weight of each token of the vocabulary, ``(V,)``, float64."""

    def bind(
        self,
        tokenization: Any,
        count_over: Sequence[str],
        weights: Tensor | None = None,
    ) -> None:
        """Set the given weights, or compute weights for the vocabulary.

        Raises:
            UserError: If ``cls`` is set but [CLS] is missing, or sentences to count are missing.
        """
        tokenizer = tokenization.backbone.tokenizer
        self.special = special_tokens(tokenizer)
        if weights is None:
            weights = self.weigh(
                tokenizer, lambda: count_tokens(tokenization, count_over)
            )
            if not self.learned:
                weights[self.special] = 0.0
            if self.cls:
                if tokenizer.cls_token_id is None:
                    raise UserError(
                        f"received cls={self.cls}; the tokenizer has no [CLS]",
                        argument="pooling",
                    )
                weights[tokenizer.cls_token_id] = self.cls
        self.weights = weights.float()

    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence, ``(B, D)``."""
        weights = self._weights_of(ids) * mask
        empty = weights.sum(dim=1, keepdim=True) == 0
        weights = torch.where(empty, mask.to(weights.dtype), weights)
        return weighted_mean(tokens, mask, weights)

    def _weights_of(self, ids: Tensor) -> Tensor:
        """Weights of tokens, of the shape of the ids."""
        assert self.weights is not None
        return self.weights.to(ids.device)[ids]


@POOLINGS.register("idf")
class IDFPooling(WeightedPooling):
    r"""Mean with the inverse document frequency, :math:`\log \frac{N + 1}{df(t) + 1}`."""

    def weigh(self, tokenizer: Any, count: Callable[[], TokenCounts]) -> Tensor:
        """Weight of each token of the vocabulary, ``(V,)``, float64."""
        counts = count()
        return torch.log((counts.sentences + 1) / (counts.documents + 1))


@POOLINGS.register("sif")
class SIFPooling(WeightedPooling):
    r"""Mean with the smooth inverse frequency, :math:`a / (a + p(t))`.

    The paper also removes a direction; here that is a map.

    References:
        A Simple but Tough-to-Beat Baseline for Sentence Embeddings (Arora et al., 2017).
        https://openreview.net/forum?id=SyK00v5xx

    Args:
        a: Frequency p at which the weight is one half.
        cls: Weight of [CLS].
    """

    def __init__(self, a: float = 1e-3, cls: float = 0) -> None:
        super().__init__(cls)
        self.a = _weight("a", a)

    def weigh(self, tokenizer: Any, count: Callable[[], TokenCounts]) -> Tensor:
        """Weight of each token of the vocabulary, ``(V,)``, float64."""
        occurrences = count().occurrences
        occurrences[self.special] = 0
        shares = occurrences / occurrences.sum().clamp(min=1)
        weights: Tensor = inverse_frequency(shares, self.a)
        return weights


@POOLINGS.register("zipf")
class ZipfPooling(WeightedPooling):
    r"""Mean with the smooth inverse frequency of Zipf's law, :math:`p(t) = \frac{1}{r(t) H_n}`.

    The n words of the vocabulary are ranked by :func:`~flowbert.extras.token_weights.rank_tokens`.

    References:
        Model2Vec: Fast State-of-the-Art Static Embeddings (Tulkens and van Dongen, 2024).
        https://github.com/MinishLab/model2vec

    Args:
        a: Frequency p at which the weight is one half.
        cls: Weight of [CLS].
    """

    def __init__(self, a: float = 1e-2, cls: float = 0) -> None:
        super().__init__(cls)
        self.a = _weight("a", a)

    def weigh(self, tokenizer: Any, count: Callable[[], TokenCounts]) -> Tensor:
        """Weight of each token of the vocabulary, ``(V,)``, float64."""
        ids = list(range(vocabulary_size(tokenizer)))
        tokens = tokenizer.convert_ids_to_tokens(ids)
        ranks = rank_tokens(tokens, tokenizer.unk_token)
        all_ranks = torch.arange(1, int(ranks.max()) + 1, dtype=torch.float64)
        shares = 1 / (ranks * (1 / all_ranks).sum())
        weights: Tensor = inverse_frequency(shares, self.a)
        return weights


@POOLINGS.register("learned_weights")
class LearnedWeightsPooling(WeightedPooling):
    r"""Mean with token weights that are trained with the encoder: :math:`w_t e^{\theta_t}`.

    :math:`\theta` is initialized to 0; :math:`w_t` is 1, or the weight of an earlier training.
    Before a training, the pooling therefore equals ``mean``. Special tokens have weights, too.

    References:
        Towards Universal Paraphrastic Sentence Embeddings (Wieting et al., 2016), which trains
        averages of word vectors on pairs. https://arxiv.org/abs/1511.08198

    Attributes:
        log_factors: Table of :math:`\theta`, ``(V, 1)``; None if the encoder is frozen.
    """

    learned = True
    log_factors: nn.Embedding | None = None
    _initial: Tensor | None = None

    def __init__(self) -> None:
        super().__init__()

    def weigh(self, tokenizer: Any, count: Callable[[], TokenCounts]) -> Tensor:
        """Weight 1 for each token of the vocabulary, ``(V,)``."""
        return torch.ones(vocabulary_size(tokenizer))

    def train_weights(self) -> nn.Embedding:
        """Make :attr:`log_factors`, which are trained."""
        assert self._initial is not None
        zeros = torch.zeros(len(self._initial), 1)
        self.log_factors = nn.Embedding(len(zeros), 1, _weight=zeros)
        return self.log_factors

    @property
    def weights(self) -> Tensor | None:
        """Current weight of each token of the vocabulary, ``(V,)``, on the CPU."""
        if self._initial is None or self.log_factors is None:
            return self._initial
        return self._initial * self.log_factors.weight.detach().squeeze(1).cpu().exp()

    @weights.setter
    def weights(self, weights: Tensor | None) -> None:
        self._initial = weights

    def _weights_of(self, ids: Tensor) -> Tensor:
        """Weights of tokens, with gradient if they are trained."""
        if self.log_factors is None:
            return super()._weights_of(ids)
        assert self._initial is not None
        factors: Tensor = self.log_factors(ids).squeeze(2).exp()
        return self._initial.to(ids.device)[ids] * factors


def _weight(name: str, value: float) -> float:
    """Check a number above 0; make it an integer if it is whole, so that texts are equal.

    Raises:
        UserError: If it is not a number in this range.
    """
    if type(value) not in (int, float) or not 0 < value <= _LARGEST:
        raise UserError(
            argument=name,
            received=value,
            expected=f"a number above 0, at most {_LARGEST:g}",
        )
    return int(value) if value == int(value) and value < 1e15 else value
