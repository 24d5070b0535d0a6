"""What a reading consists of, and what decides it."""

import itertools
from dataclasses import replace

import pytest

from encoders.tiny import write_tiny
from flowbert.encoders import (
    EncoderOptions,
    Reading,
    SentenceEncoder,
    open_encoders,
)
from flowbert.encoders.template import TEMPLATES

PROMPTEOL = TEMPLATES["prompteol"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A decoder that was saved with a reading of its own."""
    folder = tmp_path_factory.mktemp("reading")
    encoder = SentenceEncoder(write_tiny(folder / "llama", "llama"))
    assert encoder.reading == Reading((3,), "mean", 150, "", "[SEP]")
    own = encoder.read(layers="first_last", pooling="zipf:a=0.01", sink_token="the")
    own.save(folder / "saved")
    return folder / "saved"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Reading((1, 3), "zipf", 150, "", "the")),
        ({"layers": 0, "max_length": 9}, Reading((0,), "zipf", 9, "", "the")),
        # A pooling brings the usual sink, and a template its pooling, too.
        ({"pooling": "mean"}, Reading((1, 3), "mean", 150, "", "[SEP]")),
        ({"pooling": "cls"}, Reading((1, 3), "cls", 150, "", "")),
        ({"template": "prompteol"}, Reading((1, 3), "last_token", 150, PROMPTEOL, "")),
        ({"template": "a {}"}, Reading((1, 3), "zipf", 150, "a {}", "[SEP]")),
        (
            {"template": "prompteol", "pooling": "max", "sink_token": "cat"},
            Reading((1, 3), "max", 150, PROMPTEOL, "cat"),
        ),
    ],
)
def test_arguments_come_before_what_they_imply_and_before_the_folder(
    changes, expected, saved
):
    opened = SentenceEncoder(saved)
    for encoder in (SentenceEncoder(saved, **changes), opened.read(**changes)):
        assert encoder.reading == expected
        assert SentenceEncoder(opened.backbone, expected).reading == expected
        assert encoder.identity.items() >= expected.as_json().items()
    as_saved = encoder.as_saved().reading
    assert as_saved == replace(opened.reading, max_length=expected.max_length)


@pytest.mark.parametrize(
    "lists",
    [
        {"template": [None, PROMPTEOL, ""], "pooling": [None, "idf"]},
        {"pooling": [None, "cls"], "layers": ["last", None, [1]]},
    ],
)
def test_lists_are_the_same_readings_in_each_order(lists, saved):
    opened = []
    for backwards in (False, True):
        ordered = {
            name: values[::-1] if backwards else values
            for name, values in lists.items()
        }
        options = EncoderOptions(str(saved), **ordered)
        opened.append([x.identity for x in open_encoders(options, ["the cat"])])
    expected = [
        SentenceEncoder(
            saved, count_over=["the cat"], **dict(zip(lists, values, strict=True))
        ).identity
        for values in itertools.product(*lists.values())
    ]
    for identities in opened:
        assert sorted(map(str, identities)) == sorted(map(str, expected))


def test_an_unknown_entry_is_an_error(saved):
    with pytest.raises(TypeError, match="'layer'"):
        SentenceEncoder(saved).read(layer=1)
