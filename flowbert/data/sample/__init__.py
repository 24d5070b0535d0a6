"""A small English-like sample for running the real path fast, and a tiny encoder pretrained on it.

It exercises every step of a real run in seconds and needs no download. Its figures say nothing about real text, and
which method wins on it says nothing about which one wins on real text. ``tools/sample/`` made it: a meaning is drawn
(who does what to whom, where, when, how, negated or not), then worded with synonyms.
"""

from functools import cache
from pathlib import Path

from flowbert.data.readers import read_delimited

SPLITS = ("train", "dev", "test")
Pair = tuple[str, str, float]
NLIPair = tuple[str, str, str]
_HERE = Path(__file__).parent


@cache
def sample_corpus() -> tuple[str, ...]:
    """20,000 sentences to fit on or to pretrain on, about 9 words each; a frequent one may occur more than once."""
    return tuple(sentence for (sentence,) in read_delimited(_HERE / "corpus.txt.gz"))


@cache
def sample_pairs(split: str) -> tuple[Pair, ...]:
    """Pairs (sentence 1, sentence 2, score in [0, 5]) of one split of the STS-like task: 3,000, 750 and 1,000.

    The second meaning is the first one after 0 to 5 random edits, the negation of that in one pair of eight, or an
    unrelated one in one of eight. The score says how much of the meaning they share.
    """
    rows = read_delimited(_HERE / "sts.tsv.gz")
    return tuple((first, second, float(score)) for part, first, second, score in rows if part == split)


@cache
def sample_nli() -> tuple[NLIPair, ...]:
    """12,000 pairs (premise, hypothesis, label): for each premise entailment, neutral, contradiction, in this order."""
    return tuple((premise, hypothesis, label) for premise, hypothesis, label in read_delimited(_HERE / "nli.tsv.gz"))


def encoder_path() -> Path:
    """Folder of the tiny BERT inside the package, pretrained on :func:`sample_corpus`; transformers loads it."""
    return _HERE / "tiny-bert"
