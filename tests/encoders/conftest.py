"""Networks that the tests of this room share."""

import shutil
from pathlib import Path

import pytest

from encoders.tiny import write_tiny
from flowbert.encoders import SentenceEncoder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Folder of a random checkpoint by kind of network, written once."""
    folder = tmp_path_factory.mktemp("tiny")

    def written(kind):
        path = folder / kind
        return path if path.is_dir() else write_tiny(path, kind)

    return written


@pytest.fixture
def folder(tiny, tmp_path):
    """A copy of a random BERT, to be changed."""
    return Path(shutil.copytree(tiny("bert"), tmp_path / "bert"))


@pytest.fixture(scope="session")
def bert(tiny):
    """A random BERT."""
    return SentenceEncoder(tiny("bert"))
