"""Sentences of the built-in sample: one meaning, many wordings."""

import random

from tools.sample.lexicon import VerbForms, inflect
from tools.sample.meaning import Event, Thing, zipf_choice


def _with_article(rng: random.Random, phrase: str) -> str:
    if rng.random() < 0.5:
        return f"the {phrase}"
    return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"


def _noun_phrase(rng: random.Random, thing: Thing) -> str:
    noun = zipf_choice(rng, thing.kind.forms)
    if thing.attribute is None:
        return _with_article(rng, noun)
    attribute = zipf_choice(rng, thing.attribute.forms)
    if rng.random() < 0.15:
        return f"{_with_article(rng, noun)} that is {attribute}"
    return _with_article(rng, f"{attribute} {noun}")


def _active(rng: random.Random, verb: VerbForms, negated: bool) -> str:
    if rng.random() < 0.5:
        return f"is {'not ' if negated else ''}{verb.ing}"
    if not negated:
        return verb.past
    return f"never {verb.past}" if rng.random() < 0.2 else f"did not {verb.base}"


def _passive(rng: random.Random, verb: VerbForms, negated: bool) -> str:
    auxiliary = "is {}being" if rng.random() < 0.5 else "was {}"
    return " ".join(
        f"{auxiliary.format('not ' if negated else '')} {verb.participle}".split()
    )


def render(event: Event, rng: random.Random) -> str:
    """One wording of a meaning: synonyms, articles, tense, voice and order are drawn.

    Example:
        >>> from tools.sample.meaning import random_event
        >>> rng = random.Random(1)
        >>> render(random_event(rng), rng)
        'Rapidly, the lady is talking.'
    """
    verb = inflect(zipf_choice(rng, event.action.forms))
    agent = _noun_phrase(rng, event.agent)
    if event.patient is None:
        clause = f"{agent} {_active(rng, verb, event.negated)}"
    else:
        patient = _noun_phrase(rng, event.patient)
        if rng.random() < 0.3:
            clause = f"{patient} {_passive(rng, verb, event.negated)} by {agent}"
        else:
            clause = f"{agent} {_active(rng, verb, event.negated)} {patient}"
    return _sentence(
        rng,
        clause,
        [
            zipf_choice(rng, c.forms)
            for c in (event.place, event.time, event.manner)
            if c is not None
        ],
    )


def _sentence(rng: random.Random, clause: str, adjuncts: list[str]) -> str:
    rng.shuffle(adjuncts)
    if adjuncts and rng.random() < 0.25:
        first, *rest = adjuncts
        text = " ".join([f"{first},", clause, *rest])
    else:
        text = " ".join([clause, *adjuncts])
    return f"{text[0].upper()}{text[1:]}."
