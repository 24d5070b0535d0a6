"""Token vectors to sentence vectors: plain and weighted means, single tokens, maxima.

A pooling is a class that registers itself; a custom one is named by its import path,
``mypackage.poolings.MyPooling:option=value``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from flowbert.errors import UserError
from flowbert.registry import Registry

TokenFeatures = Mapping[str, Tensor]

_PREFIXES = "\u0120\u2581"  # of words in byte-level and sentence pieces
_LARGEST = 1e30  # sums of float32 weights stay finite


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
    return sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id})


class Pooling(ABC):
    """A pooling over the real tokens of a sentence, special ones included unless noted.

    A subclass stores the arguments of its constructor under their names, as an estimator of
    scikit-learn does, and defines :meth:`pool`.

    Attributes:
        linear: Whether it commutes with the average of layers.
        over_tokens: Whether it pools the tokens of the sentence: those of a template and an
            attention sink are left out.
        counts: Whether it counts the tokens of the corpus of the fit.
        weights: Weight of each token of the vocabulary, ``(V,)``; saved with a model.

    Example:
        >>> tokens, ids = torch.tensor([[[1.0], [4.0], [9.0]]]), torch.tensor([[5, 6, 0]])
        >>> make_pooling("mean").pool(tokens, ids > 0, ids)
        tensor([[2.5000]])
    """

    linear: bool = False
    over_tokens: ClassVar[bool] = True
    counts: ClassVar[bool] = False
    weights: Tensor | None = None

    @abstractmethod
    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence, ``(B, k)``; k is D in all poolings of the package.

        Args:
            tokens: Token vectors, ``(B, T, D)``, with any values in padding.
            mask: True where a token is real, ``(B, T)``; padding is on the right.
            ids: Token ids, ``(B, T)``.
        """

    def output_dim(self, dim: int) -> int:
        """Size k of the vectors of tokens of size ``dim``.

        Raises:
            UserError: If the vector of a sentence of one token is not ``(1, k)``, or another one
                beside a sentence of two.
        """
        tokens = torch.arange(4.0 * dim).reshape(2, 2, dim)
        mask, ids = torch.tensor([[1, 0], [1, 1]]).bool(), torch.zeros(2, 2).long()
        with torch.no_grad():
            both = self.pool(tokens, mask, ids)
            alone = self.pool(tokens[:1, :1], mask[:1, :1], ids[:1, :1])
        size = alone.shape[-1]
        if both.shape != (2, size) or not torch.allclose(both[:1], alone):
            raise UserError(
                f"received {self}, whose vectors of two sentences have the shape "
                f"{tuple(both.shape)} or depend on their batch; expected (2, k), of the tokens "
                "where the mask is true",
                argument="pooling",
            )
        return size

    def bind(  # noqa: B027  most poolings need nothing
        self,
        tokenizer: Any,
        count: Callable[[], TokenCounts],
        weights: Tensor | None = None,
    ) -> None:
        """Read what is needed from a vocabulary: nothing, unless tokens have weights.

        Args:
            tokenizer: The tokenizer.
            count: Counts the tokens of the corpus of the fit.
            weights: Saved :attr:`weights`, in place of counting.
        """

    @property
    def name(self) -> str:
        """Registered name, or import path."""
        return POOLINGS.name_of(type(self))

    @property
    def options(self) -> dict[str, Any]:
        """All options with their values."""
        return {name: getattr(self, name) for name in POOLINGS.options(type(self))}

    def __str__(self) -> str:
        return POOLINGS.write(type(self), self.options)


POOLINGS: Registry[type[Pooling]] = Registry("pooling", base=Pooling)

POOLING_NAMES = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "weightedmean": "position_mean",
    "lasttoken": "last_token",
}
"""Poolings of sentence-transformers without token weights, and their names here."""


def make_pooling(text: str) -> Pooling:
    """A pooling from ``name[:option=value]...``, not bound to a vocabulary yet.

    Raises:
        UserError: If the name, an option or a value is not one of those allowed.
    """
    pooling: Pooling = POOLINGS.make(text, argument="pooling")
    return pooling


def _weighted_mean(tokens: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    """Mean with weights ``(B, T)``."""
    weights = weights.unsqueeze(-1)
    real = tokens.masked_fill(~mask.unsqueeze(-1), 0.0)
    return (real * weights).sum(dim=1) / weights.sum(dim=1)


@POOLINGS.register("mean")
class MeanPooling(Pooling):
    """Mean over tokens.

    Args:
        unit: Whether each token has length 1 before the mean.
    """

    def __init__(self, unit: bool = False) -> None:
        if not isinstance(unit, bool):
            raise UserError(argument="unit", received=unit, expected="true or false")
        self.unit = unit
        self.linear = not unit

    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence, ``(B, D)``."""
        if self.unit:
            tokens = nn.functional.normalize(tokens, dim=-1)
        mask = mask.unsqueeze(-1)
        return tokens.masked_fill(~mask, 0.0).sum(dim=1) / mask.sum(dim=1)


@POOLINGS.register("cls")
class FirstTokenPooling(Pooling):
    """The token at position 0, that of a template included."""

    linear = True
    over_tokens = False

    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence, ``(B, D)``."""
        return tokens[:, 0]


@POOLINGS.register("max")
class MaxPooling(Pooling):
    """Largest value of each dimension."""

    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence, ``(B, D)``."""
        return tokens.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(dim=1)


@POOLINGS.register("position_mean")
class PositionMeanPooling(Pooling):
    """Mean with the weights 1, 2, 3, ... of positions.

    References:
        SGPT: GPT Sentence Embeddings for Semantic Search (Muennighoff, 2022).
        https://arxiv.org/abs/2202.08904
    """

    linear = True

    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence, ``(B, D)``."""
        return _weighted_mean(tokens, mask, mask.cumsum(dim=1) * mask)


@POOLINGS.register("last_token")
class LastTokenPooling(Pooling):
    """The last token, that of a template included."""

    linear = True
    over_tokens = False

    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence, ``(B, D)``."""
        last = mask.unsqueeze(-1).sum(dim=1, keepdim=True) - 1
        # ONNX has gather, but not take_along_dim.
        return tokens.gather(1, last.expand(-1, -1, tokens.shape[2])).squeeze(1)


class WeightedPooling(Pooling):
    """Base of the means with a weight for each token of the vocabulary.

    Special tokens weigh 0, and a sentence whose tokens weigh 0 gets its plain mean.

    Args:
        cls: Weight of [CLS].

    Attributes:
        special: Ids of special tokens.
    """

    linear = True
    special: Sequence[int] = ()

    def __init__(self, cls: float = 0) -> None:
        is_zero = type(cls) in (int, float) and cls == 0
        self.cls = 0 if is_zero else _weight("cls", cls)

    @abstractmethod
    def weigh(self, tokenizer: Any, count: Callable[[], TokenCounts]) -> Tensor:
        """Weight of each token of the vocabulary, ``(V,)``, float64."""

    def bind(
        self,
        tokenizer: Any,
        count: Callable[[], TokenCounts],
        weights: Tensor | None = None,
    ) -> None:
        """Weigh the vocabulary, unless weights are given.

        Raises:
            UserError: If ``cls`` is given and there is no [CLS].
        """
        self.special = special_tokens(tokenizer)
        if weights is None:
            weights = self.weigh(tokenizer, count)
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
        return _weighted_mean(tokens, mask, weights)

    def _weights_of(self, ids: Tensor) -> Tensor:
        """Weights of tokens, of the shape of the ids."""
        assert self.weights is not None
        return self.weights.to(ids.device)[ids]


@POOLINGS.register("idf")
class IDFPooling(WeightedPooling):
    r"""Mean with the inverse document frequency, :math:`\log \frac{N + 1}{df(t) + 1}`."""

    counts = True

    def weigh(self, tokenizer: Any, count: Callable[[], TokenCounts]) -> Tensor:
        """Weight of each token of the vocabulary, ``(V,)``, float64."""
        counts = count()
        return torch.log((counts.sentences + 1) / (counts.documents + 1))


@POOLINGS.register("sif")
class SIFPooling(WeightedPooling):
    r"""Mean with the smooth inverse frequency, :math:`a / (a + p(t))`.

    The direction that the paper removes is a map.

    References:
        A Simple but Tough-to-Beat Baseline for Sentence Embeddings (Arora et al., 2017).
        https://openreview.net/forum?id=SyK00v5xx

    Args:
        a: Share of tokens whose weight is one half.
        cls: Weight of [CLS].
    """

    counts = True

    def __init__(self, a: float = 1e-3, cls: float = 0) -> None:
        super().__init__(cls)
        self.a = _weight("a", a)

    def weigh(self, tokenizer: Any, count: Callable[[], TokenCounts]) -> Tensor:
        """Weight of each token of the vocabulary, ``(V,)``, float64."""
        occurrences = count().occurrences
        occurrences[self.special] = 0
        return self.a / (self.a + occurrences / occurrences.sum().clamp(min=1))


@POOLINGS.register("zipf")
class ZipfPooling(WeightedPooling):
    r"""Mean with the smooth inverse frequency of Zipf's law, :math:`p(t) = \frac{1}{r(t) H_n}`.

    The n words of the vocabulary are ranked by :func:`~flowbert.encoders.pooling.rank_tokens`.

    References:
        Model2Vec: Fast State-of-the-Art Static Embeddings (Tulkens and van Dongen, 2024).
        https://github.com/MinishLab/model2vec

    Args:
        a: Share of tokens whose weight is one half.
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
        return self.a / (self.a + 1 / (ranks * (1 / all_ranks).sum()))


@POOLINGS.register("learned_weights")
class LearnedWeightsPooling(WeightedPooling):
    r"""Mean with token weights that are trained with the encoder: :math:`w_t e^{\theta_t}`.

    :math:`\theta` begins as 0, and :math:`w_t` is 1, or what an earlier training learned: before a
    training, vectors are those of ``mean``. Special tokens have weights as all others.

    References:
        Towards Universal Paraphrastic Sentence Embeddings (Wieting et al., 2016), which trains
        averages of word vectors on pairs. https://arxiv.org/abs/1511.08198

    Attributes:
        log_factors: Table of :math:`\theta`, ``(V, 1)``; None where the encoder is frozen.
    """

    log_factors: nn.Embedding | None = None
    _initial: Tensor | None = None

    def __init__(self) -> None:
        super().__init__()

    def weigh(self, tokenizer: Any, count: Callable[[], TokenCounts]) -> Tensor:
        """Weight 1 for each token of the vocabulary, ``(V,)``."""
        return torch.ones(vocabulary_size(tokenizer))

    def bind(
        self,
        tokenizer: Any,
        count: Callable[[], TokenCounts],
        weights: Tensor | None = None,
    ) -> None:
        """Take saved weights, or begin with 1 for all tokens."""
        if weights is None:
            weights = self.weigh(tokenizer, count)
        super().bind(tokenizer, count, weights)

    def train_weights(self) -> nn.Embedding:
        """Begin to train the weights: :attr:`log_factors`."""
        assert self._initial is not None
        zeros = torch.zeros(len(self._initial), 1)
        self.log_factors = nn.Embedding(len(zeros), 1, _weight=zeros)
        return self.log_factors

    @property
    def weights(self) -> Tensor | None:
        """Weight of each token of the vocabulary as it is now, ``(V,)``, on the CPU."""
        if self._initial is None or self.log_factors is None:
            return self._initial
        return self._initial * self.log_factors.weight.detach().squeeze(1).cpu().exp()

    @weights.setter
    def weights(self, weights: Tensor | None) -> None:
        self._initial = weights

    def _weights_of(self, ids: Tensor) -> Tensor:
        """Weights of tokens, with gradient where they are trained."""
        if self.log_factors is None:
            return super()._weights_of(ids)
        assert self._initial is not None
        factors: Tensor = self.log_factors(ids).squeeze(2).exp()
        return self._initial.to(ids.device)[ids] * factors


@POOLINGS.register("cls_pooler")
class NetworkPooling(Pooling):
    """The network's layer over position 0, which follows its last layer."""

    over_tokens = False

    def output_dim(self, dim: int) -> int:
        """That of the tokens."""
        return dim

    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """Nothing: the network pools.

        Raises:
            ValueError: Always.
        """
        raise ValueError("cls_pooler: expected the output of the network's pooler")


def _weight(name: str, value: float) -> float:
    """A number above 0, as an integer where it is one: equal poolings have equal texts.

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
