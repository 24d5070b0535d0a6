"""From hidden states to one vector per sentence: average layers, then pool over tokens."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from flowbert.encoders.token_counts import TokenCounts
from flowbert.encoders.token_weights import COUNTED, RANKED, WEIGHTINGS, ranks_of
from flowbert.encoders.tokens import special_tokens
from flowbert.errors import UserError, choices
from flowbert.spec import parse_spec

POOLER = "cls_pooler"
_LARGEST = 1e30  # so that sums of float32 weights are finite
_OF_SPECIAL_TOKENS = {"special": False, "cls": 0.0}  # options of every weighting


def mix_layers(hidden_states: Sequence[Tensor], layers: Sequence[int]) -> Tensor:
    r"""Average of the chosen layers in float32, :math:`\frac{1}{|S|} \sum_{k \in S} h_k`.

    Args:
        hidden_states: L + 1 tensors of shape ``(B, T, D)``; index 0 is the embedding layer.
        layers: Indices into ``hidden_states`` as :func:`flowbert.encoders.layers.resolve_layers` gives them.

    Shapes:
        result: ``(B, T, D)``.  B: batch, T: tokens, D: embedding size.

    Example:
        >>> states = [torch.full((1, 2, 3), float(k)) for k in range(5)]
        >>> mix_layers(states, (1, 4))[0, 0]
        tensor([2.5000, 2.5000, 2.5000])
    """
    mixed = hidden_states[layers[0]].float()
    for layer in layers[1:]:
        mixed = mixed + hidden_states[layer].float()
    return mixed / len(layers) if len(layers) > 1 else mixed


class TokenPooling(NamedTuple):
    """One way from token vectors to a sentence vector.

    Attributes:
        pool: Token vectors ``(B, T, D)`` and where they are real ``(B, T, 1)`` to sentence vectors ``(B, D)``.
        linear: Whether averaging layers before and after it is the same.
    """

    pool: Callable[[Tensor, Tensor], Tensor]
    linear: bool


def _weighted(tokens: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    return (tokens.masked_fill(~mask, 0.0) * weights).sum(dim=1) / weights.sum(dim=1)


def _position_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    r""":math:`\sum_t t\, x_t / \sum_t t`: later tokens weigh more, as those of a decoder have seen more (SGPT)."""
    return _weighted(tokens, mask, mask.cumsum(dim=1) * mask)


def _last_token(tokens: Tensor, mask: Tensor) -> Tensor:
    last = mask.sum(dim=1, keepdim=True) - 1
    return tokens.gather(1, last.expand(-1, -1, tokens.shape[2])).squeeze(1)  # ONNX knows it, unlike take_along_dim


TOKEN_POOLINGS = {
    "mean": TokenPooling(lambda tokens, mask: tokens.masked_fill(~mask, 0.0).sum(dim=1) / mask.sum(dim=1), linear=True),
    "cls": TokenPooling(lambda tokens, _: tokens[:, 0], linear=True),
    "max": TokenPooling(lambda tokens, mask: tokens.masked_fill(~mask, -torch.inf).amax(dim=1), linear=False),
    "position_mean": TokenPooling(_position_mean, linear=True),
    "last_token": TokenPooling(_last_token, linear=True),
}
"""Every pooling that is a function of the tokens' vectors and places; a new one is one entry here."""

WITHOUT_POOLER = (*TOKEN_POOLINGS, *WEIGHTINGS)
POOLINGS = (*WITHOUT_POOLER, POOLER)
"""Names of all poolings; ``cls_pooler`` is a layer of the backbone."""


@dataclass(frozen=True)
class Pooling:
    """A pooling as it is written, ``mean``, ``sif:a=0.01``, with the weights of the tokens if it has any.

    Special tokens have no part in the weightings unless ``special=true``; ``cls=16`` gives [CLS] that weight. A
    sentence whose tokens weigh nothing all together, such as an empty one, gets its plain mean.

    Attributes:
        text: The option, what is default left out: equal poolings have equal texts.
        name: Its name.
        digest: Of the counts; empty without.
        counted_over: What they are of.
        half: 0 or 1 if only tokens at even, or odd, places take part; see :meth:`halves`.
        special: Special tokens, which have no part in a half.
        weights: Weight of each token of the vocabulary, ``(V,)``, float32; None where all tokens are alike.

    Example:
        >>> make_pooling("sif:a=0.001").text, make_pooling("idf:exponent=0.5").text
        ('sif', 'idf:exponent=0.5')
    """

    text: str
    name: str
    options: tuple[tuple[str, Any], ...] = ()
    digest: str = ""
    counted_over: str = ""
    weights: Tensor | None = None
    half: int | None = None
    special: tuple[int, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pooling) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash((self.text, self.digest))

    @property
    def weighted(self) -> bool:
        """Whether some tokens weigh more than others."""
        return self.name in WEIGHTINGS

    @property
    def counted(self) -> bool:
        """Whether it weighs tokens by their counts."""
        return self.name in COUNTED

    @property
    def cls_weight(self) -> float:
        """Weight of [CLS] that was asked for; 0 without."""
        return float(dict(self.options).get("cls", 0.0))

    @property
    def linear(self) -> bool:
        """Whether averaging layers before and after it is the same."""
        return self.weighted or (self.name in TOKEN_POOLINGS and TOKEN_POOLINGS[self.name].linear)

    @property
    def label(self) -> str:
        """The option, and what was counted, for tables: ``idf of target``."""
        return f"{self.text} of {self.counted_over}" if self.counted_over else self.text

    def key(self) -> dict[str, str]:
        """Identity as JSON values."""
        return {"pooling": self.text} | ({"counts": self.digest} if self.digest else {})

    def with_counts(self, counts: TokenCounts, tokenizer: PreTrainedTokenizerBase) -> "Pooling":
        """The same with the weights that counts give the tokens; itself if it has none.

        Raises:
            UserError: If the counts are of another vocabulary, or of no sentence.
        """
        if not self.counted:
            return self
        if len(counts.occurrences) != len(tokenizer) or not counts.sentences:
            raise UserError(
                f"counts: received counts of {len(counts.occurrences)} tokens in {counts.sentences} sentences; "
                f"allowed: of the encoder's {len(tokenizer)} tokens, in at least one sentence"
            )
        weights = self._weights(counts.without(self._left_out(tokenizer)), tokenizer)
        return replace(self, digest=counts.digest, counted_over=counts.name, weights=weights)

    def with_vocabulary(self, tokenizer: PreTrainedTokenizerBase) -> "Pooling":
        """The same with the weights that the vocabulary gives the tokens; itself if it has none."""
        if self.name not in RANKED:
            return self
        size = max(tokenizer.get_vocab().values()) + 1  # numbers may have holes
        tokens = tokenizer.convert_ids_to_tokens(list(range(size)))
        return replace(self, weights=self._weights(ranks_of(tokens, tokenizer.unk_token), tokenizer))

    def _left_out(self, tokenizer: PreTrainedTokenizerBase) -> list[int]:
        return [] if dict(self.options)["special"] else sorted(special_tokens(tokenizer))

    def _weights(self, known: TokenCounts | Tensor, tokenizer: PreTrainedTokenizerBase) -> Tensor:
        options = {name: value for name, value in self.options if name not in _OF_SPECIAL_TOKENS}
        weights = WEIGHTINGS[self.name](known, **options).float()
        if not weights.isfinite().all():
            raise UserError(f"pooling: received {self.text!r}, whose weights overflow; allowed: smaller numbers")
        weights[self._left_out(tokenizer)] = 0.0
        if self.cls_weight:
            if tokenizer.cls_token_id is None:
                raise UserError(
                    f"pooling: received {self.text!r}, and the tokenizer has no [CLS]; allowed: without cls"
                )
            weights[tokenizer.cls_token_id] = self.cls_weight
        return weights

    def halves(self, tokenizer: PreTrainedTokenizerBase) -> tuple["Pooling", "Pooling"]:
        """The same over the tokens at even and at odd places, special ones left out: two views of one pass.

        A sentence without a token in a half has all its tokens there.

        Raises:
            ValueError: If it is no mean over tokens.
        """
        if not (self.weighted or self.name == "mean"):
            raise ValueError(f"halves of pooling {self.text!r}; allowed: mean, {', '.join(WEIGHTINGS)}")
        special = tuple(sorted(special_tokens(tokenizer)))
        even, odd = (
            replace(self, text=f"{self.text}, {name} tokens", half=half, special=special)
            for half, name in enumerate(("even", "odd"))
        )
        return even, odd

    def _chosen(self, mask: Tensor, ids: Tensor) -> Tensor:
        """Which tokens take part, ``(B, T)``."""
        if self.half is None:
            return mask
        places = torch.arange(ids.shape[1], device=ids.device) % 2 == self.half
        text = ~torch.isin(ids, torch.tensor(self.special, device=ids.device))
        chosen = mask.bool() & places & text
        return torch.where(chosen.any(dim=1, keepdim=True), chosen, mask.bool())

    def __call__(self, tokens: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        """One vector per sentence.

        Args:
            tokens: Token vectors of shape ``(B, T, D)``.
            mask: Shape ``(B, T)``, nonzero where the token is real; at least one per sentence.
            ids: Token numbers, ``(B, T)``.

        Shapes:
            result: ``(B, D)``.  B: batch, T: tokens, D: embedding size.

        Raises:
            UserError: If it needs counts and has none.
        """
        mask = self._chosen(mask, ids)
        if not self.weighted:
            return pool(tokens, mask, self.name)
        if self.weights is None:
            allowed = ", ".join([*TOKEN_POOLINGS, *RANKED])
            raise UserError(
                f"pooling: {self.text} needs token counts, which use_counts gives; allowed without: {allowed}"
            )
        real = mask.bool()
        # Where the tokens are: the table is small, and one encoder may move between devices.
        weights = self.weights.to(ids.device)[ids] * real
        weights = torch.where(weights.sum(dim=1, keepdim=True) > 0, weights, real.to(weights.dtype))
        return _weighted(tokens, real.unsqueeze(-1), weights.unsqueeze(-1))


def make_pooling(text: str, tokenizer: PreTrainedTokenizerBase | None = None) -> Pooling:
    """A pooling from ``name[:option=value]...``.

    Args:
        text: The option.
        tokenizer: Gives the weights of a pooling that takes them from the vocabulary; None leaves them open.

    Raises:
        UserError: If the name or an option is unknown, or a value is not allowed.
    """
    spec = parse_spec(text, POOLINGS, "pooling")
    usual: dict[str, Any] = {}
    if spec.name in WEIGHTINGS:
        _, *parameters = inspect.signature(WEIGHTINGS[spec.name]).parameters.values()
        usual = {each.name: each.default for each in parameters} | _OF_SPECIAL_TOKENS
    given = spec.arguments(usual)
    for name, value in given.items():
        if name == "special":
            if not isinstance(value, bool):
                raise UserError(f"pooling: received {text!r}, special {value!r}; allowed: true, false")
        elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST:
            raise UserError(f"pooling: received {text!r}, {name} {value!r}; allowed: a number above 0, at most 1e30")
    options = {**usual, **given}
    changed = {name: value for name, value in options.items() if value != usual[name]}
    written = [f":{name}={_written(value)}" for name, value in changed.items()]
    made = Pooling("".join([spec.name, *written]), spec.name, tuple(options.items()))
    return made if tokenizer is None else made.with_vocabulary(tokenizer)


def _written(value: bool | float) -> str:
    """Every digit, as stores tell poolings apart by it: ``true``, ``16``, ``0.5``."""
    return "true" if value is True else repr(float(value)).removesuffix(".0")


def pool(tokens: Tensor, mask: Tensor, pooling: str) -> Tensor:
    r"""One vector per sentence, for instance the mean over real tokens :math:`\sum_t m_t x_t / \sum_t m_t`.

    All run over the real tokens, the special ones at both ends included and padding (on the right) excluded; ``cls`` is
    position 0. ``position_mean`` weighs a token by its place, from 1 (``weightedmean`` of sentence-transformers).

    References:
        SGPT: GPT Sentence Embeddings for Semantic Search (Muennighoff, 2022). https://arxiv.org/abs/2202.08904

    Args:
        tokens: Token vectors of shape ``(B, T, D)``.
        mask: Shape ``(B, T)``, nonzero where the token is real; at least one per sentence.
        pooling: One of :data:`TOKEN_POOLINGS`.

    Shapes:
        result: ``(B, D)``.  B: batch, T: tokens, D: embedding size.

    Raises:
        ValueError: For another name.

    Example:
        >>> tokens, mask = torch.tensor([[[1.0], [4.0], [9.0]]]), torch.tensor([[1, 1, 0]])
        >>> pool(tokens, mask, "mean"), pool(tokens, mask, "position_mean"), pool(tokens, mask, "last_token")
        (tensor([[2.5000]]), tensor([[3.]]), tensor([[4.]]))
    """
    if pooling not in TOKEN_POOLINGS:
        raise ValueError(f"pooling: received {pooling!r}; {choices(TOKEN_POOLINGS, pooling)}")
    return TOKEN_POOLINGS[pooling].pool(tokens, mask.bool().unsqueeze(-1))
