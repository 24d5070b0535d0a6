"""Sentences to token features: in a template, behind an attention sink, cut."""

from collections.abc import Iterator, Sequence
from typing import Any

from flowbert.encoders.base import BLOCK_SENTENCES
from flowbert.encoders.reading import Reading
from flowbert.encoders.template import SLOT, Template, prompt_of
from flowbert.errors import UserError, warn


class Tokenization:
    """Tokens of sentences for a network, as a reading wants them.

    Args:
        backbone: A :class:`~flowbert.encoders.backbone.Backbone`.
        reading: How it is read.

    Attributes:
        prompt: Text before every sentence whose tokens are pooled.
        template_tokens: Tokens around a sentence that are not pooled; None without them.
        room: Tokens of a sentence after which it is cut.

    Raises:
        UserError: If template or sink do not fit the tokenizer or leave no room for a sentence.
    """

    def __init__(self, backbone: Any, reading: Reading) -> None:
        tokenizer = backbone.tokenizer
        for token in tokenizer.all_special_tokens:
            if token in reading.template:  # tokenizers add them themselves
                raise UserError(
                    f"received {reading.template!r}; expected text without {token!r}, a special "
                    "token",
                    argument="template",
                )
        self.backbone = backbone
        self.reading = reading
        self.prompt = prompt_of(reading.template)
        self.template_tokens: Template | None = None
        self.room = reading.max_length
        text = SLOT if self.prompt else reading.template or SLOT
        if reading.sink_token or text != SLOT:
            self.template_tokens = Template.make(text, tokenizer, reading.sink_token)
            self.room = self.template_tokens.room(reading.max_length)

    def rows(self, sentences: Sequence[str]) -> Iterator[dict[str, list[int]]]:
        """Token features of each sentence by name, special tokens included, after truncation.

        Tokens of a template that are not pooled have 1 in ``special_tokens_mask``.

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
                yield row if template is None else template.wrap(row["input_ids"])

    def warn_of_cut(self, lengths: Sequence[int]) -> None:
        """Warn if a sentence may be cut, by the tokens that each has."""
        limit, template = self.reading.max_length, self.template_tokens
        is_repeated = template is not None and template.between is not None
        if max(lengths) >= limit - is_repeated:  # which may leave one token
            warn(
                "sentences: some are longer than max_length or as long; longer ones are "
                f"truncated to {limit} tokens"
            )

    def _tokenize(self, sentences: Sequence[str]) -> Any:
        """Tokens of sentences, cut, without those of a template around them."""
        tokenizer, template_tokens = self.backbone.tokenizer, self.template_tokens
        before = self.prompt
        if template_tokens is not None:
            before = template_tokens.context + self.prompt + template_tokens.space
        texts = [before + sentence for sentence in sentences]
        if template_tokens is None or not template_tokens.context:
            return tokenizer(
                texts,
                add_special_tokens=template_tokens is None,
                return_attention_mask=True,
                verbose=False,
                truncation=True,
                max_length=self.room,
            )
        # The context is taken away again, and then the sentence is cut.
        kept = slice(self.room)
        if tokenizer.truncation_side == "left":
            kept = slice(-self.room, None)
        columns = tokenizer(texts, add_special_tokens=False, verbose=False)
        context = tokenizer(template_tokens.context, add_special_tokens=False)[
            "input_ids"
        ]
        return {
            "input_ids": [row[len(context) :][kept] for row in columns["input_ids"]]
        }
