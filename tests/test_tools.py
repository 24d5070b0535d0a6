"""The scripts in tools/: the sample's text, what a wheel lacks, the tables of research notes."""

import zipfile

import numpy as np
import pytest

from flowbert.data import sample
from tools import encoder_choice
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


@pytest.mark.parametrize(
    "density", ["Gaussian", pytest.param("flow", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore")  # of few sentences
def test_a_space_shares_much_with_its_rotation_and_nothing_with_noise(
    density,
):
    rng = np.random.default_rng(0)
    rows, noise, change = (rng.normal(size=(500, 4)) for _ in range(3))
    near = rows @ np.linalg.qr(rng.normal(size=(4, 4)))[0] + 0.1 * change
    values = {"rows": rows, "near": near, "noise": noise}
    spaces = {(name, "", ""): x.astype(np.float32) for name, x in values.items()}
    shared = encoder_choice.shared_information(spaces, density)
    assert shared.loc[0, 1] > 3
    assert abs(shared.loc[0, 2]) < 0.2
    assert np.array_equal(shared, shared.T, equal_nan=True)
