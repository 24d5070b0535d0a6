import pytest
import torch
from helpers.encoders import word_tokenizer
from transformers import BertConfig

from flowbert.encoders.identity import digest_config, digest_tokenizer, digest_weights

STATE = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(2, dtype=torch.bfloat16), "n": torch.tensor(3)}


def test_order_and_layout_in_memory_do_not_matter() -> None:
    shuffled = {"n": STATE["n"], "a": STATE["a"], "b": STATE["b"].t().contiguous().t()}
    assert digest_weights(shuffled) == digest_weights(STATE)


@pytest.mark.parametrize(
    "change",
    [
        {"b": torch.arange(6.0).reshape(3, 2)},
        {"b": torch.arange(6.0, dtype=torch.float64).reshape(2, 3)},
        {"b": torch.arange(6.0).reshape(2, 3) + torch.eye(2, 3) * 1e-6},
        {"c": torch.zeros(1)},
    ],
)
def test_any_change_of_the_weights_shows(change: dict[str, torch.Tensor]) -> None:
    assert digest_weights({**STATE, **change}) != digest_weights(STATE)


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
