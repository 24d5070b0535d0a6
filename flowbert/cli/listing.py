"""The list of options and names that a line is looked up in: ``python -m flowbert.cli.listing``.

A test compares the file with what the parser would write now.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from jsonargparse._actions import _ActionConfigLoad

from flowbert.analysis.measure import MEASURES
from flowbert.cli.lookup import METHOD_COMMANDS
from flowbert.cli.parser import (
    COMMANDS,
    POSITIONAL,
    Parser,
    load,
    make_parser,
    summary,
)
from flowbert.data.sts import DATA_SETS, SAMPLE_TASK
from flowbert.encoders.layers import LAYER_NAMES, SIZES
from flowbert.encoders.pooling import POOLINGS
from flowbert.exports.format import EXPORT_FORMATS
from flowbert.maps import MAPS
from flowbert.methods import METHODS
from flowbert.methods.heads import HEADS
from flowbert.registry import Registry
from flowbert.tasks import TASKS

FILE = Path(__file__).with_name("options.json")


def list_options() -> dict[str, Any]:
    """What ``options.json`` holds.

    Returns:
        ``commands``: for each what it does, its positional argument, and its options: ``all``, and
        further ones of ``methods``, or the command that has the same. ``flags``: options without
        a value. ``groups``: those of which a file may hold the options. ``classes``: options that
        may hold a class, with options of its own. ``names``: what values may be, see
        :class:`flowbert.cli.names.Names`.
    """
    commands: dict[str, Any] = {}
    actions: list[argparse.Action] = []
    for command, source in COMMANDS.items():
        function = load(source)
        methods = METHODS if command in METHOD_COMMANDS else ()
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
        "names": {"known": _known_names(), "kinds": _kinds()},
    }


def _registries() -> dict[str, Registry[Any]]:
    """Registries by the options whose texts they read."""
    registries: dict[str, Registry[Any]] = {
        "encoder.pooling": POOLINGS,
        "measures": MEASURES,
        "format": EXPORT_FORMATS,
    }
    for method in METHODS.values():
        for name, registry in method.registries.items():
            registries[f"model.{name}"] = registry
    return registries


def _kinds() -> dict[str, str]:
    return {option: registry.kind for option, registry in _registries().items()}


def _known_names() -> dict[str, dict[str, Any]]:
    known = {
        registry.kind: {
            name: _described(registry, name)
            for name in sorted(registry)  # whatever was imported first
            # A module of a user's own may have registered further ones in this process.
            if registry.find(name).__module__.startswith("flowbert.")
        }
        for registry in (MAPS, *_registries().values())
    }
    plain: dict[str, Any] = {"options": [], "number": None}
    known["measure"]["all"] = plain
    known["head"] = dict.fromkeys(HEADS, plain)
    known["training"] = dict.fromkeys(METHODS, plain)
    known["layer"] = dict.fromkeys([*LAYER_NAMES, *SIZES], plain)
    known["task"] = dict.fromkeys([*DATA_SETS, SAMPLE_TASK], plain)
    kinds = [name for name in sorted(TASKS) if "columns" in TASKS.find(name).options]
    known["scored"] = dict.fromkeys(kinds, plain)
    return known


def _described(registry: Registry[Any], name: str) -> dict[str, Any]:
    found = registry.find(name)
    number = getattr(found, "size_parameter", None)
    return {"options": list(registry.options(found)), "number": number}


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
