"""A small English-like sample that runs every step quickly, and a tiny encoder pretrained on it.

It exercises every step of a real run in seconds and needs no download. Its scores, and which
method wins on it, say nothing about real text. ``tools/sample/`` made it: a meaning is drawn (who
does what to whom, where, when, how, negated or not) and worded with synonyms.
"""

from functools import cache
from pathlib import Path

from flowbert.data.text_files import read_lines

BUILTIN = "builtin-sample"
SPLITS = ("train", "dev", "test")
_FOLDER = Path(__file__).parent


@cache
def sample_corpus() -> tuple[str, ...]:
    """20,000 sentences of about 9 words; a frequent one may occur more than once."""
    return tuple(read_lines(_FOLDER / "corpus.txt.gz"))


@cache
def sample_pairs(split: str) -> tuple[tuple[str, str, float], ...]:
    """Pairs (sentence 1, sentence 2, score in [0, 5]) of a split: 3,000, 750 and 1,000.

    The second meaning is the first one after 0 to 5 random edits, its negation in one pair of
    eight, or an unrelated one in one of eight. The score says how much of the meaning they share.
    """
    return tuple(
        (first, second, float(score))
        for name, first, second, score in _rows("sts.tsv.gz")
        if name == split
    )


@cache
def sample_nli() -> tuple[tuple[str, str, str], ...]:
    """12,000 pairs (premise, hypothesis, label).

    Each premise has an entailment, a neutral pair and a contradiction, in this order.
    """
    return tuple(
        (premise, hypothesis, label)
        for premise, hypothesis, label in _rows("nli.tsv.gz")
    )


def _rows(file: str) -> list[list[str]]:
    return [line.split("\t") for line in read_lines(_FOLDER / file)]


def sample_encoder_path() -> Path:
    """Folder of a tiny BERT pretrained on :func:`sample_corpus`; transformers loads it."""
    return _FOLDER / "tiny-bert"
