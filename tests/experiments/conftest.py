"""What the tests of comparisons share."""

import pytest

from experiments.small import WordSums, write_pairs, write_words
from flowbert.data.sample import sample_corpus

SENTENCES = list(dict.fromkeys(sample_corpus()))[:500]


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """Two files of scored pairs without a common sentence."""
    folder = tmp_path_factory.mktemp("pairs")
    return [
        write_pairs(folder / "one.tsv"),
        write_pairs(folder / "two.tsv", start=500, count=40),
    ]


@pytest.fixture
def encoder():
    return WordSums()


@pytest.fixture
def output(tmp_path):
    return tmp_path / "results.json"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "own.txt"
    path.write_text("\n".join(SENTENCES))
    return str(path)


@pytest.fixture(scope="session")
def words(tmp_path_factory):
    return write_words(tmp_path_factory.mktemp("words") / "words.txt", SENTENCES)
