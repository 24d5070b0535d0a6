"""Encoders for other programs, in which the tokenizer adds the template."""

from copy import deepcopy
from typing import Any

from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.template import SLOT, Template
from flowbert.errors import UserError


def with_template_in_tokenizer(encoder: SentenceEncoder) -> SentenceEncoder:
    """An encoder with the same network, whose tokenizer adds the tokens of the template.

    Poolings over tokens then include these, unless the ``special_tokens_mask`` of :func:`outside`
    marks them.

    Raises:
        UserError: If the tokenizer joins a space of the template to the sentence.
    """
    template = encoder.tokenization.template_tokens
    if template is None:
        return encoder
    if template.context or template.space:
        raise UserError(
            argument="template",
            received=encoder.template,
            expected=f"text before {SLOT} that does not change the tokens of a sentence",
        )
    is_split = bool(encoder.tokenization.read_as_text)
    tokenizer = add_to_tokenizer(template, encoder.backbone.tokenizer, is_split)
    backbone = encoder.backbone.like(tokenizer=tokenizer)
    if template.text == SLOT:
        return encoder.read(backbone=backbone)
    # A tokenizer counts a repeated sentence once.
    length = template.fixed + encoder.tokenization.room
    return encoder.read(
        backbone=backbone, template="", sink_token="", max_length=length
    )


def outside(template: Template, attention_mask: Tensor) -> Tensor:
    """The ``special_tokens_mask`` of texts in a template, as in :meth:`Template.wrap`.

    Args:
        template: The template.
        attention_mask: 1 at the tokens of a text, with padding behind, ``(B, T)``.

    Returns:
        1 at tokens that are not of the sentence, or of its repetition: ``(B, T)``.
    """
    length = attention_mask.sum(dim=1, keepdim=True)
    position = attention_mask.cumsum(dim=1) - 1
    start = length * 0 + len(template.before)
    if template.between is not None:
        start = start + (length - template.fixed) // 2 + len(template.between)
    inside = (position >= start) & (position < length - len(template.after))
    return 1 - inside.long()


def add_to_tokenizer(template: Template, tokenizer: Any, is_split: bool = False) -> Any:
    """Make a transformers tokenizer that adds the tokens of a template.

    Args:
        template: The template.
        tokenizer: A fast tokenizer.
        is_split: Whether special tokens in a sentence are text.
    """
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    pieces, added = [], []
    for name in ("before", "between", "after"):
        ids = getattr(template, name)
        if ids is None:
            continue
        if name != "before":
            pieces.append("$A")
        if ids:
            pieces.append(name)
            tokens = tokenizer.convert_ids_to_tokens(list(ids))
            added.append({"id": name, "ids": list(ids), "tokens": tokens})
    backend = deepcopy(tokenizer.backend_tokenizer)
    backend.post_processor = TemplateProcessing(single=pieces, special_tokens=added)
    # Transformers makes the tokenizers of some classes anew, by other rules than their file.
    make: Any = PreTrainedTokenizerFast
    return make(
        tokenizer_object=backend,
        model_max_length=tokenizer.model_max_length,
        model_input_names=["input_ids", "attention_mask"],  # GPT-2 adds token types
        truncation_side=tokenizer.truncation_side,
        split_special_tokens=is_split,
        **tokenizer.special_tokens_map,
    )
