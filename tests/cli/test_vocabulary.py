"""One vocabulary of options: a word has one type, default and help in all commands, and its old spelling says so."""

import re
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.parsers import PARSERS
from jsonargparse import ArgumentParser

from flowbert.cli.options import OPTIONS, SEVERAL
from flowbert.cli.parser import QUIET_HELP, RENAMED, name_option

Vocabulary = dict[str, dict[str, tuple[Any, Any, str]]]
# Where a word's default or help is another one, and why.
EXCEPTIONS = {
    "corpus": "advise: the user's own sentences, of no task",
    "methods": "analyze: with the flow",
    "output": "each command writes another file",
    "encoder.path": "a published row has an encoder of its own",
    "method": "fit: what is trained; encode: which of the maps of a run",
    "tasks": "mteb: MTEB's own names",
}


def names_of(parser: ArgumentParser) -> list[str]:
    return list(parser.get_defaults(skip_validation=True).keys())


def described(parser: ArgumentParser) -> Iterator[tuple[str, tuple[Any, Any, str]]]:
    """Type without lists, default and help of each option; jsonargparse tells them in no public way."""
    names = names_of(parser)
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
def vocabulary() -> Vocabulary:
    """Option -> command -> type, default, help."""
    found: Vocabulary = {}
    for command, parser in PARSERS.items():
        for name, description in described(parser):
            found.setdefault(name, {})[command] = description
    return found


def test_a_word_means_the_same_everywhere(vocabulary: Vocabulary) -> None:
    differing = {}
    for name, by_command in vocabulary.items():
        # The groups of the training are those of one method each.
        shared = "." not in name or name in OPTIONS
        if shared and name not in EXCEPTIONS and len(set(map(str, by_command.values()))) > 1:
            differing[name] = by_command
    assert not differing


def test_every_command_can_be_quiet(vocabulary: Vocabulary) -> None:
    assert vocabulary["quiet"].keys() == PARSERS.keys()
    for parser in PARSERS.values():
        assert len(re.findall(rf"^ +--quiet +{re.escape(QUIET_HELP)}", parser.format_help(), re.MULTILINE)) == 1


def test_nothing_is_spelled_two_ways(vocabulary: Vocabulary) -> None:
    inside = {name for name in vocabulary if name.split(".")[0] in ("data", "encoder")}
    assert not [name for name in inside if name.split(".")[-1] in vocabulary]
    assert not set(RENAMED) & set(vocabulary)


def test_old_spellings_lead_to_options() -> None:
    names = {name.replace(".init_args.", ".") for parser in PARSERS.values() for name in names_of(parser)}
    assert set(RENAMED.values()) <= names


def test_exceptions_are_needed(vocabulary: Vocabulary) -> None:
    assert set(EXCEPTIONS) <= {name for name, by in vocabulary.items() if len(set(map(str, by.values()))) > 1}


@pytest.mark.parametrize("command", PARSERS)
def test_every_argument_finds_its_option(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = names_of(PARSERS[command])
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
