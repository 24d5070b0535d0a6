"""The scripts in tools/: the sample's text, what a wheel lacks, the tables of research notes."""

import pytest

from flowbert.data import sample
from tools.sample import make


@pytest.mark.slow
def test_the_sample_is_reproduced():
    assert make.sample_corpus() == sample.sample_corpus()
    assert make.sample_nli() == sample.sample_nli()
    for split in sample.SPLITS:
        assert make.sample_pairs(split) == sample.sample_pairs(split)
