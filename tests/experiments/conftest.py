"""What the tests of comparisons share."""

from pathlib import Path

import pytest

from experiments.small import WordSums, write_pairs


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two files of scored pairs without a common sentence."""
    folder = tmp_path_factory.mktemp("pairs")
    return [
        write_pairs(folder / "one.tsv"),
        write_pairs(folder / "two.tsv", start=500, count=40),
    ]


@pytest.fixture
def encoder() -> WordSums:
    return WordSums()


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "results.json"
