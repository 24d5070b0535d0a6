"""Messages for users."""

import pytest

from flowbert.errors import UserError, choices, nearest


def test_a_message_is_one_line() -> None:
    assert (
        str(UserError("a.json: row 1:\n  no\tvalue\r\n")) == "a.json: row 1: no value"
    )
    with pytest.raises(ValueError, match="seed"):
        raise UserError("seed: received -1; expected at least 0")


def test_similar_names_are_suggested() -> None:
    allowed = ["whitening", "zca", "flow"]
    assert nearest(allowed, "whitenning") == " (did you mean 'whitening'?)"
    assert nearest(allowed, "xyz") == ""
    assert choices(iter(allowed), "flo") == (
        "expected whitening, zca, flow (did you mean 'flow'?)"
    )
