"""Reproduce the text of the built-in sample: ``python -m tools.sample.make``.

A meaning is drawn from a seed (who does what to whom, where, when, how, negated or not), then
worded with synonyms, in either voice, with adjuncts in any order. The tiny BERT beside the text was
trained on it by an earlier version, from random weights, and cannot be reproduced by this one.
"""

import gzip
import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tools.sample import meaning
from tools.sample.surface import render

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
    """Sentences of about 9 words; a frequent one may occur more than once."""
    rng = _stream("corpus")
    return tuple(render(meaning.random_event(rng), rng) for _ in range(CORPUS_SIZE))


@cache
def sample_pairs(split: str) -> tuple[Pair, ...]:
    """Pairs (sentence 1, sentence 2, score in [0, 5]) of one split of the STS-like task.

    The second meaning is the first one after 0 to 5 random edits, the negation of that in one pair
    of eight, or an unrelated one in one of eight.

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
    return (
        render(first, rng),
        render(second, rng),
        meaning.similarity_score(first, second),
    )


@cache
def sample_nli() -> tuple[NLIPair, ...]:
    """Pairs (premise, hypothesis, label): entailment, neutral and contradiction of each premise.

    Premises are not negated (under a negation dropping a detail is no entailment). Entailment drops
    attributes or adjuncts or generalizes; neutral adds a detail or is another event; contradiction
    negates, or changes agent, action or attribute.
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
        "neutral": rng.choice(
            (meaning.add_detail, meaning.add_detail, meaning.other_event)
        ),
        "contradiction": rng.choice(
            (
                meaning.negate,
                meaning.change_agent,
                meaning.change_action,
                _contrary_attribute,
            )
        ),
    }
    return [
        (premise, render(edit(rng, event), rng), label) for label, edit in edits.items()
    ]


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


def write(folder: Path) -> None:
    """Write the files that :mod:`flowbert.data.sample` reads."""
    pairs = (
        (split, *map(str, pair))
        for split in PAIR_COUNTS
        for pair in sample_pairs(split)
    )
    _write(folder / "corpus.txt.gz", ((sentence,) for sentence in sample_corpus()))
    _write(folder / "sts.tsv.gz", pairs)
    _write(folder / "nli.tsv.gz", sample_nli())


def _write(path: Path, rows: Iterable[tuple[str, ...]]) -> None:
    text = "".join("\t".join(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    write(Path(__file__).parents[2] / "flowbert" / "data" / "sample")
