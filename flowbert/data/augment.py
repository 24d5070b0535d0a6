"""Positives made from the sentence itself: the discrete alternatives to dropout that the SimCSE paper compares.

Words are what stands between white space. A sentence of one word stays as it is.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from flowbert.errors import UserError

Edit = Callable[[Sequence[str], float, random.Random], list[str]]


def crop(words: Sequence[str], rate: float, rng: random.Random) -> list[str]:
    """A random span with ``1 - rate`` of the words, at least one.

    Example:
        >>> crop(["a", "dog", "runs", "home"], 0.5, random.Random(0))
        ['dog', 'runs']
    """
    count = max(1, round((1 - rate) * len(words)))
    start = rng.randint(0, len(words) - count)
    return list(words[start : start + count])


def delete_words(words: Sequence[str], rate: float, rng: random.Random) -> list[str]:
    """The words in order without ``rate`` of them, at least one left.

    Example:
        >>> delete_words(["a", "dog", "runs", "home"], 0.5, random.Random(0))
        ['dog', 'home']
    """
    count = max(1, len(words) - round(rate * len(words)))
    return [words[i] for i in sorted(rng.sample(range(len(words)), count))]


def delete_one_word(words: Sequence[str], _rate: float, rng: random.Random) -> list[str]:
    """The words, at least two, without a random one.

    Example:
        >>> delete_one_word(["a", "dog", "runs"], 0.0, random.Random(0))
        ['a', 'runs']
    """
    gone = rng.randrange(len(words))
    return [word for i, word in enumerate(words) if i != gone]


def edit_sentence(sentence: str, edit: Edit, rate: float, rng: random.Random) -> str:
    """Apply an edit to the words of a sentence of more than one.

    Args:
        sentence: At least one word.
        edit: For example :func:`crop`.
        rate: Share of the words that go, in (0, 1).
        rng: Source of randomness.
    """
    words = sentence.split()
    return " ".join(edit(words, rate, rng)) if len(words) > 1 else sentence


class MaskedReplacement:
    """Replace a share of the words by what a masked language model says in their place.

    The likeliest word is taken, which may be the old one. Words that do not fit into the model's input stay.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021), table 1.
        https://arxiv.org/abs/2104.08821

    Args:
        path: Folder or hub name of a masked language model with its prediction head.
        rate: Share of the words to replace, in (0, 1); at least one word of a sentence.

    Raises:
        UserError: If there is no such model, or it has no prediction head or no mask token.
    """

    def __init__(self, path: str, rate: float) -> None:
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(path)
            model, report = AutoModelForMaskedLM.from_pretrained(path, dtype=torch.float32, output_loading_info=True)
        except (OSError, ValueError) as error:
            raise UserError(f"mlm_path: {path} cannot be read: {str(error).splitlines()[0]}") from error
        if report["missing_keys"] or self._tokenizer.mask_token is None:
            lack = f"weights {min(report['missing_keys'])}" if report["missing_keys"] else "mask token"
            raise UserError(f"mlm_path: {path} has no {lack}; allowed: a masked language model with its head")
        self._model: Any = model.eval()
        self._rate = rate

    @torch.no_grad()
    def __call__(self, sentences: Sequence[str], rngs: Sequence[random.Random]) -> list[str]:
        """Sentences with some words replaced.

        Args:
            sentences: B sentences.
            rngs: B sources of randomness.
        """
        words = [sentence.split() for sentence in sentences]
        chosen = [self._choose(len(row), rng) for row, rng in zip(words, rngs, strict=True)]
        mask = self._tokenizer.mask_token
        masked = [
            " ".join(mask if i in gone else word for i, word in enumerate(row))
            for row, gone in zip(words, chosen, strict=True)
        ]
        features = self._tokenizer(masked, padding=True, truncation=True, return_tensors="pt")
        logits = self._model(**features).logits
        for number, (row, gone) in enumerate(zip(words, chosen, strict=True)):
            positions = (features["input_ids"][number] == self._tokenizer.mask_token_id).nonzero()[:, 0]
            for i, best in zip(gone, logits[number, positions].argmax(-1).tolist(), strict=False):
                row[i] = self._tokenizer.decode([best]).strip() or row[i]
        return [" ".join(row) for row in words]

    def _choose(self, count: int, rng: random.Random) -> list[int]:
        return sorted(rng.sample(range(count), min(count, max(1, round(self._rate * count)))))
