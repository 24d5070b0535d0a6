"""What the tests of comparisons share, for those of what is built on them."""

from experiments.conftest import corpus, output, pairs, words

__all__ = ["corpus", "output", "pairs", "words"]
