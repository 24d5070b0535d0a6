"""What ``import flowbert`` gives."""

import inspect
from importlib.metadata import metadata

import pytest

import flowbert


@pytest.mark.parametrize("name", flowbert.__all__)
def test_every_name_is_documented(name: str) -> None:
    public = getattr(flowbert, name)
    assert public.__name__ == name
    document = inspect.getdoc(public) or ""
    summary = document.splitlines()[0]
    assert summary.endswith(".")
    parameters = [
        each for each in inspect.signature(public).parameters if each != "self"
    ]
    section = document.partition("Args:")[2]
    missing = [each for each in parameters if f"{each}: " not in section]
    assert not missing


def test_names_are_attributes_and_others_are_not() -> None:
    assert set(flowbert.__all__) <= {*dir(flowbert), *flowbert._HOMES}
    with pytest.raises(AttributeError, match="no attribute 'Whitner'"):
        _ = flowbert.Whitner


def test_version() -> None:
    assert metadata("flowbert")["Version"] == flowbert.__version__
