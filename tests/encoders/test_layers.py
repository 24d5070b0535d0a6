import re

import numpy as np
import pytest

from flowbert.encoders import EncoderOptions, open_encoders
from flowbert.encoders.layers import expand_layers, name_layers, resolve_layers
from helpers import refused


@pytest.mark.parametrize(
    ("spec", "layers"),
    [
        ("last", (12,)),
        ("last2", (12, 11)),
        ("first_last", (1, 12)),
        ("embedding_last", (0, 12)),
        (0, (0,)),
        (-13, (0,)),
        ("1,12", (1, 12)),
        ("2", (2,)),
        ([4, -1, 0], (4, 12, 0)),
        (np.int64(-1), (12,)),
    ],
)
def test_names_and_numbers(spec, layers):
    assert resolve_layers(spec, 12) == layers
    assert resolve_layers(name_layers(layers, 12), 12) == layers


def test_first_and_last_are_one_layer_in_a_network_of_one_block():
    assert resolve_layers("first_last", 1) == (1,)


def test_numbers_of_numpy_are_one_set():
    options = EncoderOptions(layers=[np.int64(0), np.int64(2)])
    assert [x.describe()["layers"] for x in open_encoders(options)] == [[0, 2]]


def test_expanded_sets_come_once():
    assert len(expand_layers(["singles", "pairs", "triples"], 6)) == 7 + 21 + 35
    assert expand_layers(["first_last", [3, 1], "last"], 3) == [(1, 3), (3,)]


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ("frist_last", "did you mean 'first_last'"),
        (13, "received 13"),
        ([1, -12], "[1, -12]"),
        ([], "[]"),
        ("", "''"),
        ("1,,2", "'1,,2'"),
        ([1.5], "[1.5]"),
        ([[1]], "[[1]]"),
    ],
)
def test_wrong_layers(spec, part):
    refused(f"^layers: .*{re.escape(part)}", resolve_layers, spec, 12)
