from helpers.encoders import word_tokenizer
from transformers import BertConfig

from flowbert.encoders.identity import digest_config, digest_tokenizer


def test_configuration_counts_but_not_its_place() -> None:
    config, moved = BertConfig(), BertConfig()
    moved.name_or_path = "elsewhere"
    moved.architectures = ["BertForMaskedLM"]
    assert digest_config(config) == digest_config(moved)
    assert digest_config(config) != digest_config(BertConfig(layer_norm_eps=1e-5))


def test_use_does_not_change_a_tokenizer_but_a_word_does() -> None:
    tokenizer = word_tokenizer()
    before = digest_tokenizer(tokenizer)
    tokenizer(["a cat", "a"], truncation=True, max_length=3, padding=True)
    assert digest_tokenizer(tokenizer) == before
    tokenizer.add_tokens(["zebra"])
    assert digest_tokenizer(tokenizer) != before
