"""Edits that make a positive of a sentence: the SimCSE paper's alternatives to dropout.

Words are separated by white space.

References:
    SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021), tables 1 and 2.
    https://arxiv.org/abs/2104.08821
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.methods.masking import predictor_above

Edit = Callable[[Sequence[str], Sequence[Random]], list[str]]
"""A function from B sentences, with a random generator for each, to edited ones."""


def crop_words(words: Sequence[str], rate: float, rng: Random) -> Sequence[str]:
    """A random span with ``1 - rate`` of the words, at least one.

    Example:
        >>> crop_words(["a", "dog", "runs", "home"], 0.5, Random(0))
        ['dog', 'runs']
    """
    count = max(1, round((1 - rate) * len(words)))
    start = rng.randint(0, len(words) - count)
    return words[start : start + count]


def delete_words(words: Sequence[str], rate: float, rng: Random) -> Sequence[str]:
    """The words without ``rate`` of them, at least one left.

    Example:
        >>> delete_words(["a", "dog", "runs", "home"], 0.5, Random(0))
        ['dog', 'home']
    """
    count = max(1, len(words) - round(rate * len(words)))
    return [words[i] for i in sorted(rng.sample(range(len(words)), count))]


def delete_a_word(words: Sequence[str], _rate: float, rng: Random) -> Sequence[str]:
    """The words without a random one.

    Example:
        >>> delete_a_word(["a", "dog", "runs"], 0.0, Random(0))
        ['a', 'runs']
    """
    index = rng.randrange(len(words))
    return [*words[:index], *words[index + 1 :]]


WORD_EDITS: dict[str, Callable[[Sequence[str], float, Random], Sequence[str]]] = {
    "crop": crop_words,
    "word_deletion": delete_words,
    "delete_one_word": delete_a_word,
}
"""Edits by name: functions of two or more words, the share to change, and a generator."""


def edit_words(
    name: str, rate: float, sentences: Sequence[str], rngs: Sequence[Random]
) -> list[str]:
    """Edit sentences by one of ``WORD_EDITS``; a sentence of one word stays as it is.

    Example:
        >>> edit_words("crop", 0.5, ["a dog runs home", "yes"], [Random(0), Random(0)])
        ['dog runs', 'yes']
    """
    edited = []
    for sentence, rng in zip(sentences, rngs, strict=True):
        words = sentence.split()
        if len(words) > 1:
            sentence = " ".join(WORD_EDITS[name](words, rate, rng))
        edited.append(sentence)
    return edited


class MaskedReplacement:
    """An edit that replaces words by the likeliest ones of a masked language model.

    The likeliest word may be the old one. Words beyond the model's longest input stay.

    Args:
        path: Folder, run folder or hub name of a masked language model with its prediction layers.
        rate: Share of the words to replace, at least one in each sentence.

    Raises:
        UserError: If the model is missing, or has no prediction layers or no mask token.
    """

    def __init__(self, path: str, rate: float) -> None:
        encoder = SentenceEncoder(path)
        model, starts_at_random = predictor_above(encoder, seed=0)
        if starts_at_random:
            raise UserError(
                f"received {path}; expected a masked language model with prediction layers",
                argument="positive",
            )
        self._tokenizer: Any = encoder.backbone.tokenizer
        self._model: Any = model.eval()
        self.rate = rate

    @torch.no_grad()
    def __call__(self, sentences: Sequence[str], rngs: Sequence[Random]) -> list[str]:
        """Replace words of B sentences, with a random generator for each."""
        rows = [sentence.split() for sentence in sentences]
        chosen, masked = [], []
        for words, rng in zip(rows, rngs, strict=True):
            count = max(1, round(self.rate * len(words)))
            indices = sorted(rng.sample(range(len(words)), count))
            chosen.append(indices)
            hidden = dict.fromkeys(indices, self._tokenizer.mask_token)
            masked.append(" ".join(hidden.get(i, w) for i, w in enumerate(words)))
        features = self._tokenizer(
            masked, padding=True, truncation=True, return_tensors="pt"
        )
        likeliest = self._model(**features).logits.argmax(-1)
        is_mask = features["input_ids"] == self._tokenizer.mask_token_id
        for words, indices, ids, mask in zip(
            rows, chosen, likeliest, is_mask, strict=True
        ):
            # Fewer masks than indices if the sentence was cut.
            for index, token in zip(indices, ids[mask].tolist(), strict=False):
                words[index] = self._tokenizer.decode([token]).strip() or words[index]
        return [" ".join(words) for words in rows]
