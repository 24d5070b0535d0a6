"""What a reading consists of, and what decides it."""

from dataclasses import replace

import pytest

from encoders.tiny import write_tiny
from flowbert.encoders import Reading, SentenceEncoder
from flowbert.encoders.template import TEMPLATES

PROMPTEOL = TEMPLATES["prompteol"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A decoder that was saved with a reading of its own."""
    folder = tmp_path_factory.mktemp("reading")
    encoder = SentenceEncoder(write_tiny(folder / "llama", "llama"))
    assert encoder.reading == Reading((3,), "mean", 128, "", "[SEP]")
    own = encoder.read(layers="first_last", pooling="zipf:a=0.01", sink_token="the")
    own.save(folder / "saved")
    return folder / "saved"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Reading((1, 3), "zipf", 128, "", "the")),
        ({"layers": 0, "max_length": 9}, Reading((0,), "zipf", 9, "", "the")),
        # A pooling brings the usual sink, and a template its pooling, too.
        ({"pooling": "mean"}, Reading((1, 3), "mean", 128, "", "[SEP]")),
        ({"pooling": "cls"}, Reading((1, 3), "cls", 128, "", "")),
        ({"template": "prompteol"}, Reading((1, 3), "last_token", 128, PROMPTEOL, "")),
        ({"template": "a {}"}, Reading((1, 3), "zipf", 128, "a {}", "[SEP]")),
        (
            {"template": "prompteol", "pooling": "max", "sink_token": "cat"},
            Reading((1, 3), "max", 128, PROMPTEOL, "cat"),
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


def test_an_unknown_entry_is_an_error(saved):
    with pytest.raises(TypeError, match="'layer'"):
        SentenceEncoder(saved).read(layer=1)
