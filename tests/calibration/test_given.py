"""Kernel and bias of BERT-whitening: the same vectors, no pickle, and usable like any fitted calibration."""

import pathlib
import pickle
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from flowbert.calibration import Calibration, GivenMap, methods
from flowbert.calibration.base import NotFittedError
from flowbert.errors import UserError
from flowbert.exports.compiled import compile_map

Floats = npt.NDArray[np.float64]


def rows(count: int = 300, dim: int = 6) -> Floats:
    random = np.random.default_rng(0)
    return random.normal(size=(count, dim)) @ random.normal(size=(dim, dim)) + 3


def kernel_and_bias(x: Floats) -> tuple[Floats, Floats]:
    """By the formulas of BERT-whitening: singular vectors of the covariance, scaled."""
    u, s, _ = np.linalg.svd(np.cov(x.T))
    return u @ np.diag(1 / np.sqrt(s)), -x.mean(axis=0, keepdims=True)


def normalized(y: Floats) -> Floats:
    result: Floats = y / np.linalg.norm(y, axis=1, keepdims=True)
    return result


@pytest.mark.parametrize("columns", [6, 2])
@pytest.mark.parametrize("form", ["npz", "folder"])
def test_vectors_are_the_same(tmp_path: Path, columns: int, form: str) -> None:
    x = rows()
    kernel, bias = kernel_and_bias(x)
    kernel = kernel[:, :columns]
    source = tmp_path / "w.npz" if form == "npz" else tmp_path
    if form == "npz":
        np.savez(source, kernel=kernel, bias=bias)
    else:
        np.save(tmp_path / "kernel.npy", kernel.astype(np.float32))
        np.save(tmp_path / "bias.npy", bias[0])
    given = GivenMap.read(source)
    expected = normalized((x + bias) @ kernel)
    np.testing.assert_allclose(normalized(given.transform(x).double().numpy()), expected, atol=1e-5)
    assert (given.dim, given.output_dim(6)) == (6, columns)
    back = given.inverse_transform(given.transform(x)).numpy()
    if columns == 6:
        np.testing.assert_allclose(back, x, atol=1e-4)


def test_it_is_saved_loaded_and_compiled_like_the_others(tmp_path: Path) -> None:
    x = rows()
    given = GivenMap.of(*kernel_and_bias(x))
    loaded = Calibration.load(given.save(tmp_path / "whitening.safetensors"))
    assert isinstance(loaded, GivenMap)
    assert loaded.fitted
    assert loaded.flaw is None
    assert np.array_equal(loaded.transform(x).numpy(), given.transform(x).numpy())
    weight, bias = loaded.affine()
    np.testing.assert_allclose(x @ weight.numpy() + bias.numpy(), given.transform(x).numpy(), atol=1e-4)
    compiled = compile_map(loaded, 6)(given.affine_map().center[None])
    np.testing.assert_allclose(compiled.numpy(), 0, atol=1e-9)


def test_it_is_never_fitted() -> None:
    assert "given" not in methods()
    given = GivenMap.of(*kernel_and_bias(rows()))
    for refit in (given.fit, given.partial_fit):
        with pytest.raises(TypeError, match="a GivenMap is not fitted"):
            refit(rows())
    assert given.fitted
    with pytest.raises(NotFittedError, match="only loaded"):
        GivenMap().transform(rows())
    with pytest.raises(UserError, match="embeddings of size 5; allowed: 6"):
        given.output_dim(5)


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    kernel, bias = kernel_and_bias(rows())
    content = {"kernel": kernel, "bias": bias}
    (tmp_path / "w.pkl").write_bytes(pickle.dumps(content))
    np.savez(tmp_path / "objects.npz", kernel=np.array([content], dtype=object), bias=bias)
    np.savez(tmp_path / "names.npz", W=kernel, bias=bias)
    np.savez(tmp_path / "shapes.npz", kernel=kernel, bias=bias[:, :3])
    np.savez(tmp_path / "nan.npz", kernel=kernel * np.nan, bias=bias)
    np.save(tmp_path / "one.npy", kernel)
    (tmp_path / "empty.npz").write_bytes(b"")
    np.savez(tmp_path / "cut.npz", kernel=kernel, bias=bias)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:-60])
    for name, message in (
        ("w.pkl", r"pickled, which is never read here.*numpy\.savez\('map\.npz', \*\*pickle\.loads\("),
        ("objects.npz", "pickled, which is never read here"),
        ("names.npz", "holds no kernel and bias"),
        ("one.npy", "holds no kernel and bias"),
        ("shapes.npz", r"kernel \(6, 6\), bias \(1, 3\); allowed: \(D, k\), and D numbers"),
        ("nan.npz", "NaN or infinity"),
        ("empty.npz", "No data left"),
        ("cut.npz", "needed: an .npz file"),
        ("none.npz", "No such file"),
        ("", "No such file"),  # a folder without them
    ):
        with pytest.raises(UserError, match=message) as caught:
            GivenMap.read(tmp_path / name)
        assert str(tmp_path) in str(caught.value)


def test_the_line_for_pickled_files_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the message says to do makes a file that is read."""
    monkeypatch.chdir(tmp_path)
    kernel, bias = kernel_and_bias(rows())
    Path("w.pkl").write_bytes(pickle.dumps({"kernel": kernel, "bias": bias}))
    with pytest.raises(UserError) as caught:
        GivenMap.read("w.pkl")
    line = str(caught.value).partition("save it anew: ")[2].partition("; needed")[0]
    exec(line, {"numpy": np, "pathlib": pathlib, "pickle": pickle, "FILE": "w.pkl"})
    assert np.array_equal(GivenMap.read("map.npz").affine_map().weight.numpy(), kernel)
