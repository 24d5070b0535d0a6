"""Sentences to token features: in a template, behind an attention sink, cut."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from flowbert.encoders.base import BLOCK_SENTENCES
from flowbert.encoders.reading import Reading
from flowbert.encoders.template import SLOT, Template, prompt_of, special_texts
from flowbert.errors import UserError


class Tokenization:
    """Tokens of sentences for a network, as a reading wants them.

    Sentences are cut here: a fast tokenizer keeps a truncation as its state, which threads and
    other readings share.

    Args:
        backbone: A :class:`~flowbert.encoders.backbone.Backbone`.
        reading: How it is read.

    Attributes:
        prompt: Text before every sentence whose tokens are pooled.
        template_tokens: Tokens around a sentence that are not pooled; None without them.
        read_as_text: Special tokens that are text in a sentence: all, if the template has one.
        room: Tokens of a sentence after which it is cut.

    Raises:
        UserError: If template or sink do not fit the tokenizer or leave no room for a sentence.
    """

    def __init__(self, backbone: Any, reading: Reading) -> None:
        self.backbone = backbone
        self.reading = reading
        self.prompt = prompt_of(reading.template)
        self.template_tokens: Template | None = None
        self.room = reading.max_length
        special = special_texts(backbone.tokenizer)
        is_used = any(token in reading.template for token in special)
        # A sentence must not end the message of a chat.
        self.read_as_text = special if is_used else []
        text = SLOT if self.prompt else reading.template or SLOT
        if reading.sink_token or text != SLOT:
            self.template_tokens = Template.make(
                text, backbone.tokenizer, reading.sink_token
            )
            self.room = self.template_tokens.room(reading.max_length)

    def rows(
        self, sentences: Sequence[str], on_cut: Callable[[str], Any] | None = None
    ) -> Iterator[dict[str, list[int]]]:
        """Token features of each sentence by name, special tokens included, after truncation.

        Tokens of a template that are not pooled have 1 in ``special_tokens_mask``.

        Args:
            sentences: The sentences.
            on_cut: Called with each sentence that is cut.

        Raises:
            UserError: If a sentence has no token.
        """
        template = self.template_tokens
        for start in range(0, len(sentences), BLOCK_SENTENCES):
            block = sentences[start : start + BLOCK_SENTENCES]
            columns = self._tokenize(block)
            names = [name for name in columns if name in self.backbone.inputs]
            for number, sentence in enumerate(block):
                row = {name: columns[name][number] for name in names}
                if not row["input_ids"]:
                    raise UserError(
                        f"received {sentence!r}, which has no tokens",
                        argument="sentences",
                    )
                if len(row["input_ids"]) > self.room:
                    if on_cut is not None:
                        on_cut(sentence)
                    kept = self._positions(columns["special_tokens_mask"][number])
                    row = {name: [row[name][i] for i in kept] for name in names}
                yield row if template is None else template.wrap(row["input_ids"])

    def _positions(self, is_added: Sequence[int]) -> list[int]:
        """Positions that a cut keeps: tokens that the tokenizer adds, others as far as they fit."""
        of_sentence = [i for i, added in enumerate(is_added) if not added]
        excess = len(is_added) - self.room
        is_left = self.backbone.tokenizer.truncation_side == "left"
        cut = set(of_sentence[:excess] if is_left else of_sentence[-excess:])
        return [i for i in range(len(is_added)) if i not in cut]

    def _tokenize(self, sentences: Sequence[str]) -> Mapping[str, Any]:
        """Features of sentences by name, without those of a template around them."""
        tokenizer, template = self.backbone.tokenizer, self.template_tokens
        if template is None:
            texts = [self.prompt + sentence for sentence in sentences]
            return _features(tokenizer, texts, add_special_tokens=True)
        before = template.context + self.prompt + template.space
        texts = [before + sentence for sentence in sentences]
        is_split = any(token in x for x in sentences for token in self.read_as_text)
        if is_split:
            # A tokenizer keeps this setting as its state, which others share.
            tokenizer = deepcopy(tokenizer)
        options = {"add_special_tokens": False, "split_special_tokens": is_split}
        columns = _features(tokenizer, texts, **options)
        if not template.context:
            return columns
        context = _features(tokenizer, [template.context], **options)
        start = len(context["input_ids"][0])
        return {name: [row[start:] for row in rows] for name, rows in columns.items()}


def _features(
    tokenizer: Any, texts: Sequence[str], **options: bool
) -> Mapping[str, Any]:
    features: Mapping[str, Any] = tokenizer(
        list(texts),
        return_attention_mask=True,
        return_special_tokens_mask=True,
        verbose=False,
        **options,
    )
    return features
