"""The generator of the sample's text: the scores' formula, edits, wording; and that it made what ships."""

import random
import re
from collections import Counter
from dataclasses import replace

import pytest

from flowbert.data import sample
from tools.sample import make, meaning
from tools.sample.lexicon import Concept, inflect, lexicon
from tools.sample.meaning import Event, Thing, random_event, similarity_score, zipf_choice
from tools.sample.surface import render


def test_it_made_what_ships() -> None:
    assert make.sample_corpus() == sample.sample_corpus()
    assert make.sample_nli() == sample.sample_nli()
    for split in sample.SPLITS:
        assert make.sample_pairs(split) == sample.sample_pairs(split)


def test_zipf_choice_falls_with_the_rank() -> None:
    items = tuple(Concept(str(i), (str(i),), "x") for i in range(4))
    rng = random.Random(0)
    drawn = Counter(zipf_choice(rng, items).name for _ in range(20_000))
    total = sum(1 / r for r in (1, 2, 3, 4))
    for rank, item in enumerate(items, start=1):
        assert drawn[item.name] / 20_000 == pytest.approx(1 / rank / total, abs=0.015)


def _concept(group: str, index: int = 0) -> Concept:
    words = lexicon()
    return {**words.entities, **words.actions, **words.attributes, "place": words.places}[group][index]


@pytest.fixture
def event() -> Event:
    return Event(Thing(_concept("person")), _concept("handling"), Thing(_concept("object")))


def test_score_of_equal_meanings_is_five(event: Event) -> None:
    assert similarity_score(event, event) == 5.0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"negated": True}, 2.5),
        ({"agent": Thing(_concept("person", 1))}, round(5 * (3 + 3 + 0.4 * 3) / 9, 2)),
        ({"agent": Thing(_concept("animal"))}, round(5 * 6 / 9, 2)),
        ({"agent": Thing(_concept("person"), _concept("size"))}, round(5 * (6 + 0.75 * 3) / 9, 2)),
        ({"action": _concept("handling", 1)}, round(5 * (6 + 0.4 * 3) / 9, 2)),
        ({"patient": None}, round(5 * 6 / 9, 2)),
        ({"place": _concept("place")}, 4.5),
    ],
)
def test_score_follows_the_documented_formula(event: Event, change: dict[str, object], expected: float) -> None:
    other = replace(event, **change)  # type: ignore[arg-type]
    assert similarity_score(event, other) == similarity_score(other, event) == expected


def test_swapping_the_roles_lowers_the_score_although_the_words_stay() -> None:
    first = Event(Thing(_concept("person")), _concept("chase"), Thing(_concept("animal")))
    swapped = meaning.swap_roles(random.Random(0), first)
    assert (swapped.agent, swapped.patient) == (first.patient, first.agent)
    assert similarity_score(first, swapped) == round(5 / 3, 2)


@pytest.mark.parametrize("edit", [*meaning.EDITS, meaning.negate, meaning.other_event, meaning.add_detail])
def test_edits_keep_meanings_sayable(edit: meaning.Edit) -> None:
    rng = random.Random(3)
    frames = lexicon().frames
    for _ in range(300):
        edited = edit(rng, random_event(rng))
        agents, patients = frames[edited.action.group]
        assert edited.agent.kind.group in agents
        assert (edited.patient is None) == (not patients)
        if edited.patient is not None:
            assert edited.patient.kind.group in patients


def test_rendering_varies_the_wording_but_not_the_meaning() -> None:
    rng = random.Random(0)
    chased = Event(Thing(_concept("animal")), _concept("chase"), Thing(_concept("animal", 1)), _concept("place"))
    wordings = {render(chased, rng) for _ in range(400)}
    assert len(wordings) > 50
    assert any(" by " in wording for wording in wordings)
    assert any(wording.startswith(("In the park, ", "At the park, ")) for wording in wordings)
    for wording in wordings:
        assert re.search("dog|hound", wording.lower())
        assert re.search("cat|feline", wording.lower())
        assert "park" in wording


def test_synonyms_belong_to_one_concept() -> None:
    words = lexicon()
    for groups in (words.entities, words.actions, words.attributes):
        forms = [form for concepts in groups.values() for concept in concepts for form in concept.forms]
        assert len(forms) == len(set(forms))


@pytest.mark.parametrize(
    ("verb", "ing", "past", "participle"),
    [
        ("chase", "chasing", "chased", "chased"),
        ("carry", "carrying", "carried", "carried"),
        ("play", "playing", "played", "played"),
        ("watch", "watching", "watched", "watched"),
        ("chop", "chopping", "chopped", "chopped"),
        ("drive", "driving", "drove", "driven"),
        ("lie down", "lying down", "lay down", "lain down"),
    ],
)
def test_inflection(verb: str, ing: str, past: str, participle: str) -> None:
    forms = inflect(verb)
    assert (forms.base, forms.ing, forms.past, forms.participle) == (verb, ing, past, participle)
