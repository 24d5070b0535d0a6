"""What ``import flowbert`` gives."""

import inspect
import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import flowbert
import flowbert.options
from flowbert.extras.export import SentenceTransformers


@pytest.mark.parametrize("name", flowbert.__all__)
def test_every_name_is_documented(name):
    public = getattr(flowbert, name)
    assert public.__name__ == name
    document = inspect.getdoc(public) or ""
    summary = document.splitlines()[0]
    assert summary.endswith(".")
    parameters = [
        each for each in inspect.signature(public).parameters if each != "self"
    ]
    section = document.partition("Args:")[2] + documented_elsewhere(document)
    missing = [each for each in parameters if f"{each}: " not in section]
    assert not missing


def documented_elsewhere(document):
    """Arguments of the classes of options that a docstring names, and of their bases."""
    names = re.findall(r":class:`(?:[\w.]*\.)?(\w+Options)`", document)
    classes = [getattr(flowbert.options, name) for name in names]
    bases = [base for each in classes for base in each.__mro__]
    return "".join(inspect.getdoc(base) or "" for base in bases)


def test_names_are_attributes_and_others_are_not():
    assert set(flowbert.__all__) <= {*dir(flowbert), *flowbert._HOMES}
    with pytest.raises(AttributeError, match="no attribute 'Whitner'"):
        _ = flowbert.Whitner


def test_version():
    assert metadata("flowbert")["Version"] == flowbert.__version__


ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RANGES = [
    Requirement(line)
    for lines in (
        PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"].values(),
    )
    for line in lines
]


def pins(file):
    lines = (ROOT / file).read_text().splitlines()
    stripped = [line.partition("#")[0].strip() for line in lines]
    return [Requirement(line) for line in stripped if line and line[0] != "-"]


def version(pin):
    (specifier,) = pin.specifier
    assert specifier.operator == "==", pin
    return specifier.version


def test_the_oldest_set_is_the_lower_bounds_line_by_line():
    bounds = [
        (each.name, part.version)
        for each in RANGES
        for part in each.specifier
        if part.operator == ">="
    ]
    oldest = [(pin.name, version(pin)) for pin in pins("constraints-oldest.txt")]
    assert oldest == bounds


@pytest.mark.parametrize("which", ["middle", "newest"])
def test_the_set_has_a_line_for_each_range(which):
    names = list(dict.fromkeys(pin.name for pin in pins(f"constraints-{which}.txt")))
    assert names == [each.name for each in RANGES]


@pytest.mark.parametrize(
    "file",
    [
        "requirements.txt",
        "requirements-dev.txt",
        "requirements-bench.txt",
        "constraints-middle.txt",
        "constraints-newest.txt",
    ],
)
def test_pins_lie_in_the_ranges(file):
    ranges = {each.name: each.specifier for each in RANGES}
    for pin in pins(file):
        assert version(pin) in ranges.get(pin.name, SpecifierSet()), pin


def test_the_pins_are_what_the_command_export_of_the_readme_needs():
    needed = {name.replace("_", "-") for name in SentenceTransformers.packages}
    assert needed <= {pin.name for pin in pins("requirements.txt")}
