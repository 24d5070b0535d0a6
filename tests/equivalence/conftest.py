"""The labs: the built-in sample, and real encoders on the STS benchmark."""

import pytest

from equivalence.ways import Lab, write_task
from flowbert.encoders import EncoderOptions


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A task of 60 pairs, with 80 to learn from, under the sample's encoder."""
    sizes = {"train": 80, "dev": 30, "test": 60}
    senteval = write_task(tmp_path_factory.mktemp("data"), sizes)
    options = EncoderOptions(layers="first_last")
    return Lab(tmp_path_factory.mktemp("lab"), options, "Chinese-STS-B", senteval)
