from collections.abc import Sequence

import pytest
from helpers.encoders import ConstantLayers, word_tokenizer

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.layers import LAYER_NAMES, resolve_layers
from flowbert.errors import UserError

# The definitions of the protocol, as hidden state numbers of an encoder of 12 blocks.
MEANING: dict[str, tuple[int, ...]] = {
    "last": (12,),
    "last2": (12, 11),
    "first_last": (1, 12),
    "embedding_last": (0, 12),
}


def test_every_name_has_its_meaning_pinned() -> None:
    assert set(MEANING) == set(LAYER_NAMES)


@pytest.mark.parametrize(("name", "layers"), MEANING.items())
def test_name_averages_the_hidden_states_it_means(name: str, layers: tuple[int, ...]) -> None:
    assert resolve_layers(name, 12) == layers
    encoder = SentenceEncoder(ConstantLayers(12), word_tokenizer(), layers=name)
    assert encoder.encode(["a cat", "the dog sleeps"]).tolist() == [[sum(layers) / len(layers)] * 4] * 2


@pytest.mark.parametrize(
    ("spec", "layers"),
    [
        (-1, (12,)),
        (0, (0,)),
        (12, (12,)),
        (-13, (0,)),
        ("3", (3,)),
        ("1,12", (1, 12)),
        ("12, 1", (12, 1)),
        ([1, 2, -1], (1, 2, 12)),
    ],
)
def test_numbers(spec: str | int | Sequence[int], layers: tuple[int, ...]) -> None:
    assert resolve_layers(spec, 12) == layers
    encoder = SentenceEncoder(ConstantLayers(12), word_tokenizer(), layers=spec)
    assert encoder.layers == layers
    assert encoder.encode(["a"])[0, 0] == pytest.approx(sum(layers) / len(layers))


@pytest.mark.parametrize("spec", [13, -14, "1,13", [0, 99]])
def test_layer_beyond_the_encoder(spec: str | int | Sequence[int]) -> None:
    with pytest.raises(UserError, match=r"layers: received (13|-14|99), beyond .* 12 blocks; allowed: 0 .* 12 .* -13"):
        resolve_layers(spec, 12)


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match=r"'frist_last'; .*did you mean 'first_last'"):
        resolve_layers("frist_last", 12)


@pytest.mark.parametrize("spec", [[], "", [True], [1.0]])
def test_no_layers(spec: str | Sequence[int]) -> None:
    with pytest.raises(UserError, match="layers: received"):
        resolve_layers(spec, 12)


def test_a_repeated_layer_is_an_error_but_names_collapse() -> None:
    with pytest.raises(UserError, match=r"twice .*\[12, 12\]"):
        resolve_layers([12, -1], 12)
    assert resolve_layers("first_last", 1) == (1,)
