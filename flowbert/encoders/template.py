"""Templates: fixed tokens around a sentence, such as a prompt that asks a decoder for one word."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from typing import Any, NamedTuple

from flowbert.encoders.pooling import special_tokens
from flowbert.errors import UserError, choices

SLOT = "{}"
SINK = "<|endoftext|>"
"""The best attention sink of those measured, where a vocabulary has it."""

_WORD = "a"
# Some tokenizers put a space before a text, and none joins a line break to the word behind it.
_CONTEXTS = ("", "\n")

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


CHATS = {
    "chat": {},
    "chat-examples": {
        "A jockey riding a horse.": "Equestrian",
        "The company said its profit fell by a third.": "Loss",
        "A man is slicing a tomato.": "Cooking",
        "Two children are playing in the snow.": "Winter",
    },
}
"""Templates that are made from the chat template of a tokenizer, also with another question.

The values are sentences of earlier turns with their answers, written by hand; the first is one of
Jiang et al. (2023), arXiv 2307.16645.
"""

_QUESTION = 'This sentence : "{}" means in one word:'
# In place of the date of today.
_DATE = "{% macro strftime_now(format) %}26 Jul 2024{% endmacro %}"


def resolve_template(text: str, tokenizer: Any) -> str:
    """The text of a template, empty for none.

    Args:
        text: A name of :data:`TEMPLATES` or :data:`CHATS`, ``chat:TEXT`` or
            ``chat-examples:TEXT``, or text with a slot ``{}``; with two, the second occurrence of
            the sentence is pooled.
        tokenizer: A tokenizer of transformers, whose chat template chats take.

    Raises:
        UserError: If there is no slot, or more than two, or no chat template.
    """
    text = str(text)  # a list may have a number
    template = TEMPLATES.get(text, text)
    name, _, question = text.partition(":")
    if name in CHATS:
        template = chat_text(name, question or _QUESTION, tokenizer)
    if template and not 1 <= template.count(SLOT) <= 2:
        raise UserError(
            argument="template",
            received=text,
            expected=f"{choices([*TEMPLATES, *CHATS], text)}, or text with {SLOT} for the sentence",
        )
    return template


def chat_text(name: str, question: str, tokenizer: Any) -> str:
    """The text of a chat: the turn of a user, and an answer that begins with a quote.

    The system turn is that of the chat template. Thinking is switched off where it has a switch,
    and the date is always the same.

    Raises:
        UserError: If the tokenizer has no chat template, or it cannot be applied.
    """
    turns = []
    for sentence, word in CHATS[name].items():
        turns.append({"role": "user", "content": question.replace(SLOT, sentence)})
        turns.append({"role": "assistant", "content": f'"{word}"'})
    turns.append({"role": "user", "content": question})
    try:
        chat: str = tokenizer.apply_chat_template(
            turns,
            chat_template=_DATE + tokenizer.get_chat_template(),
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
            thinking=False,
        )
    except Exception as error:  # a template of jinja raises what it likes
        raise UserError(
            f"received {name}; expected a network whose chat template takes the turn of a user",
            argument="template",
        ) from error
    return f'{chat}"'


def pooling_of(template: str) -> str | None:
    """Pooling of the text of a template: the last token, or the mean of a repeated sentence.

    None without a template, and for a prompt.

    Example:
        >>> pooling_of('"{}" means'), pooling_of("{} again: {}"), pooling_of("query: {}")
        ('last_token', 'mean', None)
    """
    if not template or prompt_of(template):
        return None
    return "mean" if template.endswith(SLOT) else "last_token"


def prompt_of(template: str) -> str:
    """Text before every sentence of a template that ends in its only slot; empty for others.

    Such a template is a prompt as sentence-transformers has it: its tokens are pooled, too.
    """
    is_prompt = template.count(SLOT) == 1 and template.endswith(SLOT)
    return template.removesuffix(SLOT) if is_prompt else ""


def usual_sink(tokenizer: Any) -> str:
    """Token in front of the sentences of a decoder: its first one, or one that it does not write.

    It takes the attention that a first word would get, whose vector would then have a norm of a
    hundred times the others; empty where there is none.

    References:
        Efficient Streaming Language Models with Attention Sinks (Xiao et al., 2024).
        https://arxiv.org/abs/2309.17453
    """
    first = tokenizer(_WORD)["input_ids"][:1]
    if set(first) & set(special_tokens(tokenizer)):
        return str(tokenizer.convert_ids_to_tokens(first[0]))
    if SINK in tokenizer.get_vocab():
        return SINK
    return tokenizer.bos_token or tokenizer.eos_token or ""


def special_texts(tokenizer: Any) -> list[str]:
    """Texts of the special tokens that a tokenizer finds in a text."""
    added = tokenizer.added_tokens_decoder.values()
    return [token.content for token in added if token.special]


def name_template(text: str, tokenizer: Any) -> str:
    """Name of the text of a template, or the text where it has none."""
    named = dict(TEMPLATES)
    if _QUESTION in text:
        with suppress(UserError):
            named |= {name: chat_text(name, _QUESTION, tokenizer) for name in CHATS}
    return next((name for name in named if named[name] == text), text)


class Template(NamedTuple):
    """Tokens around a sentence, which are not pooled.

    Args:
        text: The template, with a slot ``{}`` for the sentence.
        context: Text to tokenize with the sentence, without its tokens, where the tokenizer treats
            the first word of a text in another way.
        space: A space to tokenize with the sentence, if the tokenizer joins it to the next word.
        before: Tokens before the sentence, special tokens of the tokenizer included.
        between: Tokens before its repetition; None where the sentence occurs once.
        after: Tokens after the sentence.
    """

    text: str
    context: str
    space: str
    before: tuple[int, ...]
    between: tuple[int, ...] | None
    after: tuple[int, ...]

    @classmethod
    def make(cls, text: str, tokenizer: Any, sink: str = "") -> "Template":
        """Tokenize a template.

        Args:
            text: Text of :func:`resolve_template`.
            tokenizer: A fast tokenizer of transformers.
            sink: Token in front, unless the template begins with it; empty for none.

        Raises:
            UserError: If the tokenizer is not a fast one, a part of the text and the sentence
                would share a token, or the vocabulary has no such sink.
        """
        if not tokenizer.is_fast:
            raise UserError(
                f"received {text!r}, which requires a fast tokenizer; {type(tokenizer).__name__} "
                "is not one",
                argument="template",
            )
        split = _split(text.split(SLOT), tokenizer)
        if split is None:
            raise UserError(
                f"received {text!r}; expected {SLOT} where this tokenizer begins a token, such as "
                "between quotes or spaces",
                argument="template",
            )
        context, space, (before, *between, after) = split
        if sink:
            number = tokenizer.get_vocab().get(sink)
            if number is None:
                raise UserError(
                    argument="sink_token",
                    received=sink,
                    expected="a token of the vocabulary, or an empty text for none",
                )
            if before[:1] != (number,):
                before = (number, *before)
        return cls(text, context, space, before, between[0] if between else None, after)

    @property
    def fixed(self) -> int:
        """Number of tokens around a sentence."""
        return len(self.before) + len(self.between or ()) + len(self.after)

    def room(self, max_length: int) -> int:
        """Number of tokens of a sentence among ``max_length``.

        Raises:
            UserError: If there is no room for a sentence.
        """
        repeats = 1 if self.between is None else 2
        least = self.fixed + repeats
        if max_length < least:
            raise UserError(
                argument="max_length",
                received=max_length,
                expected=f"at least {least} for this template",
            )
        return (max_length - self.fixed) // repeats

    def wrap(self, ids: Sequence[int]) -> dict[str, list[int]]:
        """Token features of a sentence in the template, by name."""
        head = list(self.before)
        if self.between is not None:
            head += [*ids, *self.between]
        return {
            "input_ids": [*head, *ids, *self.after],
            "attention_mask": [1] * (len(head) + len(ids) + len(self.after)),
            "special_tokens_mask": [1] * len(head)
            + [0] * len(ids)
            + [1] * len(self.after),
        }


def _split(
    parts: Sequence[str], tokenizer: Any
) -> tuple[str, str, list[tuple[int, ...]]] | None:
    """Tokens of each part as they are around a word, and the context and space before the word.

    None where the tokenizer joins a part and the word into one token.
    """
    # As the text of a chat template, one that begins with a special token has all of them.
    is_whole = parts[0].startswith(tuple(special_texts(tokenizer)))
    encoded = tokenizer(_WORD.join(parts), add_special_tokens=not is_whole)
    ids, places, length = encoded["input_ids"], [], 0
    for part in parts[:-1]:
        length += len(part)
        places.append(encoded.char_to_token(length))
        length += len(_WORD)
    for context, space in product(_CONTEXTS, ("", " ")):
        before, both = (
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in (context, context + space + _WORD)
        )
        word = both[len(before) :]
        if all(ids[place : place + 1] == word for place in places):
            starts = [0, *(place + 1 for place in places)]
            stops = [*places, len(ids)]
            spans = zip(starts, stops, strict=True)
            return context, space, [tuple(ids[start:stop]) for start, stop in spans]
    return None
