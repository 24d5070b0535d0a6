"""What ``import flowbert`` gives: few names, each with an example that is run, and nothing heavy before it is used."""

import inspect
import subprocess
import sys

import pytest

import flowbert


@pytest.mark.parametrize("name", [name for name in flowbert.__all__ if name != "__version__"])
def test_every_name_has_an_example(name: str) -> None:
    shown = getattr(flowbert, name)
    assert shown.__name__ == name
    assert ">>> " in (inspect.getdoc(shown) or "")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Whitner'"):
        flowbert.Whitner  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import flowbert", "torch"),
        ("from flowbert.methods import parse_methods", "pytorch_lightning"),
        ("from flowbert.estimators import Whitening", "transformers"),
    ],
)
def test_heavy_libraries_wait_until_they_are_needed(statement: str, heavy: str) -> None:
    code = f"import sys; {statement}; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
