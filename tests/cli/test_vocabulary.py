"""One vocabulary of options: a word has one type, default and help in all commands, and its old spelling says so."""

import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from jsonargparse import ArgumentParser

from flowbert.cli import curve, encode, evaluate, reproduce
from flowbert.cli.main import main
from flowbert.cli.options import OPTIONS, SEVERAL
from flowbert.cli.parser import RENAMED, name_option

TOOLS: dict[str, ArgumentParser] = {
    module.__name__.split(".")[-1]: module.make_parser() for module in (curve, encode, evaluate, reproduce)
}
TRAINING = ("fit --method flow", "fit --method simcse", "fit --method sbert", "fit --method mlm", "test", "predict")
# Where a word's default or help is another one, and why.
EXCEPTIONS = {
    "output": "each command writes another file",
    "encoder.path": "a published row has an encoder of its own",
    "method": "fit: what is trained; encode: which of the maps of a run",
}


class StopError(Exception):
    """Raised in place of running a command, with its parser."""


def parser_of(command: str, monkeypatch: pytest.MonkeyPatch) -> ArgumentParser:
    """The parser of a command that trains, caught when it is about to parse its options."""
    if command in TOOLS:
        return TOOLS[command]
    found: list[ArgumentParser] = []

    def parse_args(self: ArgumentParser, *_: Any, **__: Any) -> None:
        found.append(self)
        raise StopError

    monkeypatch.setattr(ArgumentParser, "parse_args", parse_args)
    with pytest.raises(StopError):
        main(command.split())
    monkeypatch.undo()
    (parser,) = found
    return parser


def described(parser: ArgumentParser) -> Iterator[tuple[str, tuple[Any, Any, str]]]:
    """Type without lists, default and help of each option; jsonargparse tells them in no public way."""
    names = set(parser.get_defaults(skip_validation=True).keys())
    for action in parser._actions:
        if action.dest in names and action.dest != "config":
            kind = getattr(action, "_typehint", None)
            help_text = (action.help or "").removesuffix(SEVERAL)
            yield action.dest, (_without_lists(kind), action.default, help_text)


def _without_lists(kind: Any) -> Any:
    """Several values where another command takes one mean the same."""
    alternatives = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    return frozenset(each for each in alternatives if typing.get_origin(each) is not list)


@pytest.fixture(scope="module")
def vocabulary() -> dict[str, dict[str, tuple[Any, Any, str]]]:
    """Option -> command -> type, default, help."""
    found: dict[str, dict[str, tuple[Any, Any, str]]] = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        for command in (*TOOLS, *TRAINING):
            for name, description in described(parser_of(command, monkeypatch)):
                found.setdefault(name, {})[command] = description
    return found


def test_a_word_means_the_same_everywhere(vocabulary: dict[str, dict[str, tuple[Any, Any, str]]]) -> None:
    differing = {}
    for name, by_command in vocabulary.items():
        shared = name in OPTIONS or len({command in TOOLS for command in by_command}) > 1
        if shared and name not in EXCEPTIONS and len(set(map(str, by_command.values()))) > 1:
            differing[name] = by_command
    assert not differing


def test_nothing_is_spelled_two_ways(vocabulary: dict[str, dict[str, tuple[Any, Any, str]]]) -> None:
    top = {name for name in vocabulary if "." not in name}
    twice = [name for name in vocabulary if "." in name and name.split(".")[-1] in top - {"seed"}]
    assert not [name for name in twice if name.split(".")[0] in ("data", "encoder")]
    assert not set(RENAMED) & set(vocabulary)


def test_old_spellings_lead_to_options(vocabulary: dict[str, dict[str, tuple[Any, Any, str]]]) -> None:
    of_a_class = {name for name in RENAMED.values() if name.startswith("model.loss.")}
    assert set(RENAMED.values()) - of_a_class <= set(vocabulary)


def test_exceptions_are_needed(vocabulary: dict[str, dict[str, tuple[Any, Any, str]]]) -> None:
    assert set(EXCEPTIONS) <= {name for name, by in vocabulary.items() if len(set(map(str, by.values()))) > 1}


@pytest.mark.parametrize("command", [*TOOLS, *TRAINING])
def test_every_argument_finds_its_option(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = list(parser_of(command, monkeypatch).get_defaults(skip_validation=True).keys())
    monkeypatch.setattr("flowbert.cli.parser._options_in_use", types.SimpleNamespace(get=lambda: tuple(names)))
    assert name_option("nothing_like_it: received 1") == "nothing_like_it: received 1"
    assert name_option("corpus.txt:3: no column 'x'") == "corpus.txt:3: no column 'x'"
    for name in names:
        last = name.split(".")[-1]
        same = [other for other in names if other.split(".")[-1] == last]
        groups = [other for other in same if other.split(".")[0] in ("model", "data", "whitening", "encoder")]
        if name == last or len(same) == 1 or groups == [name]:
            expected = last if last in names else name
            assert name_option(f"{last}: received 1; allowed: 2") == f"--{expected}: received 1; allowed: 2"
