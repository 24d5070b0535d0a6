"""The trained vocabulary."""

import hashlib
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from flowbert.data.sample import encoder_path, sample_corpus
from flowbert.encoders.wordpiece import SPECIAL_TOKENS, train_wordpiece
from flowbert.errors import UserError


def test_frequent_words_are_one_piece_and_ascii_is_never_unknown(tmp_path: Path) -> None:
    train_wordpiece(["The dog sees the dog.", "A café."] * 5, vocab_size=200, max_length=16, folder=tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.tokenize("THE Dog sees") == ["the", "dog", "sees"]
    assert tokenizer.tokenize("Cafe") == ["cafe"]
    printable = "".join(chr(code) for code in range(33, 127))
    assert "[UNK]" not in tokenizer.tokenize(printable + " " + printable.lower()[::-1] + " x0y1z2")
    assert tokenizer.convert_ids_to_tokens(list(range(5))) == list(SPECIAL_TOKENS)
    assert tokenizer.model_max_length == 16
    features = tokenizer(["the dog", "the"], padding=True)
    assert tokenizer.convert_ids_to_tokens(features["input_ids"][1]) == ["[CLS]", "the", "[SEP]", "[PAD]"]


def test_only_the_five_special_tokens_are_special(tmp_path: Path) -> None:
    train_wordpiece(sample_corpus()[:500], vocab_size=400, max_length=16, folder=tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert set(tokenizer.all_special_tokens) == set(SPECIAL_TOKENS)
    assert len(tokenizer) <= 400
    assert set(tokenizer.get_added_vocab()) == set(SPECIAL_TOKENS)


def test_the_vocabulary_in_the_package_is_made_again_to_the_byte(tmp_path: Path) -> None:
    train_wordpiece(sample_corpus(), vocab_size=2000, max_length=128, folder=tmp_path)

    def digest(folder: Path) -> str:
        return hashlib.blake2b((folder / "tokenizer.json").read_bytes()).hexdigest()

    assert digest(tmp_path) == digest(encoder_path())


def test_a_vocabulary_that_cannot_hold_the_characters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vocab_size: received 30; allowed: (\d+) or more") as error:
        train_wordpiece(["The dog."], vocab_size=30, max_length=16, folder=tmp_path)
    least = int(str(error.value).split("allowed: ")[1].split()[0])
    train_wordpiece(["The dog."], vocab_size=least, max_length=16, folder=tmp_path)
    assert len(AutoTokenizer.from_pretrained(tmp_path)) == least
    with pytest.raises(UserError, match="received no sentence"):
        train_wordpiece([], vocab_size=300, max_length=16, folder=tmp_path)
