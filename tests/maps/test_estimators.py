"""Every map under scikit-learn's own checks, for numpy and torch alike."""

from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_get_feature_names_out_error,
    check_set_output_transform,
    check_transformer_get_feature_names_out,
)

from flowbert.errors import UserError
from flowbert.maps import (
    MAPS,
    ZCA,
    AffineMap,
    Flow,
    LabelledPairs,
    LearnedRemoval,
    Map,
    Raw,
    RemoveDirections,
    Standardization,
    Truncation,
    Whitening,
    load_map,
    save_map,
)
from flowbert.maps.moments import Moments
from helpers import fit, pairs_of, rows

# scikit-learn's data are a few rows of a few columns: too few for most maps, which they say.
pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

QUICK: dict[str, Any] = {
    "epochs": 1,
    "levels": 1,
    "depth": 1,
    "width": 8,
    "accelerator": "cpu",
}
AFFINE: list[AffineMap] = [
    Raw(),
    Standardization(),
    Truncation(),
    Truncation(n_components=2),
    Whitening(),
    Whitening(n_components=2, shrinkage=0.1),
    Whitening(shrinkage="oas"),
    Whitening(exponent=-0.35),
    ZCA(shrinkage=0.1),
    RemoveDirections(),
    RemoveDirections(n_directions=2, standardize=True),
    LearnedRemoval(n_directions=2),
]
EVERY: list[Map] = [*AFFINE, Flow(**QUICK)]
DEFAULT = [
    Raw(),
    Standardization(),
    Truncation(),
    Whitening(),
    ZCA(),
    RemoveDirections(),
]


class Supplied(LearnedRemoval):
    """Learns from random pairs where there are none: scikit-learn's checks have rows only."""

    name = ""  # it is no further map

    def fit_moments(self, moments: Moments, pairs: LabelledPairs | None = None) -> Self:
        return super().fit_moments(moments, pairs or pairs_of(rows(20, moments.dim)))

    def solve(self, moments: Moments) -> Any:
        if not hasattr(self, "weights_"):  # after partial_fit
            self.learn(moments, pairs_of(rows(20, moments.dim)))
        return super().solve(moments)


@pytest.fixture(params=EVERY, ids=str)
def estimator(request: pytest.FixtureRequest) -> Any:
    return clone(request.param)


def test_every_map_is_tested() -> None:
    assert {type(each) for each in EVERY} == {
        MAPS[name] for name in MAPS if name != "kernel"
    }


@pytest.mark.parametrize("estimator", [*DEFAULT, Supplied(), Flow(**QUICK)], ids=str)
def test_scikit_learns_checks(estimator: Any) -> None:
    checks = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = [(check["check_name"], check["exception"]) for check in checks]
    failed = [
        names
        for names, check in zip(failed, checks, strict=True)
        if check["status"] not in ("passed", "skipped")
    ]
    assert len(checks) > 40
    assert failed == []


@pytest.mark.filterwarnings(
    "ignore:X (has|does not have valid) feature names:UserWarning"
)
@pytest.mark.parametrize("estimator", [*DEFAULT, Supplied(), Flow(**QUICK)], ids=str)
def test_scikit_learns_checks_of_names_and_frames(estimator: Any) -> None:
    for check in (
        check_get_feature_names_out_error,
        check_transformer_get_feature_names_out,
        check_set_output_transform,
    ):
        check(type(estimator).__name__, estimator)


def test_torch_and_numpy_give_the_same_of_the_same_kind(estimator: Any) -> None:
    x = rows(300, 6).astype(np.float32)
    fitted = fit(estimator, x)
    from_numpy, from_torch = fitted.transform(x), fitted.transform(torch.from_numpy(x))
    assert isinstance(from_numpy, np.ndarray)
    assert isinstance(from_torch, torch.Tensor)
    assert from_numpy.dtype == np.float32
    assert np.array_equal(from_numpy, from_torch.numpy())
    by_torch = fit(clone(estimator), torch.from_numpy(x))
    assert np.array_equal(by_torch.transform(x), from_numpy)


def test_inverse_transform_returns_the_rows_where_nothing_is_reduced(
    estimator: Any,
) -> None:
    x = rows(300, 6)
    fitted = fit(estimator, x)
    mapped = fitted.transform(x)
    back = fitted.inverse_transform(mapped)
    assert back.shape == x.shape
    if mapped.shape == x.shape and not isinstance(
        estimator, RemoveDirections | LearnedRemoval
    ):
        # 6 x 6 products in float64, condition numbers below 1e3.
        np.testing.assert_allclose(back, x, atol=1e-9)
    else:
        again = fitted.transform(back)
        np.testing.assert_allclose(again, mapped, atol=1e-9)


@pytest.mark.parametrize("estimator", AFFINE, ids=str)
def test_chunks_and_moments_give_what_all_rows_give(estimator: AffineMap) -> None:
    x = rows(700, 6)
    whole = fit(clone(estimator), x)
    parts = clone(estimator)
    for chunk in np.array_split(x, 5):
        parts.partial_fit(chunk)
    known = clone(estimator)
    pairs = pairs_of(x)
    if isinstance(parts, LearnedRemoval):
        parts.fit_pairs(*pairs)
    known.fit_moments(Moments(6).update(torch.from_numpy(x)), pairs)
    for other in (parts, known):
        np.testing.assert_array_equal(other.transform(x), whole.transform(x))


@pytest.mark.parametrize("estimator", AFFINE, ids=str)
def test_weight_and_bias_are_the_map(estimator: AffineMap) -> None:
    x = rows(300, 6)
    fitted = fit(clone(estimator), x)
    weight, bias = fitted.affine()
    np.testing.assert_allclose(
        fitted.transform(x), x @ weight.numpy() + bias.numpy(), atol=1e-10
    )


def test_one_epoch_is_all_batches() -> None:
    x = rows(256, 8)  # four batches
    whole, share = (Flow(**{**QUICK, "epochs": value}).fit(x) for value in (1, 1.0))
    np.testing.assert_array_equal(whole.transform(x), share.transform(x))
    assert whole.score(x) > Flow(**{**QUICK, "epochs": 0.25}).fit(x).score(x)


def test_a_map_is_the_same_after_saving(estimator: Any, tmp_path: Path) -> None:
    x = pd.DataFrame(rows(200, 6), columns=list("abcdef"))
    fit(estimator, x)
    save_map(estimator, tmp_path / "map.safetensors")
    save_map(estimator, tmp_path / "again.safetensors")
    loaded: Any = load_map(tmp_path / "map.safetensors")
    assert (tmp_path / "map.safetensors").read_bytes() == (
        tmp_path / "again.safetensors"
    ).read_bytes()
    assert type(loaded) is type(estimator)
    assert loaded.get_params() == estimator.get_params()
    assert np.array_equal(loaded.transform(x), estimator.transform(x))
    assert list(loaded.feature_names_in_) == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(x.rename(columns={"a": "z"}))


def test_a_pipeline_is_the_same_after_saving(tmp_path: Path) -> None:
    x = rows(300, 6)
    pipeline = make_pipeline(
        Whitening(n_components=4), Standardization(), Flow(**QUICK)
    ).fit(x)
    save_map(pipeline, tmp_path / "map.safetensors")
    loaded = load_map(tmp_path / "map.safetensors")
    assert np.array_equal(loaded.transform(x), pipeline.transform(x))


def test_a_flawed_map_says_so_when_it_is_loaded(tmp_path: Path) -> None:
    save_map(Whitening().fit(rows(5, 8)), tmp_path / "map.safetensors")
    with pytest.warns(UserWarning, match="equally similar"):
        load_map(tmp_path / "map.safetensors")


@pytest.mark.parametrize("damage", ["missing", "cut", "changed", "other"])
def test_damaged_and_foreign_files_are_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "map.safetensors"
    if damage != "missing":
        save_map(Whitening().fit(rows(50, 3)), path)
        content = bytearray(path.read_bytes())
        content = content[:-3] if damage == "cut" else content
        content[-1] ^= 1
        path.write_bytes(b"{}" if damage == "other" else content)
    with pytest.raises(UserError, match=r"map\.safetensors"):
        load_map(path)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Whitening(n_components=0), "n_components: received 0"),
        (Whitening(n_components=7), "n_components: received 7"),
        (Whitening(shrinkage=1.5), "shrinkage: received 1.5"),
        (Whitening(shrinkage="ledoit"), "shrinkage: received 'ledoit'"),
        (ZCA(exponent=0.5), "exponent: received 0.5"),
        (ZCA(rank_tolerance=1), "rank_tolerance: received 1"),
        (Truncation(n_components=9), "n_components: received 9"),
        (RemoveDirections(n_directions=6), "n_directions: received 6"),
        (RemoveDirections(standardize="yes"), "standardize: received 'yes'"),  # type: ignore[arg-type]
        (LearnedRemoval(penalty=-1), "penalty: received -1"),
        (Flow(epochs=1.5), "epochs: received 1.5"),
        (Flow(steps=0), "steps: received 0"),
        (Flow(steps=2, epochs=2), "steps: received 2"),
        (Flow(noise=-1), "noise: received -1"),
        (Flow(mixing="swap"), "mixing: received 'swap'"),
    ],
    ids=str,
)
def test_parameters_that_are_not_allowed(estimator: Any, message: str) -> None:
    with pytest.raises(UserError) as by_check:
        estimator.output_dim(6)
    with pytest.raises(UserError) as by_fit:
        estimator.fit(rows(50, 6))
    assert message in str(by_check.value)
    assert message in str(by_fit.value)


@pytest.mark.parametrize(
    "wrong", [torch.ones(3), torch.empty(0, 4), torch.full((3, 4), torch.nan)], ids=str
)
def test_tensors_that_are_no_rows(estimator: Any, wrong: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="X: received"):
        estimator.fit(wrong)
