"""Layer settings as users write them."""

import pytest

from flowbert.evaluation.embeddings import LayerSpecs, layer_specs


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (None, ()),
        (-1, (-1,)),
        ("last", ("last",)),
        ("1,-1", ("1,-1",)),
        ([1, -1], ([1, -1],)),
        ("last,first_last", ("last", "first_last")),
        ("last,3", ("last", "3")),
        (["last", "first_last", [1, 2, 4]], ("last", "first_last", [1, 2, 4])),
        ([[1], [1, 2]], ([1], [1, 2])),
    ],
)
def test_numbers_alone_are_one_setting(given: LayerSpecs, settings: tuple[object, ...]) -> None:
    assert layer_specs(given) == settings
