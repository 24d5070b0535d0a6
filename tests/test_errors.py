"""Messages for users."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

from flowbert import compare, report
from flowbert.errors import FlowbertWarning, UserError, choices, nearest


def test_a_message_is_one_line():
    assert (
        str(UserError("a.json: row 1:\n  no\tvalue\r\n")) == "a.json: row 1: no value"
    )
    with pytest.raises(ValueError, match="seed: received -1; expected at least 0"):
        raise UserError(argument="seed", received=-1, expected="at least 0")


@pytest.mark.parametrize(
    ("received", "shown"),
    [
        ("a b", "'a b'"),
        (np.float32(0.5), "0.5"),
        (Path("a"), "a"),
        (None, "None"),
        ("a" * 999, f"'{'a' * 199} ..."),
    ],
)
def test_what_is_received_is_readable(received, shown):
    error = UserError(argument="name", received=received, expected="another")
    assert str(error) == f"name: received {shown}; expected another"


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        (compare, {"method": "raw"}, r"compare\(\) .*'method' \(did you mean 'methods"),
        (report, {}, r"report\(\) missing .*'runs'"),
    ],
)
def test_a_wrong_argument_names_function_and_nearest(call, given, message):
    with pytest.raises(TypeError, match=f"^{message}"):
        call(**given)


ERRORS = [
    UserError("a.json: no such file"),
    UserError("is fitted in closed form", argument="method"),
    UserError(argument="seed", received=lambda: 0, expected="a number"),
    FlowbertWarning("something"),
]


@pytest.mark.parametrize("error", ERRORS, ids=["text", "argument", "value", "warning"])
def test_errors_pass_between_processes(error):
    for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)


def test_similar_names_are_suggested():
    allowed = ["whitening", "zca", "flow"]
    assert nearest(allowed, "whitenning") == " (did you mean 'whitening'?)"
    assert nearest(allowed, "xyz") == ""
    assert choices(iter(allowed), "flo") == (
        "whitening, zca, flow (did you mean 'flow'?)"
    )
