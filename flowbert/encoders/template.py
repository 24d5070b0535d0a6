"""Templates: fixed tokens around a sentence, such as a prompt that asks a decoder for one word."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from flowbert.errors import UserError, choices

SLOT = "{}"
_WORD = "a"

TEMPLATES = {
    "prompteol": 'This sentence : "{}" means in one word:"',
    "pretended-cot": (
        'After thinking step by step , this sentence : "{}" means in one word:"'
    ),
    "knowledge": (
        "The essence of a sentence is often captured by its main subjects and actions, while "
        "descriptive terms provide additional but less central details. With this in mind , "
        'this sentence : "{}" means in one word:"'
    ),
    "echo": "Rewrite the sentence: {}, rewritten sentence: {}",
}
"""Published templates by name.

PromptEOL: Scaling Sentence Embeddings with Large Language Models (Jiang et al., 2023), arXiv
2307.16645. Pretended CoT and Knowledge: Simple Techniques for Enhancing Sentence Embeddings in
Generative Language Models (Zhang et al., 2024), arXiv 2404.03921. Echo: Repetition Improves
Language Model Embeddings (Springer et al., 2024), arXiv 2402.15449.
"""


class Template(NamedTuple):
    """Tokens around a sentence.

    Args:
        text: The template, with a slot ``{}`` for the sentence.
        space: A space to tokenize with the sentence, if the tokenizer joins it to the next word.
        before: Tokens before the sentence, special tokens of the tokenizer included.
        between: Tokens before its repetition; None where the sentence occurs once.
        after: Tokens after the sentence.
    """

    text: str
    space: str
    before: tuple[int, ...]
    between: tuple[int, ...] | None
    after: tuple[int, ...]

    @classmethod
    def make(cls, text: str, tokenizer: Any) -> "Template":
        """Tokenize a template.

        Args:
            text: A name of :data:`TEMPLATES`, or text with a slot ``{}``; with two, the second
                occurrence is pooled.
            tokenizer: A fast tokenizer of transformers.

        Raises:
            UserError: If there is no slot or more than two, the text has a special token, or the
                tokenizer is not a fast one.
        """
        text = TEMPLATES.get(text, text)
        if not 1 <= text.count(SLOT) <= 2:
            raise UserError(
                argument="template",
                received=text,
                expected=f"{choices(TEMPLATES, text)}, or text with {SLOT} for the sentence "
                "(twice to repeat it)",
            )
        if not tokenizer.is_fast:
            raise UserError(
                f"received {text!r}; expected none, as {type(tokenizer).__name__} is no fast "
                "tokenizer",
                argument="template",
            )
        for token in tokenizer.all_special_tokens:
            if token in text:
                raise UserError(
                    f"received {text!r}; expected text without {token!r}, a special token",
                    argument="template",
                )
        found = _split(text.split(SLOT), tokenizer)
        if found is None:
            raise UserError(
                f"received {text!r}; expected {SLOT} where the tokenizer begins a new token, such as "
                "between spaces or quotes",
                argument="template",
            )
        space, parts = found
        between = parts[1] if len(parts) == 3 else None
        return cls(text, space, parts[0], between, parts[-1])

    def room(self, max_length: int) -> int:
        """Number of tokens of a sentence in ``max_length`` tokens."""
        fixed = len(self.before) + len(self.between or ()) + len(self.after)
        return (max_length - fixed) // (1 if self.between is None else 2)

    def wrap(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Tokens of a sentence in the template, and 1 for each token that is not pooled."""
        head = list(self.before)
        if self.between is not None:
            head += [*ids, *self.between]
        masked = [1] * len(head) + [0] * len(ids) + [1] * len(self.after)
        return [*head, *ids, *self.after], masked

    def post_processor(self, tokenizer: Any) -> Any:
        """The template as a post-processor of ``tokenizers``, with which a tokenizer is saved."""
        from tokenizers.processors import TemplateProcessing

        pieces, special = [], []
        for name, ids in (
            ("before", self.before),
            ("between", self.between),
            ("after", self.after),
        ):
            if ids:
                tokens = tokenizer.convert_ids_to_tokens(list(ids))
                special.append({"id": name, "ids": list(ids), "tokens": tokens})
                pieces.append(name)
            if name != "after" and (name == "before" or self.between is not None):
                pieces.append("$A")
        return TemplateProcessing(single=pieces, special_tokens=special)


def _split(
    parts: Sequence[str], tokenizer: Any
) -> tuple[str, list[tuple[int, ...]]] | None:
    """Tokens of each part as they are around a word, and the space before the word, if any.

    None where the tokenizer joins a part and the word into one token.
    """
    encoded = tokenizer(_WORD.join(parts), truncation=False)
    ids, places, length = encoded["input_ids"], [], 0
    for part in parts[:-1]:
        length += len(part)
        places.append(encoded.char_to_token(length))
        length += len(_WORD)
    for space in ("", " "):
        alone = tokenizer(space + _WORD, add_special_tokens=False)["input_ids"]
        if all(ids[place : place + 1] == alone for place in places):
            starts = [0, *(place + 1 for place in places)]
            stops = [*places, len(ids)]
            spans = zip(starts, stops, strict=True)
            return space, [tuple(ids[start:stop]) for start, stop in spans]
    return None
