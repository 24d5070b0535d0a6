"""The contract, on every method: chunks, merging, saving, round trips, bad input."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from flowbert.calibration import Calibration, Identity, LearnedRemoval, NotFittedError, Whitening, methods
from flowbert.errors import UserError
from flowbert.methods import make_calibration

# Every method of the registry; learned removal needs labelled pairs, too: it has a test of its own.
SPECS = [name for name, kind in methods().items() if kind is not LearnedRemoval]
SPECS += ["whitening-5:shrinkage=0.1", "whitening:shrinkage=ledoit-wolf:exponent=-0.35"]
SPECS += ["nulling-2", "nulling:standardize=true"]


def data(rows: int = 300, dim: int = 9, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, dim, generator=generator) @ torch.randn(dim, dim, generator=generator) + 2


@pytest.mark.parametrize("spec", SPECS)
def test_chunks_and_merging_equal_one_fit(spec: str) -> None:
    x = data()
    whole = make_calibration(spec).fit(x).transform(x, dtype=torch.float64)
    parts = [make_calibration(spec).partial_fit(chunk) for chunk in torch.split(x, [50, 200, 0, 50])]
    merged = parts[0].merge(parts[3]).merge(parts[2]).merge(parts[1])
    torch.testing.assert_close(merged.transform(x, dtype=torch.float64), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("spec", SPECS)
def test_affine_is_the_transform(spec: str) -> None:
    x = data()
    fitted = make_calibration(spec).fit(x)
    weight, bias = fitted.affine()
    assert weight.dtype == bias.dtype == torch.float64
    torch.testing.assert_close(fitted.transform(x), (x.double() @ weight + bias).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_inverse_is_a_generalized_inverse(spec: str) -> None:
    x = data()
    fitted = make_calibration(spec).fit(x)
    y = fitted.transform(x, dtype=torch.float64)
    back = fitted.inverse_transform(y, dtype=torch.float64)
    torch.testing.assert_close(fitted.transform(back, dtype=torch.float64), y, rtol=1e-8, atol=1e-8)
    if y.shape == x.shape and not spec.startswith("nulling"):
        torch.testing.assert_close(back.float(), x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_saved_file_gives_the_same_and_can_go_on(spec: str, tmp_path: Path) -> None:
    x = data()
    fitted = make_calibration(spec).fit(x[:200])
    loaded = Calibration.load(fitted.save(tmp_path / "new" / "c.safetensors"))
    assert type(loaded) is type(fitted)
    assert loaded.config == fitted.config
    assert torch.equal(loaded.transform(x), fitted.transform(x))
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["c.safetensors"]
    expected = make_calibration(spec).fit(x).transform(x)
    torch.testing.assert_close(loaded.partial_fit(x[200:]).transform(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_numpy_and_low_precision_go_in_float32_comes_out(spec: str) -> None:
    x = data()
    fitted = make_calibration(spec).fit(x.numpy())
    assert fitted.transform(x.numpy()).dtype == torch.float32
    assert torch.equal(fitted.transform(x.numpy()), fitted.transform(x))
    assert fitted.transform(x.bfloat16()).dtype == torch.float32
    assert fitted.transform(x[:0]).shape[0] == 0


@pytest.mark.parametrize("spec", SPECS)
def test_bad_rows_are_counted(spec: str) -> None:
    x = data()
    x[3, 1] = float("nan")
    x[7, 1] = float("inf")
    with pytest.raises(
        UserError, match=r"2 NaN or infinite values in 2 of 300 rows and 1 of 9 columns \(first row: 3\)"
    ):
        make_calibration(spec).fit(x)
    fitted = make_calibration(spec).fit(data())
    with pytest.raises(ValueError, match="7 dimensions; allowed: 9"):
        fitted.transform(torch.zeros(2, 7))
    with pytest.raises(ValueError, match="7 dimensions; allowed: 9"):
        fitted.partial_fit(torch.zeros(2, 7))
    with pytest.raises(ValueError, match=r"shape \(9,\)"):
        fitted.transform(torch.zeros(9))
    with pytest.raises(UserError, match="0 rows"):
        make_calibration(spec).fit(np.zeros((0, 9)))


def test_not_fitted_says_what_to_call() -> None:
    for action in (lambda: Whitening().transform(data()), Whitening().affine, Identity().affine):
        with pytest.raises(NotFittedError, match="call fit or partial_fit"):
            action()


def test_merge_of_another_method_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot merge a ZCA; allowed: a Whitening"):
        Whitening().merge(make_calibration("zca"))
    with pytest.raises(TypeError, match="cannot merge a ZCA"):
        Identity().merge(make_calibration("zca"))
    with pytest.raises(ValueError, match="3 dimensions"):
        Identity().fit(torch.ones(1, 2)).merge(Identity().fit(torch.ones(1, 3)))


def test_state_of_an_unfitted_one_is_empty_and_lacking_tensors_are_named() -> None:
    assert Whitening().state_dict() == {}
    assert not Whitening().load_state_dict({}).fitted
    state = Whitening().fit(data()).state_dict()
    del state["map.weight"]
    with pytest.raises(UserError, match=r"lacks map\.weight"):
        Whitening().load_state_dict(state)


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        Calibration.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello, this is not a tensor file")
    with pytest.raises(UserError, match=r"the calibration is damaged .*fit and save it again"):
        Calibration.load(tmp_path / "text")
    path = make_calibration("zca").fit(data()).save(tmp_path / "zca")
    with pytest.raises(UserError, match="holds a ZCA; allowed: Whitening"):
        Whitening.load(path)
