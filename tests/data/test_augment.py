"""Positives made from the sentence itself."""

import random
from pathlib import Path

import pytest
import torch
from helpers.encoders import WORDS, make_encoder, word_tokenizer
from transformers import BertConfig, BertForMaskedLM

from flowbert.data.augment import Edit, MaskedReplacement, crop, delete_one_word, delete_words, edit_sentence
from flowbert.errors import UserError

WORDS_20 = [f"w{i}" for i in range(20)]


@pytest.mark.parametrize(("rate", "kept"), [(0.1, 18), (0.3, 14), (0.99, 1)])
def test_crop_keeps_a_span(rate: float, kept: int) -> None:
    starts = set()
    for seed in range(50):
        span = crop(WORDS_20, rate, random.Random(seed))
        start = WORDS_20.index(span[0])
        assert span == WORDS_20[start : start + kept]
        starts.add(start)
    assert starts == set(range(20 - kept + 1)) or kept == 1


@pytest.mark.parametrize(("rate", "kept"), [(0.1, 18), (0.3, 14), (0.99, 1)])
def test_word_deletion_keeps_order_and_share(rate: float, kept: int) -> None:
    gone = set()
    for seed in range(100):
        words = delete_words(WORDS_20, rate, random.Random(seed))
        assert len(words) == kept
        assert words == [w for w in WORDS_20 if w in words]
        gone |= set(WORDS_20) - set(words)
    assert gone == set(WORDS_20)


def test_delete_one_word_can_delete_each() -> None:
    gone = set()
    for seed in range(200):
        words = delete_one_word(WORDS_20, 0.0, random.Random(seed))
        assert len(words) == 19
        gone |= set(WORDS_20) - set(words)
    assert gone == set(WORDS_20)


@pytest.mark.parametrize("edit", [crop, delete_words, delete_one_word])
def test_one_word_stays(edit: Edit) -> None:
    assert edit_sentence("word", edit, 0.9, random.Random(0)) == "word"
    assert len(edit_sentence("two words", edit, 0.5, random.Random(0)).split()) == 1


def _masked_model(folder: Path) -> Path:
    tokenizer = word_tokenizer()
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **sizes))  # type: ignore[arg-type]
    with torch.no_grad():
        model.cls.predictions.bias[tokenizer.convert_tokens_to_ids("mat")] = 1e4
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_masked_replacement_puts_the_model_s_word_in_the_right_share(tmp_path: Path) -> None:
    replace = MaskedReplacement(str(_masked_model(tmp_path)), 0.25)
    sentences = [" ".join(WORDS[:8]), "cat", "dog runs"]
    replaced = replace(sentences, [random.Random(seed) for seed in range(3)])
    for before, after, count in zip(sentences, replaced, (2, 1, 1), strict=True):
        pairs = list(zip(before.split(), after.split(), strict=True))
        assert [b for a, b in pairs if a != b] == ["mat"] * count
    again = replace(sentences, [random.Random(seed) for seed in range(3)])
    assert again == replaced


def test_masked_replacement_needs_a_prediction_head(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mlm_path: .* has no weights .*; allowed: a masked language model"):
        MaskedReplacement(str(make_encoder(tmp_path / "bare")), 0.1)
    with pytest.raises(UserError, match=r"mlm_path: .* cannot be read"):
        MaskedReplacement(str(tmp_path / "nothing"), 0.1)
