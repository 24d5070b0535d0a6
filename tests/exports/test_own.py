"""A custom export format, in a file outside of the package: named by its import path."""

import sys
from pathlib import Path

import numpy as np
import pytest

from exports.models import TEXTS, fit_map
from flowbert.cli import main
from flowbert.encoders import SentenceEncoder
from flowbert.model import Model

# Some of the texts are cut on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:sentences. some are longer")

CODE = Path(__file__).parents[2] / "examples/extend/format.py"


@pytest.fixture
def format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    code = CODE.read_text(encoding="utf-8")
    (tmp_path / "own_formats.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_formats", raising=False)
    return "own_formats.Kernel"


@pytest.fixture(scope="module")
def model() -> Model:
    encoder = SentenceEncoder("builtin-sample", max_length=64)
    return Model(encoder, fit_map("whitening-8", encoder.encode(TEXTS)))


def test_it_is_written_verified_and_described(
    format: str, model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(tmp_path / "run" / "model")
    folder = tmp_path / "to"
    main(["export", str(tmp_path / "run"), "--to", str(folder), "--format", format])
    assert str(folder) in capsys.readouterr().out
    with np.load(folder / "whitening.npz") as saved:
        vectors = (model.encoder.encode(TEXTS) + saved["bias"]) @ saved["kernel"]
    np.testing.assert_allclose(vectors, model.encode(TEXTS), atol=1e-4)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "library_name: flowbert" in card
    assert f'numpy.load("{folder.name}/whitening.npz")' in card
