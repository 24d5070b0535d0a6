"""Texts that name classes and functions, registered and custom ones."""

import math
import re
import sys
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.errors import UserError
from flowbert.registry import Registry, imports_refused
from helpers import refused


class Shape:
    """What the registry of these tests holds."""


def make_registry():
    shapes: Registry[type[Shape]] = Registry("shape", base=Shape, given=("seed",))

    @shapes.register("circle")
    class Circle(Shape):
        size_parameter = "n"

        def __init__(
            self, seed: int = 0, n: int | None = None, r: float = 1.0, kind: str = "a"
        ):
            self.options = {"n": n, "r": r, "kind": kind}

    @shapes.register("big-square")
    class Square(Shape):
        def __init__(self, side: float):
            self.side = side

    @shapes.register("free")
    class Free(Shape):
        def __init__(self, a: Any = ..., b: Any = ..., c: Any = ...):
            pass

    @shapes.register("free-size")
    class Sized(Free):
        size_parameter = "a"

    return shapes


SHAPES = make_registry()
CIRCLE = SHAPES.find("circle")

MODULE = """
import sys
Shape = sys.modules["NAME"].Shape

class Blob(Shape):
    size_parameter = "n"
    def __init__(self, seed=0, n=None, r=1.0, kind="a"):
        self.options = {"n": n, "r": r, "kind": kind}

number = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Name of a custom module, not imported yet."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE.replace("NAME", __name__))
    monkeypatch.syspath_prepend(tmp_path)
    return name


WORDS = st.text("[]:=a1-+, \né", max_size=9) | st.sampled_from(["none", "True", "1e3"])
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
)


def unwritable(value):
    """Whether a word has a separator of lists, or brackets that do not match."""
    if not isinstance(value, str):
        return False
    depths = [*accumulate({"[": 1, "]": -1}.get(letter, 0) for letter in value)]
    matched = not depths or (depths[-1] == 0 and min(depths) >= 0)
    return bool(re.search(r"[,\s]", value)) or not matched


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.sampled_from(["", "-size"]))
def test_a_text_is_read_as_it_was_written(options, size):
    try:
        text = SHAPES.write(SHAPES.find(f"free{size}"), options)
    except UserError:
        assert any(map(unwritable, options.values()))
        return
    _, read = SHAPES.parse(text)
    assert read == options
    assert {name: type(read[name]) for name in read} == {
        name: type(options[name]) for name in options
    }


@settings(deadline=None, max_examples=50)
@given(
    st.none() | st.integers(0, 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["a", "b-c", "x_1", "circle-3:r=0.5"]),
)
def test_a_canonical_text_makes_the_same_object(n, r, kind):
    options = {"n": n, "r": r, "kind": kind}
    text = SHAPES.write(CIRCLE, options)
    assert SHAPES.make(text, seed=1).options == options
    assert SHAPES.write(*SHAPES.parse(f" {text}")) == text
    if ":" not in kind:
        name, *written = text.split(":")
        assert SHAPES.write(*SHAPES.parse(":".join([name, *reversed(written)]))) == text


def test_defaults_and_numbers_of_numpy():
    assert SHAPES.write(CIRCLE, {"n": np.int64(3), "r": 1}) == "circle-3"
    text = SHAPES.write(CIRCLE, {"r": np.float32(0.1)})
    assert SHAPES.parse(text)[1] == {"r": np.float32(0.1)}


@pytest.mark.parametrize("value", [math.nan, math.inf, [1], np.ones(3), "a b", "a]b"])
def test_values_that_the_grammar_cannot_express(value):
    refused("kind: received", SHAPES.write, CIRCLE, {"kind": value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("circel", r"'circel'; .*circle, big-square, .* \(did you mean 'c"),
        ("circle:x=1", "'x'.*n, r, kind"),
        ("circle:seed=1", "'seed'"),
        ("circle-3:n=4", "circle without the number"),
        ("big-square-3:side=1", "big-square without"),
        ("big-square", "expected the option side"),
        ("no_such_package.Blob", r"cannot be imported \(ModuleNotFoundError"),
        ("collections.Conter", "collections has no Conter.*Counter"),
        ("collections.Counter", "expected a class derived from "),
    ],
)
def test_texts_that_name_nothing(text, message):
    refused(f"^shape: .*{message}", SHAPES.make, text)
    refused(f"^methods: .*{message}", SHAPES.parse, text, "methods")


def test_a_class_of_a_custom_module(own, tmp_path, monkeypatch):
    path = f"{own}.Blob"
    with imports_refused():
        refused(f"needs the module {own}.*imports no code", SHAPES.make, path)
    assert own not in sys.modules
    made = SHAPES.make(f"{path}-7:r=0.5")
    assert made.options == {"n": 7, "r": 0.5, "kind": "a"}
    assert SHAPES.write(type(made), made.options) == f"{path}-7:r=0.5"
    with imports_refused():
        assert SHAPES.find(path) is type(made)
    refused("expected a class derived from", SHAPES.find, f"{own}.number")
    monkeypatch.delitem(sys.modules, own)
    (tmp_path / f"{own}.py").write_text("1 / 0")
    message = rf"the module {own}, which cannot be imported \(ZeroDivision"
    refused(message, SHAPES.find, path)


def test_a_function_that_a_file_names_is_a_registered_one():
    calls: Registry[Any] = Registry("call")
    assert calls.find("os.path.join") is not None
    with imports_refused():
        refused("call: received 'os.path.join'", calls.find, "os.path.join")


def test_an_object_that_is_defined_again_replaces_the_first():
    shapes = make_registry()

    def run_cell():
        class Circle(Shape):
            pass

        return Circle

    first, second = run_cell(), run_cell()
    shapes.register("ring")(first)
    # A cell that is run again defines its own class anew.
    assert shapes.register("ring")(second) is shapes.find("ring") is second
    assert shapes.name_of(first) == "ring"
    assert [*shapes][-1] == "ring"
