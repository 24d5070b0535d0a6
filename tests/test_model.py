"""A model in memory and in its folder."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch

from encoders.tiny import SENTENCES, write_tiny
from exports.models import FLOW, TEXTS, fit_map
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.maps import Ranges
from flowbert.model import Model, find_model, load_fitted, model_folder

pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

MAPS = {
    "whitening": "whitening-6:shrinkage=0.1",
    "flow": FLOW,
    "standardization+flow": f"standardization+{FLOW}",
}


def check_close(actual: Any, expected: Any) -> None:
    """Compare vectors of batches of other sizes: to 168 u of float32, u = 6e-8."""
    bound = 1e-5 * float(np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=0, atol=bound)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with three models, beside its encoder."""
    path = tmp_path_factory.mktemp("models")
    for model in make_models(write_tiny(path / "bert")).values():
        model.save(path / "run" / "model")
    return path


def make_models(path: Path) -> dict[str, Model]:
    encoder = SentenceEncoder(path, pooling="idf", count_over=TEXTS)
    rows = encoder.encode(TEXTS)
    models = {"raw": Model(encoder)}
    for name, text in MAPS.items():
        fitted = fit_map(text, rows)
        models[name] = Model(encoder, fitted, Ranges.of([fitted.transform(rows)]))
    return models


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return Model.load(folder / "run")


def test_what_is_saved_is_loaded(folder: Path, model: Model) -> None:
    for name, expected in make_models(folder / "bert").items():
        loaded = Model.load(folder / "run", name)
        assert loaded.map_name == expected.map_name == name
        assert loaded.encoder.identity == expected.encoder.identity
        check_close(loaded.encode(SENTENCES), expected.encode(SENTENCES))
    assert model.map_name == "flow"


def test_maps_of_a_folder(folder: Path) -> None:
    assert model_folder(folder / "run") == folder / "run" / "model"
    assert find_model(folder / "run" / "model") == folder / "run" / "model"
    assert model_folder(folder / "bert") is None
    assert Model.load(folder / "bert").map is None
    fitted, scale = load_fitted(folder / "run" / "model", "raw")
    assert fitted is None
    assert scale is None


def test_options_of_encode(model: Model) -> None:
    vectors = model.encode(SENTENCES)
    assert vectors.dtype == np.float32
    check_close(model.encode(SENTENCES[0]), vectors[0])
    check_close(model.encode(SENTENCES, batch_size=2), vectors)
    shorter = model.encode(SENTENCES, truncate_dim=3, normalize_embeddings=True)
    lengths = np.linalg.norm(vectors[:, :3], axis=1, keepdims=True)
    check_close(shorter, vectors[:, :3] / lengths)
    tensor = model.encode(SENTENCES, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), vectors)


@pytest.mark.parametrize("size", [None, 3])
def test_vectors_of_fewer_bits(size: int | None, model: Model) -> None:
    vectors = model.encode(TEXTS, truncate_dim=size)
    codes = model.encode(TEXTS, truncate_dim=size, precision="int8")
    assert model.scale is not None
    scale = model.scale.first(vectors.shape[1])
    # Half a step of 1/255 of the range, and the rounding of float32.
    bound = 0.51 * (scale.high - scale.low) / 255
    assert (np.abs(scale.restore(codes) - vectors) <= bound).all()
    bits = model.encode(TEXTS, truncate_dim=size, precision="binary")
    np.testing.assert_array_equal(bits, np.packbits(vectors > 0, axis=1))


def test_an_encoder_that_has_moved(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    shutil.copytree(folder / "bert", tmp_path / "moved")
    moved = Model.load(tmp_path / "run", encoder=str(tmp_path / "moved"))
    assert moved.encoder.path == str(tmp_path / "moved")
    write_tiny(tmp_path / "other", seed=1)
    with pytest.raises(UserError, match=r"^encoder: .*weights .*model\.safetensors"):
        Model.load(tmp_path / "run", encoder=str(tmp_path / "other"))


def test_a_map_of_vectors_has_no_sentences(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    model = Model(None, fit_map("whitening-3", rows))
    model.save(tmp_path / "model")
    fitted, _ = load_fitted(find_model(tmp_path))
    assert fitted is not None
    assert model.map is not None
    np.testing.assert_array_equal(fitted.transform(rows), model.map.transform(rows))
    with pytest.raises(UserError, match=r"^model: .*fitted on vectors"):
        Model.load(tmp_path)


def flip(name: str) -> Callable[[Path], None]:
    """Change a bit in the middle of a file."""

    def change(run: Path) -> None:
        path = run / "model" / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    return change


def rewrite(text: str) -> Callable[[Path], object]:
    return lambda run: (run / "model" / "encoder.json").write_text(text)


DAMAGED = [
    (flip("encoder.json"), "encoder.json"),
    (rewrite("[]"), "encoder.json"),
    (rewrite('{"encoder": {}, "identity": {}, "digest": 3}'), "encoder.json"),
    (flip("flow.safetensors"), "flow.safetensors"),
    (flip("flow.int8"), "flow.int8"),
    (flip("token_weights.safetensors"), "token_weights.safetensors"),
]


@pytest.mark.parametrize(("damage", "file"), DAMAGED)
def test_damaged_files(
    damage: Callable[[Path], object], file: str, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    damage(tmp_path / "run")
    with pytest.raises(UserError, match=file):
        Model.load(tmp_path / "run")


MISTAKES: list[tuple[Callable[[Path], Any], str]] = [
    (lambda path: Model.load(path / "run", "zca"), "method: received 'zca'"),
    (lambda path: Model.load(path / "bert", "flow"), "method: received 'flow'"),
    (lambda path: Model.load(path / "none"), "encoder: received"),
    (lambda path: Model.load(path / "run").encode([]), "sentences: received none"),
    (lambda path: find_model(path / "bert"), "model: received"),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_mistakes(
    call: Callable[[Path], Any],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=f"^{message}"):
        call(folder)


def test_export(model: Model, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    reopened = Model.load(model.export(tmp_path / "to"))
    check_close(reopened.encode(SENTENCES), model.encode(SENTENCES))
