"""Texts that name classes and functions, the package's and a user's own."""

import math
import re
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.errors import UserError
from flowbert.registry import Registry, import_path, imports_refused
from flowbert.spec import parse_spec, write_spec


class Shape:
    """What the registry of these tests holds."""


def make_registry() -> Registry[type[Shape]]:
    shapes: Registry[type[Shape]] = Registry("shape", base=Shape, given=("seed",))

    @shapes.register("circle")
    class Circle(Shape):
        size_parameter = "n"

        def __init__(
            self, seed: int = 0, n: int | None = None, r: float = 1.0, kind: str = "a"
        ) -> None:
            self.options = {"n": n, "r": r, "kind": kind}

    @shapes.register("big-square")
    class Square(Shape):
        def __init__(self, side: float) -> None:
            self.side = side

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
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a user's own module, not imported yet."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE.replace("NAME", __name__))
    monkeypatch.syspath_prepend(tmp_path)
    return name


def refused(call: Callable[[], Any], *parts: str) -> None:
    with pytest.raises(UserError) as caught:
        call()
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


WORDS = st.text("[]:=a1-+, \né", max_size=9) | st.sampled_from(["none", "True", "1e3"])
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
)


def unwritable(value: Any) -> bool:
    """Whether a word has a separator of lists and chains, or brackets that do not match."""
    if not isinstance(value, str):
        return False
    depths = [*accumulate({"[": 1, "]": -1}.get(letter, 0) for letter in value)]
    matched = not depths or (depths[-1] == 0 and min(depths) >= 0)
    return bool(re.search(r"[,+\s]", value)) or not matched


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.sampled_from([None, "a"]))
def test_a_text_is_read_as_it_was_written(
    options: dict[str, Any], size: str | None
) -> None:
    try:
        text = write_spec("big-square", options, size)
    except UserError:
        assert any(map(unwritable, options.values()))
        return
    _, number, read = parse_spec(text, ["big-square"], "shape")
    if size is not None and number is not None:
        read[size] = number
    assert read == options
    assert {name: type(read[name]) for name in read} == {
        name: type(options[name]) for name in options
    }


@settings(deadline=None)
@given(
    st.none() | st.integers(0, 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["a", "b-c", "x_1"]),
    st.integers(0, 9),
)
def test_the_text_of_what_was_made_makes_it_again(
    n: int | None, r: float, kind: str, seed: int
) -> None:
    made = CIRCLE(seed, n, r, kind)  # type: ignore[call-arg]
    text = SHAPES.write(CIRCLE, vars(made)["options"])
    again = SHAPES.make(text, seed=seed)
    assert vars(again) == vars(made)
    assert SHAPES.normalize(f" {text}") == text
    name, *options = text.split(":")
    assert SHAPES.normalize(":".join([name, *reversed(options)])) == text


def test_numpy_numbers_are_written_as_python_numbers() -> None:
    options = {"n": np.int64(3), "r": np.float32(0.1)}
    text = SHAPES.write(CIRCLE, options)
    assert SHAPES.parse(text)[1] == options
    assert text.startswith("circle-3:r=0.1000")


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, [1], (), "a b", "a+b", "a,b", "a]b", object()]
)
def test_values_that_the_grammar_has_no_text_for(value: Any) -> None:
    refused(lambda: SHAPES.write(CIRCLE, {"kind": value}), "kind: received")


def test_defaults_are_not_written() -> None:
    shapes: Registry[Any] = Registry("shape")
    kept = [1, 2]

    @shapes.register("listed")
    def listed(sizes: Any = kept, scale: Any = 1.0) -> None:
        """Nothing."""

    assert shapes.write(listed, {"sizes": [1, 2], "scale": 1}) == "listed"
    refused(lambda: shapes.write(listed, {"sizes": np.ones(3)}), "sizes: received")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("circel", ["shape: received 'circel'", "circle, big-square (did you mean 'c"]),
        ("circle:x=1", ["'x'", "n, r, kind"]),
        ("circle:seed=1", ["'seed'"]),
        ("circle-3:n=4", ["n twice"]),
        ("big-square-3:side=1", ["a number"]),
        ("big-square", ["expected the option side"]),
        ("no_such_package.Blob", ["cannot be imported (ModuleNotFoundError"]),
        ("collections.Conter", ["collections has no Conter", "Counter"]),
        ("collections.Counter", ["expected a class derived from "]),
    ],
)
def test_texts_that_name_nothing(text: str, parts: list[str]) -> None:
    refused(lambda: SHAPES.make(text), *parts)
    refused(
        lambda: SHAPES.parse(text, "methods"),
        *(x.replace("shape:", "methods:") for x in parts),
    )


def test_a_class_of_a_users_own_module(own: str) -> None:
    path = f"{own}.Blob"
    with imports_refused():
        refused(lambda: SHAPES.make(path), f"a name in {own}", "imports no code")
    assert own not in sys.modules
    made = SHAPES.make(f"{path}-7:r=0.5")
    assert made.options == {"n": 7, "r": 0.5, "kind": "a"}
    assert SHAPES.write(type(made), made.options) == f"{path}-7:r=0.5"
    with imports_refused():
        assert SHAPES.find(path) is type(made)
    refused(lambda: SHAPES.find(f"{own}.number"), "expected a class derived from")


def test_a_function_that_a_file_names_is_a_registered_one() -> None:
    calls: Registry[Any] = Registry("call")
    assert calls.find("os.path.join") is not None
    with imports_refused():
        refused(lambda: calls.find("os.path.join"), "call: received 'os.path.join'")


def test_a_text_in_a_text() -> None:
    inner = SHAPES.write(CIRCLE, {"n": 3, "r": 0.5})
    text = SHAPES.write(CIRCLE, {"kind": inner})
    assert text == "circle:kind=[circle-3:r=0.5]"
    assert SHAPES.make(text).options["kind"] == inner


def test_a_module_with_a_mistake(own: str, tmp_path: Path) -> None:
    (tmp_path / f"{own}.py").write_text("1 / 0")
    refused(
        lambda: SHAPES.find(f"{own}.Blob"),
        f"{own}, which cannot be imported (ZeroDivision",
    )


def test_a_name_belongs_to_one_object() -> None:
    shapes = make_registry()

    def cell() -> type[Shape]:
        class Circle(Shape):
            pass

        return Circle

    with pytest.raises(
        ValueError, match=r"'circle' for .*cell.*; expected another, as .*make_reg"
    ):
        shapes.register("circle")(cell())
    assert shapes.find("circle").__qualname__.startswith("make_registry")
    first, second = cell(), cell()
    shapes.register("ring")(first)
    # A cell that is run again defines its own class anew.
    assert shapes.register("ring")(second) is second
    assert shapes.find("ring") is second
    assert shapes.name_of(first) == "ring"
    with pytest.raises(ValueError, match="expected its name 'ring'"):
        shapes.register("hoop")(second)
    assert shapes.names() == [*shapes] == ["circle", "big-square", "ring"]


@pytest.mark.parametrize("name", ["", "a:b", "a-8", "a.b", "3d", "a b", "a=b", "a+b"])
def test_names_that_a_text_cannot_hold(name: str) -> None:
    with pytest.raises(ValueError, match="received the name"):
        make_registry().register(name)(type("New", (Shape,), {}))


def test_objects_of_another_kind() -> None:
    for wrong in (int, 3, Shape()):
        with pytest.raises(TypeError, match="expected a class derived from"):
            make_registry().register("new")(wrong)  # type: ignore[arg-type]
    assert import_path(Shape) == f"{__name__}.Shape"
