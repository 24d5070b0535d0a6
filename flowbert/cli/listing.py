"""The list of options and names that a line is looked up in: ``python -m flowbert.cli.listing``.

A test compares the file with what the parser would write now.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from jsonargparse._actions import _ActionConfigLoad

from flowbert.cli.options import TRAINED
from flowbert.cli.parser import (
    COMMANDS,
    POSITIONAL,
    Parser,
    load,
    make_parser,
    summary,
)
from flowbert.encoders.layers import LAYER_NAMES, SIZES
from flowbert.encoders.pooling import POOLINGS
from flowbert.maps import MAPS
from flowbert.methods import METHODS

FILE = Path(__file__).with_name("options.json")


def list_options() -> dict[str, Any]:
    """What ``options.json`` holds.

    Returns:
        ``commands``: for each what it does, its positional argument, and its options: ``all``, and
        further ones of ``methods``, or the command that has the same. ``flags``: options without
        a value. ``groups``: those of which a file may hold the options. ``classes``: options that
        may hold a class, with options of its own. ``names``: what values may be, with the options
        of each.
    """
    commands: dict[str, Any] = {}
    actions: list[argparse.Action] = []
    for command, source in COMMANDS.items():
        function = load(source)
        methods = METHODS if command in TRAINED else ()
        parsers = {name: make_parser(command, function, name) for name in methods}
        common = make_parser(command, function, "")
        options = {
            "all": _names(common),
            "methods": {
                method: [name for name in _names(parser) if name not in _names(common)]
                for method, parser in parsers.items()
            },
        }
        equal = [name for name, each in commands.items() if each["options"] == options]
        commands[command] = {
            "summary": summary(function),
            "positional": POSITIONAL.get(command),
            "options": equal[0] if equal else options,
        }
        actions += [
            each for parser in (common, *parsers.values()) for each in parser._actions
        ]
    flags = [each.dest for each in actions if each.nargs == 0]
    groups = [each.dest for each in actions if isinstance(each, _ActionConfigLoad)]
    described = [each.dest for each in actions if each.dest.endswith(".help")]
    return {
        "commands": commands,
        "flags": sorted({*flags, "print_config"}),
        "groups": sorted({*groups}),
        "classes": sorted({name.removesuffix(".help") for name in described}),
        "names": {
            "maps": {name: list(MAPS.options(MAPS.find(name))) for name in MAPS},
            "poolings": {
                name: list(POOLINGS.options(POOLINGS.find(name))) for name in POOLINGS
            },
            "layers": dict.fromkeys([*LAYER_NAMES, *SIZES], ()),
            "trainings": dict.fromkeys(METHODS, ()),
        },
    }


def _names(parser: Parser) -> list[str]:
    """Options; those that describe a class, and files of a group, are jsonargparse's own."""
    options = [each for each in parser._actions if each.option_strings]
    return [
        each.dest
        for each in options
        if not each.dest.endswith(".help") and not isinstance(each, _ActionConfigLoad)
    ]


def to_text(listed: dict[str, Any]) -> str:
    """The text of the file."""
    return json.dumps(listed, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(to_text(list_options()), encoding="utf-8")
