"""A small English-like sample for running the real path fast, and a tiny encoder pretrained on it.

Sentences are generated from a seed: a meaning is drawn (who does what to whom, where, when, how, negated or not), then
worded with synonyms, in either voice, with adjuncts in any order. It is a sample: it exercises every step of a real run
in seconds and needs no download. Its figures say nothing about real text, and which method wins on it says nothing
about which one wins on real text.
"""

import random
from functools import cache
from importlib.resources import files
from pathlib import Path

from flowbert.data.sample import meaning
from flowbert.data.sample.surface import render

SEED = 2020
CORPUS_SIZE = 20_000
PAIR_COUNTS = {"train": 3000, "dev": 750, "test": 1000}
TRIPLE_COUNT = 4000

Pair = tuple[str, str, float]
NLIPair = tuple[str, str, str]


def _stream(name: str) -> random.Random:
    """A generator of its own for each part, so that no part's size changes another part."""
    return random.Random(f"flowbert sample {SEED} {name}")


@cache
def sample_corpus() -> tuple[str, ...]:
    """Sentences to fit on or to pretrain on, about 9 words each; a frequent one may occur more than once."""
    rng = _stream("corpus")
    return tuple(render(meaning.random_event(rng), rng) for _ in range(CORPUS_SIZE))


@cache
def sample_pairs(split: str) -> tuple[Pair, ...]:
    """Pairs (sentence 1, sentence 2, score in [0, 5]) of one split of the STS-like task.

    The second meaning is the first one after 0 to 5 random edits, the negation of that in one pair of eight, or an
    unrelated one in one of eight. The score is :func:`flowbert.data.sample.meaning.similarity_score`.

    Raises:
        KeyError: If the split is not ``train``, ``dev`` or ``test``.
    """
    count = PAIR_COUNTS[split]
    rng = _stream(f"pairs {split}")
    return tuple(_pair(rng) for _ in range(count))


def _pair(rng: random.Random) -> Pair:
    first = meaning.random_event(rng)
    second = first
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 5))):
        second = rng.choice(meaning.EDITS)(rng, second)
    drawn = rng.random()
    if drawn < 1 / 8:
        second = meaning.random_event(rng)
    elif drawn < 1 / 4:
        second = meaning.negate(rng, second)
    return render(first, rng), render(second, rng), meaning.similarity_score(first, second)


@cache
def sample_nli() -> tuple[NLIPair, ...]:
    """Pairs (premise, hypothesis, label): for each premise entailment, neutral and contradiction, in this order.

    Premises are not negated (under a negation dropping a detail is no entailment). Entailment drops attributes or
    adjuncts or names the word above; neutral adds a detail or tells of another event; contradiction negates, or changes
    agent, action or attribute.
    """
    rng = _stream("nli")
    return tuple(pair for _ in range(TRIPLE_COUNT) for pair in _premise_group(rng))


def _premise_group(rng: random.Random) -> list[NLIPair]:
    event = meaning.random_event(rng)
    if event.negated:
        event = meaning.negate(rng, event)
    premise = render(event, rng)
    edits = {
        "entailment": _entailment_edit(rng, event),
        "neutral": rng.choice((meaning.add_detail, meaning.add_detail, meaning.other_event)),
        "contradiction": rng.choice((meaning.negate, meaning.change_agent, meaning.change_action, _contrary_attribute)),
    }
    return [(premise, render(edit(rng, event), rng), label) for label, edit in edits.items()]


def _entailment_edit(rng: random.Random, event: meaning.Event) -> meaning.Edit:
    edits: list[meaning.Edit] = [meaning.generalize]
    if meaning.drop_attribute(rng, event) != event:
        edits.append(meaning.drop_attribute)
    if meaning.drop_adjuncts(rng, event) != event:
        edits.append(meaning.drop_adjuncts)
    return rng.choice(edits)


def _contrary_attribute(rng: random.Random, event: meaning.Event) -> meaning.Event:
    edit = meaning.negate if event.agent.attribute is None else meaning.change_attribute
    return edit(rng, event)


def encoder_path() -> Path:
    """Folder of the tiny BERT inside the package, pretrained on :func:`sample_corpus`; transformers loads it."""
    return Path(str(files("flowbert.data.sample") / "tiny-bert"))
