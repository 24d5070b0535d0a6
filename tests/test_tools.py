"""The scripts in tools/: the sample's text, what a wheel lacks, the tables of research notes."""

import zipfile

from flowbert.data import sample
from tools.check_wheel import missing_files
from tools.sample import make


def test_the_sample_is_reproduced():
    assert make.sample_corpus() == sample.sample_corpus()
    assert make.sample_nli() == sample.sample_nli()
    for split in sample.SPLITS:
        assert make.sample_pairs(split) == sample.sample_pairs(split)


def test_an_incomplete_wheel(tmp_path):
    files = ["flowbert/__init__.py", "flowbert/data/words.txt", "configs/a.yaml"]
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as archive:
        archive.write(tmp_path / files[0], files[0])
    missing = missing_files(tmp_path / "some.whl", tmp_path)
    assert missing == ["flowbert/configs/a.yaml", "flowbert/data/words.txt"]
