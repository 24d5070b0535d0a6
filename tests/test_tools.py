"""The scripts in tools/: the sample's text is reproduced, an incomplete wheel is noticed."""

import random
import zipfile
from pathlib import Path

import pytest

from flowbert.data import sample
from tools.check_wheel import missing_files
from tools.sample import make, meaning
from tools.sample.lexicon import inflect, lexicon


def test_the_sample_is_reproduced() -> None:
    assert make.sample_corpus() == sample.sample_corpus()
    assert make.sample_nli() == sample.sample_nli()
    for split in sample.SPLITS:
        assert make.sample_pairs(split) == sample.sample_pairs(split)


def test_its_files_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.write(tmp_path)
    monkeypatch.setattr(sample, "_FOLDER", tmp_path)
    pairs = sample.sample_pairs.__wrapped__("dev")
    assert pairs == make.sample_pairs("dev")


@pytest.mark.parametrize("edit", [*meaning.EDITS, meaning.negate, meaning.add_detail])
def test_edits_give_meanings_with_a_wording(edit: meaning.Edit) -> None:
    rng = random.Random(3)
    for _ in range(50):
        event = meaning.random_event(rng)
        edited = edit(rng, event)
        agents, patients = lexicon().frames[edited.action.group]
        assert edited.agent.kind.group in agents
        assert (edited.patient is None) == (not patients)
        score = meaning.similarity_score(event, edited)
        assert 0 <= score <= meaning.similarity_score(event, event) == 5


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("carry", ("carrying", "carried", "carried")),
        ("lie down", ("lying down", "lay down", "lain down")),
        ("chase", ("chasing", "chased", "chased")),
    ],
)
def test_inflection(verb: str, forms: tuple[str, ...]) -> None:
    inflected = inflect(verb)
    assert (inflected.ing, inflected.past, inflected.participle) == forms


def test_an_incomplete_wheel(tmp_path: Path) -> None:
    files = ["flowbert/__init__.py", "flowbert/data/words.txt", "configs/a.yaml"]
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as archive:
        archive.write(tmp_path / files[0], files[0])
    missing = missing_files(tmp_path / "some.whl", tmp_path)
    assert missing == ["flowbert/configs/a.yaml", "flowbert/data/words.txt"]
