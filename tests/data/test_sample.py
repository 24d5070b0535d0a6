"""The built-in sample: sizes, determinism, the scores' formula, and what the labels promise."""

import hashlib
import json
import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from flowbert.data.sample import (
    CORPUS_SIZE,
    PAIR_COUNTS,
    TRIPLE_COUNT,
    encoder_path,
    meaning,
    sample_corpus,
    sample_nli,
    sample_pairs,
)
from flowbert.data.sample.lexicon import Concept, inflect, lexicon
from flowbert.data.sample.meaning import Event, Thing, random_event, similarity_score, zipf_choice
from flowbert.data.sample.surface import render


def _digest(data: object) -> str:
    return hashlib.blake2b(json.dumps(data).encode(), digest_size=8).hexdigest()


def test_sizes() -> None:
    assert len(sample_corpus()) == CORPUS_SIZE == 20_000
    assert {split: len(sample_pairs(split)) for split in PAIR_COUNTS} == {"train": 3000, "dev": 750, "test": 1000}
    assert len(sample_nli()) == 3 * TRIPLE_COUNT == 12_000


def test_contents_are_pinned_on_every_machine() -> None:
    assert _digest(sample_corpus()) == "87f405ae5f90d8df"
    assert {split: _digest(sample_pairs(split)) for split in PAIR_COUNTS} == {
        "train": "a5521bbf16bdf4d2",
        "dev": "0e705534b75d733a",
        "test": "44f70679e7fd60c0",
    }
    assert _digest(sample_nli()) == "afa6c8d76005f342"


def test_parts_have_generators_of_their_own() -> None:
    assert not set(sample_pairs("train")) & set(sample_pairs("test"))


def test_unknown_split() -> None:
    with pytest.raises(KeyError, match="trial"):
        sample_pairs("trial")


def test_scores_spread_over_the_whole_range() -> None:
    scores = np.array([score for _, _, score in sample_pairs("test")])
    assert scores.min() == 0.0
    assert scores.max() == 5.0
    assert np.histogram(scores, bins=5, range=(0, 5))[0].min() >= 50
    assert len(np.unique(scores)) > 100
    np.testing.assert_array_equal(scores, scores.round(2))


def test_sentences_look_like_sentences() -> None:
    for sentence in sample_corpus():
        assert re.fullmatch(r"[A-Z][A-Za-z, ]*[a-z]\.", sentence), sentence
        assert "  " not in sentence
        assert not re.search(r"\b(a [aeiou]|an [^aeiou])", sentence.lower()), sentence


def test_word_frequencies_are_skewed_and_negation_is_there() -> None:
    words = Counter(word for s in sample_corpus() for word in re.findall("[a-z]+", s.lower()))
    counts = sorted(words.values(), reverse=True)
    assert 900 < len(words) < 1200
    assert sum(counts[:100]) / sum(counts) > 0.7
    negated = sum(bool(re.search(r"\b(not|never)\b", s)) for s in sample_corpus()) / CORPUS_SIZE
    assert 0.08 < negated < 0.12


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


def test_nli_groups_of_three_and_no_negated_premise() -> None:
    pairs = sample_nli()
    for start in range(0, len(pairs), 3):
        group = pairs[start : start + 3]
        assert len({premise for premise, _, _ in group}) == 1
        assert [label for _, _, label in group] == ["entailment", "neutral", "contradiction"]
        assert not re.search(r"\b(not|never)\b", group[0][0])
        assert not re.search(r"\b(not|never)\b", group[0][1] + group[1][1])
    contradictions = [hypothesis for _, hypothesis, label in pairs if label == "contradiction"]
    assert 0.2 < sum(bool(re.search(r"\b(not|never)\b", h)) for h in contradictions) / len(contradictions) < 0.6


def test_tiny_encoder_is_small_and_loads_by_path() -> None:
    from transformers import AutoTokenizer, BertModel

    folder = encoder_path()
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4_000_000
    model = BertModel.from_pretrained(folder, add_pooling_layer=False)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.config.vocab_size == len(tokenizer)
    ids = [token for ids in tokenizer(list(sample_corpus()[:2000]))["input_ids"] for token in ids]
    assert tokenizer.unk_token_id not in ids
    assert max(map(len, tokenizer(["An unseen word: Xylograph, #42!"])["input_ids"])) < 30
    assert tokenizer.unk_token_id not in tokenizer("An unseen word: Xylograph, #42!")["input_ids"]


def test_tiny_encoder_has_learned_something_of_the_meaning() -> None:
    import torch
    from scipy.stats import spearmanr
    from transformers import AutoTokenizer, BertModel

    model = BertModel.from_pretrained(encoder_path(), add_pooling_layer=False, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(encoder_path())
    pairs = sample_pairs("dev")

    def embed(sentences: list[str]) -> torch.Tensor:
        features = tokenizer(sentences, padding=True, return_tensors="pt")
        with torch.inference_mode():
            mask = features["attention_mask"][..., None]
            tokens = model(**features).last_hidden_state
        return torch.nn.functional.normalize((tokens * mask).sum(1) / mask.sum(1))

    cosine = (embed([a for a, _, _ in pairs]) * embed([b for _, b, _ in pairs])).sum(1)
    assert spearmanr(cosine.numpy(), [score for _, _, score in pairs]).statistic > 0.2
