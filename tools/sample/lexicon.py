"""Words of the built-in sample: concepts with their synonyms, in falling order of frequency."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Concept:
    """A meaning with its words.

    Args:
        name: Identity; the first word.
        forms: Synonyms, the most frequent first.
        group: Category, dimension or frame; concepts of one group are near in meaning.
    """

    name: str
    forms: tuple[str, ...]
    group: str


@dataclass(frozen=True)
class Lexicon:
    """All concepts: groups of entities, attributes and actions, each in falling order of frequency.

    Args:
        entities: Category -> concepts.
        hypernyms: Category -> the concept above all of its concepts.
        attributes: Dimension -> concepts, of which a thing has at most one.
        describes: Category -> dimensions it may have.
        actions: Frame -> concepts.
        frames: Frame -> (agent categories, patient categories).
        places: Place adjuncts.
        times: Time adjuncts.
        manners: Manner adjuncts.
    """

    entities: Mapping[str, tuple[Concept, ...]]
    hypernyms: Mapping[str, Concept]
    attributes: Mapping[str, tuple[Concept, ...]]
    describes: Mapping[str, tuple[str, ...]]
    actions: Mapping[str, tuple[Concept, ...]]
    frames: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    places: tuple[Concept, ...]
    times: tuple[Concept, ...]
    manners: tuple[Concept, ...]


def _concepts(entries: list[str], group: str) -> tuple[Concept, ...]:
    words = (tuple(entry.split("|")) for entry in entries)
    return tuple(Concept(forms[0], forms, group) for forms in words)


@lru_cache(maxsize=1)
def _words() -> dict[str, Any]:
    words: dict[str, Any] = json.loads(
        (Path(__file__).parent / "lexicon.json").read_text(encoding="utf-8")
    )
    return words


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """The lexicon of lexicon.json, where the synonyms of a concept are separated by ``|``."""
    words = _words()
    attributes, actions = words["attributes"], words["actions"]
    return Lexicon(
        entities={
            group: _concepts(entries, group)
            for group, entries in words["entities"].items()
        },
        hypernyms={
            group: _concepts([entry], group)[0]
            for group, entry in words["hypernyms"].items()
        },
        attributes={
            name: _concepts(row["values"], name) for name, row in attributes.items()
        },
        describes={
            group: tuple(n for n, row in attributes.items() if group in row["of"])
            for group in words["entities"]
        },
        actions={name: _concepts(row["verbs"], name) for name, row in actions.items()},
        frames={
            name: (tuple(row["agents"]), tuple(row["patients"]))
            for name, row in actions.items()
        },
        places=_concepts(words["places"], "place"),
        times=_concepts(words["times"], "time"),
        manners=_concepts(words["manners"], "manner"),
    )


@dataclass(frozen=True)
class VerbForms:
    """Forms of a verb, particles included: base, ``-ing``, past, participle."""

    base: str
    ing: str
    past: str
    participle: str


@lru_cache(maxsize=1024)
def inflect(verb: str) -> VerbForms:
    """Inflect a verb by the English rules and a table of exceptions.

    Example:
        >>> inflect("carry").past, inflect("lie down").ing, inflect("chase").participle
        ('carried', 'lying down', 'chased')
    """
    base, _, particle = verb.partition(" ")
    irregular = _words()["irregular"]
    if base in irregular:
        forms = tuple(irregular[base])
    elif base.endswith("e"):
        forms = (base[:-1] + "ing", base + "d", base + "d")
    elif base.endswith("y") and base[-2] not in "aeiou":
        forms = (base + "ing", base[:-1] + "ied", base[:-1] + "ied")
    else:
        forms = (base + "ing", base + "ed", base + "ed")
    ing, past, participle = (f"{form} {particle}".rstrip() for form in forms)
    return VerbForms(verb, ing, past, participle)
