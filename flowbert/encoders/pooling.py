"""Token vectors to sentence vectors: means, single tokens, maxima.

A pooling is a registered class; a custom pooling is named by its import path,
``mypackage.poolings.MyPooling:option=value``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from flowbert.errors import UserError
from flowbert.registry import Registry

TokenFeatures = Mapping[str, Tensor]


def vocabulary_size(tokenizer: Any) -> int:
    """Size V of a vocabulary, whose ids may have gaps."""
    ids: list[int] = list(tokenizer.get_vocab().values())
    return max(ids) + 1


def special_tokens(tokenizer: Any) -> list[int]:
    """Ids of the special tokens, except for the unknown token."""
    return sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id})


class Pooling(ABC):
    """A pooling over the tokens of a sentence without padding; special tokens are included.

    A subclass defines :meth:`pool`, and stores the arguments of its constructor under their names,
    like a scikit-learn estimator.

    Attributes:
        linear: Whether it commutes with the average of layers.
        over_tokens: Whether it pools only the tokens of the sentence, without those of a template
            and an attention sink.
        learned: Whether the training of the encoder learns its weights.
        weights: Weight of each token of the vocabulary, ``(V,)``; saved with a model.

    Example:
        >>> tokens, ids = torch.tensor([[[1.0], [4.0], [9.0]]]), torch.tensor([[5, 6, 0]])
        >>> make_pooling("mean").pool(tokens, ids > 0, ids)
        tensor([[2.5000]])
    """

    linear: bool = False
    over_tokens: ClassVar[bool] = True
    learned: ClassVar[bool] = False
    weights: Tensor | None = None

    @abstractmethod
    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence, ``(B, k)``; k is D in all poolings of the package.

        Args:
            tokens: Token vectors, ``(B, T, D)``, with any values in padding.
            mask: True for tokens and False for padding, ``(B, T)``; padding is on the right.
            ids: Token ids, ``(B, T)``.
        """

    def output_dim(self, dim: int) -> int:
        """Size k of the pooled vectors, for tokens of size ``dim``.

        Raises:
            UserError: If the shape of two pooled sentences is not ``(2, k)``.
        """
        mask, ids = torch.tensor([[1, 0], [1, 1]]).bool(), torch.zeros(2, 2).long()
        with torch.no_grad():
            vectors = self.pool(torch.ones(2, 2, dim), mask, ids)
        if vectors.ndim != 2 or len(vectors) != 2:
            raise UserError(
                f"received {self}, whose vectors of two sentences have the shape "
                f"{tuple(vectors.shape)}; expected (2, k)",
                argument="pooling",
            )
        return vectors.shape[1]

    def bind(  # noqa: B027  most poolings need nothing
        self,
        tokenization: Any,
        count_over: Sequence[str],
        weights: Tensor | None = None,
    ) -> None:
        """Compute or set token weights for a vocabulary; by default nothing is done.

        Args:
            tokenization: A :class:`~flowbert.encoders.tokenization.Tokenization`.
            count_over: Sentences whose tokens are counted, if the pooling counts any.
            weights: Saved :attr:`weights`, in place of counting.
        """

    def train_weights(self) -> nn.Embedding | None:
        """Table of weights to train; None if no weights are learned."""
        return None

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


POOLINGS: Registry[type[Pooling]] = Registry(
    "pooling",
    base=Pooling,
    extras={
        "idf": "flowbert.extras.token_weights.IDFPooling",
        "sif": "flowbert.extras.token_weights.SIFPooling",
        "zipf": "flowbert.extras.token_weights.ZipfPooling",
        "learned_weights": "flowbert.extras.token_weights.LearnedWeightsPooling",
    },
)

POOLING_NAMES = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "weightedmean": "position_mean",
    "lasttoken": "last_token",
}
"""Poolings by the names of sentence-transformers, without those with token weights."""


def make_pooling(text: str) -> Pooling:
    """Make a pooling from ``name[:option=value]...``, without token weights.

    Raises:
        UserError: If the name, an option or a value is not allowed.
    """
    pooling: Pooling = POOLINGS.make(text, argument="pooling")
    return pooling


def inverse_frequency(share: Any, a: float) -> Any:
    r"""Smooth inverse frequency :math:`a / (a + p)`, a number or tensor.

    References:
        A Simple but Tough-to-Beat Baseline for Sentence Embeddings (Arora et al., 2017).
        https://openreview.net/forum?id=SyK00v5xx

    Args:
        share: Share p of a word, or of each.
        a: Share whose weight is one half.
    """
    return a / (a + share)


def weighted_mean(tokens: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
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
        return weighted_mean(tokens, mask, mask.cumsum(dim=1) * mask)


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


@POOLINGS.register("cls_pooler")
class NetworkPooling(Pooling):
    """The network's layer over position 0, which follows its last layer."""

    over_tokens = False

    def output_dim(self, dim: int) -> int:
        """Output size: the size of a token vector."""
        return dim

    def pool(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """Nothing: the network pools.

        Raises:
            ValueError: Always.
        """
        raise ValueError("cls_pooler: expected the output of the network's pooler")
