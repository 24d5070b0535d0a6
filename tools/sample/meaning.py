"""Meanings of the built-in sample: their concepts, similarity, and edits."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar

from tools.sample.lexicon import Concept, lexicon

T = TypeVar("T")

SLOT_WEIGHTS: Mapping[str, float] = {
    "action": 3.0,
    "agent": 3.0,
    "patient": 3.0,
    "place": 1.0,
    "time": 0.5,
    "manner": 0.5,
}
SAME_GROUP = 0.4  # similarity of two different concepts of one group
ATTRIBUTE_SHARE = (
    0.25  # of a thing's similarity, where at least one of the two has an attribute
)
NEGATION_FACTOR = (
    0.5  # on the score, where one of the two is negated and the other is not
)


@dataclass(frozen=True)
class Thing:
    """Somebody or something, with at most one attribute."""

    kind: Concept
    attribute: Concept | None = None


@dataclass(frozen=True)
class Event:
    """Meaning of a sentence."""

    agent: Thing
    action: Concept
    patient: Thing | None = None
    place: Concept | None = None
    time: Concept | None = None
    manner: Concept | None = None
    negated: bool = False


def similarity_score(a: Event, b: Event) -> float:
    r"""Gold score :math:`5 n \sum_s w_s\, sim_s / \sum_s w_s` of two meanings, to 2 decimals.

    The sums go over the slots s (``SLOT_WEIGHTS``) that at least one of the two fills;
    :math:`sim_s` is 0 where only one does. Two concepts have similarity 1 if they are the same,
    ``SAME_GROUP`` if they are of one group, else 0. For a thing with an attribute on at least one
    side, ``ATTRIBUTE_SHARE`` of the similarity is whether the attributes are equal. n is
    ``NEGATION_FACTOR`` where exactly one of the two is negated, else 1.
    """
    total = reached = 0.0
    for slot, weight in SLOT_WEIGHTS.items():
        left, right = getattr(a, slot), getattr(b, slot)
        if left is None and right is None:
            continue
        total += weight
        if left is not None and right is not None:
            reached += weight * (
                _thing_similarity if isinstance(left, Thing) else _concept_similarity
            )(left, right)
    factor = NEGATION_FACTOR if a.negated != b.negated else 1.0
    return round(5 * factor * reached / total, 2)


def _concept_similarity(a: Concept, b: Concept) -> float:
    return 1.0 if a == b else SAME_GROUP if a.group == b.group else 0.0


def _thing_similarity(a: Thing, b: Thing) -> float:
    kinds = _concept_similarity(a.kind, b.kind)
    if a.attribute is None and b.attribute is None:
        return kinds
    return (1 - ATTRIBUTE_SHARE) * kinds + ATTRIBUTE_SHARE * (
        a.attribute == b.attribute
    )


@lru_cache(maxsize=1024)
def _zipf(count: int) -> tuple[float, ...]:
    return tuple(accumulate(1 / (rank + 1) for rank in range(count)))


def zipf_choice(rng: random.Random, items: Sequence[T]) -> T:
    """Draw the item of rank r (from 1) with probability proportional to 1/r."""
    return rng.choices(items, cum_weights=_zipf(len(items)))[0]


def _other(rng: random.Random, items: Sequence[Concept], old: Concept) -> Concept:
    return zipf_choice(rng, [item for item in items if item != old])


def _adjuncts() -> tuple[tuple[str, tuple[Concept, ...]], ...]:
    words = lexicon()
    return ("place", words.places), ("time", words.times), ("manner", words.manners)


def _attribute(rng: random.Random, category: str) -> Concept:
    words = lexicon()
    return zipf_choice(rng, words.attributes[rng.choice(words.describes[category])])


def _thing(rng: random.Random, categories: Sequence[str]) -> Thing:
    category = rng.choice(categories)
    kind = zipf_choice(rng, lexicon().entities[category])
    return Thing(kind, _attribute(rng, category) if rng.random() < 0.4 else None)


def random_event(rng: random.Random) -> Event:
    """Draw a meaning; its concepts follow Zipf's law within their groups."""
    words = lexicon()
    frame = rng.choice(tuple(words.frames))
    agents, patients = words.frames[frame]
    return Event(
        agent=_thing(rng, agents),
        action=zipf_choice(rng, words.actions[frame]),
        patient=_thing(rng, patients) if patients else None,
        place=zipf_choice(rng, words.places) if rng.random() < 0.5 else None,
        time=zipf_choice(rng, words.times) if rng.random() < 0.25 else None,
        manner=zipf_choice(rng, words.manners) if rng.random() < 0.25 else None,
        negated=rng.random() < 0.1,
    )


Edit = Callable[[random.Random, Event], Event]


def change_agent(rng: random.Random, event: Event) -> Event:
    """Another agent of the same category."""
    kind = _other(rng, lexicon().entities[event.agent.kind.group], event.agent.kind)
    return replace(event, agent=replace(event.agent, kind=kind))


def change_patient(rng: random.Random, event: Event) -> Event:
    """Another patient that the action allows; the agent changes where there is no patient."""
    if event.patient is None:
        return change_agent(rng, event)
    return replace(event, patient=_thing(rng, lexicon().frames[event.action.group][1]))


def change_action(rng: random.Random, event: Event) -> Event:
    """Another action of the same frame."""
    return replace(
        event, action=_other(rng, lexicon().actions[event.action.group], event.action)
    )


def change_attribute(rng: random.Random, event: Event) -> Event:
    """Another value of the agent's attribute, or an attribute where it has none."""
    old = event.agent.attribute
    new = (
        _attribute(rng, event.agent.kind.group)
        if old is None
        else _other(rng, lexicon().attributes[old.group], old)
    )
    return replace(event, agent=replace(event.agent, attribute=new))


def drop_attribute(_rng: random.Random, event: Event) -> Event:
    """Agent and patient without attributes."""
    patient = event.patient and replace(event.patient, attribute=None)
    return replace(event, agent=replace(event.agent, attribute=None), patient=patient)


def change_adjunct(rng: random.Random, event: Event) -> Event:
    """Another place, time or manner; one is added where the slot is empty."""
    slot, items = rng.choice(_adjuncts())
    old = getattr(event, slot)
    new = zipf_choice(rng, items) if old is None else _other(rng, items, old)
    return _with_adjunct(event, slot, new)


def drop_adjuncts(_rng: random.Random, event: Event) -> Event:
    """No place, time and manner."""
    return replace(event, place=None, time=None, manner=None)


def _with_adjunct(event: Event, slot: str, concept: Concept) -> Event:
    changed: dict[str, Any] = {slot: concept}
    return replace(event, **changed)


def swap_roles(rng: random.Random, event: Event) -> Event:
    """Agent and patient exchanged where the action allows it; else another patient."""
    agents, patients = lexicon().frames[event.action.group]
    if (
        event.patient is None
        or event.patient.kind.group not in agents
        or event.agent.kind.group not in patients
    ):
        return change_patient(rng, event)
    return replace(event, agent=event.patient, patient=event.agent)


def negate(_rng: random.Random, event: Event) -> Event:
    """The opposite statement."""
    return replace(event, negated=not event.negated)


def generalize(rng: random.Random, event: Event) -> Event:
    """Agent or patient replaced by the word above its category: a dog becomes an animal."""
    above = lexicon().hypernyms
    if event.patient is not None and rng.random() < 0.5:
        return replace(
            event, patient=replace(event.patient, kind=above[event.patient.kind.group])
        )
    return replace(
        event, agent=replace(event.agent, kind=above[event.agent.kind.group])
    )


def add_detail(rng: random.Random, event: Event) -> Event:
    """A place, time, manner or attribute that was open; another event where none was."""
    empty = [
        (slot, items) for slot, items in _adjuncts() if getattr(event, slot) is None
    ]
    if event.agent.attribute is None and (not empty or rng.random() < 0.3):
        return change_attribute(rng, event)
    if empty:
        slot, items = rng.choice(empty)
        return _with_adjunct(event, slot, zipf_choice(rng, items))
    return other_event(rng, event)


def other_event(rng: random.Random, event: Event) -> Event:
    """Something else that the same agent does."""
    words = lexicon()
    frames = [
        frame
        for frame, (agents, _) in words.frames.items()
        if event.agent.kind.group in agents
    ]
    frame = rng.choice([name for name in frames if name != event.action.group])
    patients = words.frames[frame][1]
    action = zipf_choice(rng, words.actions[frame])
    return Event(
        event.agent, action, _thing(rng, patients) if patients else None, event.place
    )


EDITS: tuple[Edit, ...] = (
    change_agent,
    change_patient,
    change_action,
    change_attribute,
    drop_attribute,
    change_adjunct,
    drop_adjuncts,
    swap_roles,
)
